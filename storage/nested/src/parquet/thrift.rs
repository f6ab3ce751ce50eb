//! Thrift's compact protocol, walked without making anything of it.

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
pub(super) const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub(super) const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Bytes that are walked. `None` everywhere: they are malformed.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Walk<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
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
    pub(super) fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// The head of a list: how many elements of which kind. Each takes a byte at least.
    pub(super) fn list(&mut self) -> Option<(usize, u8)> {
        let head = self.byte()?;
        let size = match head >> 4 {
            15 => usize::try_from(self.varint()?).ok()?,
            few => usize::from(few),
        };
        (size <= self.rest.len()).then_some((size, head & 0x0f))
    }

    /// A struct: `field` is asked about each field, by its number and kind, and says whether it has walked the value; it
    /// must be there once.
    pub(super) fn fields(&mut self, mut field: impl FnMut(&mut Self, i64, u8) -> Option<bool>) -> Option<()> {
        self.fields_at(0, &mut field)
    }

    fn fields_at(
        &mut self,
        depth: usize,
        field: &mut dyn FnMut(&mut Self, i64, u8) -> Option<bool>,
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
            if !field(self, last, kind)? {
                self.value(kind, depth, false)?;
            }
        }
    }

    /// Walks past a value. A bool has a byte in a list alone.
    pub(super) fn skip(&mut self, kind: u8) -> Option<()> {
        self.value(kind, 0, true)
    }

    fn value(&mut self, kind: u8, depth: usize, in_list: bool) -> Option<()> {
        if depth > DEPTH {
            return None;
        }
        match kind {
            TRUE | FALSE if in_list => self.pass(1),
            TRUE | FALSE => Some(()),
            BYTE => self.pass(1),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.pass(8),
            BINARY => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.pass(length)
            }
            LIST | SET => {
                let (size, kind) = self.list()?;
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
            STRUCT => self.fields_at(depth + 1, &mut |_, _, _| Some(false)),
            UUID => self.pass(16),
            _ => None,
        }
    }
}
