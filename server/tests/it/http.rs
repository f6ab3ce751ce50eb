//! HTTP: rows come in and tables are listed, with or without SQL; probes are answered whatever else is.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow_ipc::writer::StreamWriter;
use basalt_client::{
    Client, Retention,
    arrow::schema::{DataType, Field, Schema, TimeUnit},
};
use basalt_proto::v1 as pb;
use basalt_server::{Config, Listeners};
use parquet::arrow::ArrowWriter;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tonic::transport::Channel;

/// A server, and where it listens for HTTP.
async fn start() -> (Server, SocketAddr) {
    let (clients, metrics) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = format!("http://{}", clients.local_addr().unwrap());
    let http = metrics.local_addr().unwrap();
    let listeners = Listeners { clients, peers: None, metrics: Some(metrics), postgres: None };
    let config = Config { threads: 2, store: "memory:".into(), ..Config::default() };
    tokio::spawn(basalt_server::run(listeners, config, std::future::pending()));
    let client = Client::connect(&address).await.unwrap();
    let channel = Channel::from_shared(address).unwrap().connect().await.unwrap();
    (Server { client, channel }, http)
}

struct Server {
    client: Client,
    channel: Channel,
}

/// The code and the body of an answer on a connection of its own.
async fn ask(http: SocketAddr, head: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(http).await.unwrap();
    let length = body.len();
    let request = format!("{head}\r\nhost: here\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    // A server that refuses a request need not read it.
    let _ = stream.write_all(body).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let code =
        answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{answer}"));
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    (code, body)
}

async fn create(server: &Server, name: &str) {
    let field = |name: &str, kind: pb::TypeKind, nullable| pb::Field {
        name: name.into(),
        r#type: Some(pb::DataType { kind: kind.into(), precision: 0, scale: 0 }),
        nullable,
        ..Default::default()
    };
    let fields = vec![field("i", pb::TypeKind::Int64, false), field("t", pb::TypeKind::Utf8, true)];
    let request = pb::CreateTableRequest {
        name: name.into(),
        schema: Some(pb::Schema { fields }),
        ..Default::default()
    };
    let mut catalog = pb::catalog_service_client::CatalogServiceClient::new(server.channel.clone());
    catalog.create_table(request).await.unwrap();
}

async fn rows(server: &Server, name: &str) -> u64 {
    server.client.list_tables().await.unwrap().into_iter().find(|table| table.name == name).unwrap().rows
}

const LINES: &str = "POST /v1/tables/t HTTP/1.1\r\ncontent-type: application/x-ndjson";

#[tokio::test]
async fn rows_come_in_whole_or_not_at_all() {
    let (server, http) = start().await;
    create(&server, "t").await;
    let (code, body) = ask(http, LINES, b"{\"i\":1,\"t\":\"a\"}\n{\"i\":2}\n").await;
    assert_eq!(code, 200, "{body}");
    let loaded: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(loaded["rows"], 2);
    assert!(loaded["version"].as_u64().unwrap() > 0);
    let csv = "POST /v1/tables/t HTTP/1.1\r\ncontent-type: text/csv; charset=utf-8";
    assert_eq!(ask(http, csv, b"t,i\nb,3\n").await.0, 200);
    assert_eq!(rows(&server, "t").await, 3);
    let mut many = Vec::new();
    for i in 0..200_000 {
        many.extend_from_slice(format!("{{\"i\":{i}}}\n").as_bytes());
    }
    let mut wrong = many.clone();
    wrong.extend_from_slice(b"{\"i\":1.5}\n");
    let (code, body) = ask(http, LINES, &wrong).await;
    assert_eq!(code, 400, "{body}");
    let error: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(error["error"]["reason"], "INVALID_BATCH");
    // A null where there is none.
    assert_eq!(ask(http, LINES, b"{\"t\":\"a\"}\n").await.0, 400);
    // A body that breaks off.
    let mut stream = TcpStream::connect(http).await.unwrap();
    let head = format!("{LINES}\r\nhost: here\r\ncontent-length: 100\r\n\r\n{{\"i\":7}}\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 499 ") && answer.contains("CANCELLED"), "{answer}");
    assert_eq!(rows(&server, "t").await, 3);
    assert_eq!(ask(http, LINES, &many).await.0, 200);
    assert_eq!(rows(&server, "t").await, 200_003);
}

#[tokio::test]
async fn tables_are_listed_and_described() {
    let (server, http) = start().await;
    for name in ["b", "a", "c"] {
        create(&server, name).await;
    }
    let get = async |path: &str| {
        let (code, body) = ask(http, &format!("GET {path} HTTP/1.1"), b"").await;
        (code, serde_json::from_str::<serde_json::Value>(&body).unwrap_or_default())
    };
    let (code, page) = get("/v1/tables?limit=2").await;
    assert_eq!((code, page["tables"].as_array().unwrap().len(), &page["next"]), (200, 2, &"b".into()));
    let (_, page) = get("/v1/tables?after=b").await;
    assert_eq!((&page["tables"][0]["name"], page.get("next")), (&"c".into(), None));
    let (code, table) = get("/v1/tables/a").await;
    assert_eq!((code, &table["columns"][0]["type"]), (200, &"int64".into()));
    let (code, error) = get("/v1/tables/none").await;
    assert_eq!((code, &error["error"]["reason"]), (404, &"TABLE_NOT_FOUND".into()));
    assert_eq!(get("/v1/tables?limit=-1").await.0, 400);
    assert_eq!(get("/v1/tables?unknown=1").await.0, 400);
}

/// What a page of anybody's can have a browser send, unasked, writes nothing.
#[tokio::test]
async fn pages_in_a_browser_write_nothing() {
    let (server, http) = start().await;
    create(&server, "t").await;
    let row = b"{\"i\":1}\n";
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=a",
        "application/json",
    ] {
        let head = format!("POST /v1/tables/t HTTP/1.1\r\ncontent-type: {kind}");
        let (code, body) = ask(http, &head, row).await;
        assert_eq!(code, 415, "{kind}: {body}");
    }
    assert_eq!(ask(http, "POST /v1/tables/t HTTP/1.1", row).await.0, 415);
    let head = format!("{LINES}\r\norigin: http://a");
    assert_eq!(ask(http, &head, row).await.0, 403);
    // Before it sends another type, a browser asks whether it may.
    let asks = "OPTIONS /v1/tables/t HTTP/1.1\r\norigin: http://a\r\naccess-control-request-method: POST";
    let (code, body) = ask(http, asks, b"").await;
    assert!(code == 405 && !body.contains("access-control"), "{code} {body}");
    assert_eq!(rows(&server, "t").await, 0);
}

/// Who is slow to send rows keeps out neither probes nor others: what has hardly begun has no place yet, and what stands still
/// leaves its own to others.
#[tokio::test]
async fn slow_requests_keep_nobody_waiting() {
    let (server, http) = start().await;
    create(&server, "t").await;
    let (row, most) = ("{\"i\":1}\n", basalt_server::limits::HTTP_REQUESTS);
    let begin = async |rows: usize| {
        let mut stream = TcpStream::connect(http).await.unwrap();
        let length = row.len() * (rows + 1);
        let head = format!("{LINES}\r\nhost: here\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        // One that is refused need not be read.
        let _ = stream.write_all(row.repeat(rows).as_bytes()).await;
        stream
    };
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for _ in 0..most / 2 {
        small.push(begin(1).await);
    }
    for _ in 0..most {
        large.push(begin(basalt_server::limits::HTTP_BODY_BYTES / row.len() + 1).await);
    }
    // Probes take the others' places, and not theirs.
    let mut idle = Vec::new();
    for _ in 0..2 * basalt_server::limits::METRICS_CONNECTIONS {
        idle.push(TcpStream::connect(http).await.unwrap());
        let probe = ask(http, "GET /healthz HTTP/1.1", b"");
        assert_eq!(timeout(Duration::from_secs(4), probe).await.expect("no answer in time").0, 200);
    }
    let written = async {
        while ask(http, LINES, row.as_bytes()).await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(10), written).await.expect("places are kept by who says nothing");
    let done = small.len() as u64;
    for mut stream in small {
        stream.write_all(row.as_bytes()).await.unwrap();
        let mut answer = [0; 15];
        timeout(Duration::from_secs(20), stream.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }
    assert_eq!(rows(&server, "t").await, 1 + 2 * done);
    drop(large);
}

#[cfg(not(feature = "sql"))]
#[tokio::test]
async fn without_sql_statements_are_refused_in_words() {
    let (_server, http) = start().await;
    let head = "POST /v1/sql HTTP/1.1\r\ncontent-type: application/sql";
    let (code, body) = ask(http, head, b"SELECT 1").await;
    assert!(code == 501 && body.contains("--features sql"), "{code} {body}");
}

/// Loads into a table, with what stands behind `?`.
async fn load(http: SocketAddr, table: &str, options: &str, kind: &str, body: &[u8]) -> (u16, String) {
    let head = format!("POST /v1/tables/{table}?{options} HTTP/1.1\r\ncontent-type: {kind}");
    ask(http, &head, body).await
}

async fn types(server: &Server, name: &str) -> Vec<String> {
    let request = pb::GetTableRequest { name: name.into(), view: pb::TableView::Basic.into() };
    let mut catalog = pb::catalog_service_client::CatalogServiceClient::new(server.channel.clone());
    let table = catalog.get_table(request).await.unwrap().into_inner().table.unwrap();
    let field = |field: pb::Field| {
        let kind = field.r#type.unwrap().kind();
        let nullable = if field.nullable { "?" } else { "" };
        format!("{} {}{nullable}", field.name, kind.as_str_name().trim_start_matches("TYPE_KIND_"))
    };
    table.schema.unwrap().fields.into_iter().map(field).collect()
}

#[tokio::test]
async fn a_table_is_made_for_rows_or_not_at_all() {
    let (server, http) = start().await;
    let csv = b"id,delay,day\n1,5,2013-07-04\n2,NA,2013-07-05\n";
    let (code, body) = load(http, "t", "", "text/csv", csv).await;
    assert_eq!(code, 404, "{body}");
    let (code, body) = load(http, "t", "create=true&null=NA,-", "text/csv", csv).await;
    assert_eq!(code, 200, "{body}");
    let loaded: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&loaded["rows"], &loaded["created"]), (&2.into(), &true.into()));
    assert_eq!(types(&server, "t").await, ["id INT64?", "delay INT64?", "day DATE32?"]);
    // More of them: the table is there.
    let (code, body) = load(http, "t", "create=true&null=-", "text/csv", b"delay,id\n-,3\n").await;
    assert_eq!(code, 200, "{body}");
    assert!(body.contains("\"created\":false"), "{body}");
    // Rows of a key take the place of others; without null=NA this is no number.
    let (code, body) = load(http, "t", "replace_by=id", "text/csv", b"id,delay\n2,11\n4,1\n").await;
    assert_eq!(code, 200, "{body}");
    assert_eq!(rows(&server, "t").await, 4);
    assert_eq!(load(http, "t", "replace_by=none", "text/csv", b"id\n2\n").await.0, 400);
    let (code, body) = load(http, "t", "", "text/csv", b"id,delay\n5,1\n6,NA\n").await;
    assert_eq!((code, body.contains("line 3")), (400, true), "{body}");

    // JSON lines, in the order of their keys.
    let lines = b"{\"z\":1,\"a\":\"x\"}\n{\"a\":null,\"b\":0.5}\n";
    let (code, body) = load(http, "u", "create=true", "application/x-ndjson", lines).await;
    assert_eq!(code, 200, "{body}");
    assert_eq!(types(&server, "u").await, ["z INT64?", "a UTF8?", "b FLOAT64?"]);

    // Moments keep their time, and a date has none.
    let moments = b"d,at\n2013-07-04,2013-07-04 10:00:00\n 2013-07-05 ,2013-07-05 10:00\n";
    assert_eq!(load(http, "m", "create=true", "text/csv", moments).await.0, 200);
    assert_eq!(types(&server, "m").await, ["d DATE32?", "at TIMESTAMP?"]);
    let (code, body) = load(http, "m", "", "text/csv", b"d\n2013-07-04 10:00:00\n").await;
    assert_eq!((code, body.contains("is no date32")), (400, true), "{body}");
    // A carriage return ends no line: nothing is passed over.
    let (code, body) = load(http, "m", "", "text/csv", b"d,at\r2013-07-04,\n2013-07-05,\n").await;
    assert_eq!((code, body.contains("carriage return")), (400, true), "{body}");
    // Empty lines before the header are no work.
    let mut empty = vec![b'\n'; 200_000];
    empty.extend_from_slice(b"d\n2013-07-06\n");
    assert_eq!(load(http, "m", "", "text/csv", &empty).await.0, 200);
    assert_eq!(load(http, "w", "create=true", "text/csv", &vec![b'\n'; 9 << 20]).await.0, 400);
    server.client.drop_table("m").await.unwrap();
    // Who waits for a table that another load makes finds it, or makes it.
    let loads = (0..16).map(|i| {
        // What is wrong stands behind what types are guessed from.
        let body = match i % 4 {
            0 => [b"i\n".to_vec(), b"1000000000000000\n".repeat(520_000), b"x\n".to_vec()].concat(),
            _ => b"i\n1\n2\n".to_vec(),
        };
        async move { load(http, "p", "create=true", "text/csv", &body).await.0 }
    });
    let codes = futures_util::future::join_all(loads).await;
    let (good, failed) = (codes.iter().filter(|code| **code == 200).count(), codes.len());
    assert_eq!((good, failed), (12, 16), "{codes:?}");
    assert_eq!(rows(&server, "p").await, 24);
    server.client.drop_table("p").await.unwrap();

    // What is wrong behind the start leaves no table, nor does what breaks off, or is refused.
    let mut many = b"i\n".to_vec();
    for i in 0..1_500_000 {
        many.extend_from_slice(format!("{i}\n").as_bytes());
    }
    assert!(many.len() > 9 << 20);
    many.extend_from_slice(b"x\n");
    let (code, body) = load(http, "v", "create=true", "text/csv", &many).await;
    assert_eq!((code, body.contains("line 1500002")), (400, true), "{body}");
    assert_eq!(load(http, "w", "create=perhaps", "text/csv", csv).await.0, 400);
    assert_eq!(load(http, "w", "create=true", "text/csv", b"a,a\n1,2\n").await.0, 400);
    let mut stream = TcpStream::connect(http).await.unwrap();
    let head = "POST /v1/tables/w?create=true HTTP/1.1\r\ncontent-type: text/csv\r\nhost: here\r\ncontent-length: 20000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&many).await.unwrap();
    drop(stream);
    let names = async || {
        let tables = server.client.list_tables().await.unwrap();
        tables.into_iter().map(|table| table.name).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["t", "u"]);
    // Nobody finds the table of a load that is on its way, and what others put in its place stays.
    let mut stream = TcpStream::connect(http).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&many).await.unwrap();
    assert_eq!(names().await, ["t", "u"]);
    assert_eq!(load(http, "x", "create=true", "text/csv", b"i\n1\n").await.0, 200);
    server
        .client
        .create_table("w", &Schema::new(vec![Field::new("i", DataType::Int64, true)]))
        .await
        .unwrap();
    assert_eq!(load(http, "w", "", "text/csv", b"i\n5\n").await.0, 200);
    // What is wrong was found before the rest is sent.
    let _ = stream.write_all(&vec![b'\n'; 20_000_000 - many.len()]).await;
    let mut answer = vec![0; 12];
    timeout(Duration::from_secs(60), stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, b"HTTP/1.1 400");
    assert_eq!(rows(&server, "w").await, 1);
    assert_eq!(names().await, ["t", "u", "w", "x"]);
    many.truncate(many.len() - 2);
    let (code, body) = load(http, "v", "create=true", "text/csv", &many).await;
    assert_eq!(code, 200, "{body}");
    assert_eq!(rows(&server, "v").await, 1_500_000);
}

#[tokio::test]
async fn rows_that_are_too_old_already_are_counted() {
    let (server, http) = start().await;
    let csv = b"id,at,day\n1,2013-07-04 10:00:00,2013-07-04\n2,2999-01-01 00:00:00,2999-01-01\n3,,\n";
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        Field::new("day", DataType::Date32, true),
    ]);
    server.client.create_table("t", &schema).await.unwrap();
    let (code, body) = load(http, "t", "", "text/csv", csv).await;
    assert_eq!((code, body.contains("expired")), (200, false), "{body}");
    for column in ["at", "day"] {
        let hour = Retention::new(column, Duration::from_secs(3600));
        server.client.set_retention("t", Some(&hour)).await.unwrap();
        let (code, body) = load(http, "t", "", "text/csv", csv).await;
        let told: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code, &told["rows"], &told["expired"]), (200, &3.into(), &1.into()), "{column}: {body}");
        let line = b"{\"id\":4,\"at\":null}\n{\"id\":5}\n";
        let (_, body) = load(http, "t", "", "application/x-ndjson", line).await;
        assert!(body.contains("\"expired\":0"), "{column}: {body}");
    }
}

/// The rows of a body are counted from 1, whatever the batches and row groups in which they come.
#[tokio::test]
async fn a_row_that_does_not_fit_is_told_with_its_number() {
    // In the last piece of a body: nothing is left unread when it is refused.
    const WRONG: usize = 89_500;
    let (server, http) = start().await;
    let schema = Schema::new(vec![
        Field::new("i", DataType::Int64, false),
        Field::new("small", DataType::Int16, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
    ]);
    server.client.create_table("t", &schema).await.unwrap();
    let rows_of = |column: usize| {
        let is_wrong = |of: usize, row: usize| of == column && row == WRONG;
        let value = |of: usize, row: usize, wrong: i64| if is_wrong(of, row) { wrong } else { 7 };
        let i = (0..90_000).map(|row| (!is_wrong(0, row)).then_some(7_i64));
        let columns: [(&str, ArrayRef); 3] = [
            ("i", Arc::new(Int64Array::from_iter(i))),
            ("small", Arc::new(Int64Array::from_iter_values((0..90_000).map(|row| value(1, row, 40_000))))),
            (
                "at",
                Arc::new(TimestampMicrosecondArray::from_iter_values(
                    (0..90_000).map(|row| value(2, row, i64::MAX)),
                )),
            ),
        ];
        let columns = columns.map(|(name, array)| (name, array, true));
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    let cases = [
        (400, "column \"i\", row 89501: null in a column that is not nullable"),
        (400, "column \"small\", row 89501: 40000 is no int16"),
        (400, "column \"at\", row 89501: 9223372036854775807 is no timestamp"),
        (200, "\"rows\":90000"),
    ];
    for (column, (code, message)) in cases.into_iter().enumerate() {
        let rows = rows_of(column);
        let mut arrow = StreamWriter::try_new(Vec::new(), &rows.schema()).unwrap();
        for start in (0..rows.num_rows()).step_by(1000) {
            arrow.write(&rows.slice(start, 1000)).unwrap();
        }
        let mut parquet = ArrowWriter::try_new(Vec::new(), rows.schema(), None).unwrap();
        parquet.write(&rows).unwrap();
        for (kind, body) in [
            ("application/vnd.apache.arrow.stream", arrow.into_inner().unwrap()),
            ("application/vnd.apache.parquet", parquet.into_inner().unwrap()),
        ] {
            let (said, told) = load(http, "t", "", kind, &body).await;
            let told = told.replace('\\', "");
            assert!(said == code && told.contains(message), "{kind}: {said} {told}");
        }
    }
    assert_eq!(rows(&server, "t").await, 180_000);
}
