//! Tables: create, drop, list, describe.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use basalt_proto::v1::{self as pb, TypeKind, value::Kind};
use tonic::Code;

use crate::support::{Server, check, field};

#[tokio::test]
async fn create_describe_drop() {
    let server = Server::start().await;
    let created =
        server.create("t", vec![field("a", TypeKind::Int64), field("b", TypeKind::Utf8)]).await.unwrap();
    assert_eq!((created.name.as_str(), created.version, created.rows, created.fragments), ("t", 0, 0, 0));
    check(
        server.create("t", vec![field("a", TypeKind::Int64)]).await,
        Code::AlreadyExists,
        "TABLE_EXISTS",
        "name",
    );

    let mut catalog = server.catalog();
    let mut request = pb::CreateTableRequest {
        name: "t".into(),
        schema: created.schema.clone(),
        if_not_exists: true,
        ..Default::default()
    };
    assert_eq!(catalog.create_table(request.clone()).await.unwrap().into_inner().table, Some(created));
    request.schema = Some(pb::Schema { fields: vec![field("a", TypeKind::Int32)] });
    check(catalog.create_table(request).await, Code::AlreadyExists, "TABLE_EXISTS", "schema");

    let drop = |if_exists| pb::DropTableRequest { name: "t".into(), if_exists };
    catalog.drop_table(drop(false)).await.unwrap();
    catalog.drop_table(drop(true)).await.unwrap();
    check(catalog.drop_table(drop(false)).await, Code::NotFound, "TABLE_NOT_FOUND", "table");
}

#[tokio::test]
async fn columns_are_optimized_as_they_say_or_as_the_table_does() {
    let server = Server::start().await;
    let small = pb::Field { optimize: pb::Optimize::Size.into(), ..field("small", TypeKind::Int64) };
    let balanced =
        pb::Field { optimize: pb::Optimize::Balanced.into(), ..field("balanced", TypeKind::Int64) };
    let schema = pb::Schema { fields: vec![small, balanced, field("fast", TypeKind::Int64)] };
    let request = pb::CreateTableRequest {
        name: "t".into(),
        schema: Some(schema.clone()),
        optimize: pb::Optimize::Speed.into(),
        ..Default::default()
    };
    let table = server.catalog().create_table(request.clone()).await.unwrap().into_inner().table.unwrap();
    let of = |table: &pb::Table| -> Vec<_> {
        table.schema.as_ref().unwrap().fields.iter().map(pb::Field::optimize).collect()
    };
    assert_eq!(of(&table), [pb::Optimize::Size, pb::Optimize::Unspecified, pb::Optimize::Speed]);
    // Of a table that is there it is not asked.
    let again = pb::CreateTableRequest { if_not_exists: true, optimize: 0, ..request.clone() };
    let again = server.catalog().create_table(again).await.unwrap().into_inner().table.unwrap();
    assert_eq!(of(&again), of(&table));

    // Products, of which the small ones are frequent.
    let skewed = |row: u64| {
        let bits = row.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (((bits >> 48) * (bits >> 16 & 0xFFFF)) >> 27).cast_signed()
    };
    let array: ArrayRef = Arc::new((0..60_000).map(|row| Some(skewed(row))).collect::<Int64Array>());
    let batch = ["small", "balanced", "fast"].map(|name| (name, Arc::clone(&array), true));
    let batch = RecordBatch::try_from_iter_with_nullable(batch).unwrap();
    server.client.write_all("t", &[batch]).await.unwrap();
    let get = pb::GetTableRequest { name: "t".into(), view: pb::TableView::Basic.into() };
    let columns = server.catalog().get_table(get).await.unwrap().into_inner().columns;
    let used: Vec<_> = columns.iter().map(|column| column.encodings[0].encoding.as_str()).collect();
    assert_eq!((used[0], used[2]), ("entropy", "packed"), "{used:?}");

    let unknown = pb::CreateTableRequest { name: "u".into(), optimize: 9, ..request.clone() };
    check(server.catalog().create_table(unknown).await, Code::InvalidArgument, "INVALID_SCHEMA", "optimize");
    let mut fields = schema.fields;
    fields[1].optimize = 9;
    let unknown = pb::CreateTableRequest { name: "u".into(), schema: Some(pb::Schema { fields }), ..request };
    let answer = server.catalog().create_table(unknown).await;
    check(answer, Code::InvalidArgument, "INVALID_SCHEMA", "schema.fields[1].optimize");
}

#[tokio::test]
async fn a_table_tells_of_its_columns() {
    let server = Server::start().await;
    server.numbers("t", (0..1000).map(|i| i % 4)).await;
    let get = |view: pb::TableView| pb::GetTableRequest { name: "t".into(), view: view.into() };
    let answer = server.catalog().get_table(get(pb::TableView::Full)).await.unwrap().into_inner();
    let table = answer.table.unwrap();
    assert_eq!((table.version, table.rows, table.fragments), (1, 1000, 1));
    let [column] = answer.columns.as_slice() else { panic!("one column") };
    assert_eq!((column.rows, column.nulls, column.plain_bytes), (1000, 0, 8000));
    assert!((column.entropy_bits.unwrap() - 2.0).abs() < 1e-9);
    assert_eq!(column.min.as_ref().unwrap().kind, Some(Kind::Int(0)));
    assert_eq!(column.max.as_ref().unwrap().kind, Some(Kind::Int(3)));
    assert_eq!(column.encodings.iter().map(|e| e.rows).sum::<u64>(), 1000);
    assert_eq!(column.encodings.iter().map(|e| e.bytes).sum::<u64>(), column.bytes);
    assert!(column.bytes < 8000 && table.bytes >= column.bytes);
    let estimate = |name: &str| column.estimates.iter().find(|estimate| estimate.encoding == name);
    let plain = estimate("plain").unwrap();
    assert_eq!((plain.fragments, plain.bytes, plain.exact), (1, 64 + 8000, true));
    assert!(
        estimate("packed").unwrap().bytes < 400 && estimate("constant").is_none(),
        "{:?}",
        column.estimates
    );

    let answer = server.catalog().get_table(get(pb::TableView::Basic)).await.unwrap().into_inner();
    assert_eq!((answer.columns[0].entropy_bits, answer.columns[0].estimates.len()), (None, 0));
}

#[tokio::test]
async fn lists_come_in_pages_by_name() {
    let server = Server::start().await;
    for name in ["c", "a", "e", "b", "d"] {
        server.create(name, vec![field("x", TypeKind::Bool)]).await.unwrap();
    }
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let request = pb::ListTablesRequest { page_size: 2, page_token: token };
        let page = server.catalog().list_tables(request).await.unwrap().into_inner();
        assert!(page.tables.len() <= 2);
        names.extend(page.tables.into_iter().map(|t| t.name));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    let all = server.catalog().list_tables(pb::ListTablesRequest::default()).await.unwrap().into_inner();
    assert_eq!((all.tables.len(), all.next_page_token.as_str()), (5, ""));
}

#[tokio::test]
async fn schemas_are_checked() {
    let server = Server::start().await;
    let create = |name: &'static str, fields| server.create(name, fields);
    let a = || field("a", TypeKind::Int64);
    check(create("1st", vec![a()]).await, Code::InvalidArgument, "INVALID_NAME", "name");
    check(create("t", vec![]).await, Code::InvalidArgument, "INVALID_SCHEMA", "schema.fields");
    check(
        create("t", vec![a(), a()]).await,
        Code::InvalidArgument,
        "INVALID_SCHEMA",
        "schema.fields[1].name",
    );
    let untyped = pb::Field { r#type: None, ..a() };
    check(create("t", vec![untyped]).await, Code::InvalidArgument, "INVALID_SCHEMA", "schema.fields[0].type");
    let unknown = pb::DataType { kind: 99, ..Default::default() };
    let unknown = pb::Field { r#type: Some(unknown), ..a() };
    check(
        create("t", vec![unknown]).await,
        Code::InvalidArgument,
        "INVALID_SCHEMA",
        "schema.fields[0].type.kind",
    );
    let decimal = crate::support::decimal("d", 39, 2);
    check(create("t", vec![decimal]).await, Code::InvalidArgument, "INVALID_SCHEMA", "schema.fields[0].type");
    let forced = pb::Field { encoding: "zip".into(), ..a() };
    check(
        create("t", vec![forced]).await,
        Code::InvalidArgument,
        "INVALID_SCHEMA",
        "schema.fields[0].encoding",
    );
    assert!(
        server
            .catalog()
            .list_tables(pb::ListTablesRequest::default())
            .await
            .unwrap()
            .into_inner()
            .tables
            .is_empty()
    );
}

#[tokio::test]
async fn the_server_tells_its_limits() {
    let server = Server::with(|c| c.memory = basalt_server::Memory::Bytes(1 << 30)).await;
    let info = server.catalog().get_server_info(pb::GetServerInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.version, basalt_server::VERSION);
    assert!(["scalar", "avx2", "avx512"].contains(&info.simd.as_str()));
    let limits = info.limits.unwrap();
    assert_eq!((limits.message_bytes, limits.filter_depth, limits.filter_nodes), (4 << 20, 32, 4096));
    assert_eq!(
        (limits.memory_bytes, limits.concurrent_queries, limits.max_deadline_ms),
        (1 << 30, 8, 600_000)
    );
    // 6 % of the memory.
    assert_eq!(
        (limits.kept_sets_bytes, limits.max_keep_ms, limits.semi_joins),
        ((1 << 30) / 100 * 6, 86_400_000, 64)
    );
}
