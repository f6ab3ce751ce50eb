//! A portable 32-bit bitmap: its header, and where its containers stand.

use super::{
    COOKIE, COOKIE_WITH_RUNS, MAX_CONTAINERS,
    container::{BUCKET_BLOCKS, Container},
    write::has_offsets,
};
use crate::{SipError, reader::Reader};

/// The parts of a header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bitmap<'a> {
    /// Its first byte.
    at: usize,
    cookie: u32,
    /// A bit for each container with runs; empty if there is none.
    run_flags: &'a [u8],
    /// Key and number of ids less one of each container.
    descriptions: &'a [[u8; 4]],
    /// Where each container stands; empty if that is left out.
    offsets: &'a [[u8; 4]],
    /// The first byte behind the header.
    end: usize,
}

impl<'a> Bitmap<'a> {
    /// Reads the header. Of its fields only those are looked at that say how long it is.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, SipError> {
        let at = reader.at();
        let cookie = u32::from_le_bytes(reader.array()?);
        let [low, high] = halves(cookie);
        let has_runs = low == COOKIE_WITH_RUNS;
        let count = if has_runs {
            usize::from(high) + 1
        } else if cookie == COOKIE {
            read_count(reader)?
        } else {
            return Err(SipError::Cookie { at, cookie });
        };
        let run_flags = if has_runs { reader.take(count.div_ceil(8))? } else { &[] };
        let descriptions = reader.take(4 * count)?.as_chunks().0;
        let offsets = if has_offsets(count, has_runs) { reader.take(4 * count)? } else { &[] };
        let offsets = offsets.as_chunks().0;
        Ok(Self { at, cookie, run_flags, descriptions, offsets, end: reader.at() })
    }

    /// Checks the run flags and the order of the containers.
    pub(super) fn check(&self) -> Result<(), SipError> {
        let (at, cookie) = (self.at, self.cookie);
        let flags_at = at + 4;
        if let Some(last) = self.run_flags.last() {
            if !self.len().is_multiple_of(8) && last >> (self.len() % 8) > 0 {
                return Err(SipError::RunFlags { at: flags_at + self.run_flags.len() - 1 });
            }
            if self.run_flags.iter().all(|&flags| flags == 0) {
                return Err(SipError::Cookie { at, cookie });
            }
        }
        let keys = self.descriptions.iter().map(|&description| halves(u32::from_le_bytes(description))[0]);
        if let Some(i) = keys.clone().zip(keys.skip(1)).position(|(key, next)| key >= next) {
            let descriptions_at = self.end - 4 * (self.descriptions.len() + self.offsets.len());
            return Err(SipError::Order { at: descriptions_at + 4 * (i + 1), what: "container" });
        }
        Ok(())
    }

    /// The number of containers.
    pub(super) fn len(&self) -> usize {
        self.descriptions.len()
    }

    /// The first byte behind the header.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// The `i`th container, which stands at byte `at`; `first_block` is that of the bucket.
    pub(super) fn container(
        &self,
        i: usize,
        at: usize,
        first_block: u64,
        bytes: &[u8],
    ) -> Result<Container, SipError> {
        let [key, last] = halves(u32::from_le_bytes(self.descriptions[i]));
        let has_runs = self.run_flags.get(i / 8).is_some_and(|flags| flags >> (i % 8) & 1 == 1);
        let runs = if has_runs { u16::from_le_bytes(Reader::new(bytes, at).array()?) } else { 0 };
        if has_runs && runs == 0 {
            return Err(SipError::Cardinality { at, declared: u32::from(last) + 1, found: 0 });
        }
        Ok(Container::described(first_block + u64::from(key), at, u64::from(last) + 1, runs))
    }

    /// Checks what the header says about the place of the `i`th container, which stands at byte `at`.
    pub(super) fn check_offset(&self, i: usize, at: usize) -> Result<(), SipError> {
        let Some(&offset) = self.offsets.get(i) else { return Ok(()) };
        let found = u32::from_le_bytes(offset);
        if found as usize == at - self.at {
            return Ok(());
        }
        let expected = u32::try_from(at - self.at).unwrap_or(u32::MAX);
        Err(SipError::Offset { at: self.end - 4 * (self.offsets.len() - i), found, expected })
    }

    /// The first container whose key in the bucket is `key` or more.
    pub(super) fn find(&self, key: u64) -> usize {
        self.descriptions.partition_point(|&d| u64::from(halves(u32::from_le_bytes(d))[0]) < key)
    }

    /// Where the `i`th container of a validated bitmap stands; with `i` the number of containers, its end.
    pub(super) fn place(&self, i: usize, bytes: &[u8]) -> usize {
        if let Some(&offset) = self.offsets.get(i) {
            return self.at + u32::from_le_bytes(offset) as usize;
        }
        // Without offsets there are few containers; with them, what is asked for is the end.
        let (mut next, mut at) = match self.offsets.split_last() {
            Some((last, before)) => (before.len(), self.at + u32::from_le_bytes(*last) as usize),
            None => (0, self.end),
        };
        while next < i {
            at += self.container(next, at, 0, bytes).map_or(0, |container| container.size());
            next += 1;
        }
        at
    }

    /// The number of ids of the first `i` containers.
    pub(super) fn cardinality(&self, i: usize) -> u64 {
        self.descriptions[..i].iter().map(|&d| u64::from(halves(u32::from_le_bytes(d))[1]) + 1).sum()
    }
}

/// The first block of a bucket.
pub(super) fn first_block(key: u32) -> u64 {
    u64::from(key) * BUCKET_BLOCKS
}

fn read_count(reader: &mut Reader<'_>) -> Result<usize, SipError> {
    let at = reader.at();
    let found = u32::from_le_bytes(reader.array()?);
    match usize::try_from(found) {
        Ok(0) => Err(SipError::Empty { at }),
        Ok(count) if count <= MAX_CONTAINERS => Ok(count),
        _ => Err(SipError::ContainerCount { at, found }),
    }
}

/// The low and the high half of a field.
fn halves(field: u32) -> [u16; 2] {
    let [a, b, c, d] = field.to_le_bytes();
    [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
}
