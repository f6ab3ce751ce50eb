//! The tables of the schema `system`, which show the server that answers.

use super::tables::{Value, Virtual, full};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerTable {
    /// Queries that run at any node: those of whoever asks, or all where he may observe the server; and the nodes that did
    /// not answer.
    Queries,
    /// Tables, as the whole cluster has them.
    Tables,
    /// How their columns are held.
    Columns,
    /// Their fragments.
    Fragments,
    /// Their versions that can be read.
    Versions,
    /// The cluster's nodes.
    Nodes,
    /// What each of them holds of each table.
    NodeTables,
    /// The sets of row ids that this node keeps.
    Sets,
}

impl ServerTable {
    pub(super) fn of(table: &Virtual) -> Option<Self> {
        Some(match table.name {
            "system.queries" => Self::Queries,
            "system.tables" => Self::Tables,
            "system.columns" => Self::Columns,
            "system.fragments" => Self::Fragments,
            "system.versions" => Self::Versions,
            "system.nodes" => Self::Nodes,
            "system.node_tables" => Self::NodeTables,
            "system.sets" => Self::Sets,
            _ => return None,
        })
    }
}

/// A row of one: columns by their names; the others are NULL.
pub type ServerRow = Vec<(&'static str, Value)>;

pub(super) const TABLES: [Virtual; 8] = [
    full("system.queries", 14_001, "id node state text method caller started:t elapsed_ms:i rows:i problem"),
    full(
        "system.tables",
        14_002,
        "name version:i rows:i columns:i fragments:i bytes:i retention deletes problem",
    ),
    full(
        "system.columns",
        14_003,
        "table_name name position:i type nullable:b references rows:i nulls:i bytes:i plain_bytes:i bits_per_value:f encodings",
    ),
    full("system.fragments", 14_004, "table_name id:i rows:i live_rows:i bytes:i file"),
    full("system.versions", 14_008, "table_name version:i committed:t operation rows:i"),
    full(
        "system.nodes",
        14_005,
        "name state own:b version uptime_ms:i silent_ms:i memory_bytes:i memory_limit_bytes:i fragments:i rows:i held_bytes:i",
    ),
    full("system.node_tables", 14_007, "node table_name version:i lag:i fragments:i rows:i bytes:i"),
    full("system.sets", 14_006, "handle table_name version:i column cardinality:i bytes:i expires_ms:i"),
];
