//! The runs that a column's images are cut into: how long they are, and where their streams lie.

use std::cmp::Reverse;

use arrow_buffer::{Buffer, ScalarBuffer};
use basalt_kernels::rans::{Stream, Table, decode_bytes};

use super::image::Image;
use crate::{
    encoding::bytes::{Reader, ensure},
    error::Result,
    invariant::Invariant,
    limits::BLOCK_ROWS,
    schema::Optimize,
};

/// Bits that a run's stream takes beyond the information in it, about.
pub(super) const WASTE: f64 = 62.0;
/// The same with its line in the index.
const RUN_BITS: f64 = WASTE + 24.0;
/// Bits that runs may cost a row, and what part of the information.
const MOST_BITS: f64 = 0.05;
const MOST_SHARE: f64 = 1.0 / 40.0;
/// A run has so many bytes, as a power of two, ...
const RUN_BYTES: std::ops::RangeInclusive<u32> = 9..=13;
/// ... and up to so many where nothing but the size counts. Bytes of 16 bits each come to no more words than a run counts.
const LONGEST: u32 = 15;
/// A tail's unit, as a power of two, is at most a vector.
const MAX_UNIT: u32 = 6;
/// Bits that a tail is cut to, about.
const UNIT_BITS: f64 = 8.0;

/// The longest run of a column with images of this width: no longer than a block.
fn longest(image: Image) -> u32 {
    LONGEST.min(Image { rows: BLOCK_ROWS, ..image }.bytes().ilog2())
}

/// The form of a column's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// Of a run's bytes.
    log_bytes: u32,
    /// Of the bytes of a tail's unit.
    log_unit: u32,
}

impl Form {
    /// The form for images that have so many bits of information in a byte.
    pub(super) fn new(image: Image, bits: f64, optimize: Optimize) -> Self {
        let fits = |log: &u32| {
            let bytes = f64::from(1_u32 << log);
            RUN_BITS <= MOST_BITS * bytes * image.rows_of_byte() as f64
                && RUN_BITS <= MOST_SHARE * bytes * bits
        };
        let log_bytes = match optimize {
            Optimize::Size => longest(image),
            // Default: nothing is short enough to make longer runs cheap.
            _ => RUN_BYTES.clone().find(fits).unwrap_or(*RUN_BYTES.end()),
        };
        let log_unit = (0..MAX_UNIT).find(|log| f64::from(2_u32 << log) * bits > UNIT_BITS);
        Self { log_bytes, log_unit: log_unit.unwrap_or(MAX_UNIT) }
    }

    /// The form that a head's parameter stands for.
    pub(super) fn of_param(image: Image, param: u8) -> Result<Self> {
        let form = Self { log_bytes: u32::from(param % 16), log_unit: u32::from(param / 16) };
        let lengths = *RUN_BYTES.start()..=longest(image);
        ensure(lengths.contains(&form.log_bytes) && form.log_unit <= MAX_UNIT, "unknown parameters")?;
        Ok(form)
    }

    pub(super) fn param(self) -> u8 {
        (self.log_unit << 4 | self.log_bytes).to_le_bytes()[0]
    }

    pub(super) fn unit(self) -> usize {
        1 << self.log_unit
    }

    fn run_bytes(self) -> usize {
        1 << self.log_bytes
    }

    pub(super) fn run_words(self) -> usize {
        self.run_bytes() / 8
    }

    /// The runs of a block.
    pub(super) fn runs(self, image: Image) -> usize {
        image.bytes().div_ceil(self.run_bytes())
    }
}

/// The streams of a column's runs.
#[derive(Debug)]
pub(super) struct Runs {
    form: Form,
    /// The image of a whole block.
    whole: Image,
    /// Bytes of the last block's image.
    last_bytes: usize,
    tails: Buffer,
    lengths: ScalarBuffer<u16>,
    words: ScalarBuffer<u16>,
    /// Where the words of each block begin.
    blocks: Vec<usize>,
}

impl Runs {
    /// Reads what lies behind the table.
    pub(super) fn open(reader: &mut Reader, form: Form, keys: usize, rows: usize) -> Result<Self> {
        let images: Vec<Image> = Image::of_blocks(keys, rows).collect();
        let whole = Image::new(keys, BLOCK_ROWS);
        let runs: usize = images.iter().map(|image| form.runs(*image)).sum();
        let tails = reader.skip(runs)?;
        reader.align(2)?;
        let lengths: ScalarBuffer<u16> = reader.section(runs)?;
        let words: ScalarBuffer<u16> = reader.section(lengths.iter().map(|&n| usize::from(n)).sum())?;
        let mut first = 0;
        let blocks = lengths.chunks(form.runs(whole)).map(|lengths| {
            let block = first;
            first += lengths.iter().map(|&n| usize::from(n)).sum::<usize>();
            block
        });
        let blocks = blocks.collect();
        let last = images.last().invariant("a column has a row");
        let last_bytes = last.bytes();
        let runs = Self { form, whole, last_bytes, tails, lengths, words, blocks };
        let per_block = runs.per_block();
        let fits = |(run, &units): (usize, &u8)| {
            usize::from(units) * form.unit() <= runs.bytes(run / per_block, run % per_block)
        };
        ensure(runs.tails.iter().enumerate().all(fits), "a tail is longer than its run")?;
        Ok(runs)
    }

    /// The runs of a whole block.
    pub(super) fn per_block(&self) -> usize {
        self.form.runs(self.whole)
    }

    /// Rows of a run.
    pub(super) fn rows(&self) -> usize {
        self.form.run_bytes() * self.whole.rows_of_byte()
    }

    /// Words that a run decodes to, but for the last.
    pub(super) fn words_of_run(&self) -> usize {
        self.form.run_words()
    }

    /// Bytes that a run of a block decodes to.
    fn bytes(&self, block: usize, run: usize) -> usize {
        let image = if block + 1 == self.blocks.len() { self.last_bytes } else { self.whole.bytes() };
        self.form.run_bytes().min(image - run * self.form.run_bytes())
    }

    /// Words that a run of a block decodes to.
    pub(super) fn words(&self, block: usize, run: usize) -> usize {
        self.bytes(block, run) / 8
    }

    /// The streams of runs of a block, which ascend, each with where what is wanted of it goes.
    fn streams<'a>(
        &'a self,
        block: usize,
        runs: impl Iterator<Item = (usize, &'a mut [u64])>,
        streams: &mut Vec<Stream<'a>>,
    ) {
        let first = block * self.per_block();
        let (mut at, mut next) = (self.blocks[block], 0);
        for (run, out) in runs {
            at += self.lengths[first + next..first + run].iter().map(|&n| usize::from(n)).sum::<usize>();
            next = run;
            streams.push(Stream {
                words: &self.words[at..at + usize::from(self.lengths[first + run])],
                bytes: self.bytes(block, run),
                tail: usize::from(self.tails[first + run]) * self.form.unit(),
                out,
            });
        }
    }

    /// Decodes runs of a block, which ascend, each as far as it is wanted.
    pub(super) fn decode<'a>(
        &'a self,
        table: &Table,
        block: usize,
        runs: impl Iterator<Item = (usize, &'a mut [u64])>,
    ) {
        let mut streams = Vec::new();
        self.streams(block, runs, &mut streams);
        // Those of about the same length are the fastest side by side.
        streams.sort_unstable_by_key(|stream| Reverse(stream.out.len()));
        decode_bytes(table, &mut streams);
    }

    /// Decodes the start of one run.
    pub(super) fn decode_one(&self, table: &Table, block: usize, run: usize, out: &mut [u64]) {
        let first = block * self.per_block();
        let before = self.lengths[first..first + run].iter().map(|&n| usize::from(n)).sum::<usize>();
        let words = &self.words[self.blocks[block] + before..][..usize::from(self.lengths[first + run])];
        let tail = usize::from(self.tails[first + run]) * self.form.unit();
        decode_bytes(table, &mut [Stream { words, bytes: self.bytes(block, run), tail, out }]);
    }

    /// Decodes the images of blocks, from `first` on.
    pub(super) fn decode_blocks<'a>(
        &'a self,
        table: &Table,
        first: usize,
        images: impl Iterator<Item = &'a mut [u64]>,
    ) {
        let mut streams = Vec::new();
        for (block, image) in (first..).zip(images) {
            self.streams(block, image.chunks_mut(self.form.run_words()).enumerate(), &mut streams);
        }
        decode_bytes(table, &mut streams);
    }
}
