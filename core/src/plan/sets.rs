//! Sets in filters: row addresses, keys and texts, bound to a table, and what Explain counts of them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::{Binder, expr::BoundExpr, pred::Pred};
use crate::{
    encoding::{IdKeys, KeyTest, TextTest},
    error::{Error, ErrorKind, Result},
    query::{Expr, KeyFilter, RowSet, SipOrigin, TextFilter},
    schema::DataType,
};

/// A set that a filter asks, and what became of the rows that it was asked about.
#[derive(Debug)]
pub struct BoundSet {
    /// The condition as a person would write it.
    pub text: String,
    /// How the set is written.
    pub tag: &'static str,
    /// Its bytes.
    pub bytes: u64,
    /// How many addresses, keys or texts it has.
    pub cardinality: u64,
    /// Where it comes from.
    pub origin: SipOrigin,
    rows_in: AtomicU64,
    rows_passed: AtomicU64,
    build_ns: AtomicU64,
    apply_ns: AtomicU64,
}

/// What a set was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetCounts {
    /// Rows that it was asked about.
    pub rows_in: u64,
    /// Those of them that passed.
    pub rows_passed: u64,
    /// Nanoseconds that it took to get it and to prepare it.
    pub build_ns: u64,
    /// Nanoseconds that it took to ask it, of all threads together.
    pub apply_ns: u64,
}

impl BoundSet {
    fn new(text: String, tag: &'static str, bytes: u64, cardinality: u64, origin: SipOrigin) -> Self {
        let build_ns = if let SipOrigin::SemiJoin { build_ns, .. } = origin { build_ns } else { 0 };
        Self {
            text,
            tag,
            bytes,
            cardinality,
            origin,
            rows_in: AtomicU64::new(0),
            rows_passed: AtomicU64::new(0),
            build_ns: AtomicU64::new(build_ns),
            apply_ns: AtomicU64::new(0),
        }
    }

    /// Counts that the set was asked about some rows.
    pub(crate) fn count(&self, rows_in: u64, rows_passed: u64, apply_ns: u64) {
        self.rows_in.fetch_add(rows_in, Ordering::Relaxed);
        self.rows_passed.fetch_add(rows_passed, Ordering::Relaxed);
        self.apply_ns.fetch_add(apply_ns, Ordering::Relaxed);
    }

    /// Counts time that it took to prepare it.
    pub(crate) fn count_build(&self, build_ns: u64) {
        self.build_ns.fetch_add(build_ns, Ordering::Relaxed);
    }

    /// What it was asked until now.
    pub fn counts(&self) -> SetCounts {
        SetCounts {
            rows_in: self.rows_in.load(Ordering::Relaxed),
            rows_passed: self.rows_passed.load(Ordering::Relaxed),
            build_ns: self.build_ns.load(Ordering::Relaxed),
            apply_ns: self.apply_ns.load(Ordering::Relaxed),
        }
    }
}

/// Whether ids of one type are values of another: all integers are, and decimals of one scale.
pub(crate) fn go_together(a: DataType, b: DataType) -> bool {
    match (a, b) {
        (DataType::Decimal { scale: a, .. }, DataType::Decimal { scale: b, .. }) => a == b,
        (a, b) => a == b || (a.is_integer() && b.is_integer()),
    }
}

/// Which keys of a column the ids of a set are.
fn id_keys(column: DataType, set: DataType) -> IdKeys {
    let flipped = column == DataType::UInt64;
    let unsigned = set.is_unsigned();
    IdKeys { flipped, half: flipped != unsigned }
}

impl Binder<'_> {
    /// Rows by their addresses.
    pub(super) fn rows(&self, rows: &RowSet, negated: bool) -> Result<Pred> {
        if !self.slots.of_rows {
            return Err(Error::new(ErrorKind::InvalidQuery, "row addresses select rows, not groups"));
        }
        if rows.table != self.table.name() {
            let message =
                format!("row addresses of table {:?} in a filter on {:?}", rows.table, self.table.name());
            return Err(Error::new(ErrorKind::ScopeMismatch, message).at("scope.table"));
        }
        if rows.table_id.is_some_and(|id| id != self.table.id()) {
            let message = "row addresses of a table that is gone; there is another under its name";
            return Err(Error::new(ErrorKind::ScopeMismatch, message).at("scope.table_id"));
        }
        if rows.version != self.version {
            let message =
                format!("row addresses of version {} in a read of version {}", rows.version, self.version);
            return Err(Error::new(ErrorKind::ScopeMismatch, message).at("scope.version"));
        }
        let sip = &rows.sip;
        let not = if negated { "NOT " } else { "" };
        let text = format!("{not}ROW ADDRESS IN SIP of {} rows", sip.cardinality());
        let bytes = sip.as_bytes().len() as u64;
        let set = BoundSet::new(text, sip.tag().name(), bytes, sip.cardinality(), rows.origin.clone());
        Ok(Pred::Set { set: Arc::new(set), test: Box::new(Pred::Rows { sip: Arc::clone(sip), negated }) })
    }

    /// A column's values by their ids.
    pub(super) fn keys(&mut self, filter: &KeyFilter, negated: bool, depth: usize) -> Result<Pred> {
        let set = &filter.set;
        let (slot, data_type) = self.set_column(&filter.column, depth)?;
        if !data_type.has_key_domain() {
            let message = format!("columns of type {data_type} have no key domain");
            return Err(Error::new(ErrorKind::TypeMismatch, message).at("column"));
        }
        if !go_together(data_type, set.data_type) {
            let message = format!("a set of {} keys beside a column of type {data_type}", set.data_type);
            return Err(match set.origin {
                SipOrigin::SemiJoin { .. } => Error::new(ErrorKind::TypeMismatch, message).at("column"),
                _ => Error::new(ErrorKind::ScopeMismatch, message).at("scope.key.type"),
            });
        }
        let sip = &set.sip;
        let text = self.in_set(&filter.column, negated, sip.cardinality(), "keys", &set.origin);
        let ids = id_keys(data_type, set.data_type);
        let pred = membership(sip.is_empty(), set.has_null, negated, || Pred::Keys {
            slot,
            test: KeyTest::of_sip(sip, ids),
            codes: None,
            negated,
            text: text.as_str().into(),
        });
        let bytes = sip.as_bytes().len() as u64;
        let set = BoundSet::new(text, sip.tag().name(), bytes, sip.cardinality(), set.origin.clone());
        Ok(Pred::Set { set: Arc::new(set), test: Box::new(pred) })
    }

    /// A column's texts.
    pub(super) fn texts(&mut self, filter: &TextFilter, negated: bool, depth: usize) -> Result<Pred> {
        let (slot, data_type) = self.set_column(&filter.column, depth)?;
        if data_type != DataType::Utf8 {
            let message = format!("a set of texts beside a column of type {data_type}");
            return Err(Error::new(ErrorKind::TypeMismatch, message).at("column"));
        }
        let texts = &filter.texts;
        let cardinality = texts.texts().len() as u64;
        let text = self.in_set(&filter.column, negated, cardinality, "texts", &filter.origin);
        let pred = membership(cardinality == 0, filter.has_null, negated, || Pred::Text {
            slot,
            test: TextTest::In(Arc::clone(texts)),
            negated,
            text: text.as_str().into(),
        });
        let bytes = texts.bytes() as u64;
        let set = BoundSet::new(text, "texts", bytes, cardinality, filter.origin.clone());
        Ok(Pred::Set { set: Arc::new(set), test: Box::new(pred) })
    }

    /// The slot of the column that a set is about.
    fn set_column(&mut self, name: &str, depth: usize) -> Result<(usize, DataType)> {
        match self.expr(&Expr::Column(name.to_owned()), depth + 1)? {
            BoundExpr::Slot(slot) if self.lowers(slot) || !self.slots.of_rows => {
                Ok((slot, self.slots.fields[slot].1))
            }
            _ => {
                let message = "row addresses are selected by a set of rows";
                Err(Error::new(ErrorKind::InvalidQuery, message).at("column"))
            }
        }
    }

    fn in_set(&self, column: &str, negated: bool, n: u64, what: &str, origin: &SipOrigin) -> String {
        let not = if negated { "NOT " } else { "" };
        match origin {
            SipOrigin::SemiJoin { table, key, .. } => {
                format!("{column} {not}IN (SELECT {key} FROM {table}: {n} {what})")
            }
            _ => format!("{column} {not}IN SIP of {n} {what}"),
        }
    }
}

/// `x IN set` or `x NOT IN set`: an empty set holds nothing, not even the unknown value; with a null in the set
/// any value may be there.
fn membership(is_empty: bool, has_null: bool, negated: bool, test: impl FnOnce() -> Pred) -> Pred {
    match (is_empty, has_null) {
        (true, false) => Pred::Constant(negated),
        (_, true) if negated => Pred::Constant(false),
        _ => test(),
    }
}
