//! Functions of lists, as DuckDB has them: what they give is most often values of their arguments in another order.

mod aggregated;
mod flat;
mod gather;
mod joined;
mod texts;
mod types;
mod values;

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{Array as _, ArrayRef, BooleanArray, ListArray, cast::AsArray as _, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, SortOptions};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::{
        array::{DynComparator, make_comparator},
        compute::{cast, kernels::length::length},
    },
    common::{Result, ScalarValue},
    functions_nested::{map_keys::map_keys, map_values::map_values},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
    },
};

use crate::{error::Error, functions::of_arrays, nan};
pub(crate) use gather::span;
use joined::{concatenation, zipped};
pub(crate) use types::list_type;
use types::{common, is_text};

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
    /// Without all that are equal, or NULL where that is.
    Remove,
    Extract,
    Slice,
    Where,
    Select,
    HasAny,
    HasAll,
    Intersect,
    Flatten,
    /// What UNNEST of more than one level has: a level less, or all of them.
    Levels {
        all: bool,
    },
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

const ALL: [(&str, &[&str], Kind); 31] = [
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
    ("array_remove", &[], Kind::Remove),
    ("list_extract", &["list_element", "array_extract", "array_element"], Kind::Extract),
    ("list_slice", &["array_slice"], Kind::Slice),
    ("list_where", &["array_where"], Kind::Where),
    ("list_select", &["array_select"], Kind::Select),
    ("list_has_any", &["array_has_any", "list_overlap", "array_overlap"], Kind::HasAny),
    ("list_has_all", &["array_has_all"], Kind::HasAll),
    ("list_intersect", &["array_intersect"], Kind::Intersect),
    ("flatten", &["list_flatten"], Kind::Flatten),
    ("basalt_level", &[], Kind::Levels { all: false }),
    ("basalt_levels", &[], Kind::Levels { all: true }),
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

/// Those that only statements which were rewritten have.
const INNER: [(&str, Kind); 5] = [
    ("basalt_differs", Kind::Differs),
    ("basalt_less", Kind::Ordered { less: true, same: false }),
    ("basalt_less_or_same", Kind::Ordered { less: true, same: true }),
    ("basalt_more", Kind::Ordered { less: false, same: false }),
    ("basalt_more_or_same", Kind::Ordered { less: false, same: true }),
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

/// What a task may have beside them.
pub(crate) fn inner() -> impl Iterator<Item = ScalarUDF> {
    INNER.into_iter().map(|(name, kind)| function(name, &[], kind))
}

/// The function of this kind, as a session or a task has it.
fn of_kind(kind: Kind) -> ScalarUDF {
    let inner = INNER.into_iter().map(|(name, kind)| (name, &[][..], kind));
    let known = ALL.into_iter().chain(inner).find(|(.., known)| *known == kind);
    // Default: a kind that is in neither list has parameters, and no name that says them.
    let (name, aliases, kind) = known.unwrap_or(("basalt_list", &[], kind));
    function(name, aliases, kind)
}

/// `list[index]`, of texts too.
pub(crate) fn element(list: Expr, index: Expr) -> Expr {
    of_kind(Kind::Extract).call(vec![list, index])
}

/// `map[key]`, of keys that have values of their own.
pub(crate) fn entry(map: Expr, key: Expr) -> Expr {
    let at = of_kind(Kind::Position).call(vec![map_keys(map.clone()), key]);
    element(map_values(map), at)
}

/// `list[from:to]`, of texts too.
pub(crate) fn slice(list: Expr, from: Expr, to: Expr) -> Expr {
    of_kind(Kind::Slice).call(vec![list, from, to])
}

/// `list[from:to:step]`.
pub(crate) fn slice_by(list: Expr, from: Expr, to: Expr, step: Expr) -> Expr {
    of_kind(Kind::Slice).call(vec![list, from, to, step])
}

/// `left || right` of lists.
pub(crate) fn concatenated(left: Expr, right: Expr) -> Expr {
    of_kind(Kind::Concat).call(vec![left, right])
}

/// `left IS DISTINCT FROM right` of what the planner compares otherwise.
pub(crate) fn differs(left: Expr, right: Expr) -> Expr {
    of_kind(Kind::Differs).call(vec![left, right])
}

/// `left < right`, `<=`, `>` or `>=` of what has values.
pub(crate) fn ordered(left: Expr, right: Expr, less: bool, same: bool) -> Expr {
    of_kind(Kind::Ordered { less, same }).call(vec![left, right])
}

/// `concat` of lists.
pub(crate) fn all_of(lists: Vec<Expr>) -> Expr {
    of_kind(Kind::Concat).call(lists)
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

impl Lists {
    fn wrong(&self, takes: &str) -> datafusion::common::DataFusionError {
        Error::new(ErrorKind::TypeMismatch, format!("{} takes {takes}", self.name)).into()
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
            Kind::Length if args[0].data_type().is_binary() => {
                Ok(cast(&length(args[0].as_ref())?, &DataType::Int64)?)
            }
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
}

/// Whether a value is none but NULL; those of no type are.
fn is_there(values: &ArrayRef, at: usize) -> bool {
    !values.data_type().is_null() && values.is_valid(at)
}

fn types_of(args: &[ArrayRef]) -> Vec<DataType> {
    args.iter().map(|arg| arg.data_type().clone()).collect()
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
        let data_type = args.return_field.data_type();
        of_arrays(&args, |arrays, rows| {
            let array = match self.kind {
                Kind::Aggregate(Some(name)) => {
                    aggregated::of_lists(name, &arrays[0], &arrays[1..], rows, data_type)?
                }
                Kind::Aggregate(None) => match &args.args[1] {
                    ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))) => {
                        let name = name.to_lowercase();
                        aggregated::of_lists(&name, &arrays[0], &arrays[2..], rows, data_type)?
                    }
                    _ => return Err(self.wrong("a list and the name of an aggregate")),
                },
                _ => self.evaluate(arrays, rows, data_type)?,
            };
            // A list whose values may be null is the same list.
            if array.data_type() == data_type { Ok(array) } else { Ok(cast(&array, data_type)?) }
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
    Ok(nan::same_bits(&array))
}

/// The order of values, in which NULLs come last.
fn comparator(left: &ArrayRef, right: &ArrayRef) -> Result<DynComparator> {
    let (left, right) = (values_of(left, left.data_type())?, values_of(right, right.data_type())?);
    Ok(make_comparator(&left, &right, SortOptions { descending: false, nulls_first: false })?)
}
