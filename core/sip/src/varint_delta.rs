//! Tag 0x02: count, first id, then the difference of each id to the one before it, all LEB128.

use crate::{BLOCK_IDS, BLOCK_WORDS, BlockMask, Limits, SipError, mask, reader::Reader, varint};

/// Ids between two entries of the index.
const STEP: usize = 128;

/// Where every [`STEP`]th id stands.
#[derive(Debug)]
pub(crate) struct Index {
    entries: Box<[Entry]>,
    cardinality: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: u64,
    /// The place of the difference that follows the id.
    next: usize,
}

impl Index {
    /// Validates `bytes` (the tag first) and indexes them. The limit on the body is the caller's.
    pub(crate) fn open(bytes: &[u8], limits: &Limits) -> Result<Self, SipError> {
        let mut reader = Reader::new(bytes, 1);
        let cardinality = varint::read(&mut reader)?;
        if cardinality == 0 {
            return Err(SipError::Empty { at: 1 });
        }
        Limits::check(1, "cardinality", cardinality, limits.cardinality)?;
        Limits::check(1, "decoded_bytes", cardinality.saturating_mul(8), limits.decoded_bytes)?;
        let count = usize::try_from(cardinality).unwrap_or(usize::MAX);
        if count > reader.left() {
            return Err(SipError::Truncated { at: reader.at(), need: count });
        }
        let mut entries = Vec::with_capacity(count.div_ceil(STEP));
        let mut id = 0_u64;
        for i in 0..count {
            let at = reader.at();
            let delta = varint::read(&mut reader)?;
            if delta == 0 && i > 0 {
                return Err(SipError::Order { at, what: "id" });
            }
            id = id.checked_add(delta).ok_or(SipError::Overflow { at })?;
            if i % STEP == 0 {
                entries.push(Entry { id, next: reader.at() });
            }
        }
        reader.end()?;
        Ok(Self { entries: entries.into(), cardinality })
    }

    pub(crate) fn cardinality(&self) -> u64 {
        self.cardinality
    }

    pub(crate) fn contains(&self, bytes: &[u8], id: u64) -> bool {
        self.ids_near(bytes, id).find(|&x| x >= id) == Some(id)
    }

    pub(crate) fn block_mask(&self, bytes: &[u8], base: u64, words: &mut [u64; BLOCK_WORDS]) -> BlockMask {
        let mut ids = self.ids_near(bytes, base).skip_while(|&id| id < base).map(|id| id - base);
        let mut next = ids.next().filter(|&offset| offset < BLOCK_IDS);
        if next.is_none() {
            return BlockMask::Empty;
        }
        words.fill(0);
        let mut count = 0;
        while let Some(offset) = next {
            mask::set(words, offset);
            count += 1;
            next = ids.next().filter(|&offset| offset < BLOCK_IDS);
        }
        if count == BLOCK_IDS { BlockMask::Full } else { BlockMask::Words }
    }

    pub(crate) fn ids<'a>(&self, bytes: &'a [u8]) -> Ids<'a> {
        self.ids_near(bytes, 0)
    }

    /// All ids but some of those below `id`.
    fn ids_near<'a>(&self, bytes: &'a [u8], id: u64) -> Ids<'a> {
        let i = self.entries.partition_point(|entry| entry.id <= id).saturating_sub(1);
        match self.entries.get(i) {
            Some(entry) => Ids { next: Some(entry.id), reader: Reader::new(bytes, entry.next) },
            None => Ids { next: None, reader: Reader::new(bytes, bytes.len()) },
        }
    }
}

/// The ids of a validated body from some place on.
#[derive(Clone, Debug)]
pub(crate) struct Ids<'a> {
    next: Option<u64>,
    reader: Reader<'a>,
}

impl Iterator for Ids<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let id = self.next?;
        // The body was validated: the only thing that can fail is the end.
        self.next = varint::read(&mut self.reader).ok().map(|delta| id.wrapping_add(delta));
        Some(id)
    }
}

/// Appends the body of `cardinality` strictly increasing ids, and indexes it.
pub(crate) fn write(cardinality: u64, ids: impl Iterator<Item = u64>, out: &mut Vec<u8>) -> Index {
    varint::write(cardinality, out);
    let mut entries = Vec::new();
    let mut last = 0;
    for (i, id) in ids.enumerate() {
        varint::write(id - last, out);
        if i % STEP == 0 {
            entries.push(Entry { id, next: out.len() });
        }
        last = id;
    }
    Index { entries: entries.into(), cardinality }
}

/// Bytes that a body of containers (block and cardinality, in order) needs at most.
///
/// Differences inside a container sum to less than 65,536, so at most 511 of them take a second byte and at
/// most 3 a third one; the first id of a container is bounded by the distance of its block.
pub(crate) fn size_bound(cardinality: u64, containers: impl Iterator<Item = (u64, u64)>) -> usize {
    let mut size = varint::len(cardinality);
    let mut last = 0;
    for (block, ids) in containers {
        let gaps = usize::try_from(ids - 1).unwrap_or(usize::MAX);
        let first = (block - last).saturating_add(1).saturating_mul(BLOCK_IDS);
        size = size.saturating_add(varint::len(first) + gaps + gaps.min(511) + gaps.min(3));
        last = block;
    }
    size
}
