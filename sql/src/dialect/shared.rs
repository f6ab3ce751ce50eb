//! Common table expressions that are named more than once: the planner writes each down where it is named, and it may have other
//! rows each time that it is evaluated. They get a name in the plan that no other has, by which they are found there.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    ops::ControlFlow,
};

use datafusion::sql::sqlparser::{
    ast::{
        Cte, CteAsMaterialized, ObjectName, Query, SetExpr, Statement, TableFactor, Visit as _,
        VisitMut as _, Visitor, VisitorMut, visit_relations,
    },
    keywords::Keyword,
    tokenizer::{Location, Token, TokenWithSpan},
};

use super::{exprs::bare, words::keyword};
use crate::parse::ast_parser;

/// What the names begin with.
pub(crate) const MARK: &str = "basalt_cte_";

/// What those of NOT MATERIALIZED begin with.
pub(crate) const INLINED: &str = "basalt_cte_inlined_";

/// What stands for the first rows of a recursive one begins with, where others have its name.
pub(crate) const RECURSIVE: &str = "basalt_recursive_";

/// Takes out of a text whether common table expressions are materialized, of which the parser knows nothing. The places are those
/// of the names of the ones that are NOT MATERIALIZED. There is no white space among the tokens.
pub(crate) fn take_materialized(tokens: &mut Vec<TokenWithSpan>) -> BTreeSet<Location> {
    let mut inlined = BTreeSet::new();
    if !tokens.iter().any(|token| keyword(&token.token) == Keyword::MATERIALIZED) {
        return inlined;
    }
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in mem::take(tokens) {
        if token.token == Token::LParen {
            let is = |back: usize, expected: Keyword| {
                let token = kept.len().checked_sub(back).and_then(|at| kept.get(at));
                token.is_some_and(|token| keyword(&token.token) == expected)
            };
            let is_materialized = is(1, Keyword::MATERIALIZED) && is(2, Keyword::AS);
            let is_not = is(1, Keyword::MATERIALIZED) && is(2, Keyword::NOT) && is(3, Keyword::AS);
            if is_materialized {
                kept.pop();
            } else if is_not {
                kept.truncate(kept.len() - 2);
                inlined.extend(named_before(&kept));
            }
        }
        kept.push(token);
    }
    *tokens = kept;
    inlined
}

/// The place of the name that stands before AS, and before a list of columns.
fn named_before(tokens: &[TokenWithSpan]) -> Option<Location> {
    let (_, mut before) = tokens.split_last()?;
    if before.last()?.token == Token::RParen {
        let open = before.iter().rposition(|token| token.token == Token::LParen)?;
        before = &before[..open];
    }
    before.last().map(|name| name.span.start)
}

/// Says of the common table expressions with names at these places that they are NOT MATERIALIZED.
pub(crate) fn inline(statement: &mut Statement, names: &BTreeSet<Location>) {
    if !names.is_empty() {
        let _ = statement.visit(&mut Inlined { names });
    }
}

struct Inlined<'a> {
    names: &'a BTreeSet<Location>,
}

impl VisitorMut for Inlined<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            if self.names.contains(&cte.alias.name.span.start) {
                cte.materialized = Some(CteAsMaterialized::NotMaterialized);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether a statement has such ones, maybe: most have none, and need not be copied to be marked.
pub(crate) fn has_shared(statement: &Statement) -> bool {
    let named = Named::of(statement);
    named.queries.iter().any(|query| named.times(query) > 1)
}

/// Whether any was given a name.
pub(crate) fn mark(statement: &mut Statement) -> bool {
    let mut marks = Marks { named: Named::of(statement), marked: 0 };
    let _ = statement.visit(&mut marks);
    marks.marked > 0
}

/// What a statement names.
#[derive(Default)]
struct Named {
    /// Its common table expressions.
    queries: Vec<String>,
    /// How often its relations stand there.
    relations: HashMap<String, usize>,
}

impl Named {
    fn of(statement: &Statement) -> Self {
        let mut named = Self::default();
        let _ = statement.visit(&mut named);
        named
    }

    fn times(&self, name: &str) -> usize {
        // Default: it is named nowhere.
        self.relations.get(name).copied().unwrap_or_default()
    }
}

impl Visitor for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.queries.extend(ctes.map(name_of));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if let Some(name) = bare(relation) {
            *self.relations.entry(name).or_default() += 1;
        }
        ControlFlow::Continue(())
    }
}

fn name_of(cte: &Cte) -> String {
    cte.alias.name.value.to_lowercase()
}

struct Marks {
    named: Named,
    marked: usize,
}

impl VisitorMut for Marks {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        for cte in &mut with.cte_tables {
            let name = name_of(cte);
            if self.named.times(&name) < 2 {
                continue;
            }
            if with.recursive && reads(&cte.query, &name) {
                // It is found by its own name, where that is the name of no other.
                let is_alone = self.named.queries.iter().filter(|query| **query == name).count() == 1;
                let is_told_apart =
                    !is_alone && tell_apart(&mut cte.query, &format!("{RECURSIVE}{}", self.marked)).is_some();
                self.marked += usize::from(is_told_apart);
                continue;
            }
            let mark = match cte.materialized {
                Some(CteAsMaterialized::NotMaterialized) => INLINED,
                _ => MARK,
            };
            let Some(wrapped) = all_of(&cte.query, &format!("{mark}{}", self.marked)) else { continue };
            self.marked += 1;
            *cte.query = wrapped;
        }
        ControlFlow::Continue(())
    }
}

/// A query that selects all of another, which has a name, and maybe columns behind it.
pub(crate) fn all_of(query: &Query, name: &str) -> Option<Query> {
    let text = format!("SELECT * FROM (SELECT 1) AS {name}");
    let mut whole = *ast_parser(&text)?.parse_query().ok()?;
    let SetExpr::Select(select) = &mut *whole.body else { return None };
    let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|from| &mut from.relation)
    else {
        return None;
    };
    **subquery = query.clone();
    Some(whole)
}

/// Gives the first rows of a recursive query a name that no other has.
fn tell_apart(query: &mut Query, name: &str) -> Option<()> {
    let SetExpr::SetOperation { left, .. } = &mut *query.body else { return None };
    let mut first = ast_parser("SELECT 1")?.parse_query().ok()?;
    first.body = left.clone();
    *left = all_of(&first, name)?.body;
    Some(())
}

fn reads(query: &Query, wanted: &str) -> bool {
    let found = visit_relations(query, |name| match bare(name) {
        Some(name) if name == wanted => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
