//! `basalt bench`: a load of requests with known answers, its latencies, and whether every answer was right.

mod data;
mod mix;
mod pace;
mod plot;
mod prepare;
mod recorder;
mod report;
mod request;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinSet;

pub use self::mix::Mix;
use self::{
    data::{PREPARED_IDS, Random, Truth},
    mix::Operation,
    pace::{Arrival, Pace},
    recorder::Recorder,
    report::{Report, Writes},
    request::{Failure, Request},
};
use super::{CliError, ConnectArgs, human, interrupt::interrupted, print, starting, style::Style};
use crate::{client::Client, error::Error, options::ClientOptions, retry::RetryPolicy};

/// Requests that an open load may have under way on one connection; others wait, and their latency with them.
const IN_FLIGHT: usize = 32;
/// The wait before a request is tried again; it doubles, up to the longest.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));
/// How long the nodes of a cluster may take to show what was written.
const SETTLE: Duration = Duration::from_secs(30);
/// How often they are asked meanwhile.
const SETTLE_POLL: Duration = Duration::from_millis(200);

/// Arguments of `bench`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
The load asks two tables of its own, bench_events and bench_users, which it makes where they are missing, and drops again at \
the end unless --keep is said; those that are there, as of a load that was killed, it fills up and leaves. Every row \
is a function of its number, so every answer is checked; a wrong one, or an acknowledged row that is not there at \
the end, makes the exit code 1.

With --rate the load is open: requests begin at times fixed beforehand, and their latencies count from these \
times, so a server that stalls is charged for all who would have come meanwhile. Without it each connection sends \
its next request when the last one is answered.

Examples:
  basalt bench --rate 2000 --duration 30s --svg latency.svg
  basalt bench --mix point=1 --connections 64
  basalt bench --mix point=1 --connections 1 --beside 8
  basalt bench --address 127.0.0.1:7700 --address 127.0.0.1:7710 --tries 5 --timeout 2s --rate 500")]
pub struct BenchArgs {
    /// A node's address; repeated, requests go to all of them in turn [default: --server]
    #[arg(long = "address", value_name = "URL")]
    pub addresses: Vec<String>,

    /// Operations by weight
    #[arg(long, value_name = "WEIGHTS", default_value_t)]
    pub mix: Mix,

    /// Requests a second [default: as many as get done]
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<f64>,

    /// Connections
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub connections: u16,

    /// Connections beside these, each of which sends one heavy query after the other: what the others' latencies are
    /// then
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=4096))]
    pub beside: u16,

    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub duration: Duration,

    /// How long to send before that
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    pub warm_up: Duration,

    /// Rows of bench_events; where more are there, all of them count
    #[arg(long, value_name = "N", default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1..PREPARED_IDS.cast_unsigned()))]
    pub rows: u64,

    /// Rows of each write
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub write_rows: u32,

    /// Tries of a request, each at the next address
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub tries: u32,

    /// Drop the tables and make them again
    #[arg(long)]
    pub fresh: bool,

    /// Make the tables, and ask nothing
    #[arg(long)]
    pub prepare_only: bool,

    /// Exit with 0 although requests have failed, as under more load than there is room for
    #[arg(long)]
    pub allow_failures: bool,

    /// Leave the tables that it makes, for another run
    #[arg(long)]
    pub keep: bool,

    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write the latencies by percentile as a picture
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.001..=10_000_000.0).contains(&rate) => Ok(rate),
        _ => Err("requests a second, from 0.001 to 10000000".to_owned()),
    }
}

pub(crate) async fn run(args: &BenchArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let clients = connect_all(args, connect, args.connections).await?;
    let made = prepare::missing(&clients).await?;
    eprintln!("note: {}", prepare::told(&made, args));
    if args.prepare_only {
        return prepare::all(&clients, args).await.map(drop);
    }
    let measured = prepared(args, connect, &clients).await;
    if !args.keep {
        prepare::remove(&clients, &made).await?;
    }
    measured
}

/// Makes what is missing, and measures.
async fn prepared(args: &BenchArgs, connect: &ConnectArgs, clients: &[Client]) -> Result<(), CliError> {
    let truth = tokio::select! {
        truth = prepare::all(clients, args) => truth?,
        // What it has made is dropped.
        () = interrupted() => return Err(CliError::Cancelled),
    };
    let beside = match args.beside {
        0 => Vec::new(),
        connections => connect_all(args, connect, connections).await?,
    };
    let report = measure(args, clients.to_vec(), beside, truth).await?;
    print(&report.text(Style::of(&io::stdout())))?;
    if let Some(path) = &args.json {
        write(path, &format!("{:#}\n", report.json()))?;
    }
    if let Some(path) = &args.svg {
        write(path, &plot::svg(&report))?;
    }
    match report.failed() {
        _ if !report.is_right() => Err(CliError::input("the answers were not all right")),
        failed if failed > 0 && !args.allow_failures => {
            Err(CliError::input(format!("{} failed", human::plural(failed, "request"))))
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    fs::write(path, text).map_err(|source| CliError::File { path: path.display().to_string(), source })
}

/// The connections: as many as wanted, and the same number to each address.
async fn connect_all(
    args: &BenchArgs,
    connect: &ConnectArgs,
    connections: u16,
) -> Result<Vec<Client>, CliError> {
    let addresses = if args.addresses.is_empty() {
        std::slice::from_ref(&connect.server)
    } else {
        args.addresses.as_slice()
    };
    // A failed request is counted here, and tried again at another address.
    let options =
        ClientOptions { deadline: connect.timeout, retry: RetryPolicy::never(), ..Default::default() };
    let count = usize::from(connections).next_multiple_of(addresses.len());
    let mut clients = Vec::with_capacity(count);
    for address in addresses.iter().cycle().take(count) {
        clients.push(connect.connect_to(address, options).await?);
    }
    for client in clients.iter().take(addresses.len()) {
        starting::wait(client, connect.timeout).await?;
    }
    Ok(clients)
}

/// A load under way.
#[derive(Debug)]
struct Load {
    clients: Vec<Client>,
    /// Those of the heavy queries beside the mix.
    beside: Vec<Client>,
    truth: Truth,
    mix: Mix,
    pace: Arc<Pace>,
    measured_from: Instant,
    tries: u32,
    write_rows: u32,
    /// The first id of this load's writes.
    first_id: i64,
    writes: AtomicU64,
    acknowledged: AtomicU64,
    unknown: AtomicU64,
    recorder: Recorder,
}

async fn measure(
    args: &BenchArgs,
    clients: Vec<Client>,
    beside: Vec<Client>,
    truth: Truth,
) -> Result<Report, CliError> {
    let info = clients.first().ok_or_else(|| CliError::input("no address"))?.server_info().await?.clone();
    let pace = Pace::start(args.warm_up + args.duration, args.rate);
    let load = Arc::new(Load {
        measured_from: pace.started() + args.warm_up,
        truth,
        mix: args.mix,
        pace,
        tries: args.tries,
        write_rows: args.write_rows,
        first_id: first_id(),
        writes: AtomicU64::new(0),
        acknowledged: AtomicU64::new(0),
        unknown: AtomicU64::new(0),
        recorder: Recorder::new()?,
        clients,
        beside,
    });
    let in_flight = if args.rate.is_some() { IN_FLIGHT } else { 1 };
    let mut workers = JoinSet::new();
    for worker in 0..load.clients.len() * in_flight {
        let load = Arc::clone(&load);
        workers.spawn(async move { load.work(worker).await });
    }
    for client in 0..load.beside.len() {
        let load = Arc::clone(&load);
        workers.spawn(async move { load.work_beside(client).await });
    }
    let shown = tokio::spawn(show(Arc::clone(&load), args.warm_up + args.duration));
    tokio::select! {
        () = all_of(&mut workers) => {}
        // What was measured until now is reported.
        () = interrupted() => load.pace.stop(),
    }
    all_of(&mut workers).await;
    shown.abort();
    let measured = load.measured_from.elapsed();
    let writes = load.verify_writes().await?;
    let mut addresses: Vec<String> = load.clients.iter().map(|c| c.address().to_owned()).collect();
    addresses.truncate(args.addresses.len().max(1));
    let recorder = &load.recorder;
    let heavy = (args.beside > 0).then_some(Operation::Heavy);
    let operations = args.mix.operations().filter(|one| Some(*one) != heavy).chain(heavy);
    Ok(Report {
        addresses,
        server: info.version,
        simd: info.simd,
        events: load.truth.events(),
        mix: args.mix,
        rate: args.rate,
        connections: load.clients.len(),
        beside: load.beside.len(),
        warm_up: args.warm_up,
        measured,
        tallies: operations.map(|operation| (operation, recorder.tally(operation))).collect(),
        late: recorder.late(),
        wrong: recorder.wrong_answers(),
        writes,
    })
}

async fn all_of(workers: &mut JoinSet<()>) {
    while workers.join_next().await.is_some() {}
}

/// Ids that no other load writes, as far as chance goes.
fn first_id() -> i64 {
    let run = uuid::Uuid::new_v4().as_u64_pair().0 >> 34;
    PREPARED_IDS * (1 + run.cast_signed())
}

impl Load {
    async fn work(&self, worker: usize) {
        while let Some(arrival) = self.pace.next().await {
            self.arrival(arrival, worker % self.clients.len()).await;
        }
    }

    /// Sends heavy queries, one after the other, as long as the load lasts.
    async fn work_beside(&self, client: usize) {
        while !self.pace.is_over() {
            let begun = Instant::now();
            let outcome = Request::Heavy.send(&self.beside[client], &self.truth).await;
            if let Err(Failure::Wrong(message)) = &outcome {
                self.recorder.wrong(format!("{:?}: {message}", Request::Heavy));
            }
            // Those that are longer than the warm-up are not left out.
            if Instant::now() >= self.measured_from {
                self.recorder.ended(Operation::Heavy, begun.elapsed(), 0, &outcome);
            }
            if outcome.is_err() {
                tokio::time::sleep(RETRY_DELAYS.0).await;
            }
        }
    }

    /// One request, from its arrival to its place in the report.
    async fn arrival(&self, arrival: Arrival, connection: usize) {
        let mut random = Random::new(arrival.index);
        let operation = self.mix.pick(&mut random);
        let new_ids = || {
            let writes = self.writes.fetch_add(1, Ordering::Relaxed);
            self.first_id + writes.cast_signed() * i64::from(self.write_rows)
        };
        let request = Request::new(operation, &self.truth, &mut random, self.write_rows, new_ids);
        let late = arrival.at.elapsed();
        let (retries, outcome) = self.send(&request, connection, late).await;
        let latency = arrival.at.elapsed();
        if operation == Operation::Write {
            let rows = if outcome.is_ok() { &self.acknowledged } else { &self.unknown };
            rows.fetch_add(self.write_rows.into(), Ordering::Relaxed);
        }
        if let Err(Failure::Wrong(message)) = &outcome {
            self.recorder.wrong(format!("{request:?}: {message}"));
        }
        if arrival.at >= self.measured_from {
            self.recorder.began(late);
            self.recorder.ended(operation, latency, retries, &outcome);
        }
    }

    /// Sends a request until it is answered, cannot be, or has been tried often enough. One that begins later
    /// than its last try would have ended has no one who waits for it any longer.
    async fn send(&self, request: &Request, connection: usize, late: Duration) -> (u64, Result<(), Failure>) {
        let (mut delay, longest) = RETRY_DELAYS;
        let mut tries = 0;
        loop {
            let client = &self.clients[(connection + tries) % self.clients.len()];
            if tries == 0 && late > client.options().deadline * self.tries {
                return (0, Err(Failure::Call(Error::Deadline)));
            }
            let outcome = request.send(client, &self.truth).await;
            tries += 1;
            match &outcome {
                Err(failure) if failure.may_pass() && tries < self.tries as usize => {
                    tokio::time::sleep(delay).await;
                    delay = (delay * 2).min(longest);
                }
                _ => return (tries as u64 - 1, outcome),
            }
        }
    }

    /// Counts the rows that were written, at every address in turn, until they are what they should be or that
    /// has taken too long.
    async fn verify_writes(&self) -> Result<Writes, CliError> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut writes = Writes {
            acknowledged: count(&self.acknowledged),
            unknown: count(&self.unknown),
            ..Writes::default()
        };
        if writes == Writes::default() {
            return Ok(writes);
        }
        let rows = count(&self.writes) * u64::from(self.write_rows);
        let (first, end) = (self.first_id, self.first_id + rows.cast_signed());
        let until = Instant::now() + SETTLE;
        let mut right = 0;
        for client in self.clients.iter().cycle() {
            match request::written(client, first, end).await {
                Ok((found, distinct)) => (writes.found, writes.distinct) = (found, distinct),
                Err(error) if Instant::now() >= until => return Err(error.into()),
                Err(_) => {
                    tokio::time::sleep(SETTLE_POLL).await;
                    continue;
                }
            }
            right = if writes.hold() { right + 1 } else { 0 };
            if right == self.clients.len() || Instant::now() >= until {
                break;
            }
            if right == 0 {
                tokio::time::sleep(SETTLE_POLL).await;
            }
        }
        Ok(writes)
    }
}

/// Shows how far a load is, on standard error if it is a terminal.
async fn show(load: Arc<Load>, time: Duration) {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let bar = ProgressBar::new(millis(time));
    if let Ok(style) = ProgressStyle::with_template("{bar:32.cyan/dim} {elapsed:>4}  {msg}") {
        bar.set_style(style.progress_chars("━╸─"));
    }
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    let mut before = 0;
    loop {
        for _ in 0..5 {
            ticks.tick().await;
            bar.set_position(millis(load.pace.started().elapsed()));
        }
        let (answered, failed) = load.recorder.counts();
        let rate = answered - before;
        before = answered;
        let failed = if failed > 0 { format!(", {} failed", human::count(failed)) } else { String::new() };
        bar.set_message(format!(
            "{} answered, {} a second{failed}",
            human::count(answered),
            human::count(rate)
        ));
    }
}
