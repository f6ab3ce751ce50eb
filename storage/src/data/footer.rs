//! The footer of a Parquet file: read, checked against the log and against limits before anything of it is used.

use std::sync::Arc;

use basalt_core::invariant::index;
use basalt_nested::parquet::{self as checked, check_footer};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::{
    digest::{self, Piece, Seen},
    read::catching,
};
use crate::{
    error::{Result, StorageError},
    limits::{CHUNK_BYTES, DATA_BYTES, FOOTER_BYTES},
    log::DataFile,
    places,
    store::Store,
};

/// Bytes at a file's end that are read first; most footers are shorter.
const FIRST_READ: u64 = 64 << 10;
/// The footer's length, and `PAR1`.
pub(super) const END: usize = 8;

/// The footer of a data file, as the log says it is.
pub(crate) async fn of_file(store: &Store, seen: &Seen, file: &DataFile) -> Result<Arc<ParquetMetaData>> {
    let path = places::data_file(store, file)?;
    let check =
        |footer: &[u8]| seen.check(file, Piece::Footer, footer).map_err(|why| format!("its footer: {why}"));
    let metadata = read(store, &path, Some(file.bytes()), check).await?;
    let counted = digest::check_count(file, &metadata);
    counted.map_err(|why| StorageError::corrupt(format!("{}/{path}", store.url()), why))?;
    Ok(metadata)
}

/// The footer of a file of the given size, where that is known. `check` says whether its bytes are what they should be.
pub(crate) async fn read(
    store: &Store,
    path: &str,
    size: Option<u64>,
    check: impl FnOnce(&[u8]) -> std::result::Result<(), String>,
) -> Result<Arc<ParquetMetaData>> {
    let place = || format!("{}/{path}", store.url());
    let (mut end, found) = store.get_end(path, FIRST_READ).await?;
    if let Some(size) = size.filter(|size| *size != found) {
        let why = format!("it has {found} bytes, and in the log {size}");
        return Err(StorageError::corrupt(place(), why));
    }
    if found > DATA_BYTES {
        return Err(StorageError::Limit {
            path: place(),
            what: "its size in bytes",
            found,
            limit: DATA_BYTES,
        });
    }
    let length = match end.last_chunk::<END>() {
        Some([l @ .., b'P', b'A', b'R', b'1']) => u64::from(u32::from_le_bytes(*l)),
        _ => return Err(StorageError::corrupt(place(), "it is no Parquet file")),
    };
    if length > FOOTER_BYTES {
        let what = "the size of its footer in bytes";
        return Err(StorageError::Limit { path: place(), what, found: length, limit: FOOTER_BYTES });
    }
    let whole = length + END as u64;
    if whole > found {
        return Err(StorageError::corrupt(place(), "its footer is longer than the file"));
    }
    if whole > end.len() as u64 {
        (end, _) = store.get_end(path, whole).await?;
    }
    // The file may be another one by now.
    let start = end.len().checked_sub(index(whole));
    let start = start.ok_or_else(|| StorageError::corrupt(place(), "it has become shorter"))?;
    check(&end[start..]).map_err(|why| StorageError::corrupt(place(), why))?;
    let thrift = end.slice(start..end.len() - END);
    check_footer(&thrift).map_err(|why| StorageError::corrupt(place(), why))?;
    let metadata = catching(store, place(), move || ParquetMetaDataReader::decode_metadata(&thrift)).await?;
    check_fit(&metadata, found).map_err(|why| StorageError::corrupt(place(), why))?;
    Ok(Arc::new(metadata))
}

/// Where the footer of a file of a size begins.
pub(crate) async fn start(store: &Store, path: &str, size: u64) -> Result<u64> {
    let (end, _) = store.get_end(path, END as u64).await?;
    let length = end.first_chunk().map(|length| u64::from(u32::from_le_bytes(*length)));
    let start = length.and_then(|length| size.checked_sub(length + END as u64));
    let place = || format!("{}/{path}", store.url());
    start.ok_or_else(|| StorageError::corrupt(place(), "its footer is longer than the file"))
}

/// That what the footer says fits the file, so that nothing is allocated for a lie.
fn check_fit(metadata: &ParquetMetaData, size: u64) -> std::result::Result<(), String> {
    checked::check_fit(metadata, size)?;
    let mut rows = 0i64;
    for group in metadata.row_groups() {
        rows = rows.checked_add(group.num_rows()).ok_or("its row groups have too many rows")?;
        for column in group.columns() {
            if u64::try_from(column.uncompressed_size()).is_ok_and(|bytes| bytes > CHUNK_BYTES) {
                let (path, bytes) = (column.column_path().string(), column.uncompressed_size());
                return Err(format!("column {path} has {bytes} bytes in a row group"));
            }
        }
    }
    if rows != metadata.file_metadata().num_rows() {
        return Err(format!(
            "{rows} rows in its row groups, and {} in all",
            metadata.file_metadata().num_rows()
        ));
    }
    Ok(())
}

/// The rows of a file whose entry in the log does not say it.
pub(crate) async fn count_rows(store: &Store, seen: &Seen, file: &DataFile) -> Result<u64> {
    let metadata = of_file(store, seen, file).await?;
    u64::try_from(metadata.file_metadata().num_rows()).map_err(|e| StorageError::corrupt(file.path(), e))
}
