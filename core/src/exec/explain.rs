//! How a query runs, for people: what is pruned, in which order filters are evaluated, what holds the columns.

use std::{collections::BTreeSet, fmt::Write};

use arrow_array::RecordBatch;

use super::{
    Control, Expected, Part, SetUse, Statistics, Usage, conjuncts::Estimate, filter, profile::Step,
    scan::Scan, sets,
};
use crate::{
    error::Result,
    plan::{Plan, Shape, pred::Pred},
    table::Snapshot,
};

/// One conjunct of the filter.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterUse {
    /// As a person would write it.
    pub text: String,
    /// Blocks that statistics alone show it to leave empty.
    pub blocks_pruned: u64,
    /// Blocks that statistics alone show it to leave whole.
    pub blocks_full: u64,
    /// How the other blocks are filtered.
    pub method: &'static str,
    /// The share of the rows that is expected to pass.
    pub share: f64,
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorUse {
    /// What is done: `prepare`, `prune`, `filter`, `aggregate`, `group`, `read`, `merge`, `finish`.
    pub name: &'static str,
    /// Of a filter, the conjunct as a person would write it.
    pub text: String,
    /// What it took.
    pub usage: Usage,
}

/// One column that the query reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnUse {
    /// Its name.
    pub name: String,
    /// The encodings that hold it.
    pub encodings: Vec<String>,
    /// Bytes of the whole column.
    pub bytes: u64,
}

/// How a query runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The plan as an indented tree.
    pub text: String,
    /// The conjuncts, in the order of evaluation; fragments whose statistics differ may have another.
    pub filters: Vec<FilterUse>,
    /// The steps of the run, in order, where a clock timed them.
    pub operators: Vec<OperatorUse>,
    /// The sets that the filter asks.
    pub sets: Vec<SetUse>,
    /// The columns read.
    pub columns: Vec<ColumnUse>,
    /// What pruning finds; after a run also what was selected.
    pub statistics: Statistics,
    /// What it should give, where that can be told.
    pub expected: Option<Expected>,
}

impl Plan {
    /// Explains the plan on a snapshot; with `analyze` it is run, and its answer dropped.
    ///
    /// # Errors
    /// Those of [`Plan::run`], with `analyze`.
    pub fn explain(&self, snapshot: &Snapshot, analyze: bool, control: &Control) -> Result<Explanation> {
        let control = &control.profiled(self.conjuncts().len());
        let mut answer_rows = 0;
        let statistics = if analyze {
            self.run(snapshot, control, &mut |batch| {
                answer_rows += batch.num_rows();
                Ok(())
            })?
        } else {
            let _held = sets::prepare(self.filter.as_ref(), snapshot, control)?;
            Scan::new(snapshot, self.filter.as_ref(), control)?.statistics
        };
        let mut explanation = self.explanation(snapshot, statistics, control);
        explanation.expected = self.expected(snapshot, snapshot.rows());
        if !analyze {
            explanation.operators.clear();
        }
        explanation.text = self.text(snapshot.version(), &explanation, analyze.then_some(answer_rows));
        Ok(explanation)
    }

    /// Runs the plan on some fragments as [`Plan::run_part`] does, and explains the run; there is no text.
    ///
    /// # Errors
    /// Those of [`Plan::run_part`].
    pub fn explain_part(
        &self,
        snapshot: &Snapshot,
        control: &Control,
        sink: &mut dyn FnMut(Part) -> Result<()>,
    ) -> Result<Explanation> {
        let control = &control.profiled(self.conjuncts().len());
        let statistics = self.run_part(snapshot, control, sink)?;
        Ok(self.explanation(snapshot, statistics, control))
    }

    /// Runs the plan as [`Plan::run`] does, and says what its steps took where `control` has a clock.
    ///
    /// # Errors
    /// Those of [`Plan::run`].
    pub fn run_timed(
        &self,
        snapshot: &Snapshot,
        control: &Control,
        sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<(Statistics, Vec<OperatorUse>)> {
        let control = &control.profiled(self.conjuncts().len());
        let statistics = self.run(snapshot, control, sink)?;
        Ok((statistics, self.operators(control, &self.evaluated(snapshot))))
    }

    /// The same of [`Plan::run_part`].
    ///
    /// # Errors
    /// Those of [`Plan::run_part`].
    pub fn run_part_timed(
        &self,
        snapshot: &Snapshot,
        control: &Control,
        sink: &mut dyn FnMut(Part) -> Result<()>,
    ) -> Result<(Statistics, Vec<OperatorUse>)> {
        let control = &control.profiled(self.conjuncts().len());
        let statistics = self.run_part(snapshot, control, sink)?;
        Ok((statistics, self.operators(control, &self.evaluated(snapshot))))
    }

    /// The conjuncts with their places, in the order of evaluation.
    fn evaluated(&self, snapshot: &Snapshot) -> Vec<(usize, &Pred)> {
        let mut order: Vec<_> = self.conjuncts().iter().enumerate().collect();
        order.sort_by_cached_key(|(_, pred)| Estimate::of_all(pred, snapshot).order());
        order
    }

    fn conjuncts(&self) -> &[Pred] {
        self.filter.as_ref().map_or(&[], Pred::conjuncts)
    }

    /// What is known after a run, or before it; without the text.
    fn explanation(&self, snapshot: &Snapshot, statistics: Statistics, control: &Control) -> Explanation {
        let order = self.evaluated(snapshot);
        Explanation {
            text: String::new(),
            filters: order.iter().map(|(_, pred)| self.filter_use(pred, snapshot, control)).collect(),
            operators: self.operators(control, &order),
            sets: sets::uses(self.filter.as_ref(), snapshot, control),
            columns: self.columns_read(snapshot),
            statistics,
            expected: None,
        }
    }

    fn filter_use(&self, pred: &Pred, snapshot: &Snapshot, control: &Control) -> FilterUse {
        let (blocks_pruned, blocks_full) = filter::decided(pred, snapshot, control);
        let method = match pred {
            Pred::Constant(_) => "statistics",
            Pred::Keys { .. } | Pred::Text { .. } | Pred::IsNull { .. } => "encoded column",
            Pred::Set { .. } | Pred::Rows { .. } => "set",
            Pred::Compare(..) | Pred::Like { .. } | Pred::ExprIsNull { .. } => "expression",
            Pred::And(_) | Pred::Or(_) => "combination",
        };
        let share = self.expected_share(pred, snapshot);
        FilterUse { text: pred.display(&self.rows).to_string(), blocks_pruned, blocks_full, method, share }
    }

    /// The steps that were timed; the filters in the order of evaluation.
    fn operators(&self, control: &Control, order: &[(usize, &Pred)]) -> Vec<OperatorUse> {
        let Some(profile) = control.profile() else { return Vec::new() };
        let block = match &self.shape {
            Shape::Rows => "read",
            Shape::Groups { keys, .. } if keys.is_empty() => "aggregate",
            Shape::Groups { .. } => "group",
        };
        let before = [("prepare", None, Step::Prepare), ("prune", None, Step::Prune)];
        let filters = order.iter().map(|(at, pred)| ("filter", Some(*pred), Step::Filter(*at)));
        let after =
            [(block, None, Step::Block), ("merge", None, Step::Merge), ("finish", None, Step::Finish)];
        let used = |(name, pred, step): (&'static str, Option<&Pred>, Step)| {
            // Default: other steps have no predicate.
            let text = pred.map(|pred| pred.display(&self.rows).to_string()).unwrap_or_default();
            Some(OperatorUse { name, text, usage: profile.usage(step)? })
        };
        before.into_iter().chain(filters).chain(after).filter_map(used).collect()
    }

    fn columns_read(&self, snapshot: &Snapshot) -> Vec<ColumnUse> {
        let column_use = |slot: usize| {
            let columns = snapshot.fragments().iter().map(|f| f.column(slot));
            let encodings: BTreeSet<String> = columns.clone().map(|c| c.encoding()).collect();
            ColumnUse {
                name: self.rows.fields[slot].0.clone(),
                encodings: encodings.into_iter().collect(),
                bytes: columns.map(|c| c.bytes() as u64).sum(),
            }
        };
        self.columns().into_iter().map(column_use).collect()
    }

    /// The plan as an indented tree, with what an explanation says of its run on a version of the table.
    pub fn text(&self, version: u64, explanation: &Explanation, answer_rows: Option<usize>) -> String {
        let mut out = String::new();
        let outputs: Vec<_> =
            self.outputs[..self.visible()].iter().map(|o| o.display(&self.slots).to_string()).collect();
        let _ = writeln!(out, "output {}", outputs.join(", "));
        if let Some(Expected { selected, answer }) = explanation.expected {
            let _ = writeln!(out, "  expected: {answer} rows, of {selected} selected");
        }
        if let Some(rows) = answer_rows {
            let _ = writeln!(out, "  answer: {rows} rows");
        }
        if self.limit.is_some() || self.offset > 0 {
            let limit = self.limit.map_or("all".to_owned(), |l| l.to_string());
            let _ = writeln!(out, "  limit {limit} offset {}", self.offset);
        }
        if !self.order.is_empty() {
            let key = |k: &crate::plan::SortKey| {
                format!(
                    "{}{}",
                    self.outputs[k.output].display(&self.slots),
                    if k.descending { " DESC" } else { "" }
                )
            };
            let _ = writeln!(out, "  order by {}", self.order.iter().map(key).collect::<Vec<_>>().join(", "));
        }
        if let Shape::Groups { keys, aggregates, having } = &self.shape {
            if let Some(having) = having {
                let _ = writeln!(out, "  having {}", having.display(&self.slots));
            }
            let names = |range: std::ops::Range<usize>| {
                self.slots.fields[range].iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
            };
            if !aggregates.is_empty() {
                let _ = writeln!(out, "  aggregate {}", names(keys.len()..keys.len() + aggregates.len()));
            }
            if !keys.is_empty() {
                let _ = writeln!(out, "  group by {}", names(0..keys.len()));
            }
        }
        for filter in &explanation.filters {
            let _ = writeln!(
                out,
                "  filter {} [{}; {} blocks pruned, {} whole; {:.3} of the rows expected]",
                filter.text, filter.method, filter.blocks_pruned, filter.blocks_full, filter.share
            );
        }
        for set in &explanation.sets {
            let _ = writeln!(
                out,
                "  set {} [{}, {} bytes, {}; {} blocks skipped, {} whole]",
                set.text, set.tag, set.bytes, set.origin, set.blocks_skipped, set.blocks_full
            );
            if answer_rows.is_some() {
                let _ = writeln!(out, "    rows: {} in, {} passed", set.rows_in, set.rows_passed);
            }
        }
        let s = explanation.statistics;
        let _ = writeln!(
            out,
            "  scan version {}: {} rows, {} fragments, {} blocks, {} pruned, {} whole",
            version, s.rows, s.fragments, s.blocks, s.blocks_pruned, s.blocks_full
        );
        if answer_rows.is_some() {
            let _ = writeln!(out, "    selected: {} rows", s.rows_selected);
        }
        for column in &explanation.columns {
            let _ = writeln!(
                out,
                "    column {} [{}; {} bytes]",
                column.name,
                column.encodings.join(", "),
                column.bytes
            );
        }
        out
    }
}
