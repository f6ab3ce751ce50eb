//! The columns for which COLUMNS, or `*` with its options, stands.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, visit_expressions,
    visit_expressions_mut,
};

use super::{Column, is_columns};
use crate::{
    dialect::literal,
    error::{Error, Result},
};

/// An expression of a column, with the name of the column and the parts of the name that the pattern has in groups.
pub(super) type OfColumn = (Expr, Option<String>, Vec<String>);

/// An expression once for each of the columns that its COLUMNS stand for.
pub(super) fn each(expr: &Expr, columns: &[Column]) -> Result<Vec<OfColumn>> {
    let mut chosen: Option<Vec<Chosen>> = None;
    let mut fault = None;
    let _ = visit_expressions(expr, |expr| {
        if let Expr::Function(function) = expr
            && is_columns(expr)
        {
            match (choose(function, columns), &chosen) {
                (Err(error), _) => fault = Some(error),
                (Ok(other), Some(known)) if other.len() != known.len() => {
                    fault = Some(Error::unsupported("COLUMNS of different columns in one expression"));
                }
                (Ok(other), Some(known)) if other.iter().zip(known).any(|(a, b)| a.name != b.name) => {
                    fault = Some(Error::unsupported("COLUMNS of different columns in one expression"));
                }
                (Ok(columns), _) => chosen = Some(columns),
            }
            if fault.is_some() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    if let Some(fault) = fault {
        return Err(fault);
    }
    let Some(chosen) = chosen else { return Ok(vec![(expr.clone(), None, Vec::new())]) };
    if chosen.is_empty() {
        return Err(Error::invalid("COLUMNS stands for no column"));
    }
    let of = |column: Chosen| {
        let is_bare = is_columns(expr);
        let mut expr = expr.clone();
        let _ = visit_expressions_mut(&mut expr, |inner| {
            if is_columns(inner) {
                *inner = column.expr.clone();
            }
            ControlFlow::<()>::Continue(())
        });
        (expr, is_bare.then_some(column.called), column.groups)
    };
    Ok(chosen.into_iter().map(of).collect())
}

/// A column that was chosen.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) expr: Expr,
    name: String,
    pub(super) called: String,
    /// What a pattern's groups have found, the whole name first.
    groups: Vec<String>,
}

impl Chosen {
    /// Whether it is a column by its name.
    pub(super) fn is_column(&self) -> bool {
        self.called == self.name && matches!(self.expr, Expr::CompoundIdentifier(_) | Expr::Identifier(_))
    }
}

fn chosen((table, name): &Column) -> Chosen {
    let quoted = |name: &String| Ident::with_quote('"', name.clone());
    let expr = match table {
        Some(table) => Expr::CompoundIdentifier(vec![quoted(table), quoted(name)]),
        None => Expr::Identifier(quoted(name)),
    };
    Chosen { expr, name: name.clone(), called: name.clone(), groups: vec![name.clone()] }
}

fn choose(function: &ast::Function, columns: &[Column]) -> Result<Vec<Chosen>> {
    let refused = || Error::unsupported("COLUMNS of anything but *, a pattern or a list of names");
    let FunctionArguments::List(list) = &function.args else { return Err(refused()) };
    let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else { return Err(refused()) };
    match argument {
        FunctionArgExpr::Wildcard => Ok(columns.iter().map(chosen).collect()),
        FunctionArgExpr::WildcardWithOptions(options) => of_options(options, None, columns),
        FunctionArgExpr::QualifiedWildcard(table) => {
            of_options(&ast::WildcardAdditionalOptions::default(), Some(table), columns)
        }
        FunctionArgExpr::Expr(Expr::Array(names)) => {
            let mut all: Vec<Chosen> = Vec::with_capacity(names.elem.len());
            for name in &names.elem {
                let name = literal(name).ok_or_else(refused)?;
                let found = columns.iter().find(|(_, column)| column.eq_ignore_ascii_case(name));
                let one =
                    chosen(found.ok_or_else(|| Error::invalid(format!("COLUMNS: no column {name:?}")))?);
                // Who names a column twice has it once.
                if !all.iter().any(|other| other.expr == one.expr) {
                    all.push(one);
                }
            }
            Ok(all)
        }
        FunctionArgExpr::Expr(pattern) => {
            let pattern = literal(pattern).ok_or_else(refused)?;
            let regex = regex::Regex::new(pattern)
                .map_err(|error| Error::invalid(format!("COLUMNS: no regular expression: {error}")))?;
            let of = |column: &Column| {
                let captures = regex.captures(&column.1)?;
                let groups = captures.iter().map(|group| group.map_or("", |group| group.as_str()).to_owned());
                Some(Chosen { groups: groups.collect(), ..chosen(column) })
            };
            Ok(columns.iter().filter_map(of).collect())
        }
    }
}

/// The columns of `*` with its options.
pub(super) fn of_options(
    options: &ast::WildcardAdditionalOptions,
    table: Option<&ObjectName>,
    columns: &[Column],
) -> Result<Vec<Chosen>> {
    let last =
        |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.clone());
    let is_table =
        |of: &Option<String>, name: &str| of.as_ref().is_some_and(|of| of.eq_ignore_ascii_case(name));
    let mut excluded: Vec<(Option<String>, String)> = match &options.opt_exclude {
        None => Vec::new(),
        Some(ast::ExcludeSelectItem::Single(name)) => vec![split(name)],
        Some(ast::ExcludeSelectItem::Multiple(names)) => names.iter().map(split).collect(),
    };
    if let Some(except) = &options.opt_except {
        let names = std::iter::once(&except.first_element).chain(&except.additional_elements);
        excluded.extend(names.map(|name| (None, name.value.clone())));
    }
    let is_out = |(of, name): &(Option<String>, String), column: &Column| {
        column.1.eq_ignore_ascii_case(name) && of.as_ref().is_none_or(|of| is_table(&column.0, of))
    };
    if let Some((_, name)) = excluded.iter().find(|out| !columns.iter().any(|column| is_out(out, column))) {
        return Err(Error::invalid(format!("* EXCLUDE: no column {name:?}")));
    }
    let table = table.and_then(last);
    let mut all = Vec::new();
    for column in columns {
        if table.as_ref().is_some_and(|table| !is_table(&column.0, table)) {
            continue;
        }
        if excluded.iter().any(|out| is_out(out, column)) {
            continue;
        }
        if let Some(ilike) = &options.opt_ilike
            && !is_like(&column.1, &ilike.pattern)
        {
            continue;
        }
        let mut chosen = chosen(column);
        let replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
        for item in replaced.filter(|item| item.column_name.value.eq_ignore_ascii_case(&column.1)) {
            chosen.expr = Expr::Nested(Box::new(item.expr.clone()));
        }
        let renamed = match &options.opt_rename {
            None => &[][..],
            Some(ast::RenameSelectItem::Single(name)) => std::slice::from_ref(name),
            Some(ast::RenameSelectItem::Multiple(names)) => names,
        };
        for name in renamed.iter().filter(|name| name.ident.value.eq_ignore_ascii_case(&column.1)) {
            chosen.called.clone_from(&name.alias.value);
        }
        all.push(chosen);
    }
    Ok(all)
}

/// ILIKE of a name.
fn is_like(name: &str, pattern: &str) -> bool {
    let mut regex = String::from("(?is)^");
    for c in pattern.chars() {
        match c {
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            c => regex.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    regex.push('$');
    regex::Regex::new(&regex).is_ok_and(|regex| regex.is_match(name))
}

/// The table and the column of a name.
fn split(name: &ObjectName) -> (Option<String>, String) {
    let mut parts = name.0.iter().rev().filter_map(|part| part.as_ident()).map(|ident| ident.value.clone());
    // Default: a name has a part.
    let column = parts.next().unwrap_or_default();
    (parts.next(), column)
}
