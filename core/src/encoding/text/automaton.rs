//! LIKE on the codes of compressed texts, of which none is decoded: an automaton that goes on by a whole symbol at a time.
//!
//! That of bytes is the one of Knuth, Morris and Pratt ("Fast Pattern Matching in Strings", 1977) for each piece between two
//! `%`, one behind the other. What a symbol does to a state is what its bytes do; behind the escape a state waits for the byte.

use std::ops::Range;

use super::{
    sieve::{Found, Sieve},
    symbols::{ESCAPE, Symbols},
};
use crate::{like::Pattern, mask};

/// States of bytes, at most: twice as many, each a row of 256 bytes, fit the first cache.
const MOST_STATES: usize = 64;
/// Texts that are read side by side: a step waits for the one before.
const LANES: usize = 4;

/// See the module.
pub(super) struct Automaton {
    /// For each state, what it becomes by each code. The second half are those that wait for the byte of an escape.
    next: Vec<[u8; 256]>,
    start: u8,
    /// The state of a text that matches.
    accepts: u8,
    /// Whether what has matched goes on to match.
    is_open: bool,
    /// Where the pattern begins with `%`.
    sieve: Option<Sieve>,
}

/// The automaton of bytes, while it is made.
struct Bytes {
    next: Vec<[u8; 256]>,
}

impl Bytes {
    fn state(&self) -> u8 {
        // There are no more than `MOST_STATES`.
        self.next.len().to_le_bytes()[0]
    }

    /// A piece at the start of a text; `dead` is the state of what does not begin so.
    fn anchored(&mut self, piece: &[u8], dead: u8) {
        for byte in piece {
            let mut row = [dead; 256];
            row[usize::from(*byte)] = self.state() + 1;
            self.next.push(row);
        }
    }

    /// A piece where it is found first; what follows it is the next state. Returns the state in which what was read last is
    /// the longest start of the piece but the piece itself.
    fn found(&mut self, piece: &[u8]) -> u8 {
        let first = self.state();
        let mut restart = first;
        for (i, byte) in piece.iter().enumerate() {
            let mut row = if i == 0 { [first; 256] } else { self.next[usize::from(restart)] };
            if i > 0 {
                restart = row[usize::from(*byte)];
            }
            row[usize::from(*byte)] = self.state() + 1;
            self.next.push(row);
        }
        restart
    }
}

impl Automaton {
    /// `None`: the pattern has characters that may be any, too many of them, or no `%`.
    pub(super) fn new(pattern: &Pattern, symbols: &Symbols) -> Option<Self> {
        let (first, between, last) = pattern.literals()?;
        let length = first.len() + between.iter().map(|piece| piece.len()).sum::<usize>() + last.len();
        // Behind the last piece, and of what does not begin as it should.
        if length + 2 > MOST_STATES {
            return None;
        }
        let (accepts, dead) = (length.to_le_bytes()[0], length.to_le_bytes()[0] + 1);
        let mut bytes = Bytes { next: Vec::with_capacity(length + 2) };
        bytes.anchored(first.as_bytes(), dead);
        for piece in &between {
            bytes.found(piece.as_bytes());
        }
        let restart = bytes.found(last.as_bytes());
        let end = if last.is_empty() { [accepts; 256] } else { bytes.next[usize::from(restart)] };
        bytes.next.extend([end, [dead; 256]]);
        let next = of_codes(&bytes.next, symbols);
        let piece = between.first().copied().unwrap_or(last);
        let sieve = (first.is_empty() && !piece.is_empty()).then(|| Sieve::new(&next, piece.len()));
        Some(Self { next, start: 0, accepts, is_open: last.is_empty(), sieve })
    }

    /// Writes which of the wanted texts of a unit match, whose codes lie between `places`.
    pub(super) fn test(
        &self,
        codes: &[u8],
        places: &[usize],
        wanted: &[u64],
        found: &mut Found,
        out: &mut [u64],
    ) {
        let is_dense = 4 * mask::count(wanted) >= places.len();
        if let (true, Some(sieve), [first, .., end]) = (is_dense, &self.sieve, places)
            && let Some(found) = sieve.places(&codes[*first..*end], found)
        {
            out.fill(0);
            return self.test_at(codes, places, wanted, found, out);
        }
        self.test_all(codes, places, wanted, out);
    }

    /// The same, where texts leave the first state at the places that were `found` alone.
    fn test_at(&self, codes: &[u8], places: &[usize], wanted: &[u64], found: &[u64], out: &mut [u64]) {
        // What lies before `read` was read, or is not wanted.
        let (mut row, mut read) = (0, places[0]);
        basalt_kernels::mask::for_each(found, |place| {
            let at = places[0] + place;
            if at < read {
                return;
            }
            while places[row + 1] <= at {
                row += 1;
            }
            let end = places[row + 1];
            if !mask::selects(Some(wanted), row) {
                read = end;
                return;
            }
            let mut state = self.start;
            read = at;
            for code in &codes[at..end] {
                state = self.next[usize::from(state)][usize::from(*code)];
                read += 1;
                if state == self.start {
                    return;
                }
                if state == self.accepts && self.is_open {
                    break;
                }
            }
            out[row / 64] |= u64::from(state == self.accepts) << (row % 64);
            read = end;
        });
    }

    fn test_all(&self, codes: &[u8], places: &[usize], wanted: &[u64], out: &mut [u64]) {
        out.fill(0);
        let (mut rows, mut ranges) = ([0; LANES], [const { 0..0 }; LANES]);
        let mut gathered = 0;
        basalt_kernels::mask::for_each(wanted, |row| {
            (rows[gathered], ranges[gathered]) = (row, places[row]..places[row + 1]);
            gathered += 1;
            if gathered == LANES {
                self.write(codes, &rows, &ranges, out);
                gathered = 0;
            }
        });
        ranges[gathered..].fill(0..0);
        self.write(codes, &rows[..gathered], &ranges, out);
    }

    fn write(&self, codes: &[u8], rows: &[usize], ranges: &[Range<usize>; LANES], out: &mut [u64]) {
        for (row, state) in rows.iter().zip(self.ends(codes, ranges)) {
            out[row / 64] |= u64::from(state == self.accepts) << (row % 64);
        }
    }

    /// The states behind some texts.
    fn ends(&self, codes: &[u8], ranges: &[Range<usize>; LANES]) -> [u8; LANES] {
        let texts = ranges.each_ref().map(|range| &codes[range.clone()]);
        let mut states = [self.start; LANES];
        let lengths = texts.map(<[u8]>::len);
        let (shortest, longest) =
            lengths.iter().fold((usize::MAX, 0), |(least, most), n| (least.min(*n), most.max(*n)));
        let heads = texts.map(|text| &text[..shortest]);
        for i in 0..shortest {
            for (state, head) in states.iter_mut().zip(heads) {
                *state = self.next[usize::from(*state)][usize::from(head[i])];
            }
        }
        for i in shortest..longest {
            for (state, text) in states.iter_mut().zip(texts) {
                if let Some(code) = text.get(i) {
                    *state = self.next[usize::from(*state)][usize::from(*code)];
                }
            }
        }
        states
    }
}

/// What codes do to the states of bytes.
fn of_codes(bytes: &[[u8; 256]], symbols: &Symbols) -> Vec<[u8; 256]> {
    let states = bytes.len().to_le_bytes()[0];
    let mut next = vec![[0; 256]; 2 * bytes.len()];
    for (state, (row, waiting)) in (0..states).zip(std::iter::zip(0.., bytes.len()..)) {
        for (code, to) in (0..=u8::MAX).zip(&mut next[row]) {
            // Default: a code without a symbol is in no text.
            let symbol = symbols.get(code).unwrap_or_default();
            let read = |state: u8, byte: &u8| bytes[usize::from(state)][usize::from(*byte)];
            *to = if code == ESCAPE { states + state } else { symbol.iter().fold(state, read) };
        }
        next[waiting] = bytes[row];
    }
    next
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn codes_of(text: &str, symbols: &[&str], longest_first: bool) -> Vec<u8> {
        let (mut rest, mut codes) = (text.as_bytes(), Vec::new());
        while let Some((byte, behind)) = rest.split_first() {
            let fitting = (0_u8..).zip(symbols).filter(|(_, symbol)| rest.starts_with(symbol.as_bytes()));
            let found = match longest_first {
                true => fitting.max_by_key(|(_, symbol)| symbol.len()),
                false => fitting.min_by_key(|(_, symbol)| symbol.len()),
            };
            match found {
                Some((code, symbol)) => {
                    codes.push(code);
                    rest = &rest[symbol.len()..];
                }
                None => {
                    codes.extend([ESCAPE, *byte]);
                    rest = behind;
                }
            }
        }
        codes
    }

    const SOME: [&str; 7] = ["a", "ab", "aab", "ba", "abcabca", "c", "é"];

    proptest! {
        #[test]
        fn codes_match_as_texts_do(
            // No symbols begin with the last ones, of which two are bytes that are codes as well.
            pattern in "[abcd\u{1}\u{4}]{0,4}%(([abcdé\u{1}\u{4}]{0,4}%){0,3})[abcd\u{1}\u{4}]{0,4}",
            texts in prop::collection::vec("[abcdé\u{1}\u{4}]{0,24}", 1..20),
            wanted: u64,
            longest_first: bool,
        ) {
            let parsed = Pattern::new(&pattern).unwrap();
            let automaton = Automaton::new(&parsed, &Symbols::of(&SOME)).unwrap();
            let (mut codes, mut places) = (Vec::new(), vec![0]);
            for text in &texts {
                codes.extend(codes_of(text, &SOME, longest_first));
                places.push(codes.len());
            }
            let wanted = [wanted & (u64::MAX >> (64 - texts.len()))];
            let (mut at_places, mut all) = ([0], [u64::MAX]);
            automaton.test_all(&codes, &places, &wanted, &mut all);
            let mut found = Found::default();
            // As many as there are.
            let found = automaton.sieve.as_ref().map(|sieve| sieve.all(&codes, &mut found));
            if let Some(found) = found {
                automaton.test_at(&codes, &places, &wanted, found, &mut at_places);
            }
            for (row, text) in texts.iter().enumerate() {
                let expected = wanted[0] >> row & 1 == 1 && parsed.matches(text);
                prop_assert_eq!(all[0] >> row & 1 == 1, expected, "{:?} LIKE {:?}", text, &pattern);
                if found.is_some() {
                    prop_assert_eq!(at_places[0] >> row & 1 == 1, expected, "{:?} LIKE {:?}", text, &pattern);
                }
            }
        }
    }

    #[test]
    fn patterns_that_have_no_automaton() {
        let of =
            |pattern: &str| Automaton::new(&Pattern::new(pattern).unwrap(), &Symbols::of(&SOME)).is_some();
        assert!(of("%a%") && of("a%") && of("%") && of(&format!("%{}%", "a".repeat(62))));
        assert!(!of("a") && !of("%a_b%") && !of(&format!("%{}%", "a".repeat(63))));
    }
}
