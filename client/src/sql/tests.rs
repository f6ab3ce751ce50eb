use basalt_proto::v1::{self, QueryRequest};

use super::*;
use crate::expr::{
    Expr, Filter, Literal, avg, col, cols, count, count_distinct, count_of, lit, max, min, not, sum,
};
use crate::set::keys_of;

/// The request over a table of the columns a, b, c, d.
fn parse(sql: &str) -> QueryRequest {
    let request = parse_select(sql).and_then(|select| select.over(["a", "b", "c", "d"]));
    request.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

#[track_caller]
fn check_filter(condition: &str, expected: Filter) {
    let request = parse(&format!("SELECT a FROM t WHERE {condition}"));
    assert_eq!(request.filter, Some(expected.into()), "{condition}");
}

#[track_caller]
fn check_select(list: &str, expected: impl IntoIterator<Item = Expr>) {
    let request = parse(&format!("SELECT {list} FROM t"));
    let expected: Vec<v1::SelectItem> = expected.into_iter().map(Into::into).collect();
    assert_eq!(request.select, expected, "{list}");
}

#[track_caller]
fn check_groups(sql: &str, expected: impl IntoIterator<Item = Expr>) {
    let expected: Vec<v1::Expr> = expected.into_iter().map(Into::into).collect();
    assert_eq!(parse(sql).group_by, expected, "{sql}");
}

#[track_caller]
fn check_order(sql: &str, expected: impl IntoIterator<Item = crate::OrderBy>) {
    let expected: Vec<v1::OrderBy> = expected.into_iter().map(|key| key.of_table().into()).collect();
    assert_eq!(parse(sql).order_by, expected, "{sql}");
}

#[track_caller]
fn check_error(sql: &str, expected: &str) {
    assert_eq!(parse_select(sql).map_err(|e| e.to_string()), Err(expected.to_owned()), "{sql}");
}

#[test]
fn conditions() {
    let a = || col("a");
    let b = || col("b");
    check_filter("a = 1", a().eq(1));
    check_filter("a <> 1", a().ne(1));
    check_filter("a != 1", a().ne(1));
    check_filter("1 < a", lit(1).lt(a()));
    check_filter("a <= -5", a().le(-5));
    check_filter("a > b + 1", a().gt(b() + 1));
    check_filter("a >= 'x'", a().ge("x"));
    check_filter("a = 'it''s'", a().eq("it's"));
    check_filter("a = NULL", a().eq(Literal::null()));
    check_filter("a BETWEEN 1 AND b", a().between(1, b()));
    check_filter("a NOT BETWEEN -10 AND 10", not(a().between(-10, 10)));
    check_filter("a IN (1, -2, NULL)", a().is_in([Some(1), Some(-2), None]));
    check_filter("a NOT IN ('x', 'y')", not(a().is_in(["x", "y"])));
    check_filter("a LIKE 'N%'", a().like("N%"));
    check_filter(r"a NOT LIKE '50\%' ESCAPE '\'", not(a().like(r"50\%")));
    check_filter("a IS NULL", a().is_null());
    check_filter("a IS NOT NULL", a().is_not_null());
    check_filter("a", a().eq(true));
    check_filter("NOT t.a", not(a().eq(true)));
    check_filter("NOT (NOT a = 1)", a().eq(1));
    check_filter("true", Filter::constant(true));
    check_filter("\"Weird name\" = 1", col("Weird name").eq(1));
}

#[test]
fn precedence_of_conditions() {
    let f = |name: &str| col(name).eq(1);
    check_filter("a = 1 AND b = 1 AND c = 1", Filter::all([f("a"), f("b"), f("c")]));
    check_filter("a = 1 OR b = 1 AND c = 1", f("a").or(f("b").and(f("c"))));
    check_filter("(a = 1 OR b = 1) AND c = 1", f("a").or(f("b")).and(f("c")));
    check_filter("NOT a = 1 AND b = 1", not(f("a")).and(f("b")));
    let long = vec!["a = 1"; 4000].join(" AND ");
    check_filter(&long, Filter::all(vec![f("a"); 4000]));
    check_filter(&format!("a IN ({})", vec!["-1"; 9000].join(", ")), col("a").is_in([-1; 9000]));
    assert!(parse_select(&format!("SELECT a FROM t WHERE {}", vec!["a"; 100_000].join(" OR "))).is_err());
    assert!(parse_select(&format!("SELECT {} FROM t", vec!["a"; 100_000].join(" - "))).is_err());
}

#[test]
fn literals() {
    check_filter("a = 0.05", col("a").eq(Literal::decimal(5, 2)));
    check_filter("a = -12.50", col("a").eq(Literal::decimal(-1250, 2)));
    check_filter("a = 1e3", col("a").eq(1e3));
    check_filter("a = 9223372036854775807", col("a").eq(i64::MAX));
    check_filter("a = -9223372036854775808", col("a").eq(i64::MIN));
    check_filter("a = 18446744073709551615", col("a").eq(u64::MAX));
    check_filter("a = true", col("a").eq(true));
    check_filter("a >= DATE '2013-07-04'", col("a").ge(Literal::date(15_890)));
    check_filter("a < TIMESTAMP '1970-01-01T00:00:01Z'", col("a").lt(Literal::timestamp(1_000_000)));
    check_filter("a < TIMESTAMP '1970-01-02'", col("a").lt(Literal::timestamp(86_400_000_000)));
    check_filter("a IN (0.5, 10)", col("a").is_in([Literal::decimal(5, 1), 10.into()]));
}

#[test]
fn select_lists() {
    check_select("*", []);
    check_select("a, b AS again, \"c d\"", [col("a"), col("b").alias("again"), col("c d")]);
    check_select("count(*), COUNT(a) n", [count(), count_of(col("a")).alias("n")]);
    check_select(
        "count(DISTINCT a), sum(a), min(a)",
        [count_distinct(col("a")), sum(col("a")), min(col("a"))],
    );
    check_select("max(DISTINCT a), avg(a * b)", [max(col("a")), avg(col("a") * col("b"))]);
    check_select("a + b * 2 - c / 4", [col("a") + col("b") * 2 - col("c") / 4]);
    check_select("(a + b) * 2, a - (b - 1)", [(col("a") + col("b")) * 2, col("a") - (col("b") - 1)]);
    check_select("-a, -(1), +a, -a + 2", [lit(0) - col("a"), lit(-1), col("a"), lit(0) - col("a") + 2]);
    check_select("sum(a) / count(*) * -1", [sum(col("a")) / count() * -1]);
    check_select("a AS b, b AS a", [col("a").alias("b"), col("b").alias("a")]);
}

#[test]
fn groups() {
    check_groups("SELECT a, count(*) FROM t GROUP BY a, b", cols(["a", "b"]));
    check_groups("SELECT a + 1 AS x FROM t GROUP BY x", [col("a") + 1]);
    check_groups("SELECT count(*), a * 2 FROM t GROUP BY 2", [col("a") * 2]);
    check_groups("SELECT count(*), a * 2 FROM t GROUP BY (2)", [col("a") * 2]);
    check_groups("SELECT a, sum(b) / 2, c - d AS e FROM t GROUP BY ALL", [col("a"), col("c") - col("d")]);
    check_groups("SELECT DISTINCT a, b FROM t", cols(["a", "b"]));
}

#[test]
fn names_that_two_things_have() {
    // The table's column before the select list's name in GROUP BY, alone and inside an expression.
    check_groups("SELECT a AS b FROM t GROUP BY b, a", cols(["b", "a"]));
    check_groups("SELECT sum(a) AS b FROM t GROUP BY b", [col("b")]);
    check_groups("SELECT a + 1 AS a FROM t GROUP BY a + 1", [col("a") + 1]);
    check_groups("SELECT a + 1 AS x FROM t GROUP BY x + b", [col("a") + 1 + col("b")]);
    // The select list's name before the column in ORDER BY, unless inside an expression.
    check_order(
        "SELECT -a AS b FROM t ORDER BY b, (b) DESC",
        [(lit(0) - col("a")).asc(), (lit(0) - col("a")).desc()],
    );
    check_order("SELECT -a AS b FROM t ORDER BY b * 2", [(col("b") * 2).asc()]);
    check_order("SELECT -a AS x FROM t ORDER BY x * 2", [((lit(0) - col("a")) * 2).asc()]);
    check_order("SELECT -a AS b FROM t ORDER BY t.b", [col("b").asc()]);
    // A column of GROUP BY, the select list's name, another column in HAVING.
    let check_having = |sql: &str, expected: Filter| {
        assert_eq!(parse(sql).having, Some(expected.into()), "{sql}");
    };
    check_having(
        "SELECT sum(b) AS b FROM t GROUP BY a HAVING b > 5 AND sum(b) < 9",
        sum(col("b")).gt(5).and(sum(col("b")).lt(9)),
    );
    check_having("SELECT sum(b) AS b FROM t GROUP BY b HAVING b > 5", col("b").gt(5));
    check_having("SELECT a AS b FROM t GROUP BY 1 HAVING b > 5", col("a").gt(5));
    // The table's columns alone in WHERE and inside aggregates.
    let request = parse("SELECT a AS b, sum(b) FROM t WHERE b = 1 GROUP BY a ORDER BY max(b)");
    assert_eq!(request.filter, Some(col("b").eq(1).into()));
    assert_eq!(request.order_by, [max(col("b")).asc().of_table().into()]);

    // Only where it matters is the table asked.
    let needs = |sql: &str| parse_select(sql).unwrap().needs_columns();
    for sql in [
        "SELECT a AS a, count(*) AS n FROM t GROUP BY a ORDER BY n",
        "SELECT b AS a FROM t ORDER BY a",
        "SELECT b AS x FROM t WHERE x = 1 ORDER BY t.a + 1",
        "SELECT sum(b) AS b FROM t GROUP BY a HAVING b > 5",
    ] {
        assert!(!needs(sql), "{sql}");
    }
    for sql in ["SELECT a AS x FROM t GROUP BY x", "SELECT a AS x FROM t ORDER BY x + 1"] {
        assert!(needs(sql), "{sql}");
    }
    check_order("SELECT a AS x, a AS x FROM t ORDER BY x", [col("a").asc()]);
    check_groups("SELECT a AS d, b AS d FROM t GROUP BY d", [col("d")]);
    let two = parse_select("SELECT a AS x, b AS x FROM t GROUP BY x").unwrap().over(["a", "b"]);
    assert_eq!(two.unwrap_err().to_string(), "x names two columns of the select list (line 1, column 39)");
    check_error(
        "SELECT a AS x, b AS x FROM t ORDER BY x",
        "x names two columns of the select list (line 1, column 39)",
    );
}

#[test]
fn distinct_is_of_rows() {
    check_groups("SELECT DISTINCT count(*), sum(a) * 2, 7 FROM t", []);
    check_groups("SELECT DISTINCT a, b + 1 AS x FROM t ORDER BY x", [col("a"), col("b") + 1]);
    let loose = "stands neither in GROUP BY nor inside an aggregate";
    for (sql, expected) in [
        ("SELECT DISTINCT k, count(*) FROM t", format!("`k` {loose} (line 1, column 17)")),
        ("SELECT DISTINCT count(*),\n k.x AS z FROM t", format!("`k.x` {loose} (line 2, column 2)")),
        ("SELECT DISTINCT sum(a) / b FROM t", format!("`sum(a) / b` {loose} (line 1, column 17)")),
        ("SELECT DISTINCT a FROM t HAVING a > 1", format!("`a` {loose} (line 1, column 17)")),
        ("SELECT DISTINCT a FROM t ORDER BY count(*)", format!("`a` {loose} (line 1, column 17)")),
    ] {
        check_error(sql, &expected);
    }
}

#[test]
fn orders_and_limits() {
    check_order("SELECT a FROM t ORDER BY a, b DESC", [col("a").asc(), col("b").desc()]);
    check_order("SELECT a FROM t ORDER BY a NULLS FIRST", [col("a").asc().nulls_first()]);
    check_order("SELECT a FROM t ORDER BY a DESC NULLS LAST", [col("a").desc()]);
    check_order(
        "SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY n DESC, 1",
        [count().desc(), col("a").asc()],
    );
    check_order("SELECT a FROM t GROUP BY a ORDER BY count(*) * -1", [(count() * -1).asc()]);

    let limits = |sql: &str| {
        let request = parse(sql);
        (request.limit, request.offset)
    };
    assert_eq!(limits("SELECT a FROM t"), (None, 0));
    assert_eq!(limits("SELECT a FROM t LIMIT 0"), (Some(0), 0));
    assert_eq!(limits("SELECT a FROM t LIMIT 7 OFFSET 5"), (Some(7), 5));
    assert_eq!(limits("SELECT a FROM t OFFSET 5"), (None, 5));
}

#[test]
fn what_is_not_supported_is_named() {
    for (sql, expected) in [
        (
            "SELECT a FROM t JOIN u ON t.a = u.a",
            "JOIN (column IN (SELECT ...) filters by another table) is not supported (line 1, column 22)",
        ),
        ("SELECT a FROM t, u", "more than one table is not supported (line 1, column 18)"),
        ("SELECT a FROM t UNION SELECT a FROM u", "UNION is not supported (line 1, column 23)"),
        ("WITH x AS (SELECT 1) SELECT a FROM x", "WITH is not supported (line 1, column 1)"),
        ("SELECT lower(a) FROM t", "the function lower is not supported (line 1, column 8)"),
        ("SELECT a % 2 FROM t", "the operator % is not supported (line 1, column 8)"),
        ("SELECT a > 2 FROM t", "the condition `a > 2` as a value is not supported (line 1, column 8)"),
        (
            "SELECT a\nFROM t\nWHERE CASE WHEN a THEN b END",
            "`CASE WHEN a THEN b END` is not supported (line 3, column 7)",
        ),
        ("SELECT a FROM t WHERE a IN (b)", "`b` in a list of literals is not supported (line 1, column 29)"),
        (
            "SELECT a FROM t WHERE a = (SELECT b FROM u)",
            "`(SELECT b FROM u)` is not supported (line 1, column 28)",
        ),
        ("SELECT *, a FROM t", "`*` together with anything else is not supported (line 1, column 8)"),
        ("SELECT DISTINCT ON (a) b FROM t", "DISTINCT ON is not supported (line 1, column 1)"),
        ("SELECT sum(DISTINCT a) FROM t", "sum(DISTINCT ...) is not supported (line 1, column 8)"),
        ("SELECT sum(a) OVER () FROM t", "OVER is not supported (line 1, column 8)"),
        ("SELECT count(*) FILTER (WHERE a = 1) FROM t", "FILTER is not supported (line 1, column 8)"),
        ("DROP TABLE t", "DROP is not supported"),
    ] {
        check_error(sql, expected);
        assert!(parse_select(sql).unwrap_err().is_unsupported(), "{sql}");
    }
}

#[test]
fn semi_joins() {
    let keys = || keys_of("u", "k");
    check_filter("a IN (SELECT k FROM u)", col("a").in_keys(keys()));
    check_filter("a NOT IN (SELECT k FROM u)", not(col("a").in_keys(keys())));
    check_filter("NOT a NOT IN (SELECT k FROM u)", col("a").in_keys(keys()));
    check_filter("t.a IN (SELECT DISTINCT v.k AS x FROM u AS v)", col("a").in_keys(keys()));
    let some = keys().filter(col("b").lt(5).and(col("k").is_not_null()));
    check_filter("a IN (SELECT k FROM u WHERE u.b < 5 AND k IS NOT NULL)", col("a").in_keys(some.clone()));
    check_filter(
        "a IN (1, 2) OR \"A\" IN (SELECT k FROM u WHERE b < 5 AND k IS NOT NULL)",
        col("a").is_in([1, 2]).or(col("A").in_keys(some)),
    );
    check_filter(
        "a IN (SELECT k FROM u WHERE c NOT IN (SELECT a FROM t WHERE t.b = 'x'))",
        col("a").in_keys(keys().filter(not(col("c").in_keys(keys_of("t", "a").filter(col("b").eq("x")))))),
    );

    let in_u = |query: &str| format!("SELECT a FROM t WHERE a IN ({query})");
    for (sql, expected) in [
        (
            in_u("SELECT k + 1 FROM u"),
            "a set of anything but one column is not supported (line 1, column 36)",
        ),
        (in_u("SELECT k, b FROM u"), "a set of anything but one column is not supported (line 1, column 36)"),
        (
            in_u("SELECT count(*) FROM u"),
            "a set of anything but one column is not supported (line 1, column 36)",
        ),
        (
            in_u("SELECT * FROM u"),
            "IN (SELECT *), which takes one column, is not supported (line 1, column 29)",
        ),
        (in_u("SELECT k FROM u GROUP BY k"), "GROUP BY in a set is not supported (line 1, column 29)"),
        (in_u("SELECT k FROM u HAVING k > 1"), "HAVING in a set is not supported (line 1, column 29)"),
        (in_u("SELECT k FROM u ORDER BY k"), "ORDER BY in a set is not supported (line 1, column 29)"),
        (in_u("SELECT k FROM u LIMIT 5"), "LIMIT or OFFSET in a set is not supported (line 1, column 29)"),
        (in_u("SELECT k FROM u UNION SELECT k FROM v"), "UNION is not supported (line 1, column 51)"),
        (
            in_u("SELECT k FROM u WHERE b = t.b"),
            "a column of \"t\", the query around, here is not supported (line 1, column 55)",
        ),
        (
            "SELECT a FROM t WHERE a + 1 IN (SELECT k FROM u)".to_owned(),
            "`a + 1` IN (SELECT ...), which takes a column, is not supported (line 1, column 23)",
        ),
        (
            "SELECT a FROM t WHERE\n  EXISTS (SELECT k FROM u)".to_owned(),
            "EXISTS (column IN (SELECT ...) does the same) is not supported (line 2, column 11)",
        ),
        (
            "SELECT a FROM t GROUP BY a HAVING a IN (SELECT k FROM u)".to_owned(),
            "IN (SELECT ...) outside WHERE is not supported (line 1, column 35)",
        ),
    ] {
        check_error(&sql, expected);
        assert!(parse_select(&sql).unwrap_err().is_unsupported(), "{sql}");
    }
    check_error(
        &in_u("SELECT v.k FROM u"),
        "a set of anything but one column is not supported (line 1, column 36)",
    );
    let nested = |depth| {
        format!(
            "SELECT a FROM t WHERE {}a = 1{}",
            "a IN (SELECT a FROM t WHERE ".repeat(depth),
            ")".repeat(depth)
        )
    };
    assert!(parse_select(&nested(16)).is_ok());
    assert_eq!(parse_select(&nested(500)).unwrap_err().message(), "the query is nested too deeply");
}

#[test]
fn selections() {
    let check = |sql: &str, key: Option<&str>, filter: Option<Filter>| {
        let expected =
            Selection { table: "t".to_owned(), version: None, key: key.map(str::to_owned), filter };
        assert_eq!(parse_selection(sql), Ok(expected), "{sql}");
    };
    check("SELECT * FROM t", None, None);
    check("SELECT * FROM t WHERE a > 5;", None, Some(col("a").gt(5)));
    check("SELECT a FROM t", Some("a"), None);
    let semi = col("b").in_keys(keys_of("u", "k"));
    check("SELECT DISTINCT x.a FROM t AS x WHERE b IN (SELECT k FROM u)", Some("a"), Some(semi));
    let error = parse_selection("SELECT a, b FROM t").unwrap_err();
    assert_eq!(error.to_string(), "a set of anything but one column is not supported (line 1, column 8)");
}

#[test]
fn versions_of_tables() {
    let version = |sql: &str| parse(sql).version;
    assert_eq!(version("SELECT a FROM t"), None);
    for sql in [
        "SELECT a FROM t FOR VERSION AS OF 12",
        "select a from t for version as of 12 where a > 5 order by a limit 3",
        "SELECT x.a FROM t FOR VERSION\n AS /* not */ OF 12 AS x WHERE x.b = 1",
        "SELECT x.a FROM t FOR VERSION AS OF 12 x",
        "SELECT x.a FROM t AS x FOR VERSION AS OF 12 GROUP BY x.a",
        "SELECT a FROM \"t\" FOR VERSION AS OF 12;",
    ] {
        assert_eq!(version(sql), Some(12), "{sql}");
        assert_eq!(parse(sql).table, "t", "{sql}");
    }
    assert_eq!(version("SELECT a FROM t FOR VERSION AS OF 18446744073709551615"), Some(u64::MAX));
    // Where columns must be known it is read once more.
    let sql = "SELECT a / 100 AS b, count(*) FROM t FOR VERSION AS OF 7 GROUP BY b";
    assert!(parse_select(sql).unwrap().needs_columns());
    assert_eq!(version(sql), Some(7));
    // Each table has its own.
    let request = parse(
        "SELECT a FROM t FOR VERSION AS OF 3 WHERE a IN (SELECT k FROM u FOR VERSION AS OF 5 WHERE v = 1)",
    );
    assert_eq!(request.version, Some(3));
    let joined = col("a").in_keys(keys_of("u", "k").version(5).filter(col("v").eq(1)));
    assert_eq!(request.filter, Some(joined.into()));
    let selection = parse_selection("SELECT * FROM t FOR VERSION AS OF 9 WHERE a > 5").unwrap();
    assert_eq!((selection.table.as_str(), selection.version), ("t", Some(9)));
    // These words alone are names like others.
    assert_eq!(parse("SELECT a AS version FROM t").select[0].name, "version");
    assert_eq!(version("SELECT version.a FROM t version"), None);

    let number = "FOR VERSION AS OF takes a version's number, not";
    let place = "FOR VERSION AS OF stands behind the name of a table in FROM";
    for (sql, expected) in [
        ("SELECT a FROM t FOR VERSION AS OF", format!("{number} `the end` (line 1, column 17)")),
        ("SELECT a FROM t FOR VERSION AS OF x", format!("{number} `x` (line 1, column 35)")),
        ("SELECT a FROM t\n FOR VERSION AS OF '12'", format!("{number} `'12'` (line 2, column 20)")),
        ("SELECT a FROM t FOR VERSION AS OF -1", format!("{number} `-` (line 1, column 35)")),
        ("SELECT a FROM t FOR VERSION AS OF 1.5", format!("{number} `1.5` (line 1, column 35)")),
        (
            "SELECT a FROM t FOR VERSION AS OF 18446744073709551616",
            format!("{number} `18446744073709551616` (line 1, column 35)"),
        ),
        ("SELECT a FROM t WHERE a = 1 FOR VERSION AS OF 1", format!("{place} (line 1, column 29)")),
        ("SELECT a FOR VERSION AS OF 1 FROM t", format!("{place} (line 1, column 10)")),
        ("FOR VERSION AS OF 1 SELECT a FROM t", format!("{place} (line 1, column 1)")),
        (
            "SELECT a FROM t FOR VERSION AS OF 1 FOR VERSION AS OF 2",
            "FOR VERSION AS OF stands here twice (line 1, column 37)".to_owned(),
        ),
        (
            "SELECT a FROM t FOR VERSION AS OF 1 AS x FOR VERSION AS OF 2",
            "FOR VERSION AS OF stands at this table twice (line 1, column 42)".to_owned(),
        ),
    ] {
        check_error(sql, &expected);
    }
}

#[test]
fn mistakes_are_located() {
    check_error("", "there is no query");
    check_error("SELECT a FROM t; SELECT b FROM t", "there is more than one statement");
    check_error("SELECT 1", "FROM is missing: which table? (line 1, column 1)");
    check_error("SELECT a FROM t WHERE a + 1", "`a + 1` is not a condition (line 1, column 23)");
    check_error("SELECT a FROM t WHERE u.a.b = 1", "no table \"u\" in this query (line 1, column 23)");
    check_error(
        "SELECT a FROM t ORDER BY 2",
        "ORDER BY 2: the select list has 1 columns (line 1, column 26)",
    );
    check_error(
        "SELECT a FROM t GROUP BY 0",
        "GROUP BY 0: the select list has 1 columns (line 1, column 26)",
    );
    check_error(
        "SELECT a FROM t ORDER BY (-1)",
        "ORDER BY `-1`: a literal is neither a position nor a name (line 1, column 28)",
    );
    check_error(
        "SELECT count(*) FROM t GROUP BY 'a'",
        "GROUP BY `'a'`: a literal is neither a position nor a name (line 1, column 33)",
    );
    check_error("SELECT FROM t", "the select list is empty: which columns? (line 1, column 1)");
    check_error("SELECT DISTINCT FROM t", "the select list is empty: which columns? (line 1, column 1)");
    check_error("SELECT a FROM t LIMIT 1.5", "LIMIT takes a number of rows, not `1.5` (line 1, column 23)");
    check_error("SELECT sum(a, b) FROM t", "sum takes one argument (line 1, column 8)");
    check_error(
        "SELECT a FROM t WHERE d = DATE '2013-02-30'",
        "\"2013-02-30\" is not a date like 2013-07-04 (line 1, column 32)",
    );
    let error = parse_select("SELECT a\nFROM t WHERE").unwrap_err();
    assert!(error.to_string().starts_with("expected an expression, found EOF"), "{error}");
    for (begin, end) in [("cast(", " as int)"), ("ceil(", ")"), ("array[", "]"), ("substring(", " from 1)")] {
        let faulty = format!("SELECT {}1 +{} FROM t", begin.repeat(30), end.repeat(30));
        assert_eq!(parse_select(&faulty).unwrap_err().message(), "the query is nested too deeply", "{begin}");
    }
    let nested = |depth| format!("SELECT a FROM t WHERE {}a{} = 1", "(".repeat(depth), ")".repeat(depth));
    assert!(parse_select(&nested(10)).is_ok());
    check_error(&nested(500), "the query is nested too deeply (line 1, column 63)");
    let nots = |depth| format!("SELECT a FROM t WHERE {}a = 1", "not ".repeat(depth));
    assert!(parse_select(&nots(40)).is_ok());
    for depth in [41, 100, 4000] {
        check_error(&nots(depth), "the query is nested too deeply (line 1, column 183)");
    }
    let mixed = |depth| {
        format!("SELECT a FROM t WHERE {}a{}", "NOT (a OR b AND NOT ".repeat(depth), ")".repeat(depth))
    };
    assert!(parse_select(&mixed(13)).is_ok());
    let error = parse_select(&mixed(14)).unwrap_err();
    assert_eq!(error.message(), "the query is nested too deeply");
    check_filter(&vec!["NOT a NOT IN (1)"; 100].join(" AND "), Filter::all(vec![col("a").is_in([1]); 100]));
    assert!(parse_select(&format!("SELECT a FROM t WHERE {}a = 1", "a + ".repeat(4000))).is_err());
    assert!(parse_select(&format!("SELECT {}a = 1 FROM t", "a AND ".repeat(4000))).is_err());
}

#[test]
fn excerpts_point_at_the_place() {
    let sql = "SELECT a\nFROM t JOIN u ON true";
    let error = parse_select(sql).unwrap_err();
    assert_eq!(error.excerpt(sql), "  FROM t JOIN u ON true\n              ^");

    let marked = |names: usize, more: usize| {
        let sql = format!("SELECT {}é % 2{} FROM t", "a, ".repeat(names), ", b".repeat(more));
        parse_select(&sql).unwrap_err().excerpt(&sql)
    };
    let check = |excerpt: &str, starts: bool, ends: bool| {
        let (line, mark) = excerpt.split_once('\n').unwrap();
        assert_eq!(line.chars().nth(mark.chars().count() - 1), Some('é'), "{excerpt}");
        assert_eq!((line.starts_with("  …"), line.ends_with('…')), (starts, ends), "{excerpt}");
        assert_eq!(line.chars().count(), 102 + usize::from(starts) + usize::from(ends), "{excerpt}");
    };
    check(&marked(0, 100), false, true);
    check(&marked(100, 100), true, true);
    check(&marked(100, 0), true, false);
}
