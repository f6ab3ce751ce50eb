//! Lists of the values of several.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, StructArray, cast::AsArray as _};
use arrow_schema::{DataType, Fields};
use datafusion::{
    arrow::compute::{cast, concat},
    common::Result,
};

use super::{
    as_list,
    gather::{self, Gather, span},
    item,
};
use crate::error::Error;

/// What is NULL adds nothing.
pub(super) fn concatenation(args: &[ArrayRef], rows: usize, data_type: &DataType) -> Result<ArrayRef> {
    let item = item(data_type).unwrap_or(DataType::Null);
    let lists = args.iter().filter(|arg| !arg.data_type().is_null()).map(as_list);
    let lists = lists.collect::<Result<Vec<_>>>()?;
    let children = lists.iter().map(|list| cast(list.values(), &item));
    let children = children.collect::<std::result::Result<Vec<_>, _>>()?;
    let refs: Vec<&dyn Array> = children.iter().map(|child| &**child).collect();
    let child = concat(&refs)?;
    let mut gather = Gather::default();
    for row in 0..rows {
        let mut places = Vec::new();
        let mut behind = 0;
        let mut is_there = false;
        for list in &lists {
            if list.is_valid(row) {
                is_there = true;
                places.extend(span(list, row).map(|at| Some(behind + at)));
            }
            behind += list.values().len();
        }
        match is_there {
            true => gather.row(places.into_iter())?,
            false => gather.null(),
        }
    }
    gather.finish(&child)
}

/// Lists of what stands at the same places; with `true` behind them as many as the shortest has.
pub(super) fn zipped(args: &[ArrayRef], rows: usize, data_type: &DataType) -> Result<ArrayRef> {
    let (lists, cuts) = match args {
        [lists @ .., last] if *last.data_type() == DataType::Boolean => (lists, Some(last.as_boolean())),
        lists => (lists, None),
    };
    let lists = lists.iter().map(as_list).collect::<Result<Vec<_>>>()?;
    let mut gathers: Vec<Gather> = lists.iter().map(|_| Gather::default()).collect();
    let mut lengths = Vec::with_capacity(rows);
    for row in 0..rows {
        let length = |list: &ListArray| match list.is_valid(row) {
            true => usize::try_from(list.value_length(row)).unwrap_or_default(),
            false => 0,
        };
        let cut = cuts.is_some_and(|cuts| cuts.is_valid(row) && cuts.value(row));
        let all = lists.iter().map(length);
        let longest = if cut { all.min() } else { all.max() }.unwrap_or_default();
        lengths.push(longest);
        for (list, gather) in lists.iter().zip(&mut gathers) {
            let start = usize::try_from(list.value_offsets()[row]).unwrap_or_default();
            let own = length(list);
            gather.row((0..longest).map(|at| (at < own).then_some(start + at)))?;
        }
    }
    let columns = lists.iter().zip(gathers).map(|(list, gather)| gather.values(list.values()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let Some(DataType::Struct(fields)) = item(data_type) else {
        return Err(Error::Internal("a list of structs".to_owned()).into());
    };
    let fields: Fields = fields;
    let total: usize = lengths.iter().sum();
    let structs = StructArray::try_new_with_length(fields, columns, None, total)?;
    let valid = vec![true; lengths.len()];
    gather::lists(Arc::new(structs), lengths, valid)
}
