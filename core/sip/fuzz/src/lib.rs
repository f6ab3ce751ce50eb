//! What the fuzz targets do. Sets are compared with those of the naive writer of the tests.

use std::{collections::BTreeSet, ops::RangeInclusive};

use basalt_sip::{
    BLOCK_IDS, Builder, Limits, Sip, Tag, View,
    deletion_vector::{self, DeletionVectorError},
    frame,
};
use check::{check, words_of};
use croaring::{Bitmap64, Portable, Treemap};
use roaring::RoaringTreemap;

#[path = "../../tests/sip/check.rs"]
mod check;
#[path = "../../tests/sip/naive.rs"]
#[expect(dead_code, reason = "the tests make faulty bytes with it, too")]
mod naive;
pub mod script;

/// No case is slow: a few blocks of ids, a few thousand containers.
const LIMITS: Limits =
    Limits { body_bytes: 1 << 16, cardinality: 70_000, decoded_bytes: 1 << 20, buckets: 1 << 10 };

/// Ids of a set, at most, most sets being small.
fn most(byte: u8) -> usize {
    match byte {
        // Enough for a full block.
        255 => 70_000,
        // More than are kept whole for look-ups.
        240.. => 6_000,
        _ => 1_000,
    }
}

/// The ids of the script behind the first byte, which says how many they may be.
fn script_of(data: &[u8]) -> Vec<u64> {
    data.split_first().map_or_else(Vec::new, |(size, script)| script::run(script, most(*size)))
}

/// Sets written under `tag` in every way there is.
pub fn encode(tag: Tag, data: &[u8]) {
    let ids = script_of(data);
    let bytes = naive::write(tag as u8, &ids);
    let sip = Sip::from_sorted_ids_as(tag, &ids);
    assert!(sip.as_bytes() == bytes, "{tag}: {ids:?}");
    assert!(Sip::from_bytes(bytes, &Limits::NONE).unwrap() == sip);
    check(&sip, &ids);
    let ranges = naive::ranges_of(&ids).into_iter();
    assert!(Sip::from_ranges(ranges.clone().map(|(first, last)| first..=last)).to_tag(tag) == sip);
    let mut builder = Builder::new();
    for (first, last) in ranges {
        match last.checked_add(1) {
            Some(end) => builder.push_range(first, end),
            None => {
                builder.push_range(first, last);
                builder.push_words(last - last % BLOCK_IDS, &words_of(last - last % BLOCK_IDS, &[last]));
            }
        }
    }
    assert!(builder.finish_as(tag) == sip);
    let blocks: Vec<_> = ids
        .chunk_by(|a, b| a / BLOCK_IDS == b / BLOCK_IDS)
        .take(100)
        .map(|ids| (ids[0] - ids[0] % BLOCK_IDS, words_of(ids[0] - ids[0] % BLOCK_IDS, ids)))
        .collect();
    let masks = blocks.iter().map(|(base, words)| (*base, words.as_slice()));
    let held = Sip::from_masks_as(tag, masks);
    assert_eq!(held.cardinality(), held.iter().count() as u64);
    assert!(held.as_bytes() == naive::rewrite(&held));
    assert!(held.iter().eq(ids.iter().copied().take(held.iter().count())));
    for other in Tag::ALL {
        assert!(sip.to_tag(other).to_tag(tag) == sip);
    }
    let chosen = Sip::from_sorted_ids(&ids);
    assert!(chosen.to_tag(tag) == sip && chosen.as_bytes() == naive::rewrite(&chosen));
}

/// Bytes that nobody has vouched for.
pub fn open(data: &[u8]) {
    let view = View::open(data, &LIMITS);
    let sip = Sip::from_bytes(data, &LIMITS);
    assert_eq!(view.as_ref().err(), sip.as_ref().err());
    if let (Ok(view), Ok(sip)) = (view, sip) {
        let ids: Vec<u64> = view.iter().collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert!(naive::write(view.tag() as u8, &ids) == data, "accepted, not canonical");
        assert!(sip.heap_bytes() <= 2 * data.len() + (48 << 10) + 256);
        check(&sip, &ids);
    }
}

/// Frames one behind the other, each a SIP or not.
pub fn frame(mut data: &[u8]) {
    while let Ok((sip, rest)) = frame::read(data, &LIMITS) {
        let mut again = Vec::new();
        frame::write(sip, &mut again);
        assert_eq!([&again, rest].concat(), data);
        open(sip);
        data = rest;
    }
}

/// What we accept as 0x01 the libraries read as the same set and write as the same bytes; what they accept is
/// canonical for us once it is written from its ids.
pub fn libraries(data: &[u8]) {
    let sip = [&[Tag::Roaring as u8], data].concat();
    let ours = View::open(&sip, &LIMITS);
    if let Ok(view) = ours {
        let treemap = RoaringTreemap::deserialize_from(data).unwrap();
        assert!(treemap.iter().eq(view.iter()));
        assert_eq!(Treemap::try_deserialize::<Portable>(data).unwrap().cardinality(), view.cardinality());
        let bitmap = Bitmap64::try_deserialize::<Portable>(data).unwrap();
        assert!(bitmap.iter().eq(view.iter()));
        same_bytes(&view.iter().collect::<Vec<_>>(), data);
    } else if let Ok(treemap) = RoaringTreemap::deserialize_from(data)
        && treemap.len() <= LIMITS.cardinality
        && !treemap.is_empty()
    {
        let ids: Vec<u64> = treemap.iter().collect();
        if ids.is_sorted_by(|a, b| a < b) {
            same_bytes(&ids, &Sip::from_sorted_ids_as(Tag::Roaring, &ids).as_bytes()[1..]);
        }
    }
    // The same bytes as a script, so that there are always sets.
    let ids = script_of(data);
    if !ids.is_empty() {
        same_bytes(&ids, &Sip::from_sorted_ids_as(Tag::Roaring, &ids).as_bytes()[1..]);
    }
}

/// That the libraries write `ids` as `body`.
fn same_bytes(ids: &[u64], body: &[u8]) {
    let mut treemap = RoaringTreemap::from_sorted_iter(ids.iter().copied()).unwrap();
    treemap.optimize();
    let mut bytes = Vec::new();
    treemap.serialize_into(&mut bytes).unwrap();
    assert!(bytes == body, "roaring: {ids:?}");
    let mut treemap: Treemap = ids.iter().copied().collect();
    treemap.run_optimize();
    assert!(treemap.serialize::<Portable>() == body, "Treemap: {ids:?}");
    let mut bitmap: Bitmap64 = ids.iter().copied().collect();
    bitmap.run_optimize();
    assert!(bitmap.serialize::<Portable>() == body, "Bitmap64: {ids:?}");
}

/// The first two bytes are the tags and how much of the second set is in the first; the rest are two scripts.
pub fn operations(data: &[u8]) {
    let [tags, shared, rest @ ..] = data else { return };
    let (left, right) = rest.split_at(rest.len() / 2);
    let most = most(*shared);
    let a: BTreeSet<u64> = script::run(left, most).into_iter().collect();
    let mut b: BTreeSet<u64> = script::run(right, most).into_iter().collect();
    if let shared @ 1.. = usize::from(shared % 8) {
        b.extend(a.iter().step_by(shared));
    }
    let tag = |i: u8| Tag::ALL[usize::from(i % 5)];
    let make =
        |tag, ids: &BTreeSet<u64>| Sip::from_sorted_ids_as(tag, &ids.iter().copied().collect::<Vec<_>>());
    let (x, y) = (make(tag(tags / 5), &a), make(tag(*tags), &b));
    let bare = |sip: &Sip| View::open(sip.as_bytes(), &Limits::NONE).unwrap().iter().collect::<Vec<_>>();
    let same = |sip: Sip, ids: BTreeSet<u64>| {
        assert!(bare(&sip).into_iter().eq(ids.iter().copied()), "{:?} {:?}", x, y);
        assert!(sip.as_bytes() == naive::rewrite(&sip));
        assert_eq!(sip.cardinality(), ids.len() as u64);
    };
    same(x.intersection(&y), &a & &b);
    same(x.union(&y), &a | &b);
    same(x.difference(&y), &a - &b);
    same(y.difference(&x), &b - &a);
    same(Sip::union_all([&x, &y]), &a | &b);
    let unindexed = View::open(x.as_bytes(), &Limits::NONE).unwrap();
    same(unindexed.intersection(&y.view()), &a & &b);
    same(y.view().difference(&unindexed), &b - &a);
    let ranges = |ids: &BTreeSet<u64>| -> Vec<RangeInclusive<u64>> {
        let ids: Vec<u64> = ids.iter().copied().collect();
        naive::ranges_of(&ids).into_iter().map(|(first, last)| first..=last).collect()
    };
    same(Sip::from_ranges([ranges(&a), ranges(&b)].concat()), &a | &b);
}

/// Deletion vectors: around any bytes, around any bitmap, and of sets.
pub fn deletion_vector(data: &[u8]) {
    let read = |blob: &[u8]| {
        let set = deletion_vector::read(blob, &LIMITS)?;
        let ids: Vec<u64> = set.iter().collect();
        check(&set, &ids);
        let written = deletion_vector::write(&set.view())?;
        assert!(deletion_vector::read(&written, &Limits::NONE)? == set);
        Ok::<_, DeletionVectorError>(ids)
    };
    let _ = read(data);
    let hashed = [&[0xd1, 0xd3, 0x39, 0x64], data].concat();
    let length = u32::try_from(hashed.len()).unwrap().to_be_bytes();
    let checksum = crc32fast::hash(&hashed).to_be_bytes();
    match read(&[&length, hashed.as_slice(), &checksum].concat()) {
        Ok(ids) => {
            let treemap = RoaringTreemap::deserialize_from(data).unwrap();
            assert!(treemap.iter().eq(ids));
        }
        Err(DeletionVectorError::Bitmap(_) | DeletionVectorError::Position { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let set = Sip::from_sorted_ids(&script_of(data));
    match deletion_vector::write(&set.view()) {
        Ok(blob) => assert!(deletion_vector::read(&blob, &Limits::NONE).unwrap().to_tag(set.tag()) == set),
        Err(_) => assert!(set.last() > Some(u64::MAX / 2)),
    }
}
