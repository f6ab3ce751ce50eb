//! The texts of a column of many fragments, each once and in order, and how those of a fragment are numbered by them.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

use super::{
    control::{Control, Held},
    short_texts::ShortTexts,
    sorted_items::{Item, sort},
    text_form::{Form, Sample, Used},
};
use crate::{
    encoding::TextColumn,
    error::Result,
    fragment::{Column, Values},
    invariant::{Invariant, broken, count, index},
    limits::BATCH_ROWS,
    mask::selects,
};

/// The entries of a dictionary of texts.
pub(super) fn entries_of(column: &Column) -> Option<&dyn TextColumn> {
    match column.values() {
        Values::Text(texts) => texts.codes().map(|codes| codes.entries),
        Values::Keys(_) => None,
    }
}

/// Distinct texts in their order.
#[derive(Debug, Default)]
pub(super) struct SortedTexts {
    bytes: String,
    /// Where each ends.
    ends: Vec<usize>,
    /// Bytes of the longest.
    longest: usize,
}

impl SortedTexts {
    /// The text at a place.
    pub(super) fn get(&self, at: usize) -> &str {
        // Default: the first begins at 0.
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes held.
    pub(super) fn size(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// Bytes of the longest.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Appends texts, as long as the query goes on.
    pub(super) fn extend<'t>(
        &mut self,
        texts: impl Iterator<Item = &'t str>,
        control: &Control,
    ) -> Result<()> {
        for (at, text) in texts.enumerate() {
            if at.is_multiple_of(MERGED) {
                control.check()?;
            }
            self.push(text);
        }
        Ok(())
    }

    pub(super) fn push(&mut self, text: &str) {
        self.longest = self.longest.max(text.len());
        self.bytes.push_str(text);
        self.ends.push(self.bytes.len());
    }
}

impl<'t> FromIterator<&'t str> for SortedTexts {
    fn from_iter<T: IntoIterator<Item = &'t str>>(texts: T) -> Self {
        let mut all = Self::default();
        texts.into_iter().for_each(|text| all.push(text));
        all
    }
}

/// How a fragment's texts are numbered.
#[derive(Clone, Debug)]
pub(super) enum Map {
    /// By their codes.
    Same,
    /// The number of each code.
    Codes(Vec<u32>),
    /// The number of each row; any where it is null.
    Rows(Vec<u32>),
}

impl Map {
    fn bytes(&self) -> usize {
        match self {
            Self::Same => 0,
            Self::Codes(numbers) | Self::Rows(numbers) => size_of_val(numbers.as_slice()),
        }
    }
}

/// Bytes of texts that are merged between two looks at whether the query goes on, about.
const MERGED: usize = 1 << 16;

/// Where texts have gone, by their places; none where they have stayed.
type Moved = Option<Vec<u32>>;

/// All texts of some dictionaries, and for each dictionary the places of its texts; none where they are its codes.
pub(super) fn merged(
    dictionaries: &[&dyn TextColumn],
    control: &Control,
    held: &mut Held<'_>,
) -> Result<(SortedTexts, Vec<Map>)> {
    let mut all = SortedTexts::default();
    // Of the texts before each dictionary, and of its own.
    let mut moves: Vec<(Moved, Moved)> = Vec::with_capacity(dictionaries.len());
    let mut last: Option<(&[u8], usize)> = None;
    let before = held.bytes();
    let mut kept = 0;
    for dictionary in dictionaries {
        control.check()?;
        let encoded = dictionary.buffer().as_slice();
        // Equal dictionaries are the rule.
        if let Some((bytes, at)) = last
            && bytes == encoded
        {
            let own = moves[at].1.clone();
            kept += own.iter().map(|own| size_of_val(own.as_slice())).sum::<usize>();
            moves.push((None, own));
            continue;
        }
        let own = dictionary.decode(0, dictionary.rows(), None);
        let decoded = dictionary.rows() * size_of::<std::ops::Range<usize>>() + all.size();
        held.set(before + kept + 2 * all.size() + decoded)?;
        let mut union = SortedTexts::default();
        let (mut of_all, mut of_own) = (Vec::with_capacity(all.len()), Vec::with_capacity(own.len()));
        let (mut a, mut b) = (0, 0);
        while a < all.len() || b < own.len() {
            if (a + b).is_multiple_of(MERGED) {
                control.check()?;
            }
            let place = count(union.len());
            let order = match (a < all.len(), b < own.len()) {
                (true, true) => all.get(a).cmp(own.get(b)),
                (true, false) => std::cmp::Ordering::Less,
                (false, _) => std::cmp::Ordering::Greater,
            };
            union.push(if order.is_le() { all.get(a) } else { own.get(b) });
            if order.is_le() {
                of_all.push(place);
                a += 1;
            }
            if order.is_ge() {
                of_own.push(place);
                b += 1;
            }
        }
        let stayed = |moved: Vec<u32>| (moved.len() != union.len()).then_some(moved);
        let (of_all, of_own) = (stayed(of_all), stayed(of_own));
        kept += [&of_all, &of_own]
            .into_iter()
            .flatten()
            .map(|moved| size_of_val(moved.as_slice()))
            .sum::<usize>();
        last = Some((encoded, moves.len()));
        moves.push((of_all, of_own));
        all = union;
        held.set(before + kept + all.size())?;
    }
    // Where the texts of all dictionaries up to one have gone in the end.
    let mut later: Moved = None;
    let mut maps = Vec::with_capacity(moves.len());
    for (of_all, of_own) in moves.into_iter().rev() {
        let to = |moved: Moved| match (moved, &later) {
            (Some(moved), Some(later)) => Some(moved.iter().map(|place| later[*place as usize]).collect()),
            (moved, later) => moved.or_else(|| later.clone()),
        };
        maps.push(to(of_own).map_or(Map::Same, Map::Codes));
        later = to(of_all);
    }
    maps.reverse();
    held.set(before + maps.iter().map(Map::bytes).sum::<usize>() + all.size())?;
    Ok((all, maps))
}

/// Half of a hash as a whole one, whose first bits a hash table takes as well as its last.
fn spread(half: u32) -> u64 {
    u64::from(half).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// All texts of columns of which some have no dictionary. Those of one form have their numbers by it; each other row's text is
/// looked up once.
pub(super) fn hashed(
    columns: &[&Column],
    control: &Control,
    held: &mut Held<'_>,
) -> Result<(SortedTexts, Vec<Map>)> {
    let form = sampled(columns, control)?;
    // Default: without a form all are looked up.
    let (size, of_form) = form.as_ref().map_or((0, 0), |form| (form.size(), form.held_bytes()));
    let behind = |id: u32| size.checked_add(id).invariant("the limits keep counts below 2^32");
    let mut all = SortedTexts::default();
    let hasher = DefaultHashBuilder::default();
    // With half of its hash: most others are no candidates by it, and as the table grows no text is read again.
    let mut table: HashTable<(u32, u32)> = HashTable::new();
    let mut id = |text: &str, all: &mut SortedTexts| {
        let [a, b, c, d, ..] = hasher.hash_one(text).to_be_bytes();
        let half = u32::from_be_bytes([a, b, c, d]);
        let is = |(of, id): &(u32, u32)| *of == half && all.get(*id as usize) == text;
        match table.entry(spread(half), is, |(of, _)| spread(*of)) {
            Entry::Occupied(entry) => entry.get().1,
            Entry::Vacant(entry) => {
                let new = count(all.len());
                entry.insert((half, new));
                all.push(text);
                new
            }
        }
    };
    let mut short = ShortTexts::new();
    let before = held.bytes() + of_form;
    held.set(before)?;
    let mut used = form.map(Used::new);
    let mut maps: Vec<Map> = Vec::with_capacity(columns.len());
    let mut kept = 0;
    for column in columns {
        let (texts, is_dictionary) = looked_up(column);
        let mut numbers: Vec<u32> = vec![0; texts.rows()];
        for start in (0..texts.rows()).step_by(BATCH_ROWS) {
            control.check()?;
            // The hash table and what holds the texts may be half empty, and are there twice while they grow.
            let found = 2 * (all.size() + all.len() * HASHED);
            let rows = (texts.rows() - start).min(BATCH_ROWS);
            held.set(before + kept + texts.rows() * size_of::<u32>() + found + short.bytes(rows))?;
            let valid = if is_dictionary { None } else { column.validity_words(start, rows) };
            let batch = texts.decode(start, rows, valid.as_deref());
            for row in (0..rows).filter(|row| selects(valid.as_deref(), *row)) {
                let text = batch.get(row);
                if let Some(number) = used.as_mut().and_then(|used| used.add(text)) {
                    numbers[start + row] = number;
                } else if !short.add(text, count(start + row)) {
                    numbers[start + row] = behind(id(text, &mut all));
                }
            }
        }
        // At worst all are new.
        held.set(held.bytes() + short.rows() * SHORT)?;
        let new = |text: &str| {
            all.push(text);
            count(all.len() - 1)
        };
        short.look_up(control, new, |row, number| numbers[row as usize] = behind(number))?;
        maps.push(if is_dictionary { Map::Codes(numbers) } else { Map::Rows(numbers) });
        kept = maps.iter().map(Map::bytes).sum();
    }
    drop((table, short));
    control.check()?;
    // Default: without a form there are no others.
    let formed = used.as_ref().map_or(0, Used::sorted_bytes);
    held.set(before + kept + 3 * all.size() + all.len() * (SORTED + 2 * size_of::<u32>()) + formed)?;
    let order = sorted(&all, control)?;
    let mut places = vec![0; all.len()];
    (0..).zip(&order).for_each(|(place, id)| places[*id as usize] = place);
    let mut others = order.iter().map(|id| all.get(*id as usize));
    let (in_order, ranks) = match used {
        Some(used) => {
            let (in_order, ranks) = used.sorted(others, control)?;
            (in_order, Some(ranks))
        }
        None => {
            let mut in_order = SortedTexts::default();
            in_order.extend(&mut others, control)?;
            (in_order, None)
        }
    };
    // Default: where there are no texts, all rows are null.
    let place = |other: u32| places.get(other as usize).copied().unwrap_or(0);
    for map in &mut maps {
        let (Map::Codes(numbers) | Map::Rows(numbers)) = map else { continue };
        for numbers in numbers.chunks_mut(MERGED) {
            control.check()?;
            match &ranks {
                None => numbers.iter_mut().for_each(|id| *id = place(*id)),
                Some(ranks) => numbers.iter_mut().for_each(|number| {
                    *number = match number.checked_sub(size) {
                        None => ranks.of(*number),
                        Some(other) => ranks.of(size + place(other)),
                    }
                }),
            }
        }
    }
    let all = in_order;
    held.set(before - of_form + kept + all.size())?;
    Ok((all, maps))
}

/// What is looked up of a column: its texts, or those of its dictionary.
fn looked_up(column: &Column) -> (&dyn TextColumn, bool) {
    let Values::Text(texts) = column.values() else { broken("a key of texts is a column of texts") };
    match entries_of(column) {
        Some(entries) => (entries, true),
        // Without a dictionary every row has a text of its own.
        None => (texts.as_ref(), false),
    }
}

/// Batches of a column that say of which form its texts are.
const SAMPLED: usize = 4;
/// Columns that say it.
const SAMPLED_COLUMNS: usize = 16;

/// The form that a sample of the texts has.
fn sampled(columns: &[&Column], control: &Control) -> Result<Option<Form>> {
    let all = columns.iter().map(|column| looked_up(column).0.rows()).sum();
    let mut sample = Sample::default();
    for column in columns.iter().step_by(columns.len().div_ceil(SAMPLED_COLUMNS).max(1)) {
        control.check()?;
        let (texts, is_dictionary) = looked_up(column);
        let batches = texts.rows().div_ceil(BATCH_ROWS);
        for batch in (0..batches).step_by(batches.div_ceil(SAMPLED).max(1)) {
            let start = batch * BATCH_ROWS;
            let rows = (texts.rows() - start).min(BATCH_ROWS);
            let valid = if is_dictionary { None } else { column.validity_words(start, rows) };
            let batch = texts.decode(start, rows, valid.as_deref());
            let mut selected = (0..rows).filter(|row| selects(valid.as_deref(), *row));
            if !selected.all(|row| sample.add(batch.get(row))) {
                return Ok(None);
            }
        }
    }
    Ok(Form::of(&sample, all))
}

/// Bytes of a short text that is new, and of its place in a hash table, which may be half empty and there twice.
const SHORT: usize = 4 * (size_of::<u128>() + size_of::<usize>() + size_of::<(u128, u32)>());
/// Bytes of a text's place in a hash table.
const HASHED: usize = size_of::<(u32, u32)>() + 1;
/// Bytes of a text while texts are sorted.
const SORTED: usize = 2 * size_of::<Item>();

/// Texts that are compared by all their bytes.
const COMPARED: usize = 1 << 12;
/// How often texts that begin alike are sorted by what follows, at most, before they are compared.
const STEPS: usize = 16;

/// The places of texts in their order.
fn sorted(texts: &SortedTexts, control: &Control) -> Result<Vec<u32>> {
    let mut items: Vec<Item> = (0..texts.len() as u64).map(|at| (0, at)).collect();
    let mut others = vec![(0, 0); items.len()];
    sort_texts(texts, &mut items, &mut others, STEPS, control)?;
    Ok(items.into_iter().map(|(_, at)| count(index(at))).collect())
}

/// Sorts items by the texts at their places: by the bytes behind what all begin with, then those that are alike by what
/// follows.
fn sort_texts(
    texts: &SortedTexts,
    items: &mut [Item],
    others: &mut [Item],
    steps: usize,
    control: &Control,
) -> Result<()> {
    let bytes = |item: &Item| texts.get(index(item.1)).as_bytes();
    let [first, ..] = items else { return Ok(()) };
    let first = bytes(first);
    let mut common = first.len();
    for items in items.chunks(BATCH_ROWS) {
        control.check()?;
        for item in items {
            common = first[..common].iter().zip(bytes(item)).take_while(|(a, b)| a == b).count();
        }
    }
    for items in items.chunks_mut(BATCH_ROWS) {
        control.check()?;
        for item in items {
            let mut key = [0; 8];
            key.iter_mut().zip(&bytes(item)[common..]).for_each(|(key, byte)| *key = *byte);
            item.0 = u64::from_be_bytes(key);
        }
    }
    sort(items, others, control)?;
    let mut rest = (items, others);
    let mut compared = 0;
    while let Some((number, _)) = rest.0.first() {
        let alike = rest.0.iter().take_while(|(other, _)| other == number).count();
        let (items, others);
        ((items, rest.0), (others, rest.1)) = (rest.0.split_at_mut(alike), rest.1.split_at_mut(alike));
        if alike > COMPARED && steps > 0 {
            sort_texts(texts, items, others, steps - 1, control)?;
        } else if alike > 1 {
            compared += alike;
            if compared > COMPARED {
                control.check()?;
                compared = 0;
            }
            items.sort_unstable_by(|a, b| bytes(a).cmp(bytes(b)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn texts_are_sorted_however_they_begin() {
        let mut rng = StdRng::seed_from_u64(5);
        for prefix in ["", "all begin with it: "] {
            for alike in [0, 3, 8, 200] {
                let mut text = |at: usize| {
                    let tail = ["", "\0", "\0\0", "\u{7f}é"][rng.random_range(0..4)];
                    let number = rng.random_range(0..1_u32 << 20);
                    let group = if at.is_multiple_of(3) { "x" } else { "y" };
                    format!("{prefix}{}{number:x}{tail}", group.repeat(alike))
                };
                let distinct: hashbrown::HashSet<String> = (0..20_000).map(&mut text).collect();
                let texts: SortedTexts = distinct.iter().map(String::as_str).collect();
                let order = sorted(&texts, &Control::default()).unwrap();
                let found: Vec<&str> = order.iter().map(|at| texts.get(*at as usize)).collect();
                let mut expected: Vec<&str> = distinct.iter().map(String::as_str).collect();
                expected.sort_unstable();
                assert!(found == expected, "{prefix:?} {alike}");
            }
        }
        assert!(sorted(&SortedTexts::default(), &Control::default()).unwrap().is_empty());
    }

    #[test]
    fn a_sort_of_texts_ends_with_its_query() {
        let names: Vec<String> = (0..10_000).map(|at| format!("{at}")).collect();
        let texts: SortedTexts = names.iter().map(String::as_str).collect();
        let control = Control::default();
        control.cancel();
        assert!(sorted(&texts, &control).is_err());
    }
}
