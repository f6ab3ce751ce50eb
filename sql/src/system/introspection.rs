//! What asyncpg asks for the types of lists before it sends one: lists of numbers of types, and, of types that are domains, what they
//! are of in the end, by a recursive query that sees columns around it. The planner has none, and there are no domains. And what
//! psql's `\sv` asks of the options of views, which are a list that there never is.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, ArrayElemTypeDef, BinaryOperator, CaseWhen, DataType, Expr, FunctionArg, FunctionArgExpr,
    FunctionArguments, Value, VisitMut as _, VisitorMut,
};

use super::rewrite::{expr, words};

/// Puts both into the planner's words.
pub(super) fn rewrite(statement: &mut ast::Statement) {
    let _ = statement.visit(&mut Introspection);
}

struct Introspection;

impl VisitorMut for Introspection {
    type Break = ();

    fn pre_visit_expr(&mut self, whole: &mut Expr) -> ControlFlow<()> {
        match whole {
            Expr::Case { operand: None, conditions, .. } => {
                if let [CaseWhen { condition, result }] = conditions.as_slice()
                    && is_of_domains(condition)
                    && is_base(result)
                    && let Some(none) = expr("CAST(NULL AS BIGINT)")
                {
                    *whole = none;
                }
            }
            Expr::Cast { data_type: DataType::Array(ArrayElemTypeDef::SquareBracket(of, _)), .. } => {
                if let DataType::Custom(name, _) = &**of
                    && words(name).is_some_and(|words| words == ["oid"])
                {
                    **of = DataType::BigInt(None);
                }
            }
            Expr::Function(_) => {
                if is_options(whole)
                    && let Some(none) = expr("CAST(NULL AS TEXT)")
                {
                    *whole = none;
                }
            }
            Expr::AnyOp { left, right, .. } if is_check(left) && is_options(right) => {
                if let Some(none) = expr("CAST(NULL AS BOOLEAN)") {
                    *whole = none;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// `c.reloptions`, also without some of them.
fn is_options(of: &Expr) -> bool {
    match of {
        Expr::Nested(inner) => is_options(inner),
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|part| part.value == "reloptions"),
        Expr::Function(function) => {
            let FunctionArguments::List(list) = &function.args else { return false };
            words(&function.name).is_some_and(|words| words == ["pg_catalog", "array_remove"])
                && matches!(list.args.first(), Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) if is_options(first))
        }
        _ => false,
    }
}

/// What a view checks of rows that are inserted into it.
fn is_check(option: &Expr) -> bool {
    matches!(option, Expr::Value(value)
        if matches!(&value.value, Value::SingleQuotedString(text) if text.starts_with("check_option=")))
}

/// `t.typtype = 'd'`.
fn is_of_domains(condition: &Expr) -> bool {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = condition else { return false };
    let (Expr::CompoundIdentifier(parts), Expr::Value(value)) = (&**left, &**right) else { return false };
    parts.last().is_some_and(|part| part.value == "typtype")
        && matches!(&value.value, Value::SingleQuotedString(text) if text == "d")
}

/// Whether it is a recursive query over what domains are of, a column that `pg_type` alone has.
fn is_base(result: &Expr) -> bool {
    match result {
        Expr::Nested(inner) => is_base(inner),
        Expr::Subquery(query) => {
            query.with.as_ref().is_some_and(|with| with.recursive)
                && query.to_string().contains("typbasetype")
        }
        _ => false,
    }
}
