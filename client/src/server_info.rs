//! What a server says of itself.

use std::time::Duration;

use basalt_proto::v1;

/// Version, instruction set and limits of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Of the program.
    pub version: String,
    /// The instruction set of the kernels in use: `scalar`, `avx2`, `avx512`, `neon`.
    pub simd: String,
    /// What it refuses; all 0 where it does not say.
    pub limits: Limits,
}

/// What a server refuses; 0 is a limit that it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a message.
    pub message_bytes: u64,
    /// Parts of a filter inside one another.
    pub filter_depth: u32,
    /// Parts of a filter.
    pub filter_nodes: u32,
    /// Values of an IN list.
    pub in_list_values: u32,
    /// Columns of a table.
    pub columns: u32,
    /// Rows of a batch that is written.
    pub batch_rows: u32,
    /// Memory that the server may take.
    pub memory_bytes: u64,
    /// Queries that run at a time.
    pub concurrent_queries: u32,
    /// The longest deadline that a call may have.
    pub max_deadline: Duration,
    /// Bytes of all kept sets together.
    pub kept_sets_bytes: u64,
    /// The longest time that a set is kept.
    pub max_keep: Duration,
    /// Semi-joins of a query.
    pub semi_joins: u32,
}

impl From<v1::GetServerInfoResponse> for ServerInfo {
    fn from(info: v1::GetServerInfoResponse) -> Self {
        let v1::GetServerInfoResponse { version, simd, limits } = info;
        Self { version, simd, limits: limits.map(Limits::from).unwrap_or_default() }
    }
}

impl From<v1::Limits> for Limits {
    fn from(limits: v1::Limits) -> Self {
        Self {
            message_bytes: limits.message_bytes,
            filter_depth: limits.filter_depth,
            filter_nodes: limits.filter_nodes,
            in_list_values: limits.in_list_values,
            columns: limits.columns,
            batch_rows: limits.batch_rows,
            memory_bytes: limits.memory_bytes,
            concurrent_queries: limits.concurrent_queries,
            max_deadline: Duration::from_millis(limits.max_deadline_ms),
            kept_sets_bytes: limits.kept_sets_bytes,
            max_keep: Duration::from_millis(limits.max_keep_ms),
            semi_joins: limits.semi_joins,
        }
    }
}
