//! The blocks of a set under any tag, one by one, as containers.

use crate::{
    BLOCK_IDS, BLOCK_WORDS,
    contents::Contents,
    list::{self, List},
    mask,
    ranges::{self, Ranges},
    roaring::{self, BITSET_BYTES, MAX_ARRAY, MAX_RUNS, low},
};

/// The ids of one block. There is at least one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    /// The ids divided by 65,536.
    pub(crate) key: u64,
    pub(crate) cardinality: u64,
    pub(crate) contents: Contents<'a>,
}

impl Block<'_> {
    /// Whether it holds all ids.
    pub(crate) fn is_full(&self) -> bool {
        self.cardinality == BLOCK_IDS
    }

    /// The id of offset 0.
    pub(crate) fn base(&self) -> u64 {
        self.key * BLOCK_IDS
    }
}

/// Room for the contents of a block whose tag does not hold them as they are.
#[derive(Clone, Debug)]
pub(crate) struct Scratch {
    /// An array, a bitset, or runs.
    bytes: [u8; BITSET_BYTES],
    /// What is too much for an array or for runs.
    words: [u64; BLOCK_WORDS],
}

impl Scratch {
    pub(crate) const NEW: Self = Self { bytes: [0; BITSET_BYTES], words: [0; BLOCK_WORDS] };

    /// Turns the contents that stand in the bytes into words.
    fn spill(&mut self, contents: impl FnOnce(&[u8; BITSET_BYTES]) -> Contents<'_>) {
        contents(&self.bytes).copy_to(&mut self.words);
    }

    /// The words as a bitset.
    fn bitset(&mut self) -> Contents<'_> {
        let fields = self.bytes.as_chunks_mut().0.iter_mut();
        fields.zip(&self.words).for_each(|(field, word)| *field = word.to_le_bytes());
        Contents::Bitset(self.bytes.as_chunks().0)
    }
}

/// Where in a set one is.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a group that is being read stands in it: nothing is allocated")]
pub(crate) enum Blocks<'a> {
    Empty,
    Roaring(roaring::Containers<'a>),
    List {
        list: List<'a>,
        groups: list::Groups<'a>,
    },
    /// Of the next range the ids before `from` have been left behind.
    Ranges {
        ranges: Ranges<'a>,
        groups: ranges::Groups<'a>,
        from: u64,
    },
}

impl<'a> Blocks<'a> {
    /// Goes to the next block; what it holds stands in `scratch` or in the bytes of the set.
    pub(crate) fn next<'s>(&mut self, scratch: &'s mut Scratch) -> Option<Block<'s>>
    where
        'a: 's,
    {
        match self {
            Self::Empty => None,
            Self::Roaring(containers) => containers.next_block(),
            Self::List { groups, .. } => next_of_list(groups, scratch),
            Self::Ranges { groups, from, .. } => next_of_ranges(groups, from, scratch),
        }
    }

    /// Leaves out all blocks before `block`.
    pub(crate) fn skip_to(&mut self, block: u64) {
        let base = block * BLOCK_IDS;
        match self {
            Self::Empty => {}
            Self::Roaring(containers) => containers.skip_to(block),
            Self::List { list, groups } => {
                let jump = (!list.index.is_empty()).then_some(|| list.groups_from(base).0);
                groups.skip_to(base, jump);
            }
            Self::Ranges { ranges, groups, from } => {
                let jump = (!ranges.index.is_empty()).then_some(|| ranges.groups_from(base).0);
                groups.skip_to(base, jump);
                *from = (*from).max(base);
            }
        }
    }
}

fn next_of_list<'s>(groups: &mut list::Groups<'_>, scratch: &'s mut Scratch) -> Option<Block<'s>> {
    let key = groups.rest().first()? / BLOCK_IDS;
    let mut count = 0;
    loop {
        let ids = groups.rest();
        let of_block = match ids.last() {
            Some(last) if last / BLOCK_IDS == key => ids,
            _ => &ids[..ids.partition_point(|id| id / BLOCK_IDS == key)],
        };
        if of_block.is_empty() {
            break;
        }
        if count + of_block.len() <= MAX_ARRAY {
            let fields = &mut scratch.bytes.as_chunks_mut().0[count..];
            fields.iter_mut().zip(of_block).for_each(|(field, id)| *field = low(*id).to_le_bytes());
        } else {
            if count <= MAX_ARRAY {
                scratch.spill(|bytes| Contents::Array(&bytes.as_chunks().0[..count]));
            }
            of_block.iter().for_each(|id| mask::set(&mut scratch.words, id % BLOCK_IDS));
        }
        let passed = of_block.len();
        count += passed;
        groups.pass(passed);
    }
    let contents = if count <= MAX_ARRAY {
        Contents::Array(&scratch.bytes.as_chunks().0[..count])
    } else {
        scratch.bitset()
    };
    Some(Block { key, cardinality: count as u64, contents })
}

fn next_of_ranges<'s>(
    groups: &mut ranges::Groups<'_>,
    from: &mut u64,
    scratch: &'s mut Scratch,
) -> Option<Block<'s>> {
    let key = groups.rest().first()?.first.max(*from) / BLOCK_IDS;
    let last_of_block = key * BLOCK_IDS + (BLOCK_IDS - 1);
    let (mut runs, mut cardinality) = (0, 0);
    while let Some(&range) = groups.rest().first() {
        let first = range.first.max(*from);
        if first > last_of_block {
            break;
        }
        let last = range.last.min(last_of_block);
        cardinality += last - first + 1;
        if runs < MAX_RUNS {
            let [a, b] = low(first).to_le_bytes();
            let [c, d] = low(last - first).to_le_bytes();
            scratch.bytes.as_chunks_mut().0[runs] = [a, b, c, d];
        } else {
            if runs == MAX_RUNS {
                scratch.spill(|bytes| Contents::Runs(&bytes.as_chunks().0[..runs]));
            }
            mask::set_range(&mut scratch.words, first % BLOCK_IDS..last % BLOCK_IDS + 1);
        }
        runs += 1;
        if range.last > last_of_block {
            *from = last_of_block + 1;
            break;
        }
        groups.pass(1);
    }
    let contents = if runs <= MAX_RUNS {
        Contents::Runs(&scratch.bytes.as_chunks().0[..runs])
    } else {
        scratch.bitset()
    };
    Some(Block { key, cardinality, contents })
}
