//! Decoding of nibbles. The stream is described at [`crate::rans`].

use super::Portable;
use crate::{
    packed::Lane,
    rans::{HEAD_WORDS, LEAST, STEP, TAIL_STATES, Table, VECTOR_STEPS, steps},
};

/// The body's loop of an instruction set.
pub(crate) trait Body: Copy {
    /// Decodes `steps` steps to the lanes of an image of zeros.
    fn body(self, table: &Table, states: &mut [u32; STEP], words: &[u16], steps: usize, lanes: &mut [u16]);
}

impl<A: Portable> Body for A {
    #[inline(always)]
    fn body(self, table: &Table, states: &mut [u32; STEP], words: &[u16], steps: usize, lanes: &mut [u16]) {
        body(table, states, words, steps, lanes);
    }
}

/// The body, symbol by symbol.
#[inline(always)]
pub(crate) fn body(table: &Table, states: &mut [u32; STEP], words: &[u16], steps: usize, lanes: &mut [u16]) {
    let mut at = 0;
    for step in 0..steps {
        let lanes = &mut lanes[step / VECTOR_STEPS * STEP..][..STEP];
        let shift = 4 * (step % VECTOR_STEPS);
        for (state, lane) in states.iter_mut().zip(lanes) {
            *lane |= table.step(state) << shift;
            // Without a branch: nobody can tell which states take a word.
            let word = u32::from(words.get(at).copied().unwrap_or(0));
            let taking = *state < LEAST;
            refill(state, taking, word);
            at += usize::from(taking);
        }
    }
}

#[inline(always)]
pub(crate) fn nibbles(isa: impl Body, table: &Table, words: &[u16], tail_steps: usize, out: &mut [u64]) {
    let body_steps = steps(out.len()) - tail_steps;
    out.fill(0);
    let lanes = u16::lanes_mut(out);
    if body_steps == 0 {
        return tail(table, words, 0, tail_steps, lanes);
    }
    let mut states = heads(words);
    isa.body(table, &mut states, words.get(HEAD_WORDS..).unwrap_or(&[]), body_steps, lanes);
    if tail_steps > 0 {
        let (words, count) = left(&states);
        tail(table, &words[..count], body_steps, tail_steps, lanes);
    }
}

/// Adds a word to a state that takes one, by arithmetic alone.
#[inline(always)]
fn refill(state: &mut u32, taking: bool, word: u32) {
    let shift = 16 * u32::from(taking);
    *state = *state << shift | word & ((1 << shift) - 1);
}

/// The states that the body begins with.
fn heads(words: &[u16]) -> [u32; STEP] {
    let word = |i: usize| u32::from(words.get(i).copied().unwrap_or(0));
    std::array::from_fn(|i| (word(2 * i) << 16 | word(2 * i + 1)).max(LEAST))
}

/// The words that are left in the states, and how many they are.
fn left(states: &[u32; STEP]) -> ([u16; HEAD_WORDS], usize) {
    let (mut words, mut count) = ([0; HEAD_WORDS], 0);
    let (mut bits, mut pending) = (0_u64, 0);
    for state in states {
        let fresh = state.ilog2();
        bits = bits << fresh | u64::from(state ^ 1 << fresh);
        pending += fresh;
        while pending >= 16 {
            pending -= 16;
            words[count] = (bits >> pending) as u16;
            count += 1;
        }
    }
    words[count] = (bits << (16 - pending)) as u16;
    let count = words.iter().rposition(|&word| word != 0).unwrap_or(0);
    (words, count)
}

/// The tail, from a step on.
#[inline(always)]
fn tail(table: &Table, words: &[u16], from: usize, steps: usize, lanes: &mut [u16]) {
    let word = |at: usize| u32::from(words.get(at).copied().unwrap_or(0));
    let mut states: [u32; TAIL_STATES] = std::array::from_fn(|i| word(2 * i) << 16 | word(2 * i + 1));
    let mut at = 2 * TAIL_STATES;
    for step in from..from + steps {
        let lanes = &mut lanes[step / VECTOR_STEPS * STEP..][..STEP];
        let shift = 4 * (step % VECTOR_STEPS);
        for lanes in lanes.as_chunks_mut::<TAIL_STATES>().0 {
            for (state, lane) in states.iter_mut().zip(lanes) {
                *lane |= table.step(state) << shift;
                let taking = *state < LEAST && at < words.len();
                refill(state, taking, word(at));
                at += usize::from(taking);
            }
        }
    }
}
