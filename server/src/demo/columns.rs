//! What the columns take: the encodings chosen, bits a value, against entropy and plain arrays.

use std::io::{self, Write as _};

use basalt_client::{
    Client, ColumnInfo,
    cli::{grid::Grid, human, style::Style},
    type_name,
};

use super::Error;

/// Characters of the bar that stands for a plain column.
const BAR: usize = 16;

/// The columns of `detailed`, and the sums of `all`.
pub(super) async fn show(
    client: &Client,
    all: &[&str],
    detailed: &[&str],
    style: Style,
) -> Result<(), Error> {
    let mut out = io::stdout();
    for name in detailed {
        let details = client.table_full(name).await?;
        let rows = human::count(details.table.rows);
        writeln!(out, "{}", style.bold(&format!("Columns of {name}, {rows} rows")))?;
        let mut grid = Grid::new([
            ("column", false),
            ("type", false),
            ("encoding", false),
            ("bytes", true),
            ("bits/value", true),
            ("entropy", true),
            ("plain", true),
            ("ratio", true),
            ("held of plain", false),
        ]);
        for column in &details.columns {
            grid.row(row(column));
        }
        writeln!(out, "{}", grid.render())?;
    }
    let note =
        "entropy: bits a value, of the values' frequencies alone, without what tells the values themselves";
    writeln!(out, "  {}\n", style.dim(note))?;

    writeln!(out, "{}", style.bold("Tables in memory"))?;
    let mut grid = Grid::new([
        ("table", false),
        ("rows", true),
        ("held", true),
        ("plain", true),
        ("ratio", true),
        ("held of plain", false),
    ]);
    let (mut rows, mut held, mut plain) = (0, 0, 0);
    for name in all {
        let details = client.table(name).await?;
        let table_plain = details.columns.iter().map(|column| column.plain_bytes).sum();
        grid.row(total(name, details.table.rows, details.table.bytes, table_plain));
        rows += details.table.rows;
        held += details.table.bytes;
        plain += table_plain;
    }
    grid.row(total("all", rows, held, plain));
    writeln!(out, "{}", grid.render())?;
    Ok(())
}

fn row(column: &ColumnInfo) -> Vec<String> {
    let bits = |bits: f64| format!("{bits:.2}");
    let a_row = |bytes: u64| bits(bytes as f64 * 8.0 / column.rows.max(1) as f64);
    vec![
        column.field.name().clone(),
        type_name(column.field.data_type()),
        encoding(column),
        human::bytes(column.bytes),
        a_row(column.bytes),
        column.entropy_bits.map_or_else(String::new, bits),
        a_row(column.plain_bytes),
        human::ratio(column.plain_bytes, column.bytes),
        bar(column.bytes, column.plain_bytes),
    ]
}

fn total(name: &str, rows: u64, held: u64, plain: u64) -> Vec<String> {
    vec![
        name.to_owned(),
        human::count(rows),
        human::bytes(held),
        human::bytes(plain),
        human::ratio(plain, held),
        bar(held, plain),
    ]
}

/// The encoding of most rows, and how many others there are.
fn encoding(column: &ColumnInfo) -> String {
    let Some(most) = column.encodings.iter().max_by_key(|encoding| encoding.rows) else {
        return String::new();
    };
    match column.encodings.len() - 1 {
        0 => most.encoding.clone(),
        others => format!("{} +{others}", most.encoding),
    }
}

/// `held` as a part of `plain`, in eighths of characters.
fn bar(held: u64, plain: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = (held as f64 / plain.max(1) as f64).min(1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the bar's length")]
    let eighths = (share * BAR as f64 * 8.0).round() as usize;
    // What is there is seen.
    let eighths = eighths.max(usize::from(held > 0));
    let filled = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    let rest = "·".repeat(BAR - eighths.div_ceil(8));
    filled + &rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_the_part_held() {
        let check =
            |held, expected: &str| assert_eq!(bar(held, 1 << 20).trim_end_matches('·'), expected, "{held}");
        check(0, "");
        check(1, "▏");
        check(1 << 19, "████████");
        check((1 << 19) + (1 << 13), "████████▏");
        check(u64::MAX, "████████████████");
        assert!((0..200).all(|held| bar(held, 100).chars().count() == BAR));
    }
}
