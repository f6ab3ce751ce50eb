//! What is asked of a column, timed in every encoding.

use std::{hint::black_box, sync::Arc, time::Duration};

use basalt_core::{
    encoding::{KeyColumn, KeyTest, open_keys},
    limits::{BLOCK_ROWS, BLOCK_WORDS},
};

use super::{
    holdings::{Holdings, SEED, encode, label, outermost},
    source::{self, Source},
};
use crate::{
    contest::{self, Contest, Figures, Goal, Role},
    data, table,
};

/// What each encoding gets of the time for a question.
const EACH: Duration = Duration::from_millis(20);

/// Rows that one call of random access reads.
const RANDOM: usize = 16_384;
/// Copies of a column that are asked in turns.
const COPIES: usize = 5;

/// Prints the times of every question, of every source.
pub fn print_tables(rows: usize) {
    let held: Vec<(Source, Holdings)> = source::all()
        .into_iter()
        .map(|source| {
            let held = Holdings::new(source.draw(rows), source.native(), source.rarest());
            (source, held)
        })
        .collect();
    for question in Question::ALL {
        let line = |(source, held): &(Source, Holdings)| {
            let name = format!("{}: {}", source.name, held.chosen.column.name());
            (name, question.race(source, held, EACH), question.goal(source))
        };
        let lines: Vec<_> = held.iter().map(line).collect();
        let title = format!("{}, {} rows", question.title(), table::grouped(rows));
        contest::print(&title, "values: chosen encoding", question.unit(rows), &lines);
    }
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The mask of the rows that have the rarest value.
    Filter,
    /// All keys.
    Decode,
    /// The keys of random rows, one by one.
    Get,
    /// How many rows have the rarest value.
    Count,
    /// Make the column of the keys.
    Encode,
}

impl Question {
    /// All of them.
    const ALL: [Self; 5] = [Self::Filter, Self::Decode, Self::Get, Self::Count, Self::Encode];

    /// What it is to take of a source, in its unit.
    fn goal(self, source: &Source) -> Goal {
        match self {
            Self::Filter => source.filter_goal.map_or(Goal::Ahead, Goal::Within),
            Self::Get => source.get_goal.map_or(Goal::Ahead, Goal::Within),
            Self::Decode | Self::Count => Goal::Ahead,
            Self::Encode => Goal::None,
        }
    }

    /// The seconds of its unit, asked of so many rows.
    #[allow(clippy::cast_precision_loss, reason = "a unit of time")]
    pub fn unit(self, rows: usize) -> f64 {
        match self {
            Self::Filter | Self::Decode | Self::Encode => 1e-9 * rows as f64,
            Self::Get => 1e-9 * RANDOM as f64,
            Self::Count => 1e-6,
        }
    }

    /// What it is called, with the unit that its figures are in.
    fn title(self) -> &'static str {
        match self {
            Self::Filter => "filter = rarest value to a mask, ns a row",
            Self::Decode => "decode, ns a row",
            Self::Get => "random get, ns",
            Self::Count => "rows with the rarest value, us",
            Self::Encode => "encode, statistics and choice counted, ns a row",
        }
    }

    /// Times the question of every holding of a source: that of the seed, the forced ones, roaring for what
    /// it holds, and the chosen one as ours.
    pub fn race(self, source: &Source, held: &Holdings, each: Duration) -> Figures {
        let mut contest = Contest::new();
        for (name, column) in &held.forced {
            let role = if *name == SEED { Role::Seed } else { Role::Other };
            self.enter(&mut contest, role, label(name), source, held, column.as_ref(), Some(name));
        }
        // Of more values it would be an index of one of them, not the column.
        if source.rarest() == 1 {
            self.enter_roaring(&mut contest, held);
        }
        let chosen = held.chosen.column.as_ref();
        match self {
            Self::Count => enter_counts(&mut contest, source, held),
            _ => self.enter(&mut contest, Role::Ours, CHOSEN, source, held, chosen, None),
        }
        contest.run(&format!("{}: {}", source.name, self.title()), each)
    }

    #[allow(
        clippy::too_many_arguments,
        clippy::unwrap_used,
        reason = "who is asked, and what of; benchmarks stop"
    )]
    fn enter<'a>(
        self,
        contest: &mut Contest<'a, Vec<u64>>,
        role: Role,
        name: &str,
        source: &'a Source,
        held: &'a Holdings,
        column: &'a dyn KeyColumn,
        forced: Option<&'a str>,
    ) {
        let rows = held.keys.len();
        let rarest = source.rarest();
        let test = KeyTest::Range { lo: rarest, hi: rarest };
        // Every call asks the next copy: threads remember the blocks that they decoded last.
        let copies: Vec<_> = (0..COPIES).map(|_| open_keys(column.buffer().clone()).unwrap()).collect();
        let mut copies = (0..COPIES).cycle().map(move |copy| Arc::clone(&copies[copy]));
        let mut next = move || copies.next().unwrap();
        match self {
            Self::Filter => {
                let filter = move |out: &mut Vec<u64>| {
                    let column = next();
                    out.resize(rows.div_ceil(64), 0);
                    for (block, words) in out.chunks_mut(BLOCK_WORDS).enumerate() {
                        let start = block * BLOCK_ROWS;
                        column.filter(start, (rows - start).min(BLOCK_ROWS), black_box(&test), words);
                    }
                };
                contest.enter(role, name, filter, Vec::clone);
            }
            Self::Decode => {
                // That every row is right was checked; the last block stands for them here.
                let decode = move |out: &mut Vec<i64>| {
                    let column = next();
                    for start in (0..rows).step_by(BLOCK_ROWS) {
                        out.resize((rows - start).min(BLOCK_ROWS), 0);
                        column.decode(start, out);
                    }
                };
                contest.enter(role, name, decode, |out| out.iter().map(|key| key.cast_unsigned()).collect());
            }
            Self::Get => {
                let places = data::random(u32::try_from(rows).unwrap_or(u32::MAX), RANDOM);
                let get = move |out: &mut i64| {
                    let column = next();
                    *out = black_box(&places).iter().map(|&row| column.get(row as usize)).sum();
                };
                contest.enter(role, name, get, |out| vec![out.cast_unsigned()]);
            }
            Self::Count => {
                let mut words = vec![0; BLOCK_WORDS];
                let count = move |out: &mut u64| {
                    let column = next();
                    *out = 0;
                    for start in (0..rows).step_by(BLOCK_ROWS) {
                        let n = (rows - start).min(BLOCK_ROWS);
                        let words = &mut words[..n.div_ceil(64)];
                        column.filter(start, n, black_box(&test), words);
                        *out += basalt_kernels::mask::count_ones(words);
                    }
                };
                contest.enter(role, name, count, |out| vec![*out]);
            }
            Self::Encode => {
                let make = move |out: &mut Option<String>| {
                    let encoded = encode(black_box(&held.keys), source.native(), forced);
                    *out = encoded.map(|encoded| outermost(encoded.column.as_ref()));
                };
                contest.enter(role, name, make, |out| vec![u64::from(out.is_some())]);
            }
        }
    }

    fn enter_roaring<'a>(self, contest: &mut Contest<'a, Vec<u64>>, held: &'a Holdings) {
        let rows = held.keys.len();
        if self == Self::Filter {
            let filter = move |out: &mut Vec<u64>| {
                out.clear();
                out.resize(rows.div_ceil(64), 0);
                held.roaring.iter().for_each(|row| out[row as usize / 64] |= 1 << (row % 64));
            };
            contest.enter(Role::Rival, "roaring", filter, Vec::clone);
        }
        if self == Self::Count {
            contest.enter(Role::Rival, "roaring", |out| *out = held.roaring.len(), |out| vec![*out]);
        }
    }
}

/// The name of the contender that the chooser made.
const CHOSEN: &str = "chosen";

/// The counts that every column of few values comes with.
fn enter_counts<'a>(contest: &mut Contest<'a, Vec<u64>>, source: &'a Source, held: &'a Holdings) {
    let look_up = move |out: &mut u64| {
        let counts = held.chosen.value_counts.as_deref().unwrap_or_default();
        let place = counts.binary_search_by_key(&black_box(source.rarest()), |(value, _)| *value);
        *out = place.map_or(0, |place| counts[place].1);
    };
    contest.enter(Role::Ours, CHOSEN, look_up, |out| vec![*out]);
}
