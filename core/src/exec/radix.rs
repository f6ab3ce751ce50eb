//! Keys of groups as small numbers, which are places in arrays.

use basalt_kernels::groups::GroupCode;

use crate::invariant::index;

/// The keys of a group as one number: a digit for each, which is its distance to the least.
#[derive(Debug)]
pub(super) struct Radix {
    digits: Vec<Digit>,
    size: usize,
}

#[derive(Clone, Copy, Debug)]
struct Digit {
    low: i64,
    /// Null has the first of the digits.
    nullable: bool,
    span: u64,
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
        let mut size = 1u64;
        let mut digits = Vec::new();
        for range in ranges {
            let KeyRange { low, high, nullable } = range?;
            let span = high.abs_diff(low).checked_add(1 + u64::from(nullable))?;
            size = size.checked_mul(span).filter(|size| *size <= most as u64)?;
            digits.push(Digit { low, nullable, span });
        }
        Some(Self { digits, size: usize::try_from(size).ok()? })
    }

    /// Numbers are below it.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The number of a group's keys.
    pub(super) fn place(&self, key: &[Option<i64>]) -> usize {
        let digits = self.digits.iter().zip(key).fold(0, |place, (digit, key)| {
            let distance = |key: i64| key.wrapping_sub(digit.low).cast_unsigned() + u64::from(digit.nullable);
            // Default: null comes first.
            let value = key.map_or(0, distance);
            assert!(value < digit.span, "the keys of groups are within their ranges");
            place * digit.span + value
        });
        index(digits)
    }

    /// The keys of a number.
    pub(super) fn key(&self, place: usize, out: &mut [Option<i64>]) {
        let mut rest = place as u64;
        for (digit, key) in self.digits.iter().zip(out).rev() {
            let value = rest % digit.span;
            rest /= digit.span;
            let distance = value.checked_sub(u64::from(digit.nullable));
            *key = distance.map(|distance| digit.low.wrapping_add_unsigned(distance));
        }
    }

    /// Writes the numbers of rows, whose keys stand in `columns`, null where they are not valid. Numbers of rows
    /// whose keys are out of range mean nothing.
    pub(super) fn places<C: Code>(&self, columns: &mut [(Vec<i64>, Option<Vec<u64>>)], out: &mut Vec<C>) {
        out.clear();
        for ((keys, valid), digit) in columns.iter_mut().zip(&self.digits) {
            let base = digit.low.wrapping_sub(digit.nullable.into());
            for_each_null(valid.as_deref(), keys.len(), |row| keys[row] = base);
            let digits = keys.iter().map(|key| key.wrapping_sub(base));
            if out.is_empty() {
                out.extend(digits.map(C::truncate));
            } else {
                let span = digit.span.cast_signed();
                out.iter_mut().zip(digits).for_each(|(place, next)| *place = place.shifted(span, next));
            }
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

/// A number of a group in few bits.
pub(super) trait Code: GroupCode {
    /// The number's low bits.
    fn truncate(number: i64) -> Self;

    /// The number, times `span`, and a digit.
    fn shifted(self, span: i64, digit: i64) -> Self;

    /// The number as a place in an array.
    fn place(self) -> usize;
}

macro_rules! codes {
    ($($t:ty),*) => {$(
        impl Code for $t {
            #[inline]
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the low bits")]
            fn truncate(number: i64) -> Self {
                number as Self
            }

            #[inline]
            fn shifted(self, span: i64, digit: i64) -> Self {
                self.wrapping_mul(Self::truncate(span)).wrapping_add(Self::truncate(digit))
            }

            #[inline]
            fn place(self) -> usize {
                self as usize
            }
        }
    )*};
}

codes!(u8, u16, u32);

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: i64, high: i64, nullable: bool) -> Option<KeyRange> {
        Some(KeyRange { low, high, nullable })
    }

    #[test]
    fn places_are_keys_again() {
        let radix = Radix::new([range(-3, 4, true), range(10, 10, false), range(5, 7, true)], 1000).unwrap();
        assert_eq!(radix.size(), 9 * 4);
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
    }

    #[test]
    fn too_many_places() {
        assert!(Radix::new([range(0, 99, false), range(0, 9, false)], 1000).is_some());
        assert!(Radix::new([range(0, 99, false), range(0, 9, true)], 1000).is_none());
        assert!(Radix::new([range(i64::MIN, i64::MAX, false)], usize::MAX).is_none());
        assert!(Radix::new([range(0, 1, false), None], 1000).is_none());
    }
}
