//! Making the tables that a load asks, where they are missing.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};

use super::{
    BenchArgs, SETTLE, SETTLE_POLL,
    data::{self, EVENTS, PART_ROWS, Truth, USER_ROWS, USERS},
    request,
};
use crate::{
    cli::CliError,
    client::Client,
    error::Result,
    options::{ClientOptions, WriteOptions},
    retry::RetryPolicy,
};

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
        write(&client, USERS, "bench-users".to_owned(), [data::users()].into_iter(), |_| {}).await?;
    } else if users != u64::from(USER_ROWS) {
        return Err(damaged(USERS));
    }
    let (mut rows, largest) = request::prepared(&client).await?;
    if largest != rows.checked_sub(1).map(i128::from) {
        return Err(damaged(EVENTS));
    }
    let bar = bar(args.rows.saturating_sub(rows));
    while rows < args.rows {
        // Full fragments, wherever an earlier preparation ended.
        let end = (rows / PART_ROWS + 1).saturating_mul(PART_ROWS).min(args.rows);
        let progress = |rows: u64| bar.inc(rows);
        write(&client, EVENTS, format!("bench-events-{rows}-{end}"), data::events(rows, end), progress)
            .await?;
        rows = end;
    }
    bar.finish_and_clear();
    settle(&clients[..args.addresses.len().max(1)], rows).await?;
    tokio::task::spawn_blocking(move || Truth::new(rows)).await.map_err(|e| CliError::input(e.to_string()))
}

/// One commit. Who prepares the same rows at the same time writes them under the same id, so they are there once.
async fn write(
    client: &Client,
    table: &str,
    request_id: String,
    batches: impl Iterator<Item = arrow_array::RecordBatch>,
    mut progress: impl FnMut(u64),
) -> Result<()> {
    let mut writer = client.write(table, WriteOptions { request_id, ..WriteOptions::default() }).await?;
    for batch in batches {
        writer.send(&batch).await?;
        progress(batch.num_rows() as u64);
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

fn bar(rows: u64) -> ProgressBar {
    if rows == 0 {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(rows).with_message("preparing");
    match ProgressStyle::with_template(
        "{msg:>10} {bar:32.cyan/dim} {human_pos:>10} of {human_len} rows  {eta} left",
    ) {
        Ok(style) => bar.with_style(style.progress_chars("━╸─")),
        Err(_) => bar,
    }
}
