//! A set that owns its bytes.

use std::{fmt, ops::RangeInclusive, sync::Arc};

use crate::{BLOCK_WORDS, BlockMask, Ids, Limits, SipError, Tag, View, choose, encode, masks, view::Index};

/// A set of 64-bit ids: its canonical wire bytes `tag | body`, validated, with an index of its body.
///
/// A clone shares both. Two SIPs are equal when their bytes are. Whatever can be read of a set is read of its
/// [`view`](Self::view); the commonest look-ups stand here, too.
#[derive(Clone)]
pub struct Sip {
    inner: Arc<Inner>,
}

struct Inner {
    bytes: Vec<u8>,
    index: Index,
    cardinality: u64,
}

impl Sip {
    /// Reads `tag | body`, as [`as_bytes`](Self::as_bytes) gives them. Time is linear in the bytes; nothing
    /// is allocated in proportion to what they merely claim.
    ///
    /// # Errors
    /// A [`SipError`] that says what is wrong and where, for anything but the canonical bytes of a set
    /// within the limits.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>, limits: &Limits) -> Result<Self, SipError> {
        let bytes = bytes.into();
        let (index, cardinality) = Index::build(&bytes, limits)?;
        Ok(Self::new(bytes, index, cardinality))
    }

    /// The set without ids.
    pub fn empty() -> Self {
        Self::new(vec![Tag::Empty as u8], Index::Empty, 0)
    }

    /// The set of `ids`, in any order, some of them perhaps more than once.
    pub fn from_ids(ids: impl IntoIterator<Item = u64>) -> Self {
        Self::from_sorted_ids(&ids.into_iter().collect::<Vec<_>>())
    }

    /// The set of `ids`. In increasing order is fastest; any other is sorted first.
    pub fn from_sorted_ids(ids: &[u64]) -> Self {
        with_sorted(ids, |ids| encode::ids(ids, choose::for_ids(ids)))
    }

    /// [`from_sorted_ids`](Self::from_sorted_ids) under a tag; see [`to_tag`](Self::to_tag).
    pub fn from_sorted_ids_as(tag: Tag, ids: &[u64]) -> Self {
        with_sorted(ids, |ids| encode::ids(ids, tag))
    }

    /// The set of the ids in `ranges`, in any order.
    pub fn from_ranges(ranges: impl IntoIterator<Item = RangeInclusive<u64>>) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        if !ranges.is_sorted_by(|a, b| a.end() < b.start()) {
            ranges.sort_by_key(|range| *range.start());
        }
        let ranges = encode::ranges_of(|writer| {
            let mut open: Option<(u64, u64)> = None;
            for range in &ranges {
                match &mut open {
                    Some((_, last)) if range.start() <= last => *last = (*last).max(*range.end()),
                    _ => {
                        if let Some((first, last)) = open.replace((*range.start(), *range.end())) {
                            writer.push(first, last);
                        }
                    }
                }
            }
            if let Some((first, last)) = open {
                writer.push(first, last);
            }
        });
        ranges.to_smallest()
    }

    /// The set of the bits of `masks`: for each block the id of its first bit, a multiple of 65,536, and at
    /// most 1,024 words, as in [`Builder::push_words`](crate::Builder::push_words). They are gone through
    /// once to measure them, once to choose the tag, and once to write them; they are never copied.
    ///
    /// # Panics
    /// If the blocks do not come in increasing order, or are not as they should be.
    pub fn from_masks<'a>(masks: impl Iterator<Item = (u64, &'a [u64])> + Clone) -> Self {
        masks::encode(masks, None)
    }

    /// [`from_masks`](Self::from_masks) under a tag.
    ///
    /// # Panics
    /// As there.
    pub fn from_masks_as<'a>(tag: Tag, masks: impl Iterator<Item = (u64, &'a [u64])> + Clone) -> Self {
        masks::encode(masks, Some(tag))
    }

    /// The same set under another tag. The empty set has but one, and [`Tag::Empty`] for any other is
    /// [`Tag::Gaps`]. A few bytes of ranges or runs can stand for so many ids that the other tags take
    /// gigabytes.
    #[must_use]
    pub fn to_tag(&self, tag: Tag) -> Self {
        if tag == self.tag() { self.clone() } else { encode::view(&self.view(), tag) }
    }

    /// The same set under the tag that takes the fewest bytes, or nearly so.
    #[must_use]
    pub fn to_smallest(&self) -> Self {
        self.to_tag(choose::for_view(&self.view()))
    }

    /// Of bytes that were just written or validated, with their index.
    pub(crate) fn new(bytes: Vec<u8>, index: Index, cardinality: u64) -> Self {
        Self { inner: Arc::new(Inner { bytes, index, cardinality }) }
    }

    /// The set where its bytes stand, with the index.
    pub fn view(&self) -> View<'_> {
        self.inner.index.view(&self.inner.bytes, self.inner.cardinality)
    }

    /// The wire bytes, tag first.
    pub fn as_bytes(&self) -> &[u8] {
        &self.inner.bytes
    }

    /// How the body is written.
    pub fn tag(&self) -> Tag {
        self.view().tag()
    }

    /// The number of ids.
    pub fn cardinality(&self) -> u64 {
        self.inner.cardinality
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.cardinality() == 0
    }

    /// Whether `id` is in the set.
    pub fn contains(&self, id: u64) -> bool {
        self.view().contains(id)
    }

    /// The number of ids up to `id`, itself included.
    pub fn rank(&self, id: u64) -> u64 {
        self.view().rank(id)
    }

    /// The least id that is `id` or above it.
    pub fn next_at_or_after(&self, id: u64) -> Option<u64> {
        self.view().next_at_or_after(id)
    }

    /// The least id.
    pub fn first(&self) -> Option<u64> {
        self.view().first()
    }

    /// The greatest id.
    pub fn last(&self) -> Option<u64> {
        self.view().last()
    }

    /// The ids in increasing order.
    pub fn iter(&self) -> Ids<'_> {
        self.view().iter()
    }

    /// See [`View::block_mask`].
    pub fn block_mask(&self, base: u64, words: &mut [u64; BLOCK_WORDS]) -> BlockMask {
        self.view().block_mask(base, words)
    }

    /// The bytes that it holds: those of the wire, its index and, of a small set, all of its ids or ranges,
    /// which it keeps once an id was looked up; 48 KiB at most.
    pub fn heap_bytes(&self) -> usize {
        self.inner.bytes.capacity() + self.inner.index.bytes(self.inner.cardinality)
    }
}

fn with_sorted(ids: &[u64], encode: impl FnOnce(&[u64]) -> Sip) -> Sip {
    if is_increasing(ids) {
        return encode(ids);
    }
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    encode(&sorted)
}

/// Without a way out before the end: a loop that never branches is the fastest for ids that are in order.
#[inline(never)]
fn is_increasing(ids: &[u64]) -> bool {
    ids.windows(2).fold(true, |increasing, pair| increasing & (pair[0] < pair[1]))
}

impl PartialEq for Sip {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Sip {}

impl fmt::Debug for Sip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sip")
            .field("tag", &self.tag())
            .field("cardinality", &self.cardinality())
            .field("bytes", &self.as_bytes().len())
            .finish()
    }
}

impl FromIterator<u64> for Sip {
    fn from_iter<I: IntoIterator<Item = u64>>(ids: I) -> Self {
        Self::from_ids(ids)
    }
}

impl<'a> IntoIterator for &'a Sip {
    type Item = u64;
    type IntoIter = Ids<'a>;

    fn into_iter(self) -> Ids<'a> {
        self.iter()
    }
}
