//! How the demo looks: bars, and colour on a terminal alone.

use std::io::IsTerminal as _;

/// Colours and weights, or nothing where they would be noise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    /// Colour if standard output is a terminal and `NO_COLOR` is not set (<https://no-color.org>).
    pub(crate) fn detect() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: std::io::stdout().is_terminal() && !refused }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn accent(self, text: &str) -> String {
        self.paint("36", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// `share` of a bar of `cells` characters, in eighths.
pub(crate) fn bar(share: f64, cells: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the bar")]
    let eighths = (share.clamp(0.0, 1.0) * cells as f64 * 8.0).round() as usize;
    let mut text = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    if text.is_empty() && share > 0.0 {
        text.push_str(EIGHTHS[1]);
    }
    let rest = cells - text.chars().count();
    text + &"·".repeat(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_its_share() {
        assert_eq!(bar(0.0, 4), "····");
        assert_eq!(bar(0.0001, 4), "▏···");
        assert_eq!(bar(0.5, 4), "██··");
        assert_eq!(bar(0.53125, 4), "██▏·");
        assert_eq!(bar(7.0, 4), "████");
    }

    #[test]
    fn colour_is_left_out_where_it_is_not_wanted() {
        assert_eq!(Style { colour: true }.bold("a"), "\x1b[1ma\x1b[0m");
        assert_eq!(Style { colour: false }.bold("a"), "a");
    }
}
