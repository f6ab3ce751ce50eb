//! What the server counts, in the names that `deploy/METRICS.md` explains.
//!
//! Counters are kept as things happen and cost an atomic addition; sizes are read from the state when someone
//! asks ([`gauges`]).

mod exposition;
mod gauges;

use std::{borrow::Cow, fmt::Write as _, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use tonic::Code;

pub(crate) use exposition::Exposition;

use crate::state::State;

/// Upper bounds of the buckets of a time, in seconds: 1, 2.5, 5 in every decade of what a request may take.
const SECONDS: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// The counters of one server.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Every series has it as its label `node`.
    node: String,
    registry: Registry,
    requests: Family<Outcome, Counter>,
    request_seconds: Family<Method, Histogram, fn() -> Histogram>,
    errors: Family<Reason, Counter>,
    rows: Family<Method, Counter>,
    sips_built: Counter,
    sip_built_bytes: Counter,
    sips_shipped: Counter,
    sip_shipped_bytes: Counter,
    sips_late: Counter,
    sips_dropped: Counter,
    sip_rows_tested: Counter,
    sip_rows_passed: Counter,
    commits: Counter,
    commit_seconds: Histogram,
    commit_conflicts: Counter,
    compactions: Counter,
    expired_rows: Counter,
    fragments_loaded: Counter,
    fragment_loaded_bytes: Counter,
    disk_cache_hits: Counter,
    disk_cache_misses: Counter,
    disk_cache_damaged: Counter,
    verified_files: Counter,
    verified_bytes: Counter,
    damage_found: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    method: &'static str,
    code: Spelled,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// Reasons that are told from the start, so that the first error of each is an increase, which alerts look for.
const WATCHED: [&str; 7] = [
    "INCOMPLETE",
    "INTERNAL",
    "MEMORY_LIMIT",
    "OUTCOME_UNKNOWN",
    "OVERLOADED",
    "STORE_UNAVAILABLE",
    "TABLE_DAMAGED",
];

/// A gRPC code by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Spelled(Code);

impl EncodeLabelValue for Spelled {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        write!(encoder, "{:?}", self.0)
    }
}

fn times() -> Histogram {
    Histogram::new(SECONDS)
}

/// The metrics of a node, by its name, which stands in each of their series.
fn registry_of(node: &str) -> Registry {
    let label = (Cow::Borrowed("node"), Cow::Owned(node.to_owned()));
    Registry::with_prefix_and_labels("basalt", std::iter::once(label))
}

impl Metrics {
    /// Those of a node, by its name.
    pub(crate) fn new(node: &str) -> Self {
        let mut registry = registry_of(node);
        let metrics = Self {
            node: node.to_owned(),
            registry: Registry::default(),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(times),
            errors: Family::default(),
            rows: Family::default(),
            sips_built: Counter::default(),
            sip_built_bytes: Counter::default(),
            sips_shipped: Counter::default(),
            sip_shipped_bytes: Counter::default(),
            sips_late: Counter::default(),
            sips_dropped: Counter::default(),
            sip_rows_tested: Counter::default(),
            sip_rows_passed: Counter::default(),
            commits: Counter::default(),
            commit_seconds: times(),
            commit_conflicts: Counter::default(),
            compactions: Counter::default(),
            expired_rows: Counter::default(),
            fragments_loaded: Counter::default(),
            fragment_loaded_bytes: Counter::default(),
            disk_cache_hits: Counter::default(),
            disk_cache_misses: Counter::default(),
            disk_cache_damaged: Counter::default(),
            verified_files: Counter::default(),
            verified_bytes: Counter::default(),
            damage_found: Counter::default(),
        };
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register(
            "request_seconds",
            "From a request's arrival to the end of its answer",
            metrics.request_seconds.clone(),
        );
        for reason in WATCHED {
            metrics.errors.get_or_create(&Reason { reason }).inc_by(0);
        }
        registry.register("errors", "Requests that failed, by the reason", metrics.errors.clone());
        registry.register("rows", "Rows written or answered", metrics.rows.clone());
        let mut counter = |name: &str, help: &str, counter: &Counter| {
            registry.register(name, help, counter.clone());
        };
        counter(
            "sips_built",
            "Sets built: selections, and a node's parts of them and of semi-joins",
            &metrics.sips_built,
        );
        counter("sip_built_bytes", "Their bytes", &metrics.sip_built_bytes);
        counter("sips_shipped", "Sets sent to peers", &metrics.sips_shipped);
        counter("sip_shipped_bytes", "Their bytes", &metrics.sip_shipped_bytes);
        counter("sips_late", "Sets sent to peers that did not answer, or too late", &metrics.sips_late);
        counter(
            "sips_dropped",
            "Sets that did not travel, as the rows they were for are here",
            &metrics.sips_dropped,
        );
        counter("sip_rows_tested", "Rows of fragments that were asked with sets", &metrics.sip_rows_tested);
        counter("sip_rows_passed", "Rows of them that were selected", &metrics.sip_rows_passed);
        counter("commits", "Commits made durable", &metrics.commits);
        counter("commit_conflicts", "Commits tried again, as another came first", &metrics.commit_conflicts);
        counter("compactions", "Merges of small data files", &metrics.compactions);
        counter(
            "expired_rows",
            "Rows freed that were older than their table keeps them",
            &metrics.expired_rows,
        );
        counter("fragments_loaded", "Fragments read from the store", &metrics.fragments_loaded);
        counter("fragment_loaded_bytes", "Their bytes, encoded", &metrics.fragment_loaded_bytes);
        counter(
            "disk_cache_hits",
            "Columns not in memory that the cache on disk had",
            &metrics.disk_cache_hits,
        );
        counter("disk_cache_misses", "Columns that it did not have", &metrics.disk_cache_misses);
        counter(
            "disk_cache_damaged",
            "Files of it that did not check and were deleted",
            &metrics.disk_cache_damaged,
        );
        counter("verified_files", "Data files read to see whether they are damaged", &metrics.verified_files);
        counter("verified_bytes", "Their bytes", &metrics.verified_bytes);
        counter(
            "damage_found",
            "Files, columns and logs found damaged, each time that they are read",
            &metrics.damage_found,
        );
        registry.register("commit_seconds", "What a commit takes", metrics.commit_seconds.clone());
        Self { registry, ..metrics }
    }
}

impl Metrics {
    /// A request was answered, or its client has gone.
    pub(crate) fn request(&self, method: &'static str, code: Code, time: Duration, rows: u64) {
        self.requests.get_or_create(&Outcome { method, code: Spelled(code) }).inc();
        self.request_seconds.get_or_create(&Method { method }).observe(time.as_secs_f64());
        if rows > 0 {
            self.rows.get_or_create(&Method { method }).inc_by(rows);
        }
    }

    /// A request failed, for a reason of `basalt/v1/error.proto`.
    pub(crate) fn error(&self, reason: &'static str) {
        self.errors.get_or_create(&Reason { reason }).inc();
    }

    /// A set was built from a filter.
    pub(crate) fn sip_built(&self, bytes: u64) {
        self.sips_built.inc();
        self.sip_built_bytes.inc_by(bytes);
    }

    /// A set was sent to a peer.
    pub(crate) fn sip_shipped(&self, bytes: u64) {
        self.sips_shipped.inc();
        self.sip_shipped_bytes.inc_by(bytes);
    }

    /// Sets were sent to a peer that did not answer, or too late.
    pub(crate) fn sips_late(&self, sets: u64) {
        self.sips_late.inc_by(sets);
    }

    /// Sets did not travel, as the rows they were for are here.
    pub(crate) fn sips_dropped(&self, sets: u64) {
        self.sips_dropped.inc_by(sets);
    }

    /// `passed` of `tested` rows were selected by requests that came with sets.
    pub(crate) fn sip_applied(&self, tested: u64, passed: u64) {
        self.sip_rows_tested.inc_by(tested);
        self.sip_rows_passed.inc_by(passed);
    }

    /// A commit is durable.
    pub(crate) fn commit(&self, time: Duration) {
        self.commits.inc();
        self.commit_seconds.observe(time.as_secs_f64());
    }

    /// A commit is tried again, because another came first.
    pub(crate) fn commit_conflict(&self) {
        self.commit_conflicts.inc();
    }

    /// Small data files were merged.
    pub(crate) fn compaction(&self) {
        self.compactions.inc();
    }

    /// Rows were freed that were too old to be read.
    pub(crate) fn expired(&self, rows: u64) {
        self.expired_rows.inc_by(rows);
    }

    /// A fragment was read from the store and holds so many bytes.
    pub(crate) fn fragment_loaded(&self, bytes: u64) {
        self.fragments_loaded.inc();
        self.fragment_loaded_bytes.inc_by(bytes);
    }

    /// Columns were looked for in the cache on disk.
    pub(crate) fn disk_cache_found(&self, hits: u64, misses: u64) {
        self.disk_cache_hits.inc_by(hits);
        self.disk_cache_misses.inc_by(misses);
    }

    /// A file of it was not what was written.
    pub(crate) fn disk_cache_damaged(&self) {
        self.disk_cache_damaged.inc();
    }

    /// A data file of so many bytes was read to see whether it is damaged.
    pub(crate) fn verified(&self, bytes: u64) {
        self.verified_files.inc();
        self.verified_bytes.inc_by(bytes);
    }

    /// Something on storage is damaged.
    pub(crate) fn damage_found(&self) {
        self.damage_found.inc();
    }

    /// Everything, in the text format of OpenMetrics 1.0.
    pub(crate) fn render(&self, state: &State) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        text::encode_registry(&mut out, &self.registry)?;
        text::encode_registry(&mut out, &gauges::of(&self.node, state))?;
        text::encode_eof(&mut out)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path, sync::Arc};

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use basalt_core::{
        schema::{DataType, Field, Schema},
        table::Appender,
    };

    use super::*;
    use crate::Config;

    /// The names in an exposition, with their kinds.
    fn families(text: &str) -> BTreeSet<String> {
        let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        kinds
            .map(|line| match line.split_once(' ').unwrap() {
                (name, "counter") => format!("{name}_total counter"),
                (name, "info") => format!("{name}_info info"),
                _ => line.to_owned(),
            })
            .collect()
    }

    fn deploy(file: &str) -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(file)).unwrap()
    }

    /// The names in the document, with their kinds.
    fn explained() -> BTreeSet<String> {
        let rows = |line: &str| {
            let mut cells = line.strip_prefix("| `")?.split('|');
            let name = cells.next()?.trim().trim_end_matches('`').split('{').next()?;
            Some(format!("{name} {}", cells.next()?.trim()))
        };
        deploy("METRICS.md").lines().filter_map(rows).collect()
    }

    #[test]
    fn the_dashboard_and_the_alerts_ask_for_what_is_told() {
        let kinds = explained();
        let names: BTreeSet<&str> = kinds.iter().filter_map(|kind| kind.split(' ').next()).collect();
        for file in
            ["grafana/dashboards/basalt.json", "grafana/dashboards/node.json", "prometheus/alerts.yml"]
        {
            let text = deploy(file);
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let asked: Vec<&str> = words.filter(|word| word.starts_with("basalt_")).collect();
            assert!(asked.len() > 3, "{file}");
            for name in asked {
                let series = ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end));
                assert!(names.contains(series.unwrap_or(name)), "{file} asks for {name}");
            }
        }
    }

    #[tokio::test]
    async fn every_name_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().display().to_string();
        let config = Config { peers: vec!["b:7701".into()], store, ..Config::default() };
        let state = State::new(crate::environment::process(), &config, Some("a:7701".into())).unwrap();
        // Names with labels are told once there is something to tell.
        state.metrics.request("Query", Code::Ok, Duration::ZERO, 1);
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]).unwrap();
        let table = state.catalog.create("t", schema).unwrap();
        let mut appender = Appender::new(table, &[]).unwrap();
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        appender.push(&RecordBatch::try_from_iter_with_nullable([("a", column, true)]).unwrap()).unwrap();
        appender.commit().unwrap();
        let told = families(&state.metrics.render(&state).unwrap());
        assert_eq!(told, explained());
    }

    #[test]
    fn what_happens_is_counted() {
        let metrics = Metrics::new("a:1");
        metrics.request("Query", Code::Ok, Duration::from_millis(3), 7);
        metrics.request("Query", Code::NotFound, Duration::from_micros(10), 0);
        metrics.error("TABLE_NOT_FOUND");
        metrics.sip_built(20);
        metrics.sip_shipped(20);
        metrics.sip_applied(1000, 10);
        metrics.commit(Duration::from_millis(6));
        metrics.fragment_loaded(4096);
        let mut text = String::new();
        text::encode(&mut text, &metrics.registry).unwrap();
        for line in [
            r#"basalt_requests_total{node="a:1",method="Query",code="NotFound"} 1"#,
            r#"basalt_requests_total{node="a:1",method="Query",code="Ok"} 1"#,
            r#"basalt_request_seconds_bucket{node="a:1",le="0.0025",method="Query"} 1"#,
            r#"basalt_request_seconds_bucket{node="a:1",le="0.005",method="Query"} 2"#,
            r#"basalt_rows_total{node="a:1",method="Query"} 7"#,
            r#"basalt_errors_total{node="a:1",reason="TABLE_NOT_FOUND"} 1"#,
            r#"basalt_errors_total{node="a:1",reason="INCOMPLETE"} 0"#,
            r#"basalt_sip_shipped_bytes_total{node="a:1"} 20"#,
            r#"basalt_sip_rows_tested_total{node="a:1"} 1000"#,
            r#"basalt_sip_rows_passed_total{node="a:1"} 10"#,
            r#"basalt_commits_total{node="a:1"} 1"#,
            r#"basalt_commit_seconds_bucket{node="a:1",le="0.01"} 1"#,
            r#"basalt_fragment_loaded_bytes_total{node="a:1"} 4096"#,
            r#"basalt_commit_conflicts_total{node="a:1"} 0"#,
        ] {
            assert!(text.lines().any(|told| told == line), "{line}: {text}");
        }
    }
}
