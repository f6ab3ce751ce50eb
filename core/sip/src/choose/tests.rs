//! Estimates against what is written: a set chosen wrongly is a right set nevertheless, and no other test sees it.

use super::*;
use crate::Sip;

/// Ids that leave out so many in turn, and stand in runs of so many.
fn spaced(runs: usize, left_out: &[u64], lengths: &[u64]) -> Vec<u64> {
    let mut next = 0;
    let runs = left_out.iter().cycle().zip(lengths.iter().cycle()).take(runs);
    let ids = runs.flat_map(|(left_out, length)| {
        let start = next + left_out;
        next = start + length;
        start..next
    });
    ids.collect()
}

fn known(cardinality: u64) -> Known {
    Known { cardinality, ranges: None, roaring: None }
}

/// What the first `part` groups of the ids say about all of them.
fn sample(ids: &[u64], part: usize) -> Sample {
    let mut sample = Sample::default();
    let mut before = None;
    for group in ids.chunks(GROUP).take(part) {
        sample.add(before, group, group.len() as u64);
        before = group.last().copied();
    }
    sample
}

/// Bytes of a body, written.
fn written(tag: Tag, ids: &[u64]) -> f64 {
    Sip::from_sorted_ids_as(tag, ids).as_bytes().len() as f64 - 1.0
}

#[track_caller]
fn check(what: &str, estimate: f64, written: f64, share: f64, bytes: f64) {
    let off = (estimate - written).abs();
    assert!(off <= written * share + bytes, "{what}: {estimate:.1} bytes estimated, {written} written");
}

/// Ids that are spread over blocks, so that what a part of one takes up is known as well.
fn sets() -> [(&'static str, Vec<u64>); 6] {
    [
        ("one id in a few blocks", spaced(1100, &[(1 << 18) + 91, (3 << 16) + 17, (1 << 17) + 5], &[1])),
        ("one id in many blocks", spaced(500, &[(1 << 40) + 7, (3 << 38) + 11, (1 << 39) + 13], &[1])),
        ("some ids in each block", spaced(1000, &[901, 3007, 4099], &[1])),
        ("pairs", spaced(300, &[507, 2909, 1703], &[2])),
        ("runs of all lengths", spaced(250, &[1111, 919, 7001, 20_011], &[1, 8, 2, 3, 1])),
        ("a few far ones", spaced(1000, &[4, 3, 4, 5, 4, 6, 4, 3 << 30], &[1])),
    ]
}

#[test]
fn what_is_looked_at_whole_is_known_to_a_few_bytes() {
    for (name, ids) in sets() {
        for (tag, bytes) in sample(&ids, usize::MAX).bodies(&known(ids.len() as u64)) {
            let (share, least) = match tag {
                Tag::VarintDelta => (0.0, 0.1),
                Tag::Gaps => (0.0, 3.0),
                Tag::Ranges => (0.07, 6.0),
                _ => (0.02, 20.0),
            };
            check(&format!("{name}, {tag}"), bytes, written(tag, &ids), share, least);
        }
    }
}

#[test]
fn a_part_stands_for_all() {
    for (name, ids) in sets() {
        for (tag, bytes) in sample(&ids, 2).bodies(&known(ids.len() as u64)) {
            check(&format!("{name}, {tag}"), bytes, written(tag, &ids), 0.1, 30.0);
        }
    }
}

#[test]
fn groups_inside_of_ranges_leave_the_lengths_to_their_mean() {
    let ids = spaced(60, &[4000], &[4000]);
    let mut sample = Sample::default();
    sample.add(Some(4000), &ids[1..=GROUP], GROUP as u64);
    let known = Known { ranges: Some(60), ..known(ids.len() as u64) };
    let [_, (tag, bytes), ..] = sample.bodies(&known);
    check("ranges", bytes, written(tag, &ids), 0.12, 0.0);
    assert_eq!([0.5, 1.0, 2.0, 1024.0].map(number_bytes), [0.25, 0.25, 0.375, 1.5]);
}

#[test]
fn long_ranges_are_none_of_roaring() {
    let roaring = |cardinality, ranges| {
        let known = Known { cardinality, ranges: Some(ranges), roaring: Some(1.0) };
        Sample::default().bodies(&known)[0].1
    };
    assert_eq!((roaring(1600, 100), roaring(1601, 100)), (1.0, f64::INFINITY));
    let tag = |cardinality| Known { cardinality, ranges: Some(10), roaring: None }.tag();
    assert_eq!((tag(800), tag(801), known(u64::MAX).tag()), (None, Some(Tag::Ranges), None));
}

/// A little is given for roaring, and of the others the smallest is taken.
#[test]
fn the_smallest_is_chosen_but_for_the_tolerance() {
    let ids = spaced(1000, &[901, 3007, 4099], &[1]);
    let others = sample(&ids, usize::MAX).bodies(&known(1000));
    let least = others[1..].iter().map(|(_, bytes)| *bytes).fold(f64::INFINITY, f64::min);
    for (share, tag) in [(0.5, Tag::Roaring), (1.02, Tag::Roaring), (1.04, Tag::Gaps), (2.0, Tag::Gaps)] {
        let known = Known { roaring: Some(least * share), ..known(1000) };
        assert_eq!(sample(&ids, usize::MAX).choose(&known), tag, "{share}");
    }
}

#[test]
fn blocks_that_are_counted_are_known_to_the_byte() {
    let arrays: Vec<u64> =
        (0..3).flat_map(|i| spaced(1500, &[40], &[1]).into_iter().map(move |id| (i << 32) + id)).collect();
    let bitsets = spaced(20_000, &[6, 5], &[1]);
    for ids in [&arrays, &bitsets, &vec![7], &(0..100).map(|i| i << 16).collect()] {
        assert_eq!(dense_roaring_bytes(ids, 1.0), written(Tag::Roaring, ids));
        let view = Sip::from_sorted_ids_as(Tag::Gaps, ids);
        assert_eq!(roaring_bytes(&view.view()), written(Tag::Roaring, ids));
    }
    // A bucket with runs begins with flags in place of a count.
    let runs: Vec<u64> = (0..300).flat_map(|i| i * 1000..i * 1000 + 70).collect();
    let written = written(Tag::Roaring, &runs);
    check("runs", dense_roaring_bytes(&runs, 1.0 / 70.0), written, 0.0, 16.0);
    check("runs", roaring_bytes(&Sip::from_sorted_ids_as(Tag::Ranges, &runs).view()), written, 0.0, 8.0);
}

/// Of 1,024 ids nothing is left out, wherever they come from.
#[test]
fn every_source_is_looked_at_alike() {
    for (name, ids) in sets() {
        let ids = &ids[..ids.len().min(8 * GROUP)];
        let known = known(ids.len() as u64);
        let expected = sample(ids, usize::MAX).bodies(&known);
        assert_eq!(of_ids(ids).0.bodies(&known), expected, "{name}");
        let roaring = Sip::from_sorted_ids_as(Tag::Roaring, ids);
        let containers: Vec<_> = roaring.view().as_roaring().unwrap().containers().collect();
        let mut found = of_containers(&containers, roaring.as_bytes());
        found.end();
        for ((tag, found), (_, expected)) in found.bodies(&known).into_iter().zip(expected) {
            check(&format!("{name}, {tag}"), found, expected, 0.001, 0.0);
        }
    }
    let dense: Vec<u64> = (0..300).flat_map(|i| i * 1000..i * 1000 + 70).collect();
    let (_, known) = of_ids(&dense);
    check("dense ids", known.roaring.unwrap(), written(Tag::Roaring, &dense), 0.02, 20.0);
    assert!(of_ids(&spaced(1000, &[1 << 30], &[1])).1.roaring.is_none());
}

#[test]
fn density_is_that_of_the_ids_themselves() {
    let part = |blocks: f64| blocks * BLOCK_IDS as f64;
    assert_eq!(part(blocks_of(Some(9), &[10])), 1.0);
    assert_eq!(part(blocks_of(Some(9), &[10, 20, 1033])), 1024.0);
    assert_eq!(blocks_of(Some(9), &[10, 1 << 20, 1 << 40]), 2.0);
    assert_eq!(blocks_of(None, &[10, 1 << 20, 1 << 40]), 3.0);
    assert_eq!(
        (changes(None, &[5], 16), changes(Some(4), &[5], 16), changes(Some(4), &[65_536], 16)),
        (1.0, 0.0, 1.0)
    );
    assert_eq!(changes(Some(0), &[1 << 31, 1 << 32, 3 << 32, (3 << 32) + 1], 32), 2.0);
    assert_eq!(container_bytes(100.0, 100.0), 208.0);
    assert_eq!((container_bytes(100.0, 2.0), container_bytes(9000.0, 9000.0)), (18.0, 8200.0));
}

#[test]
fn a_group_is_filled_from_many_sources() {
    let ids = spaced(GROUP, &[901, 3007, 4099], &[1]);
    let mut whole = Sample::default();
    whole.add(Some(3), &ids, 500);
    let mut parts = Sample::default();
    parts.begin(Some(3), 500);
    for part in ids.chunks(50) {
        assert!(parts.is_open());
        parts.fill(part.iter().copied());
    }
    assert!(!parts.is_open());
    parts.fill([u64::MAX].into_iter());
    let known = known(5000);
    assert_eq!(parts.bodies(&known), whole.bodies(&known));
}

#[test]
fn groups_are_looked_at_evenly() {
    assert_eq!([0, 1 << 14, 1 << 15, 1 << 16, u64::MAX].map(groups_of), [8, 8, 16, 32, 32]);
    for members in [1_u64, 128, 1024, 1025, 3000, 1 << 15, 100_000, 10_000_000] {
        let groups = members.div_ceil(GROUP as u64);
        let looked_at = (0..groups).filter(|i| is_sampled(*i, members)).count() as u64;
        let most = groups_of(members).min(groups);
        assert!((most.div_ceil(2)..=most).contains(&looked_at), "{looked_at} of {groups} groups");
    }
    for counts in [&[1][..], &[1024], &[1025, 7], &[3, 5000, 1, 1, 60_000, 2, 4000], &[65_536; 9]] {
        let mut bytes = Vec::new();
        let make = |(block, count): (u64, &u64)| roaring::encode_words(block, &mask_of(*count), &mut bytes);
        let containers: Vec<Container> = (0..).zip(counts).filter_map(make).collect();
        let total: u64 = counts.iter().sum();
        let samples: Vec<_> = sampled(&containers).collect();
        assert_eq!(samples.iter().map(|(.., members)| members).sum::<u64>(), total);
        assert!(samples.len() as u64 <= groups_of(total), "{} groups", samples.len());
        let mut place = 0;
        for (i, rank, members) in samples {
            assert_eq!(counts[..i].iter().sum::<u64>() + rank, place);
            assert!(rank < counts[i] && members >= total.min(GROUP as u64).min(total - place));
            place += members;
        }
    }
}

/// The words of so many ids at the beginning of a block.
fn mask_of(count: u64) -> Vec<u64> {
    (0..count.div_ceil(64)).map(|word| u64::MAX >> 64_u64.saturating_sub(count - 64 * word)).collect()
}
