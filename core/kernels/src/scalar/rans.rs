//! Decoding of bytes. The stream is described at [`crate::rans`].

use super::Portable;
use crate::{
    forms::rans::{HEAD_WORDS, LEAST, SIDE_BY_SIDE, STEP, Stream, of_step, steps},
    lanes::Lane,
    rans::Table,
};

/// Bytes of a tail that are decoded before they are put where they belong.
pub(crate) const TURNS: usize = 64;

/// The body of a stream.
pub(crate) struct Body<'a> {
    pub(crate) states: [u32; STEP],
    /// The words behind those of the states.
    pub(crate) words: &'a [u16],
    /// Bytes that are wanted.
    pub(crate) bytes: usize,
    /// The image.
    pub(crate) out: &'a mut [u64],
}

/// The loop of an instruction set over the steps of bodies.
pub(crate) trait Bodies: Copy {
    /// Decodes bodies side by side, and leaves their last states.
    fn decode<const N: usize>(self, table: &Table, bodies: &mut [Body<'_>; N]);

    /// Decodes the tails of many streams.
    fn tails(self, table: &Table, tails: &mut [Tail<'_>]);
}

impl<A: Portable> Bodies for A {
    #[inline(always)]
    fn decode<const N: usize>(self, table: &Table, bodies: &mut [Body<'_>; N]) {
        one_by_one(table, bodies);
    }

    #[inline(always)]
    fn tails(self, table: &Table, tails: &mut [Tail<'_>]) {
        tails_in_turns(table, tails);
    }
}

/// Bodies, one after the other, byte by byte.
#[inline(always)]
pub(crate) fn one_by_one(table: &Table, bodies: &mut [Body<'_>]) {
    for Body { states, words, bytes, out } in bodies {
        let out = u8::lanes_mut(out);
        let mut at = 0;
        for step in 0..steps(*bytes) {
            let (first, lanes) = of_step(step, *bytes);
            for (state, byte) in states.iter_mut().zip(out[first..].iter_mut().step_by(2)).take(lanes) {
                *byte = table.step(state);
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
pub(crate) fn bytes(isa: impl Bodies, table: &Table, streams: &mut [Stream<'_>]) {
    // Loops: a closure need not be compiled for the instructions.
    for streams in streams.chunks_mut(STEP) {
        match streams {
            [stream] => few(isa, table, std::array::from_mut(stream)),
            [a, b] => few(isa, table, &mut [a, b].map(Stream::again)),
            streams => many(isa, table, streams),
        }
    }
}

/// Decodes few images.
#[inline(always)]
fn few<const N: usize>(isa: impl Bodies, table: &Table, streams: &mut [Stream<'_>; N]) {
    let states = side_by_side(isa, table, streams);
    let mut left_over = [[0; HEAD_WORDS]; N];
    let mut states = states.iter().zip(&mut left_over);
    let tails = streams.each_mut().map(|stream| {
        let words = states.next().map_or(&[][..], |(states, left_over)| stream.tail_words(states, left_over));
        Tail { words, out: stream.tail_out() }
    });
    decode_tails(table, tails);
}

/// Decodes up to [`STEP`] images.
#[inline(always)]
fn many(isa: impl Bodies, table: &Table, streams: &mut [Stream<'_>]) {
    let mut left_over = [[0; HEAD_WORDS]; STEP];
    let mut states = [[0; STEP]; STEP];
    let (fours, rest) = streams.as_chunks_mut::<SIDE_BY_SIDE>();
    let (of_fours, of_rest) = states.split_at_mut(SIDE_BY_SIDE * fours.len());
    for (streams, states) in fours.iter_mut().zip(of_fours.as_chunks_mut().0) {
        *states = side_by_side(isa, table, streams);
    }
    for (stream, states) in rest.iter_mut().zip(of_rest) {
        [*states] = side_by_side(isa, table, std::array::from_mut(stream));
    }
    let mut tails = Vec::with_capacity(STEP);
    for ((stream, states), left_over) in streams.iter_mut().zip(&states).zip(&mut left_over) {
        let words = stream.tail_words(states, left_over);
        tails.push(Tail { words, out: stream.tail_out() });
    }
    isa.tails(table, &mut tails);
}

/// Decodes the bodies of images, and tells their last states.
#[inline(always)]
fn side_by_side<const N: usize>(
    isa: impl Bodies,
    table: &Table,
    streams: &mut [Stream<'_>; N],
) -> [[u32; STEP]; N] {
    let mut bodies = streams.each_mut().map(|stream| {
        let bytes = stream.body();
        let Stream { words, out, .. } = stream;
        Body { states: heads(words), words: words.get(HEAD_WORDS..).unwrap_or(&[]), bytes, out }
    });
    isa.decode(table, &mut bodies);
    bodies.map(|body| body.states)
}

impl<'a> Stream<'a> {
    /// The same, for a while.
    fn again(&mut self) -> Stream<'_> {
        Stream { words: self.words, bytes: self.bytes, tail: self.tail, out: &mut *self.out }
    }

    /// Where the bytes of the tail go that are wanted.
    fn tail_out(&mut self) -> &mut [u8] {
        let first = (self.bytes - self.tail).min(8 * self.out.len());
        &mut u8::lanes_mut(self.out)[first..]
    }

    /// The words of the tail, or of what is left in the states of the body.
    fn tail_words<'s>(&self, states: &[u32; STEP], left_over: &'s mut [u16; HEAD_WORDS]) -> &'s [u16]
    where
        'a: 's,
    {
        if self.tail == self.bytes {
            return self.words;
        }
        if self.bytes - self.tail >= 8 * self.out.len() {
            return &[];
        }
        let count = left(states, left_over);
        &left_over[..count]
    }
}

/// The tail of a stream.
pub(crate) struct Tail<'a> {
    pub(crate) words: &'a [u16],
    pub(crate) out: &'a mut [u8],
}

/// Tails, four at a time.
#[inline(always)]
pub(crate) fn tails_in_turns(table: &Table, tails: &mut [Tail<'_>]) {
    let (fours, rest) = tails.as_chunks_mut::<4>();
    for four in fours {
        decode_tails(table, four.each_mut().map(Tail::again));
    }
    for tail in rest {
        decode_tails(table, [tail.again()]);
    }
}

impl Tail<'_> {
    /// The same, for a while.
    fn again(&mut self) -> Tail<'_> {
        Tail { words: self.words, out: &mut *self.out }
    }

    /// The first state.
    pub(crate) fn first_state(&self) -> u32 {
        // Default: the format's, of words that are missing.
        let word = |at: usize| u32::from(self.words.get(at).copied().unwrap_or(0));
        word(0) << 16 | word(1)
    }
}

/// Tails, in turns as long as all have bytes: a step waits for the one before.
#[inline(always)]
fn decode_tails<const N: usize>(table: &Table, mut tails: [Tail<'_>; N]) {
    let mut states = tails.each_ref().map(Tail::first_state);
    let mut next = [2; N];
    let all = tails.iter().map(|tail| tail.out.len()).min().unwrap_or(0);
    let mut turns = [[0; N]; TURNS];
    for first in (0..all).step_by(TURNS) {
        let turns = &mut turns[..TURNS.min(all - first)];
        for turn in &mut *turns {
            for (((tail, state), next), byte) in tails.iter().zip(&mut states).zip(&mut next).zip(turn) {
                *byte = table.step(state);
                refill_tail(tail, state, next);
            }
        }
        for (i, tail) in tails.iter_mut().enumerate() {
            tail.out[first..].iter_mut().zip(&*turns).for_each(|(byte, turn)| *byte = turn[i]);
        }
    }
    for ((tail, state), next) in tails.iter_mut().zip(&mut states).zip(&mut next) {
        for i in all..tail.out.len() {
            tail.out[i] = table.step(state);
            refill_tail(tail, state, next);
        }
    }
}

/// Gives a tail's state a word where it takes one.
#[inline(always)]
fn refill_tail(tail: &Tail<'_>, state: &mut u32, next: &mut usize) {
    let word = u32::from(tail.words.get(*next).copied().unwrap_or(0));
    let taking = *state < LEAST && *next < tail.words.len();
    refill(state, taking, word);
    *next += usize::from(taking);
}

/// Adds a word to a state that takes one, by arithmetic alone.
#[inline(always)]
fn refill(state: &mut u32, taking: bool, word: u32) {
    let shift = 16 * u32::from(taking);
    *state = *state << shift | word & ((1 << shift) - 1);
}

/// The states that the body begins with.
#[inline(always)]
fn heads(words: &[u16]) -> [u32; STEP] {
    let mut copy = [0; HEAD_WORDS];
    let head = words.first_chunk().unwrap_or_else(|| {
        copy[..words.len()].copy_from_slice(words);
        &copy
    });
    std::array::from_fn(|i| (u32::from(head[2 * i]) << 16 | u32::from(head[2 * i + 1])).max(LEAST))
}

/// Writes the words that are left in the states, and tells how many they are.
fn left(states: &[u32; STEP], words: &mut [u16; HEAD_WORDS]) -> usize {
    let mut count = 0;
    let (mut bits, mut pending) = (0_u64, 0);
    for &state in states {
        // No encoder leaves nothing in a state.
        let state = state.max(1);
        let fresh = state.ilog2();
        bits = bits << fresh | u64::from(state ^ 1 << fresh);
        pending += fresh;
        // Two words, which are written over as long as they are not full.
        let full = u32::from(pending >= u32::BITS);
        pending -= u32::BITS * full;
        put_two(words, count, (bits >> pending) as u32);
        count += 2 * full as usize;
    }
    put_two(words, count, (bits << (u32::BITS - pending)) as u32);
    words.iter().rposition(|&word| word != 0).unwrap_or(0)
}

/// Writes two words, the high one first.
#[inline(always)]
fn put_two(words: &mut [u16; HEAD_WORDS], at: usize, two: u32) {
    if let Some(words) = words.get_mut(at..at + 2) {
        words.copy_from_slice(&[(two >> 16) as u16, two as u16]);
    }
}
