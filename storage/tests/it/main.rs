//! Durable tables: what is written comes back, races have one winner, faults are errors.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod ambiguous;
mod catalog;
mod commits;
mod corpus;
mod cut;
mod damage;
mod data;
mod deletions;
mod drafts;
mod flaky;
mod history;
mod hostile;
mod lost_catalog;
mod misplaced;
mod probe;
mod retained;
#[cfg(feature = "s3")]
mod s3;
mod support;
mod v2_checkpoints;
mod vacuum;
