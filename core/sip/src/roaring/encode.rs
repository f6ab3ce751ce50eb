//! Writing containers, each of the smallest kind.

use super::{
    container::{BITSET_BYTES, Container, MAX_ARRAY, runs_are_smallest},
    low,
};
use crate::{BLOCK_IDS, BLOCK_WORDS, mask};

/// Appends the container of a mask (at most [`BLOCK_WORDS`] words, the rest 0); `None` if it is empty.
pub(crate) fn encode_words(block: u64, words: &[u64], out: &mut Vec<u8>) -> Option<Container> {
    let (cardinality, runs) = mask::count(words.iter().copied());
    let at = out.len();
    if cardinality == 0 {
        return None;
    }
    if runs_are_smallest(cardinality, runs) {
        let runs = low(runs);
        put(runs, out);
        write_runs(words, out);
        return Some(Container::new(block, at, cardinality, runs));
    }
    if cardinality <= MAX_ARRAY {
        for (i, &word) in words.iter().enumerate() {
            mask::bits(i, word).for_each(|offset| put(offset, out));
        }
    } else {
        out.reserve(BITSET_BYTES);
        for word in words {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.resize(at + BITSET_BYTES, 0);
    }
    Some(Container::new(block, at, cardinality, 0))
}

/// Appends the container of ids of one block, strictly increasing; `None` if there are none.
pub(crate) fn encode_ids(block: u64, ids: &[u64], out: &mut Vec<u8>) -> Option<Container> {
    let at = out.len();
    let cardinality = ids.len() as u64;
    let runs = ids.chunk_by(|a, b| b - a == 1);
    let count = runs.clone().count() as u64;
    if cardinality > MAX_ARRAY {
        let mut words = [0; BLOCK_WORDS];
        ids.iter().for_each(|id| mask::set(&mut words, id % BLOCK_IDS));
        encode_words(block, &words, out)
    } else if runs_are_smallest(cardinality, count) {
        put(low(count), out);
        for run in runs {
            put(low(run[0]), out);
            put(low(run.len() as u64 - 1), out);
        }
        Some(Container::new(block, at, cardinality, low(count)))
    } else {
        ids.iter().for_each(|&id| put(low(id), out));
        (cardinality > 0).then(|| Container::new(block, at, cardinality, 0))
    }
}

/// Appends the container of all ids of a block.
pub(crate) fn encode_full(block: u64, out: &mut Vec<u8>) -> Container {
    let at = out.len();
    [1, 0, u16::MAX].into_iter().for_each(|field| put(field, out));
    Container::new(block, at, BLOCK_IDS, 1)
}

/// Appends the runs of a mask: the first offset of each and the number of offsets behind it.
fn write_runs(words: &[u64], out: &mut Vec<u8>) {
    let mut open: Option<u16> = None;
    let mut carry = 0;
    for (i, &word) in words.iter().enumerate() {
        // A bit that differs from the one before it begins a run or ends one.
        for edge in mask::bits(i, word ^ (word << 1 | carry)) {
            match open.take() {
                None => open = Some(edge),
                Some(first) => {
                    put(first, out);
                    put(edge - 1 - first, out);
                }
            }
        }
        carry = word >> 63;
    }
    if let Some(first) = open {
        put(first, out);
        put(low(words.len() as u64 * 64 - 1) - first, out);
    }
}

fn put(field: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&field.to_le_bytes());
}
