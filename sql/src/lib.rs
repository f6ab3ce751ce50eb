//! SQL over Basalt's tables: DataFusion plans and joins; the engine scans, filters and takes aggregates of one table.
//!
//! Whoever has the tables implements [`Catalog`] and [`Table`] (and [`Writer`], where they are written to), and hands in the
//! memory that a statement may take. An [`Engine`] plans and runs statements on threads of its own, never on those of its
//! callers.

mod answer;
mod arithmetic;
mod around;
mod assign;
mod bits;
mod bounded;
mod bytes;
mod calendar;
mod catalog;
mod checked;
mod choices;
mod coerce;
mod coerced;
mod command;
mod constants;
mod copy;
mod correlated;
pub mod csv;
mod decimals;
mod define;
mod derived;
mod describe;
mod dialect;
mod digests;
pub mod distributed;
mod elsewhere;
mod engine;
mod entries;
mod error;
mod exact;
mod execute;
mod expected;
mod extremes;
mod fill;
mod filter;
mod full_sort;
mod functions;
mod fuse;
mod gathered;
mod given;
mod guarded;
mod headings;
mod hops;
mod interruptible;
mod interval;
mod joined;
mod json;
mod keys;
mod lambdas;
mod light;
pub mod limits;
mod lists;
mod literal_rows;
mod located;
mod logical;
mod made;
mod meaning;
mod memory;
mod named;
mod names;
mod nan;
mod nearest;
mod nested;
mod of_texts;
mod operators;
mod order;
mod parse;
mod places;
mod plan;
mod plans;
mod ran;
mod references;
mod replaced;
mod resolve;
mod scan;
mod scoped;
pub mod script;
mod sets;
pub mod settings;
mod sideways;
mod source;
mod stars;
mod stored;
mod strings;
mod strptime;
mod summary;
mod sums;
mod syntax;
pub mod system;
mod table;
mod timestamps;
mod top;
mod truncated;
mod untyped;
mod upsert;
mod views;
mod wanted;
mod windows;
mod write;
mod yielding;
mod zeros;

pub use async_trait::async_trait;

pub use catalog::{
    Alteration, Answers, Catalog, Change, Identity, Input, NewTable, Rows, Sink, Table, Writer, Written,
    no_client,
};
pub use command::{Command, Description};
pub use copy::{CopyForm, CopyFormat};
pub use engine::{Answer, EncodedRows, Engine, Options, Request};
pub use error::{Error, Result};
pub use hops::{Hop, Hops};
