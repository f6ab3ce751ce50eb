//! What a SIP promises, tested from outside.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod check;
mod deletion_vector;
mod edges;
mod format;
mod hostile;
mod interoperability;
mod model;
mod naive;
mod shapes;
mod vectors;
