//! Where in the codes of texts a pattern `%piece%…` may begin to match: the codes between are not read one by one.
//!
//! A text goes on from the automaton's first state by a code that ends with a start of the piece, and stays beyond it by one that
//! goes on with the piece. Both are sets of codes, which registers look up many at a time; few places have one behind the other.

use crate::mask;

/// A set of codes.
type Codes = [u64; 4];

/// See the module.
pub(super) struct Sieve {
    /// Codes by which a text goes on beyond the piece, and the escape: the states that wait for its byte come behind all others.
    finds: Codes,
    /// Codes that end with a start of the piece.
    begins: Codes,
    /// Codes that lead from a start of the piece elsewhere than from none.
    goes_on: Codes,
}

/// The places in some codes.
#[derive(Default)]
pub(super) struct Found {
    words: Vec<u64>,
    begins: Vec<u64>,
    goes_on: Vec<u64>,
}

impl Sieve {
    /// For the states of codes, of which those from 1 up to `length` are the starts of the first piece.
    pub(super) fn new(next: &[[u8; 256]], length: usize) -> Self {
        let (mut finds, mut begins, mut goes_on) = ([0; 4], [0; 4], [0; 4]);
        for code in 0..=u8::MAX {
            let (at, bit) = (usize::from(code / 64), 1 << (code % 64));
            let to = |state: usize| usize::from(next[state][usize::from(code)]);
            match to(0) {
                0 => {}
                state if state < length => begins[at] |= bit,
                _ => finds[at] |= bit,
            }
            if (1..length).any(|state| to(state) != to(0)) {
                goes_on[at] |= bit;
            }
        }
        Self { finds, begins, goes_on }
    }

    /// Finds the places in some codes: a bit for each. `None`: they are so many that the codes are read sooner one by one.
    pub(super) fn places<'a>(&self, codes: &[u8], found: &'a mut Found) -> Option<&'a [u64]> {
        let places = self.all(codes, found);
        (mask::count(places) <= codes.len() / 8).then_some(places)
    }

    /// The same, however many they are.
    pub(super) fn all<'a>(&self, codes: &[u8], found: &'a mut Found) -> &'a [u64] {
        let Found { words, begins, goes_on } = found;
        for (set, words) in
            [(&self.finds, &mut *words), (&self.begins, &mut *begins), (&self.goes_on, goes_on)]
        {
            words.resize(codes.len().div_ceil(64), 0);
            basalt_kernels::bytes::in_set(codes, set, words);
        }
        let next = goes_on.iter().skip(1).chain(&[0]);
        for (word, (begins, (goes_on, next))) in
            words.iter_mut().zip(begins.iter().zip(goes_on.iter().zip(next)))
        {
            *word |= begins & (goes_on >> 1 | next << 63);
        }
        words
    }
}
