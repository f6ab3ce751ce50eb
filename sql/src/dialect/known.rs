//! Texts and numbers that are known before a statement is planned: literals, parameters, and what is made of these.

use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, ExactNumberInfo, Expr, Value};

/// A value that is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// So is a parameter without a value: a statement is described with NULL for each.
    Null,
    Text(String),
}

/// The text that an expression is; `None`: it is something else, or not known.
pub(super) fn text_of(expr: &Expr) -> Option<Known> {
    let is_number = match bare(expr) {
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        Expr::Cast { data_type, .. } => !is_text(data_type),
        _ => false,
    };
    if is_number { None } else { value_of(expr) }
}

/// The same of a text or a number.
pub(super) fn value_of(expr: &Expr) -> Option<Known> {
    let mut text = String::new();
    Some(if push(expr, &mut text)? { Known::Text(text) } else { Known::Null })
}

/// Whether it is a parameter without a value, maybe cast.
pub(super) fn is_open(expr: &Expr) -> bool {
    match bare(expr) {
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        Expr::Cast { expr, .. } => is_open(expr),
        _ => false,
    }
}

/// An expression without the parentheses around it.
pub(super) fn bare(mut expr: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// Appends the text of a value that is known; whether there is one, which NULL has not.
fn push(expr: &Expr, text: &mut String) -> Option<bool> {
    match expr {
        Expr::Nested(inner) => push(inner, text),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(given) | Value::Number(given, _) => {
                text.push_str(given);
                Some(true)
            }
            Value::Null | Value::Placeholder(_) => Some(false),
            _ => None,
        },
        Expr::Cast { expr, data_type, .. } if is_text(data_type) => push(expr, text),
        Expr::Cast { expr, data_type, .. } => {
            let mut number = String::new();
            let is_there = push(expr, &mut number)?;
            if is_there && !is_number(&number, data_type) {
                return None;
            }
            text.push_str(&number);
            Some(is_there)
        }
        Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } => {
            let (left, right) = (push(left, text)?, push(right, text)?);
            Some(left && right)
        }
        _ => None,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Text | DataType::Varchar(None) | DataType::CharacterVarying(None) | DataType::String(None)
    )
}

/// Whether a text is a number of a type as it stands, as those of parameters are.
fn is_number(text: &str, data_type: &DataType) -> bool {
    let is_plain = || text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    match data_type {
        DataType::SmallInt(_) | DataType::Int2(_) => text.parse::<i16>().is_ok(),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => text.parse::<i32>().is_ok(),
        DataType::BigInt(_) | DataType::Int8(_) => text.parse::<i64>().is_ok(),
        DataType::BigIntUnsigned(_) => text.parse::<u64>().is_ok(),
        DataType::Double(_) | DataType::DoublePrecision => is_plain() && text.parse::<f64>().is_ok(),
        DataType::Decimal(ExactNumberInfo::PrecisionAndScale(digits, scale)) => {
            let fraction = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            let written = text.trim_start_matches(['-', '0']).bytes().filter(u8::is_ascii_digit).count();
            is_plain()
                && text.parse::<f64>().is_ok()
                && i64::try_from(fraction) == Ok(*scale)
                && u64::try_from(written).is_ok_and(|written| written <= *digits)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_a_text() {
        let known = |sql: &str| crate::parse::ast_parser(sql).unwrap().parse_expr().unwrap();
        let text = |text: &str| Some(Known::Text(text.to_owned()));
        for (sql, expected) in [
            ("'UTC'", text("UTC")),
            ("('UTC'::VARCHAR)", text("UTC")),
            ("CAST('2' AS BIGINT) || ' days'", text("2 days")),
            ("CAST('1.5' AS DOUBLE) || (' ' || 'days')::text", text("1.5 days")),
            ("CAST('1.50' AS DECIMAL(3, 2)) || ''", text("1.50")),
            ("2 || ' days'", text("2 days")),
            ("CAST('2' AS BIGINT)::text", text("2")),
            ("$1 || ' days'", Some(Known::Null)),
            ("NULL || ' days'", Some(Known::Null)),
            // Numbers, and what is not what it says, or not known.
            ("2", None),
            ("CAST('2' AS BIGINT)", None),
            ("CAST('1.50' AS DECIMAL(3, 1)) || ''", None),
            ("CAST('1.5' AS BIGINT) || ''", None),
            ("'UTC'::VARCHAR(2)", None),
            ("a || ' days'", None),
            ("$1 || a", None),
        ] {
            assert_eq!(text_of(&known(sql)), expected, "{sql}");
        }
        assert_eq!(value_of(&known("CAST('2' AS BIGINT)")), text("2"));
        assert!(is_open(&known("($1)::int")) && !is_open(&known("$1 || 'a'")) && !is_open(&known("NULL")));
    }
}
