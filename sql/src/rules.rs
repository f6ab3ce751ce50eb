//! The rules that plans are made by: DataFusion's, and ours among them.

use std::sync::Arc;

use datafusion::{
    execution::{SessionState, SessionStateBuilder},
    optimizer::{Analyzer, Optimizer},
    physical_optimizer::optimizer::PhysicalOptimizer,
};

use crate::{
    coerced::Floats,
    constants::HideConstants,
    full_sort::FullSort,
    fuse::FuseAggregates,
    guarded::guarded,
    meaning::Meaning,
    once_per_key::{self, OncePerKey},
    ordered_once::OrderedOnce,
    references::FuseJoins,
    sets::KeysApart,
    sideways::Sideways,
    top::FuseTop,
    unprojected::Unprojected,
    wanted::{self, Analysis, PhysicalRule, Rule, wanted},
};

/// DataFusion's rules, with ours where conditions have come down to the tables and aggregates are still as they were
/// written.
pub(crate) fn of_optimizer() -> Vec<Rule> {
    let mut rules = guarded_rules();
    let at = place(&rules, once_per_key::NAME);
    rules.insert(at, Arc::new(FuseJoins));
    let at = place(&rules, "single_distinct_aggregation_to_group_by");
    rules.insert(at, Arc::new(FuseTop));
    rules.insert(at, Arc::new(FuseAggregates));
    rules.into_iter().map(wanted).collect()
}

/// DataFusion's rules, kept from what they make wrong.
fn guarded_rules() -> Vec<Rule> {
    let rules = Optimizer::new().rules.into_iter().map(guarded);
    let mut rules: Vec<Rule> = rules.chain([Arc::new(OrderedOnce) as Rule]).collect();
    let at = place(&rules, "single_distinct_aggregation_to_group_by");
    rules.insert(at, Arc::new(OncePerKey));
    rules
}

fn place(rules: &[Rule], name: &str) -> usize {
    // Default: behind all others.
    rules.iter().position(|rule| rule.name() == name).unwrap_or(rules.len())
}

/// The same session, in which the engine takes no aggregates, orders and joins: DataFusion's can go to a disk.
pub(crate) fn unfused(session: &SessionState) -> SessionState {
    let rules = guarded_rules().into_iter().map(wanted).collect();
    let mut session =
        SessionStateBuilder::new_from_existing(session.clone()).with_optimizer_rules(rules).build();
    session.mark_start_execution();
    session
}

/// DataFusion's rules, without those that move conditions down once more, by the names of columns: conditions that could be
/// moved have been, what joins learn while they run goes to scans by ours, and no scan of ours begins late enough to hear of
/// others.
pub(crate) fn of_physical_optimizer() -> Vec<PhysicalRule> {
    let before = |rule: &PhysicalRule| {
        (rule.name() == "ProjectionPushdown").then(|| Arc::new(Unprojected) as PhysicalRule)
    };
    let rules =
        PhysicalOptimizer::new().rules.into_iter().flat_map(|rule| before(&rule).into_iter().chain([rule]));
    let first = Arc::new(HideConstants) as PhysicalRule;
    let own: [PhysicalRule; 2] = [Arc::new(Sideways), Arc::new(FullSort)];
    let rules = rules.filter(|rule| !rule.name().starts_with("FilterPushdown"));
    std::iter::once(first).chain(rules).chain(own).map(wanted::physical).collect()
}

/// Ours come before types are chosen, and one behind it.
pub(crate) fn of_analyzer() -> Vec<Analysis> {
    let ours: [Analysis; 2] = [Arc::new(Meaning), Arc::new(KeysApart)];
    let last: Analysis = Arc::new(Floats);
    ours.into_iter().chain(Analyzer::new().rules).chain([last]).map(wanted::analysis).collect()
}
