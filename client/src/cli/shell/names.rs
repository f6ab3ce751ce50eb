//! What the shell can complete: keywords, and the names of the server's tables and their columns.

use std::collections::BTreeMap;

use crate::{client::Client, table::Table};

/// Words of SQL that are typed often.
pub(super) const KEYWORDS: &[&str] = &[
    "ALL",
    "ALTER",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BIGINT",
    "BOOLEAN",
    "BY",
    "CASE",
    "CAST",
    "COALESCE",
    "COLUMN",
    "COPY",
    "CREATE",
    "CROSS",
    "DATE",
    "DECIMAL",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DOUBLE",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTRACT",
    "FALSE",
    "FILTER",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "ILIKE",
    "IN",
    "INNER",
    "INSERT",
    "INTEGER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "REFERENCES",
    "RIGHT",
    "ROLLUP",
    "SELECT",
    "SET",
    "SHOW",
    "TABLE",
    "TABLES",
    "TEXT",
    "THEN",
    "TIMESTAMP",
    "TO",
    "TRUE",
    "UNION",
    "UPDATE",
    "USING",
    "VALUES",
    "VERSION",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
];
/// Functions, completed with their parenthesis.
const FUNCTIONS: &[&str] = &[
    "abs(",
    "avg(",
    "ceil(",
    "concat(",
    "count(",
    "date_part(",
    "date_trunc(",
    "floor(",
    "lag(",
    "lead(",
    "length(",
    "lower(",
    "max(",
    "median(",
    "min(",
    "now(",
    "nullif(",
    "quantile_cont(",
    "rank(",
    "replace(",
    "round(",
    "row_number(",
    "split_part(",
    "stddev(",
    "string_agg(",
    "strpos(",
    "substr(",
    "sum(",
    "trim(",
    "upper(",
];
/// Words after which a table is named.
const BEFORE_TABLES: &[&str] =
    &["from", "join", "into", "update", "table", "describe", "desc", "summarize", "truncate"];
/// Tables that a server has of its own.
const SYSTEM: &[&str] = &[
    "information_schema.columns",
    "information_schema.tables",
    "system.columns",
    "system.fragments",
    "system.nodes",
    "system.queries",
    "system.sets",
    "system.tables",
    "system.versions",
];
/// More candidates help nobody.
const MOST: usize = 200;

/// The names of tables, each with those of its columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    tables: BTreeMap<String, Vec<String>>,
}

impl Names {
    /// Those of a server; none where it does not say them.
    pub(super) async fn of(client: &Client) -> Self {
        client.list_tables().await.map(|tables| Self::of_tables(&tables)).unwrap_or_default()
    }

    fn of_tables(tables: &[Table]) -> Self {
        let columns =
            |table: &Table| table.schema.fields().iter().map(|field| field.name().clone()).collect();
        Self { tables: tables.iter().map(|table| (table.name.clone(), columns(table))).collect() }
    }

    /// Where the word before the cursor begins, and what may stand for it.
    pub(super) fn complete(&self, before: &str, whole: &str) -> (usize, Vec<String>) {
        let begins = before
            .char_indices()
            .rev()
            .take_while(|(_, c)| is_of_name(*c))
            .last()
            .map_or(before.len(), |(at, _)| at);
        let (rest, word) = before.split_at(begins);
        if before.starts_with('\\') {
            let tables = self.tables.keys().map(String::as_str).chain(SYSTEM.iter().copied());
            return (begins, matching(tables, word));
        }
        let last = rest.trim_end().rsplit(|c: char| !is_of_name(c)).next().unwrap_or_default();
        if BEFORE_TABLES.iter().any(|word| word.eq_ignore_ascii_case(last)) {
            let tables: Vec<_> = self.tables.keys().map(|name| quoted(name)).collect();
            return (begins, matching(tables.iter().map(String::as_str).chain(SYSTEM.iter().copied()), word));
        }
        if let Some((table, column)) = word.rsplit_once('.') {
            let columns: Vec<_> = self.columns_of(table, whole).map(|name| quoted(name)).collect();
            let start = begins + table.len() + 1;
            return (start, matching(columns.iter().map(String::as_str), column));
        }
        if word.is_empty() {
            return (begins, Vec::new());
        }
        let mentioned = self.tables.iter().filter(|(table, _)| mentions(whole, table));
        let mut columns: Vec<_> =
            mentioned.flat_map(|(_, columns)| columns).map(|name| quoted(name)).collect();
        columns.sort_unstable();
        columns.dedup();
        let mut all = matching(columns.iter().map(String::as_str), word);
        all.extend(matching(FUNCTIONS.iter().copied(), word));
        // As the word is typed so far.
        let is_lower = word.chars().any(char::is_lowercase);
        let keywords = matching(KEYWORDS.iter().copied(), word);
        all.extend(keywords.into_iter().map(|word| if is_lower { word.to_lowercase() } else { word }));
        all.truncate(MOST);
        (begins, all)
    }

    /// The columns of a table, by its name or by what the statement calls it.
    fn columns_of<'a>(&'a self, name: &'a str, whole: &'a str) -> impl Iterator<Item = &'a String> {
        let words: Vec<_> = whole.split(|c: char| !is_of_name(c)).filter(|word| !word.is_empty()).collect();
        let is_alias = move |table: &str| {
            let called =
                |pair: &[&str]| pair[0].eq_ignore_ascii_case(table) && pair[1].eq_ignore_ascii_case(name);
            let called_as =
                |three: &[&str]| called(&[three[0], three[2]]) && three[1].eq_ignore_ascii_case("as");
            words.windows(2).any(called) || words.windows(3).any(called_as)
        };
        let found =
            self.tables.iter().filter(move |(table, _)| table.eq_ignore_ascii_case(name) || is_alias(table));
        found.flat_map(|(_, columns)| columns)
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

fn mentions(whole: &str, table: &str) -> bool {
    whole.split(|c: char| !is_of_name(c)).any(|word| word.eq_ignore_ascii_case(table))
}

/// A name that is none without quotes has them.
fn quoted(name: &str) -> String {
    let first = name.chars().next().unwrap_or_default();
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let is_word = KEYWORDS.iter().any(|word| word.eq_ignore_ascii_case(name));
    match is_plain && !first.is_ascii_digit() && !is_word && !name.is_empty() {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

fn matching<'a>(candidates: impl Iterator<Item = &'a str>, word: &str) -> Vec<String> {
    let begins = |candidate: &str| {
        let candidate = candidate.trim_start_matches('"');
        candidate.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    candidates.filter(|candidate| begins(candidate)).take(MOST).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let tables = [
            ("flights", columns(&["carrier", "dep_delay", "dest", "Tail Num"])),
            ("airlines", columns(&["carrier", "name"])),
            ("Late", columns(&["a"])),
        ];
        Names { tables: tables.into_iter().map(|(name, columns)| (name.to_owned(), columns)).collect() }
    }

    fn completed(line: &str) -> (usize, Vec<String>) {
        // `|` is the cursor.
        let (before, after) = line.split_once('|').unwrap();
        names().complete(before, &format!("{before}{after}"))
    }

    #[test]
    fn tables_follow_from() {
        assert_eq!(completed("SELECT * FROM fl|"), (14, vec!["flights".to_owned()]));
        assert_eq!(completed("select * from |").1[..3], ["\"Late\"", "airlines", "flights"]);
        assert_eq!(completed("select * from system.q|"), (14, vec!["system.queries".to_owned()]));
        assert_eq!(completed("\\d air|"), (3, vec!["airlines".to_owned()]));
    }

    #[test]
    fn columns_are_those_of_the_tables_of_the_statement() {
        assert_eq!(
            completed("SELECT de| FROM flights").1,
            ["dep_delay", "dest", "decimal", "delete", "desc", "describe"]
        );
        assert_eq!(completed("SELECT f.ta| FROM flights AS f"), (9, vec!["\"Tail Num\"".to_owned()]));
        assert_eq!(completed("SELECT f.ca| FROM flights f").1, ["carrier"]);
        assert_eq!(completed("SELECT airlines.|").1, ["carrier", "name"]);
        assert_eq!(completed("SELECT na|").1, Vec::<String>::new());
    }

    #[test]
    fn keywords_and_functions_are_written_as_the_word_begins() {
        assert_eq!(completed("SEL|").1, ["SELECT"]);
        assert_eq!(completed("sel|").1, ["select"]);
        assert_eq!(completed("select cou|").1, ["count("]);
        assert_eq!(completed("select 1 |").1, Vec::<String>::new());
    }
}
