//! Functions that PostgreSQL's clients call to learn what the server is and has.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::{SystemTime, UNIX_EPOCH},
};

use arrow_array::{
    Array as _, ArrayRef, BooleanArray, Int64Array, StringArray, cast::AsArray as _, types::Int64Type,
};
use arrow_schema::{DataType, TimeUnit};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::compute::cast,
    common::{Result, ScalarValue},
    logical_expr::{
        ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
    },
};

use super::{DATABASE, Numbers, OWNER, SCHEMA, tables, types};
use crate::{error::Error, functions::cast_to_texts, given};

/// What a function gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Gives {
    Text(&'static str),
    Int(i64),
    Yes,
    No,
    NoText,
    NoInt,
    /// Its first argument, a text.
    First,
    /// A text made of its arguments: see [`text`].
    Made,
    /// The number of the type that a text names; NULL, where there is no such type.
    OfType,
    /// Whether a table is seen without its schema.
    IsVisible,
    /// When the server began.
    Start,
}

/// The time at which functions were made first, which is when a server begins, in microseconds.
static START: LazyLock<i64> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // Default: a clock that is before 1970 says nothing.
    since.ok().and_then(|since| i64::try_from(since.as_micros()).ok()).unwrap_or_default()
});

/// Functions that give the same for all statements.
const FUNCTIONS: [(&str, Gives); 70] = [
    ("version", Gives::Text(concat!("PostgreSQL 15.0 (Basalt ", env!("CARGO_PKG_VERSION"), ")"))),
    ("current_schema", Gives::Text(SCHEMA)),
    ("current_database", Gives::Text(DATABASE)),
    ("current_catalog", Gives::Text(DATABASE)),
    ("current_user", Gives::Text(OWNER)),
    ("current_role", Gives::Text(OWNER)),
    ("session_user", Gives::Text(OWNER)),
    ("user", Gives::Text(OWNER)),
    ("pg_get_userbyid", Gives::Text(OWNER)),
    ("pg_encoding_to_char", Gives::Text("UTF8")),
    ("pg_client_encoding", Gives::Text("UTF8")),
    ("pg_char_to_encoding", Gives::Int(6)),
    ("pg_backend_pid", Gives::Int(0)),
    ("pg_my_temp_schema", Gives::Int(0)),
    ("pg_stat_get_numscans", Gives::Int(0)),
    ("txid_current", Gives::Int(1)),
    ("pg_is_other_temp_schema", Gives::No),
    ("pg_is_in_recovery", Gives::No),
    ("pg_is_wal_replay_paused", Gives::No),
    // CANCEL QUERY stops one; the connections of others are theirs.
    ("pg_terminate_backend", Gives::No),
    ("pg_relation_is_publishable", Gives::No),
    ("has_schema_privilege", Gives::Yes),
    ("has_table_privilege", Gives::Yes),
    ("has_any_column_privilege", Gives::Yes),
    ("has_column_privilege", Gives::Yes),
    ("has_database_privilege", Gives::Yes),
    ("has_function_privilege", Gives::Yes),
    ("pg_has_role", Gives::Yes),
    ("pg_table_is_visible", Gives::IsVisible),
    ("pg_type_is_visible", Gives::Yes),
    ("pg_function_is_visible", Gives::Yes),
    ("pg_get_expr", Gives::NoText),
    ("pg_get_constraintdef", Gives::NoText),
    ("pg_get_indexdef", Gives::NoText),
    // Of statements that name it there is another: see [`of_views`].
    ("pg_get_viewdef", Gives::NoText),
    ("pg_get_ruledef", Gives::NoText),
    ("pg_get_triggerdef", Gives::NoText),
    ("pg_get_partkeydef", Gives::NoText),
    ("pg_get_functiondef", Gives::NoText),
    ("pg_get_function_arguments", Gives::NoText),
    ("pg_get_function_result", Gives::NoText),
    ("pg_get_function_identity_arguments", Gives::NoText),
    ("pg_get_serial_sequence", Gives::NoText),
    ("pg_get_statisticsobjdef_columns", Gives::NoText),
    ("pg_tablespace_location", Gives::NoText),
    ("obj_description", Gives::NoText),
    ("col_description", Gives::NoText),
    ("shobj_description", Gives::NoText),
    ("pg_advisory_unlock_all", Gives::NoText),
    ("pg_postmaster_start_time", Gives::Start),
    ("inet_server_addr", Gives::NoText),
    ("inet_client_addr", Gives::NoText),
    ("inet_server_port", Gives::NoInt),
    ("pg_relation_size", Gives::NoInt),
    ("pg_table_size", Gives::NoInt),
    ("pg_indexes_size", Gives::NoInt),
    ("pg_total_relation_size", Gives::NoInt),
    ("pg_database_size", Gives::NoInt),
    ("pg_tablespace_size", Gives::NoInt),
    ("array_to_string", Gives::First),
    ("pg_size_pretty", Gives::Made),
    ("format_type", Gives::Made),
    ("quote_ident", Gives::Made),
    ("quote_literal", Gives::Made),
    ("quote_nullable", Gives::Made),
    ("current_setting", Gives::Made),
    ("set_config", Gives::Made),
    ("to_regtype", Gives::Made),
    ("basalt_type_name", Gives::Made),
    ("basalt_type_number", Gives::OfType),
];

/// All that give the same for all statements.
pub(crate) fn all() -> Vec<ScalarUDF> {
    LazyLock::force(&START);
    FUNCTIONS.iter().map(|(name, gives)| ScalarUDF::new_from_impl(Function::new(name, *gives))).collect()
}

/// Whether a name is that of one of them.
pub(crate) fn gives_value(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, _)| *known == name)
}

/// Functions over the names of tables.
pub(crate) fn of_names(numbers: Arc<Numbers>) -> Vec<ScalarUDF> {
    [Naming::Name, Naming::Number]
        .map(|naming| {
            ScalarUDF::new_from_impl(Named { naming, numbers: Arc::clone(&numbers), signature: any() })
        })
        .to_vec()
}

/// The texts of views by their numbers.
pub(crate) fn of_views(texts: BTreeMap<i64, Arc<str>>) -> ScalarUDF {
    ScalarUDF::new_from_impl(Definitions { texts, signature: any() })
}

fn any() -> Signature {
    Signature::one_of(vec![TypeSignature::VariadicAny, TypeSignature::Nullary], Volatility::Stable)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    name: &'static str,
    gives: Gives,
    signature: Signature,
}

impl Function {
    fn new(name: &'static str, gives: Gives) -> Self {
        Self { name, gives, signature: any() }
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.gives {
            Gives::Text(_) | Gives::NoText | Gives::First | Gives::Made => DataType::Utf8,
            Gives::Int(_) | Gives::NoInt | Gives::OfType => DataType::Int64,
            Gives::Yes | Gives::No | Gives::IsVisible => DataType::Boolean,
            Gives::Start => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = match self.gives {
            Gives::Text(text) => ScalarValue::Utf8(Some(text.to_owned())),
            Gives::Int(value) => ScalarValue::Int64(Some(value)),
            Gives::Yes => ScalarValue::Boolean(Some(true)),
            Gives::No => ScalarValue::Boolean(Some(false)),
            Gives::NoText => ScalarValue::Utf8(None),
            Gives::NoInt => ScalarValue::Int64(None),
            Gives::Start => ScalarValue::TimestampMicrosecond(Some(*START), Some("UTC".into())),
            Gives::First => match args.args.first() {
                Some(first) => {
                    let first = first.to_array(args.number_rows)?;
                    return Ok(ColumnarValue::Array(cast(&first, &DataType::Utf8)?));
                }
                None => ScalarValue::Utf8(None),
            },
            Gives::Made => return made(self.name, &args),
            Gives::OfType => {
                let names = strings(&args, 0)?;
                let numbers: Int64Array = names.iter().map(|name| name.and_then(types::number)).collect();
                return Ok(ColumnarValue::Array(Arc::new(numbers)));
            }
            Gives::IsVisible => {
                let numbers = integers(&args, 0)?;
                let visible = |number: i64| !tables::INFORMATION.contains(&number);
                let visible: BooleanArray = numbers.iter().map(|number| number.map(visible)).collect();
                return Ok(ColumnarValue::Array(Arc::new(visible)));
            }
        };
        Ok(ColumnarValue::Scalar(value))
    }
}

/// An argument as integers; one that is not there, or is none, is NULL.
fn integers(args: &ScalarFunctionArgs, at: usize) -> Result<Int64Array> {
    let Some(arg) = args.args.get(at) else { return Ok(Int64Array::new_null(args.number_rows)) };
    let array = cast(&arg.to_array(args.number_rows)?, &DataType::Int64)?;
    Ok(array.as_primitive::<Int64Type>().clone())
}

fn strings(args: &ScalarFunctionArgs, at: usize) -> Result<StringArray> {
    let Some(arg) = args.args.get(at) else { return Ok(StringArray::new_null(args.number_rows)) };
    cast_to_texts(&arg.to_array(args.number_rows)?)
}

fn made(name: &str, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let texts: StringArray = match name {
        "format_type" => {
            let (types, modifiers) = (integers(args, 0)?, integers(args, 1)?);
            let modifier = |row: usize| if modifiers.is_valid(row) { modifiers.value(row) } else { -1 };
            let format = |(row, of): (usize, Option<i64>)| {
                of.map(|of| types::format(of, modifier(row)).unwrap_or_else(|| "???".to_owned()))
            };
            types.iter().enumerate().map(format).collect()
        }
        "to_regtype" => strings(args, 0)?.iter().map(|name| name.and_then(types::shown)).collect(),
        // Numbers of no type too.
        "basalt_type_name" => {
            let shown = |name: &str| types::shown(name).unwrap_or_else(|| name.to_owned());
            strings(args, 0)?.iter().map(|name| name.map(shown)).collect()
        }
        "pg_size_pretty" => integers(args, 0)?.iter().map(|size| size.map(pretty)).collect(),
        "quote_ident" => strings(args, 0)?.iter().map(|name| name.map(quoted)).collect(),
        "quote_literal" => strings(args, 0)?.iter().map(|text| text.map(given::quoted)).collect(),
        "quote_nullable" => {
            let literal = |text: Option<&str>| text.map_or_else(|| "NULL".to_owned(), given::quoted);
            strings(args, 0)?.iter().map(|text| Some(literal(text))).collect()
        }
        // As if it were set: these change no answer. Others are set by SET.
        "set_config" => {
            let (names, values) = (strings(args, 0)?, strings(args, 1)?);
            let set = |(name, value): (Option<&str>, _)| match name {
                Some(name) if setting(name).is_none() => {
                    Err(Error::invalid(format!("set_config takes no setting {name:?}: SET does")))
                }
                _ => Ok(value),
            };
            names.iter().zip(values.iter()).map(set).collect::<std::result::Result<_, _>>()?
        }
        _ => {
            // A second argument says whether a setting may be missing.
            let may_miss = match args.args.get(1) {
                Some(ColumnarValue::Scalar(ScalarValue::Boolean(may))) => may.unwrap_or(false),
                Some(_) => true,
                None => false,
            };
            let known = |name: Option<&str>| match name.map(|name| (name, setting(name))) {
                Some((name, None)) if !may_miss => Err(Error::invalid(format!("no setting {name:?}"))),
                known => Ok(known.and_then(|(_, value)| value)),
            };
            strings(args, 0)?.iter().map(known).collect::<std::result::Result<_, _>>()?
        }
    };
    Ok(ColumnarValue::Array(Arc::new(texts)))
}

/// As PostgreSQL: up to 10 KiB in bytes, then in the unit of which there are less than 10,240, to its nearest.
fn pretty(bytes: i64) -> String {
    if bytes.unsigned_abs() < 10 * 1024 {
        return format!("{bytes} bytes");
    }
    // Halves of a unit.
    let mut halves = bytes / 512;
    let units = ["kB", "MB", "GB", "TB", "PB"];
    let mut unit = 0;
    while halves.unsigned_abs() >= 20 * 1024 - 1 && unit + 1 < units.len() {
        halves /= 1024;
        unit += 1;
    }
    format!("{} {}", (halves + halves.signum()) / 2, units[unit])
}

/// A name as it stands in a statement.
pub(crate) fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match name.chars().all(plain) && name.starts_with(|c: char| !c.is_ascii_digit()) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Settings as they are at first: what a connection has set, its door tells by SHOW.
pub(super) const SETTINGS: [(&str, &str); 19] = [
    ("search_path", "\"$user\", public"),
    ("server_version", "15.0"),
    ("server_version_num", "150000"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("TimeZone", "UTC"),
    ("DateStyle", "ISO, MDY"),
    ("transaction_isolation", "read committed"),
    ("default_transaction_isolation", "read committed"),
    ("password_encryption", "scram-sha-256"),
    ("row_security", "on"),
    ("standard_conforming_strings", "on"),
    ("max_index_keys", "32"),
    ("max_identifier_length", "128"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("jit", "off"),
];

fn setting(name: &str) -> Option<String> {
    let known = SETTINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    known.map(|(_, value)| (*value).to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Naming {
    /// From a number to a name: what a `regclass` is as text. From a text to the number, which `'t'::regclass` is.
    Name,
    /// From a name to a number, which stands for itself; NULL, where there is no such table.
    Number,
}

#[derive(Debug)]
struct Named {
    naming: Naming,
    numbers: Arc<Numbers>,
    signature: Signature,
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.naming == other.naming && Arc::ptr_eq(&self.numbers, &other.numbers)
    }
}

impl Eq for Named {}

impl std::hash::Hash for Named {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.naming.hash(state);
    }
}

impl ScalarUDFImpl for Named {
    fn name(&self) -> &str {
        match self.naming {
            Naming::Name => "regclass_name",
            Naming::Number => "to_regclass",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, of: &[DataType]) -> Result<DataType> {
        Ok(match self.naming {
            Naming::Name if of.first().is_some_and(DataType::is_string) => DataType::Int64,
            Naming::Name => DataType::Utf8,
            Naming::Number => DataType::Int64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let known = |name: &str| name.parse().ok().or_else(|| self.numbers.find(name));
        let array: ArrayRef = match self.naming {
            Naming::Name if args.args.first().is_some_and(|of| of.data_type().is_string()) => {
                let none = |name: &str| Error::new(ErrorKind::TableNotFound, format!("no table {name:?}"));
                let number = |name: &str| known(name).ok_or_else(|| none(name));
                let names = strings(&args, 0)?;
                let numbers = names.iter().map(|name| name.map(number).transpose());
                Arc::new(numbers.collect::<std::result::Result<Int64Array, _>>()?)
            }
            Naming::Name => {
                let name =
                    |number: i64| self.numbers.name(number).map_or_else(|| number.to_string(), str::to_owned);
                Arc::new(integers(&args, 0)?.iter().map(|number| number.map(name)).collect::<StringArray>())
            }
            Naming::Number => {
                Arc::new(strings(&args, 0)?.iter().map(|name| name.and_then(known)).collect::<Int64Array>())
            }
        };
        Ok(ColumnarValue::Array(array))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Definitions {
    texts: BTreeMap<i64, Arc<str>>,
    signature: Signature,
}

impl ScalarUDFImpl for Definitions {
    fn name(&self) -> &str {
        "pg_get_viewdef"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let text = |number: Option<i64>| self.texts.get(&number?).map(|text| &**text);
        let texts: StringArray = integers(&args, 0)?.iter().map(text).collect();
        Ok(ColumnarValue::Array(Arc::new(texts)))
    }
}
