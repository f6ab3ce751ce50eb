//! Tag 0x03: ranges of ids, in groups of 128; the ids left out between them and their lengths are Rice-coded.

mod write;

pub(crate) use write::Writer;

use crate::{
    Limits, SipError, groups,
    index::{All, Entries},
    reader::Reader,
    rice,
    rice::GROUP,
    varint,
};

/// Consecutive ids, from the first to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Range {
    /// Its number of ids.
    pub(crate) fn len(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

/// The groups of ranges.
pub(crate) type Groups<'a> = groups::Groups<'a, Code>;

/// Where a group begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The last id of the range before it; 0 before the first group.
    last: u64,
    /// Ids before it.
    ids: u64,
    at: usize,
}

/// A validated body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranges<'a> {
    pub(crate) cardinality: u64,
    /// The bytes of the SIP, tag first.
    pub(crate) bytes: &'a [u8],
    /// The place of each group and of the end; none of a set that is read without an index.
    pub(crate) index: &'a [Entry],
    /// All ranges of a small set that has an index, and the ids before each, once they were asked for.
    pub(crate) all: Option<&'a All<(Range, u64)>>,
}

/// Ranges of a set that are kept for look-ups, at most: 48 KiB.
const SMALL: u64 = 2048;

/// Bytes of the ranges that are kept of a set with an index, at most.
pub(crate) fn kept_bytes(index: &[Entry]) -> usize {
    let ranges = index.len().saturating_sub(1) * GROUP;
    if ranges as u64 <= SMALL { ranges * size_of::<(Range, u64)>() } else { 0 }
}

/// Validates `bytes` (the tag first) and counts the ids; `index` sees where each group begins. The limit on
/// the body is the caller's.
pub(crate) fn validate(
    bytes: &[u8],
    limits: &Limits,
    index: &mut impl Entries<Entry>,
) -> Result<u64, SipError> {
    let mut reader = Reader::new(bytes, 1);
    let count = varint::read(&mut reader)?;
    if count == 0 {
        return Err(SipError::Empty { at: 1 });
    }
    Limits::check(1, "cardinality", count, limits.cardinality)?;
    Limits::check(1, "decoded_bytes", count.saturating_mul(16), limits.decoded_bytes)?;
    // A number takes a bit at least, and each group two parameters.
    let groups = usize::try_from(count.div_ceil(GROUP as u64)).unwrap_or(usize::MAX);
    let least = usize::try_from(count / 4).unwrap_or(usize::MAX).saturating_add(groups.saturating_mul(2));
    if least > reader.left() {
        return Err(SipError::Truncated { at: reader.at(), need: least });
    }
    index.expect(groups.saturating_add(1));
    let mut groups = Groups::new(Code, reader, count, None);
    let mut ids = 0_u64;
    while groups.left() > 0 {
        let at = groups.at();
        index.push(Entry { last: groups.last().unwrap_or(0), ids, at });
        ids = groups.read(true)?.iter().fold(ids, |ids, range| ids.saturating_add(range.len()));
        Limits::check(at, "cardinality", ids, limits.cardinality)?;
    }
    index.push(Entry { last: groups.last().unwrap_or(0), ids, at: groups.at() });
    groups.end()?;
    Ok(ids)
}

impl<'a> Ranges<'a> {
    /// The groups from one on that holds the first range that ends at or behind `id`, and the ids before it.
    pub(crate) fn groups_from(&self, id: u64) -> (Groups<'a>, u64) {
        let mut reader = Reader::new(self.bytes, 1);
        // The body was validated: the count is there.
        let count = varint::read(&mut reader).unwrap_or(0);
        let group = self.index.partition_point(|entry| entry.last < id).saturating_sub(1);
        match self.index.get(group).filter(|_| group > 0) {
            Some(entry) => {
                let left = count.saturating_sub((group * GROUP) as u64);
                let reader = Reader::new(self.bytes, entry.at);
                (Groups::new(Code, reader, left, Some(entry.last)), entry.ids)
            }
            None => (Groups::new(Code, reader, count, None), 0),
        }
    }

    /// All groups.
    pub(crate) fn groups(&self) -> Groups<'a> {
        self.groups_from(0).0
    }

    /// The number of ranges.
    pub(crate) fn count(&self) -> u64 {
        varint::read(&mut Reader::new(self.bytes, 1)).unwrap_or(0)
    }

    /// All ranges and the ids before each, of a small set.
    fn all(&self) -> Option<&'a [(Range, u64)]> {
        let all = self.all.filter(|_| self.count() <= SMALL)?;
        Some(all.get_or_init(|| {
            let mut ranges = Vec::new();
            let mut before = 0;
            let mut groups = self.groups();
            while let Some(group) = groups.next() {
                for range in group {
                    ranges.push((*range, before));
                    before += range.len();
                }
            }
            ranges.into()
        }))
    }

    /// The first range that ends at or behind `id`, if there is one, and the number of ids before it.
    pub(crate) fn find(&self, id: u64) -> (Option<Range>, u64) {
        if let Some(ranges) = self.all() {
            return match ranges.get(ranges.partition_point(|(range, _)| range.last < id)) {
                Some((range, before)) => (Some(*range), *before),
                None => (None, self.cardinality),
            };
        }
        let (mut groups, mut before) = self.groups_from(id);
        while let Some(ranges) = groups.next() {
            if ranges.last().is_some_and(|range| range.last >= id) {
                let at = ranges.partition_point(|range| range.last < id);
                before += ranges[..at].iter().map(|range| range.len()).sum::<u64>();
                return (ranges.get(at).copied(), before);
            }
            before += ranges.iter().map(|range| range.len()).sum::<u64>();
        }
        (None, before)
    }

    /// The greatest id.
    pub(crate) fn last(&self) -> Option<u64> {
        if let Some(end) = self.index.last() {
            return Some(end.last);
        }
        let mut groups = self.groups();
        while groups.next().is_some() {}
        groups.last()
    }
}

/// How ranges are written: the ids left out before each, and the lengths, in a Rice group each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code;

impl groups::Code for Code {
    type Member = Range;

    fn read(
        self,
        reader: &mut Reader<'_>,
        last: Option<u64>,
        ranges: &mut [Range],
        strict: bool,
    ) -> Result<(), SipError> {
        let (mut gaps, mut lengths) = ([0; GROUP], [0; GROUP]);
        let at = reader.at();
        rice::read(reader, &mut gaps[..ranges.len()], strict)?;
        rice::read(reader, &mut lengths[..ranges.len()], strict)?;
        let mut before = last;
        for (range, (gap, length)) in ranges.iter_mut().zip(gaps.iter().zip(lengths)) {
            // At least one id is left out behind the last range.
            let next = before.map_or(Some(0), |before| before.checked_add(2));
            let first = next.and_then(|next| next.checked_add(*gap));
            let last = first.and_then(|first| first.checked_add(length));
            let (Some(first), Some(last)) = (first, last) else { return Err(SipError::Overflow { at }) };
            *range = Range { first, last };
            before = Some(last);
        }
        Ok(())
    }

    fn last(range: &Range) -> u64 {
        range.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sip, Tag};

    #[test]
    fn ranges_of_small_sets_are_kept_once_looked_up() {
        for count in [1, SMALL, SMALL + 1] {
            let sip = Sip::from_ranges((0..count).map(|i| 100 * i..=100 * i + 19)).to_tag(Tag::Ranges);
            let view = sip.view();
            let ranges = view.as_ranges().unwrap();
            let kept = ranges.all().map(|all| all.iter().map(|(range, _)| *range).collect::<Vec<_>>());
            let expected = (0..count).map(|i| Range { first: 100 * i, last: 100 * i + 19 });
            assert_eq!(kept, (count <= SMALL).then(|| expected.collect()));
        }
    }
}
