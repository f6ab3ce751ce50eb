//! Encoding: the decoder's steps, undone from the last to the first.

use super::{Table, table::Member};
use crate::{
    forms::rans::{BUCKETS, BYTES, PRECISION, STEP, of_step, steps},
    lanes::Lane,
};

/// So few bits, and so few bytes, are all tail.
const SMALL: f64 = 4096.0;
/// Bits that are left in a state, of which the first is then the greatest: 16, and half of what is above them.
const LEFT: f64 = 23.5;
/// What more than that may be left over, where all states happen to be great.
const LUCK: f64 = 20.0;
/// A tail is at most so many units.
const MAX_UNITS: usize = u8::MAX as usize;

/// Encodes images by one table.
#[derive(Clone, Debug)]
pub struct Encoder {
    pushes: Vec<Option<Push>>,
    /// The slots of each bucket in order.
    slots: [Vec<u16>; BUCKETS],
}

/// What encoding one byte takes.
#[derive(Clone, Copy, Debug)]
struct Push {
    frequency: u32,
    /// 2^64 over the frequency, rounded up: the higher half of its product with 32 bits is their quotient, exactly (Lemire,
    /// Kaser and Kurz, 2019). 0 where the frequency is 1.
    reciprocal: u64,
    /// A state so great has no room for it.
    limit: u64,
    member: Member,
    /// Its information in bits.
    bits: f64,
}

impl Encoder {
    /// An encoder of the bytes that the table has.
    pub fn new(table: &Table) -> Self {
        let slots = table.slots();
        let push = |member: Member| {
            let frequency = slots[usize::from(member.bucket)].len() as u32;
            Push {
                frequency,
                reciprocal: (u64::MAX / u64::from(frequency)).wrapping_add(1),
                limit: u64::from(frequency) << (u32::BITS - PRECISION - member.bits),
                member,
                bits: f64::from(PRECISION + member.bits) - f64::from(frequency).log2(),
            }
        };
        let pushes: Vec<_> = table.members().into_iter().map(|member| member.map(push)).collect();
        debug_assert!(pushes.len() == BYTES, "there is a line for every byte");
        Self { pushes, slots }
    }

    /// The information in a byte, in bits; `None` of one that the table does not have.
    pub fn bits(&self, byte: u8) -> Option<f64> {
        self.pushes[usize::from(byte)].map(|push| push.bits)
    }

    /// The words of an image all of whose bytes the table has, and the units of its tail, each of so many bytes.
    ///
    /// # Panics
    /// Where the image is not whole vectors, the table has no such byte, or the bytes are not whole units.
    pub fn encode(&self, image: &[u64], unit: usize) -> (Vec<u16>, u8) {
        let push = |byte: &u8| self.pushes[usize::from(*byte)].as_ref().expect("the table has the bytes");
        let bytes: Vec<&Push> = u8::lanes(image).iter().map(push).collect();
        assert!(bytes.len().is_multiple_of(unit), "{} bytes in units of {unit}", bytes.len());
        let bits: f64 = bytes.iter().map(|push| push.bits).sum();
        if bytes.len() <= MAX_UNITS * unit && bits < SMALL {
            return (self.tail(&bytes), (bytes.len() / unit) as u8);
        }
        let mut room = STEP as f64 * LEFT + LUCK;
        let fits = bytes.iter().rev().take(MAX_UNITS * unit).take_while(|push| {
            room -= push.bits;
            room >= 0.0
        });
        let mut units = fits.count() / unit;
        let of_unit = bits / bytes.len() as f64 * unit as f64;
        loop {
            let (body, rest) = bytes.split_at(bytes.len() - units * unit);
            let tail = if units == 0 { Vec::new() } else { self.tail(rest) };
            match self.body(body, &tail) {
                Ok(words) => return (words, units as u8),
                // Nearly as many less as have so many bits: what is in the states changes with the tail. A body without
                // a tail is a stream.
                Err(missing) => units -= ((0.8 * missing as f64 / of_unit) as usize).clamp(1, units),
            }
        }
    }

    /// Puts a byte on a state, from which the step of the table takes it off.
    #[inline]
    fn push(&self, push: &Push, state: &mut u32) {
        let Member { bucket, number, bits } = push.member;
        let state_and_number = *state << bits | u32::from(number);
        let quotient = push.quotient(state_and_number);
        let rest = state_and_number - quotient * push.frequency;
        *state = quotient << PRECISION | u32::from(self.slots[usize::from(bucket)][rest as usize]);
    }

    /// The same, where a state that has no room gives a word away.
    #[inline]
    fn push_or_shift(&self, push: &Push, state: &mut u32, shifted: impl FnOnce(u16)) {
        if push.overflows(*state) {
            shifted(*state as u16);
            *state >>= 16;
        }
        self.push(push, state);
    }

    /// The stream of a tail.
    fn tail(&self, bytes: &[&Push]) -> Vec<u16> {
        // Until the state gives a word away, the decoder has none to refill it with.
        let mut state = 1;
        let mut words = Vec::new();
        for push in bytes.iter().rev() {
            self.push_or_shift(push, &mut state, |word| words.push(word));
        }
        words.extend([state as u16, (state >> 16) as u16]);
        words.reverse();
        words
    }

    /// The stream of a body, in whose last states is that of the tail; where it has no room there, how many bits are
    /// missing.
    fn body(&self, bytes: &[&Push], tail: &[u16]) -> Result<Vec<u16>, usize> {
        let mut bits = [0.0; STEP];
        for step in 0..steps(bytes.len()) {
            let (first, count) = of_step(step, bytes.len());
            for (lane, bits) in bits[..count].iter_mut().enumerate() {
                *bits += bytes[first + 2 * lane].bits;
            }
        }
        let mut tail = Bits { words: tail, at: 0 };
        let mut states = bits.map(|bits| last_state(bits, &mut tail));
        if !tail.words.is_empty() && tail.at <= 16 * tail.words.len() {
            return Err(16 * tail.words.len() + 1 - tail.at);
        }
        let mut words = Vec::with_capacity(bytes.len());
        for step in (0..steps(bytes.len())).rev() {
            let (first, count) = of_step(step, bytes.len());
            for (lane, state) in states[..count].iter_mut().enumerate().rev() {
                self.push_or_shift(bytes[first + 2 * lane], state, |word| words.push(word));
            }
        }
        words.extend(states.iter().rev().flat_map(|state| [*state as u16, (state >> 16) as u16]));
        words.reverse();
        Ok(words)
    }
}

/// The last state of a lane of the body that has so many bits of information: in it are the next bits of the tail, as
/// many as leave the least room in the lane's first state.
fn last_state(bits: f64, tail: &mut Bits<'_>) -> u32 {
    let state = |count: u32| 1 << count | tail.peek(count);
    // The first state grows with the last one, but for a word that it gives away each time it is full.
    let gain = |count: u32| {
        let first = bits_of(state(count)) + bits;
        i64::from(count) - 16 * ((first - 16.0) / 16.0) as i64
    };
    let fullest = 31 - (bits as u32) % 16;
    let counts =
        [fullest, fullest - 1, fullest - 2, 31, 30].into_iter().filter(|count| (16..32).contains(count));
    let best = counts.max_by_key(|&count| gain(count));
    let count = best.expect("there are counts");
    let state = state(count);
    tail.at += count as usize;
    state
}

/// The logarithm of a state to base 2, to three digits behind the point: on the line between those of two powers, and what
/// that is too low by.
fn bits_of(state: u32) -> f64 {
    let whole = state.ilog2();
    let part = f64::from(state << 1 << (31 - whole)) / 2_f64.powi(32);
    f64::from(whole) + part + part * (1.0 - part) * (0.4216 - 0.1585 * part)
}

impl Push {
    /// A state over the frequency: a division takes longer than all else of a step.
    #[inline]
    fn quotient(&self, state: u32) -> u32 {
        if self.frequency == 1 {
            return state;
        }
        ((u128::from(self.reciprocal) * u128::from(state)) >> 64) as u32
    }

    /// Whether the state has no room for the byte.
    #[inline]
    fn overflows(&self, state: u32) -> bool {
        u64::from(state) >= self.limit
    }
}

/// Words as bits, the highest first; a one and zeros follow.
struct Bits<'a> {
    words: &'a [u16],
    at: usize,
}

impl Bits<'_> {
    /// The next bits, fewer than 32.
    fn peek(&self, count: u32) -> u32 {
        let word = |i: usize| {
            let behind = if self.at / 16 + i == self.words.len() { 1 << 15 } else { 0 };
            u64::from(self.words.get(self.at / 16 + i).copied().unwrap_or(behind))
        };
        let bits = word(0) << 32 | word(1) << 16 | word(2);
        let behind = 48 - (self.at % 16) as u32 - count;
        (bits >> behind) as u32 & ((1 << count) - 1)
    }
}

const _: () = assert!(PRECISION + 20 == u32::BITS);
