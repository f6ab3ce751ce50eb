//! What a block of codes looks like before it is entropy coded: words in whole vectors.

use basalt_kernels::{
    packed,
    rans::{self, BYTES},
};

use crate::limits::BLOCK_ROWS;

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

    /// The images of the blocks of a column, the last of which may be shorter.
    pub(super) fn of_blocks(keys: usize, rows: usize) -> impl Iterator<Item = Self> {
        (0..rows.div_ceil(BLOCK_ROWS))
            .map(move |block| Self::new(keys, (rows - block * BLOCK_ROWS).min(BLOCK_ROWS)))
    }

    /// Rows of a byte.
    pub(super) fn rows_of_byte(self) -> usize {
        8 / self.width as usize
    }

    /// Bytes in whole vectors.
    pub(super) fn bytes(self) -> usize {
        self.rows.div_ceil(self.rows_of_byte()).next_multiple_of(rans::VECTOR_BYTES)
    }

    /// Words in whole vectors.
    pub(super) fn words(self) -> usize {
        self.bytes() / 8
    }

    /// The image of the rows' codes; `fill` is the code of those behind them.
    pub(super) fn pack(self, codes: &[u8], fill: u8) -> Vec<u64> {
        let filled = self.bytes() * self.rows_of_byte();
        let mut bytes = codes.to_vec();
        bytes.resize(filled, fill);
        if self.width == 8 {
            return bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        }
        if self.width == 1 {
            let word = |bits: &[u8]| bits.iter().rfold(0, |word, bit| word << 1 | u64::from(*bit));
            return bytes.chunks(64).map(word).collect();
        }
        let mut words = vec![0; packed::words(self.width, bytes.len())];
        packed::pack_bytes(self.width, &bytes, &mut words);
        words.truncate(self.words());
        words
    }
}

/// How often each byte occurs.
pub(super) fn counts<'a>(words: impl Iterator<Item = &'a u64>) -> [u64; BYTES] {
    // Four tables, so that equal ones in a row do not wait for each other.
    let mut tables = [[0_u64; BYTES]; 4];
    for word in words {
        for (i, byte) in word.to_le_bytes().into_iter().enumerate() {
            tables[i % 4][usize::from(byte)] += 1;
        }
    }
    std::array::from_fn(|byte| tables.iter().map(|table| table[byte]).sum())
}

/// Whether all codes of a byte are below `keys`.
pub(super) fn is_of_codes(byte: usize, width: u32, keys: usize) -> bool {
    let code = |i: u32| byte >> (i * width) & ((1 << width) - 1);
    (0..8 / width).all(|i| code(i) < keys)
}

/// The bytes all of whose codes have keys, in ascending order.
pub(super) fn bytes_of_codes(keys: usize) -> impl Iterator<Item = usize> {
    let width = Image::new(keys, 1).width;
    (0..BYTES).filter(move |&byte| is_of_codes(byte, width, keys))
}
