//! Batches of rows, and expressions over them: columns decoded into vectors.

use std::{borrow::Cow, cell::RefCell};

use super::Block;
use crate::{
    encoding::{KeyColumn, TextColumn, Texts},
    error::Result,
    fragment::{Column, Values},
    invariant::{Invariant, broken, count, index},
    keys,
    mask::{Mask, selects},
    plan::{
        expr::{BoundAttribute, BoundExpr, Slots, before_all_times},
        pred::Pred,
    },
    schema::DataType,
    time_parts::TimeFunction,
    value::Value,
};

/// The values of a batch; those under a null or outside the selection are arbitrary.
#[derive(Clone, Debug)]
pub(super) enum Data<'a> {
    /// Integers, decimals (unscaled), dates, timestamps, bools.
    Ints(Vec<i64>),
    /// uint64.
    UInts(Vec<u64>),
    /// Floats; float32 widened.
    Floats(Vec<f64>),
    Texts(Texts<'a>),
    /// The same for every row.
    One(Value),
}

/// An expression over a batch: values, and which are not null (`None`: all).
#[derive(Clone, Debug)]
pub(super) struct Vector<'a> {
    pub(super) data: Data<'a>,
    pub(super) valid: Option<Vec<u64>>,
    /// Of integers, a range that holds those that are not null.
    pub(super) range: Option<(i64, i64)>,
}

impl<'a> Vector<'a> {
    pub(super) fn new(data: Data<'a>, valid: Option<Vec<u64>>) -> Self {
        Self { data, valid, range: None }
    }

    /// The same value for every row.
    pub(super) fn one(value: Value) -> Self {
        Self::new(Data::One(value), None)
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self.data, Data::Texts(_) | Data::One(Value::Text(_)))
    }

    /// Bytes of a row's text; 0 when it is null, or no text.
    pub(super) fn text_bytes(&self, row: usize) -> usize {
        match &self.data {
            Data::Texts(texts) if selects(self.valid.as_deref(), row) => texts.get(row).len(),
            Data::One(Value::Text(text)) => text.len(),
            _ => 0,
        }
    }
}

/// Buffers that the batches of a block use one after the other.
#[derive(Debug, Default)]
pub(super) struct Pool {
    ints: RefCell<Vec<Vec<i64>>>,
    floats: RefCell<Vec<Vec<f64>>>,
}

/// Where the rows of a batch lie in their block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rows<'s> {
    /// From here on.
    From(usize),
    /// At these places, which ascend.
    At(&'s [u16]),
}

/// Some rows of a block, and which of them are selected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'a, 's> {
    block: Block<'a>,
    places: Rows<'s>,
    rows: usize,
    selected: &'s [u64],
    all: bool,
    pool: &'s Pool,
}

impl<'a, 's> Batch<'a, 's> {
    /// `rows` rows of a block, of which the words `selected` select some, or all.
    pub(super) fn new(
        block: Block<'a>,
        places: Rows<'s>,
        rows: usize,
        selected: &'s [u64],
        all: bool,
        pool: &'s Pool,
    ) -> Self {
        Self { block, places, rows, selected, all, pool }
    }

    /// The mask words of the selected rows.
    pub(super) fn selected(&self) -> &[u64] {
        self.selected
    }

    /// Rows, selected or not.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Where the rows lie in their block.
    pub(super) fn places(&self) -> Rows<'s> {
        self.places
    }

    /// The place of a row in its block.
    fn place(&self, row: usize) -> usize {
        match self.places {
            Rows::From(first) => first + row,
            Rows::At(places) => usize::from(places[row]),
        }
    }

    /// The place of a row in its fragment.
    pub(super) fn row(&self, row: usize) -> usize {
        self.block.start() + self.place(row)
    }

    /// The place of the first row in its fragment.
    pub(super) fn first_row(&self) -> usize {
        self.row(0)
    }

    /// Adds rows of this batch to the mask of the block.
    pub(super) fn scatter(&self, passes: &[u64], out: &mut [u64]) {
        match self.places {
            Rows::From(first) => out[first / 64..][..passes.len()].copy_from_slice(passes),
            Rows::At(places) => basalt_kernels::mask::for_each(passes, |row| {
                out[usize::from(places[row]) / 64] |= 1 << (places[row] % 64);
            }),
        }
    }

    /// The mask words of the selected rows; none where all are.
    pub(super) fn mask(&self) -> Option<&[u64]> {
        (!self.all).then_some(self.selected)
    }

    /// The mask words of those rows that are valid too; none where all are.
    pub(super) fn mask_of<'m>(&'m self, valid: Option<&'m [u64]>) -> Option<Cow<'m, [u64]>> {
        match (self.mask(), valid) {
            (Some(selected), Some(valid)) => {
                let mut both = selected.to_vec();
                basalt_kernels::mask::and(&mut both, valid);
                Some(both.into())
            }
            (mask, valid) => mask.or(valid).map(Cow::Borrowed),
        }
    }

    /// Whether any of these rows is selected.
    pub(super) fn any(&self, rows: &[u64]) -> bool {
        rows.iter().zip(self.selected).any(|(rows, selected)| rows & selected != 0)
    }

    /// The places of the selected rows in the batch.
    pub(super) fn selection(&self, out: &mut Vec<u32>) {
        out.clear();
        basalt_kernels::mask::for_each(self.selected, |row| out.push(count(row)));
    }

    /// A buffer for an integer of each row.
    pub(super) fn ints(&self) -> Vec<i64> {
        // Default: a new one.
        let mut buffer = self.pool.ints.borrow_mut().pop().unwrap_or_default();
        buffer.resize(self.rows, 0);
        buffer
    }

    /// A buffer for a float of each row.
    pub(super) fn float_buffer(&self) -> Vec<f64> {
        // Default: a new one.
        let mut buffer = self.pool.floats.borrow_mut().pop().unwrap_or_default();
        buffer.resize(self.rows, 0.0);
        buffer
    }

    /// Takes a buffer back.
    pub(super) fn give(&self, data: Data<'_>) {
        match data {
            Data::Ints(buffer) => self.pool.ints.borrow_mut().push(buffer),
            Data::Floats(buffer) => self.pool.floats.borrow_mut().push(buffer),
            Data::UInts(_) | Data::Texts(_) | Data::One(_) => {}
        }
    }

    /// Writes the keys of the rows.
    pub(super) fn read(&self, keys: &dyn KeyColumn, out: &mut [i64]) {
        match self.places {
            Rows::From(first) => keys.decode(self.block.start() + first, out),
            Rows::At(places) => keys.gather(self.block.start(), places, out),
        }
    }

    /// Writes the floats of the rows.
    pub(super) fn read_floats(&self, keys: &dyn KeyColumn, out: &mut [f64]) {
        match self.places {
            Rows::From(first) => keys.decode_floats(self.block.start() + first, out),
            Rows::At(places) => keys.gather_floats(self.block.start(), places, out),
        }
    }

    fn read_texts(&self, texts: &'a dyn TextColumn) -> Texts<'a> {
        match self.places {
            Rows::From(first) => texts.decode(self.block.start() + first, self.rows, Some(self.selected)),
            Rows::At(places) => {
                Texts::of(places.iter().map(|place| texts.get(self.block.start() + usize::from(*place))))
            }
        }
    }

    /// Which rows of a column are not null (`None`: all).
    pub(super) fn valid_rows(&self, column: &Column) -> Option<Vec<u64>> {
        match self.places {
            Rows::From(first) => column.validity_words(self.block.start() + first, self.rows),
            Rows::At(places) => match column.validity_mask(self.block.block) {
                Mask::Full => None,
                Mask::Empty => Some(vec![0; self.selected.len()]),
                Mask::Words(words) => {
                    let mut out = vec![0; self.selected.len()];
                    for (row, place) in places.iter().map(|place| usize::from(*place)).enumerate() {
                        out[row / 64] |= (words[place / 64] >> (place % 64) & 1) << (row % 64);
                    }
                    Some(out)
                }
            },
        }
    }

    /// The values of an expression, with errors only for rows that are selected and not null.
    pub(super) fn eval(&self, expr: &BoundExpr, slots: &Slots) -> Result<Vector<'a>> {
        match expr {
            BoundExpr::Slot(slot) => Ok(self.slot(*slot)),
            BoundExpr::Attribute(attribute) => Ok(self.attribute(attribute)),
            BoundExpr::Literal(value) => Ok(Vector::one(value.clone())),
            BoundExpr::Arithmetic(op, left, right, data_type) => {
                let types = (left.data_type(slots), right.data_type(slots));
                let (left, right) = (self.eval(left, slots)?, self.eval(right, slots)?);
                self.arithmetic(*op, left, right, types, *data_type)
            }
            BoundExpr::Time(function, of, _) => {
                let is_date = of.data_type(slots) == Some(DataType::Date32);
                self.time(*function, self.eval(of, slots)?, is_date)
            }
        }
    }

    /// A function of dates or timestamps.
    fn time(&self, function: TimeFunction, of: Vector<'a>, is_date: bool) -> Result<Vector<'a>> {
        let value = |key: i64| if is_date { Some(function.of_days(key)) } else { function.of_micros(key) };
        let Vector { data, valid, range } = of;
        let mut times = match data {
            Data::Ints(times) => times,
            Data::One(time) => {
                let value = match time {
                    Value::Date(days) => Value::Int(function.of_days(days.into()).into()),
                    Value::Timestamp(micros) => {
                        let key = value(micros).ok_or_else(before_all_times)?;
                        match function {
                            TimeFunction::Truncate(_) => Value::Timestamp(key),
                            _ => Value::Int(key.into()),
                        }
                    }
                    _ => Value::Null,
                };
                return Ok(Vector { data: Data::One(value), valid, range: None });
            }
            _ => broken("a function of times is of times"),
        };
        // What is earlier counts only where a row is selected and not null.
        let wrong = |row: usize, time: i64| {
            value(time).is_none() && selects(valid.as_deref(), row) && selects(Some(self.selected), row)
        };
        let may_be_wrong = range.is_none_or(|(low, _)| value(low).is_none());
        if may_be_wrong && times.iter().enumerate().any(|(row, time)| wrong(row, *time)) {
            return Err(before_all_times());
        }
        // Default: of a row that does not count, or is null.
        times.iter_mut().for_each(|time| *time = value(*time).unwrap_or_default());
        let range = range.filter(|_| function.keeps_order());
        let range = range.and_then(|(low, high)| Some((value(low)?, value(high)?)));
        Ok(Vector { data: Data::Ints(times), valid, range })
    }

    /// The values of an expression as floats, and which are not null (`None`: all).
    pub(super) fn floats(&self, expr: &BoundExpr, slots: &Slots) -> Result<(Vec<f64>, Option<Vec<u64>>)> {
        let Vector { data, valid, .. } = self.eval(expr, slots)?;
        match data {
            Data::Floats(floats) => Ok((floats, valid)),
            Data::One(Value::Null) => Ok((vec![0.0; self.rows], Some(vec![0; self.selected.len()]))),
            Data::One(value) => {
                Ok((vec![value.to_f64().ok_or_else(super::arithmetic::not_numbers)?; self.rows], valid))
            }
            Data::Ints(_) | Data::UInts(_) | Data::Texts(_) => Err(super::arithmetic::not_numbers()),
        }
    }

    /// Which rows of an expression are not null (`None`: all).
    pub(super) fn validity(&self, expr: &BoundExpr, slots: &Slots) -> Result<Option<Vec<u64>>> {
        if let BoundExpr::Slot(slot) = expr {
            return Ok(self.block.fragment.column_at(*slot).and_then(|column| self.valid_rows(column)));
        }
        let Vector { data, valid, .. } = self.eval(expr, slots)?;
        let is_null = matches!(data, Data::One(Value::Null));
        self.give(data);
        Ok(if is_null { Some(vec![0; self.selected.len()]) } else { valid })
    }

    fn slot(&self, slot: usize) -> Vector<'a> {
        let fragment = self.block.fragment;
        let Some(column) = fragment.column_at(slot) else {
            let addresses = (0..self.rows).map(|row| fragment.address(self.row(row))).collect();
            return Vector::new(Data::UInts(addresses), None);
        };
        let valid = self.valid_rows(column);
        match column.values() {
            Values::Text(texts) => Vector::new(Data::Texts(self.read_texts(texts.as_ref())), valid),
            Values::Keys(column_keys) if column.data_type().is_float() => {
                let mut out = self.float_buffer();
                self.read_floats(column_keys.as_ref(), &mut out);
                Vector::new(Data::Floats(out), valid)
            }
            Values::Keys(column_keys) => {
                let mut out = self.ints();
                self.read(column_keys.as_ref(), &mut out);
                if column.data_type() == DataType::UInt64 {
                    return Vector::new(Data::UInts(out.into_iter().map(keys::to_u64).collect()), valid);
                }
                let range = column.zones()[self.block.block].range;
                Vector { data: Data::Ints(out), valid, range }
            }
        }
    }

    /// For each row the key of an attribute's value, or the place of its text among the lookup's, and which rows have
    /// one (`None`: all).
    pub(super) fn attribute_keys(&self, attribute: &BoundAttribute) -> (Vec<i64>, Option<Vec<u64>>) {
        let mut out = self.ints();
        let column = self.block.fragment.column(attribute.slot);
        let mut valid = self.valid_rows(column);
        self.read(column.keys().invariant("a column that refers to another has keys"), &mut out);
        attribute.lookup.translate(&mut out, &mut valid);
        (out, valid)
    }

    fn attribute(&self, attribute: &BoundAttribute) -> Vector<'a> {
        let (out, valid) = self.attribute_keys(attribute);
        let lookup = &attribute.lookup;
        let data = match (lookup.texts(), lookup.data_type()) {
            (Some(texts), _) => {
                // Without texts every row is null, and its place leads nowhere.
                let text = |place: &i64| match texts {
                    [] => Cow::Borrowed(""),
                    texts => Cow::Owned(texts[index(place.cast_unsigned())].to_string()),
                };
                let found = Data::Texts(Texts::of(out.iter().map(text)));
                self.give(Data::Ints(out));
                found
            }
            (None, DataType::UInt64) => Data::UInts(out.into_iter().map(keys::to_u64).collect()),
            (None, DataType::Float64) => Data::Floats(out.into_iter().map(keys::to_f64).collect()),
            (None, DataType::Float32) => {
                Data::Floats(out.into_iter().map(|key| f64::from(keys::to_f32(key))).collect())
            }
            (None, _) => return Vector { data: Data::Ints(out), valid, range: lookup.range() },
        };
        Vector::new(data, valid)
    }

    /// The selected rows for which a predicate over expressions is true.
    pub(super) fn test(&self, pred: &Pred, slots: &Slots) -> Result<Vec<u64>> {
        match pred {
            Pred::Compare(op, left, right) => {
                let types = (left.data_type(slots), right.data_type(slots));
                let (left, right) = (self.eval(left, slots)?, self.eval(right, slots)?);
                Ok(self.compare(*op, left, right, types))
            }
            Pred::Like { expr, pattern, negated } => {
                let vector = self.eval(expr, slots)?;
                Ok(self.collect(vector.valid.as_deref(), |row| match &vector.data {
                    Data::Texts(texts) => pattern.matches(texts.get(row)) != *negated,
                    Data::One(Value::Text(text)) => pattern.matches(text) != *negated,
                    Data::One(Value::Null) => false,
                    _ => broken("LIKE is of texts"),
                }))
            }
            Pred::ExprIsNull { expr, negated } => {
                let valid = self.validity(expr, slots)?;
                Ok(self.collect(None, |row| selects(valid.as_deref(), row) == *negated))
            }
            _ => broken("a predicate over columns is tested on the encoded form"),
        }
    }

    /// The selected and valid rows that pass.
    pub(super) fn collect(&self, valid: Option<&[u64]>, passes: impl Fn(usize) -> bool) -> Vec<u64> {
        let mut out = self.selected.to_vec();
        for (i, word) in out.iter_mut().enumerate() {
            let mut rest = *word & valid.map_or(u64::MAX, |v| v[i]);
            *word = 0;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                *word |= u64::from(passes(i * 64 + bit as usize)) << bit;
            }
        }
        out
    }
}

/// The rows valid in both.
pub(super) fn intersect(a: Option<Vec<u64>>, b: Option<Vec<u64>>) -> Option<Vec<u64>> {
    match (a, b) {
        (Some(mut a), Some(b)) => {
            basalt_kernels::mask::and(&mut a, &b);
            Some(a)
        }
        (a, b) => a.or(b),
    }
}
