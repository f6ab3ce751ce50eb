//! `basalt demo --nodes 3`: a cluster in this process over one directory. What a semi-join ships between its nodes, with
//! sets and without; and that one of them may go.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    path::Path,
    time::Instant,
};

use basalt_client::{
    Client, ClientOptions, QueryResult,
    cli::{self, grid::Grid, human, output, style::Style},
    proto::QueryRequest,
    sql,
};
use basalt_server::{Config, Listeners};
use indicatif::ProgressBar;
use tokio::{net::TcpListener, task::JoinHandle};

use super::{DEADLINE, Data, DemoArgs, Error, load};

/// Fragments of each table: enough that every node has some.
const COMMITS: u64 = 6;

/// The orders of a week, and what they bring.
const SEMI_JOIN: &str = "SELECT count(*) AS items, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem
WHERE l_orderkey IN (SELECT o_orderkey FROM orders
                     WHERE o_orderdate >= '1995-03-01' AND o_orderdate < '1995-03-08')";

/// Bytes of a key and of the two other columns that the question needs of a line item.
const ROW_BYTES: u64 = 24;

/// The same for the Star Schema Benchmark, whose line orders are as wide.
const STAR: &str = "SELECT count(*) AS orders, sum(lo_extendedprice * lo_discount) AS revenue
FROM lineorder
WHERE lo_custkey IN (SELECT c_custkey FROM customer WHERE c_nation = 'UNITED STATES')";

/// One node.
struct Node {
    name: String,
    client: Client,
    server: JoinHandle<Result<(), basalt_server::Error>>,
}

/// Runs the demo.
pub(super) async fn run(args: &DemoArgs) -> Result<(), Error> {
    let (mut out, style) = (io::stdout(), Style::of(&io::stdout()));
    let store = tempfile::tempdir()?;
    let mut nodes = start(args, store.path()).await?;
    let about = format!("{} nodes over {}, each fragment on 2", nodes.len(), store.path().display());
    writeln!(out, "{} {}\n", style.bold("Basalt"), style.dim(&about))?;
    load::all(&nodes[0].client, args.data, args.scale, COMMITS, style).await?;

    writeln!(out, "{}", style.bold("The cluster"))?;
    writeln!(out, "{}", style.dim("  basalt cluster status"))?;
    let cluster = nodes[0].client.cluster().await?;
    writeln!(out, "{}\n", cli::status(&cluster, &nodes[0].name).trim_end())?;

    let question = if args.data == Data::Ssb { STAR } else { SEMI_JOIN };
    writeln!(out, "{}", style.bold("A semi-join, coordinated by the first node"))?;
    question.lines().try_for_each(|line| writeln!(out, "  {line}"))?;
    let request = sql::parse_select(question)?.resolve(&nodes[0].client).await?;
    let answer = ask(&nodes[0].client, &request, style).await?;
    shipped(&nodes[0].client, &request, style).await?;

    let last = nodes.len() - 1;
    let Node { name, server, .. } = nodes.swap_remove(last);
    server.abort();
    let title = format!("{name} is stopped, without a word; the same question");
    writeln!(out, "{}", style.bold(&title))?;
    for node in &nodes {
        if ask(&node.client, &request, style).await?.batches != answer.batches {
            return Err(Error::Differs);
        }
    }
    writeln!(out, "  {}", style.green("✓ the same answer, to the bit, from every node that is left"))?;

    if args.keep {
        let there = style.bold("The others are still there");
        writeln!(out, "\n{there}, at {}, until Ctrl-C.", nodes[0].client.address())?;
        tokio::signal::ctrl_c().await?;
    }
    nodes.iter().for_each(|node| node.server.abort());
    Ok(())
}

/// Starts the nodes, which know each other.
async fn start(args: &DemoArgs, store: &Path) -> Result<Vec<Node>, Error> {
    let progress = ProgressBar::new(args.nodes.into()).with_message("starting nodes");
    let listen = async |address: SocketAddr| {
        TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
    };
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut listeners = Vec::new();
    for i in 0..args.nodes {
        let clients = listen(if i == 0 { args.listen } else { free }).await?;
        listeners.push((clients, listen(free).await?));
    }
    let names = listeners.iter().map(|(_, peers)| Ok(peers.local_addr()?.to_string()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    let mut nodes = Vec::new();
    for ((clients, peers), name) in listeners.into_iter().zip(&names) {
        let config = Config {
            threads: args.threads,
            store: store.display().to_string(),
            advertise: Some(name.clone()),
            peers: names.clone(),
            insecure: true,
            ..Config::default()
        };
        let address = clients.local_addr()?.to_string();
        let listeners = Listeners { peers: Some(peers), ..clients.into() };
        let server = tokio::spawn(basalt_server::run(listeners, config, std::future::pending()));
        let options = ClientOptions::new().deadline(DEADLINE);
        let client = Client::connect_with(&address, options).await?;
        client.list_tables().await?;
        nodes.push(Node { name: name.clone(), client, server });
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(nodes)
}

/// Asks, and shows the answer.
async fn ask(client: &Client, request: &QueryRequest, style: Style) -> Result<QueryResult, Error> {
    let mut out = io::stdout();
    let started = Instant::now();
    let answer = client.query_of(request.clone()).collect().await?;
    let time = started.elapsed();
    writeln!(out, "{}  {}\n", output::table(&answer)?, style.green(&human::duration(time)))?;
    Ok(answer)
}

/// What travelled for a question, beside what would have without sets.
async fn shipped(client: &Client, request: &QueryRequest, style: Style) -> Result<(), Error> {
    let mut out = io::stdout();
    let plan = client.query_of(request.clone()).explain(true).await?;
    writeln!(out, "{}", style.bold("What travelled"))?;
    writeln!(out, "{}", cli::hops(&plan.hops))?;
    let bytes: u64 = plan.hops.iter().map(|hop| hop.sent_bytes + hop.received_bytes).sum();
    // A semi-join's keys go to the nodes that hold the other table, and come from those that hold its own.
    let remote = |of_join: bool| {
        plan.hops
            .iter()
            .filter(move |hop| hop.of.is_empty() != of_join && hop.sent_bytes + hop.received_bytes > 0)
    };
    let keys: u64 = plan.sips.iter().map(|sip| sip.cardinality).max().unwrap_or_default();
    let found: u64 = remote(true).filter_map(|hop| hop.statistics).map(|s| s.rows_selected).sum();
    let ids = 8 * (found + keys * remote(false).count() as u64);
    let rows: u64 = remote(false).filter_map(|hop| hop.statistics).map(|s| s.rows).sum();
    let mut grid = Grid::new([("shipped", false), ("bytes", true), ("", true)]);
    for (what, n) in
        [("sets (measured, all messages)", bytes), ("keys of 64 bits", ids), ("rows", rows * ROW_BYTES)]
    {
        grid.row([what.to_owned(), human::bytes(n), human::ratio(n, bytes)]);
    }
    writeln!(out, "{}", grid.render())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn nodes_answer_and_one_may_go() {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        for data in [Data::Tpch, Data::Ssb] {
            let args = DemoArgs {
                data,
                scale: 0.002,
                all_columns: false,
                keep: false,
                listen,
                threads: 1,
                nodes: 3,
            };
            tokio::time::timeout(std::time::Duration::from_secs(120), run(&args)).await.unwrap().unwrap();
        }
    }
}
