//! Texts that are nearly all distinct, which have no codes.

use super::*;

const ROWS: usize = 150_000;

/// Texts in no order; one of seven is null.
fn texts() -> Vec<Option<String>> {
    let text = |i: usize| format!("{:09}", i.wrapping_mul(2_654_435_761) % 999_999_937 / 3);
    (0..ROWS).map(|i| (i % 7 != 3).then(|| text(i))).collect()
}

fn table_of(texts: &[Option<String>]) -> Arc<Table> {
    let fields = vec![Field::new("id", DataType::Int32, false), Field::new("text", DataType::Utf8, true)];
    let table = Catalog::new().create("texts", Schema::new(fields).unwrap()).unwrap();
    let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
    let ids = Int32Array::from_iter_values(0..i32::try_from(texts.len()).unwrap());
    let columns: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(StringArray::from(texts.to_vec()))];
    appender.push(&RecordBatch::try_new(table.schema().to_arrow(), columns).unwrap()).unwrap();
    let fragments = (0..).zip(appender.finish().unwrap());
    let fragments = fragments.map(|(id, own)| basalt_core::fragment::Fragment::new(id, own));
    table.install(basalt_core::table::Snapshot::new(1, fragments.collect()));
    table
}

fn answered(table: &Table, query: &Query) -> Vec<Option<String>> {
    let batches = run(table, query).unwrap().0;
    let rows = |batch: &RecordBatch| {
        let columns = batch.columns().iter().map(|column| column.as_string::<i32>());
        columns.flat_map(|column| column.iter().map(|text| text.map(str::to_owned))).collect::<Vec<_>>()
    };
    batches.iter().flat_map(rows).collect()
}

#[test]
fn the_least_and_the_greatest_of_texts() {
    let texts = texts();
    let table = table_of(&texts);
    let both = vec![
        aggregate(AggregateFunction::Min, Some(column("text"))),
        aggregate(AggregateFunction::Max, Some(column("text"))),
    ];
    for (from, to) in [(0, ROWS), (0, 3), (3, 4), (9, 70_000), (70_000, 70_000), (ROWS - 5, ROWS)] {
        let at = |bound: usize| Literal::Int(i64::try_from(bound).unwrap());
        let within =
            Filter::And(vec![compare("id", CompareOp::Ge, at(from)), compare("id", CompareOp::Lt, at(to))]);
        let query = Query { select: both.clone(), filter: Some(within), ..Query::default() };
        let there = || texts[from..to].iter().flatten();
        assert_eq!(answered(&table, &query), [there().min().cloned(), there().max().cloned()], "{from} {to}");
    }
}

#[test]
fn the_first_rows_by_a_text() {
    let texts = texts();
    let table = table_of(&texts);
    for (descending, nulls_first) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut sorted = texts.clone();
        sorted.sort_by(|a, b| match (a, b) {
            (Some(a), Some(b)) if descending => b.cmp(a),
            (Some(a), Some(b)) => a.cmp(b),
            (a, b) if nulls_first => a.is_some().cmp(&b.is_some()),
            (a, b) => a.is_none().cmp(&b.is_none()),
        });
        let order = OrderBy { expr: column("text"), descending, nulls_first, of_table: false };
        for (offset, limit) in [(0, 1), (0, 10), (7, 900), (21_000, 1000), (140_000, 20_000)] {
            let query = Query {
                select: vec![SelectItem { expr: column("text"), name: None }],
                order_by: vec![order.clone()],
                offset,
                limit: Some(limit),
                ..Query::default()
            };
            let (offset, limit) = (usize::try_from(offset).unwrap(), usize::try_from(limit).unwrap());
            let expected = &sorted[offset..(offset + limit).min(ROWS)];
            assert_eq!(answered(&table, &query), expected, "{descending} {nulls_first} {offset} {limit}");
        }
    }
}
