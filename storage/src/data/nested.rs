//! Nested columns of other writers' tables: read as JSON text, with the names that the schema has.
//!
//! In a table with column mapping the fields of a struct have other names in the files than in the schema, and a file may
//! lack fields that came later. So an array gets the shape that the schema says before it becomes text.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, MapArray, NullArray, StructArray, cast::AsArray as _};
use arrow_schema::{DataType, Field, Fields};
use serde_json::Value;

use super::alike;
use crate::{
    limits::NESTED_DEPTH,
    schema::{COLUMN_ID, Mapping, PHYSICAL_NAME},
};

/// Where Arrow has the id of a field of a Parquet file.
const FIELD_ID: &str = "PARQUET:field_id";

/// What a nested column is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A value.
    Leaf,
    /// Elements.
    List(Box<Shape>),
    /// Keys and values.
    Map(Box<(Shape, Shape)>),
    /// Fields.
    Struct(Vec<Member>),
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    name: String,
    /// Its name in the files.
    physical: String,
    /// Its id there.
    id: Option<i64>,
    shape: Shape,
}

impl Shape {
    /// The shape of a type of the schema. An error says which part no reader here knows.
    pub(crate) fn of(data_type: &Value, mapping: Mapping) -> Result<Self, String> {
        Self::at(data_type, mapping, 0)
    }

    fn at(data_type: &Value, mapping: Mapping, depth: usize) -> Result<Self, String> {
        if depth > NESTED_DEPTH {
            return Err(format!("a type that nests deeper than {NESTED_DEPTH} levels"));
        }
        let object = match data_type {
            Value::String(name) if is_known(name) => return Ok(Self::Leaf),
            Value::String(name) => return Err(name.clone()),
            Value::Object(object) => object,
            _ => return Err("that is no name".to_owned()),
        };
        let part = |name: &str| {
            let part = object.get(name).ok_or_else(|| format!("without {name}"))?;
            Self::at(part, mapping, depth + 1)
        };
        match object.get("type").and_then(Value::as_str) {
            Some("array") => Ok(Self::List(Box::new(part("elementType")?))),
            Some("map") => Ok(Self::Map(Box::new((part("keyType")?, part("valueType")?)))),
            Some("struct") => {
                let fields = object.get("fields").and_then(Value::as_array).ok_or("struct without fields")?;
                let member = |field: &Value| {
                    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
                    let name = text(field.get("name")).ok_or("struct with a field without a name")?;
                    // A schema that was mapped once may still have the names and the ids of that.
                    let metadata = |key: &str| match mapping {
                        Mapping::Name => None,
                        _ => field.get("metadata").and_then(|metadata| metadata.get(key)),
                    };
                    // Default: without a mapping a field has one name.
                    let physical = text(metadata(PHYSICAL_NAME)).unwrap_or_else(|| name.clone());
                    let id = metadata(COLUMN_ID).and_then(Value::as_i64);
                    let data_type = field.get("type").ok_or("struct with a field without a type")?;
                    Ok(Member { name, physical, id, shape: Self::at(data_type, mapping, depth + 1)? })
                };
                fields.iter().map(member).collect::<Result<_, String>>().map(Self::Struct)
            }
            other => Err(other.unwrap_or("of an object").to_owned()),
        }
    }

    /// A column as JSON text; `by_id`: fields of structs are found by their ids.
    pub(super) fn to_text(&self, column: &ArrayRef, by_id: bool) -> Result<ArrayRef, String> {
        let shaped = self.shaped(column, by_id)?;
        Ok(Arc::new(basalt_nested::to_json(&shaped).map_err(|e| e.to_string())?))
    }

    fn shaped(&self, array: &ArrayRef, by_id: bool) -> Result<ArrayRef, String> {
        let misfit = || format!("{} in the file is not what the schema says", array.data_type());
        let failed = |e: arrow_schema::ArrowError| e.to_string();
        match self {
            Self::Leaf if array.data_type().is_nested() => Err(misfit()),
            Self::Leaf => Ok(Arc::clone(array)),
            Self::List(shape) => {
                let list = array.as_list_opt::<i32>().ok_or_else(misfit)?;
                let values = shape.shaped(list.values(), by_id)?;
                let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
                let list = ListArray::try_new(field, list.offsets().clone(), values, list.nulls().cloned());
                Ok(Arc::new(list.map_err(failed)?))
            }
            Self::Map(shapes) => {
                let map = array.as_map_opt().ok_or_else(misfit)?;
                let keys = shapes.0.shaped(map.keys(), by_id)?;
                let values = shapes.1.shaped(map.values(), by_id)?;
                let fields = Fields::from(vec![
                    Field::new("key", keys.data_type().clone(), false),
                    Field::new("value", values.data_type().clone(), true),
                ]);
                let entries =
                    StructArray::try_new(fields.clone(), vec![keys, values], None).map_err(failed)?;
                let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
                let map =
                    MapArray::try_new(field, map.offsets().clone(), entries, map.nulls().cloned(), false);
                Ok(Arc::new(map.map_err(failed)?))
            }
            Self::Struct(members) => {
                let given = array.as_struct_opt().ok_or_else(misfit)?;
                let is_another = |given: &str| members.iter().any(|member| member.physical == given);
                let place = |member: &Member| match (by_id, member.id) {
                    (true, Some(id)) => {
                        let id = id.to_string();
                        let has_id = |field: &Arc<Field>| field.metadata().get(FIELD_ID) == Some(&id);
                        Ok(given.fields().iter().position(has_id))
                    }
                    _ => {
                        let names = given.fields().iter().map(|field| field.name().as_str());
                        alike::place_of(&member.physical, names, is_another)
                    }
                };
                let mut columns = Vec::with_capacity(members.len());
                for member in members {
                    columns.push(match place(member)? {
                        Some(place) => member.shape.shaped(given.column(place), by_id)?,
                        None => Arc::new(NullArray::new(given.len())),
                    });
                }
                let fields = members.iter().zip(&columns);
                let fields: Fields =
                    fields.map(|(member, c)| Field::new(&member.name, c.data_type().clone(), true)).collect();
                if columns.is_empty() {
                    return Ok(Arc::new(StructArray::new_empty_fields(given.len(), given.nulls().cloned())));
                }
                let shaped = StructArray::try_new(fields, columns, given.nulls().cloned());
                Ok(Arc::new(shaped.map_err(failed)?))
            }
        }
    }
}

/// Whether a type that is not nested has a text.
fn is_known(name: &str) -> bool {
    const KNOWN: [&str; 12] = [
        "boolean",
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "date",
        "timestamp",
        "timestamp_ntz",
        "string",
        "binary",
    ];
    KNOWN.contains(&name) || name == "decimal" || name.starts_with("decimal(")
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, StringArray};
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_have_the_names_of_the_schema() {
        let field = |name: &str, physical: &str, id: i64, data_type: Value| {
            json!({"name": name, "type": data_type, "nullable": true, "metadata": {
                "delta.columnMapping.physicalName": physical, "delta.columnMapping.id": id}})
        };
        let schema = json!({"type": "struct", "fields": [
            field("late", "col-9", 9, json!("string")),
            field("a b", "col-1", 1, json!("integer")),
            field("c", "col-2", 2, json!({"type": "array", "containsNull": true, "elementType":
                {"type": "struct", "fields": [field("d", "col-3", 3, json!("string"))]}})),
        ]});
        let with_id = |name: &str, id: i64, array: &dyn Array| {
            let metadata = [(FIELD_ID.to_owned(), id.to_string())].into_iter().collect();
            Field::new(name, array.data_type().clone(), true).with_metadata(metadata)
        };
        for by_id in [false, true] {
            // By their ids, whatever the names are.
            let name = |name: &str| if by_id { format!("x{name}") } else { name.to_owned() };
            let d: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
            let item = StructArray::new(vec![with_id(&name("col-3"), 3, &d)].into(), vec![d], None);
            let list = ListArray::new(
                Arc::new(Field::new_list_field(item.data_type().clone(), true)),
                arrow_buffer::OffsetBuffer::from_lengths([2, 0]),
                Arc::new(item),
                None,
            );
            let (list, a): (ArrayRef, ArrayRef) =
                (Arc::new(list), Arc::new(Int32Array::from(vec![Some(1), None])));
            let fields = vec![with_id(&name("col-2"), 2, &list), with_id(&name("col-1"), 1, &a)];
            let column: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![list, a], None));
            let mapping = if by_id { Mapping::Id } else { Mapping::PhysicalName };
            let shape = Shape::of(&schema, mapping).unwrap();
            let text = shape.to_text(&column, by_id).unwrap();
            let texts: Vec<_> = text.as_string::<i32>().iter().flatten().collect();
            assert_eq!(
                texts,
                [r#"{"late":null,"a b":1,"c":[{"d":"x"},{"d":"y"}]}"#, r#"{"late":null,"a b":null,"c":[]}"#]
            );
        }
        // Without a mapping the names of another time say nothing.
        let shape = Shape::of(&schema, Mapping::Name).unwrap();
        let a: ArrayRef = Arc::new(Int32Array::from(vec![7]));
        let column: ArrayRef = Arc::new(StructArray::new(vec![with_id("a b", 9, &a)].into(), vec![a], None));
        let text = shape.to_text(&column, false).unwrap();
        assert_eq!(text.as_string::<i32>().value(0), r#"{"late":null,"a b":7,"c":null}"#);
        // A name that differs in case alone is that of the field, unless there are two such.
        let a: ArrayRef = Arc::new(Int32Array::from(vec![7]));
        let two = vec![with_id("A B", 1, &a), with_id("A b", 1, &a)];
        let one: ArrayRef =
            Arc::new(StructArray::new(vec![two[0].clone()].into(), vec![Arc::clone(&a)], None));
        let text = shape.to_text(&one, false).unwrap();
        assert_eq!(text.as_string::<i32>().value(0), r#"{"late":null,"a b":7,"c":null}"#);
        let both: ArrayRef = Arc::new(StructArray::new(two.into(), vec![Arc::clone(&a), a], None));
        assert!(shape.to_text(&both, false).unwrap_err().contains("both \"A B\" and \"A b\""));
        let plain: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        assert!(shape.to_text(&plain, false).unwrap_err().contains("Int32 in the file"));
    }

    #[test]
    fn what_is_not_known_is_named() {
        let mut deep = json!("long");
        for _ in 0..=NESTED_DEPTH {
            deep = json!({"type": "array", "elementType": deep, "containsNull": true});
        }
        for (data_type, named) in [
            (json!({"type": "array", "elementType": "variant"}), "variant"),
            (json!({"type": "map", "keyType": "string"}), "without valueType"),
            (json!({"type": "struct"}), "without fields"),
            (json!({"type": "set"}), "set"),
            (json!({}), "of an object"),
            (deep, "deeper"),
        ] {
            assert!(Shape::of(&data_type, Mapping::Name).unwrap_err().contains(named), "{data_type}");
        }
    }
}
