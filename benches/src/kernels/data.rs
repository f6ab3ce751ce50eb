//! Columns of random values under nulls of several rates and patterns.

use std::{fmt, iter};

use arrow_array::{
    ArrowNumericType, PrimitiveArray,
    types::{Float64Type, Int32Type, Int64Type, UInt8Type},
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use basalt_kernels::{Filter, FloatSum, Kernels, Native};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// A type of values.
///
/// Values are small whole numbers (of floats: quarters), so that all sums are exact in whatever order they are made,
/// and answers can be compared bit for bit.
pub trait Element: Native + ArrowNativeType + Into<Self::Wide> {
    /// Its name in tables.
    const NAME: &'static str;
    /// Whether arrow adds it up in a type that holds the sums.
    const ARROW_SUMS: bool;
    /// What sums of it are made in.
    type Wide: Copy + Default + std::ops::Add<Output = Self::Wide> + iter::Sum<Self::Wide> + 'static;
    /// Its arrow type.
    type Arrow: ArrowNumericType<Native = Self>;

    /// A value, at random.
    fn draw(rng: &mut StdRng) -> Self;

    /// A value near the middle of those.
    fn middle() -> Self;

    /// The number that a sum is.
    fn number(wide: Self::Wide) -> f64;

    /// The sum by a table of kernels, or by the one in use.
    fn sum(table: Option<&Kernels>, values: &[Self], mask: Option<&[u64]>) -> f64;

    /// The sum of the values that a filter of theirs passes, likewise.
    fn filtered_sum(table: Option<&Kernels>, values: &[Self], filter: &Filter<'_, Self>) -> f64;
}

macro_rules! integers {
    ($($t:ident $name:literal $arrow:ident $wide:ident $sums:literal $range:expr, $middle:literal;)*) => {$(
        impl Element for $t {
            const NAME: &'static str = $name;
            const ARROW_SUMS: bool = $sums;
            type Wide = $wide;
            type Arrow = $arrow;

            fn draw(rng: &mut StdRng) -> Self {
                rng.random_range($range)
            }

            fn middle() -> Self {
                $middle
            }

            #[allow(clippy::cast_precision_loss, reason = "sums of small numbers")]
            fn number(wide: $wide) -> f64 {
                wide as f64
            }

            #[allow(clippy::cast_precision_loss, reason = "sums of small numbers")]
            fn sum(table: Option<&Kernels>, values: &[Self], mask: Option<&[u64]>) -> f64 {
                let sum = match (table, mask) {
                    (None, None) => basalt_kernels::sum(values),
                    (None, Some(mask)) => basalt_kernels::sum_masked(values, mask),
                    (Some(table), None) => table.sum(values),
                    (Some(table), Some(mask)) => table.sum_masked(values, mask),
                };
                sum as f64
            }

            #[allow(clippy::cast_precision_loss, reason = "sums of small numbers")]
            fn filtered_sum(table: Option<&Kernels>, values: &[Self], filter: &Filter<'_, Self>) -> f64 {
                table.map_or_else(|| filter.sum(values), |table| table.filter_sum(filter, values)) as f64
            }
        }
    )*};
}

integers!(
    i64 "i64" Int64Type i64 true -500..=500, 0;
    i32 "i32" Int32Type i64 true -500..=500, 0;
    u8 "u8" UInt8Type u64 false 0..=200, 100;
);

impl Element for f64 {
    const NAME: &'static str = "f64";
    const ARROW_SUMS: bool = true;
    type Wide = f64;
    type Arrow = Float64Type;

    fn draw(rng: &mut StdRng) -> Self {
        f64::from(rng.random_range(-2000..=2000)) / 4.0
    }

    fn middle() -> Self {
        0.0
    }

    fn number(wide: f64) -> f64 {
        wide
    }

    fn sum(table: Option<&Kernels>, values: &[Self], mask: Option<&[u64]>) -> f64 {
        let mut sum = FloatSum::default();
        match (table, mask) {
            (None, None) => basalt_kernels::sum_floats(values, &mut sum),
            (None, Some(mask)) => basalt_kernels::sum_floats_masked(values, mask, &mut sum),
            (Some(table), None) => table.sum_floats(values, &mut sum),
            (Some(table), Some(mask)) => table.sum_floats_masked(values, mask, &mut sum),
        }
        sum.finish()
    }

    fn filtered_sum(table: Option<&Kernels>, values: &[Self], filter: &Filter<'_, Self>) -> f64 {
        let mut sum = FloatSum::default();
        match table {
            None => filter.sum_floats(values, &mut sum),
            Some(table) => table.filter_sum_floats(filter, values, &mut sum),
        }
        sum.finish()
    }
}

/// Where the nulls are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every tenth, every second, all but every tenth row.
    Periodic,
    /// Each row by itself.
    Random,
    /// In runs; the rarer of null and not null has runs of 200 rows on average.
    Clustered,
}

/// How many rows are null, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nulls {
    /// Of a hundred rows.
    pub percent: u32,
    /// Which ones.
    pub pattern: Pattern,
}

/// No nulls; then each rate in each pattern.
pub fn shapes() -> impl Iterator<Item = Nulls> {
    let rated = [10, 50, 90, 99].into_iter().flat_map(|percent| {
        [Pattern::Periodic, Pattern::Random, Pattern::Clustered].map(|pattern| Nulls { percent, pattern })
    });
    iter::once(Nulls::NONE).chain(rated)
}

impl fmt::Display for Nulls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = match self.pattern {
            _ if self.percent == 0 => return f.pad("none"),
            Pattern::Periodic => "periodic",
            Pattern::Random => "random",
            Pattern::Clustered => "clustered",
        };
        write!(f, "{} % {pattern}", self.percent)
    }
}

impl Nulls {
    /// None.
    pub const NONE: Self = Self { percent: 0, pattern: Pattern::Periodic };

    /// Which rows are null, as often as asked.
    fn draw(self, rows: usize) -> Vec<bool> {
        const RUN: f64 = 200.0;
        let mut rng = StdRng::seed_from_u64(0x9011);
        let share = f64::from(self.percent) / 100.0;
        let percent = self.percent as usize;
        match self.pattern {
            // A null's share of a row is carried over to the next until it makes a whole one.
            Pattern::Periodic => {
                (0..rows).map(|row| (row + 1) * percent / 100 > row * percent / 100).collect()
            }
            Pattern::Random => (0..rows).map(|_| rng.random_bool(share)).collect(),
            Pattern::Clustered => {
                let (null_ends, valid_ends) = match share / (1.0 - share) {
                    odds if odds <= 1.0 => (1.0 / RUN, odds / RUN),
                    odds => (1.0 / odds / RUN, 1.0 / RUN),
                };
                let mut null = false;
                let next = |_| {
                    null ^= rng.random_bool(if null { null_ends } else { valid_ends });
                    null
                };
                (0..rows).map(next).collect()
            }
        }
    }

    /// The mask of the rows that are not null; `None` where none is.
    pub fn validity(self, rows: usize) -> Option<Vec<u64>> {
        (self.percent > 0).then(|| mask_of(self.draw(rows).into_iter().map(|null| !null)))
    }
}

/// The mask of the rows that say so.
pub fn mask_of(rows: impl ExactSizeIterator<Item = bool>) -> Vec<u64> {
    let mut words = vec![0; rows.len().div_ceil(64)];
    rows.enumerate().filter(|(_, set)| *set).for_each(|(row, _)| words[row / 64] |= 1 << (row % 64));
    words
}

/// `n` random values, aligned to 64 bytes.
pub fn values<T: Element>(n: usize) -> ScalarBuffer<T> {
    let mut rng = StdRng::seed_from_u64(0x5eed);
    aligned((0..n).map(|_| T::draw(&mut rng)))
}

/// Values in a buffer aligned to 64 bytes.
pub fn aligned<T: ArrowNativeType>(values: impl ExactSizeIterator<Item = T>) -> ScalarBuffer<T> {
    let mut buffer = MutableBuffer::new(values.len() * size_of::<T>());
    values.for_each(|value| buffer.push(value));
    ScalarBuffer::from(Buffer::from(buffer))
}

/// A column as everybody takes it: the same values in the same place for all.
#[derive(Debug)]
pub struct Column<T: Element> {
    /// The values; under a null as random as elsewhere.
    pub values: ScalarBuffer<T>,
    /// A bit for each row that is not null, as ours takes it; `None` where none is null.
    pub validity: Option<Vec<u64>>,
    /// A bit for each row that is null, as the source has it.
    pub nulls: Vec<u64>,
    /// As arrow takes it.
    pub array: PrimitiveArray<T::Arrow>,
}

impl<T: Element> Column<T> {
    /// Values under nulls.
    pub fn new(values: &ScalarBuffer<T>, nulls: Nulls) -> Self {
        let rows = values.len();
        let validity = nulls.validity(rows);
        let bits = validity.as_ref().map(|words| {
            NullBuffer::new(BooleanBuffer::new(Buffer::from_slice_ref(words.as_slice()), 0, rows))
        });
        let array = PrimitiveArray::new(values.clone(), bits);
        let mut nulls = match &validity {
            Some(words) => words.iter().map(|word| !word).collect(),
            None => vec![0; rows.div_ceil(64)],
        };
        if let Some(last) = nulls.last_mut()
            && !rows.is_multiple_of(64)
        {
            *last &= (1 << (rows % 64)) - 1;
        }
        Self { values: values.clone(), validity, nulls, array }
    }
}
