//! What Explain tells of a request that several nodes answer.

use std::collections::{BTreeMap, BTreeSet};

use basalt_proto::v1 as pb;

use super::Hop;

/// An explanation of the whole, with what each node did for it.
pub(crate) fn explained(mut whole: pb::ExplainResponse, hops: Vec<Hop>) -> pb::ExplainResponse {
    let us = |ns: u64| ns.div_ceil(1000);
    let (mut operators, mut sips) = (Vec::new(), BTreeMap::new());
    let (mut filters, mut columns) = (Vec::new(), Vec::new());
    for hop in hops {
        let end = hop.end;
        let own = hop.what.is_empty();
        end.operators.into_iter().filter(|_| own).for_each(|operator| add(&mut operators, operator));
        end.filters.into_iter().filter(|_| own).for_each(|filter| add_filter(&mut filters, filter));
        end.columns.into_iter().filter(|_| own).for_each(|column| add_column(&mut columns, column));
        for sip in end.sips {
            let (rows, passed, apply) = (sip.rows_in, sip.rows_passed, sip.apply_us);
            let (skipped, full) = (sip.blocks_skipped, sip.blocks_full);
            let all = sips.entry((sip.source.clone(), sip.text.clone())).or_insert(pb::PlanSip {
                rows_in: 0,
                rows_passed: 0,
                apply_us: 0,
                blocks_skipped: 0,
                blocks_full: 0,
                ..sip
            });
            all.rows_in = all.rows_in.saturating_add(rows);
            all.rows_passed = all.rows_passed.saturating_add(passed);
            all.apply_us = all.apply_us.saturating_add(apply);
            all.blocks_skipped = all.blocks_skipped.saturating_add(skipped);
            all.blocks_full = all.blocks_full.saturating_add(full);
        }
        whole.hops.push(pb::PlanHop {
            of: hop.what,
            node: hop.node.to_string(),
            fragments: hop.fragments as u64,
            sent_bytes: hop.shipped.0,
            received_bytes: hop.shipped.1,
            elapsed_us: us(hop.elapsed_ns),
            execute_us: us(end.execute_ns),
            statistics: end.statistics,
            loaded: end.loaded.into(),
            set_bytes: hop.sets,
        });
    }
    // The coordinator's own plan scans nothing.
    if let Some(at) = whole.text.find("\n  scan ") {
        whole.text.truncate(at + 1);
        let own = whole.hops.iter().filter(|hop| hop.of.is_empty());
        let nodes: BTreeSet<&str> = own.map(|hop| hop.node.as_str()).collect();
        let version = whole.table_version;
        whole.text.push_str(&match whole.statistics {
            Some(s) if s.blocks > 0 => format!(
                "  scan version {version} at {} nodes: {} rows, {} fragments, {} blocks, {} pruned, {} whole\n",
                nodes.len(), s.rows, s.fragments, s.blocks, s.blocks_pruned, s.blocks_full
            ),
            _ => format!("  scan version {version} at the nodes that hold it\n"),
        });
    }
    whole.operators = operators;
    if !filters.is_empty() {
        whole.filters = filters;
    }
    if !columns.is_empty() {
        whole.columns = columns;
    }
    if !sips.is_empty() {
        whole.sips = sips.into_values().collect();
    }
    whole
}

/// Adds a step of one node to those of the others.
fn add(all: &mut Vec<pb::PlanOperator>, one: pb::PlanOperator) {
    match all.iter_mut().find(|known| known.name == one.name && known.text == one.text) {
        Some(known) => {
            known.rows_in = known.rows_in.saturating_add(one.rows_in);
            known.rows_out = known.rows_out.saturating_add(one.rows_out);
            known.busy_ns = known.busy_ns.saturating_add(one.busy_ns);
            // Nodes work side by side.
            known.elapsed_ns = known.elapsed_ns.max(one.elapsed_ns);
        }
        None => all.push(one),
    }
}

/// Adds a conjunct at one node to those of the others.
fn add_filter(all: &mut Vec<pb::PlanFilter>, one: pb::PlanFilter) {
    match all.iter_mut().find(|known| known.text == one.text) {
        Some(known) => {
            known.blocks_pruned = known.blocks_pruned.saturating_add(one.blocks_pruned);
            known.blocks_full = known.blocks_full.saturating_add(one.blocks_full);
        }
        None => all.push(one),
    }
}

/// Adds a column at one node to those of the others.
fn add_column(all: &mut Vec<pb::PlanColumn>, one: pb::PlanColumn) {
    let Some(known) = all.iter_mut().find(|known| known.name == one.name) else { return all.push(one) };
    known.bytes = known.bytes.saturating_add(one.bytes);
    known.encodings.extend(one.encodings);
    known.encodings.sort_unstable();
    known.encodings.dedup();
}
