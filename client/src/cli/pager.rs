//! A text that has more lines than the terminal, through the user's pager.

use std::{
    io::{self, Write as _},
    process::{Command, Stdio},
};

use super::grid::terminal_size_of;

/// Which pager: lines are not folded, colours are kept, and it ends by itself where there is nothing to page.
const DEFAULT: &str = "less -SRFX";

/// Prints a text, by `BASALT_PAGER` or `PAGER` where it is longer than the terminal. The text is printed where there is no such
/// program, or the variable is empty.
pub(crate) fn show(text: &str) -> io::Result<()> {
    let lines = terminal_size_of(&io::stdout()).map_or(usize::MAX, |(_, lines)| lines);
    let pager = std::env::var("BASALT_PAGER").or_else(|_| std::env::var("PAGER"));
    let pager = pager.unwrap_or_else(|_| DEFAULT.to_owned());
    if text.lines().count() < lines || pager.trim().is_empty() {
        return io::stdout().write_all(text.as_bytes());
    }
    // The pager's name is the user's own, with its arguments.
    let child = Command::new("sh").arg("-c").arg(format!("{pager} || cat")).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return io::stdout().write_all(text.as_bytes()) };
    if let Some(mut input) = child.stdin.take() {
        match input.write_all(text.as_bytes()) {
            // It has seen enough.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    child.wait().map(drop)
}
