//! What a block of codes looks like before it is entropy coded: words in whole vectors.

use basalt_kernels::{packed, rans};

/// The form of a block's image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image {
    /// Bits of a code: 1, 2, 4 or, where keys are more than 16, 8.
    pub(super) width: u32,
    pub(super) rows: usize,
}

impl Image {
    /// The image of a block with so many keys.
    pub(super) fn new(keys: usize, rows: usize) -> Self {
        let width = match keys {
            0..=2 => 1,
            3..=4 => 2,
            5..=16 => 4,
            _ => 8,
        };
        Self { width, rows }
    }

    /// Whether codes of so many keys are coded as bytes.
    pub(super) fn is_wide(keys: usize) -> bool {
        keys > rans::SYMBOLS
    }

    /// Rows, those included that fill the last vector.
    fn filled(self) -> usize {
        self.rows.next_multiple_of(512 / self.width as usize)
    }

    /// Words in whole vectors.
    pub(super) fn words(self) -> usize {
        self.filled() * self.width as usize / 64
    }

    /// Steps that decode the nibbles.
    pub(super) fn steps(self) -> usize {
        self.words() * 16 / rans::STEP
    }

    /// The image of the rows' codes; `fill` is the code of those behind them.
    pub(super) fn pack(self, codes: &[u8], fill: u8) -> Vec<u64> {
        let codes = codes.iter().copied().chain(std::iter::repeat(fill)).take(self.filled()).map(u64::from);
        let codes: Vec<u64> = codes.collect();
        if self.width == 1 {
            return codes.chunks(64).map(|bits| bits.iter().rfold(0, |word, bit| word << 1 | bit)).collect();
        }
        let mut words = vec![0; packed::words(self.width, codes.len())];
        packed::pack(self.width, &codes, &mut words);
        words.truncate(self.words());
        words
    }
}

/// How often each nibble occurs.
pub(super) fn counts<'a>(words: impl Iterator<Item = &'a u64>) -> [u64; rans::SYMBOLS] {
    // Bytes first, which are half as many, in four tables, so that equal ones in a row do not wait for each other.
    let mut tables = [[0_u64; 256]; 4];
    for word in words {
        for (i, byte) in word.to_le_bytes().into_iter().enumerate() {
            tables[i % 4][usize::from(byte)] += 1;
        }
    }
    let mut counts = [0; rans::SYMBOLS];
    for table in tables {
        for (byte, n) in table.into_iter().enumerate() {
            counts[byte % 16] += n;
            counts[byte / 16] += n;
        }
    }
    counts
}

/// Whether both codes of a nibble, all four of them, are below `keys`.
pub(super) fn is_of_codes(nibble: usize, width: u32, keys: usize) -> bool {
    let code = |i: u32| nibble >> (i * width) & ((1 << width) - 1);
    (0..4 / width).all(|i| code(i) < keys)
}
