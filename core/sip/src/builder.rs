//! Building a set from masks and ranges, without ever listing its ids.

use crate::{
    BLOCK_IDS, BLOCK_WORDS, Sip, Tag, mask,
    roaring::{self, Container},
    sip::Body,
    varint_delta,
};

/// Builds a [`Sip`] from what comes block by block.
///
/// Each block becomes a container at once, of the smallest kind. Blocks should come in increasing order; what
/// comes out of order, or twice, is put in its place and united by [`finish`](Self::finish), which costs time
/// but never an id.
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

    /// Adds the ids from `start` to `end - 1`. Each full block takes a container of 6 bytes.
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

    /// Adds strictly increasing ids.
    pub(crate) fn push_sorted_ids(&mut self, ids: &[u64]) {
        self.close();
        for ids in ids.chunk_by(|a, b| a / BLOCK_IDS == b / BLOCK_IDS) {
            let container = roaring::encode_ids(ids[0] / BLOCK_IDS, ids, &mut self.bytes);
            self.add(container);
        }
    }

    /// The set of all that was pushed.
    ///
    /// Its tag is 0x01 unless 0x02 takes less than half the bytes for certain, as it does for ids that are
    /// scattered over many buckets: 0x01 answers for whole blocks at once, but has a header for each.
    pub fn finish(mut self) -> Sip {
        self.close();
        if !self.in_order {
            self.sort();
        }
        let Self { bytes, mut containers, .. } = self;
        let cardinality = containers.iter().map(Container::cardinality).sum();
        if cardinality == 0 {
            return Sip::new(vec![Tag::Empty as u8], Body::Empty);
        }
        let size = roaring::size(&containers);
        let blocks = containers.iter().map(|container| (container.block(), container.cardinality()));
        let bound = varint_delta::size_bound(cardinality, blocks);
        if bound < size / 2 {
            let mut out = Vec::with_capacity(1 + bound);
            out.push(Tag::VarintDelta as u8);
            let scattered = roaring::Index::new(containers);
            let index = varint_delta::write(cardinality, scattered.ids(&bytes), &mut out);
            out.shrink_to_fit();
            Sip::new(out, Body::VarintDelta(index))
        } else {
            let mut out = Vec::with_capacity(1 + size);
            out.push(Tag::Roaring as u8);
            roaring::write(&mut containers, &bytes, &mut out);
            Sip::new(out, Body::Roaring(roaring::Index::new(containers)))
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
            parts.iter().for_each(|part| part.view(&self.bytes).add_to(&mut self.words));
            united.extend(roaring::encode_words(parts[0].block(), &*self.words, &mut self.bytes));
            self.words.fill(0);
        }
        self.containers = united;
    }
}
