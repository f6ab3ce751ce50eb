//! What a table's kernels are called by: methods that check what the kernels rely on.

use crate::{
    CmpOp, Float, FloatSum, Integer, Isa, Native,
    chunks::check_mask,
    forms::{
        arithmetic::IntOp,
        bits::packed_bytes,
        decimals::{Decimals, Form, Scale},
        gaps::{Gaps, MAX_K},
        mask::BLOCK_WORDS,
        packed::{MAX_SET_WIDTH, Patch, Rows, check_words},
        rans::{self, Stream},
        runs,
    },
    native::GroupCode,
    rans::Table,
    table::{Kernels, call},
    test::Test,
};

#[allow(missing_docs, reason = "documented at the functions of the same names")]
impl Kernels {
    pub fn isa(&self) -> Isa {
        self.isa
    }

    pub fn changes(&self, keys: &[i64]) -> u64 {
        call!(self.changes, keys)
    }

    pub fn count_at_least(&self, keys: &[i64], bound: i64) -> u64 {
        call!(self.count_at_least, keys, bound)
    }

    #[track_caller]
    pub fn compare<T: Native>(&self, op: CmpOp, values: &[T], constant: T, out: &mut [u64]) {
        self.test(T::test(op, constant), values, out);
    }

    #[track_caller]
    pub fn between<T: Native>(&self, values: &[T], lo: T, hi: T, out: &mut [u64]) {
        self.test(T::test_between(lo, hi), values, out);
    }

    #[track_caller]
    pub fn is_nan<T: Float>(&self, values: &[T], out: &mut [u64]) {
        self.test(Test::NotIn(T::LEAST, T::GREATEST), values, out);
    }

    #[track_caller]
    pub(crate) fn test<T: Native>(&self, test: Test<T>, values: &[T], out: &mut [u64]) {
        check_mask(values.len(), out.len());
        call!(T::kernels(self).test, test, values, out)
    }

    pub fn min_max<T: Native>(&self, values: &[T]) -> Option<(T, T)> {
        call!(T::kernels(self).min_max, values)
    }

    #[track_caller]
    pub fn min_max_masked<T: Native>(&self, values: &[T], mask: &[u64]) -> Option<(T, T)> {
        check_mask(values.len(), mask.len());
        call!(T::kernels(self).min_max_masked, values, mask)
    }

    pub fn count_nonzero<T: Native>(&self, values: &[T]) -> u64 {
        call!(T::kernels(self).count_nonzero, values)
    }

    #[track_caller]
    pub fn count_nonzero_masked<T: Native>(&self, values: &[T], mask: &[u64]) -> u64 {
        check_mask(values.len(), mask.len());
        call!(T::kernels(self).count_nonzero_masked, values, mask)
    }

    pub fn sum<T: Integer>(&self, values: &[T]) -> i128 {
        call!(T::integer_kernels(self).sum, values)
    }

    #[track_caller]
    pub fn sum_masked<T: Integer>(&self, values: &[T], mask: &[u64]) -> i128 {
        check_mask(values.len(), mask.len());
        call!(T::integer_kernels(self).sum_masked, values, mask)
    }

    pub fn sum_floats<T: Float>(&self, values: &[T], acc: &mut FloatSum) {
        call!(T::float_kernels(self).sum, values, acc)
    }

    #[track_caller]
    pub fn sum_floats_masked<T: Float>(&self, values: &[T], mask: &[u64], acc: &mut FloatSum) {
        check_mask(values.len(), mask.len());
        call!(T::float_kernels(self).sum_masked, values, mask, acc)
    }

    #[track_caller]
    pub fn ints_combine(&self, op: IntOp, values: &mut [i64], others: &[i64]) {
        assert!(values.len() == others.len(), "{} values and {} others", values.len(), others.len());
        call!(self.ints_combine, op, values, others)
    }

    pub fn ints_combine_one(&self, op: IntOp, values: &mut [i64], other: i64) {
        call!(self.ints_combine_one, op, values, other)
    }

    #[track_caller]
    pub fn group_digits<C: GroupCode>(&self, keys: &[i64], low: i64, span: i64, codes: &mut [C]) {
        assert!(keys.len() == codes.len(), "{} keys for {} group numbers", keys.len(), codes.len());
        call!(C::group_kernels(self).digits, keys, low, span, codes)
    }

    #[track_caller]
    pub fn group_count<C: GroupCode>(&self, codes: &[C], mask: Option<&[u64]>, out: &mut [u64]) {
        check_groups(codes, codes.len(), mask);
        call!(C::group_kernels(self).count, codes, mask, out)
    }

    #[track_caller]
    pub fn group_sum<C: GroupCode>(
        &self,
        codes: &[C],
        values: &[i64],
        mask: Option<&[u64]>,
        out: &mut [i128],
    ) {
        check_groups(codes, values.len(), mask);
        call!(C::group_kernels(self).sum, codes, values, mask, out)
    }

    #[track_caller]
    pub fn group_sum_floats<C: GroupCode>(
        &self,
        codes: &[C],
        values: &[f64],
        mask: Option<&[u64]>,
        out: &mut [f64],
    ) {
        check_groups(codes, values.len(), mask);
        call!(C::group_kernels(self).sum_floats, codes, values, mask, out)
    }

    #[track_caller]
    pub fn group_min_max<C: GroupCode>(
        &self,
        codes: &[C],
        values: &[i64],
        mask: Option<&[u64]>,
        out: &mut [(i64, i64)],
    ) {
        check_groups(codes, values.len(), mask);
        call!(C::group_kernels(self).min_max, codes, values, mask, out)
    }

    pub fn mask_count_ones(&self, mask: &[u64]) -> u64 {
        call!(self.mask.count_ones, mask)
    }

    #[track_caller]
    pub fn mask_and(&self, left: &mut [u64], right: &[u64]) {
        assert_eq!(left.len(), right.len(), "masks of different lengths");
        call!(self.mask.and, left, right)
    }

    #[track_caller]
    pub fn mask_or(&self, left: &mut [u64], right: &[u64]) {
        assert_eq!(left.len(), right.len(), "masks of different lengths");
        call!(self.mask.or, left, right)
    }

    #[track_caller]
    pub fn mask_and_not(&self, left: &mut [u64], right: &[u64]) {
        assert_eq!(left.len(), right.len(), "masks of different lengths");
        call!(self.mask.and_not, left, right)
    }

    #[track_caller]
    pub fn mask_not(&self, mask: &mut [u64], rows: usize) {
        check_mask(rows, mask.len());
        call!(self.mask.not, mask, rows)
    }

    pub fn mask_count_runs(&self, mask: &[u64]) -> (u64, u64) {
        call!(self.mask.count_runs, mask)
    }

    #[track_caller]
    pub fn mask_positions(&self, words: &[u64], out: &mut [u16]) -> usize {
        assert!(words.len() <= BLOCK_WORDS, "{} words have positions above 65,535", words.len());
        call!(self.mask.positions, words, out)
    }

    #[track_caller]
    pub fn mask_positions64(&self, words: &[u64], base: u64, out: &mut [u64]) -> usize {
        call!(self.mask.positions64, words, base, out)
    }

    pub fn mask_set_positions(&self, positions: &[[u8; 2]], block: &mut [u64; BLOCK_WORDS]) {
        call!(self.mask.set_positions, positions, block)
    }

    #[track_caller]
    pub fn packed_pack(&self, width: u32, codes: &[u64], out: &mut [u64]) {
        check_words(width, codes.len(), out);
        call!(self.packed.pack, width, codes, out)
    }

    #[track_caller]
    pub fn packed_pack_bytes(&self, width: u32, codes: &[u8], out: &mut [u64]) {
        check_words(width, codes.len(), out);
        call!(self.packed.pack_bytes, width, codes, out)
    }

    #[track_caller]
    pub fn packed_pack_keys(&self, width: u32, base: i64, keys: &[i64], out: &mut [u64]) {
        check_words(width, keys.len(), out);
        call!(self.packed.pack_keys, width, base, keys, out)
    }

    #[track_caller]
    pub fn packed_unpack(&self, width: u32, words: &[u64], start: usize, base: i64, out: &mut [i64]) {
        let rows = Rows::new(width, words, start, out.len());
        call!(self.packed.unpack, rows, base, out)
    }

    #[track_caller]
    #[allow(clippy::too_many_arguments, reason = "a range of rows, a range of codes")]
    pub fn packed_between(
        &self,
        width: u32,
        words: &[u64],
        start: usize,
        rows: usize,
        lo: u64,
        hi: u64,
        out: &mut [u64],
    ) {
        check_mask(rows, out.len());
        let rows = Rows::new(width, words, start, rows);
        call!(self.packed.between, rows, lo, hi, out)
    }

    #[track_caller]
    pub fn packed_in_set(
        &self,
        width: u32,
        words: &[u64],
        start: usize,
        rows: usize,
        set: &[u64],
        out: &mut [u64],
    ) {
        check_mask(rows, out.len());
        let rows = Rows::new(width, words, start, rows);
        assert!(width <= MAX_SET_WIDTH, "a set of codes of {width} bits");
        let codes = 64 * set.len() as u64;
        assert!(codes >= 1 << width, "{codes} bits for codes of {width} bits");
        call!(self.packed.in_set, rows, set, out)
    }

    #[track_caller]
    pub fn packed_gather(
        &self,
        width: u32,
        words: &[u64],
        start: usize,
        places: &[u16],
        base: i64,
        out: &mut [i64],
    ) {
        assert!(places.len() == out.len(), "{} places for {} keys", places.len(), out.len());
        let count = places.last().map_or(0, |last| usize::from(*last) + 1);
        call!(self.packed.gather, Rows::new(width, words, start, count), places, base, out)
    }

    #[track_caller]
    pub fn packed_sum(&self, width: u32, words: &[u64], start: usize, rows: usize) -> u128 {
        call!(self.packed.sum, Rows::new(width, words, start, rows), None)
    }

    #[track_caller]
    pub fn packed_sum_masked(
        &self,
        width: u32,
        words: &[u64],
        start: usize,
        rows: usize,
        mask: &[u64],
    ) -> u128 {
        check_mask(rows, mask.len());
        call!(self.packed.sum, Rows::new(width, words, start, rows), Some(mask))
    }

    #[track_caller]
    pub fn packed_min_max(&self, width: u32, words: &[u64], start: usize, rows: usize) -> Option<(u64, u64)> {
        call!(self.packed.min_max, Rows::new(width, words, start, rows), None)
    }

    #[track_caller]
    pub fn packed_min_max_masked(
        &self,
        width: u32,
        words: &[u64],
        start: usize,
        rows: usize,
        mask: &[u64],
    ) -> Option<(u64, u64)> {
        check_mask(rows, mask.len());
        call!(self.packed.min_max, Rows::new(width, words, start, rows), Some(mask))
    }

    #[track_caller]
    #[allow(clippy::too_many_arguments, reason = "a range of rows, and what they stand for")]
    pub fn packed_sum_decimals(
        &self,
        width: u32,
        words: &[u64],
        start: usize,
        rows: usize,
        decimals: Decimals,
        mask: Option<&[u64]>,
        patches: &[Patch],
        acc: &mut FloatSum,
    ) {
        if let Some(mask) = mask {
            check_mask(rows, mask.len());
        }
        call!(self.packed.sum_decimals, Rows::new(width, words, start, rows), decimals, mask, patches, acc)
    }

    #[track_caller]
    pub fn bits_unpack(&self, bytes: &[u8], width: u32, out: &mut [u64]) {
        let needed = packed_bytes(out.len(), width);
        assert!(bytes.len() >= needed, "{} bytes hold no {} numbers of {width} bits", bytes.len(), out.len());
        call!(self.bits.unpack, bytes, width, out)
    }

    #[track_caller]
    pub fn bits_pack(&self, values: &[u64], width: u32, out: &mut [u8]) {
        let needed = packed_bytes(values.len(), width);
        assert_eq!(out.len(), needed, "bytes for {} numbers of {width} bits", values.len());
        call!(self.bits.pack, values, width, out)
    }

    pub fn bits_unary(&self, bytes: &[u8], out: &mut [u64]) -> Option<usize> {
        call!(self.bits.unary, bytes, out)
    }

    #[track_caller]
    pub fn gaps_positions(&self, gaps: &Gaps<'_>, out: &mut [u16]) -> Option<usize> {
        assert!(gaps.k <= MAX_K, "low parts of {} bits", gaps.k);
        assert!(out.len() >= gaps.count, "room for {} positions, not {}", gaps.count, out.len());
        call!(self.gaps.positions, gaps, out)
    }

    #[track_caller]
    pub fn gaps_rank(&self, gaps: &Gaps<'_>, position: u16) -> Option<(usize, bool)> {
        assert!(gaps.k <= MAX_K, "low parts of {} bits", gaps.k);
        call!(self.gaps.rank, gaps, position)
    }

    #[track_caller]
    pub fn runs_ends(&self, codes: &[u8], bits: std::ops::Range<usize>, k: u32, row: usize, out: &mut [u64]) {
        assert!(k <= runs::MAX_K, "low parts of {k} bits");
        assert!(bits.end <= 8 * codes.len(), "{} bytes have no bit {}", codes.len(), bits.end);
        call!(self.runs.ends, codes, bits, k, row, out)
    }

    #[track_caller]
    pub fn runs_spread(&self, ends: &[u64], runs: &[u64], first: usize, out: &mut [u64]) {
        assert_eq!(ends.len(), out.len(), "masks of different lengths");
        call!(self.runs.spread, ends, runs, first, out)
    }

    #[track_caller]
    pub fn runs_numbers(&self, ends: &[u64], rows: &[u16], out: &mut [u16]) {
        assert!(ends.len() <= BLOCK_WORDS, "{} words have rows above 65,535", ends.len());
        assert!(rows.len() == out.len(), "{} numbers for {} rows", out.len(), rows.len());
        call!(self.runs.numbers, ends, rows, out)
    }

    pub fn decimals_convert(&self, scale: Scale, form: Form, integers: &mut [i64]) {
        call!(self.decimals_convert, scale, form, integers)
    }

    #[track_caller]
    pub fn rans_bytes(&self, table: &Table, streams: &mut [Stream<'_>]) {
        for Stream { bytes, tail, out, .. } in streams.iter() {
            let whole =
                out.len().is_multiple_of(rans::VECTOR_WORDS) && bytes.is_multiple_of(rans::VECTOR_BYTES);
            assert!(whole, "{bytes} bytes in {} words are no vectors", out.len());
            assert!(8 * out.len() <= *bytes, "{} words of an image of {bytes} bytes", out.len());
            assert!(tail <= bytes, "a tail of {tail} bytes in {bytes}");
        }
        call!(self.rans_bytes, table, streams)
    }

    pub fn prefix_gaps_to_ids(&self, base: u64, gaps: &mut [u64]) -> Option<u64> {
        call!(self.gaps_to_ids, base, gaps)
    }

    #[track_caller]
    pub fn bytes_in_set(&self, bytes: &[u8], set: &[u64; 4], out: &mut [u64]) {
        check_mask(bytes.len(), out.len());
        call!(self.bytes_in_set, bytes, set, out)
    }

    #[track_caller]
    pub fn sorted16_intersect(&self, left: &[[u8; 2]], right: &[[u8; 2]], out: &mut [u16]) -> usize {
        let (long, short) = if left.len() < right.len() { (right, left) } else { (left, right) };
        assert!(out.len() >= short.len(), "room for {} numbers, not {}", short.len(), out.len());
        call!(self.intersect, long, short, out)
    }
}

#[track_caller]
fn check_groups<C>(codes: &[C], values: usize, mask: Option<&[u64]>) {
    assert!(values == codes.len(), "{values} values for {} group numbers", codes.len());
    if let Some(mask) = mask {
        check_mask(codes.len(), mask.len());
    }
}
