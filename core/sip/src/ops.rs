//! Intersection, union and difference of sets under any two tags.
//!
//! Scattered sets are merged id by id, long ranges from edge to edge; all else meets block by block, as
//! containers, where blocks that only one side has are skipped or copied whole.

use std::cmp::Ordering;

use basalt_kernels::sorted16;

use crate::{
    BLOCK_IDS, BLOCK_WORDS, Builder, Sip, Tag, View,
    blocks::{Block, Blocks, Scratch},
    contents::{Contents, run_of},
    encode,
    ranges::{self, Range, Ranges},
    roaring::{self, MAX_ARRAY},
};

/// Which ids of two sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// Those of both.
    Intersection,
    /// Those of either.
    Union,
    /// Those of the first alone.
    Difference,
}

impl Op {
    /// Whether an id is wanted, by the sets that it is in.
    fn wants(self, first: bool, second: bool) -> bool {
        match self {
            Self::Intersection => first && second,
            Self::Union => first || second,
            Self::Difference => first && !second,
        }
    }
}

impl View<'_> {
    /// The ids of both sets.
    pub fn intersection(&self, other: &View<'_>) -> Sip {
        combine(Op::Intersection, self, other)
    }

    /// The ids of either set.
    pub fn union(&self, other: &View<'_>) -> Sip {
        combine(Op::Union, self, other)
    }

    /// The ids of this set that are not in the other.
    pub fn difference(&self, other: &View<'_>) -> Sip {
        combine(Op::Difference, self, other)
    }
}

impl Sip {
    /// The ids of both sets; see [`View::intersection`].
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.view().intersection(&other.view())
    }

    /// The ids of either set; see [`View::union`].
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.view().union(&other.view())
    }

    /// The ids of this set that are not in the other; see [`View::difference`].
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.view().difference(&other.view())
    }

    /// The ids of any of the sets: they are united two by two, the smallest first.
    pub fn union_all<'a>(sets: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sets: Vec<Self> = sets.into_iter().cloned().collect();
        sets.sort_by_key(|set| set.as_bytes().len());
        while sets.len() > 1 {
            sets = sets
                .chunks(2)
                .map(|pair| pair.iter().skip(1).fold(pair[0].clone(), |a, b| a.union(b)))
                .collect();
        }
        sets.pop().unwrap_or_else(Self::empty)
    }
}

fn combine(op: Op, a: &View<'_>, b: &View<'_>) -> Sip {
    if is_scattered(a) && is_scattered(b) {
        return Sip::from_sorted_ids(&ids(op, a, b));
    }
    let few = |set: &View<'_>| set.as_ranges().is_some_and(|ranges| !are_dense(&ranges));
    if (few(a) && few(b)) || is_wide(a) || is_wide(b) {
        let (mut a, mut b) = (Runs::new(a), Runs::new(b));
        let runs = encode::ranges_of(|writer| {
            sweep(op, || a.next(), || b.next(), |range| writer.push(range.first, range.last));
        });
        return runs.to_smallest();
    }
    blocks(op, a, b)
}

/// Whether a set has so many full blocks that they are not to be gone through one by one.
fn is_wide(set: &View<'_>) -> bool {
    const BLOCKS: u64 = 1024;
    set.as_ranges().is_some_and(|ranges| ranges.cardinality / BLOCK_IDS > BLOCKS)
}

/// The ranges of a set under any tag; those of neighbouring blocks may touch.
enum Runs<'a> {
    Ranges(ranges::Groups<'a>),
    /// Those of a block, and the place of the next one.
    Blocks {
        blocks: Blocks<'a>,
        scratch: Box<Scratch>,
        runs: Vec<Range>,
        next: usize,
    },
}

impl<'a> Runs<'a> {
    fn new(set: &View<'a>) -> Self {
        match set.as_ranges() {
            Some(ranges) => Self::Ranges(ranges.groups()),
            None => {
                let (blocks, scratch) = (set.blocks(), Box::new(Scratch::NEW));
                Self::Blocks { blocks, scratch, runs: Vec::new(), next: 0 }
            }
        }
    }

    fn next(&mut self) -> Option<Range> {
        match self {
            Self::Ranges(groups) => {
                let range = *groups.rest().first()?;
                groups.pass(1);
                Some(range)
            }
            Self::Blocks { blocks, scratch, runs, next } => {
                if *next == runs.len() {
                    *next = 0;
                    runs.clear();
                    let block = blocks.next(scratch)?;
                    let base = block.base();
                    block.contents.for_each_run(|first, last| {
                        runs.push(Range { first: base + first, last: base + last });
                    });
                }
                *next += 1;
                runs.get(*next - 1).copied()
            }
        }
    }
}

/// Whether few ids of a set share a block: each takes many bits, also beside the 16 of an array.
fn is_scattered(set: &View<'_>) -> bool {
    let bits = if set.tag() == Tag::Roaring { 28 } else { 12 };
    set.as_bytes().len() as u64 * 8 >= set.cardinality().saturating_mul(bits)
}

/// Whether many ranges share a block.
fn are_dense(ranges: &Ranges<'_>) -> bool {
    const BITS: u64 = 20;
    ranges.count() > MANY_RUNS as u64 && ranges.bytes.len() as u64 * 8 < ranges.count() * BITS
}

/// The wanted ids of two sets, id by id.
fn ids(op: Op, a: &View<'_>, b: &View<'_>) -> Vec<u64> {
    let most = match op {
        Op::Intersection => a.cardinality().min(b.cardinality()),
        Op::Union => a.cardinality().saturating_add(b.cardinality()),
        Op::Difference => a.cardinality(),
    };
    // A merge writes one id more than it keeps.
    let mut out = vec![0; usize::try_from(most).unwrap_or(usize::MAX).saturating_add(1)];
    let mut len = 0;
    let (mut a, mut b) = (a.iter(), b.iter());
    while (!a.ahead().is_empty() || a.refill()) && (!b.ahead().is_empty() || b.refill()) {
        let (of_a, of_b, count) = merge(op, a.ahead(), b.ahead(), &mut out[len..]);
        a.pass(of_a);
        b.pass(of_b);
        len += count;
    }
    for (wanted, mut rest) in [(op.wants(true, false), a), (op.wants(false, true), b)] {
        while wanted && (!rest.ahead().is_empty() || rest.refill()) {
            let ids = rest.ahead();
            let count = ids.len();
            out[len..][..count].copy_from_slice(ids);
            rest.pass(count);
            len += count;
        }
    }
    out.truncate(len);
    out
}

/// Merges ids until one side is at its end: how many were read of each, and how many written. No branch
/// depends on how the ids compare.
fn merge(op: Op, a: &[u64], b: &[u64], out: &mut [u64]) -> (usize, usize, usize) {
    let wants = [op.wants(true, false), op.wants(true, true), op.wants(false, true)].map(usize::from);
    let (mut i, mut j, mut len) = (0, 0, 0);
    while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
        out[len] = x.min(y);
        let (first, second) = (usize::from(x <= y), usize::from(y <= x));
        len += wants[1 - first + second];
        i += first;
        j += second;
    }
    (i, j, len)
}

/// Goes through two sets of ranges from edge to edge, and hands those that are wanted to `emit`; they may
/// touch.
fn sweep(
    op: Op,
    mut next_a: impl FnMut() -> Option<Range>,
    mut next_b: impl FnMut() -> Option<Range>,
    mut emit: impl FnMut(Range),
) {
    let (mut a, mut b) = (next_a(), next_b());
    let mut first = 0;
    while (a.is_some() || op == Op::Union) && (b.is_some() || op != Op::Intersection) {
        // Whether one is inside a range, and the last id before that changes.
        let ahead = |range: Option<Range>| match range {
            Some(range) if range.first <= first => (true, range.last),
            Some(range) => (false, range.first - 1),
            None => (false, u64::MAX),
        };
        let ((in_a, end_a), (in_b, end_b)) = (ahead(a), ahead(b));
        let last = end_a.min(end_b);
        if op.wants(in_a, in_b) {
            emit(Range { first, last });
        }
        let Some(next) = last.checked_add(1) else { return };
        first = next;
        if a.is_some_and(|range| range.last < first) {
            a = next_a();
        }
        if b.is_some_and(|range| range.last < first) {
            b = next_b();
        }
    }
}

/// The wanted ids of two sets, block by block.
fn blocks(op: Op, a: &View<'_>, b: &View<'_>) -> Sip {
    let mut out = Builder::new();
    let mut room = Room::NEW;
    let (mut of_a, mut of_b) = (a.blocks(), b.blocks());
    let (mut scratch_a, mut scratch_b) = (Scratch::NEW, Scratch::NEW);
    let (mut a, mut b) = (of_a.next(&mut scratch_a), of_b.next(&mut scratch_b));
    loop {
        let order = match (&a, &b) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => a.key.cmp(&b.key),
        };
        match (order, a, b) {
            (Ordering::Equal, Some(first), Some(second)) => {
                pair(op, first, second, &mut room, &mut out);
                a = of_a.next(&mut scratch_a);
                b = of_b.next(&mut scratch_b);
            }
            (Ordering::Less, Some(first), second) => {
                match second {
                    _ if op.wants(true, false) => copy(first, &mut out),
                    Some(second) => of_a.skip_to(second.key),
                    None => break,
                }
                a = of_a.next(&mut scratch_a);
            }
            (_, first, Some(second)) => {
                match first {
                    _ if op.wants(false, true) => copy(second, &mut out),
                    Some(first) => of_b.skip_to(first.key),
                    None => break,
                }
                b = of_b.next(&mut scratch_b);
            }
            _ => break,
        }
    }
    out.finish()
}

fn copy(block: Block<'_>, out: &mut Builder) {
    out.push(|bytes| roaring::encode_contents(block.key, block.contents, bytes));
}

/// The wanted ids of two sets' contents of one block.
fn pair(op: Op, a: Block<'_>, b: Block<'_>, room: &mut Room, out: &mut Builder) {
    match (op, a.is_full(), b.is_full()) {
        (Op::Intersection, true, _) | (Op::Union, _, true) => return copy(b, out),
        (Op::Intersection, _, true) | (Op::Union, true, _) => return copy(a, out),
        (Op::Difference, _, true) => return,
        _ => {}
    }
    match (op, a.contents, b.contents) {
        (_, Contents::Runs(first), Contents::Runs(second)) if first.len() + second.len() <= MANY_RUNS => {
            let next = |runs: &[[u8; 4]], at: &mut usize| {
                *at += 1;
                let run = run_of(*runs.get(*at - 1)?);
                Some(Range { first: run.start, last: run.end - 1 })
            };
            let (mut i, mut j) = (0, 0);
            room.runs.clear();
            let mut open: Option<Range> = None;
            let mut emit = |range: Option<Range>| match (&mut open, range) {
                (Some(open), Some(range)) if range.first - open.last == 1 => open.last = range.last,
                (open, range) => {
                    if let Some(run) = std::mem::replace(open, range) {
                        let [a, b] = roaring::low(run.first).to_le_bytes();
                        let [c, d] = roaring::low(run.last - run.first).to_le_bytes();
                        room.runs.push([a, b, c, d]);
                    }
                }
            };
            sweep(op, || next(first, &mut i), || next(second, &mut j), |range| emit(Some(range)));
            emit(None);
            out.push(|bytes| roaring::encode_runs(a.key, &room.runs, bytes));
        }
        (Op::Intersection, Contents::Array(first), Contents::Array(second)) => {
            let count = sorted16::intersect(first, second, &mut room.positions);
            for (field, offset) in room.offsets.iter_mut().zip(&room.positions[..count]) {
                *field = offset.to_le_bytes();
            }
            out.push(|bytes| roaring::encode_array(a.key, &room.offsets[..count], bytes));
        }
        (Op::Union, Contents::Array(first), Contents::Array(second)) if first.len() + second.len() <= FEW => {
            let count = unite(first, second, &mut room.offsets);
            out.push(|bytes| roaring::encode_array(a.key, &room.offsets[..count], bytes));
        }
        (Op::Intersection, Contents::Array(array), other)
        | (Op::Intersection, other, Contents::Array(array)) => {
            keep(a.key, array, |offset| other.contains(offset), room, out);
        }
        (Op::Difference, Contents::Array(array), other)
            if array.len() < FEW || !matches!(other, Contents::Array(_)) =>
        {
            keep(a.key, array, |offset| !other.contains(offset), room, out);
        }
        (op, first, second) => {
            first.copy_to(&mut room.words);
            match op {
                Op::Intersection => second.keep_in(&mut room.words),
                Op::Union => second.add_to(&mut room.words),
                Op::Difference => second.remove_from(&mut room.words),
            }
            out.push(|bytes| roaring::encode_words(a.key, &room.words, bytes));
        }
    }
}

/// Merges two arrays; `out` has room for both.
fn unite(a: &[[u8; 2]], b: &[[u8; 2]], out: &mut [[u8; 2]]) -> usize {
    let (mut i, mut j, mut len) = (0, 0, 0);
    while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
        let order = u16::from_le_bytes(x).cmp(&u16::from_le_bytes(y));
        out[len] = if order.is_le() { x } else { y };
        len += 1;
        i += usize::from(order.is_le());
        j += usize::from(order.is_ge());
    }
    for rest in [&a[i..], &b[j..]] {
        out[len..][..rest.len()].copy_from_slice(rest);
        len += rest.len();
    }
    len
}

/// The offsets of an array that pass.
fn keep(key: u64, array: &[[u8; 2]], passes: impl Fn(u16) -> bool, room: &mut Room, out: &mut Builder) {
    let mut count = 0;
    for &field in array {
        if let Some(slot) = room.offsets.get_mut(count) {
            *slot = field;
        }
        count += usize::from(passes(u16::from_le_bytes(field)));
    }
    out.push(|bytes| roaring::encode_array(key, &room.offsets[..count], bytes));
}

/// Runs of a block that are put together as words rather than from edge to edge.
const MANY_RUNS: usize = 128;

/// Offsets that are looked up or merged one by one rather than as a mask.
const FEW: usize = 128;

/// Where the ids of a block are put together.
struct Room {
    words: [u64; BLOCK_WORDS],
    positions: [u16; MAX_ARRAY + 64],
    offsets: [[u8; 2]; MAX_ARRAY],
    runs: Vec<[u8; 4]>,
}

impl Room {
    const NEW: Self = Self {
        words: [0; BLOCK_WORDS],
        positions: [0; MAX_ARRAY + 64],
        offsets: [[0; 2]; MAX_ARRAY],
        runs: Vec::new(),
    };
}
