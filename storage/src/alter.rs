//! Other columns for a table, as Delta's schema evolution has them: the files stay as they are. A column that is added is
//! null in them; one that is renamed or dropped keeps its name there (column mapping by name, which a table has from the
//! first such change on); one whose type is widened is converted where it is read.

use basalt_core::{
    error::{Error, ErrorKind},
    invariant::Invariant as _,
    logical::{NARROW_DIGITS, type_name},
    schema::{DataType, Field, Optimize},
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    error::{Result, StorageError},
    log::{Metadata, Protocol, features},
    schema::{
        COLUMN_ID, Mapping, PHYSICAL_NAME, StructField, StructType, TableSchema, Typed, optimize_of,
        set_optimize, struct_field, type_of,
    },
};

const MODE: &str = "delta.columnMapping.mode";
const MAX_COLUMN_ID: &str = "delta.columnMapping.maxColumnId";
const ENABLE_WIDENING: &str = "delta.enableTypeWidening";
const TYPE_CHANGES: &str = "delta.typeChanges";
const RETENTION_COLUMN: &str = "basalt.retention.column";

/// A change of a table's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alteration {
    /// A column more, behind the others; it may be null.
    Add(Field),
    /// A column less.
    Drop(String),
    /// Another name for a column.
    Rename(String, String),
    /// Whether a column may be null. Whoever forbids it has found no null.
    SetNullable(String, bool),
    /// A wider type for a column.
    Widen(String, DataType),
    /// What the encodings of a column (`None`: of all) are chosen for from now on.
    Optimize(Option<String>, Optimize),
}

/// The metadata that a table has behind some changes, and its protocol where that is another.
pub(crate) fn altered(
    protocol: &Protocol,
    metadata: &Metadata,
    alterations: &[Alteration],
    mut new_id: impl FnMut() -> Uuid,
) -> Result<(Option<Protocol>, Metadata)> {
    let mut metadata = metadata.clone();
    let text = metadata.schema_string.as_deref().invariant("metadata that is in force has a schemaString");
    let mut schema: StructType = serde_json::from_str(text)
        .map_err(|e| StorageError::corrupt("the log", format!("its schema is not valid: {e}")))?;
    let mut needed = Vec::new();
    let renames = alterations.iter().any(|a| matches!(a, Alteration::Drop(_) | Alteration::Rename(..)));
    let mut is_mapped = matches!(metadata.property(MODE), Some("name" | "id"));
    if renames && !is_mapped {
        map(&mut schema, &mut metadata);
        needed.push(features::COLUMN_MAPPING);
        is_mapped = true;
    }
    for alteration in alterations {
        match alteration {
            Alteration::Add(field) => {
                check_free(&schema, &field.name)?;
                if !field.nullable {
                    let message = format!(
                        "column {:?} is added without values: it may be null (SET NOT NULL when it has them)",
                        field.name
                    );
                    return Err(Error::new(ErrorKind::InvalidSchema, message).into());
                }
                let mut new = struct_field(field);
                if field.optimize == Optimize::default() {
                    set_optimize(&mut new, of_all(&schema)?);
                }
                if is_mapped {
                    let id = next_id(&mut metadata)?;
                    new.metadata.insert(COLUMN_ID.into(), json!(id));
                    new.metadata.insert(PHYSICAL_NAME.into(), json!(format!("col-{}", new_id())));
                }
                schema.fields.push(new);
            }
            Alteration::Drop(name) => {
                check_not_kept_by(&metadata, name)?;
                let place = place(&schema, name)?;
                schema.fields.remove(place);
            }
            Alteration::Rename(from, to) => {
                let place = place(&schema, from)?;
                if from.to_lowercase() != to.to_lowercase() {
                    check_free(&schema, to)?;
                }
                schema.fields[place].name.clone_from(to);
                if metadata.property(RETENTION_COLUMN) == Some(from.as_str()) {
                    metadata.configuration.insert(RETENTION_COLUMN.into(), Some(to.clone()));
                }
            }
            Alteration::SetNullable(name, nullable) => {
                let place = place(&schema, name)?;
                schema.fields[place].nullable = *nullable;
            }
            Alteration::Widen(name, data_type) => {
                let place = place(&schema, name)?;
                if widen(&mut schema.fields[place], *data_type)? {
                    metadata.configuration.insert(ENABLE_WIDENING.into(), Some("true".into()));
                    needed.push(features::TYPE_WIDENING);
                }
            }
            Alteration::Optimize(name, optimize) => {
                let fields = match name {
                    Some(name) => {
                        let place = place(&schema, name)?;
                        &mut schema.fields[place..=place]
                    }
                    None => &mut schema.fields[..],
                };
                fields.iter_mut().for_each(|field| set_optimize(field, *optimize));
            }
        }
    }
    let text = serde_json::to_string(&schema).map_err(|e| StorageError::corrupt("the schema", e))?;
    // That what is written can be read.
    let mapping = if is_mapped { Mapping::PhysicalName } else { Mapping::Name };
    match TableSchema::parse(&text, mapping) {
        Err(StorageError::Unsupported { feature }) => {
            return Err(Error::new(ErrorKind::InvalidSchema, feature).into());
        }
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    metadata.schema_string = Some(text);
    Ok((features::with(protocol, &needed), metadata))
}

/// Has all columns found by the names that they have now, whatever they are named later.
fn map(schema: &mut StructType, metadata: &mut Metadata) {
    let mut last = 0;
    for (id, field) in (1..).zip(&mut schema.fields) {
        field.metadata.insert(COLUMN_ID.into(), json!(id));
        field.metadata.insert(PHYSICAL_NAME.into(), json!(field.name));
        last = id;
    }
    metadata.configuration.insert(MODE.into(), Some("name".into()));
    metadata.configuration.insert(MAX_COLUMN_ID.into(), Some(last.to_string()));
}

/// What all columns are optimized for where that is the same, as it is of those that the table has named: then another
/// one is, too.
fn of_all(schema: &StructType) -> Result<Optimize> {
    let all: Vec<Optimize> = schema.fields.iter().map(optimize_of).collect::<Result<_>>()?;
    let same = all.first().filter(|first| all.iter().all(|other| other == *first));
    // Default: the columns differ.
    Ok(same.copied().unwrap_or_default())
}

fn next_id(metadata: &mut Metadata) -> Result<i32> {
    let last = metadata.property(MAX_COLUMN_ID).and_then(|last| last.parse::<i32>().ok());
    let next = last.and_then(|last| last.checked_add(1));
    let next = next.ok_or_else(|| {
        StorageError::corrupt("the log", format!("{MAX_COLUMN_ID} is not the number of a column"))
    })?;
    metadata.configuration.insert(MAX_COLUMN_ID.into(), Some(next.to_string()));
    Ok(next)
}

fn place(schema: &StructType, name: &str) -> Result<usize> {
    let place = schema.fields.iter().position(|field| field.name == name);
    let message = || format!("the table has no column {name:?}");
    Ok(place.ok_or_else(|| Error::new(ErrorKind::ColumnNotFound, message()))?)
}

/// Other readers of Delta do not tell names apart that differ in case alone.
fn check_free(schema: &StructType, name: &str) -> Result<()> {
    let same = |field: &&StructField| field.name.to_lowercase() == name.to_lowercase();
    match schema.fields.iter().find(same) {
        Some(field) => {
            let message = format!("the table has a column {:?}", field.name);
            Err(Error::new(ErrorKind::InvalidSchema, message).into())
        }
        None => Ok(()),
    }
}

fn check_not_kept_by(metadata: &Metadata, name: &str) -> Result<()> {
    if metadata.property(RETENTION_COLUMN) == Some(name) {
        let message = format!("rows are kept by column {name:?}: end the retention before it is dropped");
        return Err(Error::new(ErrorKind::InvalidSchema, message).into());
    }
    Ok(())
}

/// Gives a field a wider type; whether it is another one for readers of Delta.
fn widen(field: &mut StructField, to: DataType) -> Result<bool> {
    let Typed { data_type: from, logical, shape } = type_of(field, Mapping::Name)?;
    let is_held_as_it_is = logical.is_none() && shape.is_none();
    if is_held_as_it_is && from == to {
        return Ok(false);
    }
    let rank = |data_type: DataType| match data_type {
        DataType::Int8 => Some(0),
        DataType::Int16 => Some(1),
        DataType::Int32 => Some(2),
        DataType::Int64 => Some(3),
        _ => None,
    };
    let is_wider = match (from, to) {
        (DataType::Float32 | DataType::Int8 | DataType::Int16 | DataType::Int32, DataType::Float64) => true,
        (DataType::Decimal { precision: p, scale: s }, DataType::Decimal { precision, scale }) => {
            scale >= s && precision >= p && precision - p >= scale - s && precision <= NARROW_DIGITS
        }
        (from, to) => rank(from).zip(rank(to)).is_some_and(|(from, to)| from < to),
    };
    if !is_wider || !is_held_as_it_is {
        let from = type_name(logical, from);
        let message = format!("column {:?} is {from}, of which {to} is no wider type", field.name);
        return Err(Error::new(ErrorKind::InvalidSchema, message).into());
    }
    let wider = struct_field(&Field::new(&field.name, to, field.nullable));
    let change = json!({ "fromType": field.r#type, "toType": wider.r#type });
    let changes = field.metadata.entry(TYPE_CHANGES).or_insert_with(|| json!([]));
    match changes {
        Value::Array(changes) => changes.push(change),
        other => *other = json!([change]),
    }
    // An encoding that was asked for may not be one of the wider type.
    let kept: Map<String, Value> = std::mem::take(&mut field.metadata);
    field.metadata = kept.into_iter().filter(|(key, _)| key != crate::schema::ENCODING).collect();
    field.r#type = wider.r#type;
    Ok(true)
}
