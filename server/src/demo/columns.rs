//! What the columns take: the encodings chosen, bits a value, against entropy and plain arrays.

use basalt_client::{
    Client, ColumnInfo,
    cli::{human, output::Grid},
    type_name,
};

use super::{
    Error,
    report::{self, Style},
};

/// Characters of the bar that stands for a plain column.
const BAR: usize = 16;

/// The columns of `detailed`, and the sums of `all`.
pub(super) async fn show(
    client: &Client,
    all: &[&str],
    detailed: &[&str],
    style: Style,
) -> Result<(), Error> {
    for name in detailed {
        let details = client.table_full(name).await?;
        let rows = human::count(details.table.rows);
        println!("{}", style.bold(&format!("Columns of {name}, {rows} rows")));
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
        println!("{}", grid.render());
    }
    let note =
        "entropy: bits a value, of the values' frequencies alone, without what tells the values themselves";
    println!("  {}\n", style.dim(note));

    println!("{}", style.bold("Tables in memory"));
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
    println!("{}", grid.render());
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

fn bar(held: u64, plain: u64) -> String {
    report::bar(held as f64 / plain.max(1) as f64, BAR)
}
