//! Thrift's compact protocol, walked without making anything of it.
//!
//! The crate `parquet` reads a field that it knows by its number, and as what it should be: what kind of value the bytes
//! say that it is, it does not look at. So a field that is known is walked as the crate reads it, and must be of that kind;
//! others are passed over by their kind, as the crate does.

/// How deep structs and lists may nest.
const DEPTH: usize = 32;

/// Kinds of values.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// What a field, or an element of a list, is read as.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// As a field alone: in a list it has a byte.
    Bool,
    Byte,
    I16,
    I32,
    I64,
    Double,
    Binary,
    Struct(&'static Fields),
    /// Of such elements, for each of which the crate makes room for so many bytes.
    List(&'static Self, usize),
}

/// The fields of a struct that are read, by their numbers.
pub(super) type Fields = [(i64, Of)];

impl Of {
    /// Whether a value of a kind is read as this. Integers have the same bytes whatever their width, and some writers say
    /// another one.
    fn is(self, kind: u8) -> bool {
        match self {
            Self::Bool => matches!(kind, TRUE | FALSE),
            Self::Byte => kind == BYTE,
            Self::I16 | Self::I32 | Self::I64 => matches!(kind, I16 | I32 | I64),
            Self::Double => kind == DOUBLE,
            Self::Binary => kind == BINARY,
            Self::Struct(_) => kind == STRUCT,
            Self::List(..) => kind == LIST,
        }
    }
}

/// Bytes that are walked. `None` everywhere: they are malformed.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    pub(super) rest: &'a [u8],
    /// Bytes that the crate makes room for, for elements of lists.
    pub(super) room: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, room: 0 }
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn pass(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.get(bytes..)?;
        Some(())
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// An integer, whose lowest bit is its sign.
    fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// An integer of 32 bits: the crate takes the lowest of a longer one.
    pub(super) fn int(&mut self) -> Option<i32> {
        i32::try_from(self.integer()?).ok()
    }

    /// How many bytes a text has, or what else is bytes, and walks past it.
    pub(super) fn binary(&mut self) -> Option<usize> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.pass(length)?;
        Some(length)
    }

    /// The head of a list: how many elements of which kind. Each takes a byte at least.
    fn head(&mut self) -> Option<(usize, u8)> {
        let head = self.byte()?;
        let size = match head >> 4 {
            15 => usize::try_from(self.varint()?).ok()?,
            few => usize::from(few),
        };
        (size <= self.rest.len()).then_some((size, head & 0x0f))
    }

    /// The head of a list of such elements: how many there are. Of an empty one some writers say no kind.
    pub(super) fn list(&mut self, of: Of) -> Option<usize> {
        let (size, kind) = self.head()?;
        (of.is(kind) || (size, kind) == (0, 0)).then_some(size)
    }

    /// A struct: `field` is asked about each field that is known, and says whether it has walked the value. A field must be
    /// of its kind, and there once.
    pub(super) fn fields(
        &mut self,
        of: &Fields,
        mut field: impl FnMut(&mut Self, i64) -> Option<bool>,
    ) -> Option<()> {
        self.fields_at(0, of, &mut field)
    }

    fn fields_at(
        &mut self,
        depth: usize,
        of: &Fields,
        field: &mut dyn FnMut(&mut Self, i64) -> Option<bool>,
    ) -> Option<()> {
        let (mut last, mut seen) = (0, [0_u64; 4]);
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            let kind = head & 0x0f;
            last = match head >> 4 {
                0 => self.integer()?,
                step => last + i64::from(step),
            };
            // Of a field that is there twice, others may take the other one.
            if let Ok(bit) = u8::try_from(last) {
                let word = &mut seen[usize::from(bit / 64)];
                let flag = 1 << (bit % 64);
                if *word & flag != 0 {
                    return None;
                }
                *word |= flag;
            }
            if !(0..=i64::from(i16::MAX)).contains(&last) {
                return None;
            }
            match of.iter().find(|(number, _)| *number == last) {
                None => self.value(kind, depth, false)?,
                Some((_, of)) if !of.is(kind) => return None,
                Some((_, of)) => {
                    if !field(self, last)? {
                        self.known(*of)?;
                    }
                }
            }
        }
    }

    /// Walks past a value as it is read. What is known nests no deeper than its table does.
    pub(super) fn known(&mut self, of: Of) -> Option<()> {
        match of {
            Of::Bool => Some(()),
            Of::Byte => self.pass(1),
            Of::I16 => i16::try_from(self.integer()?).ok().map(drop),
            Of::I32 => self.int().map(drop),
            Of::I64 => self.varint().map(drop),
            Of::Double => self.pass(8),
            Of::Binary => self.binary().map(drop),
            Of::Struct(fields) => self.fields_at(0, fields, &mut |_, _| Some(false)),
            Of::List(of, bytes) => {
                let size = self.list(*of)?;
                self.room = self.room.saturating_add((size as u64).saturating_mul(bytes as u64));
                (0..size).try_for_each(|_| self.known(*of))
            }
        }
    }

    /// Walks past a value that nobody reads. A bool is its field's kind, and has a byte in a list alone: there the crate passes
    /// over none. It would read as fields what stands for bools, and go through 2^31 of them for six bytes, so a list of them
    /// is malformed unless it is one of those that are read.
    fn value(&mut self, kind: u8, depth: usize, in_list: bool) -> Option<()> {
        if depth > DEPTH {
            return None;
        }
        match kind {
            TRUE | FALSE if in_list => None,
            TRUE | FALSE => Some(()),
            BYTE => self.pass(1),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.pass(8),
            BINARY => self.binary().map(drop),
            LIST | SET => {
                let (size, kind) = self.head()?;
                (0..size).try_for_each(|_| self.value(kind, depth + 1, true))
            }
            MAP => {
                let size = usize::try_from(self.varint()?).ok().filter(|size| *size <= self.rest.len())?;
                let kinds = if size == 0 { 0 } else { self.byte()? };
                (0..size).try_for_each(|_| {
                    self.value(kinds >> 4, depth + 1, true)?;
                    self.value(kinds & 0x0f, depth + 1, true)
                })
            }
            STRUCT => self.fields_at(depth + 1, &[], &mut |_, _| Some(false)),
            UUID => self.pass(16),
            _ => None,
        }
    }
}
