//! Our bytes are those of the naive writer and of the roaring libraries, and theirs are read.

use basalt_sip::{BLOCK_IDS, Builder, Limits, Sip, Tag};
use croaring::{Bitmap64, Portable, Treemap};
use roaring::RoaringTreemap;

use crate::{
    check::words_of,
    naive,
    shapes::{self, Shape},
};

/// Shapes with ids.
fn sets() -> impl Iterator<Item = Shape> {
    shapes::all().into_iter().filter(|(_, ids)| !ids.is_empty())
}

#[test]
fn each_tag_is_written_as_the_naive_writer_does() {
    for (name, ids) in sets() {
        for tag in naive::TAGS {
            let sip = Sip::from_sorted_ids_as(Tag::try_from(tag).unwrap(), &ids);
            assert!(sip.as_bytes() == naive::write(tag, &ids), "{name} under {tag}");
        }
        let sip = Sip::from_sorted_ids(&ids);
        assert!(sip.as_bytes() == naive::rewrite(&sip) && sip.iter().eq(ids), "{name}");
    }
    for tag in Tag::ALL {
        assert_eq!(Sip::from_sorted_ids_as(tag, &[]).as_bytes(), [0]);
    }
}

#[test]
fn each_tag_is_read_as_the_naive_writer_writes_it() {
    for (name, ids) in sets() {
        for bytes in naive::TAGS.map(|tag| naive::write(tag, &ids)) {
            let sip = Sip::from_bytes(bytes.as_slice(), &Limits::default())
                .unwrap_or_else(|error| panic!("{name} under {}: {error}", bytes[0]));
            assert_eq!(sip.cardinality(), ids.len() as u64, "{name}");
            assert!(
                sip.as_bytes() == bytes && sip.iter().eq(ids.iter().copied()),
                "{name} under {}",
                bytes[0]
            );
        }
    }
}

#[test]
fn roaring_writes_and_reads_the_same_bytes() {
    for (name, ids) in sets() {
        let sip = Sip::from_sorted_ids_as(Tag::Roaring, &ids);
        let mut treemap = RoaringTreemap::from_sorted_iter(ids.iter().copied()).unwrap();
        treemap.optimize();
        let mut bytes = Vec::new();
        treemap.serialize_into(&mut bytes).unwrap();
        assert!(sip.as_bytes()[1..] == bytes, "{name}");
        assert_eq!(RoaringTreemap::deserialize_from(&sip.as_bytes()[1..]).unwrap(), treemap, "{name}");
    }
}

#[test]
fn croaring_writes_and_reads_the_same_bytes() {
    for (name, ids) in sets() {
        let sip = Sip::from_sorted_ids_as(Tag::Roaring, &ids);
        let body = &sip.as_bytes()[1..];
        let mut treemap: Treemap = ids.iter().copied().collect();
        treemap.run_optimize();
        assert!(treemap.serialize::<Portable>() == body, "{name}: Treemap");
        assert_eq!(Treemap::try_deserialize::<Portable>(body), Some(treemap), "{name}: Treemap");
        let mut bitmap: Bitmap64 = ids.iter().copied().collect();
        bitmap.run_optimize();
        assert!(bitmap.serialize::<Portable>() == body, "{name}: Bitmap64");
        assert_eq!(Bitmap64::try_deserialize::<Portable>(body), Some(bitmap), "{name}: Bitmap64");
    }
}

/// The tag is chosen from a sample, so a set may take a little more than under the best one.
#[test]
fn the_chosen_tag_is_nearly_the_smallest() {
    let mut far = Vec::new();
    for (name, ids) in sets() {
        let best = naive::TAGS.map(|tag| naive::write(tag, &ids).len()).into_iter().min().unwrap();
        let mut builder = Builder::new();
        let ranges = naive::ranges_of(&ids);
        ranges.iter().for_each(|(first, last)| builder.push_range(*first, last.saturating_add(1)));
        let blocks =
            ids.chunk_by(|a, b| a / BLOCK_IDS == b / BLOCK_IDS).map(|ids| ids[0] - ids[0] % BLOCK_IDS);
        let masks: Vec<_> = blocks.map(|base| (base, words_of(base, &ids))).collect();
        let chosen = [
            ("ids", Sip::from_sorted_ids(&ids)),
            ("ranges", Sip::from_ranges(ranges.iter().map(|(first, last)| *first..=*last))),
            ("masks", Sip::from_masks(masks.iter().map(|(base, words)| (*base, words.as_slice())))),
            ("a builder", builder.finish()),
            ("another tag", Sip::from_sorted_ids_as(Tag::VarintDelta, &ids).to_smallest()),
            ("roaring", Sip::from_sorted_ids_as(Tag::Roaring, &ids).to_smallest()),
        ];
        for (from, sip) in chosen {
            // A builder takes no range with the greatest id.
            assert!(sip.cardinality() == ids.len() as u64 || from == "a builder", "{name} from {from}");
            // Containers are of more kinds than what is sampled of them.
            let share = if matches!(from, "ids" | "another tag") { 20 } else { 3 };
            let size = sip.as_bytes().len();
            if size > best + best / share + 16 {
                far.push(format!("{name} from {from}: {size} bytes under {}, not {best}", sip.tag()));
            }
        }
    }
    assert!(far.is_empty(), "{}", far.join("\n"));
    assert_eq!(Sip::from_sorted_ids(&[]).tag(), Tag::Empty);
}
