//! A plan in one line, for the log of slow queries: what was read of each table, what ran above that, and what was spilled.
//! Names of tables are in it, and no literals.

use std::fmt::Write as _;

use basalt_core::exec::Statistics;

use crate::limits;

/// What a query has done so far.
#[derive(Debug, Default)]
pub(crate) struct PlanSummary {
    /// In the order in which they were read first.
    tables: Vec<(String, Scanned)>,
    /// There were more than are kept.
    others: usize,
    above: Option<String>,
    spilled: u64,
}

/// What was read of one table, by one scan or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scanned {
    pub(crate) version: u64,
    pub(crate) statistics: Statistics,
    /// That had a part of it.
    pub(crate) nodes: usize,
    pub(crate) scans: usize,
}

impl Scanned {
    /// One scan.
    pub(crate) fn once(version: u64, statistics: Statistics, nodes: usize) -> Self {
        Self { version, statistics, nodes, scans: 1 }
    }
}

impl PlanSummary {
    pub(crate) fn scanned(&mut self, table: &str, scanned: Scanned) {
        let is_known = |(name, known): &(String, Scanned)| name == table && known.version == scanned.version;
        match self.tables.iter().position(is_known) {
            Some(at) => {
                let known = &mut self.tables[at].1;
                known.statistics += scanned.statistics;
                known.nodes = known.nodes.max(scanned.nodes);
                known.scans += scanned.scans;
            }
            None if self.tables.len() < limits::SUMMARY_TABLES => {
                self.tables.push((table.to_owned(), scanned));
            }
            None => self.others += 1,
        }
    }

    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "nothing runs above without SQL"))]
    pub(crate) fn runs_above(&mut self, operators: &[&str]) {
        self.above = Some(operators.join(", "));
    }

    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "nothing is spilled without SQL"))]
    pub(crate) fn spilled(&mut self, bytes: u64) {
        self.spilled += bytes;
    }

    /// `None`: nothing is known of it.
    pub(crate) fn text(&self) -> Option<String> {
        let mut parts = Vec::new();
        for (table, Scanned { version, statistics: s, nodes, scans }) in &self.tables {
            let mut part = format!(
                "{table}@{version}: {} of {} blocks, {} of {} rows",
                s.blocks.saturating_sub(s.blocks_pruned),
                s.blocks,
                s.rows_selected,
                s.rows
            );
            if *nodes > 1 {
                let _ = write!(part, ", {nodes} nodes");
            }
            if *scans > 1 {
                let _ = write!(part, ", {scans} scans");
            }
            parts.push(part);
        }
        if self.others > 0 {
            parts.push(format!("{} other scans", self.others));
        }
        match self.above.as_deref() {
            Some("") => parts.push("above: nothing".to_owned()),
            Some(above) => parts.push(format!("above: {above}")),
            None => {}
        }
        if self.spilled > 0 {
            parts.push(format!("spilled {} bytes", self.spilled));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_one_line() {
        let mut summary = PlanSummary::default();
        assert_eq!(summary.text(), None);
        let statistics = |rows, blocks, blocks_pruned, rows_selected| Statistics {
            rows,
            blocks,
            blocks_pruned,
            rows_selected,
            ..Statistics::default()
        };
        summary.scanned("t", Scanned::once(3, statistics(1000, 6, 4, 10), 3));
        assert_eq!(summary.text().unwrap(), "t@3: 2 of 6 blocks, 10 of 1000 rows, 3 nodes");
        summary.scanned("t", Scanned::once(3, statistics(1000, 6, 0, 1000), 2));
        summary.scanned("u", Scanned::once(1, statistics(5, 1, 0, 5), 1));
        summary.runs_above(&["HashJoin", "Sort"]);
        summary.spilled(70);
        assert_eq!(
            summary.text().unwrap(),
            "t@3: 8 of 12 blocks, 1010 of 2000 rows, 3 nodes, 2 scans; u@1: 1 of 1 blocks, 5 of 5 rows; \
             above: HashJoin, Sort; spilled 70 bytes"
        );
        summary.runs_above(&[]);
        for n in 0..100 {
            summary.scanned(&format!("t{n}"), Scanned::default());
        }
        let text = summary.text().unwrap();
        assert!(text.contains("other scans; above: nothing") && text.len() < 1000, "{text}");
    }
}
