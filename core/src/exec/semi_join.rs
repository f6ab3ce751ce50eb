//! Semi-joins: the inner query runs first, and its distinct keys become a set that the outer filter asks.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Control, SetUse,
    keys::{select_keys_with, select_texts},
};
use crate::{
    error::{Error, ErrorKind, Result},
    limits::{MAX_FILTER_DEPTH, MAX_SEMI_JOINS},
    query::{Filter, KeyFilter, KeySet, Query, SemiJoin, SipOrigin, TextFilter},
    schema::DataType,
    table::{Catalog, Snapshot, Table, no_column},
};

/// Replaces the semi-joins of a query over `table` by sets of their keys. A table that is named more than once
/// is read at one version, `table` at that of `snapshot`. The answer is what the inner queries' sets did, when
/// `control` has a clock: for Explain.
///
/// # Errors
/// What is wrong with a semi-join, and where; [`ErrorKind::FilterTooLarge`] when there are more than
/// [`MAX_SEMI_JOINS`]; and the errors of the inner queries.
pub fn resolve(
    catalog: &Catalog,
    table: &Arc<Table>,
    snapshot: &Arc<Snapshot>,
    query: &mut Query,
    control: &Control,
) -> Result<Vec<SetUse>> {
    let mut resolver = Resolver::new(catalog, table, snapshot, control);
    if let Some(filter) = &mut query.filter {
        resolver.filter(filter, 1).map_err(|e| e.at("filter"))?;
    }
    if let Some(having) = &mut query.having {
        resolver.filter(having, 1).map_err(|e| e.at("having"))?;
    }
    Ok(resolver.sets)
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
    let mut resolver = Resolver::new(catalog, table, snapshot, control);
    resolver.filter(filter, 1).map_err(|e| e.at("filter"))?;
    Ok(resolver.sets)
}

struct Resolver<'a> {
    catalog: &'a Catalog,
    control: &'a Control,
    /// What was named so far.
    tables: BTreeMap<String, (Arc<Table>, Arc<Snapshot>)>,
    joins: usize,
    sets: Vec<SetUse>,
}

impl<'a> Resolver<'a> {
    fn new(catalog: &'a Catalog, table: &Arc<Table>, snapshot: &Arc<Snapshot>, control: &'a Control) -> Self {
        let outer = (table.name().to_owned(), (Arc::clone(table), Arc::clone(snapshot)));
        Self { catalog, control, tables: BTreeMap::from([outer]), joins: 0, sets: Vec::new() }
    }

    fn filter(&mut self, filter: &mut Filter, depth: usize) -> Result<()> {
        if depth > MAX_FILTER_DEPTH {
            let message = format!("nested deeper than {MAX_FILTER_DEPTH}");
            return Err(Error::new(ErrorKind::FilterTooDeep, message));
        }
        match filter {
            Filter::And(filters) => self.list(filters, "and", depth)?,
            Filter::Or(filters) => self.list(filters, "or", depth)?,
            Filter::Not(inner) => self.filter(inner, depth + 1).map_err(|e| e.at("not"))?,
            Filter::SemiJoin(join) => {
                *filter = self.semi_join(join, depth).map_err(|e| e.at("semi_join"))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn list(&mut self, filters: &mut [Filter], name: &str, depth: usize) -> Result<()> {
        for (i, filter) in filters.iter_mut().enumerate() {
            self.filter(filter, depth + 1).map_err(|e| e.at(format!("{name}[{i}]")))?;
        }
        Ok(())
    }

    fn semi_join(&mut self, join: &mut SemiJoin, depth: usize) -> Result<Filter> {
        self.joins += 1;
        if self.joins > MAX_SEMI_JOINS {
            let message = format!("more than {MAX_SEMI_JOINS} semi-joins");
            return Err(Error::new(ErrorKind::FilterTooLarge, message));
        }
        self.control.check()?;
        let (table, snapshot) = self.table(&join.table, join.version)?;
        if let Some(filter) = &mut join.filter {
            self.filter(filter, depth + 1).map_err(|e| e.at("filter"))?;
        }
        let schema = table.schema();
        let slot = schema.index_of(&join.key).ok_or_else(|| no_column(&table, &join.key).at("key"))?;
        let (column, filter) = (join.column.clone(), join.filter.as_ref());
        let started = self.control.now();
        let origin = |control: &Control| SipOrigin::SemiJoin {
            table: join.table.clone(),
            key: join.key.clone(),
            build_ns: control.now() - started,
        };
        if schema.fields()[slot].data_type == DataType::Utf8 {
            let (texts, has_null) =
                select_texts(&table, &snapshot, slot, filter, self.control, &mut self.sets)?;
            self.control.reserve(texts.bytes())?;
            let texts = Arc::new(texts);
            return Ok(Filter::Texts(TextFilter { column, texts, has_null, origin: origin(self.control) }));
        }
        let (selected, _) =
            select_keys_with(&table, &snapshot, &join.key, filter, self.control, &mut self.sets)?;
        self.control.reserve(selected.sip.heap_bytes())?;
        let set = KeySet {
            data_type: selected.data_type,
            has_null: selected.has_null,
            sip: Arc::new(selected.sip),
            origin: origin(self.control),
        };
        Ok(Filter::Keys(KeyFilter { column, set }))
    }

    /// The table with a name, at the version that this query reads of it.
    fn table(&mut self, name: &str, version: Option<u64>) -> Result<(Arc<Table>, Arc<Snapshot>)> {
        if let Some((table, snapshot)) = self.tables.get(name) {
            table.check_version(snapshot, version).map_err(|e| e.at("version"))?;
            return Ok((Arc::clone(table), Arc::clone(snapshot)));
        }
        let table = self.catalog.get(name)?;
        let snapshot = table.snapshot_at(version).map_err(|e| e.at("version"))?;
        self.tables.insert(name.to_owned(), (Arc::clone(&table), Arc::clone(&snapshot)));
        Ok((table, snapshot))
    }
}
