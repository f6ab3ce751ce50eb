//! The oracle: every row, every group, one value at a time.
//!
//! Three-valued logic is spelled out as sets of truth values. A leaf that fails (a division by zero) could be
//! anything, so its set is all three; `false AND 1/0 = 1` is then certainly false, while `true AND 1/0 = 1` is
//! not certain. What is not certain must be an error; where a failure makes no difference, the engine may
//! report it or not.

mod expr;
mod filter;
mod sets;
mod time;

use std::{
    cell::RefCell,
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
};

use basalt_core::{
    error::ErrorKind,
    query::{Expr, Filter, OrderBy, Query, ROW_ADDRESS, SelectItem},
    schema::Field,
};
use expr::has_aggregate;
pub(crate) use filter::DATES;

use crate::value::{Value, order};

type Result<T> = std::result::Result<T, ErrorKind>;

/// A table as rows.
pub(crate) struct Table<'a> {
    pub(crate) name: &'a str,
    /// The other table of semi-joins.
    pub(crate) inner: Option<&'a Table<'a>>,
    pub(crate) fields: &'a [Field],
    pub(crate) rows: &'a [Vec<Value>],
    pub(crate) addresses: &'a [u64],
}

/// What a query should do.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Vec<Value>>,
    /// A value that the answer needs does not exist.
    pub(crate) must_fail: bool,
    /// What went wrong somewhere, needed or not.
    pub(crate) may_fail: Vec<ErrorKind>,
}

/// What names and aggregates stand for: a row, or a group of rows.
#[derive(Clone, Copy)]
enum Scope<'a> {
    Row(usize),
    Group { keys: &'a [Expr], values: &'a [Value], rows: &'a [usize] },
}

struct Evaluator<'a> {
    table: &'a Table<'a>,
    outer: &'a Table<'a>,
    failures: RefCell<Vec<ErrorKind>>,
    /// The answers of semi-joins, by where they stand in memory.
    inners: RefCell<HashMap<usize, sets::Inner>>,
    /// The rows of the other table by their keys, for each column of keys.
    keys: RefCell<HashMap<String, HashMap<i128, usize>>>,
}

/// Answers a query.
pub(crate) fn answer(table: &Table<'_>, query: &Query) -> Answer {
    let evaluator = Evaluator::new(table, table);
    let certain = evaluator.prepare(query);
    let outcome = evaluator.query(query);
    evaluator.answer(if certain { outcome } else { Err(()) })
}

/// The distinct values of a column over the rows that a filter selects; null is the last.
pub(crate) fn keys(table: &Table<'_>, key: &str, filter: Option<&Filter>) -> Answer {
    let evaluator = Evaluator::new(table, table);
    let (certain, sets::Inner { mut values, has_null }) = evaluator.values(key, filter);
    values.extend(has_null.then_some(Value::Null));
    let rows = values.into_iter().map(|value| vec![value]).collect();
    evaluator.answer(if certain { Ok(rows) } else { Err(()) })
}

/// The addresses of the rows that a filter selects.
pub(crate) fn select(table: &Table<'_>, filter: &Filter) -> Answer {
    let expr = Expr::Column(ROW_ADDRESS.to_owned());
    let select = vec![SelectItem { expr, name: None }];
    answer(table, &Query { select, filter: Some(filter.clone()), ..Query::default() })
}

impl<'a> Evaluator<'a> {
    fn new(table: &'a Table<'a>, outer: &'a Table<'a>) -> Self {
        Self {
            table,
            outer,
            failures: RefCell::default(),
            inners: RefCell::default(),
            keys: RefCell::default(),
        }
    }

    fn answer(self, outcome: std::result::Result<Vec<Vec<Value>>, ()>) -> Answer {
        let may_fail = self.failures.into_inner();
        Answer { must_fail: outcome.is_err(), rows: outcome.unwrap_or_default(), may_fail }
    }

    fn query(&self, query: &Query) -> std::result::Result<Vec<Vec<Value>>, ()> {
        let columns = self.table.fields.iter().map(|field| Expr::Column(field.name.clone()));
        let columns: Vec<Expr> = columns.collect();
        let select: Vec<&Expr> = match (query.select.as_slice(), query.group_by.as_slice()) {
            ([], []) => columns.iter().collect(),
            ([], keys) => keys.iter().collect(),
            (items, _) => items.iter().map(|item| &item.expr).collect(),
        };
        let grouped = !query.group_by.is_empty()
            || query.having.is_some()
            || select.iter().copied().chain(query.order_by.iter().map(|key| &key.expr)).any(has_aggregate);
        let sort_keys: Vec<&Expr> = query.order_by.iter().map(|key| named(key, query, &select)).collect();
        if grouped { self.groups(query, &select, &sort_keys) } else { self.rows(query, &select, &sort_keys) }
    }

    fn rows(
        &self,
        query: &Query,
        select: &[&Expr],
        sort_keys: &[&Expr],
    ) -> std::result::Result<Vec<Vec<Value>>, ()> {
        let page = page(query);
        let mut selected = Vec::new();
        let mut uncertain = false;
        for row in 0..self.table.rows.len() {
            let is_selected = query
                .filter
                .as_ref()
                .map_or(Ok(true), |filter| self.filter(filter, Scope::Row(row)).decide());
            // Without an order, a row behind the page is not needed.
            let is_needed =
                query.limit != Some(0) && (!query.order_by.is_empty() || selected.len() < page.end);
            match is_selected {
                Ok(true) => {
                    let keys = self.sort_values(sort_keys, Scope::Row(row));
                    uncertain |= is_needed && keys.is_err();
                    selected.push((keys.unwrap_or_default(), self.outputs(select, Scope::Row(row))));
                }
                Ok(false) => {}
                Err(()) => uncertain |= is_needed,
            }
        }
        if query.limit == Some(0) {
            return Ok(Vec::new());
        }
        if uncertain {
            return Err(());
        }
        // The sort is stable: rows that the order leaves equal stay in the order of their addresses.
        selected.sort_by(|a, b| by_keys(&query.order_by, &a.0, &b.0));
        selected.into_iter().take(page.end).skip(page.start).map(|(_, outputs)| outputs).collect()
    }

    fn groups(
        &self,
        query: &Query,
        select: &[&Expr],
        sort_keys: &[&Expr],
    ) -> std::result::Result<Vec<Vec<Value>>, ()> {
        let mut groups: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        if query.group_by.is_empty() {
            groups.insert(Key(Vec::new()), Vec::new());
        }
        let mut uncertain = false;
        for row in 0..self.table.rows.len() {
            let is_selected = query
                .filter
                .as_ref()
                .map_or(Ok(true), |filter| self.filter(filter, Scope::Row(row)).decide());
            if is_selected == Ok(true) {
                match query.group_by.iter().map(|key| self.expr(key, Scope::Row(row))).collect::<Result<_>>()
                {
                    Ok(key) => groups.entry(Key(key)).or_default().push(row),
                    Err(_) => uncertain = true,
                }
            }
            uncertain |= is_selected.is_err();
        }
        let mut shown = Vec::new();
        // In the order of their keys, which the stable sort below keeps where the query's order leaves it open.
        for (Key(values), rows) in &groups {
            let scope = Scope::Group { keys: &query.group_by, values, rows };
            // Also for groups that are not shown: the engine may compute all aggregates before it knows.
            let (keys, outputs) = (self.sort_values(sort_keys, scope), self.outputs(select, scope));
            match query.having.as_ref().map_or(Ok(true), |having| self.filter(having, scope).decide()) {
                Ok(true) => {
                    uncertain |= keys.is_err();
                    shown.push((keys.unwrap_or_default(), outputs));
                }
                Ok(false) => {}
                Err(()) => uncertain = true,
            }
        }
        if query.limit == Some(0) {
            return Ok(Vec::new());
        }
        if uncertain {
            return Err(());
        }
        shown.sort_by(|a, b| by_keys(&query.order_by, &a.0, &b.0));
        let page = page(query);
        shown.into_iter().take(page.end).skip(page.start).map(|(_, outputs)| outputs).collect()
    }

    fn sort_values(&self, keys: &[&Expr], scope: Scope<'_>) -> std::result::Result<Vec<Value>, ()> {
        all(keys.iter().map(|key| self.expr(key, scope)))
    }

    fn outputs(&self, select: &[&Expr], scope: Scope<'_>) -> std::result::Result<Vec<Value>, ()> {
        all(select.iter().map(|expr| self.output(expr, scope)))
    }

    /// A value of the answer: integers there have 64 bits.
    fn output(&self, expr: &Expr, scope: Scope<'_>) -> Result<Value> {
        match self.expr(expr, scope)? {
            Value::Int(int) if matches!(expr, Expr::Arithmetic(..)) && i64::try_from(int).is_err() => {
                Err(self.fail(ErrorKind::Overflow))
            }
            value => Ok(value),
        }
    }
}

/// All values, each evaluated even where one before it failed.
fn all(values: impl Iterator<Item = Result<Value>>) -> std::result::Result<Vec<Value>, ()> {
    let values: Vec<_> = values.collect();
    values.into_iter().collect::<Result<_>>().map_err(|_| ())
}

/// A sort key that is a column may be the name of an output.
fn named<'a>(key: &'a OrderBy, query: &'a Query, select: &[&'a Expr]) -> &'a Expr {
    let Expr::Column(name) = &key.expr else { return &key.expr };
    if key.of_table {
        return &key.expr;
    }
    let output = query.select.iter().position(|item| item.name.as_ref() == Some(name));
    output.map_or(&key.expr, |i| select[i])
}

/// The rows of the order that the answer shows.
fn page(query: &Query) -> std::ops::Range<usize> {
    let start = usize::try_from(query.offset).unwrap();
    start..query.limit.map_or(usize::MAX, |limit| start.saturating_add(usize::try_from(limit).unwrap()))
}

fn by_keys(order_by: &[OrderBy], a: &[Value], b: &[Value]) -> Ordering {
    order_by.iter().zip(a.iter().zip(b)).fold(Ordering::Equal, |earlier, (key, (a, b))| {
        earlier.then_with(|| match (a == &Value::Null, b == &Value::Null) {
            (false, false) if key.descending => order(b, a),
            (false, false) => order(a, b),
            (a, b) if key.nulls_first => b.cmp(&a),
            (a, b) => a.cmp(&b),
        })
    })
}

/// The key of a group, in the order of groups.
#[derive(Debug)]
struct Key(Vec<Value>);

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.iter().zip(&other.0).fold(Ordering::Equal, |earlier, (a, b)| earlier.then_with(|| order(a, b)))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}
