//! What queries did, and how they run.

use basalt_proto::v1;

use crate::mirror::{all, mirror};

mirror! {
    /// What a query did: rows and blocks read and pruned, time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    Statistics {
        /// Rows of the table.
        rows: u64,
        /// Its fragments.
        fragments: u64,
        /// Its blocks, of 65,536 rows.
        blocks: u64,
        /// Blocks skipped by zone maps and value counts.
        blocks_pruned: u64,
        /// Blocks whose every row a filter selected by zone maps alone.
        blocks_full: u64,
        /// Rows that the filter selected.
        rows_selected: u64,
        /// Microseconds at the server from the request's arrival.
        elapsed_us: u64,
        /// Of these, the ones spent executing.
        execute_us: u64,
    }

    /// One conjunct of a filter, in the order of evaluation; fragments whose statistics differ may have another.
    #[derive(Clone, Debug, Default, PartialEq)]
    PlanFilter {
        /// As an expression.
        text: String,
        /// Blocks that zone maps and counts show to hold no row, without the column being read.
        blocks_pruned: u64,
        /// Blocks that they show to be selected whole.
        blocks_full: u64,
        /// `encoded column`, `expression`, `statistics`, `set`, `combination`.
        method: String,
        /// The share of the rows that should pass, by statistics and a sample of the rows.
        expected_share: f64,
    }

    /// A column that is read.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    PlanColumn {
        /// Its name.
        name: String,
        /// What holds its fragments.
        encodings: Vec<String>,
        /// Bytes of it.
        bytes: u64,
    }

    /// A set that filters: given, kept, or made of a semi-join. Counts of rows and times are there with `analyze`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    PlanSip {
        /// What it filters.
        text: String,
        /// The encoding's name; `texts` for a semi-join on text, whose set is no SIP.
        tag: String,
        /// Bytes of it.
        bytes: u64,
        /// How many ids.
        cardinality: u64,
        /// Blocks that the set shows to hold no row, without their rows being read.
        blocks_skipped: u64,
        /// Rows of the blocks left that were tested.
        rows_in: u64,
        /// Those of them that passed.
        rows_passed: u64,
        /// Microseconds to make the set; for a semi-join, of the inner query.
        build_us: u64,
        /// Microseconds to test rows, of all threads together.
        apply_us: u64,
        /// `request`, `handle` or `semi-join TABLE.KEY`.
        source: String,
        /// Blocks that the set shows to be selected whole.
        blocks_full: u64,
    }

    /// One step of a run.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    PlanOperator {
        /// `prepare`, `prune`, `filter`, then `aggregate`, `group` or `read`, then `merge` and `finish`.
        name: String,
        /// Of a filter, the conjunct.
        text: String,
        /// Rows that came to it.
        rows_in: u64,
        /// Rows that it left.
        rows_out: u64,
        /// Nanoseconds from the first beginning to the last end; steps overlap where blocks run in parallel.
        elapsed_ns: u64,
        /// Nanoseconds that threads were at it, in sum.
        busy_ns: u64,
    }

    /// A version of a table.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    TableVersion {
        /// The table.
        table: String,
        /// The number of its commit.
        version: u64,
    }
}

/// How a query runs, for people and as data.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// For people: an indented tree.
    pub text: String,
    /// The table's version that is read.
    pub table_version: u64,
    /// The filter's conjuncts, in the order of evaluation.
    pub filters: Vec<PlanFilter>,
    /// The columns that are read.
    pub columns: Vec<PlanColumn>,
    /// What the query did, or without `analyze` what of it is known.
    pub statistics: Option<Statistics>,
    /// The sets of the filter.
    pub sips: Vec<PlanSip>,
    /// With `analyze`: the steps of the run, in order; of all nodes together.
    pub operators: Vec<PlanOperator>,
    /// In a cluster: what was asked of the nodes.
    pub hops: Vec<PlanHop>,
    /// Rows that the filter should select, by statistics and a sample of the rows; `None`: the node has none in memory.
    pub expected_selected: Option<u64>,
    /// Rows that the answer should have, by the same.
    pub expected_rows: Option<u64>,
}

/// A part of the work that a node did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanHop {
    /// `TABLE.KEY` of a semi-join; empty for the query itself.
    pub of: String,
    /// The node's name.
    pub node: String,
    /// Fragments that it answered for.
    pub fragments: u64,
    /// Bytes of the request and its sets that went there; none for the node that was asked.
    pub sent_bytes: u64,
    /// Bytes of the answer.
    pub received_bytes: u64,
    /// Microseconds from the question to the answer.
    pub elapsed_us: u64,
    /// Of these, the ones that the node spent executing.
    pub execute_us: u64,
    /// What it did.
    pub statistics: Option<Statistics>,
    /// Fragments that it had to read from the store first.
    pub loaded: u64,
    /// Of the bytes that went there, those of sets.
    pub set_bytes: u64,
}

impl From<v1::ExplainResponse> for Plan {
    fn from(plan: v1::ExplainResponse) -> Self {
        Self {
            text: plan.text,
            table_version: plan.table_version,
            filters: all(plan.filters),
            columns: all(plan.columns),
            statistics: plan.statistics.map(Statistics::from),
            sips: all(plan.sips),
            operators: all(plan.operators),
            hops: all(plan.hops),
            expected_selected: plan.expected_selected,
            expected_rows: plan.expected_rows,
        }
    }
}

impl From<v1::PlanHop> for PlanHop {
    fn from(hop: v1::PlanHop) -> Self {
        Self {
            of: hop.of,
            node: hop.node,
            fragments: hop.fragments,
            sent_bytes: hop.sent_bytes,
            received_bytes: hop.received_bytes,
            elapsed_us: hop.elapsed_us,
            execute_us: hop.execute_us,
            statistics: hop.statistics.map(Statistics::from),
            loaded: hop.loaded,
            set_bytes: hop.set_bytes,
        }
    }
}
