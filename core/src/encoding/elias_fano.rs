//! A common key, and the rows of the others in the code of Elias (1974) and Fano (1971): a little larger than
//! [`sparse`](super::sparse), but a row is found without reading those before it.
//!
//! The layout is that of `sparse`. In an interval of rows the unary numbers are the steps from one row's high part to
//! the next, and zeros follow up to the number of high parts that there are: the rows of a high part stand
//! behind as many zeros.

use std::sync::Arc;

use arrow_buffer::Buffer;
use basalt_kernels::gaps::Highs;

use super::{
    Encodings, KeyColumn, KeyEncoding, SizeEstimate,
    bytes::corrupt,
    sparse::{self, Layout, Others},
    stats::KeyStats,
};
use crate::error::Result;

/// The encoding.
pub(super) struct EliasFano;

impl KeyEncoding for EliasFano {
    fn code(&self) -> u8 {
        11
    }

    fn name(&self) -> &'static str {
        "elias_fano"
    }

    fn level(&self) -> u8 {
        2
    }

    fn least_cost(&self) -> u64 {
        35
    }

    fn estimate(&self, stats: &KeyStats, inner: &Encodings) -> Option<SizeEstimate> {
        let common = stats.common.as_ref()?;
        let estimate = sparse::estimate(self, &common.layout.as_elias_fano(stats.rows), stats, inner)?;
        // The deviations of other intervals may be a bit shorter.
        Some(SizeEstimate::inexact(self.name(), estimate.bytes, 20))
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats, inner: &Encodings) -> Result<Buffer> {
        let common = stats.common.ok_or_else(|| corrupt("no key is common"))?;
        let others = Others::new(keys, common.key);
        sparse::encode(self, &Layout::elias_fano(&others), common.key, &others, keys, stats.native, inner)
    }

    fn open(&self, buffer: Buffer, inner: &Encodings) -> Result<Arc<dyn KeyColumn>> {
        sparse::open(self, Highs::Steps, buffer, inner)
    }
}
