//! Random sets, built in every way, against a `BTreeSet`.

use std::collections::BTreeSet;

use basalt_sip::{BLOCK_IDS, BLOCK_WORDS, BlockMask, Builder, Limits, Sip};
use proptest::{collection::vec, prelude::*};

use crate::{naive, shapes};

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

fn ids_of(push: &Push) -> Box<dyn Iterator<Item = u64> + '_> {
    match push {
        Push::Words(base, words) => Box::new(words.iter().enumerate().flat_map(move |(i, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| base + i as u64 * 64 + bit)
        })),
        Push::Range(start, end) => Box::new(*start..*end),
    }
}

fn build(pushes: &[Push]) -> Sip {
    let mut builder = Builder::new();
    for push in pushes {
        match push {
            Push::Words(base, words) => builder.push_words(*base, words),
            Push::Range(start, end) => builder.push_range(*start, *end),
        }
    }
    builder.finish()
}

/// That `sip` answers as `ids` do.
fn check(sip: &Sip, ids: &BTreeSet<u64>) {
    assert_eq!(sip.cardinality(), ids.len() as u64);
    assert!(sip.iter().eq(ids.iter().copied()));
    let near = |id: &u64| [id.saturating_sub(1), *id, id.saturating_add(1)];
    for id in ids.iter().step_by(ids.len() / 100 + 1).flat_map(near).chain([0, u64::MAX]) {
        assert_eq!(sip.contains(id), ids.contains(&id), "{id}");
    }
    let blocks: BTreeSet<u64> = ids.iter().flat_map(near).map(|id| id - id % BLOCK_IDS).collect();
    for base in blocks {
        let mut expected = [0_u64; BLOCK_WORDS];
        for id in ids.range(base..=base + (BLOCK_IDS - 1)) {
            expected[usize::try_from((id - base) / 64).unwrap()] |= 1 << (id % 64);
        }
        let mut words = [0xdead_beef; BLOCK_WORDS];
        match sip.block_mask(base, &mut words) {
            BlockMask::Empty => assert!(expected.iter().all(|&word| word == 0)),
            BlockMask::Full => assert!(expected.iter().all(|&word| word == u64::MAX)),
            BlockMask::Words => {
                assert!(words == expected);
                assert!(words.iter().any(|&word| word != 0) && words.iter().any(|&word| word != u64::MAX));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn builders_make_the_set_of_what_was_pushed(pushes in vec(push(), 0..6)) {
        let ids: BTreeSet<u64> = pushes.iter().flat_map(ids_of).collect();
        let sip = build(&pushes);
        check(&sip, &ids);
        prop_assert_eq!(sip.as_bytes(), naive::rewrite(&sip));
        let list: Vec<u64> = ids.into_iter().collect();
        prop_assert_eq!(&Sip::from_sorted_ids(&list), &sip);
        prop_assert_eq!(&Sip::from_bytes(sip.as_bytes(), &Limits::NONE).unwrap(), &sip);
    }

    #[test]
    fn random_bytes_are_no_sip_unless_canonical(tag in 0..4_u8, body in vec(any::<u8>(), 0..64)) {
        let bytes: Vec<u8> = [tag].into_iter().chain(body).collect();
        if let Ok(sip) = Sip::from_bytes(bytes.as_slice(), &Limits::default()) {
            prop_assert_eq!(naive::rewrite(&sip), bytes);
        }
    }
}

#[test]
fn both_tags_answer_alike_for_every_shape() {
    for (_, ids) in shapes::all().into_iter().filter(|(_, ids)| !ids.is_empty()) {
        let set = ids.iter().copied().collect();
        for bytes in naive::TAGS.map(|tag| naive::write(tag, &ids)) {
            check(&Sip::from_bytes(bytes, &Limits::default()).unwrap(), &set);
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
        format!("{:?}", Sip::from_sorted_ids(&[123_456_789])),
        "Sip { tag: VarintDelta, cardinality: 1, bytes: 6 }"
    );
}
