//! SQL over Basalt's tables: DataFusion plans and joins; the engine scans, filters and takes aggregates of one table.
//!
//! Whoever has the tables implements [`Catalog`] and [`Table`], and hands in the memory that a statement may take. An
//! [`Engine`] plans and runs statements on threads of its own, never on those of its callers.

mod answer;
mod arithmetic;
mod bounded;
mod catalog;
mod command;
mod derived;
mod dynamic;
mod engine;
mod error;
mod filter;
mod fuse;
pub mod limits;
mod meaning;
mod memory;
mod parse;
mod plan;
mod references;
mod scan;
pub mod script;
mod source;
mod sums;
pub mod system;
mod table;
mod top;
mod yielding;

pub use async_trait::async_trait;

pub use catalog::{Answers, Catalog, Rows, Table};
pub use command::{Command, Description};
pub use engine::{Answer, Engine, Options, Request};
pub use error::{Error, Result};
