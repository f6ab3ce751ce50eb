//! Sets of keys and of rows: how they come out of a selection, and what they do in a filter.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{Date32Array, Int8Array, Int64Array, UInt64Array};
use basalt_core::{
    exec::{Explanation, SetUse},
    query::{KeyFilter, KeySet},
};
use basalt_sip::Sip;

use super::*;

/// A table of one column for each array.
pub(crate) fn table_of(catalog: &Catalog, name: &str, columns: &[(&str, DataType, ArrayRef)]) -> Arc<Table> {
    let fields =
        columns.iter().map(|(name, data_type, array)| Field::new(*name, *data_type, array.is_nullable()));
    let table = catalog.create(name, Schema::new(fields.collect()).unwrap()).unwrap();
    let arrays = columns.iter().map(|(.., array)| Arc::clone(array)).collect();
    let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
    appender.push(&RecordBatch::try_new(table.schema().to_arrow(), arrays).unwrap()).unwrap();
    appender.commit().unwrap();
    table
}

fn keys(column: &str, data_type: DataType, ids: impl IntoIterator<Item = u64>) -> Filter {
    let sip = Arc::new(Sip::from_ids(ids));
    let set = KeySet { data_type, has_null: false, sip, origin: SipOrigin::Request };
    Filter::Keys(KeyFilter { column: column.into(), set })
}

fn not(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

fn explain(table: &Table, filter: Filter, control: &Control) -> Explanation {
    let snapshot = table.snapshot();
    let query = Query { filter: Some(filter), ..Query::default() };
    Plan::new(table, &snapshot, &query).unwrap().explain(&snapshot, true, control).unwrap()
}

/// A column of values from -4 to 4 and nulls, in types that hold different parts of them.
fn small() -> Arc<Table> {
    let signed = [Some(-4), Some(-1), Some(0), Some(1), Some(4), None];
    let unsigned = [Some(0), Some(1), Some(4), Some(u64::MAX), Some(u64::MAX - 3), None];
    table_of(
        &Catalog::new(),
        "small",
        &[
            (
                "i8",
                DataType::Int8,
                Arc::new(Int8Array::from_iter([Some(-4), Some(-1), Some(0), Some(1), Some(4), None])),
            ),
            ("i64", DataType::Int64, Arc::new(Int64Array::from_iter(signed))),
            ("u64", DataType::UInt64, Arc::new(UInt64Array::from_iter(unsigned))),
            (
                "day",
                DataType::Date32,
                Arc::new(Date32Array::from_iter([Some(-4), Some(-1), Some(0), Some(1), Some(4), None])),
            ),
            ("x", DataType::Float64, Arc::new(Float64Array::from_iter([Some(1.0); 6]))),
        ],
    )
}

#[test]
fn integers_of_all_widths_are_one_domain() {
    let table = small();
    let minus_one = (-1i64).cast_unsigned();
    // As a signed value it is -1, as an unsigned one 2^64 - 1.
    for (column, data_type, expected) in [
        ("i8", DataType::Int64, 1),
        ("i64", DataType::Int8, 1),
        ("i8", DataType::UInt64, 0),
        ("u64", DataType::Int64, 0),
        ("u64", DataType::UInt64, 1),
    ] {
        let set = keys(column, data_type, [minus_one]);
        assert_eq!(count(&table, set.clone()).0, expected, "{column} {data_type}");
        assert_eq!(count(&table, not(set)).0, 5 - expected, "{column} {data_type}");
    }
    for (column, data_type) in [("u64", DataType::Int32), ("i64", DataType::UInt16), ("u64", DataType::UInt8)]
    {
        assert_eq!(count(&table, keys(column, data_type, [0, 1, 4, 9])).0, 3, "{column} {data_type}");
    }
    assert_eq!(count(&table, keys("day", DataType::Date32, [minus_one, 0])).0, 2);
}

#[test]
fn nulls_and_empty_sets_are_as_in_sql() {
    let table = small();
    let with_null = |ids: &[u64]| match keys("i64", DataType::Int64, ids.iter().copied()) {
        Filter::Keys(KeyFilter { column, set }) => {
            Filter::Keys(KeyFilter { column, set: KeySet { has_null: true, ..set } })
        }
        other => other,
    };
    let empty = keys("i64", DataType::Int64, []);
    assert_eq!((count(&table, empty.clone()).0, count(&table, not(empty)).0), (0, 6));
    assert_eq!((count(&table, with_null(&[])).0, count(&table, not(with_null(&[]))).0), (0, 0));
    assert_eq!((count(&table, with_null(&[1])).0, count(&table, not(with_null(&[1]))).0), (1, 0));
    let beside_null = keys("i64", DataType::Int64, [77]);
    assert_eq!((count(&table, beside_null.clone()).0, count(&table, not(beside_null)).0), (0, 5));
}

#[test]
fn domains_that_do_not_go_together_are_refused() {
    let table = small();
    let check = |filter: Filter, kind: ErrorKind, place: &str| {
        let error = run(&table, &Query { filter: Some(filter), ..Query::default() }).unwrap_err();
        assert_eq!((error.kind(), error.place()), (kind, Some(place)), "{error}");
    };
    let domain = "filter.keys.scope.key.type";
    check(keys("day", DataType::Int32, [1]), ErrorKind::ScopeMismatch, domain);
    check(keys("i64", DataType::Timestamp, [1]), ErrorKind::ScopeMismatch, domain);
    check(keys("i64", DataType::Decimal { precision: 5, scale: 0 }, [1]), ErrorKind::ScopeMismatch, domain);
    check(keys("x", DataType::Int64, [1]), ErrorKind::TypeMismatch, "filter.keys.column");
    check(keys("none", DataType::Int64, [1]), ErrorKind::ColumnNotFound, "filter.keys.column");
    check(keys(ROW_ADDRESS, DataType::UInt64, [1]), ErrorKind::InvalidQuery, "filter.keys.column");
}

#[test]
fn distinct_keys_of_a_selection() {
    let table = small();
    let snapshot = table.snapshot();
    let select = |key: &str, filter: Option<&Filter>| {
        exec::select_keys(&table, &snapshot, key, filter, &Control::default())
    };
    let ids = |key: &str, filter: Option<&Filter>| {
        let (keys, statistics) = select(key, filter).unwrap();
        (keys.sip.iter().map(u64::cast_signed).collect::<Vec<_>>(), keys.has_null, statistics.rows_selected)
    };
    assert_eq!(ids("i8", None), (vec![0, 1, 4, -4, -1], true, 6));
    let known = not(Filter::IsNull(column("i64")));
    assert_eq!(ids("u64", Some(&known)), (vec![0, 1, 4, -4, -1], false, 5));
    assert_eq!(ids("day", Some(&Filter::Constant(false))), (vec![], false, 0));
    for (key, kind) in [("x", ErrorKind::TypeMismatch), ("none", ErrorKind::ColumnNotFound)] {
        let error = select(key, None).unwrap_err();
        assert_eq!((error.kind(), error.place()), (kind, Some("key")));
    }

    // As a filter it selects the rows it came from.
    let (keys, _) = select("i8", Some(&compare("i64", CompareOp::Ge, Literal::Int(1)))).unwrap();
    let set = KeySet {
        data_type: keys.data_type,
        has_null: keys.has_null,
        sip: Arc::new(keys.sip),
        origin: SipOrigin::Handle,
    };
    assert_eq!(count(&table, Filter::Keys(KeyFilter { column: "i64".into(), set })).0, 2);
}

/// Each list of texts becomes a set of the codes of each fragment.
#[test]
fn sets_of_codes_count_as_memory() {
    let text = |i: i32| format!("text {}", i % 20_000);
    let array: ArrayRef = Arc::new(StringArray::from_iter_values((0..200_000).map(text)));
    let table = table_of(&Catalog::new(), "texts", &[("t", DataType::Utf8, array)]);
    let spread = |first| (0..6).map(move |i| Literal::Text(text(first + 3000 * i))).collect();
    let lists = (0..1000).map(|first| Filter::In(column("t"), spread(first))).collect();
    let (any, snapshot) = (Filter::Or(lists), table.snapshot());
    let select = |control| exec::select(&table, &snapshot, Some(&any), &control);
    assert_eq!(select(Control::default()).unwrap().0.cardinality(), 60_000);
    let error = select(Control::with_memory(1 << 20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MemoryLimit);
}

#[test]
fn scattered_and_dense_keys_of_many_rows() {
    let table = table();
    let snapshot = table.snapshot();
    let half = compare("id", CompareOp::Ge, Literal::Int(i64::from(ROWS) / 2));
    let (selected, _) = exec::select_keys(&table, &snapshot, "id", Some(&half), &Control::default()).unwrap();
    assert_eq!(selected.sip.cardinality(), u64::try_from(ROWS).unwrap() / 2);

    let value = |i: i64| (i / 2).wrapping_mul(0x1234_5678_9ABC_DEF1);
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200_000).map(value)));
    let table = table_of(&Catalog::new(), "scattered", &[("v", DataType::Int64, array)]);
    let snapshot = table.snapshot();
    let (selected, _) = exec::select_keys(&table, &snapshot, "v", None, &Control::default()).unwrap();
    assert_eq!(selected.sip, Sip::from_ids((0..200_000).map(|i| value(i).cast_unsigned())));
    // Too many to hold.
    let error = exec::select_keys(&table, &snapshot, "v", None, &Control::with_memory(1 << 19)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MemoryLimit);

    let set = |step| keys("v", DataType::Int64, (0..200_000).step_by(step).map(|i| value(i).cast_unsigned()));
    assert_eq!(count(&table, set(1)).0, 200_000);
    assert_eq!(count(&table, set(4)).0, 100_000);
    assert_eq!(count(&table, not(set(4))).0, 100_000);
    let query = Query { filter: Some(set(4)), ..Query::default() };
    let plan = Plan::new(&table, &snapshot, &query).unwrap();
    let error = plan.run(&snapshot, &Control::with_memory(1 << 19), &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MemoryLimit);
    let control = Control::default();
    control.cancel();
    let error = plan.run(&snapshot, &control, &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn sets_prune_blocks_and_see_whole_ones() {
    let table = table();
    // The first block whole, nothing of the second, some of the third, which is short.
    let ids = || (0..65_536).chain([131_072, 149_999]);
    let of_keys = keys("id", DataType::UInt64, ids());
    let snapshot = table.snapshot();
    let address = |id: u64| snapshot.fragments()[0].address(usize::try_from(id).unwrap());
    let rows = Filter::Rows(RowSet {
        table: "things".into(),
        version: snapshot.version(),
        table_id: None,
        sip: Arc::new(Sip::from_ids(ids().map(address))),
        origin: SipOrigin::Request,
    });
    for filter in [of_keys, rows] {
        let (n, statistics) = count(&table, filter.clone());
        assert_eq!(n, 65_538);
        assert_eq!((statistics.blocks_pruned, statistics.blocks_full), (1, 1));
        let (n, statistics) = count(&table, not(filter.clone()));
        assert_eq!(n, i64::from(ROWS) - 65_538);
        assert_eq!((statistics.blocks_pruned, statistics.blocks_full), (1, 1));
        let (sip, _) = exec::select(&table, &snapshot, Some(&not(filter)), &Control::default()).unwrap();
        assert_eq!(
            (sip.cardinality(), sip.first(), sip.last()),
            (84_462, Some(address(65_536)), Some(address(149_998)))
        );
    }
    let (sip, _) = exec::select(&table, &snapshot, None, &Control::default()).unwrap();
    assert_eq!(sip, Sip::from_ranges([address(0)..=address(149_999)]));
}

#[test]
fn explain_counts_what_a_set_did() {
    static NOW: AtomicU64 = AtomicU64::new(0);
    let control = Control::default().with_clock(|| NOW.fetch_add(1000, Ordering::Relaxed));
    let table = table();
    let set = keys("id", DataType::Int64, (140_000..150_000).step_by(2));
    let cheap = compare("id", CompareOp::Ge, Literal::Int(145_000));
    let explanation = explain(&table, Filter::And(vec![set.clone(), cheap]), &control);
    let [used]: [SetUse; 1] = explanation.sets.try_into().unwrap();
    assert_eq!((used.cardinality, used.blocks_skipped, used.blocks_full), (5000, 2, 0));
    // The range goes first and leaves 5,000 rows.
    assert_eq!((used.rows_in, used.rows_passed), (5000, 2500));
    assert!(used.build_ns > 0 && used.apply_ns > 0);
    assert_eq!((used.origin, used.text.as_str()), (SipOrigin::Request, "id IN SIP of 5000 keys"));
    let Filter::Keys(KeyFilter { set: KeySet { sip, .. }, .. }) = &set else { panic!("a set") };
    assert_eq!((used.tag, used.bytes), (sip.tag().name(), sip.as_bytes().len() as u64));
    assert!(explanation.text.contains("set id IN SIP of 5000 keys"), "{}", explanation.text);

    // Without a clock there are no times; a set that is a constant is still listed.
    let explanation = explain(&table, not(keys("id", DataType::Int64, [])), &Control::default());
    let used = &explanation.sets[0];
    assert_eq!((used.blocks_full, used.rows_in, used.build_ns, used.apply_ns), (3, 0, 0, 0));
    assert_eq!((used.tag, used.text.as_str()), ("empty", "id NOT IN SIP of 0 keys"));
}

#[test]
fn sets_select_groups_by_their_keys() {
    let table = table();
    let having = |column: &str| Query {
        select: vec![aggregate(AggregateFunction::Count, None)],
        filter: Some(compare("id", CompareOp::Lt, Literal::Int(100))),
        group_by: vec![super::column("id")],
        having: Some(not(keys(column, DataType::Int64, 10..1000))),
        ..Query::default()
    };
    let (batches, _) = run(&table, &having("id")).unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 10);
    let error = run(&table, &having("price")).unwrap_err();
    assert_eq!(error.place(), Some("having.not.keys.column"));
}
