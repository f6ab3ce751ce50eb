//! The cluster as this node sees it, for people.

use std::collections::BTreeMap;

use basalt_proto::{
    cluster::v1::{GetStatusResponse, HeldTable},
    v1::{self as pb, NodeState},
};

use tokio::time::timeout;

use crate::{
    limits,
    membership::{LinkState as State, Node},
    state::State as Server,
    units::millis,
};

/// The nodes, what they hold, and the newest version of each table.
pub(crate) async fn overview(server: &Server) -> pb::GetClusterResponse {
    let Some(cluster) = &server.cluster else {
        let own = super::status(server, None);
        return gathered(vec![(own_node(), Some(own))], 1);
    };
    // What it has told last is shown of a node that does not answer at once.
    let _ = timeout(limits::OVERVIEW_TIMEOUT, cluster.members().ask()).await;
    let view = cluster.members().view();
    let nodes = view.nodes().iter().map(|Node { name, link }| match link {
        None => {
            (pb::Node { name: name.to_string(), ..own_node() }, Some(super::status(server, Some(cluster))))
        }
        Some(link) => {
            let status = link.status();
            // Not asked yet is not known to live.
            let state =
                if status.is_none() && link.state() == State::Alive { State::Suspect } else { link.state() };
            let node = pb::Node {
                name: name.to_string(),
                state: told(state).into(),
                silent_ms: millis(link.silence()),
                ..Default::default()
            };
            (node, status.map(|status| (*status).clone()))
        }
    });
    gathered(nodes.collect(), view.replicas())
}

fn own_node() -> pb::Node {
    pb::Node { state: NodeState::Alive.into(), own: true, ..Default::default() }
}

fn told(state: State) -> NodeState {
    match state {
        State::Alive => NodeState::Alive,
        State::Suspect => NodeState::Suspect,
        State::Dead => NodeState::Dead,
        State::Incompatible => NodeState::Incompatible,
        State::NotReady => NodeState::NotReady,
    }
}

fn gathered(nodes: Vec<(pb::Node, Option<GetStatusResponse>)>, replicas: usize) -> pb::GetClusterResponse {
    // A table that was dropped and made again is another one under its name: the one with the newer version, since
    // versions of a name never fall.
    let mut newest = BTreeMap::<String, &HeldTable>::new();
    for table in nodes.iter().filter_map(|(_, status)| status.as_ref()).flat_map(|status| &status.tables) {
        let known = newest.entry(table.name.clone()).or_insert(table);
        if known.version < table.version {
            *known = table;
        }
    }
    let tables = newest.values().map(|table| pb::ClusterTable {
        name: table.name.clone(),
        version: table.version,
        fragments: table.table_fragments.into(),
        rows: table.table_rows,
    });
    let tables = tables.collect();
    let held = |table: &HeldTable| pb::NodeTable {
        name: table.name.clone(),
        version: table.version,
        lag: newest.get(&table.name).map_or(0, |newest| newest.version - table.version),
        fragments: table.fragments.into(),
        rows: table.rows,
        bytes: table.bytes,
    };
    let nodes = nodes.iter().map(|(node, status)| match status {
        None => node.clone(),
        Some(status) => pb::Node {
            version: status.version.clone(),
            uptime_ms: status.uptime_ms,
            memory_bytes: status.memory_bytes,
            memory_limit_bytes: status.memory_limit_bytes,
            tables: status.tables.iter().map(held).collect(),
            ..node.clone()
        },
    });
    pb::GetClusterResponse {
        nodes: nodes.collect(),
        replication: u32::try_from(replicas).unwrap_or(u32::MAX),
        tables,
    }
}
