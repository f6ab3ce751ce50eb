//! Comparing packed codes with a constant.

use std::time::Duration;

use basalt_kernels::packed;

use super::{codes, horizontal::Horizontal, lanes::Lanes, pack};
use crate::{
    contest::{Contest, Figures, Role},
    kernels::tables,
};

/// The widths that are compared.
pub const WIDTHS: [u32; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 20, 24, 31];

/// Times the mask of the codes that are at most half of the greatest: read one by one from the horizontal layout, by
/// `fastlanes` in its own order and in the rows' order, and by ours.
pub fn race(width: u32, rows: usize, each: Duration) -> Figures {
    let codes = codes(width, rows);
    let most = (1 << width) / 2 - 1;
    let (horizontal, lanes, words) =
        (Horizontal::pack(width, &codes), Lanes::pack(width, &codes), pack(width, &codes));

    let mut contest = Contest::<Vec<u64>>::new();
    contest.enter(Role::Seed, "extract", |out| horizontal.at_most(most, out), Vec::clone);
    contest.enter(Role::Rival, "fastlanes", |out| lanes.at_most(most, out), |mask| lanes.in_order(mask));
    contest.enter(
        Role::Rival,
        "fastlanes, rows in order",
        |out| lanes.at_most_in_order(most, out),
        Vec::clone,
    );
    for (role, name, table) in tables() {
        let words = &words;
        let between = move |out: &mut Vec<u64>| {
            out.resize(rows.div_ceil(64), 0);
            match table {
                None => packed::between(width, words, 0, rows, 0, most, out),
                Some(table) => table.packed_between(width, words, 0, rows, 0, most, out),
            }
        };
        contest.enter(role, name, between, Vec::clone);
    }
    contest.run(&format!("{width} bits, {rows} rows"), each)
}
