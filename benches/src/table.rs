//! Aligned tables on the terminal.

/// Prints rows under a header, every column as wide as its widest cell; the first is left-aligned, the others
/// right-aligned.
#[allow(clippy::print_stdout, reason = "a benchmark's output")]
pub fn print(title: &str, header: &[&str], rows: &[Vec<String>]) {
    let width = |i: usize| {
        let cells = rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count());
        cells.chain(std::iter::once(header[i].chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(i, (cell, width))| {
            if i == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
    };
    println!("\n### {title}\n");
    println!("{}", line(&header.iter().map(|h| (*h).to_owned()).collect::<Vec<_>>()));
    println!("|{}|", widths.iter().map(|w| "-".repeat(w + 2)).collect::<Vec<_>>().join("|"));
    rows.iter().for_each(|row| println!("{}", line(row)));
}
