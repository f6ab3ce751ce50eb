//! The scan of a query: blocks are pruned by statistics, filtered and processed in parallel; their results are merged
//! in order.

use rayon::prelude::*;

use super::{
    Statistics,
    conjuncts::Conjunct,
    control::{Control, Held},
    filter::{self, Verdict},
    profile::{Step, Watch},
    vector::{Batch, Pool, Rows},
};
use crate::{
    error::Result,
    fragment::Fragment,
    limits::{BATCH_ROWS, BLOCK_ROWS, WINDOW, WINDOW_BYTES, WINDOW_MEMORY_PART},
    mask::Mask,
    plan::{expr::Slots, pred::Pred},
    table::Snapshot,
};

/// A block is read row by row where at most this part of it is selected.
const FEW: usize = 8;

/// One block of one fragment, with the place of the fragment in the snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    pub(super) fragment: &'a Fragment,
    pub(super) at: usize,
    pub(super) block: usize,
    pub(super) control: &'a Control,
}

impl<'a> Block<'a> {
    /// Calls `each` with the batches of a mask that select rows; the scan may stop between them.
    pub(super) fn for_each_batch(
        self,
        mask: &Mask,
        mut each: impl FnMut(&Batch<'a, '_>) -> Result<()>,
    ) -> Result<()> {
        let (mut words, pool) = (Vec::new(), Pool::default());
        for start in (0..self.rows()).step_by(BATCH_ROWS) {
            let rows = (self.rows() - start).min(BATCH_ROWS);
            let selected = mask.slice(start, rows, &mut words);
            if selected > 0 {
                self.control.check()?;
                each(&Batch::new(self, Rows::From(start), rows, &words, selected == rows, &pool))?;
            }
        }
        Ok(())
    }

    /// The same, but few rows come in batches that have no others.
    pub(super) fn for_each_few(
        self,
        mask: &Mask,
        mut each: impl FnMut(&Batch<'a, '_>) -> Result<()>,
    ) -> Result<()> {
        let rows = mask.count(self.rows());
        let Mask::Words(words) = mask else { return self.for_each_batch(mask, each) };
        if rows == 0 || rows > self.rows() / FEW {
            return self.for_each_batch(mask, each);
        }
        let mut places = vec![0; rows + 64];
        basalt_kernels::mask::positions(words.as_slice(), &mut places);
        let (mut all, pool) = (vec![0; rows.min(BATCH_ROWS).div_ceil(64)], Pool::default());
        let mut rest = &places[..rows];
        while !rest.is_empty() {
            self.control.check()?;
            let places;
            (places, rest) = rest.split_at(whole_chunks(rest));
            let all = &mut all[..places.len().div_ceil(64)];
            basalt_kernels::mask::fill(places.len(), all);
            each(&Batch::new(self, Rows::At(places), places.len(), all, true, &pool))?;
        }
        Ok(())
    }

    pub(super) fn start(&self) -> usize {
        self.block * BLOCK_ROWS
    }

    pub(super) fn rows(&self) -> usize {
        self.fragment.block_rows(self.block)
    }

    /// The rows that are not deleted.
    pub(super) fn live(&self) -> &'a Mask {
        self.fragment.live(self.block)
    }
}

/// How many of some places make a batch: those of a chunk stay together, as sums of floats go chunk by chunk.
fn whole_chunks(places: &[u16]) -> usize {
    match places.get(BATCH_ROWS) {
        Some(next) => places[..BATCH_ROWS].partition_point(|place| place / 64 < next / 64),
        None => places.len(),
    }
}

/// A query's scan: the blocks that pruning left.
pub(super) struct Scan<'a, 'p> {
    /// The filter as each fragment sees it; none without a filter.
    pub(super) filters: Vec<Vec<Conjunct<'p>>>,
    /// Blocks that may hold rows, and whether all of their rows that are not deleted are known to be selected.
    pub(super) blocks: Vec<(Block<'a>, bool)>,
    pub(super) statistics: Statistics,
    /// The block whose own error ended the scan.
    pub(super) failed: Option<Block<'a>>,
    control: &'a Control,
    _held: Held<'a>,
}

impl<'a, 'p> Scan<'a, 'p> {
    /// Prunes by zone maps and counts.
    pub(super) fn new(
        snapshot: &'a Snapshot,
        filter: Option<&'p Pred>,
        control: &'a Control,
    ) -> Result<Self> {
        let watch = Watch::start(control);
        let mut statistics = Statistics::of(snapshot);
        let mut blocks = Vec::new();
        let mut filters = Vec::new();
        let mut held = Held::new(control);
        for fragment in snapshot.fragments() {
            control.check()?;
            if let Some(filter) = filter {
                let conjuncts = Conjunct::of(filter, fragment);
                let bytes = conjuncts.iter().map(|conjunct| filter::code_bytes(&conjunct.pred, fragment));
                held.set(held.bytes() + bytes.sum::<usize>())?;
                filters.push(conjuncts);
            }
        }
        for (at, fragment) in snapshot.fragments().iter().enumerate() {
            for block in 0..fragment.blocks() {
                if *fragment.live(block) == Mask::Empty {
                    statistics.blocks_pruned += 1;
                    continue;
                }
                let block = Block { fragment, at, block, control };
                match filters.get(at).map_or(Verdict::All, |conjuncts| filter::prune_all(conjuncts, block)) {
                    Verdict::None => statistics.blocks_pruned += 1,
                    Verdict::All => {
                        statistics.blocks_full += u64::from(filter.is_some());
                        blocks.push((block, true));
                    }
                    Verdict::Some => blocks.push((block, false)),
                }
            }
        }
        let left = blocks.iter().map(|(block, _)| block.rows() as u64).sum();
        watch.stop(Step::Prune, snapshot.rows(), left);
        Ok(Self { filters, blocks, statistics, failed: None, control, _held: held })
    }

    /// The selected rows of the block at a place.
    pub(super) fn mask(&self, at: usize, slots: &Slots) -> Result<(Block<'a>, Mask)> {
        let (block, all) = self.blocks[at];
        Ok((block, mask_of(&self.filters, block, all, slots)?))
    }

    /// Runs `each` on the masks of a fragment's blocks, fragments in parallel, and hands the results to `merge` in
    /// order. `bytes` is what a result may take.
    pub(super) fn run_fragments<T: Send>(
        &mut self,
        slots: &Slots,
        bytes: usize,
        each: impl Fn(&[(Block<'a>, Mask)], usize) -> Result<T> + Sync,
        mut merge: impl FnMut(Block<'a>, T) -> Result<()>,
    ) -> Result<()> {
        let (filters, control) = (self.filters.as_slice(), self.control);
        let one = |blocks: &&[(Block<'a>, bool)]| -> Result<(u64, Option<T>)> {
            let mut selected = 0;
            let mut masks = Vec::with_capacity(blocks.len());
            for (block, all) in *blocks {
                control.check()?;
                let mask = mask_of(filters, *block, *all, slots)?;
                let rows = mask.count(block.rows());
                selected += rows;
                if rows > 0 {
                    masks.push((*block, mask));
                }
            }
            if selected == 0 {
                return Ok((0, None));
            }
            let watch = Watch::start(control);
            let result = each(&masks, selected)?;
            watch.stop(Step::Block, selected as u64, selected as u64);
            Ok((selected as u64, Some(result)))
        };
        let waiting = WINDOW_BYTES.min(control.memory() / WINDOW_MEMORY_PART);
        let window = control.install(super::numbering::threads).min(waiting / bytes.max(1)).max(1);
        let fragments: Vec<_> = self.blocks.chunk_by(|(a, _), (b, _)| a.at == b.at).collect();
        for fragments in fragments.chunks(window) {
            let results: Vec<_> = control.install(|| match fragments {
                [blocks] => vec![one(blocks)],
                fragments => fragments.par_iter().map(one).collect(),
            });
            for (blocks, result) in fragments.iter().zip(results) {
                let (block, _) = blocks[0];
                let (selected, result) = result.inspect_err(|_| self.failed = Some(block))?;
                self.statistics.rows_selected += selected;
                let Some(result) = result else { continue };
                let watch = Watch::start(control);
                merge(block, result)?;
                watch.stop(Step::Merge, selected, selected);
            }
        }
        Ok(())
    }

    /// Runs `each` on the mask of every block in parallel, and hands the results to `merge` in order; `merge`
    /// says whether to go on. At most [`WINDOW`] results wait, and no more than about [`WINDOW_BYTES`] when one
    /// may take `row_bytes` for each row; fewer at first when the first blocks may be enough.
    pub(super) fn run<T: Send>(
        &mut self,
        slots: &Slots,
        row_bytes: usize,
        maybe_few: bool,
        each: impl Fn(Block<'a>, Mask) -> Result<T> + Sync,
        mut merge: impl FnMut(Block<'a>, T) -> Result<bool>,
    ) -> Result<()> {
        let filters = self.filters.as_slice();
        let one = |(block, all): &(Block<'a>, bool)| -> Result<(u64, Option<T>)> {
            self.control.check()?;
            let mask = mask_of(filters, *block, *all, slots)?;
            let selected = mask.count(block.rows()) as u64;
            if selected == 0 {
                return Ok((0, None));
            }
            let watch = Watch::start(self.control);
            let result = each(*block, mask)?;
            watch.stop(Step::Block, selected, selected);
            Ok((selected, Some(result)))
        };
        let waiting = WINDOW_BYTES.min(self.control.memory() / WINDOW_MEMORY_PART);
        let widest = (waiting / (BLOCK_ROWS * row_bytes.max(1))).clamp(1, WINDOW);
        let mut window = if maybe_few { 1 } else { widest };
        let mut rest = self.blocks.as_slice();
        while !rest.is_empty() {
            let blocks;
            (blocks, rest) = rest.split_at(window.min(rest.len()));
            window = (window * 2).min(widest);
            // Only a pool's own thread shares its work: where no pool was given the caller wants it done here.
            let results: Vec<_> = self.control.install(|| match blocks {
                [block] => vec![one(block)],
                blocks if rayon::current_thread_index().is_none() => blocks.iter().map(one).collect(),
                blocks => blocks.par_iter().map(one).collect(),
            });
            for ((block, _), result) in blocks.iter().zip(results) {
                let (selected, result) = result.inspect_err(|_| self.failed = Some(*block))?;
                self.statistics.rows_selected += selected;
                let Some(result) = result else { continue };
                let watch = Watch::start(self.control);
                let go_on = merge(*block, result)?;
                watch.stop(Step::Merge, selected, selected);
                if !go_on {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The selected rows of a block; `all`: those that are not deleted.
fn mask_of(filters: &[Vec<Conjunct<'_>>], block: Block<'_>, all: bool, slots: &Slots) -> Result<Mask> {
    match filters.get(block.at) {
        Some(conjuncts) if !all => filter::mask_of_all(conjuncts, slots, block),
        _ => Ok(block.live().clone()),
    }
}
