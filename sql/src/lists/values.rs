//! What is taken of the values of a list, of one row after the other.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{
    Array as _, ArrayRef, BooleanArray, Int64Array, ListArray, cast::AsArray as _, new_null_array,
    types::Int64Type,
};
use arrow_schema::DataType;
use datafusion::{
    arrow::compute::{cast, concat},
    common::Result,
};

use super::{
    Kind, Lists, argument, as_list, comparator,
    flat::{flattened, levels},
    gather::{self, Gather, span},
    is_there, item,
    types::common,
    types_of, values_of,
};
use crate::error::Error;

impl Lists {
    pub(super) fn field(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let of = args[0].as_struct();
        let mut found: Vec<Option<i64>> = vec![None; rows];
        for (number, column) in (1_i64..).zip(of.columns()) {
            let types = [column.data_type().clone(), args[1].data_type().clone()];
            let common = common(&types).ok_or_else(|| self.wrong("values of one type"))?;
            let (column, wanted) = (values_of(column, &common)?, values_of(&args[1], &common)?);
            let compare = comparator(&column, &wanted)?;
            for (row, found) in found.iter_mut().enumerate() {
                if found.is_none() && of.is_valid(row) && compare(row, row) == Ordering::Equal {
                    *found = Some(number);
                }
            }
        }
        if self.kind == Kind::FieldPosition {
            return Ok(Arc::new(Int64Array::from(found)));
        }
        let wanted = &args[1];
        let is_there = |row: usize| !wanted.data_type().is_null() && wanted.is_valid(row) && of.is_valid(row);
        let has = (0..rows).map(|row| is_there(row).then(|| found[row].is_some()));
        Ok(Arc::new(has.collect::<BooleanArray>()))
    }

    pub(super) fn of_list(&self, args: &[ArrayRef], rows: usize, data_type: &DataType) -> Result<ArrayRef> {
        let list = as_list(&args[0])?;
        let child = list.values();
        let span = |row| gather::span(&list, row);
        let mut gather = Gather::default();
        match self.kind {
            Kind::Distinct | Kind::Unique => {
                let compare = comparator(child, child)?;
                let mut counts = Vec::with_capacity(rows);
                for row in 0..rows {
                    if list.is_null(row) {
                        gather.null();
                        counts.push(None);
                        continue;
                    }
                    let mut places: Vec<usize> = span(row).filter(|at| is_there(child, *at)).collect();
                    places.sort_by(|a, b| compare(*a, *b).then(a.cmp(b)));
                    places.dedup_by(|a, b| compare(*a, *b) == Ordering::Equal);
                    places.sort_unstable();
                    counts.push(i64::try_from(places.len()).ok());
                    gather.row(places.into_iter().map(Some))?;
                }
                match self.kind {
                    Kind::Unique => Ok(Arc::new(Int64Array::from(counts))),
                    _ => gather.finish(child),
                }
            }
            Kind::Sort { descending } => {
                let compare = comparator(child, child)?;
                let (direction, nulls) = (argument(args, 1)?, argument(args, 2)?);
                for row in 0..rows {
                    if list.is_null(row) {
                        gather.null();
                        continue;
                    }
                    let said = |words: &Option<ArrayRef>| {
                        let words = words.as_ref().filter(|words| words.is_valid(row));
                        words.map(|words| words.as_string::<i32>().value(row).to_uppercase())
                    };
                    // In the reverse, an order that is given is the other one.
                    let (descending, given) = match (descending, said(&direction), said(&nulls)) {
                        (false, direction, nulls) => {
                            let descending = match direction.as_deref() {
                                None | Some("ASC") => false,
                                Some("DESC") => true,
                                Some(_) => return Err(self.wrong("ASC or DESC")),
                            };
                            (descending, nulls)
                        }
                        (true, nulls, None) => (true, nulls),
                        (true, ..) => return Err(self.wrong("a list and the place of its NULLs")),
                    };
                    let nulls_first = match given.as_deref() {
                        None => descending,
                        Some("NULLS FIRST") => true,
                        Some("NULLS LAST") => false,
                        Some(_) => return Err(self.wrong("NULLS FIRST or NULLS LAST")),
                    };
                    let mut places: Vec<usize> = span(row).collect();
                    places.sort_by(|a, b| match (child.is_valid(*a), child.is_valid(*b)) {
                        (true, true) if descending => compare(*b, *a),
                        (true, true) => compare(*a, *b),
                        (a, b) if a == b => Ordering::Equal,
                        (a, _) => {
                            if a == nulls_first {
                                Ordering::Greater
                            } else {
                                Ordering::Less
                            }
                        }
                    });
                    gather.row(places.into_iter().map(Some))?;
                }
                gather.finish(child)
            }
            Kind::Reverse => {
                for row in 0..rows {
                    match list.is_null(row) {
                        true => gather.null(),
                        false => gather.row(span(row).rev().map(Some))?,
                    }
                }
                gather.finish(child)
            }
            Kind::Length => {
                let length = |row: usize| list.is_valid(row).then(|| i64::from(list.value_length(row)));
                Ok(Arc::new((0..rows).map(length).collect::<Int64Array>()))
            }
            Kind::Resize => {
                let item = item(data_type).unwrap_or(DataType::Null);
                let mut child = cast(child, &item)?;
                let behind = child.len();
                if let Some(default) = args.get(2) {
                    child = concat(&[&child, &cast(default, &item)?])?;
                }
                let sizes = cast(&args[1], &DataType::Int64)?;
                let sizes = sizes.as_primitive::<Int64Type>();
                for row in 0..rows {
                    if list.is_null(row) {
                        gather.null();
                        continue;
                    }
                    let size = if sizes.is_null(row) { 0 } else { sizes.value(row) };
                    let size = usize::try_from(size).map_err(|_| self.wrong("a size of 0 or more"))?;
                    gather.fits(size)?;
                    let default = args.get(2).map(|_| behind + row);
                    let kept = span(row).map(Some).chain(std::iter::repeat(default)).take(size);
                    gather.row(kept)?;
                }
                gather.finish(&child)
            }
            Kind::Contains | Kind::Position => {
                let items = [child.data_type().clone(), args[1].data_type().clone()];
                let common = common(&items).ok_or_else(|| self.wrong("values of one type"))?;
                let (child, wanted) = (values_of(child, &common)?, values_of(&args[1], &common)?);
                let compare = comparator(&child, &wanted)?;
                let place = |row: usize| {
                    let from = span(row).start;
                    span(row).find(|at| compare(*at, row) == Ordering::Equal).map(|at| at - from + 1)
                };
                Ok(match self.kind {
                    Kind::Contains => {
                        let is_there = |row: usize| {
                            (list.is_valid(row) && is_there(&wanted, row)).then(|| place(row).is_some())
                        };
                        Arc::new((0..rows).map(is_there).collect::<BooleanArray>())
                    }
                    _ => {
                        let place = |row: usize| {
                            let place = if list.is_valid(row) { place(row) } else { None };
                            place.and_then(|place| i64::try_from(place).ok())
                        };
                        Arc::new((0..rows).map(place).collect::<Int64Array>())
                    }
                })
            }
            Kind::Remove => {
                let items = [child.data_type().clone(), args[1].data_type().clone()];
                let common = common(&items).ok_or_else(|| self.wrong("values of one type"))?;
                let (own, removed) = (values_of(child, &common)?, values_of(&args[1], &common)?);
                let compare = comparator(&own, &removed)?;
                for row in 0..rows {
                    let is_kept = |at: &usize| compare(*at, row) != Ordering::Equal;
                    match list.is_null(row) {
                        true => gather.null(),
                        false => gather.row(span(row).filter(is_kept).map(Some))?,
                    }
                }
                gather.finish(child)
            }
            Kind::Extract => {
                let places = cast(&args[1], &DataType::Int64)?;
                let places = places.as_primitive::<Int64Type>();
                let mut taken = Vec::with_capacity(rows);
                for row in 0..rows {
                    let is_there = list.is_valid(row) && places.is_valid(row);
                    let place = is_there.then(|| gather::place(places.value(row), span(row).len())).flatten();
                    taken.push(place.map(|place| span(row).start + place));
                }
                gather::taken(child, taken)
            }
            Kind::Slice => {
                let (from, to) = (cast(&args[1], &DataType::Int64)?, cast(&args[2], &DataType::Int64)?);
                let (from, to) = (from.as_primitive::<Int64Type>(), to.as_primitive::<Int64Type>());
                let steps = args.get(3).map(|steps| cast(steps, &DataType::Int64)).transpose()?;
                let steps = steps.as_ref().map(|steps| steps.as_primitive::<Int64Type>());
                for row in 0..rows {
                    let is_unknown = steps.is_some_and(|steps| steps.is_null(row));
                    if list.is_null(row) || from.is_null(row) || to.is_null(row) || is_unknown {
                        gather.null();
                        continue;
                    }
                    let start = span(row).start;
                    let part = gather::part(from.value(row), to.value(row), span(row).len());
                    let step = steps.map_or(1, |steps| steps.value(row));
                    let Some(step) = usize::try_from(step).ok().filter(|step| *step > 0) else {
                        return Err(Error::unsupported("a slice with a step of less than 1").into());
                    };
                    gather.row(part.step_by(step).map(|at| Some(start + at)))?;
                }
                gather.finish(child)
            }
            Kind::Where | Kind::Select => {
                let chosen = as_list(&args[1])?;
                let flags = cast(
                    chosen.values(),
                    if self.kind == Kind::Where { &DataType::Boolean } else { &DataType::Int64 },
                )?;
                for row in 0..rows {
                    if list.is_null(row) || chosen.is_null(row) {
                        gather.null();
                        continue;
                    }
                    let own = span(row);
                    let mut places = Vec::new();
                    for (number, at) in gather::span(&chosen, row).enumerate() {
                        if self.kind == Kind::Where {
                            if flags.is_null(at) {
                                return Err(self.wrong("a list without NULLs there"));
                            }
                            if flags.as_boolean().value(at) {
                                places.push((number < own.len()).then_some(own.start + number));
                            }
                        } else {
                            let place = flags.is_valid(at).then(|| {
                                gather::place(flags.as_primitive::<Int64Type>().value(at), own.len())
                            });
                            places.push(place.flatten().map(|place| own.start + place));
                        }
                    }
                    gather.row(places.into_iter())?;
                }
                gather.finish(child)
            }
            Kind::HasAny | Kind::HasAll | Kind::Intersect => self.meet(&list, args, rows),
            Kind::Flatten => flattened(&list),
            Kind::Levels { all } => levels(list, all),
            _ => Err(Error::Internal(format!("{} of a list", self.name)).into()),
        }
    }

    /// What two lists have in common; NULLs are no values of theirs.
    fn meet(&self, list: &ListArray, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if args[1].data_type().is_null() {
            return Ok(new_null_array(&self.of_types(&types_of(args))?, rows));
        }
        let other = as_list(&args[1])?;
        let items = [list.value_type(), other.value_type()];
        let common = common(&items).ok_or_else(|| self.wrong("values of one type"))?;
        let (own, others) = (values_of(list.values(), &common)?, values_of(other.values(), &common)?);
        let compare = comparator(&own, &others)?;
        let among_own = comparator(&own, &own)?;
        let mut gather = Gather::default();
        let mut flags = Vec::with_capacity(rows);
        for row in 0..rows {
            if list.is_null(row) || other.is_null(row) {
                gather.null();
                flags.push(None);
                continue;
            }
            // Sorted, so that each is looked up in few steps.
            let mut sorted: Vec<usize> = span(list, row).filter(|at| is_there(&own, *at)).collect();
            sorted.sort_by(|a, b| among_own(*a, *b).then(a.cmp(b)));
            let found = |at: usize| {
                let first = sorted.partition_point(|place| compare(*place, at) == Ordering::Less);
                sorted.get(first).copied().filter(|place| compare(*place, at) == Ordering::Equal)
            };
            let mut valid = span(&other, row).filter(|at| is_there(&others, *at));
            match self.kind {
                Kind::HasAny => flags.push(Some(valid.any(|at| found(at).is_some()))),
                Kind::HasAll => flags.push(Some(valid.all(|at| found(at).is_some()))),
                _ => {
                    let mut places: Vec<usize> = valid.filter_map(found).collect();
                    places.sort_unstable();
                    places.dedup();
                    gather.row(places.into_iter().map(Some))?;
                }
            }
        }
        match self.kind {
            Kind::Intersect => gather.finish(&own),
            _ => Ok(Arc::new(BooleanArray::from(flags))),
        }
    }
}
