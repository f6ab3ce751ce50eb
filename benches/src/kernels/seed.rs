//! The methods of the second source, as it describes them: null bits (1 is null), and three ways to go through the
//! rows that are not null. Compiled like everything here, so the compiler vectorises them as far as the build's
//! target allows.

use basalt_kernels::CmpOp;

use super::data::Element;

/// Asks every row whether it is null.
#[inline(always)]
pub fn original<T: Copy, A>(values: &[T], nulls: &[u64], start: A, step: impl Fn(A, T) -> A) -> A {
    let mut folded = start;
    for (row, &value) in values.iter().enumerate() {
        if !is_null(nulls, row) {
            folded = step(folded, value);
        }
    }
    folded
}

/// A plain loop where there are no nulls, else a filtered iterator.
#[inline(always)]
pub fn auto<T: Copy, A>(values: &[T], nulls: &[u64], start: A, step: impl Fn(A, T) -> A) -> A {
    if count_null(nulls) == 0 {
        return values.iter().fold(start, |folded, &value| step(folded, value));
    }
    let rows = values.iter().enumerate().filter(|&(row, _)| !is_null(nulls, row));
    rows.fold(start, |folded, (_, &value)| step(folded, value))
}

/// Goes by words of the null bits: a plain loop where none is set, nothing where all are, and else from one bit to
/// the next.
#[inline(always)]
pub fn chunks<T: Copy, A>(
    values: &[T],
    nulls: &[u64],
    start: A,
    step: impl Fn(A, T) -> A,
    whole: impl Fn(A, &[T]) -> A,
) -> A {
    let mut folded = start;
    for (chunk, &nulls) in values.chunks(64).zip(nulls) {
        let mut valid = !nulls;
        if chunk.len() < 64 {
            valid &= (1 << chunk.len()) - 1;
        }
        if nulls == 0 {
            folded = whole(folded, chunk);
        } else {
            while valid != 0 {
                folded = step(folded, chunk[valid.trailing_zeros() as usize]);
                valid &= valid - 1;
            }
        }
    }
    folded
}

#[inline(always)]
fn is_null(nulls: &[u64], row: usize) -> bool {
    nulls[row / 64] >> (row % 64) & 1 == 1
}

/// Null rows, by counting the ones of each word.
#[inline(always)]
pub fn count_null(nulls: &[u64]) -> u64 {
    nulls.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// The sum of the values of a chunk without nulls, made by itself.
#[inline(always)]
pub fn add_whole<T: Element>(sum: T::Wide, chunk: &[T]) -> T::Wide {
    sum + chunk.iter().map(|&value| value.into()).sum()
}

#[inline(always)]
fn passes<T: PartialOrd>(op: CmpOp, value: T, constant: T) -> bool {
    match op {
        CmpOp::Eq => value == constant,
        CmpOp::Ne => value != constant,
        CmpOp::Lt => value < constant,
        CmpOp::Le => value <= constant,
        CmpOp::Gt => value > constant,
        CmpOp::Ge => value >= constant,
    }
}

/// Calls a function with the comparison as a constant, so that the loop inside has no choice to make.
macro_rules! with_op {
    ($op:expr, $call:ident($($arg:expr),*)) => {
        match $op {
            CmpOp::Eq => $call(|v, c| passes(CmpOp::Eq, v, c), $($arg),*),
            CmpOp::Ne => $call(|v, c| passes(CmpOp::Ne, v, c), $($arg),*),
            CmpOp::Lt => $call(|v, c| passes(CmpOp::Lt, v, c), $($arg),*),
            CmpOp::Le => $call(|v, c| passes(CmpOp::Le, v, c), $($arg),*),
            CmpOp::Gt => $call(|v, c| passes(CmpOp::Gt, v, c), $($arg),*),
            CmpOp::Ge => $call(|v, c| passes(CmpOp::Ge, v, c), $($arg),*),
        }
    };
}

/// The rows that pass and are not null, row by row, as a list: what the source's filters give.
pub fn filter_rows<T: Element>(op: CmpOp, values: &[T], nulls: &[u64], constant: T, out: &mut Vec<usize>) {
    with_op!(op, rows(values, nulls, constant, out));
}

#[inline(always)]
fn rows<T: Copy>(
    passes: impl Fn(T, T) -> bool,
    values: &[T],
    nulls: &[u64],
    constant: T,
    out: &mut Vec<usize>,
) {
    out.clear();
    for (row, &value) in values.iter().enumerate() {
        if passes(value, constant) && !is_null(nulls, row) {
            out.push(row);
        }
    }
}

/// The same as a mask, chunk by chunk, without a branch for a row.
pub fn filter_mask<T: Element>(op: CmpOp, values: &[T], nulls: &[u64], constant: T, out: &mut Vec<u64>) {
    with_op!(op, mask(values, nulls, constant, out));
}

#[inline(always)]
fn mask<T: Copy>(
    passes: impl Fn(T, T) -> bool,
    values: &[T],
    nulls: &[u64],
    constant: T,
    out: &mut Vec<u64>,
) {
    out.clear();
    for (chunk, &nulls) in values.chunks(64).zip(nulls) {
        let bits = chunk.iter().enumerate();
        let word = bits.fold(0, |word, (bit, &value)| word | u64::from(passes(value, constant)) << bit);
        out.push(word & !nulls);
    }
}

/// The sum of the values that are greater than a constant and not null, row by row.
pub fn filtered_sum<T: Element>(values: &[T], nulls: &[u64], constant: T) -> T::Wide {
    let add = |sum: T::Wide, value: T| if value > constant { sum + value.into() } else { sum };
    original(values, nulls, T::Wide::default(), add)
}

/// The same by the words of the null bits.
pub fn filtered_sum_chunks<T: Element>(values: &[T], nulls: &[u64], constant: T) -> T::Wide {
    let add = |sum: T::Wide, value: T| if value > constant { sum + value.into() } else { sum };
    let whole = |sum, chunk: &[T]| chunk.iter().fold(sum, |sum, &value| add(sum, value));
    chunks(values, nulls, T::Wide::default(), add, whole)
}
