//! Checksums in the headers of a Parquet file's pages, for readers that look for them.
//!
//! The writer of the crate `parquet` leaves the field `crc` out. A file that it has written is copied here, page by
//! page, with the field: the CRC-32 of the page's bytes behind its header. Everything behind a page moves, so the
//! offsets in the footer and in the offset index are written again, too.
//!
//! A page header is a struct in Thrift's compact protocol whose first three fields are integers: the page's kind, its
//! size when decompressed, and its size in the file. `crc` is the field behind them, and the next one, a struct, says
//! its number as a distance from the field before it, which is one less then.

use std::io::Write as _;

use parquet::{
    errors::{ParquetError, Result},
    file::{
        metadata::{ColumnChunkMetaData, OffsetIndexBuilder, ParquetMetaData, ParquetMetaDataWriter},
        page_index::offset_index::OffsetIndexMetaData,
        writer::TrackedWrite,
    },
};

const MAGIC: &[u8; 4] = b"PAR1";
/// The header of a field of 32 bits that follows its predecessor.
const NEXT_I32: u8 = 0x15;
/// The kind of a field that is a struct; the upper half of the byte is the distance from the field before.
const STRUCT: u8 = 0x0c;

/// A file with checksums in the headers of all its pages, and its metadata: made of one that has none, as the crate has
/// written it.
pub(crate) fn add(file: &[u8], metadata: &ParquetMetaData) -> Result<(Vec<u8>, ParquetMetaData)> {
    let index = metadata.offset_index().ok_or_else(|| wrong("it has no offset index"))?;
    let mut bytes = Vec::with_capacity(file.len() + file.len() / 64);
    // It counts what is written: the footer's writer has to know where it begins.
    let mut out = TrackedWrite::new(&mut bytes);
    out.write_all(MAGIC)?;
    let (mut groups, mut indexes) = (Vec::new(), Vec::new());
    for (group, index) in metadata.row_groups().iter().zip(index) {
        let start = signed(out.bytes_written())?;
        let (mut columns, mut of_columns) = (Vec::new(), Vec::new());
        for (column, index) in group.columns().iter().zip(index) {
            let (column, index) = add_to_chunk(file, column, index, group.num_rows(), &mut out)?;
            columns.push(column);
            of_columns.push(index);
        }
        let size = columns.iter().map(ColumnChunkMetaData::uncompressed_size).sum();
        let moved = group.clone().into_builder().set_column_metadata(columns);
        groups.push(moved.set_total_byte_size(size).set_file_offset(start).build()?);
        indexes.push(of_columns);
    }
    let metadata = metadata.clone().into_builder().set_row_groups(groups).set_offset_index(Some(indexes));
    let metadata = metadata.build();
    ParquetMetaDataWriter::new_with_tracked(out, &metadata).finish()?;
    Ok((bytes, metadata))
}

/// Copies the pages of a column of a row group: the dictionary, and those that the offset index names.
fn add_to_chunk(
    file: &[u8],
    column: &ColumnChunkMetaData,
    index: &OffsetIndexMetaData,
    rows: i64,
    out: &mut TrackedWrite<&mut Vec<u8>>,
) -> Result<(ColumnChunkMetaData, OffsetIndexMetaData)> {
    let start = signed(out.bytes_written())?;
    let pages = index.page_locations();
    let first = column.data_page_offset();
    if let Some(dictionary) = column.dictionary_page_offset() {
        add_to_page(slice(file, dictionary, first - dictionary)?, out)?;
    }
    let data = signed(out.bytes_written())?;
    let mut moved = OffsetIndexBuilder::new();
    for (i, page) in pages.iter().enumerate() {
        let at = signed(out.bytes_written())?;
        add_to_page(slice(file, page.offset, i64::from(page.compressed_page_size))?, out)?;
        let size = signed(out.bytes_written())? - at;
        moved.append_offset_and_size(at, i32::try_from(size).map_err(|_| wrong("a page is too large"))?);
        let next = pages.get(i + 1).map_or(rows, |next| next.first_row_index);
        moved.append_row_count(next - page.first_row_index);
        let texts = index.unencoded_byte_array_data_bytes().and_then(|sizes| sizes.get(i));
        moved.append_unencoded_byte_array_data_bytes(texts.copied());
    }
    let size = signed(out.bytes_written())? - start;
    let added = size - column.compressed_size();
    let column = column
        .clone()
        .into_builder()
        .set_dictionary_page_offset(column.dictionary_page_offset().map(|_| start))
        .set_data_page_offset(data)
        .set_total_compressed_size(size)
        .set_total_uncompressed_size(column.uncompressed_size() + added)
        .build()?;
    Ok((column, moved.build()))
}

/// Copies one page.
fn add_to_page(page: &[u8], out: &mut TrackedWrite<&mut Vec<u8>>) -> Result<()> {
    let no_header = || wrong("a page has no header");
    let mut at = 0;
    let mut size = 0;
    for _ in 0..3 {
        if page.get(at) != Some(&NEXT_I32) {
            return Err(no_header());
        }
        (size, at) = varint(page, at + 1).ok_or_else(no_header)?;
    }
    // Integers are zigzag-coded: those that are not negative are doubled.
    let size = usize::try_from(size / 2).map_err(|_| no_header())?;
    let (fields, rest) = page.split_at_checked(at).ok_or_else(no_header)?;
    let behind = rest.len().checked_sub(size).and_then(|header| rest.split_at_checked(header));
    let (header, data) = behind.ok_or_else(no_header)?;
    let (next, header) = header.split_first().ok_or_else(no_header)?;
    if next & 0x0f != STRUCT || next >> 4 < 2 {
        return Err(no_header());
    }
    let checksum = crc32fast::hash(data).cast_signed();
    out.write_all(fields)?;
    out.write_all(&[NEXT_I32])?;
    let mut zigzag = ((checksum << 1) ^ (checksum >> 31)).cast_unsigned();
    while zigzag >= 0x80 {
        out.write_all(&[zigzag.to_le_bytes()[0] | 0x80])?;
        zigzag >>= 7;
    }
    out.write_all(&[zigzag.to_le_bytes()[0]])?;
    out.write_all(&[next - 0x10])?;
    out.write_all(header)?;
    out.write_all(data)?;
    Ok(())
}

/// A number of seven bits a byte, the least first, and the place behind it.
fn varint(bytes: &[u8], mut at: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((value, at));
        }
    }
    None
}

fn slice(file: &[u8], start: i64, length: i64) -> Result<&[u8]> {
    let (start, length) = (usize::try_from(start).ok(), usize::try_from(length).ok());
    let range = start.zip(length).and_then(|(start, length)| Some(start..start.checked_add(length)?));
    range.and_then(|range| file.get(range)).ok_or_else(|| wrong("a page is not within the file"))
}

fn signed(n: usize) -> Result<i64> {
    i64::try_from(n).map_err(|_| wrong("it is too large"))
}

fn wrong(why: &str) -> ParquetError {
    ParquetError::General(format!("a file without page checksums: {why}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, types::Int32Type};
    use bytes::Bytes;
    use parquet::{
        arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
        basic::Compression,
        file::{
            metadata::{PageIndexPolicy, ParquetMetaDataReader},
            properties::{WriterProperties, WriterVersion},
        },
    };

    use super::*;

    /// Several row groups of several pages, with and without a dictionary, and a nested column.
    fn batch() -> RecordBatch {
        let texts = (0..5000).map(|i| (i % 7 != 0).then(|| format!("text {}", i % 40)));
        let lists = (0..5000).map(|i| Some((0..i % 4).map(Some)));
        let columns: [(&str, ArrayRef); 3] = [
            ("n", Arc::new((0..5000i64).map(|i| i * 977 % 4099).collect::<Int64Array>())),
            ("text", Arc::new(texts.collect::<StringArray>())),
            ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn read(file: Vec<u8>) -> std::result::Result<Vec<RecordBatch>, String> {
        let reader =
            ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file)).map_err(|e| e.to_string())?;
        let reader = reader.with_batch_size(5000).build().map_err(|e| e.to_string())?;
        reader.map(|batch| batch.map_err(|e| e.to_string())).collect()
    }

    #[test]
    fn the_rows_stay_and_every_page_is_checked() {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_compression(Compression::SNAPPY)
                .set_max_row_group_row_count(Some(3000))
                .set_data_page_row_count_limit(700)
                .set_write_batch_size(100)
                .build();
            let mut plain = Vec::new();
            let mut writer = ArrowWriter::try_new(&mut plain, batch().schema(), Some(properties)).unwrap();
            writer.write(&batch()).unwrap();
            let metadata = writer.close().unwrap();
            let (file, told) = add(&plain, &metadata).unwrap();
            assert_eq!(read(file.clone()).unwrap(), read(plain).unwrap());

            let mut reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
            reader.try_parse(&Bytes::from(file.clone())).unwrap();
            let found = reader.finish().unwrap();
            assert_eq!(found.num_row_groups(), 2);
            let mut pages = 0;
            for (i, (group, index)) in
                found.row_groups().iter().zip(found.offset_index().unwrap()).enumerate()
            {
                for (k, (column, index)) in group.columns().iter().zip(index).enumerate() {
                    assert_eq!(column.byte_range(), told.row_group(i).column(k).byte_range());
                    let last = index.page_locations().last().unwrap();
                    let (start, length) = column.byte_range();
                    let end = last.offset + i64::from(last.compressed_page_size);
                    assert_eq!(u64::try_from(end).unwrap(), start + length);
                    // The last byte of a page is one of its values; without a checksum most such flips are read.
                    for page in index.page_locations() {
                        let mut bad = file.clone();
                        let at = page.offset + i64::from(page.compressed_page_size) - 1;
                        bad[usize::try_from(at).unwrap()] ^= 1;
                        let error = read(bad).unwrap_err();
                        assert!(error.contains("CRC"), "{error}");
                        pages += 1;
                    }
                }
            }
            assert!(pages > 20, "{pages}");
        }
    }
}
