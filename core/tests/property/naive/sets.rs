//! Membership in sets, by SQL's rules for IN: an empty set holds nothing; null may be any value, in the set or
//! beside it.

use basalt_core::query::{Expr, Filter, KeyFilter, Query, SemiJoin};

use super::{Evaluator, Scope, Table, filter::Truth};
use crate::value::{Value, order};

/// The distinct values of a semi-join, sorted.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) values: Vec<Value>,
    pub(super) has_null: bool,
}

impl Evaluator<'_> {
    pub(super) fn keys(&self, filter: &KeyFilter, scope: Scope<'_>) -> Truth {
        let set = &filter.set;
        let contains = |value: &Value| {
            let integer = value.integer().unwrap();
            let id = if set.data_type.is_unsigned() {
                u64::try_from(integer).ok()
            } else {
                i64::try_from(integer).ok().map(i64::cast_unsigned)
            };
            id.is_some_and(|id| set.sip.contains(id))
        };
        self.membership(&filter.column, scope, set.sip.cardinality() == 0, set.has_null, contains)
    }

    pub(super) fn semi_join(&self, join: &SemiJoin, scope: Scope<'_>) -> Truth {
        let inners = self.inners.borrow();
        let Inner { values, has_null } = &inners[&std::ptr::from_ref(join).addr()];
        let contains = |value: &Value| values.binary_search_by(|inner| order(inner, value)).is_ok();
        self.membership(&join.column, scope, values.is_empty(), *has_null, contains)
    }

    fn membership(
        &self,
        column: &str,
        scope: Scope<'_>,
        is_empty: bool,
        has_null: bool,
        contains: impl Fn(&Value) -> bool,
    ) -> Truth {
        match self.expr(&Expr::Column(column.to_owned()), scope) {
            _ if is_empty && !has_null => Truth::FALSE,
            Ok(Value::Null) => Truth::NULL,
            Ok(value) if contains(&value) => Truth::TRUE,
            Ok(_) if has_null => Truth::NULL,
            Ok(_) => Truth::FALSE,
            Err(_) => Truth::ANY,
        }
    }

    /// Answers the semi-joins of a query, which run before it, whatever it needs; false if one is uncertain.
    pub(super) fn prepare(&self, query: &Query) -> bool {
        // Each of them: what is uncertain is evaluated as well.
        query.filter.iter().chain(&query.having).filter(|filter| !self.prepare_filter(filter)).count() == 0
    }

    fn prepare_filter(&self, filter: &Filter) -> bool {
        match filter {
            // Each of them, for the errors that it may report.
            Filter::And(filters) | Filter::Or(filters) => {
                filters.iter().filter(|filter| !self.prepare_filter(filter)).count() == 0
            }
            Filter::Not(inner) => self.prepare_filter(inner),
            Filter::SemiJoin(join) => {
                let inner = Evaluator::new(self.named(&join.table), self.outer);
                let (certain, values) = inner.values(&join.key, join.filter.as_ref());
                self.failures.borrow_mut().extend(inner.failures.into_inner());
                self.inners.borrow_mut().insert(std::ptr::from_ref(&**join).addr(), values);
                certain
            }
            _ => true,
        }
    }

    /// The values of a column over the rows that a filter selects, and whether they are certain.
    pub(super) fn values(&self, key: &str, filter: Option<&Filter>) -> (bool, Inner) {
        let mut certain = filter.is_none_or(|filter| self.prepare_filter(filter));
        let mut inner = Inner::default();
        for row in 0..self.table.rows.len() {
            let scope = Scope::Row(row);
            match filter.map_or(Ok(true), |filter| self.filter(filter, scope).decide()) {
                Ok(true) => match self.expr(&Expr::Column(key.to_owned()), scope) {
                    Ok(Value::Null) => inner.has_null = true,
                    Ok(value) => inner.values.push(value),
                    Err(_) => certain = false,
                },
                Ok(false) => {}
                Err(()) => certain = false,
            }
        }
        inner.values.sort_by(order);
        inner.values.dedup_by(|a, b| order(a, b).is_eq());
        (certain, inner)
    }

    pub(super) fn named(&self, name: &str) -> &Table<'_> {
        if self.outer.name == name { self.outer } else { self.outer.inner.unwrap() }
    }
}
