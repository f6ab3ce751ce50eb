//! The pages of a column: their headers before they are decompressed, and their counts before they are decoded.

use std::io::{self, Read as _};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use parquet::{
    basic::{Compression, Encoding},
    column::page::Page,
    errors::{ParquetError, Result},
    file::reader::ChunkReader,
};

use super::{
    format::{
        COMPRESSED, DEFINITIONS, FIRST, FIRST_PAGE, PAGE, REPETITIONS, SECOND, SECOND_PAGE, UNCOMPRESSED,
        VALUES,
    },
    int96,
    limits::{HEADER_BYTES, REPEATED_VALUES},
    thrift::Walk,
    wanted::Asked,
};

/// What begins with these is compressed by gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What a byte of a compressed page comes to at most, where what it says is not believed by the crate: DEFLATE and LZ4.
const MOST_OF_A_BYTE: usize = 1032;

pub(super) fn wrong(why: impl Into<String>) -> ParquetError {
    ParquetError::General(why.into())
}

/// Bytes that are read at once where headers are looked for, and those that a header has at first.
const WINDOW: usize = 64 << 10;
const HEADER: usize = 1 << 10;

/// A column of a row group, in its file.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) compression: Compression,
}

/// What the headers of a column's pages say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Bytes of the largest page and of the first, which may be a dictionary that is kept.
    pub(super) bytes: usize,
    /// Values of all of them, but of dictionaries: as many as are decoded.
    pub(super) values: u64,
}

/// Walks over the pages of a column of a row group; the largest is at most `most` bytes when it is decompressed, or it is
/// an error.
pub(super) fn check_headers<R: ChunkReader>(
    reader: &R,
    chunk: Chunk,
    most: usize,
    asked: &mut Asked,
) -> Result<Found> {
    let end = chunk.start.checked_add(chunk.length).ok_or_else(|| wrong("a column behind all files"))?;
    let mut window = Window { reader, start: chunk.start, bytes: Bytes::new(), end };
    let (mut first, mut largest, mut values) = (None, 0, 0_u64);
    let mut at = chunk.start;
    while at < end {
        asked.page()?;
        let header = window.header(at)?;
        let Header { compressed, uncompressed, .. } = header;
        let page = at + header.length as u64;
        at = page + compressed as u64;
        if at > end {
            return Err(wrong("a page that ends behind its column"));
        }
        // What cannot be compressed gets longer by a part of it.
        if uncompressed > most || compressed / 2 > most {
            let bytes = uncompressed.max(compressed);
            return Err(wrong(format!("a page of {bytes} bytes; the limit is {most}")));
        }
        let levels = header.levels;
        if levels > compressed.min(uncompressed) {
            return Err(wrong("a page whose levels are longer than it is"));
        }
        if must_be_decompressed(compressed - levels, chunk.compression, most)? {
            asked.now()?;
            let page = reader.get_bytes(page + levels as u64, compressed - levels)?;
            check_gzip(&page, uncompressed - levels)?;
        }
        first.get_or_insert(uncompressed);
        largest = largest.max(uncompressed);
        values = values.saturating_add(header.values);
    }
    Ok(Found { bytes: largest + first.unwrap_or(0), values })
}

/// What the header of a page says, and how long it is.
#[derive(Clone, Copy)]
struct Header {
    length: usize,
    compressed: usize,
    uncompressed: usize,
    /// The bytes of levels that stand before what is compressed.
    levels: usize,
    /// Those of a page that is no dictionary.
    values: u64,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (mut compressed, mut uncompressed, mut levels, mut values) = (None, None, Some(0_usize), 0_u64);
        let mut walk = Walk::new(bytes);
        walk.fields(PAGE, |walk, field| {
            match field {
                UNCOMPRESSED => uncompressed = Some(walk.int()?),
                COMPRESSED => compressed = Some(walk.int()?),
                FIRST => walk.fields(FIRST_PAGE, |walk, field| {
                    if field == VALUES {
                        values += u64::from(walk.int()?.max(0).cast_unsigned());
                    }
                    Some(field == VALUES)
                })?,
                SECOND => walk.fields(SECOND_PAGE, |walk, field| {
                    if field == VALUES {
                        values += u64::from(walk.int()?.max(0).cast_unsigned());
                        return Some(true);
                    }
                    let is_length = matches!(field, DEFINITIONS | REPETITIONS);
                    if is_length {
                        let length = usize::try_from(walk.int()?).ok();
                        levels = levels.zip(length).and_then(|(all, length)| all.checked_add(length));
                    }
                    Some(is_length)
                })?,
                _ => return Some(false),
            }
            Some(true)
        })?;
        Some(Self {
            length: bytes.len() - walk.rest.len(),
            compressed: usize::try_from(compressed?).ok()?,
            uncompressed: usize::try_from(uncompressed?).ok()?,
            levels: levels?,
            values,
        })
    }
}

/// Some bytes of a column: of a large one that is in a file not all are read to look at its headers.
struct Window<'a, R> {
    reader: &'a R,
    /// Where the bytes stand.
    start: u64,
    bytes: Bytes,
    end: u64,
}

impl<R: ChunkReader> Window<'_, R> {
    fn header(&mut self, at: u64) -> Result<Header> {
        let mut length = HEADER;
        loop {
            let bytes = self.at(at, length)?;
            if let Some(header) = Header::read(bytes) {
                return Ok(header);
            }
            let is_all = bytes.len() as u64 == self.end - at;
            if is_all || length == HEADER_BYTES {
                return Err(wrong("a page without a header"));
            }
            length = (16 * length).min(HEADER_BYTES);
        }
    }

    /// What stands there: so many bytes at least, where the column has them.
    fn at(&mut self, at: u64, least: usize) -> Result<&[u8]> {
        let clipped = |bytes: usize| usize::try_from(self.end - at).map_or(bytes, |left| left.min(bytes));
        let skipped = usize::try_from(at - self.start).ok().filter(|skipped| *skipped <= self.bytes.len());
        if let Some(skipped) = skipped.filter(|skipped| self.bytes.len() - skipped >= clipped(least)) {
            return Ok(&self.bytes[skipped..]);
        }
        self.bytes = self.reader.get_bytes(at, clipped(least.max(WINDOW)))?;
        self.start = at;
        Ok(&self.bytes)
    }
}

/// Whether only its decompression tells what a page comes to: where the crate does not stop at what it says, and it may
/// come to more than so many bytes.
fn must_be_decompressed(length: usize, compression: Compression, most: usize) -> Result<bool> {
    let is_believed = !matches!(compression, Compression::GZIP(_) | Compression::LZ4);
    if is_believed || length.saturating_mul(MOST_OF_A_BYTE) <= most {
        return Ok(false);
    }
    if compression == Compression::LZ4 {
        let most = most / MOST_OF_A_BYTE;
        return Err(wrong(format!("a page of {length} bytes, compressed by LZ4; the limit is {most}")));
    }
    Ok(true)
}

/// That a page of gzip comes to no more than it says.
fn check_gzip(page: &[u8], uncompressed: usize) -> Result<()> {
    // A page of the second kind may say that it is not compressed.
    if !page.starts_with(&GZIP) && page.len() == uncompressed {
        return Ok(());
    }
    let mut left = MultiGzDecoder::new(page).take(uncompressed as u64 + 1);
    let found = io::copy(&mut left, &mut io::sink())?;
    if found > uncompressed as u64 {
        return Err(wrong("a page comes to more bytes than it says"));
    }
    Ok(())
}

/// That a page that is decompressed has no count that its bytes or its values do not bear out. The levels are the highest
/// for definitions and for repetitions. Of times of 96 bits none may be beyond the microseconds of 64.
pub(super) fn check(page: &Page, levels: (i16, i16), is_int96: bool) -> Result<()> {
    let values = page.num_values();
    if levels.1 > 0 && values > REPEATED_VALUES && !matches!(page, Page::DictionaryPage { .. }) {
        return Err(wrong(format!("a page of {values} values in lists; the limit is {REPEATED_VALUES}")));
    }
    let (buffer, encoding, start) = match page {
        Page::DictionaryPage { buf, .. } if values as usize > buf.len() => {
            let bytes = buf.len();
            return Err(wrong(format!("a dictionary of {values} values in {bytes} bytes")));
        }
        Page::DictionaryPage { buf, .. } if is_int96 => return int96::check(buf),
        Page::DictionaryPage { .. } => return Ok(()),
        Page::DataPage { buf, encoding, def_level_encoding, rep_level_encoding, .. } => {
            let repetitions = v1_levels(buf, levels.1, *rep_level_encoding, values);
            let start = repetitions
                .and_then(|at| Some(at + v1_levels(buf.get(at..)?, levels.0, *def_level_encoding, values)?));
            (buf, *encoding, start)
        }
        Page::DataPageV2 { buf, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let start = (*def_levels_byte_len as usize).checked_add(*rep_levels_byte_len as usize);
            (buf, *encoding, start)
        }
    };
    let values_of = || start.and_then(|start| buffer.get(start..));
    let streams = match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
        Encoding::DELTA_BYTE_ARRAY => 2,
        // A page of nulls alone need have no values.
        Encoding::PLAIN if is_int96 => return values_of().map_or(Ok(()), int96::check),
        _ => return Ok(()),
    };
    let mut data = values_of().ok_or_else(|| wrong("a page without values"))?;
    for _ in 0..streams {
        let (found, rest) = delta(data).ok_or_else(|| wrong("lengths that are malformed"))?;
        if found > u64::from(values) {
            return Err(wrong(format!("{found} lengths in a page of {values} values")));
        }
        data = rest;
    }
    Ok(())
}

/// How long the levels of a page of the first version are.
fn v1_levels(data: &[u8], most: i16, encoding: Encoding, values: u32) -> Option<usize> {
    if most <= 0 {
        return Some(0);
    }
    if encoding == Encoding::RLE {
        let length = data.first_chunk().map(|length| u32::from_le_bytes(*length))?;
        return 4_usize.checked_add(length as usize);
    }
    // Of another encoding there are none.
    let bits = 16 - most.leading_zeros() as usize;
    Some((values as usize * bits).div_ceil(8))
}

/// How many integers a stream of DELTA_BINARY_PACKED says that it has, and what stands behind it.
fn delta(data: &[u8]) -> Option<(u64, &[u8])> {
    let mut walk = Walk::new(data);
    let (block, minis, count) = (walk.varint()?, walk.varint()?, walk.varint()?);
    walk.varint()?;
    let (minis, each) = (usize::try_from(minis).ok()?, block.checked_div(minis)?);
    // The first stands in the head.
    let mut left = count.saturating_sub(1);
    while left > 0 {
        walk.varint()?;
        let (widths, rest) = walk.rest.split_at_checked(minis)?;
        let mut bytes = 0_u64;
        for width in widths {
            if left == 0 {
                break;
            }
            bytes = bytes.checked_add(u64::from(*width).checked_mul(each)? / 8)?;
            left = left.saturating_sub(each.max(1));
        }
        // The last one may be cut short.
        let bytes = usize::try_from(bytes).ok()?.min(rest.len());
        walk.rest = &rest[bytes..];
    }
    Some((count, walk.rest))
}
