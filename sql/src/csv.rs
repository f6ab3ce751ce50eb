//! Rows as CSV. A text that would be taken for what stands for null is quoted, so an empty one is `""` where null is nothing.
//!
//! This is not the writer of `arrow-csv`, which leaves both empty.

use std::io::{self, Write};

use arrow_array::{Array as _, RecordBatch, cast::AsArray as _};
use arrow_schema::{ArrowError, DataType, Schema};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// How CSV is written.
#[derive(Clone, Copy, Debug)]
pub struct Form<'a> {
    /// What separates fields.
    pub delimiter: u8,
    /// What stands around a text that has one of the others in it.
    pub quote: u8,
    /// What stands for null.
    pub null: &'a str,
}

impl Default for Form<'_> {
    fn default() -> Self {
        Self { delimiter: b',', quote: b'"', null: "" }
    }
}

impl Form<'_> {
    /// Writes the names of the columns.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn header(&self, schema: &Schema, out: &mut impl Write) -> io::Result<()> {
        for (i, field) in schema.fields().iter().enumerate() {
            self.begin(i, out)?;
            // The only name of a line would be no line.
            self.field(field.name().as_bytes(), field.name().is_empty() && schema.fields().len() == 1, out)?;
        }
        out.write_all(b"\n")
    }

    /// Writes the rows of a batch.
    ///
    /// # Errors
    /// A value that cannot be written as text, or those of `out`.
    pub fn rows(&self, batch: &RecordBatch, out: &mut impl Write) -> Result<(), ArrowError> {
        let options = FormatOptions::new().with_display_error(false);
        let formatters = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
        let formatters = formatters.collect::<Result<Vec<_>, _>>()?;
        // Readers pass over a line without a character: the only value of one is in quotes.
        let is_alone = batch.num_columns() == 1;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            for (i, (column, formatter)) in batch.columns().iter().zip(&formatters).enumerate() {
                self.begin(i, out)?;
                if column.is_null(row) {
                    self.field(self.null.as_bytes(), is_alone && self.null.is_empty(), out)?;
                } else if *column.data_type() == DataType::Utf8 {
                    let value = column.as_string::<i32>().value(row);
                    self.field(value.as_bytes(), self.means_null(value), out)?;
                } else {
                    text.clear();
                    formatter.value(row).write(&mut text)?;
                    let is_told = *column.data_type() == DataType::Binary && text == self.null;
                    self.field(text.as_bytes(), is_told, out)?;
                }
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Whether a text without quotes is null for a reader, or for `basalt load`.
    fn means_null(&self, text: &str) -> bool {
        text.is_empty() || text == self.null || (self.null.is_empty() && matches!(text, "NULL" | r"\N"))
    }

    fn begin(&self, column: usize, out: &mut impl Write) -> io::Result<()> {
        if column > 0 { out.write_all(&[self.delimiter]) } else { Ok(()) }
    }

    /// Writes a field, in quotes where that is asked for, or where it would be several fields or lines without.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn field(&self, text: &[u8], is_quoted: bool, out: &mut impl Write) -> io::Result<()> {
        let is_special =
            |byte: u8| byte == self.delimiter || byte == self.quote || matches!(byte, b'\n' | b'\r');
        if !is_quoted && !text.iter().copied().any(is_special) {
            return out.write_all(text);
        }
        out.write_all(&[self.quote])?;
        for part in text.split_inclusive(|byte| *byte == self.quote) {
            out.write_all(part)?;
            if part.ends_with(&[self.quote]) {
                out.write_all(&[self.quote])?;
            }
        }
        out.write_all(&[self.quote])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BinaryArray, Int32Array, StringArray};

    use super::*;

    fn written(form: Form<'_>, columns: &[(&str, ArrayRef)]) -> String {
        let batch = RecordBatch::try_from_iter(columns.to_vec()).unwrap();
        let mut out = Vec::new();
        form.header(&batch.schema(), &mut out).unwrap();
        form.rows(&batch, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_are_told_from_null() {
        let texts: ArrayRef =
            Arc::new(StringArray::from(vec![Some(""), None, Some("NULL"), Some("a;\"b\"\n")]));
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(-3), Some(4)]));
        let columns = [("t;", Arc::clone(&texts)), ("n", numbers)];
        let form = Form::default();
        assert_eq!(written(form, &columns), "t;,n\n\"\",1\n,\n\"NULL\",-3\n\"a;\"\"b\"\"\n\",4\n");
        let null = Form { null: "NULL", ..form };
        assert_eq!(written(null, &columns), "t;,n\n\"\",1\nNULL,NULL\n\"NULL\",-3\n\"a;\"\"b\"\"\n\",4\n");
        let other = Form { delimiter: b';', quote: b'\'', null: "" };
        assert_eq!(written(other, &columns), "'t;';n\n'';1\n;\n'NULL';-3\n'a;\"b\"\n';4\n");
    }

    #[test]
    fn no_line_is_empty() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None]));
        assert_eq!(written(Form::default(), &[("t", texts)]), "t\n\"\"\n\"\"\n");
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![Some(b"".as_slice()), None, Some(&[255])]));
        let number: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
        assert_eq!(written(Form::default(), &[("b", bytes), ("n", number)]), "b,n\n\"\",1\n,2\nff,3\n");
    }
}
