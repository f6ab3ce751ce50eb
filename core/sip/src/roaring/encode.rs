//! Writing containers, each of the smallest kind.

use basalt_kernels::mask as kernels;

use super::{
    container::{BITSET_BYTES, Container, MAX_ARRAY},
    low,
};
use crate::{
    BLOCK_IDS, BLOCK_WORDS,
    contents::{Contents, run_of},
    mask,
};

/// Room that extracting positions likes to have behind the last.
const SLACK: usize = 64;

/// The container that a mask (at most [`BLOCK_WORDS`] words, the rest 0) makes, which stands nowhere yet;
/// `None` if it is empty.
pub(crate) fn measure(block: u64, words: &[u64]) -> Option<Container> {
    let (cardinality, runs) = kernels::count_runs(words);
    (cardinality > 0).then(|| Container::smallest(block, 0, cardinality, runs))
}

/// Appends the container that was measured of a mask.
pub(crate) fn encode_measured(container: &Container, words: &[u64], out: &mut Vec<u8>) {
    if container.is_full() {
        encode_full(container.block(), out);
    } else if container.has_runs() {
        out.extend_from_slice(&container.runs().to_le_bytes());
        mask::for_each_run(words.iter().copied(), |first, last| put_run(first, last, out));
    } else if container.cardinality() <= MAX_ARRAY as u64 {
        let mut offsets = [0; MAX_ARRAY + SLACK];
        let count = kernels::positions(words, &mut offsets);
        put_offsets(&offsets[..count], out);
    } else {
        let at = out.len();
        out.extend_from_slice(kernels::as_bytes(words));
        out.resize(at + BITSET_BYTES, 0);
    }
}

/// Appends the container of a mask (at most [`BLOCK_WORDS`] words, the rest 0); `None` if it is empty.
pub(crate) fn encode_words(block: u64, words: &[u64], out: &mut Vec<u8>) -> Option<Container> {
    let container = measure(block, words)?.moved_to(out.len());
    encode_measured(&container, words, out);
    Some(container)
}

/// Appends the container of ids of one block, strictly increasing; `None` if there are none.
pub(crate) fn encode_ids(block: u64, ids: &[u64], out: &mut Vec<u8>) -> Option<Container> {
    if ids.len() > MAX_ARRAY {
        let mut words = [0; BLOCK_WORDS];
        ids.iter().for_each(|id| mask::set(&mut words, id % BLOCK_IDS));
        return encode_words(block, &words, out);
    }
    let put = |ids: &[u64], out: &mut Vec<u8>| {
        let at = out.len();
        out.resize(at + 2 * ids.len(), 0);
        for (field, &id) in out[at..].as_chunks_mut().0.iter_mut().zip(ids) {
            *field = low(id).to_le_bytes();
        }
    };
    encode_few(block, ids, |id| id, put, out)
}

/// Appends the container of increasing offsets, at most [`MAX_ARRAY`]; `None` if there are none.
pub(crate) fn encode_array(block: u64, offsets: &[[u8; 2]], out: &mut Vec<u8>) -> Option<Container> {
    let put = |offsets: &[[u8; 2]], out: &mut Vec<u8>| out.extend_from_slice(offsets.as_flattened());
    encode_few(block, offsets, |field| u16::from_le_bytes(field).into(), put, out)
}

/// Appends runs, or the array that `put` writes, of at most [`MAX_ARRAY`] members that increase.
fn encode_few<T: Copy>(
    block: u64,
    members: &[T],
    id: impl Fn(T) -> u64,
    put: impl FnOnce(&[T], &mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Option<Container> {
    let cardinality = members.len() as u64;
    let touch = |a: T, b: T| id(b) - id(a) == 1;
    let pairs = members.iter().zip(members.iter().skip(1));
    let touching: u64 = pairs.map(|(&a, &b)| u64::from(touch(a, b))).sum();
    let container = (cardinality > 0)
        .then(|| Container::smallest(block, out.len(), cardinality, cardinality - touching))?;
    if container.has_runs() {
        out.extend_from_slice(&container.runs().to_le_bytes());
        for run in members.chunk_by(|&a, &b| touch(a, b)) {
            put_run(id(run[0]), id(run[run.len() - 1]), out);
        }
    } else {
        put(members, out);
    }
    Some(container)
}

/// Appends the container of increasing runs that do not touch; `None` if there are none.
pub(crate) fn encode_runs(block: u64, runs: &[[u8; 4]], out: &mut Vec<u8>) -> Option<Container> {
    let cardinality = runs.iter().map(|&run| run_of(run).end - run_of(run).start).sum();
    let container =
        (cardinality > 0).then(|| Container::smallest(block, out.len(), cardinality, runs.len() as u64))?;
    if container.has_runs() {
        out.extend_from_slice(&container.runs().to_le_bytes());
        out.extend_from_slice(runs.as_flattened());
    } else {
        let mut words = [0; BLOCK_WORDS];
        runs.iter().for_each(|&run| mask::set_range(&mut words, run_of(run)));
        encode_measured(&container, &words, out);
    }
    Some(container)
}

/// Appends the container of contents in any form.
pub(crate) fn encode_contents(block: u64, contents: Contents<'_>, out: &mut Vec<u8>) -> Option<Container> {
    match contents {
        Contents::Array(offsets) => encode_array(block, offsets, out),
        Contents::Runs(runs) => encode_runs(block, runs, out),
        Contents::Bitset(_) => {
            let mut words = [0; BLOCK_WORDS];
            contents.copy_to(&mut words);
            encode_words(block, &words, out)
        }
    }
}

/// Appends the container of all ids of a block.
pub(crate) fn encode_full(block: u64, out: &mut Vec<u8>) -> Container {
    let at = out.len();
    out.extend_from_slice(&[1, 0, 0, 0, 0xff, 0xff]);
    Container::described(block, at, BLOCK_IDS, 1)
}

fn put_run(first: u64, last: u64, out: &mut Vec<u8>) {
    let [a, b] = low(first).to_le_bytes();
    let [c, d] = low(last - first).to_le_bytes();
    out.extend_from_slice(&[a, b, c, d]);
}

fn put_offsets(offsets: &[u16], out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + 2 * offsets.len(), 0);
    for (field, offset) in out[at..].as_chunks_mut().0.iter_mut().zip(offsets) {
        *field = offset.to_le_bytes();
    }
}
