//! What runs the statements of a shell, and how it shows them.

use std::{
    io,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    commands::{self, Command},
    script::{self, Piece},
};
use crate::{
    cli::{
        CliError,
        answer::{self, Asked, OutputFormat, Target},
        export::Destination,
        human, print, query,
        style::Style,
    },
    client::Client,
};

/// After so long a line says that a statement runs.
const SAID_AFTER: Duration = Duration::from_millis(700);

/// Scripts that run one another.
const MOST_NESTED: u32 = 16;

/// What a shell does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Line,
    /// There may be other tables.
    Names,
    End,
}

/// A shell's connection and settings.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) target: Target,
    /// The format before `\x`.
    pub(super) before: OutputFormat,
    pub(super) shows_time: bool,
    /// Nobody types: what the shell itself says does not belong among the answers.
    is_script: bool,
    /// The statements come from the standard input, so rows do not.
    pub(super) input_is_script: bool,
    /// Scripts that run one another now.
    nested: u32,
}

impl Session {
    pub(super) fn new(client: Client, target: Target, is_script: bool) -> Self {
        let (before, shows_time) = (OutputFormat::Table, true);
        Self { client, target, before, shows_time, is_script, input_is_script: false, nested: 0 }
    }

    /// Whether a person types the statements.
    pub(super) fn is_typed(&self) -> bool {
        !self.is_script
    }

    /// Says what a command of the shell has done: among the answers where a person reads them, else beside them.
    pub(super) fn say(&self, text: &str) -> Result<(), CliError> {
        if self.is_script {
            eprint!("{text}");
            return Ok(());
        }
        print(text)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The server and how many tables it has.
    pub(super) async fn greet(&mut self) -> Result<(), CliError> {
        self.target.pages = true;
        let (server, tables) = (self.client.server_info().await?, self.client.list_tables().await?);
        let style = Style::of(&io::stdout());
        let tables = human::plural(tables.len() as u64, "table");
        let about = format!("{} at {}, {tables} · \\? for help", server.version, self.client.address());
        print(&format!("{} {}\n", style.bold("Basalt"), style.dim(&about)))
    }

    /// Runs what was typed; errors are printed, and the shell goes on.
    pub(super) async fn typed(&mut self, text: &str) -> Result<Next, CliError> {
        let is_line = !text.trim().contains('\n');
        let outcome = match Command::of(text).filter(|_| is_line) {
            Some(command) => self.command(command).await,
            None => self.run_all("", text, None).await,
        };
        match outcome {
            Ok(next) => Ok(next),
            // The terminal is gone.
            Err(CliError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Next::End),
            Err(error) => {
                error.print();
                Ok(Next::Line)
            }
        }
    }

    async fn command(&mut self, command: Result<Command, String>) -> Result<Next, CliError> {
        match command.map_err(CliError::Input)? {
            Command::Quit => Ok(Next::End),
            command => {
                let next = if command.may_make_names() { Next::Names } else { Next::Line };
                commands::run(command, self).await.map(|()| next)
            }
        }
    }

    /// Runs the statements and commands of a text up to the first error. `output` takes the last statement's answer.
    pub(super) async fn run_script(
        &mut self,
        name: &str,
        text: &str,
        output: Option<&Destination>,
    ) -> Result<(), CliError> {
        if self.nested == MOST_NESTED {
            return Err(CliError::input(format!(
                "{name}: scripts run one another more than {MOST_NESTED} deep"
            )));
        }
        self.nested += 1;
        let outcome = self.run_all(name, text, output).await;
        self.nested -= 1;
        outcome.map(drop)
    }

    async fn run_all(
        &mut self,
        name: &str,
        text: &str,
        output: Option<&Destination>,
    ) -> Result<Next, CliError> {
        let script = script::cut(text).map_err(CliError::Input)?;
        let pieces: Vec<_> = script.complete.into_iter().chain(script.rest.map(Piece::Statement)).collect();
        let last = pieces.iter().rposition(|piece| matches!(piece, Piece::Statement(_)));
        let several = pieces.len() > 1;
        let mut next = Next::Line;
        for (i, piece) in pieces.into_iter().enumerate() {
            let (what, range) = match &piece {
                Piece::Statement(range) => ("statement", range.clone()),
                Piece::Command(range) => ("command", range.clone()),
            };
            let line = script::line_of(text, range.start);
            let part = text.get(range).unwrap_or_default();
            let ran = match (&piece, Command::of(part)) {
                (Piece::Command(_), Some(command)) => self.command(command).await,
                _ => {
                    let file = output.filter(|_| Some(i) == last).or(self.target.file.as_ref()).cloned();
                    let target = Target { file, ..self.target.clone() };
                    self.run_one(part, &target).await.map(|()| Next::Names)
                }
            };
            if ran.is_err() && !name.is_empty() && several {
                eprintln!("{name}: the {what} of line {line}:");
            }
            match ran? {
                Next::End => return Ok(Next::End),
                Next::Names => next = Next::Names,
                Next::Line => {}
            }
        }
        Ok(next)
    }

    /// Runs a statement; Ctrl-C gives it up, which stops it on the server too.
    pub(super) async fn run_one(&self, sql: &str, target: &Target) -> Result<(), CliError> {
        let waiting = Waiting::begin();
        let started = Instant::now();
        let work = async {
            let select = query::parse(sql);
            let stream = match answer::statement(&self.client, sql, &select).await? {
                Asked::Rows(stream) => *stream,
                Asked::Typed(wrong) => match select?.resolve(&self.client).await {
                    Err(error) => return Err(Asked::error(wrong, error, sql)),
                    Ok(request) => match self.client.query_of(request).stream().await {
                        Err(error) => return Err(Asked::error(wrong, error, sql)),
                        Ok(stream) => stream,
                    },
                },
            };
            waiting.reads();
            answer::write(stream, sql, target).await
        };
        let done = tokio::select! {
            done = work => done,
            _ = tokio::signal::ctrl_c() => Err(answer::stopped(sql)),
        };
        drop(waiting);
        if let Some(done) = done?.filter(|_| self.shows_time) {
            eprintln!("{}", Style::of(&io::stderr()).dim(&done.footer(started.elapsed())));
        }
        Ok(())
    }
}

/// A line that says that a statement runs, and for how long; it is gone with the answer.
struct Waiting {
    bar: ProgressBar,
    said: tokio::task::JoinHandle<()>,
}

impl Waiting {
    fn begin() -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_draw_target(ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {elapsed} · Ctrl-C cancels") {
            bar.set_style(style);
        }
        let shown = bar.clone();
        let said = tokio::spawn(async move {
            tokio::time::sleep(SAID_AFTER).await;
            // Hidden where the standard error is no terminal.
            shown.set_draw_target(ProgressDrawTarget::stderr());
            shown.enable_steady_tick(Duration::from_millis(100));
        });
        Self { bar, said }
    }

    /// From here on the answer may be printed, and the line would be in its way.
    fn reads(&self) {
        self.said.abort();
        self.bar.finish_and_clear();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.reads();
    }
}
