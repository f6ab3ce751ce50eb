//! Adding up packed codes under nulls, against the same values as a plain array.

use std::time::Duration;

use arrow_arith::aggregate;
use arrow_array::{Int64Array, types::Int64Type};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use basalt_kernels::packed;

use super::{codes, horizontal::Horizontal, pack};
use crate::{
    contest::{Contest, Figures, Role},
    kernels::{
        data::{Nulls, aligned},
        tables,
    },
};

/// Times the sum of the codes that are not null.
pub fn race(width: u32, rows: usize, nulls: Nulls, each: Duration) -> Figures {
    let codes = codes(width, rows);
    let (horizontal, words) = (Horizontal::pack(width, &codes), pack(width, &codes));
    let plain = aligned::<i64>(codes.iter().map(|code| code.cast_signed()));
    drop(codes);
    let validity = nulls.validity(rows);
    let mask = validity.as_deref();
    let bits = mask.map(|mask| NullBuffer::new(BooleanBuffer::new(Buffer::from_slice_ref(mask), 0, rows)));
    let array = Int64Array::new(plain.clone(), bits);

    let mut contest = Contest::<i128>::new();
    contest.enter(Role::Seed, "extract", |out| *out = horizontal.sum(mask).into(), |out| *out);
    contest.enter(
        Role::Rival,
        "plain i64, arrow 59",
        |out| *out = aggregate::sum::<Int64Type>(&array).unwrap_or_default().into(),
        |out| *out,
    );
    contest.enter(
        Role::Other,
        "plain i64, ours",
        |out| {
            *out = match mask {
                None => basalt_kernels::sum(&plain),
                Some(mask) => basalt_kernels::sum_masked(&plain, mask),
            }
        },
        |out| *out,
    );
    for (role, name, table) in tables() {
        let words = &words;
        let sum = move |out: &mut u128| {
            *out = match (table, mask) {
                (None, None) => packed::sum(width, words, 0, rows),
                (None, Some(mask)) => packed::sum_masked(width, words, 0, rows, mask),
                (Some(table), None) => table.packed_sum(width, words, 0, rows),
                (Some(table), Some(mask)) => table.packed_sum_masked(width, words, 0, rows, mask),
            };
        };
        contest.enter(role, name, sum, |out| out.cast_signed());
    }
    contest.run(&format!("sum of {width} bits, nulls {nulls}"), each)
}
