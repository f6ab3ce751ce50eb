//! Between the messages of `basalt.v1` and the types of the engine; nothing else in the server knows both.
//!
//! What comes in is hostile until it has passed here: limits are checked before anything is built, and an
//! error names the place in the message.

mod answer;
mod filter;
mod ipc;
mod query;
mod rows;
mod schema;
mod sets;

pub(crate) use answer::{message_bytes, to_ipc, to_rows};
pub(crate) use query::{explanation, filter, query, statistics};
pub(crate) use rows::BatchReader;
pub(crate) use schema::{from_schema, table, table_columns, to_schema};
pub(crate) use sets::{check_sip_bytes, scope, sip, tag, to_scope, to_sip};
