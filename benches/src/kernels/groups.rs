//! Sums by group.

use std::{fmt, time::Duration};

use arrow_buffer::ScalarBuffer;
use basalt_kernels::groups::{self, GroupCode};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    data::{self, Nulls},
    tables,
};
use crate::contest::{Contest, Figures, Role};

/// Into which groups rows fall.
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    /// How many there are.
    pub count: u16,
    /// Whether half of the rows are in the first, a quarter in the second and so on, or all groups are alike.
    pub skewed: bool,
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k = {}{}", self.count, if self.skewed { ", skewed" } else { "" })
    }
}

/// The numbers of groups that are asked of, uniform and skewed.
pub fn all() -> impl Iterator<Item = Groups> {
    [4, 16, 256, 4096].into_iter().flat_map(|count| [false, true].map(|skewed| Groups { count, skewed }))
}

impl Groups {
    fn codes(self, rows: usize) -> impl ExactSizeIterator<Item = u16> {
        let mut rng = StdRng::seed_from_u64(0x6);
        (0..rows).map(move |_| match self.skewed {
            true => u16::try_from(rng.random::<u64>().trailing_zeros()).unwrap_or(0).min(self.count - 1),
            false => rng.random_range(0..self.count),
        })
    }
}

/// Times the sums of values by group, of the rows that are not null.
pub fn race(groups: Groups, values: &ScalarBuffer<i64>, nulls: Nulls, each: Duration) -> Figures {
    let codes = groups.codes(values.len());
    if groups.count > 256 {
        return race_codes(groups, &data::aligned(codes), values, nulls, each);
    }
    let codes = codes.map(|code| u8::try_from(code).unwrap_or(u8::MAX));
    race_codes(groups, &data::aligned(codes), values, nulls, each)
}

fn race_codes<C: GroupCode + Into<usize>>(
    groups: Groups,
    codes: &[C],
    values: &[i64],
    nulls: Nulls,
    each: Duration,
) -> Figures {
    let validity = nulls.validity(values.len());
    let mask = validity.as_deref();
    let count = usize::from(groups.count);
    let mut contest = Contest::<Vec<i128>>::new();
    let widen = |sums: &Vec<i64>| sums.iter().map(|&sum| i128::from(sum)).collect();
    contest.enter(
        Role::Seed,
        "scalar",
        move |sums: &mut Vec<i64>| {
            sums.clear();
            sums.resize(count, 0);
            let rows = codes.iter().zip(values);
            let add = |(&code, &value): (&C, &i64)| sums[code.into()] += value;
            match mask {
                None => rows.for_each(add),
                Some(mask) => {
                    let valid = |row: usize| mask[row / 64] >> (row % 64) & 1 == 1;
                    rows.enumerate().filter(|&(row, _)| valid(row)).map(|(_, row)| row).for_each(add);
                }
            }
        },
        widen,
    );
    for (role, name, table) in tables() {
        let add = move |sums: &mut Vec<i128>| {
            sums.clear();
            sums.resize(count, 0);
            match table {
                None => groups::sum(codes, values, mask, sums),
                Some(table) => table.group_sum(codes, values, mask, sums),
            }
        };
        contest.enter(role, name, add, Vec::clone);
    }
    contest.run(&format!("sums by group, {groups}, nulls {nulls}"), each)
}
