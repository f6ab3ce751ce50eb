//! What PostgreSQL calls a column of an expression: <https://www.postgresql.org/docs/current/queries-select-lists.html>.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType, Expr, Function, SelectItem, TrimWhereField, Value,
};

use super::select_list;
use crate::system::type_named;

/// Of what has no name of its own.
const NONE: &str = "?column?";

/// The name of an expression.
pub(super) fn name(expr: &Expr) -> String {
    // Default: PostgreSQL's own.
    found(expr).map_or_else(|| NONE.to_owned(), |(name, _)| name)
}

/// Whose name it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// A column's or a function's.
    Its,
    /// A type's, or CASE: what is around it knows better.
    Type,
}

fn found(expr: &Expr) -> Option<(String, Of)> {
    let its = |name: &str| Some((name.to_owned(), Of::Its));
    match expr {
        Expr::Identifier(ident) => its(&ident.value),
        Expr::CompoundIdentifier(parts) => its(&parts.last()?.value),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(field) => Some(field),
                AccessExpr::Subscript(_) => None,
            });
            // Default: an element is called as its list.
            found(field.unwrap_or(root))
        }
        Expr::Nested(expr) | Expr::Collate { expr, .. } => found(expr),
        Expr::Function(function) => its(&of_function(function)?),
        Expr::Cast { expr, data_type, .. } => match found(expr) {
            Some((name, Of::Its)) => Some((name, Of::Its)),
            _ => Some((type_name(data_type), Of::Type)),
        },
        Expr::TypedString(text) => Some((type_name(&text.data_type), Of::Type)),
        Expr::Interval(_) => Some(("interval".to_owned(), Of::Type)),
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => Some(("bool".to_owned(), Of::Type)),
        Expr::Case { else_result, .. } => match else_result.as_deref().and_then(found) {
            Some((name, Of::Its)) => Some((name, Of::Its)),
            _ => Some(("case".to_owned(), Of::Type)),
        },
        Expr::Subquery(query) => match select_list(&query.body)?.first()? {
            SelectItem::ExprWithAlias { alias, .. } => its(&alias.value),
            SelectItem::UnnamedExpr(expr) => its(&name(expr)),
            _ => None,
        },
        Expr::Exists { negated: false, .. } => its("exists"),
        Expr::Array(_) => its("array"),
        Expr::Tuple(_) => its("row"),
        Expr::Extract { .. } => its("extract"),
        Expr::AtTimeZone { .. } => its("timezone"),
        Expr::Position { .. } => its("position"),
        Expr::Overlay { .. } => its("overlay"),
        Expr::Ceil { .. } => its("ceil"),
        Expr::Floor { .. } => its("floor"),
        Expr::Substring { shorthand, .. } => its(if *shorthand { "substr" } else { "substring" }),
        Expr::Trim { trim_where, .. } => its(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        _ => None,
    }
}

fn of_function(function: &Function) -> Option<String> {
    let ident = function.name.0.last()?.as_ident()?;
    // What an operator was made of before the statement was parsed is called as the operator.
    (!ident.value.starts_with("basalt_")).then(|| ident.value.clone())
}

/// The name that `pg_type` has for a type; of an array, that of its elements.
fn type_name(data_type: &DataType) -> String {
    let text = data_type.to_string().to_lowercase();
    if let Some(known) = type_named(&text) {
        return known.name.to_owned();
    }
    match text.split(['(', ' ', '[']).next() {
        Some("tinyint") => "int2".to_owned(),
        Some("double") => "float8".to_owned(),
        Some("character" | "char") => "bpchar".to_owned(),
        // Default: it is what is written.
        first => first.unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

    use super::*;

    #[test]
    fn expressions_are_called_as_in_postgresql() {
        for (sql, expected) in [
            ("count(*)", "count"),
            ("pg_catalog.version()", "version"),
            ("current_date", "current_date"),
            ("a + 1", "?column?"),
            ("'x'", "?column?"),
            ("NULL", "?column?"),
            ("true", "bool"),
            ("NOT EXISTS (SELECT 1)", "?column?"),
            ("EXISTS (SELECT 1)", "exists"),
            ("a::text", "a"),
            ("count(*)::int", "count"),
            ("'1'::int", "int4"),
            ("CAST('1' AS NUMERIC(10, 2))", "numeric"),
            ("'2024-01-01'::timestamp with time zone", "timestamptz"),
            ("'2024-01-01'::timestamp(3) with time zone", "timestamptz"),
            ("'{1}'::int[]", "int4"),
            ("date '2024-01-01'", "date"),
            ("interval '1 day'", "interval"),
            ("CASE WHEN a THEN b ELSE c END", "c"),
            ("CASE WHEN a THEN b ELSE 1 END", "case"),
            ("CASE WHEN a THEN b END::int", "int4"),
            ("coalesce(a, 1)", "coalesce"),
            ("(SELECT max(a) FROM t)", "max"),
            ("(SELECT a + 1 AS b FROM t)", "b"),
            ("(SELECT 1)", "?column?"),
            ("ARRAY[1, 2]", "array"),
            ("a[1]", "a"),
            ("(a)", "a"),
            ("extract(year FROM a)", "extract"),
            ("a AT TIME ZONE 'UTC'", "timezone"),
            ("substring(a FROM 1)", "substring"),
            ("trim(a)", "btrim"),
            ("position('a' IN b)", "position"),
        ] {
            let expr = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).unwrap().parse_expr().unwrap();
            assert_eq!(name(&expr), expected, "{sql}");
        }
    }
}
