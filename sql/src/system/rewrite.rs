//! What PostgreSQL's clients write that the planner does not know, as it would be written here.
//!
//! * `pg_catalog.` before a name of a function, a type, an operator or a column is left out, `public.` before a table.
//! * A virtual table has its name with its schema as one name, as which the statement's catalog knows it.
//! * `'t'::regclass` is the number of a table, as is that of other texts, and its name where it is selected for the answer; of numbers
//!   it is the table's name. The other types of names are texts, those of types numbers beside numbers.
//! * `= ANY (ARRAY[...])` is IN; a collation that is that of all texts is left out.
//! * A query over a virtual table that is always empty has no rows: its columns are NULLs, so that nothing that it would do
//!   with rows has to be understood.
//! * A subquery over virtual tables that stands for a value is the greatest one that it has: there is one at most, which
//!   the planner does not know.

mod named;

use std::ops::ControlFlow;

use basalt_core::error::ErrorKind;
use datafusion::sql::sqlparser::{
    ast::{
        self, AccessExpr, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
        FunctionArguments, GroupByExpr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem,
        SelectItemQualifiedWildcardKind, SetExpr, Subscript, TableAlias, TableFactor, Value, VisitMut as _,
        VisitorMut,
    },
    dialect::GenericDialect,
    parser::Parser,
};

use super::{
    DATABASE, Numbers, SCHEMA,
    empty::{aggregates, empty, is_empty, is_of_system},
    hidden, introspection, keywords, tables, types, with,
};
use crate::error::{Error, Result};

/// What clients call the schema of all tables: those of PostgreSQL, and those of Arrow Flight SQL.
const OF_TABLES: [&str; 2] = [SCHEMA, "main"];

/// The schemas that are searched, in turn, as JDBC's driver asks for them with lists.
const SEARCHED: &str =
    "(SELECT oid AS nspoid, nspname, 1 AS r FROM pg_catalog.pg_namespace WHERE nspname = 'public')";

/// Rewrites a statement, among tables that are known.
///
/// # Errors
/// A table that is asked for its number and is not there.
pub(crate) fn rewrite(statement: &mut ast::Statement, known: &[String]) -> Result<()> {
    introspection::rewrite(statement);
    with::rewrite(statement)?;
    hidden::rewrite(statement);
    // What is only shown is the name, not the number.
    for value in selected(statement).filter(|value| named::is_of_table(value)) {
        if let Some(name) = expr(&format!("regclass_name({value})")) {
            *value = name;
        }
    }
    let mut rewrite = Rewrite { known, numbers: None, with: Vec::new(), fault: None };
    let _ = statement.visit(&mut rewrite);
    rewrite.fault.map_or(Ok(()), Err)
}

/// The values that a statement selects for its answer.
fn selected(statement: &mut ast::Statement) -> impl Iterator<Item = &mut Expr> {
    let select = match statement {
        ast::Statement::Query(query) => match &mut *query.body {
            SetExpr::Select(select) => Some(select),
            _ => None,
        },
        _ => None,
    };
    select.into_iter().flat_map(|select| &mut select.projection).filter_map(|item| match item {
        SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => Some(value),
        _ => None,
    })
}

struct Rewrite<'a> {
    known: &'a [String],
    numbers: Option<Numbers>,
    /// What WITH calls queries, in and around the query at hand, and in others before it.
    with: Vec<String>,
    fault: Option<Error>,
}

/// The words of a name, where all of them are plain.
pub(super) fn words(ObjectName(parts): &ObjectName) -> Option<Vec<&str>> {
    parts
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => Some(ident.value.as_str()),
            ObjectNamePart::Function(_) => None,
        })
        .collect()
}

/// How many parts of a table's name say only in which schema it is, of which there is one.
pub(crate) fn of_schema(name: &ObjectName) -> usize {
    match words(name).as_deref() {
        Some([schema, _]) if OF_TABLES.contains(schema) => 1,
        Some([database, schema, _]) if *database == DATABASE && OF_TABLES.contains(schema) => 2,
        _ => 0,
    }
}

/// A virtual table by what stands in FROM.
pub(super) fn virtual_table(name: &ObjectName) -> Option<&'static tables::Virtual> {
    let words = words(name)?;
    let words = match words.as_slice() {
        [database, rest @ ..] if *database == DATABASE && rest.len() == 2 => rest,
        all => all,
    };
    let is_quoted =
        matches!(name.0.last(), Some(ObjectNamePart::Identifier(name)) if name.quote_style.is_some());
    match words {
        [plain] if plain.starts_with("pg_") || !is_quoted && plain.to_lowercase().starts_with("pg_") => {
            tables::find(&format!("pg_catalog.{}", plain.to_lowercase()))
        }
        // As this module has named it before.
        [whole] => tables::find(whole),
        [schema, plain] => tables::find(&format!("{}.{}", schema.to_lowercase(), plain.to_lowercase())),
        _ => None,
    }
}

fn is_virtual(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Table { name, args: None, .. } if virtual_table(name).is_some())
}

pub(super) fn expr(sql: &str) -> Option<Expr> {
    static DIALECT: GenericDialect = GenericDialect {};
    Parser::new(&DIALECT).try_with_sql(sql).ok()?.parse_expr().ok()
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Nested(inner) => text(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

impl VisitorMut for Rewrite<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        self.with.extend(named.map(|cte| cte.alias.name.value.clone()));
        empty(query);
        ControlFlow::Continue(())
    }

    /// DBeaver asks for `c.oid, c.*`: a name that stands twice is asked for once.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if !select.from.iter().any(|from| is_virtual(&from.relation)) {
            return ControlFlow::Continue(());
        }
        let whole = |item: &SelectItem| match item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                words(name).and_then(|words| words.last().map(|word| (*word).to_owned()))
            }
            _ => None,
        };
        let all: Vec<_> = select.projection.iter().filter_map(whole).collect();
        select.projection.retain(|item| match item {
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                !matches!(parts.as_slice(), [of, _] if all.contains(&of.value))
            }
            _ => true,
        });
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, .. } = factor
            && subquery.to_string().contains("array_upper(current_schemas(false), 1)")
            && let Some(Expr::Subquery(query)) = expr(SEARCHED)
        {
            *subquery = query;
        }
        if let TableFactor::UNNEST { array_exprs, .. } = factor {
            schemas_as_lists(array_exprs.iter_mut());
        }
        keywords::rewrite(factor);
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        // As PostgreSQL looks there first: a table of somebody's, of the same name, is read with its schema alone.
        if let Some(table) = virtual_table(name) {
            let named = |name: &str| Ident::with_quote('"', name);
            let whole = named(table.name);
            if alias.is_none() {
                let name = named(table.plain());
                *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
            }
            *name = ObjectName(vec![ObjectNamePart::Identifier(whole)]);
            return ControlFlow::Continue(());
        }
        ControlFlow::Continue(())
    }

    /// A table, whatever is done to it.
    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        let plain = of_schema(name);
        let ObjectName(parts) = name;
        parts.drain(..plain);
        // Without its schema it would be what WITH calls so.
        if plain > 0
            && let Some([table]) = words(name).as_deref()
            && self.with.iter().any(|with| with == table)
        {
            self.fault = Some(Error::unsupported(format!("{SCHEMA}.{table} beside a WITH of that name")));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(other) = self.rewritten(expr) {
            *expr = other;
        }
        ControlFlow::Continue(())
    }
}

impl Rewrite<'_> {
    fn numbers(&mut self) -> &Numbers {
        self.numbers.get_or_insert_with(|| Numbers::new(self.known))
    }

    /// What an expression is instead; it may be changed in its place, too.
    fn rewritten(&mut self, whole: &mut Expr) -> Option<Expr> {
        match whole {
            Expr::CompoundIdentifier(parts) => {
                let plain = match parts.as_slice() {
                    [schema, _, _] => {
                        OF_TABLES.contains(&schema.value.as_str())
                            || tables::SCHEMAS.contains(&schema.value.as_str())
                    }
                    _ => false,
                };
                if plain {
                    parts.remove(0);
                }
                None
            }
            Expr::Function(_) => {
                // As PostgreSQL writes a list.
                if let Some(names) = current_schemas(whole) {
                    let list = format!("{{{}}}", names.join(","));
                    return Some(Expr::Value(Value::SingleQuotedString(list).into()));
                }
                let Expr::Function(function) = whole else { return None };
                if let FunctionArguments::List(list) = &mut function.args {
                    schemas_as_lists(list.args.iter_mut().filter_map(|arg| match arg {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                        _ => None,
                    }));
                }
                self.function(function)
            }
            Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::NotEq, right } => {
                named::as_numbers(vec![&mut **left, &mut **right]);
                None
            }
            Expr::InList { expr, list, .. } => {
                named::as_numbers(list.iter_mut().chain([&mut **expr]).collect());
                None
            }
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(name) = op
                    && let [schema, sign] = name.as_slice()
                    && schema == "pg_catalog"
                {
                    *op = match sign.as_str() {
                        "~" => BinaryOperator::PGRegexMatch,
                        "~*" => BinaryOperator::PGRegexIMatch,
                        "!~" => BinaryOperator::PGRegexNotMatch,
                        "!~*" => BinaryOperator::PGRegexNotIMatch,
                        "~~" => BinaryOperator::PGLikeMatch,
                        "!~~" => BinaryOperator::PGNotLikeMatch,
                        "=" => BinaryOperator::Eq,
                        "<>" => BinaryOperator::NotEq,
                        _ => return None,
                    };
                }
                None
            }
            Expr::Collate { expr, collation } => {
                let words = words(collation)?;
                let last = words.last()?.to_lowercase();
                ["default", "c", "posix", "ucs_basic"].contains(&last.as_str()).then(|| (**expr).clone())
            }
            Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
                escape(pattern, escape_char);
                None
            }
            Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
                let list = array(right)?;
                Some(Expr::InList { expr: left.clone(), list, negated: false })
            }
            Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
                let list = array(right)?;
                Some(Expr::InList { expr: left.clone(), list, negated: true })
            }
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
                self.cast(expr, data_type)
            }
            Expr::Subquery(query) => {
                if is_empty(query) {
                    return Some(null());
                }
                one_value(query);
                None
            }
            Expr::Exists { subquery, negated } if is_empty(subquery) => {
                Some(Expr::Value(Value::Boolean(*negated).into()))
            }
            Expr::InSubquery { expr, subquery, negated } => {
                if is_empty(subquery) {
                    return Some(Expr::Value(Value::Boolean(*negated).into()));
                }
                // Grafana asks so for the schemas that are searched.
                subquery.to_string().contains("string_to_array(current_setting('search_path')").then(|| {
                    let list = vec![Expr::Value(Value::SingleQuotedString(SCHEMA.to_owned()).into())];
                    Expr::InList { expr: expr.clone(), list, negated: *negated }
                })
            }
            // A part of a name that stands there.
            Expr::CompoundFieldAccess { root, access_chain } => {
                let [AccessExpr::Subscript(Subscript::Index { index })] = access_chain.as_slice() else {
                    return None;
                };
                let index: usize = index.to_string().parse().ok()?;
                let root: &Expr = match &**root {
                    Expr::Nested(inner) => inner,
                    other => other,
                };
                let name = parse_ident(root).or_else(|| current_schemas(root))?;
                let part = index.checked_sub(1).and_then(|at| name.get(at));
                Some(
                    part.map_or_else(null, |part| {
                        Expr::Value(Value::SingleQuotedString(part.clone()).into())
                    }),
                )
            }
            _ => None,
        }
    }

    fn function(&self, function: &mut Function) -> Option<Expr> {
        let words = words(&function.name)?;
        let plain = match words.as_slice() {
            [plain] => *plain,
            ["pg_catalog", plain] => *plain,
            _ => return None,
        };
        if plain == "array_length"
            && let Some(name) = arguments(function).first().and_then(|of| parse_ident(of))
        {
            return expr(&name.len().to_string());
        }
        // Lists of what there is none of: privileges, options.
        if plain == "array"
            && matches!(&function.args, FunctionArguments::Subquery(query) if is_of_system(query))
        {
            return Some(null());
        }
        if words.len() == 2 {
            let ObjectName(parts) = &mut function.name;
            parts.remove(0);
        }
        None
    }

    fn cast(&mut self, inner: &Expr, data_type: &mut DataType) -> Option<Expr> {
        if named::is_of_numbers(data_type)
            && let Some(number) = named::number(inner)
        {
            return Some(number);
        }
        let of = match &*data_type {
            DataType::Regclass => "regclass".to_owned(),
            DataType::Custom(name, _) => {
                let words = words(name)?;
                match words.as_slice() {
                    [plain] | ["pg_catalog" | "information_schema", plain] => plain.to_lowercase(),
                    _ => return None,
                }
            }
            // A name that was made a number is the name again.
            DataType::Text | DataType::Varchar(_) => {
                let Expr::Cast { expr: name, data_type: DataType::Regclass, .. } = inner else { return None };
                return match text(name) {
                    Some(_) => Some((**name).clone()),
                    None => expr(&format!("regclass_name(to_regclass(CAST({name} AS TEXT)))")),
                };
            }
            _ => return None,
        };
        let literal = text(inner);
        match of.as_str() {
            "regclass" => match literal {
                Some(literal) => {
                    let number: Option<i64> = literal.parse().ok().or_else(|| self.numbers().find(literal));
                    if number.is_none() {
                        let message = format!("no table {literal:?}");
                        self.fault = Some(Error::new(ErrorKind::TableNotFound, message));
                    }
                    number.and_then(|number| expr(&number.to_string()))
                }
                // What is not known yet may be a name or a number.
                None if is_placeholder(inner) => expr(&format!("to_regclass(CAST({inner} AS TEXT))")),
                None => expr(&format!("regclass_name({inner})")),
            },
            "regtype" => match literal {
                Some(name) => {
                    let shown = types::shown(name).unwrap_or_else(|| name.to_owned());
                    Some(Expr::Value(Value::SingleQuotedString(shown).into()))
                }
                None => expr(&format!("basalt_type_name({inner})")),
            },
            "regnamespace" => match literal {
                Some(_) => Some(inner.clone()),
                None => expr(&format!(
                    "CASE {inner} WHEN 11 THEN 'pg_catalog' WHEN 2200 THEN '{SCHEMA}' WHEN 13000 THEN 'information_schema' END"
                )),
            },
            "text" | "name" | "varchar" | "bpchar" | "regproc" | "regrole" | "char" | "sql_identifier"
            | "character_data" | "yes_or_no" | "json" => {
                *data_type = DataType::Text;
                None
            }
            "oid" | "int8" | "cardinal_number" | "xid" => {
                *data_type = DataType::BigInt(None);
                None
            }
            "int4" => {
                *data_type = DataType::Int(None);
                None
            }
            "int2" => {
                *data_type = DataType::SmallInt(None);
                None
            }
            "bool" => {
                *data_type = DataType::Boolean;
                None
            }
            _ => None,
        }
    }
}

fn is_placeholder(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)))
}

/// Has `\` escape in a pattern in which another sign does.
fn escape(pattern: &mut Expr, sign: &mut Option<ast::ValueWithSpan>) {
    let Some(Value::SingleQuotedString(text)) = sign.as_ref().map(|sign| &sign.value) else { return };
    let mut chars = text.chars();
    let (Some(c), None) = (chars.next(), chars.next()) else { return };
    if c == '\\' || c == '\'' {
        return;
    }
    // What is escaped by itself goes aside meanwhile.
    let plain = format!("replace({pattern}, '\\', '\\\\')");
    let aside = format!("replace({plain}, '{c}{c}', '\u{1}')");
    if let Some(escaped) = expr(&format!("replace(replace({aside}, '{c}', '\\'), '\u{1}', '{c}')")) {
        (*pattern, *sign) = (escaped, None);
    }
}

/// `current_schemas(...)`.
fn current_schemas(expr: &Expr) -> Option<Vec<String>> {
    let Expr::Function(function) = expr else { return None };
    if words(&function.name)?.last() != Some(&"current_schemas") {
        return None;
    }
    let implicit = arguments(function).first()?.to_string() == "true";
    let all = ["pg_catalog", SCHEMA];
    Some(all.iter().skip(usize::from(!implicit)).map(|name| (*name).to_owned()).collect())
}

/// Has the schemas be a list for what takes one.
fn schemas_as_lists<'a>(values: impl Iterator<Item = &'a mut Expr>) {
    for value in values {
        let names = current_schemas(value);
        if let Some(list) = names.and_then(|names| expr(&format!("ARRAY['{}']", names.join("', '")))) {
            *value = list;
        }
    }
}

/// The elements of an array that stands there.
fn array(expr: &Expr) -> Option<Vec<Expr>> {
    if let Some(names) = current_schemas(expr) {
        let names = names.into_iter().map(|name| Expr::Value(Value::SingleQuotedString(name).into()));
        return Some(names.collect());
    }
    match expr {
        Expr::Array(array) if !array.elem.is_empty() => Some(array.elem.clone()),
        Expr::Nested(inner) => array(inner),
        Expr::Cast { expr, .. } => array(expr),
        _ => None,
    }
}

fn arguments(function: &Function) -> Vec<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let plain = list.args.iter().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    plain.collect()
}

/// The parts of `parse_ident('a.b')`.
fn parse_ident(expr: &Expr) -> Option<Vec<String>> {
    let Expr::Function(function) = expr else { return None };
    if words(&function.name)?.last() != Some(&"parse_ident") {
        return None;
    }
    let name = text(arguments(function).first()?)?;
    let part = |(part, is_quoted): (String, bool)| if is_quoted { part } else { part.to_lowercase() };
    Some(super::parts(name).into_iter().map(part).collect())
}

/// Has a subquery over virtual tables give its greatest value.
fn one_value(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    let all_virtual = !select.from.is_empty()
        && select.from.iter().all(|from| {
            is_virtual(&from.relation) && from.joins.iter().all(|join| is_virtual(&join.relation))
        });
    let plain = matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    if !all_virtual || !plain || query.with.is_some() || query.limit_clause.is_some() {
        return;
    }
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        select.projection.as_mut_slice()
    else {
        return;
    };
    if !aggregates(item)
        && let Some(greatest) = expr(&format!("max({item})"))
    {
        *item = greatest;
        query.order_by = None;
    }
}

#[cfg(test)]
mod tests;
