//! Times of 96 bits: the crate counts nanoseconds of them, which 64 bits have for the years 1677 to 2262 alone.
//!
//! Whoever asks for microseconds is given those. Beyond what 64 bits have of them a number would be another time, so pages
//! with such a time are refused.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use parquet::{
    arrow::parquet_to_arrow_schema,
    basic::Type,
    errors::Result,
    schema::types::{ColumnDescPtr, SchemaDescriptor},
};

use super::pages::wrong;

/// Bytes of a time: eight for nanoseconds of the day, and four for the Julian day.
const BYTES: usize = 12;
/// The Julian day of 1970.
const EPOCH: i64 = 2_440_588;
/// So many days before 1970 or after it, the microseconds are less than 64 bits have, whatever is said of the day's.
const DAYS: i64 = 100_000_000;

/// The columns of a file, with microseconds where it has 96 bits and the crate nanoseconds; `None` where it has no such.
pub fn in_micros(schema: &Schema, file: &SchemaDescriptor) -> Option<SchemaRef> {
    if !has_int96(file) {
        return None;
    }
    let mut leaves = file.columns().iter().map(is_int96);
    let fields = of_fields(&schema.fields, &mut leaves);
    Some(Arc::new(Schema::new_with_metadata(fields, schema.metadata.clone())))
}

/// As [`in_micros`], of the columns that the crate makes of the schema.
pub(super) fn plain_in_micros(file: &SchemaDescriptor) -> Result<Option<SchemaRef>> {
    // What most files have not is not made for them.
    if !has_int96(file) {
        return Ok(None);
    }
    Ok(in_micros(&parquet_to_arrow_schema(file, None)?, file))
}

fn has_int96(file: &SchemaDescriptor) -> bool {
    file.columns().iter().any(is_int96)
}

pub(super) fn is_int96(column: &ColumnDescPtr) -> bool {
    column.physical_type() == Type::INT96
}

fn of_fields(fields: &Fields, leaves: &mut dyn Iterator<Item = bool>) -> Fields {
    let mut all = Vec::with_capacity(fields.len());
    for field in fields {
        all.push(of_field(field, leaves));
    }
    all.into()
}

/// A field, whose leaves come in the order of the file's.
fn of_field(field: &Field, leaves: &mut dyn Iterator<Item = bool>) -> Field {
    use DataType as T;
    let data_type = match field.data_type() {
        T::Struct(fields) => T::Struct(of_fields(fields, leaves)),
        T::List(item) => T::List(Arc::new(of_field(item, leaves))),
        T::LargeList(item) => T::LargeList(Arc::new(of_field(item, leaves))),
        T::ListView(item) => T::ListView(Arc::new(of_field(item, leaves))),
        T::LargeListView(item) => T::LargeListView(Arc::new(of_field(item, leaves))),
        T::FixedSizeList(item, size) => T::FixedSizeList(Arc::new(of_field(item, leaves)), *size),
        T::Map(entries, sorted) => T::Map(Arc::new(of_field(entries, leaves)), *sorted),
        other => match (leaves.next(), other) {
            (Some(true), T::Timestamp(TimeUnit::Nanosecond, zone)) => {
                T::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            _ => other.clone(),
        },
    };
    field.clone().with_data_type(data_type)
}

/// That the times of a page, which stand one behind the other, have microseconds.
pub(super) fn check(times: &[u8]) -> Result<()> {
    let is_within = |time: &[u8]| {
        let day = time.last_chunk().map(|day| i64::from(i32::from_le_bytes(*day)));
        day.is_some_and(|day| (day - EPOCH).abs() <= DAYS)
    };
    if times.chunks_exact(BYTES).all(is_within) {
        Ok(())
    } else {
        Err(wrong("a time of 96 bits that no timestamp of 64 bits is"))
    }
}
