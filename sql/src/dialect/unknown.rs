//! What others have and there is not here: said by its name, and what does it here, where the parser would tell of the word behind
//! it.

use datafusion::sql::sqlparser::{
    ast::TableFactor,
    tokenizer::{Token, TokenWithSpan},
};

use crate::error::Error;

const PIVOT: &str = "PIVOT (count(*) FILTER (WHERE k = 'a') is a column of one value)";
const UNPIVOT: &str =
    "UNPIVOT (a SELECT of each column, with UNION ALL between them, has their values in rows)";
const SAMPLE: &str = "TABLESAMPLE and USING SAMPLE (WHERE random() < 0.1 takes a part of the rows)";

/// Why something does not stand in FROM; `None`: it may.
pub(crate) fn factor(factor: &TableFactor) -> Option<Error> {
    match factor {
        TableFactor::Pivot { .. } => Some(Error::unsupported(PIVOT)),
        TableFactor::Unpivot { .. } => Some(Error::unsupported(UNPIVOT)),
        TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
            Some(Error::unsupported(SAMPLE))
        }
        _ => None,
    }
}

/// The error of a text that the parser does not take: `error`, or one that says more.
pub(crate) fn explained(tokens: &[TokenWithSpan], error: Error) -> Error {
    let found = (0..tokens.len()).find_map(|at| Some((at, at_token(tokens, at)?)));
    match found {
        Some((at, explained)) => {
            let place = tokens[at].span.start;
            explained.at(place.line, place.column)
        }
        None => error,
    }
}

/// What such a thing that begins at a token is.
fn at_token(tokens: &[TokenWithSpan], at: usize) -> Option<Error> {
    let is = |place: usize, word: &str| match tokens.get(place).map(|token| &token.token) {
        Some(Token::Word(of)) => of.quote_style.is_none() && of.value.eq_ignore_ascii_case(word),
        _ => false,
    };
    let are = |words: &[&str]| words.iter().enumerate().all(|(behind, word)| is(at + behind, word));
    let is_time = are(&["for", "system_time", "as", "of"])
        || are(&["for", "timestamp", "as", "of"])
        || are(&["timestamp", "as", "of"])
        || are(&["version", "as", "of"]);
    if is_time {
        let message =
            "a table is read as it was by the number of a version alone: FOR VERSION AS OF 7 behind its name";
        return Some(Error::invalid(message));
    }
    // At the beginning of a statement, or of a query in parentheses.
    let begins = at == 0 || is(at + 2, "on") && tokens[at - 1].token == Token::LParen;
    if begins && is(at, "pivot") {
        return Some(Error::unsupported(PIVOT));
    }
    if begins && is(at, "unpivot") {
        return Some(Error::unsupported(UNPIVOT));
    }
    (are(&["using", "sample"]) || is(at, "tablesample")).then(|| Error::unsupported(SAMPLE))
}

#[cfg(test)]
mod tests {
    use crate::parse::{Names, Parameters, Text};

    fn said(sql: &str) -> String {
        let names = Names::of_tables(["t".to_owned()].iter());
        let parsed = Text::new(sql).and_then(|text| text.parse(&names, Parameters::Given(&[])));
        parsed.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_is_not_there_is_said_by_its_name() {
        for (sql, what) in [
            ("SELECT * FROM t FOR SYSTEM_TIME AS OF '2024-01-01'", "FOR VERSION AS OF 7"),
            ("SELECT * FROM t TIMESTAMP AS OF '2024-01-01'", "FOR VERSION AS OF 7"),
            ("SELECT * FROM t VERSION AS OF 1", "FOR VERSION AS OF 7"),
            ("PIVOT t ON a USING sum(b)", "FILTER"),
            ("SELECT * FROM (PIVOT t ON a USING sum(b))", "FILTER"),
            ("SELECT * FROM t PIVOT (sum(a) FOR b IN ('x'))", "FILTER"),
            ("UNPIVOT t ON a INTO NAME n VALUE v", "UNION ALL"),
            ("SELECT * FROM t USING SAMPLE 10%", "random()"),
            ("SELECT * FROM t TABLESAMPLE 10%", "random()"),
            ("SELECT * FROM t TABLESAMPLE BERNOULLI (10)", "random()"),
            ("SELECT * FROM (SELECT * FROM t) AS u TABLESAMPLE BERNOULLI (10)", "random()"),
            ("SELECT * FROM t JOIN (VALUES (1)) v (x) TABLESAMPLE SYSTEM (10) ON true", "random()"),
        ] {
            let said = said(sql);
            assert!(said.contains(what), "{sql}: {said}");
        }
        for sql in ["SELECT pivot, a FROM t", "SELECT pivot(a) FROM t"] {
            assert_eq!(said(sql), "", "{sql}");
        }
    }
}
