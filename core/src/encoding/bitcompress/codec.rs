//! Range asymmetric numeral systems (Duda 2013, arXiv:1311.2540) over up to 256 symbols with probabilities of
//! 8 bits, in chunks of one u64 state that do not depend on each other.
//!
//! The 256 slots are shared out among the symbols: symbol `s` has the slots `low(s)..low(s) + width(s)`. A
//! chunk is built from its last row to its first, from state 0 on:
//!
//! ```text
//! state' = (state / width << 8) + low + state % width
//! ```
//!
//! until the next symbol would take it beyond 64 bits. Decoding goes forward: `slot = state % 256` tells the
//! symbol, and `state = (state' >> 8) * width + slot - low` the state before it.

use crate::invariant::Invariant;

/// What [`widths`] keeps to.
const WITHIN: &str = "a symbol has no more than all slots";

/// Slots shared out among the symbols.
pub(super) const SLOTS: usize = 256;
/// Rows of a chunk at most, so that 16 bits count them. Needed because a symbol at slot 0 leaves state 0 as it
/// is: a run of it would have no end.
pub(super) const MAX_CHUNK_ROWS: u16 = u16::MAX;

/// Shares out the slots: each symbol gets one and its part of the others, rounded down; what is left goes to
/// the most frequent. `counts` are those of 1 to 256 symbols.
pub(super) fn widths(counts: impl ExactSizeIterator<Item = u64> + Clone) -> Vec<u16> {
    let total: u64 = counts.clone().sum();
    let spare = (SLOTS - counts.len()) as u64;
    let share = |n: u64| 1 + u16::try_from(n * spare / total.max(1)).invariant(WITHIN);
    let mut widths: Vec<u16> = counts.clone().map(share).collect();
    let most = counts.enumerate().max_by_key(|&(i, n)| (n, std::cmp::Reverse(i)));
    let (most, _) = most.invariant("there is a symbol");
    let used: usize = widths.iter().map(|&w| usize::from(w)).sum();
    widths[most] += u16::try_from(SLOTS - used).invariant(WITHIN);
    widths
}

/// What encoding one symbol takes.
struct Push {
    width: u64,
    low: u64,
    /// `(2^64 - 1) / width`: the high half of `state * inverse` is `state / width`, or one less.
    inverse: u64,
}

impl Push {
    fn div_rem(&self, state: u64) -> (u64, u64) {
        let quotient = ((u128::from(state) * u128::from(self.inverse)) >> 64) as u64;
        let rest = state - quotient * self.width;
        if rest >= self.width { (quotient + 1, rest - self.width) } else { (quotient, rest) }
    }
}

/// The state and the rows of each chunk, in row order.
pub(super) fn encode(widths: &[u16], symbols: &[u8]) -> (Vec<u64>, Vec<u16>) {
    let mut low = 0;
    let pushes: Vec<Push> = widths
        .iter()
        .map(|&width| {
            let width = u64::from(width);
            low += width;
            Push { width, low: low - width, inverse: u64::MAX / width }
        })
        .collect();
    let (mut states, mut rows) = (Vec::new(), Vec::new());
    let (mut state, mut count) = (0, 0);
    for &symbol in symbols.iter().rev() {
        let push = &pushes[usize::from(symbol)];
        let (mut quotient, mut rest) = push.div_rem(state);
        if quotient >> 56 != 0 || count == MAX_CHUNK_ROWS {
            states.push(state);
            rows.push(count);
            (quotient, rest, count) = (0, 0, 0);
        }
        state = (quotient << 8) + push.low + rest;
        count += 1;
    }
    states.push(state);
    rows.push(count);
    states.reverse();
    rows.reverse();
    (states, rows)
}

/// What decoding takes: for each slot the step of the state, and the value that stands for the symbol.
pub(super) struct Decoder<T> {
    steps: [Step; SLOTS],
    values: [T; SLOTS],
}

#[derive(Clone, Copy, Default)]
struct Step {
    width: u16,
    /// The slot's place among those of its symbol.
    offset: u16,
}

impl<T: Copy + Default> Decoder<T> {
    /// A decoder that gives `value(symbol)` for a symbol. The widths add up to [`SLOTS`].
    pub(super) fn new(widths: impl Iterator<Item = u16>, value: impl Fn(usize) -> T) -> Self {
        let mut decoder = Self { steps: [Step::default(); SLOTS], values: [T::default(); SLOTS] };
        let mut low = 0;
        for (symbol, width) in widths.enumerate() {
            let slots = low..low + usize::from(width);
            decoder.values[slots.clone()].fill(value(symbol));
            for (step, offset) in decoder.steps[slots].iter_mut().zip(0..) {
                *step = Step { width, offset };
            }
            low += usize::from(width);
        }
        decoder
    }

    /// Takes one symbol off the state. Never overflows: `state >> 8` is below 2^56 and the width at most 2^8.
    #[inline(always)]
    pub(super) fn next(&self, state: &mut u64) -> T {
        let slot = usize::from(state.to_le_bytes()[0]);
        let Step { width, offset } = self.steps[slot];
        *state = (*state >> 8) * u64::from(width) + u64::from(offset);
        self.values[slot]
    }

    /// Takes `n` symbols off.
    pub(super) fn skip(&self, state: &mut u64, n: usize) {
        for _ in 0..n {
            self.next(state);
        }
    }

    /// Decodes chunks: each item is a state and the rows to write from it. Four chunks go side by side, for
    /// within one each symbol waits for the one before.
    pub(super) fn decode<'a>(&self, mut chunks: impl Iterator<Item = (u64, &'a mut [T])>)
    where
        T: 'a,
    {
        // Default: no rows, once the chunks are at an end.
        let mut lanes: [(u64, &mut [T]); 4] = std::array::from_fn(|_| chunks.next().unwrap_or_default());
        loop {
            let n = lanes.iter().map(|(_, rows)| rows.len()).min().invariant("there are four lanes");
            if n == 0 {
                break;
            }
            let mut states = lanes.each_ref().map(|(state, _)| *state);
            let first = |(_, rows): &mut (u64, &'a mut [T])| {
                rows.split_off_mut(..n).invariant("every lane has as many rows as the shortest")
            };
            let [a, b, c, d] = lanes.each_mut().map(first);
            for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
                *a = self.next(&mut states[0]);
                *b = self.next(&mut states[1]);
                *c = self.next(&mut states[2]);
                *d = self.next(&mut states[3]);
            }
            for (lane, state) in lanes.iter_mut().zip(states) {
                lane.0 = state;
                if lane.1.is_empty() {
                    // Default: as above.
                    *lane = chunks.next().unwrap_or_default();
                }
            }
        }
        for (mut state, rows) in lanes {
            for row in rows {
                *row = self.next(&mut state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_shared_out() {
        let of = |counts: &[u64]| widths(counts.iter().copied());
        assert_eq!(of(&[99, 1]), [253, 3]);
        assert_eq!(of(&[999, 1]), [255, 1]);
        assert_eq!(of(&[80, 15, 4, 1]), [204, 38, 11, 3]);
        assert_eq!(of(&[7]), [256]);
        assert_eq!(of(&[1; 256]), [1; 256]);
    }

    #[test]
    fn division_by_every_width_is_exact() {
        let states =
            (0..64).flat_map(|i| [1u64 << i, (1 << i) - 1, u64::MAX - (1 << i), (u64::MAX / 3) >> i]);
        for state in states {
            for width in 1..=256 {
                let push = Push { width, low: 0, inverse: u64::MAX / width };
                assert_eq!(push.div_rem(state), (state / width, state % width));
            }
        }
    }

    #[test]
    fn a_run_of_the_first_symbol_is_cut() {
        let symbols = vec![0; 200_000];
        let (states, rows) = encode(&[255, 1], &symbols);
        assert_eq!(states, [0; 4]);
        assert_eq!(rows.iter().map(|&n| usize::from(n)).sum::<usize>(), symbols.len());
    }
}
