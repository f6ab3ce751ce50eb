//! Rows in PostgreSQL's binary form on their way into a table: as lines of its text format.

use basalt_core::{
    plan::expr_text,
    query::{Expr, Literal},
    time,
};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::{
    super::{
        error::{Error, Result},
        rows::Column,
        types::{self, BYTEA},
    },
    out::{HEAD, escaped},
};
use crate::limits;

/// What a file begins with, before its flags.
const SIGNATURE: usize = 11;
/// Flags that a reader must know.
const CRITICAL_FLAGS: u32 = 0xffff_0000;

/// Takes binary rows, in pieces that end anywhere.
#[derive(Debug)]
pub(super) struct Binary {
    /// Of the columns that are sent.
    types: Vec<u32>,
    /// What has come and is not a whole row yet.
    rest: BytesMut,
    part: Part,
    rows: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Head,
    /// So many bytes before the rows mean nothing here.
    Extension(usize),
    Rows,
    Over,
}

impl Binary {
    pub(super) fn new(columns: &[Column]) -> Self {
        let types = columns.iter().map(Column::oid).collect();
        Self { types, rest: BytesMut::new(), part: Part::Head, rows: 0 }
    }

    /// Writes the rows that are complete as text.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut BytesMut) -> Result<()> {
        self.rest.extend_from_slice(bytes);
        while self.step(out)? {}
        if self.rest.len() > limits::POSTGRES_COPY_BYTES {
            return Err(Error::limit(format!("row {} of COPY is too large", self.rows + 1)));
        }
        if self.part == Part::Over && !self.rest.is_empty() {
            return Err(malformed("received copy data after EOF marker"));
        }
        Ok(())
    }

    /// Bytes that are not a whole row yet.
    pub(super) fn kept(&self) -> usize {
        self.rest.len()
    }

    /// Fails where the rows have not ended.
    pub(super) fn finish(&self) -> Result<()> {
        let is_whole = match self.part {
            Part::Over => true,
            // The mark behind the last row is left out by some.
            Part::Rows => self.rest.is_empty(),
            Part::Head | Part::Extension(_) => false,
        };
        if is_whole { Ok(()) } else { Err(malformed("unexpected EOF in COPY data")) }
    }

    /// Goes a step on; whether there may be another one.
    fn step(&mut self, out: &mut BytesMut) -> Result<bool> {
        match self.part {
            Part::Head => {
                if self.rest.len() < HEAD.len() {
                    return Ok(false);
                }
                let mut head = self.rest.split_to(HEAD.len());
                if head[..SIGNATURE] != HEAD[..SIGNATURE] {
                    return Err(malformed("COPY file signature not recognized"));
                }
                head.advance(SIGNATURE);
                if head.get_u32() & CRITICAL_FLAGS != 0 {
                    return Err(malformed("unrecognized critical flags in COPY file header"));
                }
                let length = usize::try_from(head.get_i32());
                self.part = Part::Extension(length.map_err(|_| malformed("invalid COPY file header"))?);
            }
            Part::Extension(length) => {
                let skipped = length.min(self.rest.len());
                self.rest.advance(skipped);
                self.part = if skipped == length { Part::Rows } else { Part::Extension(length - skipped) };
                return Ok(skipped == length);
            }
            Part::Rows => return self.row(out),
            Part::Over => return Ok(false),
        }
        Ok(true)
    }

    /// Takes a row, if all of it is there.
    fn row(&mut self, out: &mut BytesMut) -> Result<bool> {
        let Some(fields) = self.fields()? else { return Ok(false) };
        for (at, (field, oid)) in fields.iter().zip(&self.types).enumerate() {
            if at > 0 {
                out.put_u8(b'\t');
            }
            match field {
                None => out.put_slice(b"\\N"),
                Some(bytes) => {
                    let text = text(*oid, bytes);
                    let text = text.map_err(|error| error.of_row(self.rows + 1, at + 1))?;
                    escaped(text.as_bytes(), b'\t', out);
                }
            }
        }
        if self.part == Part::Rows {
            out.put_u8(b'\n');
            self.rows += 1;
        }
        Ok(self.part == Part::Rows)
    }

    /// The values of the next row, which is taken; `None`: it has not come as a whole.
    fn fields(&mut self) -> Result<Option<Vec<Option<Bytes>>>> {
        let Some(count) = number::<2>(&self.rest, 0).map(i16::from_be_bytes) else { return Ok(None) };
        if count == -1 {
            self.rest.advance(2);
            self.part = Part::Over;
            return Ok(Some(Vec::new()));
        }
        if usize::try_from(count).ok() != Some(self.types.len()) {
            let (row, columns) = (self.rows + 1, self.types.len());
            return Err(malformed(&format!("row {row} of COPY has {count} fields, expected {columns}")));
        }
        let (mut end, mut ends) = (2, Vec::with_capacity(self.types.len()));
        for _ in &self.types {
            let Some(length) = number::<4>(&self.rest, end).map(i32::from_be_bytes) else { return Ok(None) };
            end += 4;
            ends.push(match length {
                -1 => None,
                length => {
                    let length = usize::try_from(length).map_err(|_| malformed("invalid field size"))?;
                    end += length;
                    Some(length)
                }
            });
            if end > limits::POSTGRES_COPY_BYTES {
                return Err(Error::limit(format!("row {} of COPY is too large", self.rows + 1)));
            }
        }
        if self.rest.len() < end {
            return Ok(None);
        }
        let mut row = self.rest.split_to(end).freeze();
        row.advance(2);
        let field = |length: Option<usize>| {
            row.advance(4);
            length.map(|length| row.split_to(length))
        };
        Ok(Some(ends.into_iter().map(field).collect()))
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn malformed(what: &str) -> Error {
    Error::new("22P04", what)
}

/// A value as text that its column reads.
fn text(oid: u32, bytes: &Bytes) -> Result<String> {
    if oid == BYTEA {
        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
        return Ok(format!("\\x{}", digits.collect::<String>()));
    }
    Ok(match types::parameter(oid, 1, bytes)? {
        Literal::Null => String::new(),
        Literal::Bool(value) => value.to_string(),
        Literal::Int(value) => value.to_string(),
        Literal::UInt(value) => value.to_string(),
        Literal::Float(value) => value.to_string(),
        Literal::Text(text) => text,
        Literal::Date(days) => time::format_date(days),
        Literal::Timestamp(micros) => time::format_timestamp(micros),
        decimal @ Literal::Decimal { .. } => expr_text(&Expr::Literal(decimal)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::types::{INT8, TEXT};

    fn binary() -> Binary {
        Binary { types: vec![INT8, TEXT], rest: BytesMut::new(), part: Part::Head, rows: 0 }
    }

    fn whole() -> Vec<u8> {
        let mut bytes = HEAD.to_vec();
        bytes.extend_from_slice(b"\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x07\0\0\0\x03a\tb");
        bytes.extend_from_slice(b"\0\x02\xff\xff\xff\xff\0\0\0\0");
        bytes.extend_from_slice(b"\xff\xff");
        bytes
    }

    #[test]
    fn rows_end_anywhere() {
        let whole = whole();
        for piece in 1..=whole.len() {
            let (mut binary, mut out) = (binary(), BytesMut::new());
            whole.chunks(piece).for_each(|piece| binary.push(piece, &mut out).unwrap());
            binary.finish().unwrap();
            assert_eq!(out, "7\ta\\tb\n\\N\t\n", "{piece}");
        }
    }

    #[test]
    fn half_a_row_is_an_error() {
        let whole = whole();
        // Behind the head, and between rows, an end is one; behind the mark it is.
        let ends = [HEAD.len(), HEAD.len() + 21, HEAD.len() + 31, whole.len()];
        for end in 0..=whole.len() {
            let mut binary = binary();
            binary.push(&whole[..end], &mut BytesMut::new()).unwrap();
            assert_eq!(binary.finish().is_ok(), ends.contains(&end), "{end}");
        }
    }

    #[test]
    fn what_is_no_row_is_refused() {
        for (at, byte) in [(0, b'p'), (11, 1), (15, 0x80), (20, 3), (24, 4), (21, 0x7f)] {
            let mut bytes = whole();
            bytes[at] = byte;
            assert!(binary().push(&bytes, &mut BytesMut::new()).is_err(), "{at}");
        }
    }

    #[test]
    fn nothing_follows_the_end() {
        let (mut binary, mut out) = (binary(), BytesMut::new());
        binary.push(&whole(), &mut out).unwrap();
        binary.push(b"", &mut out).unwrap();
        assert!(binary.push(b"\0", &mut out).is_err());
    }
}
