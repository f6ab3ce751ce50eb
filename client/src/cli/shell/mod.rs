//! `basalt sql`: a shell on a terminal, and statements from arguments, files or the standard input.

mod commands;
mod copy;
mod editor;
mod names;
mod script;
mod session;

use std::{
    io::{self, IsTerminal as _, Read as _},
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use clap::Args;

use self::{
    editor::{Lines, Typed},
    names::Names,
    session::{Next, Session},
};
use super::{
    CliError, ConnectArgs,
    answer::{OutputFormat, SHOWN_ROWS, Target},
    export::Destination,
};

/// The largest text of statements.
const MOST_TEXT: u64 = 64 << 20;

/// Where statements are from that no file has.
const STDIN: &str = "the standard input";

const EXAMPLES: &str = "\
On a terminal statements end with a semicolon; Tab completes, Ctrl-C cancels, Ctrl-R searches what was typed before, and \\? lists \
the commands of the shell. Without one, and with -c or -f, the statements run one after the other, and the first error ends \
the command with exit code 1; a line that begins with a backslash is a command of the shell there too.

\\copy moves rows between a table and a file of this machine, in the format that the file's name ends in.

What was typed is kept in $BASALT_HISTORY [default: ~/.local/state/basalt/history]; long answers pass through $BASALT_PAGER or \
$PAGER [default: less -SRFX].

Examples:
  basalt sql
  basalt sql -c 'SELECT carrier, median(dep_delay) FROM flights GROUP BY carrier ORDER BY 2 DESC'
  basalt sql -c 'SELECT * FROM flights WHERE month = 7' -o july.parquet
  basalt sql -f report.sql
  basalt sql -c \"\\copy flights FROM 'flights.csv'\"
  basalt sql -c \"\\copy (SELECT * FROM flights WHERE month = 7) TO 'july.parquet'\"
  echo 'SHOW TABLES' | basalt sql --format csv";

/// Arguments of `sql`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES, disable_version_flag = true)]
pub struct ShellArgs {
    /// Run these statements, and no shell
    #[arg(long, short, value_name = "SQL", conflicts_with = "file")]
    pub command: Vec<String>,

    /// Run the statements of this file, - for the standard input
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// How answers are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,

    /// Write the answer of the last statement to this file, in the format that its name ends in: .csv, .json, .parquet, .arrow
    #[arg(long, short, value_name = "FILE", conflicts_with = "format")]
    pub output: Option<PathBuf>,

    /// Show at most so many rows of a table, and how many more there are; 0 shows all
    #[arg(long = "max-rows", value_name = "N", default_value_t = SHOWN_ROWS)]
    pub rows: u64,
}

pub(crate) async fn run(args: &ShellArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let output = args.output.as_deref().map(Destination::of).transpose()?;
    let target = Target { format: args.format, most_rows: args.rows, file: None, pages: false };
    let input = input(args)?;
    let client = connect.connect().await?;
    let mut session = Session::new(client, target, input.is_some());
    match input {
        Some((name, text)) => {
            session.input_is_script = args.command.is_empty() && name == STDIN;
            session.run_script(&name, &text, output.as_ref()).await
        }
        None if output.is_some() => {
            Err(CliError::input("--output needs a statement: -c, -f or the standard input"))
        }
        None => interactive(session).await,
    }
}

/// The statements that are given, and where they are from; `None`: they are to be typed.
fn input(args: &ShellArgs) -> Result<Option<(String, String)>, CliError> {
    if !args.command.is_empty() {
        return Ok(Some((String::new(), args.command.join(";\n"))));
    }
    let from_stdin = args.file.as_ref().is_some_and(|file| file.as_os_str() == "-");
    match &args.file {
        Some(file) if !from_stdin => read_file(file).map(Some),
        None if io::stdin().is_terminal() => Ok(None),
        _ => read(STDIN, io::stdin()).map(Some),
    }
}

fn read_file(path: &std::path::Path) -> Result<(String, String), CliError> {
    let name = path.display().to_string();
    let file = std::fs::File::open(path);
    read(&name, file.map_err(|source| CliError::File { path: name.clone(), source })?)
}

fn read(name: &str, input: impl io::Read) -> Result<(String, String), CliError> {
    let mut text = String::new();
    let read = input.take(MOST_TEXT + 1).read_to_string(&mut text);
    read.map_err(|source| CliError::File { path: name.to_owned(), source })?;
    if text.len() as u64 > MOST_TEXT {
        return Err(CliError::input(format!("{name} has more than {MOST_TEXT} bytes of statements")));
    }
    Ok((name.to_owned(), text))
}

async fn interactive(mut session: Session) -> Result<(), CliError> {
    session.greet().await?;
    let names = Arc::new(RwLock::new(Names::of(session.client()).await));
    let mut lines = Lines::new(Arc::clone(&names)).map_err(of_editor)?;
    loop {
        // It waits for a person, which is nothing for an async thread.
        let read = tokio::task::spawn_blocking(move || {
            let typed = lines.read();
            (lines, typed)
        });
        let (back, typed) = read.await.map_err(io::Error::other)?;
        lines = back;
        let text = match typed.map_err(of_editor)? {
            Typed::Text(text) => text,
            Typed::GivenUp => continue,
            Typed::End => return Ok(()),
        };
        match session.typed(&text).await? {
            Next::Line => {}
            Next::Names => {
                *names.write().unwrap_or_else(PoisonError::into_inner) = Names::of(session.client()).await;
            }
            Next::End => return Ok(()),
        }
    }
}

fn of_editor(error: rustyline::error::ReadlineError) -> CliError {
    CliError::Output(io::Error::other(error))
}
