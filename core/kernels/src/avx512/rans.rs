//! Decoding of bytes, one by one: without 16-bit lanes that expand, registers win nothing.

use super::Avx512;
use crate::{
    rans::Table,
    scalar::rans::{self, Bodies, Body, Tail},
};

impl Bodies for Avx512 {
    #[inline(always)]
    fn decode<const N: usize>(self, table: &Table, bodies: &mut [Body<'_>; N]) {
        rans::one_by_one(table, bodies);
    }

    #[inline(always)]
    fn tails(self, table: &Table, tails: &mut [Tail<'_>]) {
        rans::tails_in_turns(table, tails);
    }
}
