//! That what a footer says of its columns is in the file.

use parquet::file::metadata::ParquetMetaData;

/// That the columns of a file of so many bytes are within it, and are together no longer than it: whoever reads all of them
/// reads no byte more often than a file of honest columns has it read.
///
/// # Errors
/// What is wrong with the footer.
pub fn check_fit(metadata: &ParquetMetaData, size: u64) -> Result<(), String> {
    let mut all = 0_u64;
    for group in metadata.row_groups() {
        if group.num_rows() < 0 {
            return Err("a row group has less than no rows".to_owned());
        }
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
            let (start, length) = (u64::try_from(start), u64::try_from(column.compressed_size()));
            let within = start.ok().zip(length.ok()).and_then(|(start, length)| {
                let end = start.checked_add(length)?;
                (end <= size).then_some(length)
            });
            let Some(length) = within else {
                return Err(format!("column {} is not within the file", column.column_path().string()));
            };
            all = all.saturating_add(length);
            if all > size {
                return Err("its columns are together longer than the file".to_owned());
            }
        }
    }
    Ok(())
}
