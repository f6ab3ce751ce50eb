//! Decoding of nibbles: 32 states as their high and their low halves, the table in registers, and the words
//! expanded to the states that take one.

use std::arch::x86_64::*;

use super::Vbmi2;
use crate::{
    rans::{LEAST, STEP, Table, VECTOR_STEPS},
    registers::{load, simd, store},
    scalar::rans::{self, Body},
};

/// The table, with the symbols in each of the four places of a lane.
struct Registers {
    bias: __m512i,
    frequency: __m512i,
    number: __m512i,
    symbols: [__m512i; VECTOR_STEPS],
}

/// The states.
#[derive(Clone, Copy)]
struct States {
    high: __m512i,
    low: __m512i,
}

#[inline(always)]
pub(super) fn nibbles(isa: Vbmi2, table: &Table, words: &[u16], tail: usize, out: &mut [u64]) {
    rans::nibbles(isa, table, words, tail, out);
}

impl Body for Vbmi2 {
    #[inline(always)]
    fn body(self, table: &Table, states: &mut [u32; STEP], words: &[u16], steps: usize, lanes: &mut [u16]) {
        let registers = self.registers(table);
        let mut planes = States {
            high: load(&states.map(|state| (state / LEAST) as u16)),
            low: load(&states.map(|state| state as u16)),
        };
        let mut at = 0;
        let (vectors, _) = lanes.as_chunks_mut::<STEP>();
        for (i, vector) in vectors.iter_mut().take(steps.div_ceil(VECTOR_STEPS)).enumerate() {
            let places = VECTOR_STEPS.min(steps - i * VECTOR_STEPS);
            let mut symbols = load(vector);
            for place in registers.symbols.iter().take(places) {
                let entries = self.step(&registers, &mut planes, words, &mut at);
                symbols = self.put(symbols, entries, *place);
            }
            *vector = store(symbols);
        }
        let (high, low): ([u16; STEP], [u16; STEP]) = (store(planes.high), store(planes.low));
        for ((state, high), low) in states.iter_mut().zip(high).zip(low) {
            *state = u32::from(high) << 16 | u32::from(low);
        }
    }
}

impl Vbmi2 {
    #[inline(always)]
    fn registers(self, table: &Table) -> Registers {
        Registers {
            bias: load(&table.bias),
            frequency: load(&table.frequency),
            number: load(&table.number),
            symbols: [0, 4, 8, 12].map(|shift| load(&table.symbol.map(|symbol| symbol << shift))),
        }
    }

    /// A step of all states, which gives their entries of the table.
    #[inline(always)]
    fn step(self, table: &Registers, states: &mut States, words: &[u16], at: &mut usize) -> __m512i {
        let next = self.words(words, *at);
        simd!({
            let States { high, low } = *states;
            let bias = _mm512_permutexvar_epi16(_mm512_srli_epi16::<8>(low), table.bias);
            let entries = _mm512_srli_epi16::<8>(_mm512_add_epi16(low, bias));
            let frequency = _mm512_permutexvar_epi16(entries, table.frequency);
            let slot = _mm512_and_si512(low, _mm512_set1_epi16(0xfff));
            let number = _mm512_add_epi16(slot, _mm512_permutexvar_epi16(entries, table.number));
            // The state without the slot has 20 bits.
            let (middle, top) = (_mm512_shldi_epi16::<4>(high, low), _mm512_srli_epi16::<12>(high));
            let low = _mm512_add_epi16(_mm512_mullo_epi16(frequency, middle), number);
            let carry = _mm512_cmplt_epu16_mask(low, number);
            let high =
                _mm512_add_epi16(_mm512_mulhi_epu16(frequency, middle), _mm512_mullo_epi16(frequency, top));
            let high = _mm512_mask_sub_epi16(high, carry, high, _mm512_set1_epi16(-1));
            let taking = _mm512_testn_epi16_mask(high, high);
            states.high = _mm512_mask_mov_epi16(high, taking, low);
            states.low = _mm512_mask_expand_epi16(low, taking, next);
            *at += taking.count_ones() as usize;
            entries
        })
    }

    /// Adds the symbols of entries.
    #[inline(always)]
    fn put(self, symbols: __m512i, entries: __m512i, place: __m512i) -> __m512i {
        simd!(_mm512_or_si512(symbols, _mm512_permutexvar_epi16(entries, place)))
    }

    /// The words from a place on; zeros follow the last.
    #[inline(always)]
    fn words(self, words: &[u16], at: usize) -> __m512i {
        let rest = words.get(at..).unwrap_or(&[]);
        match rest.first_chunk::<STEP>() {
            Some(chunk) => load(chunk),
            // SAFETY: `self` is a proof that the CPU has the instructions, and only lanes of words are loaded.
            None => unsafe { _mm512_maskz_loadu_epi16((1 << rest.len()) - 1, rest.as_ptr().cast()) },
        }
    }
}
