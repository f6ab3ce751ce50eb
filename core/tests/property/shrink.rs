//! From a failing case to a smaller one that still fails.

use std::sync::Arc;

use basalt_core::{
    query::{Expr, Filter, KeyFilter, KeySet, Query, SemiJoin},
    schema::DataType,
};
use basalt_sip::Sip;

use crate::{
    INVALID, TYPES, check_alone,
    generate::{Contents, TypedQuery},
};

/// Leaves out whatever can be left out, until nothing can.
pub(crate) fn shrink(
    mut contents: Contents,
    mut query: TypedQuery,
    mut difference: String,
) -> (Contents, TypedQuery, String) {
    // An error of the request itself, or another type, is what leaving out the wrong part leads to.
    let kind = |difference: &str| [INVALID, TYPES].map(|kind| difference.starts_with(kind));
    let of_first = kind(&difference);
    loop {
        let smaller_queries = queries(&query).into_iter().map(|smaller| (contents.clone(), smaller));
        let all_columns = query.query.select.is_empty() && query.query.group_by.is_empty();
        let smaller_contents =
            smaller_contents(&contents, all_columns).into_iter().map(|smaller| (smaller, query.clone()));
        let failing = smaller_contents.chain(smaller_queries).find_map(|(contents, query)| {
            let difference = check_alone(&contents, &query).err()?;
            (kind(&difference) == of_first).then_some((contents, query, difference))
        });
        match failing {
            Some(smaller) => (contents, query, difference) = smaller,
            None => return (contents, query, difference),
        }
    }
}

/// `all_columns`: the answer has every column, so none can be left out.
fn smaller_contents(contents: &Contents, all_columns: bool) -> Vec<Contents> {
    let mut smaller = Vec::new();
    let n = contents.rows.len();
    // All in one commit, unless that is what it takes.
    if contents.commits.len() > 1 {
        smaller.push(Contents { commits: vec![n], ..contents.clone() });
    }
    if contents.deleted.contains(&true) {
        smaller.push(Contents { deleted: vec![false; n], ..contents.clone() });
    }
    if let Some(inner) = &contents.inner {
        smaller.push(Contents { inner: None, ..contents.clone() });
        let inner = smaller_contents(inner, false).into_iter();
        smaller.extend(inner.map(|inner| Contents { inner: Some(Box::new(inner)), ..contents.clone() }));
    }
    let mut length = n.div_ceil(2);
    while length > 0 && n > 0 {
        for start in (0..n).step_by(length) {
            let (mut rows, mut deleted) = (contents.rows.clone(), contents.deleted.clone());
            rows.drain(start..n.min(start + length));
            deleted.drain(start..n.min(start + length));
            let mut commits = contents.commits.clone();
            let mut left = n - rows.len();
            for commit in commits.iter_mut().rev() {
                let taken = left.min(*commit);
                *commit -= taken;
                left -= taken;
            }
            smaller.push(Contents { rows, deleted, commits, ..contents.clone() });
        }
        // Single rows only of few.
        length = if length == 1 || (length <= n / 16 && n > 64) { 0 } else { length / 2 };
    }
    for i in 0..contents.fields.len() {
        if contents.fields[i].encoding.is_some() {
            let mut plain = contents.clone();
            plain.fields[i].encoding = None;
            smaller.push(plain);
        }
        if contents.fields.len() > 1 && !all_columns {
            let mut narrower = contents.clone();
            narrower.fields.remove(i);
            narrower.rows.iter_mut().for_each(|row| drop(row.remove(i)));
            smaller.push(narrower);
        }
    }
    smaller
}

fn queries(query: &TypedQuery) -> Vec<TypedQuery> {
    let mut smaller = Vec::new();
    let mut push = |types: &[DataType], change: &dyn Fn(&mut Query)| {
        let mut changed = query.query.clone();
        change(&mut changed);
        smaller.push(TypedQuery { query: changed, types: types.to_vec() });
    };
    let types = &query.types;
    if query.query.limit.is_some() {
        push(types, &|q| q.limit = None);
    }
    if query.query.offset > 0 {
        push(types, &|q| q.offset = 0);
    }
    if query.query.having.is_some() {
        push(types, &|q| q.having = None);
    }
    if query.query.filter.is_some() {
        push(types, &|q| q.filter = None);
    }
    for i in 0..query.query.order_by.len() {
        push(types, &|q| drop(q.order_by.remove(i)));
    }
    // Without a selection the answer has the keys.
    let keys = if query.query.select.is_empty() { 0 } else { query.query.group_by.len() };
    for i in 0..keys {
        push(types, &|q| drop(q.group_by.remove(i)));
    }
    if query.query.select.len() > 1 {
        for i in 0..query.query.select.len() {
            let mut types = types.clone();
            types.remove(i);
            push(&types, &|q| drop(q.select.remove(i)));
        }
    }
    for filter in query.query.filter.iter().flat_map(filters) {
        push(types, &|q| q.filter = Some(filter.clone()));
    }
    for having in query.query.having.iter().flat_map(filters) {
        push(types, &|q| q.having = Some(having.clone()));
    }
    smaller
}

/// The filter with one part left out, or that part alone.
fn filters(filter: &Filter) -> Vec<Filter> {
    match filter {
        Filter::And(parts) => lists(parts, &Filter::And),
        Filter::Or(parts) => lists(parts, &Filter::Or),
        Filter::Not(inner) => {
            let inner_smaller = filters(inner).into_iter().map(|smaller| Filter::Not(Box::new(smaller)));
            [*inner.clone()].into_iter().chain(inner_smaller).collect()
        }
        Filter::In(expr, values) => {
            let without = |i: usize| {
                let mut values = values.clone();
                values.remove(i);
                Filter::In(expr.clone(), values)
            };
            (0..values.len()).map(without).collect()
        }
        Filter::SemiJoin(join) => {
            let inner = join.filter.iter().flat_map(filters).map(Some);
            let inner = join.filter.iter().map(|_| None).chain(inner);
            inner.map(|filter| Filter::SemiJoin(Box::new(SemiJoin { filter, ..*join.clone() }))).collect()
        }
        Filter::Keys(keys) => {
            let ids: Vec<u64> = keys.set.sip.iter().collect();
            let half = |ids: &[u64]| {
                let sip = Arc::new(Sip::from_sorted_ids(ids));
                let set = KeySet { sip, ..keys.set.clone() };
                Filter::Keys(KeyFilter { column: keys.column.clone(), set })
            };
            let (front, back) = ids.split_at(ids.len() / 2);
            if ids.len() > 1 { vec![half(front), half(back)] } else { Vec::new() }
        }
        Filter::Compare(op, Expr::Arithmetic(_, left, right), other) => {
            [left, right].map(|side| Filter::Compare(*op, *side.clone(), other.clone())).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn lists(parts: &[Filter], list: &dyn Fn(Vec<Filter>) -> Filter) -> Vec<Filter> {
    let mut smaller = parts.to_vec();
    for (i, part) in parts.iter().enumerate() {
        let mut without = parts.to_vec();
        without.remove(i);
        smaller.push(list(without));
        for part in filters(part) {
            let mut with = parts.to_vec();
            with[i] = part;
            smaller.push(list(with));
        }
    }
    smaller
}
