//! The values of all lists of a batch in a row.

use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, Int64Array, ListArray, UInt32Array, new_empty_array};
use datafusion::{
    arrow::compute::{take, take_arrays},
    common::Result,
    logical_expr::{ColumnarValue, LambdaArgument},
};

use crate::{bounded, error::Error, lists};

/// Values of lists that are there.
pub(super) struct Flat {
    pub(super) values: ArrayRef,
    /// How many each list has.
    pub(super) lengths: Vec<usize>,
    /// Of which list each is.
    rows: UInt32Array,
    /// Its place there, from 1 on.
    places: ArrayRef,
}

impl Flat {
    pub(super) fn new(list: &ListArray) -> Result<Self> {
        let (mut at, mut rows, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let mut lengths = Vec::with_capacity(list.len());
        for row in 0..list.len() {
            let span = if list.is_valid(row) { lists::span(list, row) } else { 0..0 };
            lengths.push(span.len());
            for (place, value) in (1..).zip(span) {
                at.push(index(value)?);
                rows.push(index(row)?);
                places.push(place);
            }
        }
        let values = take(list.values(), &UInt32Array::from(at), None)?;
        Ok(Self { values, lengths, rows: rows.into(), places: Arc::new(Int64Array::from(places)) })
    }

    /// What a lambda of a value and its place gives for each.
    pub(super) fn evaluate(&self, lambda: &LambdaArgument) -> Result<ArrayRef> {
        let (value, place) = (|| Ok(Arc::clone(&self.values)), || Ok(Arc::clone(&self.places)));
        evaluate(lambda, &[&value, &place], &self.rows)
    }
}

pub(super) fn index(at: usize) -> Result<u32> {
    let many = || Error::unsupported("lists of more than 4,294,967,296 values in one batch");
    Ok(u32::try_from(at).map_err(|_| many())?)
}

/// What a lambda gives, where `rows` are those of the batch whose columns it reads.
pub(super) fn evaluate(
    lambda: &LambdaArgument,
    parameters: &[&dyn Fn() -> Result<ArrayRef>],
    rows: &UInt32Array,
) -> Result<ArrayRef> {
    const NAME: &str = "a lambda";
    let given = lambda.evaluate(parameters, |columns| {
        let mut bytes = 0;
        for column in columns {
            // About as much as each row takes, for each value.
            let each = column.get_array_memory_size() / column.len().max(1);
            bounded::add(&mut bytes, each.saturating_mul(rows.len()), NAME)?;
        }
        Ok(take_arrays(columns, rows, None)?)
    })?;
    match given {
        ColumnarValue::Array(array) => Ok(array),
        ColumnarValue::Scalar(value) if rows.is_empty() => Ok(new_empty_array(&value.data_type())),
        ColumnarValue::Scalar(value) => {
            bounded::add(&mut 0, value.size().saturating_mul(rows.len()), NAME)?;
            value.to_array_of_size(rows.len())
        }
    }
}
