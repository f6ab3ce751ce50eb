//! One key for all rows.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head |
//! | 8..16 | the key, i64 |

use std::sync::Arc;

use arrow_buffer::Buffer;

use super::{
    Costs, Encodings, KeyColumn, KeyEncoding, KeyTest, SizeEstimate,
    bytes::{HEAD, Head, Reader, Writer},
    mask,
    stats::KeyStats,
};
use crate::error::Result;

/// The encoding.
pub(super) struct Constant;

const BYTES: usize = HEAD + 8;
const COSTS: Costs = Costs { filter: 0, look_up: 0, get: 0 };

impl KeyEncoding for Constant {
    fn code(&self) -> u8 {
        1
    }

    fn name(&self) -> &'static str {
        "constant"
    }

    fn estimate(&self, stats: &KeyStats, _: &Encodings) -> Option<SizeEstimate> {
        (stats.min == stats.max).then(|| SizeEstimate::exact(self.name(), BYTES))
    }

    fn expected_costs(&self, _: &KeyStats, _: &Encodings) -> Option<Costs> {
        Some(COSTS)
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats, _: &Encodings) -> Result<Buffer> {
        let mut writer = Writer::new(Head::keys(self.code(), stats.native, [0; 2], keys.len()), BYTES);
        writer.put(stats.min);
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer, _: &Encodings) -> Result<Arc<dyn KeyColumn>> {
        let (head, _, mut reader) = Reader::keys(buffer.clone())?;
        let key = reader.i64()?;
        reader.finish()?;
        Ok(Arc::new(Column { buffer, rows: head.rows, key }))
    }
}

#[derive(Debug)]
struct Column {
    buffer: Buffer,
    rows: usize,
    key: i64,
}

impl KeyColumn for Column {
    fn rows(&self) -> usize {
        self.rows
    }

    fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    fn name(&self) -> String {
        Constant.name().to_owned()
    }

    fn decode(&self, _start: usize, out: &mut [i64]) {
        out.fill(self.key);
    }

    fn get(&self, _row: usize) -> i64 {
        self.key
    }

    fn gather(&self, _start: usize, _places: &[u16], out: &mut [i64]) {
        out.fill(self.key);
    }

    fn filter(&self, _start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        mask::set_all(out, rows, test.passes(self.key));
    }

    fn sum(&self, _start: usize, rows: usize, mask: Option<&[u64]>) -> i128 {
        i128::from(self.key) * mask.map_or(rows, mask::count_ones) as i128
    }

    fn min_max(&self, _start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        (mask.map_or(rows, mask::count_ones) > 0).then_some((self.key, self.key))
    }

    fn costs(&self) -> Costs {
        COSTS
    }
}
