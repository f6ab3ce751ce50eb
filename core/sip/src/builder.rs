//! Building a set from masks and ranges, without ever listing its ids.

use crate::{
    BLOCK_IDS, BLOCK_WORDS, Sip, Tag,
    blocks::Block,
    choose, encode, mask,
    roaring::{self, Container},
};

/// Builds a [`Sip`] from what comes block by block, in any order.
///
/// Each block becomes a container at once, of the smallest kind. Blocks should come in increasing order; what
/// comes out of order, or twice, is put in its place and united by [`finish`](Self::finish), which costs time
/// but never an id. Masks that are all at hand make a set faster with [`Sip::from_masks`].
#[derive(Debug)]
pub struct Builder {
    /// The containers' bytes.
    bytes: Vec<u8>,
    containers: Vec<Container>,
    in_order: bool,
    /// The block that ranges are being added to, and its mask; all 0 if there is none.
    open: Option<u64>,
    words: Box<[u64; BLOCK_WORDS]>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            containers: Vec::new(),
            in_order: true,
            open: None,
            words: Box::new([0; BLOCK_WORDS]),
        }
    }
}

impl Builder {
    /// A builder of the empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the ids of the block that begins at `base`: bit `i % 64` of `words[i / 64]` stands for
    /// `base + i`. Words that are missing are 0.
    ///
    /// # Panics
    /// If `base` is not a multiple of 65,536, or there are more than 1,024 words.
    pub fn push_words(&mut self, base: u64, words: &[u64]) {
        assert!(base.is_multiple_of(BLOCK_IDS), "{base} does not begin a block");
        assert!(words.len() <= BLOCK_WORDS, "{} words are more than a block has", words.len());
        let block = base / BLOCK_IDS;
        if self.open == Some(block) {
            self.words.iter_mut().zip(words).for_each(|(open, word)| *open |= word);
        } else {
            self.close();
            let container = roaring::encode_words(block, words, &mut self.bytes);
            self.add(container);
        }
    }

    /// Adds the ids from `start` to `end - 1`; 2^64 - 1 is none of them. Each full block takes a container of
    /// 6 bytes; ranges alone make a set faster with [`Sip::from_ranges`].
    pub fn push_range(&mut self, mut start: u64, end: u64) {
        while start < end {
            let block = start / BLOCK_IDS;
            let offset = start % BLOCK_IDS;
            let count = (end - start).min(BLOCK_IDS - offset);
            if count == BLOCK_IDS {
                self.close();
                let container = roaring::encode_full(block, &mut self.bytes);
                self.add(Some(container));
            } else {
                if self.open != Some(block) {
                    self.close();
                    self.open = Some(block);
                }
                mask::set_range(&mut self.words, offset..offset + count);
            }
            start += count;
        }
    }

    /// Adds a container, made in `bytes`.
    pub(crate) fn push(&mut self, make: impl FnOnce(&mut Vec<u8>) -> Option<Container>) {
        self.close();
        let container = make(&mut self.bytes);
        self.add(container);
    }

    /// The set of all that was pushed, under the tag that takes the fewest bytes, or nearly so.
    pub fn finish(self) -> Sip {
        self.finish_with(None)
    }

    /// The set of all that was pushed, under a tag; see [`Sip::to_tag`].
    pub fn finish_as(self, tag: Tag) -> Sip {
        self.finish_with(Some(tag))
    }

    fn finish_with(mut self, tag: Option<Tag>) -> Sip {
        self.close();
        if !self.in_order {
            self.sort();
        }
        if self.containers.is_empty() {
            return Sip::empty();
        }
        match tag.unwrap_or_else(|| choose::for_containers(&self.containers, &self.bytes)) {
            Tag::Roaring => encode::roaring_of(&self.containers, &self.bytes),
            tag => encode::blocks(tag, |each| self.containers.iter().for_each(|c| each(self.block(c)))),
        }
    }

    fn block(&self, container: &Container) -> Block<'_> {
        Block {
            key: container.block(),
            cardinality: container.cardinality(),
            contents: container.contents(&self.bytes),
        }
    }

    /// Writes the open block's container.
    fn close(&mut self) {
        if let Some(block) = self.open.take() {
            let container = roaring::encode_words(block, &*self.words, &mut self.bytes);
            self.words.fill(0);
            self.add(container);
        }
    }

    fn add(&mut self, container: Option<Container>) {
        let Some(container) = container else { return };
        self.in_order &= self.containers.last().is_none_or(|last| last.block() < container.block());
        self.containers.push(container);
    }

    /// Puts the containers in order and unites those of one block.
    fn sort(&mut self) {
        self.containers.sort_by_key(Container::block);
        let mut united = Vec::with_capacity(self.containers.len());
        for parts in self.containers.chunk_by(|a, b| a.block() == b.block()) {
            if let [only] = parts {
                united.push(*only);
                continue;
            }
            parts.iter().for_each(|part| part.contents(&self.bytes).add_to(&mut self.words));
            united.extend(roaring::encode_words(parts[0].block(), &*self.words, &mut self.bytes));
            self.words.fill(0);
        }
        self.containers = united;
    }
}
