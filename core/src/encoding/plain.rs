//! Every value in its own place, as wide as its type: bytes for bool and small enums.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head |
//! | 64.. | the values in the key type's native form, little-endian |

use std::sync::Arc;

use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use basalt_kernels::{self as kernels, FloatSum};

use super::{
    Costs, Encodings, KeyColumn, KeyEncoding, KeyTest, LOOK_UP_COST, SizeEstimate,
    bytes::{ALIGNMENT, Head, Reader, Writer, count},
    fallback, floats, mask,
    stats::KeyStats,
    traits::decode_floats,
};
use crate::{
    error::Result,
    keys::{self, Native, NativeSlice},
};

/// The encoding.
pub(super) struct Plain;

/// What values of so many bytes cost to read.
fn costs(width: usize) -> Costs {
    Costs { filter: count(12 * width), look_up: LOOK_UP_COST, get: 2 }
}

impl KeyEncoding for Plain {
    fn code(&self) -> u8 {
        2
    }

    fn name(&self) -> &'static str {
        "plain"
    }

    fn estimate(&self, stats: &KeyStats, _: &Encodings) -> Option<SizeEstimate> {
        Some(SizeEstimate::exact(self.name(), ALIGNMENT + stats.rows * stats.native.width()))
    }

    fn expected_costs(&self, stats: &KeyStats, _: &Encodings) -> Option<Costs> {
        Some(costs(stats.native.width()))
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats, _: &Encodings) -> Result<Buffer> {
        let head = Head::keys(self.code(), stats.native, [0; 2], keys.len());
        let mut writer = Writer::new(head, ALIGNMENT + keys.len() * stats.native.width());
        writer.align(ALIGNMENT);
        match stats.native {
            Native::Bool | Native::U8 => write::<u8>(&mut writer, keys),
            Native::I8 => write::<i8>(&mut writer, keys),
            Native::I16 => write::<i16>(&mut writer, keys),
            Native::I32 => write::<i32>(&mut writer, keys),
            Native::I64 => write::<i64>(&mut writer, keys),
            Native::U16 => write::<u16>(&mut writer, keys),
            Native::U32 => write::<u32>(&mut writer, keys),
            Native::U64 => write::<u64>(&mut writer, keys),
            Native::F32 => write::<f32>(&mut writer, keys),
            Native::F64 => write::<f64>(&mut writer, keys),
        }
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer, _: &Encodings) -> Result<Arc<dyn KeyColumn>> {
        let (head, native, mut reader) = Reader::keys(buffer.clone())?;
        reader.align(ALIGNMENT)?;
        let rows = head.rows;
        let values = match native {
            Native::Bool => Values::Bool(reader.section(rows)?),
            Native::I8 => Values::I8(reader.section(rows)?),
            Native::I16 => Values::I16(reader.section(rows)?),
            Native::I32 => Values::I32(reader.section(rows)?),
            Native::I64 => Values::I64(reader.section(rows)?),
            Native::U8 => Values::U8(reader.section(rows)?),
            Native::U16 => Values::U16(reader.section(rows)?),
            Native::U32 => Values::U32(reader.section(rows)?),
            Native::U64 => Values::U64(reader.section(rows)?),
            Native::F32 => Values::F32(reader.section(rows)?),
            Native::F64 => Values::F64(reader.section(rows)?),
        };
        reader.finish()?;
        Ok(Arc::new(Column { buffer, rows, native, values }))
    }
}

/// A type of values and its keys.
trait Value: ArrowNativeType + kernels::Native {
    fn key(self) -> i64;
    fn of(key: i64) -> Self;
}

macro_rules! values {
    ($($t:ty: $key:expr, $of:expr;)*) => {$(
        impl Value for $t {
            #[inline]
            fn key(self) -> i64 {
                $key(self)
            }

            #[inline]
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a key of this type")]
            fn of(key: i64) -> Self {
                $of(key)
            }
        }
    )*};
}

values! {
    i8: i64::from, |key| key as i8;
    i16: i64::from, |key| key as i16;
    i32: i64::from, |key| key as i32;
    i64: |value| value, |key| key;
    u8: i64::from, |key| key as u8;
    u16: i64::from, |key| key as u16;
    u32: i64::from, |key| key as u32;
    u64: keys::of_u64, keys::to_u64;
    f32: keys::of_f32, keys::to_f32;
    f64: keys::of_f64, keys::to_f64;
}

fn write<T: Value>(writer: &mut Writer, keys: &[i64]) {
    for (value, &key) in writer.zeros::<T>(keys.len()).iter_mut().zip(keys) {
        *value = T::of(key);
    }
}

#[derive(Debug)]
enum Values {
    Bool(ScalarBuffer<u8>),
    I8(ScalarBuffer<i8>),
    I16(ScalarBuffer<i16>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
    U8(ScalarBuffer<u8>),
    U16(ScalarBuffer<u16>),
    U32(ScalarBuffer<u32>),
    U64(ScalarBuffer<u64>),
    F32(ScalarBuffer<f32>),
    F64(ScalarBuffer<f64>),
}

/// `$integers` or `$floats` with the values, whatever their type.
macro_rules! with_values {
    ($of:expr, $values:ident => $body:expr) => {
        with_values!($of, $values => $body, $values => $body)
    };
    ($of:expr, $values:ident => $integers:expr, $floating:pat => $floats:expr) => {
        match $of {
            Values::Bool($values) | Values::U8($values) => $integers,
            Values::I8($values) => $integers,
            Values::I16($values) => $integers,
            Values::I32($values) => $integers,
            Values::I64($values) => $integers,
            Values::U16($values) => $integers,
            Values::U32($values) => $integers,
            Values::U64($values) => $integers,
            Values::F32($floating) => $floats,
            Values::F64($floating) => $floats,
        }
    };
}

#[derive(Debug)]
struct Column {
    buffer: Buffer,
    rows: usize,
    native: Native,
    values: Values,
}

impl Column {
    fn filter_range(&self, start: usize, rows: usize, (lo, hi): (i64, i64), out: &mut [u64]) {
        let (least, greatest) = self.native.key_range();
        let (lo, mut hi) = (lo.max(least), hi.min(greatest));
        if let Some(infinity) = self.native.infinity() {
            // Between infinity and the one NaN is no value, but the kernel would take a bound there for NaN.
            if hi < greatest {
                hi = hi.min(infinity);
            }
        }
        if lo > hi {
            return mask::set_all(out, rows, false);
        }
        with_values!(&self.values, values => between(&values[start..start + rows], (lo, hi), out));
        // To the kernel both zeros are equal.
        let (zero, minus_zero) = (keys::of_f64(0.0), keys::of_f64(-0.0));
        match self.values {
            Values::F32(_) | Values::F64(_) if lo == zero => self.take_out(start, rows, minus_zero, out),
            Values::F32(_) | Values::F64(_) if hi == minus_zero => self.take_out(start, rows, zero, out),
            _ => {}
        }
    }

    /// Takes the floats with the bits of this key, of a zero, out of a mask.
    fn take_out(&self, start: usize, rows: usize, zero: i64, out: &mut [u64]) {
        let mut zeros = vec![0; out.len()];
        match &self.values {
            Values::F32(values) => {
                let bits = keys::to_f32(zero).to_bits();
                kernels::between(&values.inner().typed_data()[start..start + rows], bits, bits, &mut zeros);
            }
            Values::F64(values) => {
                let bits = keys::to_f64(zero).to_bits();
                kernels::between(&values.inner().typed_data()[start..start + rows], bits, bits, &mut zeros);
            }
            _ => {}
        }
        kernels::mask::and_not(out, &zeros);
    }
}

fn between<T: Value>(values: &[T], (lo, hi): (i64, i64), out: &mut [u64]) {
    kernels::between(values, T::of(lo), T::of(hi), out);
}

fn sum<T: Value + kernels::Integer>(values: &[T], mask: Option<&[u64]>) -> i128 {
    // Keys are the values, or differ from them by a constant.
    let rows = mask.map_or(values.len(), mask::count_ones) as i128;
    let offset = i128::from(T::default().key());
    rows * offset + mask.map_or_else(|| kernels::sum(values), |mask| kernels::sum_masked(values, mask))
}

fn min_max<T: Value + kernels::Integer>(values: &[T], mask: Option<&[u64]>) -> Option<(i64, i64)> {
    let extremes =
        mask.map_or_else(|| kernels::min_max(values), |mask| kernels::min_max_masked(values, mask));
    extremes.map(|(min, max)| (min.key(), max.key()))
}

impl KeyColumn for Column {
    fn rows(&self) -> usize {
        self.rows
    }

    fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    fn name(&self) -> String {
        Plain.name().to_owned()
    }

    fn decode(&self, start: usize, out: &mut [i64]) {
        with_values!(&self.values, values => {
            for (key, value) in out.iter_mut().zip(&values[start..]) {
                *key = value.key();
            }
        });
    }

    fn decode_floats(&self, start: usize, out: &mut [f64]) {
        match &self.values {
            Values::F64(values) => out.copy_from_slice(&values[start..start + out.len()]),
            Values::F32(values) => {
                for (out, &value) in out.iter_mut().zip(&values[start..]) {
                    *out = value.into();
                }
            }
            _ => decode_floats(self, start, out),
        }
    }

    fn get(&self, row: usize) -> i64 {
        with_values!(&self.values, values => values[row].key())
    }

    fn gather(&self, start: usize, places: &[u16], out: &mut [i64]) {
        with_values!(&self.values, values => {
            let values = &values[start..];
            out.iter_mut().zip(places).for_each(|(key, place)| *key = values[usize::from(*place)].key());
        });
    }

    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        match test {
            KeyTest::Range { lo, hi } => self.filter_range(start, rows, (*lo, *hi), out),
            KeyTest::In(set) => fallback::filter_in(self, start, rows, set, out),
        }
    }

    // A float's key is not its value: sums are of keys here, and the kernels' extremes know one zero alone.

    fn sum(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> i128 {
        with_values!(
            &self.values,
            values => sum(&values[start..start + rows], mask),
            _ => fallback::sum(self, start, rows, mask)
        )
    }

    fn sum_floats(&self, start: usize, rows: usize, mask: Option<&[u64]>, sum: &mut FloatSum) {
        match &self.values {
            Values::F64(values) => floats::add(&values[start..start + rows], mask, sum),
            Values::F32(values) => floats::add(&values[start..start + rows], mask, sum),
            _ => floats::sum(rows, mask, sum, |at, out| self.decode_floats(start + at, out)),
        }
    }

    fn min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        with_values!(
            &self.values,
            values => min_max(&values[start..start + rows], mask),
            _ => fallback::min_max(self, start, rows, mask)
        )
    }

    fn native(&self) -> Option<NativeSlice<'_>> {
        Some(match &self.values {
            Values::Bool(values) => NativeSlice::Bool(values),
            Values::I8(values) => NativeSlice::I8(values),
            Values::I16(values) => NativeSlice::I16(values),
            Values::I32(values) => NativeSlice::I32(values),
            Values::I64(values) => NativeSlice::I64(values),
            Values::U8(values) => NativeSlice::U8(values),
            Values::U16(values) => NativeSlice::U16(values),
            Values::U32(values) => NativeSlice::U32(values),
            Values::U64(values) => NativeSlice::U64(values),
            Values::F32(values) => NativeSlice::F32(values),
            Values::F64(values) => NativeSlice::F64(values),
        })
    }

    fn costs(&self) -> Costs {
        costs(self.native.width())
    }
}
