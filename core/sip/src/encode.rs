//! From ids, ranges, masks and other tags to a set under a wanted tag.

use crate::{
    BLOCK_IDS, Sip, Tag, View,
    blocks::{Block, Scratch},
    index::Places,
    list::{self, Codec},
    ranges,
    rice::GROUP,
    roaring::{self, Container},
    view::Index,
};

/// The set of increasing ids.
pub(crate) fn ids(ids: &[u64], tag: Tag) -> Sip {
    if ids.is_empty() {
        return Sip::empty();
    }
    match tag {
        Tag::Ranges => ranges_of(|writer| {
            for range in ids.chunk_by(|a, b| b - a == 1) {
                writer.push(range[0], range[range.len() - 1]);
            }
        }),
        Tag::Roaring => {
            let (mut bytes, mut containers) = (Vec::new(), Vec::new());
            for block in ids.chunk_by(|a, b| a / BLOCK_IDS == b / BLOCK_IDS) {
                containers.extend(roaring::encode_ids(block[0] / BLOCK_IDS, block, &mut bytes));
            }
            roaring_of(&containers, &bytes)
        }
        tag => list_of(Codec::of(tag), |writer| writer.push(ids)),
    }
}

/// The set of the blocks that `for_each` hands out in increasing order.
pub(crate) fn blocks(tag: Tag, for_each: impl FnOnce(&mut dyn FnMut(Block<'_>))) -> Sip {
    match tag {
        Tag::Ranges => ranges_of(|writer| for_each(&mut |block| push_runs(writer, block))),
        Tag::Roaring => {
            let (mut bytes, mut containers) = (Vec::new(), Vec::new());
            for_each(&mut |block| {
                containers.extend(roaring::encode_contents(block.key, block.contents, &mut bytes));
            });
            roaring_of(&containers, &bytes)
        }
        tag => list_of(Codec::of(tag), |writer| for_each(&mut |block| push_ids(writer, block))),
    }
}

/// The list that `write` writes.
pub(crate) fn list_of(codec: Codec, write: impl FnOnce(&mut list::Writer)) -> Sip {
    let mut writer = list::Writer::new(codec);
    write(&mut writer);
    let (bytes, index, cardinality) = writer.finish();
    Sip::new(bytes, Index::List(codec, Places::new(index)), cardinality)
}

/// The ranges that `write` writes.
pub(crate) fn ranges_of(write: impl FnOnce(&mut ranges::Writer)) -> Sip {
    let mut writer = ranges::Writer::new();
    write(&mut writer);
    let (bytes, index, cardinality) = writer.finish();
    Sip::new(bytes, Index::Ranges(Places::new(index)), cardinality)
}

/// The roaring set of containers, in the order of their blocks, that stand in `bytes`.
pub(crate) fn roaring_of(containers: &[Container], bytes: &[u8]) -> Sip {
    let cardinality = containers.iter().map(Container::cardinality).sum();
    let (bytes, buckets) = roaring::write(containers, bytes);
    let index = Index::roaring(&bytes, buckets);
    Sip::new(bytes, index, cardinality)
}

fn push_ids(writer: &mut list::Writer, block: Block<'_>) {
    let mut ids = [0; GROUP];
    let mut offsets = block.contents.offsets();
    loop {
        let mut count = 0;
        for (id, offset) in ids.iter_mut().zip(&mut offsets) {
            *id = block.base() + offset;
            count += 1;
        }
        if count == 0 {
            return;
        }
        writer.push(&ids[..count]);
    }
}

fn push_runs(writer: &mut ranges::Writer, block: Block<'_>) {
    block.contents.for_each_run(|first, last| writer.push(block.base() + first, block.base() + last));
}

/// The set of `view` under another tag than its own.
pub(crate) fn view(view: &View<'_>, tag: Tag) -> Sip {
    if view.is_empty() {
        return Sip::empty();
    }
    if let (Some(list), Tag::Gaps | Tag::VarintDelta) = (view.as_list(), tag) {
        return list_of(Codec::of(tag), |writer| {
            let mut groups = list.groups();
            while let Some(ids) = groups.next() {
                writer.push(ids);
            }
        });
    }
    blocks(tag, |each| {
        let (mut blocks, mut scratch) = (view.blocks(), Scratch::NEW);
        while let Some(block) = blocks.next(&mut scratch) {
            each(block);
        }
    })
}
