//! What a text says of a table that is to be made: its columns, their types, what they refer to, and its properties.

use std::time::Duration;

use basalt_core::{
    error::ErrorKind,
    logical::Logical as Held,
    schema::{DataType as Logical, Field, Optimize, Reference, Schema},
    table::Retention,
};
use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ColumnDef, ColumnOption, CreateTable,
    CreateTableOptions, ObjectName, ObjectNamePart, SqlOption, TableConstraint, Value,
};

use crate::{
    catalog::{Alteration, NewTable},
    dialect,
    error::{Error, Result},
    system::{self, of_schema},
};

/// The one name that an object has, in the one schema that there is.
pub(crate) fn only_name(name: &ObjectName) -> Result<String> {
    only_part(name, &name.0[of_schema(name)..])
}

/// The name of a column, which no schema has.
pub(crate) fn column_name(name: &ObjectName) -> Result<String> {
    only_part(name, &name.0)
}

fn only_part(name: &ObjectName, parts: &[ObjectNamePart]) -> Result<String> {
    match parts {
        [ObjectNamePart::Identifier(name)] => Ok(name.value.clone()),
        _ => Err(Error::new(ErrorKind::InvalidName, format!("{name} is not the name of a table"))),
    }
}

/// The name of a new table or view, which is none of PostgreSQL's catalogue: without its schema it would mean that one.
fn new_name(name: &ObjectName) -> Result<String> {
    let plain = only_name(name)?;
    match system::is_system(&format!("pg_catalog.{}", plain.to_lowercase())) {
        true => Err(Error::new(ErrorKind::InvalidName, format!("{plain} is a table of pg_catalog"))),
        false => Ok(plain),
    }
}

/// The table that CREATE TABLE describes; `of_query` are the columns of the query behind AS.
pub(crate) fn new_table(create: &CreateTable, of_query: Option<Vec<Field>>) -> Result<NewTable> {
    check_plain(create)?;
    let mut fields = match (&of_query, create.columns.is_empty()) {
        (Some(fields), true) => fields.clone(),
        (None, _) => create.columns.iter().map(column).collect::<Result<_>>()?,
        (Some(_), false) => return Err(Error::unsupported("a list of columns beside AS")),
    };
    for constraint in &create.constraints {
        let TableConstraint::ForeignKey(key) = constraint else {
            return Err(Error::unsupported(format!("{constraint} (it would not be enforced)")));
        };
        let [column] = key.columns.as_slice() else {
            return Err(Error::unsupported("a reference of several columns"));
        };
        let field = fields.iter_mut().find(|field| field.name == column.value);
        let field = field.ok_or_else(|| no_column(&column.value))?;
        field.references = Some(reference(&key.foreign_table, &key.referred_columns)?);
    }
    let options = with_options(&create.table_options)?;
    for (column, optimize) in optimized(options)? {
        optimize_fields(&mut fields, column.as_deref(), optimize)?;
    }
    let schema = Schema::new(fields)?;
    let (retention, rewrites) = properties(options, &schema)?;
    let (name, replaces) = (new_name(&create.name)?, create.or_replace);
    Ok(NewTable { name, schema, retention, rewrites, replaces })
}

/// Checks an index, which is not made: every column is searched by what its blocks hold. One that would promise something is refused.
pub(crate) fn check_index(index: &ast::CreateIndex, schema: &Schema) -> Result<()> {
    if index.unique {
        return Err(Error::unsupported("a unique index (it would not be enforced)"));
    }
    for column in &index.columns {
        if let ast::Expr::Identifier(name) = &column.column.expr
            && !schema.fields().iter().any(|field| field.name.eq_ignore_ascii_case(&name.value))
        {
            return Err(no_column(&name.value));
        }
    }
    Ok(())
}

/// What ALTER TABLE changes, and the columns that must have no null.
pub(crate) fn alterations(alter: &ast::AlterTable) -> Result<(Vec<Alteration>, Vec<String>)> {
    let (mut changes, mut full) = (Vec::new(), Vec::new());
    for operation in &alter.operations {
        let change = match operation {
            AlterTableOperation::AddColumn {
                if_not_exists: false,
                column_def,
                column_position: None,
                ..
            } => Alteration::Add(column(column_def)?),
            AlterTableOperation::DropColumn {
                column_names, if_exists: false, drop_behavior: None, ..
            } => {
                changes.extend(column_names.iter().map(|name| Alteration::Drop(name.value.clone())));
                continue;
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                Alteration::Rename(old_column_name.value.clone(), new_column_name.value.clone())
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let name = column_name.value.clone();
                match op {
                    AlterColumnOperation::SetNotNull => {
                        full.push(name.clone());
                        Alteration::SetNullable(name, false)
                    }
                    AlterColumnOperation::DropNotNull => Alteration::SetNullable(name, true),
                    AlterColumnOperation::SetDataType { data_type, using: None, .. } => {
                        Alteration::Widen(name, logical(data_type)?)
                    }
                    other => return Err(Error::unsupported(format!("ALTER COLUMN {other}"))),
                }
            }
            AlterTableOperation::SetOptionsParens { options } => {
                if let Some(other) = options.iter().find(|option| optimizes(option).is_none()) {
                    return Err(Error::unsupported(format!("ALTER TABLE ... SET ({other})")));
                }
                let optimized = optimized(options)?.into_iter();
                changes.extend(optimized.map(|(column, optimize)| Alteration::Optimize(column, optimize)));
                continue;
            }
            AlterTableOperation::RenameTable { .. } => {
                return Err(Error::unsupported(
                    "ALTER TABLE ... RENAME TO (CREATE TABLE new AS SELECT * FROM t, then DROP TABLE t)",
                ));
            }
            other => return Err(Error::unsupported(format!("ALTER TABLE ... {other}"))),
        };
        changes.push(change);
    }
    if !full.is_empty() && changes.len() > 1 {
        return Err(Error::unsupported("SET NOT NULL beside other changes"));
    }
    Ok((changes, full))
}

/// A view that is to be made.
#[derive(Debug)]
pub(crate) struct NewView {
    pub(crate) name: String,
    pub(crate) query: Box<ast::Query>,
    /// It takes the place of one of its name.
    pub(crate) replaces: bool,
}

/// The view that CREATE VIEW describes.
pub(crate) fn new_view(view: ast::CreateView) -> Result<NewView> {
    let name = new_name(&view.name)?;
    let is_plain = !view.or_alter
        && !view.materialized
        && !view.secure
        && !view.temporary
        && !view.with_no_schema_binding
        && !view.copy_grants
        && view.cluster_by.is_empty()
        && view.comment.is_none()
        && view.to.is_none()
        && view.params.is_none()
        && matches!(view.options, CreateTableOptions::None);
    let named = view.columns.iter().all(|column| column.data_type.is_none() && column.options.is_none());
    if !is_plain || !named {
        return Err(Error::unsupported("this form of CREATE VIEW"));
    }
    let mut query = view.query;
    if !view.columns.is_empty() {
        let columns: Vec<_> = view.columns.iter().map(|column| column.name.to_string()).collect();
        let name = format!("v ({})", columns.join(", "));
        let named = dialect::all_of(&query, &name);
        query = Box::new(named.ok_or_else(|| Error::Internal(format!("{name} is not parsed")))?);
    }
    Ok(NewView { name, query, replaces: view.or_replace })
}

fn no_column(name: &str) -> Error {
    Error::new(ErrorKind::ColumnNotFound, format!("no column {name:?}"))
}

/// Refuses what would be passed over otherwise.
fn check_plain(create: &CreateTable) -> Result<()> {
    let plain = CreateTable {
        or_replace: create.or_replace,
        if_not_exists: create.if_not_exists,
        columns: create.columns.clone(),
        constraints: create.constraints.clone(),
        table_options: create.table_options.clone(),
        query: create.query.clone(),
        ..ast::helpers::stmt_create_table::CreateTableBuilder::new(create.name.clone()).build()
    };
    if create.or_replace && create.if_not_exists {
        return Err(Error::invalid("CREATE TABLE takes OR REPLACE or IF NOT EXISTS, not both"));
    }
    if create.temporary {
        return Err(Error::unsupported("a temporary table"));
    }
    if *create != plain {
        return Err(Error::unsupported("this form of CREATE TABLE"));
    }
    Ok(())
}

/// A column as CREATE TABLE and ADD COLUMN have it.
pub(crate) fn column(column: &ColumnDef) -> Result<Field> {
    let name = &column.name.value;
    let mut field = match held(&column.data_type) {
        Some(held) => Field { logical: Some(held), ..Field::new(name, held.form(), true) },
        None => Field::new(name, logical(&column.data_type)?, true),
    };
    for option in &column.options {
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => field.nullable = false,
            ColumnOption::ForeignKey(key) => {
                field.references = Some(reference(&key.foreign_table, &key.referred_columns)?);
            }
            ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_) | ColumnOption::Check(_) => {
                return Err(Error::unsupported(format!(
                    "{} of column {name:?} (it would not be enforced)",
                    option.option
                )));
            }
            ColumnOption::Default(value) => {
                return Err(Error::unsupported(format!(
                    "DEFAULT {value} of column {name:?} (INSERT gives every value)"
                )));
            }
            other => return Err(Error::unsupported(format!("{other} of column {name:?}"))),
        }
    }
    Ok(field)
}

fn reference(table: &ObjectName, columns: &[ast::Ident]) -> Result<Reference> {
    match columns {
        [column] => Ok(Reference { table: only_name(table)?, column: column.value.clone() }),
        _ => Err(Error::invalid(format!("REFERENCES names one column: REFERENCES {table}(key)"))),
    }
}

/// The type that a name of SQL means, of those that the engine holds in the form of another.
fn held(data_type: &ast::DataType) -> Option<Held> {
    match data_type.to_string().to_ascii_uppercase().as_str() {
        "BYTEA" | "BLOB" | "BINARY" | "VARBINARY" | "BYTES" => Some(Held::Binary),
        "TIME" | "TIME WITHOUT TIME ZONE" => Some(Held::Time),
        _ => None,
    }
}

/// The type that a name of SQL means.
pub(crate) fn logical(data_type: &ast::DataType) -> Result<Logical> {
    let text = data_type.to_string().to_ascii_uppercase();
    let (name, sizes) = match (text.split_once('('), text.rsplit_once(')')) {
        (Some((before, _)), Some((within, after))) => {
            let sizes = within.split_once('(').map_or("", |(_, sizes)| sizes);
            (format!("{before}{after}"), sizes.split(',').map(|size| size.trim().to_owned()).collect())
        }
        _ => (text.clone(), Vec::new()),
    };
    Ok(match name.trim() {
        "BOOLEAN" | "BOOL" => Logical::Bool,
        "TINYINT" => Logical::Int8,
        "SMALLINT" | "INT2" | "INT16" => Logical::Int16,
        "INT" | "INTEGER" | "INT4" | "INT32" | "MEDIUMINT" => Logical::Int32,
        "BIGINT" | "INT8" | "INT64" => Logical::Int64,
        "TINYINT UNSIGNED" | "UTINYINT" | "UINT8" => Logical::UInt8,
        "SMALLINT UNSIGNED" | "USMALLINT" | "INT2 UNSIGNED" | "UINT16" => Logical::UInt16,
        "INT UNSIGNED" | "INTEGER UNSIGNED" | "UINTEGER" | "INT4 UNSIGNED" | "UINT32" => Logical::UInt32,
        "BIGINT UNSIGNED" | "UBIGINT" | "INT8 UNSIGNED" | "UINT64" => Logical::UInt64,
        "REAL" | "FLOAT4" | "FLOAT32" => Logical::Float32,
        "DOUBLE" | "DOUBLE PRECISION" | "FLOAT8" | "FLOAT64" => Logical::Float64,
        "FLOAT" => match sizes.first().and_then(|size| size.parse().ok()) {
            Some(1..=24_u8) => Logical::Float32,
            _ => Logical::Float64,
        },
        "DECIMAL" | "NUMERIC" | "DEC" => {
            let size = |at: usize| sizes.get(at).and_then(|size| size.parse::<u8>().ok());
            match (size(0), sizes.len() < 2, size(1)) {
                (Some(precision), true, _) => Logical::Decimal { precision, scale: 0 },
                (Some(precision), false, Some(scale)) => Logical::Decimal { precision, scale },
                _ => return Err(Error::invalid(format!("{text}: which digits? DECIMAL(18, 2) for example"))),
            }
        }
        "DATE" | "DATE32" => Logical::Date32,
        "TIMESTAMP"
        | "TIMESTAMP WITH TIME ZONE"
        | "TIMESTAMP WITHOUT TIME ZONE"
        | "TIMESTAMPTZ"
        | "DATETIME" => Logical::Timestamp,
        // A length is taken and not enforced, as DuckDB does: nothing of a text is cut off, or padded.
        "TEXT" | "STRING" | "VARCHAR" | "CHARACTER VARYING" | "CHAR VARYING" | "CHAR" | "CHARACTER"
        | "BPCHAR" | "NVARCHAR" | "UTF8" => Logical::Utf8,
        "SERIAL" | "BIGSERIAL" | "SMALLSERIAL" => {
            let message =
                format!("a column of type {text} (no numbers are made: BIGINT holds those of INSERT)");
            return Err(Error::unsupported(message));
        }
        interval if interval.starts_with("INTERVAL") => {
            let message = format!("a column of type {text} (DOUBLE holds its seconds, VARCHAR its text)");
            return Err(Error::unsupported(message));
        }
        _ => return Err(Error::unsupported(format!("a column of type {text}"))),
    })
}

/// A column's type as a text of SQL has it.
pub(crate) fn type_name(field: &Field) -> String {
    match field.logical {
        Some(Held::Decimal { precision, scale }) => return format!("DECIMAL({precision}, {scale})"),
        Some(Held::Binary) => return "BYTEA".to_owned(),
        Some(Held::Time) => return "TIME".to_owned(),
        None => {}
    }
    match field.data_type {
        Logical::Bool => "BOOLEAN",
        Logical::Int8 => "TINYINT",
        Logical::Int16 => "SMALLINT",
        Logical::Int32 => "INTEGER",
        Logical::Int64 => "BIGINT",
        Logical::UInt8 => "TINYINT UNSIGNED",
        Logical::UInt16 => "SMALLINT UNSIGNED",
        Logical::UInt32 => "INTEGER UNSIGNED",
        Logical::UInt64 => "BIGINT UNSIGNED",
        Logical::Float32 => "REAL",
        Logical::Float64 => "DOUBLE",
        Logical::Decimal { precision, scale } => return format!("DECIMAL({precision}, {scale})"),
        Logical::Date32 => "DATE",
        Logical::Timestamp => "TIMESTAMP",
        Logical::Utf8 => "VARCHAR",
    }
    .to_owned()
}

/// What stands in WITH.
fn with_options(options: &CreateTableOptions) -> Result<&[SqlOption]> {
    match options {
        CreateTableOptions::None => Ok(&[]),
        CreateTableOptions::With(options) => Ok(options.as_slice()),
        _ => Err(Error::unsupported("options of a table other than WITH (name = 'value')")),
    }
}

/// The name of an option and its value.
fn key_value(option: &SqlOption) -> Result<(&str, String)> {
    let SqlOption::KeyValue { key, value } = option else {
        return Err(Error::unsupported(format!("the option {option}")));
    };
    let text = match value {
        ast::Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        ast::Expr::Identifier(name) => name.value.clone(),
        other => return Err(Error::invalid(format!("{other} is not the value of an option"))),
    };
    Ok((key.value.as_str(), text))
}

/// The column that an option `"optimize.COLUMN"` is for; with `optimize` it is `None`, for all. The outer `None`: it is
/// another option.
fn optimizes(option: &SqlOption) -> Option<Option<&str>> {
    let SqlOption::KeyValue { key, .. } = option else { return None };
    match key.value.strip_prefix("optimize")? {
        "" => Some(None),
        column => column.strip_prefix('.').map(Some),
    }
}

/// What the options optimize, columns behind the table: what is said of a column holds for it.
fn optimized(options: &[SqlOption]) -> Result<Vec<(Option<String>, Optimize)>> {
    let mut optimized = Vec::new();
    for option in options {
        if let Some(column) = optimizes(option) {
            optimized.push((column.map(str::to_owned), Optimize::from_name(&key_value(option)?.1)?));
        }
    }
    optimized.sort_by_key(|(column, _)| column.is_some());
    Ok(optimized)
}

fn optimize_fields(fields: &mut [Field], column: Option<&str>, optimize: Optimize) -> Result<()> {
    let Some(column) = column else {
        fields.iter_mut().for_each(|field| field.optimize = optimize);
        return Ok(());
    };
    let field = fields.iter_mut().find(|field| field.name == column).ok_or_else(|| no_column(column))?;
    field.optimize = optimize;
    Ok(())
}

/// Retention and how rows are deleted, from `WITH (retention = '30 days', retention_column = 'at', deletes = 'rewrite')`.
fn properties(options: &[SqlOption], schema: &Schema) -> Result<(Option<Retention>, Option<bool>)> {
    let (mut keep, mut by, mut rewrites) = (None, None, None);
    for option in options {
        if optimizes(option).is_some() {
            continue;
        }
        let (key, text) = key_value(option)?;
        match key {
            "retention" => keep = Some(duration(&text)?),
            "retention_column" => by = Some(text),
            "deletes" => {
                rewrites = Some(match text.as_str() {
                    "rewrite" => true,
                    "vectors" => false,
                    _ => return Err(Error::invalid("deletes is 'vectors' or 'rewrite'")),
                });
            }
            other => {
                let options = "retention, retention_column, deletes, optimize and \"optimize.COLUMN\"";
                return Err(Error::invalid(format!("no option {other:?}: {options} are options")));
            }
        }
    }
    let retention = match (keep, by) {
        (None, None) => None,
        (Some(keep), Some(by)) => Some(Retention::new(schema, &by, keep)?),
        _ => return Err(Error::invalid("retention and retention_column come together")),
    };
    Ok((retention, rewrites))
}

/// `30 days`, `12 hours`, `90d`, `3600` (seconds).
fn duration(text: &str) -> Result<Duration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds: Option<u64> = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "s" | "second" | "seconds" => Some(1),
        "m" | "min" | "minute" | "minutes" => Some(60),
        "h" | "hour" | "hours" => Some(3600),
        "d" | "day" | "days" => Some(24 * 3600),
        "w" | "week" | "weeks" => Some(7 * 24 * 3600),
        _ => None,
    };
    let wrong = || Error::invalid(format!("{text:?} is not a time, such as '30 days'"));
    let seconds = seconds.zip(number.parse().ok()).and_then(|(unit, n): (u64, u64)| unit.checked_mul(n));
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}
