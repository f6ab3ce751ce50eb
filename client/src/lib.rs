//! The Rust client of Basalt: Arrow batches in and out, filters and aggregates as typed expressions.
//!
//! ```no_run
//! use basalt_client::{Client, col, lit, sum};
//!
//! # async fn example() -> basalt_client::Result<()> {
//! let client = Client::connect("http://127.0.0.1:7700").await?;
//! let revenue = client
//!     .query("lineitem")
//!     .select([sum(col("l_extendedprice") * (lit(1) - col("l_discount"))).alias("revenue")])
//!     .filter(col("l_quantity").lt(24).and(col("l_shipdate").ge("1994-01-01")))
//!     .collect()
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Client`] connects, to one address or to the first of several that answers ([`Client::connect_any`]), describes and
//!   changes the catalog; [`ClientOptions`] and [`RetryPolicy`] say how long and how often, [`Interceptor`]s add headers.
//! - [`Query`] is built from [`Expr`]s and [`Filter`]s, [`Statement`]s are SQL; both answer with Arrow batches, gathered
//!   ([`QueryResult`]) or as a `Stream` ([`QueryStream`]), or with rows of the program's own types (`QueryResult::rows`).
//! - [`Set`]s of rows or values are answers that are filters again; [`keys_of`] is a semi-join.
//! - [`Writer`] adds rows, all or none; [`Client::write_all`] repeats what broke, without doubling a row.
//! - [`Error`] carries the server's reason and the place in the request.
//!
//! Structs and enums that may grow are `#[non_exhaustive]`: options are made by `new` and methods of their fields' names. What
//! has types of `tonic` and `prost` is in [`raw`].
//!
//! Features, none of which is on by default: `serde` reads rows into types that implement `Deserialize`; `sql` reads SQL for
//! one table into a query here (`Client::sql` needs none of it); `cli` adds the commands of the `basalt` binary.

mod answer;
#[cfg(feature = "sql")]
#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "the command line writes them, too"))]
mod calendar;
mod call;
mod catalog;
#[cfg(feature = "cli")]
pub mod cli;
mod client;
mod cluster;
pub mod convert;
mod credentials;
mod error;
mod expr;
mod hosts;
mod interceptor;
mod mirror;
mod options;
mod plan;
pub mod queries;
mod query;
pub mod raw;
mod reason;
mod retry;
#[cfg(feature = "serde")]
mod rows;
mod server_info;
mod set;
#[cfg(feature = "sql")]
pub mod sql;
mod statement;
mod table;
#[cfg(feature = "sql")]
#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "the command line reads more of them"))]
mod text;
mod types;
mod write;

pub use answer::{QueryResult, QueryStream};
pub use client::Client;
pub use cluster::{Cluster, ClusterTable, Node, NodeState, NodeTable};
pub use credentials::Credentials;
pub use error::{Code, Error, ErrorReason, Place, Result, ServerError};
pub use expr::{
    Expr, Filter, Literal, OrderBy, attribute, avg, col, cols, count, count_distinct, count_of, lit, max,
    min, not, row_address, sum,
};
pub use interceptor::{Interceptor, Outgoing};
pub use options::{ClientOptions, WriteOptions};
pub use plan::{Plan, PlanColumn, PlanFilter, PlanHop, PlanOperator, PlanSip, Statistics, TableVersion};
pub use query::Query;
pub use retry::RetryPolicy;
#[cfg(feature = "serde")]
pub use rows::RowStream;
pub use server_info::{Limits, ServerInfo};
pub use set::{
    Domain, Handle, Ids, Kept, KeySet, KeySource, Keys, RowSet, Rows, Select, SemiJoin, Set, keys_of,
};
pub use statement::Statement;
pub use table::{
    ColumnInfo, Damage, DamagedTable, Deletes, EncodingEstimate, EncodingUse, Optimize, Retention, Table,
    TableDetails, TableOptions, Verified,
};
pub use types::{parse_type, timestamp_type, type_name};
pub use write::{Committed, Deleted, Progress, Writer};

/// Sets of ids: the format, and operations on it.
pub use basalt_sip as sip;

/// The API's messages, for what this crate does not wrap.
pub use basalt_proto::v1 as proto;

/// The Arrow that batches and schemas are of, so that a program need not name its version itself.
///
/// ```
/// use basalt_client::arrow::{
///     array::{ArrayRef, Int64Array, RecordBatch},
///     schema::{DataType, Field, Schema},
/// };
///
/// let schema = Schema::new(vec![Field::new("a", DataType::Int64, false)]);
/// let column: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![1, 2, 3]));
/// let batch = RecordBatch::try_from_iter([("a", column)])?;
/// assert_eq!(*batch.schema(), schema);
/// # Ok::<(), basalt_client::arrow::schema::ArrowError>(())
/// ```
pub mod arrow {
    pub use arrow_array as array;
    pub use arrow_schema as schema;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Every future of the API can be spawned on a multi-threaded runtime.
    #[test]
    fn futures_are_send() {
        fn check<T: Send>(_: impl FnOnce(Client) -> T) {}
        check(|c| async move { c.server_info().await.map(|_| ()) });
        check(|c| async move { c.list_tables().await });
        check(|c| async move { c.cluster().await });
        check(|c| async move { c.table("t").await });
        check(|c| async move { c.create_table_if_missing("t", &arrow_schema::Schema::empty()).await });
        check(|c| async move { c.drop_table_if_exists("t").await });
        check(|c| async move { c.query("t").collect().await });
        check(|c| async move { c.query("t").stream().await?.next().await });
        check(|c| async move { c.query("t").explain(true).await });
        check(|c| async move { c.query("t").select_rows().await });
        check(|c| async move { c.put_set(&c.query("t").select_keys("a").await?, Duration::ZERO).await });
        check(|c| async move {
            c.delete_set(c.get_set("".parse()?).await?.into_rows()?.kept.unwrap().handle).await
        });
        check(|c| async move { c.write("t", WriteOptions::default()).await?.commit().await });
        check(|c| async move { c.write_all("t", &[]).await });
    }
}
