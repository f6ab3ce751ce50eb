//! Attributes: what they are of rows without one, how conditions on them run, and what is wrong with a reference.

use arrow_array::Int64Array;
use basalt_core::{query::Attribute, schema::Reference};

use super::{sets::table_of, *};

/// `orders(id, customer -> customers.id)`, of which a few have no customer, or one that is not there; and
/// `customers(id, name, city)`.
fn catalog() -> Catalog {
    let catalog = Catalog::new();
    let customer = (0..5000).map(|i| if i % 100 == 7 { None } else { Some(i % 1010) });
    orders(&catalog, "orders", "customers", Arc::new(Int64Array::from_iter(customer)));
    let names = (0..1000).map(|i| format!("customer {i}"));
    let cities = (0..1000).map(|i| (i % 9 > 0).then(|| format!("city {}", i % 9)));
    table_of(
        &catalog,
        "customers",
        &[
            ("id", DataType::Int32, Arc::new(Int32Array::from_iter_values(0..1000))),
            ("name", DataType::Utf8, Arc::new(StringArray::from_iter_values(names))),
            ("city", DataType::Utf8, Arc::new(StringArray::from_iter(cities))),
        ],
    );
    catalog
}

fn orders(catalog: &Catalog, name: &str, other: &str, customer: ArrayRef) {
    let references = Some(Reference { table: other.to_owned(), column: "id".to_owned() });
    let data_type = DataType::from_arrow(customer.data_type()).unwrap();
    let n = i32::try_from(customer.len()).unwrap();
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int32, false),
        Field { references, ..Field::new("customer", data_type, true) },
    ]);
    let table = catalog.create(name, schema.unwrap()).unwrap();
    let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from_iter_values(0..n)), customer];
    let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
    appender.push(&RecordBatch::try_new(table.schema().to_arrow(), columns).unwrap()).unwrap();
    appender.commit().unwrap();
}

fn attribute(column: &str, name: &str) -> Expr {
    Expr::Attribute(Attribute { column: column.to_owned(), name: name.to_owned(), lookup: None })
}

fn is(name: &str, value: &str) -> Filter {
    let value = Expr::Literal(Literal::Text(value.to_owned()));
    Filter::Compare(CompareOp::Eq, attribute("customer", name), value)
}

fn answer(
    catalog: &Catalog,
    table: &str,
    mut query: Query,
    control: &Control,
) -> Result<Vec<RecordBatch>, basalt_core::error::Error> {
    let table = catalog.get(table).unwrap();
    exec::resolve(catalog, &table, &table.snapshot(), &mut query, control)?;
    run(&table, &query).map(|(batches, _)| batches)
}

fn n(filter: Filter) -> i64 {
    let count = vec![aggregate(AggregateFunction::Count, None)];
    let query = Query { select: count, filter: Some(filter), ..Query::default() };
    answer(&catalog(), "orders", query, &Control::default()).unwrap()[0]
        .column(0)
        .as_primitive::<Int64Type>()
        .value(0)
}

#[test]
fn rows_without_a_customer_have_no_city() {
    let not = |filter: Filter| Filter::Not(Box::new(filter));
    let of =
        |city: usize| (0..5000).filter(|i| i % 100 != 7 && i % 1010 < 1000 && i % 1010 % 9 == city).count();
    assert_eq!(n(is("city", "city 4")), of(4) as i64);
    let none = n(Filter::IsNull(attribute("customer", "city")));
    let others: usize = [1, 2, 3, 5, 6, 7, 8].map(of).iter().sum();
    assert_eq!(n(not(is("city", "city 4"))), others as i64);
    assert_eq!((of(4) + others) as i64 + none, 5000);
    let both = Filter::And(vec![is("city", "city 4"), is("name", "customer 4")]);
    // Without a city one may still have another name.
    assert_eq!(n(not(both.clone())), (of(0) + of(4) + others) as i64 - n(both));

    let by_city = Query {
        select: vec![
            SelectItem { expr: attribute("customer", "city"), name: None },
            aggregate(AggregateFunction::Count, None),
        ],
        group_by: vec![attribute("customer", "city")],
        ..Query::default()
    };
    let batches = answer(&catalog(), "orders", by_city, &Control::default()).unwrap();
    assert_eq!(batches[0].schema().field(0).name(), "customer.city");
    let counts = batches[0].column(1).as_primitive::<Int64Type>().values().to_vec();
    let expected: Vec<i64> = (1..9).map(|city| of(city) as i64).chain([none]).collect();
    assert_eq!(counts, expected, "null is the last group");
}

#[test]
fn a_key_is_one_until_the_table_changes() {
    let catalog = catalog();
    let query = || Query { group_by: vec![attribute("customer", "id")], ..Query::default() };
    let ask =
        || answer(&catalog, "orders", query(), &Control::default()).map(|batches| batches[0].num_rows());
    let customers = catalog.get("customers").unwrap();
    let append = |id: i32| {
        let mut appender = Appender::new(Arc::clone(&customers), &[]).unwrap();
        let text: ArrayRef = Arc::new(StringArray::from_iter_values([""]));
        let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(vec![id])), Arc::clone(&text), text];
        appender.push(&RecordBatch::try_new(customers.schema().to_arrow(), columns).unwrap()).unwrap();
        appender.commit().unwrap();
    };
    for id in [1000, 1001] {
        assert_eq!(ask().unwrap(), usize::try_from(id).unwrap() + 1, "null is a group");
        assert_eq!(ask().unwrap(), usize::try_from(id).unwrap() + 1);
        append(id);
    }
    append(3);
    assert_eq!(ask().unwrap_err().kind(), ErrorKind::InvalidQuery);
    assert_eq!(ask().unwrap_err().kind(), ErrorKind::InvalidQuery);
}

#[test]
fn what_is_wrong_with_a_reference() {
    let catalog = catalog();
    let twice = [(0..1000).collect::<Vec<_>>(), vec![17]].concat();
    let ids: ArrayRef = Arc::new(Int32Array::from(twice));
    table_of(&catalog, "twice", &[("id", DataType::Int32, ids)]);
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    table_of(&catalog, "floats", &[("id", DataType::Float64, floats)]);
    let keys = || -> ArrayRef { Arc::new(Int64Array::from(vec![1, 2])) };
    for other in ["twice", "floats", "none"] {
        orders(&catalog, &format!("of_{other}"), other, keys());
    }
    let check = |table: &str, attribute: Expr, kind: ErrorKind, message: &str| {
        let item = SelectItem { expr: attribute.clone(), name: None };
        let select = Query { select: vec![item], ..Query::default() };
        let literal = Expr::Literal(Literal::Int(1));
        let filter = Some(Filter::Compare(CompareOp::Eq, attribute, literal));
        for (query, place) in
            [(select, "select[0].expr.attribute"), (Query { filter, ..Query::default() }, "filter.attribute")]
        {
            let error = answer(&catalog, table, query, &Control::default()).unwrap_err();
            assert_eq!((error.kind(), error.message()), (kind, message));
            assert!(error.place().unwrap().starts_with(place), "{error}");
        }
    };
    let key = "a reference needs twice.id to be a key: a value stands there twice";
    check("of_twice", attribute("customer", "id"), ErrorKind::InvalidQuery, key);
    let refers = "a column of type int64 refers to floats.id, which is float64";
    check("of_floats", attribute("customer", "id"), ErrorKind::TypeMismatch, refers);
    check("of_none", attribute("customer", "id"), ErrorKind::TableNotFound, "there is no table \"none\"");
    let none = "column \"id\" of table \"orders\" refers to no other table";
    check("orders", attribute("id", "name"), ErrorKind::InvalidQuery, none);

    let text = Field {
        references: Some(Reference { table: "customers".to_owned(), column: "name".to_owned() }),
        ..Field::new("name", DataType::Utf8, true)
    };
    let error = Schema::new(vec![text]).unwrap_err();
    assert_eq!((error.kind(), error.place()), (ErrorKind::InvalidSchema, Some("fields[0].references")));

    let query = Query { group_by: vec![attribute("customer", "name")], ..Query::default() };
    let error = answer(&catalog, "orders", query, &Control::with_memory(1000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MemoryLimit);
}
