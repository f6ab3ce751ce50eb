//! That the public functions call the table in use: one whose entries count their calls is put in its place.

use std::cell::Cell;

use crate::{
    CmpOp, Filter, FloatSum, IntOp, Kernels, between, combine, combine_one, compare, count_nonzero,
    count_nonzero_masked, groups, is_nan, mask, min_max, min_max_masked,
    scalar::table::TABLE,
    sum, sum_floats, sum_floats_masked, sum_masked,
    table::{FloatKernels, Floats, GroupKernels, Groups, IntegerKernels, MaskKernels, NativeKernels, Sums},
    test::Test,
};

thread_local! {
    static INSTALLED: Cell<Option<&'static Kernels>> = const { Cell::new(None) };
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// The table that stands in for the one in use, on this thread.
pub(super) fn installed() -> Option<&'static Kernels> {
    INSTALLED.get()
}

fn called() {
    CALLS.set(CALLS.get() + 1);
}

/// The entries of a type that count their calls.
macro_rules! native {
    ($t:ty) => {
        NativeKernels {
            test: |_: Test<$t>, _, _| called(),
            min_max: |_| {
                called();
                None
            },
            min_max_masked: |_, _| {
                called();
                None
            },
            count_nonzero: |_| {
                called();
                0
            },
            count_nonzero_masked: |_, _| {
                called();
                0
            },
            filter_count: |_: Test<$t>, _, _| {
                called();
                0
            },
            filter_min_max: |_: Test<$t>, _, _, _| {
                called();
                None
            },
        }
    };
}

static MARKED: Kernels = Kernels {
    i64: native!(i64),
    f64: native!(f64),
    sums: Sums {
        i64: IntegerKernels {
            sum: |_| {
                called();
                0
            },
            sum_masked: |_, _| {
                called();
                0
            },
            filter_sum: |_: Test<i64>, _, _, _| {
                called();
                0
            },
        },
        ..TABLE.sums
    },
    floats: Floats {
        f64: FloatKernels {
            sum: |_, _| called(),
            sum_masked: |_, _, _| called(),
            filter_sum: |_: Test<f64>, _, _, _, _| called(),
        },
        ..TABLE.floats
    },
    mask: MaskKernels {
        count_ones: |_| {
            called();
            0
        },
        and: |_, _| called(),
        or: |_, _| called(),
        and_not: |_, _| called(),
        not: |_, _| called(),
        ..TABLE.mask
    },
    groups: Groups {
        u16: GroupKernels {
            digits: |_, _, _, _| called(),
            count: |_, _, _| called(),
            sum: |_, _, _, _| called(),
            sum_floats: |_, _, _, _| called(),
            min_max: |_, _, _, _| called(),
        },
        ..TABLE.groups
    },
    ints_combine: |_, _, _| called(),
    ints_combine_one: |_, _, _| called(),
    ..TABLE
};

#[test]
fn every_function_calls_the_table_in_use() {
    INSTALLED.set(Some(&MARKED));
    let (ints, floats, words, codes) = ([1_i64], [1.0_f64], [1_u64], [0_u16]);
    let (out, acc) = (&mut [0], &mut FloatSum::default());
    let mut calls = 0;
    let mut calls_one = |what: &str, f: &mut dyn FnMut()| {
        f();
        calls += 1;
        assert_eq!(CALLS.get(), calls, "{what}");
    };
    macro_rules! check {
        ($($call:expr;)*) => {$(
            calls_one(stringify!($call), &mut || {
                $call;
            });
        )*};
    }
    for op in [CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge] {
        check! {
            compare(op, &ints, 1, out);
            compare(op, &floats, 1.0, out);
        }
    }
    check! {
        between(&ints, 1, 2, out);
        between(&floats, 1.0, 2.0, out);
        is_nan(&floats, out);
        min_max(&ints);
        min_max(&floats);
        min_max_masked(&ints, &words);
        min_max_masked(&floats, &words);
        count_nonzero(&ints);
        count_nonzero(&floats);
        count_nonzero_masked(&ints, &words);
        count_nonzero_masked(&floats, &words);
        sum(&ints);
        sum_masked(&ints, &words);
        sum_floats(&floats, acc);
        sum_floats_masked(&floats, &words, acc);
        Filter::between(&ints, 1, 2).count();
        Filter::between(&floats, 1.0, 2.0).count();
        Filter::between(&ints, 1, 2).min_max(&ints);
        Filter::between(&floats, 1.0, 2.0).min_max(&floats);
        Filter::between(&ints, 1, 2).sum(&ints);
        Filter::between(&floats, 1.0, 2.0).sum_floats(&floats, acc);
        mask::count_ones(&words);
        mask::and(out, &words);
        mask::or(out, &words);
        mask::and_not(out, &words);
        mask::not(out, 64);
        combine(IntOp::Add, &mut [1], &ints);
        combine_one(IntOp::Add, &mut [1], 1);
        groups::digits(&ints, 0, 1, &mut [0_u16]);
        groups::count(&codes, None, out);
        groups::sum(&codes, &ints, None, &mut [0]);
        groups::sum_floats(&codes, &floats, None, &mut [0.0]);
        groups::min_max(&codes, &ints, None, &mut [(0, 0)]);
    }
    INSTALLED.set(None);
}
