//! Attributes, which a query's resolver finds in the tables that columns refer to. Conditions on them become
//! semi-joins; the others are looked up, each attribute by one query of its table.

use std::sync::Arc;

use arrow_array::RecordBatch;

use super::semi_join::Resolver;
use crate::{
    error::{Error, ErrorKind, Result},
    lookup::{self, Lookup},
    plan::{references, sets::go_together},
    query::{Attribute, Expr, Filter, KeyFilter, Query, SelectItem},
    schema::{DataType, Field},
    table::{Table, no_column},
};

/// Bytes of a row while a lookup is made of it: its key, or none, and its code.
const PLACE_BYTES: usize = size_of::<Option<i64>>() + size_of::<u32>();

/// The attributes that a resolver has found.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    /// Tables and their columns that refer to keys.
    checked: Vec<(String, String)>,
    lookups: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    table: String,
    attribute: Attribute,
    /// Whether keys are left out that the query's filter does not let pass.
    partial: bool,
}

impl Resolver<'_> {
    /// Makes semi-joins of a filter's conditions on attributes.
    pub(super) fn conditions(&mut self, table: &Table, filter: &mut Filter) -> Result<()> {
        filter.attributes(&mut |attribute| self.check(table, attribute).map_err(|e| e.at("attribute")))?;
        references::semi_joins(filter, table.schema());
        Ok(())
    }

    /// Looks up the attributes that a filter reads for its rows.
    pub(super) fn lookups(&mut self, table: &Table, filter: &mut Filter) -> Result<()> {
        filter.attributes(&mut |attribute| self.look_up(table, attribute, &[]).map_err(|e| e.at("attribute")))
    }

    /// Looks up the attributes of a query, of whose rows its filter, where semi-joins are sets by now, selects some.
    pub(super) fn lookups_of_selected(&mut self, table: &Table, query: &mut Query) -> Result<()> {
        let filter = query.filter.take();
        let mut passed = Vec::new();
        filter.iter().for_each(|filter| keys_that_all_have(filter, &mut passed));
        let found = query.attributes(&mut |attribute, place| {
            self.check(table, attribute)
                .and_then(|()| self.look_up(table, attribute, &passed))
                .map_err(|e| e.at("attribute").at(place))
        });
        query.filter = filter;
        found
    }

    /// Checks that what a column refers to is there, and is a key.
    fn check(&mut self, table: &Table, attribute: &Attribute) -> Result<()> {
        let is_of = |(of, column): &(String, String)| of == table.name() && *column == attribute.column;
        if self.attributes.checked.iter().any(is_of) {
            return Ok(());
        }
        let reference = references::reference(table, &attribute.column)?;
        let (other, snapshot) = self.table(&reference.table, None)?;
        let (column_type, key_type) =
            (type_of(table, &attribute.column)?, type_of(&other, &reference.column)?);
        if !key_type.has_key_domain() || !go_together(column_type, key_type) {
            let message =
                format!("a column of type {column_type} refers to {reference}, which is {key_type}");
            return Err(Error::new(ErrorKind::TypeMismatch, message));
        }
        self.attributes.checked.push((table.name().to_owned(), attribute.column.clone()));
        let key = other.schema().index_of(&reference.column);
        if key.is_some_and(|key| other.is_key(key, snapshot.version()) == Some(true)) {
            return Ok(());
        }
        let counts = self.build.rows(&other, &snapshot, &Query::counts(&reference.column))?;
        if !counts.iter().all(Query::counts_are_equal) {
            return Err(lookup::twice(reference, None));
        }
        // What is hidden now may be another part of the version later.
        if let (Some(key), None) = (key, snapshot.cutoff()) {
            other.found_key(key, snapshot.version(), true);
        }
        Ok(())
    }

    /// Sets the lookup of an attribute, which is asked about rows alone that pass all of `passed`.
    fn look_up(&mut self, table: &Table, attribute: &mut Attribute, passed: &[KeyFilter]) -> Result<()> {
        let reference = references::reference(table, &attribute.column)?;
        let keys = passed.iter().filter(|filter| filter.column == attribute.column).map(|filter| {
            Filter::Keys(KeyFilter { column: reference.column.clone(), set: filter.set.clone() })
        });
        let keys: Vec<_> = keys.collect();
        let partial = !keys.is_empty();
        let is_known = |known: &&Known| {
            // What was found for the filter has all keys.
            known.table == table.name() && known.attribute == *attribute && (partial || !known.partial)
        };
        if let Some(known) = self.attributes.lookups.iter().find(is_known) {
            attribute.lookup.clone_from(&known.attribute.lookup);
            return Ok(());
        }
        self.control.check()?;
        let (other, snapshot) = self.table(&reference.table, None)?;
        let types = (type_of(table, &attribute.column)?, type_of(&other, &reference.column)?);
        let Field { data_type, logical, .. } = *field(&other, &attribute.name)?;
        if let Some(logical) = logical {
            let message = format!("{attribute} is {logical}, of which there are conditions alone");
            return Err(Error::new(ErrorKind::TypeMismatch, message));
        }
        let column = |name: &str| SelectItem { expr: Expr::Column(name.to_owned()), name: None };
        let query = Query {
            select: vec![column(&reference.column), column(&attribute.name)],
            filter: partial.then_some(Filter::And(keys)),
            ..Query::default()
        };
        let rows = self.build.rows(&other, &snapshot, &query)?;
        // Beside its rows, and a place and a code of each, for a time.
        let bytes = |of: fn(&RecordBatch) -> usize| rows.iter().map(of).sum::<usize>();
        let places = bytes(RecordBatch::num_rows) * PLACE_BYTES;
        self.control.reserve(places)?;
        let lookup = Lookup::new(reference, types, data_type, &rows)?;
        self.control.reserve(lookup.bytes())?;
        self.control.release(places + bytes(RecordBatch::get_array_memory_size));
        attribute.lookup = Some(Arc::new(lookup));
        let (table, attribute) = (table.name().to_owned(), attribute.clone());
        self.attributes.lookups.push(Known { table, attribute, partial });
        Ok(())
    }
}

/// The keys of columns that all rows have which a filter selects. Who writes joins one after the other has ANDs within ANDs.
fn keys_that_all_have(filter: &Filter, keys: &mut Vec<KeyFilter>) {
    match filter {
        Filter::And(filters) => filters.iter().for_each(|filter| keys_that_all_have(filter, keys)),
        Filter::Keys(filter) => keys.push(filter.clone()),
        _ => {}
    }
}

fn type_of(table: &Table, column: &str) -> Result<DataType> {
    Ok(field(table, column)?.data_type)
}

fn field<'a>(table: &'a Table, column: &str) -> Result<&'a Field> {
    let schema = table.schema();
    let slot = schema.index_of(column).ok_or_else(|| no_column(table, column))?;
    Ok(&schema.fields()[slot])
}
