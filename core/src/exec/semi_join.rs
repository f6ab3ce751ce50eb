//! Semi-joins: the inner query runs first, and its distinct keys become a set that the outer filter asks.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Control, SetUse,
    attributes::Attributes,
    build::{Build, BuildSide, BuiltSet, LocalBuild},
};
use crate::{
    error::{Error, ErrorKind, Result},
    limits::{MAX_FILTER_DEPTH, MAX_SEMI_JOINS},
    query::{Filter, Query, SemiJoin, SipOrigin},
    schema::Field,
    table::{Catalog, Snapshot, Table, no_column},
};

/// Replaces the semi-joins of a query over `table` by sets of their keys, and finds the values of its attributes:
/// conditions on them are semi-joins. A table that is named more than once
/// is read at one version, `table` at that of `snapshot`. The answer is what the inner queries' sets did, when
/// `control` has a clock: for Explain.
///
/// # Errors
/// Those of [`Resolver::query`].
pub fn resolve(
    catalog: &Catalog,
    table: &Arc<Table>,
    snapshot: &Arc<Snapshot>,
    query: &mut Query,
    control: &Control,
) -> Result<Vec<SetUse>> {
    let mut build = LocalBuild::new(catalog, control);
    Resolver::new(table, snapshot, &mut build, control).query(query)?;
    Ok(build.into_uses())
}

/// The same for a filter alone, as [`select`](super::select) and [`select_keys`](super::select_keys) take it.
///
/// # Errors
/// Those of [`resolve`].
pub fn resolve_filter(
    catalog: &Catalog,
    table: &Arc<Table>,
    snapshot: &Arc<Snapshot>,
    filter: &mut Filter,
    control: &Control,
) -> Result<Vec<SetUse>> {
    let mut build = LocalBuild::new(catalog, control);
    Resolver::new(table, snapshot, &mut build, control).filter(filter)?;
    Ok(build.into_uses())
}

/// Puts sets in the places of a query's semi-joins, depth first, in `filter` before `having`. What stands
/// inside a semi-join is not looked at: whoever built its set has done so.
///
/// # Errors
/// [`ErrorKind::InvalidQuery`] when there are not as many of the one as of the other.
pub fn place_sets(query: &mut Query, sets: impl IntoIterator<Item = BuiltSet>) -> Result<()> {
    let mut sets = sets.into_iter();
    let mut place = |join: &mut SemiJoin, _| {
        let SemiJoin { column, table, key, .. } = std::mem::take(join);
        let set = sets.next().ok_or_else(|| uneven("fewer"))?;
        Ok(set.into_filter(column, SipOrigin::SemiJoin { table, key, build_ns: 0 }))
    };
    for (filter, name) in [(&mut query.filter, "filter"), (&mut query.having, "having")] {
        if let Some(filter) = filter {
            replace(filter, 1, &mut place).map_err(|e| e.at(name))?;
        }
    }
    if sets.next().is_some() { Err(uneven("more")) } else { Ok(()) }
}

fn uneven(which: &str) -> Error {
    Error::new(ErrorKind::InvalidQuery, format!("{which} sets than semi-joins"))
}

/// Puts what `with` makes of them in the places of a filter's semi-joins, depth first; its argument is how deep each is.
fn replace(
    filter: &mut Filter,
    depth: usize,
    with: &mut dyn FnMut(&mut SemiJoin, usize) -> Result<Filter>,
) -> Result<()> {
    if depth > MAX_FILTER_DEPTH {
        let message = format!("nested deeper than {MAX_FILTER_DEPTH}");
        return Err(Error::new(ErrorKind::FilterTooDeep, message));
    }
    let mut list = |filters: &mut [Filter], name: &str| {
        let mut filters = filters.iter_mut().enumerate();
        filters.try_for_each(|(i, f)| replace(f, depth + 1, with).map_err(|e| e.at(format!("{name}[{i}]"))))
    };
    match filter {
        Filter::And(filters) => list(filters, "and")?,
        Filter::Or(filters) => list(filters, "or")?,
        Filter::Not(inner) => replace(inner, depth + 1, with).map_err(|e| e.at("not"))?,
        Filter::SemiJoin(join) => *filter = with(join, depth).map_err(|e| e.at("semi_join"))?,
        _ => {}
    }
    Ok(())
}

/// Replaces the semi-joins of one query over one table by sets of their keys, and finds the values of its attributes.
/// A table that is named more than once is read at one version.
pub struct Resolver<'a> {
    pub(super) build: &'a mut dyn BuildSide,
    pub(super) control: &'a Control,
    /// The query's own table.
    outer: Arc<Table>,
    /// What was named so far.
    tables: BTreeMap<String, (Arc<Table>, Arc<Snapshot>)>,
    joins: usize,
    pub(super) attributes: Attributes,
}

impl<'a> Resolver<'a> {
    /// For a query over `table`, which is read at the version of `snapshot`; the sets come from `build`.
    pub fn new(
        table: &Arc<Table>,
        snapshot: &Arc<Snapshot>,
        build: &'a mut dyn BuildSide,
        control: &'a Control,
    ) -> Self {
        let named = (table.name().to_owned(), (Arc::clone(table), Arc::clone(snapshot)));
        Self {
            build,
            control,
            outer: Arc::clone(table),
            tables: BTreeMap::from([named]),
            joins: 0,
            attributes: Attributes::default(),
        }
    }

    /// Replaces and finds those of a query.
    ///
    /// # Errors
    /// What is wrong with a semi-join, and where; [`ErrorKind::FilterTooLarge`] when there are more than
    /// [`MAX_SEMI_JOINS`]; and the errors of the inner queries.
    pub fn query(&mut self, query: &mut Query) -> Result<()> {
        if let Some(filter) = &mut query.filter {
            self.filter(filter)?;
        }
        let table = Arc::clone(&self.outer);
        if let Some(having) = &mut query.having {
            self.joins_of(&table, having, 1).map_err(|e| e.at("having"))?;
        }
        self.lookups_of_selected(&table, query)
    }

    /// Replaces and finds those of a filter alone.
    ///
    /// # Errors
    /// Those of [`Resolver::query`].
    pub fn filter(&mut self, filter: &mut Filter) -> Result<()> {
        let table = Arc::clone(&self.outer);
        self.filter_of(&table, filter, 1).map_err(|e| e.at("filter"))
    }

    /// What a filter on a table needs of others: the sets of its semi-joins, the values of its attributes.
    fn filter_of(&mut self, table: &Table, filter: &mut Filter, depth: usize) -> Result<()> {
        self.conditions(table, filter)?;
        self.joins_of(table, filter, depth)?;
        self.lookups(table, filter)
    }

    fn joins_of(&mut self, table: &Table, filter: &mut Filter, depth: usize) -> Result<()> {
        replace(filter, depth, &mut |join, depth| self.semi_join(table, join, depth))
    }

    fn semi_join(&mut self, outer: &Table, join: &mut SemiJoin, depth: usize) -> Result<Filter> {
        self.joins += 1;
        if self.joins > MAX_SEMI_JOINS {
            let message = format!("more than {MAX_SEMI_JOINS} semi-joins");
            return Err(Error::new(ErrorKind::FilterTooLarge, message));
        }
        self.control.check()?;
        let (table, snapshot) = self.table(&join.table, join.version)?;
        if let Some(filter) = &mut join.filter {
            self.filter_of(&table, filter, depth + 1).map_err(|e| e.at("filter"))?;
        }
        let key = table.schema().index_of(&join.key).ok_or_else(|| no_column(&table, &join.key).at("key"))?;
        check_forms(outer, &join.column, &table.schema().fields()[key])?;
        let started = self.control.now();
        let set = self.build.set(&Build {
            table: &table,
            snapshot: &snapshot,
            key,
            filter: join.filter.as_ref(),
        })?;
        self.control.reserve(set.bytes())?;
        let SemiJoin { column, table, key, .. } = std::mem::take(join);
        let origin = SipOrigin::SemiJoin { table, key, build_ns: self.control.now() - started };
        Ok(set.into_filter(column, origin))
    }

    /// The table with a name, at the version that this query reads of it.
    pub(super) fn table(&mut self, name: &str, version: Option<u64>) -> Result<(Arc<Table>, Arc<Snapshot>)> {
        if let Some((table, snapshot)) = self.tables.get(name) {
            table.check_version(snapshot, version).map_err(|e| e.at("version"))?;
            return Ok((Arc::clone(table), Arc::clone(snapshot)));
        }
        let found = self.build.table(name, version)?;
        self.tables.insert(name.to_owned(), found.clone());
        Ok(found)
    }
}

/// Fails where a column and a key are held in the forms of different types: nothing in a set tells them apart.
fn check_forms(outer: &Table, column: &str, key: &Field) -> Result<()> {
    // Default: there is no such column, which binding says.
    let Some(at) = outer.schema().index_of(column) else { return Ok(()) };
    let own = &outer.schema().fields()[at];
    if own.logical == key.logical {
        return Ok(());
    }
    let message = format!("a set of {} beside a column of type {}", key.type_name(), own.type_name());
    Err(Error::new(ErrorKind::TypeMismatch, message).at("column"))
}
