//! From the mask of a filter to bytes, and back: what a producer and a consumer of row ids pay.

use std::{iter, time::Duration};

use basalt_sip::{BLOCK_IDS, BLOCK_WORDS, BlockMask, Builder, Sip, Tag, View};
use croaring::{Bitmap64, Portable, Treemap};
use roaring::{RoaringBitmap, RoaringTreemap};

use super::{
    data::Mask,
    encoding::{Bytes, Encoding as _},
    ours::{limits, number},
    rivals::{CroaringBitmap64, CroaringTreemap, RoaringRuns},
    source::Roaring,
};
use crate::{table, timing::Race};

const EACH: Duration = Duration::from_millis(60);

/// A mask as its rivals like it best.
struct Picked<'a> {
    mask: &'a Mask,
    bytes: Vec<u8>,
}

type Write = fn(&Picked<'_>) -> Bytes;
/// Fills a mask of 0.
type Read = fn(&[u8], &mut [u64]);

/// The rivals start from ids that are there already, or from the mask's bytes; ours from its words.
const WRITERS: [(&str, Write); 10] = [
    ("source: extend(ids)", |picked| Roaring::encode(&picked.mask.ids)),
    ("roaring from_sorted_iter", |picked| {
        Roaring::write(RoaringTreemap::from_sorted_iter(picked.mask.ids.iter().copied()).unwrap())
    }),
    ("roaring from_sorted_iter, optimize", |picked| RoaringRuns::encode(&picked.mask.ids)),
    ("roaring from_lsb0_bytes", |picked| Roaring::write(from_lsb0(picked))),
    ("roaring from_lsb0_bytes, optimize", |picked| RoaringRuns::write(from_lsb0(picked))),
    ("croaring Treemap::of, run_optimize", |picked| CroaringTreemap::encode(&picked.mask.ids)),
    ("croaring Bitmap64::of, run_optimize", |picked| CroaringBitmap64::encode(&picked.mask.ids)),
    ("basalt Builder, chosen tag", |picked| Bytes::Sip(builder(picked).finish())),
    ("basalt from_masks, 0x01", |picked| {
        Bytes::Sip(Sip::from_masks_as(Tag::Roaring, blocks(&picked.mask.words)))
    }),
    ("basalt from_masks, chosen tag", |picked| Bytes::Sip(Sip::from_masks(blocks(&picked.mask.words)))),
];

fn from_lsb0(picked: &Picked<'_>) -> RoaringTreemap {
    RoaringTreemap::from_bitmaps(iter::once((0, RoaringBitmap::from_lsb0_bytes(0, &picked.bytes))))
}

fn blocks(words: &[u64]) -> impl Iterator<Item = (u64, &[u64])> + Clone {
    words.chunks(BLOCK_WORDS).zip(0..).map(|(words, block)| (block * BLOCK_IDS, words))
}

fn builder(picked: &Picked<'_>) -> Builder {
    let mut builder = Builder::new();
    blocks(&picked.mask.words).for_each(|(base, words)| builder.push_words(base, words));
    builder
}

/// How roaring bytes get back into a mask; a rival's mask is made of the 32-bit bitmap of bucket 0.
const READERS: [(&str, Read); 4] = [
    ("roaring, iterate", |bytes, mask| {
        RoaringTreemap::deserialize_from(bytes).unwrap().iter().for_each(|id| set(mask, id));
    }),
    ("roaring, next_range", |bytes, mask| {
        let set = RoaringTreemap::deserialize_from(bytes).unwrap();
        for (_, bitmap) in set.bitmaps() {
            let mut ids = bitmap.iter();
            while let Some(range) = ids.next_range() {
                set_range(mask, *range.start() as usize, *range.end() as usize);
            }
        }
    }),
    ("croaring Treemap, to_bitset", |bytes, mask| {
        let set = Treemap::try_deserialize::<Portable>(bytes).unwrap();
        for bitmap in set.map.values() {
            let bits = bitmap.to_bitset().unwrap();
            mask[..bits.as_slice().len()].copy_from_slice(bits.as_slice());
        }
    }),
    ("croaring Bitmap64, iterate", |bytes, mask| {
        let ids = Bitmap64::try_deserialize::<Portable>(bytes).unwrap();
        ids.iter().for_each(|id| set(mask, id));
    }),
];

fn set(mask: &mut [u64], id: u64) {
    mask[(id / 64) as usize] |= 1 << (id % 64);
}

fn set_range(mask: &mut [u64], start: usize, end: usize) {
    let (first, last) = (start / 64, end / 64);
    let (from, to) = (u64::MAX << (start % 64), u64::MAX >> (63 - end % 64));
    if first == last {
        mask[first] |= from & to;
    } else {
        mask[first] |= from;
        mask[first + 1..last].fill(u64::MAX);
        mask[last] |= to;
    }
}

/// Ours writes every word, so it needs no mask of 0.
fn open_into(bytes: &[u8], mask: &mut [u64]) {
    let mut blocks = View::open(bytes, &limits()).unwrap().masks();
    let mask = mask.as_chunks_mut::<BLOCK_WORDS>().0;
    let mut next = 0;
    while next < mask.len() {
        let Some((base, found)) = blocks.next(&mut mask[next]) else { break };
        let block = (base / BLOCK_IDS) as usize;
        if found == BlockMask::Full {
            mask[block].fill(u64::MAX);
        } else if block > next {
            mask[block] = mask[next];
        }
        mask[next..block].iter_mut().for_each(|words| words.fill(0));
        next = block + 1;
    }
    mask[next..].iter_mut().for_each(|words| words.fill(0));
}

/// Both ways, as tables: time in ms and of a copy of the mask.
pub fn tables(masks: &[Mask]) {
    let header: Vec<&str> = iter::once("").chain(masks.iter().map(|mask| mask.name)).collect();
    let (mut sizes, mut write, mut read) = (Columns::default(), Columns::default(), Columns::default());
    for mask in masks {
        let picked = Picked { mask, bytes: mask.words.iter().flat_map(|word| word.to_le_bytes()).collect() };
        to_bytes(&picked, &mut sizes, &mut write);
        to_mask(mask, &mut read);
    }
    table::print("Bytes from a mask", &header, &sizes.rows());
    table::print("From a mask to bytes, ms", &header, &write.rows());
    table::print("From bytes to a mask, ms", &header, &read.rows());
}

/// A table that grows by the column.
#[derive(Default)]
struct Columns(Vec<Vec<(String, String)>>);

impl Columns {
    fn rows(&self) -> Vec<Vec<String>> {
        let names = self.0.first().into_iter().flatten().map(|(name, _)| name);
        names
            .enumerate()
            .map(|(row, name)| {
                iter::once(name.clone()).chain(self.0.iter().map(|column| column[row].1.clone())).collect()
            })
            .collect()
    }
}

const COPY: &str = "copy of the mask";

fn to_bytes(picked: &Picked<'_>, sizes: &mut Columns, times: &mut Columns) {
    let mut column = Vec::new();
    let mut race = Race::new();
    enter_copy(&mut race, picked.mask);
    for (name, write) in WRITERS {
        let bytes = write(picked);
        let back = match &bytes {
            Bytes::Vec(bytes) => Roaring::ids(&Roaring::decode(bytes)),
            Bytes::Sip(sip) => sip.iter().collect(),
        };
        assert!(back == picked.mask.ids, "{}: {name}", picked.mask.name);
        column.push((name.to_owned(), table::grouped(bytes.len())));
        race.enter(move || write(picked));
    }
    sizes.0.push(column);
    times.0.push(timed(race, WRITERS.map(|(name, _)| name.to_owned())));
}

fn to_mask(mask: &Mask, times: &mut Columns) {
    let mut race = Race::new();
    enter_copy(&mut race, mask);
    let mut names = Vec::new();
    let roaring = RoaringRuns::encode(&mask.ids);
    for (name, read) in READERS {
        let roaring = roaring.to_vec();
        names.push(name.to_owned());
        enter_read(&mut race, mask, name, move |out| {
            out.fill(0);
            read(&roaring, out);
        });
    }
    for tag in [Tag::Roaring, Tag::VarintDelta, Tag::Ranges, Tag::Gaps] {
        let sip = Sip::from_sorted_ids_as(tag, &mask.ids);
        let name = format!("basalt from {}", number(tag));
        enter_read(&mut race, mask, &name, move |out| open_into(sip.as_bytes(), out));
        names.push(name);
    }
    times.0.push(timed(race, names));
}

fn enter_copy<'a>(race: &mut Race<'a>, mask: &'a Mask) {
    let mut copy = vec![0; mask.words.len()];
    race.enter(move || copy.copy_from_slice(std::hint::black_box(&mask.words)));
}

fn enter_read<'a>(race: &mut Race<'a>, mask: &'a Mask, name: &str, read: impl Fn(&mut [u64]) + 'a) {
    let mut out = vec![u64::MAX; mask.words.len()];
    read(&mut out);
    assert!(out == mask.words, "{}: {name}", mask.name);
    race.enter(move || read(std::hint::black_box(&mut out)));
}

/// The first of the race is the copy.
fn timed(race: Race<'_>, names: impl IntoIterator<Item = String>) -> Vec<(String, String)> {
    let seconds = race.run(EACH);
    let copy = seconds[0];
    let names = iter::once(COPY.to_owned()).chain(names);
    names
        .zip(seconds)
        .map(|(name, seconds)| (name, format!("{} ({:.1}x)", table::millis(seconds), seconds / copy)))
        .collect()
}
