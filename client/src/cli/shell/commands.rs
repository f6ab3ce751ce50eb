//! The commands of the shell itself, which begin with a backslash.

use std::{path::PathBuf, str::FromStr as _};

use clap::ValueEnum as _;

use super::{
    copy::{self, Copy},
    session::Session,
};
use crate::cli::{CliError, answer::OutputFormat, export::Destination, grid::Grid, named, pager, print};

const HELP: &[(&str, &str)] = &[
    ("\\d", "the tables"),
    ("\\d TABLE", "a table's columns: types, encodings, sizes, ranges"),
    ("\\d+ TABLE", "also the entropy, heat and every encoding's size estimate"),
    ("\\x", "a line for each value, or again a table"),
    ("\\format NAME", "table, line, csv or json"),
    ("\\rows N", "how many rows a table shows at most; 0: all"),
    ("\\o [FILE]", "write answers to FILE (.csv, .json, .parquet, .arrow), or again to the terminal"),
    ("\\i FILE", "run the statements of FILE"),
    ("\\copy TABLE FROM 'FILE'", "load a file of this machine, in the format that its name ends in"),
    (
        "\\copy TABLE TO 'FILE'",
        "write a table, or a query in parentheses, to a file (.csv, .json, .parquet, .arrow)",
    ),
    ("\\timing [on|off]", "the line below answers: on, or off"),
    ("\\pager [on|off]", "long answers through a pager: on, or off"),
    ("\\g", "at the end of a statement, in the place of its semicolon"),
    ("\\r", "forget a statement that has not ended"),
    ("\\q", "leave; so do exit, quit and Ctrl-D"),
];

/// A command of the shell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    Tables,
    Describe {
        table: String,
        full: bool,
    },
    Turn,
    Format(OutputFormat),
    Rows(u64),
    Output(Option<PathBuf>),
    Input(PathBuf),
    Copy(Box<Copy>),
    /// `None`: the other way round than it is.
    Timing(Option<bool>),
    Pager(Option<bool>),
    Help,
    Quit,
}

impl Command {
    /// That of a line; `None`: it is SQL.
    pub(super) fn of(line: &str) -> Option<Result<Self, String>> {
        let line = line.trim();
        let bare = line.trim_end_matches(';').trim_end();
        match bare {
            _ if bare.eq_ignore_ascii_case("exit") || bare.eq_ignore_ascii_case("quit") => {
                return Some(Ok(Self::Quit));
            }
            _ if bare.eq_ignore_ascii_case("help") => return Some(Ok(Self::Help)),
            _ => {}
        }
        let line = bare.strip_prefix('\\')?;
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim();
        if name == "copy" {
            return Some(Copy::parse(argument).map(|copy| Self::Copy(Box::new(copy))));
        }
        Some(Self::parse(name, argument).ok_or_else(|| {
            let usage = HELP.iter().find(|(usage, _)| usage.split(' ').next() == Some(&format!("\\{name}")));
            match usage {
                Some((usage, what)) => format!("{usage}: {what}"),
                None => format!("there is no \\{name}; \\? lists what there is"),
            }
        }))
    }

    fn parse(name: &str, argument: &str) -> Option<Self> {
        let given = !argument.is_empty();
        let unquoted = || argument.trim_matches('"').to_owned();
        match name {
            "d" | "dt" | "d+" if !given => Some(Self::Tables),
            "d" => Some(Self::Describe { table: unquoted(), full: false }),
            "d+" => Some(Self::Describe { table: unquoted(), full: true }),
            "x" if !given => Some(Self::Turn),
            "format" => OutputFormat::from_str(argument, true).ok().map(Self::Format),
            "rows" => u64::from_str(argument).ok().map(Self::Rows),
            "o" => Some(Self::Output(given.then(|| PathBuf::from(argument)))),
            "i" if given => Some(Self::Input(PathBuf::from(argument))),
            "timing" => switch(argument).map(Self::Timing),
            "pager" => switch(argument).map(Self::Pager),
            "?" | "h" | "help" => Some(Self::Help),
            "q" if !given => Some(Self::Quit),
            _ => None,
        }
    }

    /// Whether there may be other tables behind it.
    pub(super) fn may_make_names(&self) -> bool {
        matches!(self, Self::Input(_))
    }
}

/// What a switch is set to: `on`, `off`, or, where nothing is said, what it is not.
fn switch(argument: &str) -> Option<Option<bool>> {
    match argument.to_ascii_lowercase().as_str() {
        "" => Some(None),
        "on" => Some(Some(true)),
        "off" => Some(Some(false)),
        _ => None,
    }
}

pub(super) async fn run(command: Command, session: &mut Session) -> Result<(), CliError> {
    match command {
        Command::Tables => Ok(pager::show(&named::all(&session.client).await?)?),
        Command::Describe { table, full } => {
            Ok(pager::show(&named::one(&session.client, &table, full).await?)?)
        }
        Command::Turn => {
            let turned = session.target.format == OutputFormat::Line;
            let next = if turned { session.before } else { OutputFormat::Line };
            session.before = session.target.format;
            set_format(session, next)
        }
        Command::Format(format) => set_format(session, format),
        Command::Rows(rows) => {
            session.target.most_rows = rows;
            session.say(&match rows {
                0 => "all rows are shown\n".to_owned(),
                rows => format!("at most {rows} rows are shown\n"),
            })
        }
        Command::Output(None) => {
            session.target.file = None;
            session.say("answers are shown here\n")
        }
        Command::Output(Some(path)) => {
            let file = Destination::of(&path)?;
            let text =
                format!("the next answers are written to {}, each over the one before\n", path.display());
            session.target.file = Some(file);
            session.say(&text)
        }
        Command::Input(path) => {
            let (name, text) = super::read_file(&path)?;
            // It may run this one again, so it has no size that is known.
            Box::pin(session.run_script(&name, &text, None)).await
        }
        Command::Copy(copy) => copy::run(&copy, session).await,
        Command::Timing(to) => {
            session.shows_time = to.unwrap_or(!session.shows_time);
            session.say(if session.shows_time { "timing is on\n" } else { "timing is off\n" })
        }
        Command::Pager(to) => {
            session.target.pages = to.unwrap_or(!session.target.pages);
            session.say(if session.target.pages { "the pager is on\n" } else { "the pager is off\n" })
        }
        Command::Help => {
            let mut grid = Grid::new([("command", false), ("", false)]);
            HELP.iter().for_each(|(usage, what)| grid.row([usage, what].map(|text| (*text).to_owned())));
            print(&grid.render())
        }
        Command::Quit => Ok(()),
    }
}

fn set_format(session: &mut Session, format: OutputFormat) -> Result<(), CliError> {
    session.target.format = format;
    let name = format.to_possible_value();
    let name = name.as_ref().map_or("", |value| value.get_name());
    session.say(&format!("answers are printed as {name}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_statements() {
        let describe = |table: &str, full| Command::Describe { table: table.to_owned(), full };
        for (line, command) in [
            ("\\d", Command::Tables),
            (" \\d flights; ", describe("flights", false)),
            ("\\d+ \"a b\"", describe("a b", true)),
            ("\\rows 0", Command::Rows(0)),
            ("\\format CSV", Command::Format(OutputFormat::Csv)),
            ("\\o a.parquet", Command::Output(Some("a.parquet".into()))),
            ("\\o", Command::Output(None)),
            ("\\timing", Command::Timing(None)),
            ("\\timing OFF", Command::Timing(Some(false))),
            ("EXIT;", Command::Quit),
            ("\\?", Command::Help),
        ] {
            assert_eq!(Command::of(line), Some(Ok(command)), "{line}");
        }
        assert_eq!(Command::of("select 1;"), None);
        for (line, expected) in [
            ("\\rows many", "\\rows N: how many rows a table shows at most; 0: all"),
            ("\\timing maybe", "\\timing [on|off]: the line below answers: on, or off"),
            ("\\nothing", "there is no \\nothing; \\? lists what there is"),
        ] {
            assert_eq!(Command::of(line), Some(Err(expected.to_owned())), "{line}");
        }
    }
}
