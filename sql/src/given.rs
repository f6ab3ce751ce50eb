//! What is given for a parameter, in SQL.

use basalt_core::{
    plan::expr_text,
    query::{Expr, Literal},
    schema::DataType,
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

/// Casts a parameter without a value to the type of what is given for it, where the client says of which types they are. A text
/// may stand for any type, and a number of many digits is whole or a decimal as it comes.
pub(crate) fn cast_as_said(expr: &mut ast::Expr, types: &[Option<DataType>]) {
    let ast::Expr::Value(value) = &*expr else { return };
    let ast::Value::Placeholder(name) = &value.value else { return };
    let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
    let said = number.and_then(|number| number.checked_sub(1)).and_then(|at| *types.get(at)?);
    let data_type = match said {
        Some(DataType::Bool) => "BOOLEAN",
        Some(DataType::Float32 | DataType::Float64) => "DOUBLE",
        Some(DataType::Date32) => "DATE",
        Some(DataType::Timestamp) => "TIMESTAMP WITH TIME ZONE",
        Some(said) if said.is_integer() => "BIGINT",
        _ => return,
    };
    let cast = parse::ast_parser(&format!("CAST({name} AS {data_type})"));
    if let Some(cast) = cast.and_then(|mut parser| parser.parse_expr().ok()) {
        *expr = cast;
    }
}
