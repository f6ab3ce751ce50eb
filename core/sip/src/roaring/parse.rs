//! Reading a body whose bytes nobody has vouched for. To validate one nothing is allocated; time is linear in
//! the bytes.

use basalt_kernels::mask as kernels;

use super::{
    Bucket, COOKIE,
    bitmap::{Bitmap, first_block},
    container::{Container, runs_are_smallest},
    encode_contents,
};
use crate::{
    BLOCK_IDS, BLOCK_WORDS, Builder, Limits, Sip, SipError,
    contents::{Contents, run_of},
    index::{Entries, Unindexed},
    reader::Reader,
};

/// Bytes of a bucket, at least: 4 of its key, 8 of the smallest header, and a flag and a run, or two more
/// fields.
const LEAST_BUCKET: u64 = 19;
/// Bytes of a bucket without containers: its key, a cookie and a 0.
const LEAST_FOREIGN_BUCKET: u64 = 12;

/// Checks that `bytes` (the tag first) are the canonical form of a set within `limits`, and counts its ids;
/// `index` sees where each bucket begins.
pub(crate) fn validate(
    bytes: &[u8],
    limits: &Limits,
    index: &mut impl Entries<Bucket>,
) -> Result<u64, SipError> {
    walk(bytes, 1, limits, false, index, |container, runs| {
        if runs_are_smallest(container.cardinality(), runs) == container.has_runs() {
            Ok(())
        } else {
            Err(SipError::ContainerKind { at: container.at() })
        }
    })
}

/// Reads the bitmap that `bytes` hold from byte `at` to their end, as other writers may leave it: containers
/// need not be of the smallest kind, and a bucket may hold none.
pub(crate) fn read_foreign(bytes: &[u8], at: usize, limits: &Limits) -> Result<Sip, SipError> {
    let mut builder = Builder::new();
    walk(bytes, at, limits, true, &mut Unindexed, |container, _| {
        builder.push(|out| encode_contents(container.block(), container.contents(bytes), out));
        Ok(())
    })?;
    Ok(builder.finish())
}

/// Goes through the body from byte `at` on and checks all but the kinds of its containers, each of which
/// `each` sees with its runs.
fn walk(
    bytes: &[u8],
    at: usize,
    limits: &Limits,
    foreign: bool,
    index: &mut impl Entries<Bucket>,
    mut each: impl FnMut(&Container, u64) -> Result<(), SipError>,
) -> Result<u64, SipError> {
    let mut reader = Reader::new(bytes, at);
    let body = reader.left() as u64;
    let buckets = u64::from_le_bytes(reader.array()?);
    if buckets == 0 && !foreign {
        return Err(SipError::Empty { at });
    }
    Limits::check(at, "buckets", buckets, limits.buckets as u64)?;
    let least = buckets.saturating_mul(if foreign { LEAST_FOREIGN_BUCKET } else { LEAST_BUCKET });
    let least = usize::try_from(least).unwrap_or(usize::MAX);
    if least > reader.left() {
        return Err(SipError::Truncated { at: reader.at(), need: least });
    }
    index.expect(usize::try_from(buckets).unwrap_or(usize::MAX));
    let mut decoded = body.saturating_add(buckets.saturating_mul(128));
    let mut cardinality = 0;
    let mut last_key = None;
    for _ in 0..buckets {
        let at = reader.at();
        let key = u32::from_le_bytes(reader.array()?);
        if last_key.replace(key).is_some_and(|last| last >= key) {
            return Err(SipError::Order { at, what: "bucket" });
        }
        if foreign && is_empty(reader.rest()) {
            reader.skip(8);
            continue;
        }
        index.push(Bucket { key, at: reader.at() });
        let bitmap = Bitmap::read(&mut reader)?;
        bitmap.check()?;
        decoded = decoded.saturating_add(bitmap.len() as u64 * 64);
        Limits::check(at, "decoded_bytes", decoded, limits.decoded_bytes)?;
        for i in 0..bitmap.len() {
            let at = reader.at();
            bitmap.check_offset(i, at)?;
            let container = bitmap.container(i, at, first_block(key), bytes)?;
            reader.take(container.size())?;
            cardinality += container.cardinality();
            Limits::check(at, "cardinality", cardinality, limits.cardinality)?;
            each(&container, count_ids(&container, bytes)?)?;
        }
    }
    reader.end()?;
    Ok(cardinality)
}

/// Whether a bitmap without containers comes next.
fn is_empty(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|&bytes| u64::from_le_bytes(bytes) == u64::from(COOKIE))
}

/// Checks that a container's ids increase and are as many as declared, and counts their runs.
fn count_ids(container: &Container, bytes: &[u8]) -> Result<u64, SipError> {
    let at = container.at();
    let (found, runs) = match container.contents(bytes) {
        Contents::Array(ids) => count_array(ids, at)?,
        Contents::Bitset(words) => count_bitset(words),
        Contents::Runs(runs) => (count_runs(runs, at + 2)?, runs.len() as u64),
    };
    if found != container.cardinality() {
        let declared = u32::from(container.last()) + 1;
        return Err(SipError::Cardinality { at, declared, found: u32::try_from(found).unwrap_or(u32::MAX) });
    }
    Ok(runs)
}

/// The ids of an array, and their runs.
fn count_array(ids: &[[u8; 2]], at: usize) -> Result<(u64, u64), SipError> {
    let value = |id: [u8; 2]| i32::from(u16::from_le_bytes(id));
    let pairs = || ids.iter().zip(ids.iter().skip(1)).map(|(&a, &b)| value(b) - value(a));
    let (mut ordered, mut touching) = (true, 0_u64);
    for difference in pairs() {
        ordered &= difference > 0;
        touching += u64::from(difference == 1);
    }
    if !ordered {
        let i = pairs().position(|difference| difference <= 0).unwrap_or(0);
        return Err(SipError::Order { at: at + 2 * (i + 1), what: "id" });
    }
    Ok((ids.len() as u64, ids.len() as u64 - touching))
}

/// The ids of a bitset, and their runs.
fn count_bitset(bitset: &[[u8; 8]]) -> (u64, u64) {
    let mut words = [0; BLOCK_WORDS];
    words.iter_mut().zip(bitset).for_each(|(word, &bytes)| *word = u64::from_le_bytes(bytes));
    kernels::count_runs(&words)
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
