//! Files that tell the truth are read as the crate reads them, whatever they are made of; those that lie are errors.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, types::Int32Type};
use bytes::Bytes;
use parquet::{
    arrow::{ArrowWriter, ProjectionMask, arrow_reader::ParquetRecordBatchReaderBuilder},
    basic::{Compression, Encoding, GzipLevel, ZstdLevel},
    errors::Result,
    file::{
        metadata::ParquetMetaDataReader,
        properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion},
    },
};

use super::{
    Footer, Groups, Wanted, check_footer,
    pages::{self, Chunk},
    wanted::Asked,
};

mod hostile;
mod int96;
mod whole;

const PAGE: usize = 1 << 20;

fn batch() -> RecordBatch {
    let numbers: Int64Array = (0..300).map(|i| (i % 7 != 2).then_some(i * i % 101)).collect();
    let texts: StringArray = (0..300).map(|i| (i % 5 != 3).then(|| format!("text {}", i % 13))).collect();
    let list = (0..300).map(|i| (i % 4 != 1).then(|| (0..i % 3).map(move |k| (k != 1).then_some(i))));
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(list);
    let columns: [(&str, ArrayRef); 3] =
        [("n", Arc::new(numbers)), ("t", Arc::new(texts)), ("l", Arc::new(list))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn written(batch: &RecordBatch, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let properties = properties.set_data_page_row_count_limit(60).set_write_batch_size(20).build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    file
}

fn groups(file: &[u8], most: usize) -> Groups<Bytes> {
    let file = Bytes::copy_from_slice(file);
    Footer::new(file.clone(), file.len()).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let all = (0..metadata.num_row_groups()).collect();
    Groups::new(file, Arc::new(metadata), all, most)
}

fn read(file: &[u8], most: usize) -> Result<Vec<RecordBatch>> {
    let rows = groups(file, most).read(ProjectionMask::all(), None, None, 64)?;
    Ok(rows.collect::<std::result::Result<_, _>>()?)
}

#[track_caller]
fn refused(file: &[u8], why: &str) {
    let error = read(file, PAGE).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn files_of_all_kinds_are_read() {
    let mut read_files = 0;
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for compression in [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::LZ4,
            Compression::LZ4_RAW,
            Compression::GZIP(GzipLevel::default()),
            Compression::ZSTD(ZstdLevel::default()),
        ] {
            for encoding in [
                None,
                Some(Encoding::PLAIN),
                Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
                Some(Encoding::DELTA_BYTE_ARRAY),
            ] {
                let mut properties = WriterProperties::builder()
                    .set_writer_version(version)
                    .set_compression(compression)
                    .set_max_row_group_row_count(Some(170));
                if let Some(encoding) = encoding {
                    properties =
                        properties.set_dictionary_enabled(false).set_column_encoding("t".into(), encoding);
                }
                let file = written(&batch(), properties);
                let bytes = Bytes::from(file.clone());
                let plain = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().with_batch_size(64);
                let expected: Vec<_> = plain.build().unwrap().map(std::result::Result::unwrap).collect();
                assert_eq!(read(&file, PAGE).unwrap(), expected);
                let some = groups(&file, PAGE).read(ProjectionMask::all(), None, Some(100..250), 64).unwrap();
                assert_eq!(some.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 150);
                let most = groups(&file, PAGE).bytes().unwrap();
                assert!((500..20_000).contains(&most), "{most}");
                let refused = read(&file, 100).unwrap_err().to_string();
                assert!(refused.contains("the limit is "), "{refused}");
                read_files += 1;
            }
        }
    }
    assert_eq!(read_files, 48);
}

/// A file with one column of texts that ascend, in one page of an encoding, and where a count of it stands.
fn texts(encoding: Encoding, before: &[u8]) -> (Vec<u8>, usize) {
    let texts: StringArray = (0..50).map(|i| Some(format!("{i:04}"))).collect();
    let batch = RecordBatch::try_from_iter([("t", Arc::new(texts) as ArrayRef)]).unwrap();
    let properties = WriterProperties::builder().set_dictionary_enabled(false).set_encoding(encoding);
    let file = written(&batch, properties);
    let at = file.windows(before.len()).position(|bytes| bytes == before).unwrap();
    (file, at + before.len())
}

#[test]
fn lengths_that_no_page_has_are_refused() {
    // The head of such a stream: blocks of 128 in 4 parts, and how many integers; 50 here.
    let head = [0x80, 0x01, 4];
    for (encoding, last) in [(Encoding::DELTA_LENGTH_BYTE_ARRAY, 1), (Encoding::DELTA_BYTE_ARRAY, 2)] {
        for stream in 0..last {
            let (mut file, mut at) = texts(encoding, &head);
            for _ in 0..stream {
                at += file[at..].windows(3).position(|bytes| bytes == head).unwrap() + 3;
            }
            assert_eq!(file[at], 50);
            read(&file, PAGE).unwrap();
            file[at] = 127;
            refused(&file, "127 lengths in a page of 50 values");
            // Without the check this many would be made room for.
            file[at] = 0xff;
            assert!(read(&file, PAGE).is_err());
        }
    }
}

#[test]
fn dictionaries_have_as_many_values_as_they_have_bytes() {
    let texts: StringArray = (0..50).map(|i| Some(format!("{}", i % 3))).collect();
    let batch = RecordBatch::try_from_iter([("t", Arc::new(texts) as ArrayRef)]).unwrap();
    let mut file = written(&batch, WriterProperties::builder());
    read(&file, PAGE).unwrap();
    // The header of the page's own header: three values.
    let head = [0x4c, 0x15, 6];
    let at = file.windows(3).position(|bytes| bytes == head).unwrap() + 2;
    file[at] = 126;
    refused(&file, "a dictionary of 63 values in 15 bytes");
}

/// A whole number, as Thrift has it.
fn zigzag(value: usize) -> Vec<u8> {
    varint(2 * value)
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}

fn headers(chunk: Vec<u8>, compression: Compression, most: usize) -> Result<usize> {
    let of = Chunk { start: 0, length: chunk.len() as u64, compression };
    let found = pages::check_headers(&Bytes::from(chunk), of, most, &mut Asked::of(&Wanted::always()))?;
    Ok(found.bytes)
}

#[test]
fn gzip_comes_to_what_it_says() {
    let zeros = vec![0_u8; 1 << 20];
    let mut encoder = flate2::read::GzEncoder::new(&*zeros, flate2::Compression::best());
    let mut page = Vec::new();
    std::io::copy(&mut encoder, &mut page).unwrap();
    let chunk = |says: usize| {
        [&[0x15, 0][..], &[0x15], &zigzag(says), &[0x15], &zigzag(page.len()), &[0], &page].concat()
    };
    let gzip = Compression::GZIP(GzipLevel::default());
    assert_eq!(headers(chunk(1 << 20), gzip, 1 << 20).unwrap(), 2 << 20);
    for says in [0, 100, (1 << 20) - 1] {
        let error = headers(chunk(says), gzip, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("comes to more bytes than it says"), "{error}");
    }
    assert!(headers(chunk(1 << 20), gzip, 1 << 19).is_err());
    // Whatever a page of LZ4 says, it comes to so much at most.
    assert!(headers(chunk(1 << 20), Compression::LZ4, 1 << 20).is_err());
    let mut broken = chunk(1 << 20);
    broken.pop();
    assert!(headers(broken, gzip, 1 << 20).unwrap_err().to_string().contains("ends behind"));
}

/// A footer of a schema whose elements have so many parts each, and of row groups.
fn footer(children: &[u8], groups: &[u8]) -> Vec<u8> {
    let size = u8::try_from(children.len()).unwrap();
    let mut footer = vec![0x15, 2, 0x19, 0xfc, size];
    for children in children {
        footer.extend([0x48, 1, b'a', 0x15, children * 2, 0]);
    }
    footer.extend([0x16, 0, 0x19]);
    footer.extend(groups);
    footer.push(0);
    footer
}

#[test]
fn footers_that_lie_are_refused() {
    let check = |footer: &[u8], why: &str| {
        let error = check_footer(footer).unwrap_err();
        assert!(error.contains(why), "{error}");
    };
    let none = [0x0c];
    check_footer(&footer(&[2, 0, 0], &none)).unwrap();
    check_footer(&footer(&[&[1; 64][..], &[0]].concat(), &none)).unwrap();
    check(&footer(&[&[1; 65][..], &[0]].concat(), &none), "nest deeper than 64 levels");
    check(&footer(&[3, 0, 0], &none), "3 parts, and 2 in all");
    check(&footer(&[1, 0], &[0xfc, 0xff, 0xff, 0xff, 0xff, 7]), "malformed");
    let many = [&[0xfc, 0x81, 0x80, 2][..], &[0; 40_000]].concat();
    check(&footer(&[1, 0], &many), "32769 row groups");
    check(&[0x15, 2], "malformed");
    // A field that is there twice.
    check(&[0x15, 2, 0x05, 2, 2, 0], "malformed");
    // A value of a gigabyte.
    let long = [0x19, 0x1c, 0x25, 0x80, 0x80, 0x80, 0x80, 8, 0, 0];
    check(&[&[0x15, 2][..], &long].concat(), "values of 1073741824 bytes");
    // Structs in structs without end.
    check(&[0x5c; 100], "malformed");
    let end = |file: &'static [u8], most: usize| match Footer::new(Bytes::from_static(file), most) {
        Ok(_) => "none".to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(end(b"PAR1", 9).contains("it is no Parquet file"));
    assert!(end(b"PAR2\0\0\0\0PAR2", 9).contains("it is no Parquet file"));
    assert!(end(b"PAR1\xff\0\0\0PAR1", 999).contains("longer than the file"));
    assert!(end(b"PAR1ab\x02\0\0\0PAR1", 1).contains("more than 1 bytes"));
    assert!(end(b"PAR1ab\x02\0\0\0PAR1", 2).contains("malformed"));
    assert_eq!(end(b"PAR1\x15\x02\0\x03\0\0\0PAR1", 3), "none");
}
