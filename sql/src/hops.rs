//! What the nodes of a cluster did for a scan, as EXPLAIN ANALYZE tells it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// What one node did for the query of a scan, or for a set that the query asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// The node's name.
    pub node: Arc<str>,
    /// `table.key` of the set; empty: it is the query itself.
    pub of: String,
    /// Fragments that it was asked about.
    pub fragments: u64,
    /// Fragments that it had to read from the store first.
    pub loaded: u64,
    /// Rows that its filter selected.
    pub rows: u64,
    /// Bytes of the question, sets among them; none go to the node that was asked itself.
    pub sent_bytes: u64,
    /// Of these, the bytes of sets.
    pub set_bytes: u64,
    /// Bytes of its answer.
    pub received_bytes: u64,
    /// From the question to the answer.
    pub elapsed: Duration,
    /// The share of that which it spent executing.
    pub executing: Duration,
}

/// Those of one scan, which is asked as often as it likes.
#[derive(Clone, Debug, Default)]
pub struct Hops(Arc<Mutex<ByNode>>);

/// By what was asked, and of whom.
type ByNode = BTreeMap<(String, Arc<str>), Hop>;

impl Hops {
    /// A node has answered. What it answered before is added up.
    pub fn add(&self, hop: Hop) {
        let mut all = self.all();
        let known = all.entry((hop.of.clone(), Arc::clone(&hop.node))).or_insert_with(|| Hop {
            node: Arc::clone(&hop.node),
            of: hop.of.clone(),
            ..Hop::default()
        });
        known.fragments += hop.fragments;
        known.loaded += hop.loaded;
        known.rows += hop.rows;
        known.sent_bytes += hop.sent_bytes;
        known.set_bytes += hop.set_bytes;
        known.received_bytes += hop.received_bytes;
        known.elapsed += hop.elapsed;
        known.executing += hop.executing;
    }

    fn all(&self) -> MutexGuard<'_, ByNode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `, hops=[node: fragments=1, rows=2, ...; node: ...]`, or nothing where no node was asked.
impl fmt::Display for Hops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all();
        for (i, hop) in all.values().enumerate() {
            f.write_str(if i == 0 { ", hops=[" } else { "; " })?;
            write!(f, "{}: ", hop.node)?;
            if !hop.of.is_empty() {
                // Columns may have any names, and this is read by programs too.
                let of = hop.of.replace([',', ';', '=', '[', ']'], "_");
                write!(f, "for={of}, ")?;
            }
            write!(f, "fragments={}, ", hop.fragments)?;
            if hop.loaded > 0 {
                write!(f, "loaded={}, ", hop.loaded)?;
            }
            write!(
                f,
                "rows={}, sent_bytes={}, set_bytes={}, received_bytes={}, elapsed={:.1?}, executing={:.1?}",
                hop.rows, hop.sent_bytes, hop.set_bytes, hop.received_bytes, hop.elapsed, hop.executing
            )?;
        }
        if all.is_empty() { Ok(()) } else { f.write_str("]") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_did_is_added_up() {
        let hops = Hops::default();
        assert_eq!(hops.to_string(), "");
        let hop = |node: &str, of: &str| Hop {
            node: node.into(),
            of: of.to_owned(),
            fragments: 2,
            rows: 5,
            sent_bytes: 100,
            set_bytes: 40,
            received_bytes: 7,
            elapsed: Duration::from_micros(1500),
            executing: Duration::from_micros(800),
            ..Hop::default()
        };
        hops.add(hop("b:1", ""));
        hops.add(Hop { loaded: 1, ..hop("a:1", "") });
        hops.add(hop("b:1", ""));
        hops.add(hop("b:1", "u.k, [x];y=z"));
        assert_eq!(
            hops.to_string(),
            ", hops=[a:1: fragments=2, loaded=1, rows=5, sent_bytes=100, set_bytes=40, received_bytes=7, elapsed=1.5ms, \
             executing=800.0µs; \
             b:1: fragments=4, rows=10, sent_bytes=200, set_bytes=80, received_bytes=14, elapsed=3.0ms, executing=1.6ms; \
             b:1: for=u.k_ _x__y_z, fragments=2, rows=5, sent_bytes=100, set_bytes=40, received_bytes=7, elapsed=1.5ms, \
             executing=800.0µs]"
        );
    }
}
