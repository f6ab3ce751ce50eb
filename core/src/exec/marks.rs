//! Keys marked in bitmaps: one for each thread that is at work, united at the end.

use std::sync::{Mutex, PoisonError};

use basalt_sip::{BLOCK_IDS, BLOCK_WORDS};

use super::{Control, Held};
use crate::{error::Result, invariant::index};

/// A bit for each key from `first` on.
pub(super) struct Bits<'a> {
    first: i64,
    words: Vec<u64>,
    _held: Held<'a>,
}

impl Bits<'_> {
    #[inline]
    pub(super) fn insert(&mut self, key: i64) {
        let place = key.wrapping_sub(self.first).cast_unsigned();
        self.words[index(place / 64)] |= 1 << (place % 64);
    }

    /// The blocks of ids: the first key of each, and its words.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (i64, &[u64])> + Clone {
        let key = |i: usize| self.first.wrapping_add_unsigned(i as u64 * BLOCK_IDS);
        self.words.chunks(BLOCK_WORDS).enumerate().map(move |(i, words)| (key(i), words))
    }
}

/// Bitmaps of keys within one range.
pub(super) struct Marks<'a> {
    first: i64,
    words: usize,
    control: &'a Control,
    /// Those that no thread is using.
    free: Mutex<Vec<Bits<'a>>>,
}

impl<'a> Marks<'a> {
    /// For keys from `min` to `max`.
    pub(super) fn new(min: i64, max: i64, control: &'a Control) -> Self {
        // A block of keys is one of ids.
        let first = min & !0xffff;
        let blocks = max.wrapping_sub(first).cast_unsigned() / BLOCK_IDS + 1;
        let words = index(blocks).saturating_mul(BLOCK_WORDS);
        Self { first, words, control, free: Mutex::default() }
    }

    /// Lends a bitmap that nobody else has.
    pub(super) fn with(&self, work: impl FnOnce(&mut Bits<'a>) -> Result<()>) -> Result<()> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut bits = match free {
            Some(bits) => bits,
            None => self.empty()?,
        };
        work(&mut bits)?;
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(bits);
        Ok(())
    }

    /// All marks.
    pub(super) fn into_bits(self) -> Result<Bits<'a>> {
        let mut all =
            std::mem::take(&mut *self.free.lock().unwrap_or_else(PoisonError::into_inner)).into_iter();
        let mut united = all.next().map_or_else(|| self.empty(), Ok)?;
        all.for_each(|bits| basalt_kernels::mask::or(&mut united.words, &bits.words));
        Ok(united)
    }

    fn empty(&self) -> Result<Bits<'a>> {
        let mut held = Held::new(self.control);
        held.set(self.words.saturating_mul(8))?;
        Ok(Bits { first: self.first, words: vec![0; self.words], _held: held })
    }
}
