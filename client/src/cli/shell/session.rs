//! What runs the statements of a shell, and how it shows them.

use std::{
    io,
    ops::Range,
    path::Path,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    commands::{self, Command},
    script,
};
use crate::{
    cli::{
        CliError,
        answer::{self, Asked, OutputFormat, Target},
        human, print, query,
        style::Style,
    },
    client::Client,
};

/// After so long a line says that a statement runs.
const SAID_AFTER: Duration = Duration::from_millis(700);

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
}

impl Session {
    pub(super) fn new(client: Client, target: Target) -> Self {
        Self { client, target, before: OutputFormat::Table, shows_time: true }
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
        let outcome = match Command::of(text) {
            Some(Ok(Command::Quit)) => return Ok(Next::End),
            Some(Ok(command)) => commands::run(command, self).await.map(|()| Next::Line),
            Some(Err(message)) => Err(CliError::input(message)),
            None => self.run_all("", text, None).await.map(|()| Next::Names),
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

    /// Runs the statements of a text up to the first error. `output` takes the last one's answer.
    pub(super) async fn run_script(
        &mut self,
        name: &str,
        text: &str,
        output: Option<&Path>,
    ) -> Result<(), CliError> {
        self.run_all(name, text, output).await
    }

    async fn run_all(&mut self, name: &str, text: &str, output: Option<&Path>) -> Result<(), CliError> {
        let script = script::cut(text).map_err(CliError::Input)?;
        let statements: Vec<Range<usize>> = script.complete.into_iter().chain(script.rest).collect();
        let last = statements.len().saturating_sub(1);
        for (i, range) in statements.into_iter().enumerate() {
            let line = script::line_of(text, range.start);
            let sql = text.get(range).unwrap_or_default();
            let file = output.filter(|_| i == last);
            let ran = self.run_one(sql, file).await;
            if ran.is_err() && !name.is_empty() && last > 0 {
                eprintln!("{name}: the statement of line {line}:");
            }
            ran?;
        }
        Ok(())
    }

    /// Runs a statement; Ctrl-C gives it up, which stops it on the server too.
    pub(super) async fn run_one(&mut self, sql: &str, file: Option<&Path>) -> Result<(), CliError> {
        let waiting = Waiting::begin();
        let target = Target {
            file: file.map(Path::to_owned).or_else(|| self.target.file.clone()),
            ..self.target.clone()
        };
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
            answer::write(stream, sql, &target).await
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
