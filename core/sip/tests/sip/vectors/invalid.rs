//! Bytes that are no SIP: valid ones with one fault each. What the fault is says the change that made it, not a
//! reader.

use std::collections::{BTreeMap, BTreeSet};

use super::Invalid;
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
            whole(&fields, |change, error, bytes| vectors.push(set, change, error, bytes));
            for at in 0..fields.len() {
                one_field(&fields, at, |change, error, field| {
                    let mut fields = fields.clone();
                    fields[at].bytes = field;
                    vectors.push(set, change, error, concat(&fields));
                });
            }
        }
        let kinds = [
            ("without runs", "ContainerKind", Kinds::None),
            ("all runs", "ContainerKind", Kinds::All),
            ("runs announced", "Cookie", Kinds::NoneAnnounced),
        ];
        for (change, error, kinds) in kinds {
            let bytes = concat(&naive::roaring(&ids, kinds));
            let announced = kinds == Kinds::NoneAnnounced;
            let smallest = naive::roaring(&ids, Kinds::Smallest);
            let has_runs = smallest.iter().any(|field| field.what == What::Runs);
            // With a single id a bitmap that announces runs is too short for any.
            let single = ids.len() < 3;
            if bytes != concat(&smallest) && !(announced && (has_runs || single)) {
                vectors.push(set, change, error, bytes);
            }
        }
        let ranges = naive::ranges_of(&ids);
        let choices: [(&str, naive::Choice); 4] = [
            ("parameter above", |_, k| k + 1),
            ("parameter below", |_, k| k - 1),
            ("second parameter above", |i, k| if i == 1 { k + 1 } else { k }),
            ("second parameter below", |i, k| if i == 1 { k - 1 } else { k }),
        ];
        for (change, choice) in choices {
            for (right, make) in [
                (
                    naive::ranges(&ranges, naive::right),
                    &(|choice| naive::ranges(&ranges, choice)) as &dyn Fn(_) -> _,
                ),
                (naive::gaps(&ids, naive::right), &|choice| naive::gaps(&ids, choice)),
            ] {
                let parameters = right.iter().filter(|field| field.what == What::Parameter);
                let mut parameters = parameters.map(|field| field.bytes[0]);
                let edge = if change.ends_with("above") { 63 } else { 0 };
                if parameters.all(|k| k != edge) {
                    let bytes = concat(&make(choice));
                    if bytes != concat(&right) {
                        vectors.push(set, change, "Parameter", bytes);
                    }
                }
            }
        }
    }
    vectors.all
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

/// Changes of the whole: it ends early, or goes on.
fn whole(fields: &[Field], mut push: impl FnMut(&str, &str, Vec<u8>)) {
    let bytes = concat(fields);
    push("short by one", "Truncated", bytes[..bytes.len() - 1].to_vec());
    for (i, field) in fields.iter().enumerate().skip(1) {
        if !field.bytes.is_empty()
            && [i == 1, i == 2, i == fields.len() / 2, i + 1 == fields.len()].contains(&true)
        {
            let change = format!("ends before {:?}", field.what).to_lowercase();
            push(&change, "Truncated", concat(&fields[..i]));
            if field.bytes.len() > 1 {
                let cut = [concat(&fields[..i]), field.bytes[..1].to_vec()].concat();
                push(&format!("ends in {:?}", field.what).to_lowercase(), "Truncated", cut);
            }
        }
    }
    push("one more byte", "TrailingBytes", [bytes.as_slice(), &[0]].concat());
    push("twice", "TrailingBytes", [bytes.as_slice(), &bytes].concat());
}

/// Changes of the field at `at`: a name, the error, and the bytes that the field has then.
fn one_field(fields: &[Field], at: usize, mut push: impl FnMut(&str, &str, Vec<u8>)) {
    let Field { what, bytes } = &fields[at];
    let before = |what: What| fields[..at].iter().rev().find(|field| field.what == what);
    let add = |n: i64| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let sum = i64::from_le_bytes(wide).checked_add(n).filter(|sum| *sum >= 0);
        sum.map(|sum| sum.to_le_bytes()[..bytes.len()].to_vec()).unwrap_or(bytes.clone())
    };
    let flip = |byte: usize, bit: usize| {
        let mut bytes = bytes.clone();
        bytes[byte] ^= 1 << bit;
        bytes
    };
    let name = |change: &str| format!("{what:?} {change}").to_lowercase();
    match what {
        What::Count | What::Difference | What::Escape => {
            varints(bytes, |change, error, bytes| push(&name(change), error, bytes));
            match what {
                What::Count if fields[0].bytes == [2] => {
                    let count = naive::concat(&fields[2..]).iter().filter(|byte| **byte < 128).count() as u64;
                    push("one id too few", "Truncated", naive::varint(count + 1));
                    if count > 1 {
                        push("one id too many", "TrailingBytes", naive::varint(count - 1));
                    }
                }
                What::Difference if before(What::Difference).is_some() => {
                    push("same id again", "Order", vec![0]);
                    if before(*what).is_some_and(|field| field.bytes != [0]) {
                        push("id too great", "Overflow", naive::varint(u64::MAX));
                    }
                }
                What::Escape => push("escape of 2^64", "Overflow", naive::varint(u64::MAX)),
                _ => {}
            }
            if *what == What::Count {
                push("count over the limit", "LimitExceeded", naive::varint((1 << 32) + 1));
                push("count over the decoded bytes", "LimitExceeded", naive::varint((1 << 25) + 1));
            }
        }
        What::Buckets => {
            push("one bucket too few", "Truncated", add(1));
            if bytes[0] > 1 {
                push("one bucket too many", "TrailingBytes", add(-1));
            }
        }
        What::BucketKey | What::Key => {
            // The key before it is of the same bitmap if no cookie stands between them.
            let of = if *what == What::Key { What::Cookie } else { What::Buckets };
            let start = fields[..at].iter().rposition(|field| field.what == of).unwrap();
            if let Some(last) = fields[start..at].iter().rev().find(|field| field.what == *what) {
                push(&name("again"), "Order", last.bytes.clone());
                if last.bytes.iter().any(|byte| *byte > 0) {
                    push(&name("below"), "Order", vec![0; bytes.len()]);
                }
            }
        }
        What::Cookie => {
            push("cookie of nothing", "Cookie", [&[0; 4], &bytes[4.min(bytes.len() - 1)..]].concat());
            push("cookie with a bit more", "Cookie", flip(0, 2));
            push("cookie with another byte", "Cookie", flip(1, 7));
            if bytes.len() == 8 {
                push("cookie without runs and a count", "Cookie", flip(2, 0));
                push("bitmap without containers", "Empty", [&bytes[..4], &[0; 4]].concat());
                push(
                    "too many containers",
                    "ContainerCount",
                    [&bytes[..4], &65_537_u32.to_le_bytes()].concat(),
                );
            }
        }
        What::RunFlags => {
            let keys =
                fields[at..].iter().skip(1).take_while(|field| [What::Key, What::Last].contains(&field.what));
            let containers = keys.filter(|field| field.what == What::Key).count();
            if containers % 8 > 0 {
                push("flag of the next container", "RunFlags", flip(bytes.len() - 1, containers % 8));
                push("last flag", "RunFlags", flip(bytes.len() - 1, 7));
            }
            push("no flags", "Cookie", vec![0; bytes.len()]);
        }
        What::Last => {
            // With arrays, another number of ids is another number of bytes.
            let place = fields[..=at].iter().rev().take_while(|field| field.what != What::Cookie);
            let place = place.filter(|field| field.what == What::Last).count() - 1;
            let containers =
                fields[at..].iter().filter(|f| [What::Array, What::Bitset, What::Runs].contains(&f.what));
            let container = containers.clone().nth(place).unwrap();
            let first_bitmap = !fields[at..]
                .iter()
                .take_while(|f| f.what != What::BucketKey)
                .any(|f| f.what == What::Cookie);
            let ids = usize::from(u16::from_le_bytes([bytes[0], bytes[1]])) + 1;
            let stays = match container.what {
                What::Runs => container.bytes.len() < (2 * (ids - 1)).min(8192),
                _ => container.what == What::Bitset && ids > 4098,
            };
            if first_bitmap && stays {
                push(&format!("{:?} of one id more", container.what).to_lowercase(), "Cardinality", add(-1));
                if ids < 65_536 {
                    push(
                        &format!("{:?} of one id less", container.what).to_lowercase(),
                        "Cardinality",
                        add(1),
                    );
                }
            }
        }
        What::Offset => {
            push("offset above", "Offset", add(1));
            push("offset below", "Offset", add(-1));
            push("offset 0", "Offset", vec![0; 4]);
            push("offset at the end", "Offset", vec![0xff; 4]);
        }
        What::Array if bytes.len() >= 4 => {
            let n = bytes.len();
            push("same id again", "Order", [&bytes[..n - 2], &bytes[n - 4..n - 2]].concat());
            push(
                "ids in disorder",
                "Order",
                [&bytes[..n - 4], &bytes[n - 2..], &bytes[n - 4..n - 2]].concat(),
            );
        }
        What::Bitset => {
            push("bitset with a bit flipped", "Cardinality", flip(0, 0));
            push("bitset with the last bit flipped", "Cardinality", flip(8191, 7));
        }
        What::Runs if bytes.len() >= 10 => {
            let n = bytes.len();
            let behind = u16::from_le_bytes([bytes[n - 8], bytes[n - 7]])
                + u16::from_le_bytes([bytes[n - 6], bytes[n - 5]])
                + 1;
            let with = |start: u16| [&bytes[..n - 4], &start.to_le_bytes(), &bytes[n - 2..]].concat();
            push("runs touch", "Run", with(behind));
            push("runs overlap", "Run", with(behind - 1));
            push(
                "runs in disorder",
                "Run",
                [&bytes[..n - 8], &bytes[n - 4..], &bytes[n - 8..n - 4]].concat(),
            );
            push("run leaves the block", "Run", with(0xffff));
        }
        What::Parameter => {
            push("parameter 64", "Parameter", vec![64]);
            push("parameter 255", "Parameter", vec![255]);
        }
        What::Lows => {
            let numbers = fields[at - 1].bytes[0];
            // Bits that are left: the numbers are as many as the unary part has ones.
            let ones: u32 = fields[at + 1].bytes.iter().map(|byte| byte.count_ones()).sum();
            if !(ones * u32::from(numbers)).is_multiple_of(8) {
                push("bit behind the low bits", "Padding", flip(bytes.len() - 1, 7));
            }
        }
        What::Highs => {
            if bytes[bytes.len() - 1] < 128 {
                push("bit behind the unary part", "Padding", flip(bytes.len() - 1, 7));
            }
            push("17 zero bits", "Unary", [&[0, 0, 2], bytes.as_slice()].concat());
            push("24 zero bits", "Unary", [&[0; 3], bytes.as_slice()].concat());
        }
        What::Tag | What::Array | What::Runs => {}
    }
}

/// What can be wrong with a varint.
fn varints(bytes: &[u8], mut push: impl FnMut(&str, &str, Vec<u8>)) {
    let (last, first) = bytes.split_last().unwrap();
    if bytes.len() < 10 {
        push("too long", "VarintTooLong", [first, &[last | 0x80, 0]].concat());
    }
    let zeros = |n: usize| [first, &[last | 0x80], &vec![0x80; n][..], &[0]].concat();
    if bytes.len() < 9 {
        push("far too long", "VarintTooLong", zeros(8 - bytes.len()));
    }
    push("of 65 bits", "Overflow", [&[0xff; 9][..], &[2]].concat());
    push("of 70 bits", "Overflow", [&[0xff; 9][..], &[0x7f]].concat());
    push("of 11 bytes", "Overflow", [&[0xff; 10][..], &[1]].concat());
}
