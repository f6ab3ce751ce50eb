//! Rows of a table that new rows take the place of: those with the same values in some columns.

use std::sync::Arc;

use basalt_sip::Sip;
use hashbrown::HashSet;

use super::{Control, keys::select_texts, select, select_keys};
use crate::{
    error::{Error, ErrorKind, Result},
    fragment::{Fragment, FragmentData},
    query::{Filter, KeyFilter, KeySet, SipOrigin, TextFilter},
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
        let mut keys = Self { filter: Filter::And(filters), slots: slots.to_vec(), together: None };
        let found = match distinct.as_slice() {
            [only] => *only,
            _ => {
                control.reserve(
                    usize::try_from(snapshot.rows()).unwrap_or(usize::MAX).saturating_mul(64 * slots.len()),
                )?;
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
            let fragment = u32::try_from(*address >> 32).ok().and_then(|id| snapshot.fragment(id));
            let row = usize::try_from(*address & u64::from(u32::MAX)).unwrap_or(usize::MAX);
            fragment.is_some_and(|fragment| together.contains(&self.key(fragment, row)))
        };
        Ok(Sip::from_ids(found.iter().filter(has_key)))
    }

    fn key(&self, fragment: &Fragment, row: usize) -> Key {
        let part = |slot: &usize| match fragment.columns()[*slot].value(row) {
            Value::Text(text) => KeyPart::Text(text),
            Value::Bool(value) => KeyPart::Number(value.into()),
            Value::Int(value) | Value::Decimal { unscaled: value, .. } => KeyPart::Number(value),
            Value::Date(value) => KeyPart::Number(value.into()),
            Value::Timestamp(value) => KeyPart::Number(value.into()),
            // Neither is in a key.
            Value::Null | Value::Float(_) => KeyPart::Number(0),
        };
        self.slots.iter().map(part).collect()
    }
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
