//! One column of one fragment: its bytes in every encoding, and the time that the choice takes.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use arrow_array::{
    Array, StringArray,
    cast::AsArray,
    types::{Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType},
};
use basalt_core::{
    encoding::{
        ENCODINGS, KEY_ENCODINGS, KeyStats, TEXT_ENCODINGS, TextStats, encode_keys, encode_texts,
        encode_validity,
    },
    keys::{self, Native},
    schema::Optimize,
};

use crate::timing;

/// The turns that everybody gets; the least time counts.
const LEAST_TURNS: usize = 2;
/// For how long turns are taken, if they are short.
const ENOUGH: Duration = Duration::from_millis(40);

/// A column of a fragment, or several added up.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// As an Arrow array.
    pub arrow: usize,
    /// As Parquet with zstd.
    pub parquet: usize,
    /// As the chooser has it, with its validity.
    pub ours: usize,
    /// As the smallest of all encodings has it.
    pub smallest: usize,
    /// The encodings that the chooser took, one for each part that had another one than the parts before.
    pub chosen: Vec<String>,
    /// The encodings that were smallest.
    pub smallest_names: Vec<String>,
    /// Seconds that encoding took.
    pub encoding: f64,
    /// Seconds of them for the choice: the size estimates, and encoding what was not taken in the end.
    pub choosing: f64,
}

impl Measured {
    /// Adds other parts.
    pub fn add(&mut self, other: &Self) {
        self.arrow += other.arrow;
        self.parquet += other.parquet;
        self.ours += other.ours;
        self.smallest += other.smallest;
        self.encoding += other.encoding;
        self.choosing += other.choosing;
        let merge = |names: &mut Vec<String>, others: &[String]| {
            others.iter().for_each(|name| {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            });
        };
        merge(&mut self.chosen, &other.chosen);
        merge(&mut self.smallest_names, &other.smallest_names);
    }

    /// How much more bytes the chooser's encoding has than the smallest, in percent.
    pub fn regret(&self) -> f64 {
        share(self.ours, self.smallest) - 100.0
    }

    /// The share of the encoding's time that the choice takes, in percent.
    pub fn choice(&self) -> f64 {
        100.0 * self.choosing / self.encoding
    }
}

/// In percent.
#[allow(clippy::cast_precision_loss, reason = "a figure to print")]
pub fn share(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// Measures an array of at most the rows of a fragment; the bytes of Parquet are for the caller to add.
///
/// # Panics
/// Where an encoding fails, or gives other rows than it got.
pub fn measure(array: &dyn Array) -> Measured {
    let mut measured = match array.as_string_opt::<i32>() {
        Some(texts) => measure_texts(texts),
        None => {
            let (keys, native) = keys_of(array);
            measure_keys(&keys, native, validity(array).as_deref())
        }
    };
    if let Some(valid) = validity(array) {
        let bits: Vec<i64> = (0..array.len()).map(|row| i64::from(array.is_valid(row))).collect();
        let mut nulls = measure_keys(&bits, Native::Bool, None);
        let column = encode_validity(&valid, array.len(), Optimize::default()).map(|encoded| encoded.column);
        assert_eq!(column.ok().map(|column| column.buffer().len()), Some(nulls.ours), "validity");
        nulls.chosen = nulls.chosen.iter().map(|name| format!("nulls {name}")).collect();
        nulls.smallest_names = nulls.smallest_names.iter().map(|name| format!("nulls {name}")).collect();
        measured.add(&nulls);
    }
    measured.arrow = array.to_data().get_slice_memory_size().unwrap_or(0);
    measured
}

fn validity(array: &dyn Array) -> Option<Vec<u64>> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0)?;
    Some(crate::kernels::data::mask_of(nulls.iter()))
}

/// The keys of an array; under a null, any.
#[allow(clippy::panic, reason = "a benchmark stops at what goes wrong")]
fn keys_of(array: &dyn Array) -> (Vec<i64>, Native) {
    use arrow_schema::DataType as T;
    macro_rules! keys {
        ($native:ident, $type:ty, $key:expr) => {
            (array.as_primitive::<$type>().values().iter().map($key).collect(), Native::$native)
        };
    }
    match array.data_type() {
        T::Int32 => keys!(I32, Int32Type, |v| i64::from(*v)),
        T::Int64 => keys!(I64, Int64Type, |v| *v),
        T::Date32 => keys!(I32, Date32Type, |v| i64::from(*v)),
        T::Float64 => keys!(F64, Float64Type, |v| keys::of_f64(*v)),
        T::Timestamp(..) => keys!(I64, TimestampMicrosecondType, |v| *v),
        T::Decimal128(..) => keys!(I64, Decimal128Type, |v| i64::try_from(*v).unwrap_or(i64::MAX)),
        other => panic!("no keys of {other}"),
    }
}

/// Measures keys by all encodings.
#[allow(clippy::unwrap_used, reason = "a benchmark stops at what goes wrong")]
fn measure_keys(keys: &[i64], native: Native, valid: Option<&[u64]>) -> Measured {
    let encode = |forced: Option<&str>| encode_keys(keys, native, valid, forced).unwrap().column;
    let chosen = encode(None);
    let mut decoded = vec![0; keys.len()];
    chosen.decode(0, &mut decoded);
    let selected = |row: usize| valid.is_none_or(|mask| mask[row / 64] >> (row % 64) & 1 == 1);
    let right = |(row, (decoded, key))| decoded == key || !selected(row);
    assert!(decoded.iter().zip(keys).enumerate().all(right), "{} decodes to other keys", chosen.name());

    let stats = || KeyStats::new(black_box(keys), native);
    measure_encodings(
        KEY_ENCODINGS.iter().map(|encoding| encoding.name()),
        |forced| {
            let column = encode(forced);
            (column.name(), column.buffer().len())
        },
        || drop(black_box(stats())),
        || {
            let stats = stats();
            black_box(
                KEY_ENCODINGS.iter().filter_map(|encoding| encoding.estimate(&stats, &ENCODINGS)).count(),
            );
        },
    )
}

/// Measures texts by all encodings.
#[allow(clippy::unwrap_used, reason = "a benchmark stops at what goes wrong")]
fn measure_texts(texts: &StringArray) -> Measured {
    let encode = |forced: Option<&str>| encode_texts(texts, forced).unwrap().column;
    let chosen = encode(None);
    let decoded = chosen.decode(0, texts.len(), None);
    let right = |(text, decoded): (Option<&str>, &str)| text.is_none_or(|text| text == decoded);
    assert!(texts.iter().zip(decoded.iter()).all(right), "{} decodes to other texts", chosen.name());

    let stats = || TextStats::new(black_box(texts));
    measure_encodings(
        TEXT_ENCODINGS.iter().map(|encoding| encoding.name()),
        |forced| {
            let column = encode(forced);
            (column.name(), column.buffer().len())
        },
        || drop(black_box(stats())),
        || {
            let stats = stats();
            black_box(
                TEXT_ENCODINGS.iter().filter_map(|encoding| encoding.estimate(&stats, &ENCODINGS)).count(),
            );
        },
    )
}

/// Encodes by the chooser and by every name, which say what they made and its bytes, and times the choice: `stats`
/// makes the statistics, `estimates` makes the statistics and the size estimates.
fn measure_encodings(
    names: impl Iterator<Item = &'static str>,
    encode: impl Fn(Option<&str>) -> (String, usize),
    mut stats: impl FnMut(),
    mut estimates: impl FnMut(),
) -> Measured {
    let (chosen, ours) = encode(None);
    let outermost = chosen.split('(').next();
    let least_of =
        |(name, bytes), other: (String, usize)| if other.1 < bytes { other } else { (name, bytes) };
    let (smallest_name, smallest) =
        names.map(|name| encode(Some(name))).fold((chosen.clone(), ours), least_of);
    let [encoding, forced, statistics, with_estimates] = least([
        &mut || drop(black_box(encode(None))),
        &mut || drop(black_box(encode(outermost))),
        &mut stats,
        &mut estimates,
    ]);
    Measured {
        ours,
        smallest,
        chosen: vec![chosen],
        smallest_names: vec![smallest_name],
        encoding,
        choosing: (encoding - forced).max(0.0) + (with_estimates - statistics).max(0.0),
        ..Measured::default()
    }
}

/// The least seconds of each, called in turns.
fn least<const N: usize>(mut calls: [&mut dyn FnMut(); N]) -> [f64; N] {
    let mut least = [Duration::MAX; N];
    let begin = Instant::now();
    let mut turns = 0;
    while turns < LEAST_TURNS || (begin.elapsed() < ENOUGH && !timing::small()) {
        turns += 1;
        for (least, call) in least.iter_mut().zip(&mut calls) {
            let start = Instant::now();
            call();
            *least = start.elapsed().min(*least);
        }
    }
    least.map(|least| least.as_secs_f64())
}
