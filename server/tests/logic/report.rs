//! What came of a folder's files: how many queries were answered right, refused and answered wrong, and the refusals by
//! what it is that was refused.

use std::{collections::BTreeMap, fmt::Write as _};

/// What came of a query.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Right,
    /// By an error; which construct, as far as it can be told.
    Refused(String),
    /// A table of it could not be made as the file has it.
    NotAsked(String),
    /// An answer that is not the expected one; how they differ.
    Wrong(String),
    /// An answer that is the expected one but for what the table of semantics says; which row of it.
    Decided(&'static str),
    /// An answer where an error was expected.
    Lenient,
}

/// A query, where it stands, and what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) folder: String,
    pub(crate) file: String,
    pub(crate) sql: String,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    right: usize,
    decided: usize,
    refused: usize,
    wrong: usize,
    not_asked: usize,
    lenient: usize,
}

impl Tally {
    fn count(&mut self, outcome: &Outcome) {
        *match outcome {
            Outcome::Right => &mut self.right,
            Outcome::Refused(_) => &mut self.refused,
            Outcome::NotAsked(_) => &mut self.not_asked,
            Outcome::Wrong(_) => &mut self.wrong,
            Outcome::Decided(_) => &mut self.decided,
            Outcome::Lenient => &mut self.lenient,
        } += 1;
    }

    fn line(&self, name: &str) -> String {
        let Self { right, decided, refused, wrong, not_asked, lenient } = self;
        let asked = right + decided + refused + wrong;
        #[allow(clippy::cast_precision_loss, reason = "there are not so many")]
        let share = 100.0 * (right + decided) as f64 / asked.max(1) as f64;
        format!(
            "{name:<16} {asked:>7} {right:>7} {decided:>8} {refused:>8} {wrong:>6} {share:>7.1} {not_asked:>9} {lenient:>8}"
        )
    }
}

/// The tables of a report.
pub(crate) fn report(asked: &[Asked]) -> String {
    let mut folders: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut all = Tally::default();
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    let mut not_asked: BTreeMap<&str, usize> = BTreeMap::new();
    let mut decided: BTreeMap<&str, usize> = BTreeMap::new();
    for Asked { folder, outcome, .. } in asked {
        folders.entry(folder).or_default().count(outcome);
        all.count(outcome);
        match outcome {
            Outcome::Refused(what) => *refused.entry(what).or_default() += 1,
            Outcome::NotAsked(what) => *not_asked.entry(what).or_default() += 1,
            Outcome::Decided(what) => *decided.entry(what).or_default() += 1,
            _ => {}
        }
    }
    let mut text = String::new();
    writeln!(
        text,
        "{:<16} {:>7} {:>7} {:>8} {:>8} {:>6} {:>7} {:>9} {:>8}",
        "folder", "asked", "right", "decided", "refused", "wrong", "%", "not asked", "lenient"
    )
    .unwrap();
    for (name, tally) in &folders {
        writeln!(text, "{}", tally.line(name)).unwrap();
    }
    writeln!(text, "{}", all.line("all")).unwrap();
    for (title, constructs) in
        [("refused", refused), ("not asked, because of", not_asked), ("decided otherwise", decided)]
    {
        writeln!(text, "\n{title}:").unwrap();
        let mut constructs: Vec<_> = constructs.into_iter().collect();
        constructs.sort_by_key(|(what, number)| (std::cmp::Reverse(*number), *what));
        for (what, number) in constructs {
            writeln!(text, "{number:>7}  {what}").unwrap();
        }
    }
    text
}

/// Every query that was not answered right.
pub(crate) fn details(asked: &[Asked]) -> String {
    let mut text = String::new();
    for Asked { file, sql, outcome, .. } in asked {
        let (kind, why) = match outcome {
            Outcome::Right => continue,
            Outcome::Refused(what) => ("REFUSED", what.as_str()),
            Outcome::NotAsked(what) => ("NOT ASKED", what.as_str()),
            Outcome::Wrong(how) => ("WRONG", how.as_str()),
            Outcome::Decided(what) => ("DECIDED", *what),
            Outcome::Lenient => ("LENIENT", ""),
        };
        writeln!(text, "=== {kind} {file}: {why}\n{sql}").unwrap();
    }
    text
}

/// What an error refuses, without what is the statement's own.
pub(crate) fn construct(message: &str) -> String {
    let message = message.strip_prefix("INVALID_QUERY: ").unwrap_or(message);
    let line = message.lines().next().unwrap_or_default();
    let mut words = String::new();
    let mut quoted = None;
    let keeps_names = line.contains("function");
    for c in line.chars() {
        match quoted {
            Some(quote) => {
                if c == quote {
                    quoted = None;
                }
                if keeps_names {
                    words.push(c);
                }
            }
            None if c == '\'' || c == '"' => {
                quoted = Some(c);
                words.push(if keeps_names { c } else { '_' });
            }
            None if c.is_ascii_digit() => {
                if !words.ends_with('#') {
                    words.push('#');
                }
            }
            None => words.push(c),
        }
    }
    words.chars().take(110).collect()
}
