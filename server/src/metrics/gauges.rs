//! Sizes, read from the state when they are asked for.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicI64, AtomicU64},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};

use crate::{class::Class, cpu::Cpu, membership::LinkState as Link, memory::Consumer, state::State};

type Bytes = Gauge<i64, AtomicI64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Use {
    r#use: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PeerState {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTable {
    table: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Encoded {
    table: String,
    encoding: String,
}

/// What the server is and holds now.
pub(super) fn of(node: &str, state: &State) -> Registry {
    let mut registry = super::registry_of(node);
    let about = vec![("version", crate::VERSION), ("simd", basalt_core::simd())];
    registry.register("build", "The program", Info::new(about));
    let mut one = |name: &str, help: &str, value: u64| {
        let gauge = Bytes::default();
        gauge.set(signed(value));
        registry.register(name, help, gauge);
    };
    one("ready", "1 when requests are served", u64::from(state.is_ready()));
    one("requests_running", "Requests under way", state.running.len() as u64);
    one("writes_running", "Write streams among them that have sent rows", state.writes.places() as u64);
    one(
        "query_permits",
        "Queries of each class, short and long, that may run at once",
        state.cpu.concurrent() as u64,
    );
    let both = |of: fn(&Cpu, Class) -> usize| of(&state.cpu, Class::Short) + of(&state.cpu, Class::Long);
    one("queries_running", "Queries that hold a permit", both(Cpu::running) as u64);
    one("queries_waiting", "Queries that wait for one", both(Cpu::waiting) as u64);
    one("kept_sets", "Sets kept for clients", state.sets.held().0);
    one("memory_limit_bytes", "What all uses together may take", state.memory.limit());
    let disk = state.tables.disk();
    one("disk_cache_bytes", "Files of the cache on disk", disk.map_or(0, |disk| disk.bytes()));
    one(
        "disk_cache_waiting",
        "Fragments whose columns wait to be written there",
        disk.map_or(0, |disk| disk.waiting()),
    );
    let damaged = state.catalog.unreadable().len() as u64;
    one("tables_damaged", "Tables that cannot be read and are left out", damaged);
    if let Some(bytes) = resident_bytes() {
        one("resident_bytes", "Memory of the process, as the system counts it", bytes);
    }
    let reused = Counter::<u64>::default();
    reused.inc_by(state.plans_reused());
    registry.register("sql_plans_reused", "Statements whose plan was that of one before", reused);
    elastic(&mut registry, state);
    memory(&mut registry, state);
    peers(&mut registry, state);
    tables(&mut registry, state);
    registry
}

fn elastic(registry: &mut Registry, state: &State) {
    let counts = state.tables.elastic_counts();
    for (name, help, value) in [
        ("elastic_columns", "Columns of fragments that have faster forms", counts.columns),
        ("elastic_bytes", "What these take beside the columns", counts.bytes),
    ] {
        let gauge = Bytes::default();
        gauge.set(signed(value));
        registry.register(name, help, gauge);
    }
    for (name, help, value) in [
        ("elastic_made", "Faster forms made", counts.made),
        ("elastic_evicted", "Faster forms whose memory others had", counts.evicted),
    ] {
        let counter = Counter::<u64>::default();
        counter.inc_by(value);
        registry.register(name, help, counter);
    }
}

fn memory(registry: &mut Registry, state: &State) {
    let family = Family::<Use, Bytes>::default();
    let set = |r#use, bytes| {
        family.get_or_create(&Use { r#use }).set(signed(bytes));
    };
    for consumer in Consumer::ALL {
        set(consumer.name(), state.memory.used(consumer));
    }
    registry.register("memory_bytes", "Memory by its use", family);
}

fn peers(registry: &mut Registry, state: &State) {
    let Some(cluster) = &state.cluster else { return };
    let family = Family::<PeerState, Bytes>::default();
    let of = |state| family.get_or_create_owned(&PeerState { state });
    // Those with nobody in them are told too, so that an alert has something to look at.
    for name in ["alive", "suspect", "dead", "incompatible", "not_ready"] {
        of(name).set(0);
    }
    let view = cluster.members().view();
    for link in view.nodes().iter().filter_map(|node| node.link.as_ref()) {
        of(match link.state() {
            Link::Alive => "alive",
            Link::Suspect => "suspect",
            Link::Dead => "dead",
            Link::Incompatible => "incompatible",
            Link::NotReady => "not_ready",
        })
        .inc();
    }
    registry.register("peers", "Other nodes of the cluster, as this one sees them", family);
}

fn tables(registry: &mut Registry, state: &State) {
    let rows = Family::<OfTable, Bytes>::default();
    let fragments = Family::<OfTable, Bytes>::default();
    let versions = Family::<OfTable, Gauge<u64, AtomicU64>>::default();
    let encoded = Family::<Encoded, Bytes>::default();
    for table in state.catalog.list() {
        let (held, name) = (state.tables.held(&table), table.name().to_owned());
        let mut bytes = BTreeMap::<String, u64>::new();
        for column in state.tables.columns_held(&table) {
            let nested = column.encoding();
            let outermost = nested.split(['(', ' ']).next().unwrap_or_default();
            *bytes.entry(outermost.to_owned()).or_default() += column.bytes() as u64;
        }
        for (encoding, bytes) in bytes {
            encoded.get_or_create(&Encoded { table: name.clone(), encoding }).set(signed(bytes));
        }
        let of_table = OfTable { table: name };
        rows.get_or_create(&of_table).set(signed(held.rows));
        fragments.get_or_create(&of_table).set(signed(held.fragments));
        versions.get_or_create(&of_table).set(table.snapshot().version());
    }
    registry.register("table_rows", "Rows of the newest version", rows);
    registry.register("table_fragments", "Fragments of the newest version held here", fragments);
    registry.register("table_version", "The newest version", versions);
    registry.register("encoded_bytes", "Bytes held, by the outermost encoding of the column", encoded);
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The resident set, from `/proc/self/status`.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))?;
    kib.parse::<u64>().ok()?.checked_mul(1024)
}
