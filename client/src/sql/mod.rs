//! SQL for one table, read into the API's requests.
//!
//! ```text
//! SELECT [DISTINCT] * | expr [AS name], ...  FROM table [FOR VERSION AS OF number] [AS name]
//! [WHERE condition] [GROUP BY expr | name | position, ... | ALL] [HAVING condition]
//! [ORDER BY expr | name | position [ASC | DESC] [NULLS FIRST | LAST], ...] [LIMIT n] [OFFSET n]
//! ```
//!
//! - Expressions: columns, attributes of what a column refers to (`lo_orderdate.d_year`), `+ - * /`, `count(*)`, `count([DISTINCT] x)`, `sum`, `min`, `max`, `avg`; literals
//!   `1`, `0.05` (an exact decimal), `1e3` (a float), `'text'`, `DATE '2013-07-04'`,
//!   `TIMESTAMP '2013-07-04T10:00:00Z'`, `true`, `false`, `NULL`.
//! - Conditions: `= <> < <= > >=`, `[NOT] BETWEEN`, `[NOT] IN (literals)`, `[NOT] LIKE`, `IS [NOT] NULL`, a
//!   boolean column, `AND`, `OR`, `NOT`.
//! - A semi-join, in WHERE: `column [NOT] IN (SELECT key FROM table [WHERE condition])`, to any depth.
//! - `FOR VERSION AS OF` reads an older version of the table, as long as the server keeps it; a table of a semi-join has
//!   its own. It may also stand behind the name that the table is given.
//! - Names are taken as they are written. Where a column and an `AS name` of the select list share one: the select
//!   list, WHERE and aggregates know columns alone; in GROUP BY and in an expression of ORDER BY the column is meant; in
//!   ORDER BY a name that stands alone is the select list's; in HAVING it is a column if GROUP BY has it, else the
//!   select list's.
//!
//! ```
//! use basalt_client::sql::parse_select;
//!
//! let select = parse_select("SELECT carrier, count(*) AS n FROM flights GROUP BY 1")?;
//! assert!(select.table() == "flights" && !select.needs_columns());
//! // Whether `hour` is a column, only the table can tell.
//! let select = parse_select("SELECT dep_time / 100 AS hour, count(*) FROM flights GROUP BY hour")?;
//! assert!(select.needs_columns());
//! let request = select.over(["dep_time"])?;
//! assert_eq!(request.group_by[0], request.select[0].expr.clone().unwrap());
//! # Ok::<(), basalt_client::sql::SqlError>(())
//! ```

mod error;
mod expr;
mod select;
mod subquery;
mod version;

#[cfg(feature = "cli")]
pub(crate) use error::excerpt;
pub use error::{SUPPORTED, SqlError};
pub use subquery::Selection;

use std::{rc::Rc, thread};

use basalt_proto::v1::QueryRequest;
use sqlparser::{
    ast::{Query, Statement},
    dialect::GenericDialect,
    keywords::Keyword,
    parser::Parser,
    tokenizer::{Token, TokenWithSpan, Tokenizer},
};

use self::version::Versions;
use crate::{client::Client, error::Error};

/// Operators of one query; the server's limit on a filter's nodes is lower.
const MAX_OPERATORS: usize = 4096;
/// Parentheses and NOTs inside one another.
const MAX_NESTING: usize = 40;
/// Words that may be names, too: where what stands in their parentheses has a fault, the parser reads it again, within each other twice
/// as often for each.
const TRIED_TWICE: [Keyword; 9] = [
    Keyword::ARRAY,
    Keyword::CAST,
    Keyword::CEIL,
    Keyword::FLOOR,
    Keyword::OVERLAY,
    Keyword::SAFE_CAST,
    Keyword::SUBSTR,
    Keyword::SUBSTRING,
    Keyword::TRY_CAST,
];
/// How many levels one of them counts for.
const LEVELS_TRIED: usize = 3;
/// The parser's own bound, with a few of its steps for each level of [`MAX_NESTING`]. A `NOT` that reaches it
/// is taken for a name, and the error then tells something else than the depth.
const PARSER_DEPTH: usize = 256;
/// The parser's trees are as deep as a chain of operators is long, and everything walks them by recursion.
const STACK_BYTES: usize = 128 << 20;

/// A SELECT over one table that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    sql: String,
    request: QueryRequest,
    needs_columns: bool,
}

/// Reads a SELECT over one table.
///
/// # Errors
/// What is not SQL, or not part of the subset, with its place in the text.
pub fn parse_select(sql: &str) -> Result<Select, SqlError> {
    let (request, needs_columns) = on_a_deep_stack(|| read(sql, None))?;
    Ok(Select { sql: sql.to_owned(), request, needs_columns })
}

impl Select {
    /// The table.
    pub fn table(&self) -> &str {
        &self.request.table
    }

    /// Whether the request depends on which columns the table has: a name of the select list is used where a column
    /// of that name would be meant.
    pub fn needs_columns(&self) -> bool {
        self.needs_columns
    }

    /// The request for a table of these columns.
    ///
    /// # Errors
    /// Those of [`parse_select`].
    pub fn over<C: Into<String>>(
        self,
        columns: impl IntoIterator<Item = C>,
    ) -> Result<QueryRequest, SqlError> {
        if !self.needs_columns {
            return Ok(self.request);
        }
        let columns: Vec<String> = columns.into_iter().map(Into::into).collect();
        on_a_deep_stack(|| read(&self.sql, Some(&columns))).map(|(request, _)| request)
    }

    /// The query, for the table as the server has it; the server is only asked where the request depends on it.
    ///
    /// # Errors
    /// Those of [`Client::table_summary`] and [`parse_select`].
    ///
    /// ```no_run
    /// # async fn example(client: &basalt_client::Client) -> basalt_client::Result<()> {
    /// use basalt_client::{col, sql::parse_select};
    ///
    /// let select = parse_select("SELECT carrier, count(*) AS n FROM flights GROUP BY carrier")?;
    /// let answer = select.query(client).await?.filter(col("dep_delay").gt(60)).collect().await?;
    /// println!("{} carriers", answer.rows);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn query(self, client: &Client) -> Result<crate::Query, Error> {
        Ok(client.query_of(self.resolve(client).await?))
    }

    /// The request for the table as the server has it; the server is only asked where the request depends on it.
    ///
    /// # Errors
    /// Those of [`Client::table_summary`] and [`parse_select`].
    pub async fn resolve(self, client: &Client) -> Result<QueryRequest, Error> {
        if !self.needs_columns {
            return Ok(self.request);
        }
        let schema = client.table_summary(self.table()).await?.schema;
        Ok(self.over(schema.fields().iter().map(|field| field.name().clone()))?)
    }
}

/// The set that `SELECT * | column FROM table [WHERE condition]` stands for.
///
/// # Errors
/// Those of [`parse_select`], and what is no set: an order, a limit, groups, several columns.
pub fn parse_selection(sql: &str) -> Result<Selection, SqlError> {
    on_a_deep_stack(|| {
        let (query, versions) = parse(sql)?;
        let selection = subquery::selection(&query, &[], 0, &versions)?;
        versions.check()?;
        Ok(selection)
    })
}

fn on_a_deep_stack<T: Send>(read: impl FnOnce() -> Result<T, SqlError> + Send) -> Result<T, SqlError> {
    let builder = thread::Builder::new().name("sql".to_owned()).stack_size(STACK_BYTES);
    thread::scope(|scope| {
        let parsing = builder.spawn_scoped(scope, read);
        let parsing = parsing.map_err(|e| SqlError::new(format!("no thread for the parser: {e}")))?;
        parsing.join().unwrap_or_else(|_| Err(SqlError::new("the parser failed on this text")))
    })
}

fn read(sql: &str, columns: Option<&[String]>) -> Result<(QueryRequest, bool), SqlError> {
    let (query, versions) = parse(sql)?;
    let read = select::convert(&query, columns, &versions)?;
    versions.check()?;
    Ok(read)
}

fn parse(sql: &str) -> Result<(Query, Rc<Versions>), SqlError> {
    let dialect = GenericDialect {};
    let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location();
    let mut tokens = tokens.map_err(|e| SqlError::from_parser(&e.into()))?;
    let versions = Rc::new(Versions::take(&mut tokens)?);
    check_length(&tokens)?;
    check_nesting(&tokens)?;
    let parser = Parser::new(&dialect).with_recursion_limit(PARSER_DEPTH);
    let statements = parser.with_tokens_with_locations(tokens).parse_statements();
    let mut statements = statements.map_err(|e| SqlError::from_parser(&e))?;
    match (statements.pop(), statements.pop()) {
        (Some(Statement::Query(query)), None) => Ok((*query, versions)),
        (None, _) => Err(SqlError::new("there is no query")),
        (Some(_), Some(_)) => Err(SqlError::new("there is more than one statement")),
        (Some(other), None) => {
            let text = other.to_string();
            Err(SqlError::unsupported(text.split_whitespace().next().unwrap_or_default()))
        }
    }
}

/// Bounds the depth of the tree, which the stack must hold.
fn check_length(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let is_operator = |token: &&TokenWithSpan| match &token.token {
        Token::Plus | Token::Mul | Token::Div | Token::Mod | Token::StringConcat => true,
        Token::Word(word) => matches!(word.keyword, Keyword::AND | Keyword::OR),
        _ => false,
    };
    // A minus behind a comma or a parenthesis is a sign, as in long lists.
    let is_minus = |pair: &&[TokenWithSpan]| {
        matches!(pair, [before, minus] if minus.token == Token::Minus
            && !matches!(before.token, Token::Comma | Token::LParen))
    };
    let visible: Vec<_> =
        tokens.iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).cloned().collect();
    let operators = visible.iter().filter(is_operator).count() + visible.windows(2).filter(is_minus).count();
    if operators > MAX_OPERATORS {
        return Err(SqlError::new(format!("{operators} operators; a query may have {MAX_OPERATORS}")));
    }
    Ok(())
}

/// Tells where parentheses, and what may stand before them, become too many inside one another.
fn check_nesting(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    // For every open parenthesis, what it added: itself, and the NOTs or the word before it.
    let mut open: Vec<usize> = Vec::new();
    let (mut depth, mut more) = (0, 0);
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => {}
            Token::Word(word) if word.keyword == Keyword::NOT => more += 1,
            Token::Word(word) if TRIED_TWICE.contains(&word.keyword) => more = LEVELS_TRIED,
            Token::LParen | Token::LBracket => {
                open.push(more + 1);
                depth += more + 1;
                more = 0;
            }
            Token::RParen | Token::RBracket => {
                depth -= open.pop().unwrap_or(0);
                more = 0;
            }
            _ => more = 0,
        }
        if depth + more > MAX_NESTING {
            return Err(SqlError::too_deep().at(token.span));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
