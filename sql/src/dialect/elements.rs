//! Functions among tables, as PostgreSQL has them: `json_array_elements` and its kin, and `generate_subscripts`, are UNNEST of a list,
//! and one that gives a value, such as `version`, is a row of it.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, TableAlias, TableAliasColumnDef, TableFactor,
};

use super::{
    calls::check_dimension,
    exprs::{bare, parsed},
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
    let unnamed = || TableAlias { explicit: true, name: quoted(&name), columns: Vec::new(), at: None };
    let mut alias = alias.clone().unwrap_or_else(unnamed);
    if alias.columns.is_empty() {
        // What gives no JSON has a column called as the table.
        let column = if is_json { quoted(VALUE) } else { alias.name.clone() };
        alias.columns.push(TableAliasColumnDef { name: column, data_type: None });
    }
    *factor = unnest(vec![list], Some(alias), with_ordinality);
    Ok(())
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
