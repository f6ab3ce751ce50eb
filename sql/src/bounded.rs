//! Functions that make long texts of short ones, and long lists: how long they become is checked before anything is allocated. What
//! they make of constants, while a statement is planned, is kept by its plan: so that is limited as a whole, too.

use std::cell::Cell;

use arrow_array::{Array as _, cast::AsArray as _, types::Int64Type};
use arrow_schema::DataType;
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::compute::cast,
    common::Result,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF},
};

use crate::{around::Call, error::Error, limits};

/// The functions: their first argument is a text (of the last one any value), their second a number.
pub(crate) const NAMES: [&str; 4] = ["repeat", "lpad", "rpad", "array_repeat"];

tokio::task_local! {
    /// Bytes that were made of constants while a statement is optimised.
    static MADE: Cell<u64>;
}

/// Optimises a plan, whose constants may not become longer than a statement's may.
///
/// # Errors
/// When they would: the planner itself leaves what fails to when rows are made.
pub(crate) fn planned<T>(optimise: impl FnOnce() -> Result<T>) -> Result<T> {
    let optimise = || {
        let planned = optimise()?;
        check()?;
        Ok(planned)
    };
    MADE.sync_scope(Cell::new(0), optimise)
}

/// Counts what a function has made, if it was of constants of a plan.
///
/// # Errors
/// When that is more than a statement may have.
pub(crate) fn count(made: &ColumnarValue) -> Result<()> {
    let bytes = || match made {
        ColumnarValue::Scalar(value) => value.size(),
        ColumnarValue::Array(array) => array.get_array_memory_size(),
    };
    Ok(count_bytes(bytes)?)
}

/// Fails where that was more before.
pub(crate) fn check() -> Result<()> {
    Ok(count_bytes(|| 0)?)
}

fn count_bytes(bytes: impl FnOnce() -> usize) -> std::result::Result<(), Error> {
    let all = MADE.try_with(|made| {
        made.set(made.get().saturating_add(bytes() as u64));
        made.get()
    });
    let limit = limits::TEXTS_BYTES;
    match all {
        Ok(all) if all > limit => {
            let message =
                format!("functions would make more than {limit} bytes of the statement's constants");
            Err(Error::new(ErrorKind::MemoryLimit, message))
        }
        _ => Ok(()),
    }
}

/// The way that [`NAMES`] are called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bounded;

impl Call for Bounded {
    fn call(function: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (name, limit) = (function.name(), limits::TEXTS_BYTES);
        let bytes = bytes(name, &args)?;
        if bytes > limit {
            let message = format!("{name} would make {bytes} bytes; the limit is {limit}");
            return Err(Error::new(ErrorKind::MemoryLimit, message).into());
        }
        function.invoke_with_args(args)
    }
}

/// Counts what a call has made of a batch.
///
/// # Errors
/// When that is more than a call may make.
pub(crate) fn add(made: &mut u64, bytes: usize, name: &str) -> std::result::Result<(), Error> {
    count_bytes(|| bytes)?;
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
