//! Rice codes (Rice and Plaunt, 1971): a number as its quotient by 2^k in unary, and its k low bits.

/// The Rice code of some numbers: how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rice {
    /// Bits of a low part.
    pub(super) k: u32,
    pub(super) numbers: usize,
    /// The sum of the quotients.
    pub(super) quotients: u64,
}

impl Rice {
    pub(super) fn new(numbers: &[u32], k: u32) -> Self {
        let quotients = numbers.iter().map(|number| u64::from(number >> k)).sum();
        Self { k, numbers: numbers.len(), quotients }
    }

    /// The shortest code with a `k` up to `most`.
    pub(super) fn best(numbers: &[u32], most: u32) -> Self {
        // Of a geometric distribution it is the mean that tells k (Golomb, 1966); of others it leads near.
        let mean = Self::new(numbers, 0).quotients / (numbers.len() as u64).max(1);
        let k = (mean * 7 / 10).max(1).ilog2().min(most);
        let mut best = Self::new(numbers, k);
        for step in [-1, 1] {
            while let Some(k) = best.k.checked_add_signed(step).filter(|&k| k <= most) {
                let next = Self::new(numbers, k);
                if next.bits() >= best.bits() {
                    break;
                }
                best = next;
            }
        }
        best
    }

    /// That of numbers like these, of which there are `to` instead of `from`.
    pub(super) fn scaled(self, from: usize, to: usize) -> Self {
        let quotients = self.quotients * to as u64 / from as u64;
        Self { numbers: self.numbers * to / from, quotients, ..self }
    }

    /// Bits of the code.
    pub(super) fn bits(&self) -> u64 {
        self.quotients + self.numbers as u64 * (1 + u64::from(self.k))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_code_is_the_shortest() {
        let lists: [Vec<u32>; 5] = [
            vec![],
            vec![0; 9],
            (0..1000).map(|i| i * 7919 % 512).collect(),
            (0..1000).map(|i| if i % 20 == 0 { 5000 } else { 0 }).collect(),
            vec![1 << 19],
        ];
        for numbers in lists {
            let best = Rice::best(&numbers, 14);
            let shortest = (0..=14).map(|k| Rice::new(&numbers, k).bits()).min();
            assert_eq!(Some(best.bits()), shortest);
        }
    }
}
