//! Both tags written the obvious way: 0x01 by the `roaring` crate, 0x02 id by id.

use basalt_sip::{Sip, Tag};
use roaring::RoaringTreemap;

/// Increasing ids under tag 0x01: arrays and bitsets first, then `optimize`.
pub(crate) fn roaring(ids: &[u64]) -> Vec<u8> {
    let mut treemap = RoaringTreemap::from_sorted_iter(ids.iter().copied()).unwrap();
    treemap.optimize();
    let mut bytes = vec![Tag::Roaring as u8];
    treemap.serialize_into(&mut bytes).unwrap();
    bytes
}

/// Increasing ids under tag 0x02.
pub(crate) fn varint_delta(ids: &[u64]) -> Vec<u8> {
    let firsts = ids.first().copied();
    let deltas = ids.windows(2).map(|pair| pair[1] - pair[0]);
    let mut bytes = vec![Tag::VarintDelta as u8];
    for mut value in [ids.len() as u64].into_iter().chain(firsts).chain(deltas) {
        loop {
            let bits = u8::try_from(value % 128).unwrap();
            value /= 128;
            bytes.push(if value > 0 { bits + 128 } else { bits });
            if value == 0 {
                break;
            }
        }
    }
    bytes
}

/// The set of `sip` under its own tag.
pub(crate) fn rewrite(sip: &Sip) -> Vec<u8> {
    let ids: Vec<u64> = sip.iter().collect();
    match sip.tag() {
        Tag::Empty => vec![Tag::Empty as u8],
        Tag::Roaring => roaring(&ids),
        Tag::VarintDelta => varint_delta(&ids),
    }
}
