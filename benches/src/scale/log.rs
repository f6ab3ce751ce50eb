//! A Delta log of many data files that are not there: its entries are those of a server, its digests and bounds made up.

use std::{fmt::Write as _, fs, path::Path, sync::Arc};

use basalt_core::schema::{DataType, Field, Schema};
use indicatif::{ProgressBar, ProgressStyle};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

/// Rows of a fragment.
pub const FRAGMENT_ROWS: u64 = 1 << 20;
/// Row groups of a fragment's file.
const GROUPS: usize = 8;
/// Fragments that one commit adds.
const EACH_COMMIT: usize = 250;
const ALPHABET: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// Sixteen columns, as a table of orders has them: whole numbers, money, times and two texts.
pub fn schema() -> Arc<Schema> {
    let whole = |name: &str| Field::new(name, DataType::Int64, true);
    let mut fields = vec![whole("id"), Field::new("at", DataType::Timestamp, true)];
    fields.push(Field::new("day", DataType::Date32, true));
    let money = DataType::Decimal { precision: 15, scale: 2 };
    fields.extend(["price", "discount", "tax", "cost"].map(|name| Field::new(name, money, true)));
    fields.extend(["customer", "part", "supplier", "store", "cashier", "quantity", "line"].map(whole));
    fields.extend(["mode", "status"].map(|name| Field::new(name, DataType::Utf8, true)));
    Arc::new(Schema::new(fields).unwrap_or_else(|e| unreachable!("the schema is valid: {e}")))
}

/// The least and the greatest `id` of a fragment.
pub fn ids(fragment: u64) -> (u64, u64) {
    (fragment * FRAGMENT_ROWS, (fragment + 1) * FRAGMENT_ROWS - 1)
}

/// Writes versions of a table of [`schema`] behind its first one, which add so many fragments; how many versions.
///
/// # Errors
/// Those of the disk.
pub fn write(log: &Path, fragments: usize, now: i64) -> std::io::Result<u64> {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {eta}");
    // Default: a bar without these columns.
    let progress =
        ProgressBar::new(fragments as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    progress.set_message("writing the log");
    let mut random = StdRng::seed_from_u64(1);
    let mut version = 0;
    for first in (0..fragments).step_by(EACH_COMMIT) {
        version += 1;
        let last = fragments.min(first + EACH_COMMIT);
        let mut text = format!("{{\"commitInfo\":{{\"timestamp\":{now},\"operation\":\"WRITE\"}}}}\n");
        let _ = writeln!(
            text,
            r#"{{"txn":{{"appId":"basalt.nextFragment","version":{last},"lastUpdated":{now}}}}}"#
        );
        for fragment in first..last {
            add(&mut text, fragment as u64, now, &mut random);
        }
        fs::write(log.join(format!("{version:020}.json")), text)?;
        progress.inc((last - first) as u64);
    }
    progress.finish_and_clear();
    Ok(version)
}

fn add(text: &mut String, fragment: u64, now: i64, random: &mut StdRng) {
    let (from, to) = ids(fragment);
    let day = |n: u64| format!("\"20{:02}-{:02}-{:02}\"", n / 336 % 100, n / 28 % 12 + 1, n % 28 + 1);
    let (mut least, mut greatest, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
    for field in schema().fields() {
        let name = &field.name;
        let mut bounds = |a: String, b: String| {
            least.push(format!("\"{name}\":{a}"));
            greatest.push(format!("\"{name}\":{b}"));
        };
        match field.data_type {
            _ if name == "id" => bounds(from.to_string(), to.to_string()),
            DataType::Timestamp => {
                let at = |time: &str| format!("{}T{time}Z\"", day(fragment).trim_end_matches('"'));
                bounds(at("00:00:00.000001"), at("23:59:59.123456"));
            }
            DataType::Date32 => bounds(day(fragment), day(fragment + 1)),
            DataType::Decimal { .. } => {
                bounds(
                    format!("{}.05", random.random_range(0..90)),
                    format!("{}.99", random.random_range(100..99_999)),
                );
            }
            DataType::Utf8 => bounds("\"AIR\"".to_owned(), "\"TRUCK\"".to_owned()),
            _ => bounds(
                random.random_range(0..90).to_string(),
                random.random_range(100..9_999_999).to_string(),
            ),
        }
        nulls.push(format!("\"{name}\":0"));
    }
    let digests: String =
        (0..(2 + GROUPS * least.len()) * 2).flat_map(|_| word(random)).map(char::from).collect();
    let stats = format!(
        r#"{{"numRecords":{FRAGMENT_ROWS},"minValues":{{{}}},"maxValues":{{{}}},"nullCount":{{{}}}}}"#,
        least.join(","),
        greatest.join(","),
        nulls.join(",")
    );
    let id: u128 = random.random();
    let _ = writeln!(
        text,
        r#"{{"add":{{"path":"part-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}.zstd.parquet","partitionValues":{{}},"size":{},"modificationTime":{now},"dataChange":true,"stats":"{}","tags":{{"basalt.encodedBytes":"{}","basalt.fragment":"{fragment}","basalt.xxh3":"{digests}"}}}}}}"#,
        id >> 96,
        id >> 80 & 0xffff,
        id >> 64 & 0xffff,
        id >> 48 & 0xffff,
        id & 0xffff_ffff_ffff,
        random.random_range(20_000_000..40_000_000_u32),
        stats.replace('"', "\\\""),
        random.random_range(20_000_000..40_000_000_u32),
    );
}

/// Four bytes as Z85 has them.
fn word(random: &mut StdRng) -> [u8; 5] {
    let word: u32 = random.random();
    [52_200_625, 614_125, 7225, 85, 1].map(|power| ALPHABET[(word / power % 85) as usize])
}
