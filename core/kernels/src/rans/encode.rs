//! Encoding: the decoder's steps, undone from the last to the first.

use super::Table;
use crate::{
    forms::rans::{LEAST, PRECISION, SLOTS, STEP, SYMBOLS, TAIL_STATES, VECTOR_STEPS, steps},
    lanes::Lane,
};

/// Steps of a tail, at most.
const MAX_TAIL: usize = u8::MAX as usize;
/// So few bits, and so few steps, are all tail.
const SMALL: f64 = 4096.0;
/// Bits that a tail of that body's states holds, about: 16 of each, and half of what is above them.
const TAIL_BITS: f64 = 32.0 * 23.5;
/// What a tail takes beyond the information in it.
const TAIL_WASTE: f64 = 52.0;

/// Encodes images by one table.
#[derive(Clone, Debug)]
pub struct Encoder {
    pushes: [Push; SYMBOLS],
}

/// What encoding one symbol takes.
#[derive(Clone, Debug)]
struct Push {
    frequency: u32,
    /// The symbol's slots in order.
    slots: Vec<u16>,
    /// Its information in bits.
    bits: f64,
}

impl Push {
    /// Puts the symbol on a state, from which the step of the table takes it off.
    #[inline]
    fn push(&self, state: &mut u32) {
        let (quotient, rest) = (*state / self.frequency, *state % self.frequency);
        *state = quotient << PRECISION | u32::from(self.slots[rest as usize]);
    }

    /// Whether the state has no room for the symbol.
    #[inline]
    fn overflows(&self, state: u32) -> bool {
        u64::from(state) >= u64::from(self.frequency) << (u32::BITS - PRECISION)
    }

    /// The same, where a state that has no room gives a word away.
    #[inline]
    fn push_or_shift(&self, state: &mut u32, shifted: impl FnOnce(u16)) {
        if self.overflows(*state) {
            shifted(*state as u16);
            *state >>= 16;
        }
        self.push(state);
    }
}

impl Encoder {
    /// An encoder of the symbols that the table has.
    pub fn new(table: &Table) -> Self {
        let pushes = table.slots().map(|slots| Push {
            frequency: slots.len() as u32,
            bits: f64::from(PRECISION) - (slots.len() as f64).log2(),
            slots,
        });
        Self { pushes }
    }

    /// The words of an image all of whose nibbles the table has, and the steps of its tail, at most 255.
    ///
    /// # Panics
    /// Where the image is not whole vectors, or the table has no such nibble.
    pub fn encode(&self, image: &[u64]) -> (Vec<u16>, usize) {
        let lanes = u16::lanes(image);
        let symbol = |step: usize, lane: usize| {
            lanes[step / VECTOR_STEPS * STEP + lane] >> (4 * (step % VECTOR_STEPS)) & 15
        };
        let steps = steps(image.len());
        let symbols: Vec<u8> =
            (0..steps).flat_map(|step| (0..STEP).map(move |lane| symbol(step, lane) as u8)).collect();
        let bits = |symbols: &[u8]| symbols.iter().map(|&s| self.pushes[usize::from(s)].bits).sum::<f64>();
        if steps <= MAX_TAIL && bits(&symbols) < SMALL {
            return (self.tail(&symbols), steps);
        }
        let mut room = TAIL_BITS - TAIL_WASTE;
        let fits = symbols.chunks(STEP).rev().take(MAX_TAIL).take_while(|symbols| {
            room -= bits(symbols);
            room >= 0.0
        });
        let longest = fits.count();
        let parts = (0..=longest).rev().find_map(|tail| {
            let (body, rest) = symbols.split_at((steps - tail) * STEP);
            let rest = if tail == 0 { Vec::new() } else { self.tail(rest) };
            Some((self.body(body, &rest)?, tail))
        });
        parts.expect("a body without a tail is a stream")
    }

    /// The stream of a tail.
    fn tail(&self, symbols: &[u8]) -> Vec<u16> {
        let push = |i: usize| &self.pushes[usize::from(symbols[i])];
        // As long as no state has given a word away, the decoder has none to refill one with: until then, states
        // begin at 1 and are as small as they come.
        let mut states = [1_u32; TAIL_STATES];
        let mut end = symbols.len();
        while let Some(i) = end.checked_sub(1)
            && !push(i).overflows(states[i % TAIL_STATES])
        {
            push(i).push(&mut states[i % TAIL_STATES]);
            end = i;
        }
        if end > 0 {
            // From here on all states have to be refilled in time. States begin so, where nothing comes before.
            states = loop {
                if let Some(states) = self.grown(symbols, end) {
                    break states;
                }
                end = usize::midpoint(end, symbols.len()) + 1;
            };
        }
        let mut words = Vec::new();
        for i in (0..end).rev() {
            push(i).push_or_shift(&mut states[i % TAIL_STATES], |word| words.push(word));
        }
        words.extend(states.iter().rev().flat_map(|&state| [state as u16, (state >> 16) as u16]));
        words.reverse();
        words
    }

    /// States that hold all symbols of a tail from a place on and are great enough to be refilled there: the least
    /// such. `None` where one of them would have to give a word away before.
    fn grown(&self, symbols: &[u8], from: usize) -> Option<[u32; TAIL_STATES]> {
        let mut states = [0; TAIL_STATES];
        for (lane, state) in states.iter_mut().enumerate() {
            let grown = |first: u32| {
                let mut pushed = (from..symbols.len()).rev().filter(|i| i % TAIL_STATES == lane);
                pushed.try_fold(first, |mut state, i| {
                    let push = &self.pushes[usize::from(symbols[i])];
                    (!push.overflows(state)).then(|| push.push(&mut state))?;
                    Some(state)
                })
            };
            // A greater first state gives a greater last one.
            let (mut least, mut enough) = (1, LEAST);
            while least < enough {
                let middle = u32::midpoint(least, enough);
                if grown(middle).is_some_and(|state| state < LEAST) {
                    least = middle + 1
                } else {
                    enough = middle
                }
            }
            *state = grown(least)?;
        }
        Some(states)
    }

    /// The stream of a body, in whose last states is that of the tail; `None` where it has no room there.
    fn body(&self, symbols: &[u8], tail: &[u16]) -> Option<Vec<u16>> {
        let mut tail = Bits { words: tail, at: 0 };
        let lanes: [_; STEP] = std::array::from_fn(|lane| self.lane(symbols, lane, &mut tail));
        if tail.at <= 16 * tail.words.len() {
            return None;
        }
        let mut words: Vec<u16> =
            lanes.iter().flat_map(|(state, _)| [(state >> 16) as u16, *state as u16]).collect();
        let mut shifted = lanes.map(|(_, shifted)| shifted);
        for step in 0..symbols.len() / STEP {
            for shifted in &mut shifted {
                words.extend(shifted.pop_if(|(at, _)| *at == step).map(|(_, word)| word));
            }
        }
        Some(words)
    }

    /// The first state of a lane of the body, and the steps behind which it takes words, the last one first. In
    /// the state behind the last step are the next bits of the tail: as many as leave the least room in the first.
    fn lane(&self, symbols: &[u8], lane: usize, tail: &mut Bits<'_>) -> (u32, Vec<(usize, u16)>) {
        let encode = |count: u32| {
            let mut state = 1 << count | tail.peek(count);
            let mut words = Vec::new();
            for step in (0..symbols.len() / STEP).rev() {
                let push = &self.pushes[usize::from(symbols[step * STEP + lane])];
                push.push_or_shift(&mut state, |word| words.push((step, word)));
            }
            (state, words)
        };
        // The first state grows with the last one, but for a word that it gives away each time it is full.
        let fewest = encode(16);
        let most = 16 + fewest.0.leading_zeros();
        let counts = [most + 1, most, most - 1].into_iter().filter(|count| (17..u32::BITS).contains(count));
        let gain = |count: u32, words: usize| i64::from(count) - 16 * words as i64;
        let (mut best, mut bits) = (fewest, 16);
        for count in counts {
            let lane = encode(count);
            if gain(count, lane.1.len()) > gain(bits, best.1.len()) {
                (best, bits) = (lane, count);
            }
        }
        tail.at += bits as usize;
        best
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

const _: () = assert!(SLOTS as u64 * (1 << (u32::BITS - PRECISION)) == 1 << u32::BITS);
