//! Calls of functions in the planner's words: by the names and with the arguments that it knows.

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident,
    NullTreatment, ObjectName,
};

use super::{
    Rewrite, calls,
    exprs::{self, arguments, bare, check_doubled, formats, literal, parsed, text},
    known::{self, Known},
    specifiers, templates, times, windows,
};
use crate::{
    error::{Error, Result},
    names::{self, Meant},
};

impl Rewrite {
    /// A call as the planner has it.
    ///
    /// # Errors
    /// One that there is not here.
    pub(super) fn function(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(function) = expr else { return Ok(()) };
        calls::chained(function);
        let Some(name) = bare(&function.name) else { return Ok(()) };
        let name = name.as_str();
        known_part(name, function);
        if let Some(text) = templates::written(name, function, &mut self.doubled)? {
            *expr = text;
            return Ok(());
        }
        literals(name, function)?;
        if is_without_separator(name, function) {
            return Ok(());
        }
        clauses(name, function)?;
        if name == "regexp_extract_all" && extract_named(function)? {
            return Ok(());
        }
        if name == "map"
            && arguments(function).is_some_and(|args| args.iter().any(|arg| arg.to_string() == "NULL"))
        {
            return Err(Error::unsupported("map of NULL"));
        }
        if name == "struct_pack" {
            return calls::packed(function);
        }
        if let Some(other) = times::called(name, function, &mut self.doubled)? {
            *expr = other;
            return Ok(());
        }
        if let Some(made) = times::made(name, function, &mut self.doubled)? {
            *expr = made;
            return Ok(());
        }
        if name == "mode" {
            calls::mode(function);
        }
        if name == "generate_subscripts"
            && let Some([_, dimension]) = arguments(function)
        {
            calls::check_dimension(name, dimension)?;
        }
        if name == "array_length"
            && let Some(length) = calls::length(function)?
        {
            *expr = length;
            return Ok(());
        }
        if name == "unnest" {
            return calls::levels(function);
        }
        if name == "fill" {
            return windows::fill(function);
        }
        if name == "format"
            && let Some(text) = specifiers::format(function)?
        {
            *expr = text;
            return Ok(());
        }
        if let Some(root) = calls::deviation(function)? {
            *expr = root;
            return Ok(());
        }
        if name == "try" {
            *expr = windows::tried(function)?;
            return self.expr(expr);
        }
        if name == "array"
            && let FunctionArguments::Subquery(query) = &function.args
        {
            *expr = exprs::array_of(query)?;
            return Ok(());
        }
        match names::meant(name, arguments(function).map_or(usize::MAX, <[_]>::len)) {
            None => {}
            Some(Meant::Name(other)) => function.name = named(other),
            Some(Meant::NonNull(other)) => {
                function.name = named(other);
                function.null_treatment = Some(NullTreatment::IgnoreNulls);
            }
            Some(Meant::Template(template)) => {
                if let Some(meant) = self.filled(template, name, function)? {
                    *expr = Expr::Nested(Box::new(meant));
                }
            }
        }
        Ok(())
    }

    /// What a template makes of a call; `None`: it has arguments with names, or `*`.
    fn filled(&mut self, template: &str, name: &str, function: &mut ast::Function) -> Result<Option<Expr>> {
        let Some(given) = arguments(function) else { return Ok(None) };
        let is_plain = function.over.is_none()
            && function.within_group.is_empty()
            && function.null_treatment.is_none()
            && matches!(&function.args, FunctionArguments::List(list) if list.clauses.is_empty() && list.duplicate_treatment.is_none());
        if !is_plain {
            return Err(Error::unsupported(format!("{name} with DISTINCT, ORDER BY or OVER")));
        }
        let plain = given.iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        });
        let Some(given) = plain.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let given = match name {
            "strftime" => formats(given, "%.6f", "%6f")?,
            _ => given,
        };
        let meant = match function.filter.take() {
            None => Some(parsed(template, &given, &mut self.doubled)?),
            Some(condition) => {
                let given: Vec<_> = given.into_iter().chain([*condition]).collect();
                exprs::parsed_of_some(template, &given, &mut self.doubled)?
            }
        };
        let meant = meant.ok_or_else(|| Error::unsupported(format!("{name} with FILTER")))?;
        check_doubled(self.doubled, format_args!("calls of {name}"))?;
        Ok(Some(meant))
    }
}

fn named(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::new(name)])
}

/// An argument by its place.
fn argument(function: &mut ast::Function, at: usize) -> Option<&mut Expr> {
    let FunctionArguments::List(list) = &mut function.args else { return None };
    match list.args.get_mut(at)? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// Has the part of a time that is known be a literal, as the planner wants it. That of a statement that is described is one that
/// is a float, in which all others can be told too.
fn known_part(name: &str, function: &mut ast::Function) {
    let is_part = matches!(name, "date_part" | "datepart");
    if !is_part && !matches!(name, "date_trunc" | "datetrunc") {
        return;
    }
    let Some(part) = argument(function, 0) else { return };
    match known::text_of(part) {
        Some(Known::Text(known)) => *part = text(known),
        Some(Known::Null) if is_part && known::is_open(part) => *part = text("epoch".to_owned()),
        _ => {}
    }
}

/// A literal in the planner's words; `None`: it is one of these.
type Reworded = fn(&str) -> Result<Option<String>>;

/// Formats, encodings, patterns and parts of times that are literals.
fn literals(name: &str, function: &mut ast::Function) -> Result<()> {
    let (at, other): (_, Reworded) = match name {
        "to_char" | "to_date" | "to_timestamp" => (1, templates::strftime),
        // PostgreSQL's is padded.
        "encode" => (1, |of| Ok(of.eq_ignore_ascii_case("base64").then(|| "base64pad".to_owned()))),
        "date_trunc" | "datetrunc" => (0, |of| Ok(exprs::truncated_part(of).map(str::to_owned))),
        // What the planner takes for IS NOT NULL, which is never NULL.
        _ if name.starts_with("regexp_") => (1, |of| Ok((of == ".*").then(|| "(?:.*)".to_owned()))),
        _ => return Ok(()),
    };
    if let Some(argument) = argument(function, at)
        && let Some(given) = literal(argument)
        && let Some(other) = other(given)?
    {
        *argument = text(other);
    }
    Ok(())
}

/// Whether it is a concatenation that is to have commas, which it is given.
fn is_without_separator(name: &str, function: &mut ast::Function) -> bool {
    if ["string_agg", "group_concat", "listagg"].contains(&name)
        && let FunctionArguments::List(list) = &mut function.args
        && list.args.len() == 1
    {
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(text(",".to_owned()))));
        function.name = named("string_agg");
        return true;
    }
    false
}

/// What stands in the brackets behind the arguments, and options among these.
fn clauses(name: &str, function: &mut ast::Function) -> Result<()> {
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    for clause in &mut list.clauses {
        if let FunctionArgumentClause::OrderBy(keys) = clause {
            // A key that was there before orders nothing.
            let mut known: Vec<Expr> = Vec::with_capacity(keys.len());
            keys.retain(|key| {
                let is_new = !known.contains(&key.expr);
                known.push(key.expr.clone());
                is_new
            });
        }
    }
    calls::options(name, &mut list.args)?;
    // What an aggregate of a window is told of the order of its arguments, where it is the same in each.
    if function.over.is_some() && calls::UNORDERED.contains(&name) {
        list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::OrderBy(_)));
    }
    Ok(())
}

/// `regexp_extract_all` with names of groups, which gives structs; whether it has them.
fn extract_named(function: &mut ast::Function) -> Result<bool> {
    let Some(argument) = argument(function, 2) else { return Ok(false) };
    let Expr::Array(names) = &*argument else { return Ok(false) };
    let names: Option<Vec<&str>> = names.elem.iter().map(literal).collect();
    let names = names.ok_or_else(|| Error::unsupported("names of groups that are no literals"))?;
    *argument = text(names.join("\u{1f}"));
    function.name = named("basalt_extract_named");
    Ok(true)
}
