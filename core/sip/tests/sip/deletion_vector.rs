//! Deletion vectors against those that pyroaring and zlib made: `python/check_pyroaring.py`.

use std::{collections::BTreeSet, fs, path::Path};

use basalt_sip::{
    Limits, Sip, SipError, Tag,
    deletion_vector::{DeletionVectorError, read, write},
};

use crate::{
    format::hex,
    naive::{self, Kinds},
    shapes,
};

/// A blob around positions that start with the number of buckets.
fn blob(positions: &[u8]) -> Vec<u8> {
    let hashed = [&hex("d1d33964"), positions].concat();
    let length = u32::try_from(hashed.len()).unwrap().to_be_bytes();
    let checksum = crc32(&hashed).to_be_bytes();
    [&length, hashed.as_slice(), &checksum].concat()
}

/// Bit by bit, as ISO 3309 has it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

fn error(positions: &str) -> SipError {
    match read(&blob(&hex(positions)), &Limits::default()) {
        Err(DeletionVectorError::Bitmap(error)) => error,
        other => panic!("{positions}: {other:?}"),
    }
}

#[test]
fn other_writers_are_read_and_matched() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut kinds = BTreeSet::new();
    for entry in fs::read_dir(folder.join("deletion-vectors")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let [set, kind, "bin"] = name.split('.').collect::<Vec<_>>()[..] else { panic!("{name}") };
        let tag = if set == "empty" { "00" } else { "01" };
        let expected = fs::read(folder.join(format!("valid/{tag}-{set}.sip"))).unwrap();
        let expected = Sip::from_bytes(expected, &Limits::default()).unwrap();
        let blob = fs::read(&path).unwrap();
        let found = read(&blob, &Limits::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(found.to_tag(expected.tag()), expected, "{name}");
        if kind == "runs" {
            assert!(write(&found.view()).unwrap() == blob, "{name}");
        }
        kinds.insert(kind.to_owned());
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["dense", "plain", "runs"]);
}

#[test]
fn what_is_written_is_read_from_any_containers() {
    for (name, ids) in shapes::all().into_iter().filter(|(_, ids)| ids.last() < Some(&(1 << 63))) {
        let sip = Sip::from_sorted_ids(&ids);
        for tag in Tag::ALL {
            let written = write(&sip.to_tag(tag).view()).unwrap();
            let found = read(&written, &Limits::default()).unwrap();
            assert_eq!(found.to_tag(sip.tag()), sip, "{name} under {tag}");
        }
        if !ids.is_empty() {
            let kinds = [Kinds::None, Kinds::All];
            for positions in kinds.map(|kinds| naive::concat(&naive::roaring(&ids, kinds)[1..])) {
                let found = read(&blob(&positions), &Limits::default()).unwrap();
                assert_eq!(found.to_tag(sip.tag()), sip, "{name}");
            }
        }
    }
}

#[test]
fn the_frame_is_checked() {
    let good = write(&Sip::from_sorted_ids(&[1, 3]).view()).unwrap();
    assert_eq!(
        good,
        hex(
            "00000024 d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0100 0300 683497a9"
        )
    );
    for length in 0..12 {
        let at = if length < 4 { 0 } else { 4 };
        let truncated = SipError::Truncated { at, need: 12 - at };
        assert_eq!(read(&good[..length], &Limits::default()), Err(DeletionVectorError::Bitmap(truncated)));
    }
    for i in 0..good.len() {
        let mut bytes = good.clone();
        bytes[i] ^= 0x10;
        let error = read(&bytes, &Limits::default()).unwrap_err();
        assert!(
            match i {
                0..4 => matches!(error, DeletionVectorError::Length { found: 36, .. }),
                4..8 => matches!(error, DeletionVectorError::Magic { .. }),
                _ => matches!(error, DeletionVectorError::Checksum { .. }),
            },
            "byte {i}: {error}"
        );
    }
    let longer = [good.as_slice(), &[0]].concat();
    let error = DeletionVectorError::Length { declared: 36, found: 37 };
    assert_eq!(read(&longer, &Limits::default()), Err(error));
}

#[test]
fn positions_end_at_2_to_the_63() {
    let last = 1 << 63;
    assert!(write(&Sip::from_sorted_ids(&[0, last - 1]).view()).is_ok());
    let error = Err(DeletionVectorError::Position { position: last });
    assert_eq!(write(&Sip::from_sorted_ids(&[0, last]).view()), error);
    let positions = naive::write(0x01, &[0, last]);
    assert_eq!(read(&blob(&positions[1..]), &Limits::default()).map(|_| Vec::new()), error);
}

#[test]
fn bitmaps_are_checked() {
    assert!(read(&blob(&[0; 8]), &Limits::default()).unwrap().is_empty());
    let empty = "3a300000 00000000";
    let one = "3a300000 01000000 0000 0000 10000000 0700";
    let set =
        read(&blob(&hex(&format!("0200000000000000 00000000 {empty} 01000000 {one}"))), &Limits::default());
    assert_eq!(set.unwrap(), Sip::from_sorted_ids(&[(1 << 32) + 7]));
    assert_eq!(error("01000000"), SipError::Truncated { at: 8, need: 8 });
    assert_eq!(error("0200000000000000 00000000"), SipError::Truncated { at: 16, need: 24 });
    assert_eq!(error("0000000000000000 00"), SipError::TrailingBytes { at: 16 });
    let again = format!("0200000000000000 05000000 {empty} 05000000 {one}");
    assert_eq!(error(&again), SipError::Order { at: 28, what: "bucket" });
    let runs = |runs: &str| format!("0100000000000000 00000000 3b300000 01 0000 0400 0200 {runs}");
    assert_eq!(error(&runs("0000 0200 0200 0100")), SipError::Run { at: 35 });
    assert_eq!(error(&runs("0000 0200 0500 0000")), SipError::Cardinality { at: 29, declared: 5, found: 4 });
    let buckets = error("ffffffffffffffff");
    assert!(matches!(buckets, SipError::LimitExceeded { at: 8, what: "buckets", .. }));
}

#[test]
fn limits_hold() {
    type Change = fn(&mut Limits, usize);
    let blob = write(&Sip::from_ranges([0..=9, 1 << 40..=1 << 40]).view()).unwrap();
    let body = blob.len() - 12;
    let limits = |change: Change, n| {
        let mut limits = Limits::NONE;
        change(&mut limits, n);
        limits
    };
    let cases: [(Change, usize, &str); 4] = [
        (|limits, n| limits.body_bytes = n, body, "body_bytes"),
        (|limits, n| limits.buckets = n, 2, "buckets"),
        (|limits, n| limits.cardinality = n as u64, 11, "cardinality"),
        (|limits, n| limits.decoded_bytes = n as u64, body + 2 * 128 + 2 * 64, "decoded_bytes"),
    ];
    for (change, n, name) in cases {
        read(&blob, &limits(change, n)).unwrap();
        match read(&blob, &limits(change, n - 1)) {
            Err(DeletionVectorError::Bitmap(SipError::LimitExceeded { what, .. })) => assert_eq!(what, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}
