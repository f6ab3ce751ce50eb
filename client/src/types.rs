//! The logical types by their names, and the Arrow types that hold them.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use basalt_proto::v1::{self, TypeKind};

/// The digits of a decimal.
pub(crate) const MAX_DECIMAL_DIGITS: u8 = 38;

/// Every type but the decimals, with its name.
const SIMPLE: [(&str, TypeKind); 16] = [
    ("bool", TypeKind::Bool),
    ("int8", TypeKind::Int8),
    ("int16", TypeKind::Int16),
    ("int32", TypeKind::Int32),
    ("int64", TypeKind::Int64),
    ("uint8", TypeKind::Uint8),
    ("uint16", TypeKind::Uint16),
    ("uint32", TypeKind::Uint32),
    ("uint64", TypeKind::Uint64),
    ("float32", TypeKind::Float32),
    ("float64", TypeKind::Float64),
    ("date32", TypeKind::Date32),
    ("timestamp", TypeKind::Timestamp),
    ("utf8", TypeKind::Utf8),
    ("binary", TypeKind::Binary),
    ("time", TypeKind::Time),
];

/// The Arrow type of timestamps: microseconds, UTC.
pub fn timestamp_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC")))
}

/// The API's type for an Arrow type, where a column can have it.
pub(crate) fn from_arrow(data_type: &DataType) -> Option<v1::DataType> {
    let kind = match data_type {
        DataType::Boolean => TypeKind::Bool,
        DataType::Int8 => TypeKind::Int8,
        DataType::Int16 => TypeKind::Int16,
        DataType::Int32 => TypeKind::Int32,
        DataType::Int64 => TypeKind::Int64,
        DataType::UInt8 => TypeKind::Uint8,
        DataType::UInt16 => TypeKind::Uint16,
        DataType::UInt32 => TypeKind::Uint32,
        DataType::UInt64 => TypeKind::Uint64,
        DataType::Float32 => TypeKind::Float32,
        DataType::Float64 => TypeKind::Float64,
        DataType::Date32 => TypeKind::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) if zone.as_ref() == "UTC" => {
            TypeKind::Timestamp
        }
        DataType::Utf8 => TypeKind::Utf8,
        DataType::Binary => TypeKind::Binary,
        DataType::Time64(TimeUnit::Microsecond) => TypeKind::Time,
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = (u32::from(*precision), u32::try_from(*scale).ok()?);
            return Some(v1::DataType { kind: TypeKind::Decimal.into(), precision, scale });
        }
        _ => return None,
    };
    Some(v1::DataType { kind: kind.into(), precision: 0, scale: 0 })
}

/// The Arrow type for one of the API's; an error says what is wrong with it.
pub(crate) fn to_arrow(data_type: &v1::DataType) -> Result<DataType, String> {
    Ok(match data_type.kind() {
        TypeKind::Bool => DataType::Boolean,
        TypeKind::Int8 => DataType::Int8,
        TypeKind::Int16 => DataType::Int16,
        TypeKind::Int32 => DataType::Int32,
        TypeKind::Int64 => DataType::Int64,
        TypeKind::Uint8 => DataType::UInt8,
        TypeKind::Uint16 => DataType::UInt16,
        TypeKind::Uint32 => DataType::UInt32,
        TypeKind::Uint64 => DataType::UInt64,
        TypeKind::Float32 => DataType::Float32,
        TypeKind::Float64 => DataType::Float64,
        TypeKind::Date32 => DataType::Date32,
        TypeKind::Timestamp => timestamp_type(),
        TypeKind::Utf8 => DataType::Utf8,
        TypeKind::Binary => DataType::Binary,
        TypeKind::Time => DataType::Time64(TimeUnit::Microsecond),
        TypeKind::Decimal => {
            let precision = u8::try_from(data_type.precision).ok();
            let precision = precision.filter(|p| (1..=MAX_DECIMAL_DIGITS).contains(p));
            let scale = i8::try_from(data_type.scale).ok();
            match (precision, scale) {
                (Some(precision), Some(scale)) if scale <= precision.cast_signed() => {
                    DataType::Decimal128(precision, scale)
                }
                _ => return Err(format!("decimal({},{})", data_type.precision, data_type.scale)),
            }
        }
        TypeKind::Unspecified => return Err(format!("type {}", data_type.kind)),
    })
}

/// The name of a type as people write it: `int32`, `decimal(12,2)`, `utf8`.
///
/// ```
/// use arrow_schema::DataType;
/// assert_eq!(basalt_client::type_name(&DataType::Decimal128(12, 2)), "decimal(12,2)");
/// ```
pub fn type_name(data_type: &DataType) -> String {
    let Some(api) = from_arrow(data_type) else { return data_type.to_string() };
    match SIMPLE.iter().find(|(_, kind)| *kind == api.kind()) {
        Some((name, _)) => (*name).to_owned(),
        None => format!("decimal({},{})", api.precision, api.scale),
    }
}

/// The type of a name that [`type_name`] gives; case does not matter.
///
/// ```
/// use arrow_schema::DataType;
/// assert_eq!(basalt_client::parse_type("decimal(12, 2)"), Some(DataType::Decimal128(12, 2)));
/// assert_eq!(basalt_client::parse_type("varchar"), None);
/// ```
pub fn parse_type(name: &str) -> Option<DataType> {
    let name = name.trim().to_ascii_lowercase();
    if let Some((_, kind)) = SIMPLE.iter().find(|(simple, _)| *simple == name) {
        return to_arrow(&v1::DataType { kind: (*kind).into(), precision: 0, scale: 0 }).ok();
    }
    let digits = name.strip_prefix("decimal")?.trim_start().strip_prefix('(')?.strip_suffix(')')?;
    let (precision, scale) = digits.split_once(',').unwrap_or((digits, "0"));
    let (precision, scale) = (precision.trim().parse::<u8>().ok()?, scale.trim().parse::<u8>().ok()?);
    let valid = (1..=MAX_DECIMAL_DIGITS).contains(&precision) && scale <= precision;
    valid.then(|| DataType::Decimal128(precision, scale.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in
            SIMPLE.iter().map(|(name, _)| *name).chain(["decimal(38,0)", "decimal(12,2)", "decimal(1,1)"])
        {
            assert_eq!(parse_type(name).map(|t| type_name(&t)).as_deref(), Some(name));
        }
        for bad in
            ["", "int", "int128", "decimal", "decimal()", "decimal(0,0)", "decimal(39,0)", "decimal(2,3)"]
        {
            assert_eq!(parse_type(bad), None, "{bad}");
        }
        assert_eq!(parse_type(" Decimal ( 9 ) "), Some(DataType::Decimal128(9, 0)));
    }

    #[test]
    fn hostile_types_are_errors() {
        for (kind, precision, scale) in
            [(0, 0, 0), (99, 0, 0), (12, 0, 0), (12, 39, 0), (12, 5, 6), (12, 5, 300)]
        {
            assert!(
                to_arrow(&v1::DataType { kind, precision, scale }).is_err(),
                "{kind} {precision} {scale}"
            );
        }
    }
}
