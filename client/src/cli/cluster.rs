//! `basalt cluster`: the nodes, what they hold, and how far they are.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::{CliError, ConnectArgs, grid::Grid, human, print, style::Style};
use crate::cluster::{Cluster, Node, NodeState};

/// Commands about the cluster that a server belongs to.
#[derive(Clone, Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the nodes: their state, what they hold, the versions that they know
    Status(StatusArgs),
}

/// Arguments of `cluster status`.
#[derive(Args, Clone, Debug)]
pub struct StatusArgs {
    /// How it is printed
    #[arg(long, short, value_enum, default_value_t)]
    pub format: StatusFormat,
}

/// How the status is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StatusFormat {
    /// Aligned columns
    #[default]
    Table,
    /// One object
    Json,
}

pub(crate) async fn run(command: &ClusterCommand, connect: &ConnectArgs) -> Result<(), CliError> {
    let ClusterCommand::Status(args) = command;
    let client = connect.connect().await?;
    let cluster = client.cluster().await?;
    match args.format {
        StatusFormat::Table => print(&status(&cluster, client.address())),
        StatusFormat::Json => print(&format!("{:#}\n", json(&cluster))),
    }
}

/// The nodes and the tables, for people; `address` names a server without a cluster.
pub fn status(cluster: &Cluster, address: &str) -> String {
    let style = Style::of(&std::io::stdout());
    let mut nodes = Grid::new([
        ("node", false),
        ("state", false),
        ("fragments", true),
        ("rows", true),
        ("held", true),
        ("memory", true),
        ("behind", true),
        ("up", true),
        ("version", false),
    ]);
    for node in &cluster.nodes {
        nodes.row(node_cells(node, address));
    }
    let mut tables = Grid::new([("table", false), ("version", true), ("fragments", true), ("rows", true)]);
    for table in &cluster.tables {
        let (fragments, rows) = (human::count(table.fragments), human::count(table.rows));
        tables.row([table.name.clone(), table.version.to_string(), fragments, rows]);
    }
    let copies = match cluster.replication {
        1 => "each fragment on one".to_owned(),
        n => format!("each fragment on {n}"),
    };
    let title = style.bold(&human::plural(cluster.nodes.len() as u64, "node"));
    let mut text = format!("{title}  {}\n\n{}", style.dim(&copies), nodes.render());
    if !cluster.tables.is_empty() {
        text.push('\n');
        text.push_str(&tables.render());
    }
    text
}

fn node_cells(node: &Node, address: &str) -> [String; 9] {
    let name = if node.name.is_empty() { address } else { &node.name };
    let mark = if node.own { " *" } else { "" };
    let sum = |of: fn(&crate::cluster::NodeTable) -> u64| node.tables.iter().map(of).sum::<u64>();
    let lag = sum(|table| table.lag);
    let known = !node.version.is_empty();
    let or_dash = |text: String| if known { text } else { "-".to_owned() };
    [
        format!("{name}{mark}"),
        state(node),
        or_dash(human::count(sum(|table| table.fragments))),
        or_dash(human::count(sum(|table| table.rows))),
        or_dash(human::bytes(sum(|table| table.bytes))),
        or_dash(human::share(node.memory_bytes, node.memory_limit_bytes)),
        or_dash(if lag == 0 { "-".to_owned() } else { human::plural(lag, "version") }),
        or_dash(human::duration(Duration::from_millis(node.uptime_ms))),
        or_dash(node.version.clone()),
    ]
}

fn state(node: &Node) -> String {
    let name = match node.state {
        NodeState::Unknown => "unknown",
        NodeState::Alive => return "alive".to_owned(),
        NodeState::Suspect => "suspect",
        NodeState::Dead => "dead",
        NodeState::Incompatible => "incompatible",
        NodeState::NotReady => "not ready",
    };
    format!("{name}, silent for {}", human::duration(Duration::from_millis(node.silent_ms)))
}

fn json(cluster: &Cluster) -> Value {
    let nodes = cluster.nodes.iter().map(|node| {
        let tables = node.tables.iter().map(|table| {
            json!({
                "name": table.name,
                "version": table.version,
                "lag": table.lag,
                "fragments": table.fragments,
                "rows": table.rows,
                "bytes": table.bytes,
            })
        });
        json!({
            "name": node.name,
            "state": node.state.name(),
            "own": node.own,
            "version": node.version,
            "uptime_ms": node.uptime_ms,
            "silent_ms": node.silent_ms,
            "memory_bytes": node.memory_bytes,
            "memory_limit_bytes": node.memory_limit_bytes,
            "tables": tables.collect::<Vec<_>>(),
        })
    });
    let tables = cluster.tables.iter().map(|table| {
        json!({
            "name": table.name,
            "version": table.version,
            "fragments": table.fragments,
            "rows": table.rows,
        })
    });
    json!({
        "replication": cluster.replication,
        "nodes": nodes.collect::<Vec<_>>(),
        "tables": tables.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{ClusterTable, NodeTable};

    fn cluster() -> Cluster {
        let table = |version, lag, fragments| NodeTable {
            name: "flights".into(),
            version,
            lag,
            fragments,
            rows: 1000 * fragments,
            bytes: 5000 * fragments,
        };
        let node = |name: &str, state: NodeState, tables| Node {
            name: name.into(),
            state,
            version: "0.1.0".into(),
            uptime_ms: 90_000,
            memory_bytes: 1 << 20,
            memory_limit_bytes: 1 << 30,
            tables,
            ..Default::default()
        };
        let first = Node { own: true, ..node("a:1", NodeState::Alive, vec![table(7, 0, 3)]) };
        let second = Node { silent_ms: 4000, ..node("b:1", NodeState::Dead, vec![table(5, 2, 2)]) };
        let never = Node { name: "c:1".into(), state: NodeState::Suspect, ..Default::default() };
        let flights = ClusterTable { name: "flights".into(), version: 7, fragments: 4, rows: 4000 };
        Cluster { nodes: vec![first, second, never], replication: 2, tables: vec![flights] }
    }

    #[test]
    fn people_see_who_is_behind_and_who_is_gone() {
        let text = status(&cluster(), "http://here");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines[0], "3 nodes  each fragment on 2");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words(lines[3]), "a:1 * alive 3 3,000 15.0 kB 0.10 % - 90.0 s 0.1.0");
        assert!(words(lines[4]).starts_with("b:1 dead, silent for 4.00 s 2 2,000"), "{}", lines[4]);
        assert!(lines[4].contains("2 versions"));
        assert!(words(lines[5]).ends_with("- - - - - - -"), "{}", lines[5]);
        assert_eq!(words(lines[8]), "flights 7 4 4,000");
    }

    #[test]
    fn programs_see_the_same() {
        let value = json(&cluster());
        assert_eq!(value["nodes"][1]["state"], "dead");
        assert_eq!(value["nodes"][1]["tables"][0]["lag"], 2);
        assert_eq!(value["tables"][0]["rows"], 4000);
        assert_eq!(value["replication"], 2);
    }
}
