//! The rows of the virtual tables that have some.

use std::{collections::HashMap, sync::Arc};

use arrow_schema::{DataType as ArrowType, FieldRef, SchemaRef};

use super::{
    DATABASE, Numbers, OWNER, SCHEMA,
    functions::SETTINGS,
    tables::{self, Row, Value, Virtual},
    types::{ARRAYS, PostgresType, TYPES, arrays, postgres_type},
};
use crate::{
    catalog::Table,
    views::{Texts, Views},
};

/// Numbers of what there is one of.
const OWNER_NUMBER: i64 = 10;
const USER_NUMBER: i64 = 11;
const DATABASE_NUMBER: i64 = 5;
const HEAP: i64 = 2;
const SCHEMAS: [(&str, i64); 3] = [("pg_catalog", 11), (SCHEMA, 2200), ("information_schema", 13_000)];

/// What a statement knows of tables.
pub(super) struct Known<'a> {
    pub(super) tables: &'a [String],
    pub(super) views: &'a Views,
    /// Their texts, where the statement reads them.
    pub(super) texts: &'a Texts,
    pub(super) of_views: &'a HashMap<String, SchemaRef>,
    pub(super) pinned: &'a HashMap<String, Arc<dyn Table>>,
    pub(super) numbers: &'a Numbers,
    /// Who has connected, where the door knows.
    pub(super) user: Option<&'a str>,
}

/// A table, of users or virtual.
struct Of<'a> {
    schema: &'static str,
    name: &'a str,
    number: i64,
    is_view: bool,
    columns: Vec<Column>,
}

struct Column {
    name: String,
    of: PostgresType,
    nullable: bool,
}

fn int(value: impl Into<i64>) -> Value {
    Value::Int(value.into())
}

impl Known<'_> {
    fn all(&self) -> Vec<Of<'_>> {
        let user = self.tables.iter().map(|name| Of {
            schema: SCHEMA,
            name,
            number: self.numbers.find(name).unwrap_or_default(),
            is_view: false,
            columns: self
                .pinned
                .get(name)
                .map_or_else(Vec::new, |table| columns(&table.schema().to_outer_arrow())),
        });
        let views = self.views.keys().map(|name| Of {
            schema: SCHEMA,
            name,
            number: self.numbers.find(name).unwrap_or_default(),
            is_view: true,
            columns: self.of_views.get(name).map_or_else(Vec::new, columns),
        });
        // Those that show the server are not in it: tools list what is not of PostgreSQL beside the tables of users.
        let system = tables::OF_POSTGRES.iter().map(|table| Of {
            schema: schema_of(table),
            name: table.plain(),
            number: table.number,
            is_view: true,
            columns: table.columns().map(|(name, of)| system_column(name, &of)).collect(),
        });
        user.chain(views).chain(system).collect()
    }
}

fn columns(schema: &SchemaRef) -> Vec<Column> {
    let column = |field: &FieldRef| Column {
        name: field.name().clone(),
        of: postgres_type(field.data_type()),
        nullable: field.is_nullable(),
    };
    schema.fields().iter().map(column).collect()
}

fn system_column(name: &str, of: &ArrowType) -> Column {
    Column { name: name.to_owned(), of: postgres_type(of), nullable: true }
}

fn schema_of(table: &Virtual) -> &'static str {
    // Default: that of the names that have none here.
    tables::SCHEMAS.into_iter().find(|schema| table.name.starts_with(schema)).unwrap_or("information_schema")
}

fn namespace(schema: &str) -> i64 {
    SCHEMAS.iter().find(|(name, _)| *name == schema).map_or(0, |(_, number)| *number)
}

/// The rows of a table.
pub(super) fn of(table: &Virtual, known: &Known<'_>) -> Vec<Row> {
    match table.name {
        "pg_catalog.pg_am" => vec![vec![
            ("oid", int(HEAP)),
            ("amname", "heap".into()),
            ("amhandler", "heap_tableam_handler".into()),
            ("amtype", "t".into()),
        ]],
        "pg_catalog.pg_namespace" => {
            SCHEMAS.iter().map(|(name, number)| namespace_row(name, *number)).collect()
        }
        "pg_catalog.pg_class" => known.all().iter().map(class).collect(),
        "pg_catalog.pg_attribute" => known.all().iter().flat_map(attributes).collect(),
        "pg_catalog.pg_type" => {
            let arrays = arrays().map(|array| pg_type(&array, "A"));
            TYPES.iter().map(|(of, category)| pg_type(of, category)).chain(arrays).collect()
        }
        "pg_catalog.pg_database" => vec![database()],
        "pg_catalog.pg_roles" => users(known).map(|(number, name)| role(number, name)).collect(),
        "pg_catalog.pg_user" => users(known).map(|(number, name)| pg_user(number, name)).collect(),
        "pg_catalog.pg_tablespace" => {
            vec![vec![("oid", int(1663)), ("spcname", "pg_default".into()), ("spcowner", int(OWNER_NUMBER))]]
        }
        "pg_catalog.pg_settings" => SETTINGS
            .iter()
            .map(|(name, value)| vec![("name", (*name).into()), ("setting", (*value).into())])
            .collect(),
        // The only one that there is.
        "pg_catalog.pg_timezone_names" => vec![vec![
            ("name", "UTC".into()),
            ("abbrev", "UTC".into()),
            ("utc_offset", "00:00:00".into()),
            ("is_dst", Value::Bool(false)),
        ]],
        "pg_catalog.pg_tables" => known
            .all()
            .iter()
            .filter(|table| table.schema != SCHEMA || !table.is_view)
            .map(pg_table)
            .collect(),
        "pg_catalog.pg_views" => {
            known.texts.iter().map(|(name, sql)| pg_view(name, sql.as_deref())).collect()
        }
        "information_schema.views" => {
            known.texts.iter().map(|(name, sql)| information_view(name, sql.as_deref())).collect()
        }
        "information_schema.schemata" => SCHEMAS
            .iter()
            .map(|(name, _)| -> Row {
                vec![
                    ("catalog_name", DATABASE.into()),
                    ("schema_name", (*name).into()),
                    ("schema_owner", OWNER.into()),
                ]
            })
            .collect(),
        "information_schema.character_sets" => vec![vec![
            ("character_set_name", "UTF8".into()),
            ("character_repertoire", "UCS".into()),
            ("form_of_use", "UTF8".into()),
            ("default_collate_catalog", DATABASE.into()),
            ("default_collate_schema", "pg_catalog".into()),
            ("default_collate_name", "C".into()),
        ]],
        "information_schema.tables" => known.all().iter().map(information_table).collect(),
        "information_schema.columns" => known.all().iter().flat_map(information_columns).collect(),
        _ => Vec::new(),
    }
}

fn namespace_row(name: &str, number: i64) -> Row {
    vec![("oid", int(number)), ("nspname", name.into()), ("nspowner", int(OWNER_NUMBER))]
}

fn class(table: &Of<'_>) -> Row {
    let mut row: Row = vec![
        ("oid", int(table.number)),
        ("relname", table.name.into()),
        ("relnamespace", int(namespace(table.schema))),
        ("relowner", int(OWNER_NUMBER)),
        ("relam", int(HEAP)),
        ("relfilenode", int(table.number)),
        ("reltuples", int(-1)),
        ("relpersistence", "p".into()),
        ("relkind", if table.is_view { "v" } else { "r" }.into()),
        ("relreplident", "d".into()),
        ("relispopulated", Value::Bool(true)),
        ("relnatts", int(i64::try_from(table.columns.len()).unwrap_or_default())),
    ];
    let zeros = [
        "reltype",
        "reloftype",
        "reltablespace",
        "relpages",
        "relallvisible",
        "reltoastrelid",
        "relchecks",
        "relrewrite",
        "relfrozenxid",
        "relminmxid",
    ];
    row.extend(zeros.map(|name| (name, int(0))));
    let no = [
        "relhasindex",
        "relisshared",
        "relhasrules",
        "relhastriggers",
        "relhassubclass",
        "relrowsecurity",
        "relforcerowsecurity",
        "relispartition",
    ];
    row.extend(no.map(|name| (name, Value::Bool(false))));
    row
}

fn attributes<'a>(table: &'a Of<'_>) -> impl Iterator<Item = Row> + 'a {
    table.columns.iter().zip(1_i64..).map(|(column, number)| {
        vec![
            ("attrelid", int(table.number)),
            ("attname", column.name.as_str().into()),
            ("atttypid", int(column.of.oid)),
            ("attstattarget", int(-1)),
            ("attlen", int(column.of.size)),
            ("attnum", int(number)),
            ("attndims", int(0)),
            ("attcacheoff", int(-1)),
            ("atttypmod", int(column.of.modifier)),
            ("attbyval", Value::Bool(column.of.size > 0)),
            ("attalign", "i".into()),
            ("attstorage", if column.of.size < 0 { "x" } else { "p" }.into()),
            ("attcompression", "".into()),
            ("attnotnull", Value::Bool(!column.nullable)),
            ("atthasdef", Value::Bool(false)),
            ("atthasmissing", Value::Bool(false)),
            ("attidentity", "".into()),
            ("attgenerated", "".into()),
            ("attisdropped", Value::Bool(false)),
            ("attislocal", Value::Bool(true)),
            ("attinhcount", int(0)),
            ("attcollation", int(0)),
        ]
    })
}

fn pg_type(of: &PostgresType, category: &str) -> Row {
    // As PostgreSQL calls them, by which clients know a type.
    let apart = ["numeric", "date", "time", "timestamp", "timestamptz", "json", "uuid", "interval"];
    let between = if apart.contains(&of.name) { "_" } else { "" };
    // Default: it is no array, or has none.
    let element = ARRAYS.iter().find(|(array, ..)| *array == of.oid).map_or(0, |(.., element)| *element);
    let array = ARRAYS.iter().find(|(.., element)| *element == of.oid).map_or(0, |(array, ..)| *array);
    let procedure = |what: &str| match element {
        0 => Value::Text(format!("{}{between}{what}", of.name)),
        _ => Value::Text(format!("array_{what}")),
    };
    vec![
        ("oid", int(of.oid)),
        ("typname", of.name.into()),
        ("typnamespace", int(namespace("pg_catalog"))),
        ("typowner", int(OWNER_NUMBER)),
        ("typlen", int(of.size)),
        ("typbyval", Value::Bool(of.size > 0)),
        ("typtype", "b".into()),
        ("typcategory", category.into()),
        ("typispreferred", Value::Bool(matches!(of.name, "bool" | "text" | "float8" | "timestamptz"))),
        ("typisdefined", Value::Bool(true)),
        ("typdelim", ",".into()),
        ("typrelid", int(0)),
        ("typelem", int(element)),
        ("typarray", int(array)),
        ("typinput", procedure("in")),
        ("typoutput", procedure("out")),
        ("typreceive", procedure("recv")),
        ("typsend", procedure("send")),
        ("typalign", "i".into()),
        ("typstorage", if of.size < 0 { "x" } else { "p" }.into()),
        ("typnotnull", Value::Bool(false)),
        ("typbasetype", int(0)),
        ("typtypmod", int(-1)),
        ("typndims", int(0)),
        ("typcollation", int(0)),
    ]
}

fn database() -> Row {
    vec![
        ("oid", int(DATABASE_NUMBER)),
        ("datname", DATABASE.into()),
        ("datdba", int(OWNER_NUMBER)),
        ("encoding", int(6)),
        ("datlocprovider", "c".into()),
        ("datistemplate", Value::Bool(false)),
        ("datallowconn", Value::Bool(true)),
        ("datconnlimit", int(-1)),
        ("dattablespace", int(1663)),
        ("datcollate", "C".into()),
        ("datctype", "C".into()),
    ]
}

/// Who owns all there is, and who has connected: tools look for themselves among the roles.
fn users<'a>(known: &Known<'a>) -> impl Iterator<Item = (i64, &'a str)> {
    let user = known.user.filter(|user| *user != OWNER);
    std::iter::once((OWNER_NUMBER, OWNER)).chain(user.map(|user| (USER_NUMBER, user)))
}

fn pg_user(number: i64, name: &str) -> Row {
    vec![
        ("usename", name.into()),
        ("usesysid", int(number)),
        ("usecreatedb", Value::Bool(false)),
        ("usesuper", Value::Bool(false)),
        ("userepl", Value::Bool(false)),
        ("usebypassrls", Value::Bool(false)),
    ]
}

fn role(number: i64, name: &str) -> Row {
    let yes = ["rolinherit", "rolcanlogin"].map(|name| (name, Value::Bool(true)));
    let no = ["rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls"];
    let mut row: Row = vec![("oid", int(number)), ("rolname", name.into()), ("rolconnlimit", int(-1))];
    row.extend(yes);
    row.extend(no.map(|name| (name, Value::Bool(false))));
    row
}

fn pg_table(table: &Of<'_>) -> Row {
    let mut row: Row = vec![
        ("schemaname", table.schema.into()),
        ("tablename", table.name.into()),
        ("tableowner", OWNER.into()),
    ];
    let no = ["hasindexes", "hasrules", "hastriggers", "rowsecurity"];
    row.extend(no.map(|name| (name, Value::Bool(false))));
    row
}

fn pg_view(name: &str, sql: Option<&str>) -> Row {
    let row = [("schemaname", SCHEMA.into()), ("viewname", name.into()), ("viewowner", OWNER.into())];
    row.into_iter().chain(sql.map(|sql| ("definition", sql.into()))).collect()
}

fn information_view(name: &str, sql: Option<&str>) -> Row {
    let row = [
        ("table_catalog", DATABASE.into()),
        ("table_schema", SCHEMA.into()),
        ("table_name", name.into()),
        ("check_option", "NONE".into()),
        ("is_updatable", "NO".into()),
        ("is_insertable_into", "NO".into()),
    ];
    row.into_iter().chain(sql.map(|sql| ("view_definition", sql.into()))).collect()
}

fn information_table(table: &Of<'_>) -> Row {
    vec![
        ("table_catalog", DATABASE.into()),
        ("table_schema", table.schema.into()),
        ("table_name", table.name.into()),
        ("table_type", if table.is_view { "VIEW" } else { "BASE TABLE" }.into()),
        ("is_insertable_into", if table.is_view { "NO" } else { "YES" }.into()),
        ("is_typed", "NO".into()),
    ]
}

fn information_columns<'a>(table: &'a Of<'_>) -> impl Iterator<Item = Row> + 'a {
    table.columns.iter().zip(1_i64..).map(|(column, number)| {
        let mut row: Row = vec![
            ("table_catalog", DATABASE.into()),
            ("table_schema", table.schema.into()),
            ("table_name", table.name.into()),
            ("column_name", column.name.as_str().into()),
            ("ordinal_position", int(number)),
            ("is_nullable", if column.nullable { "YES" } else { "NO" }.into()),
            ("data_type", column.of.sql.into()),
            ("udt_catalog", DATABASE.into()),
            ("udt_schema", "pg_catalog".into()),
            ("udt_name", column.of.name.into()),
            ("dtd_identifier", Value::Text(number.to_string())),
            ("is_self_referencing", "NO".into()),
            ("is_identity", "NO".into()),
            ("identity_cycle", "NO".into()),
            ("is_generated", "NEVER".into()),
            ("is_updatable", if table.is_view { "NO" } else { "YES" }.into()),
        ];
        let digits = match column.of.name {
            "int2" => Some((16, 2, Some(0))),
            "int4" => Some((32, 2, Some(0))),
            "int8" => Some((64, 2, Some(0))),
            "float4" => Some((24, 2, None)),
            "float8" => Some((53, 2, None)),
            "numeric" if column.of.modifier >= 4 => {
                let packed = column.of.modifier - 4;
                Some((packed >> 16, 10, Some(packed & 0x7ff)))
            }
            _ => None,
        };
        if let Some((precision, radix, scale)) = digits {
            row.extend([("numeric_precision", int(precision)), ("numeric_precision_radix", int(radix))]);
            row.extend(scale.map(|scale| ("numeric_scale", int(scale))));
        }
        match column.of.name {
            "timestamptz" => row.push(("datetime_precision", int(6))),
            "date" => row.push(("datetime_precision", int(0))),
            _ => {}
        }
        row
    })
}
