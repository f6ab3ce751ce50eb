//! Files as a whole, which need not be in memory.

use std::{
    io::Read,
    sync::atomic::{AtomicU64, Ordering},
};

use arrow_array::{Array as _, FixedSizeListArray};
use arrow_cast::cast;
use arrow_schema::{DataType, Field};
use bytes::Buf as _;
use parquet::file::reader::{ChunkReader, Length};

use super::*;
use crate::parquet::{ParquetFile, Reading};

const READING: fn() -> Reading = || Reading { batch_rows: 64, page_bytes: PAGE, wanted: Wanted::always() };

/// A file that counts what is read of it.
#[derive(Clone, Debug)]
struct Counted(Bytes, Arc<AtomicU64>);

impl Length for Counted {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

impl ChunkReader for Counted {
    type T = Box<dyn Read + Send>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(Box::new(self.0.slice(usize::try_from(start).unwrap()..).reader()))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.1.fetch_add(length as u64, Ordering::Relaxed);
        self.0.get_bytes(start, length)
    }
}

fn opened(file: &[u8]) -> (ParquetFile<Counted>, Arc<AtomicU64>) {
    let read = Arc::new(AtomicU64::new(0));
    let file = Counted(Bytes::copy_from_slice(file), Arc::clone(&read));
    let footer = Footer::new(file, 1 << 20).unwrap();
    assert!(footer.bytes() > 1000);
    (ParquetFile::new(footer).unwrap(), read)
}

#[test]
fn its_rows_are_those_that_were_written() {
    let batch = batch();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(170));
    let (file, _) = opened(&written(&batch, properties));
    assert_eq!((file.groups(), file.schema().fields().len()), (2, 3));
    assert!(file.group_bytes() > 500);
    let (all, bytes) = file.rows(&READING()).unwrap();
    assert!((100..50_000).contains(&bytes), "{bytes}");
    let groups = (0..2).map(|group| file.rows_of_group(group, &READING()).unwrap().0);
    let groups: Vec<_> = groups.flatten().collect::<std::result::Result<_, _>>().unwrap();
    let mut at = 0;
    for (rows, is_one) in [(all.map(std::result::Result::unwrap).collect(), true), (groups, false)] {
        let rows: Vec<RecordBatch> = rows;
        assert!(rows.iter().all(|rows| rows.num_rows() <= 64));
        at = 0;
        for read in &rows {
            let expected = batch.slice(at, read.num_rows());
            for (read, expected) in read.columns().iter().zip(expected.columns()) {
                assert_eq!(&cast(read, expected.data_type()).unwrap(), expected, "{at} {is_one}");
            }
            at += read.num_rows();
        }
        assert_eq!(at, 300);
    }
    assert_eq!(at, 300);
    assert!(file.rows_of_group(2, &READING()).is_err());
}

/// A few bytes may be any number of values of lists, and a text of a dictionary that of each of them.
#[test]
fn values_of_lists_are_counted_and_share_their_texts() {
    let long = "x".repeat(10_000);
    let texts: ArrayRef = Arc::new(StringArray::from(vec![long.as_str(); 3000]));
    let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
    let lists: ArrayRef = Arc::new(FixedSizeListArray::new(field, 1000, texts, None));
    let lists = cast(&lists, &DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))).unwrap();
    let batch = RecordBatch::try_from_iter([("l", lists)]).unwrap();
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let (file, _) = opened(&written(&batch, WriterProperties::builder().set_writer_version(version)));
        let (rows, bytes) = file.rows(&READING()).unwrap();
        assert!((60_000..200_000).contains(&bytes), "{bytes}");
        let rows: Vec<_> = rows.map(std::result::Result::unwrap).collect();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
        let list = rows[0].column(0);
        assert!(list.get_array_memory_size() < 1_000_000, "{}", list.get_array_memory_size());
        assert_eq!(crate::to_json(list).unwrap().value(0).len(), 1000 * 10_003 + 1);
    }
}

#[test]
fn headers_are_looked_at_without_the_pages() {
    // Texts that differ, in pages of some hundred thousand bytes each.
    let texts: StringArray = (0..20_000).map(|i| Some(format!("{i:0100}"))).collect();
    let batch = RecordBatch::try_from_iter([("t", Arc::new(texts) as ArrayRef)]).unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_write_batch_size(4000)
        .set_data_page_size_limit(400_000)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    assert!(bytes.len() > 2_000_000);
    let (file, read) = opened(&bytes);
    read.store(0, Ordering::Relaxed);
    let groups = groups(&bytes, PAGE).bytes().unwrap();
    let (rows, most) = file.rows(&READING()).unwrap();
    assert_eq!(groups, most);
    // They are looked at twice: for what they take, and on their way to the decoder.
    let read_of_headers = read.load(Ordering::Relaxed);
    assert!(read_of_headers < 1_000_000, "{read_of_headers}");
    assert_eq!(rows.map(|rows| rows.unwrap().num_rows()).sum::<usize>(), 20_000);
    assert!(read.load(Ordering::Relaxed) > 2_000_000);
}

/// Where a window ends, a header may stand.
#[test]
fn headers_of_small_pages_are_all_found() {
    let mut state = 7_usize;
    let mut chunk = Vec::new();
    let mut largest = 0;
    let first = 90;
    for page in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let length = if page == 0 { first } else { (state >> 33) % 90 };
        // A field that nobody reads makes the header longer, now and then longer than what is looked at first.
        let more = if page % 1000 == 500 { 100_000 } else { (state >> 40) % 30 };
        let header =
            [&[0x25][..], &zigzag(length), &[0x15], &zigzag(length), &[0xa8], &varint(more)].concat();
        chunk.extend(header);
        chunk.resize(chunk.len() + more, 0xff);
        chunk.push(0);
        chunk.resize(chunk.len() + length, 0xee);
        largest = largest.max(length);
    }
    assert_eq!(headers(chunk.clone(), Compression::SNAPPY, PAGE).unwrap(), largest + first);
    chunk.pop();
    assert!(headers(chunk, Compression::SNAPPY, PAGE).is_err());
}
