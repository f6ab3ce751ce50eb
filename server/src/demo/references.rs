//! What columns of the benchmarks' tables refer to: the foreign keys of their specifications.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use basalt_client::convert::REFERENCES_KEY;

use super::tpch::Table;

/// A column, and the key that it refers to.
pub(super) type Reference = (&'static str, &'static str);

/// TPC-H, clause 1.4.2. What refers to a pair of keys (lineitem to partsupp) is left out.
pub(super) const TPCH: [Reference; 9] = [
    ("n_regionkey", "region.r_regionkey"),
    ("s_nationkey", "nation.n_nationkey"),
    ("c_nationkey", "nation.n_nationkey"),
    ("ps_partkey", "part.p_partkey"),
    ("ps_suppkey", "supplier.s_suppkey"),
    ("o_custkey", "customer.c_custkey"),
    ("l_orderkey", "orders.o_orderkey"),
    ("l_partkey", "part.p_partkey"),
    ("l_suppkey", "supplier.s_suppkey"),
];

/// The Star Schema Benchmark.
pub(super) const SSB: [Reference; 5] = [
    ("lo_custkey", "customer.c_custkey"),
    ("lo_partkey", "part.p_partkey"),
    ("lo_suppkey", "supplier.s_suppkey"),
    ("lo_orderdate", "date.d_datekey"),
    ("lo_commitdate", "date.d_datekey"),
];

/// The table with those of these that are its columns'.
pub(super) fn referring(table: Table, references: &[Reference]) -> Table {
    let field = |field: &Arc<Field>| {
        let of = references.iter().find(|(column, _)| column == field.name());
        let metadata = of.map(|(_, key)| (REFERENCES_KEY.to_owned(), (*key).to_owned()));
        field.as_ref().clone().with_metadata(metadata.into_iter().collect())
    };
    let fields: Vec<_> = table.schema.fields().iter().map(field).collect();
    Table { schema: Arc::new(Schema::new(fields)), ..table }
}
