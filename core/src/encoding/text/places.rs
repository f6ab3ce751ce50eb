//! Where the texts of a column begin in its bytes.
//!
//! In each unit of 512 rows the starts lie near a line, for lengths average out. So a unit has the start and the
//! slope of its line, and a row what it lies above it, bit-packed: no bits at all where texts have one length.
//! Numbers are u32 and wrap, for a line may begin below 0.
//!
//! | what | |
//! |---|---|
//! | the start of each unit's line | u32 |
//! | its slope: bytes for a row, times 2^12 | u32 |
//! | align 64: what each row lies above it | u64, `basalt_kernels::packed` |

use std::ops::Range;

use arrow_buffer::ScalarBuffer;

use crate::{
    encoding::{
        UNIT_ROWS, bitpack,
        bytes::{ALIGNMENT, Reader, Writer, bits, ensure, index},
    },
    error::Result,
    invariant::Invariant,
};

/// Bits of a slope below the point: half a byte is lost over a unit at most.
const SLOPE_BITS: u32 = 12;

/// The line of a unit.
#[derive(Clone, Copy, Debug)]
struct Line {
    start: u32,
    slope: u32,
}

impl Line {
    /// A line through the first and the last start, moved below all of them.
    fn below(starts: &[u32]) -> Self {
        let (first, last) = (starts[0], starts[starts.len() - 1]);
        let steps = (starts.len() as u64 - 1).max(1);
        // Default: a steeper line than the steepest is as good; what lies above it is more.
        let slope = u32::try_from((u64::from(last - first) << SLOPE_BITS) / steps).unwrap_or(u32::MAX);
        let line = Self { start: 0, slope };
        let lowest = (0..).zip(starts).map(|(i, &start)| i64::from(start) - i64::from(line.at(i))).min();
        Self { start: low_u32(lowest.invariant("a unit has a row").cast_unsigned()), slope }
    }

    fn at(self, row: u32) -> u32 {
        self.start.wrapping_add(low_u32((u64::from(row) * u64::from(self.slope)) >> SLOPE_BITS))
    }
}

#[allow(clippy::cast_possible_truncation, reason = "starts wrap")]
fn low_u32(n: u64) -> u32 {
    n as u32
}

/// What each start lies above the line.
fn heights(line: Line, starts: &[u32]) -> impl Iterator<Item = u32> {
    (0..).zip(starts).map(move |(i, start)| start.wrapping_sub(line.at(i)))
}

/// The most that a text begins above the line of its unit: it tells what the places take.
#[derive(Debug, Default)]
pub(super) struct Highest(PlaceBuilder);

impl Highest {
    /// Appends a text of so many bytes.
    pub(super) fn push(&mut self, length: usize) {
        self.0.push(length);
        self.0.heights.clear();
    }

    /// No more texts.
    pub(super) fn finish(mut self) -> u64 {
        self.0.flush();
        self.0.highest
    }
}

/// Starts that are to be written.
#[derive(Debug, Default)]
pub(super) struct PlaceBuilder {
    starts: Vec<u32>,
    end: u32,
    lines: Vec<Line>,
    /// Of the rows whose unit is full. Narrow, for there is one for each row while it is encoded.
    heights: Vec<u32>,
    /// The most that a start lies above its line.
    highest: u64,
}

impl PlaceBuilder {
    /// For so many texts, below 2^32 bytes in all.
    pub(super) fn new(rows: usize) -> Self {
        Self { heights: Vec::with_capacity(rows), ..Self::default() }
    }

    /// Appends a text of so many bytes.
    pub(super) fn push(&mut self, length: usize) {
        self.starts.push(self.end);
        self.end = self.end.wrapping_add(low_u32(length as u64));
        if self.starts.len() == UNIT_ROWS {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.starts.is_empty() {
            let line = Line::below(&self.starts);
            let from = self.heights.len();
            self.heights.extend(heights(line, &self.starts));
            let highest = self.heights[from..].iter().copied().max().invariant("a unit has a row");
            self.highest = self.highest.max(u64::from(highest));
            self.lines.push(line);
            self.starts.clear();
        }
    }

    /// No more texts.
    pub(super) fn finish(mut self) -> FinishedPlaces {
        self.flush();
        FinishedPlaces { lines: self.lines, heights: self.heights, highest: self.highest }
    }
}

/// Starts that are written.
#[derive(Debug)]
pub(super) struct FinishedPlaces {
    lines: Vec<Line>,
    heights: Vec<u32>,
    /// The most that a start lies above its line.
    pub(super) highest: u64,
}

impl FinishedPlaces {
    /// Bits of a height.
    pub(super) fn width(&self) -> u8 {
        bits(self.highest).to_le_bytes()[0]
    }

    /// Writes them.
    pub(super) fn write(&self, writer: &mut Writer) {
        self.lines.iter().for_each(|line| writer.put(line.start));
        self.lines.iter().for_each(|line| writer.put(line.slope));
        writer.align(ALIGNMENT);
        let width = bits(self.highest);
        let words = writer.zeros(bitpack::words(width, self.heights.len()));
        bitpack::pack_narrow(width, &self.heights, words);
    }
}

/// Bytes that the places of `rows` texts take behind `before` bytes, those included.
pub(super) fn end_of_places(before: usize, highest: u64, rows: usize) -> usize {
    let lines = (before + 8 * rows.div_ceil(UNIT_ROWS)).next_multiple_of(ALIGNMENT);
    lines + 8 * bitpack::words(bits(highest), rows)
}

/// Where each text begins.
#[derive(Debug)]
pub(super) struct Places {
    rows: usize,
    /// Where the last text ends.
    end: usize,
    width: u32,
    starts: ScalarBuffer<u32>,
    slopes: ScalarBuffer<u32>,
    words: ScalarBuffer<u64>,
}

/// The starts of a unit's texts, and where the last ends.
pub(super) type UnitPlaces = [usize; UNIT_ROWS + 1];

impl Places {
    /// Reads the places of `rows` texts of `bytes` bytes in all. None begins before another: that is checked unless they were
    /// `made` here.
    pub(super) fn read(reader: &mut Reader, width: u8, rows: usize, bytes: u32, made: bool) -> Result<Self> {
        let width = u32::from(width);
        ensure(width <= 32, "the width is out of bounds")?;
        let units = rows.div_ceil(UNIT_ROWS);
        let (starts, slopes) = (reader.section(units)?, reader.section(units)?);
        reader.align(ALIGNMENT)?;
        let words = reader.section(bitpack::words(width, rows))?;
        let places = Self { rows, end: bytes as usize, width, starts, slopes, words };
        ensure(places.start(0) == 0, "the first text does not begin at 0")?;
        ensure(made || places.ascend(), "a text begins out of order")?;
        Ok(places)
    }

    /// Whether no text begins before another.
    fn ascend(&self) -> bool {
        let (mut unit_places, mut last) = ([0; UNIT_ROWS + 1], 0);
        (0..self.starts.len()).all(|unit| {
            let places = self.unit(unit, &mut unit_places);
            let before = std::mem::replace(&mut last, places[places.len() - 1]);
            before <= places[0] && places.is_sorted()
        })
    }

    fn line(&self, unit: usize) -> Line {
        Line { start: self.starts[unit], slope: self.slopes[unit] }
    }

    fn heights(&self) -> bitpack::Codes<'_> {
        bitpack::Codes { width: self.width, words: &self.words }
    }

    fn start(&self, row: usize) -> usize {
        if row >= self.rows {
            return self.end;
        }
        let place = low_u32((row % UNIT_ROWS) as u64);
        self.line(row / UNIT_ROWS).at(place).wrapping_add(low_u32(self.heights().get(row))) as usize
    }

    /// Where the text of a row lies.
    pub(super) fn range(&self, row: usize) -> Range<usize> {
        self.start(row)..self.start(row + 1)
    }

    /// Rows of a unit.
    pub(super) fn unit_rows(&self, unit: usize) -> usize {
        (self.rows - unit * UNIT_ROWS).min(UNIT_ROWS)
    }

    /// Where the texts of a unit begin, and where the last of them ends.
    pub(super) fn unit<'a>(&self, unit: usize, out: &'a mut UnitPlaces) -> &'a [usize] {
        let (first, rows) = (unit * UNIT_ROWS, self.unit_rows(unit));
        let (mut heights, line) = ([0; UNIT_ROWS], self.line(unit));
        self.heights().unpack(first, 0, &mut heights[..rows]);
        for (i, (out, height)) in (0..).zip(out.iter_mut().zip(heights)) {
            *out = line.at(i).wrapping_add(low_u32(index(height.cast_unsigned()) as u64)) as usize;
        }
        out[rows] = self.start(first + rows);
        &out[..=rows]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn highest(lengths: impl Iterator<Item = usize>) -> u64 {
        let mut highest = Highest::default();
        lengths.for_each(|length| highest.push(length));
        highest.finish()
    }

    fn built(lengths: &[usize]) -> FinishedPlaces {
        let mut places = PlaceBuilder::new(lengths.len());
        lengths.iter().for_each(|length| places.push(*length));
        places.finish()
    }

    #[test]
    fn equal_lengths_take_no_bits() {
        for length in [0, 1, 18, 100_000] {
            assert_eq!(built(&[length; 2000]).width(), 0, "{length}");
            assert_eq!(highest([length; 2000].into_iter()), 0, "{length}");
        }
    }

    #[test]
    fn any_length_has_its_place() {
        for lengths in [vec![5], vec![0, 9], vec![70_000_000, 0, 3, 0, 0, 80_000_000], vec![0, 0, 7, 1, 1, 1]]
        {
            let lengths: Vec<usize> =
                lengths.iter().copied().cycle().take(600.min(12 * lengths.len())).collect();
            let built = built(&lengths);
            assert_eq!(highest(lengths.iter().copied()), built.highest);
            let head = crate::encoding::bytes::Head::text(0, [0; 2], 1);
            let mut writer = Writer::new(head, 0);
            built.write(&mut writer);
            let (_, mut reader) = Reader::text(crate::encoding::bytes::aligned(writer.finish())).unwrap();
            let total: usize = lengths.iter().sum();
            let bytes = u32::try_from(total).unwrap();
            let places = Places::read(&mut reader, built.width(), lengths.len(), bytes, false).unwrap();
            reader.finish().unwrap();
            let mut start = 0;
            for (row, length) in lengths.iter().enumerate() {
                assert_eq!(places.range(row), start..start + length);
                start += length;
            }
        }
    }
}
