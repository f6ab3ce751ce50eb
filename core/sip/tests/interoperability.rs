//! Tag 0x01 is byte for byte what the `roaring` crate writes.

mod shapes;

use basalt_sip::{Limits, Sip, Tag};
use roaring::RoaringTreemap;

/// The body as `roaring` writes it, from increasing ids and run-optimised.
fn theirs(ids: &[u64]) -> Vec<u8> {
    let mut treemap = RoaringTreemap::from_sorted_iter(ids.iter().copied()).unwrap();
    treemap.optimize();
    let mut bytes = vec![Tag::Roaring as u8];
    treemap.serialize_into(&mut bytes).unwrap();
    bytes
}

#[test]
fn we_write_what_roaring_writes() {
    for (name, ids) in shapes::all() {
        let sip = Sip::from_sorted_ids(&ids);
        if sip.tag() == Tag::Roaring {
            assert!(sip.as_bytes() == theirs(&ids), "{name}");
        }
    }
}

#[test]
fn we_read_what_roaring_writes() {
    for (name, ids) in shapes::all().into_iter().filter(|(_, ids)| !ids.is_empty()) {
        let sip = Sip::from_bytes(theirs(&ids), &Limits::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(sip.cardinality(), ids.len() as u64, "{name}");
        assert!(sip.iter().eq(ids), "{name}");
    }
}

#[test]
fn roaring_reads_what_we_write() {
    for (name, ids) in shapes::all() {
        let sip = Sip::from_sorted_ids(&ids);
        if sip.tag() == Tag::Roaring {
            let treemap = RoaringTreemap::deserialize_from(&sip.as_bytes()[1..]).unwrap();
            assert!(treemap.iter().eq(ids), "{name}");
        }
    }
}
