//! Records of a CSV as columns of texts, with the line of each row, so that a value that is none has its place.

use std::{borrow::Cow, sync::Arc};

use arrow_array::{ArrayRef, StringArray, builder::StringBuilder};

use crate::csv::{Kind, Record, shown};

/// Some records, column by column.
#[derive(Debug)]
pub struct Texts {
    columns: Vec<StringBuilder>,
    /// What stands for null where it is not in quotes; `None`: a field without a character does, quoted or not.
    null: Option<String>,
    /// What stands for null as well, quoted or not.
    nulls: Vec<String>,
    lines: Vec<u64>,
    bytes: usize,
}

/// Why a record is no row.
#[derive(Debug)]
pub struct Misfit {
    /// The column, from 0, where one is wrong.
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl Texts {
    /// For records of so many fields, of which those without a character are null, quoted or not.
    pub fn new(columns: usize) -> Self {
        let columns = (0..columns).map(|_| StringBuilder::new()).collect();
        Self { columns, null: None, nulls: Vec::new(), lines: Vec::new(), bytes: 0 }
    }

    /// The same, where nulls are fields that are this text without quotes, and no others.
    #[must_use]
    pub fn with_null(self, null: &str) -> Self {
        Self { null: Some(null.to_owned()), ..self }
    }

    /// The same, where these are null as well, quoted or not.
    #[must_use]
    pub fn with_more_nulls(self, nulls: Vec<String>) -> Self {
        Self { nulls, ..self }
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.lines.len()
    }

    /// What they take, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a record in. A line without a character is a row where there is one column, and nothing otherwise.
    ///
    /// # Errors
    /// It has another number of fields, or bytes that are no UTF-8.
    pub fn push(&mut self, record: &Record) -> Result<(), Misfit> {
        let (fields, columns) = (record.len(), self.columns.len());
        if record.is_blank && columns > 1 {
            return Ok(());
        }
        if fields != columns {
            return Err(Misfit { column: None, message: format!("{fields} fields, not {columns}") });
        }
        let fields = record.fields().zip(record.kinds()).zip(&mut self.columns);
        for (column, ((field, kind), builder)) in fields.enumerate() {
            let is_null = match &self.null {
                None => field.is_empty(),
                Some(null) => kind == Kind::Null || (kind == Kind::Csv && field == null.as_bytes()),
            };
            let is_null = is_null || self.nulls.iter().any(|null| field == null.as_bytes());
            match std::str::from_utf8(field) {
                _ if is_null => builder.append_null(),
                Ok(text) => builder.append_value(text),
                Err(_) => {
                    let message = format!("{:?} is not UTF-8", shown(field));
                    return Err(Misfit { column: Some(column), message });
                }
            }
        }
        self.bytes += record.data.len() + (columns + 1) * size_of::<u64>();
        self.lines.push(record.line);
        Ok(())
    }

    /// The columns, and the line of each row; nothing is left.
    pub fn take(&mut self) -> (Vec<ArrayRef>, Vec<u64>) {
        self.bytes = 0;
        let columns = self.columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
        (columns.collect(), std::mem::take(&mut self.lines))
    }
}

/// Whether a text says that a float is infinite: a number that is only too large says another thing.
pub fn says_infinity(text: &str) -> bool {
    let word = text.trim();
    let word = word.strip_prefix(['-', '+']).unwrap_or(word);
    word.eq_ignore_ascii_case("inf") || word.eq_ignore_ascii_case("infinity")
}

/// Texts of timestamps, each with its seconds; where none lacks them, the same texts.
pub fn all_with_seconds(texts: &StringArray) -> StringArray {
    match texts.iter().flatten().any(|text| matches!(with_seconds(text), Cow::Owned(_))) {
        true => texts.iter().map(|text| text.map(with_seconds)).collect(),
        false => texts.clone(),
    }
}

/// A timestamp without seconds, as `2013-07-04 10:00`, with them; any other text as it is. Arrow reads none without.
pub fn with_seconds(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let is_one = bytes.len() >= 16
        && matches!(bytes[10], b' ' | b'T')
        && bytes[13] == b':'
        && bytes[14..16].iter().all(u8::is_ascii_digit)
        && bytes.get(16).is_none_or(|next| matches!(next, b'Z' | b'+' | b'-' | b' '));
    match is_one {
        true => Cow::Owned(format!("{}:00{}", &text[..16], &text[16..])),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array as _, cast::AsArray as _};

    use super::*;
    use crate::csv::Splitter;

    fn texts(csv: &str, columns: usize) -> Result<(Vec<ArrayRef>, Vec<u64>), Misfit> {
        let mut splitter = Splitter::new(csv.as_bytes(), b',').unwrap();
        let (mut record, mut texts) = (Record::default(), Texts::new(columns));
        while splitter.next(&mut record).unwrap() {
            texts.push(&record)?;
        }
        Ok(texts.take())
    }

    #[test]
    fn an_empty_line_is_a_row_of_one_column() {
        let (columns, lines) = texts("a\n\n\"\"\r\n\r\nb", 1).unwrap();
        let values: Vec<_> = columns[0].as_string::<i32>().iter().collect();
        assert_eq!(values, [Some("a"), None, None, None, Some("b")]);
        assert_eq!(lines, [1, 2, 3, 4, 5]);
        let (columns, lines) = texts("a,\"x\ny\"\n\n,b\n", 2).unwrap();
        assert_eq!((columns[0].len(), columns[0].null_count(), lines), (2, 1, vec![1, 4]));
    }

    #[test]
    fn a_record_that_is_no_row() {
        assert_eq!(texts("a,b\nc\n", 2).unwrap_err().message, "1 fields, not 2");
        let mut texts = Texts::new(1);
        let mut splitter = Splitter::new(&b"\xff\n"[..], b',').unwrap();
        let mut record = Record::default();
        assert!(splitter.next(&mut record).unwrap());
        assert_eq!(texts.push(&record).unwrap_err().column, Some(0));
    }

    #[test]
    fn seconds_may_be_left_out() {
        for (text, expected) in [
            ("2013-07-04 10:00", "2013-07-04 10:00:00"),
            ("2013-07-04T10:00Z", "2013-07-04T10:00:00Z"),
            ("2013-07-04 10:00+02:00", "2013-07-04 10:00:00+02:00"),
            ("2013-07-04 10:00:30", "2013-07-04 10:00:30"),
            ("2013-07-04 10:0", "2013-07-04 10:0"),
            ("2013-07-04", "2013-07-04"),
            ("2013-07-0é 10:00", "2013-07-0é 10:00"),
        ] {
            assert_eq!(with_seconds(text), expected);
        }
        let texts = |texts: [&str; 2]| StringArray::from(vec![Some(texts[0]), None, Some(texts[1])]);
        let (whole, short) = (["2013-07-04 10:00:30", "x"], ["2013-07-04 10:00:30", "2013-07-04 10:00"]);
        assert_eq!(all_with_seconds(&texts(whole)), texts(whole));
        assert_eq!(all_with_seconds(&texts(short)), texts([short[0], "2013-07-04 10:00:00"]));
    }

    #[test]
    fn infinity_is_said() {
        for text in ["inf", " -Infinity ", "+INF"] {
            assert!(says_infinity(text), "{text}");
        }
        for text in ["1e400", "", "infinit", "-", "nan"] {
            assert!(!says_infinity(text), "{text}");
        }
    }
}
