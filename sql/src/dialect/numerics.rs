//! Casts to NUMERIC without digits, which keep those that a value has.

use datafusion::sql::sqlparser::ast::{CastKind, DataType, ExactNumberInfo, Expr, Value};

use super::{
    exprs::{literal, parsed},
    quantified,
};
use crate::{
    decimals::{
        self,
        numeric::{NUMERIC, TRY_NUMERIC},
    },
    error::Result,
};

/// Gives such a cast the digits of the text that is cast, or has it be a function that knows of which type its argument is. NULL,
/// and a parameter without a value, stay what the planner makes of them.
pub(super) fn undigited(cast: &mut Expr) -> Result<()> {
    let Expr::Cast { expr: inner, data_type, kind, .. } = cast else { return Ok(()) };
    if let Some(text) = written(inner) {
        if let Some((precision, scale)) = decimals::digits_of_text(text) {
            let digits = ExactNumberInfo::PrecisionAndScale(precision.into(), scale.into());
            *data_type = DataType::Decimal(digits);
        }
        return Ok(());
    }
    if is_null(inner) || quantified::is_open(inner) {
        return Ok(());
    }
    let name = match kind {
        CastKind::TryCast | CastKind::SafeCast => TRY_NUMERIC,
        _ => NUMERIC,
    };
    let call = parsed(&format!("{name}($1)"), std::slice::from_ref(inner.as_ref()), &mut 0)?;
    *cast = call;
    Ok(())
}

/// The literal text that is cast, maybe as a text first, as some drivers write their parameters.
fn written(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Nested(inner) => written(inner),
        Expr::Cast { expr, data_type: DataType::Text | DataType::Varchar(None), .. } => literal(expr),
        other => literal(other),
    }
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_null(inner),
        Expr::Value(value) => matches!(value.value, Value::Null),
        _ => false,
    }
}
