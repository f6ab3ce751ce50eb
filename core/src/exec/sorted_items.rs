//! Items sorted by numbers: into buckets first, about as many as there are items.

use super::control::Control;
use crate::{error::Result, invariant::index};

/// A number, and what it is of: items that have one number are in the order of this.
pub(super) type Item = (u64, u64);

/// Items that are sorted by insertion.
const FEW: usize = 24;
/// Items that are sorted by comparisons.
const MANY: usize = 1 << 12;
/// Items between two looks at whether the query goes on.
pub(super) const CHECKED: usize = 1 << 16;
/// Bits of the numbers that tell buckets apart, at most.
const BUCKET_BITS: u32 = 14;

/// Sorts items by their numbers; those of a number stay in their order, which is that of what they are of. Numbers fall
/// into about as many buckets as there are; a bucket of very many is sorted in the same way.
pub(super) fn sort(items: &mut [Item], others: &mut [Item], control: &Control) -> Result<()> {
    let (mut low, mut high) = (u64::MAX, 0);
    for items in items.chunks(CHECKED) {
        control.check()?;
        items.iter().for_each(|(number, _)| (low, high) = (low.min(*number), high.max(*number)));
    }
    if low >= high {
        return Ok(());
    }
    let bits = (usize::BITS - items.len().leading_zeros()).min(BUCKET_BITS);
    let shift = (u64::BITS - (high - low).leading_zeros()).saturating_sub(bits);
    let bucket = |number: u64| index((number - low) >> shift);
    let mut ends = vec![0_u32; bucket(high) + 2];
    for items in items.chunks(CHECKED) {
        control.check()?;
        items.iter().for_each(|(number, _)| ends[bucket(*number) + 1] += 1);
    }
    ends.iter_mut().fold(0, |start, n| {
        *n += start;
        *n
    });
    for items in items.chunks(CHECKED) {
        control.check()?;
        for item in items {
            let next = &mut ends[bucket(item.0)];
            others[*next as usize] = *item;
            *next += 1;
        }
    }
    items.copy_from_slice(others);
    let (mut start, mut checked) = (0, 0);
    for end in ends {
        let (from, to) = (std::mem::replace(&mut start, end as usize), end as usize);
        if to - checked > CHECKED {
            control.check()?;
            checked = to;
        }
        let items = &mut items[from..to];
        match items.len() {
            0 | 1 => {}
            2..=FEW => insert(items),
            ..=MANY => items.sort_unstable(),
            _ => sort(items, &mut others[from..to], control)?,
        }
    }
    Ok(())
}

/// Sorts few items.
fn insert(items: &mut [Item]) {
    for at in 1..items.len() {
        let item = items[at];
        let mut to = at;
        while to > 0 && items[to - 1].0 > item.0 {
            items[to] = items[to - 1];
            to -= 1;
        }
        items[to] = item;
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn items_are_sorted_however_they_lie() {
        let mut rng = StdRng::seed_from_u64(3);
        for n in [0, 1, 2, 23, 25, 5000, 70_000] {
            for bits in [0, 1, 3, 12, 40, 64] {
                for power in [1, 7] {
                    let number = |rng: &mut StdRng| {
                        let number = rng.random::<u64>().checked_shr(64 - bits).unwrap_or(0);
                        // Most are near the least.
                        if power > 1 { number >> rng.random_range(0..60) } else { number }
                    };
                    let mut items: Vec<Item> = (0..n).map(|at| (number(&mut rng), at)).collect();
                    let mut expected = items.clone();
                    expected.sort();
                    let mut others = vec![(0, 0); items.len()];
                    sort(&mut items, &mut others, &Control::default()).unwrap();
                    assert!(items == expected, "{n} {bits} {power}");
                }
            }
        }
        let control = Control::default();
        control.cancel();
        let mut items: Vec<Item> = (0..10).map(|at| (9 - at, at)).collect();
        assert!(sort(&mut items.clone(), &mut items, &control).is_err());
    }
}
