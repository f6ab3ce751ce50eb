//! What a COPY says: which file, or that it is the client who sends or takes the rows, and in which format.

use datafusion::sql::sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopyTarget, Ident};

use crate::error::{Error, Result};

/// What a COPY reads or writes.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    File(CopyFile),
    /// STDIN or STDOUT: the client, through its connection.
    Client(CopyForm),
}

/// A file, as COPY names it.
#[derive(Clone, Debug)]
pub(crate) struct CopyFile {
    pub(crate) path: String,
    pub(super) format: Format,
}

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Format {
    Parquet,
    Csv { delimiter: u8, quote: u8, header: bool },
}

/// How rows travel between COPY and a client of PostgreSQL's protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyForm {
    /// See [`CopyFormat`].
    pub format: CopyFormat,
    /// What separates fields.
    pub delimiter: u8,
    /// What stands for null.
    pub null: String,
    /// What stands around a field of CSV that has one of the others in it.
    pub quote: u8,
    /// Whether the first line names the columns.
    pub header: bool,
}

/// The formats of PostgreSQL's COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// A line for each row, in which a backslash takes away the meaning of what follows.
    Text,
    /// As in RFC 4180.
    Csv,
    /// Values in their binary form. The rows that COPY reads are text by then.
    Binary,
}

/// What the options say, which stand in parentheses or, as before PostgreSQL 9, do not.
#[derive(Default)]
struct Said {
    format: Option<String>,
    delimiter: Option<u8>,
    null: Option<String>,
    quote: Option<u8>,
    escape: Option<u8>,
    header: Option<bool>,
}

impl Said {
    fn new(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<Self> {
        let mut said = Self::default();
        for option in options {
            match option {
                CopyOption::Format(name) => said.formatted(name),
                CopyOption::Delimiter(of) => said.delimiter = Some(byte(*of)?),
                CopyOption::Null(of) => said.null = Some(of.clone()),
                CopyOption::Quote(of) => said.quote = Some(byte(*of)?),
                CopyOption::Escape(of) => said.escape = Some(byte(*of)?),
                CopyOption::Header(of) => said.header = Some(*of),
                CopyOption::Encoding(of) if is_utf8(of) => {}
                other => return Err(Error::unsupported(format!("COPY with {other}"))),
            }
        }
        for option in legacy {
            match option {
                CopyLegacyOption::Binary => said.format = Some("binary".to_owned()),
                CopyLegacyOption::Delimiter(of) => said.delimiter = Some(byte(*of)?),
                CopyLegacyOption::Null(of) => said.null = Some(of.clone()),
                CopyLegacyOption::Header => said.header = Some(true),
                CopyLegacyOption::Csv(options) => {
                    said.format = Some("csv".to_owned());
                    for option in options {
                        match option {
                            CopyLegacyCsvOption::Header => said.header = Some(true),
                            CopyLegacyCsvOption::Quote(of) => said.quote = Some(byte(*of)?),
                            CopyLegacyCsvOption::Escape(of) => said.escape = Some(byte(*of)?),
                            other => return Err(Error::unsupported(format!("COPY with {other}"))),
                        }
                    }
                }
                other => return Err(Error::unsupported(format!("COPY with {other}"))),
            }
        }
        Ok(said)
    }

    fn formatted(&mut self, name: &Ident) {
        self.format = Some(name.value.to_ascii_lowercase());
    }

    /// Whether anything was said of how CSV is written.
    fn is_for_csv(&self) -> bool {
        self.delimiter.is_some() || self.quote.is_some() || self.header.is_some()
    }
}

fn byte(of: char) -> Result<u8> {
    let byte = u8::try_from(of).ok().filter(u8::is_ascii);
    byte.filter(|byte| !matches!(byte, b'\n' | b'\r'))
        .ok_or_else(|| Error::invalid(format!("{of:?} separates and quotes no fields")))
}

fn is_utf8(encoding: &str) -> bool {
    ["utf8", "utf-8", "unicode", "sql_ascii"].contains(&encoding.to_ascii_lowercase().as_str())
}

impl Target {
    /// By the target and the options of COPY. The format of a file is what is said, or what its name ends with; that of a
    /// client is what is said, or text.
    pub(crate) fn new(
        target: &CopyTarget,
        options: &[CopyOption],
        legacy: &[CopyLegacyOption],
    ) -> Result<Self> {
        match target {
            CopyTarget::File { filename } => {
                if let Some(option) = legacy.first() {
                    let what = format!("{option} (options stand in parentheses: (FORMAT csv))");
                    return Err(Error::unsupported(what));
                }
                Ok(Self::File(CopyFile::new(filename, &Said::new(options, legacy)?)?))
            }
            CopyTarget::Stdin | CopyTarget::Stdout => {
                Ok(Self::Client(CopyForm::new(Said::new(options, legacy)?)?))
            }
            CopyTarget::Program { .. } => Err(Error::unsupported(format!("COPY with {target}"))),
        }
    }
}

impl CopyFile {
    fn new(path: &str, said: &Said) -> Result<Self> {
        if said.null.is_some() || said.escape.is_some() {
            return Err(Error::unsupported("COPY of a file with NULL or ESCAPE"));
        }
        let end = path.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase());
        let format = match said.format.clone().or(end).as_deref() {
            Some("parquet") if said.is_for_csv() => return Err(Error::invalid("these options are for CSV")),
            Some("parquet") => Format::Parquet,
            // Defaults: those of a CSV that others read.
            Some("csv") => Format::Csv {
                delimiter: said.delimiter.unwrap_or(b','),
                quote: said.quote.unwrap_or(b'"'),
                header: said.header.unwrap_or(true),
            },
            _ => {
                return Err(Error::invalid(
                    "files of the server are parquet and csv: end the name so, or say (FORMAT parquet) or (FORMAT csv)",
                ));
            }
        };
        Ok(Self { path: path.to_owned(), format })
    }
}

impl CopyForm {
    fn new(said: Said) -> Result<Self> {
        let format = match said.format.as_deref() {
            None | Some("text") => CopyFormat::Text,
            Some("csv") => CopyFormat::Csv,
            Some("binary") => CopyFormat::Binary,
            Some(other) => {
                let what = format!("COPY format {other:?} (text, csv and binary are, of a client)");
                return Err(Error::unsupported(what));
            }
        };
        if format == CopyFormat::Binary && (said.is_for_csv() || said.null.is_some()) {
            return Err(Error::invalid("binary rows have no delimiter, header, quotes and text of null"));
        }
        if format != CopyFormat::Csv && (said.quote.is_some() || said.escape.is_some()) {
            return Err(Error::invalid("QUOTE and ESCAPE are for CSV"));
        }
        // Default: the quote of most.
        let quote = said.quote.unwrap_or(b'"');
        if said.escape.is_some_and(|escape| escape != quote) {
            return Err(Error::unsupported("COPY with an ESCAPE that is not QUOTE"));
        }
        let is_csv = format == CopyFormat::Csv;
        // Defaults: those of PostgreSQL.
        let delimiter = said.delimiter.unwrap_or(if is_csv { b',' } else { b'\t' });
        let null = said.null.unwrap_or_else(|| if is_csv { "" } else { "\\N" }.to_owned());
        if null.contains(['\n', '\r'])
            || null.bytes().any(|byte| byte == delimiter || (is_csv && byte == quote))
        {
            return Err(Error::invalid("the text of NULL has a delimiter, a quote or a line's end"));
        }
        if delimiter == quote && is_csv {
            return Err(Error::invalid("DELIMITER and QUOTE are the same"));
        }
        let is_no_delimiter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'\\' | b'.');
        if !is_csv && is_no_delimiter(delimiter) {
            return Err(Error::invalid(format!("{:?} is no DELIMITER of text", char::from(delimiter))));
        }
        // Default: PostgreSQL's.
        Ok(Self { format, delimiter, null, quote, header: said.header.unwrap_or(false) })
    }
}
