//! From the masks of blocks to a set: one pass to measure them, one to choose the tag, one to write.

use basalt_kernels::mask as kernels;

use crate::{
    BLOCK_IDS, BLOCK_WORDS, Sip, Tag,
    choose::{self, Known, Sample},
    encode,
    list::Codec,
    mask,
    roaring::{self, Container, MAX_ARRAY},
    view::Index,
};

/// The set of the bits of `masks`, the first id of a block and its words, in increasing order; under the tag
/// that is smallest if none is given.
pub(crate) fn encode<'a>(masks: impl Iterator<Item = (u64, &'a [u64])> + Clone, tag: Option<Tag>) -> Sip {
    let mut last = None;
    let mut containers: Vec<Container> = Vec::with_capacity(masks.size_hint().0);
    for (base, words) in masks.clone() {
        assert!(base.is_multiple_of(BLOCK_IDS), "{base} does not begin a block");
        assert!(words.len() <= BLOCK_WORDS, "{} words are more than a block has", words.len());
        assert!(last.replace(base).is_none_or(|last| last < base), "blocks come in increasing order");
        containers.extend(roaring::measure(base / BLOCK_IDS, words));
    }
    if containers.is_empty() {
        return Sip::empty();
    }
    let tag = tag.unwrap_or_else(|| choose_tag(masks.clone(), &containers));
    // Masks without ids have no container.
    let mut next = containers.iter().peekable();
    let filled = masks.filter_map(|(base, words)| {
        let container = next.next_if(|container| container.block() == base / BLOCK_IDS)?;
        Some((container, base, words))
    });
    match tag {
        Tag::Roaring => {
            let cardinality = containers.iter().map(Container::cardinality).sum();
            let mut filled = filled;
            let (bytes, buckets) = roaring::write_with(&containers, |container, out| {
                if let Some((_, _, words)) = filled.next() {
                    roaring::encode_measured(container, words, out);
                }
            });
            let index = Index::roaring(&bytes, buckets);
            Sip::new(bytes, index, cardinality)
        }
        Tag::Ranges => encode::ranges_of(|writer| {
            for (container, base, words) in filled {
                if container.is_full() {
                    writer.push(base, base + (BLOCK_IDS - 1));
                } else {
                    let words = words.iter().copied();
                    mask::for_each_run(words, |first, last| writer.push(base + first, base + last));
                }
            }
        }),
        tag => {
            let mut ids = vec![0; 64 * PART + 64];
            encode::list_of(Codec::of(tag), |writer| {
                for (_, base, words) in filled {
                    for (i, part) in words.chunks(PART).enumerate() {
                        let base = base + (i * PART * 64) as u64;
                        let count = kernels::positions64(part, base, &mut ids);
                        writer.push(&ids[..count]);
                    }
                }
            })
        }
    }
}

/// Words whose ids are listed at once.
const PART: usize = 64;

fn choose_tag<'a>(masks: impl Iterator<Item = (u64, &'a [u64])>, containers: &[Container]) -> Tag {
    let known = Known::of(containers);
    if let Some(tag) = known.tag() {
        return tag;
    }
    let mut sample = Sample::default();
    let mut sampled = choose::sampled(containers).peekable();
    let mut room = vec![0; MAX_ARRAY + 64];
    let mut last = None;
    let mut next = containers.iter().enumerate().peekable();
    for (base, words) in masks {
        let of_block = |(_, container): &(usize, &Container)| container.block() == base / BLOCK_IDS;
        let Some((at, container)) = next.next_if(of_block) else { continue };
        let wanted = sample.is_open() || sampled.peek().is_some_and(|(i, ..)| *i == at);
        // All ids of a block are listed fastest, if there are not too many.
        let listed = wanted && container.cardinality() <= MAX_ARRAY as u64;
        let count = if listed { kernels::positions64(words, base, &mut room) } else { 0 };
        let ids = |rank: u64| {
            let (skipped, rest) = if listed { (words.len(), 0) } else { skip(words, rank) };
            let bits = words.iter().enumerate().skip(skipped).flat_map(|(i, &word)| mask::bits(i, word));
            let list = room[..count].iter().copied().skip(usize::try_from(rank).unwrap_or(usize::MAX));
            list.chain(bits.skip(rest).map(move |offset| base + offset))
        };
        if sample.is_open() {
            sample.fill(ids(0));
        }
        while let Some((_, rank, members)) = sampled.next_if(|(i, ..)| *i == at) {
            let mut ids = ids(rank.saturating_sub(1));
            sample.begin(if rank > 0 { ids.next() } else { last.and_then(last_id) }, members);
            sample.fill(ids);
        }
        last = Some((base, words));
    }
    sample.choose(&known)
}

/// The greatest id of a block.
fn last_id((base, words): (u64, &[u64])) -> Option<u64> {
    let last = words.iter().rposition(|word| *word > 0)?;
    Some(base + last as u64 * 64 + u64::from(words.get(last)?.checked_ilog2()?))
}

/// The words before the one that holds the bit behind the first `rank` ones, and those of them in it.
fn skip(words: &[u64], rank: u64) -> (usize, usize) {
    let (mut at, mut rest, mut left) = (0, words, rank);
    while rest.len() > 1 {
        let (first, second) = rest.split_at(rest.len() / 2);
        let ones = kernels::count_ones(first);
        rest = if ones <= left {
            (at, left) = (at + first.len(), left - ones);
            second
        } else {
            first
        };
    }
    (at, usize::try_from(left).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_found_by_their_rank() {
        let words = [0b1011, 0, u64::MAX, 0, 1 << 63, 0];
        let bits: Vec<_> = words.iter().enumerate().flat_map(|(i, &word)| mask::bits(i, word)).collect();
        for (rank, bit) in bits.iter().enumerate() {
            let (at, rest) = skip(&words, rank as u64);
            let found =
                words.iter().enumerate().skip(at).flat_map(|(i, &word)| mask::bits(i, word)).nth(rest);
            assert_eq!(found, Some(*bit), "{rank}");
            assert!(rest < 64, "{rest} ones are passed one by one");
        }
        assert_eq!(last_id((1 << 16, &words)), Some((1 << 16) + 319));
        assert_eq!(last_id((1 << 16, &words[..2])), Some((1 << 16) + 3));
        assert_eq!(last_id((0, &[0, 0])), None);
    }
}
