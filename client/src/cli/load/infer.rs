//! The types of the columns of CSV and JSON files, from all of their rows.

use std::collections::BTreeMap;

use arrow_schema::{DataType, Field};
use basalt_nested::guess::{Guess, Rules};

use super::{
    FileFormat, ahead,
    chunk::Chunk,
    options::Options,
    rows::Records,
    source::{InputFile, Progress},
};
use crate::{
    cli::{CliError, human},
    text::parse_time_of_day,
    types::{timestamp_type, type_name},
};

/// Rows between two reports of the progress.
const ROWS_A_REPORT: u64 = 4096;

/// The columns that are found in some files.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) fields: Vec<Field>,
    /// Columns that nobody wants.
    pub(super) left_out: Vec<String>,
    /// Why a column is text whose values were nearly all something else.
    pub(super) notes: Vec<String>,
    /// They have no rows: of their columns nothing is known but the names.
    pub(super) is_empty: bool,
}

/// The columns that fit every row of every file: those of a CSV are in every other, a key of JSON may be missing.
pub(super) fn columns(
    files: &[&InputFile],
    options: &Options,
    max_bad: u64,
    progress: &Progress,
) -> Result<Found, CliError> {
    let (mut all, mut found) = (Columns::default(), Found::default());
    // The columns of the CSVs.
    let mut expected: Option<Vec<String>> = None;
    let (mut bytes_before, mut bad) = (0, 0);
    for file in files {
        // Rows of this file.
        let mut seen = 0_u64;
        let mut rows = Records::to_infer(file, options)?;
        if file.format != FileFormat::Json {
            let names = rows.columns();
            match &expected {
                None => expected = Some(names.to_vec()),
                Some(expected) => {
                    let has_same =
                        names.len() == expected.len() && names.iter().all(|name| expected.contains(name));
                    if !has_same {
                        return Err(file.error(format!("its columns are not {}", expected.join(", "))));
                    }
                }
            }
            let places: Vec<usize> = names.iter().map(|name| all.place(name, options)).collect();
            ahead::each(&mut rows, max_bad, |piece| {
                for (_, reason) in &piece.bad {
                    bad += 1;
                    if bad > max_bad {
                        return Err(CliError::Input(reason.clone()));
                    }
                }
                piece.check()?;
                for mistake in all.see(&piece.chunk, &places, options) {
                    let bad_before = piece.bad.iter().filter(|(rows, _)| *rows <= mistake.row).count();
                    let row = seen + (mistake.row + bad_before + 1) as u64;
                    let cell = piece.chunk.cell(mistake.row, mistake.column);
                    let name = &all.names[places[mistake.column]];
                    found.notes.push(is_text(name, cell, row, file, mistake.values, &mistake.was));
                }
                seen += (piece.chunk.rows() + piece.bad.len()) as u64;
                progress(bytes_before + piece.bytes.min(file.bytes))?;
                Ok(true)
            })?;
            bytes_before += file.bytes;
            continue;
        }
        let mut places: Vec<usize> = rows.columns().iter().map(|name| all.place(name, options)).collect();
        loop {
            let fields = match rows.next()? {
                None => break,
                Some(Ok(record)) => {
                    all.rows += 1;
                    for (&place, (cell, kind)) in places.iter().zip(record.fields().zip(record.kinds())) {
                        if let Some((values, was)) = all.guesses[place].see(cell, kind, options) {
                            let name = &all.names[place];
                            found.notes.push(is_text(name, cell, seen + 1, file, values, &was));
                        }
                    }
                    record.len()
                }
                Some(Err(reason)) => {
                    bad += 1;
                    if bad > max_bad {
                        return Err(CliError::Input(reason));
                    }
                    0
                }
            };
            if fields > places.len() {
                // Keys that no row had before: their cells are seen now.
                let new: Vec<usize> =
                    rows.columns()[places.len()..].iter().map(|name| all.place(name, options)).collect();
                if let Some(record) = rows.last() {
                    let cells = record.fields().zip(record.kinds()).skip(places.len());
                    for (&place, (cell, kind)) in new.iter().zip(cells) {
                        all.guesses[place].see(cell, kind, options);
                    }
                }
                places.extend(new);
            }
            seen += 1;
            if seen.is_multiple_of(ROWS_A_REPORT) {
                progress(bytes_before + rows.bytes_read().min(file.bytes))?;
            }
        }
        bytes_before += file.bytes;
    }
    for (name, guess) in all.names.iter().zip(&all.guesses) {
        if guess.is_wanted() && guess.has_too_many_digits() {
            found.notes.push(format!("column {name:?} is text: no type of numbers holds all of its digits"));
        }
        if options.wants(name) {
            let field = guess.field(name, all.rows);
            if guess.not_available() > 0 && *field.data_type() == DataType::Utf8 {
                let times = human::plural(guess.not_available(), "time");
                found.notes.push(format!(
                    "column {name:?} is text, and \"NA\" stands in it {times} (--null '' --null NA makes it null)"
                ));
            }
            found.fields.push(field);
        } else {
            found.left_out.push(name.clone());
        }
    }
    found.is_empty = all.rows == 0;
    let is_timed = |field: &Field| matches!(field.data_type(), DataType::Date32 | DataType::Timestamp(..));
    if options.formats.replace(&timestamp_type())
        && options.columns.is_none()
        && !found.is_empty
        && !found.fields.iter().any(is_timed)
    {
        let message = "no column is found to have dates or timestamps as --date-format says (--schema says which one has)";
        found.notes.push(message.to_owned());
    }
    Ok(found)
}

/// That a cell of some row makes its column one of texts, whose values before have another type.
fn is_text(name: &str, cell: &[u8], row: u64, file: &InputFile, values: u64, was: &DataType) -> String {
    let shown = String::from_utf8_lossy(&cell[..cell.len().min(40)]).into_owned();
    let (file, values, was) = (file.name(), human::count(values), type_name(was));
    format!(
        "column {name:?} is text, for {shown:?} in row {row} of {file}; the {values} values before are {was}"
    )
}

/// A cell of a chunk that has no type in common with many values before.
struct Mistake {
    row: usize,
    /// Its place in the record.
    column: usize,
    /// The values before.
    values: u64,
    /// What they are.
    was: DataType,
}

/// The columns of all files.
#[derive(Default)]
struct Columns {
    names: Vec<String>,
    index: BTreeMap<String, usize>,
    guesses: Vec<Guess>,
    /// Rows seen so far.
    rows: u64,
}

impl Columns {
    fn place(&mut self, name: &str, options: &Options) -> usize {
        if let Some(place) = self.index.get(name) {
            return *place;
        }
        let place = self.names.len();
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), place);
        self.guesses.push(Guess::new(options.wants(name)));
        place
    }

    /// Takes records in, whose cells are of the columns at these places: column by column, so that what is known of one stays at
    /// hand. Mistakes come in the order of the rows.
    fn see(&mut self, chunk: &Chunk, places: &[usize], options: &Options) -> Vec<Mistake> {
        self.rows += chunk.rows() as u64;
        let mut mistakes = Vec::new();
        for (column, &place) in places.iter().enumerate() {
            let guess = &mut self.guesses[place];
            for row in 0..chunk.rows() {
                let (cell, kind) = (chunk.cell(row, column), chunk.kind(row, column));
                if let Some((values, was)) = guess.see(cell, kind, options) {
                    mistakes.push(Mistake { row, column, values, was });
                }
            }
        }
        mistakes.sort_by_key(|mistake| (mistake.row, mistake.column));
        mistakes
    }
}

impl Rules for Options {
    fn is_null(&self, cell: &[u8]) -> bool {
        self.is_null(cell, true)
    }

    fn is_null_but_text(&self, cell: &[u8]) -> bool {
        self.is_null_but_text(cell)
    }

    fn has_default_nulls(&self) -> bool {
        self.has_default_nulls()
    }

    fn is_date(&self, text: &str) -> bool {
        self.formats.date(text).is_some()
    }

    fn is_timestamp(&self, text: &str) -> bool {
        self.formats.timestamp(text).is_some()
    }

    fn is_time(&self, text: &str) -> bool {
        parse_time_of_day(text).is_some()
    }

    fn is_said(&self, number: &str) -> bool {
        self.formats.is_said(number)
    }
}

#[cfg(test)]
mod tests {
    use basalt_nested::csv::Kind;

    use super::*;

    #[track_caller]
    fn check(cells: &[&str], expected: &str) {
        let mut guess = Guess::new(true);
        let options = Options::new(&super::super::tests::args(&["t", "f.csv"]));
        for cell in cells {
            guess.see(cell.as_bytes(), Kind::Csv, &options);
        }
        let field = guess.field("a", cells.len() as u64);
        let null = if field.is_nullable() { " null" } else { "" };
        assert_eq!(format!("{}{null}", type_name(field.data_type())), expected, "{cells:?}");
    }

    #[test]
    fn types() {
        check(&["1", "-2", "0"], "int32");
        check(&["1", ""], "int32 null");
        check(&["2147483647"], "int32");
        check(&["2147483648"], "int64");
        check(&["-9223372036854775808"], "int64");
        check(&["9223372036854775808"], "uint64");
        check(&["9223372036854775808", "-1"], "decimal(38,0)");
        check(&["9223372036854775808", "-0"], "decimal(38,0)");
        check(&["-0", "1"], "int32");
        check(&["100000000000000000000", "1"], "decimal(38,0)");
        check(&["9007199254740993", "0.25"], "decimal(38,2)");
        check(&["12345678901234567890.123456789", "1"], "decimal(38,9)");
        check(&["-12345678901234567.89"], "decimal(38,2)");
        check(&["0.10000000000000001", ".1", "0.1000000000000000055511151231257827"], "float64");
        check(&["-0.30000000000000004", "1234567.8901234567"], "float64");
        check(&["0.12345678901234567891"], "decimal(38,20)");
        check(&["3.1000000000000000", "1e5"], "float64");
        check(&["3.1000000000000000", "100.00000000000000000"], "float64");
        check(&["0.12345678901234567891", "NaN"], "float64");
        check(&["9007199254740993", "1e3"], "utf8");
        check(&["9007199254740992", "0.25"], "float64");
        check(&["1", &"9".repeat(39)], "utf8");
        check(&["10:30", "23:59:59.5"], "time");
        check(&["10:30", "24:00"], "utf8");
        check(&["1", "2.5"], "float64");
        check(&["1e3", ".5", "-0.25"], "float64");
        check(&["1", "x"], "utf8");
        check(&["NaN"], "utf8");
        check(&["inf"], "utf8");
        check(&["1", "NaN", "-inf", "+Infinity", "nan"], "float64");
        check(&["NA", "1"], "int32 null");
        check(&["NA", "x"], "utf8");
        check(&["NA"], "utf8");
        check(&["NA", "", "x"], "utf8 null");
        check(&["1", "nano"], "utf8");
        check(&["1e999"], "utf8");
        check(&["007", "123"], "utf8");
        check(&["0.5", "0"], "float64");
        check(&["+5"], "utf8");
        check(&["-"], "utf8");
        check(&["true", "FALSE"], "bool");
        check(&["true", "1"], "utf8");
        check(&["2013-07-04", "1969-12-31"], "date32");
        check(&["2013-07-04T10:00:00Z", "2013-07-04 11:00:00"], "timestamp");
        check(&["2013-07-04T10:00:00Z", "2013-07-04"], "timestamp");
        check(&["2013-07-04", "2013-07-04 10:00"], "timestamp");
        check(&["2013-07-04 10:60"], "utf8");
        check(&["2013-02-30"], "utf8");
        check(&["", ""], "utf8 null");
        check(&[], "utf8 null");
        check(&[" 7", "8 "], "int32");
    }
}
