//! The distinct values of a column over the rows that a filter selects, as a set.
//!
//! Where a column has codes, a block marks those that it selects, and the entries are read once for each
//! fragment. Other keys are marked in a bitmap unless they are scattered too far: then each block sorts its own.

use std::borrow::Cow;

use basalt_kernels::mask::for_each;
use basalt_sip::Sip;
use hashbrown::HashSet;

use super::{Block, Control, Held, Scan, SetUse, Statistics, marks::Marks, sets};
use crate::{
    encoding::{KeyColumn, TextMembers, owned_bytes},
    error::{Error, ErrorKind, Result},
    fragment::{Column, Values},
    invariant::{Invariant, index},
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
    check_domain(data_type)?;
    let (distinct, statistics) = Distinct::of(table, snapshot, slot, filter, control, uses)?;
    let has_null = distinct.has_null;
    Ok((SelectedKeys { data_type, has_null, sip: distinct.into_sip(data_type)? }, statistics))
}

/// That values of a type are ids.
pub(super) fn check_domain(data_type: DataType) -> Result<()> {
    if data_type.has_key_domain() {
        return Ok(());
    }
    let message = format!("columns of type {data_type} have no key domain");
    Err(Error::new(ErrorKind::TypeMismatch, message).at("key"))
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
) -> Result<(TextMembers, bool, Statistics)> {
    let (distinct, statistics) = Distinct::of(table, snapshot, slot, filter, control, uses)?;
    let has_null = distinct.has_null;
    Ok((distinct.into_texts()?, has_null, statistics))
}

/// Keys are marked in bitmaps when they span at most this many, 1 MiB of bits, or `BITS_OF_ROW` for each row.
const BITMAP_SPAN: u64 = 1 << 23;
const BITS_OF_ROW: u64 = 8;
/// Keys of a list that are waiting to be sorted, at least.
const UNSORTED: usize = 1 << 20;

/// The distinct values of a column among the rows selected so far.
struct Distinct<'a> {
    snapshot: &'a Snapshot,
    slot: usize,
    control: &'a Control,
    /// For each fragment, a bit for each code that is selected; no words before one is.
    codes: Vec<Vec<u64>>,
    /// Keys without codes, ...
    marks: Option<Marks<'a>>,
    /// ... or when they are scattered; those in front are sorted and distinct.
    list: Vec<i64>,
    sorted: usize,
    /// Texts without codes.
    texts: HashSet<Cow<'a, str>>,
    /// Bytes of those that no column lends.
    text_bytes: usize,
    has_null: bool,
    held: Held<'a>,
}

/// What one block adds to them.
#[derive(Default)]
struct Part<'a> {
    codes: Vec<u64>,
    list: Vec<i64>,
    texts: HashSet<Cow<'a, str>>,
    has_null: bool,
}

impl Part<'_> {
    fn bytes(&self) -> usize {
        let texts: usize = self.texts.iter().map(owned_bytes).sum();
        8 * (self.codes.len() + self.list.capacity()) + self.texts.allocation_size() + texts
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
        let mut distinct = Self::new(snapshot, slot, control);
        let mut scan = Scan::new(snapshot, pred.as_ref(), control)?;
        distinct.add_by_statistics(&mut scan)?;
        distinct.run(&mut scan, &slots)?;
        if control.has_clock() {
            uses.extend(sets::uses(pred.as_ref(), snapshot, control));
        }
        Ok((distinct, scan.statistics))
    }

    fn new(snapshot: &'a Snapshot, slot: usize, control: &'a Control) -> Self {
        let columns = || snapshot.fragments().iter().map(|fragment| fragment.column(slot));
        let is_text = columns().any(|column| matches!(column.values(), Values::Text(_)));
        let zones = columns().flat_map(|column| column.zones()).filter_map(|zone| zone.range);
        let range = zones.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).filter(|_| !is_text);
        let widest = BITMAP_SPAN.max(BITS_OF_ROW.saturating_mul(snapshot.rows()));
        let dense = range.filter(|(min, max)| max.wrapping_sub(*min).cast_unsigned() < widest);
        Self {
            snapshot,
            slot,
            control,
            codes: vec![Vec::new(); snapshot.fragments().len()],
            marks: dense.map(|(min, max)| Marks::new(min, max, control)),
            list: Vec::new(),
            sorted: 0,
            texts: HashSet::new(),
            text_bytes: 0,
            has_null: false,
            held: Held::new(control),
        }
    }

    /// Adds those of the blocks that statistics leave.
    fn run(&mut self, scan: &mut Scan<'a, '_>, slots: &Slots) -> Result<()> {
        let Self { slot, control, codes, marks, list, sorted, texts, text_bytes, has_null, held, .. } = self;
        scan.run(
            slots,
            16,
            false,
            |block, mask| {
                let part = block_part(block, mask, *slot, marks.as_ref())?;
                control.reserve(part.bytes())?;
                Ok(part)
            },
            |block, part| {
                let bytes = part.bytes();
                *has_null |= part.has_null;
                match codes[block.at].as_mut_slice() {
                    [] => codes[block.at] = part.codes,
                    known => basalt_kernels::mask::or(known, &part.codes),
                }
                list.extend_from_slice(&part.list);
                for text in part.texts {
                    let bytes = owned_bytes(&text);
                    *text_bytes += if texts.insert(text) { bytes } else { 0 };
                }
                control.release(bytes);
                if list.len() - *sorted >= UNSORTED.max(*sorted) {
                    sort(list);
                    *sorted = list.len();
                }
                held.set(8 * list.capacity() + texts.allocation_size() + *text_bytes)?;
                Ok(true)
            },
        )
    }

    /// Adds the keys of fragments that are selected whole, without deleted rows, and whose values were counted; takes
    /// their blocks off the scan.
    fn add_by_statistics(&mut self, scan: &mut Scan<'a, '_>) -> Result<()> {
        let mut whole = vec![0; self.snapshot.fragments().len()];
        scan.blocks.iter().filter(|(_, all)| *all).for_each(|(block, _)| whole[block.at] += 1);
        for (at, fragment) in self.snapshot.fragments().iter().enumerate() {
            let column = fragment.column(self.slot);
            let whole_fragment = whole[at] == fragment.blocks() && fragment.deleted().is_none();
            let Some(counts) = column.counts().filter(|_| whole_fragment) else {
                whole[at] = 0;
                continue;
            };
            scan.statistics.rows_selected += fragment.rows() as u64;
            self.has_null |= column.nulls() > 0;
            let keys = counts.iter().map(|(key, _)| *key);
            match column.values() {
                Values::Keys(_) => self.add(keys)?,
                Values::Text(_) => self.codes[at] = marked(code_count(column), keys),
            }
        }
        scan.blocks.retain(|(block, _)| whole[block.at] == 0);
        Ok(())
    }

    /// Adds keys.
    fn add(&mut self, keys: impl Iterator<Item = i64>) -> Result<()> {
        match &self.marks {
            Some(marks) => marks.with(|bits| {
                keys.for_each(|key| bits.insert(key));
                Ok(())
            }),
            None => {
                self.list.extend(keys);
                Ok(())
            }
        }
    }

    fn into_texts(mut self) -> Result<TextMembers> {
        for (fragment, codes) in self.snapshot.fragments().iter().zip(&self.codes) {
            self.control.check()?;
            if let Values::Text(column) = fragment.column(self.slot).values()
                && let Some(column) = column.codes()
            {
                for_each(codes, |code| {
                    let text = column.entries.get(code);
                    let bytes = owned_bytes(&text);
                    self.text_bytes += if self.texts.insert(text) { bytes } else { 0 };
                });
            }
        }
        let bytes: usize = self.texts.iter().map(|text| text.len() + size_of::<Box<str>>()).sum();
        self.held.set(self.texts.allocation_size() + self.text_bytes + bytes)?;
        Ok(self.texts.iter().map(|text| Box::from(&**text)).collect())
    }

    fn into_sip(mut self, data_type: DataType) -> Result<Sip> {
        for (fragment, codes) in self.snapshot.fragments().iter().zip(std::mem::take(&mut self.codes)) {
            self.control.check()?;
            if let Values::Keys(column) = fragment.column(self.slot).values()
                && let Some(column) = column.codes()
            {
                let mut keys = Vec::new();
                for_each(&codes, |code| keys.push(column.entries[code]));
                self.add(keys.into_iter())?;
            }
        }
        let id = |key: i64| {
            if data_type == DataType::UInt64 { keys::to_u64(key) } else { key.cast_unsigned() }
        };
        if let Some(marks) = self.marks {
            let bits = marks.into_bits()?;
            // Negative keys come last as ids.
            let from = |key: i64| {
                bits.blocks()
                    .map(move |(first, words)| (id(first), words))
                    .filter(move |(base, _)| (*base >= 1 << 63) == (key < 0))
            };
            return Ok(Sip::from_masks(from(0).chain(from(-1))));
        }
        sort(&mut self.list);
        self.held.set(16 * self.list.len())?;
        let mut ids: Vec<u64> = self.list.into_iter().map(id).collect();
        ids.sort();
        Ok(Sip::from_sorted_ids(&ids))
    }
}

/// Entries of a column that has codes.
fn code_count(column: &Column) -> usize {
    let entries = match column.values() {
        Values::Keys(keys) => keys.codes().map(|codes| codes.entries.len()),
        Values::Text(texts) => texts.codes().map(|codes| codes.entries.rows()),
    };
    entries.invariant("codes are counted of columns that have them")
}

/// A bit for each of `n` codes, set for some.
fn marked(n: usize, codes: impl Iterator<Item = i64>) -> Vec<u64> {
    let mut words = vec![0; n.div_ceil(64)];
    codes.for_each(|code| mark(&mut words, code));
    words
}

fn mark(words: &mut [u64], code: i64) {
    let code = index(code.cast_unsigned());
    words[code / 64] |= 1 << (code % 64);
}

fn sort(list: &mut Vec<i64>) {
    // Each block's keys are sorted, and this sort makes use of it.
    list.sort();
    list.dedup();
}

/// The values that a block selects; keys without codes are marked where there are marks.
fn block_part<'a>(
    block: Block<'a>,
    mut mask: Mask,
    slot: usize,
    marks: Option<&Marks<'_>>,
) -> Result<Part<'a>> {
    let column = block.fragment.column(slot);
    let mut part = Part::default();
    if column.zones()[block.block].nulls > 0 {
        let valid = column.validity_mask(block.block);
        part.has_null = !mask.clone().and_not(&valid, block.rows()).is_empty();
        mask = mask.and(&valid);
    }
    let codes = match column.values() {
        Values::Keys(keys) => keys.codes().map(|codes| codes.codes),
        Values::Text(texts) => texts.codes().map(|codes| codes.codes),
    };
    match (codes, column.keys(), marks) {
        (Some(codes), ..) => {
            part.codes = marked(code_count(column), [].into_iter());
            each_key(block, &mask, codes, |code| mark(&mut part.codes, code))?;
        }
        (None, Some(keys), Some(marks)) => {
            marks.with(|bits| each_key(block, &mask, keys, |key| bits.insert(key)))?;
        }
        (None, Some(keys), None) => {
            each_key(block, &mask, keys, |key| part.list.push(key))?;
            sort(&mut part.list);
        }
        (None, None, _) => return texts_of(block, &mask, column, part),
    }
    Ok(part)
}

/// Calls `work` with the keys that a mask selects, equal ones in a row once.
fn each_key(block: Block<'_>, mask: &Mask, keys: &dyn KeyColumn, mut work: impl FnMut(i64)) -> Result<()> {
    let mut batch_keys = vec![0; BATCH_ROWS];
    let mut last = None;
    block.for_each_batch(mask, |batch| {
        keys.decode(batch.first_row(), &mut batch_keys[..batch.rows()]);
        for_each(batch.selected(), |row| {
            let key = batch_keys[row];
            if last.replace(key) != Some(key) {
                work(key);
            }
        });
        Ok(())
    })
}

/// The texts without codes that a block selects.
fn texts_of<'a>(block: Block<'a>, mask: &Mask, column: &'a Column, mut part: Part<'a>) -> Result<Part<'a>> {
    let Values::Text(texts) = column.values() else { return Ok(part) };
    block.for_each_batch(mask, |batch| {
        let values = texts.decode(batch.first_row(), batch.rows(), Some(batch.selected()));
        for_each(batch.selected(), |row| {
            part.texts.get_or_insert_with(values.get(row), |_| values.keep(row));
        });
        Ok(())
    })?;
    Ok(part)
}
