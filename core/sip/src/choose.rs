//! Which tag a set takes the fewest bytes under, judged from a sample: no tag is written to be thrown away.
//!
//! The sizes of 0x02, 0x03 and 0x04 are those of sampled groups, scaled up; that of 0x01 is known where the
//! set came as masks, and follows from the density around the sampled groups otherwise.

use crate::{
    BLOCK_IDS, Tag, View,
    blocks::Scratch,
    contents::Contents,
    list::to_gaps,
    rice::{self, GROUP},
    roaring::{self, BITSET_BYTES, BUCKET_BLOCKS, Container},
    varint,
};

/// Groups that are looked at: one of 16, but at least 8 and at most 32.
fn groups_of(cardinality: u64) -> u64 {
    (cardinality / (16 * GROUP as u64)).clamp(8, 32)
}

/// What may be given for 0x01, which is read fastest, as a part of the size.
const TOLERANCE: f64 = 0.03;

/// What is known of a set without a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    cardinality: u64,
    /// Runs of ids in its blocks; none if they were not counted.
    ranges: Option<u64>,
    /// Bytes of its roaring body, if that was measured.
    roaring: Option<f64>,
}

impl Known {
    /// Of containers that were built, not read.
    pub(crate) fn of(containers: &[Container]) -> Self {
        Self {
            cardinality: containers.iter().map(Container::cardinality).sum(),
            ranges: Some(containers.iter().map(|container| u64::from(container.runs())).sum()),
            roaring: Some(roaring::size(containers) as f64),
        }
    }

    /// The tag, if nothing but these numbers tells it.
    pub(crate) fn tag(&self) -> Option<Tag> {
        // A range takes 9 bytes or less, unless it is longer than what the others have room for, and an id
        // under 0x04 a bit or more.
        self.ranges.filter(|ranges| self.cardinality > ranges.saturating_mul(80)).map(|_| Tag::Ranges)
    }
}

/// Consecutive ids of a set, and the one before them.
#[derive(Debug)]
struct Group {
    before: Option<u64>,
    /// The ids that they stand for.
    members: u64,
    ids: [u64; GROUP],
    len: usize,
}

/// What groups of a set, scaled up to what each stands for, take under each tag.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    ids: f64,
    /// Bytes under 0x04, 0x02 and (without the number of buckets) 0x01.
    gaps: f64,
    varints: f64,
    roaring: f64,
    blocks: f64,
    /// Ranges, and their bytes under 0x03.
    ranges: f64,
    range_bytes: f64,
    /// The group that is not full yet.
    open: Option<Group>,
}

impl Sample {
    /// Adds consecutive ids of the set, at most a group, and the one before them. They stand for `members`
    /// ids.
    pub(crate) fn add(&mut self, before: Option<u64>, ids: &[u64], members: u64) {
        if ids.is_empty() {
            return;
        }
        let scale = members as f64 / ids.len() as f64;
        let mut gaps = [0; GROUP];
        let gaps = to_gaps(before, ids, &mut gaps);
        self.ids += members as f64;
        self.gaps += scale * group_bytes(gaps);
        self.varints +=
            scale * gaps.iter().map(|gap| varint::len(gap.saturating_add(1))).sum::<usize>() as f64;
        let (mut left_out, mut lengths) = ([0; GROUP], [0; GROUP]);
        let mut starts = 0;
        let mut last_start = 0;
        for (i, &gap) in gaps.iter().enumerate().filter(|(i, gap)| **gap > 0 || (*i == 0 && before.is_none()))
        {
            left_out[starts] = gap.saturating_sub(1);
            if starts > 0 {
                lengths[starts - 1] = (i - last_start - 1) as u64;
            }
            last_start = i;
            starts += 1;
        }
        self.ranges += scale * starts as f64;
        if starts == ids.len() {
            // Each id is a range, and the lengths take a bit.
            self.range_bytes += scale * (group_bytes(gaps) + starts as f64 / 8.0);
        } else if starts > 0 {
            // Of the last range only the beginning is here.
            let whole = &lengths[..starts - 1];
            let lengths = match whole.len() {
                0 => number_bytes(ids.len() as f64),
                n => group_bytes(whole) * starts as f64 / n as f64,
            };
            self.range_bytes += scale * (group_bytes(&left_out[..starts]) + lengths);
        }
        let blocks = blocks_of(before, ids);
        let members = ids.len() as f64 / blocks;
        let runs = members * starts as f64 / ids.len() as f64;
        let buckets = changes(before, ids, 32);
        self.blocks += scale * blocks;
        self.roaring += scale * (blocks * container_bytes(members, runs) + buckets * BUCKET_BYTES);
    }

    /// Begins a group behind the id `before`, which stands for `members` ids.
    pub(crate) fn begin(&mut self, before: Option<u64>, members: u64) {
        self.end();
        self.open = Some(Group { before, members, ids: [0; GROUP], len: 0 });
    }

    /// Adds the next ids of the set to the group that was begun, until it is full.
    pub(crate) fn fill(&mut self, from: impl Iterator<Item = u64>) {
        let Some(group) = &mut self.open else { return };
        for (slot, id) in group.ids[group.len..].iter_mut().zip(from) {
            *slot = id;
            group.len += 1;
        }
        if group.len == GROUP {
            self.end();
        }
    }

    /// Whether the group that was begun has room.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    fn end(&mut self) {
        if let Some(group) = self.open.take() {
            self.add(group.before, &group.ids[..group.len], group.members);
        }
    }

    /// The tag for a set that is not empty.
    pub(crate) fn choose(self, known: &Known) -> Tag {
        let [roaring, others @ ..] = self.bodies(known);
        let least = others.into_iter().fold((Tag::Roaring, f64::INFINITY), |least, other| {
            if other.1 < least.1 { other } else { least }
        });
        if roaring.1 <= least.1 * (1.0 + TOLERANCE) { roaring.0 } else { least.0 }
    }

    /// The bytes of the body under each tag, that of roaring first.
    fn bodies(mut self, known: &Known) -> [(Tag, f64); 4] {
        self.end();
        let cardinality = known.cardinality as f64;
        let scale = cardinality / self.ids.max(1.0);
        let head = varint::len(known.cardinality) as f64;
        let ranges = known.ranges.map_or(self.ranges * scale, |ranges| ranges as f64).max(1.0);
        let bytes_of_range = if self.ranges > 0.0 {
            self.range_bytes / self.ranges
        } else {
            // All that was seen is inside of ranges.
            2.0 * number_bytes(cardinality / ranges)
        };
        let mut roaring = known.roaring.unwrap_or(8.0 + self.roaring * scale);
        if cardinality > LONG_RANGE * ranges {
            // All containers hold runs of 32 bits, and ranges take no more: the gap and the
            // length of a range in a block have no more than 30.
            roaring = f64::INFINITY;
        }
        [
            (Tag::Roaring, roaring),
            (Tag::Ranges, head + ranges * bytes_of_range + 2.0 * GROUP_BYTES),
            (Tag::VarintDelta, head + self.varints * scale),
            (Tag::Gaps, head + self.gaps * scale + GROUP_BYTES),
        ]
    }
}

/// Ids of a range on average from which on containers hold runs.
const LONG_RANGE: f64 = 16.0;

/// Bytes of a group beside its numbers: the parameter and, on average, two half bytes.
const GROUP_BYTES: f64 = 1.75;

/// Bytes of some numbers as a part of full groups.
fn group_bytes(numbers: &[u64]) -> f64 {
    rice::size(numbers) as f64 - GROUP_BYTES + GROUP_BYTES * numbers.len() as f64 / GROUP as f64
}

/// Bytes of a number, for want of any: about two bits more than its logarithm.
fn number_bytes(mean: f64) -> f64 {
    (mean.log2().max(0.0) + 2.0) / 8.0
}

/// Blocks that some ids take up, if all around is as dense as they are.
fn blocks_of(before: Option<u64>, ids: &[u64]) -> f64 {
    let span = match ids {
        [first, .., last] => (last - first) as f64 + 1.0,
        _ => 1.0,
    };
    let count = ids.len() as f64;
    (span / BLOCK_IDS as f64).max(count / BLOCK_IDS as f64).min(changes(before, ids, 16).max(1.0))
}

/// How often the upper bits of ids change from one to the next.
fn changes(before: Option<u64>, ids: &[u64], shift: u32) -> f64 {
    let differ = |a: u64, b: u64| a >> shift != b >> shift;
    let first = before.is_none_or(|before| ids.first().is_some_and(|first| differ(before, *first)));
    (ids.windows(2).filter(|pair| differ(pair[0], pair[1])).count() + usize::from(first)) as f64
}

/// Bytes of a container and its fields in the header.
fn container_bytes(ids: f64, runs: f64) -> f64 {
    8.0 + (2.0 * ids).min(BITSET_BYTES as f64).min(2.0 + 4.0 * runs.max(1.0))
}

/// Bytes of a bucket's key and cookie.
const BUCKET_BYTES: f64 = 12.0;

/// The bytes of a roaring body, block by block.
struct RoaringBytes {
    bytes: f64,
    bucket: Option<u64>,
}

impl RoaringBytes {
    /// Those of a body without buckets.
    const NEW: Self = Self { bytes: 8.0, bucket: None };

    /// Adds the container of a block behind all before.
    fn add(&mut self, block: u64, ids: f64, runs: f64) {
        self.bytes += container_bytes(ids, runs);
        let bucket = block / BUCKET_BLOCKS;
        if self.bucket.replace(bucket) != Some(bucket) {
            self.bytes += BUCKET_BYTES;
        }
    }
}

/// Ids of a block on average from which on blocks are counted, not estimated: that costs little beside
/// writing so many.
const COUNTED_BLOCK: f64 = 512.0;

/// Bytes of the roaring body of ids of which many share a block.
fn dense_roaring_bytes(ids: &[u64], runs_of_id: f64) -> f64 {
    let mut body = RoaringBytes::NEW;
    let mut rest = ids;
    while let Some(first) = rest.first() {
        let block = first / BLOCK_IDS;
        // The last id of the block is looked for in steps that double.
        let mut step = 64;
        while rest.get(step).is_some_and(|id| id / BLOCK_IDS == block) {
            step *= 2;
        }
        let members = rest[..step.min(rest.len())].partition_point(|id| id / BLOCK_IDS == block);
        body.add(block, members as f64, members as f64 * runs_of_id);
        rest = &rest[members..];
    }
    body.bytes
}

/// The tag for increasing ids.
pub(crate) fn for_ids(ids: &[u64]) -> Tag {
    let (sample, known) = of_ids(ids);
    sample.choose(&known)
}

fn of_ids(ids: &[u64]) -> (Sample, Known) {
    let mut sample = Sample::default();
    let groups = ids.len().div_ceil(GROUP);
    let step = groups.div_ceil(usize::try_from(groups_of(ids.len() as u64)).unwrap_or(1)).max(1);
    for (i, group) in ids.chunks(GROUP).enumerate().step_by(step) {
        let before = (i * GROUP).checked_sub(1).and_then(|at| ids.get(at)).copied();
        sample.add(before, group, group.len() as u64);
    }
    let mut known = Known { cardinality: ids.len() as u64, ranges: None, roaring: None };
    if sample.ids > COUNTED_BLOCK * sample.blocks {
        known.roaring = Some(dense_roaring_bytes(ids, sample.ranges / sample.ids));
    }
    (sample, known)
}

/// The tag for a set that has one.
pub(crate) fn for_view(view: &View<'_>) -> Tag {
    if view.is_empty() {
        return Tag::Empty;
    }
    let mut known = Known { cardinality: view.cardinality(), ranges: None, roaring: None };
    let mut sample = Sample::default();
    let mut before = None;
    if let Some(list) = view.as_list() {
        let mut groups = list.groups();
        for i in 0.. {
            let Some(ids) = groups.next() else { break };
            if is_sampled(i, known.cardinality) {
                sample.add(before, ids, ids.len() as u64);
            }
            before = ids.last().copied();
        }
    } else if let Some(ranges) = view.as_ranges() {
        known.ranges = Some(ranges.count());
        if known.cardinality / BLOCK_IDS <= ranges.count() {
            known.roaring = Some(roaring_bytes(view));
        }
        let mut groups = ranges.groups();
        for i in 0.. {
            let Some(group) = groups.next() else { break };
            if is_sampled(i, ranges.count()) {
                let members = group.iter().map(|range| range.len()).sum();
                sample.begin(before, members);
                sample.fill(group.iter().flat_map(|range| range.first..=range.last));
            }
            before = group.last().map(|range| range.last);
        }
    } else if let Some(roaring) = view.as_roaring() {
        let containers: Vec<_> =
            roaring.containers().map(|container| container.counted(roaring.bytes)).collect();
        return for_containers(&containers, roaring.bytes);
    }
    sample.choose(&known)
}

/// The tag for the ids of containers whose runs were counted, and which stand in `bytes`.
pub(crate) fn for_containers(containers: &[Container], bytes: &[u8]) -> Tag {
    let known = Known::of(containers);
    known.tag().unwrap_or_else(|| of_containers(containers, bytes).choose(&known))
}

fn of_containers(containers: &[Container], bytes: &[u8]) -> Sample {
    let mut sample = Sample::default();
    let ids_of = |container: &Container, rank| {
        let base = container.block() * BLOCK_IDS;
        container.contents(bytes).offsets_behind(rank).map(move |offset| base + offset)
    };
    for (i, rank, members) in sampled(containers) {
        let mut ids = ids_of(&containers[i], rank.saturating_sub(1));
        let before = match i.checked_sub(1).map(|i| &containers[i]) {
            _ if rank > 0 => ids.next(),
            before => before.map(|before| before.block() * BLOCK_IDS + before.contents(bytes).last()),
        };
        sample.begin(before, members);
        sample.fill(ids);
        for container in &containers[i + 1..] {
            if !sample.is_open() {
                break;
            }
            sample.fill(ids_of(container, 0));
        }
    }
    sample
}

/// Bytes of the roaring body of a set whose runs are known.
fn roaring_bytes(view: &View<'_>) -> f64 {
    let (mut blocks, mut scratch) = (view.blocks(), Scratch::NEW);
    let mut body = RoaringBytes::NEW;
    while let Some(block) = blocks.next(&mut scratch) {
        let runs = match block.contents {
            Contents::Runs(runs) => runs.len() as f64,
            Contents::Array(_) | Contents::Bitset(_) => f64::INFINITY,
        };
        body.add(block.key, block.cardinality as f64, runs);
    }
    body.bytes
}

/// Whether the `i`th group of some with `members` in all is worth a look.
fn is_sampled(i: u64, members: u64) -> bool {
    i.is_multiple_of(members.div_ceil(groups_of(members) * GROUP as u64).max(1))
}

/// Groups of a set that are worth a look: the container that each begins in, the number of ids before it there,
/// and the number of ids that it stands for.
pub(crate) fn sampled(containers: &[Container]) -> impl Iterator<Item = (usize, u64, u64)> {
    let total: u64 = containers.iter().map(Container::cardinality).sum();
    let members = total.div_ceil(groups_of(total)).max(GROUP as u64);
    let (mut next, mut before) = (0, 0);
    containers.iter().enumerate().flat_map(move |(i, container)| {
        let start = before;
        before += container.cardinality();
        let first = next;
        next += (before.max(next) - next).div_ceil(members) * members;
        (first..before)
            .step_by(usize::try_from(members).unwrap_or(usize::MAX))
            .map(move |place| (i, place - start, members.min(total - place)))
    })
}

#[cfg(test)]
mod tests;
