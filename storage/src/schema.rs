//! Schemas in the log, and how each type lies in Parquet.
//!
//! Delta has no unsigned types. A column of one is stored in the next wider type that holds all its values, and
//! the field's metadata say what it is, so other readers see the same numbers:
//!
//! | Basalt | Delta | Parquet | metadata |
//! |---|---|---|---|
//! | bool | boolean | BOOLEAN | |
//! | int8, int16, int32, int64 | byte, short, integer, long | INT32, INT64 | |
//! | uint8, uint16, uint32 | short, integer, long | INT32, INT64 | `basalt.type` |
//! | uint64 | decimal(20,0) | FIXED_LEN_BYTE_ARRAY | `basalt.type` |
//! | float32, float64 | float, double | FLOAT, DOUBLE | |
//! | decimal(p,s) | decimal(p,s) | INT32, INT64 | |
//! | date32 | date | DATE | |
//! | timestamp | timestamp | TIMESTAMP(UTC, microseconds) | |
//! | utf8 | string | STRING | |
//! | decimal(p,s) of 19 to 38 digits | decimal(p,s) | FIXED_LEN_BYTE_ARRAY | |
//! | binary | binary | BYTE_ARRAY | |
//! | time | long, microseconds since midnight | INT64 | `basalt.type` |
//!
//! An encoding that a column asks for stands in its metadata as `basalt.encoding`, what its values are keys of as
//! `basalt.references`, `table.column`, and what its encodings are chosen for, other than both size and speed, as
//! `basalt.optimize`. Of other writers' tables a
//! `timestamp_ntz` is read as a timestamp in UTC, and an array, a map or a struct as JSON text; a table that has such a
//! column is read only.

use std::{collections::BTreeSet, sync::Arc};

use arrow_schema as arrow;
use basalt_core::{
    error::{Error, ErrorKind},
    logical::Logical,
    schema::{DataType, Field, Optimize, Reference, Schema},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    data::Shape,
    error::{Result, StorageError},
};

const TYPE: &str = "basalt.type";
pub(crate) const ENCODING: &str = "basalt.encoding";
const REFERENCES: &str = "basalt.references";
pub(crate) const OPTIMIZE: &str = "basalt.optimize";
pub(crate) const PHYSICAL_NAME: &str = "delta.columnMapping.physicalName";
pub(crate) const COLUMN_ID: &str = "delta.columnMapping.id";
const INVARIANTS: &str = "delta.invariants";

#[derive(Serialize, Deserialize)]
pub(crate) struct StructType {
    r#type: String,
    pub(crate) fields: Vec<StructField>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct StructField {
    pub(crate) name: String,
    pub(crate) r#type: Value,
    pub(crate) nullable: bool,
    #[serde(default)]
    pub(crate) metadata: Map<String, Value>,
}

/// How a column is found in data files (`delta.columnMapping.mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// By its name.
    Name,
    /// By the physical name that the schema has for it.
    PhysicalName,
    /// By its id, which the files have as `field_id`; statistics and partition values have the physical name.
    Id,
}

/// A table's schema with what the log adds to it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableSchema {
    pub(crate) schema: Arc<Schema>,
    /// The names that the columns have in data files, statistics and partition values.
    pub(crate) physical: Vec<String>,
    /// The ids by which the columns are found in data files; `None`: by the names in `physical`.
    pub(crate) ids: Option<Vec<i32>>,
    /// The ids that columns which are mapped have in files that are written.
    pub(crate) field_ids: Option<Vec<i32>>,
    /// Whether a column has an invariant, which writers must check.
    pub(crate) has_invariants: bool,
    /// What the columns that are nested are made of.
    pub(crate) nested: Vec<Option<Arc<Shape>>>,
}

impl TableSchema {
    /// Reads `schemaString`.
    pub(crate) fn parse(schema: &str, mapping: Mapping) -> Result<Self> {
        let parsed: StructType = serde_json::from_str(schema)
            .map_err(|e| StorageError::corrupt("the log", format!("its schema is not valid: {e}")))?;
        if parsed.r#type != "struct" {
            return Err(StorageError::corrupt("the log", "its schema is no struct"));
        }
        let mut fields = Vec::new();
        let (mut physical, mut ids, mut numbered) = (Vec::new(), Vec::new(), Vec::new());
        let mut has_invariants = false;
        let mut nested = Vec::new();
        for field in parsed.fields {
            let Typed { data_type, logical, shape } = type_of(&field, mapping)?;
            nested.push(shape.map(Arc::new));
            has_invariants |= field.metadata.contains_key(INVARIANTS);
            let mapped = field.metadata.get(PHYSICAL_NAME).and_then(Value::as_str);
            physical.push(mapped.filter(|_| mapping != Mapping::Name).unwrap_or(&field.name).to_owned());
            if mapping != Mapping::Name {
                let id =
                    field.metadata.get(COLUMN_ID).and_then(Value::as_i64).and_then(|id| id.try_into().ok());
                if mapping == Mapping::PhysicalName {
                    numbered.extend(id);
                } else {
                    let why = || format!("its schema has no {COLUMN_ID} for column {:?}", field.name);
                    ids.push(id.ok_or_else(|| StorageError::corrupt("the log", why()))?);
                }
            }
            let encoding = field.metadata.get(ENCODING).and_then(Value::as_str).map(str::to_owned);
            let reference = |text: &str| -> Result<Reference> {
                let (table, column) = text.split_once('.').ok_or_else(|| {
                    StorageError::corrupt(
                        "the log",
                        format!("{REFERENCES} is {text:?}, not a column of a table"),
                    )
                })?;
                Ok(Reference { table: table.to_owned(), column: column.to_owned() })
            };
            let references = field.metadata.get(REFERENCES).and_then(Value::as_str);
            let references = references.map(reference).transpose()?;
            let optimize = optimize_of(&field)?;
            let (name, nullable) = (field.name, field.nullable);
            fields.push(Field { name, data_type, nullable, encoding, optimize, references, logical });
        }
        let schema = Schema::new(fields).map_err(|e| StorageError::Unsupported { feature: e.to_string() })?;
        let ids = (mapping == Mapping::Id).then_some(ids);
        // Files that have been written without them are read by their names.
        let field_ids = ids.clone().or_else(|| (numbered.len() == physical.len()).then_some(numbered));
        let field_ids = field_ids.filter(|_| mapping != Mapping::Name);
        Ok(Self { schema: Arc::new(schema), physical, ids, field_ids, has_invariants, nested })
    }
}

/// What the encodings of a column are chosen for.
pub(crate) fn optimize_of(field: &StructField) -> Result<Optimize> {
    let name = field.metadata.get(OPTIMIZE).and_then(Value::as_str);
    let optimize = name.map_or(Ok(Optimize::default()), Optimize::from_name);
    optimize
        .map_err(|e| StorageError::corrupt("the log", format!("{OPTIMIZE} of column {:?}: {e}", field.name)))
}

/// Says what the encodings of a column are chosen for. The default is not written down.
pub(crate) fn set_optimize(field: &mut StructField, optimize: Optimize) {
    if optimize == Optimize::default() {
        field.metadata.remove(OPTIMIZE);
    } else {
        field.metadata.insert(OPTIMIZE.into(), json!(optimize.name()));
    }
}

/// A column's type.
pub(crate) struct Typed {
    pub(crate) data_type: DataType,
    /// What the values are, where that is only their form.
    pub(crate) logical: Option<Logical>,
    /// What they are made of, where it is the text of them.
    pub(crate) shape: Option<Shape>,
}

/// The type of a column; of one that is nested the mapping says how its parts are found.
pub(crate) fn type_of(field: &StructField, mapping: Mapping) -> Result<Typed> {
    let unsupported = |shown: &str| {
        let feature = format!("columns of the type {shown} (column {:?})", field.name);
        Err(StorageError::Unsupported { feature })
    };
    let name = match &field.r#type {
        Value::String(name) => name.as_str(),
        nested @ Value::Object(_) => {
            return match Shape::of(nested, mapping) {
                Ok(shape) => Ok(Typed { data_type: DataType::Utf8, logical: None, shape: Some(shape) }),
                Err(part) => unsupported(&part),
            };
        }
        _ => return unsupported("that is no name"),
    };
    let own = field.metadata.get(TYPE).and_then(Value::as_str);
    let held =
        |logical: Logical| Ok(Typed { data_type: logical.form(), logical: Some(logical), shape: None });
    let plain = |data_type| Ok(Typed { data_type, logical: None, shape: None });
    let stored = match name {
        "boolean" => DataType::Bool,
        "byte" => DataType::Int8,
        "short" => DataType::Int16,
        "integer" => DataType::Int32,
        "long" => DataType::Int64,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        "date" => DataType::Date32,
        "timestamp" | "timestamp_ntz" => DataType::Timestamp,
        "string" => DataType::Utf8,
        "decimal" => DataType::Decimal { precision: 10, scale: 0 },
        "binary" => return held(Logical::Binary),
        "decimal(20,0)" if own == Some("uint64") => return plain(DataType::UInt64),
        other => match parse_decimal(other) {
            Some((precision @ 1..=18, scale)) if scale <= precision => DataType::Decimal { precision, scale },
            Some((precision @ 19..=38, scale)) if scale <= precision => {
                return held(Logical::Decimal { precision, scale });
            }
            _ => return unsupported(other),
        },
    };
    plain(match (own, stored) {
        (Some("time"), DataType::Int64) => return held(Logical::Time),
        (Some("uint8"), DataType::Int16) => DataType::UInt8,
        (Some("uint16"), DataType::Int32) => DataType::UInt16,
        (Some("uint32"), DataType::Int64) => DataType::UInt32,
        _ => stored,
    })
}

/// `decimal(p,s)`.
fn parse_decimal(name: &str) -> Option<(u8, u8)> {
    let (precision, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    Some((precision.trim().parse().ok()?, scale.trim().parse().ok()?))
}

/// `schemaString` of a new table.
///
/// # Errors
/// [`ErrorKind::InvalidSchema`] when two names differ in case alone: other readers of Delta could not tell them
/// apart.
pub(crate) fn to_delta(schema: &Schema) -> Result<String> {
    let mut seen = BTreeSet::new();
    let mut fields = Vec::new();
    for (i, field) in schema.fields().iter().enumerate() {
        if !seen.insert(field.name.to_lowercase()) {
            let message = format!("{:?} differs from another column's name in case alone", field.name);
            let error = Error::new(ErrorKind::InvalidSchema, message).at("name").at(format!("fields[{i}]"));
            return Err(error.into());
        }
        fields.push(struct_field(field));
    }
    let schema = StructType { r#type: "struct".into(), fields };
    serde_json::to_string(&schema).map_err(|e| StorageError::corrupt("the schema", e))
}

/// A column as `schemaString` has it.
pub(crate) fn struct_field(field: &Field) -> StructField {
    let stored: String = match field.data_type {
        _ if let Some(Logical::Decimal { precision, scale }) = field.logical => {
            format!("decimal({precision},{scale})")
        }
        _ if field.logical == Some(Logical::Binary) => "binary".into(),
        DataType::Bool => "boolean".into(),
        DataType::Int8 => "byte".into(),
        DataType::Int16 | DataType::UInt8 => "short".into(),
        DataType::Int32 | DataType::UInt16 => "integer".into(),
        DataType::Int64 | DataType::UInt32 => "long".into(),
        DataType::UInt64 => "decimal(20,0)".into(),
        DataType::Float32 => "float".into(),
        DataType::Float64 => "double".into(),
        DataType::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        DataType::Date32 => "date".into(),
        DataType::Timestamp => "timestamp".into(),
        DataType::Utf8 => "string".into(),
    };
    let mut metadata = Map::new();
    if field.data_type.is_unsigned() || field.logical == Some(Logical::Time) {
        metadata.insert(TYPE.into(), json!(field.type_name()));
    }
    if let Some(encoding) = &field.encoding {
        metadata.insert(ENCODING.into(), json!(encoding));
    }
    if let Some(reference) = &field.references {
        metadata.insert(REFERENCES.into(), json!(reference.to_string()));
    }
    let (name, nullable) = (field.name.clone(), field.nullable);
    let mut stored = StructField { name, r#type: Value::String(stored), nullable, metadata };
    set_optimize(&mut stored, field.optimize);
    stored
}

/// The Arrow type in which a column is written to Parquet.
pub(crate) fn stored_type(field: &Field) -> arrow::DataType {
    match field.data_type {
        _ if let Some(logical @ (Logical::Decimal { .. } | Logical::Binary)) = field.logical => {
            logical.to_arrow()
        }
        DataType::UInt8 => arrow::DataType::Int16,
        DataType::UInt16 => arrow::DataType::Int32,
        DataType::UInt32 => arrow::DataType::Int64,
        DataType::UInt64 => arrow::DataType::Decimal128(20, 0),
        other => other.to_arrow(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(fields: Vec<Field>) -> Schema {
        let schema = Schema::new(fields).unwrap();
        let parsed = TableSchema::parse(&to_delta(&schema).unwrap(), Mapping::Name).unwrap();
        assert_eq!(*parsed.schema, schema);
        schema
    }

    #[test]
    fn every_type_comes_back() {
        let types = [
            DataType::Bool,
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::UInt8,
            DataType::UInt16,
            DataType::UInt32,
            DataType::UInt64,
            DataType::Float32,
            DataType::Float64,
            DataType::Decimal { precision: 18, scale: 2 },
            DataType::Decimal { precision: 1, scale: 1 },
            DataType::Date32,
            DataType::Timestamp,
            DataType::Utf8,
        ];
        let field = |(i, t): (usize, &DataType)| Field::new(format!("c{i}"), *t, i % 2 == 0);
        let mut fields: Vec<_> = types.iter().enumerate().map(field).collect();
        fields[4].encoding = Some("plain".into());
        fields[0].optimize = Optimize::Size;
        fields[3].optimize = Optimize::Speed;
        fields[5].references = Some(Reference { table: "t".into(), column: "k".into() });
        for logical in [Logical::Decimal { precision: 38, scale: 10 }, Logical::Binary, Logical::Time] {
            let field = Field::new(format!("a {logical}"), logical.form(), true);
            fields.push(Field { logical: Some(logical), ..field });
        }
        round_trip(fields);
    }

    #[test]
    fn names_that_differ_in_case_are_refused() {
        let fields = vec![Field::new("a", DataType::Bool, false), Field::new("A", DataType::Bool, false)];
        let error = to_delta(&Schema::new(fields).unwrap()).unwrap_err();
        assert!(error.to_string().contains("fields[1].name"), "{error}");
    }

    #[test]
    fn what_columns_are_optimized_for_is_in_the_schema_or_balanced() {
        let schema = |metadata: Value| {
            let field = json!({"name": "c", "type": "long", "nullable": true, "metadata": metadata});
            json!({"type": "struct", "fields": [field]}).to_string()
        };
        let parsed = |metadata| TableSchema::parse(&schema(metadata), Mapping::Name);
        assert_eq!(parsed(json!({})).unwrap().schema.fields()[0].optimize, Optimize::Balanced);
        let speed = parsed(json!({"basalt.optimize": "speed"})).unwrap();
        assert_eq!(speed.schema.fields()[0].optimize, Optimize::Speed);
        let error = parsed(json!({"basalt.optimize": "luck"})).unwrap_err().to_string();
        assert!(error.contains("\"luck\"") && error.contains("\"c\""), "{error}");
        let balanced = Schema::new(vec![Field::new("c", DataType::Int64, true)]).unwrap();
        assert!(!to_delta(&balanced).unwrap().contains("optimize"), "the default needs no metadata");
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (r#type, named) in [
            (json!("variant"), "variant"),
            (json!("decimal(39,10)"), "decimal(39,10)"),
            (json!("decimal(5,6)"), "decimal(5,6)"),
            (json!({"type": "array", "elementType": "void", "containsNull": true}), "void"),
            (json!(7), "no name"),
        ] {
            let field = json!({"name": "c", "type": r#type, "nullable": true, "metadata": {}});
            let schema = json!({"type": "struct", "fields": [field]}).to_string();
            let error = TableSchema::parse(&schema, Mapping::Name).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains("\"c\""), "{error}");
        }
        assert!(TableSchema::parse("{", Mapping::Name).is_err());
    }
}
