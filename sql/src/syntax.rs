//! What the parser takes: all that its generic dialect does, and lambdas; IS DISTINCT FROM ends before AND and OR, where the
//! parser's own takes them for what is compared; `||`, the arrows of JSON and the operators of bits bind alike, less than arithmetic and
//! more than comparisons, as in PostgreSQL and DuckDB, where the parser's own have a place each; `x ISNULL` is `x IS NULL`; a list of IN
//! may begin with a query.

use std::{any::TypeId, cell::Cell};

use datafusion::sql::sqlparser::{
    ast::{BinaryOperator, Expr, Ident, UnaryOperator},
    dialect::{Dialect, GenericDialect, Precedence},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan},
};

use crate::{dialect::keyword, limits};

thread_local! {
    /// How many expressions the parser of a thread may still begin.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// While it is there, the parser of this thread begins so many expressions at most as a text of so many tokens may need. A word that
/// begins an expression of its own, such as CAST, may be a name as well, and what stands in its parentheses is parsed once more as
/// that where it was none: within each other, 25 of them take days to find a fault in the innermost.
pub(crate) struct Bounded(());

impl Bounded {
    pub(crate) fn new(tokens: usize) -> Self {
        LEFT.set(tokens.saturating_mul(limits::BEGUN).saturating_add(limits::BEGUN_BESIDE));
        Self(())
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        LEFT.set(usize::MAX);
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Syntax {
    /// Whether a join that stands before the ON of another is within that one.
    nests_joins: bool,
    /// Whether a table may have another name behind INSERT INTO.
    names_targets: bool,
}

/// What the parser takes.
pub(crate) const SYNTAX: Syntax = Syntax { nests_joins: false, names_targets: false };

/// What it takes of `a JOIN b JOIN c ON ... ON ...`, which is no statement otherwise.
pub(crate) const OF_NESTED_JOINS: Syntax = Syntax { nests_joins: true, names_targets: false };

/// What it takes of a text in which [`names_target`]: without AS it would take any word for the name.
pub(crate) const OF_NAMED_TARGETS: Syntax = Syntax { nests_joins: false, names_targets: true };

/// What stands for the upper bound of BETWEEN SYMMETRIC, of which the parser knows nothing: the lower one is a row of both.
pub(crate) const BOTH_BOUNDS: &str = "basalt_both_bounds";

/// Says yes to each question.
macro_rules! has {
    ($($name:ident),* $(,)?) => {
        $(fn $name(&self) -> bool {
            true
        })*
    };
}

impl Dialect for Syntax {
    // Where the parser asks for a dialect by its name, it is the generic one.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_delimited_identifier_start(ch)
    }

    /// `#` is an operator of bits, not the beginning of a name.
    fn is_identifier_start(&self, ch: char) -> bool {
        ch != '#' && GenericDialect.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        GenericDialect.is_identifier_part(ch)
    }

    fn parse_infix(&self, parser: &mut Parser<'_>, expr: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        use Keyword::{BETWEEN, DISTINCT, FROM, IS, NOT, SYMMETRIC};
        if is_null(&parser.peek_token_ref().token) {
            parser.advance_token();
            return Some(Ok(Expr::IsNull(Box::new(expr.clone()))));
        }
        // The bits that one of both has, which the parser knows in PostgreSQL's dialect alone.
        if parser.consume_token(&Token::Sharp) {
            let right = parser.parse_subexpr(self.operators());
            return Some(right.map(|right| {
                let (left, right) = (Box::new(expr.clone()), Box::new(right));
                Expr::BinaryOp { left, op: BinaryOperator::PGBitwiseXor, right }
            }));
        }
        if parser.parse_keywords(&[BETWEEN, SYMMETRIC]) {
            return Some(self.symmetric(parser, expr, false));
        }
        if parser.parse_keywords(&[NOT, BETWEEN, SYMMETRIC]) {
            return Some(self.symmetric(parser, expr, true));
        }
        if let Some(negated) = begins_list(parser) {
            return Some(list(parser, expr, negated));
        }
        let compared: fn(Box<Expr>, Box<Expr>) -> Expr = if parser.parse_keywords(&[IS, DISTINCT, FROM]) {
            Expr::IsDistinctFrom
        } else if parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]) {
            Expr::IsNotDistinctFrom
        } else {
            return None;
        };
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is));
        Some(right.map(|right| compared(Box::new(expr.clone()), Box::new(right))))
    }

    /// Twice what it is elsewhere, so that there is one between comparisons and operators of bits.
    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            // What ends at a colon, such as a key, may have `||`.
            Precedence::Colon => self.prec_value(Precedence::Eq),
            precedence => 2 * GenericDialect.prec_value(precedence),
        }
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        use Token::{Ampersand, Pipe, Sharp, ShiftLeft, ShiftRight, StringConcat};
        use Token::{Arrow, HashArrow, HashLongArrow, LongArrow};
        match &parser.peek_token_ref().token {
            Arrow | LongArrow | HashArrow | HashLongArrow => Some(Ok(self.operators())),
            StringConcat | Ampersand | Pipe | Sharp | ShiftLeft | ShiftRight => Some(Ok(self.operators())),
            token if is_null(token) => Some(Ok(self.prec_value(Precedence::Is))),
            _ => None,
        }
    }

    /// A name before an arrow is a column, but where an argument begins, which may be a lambda. `~` binds as other operators of
    /// bits.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let Some(left) = LEFT.get().checked_sub(1) else {
            return Some(Err(ParserError::RecursionLimitExceeded));
        };
        LEFT.set(left);
        if parser.consume_token(&Token::Tilde) {
            let expr = parser.parse_subexpr(self.operators());
            return Some(
                expr.map(|expr| Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: Box::new(expr) }),
            );
        }
        let Token::Word(word) = &parser.peek_token_ref().token else { return None };
        let begins = matches!(parser.get_current_token().token, Token::LParen | Token::Comma);
        if begins || parser.peek_nth_token_ref(1).token != Token::Arrow {
            return None;
        }
        let name = word.to_ident(parser.peek_token_ref().span);
        parser.advance_token();
        Some(Ok(Expr::Identifier(name)))
    }

    fn supports_left_associative_joins_without_parens(&self) -> bool {
        !self.nests_joins
    }

    /// ON is a name for what stands before it, but not where an INSERT goes on with ON CONFLICT behind a query without FROM.
    fn is_select_item_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser<'_>) -> bool {
        let is_conflict = *kw == Keyword::ON && keyword(&parser.peek_token_ref().token) == Keyword::CONFLICT;
        explicit || (!is_conflict && self.is_column_alias(kw, parser))
    }

    fn supports_insert_table_alias(&self) -> bool {
        self.names_targets
    }

    has!(
        supports_unicode_string_literal,
        supports_partition_by_after_order_by,
        supports_array_join_syntax,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_connect_by,
        supports_match_recognize,
        supports_pipe_operator,
        supports_start_transaction_modifier,
        supports_window_function_null_treatment_arg,
        supports_dictionary_syntax,
        supports_window_clause_named_window_reference,
        supports_parenthesized_set_variables,
        supports_select_wildcard_except,
        support_map_literal_syntax,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_extract_comma_syntax,
        supports_create_view_comment_syntax,
        supports_parens_around_table_factor,
        supports_values_as_table_factor,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_limit_comma,
        supports_update_order_by,
        supports_from_first_select,
        supports_projection_trailing_commas,
        supports_asc_desc_in_column_definition,
        supports_try_convert,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_assignment_operator,
        supports_struct_literal,
        supports_empty_projections,
        supports_nested_comments,
        supports_multiline_comment_hints,
        supports_user_host_grantee,
        supports_string_escape_constant,
        supports_array_typedef_with_brackets,
        supports_match_against,
        supports_set_names,
        supports_comma_separated_set_assignments,
        supports_filter_during_aggregation,
        supports_select_wildcard_exclude,
        supports_data_type_signed_suffix,
        supports_interval_options,
        supports_quote_delimited_string,
        supports_select_wildcard_replace,
        supports_select_wildcard_ilike,
        supports_select_wildcard_rename,
        supports_optimize_table,
        supports_install,
        supports_detach,
        supports_prewhere,
        supports_with_fill,
        supports_limit_by,
        supports_interpolate,
        supports_settings,
        supports_select_format,
        supports_comment_optimizer_hint,
        supports_constraint_keyword_without_name,
        supports_key_column_option,
        supports_comma_separated_trim,
        supports_cte_without_as,
        supports_select_item_multi_column_alias,
        supports_xml_expressions,
        supports_lambda_functions,
        supports_notnull_operator
    );
}

impl Syntax {
    /// What stands behind BETWEEN SYMMETRIC.
    fn symmetric(&self, parser: &mut Parser<'_>, expr: &Expr, negated: bool) -> Result<Expr, ParserError> {
        let precedence = self.prec_value(Precedence::Between);
        let low = parser.parse_subexpr(precedence)?;
        parser.expect_keyword_is(Keyword::AND)?;
        let bounds = vec![low, parser.parse_subexpr(precedence)?];
        let both = Expr::Identifier(Ident::with_quote('"', BOTH_BOUNDS));
        let (low, high) = (Box::new(Expr::Tuple(bounds)), Box::new(both));
        Ok(Expr::Between { expr: Box::new(expr.clone()), negated, low, high })
    }

    /// How `||` and the operators of JSON and of bits bind.
    fn operators(&self) -> u8 {
        self.prec_value(Precedence::Eq) + 1
    }
}

/// Whether `[NOT] IN ((SELECT ...), ...)` is next, and whether it is negated: the parser's own takes what stands first for all there is.
fn begins_list(parser: &Parser<'_>) -> Option<bool> {
    let is = |at: usize, wanted: Keyword| keyword(&parser.peek_nth_token_ref(at).token) == wanted;
    let negated = is(0, Keyword::NOT);
    let at = usize::from(negated);
    let opens = |at: usize| parser.peek_nth_token_ref(at).token == Token::LParen;
    if !is(at, Keyword::IN) || !opens(at + 1) || !opens(at + 2) {
        return None;
    }
    if !is(at + 3, Keyword::SELECT) && !is(at + 3, Keyword::WITH) {
        return None;
    }
    // By their places: what is next is found from here, however far it is.
    let mut open = 0_usize;
    for place in parser.index().. {
        match parser.token_at(place).token {
            Token::LParen => open += 1,
            // The first is that of the list.
            Token::RParen if open == 2 => {
                let behind = (place + 1..).map(|place| &parser.token_at(place).token);
                let next = behind.into_iter().find(|token| !matches!(token, Token::Whitespace(_)));
                return (next == Some(&Token::Comma)).then_some(negated);
            }
            Token::RParen => open = open.saturating_sub(1),
            Token::EOF => return None,
            _ => {}
        }
    }
    None
}

/// What [`begins_list`].
fn list(parser: &mut Parser<'_>, expr: &Expr, negated: bool) -> Result<Expr, ParserError> {
    if negated {
        parser.advance_token();
    }
    parser.expect_keyword_is(Keyword::IN)?;
    parser.expect_token(&Token::LParen)?;
    let list = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::InList { expr: Box::new(expr.clone()), list, negated })
}

/// Whether a text gives a table another name behind INSERT INTO, as in `INSERT INTO t AS u`. There is no white space among its
/// tokens.
pub(crate) fn names_target(tokens: &[TokenWithSpan]) -> bool {
    let is = |at: usize, wanted: Keyword| tokens.get(at).is_some_and(|token| keyword(&token.token) == wanted);
    (0..tokens.len()).any(|at| {
        if !(is(at, Keyword::INSERT) && is(at + 1, Keyword::INTO)) {
            return false;
        }
        let mut behind = at + 3;
        while tokens.get(behind).is_some_and(|token| token.token == Token::Period) {
            behind += 2;
        }
        is(behind, Keyword::AS)
    })
}

/// Whether a token is the word ISNULL.
fn is_null(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("isnull"))
}
