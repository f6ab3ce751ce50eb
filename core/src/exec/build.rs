//! The seam between a query and what other tables say to it: its resolver names a table, a column and a filter,
//! and somebody finds the values. One process does so by itself ([`LocalBuild`]); a cluster asks its nodes.

use std::sync::Arc;

use arrow_array::RecordBatch;
use basalt_sip::Sip;

use super::{
    Control, SetUse, Statistics,
    keys::{check_domain, select_keys_with, select_texts},
};
use crate::{
    encoding::TextMembers,
    error::{Error, ErrorKind, Result},
    plan::Plan,
    query::{Filter, KeyFilter, KeySet, Query, SipOrigin, TextFilter},
    schema::DataType,
    table::{Catalog, Snapshot, Table, no_column},
};

/// What a semi-join asks of its inner table.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// The table.
    pub table: &'a Arc<Table>,
    /// The version that the query reads of it.
    pub snapshot: &'a Arc<Snapshot>,
    /// The place of the column whose values are asked for.
    pub key: usize,
    /// Which rows; it has no semi-joins left.
    pub filter: Option<&'a Filter>,
}

impl Build<'_> {
    /// That the values of the column can be asked for.
    ///
    /// # Errors
    /// [`ErrorKind::TypeMismatch`] for floats.
    pub fn check_key(&self) -> Result<()> {
        check_key(self.table, self.key)
    }
}

/// That the values of a column can be asked for, as ids or as texts.
fn check_key(table: &Table, key: usize) -> Result<()> {
    match table.schema().fields()[key].data_type {
        DataType::Utf8 => Ok(()),
        data_type => check_domain(data_type),
    }
}

/// The distinct values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum BuiltSet {
    /// Of a fixed-width type, floats apart.
    Keys {
        /// What the ids are values of.
        data_type: DataType,
        /// Null is among them.
        has_null: bool,
        /// The ids; see [`KeySet`].
        sip: Arc<Sip>,
    },
    /// Texts.
    Texts {
        /// The texts.
        texts: Arc<TextMembers>,
        /// Null is among them.
        has_null: bool,
    },
}

impl BuiltSet {
    /// No values of a type.
    pub fn empty(data_type: DataType) -> Self {
        match data_type {
            DataType::Utf8 => Self::Texts { texts: Arc::new([].into_iter().collect()), has_null: false },
            data_type => Self::Keys { data_type, has_null: false, sip: Arc::new(Sip::empty()) },
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Keys { sip, .. } => sip.heap_bytes(),
            Self::Texts { texts, .. } => texts.bytes(),
        }
    }

    /// The union with the same column's values of other rows.
    ///
    /// # Errors
    /// [`ErrorKind::TypeMismatch`] when the other is of another type.
    pub fn union(self, other: Self) -> Result<Self> {
        Ok(match (self, other) {
            (
                Self::Keys { data_type, has_null, sip },
                Self::Keys { data_type: of_other, has_null: other_null, sip: others },
            ) if data_type == of_other => {
                Self::Keys { data_type, has_null: has_null || other_null, sip: Arc::new(sip.union(&others)) }
            }
            (Self::Texts { texts, has_null }, Self::Texts { texts: others, has_null: other_null }) => {
                let both = texts.texts().iter().chain(others.texts()).cloned();
                Self::Texts { texts: Arc::new(both.collect()), has_null: has_null || other_null }
            }
            _ => {
                let message = "values of two types for one semi-join";
                return Err(Error::new(ErrorKind::TypeMismatch, message));
            }
        })
    }

    /// The filter `column IN set`.
    pub(super) fn into_filter(self, column: String, origin: SipOrigin) -> Filter {
        match self {
            Self::Keys { data_type, has_null, sip } => {
                Filter::Keys(KeyFilter { column, set: KeySet { data_type, has_null, sip, origin } })
            }
            Self::Texts { texts, has_null } => Filter::Texts(TextFilter { column, texts, has_null, origin }),
        }
    }
}

/// Finds what a query asks of tables beside its own. It may take its time: who calls it can wait.
pub trait BuildSide {
    /// The table with a name, and a version of it; the newest where none is named.
    ///
    /// # Errors
    /// [`ErrorKind::TableNotFound`], [`ErrorKind::VersionGone`].
    fn table(&mut self, name: &str, version: Option<u64>) -> Result<(Arc<Table>, Arc<Snapshot>)>;

    /// The distinct values that a semi-join's inner query selects.
    ///
    /// # Errors
    /// What is wrong with the inner query, and those of its run.
    fn set(&mut self, build: &Build<'_>) -> Result<BuiltSet>;

    /// The answer of a query that has no semi-joins. What its batches take counts as memory of the request
    /// ([`Control::reserve`]) from the first on.
    ///
    /// # Errors
    /// What is wrong with the query, and those of its run.
    fn rows(
        &mut self,
        table: &Arc<Table>,
        snapshot: &Arc<Snapshot>,
        query: &Query,
    ) -> Result<Vec<RecordBatch>>;
}

/// Tables that this process holds whole.
#[derive(Debug)]
pub struct LocalBuild<'a> {
    catalog: &'a Catalog,
    control: &'a Control,
    uses: Vec<SetUse>,
}

impl<'a> LocalBuild<'a> {
    /// The tables of a catalog.
    pub fn new(catalog: &'a Catalog, control: &'a Control) -> Self {
        Self { catalog, control, uses: Vec::new() }
    }

    /// What the sets in the filters of inner queries did, when the control has a clock.
    pub fn into_uses(self) -> Vec<SetUse> {
        self.uses
    }
}

impl BuildSide for LocalBuild<'_> {
    fn table(&mut self, name: &str, version: Option<u64>) -> Result<(Arc<Table>, Arc<Snapshot>)> {
        let table = self.catalog.get(name)?;
        let snapshot = table.seen_at(version, self.control.time()).map_err(|e| e.at("version"))?;
        Ok((table, snapshot))
    }

    fn set(&mut self, build: &Build<'_>) -> Result<BuiltSet> {
        let Build { table, snapshot, key, filter } = *build;
        Ok(values(table, snapshot, key, filter, self.control, &mut self.uses)?.0)
    }

    fn rows(
        &mut self,
        table: &Arc<Table>,
        snapshot: &Arc<Snapshot>,
        query: &Query,
    ) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        Plan::new(table, snapshot, query)?.run(snapshot, self.control, &mut |batch| {
            self.control.reserve(batch.get_array_memory_size())?;
            batches.push(batch);
            Ok(())
        })?;
        Ok(batches)
    }
}

/// The distinct values of column `key` over the rows of a snapshot that a filter selects.
///
/// # Errors
/// [`ErrorKind::ColumnNotFound`]; [`ErrorKind::TypeMismatch`] for floats, which are no ids; and those of
/// [`select`](super::select).
pub fn select_values(
    table: &Table,
    snapshot: &Snapshot,
    key: &str,
    filter: Option<&Filter>,
    control: &Control,
) -> Result<(BuiltSet, Statistics)> {
    select_values_with(table, snapshot, key, filter, control, &mut Vec::new())
}

/// The same; what the filter's sets did goes to `uses`, when the control has a clock.
///
/// # Errors
/// Those of [`select_values`].
pub fn select_values_with(
    table: &Table,
    snapshot: &Snapshot,
    key: &str,
    filter: Option<&Filter>,
    control: &Control,
    uses: &mut Vec<SetUse>,
) -> Result<(BuiltSet, Statistics)> {
    let slot = table.schema().index_of(key).ok_or_else(|| no_column(table, key).at("key"))?;
    values(table, snapshot, slot, filter, control, uses)
}

/// The same; what the filter's sets did goes to `uses`.
fn values(
    table: &Table,
    snapshot: &Snapshot,
    key: usize,
    filter: Option<&Filter>,
    control: &Control,
    uses: &mut Vec<SetUse>,
) -> Result<(BuiltSet, Statistics)> {
    let field = &table.schema().fields()[key];
    if field.data_type == DataType::Utf8 {
        let (texts, has_null, statistics) = select_texts(table, snapshot, key, filter, control, uses)?;
        return Ok((BuiltSet::Texts { texts: Arc::new(texts), has_null }, statistics));
    }
    let (keys, statistics) = select_keys_with(table, snapshot, &field.name, filter, control, uses)?;
    let (data_type, has_null) = (keys.data_type, keys.has_null);
    Ok((BuiltSet::Keys { data_type, has_null, sip: Arc::new(keys.sip) }, statistics))
}
