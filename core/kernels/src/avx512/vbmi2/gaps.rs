//! Coded gaps, 32 positions at a time: the places of the ones in the unary numbers are compressed, the low parts are
//! picked by shifts, and what they carry into the high parts is counted.

use std::arch::x86_64::*;

use super::{Vbmi2, positions::PLACES};
use crate::{
    forms::gaps::{Gaps, Highs},
    registers::{load, simd, store},
    scalar::gaps::{Places, rank_by_steps},
};

/// Positions in a register.
const LANES: usize = 32;

/// Places that a word may hold.
const WORD: usize = 64;

#[inline(always)]
pub(super) fn positions(isa: Vbmi2, gaps: &Gaps<'_>, out: &mut [u16]) -> Option<usize> {
    let mut reader = Reader::new(isa, gaps)?;
    for first in (0..gaps.count).step_by(LANES) {
        let count = (gaps.count - first).min(LANES);
        let lanes = reader.next(isa, count)?;
        match out[first..].first_chunk_mut::<LANES>() {
            Some(out) => *out = store(lanes),
            None => {
                let lanes: [u16; LANES] = store(lanes);
                out[first..first + count].copy_from_slice(&lanes[..count]);
            }
        }
    }
    Some(reader.bit)
}

#[inline(always)]
pub(super) fn rank(isa: Vbmi2, gaps: &Gaps<'_>, position: u16) -> Option<(usize, bool)> {
    if gaps.highs == Highs::Steps {
        return rank_by_steps(gaps, position, |word, count| isa.place(word, count));
    }
    let mut reader = Reader::new(isa, gaps)?;
    for first in (0..gaps.count).step_by(LANES) {
        let count = (gaps.count - first).min(LANES);
        let (less, equal) = isa.compare(reader.next(isa, count)?, position);
        let below = less.trailing_ones() as usize;
        if below < count {
            return Some((first + below, equal >> below & 1 == 1));
        }
    }
    Some((gaps.count, false))
}

/// Reads positions in order.
struct Reader<'a> {
    gaps: &'a Gaps<'a>,
    /// Where the next unary number begins.
    bit: usize,
    lows: Lows,
    /// The byte where the next low parts begin.
    lows_offset: usize,
    /// The last low parts.
    before: __m512i,
    /// What makes a high part of a place: the carries less the ones before it, modulo 2^16.
    carried: u16,
}

/// At least 121 bits from one on.
#[inline(always)]
fn window(bytes: &[u8], bit: usize) -> u128 {
    let bytes = bytes.get(bit / 8..).unwrap_or_default();
    let window = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut window = [0; 16];
        window[..bytes.len()].copy_from_slice(bytes);
        window
    });
    u128::from_le_bytes(window) >> (bit % 8)
}

/// Where `count` ones are from a bit on, counted from the first unary number's first bit, modulo 2^16, and the bit behind
/// the last.
#[cold]
fn far_places(gaps: &Gaps<'_>, bit: usize, count: usize) -> Option<([u16; LANES], usize)> {
    let mut places = [0; LANES];
    let mut reader = Places::new(gaps.unary, bit);
    for place in &mut places[..count] {
        *place = reader.next()?.wrapping_sub(gaps.unary_bit) as u16;
    }
    Some((places, reader.bit))
}

/// How low parts are picked from their bytes.
struct Lows {
    /// The eight bytes that hold four of them.
    bytes: __m512i,
    /// Where in these begin the two bytes that hold one.
    shifts: __m512i,
    mask: __m512i,
}

impl<'a> Reader<'a> {
    #[inline(always)]
    fn new(isa: Vbmi2, gaps: &'a Gaps<'a>) -> Option<Self> {
        let lows = isa.lows(gaps.k, gaps.lows_bit % 8);
        gaps.has_lows().then_some(Self {
            gaps,
            bit: gaps.unary_bit,
            before: lows.mask,
            lows,
            lows_offset: gaps.lows_bit / 8,
            carried: if gaps.highs == Highs::Carried { u16::MAX } else { 0 },
        })
    }

    /// The next positions, of which the first `count` are some.
    #[inline(always)]
    fn next(&mut self, isa: Vbmi2, count: usize) -> Option<__m512i> {
        let places = self.places(isa, count)?;
        let lows = self.lows(isa);
        let mut highs = isa.highs(places, self.carried);
        self.carried = self.carried.wrapping_sub(LANES as u16);
        if self.gaps.highs == Highs::Carried {
            let (carries, all) = isa.carries(lows, self.before);
            highs = isa.add(highs, carries);
            self.carried = self.carried.wrapping_add(all as u16);
            self.before = lows;
        }
        Some(isa.join(highs, self.gaps.k, lows))
    }

    /// Where the next ones are, counted from the first unary number's first bit, modulo 2^16.
    #[inline(always)]
    fn places(&mut self, isa: Vbmi2, count: usize) -> Option<__m512i> {
        let first = self.bit.wrapping_sub(self.gaps.unary_bit) as u16;
        let window = window(self.gaps.unary, self.bit);
        let (word, more) = (window as u64, (window >> WORD) as u64);
        let ones = word.count_ones() as usize;
        if ones >= count {
            self.bit += isa.place(word, count) + 1;
            return Some(isa.places(isa.ones(word), first));
        }
        if ones + more.count_ones() as usize >= count {
            self.bit += WORD + isa.place(more, count - ones) + 1;
            return Some(isa.places(isa.append(isa.ones(word), ones, isa.ones(more)), first));
        }
        let (places, bit) = far_places(self.gaps, self.bit, count)?;
        self.bit = bit;
        Some(load(&places))
    }

    /// The next low parts.
    #[inline(always)]
    fn lows(&mut self, isa: Vbmi2) -> __m512i {
        let bytes = self.gaps.lows.get(self.lows_offset..).unwrap_or_default();
        let lows = match bytes.first_chunk::<64>() {
            Some(bytes) => isa.pick(&self.lows, bytes),
            None => {
                let mut copy = [0; 64];
                copy[..bytes.len()].copy_from_slice(bytes);
                isa.pick(&self.lows, &copy)
            }
        };
        self.lows_offset += 4 * self.gaps.k as usize;
        lows
    }
}

impl Vbmi2 {
    /// How low parts of `k` bits are picked, the first of which begins at bit `bit` of a byte.
    #[inline(always)]
    fn lows(self, k: u32, bit: usize) -> Lows {
        /// The lowest byte of a word, in all of its bytes.
        const LOWEST: [u8; 64] = {
            let mut bytes = [0; 64];
            let mut i = 0;
            while i < 64 {
                bytes[i] = (i / 8 * 8 % 16) as u8;
                i += 1;
            }
            bytes
        };
        let k = u64::from(k);
        let shifts = (0..4).fold(0, |shifts, i| shifts | ((i * k) | ((i * k + 8) << 8)) << (16 * i));
        simd!({
            let words: __m512i = load(&[0_u64, 1, 2, 3, 4, 5, 6, 7]);
            let bits = _mm512_mul_epu32(words, _mm512_set1_epi64(4 * k as i64));
            let bits = _mm512_add_epi64(bits, _mm512_set1_epi64(bit as i64));
            let byte = _mm512_shuffle_epi8(_mm512_srli_epi64::<3>(bits), load(&LOWEST));
            let bit = _mm512_shuffle_epi8(_mm512_and_si512(bits, _mm512_set1_epi64(7)), load(&LOWEST));
            Lows {
                bytes: _mm512_add_epi8(byte, _mm512_set1_epi64(0x0706_0504_0302_0100)),
                shifts: _mm512_add_epi8(bit, _mm512_set1_epi64(shifts as i64)),
                mask: _mm512_set1_epi16(((1_u16 << k) - 1).cast_signed()),
            }
        })
    }

    #[inline(always)]
    fn pick(self, lows: &Lows, bytes: &[u8; 64]) -> __m512i {
        simd!({
            let words = _mm512_permutexvar_epi8(lows.bytes, load(bytes));
            _mm512_and_si512(_mm512_multishift_epi64_epi8(lows.shifts, words), lows.mask)
        })
    }

    /// The places of a word's ones, as bytes.
    #[inline(always)]
    fn ones(self, word: u64) -> __m512i {
        simd!(_mm512_maskz_compress_epi8(word, load(&PLACES)))
    }

    /// The first `count` bytes of `places`, and behind them those of the next word.
    #[inline(always)]
    fn append(self, places: __m512i, count: usize, next: __m512i) -> __m512i {
        simd!({
            let next = _mm512_add_epi8(next, _mm512_set1_epi8(WORD as i8));
            _mm512_mask_expand_epi8(places, u64::MAX << count, next)
        })
    }

    /// Places as 16-bit lanes, counted from `first`.
    #[inline(always)]
    fn places(self, places: __m512i, first: u16) -> __m512i {
        simd!({
            let places = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(places));
            _mm512_add_epi16(places, _mm512_set1_epi16(first.cast_signed()))
        })
    }

    /// Places, less the number of the lane, and `carried`.
    #[inline(always)]
    fn highs(self, places: __m512i, carried: u16) -> __m512i {
        const NUMBERS: [u16; LANES] = {
            let mut lanes = [0; LANES];
            let mut i = 0;
            while i < LANES {
                lanes[i] = i as u16;
                i += 1;
            }
            lanes
        };
        simd!({
            let places = _mm512_sub_epi16(places, load(&NUMBERS));
            _mm512_add_epi16(places, _mm512_set1_epi16(carried.cast_signed()))
        })
    }

    /// How many low parts up to each lane are not above the one before, and how many are in all. `before` ends with that
    /// before the first.
    #[inline(always)]
    fn carries(self, lows: __m512i, before: __m512i) -> (__m512i, u32) {
        /// The lane before each, of two registers.
        const BEFORE: [u16; LANES] = {
            let mut lanes = [2 * LANES as u16 - 1; LANES];
            let mut i = 1;
            while i < LANES {
                lanes[i] = i as u16 - 1;
                i += 1;
            }
            lanes
        };
        const HIGH: u32 = 0xffff_0000;
        /// The bits up to a lane's own, in its half.
        const UP_TO: [u16; LANES] = {
            let mut bits = [0; LANES];
            let mut i = 0;
            while i < LANES {
                bits[i] = u16::MAX >> (15 - i % 16);
                i += 1;
            }
            bits
        };
        simd!({
            let before = _mm512_permutex2var_epi16(lows, load(&BEFORE), before);
            let carries = _mm512_cmple_epu16_mask(lows, before);
            // Which of a half's 16 lanes carry, in all lanes of the half.
            let [low, high] = [carries as u16, (carries >> 16) as u16];
            let halves = _mm512_set1_epi16(low.cast_signed());
            let halves = _mm512_mask_set1_epi16(halves, HIGH, high.cast_signed());
            let counts = _mm512_popcnt_epi16(_mm512_and_si512(halves, load(&UP_TO)));
            let low = _mm512_set1_epi16(low.count_ones() as i16);
            (_mm512_mask_add_epi16(counts, HIGH, counts, low), carries.count_ones())
        })
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        simd!(_mm512_add_epi16(a, b))
    }

    #[inline(always)]
    fn join(self, highs: __m512i, k: u32, lows: __m512i) -> __m512i {
        simd!(_mm512_or_si512(_mm512_sll_epi16(highs, _mm_cvtsi32_si128(k.cast_signed())), lows))
    }

    /// Which lanes are less than a position, and which are equal to it.
    #[inline(always)]
    fn compare(self, lanes: __m512i, position: u16) -> (u32, u32) {
        simd!({
            let position = _mm512_set1_epi16(position.cast_signed());
            (_mm512_cmplt_epu16_mask(lanes, position), _mm512_cmpeq_epi16_mask(lanes, position))
        })
    }
}
