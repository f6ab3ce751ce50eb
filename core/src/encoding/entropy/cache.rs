//! The blocks that a thread decoded last: what reads a block in pieces, or in turns with another, decodes it once. What
//! reads block after block has some decoded ahead.

use std::{
    cell::RefCell,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use arrow_buffer::MutableBuffer;

/// Bytes of blocks that a thread keeps: those of the four greatest, of 64 KiB and a vector.
const KEPT: usize = 4 * (66 << 10);

/// Names a column, as long as the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(u64);

impl Id {
    /// A new one.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A decoded block.
struct Kept {
    id: Id,
    block: usize,
    words: MutableBuffer,
}

thread_local! {
    /// The last one used comes last.
    static CACHE: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// What decodes blocks.
pub(super) trait Blocks {
    /// The words that a block is decoded to.
    fn words(&self, block: usize) -> usize;

    /// Decodes blocks from `first` on, each to its words.
    fn decode(&self, first: usize, out: &mut [&mut [u64]]);
}

/// Calls `work`, which may read no other block, with the words of a block. If they are not at hand, `ahead` is asked
/// how many blocks from that one on to decode; it is told whether the one before is at hand.
pub(super) fn with_block<R>(
    (id, block): (Id, usize),
    blocks: &impl Blocks,
    ahead: impl FnOnce(bool) -> usize,
    work: impl FnOnce(&[u64]) -> R,
) -> R {
    CACHE.with_borrow_mut(|cache| {
        let find = |cache: &[Kept], block| cache.iter().position(|kept| kept.id == id && kept.block == block);
        let at = find(cache, block).unwrap_or_else(|| {
            let follows = block.checked_sub(1).is_some_and(|before| find(cache, before).is_some());
            let ahead = block + ahead(follows);
            let end = (block..ahead).find(|&block| find(cache, block).is_some()).unwrap_or(ahead);
            decode(cache, id, block..end, blocks);
            cache.len() + block - end
        });
        let kept = cache.remove(at);
        let result = work(kept.words.typed_data());
        cache.push(kept);
        result
    })
}

/// Adds blocks, in the place of those that have not been used for long.
fn decode(cache: &mut Vec<Kept>, id: Id, range: Range<usize>, blocks: &impl Blocks) {
    let bytes = |block| 8 * blocks.words(block);
    let mut room = KEPT.saturating_sub(range.clone().map(bytes).sum());
    let kept = cache.iter().rev().take_while(|kept| {
        let fits = kept.words.len() <= room;
        room = room.saturating_sub(kept.words.len());
        fits
    });
    let mut unused: Vec<Kept> = cache.drain(..cache.len() - kept.count()).collect();
    let fresh = range.clone().map(|block| {
        let same = unused.pop_if(|kept| kept.words.len() == bytes(block));
        let words = same.map_or_else(|| MutableBuffer::from_len_zeroed(bytes(block)), |kept| kept.words);
        Kept { id, block, words }
    });
    let mut fresh: Vec<Kept> = fresh.collect();
    let mut out: Vec<&mut [u64]> = fresh.iter_mut().map(|kept| kept.words.typed_data_mut()).collect();
    blocks.decode(range.start, &mut out);
    cache.append(&mut fresh);
}
