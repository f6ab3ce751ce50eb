//! Reading a set where its bytes stand.

use std::fmt;

use crate::{
    BLOCK_IDS, BLOCK_WORDS, Ids, Limits, SipError, Tag,
    blocks::{Blocks, Scratch},
    index::{Places, Unindexed},
    list::{self, Codec, List},
    ranges::{self, Range, Ranges},
    roaring::{self, Roaring},
};

/// What [`View::block_mask`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockMask {
    /// None of the block's ids is in the set.
    Empty,
    /// All of them are.
    Full,
    /// Some are: those whose bits are set in the words.
    Words,
}

/// A validated set that borrows its bytes, `tag | body`. It allocates nothing, neither to be opened nor to be
/// read.
///
/// Looking up one id or one block in a view of bare bytes walks there from their start; for many look-ups
/// make a [`Sip`](crate::Sip) of them, whose [`view`](crate::Sip::view) has an index. To go through a set in
/// order, [`iter`](Self::iter) and [`masks`](Self::masks) need none.
#[derive(Clone, Copy)]
pub struct View<'a> {
    bytes: &'a [u8],
    body: Body<'a>,
}

#[derive(Clone, Copy)]
enum Body<'a> {
    Empty,
    Roaring(Roaring<'a>),
    List(List<'a>),
    Ranges(Ranges<'a>),
}

/// Where to find one's way in a body, for those who look often.
#[derive(Debug)]
pub(crate) enum Index {
    Empty,
    Roaring(Box<[roaring::Bucket]>, Box<[u64]>),
    List(Codec, Places<list::Entry, u64>),
    Ranges(Places<ranges::Entry, (Range, u64)>),
}

/// The tag of `bytes`, if their body is within the limit.
fn tag_of(bytes: &[u8], limits: &Limits) -> Result<Tag, SipError> {
    let (&tag, body) = bytes.split_first().ok_or(SipError::Truncated { at: 0, need: 1 })?;
    let tag = Tag::try_from(tag)?;
    Limits::check(1, "body_bytes", body.len() as u64, limits.body_bytes as u64)?;
    Ok(tag)
}

fn no_body(bytes: &[u8]) -> Result<(), SipError> {
    if bytes.len() == 1 { Ok(()) } else { Err(SipError::TrailingBytes { at: 1 }) }
}

impl Index {
    /// Validates `bytes` and indexes them; also the number of ids.
    pub(crate) fn build(bytes: &[u8], limits: &Limits) -> Result<(Self, u64), SipError> {
        fn list(codec: Codec, bytes: &[u8], limits: &Limits) -> Result<(Index, u64), SipError> {
            let mut index = Vec::new();
            let ids = list::validate(codec, bytes, limits, &mut index)?;
            Ok((Index::List(codec, Places::new(index.into())), ids))
        }
        match tag_of(bytes, limits)? {
            Tag::Empty => no_body(bytes).map(|()| (Self::Empty, 0)),
            Tag::Roaring => {
                let mut index = Vec::new();
                let ids = roaring::validate(bytes, limits, &mut index)?;
                Ok((Self::roaring(bytes, index.into()), ids))
            }
            Tag::VarintDelta => list(Codec::VarintDelta, bytes, limits),
            Tag::Gaps => list(Codec::Gaps, bytes, limits),
            Tag::Ranges => {
                let mut index = Vec::new();
                let ids = ranges::validate(bytes, limits, &mut index)?;
                Ok((Self::Ranges(Places::new(index.into())), ids))
            }
        }
    }

    /// Of a roaring set with its buckets.
    pub(crate) fn roaring(bytes: &[u8], buckets: Box<[roaring::Bucket]>) -> Self {
        let counts = roaring::count(bytes, &buckets);
        Self::Roaring(buckets, counts)
    }

    /// Bytes that it takes, or will once an id was looked up.
    pub(crate) fn bytes(&self, cardinality: u64) -> usize {
        match self {
            Self::Empty => 0,
            Self::Roaring(index, counts) => size_of_val(&**index) + size_of_val(&**counts),
            Self::List(_, places) => size_of_val(&*places.groups) + list::kept_bytes(cardinality),
            Self::Ranges(places) => size_of_val(&*places.groups) + ranges::kept_bytes(&places.groups),
        }
    }

    /// Of the `bytes` that it was made of.
    pub(crate) fn view<'a>(&'a self, bytes: &'a [u8], cardinality: u64) -> View<'a> {
        let body = match self {
            Self::Empty => Body::Empty,
            Self::Roaring(index, counts) => Body::Roaring(Roaring { cardinality, bytes, index, counts }),
            Self::List(codec, Places { groups, all }) => {
                Body::List(List { codec: *codec, cardinality, bytes, index: groups, all: Some(all) })
            }
            Self::Ranges(Places { groups, all }) => {
                Body::Ranges(Ranges { cardinality, bytes, index: groups, all: Some(all) })
            }
        };
        View { bytes, body }
    }
}

impl<'a> View<'a> {
    /// Reads `tag | body`. Time is linear in the bytes.
    ///
    /// # Errors
    /// A [`SipError`] that says what is wrong and where, for anything but the canonical bytes of a set
    /// within the limits.
    pub fn open(bytes: &'a [u8], limits: &Limits) -> Result<Self, SipError> {
        let list = |codec| {
            let cardinality = list::validate(codec, bytes, limits, &mut Unindexed)?;
            Ok(Body::List(List { codec, cardinality, bytes, index: &[], all: None }))
        };
        let body = match tag_of(bytes, limits)? {
            Tag::Empty => no_body(bytes).map(|()| Body::Empty)?,
            Tag::Roaring => {
                let cardinality = roaring::validate(bytes, limits, &mut Unindexed)?;
                Body::Roaring(Roaring { cardinality, bytes, index: &[], counts: &[] })
            }
            Tag::VarintDelta => list(Codec::VarintDelta)?,
            Tag::Gaps => list(Codec::Gaps)?,
            Tag::Ranges => {
                let cardinality = ranges::validate(bytes, limits, &mut Unindexed)?;
                Body::Ranges(Ranges { cardinality, bytes, index: &[], all: None })
            }
        };
        Ok(Self { bytes, body })
    }

    /// The wire bytes, tag first.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How the body is written.
    pub fn tag(&self) -> Tag {
        match self.body {
            Body::Empty => Tag::Empty,
            Body::Roaring(_) => Tag::Roaring,
            Body::List(list) => list.codec.tag(),
            Body::Ranges(_) => Tag::Ranges,
        }
    }

    /// The number of ids; 2^64 - 1 also for the set of all 2^64.
    pub fn cardinality(&self) -> u64 {
        match self.body {
            Body::Empty => 0,
            Body::Roaring(roaring) => roaring.cardinality,
            Body::List(list) => list.cardinality,
            Body::Ranges(ranges) => ranges.cardinality,
        }
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.cardinality() == 0
    }

    /// Whether `id` is in the set.
    pub fn contains(&self, id: u64) -> bool {
        match self.body {
            Body::Empty => false,
            Body::Roaring(roaring) => roaring
                .container(id / BLOCK_IDS)
                .is_some_and(|container| container.contents(self.bytes).contains(roaring::low(id))),
            Body::List(list) => list.find(id).0 == Some(id),
            Body::Ranges(ranges) => ranges.find(id).0.is_some_and(|range| range.first <= id),
        }
    }

    /// The number of ids up to `id`, itself included.
    pub fn rank(&self, id: u64) -> u64 {
        match id.checked_add(1) {
            Some(next) => self.ids_before(next),
            None => self.cardinality(),
        }
    }

    /// The number of ids below `id`.
    fn ids_before(&self, id: u64) -> u64 {
        match self.body {
            Body::Empty => 0,
            Body::Roaring(roaring) => {
                let block = id / BLOCK_IDS;
                let own = roaring.container(block);
                let in_block = own.map_or(0, |own| own.contents(self.bytes).find(id % BLOCK_IDS).1);
                roaring.ids_before(block) + in_block
            }
            Body::List(list) => list.find(id).1,
            Body::Ranges(ranges) => match ranges.find(id) {
                (Some(range), before) => before + id.saturating_sub(range.first),
                (None, before) => before,
            },
        }
    }

    /// The least id that is `id` or above it.
    pub fn next_at_or_after(&self, id: u64) -> Option<u64> {
        match self.body {
            Body::Empty => None,
            Body::Roaring(roaring) => {
                let block = id / BLOCK_IDS;
                roaring.containers_from(block).find_map(|container| {
                    let from = if container.block() == block { id % BLOCK_IDS } else { 0 };
                    let offset = container.contents(self.bytes).find(from).0?;
                    Some(container.block() * BLOCK_IDS + offset)
                })
            }
            Body::List(list) => list.find(id).0,
            Body::Ranges(ranges) => ranges.find(id).0.map(|range| range.first.max(id)),
        }
    }

    /// The least id.
    pub fn first(&self) -> Option<u64> {
        self.next_at_or_after(0)
    }

    /// The greatest id.
    pub fn last(&self) -> Option<u64> {
        match self.body {
            Body::Empty => None,
            Body::Roaring(roaring) => roaring
                .last()
                .map(|container| container.block() * BLOCK_IDS + container.contents(self.bytes).last()),
            Body::List(list) => list.last(),
            Body::Ranges(ranges) => ranges.last(),
        }
    }

    /// The ids in increasing order.
    pub fn iter(&self) -> Ids<'a> {
        match self.body {
            Body::Empty => Ids::empty(),
            Body::Roaring(roaring) => Ids::roaring(&roaring),
            Body::List(list) => Ids::list(&list),
            Body::Ranges(ranges) => Ids::ranges(&ranges),
        }
    }

    /// The ids of the block that holds the id `base`, as a rule its first: bit `i % 64` of word `i / 64` for
    /// the `i`th id. All words are written if the answer is [`BlockMask::Words`]; otherwise what they hold
    /// means nothing.
    pub fn block_mask(&self, base: u64, words: &mut [u64; BLOCK_WORDS]) -> BlockMask {
        let block = base / BLOCK_IDS;
        if let Body::Roaring(roaring) = self.body {
            return match roaring.container(block) {
                None => BlockMask::Empty,
                Some(container) if container.is_full() => BlockMask::Full,
                Some(container) => {
                    container.contents(self.bytes).copy_to(words);
                    BlockMask::Words
                }
            };
        }
        let mut masks = self.masks();
        masks.skip_to(base);
        match masks.next(words) {
            Some((found, mask)) if found == block * BLOCK_IDS => mask,
            _ => BlockMask::Empty,
        }
    }

    /// The masks of all blocks that hold ids, in increasing order.
    pub fn masks(&self) -> Masks<'a> {
        Masks { blocks: self.blocks(), scratch: Scratch::NEW }
    }

    pub(crate) fn blocks(&self) -> Blocks<'a> {
        match self.body {
            Body::Empty => Blocks::Empty,
            Body::Roaring(roaring) => Blocks::Roaring(roaring.containers()),
            Body::List(list) => Blocks::List { list, groups: list.groups() },
            Body::Ranges(ranges) => Blocks::Ranges { ranges, groups: ranges.groups(), from: 0 },
        }
    }

    /// The containers, where the set is written as such.
    pub(crate) fn as_roaring(&self) -> Option<Roaring<'a>> {
        if let Body::Roaring(roaring) = self.body { Some(roaring) } else { None }
    }

    /// The list, where the set is written as one.
    pub(crate) fn as_list(&self) -> Option<List<'a>> {
        if let Body::List(list) = self.body { Some(list) } else { None }
    }

    /// The ranges, where the set is written as such.
    pub(crate) fn as_ranges(&self) -> Option<Ranges<'a>> {
        if let Body::Ranges(ranges) = self.body { Some(ranges) } else { None }
    }
}

/// The masks of a set's blocks; see [`View::masks`].
#[derive(Clone)]
pub struct Masks<'a> {
    blocks: Blocks<'a>,
    scratch: Scratch,
}

impl Masks<'_> {
    /// The first id of the next block, and which of its ids are in the set; see [`View::block_mask`].
    pub fn next(&mut self, words: &mut [u64; BLOCK_WORDS]) -> Option<(u64, BlockMask)> {
        let block = self.blocks.next(&mut self.scratch)?;
        let mask = if block.is_full() {
            BlockMask::Full
        } else {
            block.contents.copy_to(words);
            BlockMask::Words
        };
        Some((block.base(), mask))
    }

    /// Leaves out all blocks before the one that holds `id`; it never goes back.
    pub fn skip_to(&mut self, id: u64) {
        self.blocks.skip_to(id / BLOCK_IDS);
    }
}

impl fmt::Debug for Masks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masks").finish_non_exhaustive()
    }
}

impl PartialEq for View<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for View<'_> {}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("tag", &self.tag())
            .field("cardinality", &self.cardinality())
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

impl<'a> IntoIterator for View<'a> {
    type Item = u64;
    type IntoIter = Ids<'a>;

    fn into_iter(self) -> Ids<'a> {
        self.iter()
    }
}
