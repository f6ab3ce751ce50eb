//! What the demo asks.

use super::Data;

/// The 13 queries of the Star Schema Benchmark: a line `-- name: title`, then SQL up to a semicolon.
const SSB: &str = include_str!("ssb.sql");

/// One question, in the client's SQL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) title: &'static str,
    pub(crate) sql: &'static str,
    /// At scale 1, the answer that the TPC publishes for the query of this number.
    pub(crate) published: Option<i32>,
}

/// What a benchmark's tables are asked, in this order.
pub(crate) fn of(data: Data) -> Vec<Question> {
    match data {
        Data::Tpch => TPCH.to_vec(),
        Data::Ssb => SSB.split("-- ").skip(1).filter_map(question).collect(),
    }
}

fn question(text: &'static str) -> Option<Question> {
    let (title, sql) = text.split_once('\n')?;
    Some(Question { title, sql: sql.trim().trim_end_matches(';'), published: None })
}

const TPCH: [Question; 9] = [
    Question {
        title: "TPC-H Q6: forecasting revenue change",
        sql: "SELECT sum(l_extendedprice * l_discount) AS revenue
FROM lineitem
WHERE l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01'
  AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
        published: Some(6),
    },
    Question {
        title: "TPC-H Q1: pricing summary",
        sql: "SELECT l_returnflag AS flag, l_linestatus AS status, sum(l_quantity) AS quantity,
       sum(l_extendedprice) AS base_price,
       sum(l_extendedprice * (1 - l_discount)) AS disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charge,
       avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc,
       count(*) AS lines
FROM lineitem
WHERE l_shipdate <= '1998-09-02'
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus",
        published: Some(1),
    },
    Question {
        title: "One order: zone maps lead to its block",
        sql: "SELECT l_linenumber, l_partkey, l_quantity, l_extendedprice, l_shipdate, l_shipmode
FROM lineitem
WHERE l_orderkey = 29158
ORDER BY l_linenumber",
        published: None,
    },
    Question {
        title: "IN, and columns against columns (as in Q12): late, though shipped in time",
        sql: "SELECT l_shipmode, count(*) AS lines, avg(l_extendedprice) AS avg_price
FROM lineitem
WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
  AND l_receiptdate >= '1994-01-01' AND l_receiptdate < '1995-01-01'
GROUP BY l_shipmode
ORDER BY l_shipmode",
        published: None,
    },
    Question {
        title: "LIKE with a prefix: brands on promotion",
        sql:
            "SELECT p_brand, count(*) AS parts, min(p_retailprice) AS cheapest, max(p_retailprice) AS dearest
FROM part
WHERE p_type LIKE 'PROMO%'
GROUP BY p_brand
ORDER BY parts DESC, p_brand
LIMIT 3",
        published: None,
    },
    Question {
        title: "count(DISTINCT), exact",
        sql: "SELECT o_orderpriority, count(*) AS orders, count(DISTINCT o_custkey) AS customers, \
count(DISTINCT o_clerk) AS clerks
FROM orders
GROUP BY o_orderpriority
ORDER BY o_orderpriority",
        published: None,
    },
    Question {
        title: "A group for every order, HAVING (as in Q18): the largest orders",
        sql: "SELECT l_orderkey, sum(l_quantity) AS quantity, count(*) AS lines
FROM lineitem
GROUP BY l_orderkey
HAVING sum(l_quantity) > 270
ORDER BY quantity DESC, l_orderkey
LIMIT 3",
        published: None,
    },
    Question {
        title: "The dearest orders: ORDER BY and LIMIT",
        sql: "SELECT o_orderkey, o_custkey, o_orderdate, o_totalprice, o_orderpriority
FROM orders
WHERE o_orderstatus <> 'F'
ORDER BY o_totalprice DESC
LIMIT 3",
        published: None,
    },
    Question {
        title: "Nothing to read: statistics alone exclude every block",
        sql: "SELECT count(*) AS lines FROM lineitem WHERE l_shipdate > '1999-01-01' AND l_shipmode = 'CANAL'",
        published: None,
    },
];
