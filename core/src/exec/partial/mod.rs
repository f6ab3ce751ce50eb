//! Answers in parts: a plan runs where some of its table's fragments are, and what the runs come to is put together
//! elsewhere, to the same bits that one run over all fragments gives.
//!
//! Only what needs all rows is left to the end: `having`, the order, the page, the outputs of groups. Groups are
//! merged as those of blocks are; but sums of floats are kept apart for each fragment, since the order of additions
//! is that of the fragments, whoever has them.
//!
//! # Groups as bytes
//!
//! ```text
//! part   = format groups table* column*
//! format = 0x01
//! groups = number                           how many entries each column has
//! table  = number bytes                     of texts; each is bytes, in UTF-8
//! column = bytes                            entries one after the other
//! bytes  = number, then as many bytes
//! number = LEB128; with a sign: twice the value, or less than zero twice the distance to zero less one
//! ```
//!
//! There is a table for each key that is text, then for each argument that is text and whose least, greatest or
//! distinct values are asked for. The columns are: each key; rows, when there is a `count(*)`; and for each
//! argument, in the order in which the aggregates name it, those that its aggregates need:
//!
//! | column | entry |
//! |---|---|
//! | key | with a sign: 0 for null, else the difference to the last key that is not null (0 at first), one more unless it is negative; of texts without a sign: 0, or one more than the place in the table |
//! | rows | number of the group's rows; of an argument, of those that are not null |
//! | integer sum | with a sign |
//! | float sums | number of fragments; for each its id less the one before, and the float64's eight bytes, the lowest first |
//! | least, greatest | the key, with a sign; of texts the place in the table |
//! | distinct | bytes of a SIP of at most [`SET_KEYS`](crate::limits::SET_KEYS) ids, none for no keys: keys with their top bit flipped, or places in the table |
//!
//! A part has about a mebibyte. A group may stand in several: its rows add up, its sets are united. A group whose
//! sets are large does, with no rows in all entries but the first.

mod bytes;
mod layout;
mod read;
mod rows;
mod write;

use arrow_array::RecordBatch;

pub(super) use self::rows::value_at;
use self::{layout::Layout, rows::Sorted};
use super::{
    Control, Held, Scan, Statistics,
    aggregate::{FragmentSum, Kind},
    distinct::Distinct,
    group_keys::KeyTable,
    group_output,
    groups::{self, Groups, Merger, To},
    rows::{Page, sorted, stream},
    sets,
};
use crate::{
    error::{Error, ErrorKind, Result},
    plan::{Plan, Shape, pred::Pred},
    schema::Schema,
    table::Snapshot,
    value,
};

/// The first byte of a part of groups.
const FORMAT: u8 = 1;

/// Some of what a plan comes to on some fragments.
#[derive(Clone, Debug)]
pub enum Part {
    /// Groups, as bytes; see `core/src/exec/partial/mod.rs`.
    Groups(Vec<u8>),
    /// Rows of one fragment, after those of it that came before.
    Rows {
        /// The fragment's id.
        fragment: u32,
        /// The answer's columns.
        batch: RecordBatch,
    },
    /// The rows of a fragment behind those that came before have no values, for this reason.
    Failed {
        /// The fragment's id.
        fragment: u32,
        /// One that [`failure_code`] knows.
        error: Error,
    },
    /// Rows in the plan's order: its outputs, hidden ones too, the row's address, and for a row that has no values
    /// the code of the reason.
    Sorted(RecordBatch),
}

/// The code of an error of the values of a row, which is none of an answer without the row.
pub fn failure_code(error: &Error) -> Option<u8> {
    match error.kind() {
        ErrorKind::Overflow => Some(1),
        ErrorKind::DivisionByZero => Some(2),
        _ => None,
    }
}

/// The error with a code.
pub fn failure(code: u8) -> Option<Error> {
    match code {
        1 => Some(value::overflow("the result of an operation")),
        2 => Some(value::division_by_zero()),
        _ => None,
    }
}

impl Plan {
    /// Runs the plan on some fragments of the version that it was bound to, up to where it needs the others. It is
    /// for these fragments alone from then on: its sets are in the form that is fastest for them.
    ///
    /// # Errors
    /// Those of [`Plan::run`], but for sums that do not fit their type.
    pub fn run_part(
        &self,
        snapshot: &Snapshot,
        control: &Control,
        sink: &mut dyn FnMut(Part) -> Result<()>,
    ) -> Result<Statistics> {
        control.check()?;
        let part = self.of_part();
        let _held = sets::prepare(self.filter.as_ref(), snapshot, control)?;
        let mut scan = Scan::new(snapshot, self.filter.as_ref(), control)?;
        match &self.shape {
            Shape::Rows if self.order.is_empty() => {
                let done = stream(&part, &mut scan, control, &mut |fragment, batch| {
                    sink(Part::Rows { fragment, batch })
                });
                match (done, scan.failed) {
                    (Err(error), Some(block)) if failure_code(&error).is_some() => {
                        sink(Part::Failed { fragment: block.fragment.id(), error })?;
                    }
                    (done, _) => done?,
                }
            }
            Shape::Rows => {
                sorted(&part, snapshot, &mut scan, control, &mut |batch| sink(Part::Sorted(batch)))?;
            }
            Shape::Groups { keys, aggregates, .. } => {
                let mut groups =
                    groups::collect(self, keys, aggregates, snapshot, &mut scan, To::Parts, control)?;
                write::write(&mut groups, control, &mut |bytes| sink(Part::Groups(bytes)))?;
            }
        }
        Ok(scan.statistics)
    }

    /// The columns of the batches in a [`Part`] of this plan.
    pub fn part_schema(&self) -> Schema {
        self.of_part().schema().clone()
    }
}

/// Puts the parts of an answer together, whoever ran them and in whatever order they come.
///
/// Each fragment's parts must be those of one run, taken in whole: it is for the caller to see that every fragment is
/// there, once.
pub struct Merge<'p> {
    plan: &'p Plan,
    control: &'p Control,
    state: State<'p>,
}

enum State<'p> {
    Groups(Box<MergeGroups<'p>>),
    Rows {
        page: Page,
        /// Batches that wait for those of fragments before theirs, and the memory that they take.
        waiting: Vec<(u32, Result<RecordBatch>)>,
        held: Held<'p>,
    },
    Sorted(Sorted<'p>),
}

struct MergeGroups<'p> {
    groups: Groups<'p>,
    layout: Layout,
    merger: Merger<'p>,
    /// For each argument, the sums of fragments so far.
    sums: Vec<Vec<FragmentSum>>,
    having: Option<&'p Pred>,
    held: Held<'p>,
}

impl<'p> Merge<'p> {
    /// Nothing yet.
    ///
    /// # Errors
    /// Those of `control`.
    pub fn new(plan: &'p Plan, control: &'p Control) -> Result<Self> {
        let state = match &plan.shape {
            Shape::Rows if plan.order.is_empty() => {
                State::Rows { page: Page::new(plan), waiting: Vec::new(), held: Held::new(control) }
            }
            Shape::Rows => State::Sorted(Sorted::new(plan, control)),
            Shape::Groups { keys, aggregates, having } => {
                let mut groups =
                    Groups::new(keys, aggregates, &plan.rows, KeyTable::new(keys.len(), None), false);
                if keys.is_empty() {
                    groups.add_only(|_| Distinct::default(), control)?;
                }
                let (layout, merger) = (Layout::of(&groups), Merger::new(&groups, control));
                let sums = vec![Vec::new(); groups.arguments.all.len()];
                let (having, held) = (having.as_ref(), Held::new(control));
                State::Groups(Box::new(MergeGroups { groups, layout, merger, sums, having, held }))
            }
        };
        Ok(Self { plan, control, state })
    }

    /// Takes in a part of a run over `fragments`, whose ids ascend.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when it is no such part; what it held may be in by then. Those of `control`.
    pub fn add(&mut self, part: Part, fragments: &[u32]) -> Result<()> {
        self.control.check()?;
        match (&mut self.state, part) {
            (State::Groups(state), Part::Groups(bytes)) => state.add(&bytes, fragments),
            (State::Rows { waiting, held, .. }, Part::Rows { fragment, batch }) => {
                asked(fragment, fragments)?;
                rows::check(&batch, self.plan.schema())?;
                held.set(held.bytes() + batch.get_array_memory_size())?;
                waiting.push((fragment, Ok(batch)));
                Ok(())
            }
            (State::Rows { waiting, .. }, Part::Failed { fragment, error }) => {
                asked(fragment, fragments)?;
                waiting.push((fragment, Err(error)));
                Ok(())
            }
            (State::Sorted(sorted), Part::Sorted(batch)) => sorted.add(batch, fragments),
            _ => Err(corrupt("it is of another kind of plan")),
        }
    }

    /// Hands out rows that need not wait: all fragments before those that are still to come are in. Says whether
    /// more are wanted.
    ///
    /// # Errors
    /// Those of rows that have no values, and those of `sink`.
    pub fn flush(&mut self, sink: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<bool> {
        let State::Rows { page, waiting, held } = &mut self.state else { return Ok(true) };
        // Those of a fragment stay in their order.
        waiting.sort_by_key(|(fragment, _)| *fragment);
        for (_, batch) in waiting.drain(..) {
            if page.is_full() {
                break;
            }
            if let Some(batch) = page.of(&batch?) {
                sink(batch)?;
            }
        }
        held.set(0)?;
        Ok(!page.is_full())
    }

    /// Hands out the answer: all parts are in.
    ///
    /// # Errors
    /// [`ErrorKind::Overflow`] and [`ErrorKind::DivisionByZero`]; those of `control` and `sink`.
    pub fn finish(mut self, sink: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        self.flush(sink)?;
        match self.state {
            State::Groups(state) => state.finish(self.plan, self.control, sink),
            State::Rows { .. } => Ok(()),
            State::Sorted(sorted) => sorted.finish(sink),
        }
    }
}

impl MergeGroups<'_> {
    fn add(&mut self, bytes: &[u8], fragments: &[u32]) -> Result<()> {
        let mut held = Held::new(self.held.control());
        let part = read::read(bytes, &self.layout, &self.groups, fragments, &mut held)?;
        self.merger.merge(&mut self.groups, 0, &part.groups)?;
        for (all, sums) in self.sums.iter_mut().zip(part.sums) {
            self.held.set(self.held.bytes() + sums.len() * size_of::<FragmentSum>())?;
            let to = self.merger.to();
            all.extend(sums.into_iter().map(|sum| FragmentSum { group: to[sum.group as usize], ..sum }));
        }
        Ok(())
    }

    fn finish(
        mut self: Box<Self>,
        plan: &Plan,
        control: &Control,
        sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        for (argument, sums) in self.sums.iter_mut().enumerate() {
            sums.sort_by_key(|sum| sum.fragment);
            let states = self.groups.states.iter_mut().zip(&self.groups.arguments.of);
            let states = states.filter(|(s, of)| s.kind() == Kind::SumFloats && **of == Some(argument));
            states.for_each(|(state, _)| state.add_sums(sums));
        }
        group_output::groups(plan, &self.groups, self.having, control, sink)?;
        Ok(())
    }
}

/// A key of a set as an id: in the order of keys.
fn id_of(key: i64) -> u64 {
    key.cast_unsigned() ^ (1 << 63)
}

/// The key of an id.
fn key_of(id: u64) -> i64 {
    (id ^ (1 << 63)).cast_signed()
}

/// That a fragment is among those that were asked for.
fn asked(fragment: u32, fragments: &[u32]) -> Result<()> {
    match fragments.binary_search(&fragment) {
        Ok(_) => Ok(()),
        Err(_) => Err(corrupt("it has a fragment that was not asked for")),
    }
}

fn corrupt(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("a part of an answer is no such part: {what}"))
}
