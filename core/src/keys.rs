//! Keys: every fixed-width value as an i64 in the type's own order.
//!
//! Signed integers, dates, timestamps and decimals are their own keys; unsigned ones below 64 bits too. A
//! uint64 has its top bit flipped. A float's key orders as the float does: its bits, with all but the sign
//! flipped when negative; NaN is one value above +inf, and -0.0 is the key just below that of 0.0, so that
//! the value comes back bit for bit while a comparison with zero covers both.

/// How a key type lies in a plain array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the documentation")]
#[repr(u8)]
pub enum Native {
    Bool = 1,
    I8 = 2,
    I16 = 3,
    I32 = 4,
    I64 = 5,
    U8 = 6,
    U16 = 7,
    U32 = 8,
    U64 = 9,
    F32 = 10,
    F64 = 11,
}

/// A plain array.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum NativeSlice<'a> {
    /// One byte a value, 0 or 1.
    Bool(&'a [u8]),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
}

impl Native {
    /// The native type of a logical one; `None` for text.
    pub fn of(data_type: crate::schema::DataType) -> Option<Self> {
        use crate::schema::DataType as T;
        Some(match data_type {
            T::Bool => Self::Bool,
            T::Int8 => Self::I8,
            T::Int16 => Self::I16,
            T::Int32 | T::Date32 => Self::I32,
            T::Int64 | T::Decimal { .. } | T::Timestamp => Self::I64,
            T::UInt8 => Self::U8,
            T::UInt16 => Self::U16,
            T::UInt32 => Self::U32,
            T::UInt64 => Self::U64,
            T::Float32 => Self::F32,
            T::Float64 => Self::F64,
            T::Utf8 => return None,
        })
    }

    /// The native type with this code byte.
    pub fn from_code(code: u8) -> Option<Self> {
        const ALL: [Native; 11] = [
            Native::Bool,
            Native::I8,
            Native::I16,
            Native::I32,
            Native::I64,
            Native::U8,
            Native::U16,
            Native::U32,
            Native::U64,
            Native::F32,
            Native::F64,
        ];
        ALL.into_iter().find(|n| *n as u8 == code)
    }

    /// Bytes of a value in a plain array.
    pub fn width(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// The least and the greatest key that a value has.
    pub fn key_range(self) -> (i64, i64) {
        match self {
            Self::Bool => (0, 1),
            Self::I8 => (i8::MIN.into(), i8::MAX.into()),
            Self::I16 => (i16::MIN.into(), i16::MAX.into()),
            Self::I32 => (i32::MIN.into(), i32::MAX.into()),
            Self::I64 | Self::U64 => (i64::MIN, i64::MAX),
            Self::U8 => (0, u8::MAX.into()),
            Self::U16 => (0, u16::MAX.into()),
            Self::U32 => (0, u32::MAX.into()),
            Self::F32 => (of_f32(f32::NEG_INFINITY), of_f32(f32::NAN)),
            Self::F64 => (of_f64(f64::NEG_INFINITY), of_f64(f64::NAN)),
        }
    }

    /// The key of +inf, of floats: between it and that of NaN is no value.
    pub fn infinity(self) -> Option<i64> {
        match self {
            Self::F32 => Some(of_f32(f32::INFINITY)),
            Self::F64 => Some(of_f64(f64::INFINITY)),
            _ => None,
        }
    }
}

const SIGN: u64 = 1 << 63;

/// The key of a uint64.
#[inline]
pub fn of_u64(value: u64) -> i64 {
    (value ^ SIGN).cast_signed()
}

/// The uint64 of a key.
#[inline]
pub fn to_u64(key: i64) -> u64 {
    key.cast_unsigned() ^ SIGN
}

/// The key of a float64; every NaN has the same.
#[inline]
pub fn of_f64(value: f64) -> i64 {
    let bits = if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() }.cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// The float64 of a key.
#[inline]
pub fn to_f64(key: i64) -> f64 {
    f64::from_bits((key ^ ((key >> 63).cast_unsigned() >> 1).cast_signed()).cast_unsigned())
}

/// The key of a float32; every NaN has the same.
#[inline]
pub fn of_f32(value: f32) -> i64 {
    let bits = if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }.cast_signed();
    i64::from(bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed())
}

/// The float32 of a key.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "keys of float32 are 32 bits wide")]
pub fn to_f32(key: i64) -> f32 {
    let key = key as i32;
    f32::from_bits((key ^ ((key >> 31).cast_unsigned() >> 1).cast_signed()).cast_unsigned())
}
