use std::time::Duration;

use basalt_client::{
    Client, ClientOptions, Error, QueryResult,
    proto::{self as pb, column::Values, query_response::Kind},
};
use tonic::{Code, Status};

use super::server::{Script, status};

pub(crate) type Message = Result<pb::QueryResponse, Status>;

fn message(kind: Kind) -> Message {
    Ok(pb::QueryResponse { kind: Some(kind) })
}

pub(crate) fn header() -> Message {
    let int32 = pb::DataType { kind: pb::TypeKind::Int32.into(), ..Default::default() };
    let field = pb::Field { name: "a".to_owned(), r#type: Some(int32), ..Default::default() };
    let schema = Some(pb::Schema { fields: vec![field] });
    message(Kind::Header(pb::Header { schema, table_version: 7 }))
}

pub(crate) fn batch(values: &[i32]) -> Message {
    let int32s = Values::Int32s(pb::Int32s { values: values.to_vec() });
    let columns = vec![pb::Column { validity: vec![], values: Some(int32s) }];
    message(Kind::Batch(pb::RecordBatch { rows: u32::try_from(values.len()).unwrap(), columns }))
}

pub(crate) fn trailer(rows: u64) -> Message {
    message(Kind::Trailer(pb::Trailer { rows, complete: true, ..Default::default() }))
}

pub(crate) fn broken() -> Message {
    Err(status(Code::Unavailable, "SHUTTING_DOWN"))
}

/// The answer to a query, and how often it was asked.
async fn ask(queries: Vec<Vec<Message>>) -> (Result<QueryResult, Error>, usize) {
    let script = Script { queries, ..Default::default() };
    let calls = script.calls.clone();
    let answer = script.start().await.query("t").collect().await;
    let calls = calls.lock().unwrap().iter().filter(|c| **c == "query").count();
    (answer, calls)
}

#[tokio::test]
async fn a_complete_answer() {
    let (answer, calls) =
        ask(vec![vec![header(), batch(&[1, 2]), batch(&[]), batch(&[3]), trailer(3)]]).await;
    let answer = answer.unwrap();
    assert_eq!((answer.rows, answer.version, answer.batches.len(), calls), (3, 7, 3, 1));
}

#[tokio::test]
async fn what_is_not_complete_is_an_error() {
    for (messages, expected, expected_calls) in [
        (vec![header(), batch(&[1])], "the answer is incomplete: the stream ended without its trailer", 3),
        (vec![], "the answer is incomplete: the stream ended without its trailer", 3),
        (vec![header(), broken()], "shutting_down (SHUTTING_DOWN)", 3),
        (
            vec![header(), Err(status(Code::OutOfRange, "DIVISION_BY_ZERO"))],
            "division_by_zero (DIVISION_BY_ZERO)",
            1,
        ),
        (
            vec![header(), batch(&[1]), trailer(2)],
            "the server's answer is malformed: 1 rows came, its trailer counts 2",
            1,
        ),
        (vec![header(), header()], "the server's answer is malformed: a second header", 1),
        (vec![trailer(0)], "the server's answer is malformed: it does not start with its header", 1),
        (
            vec![header(), trailer(0), batch(&[1])],
            "the server's answer is malformed: something behind the trailer",
            1,
        ),
        (
            vec![header(), Ok(pb::QueryResponse { kind: None })],
            "the server's answer is malformed: an empty message",
            1,
        ),
    ] {
        let (answer, calls) = ask(vec![messages]).await;
        assert_eq!((answer.unwrap_err().to_string().as_str(), calls), (expected, expected_calls));
    }
}

#[tokio::test]
async fn a_broken_answer_is_asked_again_and_never_mixed() {
    let good = vec![header(), batch(&[1, 2]), trailer(2)];
    let (answer, calls) = ask(vec![vec![header(), batch(&[1]), broken()], vec![broken()], good]).await;
    assert_eq!((answer.unwrap().rows, calls), (2, 3));
}

/// What a selection makes of an answer: of its rows, of its values, and of rows that the server keeps.
async fn select(answer: pb::SelectResponse) -> [Result<(), String>; 3] {
    let client = Script { select: answer, ..Default::default() }.start().await;
    let query = || client.query("t");
    let message = |error: Error| error.to_string();
    [
        query().select_rows().await.map(drop).map_err(message),
        query().select_keys("a").await.map(drop).map_err(message),
        query().select_rows().only_kept(Duration::from_secs(1)).await.map(drop).map_err(message),
    ]
}

#[tokio::test]
async fn sets_are_what_was_asked_for() {
    let int8 = pb::DataType { kind: pb::TypeKind::Int8.into(), ..Default::default() };
    let key = |r#type| pb::KeyDomain { column: "a".to_owned(), r#type, has_null: false };
    let scope = |key| Some(pb::Scope { table: "t".to_owned(), version: 1, key, table_id: 0 });
    let answer = |scope| pb::SelectResponse { scope, sip: vec![0].into(), ..Default::default() };
    let malformed = |what: &str| Err(format!("the server's answer is malformed: {what}"));
    let bytes = || malformed("a set with other bytes than were asked for");

    let missing = || malformed("a set without its scope");
    assert_eq!(select(answer(None)).await, [missing(), missing(), bytes()]);
    let no_values = malformed("the set holds rows, not values of a column");
    assert_eq!(select(answer(scope(None))).await, [Ok(()), no_values, bytes()]);
    let no_rows = || malformed("the set holds values of \"a\", not rows");
    assert_eq!(select(answer(scope(Some(key(Some(int8)))))).await, [no_rows(), Ok(()), bytes()]);
    let no_type = malformed("the set holds values of the unknown type 0");
    assert_eq!(select(answer(scope(Some(key(None))))).await, [no_rows(), no_type, bytes()]);

    let kept = |handle| pb::SelectResponse { handle, sip: vec![].into(), ..answer(scope(None)) };
    let no_handle = malformed("a handle that is not of 32 bytes");
    assert_eq!(select(kept(vec![7; 31])).await, [bytes(), bytes(), no_handle]);
    assert_eq!(select(kept(vec![7; 32])).await, [bytes(), bytes(), Ok(())]);
}

#[tokio::test]
async fn pages_of_files_are_gathered() {
    let client = Script::default().start().await;
    let verified = client.verify_table("t").await.unwrap();
    assert_eq!((verified.files, verified.bytes, verified.damage.len()), (6, 30, 1));
    assert_eq!((verified.damage[0].file.as_str(), &verified.damage[0].column), ("f", &None));
    let (tables, damaged) = client.list_all_tables().await.unwrap();
    assert_eq!((tables.len(), damaged.len(), damaged[0].name.as_str()), (5, 1, "u"));
}

#[tokio::test]
async fn lists_have_all_pages() {
    let tables = Script::default().start().await.list_tables().await.unwrap();
    let names: Vec<_> = tables.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["t0", "t1", "t2", "t3", "t4"]);
}

#[tokio::test]
async fn only_what_may_be_repeated_is() {
    let script = Script::default();
    let calls = script.calls.clone();
    let client = script.start().await;
    let schema = arrow_schema::Schema::empty();
    assert!(client.create_table("t", &schema).await.is_err());
    assert_eq!(calls.lock().unwrap().len(), 1);
    assert!(client.create_table_if_missing("t", &schema).await.is_err());
    assert_eq!(calls.lock().unwrap().len(), 4);
    assert!(matches!(client.table("t").await, Err(Error::Malformed(_))));
}

#[tokio::test]
async fn deadlines_pass() {
    let client = Script::default().start().await.with_deadline(Duration::from_millis(50));
    assert!(matches!(client.query("t").explain(false).await, Err(Error::Deadline)));
}

#[tokio::test]
async fn addresses_are_checked() {
    for bad in ["", "http://", "not an address", "http://host:port", "http://host:70000"] {
        assert!(matches!(Client::connect(bad).await, Err(Error::Address { .. })), "{bad:?}");
    }
    // A port that was free a moment ago.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = Client::connect_with(&address, ClientOptions::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Connection { address: a, .. } if *a == format!("http://{address}")));
}
