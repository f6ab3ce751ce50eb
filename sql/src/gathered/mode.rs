//! `mode` by counting: how often each value is there, for all groups in one table. A value is known by the bytes of Arrow's
//! row format, whose order is that of the values, and counted by its number, so that none is held twice.

use std::{mem::size_of, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, ListArray, UInt64Array, cast::AsArray as _, new_null_array,
    types::UInt64Type,
};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::{
    arrow::{
        buffer::OffsetBuffer,
        compute::cast,
        row::{Row, RowConverter, SortField},
    },
    common::{HashMap, Result, ScalarValue},
    logical_expr::{Accumulator, EmitTo, GroupsAccumulator, utils::format_state_name},
};

use super::passing;
use crate::{error::Error, limits};

/// Whether values of a type are counted.
pub(super) fn takes(data_type: &DataType) -> bool {
    RowConverter::supports_fields(&[SortField::new(data_type.clone())])
}

/// What is known of a group: its values, and how often each is there.
pub(super) fn state_fields(name: &str, value: &DataType) -> Vec<FieldRef> {
    let list = |name, item: DataType| {
        Arc::new(Field::new_list(name, Field::new_list_field(item, true), true)) as FieldRef
    };
    let (values, counts) = (format_state_name(name, "values"), format_state_name(name, "counts"));
    vec![list(values, value.clone()), list(counts, DataType::UInt64)]
}

/// The modes of groups.
#[derive(Debug)]
pub(super) struct Groups {
    data_type: DataType,
    converter: RowConverter,
    /// The values that are known, by their rows.
    numbers: HashMap<Arc<[u8]>, u32>,
    values: Vec<Arc<[u8]>>,
    /// Bytes of the rows.
    bytes: usize,
    /// How often a group has a value.
    counts: HashMap<(usize, u32), u64>,
    groups: usize,
}

impl Groups {
    pub(super) fn new(data_type: DataType) -> Result<Self> {
        Ok(Self {
            converter: RowConverter::new(vec![SortField::new(data_type.clone())])?,
            data_type,
            numbers: HashMap::new(),
            values: Vec::new(),
            bytes: 0,
            counts: HashMap::new(),
            groups: 0,
        })
    }

    /// Takes the values of an array in; of each row its group, and how often it counts.
    fn add(&mut self, array: &ArrayRef, rows: impl Iterator<Item = (usize, usize, u64)>) -> Result<()> {
        let converted = self.converter.convert_columns(std::slice::from_ref(array))?;
        let nulls = array.logical_nulls();
        // Values often come in runs.
        let mut last: Option<(&[u8], u32)> = None;
        for (row, group, times) in rows {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            let value = converted.row(row).data();
            let number = match last {
                Some((known, number)) if known == value => number,
                _ => self.number(value)?,
            };
            last = Some((value, number));
            *self.counts.entry((group, number)).or_default() += times;
        }
        Ok(())
    }

    fn number(&mut self, value: &[u8]) -> Result<u32> {
        if let Some(number) = self.numbers.get(value) {
            return Ok(*number);
        }
        let many = || Error::unsupported(format!("mode of more than {} values", u32::MAX));
        let number = u32::try_from(self.values.len()).map_err(|_| many())?;
        let value: Arc<[u8]> = value.into();
        self.bytes += value.len();
        self.values.push(Arc::clone(&value));
        self.numbers.insert(value, number);
        Ok(number)
    }

    fn value(&self, number: u32) -> &[u8] {
        &self.values[number as usize]
    }

    /// The array of rows of values.
    fn array<'a>(&'a self, rows: impl Iterator<Item = &'a [u8]>) -> Result<ArrayRef> {
        let parser = self.converter.parser();
        let rows: Vec<Row<'_>> = rows.map(|row| parser.parse(row)).collect();
        let columns = self.converter.convert_rows(rows)?;
        let column =
            columns.into_iter().next().ok_or_else(|| Error::Internal("a row of no column".to_owned()))?;
        Ok(if *column.data_type() == self.data_type { column } else { cast(&column, &self.data_type)? })
    }

    /// Of the most frequent values of each of the first groups, the least.
    fn modes(&self, groups: usize) -> Result<ArrayRef> {
        let mut best: Vec<Option<(u64, u32)>> = vec![None; groups];
        for (&(group, number), &count) in &self.counts {
            let Some(best) = best.get_mut(group) else { continue };
            let is_better = best.is_none_or(|(most, other)| {
                count > most || (count == most && self.value(number) < self.value(other))
            });
            if is_better {
                *best = Some((count, number));
            }
        }
        let none = self.converter.convert_columns(&[new_null_array(&self.data_type, 1)])?;
        let none = none.row(0);
        self.array(best.into_iter().map(|best| best.map_or(none.data(), |(_, number)| self.value(number))))
    }

    /// What is known of the first groups.
    fn states(&self, groups: usize) -> Result<Vec<ArrayRef>> {
        let mut known: Vec<(usize, u32, u64)> = self
            .counts
            .iter()
            .filter(|((group, _), _)| *group < groups)
            .map(|(&(group, number), &count)| (group, number, count))
            .collect();
        known.sort_unstable();
        let mut lengths = vec![0_usize; groups];
        known.iter().for_each(|(group, ..)| lengths[*group] += 1);
        let values = self.array(known.iter().map(|(_, number, _)| self.value(*number)))?;
        let counts: ArrayRef =
            Arc::new(UInt64Array::from_iter_values(known.iter().map(|(.., count)| *count)));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let lists = [values, counts].map(|items| {
            let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
            ListArray::try_new(item, offsets.clone(), items, None).map(|list| Arc::new(list) as ArrayRef)
        });
        Ok(lists.into_iter().collect::<std::result::Result<_, _>>()?)
    }

    fn merge(&mut self, states: &[ArrayRef], group_of: impl Fn(usize) -> usize) -> Result<()> {
        let (values, counts) = (states[0].as_list::<i32>(), states[1].as_list::<i32>());
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let (of_group, times) = (values.value(row), counts.value(row));
            let times = times.as_primitive::<UInt64Type>();
            let group = group_of(row);
            self.add(&of_group, (0..of_group.len()).map(|at| (at, group, times.value(at))))?;
        }
        Ok(())
    }

    /// Forgets the first groups.
    fn forget(&mut self, emit_to: EmitTo) {
        match emit_to {
            EmitTo::All => {
                (self.counts, self.groups) = (HashMap::new(), 0);
                // Whoever spills does so for the memory.
                (self.numbers, self.values, self.bytes) = Default::default();
            }
            EmitTo::First(n) => {
                let left = self.counts.drain().filter(|((group, _), _)| *group >= n);
                self.counts = left.map(|((group, number), count)| ((group - n, number), count)).collect();
                self.groups -= n;
            }
        }
    }

    fn emitted(&self, emit_to: EmitTo) -> usize {
        match emit_to {
            EmitTo::All => self.groups,
            EmitTo::First(n) => n,
        }
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.groups = total_num_groups;
        let rows = passing(values[0].len(), filter).map(|row| (row, group_indices[row], 1));
        self.add(&values[0], rows)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let modes = self.modes(self.emitted(emit_to))?;
        self.forget(emit_to);
        Ok(modes)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.states(self.emitted(emit_to))?;
        self.forget(emit_to);
        Ok(states)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.groups = total_num_groups;
        self.merge(values, |row| group_indices[row])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut each = Self::new(self.data_type.clone())?;
        let rows = values[0].len();
        each.add(&values[0], passing(rows, filter).map(|row| (row, row, 1)))?;
        each.states(rows)
    }

    fn size(&self) -> usize {
        let known = size_of::<Arc<[u8]>>() + size_of::<u32>() + limits::MODE_ENTRY_BYTES;
        self.numbers.capacity() * known
            + self.values.capacity() * size_of::<Arc<[u8]>>()
            + self.bytes
            + self.counts.capacity() * (size_of::<((usize, u32), u64)>() + limits::MODE_ENTRY_BYTES)
            + self.converter.size()
    }
}

/// The mode of one group.
#[derive(Debug)]
pub(super) struct One(pub(super) Groups);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.add(&values[0], (0..values[0].len()).map(|row| (row, 0, 1)))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge(states, |_| 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.states(1)?.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.0.modes(1)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + GroupsAccumulator::size(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int64Array, StringArray};

    use super::*;

    fn texts(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    #[test]
    fn the_least_of_the_most_frequent_values_of_each_group() {
        let mut groups = Groups::new(DataType::Utf8).unwrap();
        let first = texts(&[Some("b"), Some("a"), None, Some("a"), Some("b"), Some("")]);
        groups.update_batch(&[first], &[0, 0, 1, 2, 0, 2], None, 4).unwrap();
        let second = texts(&[Some("a"), Some("c"), Some("c")]);
        let filter = BooleanArray::from(vec![Some(true), Some(false), None]);
        groups.update_batch(&[second], &[0, 0, 0], Some(&filter), 4).unwrap();
        let expected = [Some("a"), None, Some(""), None];
        assert_eq!(*groups.modes(4).unwrap(), *texts(&expected));

        // What is told of parts is merged to the same, however they are emitted.
        let mut merged = Groups::new(DataType::Utf8).unwrap();
        let one = groups.state(EmitTo::First(1)).unwrap();
        let rest = groups.state(EmitTo::All).unwrap();
        merged.merge_batch(&rest, &[1, 2, 3], 4).unwrap();
        merged.merge_batch(&one, &[0], 4).unwrap();
        assert_eq!(*merged.evaluate(EmitTo::First(3)).unwrap(), *texts(&expected[..3]));
        assert_eq!(*merged.evaluate(EmitTo::All).unwrap(), *texts(&expected[3..]));

        let each = groups.convert_to_state(&[texts(&[Some("x"), None])], None).unwrap();
        merged.merge_batch(&each, &[0, 0], 1).unwrap();
        assert_eq!(*merged.evaluate(EmitTo::All).unwrap(), *texts(&[Some("x")]));
    }

    #[test]
    fn one_group_is_asked_again_and_again() {
        let mut one = One(Groups::new(DataType::Int64).unwrap());
        assert_eq!(one.evaluate().unwrap(), ScalarValue::Int64(None));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![-5, 3, 3, -5]));
        one.update_batch(&[numbers]).unwrap();
        assert_eq!(one.evaluate().unwrap(), ScalarValue::Int64(Some(-5)));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None]));
        one.update_batch(&[numbers]).unwrap();
        assert_eq!(one.evaluate().unwrap(), ScalarValue::Int64(Some(3)));
        let before = one.size();
        let many: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
        one.update_batch(&[many]).unwrap();
        assert!(one.size() > before + 10_000 * 24, "{}", one.size());
    }

    #[test]
    fn floats_are_told_apart_in_their_order() {
        let mut one = One(Groups::new(DataType::Float64).unwrap());
        let values: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 1.5, -2.5, f64::NAN, -2.5]));
        one.update_batch(&[values]).unwrap();
        assert_eq!(one.evaluate().unwrap(), ScalarValue::Float64(Some(-2.5)));
    }
}
