//! The rows of COPY TO STDOUT, a message for each.

use arrow_array::RecordBatch;
use basalt_sql::{CopyForm, CopyFormat, csv::Form};
use bytes::{BufMut as _, BytesMut};

use super::super::{
    error::{Error, Result},
    rows::{self, Column, Values},
};
use crate::limits;

/// What binary rows begin with: a signature, no flags, and nothing before the rows.
pub(super) const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// What stands in the place of a row behind the last one.
const END: i16 = -1;

/// Begins a message; where it does.
fn open(out: &mut BytesMut) -> usize {
    let begins = out.len();
    out.put_u8(b'd');
    out.put_i32(0);
    begins
}

fn close(begins: usize, out: &mut BytesMut) -> Result<()> {
    let length = i32::try_from(out.len() - begins - 1);
    let length = length.map_err(|_| Error::limit("a row of the answer is too large"))?;
    out[begins + 1..begins + 5].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// What comes before the rows. In binary form it is no message of its own: readers of rows expect it before the first.
pub(super) fn begin(form: &CopyForm, columns: &mut [Column], out: &mut BytesMut) -> Result<()> {
    let is_binary = form.format == CopyFormat::Binary;
    columns.iter_mut().for_each(|column| column.format = i16::from(is_binary));
    if is_binary || !form.header {
        return Ok(());
    }
    let begins = open(out);
    for (at, column) in columns.iter().enumerate() {
        if at > 0 {
            out.put_u8(form.delimiter);
        }
        field(form, column.name.as_bytes(), columns.len() == 1, out);
    }
    out.put_u8(b'\n');
    close(begins, out)
}

/// Writes rows from one on, until there are many bytes; `sent` were written before those of the batch. Returns the row that
/// follows.
pub(super) fn rows(
    form: &CopyForm,
    batch: &RecordBatch,
    columns: &[Column],
    (from, sent): (usize, u64),
    out: &mut BytesMut,
) -> Result<usize> {
    if form.format == CopyFormat::Binary {
        if sent > 0 {
            return rows::write(b'd', batch, columns, from, usize::MAX, out);
        }
        let mut row = BytesMut::new();
        let next = rows::write(b'd', batch, columns, from, 1, &mut row)?;
        let begins = open(out);
        out.put_slice(HEAD);
        // Behind its type and its length.
        out.put_slice(&row[5..]);
        close(begins, out)?;
        return Ok(next);
    }
    let arrays = batch.columns().iter().zip(columns);
    let arrays = arrays.map(|(array, column)| Values::of(array, column)).collect::<Result<Vec<_>>>()?;
    let mut text = BytesMut::new();
    let mut row = from;
    while row < batch.num_rows() && out.len() < limits::POSTGRES_OUTPUT_BYTES {
        let begins = open(out);
        for (at, array) in arrays.iter().enumerate() {
            if at > 0 {
                out.put_u8(form.delimiter);
            }
            if array.is_null(row) {
                out.put_slice(form.null.as_bytes());
                continue;
            }
            text.clear();
            array.text(row, &mut text);
            field(form, &text, arrays.len() == 1, out);
        }
        out.put_u8(b'\n');
        close(begins, out)?;
        row += 1;
    }
    Ok(row)
}

/// What comes behind so many rows.
pub(super) fn end(form: &CopyForm, sent: u64, out: &mut BytesMut) -> Result<()> {
    if form.format != CopyFormat::Binary {
        return Ok(());
    }
    let begins = open(out);
    if sent == 0 {
        out.put_slice(HEAD);
    }
    out.put_i16(END);
    close(begins, out)
}

fn field(form: &CopyForm, text: &[u8], is_alone: bool, out: &mut BytesMut) {
    if form.format != CopyFormat::Csv {
        return escaped(text, form.delimiter, out);
    }
    let csv = Form { delimiter: form.delimiter, quote: form.quote, null: &form.null };
    // What would be null, or the end.
    let is_quoted = text == form.null.as_bytes() || (is_alone && text == b"\\.");
    // Writing to memory does not fail.
    let _ = csv.field(text, is_quoted, &mut out.writer());
}

/// A field of text, with a backslash before what would be taken for something else without.
pub(super) fn escaped(text: &[u8], delimiter: u8, out: &mut BytesMut) {
    for byte in text {
        let letter = match byte {
            8 => b'b',
            9 => b't',
            10 => b'n',
            11 => b'v',
            12 => b'f',
            13 => b'r',
            byte if *byte == b'\\' || *byte == delimiter => *byte,
            byte => {
                out.put_u8(*byte);
                continue;
            }
        };
        out.put_slice(&[b'\\', letter]);
    }
}
