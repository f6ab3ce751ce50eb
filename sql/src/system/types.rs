//! Which type of PostgreSQL a type is.

use arrow_schema::DataType;

/// A type as PostgreSQL's clients know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresType {
    /// Its number.
    pub oid: u32,
    /// Bytes; -1: it varies.
    pub size: i16,
    /// What it is called in `pg_type`.
    pub name: &'static str,
    /// What it is called in SQL.
    pub sql: &'static str,
    /// Digits of a number, as PostgreSQL packs them; -1: none.
    pub modifier: i32,
}

/// The types that answers have, and those of parameters.
pub(crate) const TYPES: [(PostgresType, &str); 17] = [
    (of(16, 1, "bool", "boolean"), "B"),
    (of(17, -1, "bytea", "bytea"), "U"),
    // Of names of tables and columns, as clients ask for it: those of answers are texts.
    (of(19, 64, "name", "name"), "S"),
    (of(20, 8, "int8", "bigint"), "N"),
    (of(21, 2, "int2", "smallint"), "N"),
    (of(23, 4, "int4", "integer"), "N"),
    (of(25, -1, "text", "text"), "S"),
    (of(26, 4, "oid", "oid"), "N"),
    (of(700, 4, "float4", "real"), "N"),
    (of(701, 8, "float8", "double precision"), "N"),
    (of(1043, -1, "varchar", "character varying"), "S"),
    (of(1082, 4, "date", "date"), "D"),
    (of(1083, 8, "time", "time without time zone"), "D"),
    (of(1114, 8, "timestamp", "timestamp without time zone"), "D"),
    (of(1184, 8, "timestamptz", "timestamp with time zone"), "D"),
    (of(1186, 16, "interval", "interval"), "T"),
    (of(1700, -1, "numeric", "numeric"), "N"),
];

/// Arrays, as which lists come and go: the number, the name, and the number of what it is of.
pub(crate) const ARRAYS: [(u32, &str, u32); 15] = [
    (1000, "_bool", 16),
    (1001, "_bytea", 17),
    (1005, "_int2", 21),
    (1007, "_int4", 23),
    (1009, "_text", 25),
    (1015, "_varchar", 1043),
    (1016, "_int8", 20),
    (1021, "_float4", 700),
    (1022, "_float8", 701),
    (1115, "_timestamp", 1114),
    (1182, "_date", 1082),
    (1183, "_time", 1083),
    (1185, "_timestamptz", 1184),
    (1187, "_interval", 1186),
    (1231, "_numeric", 1700),
];
/// Numbers of types as a list, which asyncpg knows without asking.
const OIDS: PostgresType = of(1028, -1, "_oid", "ARRAY");
/// What the values of such a list are called.
pub const OID_VALUE: &str = "oid";

/// Other names of types than they have in `pg_type` and in SQL.
const ALIASES: [(&str, &str); 5] = [
    ("char varying", "varchar"),
    ("dec", "numeric"),
    ("decimal", "numeric"),
    ("float", "float8"),
    ("int", "int4"),
];

/// Arrays as types of their own.
pub(crate) fn arrays() -> impl Iterator<Item = PostgresType> {
    ARRAYS.into_iter().map(|(oid, name, _)| of(oid, -1, name, name))
}

const fn of(oid: u32, size: i16, name: &'static str, sql: &'static str) -> PostgresType {
    PostgresType { oid, size, name, sql, modifier: -1 }
}

/// Which type clients are told that a column has: the least that holds all its values. Of Arrow's types those that answers
/// have are known; others are shown as text.
pub fn postgres_type(data_type: &DataType) -> PostgresType {
    match data_type {
        DataType::Boolean => of(16, 1, "bool", "boolean"),
        DataType::Binary => of(17, -1, "bytea", "bytea"),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => of(21, 2, "int2", "smallint"),
        DataType::Int32 | DataType::UInt16 => of(23, 4, "int4", "integer"),
        DataType::Int64 | DataType::UInt32 => of(20, 8, "int8", "bigint"),
        DataType::UInt64 => of(1700, -1, "numeric", "numeric"),
        DataType::Float32 => of(700, 4, "float4", "real"),
        DataType::Float64 => of(701, 8, "float8", "double precision"),
        DataType::Decimal128(precision, scale) => {
            let modifier = ((i32::from(*precision) << 16) | (i32::from(*scale) & 0x7ff)) + 4;
            PostgresType { modifier, ..of(1700, -1, "numeric", "numeric") }
        }
        DataType::Date32 => of(1082, 4, "date", "date"),
        DataType::Time64(_) => of(1083, 8, "time", "time without time zone"),
        DataType::Timestamp(..) => of(1184, 8, "timestamptz", "timestamp with time zone"),
        DataType::Interval(_) => of(1186, 16, "interval", "interval"),
        DataType::List(item) if item.name() == OID_VALUE => OIDS,
        DataType::List(item) => {
            let value = postgres_type(item.data_type());
            let array = ARRAYS.into_iter().find(|(.., element)| *element == value.oid);
            let array = array.map(|(oid, name, _)| of(oid, -1, name, "ARRAY"));
            // Default: a list of lists, which is a text.
            PostgresType { modifier: value.modifier, ..array.unwrap_or(of(25, -1, "text", "text")) }
        }
        _ => of(25, -1, "text", "text"),
    }
}

/// What a type is called with its digits; `None`: there is no such type.
pub(crate) fn format(oid: i64, modifier: i64) -> Option<String> {
    if let Some((_, _, element)) = ARRAYS.into_iter().find(|(array, ..)| i64::from(*array) == oid) {
        return Some(format!("{}[]", format(element.into(), modifier)?));
    }
    let (known, _) = TYPES.iter().find(|(known, _)| i64::from(known.oid) == oid)?;
    Some(match modifier.checked_sub(4).filter(|packed| *packed >= 0 && known.name == "numeric") {
        Some(packed) => format!("numeric({},{})", packed >> 16, packed & 0x7ff),
        None => known.sql.to_owned(),
    })
}

/// What `pg_typeof` calls the type of a value.
pub(crate) fn postgres_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "unknown".to_owned(),
        // It is shown as one.
        DataType::Duration(_) => "interval".to_owned(),
        other => {
            let of = postgres_type(other);
            // Default: one that is known here alone.
            format(of.oid.into(), -1).unwrap_or_else(|| of.name.to_owned())
        }
    }
}

/// A type by any of its names, whose digits say nothing; of an array, that of its values. `None`: there is no such type.
pub(crate) fn named(name: &str) -> Option<PostgresType> {
    let plain = plain(name)?;
    TYPES.iter().map(|(known, _)| *known).find(|known| known.name == plain || known.sql == plain)
}

/// The words of a type's name, without digits and brackets.
fn plain(name: &str) -> Option<String> {
    let lower = name.replace('"', "").to_lowercase();
    let own = lower.trim();
    let own = own.strip_prefix("pg_catalog.").unwrap_or(own);
    let (before, behind) = match own.split_once('(') {
        Some((before, rest)) => (before, rest.split_once(')')?.1),
        None => (own, ""),
    };
    let whole = format!("{before} {behind}");
    let words = whole.split(|c: char| c.is_whitespace() || "[]".contains(c)).filter(|word| !word.is_empty());
    let plain = words.collect::<Vec<_>>().join(" ");
    let alias = ALIASES.iter().find(|(alias, _)| *alias == plain);
    Some(alias.map_or(plain, |(_, name)| (*name).to_owned()))
}

/// The number of a type by its number or any of its names; `None`: there is no such type.
pub(crate) fn number(name: &str) -> Option<i64> {
    if let Ok(number) = name.trim().parse() {
        return Some(number);
    }
    let known = named(name).map(|known| known.oid);
    if name.contains("[]") {
        return ARRAYS.iter().find(|(.., of)| Some(*of) == known).map(|(array, ..)| (*array).into());
    }
    let array = || {
        let plain = plain(name)?;
        ARRAYS.iter().find(|(_, name, _)| *name == plain).map(|(array, ..)| *array)
    };
    known.or_else(array).map(i64::from)
}

/// What PostgreSQL calls a type that is named by its number or any of its names; `None`: there is no such type.
pub(crate) fn shown(name: &str) -> Option<String> {
    format(number(name)?, -1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{Field, IntervalUnit, TimeUnit};

    use super::*;

    fn list(item: DataType) -> DataType {
        DataType::List(Arc::new(Field::new_list_field(item, true)))
    }

    #[test]
    fn every_type_of_a_column_is_in_the_list() {
        let narrow = basalt_core::schema::DataType::KINDS.map(basalt_core::schema::DataType::to_arrow);
        let wide = [
            DataType::Binary,
            DataType::Time64(TimeUnit::Microsecond),
            DataType::Decimal128(38, 10),
            DataType::Interval(IntervalUnit::MonthDayNano),
        ];
        for kind in narrow.into_iter().chain(wide) {
            let of = postgres_type(&kind);
            let (known, _) = TYPES.iter().find(|(known, _)| known.oid == of.oid).unwrap();
            assert_eq!(PostgresType { modifier: -1, ..of }, *known);
            let list = postgres_type(&list(kind));
            let (.., element) = ARRAYS.into_iter().find(|(oid, ..)| *oid == list.oid).unwrap();
            assert_eq!((element, list.size, list.sql, list.modifier), (of.oid, -1, "ARRAY", of.modifier));
        }
        assert_eq!(postgres_type(&list(list(DataType::Int64))).name, "text");
        let called_as = [
            (DataType::Int64, "bigint"),
            (DataType::Utf8, "text"),
            (DataType::Decimal128(9, 2), "numeric"),
            (DataType::Duration(TimeUnit::Microsecond), "interval"),
            (list(DataType::Int32), "integer[]"),
            (DataType::Null, "unknown"),
        ];
        for (of, name) in called_as {
            assert_eq!(postgres_name(&of), name);
        }
        let oids = DataType::List(Arc::new(Field::new(OID_VALUE, DataType::Int32, true)));
        assert_eq!(postgres_type(&oids).oid, 1028);
        let decimal = postgres_type(&DataType::Decimal128(12, 2));
        assert_eq!(format(1700, decimal.modifier.into()).unwrap(), "numeric(12,2)");
        assert_eq!(format(1184, -1).unwrap(), "timestamp with time zone");
        assert_eq!(format(1, -1), None);
        assert_eq!(format(1007, -1).unwrap(), "integer[]");
        assert_eq!(format(1231, decimal.modifier.into()).unwrap(), "numeric(12,2)[]");
    }

    #[test]
    fn types_are_known_by_all_of_their_names() {
        for (name, number_of, shown_as) in [
            ("int8", 20, "bigint"),
            ("BIGINT", 20, "bigint"),
            (" 20 ", 20, "bigint"),
            ("int", 23, "integer"),
            ("pg_catalog.\"int4\"", 23, "integer"),
            ("varchar(3)", 1043, "character varying"),
            ("decimal(9, 2)", 1700, "numeric"),
            ("timestamp", 1114, "timestamp without time zone"),
            ("timestamp(3) with  time zone", 1184, "timestamp with time zone"),
            ("int4[]", 1007, "integer[]"),
            ("_text", 1009, "text[]"),
            ("numeric(9, 2)[]", 1231, "numeric[]"),
            ("bytea[]", 1001, "bytea[]"),
        ] {
            assert_eq!(number(name), Some(number_of), "{name}");
            assert_eq!(shown(name).as_deref(), Some(shown_as), "{name}");
        }
        for name in ["hstore", "", "varchar(3", "hstore[]", "[]"] {
            assert_eq!(number(name), None, "{name}");
        }
        assert_eq!(shown("1"), None);
    }
}
