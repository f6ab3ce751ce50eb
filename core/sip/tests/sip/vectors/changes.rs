//! Changes of a SIP that make one error: each has a name, an error, and new bytes.

use crate::naive::{self, Field, What, concat};

/// It ends early, or goes on.
pub(super) fn of_the_whole(fields: &[Field], mut push: impl FnMut(&str, &str, Vec<u8>)) {
    let bytes = concat(fields);
    push("short by one", "Truncated", bytes[..bytes.len() - 1].to_vec());
    for i in [1, 2, fields.len() / 2, fields.len() - 1] {
        let Some(Field { what, bytes }) = fields.get(i).filter(|field| !field.bytes.is_empty()) else {
            continue;
        };
        let before = concat(&fields[..i]);
        if bytes.len() > 1 {
            let change = format!("ends in {what:?}").to_lowercase();
            push(&change, "Truncated", [before.as_slice(), &bytes[..1]].concat());
        }
        push(&format!("ends before {what:?}").to_lowercase(), "Truncated", before);
    }
    push("one more byte", "TrailingBytes", [bytes.as_slice(), &[0]].concat());
    push("twice", "TrailingBytes", [bytes.as_slice(), &bytes].concat());
}

/// The field at `at` has other bytes.
pub(super) fn of_a_field(fields: &[Field], at: usize, mut push: impl FnMut(&str, &str, Vec<u8>)) {
    let place = Place { fields, at };
    match fields[at].what {
        What::Tag => {}
        What::Count => of_count(&place, push),
        What::Difference => of_difference(&place, push),
        What::Escape => {
            of_varint(&place, &mut push);
            push("escape of 2^64", "Overflow", naive::varint(u64::MAX));
        }
        What::Buckets => {
            push("one bucket too few", "Truncated", place.add(1));
            if place.bytes()[0] > 1 {
                push("one bucket too many", "TrailingBytes", place.add(-1));
            }
        }
        What::BucketKey => of_key(&place, What::Buckets, push),
        What::Key => of_key(&place, What::Cookie, push),
        What::Cookie => of_cookie(&place, push),
        What::RunFlags => of_run_flags(&place, push),
        What::Last => of_cardinality(&place, push),
        What::Offset => {
            push("offset above", "Offset", place.add(1));
            push("offset below", "Offset", place.add(-1));
            push("offset 0", "Offset", vec![0; 4]);
            push("offset at the end", "Offset", vec![0xff; 4]);
        }
        What::Array => of_array(place.bytes(), push),
        What::Bitset => {
            push("bitset with a bit flipped", "Cardinality", place.flip(0, 0));
            push("bitset with the last bit flipped", "Cardinality", place.flip(8191, 7));
        }
        What::Runs => of_runs(place.bytes(), push),
        What::Parameter => {
            push("parameter 64", "Parameter", vec![64]);
            push("parameter 255", "Parameter", vec![255]);
        }
        What::Lows => of_lows(&place, push),
        What::Highs => {
            let bytes = place.bytes();
            if bytes[bytes.len() - 1] < 128 {
                push("bit behind the unary part", "Padding", place.flip(bytes.len() - 1, 7));
            }
            push("17 zero bits", "Unary", [&[0, 0, 2], bytes].concat());
            push("24 zero bits", "Unary", [&[0; 3], bytes].concat());
        }
    }
}

/// A field among others.
struct Place<'a> {
    fields: &'a [Field],
    at: usize,
}

impl<'a> Place<'a> {
    fn what(&self) -> What {
        self.fields[self.at].what
    }

    fn bytes(&self) -> &'a [u8] {
        &self.fields[self.at].bytes
    }

    /// The field's number and `n`.
    fn add(&self, n: i64) -> Vec<u8> {
        let mut wide = [0; 8];
        wide[..self.bytes().len()].copy_from_slice(self.bytes());
        (i64::from_le_bytes(wide) + n).to_le_bytes()[..self.bytes().len()].to_vec()
    }

    fn flip(&self, byte: usize, bit: usize) -> Vec<u8> {
        let mut bytes = self.bytes().to_vec();
        bytes[byte] ^= 1 << bit;
        bytes
    }

    /// The field of its kind before it, at most as far away as one of the kind `start`.
    fn one_before(&self, start: What) -> Option<&'a Field> {
        let before = self.fields[..self.at].iter().rev().take_while(|field| field.what != start);
        before.into_iter().find(|field| field.what == self.what())
    }

    /// The fields of its bitmap behind its cookie.
    fn bitmap(&self) -> &'a [Field] {
        let start = self.fields[..self.at].iter().rposition(|field| field.what == What::Cookie).unwrap() + 1;
        let end = self.fields[start..].iter().position(|field| field.what == What::BucketKey);
        &self.fields[start..end.map_or(self.fields.len(), |end| start + end)]
    }
}

/// What can be wrong with a varint.
fn of_varint(place: &Place<'_>, push: &mut impl FnMut(&str, &str, Vec<u8>)) {
    let bytes = place.bytes();
    let mut push = |change: &str, error: &str, bytes: Vec<u8>| {
        push(&format!("{:?} {change}", place.what()).to_lowercase(), error, bytes);
    };
    let (last, first) = bytes.split_last().unwrap();
    if bytes.len() < 10 {
        push("too long", "VarintTooLong", [first, &[last | 0x80, 0]].concat());
    }
    if bytes.len() < 9 {
        let zeros = vec![0x80; 8 - bytes.len()];
        push("far too long", "VarintTooLong", [first, &[last | 0x80], &zeros, &[0]].concat());
    }
    push("of 65 bits", "Overflow", [&[0xff; 9][..], &[2]].concat());
    push("of 70 bits", "Overflow", [&[0xff; 9][..], &[0x7f]].concat());
    push("of 11 bytes", "Overflow", [&[0xff; 10][..], &[1]].concat());
}

fn of_count(place: &Place<'_>, mut push: impl FnMut(&str, &str, Vec<u8>)) {
    of_varint(place, &mut push);
    if place.fields[0].bytes == [2] {
        let count = place.fields.iter().filter(|field| field.what == What::Difference).count() as u64;
        push("one id too few", "Truncated", naive::varint(count + 1));
        if count > 1 {
            push("one id too many", "TrailingBytes", naive::varint(count - 1));
        }
    }
    push("count over the limit", "LimitExceeded", naive::varint((1 << 32) + 1));
    push("count over the decoded bytes", "LimitExceeded", naive::varint((1 << 25) + 1));
}

fn of_difference(place: &Place<'_>, mut push: impl FnMut(&str, &str, Vec<u8>)) {
    of_varint(place, &mut push);
    if let Some(before) = place.one_before(What::Count) {
        push("same id again", "Order", vec![0]);
        if before.bytes != [0] {
            push("id too great", "Overflow", naive::varint(u64::MAX));
        }
    }
}

/// Keys that do not increase; they are those behind a field of the kind `start`.
fn of_key(place: &Place<'_>, start: What, mut push: impl FnMut(&str, &str, Vec<u8>)) {
    if let Some(before) = place.one_before(start) {
        let name = |change: &str| format!("{:?} {change}", place.what()).to_lowercase();
        push(&name("again"), "Order", before.bytes.clone());
        if before.bytes.iter().any(|byte| *byte > 0) {
            push(&name("below"), "Order", vec![0; place.bytes().len()]);
        }
    }
}

fn of_cookie(place: &Place<'_>, mut push: impl FnMut(&str, &str, Vec<u8>)) {
    let (cookie, count) = place.bytes().split_at(4);
    push("cookie of nothing", "Cookie", [&[0; 4], count].concat());
    push("cookie with a bit more", "Cookie", place.flip(0, 2));
    push("cookie with another byte", "Cookie", place.flip(1, 7));
    if !count.is_empty() {
        push("cookie without runs and a count", "Cookie", place.flip(2, 0));
        push("bitmap without containers", "Empty", [cookie, &[0; 4]].concat());
        push("too many containers", "ContainerCount", [cookie, &65_537_u32.to_le_bytes()].concat());
    }
}

fn of_run_flags(place: &Place<'_>, mut push: impl FnMut(&str, &str, Vec<u8>)) {
    let containers = place.fields[place.at + 1..].iter();
    let containers = containers.take_while(|field| matches!(field.what, What::Key | What::Last)).count() / 2;
    let last = place.bytes().len() - 1;
    if !containers.is_multiple_of(8) {
        push("flag of the next container", "RunFlags", place.flip(last, containers % 8));
        push("last flag", "RunFlags", place.flip(last, 7));
    }
    push("no flags", "Cookie", vec![0; place.bytes().len()]);
}

/// A number of ids that is not true, where it changes neither the container's kind nor its bytes.
fn of_cardinality(place: &Place<'_>, mut push: impl FnMut(&str, &str, Vec<u8>)) {
    let bitmap = place.bitmap();
    let before = place.fields[..place.at].iter().rev().take_while(|field| field.what != What::Cookie);
    let i = before.filter(|field| field.what == What::Last).count();
    let is_container = |field: &&Field| matches!(field.what, What::Array | What::Bitset | What::Runs);
    let container = bitmap.iter().filter(is_container).nth(i).unwrap();
    let ids = usize::from(u16::from_le_bytes([place.bytes()[0], place.bytes()[1]])) + 1;
    let stays = match container.what {
        What::Runs => container.bytes.len() < (2 * (ids - 1)).min(8192),
        What::Bitset => ids > 4098,
        _ => false,
    };
    if stays {
        let kind = format!("{:?}", container.what).to_lowercase();
        push(&format!("{kind} of one id more"), "Cardinality", place.add(-1));
        if ids < 65_536 {
            push(&format!("{kind} of one id less"), "Cardinality", place.add(1));
        }
    }
}

fn of_array(bytes: &[u8], mut push: impl FnMut(&str, &str, Vec<u8>)) {
    if let Some((before, [a, b, c, d])) = bytes.split_last_chunk() {
        push("same id again", "Order", [before, &[*a, *b, *a, *b]].concat());
        push("ids in disorder", "Order", [before, &[*c, *d, *a, *b]].concat());
    }
}

fn of_runs(bytes: &[u8], mut push: impl FnMut(&str, &str, Vec<u8>)) {
    let Some((before, [a, b, c, d, e, f, g, h])) = bytes.split_last_chunk() else { return };
    if before.is_empty() {
        return;
    }
    let behind = u16::from_le_bytes([*a, *b]) + u16::from_le_bytes([*c, *d]) + 1;
    let starting = |[e, f]: [u8; 2]| [before, &[*a, *b, *c, *d, e, f, *g, *h]].concat();
    push("runs touch", "Run", starting(behind.to_le_bytes()));
    push("runs overlap", "Run", starting((behind - 1).to_le_bytes()));
    push("runs in disorder", "Run", [before, &[*e, *f, *g, *h, *a, *b, *c, *d]].concat());
    push("run leaves the block", "Run", starting([0xff; 2]));
}

fn of_lows(place: &Place<'_>, mut push: impl FnMut(&str, &str, Vec<u8>)) {
    // The numbers are as many as the unary part has ones.
    let ones: u32 = place.fields[place.at + 1].bytes.iter().map(|byte| byte.count_ones()).sum();
    let k = u32::from(place.fields[place.at - 1].bytes[0]);
    if !(ones * k).is_multiple_of(8) {
        push("bit behind the low bits", "Padding", place.flip(place.bytes().len() - 1, 7));
    }
}
