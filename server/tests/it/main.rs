//! The server as its clients see it: a real one on a port of its own in every test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod attached;
#[cfg(feature = "sql")]
mod audited;
mod backups;
mod below;
mod bench;
mod binary;
mod catalog;
mod cli;
mod cli_refused;
mod cluster;
mod damaged;
mod deletes;
mod disk;
mod disk_cache;
mod durable;
mod elastic;
mod errors;
mod fairness;
mod files;
mod foreign;
mod freshness;
mod full_fragments;
mod golden;
mod half_sent;
mod hangup;
mod http;
mod ingest;
mod lifecycle;
mod loads;
#[cfg(feature = "sql")]
mod logs;
mod panics;
mod pinned;
mod query;
mod readme;
mod replaced;
mod request_ids;
mod retention;
mod roots;
mod scale;
mod secured;
mod select;
mod semi_joins;
mod sets;
mod shell;
mod support;
#[cfg(feature = "otlp")]
mod traces;
mod types;
mod unread;

/// Every reason of the API is produced by some test here, but for those that no client can bring about.
#[test]
fn every_reason_is_produced() {
    const SOURCES: [&str; 14] = [
        include_str!("disk/ambiguous.rs"),
        include_str!("durable.rs"),
        include_str!("catalog.rs"),
        include_str!("cluster/mod.rs"),
        include_str!("damaged.rs"),
        include_str!("errors.rs"),
        include_str!("ingest.rs"),
        include_str!("lifecycle.rs"),
        include_str!("panics.rs"),
        include_str!("query.rs"),
        include_str!("secured.rs"),
        include_str!("select.rs"),
        include_str!("semi_joins.rs"),
        include_str!("sets.rs"),
    ];
    // Commits wait for each other; and a server starts too fast.
    const UNHEARD: [&str; 2] = ["WRITE_CONFLICT", "STARTING"];
    let reasons = (1..).map_while(|number| basalt_proto::v1::ErrorReason::try_from(number).ok());
    for reason in reasons {
        let name = reason.as_str_name().trim_start_matches("ERROR_REASON_");
        let produced = SOURCES.iter().any(|source| source.contains(&format!("{name:?}")));
        assert_ne!(produced, UNHEARD.contains(&name), "{name}");
    }
}
