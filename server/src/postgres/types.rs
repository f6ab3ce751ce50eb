//! Types by their numbers, and the values of parameters.

use basalt_core::{query::Literal, schema::DataType, time};
use basalt_nested::says_infinity;
use basalt_sql::{TextOf, system::postgres_type};
use bytes::Bytes;

use super::{
    error::{Error, Result},
    numeric,
};

pub(super) const BOOL: u32 = 16;
pub(super) const BYTEA: u32 = 17;
pub(super) const INT8: u32 = 20;
pub(super) const INT2: u32 = 21;
pub(super) const INT4: u32 = 23;
pub(super) const TEXT: u32 = 25;
pub(super) const OID: u32 = 26;
/// Numbers of types and tables as a list.
pub(super) const OIDS: u32 = 1028;
pub(super) const FLOAT4: u32 = 700;
pub(super) const FLOAT8: u32 = 701;
/// A text that may be of any type.
const UNKNOWN: u32 = 705;
pub(super) const DATE: u32 = 1082;
const TIME: u32 = 1083;
const TIMESTAMP: u32 = 1114;
pub(super) const TIMESTAMPTZ: u32 = 1184;
pub(super) const NUMERIC: u32 = 1700;
/// Types whose binary form is their text: "char", name, json, xml, bpchar, varchar, and those above.
const TEXTS: [u32; 8] = [18, 19, TEXT, 114, 142, UNKNOWN, 1042, 1043];

/// An interval.
pub(super) const SPAN: u32 = 1186;
const SPANS: u32 = 1187;
const UUID: u32 = 2950;
const UUIDS: u32 = 2951;
const BYTEAS: u32 = 1001;
/// Arrays, and what they are of.
const ARRAYS: [(u32, u32); 16] = [
    (1000, BOOL),
    (1005, INT2),
    (1007, INT4),
    (1016, INT8),
    (1009, TEXT),
    (1014, 1042),
    (1015, 1043),
    (1021, FLOAT4),
    (1022, FLOAT8),
    (1182, DATE),
    (1115, TIMESTAMP),
    (1185, TIMESTAMPTZ),
    (SPANS, SPAN),
    (OIDS, OID),
    (1231, NUMERIC),
    (UUIDS, UUID),
];

/// Days, and microseconds, from 1970-01-01 to 2000-01-01, from which the binary forms count.
pub(super) const EPOCH_DAYS: i32 = 10_957;
/// See [`EPOCH_DAYS`].
pub(super) const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// As what a parameter is told that is taken as a text which says something else.
pub(super) fn told(text: TextOf) -> u32 {
    match text {
        TextOf::Bytes => BYTEA,
        TextOf::Time => TIME,
        TextOf::Interval => SPAN,
        TextOf::Intervals => SPANS,
        TextOf::List(item) => {
            let of = postgres_type(&item.to_arrow()).oid;
            // Default: as a text alone.
            ARRAYS.iter().find(|(_, element)| *element == of).map_or(TEXT, |(array, _)| *array)
        }
    }
}

/// The type of the values of [`parameter`], where it is one for all values of that type.
pub(super) fn given(oid: u32) -> Option<DataType> {
    Some(match oid {
        BOOL => DataType::Bool,
        INT2 | INT4 | INT8 | OID => DataType::Int64,
        FLOAT4 | FLOAT8 => DataType::Float64,
        DATE => DataType::Date32,
        TIMESTAMP | TIMESTAMPTZ => DataType::Timestamp,
        TEXT | 1042 | 1043 => DataType::Utf8,
        _ => return None,
    })
}

/// The value of a parameter that a client says is of a type.
pub(super) fn parameter(oid: u32, format: i16, bytes: &Bytes) -> Result<Literal> {
    if format == 0 || TEXTS.contains(&oid) {
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|_| Error::new("22021", "a parameter is no UTF-8"))?;
        return of_text(oid, text);
    }
    let wrong = || Error::new("22P03", format!("incorrect binary data of a parameter of type {oid}"));
    Ok(match oid {
        BOOL => match bytes.as_ref() {
            [0] => Literal::Bool(false),
            [1] => Literal::Bool(true),
            _ => return Err(wrong()),
        },
        INT2 => Literal::Int(i16::from_be_bytes(fixed(bytes).ok_or_else(wrong)?).into()),
        INT4 => Literal::Int(i32::from_be_bytes(fixed(bytes).ok_or_else(wrong)?).into()),
        INT8 => Literal::Int(i64::from_be_bytes(fixed(bytes).ok_or_else(wrong)?)),
        OID => Literal::Int(u32::from_be_bytes(fixed(bytes).ok_or_else(wrong)?).into()),
        FLOAT4 => Literal::Float(f32::from_be_bytes(fixed(bytes).ok_or_else(wrong)?).into()),
        FLOAT8 => Literal::Float(f64::from_be_bytes(fixed(bytes).ok_or_else(wrong)?)),
        // The least and the greatest stand for infinity, of which there is none here.
        DATE => {
            let days = i32::from_be_bytes(fixed(bytes).ok_or_else(wrong)?);
            let days = Some(days).filter(|days| *days != i32::MIN);
            let days = days.and_then(|days| days.checked_add(EPOCH_DAYS));
            Literal::Date(days.ok_or_else(|| Error::new("22008", "date out of range"))?)
        }
        TIMESTAMP | TIMESTAMPTZ => {
            let micros = i64::from_be_bytes(fixed(bytes).ok_or_else(wrong)?);
            let micros = Some(micros).filter(|micros| *micros != i64::MIN);
            let micros = micros.and_then(|micros| micros.checked_add(EPOCH_MICROS));
            Literal::Timestamp(micros.ok_or_else(|| Error::new("22008", "timestamp out of range"))?)
        }
        TIME => {
            let micros = i64::from_be_bytes(fixed(bytes).ok_or_else(wrong)?);
            let text = (0..86_400_000_000).contains(&micros).then(|| time::format_timestamp(micros));
            let clock = text.as_deref().and_then(|text| text.strip_suffix('Z')?.split_once('T'));
            Literal::Text(clock.ok_or_else(wrong)?.1.to_owned())
        }
        NUMERIC => numeric::of_text(&numeric::text(bytes)?.ok_or_else(wrong)?)?.ok_or_else(wrong)?,
        BYTEA => Literal::Text(as_text(bytes)),
        SPAN => {
            let part = |at: usize| Some(i32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
            let micros = bytes.first_chunk().map(|micros| i64::from_be_bytes(*micros));
            let (Some(micros), Some(days), Some(months), 16) = (micros, part(8), part(12), bytes.len())
            else {
                return Err(wrong());
            };
            Literal::Text(format!("{months} months {days} days {micros} microseconds"))
        }
        UUID => Literal::Text(uuid(&fixed(bytes).ok_or_else(wrong)?)),
        array if element(array).is_some() => {
            // Default: it is one, as was seen.
            let of = element(array).unwrap_or(TEXT);
            Literal::Text(array_text(of, bytes)?.ok_or_else(wrong)?)
        }
        other => {
            let message = format!("parameters of type {other} in binary form are not supported");
            return Err(Error::unsupported(message));
        }
    })
}

/// Bytes as SQL has a text of them.
fn as_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

fn of_hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| {
        let digits = str::from_utf8(pair).ok().filter(|pair| pair.len() == 2 && !pair.starts_with('+'))?;
        u8::from_str_radix(digits, 16).ok()
    };
    digits.as_bytes().chunks(2).map(pair).collect()
}

fn uuid(bytes: &[u8; 16]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]).join("-")
}

/// As all of them are written here; drivers leave the hyphens out, or have capital letters.
fn uuid_of_text(text: &str) -> Option<String> {
    let digits: String = text.trim_matches(['{', '}']).chars().filter(|char| *char != '-').collect();
    let bytes = of_hexadecimal(&digits)?;
    Some(uuid(bytes.as_slice().try_into().ok()?))
}

fn uuids_of_text(text: &str) -> Option<String> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let value = |text: &str| match text.trim() {
        null if null.eq_ignore_ascii_case("null") => Some("NULL".to_owned()),
        one => uuid_of_text(one.trim_matches('"')),
    };
    let values: Option<Vec<_>> = inner.split(',').filter(|_| !inner.trim().is_empty()).map(value).collect();
    Some(format!("{{{}}}", values?.join(",")))
}

/// What an array is of.
fn element(oid: u32) -> Option<u32> {
    ARRAYS.iter().find(|(array, _)| *array == oid).map(|(_, of)| *of)
}

/// An array in binary form as its text has it, which SQL takes behind ANY; `None`: it is none, or one of several dimensions.
fn array_text(of: u32, bytes: &Bytes) -> Result<Option<String>> {
    let int = |at: usize| Some(i32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (Some(dimensions), Some(given)) = (int(0), int(8)) else { return Ok(None) };
    if dimensions == 0 {
        return Ok(Some("{}".to_owned()));
    }
    let count = int(12).filter(|_| dimensions == 1 && given.cast_unsigned() == of);
    let Some(count) = count.and_then(|count| usize::try_from(count).ok()) else { return Ok(None) };
    let (mut at, mut texts) = (20, Vec::new());
    for _ in 0..count {
        let Some(length) = int(at) else { return Ok(None) };
        at += 4;
        if length < 0 {
            texts.push("NULL".to_owned());
            continue;
        }
        let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
        let Some(end) = end.filter(|end| *end <= bytes.len()) else { return Ok(None) };
        let value = match parameter(of, 1, &bytes.slice(at..end))? {
            Literal::Text(text) => text,
            Literal::Bool(value) => value.to_string(),
            Literal::Int(value) => value.to_string(),
            Literal::Float(value) => value.to_string(),
            Literal::Date(days) => time::format_date(days),
            Literal::Timestamp(micros) => time::format_timestamp(micros),
            Literal::Decimal { unscaled, scale: 0 } => unscaled.to_string(),
            Literal::Decimal { .. } | Literal::UInt(_) | Literal::Null => {
                // Default: it was read above.
                numeric::text(&bytes.slice(at..end))?.unwrap_or_default()
            }
        };
        texts.push(format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")));
        at = end;
    }
    Ok((at == bytes.len()).then(|| format!("{{{}}}", texts.join(","))))
}

fn fixed<const N: usize>(bytes: &Bytes) -> Option<[u8; N]> {
    bytes.as_ref().try_into().ok()
}

fn of_text(oid: u32, text: &str) -> Result<Literal> {
    let trimmed = text.trim();
    let value = match oid {
        BOOL => match trimmed.to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => Some(Literal::Bool(true)),
            "f" | "false" | "n" | "no" | "off" | "0" => Some(Literal::Bool(false)),
            _ => None,
        },
        INT2 | INT4 | INT8 | OID => whole(oid, trimmed)?,
        FLOAT4 | FLOAT8 => match trimmed.parse() {
            // A number that is too large is not infinity, which is said.
            Ok(value) if f64::is_infinite(value) && !says_infinity(trimmed) => {
                return Err(out_of_range(oid, trimmed));
            }
            value => value.ok().map(Literal::Float),
        },
        NUMERIC => numeric::of_text(trimmed)?,
        DATE => date(trimmed).map(Literal::Date),
        TIME => Some(Literal::Text(clock(trimmed).to_owned())),
        TIMESTAMP | TIMESTAMPTZ => timestamp(trimmed).map(Literal::Timestamp),
        BYTEA => {
            text.strip_prefix("\\x").and_then(of_hexadecimal).map(|bytes| Literal::Text(as_text(&bytes)))
        }
        UUID => uuid_of_text(trimmed).map(Literal::Text),
        UUIDS => uuids_of_text(trimmed).map(Literal::Text),
        // Their texts would be compared with bytes as texts.
        BYTEAS => return Err(Error::unsupported("lists of bytes are not supported as parameters")),
        _ => Some(Literal::Text(text.to_owned())),
    };
    value.ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        Error::value(format!("invalid input syntax for type {}: \"{shown}\"", name(oid)))
    })
}

/// A whole number; `None`: it is none.
///
/// # Errors
/// Where it is beyond those of its type.
fn whole(oid: u32, text: &str) -> Result<Option<Literal>> {
    let Ok(value) = text.parse::<i128>() else { return Ok(None) };
    let is_one = match oid {
        INT2 => i16::try_from(value).is_ok(),
        INT4 => i32::try_from(value).is_ok(),
        _ => true,
    };
    match i64::try_from(value) {
        Ok(value) if is_one => Ok(Some(Literal::Int(value))),
        _ => Err(out_of_range(oid, text)),
    }
}

fn out_of_range(oid: u32, text: &str) -> Error {
    Error::new("22003", format!("\"{text}\" is out of range for type {}", name(oid)))
}

/// The number of a type by a name that SQL has for it.
pub(super) fn number(name: &str) -> Option<u32> {
    Some(match name {
        "boolean" | "bool" => BOOL,
        "smallint" | "int2" => INT2,
        "integer" | "int" | "int4" => INT4,
        "bigint" | "int8" => INT8,
        "real" | "float4" => FLOAT4,
        "double precision" | "float8" => FLOAT8,
        "numeric" | "decimal" => NUMERIC,
        "text" | "varchar" | "character varying" => TEXT,
        "bytea" => BYTEA,
        "date" => DATE,
        "time" | "time without time zone" => TIME,
        "timestamp" | "timestamp without time zone" => TIMESTAMP,
        "timestamptz" | "timestamp with time zone" => TIMESTAMPTZ,
        "uuid" => UUID,
        // As the statement needs it.
        "unknown" => 0,
        _ => return None,
    })
}

fn name(oid: u32) -> &'static str {
    match oid {
        BOOL => "boolean",
        INT2 => "smallint",
        INT4 => "integer",
        INT8 => "bigint",
        FLOAT4 => "real",
        FLOAT8 => "double precision",
        NUMERIC => "numeric",
        DATE => "date",
        BYTEA => "bytea",
        UUID => "uuid",
        TIMESTAMP => "timestamp",
        TIMESTAMPTZ => "timestamp with time zone",
        _ => "text",
    }
}

/// A date. A time of day and a zone behind it, which drivers send, do not change it, as in PostgreSQL.
fn date(text: &str) -> Option<i32> {
    let Some((date, behind)) = text.split_once([' ', 'T']) else { return time::parse_date(text) };
    // A zone alone is one of midnight.
    let midnight = if behind.starts_with(['+', '-', 'Z']) { "00:00:00" } else { "" };
    timestamp(&format!("1970-01-01T{midnight}{behind}"))?;
    time::parse_date(date)
}

/// A time of day without the zone behind it, which does not change it either. What is none the statement refuses.
fn clock(text: &str) -> &str {
    match text.find(['+', '-', 'Z']) {
        Some(zone) if timestamp(&format!("1970-01-01T{text}")).is_some() => text[..zone].trim_end(),
        _ => text,
    }
}

/// The zone may stand behind spaces, is written as `+00`, `+0000` or `+00:00`, and has the names of UTC.
fn timestamp(text: &str) -> Option<i64> {
    // A date alone has such signs too.
    let zone = text.find(':').and_then(|clock| {
        let zone = text[clock..].find(|c: char| c.is_ascii_alphabetic() || matches!(c, '+' | '-'))?;
        text.split_at_checked(clock + zone)
    });
    let Some((moment, zone)) = zone else { return time::parse_timestamp(text) };
    let moment = moment.trim_end();
    let is_utc = ["Z", "UTC", "GMT"].iter().any(|name| name.eq_ignore_ascii_case(zone));
    let digits = zone.strip_prefix(['+', '-']).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    time::parse_timestamp(&match digits.map(str::len) {
        _ if is_utc => format!("{moment}Z"),
        Some(1 | 2) => format!("{moment}{zone}:00"),
        // The sign stands before the hours.
        Some(4) => format!("{moment}{}:{}", &zone[..3], &zone[3..]),
        _ => format!("{moment}{zone}"),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(oid: u32, text: &str) -> Option<Literal> {
        parameter(oid, 0, &Bytes::copy_from_slice(text.as_bytes())).ok()
    }

    #[test]
    fn parameters_in_text() {
        assert_eq!(text(INT4, " 12 "), Some(Literal::Int(12)));
        assert_eq!(text(INT4, "12x"), None);
        for (oid, most, more) in [
            (INT2, "-32768", "32768"),
            (INT4, "2147483647", "-2147483649"),
            (INT8, "-9223372036854775808", "9223372036854775808"),
        ] {
            assert_eq!(text(oid, most), most.parse().ok().map(Literal::Int));
            let error = parameter(oid, 0, &Bytes::copy_from_slice(more.as_bytes())).unwrap_err();
            assert_eq!(error.code(), "22003", "{more}");
        }
        assert_eq!(text(BOOL, "t"), Some(Literal::Bool(true)));
        assert_eq!(text(BOOL, "2"), None);
        assert_eq!(text(FLOAT8, "-1e3"), Some(Literal::Float(-1000.0)));
        assert_eq!(text(FLOAT8, "-Infinity"), Some(Literal::Float(f64::NEG_INFINITY)));
        for oid in [FLOAT8, NUMERIC] {
            assert_eq!(text(oid, "1e400"), None);
        }
        assert_eq!(text(NUMERIC, " 12"), Some(Literal::Decimal { unscaled: 12, scale: 0 }));
        assert_eq!(text(NUMERIC, "x"), None);
        assert_eq!(text(DATE, "1970-01-02"), Some(Literal::Date(1)));
        assert_eq!(text(DATE, "1970-02-30"), None);
        for same in [
            "1970-01-02 +00",
            "1970-01-02 -05:30",
            "1970-01-02 00:00:00Z",
            "1970-01-02T23:30:00.000-09:00",
            "1970-01-02 01:02",
        ] {
            assert_eq!(text(DATE, same), Some(Literal::Date(1)), "{same}");
        }
        for none in ["1970-02-30 +00", "1970-01-02 x", "1970-01-02T", "1970-01-02 25:00", "1970-01-02 +"] {
            assert_eq!(text(DATE, none), None, "{none}");
        }
        for (given, clock) in [
            ("01:02:03.000004+00", "01:02:03.000004"),
            ("01:02:03-05:30", "01:02:03"),
            ("01:02Z", "01:02"),
            ("01:02:03 +02", "01:02:03"),
            ("01:02:03", "01:02:03"),
            ("1-2", "1-2"),
        ] {
            assert_eq!(text(TIME, given), Some(Literal::Text(clock.to_owned())), "{given}");
        }
        for same in [
            "1970-01-01 01:00:00+01",
            "1970-01-01 00:00:00",
            "1970-01-01T00:00:00Z",
            "1970-01-01 00:00:00.000 +00:00",
            "1970-01-01 05:30 +0530",
            "1969-12-31 23:00:00  -1",
            "1970-01-01 00:00:00 UTC",
            "1970-01-01 00:00 z",
            "1970-01-01",
        ] {
            assert_eq!(text(TIMESTAMPTZ, same), Some(Literal::Timestamp(0)), "{same}");
        }
        for none in
            ["1970-01-01 00:00:00 +", "1970-01-01 00:00:00 PM", "1970-01-01 00:00:00 +010", "00:00 UTC"]
        {
            assert_eq!(text(TIMESTAMPTZ, none), None, "{none}");
        }
        assert_eq!(text(TEXT, "é'"), Some(Literal::Text("é'".to_owned())));
        assert!(parameter(TEXT, 0, &Bytes::from_static(b"\xff")).is_err());
    }

    #[test]
    fn uuids_are_written_in_one_way() {
        let hyphens = "12345678-1234-5678-1234-56781234567a";
        assert_eq!(text(UUID, "1234567812345678123456781234567A"), Some(Literal::Text(hyphens.to_owned())));
        assert_eq!(
            text(UUIDS, &format!("{{1234567812345678123456781234567a,NULL,\"{hyphens}\"}}")),
            Some(Literal::Text(format!("{{{hyphens},NULL,{hyphens}}}")))
        );
        assert_eq!(text(UUIDS, "{}"), Some(Literal::Text("{}".to_owned())));
        assert_eq!((text(UUID, "1234"), text(UUIDS, "{x}")), (None, None));
        assert_eq!(text(BYTEAS, r#"{"\\\\x01ff"}"#), None);
    }

    #[test]
    fn parameters_in_binary() {
        let binary = |oid, bytes: &[u8]| parameter(oid, 1, &Bytes::copy_from_slice(bytes)).ok();
        assert_eq!(binary(INT2, &(-3_i16).to_be_bytes()), Some(Literal::Int(-3)));
        assert_eq!(binary(INT8, &(-3_i16).to_be_bytes()), None);
        assert_eq!(binary(BOOL, &[1]), Some(Literal::Bool(true)));
        assert_eq!(binary(BOOL, &[2]), None);
        assert_eq!(binary(FLOAT4, &1.5_f32.to_be_bytes()), Some(Literal::Float(1.5)));
        assert_eq!(binary(DATE, &0_i32.to_be_bytes()), Some(Literal::Date(EPOCH_DAYS)));
        for infinity in [i32::MIN, i32::MAX] {
            assert_eq!(binary(DATE, &infinity.to_be_bytes()), None);
        }
        for infinity in [i64::MIN, i64::MAX] {
            assert_eq!(binary(TIMESTAMPTZ, &infinity.to_be_bytes()), None);
        }
        assert_eq!(binary(TIMESTAMP, &0_i64.to_be_bytes()), Some(Literal::Timestamp(EPOCH_MICROS)));
        let zero = Literal::Decimal { unscaled: 0, scale: 0 };
        assert_eq!(binary(NUMERIC, &[0, 0, 0, 0, 0, 0, 0, 0]), Some(zero));
        assert_eq!(
            binary(1083, &1_500_000_i64.to_be_bytes()),
            Some(Literal::Text("00:00:01.500000".to_owned()))
        );
        assert_eq!(binary(1083, &(-1_i64).to_be_bytes()), None);
        assert_eq!(binary(1184, &[0; 16]), None);
        let interval = [&5_i64.to_be_bytes()[..], &(-2_i32).to_be_bytes(), &14_i32.to_be_bytes()].concat();
        let span = "14 months -2 days 5 microseconds".to_owned();
        assert_eq!(binary(SPAN, &interval), Some(Literal::Text(span)));
        assert_eq!(binary(BYTEA, b"\0a"), Some(Literal::Text("\\x00\\x61".to_owned())));
        assert_eq!(text(BYTEA, "\\x0061"), binary(BYTEA, b"\0a"));
        assert_eq!((text(BYTEA, "\\x0"), text(BYTEA, "\\x+1"), text(BYTEA, "a")), (None, None, None));
        assert_eq!(binary(1016, &[0; 3]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_value_or_an_error(oid in 0_u32..2000, format in 0_i16..2, bytes: Vec<u8>) {
            drop(parameter(oid, format, &Bytes::from(bytes)));
        }

        #[test]
        fn any_number_is_a_value_or_an_error(bytes: Vec<u8>) {
            drop(parameter(NUMERIC, 1, &Bytes::from(bytes)));
        }
    }
}
