//! What the columns of an answer are called: by the text of their expressions, as the statement has them, and not as the
//! planner writes them.

mod short;

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast;

use crate::limits;

/// How columns are called that have no name in the statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Naming {
    /// By the text of their expressions: `count(*)`.
    #[default]
    Text,
    /// By their function, column or type alone: `count`. PostgreSQL's clients look for columns by these names.
    Short,
}

/// What makes several columns of an expression, wherever it stands there.
const SEVERAL: [&str; 2] = ["columns(", "unnest("];

/// The items of a statement's select list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headings(Vec<Item>);

#[derive(Clone, Debug)]
enum Item {
    /// A column, or what has a name.
    Named,
    /// An expression, and its text.
    Text(String),
    /// An expression, and what others may be called too.
    Short(String),
    /// What stands for several columns.
    Several,
}

impl Headings {
    /// Of a query, or of what is written by one. Call it before the statement is rewritten.
    pub(crate) fn of(statement: &ast::Statement, naming: Naming) -> Self {
        let query = match statement {
            ast::Statement::Query(query) => Some(query),
            ast::Statement::CreateTable(create) => create.query.as_ref(),
            ast::Statement::Copy { source: ast::CopySource::Query(query), .. } => Some(query),
            _ => None,
        };
        let items = query.and_then(|query| select_list(&query.body));
        Self(items.into_iter().flatten().map(|of| item(of, naming)).collect())
    }

    /// The names of an answer's columns, which the planner calls so. All are different as far as the planner's are, but for
    /// short ones.
    pub(crate) fn names<'a>(&'a self, planned: &[&'a str]) -> Vec<&'a str> {
        let Some(of_items) = self.one_for_each(planned.len()) else { return planned.to_vec() };
        let mut taken: HashSet<&str> = planned.iter().copied().collect();
        let names = planned.iter().zip(of_items).map(|(planned, item)| match item {
            Some(Item::Text(text)) if taken.insert(text) => text,
            Some(Item::Short(name)) => name,
            _ => *planned,
        });
        names.collect()
    }

    /// An item for each of so many columns, where it is known.
    fn one_for_each(&self, columns: usize) -> Option<Vec<Option<&Item>>> {
        let several = self.0.iter().filter(|item| matches!(item, Item::Several)).count();
        let alone = self.0.len() - several;
        let between = columns.checked_sub(alone)?;
        match several {
            0 => (between == 0).then(|| self.0.iter().map(Some).collect()),
            1 => {
                let columns = self.0.iter().flat_map(|item| match item {
                    Item::Several => vec![None; between],
                    item => vec![Some(item)],
                });
                Some(columns.collect())
            }
            _ => None,
        }
    }
}

fn select_list(body: &ast::SetExpr) -> Option<&[ast::SelectItem]> {
    match body {
        ast::SetExpr::Select(select) => Some(&select.projection),
        ast::SetExpr::Query(query) => select_list(&query.body),
        ast::SetExpr::SetOperation { left, .. } => select_list(left),
        _ => None,
    }
}

fn item(item: &ast::SelectItem, naming: Naming) -> Item {
    match item {
        ast::SelectItem::UnnamedExpr(expr) if naming == Naming::Short => of_short(expr),
        ast::SelectItem::UnnamedExpr(expr) => of_expr(expr),
        // Where two have one, the planner gives one of them another.
        ast::SelectItem::ExprWithAlias { alias, .. } if naming == Naming::Short => {
            Item::Short(alias.value.clone())
        }
        ast::SelectItem::ExprWithAlias { .. } => Item::Named,
        _ => Item::Several,
    }
}

/// Has a statement be ordered by the place of what ORDER BY calls by its short name: the planner knows no such name.
pub(crate) fn order_by_place(statement: &mut ast::Statement) {
    let ast::Statement::Query(query) = statement else { return };
    let ast::Query { body, order_by: Some(order_by), .. } = &mut **query else { return };
    let (Some(items), ast::OrderByKind::Expressions(keys)) = (select_list(body), &mut order_by.kind) else {
        return;
    };
    let called = items.iter().map(|item| match item {
        ast::SelectItem::UnnamedExpr(expr) if !matches!(of_short(expr), Item::Several) => {
            Some(short::name(expr))
        }
        ast::SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        _ => None,
    });
    // Behind what stands for several columns nobody knows the place.
    let Some(called) = called.collect::<Option<Vec<_>>>() else { return };
    for key in keys {
        let ast::Expr::Identifier(name) = &key.expr else { continue };
        let mut places = called.iter().enumerate().filter(|(_, called)| **called == name.value);
        let (Some((at, _)), None) = (places.next(), places.next()) else { continue };
        if matches!(&items[at], ast::SelectItem::UnnamedExpr(expr) if !is_column(expr)) {
            let place = ast::Value::Number((at + 1).to_string(), false);
            key.expr = ast::Expr::value(place);
        }
    }
}

/// What a column of an expression is called; `None`: by the planner.
pub(crate) fn text_of(expr: &ast::Expr) -> Option<String> {
    match (of_expr(expr), expr) {
        (Item::Text(text), _) => Some(text),
        // It is one column of a list, and may be several of other values.
        (Item::Several, ast::Expr::Function(function)) => match &function.args {
            ast::FunctionArguments::List(list) => match list.args.as_slice() {
                [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Array(_)))] => {
                    Some(expr.to_string()).filter(|text| text.len() <= limits::NAME_BYTES)
                }
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

fn of_expr(expr: &ast::Expr) -> Item {
    match expr {
        expr if is_column(expr) => Item::Named,
        // These may stand for several columns.
        ast::Expr::Wildcard(_) | ast::Expr::QualifiedWildcard(..) => Item::Several,
        expr => {
            let text = expr.to_string();
            let small = text.to_lowercase();
            if SEVERAL.iter().any(|function| small.contains(function)) {
                return Item::Several;
            }
            // What a word was made of before the statement was parsed is no text of it.
            let is_own = text.len() <= limits::NAME_BYTES && !text.contains("basalt_");
            if is_own { Item::Text(text) } else { Item::Named }
        }
    }
}

fn is_column(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_))
}

fn of_short(expr: &ast::Expr) -> Item {
    match expr {
        expr if is_column(expr) => Item::Named,
        // Of a list it is one column, and otherwise the numbers of columns differ.
        ast::Expr::Function(_) if short::name(expr) == "unnest" => Item::Short("unnest".to_owned()),
        expr if matches!(of_expr(expr), Item::Several) => Item::Several,
        expr => Item::Short(short::name(expr)),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::{dialect::GenericDialect, parser::Parser};

    use super::*;

    fn names(sql: &str, planned: &[&str]) -> Vec<String> {
        let statement = Parser::parse_sql(&GenericDialect, sql).unwrap().remove(0);
        let headings = Headings::of(&statement, Naming::Text);
        headings.names(planned).into_iter().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn expressions_are_called_by_their_text() {
        for (sql, planned, expected) in [
            ("SELECT a, sum(b) FROM t", vec!["a", "sum(t.b)"], vec!["a", "sum(b)"]),
            ("SELECT a + 1 AS c, 'x' FROM t", vec!["c", "Utf8(\"x\")"], vec!["c", "'x'"]),
            (
                "SELECT count(*), *, a + 1 FROM t",
                vec!["n", "a", "b", "p"],
                vec!["count(*)", "a", "b", "a + 1"],
            ),
            ("(SELECT a + 1 FROM t) UNION SELECT 2", vec!["p"], vec!["a + 1"]),
            ("CREATE TABLE x AS SELECT max(a) FROM t", vec!["max(t.a)"], vec!["max(a)"]),
            ("SELECT *, columns(*) + 1, 2", vec!["a", "b", "p", "q", "r"], vec!["a", "b", "p", "q", "r"]),
            // Two of the same text, and one that has the name of a column.
            ("SELECT sum(b), sum(b) FROM t", vec!["sum(t.b)", "sum(t.b):1"], vec!["sum(b)", "sum(t.b):1"]),
            ("SELECT max(a), \"max(a)\" FROM t", vec!["max(t.a)", "max(a)"], vec!["max(t.a)", "max(a)"]),
            // More columns than are known.
            ("SELECT *, t.*, a + 1 FROM t", vec!["a", "a", "p"], vec!["a", "a", "p"]),
            ("SELECT a + 1 FROM t", vec!["a", "b"], vec!["a", "b"]),
            ("VALUES (1)", vec!["column1"], vec!["column1"]),
        ] {
            assert_eq!(names(sql, &planned), expected, "{sql}");
        }
    }
}
