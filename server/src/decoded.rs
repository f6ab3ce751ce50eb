//! What a message takes in memory once it is decoded, found out before it is: a walk over its bytes as they come.
//!
//! Protobuf's wire format does not tell messages from texts, so the walk goes by [`Shape`]: only a field that is a message
//! is looked into, and what nobody knows is passed over as the decoder passes over it. Two bytes, an empty message, are a
//! struct of a hundred or more, and that is what they count as.

use basalt_proto::{
    shapes::{Field, Holds, Shape},
    v1::ErrorReason,
};

use crate::{
    limits,
    status::{RequestError, Result},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// Bytes of the message.
    length: usize,
    /// What is being read: the message, or one within it, and those around that.
    inner: Frame,
    outer: Vec<Frame>,
    /// Bytes that were read.
    at: usize,
    step: Step,
    /// What the message takes as far as it was read, and what it may take.
    bytes: u64,
    most: u64,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    shape: &'static Shape,
    /// Where it ends.
    end: usize,
    /// By position, the repeated fields that it has had.
    had: u64,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A varint, of which so much has come.
    Varint { of: Varint, value: u64, bytes: u32 },
    /// So many bytes. The numbers among them take as much each.
    Skip { left: usize, each: Option<usize> },
}

#[derive(Clone, Copy, Debug)]
enum Varint {
    /// A field's number and its type on the wire.
    Key,
    /// A number.
    Number,
    /// The length of what comes: of a field, by its position.
    Length(Option<usize>),
}

impl Step {
    const KEY: Self = Self::Varint { of: Varint::Key, value: 0, bytes: 0 };
}

/// The longest varint.
const VARINT_LENGTH: u32 = 10;
/// What memory on the heap takes beside what is in it.
const HEAP_OVERHEAD: usize = 16;
/// A vector that has anything has room for as many.
const FIRST_ROOM: usize = 4;

impl Decoded {
    /// For a message of so many bytes, which may take `most`.
    pub(crate) fn new(shape: &'static Shape, length: usize, most: u64) -> Self {
        let inner = Frame { shape, end: length, had: 0 };
        Self { length, inner, outer: Vec::new(), at: 0, step: Step::KEY, bytes: shape.size as u64, most }
    }

    /// Bytes of the message.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// What the message takes, as far as it was read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads on.
    ///
    /// # Errors
    /// It takes more than it may, or the decoder would not take it.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match self.step {
                Step::Skip { left, each } => {
                    let (now, rest) = bytes.split_at(bytes.len().min(left));
                    bytes = rest;
                    self.at += now.len();
                    if let Some(each) = each {
                        // Each ends with the only byte of its whose highest bit is not set.
                        let numbers = now.iter().filter(|byte| **byte < 0x80).count();
                        self.bytes += (numbers * each) as u64;
                    }
                    match left - now.len() {
                        0 => self.next(),
                        left => self.step = Step::Skip { left, each },
                    }
                }
                Step::Varint { of, value, bytes: had } => {
                    let (value, had, is_whole) = varint(&mut bytes, value, had, &mut self.at);
                    if self.at > self.inner.end {
                        return Err(malformed("a field is longer than what it stands in"));
                    }
                    match of {
                        _ if !is_whole && had >= VARINT_LENGTH => {
                            return Err(malformed("a number has no end"));
                        }
                        of if !is_whole => self.step = Step::Varint { of, value, bytes: had },
                        Varint::Key => self.key(value)?,
                        Varint::Number => self.next(),
                        Varint::Length(field) => self.value(field, value)?,
                    }
                }
            }
            if self.bytes > self.most {
                return Err(too_large(self.most));
            }
        }
        Ok(())
    }

    /// A field has ended, and with it perhaps messages.
    fn next(&mut self) {
        while self.at >= self.inner.end
            && let Some(outer) = self.outer.pop()
        {
            self.inner = outer;
        }
        self.step = Step::KEY;
    }

    fn key(&mut self, key: u64) -> Result<()> {
        let number = u32::try_from(key).map_err(|_| malformed("there is no field of that number"))? >> 3;
        if number == 0 {
            return Err(malformed("there is no field of that number"));
        }
        let field = self.inner.shape.position(number);
        match key & 7 {
            0 => {
                self.count_number(field);
                self.step = Step::Varint { of: Varint::Number, value: 0, bytes: 0 };
            }
            1 => {
                self.count_number(field);
                self.skip(8, None)?;
            }
            2 => self.step = Step::Varint { of: Varint::Length(field), value: 0, bytes: 0 },
            5 => {
                self.count_number(field);
                self.skip(4, None)?;
            }
            // Groups are of the time before proto3: the decoder reads what is in them, and nobody sends them.
            _ => return Err(malformed("a field is of no type")),
        }
        Ok(())
    }

    /// The value of a field that has a length.
    fn value(&mut self, position: Option<usize>, length: u64) -> Result<()> {
        let left = self.inner.end - self.at;
        let length = usize::try_from(length).ok().filter(|length| *length <= left);
        let length = length.ok_or_else(|| malformed("a field is longer than what it stands in"))?;
        let field = self.field(position);
        match field.map(|field| &field.holds) {
            None => self.skip(length, None),
            Some(Holds::Message(shape)) => {
                self.count(position, shape.size);
                if length == 0 || self.outer.len() >= limits::MESSAGE_DEPTH {
                    return self.skip(length, None);
                }
                self.outer.push(self.inner);
                self.inner = Frame { shape, end: self.at + length, had: 0 };
                self.step = Step::KEY;
                Ok(())
            }
            Some(Holds::Bytes { copied }) => {
                if field.is_some_and(|field| field.repeated) {
                    self.count(position, size_of::<String>());
                }
                if *copied && length > 0 {
                    self.bytes += (length + HEAP_OVERHEAD) as u64;
                }
                self.skip(length, None)
            }
            Some(Holds::Varint(each)) => {
                let each = *each;
                self.skip(length, Some(each))
            }
            Some(Holds::Fixed(_)) => {
                self.bytes += length as u64;
                self.skip(length, None)
            }
        }
    }

    fn skip(&mut self, left: usize, each: Option<usize>) -> Result<()> {
        if left > self.inner.end - self.at {
            return Err(malformed("a field is longer than what it stands in"));
        }
        self.step = Step::Skip { left, each };
        if left == 0 {
            self.next();
        }
        Ok(())
    }

    /// Counts a number that stands by itself.
    fn count_number(&mut self, position: Option<usize>) {
        if let Some(field) = self.field(position).filter(|field| field.repeated)
            && let Holds::Varint(each) | Holds::Fixed(each) = field.holds
        {
            self.count(position, each);
        }
    }

    /// Counts a value of so many bytes: of a field that is repeated it stands in a vector, which has room for some from its
    /// first on, else perhaps by itself.
    fn count(&mut self, position: Option<usize>, size: usize) {
        let (Some(position), Some(field)) = (position, self.field(position)) else { return };
        let bit = 1 << position;
        let bytes = match field.repeated {
            true if self.inner.had & bit != 0 => size,
            true => FIRST_ROOM * size + HEAP_OVERHEAD,
            false => size + HEAP_OVERHEAD,
        };
        self.inner.had |= bit;
        self.bytes += bytes as u64;
    }

    fn field(&self, position: Option<usize>) -> Option<&'static Field> {
        position.and_then(|position| self.inner.shape.fields.get(position))
    }
}

/// Reads on in a varint of which so many bytes have come, and says how many have by then, and whether it is whole.
fn varint(bytes: &mut &[u8], mut value: u64, mut had: u32, at: &mut usize) -> (u64, u32, bool) {
    while let Some((&byte, rest)) = bytes.split_first().filter(|_| had < VARINT_LENGTH) {
        (*bytes, *at) = (rest, *at + 1);
        value |= u64::from(byte & 0x7f) << (7 * had);
        had += 1;
        if byte < 0x80 {
            return (value, had, true);
        }
    }
    (value, had, false)
}

fn malformed(why: &str) -> RequestError {
    RequestError::protocol(format!("a message cannot be read: {why}"))
}

fn too_large(most: u64) -> RequestError {
    let message =
        format!("a message would take more than {most} bytes once it is decoded, which is the limit");
    RequestError::new(ErrorReason::MessageTooLarge, message).with("limit_bytes", most)
}

/// Looks through a message that has come.
///
/// # Errors
/// See [`Decoded::read`].
#[cfg(feature = "sql")]
pub(crate) fn check(shape: &'static Shape, bytes: &[u8], most: u64) -> Result<()> {
    Decoded::new(shape, bytes.len(), most).read(bytes)
}

/// What a message takes.
#[cfg(test)]
pub(crate) fn bytes(shape: &'static Shape, bytes: &[u8]) -> u64 {
    let mut decoded = Decoded::new(shape, bytes.len(), u64::MAX);
    decoded.read(bytes).unwrap();
    decoded.bytes()
}

#[cfg(test)]
mod tests;
