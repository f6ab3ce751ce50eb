//! From a text to a statement: names in the spelling that the tables have, the versions that are named, and parameters.
//!
//! A name without quotes is the one that is written so, or else the only one that is written so but for case; what is
//! the name of nothing is in lower case. A quoted name is taken as it stands.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::ControlFlow,
};

use basalt_core::{error::ErrorKind, query::Literal, schema::DataType};
use datafusion::{
    common::TableReference,
    sql::{
        parser::{DFParserBuilder, ExplainStatement, ResetStatement, Statement},
        resolve::resolve_table_references,
        sqlparser::{
            ast::{
                self, Ident, ObjectName, ObjectNamePart, TableAlias, TableFactor, Value, VisitMut as _,
                VisitorMut,
            },
            keywords::Keyword,
            parser::Parser,
            tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer},
        },
    },
};

use crate::{
    chains, describe, dialect,
    error::{Error, Result, of_parser},
    given::{cast_as_said, parameter},
    headings::{self, Headings, Naming},
    limits,
    literal_rows::LiteralRows,
    no_statement::no_statement,
    script,
    syntax::{Bounded, OF_NAMED_TARGETS, OF_NESTED_JOINS, SYNTAX, Syntax, names_target},
    system,
    write::{behind_with, target},
};

const CLAUSE: [Keyword; 4] = [Keyword::FOR, Keyword::VERSION, Keyword::AS, Keyword::OF];

/// A text that was cut into tokens.
#[derive(Debug)]
pub(crate) struct Text {
    tokens: Vec<TokenWithSpan>,
    versions: Versions,
    /// Where the names of common table expressions stand that are NOT MATERIALIZED.
    inlined: BTreeSet<Location>,
}

/// The versions that are named, by the place of the name that stands before.
type Versions = HashMap<Location, (u64, Span)>;

/// A table as a statement names it, at a version.
pub(crate) type Named = (String, Option<u64>);

/// What stands for the parameters of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parameters<'a> {
    /// Their values.
    Given(&'a [Literal]),
    /// They themselves, each `?` numbered, with the types that the client says they have: the statement is described, not
    /// run.
    Open(&'a [Option<DataType>]),
}

/// A statement, and the tables that it reads.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) statement: Statement,
    /// By the name that stands for each in the statement.
    pub(crate) tables: BTreeMap<String, Named>,
    pub(crate) headings: Headings,
    /// Those of an INSERT that needs no planner; the statement has them no longer.
    pub(crate) rows: Option<LiteralRows>,
    /// What was asked for are the columns of this query.
    pub(crate) describes: bool,
}

impl Text {
    pub(crate) fn new(sql: &str) -> Result<Self> {
        script::check_size(sql)?;
        let tokens = Tokenizer::new(&SYNTAX, sql).tokenize_with_location();
        let mut tokens = tokens.map_err(|error| of_parser(&error.into()))?;
        let versions = take_versions(&mut tokens)?;
        dialect::quote_columns(&mut tokens);
        let mut tokens = dialect::tokens(tokens)?;
        let inlined = dialect::take_materialized(&mut tokens);
        chains::check_length(&tokens)?;
        Ok(Self { tokens, versions, inlined })
    }

    /// The query that is to be stopped, where the statement is `CANCEL QUERY 'id'`, of which the parser knows nothing.
    pub(crate) fn cancelled(&self) -> Option<&str> {
        let mut tokens =
            self.tokens.iter().map(|token| &token.token).filter(|t| !matches!(t, Token::Whitespace(_)));
        let mut word = |name: &str| {
            tokens.next().is_some_and(|token| match token {
                Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name),
                _ => false,
            })
        };
        if !(word("cancel") && word("query")) {
            return None;
        }
        let Some(Token::SingleQuotedString(id)) = tokens.next() else { return None };
        tokens.all(|token| matches!(token, Token::SemiColon | Token::EOF)).then_some(id)
    }

    /// The statement, where names without quotes are spelled as `names` has them.
    pub(crate) fn parse(&self, names: &Names, parameters: Parameters<'_>) -> Result<Parsed> {
        let tokens = self.tokens.iter().map(|token| names.spelled(token)).collect::<Vec<_>>();
        let bounded = Bounded::new(tokens.len());
        let mut statements = match tokens.first().map(|token| &token.token) {
            // That of DataFusion knows only one way.
            Some(Token::Word(word)) if word.keyword == Keyword::COPY && word.quote_style.is_none() => {
                let parser = Parser::new(&SYNTAX).with_recursion_limit(limits::NESTING);
                let parsed = parser.with_tokens_with_locations(tokens).parse_statements();
                let parsed = parsed.map_err(|error| of_parser(&error))?;
                parsed.into_iter().map(from_file_or_to).collect::<Result<_>>()?
            }
            _ => {
                let of = |syntax: &'static Syntax, tokens: Vec<TokenWithSpan>| {
                    let parser = DFParserBuilder::new(tokens).with_dialect(syntax);
                    let parser = parser.with_recursion_limit(limits::NESTING).build();
                    parser.and_then(|mut parser| parser.parse_statements())
                };
                let syntax = if names_target(&tokens) { &OF_NAMED_TARGETS } else { &SYNTAX };
                let parsed = match joins(&tokens) > 1 {
                    true => of(syntax, tokens.clone())
                        .or_else(|error| of(&OF_NESTED_JOINS, tokens).map_err(|_| error)),
                    false => of(syntax, tokens),
                };
                parsed.map_err(|error| dialect::unknown::explained(&self.tokens, error.into()))?
            }
        };
        drop(bounded);
        let mut statement = match (statements.pop_front(), statements.pop_front()) {
            (Some(statement), None) => statement,
            (None, _) => return Err(Error::invalid("there is no statement")),
            (Some(_), Some(_)) => return Err(Error::invalid("there is more than one statement")),
        };
        if let Statement::Reset(reset) = statement {
            statement = Statement::Statement(Box::new(ast::Statement::Reset(as_parsed(reset))));
        }
        let describes = describe::only_query(&mut statement);
        let inner = inner(&mut statement)?;
        dialect::inline(inner, &self.inlined);
        let rows = LiteralRows::take(inner, parameters);
        let headings = Headings::of(inner, names.naming);
        if names.naming == Naming::Short {
            headings::order_by_place(inner);
        }
        system::rewrite(inner, &names.tables)?;
        let mut rewrite = Rewrite {
            versions: &self.versions,
            used: BTreeSet::new(),
            tables: BTreeMap::new(),
            functions: BTreeSet::new(),
            parameters,
            positional: 0,
            fault: None,
        };
        let _ = inner.visit(&mut rewrite);
        let Rewrite { fault, used, tables: named, functions, .. } = rewrite;
        if let Some(fault) = fault {
            return Err(fault);
        }
        dialect::rewrite(inner)?;
        if let Some((_, (_, clause))) = self.versions.iter().find(|(place, _)| !used.contains(*place)) {
            let error = Error::invalid("FOR VERSION AS OF stands behind the name of a table in FROM");
            return Err(error.at(clause.start.line, clause.start.column));
        }
        let mut tables = BTreeMap::new();
        let references = match named_in(&statement) {
            None => return Ok(Parsed { statement, tables, headings, rows, describes }),
            Some(part) => resolve_table_references(&part, false)?.0,
        };
        for reference in references {
            let TableReference::Bare { table } = &reference else {
                return Err(Error::new(
                    ErrorKind::TableNotFound,
                    format!("no table {:?}", reference.to_string()),
                ));
            };
            let table = table.to_string();
            if functions.contains(&table) {
                continue;
            }
            let of = named.get(&table).cloned().unwrap_or_else(|| at_version(&table));
            tables.insert(table, of);
        }
        // A table that is written to is none of those that WITH names.
        if let Statement::Statement(inner) = &statement
            && matches!(&**inner, ast::Statement::Query(_))
            && let Some((_, table)) = target(inner).ok().flatten()
        {
            tables.entry(table.clone()).or_insert((table, None));
        }
        Ok(Parsed { statement, tables, headings, rows, describes })
    }
}

/// How many joins there are, at most.
fn joins(tokens: &[TokenWithSpan]) -> usize {
    let is_join =
        |token: &&TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::JOIN);
    tokens.iter().filter(is_join).count()
}

/// The statement that a text holds, or explains.
fn inner(statement: &mut Statement) -> Result<&mut ast::Statement> {
    match statement {
        Statement::Explain(ExplainStatement { statement, .. }) => {
            let explained = inner(statement)?;
            let reads = matches!(&*explained, ast::Statement::Query(query) if behind_with(query).is_none());
            match reads {
                true => Ok(explained),
                false => Err(Error::unsupported("EXPLAIN of anything but a query")),
            }
        }
        Statement::Statement(statement) => match &**statement {
            ast::Statement::Query(_)
            | ast::Statement::ShowTables { .. }
            | ast::Statement::ExplainTable { .. }
            | ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)
            | ast::Statement::Truncate(_)
            | ast::Statement::CreateTable(_)
            | ast::Statement::CreateView(_)
            | ast::Statement::CreateIndex(_)
            | ast::Statement::AlterTable(_)
            | ast::Statement::Copy { .. }
            | ast::Statement::Drop {
                object_type: ast::ObjectType::Table | ast::ObjectType::View | ast::ObjectType::Index,
                ..
            }
            | ast::Statement::ShowViews { .. }
            | ast::Statement::ShowColumns { .. }
            | ast::Statement::ShowCreate { .. }
            | ast::Statement::ShowVariable { .. }
            | ast::Statement::Set(_)
            | ast::Statement::Reset(_) => Ok(statement),
            other => {
                let text = other.to_string();
                let mut words = text.split_whitespace();
                let first = words.next().unwrap_or_default();
                // These make, change and show things of many kinds.
                let of_kinds = matches!(first, "ALTER" | "CREATE" | "DROP" | "SHOW");
                let kind = words.next().filter(|_| of_kinds);
                Err(no_statement(&kind.map_or_else(|| first.to_owned(), |kind| format!("{first} {kind}"))))
            }
        },
        Statement::CreateExternalTable(_) => Err(no_statement("CREATE EXTERNAL TABLE")),
        Statement::CopyTo(_) => Err(no_statement("COPY")),
        Statement::Reset(_) => Err(no_statement("RESET")),
    }
}

/// RESET, of which the planner has a form of its own.
fn as_parsed(ResetStatement::Variable(name): ResetStatement) -> ast::ResetStatement {
    let reset = match name.to_string().eq_ignore_ascii_case("all") {
        true => ast::Reset::ALL,
        false => ast::Reset::ConfigurationParameter(name),
    };
    ast::ResetStatement { reset }
}

/// The part of a statement that names tables which are there; `None`: it reads none.
fn named_in(statement: &Statement) -> Option<Cow<'_, Statement>> {
    let Statement::Statement(inner) = statement else { return Some(Cow::Borrowed(statement)) };
    match &**inner {
        ast::Statement::CreateTable(ast::CreateTable { query, .. }) => {
            Some(Cow::Owned(as_query(query.clone()?)))
        }
        ast::Statement::Copy { source: ast::CopySource::Query(query), .. } => {
            Some(Cow::Owned(as_query(query.clone())))
        }
        ast::Statement::CreateView(view) => Some(Cow::Owned(as_query(view.query.clone()))),
        ast::Statement::Query(_)
        | ast::Statement::Insert(_)
        | ast::Statement::Update(_)
        | ast::Statement::Delete(_)
        | ast::Statement::Truncate(_) => Some(Cow::Borrowed(statement)),
        _ => None,
    }
}

/// COPY, where a table that is written to a file is a query.
fn from_file_or_to(mut statement: ast::Statement) -> Result<Statement> {
    if let ast::Statement::Copy { source, to: true, .. } = &mut statement
        && let ast::CopySource::Table { table_name, columns } = source
    {
        let query = crate::copy::query_of_table(table_name, columns);
        *source = ast::CopySource::Query(query.ok_or_else(|| Error::invalid("COPY of which table?"))?);
    }
    Ok(Statement::Statement(Box::new(statement)))
}

pub(crate) fn as_query(query: Box<ast::Query>) -> Statement {
    Statement::Statement(Box::new(ast::Statement::Query(query)))
}

/// A table as the text of a view has it, which names a version by [`Rewrite`]'s name for it.
fn at_version(name: &str) -> Named {
    match name.rsplit_once('@').map(|(table, version)| (table, version.parse())) {
        Some((table, Ok(version))) => (table.to_owned(), Some(version)),
        _ => (name.to_owned(), None),
    }
}

/// Takes the clauses `FOR VERSION AS OF n` out of a text, of which the parser's dialect knows nothing.
fn take_versions(tokens: &mut Vec<TokenWithSpan>) -> Result<Versions> {
    let mut versions = Versions::new();
    let mut left: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest =
        std::mem::take(tokens).into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).peekable();
    let keyword = |token: &TokenWithSpan| dialect::keyword(&token.token);
    while let Some(token) = rest.next() {
        left.push(token);
        let begins = left.len().checked_sub(CLAUSE.len()).unwrap_or(usize::MAX);
        let Some(clause) = left.get(begins..) else { continue };
        if !clause.iter().map(keyword).eq(CLAUSE) {
            continue;
        }
        let place = clause[0].span;
        let version = match rest.next().map(|token| token.token) {
            Some(Token::Number(number, _)) => number.parse().ok(),
            _ => None,
        };
        let Some(version) = version else {
            let error = Error::invalid("FOR VERSION AS OF takes a version's number");
            return Err(error.at(place.start.line, place.start.column));
        };
        left.truncate(begins);
        let before = left.last().map(|token| token.span.start);
        if before.and_then(|before| versions.insert(before, (version, place))).is_some() || before.is_none() {
            let error = Error::invalid("FOR VERSION AS OF stands once, behind the name of a table");
            return Err(error.at(place.start.line, place.start.column));
        }
    }
    *tokens = left;
    Ok(versions)
}

/// How names are spelled.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Those of tables and views.
    tables: Vec<String>,
    exact: BTreeSet<String>,
    by_lower: HashMap<String, Vec<String>>,
    /// How an answer's columns without one are called.
    naming: Naming,
}

impl Names {
    pub(crate) fn of_tables<'a>(tables: impl Iterator<Item = &'a String>) -> Self {
        let mut names = Self::default();
        let tables: Vec<_> = tables.inspect(|table| names.add(table)).cloned().collect();
        Self { tables, ..names }
    }

    pub(crate) fn for_columns(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }

    pub(crate) fn add(&mut self, name: &str) {
        if self.exact.insert(name.to_owned()) {
            self.by_lower.entry(name.to_lowercase()).or_default().push(name.to_owned());
        }
    }

    /// Whether lower case is how all of them are spelled.
    pub(crate) fn are_lower(&self) -> bool {
        self.by_lower.iter().all(|(lower, spellings)| spellings.iter().all(|spelling| spelling == lower))
    }

    fn spelled(&self, token: &TokenWithSpan) -> TokenWithSpan {
        let mut token = token.clone();
        if let Token::Word(word) = &mut token.token
            && word.quote_style.is_none()
            && !self.exact.contains(&word.value)
        {
            let lower = word.value.to_lowercase();
            word.value = match self.by_lower.get(&lower).map(Vec::as_slice) {
                Some([only]) => only.clone(),
                _ => lower,
            };
        }
        token
    }
}

/// Puts tables at versions and parameters in their places.
struct Rewrite<'a> {
    versions: &'a Versions,
    used: BTreeSet<Location>,
    tables: BTreeMap<String, Named>,
    /// What stands in FROM and is called.
    functions: BTreeSet<String>,
    parameters: Parameters<'a>,
    positional: usize,
    fault: Option<Error>,
}

impl VisitorMut for Rewrite<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.fault = dialect::unknown::factor(factor);
        if self.fault.is_some() {
            return ControlFlow::Break(());
        }
        let TableFactor::Table {
            name: ObjectName(parts), alias, args, partitions, json_path, version, ..
        } = factor
        else {
            return ControlFlow::Continue(());
        };
        // What the planner passes over without a word.
        let ignored = [
            (!partitions.is_empty(), "PARTITION behind a table"),
            (json_path.is_some(), "a path behind a table"),
            (version.is_some(), "this form of a table's version"),
        ];
        if let Some((_, what)) = ignored.iter().find(|(is_there, _)| *is_there) {
            self.fault = Some(Error::unsupported(what));
            return ControlFlow::Break(());
        }
        if args.is_some() {
            self.functions.extend(parts.iter().map(ToString::to_string));
            return ControlFlow::Continue(());
        }
        let [ObjectNamePart::Identifier(name)] = parts.as_mut_slice() else {
            return ControlFlow::Continue(());
        };
        let behind = |ident: &Ident| self.versions.get_key_value(&ident.span.start);
        let found = behind(name).or_else(|| alias.as_ref().and_then(|alias| behind(&alias.name)));
        let Some((place, (version, _))) = found else { return ControlFlow::Continue(()) };
        self.used.insert(*place);
        let table = name.value.clone();
        let at = format!("{table}@{version}");
        self.tables.insert(at.clone(), (table, Some(*version)));
        if alias.is_none() {
            *alias = Some(TableAlias { explicit: true, name: name.clone(), columns: Vec::new(), at: None });
        }
        *name = Ident { value: at, quote_style: Some('"'), span: name.span };
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let ties = query.fetch.as_ref().is_some_and(|fetch| fetch.with_ties || fetch.percent);
        let ignored = [
            (ties, "FETCH with PERCENT or TIES"),
            (!query.locks.is_empty(), "FOR UPDATE and FOR SHARE"),
            (query.for_clause.is_some(), "FOR XML, JSON or BROWSE"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
        ];
        if let Some((_, what)) = ignored.iter().find(|(is_there, _)| *is_there) {
            self.fault = Some(Error::unsupported(what));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        let ast::Expr::Value(value) = expr else { return ControlFlow::Continue(()) };
        if let Value::Number(text, _) = &value.value
            && text.contains(['e', 'E'])
        {
            // With an exponent it is a float.
            let float = text.parse().ok().filter(|float: &f64| float.is_finite());
            match float.and_then(|float| parameter(&Literal::Float(float))) {
                Some(float) => *expr = float,
                None => {
                    let message = format!("{text} does not fit a float64");
                    let error = Error::new(ErrorKind::Overflow, message);
                    self.fault = Some(error.at(value.span.start.line, value.span.start.column));
                    return ControlFlow::Break(());
                }
            }
            return ControlFlow::Continue(());
        }
        let Value::Placeholder(name) = &value.value else { return ControlFlow::Continue(()) };
        let number = match name.strip_prefix('$') {
            Some(number) => number.parse().ok(),
            None => {
                self.positional += 1;
                Some(self.positional)
            }
        };
        let place = value.span.start;
        let given = match (self.parameters, number) {
            (Parameters::Given(given), Some(number)) => number.checked_sub(1).and_then(|at| given.get(at)),
            (Parameters::Open(_), Some(1..=limits::PARAMETERS)) => {
                value.value = Value::Placeholder(format!("${}", number.unwrap_or_default()));
                return ControlFlow::Continue(());
            }
            _ => None,
        };
        match given.and_then(parameter) {
            Some(given) => {
                *expr = given;
                ControlFlow::Continue(())
            }
            None => {
                let message = match self.parameters {
                    Parameters::Given(given) => {
                        format!("there is no parameter {name}; {} are given", given.len())
                    }
                    Parameters::Open(_) if number > Some(limits::PARAMETERS) => {
                        format!("there is no parameter {name}: ${} is the last", limits::PARAMETERS)
                    }
                    Parameters::Open(_) => format!("there is no parameter {name}: $1 is the first"),
                };
                self.fault = Some(Error::invalid(message).at(place.line, place.column));
                ControlFlow::Break(())
            }
        }
    }

    /// What a client says of a parameter's type, functions and operators are to know.
    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let Parameters::Open(types) = self.parameters {
            cast_as_said(expr, types);
        }
        ControlFlow::Continue(())
    }
}

/// Of a text that was made of parts of a statement: what is MATERIALIZED or not in it is so no longer.
pub(crate) fn ast_parser(sql: &str) -> Option<Parser<'static>> {
    let mut tokens = Tokenizer::new(&SYNTAX, sql).tokenize_with_location().ok()?;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    dialect::take_materialized(&mut tokens);
    Some(Parser::new(&SYNTAX).with_tokens_with_locations(tokens))
}
