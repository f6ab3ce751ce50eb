//! JSON files: objects one behind the other (a line each, or not), or one array of them.
//!
//! An object is a row, its keys are columns. Where an object ends is found without parsing it, so that only what a row
//! may take is ever in memory, however deep or long the file is.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    fmt,
    io::{self, Read},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use basalt_nested::csv::{BOM, BUFFER_BYTES, Kind, RECORD_BYTES, Record, shown};
use memchr::{memchr_iter, memchr2};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{names, source::InputFile};
use crate::cli::CliError;

/// How deep a row may nest.
const MAX_DEPTH: u32 = 128;
/// Columns that are found in a file: as many as a table may have.
const MAX_COLUMNS: usize = 1024;

/// Which keys are columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// Those that are found, in the order in which they are.
    Found,
    /// Those that are known; a row with another is a bad one.
    Known,
    /// Those that are known; others are passed over.
    Some,
}

/// The rows of one file.
pub(super) struct Records<'a> {
    file: &'a InputFile,
    objects: Objects<Box<dyn Read + Send>>,
    bytes: Arc<AtomicU64>,
    columns: Columns,
    cells: Cells,
    record: Record,
}

impl<'a> Records<'a> {
    pub(super) fn open(file: &'a InputFile, columns: &[String], keys: Keys) -> Result<Self, CliError> {
        let (input, bytes) = file.open_text()?;
        let objects = Objects::new(input).map_err(|e| file.error(e))?;
        let index = columns.iter().enumerate().map(|(i, name)| (name.clone(), i)).collect();
        let columns = Columns { names: columns.to_vec(), index, keys, passed_over: BTreeSet::new() };
        Ok(Self { file, objects, bytes, columns, cells: Cells::default(), record: Record::default() })
    }

    /// The columns, as far as they are known.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns.names
    }

    /// Bytes of the file that were read.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Keys that are no columns.
    pub(super) fn passed_over(&mut self) -> &mut BTreeSet<String> {
        &mut self.columns.passed_over
    }

    /// The row that came last.
    pub(super) fn last(&self) -> &Record {
        &self.record
    }

    /// The next row; the inner error is of one that is no row of the table.
    pub(super) fn next(&mut self) -> Result<Option<Result<&Record, String>>, CliError> {
        let name = || self.file.name();
        let found = self.objects.next().map_err(|failure| match failure {
            Failure::Read(error) => self.file.error(error),
            Failure::Malformed { at, message } => {
                CliError::Input(format!("{}:{}:{}: {message}", name(), at.line, at.column))
            }
        })?;
        if !found {
            return Ok(None);
        }
        self.cells.clear(self.columns.names.len());
        let mut parser = serde_json::Deserializer::from_slice(&self.objects.object);
        let row = RowSeed { columns: &mut self.columns, cells: &mut self.cells };
        if let Err(error) = row.deserialize(&mut parser).and_then(|()| parser.end()) {
            let start = self.objects.started;
            let line = start.line + (error.line() as u64).saturating_sub(1);
            let column = if error.line() <= 1 {
                start.column + (error.column() as u64).saturating_sub(1)
            } else {
                error.column() as u64
            };
            let message = error.to_string();
            let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
            return Ok(Some(Err(format!("{}:{line}:{column}: {message}", name()))));
        }
        self.cells.fill(&mut self.record, self.objects.started.line);
        Ok(Some(Ok(&self.record)))
    }
}

struct Columns {
    names: Vec<String>,
    index: HashMap<String, usize>,
    keys: Keys,
    /// Keys that are no columns, as many as a table could have.
    passed_over: BTreeSet<String>,
}

impl Columns {
    /// Where a key's column stands; `None` for one that is passed over.
    fn place<E: de::Error>(&mut self, key: &str, hint: usize) -> Result<Option<usize>, E> {
        // Objects of a file mostly have the same keys in the same order.
        if self.names.get(hint).is_some_and(|name| name == key) {
            return Ok(Some(hint));
        }
        if let Some(place) = self.index.get(key) {
            return Ok(Some(*place));
        }
        let name = names::of_json_key(key);
        if let Some(place) = self.index.get(name.as_ref()) {
            return Ok(Some(*place));
        }
        match self.keys {
            Keys::Some => {
                if self.passed_over.len() < MAX_COLUMNS && !self.passed_over.contains(name.as_ref()) {
                    self.passed_over.insert(name.into_owned());
                }
                Ok(None)
            }
            Keys::Known => Err(E::custom(format!("key {:?} is no column", shown(key.as_bytes())))),
            Keys::Found if self.names.len() >= MAX_COLUMNS => {
                Err(E::custom(format!("more than {MAX_COLUMNS} keys are columns")))
            }
            Keys::Found => {
                let place = self.names.len();
                self.names.push(name.clone().into_owned());
                self.index.insert(name.into_owned(), place);
                Ok(Some(place))
            }
        }
    }
}

/// The cells of a row, as they come.
#[derive(Default)]
struct Cells {
    data: Vec<u8>,
    /// Where each column's cell is.
    at: Vec<Option<(Kind, Range<usize>)>>,
}

impl Cells {
    fn clear(&mut self, columns: usize) {
        self.data.clear();
        self.at.clear();
        self.at.resize(columns, None);
    }

    fn add(&mut self, value: &RawValue) -> Result<(Kind, Range<usize>), serde_json::Error> {
        let start = self.data.len();
        let raw = value.get();
        let kind = match raw.as_bytes() {
            [b'"', inner @ .., b'"'] => {
                if inner.contains(&b'\\') {
                    self.data.extend_from_slice(serde_json::from_str::<String>(raw)?.as_bytes());
                } else {
                    self.data.extend_from_slice(inner);
                }
                Kind::Text
            }
            b"null" => Kind::Null,
            [b'{' | b'[', ..] => {
                compact(raw.as_bytes(), &mut self.data);
                Kind::Bare
            }
            bare => {
                self.data.extend_from_slice(bare);
                Kind::Bare
            }
        };
        Ok((kind, start..self.data.len()))
    }

    /// The cells in the columns' order; what is missing is null.
    fn fill(&self, record: &mut Record, line: u64) {
        record.begin(line);
        for cell in &self.at {
            let (kind, range) = cell.clone().unwrap_or((Kind::Null, 0..0));
            record.data.extend_from_slice(&self.data[range]);
            record.ends.push(record.data.len());
            record.kinds.push(kind);
        }
    }
}

/// JSON without the spaces between its parts.
fn compact(json: &[u8], out: &mut Vec<u8>) {
    let mut in_string = false;
    let mut escaped = false;
    for &byte in json {
        match byte {
            _ if in_string => {
                in_string = escaped || byte != b'"';
                escaped = !escaped && byte == b'\\';
            }
            b' ' | b'\t' | b'\n' | b'\r' => continue,
            b'"' => in_string = true,
            _ => {}
        }
        out.push(byte);
    }
}

struct RowSeed<'a> {
    columns: &'a mut Columns,
    cells: &'a mut Cells,
}

impl<'de> DeserializeSeed<'de> for RowSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut hint = 0;
        while let Some(Key(key)) = map.next_key()? {
            let place = self.columns.place::<A::Error>(&key, hint)?;
            let value: &RawValue = map.next_value()?;
            let Some(place) = place else { continue };
            hint = place + 1;
            let cell = self.cells.add(value).map_err(de::Error::custom)?;
            if self.cells.at.len() <= place {
                self.cells.at.resize(place + 1, None);
            }
            if self.cells.at[place].replace(cell).is_some() {
                let message = format!("key {:?} stands twice", shown(key.as_bytes()));
                return Err(de::Error::custom(message));
            }
        }
        Ok(())
    }
}

/// A key, borrowed where it has no escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// A place in a file, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    line: u64,
    column: u64,
}

#[derive(Debug)]
enum Failure {
    Read(io::Error),
    /// Where the next object starts, nobody knows.
    Malformed {
        at: At,
        message: String,
    },
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// What may come between objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Objects,
    /// Behind `[`.
    FirstOfArray,
    /// Behind an object of an array.
    BehindItem,
    /// Behind a comma.
    NextItem,
    BehindArray,
}

/// The objects of a file, as bytes.
struct Objects<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at: At,
    state: State,
    /// The object that was found, and where it starts.
    object: Vec<u8>,
    started: At,
}

impl<R: Read> Objects<R> {
    fn new(input: R) -> io::Result<Self> {
        let at = At { line: 1, column: 1 };
        let buffer = vec![0; BUFFER_BYTES];
        let mut objects = Self {
            input,
            buffer,
            start: 0,
            end: 0,
            at,
            state: State::Start,
            object: Vec::new(),
            started: at,
        };
        while objects.end < BOM.len() && objects.append()? {}
        if objects.buffer[..objects.end].starts_with(BOM) {
            objects.start = BOM.len();
        }
        Ok(objects)
    }

    /// Finds the next object; `false` at the end of the file.
    fn next(&mut self) -> Result<bool, Failure> {
        loop {
            let Some(byte) = self.peek()? else {
                return match self.state {
                    State::Start | State::Objects | State::BehindArray => Ok(false),
                    _ => Err(self.malformed("the file ends before its array does".to_owned())),
                };
            };
            match (byte, self.state) {
                (b' ' | b'\t' | b'\r' | b'\n', _) => {}
                (b'[', State::Start) => self.state = State::FirstOfArray,
                (b',', State::BehindItem) => self.state = State::NextItem,
                (b']', State::FirstOfArray | State::BehindItem) => self.state = State::BehindArray,
                (b'{', State::Start | State::Objects) => {
                    self.state = State::Objects;
                    return self.object().map(|()| true);
                }
                (b'{', State::FirstOfArray | State::NextItem) => {
                    self.state = State::BehindItem;
                    return self.object().map(|()| true);
                }
                (_, state) => {
                    let wanted = match state {
                        State::Start => "an object or an array of objects",
                        State::Objects | State::NextItem => "an object",
                        State::FirstOfArray => "an object or the end of the array",
                        State::BehindItem => "a comma or the end of the array",
                        State::BehindArray => "the end of the file",
                    };
                    let rest = &self.buffer[self.start..self.end];
                    let end = rest.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(rest.len());
                    return Err(
                        self.malformed(format!("{:?} stands where {wanted} should", shown(&rest[..end])))
                    );
                }
            }
            self.take(1);
        }
    }

    /// Takes an object, whose `{` is next.
    fn object(&mut self) -> Result<(), Failure> {
        self.object.clear();
        self.started = self.at;
        let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
        loop {
            let rest = &self.buffer[self.start..self.end];
            let mut taken = 0;
            let mut is_over = false;
            while taken < rest.len() && !is_over {
                if escaped {
                    escaped = false;
                    taken += 1;
                    continue;
                }
                if in_string {
                    match memchr2(b'"', b'\\', &rest[taken..]) {
                        Some(at) => {
                            escaped = rest[taken + at] == b'\\';
                            in_string = escaped;
                            taken += at + 1;
                        }
                        None => taken = rest.len(),
                    }
                    continue;
                }
                match rest[taken] {
                    b'"' => in_string = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        is_over = depth == 0;
                    }
                    _ => {}
                }
                taken += 1;
                if depth > MAX_DEPTH {
                    let message = format!("the row nests deeper than {MAX_DEPTH} levels");
                    return Err(Failure::Malformed { at: self.started, message });
                }
            }
            self.object.extend_from_slice(&rest[..taken]);
            self.take(taken);
            if self.object.len() > RECORD_BYTES {
                let message = format!("the row takes more than {} MiB", RECORD_BYTES >> 20);
                return Err(Failure::Malformed { at: self.started, message });
            }
            if is_over {
                return Ok(());
            }
            if self.peek()?.is_none() {
                let message = "the object that starts here does not end before the file does".to_owned();
                return Err(Failure::Malformed { at: self.started, message });
            }
        }
    }

    fn malformed(&self, message: String) -> Failure {
        Failure::Malformed { at: self.at, message }
    }

    /// Goes on behind some bytes of the buffer.
    fn take(&mut self, bytes: usize) {
        let taken = &self.buffer[self.start..self.start + bytes];
        let lines = memchr_iter(b'\n', taken).count() as u64;
        match memchr::memrchr(b'\n', taken) {
            Some(last) => {
                self.at = At { line: self.at.line + lines, column: (taken.len() - last) as u64 };
            }
            None => self.at.column += taken.len() as u64,
        }
        self.start += bytes;
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if !self.append()? {
                return Ok(None);
            }
        }
        Ok(Some(self.buffer[self.start]))
    }

    fn append(&mut self) -> io::Result<bool> {
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(bytes) => {
                    self.end += bytes;
                    return Ok(bytes > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
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

    /// Each object with its place, then the failure.
    fn split(text: &[u8], at_a_time: usize) -> Vec<String> {
        let mut objects = Objects::new(Dribble(text, at_a_time)).unwrap();
        let mut found = Vec::new();
        loop {
            match objects.next() {
                Ok(true) => {
                    let At { line, column } = objects.started;
                    found.push(format!("{line}:{column} {}", String::from_utf8_lossy(&objects.object)));
                }
                Ok(false) => return found,
                Err(Failure::Malformed { at, message }) => {
                    found.push(format!("{}:{}: {message}", at.line, at.column));
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
            // What is shown is what has been read.
            if at_a_time < 7 && found.last().is_some_and(|last| last.contains("stands where")) {
                assert_eq!(found[..found.len() - 1], expected[..expected.len() - 1], "{text:?}");
                continue;
            }
            assert_eq!(found, expected, "{text:?}, {at_a_time} at a time");
        }
    }

    #[test]
    fn objects_of_lines_and_of_arrays() {
        check("", &[]);
        check(" \n", &[]);
        check("{}\n{\"a\":1}\r\n", &["1:1 {}", "2:1 {\"a\":1}"]);
        check("{}{}", &["1:1 {}", "1:3 {}"]);
        check("\u{feff}{\n}", &["1:1 {\n}"]);
        check("[]", &[]);
        check("[{}, {\"a\":[{}]}\n,{}]\n", &["1:2 {}", "1:6 {\"a\":[{}]}", "2:2 {}"]);
        check(r#"{"a":"}\"{\\"}{"b":"\\\\"}"#, &[r#"1:1 {"a":"}\"{\\"}"#, r#"1:15 {"b":"\\\\"}"#]);
    }

    #[test]
    fn what_is_no_row_has_its_place() {
        check("1\n", &["1:1: \"1\" stands where an object or an array of objects should"]);
        check("{}\n7 x", &["1:1 {}", "2:1: \"7\" stands where an object should"]);
        check("[{} {}]", &["1:2 {}", "1:5: \"{}]\" stands where a comma or the end of the array should"]);
        check("[{},]", &["1:2 {}", "1:5: \"]\" stands where an object should"]);
        check("[{}]\n{}", &["1:2 {}", "2:1: \"{}\" stands where the end of the file should"]);
        check("[{}", &["1:2 {}", "1:4: the file ends before its array does"]);
        check(
            "{}\n {\"a\":\n",
            &["1:1 {}", "2:2: the object that starts here does not end before the file does"],
        );
        check("{\"a\":\"x\\", &["1:1: the object that starts here does not end before the file does"]);
    }

    #[test]
    fn a_row_has_an_end() {
        let deep = format!("{{\"a\":{}", "[".repeat(1 << 20));
        check(&deep, &["1:1: the row nests deeper than 128 levels"]);
        let long = [b"{\"a\":\"".as_slice(), &vec![b'x'; RECORD_BYTES + (2 << 20)]].concat();
        assert_eq!(split(&long, usize::MAX), ["1:1: the row takes more than 64 MiB"]);
    }

    #[test]
    fn nested_values_have_no_spaces() {
        let mut out = Vec::new();
        compact(b" { \"a b\\\" \" : [ 1 , 2.50 ] ,\n\t\"c\\\\\" : null } ", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), r#"{"a b\" ":[1,2.50],"c\\":null}"#);
    }
}
