//! What is given for a parameter, in SQL.

use basalt_core::{
    plan::expr_text,
    query::{Expr, Literal},
    time,
};
use datafusion::sql::sqlparser::ast;

use crate::parse;

/// A text as SQL has it; a backslash is a character like others there.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A parameter as SQL has it.
pub(crate) fn parameter(literal: &Literal) -> Option<ast::Expr> {
    let sql = match literal {
        Literal::Null => "NULL".to_owned(),
        Literal::Bool(value) => value.to_string(),
        Literal::Int(value) => format!("CAST('{value}' AS BIGINT)"),
        Literal::UInt(value) => format!("CAST('{value}' AS BIGINT UNSIGNED)"),
        Literal::Float(value) => format!("CAST('{value}' AS DOUBLE)"),
        Literal::Decimal { unscaled, scale } => {
            let text = expr_text(&Expr::Literal(literal.clone()));
            // As many digits as are written, as of a decimal in the text.
            let digits = unscaled.unsigned_abs().checked_ilog10().map_or(1, |digits| digits + 1);
            format!("CAST('{text}' AS DECIMAL({}, {scale}))", digits.max((*scale).into()))
        }
        Literal::Text(text) => quoted(text),
        Literal::Date(days) => format!("CAST('{}' AS DATE)", time::format_date(*days)),
        Literal::Timestamp(micros) => {
            let text = time::format_timestamp(*micros);
            format!("arrow_cast('{text}', 'Timestamp(Microsecond, Some(\"UTC\"))')")
        }
    };
    let parser = parse::ast_parser(&sql);
    parser.and_then(|mut parser| parser.parse_expr().ok())
}
