//! Functions of structs and maps by their entries: `struct_values`, `map_from_entries`, `map_concat`.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{
    Array as _, ArrayRef, ListArray, MapArray, StructArray, UInt64Array, cast::AsArray as _, new_null_array,
};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::{
        buffer::{NullBuffer, OffsetBuffer},
        compute::{cast, concat, take},
    },
    common::{Result, ScalarValue},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};

use crate::{error::Error, functions::of_arrays, lists};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// A struct's values, without the names.
    Values,
    FromEntries,
    /// The entries of several maps; of a key that several have, the last one's.
    Concat,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entries {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

/// What a session has of them.
pub(crate) fn all() -> impl Iterator<Item = ScalarUDF> {
    let all = [
        ("struct_values", Kind::Values),
        ("map_from_entries", Kind::FromEntries),
        ("map_concat", Kind::Concat),
    ];
    all.into_iter().map(|(name, kind)| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(Entries { name, kind, signature })
    })
}

fn unnamed(fields: &Fields) -> Fields {
    let field =
        |(at, field): (usize, &FieldRef)| Field::new(format!("c{at}"), field.data_type().clone(), true);
    fields.iter().enumerate().map(field).collect()
}

fn entries_of(key: &DataType, value: &DataType) -> Fields {
    vec![Field::new("key", key.clone(), false), Field::new("value", value.clone(), true)].into()
}

fn map_of(fields: Fields) -> DataType {
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), false)
}

impl Entries {
    fn wrong(&self, takes: &str) -> datafusion::common::DataFusionError {
        Error::new(ErrorKind::TypeMismatch, format!("{} takes {takes}", self.name)).into()
    }

    fn map_of_entries(&self, list: &ListArray, data_type: &DataType) -> Result<ArrayRef> {
        let entries = list.values().as_struct();
        let rows =
            (0..list.len()).map(|row| list.is_valid(row).then(|| lists::span(list, row).collect::<Vec<_>>()));
        if entries.null_count() > 0 {
            return Err(Error::invalid(format!("{}: an entry is NULL", self.name)).into());
        }
        self.made(entries.column(0), entries.column(1), rows.collect(), true, data_type)
    }

    /// Maps of the entries at these places of each row.
    fn made(
        &self,
        keys: &ArrayRef,
        values: &ArrayRef,
        rows: Vec<Option<Vec<usize>>>,
        once: bool,
        data_type: &DataType,
    ) -> Result<ArrayRef> {
        let DataType::Map(field, _) = data_type else { return Err(self.wrong("maps")) };
        let DataType::Struct(fields) = field.data_type() else { return Err(self.wrong("maps")) };
        let mut taken: Vec<u64> = Vec::new();
        let mut lengths = Vec::with_capacity(rows.len());
        let mut valid = Vec::with_capacity(rows.len());
        for row in rows {
            valid.push(row.is_some());
            // Default: a map that is NULL has no entries.
            let places = row.unwrap_or_default();
            let mut known: HashMap<ScalarValue, usize> = HashMap::new();
            let begin = taken.len();
            for place in places {
                let key = ScalarValue::try_from_array(keys, place)?;
                if key.is_null() {
                    return Err(Error::invalid(format!("{}: a key of a map is NULL", self.name)).into());
                }
                let place = u64::try_from(place).unwrap_or(u64::MAX);
                match known.get(&key) {
                    Some(_) if once => {
                        return Err(
                            Error::invalid(format!("{}: a key of a map stands twice", self.name)).into()
                        );
                    }
                    Some(at) => taken[*at] = place,
                    None => {
                        known.insert(key, taken.len());
                        taken.push(place);
                    }
                }
            }
            lengths.push(taken.len() - begin);
        }
        let taken = UInt64Array::from(taken);
        let column =
            |values: &ArrayRef, at: usize| cast(&take(values, &taken, None)?, fields[at].data_type());
        let entries = StructArray::try_new(fields.clone(), vec![column(keys, 0)?, column(values, 1)?], None)?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        let nulls = NullBuffer::from(valid);
        Ok(Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, Some(nulls), false)?))
    }

    fn concatenation(&self, args: &[ArrayRef], rows: usize, data_type: &DataType) -> Result<ArrayRef> {
        let maps: Vec<&MapArray> = args.iter().filter_map(|arg| arg.as_map_opt()).collect();
        let (mut keys, mut values, mut begins) = (Vec::new(), Vec::new(), Vec::new());
        let mut length = 0;
        for map in &maps {
            begins.push(length);
            length += map.keys().len();
            keys.push(map.keys().as_ref());
            values.push(map.values().as_ref());
        }
        let (keys, values) = (concat(&keys)?, concat(&values)?);
        let of_row = |row: usize| {
            let mut places = None;
            for (map, begin) in maps.iter().zip(&begins) {
                if map.is_valid(row) {
                    let offsets = map.value_offsets();
                    // Default: none; offsets are not negative.
                    let at = |row: usize| usize::try_from(offsets[row]).unwrap_or_default();
                    places.get_or_insert_with(Vec::new).extend((at(row)..at(row + 1)).map(|at| begin + at));
                }
            }
            places
        };
        self.made(&keys, &values, (0..rows).map(of_row).collect(), false, data_type)
    }
}

impl ScalarUDFImpl for Entries {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (self.kind, types) {
            (Kind::Values, [DataType::Struct(fields)]) => Ok(DataType::Struct(unnamed(fields))),
            (Kind::Values | Kind::FromEntries, [DataType::Null]) => Ok(DataType::Null),
            (Kind::Values, _) => Err(self.wrong("a struct")),
            (Kind::FromEntries, [list]) => match lists::item(list) {
                Some(DataType::Struct(fields)) if fields.len() == 2 => {
                    Ok(map_of(entries_of(fields[0].data_type(), fields[1].data_type())))
                }
                _ => Err(self.wrong("a list of structs of a key and a value")),
            },
            (Kind::Concat, [DataType::Map(..), ..])
                if types.iter().all(|other| *other == types[0] || other.is_null()) =>
            {
                Ok(types[0].clone())
            }
            _ => Err(self.wrong("maps of one type")),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = args.return_field.data_type();
        of_arrays(&args, |arrays, rows| match self.kind {
            _ if data_type.is_null() => Ok(new_null_array(data_type, rows)),
            Kind::Values => {
                let DataType::Struct(fields) = data_type else { return Err(self.wrong("a struct")) };
                let (_, columns, nulls) = arrays[0].as_struct().clone().into_parts();
                Ok(Arc::new(StructArray::try_new(fields.clone(), columns, nulls)?))
            }
            Kind::FromEntries => self.map_of_entries(&lists::as_list(&arrays[0])?, data_type),
            Kind::Concat => self.concatenation(arrays, rows, data_type),
        })
    }
}
