//! Statements through the doors that are not ours: Arrow Flight SQL and HTTP.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray,
    builder::{ListBuilder, StringBuilder},
    cast::AsArray as _,
    types::Int64Type,
};
use arrow_flight::{
    FlightDescriptor, FlightInfo, Ticket,
    sql::{
        Any, CommandGetTables, CommandStatementIngest, ProstMessageExt as _, TableDefinitionOptions,
        TableExistsOption, TableNotExistOption, TicketStatementQuery, client::FlightSqlServiceClient,
    },
};
use basalt_client::Client;
use basalt_server::{Config, Listeners};
use futures_util::{StreamExt as _, TryStreamExt as _};
use prost::Message as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::nodes::ready;

type Flight = FlightSqlServiceClient<Channel>;

fn batch(keys: std::ops::Range<i64>) -> RecordBatch {
    let columns: [(&str, ArrayRef); 2] = [
        ("key", Arc::new(Int64Array::from_iter_values(keys.clone()))),
        ("text", Arc::new(StringArray::from_iter_values(keys.map(|key| format!("text {key}"))))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// A server with a table `t` of so many rows, and both of its doors.
async fn start(rows: i64) -> (Flight, SocketAddr) {
    let (clients, http_listener) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = format!("http://{}", clients.local_addr().unwrap());
    let http = http_listener.local_addr().unwrap();
    let listeners = Listeners { clients, peers: None, metrics: Some(http_listener), postgres: None };
    let config = Config { threads: 2, store: "memory:".to_owned(), ..Config::default() };
    tokio::spawn(basalt_server::run(listeners, config, std::future::pending()));
    ready(&address).await;
    let client = Client::connect(&address).await.unwrap();
    client.create_table_if_missing("t", &batch(0..1).schema()).await.unwrap();
    for start in (0..rows).step_by(100_000) {
        client.write_all("t", &[batch(start..(start + 100_000).min(rows))]).await.unwrap();
    }
    let channel = Channel::from_shared(address).unwrap().connect().await.unwrap();
    (Flight::new(channel), http)
}

async fn rows(flight: &mut Flight, info: FlightInfo) -> Result<Vec<RecordBatch>, String> {
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let stream = flight.do_get(ticket).await.map_err(|error| error.to_string())?;
    stream.try_collect().await.map_err(|error| error.to_string())
}

fn number(batches: &[RecordBatch]) -> i64 {
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_described_and_answered() {
    let (mut flight, _) = start(250_000).await;
    let info = flight.execute("SELECT key, text FROM t ORDER BY key".into(), None).await.unwrap();
    let schema = info.clone().try_decode_schema().unwrap();
    assert_eq!(
        schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(),
        ["key", "text"]
    );
    let batches = rows(&mut flight, info).await.unwrap();
    assert!(batches.len() > 2, "{}", batches.len());
    let all = arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap();
    assert_eq!(all, batch(0..250_000));
    // Nothing is answered with its columns alone.
    let info = flight.execute("SELECT key FROM t WHERE key < 0".into(), None).await.unwrap();
    assert_eq!(rows(&mut flight, info).await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_take_parameters() {
    let (mut flight, _) = start(1000).await;
    let mut prepared =
        flight.prepare("SELECT count(*) FROM t WHERE key < $1 AND text <> $2".into(), None).await.unwrap();
    assert_eq!(prepared.parameter_schema().unwrap().fields().len(), 2);
    assert_eq!(prepared.dataset_schema().unwrap().fields().len(), 1);
    for (key, text, expected) in [(10, "text 3", 9), (500, "none", 500)] {
        let columns: [(&str, ArrayRef); 2] =
            [("1", Arc::new(Int64Array::from(vec![key]))), ("2", Arc::new(StringArray::from(vec![text])))];
        prepared.set_parameters(RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        let info = prepared.execute().await.unwrap();
        assert_eq!(number(&rows(&mut flight, info).await.unwrap()), expected);
    }
    // Two rows are two queries.
    let columns: [(&str, ArrayRef); 2] =
        [("1", Arc::new(Int64Array::from(vec![1, 2]))), ("2", Arc::new(StringArray::from(vec!["a", "b"])))];
    prepared.set_parameters(RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    let info = prepared.execute().await.unwrap();
    assert!(rows(&mut flight, info.clone()).await.unwrap_err().contains("run it once for each"));
    prepared.close().await.unwrap();
    assert!(rows(&mut flight, info).await.unwrap_err().contains("no such prepared statement"));
}

/// The client of Rust binds parameters as those of a query are, and sends none with what it runs.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_runs_with_what_was_bound_before() {
    let (mut flight, _) = start(1).await;
    let mut prepared = flight.prepare("INSERT INTO t VALUES ($1, $2)".into(), None).await.unwrap();
    for keys in [10..11, 20..23, 30..30] {
        let expected = keys.end - keys.start;
        prepared.set_parameters(batch(keys)).unwrap();
        assert_eq!(prepared.execute_update().await.unwrap(), expected);
    }
    let counted = "SELECT count(*) FROM t WHERE key >= 10 AND text LIKE 'text %'";
    let info = flight.execute(counted.into(), None).await.unwrap();
    assert_eq!(number(&rows(&mut flight, info).await.unwrap()), 4);
}

/// Parameters of no rows are no runs, which is another thing than no parameters.
#[tokio::test(flavor = "multi_thread")]
async fn of_no_rows_of_parameters_nothing_is_inserted() {
    let (mut flight, _) = start(1).await;
    for (parameters, expected) in [(Some(0..0), 0), (None, 1), (Some(0..0), 0)] {
        let mut prepared = flight.prepare("INSERT INTO t VALUES (7, 'x')".into(), None).await.unwrap();
        if let Some(keys) = parameters {
            prepared.set_parameters(batch(keys)).unwrap();
        }
        let info = prepared.execute().await.unwrap();
        assert_eq!(number(&rows(&mut flight, info).await.unwrap()), expected);
    }
    let info = flight.execute("SELECT count(*) FROM t WHERE key = 7".into(), None).await.unwrap();
    assert_eq!(number(&rows(&mut flight, info).await.unwrap()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_of_the_types_that_parameters_make_them() {
    let (mut flight, _) = start(10).await;
    let mut prepared = flight.prepare("SELECT key + $1 AS more FROM t".into(), None).await.unwrap();
    let values: [ArrayRef; 2] =
        [Arc::new(Int64Array::from(vec![5])), Arc::new(Float64Array::from(vec![0.5]))];
    for value in values {
        let batch = RecordBatch::try_from_iter([("1", Arc::clone(&value))]).unwrap();
        prepared.set_parameters(batch).unwrap();
        let info = prepared.execute().await.unwrap();
        let promised = info.clone().try_decode_schema().unwrap();
        let batches = rows(&mut flight, info).await.unwrap();
        assert_eq!(promised.field(0).data_type(), value.data_type());
        assert_eq!(promised.fields(), batches[0].schema().fields());
    }
}

/// What a server could not have made is refused, and reads no more than its client may.
#[tokio::test(flavor = "multi_thread")]
async fn made_up_tickets_are_refused() {
    let (flight, _) = start(1).await;
    let mut flight = flight.into_inner();
    let any =
        |type_url: &str| Any { type_url: type_url.into(), value: vec![0xff; 16].into() }.encode_to_vec();
    let ticket = |handle: &[u8]| {
        TicketStatementQuery { statement_handle: handle.to_vec().into() }.as_any().encode_to_vec()
    };
    for (bytes, reason) in [
        (vec![], "INVALID_QUERY"),
        (b"SELECT 1".to_vec(), "PROTOCOL"),
        (any("type.googleapis.com/arrow.flight.protocol.sql.CommandGetTables"), "PROTOCOL"),
        (any("type.googleapis.com/anything"), "INVALID_QUERY"),
        (ticket(&[0xff]), "PROTOCOL"),
        (ticket(b"\x0018446744073709551615"), "PROTOCOL"),
        (ticket(b"\x00-1"), "PROTOCOL"),
        (ticket(b"SELECT * FROM nowhere"), "TABLE_NOT_FOUND"),
        (vec![b'x'; 1 << 20], "MESSAGE_TOO_LARGE"),
    ] {
        let error = flight.do_get(Ticket::new(bytes.clone())).await.map(drop).unwrap_err();
        let info = error.get_error_details();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert_eq!(info.error_info().unwrap().reason, reason, "{shown}: {error:?}");
    }
    let path = FlightDescriptor::new_path(vec!["t".into()]);
    let error = flight.get_flight_info(path).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_fails_on_its_way_ends_in_an_error() {
    let (mut flight, http) = start(300_000).await;
    // The last of its rows cannot be had.
    let sql = "SELECT key, text, 1 / (CASE WHEN r < 299999 THEN 1 ELSE 0 END) AS x FROM \
               (SELECT key, text, row_number() OVER (ORDER BY key) AS r FROM t) u";
    let info = flight.execute(sql.into(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let answered = flight.do_get(ticket).await.unwrap();
    let ended: Result<Vec<RecordBatch>, _> = answered.try_collect().await;
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("zero"), "{error}");

    let (code, body) = post(http, "/v1/sql", sql.as_bytes()).await;
    // The last chunk has no bytes: it is not there.
    assert!(code == 200 && !body.ends_with("\r\n0\r\n\r\n"), "{code} {}", &body[body.len() - 60..]);
    let (code, body) = post(http, "/v1/sql", b"SELECT count(*) AS n FROM t").await;
    assert_eq!(code, 200);
    assert!(body.contains("{\"n\":300000}\n") && body.ends_with("\r\n0\r\n\r\n"), "{body}");
    let (code, body) = post(http, "/v1/sql", b"SELECT 1 / (key - key) AS x FROM t").await;
    assert!(code == 422 && body.contains("DIVISION_BY_ZERO"), "{code} {body}");
}

/// Numbers of parameters keep their digits, on the way to a decimal too.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_over_http_have_all_of_their_digits() {
    let (_, http) = start(1).await;
    let path =
        "/v1/sql?parameters=%5B12345678901234567.89,123456789012345678901234567890,1e22,123456789.123%5D";
    let sql = b"SELECT CAST($1 AS DECIMAL(38,4)) AS a, CAST($2 AS DECIMAL(38,4)) AS b, CAST($3 AS DECIMAL(38,4)) AS c, \
                CAST($4 AS DECIMAL(38,20)) AS d";
    let (code, body) = post(http, path, sql).await;
    assert_eq!(code, 200, "{body}");
    for digits in [
        "12345678901234567.8900",
        "123456789012345678901234567890.0000",
        "10000000000000000000000.0000",
        "123456789.12300000000000000000",
    ] {
        assert!(body.contains(digits), "{digits}: {body}");
    }
    let (code, body) = post(http, "/v1/sql?parameters=%5B1e400%5D", b"SELECT $1 AS a").await;
    assert!(code == 400 && body.contains("PROTOCOL"), "{code} {body}");
}

async fn post(http: SocketAddr, path: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(http).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-type: application/sql\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = String::new();
    // A connection that is cut off may be reset.
    let _ = stream.read_to_string(&mut answer).await;
    let code = answer.split(' ').nth(1).unwrap_or_default().parse().unwrap();
    (code, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// A statement takes a place once it is whole: those that are half sent have none, and of many the one goes that has begun first.
#[tokio::test(flavor = "multi_thread")]
async fn half_sent_statements_keep_nobody_out() {
    let (_, http) = start(1).await;
    let sql = "SELECT count(*) AS n FROM t";
    let (begun, rest) = sql.split_at(10);
    let head = format!(
        "POST /v1/sql HTTP/1.1\r\nhost: here\r\ncontent-type: application/sql\r\ncontent-length: {}\r\n\r\n{begun}",
        sql.len()
    );
    let answered = async || {
        let answer = tokio::time::timeout(Duration::from_secs(10), post(http, "/v1/sql", sql.as_bytes()));
        let (code, body) = answer.await.expect("no answer in time");
        assert!(code == 200 && body.contains("{\"n\":1}\n"), "{code} {body}");
    };
    let mut half = Vec::new();
    for n in 0..basalt_server::limits::HTTP_BODIES_BYTES / basalt_server::limits::HTTP_BODY_BYTES + 20 {
        let mut stream = TcpStream::connect(http).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        half.push(stream);
        if n == basalt_server::limits::HTTP_REQUESTS + 10 {
            answered().await;
        }
    }
    answered().await;
    // The last that has begun has nothing to fear of the others.
    let mut last = half.pop().unwrap();
    last.write_all(rest.as_bytes()).await.unwrap();
    let mut answer = [0; 15];
    tokio::time::timeout(Duration::from_secs(10), last.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    let mut told = String::new();
    while !told.contains("OVERLOADED") {
        // One that was among the first, and made room.
        let mut first = half.remove(0);
        let mut bytes = [0; 4096];
        if let Ok(Ok(n)) = tokio::time::timeout(Duration::from_millis(200), first.read(&mut bytes)).await {
            told = String::from_utf8_lossy(&bytes[..n]).into_owned();
        }
        assert!(!half.is_empty(), "nobody has made room");
    }
    assert!(told.starts_with("HTTP/1.1 429 ") && told.contains("slowly"), "{told}");
}

/// A client that leaves its answer unread keeps neither a place nor a permit.
#[tokio::test(flavor = "multi_thread")]
async fn an_unread_answer_is_given_up() {
    let (mut flight, http) = start(100_000).await;
    let mut unread = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(http).await.unwrap();
        let sql = "SELECT key, repeat(text, 100) AS long FROM t";
        let head = format!(
            "POST /v1/sql HTTP/1.1\r\nhost: here\r\ncontent-type: application/sql\r\ncontent-length: {}\r\n\r\n{sql}",
            sql.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        unread.push(stream);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Others are answered meanwhile.
    let info = flight.execute("SELECT count(*) FROM t".into(), None).await.unwrap();
    assert_eq!(number(&rows(&mut flight, info).await.unwrap()), 100_000);
    let mut cut = 0;
    tokio::time::sleep(basalt_server::limits::SLOW_READER_TIMEOUT + Duration::from_secs(2)).await;
    for mut stream in unread {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        cut += usize::from(!answer.ends_with(b"\r\n0\r\n\r\n"));
    }
    assert_eq!(cut, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_ingested_whole_or_not_at_all() {
    let (mut flight, _) = start(10).await;
    let ingest =
        |table: &str, creates: TableNotExistOption, exists: TableExistsOption| CommandStatementIngest {
            table: table.into(),
            table_definition_options: Some(TableDefinitionOptions {
                if_not_exist: creates.into(),
                if_exists: exists.into(),
            }),
            ..CommandStatementIngest::default()
        };
    let batches = |batches: Vec<RecordBatch>| futures_util::stream::iter(batches.into_iter().map(Ok));
    let (create, fail) = (TableNotExistOption::Create, TableNotExistOption::Fail);
    let append = ingest("t", fail, TableExistsOption::Append);
    assert_eq!(
        flight.execute_ingest(append.clone(), batches(vec![batch(10..20), batch(20..30)])).await.unwrap(),
        20
    );
    // The second batch does not fit: neither is written.
    let wrong: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let wrong = RecordBatch::try_from_iter([("key", wrong)]).unwrap();
    assert!(flight.execute_ingest(append.clone(), batches(vec![wrong])).await.is_err());
    // A row is told with its number, counted from 1 over all batches.
    let floats = |values: Vec<f64>| {
        let floats: ArrayRef = Arc::new(Float64Array::from(values));
        RecordBatch::try_from_iter_with_nullable([("key", floats, true)]).unwrap()
    };
    let many = vec![floats(vec![1.0; 1000]), floats(vec![2.0; 1000]), floats(vec![3.0, 7.5, 8.5])];
    let error = flight.execute_ingest(append, batches(many)).await.unwrap_err().to_string();
    assert!(error.contains("row 2002: 7.5 is no int64"), "{error}");
    let new = ingest("new", create, TableExistsOption::Fail);
    assert_eq!(flight.execute_ingest(new.clone(), batches(vec![batch(0..5)])).await.unwrap(), 5);
    assert!(flight.execute_ingest(new, batches(vec![batch(0..5)])).await.is_err());
    let replace = ingest("new", create, TableExistsOption::Replace);
    assert_eq!(flight.execute_ingest(replace, batches(vec![batch(0..7)])).await.unwrap(), 7);
    let none = ingest("none", fail, TableExistsOption::Append);
    assert!(flight.execute_ingest(none, batches(vec![batch(0..1)])).await.is_err());
    // A table that was made for rows that do not come goes again.
    let odd: ArrayRef = Arc::new(arrow_array::DurationSecondArray::from(vec![1]));
    let durations = RecordBatch::try_from_iter([("b", odd)]).unwrap();
    let odd = ingest("odd", create, TableExistsOption::Fail);
    assert!(flight.execute_ingest(odd, batches(vec![durations])).await.is_err());
    for (sql, expected) in [("SELECT count(*) FROM t", 30), ("SELECT count(*) FROM new", 7)] {
        let info = flight.execute(sql.into(), None).await.unwrap();
        assert_eq!(number(&rows(&mut flight, info).await.unwrap()), expected, "{sql}");
    }
    let tables = CommandGetTables { include_schema: true, ..CommandGetTables::default() };
    let info = flight.get_tables(tables).await.unwrap();
    let listed = rows(&mut flight, info).await.unwrap();
    let names: Vec<_> = listed[0].column(2).as_string::<i32>().iter().flatten().collect();
    assert_eq!(names, ["new", "t"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_ingested_as_json() {
    let (mut flight, _) = start(1).await;
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.append_value([Some("a"), None]);
    let lists: ArrayRef = Arc::new(lists.finish());
    let batch = RecordBatch::try_from_iter_with_nullable([("l", lists, true)]).unwrap();
    // Into a new table, and behind what is in it.
    for rows_there in 1..=2 {
        let ingest = CommandStatementIngest {
            table: "lists".into(),
            table_definition_options: Some(TableDefinitionOptions {
                if_not_exist: TableNotExistOption::Create.into(),
                if_exists: TableExistsOption::Append.into(),
            }),
            ..CommandStatementIngest::default()
        };
        let batches = futures_util::stream::iter([Ok(batch.clone())]);
        assert_eq!(flight.execute_ingest(ingest, batches).await.unwrap(), 1);
        let sql = "SELECT count(*) FROM lists WHERE l = '[\"a\",null]'";
        let info = flight.execute(sql.into(), None).await.unwrap();
        assert_eq!(number(&rows(&mut flight, info).await.unwrap()), rows_there);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_make_one_table_at_once_both_write_their_rows() {
    let (mut flight, _) = start(1).await;
    let ingest = CommandStatementIngest {
        table: "new".into(),
        table_definition_options: Some(TableDefinitionOptions {
            if_not_exist: TableNotExistOption::Create.into(),
            if_exists: TableExistsOption::Append.into(),
        }),
        ..CommandStatementIngest::default()
    };
    // Neither has all of its rows when the other one looks for the table.
    let slowly = |batches: [RecordBatch; 2]| {
        futures_util::stream::iter(batches).then(|batch| async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok(batch)
        })
    };
    let (mut first, mut second) = (flight.clone(), flight.clone());
    let (first, second) = tokio::join!(
        first.execute_ingest(ingest.clone(), slowly([batch(0..10), batch(10..20)])),
        second.execute_ingest(ingest, slowly([batch(20..25), batch(25..30)])),
    );
    assert_eq!((first.unwrap(), second.unwrap()), (20, 10));
    let info = flight.execute("SELECT count(*) FROM new".into(), None).await.unwrap();
    assert_eq!(number(&rows(&mut flight, info).await.unwrap()), 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlines_hold() {
    let (flight, http) = start(100_000).await;
    let sql = "SELECT count(*) FROM t a JOIN t b ON a.key < b.key + 1";
    let mut raw = flight.into_inner();
    let ticket = TicketStatementQuery { statement_handle: sql.into() }.as_any().encode_to_vec();
    let mut request = tonic::Request::new(Ticket::new(ticket));
    request.metadata_mut().insert("grpc-timeout", "50m".parse().unwrap());
    let ended = async {
        let mut messages = raw.do_get(request).await?.into_inner();
        while messages.message().await?.is_some() {}
        Ok::<_, Status>(())
    };
    let code = ended.await.unwrap_err().code();
    assert!(matches!(code, Code::DeadlineExceeded | Code::Cancelled), "{code:?}");
    let (code, body) = post(http, "/v1/sql?deadline_ms=50", sql.as_bytes()).await;
    assert!(code == 504 && body.contains("DEADLINE_EXCEEDED"), "{code} {body}");
}
