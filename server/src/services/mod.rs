//! The services of `basalt.v1`: each method reads its request, asks the engine, and writes its answer.

mod answer;
mod catalog;
mod cluster;
mod ingest;
mod query;
mod select;
mod sips;
mod sql;
mod writer;

pub(crate) use catalog::Catalog;
pub(crate) use cluster::Cluster;
pub(crate) use ingest::Ingest;
pub(crate) use query::Query;
pub(crate) use sips::Sips;
pub(crate) use sql::Sql;
pub(crate) use writer::Write;
