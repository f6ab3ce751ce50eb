//! Reading a body whose bytes nobody has vouched for. Nothing is allocated; time is linear in the bytes.

use super::{
    COOKIE, COOKIE_WITH_RUNS, MAX_CONTAINERS,
    container::{BUCKET_BLOCKS, Container, View, run_of, runs_are_smallest},
    write::has_offsets,
};
use crate::{BLOCK_IDS, Limits, SipError, mask, reader::Reader};

/// Checks that `bytes` (the tag first) are the canonical form of a set within `limits`, and counts its
/// containers.
pub(super) fn validate(bytes: &[u8], limits: &Limits) -> Result<usize, SipError> {
    let mut count = 0;
    let mut cardinality = 0;
    walk(bytes, limits, |container| {
        count += 1;
        cardinality += container.cardinality();
        Limits::check(container.at(), "cardinality", cardinality, limits.cardinality)?;
        check_ids(&container, bytes)
    })?;
    Ok(count)
}

/// Goes through the headers of `bytes` and calls `visit` for each container, in the order of the blocks. All
/// is checked but the containers' ids.
pub(super) fn walk(
    bytes: &[u8],
    limits: &Limits,
    mut visit: impl FnMut(Container) -> Result<(), SipError>,
) -> Result<(), SipError> {
    let mut reader = Reader::new(bytes, 1);
    let buckets = u64::from_le_bytes(reader.array()?);
    if buckets == 0 {
        return Err(SipError::Empty { at: 1 });
    }
    Limits::check(1, "buckets", buckets, limits.buckets as u64)?;
    let mut decoded = (bytes.len() as u64 - 1).saturating_add(buckets.saturating_mul(128));
    let mut last_key = None;
    for _ in 0..buckets {
        let at = reader.at();
        let key = u32::from_le_bytes(reader.array()?);
        if last_key.replace(key).is_some_and(|last| last >= key) {
            return Err(SipError::Order { at, what: "bucket" });
        }
        let bitmap = Bitmap::read_header(&mut reader)?;
        decoded = decoded.saturating_add(bitmap.descriptions.len() as u64 * 64);
        Limits::check(at, "decoded_bytes", decoded, limits.decoded_bytes)?;
        for i in 0..bitmap.descriptions.len() {
            visit(bitmap.read_container(i, u64::from(key) * BUCKET_BLOCKS, &mut reader)?)?;
        }
    }
    reader.end()
}

/// The header of a portable 32-bit bitmap.
struct Bitmap<'a> {
    /// Its first byte.
    at: usize,
    /// A bit for each container with runs; empty if there is none.
    run_flags: &'a [u8],
    /// Key and number of ids less one of each container.
    descriptions: &'a [[u8; 4]],
    /// Where each container stands; empty if that is left out.
    offsets: &'a [[u8; 4]],
    /// The first byte of `offsets`.
    offsets_at: usize,
}

impl<'a> Bitmap<'a> {
    fn read_header(reader: &mut Reader<'a>) -> Result<Self, SipError> {
        let at = reader.at();
        let cookie = u32::from_le_bytes(reader.array()?);
        let [low, high] = halves(cookie);
        let (count, run_flags) = if low == COOKIE_WITH_RUNS {
            let count = usize::from(high) + 1;
            (count, Self::read_run_flags(count, reader)?)
        } else if cookie == COOKIE {
            (Self::read_count(reader)?, [].as_slice())
        } else {
            return Err(SipError::Cookie { at, cookie });
        };
        let has_runs = low == COOKIE_WITH_RUNS;
        if has_runs && run_flags.iter().all(|&flags| flags == 0) {
            return Err(SipError::Cookie { at, cookie });
        }
        let descriptions_at = reader.at();
        let descriptions = reader.take(4 * count)?.as_chunks().0;
        let keys = descriptions.iter().map(|&description| halves(u32::from_le_bytes(description))[0]);
        if let Some(i) = keys.clone().zip(keys.skip(1)).position(|(key, next)| key >= next) {
            return Err(SipError::Order { at: descriptions_at + 4 * (i + 1), what: "container" });
        }
        let offsets_at = reader.at();
        let offsets = if has_offsets(count, has_runs) { reader.take(4 * count)? } else { &[] };
        Ok(Self { at, run_flags, descriptions, offsets: offsets.as_chunks().0, offsets_at })
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

    fn read_run_flags(count: usize, reader: &mut Reader<'a>) -> Result<&'a [u8], SipError> {
        let flags = reader.take(count.div_ceil(8))?;
        match flags.last() {
            Some(last) if !count.is_multiple_of(8) && last >> (count % 8) > 0 => {
                Err(SipError::RunFlags { at: reader.at() - 1 })
            }
            _ => Ok(flags),
        }
    }

    /// Reads the `i`th container, which comes next; `first_block` is that of the bucket.
    fn read_container(
        &self,
        i: usize,
        first_block: u64,
        reader: &mut Reader<'_>,
    ) -> Result<Container, SipError> {
        let at = reader.at();
        if let Some(&offset) = self.offsets.get(i) {
            let found = u32::from_le_bytes(offset);
            if found as usize != at - self.at {
                let expected = u32::try_from(at - self.at).unwrap_or(u32::MAX);
                return Err(SipError::Offset { at: self.offsets_at + 4 * i, found, expected });
            }
        }
        let [key, last] = halves(u32::from_le_bytes(self.descriptions[i]));
        let has_runs = self.run_flags.get(i / 8).is_some_and(|flags| flags >> (i % 8) & 1 == 1);
        let runs = if has_runs { u16::from_le_bytes(reader.clone().array()?) } else { 0 };
        if has_runs && runs == 0 {
            return Err(SipError::Cardinality { at, declared: u32::from(last) + 1, found: 0 });
        }
        let container = Container::new(first_block + u64::from(key), at, u64::from(last) + 1, runs);
        reader.take(container.range().len())?;
        Ok(container)
    }
}

/// Checks that a container's ids increase, are as many as declared, and could not be held in fewer bytes.
fn check_ids(container: &Container, bytes: &[u8]) -> Result<(), SipError> {
    let at = container.at();
    let (found, runs) = match container.view(bytes) {
        View::Array(ids) => count_array(ids, at)?,
        View::Bitset(words) => count_bitset(words),
        View::Runs(runs) => (count_runs(runs, at + 2)?, runs.len() as u64),
    };
    if found != container.cardinality() {
        let declared = u32::from(container.last()) + 1;
        return Err(SipError::Cardinality { at, declared, found: u32::try_from(found).unwrap_or(u32::MAX) });
    }
    if runs_are_smallest(found, runs) != container.has_runs() {
        return Err(SipError::ContainerKind { at });
    }
    Ok(())
}

/// The ids of an array, and their runs.
fn count_array(ids: &[[u8; 2]], at: usize) -> Result<(u64, u64), SipError> {
    let mut last = None;
    let mut runs = 0;
    for (i, &id) in ids.iter().enumerate() {
        let id = u32::from(u16::from_le_bytes(id));
        match last.replace(id) {
            Some(last) if id <= last => return Err(SipError::Order { at: at + 2 * i, what: "id" }),
            Some(last) if id == last + 1 => {}
            _ => runs += 1,
        }
    }
    Ok((ids.len() as u64, runs))
}

/// The ids of a bitset, and their runs.
fn count_bitset(words: &[[u8; 8]]) -> (u64, u64) {
    mask::count(words.iter().map(|&word| u64::from_le_bytes(word)))
}

/// The ids of runs.
fn count_runs(runs: &[[u8; 4]], at: usize) -> Result<u64, SipError> {
    let mut behind = None;
    let mut ids = 0;
    for (i, &run) in runs.iter().enumerate() {
        let run = run_of(run);
        if run.end > BLOCK_IDS || behind.is_some_and(|behind| run.start <= behind) {
            return Err(SipError::Run { at: at + 4 * i });
        }
        behind = Some(run.end);
        ids += run.end - run.start;
    }
    Ok(ids)
}

/// The low and the high half of a field.
fn halves(field: u32) -> [u16; 2] {
    let [a, b, c, d] = field.to_le_bytes();
    [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
}
