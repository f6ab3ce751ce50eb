//! Names of several parts that are no columns of tables: calls behind a point, and fields of structs.

use std::{collections::BTreeSet, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{self, Expr, FunctionArg, FunctionArguments, ObjectName, Value};

use super::exprs::parsed;
use crate::error::Result;

/// What tables are called in a statement.
pub(super) fn table_names(statement: &mut ast::Statement) -> BTreeSet<String> {
    struct Tables(BTreeSet<String>);

    impl ast::VisitorMut for Tables {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<()> {
            let name = match factor {
                ast::TableFactor::Table { alias: Some(alias), .. }
                | ast::TableFactor::Derived { alias: Some(alias), .. } => Some(alias.name.value.clone()),
                ast::TableFactor::Table { name, .. } => {
                    name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.clone())
                }
                _ => None,
            };
            self.0.extend(name);
            ControlFlow::Continue(())
        }
    }

    let mut tables = Tables(BTreeSet::new());
    let _ = ast::VisitMut::visit(statement, &mut tables);
    tables.0
}

/// `t.s.f`: the field of a struct of a table.
pub(super) fn field_of(parts: &[ast::Ident]) -> Result<Expr> {
    let (column, fields) = parts.split_at(2);
    fields.iter().try_fold(Expr::CompoundIdentifier(column.to_vec()), |value, field| {
        let field = Expr::value(Value::SingleQuotedString(field.value.clone()));
        parsed("get_field($1, $2)", &[value, field], &mut 0)
    })
}

/// `a.b.upper()` is `upper(a.b)`.
pub(super) fn chained(function: &mut ast::Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let parts: Option<Vec<ast::Ident>> =
        function.name.0.iter().map(|part| part.as_ident().cloned()).collect();
    let Some(mut parts) = parts else { return };
    let Some(name) = parts.pop() else { return };
    let is_schema = |part: &ast::Ident| ["pg_catalog", "information_schema"].contains(&part.value.as_str());
    if parts.is_empty() || parts.first().is_some_and(is_schema) {
        return;
    }
    let value = match parts.len() {
        1 => Expr::Identifier(parts.remove(0)),
        _ => Expr::CompoundIdentifier(parts),
    };
    list.args.insert(0, FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)));
    function.name = ObjectName::from(vec![name]);
}

/// `(a).upper().lower()` is `lower(upper(a))`; `None`: nothing is called.
pub(super) fn chain_of_calls(root: &Expr, chain: &[ast::AccessExpr]) -> Option<Expr> {
    let last = chain.iter().rposition(|access| matches!(access, ast::AccessExpr::Dot(Expr::Function(_))))?;
    let ast::AccessExpr::Dot(Expr::Function(call)) = &chain[last] else { return None };
    let value = match last {
        0 => root.clone(),
        _ => Expr::CompoundFieldAccess { root: Box::new(root.clone()), access_chain: chain[..last].to_vec() },
    };
    let mut call = call.clone();
    let FunctionArguments::List(list) = &mut call.args else { return None };
    list.args.insert(0, FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)));
    let call = Expr::Function(call);
    match chain.get(last + 1..) {
        Some([_, ..]) => {
            Some(Expr::CompoundFieldAccess { root: Box::new(call), access_chain: chain[last + 1..].to_vec() })
        }
        _ => Some(call),
    }
}
