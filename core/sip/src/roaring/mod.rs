//! Tag 0x01: portable 64-bit roaring, run-optimised.
//!
//! D. Lemire et al., "Roaring Bitmaps: Implementation of an Optimized Software Library" (2018), and the
//! RoaringFormatSpec of the RoaringBitmap project with its extension to 64 bits.

mod bitmap;
mod container;
mod encode;
mod parse;
mod write;

use bitmap::{Bitmap, first_block};
pub(crate) use container::{BITSET_BYTES, BUCKET_BLOCKS, Container, MAX_ARRAY, MAX_RUNS};
pub(crate) use encode::{
    encode_array, encode_contents, encode_full, encode_ids, encode_measured, encode_runs, encode_words,
    measure,
};
pub(crate) use parse::{read_foreign, validate};
pub(crate) use write::{size, write, write_with};

use crate::{BLOCK_IDS, blocks::Block, reader::Reader};

/// Cookie of a 32-bit bitmap without run containers; the number of containers follows.
const COOKIE: u32 = 12_346;
/// Low half of the cookie of one with run containers; the high half is the number of containers less one.
const COOKIE_WITH_RUNS: u16 = 12_347;
/// With run containers, offsets are written from so many containers on.
const MIN_CONTAINERS_FOR_OFFSETS: usize = 4;
/// Containers of a full 32-bit bitmap.
const MAX_CONTAINERS: usize = 1 << 16;
/// The first byte behind the tag and the number of buckets.
const FIRST_BUCKET: usize = 9;

/// Where a bucket stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    key: u32,
    /// The first byte of its bitmap.
    at: usize,
}

/// A validated body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roaring<'a> {
    pub(crate) cardinality: u64,
    /// The bytes of the SIP, tag first.
    pub(crate) bytes: &'a [u8],
    /// The place of each bucket; none of a set that is read without an index.
    pub(crate) index: &'a [Bucket],
    /// The number of ids before each [`COUNT_STEP`]th bucket of the index.
    pub(crate) counts: &'a [u64],
}

/// Buckets between two that know the number of ids before them.
const COUNT_STEP: usize = 16;

/// The number of ids before each [`COUNT_STEP`]th bucket of a validated body.
pub(crate) fn count(bytes: &[u8], index: &[Bucket]) -> Box<[u64]> {
    let mut ids = 0;
    let step = |buckets: &[Bucket]| {
        let before = ids;
        for bucket in buckets {
            let bitmap = Bitmap::read(&mut Reader::new(bytes, bucket.at));
            ids += bitmap.map_or(0, |bitmap| bitmap.cardinality(bitmap.len()));
        }
        before
    };
    index.chunks(COUNT_STEP).map(step).collect()
}

impl<'a> Roaring<'a> {
    /// All containers.
    pub(crate) fn containers(&self) -> Containers<'a> {
        Containers { bytes: self.bytes, reader: Reader::new(self.bytes, FIRST_BUCKET), bucket: None }
    }

    /// The containers from the first one on whose block is `block` or behind it.
    pub(crate) fn containers_from(&self, block: u64) -> Containers<'a> {
        let bucket = self.index.partition_point(|bucket| u64::from(bucket.key) < block / BUCKET_BLOCKS);
        let at = match (self.index.get(bucket), self.index.is_empty()) {
            (Some(bucket), _) => bucket.at - 4,
            (None, true) => FIRST_BUCKET,
            (None, false) => self.bytes.len(),
        };
        let mut containers = Containers { reader: Reader::new(self.bytes, at), ..self.containers() };
        containers.skip_to(block);
        containers
    }

    /// The number of ids before a block.
    pub(crate) fn ids_before(&self, block: u64) -> u64 {
        let bucket = self.index.partition_point(|bucket| u64::from(bucket.key) < block / BUCKET_BLOCKS);
        let counted = (bucket / COUNT_STEP).min(self.counts.len().saturating_sub(1));
        let (mut ids, at) = match (self.counts.get(counted), self.index.get(counted * COUNT_STEP)) {
            (Some(ids), Some(bucket)) => (*ids, bucket.at - 4),
            _ => (0, FIRST_BUCKET),
        };
        let mut reader = Reader::new(self.bytes, at);
        while let Some((key, bitmap)) = next_bucket(&mut reader) {
            let first = first_block(key);
            if first > block {
                break;
            }
            ids += bitmap.cardinality(bitmap.find(block - first));
            reader = Reader::new(self.bytes, bitmap.place(bitmap.len(), self.bytes));
        }
        ids
    }

    /// The container of a block.
    pub(crate) fn container(&self, block: u64) -> Option<Container> {
        self.containers_from(block).next().filter(|container| container.block() == block)
    }

    /// The last container.
    pub(crate) fn last(&self) -> Option<Container> {
        let mut reader = match self.index.last() {
            Some(bucket) => Reader::new(self.bytes, bucket.at - 4),
            None => Reader::new(self.bytes, FIRST_BUCKET),
        };
        let mut last = None;
        while let Some((key, bitmap)) = next_bucket(&mut reader) {
            let i = bitmap.len() - 1;
            let container =
                bitmap.container(i, bitmap.place(i, self.bytes), first_block(key), self.bytes).ok()?;
            reader = Reader::new(self.bytes, container.at() + container.size());
            last = Some(container);
        }
        last
    }
}

/// Reads the key and the header of the bucket that comes next.
fn next_bucket<'a>(reader: &mut Reader<'a>) -> Option<(u32, Bitmap<'a>)> {
    let key = u32::from_le_bytes(reader.array().ok()?);
    Some((key, Bitmap::read(reader).ok()?))
}

/// The containers of a validated body, one by one.
#[derive(Clone, Debug)]
pub(crate) struct Containers<'a> {
    bytes: &'a [u8],
    /// Stands at the next bucket while none is open.
    reader: Reader<'a>,
    bucket: Option<Open<'a>>,
}

/// A bucket in the middle of its containers.
#[derive(Clone, Copy, Debug)]
struct Open<'a> {
    bitmap: Bitmap<'a>,
    first_block: u64,
    next: usize,
    /// Where the next container stands.
    at: usize,
}

impl<'a> Containers<'a> {
    /// Leaves out the containers of all blocks before `block`.
    pub(crate) fn skip_to(&mut self, block: u64) {
        while let Some(open) = self.open() {
            if block < open.first_block {
                return;
            }
            let i = open.bitmap.find(block - open.first_block).max(open.next);
            if i < open.bitmap.len() {
                if i > open.next {
                    self.bucket = Some(Open { next: i, at: open.bitmap.place(i, self.bytes), ..open });
                }
                return;
            }
            self.reader = Reader::new(self.bytes, open.bitmap.place(i, self.bytes));
            self.bucket = None;
        }
    }

    /// The bucket that holds the next container.
    fn open(&mut self) -> Option<Open<'a>> {
        if let Some(open) = self.bucket {
            if open.next < open.bitmap.len() {
                return Some(open);
            }
            self.reader = Reader::new(self.bytes, open.at);
        }
        let (key, bitmap) = next_bucket(&mut self.reader)?;
        self.bucket = Some(Open { first_block: first_block(key), next: 0, at: bitmap.end(), bitmap });
        self.bucket
    }
}

impl<'a> Containers<'a> {
    /// The next container as a block.
    pub(crate) fn next_block(&mut self) -> Option<Block<'a>> {
        let container = self.next()?;
        let contents = container.contents(self.bytes);
        Some(Block { key: container.block(), cardinality: container.cardinality(), contents })
    }
}

impl Iterator for Containers<'_> {
    type Item = Container;

    fn next(&mut self) -> Option<Container> {
        let open = self.open()?;
        let container = open.bitmap.container(open.next, open.at, open.first_block, self.bytes).ok()?;
        self.bucket = Some(Open { next: open.next + 1, at: open.at + container.size(), ..open });
        Some(container)
    }
}

/// The place of an id in its block.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the low 16 bits are what is asked for")]
pub(crate) fn low(id: u64) -> u16 {
    id as u16
}

const _: () = assert!(BLOCK_IDS == 1 << 16);
