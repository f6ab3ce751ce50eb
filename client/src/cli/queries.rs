//! `basalt queries` and `basalt cancel`: what runs at the nodes of a cluster, and its end.

use clap::{Args, ValueEnum};
use humantime::format_rfc3339_millis;
use serde_json::json;

use super::{CliError, ConnectArgs, grid::Grid, human, print};
use crate::queries::{QueryState, RunningQueries, RunningQuery};

/// Arguments of `queries`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
With keys, it shows your own; an administrator and whoever may read all tables see all. Of a cluster it shows those
of all nodes, whichever is asked, and says which nodes did not answer.

Examples:
  basalt queries
  basalt cancel 5d2c91b0a7e4f318-42")]
pub struct QueriesArgs {
    /// How they are printed
    #[arg(long, short, value_enum, default_value_t)]
    pub format: QueriesFormat,
}

/// How the queries are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum QueriesFormat {
    /// Aligned columns
    #[default]
    Table,
    /// One array
    Json,
}

/// Arguments of `cancel`.
#[derive(Args, Clone, Debug)]
pub struct CancelArgs {
    /// Its id, as `basalt queries` shows it
    pub id: String,
}

pub(crate) async fn list(args: &QueriesArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    let RunningQueries { queries, unanswered, .. } = connect.connect().await?.running_queries().await?;
    for silent in &unanswered {
        eprintln!("note: of node {} nothing is known: {}", silent.node, silent.problem);
    }
    match args.format {
        QueriesFormat::Table if queries.is_empty() => print("no query runs\n"),
        QueriesFormat::Table => print(&table(&queries)),
        QueriesFormat::Json => {
            let all: Vec<_> = queries.iter().map(of_json).collect();
            print(&format!("{:#}\n", json!(all)))
        }
    }
}

pub(crate) async fn cancel(args: &CancelArgs, connect: &ConnectArgs) -> Result<(), CliError> {
    connect.connect().await?.cancel_query(&args.id).await?;
    print(&format!("cancelled {}\n", args.id))
}

fn table(queries: &[RunningQuery]) -> String {
    // A server without a cluster has no name.
    let has_nodes = queries.iter().any(|query| !query.node.is_empty());
    let node = has_nodes.then_some(("node", false));
    let columns = [
        ("id", false),
        ("state", false),
        ("for", true),
        ("rows", true),
        ("caller", false),
        ("method", false),
        ("query", false),
    ];
    let mut grid = Grid::new(node.into_iter().chain(columns));
    for query in queries {
        let node = has_nodes.then(|| query.node.clone());
        let cells = [
            query.id.clone(),
            name(query.state).to_owned(),
            human::duration(query.elapsed),
            human::count(query.rows),
            query.caller.clone(),
            query.method.clone(),
            // One line for each.
            query.text.split_whitespace().collect::<Vec<_>>().join(" "),
        ];
        grid.row(node.into_iter().chain(cells));
    }
    grid.render()
}

fn of_json(query: &RunningQuery) -> serde_json::Value {
    json!({
        "id": query.id,
        "state": name(query.state),
        "text": query.text,
        "method": query.method,
        "caller": query.caller,
        "started": format_rfc3339_millis(query.started).to_string(),
        "elapsed_ms": u64::try_from(query.elapsed.as_millis()).unwrap_or(u64::MAX),
        "rows": query.rows,
        "node": query.node,
    })
}

fn name(state: QueryState) -> &'static str {
    match state {
        QueryState::Planning => "planning",
        QueryState::Running => "running",
        QueryState::Cancelling => "cancelling",
        QueryState::Unknown => "unknown",
    }
}
