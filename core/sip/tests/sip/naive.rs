//! All tags written the obvious way, from FORMAT.md alone: slow, without a choice of anything, field by field.

use basalt_sip::Sip;

/// What a field of a SIP is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Tag,
    /// Number of ids or ranges.
    Count,
    /// The first id, or a difference.
    Difference,
    Buckets,
    BucketKey,
    /// Cookie and number of containers.
    Cookie,
    RunFlags,
    Key,
    /// Number of ids less one.
    Last,
    Offset,
    Array,
    Bitset,
    Runs,
    /// `k` of a Rice group.
    Parameter,
    /// Its low bits.
    Lows,
    /// Its unary part.
    Highs,
    Escape,
}

/// A part of a SIP and its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) what: What,
    pub(crate) bytes: Vec<u8>,
}

fn field(what: What, bytes: impl Into<Vec<u8>>) -> Field {
    Field { what, bytes: bytes.into() }
}

pub(crate) fn concat(fields: &[Field]) -> Vec<u8> {
    fields.iter().flat_map(|field| field.bytes.iter().copied()).collect()
}

/// Tags of sets that are not empty.
pub(crate) const TAGS: [u8; 4] = [0x01, 0x02, 0x03, 0x04];

/// Increasing ids under a tag; none of them has tag 0x00 only.
pub(crate) fn fields(tag: u8, ids: &[u64]) -> Vec<Field> {
    match tag {
        _ if ids.is_empty() => vec![field(What::Tag, [0])],
        0x01 => roaring(ids, Kinds::Smallest),
        0x02 => varint_delta(ids),
        0x03 => ranges(&ranges_of(ids), right),
        0x04 => gaps(ids, right),
        _ => panic!("tag {tag}"),
    }
}

/// Increasing ids under a tag.
pub(crate) fn write(tag: u8, ids: &[u64]) -> Vec<u8> {
    concat(&fields(tag, ids))
}

/// The set of `sip` under its own tag.
pub(crate) fn rewrite(sip: &Sip) -> Vec<u8> {
    write(sip.tag() as u8, &sip.iter().collect::<Vec<_>>())
}

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push(u8::try_from(value % 128 + 128).unwrap());
        value /= 128;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}

fn count(tag: u8, count: usize) -> Vec<Field> {
    vec![field(What::Tag, [tag]), field(What::Count, varint(count as u64))]
}

/// Ids, or differences that do not make ids.
pub(crate) fn differences(differences: &[u64]) -> Vec<Field> {
    let mut fields = count(0x02, differences.len());
    fields.extend(differences.iter().map(|&difference| field(What::Difference, varint(difference))));
    fields
}

fn varint_delta(ids: &[u64]) -> Vec<Field> {
    let mut all = vec![ids[0]];
    all.extend(ids.windows(2).map(|pair| pair[1] - pair[0]));
    differences(&all)
}

/// The first and last id of each range of increasing ids.
pub(crate) fn ranges_of(ids: &[u64]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &id in ids {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => ranges.push((id, id)),
        }
    }
    ranges
}

/// Ids left out before each range.
fn left_out(ranges: &[(u64, u64)], least: u64) -> Vec<u64> {
    let mut gaps = vec![ranges[0].0];
    gaps.extend(ranges.windows(2).map(|pair| pair[1].0 - pair[0].1 - least));
    gaps
}

/// The parameter that a group is to have; the number of the group comes first.
pub(crate) type Choice = fn(usize, u8) -> u8;

/// The parameter that the format asks for.
pub(crate) fn right(_: usize, k: u8) -> u8 {
    k
}

/// First and last ids under tag 0x03.
pub(crate) fn ranges(ranges: &[(u64, u64)], choose: Choice) -> Vec<Field> {
    let lengths: Vec<u64> = ranges.iter().map(|(first, last)| last - first).collect();
    numbered_ranges(&left_out(ranges, 2), &lengths, choose)
}

/// The numbers that stand for ranges; they need not make any.
pub(crate) fn numbered_ranges(gaps: &[u64], lengths: &[u64], choose: Choice) -> Vec<Field> {
    let mut fields = count(0x03, gaps.len());
    for (i, (gaps, lengths)) in gaps.chunks(128).zip(lengths.chunks(128)).enumerate() {
        fields.extend(rice_group(gaps, |k| choose(2 * i, k)));
        fields.extend(rice_group(lengths, |k| choose(2 * i + 1, k)));
    }
    fields
}

/// Ids under tag 0x04.
pub(crate) fn gaps(ids: &[u64], choose: Choice) -> Vec<Field> {
    let ids: Vec<(u64, u64)> = ids.iter().map(|&id| (id, id)).collect();
    numbered_gaps(&left_out(&ids, 1), choose)
}

/// The numbers that stand for ids; they need not make any.
pub(crate) fn numbered_gaps(gaps: &[u64], choose: Choice) -> Vec<Field> {
    let mut fields = count(0x04, gaps.len());
    for (i, gaps) in gaps.chunks(128).enumerate() {
        fields.extend(rice_group(gaps, |k| choose(i, k)));
    }
    fields
}

fn rice_group(numbers: &[u64], choose: impl Fn(u8) -> u8) -> Vec<Field> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let median = u128::from(sorted[numbers.len().div_ceil(2) - 1]);
    let k = choose((0..63).find(|k| 2 * median < 3 << k).unwrap_or(63));
    let low = |&number: &u64| (0..k).map(move |bit| number >> bit & 1 == 1);
    let unary = |&number: &u64| {
        let zeros = (number >> k).min(16);
        (0..=zeros).map(move |bit| bit == zeros)
    };
    let mut fields = vec![
        field(What::Parameter, [k]),
        field(What::Lows, bytes(numbers.iter().flat_map(low))),
        field(What::Highs, bytes(numbers.iter().flat_map(unary))),
    ];
    let escapes = numbers.iter().map(|number| number >> k).filter(|high| *high >= 16);
    fields.extend(escapes.map(|high| field(What::Escape, varint(high - 16))));
    fields
}

/// Bits in bytes, the first in the least significant place.
fn bytes(bits: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (i, bit) in bits.enumerate() {
        if i % 8 == 0 {
            bytes.push(0);
        }
        bytes[i / 8] |= u8::from(bit) << (i % 8);
    }
    bytes
}

/// Which containers hold runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kinds {
    /// Those that are smallest so: the only ones in a SIP.
    Smallest,
    None,
    All,
    /// None, but the bitmaps begin as if some did.
    NoneAnnounced,
}

/// Increasing ids under tag 0x01.
pub(crate) fn roaring(ids: &[u64], kinds: Kinds) -> Vec<Field> {
    let mut fields = vec![field(What::Tag, [0x01])];
    let buckets: Vec<&[u64]> = ids.chunk_by(|a, b| a >> 32 == b >> 32).collect();
    fields.push(field(What::Buckets, (buckets.len() as u64).to_le_bytes()));
    for bucket in buckets {
        fields.push(field(What::BucketKey, u32::try_from(bucket[0] >> 32).unwrap().to_le_bytes()));
        fields.extend(bitmap(bucket, kinds));
    }
    fields
}

fn bitmap(ids: &[u64], kinds: Kinds) -> Vec<Field> {
    let blocks: Vec<&[u64]> = ids.chunk_by(|a, b| a >> 16 == b >> 16).collect();
    let containers: Vec<Field> = blocks.iter().map(|ids| container(ids, kinds)).collect();
    let n = u16::try_from(blocks.len() - 1).unwrap();
    let has_runs = containers.iter().any(|container| container.what == What::Runs);
    let announced = has_runs || kinds == Kinds::NoneAnnounced;
    let mut fields = Vec::new();
    if announced {
        fields.push(field(What::Cookie, [12347_u16.to_le_bytes(), n.to_le_bytes()].concat()));
        fields.push(field(
            What::RunFlags,
            bytes(containers.iter().map(|container| container.what == What::Runs)),
        ));
    } else {
        fields
            .push(field(What::Cookie, [12346_u32.to_le_bytes(), (u32::from(n) + 1).to_le_bytes()].concat()));
    }
    for ids in &blocks {
        fields.push(field(What::Key, low(ids[0] >> 16).to_le_bytes()));
        fields.push(field(What::Last, u16::try_from(ids.len() - 1).unwrap().to_le_bytes()));
    }
    if !announced || blocks.len() >= 4 {
        let mut offset = concat(&fields).len() + 4 * blocks.len();
        for container in &containers {
            fields.push(field(What::Offset, u32::try_from(offset).unwrap().to_le_bytes()));
            offset += container.bytes.len();
        }
    }
    fields.extend(containers);
    fields
}

fn container(ids: &[u64], kinds: Kinds) -> Field {
    let runs = ranges_of(ids);
    let smallest = 2 + 4 * runs.len() < (2 * ids.len()).min(8192);
    if kinds == Kinds::All || kinds == Kinds::Smallest && smallest {
        let mut bytes = u16::try_from(runs.len()).unwrap().to_le_bytes().to_vec();
        for (first, last) in runs {
            bytes.extend(low(first).to_le_bytes());
            bytes.extend(low(last - first).to_le_bytes());
        }
        field(What::Runs, bytes)
    } else if ids.len() <= 4096 {
        field(What::Array, ids.iter().flat_map(|&id| low(id).to_le_bytes()).collect::<Vec<_>>())
    } else {
        let mut bits = vec![false; 65_536];
        ids.iter().for_each(|&id| bits[usize::from(low(id))] = true);
        field(What::Bitset, bytes(bits.into_iter()))
    }
}

fn low(number: u64) -> u16 {
    u16::try_from(number % 65_536).unwrap()
}
