//! The tables of the first source for byte, packed and bitcompress columns: sizes, access, import and export,
//! beside what it published and what the chooser takes. Byte is `plain` of a bool or uint8, packed is its PFOR with
//! exceptions, and bitcompress is the source's own method. Then more distributions, in every encoding: sizes against
//! the entropy, and what filters, decoding, random rows, counts and encoding take.
//!
//! `cargo bench --profile dist -p basalt-benches --bench columns`; `-- --small` for a quick look, `sizes` or
//! `questions` for the tables of all encodings alone, any other word for the source's benchmarks by that name.

#![allow(clippy::unwrap_used, reason = "a benchmark stops at what goes wrong")]

use std::{collections::BTreeSet, env, hint::black_box, sync::Arc};

use basalt_benches::{
    columns::{questions, sizes, source},
    data::{self, DELETED, DISTRIBUTIONS, Distribution},
    table,
    timing::{self, Driver},
};
use basalt_core::{
    encoding::{EncodedKeys, KeyColumn, bitcompress, encode_keys},
    keys::{Native, NativeSlice},
    limits::FRAGMENT_ROWS,
};

/// The encodings by the source's names and by ours; the last is what the chooser takes.
const ENCODINGS: [(&str, Option<&str>); 4] = [
    ("byte", Some("plain")),
    ("packed", Some("packed")),
    ("bitcompress", Some("bitcompress")),
    (CHOOSER, None),
];
/// The distribution of the source's access times.
const SKEWED: &Distribution = &DISTRIBUTIONS[2];
const SMALL: usize = 60_000;
const IMPORTED: usize = 5_000;
/// Rows that one call of random access reads.
const RANDOM: usize = 16_384;
/// Rows that a scan of the chooser's column decodes at a time: few enough for the first-level cache.
const PIECE: usize = 2_048;

/// Which rows are read, in which order.
struct Pattern {
    name: &'static str,
    rows: fn(usize) -> Vec<u32>,
    /// Whether the rows ascend.
    scan: bool,
    /// Whether each row is asked of the column itself, without what a cursor remembers.
    without_cursor: bool,
    /// The source's nanoseconds for byte, PFOR and bitcompress.
    published: [&'static str; 3],
}

const SEQUENTIAL: Pattern = Pattern {
    name: "sequential scan",
    rows: |n| (0..).take(n).collect(),
    scan: true,
    without_cursor: false,
    published: ["1", "2", "4"],
};
const SPARSE_50: Pattern = Pattern {
    name: "sparse scan 50 %",
    rows: |n| data::sparse(u32::try_from(n).unwrap(), 0.5),
    scan: true,
    without_cursor: false,
    published: ["", "", "9"],
};
const SPARSE_10: Pattern = Pattern {
    name: "sparse scan 10 %",
    rows: |n| data::sparse(u32::try_from(n).unwrap(), 0.1),
    scan: true,
    without_cursor: false,
    published: ["", "", "16"],
};
const RANDOM_ACCESS: Pattern = Pattern {
    name: "random access",
    rows: |n| data::random(u32::try_from(n).unwrap(), RANDOM),
    scan: false,
    without_cursor: false,
    published: ["", "", "674"],
};
const RANDOM_GET: Pattern =
    Pattern { name: "random get", without_cursor: true, published: [""; 3], ..RANDOM_ACCESS };

const PATTERNS: [Pattern; 5] = [SEQUENTIAL, SPARSE_50, SPARSE_10, RANDOM_ACCESS, RANDOM_GET];

fn main() {
    let small = timing::small();
    let tables: [(&str, &dyn Fn()); 2] = [
        ("sizes", &|| size_rows().iter().for_each(|&rows| sizes::print_table(&source::all(), rows))),
        ("questions", &|| questions::print_tables(if small { SMALL } else { 1_000_000 })),
    ];
    let asked: Vec<String> = env::args().skip(1).collect();
    let of_all = tables.iter().filter(|(name, _)| asked.iter().any(|asked| asked == name));
    if of_all.clone().count() > 0 {
        of_all.for_each(|(_, print)| print());
        return;
    }
    let access_rows: &[usize] = if small { &[SMALL] } else { &[SMALL, 1_000_000] };
    let most = *access_rows.last().unwrap();

    let mut driver = Driver::from_args();
    for &rows in access_rows {
        let sample = Sample::new(SKEWED, rows);
        PATTERNS.iter().for_each(|pattern| sample.access(&mut driver, pattern));
    }
    for distribution in &DISTRIBUTIONS {
        let sample = Sample::new(distribution, most);
        if distribution.name != SKEWED.name {
            sample.access(&mut driver, &SEQUENTIAL);
            sample.access(&mut driver, &RANDOM_ACCESS);
        }
    }
    convert(&mut driver);

    size_rows().iter().for_each(|&rows| print_sizes(rows));
    print_access(&driver, access_rows);
    print_by_distribution(&driver, most, [SEQUENTIAL.name, RANDOM_ACCESS.name]);
    print_conversion(&driver);
    tables.iter().for_each(|(_, print)| print());
}

/// The rows of the tables of sizes.
fn size_rows() -> &'static [usize] {
    if timing::small() { &[SMALL] } else { &[SMALL, 1_000_000, 10_000_000] }
}

/// One distribution's values, in each encoding.
struct Sample {
    distribution: &'static Distribution,
    values: Vec<i64>,
    columns: Vec<Held>,
}

struct Held {
    label: &'static str,
    column: Arc<dyn KeyColumn>,
    bitcompress: Option<bitcompress::Column>,
}

impl Sample {
    fn new(distribution: &'static Distribution, rows: usize) -> Self {
        let values = distribution.sample(rows);
        let held = |(label, name)| {
            let column = encode(distribution, &values, name).column;
            let bitcompress = bitcompress::Column::open(column.buffer().clone()).ok();
            Held { label, column, bitcompress }
        };
        let columns = ENCODINGS.map(held).into();
        Self { distribution, values, columns }
    }

    fn id(&self, held: &Held) -> String {
        id(held.label, self.distribution, self.values.len())
    }

    fn access(&self, driver: &mut Driver, pattern: &Pattern) {
        let rows = (pattern.rows)(self.values.len());
        for held in &self.columns {
            held.visit(pattern, &rows, |place, key| assert_eq!(key, self.values[rows[place] as usize]));
            driver.time(pattern.name, &self.id(held), rows.len(), || {
                let mut sum = 0;
                held.visit(pattern, black_box(&rows), |_, key| sum += key);
                sum
            });
        }
    }
}

impl Held {
    /// Calls `seen` with the place in `rows` and the key of each of them, read one by one: from the array where
    /// the column is one, through the sequential cache where it has one, by decoding pieces where the chooser's column is
    /// scanned, and else by `get`.
    #[inline(always)]
    fn visit(&self, pattern: &Pattern, rows: &[u32], mut seen: impl FnMut(usize, i64)) {
        let rows = rows.iter().map(|&row| row as usize).enumerate();
        match (self.column.native(), &self.bitcompress) {
            (Some(NativeSlice::Bool(bytes) | NativeSlice::U8(bytes)), _) if !pattern.without_cursor => {
                rows.for_each(|(place, row)| seen(place, bytes[row].into()));
            }
            _ if pattern.scan && self.label == CHOOSER => {
                let (mut piece, mut first) = ([0; PIECE], usize::MAX);
                rows.for_each(|(place, row)| {
                    if first != row / PIECE * PIECE {
                        first = row / PIECE * PIECE;
                        self.column.decode(first, &mut piece[..(self.column.rows() - first).min(PIECE)]);
                    }
                    seen(place, piece[row % PIECE]);
                });
            }
            (_, Some(column)) if !pattern.without_cursor => {
                let mut cursor = column.cursor();
                rows.for_each(|(place, row)| seen(place, cursor.get(row)));
            }
            _ => rows.for_each(|(place, row)| seen(place, self.column.get(row))),
        }
    }
}

/// Encodes a fragment and checks that it decodes to the same.
fn encode(distribution: &Distribution, values: &[i64], forced: Option<&str>) -> EncodedKeys {
    let encoded = encode_keys(values, native(distribution), None, forced).unwrap();
    let mut decoded = vec![0; values.len()];
    encoded.column.decode(0, &mut decoded);
    assert!(decoded == values, "{} decodes to other keys", encoded.column.name());
    encoded
}

fn native(distribution: &Distribution) -> Native {
    if distribution.shares.len() == 2 { Native::Bool } else { Native::U8 }
}

const IMPORT: &str = "import";
const EXPORT: &str = "export";
/// The label of what the chooser takes.
const CHOOSER: &str = "chooser";

fn convert(driver: &mut Driver) {
    let values = SKEWED.sample(IMPORTED);
    for (label, forced) in ENCODINGS {
        let id = id(label, SKEWED, IMPORTED);
        let column = encode(SKEWED, &values, forced).column;
        driver.time(IMPORT, &id, IMPORTED, || {
            encode_keys(black_box(&values), native(SKEWED), None, forced).unwrap()
        });
        let mut keys = vec![0; IMPORTED];
        driver.time(EXPORT, &id, IMPORTED, || column.decode(0, black_box(&mut keys)));
    }
}

fn id(label: &str, distribution: &Distribution, rows: usize) -> String {
    format!("{label}, {}, {}", distribution.name, count(rows))
}

/// What the source says of sizes; empty where it says nothing. Its bits leave the index out.
fn published(label: &str, distribution: &Distribution, rows: usize) -> (&'static str, &'static str) {
    let bytes = match (rows, distribution.name, label) {
        (60_000, "bool 99/1", "byte") => "60,000",
        (60_000, "bool 99/1", "packed") => "7,500",
        (60_000, "bool 99/1", "bitcompress") => "1,086",
        (1_000_000, "bool 99/1", "byte") => "1,000,000",
        (1_000_000, "bool 99/1", "packed") => "125,000",
        (1_000_000, "bool 99/1", "bitcompress") => "14,270",
        (10_000_000, "bool 99.5/0.5", "byte") => "10 MB",
        (10_000_000, "bool 99.5/0.5", "packed") => "1.25 MB",
        (10_000_000, "bool 99.5/0.5", "bitcompress") => "~70 KB",
        _ => "",
    };
    let bits = match (distribution.name, label) {
        ("bool 99.5/0.5", _) => "",
        (_, CHOOSER) => "",
        (_, "byte") => "8.000",
        ("4-way 80/15/4/1", "packed") => "2.000",
        ("5-way skewed", "packed") => "3.000",
        (_, "packed") => "1.000",
        ("bool 50/50", _) => "1.094",
        ("bool 95/5", _) => "0.320",
        ("bool 99/1", _) => "0.088",
        ("4-way 80/15/4/1", _) => "1.011",
        ("5-way skewed", _) => "1.994",
        _ => "",
    };
    (bytes, bits)
}

fn print_sizes(rows: usize) {
    let deleted = (rows == 10_000_000).then_some(&DELETED);
    let lines: Vec<Vec<String>> =
        DISTRIBUTIONS.iter().chain(deleted).flat_map(|distribution| sizes(distribution, rows)).collect();
    table::print(
        &format!("Sizes, {} rows, everything counted", count(rows)),
        &[
            "distribution",
            "encoding",
            "bytes",
            "bits/elem",
            "of Shannon",
            "source: bytes",
            "source: bits/elem, no index",
        ],
        &lines,
    );
}

/// A line for each encoding, and one for what the chooser takes.
#[allow(clippy::cast_precision_loss, reason = "figures to print")]
fn sizes(distribution: &Distribution, rows: usize) -> Vec<Vec<String>> {
    let values = distribution.sample(rows);
    let entropy = data::entropy(&values);
    let fragments = |forced| {
        let columns = values.chunks(FRAGMENT_ROWS).map(move |keys| encode(distribution, keys, forced).column);
        columns.fold((0, BTreeSet::new()), |(bytes, mut names), column| {
            names.insert(column.name());
            (bytes + column.buffer().len(), names)
        })
    };
    let line = |encoding: String, bytes: usize, (source_bytes, source_bits): (&str, &str)| {
        let bits = 8.0 * bytes as f64 / rows as f64;
        vec![
            format!("{} (H = {entropy:.4})", distribution.name),
            encoding,
            table::grouped(bytes),
            format!("{bits:.4}"),
            format!("{:.3}x", bits / entropy),
            source_bytes.into(),
            source_bits.into(),
        ]
    };
    let lines = ENCODINGS.iter().map(|&(label, forced)| {
        let (bytes, names) = fragments(forced);
        let name = match forced {
            Some(_) => label.to_owned(),
            None => format!("{label}: {}", names.into_iter().collect::<Vec<_>>().join(", ")),
        };
        line(name, bytes, published(label, distribution, rows))
    });
    lines.collect()
}

fn print_access(driver: &Driver, sizes: &[usize]) {
    let lines: Vec<Vec<String>> = sizes
        .iter()
        .flat_map(|&rows| PATTERNS.iter().map(move |pattern| (rows, pattern)))
        .map(|(rows, pattern)| {
            let ours =
                ENCODINGS.map(|(label, _)| nanos(driver.nanos(pattern.name, &id(label, SKEWED, rows))));
            let name = format!("{}, {}", pattern.name, count(rows));
            std::iter::once(name).chain(ours).chain(pattern.published.map(String::from)).collect()
        })
        .collect();
    table::print(
        &format!("Access, {}, ns for each row visited", SKEWED.name),
        &[
            "rows",
            "byte",
            "packed",
            "bitcompress",
            CHOOSER,
            "source: byte",
            "source: PFOR",
            "source: bitcompress",
        ],
        &lines,
    );
}

fn print_by_distribution(driver: &Driver, rows: usize, groups: [&str; 2]) {
    let header: Vec<String> = std::iter::once("distribution".into())
        .chain(groups.iter().flat_map(|group| ENCODINGS.map(|(label, _)| format!("{group}: {label}"))))
        .collect();
    let line = |distribution: &Distribution| {
        let figures = groups.iter().flat_map(|group| {
            ENCODINGS.map(|(label, _)| nanos(driver.nanos(group, &id(label, distribution, rows))))
        });
        std::iter::once(distribution.name.into()).chain(figures).collect()
    };
    table::print(
        &format!("By distribution: {} and {}, {} rows, ns a row", groups[0], groups[1], count(rows)),
        &header.iter().map(String::as_str).collect::<Vec<_>>(),
        &DISTRIBUTIONS.iter().map(line).collect::<Vec<_>>(),
    );
}

fn print_conversion(driver: &Driver) {
    let labels = ENCODINGS.map(|(label, _)| label);
    let line = |group: &str, published: &str| {
        let micros = |label| {
            let nanos = driver.nanos(group, &id(label, SKEWED, IMPORTED));
            nanos.map_or_else(String::new, |nanos| format!("{:.2}", nanos * IMPORTED as f64 / 1e3))
        };
        std::iter::once(group.into()).chain(labels.map(micros)).chain([published.into()]).collect()
    };
    table::print(
        &format!("Import and export of {} rows, {}, us", count(IMPORTED), SKEWED.name),
        &["", "byte", "packed", "bitcompress", CHOOSER, "source: bitcompress"],
        &[line(IMPORT, "45"), line(EXPORT, "22")],
    );
}

fn nanos(nanos: Option<f64>) -> String {
    nanos.map_or_else(String::new, |n| match n {
        n if n < 1.0 => format!("{n:.3}"),
        n if n < 100.0 => format!("{n:.2}"),
        n => format!("{n:.0}"),
    })
}

/// `60k`, `10M`.
fn count(n: usize) -> String {
    if n.is_multiple_of(1_000_000) { format!("{}M", n / 1_000_000) } else { format!("{}k", n / 1_000) }
}
