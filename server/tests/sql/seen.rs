//! What the owner of a key sees of tables that are not his, by every door: nothing. There is a table `vault` that the
//! reader may not read, and all that is made of it; every word of it begins so, and none may reach him.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::{
    FlightDescriptor,
    sql::{CommandGetTables, client::FlightSqlServiceClient},
};
use arrow_schema::Schema;
use basalt_client::{Client, ClientOptions, Credentials, Error, RetryPolicy, col, count};
use basalt_proto::v1::{self as pb, catalog_service_client::CatalogServiceClient};
use basalt_server::{Allowance, Config, Issued, Listeners, Role};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures_util::TryStreamExt as _;
use ring::{digest, hmac, pbkdf2};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tonic::transport::Channel;

use crate::postgres::client::{Client as Postgres, Server as PostgresServer, message, startup, text};

/// What the reader must not come to see.
const HIDDEN: &str = "vault";

struct Server {
    grpc: String,
    http: SocketAddr,
    postgres: PostgresServer,
    admin: Client,
    reader: Client,
    key: String,
    _folder: TempDir,
}

fn batch(columns: [(&str, ArrayRef); 2]) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

async fn connect(grpc: &str, key: &str) -> Client {
    let options = ClientOptions::new().retry(RetryPolicy::never());
    Client::connect_as(grpc, options, &Credentials::new().key(key).unwrap()).await.unwrap()
}

async fn sql(client: &Client, text: &str) -> Result<String, Error> {
    client.sql(text).collect().await.map(|answer| format!("{:?}", answer.batches))
}

/// A server with all doors and with keys: the admin's, and that of a reader of `open_*`.
async fn start() -> Server {
    let folder = TempDir::new().unwrap();
    let keys = folder.path().join("keys.toml");
    let issue = |name: &str, role, tables: &[&str]| {
        let tables: Vec<_> = tables.iter().map(ToString::to_string).collect();
        let issued = Issued::new(name, role, &tables, Allowance::default()).unwrap();
        issued.add_to(&keys).unwrap();
        issued.secret
    };
    let (admin, key) = (issue("admin", Role::Admin, &["*"]), issue("reader", Role::Reader, &["open_*"]));
    let config = Config {
        threads: 2,
        store: folder.path().join("store").to_str().unwrap().to_owned(),
        keys: Some(keys),
        ..Config::default()
    };
    let listen = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (clients, http, postgres) = (listen().await, listen().await, listen().await);
    let grpc = format!("http://{}", clients.local_addr().unwrap());
    let (http_address, address) = (http.local_addr().unwrap(), postgres.local_addr().unwrap().to_string());
    let listeners = Listeners { clients, peers: None, metrics: Some(http), postgres: Some(postgres) };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move {
        let stopped = async { drop(stopped.await) };
        basalt_server::run(listeners, config, stopped).await.unwrap();
    });
    let postgres = PostgresServer { grpc: grpc.clone(), address, stop, running };
    let (admin, reader) = (connect(&grpc, &admin).await, connect(&grpc, &key).await);
    let begun = async {
        while admin.list_tables().await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), begun).await.unwrap();

    let ids = || Arc::new(Int64Array::from_iter_values(0..100)) as ArrayRef;
    let texts = |word: &str| {
        Arc::new(StringArray::from_iter_values((0..100).map(|n| format!("{word} {n}")))) as ArrayRef
    };
    for (table, columns) in [
        ("vault", [("vault_id", ids()), ("vault_text", texts("vault of"))]),
        ("open_a", [("id", ids()), ("text", texts("text"))]),
    ] {
        let rows = batch(columns);
        admin.create_table(table, &rows.schema()).await.unwrap();
        admin.write_all(table, &[rows]).await.unwrap();
    }
    for statement in [
        // By its name it is the reader's; what it reads is not.
        "CREATE VIEW open_view AS SELECT vault_text FROM vault WHERE vault_text <> 'vault of nobody'",
        "CREATE VIEW open_deep AS SELECT * FROM open_view",
        "CREATE VIEW open_good AS SELECT text FROM open_a WHERE text <> 'good'",
        "CREATE VIEW vault_view AS SELECT id FROM open_a",
        "CREATE TABLE open_refers (id BIGINT, of BIGINT REFERENCES vault (vault_id))",
        "INSERT INTO open_refers VALUES (1, 1), (2, 2)",
    ] {
        sql(&admin, statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let rows = admin.query("vault").filter(col("vault_id").gt(1)).select_rows().await.unwrap();
    admin.put_set(&rows, Duration::from_secs(600)).await.unwrap();
    let keys = admin.query("vault").select_keys("vault_id").await.unwrap();
    admin.put_set(&keys, Duration::from_secs(600)).await.unwrap();
    Server { grpc, http: http_address, postgres, admin, reader, key, _folder: folder }
}

#[track_caller]
fn hidden(what: &str, shown: &str) {
    assert!(!shown.contains(HIDDEN), "{what}: {shown}");
}

#[track_caller]
fn refused<T: std::fmt::Debug>(what: &str, outcome: Result<T, Error>) {
    let error = outcome.unwrap_err();
    let reason = error.server().map(|error| error.reason_name());
    // For a statement a table that he may not read is not there; what a view reads he may not.
    let is_refused = matches!(reason.as_deref(), Some("PERMISSION_DENIED" | "TABLE_NOT_FOUND"));
    assert!(is_refused, "{what}: {error}");
    // Which table it is may be said, which the statement names itself, or a view; nothing of its columns.
    assert!(!error.to_string().contains("vault_"), "{what}: {error}");
}

/// What lists tables, columns, fragments, sets, views and queries, and whether an admin sees more there. A column that
/// refers to a table names it, and is left out.
const LISTS: [(&str, bool); 19] = [
    ("SHOW TABLES", true),
    ("SHOW VIEWS", true),
    ("SHOW CREATE VIEW open_good", false),
    ("SELECT * FROM system.tables", true),
    ("SELECT * FROM system.columns WHERE \"references\" IS NULL", true),
    ("SELECT * FROM system.fragments", true),
    ("SELECT * FROM system.sets", true),
    ("SELECT table_name, version FROM system.versions", true),
    ("SELECT id, method, caller FROM system.queries", false),
    ("SELECT * FROM information_schema.tables", true),
    ("SELECT * FROM information_schema.columns", true),
    ("SELECT * FROM information_schema.views", true),
    ("SELECT * FROM information_schema.schemata", false),
    ("SELECT relname, relnatts FROM pg_catalog.pg_class", true),
    ("SELECT attname FROM pg_catalog.pg_attribute", true),
    ("SELECT * FROM pg_catalog.pg_tables", true),
    ("SELECT * FROM pg_catalog.pg_views", true),
    ("SELECT * FROM pg_catalog.pg_roles", false),
    ("DESCRIBE open_a", false),
];

/// What would read it, one way or another.
const READS: [&str; 16] = [
    "SELECT * FROM vault",
    "SELECT count(*) FROM vault",
    "SELECT * FROM vault FOR VERSION AS OF 1",
    "EXPLAIN SELECT * FROM vault",
    "EXPLAIN ANALYZE SELECT * FROM vault",
    "SUMMARIZE vault",
    "DESCRIBE vault",
    "SHOW COLUMNS FROM vault",
    "SHOW CREATE TABLE vault",
    "SELECT id FROM open_a WHERE id IN (SELECT vault_id FROM vault)",
    "SELECT id FROM open_a UNION SELECT vault_id FROM vault",
    "WITH v AS (SELECT * FROM vault) SELECT count(*) FROM v",
    "SELECT * FROM open_view",
    "SELECT count(*) FROM open_deep",
    "DESCRIBE open_view",
    "EXPLAIN SELECT * FROM open_deep",
];

#[tokio::test(flavor = "multi_thread")]
async fn statements_show_nothing_of_what_their_sender_may_not_read() {
    let server = start().await;
    let Server { admin, reader, .. } = &server;
    for (statement, has_more) in LISTS {
        let shown = sql(reader, statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        hidden(statement, &shown);
        let all = sql(admin, statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!(all.contains(HIDDEN), has_more, "{statement}: {all}");
    }
    // His own are there.
    for (statement, word) in [
        ("SHOW TABLES", "open_a"),
        ("SHOW VIEWS", "'good'"),
        ("SHOW VIEWS", "open_view"),
        ("SHOW CREATE VIEW open_good", "'good'"),
        ("SELECT * FROM system.columns", "open_refers"),
        ("SELECT * FROM pg_views", "'good'"),
        ("SELECT * FROM information_schema.views", "open_view"),
        ("SELECT * FROM open_good LIMIT 1", "text"),
    ] {
        let shown = sql(reader, statement).await.unwrap();
        assert!(shown.contains(word), "{statement}: {shown}");
    }
    for statement in READS {
        refused(statement, sql(reader, statement).await);
        sql(admin, statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    for statement in ["SELECT * FROM system.nodes", "SELECT * FROM system.node_tables"] {
        refused(statement, sql(reader, statement).await);
        sql(admin, statement).await.unwrap();
    }
    // What is not there by that name is not told to be there by another.
    for statement in
        ["SELECT * FROM vaul", "SHOW CREATE VIEW open_view", "SELECT * FROM open_a WHERE vault_id = 1"]
    {
        let error = sql(reader, statement).await.unwrap_err().to_string();
        assert!(!error.contains("vault\"") && !error.contains("of nobody"), "{statement}: {error}");
    }
    // What a view names is not told where the view is the reader's alone.
    for statement in ["CREATE VIEW open_mine AS SELECT * FROM vault", "COPY vault TO STDOUT"] {
        assert!(sql(reader, statement).await.is_err(), "{statement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_sets_and_lists_show_nothing_of_it() {
    let server = start().await;
    let Server { admin, reader, .. } = &server;
    // A column says what it refers to.
    let listed = format!("{:?}", reader.list_tables().await.unwrap());
    hidden("ListTables", &listed.replace("\"basalt.references\": \"vault.vault_id\"", ""));
    refused("GetTable", reader.table("vault").await);
    refused("Query", reader.query("vault").select([count()]).collect().await);
    refused("Explain", reader.query("vault").explain(false).await);
    refused("Select", reader.query("vault").select_rows().await);
    refused("Delete", reader.delete("vault", col("vault_id").eq(1)).await);
    let join = || col("id").in_keys(basalt_client::keys_of("vault", "vault_id"));
    refused("semi-join", reader.query("open_a").filter(join()).collect().await);
    admin.query("open_a").filter(join()).collect().await.unwrap();
    // Queries of others.
    let _unread = admin.sql("SELECT a.vault_text FROM vault a, vault b, vault c").stream().await;
    hidden("ListQueries", &format!("{:?}", reader.running_queries().await.unwrap()));
    // A page token is no way to the others.
    let mut catalog = CatalogServiceClient::new(reader.channel());
    let mut request =
        tonic::Request::new(pb::ListTablesRequest { page_size: 1, page_token: "open_z".into() });
    let bearer = format!("Bearer {}", server.key).parse().unwrap();
    request.metadata_mut().insert("authorization", bearer);
    let page = catalog.list_tables(request).await.unwrap().into_inner();
    assert!(page.tables.is_empty() && page.next_page_token.is_empty(), "{page:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doors_of_others_show_nothing_of_it() {
    let server = start().await;
    // Flight SQL.
    let channel = Channel::from_shared(server.grpc.clone()).unwrap().connect().await.unwrap();
    let mut flight = FlightSqlServiceClient::new(channel);
    flight.set_token(server.key.clone());
    let command = CommandGetTables { include_schema: true, ..CommandGetTables::default() };
    let info = flight.get_tables(command).await.unwrap();
    let stream = flight.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    let tables: Vec<RecordBatch> = stream.try_collect().await.unwrap();
    let shown = format!("{tables:?}");
    assert!(shown.contains("open_a"), "{shown}");
    hidden("GetTables", &shown);
    for statement in READS {
        let described = flight.execute(statement.to_owned(), None).await;
        let error = match described {
            // What describes a query is planned where it is read.
            Ok(info) => {
                let ticket = info.endpoint[0].ticket.clone().unwrap();
                let shown = info.clone().try_decode_schema().unwrap_or_else(|_| Schema::empty());
                hidden(statement, &format!("{shown:?}"));
                let stream = flight.do_get(ticket).await;
                match stream {
                    Ok(stream) => stream.try_collect::<Vec<_>>().await.unwrap_err().to_string(),
                    Err(error) => error.to_string(),
                }
            }
            Err(error) => error.to_string(),
        };
        let is_refused = error.contains("may not")
            || error.contains("no table \\\"vault")
            || error.contains("no table \"vault");
        assert!(is_refused && !error.contains("vault_"), "{statement}: {error}");
        assert!(
            flight.prepare(statement.to_owned(), None).await.is_err() || statement.starts_with("EXPLAIN")
        );
    }
    let path = FlightDescriptor::new_path(vec!["vault".into()]);
    let mut plain = flight.into_inner();
    assert!(plain.get_flight_info(path).await.is_err());

    // HTTP.
    let get = async |method: &str, path: &str, body: &str| {
        let mut stream = TcpStream::connect(server.http).await.unwrap();
        let (key, length) = (&server.key, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n\
             content-type: application/sql\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let tables = get("GET", "/v1/tables", "").await;
    assert!(tables.starts_with("HTTP/1.1 200") && tables.contains("open_a"), "{tables}");
    hidden("/v1/tables", &tables);
    for (method, path) in
        [("GET", "/v1/tables/vault"), ("GET", "/v1/tables/vault?view=full"), ("GET", "/metrics")]
    {
        let answer = get(method, path, "").await;
        assert!(answer.starts_with("HTTP/1.1 403") && !answer.contains("vault_"), "{path}: {answer}");
    }
    for (statement, _) in LISTS {
        let answer = get("POST", "/v1/sql", statement).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{statement}: {answer}");
        hidden(statement, &answer);
    }
    for statement in READS {
        let answer = get("POST", "/v1/sql", statement).await;
        let is_refused = answer.starts_with("HTTP/1.1 403") || answer.starts_with("HTTP/1.1 404");
        assert!(is_refused && !answer.contains("vault_"), "{statement}: {answer}");
    }
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

/// A connection of PostgreSQL's protocol, with SCRAM.
async fn by_password(server: &PostgresServer, user: &str, password: &str) -> Postgres {
    let mut stream = TcpStream::connect(&server.address).await.unwrap();
    stream.write_all(&startup(&[("user", user)])).await.unwrap();
    let (tag, asked) = message(&mut stream).await.unwrap();
    assert_eq!((tag, &asked[..4]), (b'R', &[0, 0, 0, 10][..]));
    let send = async |stream: &mut TcpStream, body: &[u8]| {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        stream.write_all(&[b"p", &length[..], body].concat()).await.unwrap();
    };
    let (first, mut body) = ("n=,r=nonce", text("SCRAM-SHA-256"));
    let initial = format!("n,,{first}");
    body.extend(u32::try_from(initial.len()).unwrap().to_be_bytes());
    body.extend(initial.as_bytes());
    send(&mut stream, &body).await;
    let (_, asked) = message(&mut stream).await.unwrap();
    let asked = String::from_utf8(asked[4..].to_vec()).unwrap();
    let part = |name: &str| asked.split(',').find_map(|part| part.strip_prefix(name)).unwrap();
    let (salt, rounds) = (BASE64_STANDARD.decode(part("s=")).unwrap(), part("i=").parse().unwrap());
    let mut salted = [0; 32];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut salted);
    let client_key = mac(&salted, b"Client Key");
    let stored = digest::digest(&digest::SHA256, &client_key);
    let last = format!("c=biws,r={}", part("r="));
    let signature = mac(stored.as_ref(), format!("{first},{asked},{last}").as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, signed)| key ^ signed).collect();
    send(&mut stream, format!("{last},p={}", BASE64_STANDARD.encode(proof)).as_bytes()).await;
    let mut client = Postgres { stream, key: Vec::new(), settings: std::collections::BTreeMap::new() };
    let begun = client.shown().await;
    assert_eq!(begun.last().map(String::as_str), Some("Z I"), "{begun:?}");
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn the_door_of_postgresql_shows_nothing_of_it() {
    let server = start().await;
    let mut reader = by_password(&server.postgres, "reader", &server.key).await;
    for (statement, _) in LISTS {
        let shown = reader.query(statement).await;
        assert!(shown.iter().any(|line| line.starts_with("C ")), "{statement}: {shown:?}");
        hidden(statement, &format!("{shown:?}"));
    }
    for statement in READS {
        let shown = reader.query(statement).await;
        let is_refused = |line: &String| line == "E 42501" || line == "E 42P01";
        assert!(shown.iter().any(is_refused), "{statement}: {shown:?}");
        hidden(statement, &format!("{shown:?}"));
        // Described before it runs.
        reader.parse("", statement, &[]).await;
        reader.send(b'D', b"S\0").await;
        reader.send(b'S', b"").await;
        let messages = reader.answer().await;
        let sent: Vec<u8> =
            messages.iter().filter(|(tag, _)| *tag == b'T').flat_map(|(_, body)| body.clone()).collect();
        hidden(statement, &String::from_utf8_lossy(&sent));
    }
    // What psql and drivers ask by number.
    for statement in [
        "SELECT 'vault'::regclass::oid",
        "SELECT to_regclass('vault')",
        "SELECT c.relname, pg_get_viewdef(c.oid) FROM pg_class c WHERE c.relkind IN ('r', 'v')",
        "SELECT obj_description(c.oid), c.relname FROM pg_class c",
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'",
    ] {
        let shown = reader.query(statement).await;
        hidden(statement, &format!("{shown:?}"));
    }
    for statement in
        ["COPY vault TO STDOUT", "COPY (SELECT * FROM vault) TO STDOUT", "COPY open_view TO STDOUT"]
    {
        let shown = reader.query(statement).await;
        assert!(shown.iter().any(|line| line.starts_with("E ")), "{statement}: {shown:?}");
        hidden(statement, &format!("{shown:?}"));
    }
}
