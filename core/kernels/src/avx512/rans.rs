//! Decoding of nibbles, symbol by symbol: without 16-bit lanes that expand, registers win nothing.

use super::Avx512;
use crate::{
    rans::{STEP, Table},
    scalar::rans::{self, Body},
};

impl Body for Avx512 {
    #[inline(always)]
    fn body(self, table: &Table, states: &mut [u32; STEP], words: &[u16], steps: usize, lanes: &mut [u16]) {
        rans::body(table, states, words, steps, lanes);
    }
}
