//! The thread-local block cache: the blocks that a thread decoded last. A reader of a block in pieces, or in turns with
//! another, so decodes it once; for a reader of block after block some are decoded ahead.

use std::{
    cell::RefCell,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use arrow_buffer::MutableBuffer;

/// Bytes of a thread's cache: those of the eight greatest blocks, of 64 KiB and a vector. A query reads its columns in
/// turns, batch by batch: where their blocks are more than this, each is decoded again for every batch.
const CACHE_BYTES: usize = 8 * (66 << 10);

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
struct Cached {
    id: Id,
    block: usize,
    words: MutableBuffer,
}

thread_local! {
    /// The last one used comes last.
    static CACHE: RefCell<Vec<Cached>> = const { RefCell::new(Vec::new()) };
}

/// What decodes blocks.
pub(super) trait Blocks {
    /// The words that a block is decoded to.
    fn words(&self, block: usize) -> usize;

    /// Decodes blocks from `first` on, each to its words.
    fn decode(&self, first: usize, out: &mut [&mut [u64]]);
}

/// Calls `work` with the words of a block. If they are not cached, `ahead` says how many blocks to decode from that one
/// on; its argument is whether the block before is cached.
pub(super) fn with_block<R>(
    (id, block): (Id, usize),
    blocks: &impl Blocks,
    ahead: impl FnOnce(bool) -> usize,
    work: impl FnOnce(&[u64]) -> R,
) -> R {
    let find =
        |cache: &[Cached], block| cache.iter().position(|cached| cached.id == id && cached.block == block);
    let found = CACHE.with_borrow_mut(|cache| match find(cache, block) {
        Some(at) => Ok(cache.remove(at)),
        None => {
            let follows = block.checked_sub(1).is_some_and(|before| find(cache, before).is_some());
            let ahead = block + ahead(follows);
            let end = (block + 1..ahead).find(|&block| find(cache, block).is_some()).unwrap_or(ahead);
            Err((block..end, make_room(cache, block..end, blocks)))
        }
    });
    // What is decoded, and `work`, may read other blocks.
    let cached = found.unwrap_or_else(|(range, unused)| {
        let mut fresh = decode(id, range, unused, blocks);
        let cached = fresh.remove(0);
        CACHE.with_borrow_mut(|cache| cache.append(&mut fresh));
        cached
    });
    let result = work(cached.words.typed_data());
    CACHE.with_borrow_mut(|cache| cache.push(cached));
    result
}

/// The same of a block that is cached; `work` reads no others. `None` where it is not.
pub(super) fn with_cached<R>((id, block): (Id, usize), work: impl FnOnce(&[u64]) -> R) -> Option<R> {
    CACHE.with_borrow(|cache| {
        let found = cache.iter().rev().find(|cached| cached.id == id && cached.block == block)?;
        Some(work(found.words.typed_data()))
    })
}

/// Takes out blocks that have not been used for long, in whose place there is room for others.
fn make_room(cache: &mut Vec<Cached>, range: Range<usize>, blocks: &impl Blocks) -> Vec<Cached> {
    let mut room = CACHE_BYTES.saturating_sub(range.map(|block| 8 * blocks.words(block)).sum());
    let cached = cache.iter().rev().take_while(|cached| {
        let fits = cached.words.len() <= room;
        room = room.saturating_sub(cached.words.len());
        fits
    });
    cache.drain(..cache.len() - cached.count()).collect()
}

/// Decodes blocks, to the buffers of unused ones where they have the size.
fn decode(id: Id, range: Range<usize>, mut unused: Vec<Cached>, blocks: &impl Blocks) -> Vec<Cached> {
    let fresh = range.clone().map(|block| {
        let bytes = 8 * blocks.words(block);
        let same = unused.pop_if(|cached| cached.words.len() == bytes);
        let words = same.map_or_else(|| MutableBuffer::from_len_zeroed(bytes), |cached| cached.words);
        Cached { id, block, words }
    });
    let mut fresh: Vec<Cached> = fresh.collect();
    let mut out: Vec<&mut [u64]> = fresh.iter_mut().map(|cached| cached.words.typed_data_mut()).collect();
    blocks.decode(range.start, &mut out);
    fresh
}
