//! Decoding of nibbles: 32 states as their high and their low halves, the table in registers, and the words
//! expanded to the states that take one.

use std::arch::x86_64::*;

use super::Vbmi2;
use crate::{
    forms::rans::{LEAST, STEP, Stream, VECTOR_STEPS},
    rans::Table,
    registers::{load, simd, store},
    scalar::rans::{self, Bodies, Body},
};

/// The table, with the symbols in each of the four places of a lane.
struct Registers {
    bias: __m512i,
    frequency: __m512i,
    number: __m512i,
    symbols: [__m512i; VECTOR_STEPS],
}

/// The states of a body, and the word that they take next.
#[derive(Clone, Copy)]
struct States {
    high: __m512i,
    low: __m512i,
    at: usize,
}

#[inline(always)]
pub(super) fn nibbles(isa: Vbmi2, table: &Table, streams: &mut [Stream<'_>]) {
    rans::nibbles(isa, table, streams);
}

impl Bodies for Vbmi2 {
    #[inline(always)]
    fn decode<const N: usize>(self, table: &Table, bodies: &mut [Body<'_>; N]) {
        let registers = self.registers(table);
        let mut states = bodies.each_ref().map(|body| States {
            high: load(&body.states.map(|state| (state / LEAST) as u16)),
            low: load(&body.states.map(|state| state as u16)),
            at: 0,
        });
        // As long as all have whole vectors, a step of one goes on while those of the others wait.
        let whole = bodies.iter().map(|body| body.steps / VECTOR_STEPS).min().unwrap_or(0);
        self.steps(&registers, &mut states, bodies.each_mut(), 0, whole * VECTOR_STEPS);
        for (states, body) in states.iter_mut().zip(bodies) {
            let steps = body.steps - whole * VECTOR_STEPS;
            self.steps(&registers, std::array::from_mut(states), [body], whole, steps);
            let (high, low): ([u16; STEP], [u16; STEP]) = (store(states.high), store(states.low));
            for ((state, high), low) in body.states.iter_mut().zip(high).zip(low) {
                *state = u32::from(high) << 16 | u32::from(low);
            }
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

    /// Steps of bodies side by side, from a vector on.
    #[inline(always)]
    fn steps<const N: usize>(
        self,
        table: &Registers,
        states: &mut [States; N],
        mut bodies: [&mut Body<'_>; N],
        from: usize,
        steps: usize,
    ) {
        let mut running = *states;
        let words = bodies.each_ref().map(|body| body.words);
        let mut vectors =
            bodies.each_mut().map(|body| body.lanes.as_chunks_mut::<STEP>().0[from..].iter_mut());
        for i in 0..steps.div_ceil(VECTOR_STEPS) {
            let places = VECTOR_STEPS.min(steps - i * VECTOR_STEPS);
            let mut symbols = [self.zeros(); N];
            for place in table.symbols.iter().take(places) {
                for ((states, words), symbols) in running.iter_mut().zip(words).zip(&mut symbols) {
                    let entries = self.step(table, states, words);
                    *symbols = self.put(*symbols, entries, *place);
                }
            }
            for (vectors, symbols) in vectors.iter_mut().zip(symbols) {
                if let Some(vector) = vectors.next() {
                    *vector = store(symbols);
                }
            }
        }
        *states = running;
    }

    #[inline(always)]
    fn zeros(self) -> __m512i {
        simd!(_mm512_setzero_si512())
    }

    /// A step of all states, which gives their entries of the table.
    #[inline(always)]
    fn step(self, table: &Registers, states: &mut States, words: &[u16]) -> __m512i {
        let next = self.words(words, states.at);
        simd!({
            let States { high, low, .. } = *states;
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
            states.at += taking.count_ones() as usize;
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
