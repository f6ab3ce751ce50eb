//! Decoding of nibbles, symbol by symbol: without 16-bit lanes that expand, registers win nothing.

use super::Avx512;
use crate::{
    rans::Table,
    scalar::rans::{self, Bodies, Body},
};

impl Bodies for Avx512 {
    #[inline(always)]
    fn decode<const N: usize>(self, table: &Table, bodies: &mut [Body<'_>; N]) {
        rans::one_by_one(table, bodies);
    }
}
