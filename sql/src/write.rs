//! INSERT, UPDATE and DELETE as queries: their rows are those that come, with the addresses of those that go. A query is
//! planned as any other is; what it gives is then written as one version.

use arrow_array::{Int64Array, RecordBatch, UInt64Array, cast::AsArray as _};
use arrow_schema::{DataType, SchemaRef};
use basalt_core::{error::ErrorKind, query::ROW_ADDRESS, schema::Schema};
use datafusion::{
    arrow::compute::cast,
    execution::SendableRecordBatchStream,
    sql::sqlparser::ast::{
        self, Assignment, AssignmentTarget, ConflictTarget, Expr, FromTable, Ident, ObjectName,
        ObjectNamePart, OnConflict, OnConflictAction, OnInsert, SelectItem, SelectItemQualifiedWildcardKind,
        SetExpr, TableAlias, TableFactor, TableObject, TableWithJoins, UpdateTableFromKind, Value,
        WildcardAdditionalOptions,
    },
};
use futures_util::StreamExt as _;

use crate::{
    assign::Rows,
    catalog::{Change, Writer, Written},
    command::Command,
    define::{column_name, only_name, type_name},
    dialect::stored_text,
    error::{Error, Result},
    parse::ast_parser,
    upsert::Upsert,
};

/// Stands behind the name of the table that is written to, where its rows have addresses: no table has such a name.
const WITH_ADDRESSES: &str = "@rows";

/// The name under which the plan finds the table that is written to.
pub(crate) fn with_addresses(table: &str) -> String {
    format!("{table}{WITH_ADDRESSES}")
}

/// A statement that writes, as a query and what is done with its rows.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) command: Command,
    pub(crate) query: ast::Statement,
    pub(crate) effect: Effect,
}

/// What is done with the rows of a query.
#[derive(Debug)]
pub(crate) struct Effect {
    pub(crate) change: Change,
    /// The column of the addresses of rows that go, null where none does.
    pub(crate) address: Option<usize>,
    /// The column that says which row of those with the same key one is: a second one is an error.
    pub(crate) number: Option<usize>,
    /// The new rows; `None`: none come.
    pub(crate) rows: Option<Rows>,
    /// Columns that the query is to have.
    pub(crate) width: Option<usize>,
}

/// The statement's command and the table that it writes to; `None`: it does not write rows.
pub(crate) fn target(statement: &ast::Statement) -> Result<Option<(Command, String)>> {
    let of_factor = |factor: &TableFactor| match factor {
        TableFactor::Table { name, .. } => only_name(name),
        other => Err(Error::invalid(format!("{other} is no table to write to"))),
    };
    Ok(Some(match statement {
        ast::Statement::Insert(insert) => {
            let command = if insert.on.is_some() { Command::Merge } else { Command::Insert };
            match &insert.table {
                TableObject::TableName(name) => (command, only_name(name)?),
                other => return Err(Error::invalid(format!("{other} is no table to write to"))),
            }
        }
        ast::Statement::Update(update) => (Command::Update, of_factor(&update.table.relation)?),
        ast::Statement::Delete(ast::Delete { from: ast::FromTable::WithoutKeyword(_), .. }) => {
            // What is left out might be its condition as well.
            return Err(Error::invalid("DELETE FROM which table?"));
        }
        ast::Statement::Delete(delete) => (Command::Delete, of_factor(&only(&delete.from)?.relation)?),
        ast::Statement::Truncate(truncate) => {
            let ignored = [
                (truncate.partitions.is_some(), "PARTITION behind TRUNCATE"),
                (truncate.if_exists, "TRUNCATE IF EXISTS"),
                (truncate.cascade.is_some(), "CASCADE and RESTRICT behind TRUNCATE"),
                (truncate.on_cluster.is_some(), "ON CLUSTER"),
            ];
            refuse(&ignored)?;
            match truncate.table_names.as_slice() {
                [only] => (Command::Truncate, only_name(&only.name)?),
                _ => {
                    return Err(Error::unsupported(
                        "TRUNCATE of several tables: they would not be emptied at once",
                    ));
                }
            }
        }
        ast::Statement::Query(query) => match behind_with(query) {
            Some(behind) => return target(behind),
            None => return Ok(None),
        },
        _ => return Ok(None),
    }))
}

/// The statement that stands behind the queries of a WITH, and writes.
pub(crate) fn behind_with(query: &ast::Query) -> Option<&ast::Statement> {
    match &*query.body {
        SetExpr::Insert(behind) | SetExpr::Update(behind) | SetExpr::Delete(behind) => Some(behind),
        _ => None,
    }
}

fn refuse(ignored: &[(bool, &str)]) -> Result<()> {
    match ignored.iter().find(|(is_there, _)| *is_there) {
        Some((_, what)) => Err(Error::unsupported(what)),
        None => Ok(()),
    }
}

fn only(from: &FromTable) -> Result<&TableWithJoins> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
    match from.as_slice() {
        [only] if only.joins.is_empty() => Ok(only),
        _ => Err(Error::unsupported("DELETE from several tables (USING names others)")),
    }
}

/// The query of a statement that [`target`] knows. `open`: parameters stand for themselves, and those that are stored as
/// they are have the types of their columns.
pub(crate) fn rewrite(
    statement: ast::Statement,
    name: &str,
    schema: &Schema,
    open: bool,
) -> Result<Rewritten> {
    match statement {
        ast::Statement::Insert(given) => insert(given, name, schema, open),
        ast::Statement::Update(given) => update(given, name, schema, open),
        ast::Statement::Delete(given) => delete(given, name),
        ast::Statement::Query(query) => {
            let ast::Query { with, body, .. } = *query;
            let (SetExpr::Insert(behind) | SetExpr::Update(behind) | SetExpr::Delete(behind)) = *body else {
                return Err(Error::Internal("what stands behind WITH does not write".to_owned()));
            };
            let Rewritten { command, query, effect } = rewrite(behind, name, schema, open)?;
            Ok(Rewritten { command, query: seeing(with, query)?, effect })
        }
        _ => {
            let all = format!("DELETE FROM {}", quoted(name));
            match parsed(&all)? {
                ast::Statement::Delete(all) => {
                    Ok(Rewritten { command: Command::Truncate, ..delete(all, name)? })
                }
                _ => Err(Error::Internal("DELETE is not parsed as such".to_owned())),
            }
        }
    }
}

/// A query that sees those of a WITH in all of its parts.
fn seeing(with: Option<ast::With>, query: ast::Statement) -> Result<ast::Statement> {
    let ast::Statement::Query(mut query) = query else {
        return Err(Error::Internal("a statement that writes has become no query".to_owned()));
    };
    // That of the source of an INSERT may name those around.
    if query.with.is_some() {
        let mut around = template("SELECT 1")?;
        *around.body = SetExpr::Query(query);
        query = around;
    }
    query.with = with;
    Ok(ast::Statement::Query(query))
}

pub(crate) fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn parsed(sql: &str) -> Result<ast::Statement> {
    let statement = ast_parser(sql).and_then(|mut parser| parser.parse_statement().ok());
    statement.ok_or_else(|| Error::Internal(format!("{sql} is not parsed")))
}

/// The query of a text of ours.
pub(crate) fn template(sql: &str) -> Result<Box<ast::Query>> {
    match parsed(sql)? {
        ast::Statement::Query(query) => Ok(query),
        other => Err(Error::Internal(format!("{other} is no query"))),
    }
}

/// The SELECT of a [`template`].
pub(crate) fn select(query: &mut ast::Query) -> Result<&mut ast::Select> {
    match &mut *query.body {
        SetExpr::Select(select) => Ok(select),
        other => Err(Error::Internal(format!("{other} is no SELECT"))),
    }
}

/// The table that is written to, where its rows have addresses, under the name that the statement has for it.
fn of_target(factor: TableFactor, table: &str) -> Result<(TableFactor, Ident)> {
    let TableFactor::Table { name, alias, .. } = factor else {
        return Err(Error::invalid(format!("{factor} is no table to write to")));
    };
    let alias = match alias {
        Some(alias) if alias.columns.is_empty() && alias.at.is_none() => alias,
        None => TableAlias { explicit: true, name: quoted(table), columns: Vec::new(), at: None },
        Some(_) => return Err(Error::unsupported("names for the columns of a table that is written to")),
    };
    if name.0.iter().any(|part| matches!(part, ObjectNamePart::Identifier(name) if name.value.contains('@')))
    {
        return Err(Error::invalid("the newest version of a table is written to, no other"));
    }
    let mut query = template(&format!("SELECT 1 FROM {}", quoted(&with_addresses(table))))?;
    let mut from = select(&mut query)?.from.pop();
    let relation = from.as_mut().map(|from| &mut from.relation);
    let Some(TableFactor::Table { alias: of, .. }) = relation else {
        return Err(Error::Internal("a table is not parsed".to_owned()));
    };
    let name = alias.name.clone();
    *of = Some(alias);
    let relation = from.map(|from| from.relation);
    Ok((relation.ok_or_else(|| Error::Internal("a table is not parsed".to_owned()))?, name))
}

fn delete(delete: ast::Delete, table: &str) -> Result<Rewritten> {
    let ignored = [
        (!delete.tables.is_empty(), "DELETE of several tables"),
        (delete.returning.is_some(), "RETURNING"),
        (delete.output.is_some(), "OUTPUT"),
        (!delete.order_by.is_empty(), "ORDER BY of a DELETE"),
        (delete.limit.is_some(), "LIMIT of a DELETE"),
    ];
    refuse(&ignored)?;
    let relation = only(&delete.from)?.relation.clone();
    let (relation, name) = of_target(relation, table)?;
    let mut query = template("SELECT 1")?;
    let of = select(&mut query)?;
    of.projection = vec![SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![name, quoted(ROW_ADDRESS)]))];
    of.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    of.from.extend(delete.using.into_iter().flatten());
    of.selection = delete.selection;
    let effect =
        Effect { change: Change::Delete, address: Some(0), number: None, rows: None, width: Some(1) };
    Ok(Rewritten { command: Command::Delete, query: ast::Statement::Query(query), effect })
}

fn update(update: ast::Update, table: &str, schema: &Schema, open: bool) -> Result<Rewritten> {
    let ignored = [
        (update.returning.is_some(), "RETURNING"),
        (update.output.is_some(), "OUTPUT"),
        (update.or.is_some(), "OR behind UPDATE"),
        (!update.order_by.is_empty(), "ORDER BY of an UPDATE"),
        (update.limit.is_some(), "LIMIT of an UPDATE"),
        (!update.table.joins.is_empty(), "a join in UPDATE (FROM names other tables)"),
    ];
    refuse(&ignored)?;
    let (relation, name) = of_target(update.table.relation, table)?;
    let mut query = template("SELECT 1")?;
    let of = select(&mut query)?;
    let whole = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![name]));
    of.projection = vec![SelectItem::QualifiedWildcard(whole, WildcardAdditionalOptions::default())];
    let columns = schema.fields().len();
    let mut sources: Vec<Option<usize>> = (0..columns).map(Some).collect();
    let set = assigned(update.assignments, schema, open)?;
    let width = columns + 1 + set.len();
    for (at, (column, value)) in set.into_iter().enumerate() {
        // The row's address stands between.
        sources[column] = Some(columns + 1 + at);
        of.projection.push(SelectItem::ExprWithAlias { expr: value, alias: quoted(&format!("={at}")) });
    }
    of.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    match update.from {
        None => {}
        Some(UpdateTableFromKind::AfterSet(from)) => of.from.extend(from),
        Some(UpdateTableFromKind::BeforeSet(_)) => return Err(Error::unsupported("FROM before SET")),
    }
    of.selection = update.selection;
    let rows = Rows::new(schema, sources).beside(columns);
    let change = Change::Update { exactly: false };
    let effect =
        Effect { change, address: Some(columns), number: None, rows: Some(rows), width: Some(width) };
    Ok(Rewritten { command: Command::Update, query: ast::Statement::Query(query), effect })
}

/// The columns that are set, each once, and the values that they get.
pub(crate) fn assigned(
    assignments: Vec<Assignment>,
    schema: &Schema,
    open: bool,
) -> Result<Vec<(usize, Expr)>> {
    let mut set: Vec<(usize, Expr)> = Vec::new();
    for Assignment { target, mut value } in assignments {
        let AssignmentTarget::ColumnName(name) = &target else {
            return Err(Error::Internal("SET of several columns is not parted".to_owned()));
        };
        let Some(ObjectNamePart::Identifier(name)) = name.0.last() else {
            return Err(Error::invalid(format!("{name} is no column")));
        };
        let column = index_of(schema, &name.value)?;
        if set.iter().any(|(before, _)| *before == column) {
            return Err(Error::invalid(format!("column {:?} is set twice", name.value)));
        }
        stored(&mut value, schema, column, open)?;
        set.push((column, value));
    }
    Ok(set)
}

fn index_of(schema: &Schema, name: &str) -> Result<usize> {
    Ok(schema.index_of(name).ok_or_else(|| schema.without(name))?)
}

/// A value that is stored as it is: DEFAULT is null, a parameter has the column's type, and a text says what it does in CAST.
fn stored(value: &mut Expr, schema: &Schema, column: usize, open: bool) -> Result<()> {
    let is_default = |name: &Ident| name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default");
    match value {
        Expr::Identifier(name) if is_default(name) => *value = Expr::Value(Value::Null.into()),
        Expr::Value(inner) if open && matches!(inner.value, Value::Placeholder(_)) => {
            let Some(field) = schema.fields().get(column) else { return Ok(()) };
            let text = format!("CAST({inner} AS {})", type_name(field));
            let cast = ast_parser(&text).and_then(|mut parser| parser.parse_expr().ok());
            *value = cast.ok_or_else(|| Error::Internal(format!("{text} is not parsed")))?;
        }
        Expr::Value(inner) => {
            if let (Value::SingleQuotedString(text), Some(field)) =
                (&mut inner.value, schema.fields().get(column))
                && let Some(plain) = stored_text(text, field)
            {
                *text = plain;
            }
        }
        _ => {}
    }
    Ok(())
}

fn insert(insert: ast::Insert, table: &str, schema: &Schema, open: bool) -> Result<Rewritten> {
    let ignored = [
        (insert.or.is_some(), "OR behind INSERT"),
        (insert.ignore, "INSERT IGNORE"),
        (insert.overwrite, "INSERT OVERWRITE"),
        (!insert.assignments.is_empty(), "SET of an INSERT"),
        (insert.partitioned.is_some() || !insert.after_columns.is_empty(), "PARTITION of an INSERT"),
        (insert.returning.is_some(), "RETURNING"),
        (insert.output.is_some(), "OUTPUT"),
        (insert.replace_into, "REPLACE INTO (INSERT ... ON CONFLICT is)"),
        (insert.priority.is_some(), "the priority of an INSERT"),
        (insert.insert_alias.is_some(), "a name for the rows of an INSERT (EXCLUDED is one)"),
        (insert.settings.is_some() || insert.format_clause.is_some(), "FORMAT of an INSERT"),
    ];
    refuse(&ignored)?;
    let Some(mut source) = insert.source else {
        return Err(Error::unsupported("an INSERT without VALUES or a query"));
    };
    let columns = match insert.columns.is_empty() {
        true => (0..schema.fields().len()).collect(),
        false => {
            let columns = insert.columns.iter().map(|name| index_of(schema, &column_name(name)?));
            columns.collect::<Result<Vec<_>>>()?
        }
    };
    let mut sources = vec![None; schema.fields().len()];
    for (at, column) in columns.iter().enumerate() {
        if sources[*column].replace(at).is_some() {
            let name = &schema.fields()[*column].name;
            return Err(Error::invalid(format!("column {name:?} is named twice")));
        }
    }
    values_stored(&mut source, schema, &columns, open)?;
    let Some(on) = insert.on else {
        let rows = Some(Rows::new(schema, sources));
        let effect =
            Effect { change: Change::Insert, address: None, number: None, rows, width: Some(columns.len()) };
        return Ok(Rewritten { command: Command::Insert, query: ast::Statement::Query(source), effect });
    };
    let OnInsert::OnConflict(OnConflict { conflict_target, action }) = on else {
        return Err(Error::unsupported("ON DUPLICATE KEY UPDATE (ON CONFLICT (key) DO UPDATE is)"));
    };
    let keys = match conflict_target {
        Some(ConflictTarget::Columns(keys)) => keys,
        Some(ConflictTarget::OnConstraint(_)) => return Err(Error::unsupported("ON CONSTRAINT")),
        None => {
            let message = "ON CONFLICT names the columns of the key, for tables have none: ON CONFLICT (key)";
            return Err(Error::invalid(message));
        }
    };
    let keys = keys.iter().map(|key| index_of(schema, &key.value)).collect::<Result<Vec<_>>>()?;
    if let Some(missing) = keys.iter().find(|key| !columns.contains(key)) {
        let name = &schema.fields()[*missing].name;
        return Err(Error::invalid(format!(
            "column {name:?} of the key is not among those that are inserted"
        )));
    }
    if let SetExpr::Values(values) = &*source.body
        && let Some(given) = values.rows.first().map(|row| row.content.len())
        && given != columns.len()
    {
        return Err(Error::invalid(format!("{given} values for {} columns", columns.len())));
    }
    let alias = insert.table_alias.map_or_else(|| quoted(table), |alias| alias.alias);
    let upsert = Upsert { table, alias, schema, columns, sources, keys };
    match action {
        OnConflictAction::DoNothing => upsert.rows(source, None, open),
        OnConflictAction::DoUpdate(update) if upsert.is_whole(&update, &source) => Ok(upsert.whole(source)),
        OnConflictAction::DoUpdate(update) => upsert.rows(source, Some(update), open),
    }
}

/// Values that stand in VALUES or in a list of SELECT.
fn values_stored(query: &mut ast::Query, schema: &Schema, columns: &[usize], open: bool) -> Result<()> {
    match &mut *query.body {
        SetExpr::Values(values) => {
            for row in &mut values.rows {
                for (value, column) in row.content.iter_mut().zip(columns) {
                    stored(value, schema, *column, open)?;
                }
            }
        }
        SetExpr::Select(select) => {
            for (item, column) in select.projection.iter_mut().zip(columns) {
                if let SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } = item
                    && matches!(value, Expr::Value(_))
                {
                    stored(value, schema, *column, open)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

impl Effect {
    /// New rows of a table that is made for a query.
    pub(crate) fn of_new_table(schema: &Schema) -> Self {
        let columns = schema.fields().len();
        let rows = Some(Rows::new(schema, (0..columns).map(Some).collect()));
        Self { change: Change::Insert, address: None, number: None, rows, width: Some(columns) }
    }

    /// Fails where the query gives other columns than are written.
    pub(crate) fn check(&self, given: &SchemaRef) -> Result<()> {
        self.check_width(given.fields().len())?;
        self.rows.as_ref().map_or(Ok(()), |rows| rows.check(given))
    }

    /// Fails where so many columns are not what is written.
    pub(crate) fn check_width(&self, given: usize) -> Result<()> {
        match self.width.filter(|width| *width != given) {
            Some(width) => Err(Error::invalid(format!("{given} values for {width} columns"))),
            None => Ok(()),
        }
    }

    /// Writes the rows of a query, and commits them.
    pub(crate) async fn write(
        &self,
        mut rows: SendableRecordBatchStream,
        mut writer: Box<dyn Writer>,
    ) -> Result<Written> {
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            self.check_numbers(&batch)?;
            if let Some(address) = self.address {
                let gone: UInt64Array = batch
                    .column(address)
                    .as_primitive::<arrow_array::types::UInt64Type>()
                    .iter()
                    .flatten()
                    .map(Some)
                    .collect();
                if !gone.is_empty() {
                    writer.delete(gone).await?;
                }
            }
            if let Some(rows) = &self.rows {
                for part in rows.parts(&batch) {
                    writer.insert(rows.of(&part)?).await?;
                }
            }
        }
        drop(rows);
        writer.commit().await
    }

    fn check_numbers(&self, batch: &RecordBatch) -> Result<()> {
        let Some(number) = self.number else { return Ok(()) };
        let numbers = cast(batch.column(number), &DataType::Int64)
            .map_err(|error| Error::Internal(error.to_string()))?;
        let numbers: &Int64Array = numbers.as_primitive();
        if numbers.iter().flatten().any(|number| number > 1) {
            let message = "two rows of the statement have the same key: ON CONFLICT would change a row twice";
            return Err(Error::new(ErrorKind::InvalidBatch, message));
        }
        Ok(())
    }
}
