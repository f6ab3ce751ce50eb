//! Functions of texts and numbers that the planner has not, by the names that DuckDB has for them. What is NULL among
//! their arguments makes NULL.

pub(crate) mod distance;
mod formatted;
mod paths;
mod shown;
pub(crate) mod specified;

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, StringArray, UInt64Array,
    builder::{ListBuilder, StringBuilder},
    cast::AsArray as _,
    types::{Float32Type, Float64Type, Int64Type},
};
use arrow_schema::{DataType, Field, FieldRef};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::compute::cast,
    common::Result,
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};

use unicode_segmentation::UnicodeSegmentation as _;

use crate::{
    bounded, decimals,
    error::Error,
    functions::{cast_to_texts, of_arrays},
    limits, lists,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Damerau,
    Jaro,
    JaroWinkler,
    Jaccard,
    Hamming,
    Bar,
    Bytes {
        unit: u32,
    },
    BytesOf {
        is_try: bool,
    },
    Hex,
    ParsePath,
    Dirname,
    Dirpath,
    Filename,
    JoinPath,
    Printf,
    Format,
    /// PostgreSQL's.
    Specified,
    RegexEscape,
    ToBase,
    UrlEncode,
    UrlDecode,
    Glob,
    NextAfter,
    BitCount,
    Even,
    Divide,
    /// Of what is seen as a character.
    LengthSeen,
    PartSeen,
    LeftSeen,
    RightSeen,
}

/// Name, other names, kind, and how many arguments.
const ALL: [(&str, &[&str], Kind, usize, usize); 32] = [
    ("length_grapheme", &[], Kind::LengthSeen, 1, 1),
    ("substring_grapheme", &[], Kind::PartSeen, 2, 3),
    ("left_grapheme", &[], Kind::LeftSeen, 2, 2),
    ("right_grapheme", &[], Kind::RightSeen, 2, 2),
    ("damerau_levenshtein", &[], Kind::Damerau, 2, 2),
    ("jaro_similarity", &[], Kind::Jaro, 2, 2),
    ("jaro_winkler_similarity", &[], Kind::JaroWinkler, 2, 2),
    ("jaccard", &[], Kind::Jaccard, 2, 2),
    ("hamming", &["mismatches"], Kind::Hamming, 2, 2),
    ("bar", &[], Kind::Bar, 3, 4),
    ("format_bytes", &["formatreadablesize"], Kind::Bytes { unit: 1024 }, 1, 1),
    ("formatreadabledecimalsize", &[], Kind::Bytes { unit: 1000 }, 1, 1),
    ("parse_formatted_bytes", &[], Kind::BytesOf { is_try: false }, 1, 1),
    ("basalt_try_parse_formatted_bytes", &[], Kind::BytesOf { is_try: true }, 1, 1),
    ("hex", &[], Kind::Hex, 1, 1),
    ("parse_path", &[], Kind::ParsePath, 1, 2),
    ("parse_dirname", &[], Kind::Dirname, 1, 2),
    ("parse_dirpath", &[], Kind::Dirpath, 1, 2),
    ("parse_filename", &[], Kind::Filename, 1, 3),
    ("path_join", &[], Kind::JoinPath, 1, 64),
    ("printf", &[], Kind::Printf, 1, 64),
    ("format", &[], Kind::Format, 1, 64),
    ("basalt_format", &[], Kind::Specified, 1, limits::PARAMETERS),
    ("regexp_escape", &[], Kind::RegexEscape, 1, 1),
    ("to_base", &[], Kind::ToBase, 2, 3),
    ("url_encode", &[], Kind::UrlEncode, 1, 1),
    ("url_decode", &[], Kind::UrlDecode, 1, 1),
    ("basalt_glob", &[], Kind::Glob, 2, 2),
    ("nextafter", &[], Kind::NextAfter, 2, 2),
    ("bit_count", &[], Kind::BitCount, 1, 1),
    ("even", &[], Kind::Even, 1, 1),
    ("basalt_divide_whole", &[], Kind::Divide, 2, 2),
];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Strings {
    name: &'static str,
    aliases: Vec<String>,
    kind: Kind,
    arguments: (usize, usize),
    signature: Signature,
}

/// What a session has of them.
pub(crate) fn all() -> impl Iterator<Item = ScalarUDF> {
    ALL.into_iter().map(|(name, aliases, kind, least, most)| {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(Strings { name, aliases, kind, arguments: (least, most), signature })
    })
}

/// Whether a whole number of the type may be none of 64 bits with a sign.
fn is_wide(data_type: &DataType) -> bool {
    decimals::is_whole(data_type) || *data_type == DataType::UInt64
}

impl Strings {
    fn wrong(&self, takes: &str) -> datafusion::common::DataFusionError {
        Error::new(ErrorKind::TypeMismatch, format!("{} takes {takes}", self.name)).into()
    }

    fn evaluate(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let texts = |at: usize| cast_to_texts(&args[at]);
        let numbers = |at: usize| -> Result<ArrayRef> { Ok(cast(&args[at], &DataType::Int64)?) };
        let floats = |at: usize| -> Result<ArrayRef> { Ok(cast(&args[at], &DataType::Float64)?) };
        let is_there = |row: usize| args.iter().all(|arg| !arg.data_type().is_null() && arg.is_valid(row));
        Ok(match self.kind {
            Kind::Damerau | Kind::Hamming => {
                let (a, b) = (texts(0)?, texts(1)?);
                let of_row = |row: usize| match is_there(row) {
                    false => Ok(None),
                    true if self.kind == Kind::Damerau => {
                        distance::damerau(a.value(row), b.value(row)).map(Some)
                    }
                    true => distance::hamming(a.value(row), b.value(row)).map(Some),
                };
                let distances = (0..rows).map(of_row).collect::<std::result::Result<Vec<_>, Error>>()?;
                Arc::new(
                    distances
                        .into_iter()
                        .map(|x| x.and_then(|x| i64::try_from(x).ok()))
                        .collect::<Int64Array>(),
                )
            }
            Kind::Jaro | Kind::JaroWinkler | Kind::Jaccard => {
                let (a, b) = (texts(0)?, texts(1)?);
                let of_row = |row: usize| match is_there(row) {
                    false => Ok(None),
                    true => match self.kind {
                        Kind::Jaccard => distance::jaccard(a.value(row), b.value(row)).map(Some),
                        _ => distance::jaro(a.value(row), b.value(row), self.kind == Kind::JaroWinkler)
                            .map(Some),
                    },
                };
                let likenesses = (0..rows).map(of_row).collect::<std::result::Result<Float64Array, Error>>();
                Arc::new(likenesses?)
            }
            Kind::Bar => {
                let columns = (0..args.len()).map(floats).collect::<Result<Vec<_>>>()?;
                let of_row = |row: usize| {
                    let value = |at: usize| columns[at].as_primitive::<Float64Type>().value(row);
                    let width = if columns.len() > 3 { value(3) } else { 80.0 };
                    let bar = || shown::bar(value(0), value(1), value(2), width);
                    is_there(row).then(bar).transpose()
                };
                Arc::new((0..rows).map(of_row).collect::<std::result::Result<StringArray, Error>>()?)
            }
            Kind::Bytes { unit } => {
                if !args[0].data_type().is_integer() && !args[0].data_type().is_null() {
                    return Err(self.wrong("a whole number"));
                }
                let numbers = numbers(0)?;
                let numbers = numbers.as_primitive::<Int64Type>();
                let text = |row: usize| is_there(row).then(|| shown::bytes(numbers.value(row), unit.into()));
                Arc::new((0..rows).map(text).collect::<StringArray>())
            }
            Kind::Hex if args[0].data_type().is_integer() => {
                let numbers = numbers(0)?;
                let numbers = numbers.as_primitive::<Int64Type>();
                let digits = |row: usize| is_there(row).then(|| format!("{:X}", numbers.value(row)));
                Arc::new((0..rows).map(digits).collect::<StringArray>())
            }
            Kind::Hex => {
                let bytes = cast(&args[0], &DataType::Binary)?;
                let bytes = bytes.as_binary::<i32>();
                let mut made = 0;
                let of_row = |row: usize| {
                    if !is_there(row) {
                        return Ok(None);
                    }
                    let digits: String = bytes.value(row).iter().map(|byte| format!("{byte:02X}")).collect();
                    bounded::add(&mut made, digits.len(), self.name)?;
                    Ok(Some(digits))
                };
                Arc::new((0..rows).map(of_row).collect::<std::result::Result<StringArray, Error>>()?)
            }
            Kind::BytesOf { is_try } => {
                let texts = texts(0)?;
                let of_row = |row: usize| match is_there(row) {
                    false => Ok(None),
                    true => match shown::bytes_of(texts.value(row)) {
                        Ok(bytes) => Ok(Some(bytes)),
                        Err(_) if is_try => Ok(None),
                        Err(error) => Err(error),
                    },
                };
                Arc::new((0..rows).map(of_row).collect::<std::result::Result<UInt64Array, Error>>()?)
            }
            Kind::ParsePath | Kind::Dirname | Kind::Dirpath | Kind::Filename => self.path(args, rows)?,
            Kind::JoinPath => {
                let parts = (0..args.len()).map(texts).collect::<Result<Vec<_>>>()?;
                let joined = |row: usize| {
                    let parts: Vec<&str> =
                        parts.iter().filter(|part| part.is_valid(row)).map(|part| part.value(row)).collect();
                    if parts.len() < args.len() {
                        return Ok(None);
                    }
                    let other = || Error::unsupported("path_join of paths with ':' or a backslash");
                    paths::join(&parts).map(Some).ok_or_else(other)
                };
                Arc::new((0..rows).map(joined).collect::<std::result::Result<StringArray, Error>>()?)
            }
            Kind::Printf | Kind::Format => {
                let formats = texts(0)?;
                let values = args[1..].iter().map(formatted::Column::new).collect::<Result<Vec<_>>>()?;
                let mut made = 0;
                let of_row = |row: usize| {
                    if !is_there(row) {
                        return Ok(None);
                    }
                    let values: Vec<formatted::Value> =
                        values.iter().map(|column| column.value(row)).collect();
                    let text = match self.kind {
                        Kind::Printf => formatted::printf(formats.value(row), &values)?,
                        _ => formatted::format(formats.value(row), &values)?,
                    };
                    bounded::add(&mut made, text.len(), self.name)?;
                    Ok(Some(text))
                };
                Arc::new((0..rows).map(of_row).collect::<std::result::Result<StringArray, Error>>()?)
            }
            Kind::Specified => {
                let columns = (0..args.len()).map(texts).collect::<Result<Vec<_>>>()?;
                Arc::new(specified::formatted(&columns, rows)?)
            }
            Kind::RegexEscape => {
                let texts = texts(0)?;
                let escaped = |row: usize| is_there(row).then(|| shown::escaped(texts.value(row)));
                Arc::new((0..rows).map(escaped).collect::<StringArray>())
            }
            Kind::UrlEncode => {
                let texts = texts(0)?;
                let encoded = |row: usize| is_there(row).then(|| shown::url_encoded(texts.value(row)));
                Arc::new((0..rows).map(encoded).collect::<StringArray>())
            }
            Kind::UrlDecode => {
                let texts = texts(0)?;
                let of_row = |row: usize| match is_there(row) {
                    true => shown::url_decoded(texts.value(row)).map(Some),
                    false => Ok(None),
                };
                Arc::new((0..rows).map(of_row).collect::<std::result::Result<StringArray, Error>>()?)
            }
            Kind::ToBase => {
                let columns = (0..args.len()).map(numbers).collect::<Result<Vec<_>>>()?;
                let of_row = |row: usize| {
                    let value = |at: usize| columns[at].as_primitive::<Int64Type>().value(row);
                    let least = if columns.len() > 2 { value(2) } else { 0 };
                    match is_there(row) {
                        true => shown::to_base(value(0), value(1), least).map(Some),
                        false => Ok(None),
                    }
                };
                Arc::new((0..rows).map(of_row).collect::<std::result::Result<StringArray, Error>>()?)
            }
            Kind::Glob => {
                let (a, b) = (texts(0)?, texts(1)?);
                let mut last: Option<(&str, regex::Regex)> = None;
                let mut matches = Vec::with_capacity(rows);
                for row in 0..rows {
                    if !is_there(row) {
                        matches.push(None);
                        continue;
                    }
                    let pattern = b.value(row);
                    let regex = match &last {
                        Some((known, regex)) if *known == pattern => regex,
                        _ => &last.insert((pattern, shown::glob(pattern)?)).1,
                    };
                    matches.push(Some(regex.is_match(a.value(row))));
                }
                Arc::new(BooleanArray::from(matches))
            }
            Kind::NextAfter
                if *args[0].data_type() == DataType::Float32 && *args[1].data_type() == DataType::Float32 =>
            {
                let (a, b) = (args[0].as_primitive::<Float32Type>(), args[1].as_primitive::<Float32Type>());
                let next = |row: usize| is_there(row).then(|| next_after_f32(a.value(row), b.value(row)));
                Arc::new((0..rows).map(next).collect::<Float32Array>())
            }
            Kind::NextAfter => {
                let (a, b) = (floats(0)?, floats(1)?);
                let (a, b) = (a.as_primitive::<Float64Type>(), b.as_primitive::<Float64Type>());
                let next = |row: usize| is_there(row).then(|| next_after(a.value(row), b.value(row)));
                Arc::new((0..rows).map(next).collect::<Float64Array>())
            }
            Kind::BitCount => {
                let bits: i64 = match args[0].data_type() {
                    DataType::Int8 => 0xff,
                    DataType::Int16 => 0xffff,
                    DataType::Int32 => 0xffff_ffff,
                    DataType::Int64 | DataType::Null => -1,
                    _ => return Err(self.wrong("a whole number with a sign")),
                };
                let numbers = numbers(0)?;
                let numbers = numbers.as_primitive::<Int64Type>();
                let count =
                    |row: usize| is_there(row).then(|| i64::from((numbers.value(row) & bits).count_ones()));
                Arc::new((0..rows).map(count).collect::<Int64Array>())
            }
            Kind::Even => {
                let values = floats(0)?;
                let even = |x: f64| if x >= 0.0 { (x / 2.0).ceil() * 2.0 } else { (x / 2.0).floor() * 2.0 };
                let even: Float64Array = values.as_primitive::<Float64Type>().unary(even);
                Arc::new(even)
            }
            Kind::Divide if args.iter().any(|arg| is_wide(arg.data_type())) => {
                Arc::new(decimals::divided(&args[0], &args[1])?)
            }
            Kind::Divide => {
                let (a, b) = (numbers(0)?, numbers(1)?);
                let (a, b) = (a.as_primitive::<Int64Type>(), b.as_primitive::<Int64Type>());
                let of_row = |row: usize| {
                    if !is_there(row) {
                        return Ok(None);
                    }
                    if b.value(row) == 0 {
                        return Err(Error::new(ErrorKind::DivisionByZero, "division by zero"));
                    }
                    let quotient = a.value(row).checked_div(b.value(row));
                    let lost = || Error::new(ErrorKind::Overflow, "the result of '//' does not fit an int64");
                    quotient.map(Some).ok_or_else(lost)
                };
                Arc::new((0..rows).map(of_row).collect::<std::result::Result<Int64Array, Error>>()?)
            }
            Kind::LengthSeen => {
                let texts = texts(0)?;
                let length = |row: usize| {
                    is_there(row)
                        .then(|| i64::try_from(texts.value(row).graphemes(true).count()).unwrap_or(i64::MAX))
                };
                Arc::new((0..rows).map(length).collect::<Int64Array>())
            }
            Kind::PartSeen | Kind::LeftSeen | Kind::RightSeen => {
                let texts = texts(0)?;
                let columns = (1..args.len()).map(numbers).collect::<Result<Vec<_>>>()?;
                let part = |row: usize| {
                    if !is_there(row) {
                        return None;
                    }
                    let number = |at: usize| columns[at].as_primitive::<Int64Type>().value(row);
                    let seen: Vec<&str> = texts.value(row).graphemes(true).collect();
                    let length = i64::try_from(seen.len()).unwrap_or(i64::MAX);
                    // So many; those that are negative are left out at the other end.
                    let kept = |number: i64| match number < 0 {
                        true => length.saturating_add(number).max(0),
                        false => number.min(length),
                    };
                    let (from, to) = match self.kind {
                        Kind::LeftSeen => (0, kept(number(0))),
                        Kind::RightSeen => (length - kept(number(0)), length),
                        _ => shown::seen(number(0), columns.get(1).map(|_| number(1)), length),
                    };
                    let at = |number: i64| usize::try_from(number).unwrap_or_default().min(seen.len());
                    Some(seen[at(from)..at(to).max(at(from))].concat())
                };
                Arc::new((0..rows).map(part).collect::<StringArray>())
            }
        })
    }

    fn path(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let columns = args.iter().map(|arg| match arg.data_type() {
            DataType::Boolean => Ok(Arc::clone(arg)),
            _ => Ok(cast(arg, &DataType::Utf8)?),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let texts = columns[0].as_string::<i32>();
        let mut lists = ListBuilder::new(StringBuilder::new());
        let mut parts: Vec<Option<String>> = Vec::new();
        for row in 0..rows {
            if texts.is_null(row) {
                lists.append_null();
                parts.push(None);
                continue;
            }
            let mut trims = false;
            let mut separator = paths::Separator::Both;
            for column in columns.iter().skip(1).filter(|column| column.is_valid(row)) {
                match column.data_type() {
                    DataType::Boolean => trims = column.as_boolean().value(row),
                    _ => match column.as_string::<i32>().value(row) {
                        "true" | "TRUE" => trims = true,
                        "false" | "FALSE" => trims = false,
                        name => separator = paths::Separator::of(name),
                    },
                }
            }
            let text = texts.value(row);
            match self.kind {
                Kind::ParsePath => {
                    paths::parsed(text, separator)
                        .into_iter()
                        .for_each(|part| lists.values().append_value(part));
                    lists.append(true);
                }
                Kind::Dirname => parts.push(Some(paths::dirname(text, separator))),
                Kind::Dirpath => parts.push(Some(paths::dirpath(text, separator))),
                _ => parts.push(Some(paths::filename(text, separator, trims))),
            }
        }
        Ok(match self.kind {
            Kind::ParsePath => Arc::new(lists.finish()),
            _ => Arc::new(StringArray::from(parts)),
        })
    }
}

fn next_after(from: f64, to: f64) -> f64 {
    match from.partial_cmp(&to) {
        None => f64::NAN,
        Some(std::cmp::Ordering::Equal) => to,
        Some(std::cmp::Ordering::Less) => from.next_up(),
        Some(std::cmp::Ordering::Greater) => from.next_down(),
    }
}

fn next_after_f32(from: f32, to: f32) -> f32 {
    match from.partial_cmp(&to) {
        None => f32::NAN,
        Some(std::cmp::Ordering::Equal) => to,
        Some(std::cmp::Ordering::Less) => from.next_up(),
        Some(std::cmp::Ordering::Greater) => from.next_down(),
    }
}

impl ScalarUDFImpl for Strings {
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
        let (least, most) = self.arguments;
        if !(least..=most).contains(&types.len()) {
            return Err(self.wrong("another number of arguments"));
        }
        let are_texts = |types: &[DataType]| types.iter().all(|t| t.is_string() || t.is_null());
        let are_numbers = |types: &[DataType]| types.iter().all(|t| t.is_numeric() || t.is_null());
        let (fits, data_type) = match self.kind {
            Kind::Damerau | Kind::Hamming => (are_texts(types), DataType::Int64),
            Kind::Jaro | Kind::JaroWinkler | Kind::Jaccard => (are_texts(types), DataType::Float64),
            Kind::BytesOf { .. } => (are_texts(types), DataType::UInt64),
            Kind::Hex => {
                let fits = |t: &DataType| {
                    t.is_string()
                        || t.is_binary()
                        || t.is_null()
                        || (t.is_integer() && *t != DataType::UInt64)
                };
                (types.iter().all(fits), DataType::Utf8)
            }
            Kind::Bar | Kind::Bytes { .. } => (are_numbers(types), DataType::Utf8),
            Kind::ToBase => (types.iter().all(|t| t.is_integer() || t.is_null()), DataType::Utf8),
            Kind::ParsePath => (are_texts(types), lists::list_type(DataType::Utf8)),
            Kind::Filename => {
                let fits = types.iter().all(|t| t.is_string() || t.is_null() || *t == DataType::Boolean);
                (fits, DataType::Utf8)
            }
            Kind::Dirname | Kind::Dirpath | Kind::JoinPath => (are_texts(types), DataType::Utf8),
            Kind::Printf | Kind::Format => {
                (are_texts(&types[..1]) && !types.iter().any(DataType::is_binary), DataType::Utf8)
            }
            Kind::RegexEscape | Kind::UrlEncode | Kind::UrlDecode => (are_texts(types), DataType::Utf8),
            Kind::Specified => (are_texts(types), DataType::Utf8),
            Kind::LengthSeen => (are_texts(types), DataType::Int64),
            Kind::PartSeen | Kind::LeftSeen | Kind::RightSeen => {
                let whole = types[1..].iter().all(|t| t.is_integer() || t.is_null());
                (are_texts(&types[..1]) && whole, DataType::Utf8)
            }
            Kind::Glob => (are_texts(types), DataType::Boolean),
            Kind::NextAfter => {
                let float = if types.iter().all(|t| *t == DataType::Float32) {
                    DataType::Float32
                } else {
                    DataType::Float64
                };
                (are_numbers(types), float)
            }
            Kind::BitCount => (are_numbers(types), DataType::Int64),
            Kind::Even => (are_numbers(types), DataType::Float64),
            Kind::Divide => {
                let fits = |t: &DataType| t.is_integer() || t.is_null() || decimals::is_whole(t);
                let is_wide = types.iter().any(is_wide);
                (types.iter().all(fits), if is_wide { decimals::WHOLE } else { DataType::Int64 })
            }
        };
        if fits { Ok(data_type) } else { Err(self.wrong("arguments of other types")) }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_arrays(&args, |arrays, rows| self.evaluate(arrays, rows))
    }
}
