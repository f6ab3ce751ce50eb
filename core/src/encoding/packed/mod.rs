//! Patched frame of reference (Zukowski et al., ICDE 2006): in each block of 65,536 rows, keys as differences
//! to the block's least, bit-packed at the width that makes the block smallest; the few differences that are
//! longer have their high bits stored aside.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head |
//! | 8.. | for each block 16 bytes: base i64, exceptions u32, width u8, bytes of an exception's high bits u8, 0 u16 |
//! | align 64 | the packed words of each block (`basalt_kernels::packed`), u64 |
//! | ... | the row in its block of each exception, ascending, u16 |
//! | ... | the high bits of each exception, little-endian, not 0 |

mod column;
mod plan;

use std::sync::Arc;

use arrow_buffer::Buffer;

use self::plan::Plan;
pub(super) use self::plan::{bytes, flat_bytes};
use super::{
    Costs, Encodings, KeyColumn, KeyEncoding, SizeEstimate, bitpack,
    bytes::{Head, Writer, count},
    stats::KeyStats,
};
use crate::{error::Result, limits::BLOCK_ROWS};

/// The encoding.
pub(super) struct Packed;

impl KeyEncoding for Packed {
    fn code(&self) -> u8 {
        3
    }

    fn name(&self) -> &'static str {
        column::NAME
    }

    fn estimate(&self, stats: &KeyStats, _: &Encodings) -> Option<SizeEstimate> {
        Some(SizeEstimate::exact(self.name(), bytes(&stats.blocks)))
    }

    fn expected_costs(&self, stats: &KeyStats, _: &Encodings) -> Option<Costs> {
        let plans = || stats.blocks.iter().map(Plan::of);
        let (words, exceptions) = plans()
            .fold((0, 0), |(words, exceptions), plan| (words + plan.words(), exceptions + plan.exceptions));
        // Default: without blocks there is nothing to read.
        let widest = plans().map(|plan| plan.width).max().unwrap_or(0);
        Some(column::costs(words, exceptions, widest, stats.rows))
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats, _: &Encodings) -> Result<Buffer> {
        let plans: Vec<Plan> = stats.blocks.iter().map(Plan::of).collect();
        let head = Head::keys(self.code(), stats.native, [0; 2], keys.len());
        let mut writer = Writer::new(head, bytes(&stats.blocks));
        for (plan, block) in plans.iter().zip(&stats.blocks) {
            writer.put(block.min);
            writer.put(count(plan.exceptions));
            // At most 64 and 8.
            writer.slice(&[plan.width.to_le_bytes()[0], plan.high_bytes.to_le_bytes()[0], 0, 0]);
        }
        writer.align(super::bytes::ALIGNMENT);
        let (mut positions, mut highs) = (Vec::<u16>::new(), Vec::new());
        for ((plan, block), keys) in plans.iter().zip(&stats.blocks).zip(keys.chunks(BLOCK_ROWS)) {
            if plan.exceptions > 0 {
                let low = (1 << plan.width) - 1;
                let code = |key: &i64| key.wrapping_sub(block.min).cast_unsigned();
                for (position, code) in
                    (0..=u16::MAX).zip(keys.iter().map(code)).filter(|(_, code)| *code > low)
                {
                    positions.push(position);
                    highs.extend_from_slice(&(code >> plan.width).to_le_bytes()[..plan.high_bytes]);
                }
            }
            bitpack::pack_keys(plan.width, block.min, keys, writer.zeros(plan.words()));
        }
        writer.slice(&positions);
        writer.slice(&highs);
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer, _: &Encodings) -> Result<Arc<dyn KeyColumn>> {
        Ok(Arc::new(column::Column::open(buffer)?))
    }
}
