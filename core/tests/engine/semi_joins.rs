//! Semi-joins: what their inner queries give, at which version, and what is wrong with them.

use arrow_array::{Int64Array, UInt16Array};
use basalt_core::{
    limits::{MAX_FILTER_DEPTH, MAX_IN_LIST, MAX_SEMI_JOINS},
    query::SemiJoin,
};

use super::{sets::table_of, *};

fn semi_join(column: &str, table: &str, key: &str, filter: Option<Filter>) -> Filter {
    let (column, table, key) = (column.into(), table.into(), key.into());
    Filter::SemiJoin(Box::new(SemiJoin { column, table, key, filter, version: None }))
}

fn not(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

/// `orders(id, customer, note)` and `customers(id, name)`: two orders for each of the first 1,000 customers, one
/// of them without a customer.
fn orders() -> Catalog {
    let catalog = Catalog::new();
    let customers = (0..2000).map(|i| if i == 1999 { None } else { Some(i / 2) });
    let notes = (0..2000).map(|i| (i % 7 > 0).then(|| format!("note {}", i % 100)));
    table_of(
        &catalog,
        "orders",
        &[
            ("id", DataType::Int32, Arc::new(Int32Array::from_iter_values(0..2000))),
            ("customer", DataType::Int64, Arc::new(Int64Array::from_iter(customers))),
            ("note", DataType::Utf8, Arc::new(StringArray::from_iter(notes))),
        ],
    );
    let names = (0..5000).map(|i| format!("note {i}"));
    table_of(
        &catalog,
        "customers",
        &[
            ("id", DataType::UInt16, Arc::new(UInt16Array::from_iter_values(0..5000))),
            ("name", DataType::Utf8, Arc::new(StringArray::from_iter_values(names))),
        ],
    );
    catalog
}

fn resolved(
    catalog: &Catalog,
    table: &str,
    mut filter: Filter,
    control: &Control,
) -> Result<(Filter, Vec<exec::SetUse>), basalt_core::error::Error> {
    let table = catalog.get(table).unwrap();
    let sets = exec::resolve_filter(catalog, &table, &table.snapshot(), &mut filter, control)?;
    Ok((filter, sets))
}

fn n(catalog: &Catalog, table: &str, filter: Filter) -> i64 {
    let (filter, _) = resolved(catalog, table, filter, &Control::default()).unwrap();
    count(&catalog.get(table).unwrap(), filter).0
}

#[test]
fn keys_of_the_inner_query_select_outer_rows() {
    let catalog = orders();
    let late = || Some(compare("id", CompareOp::Ge, Literal::Int(1000)));
    let has_late = || semi_join("id", "orders", "customer", late());
    assert_eq!(n(&catalog, "customers", has_late()), 500);
    // An order without a customer may be anybody's.
    assert_eq!(n(&catalog, "customers", not(has_late())), 0);
    let known = Filter::And(vec![late().unwrap(), not(Filter::IsNull(column("customer")))]);
    assert_eq!(n(&catalog, "customers", not(semi_join("id", "orders", "customer", Some(known)))), 4500);

    let none = || semi_join("customer", "customers", "id", Some(Filter::Constant(false)));
    assert_eq!(n(&catalog, "orders", none()), 0);
    assert_eq!(n(&catalog, "orders", not(none())), 2000, "a null is not in an empty set");
    let any = || semi_join("customer", "customers", "id", None);
    assert_eq!((n(&catalog, "orders", any()), n(&catalog, "orders", not(any()))), (1999, 0));

    // Customers with an order that has the note of a customer below 10.
    let nested = semi_join("note", "customers", "name", Some(compare("id", CompareOp::Lt, Literal::Int(10))));
    let nested = semi_join("id", "orders", "customer", Some(nested));
    assert_eq!(n(&catalog, "customers", nested), 100);
}

#[test]
fn texts_are_a_set_without_the_limit_of_a_list() {
    let catalog = orders();
    let many = MAX_IN_LIST + 30_000;
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..many).map(|i| format!("note {i}"))));
    table_of(&catalog, "names", &[("name", DataType::Utf8, Arc::clone(&names))]);
    let of_all = || semi_join("name", "names", "name", None);
    assert_eq!(n(&catalog, "customers", of_all()), 5000);
    assert_eq!(n(&catalog, "names", of_all()), i64::try_from(many).unwrap());
    assert_eq!(
        n(&catalog, "names", not(semi_join("name", "customers", "name", None))),
        i64::try_from(many).unwrap() - 5000
    );
    let by_note = || semi_join("name", "orders", "note", None);
    assert_eq!((n(&catalog, "customers", by_note()), n(&catalog, "customers", not(by_note()))), (100, 0));
    let error = resolved(&catalog, "customers", of_all(), &Control::with_memory(1 << 20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MemoryLimit);
}

#[test]
fn a_table_is_read_at_one_version() {
    let table = super::table();
    let catalog = Catalog::new();
    let schema = Schema::new(table.schema().fields().to_vec()).unwrap();
    let table = catalog.create("things", schema).unwrap();
    append(&table, 0..100);
    let snapshot = table.snapshot();
    append(&table, 100..200);
    let mut query = Query { filter: Some(semi_join("id", "things", "id", None)), ..Query::default() };
    assert!(query.has_semi_joins());
    exec::resolve(&catalog, &table, &snapshot, &mut query, &Control::default()).unwrap();
    assert!(!query.has_semi_joins());
    assert_eq!(count(&table, query.filter.unwrap()).0, 100, "the outer query's version has 100 ids");

    let at = |version| SemiJoin {
        column: "id".into(),
        table: "things".into(),
        key: "id".into(),
        filter: None,
        version: Some(version),
    };
    let mut filter = Filter::SemiJoin(Box::new(at(2)));
    let error =
        exec::resolve_filter(&catalog, &table, &snapshot, &mut filter, &Control::default()).unwrap_err();
    let place = Some("filter.semi_join.version");
    assert_eq!((error.kind(), error.place()), (ErrorKind::VersionGone, place));
    let mut filter = Filter::SemiJoin(Box::new(at(1)));
    exec::resolve_filter(&catalog, &table, &snapshot, &mut filter, &Control::default()).unwrap();
}

#[test]
fn errors_say_what_and_where() {
    let catalog = orders();
    let check = |filter: Filter, kind: ErrorKind, place: &str| {
        let error = resolved(&catalog, "orders", filter, &Control::default()).unwrap_err();
        assert_eq!((error.kind(), error.place()), (kind, Some(place)), "{error}");
    };
    check(semi_join("id", "none", "id", None), ErrorKind::TableNotFound, "filter.semi_join.table");
    check(semi_join("id", "customers", "none", None), ErrorKind::ColumnNotFound, "filter.semi_join.key");
    let wrong = compare("none", CompareOp::Eq, Literal::Int(1));
    check(
        Filter::And(vec![Filter::Constant(true), not(semi_join("id", "customers", "id", Some(wrong)))]),
        ErrorKind::ColumnNotFound,
        "filter.and[1].not.semi_join.filter.compare.left.column",
    );
    let one = semi_join("id", "customers", "id", Some(Filter::Constant(false)));
    assert_eq!(n(&catalog, "orders", Filter::Or(vec![one.clone(); MAX_SEMI_JOINS])), 0);
    check(
        Filter::Or(vec![one.clone(); MAX_SEMI_JOINS + 1]),
        ErrorKind::FilterTooLarge,
        "filter.or[64].semi_join",
    );
    let deep = (0..MAX_FILTER_DEPTH).fold(one.clone(), |inner, _| not(inner));
    let error = resolved(&catalog, "orders", deep, &Control::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FilterTooDeep);

    // What is wrong with the outer column is found when the query is bound.
    let bind = |filter: Filter| {
        run(&catalog.get("orders").unwrap(), &Query { filter: Some(filter), ..Query::default() }).unwrap_err()
    };
    let (mismatch, _) =
        resolved(&catalog, "orders", semi_join("note", "customers", "id", None), &Control::default())
            .unwrap();
    let error = bind(mismatch);
    assert_eq!((error.kind(), error.place()), (ErrorKind::TypeMismatch, Some("filter.semi_join.column")));
    let error = bind(one.clone());
    assert_eq!((error.kind(), error.place()), (ErrorKind::InvalidQuery, Some("filter.semi_join")));

    let control = Control::default();
    control.expire();
    let error = resolved(&catalog, "orders", one, &control).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
}

#[test]
fn explain_tells_of_the_sets_of_inner_queries_too() {
    let catalog = orders();
    let inner = semi_join("note", "customers", "name", None);
    let control = Control::default().with_clock(|| 7);
    let (filter, inner_sets) =
        resolved(&catalog, "customers", semi_join("id", "orders", "customer", Some(inner)), &control)
            .unwrap();
    assert_eq!(inner_sets.len(), 1);
    assert_eq!((inner_sets[0].tag, inner_sets[0].cardinality), ("texts", 5000));
    assert_eq!(inner_sets[0].text, "note IN (SELECT name FROM customers: 5000 texts)");
    assert_eq!((inner_sets[0].rows_in, inner_sets[0].rows_passed), (2000, 1714));
    let table = catalog.get("customers").unwrap();
    let query = Query { filter: Some(filter), ..Query::default() };
    let plan = Plan::new(&table, &table.snapshot(), &query).unwrap();
    let explanation = plan.explain(&table.snapshot(), false, &control).unwrap();
    let used = &explanation.sets[0];
    assert_eq!(used.text, "id IN (SELECT customer FROM orders: 1000 keys)");
    assert_eq!(used.origin.to_string(), "semi-join orders.customer");
    assert_eq!((used.rows_in, used.rows_passed), (0, 0), "it was not run");
}
