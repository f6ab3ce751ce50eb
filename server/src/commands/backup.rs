//! `basalt backup`, `basalt restore` and `basalt backups`: copies of a store's tables. What does it is `backup.py`, one program that
//! needs Python and no server (`deploy/backup`, which `scripts/check-backup` tests); here it has the words of the other commands.

use std::{
    io::{self, Write as _},
    process::{Command, ExitCode, Stdio},
};

use clap::{Args, Subcommand};

/// The program, which is part of the binary.
const PROGRAM: &str = include_str!("backup.py");
/// Reads the program from the standard input, so that it needs no file.
const START: &str = "import sys; exec(compile(sys.stdin.buffer.read(), 'basalt backup', 'exec'))";
/// Of Python; others are found in PATH alike.
const PYTHON: &str = "python3";

/// Arguments of `backup`.
#[derive(Args, Clone, Debug)]
#[command(
    disable_version_flag = true,
    after_long_help = "\
Each table is copied at one version, the newest when the backup began, while servers read and write the store. Files that some \
backup has are not copied again. Python 3.9 does it, and asks no server.

Examples:
  basalt backup basalt-data /mnt/backups
  basalt backup s3://basalt/tables /mnt/backups --limit-rate 50MiB
  basalt backup basalt-data one --table airlines --version 12"
)]
pub(crate) struct BackupArgs {
    /// The servers' store: a folder, or s3://bucket/prefix with the server's AWS_* variables
    store: String,

    /// Where backups are: another folder or prefix
    backups: String,

    /// One table alone
    #[arg(long)]
    table: Option<String>,

    /// Of that table a version that is still kept; the newest without it
    #[arg(long, value_name = "N", requires = "table")]
    version: Option<u64>,

    /// How long servers keep versions, as they have it [default: 10m]
    #[arg(long, value_name = "TIME")]
    keep_versions: Option<String>,

    /// Write nothing into the store: the copy has to end within the time that versions are kept
    #[arg(long)]
    no_pin: bool,

    #[command(flatten)]
    copying: Copying,
}

/// Arguments of `restore`.
#[derive(Args, Clone, Debug)]
#[command(
    disable_version_flag = true,
    after_long_help = "\
Examples:
  basalt restore /mnt/backups basalt-restored
  basalt restore /mnt/backups old --table airlines --id 20261125T133743Z"
)]
pub(crate) struct RestoreArgs {
    /// Where backups are
    backups: String,

    /// The new store: a folder or a prefix without tables
    store: String,

    /// The backup; the last without it
    #[arg(long)]
    id: Option<String>,

    /// One table alone
    #[arg(long)]
    table: Option<String>,

    /// A version of that table that some backup has
    #[arg(long, value_name = "N", requires = "table")]
    version: Option<u64>,

    #[command(flatten)]
    copying: Copying,
}

/// How files are copied.
#[derive(Args, Clone, Debug)]
struct Copying {
    /// Bytes a second, at most, such as 50MiB
    #[arg(long, value_name = "SIZE")]
    limit_rate: Option<String>,

    /// Files at once [default: 4]
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
}

/// What is done with backups that are there.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum BackupsCommand {
    /// Say which there are
    List {
        /// Where backups are
        backups: String,
    },
    /// Read the files of one backup, or of all, and compare sizes and checksums
    Verify {
        /// Where backups are
        backups: String,
        /// The backup; all of them without it
        id: Option<String>,
    },
    /// Forget what is older than the last ones of all tables, and remove what only that has
    Prune {
        /// Where backups are
        backups: String,
        /// How many of all tables are kept, with those of one table that came since the first of these
        #[arg(long, value_name = "N")]
        keep: u32,
    },
}

/// The words of a command line of the program.
#[derive(Debug, Default)]
struct Words(Vec<String>);

impl Words {
    fn of(words: &[&str]) -> Self {
        Self(words.iter().map(ToString::to_string).collect())
    }

    fn option(mut self, name: &str, value: Option<impl ToString>) -> Self {
        // A value that begins with a hyphen is one.
        self.0.extend(value.map(|value| format!("{name}={}", value.to_string())));
        self
    }

    fn copying(self, copying: &Copying) -> Self {
        self.option("--limit-rate", copying.limit_rate.as_ref()).option("--jobs", copying.jobs)
    }

    /// Names of places and backups stand last: none of them is taken for an option.
    fn places(mut self, places: &[&str]) -> Self {
        self.0.push("--".to_owned());
        self.0.extend(places.iter().map(ToString::to_string));
        self
    }
}

pub(crate) fn backup(args: &BackupArgs) -> io::Result<ExitCode> {
    let mut words = Words::of(&["backup"])
        .option("--table", args.table.as_ref())
        .option("--version", args.version)
        .option("--keep-versions", args.keep_versions.as_ref())
        .copying(&args.copying);
    if args.no_pin {
        words.0.push("--no-pin".to_owned());
    }
    run(&words.places(&[&args.store, &args.backups]))
}

pub(crate) fn restore(args: &RestoreArgs) -> io::Result<ExitCode> {
    let words = Words::of(&["restore"])
        .option("--id", args.id.as_ref())
        .option("--table", args.table.as_ref())
        .option("--version", args.version)
        .copying(&args.copying);
    run(&words.places(&[&args.backups, &args.store]))
}

pub(crate) fn backups(command: &BackupsCommand) -> io::Result<ExitCode> {
    run(&match command {
        BackupsCommand::List { backups } => Words::of(&["list"]).places(&[backups]),
        BackupsCommand::Verify { backups, id } => {
            let places: Vec<&str> = std::iter::once(backups).chain(id).map(String::as_str).collect();
            Words::of(&["verify"]).places(&places)
        }
        BackupsCommand::Prune { backups, keep } => {
            Words::of(&["prune"]).option("--keep", Some(keep)).places(&[backups])
        }
    })
}

/// Runs the program to its end; what it says goes where it always does.
fn run(words: &Words) -> io::Result<ExitCode> {
    let started = Command::new(PYTHON).args(["-c", START]).args(&words.0).stdin(Stdio::piped()).spawn();
    let mut program = started.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(format!(
            "there is no {PYTHON}: backups need Python 3.9 (deploy/backup is the same program)"
        )),
        _ => error,
    })?;
    if let Some(mut input) = program.stdin.take() {
        input.write_all(PROGRAM.as_bytes())?;
    }
    let status = program.wait()?;
    // Default: a signal ended it.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_program() {
        let copying = Copying { limit_rate: Some("5MiB".to_owned()), jobs: None };
        let words =
            Words::of(&["backup"]).option("--version", Some(3)).copying(&copying).places(&["-a", "b"]);
        assert_eq!(words.0, ["backup", "--version=3", "--limit-rate=5MiB", "--", "-a", "b"]);
        // Each of them is an option there.
        for option in [
            "--table",
            "--version",
            "--keep-versions",
            "--no-pin",
            "--limit-rate",
            "--jobs",
            "--id",
            "--keep",
        ] {
            assert!(PROGRAM.contains(&format!("\"{option}\"")), "{option}");
        }
    }
}
