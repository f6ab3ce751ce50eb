//! How encoded columns lie in their buffers.
//!
//! Every buffer begins with the same head; typed sections follow, each aligned for its type, those that
//! kernels read to 64 bytes:
//!
//! | byte | what |
//! |---|---|
//! | 0 | the encoding's code |
//! | 1 | the key type's code ([`Native`]), 0 for text |
//! | 2, 3 | two parameters of the encoding, else 0 |
//! | 4..8 | rows, u32 |

use arrow_buffer::{ArrowNativeType, Buffer, MutableBuffer, ScalarBuffer, ToByteSlice};

pub(super) use crate::invariant::{count, index};
use crate::{
    error::{Error, ErrorKind, Result},
    invariant::Invariant,
    keys::Native,
    limits,
};

/// Rows whose places `decode` and `filter` may start at: every multiple of it.
pub const UNIT_ROWS: usize = 512;

/// Sections that kernels read begin at multiples of it.
pub(super) const ALIGNMENT: usize = 64;
/// Bytes of the head.
pub(super) const HEAD: usize = 8;

/// That the bytes are not a column, and why.
pub(super) fn corrupt(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, message)
}

/// `Corrupt` with `message` unless `holds`.
pub(super) fn ensure(holds: bool, message: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(corrupt(message)) }
}

/// Bits needed to write `n`: 0 for 0.
#[inline]
pub(super) fn bits(n: u64) -> u32 {
    u64::BITS - n.leading_zeros()
}

/// The bits of a stream from `bit` on, 57 at least, and zeros behind its end. The lowest bit of a byte is the first.
#[inline]
pub(super) fn bits_at(bytes: &[u8], bit: usize) -> u64 {
    // Default: no bytes, behind the end.
    let bytes = bytes.get(bit / 8..).unwrap_or_default();
    let word = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        word
    });
    u64::from_le_bytes(word) >> (bit % 8)
}

/// `n` rounded up to a multiple of [`ALIGNMENT`].
pub(super) const fn align(n: usize) -> usize {
    n.next_multiple_of(ALIGNMENT)
}

/// The fixed part of every buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) code: u8,
    /// `None`: text.
    pub(super) native: Option<Native>,
    pub(super) params: [u8; 2],
    pub(super) rows: usize,
}

impl Head {
    pub(super) fn keys(code: u8, native: Native, params: [u8; 2], rows: usize) -> Self {
        Self { code, native: Some(native), params, rows }
    }

    pub(super) fn text(code: u8, params: [u8; 2], rows: usize) -> Self {
        Self { code, native: None, params, rows }
    }
}

/// Writes a buffer from front to back.
pub(super) struct Writer(MutableBuffer);

impl Writer {
    /// A buffer that is to hold `capacity` bytes, the head included.
    pub(super) fn new(head: Head, capacity: usize) -> Self {
        let mut writer = Self(MutableBuffer::with_capacity(capacity));
        writer.put(head.code);
        // Default: 0 stands for text.
        writer.put(head.native.map_or(0, |n| n as u8));
        writer.put(head.params[0]);
        writer.put(head.params[1]);
        writer.put(count(head.rows));
        writer
    }

    pub(super) fn put<T: ToByteSlice>(&mut self, value: T) {
        self.0.push(value);
    }

    /// A key in as many bytes as a value of its type has.
    pub(super) fn key(&mut self, key: i64, native: Native) {
        self.slice(&key.to_le_bytes()[..native.width()]);
    }

    pub(super) fn slice<T: ArrowNativeType>(&mut self, values: &[T]) {
        self.0.extend_from_slice(values);
    }

    /// Appends `len` zeros and lends them to be filled.
    pub(super) fn zeros<T: ArrowNativeType>(&mut self, len: usize) -> &mut [T] {
        let start = self.0.len();
        self.0.extend_zeros(len * size_of::<T>());
        &mut self.0.typed_data_mut::<T>()[start / size_of::<T>()..]
    }

    /// Pads with zeros to a multiple of `to` bytes.
    pub(super) fn align(&mut self, to: usize) {
        let len = self.0.len();
        self.0.extend_zeros(len.next_multiple_of(to) - len);
    }

    pub(super) fn finish(self) -> Buffer {
        self.0.into()
    }
}

/// Reads a buffer from front to back; nothing in it is believed.
pub(super) struct Reader {
    buffer: Buffer,
    at: usize,
}

impl Reader {
    /// Reads the head. The rows are at least one and at most a fragment's.
    pub(super) fn new(buffer: Buffer) -> Result<(Head, Self)> {
        let mut reader = Self { buffer, at: 0 };
        let [code, native, p0, p1] = reader.array()?;
        let rows = reader.u32()? as usize;
        ensure((1..=limits::FRAGMENT_ROWS).contains(&rows), "the rows are not those of a fragment")?;
        let native = match native {
            0 => None,
            code => Some(Native::from_code(code).ok_or_else(|| corrupt("unknown key type"))?),
        };
        Ok((Head { code, native, params: [p0, p1], rows }, reader))
    }

    /// Reads the head of a column of keys.
    pub(super) fn keys(buffer: Buffer) -> Result<(Head, Native, Self)> {
        let (head, reader) = Self::new(buffer)?;
        let native = head.native.ok_or_else(|| corrupt("the key type is missing"))?;
        Ok((head, native, reader))
    }

    /// Reads the head of a column of texts.
    pub(super) fn text(buffer: Buffer) -> Result<(Head, Self)> {
        let (head, reader) = Self::new(buffer)?;
        ensure(head.native.is_none(), "a column of texts has no key type")?;
        Ok((head, reader))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.buffer.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let bytes = *bytes.ok_or_else(|| corrupt("the buffer ends too soon"))?;
        self.at += N;
        Ok(bytes)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// What [`Writer::key`] wrote.
    pub(super) fn key(&mut self, native: Native) -> Result<i64> {
        let bytes = self.skip(native.width())?;
        let negative = native.key_range().0 < 0 && bytes.last().is_some_and(|byte| byte >> 7 == 1);
        let mut key = [if negative { 0xFF } else { 0 }; 8];
        key[..bytes.len()].copy_from_slice(&bytes);
        Ok(i64::from_le_bytes(key))
    }

    /// Skips the padding of [`Writer::align`].
    pub(super) fn align(&mut self, to: usize) -> Result<()> {
        self.skip(self.at.next_multiple_of(to) - self.at).map(drop)
    }

    /// The next `len` values of `T`.
    pub(super) fn section<T: ArrowNativeType>(&mut self, len: usize) -> Result<ScalarBuffer<T>> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| corrupt("a length overflows"))?;
        ensure(self.at.is_multiple_of(align_of::<T>()), "a section is not aligned")?;
        self.skip(bytes).map(ScalarBuffer::from)
    }

    /// The next `len` bytes.
    pub(super) fn skip(&mut self, len: usize) -> Result<Buffer> {
        ensure(len <= self.left(), "the buffer ends too soon")?;
        let bytes = self.buffer.slice_with_length(self.at, len);
        self.at += len;
        Ok(bytes)
    }

    /// Bytes not yet read.
    pub(super) fn left(&self) -> usize {
        self.buffer.len() - self.at
    }

    /// The rest, as a buffer of its own.
    pub(super) fn rest(mut self) -> Result<Buffer> {
        self.skip(self.left())
    }

    /// That nothing is left.
    pub(super) fn finish(self) -> Result<()> {
        ensure(self.left() == 0, "bytes follow the column")
    }
}

/// The key type of a column of keys that was opened.
pub(super) fn key_type(buffer: &Buffer) -> Native {
    let native = buffer.get(1).and_then(|code| Native::from_code(*code));
    native.invariant("a column of keys that was opened has a key type")
}

/// The same bytes at an aligned address: not copied where they are so already.
pub(super) fn aligned(buffer: Buffer) -> Buffer {
    if buffer.as_ptr().align_offset(ALIGNMENT) == 0 {
        return buffer;
    }
    let mut copy = MutableBuffer::with_capacity(buffer.len());
    copy.extend_from_slice(buffer.as_slice());
    copy.into()
}
