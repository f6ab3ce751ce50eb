//! Reading entropy coded columns: a block, or those of its runs that are asked for, is decoded to its image, and the work
//! is done on that.

use std::cell::{Cell, RefCell};

use arrow_buffer::{Buffer, ScalarBuffer};
use basalt_kernels::{
    self as kernels, packed,
    rans::{BUCKETS, BYTES, NO_BUCKET, SIDE_BY_SIDE, Table, VECTOR_BYTES, VECTOR_WORDS},
};

use super::{
    image::{Image, bytes_of_codes},
    runs::{Form, Runs},
};
use crate::{
    encoding::{
        Costs, KeyColumn, KeyTest,
        bytes::{Reader, corrupt, ensure, index},
        cache::{Blocks, Id, with_block, with_cached},
        fallback, mask,
    },
    error::Result,
    invariant::Invariant,
    limits::{BLOCK_ROWS, BLOCK_WORDS},
};

/// What the encoding is called.
pub(super) const NAME: &str = "entropy";
/// Keys, at most.
pub(super) const MAX_KEYS: usize = 256;

/// Ranges of codes that are compared one by one; of more, which only codes of a byte have, each row is looked up.
const MAX_RANGES: usize = 8;
/// Where more than one part in so many of a block's image is left out, what is asked for is decoded alone.
const LEFT_OUT: usize = 4;

thread_local! {
    /// Where runs are decoded to.
    static RUNS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// The start of the run that a row was read of last.
    static START: RefCell<Start> = const { RefCell::new(Start { run: None, words: Vec::new() }) };
    /// The block of a column in which rows were leaped to last, and how many runs were decoded for that.
    static LEAPS: Cell<Option<(Id, usize, usize)>> = const { Cell::new(None) };
}

/// The start of a run.
struct Start {
    /// The column, the block, and which of its runs it is.
    run: Option<(Id, usize, usize)>,
    /// As many words as are decoded, and a vector.
    words: Vec<u64>,
}

/// An entropy coded column.
#[derive(Debug)]
pub(super) struct Column {
    buffer: Buffer,
    id: Id,
    rows: usize,
    /// The keys by code. Every one of them occurs.
    keys: Vec<i64>,
    /// What the keys are apart, where that is the same for all of them.
    step: Option<i64>,
    table: Box<Table>,
    runs: Runs,
}

/// A run of a block, and how many words of it are asked for, from its first one on: whole vectors.
#[derive(Clone, Copy)]
struct Wanted {
    run: usize,
    words: usize,
}

/// Rows of one block.
#[derive(Clone, Copy)]
struct Part {
    block: usize,
    /// The first row, in the block.
    from: usize,
    rows: usize,
    /// Rows asked for that come before.
    at: usize,
}

impl Part {
    fn words<'m>(&self, mask: &'m [u64]) -> &'m [u64] {
        &mask[self.at / 64..][..self.rows.div_ceil(64)]
    }
}

/// The image of a block, decoded.
#[derive(Clone, Copy)]
struct Codes<'a> {
    width: u32,
    words: &'a [u64],
    from: usize,
    rows: usize,
}

impl Column {
    /// Opens a column that is still to be [checked](Self::check).
    pub(super) fn open(buffer: Buffer) -> Result<Self> {
        let (head, native, mut reader) = Reader::keys(buffer.clone())?;
        let count = usize::from(head.params[0]) + 1;
        ensure(count > 1, "unknown parameters")?;
        let form = Form::of_param(Image::new(count, 1), head.params[1])?;
        let frequencies: ScalarBuffer<u16> = reader.section(BUCKETS)?;
        let keys: Vec<i64> = (0..count).map(|_| reader.key(native)).collect::<Result<_>>()?;
        ensure(keys.is_sorted_by(|a, b| a < b), "the keys are not in order")?;
        let mut bucket_of = [NO_BUCKET; BYTES];
        let pairs = reader.skip(bytes_of_codes(count).count().div_ceil(2))?;
        for (i, byte) in bytes_of_codes(count).enumerate() {
            bucket_of[byte] = pairs[i / 2] >> (i % 2 * 4) & 15;
        }
        let table = frequencies.first_chunk().and_then(|frequencies| Table::new(frequencies, &bucket_of));
        let table = table.ok_or_else(|| corrupt("the buckets do not share the slots"))?;
        let runs = Runs::open(&mut reader, form, count, head.rows)?;
        reader.finish()?;
        let step = keys[1].checked_sub(keys[0]);
        let even = |step: &i64| keys.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(*step));
        let step = step.filter(even);
        Ok(Self { buffer, id: Id::new(), rows: head.rows, keys, step, table: Box::new(table), runs })
    }

    /// That the least and the greatest key occur: most often the first block tells.
    pub(super) fn check(&self) -> Result<()> {
        let (mut least, mut greatest) = (MAX_KEYS, 0);
        for part in self.parts(0, self.rows) {
            let extremes = self.scan(part, |codes| codes.min_max(None));
            let (min, max) = extremes.invariant("a block has a row");
            (least, greatest) = (least.min(index(min)), greatest.max(index(max)));
            if least == 0 && greatest == self.keys.len() - 1 {
                return Ok(());
            }
        }
        ensure(false, "a key does not occur")
    }

    /// The blocks that hold the rows, each with its part of them.
    fn parts(&self, start: usize, rows: usize) -> impl Iterator<Item = Part> + use<> {
        let blocks = start / BLOCK_ROWS..(start + rows).div_ceil(BLOCK_ROWS);
        blocks.map(move |block| {
            let first = block * BLOCK_ROWS;
            let from = start.max(first);
            let to = (start + rows).min(first + BLOCK_ROWS);
            Part { block, from: from - first, rows: to - from, at: from - start }
        })
    }

    /// The image of a block.
    fn image(&self, block: usize) -> Image {
        Image::new(self.keys.len(), BLOCK_ROWS.min(self.rows - block * BLOCK_ROWS))
    }

    /// Calls `work` with the codes of rows of a block, where blocks are read one after the other. Few rows from within a
    /// block are a leap: their runs are decoded alone.
    fn scan<R>(&self, part: Part, work: impl FnOnce(Codes<'_>) -> R) -> R {
        let image = self.image(part.block);
        let width = image.width;
        if part.from > 0 && part.rows <= image.rows / LEFT_OUT && !self.is_cached(part.block) {
            let rows = self.runs.rows();
            let end = part.from + part.rows;
            let runs = part.from / rows..end.div_ceil(rows);
            let runs: Vec<Wanted> =
                runs.map(|run| self.wanted(image, run, (end - run * rows).min(rows) - 1)).collect();
            if self.leaps(part.block, runs.len()) {
                return self.with_runs(part.block, &runs, |words| {
                    work(Codes { width, words, from: part.from % rows, rows: part.rows })
                });
            }
        }
        // Where a block has few runs, those of the next ones are decoded beside them.
        let blocks =
            (self.rows.div_ceil(BLOCK_ROWS) - part.block).min(SIDE_BY_SIDE.div_ceil(self.runs.per_block()));
        let begins = part.block == 0 && part.rows == image.rows;
        let ahead = |follows| if follows || begins { blocks } else { 1 };
        with_block((self.id, part.block), self, ahead, |words| {
            work(Codes { width, words, from: part.from, rows: part.rows })
        })
    }

    /// Whether runs of a block are decoded alone. Who leaps to rows of one block again and again reads it faster decoded.
    fn leaps(&self, block: usize, runs: usize) -> bool {
        let before = LEAPS.get().filter(|(id, last, _)| (*id, *last) == (self.id, block));
        // Default: none was decoded before the first leap.
        let runs = before.map_or(0, |(_, _, runs)| runs) + runs;
        LEAPS.set(Some((self.id, block, runs)));
        before.is_none() || runs <= self.runs.per_block() / LEFT_OUT
    }

    /// Whether the thread has the block at hand.
    fn is_cached(&self, block: usize) -> bool {
        with_cached((self.id, block), |_| ()).is_some()
    }

    /// A run up to a row, which is counted from its first.
    fn wanted(&self, image: Image, run: usize, row: usize) -> Wanted {
        let vector = row / (image.rows_of_byte() * VECTOR_BYTES);
        Wanted { run, words: (vector + 1) * VECTOR_WORDS }
    }

    /// Whether runs are so much less than a block's image that they are decoded alone.
    fn are_few(image: Image, runs: &[Wanted]) -> bool {
        let words: usize = runs.iter().map(|run| run.words).sum();
        words + image.words() / LEFT_OUT < image.words()
    }

    /// Calls `work` with the images of runs of a block, which ascend, as far as they are wanted: each begins where the one
    /// before would end if all of it were.
    fn with_runs<R>(&self, block: usize, runs: &[Wanted], work: impl FnOnce(&[u64]) -> R) -> R {
        let each = self.runs.words_of_run();
        // What is decoded, and `work`, may read other columns.
        let mut words = RUNS.take();
        if words.len() < runs.len() * each + VECTOR_WORDS {
            words.resize(runs.len() * each + VECTOR_WORDS, 0);
        }
        let images = runs.iter().zip(words.chunks_mut(each));
        let images = images.map(|(wanted, words)| (wanted.run, &mut words[..wanted.words]));
        self.runs.decode(&self.table, block, images);
        let result = work(&words);
        RUNS.set(words);
        result
    }

    /// The runs of a block that hold rows which a mask selects; `None` where that is nearly all of it, or the block is at
    /// hand.
    fn few_runs(&self, part: Part, mask: &[u64]) -> Option<Vec<Wanted>> {
        let words = self.runs.rows() / 64;
        if !part.from.is_multiple_of(self.runs.rows()) || self.is_cached(part.block) {
            return None;
        }
        let first = part.from / self.runs.rows();
        let image = self.image(part.block);
        let of_run = |(run, mask): (usize, &[u64])| {
            let last = mask.iter().rposition(|&word| word != 0)?;
            Some(self.wanted(image, run, 64 * last + index(u64::from(mask[last].ilog2()))))
        };
        let runs: Vec<Wanted> = (first..).zip(mask.chunks(words)).filter_map(of_run).collect();
        Self::are_few(image, &runs).then_some(runs)
    }

    /// Calls `work` with the codes of each block's part of rows, and the words of a mask that are its own.
    fn each<'m>(
        &self,
        start: usize,
        rows: usize,
        mask: Option<&'m [u64]>,
        mut work: impl FnMut(Codes<'_>, Option<&'m [u64]>),
    ) {
        let any = |mask: &[u64]| mask.iter().any(|&word| word != 0);
        for part in self.parts(start, rows) {
            let Some(mask) = mask.map(|mask| part.words(mask)) else {
                self.scan(part, |codes| work(codes, None));
                continue;
            };
            let Some(runs) = self.few_runs(part, mask) else {
                if any(mask) {
                    self.scan(part, |codes| work(codes, Some(mask)));
                }
                continue;
            };
            let (width, rows) = (self.image(part.block).width, self.runs.rows());
            self.with_runs(part.block, &runs, |words| {
                for (i, &Wanted { run, .. }) in runs.iter().enumerate() {
                    let words = &words[i * self.runs.words_of_run()..];
                    let from = run * rows - part.from;
                    let rows = rows.min(part.rows - from);
                    let mask = &mask[from / 64..][..rows.div_ceil(64)];
                    work(Codes { width, words, from: 0, rows }, Some(mask));
                }
            });
        }
    }

    /// The code of a row: of its block, where the thread has that at hand, else of its run, decoded as far as the row.
    /// Who asks a run again has all of it decoded.
    fn code(&self, row: usize) -> u64 {
        let (block, from) = (row / BLOCK_ROWS, row % BLOCK_ROWS);
        let width = self.image(block).width;
        let cached = with_cached((self.id, block), |words| Codes { width, words, from, rows: 1 }.get());
        cached.unwrap_or_else(|| {
            let (run, from) = (from / self.runs.rows(), from % self.runs.rows());
            START.with_borrow_mut(|start| {
                let same = start.run == Some((self.id, block, run));
                let vector = from / (self.image(block).rows_of_byte() * VECTOR_BYTES);
                let wanted = (vector + 1) * VECTOR_WORDS;
                if !same || start.words.len() < wanted + VECTOR_WORDS {
                    let words = if same { self.runs.words(block, run) } else { wanted };
                    start.words.resize(words + VECTOR_WORDS, 0);
                    start.run = Some((self.id, block, run));
                    self.runs.decode_one(&self.table, block, run, &mut start.words[..words]);
                }
                Codes { width, words: &start.words, from, rows: 1 }.get()
            })
        })
    }

    fn key(&self, code: u64) -> i64 {
        self.keys[index(code)]
    }

    /// Writes the keys of rows of an image.
    fn pick(&self, width: u32, words: &[u64], places: &[u16], out: &mut [i64]) {
        if width == 1 {
            for (key, place) in out.iter_mut().zip(places) {
                *key = self.key(Codes { width, words, from: usize::from(*place), rows: 1 }.get());
            }
        } else {
            packed::gather(width, words, 0, places, 0, out);
            out.iter_mut().for_each(|key| *key = self.key(key.cast_unsigned()));
        }
    }
}

impl Codes<'_> {
    /// The mask words of the rows that have code 1.
    fn ones(&self) -> &[u64] {
        &self.words[self.from / 64..][..self.rows.div_ceil(64)]
    }

    /// The number of rows that have code 1.
    fn count_ones(&self, mask: Option<&[u64]>) -> usize {
        match mask {
            Some(mask) => {
                self.ones().iter().zip(mask).map(|(ones, mask)| (ones & mask).count_ones() as usize).sum()
            }
            None => mask::count_range(Some(self.ones()), 0, self.rows),
        }
    }

    fn get(&self) -> u64 {
        match self.width {
            1 => self.words[self.from / 64] >> (self.from % 64) & 1,
            width => packed::get(width, self.words, self.from),
        }
    }

    fn between(&self, lo: u64, hi: u64, out: &mut [u64]) {
        packed::between(self.width, self.words, self.from, self.rows, lo, hi, out);
    }

    /// The codes as bytes, of a width of 8.
    fn bytes(&self) -> impl Iterator<Item = usize> {
        let bytes = self.words[self.from / 8..].iter().flat_map(|word| word.to_le_bytes());
        bytes.take(self.rows).map(usize::from)
    }

    /// The mask of the rows whose code passes: of some codes, but not of all.
    fn filter(&self, passes: &[bool], out: &mut [u64]) {
        if self.width == 1 {
            out.copy_from_slice(self.ones());
            if passes[0] {
                kernels::mask::not(out, self.rows);
            } else if let Some(last) = out.last_mut() {
                *last &= u64::MAX >> ((64 - self.rows % 64) % 64);
            }
            return;
        }
        // Where fewer ranges fail than pass, those are looked for.
        let inverted = passes[0] && passes[passes.len() - 1];
        let mut ranges = [(0, 0); MAX_RANGES];
        let mut count = 0;
        let mut code = 0;
        for run in passes.chunk_by(|a, b| a == b) {
            let last = code + run.len() as u64 - 1;
            if run[0] != inverted {
                if let Some(range) = ranges.get_mut(count) {
                    *range = (code, last);
                }
                count += 1;
            }
            code = last + 1;
        }
        if count > MAX_RANGES {
            let flags: Vec<u8> = self.bytes().map(|code| u8::from(passes[code])).collect();
            return kernels::compare(kernels::CmpOp::Eq, &flags, 1, out);
        }
        self.between(ranges[0].0, ranges[0].1, out);
        let mut more = [0; BLOCK_WORDS];
        let more = &mut more[..out.len()];
        for &(lo, hi) in ranges.iter().take(count).skip(1) {
            self.between(lo, hi, more);
            kernels::mask::or(out, more);
        }
        if inverted {
            kernels::mask::not(out, self.rows);
        }
    }

    fn sum(&self, mask: Option<&[u64]>) -> u128 {
        match mask {
            _ if self.width == 1 => self.count_ones(mask) as u128,
            Some(mask) => packed::sum_masked(self.width, self.words, self.from, self.rows, mask),
            None => packed::sum(self.width, self.words, self.from, self.rows),
        }
    }

    /// How many rows have each of the codes.
    fn counts(&self, mask: Option<&[u64]>, counts: &mut [u64]) {
        if self.width == 8 {
            match mask {
                Some(mask) => {
                    let bytes = |row: usize| self.words[(self.from + row) / 8].to_le_bytes()[row % 8];
                    kernels::mask::for_each(mask, |row| counts[usize::from(bytes(row))] += 1);
                }
                None => self.bytes().for_each(|code| counts[code] += 1),
            }
            return;
        }
        if self.width == 1 {
            let ones = self.count_ones(mask);
            counts[0] += (mask.map_or(self.rows, mask::count_ones) - ones) as u64;
            counts[1] += ones as u64;
            return;
        }
        let mut rows = [0; BLOCK_WORDS];
        let rows = &mut rows[..self.rows.div_ceil(64)];
        for (code, count) in (0..).zip(counts) {
            self.between(code, code, rows);
            if let Some(mask) = mask {
                kernels::mask::and(rows, mask);
            }
            *count += kernels::mask::count_ones(rows);
        }
    }

    fn min_max(&self, mask: Option<&[u64]>) -> Option<(u64, u64)> {
        if self.width == 1 {
            let (ones, rows) = (self.count_ones(mask), mask.map_or(self.rows, mask::count_ones));
            return (rows > 0).then(|| (u64::from(ones == rows), u64::from(ones > 0)));
        }
        match mask {
            Some(mask) => packed::min_max_masked(self.width, self.words, self.from, self.rows, mask),
            None => packed::min_max(self.width, self.words, self.from, self.rows),
        }
    }
}

impl Blocks for Column {
    /// Those of the image, and a vector of zeros.
    fn words(&self, block: usize) -> usize {
        self.image(block).words() + VECTOR_WORDS
    }

    fn decode(&self, first: usize, out: &mut [&mut [u64]]) {
        let images = (first..).zip(out).map(|(block, out)| {
            let (image, behind) = out.split_at_mut(self.image(block).words());
            behind.fill(0);
            image
        });
        self.runs.decode_blocks(&self.table, first, images);
    }
}

impl KeyColumn for Column {
    fn rows(&self) -> usize {
        self.rows
    }

    fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn decode(&self, start: usize, out: &mut [i64]) {
        for part in self.parts(start, out.len()) {
            let out = &mut out[part.at..][..part.rows];
            self.scan(part, |codes| {
                if codes.width == 1 {
                    for (out, word) in out.chunks_mut(64).zip(codes.ones()) {
                        for (i, out) in out.iter_mut().enumerate() {
                            *out = self.keys[index(word >> i & 1)];
                        }
                    }
                } else if self.step == Some(1) {
                    packed::unpack(codes.width, codes.words, codes.from, self.keys[0], out);
                } else {
                    packed::unpack(codes.width, codes.words, codes.from, 0, out);
                    out.iter_mut().for_each(|key| *key = self.key(key.cast_unsigned()));
                }
            });
        }
    }

    /// Decodes the row's run up to it, unless this thread has it at hand.
    fn get(&self, row: usize) -> i64 {
        self.key(self.code(row))
    }

    fn gather(&self, start: usize, places: &[u16], out: &mut [i64]) {
        let block = start / BLOCK_ROWS;
        let image = self.image(block);
        let rows = self.runs.rows();
        let of_run = places.chunk_by(|a, b| usize::from(*a) / rows == usize::from(*b) / rows);
        let of_run = of_run.filter_map(|places| places.last()).map(|place| usize::from(*place));
        let runs: Vec<Wanted> = of_run.map(|last| self.wanted(image, last / rows, last % rows)).collect();
        if Self::are_few(image, &runs) && !self.is_cached(block) {
            return self.with_runs(block, &runs, |words| {
                let mut at = 0;
                let places = places.iter().map(|place| {
                    let (run, row) = (usize::from(*place) / rows, usize::from(*place) % rows);
                    while runs[at].run != run {
                        at += 1;
                    }
                    u16::try_from(at * rows + row).invariant("runs of a block have its rows at most")
                });
                self.pick(image.width, words, &places.collect::<Vec<_>>(), out);
            });
        }
        let part = Part { block, from: 0, rows: image.rows, at: 0 };
        self.scan(part, |codes| self.pick(codes.width, codes.words, places, out));
    }

    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        let passes: Vec<bool> = match test.over(&self.keys) {
            KeyTest::Range { lo, hi } => {
                (0..).zip(&self.keys).map(|(code, _)| (lo..=hi).contains(&code)).collect()
            }
            KeyTest::In(_) => self.keys.iter().map(|&key| test.passes(key)).collect(),
        };
        if passes.iter().all(|&p| p == passes[0]) {
            return mask::set_all(out, rows, passes[0]);
        }
        for part in self.parts(start, rows) {
            let out = &mut out[part.at / 64..][..part.rows.div_ceil(64)];
            self.scan(part, |codes| codes.filter(&passes, out));
        }
    }

    fn sum(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> i128 {
        if let Some(step) = self.step {
            let mut codes = 0;
            self.each(start, rows, mask, |part, mask| codes += part.sum(mask));
            let rows = mask.map_or(rows, mask::count_ones);
            return i128::from(self.keys[0]) * rows as i128 + i128::from(step) * codes.cast_signed();
        }
        let mut counts = vec![0; self.keys.len()];
        self.each(start, rows, mask, |part, mask| part.counts(mask, &mut counts));
        self.keys.iter().zip(counts).map(|(&key, n)| i128::from(key) * i128::from(n)).sum()
    }

    fn min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        if rows == self.rows && mask.is_none() {
            return Some((self.keys[0], self.keys[self.keys.len() - 1]));
        }
        let mut extremes = None;
        self.each(start, rows, mask, |part, mask| {
            let part = part.min_max(mask).map(|(min, max)| (self.key(min), self.key(max)));
            extremes = fallback::widen(extremes, part);
        });
        extremes
    }

    fn costs(&self) -> Costs {
        // A set is asked about each key, once.
        let filter = [80, 190, 270, 420][self.image(0).width.trailing_zeros() as usize];
        Costs { filter, look_up: 0, get: 200 }
    }
}
