//! Sets of rows and of values: selected, kept, and used as filters, by their bytes and by their handles.

use std::{sync::Arc, time::Duration};

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray, UInt64Array,
};
use basalt_client::{Filter, Handle, col, not, sip};
use basalt_core::limits::TIMESTAMPS;
use basalt_proto::v1::{self as pb, TypeKind, filter, key_set, row_set};
use basalt_server::Memory;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::support::{Server, check, decimal, field};

const MINUTE: Duration = Duration::from_secs(60);

/// How many rows a filter selects.
async fn rows_of(server: &Server, table: &str, filter: impl Into<Filter>) -> u64 {
    server.client.query(table).filter(filter.into()).select_rows().await.unwrap().cardinality
}

async fn put(server: &Server, request: pb::PutSipRequest) -> Result<pb::PutSipResponse, Status> {
    Ok(server.sips().put(request).await?.into_inner())
}

async fn get(server: &Server, handle: &[u8]) -> Result<pb::GetSipResponse, Status> {
    Ok(server.sips().get(pb::GetSipRequest { handle: handle.to_vec() }).await?.into_inner())
}

async fn query(server: &Server, table: &str, kind: filter::Kind) -> Result<(), Status> {
    let filter = Some(pb::Filter { kind: Some(kind) });
    server.query(pb::QueryRequest { table: table.into(), filter, ..Default::default() }).await.map(|_| ())
}

fn of_rows(version: u64) -> pb::Scope {
    pb::Scope { table: "t".into(), version, key: None, table_id: 0 }
}

fn of_keys(r#type: pb::DataType) -> pb::Scope {
    let key = Some(pb::KeyDomain { column: "a".into(), r#type: Some(r#type), has_null: false });
    pb::Scope { key, ..of_rows(1) }
}

fn of_type(kind: TypeKind) -> pb::DataType {
    pb::DataType { kind: kind.into(), precision: 0, scale: 0 }
}

/// 1, 5 and 9 as varint-delta.
const THREE: &[u8] = &[2, 3, 1, 4, 4];

#[tokio::test]
async fn rows_and_values_are_filters_by_bytes_and_by_handle() {
    let server = Server::start().await;
    server.numbers("t", (0..100_000).map(|i| i % 1000 - 500)).await;
    server.create("u", vec![field("b", TypeKind::Int8), field("c", TypeKind::Uint64)]).await.unwrap();
    let columns: [(&str, ArrayRef); 2] = [
        ("b", Arc::new(Int8Array::from(vec![Some(-3), Some(7), None, Some(100)]))),
        ("c", Arc::new(UInt64Array::from(vec![Some(7), Some(u64::MAX - 2), Some(100), None]))),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, a)| (n, a, true))).unwrap();
    server.client.write_all("u", &[rows]).await.unwrap();

    let select = || server.client.query("t").filter(col("a").lt(-490));
    for tag in sip::Tag::ALL.into_iter().filter(|tag| *tag != sip::Tag::Empty) {
        let rows = select().select_rows().tag(tag).await.unwrap();
        assert_eq!((rows.bytes[0], rows.cardinality, rows.statistics.rows_selected), (tag as u8, 1000, 1000));
        assert_eq!(rows_of(&server, "t", rows.filter().and(col("a").lt(-495))).await, 500);

        let keys = select().select_keys("a").tag(tag).await.unwrap();
        assert_eq!((keys.bytes[0], keys.cardinality, keys.statistics.rows_selected), (tag as u8, 10, 1000));
        assert_eq!((keys.table.as_str(), keys.version, keys.of.column.as_str()), ("t", 1, "a"));
        assert!(!keys.of.has_null);
        assert_eq!(rows_of(&server, "t", keys.filter("a")).await, 1000);
        assert_eq!(rows_of(&server, "t", not(keys.filter("a"))).await, 99_000);
    }

    // Integers go together by value: -3 is no uint64, and 2^64 - 3 no int8.
    let b = server.client.query("u").select_keys("b").keep(MINUTE).await.unwrap();
    assert_eq!((b.cardinality, b.of.has_null), (3, true));
    for keys in [b.filter("a"), col("a").in_keys(b.kept.unwrap().handle)] {
        assert_eq!(rows_of(&server, "t", keys.clone()).await, 300);
        assert_eq!(rows_of(&server, "t", not(keys)).await, 0, "null is among the values");
    }
    assert_eq!(rows_of(&server, "u", b.filter("c")).await, 2);
    let c = server.client.query("u").filter(not(col("c").is_null())).select_keys("c").await.unwrap();
    assert!(!c.of.has_null);
    assert_eq!(rows_of(&server, "u", c.filter("b")).await, 2);
    assert_eq!(rows_of(&server, "u", not(c.filter("b"))).await, 1, "null is neither in the set nor outside");

    let kept = select().select_rows().only_kept(MINUTE).await.unwrap();
    assert_eq!((kept.bytes.len(), kept.cardinality), (0, 1000));
    assert_eq!(rows_of(&server, "t", kept.kept.unwrap().handle.rows()).await, 1000);
    let put = server.client.put_set(&kept, MINUTE).await;
    assert!(matches!(put, Err(basalt_client::Error::InvalidSet(_))), "its bytes are not here");
    let fetched = server.client.get_set(kept.kept.unwrap().handle).await.unwrap();
    assert_eq!(fetched.bytes, select().select_rows().await.unwrap().bytes);
    assert_eq!((fetched.table.as_str(), fetched.version, fetched.cardinality), ("t", 1, 1000));
}

#[tokio::test]
async fn every_type_but_text_and_floats_has_keys() {
    let server = Server::start().await;
    let columns: Vec<(pb::Field, ArrayRef)> = vec![
        (field("bool", TypeKind::Bool), Arc::new(BooleanArray::from(vec![true, true, false]))),
        (field("date", TypeKind::Date32), Arc::new(Date32Array::from(vec![-1, 5, 20_000]))),
        (
            field("time", TypeKind::Timestamp),
            Arc::new(TimestampMicrosecondArray::from(vec![*TIMESTAMPS.start(), -1, 1]).with_timezone("UTC")),
        ),
        (
            decimal("dec", 10, 2),
            Arc::new(
                Decimal128Array::from(vec![-100, 0, 9_999_999_999]).with_precision_and_scale(10, 2).unwrap(),
            ),
        ),
        (field("big", TypeKind::Uint64), Arc::new(UInt64Array::from(vec![0, 1 << 63, u64::MAX]))),
        (field("small", TypeKind::Int64), Arc::new(Int64Array::from(vec![i64::MIN, -1, i64::MAX]))),
        (field("text", TypeKind::Utf8), Arc::new(StringArray::from(vec!["a", "b", "c"]))),
        (field("float", TypeKind::Float64), Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5]))),
    ];
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let names: Vec<_> = fields.iter().map(|f| f.name.clone()).collect();
    server.create("t", fields).await.unwrap();
    let rows = RecordBatch::try_from_iter_with_nullable(names.iter().zip(arrays).map(|(n, a)| (n, a, true)));
    server.client.write_all("t", &[rows.unwrap()]).await.unwrap();

    for name in ["bool", "date", "time", "dec", "big", "small"] {
        let keys = server.client.query("t").select_keys(name).await.unwrap();
        assert_eq!(keys.cardinality, if name == "bool" { 2 } else { 3 });
        assert_eq!(rows_of(&server, "t", keys.filter(name)).await, 3, "{name}");
        let first = server.client.query("t").filter(col("text").eq("a")).select_keys(name).await.unwrap();
        let expected = if name == "bool" { 2 } else { 1 };
        assert_eq!(rows_of(&server, "t", first.filter(name)).await, expected, "{name}");
        let handle = server.client.put_set(&first, MINUTE).await.unwrap().kept.unwrap().handle;
        assert_eq!(rows_of(&server, "t", col(name).in_keys(handle)).await, expected, "{name}");
    }
    for name in ["text", "float"] {
        let request = pb::SelectRequest { table: "t".into(), key: name.into(), ..Default::default() };
        check(server.queries().select(request).await, Code::InvalidArgument, "TYPE_MISMATCH", "key");
    }
    let request = pb::SelectRequest { table: "t".into(), key: "no".into(), ..Default::default() };
    check(server.queries().select(request).await, Code::NotFound, "COLUMN_NOT_FOUND", "key");
    let request = pb::SelectRequest { table: "t".into(), tag: 9, ..Default::default() };
    check(server.queries().select(request).await, Code::InvalidArgument, "INVALID_QUERY", "tag");
    let request = pb::SelectRequest { table: "t".into(), omit_sip: true, ..Default::default() };
    check(server.queries().select(request).await, Code::InvalidArgument, "INVALID_QUERY", "omit_sip");
}

#[tokio::test]
async fn a_set_is_kept_for_its_time() {
    let server = Server::start().await;
    server.numbers("t", 0..10).await;
    let request = pb::PutSipRequest { scope: Some(of_rows(1)), sip: THREE.into(), ttl_ms: 0 };
    let first = put(&server, request.clone()).await.unwrap();
    assert_eq!((first.handle.len(), first.cardinality), (32, 3));
    assert!((1..=600_000).contains(&first.expires_ms), "ten minutes, {} ms left", first.expires_ms);
    // Again: the same handle, and never less time than before.
    let again = put(&server, pb::PutSipRequest { ttl_ms: u64::MAX, ..request.clone() }).await.unwrap();
    assert_eq!(again.handle, first.handle);
    assert!((600_001..=86_400_000).contains(&again.expires_ms), "a day, {} ms left", again.expires_ms);
    let again = put(&server, pb::PutSipRequest { ttl_ms: 1, ..request.clone() }).await.unwrap();
    assert!(again.expires_ms > 600_000);

    let fetched = get(&server, &first.handle).await.unwrap();
    assert_eq!((fetched.scope, &fetched.sip[..], fetched.cardinality), (Some(of_rows(1)), THREE, 3));
    let handle: Handle = first.handle.iter().map(|b| format!("{b:02x}")).collect::<String>().parse().unwrap();
    assert_eq!(rows_of(&server, "t", handle.rows()).await, 3);

    let delete = async || {
        let request = pb::DeleteSipRequest { handle: first.handle.clone() };
        server.sips().delete(request).await.unwrap().into_inner().existed
    };
    assert!(delete().await);
    assert!(!delete().await);
    let gone = |result| check(result, Code::NotFound, "SIP_NOT_FOUND", "handle");
    gone(get(&server, &first.handle).await.map(|_| ()));
    gone(get(&server, b"short").await.map(|_| ()));
    let by_handle = || {
        let set = Some(row_set::Set::Handle(first.handle.clone()));
        filter::Kind::Rows(pb::RowSet { scope: None, set })
    };
    check(query(&server, "t", by_handle()).await, Code::NotFound, "SIP_NOT_FOUND", "filter.rows.handle");

    // A time that is over.
    put(&server, pb::PutSipRequest { ttl_ms: 1, ..request }).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    check(query(&server, "t", by_handle()).await, Code::NotFound, "SIP_NOT_FOUND", "filter.rows.handle");
    assert!(!delete().await);
}

#[tokio::test]
async fn kept_sets_have_a_quota() {
    let server = Server::with(|c| c.kept_sets = Memory::Bytes(1200)).await;
    server.numbers("t", 0..1_000_000).await;
    let request = |version| pb::PutSipRequest { scope: Some(of_rows(version)), sip: THREE.into(), ttl_ms: 0 };
    let first = put(&server, request(1)).await.unwrap();
    put(&server, request(2)).await.unwrap();
    check(put(&server, request(3)).await, Code::ResourceExhausted, "SIP_QUOTA", "");
    put(&server, request(1)).await.unwrap();
    server.sips().delete(pb::DeleteSipRequest { handle: first.handle }).await.unwrap();
    put(&server, request(3)).await.unwrap();

    let select = pb::SelectRequest { table: "t".into(), keep_ms: 1000, ..Default::default() };
    let refused = server.queries().select(select.clone()).await.unwrap_err();
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["limit_bytes"], "1200");
    // Trying again does not help.
    assert!(details.retry_info().is_none());
    check::<()>(Err(refused), Code::ResourceExhausted, "SIP_QUOTA", "");
    // A megabyte as a list: refused before it is made.
    let list = pb::SelectRequest { tag: pb::SipTag::VarintDelta.into(), omit_sip: true, ..select };
    check(server.queries().select(list).await, Code::ResourceExhausted, "SIP_QUOTA", "");
}

#[tokio::test]
async fn a_kept_set_may_be_larger_than_a_message() {
    let server = Server::start().await;
    server.numbers("t", 0..4_300_000).await;
    let select = || server.client.query("t").select_rows().tag(sip::Tag::VarintDelta);
    let request = |omit_sip| pb::SelectRequest {
        table: "t".into(),
        tag: pb::SipTag::VarintDelta.into(),
        keep_ms: 60_000,
        omit_sip,
        ..Default::default()
    };
    let exhausted = Code::ResourceExhausted;
    check(server.queries().select(request(false)).await, exhausted, "MESSAGE_TOO_LARGE", "");
    let kept = select().only_kept(MINUTE).await.unwrap();
    let handle = kept.kept.unwrap().handle;
    assert_eq!(rows_of(&server, "t", handle.rows().and(col("a").lt(5))).await, 5);
    check(get(&server, &handle).await, exhausted, "MESSAGE_TOO_LARGE", "");
}

#[tokio::test]
async fn a_set_of_another_scope_is_an_error() {
    let server = Server::start().await;
    server.numbers("t", 0..10).await;
    server
        .create(
            "u",
            vec![
                field("a", TypeKind::Int64),
                field("date", TypeKind::Date32),
                decimal("dec", 10, 2),
                field("text", TypeKind::Utf8),
            ],
        )
        .await
        .unwrap();
    let kept = async |scope| {
        let request = pb::PutSipRequest { scope: Some(scope), sip: THREE.into(), ttl_ms: 0 };
        put(&server, request).await.unwrap().handle
    };
    let by_row = async |table: &str, scope, set| {
        query(&server, table, filter::Kind::Rows(pb::RowSet { scope, set: Some(set) })).await
    };
    let by_key = async |column: &str, scope, set| {
        let keys = pb::KeySet { column: column.into(), scope, set: Some(set) };
        query(&server, "u", filter::Kind::Keys(keys)).await
    };
    let mismatch = |result, place: &str| check(result, Code::FailedPrecondition, "SCOPE_MISMATCH", place);

    // Rows of another table or version, by handle as by bytes (`select.rs` has those).
    let handle = kept(of_rows(1)).await;
    let rows = || row_set::Set::Handle(handle.clone());
    by_row("t", None, rows()).await.unwrap();
    by_row("t", Some(of_rows(1)), rows()).await.unwrap();
    mismatch(by_row("u", None, rows()).await, "filter.rows.scope.table");
    mismatch(by_row("t", Some(of_rows(2)), rows()).await, "filter.rows.scope");
    let (int64, date) = (of_type(TypeKind::Int64), of_type(TypeKind::Date32));
    mismatch(by_row("t", Some(of_keys(int64)), rows()).await, "filter.rows.scope");
    // They are read at their own version.
    server.client.write_all("t", &[one_number()]).await.unwrap();
    by_row("t", None, rows()).await.unwrap();

    // Values as rows, rows as values.
    let values = kept(of_keys(int64)).await;
    mismatch(by_row("t", None, row_set::Set::Handle(values.clone())).await, "filter.rows.scope.key");
    mismatch(
        by_row("t", Some(of_keys(int64)), row_set::Set::Sip(THREE.into())).await,
        "filter.rows.scope.key",
    );
    mismatch(by_key("a", None, key_set::Set::Handle(handle)).await, "filter.keys.scope.key");
    mismatch(by_key("a", Some(of_rows(1)), key_set::Set::Sip(THREE.into())).await, "filter.keys.scope.key");

    // Values of another type.
    by_key("a", None, key_set::Set::Handle(values.clone())).await.unwrap();
    mismatch(
        by_key("a", Some(of_keys(of_type(TypeKind::Int32))), key_set::Set::Handle(values.clone())).await,
        "filter.keys.scope",
    );
    mismatch(by_key("date", None, key_set::Set::Handle(values)).await, "filter.keys.scope.key.type");
    let scaled = |scale| pb::DataType { kind: TypeKind::Decimal.into(), precision: 9, scale };
    let given = || key_set::Set::Sip(THREE.into());
    by_key("dec", Some(of_keys(scaled(2))), given()).await.unwrap();
    by_key("date", Some(of_keys(date)), given()).await.unwrap();
    for (column, wrong) in [("dec", scaled(3)), ("dec", int64), ("a", scaled(0)), ("a", date)] {
        mismatch(by_key(column, Some(of_keys(wrong)), given()).await, "filter.keys.scope.key.type");
    }
    let argument = Code::InvalidArgument;
    let text = of_keys(of_type(TypeKind::Utf8));
    check(
        by_key("text", Some(of_keys(int64)), given()).await,
        argument,
        "TYPE_MISMATCH",
        "filter.keys.column",
    );
    check(by_key("a", Some(text), given()).await, argument, "TYPE_MISMATCH", "filter.keys.scope.key.type");
    check(by_key("a", None, given()).await, argument, "INVALID_QUERY", "filter.keys.scope");
    check(
        by_key("no", Some(of_keys(int64)), given()).await,
        Code::NotFound,
        "COLUMN_NOT_FOUND",
        "filter.keys.column",
    );
    let nothing = filter::Kind::Keys(pb::KeySet { column: "a".into(), scope: None, set: None });
    check(query(&server, "u", nothing).await, argument, "INVALID_QUERY", "filter.keys.sip");
}

fn one_number() -> RecordBatch {
    let array: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap()
}

/// Another run of a server has the same versions of the same tables, but not the same rows.
#[tokio::test]
async fn rows_of_another_run_are_no_rows() {
    let (first, second) = (Server::start().await, Server::start().await);
    for server in [&first, &second] {
        server.numbers("t", 0..1000).await;
    }
    let rows = first.client.query("t").filter(col("a").lt(10)).select_rows().await.unwrap();
    let keys = first.client.query("t").filter(col("a").lt(10)).select_keys("a").await.unwrap();
    assert_eq!(rows_of(&first, "t", rows.filter()).await, 10);
    let error = second.client.query("t").filter(rows.filter()).select_rows().await.unwrap_err();
    assert_eq!(error.reason(), pb::ErrorReason::ScopeMismatch);
    assert!(error.to_string().contains("a table that is gone"), "{error}");
    // Values are the same everywhere.
    assert_eq!(rows_of(&second, "t", keys.filter("a")).await, 10);
}

#[tokio::test]
async fn hostile_bytes_are_refused() {
    let server = Server::start().await;
    server.numbers("t", 0..10).await;
    let invalid = Code::InvalidArgument;
    let request = |scope, sip: &[u8]| pb::PutSipRequest { scope, sip: sip.to_vec().into(), ttl_ms: 0 };
    check(put(&server, request(None, THREE)).await, invalid, "INVALID_QUERY", "scope");
    let float = Some(of_keys(of_type(TypeKind::Float64)));
    check(put(&server, request(float, THREE)).await, invalid, "TYPE_MISMATCH", "scope.key.type");
    let untyped = pb::KeyDomain { column: "a".into(), r#type: None, has_null: false };
    let untyped = Some(pb::Scope { key: Some(untyped), ..of_rows(1) });
    check(put(&server, request(untyped, THREE)).await, invalid, "INVALID_QUERY", "scope.key.type");

    // Every set of these ids, with each byte changed in each way, or cut short: refused, or another set.
    let mut refused = 0;
    for tag in sip::Tag::ALL.into_iter().filter(|tag| *tag != sip::Tag::Empty) {
        let ids = sip::Sip::from_sorted_ids(&[1, 2, 3, 70_000, 1 << 40]).to_tag(tag);
        let bytes = ids.as_bytes();
        let cut = (0..bytes.len()).map(|end| bytes[..end].to_vec());
        let changed = (0..bytes.len()).flat_map(|at| {
            [1u8, 0x80, 0xff].map(|bits| {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= bits;
                bytes
            })
        });
        for bytes in cut.chain(changed) {
            match put(&server, request(Some(of_rows(1)), &bytes)).await {
                Ok(kept) => assert_eq!(get(&server, &kept.handle).await.unwrap().sip, bytes),
                Err(status) => {
                    refused += 1;
                    check::<()>(Err(status), invalid, "INVALID_SIP", "sip");
                }
            }
            let set = Some(row_set::Set::Sip(bytes.into()));
            let rows = filter::Kind::Rows(pb::RowSet { scope: Some(of_rows(1)), set });
            if let Err(status) = query(&server, "t", rows).await {
                check::<()>(Err(status), invalid, "INVALID_SIP", "filter.rows.sip");
            }
        }
    }
    assert!(refused > 100, "{refused}");
    // A few bytes that stand for more ids than anyone has.
    let all = sip::Sip::from_ranges([0..=u64::MAX - 1]);
    assert!(all.as_bytes().len() < 32);
    check(put(&server, request(Some(of_rows(1)), all.as_bytes())).await, invalid, "INVALID_SIP", "sip");
    assert_eq!(rows_of(&server, "t", col("a").lt(3)).await, 3);
}
