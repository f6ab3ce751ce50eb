//! The columns of a table that is made for rows, by what stands at their beginning.
//!
//! Those of CSV and JSON lines may have nulls, and whole numbers have 64 bits: rows that come later, or in another file, are
//! more of the same, but not all alike.

use std::{collections::BTreeMap, fmt};

use arrow_array::{
    Date32Array, TimestampMicrosecondArray,
    types::{Date32Type, Time64MicrosecondType, TimestampMicrosecondType},
};
use arrow_cast::parse::Parser as _;
use arrow_schema::{DataType as Arrow, Field as ArrowField, Schema as ArrowSchema};
use basalt_core::{fragment::beyond_calendar, limits::MAX_COLUMNS, schema::Schema};
use basalt_nested::{
    csv::{BOM, Failure, Kind, Record, Splitter},
    guess::{Guess, Rules},
    with_seconds,
};
use hyper::body::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::{
    csv::{DELIMITER, Scanner},
    invalid,
    messages::Messages,
    parquet_file::ParquetFooter,
    unread,
    values::is_date,
};
use crate::{convert, limits, status::Result};

/// The beginning of a body.
#[derive(Debug, Default)]
pub(crate) struct Start {
    pub(crate) bytes: Vec<u8>,
    /// It is the whole of it.
    pub(crate) is_all: bool,
}

impl Start {
    /// Whether it tells the columns of rows of a media type: a Parquet file does so at its end.
    pub(crate) fn is_enough(&self, media_type: &str) -> bool {
        let most = match media_type {
            "application/vnd.apache.parquet" | "application/x-parquet" => limits::HTTP_PARQUET_BYTES,
            _ => limits::HTTP_START_BYTES,
        };
        self.is_all || self.bytes.len() >= most
    }
}

/// The columns of a table for rows of a media type; `nulls` stand for null in CSV, beside the empty text.
pub(crate) fn columns(media_type: &str, start: &Start, nulls: &[String]) -> Result<Schema> {
    super::caught(|| {
        let schema = match media_type {
            "text/csv" => of_csv(start, nulls)?,
            "application/vnd.apache.arrow.stream" => {
                let mut messages = Messages::default();
                messages.take_in(&start.bytes, &mut std::collections::VecDeque::new())?;
                let schema = messages.reader.schema();
                schema.ok_or_else(|| invalid("the body has no Arrow stream"))?.as_ref().clone()
            }
            "application/vnd.apache.parquet" | "application/x-parquet" => {
                footer(start)?.decode()?.schema().clone()
            }
            _ => of_lines(start)?,
        };
        Ok(convert::table_schema(&schema)?)
    })
}

/// The bytes that reading the columns takes beside the beginning itself: a copy of it, and what is made of a file's footer.
pub(crate) fn room(media_type: &str, start: &Start) -> Result<u64> {
    super::caught(|| {
        let made = match media_type {
            "application/vnd.apache.parquet" | "application/x-parquet" => footer(start)?.bytes(),
            _ => 0,
        };
        Ok(start.bytes.len() as u64 + made)
    })
}

fn footer(start: &Start) -> Result<ParquetFooter> {
    ParquetFooter::new(Bytes::copy_from_slice(&start.bytes))
}

/// What cells stand for.
struct Nulls<'a>(&'a [String]);

impl Rules for Nulls<'_> {
    fn is_null(&self, cell: &[u8]) -> bool {
        cell.is_empty() || self.0.iter().any(|null| null.as_bytes() == cell)
    }

    fn is_null_but_text(&self, _: &[u8]) -> bool {
        false
    }

    fn has_default_nulls(&self) -> bool {
        false
    }

    fn is_date(&self, text: &str) -> bool {
        let days = || Date32Type::parse(text).map(|days| Date32Array::from(vec![days]));
        is_date(text) && days().is_some_and(|days| beyond_calendar(&days).is_none())
    }

    fn is_timestamp(&self, text: &str) -> bool {
        let micros = TimestampMicrosecondType::parse(&with_seconds(text));
        let micros = micros.map(|micros| TimestampMicrosecondArray::from(vec![micros]));
        micros.is_some_and(|micros| beyond_calendar(&micros).is_none()) && !has_leap_second(text)
    }

    fn is_time(&self, text: &str) -> bool {
        text.contains(':') && Time64MicrosecondType::parse(text).is_some() && !has_leap_second(text)
    }
}

/// Clocks of 60 seconds are read by the parser, and held by no column.
fn has_leap_second(text: &str) -> bool {
    text.contains(":60")
}

fn of_csv(start: &Start, nulls: &[String]) -> Result<ArrowSchema> {
    let mut bytes = start.bytes.strip_prefix(BOM).unwrap_or(&start.bytes);
    if !start.is_all {
        // Default: not even its first line is here, which is told by whoever reads it.
        bytes = &bytes[..Scanner::default().last_end(bytes).unwrap_or(bytes.len())];
    }
    let told = |failure: Failure| match failure {
        Failure::Read(error) => unread(error),
        Failure::Malformed { line, message, .. } => invalid(format!("line {line}: {message}")),
    };
    let (mut splitter, mut record) = (Splitter::behind(bytes, DELIMITER, 1, bytes.len()), Record::default());
    if !splitter.next_filled(&mut record).map_err(told)? {
        return Err(invalid("an empty body: the first line names the columns"));
    }
    if record.len() > MAX_COLUMNS {
        return Err(invalid(format!("{} columns; the limit is {MAX_COLUMNS}", record.len())));
    }
    let name = |name: &[u8]| match std::str::from_utf8(name) {
        Ok(name) => Ok(name.trim().to_owned()),
        Err(_) => Err(invalid("the first line is not UTF-8")),
    };
    let names = record.fields().map(name).collect::<Result<Vec<_>>>()?;
    // A file of another delimiter would be one column of texts. In quotes a name is what was meant.
    let quoted = bytes.trim_ascii_start().starts_with(b"\"");
    if let [name] = names.as_slice()
        && name.contains([';', '\t', '|'])
        && !quoted
    {
        return Err(invalid(format!(
            "the first line has one name, {name:?}: commas separate here; `basalt load` takes other delimiters"
        )));
    }
    let mut guesses = vec![Guess::new(true); names.len()];
    while splitter.next(&mut record).map_err(told)? {
        let cells = record.fields().zip(record.kinds());
        for (guess, (cell, kind)) in guesses.iter_mut().zip(cells) {
            guess.see(cell, kind, &Nulls(nulls));
        }
    }
    Ok(schema(names.iter().zip(&guesses)))
}

fn of_lines(start: &Start) -> Result<ArrowSchema> {
    // By their names: an object may have thousands of keys, in another order each time.
    let (mut found, mut places): (Vec<(String, Guess)>, BTreeMap<String, usize>) = Default::default();
    for row in serde_json::Deserializer::from_slice(&start.bytes).into_iter::<Row>() {
        let row = match row {
            Ok(row) => row,
            // The last one goes on behind the start.
            Err(error) if error.is_eof() && !start.is_all => break,
            Err(error) => return Err(unread(error)),
        };
        for (name, cell, kind) in row.0 {
            let at = match places.get(&name) {
                Some(at) => *at,
                None if found.len() >= MAX_COLUMNS => {
                    return Err(invalid(format!("more than {MAX_COLUMNS} columns, the limit")));
                }
                None => {
                    places.insert(name.clone(), found.len());
                    found.push((name, Guess::new(true)));
                    found.len() - 1
                }
            };
            let guess = &mut found[at].1;
            guess.see(cell.as_bytes(), kind, &Nulls(&[]));
        }
    }
    if found.is_empty() {
        return Err(invalid("a body without rows: their keys would name the columns"));
    }
    Ok(schema(found.iter().map(|(name, guess)| (name, guess))))
}

fn schema<'a>(found: impl Iterator<Item = (&'a String, &'a Guess)>) -> ArrowSchema {
    let field = |(name, guess): (&String, &Guess)| {
        let data_type = match guess.field(name, 0).data_type() {
            Arrow::Int32 => Arrow::Int64,
            other => other.clone(),
        };
        ArrowField::new(name, data_type, true)
    };
    ArrowSchema::new(found.map(field).collect::<Vec<_>>())
}

/// An object of JSON: keys, and what stands behind them.
struct Row(Vec<(String, String, Kind)>);

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Row;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("lines that are objects")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Row, A::Error> {
                let mut row = Vec::new();
                while let Some((name, Cell(cell, kind))) = map.next_entry()? {
                    row.push((name, cell, kind));
                }
                Ok(Row(row))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// A value of JSON as a text.
struct Cell(String, Kind);

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Cell;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> std::result::Result<Cell, E> {
                Ok(Cell(String::new(), Kind::Null))
            }

            fn visit_bool<E>(self, value: bool) -> std::result::Result<Cell, E> {
                Ok(Cell(value.to_string(), Kind::Bare))
            }

            fn visit_i64<E>(self, value: i64) -> std::result::Result<Cell, E> {
                Ok(Cell(value.to_string(), Kind::Bare))
            }

            fn visit_u64<E>(self, value: u64) -> std::result::Result<Cell, E> {
                Ok(Cell(value.to_string(), Kind::Bare))
            }

            fn visit_f64<E>(self, value: f64) -> std::result::Result<Cell, E> {
                // A whole number of more than 64 bits comes as a float.
                let is_whole = value.fract() == 0.0 && (2_f64.powi(63)..1e38).contains(&value.abs());
                let text = if is_whole { format!("{value:.0}") } else { format!("{value:e}") };
                Ok(Cell(text, Kind::Bare))
            }

            fn visit_str<E>(self, value: &str) -> std::result::Result<Cell, E> {
                Ok(Cell(value.to_owned(), Kind::Text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Cell, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Cell("[]".to_owned(), Kind::Text))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Cell, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Cell("{}".to_owned(), Kind::Text))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(media_type: &str, bytes: &str, is_all: bool, expected: &str) {
        let start = Start { bytes: bytes.as_bytes().to_vec(), is_all };
        let schema = columns(media_type, &start, &["NA".to_owned()]).unwrap();
        let shown: Vec<_> =
            schema.fields().iter().map(|field| format!("{} {}", field.name, field.type_name())).collect();
        assert_eq!(shown.join(", "), expected);
        assert!(schema.fields().iter().all(|field| field.nullable));
    }

    #[test]
    fn columns_of_csv() {
        let csv = "a,b ,c,d,e,f,g\n1,2.5,x,2013-07-04,2013-07-04 10:00,true,10:30\nNA,7,\"NA\",,,false,\n";
        let types = "a int64, b float64, c utf8, d date32, e timestamp, f bool, g time";
        check("text/csv", csv, true, types);
        let moments =
            "a,b,c\n2013-07-04 10:00:00,2013-07-04T10:00:00.5Z,23:59:60\n 2013-07-05 ,2013-07-04, 10:30 \n";
        check("text/csv", moments, true, "a timestamp, b timestamp, c utf8");
        check("text/csv", "a,b\n0000-01-01, 10:30\n", true, "a utf8, b time");
        // What is cut off may say another thing than the whole.
        check("text/csv", "a\n1\n2x", true, "a utf8");
        check("text/csv", "a\n1\n2x", false, "a int64");
        check("text/csv", "a,b\n\"1\n2\",3\n", true, "a utf8, b int64");
        check("text/csv", "\"a;b\"\n1\n", true, "a;b int64");
        check("text/csv", "a\n99999999999999999999\n", true, "a decimal(38,0)");
    }

    #[test]
    fn columns_of_lines() {
        let lines =
            "{\"z\": 1, \"a\": \"x\"}\n{\"a\": null, \"b\": 0.5, \"z\": 5000000000, \"c\": {\"d\": [1]}}";
        check("application/x-ndjson", lines, true, "z int64, a utf8, b float64, c utf8");
        check("application/x-ndjson", "{\"a\": 1}\n{\"a\": \"wi", false, "a int64");
        let large = "{\"a\": 12345678901234567890123, \"b\": 1e300}";
        check("application/x-ndjson", large, true, "a decimal(38,0), b float64");
    }

    #[test]
    fn what_has_no_columns() {
        let wrong = |media_type: &str, bytes: &str| {
            let start = Start { bytes: bytes.as_bytes().to_vec(), is_all: true };
            columns(media_type, &start, &[]).unwrap_err().message().to_owned()
        };
        assert!(wrong("text/csv", "\n\n").contains("empty body"));
        assert!(wrong("text/csv", "a,a\n1,2\n").contains('a'));
        for header in ["id;name", "id\tname", "id|name"] {
            let told = wrong("text/csv", &format!("{header}\n1;2\n"));
            assert!(told.contains("commas separate here"), "{header:?}: {told}");
        }
        assert!(wrong("application/x-ndjson", "").contains("without rows"));
        assert!(wrong("application/x-ndjson", "[{\"a\": 1}]").contains("lines that are objects"));
        assert!(wrong("application/vnd.apache.parquet", "PAR1").contains("cannot be read"));
        assert!(wrong("application/vnd.apache.arrow.stream", "").contains("no Arrow stream"));
    }
}
