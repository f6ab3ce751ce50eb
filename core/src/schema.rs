//! Logical types, fields and schemas, and how each type lies in Arrow.

use std::{fmt, sync::Arc};

use arrow_schema as arrow;

use crate::{
    error::{Error, ErrorKind, Result},
    invariant::Invariant,
    limits,
    logical::{self, Logical, NARROW_DIGITS, WIDE_DIGITS},
};

/// The logical type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum DataType {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    /// NaN equals NaN and sorts above +inf; -0.0 equals 0.0.
    Float32,
    /// NaN equals NaN and sorts above +inf; -0.0 equals 0.0.
    Float64,
    /// `unscaled * 10^-scale`. In tables up to 18 digits, held as i64; answers may have up to 38, and columns of more are
    /// held in another form ([`Logical`]).
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits behind the point.
        scale: u8,
    },
    /// Days since 1970-01-01.
    Date32,
    /// Microseconds since 1970-01-01T00:00:00Z.
    Timestamp,
    Utf8,
}

impl DataType {
    /// A type of each kind; the decimal has 12 digits, 2 of them behind the point.
    pub const KINDS: [Self; 15] = [
        Self::Bool,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::UInt8,
        Self::UInt16,
        Self::UInt32,
        Self::UInt64,
        Self::Float32,
        Self::Float64,
        Self::Decimal { precision: 12, scale: 2 },
        Self::Date32,
        Self::Timestamp,
        Self::Utf8,
    ];

    /// The Arrow type that holds it at the doors of the engine.
    pub fn to_arrow(self) -> arrow::DataType {
        match self {
            Self::Bool => arrow::DataType::Boolean,
            Self::Int8 => arrow::DataType::Int8,
            Self::Int16 => arrow::DataType::Int16,
            Self::Int32 => arrow::DataType::Int32,
            Self::Int64 => arrow::DataType::Int64,
            Self::UInt8 => arrow::DataType::UInt8,
            Self::UInt16 => arrow::DataType::UInt16,
            Self::UInt32 => arrow::DataType::UInt32,
            Self::UInt64 => arrow::DataType::UInt64,
            Self::Float32 => arrow::DataType::Float32,
            Self::Float64 => arrow::DataType::Float64,
            Self::Decimal { precision, scale } => arrow::DataType::Decimal128(
                precision,
                i8::try_from(scale).invariant("a decimal has at most 38 digits"),
            ),
            Self::Date32 => arrow::DataType::Date32,
            Self::Timestamp => arrow::DataType::Timestamp(arrow::TimeUnit::Microsecond, Some("UTC".into())),
            Self::Utf8 => arrow::DataType::Utf8,
        }
    }

    /// The logical type of an Arrow type, where there is one.
    pub fn from_arrow(data_type: &arrow::DataType) -> Option<Self> {
        Some(match data_type {
            arrow::DataType::Boolean => Self::Bool,
            arrow::DataType::Int8 => Self::Int8,
            arrow::DataType::Int16 => Self::Int16,
            arrow::DataType::Int32 => Self::Int32,
            arrow::DataType::Int64 => Self::Int64,
            arrow::DataType::UInt8 => Self::UInt8,
            arrow::DataType::UInt16 => Self::UInt16,
            arrow::DataType::UInt32 => Self::UInt32,
            arrow::DataType::UInt64 => Self::UInt64,
            arrow::DataType::Float32 => Self::Float32,
            arrow::DataType::Float64 => Self::Float64,
            arrow::DataType::Decimal128(precision, scale) => {
                Self::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
            }
            arrow::DataType::Date32 => Self::Date32,
            arrow::DataType::Timestamp(arrow::TimeUnit::Microsecond, _) => Self::Timestamp,
            arrow::DataType::Utf8 => Self::Utf8,
            _ => return None,
        })
    }

    /// Whether it is an integer, signed or not.
    pub fn is_integer(self) -> bool {
        self.is_unsigned() || matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64)
    }

    /// Whether it is an unsigned integer.
    pub fn is_unsigned(self) -> bool {
        matches!(self, Self::UInt8 | Self::UInt16 | Self::UInt32 | Self::UInt64)
    }

    /// Whether its values are 64-bit ids in sets of keys: those of a fixed width, floats apart.
    pub fn has_key_domain(self) -> bool {
        !self.is_float() && self != Self::Utf8
    }

    /// Bytes of one value in a plain array; 0 for text, and one bit (rounded up) for bool.
    pub fn plain_width(self) -> usize {
        match self {
            Self::Bool | Self::Int8 | Self::UInt8 => 1,
            Self::Int16 | Self::UInt16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 | Self::Date32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 | Self::Decimal { .. } | Self::Timestamp => 8,
            Self::Utf8 => 0,
        }
    }

    /// Whether arithmetic, `sum` and `avg` apply.
    pub fn is_numeric(self) -> bool {
        !matches!(self, Self::Bool | Self::Date32 | Self::Timestamp | Self::Utf8)
    }

    /// float32 or float64.
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Bool => "bool",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::UInt8 => "uint8",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Decimal { precision, scale } => return write!(f, "decimal({precision},{scale})"),
            Self::Date32 => "date32",
            Self::Timestamp => "timestamp",
            Self::Utf8 => "utf8",
        };
        f.write_str(name)
    }
}

/// What the encoding of a column is chosen for, where none is forced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Optimize {
    /// The fewest bytes, whatever they cost to read.
    Size,
    /// Nearly the fewest bytes, and of the encodings that come to them the fastest; all such columns of a fragment together
    /// take at most three percent more, spent where it saves the most time.
    #[default]
    Balanced,
    /// The fastest encoding of those that take at most twice the fewest bytes.
    Speed,
}

impl Optimize {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Size, Self::Balanced, Self::Speed];

    /// Its name: `size`, `balanced` or `speed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Balanced => "balanced",
            Self::Speed => "speed",
        }
    }

    /// The one that has a name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSchema`], with the names there are.
    pub fn from_name(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|optimize| optimize.name() == name).ok_or_else(|| {
            let shown: String = name.chars().take(40).collect();
            let names = Self::ALL.map(Self::name).join(", ");
            Error::new(
                ErrorKind::InvalidSchema,
                format!("{shown:?} is not what a column is optimized for: {names}"),
            )
        })
    }
}

impl fmt::Display for Optimize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One column of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, unique in the schema.
    pub name: String,
    /// Its logical type.
    pub data_type: DataType,
    /// Whether it may hold nulls.
    pub nullable: bool,
    /// An encoding to use instead of the smallest, by name.
    pub encoding: Option<String>,
    /// What the encoding is chosen for where none is forced.
    pub optimize: Optimize,
    /// What its values are keys of: how an expression reaches the attributes of another table.
    pub references: Option<Reference>,
    /// What the values are at the doors of the engine, where `data_type` is only the form in which they are held.
    pub logical: Option<Logical>,
}

/// A column of keys in a table, each of which stands there once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The table.
    pub table: String,
    /// Its column.
    pub column: String,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.table, self.column)
    }
}

impl Field {
    /// A column whose encoding is chosen.
    pub fn new(name: impl Into<String>, data_type: DataType, nullable: bool) -> Self {
        let (encoding, optimize, references, logical) = (None, Optimize::default(), None, None);
        Self { name: name.into(), data_type, nullable, encoding, optimize, references, logical }
    }

    /// A column for an Arrow type, where there is one.
    pub fn from_arrow(name: impl Into<String>, data_type: &arrow::DataType, nullable: bool) -> Option<Self> {
        if let Some(logical) = Logical::from_arrow(data_type) {
            return Some(Self { logical: Some(logical), ..Self::new(name, logical.form(), nullable) });
        }
        DataType::from_arrow(data_type).map(|data_type| Self::new(name, data_type, nullable))
    }

    /// The type that its values have at the doors of the engine.
    pub fn to_arrow_type(&self) -> arrow::DataType {
        self.logical.map_or_else(|| self.data_type.to_arrow(), Logical::to_arrow)
    }

    /// The name of that type.
    pub fn type_name(&self) -> String {
        logical::type_name(self.logical, self.data_type)
    }
}

/// The columns of a table or an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    fields: Vec<Field>,
}

impl Schema {
    /// A schema for a table: names are valid and unique, decimals have at most 38 digits, forced
    /// encodings exist for their types, references are of types whose values are keys. The tables that they
    /// name need not be there yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSchema`] or [`ErrorKind::InvalidName`], with the field's place.
    pub fn new(mut fields: Vec<Field>) -> Result<Self> {
        // Decimals that no number holds are held in the form of another type.
        for field in &mut fields {
            if let DataType::Decimal { precision, scale } = field.data_type
                && (NARROW_DIGITS < precision && precision <= WIDE_DIGITS && scale <= precision)
            {
                let logical = Logical::Decimal { precision, scale };
                (field.data_type, field.logical) = (logical.form(), Some(logical));
            }
        }
        if fields.is_empty() {
            return Err(Error::new(ErrorKind::InvalidSchema, "a table has at least one column").at("fields"));
        }
        if fields.len() > limits::MAX_COLUMNS {
            let message = format!("{} columns; the limit is {}", fields.len(), limits::MAX_COLUMNS);
            return Err(Error::new(ErrorKind::InvalidSchema, message).at("fields"));
        }
        let mut seen = std::collections::BTreeSet::new();
        for (i, field) in fields.iter().enumerate() {
            let place = format!("fields[{i}]");
            check_column_name(&field.name).map_err(|e| e.at("name").at(&place))?;
            if !seen.insert(field.name.as_str()) {
                let message = format!("two columns are named {:?}", field.name);
                return Err(Error::new(ErrorKind::InvalidSchema, message).at("name").at(&place));
            }
            if let DataType::Decimal { precision, scale } = field.data_type
                && (precision == 0 || precision > 18 || scale > precision)
            {
                let message = format!("{} is not a decimal of 1 to 38 digits", field.data_type);
                return Err(Error::new(ErrorKind::InvalidSchema, message).at("type").at(&place));
            }
            if let Some(encoding) = &field.encoding {
                crate::encoding::check_forced(encoding, field.data_type)
                    .map_err(|e| e.at("encoding").at(&place))?;
            }
            if let Some(reference) = &field.references {
                check_reference(reference, field.data_type).map_err(|e| e.at("references").at(&place))?;
            }
        }
        Ok(Self { fields })
    }

    /// The schema of an answer: any names, any decimals.
    pub fn of_answer(fields: Vec<Field>) -> Self {
        Self { fields }
    }

    /// The columns in order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Whether another schema is the same but for what columns are optimized for: which changes no answer.
    pub fn means_the_same_as(&self, other: &Self) -> bool {
        let like =
            |field: &Field, other: &Field| *field == Field { optimize: field.optimize, ..other.clone() };
        let (fields, others) = (&self.fields, &other.fields);
        fields.len() == others.len() && fields.iter().zip(others).all(|(field, other)| like(field, other))
    }

    /// The place of a column.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == name)
    }

    /// As the engine gives it: columns have the types in whose forms they are held.
    pub fn to_arrow(&self) -> arrow::SchemaRef {
        let fields: Vec<_> = self
            .fields
            .iter()
            .map(|f| arrow::Field::new(&f.name, f.data_type.to_arrow(), f.nullable))
            .collect();
        Arc::new(arrow::Schema::new(fields))
    }

    /// As whoever is beyond the doors of the engine sees it.
    pub fn to_outer_arrow(&self) -> arrow::SchemaRef {
        let field = |f: &Field| arrow::Field::new(&f.name, f.to_arrow_type(), f.nullable);
        Arc::new(arrow::Schema::new(self.fields.iter().map(field).collect::<Vec<_>>()))
    }
}

fn check_reference(reference: &Reference, data_type: DataType) -> Result<()> {
    check_name(&reference.table).map_err(|e| e.at("table"))?;
    check_column_name(&reference.column).map_err(|e| e.at("column"))?;
    if !data_type.has_key_domain() {
        let message = format!("a column of type {data_type} cannot refer to {reference}");
        return Err(Error::new(ErrorKind::InvalidSchema, message));
    }
    Ok(())
}

/// Checks a table's name: a letter or `_`, then letters, digits, `_`; at most 128 bytes.
///
/// # Errors
/// [`ErrorKind::InvalidName`].
pub fn check_name(name: &str) -> Result<()> {
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c == '_' || c.is_alphabetic());
    if !starts || !chars.all(|c| c == '_' || c.is_alphanumeric()) || name.len() > limits::MAX_NAME_BYTES {
        let shown: String = name.chars().take(40).collect();
        let message = format!(
            "{shown:?} is not a name: a letter or '_', then letters, digits or '_', at most {} bytes",
            limits::MAX_NAME_BYTES
        );
        return Err(Error::new(ErrorKind::InvalidName, message));
    }
    check_reserved(name)
}

/// Checks a column's name: any characters but those that control a terminal, 1 to 128 bytes.
///
/// # Errors
/// [`ErrorKind::InvalidName`].
pub fn check_column_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > limits::MAX_NAME_BYTES || name.contains(char::is_control) {
        let shown: String = name.chars().take(40).collect();
        let message = format!(
            "{shown:?} is not a column's name: 1 to {} bytes without control characters",
            limits::MAX_NAME_BYTES
        );
        return Err(Error::new(ErrorKind::InvalidName, message));
    }
    check_reserved(name)
}

fn check_reserved(name: &str) -> Result<()> {
    if name.starts_with("_row_") {
        let message = format!("names that start with \"_row_\" are reserved: {name}");
        return Err(Error::new(ErrorKind::InvalidName, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_any_names() {
        for name in ["a b", "x.y", "2nd", "\"q\"", "ä", "a,b=c", " "] {
            assert!(Schema::new(vec![Field::new(name, DataType::Int8, true)]).is_ok(), "{name:?}");
            assert!(check_name(name).is_err() || name == "ä", "{name:?}");
        }
        for name in ["", "a\nb", "\u{7f}", "_row_x", &"x".repeat(129)] {
            let error = Schema::new(vec![Field::new(name, DataType::Int8, true)]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{name:?}");
        }
    }

    #[test]
    fn wide_decimals_are_held_in_another_form() {
        let of = |precision, scale| {
            Schema::new(vec![Field::new("d", DataType::Decimal { precision, scale }, true)])
        };
        let wide = of(38, 10).unwrap();
        assert_eq!(wide.fields()[0].type_name(), "decimal(38,10)");
        assert_eq!(wide.fields()[0].data_type, DataType::Utf8);
        assert_eq!(wide.to_outer_arrow().field(0).data_type(), &arrow::DataType::Decimal128(38, 10));
        assert_eq!(of(18, 2).unwrap().fields()[0].logical, None);
        for (precision, scale) in [(0, 0), (39, 0), (20, 21), (5, 6)] {
            assert!(of(precision, scale).is_err(), "{precision} {scale}");
        }
    }

    #[test]
    fn a_schema_means_the_same_whatever_it_is_optimized_for() {
        let of = |name: &str, optimize| {
            Schema::new(vec![Field { optimize, ..Field::new(name, DataType::Int8, true) }]).unwrap()
        };
        assert!(of("a", Optimize::Size).means_the_same_as(&of("a", Optimize::Speed)));
        assert_ne!(of("a", Optimize::Size), of("a", Optimize::Speed));
        assert!(!of("a", Optimize::Size).means_the_same_as(&of("b", Optimize::Size)));
        for optimize in Optimize::ALL {
            assert_eq!(Optimize::from_name(optimize.name()).unwrap(), optimize);
        }
        assert_eq!(Optimize::from_name("luck").unwrap_err().kind(), ErrorKind::InvalidSchema);
    }

    #[test]
    fn every_kind_is_listed_once() {
        for (i, kind) in DataType::KINDS.into_iter().enumerate() {
            // A new kind gets the next number here, and a place in the list.
            let number = match kind {
                DataType::Bool => 0,
                DataType::Int8 => 1,
                DataType::Int16 => 2,
                DataType::Int32 => 3,
                DataType::Int64 => 4,
                DataType::UInt8 => 5,
                DataType::UInt16 => 6,
                DataType::UInt32 => 7,
                DataType::UInt64 => 8,
                DataType::Float32 => 9,
                DataType::Float64 => 10,
                DataType::Decimal { .. } => 11,
                DataType::Date32 => 12,
                DataType::Timestamp => 13,
                DataType::Utf8 => 14,
            };
            assert_eq!(number, i, "{kind}");
        }
    }
}
