//! Execution: fragment by fragment, block by block. A block is pruned by its zone maps or filtered into a
//! mask; what is aggregated or returned under the mask is decoded in batches that fit the cache.
//!
//! Blocks run in parallel on the rayon pool whose thread calls (one by one on a thread of no pool), and their results are merged in the order of fragments
//! and blocks, so that an answer has the same bits for any number of threads.

mod aggregate;
mod by_statistics;
mod distinct;
mod explain;
mod filter;
mod group_keys;
mod groups;
mod keys;
mod many_groups;
mod marks;
mod one_group;
mod output;
mod radix;
mod rows;
mod semi_join;
mod sets;
mod source;
mod totals;
mod vector;

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicUsize, Ordering},
};

use arrow_array::RecordBatch;
use basalt_sip::Sip;
use rayon::prelude::*;

pub use self::{
    explain::{ColumnUse, Explanation, FilterUse},
    keys::{SelectedKeys, select_keys},
    semi_join::{resolve, resolve_filter},
    sets::SetUse,
};

use self::vector::Batch;
use crate::{
    error::{Error, ErrorKind, Result},
    fragment::Fragment,
    limits::{BATCH_ROWS, BLOCK_ROWS, BLOCK_WORDS},
    mask::{Mask, Words},
    plan::{
        Plan, Shape,
        expr::{BoundExpr, Slots},
        pred::Pred,
    },
    query::Filter,
    table::{Snapshot, Table},
};

/// Blocks whose results wait to be merged, at most.
const WINDOW: usize = 64;
/// Bytes of results that wait to be merged, about.
const WINDOW_BYTES: usize = 256 << 20;

/// Stops work from outside, at the next block, and bounds its memory.
#[derive(Clone, Debug)]
pub struct Control {
    state: Arc<AtomicU8>,
    used: Arc<AtomicUsize>,
    memory: usize,
    clock: Option<fn() -> u64>,
}

impl Default for Control {
    fn default() -> Self {
        Self::with_memory(usize::MAX)
    }
}

impl Control {
    /// Work that may hold `bytes` of groups, distinct values and sorted rows.
    pub fn with_memory(bytes: usize) -> Self {
        Self { state: Arc::default(), used: Arc::default(), memory: bytes, clock: None }
    }

    /// The same work, whose parts are timed by a clock of nanoseconds that never goes back.
    #[must_use]
    pub fn with_clock(self, clock: fn() -> u64) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Nanoseconds of the clock; 0 without one.
    pub(crate) fn now(&self) -> u64 {
        self.clock.map_or(0, |clock| clock())
    }

    /// The caller is gone: the work ends with [`ErrorKind::Cancelled`].
    pub fn cancel(&self) {
        let _ = self.state.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The time is over: the work ends with [`ErrorKind::DeadlineExceeded`].
    pub fn expire(&self) {
        let _ = self.state.compare_exchange(0, 2, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// An error once the work is to stop.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`], [`ErrorKind::DeadlineExceeded`].
    pub fn check(&self) -> Result<()> {
        match self.state.load(Ordering::Relaxed) {
            0 => Ok(()),
            1 => Err(Error::new(ErrorKind::Cancelled, "the caller cancelled")),
            _ => Err(Error::new(ErrorKind::DeadlineExceeded, "the deadline passed")),
        }
    }

    /// Counts memory that the work holds from now on.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<()> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if used > self.memory {
            let message = format!("the query needs more than its {} bytes of memory", self.memory);
            return Err(Error::new(ErrorKind::MemoryLimit, message));
        }
        Ok(())
    }

    /// Gives back memory that [`Control::reserve`] counted.
    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Memory that a [`Control`] counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    control: &'a Control,
    bytes: usize,
}

impl<'a> Held<'a> {
    fn new(control: &'a Control) -> Self {
        Self { control, bytes: 0 }
    }

    /// Says how much it is now.
    fn set(&mut self, bytes: usize) -> Result<()> {
        let before = std::mem::replace(&mut self.bytes, bytes);
        match bytes.checked_sub(before) {
            Some(growth) => self.control.reserve(growth),
            None => {
                self.control.release(before - bytes);
                Ok(())
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.control.release(self.bytes);
    }
}

/// What a query did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Rows of the table.
    pub rows: u64,
    /// Fragments of the table.
    pub fragments: u64,
    /// Blocks of the table.
    pub blocks: u64,
    /// Blocks that statistics alone showed to hold no row.
    pub blocks_pruned: u64,
    /// Blocks that statistics alone showed to be selected whole.
    pub blocks_full: u64,
    /// Rows that the filter selected.
    pub rows_selected: u64,
}

impl Statistics {
    fn of(snapshot: &Snapshot) -> Self {
        Self {
            rows: snapshot.rows(),
            fragments: snapshot.fragments().len() as u64,
            blocks: snapshot.fragments().iter().map(|f| f.blocks() as u64).sum(),
            ..Self::default()
        }
    }
}

/// One block of one fragment, with the place of the fragment in the snapshot.
#[derive(Clone, Copy, Debug)]
struct Block<'a> {
    fragment: &'a Fragment,
    at: usize,
    block: usize,
    control: &'a Control,
}

impl<'a> Block<'a> {
    /// Calls `each` with the batches of a mask that select rows; the work stops between them.
    fn for_each_batch(self, mask: &Mask, mut each: impl FnMut(&Batch<'a, '_>) -> Result<()>) -> Result<()> {
        let mut words = Vec::new();
        for start in (0..self.rows()).step_by(BATCH_ROWS) {
            let rows = (self.rows() - start).min(BATCH_ROWS);
            let selected = mask.slice(start, rows, &mut words);
            if selected > 0 {
                self.control.check()?;
                each(&Batch::new(self, start, rows, &words, selected == rows))?;
            }
        }
        Ok(())
    }

    fn start(&self) -> usize {
        self.block * BLOCK_ROWS
    }

    fn rows(&self) -> usize {
        self.fragment.block_rows(self.block)
    }
}

/// What pruning left: the blocks to read.
struct Work<'a> {
    /// The filter as each fragment sees it; none without a filter.
    filters: Vec<Pred>,
    /// Blocks that may hold rows, and whether all of their rows are known to be selected.
    blocks: Vec<(Block<'a>, bool)>,
    statistics: Statistics,
    control: &'a Control,
    _held: Held<'a>,
}

impl<'a> Work<'a> {
    /// Prunes by zone maps and counts.
    fn new(snapshot: &'a Snapshot, filter: Option<&Pred>, control: &'a Control) -> Result<Self> {
        let mut statistics = Statistics::of(snapshot);
        let mut blocks = Vec::new();
        let mut filters = Vec::new();
        let mut held = Held::new(control);
        for fragment in snapshot.fragments() {
            control.check()?;
            if let Some(filter) = filter {
                let lowered = filter::lower(filter, fragment);
                held.set(held.bytes + filter::code_bytes(&lowered, fragment))?;
                filters.push(lowered);
            }
        }
        for (at, fragment) in snapshot.fragments().iter().enumerate() {
            for block in 0..fragment.blocks() {
                let block = Block { fragment, at, block, control };
                match filters.get(at).map_or(filter::Verdict::All, |pred| filter::prune(pred, block)) {
                    filter::Verdict::None => statistics.blocks_pruned += 1,
                    filter::Verdict::All => {
                        statistics.blocks_full += u64::from(filter.is_some());
                        blocks.push((block, true));
                    }
                    filter::Verdict::Some => blocks.push((block, false)),
                }
            }
        }
        Ok(Self { filters, blocks, statistics, control, _held: held })
    }

    /// Runs `each` on the mask of every block in parallel, and hands the results to `merge` in order; `merge`
    /// says whether to go on. At most [`WINDOW`] results wait, and no more than about [`WINDOW_BYTES`] when one
    /// may take `row_bytes` for each row; fewer at first when the first blocks may be enough.
    fn run<T: Send>(
        &mut self,
        slots: &Slots,
        row_bytes: usize,
        maybe_few: bool,
        each: impl Fn(Block<'a>, Mask) -> Result<T> + Sync,
        mut merge: impl FnMut(Block<'a>, T) -> Result<bool>,
    ) -> Result<()> {
        let one = |(block, all): &(Block<'a>, bool)| -> Result<(u64, Option<T>)> {
            self.control.check()?;
            let mask = match self.filters.get(block.at) {
                Some(pred) if !all => filter::mask(pred, slots, *block, &Mask::Full)?,
                _ => Mask::Full,
            };
            let selected = mask.count(block.rows()) as u64;
            let result = if selected == 0 { None } else { Some(each(*block, mask)?) };
            Ok((selected, result))
        };
        let widest = (WINDOW_BYTES / (BLOCK_ROWS * row_bytes.max(1))).clamp(1, WINDOW);
        let mut window = if maybe_few { 1 } else { widest };
        let mut rest = self.blocks.as_slice();
        while !rest.is_empty() {
            let blocks;
            (blocks, rest) = rest.split_at(window.min(rest.len()));
            window = (window * 2).min(widest);
            // Only a pool's own thread shares its work: elsewhere the caller wants it done here.
            let results: Vec<_> = match blocks {
                [block] => vec![one(block)],
                blocks if rayon::current_thread_index().is_none() => blocks.iter().map(one).collect(),
                blocks => blocks.par_iter().map(one).collect(),
            };
            for ((block, _), result) in blocks.iter().zip(results) {
                let (selected, result) = result?;
                self.statistics.rows_selected += selected;
                if let Some(result) = result
                    && !merge(*block, result)?
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Plan {
    /// Runs the plan on the snapshot that it was bound to. Batches of the answer go to `sink` as they are
    /// ready; the last may come long before the end, and there may be none.
    ///
    /// # Errors
    /// Those of the values ([`ErrorKind::Overflow`], [`ErrorKind::DivisionByZero`]), of `control`, of `sink`.
    pub fn run(
        &self,
        snapshot: &Snapshot,
        control: &Control,
        sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<Statistics> {
        control.check()?;
        let _held = sets::prepare(self.filter.as_ref(), snapshot, control)?;
        let mut work = Work::new(snapshot, self.filter.as_ref(), control)?;
        match &self.shape {
            Shape::Rows if self.order.is_empty() => rows::stream(self, &mut work, control, sink)?,
            Shape::Rows => rows::sorted(self, snapshot, &mut work, control, sink)?,
            Shape::Groups { keys, aggregates, having } => {
                let groups = groups::collect(self, keys, aggregates, snapshot, &mut work, control)?;
                output::groups(self, &groups, having.as_ref(), control, sink)?;
            }
        }
        Ok(work.statistics)
    }

    /// Roughly the nanoseconds that one thread needs for the plan: enough to tell what is done at once from
    /// what is worth a thread of its own.
    pub fn effort(&self, snapshot: &Snapshot) -> u64 {
        let of = |expr: &BoundExpr| if matches!(expr, BoundExpr::Slot(_)) { 1 } else { 20 };
        let filter = self.filter.as_ref().map_or(0, |pred| u64::from(pred.cost()).div_ceil(4));
        let rest = match &self.shape {
            Shape::Rows => 50 * self.outputs.len() as u64,
            Shape::Groups { keys, aggregates, .. } => {
                let arguments: u64 = aggregates.iter().filter_map(|a| a.argument.as_ref()).map(of).sum();
                let distinct = aggregates.iter().filter(|a| a.distinct).count() as u64;
                let grouped = if keys.is_empty() { 1 } else { 10 };
                arguments * grouped + 20 * (keys.len() as u64 + distinct)
            }
        };
        let mut sets = Vec::new();
        self.filter.iter().for_each(|pred| pred.sets(&mut sets));
        if !sets.is_empty() {
            // Sets that are not prepared prune slowly: as if they did not. Few bytes can stand for many ids.
            let prepared = sets.iter().map(|(set, _)| 10 * set.cardinality.min(set.bytes) + set.cardinality);
            return prepared.fold(snapshot.rows() * (filter + rest), u64::saturating_add);
        }
        let control = Control::default();
        let Ok(work) = Work::new(snapshot, self.filter.as_ref(), &control) else { return 0 };
        work.blocks.iter().map(|(block, _)| block.rows() as u64).sum::<u64>() * (filter + rest)
    }
}

/// The addresses of the rows that a filter selects.
///
/// # Errors
/// What is wrong with the filter, and the errors of [`Plan::run`].
pub fn select(
    table: &Table,
    snapshot: &Snapshot,
    filter: Option<&Filter>,
    control: &Control,
) -> Result<(Sip, Statistics)> {
    let (slots, pred) = Plan::filter(table, snapshot, filter)?;
    let _held = sets::prepare(pred.as_ref(), snapshot, control)?;
    let mut work = Work::new(snapshot, pred.as_ref(), control)?;
    let mut held = Held::new(control);
    let mut masks: Vec<(u64, Mask)> = Vec::new();
    work.run(
        &slots,
        1,
        false,
        |_, mask| Ok(mask),
        |block, mask| {
            let mask = match mask {
                Mask::Full if block.rows() < BLOCK_ROWS => filter::first(block.rows()),
                mask => mask,
            };
            if let Mask::Words(words) = &mask {
                held.set(held.bytes + size_of_val(&**words))?;
            }
            masks.push((block.fragment.address(block.start()), mask));
            Ok(true)
        },
    )?;
    let words = masks.iter().map(|(base, mask)| match mask {
        Mask::Empty => (*base, [].as_slice()),
        Mask::Full => (*base, FULL.as_slice()),
        Mask::Words(words) => (*base, words.as_slice()),
    });
    Ok((Sip::from_masks(words), work.statistics))
}

/// The words of a mask that selects all rows of a block.
static FULL: Words = [u64::MAX; BLOCK_WORDS];

const _: () = assert!(BLOCK_WORDS * 64 == BLOCK_ROWS);
