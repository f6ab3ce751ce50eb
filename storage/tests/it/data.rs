//! Data files: every type comes back, column by column, with bounds that hold.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
    cast::AsArray as _,
    types::{Float32Type, Float64Type, UInt32Type, UInt64Type},
};
use arrow_select::{concat::concat, take::take};
use basalt_core::{
    fragment::RowBuffer,
    schema::{DataType, Field, Schema},
    value::Value,
};
use basalt_storage::{Change, FileEncoder, StorageError, Store, TableLog};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::support::{append, batch, commit, numbers, schema, table};

fn columns() -> Vec<(DataType, ArrayRef)> {
    let decimals = |values: Vec<Option<i128>>, p, s| {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(p, s).unwrap()) as ArrayRef
    };
    let big = 999_999_999_999_999_999;
    vec![
        (DataType::Bool, Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        (DataType::Int8, Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)]))),
        (DataType::Int16, Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX)]))),
        (DataType::Int32, Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX)]))),
        (DataType::Int64, Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]))),
        (DataType::UInt8, Arc::new(UInt8Array::from(vec![Some(0), None, Some(u8::MAX)]))),
        (DataType::UInt16, Arc::new(UInt16Array::from(vec![Some(0), None, Some(u16::MAX)]))),
        (DataType::UInt32, Arc::new(UInt32Array::from(vec![Some(0), None, Some(u32::MAX)]))),
        (DataType::UInt64, Arc::new(UInt64Array::from(vec![Some(0), None, Some(u64::MAX)]))),
        (DataType::Float32, Arc::new(Float32Array::from(vec![Some(-0.1), None, Some(f32::MAX)]))),
        (DataType::Float64, Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(1e-300)]))),
        (
            DataType::Decimal { precision: 9, scale: 2 },
            decimals(vec![Some(-999_999_999), None, Some(5)], 9, 2),
        ),
        (DataType::Decimal { precision: 18, scale: 18 }, decimals(vec![Some(-big), None, Some(big)], 18, 18)),
        (DataType::Date32, Arc::new(Date32Array::from(vec![Some(-800_000), None, Some(2_932_896)]))),
        (
            DataType::Timestamp,
            Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None, Some(1)]).with_timezone("UTC")),
        ),
        (DataType::Utf8, Arc::new(StringArray::from(vec![Some(""), None, Some("z\u{10ffff} \"é")]))),
    ]
}

#[tokio::test]
async fn every_type_comes_back() {
    let columns = columns();
    let fields = columns.iter().enumerate().map(|(i, (t, _))| Field::new(format!("c{i}"), *t, true));
    let schema = Arc::new(Schema::new(fields.collect()).unwrap());
    let arrays: Vec<ArrayRef> = columns.iter().map(|(_, a)| Arc::clone(a)).collect();
    let batch = RecordBatch::try_new(schema.to_arrow(), arrays).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, state) = TableLog::create(store, "t", &schema, BTreeMap::new()).await.unwrap();
    let file = log.write_data(&schema, vec![batch.clone()]).await.unwrap();
    let state = commit(&log, &state, &Change { add: vec![file], ..Change::default() }).await.state;
    let state = log.load().await.unwrap_or(state);
    assert_eq!(state.schema(), &schema);

    let fragment = state.fragments().first().unwrap();
    let all: Vec<usize> = (0..columns.len()).collect();
    let mut reader = log.read(&state, fragment, &all).await.unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap(), batch);
    assert_eq!(reader.next().await.unwrap(), None);
    // Some columns, in another order.
    let mut reader = log.read(&state, fragment, &[14, 0, 14]).await.unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap(), batch.project(&[14, 0, 14]).unwrap());

    let stats: Vec<_> = all.iter().map(|i| state.column_stats(&fragment.file, *i)).collect();
    assert!(stats.iter().all(|s| s.nulls == Some(1)));
    let int = |v: i128| Some(Value::Int(v));
    assert_eq!((stats[0].min.clone(), stats[0].max.clone()), (None, None));
    assert_eq!((stats[4].min.clone(), stats[4].max.clone()), (int(i64::MIN.into()), int(i64::MAX.into())));
    assert_eq!((stats[7].min.clone(), stats[7].max.clone()), (int(0), int(u32::MAX.into())));
    assert_eq!((stats[8].min.clone(), stats[8].max.clone()), (int(0), int(u64::MAX.into())));
    assert_eq!(stats[11].min, Some(Value::Decimal { unscaled: -999_999_999, scale: 2 }));
    assert_eq!(stats[13].max, Some(Value::Date(2_932_896)));
    assert_eq!(
        (stats[14].min.clone(), stats[14].max.clone()),
        (Some(Value::Timestamp(-1)), Some(Value::Timestamp(1)))
    );
    assert_eq!(stats[15].max, Some(Value::Text("z\u{10ffff} \"é".into())));
    assert!(matches!(log.read(&state, fragment, &[99]).await, Err(StorageError::Invalid(_))));
}

#[tokio::test]
async fn floats_with_nan_have_no_bounds_and_all_nulls_none() {
    let fields = ["a", "b", "c"].map(|name| Field::new(name, DataType::Float64, true)).to_vec();
    let schema = Arc::new(Schema::new(fields).unwrap());
    let store = Store::in_memory();
    let (log, state) = TableLog::create(store, "t", &schema, BTreeMap::new()).await.unwrap();
    let column = |values: Vec<Option<f64>>| Arc::new(Float64Array::from(values)) as ArrayRef;
    let arrays = vec![
        column(vec![Some(1.5), Some(f64::NAN)]),
        column(vec![None, None]),
        column(vec![Some(f64::NEG_INFINITY), Some(2.5)]),
    ];
    let file = log
        .write_data(&schema, vec![RecordBatch::try_new(schema.to_arrow(), arrays).unwrap()])
        .await
        .unwrap();
    let state = commit(&log, &state, &Change { add: vec![file], ..Change::default() }).await.state;
    let stats: Vec<_> =
        (0..3).map(|i| state.column_stats(&state.fragments().first().unwrap().file, i)).collect();
    assert_eq!((&stats[0].min, &stats[0].max), (&None, &None));
    assert_eq!((&stats[1].min, stats[1].nulls), (&None, Some(2)));
    assert_eq!((&stats[2].min, &stats[2].max), (&None, &Some(Value::Float(2.5))));
}

#[tokio::test]
async fn a_fragment_of_several_row_groups_comes_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap()).unwrap();
    let (log, state) = table(&store).await;
    let rows = 300_001;
    let state = append(&log, &state, (0..rows).map(|i| i * 7 % 1009)).await.state;
    assert_eq!(numbers(&log, &state).await, (0..rows).map(|i| i * 7 % 1009).collect::<Vec<_>>());
    let stats = state.column_stats(&state.fragments().first().unwrap().file, 0);
    assert_eq!((stats.min, stats.max, stats.nulls), (Some(Value::Int(0)), Some(Value::Int(1008)), Some(0)));
}

#[tokio::test]
async fn rows_that_do_not_fit_are_refused() {
    let store = Store::in_memory();
    let (log, _) = table(&store).await;
    assert!(matches!(log.write_data(&schema(), vec![]).await, Err(StorageError::Invalid(_))));
    assert!(matches!(log.write_data(&schema(), vec![batch([])]).await, Err(StorageError::Invalid(_))));
    let narrow = batch([1]).project(&[0]).unwrap();
    assert!(matches!(log.write_data(&schema(), vec![narrow]).await, Err(StorageError::Invalid(_))));
    let swapped = batch([1]).project(&[1, 0]).unwrap();
    assert!(matches!(log.write_data(&schema(), vec![swapped]).await, Err(StorageError::Invalid(_))));
    let many = vec![batch(0..1 << 20), batch([1])];
    assert!(matches!(log.write_data(&schema(), many).await, Err(StorageError::Invalid(_))));
}

/// Values of all kinds, `rows` of them: the ends of each type among them, nulls, zeros of both signs, and several NaNs.
fn many(rows: usize) -> Vec<(DataType, ArrayRef)> {
    let ends = columns();
    let mut random = StdRng::seed_from_u64(11);
    let column = |(data_type, ends): (DataType, ArrayRef)| {
        let floats = |bits: u64| [0, 1 << 63, f64::NAN.to_bits(), f64::NAN.to_bits() | 1 << 63 | 7, bits];
        let more: ArrayRef = match data_type {
            DataType::Float64 => {
                let of = |i: usize| {
                    Some(f64::from_bits(floats(random.random())[i % 5])).filter(|_| !i.is_multiple_of(7))
                };
                Arc::new((0..rows).map(of).collect::<Float64Array>())
            }
            DataType::Float32 => {
                let mut of = |i: usize| [0.0, -0.0, f32::NAN, -f32::NAN, random.random()][i % 5];
                Arc::new(
                    (0..rows).map(|i| Some(of(i)).filter(|_| !i.is_multiple_of(3))).collect::<Float32Array>(),
                )
            }
            _ => {
                let at = (0..rows).map(|_| random.random_range(0..3));
                take(&ends, &at.collect::<UInt32Array>(), None).unwrap()
            }
        };
        (data_type, concat(&[&ends, &more]).unwrap())
    };
    ends.into_iter().map(column).collect()
}

/// As they are, but for NaN, which is one value.
fn same_nan(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        arrow_schema::DataType::Float64 => {
            let one = |v: f64| if v.is_nan() { f64::NAN } else { v };
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        arrow_schema::DataType::Float32 => {
            let one = |v: f32| if v.is_nan() { f32::NAN } else { v };
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        _ => Arc::clone(array),
    }
}

/// Bit for bit: floats as the integers that their bits are.
fn bits(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        arrow_schema::DataType::Float64 => {
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, UInt64Type>(f64::to_bits))
        }
        arrow_schema::DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, UInt32Type>(f32::to_bits))
        }
        _ => Arc::clone(array),
    }
}

/// Rows that are encoded for memory and for a file at once are the same in both.
#[tokio::test]
async fn memory_and_file_have_the_same_values() {
    let columns = many(300_000);
    let fields = columns.iter().enumerate().map(|(i, (t, _))| Field::new(format!("c{i}"), *t, true));
    let schema = Arc::new(Schema::new(fields.collect()).unwrap());
    let rows = columns[0].1.len();
    let mut buffer = RowBuffer::new(&schema);
    buffer.push(&columns.iter().map(|(_, array)| Some(Arc::clone(array))).collect::<Vec<_>>(), rows);

    let encoder = FileEncoder::new(&schema, rows).unwrap();
    let column = |place, array: ArrayRef| encoder.column(place, &[array]);
    let (data, encoded) = buffer.encode_and(&schema, column).unwrap();
    let encoded = encoder.finish(encoded).unwrap();
    let (log, state) = TableLog::create(Store::in_memory(), "t", &schema, BTreeMap::new()).await.unwrap();
    let file = log.put_data(encoded).await.unwrap();
    assert_eq!(file.rows() as usize, rows);
    let state = commit(&log, &state, &Change { add: vec![file], ..Change::default() }).await.state;

    let all: Vec<usize> = (0..columns.len()).collect();
    let mut reader = log.read(&state, state.fragments().iter().next().unwrap(), &all).await.unwrap();
    let mut in_file = Vec::new();
    while let Some(batch) = reader.next().await.unwrap() {
        in_file.push(batch);
    }
    let in_memory: Vec<_> = data.batches(&schema).map(Result::unwrap).collect();
    for (i, (_, given)) in columns.iter().enumerate() {
        let whole = |batches: &[RecordBatch]| {
            let arrays: Vec<_> = batches.iter().map(|batch| bits(batch.column(i))).collect();
            concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(*whole(&in_memory), *bits(&same_nan(given)), "column {i} in memory");
        assert_eq!(*whole(&in_file), *bits(&same_nan(given)), "column {i} in the file");
    }
}

/// It does not matter in which order columns are encoded, nor in how many pieces they come.
#[tokio::test]
async fn a_file_is_the_same_however_its_columns_come() {
    let columns = columns();
    let fields = columns.iter().enumerate().map(|(i, (t, _))| Field::new(format!("c{i}"), *t, true));
    let schema = Arc::new(Schema::new(fields.collect()).unwrap());
    let (store, encoder) = (Store::in_memory(), FileEncoder::new(&schema, 3).unwrap());
    let (log, state) = TableLog::create(store, "t", &schema, BTreeMap::new()).await.unwrap();
    let mut encoded = Vec::new();
    for (place, (_, array)) in columns.iter().enumerate().rev() {
        let pieces: Vec<ArrayRef> = (0..3).map(|row| array.slice(row, 1)).collect();
        encoded.push(encoder.column(place, &pieces).unwrap());
        assert!(matches!(encoder.column(place, &pieces[1..]), Err(StorageError::Invalid(_))));
    }
    encoded.reverse();
    let pieces = log.put_data(encoder.finish(encoded).unwrap()).await.unwrap();
    let arrays: Vec<ArrayRef> = columns.iter().map(|(_, array)| Arc::clone(array)).collect();
    let batch = RecordBatch::try_new(schema.to_arrow(), arrays).unwrap();
    let whole = log.write_data(&schema, vec![batch.clone()]).await.unwrap();
    assert_eq!(pieces.bytes(), whole.bytes());
    let change = Change { add: vec![pieces, whole], ..Change::default() };
    let state = commit(&log, &state, &change).await.state;
    for fragment in state.fragments().iter() {
        let mut reader = log.read(&state, fragment, &(0..columns.len()).collect::<Vec<_>>()).await.unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap(), batch);
    }
}
