//! Rows as clients send them, in every format, and columns that a file of the cache has.

use std::{env, fs, process, sync::Arc};

use basalt_core::{fragment::Column, schema::DataType, table::Appender};
use basalt_proto::v1::{self as pb, batch::Rows};
use prost::{Message as _, bytes::Bytes};
use twox_hash::XxHash3_64;

use super::TABLES;
use crate::{
    convert::BatchReader,
    disk::file::Opened,
    http::read::{Decoder, Start, columns},
    status::Result,
};

/// A batch of a write: as columns, or as an Arrow stream.
pub(super) fn batch(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let rows = match kind & 1 {
        0 => match pb::Batch::decode(data) {
            Ok(batch) => batch.rows,
            Err(_) => return,
        },
        _ => Some(Rows::ArrowIpc(Bytes::copy_from_slice(data))),
    };
    let schema = TABLES.all.schema();
    let fields = match kind >> 1 {
        0 => schema.fields().iter().collect(),
        one => vec![&schema.fields()[usize::from(one) % schema.fields().len()]],
    };
    let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
    let Ok(batches) = BatchReader::new(fields).read(rows) else { return };
    let mut appender = Appender::new(Arc::clone(&TABLES.all), &names).expect("a write of these columns");
    for batch in &batches {
        if appender.push(batch).is_err() {
            return;
        }
    }
    appender.finish().expect("rows that were checked are encoded");
}

/// All rows of a body that comes in pieces of so many bytes: how many they are.
fn decoded(media_type: &str, body: &[u8], piece: usize) -> Result<usize> {
    let mut decoder = Decoder::new(media_type, TABLES.all.schema())?.with_nulls(vec!["NA".to_owned()]);
    let mut rows = 0;
    let mut take = |decoder: &mut Decoder| -> Result<()> {
        while let Some(batch) = decoder.next()? {
            rows += batch.num_rows();
            let columns = decoder.columns().cloned().unwrap_or_default();
            let Ok(appender) = Appender::new(Arc::clone(&TABLES.all), &columns) else { continue };
            let reader = BatchReader::new(appender.batch_fields());
            let Ok(pieces) = reader.pieces(&batch, 1) else { continue };
            for piece in pieces {
                if let Ok(fitted) = reader.fit(&piece, 1) {
                    drop(appender.check_from(&fitted, 1));
                }
            }
        }
        Ok(())
    };
    for bytes in body.chunks(piece.max(1)) {
        decoder.push(bytes)?;
        take(&mut decoder)?;
    }
    decoder.finish()?;
    take(&mut decoder)?;
    Ok(rows)
}

/// The same rows come of a body at once and in pieces, and of a start that tells their columns.
fn body(media_type: &str, data: &[u8]) {
    let Some((piece, body)) = data.split_first() else { return };
    let (whole, pieces) =
        (decoded(media_type, body, body.len()), decoded(media_type, body, usize::from(*piece)));
    assert_eq!(whole.as_ref().ok(), pieces.as_ref().ok(), "{whole:?}, {pieces:?}");
    let nulls = ["NA".to_owned()];
    for is_all in [true, false] {
        drop(columns(media_type, &Start { bytes: body.to_vec(), is_all }, &nulls));
    }
}

pub(super) fn csv(data: &[u8]) {
    body("text/csv", data);
}

pub(super) fn json(data: &[u8]) {
    body("application/x-ndjson", data);
}

pub(super) fn arrow(data: &[u8]) {
    body("application/vnd.apache.arrow.stream", data);
}

/// A Parquet file without what all of them have around them: its last two bytes say how many before them are the footer.
pub(super) fn parquet(data: &[u8]) {
    let Some((rest, length)) = data.split_last_chunk::<2>() else { return };
    let length = u32::from(u16::from_le_bytes(*length));
    let file = [b"PAR1", rest, &length.to_le_bytes(), b"PAR1"].concat();
    const TYPE: &str = "application/vnd.apache.parquet";
    drop(decoded(TYPE, &file, file.len()));
    drop(columns(TYPE, &Start { bytes: file, is_all: true }, &[]));
}

/// The rows of the file of [`cache_file`], and whose they are.
pub(super) const CACHE_ROWS: u32 = 40;
pub(super) const CACHE_KEY: &str = "key";

/// A file of the cache; its length and its hashes are put right where the first byte is odd.
pub(super) fn cache_file(data: &[u8]) {
    let Some((flags, data)) = data.split_first() else { return };
    let mut file = data.to_vec();
    if flags & 1 == 1 {
        put_right(&mut file);
    }
    let path = env::temp_dir().join(format!("basalt-fuzz-{}", process::id()));
    fs::write(&path, &file).expect("a file of the cache");
    if let Ok(opened) = Opened::open(&path, CACHE_KEY, CACHE_ROWS) {
        for entry in opened.entries() {
            let Ok(parts) = opened.read(entry) else { continue };
            for data_type in [DataType::Int64, DataType::Utf8] {
                drop(Column::from_parts(parts.clone(), data_type, CACHE_ROWS as usize));
            }
        }
    }
    drop(fs::remove_file(path));
}

/// The form is in `disk/file.rs`.
fn put_right(file: &mut [u8]) {
    const HEAD: usize = 48;
    const ENTRY: usize = 64;
    if file.len() < HEAD {
        return;
    }
    let length = file.len() as u64;
    file[32..40].copy_from_slice(&length.to_le_bytes());
    let number = |file: &[u8], at: usize| {
        let bytes = file.get(at..at + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        bytes.and_then(|bytes| usize::try_from(u64::from_le_bytes(bytes)).ok()).unwrap_or(usize::MAX)
    };
    let columns = usize::from(u16::from_le_bytes([file[20], file[21]])).min(16);
    let start = HEAD + CACHE_KEY.len().next_multiple_of(8);
    for at in (0..columns).map(|column| start + column * ENTRY) {
        let mut from = number(file, at + 8);
        for section in 0..3 {
            let length = number(file, at + 16 + 8 * section);
            let Some(end) = from.checked_add(length) else { break };
            let hash = file.get(from..end).map(XxHash3_64::oneshot);
            if let (Some(hash), Some(place)) =
                (hash, file.get_mut(at + 40 + 8 * section..at + 48 + 8 * section))
            {
                place.copy_from_slice(&hash.to_le_bytes());
            }
            let Some(next) = end.checked_next_multiple_of(64) else { break };
            from = next;
        }
    }
    let end = (start + columns * ENTRY).min(file.len());
    file[40..48].fill(0);
    let hash = XxHash3_64::oneshot(&file[..end]);
    file[40..48].copy_from_slice(&hash.to_le_bytes());
}
