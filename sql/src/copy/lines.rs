//! Records of PostgreSQL's text format: a line for each row, in which a backslash takes away the meaning of what follows, or
//! stands with it for a character.

use std::io::{self, BufRead as _, BufReader, Read};

use basalt_nested::csv::{BUFFER_BYTES, Failure, Kind, RECORD_BYTES, Record};

/// Splits what it reads.
pub(super) struct Lines<R> {
    input: BufReader<R>,
    delimiter: u8,
    null: Vec<u8>,
    line: u64,
    /// The bytes of one record, with its end.
    bytes: Vec<u8>,
    ended: bool,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R, delimiter: u8, null: &str) -> Self {
        let input = BufReader::with_capacity(BUFFER_BYTES, input);
        Self { input, delimiter, null: null.as_bytes().to_vec(), line: 1, bytes: Vec::new(), ended: false }
    }

    /// Reads the next record; `false` at the end, which a line of `\.` is as well.
    pub(super) fn next(&mut self, record: &mut Record) -> Result<bool, Failure> {
        record.begin(self.line);
        self.bytes.clear();
        while !self.ended {
            if self.input.read_until(b'\n', &mut self.bytes)? == 0 {
                break;
            }
            self.line += 1;
            if self.bytes.len() > RECORD_BYTES {
                let message = format!("the record takes more than {} MiB", RECORD_BYTES >> 20);
                return Err(Failure::Malformed { line: record.line, field: 0, message });
            }
            // A line's end behind a backslash is one of a text.
            if !self.bytes.strip_suffix(b"\n").is_some_and(ends_escaping) {
                break;
            }
        }
        if self.bytes.is_empty() {
            return Ok(false);
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let line = line.strip_suffix(b"\r").filter(|rest| !ends_escaping(rest)).unwrap_or(line);
        if line == b"\\." {
            // What follows is read, so that the client is done sending, and is nothing.
            self.ended = true;
            io::copy(&mut self.input, &mut io::sink())?;
            return Ok(false);
        }
        self.split(line, record);
        bytes.clear();
        self.bytes = bytes;
        Ok(true)
    }

    fn split(&self, line: &[u8], record: &mut Record) {
        let mut rest = line;
        loop {
            let end = end_of_field(rest, self.delimiter);
            let field = &rest[..end];
            let is_null = field == self.null;
            if !is_null {
                unescape(field, &mut record.data);
            }
            record.ends.push(record.data.len());
            record.kinds.push(if is_null { Kind::Null } else { Kind::Quoted });
            match rest.get(end + 1..) {
                Some(behind) => rest = behind,
                None => return,
            }
        }
    }
}

/// Where the delimiter stands, or the end.
fn end_of_field(bytes: &[u8], delimiter: u8) -> usize {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match *byte {
            b'\\' => at += 2,
            byte if byte == delimiter => return at,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The characters that a field stands for.
fn unescape(field: &[u8], out: &mut Vec<u8>) {
    let mut rest = field;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        let Some((next, after)) = behind.split_first().filter(|_| *byte == b'\\') else {
            out.push(*byte);
            continue;
        };
        rest = after;
        out.push(match next {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'0'..=b'7' => digits(behind, 8, 3, &mut rest),
            b'x' if after.first().is_some_and(u8::is_ascii_hexdigit) => digits(after, 16, 2, &mut rest),
            other => *other,
        });
    }
}

/// The byte that digits stand for, so many at most. As in PostgreSQL, what is more than a byte loses its front.
fn digits<'a>(text: &'a [u8], radix: u8, most: usize, rest: &mut &'a [u8]) -> u8 {
    let mut value = 0_u8;
    *rest = text;
    for byte in text.iter().take(most) {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => break,
        };
        if digit >= radix {
            break;
        }
        value = value.wrapping_mul(radix).wrapping_add(digit);
        *rest = &rest[1..];
    }
    value
}

/// Whether what follows has lost its meaning.
fn ends_escaping(bytes: &[u8]) -> bool {
    bytes.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str) -> Vec<Vec<Option<String>>> {
        let mut lines = Lines::new(text.as_bytes(), b'\t', "\\N");
        let (mut record, mut records) = (Record::default(), Vec::new());
        while lines.next(&mut record).unwrap() {
            let text = |(field, kind): (&[u8], Kind)| {
                (kind != Kind::Null).then(|| String::from_utf8_lossy(field).into_owned())
            };
            records.push(record.fields().zip(record.kinds()).map(text).collect());
        }
        records
    }

    #[test]
    fn lines_are_records() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(records("1\ta\n2\t\\N\n"), [[some("1"), some("a")], [some("2"), None]]);
        assert_eq!(records("\t"), [[some(""), some("")]]);
        assert_eq!(records("\n\n"), [[some("")], [some("")]]);
        assert_eq!(records("a\\tb\\\\N\r\n"), [[some("a\tb\\N")]]);
        assert_eq!(records("a\\\nb\tc\n"), [[some("a\nb"), some("c")]]);
        assert_eq!(records("a\\\\\nb\n"), [[some("a\\")], [some("b")]]);
        assert_eq!(records("\\101\\x41\\x4\\q\\"), [[some("AA\u{4}q\\")]]);
        assert_eq!(records("1\n\\.\n2\n"), [[some("1")]]);
        assert_eq!(records(""), Vec::<Vec<_>>::new());
    }
}
