//! What travels between nodes: sets beside ids and rows, parts beside answers.

use arrow_array::Int64Array;
use basalt_core::{
    exec::{BuiltSet, Merge, Part, select_values},
    fragment::Fragment,
    query::{KeyFilter, KeySet},
    table::Snapshot,
};
use basalt_sip::Sip;

use super::*;

const FRAGMENTS: usize = 8;

/// A table of 2^17 rows in eight fragments: `id` ascending, `rank` such that the rows below any bound lie in runs of
/// so many.
fn ranked(run: i32) -> Arc<Table> {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int32, false),
        Field::new("rank", DataType::Int32, false),
    ]);
    let table = Catalog::new().create("customers", schema.unwrap()).unwrap();
    let (rows, runs) = (1 << 17, (1 << 17) / run);
    let rank = |id: i32| (id / run * 7919 % runs) * run + id % run;
    let fragment = |i: i32| {
        let ids = i * rows / 8..(i + 1) * rows / 8;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from_iter_values(ids.clone())),
            Arc::new(Int32Array::from_iter_values(ids.map(rank))),
        ];
        let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
        appender.push(&RecordBatch::try_new(table.schema().to_arrow(), columns).unwrap()).unwrap();
        Fragment::new(u32::try_from(i).unwrap(), appender.finish().unwrap().remove(0))
    };
    table.install(Snapshot::new(1, (0..8).map(fragment).collect()));
    table
}

/// One fragment of a table, as a node of its own has it.
fn nodes(table: &Table) -> Vec<Snapshot> {
    let snapshot = table.snapshot();
    let node = |fragment: &Fragment| Snapshot::new(snapshot.version(), vec![fragment.clone()]);
    snapshot.fragments().iter().map(node).collect()
}

/// Bytes of the set of all ids with a rank below `bound`, built apart and united, and how many they are.
fn shipped(table: &Table, bound: i64) -> (usize, u64) {
    let filter = compare("rank", CompareOp::Lt, Literal::Int(bound));
    let mut united = BuiltSet::empty(DataType::Int32);
    for node in nodes(table) {
        let (own, _) = select_values(table, &node, "id", Some(&filter), &Control::default()).unwrap();
        united = united.union(own).unwrap();
    }
    let BuiltSet::Keys { sip, .. } = united else { panic!("keys") };
    (sip.as_bytes().len(), sip.cardinality())
}

#[test]
fn keys_of_a_semi_join_are_few_bytes() {
    let (clustered, scattered) = (ranked(1024), ranked(1));
    for (share, fewer, fewer_scattered) in [(1000, 8, 4), (100, 50, 6), (10, 50, 12), (2, 50, 25)] {
        let bound = (1 << 17) / share;
        let ((bytes, n), (of_scattered, others)) = (shipped(&clustered, bound), shipped(&scattered, bound));
        assert_eq!((n, others), (bound.unsigned_abs(), bound.unsigned_abs()));
        let ids = 8 * usize::try_from(n).unwrap();
        assert!(bytes * fewer <= ids, "{bytes} bytes for {n} clustered keys");
        assert!(of_scattered * fewer_scattered <= ids, "{of_scattered} bytes for {n} scattered keys");
    }
}

/// Bytes of the parts of a query's groups at some nodes, which are merged to its answer, and how many parts they are.
fn parts(table: &Table, query: &Query, nodes: Vec<Snapshot>) -> (usize, usize) {
    let control = Control::default();
    let plan = Plan::new(table, &table.snapshot(), query).unwrap();
    let (mut merge, mut bytes, mut n) = (Merge::new(&plan, &control).unwrap(), 0, 0);
    for node in nodes.into_iter().rev() {
        let ids: Vec<u32> = node.fragments().iter().map(Fragment::id).collect();
        let own = Plan::new(table, &node, query).unwrap();
        own.run_part(&node, &control, &mut |part| {
            if let Part::Groups(part) = &part {
                (bytes, n) = (bytes + part.len(), n + 1);
                assert!(part.len() <= basalt_core::limits::MAX_PART_BYTES);
            }
            merge.add(part, &ids)
        })
        .unwrap();
    }
    let mut batches = Vec::new();
    merge
        .finish(&mut |batch| {
            batches.push(batch);
            Ok(())
        })
        .unwrap();
    assert_eq!(batches, run(table, query).unwrap().0);
    (bytes, n)
}

fn distinct(name: &str) -> SelectItem {
    let argument = Some(column(name));
    let aggregate = Aggregate { function: AggregateFunction::Count, argument, distinct: true };
    SelectItem { expr: Expr::Aggregate(Box::new(aggregate)), name: None }
}

#[test]
fn parts_are_no_larger_than_what_is_in_them() {
    let table = ranked(1);
    let sum = aggregate(AggregateFunction::Sum, Some(column("rank")));
    let few = Query { select: vec![sum.clone(), distinct("id")], ..Query::default() };
    // All ids of a fragment are a range.
    assert!(parts(&table, &few, nodes(&table)).0 < 100 * FRAGMENTS);
    let many = Query {
        select: vec![SelectItem { expr: column("rank"), name: None }, sum, distinct("id")],
        group_by: vec![column("rank")],
        ..Query::default()
    };
    // A key, a sum, a count, and a set of one key.
    assert!(parts(&table, &many, nodes(&table)).0 < 24 << 17);
}

/// A node that answers for more than it was asked would have its rows counted twice.
#[test]
fn a_part_of_fragments_that_were_not_asked_for_is_none() {
    let table = ranked(1024);
    let select = vec![SelectItem { expr: column("id"), name: None }];
    let all = Query { select, ..Query::default() };
    let by_rank = OrderBy { expr: column("rank"), descending: false, nulls_first: false, of_table: false };
    let first = Query { order_by: vec![by_rank], limit: Some(5), ..all.clone() };
    let node = nodes(&table).swap_remove(3);
    for query in [all, first] {
        let control = Control::default();
        let plan = Plan::new(&table, &table.snapshot(), &query).unwrap();
        let mut parts = 0;
        for (asked, is_taken) in [([2], false), ([3], true)] {
            let mut merge = Merge::new(&plan, &control).unwrap();
            let own = Plan::new(&table, &node, &query).unwrap();
            own.run_part(&node, &control, &mut |part| {
                parts += 1;
                match merge.add(part, &asked) {
                    Ok(()) => assert!(is_taken),
                    Err(error) => assert!(!is_taken && error.kind() == ErrorKind::Corrupt, "{error}"),
                }
                Ok(())
            })
            .unwrap();
        }
        assert!(parts >= 2);
    }
}

/// A node reads a part of its fragments, then another, by one plan.
#[test]
fn a_plan_for_one_fragment_after_the_other_keeps_all_keys_of_its_sets() {
    let table = ranked(1024);
    let control = Control::default();
    let ids: Vec<u64> = (0..1 << 17).step_by(11).collect();
    let set = KeySet {
        data_type: DataType::Int32,
        has_null: false,
        sip: Arc::new(Sip::from_ids(ids.iter().copied())),
        origin: SipOrigin::Request,
    };
    let filter = Filter::Keys(KeyFilter { column: "id".into(), set });
    let not = Filter::Not(Box::new(filter.clone()));
    for (filter, expected) in [(filter, ids.len()), (not, (1 << 17) - ids.len())] {
        let select = vec![aggregate(AggregateFunction::Count, None)];
        let query = Query { select, filter: Some(filter), ..Query::default() };
        let plan = Plan::new(&table, &Snapshot::new(1, Vec::new()), &query).unwrap();
        let mut merge = Merge::new(&plan, &control).unwrap();
        for node in nodes(&table) {
            let ids: Vec<u32> = node.fragments().iter().map(Fragment::id).collect();
            plan.run_part(&node, &control, &mut |part| merge.add(part, &ids)).unwrap();
        }
        let mut found = Vec::new();
        merge
            .finish(&mut |batch| {
                found.push(batch.column(0).as_primitive::<Int64Type>().value(0));
                Ok(())
            })
            .unwrap();
        assert_eq!(found, [i64::try_from(expected).unwrap()]);
    }
}

#[test]
fn sets_of_any_size_travel() {
    let schema = Schema::new(vec![
        Field::new("half", DataType::Int64, false),
        Field::new("key", DataType::Int64, false),
        Field::new("note", DataType::Utf8, false),
    ]);
    let table = Catalog::new().create("events", schema.unwrap()).unwrap();
    let key = |i: i64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()).rotate_left(17);
    let n = 160_000;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values((0..n).map(|i| i % 2))),
        Arc::new(Int64Array::from_iter_values((0..n).map(key))),
        Arc::new(StringArray::from_iter_values((0..n).map(|i| format!("note {:x}", key(i))))),
    ];
    let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
    appender.push(&RecordBatch::try_new(table.schema().to_arrow(), columns).unwrap()).unwrap();
    appender.commit().unwrap();
    let select = || vec![aggregate(AggregateFunction::Count, None), distinct("key"), distinct("note")];
    let one = Query { select: select(), ..Query::default() };
    let two = Query { select: select(), group_by: vec![column("half")], ..Query::default() };
    for query in [one, two] {
        let (bytes, n) = parts(&table, &query, nodes(&table));
        assert!(bytes > 2 << 20 && n > 2, "{bytes} bytes in {n} parts");
    }
}
