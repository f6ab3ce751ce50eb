//! How the client behaves towards servers that break, stall, contradict themselves or hold back: the server
//! here follows a script, which no real one would.

#![allow(clippy::panic, clippy::unwrap_used, reason = "this is all test code")]

mod failover;
mod query;
#[cfg(feature = "serde")]
mod rows;
mod server;
#[cfg(feature = "cli")]
mod starting;
mod stream;
mod write;
