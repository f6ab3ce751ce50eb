//! `[x + 1 for x in l if x > 2]`: a transform of a filter.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Word},
};

use super::words::keyword;
use crate::limits;

/// A bracket that is open, and where the words of a comprehension stand behind it.
struct Open {
    at: usize,
    is_square: bool,
    words: [Option<usize>; 3],
}

const WORDS: [Keyword; 3] = [Keyword::FOR, Keyword::IN, Keyword::IF];

/// Puts calls in the places of comprehensions.
pub(super) fn as_calls(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| keyword(&token.token) == Keyword::FOR) {
        return tokens;
    }
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut open: Vec<Open> = Vec::new();
    for token in tokens {
        match &token.token {
            Token::LBracket | Token::LParen | Token::LBrace => {
                // Deeper ones the parser refuses, and each would be written again by those around it.
                let is_square = matches!(token.token, Token::LBracket) && open.len() < limits::NESTING;
                open.push(Open { at: kept.len(), is_square, words: [None; 3] });
            }
            Token::RBracket | Token::RParen | Token::RBrace => {
                if let Some(list) = open.pop()
                    && let [Some(begin), Some(of), condition] = list.words
                    && call(&mut kept, list.at, begin, of, condition)
                {
                    continue;
                }
            }
            other => {
                if let Some(list) = open.last_mut().filter(|list| list.is_square)
                    && let Some(word) = WORDS.iter().position(|word| *word == keyword(other))
                    && list.words[..word].iter().take(2).all(Option::is_some)
                    && list.words[word].is_none()
                {
                    list.words[word] = Some(kept.len());
                }
            }
        }
        kept.push(token);
    }
    kept
}

/// Replaces what stands from a bracket on; not where that would say something else.
fn call(kept: &mut Vec<TokenWithSpan>, at: usize, begin: usize, of: usize, condition: Option<usize>) -> bool {
    let span = kept[at].span;
    let token = |token: Token| TokenWithSpan { token, span };
    let name = |name: &str| {
        let word = Word { value: name.to_owned(), quote_style: None, keyword: Keyword::NoKeyword };
        token(Token::Word(word))
    };
    let end = condition.unwrap_or(kept.len());
    let (value, names) = (&kept[at + 1..begin], &kept[begin + 1..of]);
    let (list, condition) = (&kept[of + 1..end], kept.get(end + 1..));
    let lambda = |body: &[TokenWithSpan]| {
        let mut all = vec![token(Token::Comma), token(Token::make_keyword("LAMBDA"))];
        all.extend_from_slice(names);
        all.push(token(Token::Colon));
        all.extend_from_slice(body);
        all.push(token(Token::RParen));
        all
    };
    let mut made = vec![name("list_transform"), token(Token::LParen)];
    match condition.filter(|condition| !condition.is_empty()) {
        // The places of what is left would be others.
        Some(condition) if names.len() == 1 => {
            made.extend([name("list_filter"), token(Token::LParen)]);
            made.extend_from_slice(list);
            made.extend(lambda(condition));
        }
        Some(_) => return false,
        None => made.extend_from_slice(list),
    }
    made.extend(lambda(value));
    kept.truncate(at);
    kept.extend(made);
    true
}
