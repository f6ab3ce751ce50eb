//! The parts of one request: each fragment is asked of its first node, and of the next when that one fails or is
//! slow, until all have answered or nobody is left.
//!
//! A node's part counts whole or not at all. A slow node's fragments are given to the next ones as well, and then
//! either the slow one's part counts or all of theirs, so that no fragment counts twice.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use basalt_proto::v1::ErrorReason;
use futures_util::future::try_join_all;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{
    limits,
    membership::{Choice, View},
    status::RequestError,
};

/// Asks a node for its part.
pub(crate) trait Ask: Sync {
    /// What a node answers.
    type Part: Send;

    /// The part of a node, given by its place in the view, for some fragments, ascending.
    fn ask(
        &self,
        place: usize,
        fragments: &[u32],
    ) -> impl Future<Output = Result<Self::Part, Failure>> + Send;
}

/// Why there is no part.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another node may do better.
    Node(String),
    /// The same; this one has the version no longer.
    Gone(String),
    /// It is the request's.
    Request(RequestError),
}

impl Failure {
    /// What went wrong at a node.
    pub(crate) fn of_node(error: &RequestError) -> Self {
        let message = error.message().to_owned();
        if error.reason() == "VERSION_GONE" { Self::Gone(message) } else { Self::Node(message) }
    }
}

/// The parts of all `fragments` of a table, given by its name and id; each counts in one of them.
///
/// # Errors
/// [`ErrorReason::Incomplete`] where nobody answers for a fragment, [`ErrorReason::VersionGone`] where nobody has its version
/// any longer, [`ErrorReason::DeadlineExceeded`], and what is wrong with the request.
pub(crate) async fn scatter<A: Ask>(
    view: &View,
    (table, id): (&str, u64),
    fragments: &[u32],
    deadline: Instant,
    ask: &A,
) -> Result<Vec<A::Part>, RequestError> {
    let states: Vec<_> = view.nodes().iter().map(|node| node.state()).collect();
    let scatter =
        Scatter { view, choice: view.choice(&states, id), ask, deadline, slowest: watch::Sender::new(None) };
    match timeout_at(deadline, scatter.next(fragments.to_vec(), Tried::default())).await {
        Ok(Ok(parts)) => Ok(parts),
        Ok(Err(Missing::Request(error))) => Err(error),
        Ok(Err(Missing::Fragments(fragments, tried))) => Err(incomplete(table, &fragments, &tried)),
        Err(_) => Err(RequestError::deadline()),
    }
}

/// The nodes that were asked for some fragments.
#[derive(Clone, Debug, Default)]
struct Tried(Vec<Attempt>);

/// A node that was asked, and why it has not answered.
#[derive(Clone, Debug)]
struct Attempt {
    place: usize,
    node: Arc<str>,
    why: Arc<str>,
    /// It has the version no longer.
    is_gone: bool,
}

impl Tried {
    fn with(&self, view: &View, place: usize, why: &str, is_gone: bool) -> Self {
        let mut tried = self.clone();
        let node = Arc::clone(&view.nodes()[place].name);
        tried.0.push(Attempt { place, node, why: why.into(), is_gone });
        tried
    }

    /// What a node has said of it that was slow before.
    fn told(mut self, place: usize, why: &str, is_gone: bool) -> Self {
        for attempt in self.0.iter_mut().filter(|attempt| attempt.place == place) {
            (attempt.why, attempt.is_gone) = (why.into(), is_gone);
        }
        self
    }

    fn has(&self, place: usize) -> bool {
        self.0.iter().any(|attempt| attempt.place == place)
    }
}

enum Missing {
    /// Nobody is left to ask for these.
    Fragments(Vec<u32>, Tried),
    Request(RequestError),
}

type Parts<'a, P> = Pin<Box<dyn Future<Output = Result<Vec<P>, Missing>> + Send + 'a>>;

struct Scatter<'a, A> {
    view: &'a View,
    choice: Choice<'a>,
    ask: &'a A,
    deadline: Instant,
    /// What the slowest part has taken that is ready.
    slowest: watch::Sender<Option<Duration>>,
}

impl<A: Ask> Scatter<'_, A> {
    /// Asks the next node of each fragment that was not tried.
    fn next(&self, fragments: Vec<u32>, tried: Tried) -> Parts<'_, A::Part> {
        let (mut shares, mut nobody) = (BTreeMap::<usize, Vec<u32>>::new(), Vec::new());
        for fragment in fragments {
            match self.choice.next(fragment, |place| tried.has(place)) {
                Some(place) => shares.entry(place).or_default().push(fragment),
                None => nobody.push(fragment),
            }
        }
        Box::pin(async move {
            if !nobody.is_empty() {
                return Err(Missing::Fragments(nobody, tried));
            }
            let shares = shares.into_iter().map(|(place, share)| self.share(place, share, tried.clone()));
            Ok(try_join_all(shares).await?.into_iter().flatten().collect())
        })
    }

    /// The parts for a node's share: its own, or those of the nodes after it.
    async fn share(&self, place: usize, share: Vec<u32>, tried: Tried) -> Result<Vec<A::Part>, Missing> {
        let started = Instant::now();
        let mut own = pin!(self.ask.ask(place, &share));
        let slow = self.slow(place, started);
        let first = tokio::select! {
            biased;
            part = &mut own => Some(part),
            () = slow => None,
        };
        let Some(first) = first else {
            let mut others = self.next(share.clone(), tried.with(self.view, place, "too slow", false));
            let (failure, missing) = tokio::select! {
                biased;
                part = &mut own => match part {
                    Ok(part) => return Ok(vec![part]),
                    Err(failure) => (failure, None),
                },
                parts = &mut others => match parts {
                    Err(missing @ Missing::Fragments(..)) => match own.await {
                        Ok(part) => return Ok(vec![part]),
                        Err(failure) => (failure, Some(missing)),
                    },
                    parts => return parts,
                },
            };
            let (why, is_gone) = match failure {
                Failure::Request(error) => return Err(Missing::Request(error)),
                Failure::Node(why) => (why, false),
                Failure::Gone(why) => (why, true),
            };
            let missing = match missing {
                Some(missing) => missing,
                None => match others.await {
                    Ok(parts) => return Ok(parts),
                    Err(missing) => missing,
                },
            };
            // It was slow, and has said meanwhile what is wrong.
            return Err(match missing {
                Missing::Fragments(fragments, tried) => {
                    Missing::Fragments(fragments, tried.told(place, &why, is_gone))
                }
                request @ Missing::Request(_) => request,
            });
        };
        match first {
            Ok(part) => {
                let took = started.elapsed();
                self.slowest.send_modify(|slowest| *slowest = Some(slowest.map_or(took, |s| s.max(took))));
                Ok(vec![part])
            }
            Err(Failure::Request(error)) => Err(Missing::Request(error)),
            Err(Failure::Node(why)) => self.moved(place, share.clone(), &tried, &why, false).await,
            Err(Failure::Gone(why)) => self.moved(place, share.clone(), &tried, &why, true).await,
        }
    }

    /// The parts of the nodes after one that has none.
    fn moved(
        &self,
        place: usize,
        share: Vec<u32>,
        tried: &Tried,
        why: &str,
        is_gone: bool,
    ) -> Parts<'_, A::Part> {
        let node = &self.view.nodes()[place].name;
        tracing::info!(%node, fragments = share.len(), why, "fragments move to the next node");
        self.next(share, tried.with(self.view, place, why, is_gone))
    }

    /// Ready once a node is slower than it should be; this one never is.
    async fn slow(&self, place: usize, started: Instant) {
        if place == self.view.own() {
            return std::future::pending().await;
        }
        let mut slowest = self.slowest.subscribe();
        // The next one needs time as well.
        let half = self.deadline.saturating_duration_since(started) / 2;
        loop {
            let (least, most) = limits::HEDGE_DELAY;
            let delay =
                slowest.borrow_and_update().map_or(most, |slowest| (4 * slowest).max(least)).min(half);
            tokio::select! {
                biased;
                () = sleep_until(started + delay) => return,
                // It cannot close: `self` has the other end.
                _ = slowest.changed() => {}
            }
        }
    }
}

/// What is missing, and who was asked for it.
fn incomplete(table: &str, fragments: &[u32], Tried(tried): &Tried) -> RequestError {
    let mut message = format!("no node answers for {} of table {table:?}", listed(fragments));
    for (i, Attempt { node, why, .. }) in tried.iter().enumerate() {
        // A string takes everything.
        let _ = write!(message, "{} {node}: {why}", if i == 0 { ":" } else { ";" });
    }
    let is_gone = !tried.is_empty() && tried.iter().all(|attempt| attempt.is_gone);
    let reason = if is_gone { ErrorReason::VersionGone } else { ErrorReason::Incomplete };
    RequestError::new(reason, message).with("fragments", fragments.len() as u64)
}

/// A few of the fragments, and how many there are.
fn listed(fragments: &[u32]) -> String {
    const FEW: usize = 8;
    let few: Vec<String> = fragments.iter().take(FEW).map(ToString::to_string).collect();
    match fragments.len() {
        1 => format!("fragment {}", few[0]),
        n if n <= FEW => format!("fragments {}", few.join(", ")),
        n => format!("{n} fragments ({}, ...)", few.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Mutex};

    use super::*;

    /// What a node does when it is asked.
    #[derive(Clone, Copy)]
    enum Does {
        Answer(Duration),
        Fail,
        Lose,
        LoseLate(Duration),
        Hang,
        Refuse,
    }

    use Does::{Answer, Fail, Hang, Lose, LoseLate, Refuse};

    const MS: Duration = Duration::from_millis(1);

    struct Nodes {
        does: Vec<Does>,
        asked: Mutex<Vec<usize>>,
    }

    impl Ask for Nodes {
        type Part = (usize, Vec<u32>);

        async fn ask(&self, place: usize, fragments: &[u32]) -> Result<Self::Part, Failure> {
            self.asked.lock().unwrap().push(place);
            match self.does[place] {
                Answer(time) => tokio::time::sleep(time).await,
                Fail => return Err(Failure::Node("no route".into())),
                Lose => return Err(Failure::Gone("it is gone".into())),
                LoseLate(time) => {
                    tokio::time::sleep(time).await;
                    return Err(Failure::Gone("it is gone".into()));
                }
                Hang => std::future::pending().await,
                Refuse => return Err(Failure::Request(RequestError::protocol("no"))),
            }
            Ok((place, fragments.to_vec()))
        }
    }

    /// Asks nodes of which the first is this one for 100 fragments; who answered for each, and who was asked.
    async fn run(does: Vec<Does>, replicas: usize) -> Result<(Vec<usize>, BTreeSet<usize>), RequestError> {
        let view = View::of_names(does.len(), replicas);
        let nodes = Nodes { does, asked: Mutex::default() };
        let fragments: Vec<u32> = (0..100).collect();
        let deadline = Instant::now() + Duration::from_secs(30);
        let parts = scatter(&view, ("t", 9), &fragments, deadline, &nodes).await?;
        let mut by = BTreeMap::new();
        for (place, fragments) in parts {
            assert!(fragments.is_sorted());
            for fragment in fragments {
                assert!(by.insert(fragment, place).is_none(), "fragment {fragment} counts twice");
            }
        }
        assert!(by.keys().copied().eq(fragments), "{by:?}");
        Ok((by.into_values().collect(), nodes.asked.into_inner().unwrap().into_iter().collect()))
    }

    fn share(by: &[usize], place: usize) -> usize {
        by.iter().filter(|answered| **answered == place).count()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_holder_answers_and_this_node_for_what_it_holds() {
        let (by, _) = run(vec![Answer(MS); 4], 1).await.unwrap();
        assert!((0..4).all(|place| (10..45).contains(&share(&by, place))), "{by:?}");
        let (by, _) = run(vec![Answer(MS); 4], 2).await.unwrap();
        assert!(share(&by, 0) >= 35 && share(&by, 1) < 35, "{by:?}");
        let (by, asked) = run(vec![Answer(MS); 3], 3).await.unwrap();
        assert_eq!((share(&by, 0), asked.len()), (100, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_moves_on_and_nothing_else() {
        let (before, _) = run(vec![Answer(MS); 4], 1).await.unwrap();
        let (after, _) = run(vec![Answer(MS), Answer(MS), Fail, Answer(MS)], 1).await.unwrap();
        for (before, after) in before.iter().zip(&after) {
            assert!(if *before == 2 { *after != 2 } else { before == after });
        }
        let (by, _) = run(vec![Answer(MS), Fail, Fail, Fail], 2).await.unwrap();
        assert_eq!(share(&by, 0), 100);
        let (by, _) = run(vec![Fail, Fail, Answer(MS), Fail], 1).await.unwrap();
        assert_eq!(share(&by, 2), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_slow_is_given_to_the_next_and_counts_once() {
        // Cut off: the others take over.
        let (by, _) = run(vec![Answer(MS), Hang, Answer(MS)], 1).await.unwrap();
        assert_eq!(share(&by, 1), 0);
        // Slow, and still before those that took over.
        let slow = [Answer(MS), Answer(1_500 * MS), Answer(900 * MS)];
        let (by, asked) = run(slow.to_vec(), 1).await.unwrap();
        assert!(asked.len() == 3 && share(&by, 1) + share(&by, 2) + share(&by, 0) == 100);
        // Slow, and nobody else can.
        let (by, _) = run(vec![Fail, Answer(20_000 * MS), Fail], 3).await.unwrap();
        assert_eq!(share(&by, 1), 100);
        // Slow, and then it fails after all.
        let started = Instant::now();
        let (by, _) = run(vec![Answer(8_000 * MS), Hang, Hang], 1).await.unwrap();
        assert_eq!(share(&by, 0), 100);
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_is_named() {
        let error = run(vec![Fail; 3], 1).await.unwrap_err();
        assert_eq!(error.reason(), "INCOMPLETE");
        for word in ["\"t\"", "fragments (", "node0:7701: no route", "node2:7701: no route"] {
            assert!(error.message().contains(word), "{}", error.message());
        }
        // Nobody has it any longer, or somebody may have it.
        assert_eq!(run(vec![Lose; 3], 1).await.unwrap_err().reason(), "VERSION_GONE");
        // A slow node says so late: behind those that took over, or before them.
        for late in
            [vec![Lose, LoseLate(8_000 * MS), Lose], vec![Lose, LoseLate(8_000 * MS), LoseLate(9_000 * MS)]]
        {
            let error = run(late, 1).await.unwrap_err();
            assert_eq!(error.reason(), "VERSION_GONE", "{}", error.message());
        }
        assert_eq!(run(vec![Fail, LoseLate(8_000 * MS), Lose], 1).await.unwrap_err().reason(), "INCOMPLETE");
        assert_eq!(run(vec![Lose, Fail, Lose], 1).await.unwrap_err().reason(), "INCOMPLETE");
        assert_eq!(share(&run(vec![Lose, Answer(MS), Lose], 3).await.unwrap().0, 1), 100);
        assert_eq!(run(vec![Hang; 3], 1).await.unwrap_err().reason(), "DEADLINE_EXCEEDED");
        // What is wrong with the request is no matter of the node.
        assert_eq!(run(vec![Answer(MS), Refuse, Refuse], 1).await.unwrap_err().reason(), "PROTOCOL");
    }
}
