//! `FROM table FOR VERSION AS OF n`: which version of a table is read. The parser's generic dialect does not know it, so it
//! is taken out of the text's tokens, and found again by the name that it stands behind.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use sqlparser::{
    ast::Ident,
    keywords::Keyword,
    tokenizer::{Location, Span, Token, TokenWithSpan},
};

use super::error::SqlError;

const CLAUSE: [Keyword; 4] = [Keyword::FOR, Keyword::VERSION, Keyword::AS, Keyword::OF];

/// The versions that a text names.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// By where the name begins before the clause: the version, and where the clause is.
    behind: BTreeMap<Location, (u64, Span)>,
    used: RefCell<BTreeSet<Location>>,
}

impl Versions {
    /// Takes the clauses out of the tokens of a text.
    ///
    /// # Errors
    /// A clause without a version's number.
    pub(super) fn take(tokens: &mut Vec<TokenWithSpan>) -> Result<Self, SqlError> {
        let mut versions = Self::default();
        let mut left = Vec::with_capacity(tokens.len());
        let mut before = None;
        let mut begun: Vec<TokenWithSpan> = Vec::new();
        for token in std::mem::take(tokens) {
            if matches!(token.token, Token::Whitespace(_)) {
                left.push(token);
                continue;
            }
            let is_next = matches!(&token.token, Token::Word(word)
                if word.quote_style.is_none() && CLAUSE.get(begun.len()) == Some(&word.keyword));
            if is_next {
                begun.push(token);
                continue;
            }
            if begun.len() == CLAUSE.len() {
                let version = match &token.token {
                    Token::Number(number, _) => number.parse().ok(),
                    _ => None,
                };
                let version =
                    version.ok_or_else(|| not_a_version(&token.token.to_string()).at(token.span))?;
                let clause = begun[0].span;
                let place = before.ok_or_else(|| misplaced().at(clause))?;
                if versions.behind.insert(place, (version, clause)).is_some() {
                    return Err(SqlError::new("FOR VERSION AS OF stands here twice").at(clause));
                }
                begun.clear();
                continue;
            }
            // What only began like it is something else.
            if let Some(last) = begun.last() {
                before = Some(last.span.start);
            }
            left.append(&mut begun);
            if matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == CLAUSE[0])
            {
                begun.push(token);
            } else {
                before = Some(token.span.start);
                left.push(token);
            }
        }
        if let (Some(first), true) = (begun.first(), begun.len() == CLAUSE.len()) {
            return Err(not_a_version("the end").at(first.span));
        }
        left.append(&mut begun);
        *tokens = left;
        Ok(versions)
    }

    /// The version of a table that is given by its name and by what it is called.
    ///
    /// # Errors
    /// Two clauses, one behind each.
    pub(super) fn of(&self, name: &Ident, alias: Option<&Ident>) -> Result<Option<u64>, SqlError> {
        let behind = |ident: &Ident| self.behind.get_key_value(&ident.span.start);
        let (named, called) = (behind(name), alias.and_then(behind));
        self.used.borrow_mut().extend(named.iter().chain(&called).map(|(place, _)| **place));
        match (named, called) {
            (Some(_), Some((_, (_, clause)))) => {
                Err(SqlError::new("FOR VERSION AS OF stands at this table twice").at(*clause))
            }
            (found, other) => Ok(found.or(other).map(|(_, (version, _))| *version)),
        }
    }

    /// That every clause stands behind a table.
    ///
    /// # Errors
    /// One that does not.
    pub(super) fn check(&self) -> Result<(), SqlError> {
        let used = self.used.borrow();
        match self.behind.iter().find(|(place, _)| !used.contains(place)) {
            Some((_, (_, clause))) => Err(misplaced().at(*clause)),
            None => Ok(()),
        }
    }
}

fn not_a_version(found: &str) -> SqlError {
    SqlError::new(format!("FOR VERSION AS OF takes a version's number, not `{found}`"))
}

fn misplaced() -> SqlError {
    SqlError::new("FOR VERSION AS OF stands behind the name of a table in FROM")
}
