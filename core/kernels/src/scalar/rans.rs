//! Decoding of nibbles. The stream is described at [`crate::rans`].

use super::Portable;
use crate::{
    forms::rans::{HEAD_WORDS, LEAST, SIDE_BY_SIDE, STEP, Stream, TAIL_STATES, VECTOR_STEPS, steps},
    lanes::Lane,
    rans::Table,
};

/// The body of a stream.
pub(crate) struct Body<'a> {
    pub(crate) states: [u32; STEP],
    /// The words behind those of the states.
    pub(crate) words: &'a [u16],
    pub(crate) steps: usize,
    /// The lanes of the image: zeros so far.
    pub(crate) lanes: &'a mut [u16],
}

/// The loop of an instruction set over the steps of bodies.
pub(crate) trait Bodies: Copy {
    /// Decodes bodies side by side, and leaves their last states.
    fn decode<const N: usize>(self, table: &Table, bodies: &mut [Body<'_>; N]);
}

impl<A: Portable> Bodies for A {
    #[inline(always)]
    fn decode<const N: usize>(self, table: &Table, bodies: &mut [Body<'_>; N]) {
        one_by_one(table, bodies);
    }
}

/// Bodies, one after the other, symbol by symbol.
#[inline(always)]
pub(crate) fn one_by_one(table: &Table, bodies: &mut [Body<'_>]) {
    for Body { states, words, steps, lanes } in bodies {
        let mut at = 0;
        for step in 0..*steps {
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
}

#[inline(always)]
pub(crate) fn nibbles(isa: impl Bodies, table: &Table, streams: &mut [Stream<'_>]) {
    let (fours, rest) = streams.as_chunks_mut::<SIDE_BY_SIDE>();
    let (pairs, rest) = rest.as_chunks_mut::<2>();
    fours.iter_mut().for_each(|streams| side_by_side(isa, table, streams));
    pairs.iter_mut().for_each(|streams| side_by_side(isa, table, streams));
    rest.iter_mut().for_each(|stream| side_by_side(isa, table, std::array::from_mut(stream)));
}

#[inline(always)]
fn side_by_side<const N: usize>(isa: impl Bodies, table: &Table, streams: &mut [Stream<'_>; N]) {
    let mut bodies = streams.each_mut().map(|Stream { words, tail, out }| {
        out.fill(0);
        Body {
            states: heads(words),
            words: words.get(HEAD_WORDS..).unwrap_or(&[]),
            steps: steps(out.len()) - *tail,
            lanes: u16::lanes_mut(out),
        }
    });
    isa.decode(table, &mut bodies);
    let bodies = bodies.map(|body| (body.states, body.steps));
    for (Stream { words, tail: steps, out }, (states, from)) in streams.iter_mut().zip(&bodies) {
        let lanes = u16::lanes_mut(out);
        if *from == 0 {
            tail(table, words, 0, *steps, lanes);
        } else if *steps > 0 {
            let (words, count) = left(states);
            tail(table, &words[..count], *from, *steps, lanes);
        }
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
