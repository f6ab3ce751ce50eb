//! RIGHT, FULL and ASOF JOIN with USING: a column that is joined by is that of the side that is there, and the last one of an
//! ASOF JOIN is an inequality. The planner would take that of the left side, and what is equal, so that such joins, and those
//! beside them, are joins by ON here; so are several joins by one column. And columns of other joins with USING, where the planner
//! takes their names for those of two tables, and where a query around may have some of their names.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::{
        ast::{
            self, Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, ObjectName, OrderBy, OrderByKind,
            Select, SelectItem, TableFactor, TableWithJoins, VisitMut as _, VisitorMut,
        },
        tokenizer::Location,
    },
};

use super::exprs::parsed;
use crate::error::{Error, Result};

/// A column that tables are joined by, and what it is without the name of a table before it.
#[derive(Clone)]
struct Merged {
    name: Ident,
    value: Expr,
}

fn is_named(name: &Ident, other: &Ident) -> bool {
    match (name.quote_style, other.quote_style) {
        (None, _) | (_, None) => name.value.eq_ignore_ascii_case(&other.value),
        _ => name.value == other.value,
    }
}

fn refused(what: &str) -> Error {
    Error::unsupported(format!("a right, full or ASOF join with USING {what} (one with ON is)"))
}

fn constraint_of(join: &JoinOperator) -> Option<(&JoinConstraint, Side)> {
    match join {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => Some((constraint, Side::Left)),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
            Some((constraint, Side::Right))
        }
        JoinOperator::FullOuter(constraint) => Some((constraint, Side::Either)),
        _ => None,
    }
}

/// The side whose rows are all there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
    Either,
}

/// Whether it is a join that the planner would take for another; an ASOF JOIN is marked as a global one.
fn is_apart(join: &ast::Join) -> bool {
    match constraint_of(&join.join_operator) {
        Some((JoinConstraint::Using(_), side)) => join.global || side != Side::Left,
        _ => false,
    }
}

/// What a table is called.
fn name_of(table: &TableFactor) -> Result<ObjectName> {
    match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => Ok(ObjectName::from(vec![alias.name.clone()])),
        TableFactor::Table { name, alias: None, .. } => Ok(name.clone()),
        _ => Err(refused("of a table without a name")),
    }
}

fn column_of(table: &TableFactor, column: &Ident) -> Result<Expr> {
    let name = name_of(table)?;
    let parts = name.0.iter().filter_map(|part| part.as_ident().cloned());
    Ok(Expr::CompoundIdentifier(parts.chain([column.clone()]).collect()))
}

/// Such joins in other words.
struct Reworded {
    /// What the columns are that tables are joined by.
    merged: Vec<Merged>,
    /// The joins by ON, in their order.
    joins: Vec<JoinOperator>,
}

/// What a select with such joins is; `None`: it has none, or the planner knows them.
fn reworded(select: &Select) -> Result<Option<Reworded>> {
    if select.from.iter().any(|table| table.joins.iter().any(is_apart)) {
        return by_on(select).map(Some);
    }
    Ok(if select.from.iter().any(|table| joins_often(&table.joins)) { by_on(select).ok() } else { None })
}

/// Whether more than one join is by one column, whose name the planner then finds ambiguous.
fn joins_often(joins: &[ast::Join]) -> bool {
    let columns = joins.iter().filter_map(|join| match constraint_of(&join.join_operator)? {
        (JoinConstraint::Using(columns), _) => Some(columns),
        _ => None,
    });
    let names = columns.flatten().filter_map(|column| column.0.first()?.as_ident());
    let names: Vec<&Ident> = names.collect();
    names.iter().any(|name| names.iter().filter(|other| is_named(name, other)).count() > 1)
}

fn by_on(select: &Select) -> Result<Reworded> {
    let [table] = select.from.as_slice() else { return Err(refused("beside other tables")) };
    let (mut merged, mut joins): (Vec<Merged>, _) = (Vec::new(), Vec::with_capacity(table.joins.len()));
    for (at, join) in table.joins.iter().enumerate() {
        let (columns, side) = match constraint_of(&join.join_operator) {
            Some((JoinConstraint::Using(columns), side)) => (columns, side),
            Some((JoinConstraint::On(_), _)) => {
                let mut same = join.join_operator.clone();
                if let Some(condition) = condition_of(&mut same) {
                    Names::of(&merged).replace(condition);
                }
                joins.push(same);
                continue;
            }
            Some(_) => return Err(refused("beside joins without")),
            None if matches!(join.join_operator, JoinOperator::CrossJoin(_)) => {
                joins.push(join.join_operator.clone());
                continue;
            }
            None => return Err(refused("beside other kinds of joins")),
        };
        let mut on: Option<Expr> = None;
        for (number, column) in columns.iter().enumerate() {
            let [ast::ObjectNamePart::Identifier(name)] = column.0.as_slice() else {
                return Err(refused("of a column with several names"));
            };
            let known = merged.iter().position(|merged| is_named(&merged.name, name));
            let left = match known {
                Some(known) => merged[known].value.clone(),
                None if at == 0 => column_of(&table.relation, name)?,
                None => return Err(refused("of a column that the joins before it have not")),
            };
            let right = column_of(&join.relation, name)?;
            let is_nearest = join.global && number + 1 == columns.len();
            let same = if is_nearest { "$1 >= $2" } else { "$1 = $2" };
            let same = parsed(same, &[left.clone(), right.clone()], &mut 0)?;
            on = Some(match on {
                Some(on) => parsed("$1 AND $2", &[on, same], &mut 0)?,
                None => same,
            });
            let value = joined(&left, &right, side)?;
            match known {
                Some(known) => merged[known].value = value,
                None => merged.push(Merged { name: name.clone(), value }),
            }
        }
        let on = on.map(JoinConstraint::On).ok_or_else(|| refused("of no column"))?;
        joins.push(match (side, &join.join_operator) {
            (Side::Right, _) => JoinOperator::Right(on),
            (Side::Either, _) => JoinOperator::FullOuter(on),
            (Side::Left, JoinOperator::Left(_) | JoinOperator::LeftOuter(_)) => JoinOperator::Left(on),
            (Side::Left, _) => JoinOperator::Join(on),
        });
    }
    Ok(Reworded { merged, joins })
}

fn joined(left: &Expr, right: &Expr, side: Side) -> Result<Expr> {
    match side {
        Side::Left => Ok(left.clone()),
        Side::Right => Ok(right.clone()),
        Side::Either => parsed("coalesce($1, $2)", &[left.clone(), right.clone()], &mut 0),
    }
}

/// Names of merged columns, outside of subqueries, in the words of the tables.
struct Names<'a> {
    merged: &'a [Merged],
    depth: usize,
    /// The parameters of lambdas around, which are called as they are.
    parameters: Vec<Vec<Ident>>,
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(lambda) = expr {
            self.parameters.push(lambda.params.iter().map(|parameter| parameter.name.clone()).collect());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(_) = expr {
            self.parameters.pop();
        }
        if self.depth == 0
            && let Expr::Identifier(name) = expr
            && !self.parameters.iter().flatten().any(|parameter| is_named(parameter, name))
            && let Some(merged) = self.merged.iter().find(|merged| is_named(&merged.name, name))
        {
            *expr = Expr::Nested(Box::new(merged.value.clone()));
        }
        ControlFlow::Continue(())
    }
}

impl<'a> Names<'a> {
    fn of(merged: &'a [Merged]) -> Self {
        Self { merged, depth: 0, parameters: Vec::new() }
    }

    fn replace(&mut self, expr: &mut Expr) {
        let _ = expr.visit(self);
    }
}

/// A column that a join is by, and the numbers of its table in FROM and of the join behind that.
struct Known {
    table: usize,
    join: usize,
    merged: Merged,
}

/// The columns that tables are joined by, and those of them of which it is not known from the statement alone whose they are.
fn columns_of(from: &[TableWithJoins]) -> (Vec<Known>, Vec<Ident>) {
    let (mut all, mut unknown): (Vec<Known>, Vec<Ident>) = (Vec::new(), Vec::new());
    for (number, table) in from.iter().enumerate() {
        let first = all.len();
        for (at, join) in table.joins.iter().enumerate() {
            let Some((JoinConstraint::Using(columns), _)) = constraint_of(&join.join_operator) else {
                continue;
            };
            let keeps_all = matches!(join.join_operator, JoinOperator::Left(_) | JoinOperator::LeftOuter(_));
            for column in columns {
                let [ast::ObjectNamePart::Identifier(name)] = column.0.as_slice() else { continue };
                if all[first..].iter().any(|known| is_named(&known.merged.name, name)) {
                    continue;
                }
                // Where only those that are equal are joined, that of the right side is the same.
                let left = if at == 0 { column_of(&table.relation, name).ok() } else { None };
                let right = || if keeps_all { None } else { column_of(&join.relation, name).ok() };
                match left.or_else(right) {
                    Some(value) => {
                        let merged = Merged { name: name.clone(), value };
                        all.push(Known { table: number, join: at, merged });
                    }
                    None => unknown.push(name.clone()),
                }
            }
        }
    }
    (all, unknown)
}

/// The condition that a join is by, if it has one.
fn condition_of(join: &mut JoinOperator) -> Option<&mut Expr> {
    match join {
        JoinOperator::Join(JoinConstraint::On(condition))
        | JoinOperator::Inner(JoinConstraint::On(condition))
        | JoinOperator::Left(JoinConstraint::On(condition))
        | JoinOperator::LeftOuter(JoinConstraint::On(condition))
        | JoinOperator::Right(JoinConstraint::On(condition))
        | JoinOperator::RightOuter(JoinConstraint::On(condition))
        | JoinOperator::FullOuter(JoinConstraint::On(condition))
        | JoinOperator::Semi(JoinConstraint::On(condition))
        | JoinOperator::LeftSemi(JoinConstraint::On(condition))
        | JoinOperator::Anti(JoinConstraint::On(condition))
        | JoinOperator::LeftAnti(JoinConstraint::On(condition)) => Some(condition),
        _ => None,
    }
}

/// Has the names of columns that tables are joined by be those of a table in the conditions of joins behind.
fn qualify_joins(from: &mut [TableWithJoins], known: &[Known]) {
    for (number, table) in from.iter_mut().enumerate() {
        for (at, join) in table.joins.iter_mut().enumerate() {
            let before = known.iter().filter(|known| known.table == number && known.join < at);
            let merged: Vec<Merged> = before.map(|known| known.merged.clone()).collect();
            if let Some(condition) = condition_of(&mut join.join_operator)
                && !merged.is_empty()
            {
                Names::of(&merged).replace(condition);
            }
        }
    }
}

/// Has the names of columns that tables are joined by be those of a table in the conditions of a select: they are of two, and to
/// the planner ambiguous there, but nowhere else.
fn qualify_conditions(select: &mut Select) {
    let (known, _) = columns_of(&select.from);
    if known.is_empty() {
        return;
    }
    qualify_joins(&mut select.from, &known);
    let merged: Vec<Merged> = known.into_iter().map(|known| known.merged).collect();
    if let Some(condition) = &mut select.selection {
        Names::of(&merged).replace(condition);
    }
}

/// Says of which table a column is that tables are joined by in a query around, where the query itself has no such column; whether
/// there was one.
pub(crate) fn resolve(statement: &mut Statement, place: Location) -> bool {
    let Some(statement) = super::inner(statement) else { return false };
    let mut around = Around { place, known: Vec::new(), found: false };
    let _ = statement.visit(&mut around);
    around.found
}

struct Around {
    place: Location,
    /// Of the selects around the expression, the columns that their tables are joined by.
    known: Vec<Vec<Merged>>,
    found: bool,
}

impl VisitorMut for Around {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let (known, _) = columns_of(&select.from);
        self.known.push(known.into_iter().map(|known| known.merged).collect());
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.known.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Identifier(name) = expr else { return ControlFlow::Continue(()) };
        if name.span.start != self.place {
            return ControlFlow::Continue(());
        }
        let around = self.known.split_last().into_iter().flat_map(|(_, around)| around.iter().rev());
        let meant = around.flatten().find(|merged| is_named(&merged.name, name));
        if let Some(value) = meant.map(|merged| merged.value.clone()) {
            *expr = Expr::Nested(Box::new(value));
            self.found = true;
        }
        ControlFlow::Break(())
    }
}

/// Has the names of columns that tables are joined by be those of a table, in a select within an expression. They are of two
/// tables, and the planner takes a name that is for that of the query around it, if that has one.
///
/// # Errors
/// Where it is not known from the statement alone whose a column is, if `is_strict`; else it stays as it is.
pub(super) fn qualify(select: &mut Select, order_by: Option<&mut OrderBy>, is_strict: bool) -> Result<()> {
    if select.from.iter().any(|table| table.joins.iter().any(is_apart)) {
        return Ok(());
    }
    let (known, unknown) = columns_of(&select.from);
    qualify_joins(&mut select.from, &known);
    let merged: Vec<Merged> = known.into_iter().map(|known| known.merged).collect();
    let unknown = if is_strict { unknown } else { Vec::new() };
    if merged.is_empty() && unknown.is_empty() {
        return Ok(());
    }
    if let Some(keys) = order_by {
        reword_keys(select, &merged, keys);
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
            && merged.iter().any(|merged| is_named(&merged.name, name))
        {
            let (expr, alias) = (Expr::Identifier(name.clone()), name.clone());
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    let mut names = Names::of(&merged);
    let mut strange = Strange { names: &unknown, depth: 0 };
    let mut found = ControlFlow::Continue(());
    let items = select.projection.iter_mut().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let keys = match &mut select.group_by {
        GroupByExpr::Expressions(keys, _) => keys.as_mut_slice(),
        GroupByExpr::All(_) => &mut [],
    };
    let conditions = select.selection.iter_mut().chain(&mut select.having).chain(&mut select.qualify);
    for expr in items.chain(keys).chain(conditions) {
        names.replace(expr);
        if found.is_continue() {
            found = expr.visit(&mut strange);
        }
    }
    for window in &mut select.named_window {
        let _ = window.visit(&mut names);
    }
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => Err(Error::invalid(format!(
            "{name} is a column of several tables that are joined by it: say of which, as in t.{name}"
        ))),
    }
}

/// Finds a name, outside of subqueries.
struct Strange<'a> {
    names: &'a [Ident],
    depth: usize,
}

impl VisitorMut for Strange<'_> {
    type Break = Ident;

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<Ident> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<Ident> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Ident> {
        match expr {
            Expr::Identifier(name)
                if self.depth == 0 && self.names.iter().any(|known| is_named(known, name)) =>
            {
                ControlFlow::Break(name.clone())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// What a query with such joins is ordered by, before the joins are others.
///
/// # Errors
/// Those of [`rewrite`].
pub(super) fn order_by(select: &Select, order_by: &mut OrderBy) -> Result<()> {
    if let Some(Reworded { merged, .. }) = reworded(select)? {
        reword_keys(select, &merged, order_by);
    }
    Ok(())
}

/// Has the keys of an order be columns of tables, but for those that are columns of the answer, which are meant by their names.
fn reword_keys(select: &Select, merged: &[Merged], order_by: &mut OrderBy) {
    let is_shown = |name: &Ident| {
        select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(Expr::Identifier(column)) => is_named(column, name),
            SelectItem::ExprWithAlias { alias, .. } => is_named(alias, name),
            SelectItem::Wildcard(_) => true,
            _ => false,
        })
    };
    let others: Vec<Merged> = merged.iter().filter(|merged| !is_shown(&merged.name)).cloned().collect();
    if let OrderByKind::Expressions(keys) = &mut order_by.kind {
        let mut names = Names::of(&others);
        keys.iter_mut().for_each(|key| names.replace(&mut key.expr));
    }
}

/// Has such joins be joins by ON, and the columns of the answer those that are there.
///
/// # Errors
/// Where it is not known from the statement alone whose a column is.
pub(super) fn rewrite(select: &mut Select) -> Result<()> {
    let Some(Reworded { merged, joins }) = reworded(select)? else {
        qualify_conditions(select);
        return Ok(());
    };
    let mut names = Names::of(&merged);
    let mut items = Vec::with_capacity(select.projection.len());
    for mut item in std::mem::take(&mut select.projection) {
        match &mut item {
            SelectItem::UnnamedExpr(expr) => {
                let name = match expr {
                    Expr::Identifier(name) => Some(name.clone()),
                    _ => None,
                };
                names.replace(expr);
                if let Some(alias) = name
                    && !matches!(expr, Expr::Identifier(_))
                {
                    item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
                items.push(item);
            }
            SelectItem::ExprWithAlias { expr, .. } => {
                names.replace(expr);
                items.push(item);
            }
            SelectItem::Wildcard(options) if super::selects::is_plain(options) => {
                items.extend(all_columns(select, &merged)?);
            }
            SelectItem::QualifiedWildcard(..) => items.push(item),
            _ => return Err(refused("below this form of *")),
        }
    }
    select.projection = items;
    select.selection.iter_mut().chain(&mut select.having).chain(&mut select.qualify).for_each(|expr| {
        names.replace(expr);
    });
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.iter_mut().for_each(|key| names.replace(key));
    }
    for window in &mut select.named_window {
        let _ = window.visit(&mut names);
    }
    for (join, by_on) in select.from.iter_mut().flat_map(|table| &mut table.joins).zip(joins) {
        join.join_operator = by_on;
    }
    Ok(())
}

/// `*`: the columns of the left table, those that it is joined by in their places, and what each of the others has beside those
/// that it is joined by itself.
fn all_columns(select: &Select, merged: &[Merged]) -> Result<Vec<SelectItem>> {
    let Some(table) = select.from.first() else { return Ok(Vec::new()) };
    let replaced = merged.iter().map(|merged| {
        Box::new(ast::ReplaceSelectElement {
            expr: merged.value.clone(),
            column_name: merged.name.clone(),
            as_keyword: true,
        })
    });
    let opt_replace = Some(ast::ReplaceSelectItem { items: replaced.collect() });
    let options = ast::WildcardAdditionalOptions { opt_replace, ..Default::default() };
    let mut items = vec![star(&table.relation, options)?];
    for join in &table.joins {
        let opt_exclude = match constraint_of(&join.join_operator) {
            Some((JoinConstraint::Using(columns), _)) => {
                Some(ast::ExcludeSelectItem::Multiple(columns.clone()))
            }
            _ => None,
        };
        items.push(star(
            &join.relation,
            ast::WildcardAdditionalOptions { opt_exclude, ..Default::default() },
        )?);
    }
    Ok(items)
}

fn star(table: &TableFactor, options: ast::WildcardAdditionalOptions) -> Result<SelectItem> {
    let name = ast::SelectItemQualifiedWildcardKind::ObjectName(name_of(table)?);
    Ok(SelectItem::QualifiedWildcard(name, options))
}
