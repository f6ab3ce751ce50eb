//! `list_reduce`: a value of all values of a list, by one step for each place, of all lists that are so long.

use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, Int64Array, ListArray, UInt32Array, new_null_array};
use arrow_schema::DataType;
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::compute::{cast, concat, take},
    common::Result,
    logical_expr::{LambdaArgument, type_coercion::binary::type_union_resolution},
};

use super::flat::{evaluate, index};
use crate::{error::Error, limits, lists};

/// The type that values of two types have in common. Decimals have all the digits there are, so that a sum of them is of the
/// same type again.
pub(super) fn common(item: &DataType, other: &DataType) -> Result<DataType> {
    if item == other {
        return Ok(item.clone());
    }
    let none = || Error::new(ErrorKind::TypeMismatch, format!("list_reduce of {item} would give {other}"));
    Ok(match type_union_resolution(&[item.clone(), other.clone()]).ok_or_else(none)? {
        DataType::Decimal128(_, scale) => DataType::Decimal128(38, scale),
        common => common,
    })
}

/// The lists that are there, the longest first, each with its span among the values.
fn by_length(list: &ListArray) -> Vec<(usize, std::ops::Range<usize>)> {
    let there = (0..list.len()).filter(|row| list.is_valid(*row));
    let mut spans: Vec<_> = there.map(|row| (row, lists::span(list, row))).collect();
    spans.sort_by_key(|(_, span)| std::cmp::Reverse(span.len()));
    spans
}

/// # Errors
/// For an empty list without a first value, and for one that is too long.
pub(super) fn reduced(
    list: &ListArray,
    lambda: &LambdaArgument,
    first: Option<&ArrayRef>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let spans = by_length(list);
    let longest = spans.first().map_or(0, |(_, span)| span.len());
    if longest > limits::REDUCED_VALUES {
        let message =
            format!("list_reduce of a list of {longest} values; the limit is {}", limits::REDUCED_VALUES);
        return Err(Error::new(ErrorKind::FilterTooLarge, message).into());
    }
    let values = list.values();
    let rows = spans.iter().map(|(row, _)| index(*row)).collect::<Result<UInt32Array>>()?;
    let (mut so_far, begin) = match first {
        Some(first) => (take(first, &rows, None)?, 0),
        None => {
            let firsts = spans.iter().map(|(_, span)| match span.is_empty() {
                true => Err(Error::invalid("list_reduce of an empty list without a first value").into()),
                false => index(span.start),
            });
            (take(values, &firsts.collect::<Result<UInt32Array>>()?, None)?, 1)
        }
    };
    so_far = cast(&so_far, data_type)?;
    // What is complete, the shortest lists first; the longer ones stand before it.
    let mut complete: Vec<ArrayRef> = Vec::new();
    for step in begin..longest {
        let left = spans.partition_point(|(_, span)| span.len() > step);
        if left < so_far.len() {
            complete.push(so_far.slice(left, so_far.len() - left));
            so_far = so_far.slice(0, left);
        }
        let at = spans[..left]
            .iter()
            .map(|(_, span)| index(span.start + step))
            .collect::<Result<UInt32Array>>()?;
        let of_step = take(values, &at, None)?;
        let place = i64::try_from(step + 1).unwrap_or(i64::MAX);
        let places: ArrayRef = Arc::new(Int64Array::from(vec![place; left]));
        let (before, value, place) =
            (|| Ok(Arc::clone(&so_far)), || Ok(Arc::clone(&of_step)), || Ok(Arc::clone(&places)));
        let given = evaluate(lambda, &[&before, &value, &place], &rows.slice(0, left))?;
        so_far = cast(&given, data_type)?;
    }
    complete.push(so_far);
    complete.reverse();
    // Behind them NULL, for lists that are.
    complete.push(new_null_array(data_type, 1));
    let parts: Vec<_> = complete.iter().map(|part| &**part).collect();
    let mut places = vec![index(spans.len())?; list.len()];
    for (at, (row, _)) in spans.iter().enumerate() {
        places[*row] = index(at)?;
    }
    Ok(take(&concat(&parts)?, &UInt32Array::from(places), None)?)
}
