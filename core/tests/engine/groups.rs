//! Many groups, which whole fragments make: against a plain model of the documented order of sums.

use std::collections::BTreeMap;

use arrow_array::{
    Array, Int64Array, UInt64Array,
    types::{Float64Type, Int32Type, UInt64Type},
};
use basalt_core::{
    exec::{Merge, Part},
    fragment::{Fragment, Values},
    table::Snapshot,
};

use super::*;

const FRAGMENTS: u32 = 3;
/// More than a block.
const FRAGMENT_ROWS: usize = 70_000;

/// One row, in the order of the table's columns.
#[derive(Clone, Debug)]
struct Row {
    name: Option<String>,
    code: Option<i32>,
    wide: i64,
    value: Option<f64>,
    part: Option<&'static str>,
    big: u64,
    amount: i64,
    note: Option<String>,
    /// About as many rows as values.
    pair: i64,
    /// Few values far apart.
    far: Option<i64>,
    /// Texts of one form, but for some.
    tag: Option<String>,
    /// As many as pairs, side by side.
    near: Option<i64>,
}

fn row(fragment: usize, row: usize) -> Row {
    let at = fragment * FRAGMENT_ROWS + row;
    let mix =
        (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let other = (mix ^ mix >> 32).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let pick = |shift: u32, n: u64| mix.rotate_right(shift) % n;
    let signed = |shift: u32, n: u64| i64::try_from(pick(shift, n)).unwrap();
    // The second fragment has few, the others nearly as many as rows.
    let note = if fragment == 1 { pick(13, 300) } else { (pick(13, 1 << 40) << 20) | pick(19, 1 << 16) };
    // The dictionaries overlap, and the last fragment's is the first's.
    let name = pick(3, 2500) + [0, 700, 0][fragment];
    let value = match pick(11, 4000) {
        0 => f64::INFINITY,
        1 => f64::NAN,
        2 => -f64::INFINITY,
        3..20 => -0.0,
        n => (f64::from(u32::try_from(n).unwrap()) - 1777.7) / 3.0,
    };
    Row {
        name: (name % 97 != 0).then(|| format!("name {name}")),
        code: (pick(17, 50) > 0).then(|| i32::try_from(signed(23, 1500)).unwrap() - 300),
        wide: (signed(29, 40_000) - 9) * 1_000_003_000_001,
        value: (pick(37, 9) > 0).then_some(value),
        part: [None, Some("x"), Some("yy"), Some("a"), Some("é")][usize::try_from(pick(41, 5)).unwrap()],
        big: u64::MAX - pick(43, 1 << 40),
        amount: if pick(47, 2) == 0 { i64::MAX - signed(5, 99) } else { i64::MIN + signed(7, 77) },
        note: (pick(9, 40) > 0).then(|| format!("note {note:x}")),
        pair: (i64::try_from((other ^ other >> 29) % 200_000).unwrap() - 9) * 1_000_003_000_001,
        tag: (pick(15, 50) > 0).then(|| match (pick(25, 4000), fragment) {
            (0, _) => ["", "tag", "tag12", "taga00000", "tag0000000", "z"][row % 6].to_owned(),
            (_, 1) => format!("tag{:06}", pick(33, 300)),
            _ => format!("tag{:06}", (other ^ other >> 29) % 200_000),
        }),
        near: (pick(35, 60) > 0).then(|| i64::try_from((other ^ other >> 29) % 200_000).unwrap() - 77),
        far: (pick(27, 30) > 0).then(|| (signed(21, 300) - 100).pow(3) * 1_000_003),
    }
}

fn table() -> Arc<Table> {
    let schema = Schema::new(vec![
        Field::new("name", DataType::Utf8, true),
        Field::new("code", DataType::Int32, true),
        Field::new("wide", DataType::Int64, false),
        Field::new("value", DataType::Float64, true),
        Field::new("part", DataType::Utf8, true),
        Field::new("big", DataType::UInt64, false),
        Field::new("amount", DataType::Int64, false),
        Field::new("note", DataType::Utf8, true),
        Field::new("pair", DataType::Int64, false),
        Field::new("far", DataType::Int64, true),
        Field::new("tag", DataType::Utf8, true),
        Field::new("near", DataType::Int64, true),
    ]);
    let table = Catalog::new().create("many", schema.unwrap()).unwrap();
    let fragment = |id: u32| {
        let rows: Vec<Row> = (0..FRAGMENT_ROWS).map(|at| row(id as usize, at)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter(rows.iter().map(|row| row.name.as_deref()))),
            Arc::new(Int32Array::from_iter(rows.iter().map(|row| row.code))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.wide))),
            Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.value))),
            Arc::new(StringArray::from_iter(rows.iter().map(|row| row.part))),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.big))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.amount))),
            Arc::new(StringArray::from_iter(rows.iter().map(|row| row.note.as_deref()))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.pair))),
            Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.far))),
            Arc::new(StringArray::from_iter(rows.iter().map(|row| row.tag.as_deref()))),
            Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.near))),
        ];
        let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
        appender.push(&RecordBatch::try_new(table.schema().to_arrow(), columns).unwrap()).unwrap();
        Fragment::new(id, appender.finish().unwrap().remove(0))
    };
    table.install(Snapshot::new(1, (0..FRAGMENTS).map(fragment).collect()));
    table
}

/// A key in the order of answers: null comes last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(i64),
    Text(String),
    Null,
}

fn key(row: &Row, name: &str) -> Key {
    match name {
        "name" => row.name.clone().map_or(Key::Null, Key::Text),
        "note" => row.note.clone().map_or(Key::Null, Key::Text),
        "tag" => row.tag.clone().map_or(Key::Null, Key::Text),
        "near" => row.near.map_or(Key::Null, Key::Number),
        "code" => row.code.map_or(Key::Null, |code| Key::Number(code.into())),
        "wide" => Key::Number(row.wide),
        "far" => row.far.map_or(Key::Null, Key::Number),
        "pair" => Key::Number(row.pair),
        "part" => row.part.map_or(Key::Null, |part| Key::Text(part.into())),
        _ => panic!("no such key"),
    }
}

/// What a group comes to.
#[derive(Debug, Default)]
struct Group {
    rows: i64,
    values: i64,
    /// The sums of fragments, of blocks of this fragment, and of this block; fragment and block.
    sums: [f64; 3],
    at: (usize, usize),
    codes: i64,
    code: Option<(i32, i32)>,
    part: Option<(&'static str, &'static str)>,
    big: Option<(u64, u64)>,
    amount: i128,
}

impl Group {
    fn turn(&mut self, at: (usize, usize)) {
        if at == self.at {
            return;
        }
        let [total, fragment, block] = self.sums;
        // All that are not numbers are one.
        let of_fragment = fragment + if block.is_nan() { f64::NAN } else { block };
        self.sums =
            if at.0 == self.at.0 { [total, of_fragment, 0.0] } else { [total + of_fragment, 0.0, 0.0] };
        self.at = at;
    }

    fn add(&mut self, row: &Row, at: (usize, usize)) {
        fn widen<T: Copy + Ord>(range: &mut Option<(T, T)>, value: Option<T>) {
            let Some(value) = value else { return };
            let (least, greatest) = range.unwrap_or((value, value));
            *range = Some((least.min(value), greatest.max(value)));
        }
        self.turn(at);
        self.rows += 1;
        if let Some(value) = row.value {
            self.values += 1;
            self.sums[2] += value;
        }
        self.codes += row.code.map_or(0, i64::from);
        widen(&mut self.code, row.code);
        widen(&mut self.part, row.part);
        widen(&mut self.big, Some(row.big));
        self.amount += i128::from(row.amount);
    }
}

fn model(keys: &[&str], rows: impl Iterator<Item = (usize, usize, Row)>) -> BTreeMap<Vec<Key>, Group> {
    let mut groups: BTreeMap<Vec<Key>, Group> = BTreeMap::new();
    for (fragment, at, row) in rows {
        let key = keys.iter().map(|name| key(&row, name)).collect();
        groups.entry(key).or_default().add(&row, (fragment, at / 65_536));
    }
    groups.values_mut().for_each(|group| group.turn((usize::MAX, 0)));
    groups
}

/// `extremes`: the column of which the least and the greatest are asked for beside those of others.
fn query(keys: &[&str], filter: Option<Filter>, extremes: &str) -> Query {
    use AggregateFunction::{Avg, Count, Max, Min, Sum};
    let of = |function, name: &str| aggregate(function, Some(column(name)));
    let keys = || keys.iter().map(|name| column(name));
    let aggregates = [
        aggregate(Count, None),
        of(Count, "value"),
        of(Sum, "value"),
        of(Sum, "code"),
        of(Min, "code"),
        of(Max, "code"),
        of(Min, extremes),
        of(Max, extremes),
        of(Min, "big"),
        of(Max, "big"),
        of(Avg, "amount"),
    ];
    Query {
        select: keys().map(|expr| SelectItem { expr, name: None }).chain(aggregates).collect(),
        group_by: keys().collect(),
        filter,
        ..Query::default()
    }
}

fn check(batches: &[RecordBatch], keys: &[&str], groups: &BTreeMap<Vec<Key>, Group>) {
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), groups.len());
    let mut groups = groups.iter();
    for batch in batches {
        let of = |at: usize| batch.column(keys.len() + at);
        let int = |at: usize, row: usize| of(at).as_primitive::<Int64Type>().value(row);
        for row in 0..batch.num_rows() {
            let (key, group) = groups.next().unwrap();
            for (part, array) in key.iter().zip(batch.columns()) {
                let found = match array.data_type() {
                    _ if array.is_null(row) => Key::Null,
                    arrow_schema::DataType::Utf8 => Key::Text(array.as_string::<i32>().value(row).into()),
                    arrow_schema::DataType::Int32 => {
                        Key::Number(array.as_primitive::<Int32Type>().value(row).into())
                    }
                    _ => Key::Number(array.as_primitive::<Int64Type>().value(row)),
                };
                assert_eq!(found, *part);
            }
            assert_eq!((int(0, row), int(1, row)), (group.rows, group.values), "{key:?}");
            let sum = of(2).as_primitive::<Float64Type>();
            if group.values == 0 {
                assert!(sum.is_null(row));
            } else {
                assert_eq!(sum.value(row).to_bits(), group.sums[0].to_bits(), "{key:?} {group:?}");
            }
            let code = |at: usize| {
                let codes = of(at).as_primitive::<Int32Type>();
                codes.is_valid(row).then(|| codes.value(row))
            };
            assert_eq!(code(4).zip(code(5)), group.code, "{key:?}");
            if group.code.is_some() {
                assert_eq!(int(3, row), group.codes, "{key:?}");
            } else {
                assert!(of(3).is_null(row));
            }
            if *of(6).data_type() == arrow_schema::DataType::Utf8 {
                let part = |at: usize| {
                    let parts = of(at).as_string::<i32>();
                    parts.is_valid(row).then(|| parts.value(row))
                };
                assert_eq!(part(6).zip(part(7)), group.part, "{key:?}");
            } else {
                assert_eq!(code(6).zip(code(7)), group.code, "{key:?}");
            }
            let big = |at: usize| of(at).as_primitive::<UInt64Type>().value(row);
            assert_eq!(Some((big(8), big(9))), group.big, "{key:?}");
            #[allow(clippy::cast_precision_loss, reason = "as the average is defined")]
            let average = group.amount as f64 / group.rows as f64;
            assert_eq!(
                of(10).as_primitive::<Float64Type>().value(row).to_bits(),
                average.to_bits(),
                "{key:?}"
            );
        }
    }
}

/// The answer of parts, each of some fragments, which come in the other order.
fn by_parts(table: &Table, query: &Query, fragments: usize) -> Vec<RecordBatch> {
    let control = Control::default();
    let snapshot = table.snapshot();
    let plan = Plan::new(table, &snapshot, query).unwrap();
    let mut merge = Merge::new(&plan, &control).unwrap();
    for fragments in snapshot.fragments().chunks(fragments).rev() {
        let node = Snapshot::new(snapshot.version(), fragments.to_vec());
        let own = Plan::new(table, &node, query).unwrap();
        let ids: Vec<u32> = fragments.iter().map(Fragment::id).collect();
        let mut add = |part: Part| merge.add(part, &ids);
        own.run_part(&node, &control, &mut add).unwrap();
    }
    let mut batches = Vec::new();
    let mut sink = |batch| {
        batches.push(batch);
        Ok(())
    };
    merge.finish(&mut sink).unwrap();
    batches
}

#[test]
fn groups_are_compared_exactly() {
    let table = crate::table();
    let of = |function, name: &str| match aggregate(function, Some(column(name))).expr {
        Expr::Aggregate(aggregate) => Expr::Aggregate(aggregate),
        _ => panic!("an aggregate"),
    };
    let (sum, most) = (|name: &str| of(AggregateFunction::Sum, name), of(AggregateFunction::Max, "id"));
    let decimal = |unscaled, scale| Expr::Literal(Literal::Decimal { unscaled, scale });
    // More digits behind the point than 64 bits times them have room for.
    let long = decimal(15 * 10_i128.pow(37), 38);
    for (op, left, right, expected) in [
        (CompareOp::Gt, sum("id"), long.clone(), 98),
        (CompareOp::Lt, long.clone(), sum("id"), 98),
        (CompareOp::Le, sum("id"), decimal(505, 1), 51),
        (CompareOp::Ge, sum("id"), most.clone(), 100),
        (CompareOp::Ne, most, sum("id"), 0),
        (CompareOp::Ge, sum("price"), decimal(225, 1), 10),
        (CompareOp::Lt, sum("price"), long, 6),
        (CompareOp::Eq, of(AggregateFunction::Count, "price"), Expr::Literal(Literal::Int(1)), 100),
    ] {
        let query = Query {
            select: vec![aggregate(AggregateFunction::Count, None)],
            filter: Some(compare("id", CompareOp::Lt, Literal::Int(100))),
            group_by: vec![column("id")],
            having: Some(Filter::Compare(op, left.clone(), right.clone())),
            ..Query::default()
        };
        let (batches, _) = run(&table, &query).unwrap();
        let shown: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(shown, expected, "{left:?} {op:?} {right:?}");
    }
}

#[test]
fn many_groups_are_those_of_a_model() {
    let table = table();
    let has_dictionary = |fragment: &Fragment| match fragment.column(7).values() {
        Values::Text(texts) => texts.codes().is_some(),
        Values::Keys(_) => panic!("notes are texts"),
    };
    let have: Vec<bool> = table.snapshot().fragments().iter().map(has_dictionary).collect();
    assert_eq!(have, [false, true, false]);
    let all: Vec<(usize, usize, Row)> = (0..FRAGMENTS as usize)
        .flat_map(|fragment| (0..FRAGMENT_ROWS).map(move |at| (fragment, at, row(fragment, at))))
        .collect();
    let some = || Some(compare("code", CompareOp::Lt, Literal::Int(900)));
    let deleted = exec::select(
        &table,
        &table.snapshot(),
        Some(&compare("code", CompareOp::Gt, Literal::Int(1150))),
        &Control::default(),
    );
    for has_deleted in [false, true] {
        if has_deleted {
            let rows = &deleted.as_ref().unwrap().0;
            let fragments = table.snapshot().fragments().to_vec();
            let left = fragments.iter().map(|f| f.delete(rows).map_or_else(|| f.clone(), |(left, _)| left));
            table.install(Snapshot::new(2, left.collect()));
        }
        for keys in [
            &["name"] as &[&str],
            &["code"],
            &["wide"],
            &["code", "name"],
            &["name", "code", "wide"],
            &["note"],
            &["tag"],
            &["near"],
        ] {
            for filter in [None, some()] {
                if has_deleted && filter.is_none() {
                    continue;
                }
                let lives = |row: &Row| !has_deleted || row.code.is_none_or(|code| code <= 1150);
                let selects = |row: &Row| filter.is_none() || row.code.is_some_and(|code| code < 900);
                let rows = all.iter().filter(|(_, _, row)| lives(row) && selects(row)).cloned();
                let groups = model(keys, rows);
                let query = query(keys, filter.clone(), "part");
                let (batches, _) = run(&table, &query).unwrap();
                check(&batches, keys, &groups);
                if filter.is_some() {
                    continue;
                }
                check(&by_parts(&table, &query, 1), keys, &groups);
                let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
                assert_eq!(
                    format!("{:?}", pool.install(|| run(&table, &query)).unwrap().0),
                    format!("{batches:?}")
                );
            }
        }
    }
}

#[test]
fn groups_of_integers_of_a_dictionary_are_those_of_a_model() {
    let table = table();
    let has_dictionary = |fragment: &Fragment| match fragment.column(9).values() {
        Values::Keys(keys) => keys.codes().is_some(),
        Values::Text(_) => panic!("these are integers"),
    };
    assert!(table.snapshot().fragments().iter().all(has_dictionary));
    let rows = (0..FRAGMENTS as usize)
        .flat_map(|fragment| (0..FRAGMENT_ROWS).map(move |at| (fragment, at, row(fragment, at))));
    for keys in [&["far"] as &[&str], &["part", "far"], &["far", "code"]] {
        let groups = model(keys, rows.clone());
        let query = query(keys, None, "part");
        check(&run(&table, &query).unwrap().0, keys, &groups);
        check(&by_parts(&table, &query, 1), keys, &groups);
    }
}

#[test]
fn groups_nearly_as_many_as_rows_are_those_of_a_model() {
    let table = table();
    let all: Vec<(usize, usize, Row)> = (0..FRAGMENTS as usize)
        .flat_map(|fragment| (0..FRAGMENT_ROWS).map(move |at| (fragment, at, row(fragment, at))))
        .collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    // The last three span more than one number holds.
    let one =
        [&["pair"] as &[&str], &["part", "pair"], &["name", "code", "wide"], &["note"], &["tag"], &["near"]];
    let two = [&["far", "pair"] as &[&str], &["wide", "part", "pair"], &["note", "pair", "wide"]];
    for keys in one.into_iter().chain(two) {
        for bound in [None, Some(1190)] {
            let selects = |row: &Row| bound.is_none_or(|bound| row.code.is_some_and(|code| code < bound));
            let groups = model(keys, all.iter().filter(|(_, _, row)| selects(row)).cloned());
            let filter = bound.map(|bound| compare("code", CompareOp::Lt, Literal::Int(bound.into())));
            let query = query(keys, filter, "code");
            let (batches, _) = run(&table, &query).unwrap();
            check(&batches, keys, &groups);
            check(&by_parts(&table, &query, 2), keys, &groups);
            let shared = pool.install(|| run(&table, &query)).unwrap().0;
            assert_eq!(format!("{shared:?}"), format!("{batches:?}"));
        }
    }
}

#[test]
fn groups_nearly_as_many_as_rows_hold_no_more_than_they_may() {
    let table = table();
    let snapshot = table.snapshot();
    let by_key = query(&["pair"], None, "code");
    let order = OrderBy { expr: column("pair"), descending: true, nulls_first: false, of_table: false };
    let by_order = Query { order_by: vec![order], ..by_key.clone() };
    let run = |query: &Query, bytes: usize| {
        let plan = Plan::new(&table, &snapshot, query).unwrap();
        plan.run(&snapshot, &Control::with_memory(bytes), &mut |_| Ok(())).map_err(|error| error.kind())
    };
    for bytes in [1 << 20, 8 << 20] {
        assert_eq!(run(&by_key, bytes), Err(ErrorKind::MemoryLimit), "{bytes}");
    }
    // Groups that are handed out as they are ready are not held, ...
    run(&by_key, 32 << 20).unwrap();
    // ... those that are sorted are.
    assert_eq!(run(&by_order, 32 << 20), Err(ErrorKind::MemoryLimit));
    run(&by_order, 256 << 20).unwrap();
}

#[test]
fn groups_nearly_as_many_as_rows_end_with_their_query() {
    let table = table();
    let (snapshot, query) = (table.snapshot(), query(&["pair"], None, "code"));
    let plan = Plan::new(&table, &snapshot, &query).unwrap();
    let (control, mut batches) = (Control::default(), 0);
    let ended = plan.run(&snapshot, &control, &mut |_| {
        control.cancel();
        batches += 1;
        Ok(())
    });
    assert_eq!((ended.unwrap_err().kind(), batches), (ErrorKind::Cancelled, 1));
}

#[test]
fn a_page_of_many_groups_is_a_part_of_the_answer() {
    let table = table();
    let all = query(&["wide"], None, "part");
    let (batches, _) = run(&table, &all).unwrap();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let page = Query { limit: Some(10_000), offset: 5_000, ..all.clone() };
    let (shown, _) = run(&table, &page).unwrap();
    assert_eq!(shown.iter().map(RecordBatch::num_rows).sum::<usize>(), 10_000);
    assert_eq!(format!("{:?}", shown[0].slice(0, 3192)), format!("{:?}", batches[0].slice(5000, 3192)));
    let behind = Query { offset: rows as u64, ..all };
    assert!(run(&table, &behind).unwrap().0.is_empty());
}

#[test]
fn many_groups_hold_no_more_than_they_may() {
    let table = table();
    let (snapshot, query) = (table.snapshot(), query(&["wide"], None, "part"));
    let plan = Plan::new(&table, &snapshot, &query).unwrap();
    let run = |bytes: usize| plan.run(&snapshot, &Control::with_memory(bytes), &mut |_| Ok(()));
    assert_eq!(run(8 << 20).unwrap_err().kind(), ErrorKind::MemoryLimit);
    run(128 << 20).unwrap();
}

#[test]
fn a_page_of_groups_nearly_as_many_as_rows_is_a_part_of_the_answer() {
    let table = table();
    let all = query(&["pair"], None, "code");
    let answer = |query: &Query| run(&table, query).unwrap().0;
    let whole = answer(&all);
    let rows: usize = whole.iter().map(RecordBatch::num_rows).sum();
    assert!(rows > FRAGMENTS as usize * FRAGMENT_ROWS / 2, "{rows}");
    for (offset, limit) in
        [(0, 1), (5_000, 70_000), (100_000, 1_000_000), (rows, 9), (rows - 1, 9), (77_777, 0)]
    {
        let page = Query { limit: Some(limit as u64), offset: offset as u64, ..all.clone() };
        let (mut at, mut batch, mut row) = (offset, 0, offset);
        for mut shown in answer(&page) {
            while shown.num_rows() > 0 {
                while row >= whole[batch].num_rows() {
                    row -= whole[batch].num_rows();
                    batch += 1;
                }
                let n = shown.num_rows().min(whole[batch].num_rows() - row);
                assert_eq!(shown.slice(0, n), whole[batch].slice(row, n), "{offset} {limit} {at}");
                shown = shown.slice(n, shown.num_rows() - n);
                (at, row) = (at + n, row + n);
            }
        }
        assert_eq!(at - offset, limit.min(rows - offset), "{offset} {limit}");
    }
}

/// A text that is the same in all rows beside other keys makes no other groups.
#[test]
fn a_text_may_be_a_key_beside_others() {
    let table = table();
    let text = || Expr::Literal(Literal::Text("x".to_owned()));
    for name in ["part", "code", "name", "far"] {
        let count = aggregate(AggregateFunction::Count, None);
        let keys = |keys: Vec<Expr>| Query {
            select: keys
                .iter()
                .map(|expr| SelectItem { expr: expr.clone(), name: None })
                .chain([count.clone()])
                .collect(),
            group_by: keys,
            ..Query::default()
        };
        let (alone, _) = run(&table, &keys(vec![column(name)])).unwrap();
        for both in [vec![text(), column(name)], vec![column(name), text()]] {
            let at = usize::from(both[1] == text());
            let query = keys(both);
            for batches in [run(&table, &query).unwrap().0, by_parts(&table, &query, 1)] {
                let ([all], [alone]) = (&*batches, &*alone) else { panic!("few groups are one batch") };
                assert_eq!([all.column(1 - at), all.column(2)], [alone.column(0), alone.column(1)], "{name}");
                assert!(all.column(at).as_string::<i32>().iter().all(|text| text == Some("x")));
            }
        }
    }
}
