//! Keys of an expression for grouping, distinct counts, minima and maxima: any type becomes i64 keys in its
//! own order, texts by way of a sorted dictionary.

use std::{borrow::Cow, sync::Arc};

use hashbrown::HashMap;

use super::{
    Block,
    vector::{Batch, Data},
};
use crate::{
    encoding::{Codes, KeyColumn, TextColumn, owned_bytes},
    error::Result,
    fragment::{Column, Values},
    invariant::{Invariant, broken, count, index},
    keys,
    mask::Mask,
    plan::expr::{BoundAttribute, BoundExpr, Slots},
    schema::DataType,
    value::Value,
};

/// The texts that codes stand for, sorted.
#[derive(Clone, Debug)]
pub(super) enum Texts<'a> {
    /// A fragment's dictionary.
    Fragment(&'a dyn TextColumn),
    /// Those of an attribute.
    Lookup(&'a [Arc<str>]),
    /// The texts that one block selects.
    Block(Vec<Cow<'a, str>>),
    /// A literal.
    One(String),
}

impl<'a> Texts<'a> {
    /// The texts that a column's keys are codes of.
    pub(super) fn of(column: &'a Column) -> Option<Self> {
        match column.values() {
            Values::Text(texts) => texts.codes().map(|codes| Self::Fragment(codes.entries)),
            Values::Keys(_) => None,
        }
    }

    pub(super) fn get(&self, code: i64) -> Cow<'_, str> {
        let code = index(code.cast_unsigned());
        match self {
            Self::Fragment(entries) => entries.get(code),
            Self::Lookup(texts) => Cow::Borrowed(&texts[code]),
            Self::Block(texts) => Cow::Borrowed(&texts[code]),
            Self::One(text) => Cow::Borrowed(text),
        }
    }

    /// Bytes of texts of its own.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Block(texts) => texts.iter().map(owned_bytes).sum(),
            Self::Fragment(_) | Self::Lookup(_) | Self::One(_) => 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Fragment(entries) => entries.rows(),
            Self::Lookup(texts) => texts.len(),
            Self::Block(texts) => texts.len(),
            Self::One(_) => 1,
        }
    }
}

/// Where the keys of one expression in one block come from.
#[derive(Debug)]
pub(super) struct Source<'a> {
    from: From<'a>,
    texts: Option<Texts<'a>>,
    /// The least and the greatest key, where known.
    range: Option<(i64, i64)>,
}

#[derive(Debug)]
enum From<'a> {
    /// An encoded column's keys or codes.
    Column(&'a Column),
    /// The codes of a column of integers.
    Codes(&'a Column, &'a dyn KeyColumn),
    /// The keys of an attribute's values, or codes of its texts.
    Attribute(&'a BoundAttribute),
    /// Texts without codes, looked up among the block's.
    Lookup(&'a BoundExpr, HashMap<Cow<'a, str>, i64>),
    /// Evaluated.
    Expr(&'a BoundExpr),
}

impl<'a> Source<'a> {
    /// The source for the rows of a block that `mask` selects.
    pub(super) fn new(expr: &'a BoundExpr, slots: &Slots, block: Block<'a>, mask: &Mask) -> Result<Self> {
        if let BoundExpr::Slot(slot) = expr
            && let Some(column) = block.fragment.column_at(*slot)
            && column.keys().is_some()
        {
            let texts = Texts::of(column);
            let range = column.zones()[block.block].range.map(|(lo, hi)| {
                // The two zeros of a float are one key.
                if column.data_type().is_float() { (lo, one_zero(hi)) } else { (lo, hi) }
            });
            return Ok(Self { from: From::Column(column), texts, range: range.or(Some((0, 0))) });
        }
        if let BoundExpr::Attribute(attribute) = expr {
            let texts = attribute.lookup.texts().map(Texts::Lookup);
            return Ok(Self { from: From::Attribute(attribute), texts, range: attribute_range(attribute) });
        }
        if expr.data_type(slots) != Some(DataType::Utf8) {
            return Ok(Self { from: From::Expr(expr), texts: None, range: None });
        }
        if let BoundExpr::Literal(Value::Text(text)) = expr {
            return Ok(Self {
                from: From::Expr(expr),
                texts: Some(Texts::One(text.to_string())),
                range: Some((0, 0)),
            });
        }
        let mut distinct: HashMap<Cow<'a, str>, i64> = HashMap::new();
        let mut rows = Vec::new();
        block.for_each_few(mask, |batch| {
            batch.selection(&mut rows);
            if let Data::Texts(texts) = batch.eval(expr, slots)?.data {
                for row in rows.iter().map(|row| *row as usize) {
                    if !distinct.contains_key(texts.get(row)) {
                        distinct.insert(texts.keep(row), 0);
                    }
                }
            }
            Ok(())
        })?;
        let mut texts: Vec<Cow<'a, str>> = distinct.keys().cloned().collect();
        texts.sort_unstable();
        for (code, text) in (0..).zip(&texts) {
            distinct.insert(text.clone(), code);
        }
        let last = i64::from(count(texts.len().saturating_sub(1)));
        Ok(Self {
            from: From::Lookup(expr, distinct),
            texts: Some(Texts::Block(texts)),
            range: Some((0, last)),
        })
    }

    /// Reads the codes of a column of integers from now on, where they span less than the keys: these stand at the
    /// codes' places in what is returned.
    pub(super) fn read_codes(&mut self) -> Option<&'a [i64]> {
        let (From::Column(column), Some((low, high))) = (&self.from, self.range) else { return None };
        let entries = integer_codes(column)?.entries;
        if entries.len() as u64 > high.abs_diff(low) {
            return None;
        }
        self.range = Some((0, i64::from(count(entries.len() - 1))));
        self.turn_to_codes();
        Some(entries)
    }

    /// Reads the codes of a column of integers, where it has some, from now on.
    pub(super) fn turn_to_codes(&mut self) {
        if let From::Column(column) = self.from
            && let Some(codes) = integer_codes(column)
        {
            self.from = From::Codes(column, codes.codes);
        }
    }

    /// The texts that the keys are codes of.
    pub(super) fn texts(&self) -> Option<&Texts<'a>> {
        self.texts.as_ref()
    }

    /// The texts, once the keys are read.
    pub(super) fn into_texts(self) -> Option<Texts<'a>> {
        self.texts
    }

    /// The least and the greatest key, where known.
    pub(super) fn range(&self) -> Option<(i64, i64)> {
        self.range
    }

    /// The keys of a batch, and which rows are not null (`None`: all).
    pub(super) fn keys(&self, batch: &Batch<'a, '_>, slots: &Slots) -> Result<(Vec<i64>, Option<Vec<u64>>)> {
        match &self.from {
            From::Column(column) => {
                let mut out = batch.ints();
                batch.read(column.keys().invariant("a source is a column with keys"), &mut out);
                if column.data_type().is_float() {
                    out.iter_mut().for_each(|key| *key = one_zero(*key));
                }
                Ok((out, batch.valid_rows(column)))
            }
            From::Codes(column, codes) => {
                let mut out = batch.ints();
                batch.read(*codes, &mut out);
                Ok((out, batch.valid_rows(column)))
            }
            From::Attribute(attribute) => {
                let (mut out, valid) = batch.attribute_keys(attribute);
                if attribute.lookup.data_type().is_float() {
                    out.iter_mut().for_each(|key| *key = one_zero(*key));
                }
                Ok((out, valid))
            }
            From::Lookup(expr, codes) => {
                let vector = batch.eval(expr, slots)?;
                let Data::Texts(texts) = &vector.data else { broken("an expression of texts gives texts") };
                let mut keys = vec![0; batch.rows()];
                basalt_kernels::mask::for_each(batch.selected(), |row| {
                    let code = codes.get(texts.get(row)).copied();
                    keys[row] = code.invariant("the texts of selected rows were looked up");
                });
                Ok((keys, vector.valid))
            }
            From::Expr(expr) => {
                let vector = batch.eval(expr, slots)?;
                let keys = match vector.data {
                    Data::Ints(keys) => keys,
                    Data::UInts(values) => values.into_iter().map(keys::of_u64).collect(),
                    Data::Floats(values) => values.into_iter().map(|v| one_zero(keys::of_f64(v))).collect(),
                    Data::Texts(_) => broken("texts have codes"),
                    Data::One(Value::Null) => {
                        return Ok((vec![0; batch.rows()], Some(vec![0; batch.rows().div_ceil(64)])));
                    }
                    // The only one that there is.
                    Data::One(Value::Text(_)) => vec![0; batch.rows()],
                    Data::One(value) => {
                        let native = expr.data_type(slots).and_then(keys::Native::of);
                        let key = native.and_then(|n| value.to_key(n));
                        vec![key.invariant("a value that is not null has a key of its type"); batch.rows()]
                    }
                };
                Ok((keys, vector.valid))
            }
        }
    }
}

/// The codes of a column of integers, where it has a dictionary that is not empty.
pub(super) fn integer_codes(column: &Column) -> Option<Codes<'_, [i64]>> {
    match column.values() {
        Values::Keys(keys) if !column.data_type().is_float() => {
            keys.codes().filter(|codes| !codes.entries.is_empty())
        }
        _ => None,
    }
}

/// The least and the greatest key of an attribute.
pub(super) fn attribute_range(attribute: &BoundAttribute) -> Option<(i64, i64)> {
    let lookup = &attribute.lookup;
    // Default: what stands for the keys of a lookup without values.
    let (low, high) = lookup.range().unwrap_or((0, 0));
    Some(if lookup.data_type().is_float() { (low, one_zero(high)) } else { (low, high) })
}

/// The key of a float with -0.0 taken as 0.0.
pub(super) fn one_zero(key: i64) -> i64 {
    if key == -1 { 0 } else { key }
}
