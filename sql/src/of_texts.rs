//! Texts as values, where it is not the planner's cast that says which: of CAST and of columns that are written to, alike.

use arrow_array::{Decimal128Array, StringArray};
use basalt_core::error::ErrorKind;

use crate::{
    decimals,
    error::{Error, Result},
};

/// Texts of times of a day, for a cast that would take more for one.
pub(crate) fn clocks(texts: &StringArray, is_try: bool) -> Result<StringArray> {
    // The cast would take it for the next minute, or a number for a time of a day.
    let is_one =
        |text: &str| text.contains(':') && !text.split(':').nth(2).is_some_and(|part| part.starts_with("60"));
    let clock = |text: Option<&str>| match text {
        Some(text) if !is_one(text) && is_try => Ok(None),
        Some(text) if !is_one(text) => {
            Err(Error::new(ErrorKind::TypeMismatch, format!("cannot cast {text:?} to a time")))
        }
        text => Ok(text.map(str::to_owned)),
    };
    texts.iter().map(clock).collect()
}

/// Texts as decimals, rounded, and with an exponent where they have one.
pub(crate) fn decimals(
    texts: &StringArray,
    precision: u8,
    scale: i8,
    is_try: bool,
) -> Result<Decimal128Array> {
    let read = |text: Option<&str>| match text.map(|text| (text, decimals::read(text, precision, scale))) {
        None => Ok(None),
        Some((_, Some(value))) => Ok(Some(value)),
        Some(_) if is_try => Ok(None),
        Some((text, None)) => {
            let message =
                format!("{text:?} is no decimal of {precision} digits, {scale} of them behind the point");
            Err(Error::new(ErrorKind::TypeMismatch, message))
        }
    };
    let values: Decimal128Array = texts.iter().map(read).collect::<Result<_>>()?;
    values.with_precision_and_scale(precision, scale).map_err(|error| Error::Internal(error.to_string()))
}
