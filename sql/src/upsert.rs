//! INSERT ... ON CONFLICT: the rows that come are joined to those that are there by their keys.

use std::ops::ControlFlow;

use basalt_core::{
    query::ROW_ADDRESS,
    schema::{DataType, Field, Schema},
};
use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, CastKind, Expr, Ident, ObjectNamePart, SelectItem, SetExpr,
    TableFactor, TableWithJoins, UnaryOperator, Value,
};

use crate::{
    assign::Rows,
    catalog::Change,
    command::Command,
    error::{Error, Result},
    parse::ast_parser,
    stored,
    write::{Effect, Rewritten, assigned, quoted, select, template, with_addresses},
};

/// The column that says which row of those with the same key one is.
const NUMBER: &str = "=n";
/// The column that says which row of all one is, in the order in which they come.
const PLACE: &str = "=o";
/// What the new rows of an INSERT are in its ON CONFLICT.
const EXCLUDED: &str = "excluded";

/// INSERT ... ON CONFLICT.
pub(crate) struct Upsert<'a> {
    pub(crate) table: &'a str,
    /// The name of the table in the statement.
    pub(crate) alias: Ident,
    pub(crate) schema: &'a Schema,
    /// The columns that are inserted, in the order of the query.
    pub(crate) columns: Vec<usize>,
    /// For each column of the table, its place in the query.
    pub(crate) sources: Vec<Option<usize>>,
    pub(crate) keys: Vec<usize>,
}

impl Upsert<'_> {
    /// Whether a new row takes the place of an old one in all columns, so that nothing of the old one need be known.
    /// Rows are not found by keys that are null or floats: they are joined.
    pub(crate) fn is_whole(&self, update: &ast::DoUpdate, source: &ast::Query) -> bool {
        let as_it_is = |assignment: &Assignment| {
            let (AssignmentTarget::ColumnName(target), Expr::CompoundIdentifier(value)) =
                (&assignment.target, &assignment.value)
            else {
                return None;
            };
            let ([ObjectNamePart::Identifier(target)], [of, value]) = (target.0.as_slice(), value.as_slice())
            else {
                return None;
            };
            let is_same = of.value.eq_ignore_ascii_case(EXCLUDED) && value.value == target.value;
            is_same.then(|| self.schema.index_of(&target.value)).flatten()
        };
        let set: Option<Vec<usize>> = update.assignments.iter().map(as_it_is).collect();
        let Some(set) = set else { return false };
        let mut all = 0..self.schema.fields().len();
        let is_found = |key: &usize| {
            let Field { data_type, nullable, .. } = &self.schema.fields()[*key];
            !matches!(data_type, DataType::Float32 | DataType::Float64)
                && (!*nullable || self.sources[*key].is_some_and(|at| has_no_null(source, at)))
        };
        update.selection.is_none()
            && self.keys.iter().all(is_found)
            && self.sources.iter().all(Option::is_some)
            && all.all(|column| set.contains(&column) || self.keys.contains(&column))
    }

    pub(crate) fn whole(self, source: Box<ast::Query>) -> Rewritten {
        let name = |column: &usize| self.schema.fields()[*column].name.clone();
        let change = Change::Replace(self.keys.iter().map(name).collect());
        let rows = Some(Rows::new(self.schema, self.sources));
        let width = Some(self.columns.len());
        let effect = Effect { change, address: None, number: None, rows, width };
        Rewritten { command: Command::Merge, query: ast::Statement::Query(source), effect }
    }

    /// Columns that no values are inserted into, and that are named as those of the new rows all the same.
    fn named_without_values(&self, update: &ast::DoUpdate) -> Vec<usize> {
        let mut named = Vec::new();
        let _: ControlFlow<()> = ast::visit_expressions(update, |expr| {
            if let Expr::CompoundIdentifier(parts) = expr
                && let [of, column] = parts.as_slice()
                && of.value.eq_ignore_ascii_case(EXCLUDED)
                && let Some(column) = self.schema.index_of(&column.value)
                && self.sources.get(column).is_some_and(Option::is_none)
                && !named.contains(&column)
            {
                named.push(column);
            }
            ControlFlow::Continue(())
        });
        named
    }

    /// The new rows are joined to those that are there.
    pub(crate) fn rows(
        self,
        mut source: Box<ast::Query>,
        update: Option<ast::DoUpdate>,
        open: bool,
    ) -> Result<Rewritten> {
        let does_nothing = update.is_none();
        let name = |column: &usize| quoted(&self.schema.fields()[*column].name).to_string();
        let list = |parts: Vec<String>, between: &str| parts.join(between);
        let new = quoted(EXCLUDED);
        let address = format!("{}.{}", self.alias, quoted(ROW_ADDRESS));
        let keys: Vec<_> = self.keys.iter().map(name).collect();
        let nulls = list(keys.iter().map(|key| format!("{key} IS NULL")).collect(), " OR ");
        let same =
            list(keys.iter().map(|key| format!("{}.{key} = {new}.{key}", self.alias)).collect(), " AND ");
        let inserted = |column: usize| match self.sources[column] {
            Some(_) => format!("{new}.{}", name(&column)),
            None => "NULL".to_owned(),
        };
        // Others are not there: without the name of a table they mean those of the old row.
        let nulls_named = update.as_ref().map(|update| self.named_without_values(update));
        let (set, selection) = match update {
            Some(update) => (assigned(update.assignments, self.schema, open)?, Some(update.selection)),
            None => (Vec::new(), None),
        };
        let values: Vec<_> = (0..self.schema.fields().len())
            .map(|column| {
                let kept = format!("{}.{}", self.alias, name(&column));
                let is_set = set.iter().any(|(set, _)| *set == column);
                // A CASE of two types would make others of the new values as well. What is set takes the place of the NULL.
                let then = if is_set { stored::call("NULL", &self.schema.fields()[column]) } else { kept };
                let insert = inserted(column);
                format!("CASE WHEN {address} IS NULL THEN {insert} ELSE {then} END AS \"={column}\"")
            })
            .collect();
        let number = quoted(NUMBER);
        // Values are compared as their columns have them: 1.4 is the key 1 of whole numbers.
        let as_stored = |value: &str, column: &usize| {
            format!("{} AS {}", stored::call(value, &self.schema.fields()[*column]), name(column))
        };
        let with_values = self.columns.iter().map(|column| as_stored(&format!("s.{}", name(column)), column));
        let missing = nulls_named.iter().flatten().map(|column| as_stored("NULL", column));
        // Their windows and joins have rows in any order.
        let place_of = quoted(PLACE);
        let (placed, in_order) = match does_nothing {
            true => (format!(", row_number() OVER () AS {place_of}"), format!(" ORDER BY {place_of}")),
            false => (String::new(), String::new()),
        };
        if does_nothing {
            keep_order(&mut source)?;
        }
        let sql = format!(
            "SELECT {}, {address}, {new}.{number} FROM (SELECT s.*, CASE WHEN {nulls} THEN 1 ELSE row_number() OVER \
             (PARTITION BY {}{in_order}) END AS {number} FROM (SELECT {}{placed} FROM (SELECT 1) AS s ({})) AS s) AS {new} \
             LEFT JOIN {} AS {} ON {same} WHERE {address} IS NULL",
            list(values, ", "),
            list(keys, ", "),
            list(with_values.chain(missing).collect(), ", "),
            list(self.columns.iter().map(name).collect(), ", "),
            quoted(&with_addresses(self.table)),
            self.alias,
        );
        let mut query = template(&sql)?;
        let of = select(&mut query)?;
        for (column, value) in set {
            if let Some(SelectItem::ExprWithAlias {
                expr: Expr::Case { else_result: Some(then), .. }, ..
            }) = of.projection.get_mut(column)
                && let Expr::Function(call) = &mut **then
                && let ast::FunctionArguments::List(list) = &mut call.args
                && let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(given))) =
                    list.args.first_mut()
            {
                *given = value;
            }
        }
        let is_new = of.selection.take();
        of.selection = match (selection, is_new) {
            // The first of those with the same key.
            (None, Some(is_new)) => {
                let first = expression(&format!("{new}.{number} = 1"))?;
                Some(both(ast::BinaryOperator::And, is_new, first))
            }
            (Some(Some(condition)), Some(is_new)) => {
                let taken = both(ast::BinaryOperator::Or, is_new, Expr::Nested(Box::new(condition)));
                // A second row of a key is an error, of whichever of them the condition is true.
                let second = expression(&format!("{new}.{number} > 1"))?;
                Some(both(ast::BinaryOperator::Or, taken, second))
            }
            _ => None,
        };
        place(&mut of.from, source)?;
        let columns = self.schema.fields().len();
        let rows = Some(Rows::new(self.schema, (0..columns).map(Some).collect()));
        let number = (!does_nothing).then_some(columns + 1);
        let change = Change::Update { exactly: true };
        let effect = Effect { change, address: Some(columns), number, rows, width: Some(columns + 2) };
        Ok(Rewritten { command: Command::Merge, query: ast::Statement::Query(query), effect })
    }
}

/// Whether a query is one of VALUES that have constants in a column, none of which is null.
fn has_no_null(source: &ast::Query, at: usize) -> bool {
    match &*source.body {
        SetExpr::Values(values) => values.rows.iter().all(|row| row.content.get(at).is_some_and(is_constant)),
        _ => false,
    }
}

/// Whether an expression is a constant that is not null.
fn is_constant(value: &Expr) -> bool {
    match value {
        Expr::Value(value) => !matches!(value.value, Value::Null | Value::Placeholder(_)),
        Expr::TypedString(_) => true,
        Expr::BinaryOp {
            left,
            op: ast::BinaryOperator::Plus | ast::BinaryOperator::Minus | ast::BinaryOperator::Multiply,
            right,
        } => is_constant(left) && is_constant(right),
        Expr::Nested(value)
        | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: value }
        | Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: value, .. } => is_constant(value),
        _ => false,
    }
}

/// The expression of a text of ours.
fn expression(sql: &str) -> Result<Expr> {
    let expr = ast_parser(sql).and_then(|mut parser| parser.parse_expr().ok());
    expr.ok_or_else(|| Error::Internal(format!("{sql} is not parsed")))
}

fn both(op: ast::BinaryOperator, left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// Has the order of a query stay where it stands in FROM: the planner drops one there that no LIMIT needs.
fn keep_order(query: &mut ast::Query) -> Result<()> {
    if query.order_by.is_some() && query.limit_clause.is_none() && query.fetch.is_none() {
        query.limit_clause = template(&format!("SELECT 1 LIMIT {}", i64::MAX))?.limit_clause;
    }
    match &mut *query.body {
        // It stands in parentheses.
        SetExpr::Query(inner) => keep_order(inner),
        _ => Ok(()),
    }
}

/// Puts a query in the place of the innermost one of the template.
fn place(from: &mut [TableWithJoins], source: Box<ast::Query>) -> Result<()> {
    let Some(TableFactor::Derived { subquery, .. }) = from.first_mut().map(|from| &mut from.relation) else {
        return Err(Error::Internal("the template has no place for the query".to_owned()));
    };
    match select(subquery)?.from.as_mut_slice() {
        [] => *subquery = source,
        inner => return place(inner, source),
    }
    Ok(())
}
