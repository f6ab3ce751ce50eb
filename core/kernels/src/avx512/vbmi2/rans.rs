//! Decoding of bytes: 32 states as their high and their low halves, the table in registers, and the words expanded to
//! the states that take one.

use std::arch::x86_64::*;

use super::Vbmi2;
use crate::{
    forms::rans::{HEAD_WORDS, LEAST, STEP, Stream, VECTOR_BYTES},
    rans::Table,
    registers::{load, simd, store},
    scalar::rans::{self, Bodies, Body, TURNS, Tail},
};

/// So many tails are faster side by side, a lane each, than in turns.
const MANY: usize = 6;

/// The table.
struct Registers {
    bias: __m512i,
    frequency: __m512i,
    number: __m512i,
    place: __m512i,
    mask: __m512i,
    bytes: [__m512i; 4],
}

/// The states of a body, and the word that they take next.
#[derive(Clone, Copy)]
struct States {
    high: __m512i,
    low: __m512i,
    at: usize,
}

#[inline(always)]
pub(super) fn bytes(isa: Vbmi2, table: &Table, streams: &mut [Stream<'_>]) {
    rans::bytes(isa, table, streams);
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
        let whole = bodies.iter().map(|body| body.bytes / VECTOR_BYTES).min().unwrap_or(0);
        self.vectors(&registers, &mut states, bodies.each_mut(), 0, whole);
        for (states, body) in states.iter_mut().zip(bodies) {
            let vectors = body.bytes / VECTOR_BYTES;
            self.vectors(&registers, std::array::from_mut(states), [body], whole, vectors);
            self.rest(&registers, states, body, vectors);
            let (high, low): ([u16; STEP], [u16; STEP]) = (store(states.high), store(states.low));
            for ((state, high), low) in body.states.iter_mut().zip(high).zip(low) {
                *state = u32::from(high) << 16 | u32::from(low);
            }
        }
    }

    /// Those whose words are left over from a body have a lane each.
    #[inline(always)]
    fn tails(self, table: &Table, tails: &mut [Tail<'_>]) {
        let are_many = (MANY..=STEP).contains(&tails.len());
        let fits =
            |tail: &Tail<'_>| tail.words.len() <= HEAD_WORDS && tail.out.len() <= usize::from(u16::MAX);
        if are_many && tails.iter().all(fits) {
            self.side_by_side(table, tails);
        } else {
            rans::tails_in_turns(table, tails);
        }
    }
}

impl Vbmi2 {
    #[inline(always)]
    fn registers(self, table: &Table) -> Registers {
        let (bytes, _) = table.bytes.as_chunks::<VECTOR_BYTES>();
        Registers {
            bias: load(&table.bias),
            frequency: load(&table.frequency),
            number: load(&table.number),
            place: load(&table.place),
            mask: load(&table.mask),
            bytes: std::array::from_fn(|i| load(&bytes[i])),
        }
    }

    /// Whole vectors of bodies side by side.
    #[inline(always)]
    fn vectors<const N: usize>(
        self,
        table: &Registers,
        states: &mut [States; N],
        mut bodies: [&mut Body<'_>; N],
        from: usize,
        to: usize,
    ) {
        let mut running = *states;
        let words = bodies.each_ref().map(|body| body.words);
        let mut vectors = bodies.each_mut().map(|body| body.out.as_chunks_mut::<8>().0[from..to].iter_mut());
        for _ in from..to {
            let mut places = [self.zeros(); N];
            for ((states, words), places) in running.iter_mut().zip(words).zip(&mut places) {
                *places = self.step(table, states, words, u32::MAX);
            }
            for ((states, words), places) in running.iter_mut().zip(words).zip(&mut places) {
                *places = self.pair(*places, self.step(table, states, words, u32::MAX));
            }
            for (vectors, places) in vectors.iter_mut().zip(places) {
                if let Some(vector) = vectors.next() {
                    *vector = store(self.bytes_at(table, places));
                }
            }
        }
        *states = running;
    }

    /// The bytes behind the last whole vector.
    #[inline(always)]
    fn rest(self, table: &Registers, states: &mut States, body: &mut Body<'_>, vector: usize) {
        let bytes = body.bytes % VECTOR_BYTES;
        let Some(out) = body.out.as_chunks_mut::<8>().0.get_mut(vector).filter(|_| bytes > 0) else { return };
        let lanes = |count: usize| ((1_u64 << count) - 1) as u32;
        let active = [lanes(bytes.div_ceil(2)), lanes(bytes / 2)];
        let first = self.step(table, states, body.words, active[0]);
        let second =
            if active[1] == 0 { self.zeros() } else { self.step(table, states, body.words, active[1]) };
        let found = self.bytes_at(table, self.pair(first, second));
        *out = store(found);
    }

    /// Tails of few words, a lane each.
    #[inline(always)]
    fn side_by_side(self, table: &Table, tails: &mut [Tail<'_>]) {
        let registers = self.registers(table);
        // The words of each, and behind them as much as reading a word reads more.
        let mut words = [0_u16; STEP * HEAD_WORDS + 2];
        let (mut states, mut lengths) = ([[0_u16; STEP]; 2], [0_u16; STEP]);
        let (mut next, mut ends) = ([0_u32; STEP], [0_u32; STEP]);
        for (lane, tail) in tails.iter().enumerate() {
            words[lane * HEAD_WORDS..][..tail.words.len()].copy_from_slice(tail.words);
            let state = tail.first_state();
            (states[0][lane], states[1][lane]) = ((state >> 16) as u16, state as u16);
            lengths[lane] = tail.out.len() as u16;
            next[lane] = (lane * HEAD_WORDS + 2) as u32;
            ends[lane] = (lane * HEAD_WORDS + tail.words.len()) as u32;
        }
        let [mut high, mut low]: [__m512i; 2] = states.each_ref().map(load);
        let lengths: __m512i = load(&lengths);
        let halves = |numbers: &[u32; STEP]| -> [__m512i; 2] {
            let (halves, _) = numbers.as_chunks::<16>();
            [load(&halves[0]), load(&halves[1])]
        };
        let (mut next, ends) = (halves(&next), halves(&ends));
        let most = tails.iter().map(|tail| tail.out.len()).max().unwrap_or(0);
        let mut turns = [[0_u8; STEP]; TURNS];
        for first in (0..most).step_by(TURNS) {
            let count = TURNS.min(most - first);
            for (i, turn) in (first..).zip(&mut turns[..count]) {
                let (places, upper, rest) = self.advance(&registers, high, low);
                let found = self.bytes_at(&registers, places);
                *turn = store(simd!(_mm512_cvtepi16_epi8(found)));
                simd!({
                    let active = _mm512_cmplt_epu16_mask(_mm512_set1_epi16(i as i16), lengths);
                    let low_half = _mm512_cmplt_epu32_mask(next[0], ends[0]);
                    let high_half = _mm512_cmplt_epu32_mask(next[1], ends[1]);
                    let there = u32::from(high_half) << 16 | u32::from(low_half);
                    let taking = _mm512_testn_epi16_mask(upper, upper) & active & there;
                    let (a, b) = (taking as u16, (taking >> 16) as u16);
                    let zeros = _mm512_setzero_si512();
                    // Lanes that take a word have one before their end; what is read lies in `words`.
                    let first = _mm512_mask_i32gather_epi32::<2>(zeros, a, next[0], words.as_ptr().cast());
                    let second = _mm512_mask_i32gather_epi32::<2>(zeros, b, next[1], words.as_ptr().cast());
                    let fresh = _mm512_inserti64x4::<1>(
                        _mm512_castsi256_si512(_mm512_cvtepi32_epi16(first)),
                        _mm512_cvtepi32_epi16(second),
                    );
                    let one = _mm512_set1_epi32(1);
                    next[0] = _mm512_mask_add_epi32(next[0], a, next[0], one);
                    next[1] = _mm512_mask_add_epi32(next[1], b, next[1], one);
                    high = _mm512_mask_mov_epi16(upper, taking, rest);
                    low = _mm512_mask_mov_epi16(rest, taking, fresh);
                });
            }
            for (lane, tail) in tails.iter_mut().enumerate() {
                let Some(out) = tail.out.get_mut(first..) else { continue };
                for (byte, turn) in out.iter_mut().zip(&turns[..count]) {
                    *byte = turn[lane];
                }
            }
        }
    }

    #[inline(always)]
    fn zeros(self) -> __m512i {
        simd!(_mm512_setzero_si512())
    }

    /// Takes a byte off each state: their places, and the high and the low halves of what is left.
    #[inline(always)]
    fn advance(self, table: &Registers, high: __m512i, low: __m512i) -> (__m512i, __m512i, __m512i) {
        simd!({
            let bias = _mm512_permutexvar_epi16(_mm512_srli_epi16::<8>(low), table.bias);
            let entries = _mm512_srli_epi16::<8>(_mm512_add_epi16(low, bias));
            let frequency = _mm512_permutexvar_epi16(entries, table.frequency);
            let slot = _mm512_and_si512(low, _mm512_set1_epi16(0xfff));
            let number = _mm512_add_epi16(slot, _mm512_permutexvar_epi16(entries, table.number));
            let place = _mm512_permutexvar_epi16(entries, table.place);
            let mask = _mm512_permutexvar_epi16(entries, table.mask);
            // The state without the slot has 20 bits.
            let (middle, top) = (_mm512_shldi_epi16::<4>(high, low), _mm512_srli_epi16::<12>(high));
            let rest = _mm512_add_epi16(_mm512_mullo_epi16(frequency, middle), number);
            let carry = _mm512_cmplt_epu16_mask(rest, number);
            let upper =
                _mm512_add_epi16(_mm512_mulhi_epu16(frequency, middle), _mm512_mullo_epi16(frequency, top));
            let upper = _mm512_mask_sub_epi16(upper, carry, upper, _mm512_set1_epi16(-1));
            let places = _mm512_or_si512(_mm512_srli_epi16::<8>(place), _mm512_and_si512(rest, mask));
            // Shifts go by the low four bits.
            let rest = _mm512_shrdv_epi16(rest, upper, place);
            let upper = _mm512_shrdv_epi16(upper, _mm512_setzero_si512(), place);
            (places, upper, rest)
        })
    }

    /// A step of the states of some lanes, which gives the places of their bytes.
    #[inline(always)]
    fn step(self, table: &Registers, states: &mut States, words: &[u16], active: u32) -> __m512i {
        let next = self.words(words, states.at);
        let (places, upper, rest) = self.advance(table, states.high, states.low);
        simd!({
            let taking = _mm512_testn_epi16_mask(upper, upper) & active;
            let high = _mm512_mask_mov_epi16(upper, taking, rest);
            let low = _mm512_mask_expand_epi16(rest, taking, next);
            if active == u32::MAX {
                (states.high, states.low) = (high, low);
            } else {
                states.high = _mm512_mask_mov_epi16(states.high, active, high);
                states.low = _mm512_mask_mov_epi16(states.low, active, low);
            }
            states.at += taking.count_ones() as usize;
            places
        })
    }

    /// The places of two steps as bytes.
    #[inline(always)]
    fn pair(self, first: __m512i, second: __m512i) -> __m512i {
        simd!(_mm512_or_si512(first, _mm512_slli_epi16::<8>(second)))
    }

    /// The bytes at places.
    #[inline(always)]
    fn bytes_at(self, table: &Registers, places: __m512i) -> __m512i {
        let [a, b, c, d] = table.bytes;
        simd!({
            let low = _mm512_permutex2var_epi8(a, places, b);
            let high = _mm512_permutex2var_epi8(c, places, d);
            _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(places), high)
        })
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
