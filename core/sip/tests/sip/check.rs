//! That a set answers as a list of its ids does.

use basalt_sip::{BLOCK_IDS, BLOCK_WORDS, BlockMask, Limits, Sip, View};

/// Every answer of a set with an index, and of its bare bytes, against its increasing `ids`.
pub(crate) fn check(sip: &Sip, ids: &[u64]) {
    check_view(&sip.view(), ids, 30);
    // Each look-up walks there from the start.
    let bare = View::open(sip.as_bytes(), &Limits::NONE).unwrap();
    check_view(&bare, ids, if ids.len() < 5000 { 30 } else { 3 });
}

/// Looks up about as many ids as `samples`, and what is beside them.
fn check_view(sip: &View<'_>, ids: &[u64], samples: usize) {
    assert_eq!(sip.cardinality(), ids.len() as u64);
    assert!(sip.iter().eq(ids.iter().copied()));
    assert_eq!((sip.first(), sip.last()), (ids.first().copied(), ids.last().copied()));
    let near = |id: &u64| [id.saturating_sub(1), *id, id.saturating_add(1)];
    let sample = || ids.iter().step_by(ids.len() / samples + 1).chain(ids.last());
    for id in sample().flat_map(near).chain([0, u64::MAX]) {
        assert_eq!(sip.contains(id), ids.binary_search(&id).is_ok(), "{id}");
        assert_eq!(sip.rank(id), ids.partition_point(|x| *x <= id) as u64, "{id}");
        let at = ids.partition_point(|x| *x < id);
        assert_eq!(sip.next_at_or_after(id), ids.get(at).copied(), "{id}");
    }
    let mut words = [0xdead_beef; BLOCK_WORDS];
    let mut blocks: Vec<u64> = sample().flat_map(near).map(|id| id - id % BLOCK_IDS).collect();
    blocks.dedup();
    for base in blocks {
        let mask = sip.block_mask(base, &mut words);
        check_mask(mask, &words, &words_of(base, ids));
    }
    let mut masks = sip.masks();
    for block in ids.chunk_by(|a, b| a / BLOCK_IDS == b / BLOCK_IDS).take(50) {
        let base = block[0] - block[0] % BLOCK_IDS;
        let (found, mask) = masks.next(&mut words).unwrap();
        assert_eq!(found, base);
        assert_ne!(mask, BlockMask::Empty);
        check_mask(mask, &words, &words_of(base, block));
    }
}

/// The words of the block at `base`.
pub(crate) fn words_of(base: u64, ids: &[u64]) -> [u64; BLOCK_WORDS] {
    let mut words = [0; BLOCK_WORDS];
    let from = ids.partition_point(|id| *id < base);
    for id in ids[from..].iter().take_while(|id| *id - base < BLOCK_IDS) {
        words[usize::try_from((id - base) / 64).unwrap()] |= 1 << (id % 64);
    }
    words
}

fn check_mask(mask: BlockMask, words: &[u64; BLOCK_WORDS], expected: &[u64; BLOCK_WORDS]) {
    match mask {
        BlockMask::Empty => assert!(expected.iter().all(|&word| word == 0)),
        BlockMask::Full => assert!(expected.iter().all(|&word| word == u64::MAX)),
        BlockMask::Words => {
            assert!(words == expected);
            assert!(words.iter().any(|&word| word != 0) && words.iter().any(|&word| word != u64::MAX));
        }
    }
}
