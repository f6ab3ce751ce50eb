//! A server as the database that files are run against.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use basalt_client::{Client, ClientOptions, QueryResult, RetryPolicy, parse_type, timestamp_type, type_name};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType};
use sqlparser::{
    ast::{ColumnOption, ObjectName, ObjectType, Statement, TableObject},
    dialect::DuckDbDialect,
    parser::Parser,
};

use crate::values;

/// How long a statement may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Why a statement has no answer.
#[derive(Clone, Debug)]
pub(crate) struct Refused(pub(crate) String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl From<basalt_client::Error> for Refused {
    fn from(error: basalt_client::Error) -> Self {
        Self(error.to_string())
    }
}

fn refused(what: impl Into<String>) -> Refused {
    Refused(what.into())
}

/// A server, and what the statements of a file have made of its tables.
#[derive(Debug)]
pub(crate) struct Database {
    client: Client,
    tables: BTreeMap<String, SchemaRef>,
    /// Tables that are not as the file has them, and why: what reads them is not asked.
    pub(crate) lost: BTreeMap<String, String>,
    /// Tables whose values are random.
    pub(crate) random: BTreeSet<String>,
    /// What SQL refuses is not done by the typed API.
    by_sql_alone: bool,
}

impl Database {
    pub(crate) async fn connect(address: &str) -> Self {
        let options = ClientOptions::new().retry(RetryPolicy::never());
        let client = Client::connect_with(address, options).await.unwrap().with_deadline(DEADLINE);
        let (tables, lost, random) = Default::default();
        Self { client, tables, lost, random, by_sql_alone: false }
    }

    /// The same, for files that say what SQL takes here.
    pub(crate) fn by_sql_alone(self) -> Self {
        Self { by_sql_alone: true, ..self }
    }

    /// Drops all tables.
    pub(crate) async fn clear(&mut self) {
        self.lost.clear();
        self.random.clear();
        self.tables.clear();
        for table in self.client.list_tables().await.unwrap() {
            self.client.drop_table(&table.name).await.unwrap();
        }
        let views = self.query("SHOW VIEWS").await.unwrap();
        for view in values::rows(&views.batches) {
            self.query(&format!("DROP VIEW \"{}\"", view[0])).await.unwrap();
        }
    }

    /// The answer of a query.
    pub(crate) async fn query(&self, sql: &str) -> Result<QueryResult, Refused> {
        Ok(self.client.sql(sql).collect().await?)
    }

    /// Does what a statement says.
    pub(crate) async fn execute(&mut self, sql: &str) -> Result<(), Refused> {
        let parsed = Parser::parse_sql(&DuckDbDialect {}, sql);
        let statements = match parsed {
            Ok(statements) => statements,
            // It has a parser of its own, which takes more.
            Err(_) if self.by_sql_alone => return self.query(sql).await.map(drop),
            Err(error) => {
                self.spoil(sql).await;
                return Err(refused(format!("syntax of a statement: {error}")));
            }
        };
        for statement in statements {
            self.statement(statement).await?;
        }
        Ok(())
    }

    async fn statement(&mut self, statement: Statement) -> Result<(), Refused> {
        let text = statement.to_string();
        match statement {
            // Not what is asked here.
            Statement::Set(_)
            | Statement::Pragma { .. }
            | Statement::Analyze(_)
            | Statement::Explain { .. } => Ok(()),
            Statement::StartTransaction { .. } | Statement::Commit { .. } => Ok(()),
            Statement::CreateTable(create) => {
                let name = name_of(&create.name)?;
                if text.to_lowercase().contains("random()") {
                    self.random.insert(name.clone());
                }
                // By SQL, or, where a type has another name here, by the typed API.
                let done = match self.query(&text).await {
                    Ok(_) => self.known(&name).await,
                    Err(why) if self.by_sql_alone => Err(why),
                    Err(_) => self.create(&name, &create).await,
                };
                self.kept(&name, done).await
            }
            Statement::Insert(insert) => {
                let TableObject::TableName(name) = &insert.table else {
                    return Err(refused("INSERT into a function"));
                };
                let name = name_of(name)?;
                let is_plain = insert.on.is_none() && insert.returning.is_none();
                let done = match self.query(&text).await {
                    Ok(_) => Ok(()),
                    Err(_) if is_plain && !self.by_sql_alone => self.insert(&name, &insert).await,
                    Err(why) => Err(why),
                };
                self.kept(&name, done).await
            }
            // Whether a view reads it is asked.
            Statement::Drop { cascade, restrict, .. } if self.by_sql_alone && (cascade || restrict) => {
                self.query(&text).await.map(drop)
            }
            Statement::Drop { object_type: ObjectType::Table | ObjectType::View, names, .. } => {
                for name in &names {
                    let name = name_of(name)?;
                    self.tables.remove(&name);
                    self.lost.remove(&name);
                    self.drop(&name).await?;
                }
                Ok(())
            }
            Statement::CreateView(view) => {
                let name = name_of(&view.name)?;
                if view.or_replace {
                    self.drop(&name).await?;
                }
                match self.query(&text).await {
                    Ok(_) => drop(self.lost.remove(&name)),
                    Err(why) => {
                        self.lost.insert(name, format!("CREATE VIEW: {why}"));
                        return Err(why);
                    }
                }
                Ok(())
            }
            Statement::Query(_) => {
                let changes = ["INSERT ", "UPDATE ", "DELETE "].iter().any(|word| text.contains(word));
                match changes {
                    true => self.spoil(&text).await,
                    false => drop(self.query(&text).await?),
                }
                Ok(())
            }
            _ => match self.query(&text).await {
                Ok(_) => Ok(()),
                Err(why) => {
                    self.spoil(&text).await;
                    Err(why)
                }
            },
        }
    }

    async fn drop(&self, name: &str) -> Result<(), Refused> {
        self.client.drop_table_if_exists(name).await?;
        // There may be no such view.
        let _ = self.query(&format!("DROP VIEW IF EXISTS \"{name}\"")).await;
        Ok(())
    }

    async fn known(&mut self, name: &str) -> Result<(), Refused> {
        let details = self.client.table_summary(name).await?;
        self.tables.insert(name.to_owned(), details.schema.clone());
        Ok(())
    }

    /// Takes the tables that a statement names for others than they should be: it may have changed them.
    pub(crate) async fn spoil(&mut self, sql: &str) {
        let words: Vec<String> =
            sql.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_lowercase).collect();
        let named: Vec<String> =
            self.tables.keys().filter(|name| words.contains(&name.to_lowercase())).cloned().collect();
        for table in named {
            let _ = self.kept(&table, Err(refused(first_words(sql)))).await;
        }
    }

    /// A table that was not changed as it should be is none.
    async fn kept(&mut self, name: &str, done: Result<(), Refused>) -> Result<(), Refused> {
        match done {
            Ok(()) => {
                self.lost.remove(name);
                Ok(())
            }
            // Files of our own say what is refused, and that nothing of it was done.
            Err(why) if self.by_sql_alone => Err(why),
            Err(Refused(why)) => {
                self.lost.insert(name.to_owned(), why.clone());
                self.tables.remove(name);
                self.client.drop_table_if_exists(name).await?;
                Err(Refused(why))
            }
        }
    }

    async fn create(&mut self, name: &str, create: &sqlparser::ast::CreateTable) -> Result<(), Refused> {
        if create.if_not_exists && self.tables.contains_key(name) {
            return Ok(());
        }
        if create.or_replace {
            self.client.drop_table_if_exists(name).await?;
        }
        if let Some(query) = &create.query {
            let answer = self.typed(&query.to_string()).await?;
            let schema = nullable(&answer.schema);
            self.client.create_table(name, &schema).await?;
            self.client.write_all(name, &[of_schema(&schema, &answer)?]).await?;
            self.tables.insert(name.to_owned(), schema);
            return Ok(());
        }
        let mut fields = Vec::new();
        for column in &create.columns {
            for option in &column.options {
                match &option.option {
                    ColumnOption::Generated { .. } => return Err(refused("a generated column")),
                    ColumnOption::Collation(_) => return Err(refused("COLLATE of a column")),
                    ColumnOption::Default(_) => return Err(refused("DEFAULT of a column")),
                    _ => {}
                }
            }
            let spelled = column.data_type.to_string();
            let data_type = type_of(&spelled)
                .ok_or_else(|| refused(format!("a column of type {}", spelled.to_lowercase())))?;
            fields.push(Field::new(&column.name.value, data_type, true));
        }
        let schema = Arc::new(Schema::new(fields));
        self.client.create_table(name, &schema).await?;
        self.tables.insert(name.to_owned(), schema);
        Ok(())
    }

    /// The answer of a query whose columns have types of the engine: others would be text.
    async fn typed(&self, query: &str) -> Result<QueryResult, Refused> {
        let answer = self.query(query).await?;
        let types: Vec<String> = answer
            .schema
            .fields()
            .iter()
            .map(|field| format!("arrow_typeof(\"{}\")", field.name().replace('"', "\"\"")))
            .collect();
        let types = self.query(&format!("SELECT {} FROM ({query}) LIMIT 1", types.join(", "))).await?;
        let others =
            ["List", "Struct", "Map", "Interval", "Time3", "Time6", "Binary", "Duration", "Decimal256"];
        for value in values::rows(&types.batches).iter().flatten() {
            if others.iter().any(|other| value.contains(other)) {
                return Err(refused(format!("a column of type {}", first_words(value).to_lowercase())));
            }
        }
        Ok(answer)
    }

    async fn insert(&mut self, name: &str, insert: &sqlparser::ast::Insert) -> Result<(), Refused> {
        let known = self.tables.keys().find(|table| table.eq_ignore_ascii_case(name)).cloned();
        let Some(schema) = known.as_ref().and_then(|name| self.tables.get(name)).cloned() else {
            return Err(match self.lost.get(name) {
                Some(why) => refused(why.clone()),
                None => refused("INSERT into no table"),
            });
        };
        let Some(source) = &insert.source else { return Err(refused("INSERT without rows")) };
        let columns: Vec<String> = match insert.columns.is_empty() {
            true => schema.fields().iter().map(|field| field.name().clone()).collect(),
            false => insert.columns.iter().map(|name| name.to_string().replace('"', "")).collect(),
        };
        let names: Vec<String> = (0..columns.len()).map(|at| format!("c{at}")).collect();
        let select = schema.fields().iter().map(|field| {
            let at = columns.iter().position(|column| column.eq_ignore_ascii_case(field.name()));
            let value = at.map_or_else(|| "NULL".to_owned(), |at| names[at].clone());
            // Text has bytes by their numbers.
            let value = match field.data_type() {
                DataType::Binary => format!("CAST({value} AS BYTEA)"),
                _ => value,
            };
            format!("arrow_cast({value}, '{}') AS \"{}\"", arrow_name(field.data_type()), field.name())
        });
        let select: Vec<String> = select.collect();
        let sql = format!("SELECT {} FROM ({source}) AS q({})", select.join(", "), names.join(", "));
        let answer = self.query(&sql).await?;
        let known = known.unwrap_or_default();
        self.client.write_all(&known, &[of_schema(&schema, &answer)?]).await?;
        Ok(())
    }
}

/// The Arrow type by the name that `arrow_cast` reads.
fn arrow_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Timestamp(..) => "Timestamp(Microsecond, Some(\"UTC\"))".to_owned(),
        other => format!("{other}"),
    }
}

fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn of_schema(schema: &SchemaRef, answer: &QueryResult) -> Result<RecordBatch, Refused> {
    let batch = arrow_select::concat::concat_batches(&answer.schema, &answer.batches);
    let batch = batch.map_err(|error| refused(error.to_string()))?;
    RecordBatch::try_new(Arc::clone(schema), batch.columns().to_vec())
        .map_err(|error| refused(error.to_string()))
}

fn name_of(name: &ObjectName) -> Result<String, Refused> {
    match name.0.as_slice() {
        [part] => {
            let name = part.as_ident().ok_or_else(|| refused("the name of a table"))?;
            Ok(if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() })
        }
        _ => Err(refused("a table in a schema or a catalog")),
    }
}

fn first_words(text: &str) -> String {
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// The type of a column, by a name that DuckDB, PostgreSQL or the engine has for it.
pub(crate) fn type_of(spelled: &str) -> Option<DataType> {
    let name = spelled.to_lowercase();
    if name.ends_with(']') {
        return None;
    }
    let bare = name.split('(').next().unwrap_or_default().trim();
    Some(match bare {
        "bool" | "boolean" | "logical" => DataType::Boolean,
        "tinyint" | "int1" => DataType::Int8,
        "smallint" | "int2" | "short" => DataType::Int16,
        "int" | "integer" | "int4" | "signed" => DataType::Int32,
        "bigint" | "int8" | "long" | "oid" => DataType::Int64,
        "utinyint" | "uint8" => DataType::UInt8,
        "usmallint" | "uint16" => DataType::UInt16,
        "uinteger" | "uint32" => DataType::UInt32,
        "ubigint" | "uint64" => DataType::UInt64,
        "float" | "real" | "float4" => DataType::Float32,
        "double" | "double precision" | "float8" => DataType::Float64,
        "varchar" | "text" | "string" | "char" | "bpchar" | "character varying" | "character" | "utf8" => {
            DataType::Utf8
        }
        "date" | "date32" => DataType::Date32,
        "timestamp"
        | "datetime"
        | "timestamptz"
        | "timestamp with time zone"
        | "timestamp without time zone" => timestamp_type(),
        "decimal" | "numeric" if !name.contains('(') => DataType::Decimal128(18, 3),
        "decimal" | "numeric" => parse_type(&name.replace("numeric", "decimal"))?,
        _ => parse_type(&name).filter(|data_type| type_name(data_type) == name)?,
    })
}

#[basalt_sql::async_trait]
impl AsyncDB for Database {
    type Error = Refused;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Refused> {
        let first = sql.split_whitespace().next().unwrap_or_default().to_lowercase();
        if ["create", "insert", "drop", "update", "delete", "alter"].contains(&first.as_str()) {
            self.execute(sql).await?;
            return Ok(DBOutput::StatementComplete(0));
        }
        let answer = self.query(sql).await?;
        let types = answer.schema.fields().iter().map(|field| match field.data_type() {
            data_type if data_type.is_integer() => DefaultColumnType::Integer,
            data_type if data_type.is_floating() => DefaultColumnType::FloatingPoint,
            _ => DefaultColumnType::Text,
        });
        Ok(DBOutput::Rows { types: types.collect(), rows: values::rows(&answer.batches) })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "basalt"
    }
}
