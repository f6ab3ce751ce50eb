//! What a statement takes and gives, told without running it.

use std::sync::Arc;

use arrow_schema::DataType;
use basalt_core::schema::{DataType as Logical, Schema};
use datafusion::{
    common::{Result as PlanResult, ScalarValue},
    execution::SessionState,
    logical_expr::LogicalPlan,
    sql::{parser::Statement, sqlparser::ast},
};

use crate::{
    answer::{Shown, shown_type, stands_for},
    command::{Command, Description},
    copy::{Target, columns_of_client},
    engine::{Request, Shared},
    error::Result,
    headings::Headings,
    limits,
    logical::logical,
    made::{affected_schema, columns_schema, settings_schema, tables_schema, text_schema, views_schema},
    parameters,
    parse::{Parameters, as_query},
    plan::{catalog, physical, unplanned, verify},
    plans::{Listed, Pins},
    resolve::{Resolved, resolve},
    summary,
};

/// Leaves the query that DESCRIBE is about; whether it is about one.
pub(crate) fn only_query(statement: &mut Statement) -> bool {
    let Statement::Statement(outer) = statement else { return false };
    let ast::Statement::Explain { describe_alias, analyze: false, statement: query, .. } = &mut **outer
    else {
        return false;
    };
    let is_query = matches!(**query, ast::Statement::Query(_));
    if !is_query || matches!(describe_alias, ast::DescribeAlias::Explain) {
        return false;
    }
    let nothing = ast::Statement::Commit { chain: false, end: false, modifier: None };
    **outer = std::mem::replace(&mut **query, nothing);
    true
}

/// What a statement takes and gives. It is planned with NULL for each parameter, in the type that is taken there, or with
/// its parameters where they are given: they may be of other types, of which the answer's columns are then.
pub(crate) async fn describe(
    shared: &Shared,
    request: Request,
    said: &[Option<Logical>],
) -> Result<Description> {
    if let Some(query) = summary::summarized(&request.sql)? {
        return summary::described(shared, request, said, query).await;
    }
    let (listed, mut pins) = (Listed::of(&request).await?, Pins::new());
    let parameters = match request.parameters.as_slice() {
        [] => Parameters::Open(said),
        given => Parameters::Given(given),
    };
    let resolved = resolve(shared, &request, parameters, &listed, &mut pins).await?;
    let command = resolved.command();
    match resolved {
        Resolved::Query(session, statement, headings) => {
            takes(&session, statement, command, &headings, said).await
        }
        Resolved::Write(session, rewritten, _) => {
            let query = Statement::Statement(Box::new(rewritten.query));
            Ok(affects(takes(&session, query, command, &Headings::default(), said).await?))
        }
        Resolved::Rows(effect, rows, table) => {
            let (parameters, texts) = rows.parameters(table.schema(), &effect);
            Ok(Description { parameters, texts, ..described(command, affected_schema()) })
        }
        Resolved::CreateAs(session, _, query, _) => {
            let query = Statement::Statement(Box::new(ast::Statement::Query(query)));
            Ok(affects(takes(&session, query, command, &Headings::default(), said).await?))
        }
        Resolved::CopyTo(session, query, ..) => {
            Ok(affects(takes(&session, as_query(query), command, &Headings::default(), said).await?))
        }
        // What the client sends, which it is told of before it does.
        Resolved::CopyFrom(table, columns, Target::Client(form)) => {
            let schema = Schema::of_answer(columns_of_client(table.schema(), &columns)?);
            Ok(Description { copied: Some(form), ..described(command, schema) })
        }
        Resolved::Tables(_) => Ok(described(command, tables_schema())),
        Resolved::Columns(_) | Resolved::ColumnsOf(..) => Ok(described(command, columns_schema())),
        Resolved::Views(_) => Ok(described(command, views_schema())),
        Resolved::Text(_) => Ok(described(command, text_schema())),
        Resolved::Settings(about) => Ok(described(command, settings_schema(&about))),
        Resolved::Create(_)
        | Resolved::Drop { .. }
        | Resolved::CreateView(..)
        | Resolved::DropView { .. }
        | Resolved::Cancel(_)
        | Resolved::Alter { .. }
        | Resolved::CopyFrom(_, _, Target::File(_))
        | Resolved::Nothing(_) => Ok(described(command, affected_schema())),
    }
}

/// What a query takes and gives.
async fn takes(
    session: &SessionState,
    statement: Statement,
    command: Command,
    headings: &Headings,
    said: &[Option<Logical>],
) -> Result<Description> {
    let logical = logical(session, statement).await?;
    verify(&logical)?;
    let types = parameters::types(&logical)?;
    let number = |name: &str| name.strip_prefix('$').and_then(|number| number.parse().ok());
    let last = types.keys().filter_map(|name| number(name)).max().unwrap_or(0_usize);
    let is_text = |at: usize| said.get(at) == Some(&Some(Logical::Utf8));
    let known = |at: usize| types.get(&format!("${}", at + 1)).cloned().flatten();
    let types: Vec<_> =
        (0..last).map(|at| known(at).or_else(|| is_text(at).then_some(DataType::Utf8))).collect();
    let (types, shown) = any_typed(session, logical, types, headings).await?;
    let parameters = types.iter().map(shown_type).collect();
    let texts = types.iter().map(stands_for).collect();
    let (schema, arrow) = (shown.schema().clone(), Arc::clone(shown.arrow()));
    Ok(Description { command, parameters, texts, schema, arrow, copied: None })
}

/// The types of the parameters, and the answer's columns. What may have any type is text, unless the statement has no plan
/// then: one of them is a whole number then, or else all are.
async fn any_typed(
    session: &SessionState,
    logical: LogicalPlan,
    types: Vec<Option<DataType>>,
    headings: &Headings,
) -> Result<(Vec<DataType>, Shown)> {
    let open: Vec<_> = (0..types.len()).filter(|at| types[*at].is_none()).collect();
    match typed(session, logical.clone(), &types, &DataType::Utf8, headings).await {
        Err(_) if !open.is_empty() => {}
        texts => return texts,
    }
    // Each is another plan. Of one alone it is what follows.
    if (2..=limits::PARAMETERS_TRIED).contains(&open.len()) {
        for at in open {
            let mut types = types.clone();
            types[at] = Some(DataType::Int64);
            let tried = typed(session, logical.clone(), &types, &DataType::Utf8, headings).await;
            if tried.is_ok() {
                return tried;
            }
        }
    }
    typed(session, logical, &types, &DataType::Int64, headings).await
}

/// The types of the parameters, where `unknown` is that of those that may have any, and the answer's columns.
async fn typed(
    session: &SessionState,
    logical: LogicalPlan,
    types: &[Option<DataType>],
    unknown: &DataType,
    headings: &Headings,
) -> Result<(Vec<DataType>, Shown)> {
    let types: Vec<_> = types.iter().map(|known| known.as_ref().unwrap_or(unknown).clone()).collect();
    let nulls = types.iter().map(|of| ScalarValue::try_from(&parameters::given(of)));
    let nulls = nulls.collect::<PlanResult<Vec<_>>>();
    let logical = logical.with_param_values(nulls.map_err(unplanned)?).map_err(unplanned)?;
    let physical = physical(session, &logical).await?;
    let typed = physical.schema();
    let shown = Shown::new(logical.schema(), &typed, headings)?;
    let shown = match catalog(session) {
        Some(catalog) => shown.for_client(&*catalog, &typed),
        None => shown,
    };
    Ok((types, shown))
}

/// What a statement takes that writes what a query gives.
fn affects(query: Description) -> Description {
    let Description { command, parameters, texts, .. } = query;
    Description { parameters, texts, ..described(command, affected_schema()) }
}

fn described(command: Command, schema: Schema) -> Description {
    let arrow = schema.to_outer_arrow();
    Description { command, parameters: Vec::new(), texts: Vec::new(), schema, arrow, copied: None }
}
