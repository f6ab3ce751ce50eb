//! Where an answer differs from another database's by a decision: the rows of the table of semantics in `sql/README.md`.

use std::sync::LazyLock;

use sqlparser::{
    ast::{Expr, OrderByExpr, OrderByKind, Query, VisitMut as _, VisitorMut, WindowType},
    dialect::DuckDbDialect,
    parser::Parser,
};

/// Whether the value of a file and ours may be the answers of the two databases to the same question.
type Relation = fn(&str, &str) -> bool;

/// How two values may differ, and by which row of the table.
pub(crate) const RELATIONS: [(Relation, &str); 8] = [
    (zero_character, "the character 0 is shown as it is"),
    (separated, "a whole number is written without `_`"),
    (at_midnight, "a date and whole days make a date"),
    (bytes, "binary is shown in hexadecimal digits"),
    (types, "whole numbers are int64, decimals have 38 digits"),
    (undefined, "what is undefined is NULL"),
    (precision, "times have nanoseconds, timestamps microseconds"),
    (before_christ, "years before 1 are numbers"),
];

fn zero_character(ours: &str, expected: &str) -> bool {
    ours.replace('\0', "\\0") == expected
}

fn separated(ours: &str, expected: &str) -> bool {
    ours.parse::<i128>().is_ok() && expected.replace('_', "") == ours
}

/// A date for a timestamp at midnight.
fn at_midnight(ours: &str, expected: &str) -> bool {
    expected.strip_suffix(" 00:00:00").is_some_and(|date| date == ours && date.len() == 10)
}

/// Hexadecimal digits for `\\xAA` and characters of ASCII.
fn bytes(ours: &str, expected: &str) -> bool {
    let mut hex = String::new();
    let mut rest = expected;
    while let Some(c) = rest.chars().next() {
        match rest.strip_prefix("\\x").and_then(|rest| rest.get(..2)) {
            Some(digits) => {
                hex.push_str(&digits.to_lowercase());
                rest = &rest[4..];
            }
            None if c.is_ascii() => {
                hex.push_str(&format!("{:02x}", u32::from(c)));
                rest = &rest[1..];
            }
            None => return false,
        }
    }
    ours == hex
}

/// Names of types that differ by how wide whole numbers are, and by how many digits decimals have.
fn types(ours: &str, expected: &str) -> bool {
    const WHOLE: [&str; 9] =
        ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "INT"];
    const KNOWN: [&str; 16] = [
        "STRUCT",
        "MAP",
        "LIST",
        "VARCHAR",
        "BOOLEAN",
        "DATE",
        "TIME",
        "TIMESTAMP",
        "DOUBLE",
        "FLOAT",
        "INTERVAL",
        "BLOB",
        "DECIMAL",
        "HUGEINT",
        "UHUGEINT",
        "NULL",
    ];
    let parts = |text: &str| -> Option<Vec<String>> {
        let mut parts = Vec::new();
        let mut is_type = false;
        let mut decimal = 0;
        for word in text.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_') {
            let name = word.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
            let behind = &word[name.len()..];
            let kind = match name {
                name if WHOLE.contains(&name) => "whole",
                // So many digits, of which none is behind the point.
                "HUGEINT" | "UHUGEINT" => "DECIMAL(0)",
                "DECIMAL" => {
                    decimal = 2;
                    "DECIMAL"
                }
                // Of a decimal's two numbers the first is the one that may differ.
                _ if decimal == 2 && name.parse::<u8>().is_ok() => {
                    decimal = 0;
                    parts.push("(".to_owned());
                    continue;
                }
                name => name,
            };
            is_type |= WHOLE.contains(&name) || KNOWN.contains(&name);
            parts.push(kind.to_owned());
            if decimal != 2 {
                parts.push(behind.to_owned());
            }
        }
        is_type.then_some(parts)
    };
    match (parts(ours), parts(expected)) {
        (Some(ours), Some(expected)) => ours.concat() == expected.concat(),
        _ => false,
    }
}

fn undefined(ours: &str, expected: &str) -> bool {
    ours == "NULL" && expected.eq_ignore_ascii_case("nan")
}

/// More digits of a second, or fewer: those that both have are the same.
fn precision(ours: &str, expected: &str) -> bool {
    let parts = |text: &str| -> Option<(String, String)> {
        let (before, fraction) = text.rsplit_once('.')?;
        let is_time = before.contains(':') && fraction.bytes().all(|byte| byte.is_ascii_digit());
        is_time.then(|| (before.to_owned(), fraction.to_owned()))
    };
    match (parts(ours), parts(expected)) {
        (Some((ours, fine)), Some((expected, other))) => {
            let both = fine.len().min(other.len());
            ours == expected && both >= 6 && fine[..both] == other[..both]
        }
        _ => false,
    }
}

/// The year 0 for the year 1 before Christ.
fn before_christ(ours: &str, expected: &str) -> bool {
    let ours = ours.strip_suffix("+00").unwrap_or(ours);
    let Some((date, rest)) = expected.split_once(" (BC)") else { return false };
    let Some((year, day)) = date.split_once('-') else { return false };
    let Ok(year) = year.parse::<i64>() else { return false };
    let (sign, digits) = if year > 1 { ("-", year - 1) } else { ("", 0) };
    ours == format!("{sign}{digits:04}-{day}{rest}")
}

/// Answers that were read and found to differ by a row of the table: `decided.txt` has the file, what stands for the
/// statement and for the answer, and the row.
pub(crate) fn listed(file: &str, statement: u64, answer: u64) -> Option<&'static str> {
    static LIST: LazyLock<String> = LazyLock::new(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/logic/decided.txt");
        std::fs::read_to_string(path).unwrap()
    });
    let key = format!("{statement:016x} {answer:016x} | {file} | ");
    LIST.lines().find_map(|line| line.strip_prefix(&key))
}

/// What stands for a statement and for the rows of its answer.
pub(crate) fn hashes(sql: &str, rows: &[Vec<String>], is_ordered: bool) -> (u64, u64) {
    // FNV-1a.
    let hash = |text: &str| {
        text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    let mut rows: Vec<String> = rows.iter().map(|row| row.join("\t")).collect();
    if !is_ordered {
        rows.sort();
    }
    (hash(sql), hash(&rows.join("\n")))
}

/// A statement that takes rows of no order, without its limits; `None`: it has none, or an order.
pub(crate) fn unlimited(sql: &str) -> Option<String> {
    // Which the parser does not know.
    let sql = sql.replace(" MATERIALIZED", "");
    let mut statements = Parser::parse_sql(&DuckDbDialect {}, &sql).ok()?;
    let [sqlparser::ast::Statement::Query(query)] = statements.as_mut_slice() else { return None };
    let is_limited = query.order_by.is_none() && query.limit_clause.take().is_some();
    is_limited.then(|| query.to_string())
}

/// The statement where NULLs come last in every order that does not say otherwise, as in DuckDB; `None`: it has none.
pub(crate) fn nulls_last(sql: &str) -> Option<String> {
    let mut statements = Parser::parse_sql(&DuckDbDialect {}, sql).ok()?;
    let mut last = NullsLast { changed: false };
    let _ = statements.visit(&mut last);
    last.changed.then(|| statements.first().map(ToString::to_string)).flatten()
}

/// Whether a file has rows in another order than its query asks for by NULLS FIRST of the column by which it orders
/// first: there are NULLs behind other values.
pub(crate) fn denies_nulls_first(sql: &str, expected: &[Vec<String>]) -> bool {
    let Ok(statements) = Parser::parse_sql(&DuckDbDialect {}, sql) else { return false };
    let [sqlparser::ast::Statement::Query(query)] = statements.as_slice() else { return false };
    let Some(OrderByKind::Expressions(keys)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return false;
    };
    let Some(key) = keys.first().filter(|key| key.options.nulls_first == Some(true)) else { return false };
    let Some(column) = key.expr.to_string().parse::<usize>().ok().and_then(|number| number.checked_sub(1))
    else {
        return false;
    };
    let nulls: Vec<bool> =
        expected.iter().map(|row| row.get(column).is_some_and(|value| value == "NULL")).collect();
    nulls.windows(2).any(|pair| !pair[0] && pair[1])
}

struct NullsLast {
    changed: bool,
}

impl NullsLast {
    fn keys<'a>(&mut self, keys: impl IntoIterator<Item = &'a mut OrderByExpr>) {
        for key in keys {
            if key.options.nulls_first.is_none() && key.options.asc == Some(false) {
                key.options.nulls_first = Some(false);
                self.changed = true;
            }
        }
    }
}

impl VisitorMut for NullsLast {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> std::ops::ControlFlow<()> {
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            self.keys(keys);
        }
        std::ops::ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> std::ops::ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let Some(WindowType::WindowSpec(window)) = &mut function.over
        {
            self.keys(&mut window.order_by);
        }
        std::ops::ControlFlow::Continue(())
    }
}

#[test]
fn values_differ_as_a_row_of_the_table_says() {
    let cases: [(Relation, &str, &str, bool); 20] = [
        (at_midnight, "2020-01-31", "2020-01-31 00:00:00", true),
        (at_midnight, "2020-01-30", "2020-01-31 00:00:00", false),
        (bytes, "aa2062", r"\xAA b", true),
        (bytes, "aa2063", r"\xAA b", false),
        (types, "BIGINT", "INTEGER", true),
        (types, "BIGINT[]", "INTEGER[]", true),
        (types, "DECIMAL(38,2)", "DECIMAL(18,2)", true),
        (types, "DECIMAL(38,3)", "DECIMAL(18,2)", false),
        (types, "VARCHAR", "INTEGER", false),
        (types, "5", "6", false),
        (undefined, "NULL", "nan", true),
        (undefined, "NULL", "0", false),
        (precision, "12:00:00.123456789", "12:00:00.123456", true),
        (precision, "12:00:01.123456789", "12:00:00.123456", false),
        (precision, "12:00:00.123457", "12:00:00.123456", false),
        (before_christ, "-0019-01-01", "0020-01-01 (BC)", true),
        (before_christ, "-0020-01-01", "0020-01-01 (BC)", false),
        (zero_character, "a\0b", r"a\0b", true),
        (separated, "1000", "1_000", true),
        (separated, "1001", "1_000", false),
    ];
    for (related, ours, expected, is_related) in cases {
        assert_eq!(related(ours, expected), is_related, "{ours} {expected}");
    }
}
