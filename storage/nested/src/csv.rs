//! The records of a CSV (RFC 4180), strictly: what its quotes leave open is an error with its place.
//!
//! A quote opens a quoted field where the field starts, and nowhere else; inside, two quotes are one. The quote that
//! closes it is followed by the delimiter or by the end of the line. Elsewhere a quote is a character like any other.
//! Lines end in LF, CR LF or CR.
//!
//! This is not the crate `csv`: that one takes text behind a closing quote as part of the field and the end of the file
//! as a closing quote, passes over empty lines, and counts lines wrongly behind them and behind CR LF.

use std::io::{self, Read};

use memchr::{memchr, memchr_iter, memchr3};

/// Bytes read at a time.
pub const BUFFER_BYTES: usize = 1 << 20;
/// What one record may take in memory: more than a server takes as one row.
pub const RECORD_BYTES: usize = 64 << 20;
/// What may stand before the first record.
pub const BOM: &[u8] = b"\xef\xbb\xbf";

/// Characters of a cell that are shown.
const SHOWN_CELL: usize = 40;
/// Bytes that are copied at once: no fewer cost less, and most fields have no more.
const SHORT_FIELD: usize = 16;
/// Bytes of a line whose fields, however many they are, take no more than a record may.
const WHOLE_LINE: usize = RECORD_BYTES / 16;

/// The start of a cell, for messages.
pub fn shown(cell: &[u8]) -> String {
    let cell = String::from_utf8_lossy(cell);
    let mut shown: String = cell.chars().take(SHOWN_CELL).collect();
    if shown.len() < cell.len() {
        shown.push('…');
    }
    shown
}

/// What a cell is, where the format tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of a CSV: a text that may stand for anything.
    Csv,
    /// The same in quotes: where a column is text, it stands for itself.
    Quoted,
    /// A string of JSON.
    Text,
    /// Anything else of JSON, as it is written.
    Bare,
    /// A null of JSON, or a key that is missing.
    Null,
}

/// One record: its fields, without their quotes.
#[derive(Debug, Default)]
pub struct Record {
    /// The bytes of all fields.
    pub data: Vec<u8>,
    /// Where each field ends in `data`.
    pub ends: Vec<usize>,
    /// What each field is.
    pub kinds: Vec<Kind>,
    /// The line that it starts on, from 1.
    pub line: u64,
    /// It is a line without a character.
    pub is_blank: bool,
}

impl Record {
    /// How many fields it has.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.data[start..end])
    }

    /// What each field is.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.kinds.iter().copied()
    }

    /// Begins another one, at a line.
    pub fn begin(&mut self, line: u64) {
        self.data.clear();
        self.ends.clear();
        self.kinds.clear();
        (self.line, self.is_blank) = (line, false);
    }

    fn bytes(&self) -> usize {
        self.data.len() + self.ends.len() * size_of::<usize>()
    }
}

/// Why there is no next record.
#[derive(Debug)]
pub enum Failure {
    /// The input cannot be read.
    Read(io::Error),
    /// It is no CSV from here on.
    Malformed {
        /// The line, from 1.
        line: u64,
        /// Which field of its record, from 0.
        field: usize,
        /// What is wrong.
        message: String,
    },
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// What ends a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Field,
    Record,
}

/// Splits what it reads.
#[derive(Debug)]
pub struct Splitter<R> {
    input: R,
    delimiter: u8,
    quote: u8,
    buffer: Vec<u8>,
    /// What of the buffer is not split yet.
    start: usize,
    end: usize,
    /// Bytes read so far.
    read: u64,
    line: u64,
}

impl<R: Read> Splitter<R> {
    /// The records of a whole input. A byte order mark is passed over.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn new(input: R, delimiter: u8) -> io::Result<Self> {
        let mut splitter = Self::behind(input, delimiter, 1, BUFFER_BYTES);
        while splitter.end < BOM.len() && splitter.append()? {}
        if splitter.rest().starts_with(BOM) {
            splitter.start = BOM.len();
        }
        Ok(splitter)
    }

    /// The records of an input that goes on at a line, read in pieces of so many bytes.
    pub fn behind(input: R, delimiter: u8, line: u64, buffer_bytes: usize) -> Self {
        let buffer = vec![0; buffer_bytes.max(BOM.len())];
        Self { input, delimiter, quote: b'"', buffer, start: 0, end: 0, read: 0, line }
    }

    /// The same, where another character quotes fields.
    #[must_use]
    pub fn quoted_by(self, quote: u8) -> Self {
        Self { quote, ..self }
    }

    /// The line that comes next, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Bytes of the input that were split so far: another one may go on behind them.
    pub fn position(&self) -> u64 {
        self.read - (self.end - self.start) as u64
    }

    /// Reads the next record that is no empty line, such as a header behind some; `false` at the end of the input.
    ///
    /// # Errors
    /// The input cannot be read, or is no CSV.
    pub fn next_filled(&mut self, record: &mut Record) -> Result<bool, Failure> {
        while self.next(record)? {
            if !record.is_blank {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the next record; `false` at the end of the input.
    ///
    /// # Errors
    /// The input cannot be read, or is no CSV.
    pub fn next(&mut self, record: &mut Record) -> Result<bool, Failure> {
        record.begin(self.line);
        if self.peek()?.is_none() {
            return Ok(false);
        }
        if self.whole_line(record) {
            return Ok(true);
        }
        loop {
            let is_quoted = self.peek()? == Some(self.quote);
            let end = if is_quoted { self.quoted(record)? } else { self.plain(record)? };
            record.ends.push(record.data.len());
            record.kinds.push(if is_quoted { Kind::Quoted } else { Kind::Csv });
            check_size(record)?;
            if end == End::Record {
                record.is_blank = record.bytes() == size_of::<usize>() && !is_quoted;
                return Ok(true);
            }
        }
    }

    /// Takes a record that is a line without a quote and lies in the buffer with its end, as most do: nothing has to be asked
    /// field by field. `false`: it is another one, of which nothing was taken.
    fn whole_line(&mut self, record: &mut Record) -> bool {
        let rest = &self.buffer[self.start..self.end];
        let Some(end) = memchr3(b'\n', b'\r', self.quote, rest).filter(|end| *end < WHOLE_LINE) else {
            return false;
        };
        let behind = match (rest[end], rest.get(end + 1)) {
            (byte, _) if byte == self.quote || byte == self.delimiter => return false,
            (b'\r', None) => return false,
            (b'\r', Some(b'\n')) => 2,
            _ => 1,
        };
        let line = &rest[..end];
        record.data.resize(end + SHORT_FIELD, 0);
        let (mut start, mut filled) = (0, 0);
        for at in memchr_iter(self.delimiter, line).chain(std::iter::once(end)) {
            let bytes = at - start;
            // What is copied too much is written over, or cut off.
            match rest[start..].first_chunk::<SHORT_FIELD>().filter(|_| bytes <= SHORT_FIELD) {
                Some(short) => record.data[filled..filled + SHORT_FIELD].copy_from_slice(short),
                None => record.data[filled..filled + bytes].copy_from_slice(&line[start..at]),
            }
            filled += bytes;
            record.ends.push(filled);
            start = at + 1;
        }
        record.data.truncate(filled);
        record.kinds.resize(record.ends.len(), Kind::Csv);
        record.is_blank = end == 0;
        self.start += end + behind;
        self.line += 1;
        true
    }

    fn plain(&mut self, record: &mut Record) -> Result<End, Failure> {
        loop {
            let rest = &self.buffer[self.start..self.end];
            if let Some(at) = memchr3(self.delimiter, b'\n', b'\r', rest) {
                record.data.extend_from_slice(&rest[..at]);
                let byte = rest[at];
                self.start += at + 1;
                return self.ended_by(byte);
            }
            record.data.extend_from_slice(rest);
            if !self.refill(record)? {
                return Ok(End::Record);
            }
        }
    }

    fn quoted(&mut self, record: &mut Record) -> Result<End, Failure> {
        let opened = self.line;
        self.start += 1;
        loop {
            let rest = &self.buffer[self.start..self.end];
            let Some(at) = memchr(self.quote, rest) else {
                self.line += memchr_iter(b'\n', rest).count() as u64;
                record.data.extend_from_slice(rest);
                if self.refill(record)? {
                    continue;
                }
                let message = "the quote that opens here is not closed before the file ends".to_owned();
                return Err(Failure::Malformed { line: opened, field: record.len(), message });
            };
            self.line += memchr_iter(b'\n', &rest[..at]).count() as u64;
            record.data.extend_from_slice(&rest[..at]);
            self.start += at + 1;
            match self.peek()? {
                None => return Ok(End::Record),
                Some(byte) if byte == self.quote => {
                    record.data.push(self.quote);
                    self.start += 1;
                }
                Some(byte) if byte == self.delimiter || matches!(byte, b'\n' | b'\r') => {
                    self.start += 1;
                    return self.ended_by(byte);
                }
                Some(_) => return Err(self.text_behind_quote(record)),
            }
        }
    }

    fn text_behind_quote(&self, record: &Record) -> Failure {
        let rest = self.rest();
        let end = memchr3(self.delimiter, b'\n', b'\r', rest).unwrap_or(rest.len());
        let message = format!(
            "{:?} stands behind the quote that closes the field; a quote inside quotes is written twice",
            shown(&rest[..end])
        );
        Failure::Malformed { line: self.line, field: record.len(), message }
    }

    /// Goes on behind the delimiter or the end of a line, which was taken.
    fn ended_by(&mut self, byte: u8) -> Result<End, Failure> {
        if byte == self.delimiter {
            return Ok(End::Field);
        }
        if byte == b'\r' && self.peek()? == Some(b'\n') {
            self.start += 1;
        }
        self.line += 1;
        Ok(End::Record)
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The next byte, which stays; `None` at the end of the input.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        if self.start == self.end && !self.fill()? {
            return Ok(None);
        }
        Ok(Some(self.buffer[self.start]))
    }

    /// Reads on in the middle of a record, which has taken the whole buffer; `false` at the end of the input.
    fn refill(&mut self, record: &Record) -> Result<bool, Failure> {
        check_size(record)?;
        Ok(self.fill()?)
    }

    /// Reads into the buffer, of which nothing is needed any longer.
    fn fill(&mut self) -> io::Result<bool> {
        (self.start, self.end) = (0, 0);
        self.append()
    }

    /// Reads behind what is in the buffer; `false` at the end of the input.
    fn append(&mut self) -> io::Result<bool> {
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(bytes) => {
                    self.end += bytes;
                    self.read += bytes as u64;
                    return Ok(bytes > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn check_size(record: &Record) -> Result<(), Failure> {
    if record.bytes() <= RECORD_BYTES {
        return Ok(());
    }
    let message = format!("the record takes more than {} MiB; is a quote missing?", RECORD_BYTES >> 20);
    Err(Failure::Malformed { line: record.line, field: record.len(), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time.
    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = self.1.min(self.0.len()).min(buffer.len());
            buffer[..bytes].copy_from_slice(&self.0[..bytes]);
            self.0 = &self.0[bytes..];
            Ok(bytes)
        }
    }

    /// Each record as its line and its fields, then the failure as line, field and message.
    fn split(text: &[u8], at_a_time: usize) -> Vec<String> {
        let mut splitter = Splitter::new(Dribble(text, at_a_time), b',').unwrap();
        let (mut record, mut found) = (Record::default(), Vec::new());
        loop {
            match splitter.next(&mut record) {
                Ok(true) => {
                    let fields: Vec<_> = record.fields().map(String::from_utf8_lossy).collect();
                    let blank = if record.is_blank { " blank" } else { "" };
                    found.push(format!("{}:{}{blank}", record.line, fields.join("|")));
                }
                Ok(false) => {
                    assert_eq!(splitter.position(), text.len() as u64);
                    return found;
                }
                Err(Failure::Malformed { line, field, message }) => {
                    found.push(format!("{line}:{field}: {message}"));
                    return found;
                }
                Err(Failure::Read(error)) => panic!("{error}"),
            }
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        for at_a_time in [1, 2, 3, 7, 1000] {
            let found = split(text.as_bytes(), at_a_time);
            // What is shown behind a quote is what has been read.
            if at_a_time < 7 && found.last().is_some_and(|last| last.contains("stands behind")) {
                assert_eq!(found[..found.len() - 1], expected[..expected.len() - 1], "{text:?}");
                continue;
            }
            assert_eq!(found, expected, "{text:?}, {at_a_time} at a time");
        }
    }

    #[test]
    fn records() {
        check("", &[]);
        check("a", &["1:a"]);
        check("a,b\n1,2\n", &["1:a|b", "2:1|2"]);
        check("a,b\n1,2", &["1:a|b", "2:1|2"]);
        check("a,b\r\n1,2\r\n\r\n3,\r\n", &["1:a|b", "2:1|2", "3: blank", "4:3|"]);
        check("a\r1\r\r2\r", &["1:a", "2:1", "3: blank", "4:2"]);
        check(",\n,", &["1:|", "2:|"]);
        check("a\n\n\n\"\"\nb", &["1:a", "2: blank", "3: blank", "4:", "5:b"]);
        check("\u{feff}a\n\u{feff}b", &["1:a", "2:\u{feff}b"]);
        check("\u{feff}", &[]);
    }

    /// Those that lie in the buffer are split another way than those that do not.
    #[test]
    fn records_in_the_buffer_and_beyond_it() {
        let wide = ["", "x", "fifteen letters", "sixteen letters.", "more than sixteen letters"];
        for end in ["\n", "\r\n", "\r"] {
            let (mut text, mut expected) = (String::new(), Vec::new());
            for first in wide {
                for second in wide {
                    let line = expected.len() + 1;
                    text += &format!("{first},{second},{end}\"{first}\",{second},{first}{end}{end}");
                    expected.push(format!("{line}:{first}|{second}|"));
                    expected.push(format!("{}:{first}|{second}|{first}", line + 1));
                    expected.push(format!("{}: blank", line + 2));
                }
            }
            for at_a_time in [1, 2, 5, 16, 17, 40, 1000, usize::MAX] {
                assert_eq!(split(text.as_bytes(), at_a_time), expected, "{end:?}, {at_a_time} at a time");
            }
        }
    }

    #[test]
    fn quotes() {
        check("\"a\",\"b\nc\"\n1", &["1:a|b\nc", "3:1"]);
        check("\"a\"\"b\",\"\"\"\"\n", &["1:a\"b|\""]);
        check("\"a,\r\nb\"\r\nc\r\n", &["1:a,\r\nb", "3:c"]);
        check("\"a\"", &["1:a"]);
        check("\"a\",", &["1:a|"]);
        check("\u{feff}\"a\"\n", &["1:a"]);
        // Not where a field starts, it is a character.
        check("5\" pipe, \"x\"\n", &["1:5\" pipe| \"x\""]);
    }

    #[test]
    fn fields_tell_whether_they_were_quoted() {
        let mut splitter = Splitter::new("a,\"\",,\"b\"\n\"\"\n".as_bytes(), b',').unwrap();
        let mut record = Record::default();
        let mut kinds = || {
            assert!(splitter.next(&mut record).unwrap());
            record.kinds().collect::<Vec<_>>()
        };
        assert_eq!(kinds(), [Kind::Csv, Kind::Quoted, Kind::Csv, Kind::Quoted]);
        assert_eq!(kinds(), [Kind::Quoted]);
    }

    #[test]
    fn what_quotes_leave_open_has_its_place() {
        let open = "the quote that opens here is not closed before the file ends";
        check("a,b\n1,\"x\n2,y\n", &["1:a|b", &format!("2:1: {open}")]);
        check("a,b\n\"1\n\n\",\"x\"\"", &["1:a|b", &format!("4:1: {open}")]);
        check("\"", &[&format!("1:0: {open}")]);
        let behind = |text: &str| {
            format!(
                "{text:?} stands behind the quote that closes the field; a quote inside quotes is written twice"
            )
        };
        check("a,b\n1,\"x\"y,z\n", &["1:a|b", &format!("2:1: {}", behind("y"))]);
        check("\"x\ny\" ,z\n", &[&format!("2:0: {}", behind(" "))]);
        check("1\n\"x\"\0\n", &["1:1", &format!("2:0: {}", behind("\0"))]);
    }

    #[test]
    fn a_record_has_an_end() {
        let text = [b"a\n\"".as_slice(), &vec![b'x'; RECORD_BYTES + (2 << 20)]].concat();
        let found = split(&text, usize::MAX);
        assert_eq!(found, ["1:a", "2:0: the record takes more than 64 MiB; is a quote missing?"]);
        let delimiters = vec![b','; RECORD_BYTES / 4];
        assert!(split(&delimiters, usize::MAX)[0].ends_with("is a quote missing?"));
    }
}
