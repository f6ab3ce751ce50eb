//! Floats that are decimals, and timestamps: as ours, as ALP with packed frames, and as pco.

use std::time::Duration;

use basalt_core::{
    encoding::{EncodedKeys, encode_keys},
    keys::{self, Native},
    limits::BLOCK_ROWS,
};
use pco::{
    ChunkConfig,
    data_types::Number,
    standalone::{simple_compress, simple_decompress_into},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    table::{self, figure},
    timing::Race,
};

/// Values of a kind.
#[derive(Clone, Debug)]
pub enum Data {
    /// Floats, held as their keys.
    Floats(Vec<f64>),
    /// Integers, which are their own keys.
    Integers(Vec<i64>),
}

/// A named kind of values; how many bits the best of codes could have, where that is known.
#[derive(Clone, Debug)]
pub struct Sample {
    name: &'static str,
    data: Data,
    /// The goal as it stands in the table.
    goal: &'static str,
}

/// The four kinds: prices at random, prices that walk, floats of full precision, timestamps.
pub fn samples(rows: usize) -> Vec<Sample> {
    let mut rng = StdRng::seed_from_u64(0xa1b);
    let uniform = (0..rows).map(|_| f64::from(rng.random_range(0..65_536)) / 100.0).collect();
    let mut cents = 100_000;
    let walk = (0..rows).map(|_| {
        cents += rng.random_range(-15..=15);
        f64::from(cents) / 100.0
    });
    let walk = walk.collect();
    let precise = (0..rows).map(|_| rng.random::<f64>()).collect();
    let mut at = 1_700_000_000_000_000;
    let times = (0..rows).map(|_| {
        at += rng.random_range(0..40);
        at
    });
    vec![
        Sample {
            name: "uniform cents",
            data: Data::Floats(uniform),
            goal: "decode <= 0.3, size <= 1.3x pco",
        },
        Sample { name: "random walk of cents", data: Data::Floats(walk), goal: "decode <= 0.3" },
        Sample { name: "full precision", data: Data::Floats(precise), goal: "" },
        Sample { name: "timestamps, steps 0 to 39", data: Data::Integers(times.collect()), goal: "" },
    ]
}

/// What an encoding came to.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its bytes, everything counted.
    pub bytes: usize,
    /// Seconds to encode all values.
    pub encode: f64,
    /// Seconds to decode them.
    pub decode: f64,
}

impl Sample {
    /// Encodes and decodes in every way: ours first, then the rivals.
    ///
    /// # Panics
    /// Where one gives other bits back.
    pub fn measure(&self, each: Duration) -> Vec<Line> {
        match &self.data {
            Data::Floats(values) => floats(values, each),
            Data::Integers(values) => integers(values, each),
        }
    }
}

/// Prints sizes and times of every sample in every encoding, each of which is checked to give the bits back.
#[allow(clippy::cast_precision_loss, reason = "figures to print")]
pub fn print_table(rows: usize, each: Duration) {
    let mut lines = Vec::new();
    for sample in samples(rows) {
        for (place, line) in sample.measure(each).into_iter().enumerate() {
            lines.push(vec![
                sample.name.to_owned(),
                line.name,
                format!("{:.2}", 8.0 * line.bytes as f64 / rows as f64),
                format!("{:.2}x", 8.0 * rows as f64 / line.bytes as f64),
                figure(line.encode * 1e9 / rows as f64),
                figure(line.decode * 1e9 / rows as f64),
                if place == 0 { sample.goal.to_owned() } else { String::new() },
            ]);
        }
    }
    let header = ["values", "encoding", "bits each", "ratio", "encode ns", "decode ns", "goal"];
    table::print(&format!("decimals and timestamps, {} values", table::grouped(rows)), &header, &lines);
}

fn floats(values: &[f64], each: Duration) -> Vec<Line> {
    let keys: Vec<i64> = values.iter().map(|&value| keys::of_f64(value)).collect();
    let ours = encode(&keys, Native::F64);
    let (alp, pco) = (Alp::encode(values), pco_of(values));

    let right = |decoded: &[f64]| decoded.iter().zip(values).all(|(a, b)| a.to_bits() == b.to_bits());
    let mut decoded = vec![0.0; values.len()];
    ours.column.decode_floats(0, &mut decoded);
    assert!(right(&decoded), "{} decodes to other floats", ours.column.name());
    alp.decode(&mut decoded);
    assert!(right(&decoded), "alp decodes to other floats");
    from_pco(&pco, &mut decoded);
    assert!(right(&decoded), "pco decodes to other floats");

    let (mut block, mut out) = (vec![0.0; BLOCK_ROWS], vec![0.0; values.len()]);
    let mut race = Race::new();
    race.enter(|| encode(&keys, Native::F64));
    race.enter(|| {
        for start in (0..values.len()).step_by(BLOCK_ROWS) {
            let n = (values.len() - start).min(BLOCK_ROWS);
            ours.column.decode_floats(start, &mut block[..n]);
        }
    });
    race.enter(|| Alp::encode(values));
    race.enter(|| alp.decode(&mut out));
    race.enter(|| pco_of(values));
    race.enter(|| from_pco(&pco, &mut decoded));
    let seconds = race.run(each);
    lines(
        [
            (ours.column.name(), ours.column.buffer().len()),
            ("alp crate, frames packed".into(), alp.bytes()),
            ("pco, level 8".into(), pco.len()),
        ],
        &seconds,
    )
}

fn integers(values: &[i64], each: Duration) -> Vec<Line> {
    let ours = encode(values, Native::I64);
    let pco = pco_of(values);
    let mut decoded = vec![0; values.len()];
    ours.column.decode(0, &mut decoded);
    assert!(decoded == values, "{} decodes to other integers", ours.column.name());
    decoded.fill(0);
    from_pco(&pco, &mut decoded);
    assert!(decoded == values, "pco decodes to other integers");

    let mut block = vec![0; BLOCK_ROWS];
    let mut race = Race::new();
    race.enter(|| encode(values, Native::I64));
    race.enter(|| {
        for start in (0..values.len()).step_by(BLOCK_ROWS) {
            let n = (values.len() - start).min(BLOCK_ROWS);
            ours.column.decode(start, &mut block[..n]);
        }
    });
    race.enter(|| pco_of(values));
    race.enter(|| from_pco(&pco, &mut decoded));
    let seconds = race.run(each);
    lines([(ours.column.name(), ours.column.buffer().len()), ("pco, level 8".into(), pco.len())], &seconds)
}

/// Contenders by name and bytes; the seconds are of encoding and decoding, for each of them.
fn lines(contenders: impl IntoIterator<Item = (String, usize)>, seconds: &[f64]) -> Vec<Line> {
    let contenders = contenders.into_iter().zip(seconds.as_chunks().0);
    let line = |((name, bytes), &[encode, decode]): ((String, usize), &[f64; 2])| Line {
        name,
        bytes,
        encode,
        decode,
    };
    contenders.map(line).collect()
}

/// A fragment as the chooser holds it.
#[allow(clippy::unwrap_used, reason = "a benchmark stops at what goes wrong")]
fn encode(keys: &[i64], native: Native) -> EncodedKeys {
    encode_keys(keys, native, None, None).unwrap()
}

#[allow(clippy::unwrap_used, reason = "a benchmark stops at what goes wrong")]
fn pco_of<T: Number>(values: &[T]) -> Vec<u8> {
    simple_compress(values, &ChunkConfig::default().with_compression_level(8)).unwrap()
}

#[allow(clippy::unwrap_used, reason = "a benchmark stops at what goes wrong")]
fn from_pco<T: Number>(bytes: &[u8], out: &mut [T]) {
    simple_decompress_into(bytes, out).unwrap();
}

/// What the `alp` crate makes: integers, and the floats that are none.
struct Alp {
    exponents: alp::Exponents,
    integers: Vec<i64>,
    places: Vec<u64>,
    exceptions: Vec<f64>,
}

impl Alp {
    fn encode(values: &[f64]) -> Self {
        let (exponents, integers, places, exceptions, _) = alp::encode(values, None);
        Self { exponents, integers, places, exceptions }
    }

    /// The crate leaves the integers as they are; here they are counted as frames of 1,024, packed with the bits that
    /// the frame's range needs, behind 9 bytes of head, and an exception as its value and a place of 16 bits.
    fn bytes(&self) -> usize {
        let frame = |integers: &[i64]| {
            let (least, greatest) =
                integers.iter().fold((i64::MAX, i64::MIN), |(least, most), &v| (least.min(v), most.max(v)));
            let bits = 64 - greatest.wrapping_sub(least).leading_zeros() as usize;
            9 + (bits * integers.len()).div_ceil(8)
        };
        self.integers.chunks(1024).map(frame).sum::<usize>() + 10 * self.exceptions.len()
    }

    fn decode(&self, out: &mut [f64]) {
        alp::decode_into(&self.integers, self.exponents, out);
        for (&place, &value) in self.places.iter().zip(&self.exceptions) {
            out[usize::try_from(place).unwrap_or(usize::MAX)] = value;
        }
    }
}
