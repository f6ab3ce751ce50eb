//! What work on a column takes while it is under way, by an allocator that counts: no more than is reserved for it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, shows what it measured, and makes numbers of any bits"
)]

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{
    Array as _, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray,
};
use basalt_core::{
    fragment::RowBuffer,
    limits::{BLOCK_ROWS, FRAGMENT_ROWS},
    schema::{DataType, Field, Schema},
};
use basalt_server::limits;
use basalt_storage::{Change, FileEncoder, Store, TableLog};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// What was held beside what was there before, at most, and what is left of it.
fn measured<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let done = work();
    let (peak, left) = (MEMORY.peak_usage(), MEMORY.current_usage());
    (done, peak.saturating_sub(before), left.saturating_sub(before))
}

fn scattered(i: usize) -> i64 {
    let mut x = (i as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31).cast_signed()
}

/// Columns of all kinds: values that no encoding makes smaller, and those that one does.
fn columns(rows: usize) -> Vec<(&'static str, DataType, ArrayRef)> {
    let ints =
        |of: &dyn Fn(usize) -> i64| -> ArrayRef { Arc::new((0..rows).map(of).collect::<Int64Array>()) };
    let some = |i: usize| !i.is_multiple_of(3);
    let texts = |of: &dyn Fn(usize) -> String| -> ArrayRef {
        Arc::new((0..rows).map(|i| Some(of(i))).collect::<StringArray>())
    };
    let decimals = (0..rows).map(|i| i128::from(scattered(i) % 1_000_000)).collect::<Decimal128Array>();
    let decimal = DataType::Decimal { precision: 15, scale: 2 };
    vec![
        ("scattered", DataType::Int64, ints(&scattered)),
        ("ascending", DataType::Int64, ints(&|i| i as i64 * 3)),
        ("few", DataType::Int64, ints(&|i| scattered(i) & 31)),
        ("runs", DataType::Int64, ints(&|i| scattered(i / 1000))),
        ("many", DataType::Int64, ints(&|i| scattered(i & 0xffff))),
        (
            "nulls",
            DataType::Int64,
            Arc::new((0..rows).map(|i| some(i).then(|| scattered(i))).collect::<Int64Array>()),
        ),
        (
            "int32",
            DataType::Int32,
            Arc::new((0..rows).map(|i| (scattered(i) >> 40) as i32).collect::<Int32Array>()),
        ),
        (
            "bool",
            DataType::Bool,
            Arc::new((0..rows).map(|i| Some(scattered(i) & 1 == 0)).collect::<BooleanArray>()),
        ),
        (
            "floats",
            DataType::Float64,
            Arc::new((0..rows).map(|i| f64::from_bits(scattered(i) as u64 >> 2)).collect::<Float64Array>()),
        ),
        (
            "prices",
            DataType::Float64,
            Arc::new((0..rows).map(|i| (scattered(i) & 0xf_ffff) as f64 / 100.0).collect::<Float64Array>()),
        ),
        ("decimals", decimal, Arc::new(decimals.with_precision_and_scale(15, 2).unwrap())),
        (
            "names",
            DataType::Utf8,
            texts(&|i| format!("{:016x} {:08x}", scattered(i), scattered(i + 7) as u32)),
        ),
        ("words", DataType::Utf8, texts(&|i| format!("word {} of many", scattered(i) & 0xff))),
        ("short", DataType::Utf8, texts(&|i| format!("{}", i % 1_000_000))),
        ("long", DataType::Utf8, texts(&|i| format!("{:016x}", scattered(i)).repeat(6))),
        ("empty", DataType::Utf8, texts(&|_| String::new())),
    ]
}

/// What a column is reserved for its reading: values in memory as they are gathered, and what encodings try.
fn reserved(rows: usize, texts: usize) -> usize {
    let (row, halves) = (limits::ENCODE_ROW_BYTES as usize, limits::ENCODE_TEXT_HALVES as usize);
    rows * row + texts * halves / 2
}

/// Reading, encoding and writing a column takes no more than is reserved for it, and leaves what it says that it holds.
/// A little is for what does not grow with the rows.
#[test]
fn columns_take_what_is_reserved_for_them() {
    const LITTLE: usize = 2 << 20;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let rows = FRAGMENT_ROWS;
    let mib = |n: usize| format!("{:.1}", n as f64 / (1 << 20) as f64);
    println!(
        "{:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "MiB", "decoded", "file", "encoded", "read", "write", "reserved"
    );
    for (name, data_type, array) in columns(rows) {
        let schema =
            Arc::new(Schema::new(vec![Field::new(name, data_type, array.null_count() > 0)]).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_str().unwrap()).unwrap();
        let mut buffer = RowBuffer::new(&schema);
        for start in (0..rows).step_by(BLOCK_ROWS) {
            buffer.push(&[Some(array.slice(start, BLOCK_ROWS))], BLOCK_ROWS);
        }
        drop(array);
        let decoded = buffer.bytes();
        let ((data, file), write, _) = measured(|| {
            pool.install(|| {
                let file = FileEncoder::new(&schema, rows).unwrap();
                let encode = |place, array: ArrayRef| file.column(place, &[array]);
                let (data, columns) =
                    buffer.encode_and::<_, basalt_storage::StorageError>(&schema, encode).unwrap();
                (data, file.finish(columns).unwrap())
            })
        });
        // What was there before is the buffer.
        let write = write + decoded;
        let encoded = data.bytes();
        drop(data);
        let (log, state, in_file) = runtime.block_on(async {
            let (log, state) = TableLog::create(store, "t", &schema, BTreeMap::new()).await.unwrap();
            let file = log.put_data(file).await.unwrap();
            let bytes = file.bytes();
            let done = log.commit(&state, &Change { add: vec![file], ..Change::default() }).await.unwrap();
            (log, done.state, bytes)
        });
        let ((data, texts), read, left) = measured(|| {
            let entry = state.fragments().iter().next().unwrap();
            let (buffer, texts) = runtime.block_on(async {
                let mut reader = log.read(&state, entry, &[0]).await.unwrap();
                let texts = usize::try_from(reader.text_bytes().unwrap()[0]).unwrap();
                let mut buffer = RowBuffer::with_capacity(&schema, rows, |_| texts);
                while let Some(batch) = reader.next().await.unwrap() {
                    let arrays: Vec<_> = batch.columns().iter().cloned().map(Some).collect();
                    buffer.push(&arrays, batch.num_rows());
                }
                (buffer, texts)
            });
            (pool.install(|| buffer.encode(&schema).unwrap()), texts)
        });
        let reads = reserved(rows, texts) + encoded;
        let writes = limits::FRAGMENT_COPIES as usize * decoded + limits::ENCODE_ROW_BYTES as usize * rows;
        println!(
            "{name:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
            mib(decoded),
            mib(in_file as usize),
            mib(encoded),
            mib(read),
            mib(write),
            mib(reads)
        );
        assert_eq!(data.bytes(), encoded, "{name}");
        assert!(left <= encoded + encoded / 20 + LITTLE, "{name}: {left} bytes are held, not {encoded}");
        assert!(read <= reads + LITTLE, "{name}: reading takes {read} bytes, not {reads}");
        assert!(write <= writes + LITTLE, "{name}: writing takes {write} bytes, not {writes}");
    }
}
