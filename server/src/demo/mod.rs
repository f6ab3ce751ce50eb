//! `basalt demo`: a server in this process, a benchmark's tables generated into it, and what it then holds and answers.

mod ask;
mod columns;
pub(crate) mod generate;
mod load;
mod nodes;
mod queries;
mod references;
mod ssb;
mod tpch;

use std::{
    fmt,
    io::{self, Write as _},
    net::SocketAddr,
    time::Duration,
};

use arrow_schema::ArrowError;
use basalt_client::{Client, ClientOptions, cli::style::Style};
use basalt_server::Config;
use tokio::{net::TcpListener, sync::oneshot};

/// The longest that any call may take.
const DEADLINE: Duration = Duration::from_secs(600);

/// A benchmark whose tables are made here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Data {
    /// TPC-H: eight tables, 8.7 million rows at scale 1
    #[default]
    Tpch,
    /// The Star Schema Benchmark: one table of 6 million rows at scale 1, which refers to four others
    Ssb,
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tpch => "TPC-H",
            Self::Ssb => "the Star Schema Benchmark",
        })
    }
}

/// What `basalt demo` can be told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// The tables, and what they are asked
    #[arg(long, value_enum, default_value_t)]
    data: Data,

    /// Size of the data: 1 is TPC-H's 8.7 million rows, 1 GB as text
    #[arg(long, value_name = "FACTOR", default_value_t = 0.1, value_parser = scale)]
    scale: f64,

    /// Show the columns of all tables, not of the largest alone
    #[arg(long)]
    all_columns: bool,

    /// Leave the server running at the end, until Ctrl-C
    #[arg(long)]
    keep: bool,

    /// Where the server listens; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Threads for queries and encoding; 0: one a core
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,

    /// A cluster of so many nodes in this process: what they ship to each other, and that one may go
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=7))]
    nodes: u8,
}

/// Why the demo ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The server did not start or failed.
    #[error(transparent)]
    Server(#[from] basalt_server::Error),
    /// A call failed.
    #[error(transparent)]
    Client(#[from] basalt_client::Error),
    /// Rows that do not make a batch.
    #[error(transparent)]
    Data(#[from] ArrowError),
    /// Output that cannot be written.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// Rows that do not make a Parquet file.
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A question is not in the client's SQL.
    #[error(transparent)]
    Sql(#[from] basalt_client::sql::SqlError),
    /// A task failed.
    #[error(transparent)]
    Task(#[from] tokio::task::JoinError),
    /// No socket.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// An answer that is not the one before.
    #[error("the answer differs from the one before a node was stopped")]
    Differs,
    /// A wrong answer.
    #[error("the answer to TPC-H Q{number} differs from the published one: {published}")]
    Answer {
        /// The query's number.
        number: i32,
        /// The answer that the TPC publishes.
        published: &'static str,
    },
}

/// Runs the demo; with `keep`, until Ctrl-C.
///
/// # Errors
/// What the server or a call to it answers, and an answer that is known to be wrong.
pub(crate) async fn run(args: DemoArgs) -> Result<(), Error> {
    if args.nodes > 1 {
        return match nodes::run(&args).await {
            Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome,
        };
    }
    // What it holds was made here, and goes with it.
    let insecure = true;
    let config = Config { threads: args.threads, store: "memory:".into(), insecure, ..Config::default() };
    let threads = config.cpu_threads();
    let listen = |source| Error::Listen { address: args.listen, source };
    let listener = TcpListener::bind(args.listen).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(basalt_server::run(listener, config, async {
        // Stopping and dropping the other end are the same.
        let _ = stopped.await;
    }));
    let server = async { Ok(server.await??) };
    let session = async {
        let outcome = show(&args, address, threads).await;
        drop(stop);
        match outcome {
            // Whoever reads the output has seen enough.
            Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome,
        }
    };
    tokio::try_join!(server, session).map(|_| ())
}

/// Everything that is shown of the server at `address`.
async fn show(args: &DemoArgs, address: SocketAddr, threads: usize) -> Result<(), Error> {
    // Large scales take long to describe: the entropy of every column is counted.
    let options = ClientOptions::new().deadline(DEADLINE);
    let client = Client::connect_with(&address.to_string(), options).await?;
    let info = client.server_info().await?;
    let (mut out, style) = (io::stdout(), Style::of(&io::stdout()));
    let about = format!("{} · {} kernels · {threads} threads · {address}", info.version, info.simd);
    writeln!(out, "{} {}\n", style.bold("Basalt"), style.dim(&about))?;

    let tables = load::all(&client, args.data, args.scale, 1, style).await?;
    let detailed: &[&str] = match args.data {
        _ if args.all_columns => &tables,
        Data::Tpch => &["orders", "lineitem"],
        Data::Ssb => &["lineorder"],
    };
    columns::show(&client, &tables, detailed, style).await?;
    ask::all(&client, args.data, args.scale, style).await?;

    if args.keep {
        let there = style.bold("The server is still there");
        writeln!(out, "{there}, at {address}, until Ctrl-C. Ask it something:")?;
        let sql = match args.data {
            Data::Tpch => "SELECT count(*) FROM orders WHERE o_totalprice > 300000",
            Data::Ssb => "SELECT count(*) FROM lineorder WHERE lo_orderdate.d_holidayfl",
        };
        writeln!(out, "  basalt --server {address} query \"{sql}\"")?;
        tokio::signal::ctrl_c().await?;
    } else {
        let more = "--keep leaves the server there for questions of yours; --scale 1 loads 8.7 million rows.";
        writeln!(out, "{}", style.dim(more))?;
    }
    Ok(())
}

pub(crate) fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.001..=1000.0).contains(&scale) => Ok(scale),
        _ => Err("it is a number from 0.001 to 1000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn runs_to_its_end() {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        for data in [Data::Tpch, Data::Ssb] {
            let all_columns = data == Data::Tpch;
            let args =
                DemoArgs { data, scale: 0.001, all_columns, keep: false, listen, threads: 0, nodes: 1 };
            run(args).await.unwrap();
        }
    }

    #[test]
    fn scales_are_bounded() {
        assert_eq!(scale("0.5"), Ok(0.5));
        for bad in ["0", "-1", "NaN", "inf", "1e9", "large"] {
            assert!(scale(bad).is_err(), "{bad}");
        }
    }
}
