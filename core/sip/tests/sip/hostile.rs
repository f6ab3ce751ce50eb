//! Bytes that are no canonical SIP: a typed error with its place, never a panic, never another set.

use std::{collections::BTreeSet, fs, path::Path};

use basalt_sip::{Limits, Sip, SipError, View, frame};

use crate::{format::hex, naive, shapes};

/// One bucket with key 0 and two ids, 1 and 3, in an array.
const ARRAY: &str = "01 0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0100 0300";
/// The same with ids 0 to 99 in one run.
const RUN: &str = "01 0100000000000000 00000000 3b300000 01 0000 6300 0100 0000 6300";

fn read(text: &str, limits: &Limits) -> SipError {
    Sip::from_bytes(hex(text), limits).err().unwrap_or_else(|| panic!("{text} is accepted"))
}

fn invalid() -> Vec<(String, SipError)> {
    let two_buckets = |second: &str| {
        let bucket = "3a300000 01000000 0000 0000 10000000 0700";
        format!("01 0200000000000000 05000000 {bucket} {second}000000 {bucket}")
    };
    let two_containers = |second: &str| {
        format!(
            "01 0100000000000000 00000000 3a300000 02000000 0500 0000 {second}00 0000 18000000 1a000000 0700 0700"
        )
    };
    let runs = |cardinality: &str, runs: &str| {
        format!("01 0100000000000000 00000000 3b300000 01 0000 {cardinality} 0200 {runs}")
    };
    let bitset = |words: &str| {
        let header = "01 0100000000000000 00000000 3a300000 01000000 0000 0010 10000000";
        format!("{header} {words} {}", "0".repeat(16_384 - words.len()))
    };
    let cases = [
        ("", SipError::Truncated { at: 0, need: 1 }),
        ("01 01", SipError::Truncated { at: 1, need: 8 }),
        ("01 0100000000000000", SipError::Truncated { at: 9, need: 19 }),
        (&ARRAY[..ARRAY.len() - 2], SipError::Truncated { at: 29, need: 4 }),
        ("02", SipError::Truncated { at: 1, need: 1 }),
        ("02 02 07", SipError::Truncated { at: 2, need: 2 }),
        ("02 02 80 80", SipError::Truncated { at: 4, need: 1 }),
        ("05", SipError::UnknownTag { tag: 5 }),
        ("ff 00", SipError::UnknownTag { tag: 0xff }),
        ("00 00", SipError::TrailingBytes { at: 1 }),
        (&format!("{ARRAY} 00"), SipError::TrailingBytes { at: 33 }),
        ("02 01 07 07", SipError::TrailingBytes { at: 3 }),
        ("01 0000000000000000", SipError::Empty { at: 1 }),
        ("02 00", SipError::Empty { at: 1 }),
        ("01 0100000000000000 00000000 3a300000 00000000 0000 0000 00000000", SipError::Empty { at: 17 }),
        ("02 8000", SipError::VarintTooLong { at: 1 }),
        ("02 02 07 8100", SipError::VarintTooLong { at: 3 }),
        ("02 ffffffffffffffffff02", SipError::Overflow { at: 1 }),
        ("02 02 ffffffffffffffffff01 01", SipError::Overflow { at: 12 }),
        ("02 02 07 00", SipError::Order { at: 3, what: "id" }),
        (&two_buckets("05"), SipError::Order { at: 31, what: "bucket" }),
        (&two_buckets("04"), SipError::Order { at: 31, what: "bucket" }),
        (&two_containers("05"), SipError::Order { at: 25, what: "container" }),
        (&two_containers("04"), SipError::Order { at: 25, what: "container" }),
        (&ARRAY.replace("0100 0300", "0300 0300"), SipError::Order { at: 31, what: "id" }),
        (&ARRAY.replace("0100 0300", "0300 0100"), SipError::Order { at: 31, what: "id" }),
        (&runs("0900", "0000 0400 0400 0400"), SipError::Run { at: 28 }),
        (&runs("0900", "0000 0400 0500 0400"), SipError::Run { at: 28 }),
        (&runs("0900", "0900 0400 0000 0400"), SipError::Run { at: 28 }),
        (&runs("0900", "0000 0400 ffff 0400"), SipError::Run { at: 28 }),
        (&ARRAY.replace("3a30", "3c30"), SipError::Cookie { at: 13, cookie: 0x303c }),
        (&ARRAY.replace("3a300000", "3a300100"), SipError::Cookie { at: 13, cookie: 0x1_303a }),
        // A cookie that announces runs where there are none.
        (
            "01 0100000000000000 00000000 3b300000 00 0000 0200 0100 0300 0500",
            SipError::Cookie { at: 13, cookie: 0x303b },
        ),
        (
            "01 0100000000000000 00000000 3a300000 01000100 0000 0000 00000000",
            SipError::ContainerCount { at: 17, found: 65_537 },
        ),
        (&RUN.replace("3b300000 01", "3b300000 03"), SipError::RunFlags { at: 17 }),
        (&ARRAY.replace(" 10000000", " 11000000"), SipError::Offset { at: 25, found: 17, expected: 16 }),
        (
            &RUN.replace("0000 6300 0100", "0000 6200 0100"),
            SipError::Cardinality { at: 22, declared: 99, found: 100 },
        ),
        (
            &RUN.replace("0100 0000 6300", "0000 0000 6300"),
            SipError::Cardinality { at: 22, declared: 100, found: 0 },
        ),
        (&bitset("ff"), SipError::Cardinality { at: 29, declared: 4097, found: 8 }),
        // Runs that an array holds in fewer bytes, or in as many.
        (&runs("0100", "0000 0000 0200 0000"), SipError::ContainerKind { at: 22 }),
        (&runs("0400", "0000 0200 0500 0100"), SipError::ContainerKind { at: 22 }),
        // An array and a bitset that are one run.
        (
            &ARRAY.replace("0000 0100 1000", "0000 0300 1000").replace("0100 0300", "0000 0100 0200 0300"),
            SipError::ContainerKind { at: 29 },
        ),
        (&bitset(&("ff".repeat(512) + "01")), SipError::ContainerKind { at: 29 }),
        ("03", SipError::Truncated { at: 1, need: 1 }),
        ("03 00", SipError::Empty { at: 1 }),
        ("04 8000", SipError::VarintTooLong { at: 1 }),
        ("04 01", SipError::Truncated { at: 2, need: 1 }),
        ("04 01 00 01 00", SipError::TrailingBytes { at: 4 }),
        ("04 01 40 01", SipError::Parameter { at: 2 }),
        // 5 with a parameter of 1 and of 3, where 2 is right.
        ("04 01 01 01 04", SipError::Parameter { at: 2 }),
        ("04 01 03 05 01", SipError::Parameter { at: 2 }),
        ("04 01 02 05 02", SipError::Padding { at: 2 }),
        ("04 01 02 01 06", SipError::Padding { at: 2 }),
        ("04 01 02 01 000002", SipError::Unary { at: 2 }),
        // Three numbers of which the second is 16 and an escape: it is too long, or beyond 64 bits.
        ("04 03 00 010006 8000", SipError::VarintTooLong { at: 6 }),
        ("04 03 00 010006 ffffffffffffffffff01", SipError::Overflow { at: 6 }),
        ("04 02 3f ffffffffffffffffffffffffffffff3f 0a", SipError::Overflow { at: 2 }),
        ("03 01 3f ffffffffffffff7f 02 00 02", SipError::Overflow { at: 2 }),
    ];
    cases.into_iter().map(|(text, error)| (text.to_owned(), error)).collect()
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    for (text, expected) in invalid() {
        assert_eq!(read(&text, &Limits::default()), expected, "{text}");
    }
}

#[test]
fn limits_hold_at_their_value() {
    let array = |change: fn(&mut Limits, u64)| (ARRAY, change);
    let varints = |change: fn(&mut Limits, u64)| ("02 02 01 02", change);
    let ranges = |change: fn(&mut Limits, u64)| ("03 01 00 01 03 07 01", change);
    let gaps = |change: fn(&mut Limits, u64)| ("04 02 00 03", change);
    let cases: [(_, u64, usize, _); 12] = [
        (array(|limits, n| limits.body_bytes = usize::try_from(n).unwrap()), 32, 1, "body_bytes"),
        (array(|limits, n| limits.buckets = usize::try_from(n).unwrap()), 1, 1, "buckets"),
        (array(|limits, n| limits.cardinality = n), 2, 29, "cardinality"),
        (array(|limits, n| limits.decoded_bytes = n), 32 + 128 + 64, 9, "decoded_bytes"),
        (varints(|limits, n| limits.body_bytes = usize::try_from(n).unwrap()), 3, 1, "body_bytes"),
        (varints(|limits, n| limits.cardinality = n), 2, 1, "cardinality"),
        (varints(|limits, n| limits.decoded_bytes = n), 16, 1, "decoded_bytes"),
        (ranges(|limits, n| limits.cardinality = n), 8, 2, "cardinality"),
        (ranges(|limits, n| limits.decoded_bytes = n), 16, 1, "decoded_bytes"),
        (gaps(|limits, n| limits.body_bytes = usize::try_from(n).unwrap()), 3, 1, "body_bytes"),
        (gaps(|limits, n| limits.cardinality = n), 2, 1, "cardinality"),
        (gaps(|limits, n| limits.decoded_bytes = n), 16, 1, "decoded_bytes"),
    ];
    for ((text, change), found, at, what) in cases {
        let mut limits = Limits::NONE;
        change(&mut limits, found);
        Sip::from_bytes(hex(text), &limits).unwrap();
        change(&mut limits, found - 1);
        assert_eq!(read(text, &limits), SipError::LimitExceeded { at, what, found, limit: found - 1 });
    }
}

/// A few bytes cannot claim much: the claim meets a limit, or the end of the bytes.
#[test]
fn claims_cost_nothing() {
    for text in [
        "02 ffffffffffffffffff01",
        "01 ffffffffffffffff",
        "03 ffffffffffffffffff01",
        "04 ffffffffffffffffff01",
    ] {
        assert!(matches!(read(text, &Limits::default()), SipError::LimitExceeded { at: 1, .. }));
        assert!(matches!(read(text, &Limits::NONE), SipError::Truncated { .. }));
    }
}

/// As FORMAT.md names it.
pub(crate) fn name(error: &SipError) -> String {
    format!("{error:?}").split([' ', '{']).next().unwrap().to_owned()
}

#[test]
fn every_error_is_produced() {
    let produced: BTreeSet<String> = invalid().iter().map(|(_, error)| name(error)).collect();
    let source = include_str!("../../src/error.rs");
    let declared = source.lines().filter_map(|line| line.strip_prefix("    ")?.strip_suffix(" {"));
    let mut declared: BTreeSet<String> =
        declared.filter(|name| name.chars().all(char::is_alphanumeric)).map(str::to_owned).collect();
    assert!(declared.remove("LimitExceeded"), "the limits have a test of their own");
    assert_eq!(produced, declared);
}

/// That `bytes` are an error, or canonical all the same.
fn check(bytes: &[u8]) {
    let limits = Limits { cardinality: 10_000, ..Limits::default() };
    if let Ok(sip) = Sip::from_bytes(bytes, &limits) {
        assert!(naive::rewrite(&sip) == bytes, "accepted, not canonical: {bytes:02x?}");
    }
}

/// Sets under each tag, of a few hundred bytes at most.
fn valid() -> Vec<Vec<u8>> {
    let mut sets: Vec<Vec<u64>> = shapes::all().into_iter().map(|(_, ids)| ids).collect();
    sets.push((0..5).flat_map(|i| shapes::block(i << 16, 60, if i % 2 == 0 { 2 } else { 60 })).collect());
    sets.retain(|ids| !ids.is_empty());
    let bytes = sets.iter().flat_map(|ids| naive::TAGS.map(|tag| naive::write(tag, ids)));
    [vec![0]].into_iter().chain(bytes.filter(|bytes| bytes.len() < 300)).collect()
}

#[test]
fn a_truncated_sip_is_an_error() {
    for bytes in valid() {
        for length in 0..bytes.len() {
            Sip::from_bytes(&bytes[..length], &Limits::default()).unwrap_err();
        }
    }
}

#[test]
fn a_changed_byte_makes_an_error_or_another_canonical_sip() {
    for mut bytes in valid() {
        for i in 0..bytes.len() {
            let byte = bytes[i];
            for change in [0x01, 0x02, 0x10, 0x80, 0xff] {
                bytes[i] = byte ^ change;
                check(&bytes);
            }
            bytes[i] = byte;
        }
    }
}

#[test]
fn an_extreme_field_makes_an_error_or_another_canonical_sip() {
    for bytes in valid() {
        for width in [1, 4, 8] {
            for at in 0..(bytes.len() + 1).saturating_sub(width) {
                for filling in [0x00, 0x7f, 0xff] {
                    let mut bytes = bytes.clone();
                    bytes[at..at + width].fill(filling);
                    check(&bytes);
                }
            }
        }
    }
}

/// The bytes of a bitset, too many for the tests above.
#[test]
fn a_changed_bitset_is_an_error() {
    let bytes = naive::write(0x01, &shapes::block(0, 5000, 5000));
    for i in 0..bytes.len() {
        for change in [0x01, 0xff] {
            let mut bytes = bytes.clone();
            bytes[i] ^= change;
            check(&bytes);
        }
    }
}

/// What fuzzing came by: each reaches a branch that no other does.
#[test]
fn the_corpus_of_the_fuzzer_is_still_refused_or_canonical() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let corpus = |target: &str| {
        let files = fs::read_dir(folder.join(target)).unwrap();
        files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect::<Vec<_>>()
    };
    let mut accepted = 0;
    for bytes in corpus("open") {
        let limits = Limits { cardinality: 10_000, ..Limits::default() };
        let read = Sip::from_bytes(bytes.as_slice(), &limits);
        assert_eq!(read.as_ref().err(), View::open(&bytes, &limits).as_ref().err());
        if let Ok(sip) = read {
            assert!(naive::rewrite(&sip) == bytes, "accepted, not canonical: {bytes:02x?}");
            crate::check::check(&sip, &sip.iter().collect::<Vec<_>>());
            accepted += 1;
        }
    }
    assert!(accepted > 20, "{accepted} sets");
    for bytes in corpus("frame") {
        let mut rest = bytes.as_slice();
        while let Ok((sip, behind)) = frame::read(rest, &Limits::default()) {
            check(sip);
            rest = behind;
        }
    }
}
