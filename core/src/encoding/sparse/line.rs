//! Ascending numbers, each as its deviation from a straight line: where the others of a block begin.
//!
//! Random rows deviate little: n of them by about the square root of n, so that a number takes half of its bits.

use std::array;

use super::super::bytes::{Reader, Writer, bits, bits_at, count, ensure};
use crate::{error::Result, invariant::Invariant};

/// Bits of a deviation, at most.
const MAX_WIDTH: u32 = 24;

/// A line from 0 to the last number.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    last: u32,
    /// The least deviation from it.
    least: i32,
    /// Bits of what a deviation is above it.
    width: u32,
}

impl Line {
    fn new(numbers: &[u32]) -> Self {
        let last = numbers[numbers.len() - 1];
        let slope = slope(last, numbers.len() - 1);
        let deviations = || (0..).zip(numbers).map(|(i, &number)| i64::from(number) - on(slope, i));
        let bounds = deviations().min().zip(deviations().max());
        let (least, greatest) = bounds.invariant("a line has numbers");
        let width = bits((greatest - least).cast_unsigned());
        let least = i32::try_from(least).invariant("numbers are below 2^22, and so are their deviations");
        Self { last, least, width }
    }
}

/// The slope of a line, times 2^32 and rounded up, so that it ends at `last`.
fn slope(last: u32, steps: usize) -> u64 {
    (u64::from(last) << 32).div_ceil(steps as u64)
}

/// The height of a line.
fn on(slope: u64, step: u64) -> i64 {
    ((slope * step) >> 32).cast_signed()
}

/// How two lists of ascending numbers, each from 0 on, are held side by side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lines {
    lines: [Line; 2],
    /// Numbers but one.
    steps: usize,
}

impl Lines {
    /// Bytes of the lines themselves.
    pub(super) const HEAD: usize = 2 * 9;

    /// Of lists of the same length, two numbers or more.
    pub(super) fn new(lists: &[Vec<u32>; 2]) -> Self {
        Self { lines: array::from_fn(|i| Line::new(&lists[i])), steps: lists[0].len() - 1 }
    }

    /// The lines of lists that end where these would in `to` instead of `from` rows, with so many steps.
    pub(super) fn scaled(self, from: usize, to: usize, steps: usize) -> Self {
        let scaled = |last: u32| count(last as usize * to / from);
        Self { lines: self.lines.map(|line| Line { last: scaled(line.last), ..line }), steps }
    }

    /// The first line about as it is with so many steps, beside a list without deviations that ends at `last`.
    pub(super) fn with_steps(self, steps: usize, last: u32) -> Self {
        Self { lines: [self.lines[0], Line { last, ..Line::default() }], steps }
    }

    /// The last number of each list.
    pub(super) fn last(&self) -> [usize; 2] {
        self.lines.map(|line| line.last as usize)
    }

    fn width(&self) -> u32 {
        self.lines.iter().map(|line| line.width).sum()
    }

    /// Bytes of the deviations.
    pub(super) fn bytes(&self) -> usize {
        (self.width() as usize * (self.steps + 1)).div_ceil(8)
    }

    pub(super) fn write_head(&self, writer: &mut Writer) {
        for line in &self.lines {
            writer.put(line.last);
            writer.put(line.least);
            // At most 24.
            writer.put(line.width.to_le_bytes()[0]);
        }
    }

    pub(super) fn read_head(reader: &mut Reader, steps: usize) -> Result<Self> {
        let mut lines = [Line::default(); 2];
        for line in &mut lines {
            *line =
                Line { last: reader.u32()?, least: reader.u32()?.cast_signed(), width: reader.u8()?.into() };
            ensure(line.width <= MAX_WIDTH, "the deviations of a line are out of bounds")?;
        }
        Ok(Self { lines, steps })
    }

    /// The deviations of the lists, packed.
    pub(super) fn pack(&self, lists: &[Vec<u32>; 2]) -> Vec<u8> {
        let mut entries = vec![0; self.steps + 1];
        let mut shift = 0;
        for (line, list) in self.lines.iter().zip(lists) {
            let slope = slope(line.last, self.steps);
            for ((step, entry), &number) in (0..).zip(&mut entries).zip(list) {
                let deviation = i64::from(number) - on(slope, step) - i64::from(line.least);
                *entry |= deviation.cast_unsigned() << shift;
            }
            shift += line.width;
        }
        let mut bytes = vec![0; self.bytes()];
        basalt_kernels::bits::pack(&entries, self.width(), &mut bytes);
        bytes
    }

    /// What makes numbers of deviations.
    pub(super) fn reader(&self) -> LinesReader {
        let mut shift = 0;
        let lines = self.lines.map(|line| {
            let low = shift;
            shift += line.width;
            LineReader {
                slope: slope(line.last, self.steps),
                least: line.least.into(),
                shift: low,
                mask: (1 << line.width) - 1,
            }
        });
        LinesReader { lines, width: shift as usize }
    }
}

#[derive(Clone, Copy, Debug)]
struct LineReader {
    slope: u64,
    least: i64,
    shift: u32,
    mask: u64,
}

/// Reads numbers at any place.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinesReader {
    lines: [LineReader; 2],
    width: usize,
}

impl LinesReader {
    /// The numbers at a place; of spoilt bytes any number.
    #[inline]
    pub(super) fn get(&self, bytes: &[u8], step: usize) -> [usize; 2] {
        let entry = bits_at(bytes, step * self.width);
        self.lines.map(|line| {
            let deviation = (entry >> line.shift & line.mask).cast_signed();
            // Wraps where bytes are spoilt; then the numbers do not ascend.
            let number = on(line.slope, step as u64).wrapping_add(line.least).wrapping_add(deviation);
            // Default: more than any, so that the numbers do not ascend.
            usize::try_from(number).unwrap_or(usize::MAX >> 8)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let lists: [[Vec<u32>; 2]; 4] = [
            [vec![0, 7], vec![0, 0]],
            [vec![0, 0, 0, 9], vec![0, 9, 9, 9]],
            [(0..2049).map(|i| i * 512).collect(), (0..2049).map(|i| i * i / 8).collect()],
            [(0..77).map(|i| i * 1000 + i * i * 7919 % 997).collect(), (0..77).collect()],
        ];
        for lists in lists {
            let lines = Lines::new(&lists);
            let (bytes, reader) = (lines.pack(&lists), lines.reader());
            for (step, numbers) in lists[0].iter().zip(&lists[1]).enumerate() {
                assert_eq!(reader.get(&bytes, step), [*numbers.0 as usize, *numbers.1 as usize]);
            }
        }
        assert_eq!(Lines::new(&[vec![0, 7], vec![0, 5]]).bytes(), 0, "two points lie on a line");
    }
}
