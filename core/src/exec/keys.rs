//! The distinct values of a column over the rows that a filter selects, as a set.
//!
//! Where a column has codes, a block marks the codes that it selects, and the entries are read once for each
//! fragment. Other keys are marked in one bitmap for all blocks unless they are scattered too far: then each
//! block sorts its own.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::Array;
use basalt_kernels::mask::for_each;
use basalt_sip::{BLOCK_IDS, BLOCK_WORDS, Sip};
use hashbrown::HashSet;

use super::{Block, Control, Held, SetUse, Statistics, Work, sets};
use crate::{
    encoding::{KeyColumn, TextMembers},
    error::{Error, ErrorKind, Result},
    fragment::{Column, Values},
    keys,
    limits::BATCH_ROWS,
    mask::Mask,
    plan::{Plan, expr::Slots},
    query::Filter,
    schema::DataType,
    table::{Snapshot, Table, no_column},
};

/// Distinct values of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectedKeys {
    /// What the ids are values of.
    pub data_type: DataType,
    /// The column is null in a selected row.
    pub has_null: bool,
    /// The ids; see [`KeySet`](crate::query::KeySet).
    pub sip: Sip,
}

/// The distinct values of column `key` over the rows that a filter selects.
///
/// # Errors
/// [`ErrorKind::ColumnNotFound`]; [`ErrorKind::TypeMismatch`] for floats and text, which are no ids; and those of
/// [`select`](super::select).
pub fn select_keys(
    table: &Table,
    snapshot: &Snapshot,
    key: &str,
    filter: Option<&Filter>,
    control: &Control,
) -> Result<(SelectedKeys, Statistics)> {
    select_keys_with(table, snapshot, key, filter, control, &mut Vec::new())
}

/// The same; what the filter's sets did goes to `uses`.
pub(super) fn select_keys_with(
    table: &Table,
    snapshot: &Snapshot,
    key: &str,
    filter: Option<&Filter>,
    control: &Control,
    uses: &mut Vec<SetUse>,
) -> Result<(SelectedKeys, Statistics)> {
    let slot = table.schema().index_of(key).ok_or_else(|| no_column(table, key).at("key"))?;
    let data_type = table.schema().fields()[slot].data_type;
    if !data_type.has_key_domain() {
        let message = format!("columns of type {data_type} have no key domain");
        return Err(Error::new(ErrorKind::TypeMismatch, message).at("key"));
    }
    let (distinct, statistics) = Distinct::of(table, snapshot, slot, filter, control, uses)?;
    let has_null = distinct.has_null;
    Ok((SelectedKeys { data_type, has_null, sip: distinct.into_sip(data_type)? }, statistics))
}

/// The distinct texts of a column, and whether it is null in a selected row; what the filter's sets did goes to
/// `uses`.
pub(super) fn select_texts(
    table: &Table,
    snapshot: &Snapshot,
    slot: usize,
    filter: Option<&Filter>,
    control: &Control,
    uses: &mut Vec<SetUse>,
) -> Result<(TextMembers, bool)> {
    let (distinct, _) = Distinct::of(table, snapshot, slot, filter, control, uses)?;
    let has_null = distinct.has_null;
    Ok((distinct.into_texts()?, has_null))
}

/// Bits that threads set together.
struct Marks {
    /// The key of the first bit, at the border of a block of ids.
    first: i64,
    words: Vec<AtomicU64>,
}

impl Marks {
    /// Room for keys from `min` to `max`, counted in `held`.
    fn new(min: i64, max: i64, held: &mut Held<'_>) -> Result<Self> {
        let first = min & !BLOCK_MASK;
        let blocks = max.wrapping_sub(first).cast_unsigned() / BLOCK_IDS + 1;
        let words = usize::try_from(blocks).unwrap_or(usize::MAX).saturating_mul(BLOCK_WORDS);
        held.set(held.bytes.saturating_add(words.saturating_mul(8)))?;
        Ok(Self { first, words: std::iter::repeat_with(AtomicU64::default).take(words).collect() })
    }

    fn place(&self, key: i64) -> (usize, u64) {
        let place = key.wrapping_sub(self.first).cast_unsigned();
        (usize::try_from(place / 64).unwrap_or(usize::MAX), 1 << (place % 64))
    }

    fn insert(&self, key: i64) {
        let (word, bit) = self.place(key);
        // Most keys come more than once, and reading is many times faster.
        if self.words[word].load(Ordering::Relaxed) & bit == 0 {
            self.words[word].fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The marks as words.
    fn into_words(self) -> Vec<u64> {
        self.words.into_iter().map(AtomicU64::into_inner).collect()
    }
}

/// The offset of a key in its block of ids.
const BLOCK_MASK: i64 = 0xffff;
/// Keys are marked in a bitmap when they span at most this many, 1 MiB of bits, or `BITS_OF_ROW` for each row.
const BITMAP_SPAN: u64 = 1 << 23;
const BITS_OF_ROW: u64 = 64;
/// Keys of a list that are waiting to be sorted, at least.
const UNSORTED: usize = 1 << 20;

/// The distinct values of a column among the rows selected so far.
struct Distinct<'a> {
    snapshot: &'a Snapshot,
    slot: usize,
    control: &'a Control,
    /// For each fragment with codes, those that are selected.
    codes: Vec<Option<Marks>>,
    /// Keys without codes, ...
    marks: Option<Marks>,
    /// ... or when they are scattered; those in front are sorted and distinct.
    list: Vec<i64>,
    sorted: usize,
    /// Texts without codes.
    texts: HashSet<&'a str>,
    has_null: bool,
    /// The memory of the list and of the texts, and that of the marks.
    list_held: Held<'a>,
    _marks_held: Held<'a>,
}

/// What one block adds to them.
#[derive(Default)]
struct Part<'a> {
    list: Vec<i64>,
    texts: HashSet<&'a str>,
    has_null: bool,
}

impl Part<'_> {
    fn bytes(&self) -> usize {
        8 * self.list.capacity() + self.texts.allocation_size()
    }
}

impl<'a> Distinct<'a> {
    /// Those of the rows that a filter selects.
    fn of(
        table: &Table,
        snapshot: &'a Snapshot,
        slot: usize,
        filter: Option<&Filter>,
        control: &'a Control,
        uses: &mut Vec<SetUse>,
    ) -> Result<(Self, Statistics)> {
        let (slots, pred) = Plan::filter(table, snapshot, filter)?;
        let _held = sets::prepare(pred.as_ref(), snapshot, control)?;
        let mut distinct = Self::new(snapshot, slot, control)?;
        let mut work = Work::new(snapshot, pred.as_ref(), control)?;
        distinct.add_by_statistics(&mut work);
        distinct.run(&mut work, &slots)?;
        if control.clock.is_some() {
            uses.extend(sets::uses(pred.as_ref(), snapshot, control));
        }
        Ok((distinct, work.statistics))
    }

    fn new(snapshot: &'a Snapshot, slot: usize, control: &'a Control) -> Result<Self> {
        let columns = || snapshot.fragments().iter().map(|fragment| &fragment.columns()[slot]);
        let mut marks_held = Held::new(control);
        let codes = columns().map(|column| match code_count(column) {
            Some(entries) => {
                Marks::new(0, i64::try_from(entries).unwrap_or(i64::MAX), &mut marks_held).map(Some)
            }
            None => Ok(None),
        });
        let codes = codes.collect::<Result<Vec<_>>>()?;
        let is_text = columns().any(|column| matches!(column.values(), Values::Text(_)));
        let zones = columns().flat_map(Column::zones).filter_map(|zone| zone.range);
        let range = zones.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).filter(|_| !is_text);
        let widest = BITMAP_SPAN.max(BITS_OF_ROW.saturating_mul(snapshot.rows()));
        let marks = match range {
            Some((min, max)) if max.wrapping_sub(min).cast_unsigned() < widest => {
                Some(Marks::new(min, max, &mut marks_held)?)
            }
            _ => None,
        };
        Ok(Self {
            snapshot,
            slot,
            control,
            codes,
            marks,
            list: Vec::new(),
            sorted: 0,
            texts: HashSet::new(),
            has_null: false,
            list_held: Held::new(control),
            _marks_held: marks_held,
        })
    }

    /// Adds those of the blocks that statistics leave.
    fn run(&mut self, work: &mut Work<'a>, slots: &Slots) -> Result<()> {
        let Self { slot, control, codes, marks, list, sorted, texts, has_null, list_held, .. } = self;
        work.run(
            slots,
            16,
            false,
            |block, mask| {
                let part = block_part(block, mask, *slot, codes[block.at].as_ref(), marks.as_ref())?;
                control.reserve(part.bytes())?;
                Ok(part)
            },
            |_, part| {
                *has_null |= part.has_null;
                list.extend_from_slice(&part.list);
                texts.extend(&part.texts);
                control.release(part.bytes());
                if list.len() - *sorted >= UNSORTED.max(*sorted) {
                    sort(list);
                    *sorted = list.len();
                }
                list_held.set(8 * list.capacity() + texts.allocation_size())?;
                Ok(true)
            },
        )
    }

    /// Adds those of fragments that are selected whole and whose values were counted, and takes their blocks off the
    /// work.
    fn add_by_statistics(&mut self, work: &mut Work<'a>) {
        let mut whole = vec![0; self.snapshot.fragments().len()];
        work.blocks.iter().filter(|(_, all)| *all).for_each(|(block, _)| whole[block.at] += 1);
        let codes = std::mem::take(&mut self.codes);
        for ((fragment, whole), codes) in self.snapshot.fragments().iter().zip(&mut whole).zip(&codes) {
            let column = &fragment.columns()[self.slot];
            let Some(counts) = column.counts().filter(|_| *whole == fragment.blocks()) else {
                *whole = 0;
                continue;
            };
            work.statistics.rows_selected += fragment.rows() as u64;
            self.has_null |= column.nulls() > 0;
            for (key, _) in counts {
                match (column.values(), codes) {
                    (Values::Text(_), Some(codes)) => codes.insert(*key),
                    _ => self.add(*key),
                }
            }
        }
        self.codes = codes;
        work.blocks.retain(|(block, _)| whole[block.at] == 0);
    }

    /// Adds a key.
    fn add(&mut self, key: i64) {
        match &self.marks {
            Some(marks) => marks.insert(key),
            None => self.list.push(key),
        }
    }

    /// Hands out the entries of the codes, fragment by fragment.
    fn take_codes(&mut self, mut each: impl FnMut(&mut Self, &'a Column, usize)) -> Result<()> {
        for (fragment, codes) in self.snapshot.fragments().iter().zip(std::mem::take(&mut self.codes)) {
            self.control.check()?;
            let column = &fragment.columns()[self.slot];
            for_each(&codes.map(Marks::into_words).unwrap_or_default(), |code| each(self, column, code));
        }
        Ok(())
    }

    fn into_texts(mut self) -> Result<TextMembers> {
        self.take_codes(|distinct, column, code| {
            if let Values::Text(texts) = column.values()
                && let Some(codes) = texts.codes()
            {
                distinct.texts.insert(codes.entries.value(code));
            }
        })?;
        let bytes: usize = self.texts.iter().map(|text| text.len() + size_of::<Box<str>>()).sum();
        self.list_held.set(self.texts.allocation_size() + bytes)?;
        Ok(self.texts.iter().map(|text| Box::from(*text)).collect())
    }

    fn into_sip(mut self, data_type: DataType) -> Result<Sip> {
        self.take_codes(|distinct, column, code| {
            if let Values::Keys(keys) = column.values()
                && let Some(codes) = keys.codes()
            {
                distinct.add(codes.entries[code]);
            }
        })?;
        let id = |key: i64| {
            if data_type == DataType::UInt64 { keys::to_u64(key) } else { key.cast_unsigned() }
        };
        let Some(marks) = self.marks else {
            sort(&mut self.list);
            self.list_held.set(16 * self.list.len())?;
            let mut ids: Vec<u64> = self.list.into_iter().map(id).collect();
            // Negative ones come last as ids.
            let negative = ids.iter().zip(&ids[1.min(ids.len())..]).position(|(a, b)| a > b);
            ids.rotate_left(negative.map_or(0, |at| at + 1));
            return Ok(Sip::from_sorted_ids(&ids));
        };
        let first = marks.first;
        let words = marks.into_words();
        let blocks = words.chunks(BLOCK_WORDS).zip((first..).step_by(1 << 16).map(id));
        let mut blocks: Vec<_> = blocks.filter(|(words, _)| words.iter().any(|word| *word != 0)).collect();
        blocks.sort_unstable_by_key(|(_, base)| *base);
        Ok(Sip::from_masks(blocks.into_iter().map(|(words, base)| (base, words))))
    }
}

/// Entries of a column that has codes.
fn code_count(column: &Column) -> Option<usize> {
    match column.values() {
        Values::Keys(keys) => keys.codes().map(|codes| codes.entries.len()),
        Values::Text(texts) => texts.codes().map(|codes| Array::len(codes.entries)),
    }
}

fn sort(list: &mut Vec<i64>) {
    // Each block's keys are sorted, and this sort makes use of it.
    list.sort();
    list.dedup();
}

/// The values that a block selects: marked where there are marks, else listed.
fn block_part<'a>(
    block: Block<'a>,
    mask: Mask,
    slot: usize,
    codes: Option<&Marks>,
    marks: Option<&Marks>,
) -> Result<Part<'a>> {
    let column = &block.fragment.columns()[slot];
    let mut part = Part::default();
    let mut mask = mask;
    if column.zones()[block.block].nulls > 0 {
        let valid = column.validity_mask(block.block);
        part.has_null = !mask.clone().and_not(&valid, block.rows()).is_empty();
        mask = mask.and(&valid);
    }
    let source: Option<&dyn KeyColumn> = match (column.values(), codes) {
        (Values::Keys(keys), Some(_)) => keys.codes().map(|codes| codes.codes),
        (_, _) => column.keys(),
    };
    let Some(source) = source else {
        return texts_of(block, &mask, column, part);
    };
    let mut values = vec![0; BATCH_ROWS];
    let mut last = None;
    block.for_each_batch(&mask, |batch| {
        source.decode(batch.first_row(), &mut values[..batch.rows()]);
        let mut each = |row: usize| {
            let key = values[row];
            if last.replace(key) != Some(key) {
                match codes.or(marks) {
                    Some(marks) => marks.insert(key),
                    None => part.list.push(key),
                }
            }
        };
        for_each(batch.selected(), &mut each);
        Ok(())
    })?;
    sort(&mut part.list);
    Ok(part)
}

/// The texts without codes that a block selects.
fn texts_of<'a>(block: Block<'a>, mask: &Mask, column: &'a Column, mut part: Part<'a>) -> Result<Part<'a>> {
    let Values::Text(texts) = column.values() else { return Ok(part) };
    let mut values = Vec::with_capacity(BATCH_ROWS);
    block.for_each_batch(mask, |batch| {
        values.clear();
        texts.decode(batch.first_row(), batch.rows(), &mut values);
        for_each(batch.selected(), |row| {
            part.texts.insert(values[row]);
        });
        Ok(())
    })?;
    Ok(part)
}
