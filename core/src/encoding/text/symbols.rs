//! FSST (Boncz, Neumann, Leis, "FSST: Fast Random Access String Compression", VLDB 2020): the frequent pieces of
//! texts, of one to eight bytes, have codes of one byte, and 255 stands before a byte that is in no piece.
//!
//! | what | |
//! |---|---|
//! | the length of each symbol | u8 |
//! | the symbols | u8 |

use crate::{
    encoding::bytes::{Reader, Writer, ensure},
    error::Result,
};

/// The code before a byte that stands for itself.
pub(super) const ESCAPE: u8 = 255;
/// Bytes of a symbol, at most.
pub(super) const MAX_LENGTH: usize = 8;

/// What codes stand for. A code without a symbol stands for nothing.
#[derive(Debug)]
pub(super) struct Symbols {
    count: u8,
    symbols: [[u8; MAX_LENGTH]; 256],
    lengths: [u8; 256],
}

impl Symbols {
    /// Writes the symbols of a compressor.
    pub(super) fn write(compressor: &fsst::Compressor, writer: &mut Writer) {
        writer.slice(compressor.symbol_lengths());
        for (symbol, length) in compressor.symbol_table().iter().zip(compressor.symbol_lengths()) {
            writer.slice(&symbol.to_u64().to_le_bytes()[..usize::from(*length)]);
        }
    }

    /// Bytes that [`Symbols::write`] writes.
    pub(super) fn bytes(compressor: &fsst::Compressor) -> usize {
        let lengths = compressor.symbol_lengths();
        lengths.len() + lengths.iter().map(|length| usize::from(*length)).sum::<usize>()
    }

    /// Reads `count` symbols.
    pub(super) fn read(reader: &mut Reader, count: u8) -> Result<Self> {
        let mut table = Self { count, symbols: [[0; MAX_LENGTH]; 256], lengths: [0; 256] };
        let lengths = reader.skip(count.into())?;
        table.lengths[..lengths.len()].copy_from_slice(&lengths);
        for (symbol, length) in table.symbols.iter_mut().zip(lengths.iter().map(|n| usize::from(*n))) {
            ensure((1..=MAX_LENGTH).contains(&length), "a symbol has not 1 to 8 bytes")?;
            symbol[..length].copy_from_slice(&reader.skip(length)?);
        }
        Ok(table)
    }

    /// A table of these.
    #[cfg(test)]
    pub(super) fn of(symbols: &[&str]) -> Self {
        let count = symbols.len().to_le_bytes()[0];
        let mut table = Self { count, symbols: [[0; MAX_LENGTH]; 256], lengths: [0; 256] };
        for (code, symbol) in symbols.iter().enumerate() {
            table.symbols[code][..symbol.len()].copy_from_slice(symbol.as_bytes());
            table.lengths[code] = symbol.len().to_le_bytes()[0];
        }
        table
    }

    /// The symbol of a code; none for the escape.
    pub(super) fn get(&self, code: u8) -> Option<&[u8]> {
        let code = usize::from(code);
        self.symbols[code].get(..self.lengths[code].into()).filter(|symbol| !symbol.is_empty())
    }

    /// Whether each code has a symbol, and none is the escape.
    pub(super) fn are_symbols(&self, codes: &[u8]) -> bool {
        codes.iter().max().is_none_or(|greatest| *greatest < self.count)
    }

    /// Whether each code has a symbol, and each escape a byte behind it.
    pub(super) fn are_codes(&self, codes: &[u8]) -> bool {
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            let known = if code == ESCAPE { codes.next().is_some() } else { code < self.count };
            if !known {
                return false;
            }
        }
        true
    }

    /// Writes what codes, which [`Self::are_codes`], stand for at `out[at..]` and returns where it ends. There is room for [`MAX_LENGTH`] bytes
    /// for each code and as many behind them; `each` is called with the place of every code and where its bytes
    /// begin.
    #[inline(always)]
    pub(super) fn decode(
        &self,
        codes: &[u8],
        out: &mut [u8],
        mut at: usize,
        mut each: impl FnMut(usize, usize),
    ) -> usize {
        let mut place = 0;
        while let Some(&code) = codes.get(place) {
            each(place, at);
            place += 1;
            if code == ESCAPE {
                out[at] = codes[place];
                place += 1;
                at += 1;
            } else {
                // All eight bytes at once: the next symbol overwrites those that are too many.
                out[at..at + MAX_LENGTH].copy_from_slice(&self.symbols[usize::from(code)]);
                at += usize::from(self.lengths[usize::from(code)]);
            }
        }
        at
    }
}
