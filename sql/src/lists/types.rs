//! What the functions of lists take, and the types of what they give.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use datafusion::{common::Result, logical_expr::type_coercion::binary::type_union_resolution};

use super::{Kind, Lists, flat::of_levels, item};
use crate::{decimals, error::Error, functions::INTERVAL};

/// The type of lists of such values.
pub(crate) fn list_type(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

pub(super) fn is_text(data_type: &DataType) -> bool {
    data_type.is_string() || *data_type == DataType::Null
}

/// The type that holds the values of all of these.
pub(super) fn common(types: &[DataType]) -> Option<DataType> {
    let first = types.iter().find(|data_type| **data_type != DataType::Null).unwrap_or(&DataType::Null);
    let same = |data_type: &DataType| data_type == first || *data_type == DataType::Null;
    if types.iter().all(same) {
        return Some(first.clone());
    }
    let texts = types.iter().filter(|data_type| data_type.is_string()).count();
    let nulls = types.iter().filter(|data_type| data_type.is_null()).count();
    if texts > 0 && texts + nulls < types.len() {
        return None;
    }
    let floats = types.iter().any(DataType::is_floating);
    if floats && types.iter().all(|data_type| data_type.is_numeric() || data_type.is_null()) {
        return Some(DataType::Float64);
    }
    type_union_resolution(types)
}

/// Arguments of one call.
fn limit_of_arguments() -> usize {
    crate::limits::PARAMETERS
}

impl Lists {
    pub(super) fn items(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        types.iter().map(|data_type| item(data_type).ok_or_else(|| self.wrong("lists"))).collect()
    }

    pub(super) fn of_types(&self, types: &[DataType]) -> Result<DataType> {
        let count = |numbers: std::ops::RangeInclusive<usize>| match numbers.contains(&types.len()) {
            true => Ok(()),
            false => Err(self.wrong("another number of arguments")),
        };
        // Drivers send whole numbers as decimals.
        let is_whole = |t: &DataType| t.is_integer() || t.is_null() || decimals::is_integer(t);
        let whole = |at: usize| match types.get(at).is_none_or(is_whole) {
            true => Ok(()),
            false => Err(self.wrong("a whole number there")),
        };
        let mixed = || self.wrong("values of one type");
        Ok(match self.kind {
            Kind::Distinct | Kind::Reverse => {
                count(1..=1)?;
                self.items(types)?;
                types[0].clone()
            }
            Kind::Sort { .. } => {
                count(1..=3)?;
                self.items(&types[..1])?;
                types[0].clone()
            }
            Kind::Unique => {
                count(1..=1)?;
                self.items(types)?;
                DataType::Int64
            }
            Kind::Length => {
                count(1..=1)?;
                if !types[0].is_string() && !types[0].is_binary() {
                    self.items(types)?;
                }
                DataType::Int64
            }
            Kind::Resize => {
                count(2..=3)?;
                whole(1)?;
                let mut items = self.items(&types[..1])?;
                items.extend(types.get(2).cloned());
                match types[0] {
                    DataType::Null => DataType::Null,
                    _ => list_type(common(&items).ok_or_else(mixed)?),
                }
            }
            Kind::Concat => {
                count(1..=limit_of_arguments())?;
                let items = self.items(types)?;
                match types.iter().all(DataType::is_null) {
                    true => DataType::Null,
                    false => list_type(common(&items).ok_or_else(mixed)?),
                }
            }
            Kind::Contains | Kind::Position => {
                count(2..=2)?;
                let list = self.items(&types[..1])?;
                common(&[list[0].clone(), types[1].clone()]).ok_or_else(mixed)?;
                if self.kind == Kind::Contains { DataType::Boolean } else { DataType::Int64 }
            }
            Kind::Remove => {
                count(2..=2)?;
                let item = self.items(&types[..1])?.remove(0);
                common(&[item.clone(), types[1].clone()]).ok_or_else(mixed)?;
                if types[0].is_null() { DataType::Null } else { list_type(item) }
            }
            Kind::HasAny | Kind::HasAll => {
                count(2..=2)?;
                common(&self.items(types)?).ok_or_else(mixed)?;
                DataType::Boolean
            }
            Kind::Intersect => {
                count(2..=2)?;
                match types.iter().any(DataType::is_null) {
                    true => DataType::Null,
                    false => list_type(common(&self.items(types)?).ok_or_else(mixed)?),
                }
            }
            Kind::Extract => {
                count(2..=2)?;
                whole(1)?;
                match &types[0] {
                    text if text.is_string() => DataType::Utf8,
                    list => item(list).ok_or_else(|| self.wrong("a list or a text"))?,
                }
            }
            Kind::Slice => {
                count(3..=4)?;
                (1..types.len()).try_for_each(whole)?;
                match &types[0] {
                    text if text.is_string() && types.len() > 3 => {
                        return Err(self.wrong("a list before a step"));
                    }
                    text if text.is_string() => DataType::Utf8,
                    DataType::Null => DataType::Null,
                    list => list_type(item(list).ok_or_else(|| self.wrong("a list or a text"))?),
                }
            }
            Kind::Where | Kind::Select => {
                count(2..=2)?;
                let items = self.items(types)?;
                let fits = match self.kind {
                    Kind::Where => items[1] == DataType::Boolean || items[1].is_null(),
                    _ => items[1].is_integer() || items[1].is_null(),
                };
                if !fits {
                    return Err(self.wrong("a list, and one of what is taken of it"));
                }
                match types.iter().any(DataType::is_null) {
                    true => DataType::Null,
                    false => list_type(items[0].clone()),
                }
            }
            Kind::Flatten => {
                count(1..=1)?;
                match self.items(types)?.remove(0) {
                    DataType::Null => types[0].clone(),
                    inner => list_type(item(&inner).ok_or_else(|| self.wrong("a list of lists"))?),
                }
            }
            Kind::Levels { all } => {
                count(1..=1)?;
                let value = of_levels(self.items(types)?.remove(0), all);
                list_type(value.ok_or_else(|| self.wrong("lists of lists, and none of structs"))?)
            }
            Kind::Range { .. } => {
                count(1..=3)?;
                let times = |t: &DataType| matches!(t, DataType::Timestamp(..) | DataType::Date32);
                if types.len() == 3 && times(&types[0]) && times(&types[1]) && types[2] == INTERVAL {
                    let zone = match &types[0] {
                        DataType::Timestamp(_, zone) => zone.clone(),
                        _ => None,
                    };
                    return Ok(list_type(DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, zone)));
                }
                (0..types.len()).try_for_each(whole)?;
                list_type(DataType::Int64)
            }
            Kind::Zip => {
                count(1..=limit_of_arguments())?;
                let lists = match types.last() {
                    Some(DataType::Boolean) => &types[..types.len() - 1],
                    _ => types,
                };
                let fields = self.items(lists)?.into_iter().enumerate();
                let fields = fields.map(|(at, item)| Field::new(format!("c{at}"), item, true));
                list_type(DataType::Struct(fields.collect::<Vec<_>>().into()))
            }
            Kind::Split | Kind::SplitRegex | Kind::ExtractAll => {
                count(if self.kind == Kind::ExtractAll { 2..=3 } else { 2..=2 })?;
                if !is_text(&types[0]) || !is_text(&types[1]) {
                    return Err(self.wrong("texts"));
                }
                whole(2)?;
                list_type(DataType::Utf8)
            }
            Kind::Text => {
                count(1..=3)?;
                if !is_text(&types[0]) {
                    self.items(&types[..1])?;
                }
                DataType::Utf8
            }
            Kind::FieldPosition | Kind::HasField => {
                count(2..=2)?;
                if let DataType::Struct(fields) = &types[0] {
                    for field in fields {
                        common(&[field.data_type().clone(), types[1].clone()]).ok_or_else(mixed)?;
                    }
                } else if !types[0].is_null() {
                    return Err(self.wrong("a struct and a value"));
                }
                if self.kind == Kind::HasField { DataType::Boolean } else { DataType::Int64 }
            }
            Kind::Differs | Kind::Ordered { .. } => {
                count(2..=2)?;
                common(types).ok_or_else(mixed)?;
                DataType::Boolean
            }
            Kind::Aggregate(_) | Kind::ExtractNamed => {
                return Err(Error::Internal("a type by values".to_owned()).into());
            }
        })
    }
}
