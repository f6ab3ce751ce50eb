//! Encoding: the decoder's steps, undone from the last to the first.

use super::{Table, table::Member};
use crate::{
    forms::rans::{BUCKETS, BYTES, LEAST, PRECISION, STEP, of_step, steps},
    lanes::Lane,
};

/// So few bits, and so few bytes, are all tail.
const SMALL: f64 = 4096.0;
/// Bits that are left in a state, of which the first is then the greatest: 16, and half of what is above them.
const LEFT: f64 = 23.5;
/// Bits that the last steps, which take no words, take off each state, about.
const DRAINED: f64 = 0.0;
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
    /// A state so great has no room for it.
    limit: u64,
    member: Member,
    /// Its information in bits.
    bits: f64,
}

/// The last bytes of lanes, and all of them.
struct Lanes<'a> {
    bytes: &'a [Push],
    /// The first step that takes no words.
    drain: usize,
    /// The information of each lane before that.
    bits: [f64; STEP],
}

impl Encoder {
    /// An encoder of the bytes that the table has.
    pub fn new(table: &Table) -> Self {
        let slots = table.slots();
        let push = |member: Member| {
            let frequency = slots[usize::from(member.bucket)].len() as u32;
            Push {
                frequency,
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
        let push = |byte: &u8| self.pushes[usize::from(*byte)].expect("the table has the bytes");
        let bytes: Vec<Push> = u8::lanes(image).iter().map(push).collect();
        assert!(bytes.len().is_multiple_of(unit), "{} bytes in units of {unit}", bytes.len());
        let bits: f64 = bytes.iter().map(|push| push.bits).sum();
        if bytes.len() <= MAX_UNITS * unit && bits < SMALL {
            return (self.tail(&bytes), (bytes.len() / unit) as u8);
        }
        let mean = bits / bytes.len() as f64;
        let mut drained = ((DRAINED / mean) as usize).min(bytes.len() / STEP);
        loop {
            let mut room = STEP as f64 * (LEFT - mean * drained as f64) + LUCK;
            let fits = bytes.iter().rev().take(MAX_UNITS * unit).take_while(|push| {
                room -= push.bits;
                room >= 0.0
            });
            let longest = fits.count() / unit;
            let found = (0..=longest).rev().find_map(|units| {
                let (body, rest) = bytes.split_at(bytes.len() - units * unit);
                let words = if units == 0 { Vec::new() } else { self.tail(rest) };
                Some((self.body(body, drained, &words)?, units as u8))
            });
            match found {
                Some(found) => return found,
                // Without a step that takes no words, a body without a tail is a stream.
                None => drained /= 2,
            }
        }
    }

    /// Puts a byte on a state, from which the step of the table takes it off.
    #[inline]
    fn push(&self, push: &Push, state: &mut u32) {
        let Member { bucket, number, bits } = push.member;
        let state_and_number = *state << bits | u32::from(number);
        let (quotient, rest) = (state_and_number / push.frequency, state_and_number % push.frequency);
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
    fn tail(&self, bytes: &[Push]) -> Vec<u16> {
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

    /// The state behind bytes that are pushed one after the other; `None` where it has no room for one of them.
    fn all_pushed<'p>(&self, first: u32, bytes: impl IntoIterator<Item = &'p Push>) -> Option<u32> {
        bytes.into_iter().try_fold(first, |mut state, push| {
            (!push.overflows(state)).then(|| self.push(push, &mut state))?;
            Some(state)
        })
    }

    /// The stream of a body, in whose last states is that of the tail; `None` where it has no room there.
    fn body(&self, bytes: &[Push], drained: usize, tail: &[u16]) -> Option<Vec<u16>> {
        let lanes = Lanes::new(bytes, drained);
        let mut tail = Bits { words: tail, at: 0 };
        let mut firsts = [0; STEP];
        for (lane, first) in firsts.iter_mut().enumerate() {
            *first = self.first_state(&lanes, lane, &mut tail)?;
        }
        if !tail.words.is_empty() && tail.at <= 16 * tail.words.len() {
            return None;
        }
        let mut words = Vec::with_capacity(bytes.len());
        let mut states = firsts;
        for step in (0..lanes.drain).rev() {
            let (first, count) = of_step(step, bytes.len());
            for (lane, state) in states[..count].iter_mut().enumerate().rev() {
                self.push_or_shift(&bytes[first + 2 * lane], state, |word| words.push(word));
            }
        }
        words.extend(states.iter().rev().flat_map(|state| [*state as u16, (state >> 16) as u16]));
        words.reverse();
        Some(words)
    }

    /// The state of a lane at the first step that takes no words. In the state behind its last step are the next
    /// bits of the tail: as many as leave the least room in its very first state.
    fn first_state(&self, lanes: &Lanes<'_>, lane: usize, tail: &mut Bits<'_>) -> Option<u32> {
        let mut best: Option<(f64, u32, u32)> = None;
        for count in 0..u32::BITS {
            let last = 1 << count | tail.peek(count);
            let Some(state) = self.all_pushed(last, lanes.drained(lane)) else { break };
            if state < LEAST {
                continue;
            }
            // The first state grows with the last one, but for a word that it gives away each time it is full.
            let bits = f64::from(state).log2() + lanes.bits[lane];
            let gain = f64::from(count) - 16.0 * ((bits - 16.0) / 16.0).floor();
            if best.is_none_or(|(most, ..)| gain > most) {
                best = Some((gain, count, state));
            }
        }
        let (_, count, state) = best?;
        tail.at += count as usize;
        Some(state)
    }
}

impl Push {
    /// Whether the state has no room for the byte.
    #[inline]
    fn overflows(&self, state: u32) -> bool {
        u64::from(state) >= self.limit
    }
}

impl<'a> Lanes<'a> {
    fn new(bytes: &'a [Push], drained: usize) -> Self {
        let drain = steps(bytes.len()).saturating_sub(drained);
        let mut bits = [0.0; STEP];
        for step in 0..drain {
            let (first, count) = of_step(step, bytes.len());
            for (lane, bits) in bits[..count].iter_mut().enumerate() {
                *bits += bytes[first + 2 * lane].bits;
            }
        }
        Self { bytes, drain, bits }
    }

    /// The bytes of a lane that take no words, the last one first.
    fn drained(&self, lane: usize) -> impl Iterator<Item = &Push> {
        let steps = (self.drain..steps(self.bytes.len())).rev();
        steps.filter_map(move |step| {
            let (first, count) = of_step(step, self.bytes.len());
            (lane < count).then(|| &self.bytes[first + 2 * lane])
        })
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
