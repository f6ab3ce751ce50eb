//! Loading: the rows are generated on one thread and sent from another, a few batches ahead.

use std::{
    io::{self, Write as _},
    time::{Duration, Instant},
};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use basalt_client::{
    Client, WriteOptions, Writer,
    cli::{grid::Grid, human, style::Style},
};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::{sync::mpsc, task};
use tpchgen::text::TextPool;

use super::{
    Data, Error,
    references::{self, referring},
    ssb,
    tpch::{self, Table},
};

/// Batches generated and not yet sent: enough to keep both sides busy, and all that is ever held here.
const BATCHES_AHEAD: usize = 2;

/// The tables of a benchmark.
pub(super) async fn tables(data: Data, scale: f64) -> Result<Vec<Table>, Error> {
    if data == Data::Ssb {
        return Ok(ssb::tables(scale)?);
    }
    // The comments of all tables are cut from one text of 300 MB.
    let progress = ProgressBar::new_spinner().with_message("TPC-H's text pool");
    progress.enable_steady_tick(Duration::from_millis(100));
    task::spawn_blocking(TextPool::get_or_init_default).await?;
    progress.finish_and_clear();
    let tables = tpch::tables(scale)?;
    Ok(tables.into_iter().map(|table| referring(table, &references::TPCH)).collect())
}

/// Creates every table and writes its rows, in so many commits each; says how long each took.
pub(super) async fn all(
    client: &Client,
    data: Data,
    scale: f64,
    commits: u64,
    style: Style,
) -> Result<Vec<&'static str>, Error> {
    let mut out = io::stdout();
    let title = format!("Generating and loading {data} at scale {scale}, through gRPC");
    writeln!(out, "{}", style.bold(&title))?;
    let mut names = Vec::new();
    let mut grid = Grid::new([("table", false), ("rows", true), ("time", true), ("rate", true)]);
    let (mut total, mut total_time) = (0, Duration::ZERO);
    for table in tables(data, scale).await? {
        let name = table.name;
        let (rows, time) = one(client, table, commits).await?;
        grid.row([name.into(), human::count(rows), human::duration(time), human::row_rate(rows, time)]);
        names.push(name);
        total += rows;
        total_time += time;
    }
    let rate = human::row_rate(total, total_time);
    grid.row(["all".into(), human::count(total), human::duration(total_time), rate]);
    writeln!(out, "{}", grid.render())?;
    Ok(names)
}

async fn one(client: &Client, table: Table, commits: u64) -> Result<(u64, Duration), Error> {
    let start = Instant::now();
    let progress = bar(&table);
    client.create_table(table.name, &table.schema).await?;
    let (batches, mut generated) = mpsc::channel::<Result<RecordBatch, ArrowError>>(BATCHES_AHEAD);
    let generator = task::spawn_blocking(move || {
        for batch in table.batches {
            // Nobody listens any more when the write has failed.
            if batches.blocking_send(batch).is_err() {
                break;
            }
        }
    });
    let (each, mut rows) = (table.rows.div_ceil(commits), 0);
    let mut writer: Option<Writer> = None;
    while let Some(batch) = generated.recv().await {
        let mut open = match writer.take() {
            Some(open) => open,
            None => {
                let mut open = client.write(table.name, WriteOptions::default()).await?;
                let (shown, before) = (progress.clone(), rows);
                open.on_progress(move |progress| shown.set_position(before + progress.rows_acknowledged));
                open
            }
        };
        let batch = batch?;
        open.send(&batch).await?;
        let before = rows / each;
        rows += batch.num_rows() as u64;
        if rows / each > before {
            open.commit().await?;
        } else {
            writer = Some(open);
        }
    }
    generator.await?;
    if let Some(writer) = writer {
        writer.commit().await?;
    }
    progress.finish_and_clear();
    Ok((rows, start.elapsed()))
}

/// A bar on standard error; none where that is no terminal.
pub(super) fn bar(table: &Table) -> ProgressBar {
    let template = "  {prefix:10} {bar:30.cyan/dim} {human_pos:>12} of {human_len} rows  {per_sec}  {eta}";
    let bar = ProgressBar::new(table.rows).with_prefix(table.name);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("██·")),
        Err(_) => bar,
    }
}
