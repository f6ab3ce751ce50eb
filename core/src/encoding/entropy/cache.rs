//! The blocks that a thread decoded last: what reads a block in pieces, or in turns with another, decodes it once.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicU64, Ordering},
};

use arrow_buffer::MutableBuffer;

/// Blocks that a thread keeps, of at most 64 KiB each.
const KEPT: usize = 4;

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

/// Calls `work` with the words of a block, `count` of them, which `decode` writes if they are not at hand. Neither
/// may read another block.
pub(super) fn with_block<R>(
    (id, block): (Id, usize),
    count: usize,
    decode: impl FnOnce(&mut [u64]),
    work: impl FnOnce(&[u64]) -> R,
) -> R {
    CACHE.with_borrow_mut(|cache| {
        let found = cache.iter().position(|kept| kept.id == id && kept.block == block);
        let kept = match found {
            Some(i) => cache.remove(i),
            None => {
                let unused = (cache.len() == KEPT).then(|| cache.remove(0).words);
                let mut words = unused.unwrap_or_default();
                words.resize(8 * count, 0);
                decode(words.typed_data_mut());
                Kept { id, block, words }
            }
        };
        let result = work(kept.words.typed_data());
        cache.push(kept);
        result
    })
}
