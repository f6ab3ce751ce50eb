//! What is put right among the tokens of a text, before it is parsed.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use crate::error::{Error, Result};

/// The keyword that a token is; in quotes it is none.
pub(crate) fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// The parser's dialect takes a column of a new table that is named `key` or `index` for an index, of which there are
/// none here.
pub(crate) fn quote_columns(tokens: &mut [TokenWithSpan]) {
    let keyword = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    let is_create = matches!(tokens, [create, table, ..]
        if keyword(create) == Some(Keyword::CREATE) && keyword(table) == Some(Keyword::TABLE));
    if !is_create {
        return;
    }
    for at in 1..tokens.len().saturating_sub(1) {
        let begins = matches!(tokens[at - 1].token, Token::LParen | Token::Comma);
        let is_name = matches!(keyword(&tokens[at]), Some(Keyword::KEY | Keyword::INDEX));
        if begins
            && is_name
            && matches!(tokens[at + 1].token, Token::Word(_))
            && let Token::Word(word) = &mut tokens[at].token
        {
            (word.value, word.quote_style) = (word.value.to_lowercase(), Some('"'));
            word.keyword = Keyword::NoKeyword;
        }
    }
}

/// Puts digits together that `_` parts, and other words in the places of those that the parser does not know. The tokens have no white
/// space among them.
pub(crate) fn tokens(mut tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    tokens.retain(|token| !matches!(token.token, Token::Char(c) if is_invisible(c)));
    tokens = super::comprehensions::as_calls(tokens);
    from_first(&mut tokens);
    prefixed(&mut tokens);
    struct_types(&mut tokens);
    super::asof::marked(&mut tokens)?;
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for mut token in tokens {
        singular(&kept, &mut token);
        matched(&kept, &mut token);
        if is_trimmed_from(&kept, &token) || limited(&mut kept, &token) {
            continue;
        }
        if let Some(number) = with_base(&kept, &token)? {
            if matches!(token.token, Token::Word(_)) {
                kept.pop();
            }
            token.token = number;
        }
        if is_bare_filter(&kept, &token) {
            let span = token.span;
            kept.push(TokenWithSpan { token: Token::make_keyword("WHERE"), span });
        }
        if let Some(number) = bracketed(&kept, &token) {
            // `INTERVAL (2) DAY`
            kept.truncate(kept.len() - 2);
            kept.push(number);
            continue;
        }
        if let (Token::Word(word), Some(before)) = (&token.token, kept.last_mut())
            && word.quote_style.is_none()
            && before.span.end == token.span.start
            && let Token::Number(number, _) = &mut before.token
        {
            let parts = word.value.strip_prefix('_');
            match parts.filter(|parts| {
                parts.split('_').all(|part| part.bytes().all(|b| b.is_ascii_digit()) && !part.is_empty())
            }) {
                Some(parts) => {
                    number.push_str(&parts.replace('_', ""));
                    before.span.end = token.span.end;
                    continue;
                }
                None => {
                    let error =
                        Error::invalid(format!("{number}{} is neither a number nor a name", word.value));
                    return Err(error.at(token.span.start.line, token.span.start.column));
                }
            }
        }
        kept.push(token);
    }
    Ok(kept)
}

/// Whether a token is the first of a condition in `sum(a) FILTER (a > 1)`, which the parser knows with WHERE before it.
fn is_bare_filter(before: &[TokenWithSpan], token: &TokenWithSpan) -> bool {
    let [.., call, filter, open] = before else { return false };
    call.token == Token::RParen
        && keyword(&filter.token) == Keyword::FILTER
        && open.token == Token::LParen
        && keyword(&token.token) != Keyword::WHERE
}

/// `TRIM(BOTH FROM x)`, `TRIM(FROM x)`: what is trimmed away is not said, and the parser knows them without FROM.
fn is_trimmed_from(before: &[TokenWithSpan], token: &TokenWithSpan) -> bool {
    if keyword(&token.token) != Keyword::FROM {
        return false;
    }
    let sides = [Keyword::BOTH, Keyword::LEADING, Keyword::TRAILING];
    let before = match before {
        [before @ .., side] if sides.contains(&keyword(&side.token)) => before,
        before => before,
    };
    matches!(before, [.., trim, open] if keyword(&trim.token) == Keyword::TRIM && open.token == Token::LParen)
}

/// `FETCH FIRST (n) ROWS ONLY`, of which `token` is the last word, as `LIMIT (n)`: the parser knows it without parentheses. Whether
/// it was that.
fn limited(before: &mut Vec<TokenWithSpan>, token: &TokenWithSpan) -> bool {
    let is_fetch = |tokens: &[TokenWithSpan]| {
        let [fetch, first, open, number @ .., close, rows] = tokens else { return false };
        let is_number = match number {
            [_] => true,
            // Drivers write the type behind a parameter.
            [_, cast, _] => cast.token == Token::DoubleColon,
            _ => false,
        };
        keyword(&fetch.token) == Keyword::FETCH
            && matches!(keyword(&first.token), Keyword::FIRST | Keyword::NEXT)
            && matches!((&open.token, &close.token), (Token::LParen, Token::RParen))
            && matches!(keyword(&rows.token), Keyword::ROW | Keyword::ROWS)
            && is_number
    };
    if keyword(&token.token) != Keyword::ONLY {
        return false;
    }
    let begins = [6, 8]
        .into_iter()
        .filter_map(|length| before.len().checked_sub(length))
        .find(|begins| is_fetch(&before[*begins..]));
    let Some(begins) = begins else { return false };
    before.pop();
    before.remove(begins + 1);
    before[begins].token = Token::make_keyword("LIMIT");
    true
}

/// `0x1F`, `0b101` and `0o17` as numbers: the parser takes the first for bytes, and the others for a number with a name
/// behind it, which is `before`'s last.
fn with_base(before: &[TokenWithSpan], token: &TokenWithSpan) -> Result<Option<Token>> {
    let place = token.span.start;
    let (digits, base) = match (&token.token, before.last()) {
        // `x'1F'` is longer.
        (Token::HexStringLiteral(digits), _)
            if token.span.end.column.checked_sub(place.column) == Some(digits.len() as u64 + 2) =>
        {
            (digits.as_str(), 16)
        }
        (Token::Word(word), Some(zero))
            if word.quote_style.is_none()
                && zero.span.end == place
                && matches!(&zero.token, Token::Number(zero, _) if zero == "0") =>
        {
            match word.value.split_at_checked(1) {
                Some(("b" | "B", digits)) => (digits, 2),
                Some(("o" | "O", digits)) => (digits, 8),
                // The parser knows the small letter.
                Some(("X", digits)) => (digits, 16),
                _ => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    let number = u128::from_str_radix(digits, base);
    let number = number.map_err(|_| {
        let error = Error::invalid(format!("{digits:?} is no number to the base {base}, or too large"));
        error.at(place.line, place.column)
    })?;
    Ok(Some(Token::Number(number.to_string(), false)))
}

/// Spaces that the parser does not know for spaces.
fn is_invisible(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
}

/// `SELECT a: b` is `SELECT b AS a`.
fn prefixed(tokens: &mut Vec<TokenWithSpan>) {
    // What ends a select list, or an item of it.
    let ends = [
        Keyword::FROM,
        Keyword::WHERE,
        Keyword::GROUP,
        Keyword::HAVING,
        Keyword::QUALIFY,
        Keyword::WINDOW,
        Keyword::ORDER,
        Keyword::LIMIT,
        Keyword::OFFSET,
        Keyword::UNION,
        Keyword::EXCEPT,
        Keyword::INTERSECT,
    ];
    let mut at = 0;
    // For each bracket that is open: whether it is a select list that goes on there.
    let mut lists = vec![false];
    while at < tokens.len() {
        let in_list = lists.last() == Some(&true);
        let begins = match at.checked_sub(1).map(|before| &tokens[before].token) {
            Some(Token::Comma) => in_list,
            Some(before) => matches!(keyword(before), Keyword::SELECT | Keyword::DISTINCT) && in_list,
            None => false,
        };
        let is_named = begins
            && matches!(tokens[at].token, Token::Word(_))
            && tokens.get(at + 1).is_some_and(|token| matches!(token.token, Token::Colon));
        if is_named {
            let mut depth = 0;
            let mut end = at + 2;
            while let Some(token) = tokens.get(end) {
                match &token.token {
                    Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
                    Token::RParen | Token::RBracket | Token::RBrace if depth == 0 => break,
                    Token::RParen | Token::RBracket | Token::RBrace => depth -= 1,
                    Token::Comma | Token::SemiColon if depth == 0 => break,
                    other if depth == 0 && ends.contains(&keyword(other)) => break,
                    _ => {}
                }
                end += 1;
            }
            let name = tokens[at].clone();
            let span = name.span;
            tokens.splice(end..end, [TokenWithSpan { token: Token::make_keyword("AS"), span }, name]);
            tokens.drain(at..at + 2);
        }
        match &tokens[at].token {
            Token::LParen | Token::LBracket | Token::LBrace => lists.push(false),
            Token::RParen | Token::RBracket | Token::RBrace => {
                lists.pop();
            }
            other => {
                let keyword = keyword(other);
                if let Some(list) = lists.last_mut() {
                    *list = keyword == Keyword::SELECT || *list && !ends.contains(&keyword);
                }
            }
        }
        at += 1;
    }
}

/// `FROM t WHERE a` is `SELECT * FROM t WHERE a`: the parser knows it with nothing behind the tables, or with SELECT there.
/// `TABLE t` is `FROM t`.
fn from_first(tokens: &mut Vec<TokenWithSpan>) {
    let keyword =
        |token: Option<&TokenWithSpan>| token.map_or(Keyword::NoKeyword, |token| keyword(&token.token));
    let sets = [Keyword::UNION, Keyword::EXCEPT, Keyword::INTERSECT];
    let (explains, options) =
        (keyword(tokens.first()) == Keyword::EXPLAIN, [Keyword::ANALYZE, Keyword::VERBOSE]);
    // For each parenthesis that is open: whether what it holds begins with WITH.
    let mut with = vec![false];
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let before = |back: usize| at.checked_sub(back).and_then(|before| tokens.get(before));
        let begins = match before(1).map(|token| &token.token) {
            None => true,
            // Behind the name of a function it is an argument's.
            Some(Token::LParen) => match before(2).map(|token| &token.token) {
                Some(Token::Word(word)) => {
                    word.keyword != Keyword::NoKeyword && word.keyword != Keyword::TRIM
                }
                _ => true,
            },
            _ => {
                let last = keyword(before(1));
                last == Keyword::AS
                    || (explains
                        && tokens[1..at].iter().all(|token| options.contains(&self::keyword(&token.token))))
                    || sets.contains(&last)
                    || matches!(last, Keyword::ALL | Keyword::DISTINCT) && sets.contains(&keyword(before(2)))
            }
        };
        let is_table = begins
            && keyword(tokens.get(at)) == Keyword::TABLE
            && tokens.get(at + 1).is_some_and(|name| matches!(name.token, Token::Word(_)))
            && keyword(tokens.get(at + 1)) == Keyword::NoKeyword;
        if is_table {
            tokens[at].token = Token::make_keyword("FROM");
        }
        match &tokens[at].token {
            Token::LParen => with.push(false),
            Token::RParen => {
                with.pop();
            }
            Token::Word(_) => match (keyword(tokens.get(at)), with.last_mut()) {
                (Keyword::WITH, Some(with)) if begins => *with = true,
                (Keyword::SELECT | Keyword::INSERT | Keyword::UPDATE | Keyword::DELETE, Some(with)) => {
                    *with = false;
                }
                (Keyword::FROM, Some(with)) if begins || *with => {
                    *with = false;
                    found.push(at);
                }
                _ => {}
            },
            _ => {}
        }
    }
    for at in found.into_iter().rev() {
        let mut depth = 0;
        let mut plain = true;
        let mut clauses = false;
        for token in &tokens[at + 1..] {
            match &token.token {
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => break,
                Token::RParen => depth -= 1,
                Token::Word(_) if depth == 0 => match keyword(Some(token)) {
                    Keyword::SELECT => plain = false,
                    Keyword::WHERE
                    | Keyword::QUALIFY
                    | Keyword::GROUP
                    | Keyword::HAVING
                    | Keyword::WINDOW => {
                        clauses = true;
                    }
                    other if sets.contains(&other) => break,
                    _ => {}
                },
                _ => {}
            }
        }
        if plain && clauses {
            let span = tokens[at].span;
            let made = [Token::make_keyword("SELECT"), Token::Mul].map(|token| TokenWithSpan { token, span });
            tokens.splice(at..at, made);
        }
    }
}

/// `STRUCT(a INT)` and `ROW(a INT)` as types, which the parser knows as `STRUCT<a INT>`.
fn struct_types(tokens: &mut [TokenWithSpan]) {
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    let mut open = Vec::new();
    for at in 0..tokens.len() {
        match tokens[at].token {
            Token::LParen => {
                let is_type = at >= 2
                    && matches!(word(&tokens[at - 1]), Some(Keyword::STRUCT | Keyword::ROW))
                    && match &tokens[at - 2].token {
                        Token::DoubleColon => true,
                        Token::Word(_) => {
                            open.last() == Some(&true) || word(&tokens[at - 2]) == Some(Keyword::AS)
                        }
                        _ => false,
                    };
                if is_type {
                    tokens[at - 1].token = Token::make_keyword("STRUCT");
                    tokens[at].token = Token::Lt;
                }
                open.push(is_type);
            }
            Token::RParen if open.pop() == Some(true) => tokens[at].token = Token::Gt,
            _ => {}
        }
    }
}

/// What stands for an operator between two operands: GLOB has the parser's operator REGEXP, and REGEXP that of `~`.
fn matched(before: &[TokenWithSpan], token: &mut TokenWithSpan) {
    let Token::Word(word) = &token.token else { return };
    let is_glob = word.value.eq_ignore_ascii_case("glob");
    if word.quote_style.is_some() || !(is_glob || word.keyword == Keyword::REGEXP) {
        return;
    }
    let is_operand = before.last().is_some_and(|before| match &before.token {
        Token::Word(word) => {
            let not = [Keyword::SELECT, Keyword::WHERE, Keyword::AND, Keyword::OR, Keyword::ON, Keyword::BY];
            word.quote_style.is_some() || !(not.contains(&word.keyword) || word.keyword == Keyword::AS)
        }
        Token::SingleQuotedString(_) | Token::Number(..) | Token::RParen | Token::RBracket => true,
        _ => false,
    });
    if is_operand && is_glob {
        token.token = Token::make_keyword("REGEXP");
    } else if is_operand {
        token.token = Token::Tilde;
    }
}

/// The number of an interval that stands in parentheses, where `token` closes them.
fn bracketed(before: &[TokenWithSpan], token: &TokenWithSpan) -> Option<TokenWithSpan> {
    let [.., interval, open, number] = before else { return None };
    let is_interval = matches!(&interval.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::INTERVAL);
    let closes = matches!((&open.token, &token.token), (Token::LParen, Token::RParen));
    match &number.token {
        Token::Number(text, _) if is_interval && closes => {
            Some(TokenWithSpan { token: Token::SingleQuotedString(text.clone()), span: number.span })
        }
        _ => None,
    }
}

/// Units of intervals that the parser would take for a name.
fn singular(before: &[TokenWithSpan], token: &mut TokenWithSpan) {
    let of_interval = before.len().checked_sub(2).and_then(|at| before.get(at)).is_some_and(
        |token| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::INTERVAL),
    );
    let Token::Word(word) = &mut token.token else { return };
    let units = [
        ("millennia", "MILLENNIUM"),
        ("centuries", "CENTURY"),
        ("decades", "DECADE"),
        ("quarters", "QUARTER"),
    ];
    let unit = units.iter().find(|(unit, _)| word.value.eq_ignore_ascii_case(unit));
    if of_interval && let Some((_, unit)) = unit {
        token.token = Token::make_keyword(unit);
    }
}
