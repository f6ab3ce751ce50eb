//! Weights and colours, on terminals alone.

use std::io::IsTerminal;

/// Paints for one output stream, or leaves texts as they are.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    paints: bool,
}

impl Style {
    /// Paints if `stream` is a terminal and `NO_COLOR` is not set (<https://no-color.org>).
    pub fn of(stream: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { paints: stream.is_terminal() && !refused }
    }

    /// Paints whatever the output is.
    #[cfg(test)]
    pub(crate) fn always() -> Self {
        Self { paints: true }
    }

    /// Heavier, as headings are.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Lighter, as what explains is.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// As errors are.
    pub fn red(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// As what went well is.
    pub fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.paints { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
