//! Our bytes are those of the naive writers, and theirs are read.

use basalt_sip::{Limits, Sip, Tag};
use roaring::RoaringTreemap;

use crate::{naive, shapes};

#[test]
fn we_write_what_they_write() {
    for (name, ids) in shapes::all() {
        let sip = Sip::from_sorted_ids(&ids);
        assert!(sip.as_bytes() == naive::rewrite(&sip), "{name}");
        assert!(sip.iter().eq(ids), "{name}");
    }
}

/// A block that roaring holds far better makes 0x01 the tag of small sets too.
#[test]
fn we_write_what_roaring_writes() {
    let dense = shapes::block(u64::MAX - 65_535, 5000, 5000);
    let mut sets = 0;
    for (name, mut ids) in shapes::all() {
        ids.retain(|id| *id < dense[0]);
        ids.extend(&dense);
        let sip = Sip::from_sorted_ids(&ids);
        if sip.tag() == Tag::Roaring {
            assert!(sip.as_bytes() == naive::roaring(&ids), "{name}");
            sets += 1;
        }
    }
    assert!(sets > 150, "{sets} sets");
}

#[test]
fn we_read_what_they_write() {
    for (name, ids) in shapes::all().into_iter().filter(|(_, ids)| !ids.is_empty()) {
        for bytes in naive::TAGS.map(|tag| naive::write(tag, &ids)) {
            let sip = Sip::from_bytes(bytes.as_slice(), &Limits::default())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(sip.cardinality(), ids.len() as u64, "{name}");
            assert!(sip.as_bytes() == bytes && sip.iter().eq(ids.iter().copied()), "{name}");
        }
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

/// The smaller tag is taken where it is far smaller, and clustered sets stay with 0x01.
#[test]
fn the_tag_follows_the_shape() {
    for (name, ids) in shapes::all().into_iter().filter(|(_, ids)| !ids.is_empty()) {
        let (roaring, varint) = (naive::roaring(&ids).len(), naive::varint_delta(&ids).len());
        let sip = Sip::from_sorted_ids(&ids);
        assert!(sip.as_bytes().len() <= roaring, "{name}: {roaring} bytes of roaring");
        match sip.tag() {
            Tag::Empty => panic!("{name}: {} ids", ids.len()),
            Tag::Roaring => assert!(roaring < 4 * varint + 8, "{name}: {varint} bytes of varints"),
            Tag::VarintDelta => assert!(2 * varint <= roaring, "{name}: {roaring} bytes of roaring"),
        }
    }
    assert_eq!(Sip::from_sorted_ids(&[]).tag(), Tag::Empty);
}
