//! Types that a column holds in the form of another one: wide decimals, binary and the time of day.
//!
//! The encodings and kernels know 64-bit numbers and texts. A column of one of these types is a column of such values
//! with the same order, so that comparisons, groups, sorting, minimum and maximum are those of the form; at the doors of
//! the engine its values are what they are.
//!
//! | type | form |
//! |---|---|
//! | decimal of 19 to 38 digits | text: `1` and the digits with all leading zeros, or `0` and their complements below zero |
//! | binary | text: two hexadecimal digits, 0 to f, for each byte |
//! | time of day | int64: microseconds since midnight |
//!
//! Forms are exact, and each value has one: what is written is checked, what is read back is believed no more.

use std::{fmt, sync::Arc};

use arrow_array::{
    Array, ArrayRef, Decimal128Array, Int64Array, RecordBatch, RecordBatchOptions, Time64MicrosecondArray,
    builder::{BinaryBuilder, StringBuilder},
    cast::AsArray as _,
    types::{Decimal128Type, Int64Type, Time64MicrosecondType},
};
use arrow_schema as arrow;

use crate::{
    error::{Error, ErrorKind, Result},
    limits::MAX_TEXT_BYTES,
    plan::floor_among,
    query::Literal,
    schema::DataType,
    time,
};

/// Digits of a decimal that is held as a number.
pub const NARROW_DIGITS: u8 = 18;
/// Digits of any decimal.
pub const WIDE_DIGITS: u8 = 38;
/// Microseconds of a day.
pub const DAY_MICROS: i64 = 86_400_000_000;

/// A type that is held in the form of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Logical {
    /// `unscaled * 10^-scale`, of more digits than 64 bits have.
    Decimal {
        /// Digits in all, 19 to 38.
        precision: u8,
        /// Digits behind the point.
        scale: u8,
    },
    /// Bytes.
    Binary,
    /// Microseconds since midnight, of no day and no zone.
    Time,
}

impl fmt::Display for Logical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Self::Binary => f.write_str("binary"),
            Self::Time => f.write_str("time"),
        }
    }
}

/// The name of a type, which is held as `data_type`.
pub fn type_name(logical: Option<Logical>, data_type: DataType) -> String {
    logical.map_or_else(|| data_type.to_string(), |logical| logical.to_string())
}

/// Where a literal stands among the values of such a type.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// It is a value, which has this form.
    Equal(Literal),
    /// Behind the value of this form, and before the next one.
    Between(Literal),
    /// Before all of them.
    Below,
    /// Behind all of them.
    Above,
}

impl Logical {
    /// The type of an Arrow type, where it is one of these.
    pub fn from_arrow(data_type: &arrow::DataType) -> Option<Self> {
        match data_type {
            arrow::DataType::Decimal128(precision @ NARROW_WIDTH.., scale) => {
                let scale = u8::try_from(*scale).ok().filter(|scale| scale <= precision)?;
                (*precision <= WIDE_DIGITS).then_some(Self::Decimal { precision: *precision, scale })
            }
            arrow::DataType::Binary => Some(Self::Binary),
            arrow::DataType::Time64(arrow::TimeUnit::Microsecond) => Some(Self::Time),
            _ => None,
        }
    }

    /// The Arrow type at the doors of the engine.
    pub fn to_arrow(self) -> arrow::DataType {
        match self {
            Self::Decimal { precision, scale } => arrow::DataType::Decimal128(precision, scale.cast_signed()),
            Self::Binary => arrow::DataType::Binary,
            Self::Time => arrow::DataType::Time64(arrow::TimeUnit::Microsecond),
        }
    }

    /// The type in whose form it is held.
    pub fn form(self) -> DataType {
        match self {
            Self::Decimal { .. } | Self::Binary => DataType::Utf8,
            Self::Time => DataType::Int64,
        }
    }

    /// Values of the type in their form.
    ///
    /// # Errors
    /// [`ErrorKind::TypeMismatch`] for an array of another type, [`ErrorKind::InvalidBatch`] for a value that the type
    /// has not, with its row.
    pub fn to_form(self, array: &ArrayRef) -> Result<ArrayRef> {
        self.to_form_from(array, 0)
    }

    /// The same of rows of which the first has this number where one of them is named.
    fn to_form_from(self, array: &ArrayRef, first: u64) -> Result<ArrayRef> {
        let wrong = |row: usize, what: &str| wrong(first + row as u64, what);
        match self {
            Self::Decimal { precision, scale } => {
                let given = array.as_primitive_opt::<Decimal128Type>();
                let given = given.filter(|given| given.scale() == scale.cast_signed());
                let values = given.ok_or_else(|| self.misfit(array))?;
                let mut texts = StringBuilder::with_capacity(values.len(), values.len() * 40);
                for (row, value) in values.iter().enumerate() {
                    match value {
                        Some(value) => {
                            let form = decimal_form(value, precision);
                            let form = form.ok_or_else(|| {
                                wrong(row, &format!("{value} has more than {precision} digits"))
                            })?;
                            texts.append_value(form);
                        }
                        None => texts.append_null(),
                    }
                }
                Ok(Arc::new(texts.finish()))
            }
            Self::Binary => {
                let values = array.as_binary_opt::<i32>().ok_or_else(|| self.misfit(array))?;
                let mut texts = StringBuilder::with_capacity(values.len(), 2 * values.value_data().len());
                let mut text = String::new();
                for (row, value) in values.iter().enumerate() {
                    let Some(value) = value else {
                        texts.append_null();
                        continue;
                    };
                    if value.len() > MAX_TEXT_BYTES / 2 {
                        let message = format!("{} bytes; the limit is {}", value.len(), MAX_TEXT_BYTES / 2);
                        return Err(wrong(row, &message));
                    }
                    text.clear();
                    push_hex(value, &mut text);
                    texts.append_value(&text);
                }
                Ok(Arc::new(texts.finish()))
            }
            Self::Time => {
                let values = array.as_primitive_opt::<Time64MicrosecondType>();
                let values = values.ok_or_else(|| self.misfit(array))?;
                let bad =
                    |(_, value): &(usize, Option<i64>)| value.is_some_and(|v| !(0..DAY_MICROS).contains(&v));
                if let Some((row, _)) = values.iter().enumerate().find(bad) {
                    return Err(wrong(row, "a time that no day has"));
                }
                Ok(Arc::new(Int64Array::new(values.values().clone(), values.nulls().cloned())))
            }
        }
    }

    /// Values from their form.
    ///
    /// # Errors
    /// [`ErrorKind::TypeMismatch`] for an array of another type, [`ErrorKind::Corrupt`] for what is no value's form.
    pub fn from_form(self, array: &ArrayRef) -> Result<ArrayRef> {
        let broken =
            |row: usize| Error::new(ErrorKind::Corrupt, format!("row {row}: what is held is no {self}"));
        match self {
            Self::Decimal { precision, scale } => {
                let texts = array.as_string_opt::<i32>().ok_or_else(|| self.misfit(array))?;
                let value = |(row, text): (usize, Option<&str>)| {
                    text.map(|text| of_decimal_form(text, precision).ok_or_else(|| broken(row))).transpose()
                };
                let values = texts.iter().enumerate().map(value).collect::<Result<Decimal128Array>>()?;
                let values = values.with_precision_and_scale(precision, scale.cast_signed());
                Ok(Arc::new(values.map_err(|_| broken(0))?))
            }
            Self::Binary => {
                let texts = array.as_string_opt::<i32>().ok_or_else(|| self.misfit(array))?;
                let mut values = BinaryBuilder::with_capacity(texts.len(), texts.value_data().len() / 2);
                let mut bytes = Vec::new();
                for (row, text) in texts.iter().enumerate() {
                    match text {
                        Some(text) => {
                            bytes.clear();
                            of_hex(text, &mut bytes).ok_or_else(|| broken(row))?;
                            values.append_value(&bytes);
                        }
                        None => values.append_null(),
                    }
                }
                Ok(Arc::new(values.finish()))
            }
            Self::Time => {
                let values = array.as_primitive_opt::<Int64Type>().ok_or_else(|| self.misfit(array))?;
                Ok(Arc::new(Time64MicrosecondArray::new(values.values().clone(), values.nulls().cloned())))
            }
        }
    }

    /// Where a literal that is not null stands among the values of the type.
    ///
    /// # Errors
    /// [`ErrorKind::TypeMismatch`] for one that does not compare with them.
    pub fn place(self, literal: &Literal) -> Result<Place> {
        let mismatch = || {
            let message = format!("a column of type {self} does not compare with {literal:?}");
            Error::new(ErrorKind::TypeMismatch, message)
        };
        let form = match (self, literal) {
            (Self::Decimal { precision, scale }, literal) => {
                let (floor, is_exact) = floor_among(literal, scale).ok_or_else(mismatch)?;
                return Ok(match (decimal_form(floor, precision), is_exact) {
                    (Some(form), true) => Place::Equal(Literal::Text(form)),
                    (Some(form), false) => Place::Between(Literal::Text(form)),
                    (None, _) if floor < 0 => Place::Below,
                    (None, _) => Place::Above,
                });
            }
            (Self::Binary, Literal::Text(text)) => {
                let digits = text.strip_prefix("\\x").unwrap_or(text).to_ascii_lowercase();
                of_hex(&digits, &mut Vec::new()).map(|()| Literal::Text(digits))
            }
            (Self::Time, Literal::Text(text)) => {
                // A time of the first day is its number.
                time::parse_timestamp(&format!("1970-01-01T{text}")).map(Literal::Int)
            }
            (Self::Time, Literal::Int(_) | Literal::UInt(_)) => Some(literal.clone()),
            _ => None,
        };
        form.map(Place::Equal).ok_or_else(mismatch)
    }

    /// Checks that what is written in the form is a value's.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidBatch`], with the row.
    pub fn check_form(self, array: &dyn Array) -> Result<()> {
        let row = match self {
            Self::Decimal { precision, .. } => {
                let texts = array.as_string::<i32>();
                texts
                    .iter()
                    .position(|text| text.is_some_and(|text| of_decimal_form(text, precision).is_none()))
            }
            Self::Binary => {
                let is_hex =
                    |text: &str| text.len().is_multiple_of(2) && text.bytes().all(|b| nibble(b).is_some());
                let texts = array.as_string::<i32>();
                texts.iter().position(|text| text.is_some_and(|text| !is_hex(text)))
            }
            Self::Time => {
                let values = array.as_primitive::<Int64Type>();
                values.iter().position(|value| value.is_some_and(|value| !(0..DAY_MICROS).contains(&value)))
            }
        };
        match row {
            Some(row) => Err(wrong(row as u64, &format!("it is no {self}"))),
            None => Ok(()),
        }
    }

    fn misfit(self, array: &ArrayRef) -> Error {
        Error::new(ErrorKind::TypeMismatch, format!("{} where {self} is expected", array.data_type()))
    }
}

/// The first number of digits that is not held as a number.
const NARROW_WIDTH: u8 = NARROW_DIGITS + 1;

fn wrong(row: u64, what: &str) -> Error {
    Error::new(ErrorKind::InvalidBatch, format!("row {row}: {what}"))
}

/// The form of a decimal, if it has no more digits than that.
fn decimal_form(unscaled: i128, precision: u8) -> Option<String> {
    let limit = 10_u128.pow(u32::from(precision));
    let digits = unscaled.unsigned_abs();
    if digits >= limit {
        return None;
    }
    let (sign, digits) = if unscaled < 0 { ('0', limit - 1 - digits) } else { ('1', digits) };
    Some(format!("{sign}{digits:0width$}", width = usize::from(precision)))
}

fn of_decimal_form(form: &str, precision: u8) -> Option<i128> {
    let (sign, digits) = form.split_at_checked(1)?;
    if digits.len() != usize::from(precision) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = digits.parse::<i128>().ok()?;
    match sign {
        "1" => Some(digits),
        // Zero has no sign.
        "0" => Some(digits + 1 - 10_i128.pow(u32::from(precision))).filter(|value| *value < 0),
        _ => None,
    }
}

fn push_hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        out.extend([byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])));
    }
}

fn of_hex(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    for [high, low] in pairs {
        out.push(nibble(*high)? << 4 | nibble(*low)?);
    }
    Some(())
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// Values as the form of a column's type, where they are not in it already.
///
/// # Errors
/// Those of [`Logical::to_form`].
pub fn to_form(array: &ArrayRef, logical: Option<Logical>) -> Result<ArrayRef> {
    to_form_from(array, logical, 0)
}

/// The same of rows of which the first has this number where one of them is named.
///
/// # Errors
/// Those of [`Logical::to_form`].
pub fn to_form_from(array: &ArrayRef, logical: Option<Logical>, first: u64) -> Result<ArrayRef> {
    match logical {
        Some(logical) if *array.data_type() != logical.form().to_arrow() => {
            logical.to_form_from(array, first)
        }
        _ => Ok(Arc::clone(array)),
    }
}

/// Values of a column's type, where they are not that already.
///
/// # Errors
/// Those of [`Logical::from_form`].
pub fn from_form(array: &ArrayRef, logical: Option<Logical>) -> Result<ArrayRef> {
    match logical {
        Some(logical) if *array.data_type() == logical.form().to_arrow() => logical.from_form(array),
        _ => Ok(Arc::clone(array)),
    }
}

/// The columns of a batch as values of their types.
///
/// # Errors
/// Those of [`Logical::from_form`].
pub fn outer_batch(batch: &RecordBatch, columns: &[Option<Logical>]) -> Result<RecordBatch> {
    let schema = batch.schema_ref();
    let outer = batch.columns().iter().zip(columns).map(|(array, logical)| from_form(array, *logical));
    let outer = outer.collect::<Result<Vec<_>>>()?;
    let field = |(field, array): (&arrow::FieldRef, &ArrayRef)| {
        field.as_ref().clone().with_data_type(array.data_type().clone())
    };
    let fields: Vec<_> = schema.fields().iter().zip(&outer).map(field).collect();
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let batch = RecordBatch::try_new_with_options(Arc::new(arrow::Schema::new(fields)), outer, &rows);
    batch.map_err(|e| Error::new(ErrorKind::Corrupt, e.to_string()))
}

#[cfg(test)]
mod tests {
    use arrow_array::{BinaryArray, StringArray};

    use super::*;

    #[test]
    fn decimals_are_ordered_by_their_forms() {
        let max = 10_i128.pow(38) - 1;
        for (precision, values) in [
            (38, vec![-max, -max + 1, -1, 0, 1, 10_i128.pow(20), max]),
            (19, vec![-(10_i128.pow(19) - 1), -5, 0, 7, 10_i128.pow(19) - 1]),
        ] {
            let logical = Logical::Decimal { precision, scale: 3 };
            let array = Decimal128Array::from(values.clone()).with_precision_and_scale(precision, 3).unwrap();
            let array: ArrayRef = Arc::new(array);
            let forms = logical.to_form(&array).unwrap();
            logical.check_form(&forms).unwrap();
            let texts: Vec<_> = forms.as_string::<i32>().iter().flatten().collect();
            assert!(texts.is_sorted() && texts.windows(2).all(|pair| pair[0] != pair[1]), "{texts:?}");
            assert_eq!(&logical.from_form(&forms).unwrap(), &array);
        }
        let logical = Logical::Decimal { precision: 19, scale: 0 };
        let wide = Decimal128Array::from(vec![10_i128.pow(19)]).with_precision_and_scale(38, 0).unwrap();
        let wide: ArrayRef = Arc::new(wide);
        assert!(logical.to_form(&wide).unwrap_err().to_string().contains("more than 19 digits"));
        for bad in ["", "1", "2000", "1000000000000000000x", "09999999999999999999", "-0000000000000000001"] {
            let array: ArrayRef = Arc::new(StringArray::from(vec![bad]));
            assert!(logical.check_form(&array).is_err(), "{bad}");
            assert_eq!(logical.from_form(&array).unwrap_err().kind(), ErrorKind::Corrupt, "{bad}");
        }
    }

    #[test]
    fn bytes_are_ordered_by_their_forms() {
        let values: Vec<&[u8]> = vec![b"", b"\0", b"\0\xff", b"a", b"a\0", b"b", b"\xff\xfe"];
        let array: ArrayRef = Arc::new(BinaryArray::from(values));
        let forms = Logical::Binary.to_form(&array).unwrap();
        assert!(forms.as_string::<i32>().iter().is_sorted());
        assert_eq!(&Logical::Binary.from_form(&forms).unwrap(), &array);
        Logical::Binary.check_form(&forms).unwrap();
        for bad in ["a", "A0", "0g"] {
            let array: ArrayRef = Arc::new(StringArray::from(vec![Some("00"), None, Some(bad)]));
            assert!(Logical::Binary.check_form(&array).unwrap_err().to_string().contains("row 2"), "{bad}");
            assert!(Logical::Binary.from_form(&array).is_err(), "{bad}");
        }
        let long = vec![0; MAX_TEXT_BYTES / 2 + 1];
        let long: ArrayRef = Arc::new(BinaryArray::from(vec![long.as_slice()]));
        assert!(Logical::Binary.to_form(&long).is_err());
    }

    #[test]
    fn literals_have_forms() {
        let decimal = Logical::Decimal { precision: 20, scale: 2 };
        let place = |literal: Literal| decimal.place(&literal).unwrap();
        let form = |text: &str| Literal::Text(text.to_owned());
        let seven = Place::Equal(form("100000000000000000700"));
        assert_eq!(place(Literal::Int(7)), seven);
        assert_eq!(place(Literal::Decimal { unscaled: 7000, scale: 3 }), seven);
        assert_eq!(place(Literal::Text("7.0".to_owned())), seven);
        assert_eq!(place(Literal::Float(7.0)), seven);
        let behind = Place::Between(form("100000000000000000700"));
        assert_eq!(place(Literal::Decimal { unscaled: 7001, scale: 3 }), behind);
        assert_eq!(place(Literal::Float(7.001)), behind);
        let zero = Place::Between(form("100000000000000000000"));
        assert_eq!(place(Literal::Decimal { unscaled: 1, scale: 200 }), zero);
        let before_zero = Place::Between(form("099999999999999999998"));
        assert_eq!(place(Literal::Decimal { unscaled: -1, scale: 200 }), before_zero);
        assert_eq!(place(Literal::Text("1".to_owned() + &"0".repeat(18))), Place::Above);
        assert_eq!(place(Literal::Text("-".to_owned() + &"9".repeat(38))), Place::Below);
        assert_eq!(place(Literal::Float(f64::NAN)), Place::Above);
        assert_eq!(place(Literal::Float(f64::NEG_INFINITY)), Place::Below);
        for bad in [Literal::Text("1e3".to_owned()), Literal::Bool(true)] {
            assert_eq!(decimal.place(&bad).unwrap_err().kind(), ErrorKind::TypeMismatch, "{bad:?}");
        }
        let of = |logical: Logical, text: &str| match logical.place(&Literal::Text(text.to_owned())).ok()? {
            Place::Equal(form) => Some(form),
            _ => None,
        };
        assert_eq!(of(Logical::Binary, "\\x00FF"), Some(Literal::Text("00ff".to_owned())));
        assert_eq!(of(Logical::Binary, "0"), None);
        assert_eq!(of(Logical::Time, "00:00:01.5"), Some(Literal::Int(1_500_000)));
        assert_eq!(of(Logical::Time, "24:00:00"), None);
    }

    #[test]
    fn times_are_those_of_a_day() {
        let array: ArrayRef =
            Arc::new(Time64MicrosecondArray::from(vec![Some(0), None, Some(DAY_MICROS - 1)]));
        let form = Logical::Time.to_form(&array).unwrap();
        assert_eq!(&Logical::Time.from_form(&form).unwrap(), &array);
        for bad in [-1, DAY_MICROS] {
            let array: ArrayRef = Arc::new(Time64MicrosecondArray::from(vec![bad]));
            assert!(Logical::Time.to_form(&array).is_err());
            let error = to_form_from(&array, Some(Logical::Time), 8193).unwrap_err().to_string();
            assert_eq!(error, "row 8193: a time that no day has");
            assert!(Logical::Time.check_form(&Int64Array::from(vec![bad])).is_err());
        }
    }
}
