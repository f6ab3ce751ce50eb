//! Making the tables that a load asks, where they are missing.

use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use arrow_array::RecordBatch;
use indicatif::{ProgressBar, ProgressStyle};

use super::{
    BenchArgs, SETTLE, SETTLE_POLL,
    data::{self, EVENTS, PART_ROWS, Truth, USER_ROWS, USERS},
    request,
};
use crate::{
    cli::{CliError, human},
    client::Client,
    error::{ErrorReason, Result},
    options::{ClientOptions, WriteOptions},
    retry::RetryPolicy,
};

/// How often it is said how many rows there are, where nobody sees a bar.
const SAID: Duration = Duration::from_secs(3);

/// The first connection. What is prepared is prepared with patience.
fn patient(clients: &[Client]) -> Result<Client, CliError> {
    let first = clients.first().ok_or_else(|| CliError::input("no address"))?;
    let retry = RetryPolicy::default();
    Ok(first.clone().with_options(ClientOptions { retry, ..*first.options() }))
}

/// The tables that are not there.
pub(super) async fn missing(clients: &[Client]) -> Result<Vec<&'static str>, CliError> {
    let known = patient(clients)?.list_tables().await?;
    Ok([EVENTS, USERS].into_iter().filter(|name| known.iter().all(|table| table.name != *name)).collect())
}

/// Which tables are made and dropped again, and which are there and stay.
pub(super) fn told(missing: &[&str], args: &BenchArgs) -> String {
    let with_rows = |name: &&str| {
        let rows = if *name == EVENTS { args.rows } else { u64::from(USER_ROWS) };
        format!("{name} ({})", human::plural(rows, "row"))
    };
    let made: Vec<_> = missing.iter().map(with_rows).collect();
    let there: Vec<_> = [EVENTS, USERS].into_iter().filter(|name| !missing.contains(name)).collect();
    let mut told = Vec::new();
    if !made.is_empty() {
        let then = match args.keep || args.prepare_only {
            true => "which stay",
            false => "which are dropped at the end (--keep leaves them)",
        };
        told.push(format!("the load makes {}, {then}", made.join(" and ")));
    }
    if !there.is_empty() {
        let what = if args.fresh { "makes again" } else { "fills up and asks" };
        let drops: Vec<_> = there.iter().map(|name| format!("`basalt drop {name}`")).collect();
        let (there, drops) = (there.join(" and "), drops.join(", "));
        told.push(format!("the load {what} {there}, there already, and leaves what was there ({drops})"));
    }
    told.join("; ")
}

/// Drops tables.
pub(super) async fn remove(clients: &[Client], tables: &[&str]) -> Result<(), CliError> {
    let client = patient(clients)?;
    for table in tables {
        client.drop_table_if_exists(table).await?;
    }
    Ok(())
}

/// Makes what is missing, by the first connection, and waits until every address shows it.
pub(super) async fn all(clients: &[Client], args: &BenchArgs) -> Result<Truth, CliError> {
    let client = patient(clients)?;
    if args.fresh {
        client.drop_table_if_exists(EVENTS).await?;
        client.drop_table_if_exists(USERS).await?;
    }
    client.create_table_if_missing(USERS, &data::users_schema()).await?;
    client.create_table_if_missing(EVENTS, &data::events_schema()).await?;
    let users = client.table(USERS).await?.table.rows;
    if users == 0 {
        write(&client, USERS, "bench-users".to_owned(), || [data::users()].into_iter(), |_| {}).await?;
    } else if users != u64::from(USER_ROWS) {
        return Err(damaged(USERS));
    }
    let (mut rows, largest) = request::prepared(&client).await?;
    if largest != rows.checked_sub(1).map(i128::from) {
        return Err(damaged(EVENTS));
    }
    let mut making = Making::new(rows, args.rows);
    while rows < args.rows {
        // Full fragments, wherever an earlier preparation ended.
        let end = (rows / PART_ROWS + 1).saturating_mul(PART_ROWS).min(args.rows);
        let progress = |written: u64| making.at(rows + written);
        let events = || data::events(rows, end);
        write(&client, EVENTS, format!("bench-events-{rows}-{end}"), events, progress).await?;
        rows = end;
    }
    making.bar.finish_and_clear();
    settle(&clients[..args.addresses.len().max(1)], rows).await?;
    tokio::task::spawn_blocking(move || Truth::new(rows)).await.map_err(|e| CliError::input(e.to_string()))
}

/// One commit. Who prepares the same rows at the same time writes them under the same id, so they are there once: it is
/// waited for, as for a write of a load that was cut off, which the server still knows.
async fn write<B: Iterator<Item = RecordBatch>>(
    client: &Client,
    table: &str,
    request_id: String,
    batches: impl Fn() -> B,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    let options = WriteOptions { request_id, ..WriteOptions::default() };
    let (began, mut tries) = (Instant::now(), 0);
    loop {
        let error = match try_write(client, table, options.clone(), batches(), &mut progress).await {
            Err(error) => error,
            written => return written,
        };
        tries += 1;
        let is_under_way = error.reason() == ErrorReason::RequestInProgress && began.elapsed() < SETTLE;
        let delay =
            if is_under_way { Some(SETTLE_POLL) } else { client.options().retry.delay(&error, tries) };
        let Some(delay) = delay else { return Err(error) };
        tokio::time::sleep(delay).await;
    }
}

async fn try_write(
    client: &Client,
    table: &str,
    options: WriteOptions,
    batches: impl Iterator<Item = RecordBatch>,
    progress: &mut impl FnMut(u64),
) -> Result<()> {
    let mut writer = client.write(table, options).await?;
    let mut written = 0;
    for batch in batches {
        writer.send(&batch).await?;
        written += batch.num_rows() as u64;
        progress(written);
    }
    writer.commit().await.map(|_| ())
}

/// Waits until each of these shows so many rows.
async fn settle(clients: &[Client], rows: u64) -> Result<(), CliError> {
    let until = Instant::now() + SETTLE;
    for client in clients {
        loop {
            let seen = request::prepared(client).await;
            match seen {
                Ok((seen, _)) if seen == rows => break,
                Err(error) if Instant::now() >= until => return Err(error.into()),
                Ok((seen, _)) if Instant::now() >= until => {
                    let address = client.address();
                    return Err(CliError::input(format!(
                        "{address} shows {seen} of {rows} rows of {EVENTS}"
                    )));
                }
                Ok(_) | Err(_) => tokio::time::sleep(SETTLE_POLL).await,
            }
        }
    }
    Ok(())
}

fn damaged(table: &str) -> CliError {
    CliError::input(format!("{table} holds other rows than a load prepares; --fresh makes it again"))
}

/// How many events there are of those that are wanted: a bar on a terminal, else a line now and then.
struct Making {
    bar: ProgressBar,
    wanted: u64,
    /// When it was said last; `None` where a bar is seen.
    said: Option<Instant>,
}

impl Making {
    fn new(rows: u64, wanted: u64) -> Self {
        let is_seen = std::io::stderr().is_terminal();
        let bar = match is_seen && rows < wanted {
            true => ProgressBar::new(wanted).with_message("preparing").with_position(rows),
            false => ProgressBar::hidden(),
        };
        let template = "{msg:>10} {bar:32.cyan/dim} {human_pos:>10} of {human_len} rows  {eta} left";
        let bar = match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style.progress_chars("━╸─")),
            Err(_) => bar,
        };
        Self { bar, wanted, said: (!is_seen).then(Instant::now) }
    }

    fn at(&mut self, rows: u64) {
        self.bar.set_position(rows);
        if let Some(said) = self.said.as_mut().filter(|said| said.elapsed() >= SAID) {
            *said = Instant::now();
            let wanted = human::plural(self.wanted, "row");
            eprintln!("making {EVENTS}: {} of {wanted}", human::count(rows));
        }
    }
}
