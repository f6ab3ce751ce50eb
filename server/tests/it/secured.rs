//! TLS and keys: who is let in, who is not, and what happens when the files change under a server.

use std::{fs, path::Path, sync::Arc, time::Duration};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use basalt_client::{Client, ClientOptions, Credentials, Error, RetryPolicy, WriteOptions, col, count};
use basalt_server::{Allowance, Authority, Config, Issued, Listeners, Role};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

fn batch(name: &str, values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    RecordBatch::try_from_iter([(name, values)]).unwrap()
}

/// TLS of a client that believes an authority.
pub(crate) async fn tls(ca: &Path, stream: TcpStream) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
    let name = "127.0.0.1".try_into().unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// A server with everything that `basalt secure` makes.
struct Secured {
    folder: TempDir,
    address: String,
    http: String,
    _stop: oneshot::Sender<()>,
    _task: JoinHandle<()>,
}

fn options() -> ClientOptions {
    ClientOptions::new().retry(RetryPolicy::never())
}

fn issue(folder: &Path, name: &str, role: Role, tables: &[&str]) -> String {
    issue_for(folder, name, role, tables, Allowance::default())
}

/// For one who may use so much.
fn issue_for(folder: &Path, name: &str, role: Role, tables: &[&str], allowance: Allowance) -> String {
    let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
    let issued = Issued::new(name, role, &tables, allowance).unwrap();
    issued.add_to(&folder.join("keys.toml")).unwrap();
    issued.secret
}

impl Secured {
    async fn start() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = TempDir::new().unwrap();
        let hosts = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        Authority::open(folder.path()).unwrap().issue("server", &hosts).unwrap();
        let admin = issue(folder.path(), "admin", Role::Admin, &["*"]);
        fs::write(folder.path().join("admin.secret"), admin).unwrap();
        let mut config = Config {
            threads: 2,
            store: "memory:".into(),
            secrets: Some(folder.path().to_owned()),
            ..Config::default()
        };
        change(&mut config);
        let listener = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (clients, metrics) = (listener().await, listener().await);
        let address = format!("https://{}", clients.local_addr().unwrap());
        let http = metrics.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel();
        let listeners = Listeners { clients, peers: None, metrics: Some(metrics), postgres: None };
        let task = tokio::spawn(async move {
            let stopped = async move { drop(stopped.await) };
            basalt_server::run(listeners, config, stopped).await.unwrap();
        });
        Self { folder, address, http, _stop: stop, _task: task }
    }

    fn trusted(&self) -> Credentials {
        Credentials::new().ca_file(self.folder.path().join("ca.pem")).unwrap()
    }

    async fn connect(&self, credentials: &Credentials) -> Client {
        Client::connect_as(&self.address, options(), credentials).await.unwrap()
    }

    async fn admin(&self) -> Client {
        self.connect(&self.trusted().key_file(self.folder.path().join("admin.secret")).unwrap()).await
    }

    async fn by(&self, key: &str) -> Client {
        self.connect(&self.trusted().key(key).unwrap()).await
    }

    /// The whole answer over HTTP, with TLS.
    async fn get(&self, path: &str, header: &str) -> String {
        let stream = TcpStream::connect(&self.http).await.unwrap();
        let mut stream = tls(&self.folder.path().join("ca.pem"), stream).await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: here\r\n{header}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A server that closes at once may leave the end of TLS out.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }
}

/// The server finds new keys by itself.
async fn known(client: &Client) {
    let found = async {
        while client.list_tables().await.is_err() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(20), found).await.unwrap();
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, reason: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.server().map(|error| error.reason_name()).as_deref(), Some(reason), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_no_key_may_ask_whether_the_server_lives_and_nothing_else() {
    let server = Secured::start().await;
    let nobody = server.connect(&server.trusted()).await;
    nobody.server_info().await.unwrap();
    refused(nobody.list_tables().await, "UNAUTHENTICATED");
    refused(nobody.query("t").collect().await, "UNAUTHENTICATED");
    refused(nobody.write_all("t", &[batch("a", [1])]).await, "UNAUTHENTICATED");
    refused(nobody.drop_table("t").await, "UNAUTHENTICATED");
    refused(nobody.cluster().await, "UNAUTHENTICATED");
    let other = server.by("basalt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").await;
    refused(other.server_info().await, "UNAUTHENTICATED");

    assert!(server.get("/healthz", "").await.ends_with("alive\n"));
    for path in ["/metrics", "/v1/tables", "/none"] {
        let answer = server.get(path, "").await;
        assert!(path == "/none" || answer.starts_with("HTTP/1.1 401 "), "{path}: {answer}");
        assert!(path == "/none" || answer.contains("www-authenticate: Bearer"), "{path}: {answer}");
    }
    let key = fs::read_to_string(server.folder.path().join("admin.secret")).unwrap();
    let header = format!("authorization: Bearer {key}\r\n");
    assert!(server.get("/metrics", &header).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_ends_where_the_next_begins_and_a_pattern_where_it_does_not_match() {
    let server = Secured::start().await;
    let admin = server.admin().await;
    for table in ["sales_eu", "sales_us", "salaries"] {
        admin.create_table(table, &batch("a", [1]).schema()).await.unwrap();
        admin.write_all(table, &[batch("a", [1, 2, 3])]).await.unwrap();
    }
    let reader = server.by(&issue(server.folder.path(), "reader", Role::Reader, &["sales_*"])).await;
    let writer = server.by(&issue(server.folder.path(), "writer", Role::Writer, &["sales_*"])).await;
    known(&reader).await;
    known(&writer).await;
    for client in [&reader, &writer] {
        let tables = client.list_tables().await.unwrap();
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["sales_eu", "sales_us"]);
        assert_eq!(client.query("sales_eu").collect().await.unwrap().batches[0].num_rows(), 3);
        refused(client.query("salaries").collect().await, "PERMISSION_DENIED");
        refused(client.drop_table("sales_eu").await, "PERMISSION_DENIED");
        refused(client.attach_table("sales_x", "/").await, "PERMISSION_DENIED");
        refused(client.cluster().await, "PERMISSION_DENIED");
        let join = basalt_client::keys_of("salaries", "a");
        let asked = client.query("sales_eu").filter(col("a").in_keys(join)).collect().await;
        refused(asked, "PERMISSION_DENIED");
    }
    let batch_of = || batch("a", [4]);
    refused(reader.write_all("sales_eu", &[batch_of()]).await, "PERMISSION_DENIED");
    refused(reader.delete("sales_eu", col("a").eq(1)).await, "PERMISSION_DENIED");
    writer.write_all("sales_eu", &[batch_of()]).await.unwrap();
    writer.create_table("sales_new", &batch_of().schema()).await.unwrap();
    refused(writer.create_table("other", &batch_of().schema()).await, "PERMISSION_DENIED");
    refused(writer.write_all("salaries", &[batch_of()]).await, "PERMISSION_DENIED");

    // A kept set tells of its table what a query would.
    let rows = admin.query("salaries").filter(col("a").gt(1)).select_rows().await.unwrap();
    let kept = admin.put_set(&rows, Duration::from_secs(60)).await.unwrap();
    let handle = kept.kept.unwrap().handle;
    refused(reader.get_set(handle).await, "PERMISSION_DENIED");
    refused(reader.delete_set(handle).await, "PERMISSION_DENIED");
    refused(reader.put_set(&rows, Duration::from_secs(60)).await, "PERMISSION_DENIED");
    admin.get_set(handle).await.unwrap();
    let keys = admin.query("salaries").filter(col("a").gt(1)).select_keys("a").await.unwrap();
    let keys = admin.put_set(&keys, Duration::from_secs(60)).await.unwrap();
    let with = |client: &Client| client.query("sales_eu").filter(col("a").in_keys(&keys));
    refused(with(&reader).collect().await, "PERMISSION_DENIED");
    with(&admin).collect().await.unwrap();
    // Those alone are shown a set, and drop it, who keep it. Its handle is enough to use it.
    let rows = writer.query("sales_eu").filter(col("a").gt(1)).select_rows().await.unwrap();
    let kept = writer.put_set(&rows, Duration::from_secs(60)).await.unwrap();
    let handle = kept.kept.unwrap().handle;
    reader.get_set(handle).await.unwrap();
    assert!(!reader.delete_set(handle).await.unwrap());
    if cfg!(feature = "sql") {
        for (client, shown) in [(&reader, 0), (&writer, 1), (&admin, 3)] {
            let sets = client.sql("SELECT handle FROM system.sets").collect().await.unwrap();
            assert_eq!(sets.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), shown);
        }
    }
    reader.put_set(&rows, Duration::from_secs(60)).await.unwrap();
    assert!(writer.delete_set(handle).await.unwrap());
    assert!(!writer.delete_set(handle).await.unwrap());
    writer.get_set(handle).await.unwrap();
    assert!(admin.delete_set(handle).await.unwrap());
    assert!(reader.get_set(handle).await.is_err());
    // Not even an admin reaches what the server was not told of.
    refused(admin.attach_table("sales_x", "/").await, "PERMISSION_DENIED");
    admin.drop_table("sales_new").await.unwrap();
}

/// Who may make a table and drop none takes back what he has just made, so that a load that failed leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_fails_leaves_nothing() {
    let server = Secured::start().await;
    let admin = server.admin().await;
    let key = issue(server.folder.path(), "writer", Role::Writer, &["sales_*"]);
    let (writer, other) =
        (server.by(&key).await, server.by(&issue(server.folder.path(), "other", Role::Writer, &["*"])).await);
    known(&writer).await;
    known(&other).await;
    let columns = batch("a", [1]).schema();
    admin.create_table("sales_empty", &columns).await.unwrap();
    writer.create_table("sales_new", &columns).await.unwrap();
    // What others have made stays, and what has had rows.
    refused(writer.drop_table("sales_empty").await, "PERMISSION_DENIED");
    refused(other.drop_table("sales_new").await, "PERMISSION_DENIED");
    writer.drop_table("sales_new").await.unwrap();
    writer.create_table("sales_new", &columns).await.unwrap();
    writer.write_all("sales_new", &[batch("a", [4])]).await.unwrap();
    writer.delete("sales_new", col("a").eq(4)).await.unwrap();
    refused(writer.drop_table("sales_new").await, "PERMISSION_DENIED");
    // SQL as well.
    if cfg!(feature = "sql") {
        let statement = async |client: &Client, sql: &str| client.sql(sql).collect().await;
        statement(&writer, "CREATE TABLE sales_sql (a BIGINT)").await.unwrap();
        refused(statement(&other, "DROP TABLE sales_sql").await, "PERMISSION_DENIED");
        refused(statement(&writer, "DROP TABLE sales_empty").await, "PERMISSION_DENIED");
        statement(&writer, "DROP TABLE sales_sql").await.unwrap();
        // Nobody's view takes the place of another one's.
        statement(&admin, "CREATE VIEW sales_view AS SELECT 1 AS a").await.unwrap();
        let other = statement(&writer, "CREATE OR REPLACE VIEW sales_view AS SELECT 2 AS a").await;
        refused(other, "PERMISSION_DENIED");
    }
    // So does the command.
    let path = server.folder.path().join("bad.csv");
    fs::write(&path, "a\n1\nx\n").unwrap();
    let mut load = std::process::Command::new(env!("CARGO_BIN_EXE_basalt"));
    load.args(["load", "sales_bad", "--schema", "a int64", "--server", &server.address]);
    load.arg(&path).arg("--ca").arg(server.folder.path().join("ca.pem")).env("BASALT_KEY", &key);
    let output = tokio::task::spawn_blocking(move || load.output()).await.unwrap().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("bad.csv:3:a"), "{error}");
    let names: Vec<String> = admin.list_tables().await.unwrap().into_iter().map(|table| table.name).collect();
    assert_eq!(names, ["sales_empty", "sales_new"]);
}

/// Of the queries that run one sees one's own, and all with all tables; an administrator alone stops those of others.
#[tokio::test(flavor = "multi_thread")]
async fn queries_of_others_are_stopped_by_an_administrator_alone() {
    let server = Secured::start().await;
    let key = |name, tables: &[&str]| issue(server.folder.path(), name, Role::Reader, tables);
    let (narrow, wide) = (key("narrow", &["t"]), key("wide", &["*"]));
    let admin = server.admin().await;
    let rows = batch("n", 0..3_000_000);
    admin.create_table_if_missing("t", &rows.schema()).await.unwrap();
    admin.write_all("t", &[rows]).await.unwrap();
    let (narrow, wide) = (server.by(&narrow).await, server.by(&wide).await);
    known(&narrow).await;
    known(&wide).await;
    for (own, other, seen) in [(&narrow, &wide, 1), (&wide, &narrow, 0)] {
        // Its answer is larger than what is on its way while nobody reads.
        let mut unread = own.query("t").stream().await.unwrap();
        assert_eq!(other.running_queries().await.unwrap().queries.len(), seen);
        let [query] = own.running_queries().await.unwrap().queries.try_into().unwrap();
        assert_eq!((query.text.as_str(), query.method.as_str()), ("SELECT * FROM t", "Query"));
        let name = if seen == 1 { "(narrow)" } else { "(wide)" };
        assert!(query.caller.ends_with(name), "{}", query.caller);
        let expected = if seen == 1 { "PERMISSION_DENIED" } else { "QUERY_NOT_FOUND" };
        refused(other.cancel_query(&query.id).await, expected);
        match seen {
            1 => admin.cancel_query(&query.id).await.unwrap(),
            _ => own.cancel_query(&query.id).await.unwrap(),
        }
        let end = loop {
            match unread.next().await {
                Ok(Some(_)) => {}
                other => break other,
            }
        };
        refused(end, "CANCELLED");
        assert_eq!(own.running_queries().await.unwrap().queries.len(), 0);
    }
}

/// Who has as many requests under way as his key allows is told so, at every door; he can look at them and stop them, and
/// nobody else notices.
#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_key_has_no_more_requests_at_once_than_it_allows() {
    let server = Secured::start().await;
    let admin = server.admin().await;
    let rows = batch("n", 0..3_000_000);
    admin.create_table_if_missing("t", &rows.schema()).await.unwrap();
    admin.write_all("t", &[rows]).await.unwrap();
    let key = issue_for(
        server.folder.path(),
        "two",
        Role::Reader,
        &["*"],
        Allowance { requests: Some(2), ..Allowance::default() },
    );
    let (one, other) = (server.by(&key).await, server.by(&key).await);
    known(&one).await;
    let unread = [one.query("t").stream().await.unwrap(), other.query("t").stream().await.unwrap()];
    for client in [&one, &other] {
        refused(client.query("t").limit(1).collect().await, "OVERLOADED");
        refused(client.table("t").await, "OVERLOADED");
    }
    let body = server.get("/v1/tables/t", &format!("authorization: Bearer {key}\r\n")).await;
    assert!(body.starts_with("HTTP/1.1 429") && body.contains("has 2 requests under way"), "{body}");
    admin.query("t").limit(1).collect().await.unwrap();

    let [query, _] = one.running_queries().await.unwrap().queries.try_into().unwrap();
    one.cancel_query(&query.id).await.unwrap();
    drop(unread);
    let answered = async {
        while one.query("t").limit(1).collect().await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), answered).await.unwrap();
}

/// Who holds as much memory as his key allows is told so, nobody else notices, and what he held is free when he is done.
#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_key_holds_no_more_memory_than_it_allows() {
    let server = Secured::start().await;
    let admin = server.admin().await;
    let rows = batch("n", 0..1_000_000);
    admin.create_table_if_missing("t", &rows.schema()).await.unwrap();
    admin.write_all("t", &[rows]).await.unwrap();
    let allowance = Allowance { memory: Some(8 << 20), ..Allowance::default() };
    let key = issue_for(server.folder.path(), "small", Role::Writer, &["*"], allowance);
    let small = server.by(&key).await;
    known(&small).await;

    let groups =
        |client: &Client| client.query("t").group_by([col("n")]).select([col("n"), count()]).limit(1);
    refused(groups(&small).collect().await, "MEMORY_LIMIT");
    groups(&admin).collect().await.unwrap();
    assert_eq!(small.query("t").select([count()]).collect().await.unwrap().rows, 1);

    let sent = async {
        let mut writer = small.write("t", WriteOptions::new()).await?;
        for _ in 0..16 {
            writer.send(&batch("n", 0..200_000)).await?;
        }
        writer.commit().await
    };
    refused(sent.await, "MEMORY_LIMIT");
    let written = async {
        while small.write_all("t", &[batch("n", 0..1000)]).await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), written).await.unwrap();
}

/// Who may send and be sent so many bytes a second waits for the rest.
#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_key_is_sent_no_more_bytes_a_second_than_it_allows() {
    let server = Secured::start().await;
    let admin = server.admin().await;
    let rows = batch("n", 0..500_000);
    admin.create_table_if_missing("t", &rows.schema()).await.unwrap();
    admin.write_all("t", &[rows]).await.unwrap();
    let allowance = Allowance { bytes_per_second: Some(1 << 20), ..Allowance::default() };
    let key = issue_for(server.folder.path(), "slow", Role::Reader, &["*"], allowance);
    let slow = server.by(&key).await;
    known(&slow).await;
    // Four megabytes, of which the first comes at once.
    let begun = Instant::now();
    assert_eq!(slow.query("t").collect().await.unwrap().rows, 500_000);
    let over_grpc = begun.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(30)).contains(&over_grpc), "{over_grpc:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_speaks_otherwise_is_told_so() {
    let server = Secured::start().await;
    let host = server.address.trim_start_matches("https://");
    // Without TLS, to a server that has it.
    let plain = Client::connect_with(&format!("http://{host}"), options()).await;
    let plain = match plain {
        Ok(client) => client.list_tables().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(plain.to_string().contains("this port speaks TLS alone"), "{plain}");
    assert_eq!(plain.hint(), Some("name it with https://"));
    let mut stream = TcpStream::connect(&server.http).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("TLS alone: https\n"), "{answer}");
    // Whoever is not believed.
    let error = Client::connect_as(&server.address, options(), &Credentials::new()).await.unwrap_err();
    assert!(error.hint().is_some_and(|hint| hint.contains("--ca")), "{error}");

    // With TLS, to a server that has none.
    let without = super::support::Server::start().await;
    let address = without.address.replace("http://", "https://");
    let error = Client::connect_as(&address, options(), &server.trusted()).await.unwrap_err();
    assert!(error.hint().is_some_and(|hint| hint.contains("http://")), "{error}");
    // Half a handshake, and something that is neither: others are served.
    for said in [&b"\x16\x03\x01\x02\x00\x01"[..], b"\x16", b"hello", b"\x16\x03\x01\xff\xff\xff\xff\xff\xff"]
    {
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.write_all(said).await.unwrap();
        server.admin().await.list_tables().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_and_keys_taken_back_under_a_running_server() {
    let server = Secured::start().await;
    let before = server.admin().await;
    let shown = async || {
        let stream = TcpStream::connect(&server.http).await.unwrap();
        let stream = tls(&server.folder.path().join("ca.pem"), stream).await;
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let first = shown().await;
    let key = server.folder.path().join("server.key");
    let good = fs::read(&key).unwrap();
    // What is wrong changes nothing.
    fs::write(&key, "none").unwrap();
    sleep(Duration::from_secs(6)).await;
    assert_eq!(shown().await, first);
    fs::write(&key, good).unwrap();
    Authority::open(server.folder.path()).unwrap().issue("server", &["127.0.0.1".to_owned()]).unwrap();
    let renewed = async {
        while shown().await == first {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(30), renewed).await.expect("the certificate is not read again");
    // The connection that was there goes on, as long as its key does.
    before.list_tables().await.unwrap();
    let keys = server.folder.path().join("keys.toml");
    // A file that somebody is about to write into takes no key back.
    fs::write(&keys, "").unwrap();
    sleep(Duration::from_secs(8)).await;
    before.list_tables().await.unwrap();
    issue(server.folder.path(), "other", Role::Reader, &["*"]);
    let gone = async {
        while before.list_tables().await.is_ok() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(30), gone).await.expect("the keys are not read again");
    refused(before.list_tables().await, "UNAUTHENTICATED");
}

/// What was begun with a key goes no further once it is taken back.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_taken_back_writes_no_more_and_reads_no_more() {
    let server = Secured::start().await;
    let admin = server.admin().await;
    let rows = batch("n", 0..3_000_000);
    admin.create_table_if_missing("t", &rows.schema()).await.unwrap();
    admin.write_all("t", &[rows]).await.unwrap();
    admin.create_table("w", &batch("a", [1]).schema()).await.unwrap();
    let keys = server.folder.path().join("keys.toml");
    let before = fs::read_to_string(&keys).unwrap();
    let key = issue(server.folder.path(), "writer", Role::Writer, &["*"]);
    let writer = server.by(&key).await;
    known(&writer).await;
    let mut at_batch = writer.write("w", WriteOptions::new()).await.unwrap();
    let mut at_commit = writer.write("w", WriteOptions::new()).await.unwrap();
    at_batch.send(&batch("a", [1])).await.unwrap();
    at_commit.send(&batch("a", [2])).await.unwrap();
    // Its answer is larger than what is on its way while nobody reads.
    let mut unread = writer.query("t").stream().await.unwrap();
    // Over HTTP a load waits for the rest of its rows.
    let body = "a\n3\n";
    let stream = TcpStream::connect(&server.http).await.unwrap();
    let mut load = tls(&server.folder.path().join("ca.pem"), stream).await;
    let head = format!(
        "POST /v1/tables/w HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {key}\r\ncontent-type: text/csv\r\n\
         content-length: {}\r\nconnection: close\r\n\r\na\n",
        body.len()
    );
    load.write_all(head.as_bytes()).await.unwrap();
    load.flush().await.unwrap();
    // It has begun before its key is gone.
    sleep(Duration::from_millis(500)).await;

    fs::write(&keys, before).unwrap();
    let gone = async {
        while writer.list_tables().await.is_ok() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(30), gone).await.expect("the keys are not read again");
    let sent = async {
        at_batch.send(&batch("a", [1])).await?;
        at_batch.commit().await
    };
    refused(sent.await, "UNAUTHENTICATED");
    refused(at_commit.commit().await, "UNAUTHENTICATED");
    let end = loop {
        match unread.next().await {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    refused(end, "CANCELLED");
    load.write_all(&body.as_bytes()[2..]).await.unwrap();
    load.flush().await.unwrap();
    let mut answer = Vec::new();
    // A server that closes at once may leave the end of TLS out.
    let _ = load.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("UNAUTHENTICATED"), "{answer}");
    assert_eq!(admin.query("w").collect().await.unwrap().rows, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_show_certificates_where_a_server_asks_for_them() {
    let authority = TempDir::new().unwrap();
    Authority::open(authority.path()).unwrap().issue("client", &["me".to_owned()]).unwrap();
    let ca = authority.path().join("ca.pem");
    let server = Secured::with(|config| config.tls_client_ca = Some(ca)).await;
    let (cert, key) = (authority.path().join("client.pem"), authority.path().join("client.key"));
    let shown = server.trusted().identity_files(cert, key).unwrap();
    server.connect(&shown).await.server_info().await.unwrap();
    let without = Client::connect_as(&server.address, options(), &server.trusted()).await;
    // TLS 1.3 tells a client after its handshake.
    let refused = match without {
        Ok(client) => client.server_info().await.map(drop),
        Err(error) => Err(error),
    };
    assert!(matches!(refused, Err(Error::Connection { .. })), "{refused:?}");
    let (cert, key) = (server.folder.path().join("server.pem"), server.folder.path().join("server.key"));
    let other = server.trusted().identity_files(cert, key).unwrap();
    let refused = match Client::connect_as(&server.address, options(), &other).await {
        Ok(client) => client.server_info().await.map(drop),
        Err(error) => Err(error),
    };
    assert!(matches!(refused, Err(Error::Connection { .. })), "{refused:?}");
}
