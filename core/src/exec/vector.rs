//! Expressions over a batch of rows: columns decoded into vectors, arithmetic without a branch a row.

use std::{borrow::Cow, cmp::Ordering};

use super::Block;
use crate::{
    encoding::Texts,
    error::{Error, ErrorKind, Result},
    fragment::Values,
    keys,
    mask::selects,
    plan::{
        expr::{BoundExpr, Slots},
        pred::Pred,
    },
    query::ArithmeticOp,
    schema::DataType,
    value::{self, Value, compare_exact, compare_exact_float, compare_floats, pow10},
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
}

impl Vector<'_> {
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

/// Some consecutive rows of a block, and which of them are selected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'a, 's> {
    block: Block<'a>,
    start: usize,
    rows: usize,
    selected: &'s [u64],
    all: bool,
}

impl<'a, 's> Batch<'a, 's> {
    /// Rows `start..start + rows` of a block, of which the words `selected` select some, or all.
    pub(super) fn new(block: Block<'a>, start: usize, rows: usize, selected: &'s [u64], all: bool) -> Self {
        Self { block, start, rows, selected, all }
    }

    /// The place of the first row in its block.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// The mask words of the selected rows.
    pub(super) fn selected(&self) -> &[u64] {
        self.selected
    }

    /// Rows, selected or not.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The place of the first row in its fragment.
    pub(super) fn first_row(&self) -> usize {
        self.block.start() + self.start
    }

    /// The mask words of the selected rows; none where all are.
    pub(super) fn mask(&self) -> Option<&[u64]> {
        (!self.all).then_some(self.selected)
    }

    /// The mask words of those rows that are valid too.
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

    /// The values of an expression as floats, and which are not null (`None`: all).
    pub(super) fn floats(&self, expr: &BoundExpr, slots: &Slots) -> Result<(Vec<f64>, Option<Vec<u64>>)> {
        let Vector { data, valid } = self.eval(expr, slots)?;
        let valid =
            if let Data::One(Value::Null) = data { Some(vec![0; self.selected.len()]) } else { valid };
        Ok((self.floats_of(data, 0), valid))
    }

    /// Which rows of an expression are not null (`None`: all).
    pub(super) fn validity(&self, expr: &BoundExpr, slots: &Slots) -> Result<Option<Vec<u64>>> {
        match expr {
            BoundExpr::Slot(slot) => {
                let column = self.block.fragment.columns().get(*slot);
                Ok(column.and_then(|column| column.validity_words(self.first_row(), self.rows)))
            }
            expr => {
                let Vector { data, valid } = self.eval(expr, slots)?;
                Ok(if let Data::One(Value::Null) = data { Some(vec![0; self.selected.len()]) } else { valid })
            }
        }
    }

    /// The places of the selected rows in the batch.
    pub(super) fn selection(&self, out: &mut Vec<u32>) {
        out.clear();
        basalt_kernels::mask::for_each(self.selected, |row| out.push(u32::try_from(row).unwrap_or(0)));
    }

    /// The values of an expression, with errors only for rows that are selected and not null.
    pub(super) fn eval(&self, expr: &BoundExpr, slots: &Slots) -> Result<Vector<'a>> {
        match expr {
            BoundExpr::Slot(slot) => Ok(self.slot(*slot)),
            BoundExpr::Literal(value) => Ok(Vector { data: Data::One(value.clone()), valid: None }),
            BoundExpr::Arithmetic(op, left, right, data_type) => {
                let types = (left.data_type(slots), right.data_type(slots));
                let (left, right) = (self.eval(left, slots)?, self.eval(right, slots)?);
                self.arithmetic(*op, left, right, types, *data_type)
            }
        }
    }

    fn slot(&self, slot: usize) -> Vector<'a> {
        let fragment = self.block.fragment;
        let Some(column) = fragment.columns().get(slot) else {
            let first = fragment.address(self.first_row());
            return Vector { data: Data::UInts((first..first + self.rows as u64).collect()), valid: None };
        };
        let valid = column.validity_words(self.first_row(), self.rows);
        let data = match column.values() {
            Values::Text(texts) => {
                Data::Texts(texts.decode(self.first_row(), self.rows, Some(self.selected)))
            }
            Values::Keys(column_keys) if column.data_type().is_float() => {
                let mut out = vec![0.0; self.rows];
                column_keys.decode_floats(self.first_row(), &mut out);
                Data::Floats(out)
            }
            Values::Keys(column_keys) => {
                let mut out = vec![0; self.rows];
                column_keys.decode(self.first_row(), &mut out);
                match column.data_type() {
                    DataType::UInt64 => Data::UInts(out.into_iter().map(keys::to_u64).collect()),
                    _ => Data::Ints(out),
                }
            }
        };
        Vector { data, valid }
    }

    fn is_selected(&self, row: usize, valid: Option<&[u64]>) -> bool {
        selects(Some(self.selected), row) && selects(valid, row)
    }

    fn arithmetic(
        &self,
        op: ArithmeticOp,
        left: Vector<'a>,
        right: Vector<'a>,
        types: (Option<DataType>, Option<DataType>),
        data_type: DataType,
    ) -> Result<Vector<'a>> {
        let valid = intersect(left.valid, right.valid);
        if let (Data::One(Value::Null), _) | (_, Data::One(Value::Null)) = (&left.data, &right.data) {
            return Ok(Vector { data: Data::One(Value::Null), valid: None });
        }
        if let (Data::One(a), Data::One(b)) = (&left.data, &right.data) {
            return Ok(Vector { data: Data::One(value::row_arithmetic(op, a, b)?), valid });
        }
        let scale_of =
            |t: Option<DataType>| if let Some(DataType::Decimal { scale, .. }) = t { scale } else { 0 };
        let scales = (scale_of(types.0), scale_of(types.1));
        if data_type == DataType::Float64 {
            let a = self.floats_of(left.data, scales.0);
            let b = self.floats_of(right.data, scales.1);
            if op == ArithmeticOp::Divide
                && (0..self.rows).any(|i| b[i] == 0.0 && self.is_selected(i, valid.as_deref()))
            {
                return Err(value::division_by_zero());
            }
            let pairs = a.iter().zip(&b);
            let out = match op {
                ArithmeticOp::Add => pairs.map(|(a, b)| a + b).collect(),
                ArithmeticOp::Subtract => pairs.map(|(a, b)| a - b).collect(),
                ArithmeticOp::Multiply => pairs.map(|(a, b)| a * b).collect(),
                ArithmeticOp::Divide => pairs.map(|(a, b)| a / b).collect(),
            };
            return Ok(Vector { data: Data::Floats(out), valid });
        }
        // Addition and subtraction meet at the larger scale.
        let up = |scale: u8| match (op, data_type) {
            (ArithmeticOp::Multiply, _) => 0,
            (_, DataType::Decimal { scale: to, .. }) => to - scale,
            _ => 0,
        };
        let a = self.ints_of(left.data, up(scales.0), valid.as_deref())?;
        let b = self.ints_of(right.data, up(scales.1), valid.as_deref())?;
        let out = self.checked(
            &a,
            &b,
            valid.as_deref(),
            match op {
                ArithmeticOp::Add => i64::overflowing_add,
                ArithmeticOp::Subtract => i64::overflowing_sub,
                _ => i64::overflowing_mul,
            },
        )?;
        Ok(Vector { data: Data::Ints(out), valid })
    }

    /// `op` on every row; an overflow counts only where a row is selected and not null.
    fn checked(
        &self,
        a: &[i64],
        b: &[i64],
        valid: Option<&[u64]>,
        op: impl Fn(i64, i64) -> (i64, bool),
    ) -> Result<Vec<i64>> {
        let mut any = false;
        let out = a.iter().zip(b).map(|(a, b)| {
            let (value, overflow) = op(*a, *b);
            any |= overflow;
            value
        });
        let out = out.collect();
        if any && (0..self.rows).any(|i| op(a[i], b[i]).1 && self.is_selected(i, valid)) {
            return Err(value::overflow("the result of an operation"));
        }
        Ok(out)
    }

    /// As unscaled integers, times `10^up`.
    fn ints_of(&self, data: Data<'_>, up: u8, valid: Option<&[u64]>) -> Result<Vec<i64>> {
        let ints = match data {
            Data::Ints(ints) => ints,
            Data::UInts(uints) => {
                let fits = |i: usize| i64::try_from(uints[i]).is_ok() || !self.is_selected(i, valid);
                if !(0..self.rows).all(fits) {
                    return Err(value::overflow("a uint64 in arithmetic"));
                }
                uints.into_iter().map(u64::cast_signed).collect()
            }
            Data::One(Value::Int(v) | Value::Decimal { unscaled: v, .. }) => {
                let fits = i64::try_from(v);
                if fits.is_err() && (0..self.rows).any(|i| self.is_selected(i, valid)) {
                    return Err(value::overflow("a literal in arithmetic"));
                }
                vec![fits.unwrap_or(0); self.rows]
            }
            Data::Floats(_) | Data::Texts(_) | Data::One(_) => return Err(not_numbers()),
        };
        if up == 0 {
            return Ok(ints);
        }
        let factor =
            pow10(up).and_then(|f| i64::try_from(f).ok()).ok_or_else(|| value::overflow("a scale"))?;
        let factors = vec![factor; self.rows];
        self.checked(&ints, &factors, valid, i64::overflowing_mul)
    }

    fn floats_of(&self, data: Data<'_>, scale: u8) -> Vec<f64> {
        match data {
            Data::Floats(floats) => floats,
            Data::Ints(ints) => ints.into_iter().map(|v| value::to_f64(i128::from(v), scale)).collect(),
            Data::UInts(uints) => uints.into_iter().map(|v| value::to_f64(i128::from(v), 0)).collect(),
            Data::One(value) => vec![value.to_f64().unwrap_or(0.0); self.rows],
            Data::Texts(_) => vec![0.0; self.rows],
        }
    }

    /// The selected rows for which a predicate over expressions is true.
    pub(super) fn test(&self, pred: &Pred, slots: &Slots) -> Result<Vec<u64>> {
        match pred {
            Pred::Compare(op, left, right) => {
                let scale = |e: &BoundExpr| match e.data_type(slots) {
                    Some(DataType::Decimal { scale, .. }) => scale,
                    _ => 0,
                };
                let is_date = |e: &BoundExpr| e.data_type(slots) == Some(DataType::Date32);
                let mixed_time = is_date(left) != is_date(right);
                let scales = (scale(left), scale(right));
                let dates = (mixed_time && is_date(left), mixed_time && is_date(right));
                let (left, right) = (self.eval(left, slots)?, self.eval(right, slots)?);
                let valid = intersect(left.valid, right.valid);
                let order = order_of((left.data, scales.0, dates.0), (right.data, scales.1, dates.1));
                Ok(self.collect(valid.as_deref(), |row| {
                    order(row).is_some_and(|order| value::holds(*op, order))
                }))
            }
            Pred::Like { expr, pattern, negated } => {
                let vector = self.eval(expr, slots)?;
                Ok(self.collect(vector.valid.as_deref(), |row| match &vector.data {
                    Data::Texts(texts) => pattern.matches(texts.get(row)) != *negated,
                    Data::One(Value::Text(text)) => pattern.matches(text) != *negated,
                    _ => false,
                }))
            }
            Pred::ExprIsNull { expr, negated } => {
                let vector = self.eval(expr, slots)?;
                let is_null = |row: usize| {
                    matches!(vector.data, Data::One(Value::Null)) || !selects(vector.valid.as_deref(), row)
                };
                Ok(self.collect(None, |row| is_null(row) != *negated))
            }
            _ => Ok(vec![0; self.rows.div_ceil(64)]),
        }
    }

    fn collect(&self, valid: Option<&[u64]>, passes: impl Fn(usize) -> bool) -> Vec<u64> {
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

fn not_numbers() -> Error {
    Error::new(ErrorKind::TypeMismatch, "arithmetic takes numbers")
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

/// How row `i` of two vectors compares; each has its decimal scale, and whether its dates meet timestamps.
fn order_of<'a>(
    (left, left_scale, left_dates): (Data<'a>, u8, bool),
    (right, right_scale, right_dates): (Data<'a>, u8, bool),
) -> Box<dyn Fn(usize) -> Option<Ordering> + 'a> {
    let day = |is_date: bool| if is_date { 86_400_000_000 } else { 1 };
    let (left_unit, right_unit) = (day(left_dates), day(right_dates));
    match (left, right) {
        (Data::Ints(a), Data::Ints(b)) if left_scale == right_scale && left_unit == right_unit => {
            Box::new(move |i| Some(a[i].cmp(&b[i])))
        }
        (Data::Floats(a), Data::Floats(b)) => Box::new(move |i| Some(compare_floats(a[i], b[i]))),
        (Data::Texts(a), Data::Texts(b)) => Box::new(move |i| Some(a.get(i).cmp(b.get(i)))),
        (Data::Texts(a), Data::One(Value::Text(b))) => Box::new(move |i| Some(a.get(i).cmp(&b))),
        (Data::One(Value::Text(a)), Data::Texts(b)) => Box::new(move |i| Some(a.as_ref().cmp(b.get(i)))),
        (left, right) => Box::new(move |i| {
            match (number(&left, i, left_scale, left_unit)?, number(&right, i, right_scale, right_unit)?) {
                (Number::Exact(a), Number::Exact(b)) => Some(compare_exact(a, b)),
                (Number::Float(a), Number::Float(b)) => Some(compare_floats(a, b)),
                (Number::Exact(a), Number::Float(b)) => Some(compare_exact_float(a, b)),
                (Number::Float(a), Number::Exact(b)) => Some(compare_exact_float(b, a).reverse()),
            }
        }),
    }
}

enum Number {
    Exact((i128, u8)),
    Float(f64),
}

fn number(data: &Data<'_>, row: usize, scale: u8, unit: i128) -> Option<Number> {
    Some(match data {
        Data::Ints(v) => Number::Exact((i128::from(v[row]) * unit, scale)),
        Data::UInts(v) => Number::Exact((i128::from(v[row]), 0)),
        Data::Floats(v) => Number::Float(v[row]),
        Data::One(Value::Int(v)) => Number::Exact((*v, 0)),
        Data::One(Value::Decimal { unscaled, scale }) => Number::Exact((*unscaled, *scale)),
        Data::One(Value::Float(v)) => Number::Float(*v),
        Data::One(Value::Bool(v)) => Number::Exact((i128::from(*v), 0)),
        Data::One(Value::Date(v)) => Number::Exact((i128::from(*v) * unit, 0)),
        Data::One(Value::Timestamp(v)) => Number::Exact((i128::from(*v), 0)),
        Data::Texts(_) | Data::One(Value::Null | Value::Text(_)) => return None,
    })
}
