//! Columns that are held in the form of another type: what is compared is their values, never two forms.

use arrow_array::{BinaryArray, Int64Array, Time64MicrosecondArray, TimestampMicrosecondArray};
use basalt_core::{
    logical::Logical,
    query::SemiJoin,
    time_parts::{TimeFunction, Unit},
};

use super::{sets::table_of, *};

const DECIMAL: Logical = Logical::Decimal { precision: 30, scale: 3 };
const NARROWER: Logical = Logical::Decimal { precision: 25, scale: 3 };

fn decimals(of: Logical) -> ArrayRef {
    let values = Decimal128Array::from(vec![Some(1000), Some(5), Some(2500), None, Some(-1)]);
    let Logical::Decimal { precision, scale } = of else { panic!("{of}") };
    let values = values.with_precision_and_scale(precision, scale.cast_signed()).unwrap();
    of.to_form(&(Arc::new(values) as ArrayRef)).unwrap()
}

/// `d` and `e` 1, 0.005, 2.5, null and -0.001, the second of fewer digits; `f` as `d`; `b` bytes, `s` a text, `at` a time of day.
fn held(catalog: &Catalog) -> Arc<Table> {
    let bytes: Vec<&[u8]> = vec![b"a", b"b", b"ab", b"", b"z"];
    let bytes = Logical::Binary.to_form(&(Arc::new(BinaryArray::from(bytes)) as ArrayRef)).unwrap();
    let times: ArrayRef = Arc::new(Time64MicrosecondArray::from(vec![1, 2, 3, 4, 5]));
    let times = Logical::Time.to_form(&times).unwrap();
    let text: ArrayRef = Arc::new(StringArray::from(vec!["61", "a", "b", "", "x"]));
    let id: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 2, 3, 4]));
    let of = |name: &str, logical: Logical| Field {
        logical: Some(logical),
        ..Field::new(name, logical.form(), true)
    };
    let fields = vec![
        Field::new("id", DataType::Int64, false),
        of("d", DECIMAL),
        of("e", NARROWER),
        of("f", DECIMAL),
        of("b", Logical::Binary),
        Field::new("s", DataType::Utf8, false),
        of("at", Logical::Time),
    ];
    let columns = vec![id, decimals(DECIMAL), decimals(NARROWER), decimals(DECIMAL), bytes, text, times];
    let table = catalog.create("held", Schema::new(fields).unwrap()).unwrap();
    let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
    appender.push(&RecordBatch::try_new(table.schema().to_arrow(), columns).unwrap()).unwrap();
    appender.commit().unwrap();
    table
}

fn ids(table: &Table, query: &Query) -> Vec<i64> {
    let (batches, _) = run(table, query).unwrap();
    let mut ids: Vec<i64> =
        batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    ids.sort_unstable();
    ids
}

fn select(filter: Filter) -> Query {
    let select = vec![SelectItem { expr: column("id"), name: None }];
    Query { select, filter: Some(filter), ..Query::default() }
}

/// Of each value, and of the least one of each group.
fn both(table: &Table, op: CompareOp, literal: &Literal) -> Vec<i64> {
    let rows = ids(table, &select(compare("d", op, literal.clone())));
    let least = Expr::Aggregate(Box::new(Aggregate {
        function: AggregateFunction::Min,
        argument: Some(column("d")),
        distinct: false,
    }));
    let groups = Query {
        group_by: vec![column("id")],
        having: Some(Filter::Compare(op, least, Expr::Literal(literal.clone()))),
        ..Query::default()
    };
    assert_eq!(ids(table, &groups), rows, "{op:?} {literal:?}");
    let keys = Query {
        group_by: vec![column("id"), column("d")],
        having: Some(compare("d", op, literal.clone())),
        ..Query::default()
    };
    assert_eq!(ids(table, &keys), rows, "{op:?} {literal:?}");
    rows
}

#[test]
fn wide_decimals_compare_with_numbers_of_all_types() {
    use CompareOp::*;
    let table = held(&Catalog::new());
    let text = |text: &str| Literal::Text(text.to_owned());
    let decimal = |unscaled, scale| Literal::Decimal { unscaled, scale };
    for (op, literal, expected) in [
        (Ge, text("1"), vec![0, 2]),
        (Eq, text("1.0"), vec![0]),
        (Lt, Literal::Int(1), vec![1, 4]),
        (Ne, Literal::UInt(1), vec![1, 2, 4]),
        (Ge, Literal::Float(1.0), vec![0, 2]),
        (Lt, decimal(10_001, 4), vec![0, 1, 4]),
        (Ge, decimal(10_001, 4), vec![2]),
        (Eq, decimal(10_001, 4), vec![]),
        (Ne, decimal(10_001, 4), vec![0, 1, 2, 4]),
        (Gt, decimal(-1, 100), vec![0, 1, 2]),
        (Le, text(&"9".repeat(38)), vec![0, 1, 2, 4]),
        (Gt, text(&"9".repeat(38)), vec![]),
        (Gt, Literal::Float(f64::NEG_INFINITY), vec![0, 1, 2, 4]),
        (Lt, Literal::Float(f64::NAN), vec![0, 1, 2, 4]),
        (Eq, Literal::Null, vec![]),
    ] {
        assert_eq!(both(&table, op, &literal), expected, "{op:?} {literal:?}");
    }
    let listed = Filter::In(column("d"), vec![text("2.50"), decimal(10_001, 4), Literal::Float(0.005)]);
    assert_eq!(ids(&table, &select(listed.clone())), [1, 2]);
    assert_eq!(ids(&table, &select(Filter::Not(Box::new(listed)))), [0, 4]);
    let nowhere = Filter::Not(Box::new(Filter::In(column("d"), vec![decimal(10_001, 4)])));
    assert_eq!(ids(&table, &select(nowhere)), [0, 1, 2, 4]);
}

#[test]
fn columns_of_a_type_compare_and_others_do_not() {
    let table = held(&Catalog::new());
    let of = |op, a: &str, b: &str| Filter::Compare(op, column(a), column(b));
    assert_eq!(ids(&table, &select(of(CompareOp::Eq, "d", "f"))), [0, 1, 2, 4]);
    assert_eq!(ids(&table, &select(of(CompareOp::Le, "b", "b"))), [0, 1, 2, 3, 4]);
    let refused = |query: &Query, words: &str| {
        let error = run(&table, query).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TypeMismatch, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    for (a, b, words) in [
        ("d", "e", "decimal(30,3) does not compare with decimal(25,3)"),
        ("d", "b", "decimal(30,3) does not compare with binary"),
        ("s", "b", "utf8 does not compare with binary"),
        ("d", "id", "decimal(30,3) does not compare with int64"),
        ("at", "id", "time does not compare with int64"),
    ] {
        refused(&select(of(CompareOp::Lt, a, b)), words);
        refused(&select(Filter::Not(Box::new(of(CompareOp::Eq, a, b)))), words);
    }
    refused(&select(Filter::Like(column("b"), "61%".into())), "LIKE takes text, not binary");
    refused(&select(Filter::Like(column("d"), "%00%".into())), "LIKE takes text, not decimal(30,3)");
    for function in [AggregateFunction::Sum, AggregateFunction::Avg] {
        let query = Query { select: vec![aggregate(function, Some(column("at")))], ..Query::default() };
        refused(&query, "takes numbers, not time");
    }
    let later = Expr::Arithmetic(ArithmeticOp::Add, Box::new(column("at")), Box::new(column("id")));
    let query = Query { select: vec![SelectItem { expr: later, name: None }], ..Query::default() };
    refused(&query, "arithmetic takes numbers, not time");
}

#[test]
fn sets_of_another_form_are_refused() {
    let catalog = Catalog::new();
    let table = held(&catalog);
    let resolved = |column: &str, key: &str| {
        let (column, key) = (column.to_owned(), key.to_owned());
        let join = SemiJoin { column, table: "held".to_owned(), key, filter: None, version: None };
        let mut filter = Filter::SemiJoin(Box::new(join));
        let control = Control::default();
        exec::resolve_filter(&catalog, &table, &table.snapshot(), &mut filter, &control).map(|_| filter)
    };
    for (column, key) in [("d", "f"), ("b", "b"), ("at", "at")] {
        let expected: &[i64] = if column == "d" { &[0, 1, 2, 4] } else { &[0, 1, 2, 3, 4] };
        assert_eq!(ids(&table, &select(resolved(column, key).unwrap())), expected, "{column}");
    }
    for (column, key) in [("d", "e"), ("b", "s"), ("s", "b"), ("at", "id"), ("id", "at"), ("d", "s")] {
        let error = resolved(column, key).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TypeMismatch, "{column} {key}");
        assert!(error.to_string().contains("beside a column of type"), "{error}");
    }
}

#[test]
fn a_text_is_a_time_beside_a_part_of_one() {
    let catalog = Catalog::new();
    let at = |micros: Vec<i64>| -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("UTC"))
    };
    let columns: [(&str, DataType, ArrayRef); 2] = [
        ("id", DataType::Int64, Arc::new(Int64Array::from(vec![0, 1]))),
        ("at", DataType::Timestamp, at(vec![86_400_000_001, 2 * 86_400_000_000])),
    ];
    let table = table_of(&catalog, "times", &columns);
    let day = Expr::Time(TimeFunction::Truncate(Unit::Day), Box::new(column("at")));
    let text = |text: &str| Literal::Text(text.to_owned());
    let second = text("1970-01-02T00:00:00Z");
    let is = Filter::Compare(CompareOp::Eq, day.clone(), Expr::Literal(second.clone()));
    assert_eq!(ids(&table, &select(is)), [0]);
    assert_eq!(ids(&table, &select(Filter::In(day.clone(), vec![second]))), [0]);
    let error = run(&table, &select(Filter::In(day, vec![text("soon")]))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TypeMismatch);
}
