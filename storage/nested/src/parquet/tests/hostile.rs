//! Footers and pages that are made by hand.

use std::sync::atomic::{AtomicU32, Ordering};

use parquet::file::metadata::ParquetMetaData;

use super::*;
use crate::parquet::{
    CHUNKS, ParquetFile, SCHEMA_ELEMENTS,
    format::{FILE, PAGE as PAGE_HEADER},
    limits::PAGES_UNASKED,
    thrift::{Fields, Of, Walk},
};

/// The head of a list of structs.
fn structs(size: usize) -> Vec<u8> {
    [vec![0xfc], varint(size)].concat()
}

/// A schema's element without parts, an optional INT32 with a name.
fn leaf(name: &str) -> Vec<u8> {
    [&[0x15, 2, 0x25, 2, 0x18][..], &varint(name.len()), name.as_bytes(), &[0]].concat()
}

/// One with parts.
fn group(name: &str, parts: usize) -> Vec<u8> {
    [&[0x35, 0, 0x18][..], &varint(name.len()), name.as_bytes(), &[0x15], &zigzag(parts), &[0]].concat()
}

/// A footer of the elements of a schema, and of what its row groups are.
fn footer_of(elements: &[Vec<u8>], groups: &[Vec<u8>]) -> Vec<u8> {
    [
        &[0x15, 2, 0x19][..],
        &structs(elements.len()),
        &elements.concat(),
        &[0x16, 0, 0x19],
        &structs(groups.len()),
        &groups.concat(),
        &[0],
    ]
    .concat()
}

fn file_of(before: &[u8], footer: &[u8]) -> Bytes {
    let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
    Bytes::from([b"PAR1", before, footer, &length, b"PAR1"].concat())
}

/// A row group of one row, whose only column stands there.
fn group_at(start: usize, length: usize) -> Vec<u8> {
    let metadata = [
        &[0x15, 2, 0x19, 0x15, 0, 0x19, 0x18, 1, b'a', 0x15, 0, 0x16, 2, 0x16][..],
        &zigzag(length),
        &[0x16],
        &zigzag(length),
        &[0x26],
        &zigzag(start),
        &[0],
    ]
    .concat();
    let column = [&[0x26][..], &zigzag(start), &[0x1c], &metadata, &[0]].concat();
    [&[0x19, 0x1c][..], &column, &[0x16], &zigzag(length), &[0x16, 2, 0]].concat()
}

#[track_caller]
fn wrong(footer: &[u8], why: &str) {
    let error = check_footer(footer).unwrap_err();
    assert!(error.contains(why), "{error}");
}

fn decoded(footer: &[u8]) -> Result<ParquetMetaData> {
    ParquetMetaDataReader::decode_metadata(footer)
}

/// The crate takes a set for the list that it should be, and would recurse as deep as the schema nests.
#[test]
fn a_schema_that_is_a_set_is_refused() {
    let chain: Vec<_> = (0..50).map(|_| group("", 1)).chain([leaf("a")]).collect();
    let mut footer = footer_of(&chain, &[]);
    assert_eq!(decoded(&footer).unwrap().file_metadata().schema_descr().num_columns(), 1);
    check_footer(&footer).unwrap();
    assert_eq!(footer[2], 0x19);
    footer[2] = 0x1a;
    decoded(&footer).unwrap();
    wrong(&footer, "malformed");
}

/// The crate passes over no byte of a bool in a list that it does not know: it would read as fields what stands for bools
/// here, and do something for each of 2^31 of them.
#[test]
fn bools_in_lists_that_nobody_reads_are_refused() {
    let plain = footer_of(&[leaf("a")], &[]);
    let with = |field: &[u8]| [&[0x09, 0xc8, 0x01][..], field, &[0x05, 2], &plain[1..]].concat();
    let many = |kind: u8| [&[0xf0 | kind][..], &varint(20), &[0; 20]].concat();
    check_footer(&with(&[0x00])).unwrap();
    check_footer(&with(&many(3))).unwrap();
    for kind in [1, 2] {
        check_footer(&with(&[kind])).unwrap();
        wrong(&with(&[0x10 | kind, 1]), "malformed");
        wrong(&with(&many(kind)), "malformed");
        let hidden = [&[0x19, 0xf0 | kind][..], &varint(i32::MAX as usize)].concat();
        wrong(&with(&[&[0x80 | kind][..], &hidden, &[0]].concat()), "malformed");
        // In a list within a struct, and as the keys or the values of a map.
        let inner = [&[0x1c, 0x19, 0x10 | kind, 1][..], &[0, 0]].concat();
        wrong(&with(&[&[0x1c, 0x19, 0x1c][..], &inner].concat()), "malformed");
        for kinds in [kind << 4 | 3, 3 << 4 | kind] {
            let map = [&[0x0b, 0xc8, 0x01, 1, kinds, 1, 1][..], &[0x05, 2], &plain[1..]].concat();
            wrong(&map, "malformed");
        }
    }
    let numbers = [&[0x0b, 0xc8, 0x01, 1, 0x33, 1, 1][..], &[0x05, 2], &plain[1..]].concat();
    check_footer(&numbers).unwrap();
}

/// Kinds of values by their numbers: those that a field may say.
fn kinds_of(of: Of) -> &'static [u8] {
    match of {
        Of::Bool => &[1, 2],
        Of::Byte => &[3],
        Of::I16 | Of::I32 | Of::I64 => &[4, 5, 6],
        Of::Double => &[7],
        Of::Binary => &[8],
        Of::List(..) => &[9],
        Of::Struct(_) => &[12],
    }
}

/// A value of the least bytes.
fn least(of: Of) -> Vec<u8> {
    match of {
        Of::Bool => Vec::new(),
        Of::Double => vec![0; 8],
        Of::List(of, _) => [vec![0x10 | kinds_of(*of)[0]], least(*of)].concat(),
        _ => vec![0],
    }
}

fn all_kinds(fields: &'static Fields) -> usize {
    let mut refused = 0;
    for (number, of) in fields {
        for kind in 1..=13 {
            let bytes = [&[kind][..], &zigzag(usize::try_from(*number).unwrap()), &least(*of), &[0]].concat();
            let walked = Walk::new(&bytes).fields(fields, |_, _| Some(false));
            assert_eq!(walked.is_some(), kinds_of(*of).contains(&kind), "field {number} of kind {kind}");
            refused += usize::from(walked.is_none());
        }
        match *of {
            Of::Struct(of) => refused += all_kinds(of),
            Of::List(Of::Struct(of), _) => refused += all_kinds(of),
            Of::List(of, _) => {
                for kind in (1..=13).filter(|kind| !kinds_of(*of).contains(kind)) {
                    let list =
                        [vec![9], zigzag(usize::try_from(*number).unwrap()), vec![0x10 | kind], least(*of)];
                    let list = [list.concat(), vec![0]].concat();
                    assert!(Walk::new(&list).fields(fields, |_, _| Some(false)).is_none());
                    refused += 1;
                }
            }
            _ => {}
        }
    }
    refused
}

#[test]
fn a_known_field_of_another_kind_is_refused() {
    assert!(all_kinds(FILE) > 1000);
    assert!(all_kinds(PAGE_HEADER) > 200);
    // How an element repeats, as a double of eight bytes: the crate reads one of them, and the rest as other fields.
    let double = [0x15, 2, 0x27, 0, 0, 0, 0, 0, 0, 0, 0, 0x18, 1, b'a', 0];
    wrong(&footer_of(&[group("r", 1), double.to_vec()], &[]), "malformed");
    // A field that nobody knows is passed over.
    let mut known = footer_of(&[group("r", 1), leaf("a")], &[]);
    known.pop();
    known.extend([0x0a, 100, 0x15, 2, 0]);
    check_footer(&known).unwrap();
    decoded(&known).unwrap();
}

/// What is accepted is decoded, and takes no more than it was said to: of a file that has all kinds of things, with each
/// byte of its footer spoilt in many ways.
#[test]
fn spoilt_footers_are_refused_or_decoded() {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(170))
        .set_key_value_metadata(Some(vec![parquet::file::metadata::KeyValue::new("k".to_owned(), None)]))
        .set_sorting_columns(Some(vec![parquet::file::metadata::SortingColumn {
            column_idx: 0,
            descending: true,
            nulls_first: false,
        }]));
    let file = written(&batch(), properties);
    let length = u32::from_le_bytes(*file[file.len() - 8..].first_chunk().unwrap());
    let footer = &file[file.len() - 8 - usize::try_from(length).unwrap()..file.len() - 8];
    let (mut accepted, mut refused) = (0, 0);
    for at in 0..footer.len() {
        for byte in (at % 5..256).step_by(5) {
            let mut footer = footer.to_vec();
            footer[at] = u8::try_from(byte).unwrap();
            match check_footer(&footer) {
                Err(_) => refused += 1,
                Ok(bytes) => {
                    accepted += 1;
                    // One that is not to be decoded is an error, and no panic.
                    let memory = decoded(&footer).map(|metadata| metadata.memory_size() as u64);
                    assert!(memory.is_err() || memory.unwrap() <= bytes);
                }
            }
        }
    }
    assert!(accepted > 2000 && refused > 2000, "{accepted} and {refused}");
}

#[test]
fn what_a_footer_takes_is_bounded() {
    let wide = |columns: usize| {
        let mut elements = vec![leaf(""); columns + 1];
        elements[0] = group("r", columns);
        elements
    };
    // The root is one of them.
    let footer = footer_of(&wide(SCHEMA_ELEMENTS - 1), &[]);
    let bytes = check_footer(&footer).unwrap();
    assert!(decoded(&footer).unwrap().memory_size() as u64 <= bytes && bytes < 100 << 20, "{bytes}");
    wrong(&footer_of(&wide(SCHEMA_ELEMENTS), &[]), "65537 columns and parts of columns; the limit is 65536");
    // A list that is longer than the footer.
    wrong(&[0x15, 2, 0x19, 0xfc, 0xff, 0xff, 3, 0], "malformed");
    let groups = |columns: usize, groups: usize| footer_of(&wide(columns), &vec![vec![0]; groups]);
    let most = CHUNKS / 32_768;
    let bytes = check_footer(&groups(most, 32_768)).unwrap();
    assert!(bytes > 256 << 20, "{bytes}");
    wrong(&groups(most + 1, 32_768), "32768 row groups of 33 columns each; the limit is 1048576 in all");
    // The name of what is around columns is in the path of each of them.
    let mut around = vec![group("r", 1), group(&"n".repeat(1 << 20), 2000)];
    around.extend(vec![leaf("a"); 2000]);
    wrong(&footer_of(&around, &[]), "bytes when it is decoded; the limit is 1073741824");
    // Room is made for all pairs of keys and values before the first one is read.
    let mut pairs = footer_of(&[group("r", 1), leaf("a")], &[]);
    pairs.pop();
    pairs.push(0x19);
    pairs.extend(structs(25 << 20));
    pairs.resize(pairs.len() + (25 << 20) + 1, 0);
    wrong(&pairs, "bytes when it is decoded; the limit is 1073741824");
}

/// The crate takes the lowest 32 bits.
#[test]
fn integers_that_are_cut_off_are_refused() {
    // 2^32 - 10^9, which is negative, and its lowest bits are those of 10^9.
    let length = varint(2 * ((1 << 32) - 1_000_000_000) - 1);
    let element = [&[0x15, 14, 0x15][..], &length, &[0x15, 2, 0x18, 1, b'a', 0]].concat();
    wrong(&footer_of(&[group("r", 1), element], &[]), "malformed");
}

/// Pages of nothing: a header of five bytes each.
fn empty_pages(pages: usize) -> Vec<u8> {
    [0x25, 0, 0x15, 0, 0].repeat(pages)
}

#[test]
fn columns_that_share_their_bytes_are_refused() {
    let chunk = empty_pages(1000);
    let schema = [group("r", 1), leaf("a")];
    let at = |groups: &[Vec<u8>]| file_of(&chunk, &footer_of(&schema, groups));
    let open = |file: Bytes| Footer::new(file.clone(), file.len()).and_then(ParquetFile::new);
    assert_eq!(open(at(&[group_at(4, 5000)])).unwrap().groups(), 1);
    assert_eq!(open(at(&[group_at(4, 2500), group_at(2504, 2500)])).unwrap().groups(), 2);
    let shared = open(at(&vec![group_at(4, 5000); 100])).unwrap_err().to_string();
    assert!(shared.contains("together longer than the file"), "{shared}");
    let behind = open(at(&[group_at(4, 5000 + 200)])).unwrap_err().to_string();
    assert!(behind.contains("column a is not within the file"), "{behind}");
}

#[test]
fn pages_without_end_are_read_for_as_long_as_they_are_wanted() {
    let pages = empty_pages(100_000);
    let of = Chunk { start: 0, length: pages.len() as u64, compression: Compression::UNCOMPRESSED };
    let pages = Bytes::from(pages);
    let times = Arc::new(AtomicU32::new(0));
    let wanted = |most: u32| {
        let times = Arc::clone(&times);
        Wanted::while_true(move || times.fetch_add(1, Ordering::Relaxed) < most)
    };
    pages::check_headers(&pages, of, PAGE, &mut Asked::of(&wanted(u32::MAX))).unwrap();
    assert_eq!(times.swap(0, Ordering::Relaxed), 100_000 / PAGES_UNASKED);
    let error = pages::check_headers(&pages, of, PAGE, &mut Asked::of(&wanted(3))).unwrap_err().to_string();
    assert!(error.contains("nobody waits for it any longer"), "{error}");
    assert_eq!(times.load(Ordering::Relaxed), 4);
}
