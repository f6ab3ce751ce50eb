//! Tables in Markdown, aligned on the terminal too.

/// Prints rows under a header, every column as wide as its widest cell. The first column and those of words are
/// left-aligned, the others right-aligned.
#[allow(clippy::print_stdout, reason = "a benchmark's output")]
pub fn print(title: &str, header: &[&str], rows: &[Vec<String>]) {
    let columns: Vec<(usize, bool)> = (0..header.len())
        .map(|i| {
            let cells = || rows.iter().filter_map(|row| row.get(i));
            let width = cells().map(|cell| cell.chars().count()).chain([header[i].chars().count()]).max();
            let words = cells().all(|cell| cell.starts_with(char::is_alphabetic));
            (width.unwrap_or(0), i == 0 || words)
        })
        .collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&columns).map(|(cell, &(width, left))| {
            if left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = columns.iter().map(|&(width, left)| {
        let end = if left { '-' } else { ':' };
        format!("-{}{end}", "-".repeat(width))
    });
    println!("\n### {title}\n");
    println!("{}", line(&header.iter().map(|h| (*h).to_owned()).collect::<Vec<_>>()));
    println!("|{}|", rule.collect::<Vec<_>>().join("|"));
    rows.iter().for_each(|row| println!("{}", line(row)));
}

/// `1,000,000`.
pub fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three digits that matter: `0.00123`, `1.23`, `123`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a handful of digits")]
pub fn figure(value: f64) -> String {
    let whole = value.abs().max(1e-9).log10().floor();
    format!("{value:.*}", (2.0 - whole).clamp(0.0, 9.0) as usize)
}

/// Milliseconds.
pub fn millis(seconds: f64) -> String {
    figure(seconds * 1e3)
}
