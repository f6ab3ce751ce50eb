"""The queries: one text for every engine."""

import pathlib
import re

import data

STAR_FILE = pathlib.Path(__file__).resolve().parents[2] / "server" / "src" / "demo" / "ssb.sql"
# What columns of the star schema's lineorder refer to.
REFERENCES = {
    "lo_custkey": ("customer", "c_custkey"),
    "lo_partkey": ("part", "p_partkey"),
    "lo_suppkey": ("supplier", "s_suppkey"),
    "lo_orderdate": ("date", "d_datekey"),
}


def star():
    """The Star Schema Benchmark's 13 queries, with attributes of what columns refer to: `lo_orderdate.d_year`."""
    questions = (text.split("\n", 1) for text in STAR_FILE.read_text().split("-- ")[1:])
    return {title.split(":")[0].replace("_", ".").upper(): sql.strip().removesuffix(";") for title, sql in questions}


def joined(sql):
    """The query with a join for each reference that it uses, under the column's name: so attributes are columns."""
    joins = "".join(
        f' JOIN "{table}" AS {column} ON lineorder.{column} = {column}.{key}'
        for column, (table, key) in REFERENCES.items()
        if f"{column}." in sql
    )
    return re.sub(r"FROM lineorder\b", f"FROM lineorder{joins}", sql)


def events(rows):
    """Questions about `rows` events."""
    at = lambda share: data.EVENTS_START + int(rows * data.EVENTS_GAP_US * share)  # noqa: E731
    start, end = (str(at(share)).replace("T", " ") for share in (0.4, 0.6))
    return {
        "count, 1 % flag": "SELECT count(*) AS n FROM events WHERE flag",
        "count, rare status and range": """SELECT count(*) AS n FROM events
            WHERE status = 3 AND amount BETWEEN 2500 AND 4999""",
        "sum(int), 1 % flag": "SELECT sum(amount) AS total FROM events WHERE flag",
        "avg(float), 15 % status": "SELECT avg(price) AS mean FROM events WHERE status = 1",
        "sum(float) by 4": "SELECT status, sum(price) AS total FROM events GROUP BY status ORDER BY status",
        "count by 200": "SELECT key, count(*) AS n FROM events GROUP BY key ORDER BY key",
        "min, max(time), 10 % range": """SELECT min(ts) AS first, max(ts) AS last FROM events
            WHERE amount >= 9000""",
        "count(distinct int)": "SELECT count(DISTINCT amount) AS n FROM events",
        "sum(float * int), a fifth of the time": f"""SELECT sum(price * amount) AS total FROM events
            WHERE ts >= TIMESTAMP '{start}' AND ts < TIMESTAMP '{end}'""",
        "top 10 of 200 by sum(int)": """SELECT key, sum(amount) AS total FROM events
            GROUP BY key ORDER BY total DESC, key LIMIT 10""",
        "avg(nullable float), two of 4 statuses": "SELECT avg(score) AS mean FROM events WHERE status IN (1, 2)",
        "count, three conditions, the last of 200": """SELECT count(*) AS n FROM events
            WHERE flag AND status = 2 AND key = 7""",
        "sum(float) by 200": "SELECT key, sum(price) AS total FROM events GROUP BY key ORDER BY key",
        "sum(float), 1 % flag": "SELECT sum(price) AS total FROM events WHERE flag",
        "sum(float), 99 % flag": "SELECT sum(price) AS total FROM events WHERE NOT flag",
    }


def small(rows):
    """Questions about `rows` events that few of them answer: what is left is the way there and back."""
    start = data.EVENTS_START + int(rows * data.EVENTS_GAP_US * 0.5)
    instant = [str(time).replace("T", " ") for time in (start, start + 1000)]
    of_instant = f"ts >= TIMESTAMP '{instant[0]}' AND ts < TIMESTAMP '{instant[1]}'"
    return {
        "how many there are": "SELECT count(*) AS n FROM events",
        "sum of an instant": f"SELECT sum(amount) AS total FROM events WHERE {of_instant}",
        "rows of an instant": f"SELECT ts, key, amount FROM events WHERE {of_instant}",
    }


# H2O's db-benchmark, the questions of sums, means and extremes.
GROUPS = {
    "q1": "SELECT id1, sum(v1) AS v1 FROM groups GROUP BY id1",
    "q2": "SELECT id1, id2, sum(v1) AS v1 FROM groups GROUP BY id1, id2",
    "q3": "SELECT id3, sum(v1) AS v1, avg(v3) AS v3 FROM groups GROUP BY id3",
    "q4": "SELECT id4, avg(v1) AS v1, avg(v2) AS v2, avg(v3) AS v3 FROM groups GROUP BY id4",
    "q5": "SELECT id6, sum(v1) AS v1, sum(v2) AS v2, sum(v3) AS v3 FROM groups GROUP BY id6",
    "q7": "SELECT id3, max(v1) - min(v2) AS spread FROM groups GROUP BY id3",
    "q10": """SELECT id1, id2, id3, id4, id5, id6, sum(v3) AS v3, count(*) AS n FROM groups
        GROUP BY id1, id2, id3, id4, id5, id6""",
}

TPCH = {
    "Q1": """SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity, sum(l_extendedprice) AS base_price,
            sum(l_extendedprice * (1 - l_discount)) AS disc_price,
            sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charge,
            avg(l_quantity) AS avg_quantity, avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_discount,
            count(*) AS lines
        FROM lineitem WHERE l_shipdate <= DATE '1998-09-02'
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    "Q6": """SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
            AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    "Q12's lines": """SELECT l_shipmode, count(*) AS lines FROM lineitem
        WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
            AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'
        GROUP BY l_shipmode ORDER BY l_shipmode""",
    "Q18's orders": """SELECT l_orderkey, sum(l_quantity) AS quantity FROM lineitem
        GROUP BY l_orderkey HAVING sum(l_quantity) > 300 ORDER BY l_orderkey""",
    "Q15's suppliers": """SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem
        WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01'
        GROUP BY l_suppkey ORDER BY revenue DESC, l_suppkey LIMIT 10""",
    "Q4's orders": """SELECT o_orderpriority, count(*) AS orders FROM orders
        WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
        GROUP BY o_orderpriority ORDER BY o_orderpriority""",
    "Q13's comments": "SELECT count(*) AS n FROM orders WHERE NOT o_comment LIKE '%special%requests%'",
    "one order": """SELECT l_linenumber, l_partkey, l_quantity, l_shipmode FROM lineitem
        WHERE l_orderkey = 29158 ORDER BY l_linenumber""",
    "count(distinct), text": "SELECT count(DISTINCT o_clerk) AS clerks FROM orders",
    "one of four texts": "SELECT count(*) AS n, avg(l_tax) AS tax FROM lineitem WHERE l_shipinstruct = 'COLLECT COD'",
}

SSB = {
    "Q1.1": """SELECT sum(lo_extendedprice * lo_discount) AS revenue FROM lineorder
        WHERE d_year = 1993 AND lo_discount BETWEEN 1 AND 3 AND lo_quantity < 25""",
    "Q1.2": """SELECT sum(lo_extendedprice * lo_discount) AS revenue FROM lineorder
        WHERE d_yearmonthnum = 199401 AND lo_discount BETWEEN 4 AND 6 AND lo_quantity BETWEEN 26 AND 35""",
    "Q1.3": """SELECT sum(lo_extendedprice * lo_discount) AS revenue FROM lineorder
        WHERE d_weeknuminyear = 6 AND d_year = 1994
            AND lo_discount BETWEEN 5 AND 7 AND lo_quantity BETWEEN 26 AND 35""",
    "Q2.1": """SELECT d_year, p_brand1, sum(lo_revenue) AS revenue FROM lineorder
        WHERE p_category = 'MFGR#12' AND s_region = 'AMERICA'
        GROUP BY d_year, p_brand1 ORDER BY d_year, p_brand1""",
    "Q2.2": """SELECT d_year, p_brand1, sum(lo_revenue) AS revenue FROM lineorder
        WHERE p_brand1 BETWEEN 'MFGR#2221' AND 'MFGR#2228' AND s_region = 'ASIA'
        GROUP BY d_year, p_brand1 ORDER BY d_year, p_brand1""",
    "Q2.3": """SELECT d_year, p_brand1, sum(lo_revenue) AS revenue FROM lineorder
        WHERE p_brand1 = 'MFGR#2239' AND s_region = 'EUROPE'
        GROUP BY d_year, p_brand1 ORDER BY d_year, p_brand1""",
    "Q3.1": """SELECT c_nation, s_nation, d_year, sum(lo_revenue) AS revenue FROM lineorder
        WHERE c_region = 'ASIA' AND s_region = 'ASIA' AND d_year >= 1992 AND d_year <= 1997
        GROUP BY c_nation, s_nation, d_year ORDER BY d_year, revenue DESC, c_nation, s_nation""",
    "Q3.2": """SELECT c_city, s_city, d_year, sum(lo_revenue) AS revenue FROM lineorder
        WHERE c_nation = 'UNITED STATES' AND s_nation = 'UNITED STATES' AND d_year >= 1992 AND d_year <= 1997
        GROUP BY c_city, s_city, d_year ORDER BY d_year, revenue DESC, c_city, s_city""",
    "Q3.3": """SELECT c_city, s_city, d_year, sum(lo_revenue) AS revenue FROM lineorder
        WHERE c_city IN ('UNITED KINGDOM 1', 'UNITED KINGDOM 5')
            AND s_city IN ('UNITED KINGDOM 1', 'UNITED KINGDOM 5') AND d_year >= 1992 AND d_year <= 1997
        GROUP BY c_city, s_city, d_year ORDER BY d_year, revenue DESC, c_city, s_city""",
    "Q3.4": """SELECT c_city, s_city, d_year, sum(lo_revenue) AS revenue FROM lineorder
        WHERE c_city IN ('UNITED KINGDOM 1', 'UNITED KINGDOM 5')
            AND s_city IN ('UNITED KINGDOM 1', 'UNITED KINGDOM 5') AND d_yearmonthnum = 199712
        GROUP BY c_city, s_city, d_year ORDER BY d_year, revenue DESC, c_city, s_city""",
    "Q4.1": """SELECT d_year, c_nation, sum(lo_revenue - lo_supplycost) AS profit FROM lineorder
        WHERE c_region = 'AMERICA' AND s_region = 'AMERICA' AND p_mfgr IN ('MFGR#1', 'MFGR#2')
        GROUP BY d_year, c_nation ORDER BY d_year, c_nation""",
    "Q4.2": """SELECT d_year, s_nation, p_category, sum(lo_revenue - lo_supplycost) AS profit FROM lineorder
        WHERE c_region = 'AMERICA' AND s_region = 'AMERICA' AND d_year IN (1997, 1998)
            AND p_mfgr IN ('MFGR#1', 'MFGR#2')
        GROUP BY d_year, s_nation, p_category ORDER BY d_year, s_nation, p_category""",
    "Q4.3": """SELECT d_year, s_city, p_brand1, sum(lo_revenue - lo_supplycost) AS profit FROM lineorder
        WHERE s_nation = 'UNITED STATES' AND d_year IN (1997, 1998) AND p_category = 'MFGR#14'
        GROUP BY d_year, s_city, p_brand1 ORDER BY d_year, s_city, p_brand1""",
}
