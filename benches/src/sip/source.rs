//! The source's three encodings, with its ways: everything is decoded, probes are binary searches, intersections
//! merge, and a roaring bitmap is filled id by id and never asked for run containers.

use roaring::RoaringTreemap;

use super::encoding::{Bytes, Encoding, Operation};

/// Eight bytes for each id.
#[derive(Debug)]
pub struct Raw;

/// The number of ids, then their differences, as varints.
#[derive(Debug)]
pub struct VarintDelta;

/// `RoaringTreemap::extend` and `serialize_into`.
#[derive(Debug)]
pub struct Roaring;

impl Encoding for Raw {
    const NAME: &'static str = "raw-LE";
    type Set = Vec<u64>;
    type Answer = Vec<u64>;

    fn encode(ids: &[u64]) -> Bytes {
        Bytes::Vec(ids.iter().flat_map(|id| id.to_le_bytes()).collect())
    }

    fn decode(bytes: &[u8]) -> Vec<u64> {
        bytes.as_chunks().0.iter().map(|&id| u64::from_le_bytes(id)).collect()
    }

    fn contains(set: &Vec<u64>, id: u64) -> bool {
        set.binary_search(&id).is_ok()
    }

    fn intersect_ids(set: &Vec<u64>, ids: &[u64]) -> Vec<u64> {
        Operation::Intersection.merge(set, ids)
    }

    fn combine(operation: Operation, a: &Vec<u64>, b: &Vec<u64>) -> Vec<u64> {
        operation.merge(a, b)
    }

    fn write(answer: Vec<u64>) -> Bytes {
        Self::encode(&answer)
    }

    fn ids(set: &Vec<u64>) -> Vec<u64> {
        set.clone()
    }
}

impl Encoding for VarintDelta {
    const NAME: &'static str = "varint-delta";
    type Set = Vec<u64>;
    type Answer = Vec<u64>;

    fn encode(ids: &[u64]) -> Bytes {
        let mut out = Vec::with_capacity(2 * ids.len());
        put_varint(ids.len() as u64, &mut out);
        let mut last = 0;
        for &id in ids {
            put_varint(id - last, &mut out);
            last = id;
        }
        Bytes::Vec(out)
    }

    fn decode(mut bytes: &[u8]) -> Vec<u64> {
        let n = take_varint(&mut bytes);
        let mut id = 0;
        let ids = (0..n).map(|_| {
            id += take_varint(&mut bytes);
            id
        });
        ids.collect()
    }

    fn contains(set: &Vec<u64>, id: u64) -> bool {
        Raw::contains(set, id)
    }

    fn intersect_ids(set: &Vec<u64>, ids: &[u64]) -> Vec<u64> {
        Raw::intersect_ids(set, ids)
    }

    fn combine(operation: Operation, a: &Vec<u64>, b: &Vec<u64>) -> Vec<u64> {
        Raw::combine(operation, a, b)
    }

    fn write(answer: Vec<u64>) -> Bytes {
        Self::encode(&answer)
    }

    fn ids(set: &Vec<u64>) -> Vec<u64> {
        set.clone()
    }
}

/// Appends a LEB128.
#[allow(clippy::cast_possible_truncation, reason = "seven bits at a time")]
pub fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a LEB128 off the front; bytes that are missing are 0.
pub fn take_varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    let mut shift = 0;
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    value
}

impl Encoding for Roaring {
    const NAME: &'static str = "roaring";
    type Set = RoaringTreemap;
    type Answer = RoaringTreemap;

    fn encode(ids: &[u64]) -> Bytes {
        Bytes::Vec(serialize(&extend(ids)))
    }

    fn decode(bytes: &[u8]) -> RoaringTreemap {
        RoaringTreemap::deserialize_from(bytes).unwrap()
    }

    fn contains(set: &RoaringTreemap, id: u64) -> bool {
        set.contains(id)
    }

    fn intersect_ids(set: &RoaringTreemap, ids: &[u64]) -> RoaringTreemap {
        set & &extend(ids)
    }

    fn combine(operation: Operation, a: &RoaringTreemap, b: &RoaringTreemap) -> RoaringTreemap {
        match operation {
            Operation::Intersection => a & b,
            Operation::Union => a | b,
            Operation::Difference => a - b,
        }
    }

    fn write(answer: RoaringTreemap) -> Bytes {
        Bytes::Vec(serialize(&answer))
    }

    fn ids(set: &RoaringTreemap) -> Vec<u64> {
        set.iter().collect()
    }
}

fn extend(ids: &[u64]) -> RoaringTreemap {
    let mut set = RoaringTreemap::new();
    set.extend(ids.iter().copied());
    set
}

/// The portable format.
fn serialize(set: &RoaringTreemap) -> Vec<u8> {
    let mut out = Vec::with_capacity(set.serialized_size());
    set.serialize_into(&mut out).unwrap();
    out
}
