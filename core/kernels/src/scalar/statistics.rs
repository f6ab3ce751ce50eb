//! Statistics of keys before they are encoded: loops that compilers vectorise.

#[inline(always)]
pub(crate) fn changes(keys: &[i64]) -> u64 {
    keys.iter().zip(keys.iter().skip(1)).map(|(a, b)| u64::from(a != b)).sum()
}

#[inline(always)]
pub(crate) fn count_at_least(keys: &[i64], bound: i64) -> u64 {
    keys.iter().map(|key| u64::from(*key >= bound)).sum()
}
