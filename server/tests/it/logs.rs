//! What clients say never stands in the log, at any level and by whatever door it came, unless its owner asks for it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use basalt_client::{Client, ClientOptions, RetryPolicy, col};
use serde_json::Value;

/// A server whose log is read to its end.
struct Logged {
    process: Child,
    clients: String,
    http: String,
    postgres: String,
    log: JoinHandle<String>,
}

impl Logged {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
        command.args(["serve", "--store", "memory:", "--log-format", "json", "--threads", "2"]);
        command.args(["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]);
        command.args(["--postgres", "127.0.0.1:0"]).args(arguments);
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let (mut begun, mut addresses) = (String::new(), [const { String::new() }; 3]);
        while addresses.iter().any(String::is_empty) {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "it does not start: {begun}");
            begun.push_str(&line);
            let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
            let messages = ["listening", "metrics", "listening for clients of PostgreSQL"];
            for (at, _) in messages.iter().enumerate().filter(|(_, message)| line["message"] == **message) {
                addresses[at] = line["address"].as_str().unwrap().to_owned();
            }
        }
        let log = std::thread::spawn(move || {
            log.read_to_string(&mut begun).unwrap();
            begun
        });
        let [clients, http, postgres] = addresses;
        Self { process, clients, http, postgres, log }
    }

    /// All that it has logged.
    fn end(mut self) -> String {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.process.wait().unwrap().success());
        self.log.join().unwrap()
    }

    /// The answer over HTTP.
    fn post(&self, path: &str, kind: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer word-of-the-key\r\n\
             content-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

/// A connection to the door of PostgreSQL that sends texts, and takes what is answered.
struct Plain(TcpStream);

impl Plain {
    fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut plain = Self(stream);
        plain.send(None, b"\0\x03\0\0user\0word-of-the-user\0\0");
        plain.ready();
        plain
    }

    fn send(&mut self, tag: Option<u8>, bytes: &[u8]) {
        let length = u32::try_from(bytes.len() + 4).unwrap().to_be_bytes();
        let message = [tag.as_slice(), &length, bytes].concat();
        self.0.write_all(&message).unwrap();
    }

    /// The tags of all messages until it is ready for the next.
    fn ready(&mut self) -> String {
        let mut tags = String::new();
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).unwrap();
            let [tag, length @ ..] = head;
            let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
            self.0.read_exact(&mut body).unwrap();
            tags.push(tag.into());
            if tag == b'Z' || tag == b'G' {
                return tags;
            }
        }
    }

    fn query(&mut self, sql: &str) -> String {
        self.send(Some(b'Q'), format!("{sql}\0").as_bytes());
        self.ready()
    }
}

/// Says words by every door, each once: those that stand in the log where it is asked for, and those that never do.
async fn say(server: &Logged) -> (Vec<&'static str>, Vec<&'static str>) {
    let options = ClientOptions::new().retry(RetryPolicy::never());
    let client = Client::connect_with(&format!("http://{}", server.clients), options).await.unwrap();
    let rows = |word: &str| {
        let names: ArrayRef = Arc::new(StringArray::from(vec![word; 3]));
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap()
    };
    let mut asked = Vec::new();
    client.create_table("t", &rows("").schema()).await.unwrap();
    client.write_all("t", &[rows("word-of-rows")]).await.unwrap();
    client.query("t").filter(col("name").eq("word-of-filter")).collect().await.unwrap();
    client.query("t").filter(col("id").eq("word-of-bad-filter")).collect().await.unwrap_err();
    client.delete("t", col("name").eq("word-of-delete")).await.unwrap();
    asked.extend(["word-of-filter", "word-of-bad-filter"]);
    for (sql, word) in [
        ("SELECT * FROM t WHERE name = 'word-of-where'", "word-of-where"),
        ("INSERT INTO t (id, name) VALUES (4, 'word-of-insert')", "word-of-insert"),
        ("SELECT * FROM t WHERE name = E'it\\'s word-of-escape'", "word-of-escape"),
        ("SELECT /* 'word-of-comment' */ $$word-of-dollars$$", "word-of-dollars"),
        ("SET application_name = 'word-of-set'", "word-of-set"),
        ("DELETE FROM t WHERE name LIKE '%word-of-like%'", "word-of-like"),
    ] {
        client.sql(sql).collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        asked.push(word);
    }
    for (sql, word) in [
        ("SELECT CAST('word-of-cast' AS BIGINT)", "word-of-cast"),
        ("SELECT CAST(name || 'word-of-late-cast' AS BIGINT) FROM t", "word-of-late-cast"),
        ("SELECT id FROM t WHERE id = 'word-of-compare'", "word-of-compare"),
        ("INSERT INTO t (id) VALUES ('word-of-bad-insert')", "word-of-bad-insert"),
        ("SELEC 'word-of-syntax'", "word-of-syntax"),
        ("SELECT DATE 'word-of-date'", "word-of-date"),
    ] {
        client.sql(sql).collect().await.unwrap_err();
        asked.push(word);
    }

    let answer = server.post("/v1/sql", "application/sql", "SELECT 'word-of-http' AS a");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = server.post("/v1/tables/t", "text/csv", "id,name\n5,word-of-csv\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let answer = server.post("/v1/tables/t", "text/csv", "id,name\nword-of-bad-csv,a\n");
    assert!(answer.starts_with("HTTP/1.1 4") && answer.contains("word-of-bad-csv"), "{answer}");
    let answer = server.post("/v1/tables/t", "application/x-ndjson", "{\"id\": \"word-of-bad-json\"}\n");
    assert!(answer.starts_with("HTTP/1.1 4") && answer.contains("word-of-bad-json"), "{answer}");
    asked.extend(["word-of-http", "word-of-bad-csv", "word-of-bad-json"]);

    let mut postgres = Plain::open(&server.postgres);
    for (sql, tags, word) in [
        ("SET application_name = 'word-of-pg-set'", "SCZ", Some("word-of-pg-set")),
        ("SET statement_timeout = 'word-of-bad-set'", "EZ", Some("word-of-bad-set")),
        ("SELECT name FROM t WHERE name = 'word-of-pg-where'", "TCZ", Some("word-of-pg-where")),
        ("SELECT 'word-of-pg-cast'::int", "EZ", Some("word-of-pg-cast")),
        ("PREPARE p AS SELECT $1::text", "CZ", None),
        ("EXECUTE p('word-of-execute')", "TDCZ", Some("word-of-execute")),
        ("INSERT INTO t VALUES (6, 'word-of-pg-insert')", "CZ", Some("word-of-pg-insert")),
        ("COPY t FROM STDIN", "G", None),
    ] {
        assert_eq!(postgres.query(sql), tags, "{sql}");
        asked.extend(word);
    }
    postgres.send(Some(b'd'), b"word-of-copy\tx\n");
    postgres.send(Some(b'c'), b"");
    assert_eq!(postgres.ready(), "EZ");
    asked.push("word-of-copy");
    let never = vec!["word-of-rows", "word-of-csv", "word-of-comment", "word-of-key"];
    (asked, never)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_say_does_not_stand_in_the_log() {
    for log in ["debug", "trace"] {
        let server = Logged::start(&["--log", log, "--slow-query", "1us"]);
        let (asked, never) = say(&server).await;
        let log = server.end();
        assert!(log.contains("slow query") && log.contains("\"request\""), "{log}");
        // That there are lines of errors, and what they say without words.
        assert!(log.contains("INVALID_QUERY"), "{log}");
        for word in asked.iter().chain(&never) {
            let said: Vec<&str> = log.lines().filter(|line| line.contains(word)).collect();
            assert!(said.is_empty(), "{word}: {said:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_for_what_clients_say_has_it_in_the_log() {
    let server = Logged::start(&["--log-queries"]);
    let (asked, never) = say(&server).await;
    let log = server.end();
    for word in asked {
        let said = log.lines().any(|line| line.contains(word) && line.contains("\"level\":\"INFO\""));
        assert!(said, "{word}: {log}");
    }
    // Rows are not statements, though an error may name one, and keys are nobody's.
    let named = ["word-of-comment", "word-of-rows"];
    for word in never.iter().filter(|word| !named.contains(word)) {
        assert!(!log.contains(word), "{word}");
    }
}
