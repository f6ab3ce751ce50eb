//! What the audit log has: what was refused, also where the answer does not say so, and what was done, each with the
//! request that it belongs to.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_flight::sql::{CommandGetTables, client::FlightSqlServiceClient};
use basalt_client::{Client, ClientOptions, Credentials, RetryPolicy, col};
use basalt_server::{Allowance, Issued, Role};
use serde_json::Value;
use tempfile::TempDir;
use tonic::transport::Channel;

/// A server with keys and an audit log.
struct Audited {
    process: Child,
    folder: TempDir,
    clients: String,
    http: String,
    admin: String,
    writer: String,
}

impl Drop for Audited {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Audited {
    /// The writer sees what begins with `pub_` alone.
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let keys = folder.path().join("keys.toml");
        let issue = |name: &str, role, tables: &str| {
            let issued = Issued::new(name, role, &[tables.to_owned()], Allowance::default()).unwrap();
            issued.add_to(&keys).unwrap();
            issued.secret
        };
        let (admin, writer) = (issue("admin", Role::Admin, "*"), issue("writer", Role::Writer, "pub_*"));
        let roots = ["attached", "copied"].map(|name| folder.path().join(name));
        roots.iter().for_each(|root| fs::create_dir(root).unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
        command.args(["serve", "--log-format", "json", "--threads", "2", "--insecure"]);
        command.arg("--store").arg(folder.path().join("store"));
        command.args(["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]);
        command.arg("--keys").arg(&keys).arg("--audit-log").arg(folder.path().join("audit.jsonl"));
        command.arg("--attach-root").arg(&roots[0]).arg("--copy-root").arg(&roots[1]);
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let (mut begun, mut addresses) = (String::new(), [const { String::new() }; 2]);
        while addresses.iter().any(String::is_empty) {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "it does not start: {begun}");
            begun.push_str(&line);
            let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
            for (at, message) in ["listening", "metrics"].iter().enumerate() {
                if line["message"] == **message {
                    addresses[at] = line["address"].as_str().unwrap().to_owned();
                }
            }
        }
        // Nobody reads the rest, and it is not to fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let [clients, http] = addresses;
        let server = Self { process, folder, clients, http, admin, writer };
        // It reads its store first.
        while !server.sql(&server.admin, "ready", "SELECT 1").starts_with("HTTP/1.1 200") {
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    async fn by(&self, key: &str) -> Client {
        let options = ClientOptions::new().retry(RetryPolicy::never());
        let credentials = Credentials::new().key(key).unwrap();
        Client::connect_as(&format!("http://{}", self.clients), options, &credentials).await.unwrap()
    }

    /// The status of a statement over HTTP, whose request has an id.
    fn sql(&self, key: &str, id: &str, sql: &str) -> String {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let length = sql.len();
        write!(
            stream,
            "POST /v1/sql HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\nx-request-id: {id}\r\n\
             content-type: application/sql\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{sql}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The lines, each as who, what, of what, whether it was allowed, and the id of the request.
    fn lines(&self) -> Vec<(String, String, String, bool, Option<String>)> {
        let text = fs::read_to_string(self.folder.path().join("audit.jsonl")).unwrap();
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            let text = |key: &str| line[key].as_str().unwrap().to_owned();
            let id = line["request_id"].as_str().map(str::to_owned);
            (text("who"), text("action"), text("object"), line["allowed"].as_bool().unwrap(), id)
        };
        text.lines().map(line).collect()
    }
}

fn rows() -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    RecordBatch::try_from_iter([("a", values)]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_beside_the_roots_and_what_is_done_to_sets_and_queries_is_audited() {
    let server = Audited::start();
    let (admin, writer) = (server.by(&server.admin).await, server.by(&server.writer).await);
    admin.create_table("hid", &rows().schema()).await.unwrap();
    admin.write_all("hid", &[rows()]).await.unwrap();
    for url in ["/etc", "http://10.0.0.1/x"] {
        admin.attach_table("x", url).await.unwrap_err();
    }
    let set = admin.query("hid").filter(col("a").gt(1)).select_rows().await.unwrap();
    let kept = admin.put_set(&set, Duration::from_secs(60)).await.unwrap();
    let handle = kept.kept.unwrap().handle;
    writer.delete_set(handle).await.unwrap_err();
    assert!(admin.delete_set(handle).await.unwrap());
    for id in ["a1-7", "word-of-a-client"] {
        writer.cancel_query(id).await.unwrap_err();
    }
    let lines = server.lines();
    let set = handle.to_vec().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for (who, action, object, allowed) in [
        ("admin", "attach", "\"/etc\"".to_owned(), false),
        ("admin", "attach", "\"http://10.0.0.1/x\"".to_owned(), false),
        ("admin", "drop", format!("kept set \"{set}\""), true),
        ("writer", "cancel", "query \"a1-7\"".to_owned(), false),
        ("writer", "cancel", "query \"?\"".to_owned(), false),
    ] {
        let is_it = |(by, what, of, was, id): &(String, String, String, bool, Option<String>)| {
            (&**by, &**what, &**of, *was) == (who, action, &*object, allowed) && id.is_some()
        };
        assert_eq!(lines.iter().filter(|line| is_it(line)).count(), 1, "{action} {object}: {lines:#?}");
    }
    assert!(lines.iter().any(|(who, .., allowed, _)| who == "writer" && !allowed), "{lines:#?}");
    // Nothing is allowed first that the roots refuse.
    assert!(lines.iter().all(|(_, what, _, allowed, _)| what != "attach" || !*allowed), "{lines:#?}");
    let said = fs::read_to_string(server.folder.path().join("audit.jsonl")).unwrap();
    assert!(!said.contains("word-of-a-client"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_are_refused_are_audited_with_their_requests() {
    let server = Audited::start();
    let (admin, writer) = (server.admin.clone(), server.writer.clone());
    let answered = |key: &str, id: &str, sql: &str, status: &str| {
        let answer = server.sql(key, id, sql);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{sql}: {answer}");
        answer
    };
    answered(&admin, "make", "CREATE TABLE hid (a BIGINT)", "200");
    answered(&admin, "view", "CREATE VIEW hid_view AS SELECT * FROM hid", "200");
    answered(&admin, "alter", "ALTER TABLE hid ADD COLUMN b BIGINT", "200");
    answered(&writer, "own", "CREATE TABLE pub_a (a BIGINT)", "200");
    let hidden = [
        ("read", "SELECT * FROM hid", "read", "hid"),
        ("spelled", "SELECT * FROM HID", "read", "hid"),
        ("view-read", "SELECT * FROM hid_view", "read", "hid_view"),
        ("show", "SHOW CREATE TABLE hid", "read", "hid"),
        ("joined", "SELECT * FROM pub_a JOIN hid USING (a)", "read", "hid"),
        ("delete", "DELETE FROM hid", "write to", "hid"),
        ("update", "UPDATE hid SET a = 1", "write to", "hid"),
        ("insert", "INSERT INTO hid VALUES (1)", "write to", "hid"),
    ];
    for (id, sql, ..) in hidden {
        // He hears that there is none, as of one that is not there.
        let answer = answered(&writer, id, sql, "404");
        assert!(answer.contains("TABLE_NOT_FOUND"), "{sql}: {answer}");
    }
    answered(&writer, "none", "SELECT * FROM nowhere", "404");
    for (id, path) in [("copy-out", "/etc/basalt-none.csv"), ("copy-up", "../up.csv")] {
        answered(&admin, id, &format!("COPY (SELECT 1 AS a) TO '{path}'"), "400");
    }
    answered(&admin, "copy-in", "COPY (SELECT 1 AS a) TO 'in.csv'", "200");
    answered(&writer, "copy", "COPY (SELECT 1 AS a) TO 'x.csv'", "403");
    answered(&writer, "observe", "SELECT * FROM system.nodes", "403");
    answered(&writer, "cancel", "CANCEL QUERY 'a1-7'", "404");

    let lines = server.lines();
    let table = |name: &str| format!("table {name:?}");
    let refused = hidden.map(|(id, _, action, name)| (id, "writer", action, table(name), false));
    let others = [
        ("make", "admin", "create", table("hid"), true),
        ("view", "admin", "create", "view \"hid_view\"".to_owned(), true),
        ("alter", "admin", "alter", table("hid"), true),
        ("own", "writer", "create", table("pub_a"), true),
        ("copy-out", "admin", "copy files of", "\"/etc/basalt-none.csv\"".to_owned(), false),
        ("copy-up", "admin", "copy files of", "\"../up.csv\"".to_owned(), false),
        ("copy-in", "admin", "copy files of", "the server".to_owned(), true),
        ("copy", "writer", "copy files of", "the server".to_owned(), false),
        ("observe", "writer", "observe", "the server".to_owned(), false),
        ("cancel", "writer", "cancel", "query \"a1-7\"".to_owned(), false),
    ];
    for (id, who, action, object, allowed) in refused.into_iter().chain(others) {
        let is_it = lines.iter().any(|(by, what, of, was, request)| {
            (&**by, &**what, &**of, *was) == (who, action, &*object, allowed)
                && request.as_deref() == Some(id)
        });
        assert!(is_it, "{id}: {who} {action} {object} {allowed}: {lines:#?}");
    }
    // Nothing is allowed first that the roots refuse.
    for id in ["copy-out", "copy-up", "copy-in"] {
        let of_it = lines.iter().filter(|(.., request)| request.as_deref() == Some(id));
        assert_eq!(of_it.count(), 1, "{id}: {lines:#?}");
    }
    // What is not there is hidden from nobody.
    assert!(lines.iter().all(|(.., request)| request.as_deref() != Some("none")), "{lines:#?}");
    assert!(lines.iter().all(|(.., request)| request.is_some()), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drop_that_is_refused_was_never_allowed() {
    let server = Audited::start();
    let (admin, writer) = (server.by(&server.admin).await, server.by(&server.writer).await);
    admin.create_table("pub_a", &rows().schema()).await.unwrap();
    writer.drop_table("pub_a").await.unwrap_err();
    for (id, sql) in [
        ("table", "CREATE OR REPLACE TABLE pub_a (a BIGINT)"),
        ("filled", "CREATE OR REPLACE TABLE pub_a AS SELECT 1 AS a"),
        ("view", "CREATE OR REPLACE VIEW pub_v AS SELECT 1 AS a"),
    ] {
        let answer = server.sql(&server.writer, id, sql);
        assert!(answer.starts_with("HTTP/1.1 403"), "{sql}: {answer}");
        // It says what it is that is not dropped.
        let what = if id == "view" { "drop view" } else { "drop table" };
        assert!(answer.contains(what), "{sql}: {answer}");
    }
    let lines = server.lines();
    let of_writer: Vec<_> = lines.iter().filter(|(who, ..)| who == "writer").collect();
    let refused = |(_, what, _, allowed, _): &&&(String, String, String, bool, Option<String>)| {
        what == "drop" && !*allowed
    };
    assert_eq!((of_writer.len(), of_writer.iter().filter(refused).count()), (4, 4), "{lines:#?}");

    // What it has made, and left empty, it takes back; whoever may drop tables drops it.
    writer.create_table("pub_b", &rows().schema()).await.unwrap();
    writer.drop_table("pub_b").await.unwrap();
    admin.drop_table("pub_a").await.unwrap();
    let lines = server.lines();
    for (who, name, expected) in
        [("writer", "pub_b", ["create", "take back"]), ("admin", "pub_a", ["create", "drop"])]
    {
        let object = format!("table {name:?}");
        let of_it = lines.iter().filter(|(by, _, of, ..)| by == who && *of == object);
        let done: Vec<_> = of_it.map(|(_, what, _, allowed, _)| (what.as_str(), *allowed)).collect();
        assert_eq!(done, expected.map(|what| (what, true)), "{lines:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_list_leaves_out_is_no_refusal() {
    let server = Audited::start();
    let made = server.sql(&server.admin, "make", "CREATE TABLE hid (a BIGINT)");
    assert!(made.starts_with("HTTP/1.1 200"), "{made}");
    let address = format!("http://{}", server.clients);
    let channel = Channel::from_shared(address).unwrap().connect().await.unwrap();
    let mut flight = FlightSqlServiceClient::new(channel);
    flight.set_token(server.writer.clone());
    let info = flight.get_tables(CommandGetTables::default()).await.unwrap();
    flight.do_get(info.endpoint[0].ticket.clone().unwrap()).await.map(drop).unwrap();
    let lines = server.lines();
    assert!(lines.iter().all(|(who, .., allowed, _)| who != "writer" || *allowed), "{lines:#?}");
}
