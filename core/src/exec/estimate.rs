//! What a plan takes before it is run: enough to tell what is done at once from what is worth a thread of its own.

use super::{
    Control, Scan,
    conjuncts::{self, share_by_bounds},
};
use crate::{
    limits::{BATCH_ROWS, BLOCK_ROWS},
    plan::{Plan, Shape, expr::BoundExpr},
    schema::DataType,
    table::Snapshot,
    value::Value,
};

/// Bytes of a value of an answer, but for text: the widest one, and what says whether it is null.
const VALUE_BYTES: u64 = 17;

/// Bytes of texts that are read and compared, or copied, in a nanosecond.
const TEXT_BYTES_PER_NANOSECOND: u64 = 4;

/// Keys are taken to be equally frequent between the extremes of their block, which they are not: so many times as many
/// rows may be selected.
const MARGIN: u64 = 4;

/// What a plan takes on a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Roughly the nanoseconds that one thread needs at most.
    pub effort: u64,
    /// The same for as many rows as the filter selects by what statistics say of it.
    pub expected: u64,
    /// Bytes that the answer's values never exceed.
    pub answer_bytes: u64,
    /// Roughly the bytes of the answer's values, for as many rows as the filter should select.
    pub expected_answer_bytes: u64,
}

/// What the blocks that statistics leave hold.
struct Left<'a> {
    snapshot: &'a Snapshot,
    /// The places of their fragments.
    fragments: Vec<usize>,
    rows: u64,
    /// How many of them should be selected.
    selected: u64,
}

impl Left<'_> {
    /// Bytes of the texts of a slot in those fragments.
    fn texts(&self, slot: usize) -> u64 {
        let columns = self.fragments.iter().map(|at| self.snapshot.fragments()[*at].column_at(slot));
        // Default: a slot that is no column of the table, such as the row address, has no texts.
        columns.map(|column| column.map_or(0, |column| column.text_bytes() as u64)).sum()
    }

    /// The same of some rows, if all have texts of one length.
    fn texts_of(&self, slot: usize, rows: u64) -> u64 {
        let of = self.fragments.iter().map(|at| self.snapshot.fragments()[*at].rows() as u64).sum::<u64>();
        let texts = self.texts(slot);
        let part = u128::from(texts) * u128::from(rows.min(of)) / u128::from(of.max(1));
        // Default: it is never more than all of them.
        u64::try_from(part).unwrap_or(texts)
    }
}

impl Plan {
    /// What the plan takes on the snapshot that it was bound to. Blocks are pruned for it, and no value is read.
    pub fn estimate(&self, snapshot: &Snapshot) -> Estimate {
        let mut sets = Vec::new();
        self.filter.iter().for_each(|pred| pred.sets(&mut sets));
        // Sets that are not prepared prune slowly: as if they did not.
        let filter = if sets.is_empty() { self.filter.as_ref() } else { None };
        let control = Control::default();
        let Ok(scan) = Scan::new(snapshot, filter, &control) else { return Estimate::default() };
        let mut fragments: Vec<usize> = scan.blocks.iter().map(|(block, _)| block.at).collect();
        fragments.dedup();
        let rows = scan.blocks.iter().map(|(block, _)| block.rows() as u64).sum();
        let selected = self.selected(&scan).min(rows);
        self.estimate_of(&Left { snapshot, fragments, rows, selected })
    }

    /// What the plan takes on fragments of which only their rows and some bounds are known, each given by its id and its
    /// rows: zone maps prune nothing of them, texts take no time, and nothing is said of the answer's bytes.
    pub fn estimate_by_bounds(
        &self,
        fragments: &[(u32, u64)],
        bounds: &dyn Fn(u32, usize) -> Option<(i64, i64)>,
    ) -> Estimate {
        let selected = |(id, rows): &(u32, u64)| {
            let share = self.filter.as_ref().map(|pred| share_by_bounds(pred, &|slot| bounds(*id, slot)));
            share.map_or(*rows, |share| MARGIN.saturating_mul(part(*rows, share)).min(*rows))
        };
        let rows = fragments.iter().map(|(_, rows)| *rows).fold(0, u64::saturating_add);
        let selected = fragments.iter().map(selected).fold(0, u64::saturating_add);
        let snapshot = &Snapshot::new(0, Vec::new());
        let estimate = self.estimate_of(&Left { snapshot, fragments: Vec::new(), rows, selected });
        Estimate { answer_bytes: u64::MAX, expected_answer_bytes: u64::MAX, ..estimate }
    }

    fn estimate_of(&self, left: &Left<'_>) -> Estimate {
        let mut sets = Vec::new();
        self.filter.iter().for_each(|pred| pred.sets(&mut sets));
        // Few bytes of a set can stand for many ids.
        let prepared = sets.iter().map(|(set, _)| 10 * set.cardinality.min(set.bytes) + set.cardinality);
        let prepared = prepared.fold(0, u64::saturating_add);
        let page = self.of_page(left);
        let expected = prepared.saturating_add(self.effort(&page, true));
        // Without a filter no rows are turned away.
        let worst = if self.filter.is_none() { &page } else { left };
        let effort = prepared.saturating_add(self.effort(worst, false));
        let [answer_bytes, expected_answer_bytes] =
            [false, true].map(|as_expected| self.answer_bytes(left, as_expected));
        Estimate { effort, expected, answer_bytes, expected_answer_bytes }
    }

    /// How many rows the filter should select: [`MARGIN`] times what the conjuncts' shares say.
    fn selected(&self, scan: &Scan<'_, '_>) -> u64 {
        if scan.filters.is_empty() {
            return u64::MAX;
        }
        let (mut all, mut last) = (0_u64, None);
        for (block, _) in &scan.blocks {
            if last.replace(block.at) == Some(block.at) {
                continue;
            }
            let shares = scan.filters[block.at].iter();
            let share: f64 =
                shares.map(|one| conjuncts::Estimate::of(&one.pred, block.fragment).share).product();
            all = all.saturating_add(MARGIN.saturating_mul(part(block.fragment.rows() as u64, share)));
        }
        all
    }

    /// What is read of these rows until there are as many as the answer shows: windows of blocks double, so up to twice
    /// as many as are needed.
    fn of_page<'a>(&self, left: &Left<'a>) -> Left<'a> {
        let Left { snapshot, rows, selected, .. } = *left;
        let mut fragments = left.fragments.clone();
        let (Shape::Rows, true, Some(top)) = (&self.shape, self.order.is_empty(), self.top()) else {
            return Left { snapshot, fragments, rows, selected };
        };
        let twice = top.saturating_mul(2);
        let needed =
            twice.saturating_mul(rows / (selected / MARGIN).max(1)).saturating_add(BLOCK_ROWS as u64);
        let mut read = 0;
        fragments.retain(|at| {
            let is_read = read < needed;
            read += snapshot.fragments()[*at].rows() as u64;
            is_read
        });
        let selected = selected.min(twice.saturating_add(BATCH_ROWS as u64));
        Left { snapshot, fragments, rows: rows.min(needed), selected }
    }

    /// What it takes when as many rows are selected as should be; otherwise at most.
    fn effort(&self, left: &Left<'_>, as_expected: bool) -> u64 {
        let of = |expr: &BoundExpr| match expr {
            BoundExpr::Slot(_) => 1,
            expr => (2 * expr.nodes() as u64).max(20),
        };
        // Default: no filter is no work.
        let filter = self.filter.as_ref().map_or(0, |pred| u64::from(pred.cost()).div_ceil(4));
        let rest = match &self.shape {
            Shape::Rows => self.outputs.iter().map(|output| 50 + of(output)).sum(),
            Shape::Groups { keys, aggregates, .. } => {
                let arguments: u64 = aggregates.iter().filter_map(|a| a.argument.as_ref()).map(of).sum();
                let distinct = aggregates.iter().filter(|a| a.distinct).count() as u64;
                let grouped = if keys.is_empty() { 1 } else { 10 };
                arguments * grouped + 20 * (keys.len() as u64 + distinct)
            }
        };
        // The bytes of texts come on top: few rows may hold many of them.
        let mut filtered = Vec::new();
        self.filter.iter().for_each(|pred| pred.slots(&mut filtered));
        let texts = |slot: usize| match as_expected && !filtered.contains(&slot) {
            true => left.texts_of(slot, left.selected),
            false => left.texts(slot),
        };
        let texts = self.columns().into_iter().map(texts).fold(0, u64::saturating_add);
        let selected = if as_expected { left.selected } else { left.rows };
        let used = selected.saturating_mul(rest);
        let effort = left.rows.saturating_mul(filter).saturating_add(used);
        effort.saturating_add(texts / TEXT_BYTES_PER_NANOSECOND)
    }

    /// Every row of an answer stands for a row of the table of its own, or for the one group that there is without keys;
    /// so a column of texts in it takes no more than the column that it comes from.
    ///
    /// As expected: of the rows that should be selected, and of the groups that there can be.
    fn answer_bytes(&self, left: &Left<'_>, as_expected: bool) -> u64 {
        let rows = if as_expected { left.selected } else { left.rows };
        let groups = match &self.shape {
            Shape::Groups { keys, .. } if as_expected => rows.min(distinct(keys, left)),
            _ => rows,
        };
        let texts = |slot: usize| match as_expected {
            true => left.texts_of(slot, groups),
            false => left.texts(slot),
        };
        let of_rows = |expr: &BoundExpr| match expr {
            BoundExpr::Slot(slot) if self.rows.fields[*slot].1 == DataType::Utf8 => texts(*slot),
            BoundExpr::Literal(Value::Text(text)) => groups.saturating_mul(text.len() as u64),
            expr if expr.data_type(&self.rows) == Some(DataType::Utf8) => u64::MAX,
            _ => 0,
        };
        let rows = match &self.shape {
            Shape::Groups { keys, .. } if keys.is_empty() => 1,
            // Default: no limit is all rows.
            _ => groups.min(self.limit.unwrap_or(u64::MAX)),
        };
        let of_output = |output: &BoundExpr| match (&self.shape, output) {
            (Shape::Groups { keys, aggregates, .. }, BoundExpr::Slot(slot)) => match keys.get(*slot) {
                Some(key) => of_rows(key),
                None => match &aggregates[*slot - keys.len()] {
                    aggregate if aggregate.data_type == DataType::Utf8 => {
                        aggregate.argument.as_ref().map_or(u64::MAX, of_rows)
                    }
                    _ => 0,
                },
            },
            (Shape::Groups { .. }, BoundExpr::Literal(Value::Text(text))) => {
                rows.saturating_mul(text.len() as u64)
            }
            (Shape::Groups { .. }, _) => 0,
            (Shape::Rows, output) => of_rows(output),
        };
        let texts = self.outputs.iter().map(of_output).fold(0, u64::saturating_add);
        rows.saturating_mul(VALUE_BYTES * self.outputs.len() as u64).saturating_add(texts)
    }
}

/// How many groups some keys can have at most, by the values that columns count; [`u64::MAX`] where one is not counted.
fn distinct(keys: &[BoundExpr], left: &Left<'_>) -> u64 {
    let of_fragment = |slot: usize, at: usize| {
        let column = left.snapshot.fragments()[at].column_at(slot)?;
        Some(column.counts()?.len() as u64 + 1)
    };
    let of_key = |key: &BoundExpr| match key {
        BoundExpr::Slot(slot) => left.fragments.iter().map(|at| of_fragment(*slot, *at)).sum(),
        _ => None,
    };
    // Default: without counts there may be as many as there are rows, which are fewer.
    keys.iter().map(|key| of_key(key).unwrap_or(u64::MAX)).fold(1, u64::saturating_mul)
}

/// A share of some rows, rounded up.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, from 0 to the rows of a fragment"
)]
fn part(rows: u64, share: f64) -> u64 {
    (rows as f64 * share).ceil() as u64
}
