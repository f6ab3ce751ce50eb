//! How deep a tree may become that the parser makes of the chains of a text: everything walks it by recursion.

use basalt_core::error::ErrorKind;
use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use crate::{
    error::{Error, Result},
    limits,
};

/// Words of which a text may have a chain.
const CHAINS: [Keyword; 15] = [
    Keyword::AND,
    Keyword::OR,
    Keyword::NOT,
    Keyword::IS,
    Keyword::IN,
    Keyword::LIKE,
    Keyword::ILIKE,
    Keyword::BETWEEN,
    Keyword::COLLATE,
    Keyword::AT,
    Keyword::UNION,
    Keyword::INTERSECT,
    Keyword::EXCEPT,
    Keyword::JOIN,
    Keyword::EXPLAIN,
];

/// Bounds how many operators a text has, of which a chain may be.
pub(crate) fn check_length(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut operators = 0;
    let mut before = &Token::Comma;
    // Whether a value may begin at the token at hand, and whether the one before is a constant that did.
    let (mut begins, mut is_constant) = (true, false);
    for token in tokens.iter().map(|token| &token.token) {
        let counts = match token {
            Token::Number(..)
            | Token::Placeholder(_)
            | Token::Question
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::Comma
            | Token::Period
            | Token::LParen
            | Token::RParen => false,
            // A sign, as in long lists.
            Token::Minus => !matches!(before, Token::Comma | Token::LParen),
            // The first cast of a value, which drivers write behind each parameter, and of a constant.
            Token::DoubleColon => !is_constant && !matches!(before, Token::Placeholder(_) | Token::Question),
            // What stands behind it is parsed before it, and may be another one.
            Token::Word(word) if word.keyword == Keyword::INTERVAL => {
                !matches!(before, Token::Comma | Token::LParen)
            }
            Token::Word(word) => word.quote_style.is_none() && CHAINS.contains(&word.keyword),
            _ => true,
        };
        operators += usize::from(counts);
        // Elsewhere it may be the name of a type, as in `1::'a'::'a'`, which is a chain.
        is_constant = begins && is_literal(token);
        begins = match token {
            Token::Comma | Token::LParen | Token::Minus => true,
            Token::DoubleColon => false,
            Token::Word(word) => counts && word.keyword != Keyword::COLLATE,
            _ => counts,
        };
        before = token;
    }
    if operators > limits::OPERATORS {
        let message = format!("{operators} operators; the limit is {}", limits::OPERATORS);
        return Err(Error::new(ErrorKind::FilterTooLarge, message));
    }
    Ok(())
}

fn is_literal(token: &Token) -> bool {
    match token {
        Token::Number(..) | Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => true,
        Token::Word(word) => {
            word.quote_style.is_none()
                && matches!(word.keyword, Keyword::NULL | Keyword::TRUE | Keyword::FALSE)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::syntax::SYNTAX;

    fn fits(sql: &str) -> bool {
        let mut tokens = Tokenizer::new(&SYNTAX, sql).tokenize_with_location().unwrap();
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
        check_length(&tokens).is_ok()
    }

    #[test]
    fn casts_of_constants_are_no_chain() {
        for value in ["'a'::date", "E'a'::bytea", "1::numeric(9, 2)", "-1::int", "NULL::text", "true::bool"] {
            assert!(fits(&format!("VALUES ({value}{})", format!(", {value}").repeat(5000))), "{value}");
        }
        // Behind operators, which are counted.
        assert!(fits(&format!("SELECT 1{}", " + '1'::int".repeat(1000))));
    }

    #[test]
    fn casts_of_casts_are_a_chain() {
        for chain in ["::int", "::'a'", "::1", "::null", "::a.'b'", "::a.null"] {
            assert!(!fits(&format!("SELECT (1{})", chain.repeat(1100))), "{chain}");
        }
        assert!(!fits(&format!("SELECT (1{})", "::int COLLATE 'b'".repeat(600))));
        assert!(!fits(&format!("SELECT a::int{}", " + a::int".repeat(600))));
    }
}
