//! Codes packed one behind the other and read one by one: what bit-packing is at its plainest, and the first source's
//! packed columns.

/// Codes of `width` bits, 1 to 32, the lowest bits first.
#[derive(Debug)]
pub struct Horizontal {
    width: u32,
    rows: usize,
    words: Vec<u64>,
}

impl Horizontal {
    /// Packs codes.
    pub fn pack(width: u32, codes: &[u64]) -> Self {
        // A word more, so that every code can be read from two.
        let mut words = vec![0; (codes.len() * width as usize).div_ceil(64) + 1];
        for (row, code) in codes.iter().enumerate() {
            let bit = row * width as usize;
            words[bit / 64] |= code << (bit % 64);
            words[bit / 64 + 1] |= (code >> 1) >> (63 - bit % 64);
        }
        Self { width, rows: codes.len(), words }
    }

    /// The code of a row.
    #[inline(always)]
    fn get(&self, row: usize) -> u64 {
        let bit = row * self.width as usize;
        let (low, high) = (self.words[bit / 64], self.words[bit / 64 + 1]);
        ((low >> (bit % 64)) | ((high << 1) << (63 - bit % 64))) & ((1 << self.width) - 1)
    }

    /// Writes the mask of the codes that are at most `most`.
    pub fn at_most(&self, most: u64, out: &mut Vec<u64>) {
        out.clear();
        for first in (0..self.rows).step_by(64) {
            let chunk = first..(first + 64).min(self.rows);
            let bits = chunk.map(|row| u64::from(self.get(row) <= most) << (row % 64));
            out.push(bits.fold(0, |word, bit| word | bit));
        }
    }

    /// The sum of the codes that the mask selects.
    pub fn sum(&self, mask: Option<&[u64]>) -> u64 {
        let selected = |row: usize| mask.is_none_or(|mask| mask[row / 64] >> (row % 64) & 1 == 1);
        (0..self.rows).filter(|&row| selected(row)).map(|row| self.get(row)).sum()
    }
}
