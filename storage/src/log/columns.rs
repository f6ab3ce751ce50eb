//! The columns of a version: where they lie in data files, and which of them another version has as well.

use std::sync::Arc;

use basalt_core::schema::{Field, Schema};
use twox_hash::XxHash3_64;

use super::{DataFile, TableState};

impl TableState {
    /// Whether another state has the same columns, which lie in data files in the same way.
    pub fn has_same_columns(&self, other: &Self) -> bool {
        (Arc::ptr_eq(&self.schema, &other.schema) || self.schema == other.schema)
            && self.metadata.partition_columns == other.metadata.partition_columns
    }

    /// The column of another state that has, in a data file that both have, the same values of the same type as one
    /// of this state; both are named by their places.
    pub fn same_column(&self, place: usize, other: &Self) -> Option<usize> {
        if self.metadata.partition_columns != other.metadata.partition_columns {
            return None;
        }
        let stored = |state: &Self, i: usize| -> Option<(String, Option<i32>)> {
            let id = state.schema.ids.as_ref().and_then(|ids| ids.get(i).copied());
            Some((state.schema.physical.get(i)?.clone(), id))
        };
        let (field, wanted) = (self.schema().fields().get(place)?, stored(self, place));
        let same = |(i, old): (usize, &Field)| {
            old.data_type == field.data_type
                && old.logical == field.logical
                && self.schema.nested.get(place) == other.schema.nested.get(i)
                && old.encoding == field.encoding
                // Whether there is a null in it was not looked at.
                && (field.nullable || !old.nullable)
                && stored(other, i) == wanted
        };
        let both_by_id = self.schema.ids.is_some() == other.schema.ids.is_some();
        both_by_id.then(|| other.schema().fields().iter().enumerate().position(same))?
    }

    /// Names the values of a column in any data file, among all columns that the table ever has; what names it alike has
    /// the same values of the same type, in files that both have. `None`: there is no such column.
    pub fn column_id(&self, place: usize) -> Option<u64> {
        let field = self.schema().fields().get(place)?;
        let physical = self.schema.physical.get(place)?;
        let id = self.schema.ids.as_ref().and_then(|ids| ids.get(place).copied());
        let is_partition = self.metadata.partition_columns.contains(&field.name);
        // Whether there is a null in it is looked at when it is read.
        let what = (physical, id, field.data_type, &field.encoding, field.nullable, is_partition);
        let mut what = format!("{what:?}");
        if let Some(logical) = field.logical {
            what.push_str(&logical.to_string());
        }
        if let Some(Some(shape)) = self.schema.nested.get(place) {
            what.push_str(&format!("{shape:?}"));
        }
        Some(XxHash3_64::oneshot(what.as_bytes()))
    }

    /// The columns by the names that they have in files, and the ids that they have there.
    pub(crate) fn in_files(&self) -> (Arc<Schema>, Option<Arc<[i32]>>) {
        let names = self.schema().fields().iter().map(|field| &field.name);
        if names.eq(&self.schema.physical) {
            return (Arc::clone(self.schema()), self.schema.field_ids.as_deref().map(Into::into));
        }
        let fields = self.schema().fields().iter().zip(&self.schema.physical);
        let fields = fields.map(|(field, name)| Field { name: name.clone(), ..field.clone() });
        let schema = Arc::new(Schema::of_answer(fields.collect()));
        (schema, self.schema.field_ids.as_deref().map(Into::into))
    }

    /// A column, and its name in the files; the place is that of one.
    pub(crate) fn column(&self, place: usize) -> (&Field, &str) {
        (&self.schema().fields()[place], &self.schema.physical[place])
    }

    /// The value that a file has in a column by which the table is partitioned; `None` for any other column. The
    /// inner `None` is null.
    pub(crate) fn partition_value<'a>(&self, file: &'a DataFile, physical: &str) -> Option<Option<&'a str>> {
        if self.metadata.partition_columns.is_empty() {
            return None;
        }
        file.partition_value(physical)
    }
}
