//! The server as its clients see it: a real one on a port of its own in every test.

mod catalog;
mod errors;
mod ingest;
mod lifecycle;
mod query;
mod select;
mod support;
