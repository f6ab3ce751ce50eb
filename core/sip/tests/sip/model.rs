//! Random sets, made in every way, against a `BTreeSet`.

use std::{collections::BTreeSet, ops::RangeInclusive};

use basalt_sip::{BLOCK_IDS, BLOCK_WORDS, Builder, Limits, Sip, Tag};
use proptest::{collection::vec, prelude::*};

use crate::{
    check::{check, words_of},
    naive::{self, ranges_of},
    shapes,
};

/// Something pushed into a builder.
#[derive(Clone, Debug)]
enum Push {
    Words(u64, Vec<u64>),
    Range(u64, u64),
}

/// A few blocks: neighbours in a bucket, neighbours over its edge, and the last one.
fn base() -> impl Strategy<Value = u64> {
    let last = u64::MAX / BLOCK_IDS;
    prop_oneof![0..4_u64, 65_534..65_540_u64, last - 1..=last].prop_map(|block| block * BLOCK_IDS)
}

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0_u64), 2 => Just(u64::MAX), 1 => any::<u64>(), 1 => (0..64).prop_map(|bit| 1_u64 << bit)]
}

fn push() -> impl Strategy<Value = Push> {
    let few = vec(word(), 0..8);
    let many = vec(word(), BLOCK_WORDS - 1..=BLOCK_WORDS);
    let words = (base(), prop_oneof![few, many]).prop_map(|(base, words)| Push::Words(base, words));
    let length = prop_oneof![0..300_u64, 60_000..140_000_u64];
    let range = (base(), 0..BLOCK_IDS, length).prop_map(|(base, offset, length)| {
        Push::Range(base + offset, (base + offset).saturating_add(length))
    });
    prop_oneof![words, range]
}

/// Ids that are near one another, or far.
fn ids() -> impl Strategy<Value = BTreeSet<u64>> {
    let near = (base(), vec((0..300_u64, 1..40_u64), 0..200)).prop_map(|(base, ranges)| {
        let mut next = base.min(u64::MAX - BLOCK_IDS);
        let ranges = ranges.into_iter().flat_map(|(gap, length)| {
            let start = next + gap;
            next = start + length;
            start..next
        });
        ranges.collect::<BTreeSet<u64>>()
    });
    let far = vec((any::<u64>(), 0..64_u32).prop_map(|(id, shift)| id >> shift), 0..300)
        .prop_map(BTreeSet::from_iter);
    prop_oneof![near, far]
}

fn tag() -> impl Strategy<Value = Tag> {
    prop::sample::select(&Tag::ALL[..])
}

fn ids_of(push: &Push) -> Box<dyn Iterator<Item = u64> + '_> {
    match push {
        Push::Words(base, words) => Box::new(words.iter().enumerate().flat_map(move |(i, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| base + i as u64 * 64 + bit)
        })),
        Push::Range(start, end) => Box::new(*start..*end),
    }
}

fn build(pushes: &[Push]) -> Builder {
    let mut builder = Builder::new();
    for push in pushes {
        match push {
            Push::Words(base, words) => builder.push_words(*base, words),
            Push::Range(start, end) => builder.push_range(*start, *end),
        }
    }
    builder
}

fn make(tag: Tag, ids: &BTreeSet<u64>) -> Sip {
    Sip::from_sorted_ids_as(tag, &list(ids))
}

fn list(ids: &BTreeSet<u64>) -> Vec<u64> {
    ids.iter().copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn builders_make_the_set_of_what_was_pushed(pushes in vec(push(), 0..6), tag in tag()) {
        let ids: BTreeSet<u64> = pushes.iter().flat_map(ids_of).collect();
        let sip = build(&pushes).finish();
        check(&sip, &list(&ids));
        prop_assert_eq!(sip.as_bytes(), naive::rewrite(&sip));
        prop_assert_eq!(&Sip::from_bytes(sip.as_bytes(), &Limits::NONE).unwrap(), &sip);
        let tagged = build(&pushes).finish_as(tag);
        prop_assert_eq!(&tagged, &make(tag, &ids));
        prop_assert_eq!(tagged.to_tag(sip.tag()), sip);
    }

    #[test]
    fn ids_ranges_and_masks_make_the_same_set(ids in ids(), tag in tag(), turned in any::<bool>()) {
        let sip = make(tag, &ids);
        check(&sip, &list(&ids));
        prop_assert_eq!(sip.as_bytes(), naive::rewrite(&sip));
        let mut list = list(&ids);
        let bases: BTreeSet<u64> = ids.iter().map(|id| id - id % BLOCK_IDS).collect();
        let masks: Vec<_> = bases.into_iter().map(|base| (base, words_of(base, &list))).collect();
        let mut ranges: Vec<RangeInclusive<u64>> =
            ranges_of(&list).into_iter().map(|(first, last)| first..=last).collect();
        if turned {
            ranges.reverse();
            list.reverse();
        }
        prop_assert_eq!(Sip::from_ids(list).to_tag(tag), sip.clone());
        prop_assert_eq!(Sip::from_ranges(ranges).to_tag(tag), sip.clone());
        let masks = masks.iter().map(|(base, words)| (*base, words.as_slice()));
        prop_assert_eq!(&Sip::from_masks_as(tag, masks.clone()), &sip);
        prop_assert_eq!(Sip::from_masks(masks).to_tag(tag), sip);
    }

    #[test]
    fn set_operations_do_what_they_say(a in ids(), mut b in ids(), tags in (tag(), tag()), step in 1..4_usize) {
        // Some ids of the one are in the other.
        b.extend(a.iter().step_by(step));
        let (x, y) = (make(tags.0, &a), make(tags.1, &b));
        let set = |sip: Sip| {
            assert_eq!(sip.as_bytes(), naive::rewrite(&sip));
            sip.iter().collect::<BTreeSet<u64>>()
        };
        prop_assert_eq!(set(x.intersection(&y)), &a & &b);
        prop_assert_eq!(set(x.union(&y)), &a | &b);
        prop_assert_eq!(set(x.difference(&y)), &a - &b);
        prop_assert_eq!(set(y.difference(&x)), &b - &a);
        prop_assert_eq!(set(Sip::union_all([&x, &y, &x])), &a | &b);
    }

    #[test]
    fn random_bytes_are_no_sip_unless_canonical(tag in 0..6_u8, body in vec(any::<u8>(), 0..64)) {
        let bytes: Vec<u8> = [tag].into_iter().chain(body).collect();
        let limits = Limits { cardinality: 100_000, ..Limits::default() };
        if let Ok(sip) = Sip::from_bytes(bytes.as_slice(), &limits) {
            prop_assert_eq!(naive::rewrite(&sip), bytes);
        }
    }
}

#[test]
fn all_tags_answer_alike_for_every_shape() {
    for (_, ids) in shapes::all().into_iter().filter(|(_, ids)| !ids.is_empty()) {
        for bytes in naive::TAGS.map(|tag| naive::write(tag, &ids)) {
            check(&Sip::from_bytes(bytes, &Limits::default()).unwrap(), &ids);
        }
    }
}

#[test]
fn ids_in_any_order_make_the_same_set() {
    let sip = Sip::from_sorted_ids(&[7, 3, 3, 1 << 40, 0]);
    assert_eq!(sip, Sip::from_sorted_ids(&[0, 3, 7, 1 << 40]));
    assert_eq!(sip.iter().collect::<Vec<_>>(), [0, 3, 7, 1 << 40]);
}

#[test]
fn debug_shows_no_ids() {
    assert_eq!(
        format!("{:?}", Sip::from_sorted_ids_as(Tag::VarintDelta, &[123_456_789])),
        "Sip { tag: VarintDelta, cardinality: 1, bytes: 6 }"
    );
    assert_eq!(format!("{:?}", Sip::from_sorted_ids(&[123_456_789]).view().masks()), "Masks { .. }");
}

#[test]
fn sets_are_equal_where_their_bytes_are() {
    let ids = [1, 5, 70_000];
    let sip = Sip::from_sorted_ids_as(Tag::Gaps, &ids);
    let others = [Sip::from_sorted_ids_as(Tag::Gaps, &ids[..2]), Sip::from_sorted_ids_as(Tag::Roaring, &ids)];
    for other in others {
        assert!(sip != other && sip.view() != other.view(), "{sip:?}, {other:?}");
    }
    assert!(sip == sip.to_tag(Tag::Roaring).to_tag(Tag::Gaps) && sip.view() == sip.view());
}
