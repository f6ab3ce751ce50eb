//! `quantile_disc` of values that Arrow sorts: they stay in arrays, and no more of them are put in order than are asked for.

use arrow_array::{Array as _, ArrayRef, cast::AsArray as _, new_empty_array};
use arrow_schema::{DataType, SortOptions};
use datafusion::{
    arrow::compute::{concat, filter, is_not_null, sort_to_indices},
    common::{Result, ScalarValue, utils::SingleRowListArrayBuilder},
    logical_expr::Accumulator,
};

use super::moments;
use crate::lists;

/// Whether values of a type are.
pub(super) fn takes(data_type: &DataType) -> bool {
    data_type.is_numeric()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Date32
                | DataType::Time64(_)
                | DataType::Timestamp(..)
                | DataType::Utf8
                | DataType::Binary
        )
}

/// See the module.
#[derive(Debug)]
pub(super) struct Quantile {
    shares: Vec<f64>,
    /// Whether the shares are those of a list.
    is_list: bool,
    data_type: DataType,
    /// None of their values is null.
    values: Vec<ArrayRef>,
    bytes: usize,
}

impl Quantile {
    pub(super) fn new(shares: Vec<f64>, is_list: bool, data_type: DataType) -> Self {
        Self { shares, is_list, data_type, values: Vec::new(), bytes: 0 }
    }

    fn take(&mut self, array: &ArrayRef) -> Result<()> {
        let array = match array.logical_null_count() {
            0 => array.clone(),
            _ => filter(array, &is_not_null(array)?)?,
        };
        if !array.is_empty() {
            self.bytes += array.to_data().get_slice_memory_size()?;
            self.values.push(array);
        }
        Ok(())
    }

    fn all(&self) -> Result<ArrayRef> {
        let arrays: Vec<_> = self.values.iter().map(AsRef::as_ref).collect();
        match arrays.as_slice() {
            [] => Ok(new_empty_array(&self.data_type)),
            arrays => Ok(concat(arrays)?),
        }
    }
}

impl Accumulator for Quantile {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.take(&values[0])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.take(&values))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = SingleRowListArrayBuilder::new(self.all()?).build_list_array();
        Ok(vec![ScalarValue::List(list.into())])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let all = self.all()?;
        if all.is_empty() {
            return match self.is_list {
                true => ScalarValue::try_from(&lists::list_type(self.data_type.clone())),
                false => ScalarValue::try_from(&self.data_type),
            };
        }
        let places: Vec<usize> = self.shares.iter().map(|share| moments::place(*share, all.len())).collect();
        // Default: of no shares nothing is put in order.
        let last = places.iter().max().map_or(0, |last| last + 1);
        let order = sort_to_indices(&all, Some(SortOptions::default()), Some(last))?;
        let at = |place: &usize| ScalarValue::try_from_array(&all, order.value(*place) as usize);
        let values = places.iter().map(at).collect::<Result<Vec<_>>>()?;
        match self.is_list {
            true => Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.data_type))),
            false => values.into_iter().next().map_or_else(|| ScalarValue::try_from(&self.data_type), Ok),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<ArrayRef>() + self.bytes
    }
}
