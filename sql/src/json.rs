//! What JSON texts hold: `json_extract` (`->`), `json_extract_string` (`->>`) and what is asked about them, by paths as DuckDB,
//! SQLite and PostgreSQL write them. There is no type of its own: JSON is a text, as which nested columns of files are loaded.

mod path;

use std::{str::FromStr, sync::Arc};

use arrow_array::{
    Array as _, ArrayRef, ArrowPrimitiveType, BooleanArray, Int64Array, StringArray,
    builder::{ListBuilder, PrimitiveBuilder, StringBuilder},
    cast::AsArray as _,
    types::{Float32Type, Float64Type, Int64Type},
};
use arrow_schema::DataType;
use basalt_core::error::ErrorKind;
use basalt_nested::says_infinity;
use datafusion::{
    common::{DFSchema, Result},
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable as _, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
    },
};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use self::path::{Step, find, of_braces, steps};
use crate::{error::Error, functions::of_arrays, lists};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// The text as it is, if it is JSON.
    Checked,
    IsValid,
    /// What a path leads to, as it is written.
    Extract,
    /// The same, a string as its text and null as NULL.
    Text,
    /// The same, of what has no parts.
    Scalar,
    Exists,
    /// The type in DuckDB's words, and in PostgreSQL's.
    Type,
    TypeOf,
    Length,
    Keys,
    /// By a path in braces.
    ExtractBraces,
    TextBraces,
    /// By keys that are each an argument.
    ExtractKeys,
    TextKeys,
    /// The values of an array as a list: as they are written, as texts, and as floats. In a cast that is tried, what is none
    /// is NULL.
    Elements,
    ElementTexts {
        is_try: bool,
    },
    ElementFloats {
        is_try: bool,
    },
    ElementReals {
        is_try: bool,
    },
}

/// Its kind, name and other names.
const ALL: [(Kind, &str, &[&str]); 21] = [
    (Kind::Checked, "json", &[]),
    (Kind::IsValid, "json_valid", &[]),
    (Kind::Extract, "json_extract", &[]),
    (Kind::Text, "json_extract_string", &[]),
    (Kind::Scalar, "json_value", &[]),
    (Kind::Exists, "json_exists", &[]),
    (Kind::Type, "json_type", &[]),
    (Kind::TypeOf, "json_typeof", &["jsonb_typeof"]),
    (Kind::Length, "json_array_length", &["jsonb_array_length"]),
    (Kind::Keys, "json_keys", &[]),
    (Kind::ExtractBraces, "basalt_json_extract_braces", &[]),
    (Kind::TextBraces, "basalt_json_text_braces", &[]),
    (Kind::ExtractKeys, "json_extract_path", &["jsonb_extract_path"]),
    (Kind::TextKeys, "json_extract_path_text", &["jsonb_extract_path_text"]),
    (Kind::Elements, "basalt_json_elements", &[]),
    (Kind::ElementTexts { is_try: false }, TEXTS, &[]),
    (Kind::ElementTexts { is_try: true }, TRIED_TEXTS, &[]),
    (Kind::ElementFloats { is_try: false }, FLOATS, &[]),
    (Kind::ElementFloats { is_try: true }, TRIED_FLOATS, &[]),
    (Kind::ElementReals { is_try: false }, REALS, &[]),
    (Kind::ElementReals { is_try: true }, TRIED_REALS, &[]),
];
/// What casts of JSON to lists are made of.
const TEXTS: &str = "basalt_json_texts";
const TRIED_TEXTS: &str = "basalt_json_tried_texts";
const FLOATS: &str = "basalt_json_floats";
const TRIED_FLOATS: &str = "basalt_json_tried_floats";
const REALS: &str = "basalt_json_reals";
const TRIED_REALS: &str = "basalt_json_tried_reals";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Json {
    kind: Kind,
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

/// The functions, for the planner.
pub(crate) fn all() -> impl Iterator<Item = ScalarUDF> {
    ALL.into_iter().map(|(kind, name, aliases)| function(kind, name, aliases))
}

fn function(kind: Kind, name: &'static str, aliases: &[&str]) -> ScalarUDF {
    let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(Json { kind, name, aliases, signature })
}

/// Whether a cast is one of texts to lists of what has a text in JSON: others, and lists in lists, are no casts of theirs.
pub(crate) fn is_list(json: &Expr, list: &DataType, schema: &DFSchema) -> bool {
    let is_one = |item: &DataType| {
        item.is_string()
            || item.is_integer()
            || matches!(item, DataType::Boolean | DataType::Float32 | DataType::Float64)
            || matches!(item, DataType::Decimal128(..) | DataType::Date32 | DataType::Timestamp(..))
    };
    lists::item(list).is_some_and(|item| is_one(&item))
        && json.get_type(schema).is_ok_and(|of| of.is_string())
}

/// A text that is an array of JSON as a list, which is cast to the one that is wanted then; NULL where that is tried, and the
/// text is no array.
pub(crate) fn as_list(json: Expr, list: &DataType, is_try: bool) -> Expr {
    let (kind, names) = match lists::item(list) {
        // Arrow takes a number that is too large for infinity.
        Some(DataType::Float64) => (Kind::ElementFloats { is_try }, [FLOATS, TRIED_FLOATS]),
        Some(DataType::Float32) => (Kind::ElementReals { is_try }, [REALS, TRIED_REALS]),
        _ => (Kind::ElementTexts { is_try }, [TEXTS, TRIED_TEXTS]),
    };
    function(kind, names[usize::from(is_try)], &[]).call(vec![json])
}

impl Kind {
    /// How many paths it takes, at least and at most.
    fn paths(self) -> (usize, usize) {
        match self {
            Self::Checked | Self::IsValid | Self::TypeOf => (0, 0),
            Self::Elements => (0, 0),
            Self::ElementTexts { .. } | Self::ElementFloats { .. } | Self::ElementReals { .. } => (0, 0),
            Self::Type | Self::Length | Self::Keys => (0, 1),
            Self::ExtractKeys | Self::TextKeys => (1, usize::MAX),
            _ => (1, 1),
        }
    }
}

impl ScalarUDFImpl for Json {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |data_type: &DataType| data_type.is_string() || data_type.is_null();
        let (least, most) = self.kind.paths();
        let takes_places = !matches!(self.kind, Kind::ExtractBraces | Kind::TextBraces);
        let path = |data_type: &DataType| match data_type {
            text if is_text(text) => Some(DataType::Utf8),
            number if number.is_integer() && takes_places => Some(DataType::Int64),
            _ => None,
        };
        let taken = types.split_first().filter(|(json, _)| is_text(json)).and_then(|(_, paths)| {
            let fits = (least..=most).contains(&paths.len());
            let json = std::iter::once(Some(DataType::Utf8)).filter(|_| fits);
            fits.then(|| json.chain(paths.iter().map(path)).collect::<Option<Vec<_>>>()).flatten()
        });
        taken.ok_or_else(|| {
            let takes = match (least, most) {
                (0, 0) => "a JSON text",
                (0, _) => "a JSON text, and a path such as '$.key[0]' or none",
                (_, 1) => "a JSON text and a path, such as '$.key[0]', a key or a place",
                _ => "a JSON text and keys",
            };
            Error::new(ErrorKind::TypeMismatch, format!("{} takes {takes}", self.name)).into()
        })
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::IsValid | Kind::Exists => DataType::Boolean,
            Kind::Length => DataType::Int64,
            Kind::Keys | Kind::Elements | Kind::ElementTexts { .. } => lists::list_type(DataType::Utf8),
            Kind::ElementFloats { .. } => lists::list_type(DataType::Float64),
            Kind::ElementReals { .. } => lists::list_type(DataType::Float32),
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_arrays(&args, |arrays, rows| {
            let texts = arrays[0].as_string::<i32>();
            let mut paths = Paths { kind: self.kind, of: &arrays[1..], last: None };
            let found = |row: usize, paths: &mut Paths<'_>| {
                if texts.is_null(row) {
                    return Ok(None);
                }
                let Some(steps) = paths.at(row)? else { return Ok(None) };
                find(texts.value(row), steps).map_err(|error| malformed(texts.value(row), &error))
            };
            let rows = 0..rows;
            Ok(match self.kind {
                Kind::IsValid => {
                    let is_valid = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
                    Arc::new(
                        rows.map(|row| texts.is_valid(row).then(|| is_valid(texts.value(row))))
                            .collect::<BooleanArray>(),
                    )
                }
                Kind::Exists => {
                    let exists = rows.map(|row| {
                        let is_known = texts.is_valid(row) && paths.at(row)?.is_some();
                        Ok(if is_known { Some(found(row, &mut paths)?.is_some()) } else { None })
                    });
                    Arc::new(exists.collect::<Result<BooleanArray, Error>>()?) as ArrayRef
                }
                Kind::Length => {
                    let lengths = rows.map(|row| found(row, &mut paths)?.map(length).transpose());
                    Arc::new(lengths.collect::<Result<Int64Array, Error>>()?)
                }
                Kind::Keys => {
                    let mut lists = ListBuilder::new(StringBuilder::new());
                    for row in rows {
                        lists.append_option(match found(row, &mut paths)? {
                            Some(json) => Some(keys(json)?.into_iter().map(Some)),
                            None => None,
                        });
                    }
                    Arc::new(lists.finish())
                }
                kind @ (Kind::Elements | Kind::ElementTexts { .. }) => {
                    let mut lists = ListBuilder::new(StringBuilder::new());
                    for row in rows {
                        let values = kind.values(found(row, &mut paths))?;
                        for value in values.iter().flatten() {
                            lists.values().append_option(kind.tried(kind.shown(value.get()))?);
                        }
                        lists.append(values.is_some());
                    }
                    Arc::new(lists.finish())
                }
                kind @ Kind::ElementFloats { .. } => {
                    floats::<Float64Type>(kind, rows.map(|row| found(row, &mut paths)), "double")?
                }
                kind @ Kind::ElementReals { .. } => {
                    floats::<Float32Type>(kind, rows.map(|row| found(row, &mut paths)), "real")?
                }
                kind => {
                    let shown = rows.map(|row| {
                        found(row, &mut paths)?.map(|json| kind.shown(json)).transpose().map(Option::flatten)
                    });
                    Arc::new(shown.collect::<Result<StringArray, Error>>()?)
                }
            })
        })
    }
}

/// The paths of rows, which mostly have the same.
struct Paths<'a> {
    kind: Kind,
    of: &'a [ArrayRef],
    last: Option<(String, Vec<Step>)>,
}

impl Paths<'_> {
    /// `None`: one of them is null.
    fn at(&mut self, row: usize) -> Result<Option<&[Step]>, Error> {
        if self.of.iter().any(|path| path.is_null(row)) {
            return Ok(None);
        }
        let [path] = self.of else {
            let steps = self.of.iter().map(|key| step(key, row)).collect();
            return Ok(Some(&self.last.insert((String::new(), steps)).1));
        };
        let Some(texts) = path.as_string_opt::<i32>() else {
            return Ok(Some(&self.last.insert((String::new(), vec![step(path, row)])).1));
        };
        let text = texts.value(row);
        if self.last.as_ref().is_none_or(|(last, _)| last != text) {
            let steps = match self.kind {
                Kind::ExtractBraces | Kind::TextBraces => of_braces(text)?,
                Kind::ExtractKeys | Kind::TextKeys => vec![Step::either(text)],
                _ => steps(text)?,
            };
            self.last = Some((text.to_owned(), steps));
        }
        Ok(self.last.as_ref().map(|(_, steps)| steps.as_slice()))
    }
}

/// The step that an argument is, a key or a place.
fn step(of: &ArrayRef, row: usize) -> Step {
    match of.as_primitive_opt::<Int64Type>() {
        Some(numbers) => Step::place(numbers.value(row)),
        None => Step::either(of.as_string::<i32>().value(row)),
    }
}

impl Kind {
    /// The values of an array, if it is one that is there.
    fn values(self, json: Result<Option<&str>, Error>) -> Result<Option<Vec<&RawValue>>, Error> {
        self.tried(json.and_then(|json| json.map(elements).transpose().map(Option::flatten)))
    }

    /// What is made of a value; nothing, where that is tried and is an error.
    fn tried<T>(self, made: Result<Option<T>, Error>) -> Result<Option<T>, Error> {
        let is_try = match self {
            Self::ElementTexts { is_try }
            | Self::ElementFloats { is_try }
            | Self::ElementReals { is_try } => is_try,
            _ => false,
        };
        match made {
            Err(_) if is_try => Ok(None),
            made => made,
        }
    }

    /// What is shown of a value, of which the text is JSON; `None`: NULL.
    fn shown(self, json: &str) -> Result<Option<String>, Error> {
        let first = json.as_bytes().first();
        Ok(match self {
            Self::Type => Some(type_of(json).to_owned()),
            Self::TypeOf => Some(
                match type_of(json) {
                    "VARCHAR" => "string",
                    "UBIGINT" | "BIGINT" | "DOUBLE" => "number",
                    "OBJECT" => "object",
                    "ARRAY" => "array",
                    "BOOLEAN" => "boolean",
                    _ => "null",
                }
                .to_owned(),
            ),
            Self::Scalar if matches!(first, Some(b'{' | b'[')) => None,
            Self::Text
            | Self::Scalar
            | Self::TextBraces
            | Self::TextKeys
            | Self::ElementTexts { .. }
            | Self::ElementFloats { .. }
            | Self::ElementReals { .. } => match first {
                Some(b'"') => Some(serde_json::from_str(json).map_err(|error| malformed(json, &error))?),
                Some(b'n') => None,
                _ => Some(json.to_owned()),
            },
            _ => Some(json.to_owned()),
        })
    }
}

/// The type of a value in DuckDB's words.
fn type_of(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'{') => "OBJECT",
        Some(b'[') => "ARRAY",
        Some(b'"') => "VARCHAR",
        Some(b't' | b'f') => "BOOLEAN",
        Some(b'n') => "NULL",
        _ if json.parse::<u64>().is_ok() => "UBIGINT",
        _ if json.parse::<i64>().is_ok() => "BIGINT",
        _ => "DOUBLE",
    }
}

/// Of how many values an array is; of anything else 0.
fn length(json: &str) -> Result<i64, Error> {
    match json.starts_with('[') {
        true => {
            let values: Vec<IgnoredAny> =
                serde_json::from_str(json).map_err(|error| malformed(json, &error))?;
            // Default: there is no text of so many.
            Ok(i64::try_from(values.len()).unwrap_or(i64::MAX))
        }
        false => Ok(0),
    }
}

/// The values of an array; `None`: it is null.
fn elements(json: &str) -> Result<Option<Vec<&RawValue>>, Error> {
    match json.as_bytes().first() {
        Some(b'[') => serde_json::from_str(json).map(Some).map_err(|error| malformed(json, &error)),
        Some(b'n') => Ok(None),
        _ => Err(Error::new(ErrorKind::TypeMismatch, format!("{} is no array of JSON", shortened(json)))),
    }
}

/// Lists of the floats that arrays of JSON hold.
fn floats<'j, T>(
    kind: Kind,
    rows: impl Iterator<Item = Result<Option<&'j str>, Error>>,
    name: &str,
) -> Result<ArrayRef, Error>
where
    T: ArrowPrimitiveType,
    T::Native: FromStr + Into<f64>,
{
    let mut lists = ListBuilder::new(PrimitiveBuilder::<T>::new());
    for json in rows {
        let values = kind.values(json)?;
        for value in values.iter().flatten() {
            let text = kind.shown(value.get());
            let made = text.and_then(|text| text.map(|text| float::<T::Native>(&text, name)).transpose());
            lists.values().append_option(kind.tried(made)?);
        }
        lists.append(values.is_some());
    }
    Ok(Arc::new(lists.finish()))
}

/// A float, which is none where it is too large for one.
fn float<F: FromStr + Into<f64> + Copy>(text: &str, name: &str) -> Result<F, Error> {
    let fits = |float: &F| {
        let wide: f64 = (*float).into();
        wide.is_finite() || says_infinity(text) || wide.is_nan()
    };
    let float = text.trim().parse::<F>().ok().filter(fits);
    float.ok_or_else(|| Error::new(ErrorKind::TypeMismatch, format!("{} is no {name}", shortened(text))))
}

/// The keys of an object, in their order; of anything else none.
fn keys(json: &str) -> Result<Vec<String>, Error> {
    match json.starts_with('{') {
        true => path::keys(json).map_err(|error| malformed(json, &error)),
        false => Ok(Vec::new()),
    }
}

fn malformed(json: &str, error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::TypeMismatch, format!("{} is not JSON: {error}", shortened(json)))
}

/// The beginning of a text, in quotes.
fn shortened(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    let more = if start.len() < text.len() { "..." } else { "" };
    format!("{start:?}{more}")
}
