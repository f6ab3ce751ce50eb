//! The table of an instruction set, made from the loops.

/// Defines the table `KERNELS` of an instruction set: the loops of `scalar` over the operations of `$arch`, each
/// compiled with the attributes given.
macro_rules! kernels {
    ($isa:expr, $arch:ty = $new:expr, $(#[$attribute:meta])*) => {
        use crate::{
            Float, FloatSum, Integer, Native,
            lanes::{FloatLanes, IntegerLanes, Lanes},
            forms::{
                arithmetic::IntOp,
                decimals::{Decimals, Form, Scale},
                gaps::Gaps,
                mask::BLOCK_WORDS,
                packed::{Patch, Rows},
                rans::Stream,
            },
            native::GroupCode,
            rans::Table,
            scalar::{arithmetic, bits, bytes, codes, compare, decimals, filter, gaps, groups, mask, min_max, packed, positions, prefix, rans, runs, sorted16, statistics, sum},
            table::{
                BitsKernels, FloatKernels, Floats, GapsKernels, GroupKernels, Groups, IntegerKernels, Kernels, MaskKernels,
                NativeKernels, PackedKernels, RunsKernels, Sums,
            },
            test::Test,
        };

        /// The kernels of this instruction set.
        pub(crate) static KERNELS: Kernels = TABLE;

        /// The same, to make another table from.
        pub(crate) const TABLE: Kernels = Kernels {
            isa: $isa,
            i8: native(),
            i16: native(),
            i32: native(),
            i64: native(),
            u8: native(),
            u16: native(),
            u32: native(),
            u64: native(),
            f32: native(),
            f64: native(),
            sums: Sums {
                i8: integer(),
                i16: integer(),
                i32: integer(),
                i64: integer(),
                u8: integer(),
                u16: integer(),
                u32: integer(),
                u64: integer(),
            },
            floats: Floats { f32: float(), f64: float() },
            mask: MaskKernels {
                count_ones: mask_count_ones,
                and: mask_and,
                or: mask_or,
                and_not: mask_and_not,
                not: mask_not,
                count_runs: mask_count_runs,
                positions: mask_positions,
                positions64: mask_positions64,
                set_positions: mask_set_positions,
            },
            packed: PackedKernels {
                pack: packed_pack,
                pack_bytes: packed_pack_bytes,
                pack_keys: packed_pack_keys,
                unpack: packed_unpack,
                between: packed_between,
                in_set: packed_in_set,
                gather: packed_gather,
                sum: packed_sum,
                min_max: packed_min_max,
                sum_decimals: packed_sum_decimals,
            },
            bits: BitsKernels { unpack: bits_unpack, pack: bits_pack, unary: bits_unary },
            gaps: GapsKernels { positions: gaps_positions, rank: gaps_rank },
            groups: Groups { u8: group(), u16: group(), u32: group() },
            runs: RunsKernels { ends: runs_ends, spread: runs_spread, numbers: runs_numbers },
            decimals_convert,
            rans_bytes,
            ints_combine,
            ints_combine_one,
            changes: statistics_changes,
            count_at_least: statistics_count_at_least,
            gaps_to_ids: prefix_gaps_to_ids,
            bytes_in_set,
            intersect: sorted16_intersect,
        };

        const fn native<T: Native>() -> NativeKernels<T>
        where
            $arch: Lanes<T>,
        {
            NativeKernels {
                test: native_test::<T>,
                min_max: native_min_max::<T>,
                min_max_masked: native_min_max_masked::<T>,
                count_nonzero: native_count_nonzero::<T>,
                count_nonzero_masked: native_count_nonzero_masked::<T>,
                filter_count: native_filter_count::<T>,
                filter_min_max: native_filter_min_max::<T>,
            }
        }

        const fn integer<T: Integer>() -> IntegerKernels<T>
        where
            $arch: IntegerLanes<T>,
        {
            IntegerKernels {
                sum: integer_sum::<T>,
                sum_masked: integer_sum_masked::<T>,
                filter_sum: integer_filter_sum::<T>,
            }
        }

        const fn float<T: Float>() -> FloatKernels<T>
        where
            $arch: FloatLanes<T>,
        {
            FloatKernels {
                sum: float_sum::<T>,
                sum_masked: float_sum_masked::<T>,
                filter_sum: float_filter_sum::<T>,
            }
        }

        const fn group<C: GroupCode>() -> GroupKernels<C>
        where
            $arch: Lanes<C>,
        {
            GroupKernels {
                digits: group_digits::<C>,
                count: group_count::<C>,
                sum: group_sum::<C>,
                sum_floats: group_sum_floats::<C>,
                min_max: group_min_max::<C>,
            }
        }

        $(#[$attribute])*
        fn native_test<T: Native>(test: Test<T>, values: &[T], out: &mut [u64])
        where
            $arch: Lanes<T>,
        {
            compare::test($new, test, values, out)
        }

        $(#[$attribute])*
        fn native_count_nonzero<T: Native>(values: &[T]) -> u64
        where
            $arch: Lanes<T>,
        {
            compare::count_nonzero($new, values)
        }

        $(#[$attribute])*
        fn native_count_nonzero_masked<T: Native>(values: &[T], mask: &[u64]) -> u64
        where
            $arch: Lanes<T>,
        {
            compare::count_nonzero_masked($new, values, mask)
        }

        $(#[$attribute])*
        fn native_min_max<T: Native>(values: &[T]) -> Option<(T, T)>
        where
            $arch: Lanes<T>,
        {
            min_max::min_max($new, values)
        }

        $(#[$attribute])*
        fn native_min_max_masked<T: Native>(values: &[T], mask: &[u64]) -> Option<(T, T)>
        where
            $arch: Lanes<T>,
        {
            min_max::min_max_masked($new, values, mask)
        }

        $(#[$attribute])*
        fn native_filter_count<T: Native>(test: Test<T>, values: &[T], mask: Option<&[u64]>) -> u64
        where
            $arch: Lanes<T>,
        {
            filter::count($new, test, values, mask)
        }

        $(#[$attribute])*
        fn native_filter_min_max<T: Native>(
            test: Test<T>,
            by: &[T],
            mask: Option<&[u64]>,
            values: &[T],
        ) -> Option<(T, T)>
        where
            $arch: Lanes<T>,
        {
            filter::min_max($new, test, by, mask, values)
        }

        $(#[$attribute])*
        fn integer_filter_sum<T: Integer>(test: Test<T>, by: &[T], mask: Option<&[u64]>, values: &[T]) -> i128
        where
            $arch: IntegerLanes<T>,
        {
            filter::sum($new, test, by, mask, values)
        }

        $(#[$attribute])*
        fn float_filter_sum<T: Float>(
            test: Test<T>,
            by: &[T],
            mask: Option<&[u64]>,
            values: &[T],
            acc: &mut FloatSum,
        )
        where
            $arch: FloatLanes<T>,
        {
            filter::sum_floats($new, test, by, mask, values, acc)
        }

        $(#[$attribute])*
        fn integer_sum<T: Integer>(values: &[T]) -> i128
        where
            $arch: IntegerLanes<T>,
        {
            sum::sum($new, values)
        }

        $(#[$attribute])*
        fn integer_sum_masked<T: Integer>(values: &[T], mask: &[u64]) -> i128
        where
            $arch: IntegerLanes<T>,
        {
            sum::sum_masked($new, values, mask)
        }

        $(#[$attribute])*
        fn float_sum<T: Float>(values: &[T], acc: &mut FloatSum)
        where
            $arch: FloatLanes<T>,
        {
            sum::sum_floats($new, values, acc)
        }

        $(#[$attribute])*
        fn float_sum_masked<T: Float>(values: &[T], mask: &[u64], acc: &mut FloatSum)
        where
            $arch: FloatLanes<T>,
        {
            sum::sum_floats_masked($new, values, mask, acc)
        }

        $(#[$attribute])*
        fn ints_combine(op: IntOp, values: &mut [i64], others: &[i64]) {
            arithmetic::combine(op, values, others)
        }

        $(#[$attribute])*
        fn ints_combine_one(op: IntOp, values: &mut [i64], other: i64) {
            arithmetic::combine_one(op, values, other)
        }

        $(#[$attribute])*
        fn group_digits<C: GroupCode>(keys: &[i64], low: i64, span: i64, codes: &mut [C])
        where
            $arch: Lanes<C>,
        {
            groups::digits(keys, low, span, codes)
        }

        $(#[$attribute])*
        fn group_count<C: GroupCode>(codes: &[C], mask: Option<&[u64]>, out: &mut [u64])
        where
            $arch: Lanes<C>,
        {
            groups::count($new, codes, mask, out)
        }

        $(#[$attribute])*
        fn group_sum<C: GroupCode>(codes: &[C], values: &[i64], mask: Option<&[u64]>, out: &mut [i128])
        where
            $arch: Lanes<C>,
        {
            groups::sum($new, codes, values, mask, out)
        }

        $(#[$attribute])*
        fn group_sum_floats<C: GroupCode>(codes: &[C], values: &[f64], mask: Option<&[u64]>, out: &mut [f64])
        where
            $arch: FloatLanes<f64> + Lanes<C>,
        {
            groups::sum_floats($new, codes, values, mask, out)
        }

        $(#[$attribute])*
        fn group_min_max<C: GroupCode>(
            codes: &[C],
            values: &[i64],
            mask: Option<&[u64]>,
            out: &mut [(i64, i64)],
        )
        where
            $arch: Lanes<C>,
        {
            groups::min_max(codes, values, mask, out)
        }

        $(#[$attribute])*
        fn mask_count_ones(mask: &[u64]) -> u64 {
            mask::count_ones(mask)
        }

        $(#[$attribute])*
        fn mask_and(left: &mut [u64], right: &[u64]) {
            mask::and(left, right)
        }

        $(#[$attribute])*
        fn mask_or(left: &mut [u64], right: &[u64]) {
            mask::or(left, right)
        }

        $(#[$attribute])*
        fn mask_and_not(left: &mut [u64], right: &[u64]) {
            mask::and_not(left, right)
        }

        $(#[$attribute])*
        fn mask_not(mask: &mut [u64], rows: usize) {
            mask::not(mask, rows)
        }

        $(#[$attribute])*
        fn mask_count_runs(mask: &[u64]) -> (u64, u64) {
            mask::count_runs(mask)
        }

        $(#[$attribute])*
        fn mask_positions(words: &[u64], out: &mut [u16]) -> usize {
            positions::positions(words, 0, out)
        }

        $(#[$attribute])*
        fn mask_positions64(words: &[u64], base: u64, out: &mut [u64]) -> usize {
            positions::positions(words, base, out)
        }

        $(#[$attribute])*
        fn mask_set_positions(positions: &[[u8; 2]], block: &mut [u64; BLOCK_WORDS]) {
            positions::set(positions, block)
        }

        $(#[$attribute])*
        fn packed_pack(width: u32, rows: &[u64], out: &mut [u64]) {
            codes::pack(width, rows, |code| code, out)
        }

        $(#[$attribute])*
        fn packed_pack_bytes(width: u32, rows: &[u8], out: &mut [u64]) {
            codes::pack(width, rows, u64::from, out)
        }

        $(#[$attribute])*
        fn packed_pack_keys(width: u32, base: i64, keys: &[i64], out: &mut [u64]) {
            codes::pack(width, keys, |key| key.wrapping_sub(base).cast_unsigned(), out)
        }

        $(#[$attribute])*
        fn packed_unpack(rows: Rows<'_>, base: i64, out: &mut [i64]) {
            packed::unpack($new, rows, base, out)
        }

        $(#[$attribute])*
        fn packed_between(rows: Rows<'_>, lo: u64, hi: u64, out: &mut [u64]) {
            packed::between($new, rows, lo, hi, out)
        }

        $(#[$attribute])*
        fn packed_in_set(rows: Rows<'_>, set: &[u64], out: &mut [u64]) {
            packed::in_set($new, rows, set, out)
        }

        $(#[$attribute])*
        fn packed_gather(rows: Rows<'_>, places: &[u16], base: i64, out: &mut [i64]) {
            packed::gather($new, rows, places, base, out)
        }

        $(#[$attribute])*
        fn packed_sum(rows: Rows<'_>, mask: Option<&[u64]>) -> u128 {
            packed::sum($new, rows, mask)
        }

        $(#[$attribute])*
        fn packed_min_max(rows: Rows<'_>, mask: Option<&[u64]>) -> Option<(u64, u64)> {
            packed::min_max($new, rows, mask)
        }

        $(#[$attribute])*
        fn packed_sum_decimals(
            rows: Rows<'_>,
            decimals: Decimals,
            mask: Option<&[u64]>,
            patches: &[Patch],
            acc: &mut FloatSum,
        ) {
            packed::sum_decimals($new, rows, decimals, mask, patches, acc)
        }

        $(#[$attribute])*
        fn bits_unpack(bytes: &[u8], width: u32, out: &mut [u64]) {
            bits::unpack($new, bytes, width, out)
        }

        $(#[$attribute])*
        fn bits_pack(values: &[u64], width: u32, out: &mut [u8]) {
            bits::pack(values, width, out)
        }

        $(#[$attribute])*
        fn bits_unary(bytes: &[u8], out: &mut [u64]) -> Option<usize> {
            bits::unary(bytes, out)
        }

        $(#[$attribute])*
        fn gaps_positions(gaps: &Gaps<'_>, out: &mut [u16]) -> Option<usize> {
            gaps::positions(gaps, out)
        }

        $(#[$attribute])*
        fn gaps_rank(gaps: &Gaps<'_>, position: u16) -> Option<(usize, bool)> {
            gaps::rank(gaps, position)
        }

        $(#[$attribute])*
        fn runs_ends(codes: &[u8], bits: std::ops::Range<usize>, k: u32, row: usize, out: &mut [u64]) {
            runs::ends(codes, bits, k, row, out)
        }

        $(#[$attribute])*
        fn runs_spread(ends: &[u64], runs: &[u64], first: usize, out: &mut [u64]) {
            runs::spread($new, ends, runs, first, out)
        }

        $(#[$attribute])*
        fn runs_numbers(ends: &[u64], rows: &[u16], out: &mut [u16]) {
            runs::numbers(ends, rows, out)
        }

        $(#[$attribute])*
        fn decimals_convert(scale: Scale, form: Form, integers: &mut [i64]) {
            decimals::convert(scale, form, integers)
        }

        $(#[$attribute])*
        fn rans_bytes(table: &Table, streams: &mut [Stream<'_>]) {
            rans::bytes($new, table, streams)
        }

        $(#[$attribute])*
        fn statistics_changes(keys: &[i64]) -> u64 {
            statistics::changes(keys)
        }

        $(#[$attribute])*
        fn statistics_count_at_least(keys: &[i64], bound: i64) -> u64 {
            statistics::count_at_least(keys, bound)
        }

        $(#[$attribute])*
        fn prefix_gaps_to_ids(base: u64, gaps: &mut [u64]) -> Option<u64> {
            prefix::gaps_to_ids($new, base, gaps)
        }

        $(#[$attribute])*
        fn bytes_in_set(bytes: &[u8], set: &[u64; 4], out: &mut [u64]) {
            bytes::in_set($new, bytes, set, out)
        }

        $(#[$attribute])*
        fn sorted16_intersect(long: &[[u8; 2]], short: &[[u8; 2]], out: &mut [u16]) -> usize {
            sorted16::intersect(long, short, out)
        }
    };
}

pub(crate) use kernels;
