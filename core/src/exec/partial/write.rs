//! Groups to bytes.

use basalt_sip::Sip;

use super::{
    super::{Control, Held, aggregate::FragmentSum, group_keys::Interner, groups::Groups},
    FORMAT,
    bytes::{put, put_bytes, put_signed},
    id_of,
    layout::{Column, Layout, Owner},
};
use crate::{
    error::{Error, ErrorKind, Result},
    invariant::{count, index},
    limits::{MAX_PART_BYTES, PART_BYTES, SET_KEYS},
};

/// Hands groups out in parts of about [`PART_BYTES`].
pub(super) fn write(
    groups: &mut Groups<'_>,
    control: &Control,
    sink: &mut dyn FnMut(Vec<u8>) -> Result<()>,
) -> Result<()> {
    let layout = Layout::of(groups);
    for column in &layout.columns {
        if let Column::Floats(of) = column {
            groups.states[of.state].sort_sums();
        }
    }
    let groups = &*groups;
    let mut part = Part::new(&layout, groups);
    let mut sets = Sets::new(&layout, groups, control);
    for group in 0..groups.len() {
        if group % 1024 == 0 {
            control.check()?;
        }
        sets.turn(group)?;
        let mut first = true;
        // Further entries of a group have more of its sets.
        while first || sets.are_left() {
            part.push(group, first, &mut sets)?;
            first = false;
            if part.bytes() >= PART_BYTES {
                control.check()?;
                sink(part.take()?)?;
            }
        }
    }
    if part.groups > 0 { sink(part.take()?) } else { Ok(()) }
}

/// A part on its way.
struct Part<'g> {
    layout: &'g Layout,
    from: &'g Groups<'g>,
    groups: u64,
    tables: Vec<Table<'g>>,
    columns: Vec<Vec<u8>>,
    /// For each column of keys, the key before; for each of sums, the place of the next.
    last: Vec<i64>,
    next_sum: Vec<usize>,
}

impl<'g> Part<'g> {
    fn new(layout: &'g Layout, from: &'g Groups<'g>) -> Self {
        let table = |owner: &Owner| match owner {
            Owner::Key(key) => Table::new(&from.key_texts[*key]),
            Owner::Argument(argument) => Table::new(&from.texts[*argument]),
        };
        Self {
            layout,
            from,
            groups: 0,
            tables: layout.tables.iter().map(table).collect(),
            columns: vec![Vec::new(); layout.columns.len()],
            last: vec![0; layout.columns.len()],
            next_sum: vec![0; layout.columns.len()],
        }
    }

    fn bytes(&self) -> usize {
        let tables: usize = self.tables.iter().map(|table| table.bytes.len()).sum();
        tables + self.columns.iter().map(Vec::len).sum::<usize>()
    }

    /// Appends an entry of a group: all of it when it is the `first`, and the next of its sets' keys.
    fn push(&mut self, group: usize, first: bool, sets: &mut Sets<'_>) -> Result<()> {
        self.groups += 1;
        for (at, column) in self.layout.columns.iter().enumerate() {
            let out = &mut self.columns[at];
            match *column {
                Column::Key(key) => {
                    let value = self.from.keys.part(group, key);
                    match (value, self.layout.table(Owner::Key(key))) {
                        (None, _) => put(out, 0),
                        (Some(id), Some(table)) => put(out, 1 + self.tables[table].code(id)),
                        (Some(key), None) => {
                            let last = std::mem::replace(&mut self.last[at], key);
                            let difference = i128::from(key) - i128::from(last);
                            // 0 is null.
                            put_signed(out, difference + i128::from(difference >= 0));
                        }
                    }
                }
                Column::Count(of) => {
                    put(out, if first { self.from.states[of.state].counts()[group] } else { 0 });
                }
                Column::Ints(of) => {
                    put_signed(out, if first { self.from.states[of.state].ints()[group] } else { 0 });
                }
                Column::Floats(of) => {
                    let sums = self.from.states[of.state].sums();
                    let rest = &sums[self.next_sum[at]..];
                    let n = rest.iter().take_while(|sum| sum.group as usize == group).count();
                    put(out, n as u64);
                    let mut last = 0;
                    for FragmentSum { fragment, sum, .. } in &rest[..n] {
                        put(out, (fragment - std::mem::replace(&mut last, *fragment)).into());
                        out.extend_from_slice(&sum.to_le_bytes());
                    }
                    self.next_sum[at] += n;
                }
                Column::Min(of) | Column::Max(of) => {
                    let state = &self.from.states[of.state];
                    let table = of.argument.and_then(|a| self.layout.table(Owner::Argument(a)));
                    match (first && state.counts()[group] > 0, table) {
                        (false, _) => put(out, 0),
                        (true, Some(table)) => put(out, self.tables[table].code(state.keys()[group])),
                        (true, None) => put_signed(out, state.keys()[group].into()),
                    }
                }
                Column::Set(of) => {
                    let table = of.argument.and_then(|a| self.layout.table(Owner::Argument(a)));
                    let ids = sets.next(at, table.map(|table| &mut self.tables[table]));
                    let sip = if ids.is_empty() { None } else { Some(Sip::from_sorted_ids(&ids)) };
                    put_bytes(out, sip.as_ref().map_or(&[], Sip::as_bytes));
                }
            }
        }
        Ok(())
    }

    /// The bytes of the part, and a new one begins.
    fn take(&mut self) -> Result<Vec<u8>> {
        let mut out = vec![FORMAT];
        put(&mut out, std::mem::take(&mut self.groups));
        for table in &mut self.tables {
            put(&mut out, table.used.len() as u64);
            put_bytes(&mut out, &table.take());
        }
        for column in &mut self.columns {
            put_bytes(&mut out, column);
            column.clear();
        }
        self.last.fill(0);
        if out.len() > MAX_PART_BYTES {
            let message = format!("a group takes more than {MAX_PART_BYTES} bytes");
            return Err(Error::new(ErrorKind::MemoryLimit, message));
        }
        Ok(out)
    }
}

/// The texts of a part, each once.
struct Table<'g> {
    interner: &'g Interner,
    /// The code of each interned text in this part; [`NONE`] of the others.
    codes: Vec<u32>,
    used: Vec<i64>,
    bytes: Vec<u8>,
}

const NONE: u32 = u32::MAX;

impl<'g> Table<'g> {
    fn new(interner: &'g Interner) -> Self {
        Self { interner, codes: vec![NONE; interner.len()], used: Vec::new(), bytes: Vec::new() }
    }

    /// The code of an interned text.
    fn code(&mut self, id: i64) -> u64 {
        let code = &mut self.codes[place(id)];
        if *code == NONE {
            *code = count(self.used.len());
            self.used.push(id);
            put_bytes(&mut self.bytes, self.interner.text(id).as_bytes());
        }
        (*code).into()
    }

    /// The texts' bytes, and none are left.
    fn take(&mut self) -> Vec<u8> {
        self.used.drain(..).for_each(|id| self.codes[place(id)] = NONE);
        std::mem::take(&mut self.bytes)
    }
}

fn place(id: i64) -> usize {
    index(id.cast_unsigned())
}

/// The keys of one group's sets that are still to be written.
struct Sets<'g> {
    layout: &'g Layout,
    from: &'g Groups<'g>,
    /// For each column of sets: sorted keys, and how many are written.
    keys: Vec<(Vec<i64>, usize)>,
    held: Held<'g>,
}

impl<'g> Sets<'g> {
    fn new(layout: &'g Layout, from: &'g Groups<'g>, control: &'g Control) -> Self {
        let keys = vec![(Vec::new(), 0); layout.columns.len()];
        Self { layout, from, keys, held: Held::new(control) }
    }

    /// Turns to another group.
    fn turn(&mut self, group: usize) -> Result<()> {
        for (column, (keys, written)) in self.layout.columns.iter().zip(&mut self.keys) {
            let Column::Set(of) = column else { continue };
            let set = &self.from.states[of.state].sets()[group];
            (*keys, *written) = (Vec::new(), 0);
            let n = index(set.len());
            self.held.set(n.saturating_mul(size_of::<i64>()))?;
            keys.reserve_exact(n);
            set.for_each(|key| keys.push(key));
            keys.sort_unstable();
        }
        Ok(())
    }

    /// Whether there are keys that no entry has.
    fn are_left(&self) -> bool {
        self.keys.iter().any(|(keys, written)| *written < keys.len())
    }

    /// The ids of the next keys of a column, at most [`SET_KEYS`]: of texts their codes in `table`, about
    /// [`PART_BYTES`] of them.
    fn next(&mut self, column: usize, table: Option<&mut Table<'_>>) -> Vec<u64> {
        let (keys, written) = &mut self.keys[column];
        let rest = &keys[*written..];
        let rest = &rest[..rest.len().min(SET_KEYS)];
        let ids: Vec<u64> = match table {
            None => rest.iter().map(|key| id_of(*key)).collect(),
            Some(table) => {
                let mut codes = Vec::new();
                for key in rest {
                    if table.bytes.len() >= PART_BYTES && !codes.is_empty() {
                        break;
                    }
                    codes.push(table.code(*key));
                }
                codes.sort_unstable();
                codes
            }
        };
        *written += ids.len();
        ids
    }
}
