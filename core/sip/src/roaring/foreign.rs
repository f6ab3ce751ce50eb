//! Portable 64-bit roaring as other writers leave it: containers of any kind, and bitmaps without any.

use super::{
    COOKIE, Container,
    bitmap::{Bitmap, first_block},
    parse::count_ids,
};
use crate::{BLOCK_IDS, BLOCK_WORDS, Builder, Limits, Sip, SipError, reader::Reader};

/// Bytes of a bucket without containers: its key, a cookie and a 0.
const LEAST_BUCKET: u64 = 12;

/// Reads the bitmap that `bytes` hold from byte `at` to their end. All is checked that
/// [`validate`](super::validate) checks, but that containers are of the smallest kind.
pub(crate) fn read(bytes: &[u8], at: usize, limits: &Limits) -> Result<Sip, SipError> {
    let mut reader = Reader::new(bytes, at);
    let body = reader.left() as u64;
    Limits::check(at, "body_bytes", body, limits.body_bytes as u64)?;
    let buckets = u64::from_le_bytes(reader.array()?);
    Limits::check(at, "buckets", buckets, limits.buckets as u64)?;
    let least = usize::try_from(buckets.saturating_mul(LEAST_BUCKET)).unwrap_or(usize::MAX);
    if least > reader.left() {
        return Err(SipError::Truncated { at: reader.at(), need: least });
    }
    let mut decoded = body.saturating_add(buckets.saturating_mul(128));
    let mut builder = Builder::new();
    let mut cardinality = 0;
    let mut last_key = None;
    for _ in 0..buckets {
        let at = reader.at();
        let key = u32::from_le_bytes(reader.array()?);
        if last_key.replace(key).is_some_and(|last| last >= key) {
            return Err(SipError::Order { at, what: "bucket" });
        }
        if is_empty(reader.rest()) {
            reader.skip(8);
            continue;
        }
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
            count_ids(&container, bytes)?;
            push(&container, bytes, &mut builder);
        }
    }
    reader.end()?;
    Ok(builder.finish())
}

/// Whether a bitmap without containers comes next.
fn is_empty(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|&bytes| u64::from_le_bytes(bytes) == u64::from(COOKIE))
}

fn push(container: &Container, bytes: &[u8], builder: &mut Builder) {
    let mut words = [0; BLOCK_WORDS];
    container.contents(bytes).copy_to(&mut words);
    builder.push_words(container.block() * BLOCK_IDS, &words);
}
