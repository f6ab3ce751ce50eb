//! How blocks are packed, and how many bytes that takes.

use crate::{
    encoding::{
        bitpack,
        block_stats::BlockStats,
        bytes::{HEAD, align, bits},
    },
    limits::BLOCK_ROWS,
};

/// Bytes of a block's entry in the table.
const ENTRY: usize = 16;

/// How a block is packed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) width: u32,
    pub(super) exceptions: usize,
    pub(super) high_bytes: usize,
    rows: usize,
}

impl Plan {
    /// The smallest; of equal ones that with the fewest exceptions.
    pub(super) fn of(block: &BlockStats) -> Self {
        let longest = block.width();
        let mut plan = Self { width: longest, exceptions: 0, high_bytes: 0, rows: block.rows };
        let mut exceptions = 0;
        for width in (0..longest).rev() {
            exceptions += block.lengths[width as usize + 1] as usize;
            let high_bytes = (longest - width).div_ceil(8) as usize;
            let narrower = Self { width, exceptions, high_bytes, rows: block.rows };
            if narrower.bytes() < plan.bytes() {
                plan = narrower;
            }
        }
        plan
    }

    pub(super) fn words(&self) -> usize {
        bitpack::words(self.width, self.rows)
    }

    fn bytes(&self) -> usize {
        8 * self.words() + (2 + self.high_bytes) * self.exceptions
    }
}

/// Bytes of `rows` keys packed at one width, without exceptions.
pub(in crate::encoding) fn flat_bytes(span: u64, rows: usize) -> usize {
    table_bytes(rows.div_ceil(BLOCK_ROWS)) + 8 * bitpack::words(bits(span), rows)
}

/// Bytes of the whole column.
pub(in crate::encoding) fn bytes(blocks: &[BlockStats]) -> usize {
    table_bytes(blocks.len()) + blocks.iter().map(|block| Plan::of(block).bytes()).sum::<usize>()
}

/// Bytes before the words.
fn table_bytes(blocks: usize) -> usize {
    align(HEAD + ENTRY * blocks)
}
