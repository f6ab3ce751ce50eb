//! Keys of groups as small numbers, which are places in arrays.

use basalt_kernels::groups::{GroupCode, digits};

use crate::invariant::{Invariant, index};

/// The keys of a group as one number: a digit for each, which is its distance to the least. Numbers are in the order of
/// the keys, where null comes last.
#[derive(Debug)]
pub(super) struct Radix {
    digits: Vec<Digit>,
    size: usize,
    /// All spans are powers of two.
    in_bits: bool,
}

#[derive(Clone, Copy, Debug)]
struct Digit {
    low: i64,
    /// The digit of null, behind those of all keys.
    null: Option<u64>,
    span: u64,
    /// What one of this digit counts for.
    weight: u64,
}

/// The least and the greatest of some keys, and whether there is null among them.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyRange {
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) nullable: bool,
}

impl Radix {
    /// For keys of these ranges, where the numbers are below `most`.
    pub(super) fn new(ranges: impl IntoIterator<Item = Option<KeyRange>>, most: usize) -> Option<Self> {
        Self::of(ranges, most, false)
    }

    /// The same, where each digit has bits of its own: they are parted without divisions.
    pub(super) fn in_bits(ranges: impl IntoIterator<Item = Option<KeyRange>>, most: usize) -> Option<Self> {
        Self::of(ranges, most, true)
    }

    fn of(ranges: impl IntoIterator<Item = Option<KeyRange>>, most: usize, in_bits: bool) -> Option<Self> {
        let mut size = 1u64;
        let mut digits = Vec::new();
        for range in ranges {
            let KeyRange { low, high, nullable } = range?;
            let span = high.abs_diff(low).checked_add(1 + u64::from(nullable))?;
            let null = nullable.then_some(span - 1);
            let span = if in_bits { span.checked_next_power_of_two()? } else { span };
            size = size.checked_mul(span).filter(|size| *size <= most as u64)?;
            digits.push(Digit { low, null, span, weight: 1 });
        }
        digits.iter_mut().rev().fold(1, |weight, digit| {
            digit.weight = weight;
            weight * digit.span
        });
        Some(Self { digits, size: usize::try_from(size).ok()?, in_bits })
    }

    /// Keys of a group.
    pub(super) fn width(&self) -> usize {
        self.digits.len()
    }

    /// Numbers are below it.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The number of a group's keys.
    pub(super) fn place(&self, key: &[Option<i64>]) -> usize {
        let digits = self.digits.iter().zip(key).fold(0, |place, (digit, key)| {
            let distance = |key: i64| key.wrapping_sub(digit.low).cast_unsigned();
            let null = || digit.null.invariant("a key that is null has a digit");
            let value = key.map_or_else(null, distance);
            assert!(value < digit.span, "the keys of groups are within their ranges");
            place * digit.span + value
        });
        index(digits)
    }

    /// The keys of a number.
    pub(super) fn key(&self, place: usize, out: &mut [Option<i64>]) {
        out.iter_mut().enumerate().for_each(|(at, key)| *key = self.part(place as u64, at));
    }

    /// One of the keys of a number.
    pub(super) fn part(&self, number: u64, at: usize) -> Option<i64> {
        let digit = &self.digits[at];
        let value = number / digit.weight % digit.span;
        (digit.null != Some(value)).then(|| digit.low.wrapping_add_unsigned(value))
    }

    /// The keys of numbers, column by column, and which of them are not null.
    pub(super) fn columns(&self, mut numbers: Vec<u64>) -> Vec<(Vec<i64>, Vec<u64>)> {
        let mut columns: Vec<_> = self
            .digits
            .iter()
            .rev()
            .map(|digit| {
                let mut valid = vec![u64::MAX; numbers.len().div_ceil(64)];
                let (mask, bits) = (digit.span - 1, digit.span.trailing_zeros());
                let mut values: Vec<u64> = Vec::with_capacity(numbers.len());
                if self.in_bits {
                    values.extend(numbers.iter().map(|rest| rest & mask));
                    numbers.iter_mut().for_each(|rest| *rest >>= bits);
                } else {
                    values.extend(numbers.iter_mut().map(|rest| {
                        let value = *rest % digit.span;
                        *rest /= digit.span;
                        value
                    }));
                }
                if let Some(null) = digit.null {
                    for (word, values) in valid.iter_mut().zip(values.chunks(64)) {
                        let nulls = values.iter().enumerate();
                        *word =
                            !nulls.fold(0, |word, (bit, value)| word | (u64::from(*value == null) << bit));
                    }
                }
                (values.into_iter().map(|value| digit.low.wrapping_add_unsigned(value)).collect(), valid)
            })
            .collect();
        columns.reverse();
        columns
    }

    /// Writes the numbers of rows, whose keys stand in `columns`, null where they are not valid. Numbers of rows
    /// whose keys are out of range mean nothing.
    pub(super) fn places<N: Number>(&self, columns: &mut [(Vec<i64>, Option<Vec<u64>>)], out: &mut Vec<N>) {
        out.clear();
        for ((keys, valid), digit) in columns.iter_mut().zip(&self.digits) {
            // Default: of keys that are never null none is.
            let null = digit.low.wrapping_add_unsigned(digit.null.unwrap_or(0));
            for_each_null(valid.as_deref(), keys.len(), |row| keys[row] = null);
            out.resize(keys.len(), N::default());
            N::append(keys, digit.low, digit.span.cast_signed(), out);
        }
    }
}

/// Calls `each` with the rows that are not valid.
fn for_each_null(valid: Option<&[u64]>, rows: usize, mut each: impl FnMut(usize)) {
    for (i, word) in valid.into_iter().flatten().enumerate() {
        let mut nulls = !word & (u64::MAX >> (64 - (rows - i * 64).min(64)));
        while nulls != 0 {
            each(i * 64 + nulls.trailing_zeros() as usize);
            nulls &= nulls - 1;
        }
    }
}

/// Numbers of groups that are made digit by digit.
pub(super) trait Number: Copy + Default {
    /// Multiplies the numbers by `span`, and adds the distances of keys to `low`; their low bits are kept.
    fn append(keys: &[i64], low: i64, span: i64, out: &mut [Self]);
}

/// A number of a group in few bits, which is a place in an array.
pub(super) trait Code: Number + GroupCode {
    /// The number as a place in an array.
    fn place(self) -> usize;
}

macro_rules! codes {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn append(keys: &[i64], low: i64, span: i64, out: &mut [Self]) {
                digits(keys, low, span, out);
            }
        }

        impl Code for $t {
            #[inline]
            fn place(self) -> usize {
                self as usize
            }
        }
    )*};
}

codes!(u8, u16, u32);

impl Number for u64 {
    fn append(keys: &[i64], low: i64, span: i64, out: &mut [Self]) {
        for (number, key) in out.iter_mut().zip(keys) {
            let digit = key.wrapping_sub(low).cast_unsigned();
            *number = number.wrapping_mul(span.cast_unsigned()).wrapping_add(digit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: i64, high: i64, nullable: bool) -> Option<KeyRange> {
        Some(KeyRange { low, high, nullable })
    }

    #[test]
    fn places_are_keys_again() {
        let ranges = [range(-3, 4, true), range(10, 10, false), range(5, 7, true)];
        check(&Radix::new(ranges, 1000).unwrap(), 9 * 4);
        check(&Radix::in_bits(ranges, 1000).unwrap(), 16 * 4);
    }

    fn check(radix: &Radix, size: usize) {
        assert_eq!(radix.size(), size);
        let mut columns = [
            (vec![-3, 4, 99, 0], Some(vec![0b1011])),
            (vec![10, 10, 10, 10], None),
            (vec![5, 7, 6, -99], Some(vec![0b0111])),
        ];
        let mut places: Vec<u8> = Vec::new();
        let keys = [
            [Some(-3), Some(10), Some(5)],
            [Some(4), Some(10), Some(7)],
            [None, Some(10), Some(6)],
            [Some(0), Some(10), None],
        ];
        radix.places(&mut columns, &mut places);
        for (place, expected) in places.iter().zip(&keys) {
            let mut key = [None; 3];
            radix.key(usize::from(*place), &mut key);
            assert_eq!(&key, expected);
            assert_eq!(radix.place(&key), usize::from(*place));
        }
        let found = radix.columns(places.iter().map(|place| u64::from(*place)).collect());
        for (row, key) in keys.iter().enumerate() {
            for ((found, valid), key) in found.iter().zip(key) {
                assert_eq!(crate::mask::selects(Some(valid), row).then(|| found[row]), *key);
            }
        }
    }

    #[test]
    fn too_many_places() {
        assert!(Radix::new([range(0, 99, false), range(0, 9, false)], 1000).is_some());
        assert!(Radix::new([range(0, 99, false), range(0, 9, true)], 1000).is_none());
        assert!(Radix::new([range(i64::MIN, i64::MAX, false)], usize::MAX).is_none());
        assert!(Radix::new([range(0, 1, false), None], 1000).is_none());
        assert!(Radix::in_bits([range(0, 99, false), range(0, 7, false)], 1023).is_none());
        assert!(Radix::in_bits([range(i64::MIN, i64::MAX, false)], usize::MAX).is_none());
    }
}
