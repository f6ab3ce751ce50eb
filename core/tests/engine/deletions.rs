//! Deleted rows are in no answer, and versions before the deletion still have them.

use arrow_array::types::Int32Type;
use basalt_core::{
    describe::ColumnSummary,
    fragment::Fragment,
    limits::PENDING_BYTES,
    table::{Change, Snapshot},
};
use basalt_sip::Sip;

use super::*;

/// The change that deletes the rows with these addresses.
fn deleting(fragments: &[Fragment], rows: &Sip) -> Change {
    let pairs = fragments.iter().filter_map(|was| Some((was.clone(), was.delete(rows)?.0)));
    let (was, is) = pairs.unzip();
    Change { was, is, ..Change::default() }
}

/// Deletes the rows that a filter selects, and says how many they were.
fn delete(table: &Table, filter: &Filter) -> u64 {
    let snapshot = table.snapshot();
    let (rows, _) = exec::select(table, &snapshot, Some(filter), &Control::default()).unwrap();
    let change = deleting(snapshot.fragments(), &rows);
    if !change.was.is_empty() {
        table.commit(change).unwrap();
    }
    rows.cardinality()
}

fn extremes(table: &Table) -> (i32, i32) {
    let of = |function| {
        let select = vec![aggregate(function, Some(column("id")))];
        let (batches, _) = run(table, &Query { select, ..Query::default() }).unwrap();
        batches[0].column(0).as_primitive::<Int32Type>().value(0)
    };
    (of(AggregateFunction::Min), of(AggregateFunction::Max))
}

#[test]
fn statistics_answer_nothing_where_rows_are_deleted() {
    let table = table();
    let ends = Filter::Or(vec![
        compare("id", CompareOp::Lt, Literal::Int(10)),
        compare("id", CompareOp::Ge, Literal::Int(149_990)),
    ]);
    assert_eq!((delete(&table, &ends), table.snapshot().rows()), (20, 149_980));
    assert_eq!(extremes(&table), (10, 149_989));
    assert_eq!(count(&table, Filter::Constant(true)).0, 149_980);
    let b = || compare("kind", CompareOp::Eq, Literal::Text("b".into()));
    // 1, 5, 9 and 149990, 149993, ... are gone.
    assert_eq!(count(&table, b()).0, 37_500 - 3 - 2);
    assert_eq!(delete(&table, &b()), 37_495);
    let query = Query { group_by: vec![column("kind")], ..Query::default() };
    let (batches, _) = run(&table, &query).unwrap();
    let kinds: Vec<_> = batches[0].column(0).as_string::<i32>().iter().collect();
    assert_eq!(kinds, [Some("a"), Some("c"), None], "no row is left that has b");
    let (keys, _) =
        exec::select_keys(&table, &table.snapshot(), "id", Some(&b()), &Control::default()).unwrap();
    assert!(keys.sip.is_empty());
    // What is held is described, deleted or not.
    let summary = ColumnSummary::new(&table.snapshot(), table.schema(), 0);
    assert_eq!((summary.rows, table.snapshot().rows()), (150_000, 149_980 - 37_495));
}

#[test]
fn a_block_without_rows_is_pruned() {
    let table = table();
    assert_eq!(delete(&table, &compare("id", CompareOp::Lt, Literal::Int(70_000))), 70_000);
    let all = Query { select: vec![aggregate(AggregateFunction::Count, None)], ..Query::default() };
    let (_, statistics) = run(&table, &all).unwrap();
    let Statistics { rows, blocks, blocks_pruned, rows_selected, .. } = statistics;
    assert_eq!((rows, blocks, blocks_pruned, rows_selected), (80_000, 3, 1, 80_000));
    assert_eq!(delete(&table, &Filter::Constant(true)), 80_000);
    assert_eq!(table.snapshot().rows(), 0);
    let (_, statistics) = run(&table, &all).unwrap();
    assert_eq!((statistics.blocks_pruned, statistics.rows_selected), (3, 0));
    assert!(
        Plan::new(&table, &table.snapshot(), &all)
            .unwrap()
            .explain(&table.snapshot(), true, &Control::default())
            .is_ok()
    );
}

#[test]
fn a_value_of_a_deleted_row_is_never_computed() {
    let table = table();
    delete(&table, &compare("id", CompareOp::Eq, Literal::Int(0)));
    let ratio = Expr::Arithmetic(ArithmeticOp::Divide, Box::new(column("price")), Box::new(column("id")));
    let query = Query { select: vec![aggregate(AggregateFunction::Max, Some(ratio))], ..Query::default() };
    let (batches, _) = run(&table, &query).unwrap();
    assert_eq!(batches[0].column(0).as_primitive::<arrow_array::types::Float64Type>().value(0), 0.25);
}

#[test]
fn older_versions_stay_for_a_while_and_conflicts_are_errors() {
    let table = table();
    let before = table.snapshot();
    let rows = Sip::from_sorted_ids(&[1, 2, 3]);
    let change = || deleting(before.fragments(), &rows);
    assert_eq!(table.commit(change()), Ok(2));
    assert_eq!(table.commit(change()).unwrap_err().kind(), ErrorKind::WriteConflict);
    assert_eq!(table.snapshot_at(Some(1)).unwrap().rows(), 150_000);
    assert_eq!(table.snapshot_at(None).unwrap().rows(), 149_997);
    assert_eq!(table.snapshot_at(Some(3)).unwrap_err().kind(), ErrorKind::VersionGone);
    // The rows are shared.
    assert!(table.bytes() < before.bytes() + (64 << 10));
    drop(before);
    table.forget_before(2);
    assert_eq!(table.snapshot_at(Some(1)).unwrap_err().kind(), ErrorKind::VersionGone);
    let addresses = Filter::Rows(RowSet {
        table: "things".into(),
        version: 2,
        table_id: Some(table.id()),
        sip: Arc::new(Sip::from_sorted_ids(&[3, 4])),
        origin: SipOrigin::Request,
    });
    assert_eq!(count(&table, addresses).0, 1, "the address of a deleted row selects nothing");
}

#[test]
fn versions_are_forgotten_unless_somebody_needs_them() {
    let table = table();
    for id in 0..3 {
        delete(&table, &compare("id", CompareOp::Eq, Literal::Int(id)));
    }
    assert_eq!(table.pin(2, 1), Ok(true));
    let read = table.snapshot_at(Some(3)).unwrap();
    table.forget_before(4);
    let is_there = |version| table.snapshot_at(Some(version)).is_ok();
    assert_eq!([1, 2, 3, 4].map(is_there), [false, true, true, true]);
    table.unpin(2);
    table.forget_before(4);
    assert_eq!([1, 2, 3, 4].map(is_there), [false, false, true, true]);
    drop(read);
    table.forget_before(4);
    assert_eq!([1, 2, 3, 4].map(is_there), [false, false, false, true]);
}

#[test]
fn a_merge_leaves_deleted_rows_out() {
    let table = table();
    delete(&table, &compare("id", CompareOp::Lt, Literal::Int(140_000)));
    append(&table, 0..20_000);
    let snapshot = table.snapshot();
    let [only] = snapshot.fragments() else { panic!("{} fragments", snapshot.fragments().len()) };
    assert_eq!((only.rows(), only.deleted().is_none()), (30_000, true));
    assert_eq!(count(&table, compare("kind", CompareOp::Eq, Literal::Text("b".into()))).0, 7_500);
}

/// Has other rows take the place of those with these ids, from a snapshot on.
fn update(table: &Arc<Table>, snapshot: &Snapshot, ids: std::ops::Range<i32>) {
    let of = |op, id: i32| compare("id", op, Literal::Int(id.into()));
    let filter = Filter::And(vec![of(CompareOp::Ge, ids.start), of(CompareOp::Lt, ids.end)]);
    let (rows, _) = exec::select(table, snapshot, Some(&filter), &Control::default()).unwrap();
    let add = appender(table, ids).finish().unwrap().into_iter().map(Arc::new).collect();
    let change = Change { add, ..deleting(snapshot.fragments(), &rows) };
    table.commit_merged(snapshot, change, PENDING_BYTES).unwrap();
}

#[test]
fn what_takes_the_place_of_rows_is_merged_as_what_is_appended() {
    let table = table();
    for id in 0..100 {
        update(&table, &table.snapshot(), id..id + 1);
    }
    let snapshot = table.snapshot();
    assert_eq!(snapshot.rows(), 150_000);
    assert!(snapshot.fragments().len() <= 8, "{} fragments", snapshot.fragments().len());
    assert_eq!(count(&table, compare("id", CompareOp::Lt, Literal::Int(100))).0, 100);
    // Of many rows, those that lose as many have the rest.
    update(&table, &snapshot, 0..75_000);
    let now = table.snapshot();
    let [only] = now.fragments() else { panic!("{} fragments", now.fragments().len()) };
    assert_eq!((only.rows(), only.deleted().is_none()), (150_000, true));
    // What was read before somebody else has merged the same is added by itself.
    append(&table, 150_000..160_000);
    let before = table.snapshot();
    append(&table, 160_000..170_000);
    update(&table, &before, 0..6000);
    assert_eq!((table.snapshot().rows(), table.snapshot().fragments().len()), (170_000, 3));
    assert_eq!(count(&table, compare("id", CompareOp::Lt, Literal::Int(7000))).0, 7000);
}
