//! Bytes that are no SIP: valid ones with one error each. The change that made it names the error, not a
//! reader.

use std::collections::{BTreeMap, BTreeSet};

use super::{Invalid, changes};
use crate::{
    format::hex,
    naive::{self, Field, Kinds, What, concat},
    shapes,
};

/// Vectors of one tag and one change, at most.
const OF_A_KIND: usize = 3;
/// Those of one set.
const OF_A_SET: usize = 2;

/// Small sets that have every field.
fn sets() -> Vec<(&'static str, Vec<u64>)> {
    let block = |key: u64, n, runs| shapes::block(key << 16, n, runs);
    vec![
        ("one", vec![300]),
        ("greatest", vec![u64::MAX]),
        ("ends", vec![0, u64::MAX]),
        ("powers", (0..64).map(|bit| 1 << bit).collect()),
        ("arrays", (0..9).flat_map(|i| [3 << 33 | i << 17, 3 << 33 | i << 17 | 1000]).collect()),
        ("runs", [0, 1, 2, 4, 5].into_iter().flat_map(|key| block(key, 60, 2)).collect()),
        ("mixed", (0..6).flat_map(|key| block(key, 40, if key % 2 == 0 { 2 } else { 40 })).collect()),
        ("buckets", [7, 8, 1 << 20].into_iter().flat_map(|key: u64| block(key << 16, 50, 3)).collect()),
        ("full", [block(0, 1, 1), block(1, 65_536, 1), block(2, 50, 2)].concat()),
        ("bitset", block(5, 5000, 5000)),
        ("128 ids", shapes::spaced((0..128).map(|i| 700 + i * i), &[1])),
        ("129 ids", shapes::spaced((0..129).map(|i| 3 + i % 5), &[1])),
        ("128 ranges", shapes::spaced((0..128).map(|i| 5 + i % 11), &[9, 30, 2])),
        ("129 ranges", shapes::spaced((0..129).map(|i| 40 + i * i), &[2, 1, 5])),
        ("jumps", shapes::spaced((0..40).map(|i| if i % 8 == 7 { 1 << 40 } else { 2 + i }), &[1, 2])),
    ]
}

/// The vectors so far.
#[derive(Default)]
struct Vectors {
    all: Vec<(Invalid, Vec<u8>)>,
    seen: BTreeSet<Vec<u8>>,
    counts: BTreeMap<String, usize>,
}

impl Vectors {
    /// Takes the vector if there are few like it.
    fn push(&mut self, set: &str, change: &str, error: &str, bytes: Vec<u8>) {
        let tag = bytes.first().copied().unwrap_or_default();
        let kind = format!("{tag:02x} {change}");
        let mut name = format!("{kind} {set}").trim_end().to_owned();
        let count = |name: &str| self.counts.get(name).copied().unwrap_or(0);
        let of_a_set = count(&name);
        let most = if bytes.len() > 1000 { 1 } else { OF_A_KIND };
        if count(&kind) >= most || of_a_set >= OF_A_SET || !self.seen.insert(bytes.clone()) {
            return;
        }
        for name in BTreeSet::from([&kind, &name]) {
            *self.counts.entry(name.clone()).or_default() += 1;
        }
        if of_a_set > 0 {
            name.push_str(" again");
        }
        let file = format!("invalid/{}.sip", name.replace(' ', "-"));
        self.all.push((Invalid { name, file, error: error.to_owned() }, bytes));
    }
}

pub(super) fn all() -> Vec<(Invalid, Vec<u8>)> {
    let mut vectors = Vectors::default();
    for (change, error, text) in BY_HAND {
        vectors.push("", change, error, hex(text));
    }
    for (change, error, fields) in numbers_that_make_no_set() {
        vectors.push("", change, error, concat(&fields));
    }
    for (set, ids) in sets() {
        for tag in naive::TAGS {
            let fields = naive::fields(tag, &ids);
            if fields.len() > 400 {
                continue;
            }
            changes::of_the_whole(&fields, |change, error, bytes| vectors.push(set, change, error, bytes));
            for at in 0..fields.len() {
                changes::of_a_field(&fields, at, |change, error, field| {
                    let mut fields = fields.clone();
                    fields[at].bytes = field;
                    vectors.push(set, change, error, concat(&fields));
                });
            }
        }
        kinds_of_containers(&ids, |change, error, bytes| vectors.push(set, change, error, bytes));
        parameters(&ids, |change, error, bytes| vectors.push(set, change, error, bytes));
    }
    vectors.all
}

/// Containers of another kind than the smallest.
fn kinds_of_containers(ids: &[u64], mut push: impl FnMut(&str, &str, Vec<u8>)) {
    let right = naive::roaring(ids, Kinds::Smallest);
    let has_runs = right.iter().any(|field| field.what == What::Runs);
    let other = |kinds| Some(concat(&naive::roaring(ids, kinds))).filter(|bytes| *bytes != concat(&right));
    if let Some(bytes) = other(Kinds::None) {
        push("without runs", "ContainerKind", bytes);
    }
    if let Some(bytes) = other(Kinds::All) {
        push("all runs", "ContainerKind", bytes);
    }
    // A bitmap of a single id that announces runs is too short for any.
    if let Some(bytes) = other(Kinds::NoneAnnounced).filter(|_| !has_runs && ids.len() > 2) {
        push("runs announced", "Cookie", bytes);
    }
}

/// Rice groups of another parameter than that of their median.
fn parameters(ids: &[u64], mut push: impl FnMut(&str, &str, Vec<u8>)) {
    let choices: [(&str, naive::Choice); 4] = [
        ("parameter above", |_, k| k + 1),
        ("parameter below", |_, k| k - 1),
        ("second parameter above", |i, k| if i == 1 { k + 1 } else { k }),
        ("second parameter below", |i, k| if i == 1 { k - 1 } else { k }),
    ];
    let ranges = naive::ranges_of(ids);
    let write =
        [&(|choose| naive::ranges(&ranges, choose)) as &dyn Fn(naive::Choice) -> Vec<Field>, &|choose| {
            naive::gaps(ids, choose)
        }];
    for (change, choose) in choices {
        for write in write {
            let right = write(naive::right);
            let mut parameters = right.iter().filter(|field| field.what == What::Parameter);
            let edge = if change.ends_with("above") { 63 } else { 0 };
            if parameters.all(|field| field.bytes != [edge]) {
                let bytes = concat(&write(choose));
                if bytes != concat(&right) {
                    push(change, "Parameter", bytes);
                }
            }
        }
    }
}

/// What no change of a field makes, and what fuzzing found.
const BY_HAND: &[(&str, &str, &str)] = &[
    ("no bytes", "Truncated", ""),
    ("unknown tag 05", "UnknownTag", "05"),
    ("unknown tag 7f", "UnknownTag", "7f 01 07"),
    ("unknown tag ff", "UnknownTag", "ff 00"),
    ("empty with a body", "TrailingBytes", "00 00"),
    ("empty with a count", "TrailingBytes", "00 01 07"),
    ("no ids", "Empty", "02 00"),
    ("no ranges", "Empty", "03 00"),
    ("no ids", "Empty", "04 00"),
    ("no buckets", "Empty", "01 0000000000000000"),
    ("no containers", "Empty", "01 0100000000000000 00000000 3a300000 00000000 0000 0000 00000000 0000"),
    ("many buckets", "LimitExceeded", "01 0100040000000000 00000000"),
    ("all buckets", "LimitExceeded", "01 ffffffffffffffff 00000000"),
    (
        "many containers",
        "ContainerCount",
        "01 0100000000000000 00000000 3a300000 01000100 0000 0000 00000000 0000",
    ),
    (
        "all containers",
        "ContainerCount",
        "01 0100000000000000 00000000 3a300000 ffffffff 0000 0000 00000000 0000",
    ),
    ("a run of none", "Cardinality", "01 0100000000000000 00000000 3b300000 01 0000 6300 0000 00000000"),
];

/// Numbers written as they should be that lead above the last id, or to too many ids.
fn numbers_that_make_no_set() -> Vec<(&'static str, &'static str, Vec<Field>)> {
    let (half, last) = (1 << 63, u64::MAX);
    vec![
        ("second id too great", "Overflow", naive::differences(&[1, last])),
        ("third id too great", "Overflow", naive::differences(&[half, half - 1, 1])),
        ("second id too great", "Overflow", naive::numbered_gaps(&[0, last], naive::right)),
        ("third id too great", "Overflow", naive::numbered_gaps(&[half, half - 2, 0], naive::right)),
        ("id behind the last one", "Overflow", naive::numbered_gaps(&[last, 0], naive::right)),
        ("range behind the last id", "Overflow", naive::numbered_ranges(&[last], &[1], naive::right)),
        ("second range too far", "Overflow", naive::numbered_ranges(&[5, last - 5], &[0, 0], naive::right)),
        (
            "range that touches the end",
            "Overflow",
            naive::numbered_ranges(&[5, last - 7], &[0, 1], naive::right),
        ),
        (
            "range behind the end",
            "Overflow",
            naive::numbered_ranges(&[half, half - 2], &[0, 0], naive::right),
        ),
        ("all ids", "LimitExceeded", naive::ranges(&[(0, last)], naive::right)),
        ("many ids in a range", "LimitExceeded", naive::ranges(&[(7, 7 + (1 << 32))], naive::right)),
        (
            "many ids in two ranges",
            "LimitExceeded",
            naive::ranges(&[(0, 1 << 31), (half, half + (1 << 31))], naive::right),
        ),
    ]
}
