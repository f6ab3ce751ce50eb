//! The words by which a client is told that a statement is done.

use basalt_sql::script::{Part, Word};

use super::session::is_word;

/// What a client is told of a statement that is done.
#[derive(Clone, Debug)]
pub(super) struct Tag {
    words: String,
    counts: bool,
}

impl Tag {
    pub(super) fn of(part: Option<&Part>) -> Self {
        let words: &[Word] = part.map_or(&[], |part| &part.words);
        let plain = |at: usize| match words.get(at) {
            Some(Word::Plain(word)) => word.as_str(),
            _ => "",
        };
        let counted = |words: &str| Self { words: words.to_owned(), counts: true };
        let alone = |words: String| Self { words, counts: false };
        // Default: there is no WITH, or it reads.
        match part.and_then(Part::behind_with).unwrap_or(plain(0)) {
            "insert" => counted("INSERT 0"),
            "update" => counted("UPDATE"),
            "delete" => counted("DELETE"),
            "merge" => counted("MERGE"),
            "copy" => counted("COPY"),
            "truncate" => alone("TRUNCATE TABLE".to_owned()),
            "explain" => alone("EXPLAIN".to_owned()),
            "show" | "describe" | "desc" => alone("SHOW".to_owned()),
            "create" if words.iter().any(|word| is_word(Some(word), &["as"])) && plain(1) == "table" => {
                counted("SELECT")
            }
            "create" if plain(1) == "or" => alone(format!("CREATE {}", plain(3).to_uppercase())),
            first @ ("create" | "drop" | "alter") => {
                alone(format!("{} {}", first.to_uppercase(), plain(1).to_uppercase()))
            }
            _ => counted("SELECT"),
        }
    }

    pub(super) fn with(&self, rows: u64) -> String {
        if self.counts { format!("{} {rows}", self.words) } else { self.words.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::portal::reads, *};

    #[test]
    fn tags_are_those_of_postgresql() {
        for (sql, tag) in [
            ("SELECT 1", "SELECT 5"),
            ("(SELECT 1)", "SELECT 5"),
            ("WITH a AS (SELECT 1) TABLE a", "SELECT 5"),
            ("INSERT INTO t VALUES (1)", "INSERT 0 5"),
            ("WITH a AS (SELECT 1) INSERT INTO t TABLE a", "INSERT 0 5"),
            ("WITH a (b) AS (SELECT 1) update t SET a = 1", "UPDATE 5"),
            ("WITH a AS (SELECT 1), c AS (SELECT 2) DELETE FROM t", "DELETE 5"),
            ("update t set a = 1", "UPDATE 5"),
            ("CREATE TABLE t (a int)", "CREATE TABLE"),
            ("CREATE TABLE t AS SELECT 1", "SELECT 5"),
            ("CREATE OR REPLACE VIEW v AS SELECT 1", "CREATE VIEW"),
            ("DROP TABLE t", "DROP TABLE"),
            ("EXPLAIN SELECT 1", "EXPLAIN"),
            ("SHOW TABLES", "SHOW"),
        ] {
            let part = &basalt_sql::script::split(sql).unwrap()[0];
            assert_eq!(Tag::of(Some(part)).with(5), tag);
            let writes = ["INSERT", "UPDATE", "DELETE", "CREATE", "DROP"];
            let writes = writes.iter().any(|word| {
                let sql = sql.to_uppercase();
                sql.starts_with(word) || sql.contains(&format!(") {word}"))
            });
            assert_eq!(reads(part), !writes, "{sql}");
        }
    }
}
