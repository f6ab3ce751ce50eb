//! Tables of text without frames, which fit the terminal: wide texts are cut; what still has no room is turned, a line for
//! each value, or folded into tables one below the other.

use std::io;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::style::Style;

/// Spaces before a line.
const INDENT: usize = 2;
/// Spaces between columns.
const GAP: usize = 2;
/// A column of texts is not cut below this.
const LEAST_TEXT: usize = 12;
/// A column of a folded table is cut to this.
const MOST_FOLDED: usize = 40;
/// With more rows a table is folded, and not turned.
const TURNED_ROWS: usize = 5;

/// The columns of the terminal that an output is; `None` of a file or a pipe, whose lines may be of any length.
pub fn terminal_width() -> Option<usize> {
    terminal_size_of(&io::stdout()).map(|(columns, _)| columns)
}

/// The columns and lines of the terminal that an output is.
pub(crate) fn terminal_size_of(output: &(impl io::IsTerminal + std::os::fd::AsFd)) -> Option<(usize, usize)> {
    let (columns, lines) = terminal_size::terminal_size_of(output)?;
    (output.is_terminal() && columns.0 > 0).then(|| (columns.0.into(), lines.0.into()))
}

/// A table without frames whose columns are as wide as their widest cell, or as the terminal allows: headers, then rows.
#[derive(Debug)]
pub struct Grid {
    headers: Vec<Cell>,
    /// Whether a column holds numbers, which stand at the right and are never cut.
    numbers: Vec<bool>,
    rows: Vec<Vec<Cell>>,
    width: Option<usize>,
    /// Rows go by their numbers where the table is folded, and not by their first column.
    numbered: bool,
    style: Style,
}

/// A text and the columns of a terminal that it takes.
#[derive(Debug)]
struct Cell {
    text: String,
    width: usize,
}

impl Cell {
    fn new(text: &str) -> Self {
        let text = escape(text);
        let width = text.width();
        Self { text, width }
    }
}

/// How a table is shown.
#[derive(Debug, PartialEq, Eq)]
enum Layout {
    /// As one, with the width of each column.
    Whole(Vec<usize>),
    /// Below each other, with the columns of each and their widths.
    Folded(Vec<Vec<(usize, usize)>>),
    /// A line for each value.
    Turned,
}

impl Grid {
    /// A grid of columns: their headers, and whether they hold numbers, which stand at the right.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, bool)>) -> Self {
        let (headers, numbers) =
            columns.into_iter().map(|(header, right)| (Cell::new(header), right)).unzip();
        let style = Style::of(&io::stdout());
        Self { headers, numbers, rows: Vec::new(), width: terminal_width(), numbered: false, style }
    }

    /// Fits it into so many columns; `None`: into as many as it takes.
    #[must_use]
    pub fn within(mut self, width: Option<usize>) -> Self {
        self.width = width;
        self
    }

    /// Has no column by which its rows are known.
    #[must_use]
    pub(crate) fn numbered(mut self) -> Self {
        self.numbered = true;
        self
    }

    /// Adds a row: a cell for every column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| Cell::new(&cell)).collect());
    }

    /// The lines, each indented by two, the headers dimmed on a terminal.
    pub fn render(&self) -> String {
        match self.layout() {
            Layout::Whole(widths) => self.table(&widths.into_iter().enumerate().collect::<Vec<_>>()),
            Layout::Folded(tables) => {
                let tables: Vec<_> = tables.iter().map(|columns| self.table(columns)).collect();
                tables.join("\n")
            }
            Layout::Turned => self.turned(),
        }
    }

    /// Whether the terminal has no room for all of a text.
    pub(crate) fn is_cut(&self) -> bool {
        let natural = self.natural();
        match self.layout() {
            Layout::Whole(widths) => widths != natural,
            Layout::Folded(tables) => {
                let all = tables.iter().flatten();
                all.filter(|(column, _)| *column < natural.len())
                    .any(|(column, width)| *width < natural[*column])
            }
            Layout::Turned => false,
        }
    }

    /// How wide each column is if nothing is cut.
    fn natural(&self) -> Vec<usize> {
        let mut widths: Vec<_> = self.headers.iter().map(|header| header.width).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width.max(*width);
            }
        }
        widths
    }

    fn layout(&self) -> Layout {
        let natural = self.natural();
        let Some(room) = self.width.filter(|room| taken(&natural) > *room) else {
            return Layout::Whole(natural);
        };
        let floor = |(column, width): (usize, &usize)| match self.numbers[column] {
            true => *width,
            false => (*width).min(LEAST_TEXT.max(self.headers[column].width)),
        };
        let floors: Vec<_> = natural.iter().enumerate().map(floor).collect();
        if taken(&floors) <= room {
            return Layout::Whole(shrunk(&natural, &floors, room));
        }
        if self.rows.len() <= TURNED_ROWS && self.numbered {
            return Layout::Turned;
        }
        Layout::Folded(self.folded(&natural, &floors, room))
    }

    /// Each table has what tells the rows apart, and as many columns as there is room for. The column behind the last is
    /// that of the rows' numbers.
    fn folded(&self, natural: &[usize], floors: &[usize], room: usize) -> Vec<Vec<(usize, usize)>> {
        let folded =
            |column: usize| natural[column].min(MOST_FOLDED.max(floors[column])).min(room - INDENT.min(room));
        let (first, others) = match self.numbered {
            true => ((natural.len(), self.rows.len().to_string().len()), 0..natural.len()),
            false => ((0, folded(0).min(room / 2)), 1..natural.len()),
        };
        let mut tables = vec![vec![first]];
        let mut used = INDENT + first.1;
        for column in others {
            let width = folded(column);
            if used + GAP + width > room && tables.last().is_some_and(|table| table.len() > 1) {
                tables.push(vec![first]);
                used = INDENT + first.1;
            }
            // One that has a table to itself may still be too wide.
            let width = width.min(room.saturating_sub(used + GAP)).max(1);
            used += GAP + width;
            if let Some(table) = tables.last_mut() {
                table.push((column, width));
            }
        }
        tables
    }

    fn table(&self, columns: &[(usize, usize)]) -> String {
        let mut text = self.line(columns, |column| self.headers.get(column), "", true);
        for (number, row) in self.rows.iter().enumerate() {
            text.push_str(&self.line(columns, |column| row.get(column), &(number + 1).to_string(), false));
        }
        text
    }

    fn line<'a>(
        &'a self,
        columns: &[(usize, usize)],
        cell: impl Fn(usize) -> Option<&'a Cell>,
        number: &str,
        is_header: bool,
    ) -> String {
        let mut line = String::new();
        for (i, (column, width)) in columns.iter().enumerate() {
            let is_right = self.numbers.get(*column).copied().unwrap_or(true);
            let (text, taken) = match cell(*column) {
                Some(cell) if cell.width > *width => (cut(&cell.text, *width), *width),
                Some(cell) => (cell.text.clone(), cell.width),
                None => (number.to_owned(), number.len()),
            };
            let spaces = " ".repeat(width.saturating_sub(taken));
            line.push_str(if i == 0 { "" } else { "  " });
            let [before, after] = if is_right { [spaces.as_str(), ""] } else { ["", spaces.as_str()] };
            line.extend([before, &text, after]);
        }
        let line = line.trim_end();
        format!("  {}\n", if is_header { self.style.dim(line) } else { line.to_owned() })
    }

    /// The headers at the left, and what a line has no room for on the next ones.
    fn turned(&self) -> String {
        let names = self.headers.iter().map(|header| header.width).max().unwrap_or_default();
        let room = self.width.unwrap_or(usize::MAX).saturating_sub(INDENT + names + GAP).max(LEAST_TEXT);
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            if self.rows.len() > 1 {
                text.push_str(&format!("  {}\n", self.style.bold(&format!("row {}", number + 1))));
            }
            for (header, cell) in self.headers.iter().zip(row) {
                let name = format!("{}{}", header.text, " ".repeat(names - header.width));
                for (i, part) in wrapped(&cell.text, room).into_iter().enumerate() {
                    let name = if i == 0 { self.style.dim(&name) } else { " ".repeat(names) };
                    text.push_str(format!("  {name}  {part}").trim_end());
                    text.push('\n');
                }
            }
        }
        text
    }
}

/// A table in which each row is turned, whatever the terminal's width.
pub(crate) fn turned(mut grid: Grid) -> String {
    grid.numbered = true;
    grid.turned()
}

/// The columns of a terminal that a line takes.
fn taken(widths: &[usize]) -> usize {
    INDENT + widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// The widths below one bound for all, the largest that the room allows; no column is below its floor.
fn shrunk(natural: &[usize], floors: &[usize], room: usize) -> Vec<usize> {
    let within = |most: usize| -> Vec<usize> {
        natural.iter().zip(floors).map(|(natural, floor)| (*natural).min(most.max(*floor))).collect()
    };
    let (mut fits, mut not) = (0, room);
    while fits + 1 < not {
        let middle = usize::midpoint(fits, not);
        if taken(&within(middle)) <= room { fits = middle } else { not = middle }
    }
    within(fits)
}

/// The beginning of a text, and that there is more.
fn cut(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut left = width.saturating_sub(1);
    for c in text.chars() {
        let Some(rest) = left.checked_sub(c.width().unwrap_or(0)) else { break };
        left = rest;
        out.push(c);
    }
    // A wide character may leave a column, which the sign of the cut does not fill.
    format!("{out}…{}", " ".repeat(left))
}

/// A text in pieces of a width.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide > width {
            lines.push(String::new());
            used = 0;
        }
        used += wide;
        if let Some(line) = lines.last_mut() {
            line.push(c);
        }
    }
    lines
}

/// Line breaks and other control characters would tear the table, or steer the terminal.
pub(crate) fn escape(cell: &str) -> String {
    if !cell.chars().any(char::is_control) {
        return cell.to_owned();
    }
    let mut out = String::with_capacity(cell.len() + 8);
    for c in cell.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// The same of each line of a text, whose tabs stay: marks below a line stand where they do with them.
pub(crate) fn escape_lines(text: &str) -> String {
    let escaped = |line: &str| line.split('\t').map(escape).collect::<Vec<_>>().join("\t");
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn grid(width: usize, texts: &[usize], rows: usize) -> Grid {
        let names: Vec<String> = (0..texts.len()).map(|i| format!("c{i}")).collect();
        let mut grid = Grid::new(names.iter().map(|name| (name.as_str(), false))).within(Some(width));
        for row in 0..rows {
            grid.row(texts.iter().map(|length| row.to_string().repeat(*length)));
        }
        grid
    }

    fn widest(text: &str) -> usize {
        text.lines().map(UnicodeWidthStr::width).max().unwrap_or_default()
    }

    #[test]
    fn wide_texts_are_cut_and_narrow_ones_are_not() {
        let grid = grid(50, &[3, 60, 5, 30], 2);
        let text = grid.render();
        assert_eq!(
            text,
            "  c0   c1                 c2     c3\n  000  0000000000000000…  00000  0000000000000000…\n  \
             111  1111111111111111…  11111  1111111111111111…\n"
        );
        assert!(grid.is_cut());
        assert!(!grid.within(None).is_cut());
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [30, 40, 80, 81, 200] {
            for columns in [1, 2, 5, 19] {
                for (numbered, rows) in [(true, 3), (true, 30), (false, 3), (false, 30)] {
                    let mut grid = grid(width, &vec![14; columns], rows);
                    grid.numbered = numbered;
                    let text = grid.render();
                    assert!(widest(&text) <= width, "{width} {columns} {rows}\n{text}");
                }
            }
        }
    }

    #[test]
    fn folded_tables_have_every_column_once() {
        let mut grid = grid(40, &[12; 7], 6);
        let Layout::Folded(tables) = grid.layout() else { panic!("not folded") };
        assert_eq!(tables.iter().map(Vec::len).collect::<Vec<_>>(), [2; 6]);
        assert!(tables.iter().all(|table| table[0] == (0, 12)));
        grid.numbered = true;
        let text = grid.render();
        assert!(text.starts_with("     c0            c1\n  1  000000000000  000000000000\n"), "{text}");
        assert_eq!(text.matches("  c6").count(), 1);
    }

    #[test]
    fn few_rows_are_turned() {
        let mut grid = Grid::new([("name", false), ("a long header", true)]).within(Some(30)).numbered();
        grid.row(["x".repeat(20), "1".repeat(25)]);
        assert_eq!(
            grid.render(),
            "  name           xxxxxxxxxxxxx\n                 xxxxxxx\n  a long header  1111111111111\n                 111111111111\n"
        );
    }

    #[test]
    fn what_steers_a_terminal_is_shown() {
        let text = "'a\u{1b}[31mred\u{1b}[0m' is no\tbigint\n  \u{9b}2J\r\n\r x";
        let shown = "'a\\u{1b}[31mred\\u{1b}[0m' is no\tbigint\n  \\u{9b}2J\n\\r x";
        assert_eq!(escape_lines(text), shown);
        assert_eq!(escape_lines("as it is\n  é"), "as it is\n  é");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(cut("日本語", 4), "日… ");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(wrapped("日本語", 4), ["日本", "語"]);
    }
}
