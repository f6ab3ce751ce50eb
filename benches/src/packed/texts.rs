//! Texts: as ours, with FSST and without, and as the `fsst-rs` crate.

use std::{sync::Arc, time::Duration};

use arrow_array::{Array, BooleanArray, Scalar, StringArray};
use arrow_ord::cmp;
use basalt_core::encoding::{EncodedTexts, TextColumn, TextTest, encode_texts};
use fsst::Compressor;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tpchgen::generators::{OrderGenerator, PartGenerator};

use crate::{
    contest::{Contest, Role},
    kernels::data::mask_of,
    table::{self, figure},
    timing::Race,
};

/// A named column of texts.
#[derive(Clone, Debug)]
struct Sample {
    name: &'static str,
    texts: StringArray,
}

fn samples(rows: usize) -> Vec<Sample> {
    let mut rng = StdRng::seed_from_u64(0x7e87);
    let hosts = ["www.example.com", "shop.example.org", "news.example.net", "static.example.io"];
    let words = ["product", "category", "search", "account", "image", "archive", "review", "basket"];
    let mut word = || *words.choose(&mut rng).unwrap_or(&"");
    let paths: Vec<String> = (0..rows).map(|_| format!("{}/{}", word(), word())).collect();
    let urls = paths.iter().map(|path| {
        let host = hosts.choose(&mut rng).unwrap_or(&"");
        format!("https://{host}/{path}?id={}", rng.random_range(0..1_000_000))
    });
    let urls = StringArray::from_iter_values(urls);
    let mails = paths.iter().map(|path| {
        let name = path.replace('/', ".");
        format!("{name}{}@mail.example.com", rng.random_range(0..100_000))
    });
    let mails = StringArray::from_iter_values(mails);
    let comments = OrderGenerator::new(1.0, 1, 1).iter().take(rows).map(|order| order.o_comment);
    let types = PartGenerator::new(1.0, 1, 1).iter().take(rows).map(|part| part.p_type);
    vec![
        Sample { name: "URLs", texts: urls },
        Sample { name: "e-mail addresses", texts: mails },
        Sample { name: "TPC-H o_comment", texts: StringArray::from_iter_values(comments) },
        Sample { name: "TPC-H p_type (150 values)", texts: StringArray::from_iter_values(types) },
    ]
}

/// Prints sizes, times to encode and decode, and times to find a text.
#[allow(clippy::cast_precision_loss, reason = "figures to print")]
pub fn print_table(rows: usize, each: Duration) {
    let mut lines = Vec::new();
    for sample in samples(rows) {
        let bytes = sample.texts.values().len();
        for line in measure(&sample, each) {
            let throughput = |seconds: Option<f64>| {
                seconds.map_or_else(String::new, |seconds| figure(bytes as f64 / seconds / 1e9))
            };
            lines.push(vec![
                sample.name.to_owned(),
                line.name,
                figure(line.bytes as f64 / rows as f64),
                format!("{:.2}x", bytes as f64 / line.bytes as f64),
                throughput(line.encode),
                throughput(line.decode),
                line.find.map_or_else(String::new, |seconds| figure(seconds * 1e9 / rows as f64)),
            ]);
        }
    }
    let header =
        ["texts", "encoding", "bytes each", "ratio", "encode GB/s", "decode GB/s", "= text, ns a row"];
    table::print(&format!("texts, {} rows; all bytes counted", table::grouped(rows)), &header, &lines);
}

struct Line {
    name: String,
    bytes: usize,
    encode: Option<f64>,
    decode: Option<f64>,
    find: Option<f64>,
}

/// The encodings that are forced; the chooser's comes first.
const FORCED: [Option<&str>; 3] = [None, Some("fsst"), Some("text")];

fn measure(sample: &Sample, each: Duration) -> Vec<Line> {
    let texts = &sample.texts;
    let mut names: Vec<String> = Vec::new();
    let mut ours: Vec<(Option<&str>, EncodedTexts)> = Vec::new();
    for forced in FORCED {
        let encoded = encode(texts, forced);
        let name = encoded.column.name();
        if !names.contains(&name) {
            names.push(name);
            ours.push((forced, encoded));
        }
    }
    for (_, encoded) in &ours {
        let decoded = encoded.column.decode(0, texts.len(), None);
        let right = decoded.iter().zip(texts).all(|(decoded, text)| Some(decoded) == text);
        assert!(right, "{}: {} decodes to other texts", sample.name, encoded.column.name());
    }
    let crate_column = Fsst::encode(texts);
    assert!(
        crate_column.decode() == texts.values().as_slice(),
        "{}: fsst-rs decodes to other texts",
        sample.name
    );

    let mut out = Vec::new();
    let mut race = Race::new();
    for (forced, encoded) in &ours {
        race.enter(move || encode(texts, *forced));
        race.enter(move || encoded.column.decode(0, texts.len(), None));
    }
    race.enter(|| Fsst::encode(texts));
    race.enter(|| crate_column.decode_into(&mut out));
    let seconds = race.run(each);
    let mut find = find(sample, ours.iter().map(|(_, encoded)| encoded.column.as_ref()), each);

    let arrow = find.pop();
    let mut bytes: Vec<usize> = ours.iter().map(|(_, encoded)| encoded.column.buffer().len()).collect();
    names[0] = format!("{} (chosen)", names[0]);
    names.push("fsst-rs".into());
    bytes.push(crate_column.bytes());
    let finds = find.into_iter().map(Some).chain([None]);
    let times = seconds.as_chunks::<2>().0.iter().zip(finds);
    let mut lines: Vec<Line> = names
        .into_iter()
        .zip(bytes)
        .zip(times)
        .map(|((name, bytes), (&[encode, decode], find))| Line {
            name,
            bytes,
            encode: Some(encode),
            decode: Some(decode),
            find,
        })
        .collect();
    let raw = texts.values().len() + 4 * (texts.len() + 1);
    lines.push(Line { name: "arrow array".into(), bytes: raw, encode: None, decode: None, find: arrow });
    lines
}

#[allow(clippy::unwrap_used, reason = "a benchmark stops at what goes wrong")]
fn encode(texts: &StringArray, forced: Option<&str>) -> EncodedTexts {
    encode_texts(texts, forced).unwrap()
}

/// The seconds that finding the middle row's text takes each column, and an arrow array at last.
fn find<'a>(
    sample: &'a Sample,
    columns: impl Iterator<Item = &'a dyn TextColumn>,
    each: Duration,
) -> Vec<f64> {
    let texts = &sample.texts;
    let text = texts.value(texts.len() / 2);
    let test = TextTest::In(Arc::new([Box::from(text)].into_iter().collect()));
    let constant = Scalar::new(StringArray::from(vec![text]));
    let mut contest = Contest::<Vec<u64>>::new();
    let mut names = Vec::new();
    for column in columns {
        let test = &test;
        let filter = move |out: &mut Vec<u64>| {
            out.resize(texts.len().div_ceil(64), 0);
            column.filter(0, texts.len(), test, None, out);
        };
        names.push(column.name());
        contest.enter(Role::Ours, column.name(), filter, Vec::clone);
    }
    contest.enter(
        Role::Rival,
        "arrow 59",
        |out: &mut Option<BooleanArray>| *out = cmp::eq(texts, &constant).ok(),
        |out| out.as_ref().map_or_else(Vec::new, |mask| mask_of(mask.values().iter())),
    );
    names.push("arrow 59".into());
    let figures = contest.run(sample.name, each);
    names.iter().filter_map(|name| figures.of(name)).collect()
}

/// What the `fsst-rs` crate makes.
struct Fsst {
    compressor: Compressor,
    bytes: Vec<u8>,
    ends: Vec<u64>,
}

impl Fsst {
    /// Trains on all texts and compresses them.
    fn encode(texts: &StringArray) -> Self {
        let texts: Vec<&[u8]> = texts.iter().flatten().map(str::as_bytes).collect();
        let compressor = Compressor::train(&texts);
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        compressor.compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(&texts, &mut bytes, &mut ends);
        Self { compressor, bytes, ends }
    }

    /// The compressed texts, the symbols with their lengths, and where each text ends, in 4 bytes.
    fn bytes(&self) -> usize {
        self.bytes.len() + 9 * self.compressor.symbol_table().len() + 4 * self.ends.len()
    }

    fn decode(&self) -> Vec<u8> {
        self.compressor.decompressor().decompress(&self.bytes)
    }

    /// All texts at once, behind each other.
    fn decode_into(&self, out: &mut Vec<u8>) -> usize {
        let decompressor = self.compressor.decompressor();
        out.clear();
        out.reserve(decompressor.max_decompression_capacity(&self.bytes));
        decompressor.decompress_into(&self.bytes, out.spare_capacity_mut())
    }
}
