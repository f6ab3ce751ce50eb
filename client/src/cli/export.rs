//! Answers as files, in the format of their extensions.

use std::{
    fs::{File, Permissions},
    io::{self, BufWriter},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, SchemaRef};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::properties::WriterProperties,
};
use tempfile::NamedTempFile;

use super::{
    CliError,
    output::{CsvWriter, JsonWriter},
};

/// What the extension of a file may say.
pub(crate) const EXTENSIONS: &str = ".csv, .json, .parquet or .arrow";

/// A format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Csv,
    Json,
    Parquet,
    Arrow,
}

/// The format that a file's name says. It is an error before anything runs where it says none.
fn kind(path: &Path) -> Result<FileKind, CliError> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "csv" => Ok(FileKind::Csv),
        "json" => Ok(FileKind::Json),
        "parquet" => Ok(FileKind::Parquet),
        "arrow" | "feather" => Ok(FileKind::Arrow),
        _ => Err(CliError::input(format!("{}: the name of an output ends in {EXTENSIONS}", path.display()))),
    }
}

/// A file that an answer is to be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) path: PathBuf,
    pub(crate) kind: FileKind,
}

impl Destination {
    /// In the format that the file's name says.
    pub(crate) fn of(path: &Path) -> Result<Self, CliError> {
        Ok(Self { path: path.to_owned(), kind: kind(path)? })
    }
}

/// A file that is written beside its place, and takes it when it is complete: a failed statement leaves no half of one, and
/// the file that was there.
pub(crate) struct Export {
    path: PathBuf,
    writer: Writer,
    file: NamedTempFile,
}

enum Writer {
    Csv(CsvWriter<BufWriter<File>>),
    Json(JsonWriter<BufWriter<File>>),
    Parquet(Box<ArrowWriter<File>>),
    Arrow(Box<FileWriter<BufWriter<File>>>),
}

impl Export {
    pub(crate) fn create(
        Destination { path, kind }: &Destination,
        schema: &SchemaRef,
    ) -> Result<Self, CliError> {
        let error = |source| CliError::File { path: path.display().to_string(), source };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        // As other new files: what the user's mask leaves of this.
        let mut builder = tempfile::Builder::new();
        builder.prefix(&name).permissions(Permissions::from_mode(0o666));
        let file = builder.tempfile_in(folder).map_err(error)?;
        let out = file.as_file().try_clone().map_err(error)?;
        let writer = match kind {
            FileKind::Csv => CsvWriter::new(BufWriter::new(out), schema).map(Writer::Csv),
            FileKind::Json => JsonWriter::new(BufWriter::new(out), schema).map(Writer::Json),
            FileKind::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .build();
                let writer = ArrowWriter::try_new(out, SchemaRef::clone(schema), Some(properties));
                writer.map(|writer| Writer::Parquet(Box::new(writer))).map_err(of_parquet)
            }
            FileKind::Arrow => {
                let writer = FileWriter::try_new(BufWriter::new(out), schema);
                writer.map(|writer| Writer::Arrow(Box::new(writer))).map_err(of_arrow)
            }
        };
        Ok(Self { path: path.clone(), writer: writer.map_err(error)?, file })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        match &mut self.writer {
            Writer::Csv(writer) => writer.write(batch),
            Writer::Json(writer) => writer.write(batch),
            Writer::Parquet(writer) => writer.write(batch).map_err(of_parquet),
            Writer::Arrow(writer) => writer.write(batch).map_err(of_arrow),
        }
    }

    /// Gives the file its name; how large it is.
    pub(crate) fn finish(self) -> Result<u64, CliError> {
        let Self { path, writer, file } = self;
        let finished = match writer {
            Writer::Csv(writer) => writer.finish(),
            Writer::Json(writer) => writer.finish(),
            Writer::Parquet(writer) => writer.close().map(drop).map_err(of_parquet),
            Writer::Arrow(mut writer) => writer.finish().map_err(of_arrow),
        };
        let persisted = finished.and_then(|()| {
            let bytes = file.as_file().metadata()?.len();
            file.persist(&path).map(|_| bytes).map_err(|error| error.error)
        });
        persisted.map_err(|source| CliError::File { path: path.display().to_string(), source })
    }
}

fn of_parquet(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

fn of_arrow(error: ArrowError) -> io::Error {
    io::Error::other(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array, StringArray};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    fn batch() -> RecordBatch {
        let columns: [(&str, ArrayRef); 2] = [
            ("n", Arc::new(Int32Array::from(vec![Some(1), None]))),
            ("text", Arc::new(StringArray::from(vec!["a", "b,c"]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn export(path: &Path) -> Result<u64, CliError> {
        let batch = batch();
        let mut export = Export::create(&Destination::of(path)?, &batch.schema())?;
        export.write(&batch).unwrap();
        export.finish()
    }

    #[test]
    fn files_are_of_the_format_that_their_names_say() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.csv", "a.json", "a.parquet", "a.ARROW"] {
            let path = folder.path().join(name);
            let bytes = export(&path).unwrap();
            assert_eq!(bytes, std::fs::metadata(&path).unwrap().len(), "{name}");
        }
        assert_eq!(std::fs::read_to_string(folder.path().join("a.csv")).unwrap(), "n,text\n1,a\n,\"b,c\"\n");
        let file = File::open(folder.path().join("a.parquet")).unwrap();
        let read: Vec<_> = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().collect();
        assert_eq!(read[0].as_ref().unwrap(), &batch());
        let file = File::open(folder.path().join("a.ARROW")).unwrap();
        let mut read = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
        assert_eq!(read.next().unwrap().unwrap(), batch());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
        let error = export(&folder.path().join("a.txt")).unwrap_err().to_string();
        assert!(
            error.ends_with("a.txt: the name of an output ends in .csv, .json, .parquet or .arrow"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_is_not_finished_leaves_the_one_that_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "before").unwrap();
        let mut unfinished = Export::create(&Destination::of(&path).unwrap(), &batch().schema()).unwrap();
        unfinished.write(&batch()).unwrap();
        drop(unfinished);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let nowhere = Destination::of(&folder.path().join("none/a.csv")).unwrap();
        assert!(Export::create(&nowhere, &batch().schema()).is_err());
    }
}
