//! Tags 0x02 and 0x04: increasing ids in groups of 128, each written as its distance from the one before.

mod codec;
mod write;

pub(crate) use codec::{Codec, to_gaps};
pub(crate) use write::Writer;

use crate::{
    Limits, SipError,
    index::{All, Entries},
    reader::Reader,
    rice::GROUP,
    varint,
};

/// Where a group begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The id before it; 0 before the first group.
    before: u64,
    at: usize,
}

/// A validated body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<'a> {
    pub(crate) codec: Codec,
    pub(crate) cardinality: u64,
    /// The bytes of the SIP, tag first.
    pub(crate) bytes: &'a [u8],
    /// The place of each group and of the end; none of a set that is read without an index.
    pub(crate) index: &'a [Entry],
    /// All ids of a small set that has an index, once they were asked for.
    pub(crate) all: Option<&'a All<u64>>,
}

/// Ids of a set that are kept for look-ups, at most: 32 KiB.
const SMALL: u64 = 4096;

/// Bytes of the ids that are kept of a set with an index.
pub(crate) fn kept_bytes(cardinality: u64) -> usize {
    usize::try_from(cardinality).ok().filter(|_| cardinality <= SMALL).map_or(0, |ids| ids * size_of::<u64>())
}

/// Validates `bytes` (the tag first) and counts the ids; `index` sees where each group begins. The limit on
/// the body is the caller's.
pub(crate) fn validate(
    codec: Codec,
    bytes: &[u8],
    limits: &Limits,
    index: &mut impl Entries<Entry>,
) -> Result<u64, SipError> {
    let mut reader = Reader::new(bytes, 1);
    let cardinality = varint::read(&mut reader)?;
    if cardinality == 0 {
        return Err(SipError::Empty { at: 1 });
    }
    Limits::check(1, "cardinality", cardinality, limits.cardinality)?;
    Limits::check(1, "decoded_bytes", cardinality.saturating_mul(8), limits.decoded_bytes)?;
    let least = codec.least_bytes(cardinality);
    if least > reader.left() {
        return Err(SipError::Truncated { at: reader.at(), need: least });
    }
    index.expect(usize::try_from(cardinality.div_ceil(GROUP as u64) + 1).unwrap_or(usize::MAX));
    let mut groups = Groups { codec, reader, left: cardinality, last: None, ids: [0; GROUP], len: 0 };
    while groups.left > 0 {
        index.push(Entry { before: groups.last.unwrap_or(0), at: groups.reader.at() });
        groups.read(true)?;
    }
    index.push(Entry { before: groups.last.unwrap_or(0), at: groups.reader.at() });
    groups.reader.end()?;
    Ok(cardinality)
}

impl<'a> List<'a> {
    /// The groups from one on that holds the first id at or behind `id`, and the number of ids before it.
    pub(crate) fn groups_from(&self, id: u64) -> (Groups<'a>, u64) {
        let group = self.index.partition_point(|entry| entry.before < id).saturating_sub(1);
        let mut reader = Reader::new(self.bytes, 1);
        // The body was validated: the count is there.
        let _ = varint::read(&mut reader);
        let mut last = None;
        if let Some(entry) = self.index.get(group).filter(|_| group > 0) {
            reader = Reader::new(self.bytes, entry.at);
            last = Some(entry.before);
        }
        let skipped = ((group * GROUP) as u64).min(self.cardinality);
        let left = self.cardinality - skipped;
        (Groups { codec: self.codec, reader, left, last, ids: [0; GROUP], len: 0 }, skipped)
    }

    /// All groups.
    pub(crate) fn groups(&self) -> Groups<'a> {
        self.groups_from(0).0
    }

    /// All ids, of a small set.
    fn all(&self) -> Option<&'a [u64]> {
        let all = self.all.filter(|_| self.cardinality <= SMALL)?;
        Some(all.get_or_init(|| {
            let mut ids = Vec::with_capacity(usize::try_from(self.cardinality).unwrap_or(0));
            let mut groups = self.groups();
            while let Some(group) = groups.next() {
                ids.extend_from_slice(group);
            }
            ids.into()
        }))
    }

    /// The first id at or behind `id`, if there is one, and the number of ids before it.
    pub(crate) fn find(&self, id: u64) -> (Option<u64>, u64) {
        if let Some(ids) = self.all() {
            let at = ids.partition_point(|x| *x < id);
            return (ids.get(at).copied(), at as u64);
        }
        let (mut groups, mut before) = self.groups_from(id);
        while let Some(ids) = groups.next() {
            if ids.last().is_some_and(|last| *last >= id) {
                let at = ids.partition_point(|x| *x < id);
                return (ids.get(at).copied(), before + at as u64);
            }
            before += ids.len() as u64;
        }
        (None, before)
    }

    /// The greatest id.
    pub(crate) fn last(&self) -> Option<u64> {
        if let Some(end) = self.index.last() {
            return Some(end.before);
        }
        let mut groups = self.groups();
        while groups.next().is_some() {}
        groups.last
    }
}

/// The groups of a body, read one by one.
#[derive(Clone, Debug)]
pub(crate) struct Groups<'a> {
    codec: Codec,
    reader: Reader<'a>,
    /// Ids that were not read yet.
    left: u64,
    /// The last id that was read.
    last: Option<u64>,
    ids: [u64; GROUP],
    len: usize,
}

impl Groups<'_> {
    /// The next group.
    pub(crate) fn next(&mut self) -> Option<&[u64]> {
        self.len = 0;
        if self.left > 0 && self.read(false).is_err() {
            // Only bytes that were never validated get here.
            self.left = 0;
        }
        (self.len > 0).then_some(&self.ids[..self.len])
    }

    /// Whether the last group has been left behind.
    pub(crate) fn ended(&self) -> bool {
        self.left == 0 && self.len == 0
    }

    /// The group that was read last.
    pub(crate) fn ids(&self) -> &[u64] {
        &self.ids[..self.len]
    }

    /// Reads the next group; `strict` tells canonical bytes from others.
    fn read(&mut self, strict: bool) -> Result<(), SipError> {
        let count = usize::try_from(self.left).map_or(GROUP, |left| left.min(GROUP));
        let ids = &mut self.ids[..count];
        self.codec.read(&mut self.reader, self.last, ids, strict)?;
        self.last = ids.last().copied();
        self.len = count;
        self.left -= count as u64;
        Ok(())
    }
}
