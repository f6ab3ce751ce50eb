//! The tables that a load asks, and what is true of them.
//!
//! Every row is a function of its number, so that the answers are known without asking anybody. Rows that a load
//! writes have ids from 2^32 up and an amount below 0, which no question about the others selects.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};

/// A table of events.
pub(super) const EVENTS: &str = "bench_events";
/// A table of those who cause them.
pub(super) const USERS: &str = "bench_users";
/// What an event can be; each half as frequent as the one before.
pub(super) const KINDS: [&str; KIND_COUNT as usize] =
    ["view", "search", "click", "add", "remove", "order", "pay", "return"];
/// How many kinds there are.
pub(super) const KIND_COUNT: u32 = 8;
/// Users.
pub(super) const USER_ROWS: u32 = 50_000;
/// Groups of users.
pub(super) const SEGMENTS: u32 = 100;
/// Amounts go from 0 up to this, which is not one.
pub(super) const AMOUNTS: u32 = 10_000;
/// Ids of prepared events are below this.
pub(super) const PREPARED_IDS: i64 = 1 << 32;
/// Rows of one write while the tables are prepared: those of a full fragment.
pub(super) const PART_ROWS: u64 = 1 << 20;
/// Rows of one batch of such a write.
const BATCH_ROWS: usize = 1 << 16;

/// Numbers that are the same in every run: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// One below `end`, which is more than 0 and far from 2^64.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// The same for smaller numbers.
    pub(super) fn below_small(&mut self, end: u32) -> u32 {
        small(self.below(end.into()))
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A prepared event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) user: u32,
    /// An index into [`KINDS`].
    pub(super) kind: usize,
    pub(super) amount: u32,
}

/// The event with an id below [`PREPARED_IDS`].
pub(super) fn event(id: u64) -> Event {
    let mut random = Random::new(id.wrapping_mul(0xd6e8_feb8_6659_fd93));
    let kind = (random.next() | 0x80).trailing_zeros() as usize;
    Event { user: random.below_small(USER_ROWS), kind, amount: random.below_small(AMOUNTS) }
}

/// The segment of a user.
pub(super) fn segment(user: u32) -> u32 {
    small(mix(u64::from(user) + 1) % u64::from(SEGMENTS))
}

pub(super) fn events_schema() -> Schema {
    Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("user", DataType::Int32, false),
        Field::new("kind", DataType::Utf8, false),
        Field::new("amount", DataType::Int32, false),
    ])
}

pub(super) fn users_schema() -> Schema {
    Schema::new(vec![Field::new("id", DataType::Int32, false), Field::new("segment", DataType::Int32, false)])
}

/// The prepared events from `first` up to `end`.
pub(super) fn events(first: u64, end: u64) -> impl Iterator<Item = RecordBatch> {
    (first..end).step_by(BATCH_ROWS).map(move |start| {
        let ids = start..end.min(start + BATCH_ROWS as u64);
        let events: Vec<Event> = ids.clone().map(event).collect();
        let kinds = events.iter().map(|e| KINDS.get(e.kind).copied());
        batch(
            events_schema(),
            vec![
                Arc::new(ids.map(u64::cast_signed).collect::<Int64Array>()),
                Arc::new(events.iter().map(|e| e.user.cast_signed()).collect::<Int32Array>()),
                Arc::new(kinds.collect::<StringArray>()),
                Arc::new(events.iter().map(|e| e.amount.cast_signed()).collect::<Int32Array>()),
            ],
        )
    })
}

/// All users.
pub(super) fn users() -> RecordBatch {
    let column = |value: fn(u32) -> u32| -> ArrayRef {
        Arc::new((0..USER_ROWS).map(|user| value(user).cast_signed()).collect::<Int32Array>())
    };
    batch(users_schema(), vec![column(|user| user), column(segment)])
}

/// `rows` events that are not prepared, with ids from `first`.
pub(super) fn written(first: i64, rows: u32) -> RecordBatch {
    let rows = rows as usize;
    let outside = || vec![-1; rows];
    batch(
        events_schema(),
        vec![
            Arc::new((first..).take(rows).collect::<Int64Array>()),
            Arc::new(Int32Array::from(outside())),
            Arc::new(StringArray::from(vec!["write"; rows])),
            Arc::new(Int32Array::from(outside())),
        ],
    )
}

/// Of numbers that are below 2^32.
fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Columns that fit their schema by the way they are made.
fn batch(schema: Schema, columns: Vec<ArrayRef>) -> RecordBatch {
    let schema = Arc::new(schema);
    RecordBatch::try_new(Arc::clone(&schema), columns).unwrap_or_else(|_| RecordBatch::new_empty(schema))
}

/// How many events, and the sum of their amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) count: u64,
    pub(super) sum: u64,
}

impl Total {
    fn add(&mut self, count: u64, sum: u64) {
        self.count += count;
        self.sum += sum;
    }
}

/// What is true of the prepared events.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    events: u64,
    /// For each kind, the totals of the events with an amount below 0, 1, 2, ... up to [`AMOUNTS`].
    below: Vec<Vec<Total>>,
    segments: Vec<Total>,
    /// For each user, the totals of each kind.
    users: Vec<[Total; KINDS.len()]>,
}

impl Truth {
    /// Of the first so many events.
    pub(super) fn new(events: u64) -> Self {
        let mut below = vec![vec![Total::default(); AMOUNTS as usize + 1]; KINDS.len()];
        let segment_of: Vec<usize> = (0..USER_ROWS).map(|user| segment(user) as usize).collect();
        let mut segments = vec![Total::default(); SEGMENTS as usize];
        let mut users = vec![[Total::default(); KINDS.len()]; USER_ROWS as usize];
        for id in 0..events {
            let Event { user, kind, amount } = event(id);
            below[kind][amount as usize + 1].add(1, amount.into());
            segments[segment_of[user as usize]].add(1, amount.into());
            users[user as usize][kind].add(1, amount.into());
        }
        for totals in &mut below {
            let mut sum = Total::default();
            for total in totals {
                sum.add(total.count, total.sum);
                *total = sum;
            }
        }
        Self { events, below, segments, users }
    }

    /// How many events there are.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Of the events of a kind whose amount is from `low` up to `end`, which is not meant.
    pub(super) fn range(&self, kind: usize, low: u32, end: u32) -> Total {
        let (low, end) = (self.below[kind][low as usize], self.below[kind][end as usize]);
        Total { count: end.count - low.count, sum: end.sum - low.sum }
    }

    /// Of the events of a segment's users.
    pub(super) fn segment(&self, segment: u32) -> Total {
        self.segments[segment as usize]
    }

    /// The first so many groups of the events by user and kind.
    pub(super) fn groups(&self, rows: usize) -> Vec<(u32, &'static str, Total)> {
        let mut kinds: Vec<_> = KINDS.into_iter().zip(0..).collect();
        kinds.sort_unstable();
        let users = (0..USER_ROWS).zip(&self.users);
        let groups = users.flat_map(|(user, totals)| {
            kinds.iter().map(move |(name, kind): &(&str, usize)| (user, *name, totals[*kind]))
        });
        groups.filter(|(_, _, total)| total.count > 0).take(rows).collect()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{cast::AsArray as _, types::Int32Type};

    use super::*;

    const ROWS: u64 = 70_000;

    #[test]
    fn totals_are_those_of_the_rows() {
        let truth = Truth::new(ROWS);
        let select = |wanted: &dyn Fn(Event) -> bool| {
            let mut total = Total::default();
            (0..ROWS).map(event).filter(|e| wanted(*e)).for_each(|e| total.add(1, e.amount.into()));
            total
        };
        for (kind, low, end) in [(0, 0, AMOUNTS), (3, 17, 4000), (7, 9_990, 10_000), (2, 50, 50)] {
            let wanted = |e: Event| e.kind == kind && (low..end).contains(&e.amount);
            assert_eq!(truth.range(kind, low, end), select(&wanted), "{kind} {low} {end}");
        }
        assert_eq!(truth.segment(42), select(&|e| segment(e.user) == 42));
        let groups = truth.groups(5);
        assert!(groups.len() == 5 && groups.is_sorted_by_key(|(user, kind, _)| (*user, *kind)), "{groups:?}");
        for (user, kind, total) in groups {
            assert_eq!(total, select(&|e| e.user == user && KINDS[e.kind] == kind), "{user} {kind}");
        }
        assert_eq!(truth.events(), ROWS);
    }

    #[test]
    fn batches_hold_the_rows() {
        let batches: Vec<_> = events(10, ROWS).collect();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>() as u64 + 10, ROWS);
        let (first, e) = (&batches[0], event(10));
        assert_eq!(first.column(1).as_primitive::<Int32Type>().value(0), e.user.cast_signed());
        assert_eq!(first.column(2).as_string::<i32>().value(0), KINDS[e.kind]);
        assert_eq!(first.column(3).as_primitive::<Int32Type>().value(0), e.amount.cast_signed());
        assert_eq!(users().num_rows(), USER_ROWS as usize);
        let written = written(PREPARED_IDS, 3);
        assert_eq!(written.num_rows(), 3);
        assert!(written.column(3).as_primitive::<Int32Type>().values().iter().all(|amount| *amount < 0));
    }

    #[test]
    fn every_kind_occurs() {
        let truth = Truth::new(ROWS);
        let counts: Vec<_> = (0..KINDS.len()).map(|kind| truth.range(kind, 0, AMOUNTS).count).collect();
        assert!(counts[0] > ROWS * 9 / 20 && counts.iter().all(|count| *count > 300), "{counts:?}");
    }
}
