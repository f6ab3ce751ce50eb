//! What there is: tables with their columns, and what this server can do.

use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use arrow_flight::sql::{
    Command, CommandGetTables, Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity,
    SqlSupportedTransaction, XdbcDataType,
    metadata::{SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder},
};
use arrow_schema::{DataType as Arrow, Field, Schema};
use basalt_core::{invariant::Invariant as _, schema::DataType, table::Table};
use basalt_proto::v1::ErrorReason;

use super::{Flight, command, unwritten};
use crate::{
    access::{Action, Object},
    call::Call,
    coordinator::fresh,
    limits,
    memory::{Consumer, schema_bytes},
    status::{RequestError, Result},
};

/// The one catalog and the one schema, as statements may name them.
pub(super) const CATALOG: &str = "basalt";
pub(super) const SCHEMA: &str = "main";
const TABLE: &str = "TABLE";

impl Flight {
    /// The list that a command asks for; with `columns_alone` it may be empty.
    pub(super) async fn list(
        &self,
        call: &mut Call,
        command: Command,
        columns_alone: bool,
    ) -> Result<RecordBatch> {
        match command {
            Command::CommandGetCatalogs(command) => {
                let mut builder = command.into_builder();
                builder.append(CATALOG);
                builder.build().map_err(unwritten)
            }
            Command::CommandGetDbSchemas(command) => {
                check_pattern(command.db_schema_filter_pattern.as_deref())?;
                let mut builder = command.into_builder();
                builder.append(CATALOG, SCHEMA);
                builder.build().map_err(unwritten)
            }
            Command::CommandGetTableTypes(command) => {
                let mut builder = command.into_builder();
                builder.append(TABLE);
                builder.build().map_err(unwritten)
            }
            Command::CommandGetTables(command) => self.tables(call, command, columns_alone).await,
            Command::CommandGetSqlInfo(command) => {
                if command.info.len() > limits::SQL_INFOS {
                    let message =
                        format!("{} numbers; the limit is {}", command.info.len(), limits::SQL_INFOS);
                    return Err(RequestError::new(ErrorReason::InvalidQuery, message).at("info"));
                }
                SQL_INFO.record_batch(command.info).map_err(unwritten)
            }
            Command::CommandGetXdbcTypeInfo(command) => {
                TYPES.record_batch(command.data_type).map_err(unwritten)
            }
            // There are none: a reference is a promise about values, no constraint.
            Command::CommandGetPrimaryKeys(_) => Ok(RecordBatch::new_empty(primary_keys())),
            Command::CommandGetExportedKeys(_)
            | Command::CommandGetImportedKeys(_)
            | Command::CommandGetCrossReference(_) => Ok(RecordBatch::new_empty(foreign_keys())),
            other => Err(command::unknown(&other)),
        }
    }

    async fn tables(
        &self,
        call: &Call,
        mut command: CommandGetTables,
        columns_alone: bool,
    ) -> Result<RecordBatch> {
        call.may(Action::Read, Object::Catalog)?;
        check_pattern(command.db_schema_filter_pattern.as_deref())?;
        check_pattern(command.table_name_filter_pattern.as_deref())?;
        let mut tables = Vec::new();
        // Tables are all of one type, whichever others are asked for.
        let types = std::mem::take(&mut command.table_types);
        if !columns_alone && (types.is_empty() || types.iter().any(|wanted| wanted == TABLE)) {
            (tables, _) = fresh::listed(&self.state, call.caller()).await?;
        }
        let mut held = self.state.memory.reserve(Consumer::Answers);
        if command.include_schema {
            held.set(tables.iter().map(|table| schema_bytes(table.schema())).sum())?;
        }
        let mut builder = command.into_builder();
        for table in &tables {
            let appended = builder.append(CATALOG, SCHEMA, table.name(), TABLE, &columns(table));
            appended.map_err(unwritten)?;
        }
        builder.build().map_err(unwritten)
    }
}

/// A table's columns, with what its schema says of nulls.
fn columns(table: &Table) -> Schema {
    let fields = table.schema().fields().iter();
    let field =
        |field: &basalt_core::schema::Field| Field::new(&field.name, field.to_arrow_type(), field.nullable);
    Schema::new(fields.map(field).collect::<Vec<_>>())
}

fn check_pattern(pattern: Option<&str>) -> Result<()> {
    match pattern {
        Some(pattern) if pattern.len() > limits::PATTERN_BYTES => {
            let message =
                format!("a pattern of {} bytes; the limit is {}", pattern.len(), limits::PATTERN_BYTES);
            Err(RequestError::new(ErrorReason::InvalidQuery, message))
        }
        _ => Ok(()),
    }
}

fn primary_keys() -> Arc<Schema> {
    let text = |name: &str, nullable| Field::new(name, Arrow::Utf8, nullable);
    Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        Field::new("key_sequence", Arrow::Int32, false),
        text("key_name", true),
    ]))
}

fn foreign_keys() -> Arc<Schema> {
    let text = |name: &str, nullable| Field::new(name, Arrow::Utf8, nullable);
    Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", Arrow::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        Field::new("update_rule", Arrow::UInt8, false),
        Field::new("delete_rule", Arrow::UInt8, false),
    ]))
}

static SQL_INFO: LazyLock<SqlInfoData> = LazyLock::new(|| {
    let mut infos = SqlInfoDataBuilder::new();
    infos.append(SqlInfo::FlightSqlServerName, "Basalt");
    infos.append(SqlInfo::FlightSqlServerVersion, crate::VERSION);
    infos.append(SqlInfo::FlightSqlServerArrowVersion, "1.5");
    infos.append(SqlInfo::FlightSqlServerReadOnly, false);
    infos.append(SqlInfo::FlightSqlServerSql, true);
    infos.append(SqlInfo::FlightSqlServerSubstrait, false);
    infos.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    infos.append(SqlInfo::FlightSqlServerCancel, false);
    infos.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    infos.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, false);
    infos.append(SqlInfo::FlightSqlServerStatementTimeout, 0_i32);
    infos.append(SqlInfo::FlightSqlServerTransactionTimeout, 0_i32);
    infos.append(SqlInfo::SqlDdlCatalog, false);
    infos.append(SqlInfo::SqlDdlSchema, false);
    infos.append(SqlInfo::SqlDdlTable, true);
    let (unquoted, quoted) = (
        SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive,
        SqlSupportedCaseSensitivity::SqlCaseSensitivityUnknown,
    );
    infos.append(SqlInfo::SqlIdentifierCase, unquoted as i32);
    infos.append(SqlInfo::SqlQuotedIdentifierCase, quoted as i32);
    infos.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    infos.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32);
    infos.append(SqlInfo::SqlMaxStatementLength, basalt_sql::limits::STATEMENT_BYTES as i64);
    infos.append(SqlInfo::SqlMaxColumnsInTable, basalt_core::limits::MAX_COLUMNS as i64);
    infos.append(SqlInfo::SqlMaxTableNameLength, basalt_core::limits::MAX_NAME_BYTES as i64);
    infos.append(SqlInfo::SqlMaxColumnNameLength, basalt_core::limits::MAX_NAME_BYTES as i64);
    infos.append(SqlInfo::SqlTransactionsSupported, 0_i32);
    infos.build().invariant("all of its values are of its types")
});

static TYPES: LazyLock<XdbcTypeInfoData> = LazyLock::new(|| {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for data_type in DataType::KINDS {
        let (name, code, size, scale) = described(data_type);
        let quote = matches!(data_type, DataType::Utf8 | DataType::Date32 | DataType::Timestamp);
        let quote = quote.then(|| "'".to_owned());
        let decimal = matches!(data_type, DataType::Decimal { .. });
        types.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type: code,
            column_size: Some(size),
            literal_prefix: quote.clone(),
            literal_suffix: quote,
            create_params: decimal.then(|| vec!["precision".to_owned(), "scale".to_owned()]),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: data_type == DataType::Utf8,
            searchable: Searchable::Full,
            unsigned_attribute: data_type.is_numeric().then(|| data_type.is_unsigned()),
            fixed_prec_scale: decimal,
            auto_increment: Some(false),
            local_type_name: Some(name.to_owned()),
            minimum_scale: scale.map(|_| 0),
            maximum_scale: scale,
            sql_data_type: code,
            datetime_subcode: None,
            num_prec_radix: data_type.is_numeric().then_some(if data_type.is_float() { 2 } else { 10 }),
            interval_precision: None,
        });
    }
    types.build().invariant("all of its values are of its types")
});

/// The name of a type in statements, its code, its digits, and the most of them behind the point.
fn described(data_type: DataType) -> (&'static str, XdbcDataType, i32, Option<i32>) {
    match data_type {
        DataType::Bool => ("boolean", XdbcDataType::XdbcBit, 1, None),
        DataType::Int8 => ("tinyint", XdbcDataType::XdbcTinyint, 3, None),
        DataType::Int16 => ("smallint", XdbcDataType::XdbcSmallint, 5, None),
        DataType::Int32 => ("integer", XdbcDataType::XdbcInteger, 10, None),
        DataType::Int64 => ("bigint", XdbcDataType::XdbcBigint, 19, None),
        DataType::UInt8 => ("tinyint unsigned", XdbcDataType::XdbcTinyint, 3, None),
        DataType::UInt16 => ("smallint unsigned", XdbcDataType::XdbcSmallint, 5, None),
        DataType::UInt32 => ("integer unsigned", XdbcDataType::XdbcInteger, 10, None),
        DataType::UInt64 => ("bigint unsigned", XdbcDataType::XdbcBigint, 20, None),
        DataType::Float32 => ("real", XdbcDataType::XdbcReal, 24, None),
        DataType::Float64 => ("double", XdbcDataType::XdbcDouble, 53, None),
        DataType::Decimal { .. } => ("decimal", XdbcDataType::XdbcDecimal, 18, Some(18)),
        DataType::Date32 => ("date", XdbcDataType::XdbcDate, 10, None),
        DataType::Timestamp => ("timestamp", XdbcDataType::XdbcTimestamp, 26, Some(6)),
        DataType::Utf8 => ("text", XdbcDataType::XdbcVarchar, 1 << 20, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_tells_of_itself_can_be_made() {
        assert!(SQL_INFO.record_batch([]).unwrap().num_rows() > 15);
        assert_eq!(SQL_INFO.record_batch([0, 1, 999_999]).unwrap().num_rows(), 2);
        assert_eq!(TYPES.record_batch(None).unwrap().num_rows(), DataType::KINDS.len());
    }
}
