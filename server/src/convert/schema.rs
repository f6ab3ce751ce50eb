//! Types, schemas and what a list tells of a table.

use basalt_core::{
    error::{Error, ErrorKind, Result},
    logical::Logical,
    schema::{DataType, Field, Optimize, Reference, Schema},
    table::Table,
};
use basalt_proto::v1::{self as pb, TypeKind};
use basalt_storage::FragmentEntry;

use crate::tables::Tables;

/// The schema of a new table; `of_table` is for the columns that do not say themselves what they are optimized for.
pub(crate) fn from_schema(schema: pb::Schema, of_table: Option<Optimize>) -> Result<Schema> {
    let mut fields = Vec::with_capacity(schema.fields.len().min(basalt_core::limits::MAX_COLUMNS));
    for (i, field) in schema.fields.into_iter().enumerate() {
        let (data_type, logical) =
            from_column_type(field.r#type).map_err(|e| e.at(format!("fields[{i}].type")))?;
        let encoding = (!field.encoding.is_empty()).then_some(field.encoding);
        let references = field.references.map(|r| Reference { table: r.table, column: r.column });
        let optimize = from_optimize(field.optimize).map_err(|e| e.at(format!("fields[{i}].optimize")))?;
        // Default: neither the column nor the table says it.
        let optimize = optimize.or(of_table).unwrap_or_default();
        let (name, nullable) = (field.name, field.nullable);
        fields.push(Field { name, data_type, nullable, encoding, optimize, references, logical });
    }
    Schema::new(fields)
}

/// What encodings are chosen for; `None`: it is not said.
pub(crate) fn from_optimize(optimize: i32) -> Result<Option<Optimize>> {
    let wrong = || Error::new(ErrorKind::InvalidSchema, "not known here; it is size, balanced or speed");
    Ok(match pb::Optimize::try_from(optimize).map_err(|_| wrong())? {
        pb::Optimize::Unspecified => None,
        pb::Optimize::Size => Some(Optimize::Size),
        pb::Optimize::Balanced => Some(Optimize::Balanced),
        pb::Optimize::Speed => Some(Optimize::Speed),
    })
}

/// The default is not said.
fn to_optimize(optimize: Optimize) -> pb::Optimize {
    match optimize {
        Optimize::Size => pb::Optimize::Size,
        Optimize::Balanced => pb::Optimize::Unspecified,
        Optimize::Speed => pb::Optimize::Speed,
    }
}

/// The type of a column, and what its values are where that is only their form.
fn from_column_type(data_type: Option<pb::DataType>) -> Result<(DataType, Option<Logical>)> {
    let logical = match data_type.as_ref().map(pb::DataType::kind) {
        Some(TypeKind::Binary) => Logical::Binary,
        Some(TypeKind::Time) => Logical::Time,
        // Of decimals the schema tells by their digits.
        _ => return from_type(data_type, ErrorKind::InvalidSchema).map(|data_type| (data_type, None)),
    };
    Ok((logical.form(), Some(logical)))
}

/// A type; what is wrong with it is an error of `kind`.
pub(super) fn from_type(data_type: Option<pb::DataType>, kind: ErrorKind) -> Result<DataType> {
    let wrong = |message: &str| Error::new(kind, message);
    let data_type = data_type.ok_or_else(|| wrong("the type is missing"))?;
    let kind =
        TypeKind::try_from(data_type.kind).map_err(|_| wrong("a type that is not known here").at("kind"))?;
    let small = |n: u32| u8::try_from(n).map_err(|_| wrong("a decimal has at most 38 digits"));
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
        TypeKind::Binary | TypeKind::Time => return Err(wrong("a type that only columns have").at("kind")),
    })
}

pub(crate) fn to_schema(schema: &Schema) -> pb::Schema {
    pb::Schema { fields: schema.fields().iter().map(to_field).collect() }
}

pub(super) fn to_field(field: &Field) -> pb::Field {
    pb::Field {
        name: field.name.clone(),
        r#type: Some(match field.logical {
            Some(Logical::Decimal { precision, scale }) => to_type(DataType::Decimal { precision, scale }),
            Some(Logical::Binary) => to_kind(TypeKind::Binary),
            Some(Logical::Time) => to_kind(TypeKind::Time),
            None => to_type(field.data_type),
        }),
        nullable: field.nullable,
        encoding: field.encoding.clone().unwrap_or_default(),
        references: field
            .references
            .as_ref()
            .map(|r| pb::Reference { table: r.table.clone(), column: r.column.clone() }),
        optimize: to_optimize(field.optimize).into(),
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
    to_kind(kind)
}

fn to_kind(kind: TypeKind) -> pb::DataType {
    pb::DataType { kind: kind.into(), precision: 0, scale: 0 }
}

/// What a list tells of a table.
fn table(table: &Table) -> pb::Table {
    let snapshot = table.snapshot();
    pb::Table {
        name: table.name().to_owned(),
        schema: Some(to_schema(table.schema())),
        version: snapshot.version(),
        rows: snapshot.rows(),
        fragments: snapshot.fragments().len() as u64,
        bytes: snapshot.bytes() as u64,
        retention: snapshot.retention().map(|retention| super::to_retention(retention)),
        deletes: pb::Deletes::Unspecified.into(),
    }
}

/// A table as the whole cluster has it; the bytes are those of one copy of all fragments.
pub(crate) fn told(tables: &Tables, table: &Table) -> pb::Table {
    let deletes = super::to_deletes(tables.deletes(table)).into();
    let held = pb::Table { deletes, ..self::table(table) };
    let Some(whole) = tables.state(table) else { return held };
    let encoded = whole.fragments().iter().map(FragmentEntry::encoded_bytes).sum();
    pb::Table {
        version: whole.version(),
        rows: whole.rows(),
        fragments: whole.fragments().len() as u64,
        // Of another writer's files it is not known before they are read.
        bytes: Option::unwrap_or_else(encoded, || tables.held(table).bytes),
        ..held
    }
}
