//! `json_array_elements` and its kin among tables, as PostgreSQL has them: UNNEST of the values of an array.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, TableAlias, TableAliasColumnDef, TableFactor,
};

use super::exprs::{bare, parsed};
use crate::{
    error::{Error, Result},
    write::quoted,
};

/// What its column is called.
pub(super) const VALUE: &str = "value";

/// Puts UNNEST in the place of such a function.
///
/// # Errors
/// It has other arguments than one.
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
    let values = match name.as_str() {
        "json_array_elements" | "jsonb_array_elements" => "basalt_json_elements($1)",
        "json_array_elements_text" | "jsonb_array_elements_text" => "basalt_json_texts($1)",
        _ => return Ok(()),
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(json))] = args else {
        return Err(Error::invalid(format!("{name} takes a JSON text")));
    };
    let list = parsed(values, std::slice::from_ref(json), &mut 0)?;
    let unnamed = || TableAlias { explicit: true, name: quoted(&name), columns: Vec::new(), at: None };
    let mut alias = alias.clone().unwrap_or_else(unnamed);
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: quoted(VALUE), data_type: None });
    }
    *factor = unnest(vec![list], Some(alias), with_ordinality);
    Ok(())
}

/// UNNEST of lists, in FROM.
pub(super) fn unnest(
    array_exprs: Vec<Expr>,
    alias: Option<TableAlias>,
    with_ordinality: bool,
) -> TableFactor {
    TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_offset_alias: None, with_ordinality }
}
