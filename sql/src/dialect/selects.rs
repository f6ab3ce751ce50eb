//! Select lists, joins and windows of other dialects in the planner's words.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{
        self, Expr, Ident, JoinConstraint, JoinOperator, NamedWindowExpr, ObjectName, Select, SelectFlavor,
        SelectItem, SetExpr, SetOperator, SetQuantifier, TableFactor, TableWithJoins, Value, VisitMut as _,
        VisitorMut, WindowSpec, WindowType, visit_expressions, visit_expressions_mut,
    },
};

use super::{
    asof, calls,
    exprs::{arguments, bare},
    grouping, inner, quantified, using, windows,
};
use crate::{
    error::{Error, Result},
    headings, limits, names,
};

pub(super) fn set_operations(body: &SetExpr) -> Result<()> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return Ok(()) };
    let is_known =
        matches!(set_quantifier, SetQuantifier::None | SetQuantifier::Distinct | SetQuantifier::All);
    if *op != SetOperator::Union && !is_known {
        return Err(Error::unsupported(format!("{op} {set_quantifier}")));
    }
    set_operations(left)?;
    set_operations(right)
}

/// `*` over JOIN USING: what is left has all its columns, what is right those that are not joined by. The planner would
/// take a column of either, by their names.
pub(crate) fn expand_using(select: &mut Select) -> Result<()> {
    let of_wildcard = |item: &SelectItem| matches!(item, SelectItem::Wildcard(options) if is_plain(options));
    let mut items = Vec::new();
    let mut is_using = false;
    for table in &select.from {
        items.push(all_of(&table.relation, &[]));
        for join in &table.joins {
            let (constraint, keeps_left) = match &join.join_operator {
                JoinOperator::Join(constraint)
                | JoinOperator::Inner(constraint)
                | JoinOperator::Left(constraint)
                | JoinOperator::LeftOuter(constraint) => (constraint, true),
                JoinOperator::Right(constraint)
                | JoinOperator::RightOuter(constraint)
                | JoinOperator::FullOuter(constraint) => (constraint, false),
                _ => return Ok(()),
            };
            match constraint {
                JoinConstraint::Using(_) | JoinConstraint::Natural if !keeps_left => {
                    return Err(Error::unsupported("a right or full NATURAL JOIN (one with ON or USING is)"));
                }
                JoinConstraint::Using(columns) => {
                    is_using = true;
                    let columns = columns.iter().filter_map(|name| name.0.first()?.as_ident().cloned());
                    items.push(all_of(&join.relation, &columns.collect::<Vec<_>>()));
                }
                // Its columns are not known yet.
                JoinConstraint::Natural => return Ok(()),
                _ => items.push(all_of(&join.relation, &[])),
            }
        }
    }
    if !is_using || !select.projection.iter().any(of_wildcard) {
        return Ok(());
    }
    let Some(items) = items.into_iter().collect::<Option<Vec<_>>>() else { return Ok(()) };
    for item in std::mem::take(&mut select.projection) {
        match of_wildcard(&item) {
            true => select.projection.extend(items.iter().cloned()),
            false => select.projection.push(item),
        }
    }
    Ok(())
}

pub(super) fn is_plain(options: &ast::WildcardAdditionalOptions) -> bool {
    options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
}

/// All columns of a table but some; `None`: it has no name.
fn all_of(table: &TableFactor, but: &[Ident]) -> Option<SelectItem> {
    let name = match table {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            ObjectName::from(vec![alias.name.clone()])
        }
        TableFactor::Table { name, alias: None, .. } => name.clone(),
        _ => return None,
    };
    let but = but.iter().cloned().map(|name| ObjectName::from(vec![name])).collect::<Vec<_>>();
    let opt_exclude = (!but.is_empty()).then_some(ast::ExcludeSelectItem::Multiple(but));
    let options = ast::WildcardAdditionalOptions { opt_exclude, ..Default::default() };
    Some(SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), options))
}

/// The column of `range` has its name.
pub(super) fn series(name: &ObjectName, alias: &mut Option<ast::TableAlias>) {
    let Some(function) = bare(name).filter(|name| name == "range") else { return };
    let name = Ident::with_quote('"', function);
    let alias = alias.get_or_insert_with(|| ast::TableAlias {
        explicit: true,
        name: name.clone(),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(ast::TableAliasColumnDef { name, data_type: None });
    }
}

/// ORDER BY ALL: by each column, from the first.
pub(super) fn order_by_all(query: &mut ast::Query) -> Result<()> {
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(keys), .. }) = &mut query.order_by else {
        return Ok(());
    };
    let [key] = keys.as_slice() else { return Ok(()) };
    let is_all = matches!(&key.expr, Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all"));
    if !is_all {
        return Ok(());
    }
    let mut body = &*query.body;
    let columns = loop {
        match body {
            SetExpr::Select(select) => {
                let is_one = |item: &SelectItem| {
                    matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
                };
                if !select.projection.iter().all(is_one) || select.projection.iter().any(has_columns) {
                    // How many columns there are is not known yet.
                    return Ok(());
                }
                break select.projection.len();
            }
            SetExpr::SetOperation { left, .. } => body = left,
            SetExpr::Query(inner) => body = &inner.body,
            _ => return Ok(()),
        }
    };
    let key = key.clone();
    let ordinal = |at: usize| ast::OrderByExpr {
        expr: Expr::value(Value::Number(at.to_string(), false)),
        ..key.clone()
    };
    *keys = (1..=columns).map(ordinal).collect();
    if matches!(&*query.body, SetExpr::Select(select) if matches!(select.group_by, ast::GroupByExpr::All(_)))
    {
        // The planner would look for what is ordered by among the keys of the groups.
        let around = crate::parse::ast_parser("SELECT * FROM (SELECT 1) AS basalt_q");
        let around = around.and_then(|mut parser| parser.parse_query().ok());
        let mut around = around.ok_or_else(|| Error::unsupported("ORDER BY ALL of this"))?;
        let SetExpr::Select(select) = &mut *around.body else { return Ok(()) };
        if let Some(TableFactor::Derived { subquery, .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
        {
            std::mem::swap(&mut subquery.body, &mut query.body);
        }
        query.body = around.body;
    }
    Ok(())
}

pub(super) fn joins(table: &mut TableWithJoins) -> Result<()> {
    for join in &mut table.joins {
        asof::join(join)?;
        let nothing = JoinOperator::Join(JoinConstraint::None);
        join.join_operator = match std::mem::replace(&mut join.join_operator, nothing) {
            JoinOperator::Semi(constraint) => JoinOperator::LeftSemi(constraint),
            JoinOperator::Anti(constraint) => JoinOperator::LeftAnti(constraint),
            other => other,
        };
        let bare = matches!(
            &join.join_operator,
            JoinOperator::Join(JoinConstraint::None)
                | JoinOperator::Inner(JoinConstraint::None)
                | JoinOperator::Left(JoinConstraint::None)
                | JoinOperator::LeftOuter(JoinConstraint::None)
                | JoinOperator::Right(JoinConstraint::None)
                | JoinOperator::RightOuter(JoinConstraint::None)
                | JoinOperator::FullOuter(JoinConstraint::None)
        );
        if bare {
            return Err(Error::invalid("JOIN takes ON or USING (CROSS JOIN takes none)"));
        }
    }
    Ok(())
}

/// `doubled` counts the bytes of what stands there twice.
pub(super) fn of_select(select: &mut Select, doubled: &mut usize) -> Result<()> {
    if select.flavor == SelectFlavor::FromFirstNoSelect {
        select.projection = vec![SelectItem::Wildcard(ast::WildcardAdditionalOptions::default())];
        select.flavor = SelectFlavor::Standard;
    }
    if select.top.is_some() {
        return Err(Error::unsupported("TOP (LIMIT is)"));
    }
    using::rewrite(select)?;
    select.from.iter_mut().try_for_each(joins)?;
    calls::check_levels(select)?;
    grouping::by_place(select, doubled)?;
    grouping::without_empty(select)?;
    grouping::check(select)?;
    grouping::once(select);
    if let Some(condition) = &mut select.selection {
        quantified::rows_in(condition)?;
    }
    select
        .selection
        .iter_mut()
        .chain(&mut select.having)
        .chain(&mut select.qualify)
        .try_for_each(quantified::placed)?;
    expand_using(select)?;
    for item in &mut select.projection {
        match item {
            SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                if options.opt_alias.is_some() {
                    return Err(Error::unsupported("* with AS"));
                }
                let replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
                if replaced.into_iter().any(|item| item.column_name.quote_style.is_some()) {
                    return Err(Error::unsupported("* REPLACE with a quoted name"));
                }
            }
            SelectItem::UnnamedExpr(expr) => {
                let name = expr.to_string();
                let renamed = is_renamed(expr);
                let renamed = renamed && !has_columns(item);
                if quantified::counted(item)? || renamed {
                    let SelectItem::UnnamedExpr(expr) = item else { continue };
                    *item = called(expr.clone(), name);
                }
            }
            SelectItem::ExprWithAlias { .. } => {
                quantified::counted(item)?;
            }
            _ => {}
        }
    }
    based_windows(select)
}

/// Whether `COLUMNS` of it stands for several columns.
pub(super) fn has_columns(item: &SelectItem) -> bool {
    visit_expressions(item, |expr| match expr {
        Expr::Function(function) if bare(&function.name).is_some_and(|name| name == "columns") => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

fn short_name(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(limits::NAME_BYTES));
    name
}

/// An expression of a select list with a name, of which there is no more than fits one.
fn called(expr: Expr, name: String) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', short_name(name)) }
}

/// Has the columns of a query in FROM or WITH be called by the text of their expressions, as those of an answer are.
pub(super) fn name_by_text(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let mut known = HashSet::new();
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) = item
                    && let Some(name) = headings::text_of(expr)
                    && known.insert(name.clone())
                {
                    *item = called(expr.clone(), name);
                }
            }
        }
        SetExpr::Query(query) => name_by_text(&mut query.body),
        SetExpr::SetOperation { left, .. } => name_by_text(left),
        _ => {}
    }
}

/// Names the columns of a view so, where it does not name them: what they are rewritten to has other texts.
pub(super) fn name_view(statement: &mut ast::Statement) {
    if let ast::Statement::CreateView(view) = statement
        && view.columns.is_empty()
    {
        name_by_text(&mut view.query.body);
    }
}

/// Gives columns of one list names of their own where they would have the same.
pub(crate) fn name_apart(statement: &mut Statement) {
    let Some(statement) = inner(statement) else { return };
    let _ = statement.visit(&mut Apart);
}

struct Apart;

impl VisitorMut for Apart {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let all = select
            .projection
            .iter()
            .any(|item| !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }));
        let mut known: HashMap<String, usize> = HashMap::new();
        for item in &mut select.projection {
            let (expr, name) = match item {
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) if !all => {
                    (None, parts.last().map(|name| name.value.clone()))
                }
                SelectItem::UnnamedExpr(Expr::Identifier(name)) if !all => (None, Some(name.value.clone())),
                SelectItem::UnnamedExpr(expr) => (Some(expr.clone()), Some(expr.to_string())),
                // To the planner it is no other than the column of the star.
                SelectItem::ExprWithAlias { expr, alias }
                    if all && matches!(&*expr, Expr::Identifier(name) if name.value == alias.value) =>
                {
                    (Some(expr.clone()), Some(alias.value.clone()))
                }
                SelectItem::ExprWithAlias { alias, .. } => (None, Some(alias.value.clone())),
                _ => continue,
            };
            let mut name = short_name(name.unwrap_or_default());
            let times = known.entry(name.clone()).or_default();
            *times += 1;
            if *times > 1 || all {
                name = format!("{name}:{times}");
            }
            let expr = match (expr, &item) {
                (Some(expr), _) => expr,
                (None, SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. })
                    if *times > 1 =>
                {
                    expr.clone()
                }
                _ => continue,
            };
            *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
        }
        ControlFlow::Continue(())
    }
}

/// Names what a statement orders by the number of: above groups the planner finds no other column.
pub(crate) fn name_ordered(statement: &mut Statement) {
    let Some(statement) = inner(statement) else { return };
    let _ = statement.visit(&mut Ordered);
}

struct Ordered;

impl VisitorMut for Ordered {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let (Some(order), SetExpr::Select(select)) = (&query.order_by, &mut *query.body) else {
            return ControlFlow::Continue(());
        };
        let ast::OrderByKind::Expressions(keys) = &order.kind else { return ControlFlow::Continue(()) };
        for key in keys {
            let Expr::Value(number) = &key.expr else { continue };
            let Value::Number(number, _) = &number.value else { continue };
            let Some(at) = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) else {
                continue;
            };
            let items = select.projection.get_mut(..=at).unwrap_or_default();
            let are_columns = items
                .iter()
                .all(|item| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }));
            let Some(item) = items.last_mut().filter(|_| are_columns) else { continue };
            if let SelectItem::UnnamedExpr(expr) = item
                && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            {
                *item = called(expr.clone(), expr.to_string());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether it will be another expression, whose column is to have the name that was written.
fn is_renamed(expr: &Expr) -> bool {
    visit_expressions(expr, |expr| {
        let is_other = match expr {
            Expr::Function(function) => bare(&function.name).is_some_and(|name| {
                names::meant(&name, arguments(function).map_or(usize::MAX, <[_]>::len)).is_some()
                    || matches!(calls::deviation(function), Ok(Some(_)))
            }),
            Expr::SimilarTo { .. } | Expr::Interval(_) => true,
            _ => false,
        };
        if is_other { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .is_break()
}

/// Puts what a window takes from another one into its place.
fn based_windows(select: &mut Select) -> Result<()> {
    let mut known: HashMap<String, WindowSpec> = HashMap::new();
    for definition in &mut select.named_window {
        let spec = match &mut definition.1 {
            NamedWindowExpr::NamedWindow(name) => {
                let spec = known.get(&name.value).cloned();
                spec.ok_or_else(|| Error::invalid(format!("no window {:?}", name.value)))?
            }
            NamedWindowExpr::WindowSpec(spec) => {
                based(spec, &known)?;
                windows::frame(spec);
                spec.clone()
            }
        };
        known.insert(definition.0.value.clone(), spec.clone());
        definition.1 = NamedWindowExpr::WindowSpec(spec);
    }
    let mut fault = None;
    let _ = visit_expressions_mut(select, |expr| {
        if let Expr::Function(function) = expr
            && let Some(WindowType::WindowSpec(spec)) = &mut function.over
        {
            if let Err(error) = based(spec, &known) {
                fault = Some(error);
                return ControlFlow::Break(());
            }
            windows::frame(spec);
        }
        ControlFlow::Continue(())
    });
    fault.map_or(Ok(()), Err)
}

fn based(spec: &mut WindowSpec, known: &HashMap<String, WindowSpec>) -> Result<()> {
    let Some(name) = spec.window_name.take() else { return Ok(()) };
    let Some(base) = known.get(&name.value) else {
        return Err(Error::invalid(format!("no window {:?}", name.value)));
    };
    if !spec.partition_by.is_empty() || (!spec.order_by.is_empty() && !base.order_by.is_empty()) {
        return Err(Error::invalid(format!("the window {:?} is parted or ordered already", name.value)));
    }
    if base.window_frame.is_some() {
        return Err(Error::invalid(format!("the window {:?} has a frame already", name.value)));
    }
    spec.partition_by.clone_from(&base.partition_by);
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&base.order_by);
    }
    Ok(())
}
