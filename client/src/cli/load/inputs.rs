//! Which files a command names: files, folders, patterns and standard input.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    FileFormat, LoadArgs,
    source::{InputFile, file_error},
};
use crate::cli::CliError;

/// Files of one load.
const MAX_FILES: usize = 10_000;
/// How deep folders are searched.
const MAX_DEPTH: usize = 16;
/// Standard input.
const STDIN: &str = "-";

/// The files of a command, all of them there, and what of its folders is no file to load.
pub(crate) fn open_all(args: &LoadArgs) -> Result<(Vec<InputFile>, Vec<String>), CliError> {
    let (mut found, mut notes) = (Found::new(args.format), Vec::new());
    for path in &args.files {
        if path == Path::new(STDIN) {
            let file = spool(args.format)?;
            found.files.push(file);
        } else if path.is_dir() {
            let before = found.files.len();
            found.folder(path, 0)?;
            if found.files.len() == before {
                let message = "the folder has no CSV, JSON, Parquet or Arrow files";
                return Err(CliError::input(format!("{}: {message}", path.display())));
            }
        } else if !path.exists() && path.to_str().is_some_and(|text| text.contains(['*', '?', '['])) {
            found.pattern(path)?;
        } else {
            found.file(path)?;
        }
    }
    if found.passed_over > 0 {
        notes.push(format!("files passed over, whose extensions name no format: {}", found.passed_over));
    }
    Ok((found.files, notes))
}

struct Found {
    format: Option<FileFormat>,
    files: Vec<InputFile>,
    /// Files of folders that are of no format.
    passed_over: usize,
}

impl Found {
    fn new(format: Option<FileFormat>) -> Self {
        Self { format, files: Vec::new(), passed_over: 0 }
    }

    fn file(&mut self, path: &Path) -> Result<(), CliError> {
        let error = |message: &str| CliError::input(format!("{}: {message}", path.display()));
        let (by_name, is_compressed) = format_of(path);
        let format = self.format.or(by_name).ok_or_else(|| match path.exists() {
            true => error("the extension names no format; use --format csv, json, parquet or arrow"),
            false => error("there is no such file or folder"),
        })?;
        if is_compressed && matches!(format, FileFormat::Parquet | FileFormat::Arrow) {
            return Err(error("only CSV and JSON files may be compressed as a whole"));
        }
        if self.files.len() >= MAX_FILES {
            return Err(error(&format!("more than {MAX_FILES} files")));
        }
        self.files.push(InputFile::new(path, format)?);
        Ok(())
    }

    /// The files of a folder and of those below it, by their names; hidden ones are passed over, and those that begin
    /// with `_`, as other programs mark what is no data.
    fn folder(&mut self, folder: &Path, depth: usize) -> Result<(), CliError> {
        let error = |message: &str| CliError::input(format!("{}: {message}", folder.display()));
        if depth > MAX_DEPTH {
            return Err(error(&format!("folders nest deeper than {MAX_DEPTH} levels")));
        }
        if folder.join("_delta_log").is_dir() {
            return Err(error("it is a Delta table, which is attached, or loaded file by file"));
        }
        let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
            .and_then(|entries| entries.map(|entry| entry.map(|e| e.path())).collect::<io::Result<_>>())
            .map_err(|source| file_error(folder, source))?;
        paths.sort();
        for path in paths {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with(['.', '_']) {
                continue;
            }
            if path.is_dir() {
                if name.contains('=') {
                    return Err(error(&format!(
                        "{name:?} is the value of a column that the files below do not have; load its files by a pattern"
                    )));
                }
                self.folder(&path, depth + 1)?;
            } else if format_of(&path).0.is_some_and(|format| self.format.is_none_or(|f| f == format)) {
                self.file(&path)?;
            } else {
                self.passed_over += 1;
            }
        }
        Ok(())
    }

    /// The files of a pattern, by their names.
    fn pattern(&mut self, pattern: &Path) -> Result<(), CliError> {
        let error = |message: String| CliError::input(format!("{}: {message}", pattern.display()));
        let text = pattern.to_str().ok_or_else(|| error("it is not UTF-8".to_owned()))?;
        let options = glob::MatchOptions { require_literal_leading_dot: true, ..Default::default() };
        let paths = glob::glob_with(text, options).map_err(|e| error(e.to_string()))?;
        let mut has_any = false;
        for path in paths {
            let path = path.map_err(|e| error(e.to_string()))?;
            if path.is_file() {
                self.file(&path)?;
                has_any = true;
            }
        }
        if has_any { Ok(()) } else { Err(error("no file has a name like that".to_owned())) }
    }
}

/// Standard input, in a file: types are found and rows are sent in two passes, and a write may be tried again.
fn spool(format: Option<FileFormat>) -> Result<InputFile, CliError> {
    let format =
        format.ok_or_else(|| CliError::input("standard input has no extension: use --format".to_owned()))?;
    let error = |source| file_error(Path::new("standard input"), source);
    let mut file = tempfile::NamedTempFile::new().map_err(error)?;
    io::copy(&mut io::stdin().lock(), file.as_file_mut()).map_err(error)?;
    let path = file.into_temp_path();
    let input = InputFile::new(&path, format)?;
    Ok(InputFile { spooled: Some(Arc::new(path)), ..input })
}

/// A file's format by its extension, and whether it is compressed as a whole.
fn format_of(path: &Path) -> (Option<FileFormat>, bool) {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let plain = [".gz", ".zst"].into_iter().find_map(|end| name.strip_suffix(end));
    let extension = Path::new(plain.unwrap_or(&name)).extension().and_then(|e| e.to_str());
    let format = extension.and_then(|extension| {
        Some(match extension {
            "csv" | "tsv" => FileFormat::Csv,
            "json" | "ndjson" | "jsonl" => FileFormat::Json,
            "parquet" | "pq" => FileFormat::Parquet,
            "arrow" | "arrows" | "ipc" | "feather" => FileFormat::Arrow,
            _ => return None,
        })
    });
    (format, plain.is_some())
}
