//! Answers as aligned tables, JSON and CSV.

use std::{
    borrow::Cow,
    io::{self, Write},
    time::Duration,
};

use arrow_array::{
    Array, Date32Array, RecordBatch, TimestampMicrosecondArray,
    cast::AsArray as _,
    types::{Date32Type, Float32Type, Float64Type, TimestampMicrosecondType},
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Schema};

use super::{
    grid::{Grid, escape},
    human,
    load::NULLS,
    style::Style,
};
use crate::{
    answer::QueryResult,
    calendar::{Date, Timestamp},
    plan::Statistics,
};

/// How nulls look in tables; in CSV they are empty, in JSON `null`.
const NULL: &str = "null";
/// A query that executes for less says nothing about a rate.
const MEASURED_US: u64 = 1000;

/// An answer as an aligned table, numbers at the right.
///
/// ```no_run
/// # async fn example(client: &basalt_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let answer = client.query("flights").limit(10).collect().await?;
/// print!("{}", basalt_client::cli::output::table(&answer)?);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// A type that no column has, whose values cannot be formatted.
pub fn table(answer: &QueryResult) -> Result<String, ArrowError> {
    if is_plan(&answer.schema) {
        return plans(answer);
    }
    let grid = grid(answer)?;
    let mut text = grid.render();
    if grid.is_cut() {
        let note = "… is more than there is room for: --format line has whole values";
        text.push_str(&format!("  {}\n", Style::of(&io::stdout()).dim(note)));
    }
    Ok(text)
}

/// An answer with a line for each value.
///
/// # Errors
/// Those of [`table`].
pub fn lines(answer: &QueryResult) -> Result<String, ArrowError> {
    match is_plan(&answer.schema) {
        true => plans(answer),
        false => Ok(super::grid::turned(grid(answer)?)),
    }
}

/// Whether it is what EXPLAIN answers.
pub(crate) fn is_plan(schema: &Schema) -> bool {
    schema.fields().iter().map(|field| field.name().as_str()).eq(["plan_type", "plan"])
}

fn grid(answer: &QueryResult) -> Result<Grid, ArrowError> {
    let fields = answer.schema.fields();
    let mut grid = Grid::new(fields.iter().map(|f| (f.name().as_str(), is_number(f.data_type())))).numbered();
    for batch in &answer.batches {
        let columns = cells(batch)?;
        for row in 0..batch.num_rows() {
            let cells = columns.iter().zip(batch.columns()).map(|(column, array)| {
                if array.is_null(row) { Ok(NULL.to_owned()) } else { column.text(row) }
            });
            grid.row(cells.collect::<Result<Vec<_>, _>>()?);
        }
    }
    Ok(grid)
}

/// What EXPLAIN says: each plan below its name, an operator a line.
fn plans(answer: &QueryResult) -> Result<String, ArrowError> {
    let style = Style::of(&io::stdout());
    let mut text = String::new();
    for batch in &answer.batches {
        let columns = cells(batch)?;
        let [name, plan] = columns.as_slice() else { continue };
        for row in 0..batch.num_rows() {
            text.push_str(&format!("  {}\n", style.dim(&escape(&name.text(row)?))));
            for line in plan.text(row)?.lines() {
                text.push_str(format!("    {}", escape(line)).trim_end());
                text.push('\n');
            }
        }
    }
    Ok(text)
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

/// The values of a column as texts.
enum Cells<'a> {
    Dates(&'a Date32Array),
    Timestamps(&'a TimestampMicrosecondArray),
    Others(ArrayFormatter<'a>),
}

fn cells(batch: &RecordBatch) -> Result<Vec<Cells<'_>>, ArrowError> {
    let cells = |array| match array_as_time(array) {
        Some(cells) => Ok(cells),
        // An error is one, and not the value's text.
        None => {
            ArrayFormatter::try_new(array, &FormatOptions::new().with_display_error(false)).map(Cells::Others)
        }
    };
    batch.columns().iter().map(|array| cells(array.as_ref())).collect()
}

fn array_as_time(array: &dyn Array) -> Option<Cells<'_>> {
    let timestamps = || array.as_primitive_opt::<TimestampMicrosecondType>().map(Cells::Timestamps);
    array.as_primitive_opt::<Date32Type>().map(Cells::Dates).or_else(timestamps)
}

impl Cells<'_> {
    /// The text of a value that is not null.
    fn text(&self, row: usize) -> Result<String, ArrowError> {
        match self {
            Self::Dates(array) => Ok(Date(array.value(row)).to_string()),
            Self::Timestamps(array) => Ok(Timestamp(array.value(row)).to_string()),
            Self::Others(column) => column.value(row).try_to_string(),
        }
    }
}

/// A text as a file has it, or as a terminal may have it.
fn shown(text: &str, is_terminal: bool) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !is_terminal || !text.contains(steers) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if steers(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out.into()
}

/// Writes batches as CSV (RFC 4180): a header, then rows; nulls are empty, an empty text is `""`. Other texts that `basalt
/// load` would take for null are quoted too, so that it reads what was written.
#[derive(Debug)]
pub struct CsvWriter<W> {
    out: W,
    is_terminal: bool,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W, schema: &Schema) -> io::Result<Self> {
        Self::begin(out, schema, false)
    }

    /// The same for a terminal, which is shown control characters other than line breaks and tabs, and not steered by them.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn to_terminal(out: W, schema: &Schema) -> io::Result<Self> {
        Self::begin(out, schema, true)
    }

    fn begin(mut out: W, schema: &Schema, is_terminal: bool) -> io::Result<Self> {
        let header: Vec<_> = schema.fields().iter().map(|f| quoted(&shown(f.name(), is_terminal))).collect();
        writeln!(out, "{}", header.join(","))?;
        Ok(Self { out, is_terminal })
    }

    /// Writes the rows of a batch.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = cells(batch).map_err(io::Error::other)?;
        for row in 0..batch.num_rows() {
            for (i, (column, array)) in columns.iter().zip(batch.columns()).enumerate() {
                let comma = if i == 0 { "" } else { "," };
                if array.is_null(row) {
                    write!(self.out, "{comma}")?;
                } else if *array.data_type() == DataType::Binary {
                    // An empty one is no null.
                    write!(self.out, "{comma}{}", quoted(&column.text(row).map_err(io::Error::other)?))?;
                } else if *array.data_type() == DataType::Utf8 {
                    let text = shown(array.as_string::<i32>().value(row), self.is_terminal);
                    write!(self.out, "{comma}{}", quoted(&text))?;
                } else {
                    write!(self.out, "{comma}{}", column.text(row).map_err(io::Error::other)?)?;
                }
            }
            writeln!(self.out)?;
        }
        Ok(())
    }

    /// Ends the output.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) || NULLS.contains(&text) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Writes batches as one JSON array with an object a row, each on a line of its own. Integers and decimals
/// are exact numbers; NaN and infinities, which JSON does not have, are the texts `NaN`, `inf` and `-inf`.
#[derive(Debug)]
pub struct JsonWriter<W> {
    out: W,
    keys: Vec<String>,
    rows: u64,
}

impl<W: Write> JsonWriter<W> {
    /// Starts the array.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W, schema: &Schema) -> io::Result<Self> {
        write!(out, "[")?;
        let keys = schema.fields().iter().map(|f| json_text(f.name())).collect();
        Ok(Self { out, keys, rows: 0 })
    }

    /// Writes the rows of a batch.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns = cells(batch).map_err(io::Error::other)?;
        for row in 0..batch.num_rows() {
            write!(self.out, "{}\n  {{", if self.rows == 0 { "" } else { "," })?;
            for (i, ((key, column), array)) in self.keys.iter().zip(&columns).zip(batch.columns()).enumerate()
            {
                let comma = if i == 0 { "" } else { ", " };
                let value = json_value(array.as_ref(), column, row).map_err(io::Error::other)?;
                write!(self.out, "{comma}{key}: {value}")?;
            }
            write!(self.out, "}}")?;
            self.rows += 1;
        }
        Ok(())
    }

    /// Ends the array.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(mut self) -> io::Result<()> {
        writeln!(self.out, "{}]", if self.rows == 0 { "" } else { "\n" })?;
        self.out.flush()
    }
}

fn json_value(array: &dyn Array, column: &Cells<'_>, row: usize) -> Result<String, ArrowError> {
    if array.is_null(row) {
        return Ok(NULL.to_owned());
    }
    let finite = match array.data_type() {
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).is_finite(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).is_finite(),
        _ => true,
    };
    Ok(match array.data_type() {
        DataType::Utf8 => json_text(array.as_string::<i32>().value(row)),
        data_type if *data_type == DataType::Boolean || (is_number(data_type) && finite) => {
            column.text(row)?
        }
        _ => json_text(&column.text(row)?),
    })
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What a query did, in one line: rows, time, rows scanned a second, blocks pruned.
pub fn footer(rows: u64, time: Duration, statistics: &Statistics) -> String {
    format!("{} · {}", human::plural(rows, "row"), work(time, statistics))
}

/// The time of a query, the rows of the blocks that it read, blocks pruned. A rate is of those rows alone, and there is none
/// of a query that is over before it could be measured.
pub fn work(time: Duration, statistics: &Statistics) -> String {
    let mut parts = vec![human::duration(time)];
    let Statistics { rows, blocks, blocks_pruned, execute_us, .. } = *statistics;
    let read = match blocks {
        0 => rows,
        // About: the last block of a fragment is shorter.
        _ => u64::try_from(
            u128::from(rows) * u128::from(blocks.saturating_sub(blocks_pruned)) / u128::from(blocks),
        )
        .unwrap_or(rows),
    };
    if rows > 0 {
        let about = if blocks_pruned > 0 && read > 0 { "about " } else { "" };
        let rate = match execute_us >= MEASURED_US && read > 0 {
            true => format!(" at {}", human::row_rate(read, Duration::from_micros(execute_us))),
            false => String::new(),
        };
        let all = human::plural(rows, "row");
        parts.push(match read == rows {
            true => format!("{all} read{rate}"),
            false => format!("{about}{} of {all} read{rate}", human::count(read)),
        });
    }
    if blocks_pruned > 0 {
        parts.push(format!("{} of {} pruned", human::count(blocks_pruned), human::plural(blocks, "block")));
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, StringArray,
        TimestampMicrosecondArray,
    };

    use super::*;

    #[test]
    fn plans_have_a_line_for_each_operator() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("plan_type", Arc::new(StringArray::from(vec!["logical_plan", "physical_plan"]))),
            ("plan", Arc::new(StringArray::from(vec!["Limit: 1\n  Scan: \u{1b}[2Jt\n", "Scan"]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let (schema, batches) = (batch.schema(), vec![batch]);
        let text = table(&QueryResult { schema, rows: 2, batches, ..answer() }).unwrap();
        assert_eq!(
            text,
            "  logical_plan\n    Limit: 1\n      Scan: \\u{1b}[2Jt\n  physical_plan\n    Scan\n"
        );
    }

    fn answer() -> QueryResult {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("name", Arc::new(StringArray::from(vec![Some("a,\"b\""), None, Some("new\nline")]))),
            ("n", Arc::new(Int32Array::from(vec![Some(-12), None, Some(3)]))),
            ("x", Arc::new(Float64Array::from(vec![0.5, f64::NAN, f64::INFINITY]))),
            (
                "price",
                Arc::new(Decimal128Array::from(vec![1250, -5, 0]).with_precision_and_scale(12, 2).unwrap()),
            ),
            ("ok", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
            ("day", Arc::new(Date32Array::from(vec![0, 15_890, -1]))),
            ("at", Arc::new(TimestampMicrosecondArray::from(vec![0, 1, 1_000_000]).with_timezone("UTC"))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        QueryResult {
            schema: batch.schema(),
            rows: 3,
            batches: vec![batch.slice(0, 1), batch.slice(1, 2)],
            version: 1,
            versions: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    #[test]
    fn tables_align() {
        let expected = "  \
  name          n    x  price  ok     day         at
  a,\"b\"       -12  0.5  12.50  true   1970-01-01  1970-01-01T00:00:00Z
  null       null  NaN  -0.05  false  2013-07-04  1970-01-01T00:00:00.000001Z
  new\\nline     3  inf   0.00  null   1969-12-31  1970-01-01T00:00:01Z
";
        assert_eq!(table(&answer()).unwrap(), expected);
    }

    #[test]
    fn a_terminal_is_not_steered() {
        let text = "a\u{1b}[2Jb\u{9b}c\r\nd\te";
        assert_eq!(shown(text, true), "a\\u{1b}[2Jb\\u{9b}c\\r\nd\te");
        assert_eq!(shown(text, false), text);
        assert!(matches!(shown("plain\n", true), Cow::Borrowed(_)));
    }

    #[test]
    fn csv() {
        let answer = answer();
        let mut out = Vec::new();
        let mut writer = CsvWriter::new(&mut out, &answer.schema).unwrap();
        answer.batches.iter().for_each(|b| writer.write(b).unwrap());
        writer.finish().unwrap();
        let expected = "\
name,n,x,price,ok,day,at
\"a,\"\"b\"\"\",-12,0.5,12.50,true,1970-01-01,1970-01-01T00:00:00Z
,,NaN,-0.05,false,2013-07-04,1970-01-01T00:00:00.000001Z
\"new
line\",3,inf,0.00,,1969-12-31,1970-01-01T00:00:01Z
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn json() {
        let answer = answer();
        let mut out = Vec::new();
        let mut writer = JsonWriter::new(&mut out, &answer.schema).unwrap();
        answer.batches.iter().for_each(|b| writer.write(b).unwrap());
        writer.finish().unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            value[0],
            serde_json::json!({"name": "a,\"b\"", "n": -12, "x": 0.5, "price": 12.5, "ok": true,
                "day": "1970-01-01", "at": "1970-01-01T00:00:00Z"})
        );
        assert_eq!(value[1]["n"], serde_json::Value::Null);
        assert_eq!(value[1]["x"], "NaN");
        assert_eq!(value[2]["name"], "new\nline");

        let mut out = Vec::new();
        JsonWriter::new(&mut out, &answer.schema).unwrap().finish().unwrap();
        assert_eq!(out, b"[]\n");
    }

    #[test]
    fn every_value_is_printed() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("day", Arc::new(Date32Array::from(vec![i32::MAX, i32::MIN, 2_932_897]))),
            (
                "at",
                Arc::new(TimestampMicrosecondArray::from(vec![i64::MAX, i64::MIN, 0]).with_timezone("UTC")),
            ),
            ("x", Arc::new(Float64Array::from(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut csv = Vec::new();
        CsvWriter::new(&mut csv, batch.schema_ref()).unwrap().write(&batch).unwrap();
        let expected = "\
day,at,x
+5881580-07-11,+294247-01-10T04:00:54.775807Z,NaN
-5877641-06-23,-290308-12-21T19:59:05.224192Z,inf
+10000-01-01,1970-01-01T00:00:00Z,-inf
";
        assert_eq!(String::from_utf8(csv).unwrap(), expected);
        let mut json = Vec::new();
        let mut writer = JsonWriter::new(&mut json, batch.schema_ref()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let first =
            serde_json::json!({"day": "+5881580-07-11", "at": "+294247-01-10T04:00:54.775807Z", "x": "NaN"});
        assert_eq!((&value[0], &value[2]["x"]), (&first, &"-inf".into()));
        let (schema, rows) = (batch.schema(), 3);
        let answer = QueryResult {
            schema,
            rows,
            batches: vec![batch],
            version: 1,
            versions: Vec::new(),
            statistics: Statistics::default(),
        };
        let table = table(&answer).unwrap();
        assert!(table.contains("  -5877641-06-23  -290308-12-21T19:59:05.224192Z   inf\n"), "{table}");
    }

    #[test]
    fn footers() {
        let statistics =
            Statistics { rows: 336_776, blocks: 6, blocks_pruned: 4, execute_us: 1000, ..Default::default() };
        assert_eq!(
            footer(1, Duration::from_micros(3210), &statistics),
            "1 row · 3.21 ms · about 112,258 of 336,776 rows read at 112 M rows/s · 4 of 6 blocks pruned"
        );
        assert_eq!(footer(0, Duration::from_millis(2), &Statistics::default()), "0 rows · 2.00 ms");
    }
}
