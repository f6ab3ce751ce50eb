//! Sets of each shape under each tag.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::Valid;
use crate::{
    naive,
    shapes::{self, Shape},
};

/// Ranges that the index lists, at most.
const LISTED: usize = 64;
/// Bytes of a vector, at most.
const BYTES: usize = 9000;

/// Names of the shapes that are vectors.
const NAMES: &[&str] = &[
    "zero",
    "greatest",
    "both ends",
    "block edges",
    "powers of two",
    "halves",
    "quarters",
    "first block",
    "last block",
    "1 ids in 1 runs",
    "4 ids in 1 runs",
    "4 ids in 4 runs",
    "9 ids in 2 runs",
    "4096 ids in 2046 runs",
    "4096 ids in 4096 runs",
    "4097 ids in 2046 runs",
    "4097 ids in 2047 runs",
    "65535 ids in 2 runs",
    "1 containers of bitsets",
    "3 containers of arrays and runs",
    "4 containers of arrays and runs",
    "8 containers of runs",
    "9 containers of runs",
    "17 containers of arrays",
    "17 containers of runs",
    "127 near ids",
    "128 near ids",
    "129 near ids",
    "256 far ids",
    "257 far ids",
    "127 short ranges",
    "128 short ranges",
    "129 short ranges",
    "256 ranges of all lengths",
    "257 ranges of all lengths",
    "period 3",
    "period 64",
    "period 65536",
    "period 8589934592",
    "runs of 64",
    "runs of about 64",
    "bimodal 17",
    "bimodal 1048576",
    "bimodal 1125899906842624",
    "gaps of 1 bits",
    "gaps of 48 bits",
    "uniform 10",
    "uniform 1000",
    "sparse 1000",
    "dense 1000",
];

pub(super) fn all() -> Vec<(Valid, Vec<u8>)> {
    let mut vectors = vec![vector(0, &("empty".to_owned(), Vec::new()))];
    let mut left: Vec<&str> = NAMES.to_vec();
    for shape in shapes::all() {
        if let Some(at) = left.iter().position(|name| *name == shape.0) {
            left.remove(at);
            vectors.extend(naive::TAGS.map(|tag| vector(tag, &shape)));
        }
    }
    assert!(left.is_empty(), "no shapes: {left:?}");
    vectors.retain(|(_, bytes)| bytes.len() <= BYTES);
    vectors
}

fn vector(tag: u8, (shape, ids): &Shape) -> (Valid, Vec<u8>) {
    let name = format!("{tag:02x} {shape}");
    let ranges = naive::ranges_of(ids);
    let listed = || ranges.iter().map(|(first, last)| [first.to_string(), last.to_string()]).collect();
    let vector = Valid {
        file: format!("valid/{}.sip", name.replace(' ', "-")),
        name,
        tag,
        cardinality: ids.len() as u64,
        first: ids.first().map(u64::to_string),
        last: ids.last().map(u64::to_string),
        sha256: sha256(ids),
        ranges: (ranges.len() <= LISTED).then(listed),
    };
    (vector, naive::write(tag, ids))
}

pub(super) fn sha256(ids: &[u64]) -> String {
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
