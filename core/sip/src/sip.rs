//! A validated set, and reading it.

use std::{fmt, sync::Arc};

use crate::{Builder, Limits, SipError, Tag, roaring, varint_delta};

/// Ids of a block, which is one roaring container.
pub const BLOCK_IDS: u64 = 1 << 16;
/// Mask words of a block.
pub const BLOCK_WORDS: usize = 1 << 10;

/// A set of 64-bit ids: its canonical wire bytes `tag | body`, validated, with an index of its body.
///
/// A clone shares both. Two SIPs are equal when their bytes are.
#[derive(Clone)]
pub struct Sip {
    inner: Arc<Inner>,
}

struct Inner {
    bytes: Vec<u8>,
    body: Body,
}

/// How the body of each tag is found one's way in.
pub(crate) enum Body {
    Empty,
    Roaring(roaring::Index),
    VarintDelta(varint_delta::Index),
}

/// What [`Sip::block_mask`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockMask {
    /// None of the block's ids is in the set.
    Empty,
    /// All of them are.
    Full,
    /// Some are: those whose bits are set in the words.
    Words,
}

impl Sip {
    /// Reads `tag | body`, as [`as_bytes`](Self::as_bytes) gives them. Time is linear in the bytes; nothing
    /// is allocated in proportion to what they merely claim.
    ///
    /// # Errors
    /// A [`SipError`] that says what is wrong and where, for anything but the canonical bytes of a set
    /// within the limits.
    pub fn from_bytes(bytes: impl AsRef<[u8]> + Into<Vec<u8>>, limits: &Limits) -> Result<Self, SipError> {
        let body = Body::open(bytes.as_ref(), limits)?;
        Ok(Self::new(bytes.into(), body))
    }

    /// The set of `ids`. They may come in any order and more than once; in increasing order it is fastest.
    pub fn from_sorted_ids(ids: &[u64]) -> Self {
        let mut builder = Builder::new();
        if ids.is_sorted_by(|a, b| a < b) {
            builder.push_sorted_ids(ids);
        } else {
            let mut sorted = ids.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            builder.push_sorted_ids(&sorted);
        }
        builder.finish()
    }

    /// Of bytes that were just written, with their index.
    pub(crate) fn new(bytes: Vec<u8>, body: Body) -> Self {
        Self { inner: Arc::new(Inner { bytes, body }) }
    }

    /// The wire bytes, tag first.
    pub fn as_bytes(&self) -> &[u8] {
        &self.inner.bytes
    }

    /// How the body is written.
    pub fn tag(&self) -> Tag {
        match self.inner.body {
            Body::Empty => Tag::Empty,
            Body::Roaring(_) => Tag::Roaring,
            Body::VarintDelta(_) => Tag::VarintDelta,
        }
    }

    /// The number of ids.
    pub fn cardinality(&self) -> u64 {
        match &self.inner.body {
            Body::Empty => 0,
            Body::Roaring(index) => index.cardinality(),
            Body::VarintDelta(index) => index.cardinality(),
        }
    }

    /// Whether `id` is in the set.
    pub fn contains(&self, id: u64) -> bool {
        match &self.inner.body {
            Body::Empty => false,
            Body::Roaring(index) => index.contains(&self.inner.bytes, id),
            Body::VarintDelta(index) => index.contains(&self.inner.bytes, id),
        }
    }

    /// The ids in increasing order.
    pub fn iter(&self) -> Ids<'_> {
        let bytes = &self.inner.bytes;
        Ids(match &self.inner.body {
            Body::Empty => IdsOf::Empty,
            Body::Roaring(index) => IdsOf::Roaring(index.ids(bytes)),
            Body::VarintDelta(index) => IdsOf::VarintDelta(index.ids(bytes)),
        })
    }

    /// The ids of the block that begins at `base`, a multiple of 65,536: bit `i % 64` of word `i / 64` for
    /// `base + i`. All words are written if the answer is [`BlockMask::Words`]; otherwise what they hold
    /// means nothing.
    pub fn block_mask(&self, base: u64, words: &mut [u64; BLOCK_WORDS]) -> BlockMask {
        debug_assert!(base.is_multiple_of(BLOCK_IDS));
        match &self.inner.body {
            Body::Empty => BlockMask::Empty,
            Body::Roaring(index) => index.block_mask(&self.inner.bytes, base, words),
            Body::VarintDelta(index) => index.block_mask(&self.inner.bytes, base, words),
        }
    }
}

impl Body {
    fn open(bytes: &[u8], limits: &Limits) -> Result<Self, SipError> {
        let (&tag, body) = bytes.split_first().ok_or(SipError::Truncated { at: 0, need: 1 })?;
        let tag = Tag::try_from(tag)?;
        Limits::check(1, "body_bytes", body.len() as u64, limits.body_bytes as u64)?;
        Ok(match tag {
            Tag::Empty if body.is_empty() => Self::Empty,
            Tag::Empty => return Err(SipError::TrailingBytes { at: 1 }),
            Tag::Roaring => Self::Roaring(roaring::Index::open(bytes, limits)?),
            Tag::VarintDelta => Self::VarintDelta(varint_delta::Index::open(bytes, limits)?),
        })
    }
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

impl<'a> IntoIterator for &'a Sip {
    type Item = u64;
    type IntoIter = Ids<'a>;

    fn into_iter(self) -> Ids<'a> {
        self.iter()
    }
}

/// The ids of a [`Sip`] in increasing order.
#[derive(Clone, Debug)]
pub struct Ids<'a>(IdsOf<'a>);

#[derive(Clone, Debug)]
enum IdsOf<'a> {
    Empty,
    Roaring(roaring::Ids<'a>),
    VarintDelta(varint_delta::Ids<'a>),
}

impl Iterator for Ids<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match &mut self.0 {
            IdsOf::Empty => None,
            IdsOf::Roaring(ids) => ids.next(),
            IdsOf::VarintDelta(ids) => ids.next(),
        }
    }
}
