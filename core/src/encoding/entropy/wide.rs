//! The stream of codes of a byte: eight states side by side, one for each row of eight.
//!
//! The states are 32 bits wide, never below 2^16, and refilled by words of 16 bits. A state's low 12 bits are the
//! slot that names the code; a code's slots follow those of the code before it. First come the states, two words each,
//! the high one first, which is not 0 (a state below 2^16 stands for 2^16), then the words in the order in which they
//! are needed.

use std::hint::select_unpredictable;

use basalt_kernels::rans::SLOTS;

use crate::invariant::Invariant;

/// States.
const STATES: usize = 8;
/// The least that a state is.
const LEAST: u32 = 1 << 16;
/// Bits of a slot.
const PRECISION: u32 = SLOTS.ilog2();

/// Encodes codes by their frequencies.
pub(super) struct Encoder {
    /// The frequency of each code and its first slot.
    slots: Vec<(u32, u32)>,
}

impl Encoder {
    /// The frequencies add up to all slots.
    pub(super) fn new(frequencies: &[u16]) -> Self {
        let mut first = 0;
        let slots = frequencies.iter().map(|&frequency| {
            let frequency = u32::from(frequency);
            first += frequency;
            (frequency, first - frequency)
        });
        Self { slots: slots.collect() }
    }

    /// The words of codes that have a frequency.
    pub(super) fn encode(&self, codes: &[u8]) -> Vec<u16> {
        let halves = |state: u32| {
            let [a, b, c, d] = state.to_le_bytes();
            [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
        };
        let mut words = Vec::with_capacity(codes.len());
        let mut states = [LEAST; STATES];
        for (row, &code) in codes.iter().enumerate().rev() {
            let (frequency, first) = self.slots[usize::from(code)];
            let state = &mut states[row % STATES];
            if *state >> (u32::BITS - PRECISION) >= frequency {
                words.push(halves(*state)[0]);
                *state >>= 16;
            }
            *state = (*state / frequency) << PRECISION | (first + *state % frequency);
        }
        words.extend(states.into_iter().rev().flat_map(halves));
        words.reverse();
        words
    }
}

/// For each slot its place among those of its code, from bit 20 on the code's frequency, and from bit 12 the code.
pub(super) struct Decoder(Vec<u32>);

impl Decoder {
    /// The frequencies, each below 4,096, add up to all slots.
    pub(super) fn new(frequencies: &[u16]) -> Self {
        let entries = (0..).zip(frequencies).flat_map(|(code, &frequency)| {
            let frequency = u32::from(frequency);
            (0..frequency).map(move |place| frequency << 20 | code << 12 | place)
        });
        Self(entries.collect())
    }

    /// Decodes a code for each row. Words that are missing are 0.
    pub(super) fn decode(&self, words: &[u16], out: &mut [u64]) {
        let table = self.0.first_chunk::<{ SLOTS as usize }>().invariant("the codes share all slots");
        // Default: the format's, of words that are missing.
        let word = |at: usize| u32::from(words.get(at).copied().unwrap_or(0));
        let mut states: [u32; STATES] =
            std::array::from_fn(|i| (word(2 * i) << 16 | word(2 * i + 1)).max(LEAST));
        let mut at = 2 * STATES;
        for out in out {
            let (mut codes, mut taken) = ([0; STATES], 0);
            let mut last = [0; STATES];
            // No more than one for each state.
            // Default: the format's again.
            let next = words.get(at..).unwrap_or_default();
            let next = next.first_chunk().unwrap_or_else(|| {
                last[..next.len()].copy_from_slice(next);
                &last
            });
            for (state, code) in states.iter_mut().zip(&mut codes) {
                let entry = table[(*state & u32::from(SLOTS - 1)) as usize];
                let left = (*state >> PRECISION) * (entry >> 20) + (entry & 0xFFF);
                *code = (entry >> 12).to_le_bytes()[0];
                // Nobody can tell which states take a word.
                let refilled = left << 16 | u32::from(next[taken % STATES]);
                *state = select_unpredictable(left < LEAST, refilled, left);
                taken += usize::from(left < LEAST);
            }
            at += taken;
            *out = u64::from_le_bytes(codes);
        }
    }
}
