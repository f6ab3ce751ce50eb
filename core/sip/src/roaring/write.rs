//! Writing a body from containers.

use super::{
    COOKIE, COOKIE_WITH_RUNS, MIN_CONTAINERS_FOR_OFFSETS,
    container::{BUCKET_BLOCKS, Container},
    low,
};

/// Bytes of the body of `containers`, in the order of their blocks.
pub(crate) fn size(containers: &[Container]) -> usize {
    let buckets = buckets(containers).map(|bucket| {
        4 + header_size(bucket.len(), has_runs(bucket)) + bucket.iter().map(Container::size).sum::<usize>()
    });
    8 + buckets.sum::<usize>()
}

/// Appends the body of `containers`, in the order of their blocks, and moves them from `from` to there.
pub(crate) fn write(containers: &mut [Container], from: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(buckets(containers).count() as u64).to_le_bytes());
    for bucket in containers.chunk_by_mut(same_bucket) {
        write_bucket(bucket, from, out);
    }
}

fn write_bucket(bucket: &mut [Container], from: &[u8], out: &mut Vec<u8>) {
    let put = |out: &mut Vec<u8>, field: u32| out.extend_from_slice(&field.to_le_bytes());
    let key = bucket.first().map_or(0, |container| container.block() / BUCKET_BLOCKS);
    put(out, narrow(key));
    let start = out.len();
    let has_runs = has_runs(bucket);
    let count = bucket.len();
    if has_runs {
        put(out, u32::from(low(count as u64 - 1)) << 16 | u32::from(COOKIE_WITH_RUNS));
        let flags = out.len();
        out.resize(flags + count.div_ceil(8), 0);
        for (i, _) in bucket.iter().enumerate().filter(|(_, container)| container.has_runs()) {
            out[flags + i / 8] |= 1 << (i % 8);
        }
    } else {
        put(out, COOKIE);
        put(out, narrow(count as u64));
    }
    for container in &*bucket {
        put(out, u32::from(container.last()) << 16 | u32::from(low(container.block())));
    }
    if has_offsets(count, has_runs) {
        let mut offset = header_size(count, has_runs);
        for container in &*bucket {
            put(out, narrow(offset as u64));
            offset += container.size();
        }
    }
    debug_assert_eq!(out.len() - start, header_size(count, has_runs));
    for container in bucket {
        let at = out.len();
        out.extend_from_slice(&from[container.range()]);
        *container = container.moved_to(at);
    }
}

/// Bytes before the containers of a 32-bit bitmap.
pub(super) fn header_size(containers: usize, has_runs: bool) -> usize {
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
    containers.chunk_by(same_bucket)
}

fn same_bucket(a: &Container, b: &Container) -> bool {
    a.block() / BUCKET_BLOCKS == b.block() / BUCKET_BLOCKS
}

#[allow(clippy::cast_possible_truncation, reason = "keys, counts and offsets of a 32-bit bitmap fit 32 bits")]
fn narrow(field: u64) -> u32 {
    field as u32
}
