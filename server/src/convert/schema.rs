//! Types, schemas and what is told of a table.

use basalt_core::{
    describe::{self, ColumnSummary},
    error::{Error, ErrorKind, Result},
    exec::Control,
    schema::{DataType, Field, Reference, Schema},
    table::Table,
    value::Value,
};
use basalt_proto::v1::{self as pb, TypeKind, value};

/// The schema of a new table.
pub(crate) fn from_schema(schema: pb::Schema) -> Result<Schema> {
    let mut fields = Vec::with_capacity(schema.fields.len().min(basalt_core::limits::MAX_COLUMNS));
    for (i, field) in schema.fields.into_iter().enumerate() {
        let data_type = from_type(field.r#type, ErrorKind::InvalidSchema)
            .map_err(|e| e.at(format!("fields[{i}].type")))?;
        let encoding = (!field.encoding.is_empty()).then_some(field.encoding);
        let references = field.references.map(|r| Reference { table: r.table, column: r.column });
        fields.push(Field { name: field.name, data_type, nullable: field.nullable, encoding, references });
    }
    Schema::new(fields)
}

/// A type; what is wrong with it is an error of `kind`.
pub(super) fn from_type(data_type: Option<pb::DataType>, kind: ErrorKind) -> Result<DataType> {
    let wrong = |message: &str| Error::new(kind, message);
    let data_type = data_type.ok_or_else(|| wrong("the type is missing"))?;
    let kind =
        TypeKind::try_from(data_type.kind).map_err(|_| wrong("a type that is not known here").at("kind"))?;
    let small = |n: u32| u8::try_from(n).map_err(|_| wrong("a decimal has at most 18 digits"));
    Ok(match kind {
        TypeKind::Unspecified => return Err(wrong("a type without a kind").at("kind")),
        TypeKind::Bool => DataType::Bool,
        TypeKind::Int8 => DataType::Int8,
        TypeKind::Int16 => DataType::Int16,
        TypeKind::Int32 => DataType::Int32,
        TypeKind::Int64 => DataType::Int64,
        TypeKind::Uint8 => DataType::UInt8,
        TypeKind::Uint16 => DataType::UInt16,
        TypeKind::Uint32 => DataType::UInt32,
        TypeKind::Uint64 => DataType::UInt64,
        TypeKind::Float32 => DataType::Float32,
        TypeKind::Float64 => DataType::Float64,
        TypeKind::Decimal => {
            DataType::Decimal { precision: small(data_type.precision)?, scale: small(data_type.scale)? }
        }
        TypeKind::Date32 => DataType::Date32,
        TypeKind::Timestamp => DataType::Timestamp,
        TypeKind::Utf8 => DataType::Utf8,
    })
}

pub(crate) fn to_schema(schema: &Schema) -> pb::Schema {
    pb::Schema { fields: schema.fields().iter().map(to_field).collect() }
}

fn to_field(field: &Field) -> pb::Field {
    pb::Field {
        name: field.name.clone(),
        r#type: Some(to_type(field.data_type)),
        nullable: field.nullable,
        encoding: field.encoding.clone().unwrap_or_default(),
        references: field
            .references
            .as_ref()
            .map(|r| pb::Reference { table: r.table.clone(), column: r.column.clone() }),
    }
}

pub(super) fn to_type(data_type: DataType) -> pb::DataType {
    let kind = match data_type {
        DataType::Bool => TypeKind::Bool,
        DataType::Int8 => TypeKind::Int8,
        DataType::Int16 => TypeKind::Int16,
        DataType::Int32 => TypeKind::Int32,
        DataType::Int64 => TypeKind::Int64,
        DataType::UInt8 => TypeKind::Uint8,
        DataType::UInt16 => TypeKind::Uint16,
        DataType::UInt32 => TypeKind::Uint32,
        DataType::UInt64 => TypeKind::Uint64,
        DataType::Float32 => TypeKind::Float32,
        DataType::Float64 => TypeKind::Float64,
        DataType::Decimal { precision, scale } => {
            let (precision, scale) = (u32::from(precision), u32::from(scale));
            return pb::DataType { kind: TypeKind::Decimal.into(), precision, scale };
        }
        DataType::Date32 => TypeKind::Date32,
        DataType::Timestamp => TypeKind::Timestamp,
        DataType::Utf8 => TypeKind::Utf8,
    };
    pb::DataType { kind: kind.into(), precision: 0, scale: 0 }
}

/// What a list tells of a table.
pub(crate) fn table(table: &Table) -> pb::Table {
    let snapshot = table.snapshot();
    pb::Table {
        name: table.name().to_owned(),
        schema: Some(to_schema(table.schema())),
        version: snapshot.version(),
        rows: snapshot.rows(),
        fragments: snapshot.fragments().len() as u64,
        bytes: snapshot.bytes() as u64,
        retention: snapshot.retention().map(|retention| super::to_retention(retention)),
    }
}

/// Texts longer than this are left out of a column's range: the answer must fit a message.
const RANGE_TEXT_BYTES: usize = 256;

/// What is told of a table's columns; with `full` all of them are read.
pub(crate) fn table_columns(table: &Table, full: bool, control: &Control) -> Result<Vec<pb::ColumnInfo>> {
    let snapshot = table.snapshot();
    let mut columns = Vec::with_capacity(table.schema().fields().len());
    for (index, field) in table.schema().fields().iter().enumerate() {
        control.check()?;
        let summary = ColumnSummary::new(&snapshot, table.schema(), index);
        let entropy_bits = if full { Some(describe::entropy(&snapshot, index, control)?) } else { None };
        let bids = if full { describe::bids(&snapshot, index, control)? } else { Vec::new() };
        let bids = bids.into_iter().map(|bid| pb::EncodingBid {
            encoding: bid.encoding.to_owned(),
            fragments: bid.fragments,
            bytes: bid.bytes,
            exact: bid.exact,
        });
        let encodings = summary.encodings.into_iter().map(|used| pb::EncodingUse {
            encoding: used.encoding,
            fragments: used.fragments,
            rows: used.rows,
            bytes: used.bytes,
        });
        let (min, max) = summary.range.unzip();
        columns.push(pb::ColumnInfo {
            field: Some(to_field(field)),
            rows: summary.rows,
            nulls: summary.nulls,
            bytes: summary.bytes,
            plain_bytes: summary.plain_bytes,
            encodings: encodings.collect(),
            entropy_bits,
            min: min.and_then(to_value),
            max: max.and_then(to_value),
            bids: bids.collect(),
        });
    }
    Ok(columns)
}

fn to_value(value: Value) -> Option<pb::Value> {
    let kind = match value {
        Value::Null => value::Kind::Null(true),
        Value::Bool(value) => value::Kind::Bool(value),
        Value::Int(value) => match i64::try_from(value) {
            Ok(value) => value::Kind::Int(value),
            Err(_) => value::Kind::Uint(u64::try_from(value).ok()?),
        },
        Value::Decimal { unscaled, scale } => {
            value::Kind::Decimal(pb::Decimal { unscaled: i64::try_from(unscaled).ok()?, scale: scale.into() })
        }
        Value::Float(value) => value::Kind::Double(value),
        Value::Date(value) => value::Kind::Date(value),
        Value::Timestamp(value) => value::Kind::Timestamp(value),
        Value::Text(value) if value.len() > RANGE_TEXT_BYTES => return None,
        Value::Text(value) => value::Kind::Text(value.as_ref().to_owned()),
    };
    Some(pb::Value { kind: Some(kind) })
}
