//! Rows as messages, each value in text or in binary form.

use std::{fmt::Write as _, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, PrimitiveArray, RecordBatch, StringArray,
    cast::AsArray as _,
    types::{
        ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
        UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_schema::{DataType, Field, Schema};
use basalt_core::time;
use basalt_sql::system::{OID_VALUE, PostgresType, postgres_type};
use bytes::{BufMut as _, BytesMut};
use pgwire::messages::data::{FieldDescription, RowDescription};

use super::{
    arrays::Lists,
    error::{Error, Result},
    interval,
    types::{EPOCH_DAYS, EPOCH_MICROS},
};
use crate::limits;

/// A column of an answer as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) data_type: DataType,
    /// 0: text; 1: binary.
    pub(super) format: i16,
    /// It was told to be of this type before, and its values are cast to it.
    pub(super) is_cast: bool,
}

impl Column {
    /// The number of its type.
    pub(super) fn oid(&self) -> u32 {
        postgres_type(&self.data_type).oid
    }

    /// A list of numbers is told as one of numbers of types.
    pub(super) fn tell_oids(&mut self) {
        if matches!(&self.data_type, DataType::List(item) if item.data_type().is_integer()) {
            let item = Field::new(OID_VALUE, DataType::Int32, true);
            self.data_type = DataType::List(Arc::new(item));
        }
    }
}

/// The format of what has a place in a list of them: none is text, one is for all.
pub(super) fn format_of(formats: &[i16], at: usize) -> i16 {
    // Default: text.
    formats.get(at).or(formats.first()).copied().unwrap_or(0)
}

/// Columns of texts, in the formats that a client has asked for.
pub(super) fn texts(names: &[&str], formats: &[i16]) -> Vec<Column> {
    let column = |(at, name): (usize, &&str)| Column {
        name: (*name).to_owned(),
        data_type: DataType::Utf8,
        format: format_of(formats, at),
        is_cast: false,
    };
    names.iter().enumerate().map(column).collect()
}

/// Columns in the formats that a client has asked for.
pub(super) fn columns(schema: &Schema, formats: &[i16]) -> Result<Vec<Column>> {
    let fields = schema.fields();
    if formats.len() > 1 && formats.len() != fields.len() {
        let message = format!("{} result formats for {} columns", formats.len(), fields.len());
        return Err(Error::protocol(message));
    }
    let column = |(at, field): (usize, &Arc<Field>)| Column {
        name: field.name().clone(),
        data_type: field.data_type().clone(),
        format: format_of(formats, at),
        is_cast: false,
    };
    Ok(fields.iter().enumerate().map(column).collect())
}

pub(super) fn description(columns: &[Column]) -> RowDescription {
    let field = |column: &Column| {
        let PostgresType { oid, size, modifier, .. } = postgres_type(&column.data_type);
        FieldDescription::new(column.name.replace('\0', " "), 0, 0, oid, size, modifier, column.format)
    };
    RowDescription::new(columns.iter().map(field).collect())
}

/// Writes messages of rows, of a type, `most` of them from one on, until there are many bytes. Returns the row that follows.
pub(super) fn write(
    tag: u8,
    batch: &RecordBatch,
    columns: &[Column],
    from: usize,
    most: usize,
    out: &mut BytesMut,
) -> Result<usize> {
    let arrays = batch.columns().iter().zip(columns);
    let arrays = arrays.map(|(array, column)| Values::of(array, column)).collect::<Result<Vec<_>>>()?;
    let count = i16::try_from(arrays.len()).map_err(|_| Error::limit("too many columns"))?;
    let end = batch.num_rows().min(from.saturating_add(most));
    let mut row = from;
    while row < end && out.len() < limits::POSTGRES_OUTPUT_BYTES {
        let begins = out.len();
        // What is behind a part of a message is taken for the rest of it.
        put(tag, count, &arrays, row, out).inspect_err(|_| out.truncate(begins))?;
        row += 1;
    }
    Ok(row)
}

fn put(tag: u8, count: i16, arrays: &[Values<'_>], row: usize, out: &mut BytesMut) -> Result<()> {
    let begins = out.len();
    out.put_u8(tag);
    out.put_i32(0);
    out.put_i16(count);
    for array in arrays {
        array.write(row, out)?;
    }
    let length = i32::try_from(out.len() - begins - 1);
    let length = length.map_err(|_| Error::limit("a row of the answer is too large"))?;
    out[begins + 1..begins + 5].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// A column's values, with how they are written.
pub(super) struct Values<'a> {
    array: &'a ArrayRef,
    kind: Kind<'a>,
    binary: bool,
}

enum Kind<'a> {
    Bool(&'a BooleanArray),
    Int8(&'a PrimitiveArray<Int8Type>),
    Int16(&'a PrimitiveArray<Int16Type>),
    Int32(&'a PrimitiveArray<Int32Type>),
    Int64(&'a PrimitiveArray<Int64Type>),
    UInt8(&'a PrimitiveArray<UInt8Type>),
    UInt16(&'a PrimitiveArray<UInt16Type>),
    UInt32(&'a PrimitiveArray<UInt32Type>),
    UInt64(&'a PrimitiveArray<UInt64Type>),
    Float32(&'a PrimitiveArray<Float32Type>),
    Float64(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a Decimal128Array, u8),
    Date(&'a PrimitiveArray<Date32Type>),
    Timestamp(&'a PrimitiveArray<TimestampMicrosecondType>),
    Time(&'a PrimitiveArray<Time64MicrosecondType>),
    Interval(&'a PrimitiveArray<IntervalMonthDayNanoType>),
    Bytes(&'a BinaryArray),
    Text(&'a StringArray),
    Lists(Lists<'a>),
}

fn typed<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<&PrimitiveArray<T>> {
    array.as_primitive_opt()
}

impl<'a> Values<'a> {
    pub(super) fn of(array: &'a ArrayRef, column: &Column) -> Result<Self> {
        Self::new(array, &column.data_type, column.format == 1)
    }

    pub(super) fn new(array: &'a ArrayRef, data_type: &DataType, binary: bool) -> Result<Self> {
        let kind = match data_type {
            DataType::Boolean => array.as_boolean_opt().map(Kind::Bool),
            DataType::Int8 => typed(array).map(Kind::Int8),
            DataType::Int16 => typed(array).map(Kind::Int16),
            DataType::Int32 => typed(array).map(Kind::Int32),
            DataType::Int64 => typed(array).map(Kind::Int64),
            DataType::UInt8 => typed(array).map(Kind::UInt8),
            DataType::UInt16 => typed(array).map(Kind::UInt16),
            DataType::UInt32 => typed(array).map(Kind::UInt32),
            DataType::UInt64 => typed(array).map(Kind::UInt64),
            DataType::Float32 => typed(array).map(Kind::Float32),
            DataType::Float64 => typed(array).map(Kind::Float64),
            DataType::Decimal128(_, scale) => {
                let scale = u8::try_from(*scale).ok();
                scale.and_then(|scale| Some(Kind::Decimal(typed::<Decimal128Type>(array)?, scale)))
            }
            DataType::Date32 => typed(array).map(Kind::Date),
            DataType::Time64(_) => typed(array).map(Kind::Time),
            DataType::Timestamp(..) => typed(array).map(Kind::Timestamp),
            DataType::Interval(_) => typed(array).map(Kind::Interval),
            DataType::List(_) => Lists::new(array, data_type, binary)?.map(Kind::Lists),
            DataType::Binary => array.as_binary_opt().map(Kind::Bytes),
            DataType::Utf8 => array.as_string_opt().map(Kind::Text),
            _ => None,
        };
        let kind = kind.ok_or_else(|| Error::new("XX000", "a column is not of the type that was told"))?;
        Ok(Self { array, kind, binary })
    }

    /// Writes a value's length and the value.
    pub(super) fn write(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        if self.array.is_null(row) {
            out.put_i32(-1);
            return Ok(());
        }
        let begins = out.len();
        out.put_i32(0);
        if self.binary {
            self.binary(row, out)?
        } else {
            self.text(row, out)
        }
        let length = i32::try_from(out.len() - begins - 4);
        let length = length.map_err(|_| Error::limit("a value of the answer is too large"))?;
        out[begins..begins + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row)
    }

    /// Writes a value that is not null.
    pub(super) fn text(&self, row: usize, out: &mut BytesMut) {
        // Writing to memory does not fail.
        let _ = match &self.kind {
            Kind::Bool(values) => out.write_str(if values.value(row) { "t" } else { "f" }),
            Kind::Int8(values) => write!(out, "{}", values.value(row)),
            Kind::Int16(values) => write!(out, "{}", values.value(row)),
            Kind::Int32(values) => write!(out, "{}", values.value(row)),
            Kind::Int64(values) => write!(out, "{}", values.value(row)),
            Kind::UInt8(values) => write!(out, "{}", values.value(row)),
            Kind::UInt16(values) => write!(out, "{}", values.value(row)),
            Kind::UInt32(values) => write!(out, "{}", values.value(row)),
            Kind::UInt64(values) => write!(out, "{}", values.value(row)),
            Kind::Float32(values) => out.write_str(&float(&format!("{:e}", values.value(row)), 6)),
            Kind::Float64(values) => out.write_str(&float(&format!("{:e}", values.value(row)), 15)),
            Kind::Decimal(values, scale) => out.write_str(&decimal(values.value(row), *scale)),
            Kind::Date(values) => out.write_str(&date(values.value(row))),
            Kind::Timestamp(values) => out.write_str(&timestamp(values.value(row))),
            Kind::Time(values) => out.write_str(&clock(values.value(row))),
            Kind::Bytes(values) => {
                let mut bytes = values.value(row).iter();
                out.write_str("\\x").and_then(|()| bytes.try_for_each(|byte| write!(out, "{byte:02x}")))
            }
            Kind::Interval(values) => out.write_str(&interval::text(values.value(row))),
            Kind::Text(values) => out.write_str(values.value(row)),
            Kind::Lists(lists) => {
                lists.text(row, out);
                Ok(())
            }
        };
    }

    fn binary(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        let range = |what: &str| Error::new("22008", format!("{what} out of range"));
        match &self.kind {
            Kind::Bool(values) => out.put_u8(values.value(row).into()),
            Kind::Int8(values) => out.put_i16(values.value(row).into()),
            Kind::Int16(values) => out.put_i16(values.value(row)),
            Kind::Int32(values) => out.put_i32(values.value(row)),
            Kind::Int64(values) => out.put_i64(values.value(row)),
            Kind::UInt8(values) => out.put_i16(values.value(row).into()),
            Kind::UInt16(values) => out.put_i32(values.value(row).into()),
            Kind::UInt32(values) => out.put_i64(values.value(row).into()),
            Kind::UInt64(values) => numeric(values.value(row).into(), 0, out),
            Kind::Float32(values) => out.put_f32(values.value(row)),
            Kind::Float64(values) => out.put_f64(values.value(row)),
            Kind::Decimal(values, scale) => numeric(values.value(row), *scale, out),
            Kind::Date(values) => {
                let days = values.value(row).checked_sub(EPOCH_DAYS);
                out.put_i32(days.ok_or_else(|| range("date"))?);
            }
            Kind::Timestamp(values) => {
                let micros = values.value(row).checked_sub(EPOCH_MICROS);
                out.put_i64(micros.ok_or_else(|| range("timestamp"))?);
            }
            Kind::Time(values) => out.put_i64(values.value(row)),
            Kind::Interval(values) => interval::binary(values.value(row), out),
            Kind::Lists(lists) => lists.binary(row, out)?,
            Kind::Bytes(values) => out.put_slice(values.value(row)),
            Kind::Text(values) => out.put_slice(values.value(row).as_bytes()),
        }
        Ok(())
    }
}

/// The shortest digits that are the float, laid out as PostgreSQL does: with an exponent where it has so many digits
/// before the point, or four zeros behind it.
fn float(scientific: &str, most: i32) -> String {
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return match scientific {
            "inf" => "Infinity".to_owned(),
            "-inf" => "-Infinity".to_owned(),
            other => other.to_owned(),
        };
    };
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if exponent < -4 || exponent >= most {
        let point = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{digits}e{point}{:02}", exponent.abs());
    }
    let digits = digits.replace('.', "");
    let Ok(before) = usize::try_from(exponent + 1) else {
        let zeros = usize::try_from(-exponent - 1).unwrap_or_default();
        return format!("{sign}0.{}{digits}", "0".repeat(zeros));
    };
    if before == 0 {
        format!("{sign}0.{digits}")
    } else if digits.len() <= before {
        format!("{sign}{digits}{}", "0".repeat(before - digits.len()))
    } else {
        format!("{sign}{}.{}", &digits[..before], &digits[before..])
    }
}

fn decimal(unscaled: i128, scale: u8) -> String {
    let (sign, scale) = (if unscaled < 0 { "-" } else { "" }, usize::from(scale));
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale == 0 { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// A number in groups of four digits.
fn numeric(unscaled: i128, scale: u8, out: &mut BytesMut) {
    let text = decimal(unscaled.checked_abs().unwrap_or(i128::MAX), scale);
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let before = whole.len().div_ceil(4);
    let padded = format!(
        "{whole:0>width$}{fraction:0<behind$}",
        width = before * 4,
        behind = fraction.len().div_ceil(4) * 4
    );
    let groups: Vec<u16> = padded
        .as_bytes()
        .chunks(4)
        .map(|group| group.iter().fold(0, |value, digit| value * 10 + u16::from(digit - b'0')))
        .collect();
    let first = groups.iter().position(|group| *group != 0);
    let last = groups.iter().rposition(|group| *group != 0);
    let (groups, weight) = match (first, last) {
        (Some(first), Some(last)) => (&groups[first..=last], before as i64 - 1 - first as i64),
        _ => (&[][..], 0),
    };
    // At most 39 digits are ten groups, and a few more.
    out.put_i16(i16::try_from(groups.len()).unwrap_or(i16::MAX));
    out.put_i16(i16::try_from(weight).unwrap_or_default());
    out.put_u16(if unscaled < 0 { 0x4000 } else { 0 });
    out.put_i16(scale.into());
    groups.iter().for_each(|group| out.put_u16(*group));
}

fn date(days: i32) -> String {
    era(time::format_date(days))
}

fn timestamp(micros: i64) -> String {
    let text = time::format_timestamp(micros);
    let text = text.strip_suffix('Z').unwrap_or(&text).replacen('T', " ", 1);
    let (text, before) = match text.split_once(' ') {
        Some((date, clock)) => (clock.to_owned(), era(date.to_owned())),
        None => (String::new(), text),
    };
    let clock = if text.contains('.') { text.trim_end_matches('0').to_owned() } else { text };
    match before.strip_suffix(" BC") {
        Some(date) => format!("{date} {clock}+00 BC"),
        None => format!("{before} {clock}+00"),
    }
}

/// The time of a day.
fn clock(micros: i64) -> String {
    let text = timestamp(micros);
    let text = text.strip_suffix("+00").unwrap_or(&text);
    text.split_once(' ').map_or(text, |(_, clock)| clock).to_owned()
}

/// There is no year 0: the one before 1 is 1 BC.
fn era(date: String) -> String {
    let parts = date.strip_prefix('-').map(|rest| (true, rest)).or(Some((false, date.as_str())));
    let year = parts.and_then(|(before, rest)| {
        let (year, rest) = rest.split_once('-')?;
        let year: i64 = year.parse().ok()?;
        (before || year == 0).then(|| format!("{:04}-{rest} BC", year + 1))
    });
    year.unwrap_or(date)
}

#[cfg(test)]
mod tests {
    use arrow_array::{ListArray, types::IntervalMonthDayNano};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::TimeUnit;

    use super::*;
    use crate::postgres::types::{NUMERIC, parameter};

    /// The values of a row in a format.
    fn row(arrays: Vec<ArrayRef>, types: &[DataType], format: i16) -> Vec<Option<Vec<u8>>> {
        let fields = types.iter().enumerate();
        let fields = fields.map(|(at, of)| Field::new(format!("c{at}"), of.clone(), true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let columns = columns(&schema, &[format]).unwrap();
        let batch = RecordBatch::try_new(Arc::new(schema), arrays).unwrap();
        let mut out = BytesMut::new();
        assert_eq!(write(b'D', &batch, &columns, 0, 1, &mut out).unwrap(), 1);
        assert_eq!(out[0], b'D');
        assert_eq!(u32::from_be_bytes(out[1..5].try_into().unwrap()) as usize, out.len() - 1);
        let (mut rest, mut values) = (&out[7..], Vec::new());
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = i32::from_be_bytes(*length);
            let (value, after) = after.split_at(usize::try_from(length).unwrap_or(0));
            values.push((length >= 0).then(|| value.to_vec()));
            rest = after;
        }
        values
    }

    #[test]
    fn of_a_row_that_cannot_be_sent_nothing_is_there() {
        let array = Arc::new(PrimitiveArray::<Date32Type>::from(vec![0, i32::MIN])) as ArrayRef;
        let schema = Schema::new(vec![Field::new("day", DataType::Date32, true)]);
        let columns = columns(&schema, &[1]).unwrap();
        let batch = RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap();
        let mut out = BytesMut::new();
        assert!(write(b'D', &batch, &columns, 0, 2, &mut out).is_err());
        // The one before it is.
        assert_eq!(out.len(), 1 + 4 + 2 + 4 + 4);
    }

    #[test]
    fn values_in_both_formats() {
        let arrays = || -> Vec<ArrayRef> {
            vec![
                Arc::new(BooleanArray::from(vec![true])),
                Arc::new(PrimitiveArray::<Int8Type>::from(vec![-1])),
                Arc::new(PrimitiveArray::<UInt64Type>::from(vec![u64::MAX])),
                Arc::new(PrimitiveArray::<Float64Type>::from(vec![0.1])),
                Arc::new(PrimitiveArray::<Date32Type>::from(vec![15_890])),
                Arc::new(
                    PrimitiveArray::<TimestampMicrosecondType>::from(vec![1_500_000]).with_timezone("UTC"),
                ),
                Arc::new(StringArray::from(vec!["é"])),
                Arc::new(StringArray::from(vec![None::<&str>])),
                Arc::new(PrimitiveArray::<Time64MicrosecondType>::from(vec![3_661_500_000])),
                Arc::new(BinaryArray::from(vec![&b"\0\xff"[..]])),
                Arc::new(Decimal128Array::from(vec![-i128::MAX]).with_precision_and_scale(38, 38).unwrap()),
            ]
        };
        let types = [
            DataType::Boolean,
            DataType::Int8,
            DataType::UInt64,
            DataType::Float64,
            DataType::Date32,
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            DataType::Utf8,
            DataType::Utf8,
            DataType::Time64(TimeUnit::Microsecond),
            DataType::Binary,
            DataType::Decimal128(38, 38),
        ];
        let texts = row(arrays(), &types, 0);
        let expected =
            ["t", "-1", "18446744073709551615", "0.1", "2013-07-04", "1970-01-01 00:00:01.5+00", "é"];
        for (text, expected) in texts.iter().zip(expected) {
            assert_eq!(std::str::from_utf8(text.as_ref().unwrap()).unwrap(), expected);
        }
        assert_eq!(texts[7], None);
        let last = texts[8..].iter().map(|text| std::str::from_utf8(text.as_ref().unwrap()).unwrap());
        let wide = format!("-1.{}", &i128::MAX.to_string()[1..]);
        assert_eq!(last.collect::<Vec<_>>(), ["01:01:01.5", "\\x00ff", &wide]);
        let binary = row(arrays(), &types, 1);
        assert_eq!(binary[0], Some(vec![1]));
        assert_eq!(binary[1], Some(vec![0xff, 0xff]));
        assert_eq!(binary[3], Some(0.1_f64.to_be_bytes().to_vec()));
        assert_eq!(binary[4], Some((15_890 - EPOCH_DAYS).to_be_bytes().to_vec()));
        assert_eq!(binary[5], Some((1_500_000 - EPOCH_MICROS).to_be_bytes().to_vec()));
        assert_eq!(binary[7], None);
        assert_eq!(binary[8], Some(3_661_500_000_i64.to_be_bytes().to_vec()));
        assert_eq!(binary[9], Some(vec![0, 0xff]));
    }

    /// Each value is written as it is outside of a list.
    #[test]
    fn lists_of_all_types() {
        let of = |values: ArrayRef| -> ArrayRef {
            let item = Field::new_list_field(values.data_type().clone(), true);
            Arc::new(ListArray::new(Arc::new(item), OffsetBuffer::from_lengths([1]), values, None))
        };
        let numbers = Decimal128Array::from(vec![-150]).with_precision_and_scale(9, 2).unwrap();
        let moments = PrimitiveArray::<TimestampMicrosecondType>::from(vec![1_500_000]);
        let day = IntervalMonthDayNano::new(0, 1, 0);
        let columns: [(ArrayRef, &str); 9] = [
            (Arc::new(BooleanArray::from(vec![true])), "{t}"),
            (Arc::new(PrimitiveArray::<Float32Type>::from(vec![0.1])), "{0.1}"),
            (Arc::new(PrimitiveArray::<UInt64Type>::from(vec![u64::MAX])), "{18446744073709551615}"),
            (Arc::new(numbers), "{-1.50}"),
            (Arc::new(PrimitiveArray::<Date32Type>::from(vec![15_890])), "{2013-07-04}"),
            (Arc::new(PrimitiveArray::<Time64MicrosecondType>::from(vec![1_500_000])), "{00:00:01.5}"),
            (Arc::new(moments.with_timezone("UTC")), "{\"1970-01-01 00:00:01.5+00\"}"),
            (Arc::new(BinaryArray::from(vec![&b"\0\xff"[..]])), r#"{"\\x00ff"}"#),
            (Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::from(vec![day])), "{\"1 day\"}"),
        ];
        for (values, text) in columns {
            let data_type = values.data_type().clone();
            let list = of(Arc::clone(&values));
            let list_type = list.data_type().clone();
            let shown = row(vec![Arc::clone(&list)], std::slice::from_ref(&list_type), 0);
            assert_eq!(std::str::from_utf8(shown[0].as_ref().unwrap()).unwrap(), text);
            let alone = row(vec![values], std::slice::from_ref(&data_type), 1)[0].clone().unwrap();
            let sent = row(vec![list], std::slice::from_ref(&list_type), 1)[0].clone().unwrap();
            // Behind one dimension, no NULL, the type, one value, the first place, and its length.
            assert_eq!(sent[24..], alone, "{text}");
            assert_eq!(sent[8..12], postgres_type(&data_type).oid.to_be_bytes());
        }
    }

    #[test]
    fn floats_are_the_shortest_that_are_read_back() {
        let told = |value: f64| float(&format!("{value:e}"), 15);
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-12.5, "-12.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(told(value), text);
        }
    }

    /// What is written in binary is read as the same number.
    #[test]
    fn numbers_with_a_point() {
        for (unscaled, scale, text) in [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (5, 4, "0.0005"),
            (-123_450_670, 4, "-12345.0670"),
            (10_000, 0, "10000"),
            (123, 1, "12.3"),
            (i128::from(i64::MAX), 10, "922337203.6854775807"),
        ] {
            assert_eq!(decimal(unscaled, scale), text);
            let mut out = BytesMut::new();
            numeric(unscaled, scale, &mut out);
            let (binary, text) = (out.freeze(), text.to_owned().into());
            assert_eq!(parameter(NUMERIC, 1, &binary).unwrap(), parameter(NUMERIC, 0, &text).unwrap());
        }
    }

    #[test]
    fn years_before_the_first() {
        assert_eq!(date(-719_163), "0001-12-31 BC");
        assert_eq!(timestamp(-719_163 * 86_400_000_000), "0001-12-31 00:00:00+00 BC");
        assert_eq!(date(2_932_897), "10000-01-01");
    }
}
