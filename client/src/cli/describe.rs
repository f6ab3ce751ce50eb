//! Tables and their columns, for people.

use arrow_array::types::{Decimal128Type, DecimalType as _};
use arrow_schema::DECIMAL128_MAX_PRECISION;
use basalt_proto::v1::value::Kind;

use super::{grid::Grid, human, retention::shown, style::Style};
use crate::{
    calendar::{Date, Timestamp},
    convert::{OPTIMIZE_KEY, REFERENCES_KEY},
    expr::Literal,
    table::{ColumnInfo, DamagedTable, Deletes, EncodingEstimate, Table, TableDetails},
    types::type_name,
};

/// Characters of a smallest or largest value that are shown.
const VALUE_WIDTH: usize = 24;

/// The list of tables, and below it those that cannot be read; of a key, which may not see all of them nor make any, where
/// there is one.
pub fn tables(tables: &[Table], damaged: &[DamagedTable], of_key: bool) -> String {
    let damaged = damaged.iter().map(|table| format!("not served: {}: {}\n", table.name, table.message));
    let damaged: String = damaged.collect();
    if tables.is_empty() && !damaged.is_empty() {
        return damaged;
    }
    if tables.is_empty() && of_key {
        return "no tables that this key may read\n".to_owned();
    }
    if tables.is_empty() {
        return "no tables yet: `basalt load TABLE FILE` makes one\n".to_owned();
    }
    let mut grid =
        Grid::new([("table", false), ("rows", true), ("columns", true), ("held", true), ("version", true)]);
    for table in tables {
        grid.row([
            table.name.clone(),
            human::count(table.rows),
            table.schema.fields().len().to_string(),
            human::bytes(table.bytes),
            table.version.to_string(),
        ]);
    }
    grid.render() + &damaged
}

/// A table's columns: types, nulls, encodings, sizes beside plain arrays and, where it was asked for, beside
/// the entropy, and ranges; the whole table in the last line.
pub fn describe(details: &TableDetails) -> String {
    let TableDetails { table, columns } = details;
    let plain: u64 = columns.iter().map(|c| c.plain_bytes).sum();
    let full = columns.iter().any(|c| c.entropy_bits.is_some());
    let mut headers = vec![
        ("column", false),
        ("type", false),
        ("nulls", true),
        ("encoding", false),
        ("held", true),
        ("bits/row", true),
    ];
    if full {
        headers.push(("entropy", true));
    }
    headers.extend([("plain", true), ("ratio", true), ("min", false), ("max", false)]);
    let mut grid = Grid::new(headers);
    for column in columns {
        grid.row(column_cells(column, full));
    }
    let held: u64 = columns.iter().map(|c| c.bytes).sum();
    let entropy: Option<f64> = columns.iter().map(|c| c.entropy_bits).sum();
    let mut total = vec!["total".to_owned(), String::new(), String::new(), String::new()];
    total.extend([human::bytes(held), bits_per_row(held, table.rows)]);
    if full {
        total.push(bits(entropy));
    }
    total.extend([human::bytes(plain), ratio(plain, held, table.rows), String::new(), String::new()]);
    grid.row(total);

    let style = Style::of(&std::io::stdout());
    let kept = table.retention.as_ref().map(|retention| format!(", {}", shown(Some(retention))));
    let deletes = table.deletes.filter(|deletes| *deletes != Deletes::default());
    let deletes = deletes.map(|deletes| format!(", {}", super::deletes::shown(Some(deletes))));
    let summary = format!(
        "{} in {}, version {}, {} held{}{}",
        human::plural(table.rows, "row"),
        human::plural(table.fragments, "fragment"),
        table.version,
        human::bytes(table.bytes),
        kept.unwrap_or_default(),
        deletes.unwrap_or_default(),
    );
    let elastic = if full { elastic(columns) } else { String::new() };
    format!(
        "{}  {}\n\n{}{elastic}{}",
        style.bold(&table.name),
        style.dim(&summary),
        grid.render(),
        estimates(columns)
    )
}

/// What each column is optimized for, how hot it is, and which faster forms are held beside it; what these take in all.
fn elastic(columns: &[ColumnInfo]) -> String {
    let mut grid = Grid::new([
        ("column", false),
        ("optimized for", false),
        ("heat", true),
        ("faster, while memory has room", false),
        ("beside", true),
    ]);
    let beside = |column: &ColumnInfo| column.faster.iter().map(|form| form.bytes).sum::<u64>();
    for column in columns {
        let faster: Vec<_> =
            column.faster.iter().map(|e| format!("{} {}", e.fragments, e.encoding)).collect();
        let none = |text: String| if column.faster.is_empty() { "-".to_owned() } else { text };
        grid.row([
            column.field.name().clone(),
            optimized_for(column).unwrap_or("balanced").to_owned(),
            format!("{:.1}", column.heat),
            none(faster.join(", ")),
            none(human::bytes(beside(column))),
        ]);
    }
    let all = columns.iter().map(beside).sum();
    grid.row(["total".to_owned(), String::new(), String::new(), String::new(), human::bytes(all)]);
    format!("\n{}", grid.render())
}

/// `None`: neither size nor speed.
fn optimized_for(column: &ColumnInfo) -> Option<&str> {
    column.field.metadata().get(OPTIMIZE_KEY).map(String::as_str)
}

/// The encodings' size estimates for each column, the smallest first; nothing where nobody asked.
fn estimates(columns: &[ColumnInfo]) -> String {
    if columns.iter().all(|column| column.estimates.is_empty()) {
        return String::new();
    }
    let mut grid =
        Grid::new([("column", false), ("sizes by encoding, the smallest first; ~ is an estimate", false)]);
    for column in columns {
        let fragments: u64 = column.encodings.iter().map(|used| used.fragments).sum();
        let mut estimates: Vec<_> = column.estimates.iter().collect();
        estimates.sort_by_key(|estimate| (estimate.fragments != fragments, estimate.bytes));
        let estimate = |estimate: &&EncodingEstimate| {
            let about = if estimate.exact { "" } else { "~" };
            // An encoding that cannot hold all fragments has an estimate for those that it can.
            let part = if estimate.fragments == fragments {
                String::new()
            } else {
                format!(" ({} of {fragments} fragments)", estimate.fragments)
            };
            format!("{} {about}{}{part}", estimate.encoding, human::bytes(estimate.bytes))
        };
        grid.row([
            column.field.name().clone(),
            estimates.iter().map(estimate).collect::<Vec<_>>().join(", "),
        ]);
    }
    format!("\n{}", grid.render())
}

fn column_cells(column: &ColumnInfo, full: bool) -> Vec<String> {
    let mut data_type = type_name(column.field.data_type());
    if !column.field.is_nullable() {
        data_type.push_str(" not null");
    }
    if let Some(key) = column.field.metadata().get(REFERENCES_KEY) {
        data_type.push_str(" -> ");
        data_type.push_str(key);
    }
    if let Some(what) = optimized_for(column) {
        data_type.push_str(", for ");
        data_type.push_str(what);
    }
    let mut cells = vec![
        column.field.name().clone(),
        data_type,
        if column.nulls == 0 { "-".to_owned() } else { human::count(column.nulls) },
        encodings(column),
        human::bytes(column.bytes),
        bits_per_row(column.bytes, column.rows),
    ];
    if full {
        cells.push(bits(column.entropy_bits));
    }
    cells.extend([
        human::bytes(column.plain_bytes),
        ratio(column.plain_bytes, column.bytes, column.rows),
        column.min.as_ref().map_or_else(|| "-".to_owned(), shortened),
        column.max.as_ref().map_or_else(|| "-".to_owned(), shortened),
    ]);
    cells
}

/// The encodings; with the number of fragments where there are several.
fn encodings(column: &ColumnInfo) -> String {
    match column.encodings.as_slice() {
        [] => "-".to_owned(),
        [one] => one.encoding.clone(),
        many => {
            let parts: Vec<_> = many.iter().map(|e| format!("{} {}", e.fragments, e.encoding)).collect();
            parts.join(", ")
        }
    }
}

/// Of fewer rows it would be the headers that are measured.
fn bits_per_row(bytes: u64, rows: u64) -> String {
    if rows < human::FEW_ROWS { "-".to_owned() } else { format!("{:.3}", bytes as f64 * 8.0 / rows as f64) }
}

fn ratio(plain: u64, held: u64, rows: u64) -> String {
    if rows < human::FEW_ROWS { "-".to_owned() } else { human::ratio(plain, held) }
}

/// Rounding may leave the entropy of a constant a little below zero.
fn bits(entropy: Option<f64>) -> String {
    entropy.map_or_else(|| "-".to_owned(), |bits| format!("{:.3}", bits.max(0.0)))
}

fn shortened(literal: &Literal) -> String {
    let text = literal_text(literal);
    match text.char_indices().nth(VALUE_WIDTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A value as people write it.
pub(super) fn literal_text(literal: &Literal) -> String {
    match literal.kind() {
        None => "null".to_owned(),
        Some(Kind::Null(_)) => "null".to_owned(),
        Some(Kind::Bool(value)) => value.to_string(),
        Some(Kind::Int(value)) => value.to_string(),
        Some(Kind::Uint(value)) => value.to_string(),
        Some(Kind::Double(value)) => value.to_string(),
        Some(Kind::Text(value)) => value.clone(),
        Some(Kind::Date(days)) => Date(*days).to_string(),
        Some(Kind::Timestamp(micros)) => Timestamp(*micros).to_string(),
        Some(Kind::Decimal(decimal)) => match i8::try_from(decimal.scale) {
            Ok(scale) => {
                Decimal128Type::format_decimal(decimal.unscaled.into(), DECIMAL128_MAX_PRECISION, scale)
            }
            Err(_) => format!("{}e-{}", decimal.unscaled, decimal.scale),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};

    use super::*;
    use crate::table::EncodingUse;

    fn table() -> Table {
        let fields =
            vec![Field::new("dest", DataType::Utf8, false), Field::new("delay", DataType::Int32, true)];
        Table {
            name: "flights".to_owned(),
            schema: Arc::new(Schema::new(fields)),
            version: 3,
            rows: 1000,
            fragments: 2,
            bytes: 2200,
            retention: None,
            deletes: None,
        }
    }

    fn column(i: usize, entropy_bits: Option<f64>) -> ColumnInfo {
        let encoding = |name: &str, fragments| EncodingUse {
            encoding: name.to_owned(),
            fragments,
            ..Default::default()
        };
        let estimate = |name: &str, fragments, bytes| EncodingEstimate {
            encoding: name.to_owned(),
            fragments,
            bytes,
            exact: name != "packed",
        };
        ColumnInfo {
            field: table().schema.field(i).clone(),
            rows: 1000,
            nulls: [0, 12][i],
            bytes: [700, 1400][i],
            plain_bytes: [7000, 4125][i],
            encodings: [
                vec![encoding("dictionary(packed)", 2)],
                vec![encoding("packed", 1), encoding("plain", 1)],
            ][i]
                .clone(),
            entropy_bits,
            min: [Some("a rather long name of an airport".into()), None][i].clone(),
            max: [Some("ZZZ".into()), Some(Literal::decimal(-5, 2))][i].clone(),
            estimates: entropy_bits.map_or_else(Vec::new, |_| {
                vec![estimate("plain", 2, 2000), estimate("constant", 1, 8), estimate("packed", 2, 1400)]
            }),
            heat: [0.0, 12.25][i],
            faster: [Vec::new(), vec![EncodingUse { bytes: 2500, ..encoding("plain", 1) }]][i].clone(),
        }
    }

    #[test]
    fn descriptions() {
        let details = TableDetails { table: table(), columns: vec![column(0, None), column(1, None)] };
        let expected = "\
flights  1,000 rows in 2 fragments, version 3, 2.20 kB held

  column  type           nulls  encoding               held  bits/row    plain  ratio  min                        max
  dest    utf8 not null      -  dictionary(packed)    700 B     5.600  7.00 kB  10.0x  a rather long name of an…  ZZZ
  delay   int32             12  1 packed, 1 plain   1.40 kB    11.200  4.12 kB  2.95x  -                          -0.05
  total                                             2.10 kB    16.800  11.1 kB  5.30x
";
        assert_eq!(describe(&details), expected);

        let full =
            TableDetails { table: table(), columns: vec![column(0, Some(5.5)), column(1, Some(1.25))] };
        let text = describe(&full);
        assert!(text.contains("bits/row  entropy    plain"), "{text}");
        assert!(text.contains("16.800    6.750  11.1 kB"), "{text}");
        let estimates = "  dest    packed ~1.40 kB, plain 2.00 kB, constant 8 B (1 of 2 fragments)\n";
        assert!(text.contains(estimates), "{text}");
        let elastic = "
  column  optimized for  heat  faster, while memory has room   beside
  dest    balanced        0.0  -                                    -
  delay   balanced       12.2  1 plain                        2.50 kB
  total                                                       2.50 kB
";
        assert!(text.contains(elastic), "{text}");
    }

    #[test]
    fn what_a_column_is_optimized_for_stands_with_its_type() {
        let mut small = column(0, Some(5.5));
        small.field = small.field.with_metadata([(OPTIMIZE_KEY.to_owned(), "size".to_owned())].into());
        let text = describe(&TableDetails { table: table(), columns: vec![small, column(1, Some(1.0))] });
        assert!(text.contains("  dest    utf8 not null, for size "), "{text}");
        assert!(text.contains("  dest    size            0.0  "), "{text}");
    }

    #[test]
    fn lists_of_tables() {
        assert_eq!(tables(&[], &[], true), "no tables that this key may read\n");
        assert_eq!(tables(&[], &[], false), "no tables yet: `basalt load TABLE FILE` makes one\n");
        let expected =
            "  table     rows  columns     held  version\n  flights  1,000        2  2.20 kB        3\n";
        assert_eq!(tables(&[table()], &[], true), expected);
        let damaged = DamagedTable { name: "t".to_owned(), message: "a file is gone".to_owned() };
        let line = "not served: t: a file is gone\n";
        assert_eq!(tables(&[table()], std::slice::from_ref(&damaged), false), format!("{expected}{line}"));
        assert_eq!(tables(&[], &[damaged], true), line);
    }

    #[test]
    fn literals() {
        let check = |literal: Literal, expected: &str| assert_eq!(literal_text(&literal), expected);
        check(Literal::null(), "null");
        check((-5).into(), "-5");
        check(u64::MAX.into(), "18446744073709551615");
        check(0.5.into(), "0.5");
        check(true.into(), "true");
        check("text".into(), "text");
        check(Literal::decimal(5, 2), "0.05");
        check(Literal::decimal(5, 300), "5e-300");
        check(Literal::date(15_890), "2013-07-04");
        check(Literal::timestamp(0), "1970-01-01T00:00:00Z");
    }
}
