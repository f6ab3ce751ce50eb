//! The jump index: which chunk holds a row.
//!
//! The end row of each chunk is held as a u16 relative to its group of 2^shift chunks (level 2), the end row of
//! each group but the last as a u32 (level 1).

use arrow_buffer::ScalarBuffer;

use crate::{
    encoding::bytes::{Reader, Writer, corrupt, count, ensure},
    error::Result,
};

/// The index of an opened column.
#[derive(Debug)]
pub(super) struct JumpIndex {
    shift: u8,
    level1: ScalarBuffer<u32>,
    level2: ScalarBuffer<u16>,
}

/// Chunks of a group, as a power of two: as many as keep the rows of any group within 16 bits.
pub(super) fn shift(max_chunk_rows: u16) -> u8 {
    (u16::MAX / max_chunk_rows.max(1)).max(1).ilog2().to_le_bytes()[0]
}

/// Bytes of the index.
pub(super) fn bytes(chunks: usize, shift: u8) -> usize {
    4 * level1_len(chunks, shift) + 2 * chunks
}

fn level1_len(chunks: usize, shift: u8) -> usize {
    chunks.div_ceil(1 << shift).saturating_sub(1)
}

/// Writes the index of chunks with these rows.
pub(super) fn write(writer: &mut Writer, chunk_rows: &[u16], shift: u8) {
    let group = 1 << shift;
    let mut end = 0;
    for rows in chunk_rows.chunks(group).take(level1_len(chunk_rows.len(), shift)) {
        end += rows.iter().map(|&n| usize::from(n)).sum::<usize>();
        writer.put(count(end));
    }
    for rows in chunk_rows.chunks(group) {
        let mut end = 0;
        for n in rows {
            end += n;
            writer.put(end);
        }
    }
}

impl JumpIndex {
    /// Reads the index of `chunks` chunks. Every chunk has a row, and together they have `rows`.
    pub(super) fn read(reader: &mut Reader, chunks: usize, shift: u8, rows: usize) -> Result<Self> {
        ensure(shift < 16, "the groups of the index are too large")?;
        let level1 = reader.section(level1_len(chunks, shift))?;
        let level2: ScalarBuffer<u16> = reader.section(chunks)?;
        let mut end = 0u32;
        for (i, ends) in level2.chunks(1 << shift).enumerate() {
            let ascending = ends[0] > 0 && ends.is_sorted_by(|a, b| a < b);
            let next = end.checked_add(ends[ends.len() - 1].into());
            end = next.ok_or_else(|| corrupt("the chunks hold too many rows"))?;
            let agrees = level1.get(i).is_none_or(|&level1| level1 == end);
            ensure(ascending && agrees, "the ends of the chunks are not in order")?;
        }
        ensure(end as usize == rows, "the chunks do not hold the rows")?;
        Ok(Self { shift, level1, level2 })
    }

    fn group_start(&self, group: usize) -> usize {
        if group == 0 { 0 } else { self.level1[group - 1] as usize }
    }

    /// The row behind the chunk's last.
    pub(super) fn end(&self, chunk: usize) -> usize {
        self.group_start(chunk >> self.shift) + usize::from(self.level2[chunk])
    }

    /// The chunk's first row.
    pub(super) fn start(&self, chunk: usize) -> usize {
        if chunk == 0 { 0 } else { self.end(chunk - 1) }
    }

    /// The chunk that holds `row`.
    pub(super) fn find(&self, row: usize) -> usize {
        let group = self.level1.partition_point(|&end| end as usize <= row);
        let first = group << self.shift;
        let ends = &self.level2[first..self.level2.len().min(first + (1 << self.shift))];
        let start = self.group_start(group);
        first + ends.partition_point(|&end| start + usize::from(end) <= row)
    }
}
