//! `pg_get_keywords`, by which drivers learn which words of PostgreSQL's are none of SQL's own and need quotes as names.

use datafusion::sql::sqlparser::ast::{Expr, Ident, TableAlias, TableFactor};

use super::rewrite::{expr, words};

const NAME: &str = "pg_get_keywords";

/// Words that SQL has here beside those of the standard.
const WORDS: [&str; 12] = [
    "anti",
    "asof",
    "exclude",
    "glob",
    "ilike",
    "limit",
    "offset",
    "qualify",
    "replace",
    "returning",
    "sample",
    "semi",
];

/// Makes a table of what is called so in FROM.
pub(super) fn rewrite(factor: &mut TableFactor) {
    let TableFactor::Table { name, alias, args: Some(_), .. } = &mut *factor else { return };
    if words(name).and_then(|words| words.last().copied()) != Some(NAME) {
        return;
    }
    let rows: Vec<String> = WORDS.iter().map(|word| format!("('{word}', 'R', 'reserved')")).collect();
    let sql = format!("(SELECT * FROM (VALUES {}) AS k (word, catcode, catdesc))", rows.join(", "));
    let Some(Expr::Subquery(subquery)) = expr(&sql) else { return };
    let own = || TableAlias { explicit: true, name: Ident::new(NAME), columns: Vec::new(), at: None };
    // Default: it is called as the function is.
    let alias = Some(alias.take().unwrap_or_else(own));
    *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
}
