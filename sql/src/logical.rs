//! From the text of a statement to its logical plan. Where the planner takes no name or sign of it as people write it, it is
//! asked again in other words.

use datafusion::{
    common::{DataFusionError, SchemaError, TableReference},
    execution::SessionState,
    logical_expr::LogicalPlan,
    sql::{parser::Statement, sqlparser::tokenizer::Location},
};

use crate::{
    dialect,
    error::{Error, Result, missing_column},
    interruptible::GivenUp,
    keys, limits, meaning, named, order, parse,
    plan::unplanned,
    stars,
};

/// The plan of a statement, before any rule.
pub(crate) async fn logical(session: &SessionState, statement: Statement) -> Result<LogicalPlan> {
    // What columns are is known from here on: subqueries are told apart by it.
    meaning::settled(named(session, statement).await?).map_err(unplanned)
}

/// What a statement is planned to. Columns of one list that would have the same name get others.
pub(crate) async fn named(session: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    if dialect::inner(&mut statement).is_some_and(|statement| dialect::has_shared(statement)) {
        let mut marked = statement.clone();
        // Of one with two columns of one name all cannot be selected.
        if dialect::inner(&mut marked).is_some_and(dialect::mark)
            && let Ok(plan) = as_written(session, marked).await
        {
            return Ok(plan);
        }
    }
    as_written(session, statement).await
}

async fn as_written(session: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    dialect::rows::as_queries(&mut statement)?;
    stars::expand(session, &mut statement).await?;
    if order::has_queries(&mut statement) {
        let mut below = statement.clone();
        order::by_columns(session, &mut below, true).await?;
        // A name in such a query may be known above alone.
        if let Ok(plan) = planned(session, below).await {
            return Ok(plan);
        }
        let mut apart = statement.clone();
        order::by_columns(session, &mut apart, false).await?;
        // It is a column of a query there now, if anything else was computed below.
        if apart != statement {
            order::by_columns(session, &mut apart, true).await?;
            if let Ok(plan) = planned(session, apart).await {
                return Ok(plan);
            }
        }
    }
    order::by_columns(session, &mut statement, false).await?;
    planned(session, statement).await
}

/// What a statement is planned to that is in the planner's words, as far as they are known before.
pub(crate) async fn planned(session: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    let of = async |statement: Statement| {
        GivenUp::of_task().check()?;
        named::told_apart(keys::as_columns(session.statement_to_plan(statement).await?)?)
    };
    let mut planned = of(statement.clone()).await;
    for _ in 0..limits::ALIASES {
        let Err(error) = &planned else { break };
        let place = missing_column(error).map(|(line, column)| Location::new(line, column));
        let is_known = place.is_some_and(|place| {
            dialect::aliases::resolve(&mut statement, place)
                || dialect::using::resolve(&mut statement, place)
                || dialect::called::resolve(&mut statement, place)
        });
        if !is_known
            && !is_outer(&mut statement, error)
            && !is_beside_star(session, &mut statement, error).await
        {
            break;
        }
        planned = of(statement.clone()).await;
    }
    let error = match planned {
        Ok(plan) => return Ok(plan),
        Err(error) => error,
    };
    for other in in_other_words(statement, &error)? {
        if let Ok(plan) = of(other).await {
            return Ok(plan);
        }
    }
    Err(unplanned(error))
}

/// Whether a statement has no plan because a column of a query around was taken for a field, which is put right.
fn is_outer(statement: &mut Statement, error: &DataFusionError) -> bool {
    let DataFusionError::SchemaError(error, _) = error.find_root() else { return false };
    let SchemaError::FieldNotFound { field, .. } = &**error else { return false };
    let Some(TableReference::Bare { table }) = &field.relation else { return false };
    dialect::outer::resolve(statement, table, &field.name)
}

/// Whether a statement has no plan because a column has the name of one of a star beside it, which is put right.
async fn is_beside_star(session: &SessionState, statement: &mut Statement, error: &DataFusionError) -> bool {
    let DataFusionError::SchemaError(error, _) = error.find_root() else { return false };
    let SchemaError::AmbiguousReference { field } = &**error else { return false };
    if field.relation.is_none() {
        return false;
    }
    let mut unknown = None;
    for (at, source) in dialect::beside::sources(statement, field).into_iter().enumerate() {
        match session.statement_to_plan(parse::as_query(Box::new(source))).await {
            // The name may be that of a column of another list, which stands there without a star.
            Ok(LogicalPlan::Projection(of)) if of.input.schema().maybe_index_of_column(field).is_some() => {
                return dialect::beside::resolve(statement, field, at);
            }
            // It has columns of a query around.
            Err(_) => unknown = unknown.or(Some(at)),
            Ok(_) => {}
        }
    }
    unknown.is_some_and(|at| dialect::beside::resolve(statement, field, at))
}

/// Whether a statement has no plan because a column that it orders by has no name above its groups.
fn has_no_name(error: &DataFusionError) -> bool {
    error.to_string().contains("Column in ORDER BY must be in GROUP BY")
}

/// Whether a statement with DISTINCT has no plan because it is ordered by an expression whose columns are not in its list.
fn is_of_distinct(error: &DataFusionError) -> bool {
    error.to_string().contains("For SELECT DISTINCT, ORDER BY expressions")
}

/// A statement that is not planned, in other words: where it is the names of its columns, with others for what it orders by, or
/// where several have one name, first for its casts, inside of what is selected, then wherever they are, then for what is
/// selected.
fn in_other_words(mut statement: Statement, error: &DataFusionError) -> Result<Vec<Statement>> {
    if error.to_string().contains("Unary operator '-'") {
        dialect::signs::as_differences(&mut statement)?;
        return Ok(vec![statement]);
    }
    if has_no_name(error) {
        dialect::name_ordered(&mut statement);
        return Ok(vec![statement]);
    }
    if is_of_distinct(error) {
        dialect::ordered_by_place(&mut statement);
        let by_number = statement.clone();
        dialect::name_ordered(&mut statement);
        return Ok(vec![by_number, statement]);
    }
    if !names_collide(error) {
        return Ok(Vec::new());
    }
    let casts = |mut statement: Statement, outer: bool| {
        dialect::name_casts(&mut statement, outer)?;
        Ok::<_, Error>(statement)
    };
    let (within, everywhere) = (casts(statement.clone(), false)?, casts(statement.clone(), true)?);
    dialect::name_apart(&mut statement);
    Ok(vec![within, everywhere, statement.clone(), casts(statement, false)?])
}

/// Whether a statement has no plan because columns of a list have one name.
fn names_collide(error: &DataFusionError) -> bool {
    if let DataFusionError::SchemaError(error, _) = error.find_root() {
        return matches!(
            **error,
            SchemaError::AmbiguousReference { .. }
                | SchemaError::DuplicateQualifiedField { .. }
                | SchemaError::DuplicateUnqualifiedField { .. }
        );
    }
    error.to_string().contains("require unique expression names")
}
