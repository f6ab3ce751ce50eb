//! The pages of a column: their headers before they are decompressed, and their counts before they are decoded.

use std::io::{self, Read as _};

use flate2::read::MultiGzDecoder;
use parquet::{
    basic::{Compression, Encoding},
    column::page::Page,
    errors::{ParquetError, Result},
};

use super::{REPEATED_VALUES, thrift::Walk};

/// Fields of a page's header.
const UNCOMPRESSED: i64 = 2;
const COMPRESSED: i64 = 3;
/// The header of a page of the second kind, whose levels stand before what is compressed, and their lengths in it.
const SECOND: i64 = 8;
const DEFINITIONS: i64 = 5;
const REPETITIONS: i64 = 6;

/// What begins with these is compressed by gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What a byte of a compressed page comes to at most, where what it says is not believed by the crate: DEFLATE and LZ4.
const MOST_OF_A_BYTE: usize = 1032;

pub(super) fn wrong(why: impl Into<String>) -> ParquetError {
    ParquetError::General(why.into())
}

/// Walks over the pages of a column of a row group; the largest is at most `most` bytes when it is decompressed, or it is
/// an error. The answer is the bytes of the largest and of the first, which may be a dictionary that is kept.
pub(super) fn check_headers(mut chunk: &[u8], compression: Compression, most: usize) -> Result<usize> {
    let (mut first, mut largest) = (None, 0);
    while !chunk.is_empty() {
        let (mut compressed, mut uncompressed, mut levels) = (None, None, 0_i64);
        let mut walk = Walk::new(chunk);
        let walked = walk.fields(|walk, field, _| {
            match field {
                UNCOMPRESSED => uncompressed = Some(walk.integer()?),
                COMPRESSED => compressed = Some(walk.integer()?),
                SECOND => walk.fields(|walk, field, _| {
                    let is_length = matches!(field, DEFINITIONS | REPETITIONS);
                    if is_length {
                        levels = levels.saturating_add(walk.integer()?);
                    }
                    Some(is_length)
                })?,
                _ => return Some(false),
            }
            Some(true)
        });
        let sizes = walked.and(compressed.zip(uncompressed));
        let sizes = sizes.and_then(|(a, b)| Some((usize::try_from(a).ok()?, usize::try_from(b).ok()?)));
        let (compressed, uncompressed) = sizes.ok_or_else(|| wrong("a page without a header"))?;
        let page = walk.rest.split_at_checked(compressed);
        let (page, rest) = page.ok_or_else(|| wrong("a page that ends behind its column"))?;
        if uncompressed > most {
            return Err(wrong(format!("a page of {uncompressed} bytes; the limit is {most}")));
        }
        let levels = usize::try_from(levels).ok().filter(|levels| *levels <= compressed.min(uncompressed));
        let levels = levels.ok_or_else(|| wrong("a page whose levels are longer than it is"))?;
        check_compressed(&page[levels..], compression, uncompressed - levels, most)?;
        first.get_or_insert(uncompressed);
        largest = largest.max(uncompressed);
        chunk = rest;
    }
    Ok(largest + first.unwrap_or(0))
}

/// That a page comes to no more than it says, where the crate does not stop there.
fn check_compressed(page: &[u8], compression: Compression, uncompressed: usize, most: usize) -> Result<()> {
    let is_believed = !matches!(compression, Compression::GZIP(_) | Compression::LZ4);
    if is_believed || page.len().saturating_mul(MOST_OF_A_BYTE) <= most {
        return Ok(());
    }
    if compression == Compression::LZ4 {
        let most = most / MOST_OF_A_BYTE;
        return Err(wrong(format!("a page of {} bytes, compressed by LZ4; the limit is {most}", page.len())));
    }
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
/// for definitions and for repetitions.
pub(super) fn check(page: &Page, levels: (i16, i16)) -> Result<()> {
    let values = page.num_values();
    if levels.1 > 0 && values > REPEATED_VALUES && !matches!(page, Page::DictionaryPage { .. }) {
        return Err(wrong(format!("a page of {values} values in lists; the limit is {REPEATED_VALUES}")));
    }
    let (buffer, encoding, start) = match page {
        Page::DictionaryPage { buf, .. } if values as usize > buf.len() => {
            let bytes = buf.len();
            return Err(wrong(format!("a dictionary of {values} values in {bytes} bytes")));
        }
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
    let streams = match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
        Encoding::DELTA_BYTE_ARRAY => 2,
        _ => return Ok(()),
    };
    let mut data =
        start.and_then(|start| buffer.get(start..)).ok_or_else(|| wrong("a page without values"))?;
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
