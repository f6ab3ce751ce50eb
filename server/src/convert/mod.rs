//! Between the messages of `basalt.v1` and the types of the engine; nothing else in the server knows both.
//!
//! What comes in is hostile until it has passed here: limits are checked before anything is built, and an
//! error names the place in the message.

mod answer;
mod columns;
mod deletes;
mod filter;
mod fit;
mod ipc;
mod ipc_messages;
mod lookups;
mod parts;
mod query;
mod retention;
mod rows;
mod schema;
mod sets;
mod to_request;
mod version;

pub(crate) use answer::{message_bytes, to_ipc, to_rows};
pub(crate) use columns::{add_column, columns, tell};
pub(crate) use deletes::from_deletes;
use deletes::to_deletes;
#[cfg(feature = "sql")]
pub(crate) use filter::parameters;
pub(crate) use fit::table_schema;
pub(crate) use ipc_messages::MessageReader;
pub(crate) use lookups::{place_lookups, to_lookups};
pub(crate) use parts::{
    PartReader, add_statistics, addresses, from_statistics, join_set, to_join_set, to_messages, to_values,
    values,
};
pub(crate) use query::{explanation, filter, query, statistics, to_statistics};
pub(crate) use retention::{cutoff, from_retention, to_cutoff, to_retention};
pub(crate) use rows::BatchReader;
pub(crate) use schema::{from_optimize, from_schema, to_schema, told};
pub(crate) use sets::{check_sip_bytes, scope, sip, tag, to_scope, to_sip};
pub(crate) use to_request::{to_filter, to_query};
pub(crate) use version::version_of;
