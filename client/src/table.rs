//! Tables as the server describes them, and what new ones are to have.

use std::time::Duration;

use arrow_schema::{Field, SchemaRef};
use basalt_proto::v1;

use crate::{
    convert::{field_from_proto, schema_from_proto},
    error::{Error, Result},
    expr::Literal,
    mirror::{all, mirror},
};

mirror! {
    /// Which encoding holds how much of a column.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    EncodingUse {
        /// As held, outermost first: `packed`, `dictionary(bitcompress)`.
        encoding: String,
        /// Fragments that it holds.
        fragments: u64,
        /// Their rows.
        rows: u64,
        /// Their bytes.
        bytes: u64,
    }

    /// What an encoding would make of a column's values.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    EncodingEstimate {
        /// Outermost: `dictionary` says nothing of what holds its codes.
        encoding: String,
        /// Fragments that it can hold.
        fragments: u64,
        /// What it would take for them, indexes, tables and headers counted.
        bytes: u64,
        /// Whether `bytes` is exact, or an estimate.
        exact: bool,
    }
}

/// A table and its sizes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub schema: SchemaRef,
    /// The number of its newest commit.
    pub version: u64,
    /// Rows.
    pub rows: u64,
    /// Fragments of at most 2^20 rows.
    pub fragments: u64,
    /// Bytes held in memory, everything counted.
    pub bytes: u64,
    /// For how long its rows are part of it; `None`: for good.
    pub retention: Option<Retention>,
    /// What deletions leave in its files; `None`: it is in memory alone.
    pub deletes: Option<Deletes>,
}

/// What deletions, and writes that replace rows, leave in the files of a durable table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Deletes {
    /// Deletion vectors beside the files: the least to write, and unknown to some readers of Delta
    #[default]
    Vectors,
    /// The files are written again without the rows, so that every reader of Delta reads the table
    Rewrite,
}

/// What a new table is to have.
///
/// ```
/// use std::time::Duration;
///
/// use basalt_client::{Optimize, Retention, TableOptions};
///
/// let week = Retention::new("at", Duration::from_secs(7 * 86_400));
/// let options = TableOptions::new().retention(week).optimize(Optimize::Speed);
/// assert_eq!(options.retention.map(|retention| retention.column).as_deref(), Some("at"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableOptions {
    /// For how long its rows are part of it; `None`: for good.
    pub retention: Option<Retention>,
    /// What deletions leave in its files; `None`: as the server does it, vectors.
    pub deletes: Option<Deletes>,
    /// What its columns are optimized for that do not say so themselves, see [`crate::convert::OPTIMIZE_KEY`]; `None`:
    /// as the server does it, balanced.
    pub optimize: Option<Optimize>,
}

impl TableOptions {
    /// Those of any table.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a [`retention`](Self::retention).
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = Some(retention);
        self
    }

    /// With [`deletes`](Self::deletes).
    #[must_use]
    pub fn deletes(mut self, deletes: Deletes) -> Self {
        self.deletes = Some(deletes);
        self
    }

    /// With [`optimize`](Self::optimize).
    #[must_use]
    pub fn optimize(mut self, optimize: Optimize) -> Self {
        self.optimize = Some(optimize);
        self
    }
}

/// What the encodings of columns are chosen for. It changes bytes and speed, never an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Optimize {
    /// The fewest bytes, whatever they cost to read
    Size,
    /// Within three percent of the fewest bytes, such columns together, spent where it saves the most time
    #[default]
    Balanced,
    /// The fastest of what takes at most twice the fewest bytes
    Speed,
}

/// A table that there is and that the server cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedTable {
    /// Its name.
    pub name: String,
    /// Why, with the file.
    pub message: String,
}

/// What reading all files of a table has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Data files.
    pub files: u64,
    /// Bytes of them and of their deletion vectors.
    pub bytes: u64,
    /// What is not as it was written.
    pub damage: Vec<Damage>,
}

/// A part of a table's files that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The file, with the store's address.
    pub file: String,
    /// The column; `None` when it is not one alone.
    pub column: Option<String>,
    /// What is wrong.
    pub message: String,
}

/// For how long rows are part of a table: older ones are not read any more, and freed some time later. Rows without a
/// time are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// A timestamp, or a date, whose days end at midnight UTC.
    pub column: String,
    /// In whole seconds.
    pub keep: Duration,
}

impl Retention {
    /// By a column, for a time.
    pub fn new(column: impl Into<String>, keep: Duration) -> Self {
        Self { column: column.into(), keep }
    }
}

/// A table with all that is known of its columns.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TableDetails {
    /// The table.
    pub table: Table,
    /// Its columns, in the schema's order.
    pub columns: Vec<ColumnInfo>,
}

/// How one column is held.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ColumnInfo {
    /// Name and type.
    pub field: Field,
    /// Rows.
    pub rows: u64,
    /// Rows without a value.
    pub nulls: u64,
    /// Bytes held, with validity, indexes, tables and headers.
    pub bytes: u64,
    /// Bytes that plain Arrow arrays would take.
    pub plain_bytes: u64,
    /// The encodings that hold the column's fragments.
    pub encodings: Vec<EncodingUse>,
    /// Order-0 entropy of the values in bits a row; only where the full view was asked for.
    pub entropy_bits: Option<f64>,
    /// The smallest value.
    pub min: Option<Literal>,
    /// The largest value.
    pub max: Option<Literal>,
    /// Each encoding's size estimate for the values; only where the full view was asked for.
    pub estimates: Vec<EncodingEstimate>,
    /// How often queries have read the column lately, of the fragment of which they have read it most: halved every ten
    /// minutes; only where the full view was asked for.
    pub heat: f64,
    /// The faster forms that are held beside the encodings, as long as memory has room; only where the full view was asked
    /// for. [`ColumnInfo::bytes`] does not count them.
    pub faster: Vec<EncodingUse>,
}

pub(crate) fn table_from_proto(table: Option<v1::Table>) -> Result<Table> {
    let missing = |what: &str| Error::Malformed(format!("a table without its {what}"));
    let table = table.ok_or_else(|| missing("description"))?;
    let schema = schema_from_proto(table.schema.as_ref().ok_or_else(|| missing("schema"))?)?;
    let deletes = match table.deletes() {
        v1::Deletes::Unspecified => None,
        v1::Deletes::Vectors => Some(Deletes::Vectors),
        v1::Deletes::Rewrite => Some(Deletes::Rewrite),
    };
    let v1::Table { name, version, rows, fragments, bytes, retention, .. } = table;
    let retention = retention.map(|v1::Retention { column, seconds }| {
        let keep = Duration::from_secs(seconds);
        Retention { column, keep }
    });
    Ok(Table { name, schema, version, rows, fragments, bytes, retention, deletes })
}

pub(crate) fn optimize_to_proto(optimize: Optimize) -> v1::Optimize {
    match optimize {
        Optimize::Size => v1::Optimize::Size,
        Optimize::Balanced => v1::Optimize::Balanced,
        Optimize::Speed => v1::Optimize::Speed,
    }
}

pub(crate) fn deletes_to_proto(deletes: Deletes) -> v1::Deletes {
    match deletes {
        Deletes::Vectors => v1::Deletes::Vectors,
        Deletes::Rewrite => v1::Deletes::Rewrite,
    }
}

pub(crate) fn retention_to_proto(retention: &Retention) -> v1::Retention {
    v1::Retention { column: retention.column.clone(), seconds: retention.keep.as_secs() }
}

pub(crate) fn column_from_proto(column: v1::ColumnInfo) -> Result<ColumnInfo> {
    let field =
        column.field.as_ref().ok_or_else(|| Error::Malformed("a column without its field".to_owned()))?;
    let literal = |value: Option<v1::Value>| value.map(Literal::from).filter(|l| l.kind().is_some());
    Ok(ColumnInfo {
        field: field_from_proto(field)?,
        rows: column.rows,
        nulls: column.nulls,
        bytes: column.bytes,
        plain_bytes: column.plain_bytes,
        encodings: all(column.encodings),
        entropy_bits: column.entropy_bits,
        min: literal(column.min),
        max: literal(column.max),
        estimates: all(column.estimates),
        heat: column.heat,
        faster: all(column.faster),
    })
}
