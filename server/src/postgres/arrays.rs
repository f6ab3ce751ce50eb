//! Lists in PostgreSQL's forms of arrays, of one dimension that begins at 1.

use arrow_array::{ArrayRef, ListArray, cast::AsArray as _};
use arrow_schema::DataType;
use basalt_sql::system::{OID_VALUE, postgres_type};
use bytes::{BufMut as _, BytesMut};

use super::{
    error::{Error, Result},
    rows::Values,
    types::OID,
};

/// A column of lists.
pub(super) struct Lists<'a> {
    list: &'a ListArray,
    values: Box<Values<'a>>,
    /// The number of their type.
    of: u32,
}

impl<'a> Lists<'a> {
    /// `None`: it is none of lists.
    pub(super) fn new(array: &'a ArrayRef, data_type: &DataType, is_binary: bool) -> Result<Option<Self>> {
        let (Some(list), DataType::List(item)) = (array.as_list_opt::<i32>(), data_type) else {
            return Ok(None);
        };
        let values = Box::new(Values::new(list.values(), item.data_type(), is_binary)?);
        let of = if item.name() == OID_VALUE { OID } else { postgres_type(item.data_type()).oid };
        Ok(Some(Self { list, values, of }))
    }

    /// The places of a row's values.
    fn span(&self, row: usize) -> std::ops::Range<usize> {
        let offsets = self.list.value_offsets();
        // Default: none; offsets are not negative.
        let at = |row: usize| usize::try_from(offsets[row]).unwrap_or_default();
        at(row)..at(row + 1)
    }

    pub(super) fn text(&self, row: usize, out: &mut BytesMut) {
        let (mut value, span) = (BytesMut::new(), self.span(row));
        out.put_u8(b'{');
        for at in span.clone() {
            if at > span.start {
                out.put_u8(b',');
            }
            if self.values.is_null(at) {
                out.put_slice(b"NULL");
                continue;
            }
            value.clear();
            self.values.text(at, &mut value);
            quoted(&value, out);
        }
        out.put_u8(b'}');
    }

    pub(super) fn binary(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        let span = self.span(row);
        let count =
            i32::try_from(span.len()).map_err(|_| Error::limit("a list of the answer is too long"))?;
        let has_nulls = span.clone().any(|at| self.values.is_null(at));
        out.put_i32((count > 0).into());
        out.put_i32(has_nulls.into());
        out.put_u32(self.of);
        if count > 0 {
            out.put_i32(count);
            out.put_i32(1);
        }
        for at in span {
            self.values.write(at, out)?;
        }
        Ok(())
    }
}

/// A value of a list, in quotes where it would be read as another without.
fn quoted(value: &[u8], out: &mut BytesMut) {
    let is_sign = |byte: &u8| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',' | b' ' | 9..=13);
    if !value.is_empty() && !value.eq_ignore_ascii_case(b"null") && !value.iter().any(is_sign) {
        return out.put_slice(value);
    }
    out.put_u8(b'"');
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Array as _, Int32Array, StringArray, types::Int16Type};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn values_that_would_be_read_as_others_are_quoted() {
        for (value, text) in [
            ("a", "a"),
            ("é'x", "é'x"),
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("a,b", r#""a,b""#),
            ("a;b", "a;b"),
            ("NULL", r#""NULL""#),
            ("null", r#""null""#),
            ("nulls", "nulls"),
            (r#"say "x""#, r#""say \"x\"""#),
            (r"a\b", r#""a\\b""#),
            ("{}", r#""{}""#),
            ("a\nb", "\"a\nb\""),
            ("a\u{a0}b", "a\u{a0}b"),
        ] {
            let mut out = BytesMut::new();
            quoted(value.as_bytes(), &mut out);
            assert_eq!(out, text.as_bytes(), "{value}");
        }
    }

    #[test]
    fn lists_in_both_forms() {
        let numbers = [Some(vec![Some(1), None, Some(-2)]), Some(vec![]), None, Some(vec![Some(7)])];
        let numbers: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int16Type, _, _>(numbers));
        // What is cut off before does not count.
        for (array, from) in [(Arc::clone(&numbers), 0), (numbers.slice(1, 3), 1)] {
            let lists = |is_binary| Lists::new(&array, array.data_type(), is_binary).unwrap().unwrap();
            for (row, text) in [(0, "{1,NULL,-2}"), (1, "{}"), (3, "{7}")] {
                let Some(row) = usize::checked_sub(row, from) else { continue };
                let mut out = BytesMut::new();
                lists(false).text(row, &mut out);
                assert_eq!(out, text.as_bytes());
            }
            let mut out = BytesMut::new();
            lists(true).binary(1 - from, &mut out).unwrap();
            assert_eq!(out, [0_i32, 0, 21].map(i32::to_be_bytes).concat());
        }
        let mut out = BytesMut::new();
        Lists::new(&numbers, numbers.data_type(), true).unwrap().unwrap().binary(0, &mut out).unwrap();
        let head = [1_i32, 1, 21, 3, 1].map(i32::to_be_bytes).concat();
        let values = [0_i16, 2, 1, -1, -1, 0, 2, -2].map(i16::to_be_bytes).concat();
        assert_eq!(out, [head, values].concat());
    }

    #[test]
    fn texts_and_numbers_of_types_in_lists() {
        let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a b"), None]));
        let texts: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([2]), texts, None));
        let mut out = BytesMut::new();
        Lists::new(&texts, texts.data_type(), true).unwrap().unwrap().binary(0, &mut out).unwrap();
        let head = [1_i32, 1, 25, 2, 1, 3].map(i32::to_be_bytes).concat();
        assert_eq!(out, [&head[..], b"a b", &(-1_i32).to_be_bytes()].concat());

        let item = Arc::new(Field::new(OID_VALUE, DataType::Int32, true));
        let oids: ArrayRef = Arc::new(Int32Array::from(vec![23]));
        let oids: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([1]), oids, None));
        let mut out = BytesMut::new();
        Lists::new(&oids, oids.data_type(), true).unwrap().unwrap().binary(0, &mut out).unwrap();
        assert_eq!(out, [1_i32, 0, 26, 1, 1, 4, 23].map(i32::to_be_bytes).concat());
        assert!(Lists::new(&oids, &DataType::Int32, true).unwrap().is_none());
    }
}
