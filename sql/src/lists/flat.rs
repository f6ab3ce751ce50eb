//! Lists of lists, made lists of what the inner ones have.

use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, ListArray};
use arrow_schema::DataType;
use datafusion::common::Result;

use super::{
    as_list,
    gather::{Gather, span},
    item,
};

/// The values of the lists in a list, one behind the other.
pub(super) fn flattened(list: &ListArray) -> Result<ArrayRef> {
    let child = list.values();
    let mut gather = Gather::default();
    // A list of nothing but NULL has no inner list that has a value.
    let inner = if child.data_type().is_null() { None } else { Some(as_list(child)?) };
    for row in 0..list.len() {
        if list.is_null(row) {
            gather.null();
            continue;
        }
        let places = inner.iter().flat_map(|inner| {
            let valid = span(list, row).filter(|place| inner.is_valid(*place));
            valid.flat_map(|place| span(inner, place)).map(Some)
        });
        gather.row(places)?;
    }
    gather.finish(inner.as_ref().map_or(child, |inner| inner.values()))
}

/// The same once, or until the values are no lists; a list of other values is as it was.
pub(super) fn levels(mut list: ListArray, all: bool) -> Result<ArrayRef> {
    while is_list(&list.value_type()) {
        list = as_list(&flattened(&list)?)?;
        if !all {
            break;
        }
    }
    Ok(Arc::new(list))
}

fn is_list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

/// The type of a value of [`levels`] of such values; `None`: it would be more than one value.
pub(super) fn of_levels(mut value: DataType, all: bool) -> Option<DataType> {
    while is_list(&value)
        && let Some(inner) = item(&value)
    {
        value = inner;
        if !all {
            break;
        }
    }
    (!matches!(value, DataType::Struct(_))).then_some(value)
}
