//! Tables for programs that are not ours, and from them: `scripts/check-delta` runs it.
//!
//! `delta write <folder>` makes tables with every type, deleted rows and a checkpoint. `delta read <folder>` prints
//! the rows of any Delta table as CSV, without the deleted ones, in no particular order.

#![allow(clippy::unwrap_used, clippy::panic, reason = "an example for a test ends by panicking")]

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{
    Array as _, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array, cast::AsArray as _, types::TimestampMicrosecondType,
};
use arrow_cast::display::array_value_to_string;
use basalt_core::{
    limits::{DATES, TIMESTAMPS},
    schema::{DataType, Field, Schema},
    time::format_timestamp,
};
use basalt_sip::Sip;
use basalt_storage::{
    Alteration, Change, Deletes, FileEncoder, Operation, Request, RowsDigest, Store, TableLog,
};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", folder] => {
            for (name, deletions, versions) in
                [("plain", false, 3), ("checkpoint", false, 40), ("deletions", true, 3), ("both", true, 40)]
            {
                write(&format!("{folder}/{name}"), deletions, versions).await;
            }
            rewrite(&format!("{folder}/rewritten")).await;
            alter(&format!("{folder}/nullable"), &[Alteration::Add(added())]).await;
            alter(&format!("{folder}/widened"), &[Alteration::Widen("n".into(), DataType::Int64)]).await;
            let mapped = [
                Alteration::Rename("text".into(), "label".into()),
                Alteration::Drop("gone".into()),
                Alteration::Add(added()),
            ];
            alter(&format!("{folder}/mapped"), &mapped).await;
            let (days, times) = (DATES, TIMESTAMPS);
            write_times(
                &format!("{folder}/calendar"),
                [*days.start(), *days.end()],
                [*times.start(), *times.end()],
            )
            .await;
            write_times(&format!("{folder}/beyond"), [i32::MIN, i32::MAX], [i64::MIN, i64::MAX]).await;
        }
        ["read", folder] => read(folder).await,
        _ => panic!("usage: delta write|read <folder>"),
    }
}

fn schema() -> Arc<Schema> {
    let types = [
        ("id", DataType::Int64),
        ("yes", DataType::Bool),
        ("i8", DataType::Int8),
        ("i16", DataType::Int16),
        ("i32", DataType::Int32),
        ("u8", DataType::UInt8),
        ("u16", DataType::UInt16),
        ("u32", DataType::UInt32),
        ("u64", DataType::UInt64),
        ("f32", DataType::Float32),
        ("f64", DataType::Float64),
        ("price", DataType::Decimal { precision: 18, scale: 2 }),
        ("day", DataType::Date32),
        ("at", DataType::Timestamp),
        ("text", DataType::Utf8),
    ];
    let fields = types.iter().map(|(name, t)| Field::new(*name, *t, *name != "id"));
    Arc::new(Schema::new(fields.collect()).unwrap())
}

/// Rows whose every value follows from the id; `storage/python/check_delta.py` makes the same.
fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    fn column<T, A: FromIterator<Option<T>> + arrow_array::Array + 'static>(
        ids: std::ops::Range<i64>,
        value: impl Fn(i64) -> T,
    ) -> ArrayRef {
        Arc::new(ids.map(|i| (i % 7 != 3).then(|| value(i))).collect::<A>())
    }
    let low = |i: i64, n: i64| i.rem_euclid(n);
    let ids = || ids.clone();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids())),
        column::<_, BooleanArray>(ids(), |i| i % 2 == 0),
        column::<_, Int8Array>(ids(), |i| i8::try_from(low(i, 256) - 128).unwrap()),
        column::<_, Int16Array>(ids(), |i| i16::try_from(low(i, 65_536) - 32_768).unwrap()),
        column::<_, Int32Array>(ids(), |i| i32::try_from(-i * 1000).unwrap()),
        column::<_, UInt8Array>(ids(), |i| u8::try_from(low(i, 256)).unwrap()),
        column::<_, UInt16Array>(ids(), |i| u16::try_from(65_535 - low(i, 65_536)).unwrap()),
        column::<_, UInt32Array>(ids(), |i| u32::MAX - u32::try_from(i).unwrap()),
        column::<_, UInt64Array>(ids(), |i| u64::MAX - u64::try_from(i).unwrap()),
        column::<_, Float32Array>(ids(), |i| f32::from(i16::try_from(low(i, 1000)).unwrap()) / 4.0),
        column::<_, Float64Array>(ids(), |i| f64::from(i32::try_from(i).unwrap()) / 8.0),
        {
            let cents = ids().map(|i| (i % 7 != 3).then(|| i128::from(i) * 101 - 50_000));
            let cents: Decimal128Array = cents.collect();
            Arc::new(cents.with_precision_and_scale(18, 2).unwrap())
        },
        column::<_, Date32Array>(ids(), |i| i32::try_from(low(i, 40_000) - 10_000).unwrap()),
        {
            let micros = ids().map(|i| (i % 7 != 3).then(|| i * 1_000_003 - 1_000_000_000));
            let micros: TimestampMicrosecondArray = micros.collect();
            Arc::new(micros.with_timezone("UTC"))
        },
        column::<_, StringArray>(ids(), |i| {
            format!("{}\"ü{i}", "long ".repeat(usize::try_from(low(i, 12)).unwrap()))
        }),
    ];
    RecordBatch::try_new(schema().to_arrow(), columns).unwrap()
}

/// One large fragment, then small ones; with `deletions`, every fragment loses every eleventh row, and the large
/// one many, scattered.
async fn write(folder: &str, deletions: bool, versions: i64) {
    let (log, mut state) =
        TableLog::create(Store::open(folder).unwrap(), "example", &schema(), BTreeMap::new()).await.unwrap();
    let mut first = 0;
    for version in 0..versions {
        let rows = if version == 0 { 200_000 } else { 100 };
        let file = log.write_data(&schema(), vec![batch(first..first + rows)]).await.unwrap();
        first += rows;
        let request = Request {
            id: format!("write {version}"),
            digest: RowsDigest::Xxh3(7),
            rows: rows.cast_unsigned(),
        };
        let change = Change { add: vec![file], requests: vec![request], ..Change::default() };
        let done = log.commit(&state, &change).await.unwrap();
        state = done.state;
        if deletions {
            let odd = |i: &u64| i % 11 == 5 || (version == 0 && i * i % 13 == 3);
            let deleted: Vec<u64> = (0..rows.cast_unsigned()).filter(odd).collect();
            let deletions = vec![(done.first_id, Sip::from_sorted_ids(&deleted))];
            let change = Change { operation: Operation::Delete, deletions, ..Change::default() };
            state = log.commit(&state, &change).await.unwrap().state;
        }
        if state.needs_checkpoint() {
            state = log.checkpoint(&state).await.unwrap();
        }
    }
    println!(
        "{folder}: {} rows in {} fragments at version {}",
        state.rows(),
        state.fragments().len(),
        state.version()
    );
}

/// A table that asks for rewritten files: its one fragment loses every third row, by another file without them.
async fn rewrite(folder: &str) {
    let properties = Deletes::Rewrite.property();
    let properties = BTreeMap::from([(properties.0, properties.1.unwrap())]);
    let store = Store::open(folder).unwrap();
    let (log, state) = TableLog::create(store, "example", &schema(), properties).await.unwrap();
    let file = log.write_data(&schema(), vec![batch(0..1000)]).await.unwrap();
    let done = log.commit(&state, &Change { add: vec![file], ..Change::default() }).await.unwrap();
    assert_eq!(done.state.deletes(), Deletes::Rewrite);
    let rest = (0..1000).filter(|i| i % 3 != 0).map(|i| batch(i..i + 1)).collect();
    let file = log.write_data(&schema(), rest).await.unwrap();
    let (operation, remove) = (Operation::Delete, vec![done.first_id]);
    let change = Change { operation, add: vec![file], remove, ..Change::default() };
    log.commit(&done.state, &change).await.unwrap();
}

/// A column that is added; it may have the name of one that was there.
fn added() -> Field {
    Field::new("gone_", DataType::Int64, true)
}

/// Ten rows, other columns, ten rows more.
async fn alter(folder: &str, alterations: &[Alteration]) {
    let fields =
        [("id", DataType::Int64), ("n", DataType::Int32), ("text", DataType::Utf8), ("gone", DataType::Utf8)];
    let fields = fields.iter().map(|(name, data_type)| Field::new(*name, *data_type, true));
    let schema = Schema::new(fields.collect()).unwrap();
    let (log, mut state) =
        TableLog::create(Store::open(folder).unwrap(), "altered", &schema, BTreeMap::new()).await.unwrap();
    for first in [0, 10] {
        let fields = state.schema().fields();
        let encoder = FileEncoder::of(&state, 10).unwrap();
        let columns = fields.iter().enumerate().map(|(place, field)| {
            let ids = first..first + 10;
            let array: ArrayRef = match field.data_type {
                DataType::Int32 => Arc::new(ids.map(|i| i32::try_from(i).ok()).collect::<Int32Array>()),
                DataType::Int64 => Arc::new(Int64Array::from_iter_values(ids)),
                _ => Arc::new(StringArray::from_iter_values(ids.map(|i| format!("{i} of {}", field.name)))),
            };
            encoder.column(place, &[array]).unwrap()
        });
        let columns = columns.collect();
        let file = log.put_data(encoder.clone().finish(columns).unwrap()).await.unwrap();
        let change = Change { add: vec![file], ..Change::default() };
        state = log.commit(&state, &change).await.unwrap().state;
        if first == 0 {
            let change = Change {
                operation: Operation::Alter,
                alterations: alterations.to_vec(),
                ..Change::default()
            };
            state = log.commit(&state, &change).await.unwrap().state;
        }
    }
}

/// Three rows: the first and the last of some times, beside infinite floats, and null.
async fn write_times(folder: &str, [first_day, last_day]: [i32; 2], [first, last]: [i64; 2]) {
    let columns: [(&str, DataType, ArrayRef); 4] = [
        ("id", DataType::Int64, Arc::new(Int64Array::from(vec![0, 1, 2]))),
        ("day", DataType::Date32, Arc::new(Date32Array::from(vec![Some(first_day), Some(last_day), None]))),
        (
            "at",
            DataType::Timestamp,
            Arc::new(
                TimestampMicrosecondArray::from(vec![Some(first), Some(last), None]).with_timezone("UTC"),
            ),
        ),
        (
            "f64",
            DataType::Float64,
            Arc::new(Float64Array::from(vec![Some(f64::NEG_INFINITY), Some(f64::INFINITY), None])),
        ),
    ];
    let fields = columns.iter().map(|(name, data_type, _)| Field::new(*name, *data_type, true));
    let schema = Arc::new(Schema::new(fields.collect()).unwrap());
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    let batch = RecordBatch::try_new(schema.to_arrow(), arrays).unwrap();
    let (log, state) =
        TableLog::create(Store::open(folder).unwrap(), "times", &schema, BTreeMap::new()).await.unwrap();
    let file = log.write_data(&schema, vec![batch]).await.unwrap();
    log.commit(&state, &Change { add: vec![file], ..Change::default() }).await.unwrap();
}

async fn read(folder: &str) {
    let log = TableLog::new(Store::open_existing(folder).unwrap());
    let state = match log.load().await {
        Ok(state) => state,
        Err(e) => panic!("{e}"),
    };
    let columns: Vec<usize> = (0..state.schema().fields().len()).collect();
    println!("{}", state.schema().fields().iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join("|"));
    for fragment in state.fragments().iter() {
        let deleted = log.deleted_rows(fragment).await.unwrap();
        let mut reader = log.read(&state, fragment, &columns).await.unwrap();
        let mut row = 0;
        while let Some(batch) = reader.next().await.unwrap() {
            for i in 0..batch.num_rows() {
                if !deleted.as_ref().is_some_and(|d| d.contains(row)) {
                    let values = batch.columns().iter().map(|c| match c.is_null(i) {
                        true => "NULL".into(),
                        false => match c.as_primitive_opt::<TimestampMicrosecondType>() {
                            Some(times) => format_timestamp(times.value(i)),
                            None => array_value_to_string(c, i).unwrap(),
                        },
                    });
                    println!("{}", values.collect::<Vec<_>>().join("|"));
                }
                row += 1;
            }
        }
    }
}
