//! `histogram(value, bounds)`: how many values are in each bin, which ends with its bound. The bounds are the same for all
//! groups, so that a group holds a number for each, however many its values are.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{Array as _, ArrayRef, UInt64Array, cast::AsArray as _, types::UInt64Type};
use arrow_schema::DataType;
use datafusion::{
    common::{Result, ScalarValue, utils::SingleRowListArrayBuilder},
    logical_expr::Accumulator,
};

use super::{map, order};
use crate::error::Error;

#[derive(Debug)]
pub(super) struct Binned {
    /// In order, each once.
    bounds: Vec<ScalarValue>,
    /// One for each bound, and one for what is in none of their bins.
    counts: Vec<u64>,
    /// Whether a bin has its bound alone.
    is_exact: bool,
    data_type: DataType,
}

impl Binned {
    /// # Errors
    /// For bounds that are NULL, or of a type whose greatest value is not known.
    pub(super) fn new(bounds: &ScalarValue, data_type: DataType, is_exact: bool) -> Result<Self> {
        let ScalarValue::List(list) = bounds else {
            return Err(Error::invalid("the bounds of a histogram are a list in the statement").into());
        };
        if list.is_null(0) {
            return Err(Error::invalid("the list of the bounds of a histogram is NULL").into());
        }
        let values = list.value(0);
        if values.null_count() > 0 {
            return Err(Error::invalid("a bound of a histogram is NULL").into());
        }
        let mut bounds = (0..values.len())
            .map(|at| ScalarValue::try_from_array(&values, at)?.cast_to(&data_type))
            .collect::<Result<Vec<_>>>()?;
        bounds.sort_by(order);
        bounds.dedup_by(|a, b| order(a, b) == Ordering::Equal);
        let counts = vec![0; bounds.len() + 1];
        Ok(Self { bounds, counts, is_exact, data_type })
    }

    /// What the bin of all other values is called.
    fn others(&self) -> Result<ScalarValue> {
        Ok(match &self.data_type {
            DataType::Int8 => ScalarValue::Int8(Some(i8::MAX)),
            DataType::Int16 => ScalarValue::Int16(Some(i16::MAX)),
            DataType::Int32 => ScalarValue::Int32(Some(i32::MAX)),
            DataType::Int64 => ScalarValue::Int64(Some(i64::MAX)),
            DataType::UInt8 => ScalarValue::UInt8(Some(u8::MAX)),
            DataType::UInt16 => ScalarValue::UInt16(Some(u16::MAX)),
            DataType::UInt32 => ScalarValue::UInt32(Some(u32::MAX)),
            DataType::UInt64 => ScalarValue::UInt64(Some(u64::MAX)),
            DataType::Float32 => ScalarValue::Float32(Some(f32::INFINITY)),
            DataType::Float64 => ScalarValue::Float64(Some(f64::INFINITY)),
            text if text.is_string() => ScalarValue::from("").cast_to(text)?,
            other => {
                let what = format!("a histogram of {other} with bounds that not all values are within");
                return Err(Error::unsupported(what).into());
            }
        })
    }
}

impl Accumulator for Binned {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = &values[0];
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let value = ScalarValue::try_from_array(values, row)?;
            let bin = self.bounds.partition_point(|bound| order(bound, &value) == Ordering::Less);
            let is_in = self
                .bounds
                .get(bin)
                .is_some_and(|bound| !self.is_exact || order(bound, &value) == Ordering::Equal);
            let others = self.bounds.len();
            self.counts[if is_in { bin } else { others }] += 1;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for counts in states[0].as_list::<i32>().iter().flatten() {
            let counts = counts.as_primitive::<UInt64Type>();
            self.counts.iter_mut().zip(counts.values()).for_each(|(own, count)| *own += count);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let counts = Arc::new(UInt64Array::from(self.counts.clone()));
        Ok(vec![ScalarValue::List(Arc::new(SingleRowListArrayBuilder::new(counts).build_list_array()))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.counts.iter().all(|count| *count == 0) {
            return ScalarValue::try_from(&super::map_of(&self.data_type));
        }
        let others = self.counts[self.bounds.len()];
        let other = if others > 0 { Some((self.others()?, others)) } else { None };
        let bins = self.bounds.iter().zip(self.counts.iter().copied());
        let bins: Vec<(&ScalarValue, u64)> =
            bins.chain(other.iter().map(|(name, count)| (name, *count))).collect();
        map(&self.data_type, &bins)
    }

    fn size(&self) -> usize {
        let bounds: usize = self.bounds.iter().map(ScalarValue::size).sum();
        size_of_val(self) + bounds + self.counts.capacity() * size_of::<u64>()
    }
}
