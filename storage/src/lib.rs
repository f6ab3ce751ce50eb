//! Durable tables.
//!
//! A [`Store`] is a directory, memory or a bucket. In it, a [`CatalogLog`] says which tables there are, and each
//! table is a Delta Lake table: Parquet files, and a log of versions ([`TableLog`]) to which writers add by
//! writing the next file if it is not there yet. What the log holds at a version is a [`TableState`]. So any
//! reader of Delta reads what Basalt stores, every node that sees the store sees the same versions, and a write
//! is durable when its version is.
//!
//! ```no_run
//! # use std::{collections::BTreeMap, sync::Arc};
//! # use basalt_storage::{Change, Store, TableLog};
//! # async fn f(schema: Arc<basalt_core::schema::Schema>, batch: arrow_array::RecordBatch) -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open("basalt-data")?;
//! let (log, state) = TableLog::create(store.folder("t")?, "t", &schema, BTreeMap::new()).await?;
//! let file = log.write_data(&schema, vec![batch]).await?;
//! let change = Change { add: vec![file], ..Change::default() };
//! let state = log.commit(&state, &change).await?.state;
//! let mut rows = log.read(&state, state.fragments().first().ok_or("no rows")?, &[0]).await?;
//! while let Some(batch) = rows.next().await? {
//!     println!("{} rows", batch.num_rows());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `README.md` of this crate says what lies where, and why it is so.

mod alter;
mod catalog;
mod data;
mod deletes;
mod deletions;
mod dropped;
mod environment;
mod error;
mod limits;
mod links;
mod log;
mod pins;
mod places;
mod retention;
mod schema;
mod store;
mod vacuum;
mod verify;
mod z85;

pub use alter::Alteration;
pub use catalog::{CatalogLog, CatalogState, Created, Draft, Gone, TableEntry, no_view};
pub use data::{ColumnStats, DataReader, EncodedColumn, EncodedFile, FileEncoder, NewFile};
pub use deletes::Deletes;
pub use environment::{Environment, Panicked, Process, run};
pub use error::{CommitError, Result, StorageError};
pub use log::{
    Change, Changes, Committed, DataFile, DoneRequest, FIRST_FOREIGN_FRAGMENT, FragmentEntry, Fragments,
    Operation, ReadableVersion, Request, RowsDigest, TableLog, TableState,
};
pub use pins::{Pin, Pinned};
pub use retention::retention_properties;
pub use store::Store;
pub use vacuum::Vacuumed;
pub use verify::{Damage, Verified};
