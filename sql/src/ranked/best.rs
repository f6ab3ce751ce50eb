//! The first rows of each part that was seen, by which those that come later are left out.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{Field, Schema};
use datafusion::{
    arrow::row::{RowConverter, SortField},
    common::Result,
    physical_expr::{PhysicalExpr, PhysicalSortExpr},
    physical_plan::aggregates::{
        group_values::{GroupValues, new_group_values},
        order::GroupOrdering,
    },
};

use crate::limits;

/// Which rows of those that are equal in the order may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Those behind so many others: any of them may have the number.
    RowNumber,
    /// None: they have one rank.
    Rank,
}

/// What rows are alike by, and their order.
#[derive(Debug)]
pub(super) struct By {
    pub(super) parts: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) order: Vec<PhysicalSortExpr>,
}

/// The first rows of each part that was seen.
pub(super) struct Best {
    groups: Option<Box<dyn GroupValues>>,
    order: Option<RowConverter>,
    rule: Rule,
    first: usize,
    /// What the rows of each part are ordered by, in that order.
    rows: Vec<Vec<Box<[u8]>>>,
    /// How many these are, and their bytes.
    held: usize,
    row_bytes: usize,
    seen: usize,
    left_out: usize,
    numbers: Vec<usize>,
}

impl Best {
    /// `None`: these cannot be compared here.
    pub(super) fn new(by: &By, schema: &Schema, rule: Rule, first: usize) -> Result<Option<Self>> {
        let mut fields = Vec::with_capacity(by.parts.len());
        for (at, expr) in by.parts.iter().enumerate() {
            fields.push(Field::new(format!("{at}"), expr.data_type(schema)?, true));
        }
        let mut order = Vec::with_capacity(by.order.len());
        for key in &by.order {
            order.push(SortField::new_with_options(key.expr.data_type(schema)?, key.options));
        }
        if !RowConverter::supports_fields(&order) {
            return Ok(None);
        }
        let groups = match fields.is_empty() {
            true => None,
            false => Some(new_group_values(Arc::new(Schema::new(fields)), &GroupOrdering::None)?),
        };
        let order = if order.is_empty() { None } else { Some(RowConverter::new(order)?) };
        let (rows, numbers) = (Vec::new(), Vec::new());
        Ok(Some(Self {
            groups,
            order,
            rule,
            first,
            rows,
            held: 0,
            row_bytes: 0,
            seen: 0,
            left_out: 0,
            numbers,
        }))
    }

    /// Which rows may be among the first of their part.
    pub(super) fn kept(&mut self, by: &By, batch: &RecordBatch) -> Result<BooleanArray> {
        let count = batch.num_rows();
        let column = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(count);
        let parts = by.parts.iter().map(column).collect::<Result<Vec<ArrayRef>>>()?;
        self.numbers.clear();
        let all = match &mut self.groups {
            Some(groups) => {
                groups.intern(&parts, &mut self.numbers)?;
                groups.len()
            }
            None => {
                self.numbers.resize(count, 0);
                1
            }
        };
        self.rows.resize_with(all, Vec::new);
        let order = by.order.iter().map(|key| column(&key.expr)).collect::<Result<Vec<ArrayRef>>>()?;
        let order = self.order.as_mut().map(|converter| converter.convert_columns(&order)).transpose()?;
        let mut kept = Vec::with_capacity(count);
        for (at, part) in self.numbers.iter().enumerate() {
            let row = order.as_ref().map_or(&[][..], |rows| rows.row(at).data());
            let best = &mut self.rows[*part];
            let worst = best.last().filter(|_| best.len() == self.first);
            let behind = worst.map_or(Ordering::Less, |worst| row.cmp(worst));
            if behind.is_lt() {
                if best.len() == self.first {
                    self.row_bytes -= best.pop().map_or(0, |worst| worst.len());
                    self.held -= 1;
                }
                let place = best.partition_point(|other| **other <= *row);
                best.insert(place, row.into());
                self.row_bytes += row.len();
                self.held += 1;
            }
            kept.push(behind.is_lt() || behind.is_eq() && self.rule == Rule::Rank);
        }
        let kept = BooleanArray::from(kept);
        self.seen += count;
        self.left_out += count - kept.true_count();
        Ok(kept)
    }

    /// Where nearly every row is of a part of its own, few are left out, and all are looked up.
    pub(super) fn is_worth_it(&self) -> bool {
        self.seen < limits::RANKED_TRIED || self.left_out >= self.seen / limits::RANKED_PART
    }

    /// Bytes held, about: a list has room for four rows at once, and later for twice as many as it has.
    pub(super) fn bytes(&self) -> usize {
        let lists = self.rows.capacity() * size_of::<Vec<Box<[u8]>>>();
        let room = (4 * self.rows.len()).max(2 * self.held) * size_of::<Box<[u8]>>();
        lists + room + 2 * self.row_bytes + self.groups.as_ref().map_or(0, |groups| groups.size())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::physical_expr::expressions::Column;

    use super::*;

    fn batch(parts: impl Iterator<Item = i64>, order: impl Iterator<Item = i64>) -> RecordBatch {
        let columns = [("k", parts.collect::<Vec<_>>()), ("o", order.collect())];
        let columns =
            columns.map(|(name, values)| (name, Arc::new(arrow_array::Int64Array::from(values)) as ArrayRef));
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn best(rule: Rule, first: usize, schema: &Schema) -> (By, Best) {
        let order = PhysicalSortExpr::new_default(Arc::new(Column::new("o", 1)));
        let by = By { parts: vec![Arc::new(Column::new("k", 0))], order: vec![order] };
        let best = Best::new(&by, schema, rule, first).unwrap().unwrap();
        (by, best)
    }

    #[test]
    fn rows_behind_those_that_were_seen_are_left_out() {
        let rows = batch([1, 1, 2, 1, 1, 1, 2].into_iter(), [5, 7, 5, 7, 8, 5, 9].into_iter());
        for (rule, first, expected) in [
            (Rule::RowNumber, 1, [true, false, true, false, false, false, false]),
            (Rule::Rank, 1, [true, false, true, false, false, true, false]),
            (Rule::RowNumber, 2, [true, true, true, false, false, true, true]),
            (Rule::Rank, 2, [true, true, true, true, false, true, true]),
        ] {
            let (by, mut best) = best(rule, first, &rows.schema());
            let kept = best.kept(&by, &rows).unwrap();
            assert_eq!(kept.iter().map(Option::unwrap).collect::<Vec<_>>(), expected, "{rule:?} {first}");
        }
    }

    #[test]
    fn nothing_is_looked_up_where_all_rows_are_of_parts_of_their_own() {
        for (parts, is_worth_it) in [(i64::MAX, false), (1000, true)] {
            let mut at = 0;
            let (by, mut best) = best(Rule::RowNumber, 1, &batch([0].into_iter(), [0].into_iter()).schema());
            while at < limits::RANKED_TRIED as i64 {
                best.kept(&by, &batch((at..at + 1000).map(|at| at % parts), at..at + 1000)).unwrap();
                at += 1000;
            }
            assert_eq!(best.is_worth_it(), is_worth_it, "{parts}");
            assert!(best.bytes() > best.rows.len() * 24, "{parts}");
        }
    }

    #[test]
    fn what_is_held_is_counted() {
        for first in [1, 3, 64] {
            let rows = batch((0..20_000).map(|at| at % 150), (0..20_000).map(|at| at * 7919 % 20_011));
            let (by, mut best) = best(Rule::RowNumber, first, &rows.schema());
            best.kept(&by, &rows).unwrap();
            assert_eq!(best.held, 150 * first);
            assert_eq!(best.row_bytes, best.rows.iter().flatten().map(|row| row.len()).sum::<usize>());
            let room: usize = best.rows.iter().map(|rows| rows.capacity() * size_of::<Box<[u8]>>()).sum();
            assert!(best.bytes() > room + best.row_bytes, "{first}");
        }
    }
}
