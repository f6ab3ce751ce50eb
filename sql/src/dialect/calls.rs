//! Names of several parts that are no columns of tables: calls behind a point, and fields of structs.

use std::{collections::BTreeSet, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName,
};

use super::exprs::{arguments, bare, literal, parsed, text};
use crate::{
    error::{Error, Result},
    limits,
};

/// Aggregates that are the same in each order of their arguments.
pub(super) const UNORDERED: [&str; 24] = [
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "entropy",
    "histogram",
    "kurtosis",
    "mad",
    "max",
    "median",
    "min",
    "mode",
    "quantile",
    "quantile_disc",
    "skewness",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "var_pop",
    "var_samp",
    "variance",
];

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

/// The deviation of distinct values as the root of their variance: that of DataFusion has no parts that could be merged.
/// `None`: it is none.
pub(super) fn deviation(function: &ast::Function) -> Result<Option<Expr>> {
    let variance = match bare(&function.name).as_deref() {
        Some("stddev" | "stddev_samp" | "stdev") => "var_samp",
        Some("stddev_pop") => "var_pop",
        _ => return Ok(None),
    };
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    if list.duplicate_treatment != Some(ast::DuplicateTreatment::Distinct) || function.over.is_some() {
        return Ok(None);
    }
    let name = ObjectName::from(vec![ast::Ident::new(variance)]);
    let variance = Expr::Function(ast::Function { name, ..function.clone() });
    parsed("sqrt($1)", &[variance], &mut 0).map(Some)
}

/// `t.s.f`: the field of a struct of a table.
pub(super) fn field_of(parts: &[ast::Ident]) -> Result<Expr> {
    let (column, fields) = parts.split_at(2);
    fields.iter().try_fold(Expr::CompoundIdentifier(column.to_vec()), |value, field| {
        let field = text(field.value.clone());
        parsed("get_field($1, $2)", &[value, field], &mut 0)
    })
}

/// Beside another UNNEST the inner lists would be in step with it, one after the other.
pub(super) fn check_levels(select: &ast::Select) -> Result<()> {
    let (mut all, mut with_levels) = (0, false);
    let _: ControlFlow<()> = ast::visit_expressions(&select.projection, |expr| {
        if let Expr::Function(function) = expr
            && function.name.to_string().eq_ignore_ascii_case("unnest")
            && let FunctionArguments::List(list) = &function.args
        {
            all += 1;
            with_levels |= list.args.len() > 1;
        }
        ControlFlow::Continue(())
    });
    if with_levels && all > 1 {
        return Err(Error::unsupported("unnest of several levels beside another unnest"));
    }
    Ok(())
}

/// `unnest(x, recursive := true)`, `unnest(x, max_depth := 2)`: of the values in the inner lists.
pub(super) fn levels(function: &mut ast::Function) -> Result<()> {
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    let Some((FunctionArg::Unnamed(FunctionArgExpr::Expr(value)), options)) = list.args.split_first() else {
        return Ok(());
    };
    if options.is_empty() {
        return Ok(());
    }
    let mut calls: Option<Vec<&str>> = None;
    for option in options {
        let FunctionArg::Named { name, arg: FunctionArgExpr::Expr(option), .. } = option else {
            return Err(Error::unsupported("unnest of several values, or of options without names"));
        };
        let (name, given) = (name.value.to_lowercase(), option.to_string().to_lowercase());
        let depth = given.parse().ok().filter(|depth| (1..=limits::LEVELS).contains(depth));
        let meant = match (name.as_str(), given.as_str(), depth) {
            ("recursive", "true", _) => vec!["basalt_levels"],
            ("recursive", "false", _) => Vec::new(),
            ("max_depth", _, Some(depth)) => vec!["basalt_level"; depth - 1],
            _ => return Err(Error::unsupported(format!("unnest with {name} := {given}"))),
        };
        if calls.replace(meant).is_some() {
            return Err(Error::unsupported("unnest with more than one option"));
        }
    }
    let value = calls
        .into_iter()
        .flatten()
        .try_fold(value.clone(), |value, call| parsed(&format!("{call}($1)"), &[value], &mut 0))?;
    list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(value))];
    Ok(())
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
    list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(value)));
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
    list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(value)));
    let call = Expr::Function(call);
    match chain.get(last + 1..) {
        Some([_, ..]) => {
            Some(Expr::CompoundFieldAccess { root: Box::new(call), access_chain: chain[last + 1..].to_vec() })
        }
        _ => Some(call),
    }
}

/// Options of regular expressions: `c`, which is as without it, is left out, and what the planner has not is refused.
pub(super) fn options(name: &str, args: &mut Vec<FunctionArg>) -> Result<()> {
    let at = match name {
        "regexp_replace" => 3,
        "regexp_matches" | "regexp_like" => 2,
        _ => return Ok(()),
    };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(given))) = args.get_mut(at) else { return Ok(()) };
    let Some(letters) = literal(given) else { return Ok(()) };
    if let Some(other) = letters.chars().find(|c| !"cgims".contains(*c)) {
        return Err(Error::unsupported(format!("the option {other:?} of a regular expression")));
    }
    let kept = letters.replace('c', "");
    *given = text(kept.clone());
    if kept.is_empty() {
        args.remove(at);
    }
    Ok(())
}

/// `struct_pack(a := 1)`: a struct with the names of its fields.
pub(super) fn packed(function: &mut ast::Function) -> Result<()> {
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    let mut fields = Vec::with_capacity(2 * list.args.len());
    for argument in &list.args {
        let FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } = argument else {
            return Err(Error::unsupported("struct_pack of fields without names"));
        };
        let name = text(name.value.clone());
        let parts = [name, value.clone()].map(|part| FunctionArg::Unnamed(FunctionArgExpr::Expr(part)));
        fields.extend(parts);
    }
    list.args = fields;
    function.name = ObjectName::from(vec![ast::Ident::new("named_struct")]);
    Ok(())
}

/// Has the fields of structs behind a point be texts, as which the planner takes them. Those right behind a name may be columns of
/// the table that it is.
pub(super) fn fields(root: &Expr, chain: &mut [ast::AccessExpr]) {
    let is_name = |access: &&ast::AccessExpr| matches!(access, ast::AccessExpr::Dot(Expr::Identifier(_)));
    let names = match root {
        Expr::Identifier(_) => chain.iter().take_while(is_name).count(),
        _ => 0,
    };
    for access in chain.iter_mut().skip(names) {
        if let ast::AccessExpr::Dot(field) = access
            && let Expr::Identifier(name) = &*field
        {
            *field = text(name.value.clone());
        }
    }
}

/// `array_length(list, 1)`, which is NULL of a list without values; `None`: it is that of one argument.
pub(super) fn length(function: &ast::Function) -> Result<Option<Expr>> {
    let Some([FunctionArg::Unnamed(FunctionArgExpr::Expr(list)), dimension]) = arguments(function) else {
        return Ok(None);
    };
    check_dimension("array_length", dimension)?;
    let length = parsed("nullif(len($1), 0)", std::slice::from_ref(list), &mut 0)?;
    Ok(Some(Expr::Nested(Box::new(length))))
}

/// Lists have one dimension, which PostgreSQL's functions of arrays are told.
pub(super) fn check_dimension(name: &str, dimension: &FunctionArg) -> Result<()> {
    match dimension.to_string().as_str() {
        "1" => Ok(()),
        _ => Err(Error::unsupported(format!("{name} of another dimension than 1"))),
    }
}

/// `mode() WITHIN GROUP (ORDER BY value)` is `mode(value)`: which one it is of several that are as frequent is not said.
pub(super) fn mode(function: &mut ast::Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    if let ([key], true) = (function.within_group.as_slice(), list.args.is_empty()) {
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(key.expr.clone())));
        function.within_group.clear();
    }
}
