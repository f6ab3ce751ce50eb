//! The rows of CSV and JSON files, as batches.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::RecordBatch;
use arrow_schema::{Field, SchemaRef};
use basalt_nested::csv::Record;

use super::{
    FileFormat, ahead, csv,
    json::{self, Keys},
    options::Options,
    source::InputFile,
};
use crate::cli::CliError;

/// The records of a file of texts.
pub(super) enum Records<'a> {
    Csv(csv::Records<'a>),
    Json(json::Records<'a>),
}

impl<'a> Records<'a> {
    /// To find the columns and their types.
    pub(super) fn to_infer(file: &'a InputFile, options: &Options) -> Result<Self, CliError> {
        Ok(match file.format {
            FileFormat::Json => Self::Json(json::Records::open(file, &[], Keys::Found)?),
            _ => Self::Csv(csv::Records::open(file, options, None)?),
        })
    }

    /// To read the columns of a schema.
    fn to_read(file: &'a InputFile, options: &Options, schema: &SchemaRef) -> Result<Self, CliError> {
        Ok(match file.format {
            FileFormat::Json => {
                let names: Vec<_> = schema.fields().iter().map(|f| f.name().clone()).collect();
                let keys = if options.columns.is_some() { Keys::Some } else { Keys::Known };
                Self::Json(json::Records::open(file, &names, keys)?)
            }
            _ => Self::Csv(csv::Records::open(file, options, Some(schema))?),
        })
    }

    /// The names of the columns; those of JSON grow from row to row where they are to be found.
    pub(super) fn columns(&self) -> &[String] {
        match self {
            Self::Csv(records) => records.columns(),
            Self::Json(records) => records.columns(),
        }
    }

    /// Bytes of the file that were read.
    pub(super) fn bytes_read(&self) -> u64 {
        match self {
            Self::Csv(records) => records.bytes_read(),
            Self::Json(records) => records.bytes_read(),
        }
    }

    /// The record that came last, of JSON.
    pub(super) fn last(&self) -> Option<&Record> {
        match self {
            Self::Csv(_) => None,
            Self::Json(records) => Some(records.last()),
        }
    }

    /// The next record; the inner error is of a bad row.
    pub(super) fn next(&mut self) -> Result<Option<Result<&Record, String>>, CliError> {
        match self {
            Self::Csv(records) => records.next(),
            Self::Json(records) => records.next(),
        }
    }
}

/// What is told of a load when it is over.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The bad rows that were left out.
    pub(crate) bad: Vec<String>,
    /// Columns, and how many of their times were cut to microseconds.
    pub(crate) cut: BTreeMap<String, u64>,
    /// Keys of JSON that were passed over.
    pub(crate) passed_over: BTreeSet<String>,
    /// That rows are too old for their table.
    pub(crate) expired: Option<String>,
}

impl Told {
    /// Counts times that were cut.
    pub(super) fn add_cut(&mut self, column: &str, times: u64) {
        if times > 0 {
            *self.cut.entry(column.to_owned()).or_default() += times;
        }
    }
}

/// Reads a file into batches of `schema` and hands them to `send`, with the bytes behind them, until it does
/// not want more. Bad rows are remembered, until they are too many.
pub(super) fn read(
    file: &InputFile,
    schema: &SchemaRef,
    options: &Options,
    max_bad: u64,
    told: &mut Told,
    send: &mut dyn FnMut(RecordBatch, u64) -> bool,
) -> Result<(), CliError> {
    let mut records = Records::to_read(file, options, schema)?;
    let places = places(file, records.columns(), schema, options)?;
    let remember = |bad: &mut Vec<String>, reason: String| {
        if bad.len() as u64 >= max_bad {
            return Err(CliError::Input(match max_bad {
                0 => reason,
                n => format!("more than {n} bad rows; the next is {reason}"),
            }));
        }
        bad.push(reason);
        Ok(())
    };
    ahead::each(&mut records, max_bad, |piece| {
        for (_, reason) in piece.bad.drain(..) {
            remember(&mut told.bad, reason)?;
        }
        piece.check()?;
        let chunk = &mut piece.chunk;
        let parsed = loop {
            match chunk.parse(schema, &places, options) {
                Ok(parsed) => break parsed.map_err(|e| file.error(e))?,
                Err(bad_cells) => {
                    for cell in &bad_cells {
                        let reason =
                            format!("{}:{}", file.name(), chunk.describe(cell, schema, &places, options));
                        remember(&mut told.bad, reason)?;
                    }
                    chunk.remove(&bad_cells);
                }
            }
        };
        for (field, times) in schema.fields().iter().zip(&parsed.cut) {
            told.add_cut(field.name(), *times);
        }
        let batch = parsed.batch;
        Ok(batch.num_rows() == 0 || send(batch, piece.bytes))
    })?;
    if let Records::Json(records) = &mut records {
        told.passed_over.append(records.passed_over());
    }
    Ok(())
}

/// Where in a record each column of the schema stands.
fn places(
    file: &InputFile,
    columns: &[String],
    schema: &SchemaRef,
    options: &Options,
) -> Result<Vec<usize>, CliError> {
    let has_names = options.has_header || file.format == FileFormat::Json || options.columns.is_some();
    if !has_names {
        return Ok((0..schema.fields().len()).collect());
    }
    let place = |field: &std::sync::Arc<Field>| {
        let place = columns.iter().position(|c| c == field.name());
        place.ok_or_else(|| file.error(format!("column {:?} is missing", field.name())))
    };
    schema.fields().iter().map(place).collect()
}
