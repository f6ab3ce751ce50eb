//! Tags 0x02 and 0x04: increasing ids in groups of 128, each written as its distance from the one before.

mod codec;
mod write;

pub(crate) use codec::{Codec, to_gaps};
pub(crate) use write::Writer;

use crate::{
    Limits, SipError, groups,
    index::{All, Entries},
    reader::Reader,
    rice::GROUP,
    varint,
};

/// The groups of a list.
pub(crate) type Groups<'a> = groups::Groups<'a, Codec>;

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
    let mut groups = Groups::new(codec, reader, cardinality, None);
    while groups.left() > 0 {
        index.push(Entry { before: groups.last().unwrap_or(0), at: groups.at() });
        groups.read(true)?;
    }
    index.push(Entry { before: groups.last().unwrap_or(0), at: groups.at() });
    groups.end()?;
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
        (Groups::new(self.codec, reader, left, last), skipped)
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
        groups.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sip, Tag};

    #[test]
    fn ids_of_small_sets_are_kept_once_looked_up() {
        for count in [1, SMALL, SMALL + 1] {
            let ids: Vec<u64> = (0..count).map(|i| 100 * i).collect();
            let sip = Sip::from_sorted_ids_as(Tag::Gaps, &ids);
            let view = sip.view();
            assert_eq!(view.as_list().unwrap().all(), (count <= SMALL).then_some(&*ids));
        }
    }
}
