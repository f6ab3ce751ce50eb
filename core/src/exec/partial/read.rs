//! Groups from bytes, which may be anything.

use std::borrow::Cow;

use basalt_sip::{Limits, Sip};

use super::{
    super::{
        Held,
        aggregate::FragmentSum,
        distinct::Distinct,
        group_keys::{KeyTable, Partial},
        groups::Groups,
        source::Texts,
        totals::Totals,
    },
    FORMAT,
    bytes::Reader,
    corrupt, key_of,
    layout::{Column, Layout, Of, Owner},
};
use crate::{
    error::Result,
    invariant::{count, index},
    keys::Native,
    limits::{MAX_PART_BYTES, SET_KEYS},
    schema::DataType,
};

/// Groups of a part.
pub(super) struct Part<'b> {
    pub(super) groups: Partial<'b>,
    /// For each argument, the sums of fragments; the groups are those of the part.
    pub(super) sums: Vec<Vec<FragmentSum>>,
}

/// Reads a part of `groups`; sums are of some of `fragments`, which ascend. `held` counts its memory.
pub(super) fn read<'b>(
    bytes: &'b [u8],
    layout: &Layout,
    groups: &Groups<'_>,
    fragments: &[u32],
    held: &mut Held<'_>,
) -> Result<Part<'b>> {
    if bytes.len() > MAX_PART_BYTES {
        return Err(corrupt("it is too large"));
    }
    let mut reader = Reader::new(bytes);
    if reader.array()? != [FORMAT] {
        return Err(corrupt("it is of another format"));
    }
    // Every group has a byte in every column.
    let n = index(reader.number()?);
    if n > bytes.len() {
        return Err(corrupt("it has an impossible number of groups"));
    }
    held.set(bytes.len() + n * layout.columns.len() * size_of::<i128>())?;
    let mut tables = Vec::with_capacity(layout.tables.len());
    for _ in &layout.tables {
        tables.push(texts(&mut reader)?);
    }
    let arguments = groups.arguments.all.len();
    let mut keys: Vec<Vec<Option<i64>>> = Vec::with_capacity(groups.key_types.len());
    let mut rows = Totals::of_counts(vec![0; n]);
    let mut totals: Vec<Totals<'b>> = (0..arguments).map(|_| Totals::default()).collect();
    let mut sums: Vec<Vec<FragmentSum>> = vec![Vec::new(); arguments];
    for column in &layout.columns {
        let mut reader = Reader::new(reader.bytes()?);
        if reader.left() < n {
            return Err(corrupt("a column is too short"));
        }
        let codes = |of: &Of| {
            of.argument.and_then(|a| layout.table(Owner::Argument(a))).map(|table| tables[table].len())
        };
        let data_type = |of: &Of| of.argument.and_then(|a| groups.arguments.all[a].data_type);
        match column {
            Column::Key(key) => {
                let codes = layout.table(Owner::Key(*key)).map(|table| tables[table].len());
                keys.push(group_keys(&mut reader, n, codes, groups.key_types[*key])?);
            }
            Column::Count(of) => {
                let counts = (0..n).map(|_| reader.number()).collect::<Result<_>>()?;
                of.argument.map_or(&mut rows, |a| &mut totals[a]).counts = counts;
            }
            Column::Ints(Of { argument: Some(a), .. }) => {
                totals[*a].ints = (0..n).map(|_| reader.signed()).collect::<Result<_>>()?;
            }
            Column::Floats(Of { argument: Some(a), .. }) => {
                totals[*a].floats = vec![0.0; n];
                sums[*a] = fragment_sums(&mut reader, n, fragments)?;
            }
            Column::Min(of @ Of { argument: Some(a), .. }) => {
                let least = extremes(&mut reader, &totals[*a].counts, codes(of), data_type(of))?;
                totals[*a].extremes = least.into_iter().map(|key| (key, key)).collect();
            }
            Column::Max(of @ Of { argument: Some(a), .. }) => {
                let greatest = extremes(&mut reader, &totals[*a].counts, codes(of), data_type(of))?;
                let known = &mut totals[*a].extremes;
                match known.as_mut_slice() {
                    [] => known.extend(greatest.into_iter().map(|key| (key, key))),
                    known => known.iter_mut().zip(greatest).for_each(|(known, key)| known.1 = key),
                }
            }
            Column::Set(of @ Of { argument: Some(a), .. }) => {
                totals[*a].sets = (0..n).map(|_| set(&mut reader, codes(of), held)).collect::<Result<_>>()?;
            }
            _ => return Err(corrupt("a column has no argument")),
        }
        reader.end()?;
    }
    reader.end()?;
    let mut table = KeyTable::new(keys.len(), None);
    let mut key = vec![None; keys.len()];
    for group in 0..n {
        key.iter_mut().zip(&keys).for_each(|(key, column)| *key = column[group]);
        table.push(&key);
    }
    let mut key_texts: Vec<Option<Texts<'b>>> = keys.iter().map(|_| None).collect();
    for (owner, texts) in layout.tables.iter().zip(tables) {
        let of = match owner {
            Owner::Key(key) => &mut key_texts[*key],
            Owner::Argument(argument) => &mut totals[*argument].texts,
        };
        *of = Some(Texts::Block(texts));
    }
    Ok(Part { groups: Partial { keys: table, key_texts, rows, totals }, sums })
}

/// A table of texts.
fn texts<'b>(reader: &mut Reader<'b>) -> Result<Vec<Cow<'b, str>>> {
    let n = index(reader.number()?);
    let mut reader = Reader::new(reader.bytes()?);
    if n > reader.left() {
        return Err(corrupt("a table of texts is too short"));
    }
    let mut texts = Vec::with_capacity(n);
    for _ in 0..n {
        let text = std::str::from_utf8(reader.bytes()?).map_err(|_| corrupt("a text is not UTF-8"))?;
        texts.push(Cow::Borrowed(text));
    }
    reader.end()?;
    Ok(texts)
}

/// Keys of groups, of texts as codes of `codes` of them.
fn group_keys(
    reader: &mut Reader<'_>,
    n: usize,
    codes: Option<usize>,
    data_type: DataType,
) -> Result<Vec<Option<i64>>> {
    let mut last = 0;
    let mut one = || -> Result<Option<i64>> {
        if let Some(codes) = codes {
            return reader.number()?.checked_sub(1).map(|code| known(code, codes)).transpose();
        }
        let difference = match reader.signed()? {
            0 => return Ok(None),
            above if above > 0 => above - 1,
            below => below,
        };
        let key = i128::from(last).checked_add(difference).and_then(|key| i64::try_from(key).ok());
        last = in_range(key.ok_or_else(|| corrupt("a key is out of range"))?, Some(data_type))?;
        Ok(Some(last))
    };
    (0..n).map(|_| one()).collect()
}

/// The least or the greatest keys, where there are rows.
fn extremes(
    reader: &mut Reader<'_>,
    counts: &[u64],
    codes: Option<usize>,
    data_type: Option<DataType>,
) -> Result<Vec<i64>> {
    let one = |rows: &u64| -> Result<i64> {
        match codes {
            Some(codes) => {
                let code = reader.number()?;
                if *rows == 0 { Ok(0) } else { known(code, codes) }
            }
            None => {
                let key = i64::try_from(reader.signed()?).map_err(|_| corrupt("a key is out of range"))?;
                if *rows == 0 { Ok(0) } else { in_range(key, data_type) }
            }
        }
    };
    counts.iter().map(one).collect()
}

/// Sums of floats in some of `fragments`.
fn fragment_sums(reader: &mut Reader<'_>, n: usize, fragments: &[u32]) -> Result<Vec<FragmentSum>> {
    let mut sums = Vec::new();
    for group in 0..count(n) {
        let mut last = None;
        for _ in 0..reader.number()? {
            // Default: the first is a number of its own, the others are differences. A sum that is too large is no fragment.
            let fragment = reader.number()?.saturating_add(last.unwrap_or(0));
            let id = u32::try_from(fragment).ok().filter(|id| fragments.binary_search(id).is_ok());
            if last.replace(fragment).is_some_and(|last| last >= fragment) {
                return Err(corrupt("the fragments do not ascend"));
            }
            let fragment = id.ok_or_else(|| corrupt("it has a fragment that was not asked for"))?;
            sums.push(FragmentSum { group, fragment, sum: f64::from_le_bytes(reader.array()?) });
        }
    }
    Ok(sums)
}

/// Some distinct keys.
fn set(reader: &mut Reader<'_>, codes: Option<usize>, held: &mut Held<'_>) -> Result<Distinct> {
    let bytes = reader.bytes()?;
    let mut set = Distinct::default();
    if bytes.is_empty() {
        return Ok(set);
    }
    let limits = Limits { cardinality: SET_KEYS as u64, ..Limits::default() };
    let sip = Sip::from_bytes(bytes, &limits).map_err(|e| corrupt(&format!("a set is malformed: {e}")))?;
    match codes {
        Some(codes) => {
            if sip.last().is_some_and(|last| last >= codes as u64) {
                return Err(corrupt("a text is missing"));
            }
            sip.iter().for_each(|code| set.insert(code.cast_signed()));
        }
        None => sip.iter().for_each(|id| set.insert(key_of(id))),
    }
    held.set(held.bytes() + set.bytes())?;
    Ok(set)
}

/// The code of one of `codes` texts.
fn known(code: u64, codes: usize) -> Result<i64> {
    let missing = || corrupt("a text is missing");
    if code < codes as u64 { i64::try_from(code).map_err(|_| missing()) } else { Err(missing()) }
}

/// A key that a value of the type has.
fn in_range(key: i64, data_type: Option<DataType>) -> Result<i64> {
    let range = data_type.and_then(Native::of).map(Native::key_range);
    match range {
        Some((least, greatest)) if (least..=greatest).contains(&key) => Ok(key),
        _ => Err(corrupt("a key is out of range")),
    }
}
