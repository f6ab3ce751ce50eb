//! Sets that few bytes stand for, and places that are easily missed.

use basalt_sip::{BLOCK_WORDS, BlockMask, Limits, Sip, Tag, View, deletion_vector};

/// A set with an index and a view of its bare bytes go on alike, forwards alone.
#[test]
fn masks_never_go_back() {
    let ids: Vec<u64> = (0..1000).map(|i| i * 70_000).collect();
    for tag in [Tag::Roaring, Tag::VarintDelta, Tag::Ranges, Tag::Gaps] {
        let sip = Sip::from_sorted_ids_as(tag, &ids);
        let bare = View::open(sip.as_bytes(), &Limits::default()).unwrap();
        for view in [sip.view(), bare] {
            let mut words = [0; BLOCK_WORDS];
            let mut masks = view.masks();
            masks.skip_to(u64::MAX);
            masks.skip_to(70_000);
            assert_eq!(masks.next(&mut words), None, "{tag}");
            let mut masks = view.masks();
            let mut blocks = 0;
            while let Some((base, _)) = masks.next(&mut words) {
                masks.skip_to(base);
                blocks += 1;
            }
            masks.skip_to(0);
            assert_eq!((blocks, masks.next(&mut words)), (1000, None), "{tag}");
        }
    }
}

#[test]
fn a_block_is_named_by_any_of_its_ids() {
    for tag in [Tag::Roaring, Tag::VarintDelta, Tag::Ranges, Tag::Gaps] {
        let sip = Sip::from_sorted_ids_as(tag, &[70_000]);
        let mut words = [7; BLOCK_WORDS];
        assert_eq!(sip.block_mask(70_001, &mut words), BlockMask::Words, "{tag}");
        assert_eq!(words[(70_000 - 65_536) / 64], 1 << (70_000 % 64), "{tag}");
    }
}

/// What takes a block at a time would need 2^48 of them here.
#[test]
fn all_ids_but_some() {
    let all = Sip::from_ranges([0..=u64::MAX]);
    let some = [0, 5, 65_535, 65_536, 1 << 40, u64::MAX - 1];
    for tag in [Tag::Roaring, Tag::VarintDelta, Tag::Ranges, Tag::Gaps] {
        let some = Sip::from_sorted_ids_as(tag, &some);
        let others = all.difference(&some);
        assert_eq!(others.cardinality(), u64::MAX - 5, "{tag}");
        assert_eq!((others.first(), others.last()), (Some(1), Some(u64::MAX)), "{tag}");
        assert!(others.intersection(&some).is_empty(), "{tag}");
        assert_eq!(others.union(&some), all, "{tag}");
        assert_eq!(all.intersection(&some).to_tag(tag), some, "{tag}");
    }
    let error = deletion_vector::write(&Sip::from_ranges([0..=i64::MAX as u64]).view()).unwrap_err();
    assert_eq!(error, deletion_vector::DeletionVectorError::TooLong { bytes: 10 << 47 });
}

/// The blocks behind the first look different.
#[test]
fn the_smallest_tag_is_judged_from_everywhere() {
    let mut ids: Vec<u64> = (0..65_536).step_by(2).collect();
    ids.extend(65_536..1 << 22);
    let ranges = Sip::from_sorted_ids_as(Tag::Ranges, &ids);
    let smallest = Sip::from_sorted_ids_as(Tag::Roaring, &ids).to_smallest();
    assert!(smallest.as_bytes().len() <= ranges.as_bytes().len(), "{smallest:?}, {ranges:?}");
}

#[test]
fn the_greatest_id_is_an_id() {
    for tag in [Tag::Roaring, Tag::VarintDelta, Tag::Ranges, Tag::Gaps] {
        let ids = [0, u64::MAX - 1, u64::MAX];
        let sip = Sip::from_sorted_ids_as(tag, &ids);
        assert_eq!(sip.iter().collect::<Vec<_>>(), ids, "{tag}");
        assert_eq!(sip.iter().size_hint().0, 3, "{tag}");
        assert_eq!((sip.rank(u64::MAX), sip.rank(u64::MAX - 2)), (3, 1), "{tag}");
        assert_eq!(sip.next_at_or_after(1), Some(u64::MAX - 1), "{tag}");
    }
}

/// What is held grows with the bytes, and by all ids or ranges where those are few.
#[test]
fn what_is_held_is_counted() {
    for tag in [Tag::Roaring, Tag::VarintDelta, Tag::Ranges, Tag::Gaps] {
        let held = |count| {
            let ids: Vec<u64> = (0..count).map(|i| i << 33).collect();
            let sip = Sip::from_bytes(Sip::from_sorted_ids_as(tag, &ids).as_bytes(), &Limits::NONE).unwrap();
            let beside = sip.heap_bytes() - sip.as_bytes().len();
            (beside, ids.len())
        };
        let ((few, n), (many, m)) = (held(2000), held(5000));
        match tag {
            // A place for each id, which has a bucket of its own, and a count for some.
            Tag::Roaring => assert!(few >= 16 * n && few < 17 * n && many >= 16 * m && many < 17 * m),
            Tag::Ranges => assert!(few >= 24 * n && few < 27 * n && many < m, "{few}, {many}"),
            _ => assert!(few >= 8 * n && few < 9 * n && many < m, "{tag}: {few}, {many}"),
        }
    }
    assert_eq!(Sip::empty().heap_bytes(), 1);
}
