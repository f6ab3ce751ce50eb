//! Any history of two writers, against a model: no row is lost or comes back, whatever way leads to a version.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use basalt_sip::Sip;
use basalt_storage::{Change, CommitError, Store, TableLog, TableState};
use proptest::prelude::*;

use crate::support::{batch, numbers, schema, shown, table};

#[derive(Clone, Debug)]
enum Step {
    /// Which of the two nodes does it.
    Append {
        node: bool,
        rows: u8,
    },
    /// A fragment, by its place among those that there are.
    Remove {
        node: bool,
        place: u8,
    },
    Delete {
        node: bool,
        place: u8,
        every: u8,
    },
    /// A fragment goes, and its rows that are left come back in another.
    Rewrite {
        node: bool,
        place: u8,
    },
    Checkpoint {
        node: bool,
    },
    Vacuum {
        node: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), 1..50u8).prop_map(|(node, rows)| Step::Append { node, rows }),
        1 => (any::<bool>(), any::<u8>()).prop_map(|(node, place)| Step::Remove { node, place }),
        2 => (any::<bool>(), any::<u8>(), 2..9u8)
            .prop_map(|(node, place, every)| Step::Delete { node, place, every }),
        1 => (any::<bool>(), any::<u8>()).prop_map(|(node, place)| Step::Rewrite { node, place }),
        1 => any::<bool>().prop_map(|node| Step::Checkpoint { node }),
        1 => any::<bool>().prop_map(|node| Step::Vacuum { node }),
    ]
}

/// A fragment as it should be: its rows, and which of them are deleted.
type Model = BTreeMap<u32, (Vec<i64>, Vec<u64>)>;

struct Nodes {
    log: TableLog,
    states: [Arc<TableState>; 2],
    model: Model,
    next: i64,
}

impl Nodes {
    /// Commits what `plan` makes of a node's state, which may be an old one; plans again while it is second.
    async fn commit(
        &mut self,
        node: bool,
        plan: impl AsyncFn(&Self, &TableState) -> Option<Change>,
    ) -> Option<u32> {
        loop {
            let base = Arc::clone(&self.states[usize::from(node)]);
            let change = plan(self, &base).await?;
            match self.log.commit(&base, &change).await {
                Ok(done) => {
                    for id in &change.remove {
                        self.model.remove(id).unwrap();
                    }
                    for (id, deleted) in &change.deletions {
                        self.model.get_mut(id).unwrap().1 = deleted.iter().collect();
                    }
                    self.states[usize::from(node)] = done.state;
                    return Some(done.first_id);
                }
                Err(CommitError::Conflict(newer)) => {
                    assert!(newer.version() > base.version());
                    self.states[usize::from(node)] = newer;
                }
                Err(CommitError::Storage(e) | CommitError::Unknown(e)) => panic!("{e}"),
            }
        }
    }

    async fn write(&self, rows: &[i64]) -> Change {
        let file = self.log.write_data(&schema(), vec![batch(rows.iter().copied())]).await.unwrap();
        Change { add: vec![file], ..Change::default() }
    }

    async fn run(&mut self, step: Step) {
        let pick = |state: &TableState, place: u8| {
            let fragments = state.fragments();
            fragments.iter().nth(usize::from(place) % fragments.len().max(1)).map(|f| f.id)
        };
        match step {
            Step::Append { node, rows } => {
                let rows: Vec<i64> = (self.next..).take(rows.into()).collect();
                self.next += rows.len() as i64;
                let id = self.commit(node, async |nodes, _| Some(nodes.write(&rows).await)).await.unwrap();
                assert!(self.model.insert(id, (rows, Vec::new())).is_none(), "fragment {id} came twice");
            }
            Step::Remove { node, place } => {
                let remove = async |_: &Self, state: &TableState| {
                    Some(Change { remove: vec![pick(state, place)?], ..Change::default() })
                };
                self.commit(node, remove).await;
            }
            Step::Delete { node, place, every } => {
                let delete = async |nodes: &Self, state: &TableState| {
                    let id = pick(state, place)?;
                    let fragment = state.fragment(id).unwrap();
                    let before = nodes.log.deleted_rows(fragment).await.ok()?;
                    let every = (0..u64::from(fragment.rows)).step_by(every.into());
                    let deleted = Sip::from_ids(before.iter().flat_map(Sip::iter).chain(every));
                    Some(Change { deletions: vec![(id, deleted)], ..Change::default() })
                };
                self.commit(node, delete).await;
            }
            Step::Rewrite { node, place } => {
                let rewrite = async |nodes: &Self, state: &TableState| {
                    let id = pick(state, place)?;
                    // A node that knows an old version may know a fragment that is gone; then it is second.
                    let live = nodes.model.get(&id).map(live).unwrap_or_default();
                    let mut change =
                        if live.is_empty() { Change::default() } else { nodes.write(&live).await };
                    change.remove = vec![id];
                    Some(change)
                };
                let before = self.model.clone();
                if let Some(new) = self.commit(node, rewrite).await {
                    let (_, gone) = before.iter().find(|(id, _)| !self.model.contains_key(id)).unwrap();
                    let rows = live(gone);
                    if !rows.is_empty() {
                        assert!(
                            self.model.insert(new, (rows, Vec::new())).is_none(),
                            "fragment {new} came twice"
                        );
                    }
                }
            }
            Step::Checkpoint { node } => {
                let state = self.log.checkpoint(&self.states[usize::from(node)]).await.unwrap();
                self.states[usize::from(node)] = state;
            }
            Step::Vacuum { node } => {
                let state = self.log.refresh(&self.states[usize::from(node)]).await.unwrap();
                self.log.vacuum(&state).await.unwrap();
            }
        }
    }

    fn expected(&self) -> Vec<i64> {
        self.model.values().flat_map(live).collect()
    }
}

/// The rows of a fragment that are not deleted.
fn live((rows, deleted): &(Vec<i64>, Vec<u64>)) -> Vec<i64> {
    (0u64..).zip(rows).filter(|(i, _)| !deleted.contains(i)).map(|(_, n)| *n).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_is_kept(steps in prop::collection::vec(step(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (log, state) = table(&Store::in_memory()).await;
            let log = log.keeping(Duration::from_secs(600));
            let watched = Arc::clone(&state);
            let mut nodes =
                Nodes { log, states: [Arc::clone(&state), state], model: Model::new(), next: 0 };
            let mut follower = watched;
            let mut versions = BTreeMap::from([(0, (shown(&follower), Vec::new()))]);
            for step in steps {
                nodes.run(step).await;
                follower = nodes.log.refresh(&follower).await.unwrap();
                versions.insert(follower.version(), (shown(&follower), nodes.expected()));
            }
            let loaded = nodes.log.load().await.unwrap();
            assert_eq!(shown(&loaded), shown(&follower));
            for state in &nodes.states {
                assert_eq!(shown(&loaded), shown(&nodes.log.refresh(state).await.unwrap()));
            }
            assert_eq!(numbers(&nodes.log, &loaded).await, nodes.expected());
            // A node that has just come reads every version, whatever was cleaned up.
            let other = TableLog::new(nodes.log.store().clone());
            assert_eq!(versions.len() as u64, loaded.version() + 1);
            for (version, (expected, rows)) in versions {
                let state = other.at(&loaded, version).await.unwrap().unwrap();
                assert_eq!(shown(&state), expected);
                assert_eq!(numbers(&other, &state).await, rows);
            }
        });
    }
}
