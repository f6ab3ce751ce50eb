//! Functions among tables, as PostgreSQL has them: `json_array_elements` and its kin, and `generate_subscripts`, are UNNEST of a list,
//! and one that gives a value, such as `version`, is a row of it. So is `generate_series` of parameters, where it is described.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, TableAlias, TableAliasColumnDef, TableFactor,
};

use super::{
    called,
    calls::check_dimension,
    exprs::{bare, literal, parsed},
    known,
};
use crate::{
    error::{Error, Result},
    parse::ast_parser,
    system,
    write::quoted,
};

/// What its column is called.
pub(super) const VALUE: &str = "value";

/// The time when the statement arrived, by the names of functions.
const TIMES: [&str; 4] = ["now", "transaction_timestamp", "statement_timestamp", "clock_timestamp"];

/// Puts UNNEST, or a query of one row, in the place of such a function.
///
/// # Errors
/// It has other arguments than it takes.
pub(super) fn as_unnest(factor: &mut TableFactor) -> Result<()> {
    let (name, args, alias, with_ordinality) = match factor {
        TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
            (&*name, args.args.as_slice(), &*alias, *with_ordinality)
        }
        TableFactor::Function { name, args, with_ordinality, alias, .. } => {
            (&*name, args.as_slice(), &*alias, *with_ordinality)
        }
        _ => return Ok(()),
    };
    let Some(name) = bare(name) else { return Ok(()) };
    let (values, is_json) = match name.as_str() {
        "json_array_elements" | "jsonb_array_elements" => ("basalt_json_elements($1)", true),
        "json_array_elements_text" | "jsonb_array_elements_text" => ("basalt_json_texts($1)", true),
        "generate_subscripts" => ("generate_series(1, len($1))", false),
        // The planner's takes constants alone, which parameters are where the statement runs.
        series if called::SERIES.contains(&series) && args.iter().any(is_open) => {
            let list = series_of(series, args)?;
            *factor = rows_of(list, &name, alias.as_ref(), true, with_ordinality);
            return Ok(());
        }
        value if system::gives_value(value) || TIMES.contains(&value) => {
            if let Some(row) = row(value, args, alias.clone()).filter(|_| !with_ordinality) {
                *factor = row;
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    let list = match args {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(json))] if is_json => json,
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(list)), dimension] if !is_json => {
            check_dimension(&name, dimension)?;
            list
        }
        _ if is_json => return Err(Error::invalid(format!("{name} takes a JSON text"))),
        _ => return Err(Error::invalid(format!("{name} takes a list and 1"))),
    };
    let list = parsed(values, std::slice::from_ref(list), &mut 0)?;
    // What gives no JSON has a column called as the table.
    *factor = rows_of(list, &name, alias.as_ref(), is_json, with_ordinality);
    Ok(())
}

/// The rows of a list, by the name of the function that gives them; without another name their column is [`VALUE`], or called as the
/// table.
fn rows_of(
    list: Expr,
    name: &str,
    alias: Option<&TableAlias>,
    is_value: bool,
    with_ordinality: bool,
) -> TableFactor {
    let unnamed = || TableAlias { explicit: true, name: quoted(name), columns: Vec::new(), at: None };
    let mut alias = alias.cloned().unwrap_or_else(unnamed);
    if alias.columns.is_empty() {
        let column = if is_value { quoted(VALUE) } else { alias.name.clone() };
        alias.columns.push(TableAliasColumnDef { name: column, data_type: None });
    }
    unnest(vec![list], Some(alias), with_ordinality)
}

/// Whether an argument is a parameter without a value.
fn is_open(arg: &FunctionArg) -> bool {
    matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) if known::is_open(value))
}

/// A series as a list, whose step may be a literal text.
fn series_of(name: &str, args: &[FunctionArg]) -> Result<Expr> {
    let (mut given, mut places) = (Vec::with_capacity(args.len()), Vec::with_capacity(args.len()));
    for (at, arg) in (1..).zip(args) {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = arg else {
            return Err(Error::invalid(format!("{name} takes values")));
        };
        let is_step = at == 3 && literal(value).is_some();
        places.push(if is_step { format!("CAST(${at} AS INTERVAL)") } else { format!("${at}") });
        given.push(value.clone());
    }
    parsed(&format!("{name}({})", places.join(", ")), &given, &mut 0)
}

/// The row of a function that gives one value, whose column is called as the table; `None`: it is not parsed.
fn row(name: &str, args: &[FunctionArg], alias: Option<TableAlias>) -> Option<TableFactor> {
    let unnamed = || TableAlias { explicit: true, name: quoted(name), columns: Vec::new(), at: None };
    let alias = alias.unwrap_or_else(unnamed);
    let args = args.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let column = quoted(&alias.name.value);
    let subquery = ast_parser(&format!("SELECT {name}({args}) AS {column}"))?.parse_query().ok()?;
    Some(TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None })
}

/// UNNEST of lists, in FROM.
pub(super) fn unnest(
    array_exprs: Vec<Expr>,
    alias: Option<TableAlias>,
    with_ordinality: bool,
) -> TableFactor {
    TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_offset_alias: None, with_ordinality }
}
