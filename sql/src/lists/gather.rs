//! Lists made of values that stand elsewhere, and of ranges.

use std::{ops::Range, sync::Arc};

use arrow_array::{
    Array as _, ArrayRef, Int64Array, ListArray, TimestampMicrosecondArray, UInt32Array,
    cast::AsArray as _,
    types::{Int64Type, IntervalMonthDayNanoType},
};
use arrow_schema::{DataType, Field};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::{
        buffer::{NullBuffer, OffsetBuffer},
        compute::{cast, take},
    },
    common::Result,
};

use crate::{calendar::Moment, error::Error, functions, limits};

/// Values that the lists of a batch may have, where they become more.
const VALUES: usize = 8 << 20;
const _: () = assert!(VALUES as u64 * 8 <= limits::TEXTS_BYTES);

/// Which values, of those that are there, each list has.
#[derive(Debug, Default)]
pub(super) struct Gather {
    places: Vec<Option<u32>>,
    lengths: Vec<usize>,
    valid: Vec<bool>,
}

/// The places of the values of a list.
pub(crate) fn span(list: &ListArray, row: usize) -> Range<usize> {
    let offsets = list.value_offsets();
    // Default: none; offsets are not negative.
    let at = |row: usize| usize::try_from(offsets[row]).unwrap_or_default();
    at(row)..at(row + 1)
}

pub(super) fn too_many() -> datafusion::common::DataFusionError {
    let message = format!("the lists of a batch would have more than {VALUES} values");
    Error::new(ErrorKind::MemoryLimit, message).into()
}

impl Gather {
    pub(super) fn null(&mut self) {
        self.lengths.push(0);
        self.valid.push(false);
    }

    /// Fails where so many more are too many.
    pub(super) fn fits(&self, more: usize) -> Result<()> {
        if self.places.len().saturating_add(more) > VALUES { Err(too_many()) } else { Ok(()) }
    }

    pub(super) fn row(&mut self, places: impl Iterator<Item = Option<usize>>) -> Result<()> {
        let before = self.places.len();
        for place in places {
            let place = place.map(u32::try_from).transpose().map_err(|_| too_many())?;
            self.places.push(place);
            if self.places.len() > VALUES {
                return Err(too_many());
            }
        }
        self.lengths.push(self.places.len() - before);
        self.valid.push(true);
        Ok(())
    }

    pub(super) fn values(self, child: &ArrayRef) -> Result<ArrayRef> {
        Ok(take(child, &UInt32Array::from(self.places), None)?)
    }

    pub(super) fn finish(self, child: &ArrayRef) -> Result<ArrayRef> {
        let (lengths, valid) = (self.lengths, self.valid);
        let values = take(child, &UInt32Array::from(self.places), None)?;
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
        Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, nulls)?))
    }
}

/// Lists of so many values each.
pub(super) fn lists(values: ArrayRef, lengths: Vec<usize>, valid: Vec<bool>) -> Result<ArrayRef> {
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, nulls)?))
}

pub(super) fn taken(child: &ArrayRef, places: Vec<Option<usize>>) -> Result<ArrayRef> {
    let places = places.into_iter().map(|place| place.and_then(|place| u32::try_from(place).ok()));
    Ok(take(child, &places.collect::<UInt32Array>(), None)?)
}

/// The place of the `number`th of so many, counted from 1, or from the end where it is negative.
pub(super) fn place(number: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let place = if number < 0 { length.checked_add(number)? } else { number - 1 };
    (0..length).contains(&place).then(|| usize::try_from(place).ok()).flatten()
}

/// The places from one number to another, both of them among them.
pub(super) fn part(from: i64, to: i64, length: usize) -> Range<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from = if from < 0 { from.saturating_add(length).saturating_add(1) } else { from };
    let to = if to < 0 { to.saturating_add(length).saturating_add(1) } else { to };
    let (from, to) = ((from.max(1) - 1).min(length), to.clamp(0, length));
    // Default: none; both are numbers of values that are there.
    let at = |number: i64| usize::try_from(number).unwrap_or_default();
    at(from)..at(to.max(from))
}

/// Whole numbers from the first argument to the second, by steps of the third; moments by steps of an interval.
pub(super) fn range(
    args: &[ArrayRef],
    rows: usize,
    inclusive: bool,
    data_type: &DataType,
) -> Result<ArrayRef> {
    if let [from, to, step] = args
        && *step.data_type() == functions::INTERVAL
    {
        return moments(from, to, step, rows, inclusive, data_type);
    }
    let args = args.iter().map(|arg| cast(arg, &DataType::Int64));
    let args = args.collect::<std::result::Result<Vec<_>, _>>()?;
    let (mut values, mut lengths, mut valid): (Vec<i64>, Vec<usize>, Vec<bool>) = Default::default();
    for row in 0..rows {
        let is_there = args.iter().all(|arg| arg.is_valid(row));
        valid.push(is_there);
        if !is_there {
            lengths.push(0);
            continue;
        }
        let given = |at: usize| args[at].as_primitive::<Int64Type>().value(row);
        let (from, to, step) = match args.len() {
            1 => (0, given(0), 1),
            2 => (given(0), given(1), 1),
            _ => (given(0), given(1), given(2)),
        };
        let before = values.len();
        let (from, to, step) = (i128::from(from), i128::from(to), i128::from(step));
        let count = match step {
            0 => 0,
            _ => {
                // As many steps as end before the bound, or on it.
                let way = (to - from) * step.signum();
                let each = step.abs();
                let whole =
                    if inclusive { way.div_euclid(each) + 1 } else { (way + each - 1).div_euclid(each) };
                whole.max(0)
            }
        };
        let count = usize::try_from(count).ok().filter(|count| before.saturating_add(*count) <= VALUES);
        let count = count.ok_or_else(too_many)?;
        // All of them lie between two that are such numbers.
        values.extend((0..count).filter_map(|at| i64::try_from(from + step * at as i128).ok()));
        lengths.push(values.len() - before);
    }
    let field = Arc::new(Field::new_list_field(DataType::Int64, true));
    let (offsets, values) = (OffsetBuffer::from_lengths(lengths), Arc::new(Int64Array::from(values)));
    Ok(Arc::new(ListArray::try_new(field, offsets, values, Some(NullBuffer::from(valid)))?))
}

fn moments(
    from: &ArrayRef,
    to: &ArrayRef,
    step: &ArrayRef,
    rows: usize,
    inclusive: bool,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let (from, to) = (functions::moments(from)?, functions::moments(to)?);
    let steps = step.as_primitive::<IntervalMonthDayNanoType>();
    let (mut values, mut lengths, mut valid): (Vec<i64>, Vec<usize>, Vec<bool>) = Default::default();
    for row in 0..rows {
        let is_there = from.is_valid(row) && to.is_valid(row) && steps.is_valid(row);
        valid.push(is_there);
        if !is_there {
            lengths.push(0);
            continue;
        }
        let step = steps.value(row);
        let signs =
            [i64::from(step.months).signum(), i64::from(step.days).signum(), step.nanoseconds.signum()];
        let sign = if signs.contains(&1) { 1 } else { -1 };
        if signs.contains(&1) && signs.contains(&-1) {
            return Err(Error::invalid("a step has one sign").into());
        }
        let before = values.len();
        let (mut at, end) = (Moment(from.value(row)), to.value(row));
        while signs != [0, 0, 0] && ((at.0 - end) * sign < 0 || (inclusive && at.0 == end)) {
            values.push(at.0);
            if values.len() > VALUES {
                return Err(too_many());
            }
            let next = at.after(step);
            if next == at {
                break;
            }
            at = next;
        }
        lengths.push(values.len() - before);
    }
    let zone = match super::item(data_type) {
        Some(DataType::Timestamp(_, zone)) => zone,
        _ => None,
    };
    let values = TimestampMicrosecondArray::from(values).with_timezone_opt(zone);
    let field = Arc::new(Field::new_list_field(arrow_array::Array::data_type(&values).clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(field, offsets, Arc::new(values), Some(NullBuffer::from(valid)))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_between_two_numbers() {
        assert_eq!(part(0, 2, 5), 0..2);
        assert_eq!(part(2, 3, 5), 1..3);
        assert_eq!(part(-2, -1, 5), 3..5);
        assert_eq!(part(-9, 9, 5), 0..5);
        assert_eq!(part(4, 2, 5), 3..3);
        assert_eq!(part(i64::MIN, i64::MAX, 0), 0..0);
        assert_eq!((place(1, 3), place(-3, 3), place(0, 3), place(4, 3)), (Some(0), Some(0), None, None));
        assert_eq!(place(i64::MIN, 3), None);
    }
}
