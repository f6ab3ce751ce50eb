//! Functions that make long texts of short ones, and long lists: how long they become is checked before anything is allocated.

use std::sync::Arc;

use arrow_array::{Array as _, cast::AsArray as _, types::Int64Type};
use arrow_schema::{DataType, FieldRef};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::compute::cast,
    common::Result,
    logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature},
};

use crate::{error::Error, limits};

/// The functions: their first argument is a text (of the last one any value), their second a number.
pub(crate) const NAMES: [&str; 4] = ["repeat", "lpad", "rpad", "array_repeat"];

/// One of [`NAMES`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bounded(Arc<ScalarUDF>);

impl Bounded {
    pub(crate) fn over(function: Arc<ScalarUDF>) -> ScalarUDF {
        ScalarUDF::new_from_impl(Self(function))
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = bytes(self.name(), &args)?;
        if bytes > limits::TEXTS_BYTES {
            let message =
                format!("{} would make {bytes} bytes; the limit is {}", self.name(), limits::TEXTS_BYTES);
            return Err(Error::new(ErrorKind::MemoryLimit, message).into());
        }
        self.0.invoke_with_args(args)
    }
}

/// Counts what a call has made of a batch.
///
/// # Errors
/// When that is more than a call may make.
pub(crate) fn add(made: &mut u64, bytes: usize, name: &str) -> std::result::Result<(), Error> {
    *made = made.saturating_add(bytes as u64);
    match *made > limits::TEXTS_BYTES {
        true => {
            let message = format!("{name} would make more than {} bytes", limits::TEXTS_BYTES);
            Err(Error::new(ErrorKind::MemoryLimit, message))
        }
        false => Ok(()),
    }
}

/// What a call makes, at most.
fn bytes(name: &str, args: &ScalarFunctionArgs) -> Result<u64> {
    let [text, times, fill @ ..] = args.args.as_slice() else { return Ok(0) };
    // What is there once is counted once for each row of the result.
    let once = matches!((text, times), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
    let rows = if once { 1 } else { args.number_rows };
    let times = cast(&times.to_array(rows)?, &DataType::Int64)?;
    let times = times.as_primitive::<Int64Type>();
    // Four bytes are the most that a character takes.
    let of_padding = if fill.is_empty() { 1 } else { 4 };
    let lengths: Vec<u64> = match name {
        "repeat" => {
            let texts = cast(&text.to_array(rows)?, &DataType::LargeUtf8)?;
            texts.as_string::<i64>().iter().map(|text| text.map_or(0, |text| text.len() as u64)).collect()
        }
        "array_repeat" => {
            // About as much as all of them take, for each.
            let each = text.to_array(rows)?.get_array_memory_size() as u64 / (rows as u64).max(1);
            vec![each.max(8); rows]
        }
        _ => vec![of_padding; rows],
    };
    let each = (0..times.len()).map(|row| match times.is_valid(row) {
        // Default: what is negative makes nothing.
        true => u64::try_from(times.value(row)).unwrap_or(0).saturating_mul(lengths[row]),
        false => 0,
    });
    Ok(each.fold(0, u64::saturating_add))
}
