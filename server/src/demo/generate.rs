//! `basalt generate`: a benchmark's tables as Parquet files, for `basalt load` and for other engines.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::PathBuf,
    sync::Arc,
};

use basalt_client::cli::{human, style::Style};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};
use tokio::task;

use super::{Data, Error, load, scale, tpch::Table};

/// What `basalt generate` can be told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GenerateArgs {
    /// The benchmark
    #[arg(value_enum)]
    data: Data,

    /// The folder that takes a file for each table; it is made if it is missing
    folder: PathBuf,

    /// Size of the data: 1 is 1 GB of TPC-H as text
    #[arg(long, value_name = "FACTOR", default_value_t = 0.1, value_parser = scale)]
    scale: f64,
}

/// Writes the files.
///
/// # Errors
/// A folder or a file that cannot be written.
pub(crate) async fn run(args: GenerateArgs) -> Result<(), Error> {
    let (mut out, style) = (io::stdout(), Style::of(&io::stdout()));
    fs::create_dir_all(&args.folder)?;
    for table in load::tables(args.data, args.scale).await? {
        let path = args.folder.join(format!("{}.parquet", table.name));
        let file = File::create(&path)?;
        let rows = task::spawn_blocking(move || write(table, file)).await??;
        writeln!(out, "{} {}", path.display(), style.dim(&human::plural(rows, "row")))?;
    }
    Ok(())
}

fn write(table: Table, file: File) -> Result<u64, Error> {
    let progress = load::bar(&table);
    let level = ZstdLevel::try_new(1)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let mut writer = ArrowWriter::try_new(file, Arc::clone(&table.schema), Some(properties))?;
    let mut rows = 0;
    for batch in table.batches {
        // The table's schema says what columns refer to.
        let batch = batch?.with_schema(Arc::clone(&table.schema))?;
        rows += batch.num_rows() as u64;
        writer.write(&batch)?;
        progress.set_position(rows);
    }
    writer.close()?;
    progress.finish_and_clear();
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use basalt_client::convert::REFERENCES_KEY;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    #[tokio::test]
    async fn files_say_what_columns_refer_to() {
        let folder = tempfile::tempdir().unwrap();
        let args = GenerateArgs { data: Data::Ssb, folder: folder.path().join("new"), scale: 0.001 };
        run(args).await.unwrap();
        let file = File::open(folder.path().join("new/lineorder.parquet")).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let field = reader.schema().field_with_name("lo_orderdate").unwrap();
        assert_eq!(field.metadata()[REFERENCES_KEY], "date.d_datekey");
        assert_eq!(reader.metadata().file_metadata().num_rows(), 6005);
    }
}
