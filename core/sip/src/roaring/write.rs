//! Writing a body from containers.

use super::{
    Bucket, COOKIE, COOKIE_WITH_RUNS, MIN_CONTAINERS_FOR_OFFSETS,
    container::{BUCKET_BLOCKS, Container},
    low,
};
use crate::Tag;

/// Bytes of the body of `containers`, in the order of their blocks.
pub(crate) fn size(containers: &[Container]) -> usize {
    let buckets = buckets(containers).map(|bucket| {
        4 + header_size(bucket.len(), has_runs(bucket)) + bucket.iter().map(Container::size).sum::<usize>()
    });
    8 + buckets.sum::<usize>()
}

/// The SIP of `containers`, in the order of their blocks, that stand in `from`; and its buckets.
pub(crate) fn write(containers: &[Container], from: &[u8]) -> (Vec<u8>, Box<[Bucket]>) {
    write_with(containers, |container, out| out.extend_from_slice(&from[container.range()]))
}

/// The same of containers that `put` appends, in their order.
pub(crate) fn write_with(
    containers: &[Container],
    mut put: impl FnMut(&Container, &mut Vec<u8>),
) -> (Vec<u8>, Box<[Bucket]>) {
    let mut out = Vec::with_capacity(1 + size(containers));
    out.push(Tag::Roaring as u8);
    out.extend_from_slice(&(buckets(containers).count() as u64).to_le_bytes());
    let mut index = Vec::new();
    for bucket in buckets(containers) {
        let key = bucket.first().map_or(0, |container| container.block() / BUCKET_BLOCKS);
        put_field(&mut out, narrow(key));
        index.push(Bucket { key: narrow(key), at: out.len() });
        put_header(bucket, &mut out);
        bucket.iter().for_each(|container| put(container, &mut out));
    }
    (out, index.into())
}

fn put_header(bucket: &[Container], out: &mut Vec<u8>) {
    let has_runs = has_runs(bucket);
    let count = bucket.len();
    if has_runs {
        put_field(out, u32::from(low(count as u64 - 1)) << 16 | u32::from(COOKIE_WITH_RUNS));
        let flags = out.len();
        out.resize(flags + count.div_ceil(8), 0);
        for (i, _) in bucket.iter().enumerate().filter(|(_, container)| container.has_runs()) {
            out[flags + i / 8] |= 1 << (i % 8);
        }
    } else {
        put_field(out, COOKIE);
        put_field(out, narrow(count as u64));
    }
    for container in bucket {
        put_field(out, u32::from(container.last()) << 16 | u32::from(low(container.block())));
    }
    if has_offsets(count, has_runs) {
        let mut offset = header_size(count, has_runs);
        for container in bucket {
            put_field(out, narrow(offset as u64));
            offset += container.size();
        }
    }
}

fn put_field(out: &mut Vec<u8>, field: u32) {
    out.extend_from_slice(&field.to_le_bytes());
}

/// Bytes before the containers of a 32-bit bitmap.
fn header_size(containers: usize, has_runs: bool) -> usize {
    let cookie = if has_runs { 4 + containers.div_ceil(8) } else { 8 };
    let offsets = if has_offsets(containers, has_runs) { 4 * containers } else { 0 };
    cookie + 4 * containers + offsets
}

/// Whether a 32-bit bitmap says where its containers stand.
pub(super) fn has_offsets(containers: usize, has_runs: bool) -> bool {
    !has_runs || containers >= MIN_CONTAINERS_FOR_OFFSETS
}

fn has_runs(bucket: &[Container]) -> bool {
    bucket.iter().any(Container::has_runs)
}

fn buckets(containers: &[Container]) -> impl Iterator<Item = &[Container]> {
    containers.chunk_by(|a, b| a.block() / BUCKET_BLOCKS == b.block() / BUCKET_BLOCKS)
}

#[allow(clippy::cast_possible_truncation, reason = "keys, counts and offsets of a 32-bit bitmap fit 32 bits")]
fn narrow(field: u64) -> u32 {
    field as u32
}
