//! Rows of a table that new rows take the place of: those with the same values in some columns.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, cast::AsArray, types::UInt64Type};
use basalt_sip::Sip;
use hashbrown::HashSet;

use super::{Control, keys::select_texts, partial::value_at, select, select_keys};
use crate::{
    error::{Error, ErrorKind, Result},
    fragment::{Fragment, FragmentData},
    invariant::{Invariant, count, index},
    query::{Expr, Filter, KeyFilter, KeySet, Query, ROW_ADDRESS, SelectItem, SipOrigin, TextFilter},
    schema::DataType,
    table::{Snapshot, Table, no_column},
    value::Value,
};

/// Values of a key, exact.
type Key = Vec<KeyPart>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum KeyPart {
    Number(i128),
    Text(Arc<str>),
}

/// The place of a column that rows can be replaced by.
///
/// # Errors
/// [`ErrorKind::ColumnNotFound`]; [`ErrorKind::TypeMismatch`] for floats, of which equal ones may differ.
pub fn check_key_column(table: &Table, name: &str) -> Result<usize> {
    let slot = table.schema().index_of(name).ok_or_else(|| no_column(table, name))?;
    match table.schema().fields()[slot].data_type {
        DataType::Float32 | DataType::Float64 => {
            let message = format!("column {name:?} holds floats; rows are replaced by exact values");
            Err(Error::new(ErrorKind::TypeMismatch, message))
        }
        _ => Ok(slot),
    }
}

/// The keys of new rows, to find the old rows that have them.
#[derive(Debug)]
pub struct SameKeys {
    /// For each column, that its value is one of those of the new rows.
    filter: Filter,
    slots: Vec<usize>,
    /// Names and types of the columns.
    columns: Vec<(String, DataType)>,
    /// Where there is more than one column, which values come together.
    together: Option<HashSet<Key>>,
}

impl SameKeys {
    /// Those of new rows in some columns, as [`check_key_column`] gives them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidBatch`] when a key is null or comes twice; the memory and the stops of `control`.
    pub fn new(table: &Table, new: &[Arc<FragmentData>], slots: &[usize], control: &Control) -> Result<Self> {
        let fragments = (0..).zip(new).map(|(id, data)| Fragment::new(id, Arc::clone(data)));
        let snapshot = Snapshot::new(0, fragments.collect());
        let columns = slots.iter().map(|slot| column_filter(table, &snapshot, *slot, control));
        let (filters, distinct): (Vec<Filter>, Vec<u64>) =
            columns.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let column = |slot: &usize| &table.schema().fields()[*slot];
        let columns = slots.iter().map(column).map(|field| (field.name.clone(), field.data_type)).collect();
        let filter = Filter::And(filters);
        let mut keys = Self { filter, slots: slots.to_vec(), columns, together: None };
        let found = match distinct.as_slice() {
            [only] => *only,
            _ => {
                control.reserve(index(snapshot.rows()).saturating_mul(64 * slots.len()))?;
                let mut together = HashSet::new();
                for fragment in snapshot.fragments() {
                    control.check()?;
                    together.extend((0..fragment.rows()).map(|row| keys.key(fragment, row)));
                }
                let n = together.len() as u64;
                keys.together = Some(together);
                n
            }
        };
        if found < snapshot.rows() {
            let twice = snapshot.rows() - found;
            let message = format!("{twice} rows of the write have the key of another one of its rows");
            return Err(Error::new(ErrorKind::InvalidBatch, message));
        }
        Ok(keys)
    }

    /// The addresses of the rows of a snapshot that have one of the keys.
    ///
    /// # Errors
    /// Those of [`select`].
    pub fn rows(&self, table: &Table, snapshot: &Snapshot, control: &Control) -> Result<Sip> {
        let (found, _) = select(table, snapshot, Some(&self.filter), control)?;
        let Some(together) = &self.together else { return Ok(found) };
        let has_key = |address: &u64| {
            let fragment = snapshot.fragment(count(index(*address >> 32)));
            let fragment = fragment.invariant("a row that was found is of the snapshot");
            together.contains(&self.key(fragment, index(*address & u64::from(u32::MAX))))
        };
        Ok(Sip::from_ids(found.iter().filter(has_key)))
    }

    /// What has to be known of a row to tell whether it has one of the keys.
    pub fn question(&self) -> Question {
        if self.together.is_none() {
            return Question::Filter(self.filter.clone());
        }
        let column = |name: &str| SelectItem { expr: Expr::Column(name.to_owned()), name: None };
        let names = [ROW_ADDRESS].into_iter().chain(self.columns.iter().map(|(name, _)| name.as_str()));
        let (select, filter) = (names.map(column).collect(), Some(self.filter.clone()));
        Question::Rows(Box::new(Query { select, filter, ..Query::default() }))
    }

    /// The addresses of the rows that have one of the keys, among those that a [`Question::Rows`] was answered with.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidBatch`] for rows of other columns.
    pub fn among(&self, rows: &RecordBatch) -> Result<Vec<u64>> {
        let wrong = || Error::new(ErrorKind::InvalidBatch, "rows of other columns than were asked for");
        let Some((addresses, keys)) = rows.columns().split_first() else { return Err(wrong()) };
        let addresses = addresses.as_primitive_opt::<UInt64Type>().ok_or_else(wrong)?;
        let fits = |(array, (_, data_type)): (&ArrayRef, &(String, DataType))| {
            *array.data_type() == data_type.to_arrow()
        };
        if keys.len() != self.columns.len() || !keys.iter().zip(&self.columns).all(fits) {
            return Err(wrong());
        }
        let has_key = |row: &usize| {
            let values = keys.iter().zip(&self.columns);
            let key: Key =
                values.map(|(array, (_, t))| key_part(value_at(array.as_ref(), *row, *t))).collect();
            self.together.as_ref().is_none_or(|together| together.contains(&key))
        };
        Ok((0..rows.num_rows()).filter(has_key).map(|row| addresses.value(row)).collect())
    }

    fn key(&self, fragment: &Fragment, row: usize) -> Key {
        self.slots.iter().map(|slot| key_part(fragment.columns()[*slot].value(row))).collect()
    }
}

fn key_part(value: Value) -> KeyPart {
    match value {
        Value::Text(text) => KeyPart::Text(text),
        Value::Bool(value) => KeyPart::Number(value.into()),
        Value::Int(value) | Value::Decimal { unscaled: value, .. } => KeyPart::Number(value),
        Value::Date(value) => KeyPart::Number(value.into()),
        Value::Timestamp(value) => KeyPart::Number(value.into()),
        // Neither is in a key.
        Value::Null | Value::Float(_) => KeyPart::Number(0),
    }
}

/// What is to be asked about the rows of a table to find those with the same keys as others.
#[derive(Clone, Debug)]
pub enum Question {
    /// They are those that a filter selects.
    Filter(Filter),
    /// They are among those of a query; see [`SameKeys::among`].
    Rows(Box<Query>),
}

/// That a column has one of the values that it has in a snapshot, and how many they are.
fn column_filter(
    table: &Table,
    snapshot: &Snapshot,
    slot: usize,
    control: &Control,
) -> Result<(Filter, u64)> {
    let field = &table.schema().fields()[slot];
    let column = field.name.clone();
    let origin = SipOrigin::Request;
    let (filter, has_null, distinct) = if field.data_type == DataType::Utf8 {
        let (texts, has_null, _) = select_texts(table, snapshot, slot, None, control, &mut Vec::new())?;
        let distinct = texts.texts().len() as u64;
        (Filter::Texts(TextFilter { column, texts: Arc::new(texts), has_null, origin }), has_null, distinct)
    } else {
        let (keys, _) = select_keys(table, snapshot, &column, None, control)?;
        let (distinct, has_null) = (keys.sip.cardinality(), keys.has_null);
        let set = KeySet { data_type: keys.data_type, has_null, sip: Arc::new(keys.sip), origin };
        (Filter::Keys(KeyFilter { column, set }), has_null, distinct)
    };
    if has_null {
        let message =
            format!("column {:?} is null in a row; rows are replaced by keys that are not", field.name);
        return Err(Error::new(ErrorKind::InvalidBatch, message));
    }
    Ok((filter, distinct))
}
