//! Counting nulls.

use std::time::Duration;

use arrow_buffer::{BooleanBuffer, Buffer};
use basalt_kernels::mask;

use super::{
    data::{Nulls, Pattern},
    seed, tables,
};
use crate::contest::{Contest, Figures, Role};

/// Times counting the nulls among so many rows, a tenth of which are null at random.
pub fn race(rows: usize, each: Duration) -> Figures {
    let nulls = Nulls { percent: 10, pattern: Pattern::Random };
    let validity = nulls.validity(rows).unwrap_or_default();
    let bits = validity.iter().map(|word| !word).collect::<Vec<u64>>();
    // Whole words, so that the complement of the validity is the null bits.
    assert!(rows.is_multiple_of(64), "{rows} rows are no whole words");
    let flags: Vec<bool> = (0..rows).map(|row| bits[row / 64] >> (row % 64) & 1 == 1).collect();
    let buffer = BooleanBuffer::new(Buffer::from_slice_ref(validity.as_slice()), 0, rows);
    let rows = rows as u64;

    let mut contest = Contest::<u64>::new();
    contest.enter(
        Role::Seed,
        "bools",
        |out| *out = flags.iter().map(|&null| u64::from(null)).sum(),
        |out| *out,
    );
    contest.enter(Role::Seed, "bits", |out| *out = seed::count_null(&bits), |out| *out);
    contest.enter(Role::Rival, "arrow 59", |out| *out = rows - buffer.count_set_bits() as u64, |out| *out);
    for (role, name, table) in tables() {
        let validity = &validity;
        let count = move |out: &mut u64| {
            *out = rows
                - table.map_or_else(|| mask::count_ones(validity), |table| table.mask_count_ones(validity));
        };
        contest.enter(role, name, count, |out| *out);
    }
    contest.run(&format!("nulls of {rows} rows"), each)
}
