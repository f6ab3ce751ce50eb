//! Texts of an answer by their numbers. Short ones lie in slots of one size, so that each is copied in one move.

use std::sync::Arc;

use arrow_array::StringArray;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};

use super::{control::Held, sorted_texts::SortedTexts};
use crate::{
    error::{Error, ErrorKind, Result},
    invariant::{Invariant, index},
    mask::selects,
};

/// Bytes of a slot, of which the last says how many of the others there are.
const SLOT: usize = 16;

/// A text of less bytes than [`SLOT`].
type Slot = [u8; SLOT];

/// Gathers texts.
#[derive(Debug)]
pub(super) struct TextGather<'c> {
    texts: Arc<SortedTexts>,
    slots: Vec<Slot>,
    held: Held<'c>,
}

impl<'c> TextGather<'c> {
    /// Of these texts.
    pub(super) fn new(texts: &Arc<SortedTexts>, held: Held<'c>) -> Self {
        Self { texts: Arc::clone(texts), slots: Vec::new(), held }
    }

    /// Puts the texts into slots, if they are not, where there are not more than so many rows to be gathered.
    pub(super) fn prepare(&mut self, rows: usize) -> Result<()> {
        let Self { texts, slots, held } = self;
        if !slots.is_empty() || texts.longest() >= SLOT || texts.len() > rows {
            return Ok(());
        }
        held.set(texts.len() * SLOT)?;
        slots.reserve_exact(texts.len());
        slots.extend((0..texts.len()).map(|at| {
            let (text, mut slot) = (texts.get(at).as_bytes(), [0; SLOT]);
            slot[..text.len()].copy_from_slice(text);
            slot[SLOT - 1] = u8::try_from(text.len()).invariant("a slot has room for its text");
            slot
        }));
        Ok(())
    }

    /// The texts with some numbers, null where they are not valid.
    pub(super) fn gather(&self, ids: &[i64], valid: &[u64]) -> Result<StringArray> {
        let valid_rows = BooleanBuffer::new(Buffer::from_slice_ref(valid), 0, ids.len());
        let nulls = Some(NullBuffer::new(valid_rows)).filter(|nulls| nulls.null_count() > 0);
        let valid = nulls.is_some().then_some(valid);
        let mut ends: Vec<i32> = Vec::with_capacity(ids.len() + 1);
        ends.push(0);
        let mut bytes: Vec<u8> = Vec::new();
        let id = |id: &i64| index(id.cast_unsigned());
        let end = |len: usize| i32::try_from(len).invariant("the texts of an answer's batch are few");
        if self.slots.is_empty() {
            for (row, at) in ids.iter().enumerate() {
                if selects(valid, row) {
                    bytes.extend_from_slice(self.texts.get(id(at)).as_bytes());
                }
                ends.push(end(bytes.len()));
            }
        } else {
            bytes.resize((ids.len() + 1) * SLOT, 0);
            let mut len = 0;
            for (row, at) in ids.iter().enumerate() {
                if selects(valid, row) {
                    let slot = &self.slots[id(at)];
                    bytes[len..len + SLOT].copy_from_slice(slot);
                    len += usize::from(slot[SLOT - 1]);
                }
                ends.push(end(len));
            }
            bytes.truncate(len);
        }
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        StringArray::try_new(ends, Buffer::from_vec(bytes), nulls)
            .map_err(|e| Error::new(ErrorKind::TypeMismatch, e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Control, *};

    #[test]
    fn texts_are_those_of_their_numbers() {
        for longest in ["fifteen bytes .", "sixteen bytes ..", "é"] {
            let texts: Arc<SortedTexts> = Arc::new(["", "a", "abc", longest].into_iter().collect());
            let control = Control::default();
            // The last number is null's.
            let (ids, valid) = ([3, 4, 0, 1, 2, 3, 3], [0b1111101]);
            for rows in [0, 7] {
                let mut gather = TextGather::new(&texts, Held::new(&control));
                gather.prepare(rows).unwrap();
                assert_eq!(gather.slots.len(), if rows == 7 && longest.len() < SLOT { 4 } else { 0 });
                let found = gather.gather(&ids, &valid).unwrap();
                let expected =
                    [Some(longest), None, Some(""), Some("a"), Some("abc"), Some(longest), Some(longest)];
                assert_eq!(found, StringArray::from(expected.to_vec()));
                let found = gather.gather(&ids[2..], &[u64::MAX]).unwrap();
                assert_eq!(found, StringArray::from(expected[2..].to_vec()));
            }
        }
    }
}
