//! Finds the symbols of texts: at each place the longest that there is, a byte for itself where there is none.
//!
//! A symbol says where the next one begins, and to look it up takes a while: so several texts are gone through in turns.
//! Nothing branches on what is found, not even on where a text ends, for nobody foresees it.

use crate::invariant::Invariant;

use super::symbols::{ESCAPE, MAX_LENGTH};

/// Texts that are gone through in turns.
const LANES: usize = 4;
/// Slots of the symbols of three bytes and more.
const SLOTS: usize = 1 << 11;
/// The lowest bytes of a word, by their number.
const LOW: [u64; MAX_LENGTH + 1] = [
    0,
    0xFF,
    0xFFFF,
    0xFF_FFFF,
    0xFFFF_FFFF,
    0xFF_FFFF_FFFF,
    0xFFFF_FFFF_FFFF,
    0xFF_FFFF_FFFF_FFFF,
    u64::MAX,
];

/// What stands for the bytes at a place.
#[derive(Clone, Copy, Debug)]
struct Step {
    code: u8,
    /// The bytes it stands for.
    length: u8,
    /// The bytes it takes.
    codes: u8,
}

/// A symbol of three bytes or more.
#[derive(Clone, Copy, Debug)]
struct Long {
    symbol: u64,
    mask: u64,
    step: Step,
}

/// Where the symbols are found.
#[derive(Debug)]
pub(super) struct Matcher {
    /// By a hash of the first three bytes.
    long: Box<[Long; SLOTS]>,
    /// By the first two bytes.
    short: Box<[Step; 1 << 16]>,
}

/// Texts that are compressed together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The texts, one behind the other.
    pub(super) bytes: Vec<u8>,
    /// Where each ends.
    pub(super) ends: Vec<usize>,
    /// What is made of them.
    codes: Vec<u8>,
    code_ends: Vec<usize>,
}

impl Batch {
    /// No texts.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends a text.
    pub(super) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }
}

/// A text on its way, and those behind it.
struct Lane<'a> {
    at: usize,
    /// Where the text ends.
    end: usize,
    /// Of the texts of the lane.
    text: usize,
    ends: &'a [usize],
    codes: &'a mut [u8],
    coded: usize,
    /// Where the codes of each text end; there is room for one more.
    code_ends: &'a mut [usize],
}

/// The slot of a symbol's first three bytes: the hash by which training sees to it that each has one of its own.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "below the slots")]
fn slot(word: u64) -> usize {
    let front = word & LOW[3];
    ((front.wrapping_mul(2_971_215_073) ^ front >> 15) & (SLOTS as u64 - 1)) as usize
}

impl Matcher {
    /// Finds these symbols, at most 255, each with its bytes; its code is its position.
    pub(super) fn new(symbols: impl Iterator<Item = (u64, u8)> + Clone) -> Self {
        let none = Long { symbol: 1, mask: 0, step: Step { code: ESCAPE, length: 1, codes: 2 } };
        let mut long = vec![none; SLOTS];
        let mut ones = [none.step; 256];
        let symbols = (0..ESCAPE).zip(symbols);
        let step = |code, length| Step { code, length, codes: 1 };
        for (code, (symbol, _)) in symbols.clone().filter(|(_, (_, length))| *length == 1) {
            ones[usize::from(symbol.to_le_bytes()[0])] = step(code, 1);
        }
        // By two bytes, the first the lower one.
        let mut short = Vec::with_capacity(1 << 16);
        (0..256).for_each(|_| short.extend_from_slice(&ones));
        for (code, (symbol, length)) in symbols {
            match length {
                1 => {}
                2 => {
                    let [low, high, ..] = symbol.to_le_bytes();
                    short[usize::from(u16::from_le_bytes([low, high]))] = step(code, 2);
                }
                _ => {
                    let mask = LOW[usize::from(length).min(MAX_LENGTH)];
                    long[slot(symbol)] = Long { symbol, mask, step: step(code, length) };
                }
            }
        }
        let (long, short) = (long.into_boxed_slice().try_into(), short.into_boxed_slice().try_into());
        let tables = "the tables have the sizes that they are made of";
        Self { long: long.ok().invariant(tables), short: short.ok().invariant(tables) }
    }

    /// Compresses the texts of a batch: appends their codes, and calls `each` with how many each has.
    pub(super) fn compress(&self, batch: &mut Batch, codes: &mut Vec<u8>, mut each: impl FnMut(usize)) {
        let Batch { bytes, ends, codes: made, code_ends } = batch;
        let (texts, total) = (ends.len(), bytes.len());
        // A word is read at every place, also at the last and behind it.
        bytes.resize(total + MAX_LENGTH, 0);
        made.resize(made.len().max(2 * (total + LANES)), 0);
        code_ends.resize(texts + LANES, 0);
        let mut rest = (&mut made[..], &mut code_ends[..]);
        let mut first = 0;
        let mut lanes: [Lane<'_>; LANES] = std::array::from_fn(|lane| {
            let range = lane * texts / LANES..(lane + 1) * texts / LANES;
            let from = first;
            let ends = &ends[range.clone()];
            // Default: no texts, no bytes.
            first = ends.last().copied().unwrap_or(from);
            let own = std::mem::take(&mut rest);
            let (codes, codes_left) = own.0.split_at_mut(2 * (first - from + 1));
            let (code_ends, ends_left) = own.1.split_at_mut(range.len() + 1);
            rest = (codes_left, ends_left);
            let end = ends.first().copied().unwrap_or(from);
            Lane { at: from, end, text: 0, ends, codes, coded: 0, code_ends }
        });
        while lanes.iter().all(|lane| lane.text < lane.ends.len()) {
            lanes.iter_mut().for_each(|lane| self.step(bytes, lane));
        }
        for lane in &mut lanes {
            while lane.text < lane.ends.len() {
                self.step(bytes, lane);
            }
        }
        codes.reserve_exact(lanes.iter().map(|lane| lane.coded).sum());
        for lane in &lanes {
            codes.extend_from_slice(&lane.codes[..lane.coded]);
            let mut start = 0;
            lane.code_ends[..lane.ends.len()]
                .iter()
                .for_each(|end| each(end - std::mem::replace(&mut start, *end)));
        }
        bytes.truncate(total);
    }

    /// Takes the next symbol, or where the text has no more goes to the next text.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the lowest two bytes")]
    fn step(&self, bytes: &[u8], lane: &mut Lane<'_>) {
        let left = lane.end - lane.at;
        // Default: the bytes go on for a word behind every place.
        let word = bytes[lane.at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        // No symbol ends with a zero, but for a zero alone: none reaches beyond the text.
        let word = word & LOW[left.min(MAX_LENGTH)];
        let long = &self.long[slot(word)];
        let short = self.short[usize::from(word as u16)];
        let step = if word & long.mask == long.symbol { long.step } else { short };
        lane.codes[lane.coded..lane.coded + 2].copy_from_slice(&[step.code, word as u8]);
        // Nothing is taken where nothing is left.
        let some = usize::from(left > 0).wrapping_neg();
        lane.at += usize::from(step.length) & some;
        lane.coded += usize::from(step.codes) & some;
        lane.code_ends[lane.text] = lane.coded;
        lane.text += usize::from(lane.at == lane.end);
        // Default: behind the last text there is none.
        lane.end = lane.ends.get(lane.text).copied().unwrap_or(lane.at);
    }
}

#[cfg(test)]
mod tests {
    use fsst::Compressor;

    use super::*;

    /// Each text has the codes that it has when it is compressed alone, in whatever company, and by the library that has
    /// trained the symbols.
    #[test]
    fn texts_have_the_codes_of_the_library() {
        let mut state = 1_u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) % n
        };
        let words =
            ["carefully", "the", " ", "fox", "a", "b\0c", "\0", "é", "accounts", "", "zzzzzzzzz", "q"];
        let mut texts: Vec<String> = Vec::new();
        for i in 0..5000 {
            let word = |_| words[usize::try_from(next(words.len() as u64)).unwrap()];
            texts.push((0..i % 13).map(word).collect());
        }
        let bytes: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        for trained in [300, 5000] {
            let compressor = Compressor::train(&bytes[..trained].to_vec());
            let symbols = compressor.symbol_table().iter().map(|symbol| symbol.to_u64());
            let matcher = Matcher::new(symbols.zip(compressor.symbol_lengths().iter().copied()));
            let mut batch = Batch::default();
            for count in [0, 1, 2, 3, 4, 5, 9, 64, 1000, 5000] {
                batch.clear();
                bytes[5000 - count..].iter().for_each(|text| batch.push(text));
                let (mut codes, mut lengths) = (Vec::new(), Vec::new());
                matcher.compress(&mut batch, &mut codes, |length| lengths.push(length));
                assert_eq!(lengths.len(), count);
                let mut codes = codes.as_slice();
                for (text, length) in bytes[5000 - count..].iter().zip(lengths) {
                    let own;
                    (own, codes) = codes.split_at(length);
                    assert_eq!(own, compressor.compress(text), "{:?}", str::from_utf8(text));
                }
                assert!(codes.is_empty());
            }
        }
    }
}
