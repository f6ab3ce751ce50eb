//! The server as its clients see it: a real one on a port of its own in every test.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod binary;
mod catalog;
mod errors;
mod ingest;
mod lifecycle;
mod query;
mod select;
mod support;
