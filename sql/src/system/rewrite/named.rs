//! Names of types and tables that stand for their numbers: where they are cast to such, and beside them. Elsewhere those of types
//! are texts.

use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr};

use super::{arguments, expr, text, words};
use crate::system::types;

/// The functions that give the number of what a text names.
const OF_TYPES: &str = "basalt_type_number";
const OF_TABLES: &str = "to_regclass";

/// Whether it is a type of whole numbers.
pub(super) fn is_of_numbers(data_type: &DataType) -> bool {
    match data_type {
        DataType::BigInt(_)
        | DataType::Int(_)
        | DataType::Int2(_)
        | DataType::Int4(_)
        | DataType::Int8(_)
        | DataType::Integer(_)
        | DataType::SmallInt(_) => true,
        other => ["oid", "int8", "int4", "int2"].iter().any(|name| is(other, name)),
    }
}

/// Whether it is a literal name of a table.
pub(super) fn is_of_table(value: &Expr) -> bool {
    matches!(value, Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: name, data_type, .. }
        if is(data_type, "regclass") && text(name).is_some())
}

/// Makes numbers of the names among what is compared, unless they are compared with texts.
pub(super) fn as_numbers(sides: Vec<&mut Expr>) {
    if !sides.iter().any(|side| named(side).is_some()) || sides.iter().any(|side| is_text(side)) {
        return;
    }
    for side in sides {
        if let Some(number) = number(side) {
            *side = number;
        }
    }
}

/// The number of what an expression names; `None`: it is no name, or one whose number stands in its place in any case. What there
/// is not is NULL: PostgreSQL has more types.
pub(super) fn number(of: &Expr) -> Option<Expr> {
    let (name, function) = named(of)?;
    match text(name) {
        Some(literal) => match types::number(literal) {
            Some(number) => expr(&number.to_string()),
            None => expr("NULL"),
        },
        None => expr(&format!("{function}(CAST({name} AS TEXT))")),
    }
}

/// What is taken for a name, and the function that gives the number of what has it.
fn named(of: &Expr) -> Option<(&Expr, &'static str)> {
    match of {
        Expr::Nested(inner) => named(inner),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: name, data_type, .. } => {
            let is_of_table = is(data_type, "regclass") && text(name).is_none();
            let function = if is_of_table { OF_TABLES } else { OF_TYPES };
            (is_of_table || is(data_type, "regtype")).then_some((&**name, function))
        }
        Expr::Function(function) => {
            let (called, given) = (words(&function.name)?, arguments(function));
            match (called.as_slice(), given.as_slice()) {
                (["to_regtype"] | ["pg_catalog", "to_regtype"], [name]) => Some((*name, OF_TYPES)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_text(of: &Expr) -> bool {
    match of {
        Expr::Nested(inner) => is_text(inner),
        Expr::Cast { data_type: DataType::Text | DataType::Varchar(_), .. } => true,
        Expr::Cast { data_type, .. } => is(data_type, "name"),
        Expr::Function(function) => {
            words(&function.name).is_some_and(|words| words.last() == Some(&"pg_typeof"))
        }
        other => text(other).is_some(),
    }
}

/// Whether a type has this name.
fn is(data_type: &DataType, name: &str) -> bool {
    match data_type {
        DataType::Regclass => name == "regclass",
        DataType::Custom(of, _) => match words(of).as_deref() {
            Some([plain] | ["pg_catalog", plain]) => plain.eq_ignore_ascii_case(name),
            _ => false,
        },
        _ => false,
    }
}
