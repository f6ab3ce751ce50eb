//! Rows of a table that new rows take the place of: those with the same values in some columns.

use std::{fmt, sync::Arc};

use arrow_array::{ArrayRef, RecordBatch, cast::AsArray, types::UInt64Type};
use basalt_sip::Sip;
use hashbrown::HashSet;

use super::{Control, keys::select_texts, partial::value_at, select, select_keys};
use crate::{
    error::{Error, ErrorKind, Result},
    fragment::{Fragment, FragmentData},
    invariant::{Invariant, count, index},
    plan::expr::fmt_value,
    query::{Expr, Filter, KeyFilter, KeySet, Query, ROW_ADDRESS, SelectItem, SipOrigin, TextFilter},
    schema::DataType,
    table::{Snapshot, Table, no_column},
    value::Value,
};

/// Characters of a value that a message shows.
const SHOWN_VALUE: usize = 40;

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
    /// The columns, by their places.
    pub fn columns(&self) -> &[usize] {
        &self.slots
    }

    /// Those of new rows in some columns, as [`check_key_column`] gives them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidBatch`] when a key is null or comes twice; the memory and the stops of `control`.
    pub fn new(table: &Table, new: &[Arc<FragmentData>], slots: &[usize], control: &Control) -> Result<Self> {
        let fragments = (0..).zip(new).map(|(id, data)| Fragment::new(id, Arc::clone(data)));
        let snapshot = Snapshot::new(0, fragments.collect());
        let columns = slots.iter().map(|slot| column_filter(table, &snapshot, *slot, control));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let has_null = columns.iter().any(|(_, _, has_null)| *has_null);
        let (filters, distinct): (Vec<Filter>, Vec<u64>) =
            columns.into_iter().map(|(filter, distinct, _)| (filter, distinct)).unzip();
        let column = |slot: &usize| &table.schema().fields()[*slot];
        let columns = slots.iter().map(column).map(|field| (field.name.clone(), field.data_type)).collect();
        let filter = Filter::And(filters);
        let mut keys = Self { filter, slots: slots.to_vec(), columns, together: None };
        if has_null {
            return Err(keys.null(&snapshot));
        }
        let rows = snapshot.rows();
        match distinct.as_slice() {
            [only] if *only == rows => {}
            [only] => {
                // Without the memory or the time for it, the error names no row.
                let again = keys.distinct(&snapshot, control).ok().and_then(|(_, again)| again);
                return Err(keys.duplicate(&snapshot, again, rows - only));
            }
            _ => {
                let (together, again) = keys.distinct(&snapshot, control)?;
                let twice = rows - together.len() as u64;
                if twice > 0 {
                    return Err(keys.duplicate(&snapshot, again, twice));
                }
                keys.together = Some(together);
            }
        }
        Ok(keys)
    }

    /// The distinct keys, and the first row whose key came before.
    fn distinct(&self, snapshot: &Snapshot, control: &Control) -> Result<(HashSet<Key>, Option<u64>)> {
        control.reserve(index(snapshot.rows()).saturating_mul(64 * self.slots.len()))?;
        let (mut distinct, mut again) = (HashSet::new(), None);
        for (number, fragment, row) in rows_of(snapshot) {
            if row == 0 {
                control.check()?;
            }
            if !distinct.insert(self.key(fragment, row)) && again.is_none() {
                again = Some(number);
            }
        }
        Ok((distinct, again))
    }

    /// The error of rows that have a key of another one, `again` the first of them.
    fn duplicate(&self, snapshot: &Snapshot, again: Option<u64>, twice: u64) -> Error {
        let pair = again.and_then(|again| {
            let (_, fragment, row) = rows_of(snapshot).find(|(number, ..)| *number == again)?;
            let key = self.key(fragment, row);
            let (first, ..) = rows_of(snapshot).find(|(_, fragment, row)| self.key(fragment, *row) == key)?;
            Some((first, again, self.shown(fragment, row)))
        });
        let message = match pair {
            Some((first, again, key)) => {
                let more = match twice {
                    1 => String::new(),
                    2 => ", and one more row has a key that came before".to_owned(),
                    _ => format!(", and {} more rows have keys that came before", twice - 1),
                };
                format!("rows {first} and {again} of the write have the same key: {key}{more}")
            }
            None => format!("{twice} rows of the write have the key of another one of its rows"),
        };
        Error::new(ErrorKind::InvalidBatch, message)
    }

    /// The error of a row that has a null in its key.
    fn null(&self, snapshot: &Snapshot) -> Error {
        let is_null = |fragment: &Fragment, row| {
            self.slots.iter().any(|slot| fragment.column(*slot).value(row).is_null())
        };
        let found = rows_of(snapshot).find(|(_, fragment, row)| is_null(fragment, *row));
        let which = found.map_or_else(
            || "a row".to_owned(),
            |(number, fragment, row)| format!("row {number} of the write ({})", self.shown(fragment, row)),
        );
        let message = format!("{which} has a null in its key; rows are replaced by keys that are not");
        Error::new(ErrorKind::InvalidBatch, message)
    }

    /// The key of a row, for messages: `year = 2013, carrier = 'AA'`.
    fn shown(&self, fragment: &Fragment, row: usize) -> String {
        let part = |(slot, (name, _)): (&usize, &(String, DataType))| {
            let value = fragment.column(*slot).value(row);
            let text = fmt::from_fn(|f| fmt_value(f, &value)).to_string();
            match text.char_indices().nth(SHOWN_VALUE) {
                Some((end, _)) => format!("{name} = {}…", &text[..end]),
                None => format!("{name} = {text}"),
            }
        };
        self.slots.iter().zip(&self.columns).map(part).collect::<Vec<_>>().join(", ")
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
        self.slots.iter().map(|slot| key_part(fragment.column(*slot).value(row))).collect()
    }
}

/// Every row of a snapshot: its number, from 1, and where it is.
fn rows_of(snapshot: &Snapshot) -> impl Iterator<Item = (u64, &Fragment, usize)> {
    let rows = snapshot.fragments().iter().flat_map(|f| (0..f.rows()).map(move |row| (f, row)));
    (1..).zip(rows).map(|(number, (fragment, row))| (number, fragment, row))
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

/// That a column has one of the values that it has in a snapshot, how many they are, and whether one is null.
fn column_filter(
    table: &Table,
    snapshot: &Snapshot,
    slot: usize,
    control: &Control,
) -> Result<(Filter, u64, bool)> {
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
    Ok((filter, distinct, has_null))
}
