//! The blocks that a thread decoded last: what reads a block in pieces, or in turns with another, decodes it once. What
//! reads block after block has some decoded ahead.

use std::{
    cell::RefCell,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use arrow_buffer::MutableBuffer;

/// Bytes of blocks that a thread keeps: those of the eight greatest, of 64 KiB and a vector. A query reads its columns in
/// turns, batch by batch: where their blocks are more than this, each is decoded again for every batch.
const KEPT: usize = 8 * (66 << 10);

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

/// Calls `work` with the words of a block. If they are not at hand, `ahead` is asked how many blocks from that one on to
/// decode; it is told whether the one before is at hand.
pub(super) fn with_block<R>(
    (id, block): (Id, usize),
    blocks: &impl Blocks,
    ahead: impl FnOnce(bool) -> usize,
    work: impl FnOnce(&[u64]) -> R,
) -> R {
    let find = |cache: &[Kept], block| cache.iter().position(|kept| kept.id == id && kept.block == block);
    let at_hand = CACHE.with_borrow_mut(|cache| match find(cache, block) {
        Some(at) => Ok(cache.remove(at)),
        None => {
            let follows = block.checked_sub(1).is_some_and(|before| find(cache, before).is_some());
            let ahead = block + ahead(follows);
            let end = (block + 1..ahead).find(|&block| find(cache, block).is_some()).unwrap_or(ahead);
            Err((block..end, make_room(cache, block..end, blocks)))
        }
    });
    // What is decoded, and `work`, may read other blocks.
    let kept = at_hand.unwrap_or_else(|(range, unused)| {
        let mut fresh = decode(id, range, unused, blocks);
        let kept = fresh.remove(0);
        CACHE.with_borrow_mut(|cache| cache.append(&mut fresh));
        kept
    });
    let result = work(kept.words.typed_data());
    CACHE.with_borrow_mut(|cache| cache.push(kept));
    result
}

/// Takes out blocks that have not been used for long, in whose place there is room for others.
fn make_room(cache: &mut Vec<Kept>, range: Range<usize>, blocks: &impl Blocks) -> Vec<Kept> {
    let mut room = KEPT.saturating_sub(range.map(|block| 8 * blocks.words(block)).sum());
    let kept = cache.iter().rev().take_while(|kept| {
        let fits = kept.words.len() <= room;
        room = room.saturating_sub(kept.words.len());
        fits
    });
    cache.drain(..cache.len() - kept.count()).collect()
}

/// Decodes blocks, to the buffers of unused ones where they have the size.
fn decode(id: Id, range: Range<usize>, mut unused: Vec<Kept>, blocks: &impl Blocks) -> Vec<Kept> {
    let fresh = range.clone().map(|block| {
        let bytes = 8 * blocks.words(block);
        let same = unused.pop_if(|kept| kept.words.len() == bytes);
        let words = same.map_or_else(|| MutableBuffer::from_len_zeroed(bytes), |kept| kept.words);
        Kept { id, block, words }
    });
    let mut fresh: Vec<Kept> = fresh.collect();
    let mut out: Vec<&mut [u64]> = fresh.iter_mut().map(|kept| kept.words.typed_data_mut()).collect();
    blocks.decode(range.start, &mut out);
    fresh
}
