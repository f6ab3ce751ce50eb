//! Functions of lists, as DuckDB has them: what they give is most often values of their arguments in another order.

mod aggregated;
mod gather;
mod texts;

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, ListArray, StructArray,
    cast::AsArray as _,
    new_null_array,
    types::{Float32Type, Float64Type, Int64Type},
};
use arrow_schema::{DataType, Field, FieldRef, Fields, SortOptions};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::{
        array::{DynComparator, make_comparator},
        compute::{cast, concat},
    },
    common::{Result, ScalarValue},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility, type_coercion::binary::type_union_resolution,
    },
};

use crate::{error::Error, functions::INTERVAL};
use gather::Gather;

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Distinct,
    Unique,
    Sort {
        descending: bool,
    },
    Reverse,
    Resize,
    Concat,
    Contains,
    Position,
    Extract,
    Slice,
    Where,
    Select,
    HasAny,
    HasAll,
    Intersect,
    Flatten,
    Length,
    Range {
        inclusive: bool,
    },
    Zip,
    Split,
    SplitRegex,
    ExtractAll,
    /// The groups of each match, by the names of the third argument, with U+001F between them.
    ExtractNamed,
    /// An aggregate of each list, by the name that it has or that is given.
    Aggregate(Option<&'static str>),
    /// Whether two values are others, where NULL is a value.
    Differs,
    /// Whether one is before or behind the other, or the same; NULL among their values is behind all others.
    Ordered {
        less: bool,
        same: bool,
    },
    /// The number of a struct's field that has a value, and whether there is one.
    FieldPosition,
    HasField,
    Text,
}

const ALL: [(&str, &[&str], Kind); 28] = [
    ("basalt_extract_named", &[], Kind::ExtractNamed),
    ("list_distinct", &["array_distinct"], Kind::Distinct),
    ("list_unique", &["array_unique"], Kind::Unique),
    ("list_sort", &["array_sort"], Kind::Sort { descending: false }),
    ("list_reverse_sort", &["array_reverse_sort"], Kind::Sort { descending: true }),
    ("list_reverse", &["array_reverse"], Kind::Reverse),
    ("list_resize", &["array_resize"], Kind::Resize),
    ("list_concat", &["list_cat", "array_concat", "array_cat"], Kind::Concat),
    ("list_contains", &["array_contains", "list_has", "array_has"], Kind::Contains),
    ("list_position", &["list_indexof", "array_position", "array_indexof"], Kind::Position),
    ("list_extract", &["list_element", "array_extract", "array_element"], Kind::Extract),
    ("list_slice", &["array_slice"], Kind::Slice),
    ("list_where", &["array_where"], Kind::Where),
    ("list_select", &["array_select"], Kind::Select),
    ("list_has_any", &["array_has_any", "list_overlap", "array_overlap"], Kind::HasAny),
    ("list_has_all", &["array_has_all"], Kind::HasAll),
    ("list_intersect", &["array_intersect"], Kind::Intersect),
    ("flatten", &["list_flatten"], Kind::Flatten),
    ("array_length", &["list_length", "length", "len"], Kind::Length),
    ("range", &[], Kind::Range { inclusive: false }),
    ("generate_series", &[], Kind::Range { inclusive: true }),
    ("list_zip", &["array_zip"], Kind::Zip),
    ("string_split", &["str_split", "string_to_array", "split"], Kind::Split),
    ("string_split_regex", &["str_split_regex", "regexp_split_to_array"], Kind::SplitRegex),
    ("regexp_extract_all", &[], Kind::ExtractAll),
    ("struct_position", &["struct_indexof"], Kind::FieldPosition),
    ("struct_contains", &["struct_has"], Kind::HasField),
    ("array_to_string", &["list_to_string"], Kind::Text),
];

/// Aggregates that have a function of a list by their own name.
const AGGREGATES: [(&str, &str); 26] = [
    ("list_any_value", "any_value"),
    ("list_avg", "avg"),
    ("list_bit_and", "bit_and"),
    ("list_bit_or", "bit_or"),
    ("list_bit_xor", "bit_xor"),
    ("list_bool_and", "bool_and"),
    ("list_bool_or", "bool_or"),
    ("list_count", "count"),
    ("list_entropy", "entropy"),
    ("list_first", "first"),
    ("list_histogram", "histogram"),
    ("list_kurtosis", "kurtosis"),
    ("list_last", "last"),
    ("list_mad", "mad"),
    ("list_max", "max"),
    ("list_median", "median"),
    ("list_min", "min"),
    ("list_mode", "mode"),
    ("list_product", "product"),
    ("list_skewness", "skewness"),
    ("list_stddev_pop", "stddev_pop"),
    ("list_stddev_samp", "stddev_samp"),
    ("list_string_agg", "string_agg"),
    ("list_sum", "sum"),
    ("list_var_pop", "var_pop"),
    ("list_var_samp", "var_samp"),
];

/// A function of this file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lists {
    name: &'static str,
    aliases: Vec<String>,
    kind: Kind,
    signature: Signature,
}

fn function(name: &'static str, aliases: &[&str], kind: Kind) -> ScalarUDF {
    let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
    let signature = Signature::variadic_any(Volatility::Immutable);
    ScalarUDF::new_from_impl(Lists { name, aliases, kind, signature })
}

/// What a session has of them.
pub(crate) fn all() -> impl Iterator<Item = ScalarUDF> {
    let named = ["list_aggr", "list_aggregate", "array_aggr", "array_aggregate"];
    let given = function(named[0], &named[1..], Kind::Aggregate(None));
    let own = AGGREGATES.iter().map(|(name, of)| function(name, &[], Kind::Aggregate(Some(of))));
    ALL.into_iter().map(|(name, aliases, kind)| function(name, aliases, kind)).chain([given]).chain(own)
}

/// `list[index]`, of texts too.
pub(crate) fn element(list: Expr, index: Expr) -> Expr {
    function("list_extract", &[], Kind::Extract).call(vec![list, index])
}

/// `list[from:to]`, of texts too.
pub(crate) fn slice(list: Expr, from: Expr, to: Expr) -> Expr {
    function("list_slice", &[], Kind::Slice).call(vec![list, from, to])
}

/// `left || right` of lists.
pub(crate) fn concatenated(left: Expr, right: Expr) -> Expr {
    function("list_concat", &[], Kind::Concat).call(vec![left, right])
}

/// `left IS DISTINCT FROM right` of what the planner compares otherwise.
pub(crate) fn differs(left: Expr, right: Expr) -> Expr {
    function("basalt_differs", &[], Kind::Differs).call(vec![left, right])
}

/// `left < right`, `<=`, `>` or `>=` of what has values.
pub(crate) fn ordered(left: Expr, right: Expr, less: bool, same: bool) -> Expr {
    function("basalt_ordered", &[], Kind::Ordered { less, same }).call(vec![left, right])
}

/// `concat` of lists.
pub(crate) fn all_of(lists: Vec<Expr>) -> Expr {
    function("list_concat", &[], Kind::Concat).call(lists)
}

/// The type of a list's values; `None`: it is no list. What is NULL may be one.
pub(crate) fn item(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(field.data_type().clone())
        }
        DataType::Null => Some(DataType::Null),
        _ => None,
    }
}

fn list_type(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

fn is_text(data_type: &DataType) -> bool {
    data_type.is_string() || *data_type == DataType::Null
}

/// The type that holds the values of all of these.
fn common(types: &[DataType]) -> Option<DataType> {
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

impl Lists {
    fn wrong(&self, takes: &str) -> datafusion::common::DataFusionError {
        Error::new(ErrorKind::TypeMismatch, format!("{} takes {takes}", self.name)).into()
    }

    fn items(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        types.iter().map(|data_type| item(data_type).ok_or_else(|| self.wrong("lists"))).collect()
    }

    fn of_types(&self, types: &[DataType]) -> Result<DataType> {
        let count = |numbers: std::ops::RangeInclusive<usize>| match numbers.contains(&types.len()) {
            true => Ok(()),
            false => Err(self.wrong("another number of arguments")),
        };
        let whole = |at: usize| match types.get(at).is_none_or(|t| t.is_integer() || t.is_null()) {
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
                if !types[0].is_string() {
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
                count(3..=3)?;
                whole(1)?;
                whole(2)?;
                match &types[0] {
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

    fn evaluate(&self, args: &[ArrayRef], rows: usize, data_type: &DataType) -> Result<ArrayRef> {
        if *data_type == DataType::Null {
            return Ok(new_null_array(data_type, rows));
        }
        match self.kind {
            Kind::Concat => concatenation(args, rows, data_type),
            Kind::Zip => zipped(args, rows, data_type),
            Kind::Range { inclusive } => gather::range(args, rows, inclusive, data_type),
            Kind::Split => texts::split(args, rows),
            Kind::SplitRegex => texts::split_regex(args, rows),
            Kind::ExtractAll => texts::extract_all(args, rows),
            Kind::ExtractNamed => texts::extract_named(args, rows, data_type),
            Kind::Extract | Kind::Slice if args[0].data_type().is_string() => {
                texts::part(args, rows, self.kind == Kind::Extract)
            }
            Kind::Length if args[0].data_type().is_string() => texts::length(&args[0]),
            Kind::Ordered { less, same } => {
                let common = common(&[args[0].data_type().clone(), args[1].data_type().clone()]);
                let common = common.ok_or_else(|| self.wrong("values of one type"))?;
                let (a, b) = (values_of(&args[0], &common)?, values_of(&args[1], &common)?);
                let compare = comparator(&a, &b)?;
                let of_row = |row: usize| {
                    let holds = || match compare(row, row) {
                        Ordering::Less => less,
                        Ordering::Equal => same,
                        Ordering::Greater => !less,
                    };
                    (is_there(&a, row) && is_there(&b, row)).then(holds)
                };
                Ok(Arc::new((0..rows).map(of_row).collect::<BooleanArray>()))
            }
            Kind::Differs => {
                let common = common(&[args[0].data_type().clone(), args[1].data_type().clone()]);
                let common = common.ok_or_else(|| self.wrong("values of one type"))?;
                let (a, b) = (values_of(&args[0], &common)?, values_of(&args[1], &common)?);
                let compare = comparator(&a, &b)?;
                Ok(Arc::new(
                    (0..rows).map(|row| Some(compare(row, row) != Ordering::Equal)).collect::<BooleanArray>(),
                ))
            }
            Kind::Text => texts::joined(args, rows),
            _ if args[0].data_type().is_null() => Ok(new_null_array(data_type, rows)),
            Kind::FieldPosition | Kind::HasField => self.field(args, rows),
            _ => self.of_list(args, rows, data_type),
        }
    }

    fn field(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let of = args[0].as_struct();
        let mut found: Vec<Option<i64>> = vec![None; rows];
        for (number, column) in (1_i64..).zip(of.columns()) {
            let types = [column.data_type().clone(), args[1].data_type().clone()];
            let common = common(&types).ok_or_else(|| self.wrong("values of one type"))?;
            let (column, wanted) = (values_of(column, &common)?, values_of(&args[1], &common)?);
            let compare = comparator(&column, &wanted)?;
            for (row, found) in found.iter_mut().enumerate() {
                if found.is_none() && of.is_valid(row) && compare(row, row) == Ordering::Equal {
                    *found = Some(number);
                }
            }
        }
        if self.kind == Kind::FieldPosition {
            return Ok(Arc::new(Int64Array::from(found)));
        }
        let wanted = &args[1];
        let is_there = |row: usize| !wanted.data_type().is_null() && wanted.is_valid(row) && of.is_valid(row);
        let has = (0..rows).map(|row| is_there(row).then(|| found[row].is_some()));
        Ok(Arc::new(has.collect::<BooleanArray>()))
    }

    fn of_list(&self, args: &[ArrayRef], rows: usize, data_type: &DataType) -> Result<ArrayRef> {
        let list = as_list(&args[0])?;
        let child = list.values();
        let span = |row: usize| {
            let offsets = list.value_offsets();
            // Default: none; offsets are not negative.
            let at = |row: usize| usize::try_from(offsets[row]).unwrap_or_default();
            at(row)..at(row + 1)
        };
        let mut gather = Gather::default();
        match self.kind {
            Kind::Distinct | Kind::Unique => {
                let compare = comparator(child, child)?;
                let mut counts = Vec::with_capacity(rows);
                for row in 0..rows {
                    if list.is_null(row) {
                        gather.null();
                        counts.push(None);
                        continue;
                    }
                    let mut places: Vec<usize> = span(row).filter(|at| is_there(child, *at)).collect();
                    places.sort_by(|a, b| compare(*a, *b).then(a.cmp(b)));
                    places.dedup_by(|a, b| compare(*a, *b) == Ordering::Equal);
                    places.sort_unstable();
                    counts.push(i64::try_from(places.len()).ok());
                    gather.row(places.into_iter().map(Some))?;
                }
                match self.kind {
                    Kind::Unique => Ok(Arc::new(Int64Array::from(counts))),
                    _ => gather.finish(child),
                }
            }
            Kind::Sort { descending } => {
                let compare = comparator(child, child)?;
                let (direction, nulls) = (argument(args, 1)?, argument(args, 2)?);
                for row in 0..rows {
                    if list.is_null(row) {
                        gather.null();
                        continue;
                    }
                    let said = |words: &Option<ArrayRef>| {
                        let words = words.as_ref().filter(|words| words.is_valid(row));
                        words.map(|words| words.as_string::<i32>().value(row).to_uppercase())
                    };
                    // In the reverse, an order that is given is the other one.
                    let (descending, given) = match (descending, said(&direction), said(&nulls)) {
                        (false, direction, nulls) => {
                            let descending = match direction.as_deref() {
                                None | Some("ASC") => false,
                                Some("DESC") => true,
                                Some(_) => return Err(self.wrong("ASC or DESC")),
                            };
                            (descending, nulls)
                        }
                        (true, nulls, None) => (true, nulls),
                        (true, ..) => return Err(self.wrong("a list and the place of its NULLs")),
                    };
                    let nulls_first = match given.as_deref() {
                        None => descending,
                        Some("NULLS FIRST") => true,
                        Some("NULLS LAST") => false,
                        Some(_) => return Err(self.wrong("NULLS FIRST or NULLS LAST")),
                    };
                    let mut places: Vec<usize> = span(row).collect();
                    places.sort_by(|a, b| match (child.is_valid(*a), child.is_valid(*b)) {
                        (true, true) if descending => compare(*b, *a),
                        (true, true) => compare(*a, *b),
                        (a, b) if a == b => Ordering::Equal,
                        (a, _) => {
                            if a == nulls_first {
                                Ordering::Greater
                            } else {
                                Ordering::Less
                            }
                        }
                    });
                    gather.row(places.into_iter().map(Some))?;
                }
                gather.finish(child)
            }
            Kind::Reverse => {
                for row in 0..rows {
                    match list.is_null(row) {
                        true => gather.null(),
                        false => gather.row(span(row).rev().map(Some))?,
                    }
                }
                gather.finish(child)
            }
            Kind::Length => {
                let length = |row: usize| list.is_valid(row).then(|| i64::from(list.value_length(row)));
                Ok(Arc::new((0..rows).map(length).collect::<Int64Array>()))
            }
            Kind::Resize => {
                let item = item(data_type).unwrap_or(DataType::Null);
                let mut child = cast(child, &item)?;
                let behind = child.len();
                if let Some(default) = args.get(2) {
                    child = concat(&[&child, &cast(default, &item)?])?;
                }
                let sizes = cast(&args[1], &DataType::Int64)?;
                let sizes = sizes.as_primitive::<Int64Type>();
                for row in 0..rows {
                    if list.is_null(row) {
                        gather.null();
                        continue;
                    }
                    let size = if sizes.is_null(row) { 0 } else { sizes.value(row) };
                    let size = usize::try_from(size).map_err(|_| self.wrong("a size of 0 or more"))?;
                    gather.fits(size)?;
                    let default = args.get(2).map(|_| behind + row);
                    let kept = span(row).map(Some).chain(std::iter::repeat(default)).take(size);
                    gather.row(kept)?;
                }
                gather.finish(&child)
            }
            Kind::Contains | Kind::Position => {
                let items = [child.data_type().clone(), args[1].data_type().clone()];
                let common = common(&items).ok_or_else(|| self.wrong("values of one type"))?;
                let (child, wanted) = (values_of(child, &common)?, values_of(&args[1], &common)?);
                let compare = comparator(&child, &wanted)?;
                let place = |row: usize| {
                    let from = span(row).start;
                    span(row).find(|at| compare(*at, row) == Ordering::Equal).map(|at| at - from + 1)
                };
                Ok(match self.kind {
                    Kind::Contains => {
                        let is_there = |row: usize| {
                            (list.is_valid(row) && self::is_there(&wanted, row)).then(|| place(row).is_some())
                        };
                        Arc::new((0..rows).map(is_there).collect::<BooleanArray>())
                    }
                    _ => {
                        let place = |row: usize| {
                            let place = if list.is_valid(row) { place(row) } else { None };
                            place.and_then(|place| i64::try_from(place).ok())
                        };
                        Arc::new((0..rows).map(place).collect::<Int64Array>())
                    }
                })
            }
            Kind::Extract => {
                let places = cast(&args[1], &DataType::Int64)?;
                let places = places.as_primitive::<Int64Type>();
                let mut taken = Vec::with_capacity(rows);
                for row in 0..rows {
                    let is_there = list.is_valid(row) && places.is_valid(row);
                    let place = is_there.then(|| gather::place(places.value(row), span(row).len())).flatten();
                    taken.push(place.map(|place| span(row).start + place));
                }
                gather::taken(child, taken)
            }
            Kind::Slice => {
                let (from, to) = (cast(&args[1], &DataType::Int64)?, cast(&args[2], &DataType::Int64)?);
                let (from, to) = (from.as_primitive::<Int64Type>(), to.as_primitive::<Int64Type>());
                for row in 0..rows {
                    if list.is_null(row) || from.is_null(row) || to.is_null(row) {
                        gather.null();
                        continue;
                    }
                    let start = span(row).start;
                    let part = gather::part(from.value(row), to.value(row), span(row).len());
                    gather.row(part.map(|at| Some(start + at)))?;
                }
                gather.finish(child)
            }
            Kind::Where | Kind::Select => {
                let chosen = as_list(&args[1])?;
                let flags = cast(
                    chosen.values(),
                    if self.kind == Kind::Where { &DataType::Boolean } else { &DataType::Int64 },
                )?;
                for row in 0..rows {
                    if list.is_null(row) || chosen.is_null(row) {
                        gather.null();
                        continue;
                    }
                    let offsets = chosen.value_offsets();
                    // Default: none; offsets are not negative.
                    let at = |row: usize| usize::try_from(offsets[row]).unwrap_or_default();
                    let own = span(row);
                    let mut places = Vec::new();
                    for (number, at) in (at(row)..at(row + 1)).enumerate() {
                        if self.kind == Kind::Where {
                            if flags.is_null(at) {
                                return Err(self.wrong("a list without NULLs there"));
                            }
                            if flags.as_boolean().value(at) {
                                places.push((number < own.len()).then_some(own.start + number));
                            }
                        } else {
                            let place = flags.is_valid(at).then(|| {
                                gather::place(flags.as_primitive::<Int64Type>().value(at), own.len())
                            });
                            places.push(place.flatten().map(|place| own.start + place));
                        }
                    }
                    gather.row(places.into_iter())?;
                }
                gather.finish(child)
            }
            Kind::HasAny | Kind::HasAll | Kind::Intersect => self.meet(&list, args, rows),
            Kind::Flatten => {
                if child.data_type().is_null() {
                    for row in 0..rows {
                        match list.is_null(row) {
                            true => gather.null(),
                            false => gather.row(std::iter::empty())?,
                        }
                    }
                    return gather.finish(child);
                }
                let inner = as_list(child)?;
                for row in 0..rows {
                    if list.is_null(row) {
                        gather.null();
                        continue;
                    }
                    let offsets = inner.value_offsets();
                    // Default: none; offsets are not negative.
                    let at = |row: usize| usize::try_from(offsets[row]).unwrap_or_default();
                    let inner = span(row).filter(|place| inner.is_valid(*place));
                    gather.row(inner.flat_map(|place| at(place)..at(place + 1)).map(Some))?;
                }
                gather.finish(inner.values())
            }
            _ => Err(Error::Internal(format!("{} of a list", self.name)).into()),
        }
    }

    /// What two lists have in common; NULLs are no values of theirs.
    fn meet(&self, list: &ListArray, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if args[1].data_type().is_null() {
            return Ok(new_null_array(&self.of_types(&types_of(args))?, rows));
        }
        let other = as_list(&args[1])?;
        let items = [list.value_type(), other.value_type()];
        let common = common(&items).ok_or_else(|| self.wrong("values of one type"))?;
        let (own, others) = (values_of(list.values(), &common)?, values_of(other.values(), &common)?);
        let compare = comparator(&own, &others)?;
        let among_own = comparator(&own, &own)?;
        let span = |list: &ListArray, row: usize| {
            let offsets = list.value_offsets();
            // Default: none; offsets are not negative.
            let at = |row: usize| usize::try_from(offsets[row]).unwrap_or_default();
            at(row)..at(row + 1)
        };
        let mut gather = Gather::default();
        let mut flags = Vec::with_capacity(rows);
        for row in 0..rows {
            if list.is_null(row) || other.is_null(row) {
                gather.null();
                flags.push(None);
                continue;
            }
            // Sorted, so that each is looked up in few steps.
            let mut sorted: Vec<usize> = span(list, row).filter(|at| is_there(&own, *at)).collect();
            sorted.sort_by(|a, b| among_own(*a, *b).then(a.cmp(b)));
            let found = |at: usize| {
                let first = sorted.partition_point(|place| compare(*place, at) == Ordering::Less);
                sorted.get(first).copied().filter(|place| compare(*place, at) == Ordering::Equal)
            };
            let mut valid = span(&other, row).filter(|at| is_there(&others, *at));
            match self.kind {
                Kind::HasAny => flags.push(Some(valid.any(|at| found(at).is_some()))),
                Kind::HasAll => flags.push(Some(valid.all(|at| found(at).is_some()))),
                _ => {
                    let mut places: Vec<usize> = valid.filter_map(found).collect();
                    places.sort_unstable();
                    places.dedup();
                    gather.row(places.into_iter().map(Some))?;
                }
            }
        }
        match self.kind {
            Kind::Intersect => gather.finish(&own),
            _ => Ok(Arc::new(BooleanArray::from(flags))),
        }
    }
}

/// Whether a value is none but NULL; those of no type are.
fn is_there(values: &ArrayRef, at: usize) -> bool {
    !values.data_type().is_null() && values.is_valid(at)
}

fn types_of(args: &[ArrayRef]) -> Vec<DataType> {
    args.iter().map(|arg| arg.data_type().clone()).collect()
}

/// Arguments of one call.
fn limit_of_arguments() -> usize {
    crate::limits::PARAMETERS
}

impl ScalarUDFImpl for Lists {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.of_types(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let data_type = match self.kind {
            Kind::Aggregate(named) => {
                let list = types.first().ok_or_else(|| self.wrong("a list"))?;
                let (name, rest) = match named {
                    Some(name) => (name.to_owned(), &types[1..]),
                    None => match args.scalar_arguments.get(1) {
                        Some(Some(ScalarValue::Utf8(Some(name)))) => (name.to_lowercase(), &types[2..]),
                        _ => return Err(self.wrong("a list and the name of an aggregate")),
                    },
                };
                let item = item(list).ok_or_else(|| self.wrong("a list"))?;
                aggregated::type_of(&name, item, rest)?
            }
            Kind::ExtractNamed => match args.scalar_arguments.get(2) {
                Some(Some(ScalarValue::Utf8(Some(names))))
                    if types.len() < 5 && types.iter().all(is_text) =>
                {
                    let names: Vec<&str> = names.split('\u{1f}').collect();
                    let fits = |(at, name): (usize, &&str)| !name.is_empty() && !names[..at].contains(name);
                    if !names.iter().enumerate().all(fits) {
                        return Err(self.wrong("names of groups, each once"));
                    }
                    let fields: Vec<_> =
                        names.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect();
                    list_type(DataType::Struct(fields.into()))
                }
                _ => return Err(self.wrong("two texts, names of groups and options")),
            },
            _ => self.of_types(&types)?,
        };
        Ok(Arc::new(Field::new(self.name, data_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if of_scalars { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let data_type = args.return_field.data_type();
        let array = match self.kind {
            Kind::Aggregate(Some(name)) => {
                aggregated::of_lists(name, &arrays[0], &arrays[1..], rows, data_type)?
            }
            Kind::Aggregate(None) => match &args.args[1] {
                ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))) => {
                    aggregated::of_lists(&name.to_lowercase(), &arrays[0], &arrays[2..], rows, data_type)?
                }
                _ => return Err(self.wrong("a list and the name of an aggregate")),
            },
            _ => self.evaluate(&arrays, rows, data_type)?,
        };
        // A list whose values may be null is the same list.
        let array = if array.data_type() == data_type { array } else { cast(&array, data_type)? };
        Ok(match of_scalars {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            false => ColumnarValue::Array(array),
        })
    }
}

pub(crate) fn as_list(array: &ArrayRef) -> Result<ListArray> {
    match array.data_type() {
        DataType::List(_) => Ok(array.as_list::<i32>().clone()),
        other => {
            let item = item(other).unwrap_or(DataType::Null);
            Ok(cast(array, &list_type(item))?.as_list::<i32>().clone())
        }
    }
}

fn argument(args: &[ArrayRef], at: usize) -> Result<Option<ArrayRef>> {
    args.get(at).map(|words| Ok(cast(words, &DataType::Utf8)?)).transpose()
}

/// Values as they are compared: one NaN, one zero.
fn values_of(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let array = if array.data_type() == to { Arc::clone(array) } else { cast(array, to)? };
    Ok(match array.data_type() {
        DataType::Float64 => {
            let one = |x: f64| if x.is_nan() { f64::NAN } else { x + 0.0 };
            let values: Float64Array = array.as_primitive::<Float64Type>().unary(one);
            Arc::new(values)
        }
        DataType::Float32 => {
            let one = |x: f32| if x.is_nan() { f32::NAN } else { x + 0.0 };
            let values: Float32Array = array.as_primitive::<Float32Type>().unary(one);
            Arc::new(values)
        }
        _ => array,
    })
}

/// The order of values, in which NULLs come last.
fn comparator(left: &ArrayRef, right: &ArrayRef) -> Result<DynComparator> {
    let (left, right) = (values_of(left, left.data_type())?, values_of(right, right.data_type())?);
    Ok(make_comparator(&left, &right, SortOptions { descending: false, nulls_first: false })?)
}

/// What is NULL adds nothing.
fn concatenation(args: &[ArrayRef], rows: usize, data_type: &DataType) -> Result<ArrayRef> {
    let item = item(data_type).unwrap_or(DataType::Null);
    let lists = args.iter().filter(|arg| !arg.data_type().is_null()).map(as_list);
    let lists = lists.collect::<Result<Vec<_>>>()?;
    let children = lists.iter().map(|list| cast(list.values(), &item));
    let children = children.collect::<std::result::Result<Vec<_>, _>>()?;
    let refs: Vec<&dyn Array> = children.iter().map(|child| &**child).collect();
    let child = concat(&refs)?;
    let mut gather = Gather::default();
    for row in 0..rows {
        let mut places = Vec::new();
        let mut behind = 0;
        let mut is_there = false;
        for list in &lists {
            let offsets = list.value_offsets();
            // Default: none; offsets are not negative.
            let at = |row: usize| usize::try_from(offsets[row]).unwrap_or_default();
            if list.is_valid(row) {
                is_there = true;
                places.extend((at(row)..at(row + 1)).map(|at| Some(behind + at)));
            }
            behind += list.values().len();
        }
        match is_there {
            true => gather.row(places.into_iter())?,
            false => gather.null(),
        }
    }
    gather.finish(&child)
}

/// Lists of what stands at the same places; with `true` behind them as many as the shortest has.
fn zipped(args: &[ArrayRef], rows: usize, data_type: &DataType) -> Result<ArrayRef> {
    let (lists, cuts) = match args {
        [lists @ .., last] if *last.data_type() == DataType::Boolean => (lists, Some(last.as_boolean())),
        lists => (lists, None),
    };
    let lists = lists.iter().map(as_list).collect::<Result<Vec<_>>>()?;
    let mut gathers: Vec<Gather> = lists.iter().map(|_| Gather::default()).collect();
    let mut lengths = Vec::with_capacity(rows);
    for row in 0..rows {
        let length = |list: &ListArray| match list.is_valid(row) {
            true => usize::try_from(list.value_length(row)).unwrap_or_default(),
            false => 0,
        };
        let cut = cuts.is_some_and(|cuts| cuts.is_valid(row) && cuts.value(row));
        let all = lists.iter().map(length);
        let longest = if cut { all.min() } else { all.max() }.unwrap_or_default();
        lengths.push(longest);
        for (list, gather) in lists.iter().zip(&mut gathers) {
            let start = usize::try_from(list.value_offsets()[row]).unwrap_or_default();
            let own = length(list);
            gather.row((0..longest).map(|at| (at < own).then_some(start + at)))?;
        }
    }
    let columns = lists.iter().zip(gathers).map(|(list, gather)| gather.values(list.values()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let Some(DataType::Struct(fields)) = item(data_type) else {
        return Err(Error::Internal("a list of structs".to_owned()).into());
    };
    let fields: Fields = fields;
    let total: usize = lengths.iter().sum();
    let structs = StructArray::try_new_with_length(fields, columns, None, total)?;
    let valid = vec![true; lengths.len()];
    gather::lists(Arc::new(structs), lengths, valid)
}
