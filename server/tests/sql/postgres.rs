//! The door for PostgreSQL's clients, spoken to byte by byte: what tools do with it, `scripts/check-postgres` tries.

mod batches;
pub(crate) mod client;
mod ended;
mod large;
mod left;
mod lists;
mod parameters;
mod statements;
mod told;

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

use client::*;

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_statements() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    assert_eq!(client.settings["server_encoding"], "UTF8");
    assert_eq!(client.settings["TimeZone"], "UTC");
    let rows = client.query("SELECT key, text FROM t WHERE key IN (10, 11) ORDER BY key").await;
    assert_eq!(rows, ["T", "D 10|NULL", "D 11|text 11", "C SELECT 2", "Z I"]);
    assert_eq!(client.query("").await, ["I", "Z I"]);
    assert_eq!(client.query(" ; -- nothing\n").await, ["I", "Z I"]);
    let several = client.query("SELECT 1; SET application_name = 'a;b'; SELECT 'x;y';").await;
    assert_eq!(several, ["T", "D 1", "C SELECT 1", "S", "C SET", "T", "D x;y", "C SELECT 1", "Z I"]);
    // What stands behind an error is not run.
    assert_eq!(
        client.query("SELECT 1; SELECT nothing FROM t; SELECT 2").await,
        ["T", "D 1", "C SELECT 1", "E 42703", "Z I"]
    );
    for (sql, code) in [
        ("SELECT * FROM nothing", "42P01"),
        ("SELECT 1 +", "42601"),
        ("SELECT 'open", "42601"),
        ("SELECT 1 % (key - key) FROM t", "22012"),
        ("SELECT 9223372036854775807 + key FROM t", "22003"),
        ("SELECT CAST(text AS BIGINT) FROM t", "22P02"),
        ("SELECT nothing(key) FROM t", "42883"),
        ("SAVEPOINT a", "25P01"),
        ("LISTEN a", "0A000"),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", "0A000"),
        ("SET nothing = 1", "42704"),
        ("SET TIME ZONE 'Europe/Berlin'", "22023"),
        ("SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE", "22023"),
    ] {
        let told = client.query(sql).await;
        assert_eq!(told.iter().rev().take(2).collect::<Vec<_>>(), ["Z I", &format!("E {code}")], "{sql}");
    }
    client.send(b'Q', &text("SELECT 1;\nSELECT\n  é, nothing FROM t")).await;
    let error = client.answer().await.into_iter().find(|(tag, _)| *tag == b'E').unwrap();
    assert_eq!(fields(&error.1)[&'P'], "20");
    assert!(fields(&error.1)[&'D'].starts_with("request "));
    let rows = client.query("SELECT key FROM t ORDER BY key").await;
    assert_eq!(rows.len(), 1003);
    let summary = client.query("SET statement_timeout = '9s'; SUMMARIZE t").await;
    assert!(
        summary[2].starts_with("D key|int32|0|999|") && summary[3].starts_with("D text|utf8|text 1|"),
        "{summary:?}"
    );
    client.send(b'X', &[]).await;
    assert_eq!(client.stream.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_have_their_state() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    assert_eq!(client.query("BEGIN").await, ["C BEGIN", "Z T"]);
    assert_eq!(client.query("begin").await, ["N 25001", "C BEGIN", "Z T"]);
    assert_eq!(
        client.query("SET LOCAL statement_timeout = 7000; SET application_name = 'x'").await[3..],
        ["Z T"]
    );
    assert_eq!(client.query("SHOW statement_timeout").await[1], "D 7000");
    assert_eq!(client.query("COMMIT").await, ["C COMMIT", "Z I"]);
    // What the server's own settings say.
    assert_eq!(client.query("SHOW statement_timeout; SHOW application_name").await[1], "D 30000");
    assert_eq!(client.query("SHOW application_name").await[1], "D x");
    assert_eq!(client.query("COMMIT").await, ["N 25P01", "C COMMIT", "Z I"]);

    assert_eq!(client.query("BEGIN; SELECT nothing FROM t").await, ["C BEGIN", "E 42703", "Z E"]);
    assert_eq!(client.query("SELECT 1").await, ["E 25P02", "Z E"]);
    assert_eq!(client.query("COMMIT").await, ["C ROLLBACK", "Z I"]);
    let told = client.query("BEGIN; SET application_name = 'y'; ROLLBACK; SHOW application_name").await;
    assert_eq!(told[told.len() - 3..], ["D x", "C SHOW", "Z I"]);
    assert_eq!(client.query("BEGIN READ ONLY; DELETE FROM t").await, ["C BEGIN", "E 25006", "Z E"]);
    assert_eq!(client.query("ROLLBACK").await, ["C ROLLBACK", "Z I"]);

    let told = client.query("BEGIN; SAVEPOINT a; SET application_name = 'z'; SELECT nothing FROM t").await;
    assert_eq!(told.last().unwrap(), "Z E");
    assert_eq!(client.query("RELEASE a").await, ["E 25P02", "Z E"]);
    assert_eq!(client.query("ROLLBACK TO a; SHOW application_name").await[3..], ["D x", "C SHOW", "Z T"]);
    assert_eq!(client.query("ROLLBACK TO SAVEPOINT b").await, ["E 3B001", "Z E"]);
    assert_eq!(
        client.query("ROLLBACK TO a; RELEASE a; RELEASE a").await[1..],
        ["C RELEASE", "E 3B001", "Z E"]
    );
    assert_eq!(client.query("ROLLBACK").await, ["C ROLLBACK", "Z I"]);

    client.query("BEGIN").await;
    assert_eq!(
        client.query("DECLARE c CURSOR FOR SELECT key FROM t ORDER BY key").await,
        ["C DECLARE CURSOR", "Z T"]
    );
    assert_eq!(client.query("FETCH 2 FROM c").await, ["T", "D 0", "D 1", "C FETCH 2", "Z T"]);
    assert_eq!(client.query("FETCH ALL FROM c").await.len(), 998 + 3);
    assert_eq!(client.query("FETCH c").await, ["T", "C FETCH 0", "Z T"]);
    assert_eq!(client.query("CLOSE c; FETCH c").await, ["C CLOSE CURSOR", "E 34000", "Z E"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_transaction_writes_is_committed_at_once() {
    let server = filled(|_| {}).await;
    let (mut client, mut other) = (Client::connect(&server).await, Client::connect(&server).await);
    let count = "SELECT count(*) FROM t WHERE key >= 1000";
    assert_eq!(client.query("CREATE TABLE u (a BIGINT, b TEXT)").await, ["C CREATE TABLE", "Z I"]);
    assert_eq!(client.query("INSERT INTO u VALUES (1, 'x'), (2, NULL)").await, ["C INSERT 0 2", "Z I"]);
    assert_eq!(client.query("DELETE FROM u WHERE a = 1").await, ["C DELETE 1", "Z I"]);
    let begun = client
        .query(
            "BEGIN; INSERT INTO t VALUES (1000, 'a'); INSERT INTO public.t VALUES (1001, 'b'), (1002, 'c')",
        )
        .await;
    assert_eq!(begun, ["C BEGIN", "C INSERT 0 1", "C INSERT 0 2", "Z T"]);
    assert_eq!(other.query(count).await[1], "D 0");
    assert_eq!(client.query("COMMIT").await, ["C COMMIT", "Z I"]);
    assert_eq!(other.query(count).await[1], "D 3");
    client.query("BEGIN; INSERT INTO t VALUES (1003, 'd')").await;
    assert_eq!(client.query("ROLLBACK").await, ["C ROLLBACK", "Z I"]);
    client.query("BEGIN; INSERT INTO t VALUES (1003, 'd'); SELECT nothing FROM u").await;
    assert_eq!(client.query("COMMIT").await, ["C ROLLBACK", "Z I"]);
    // Whoever goes in between has written nothing.
    client.query("BEGIN; INSERT INTO t VALUES (1003, 'd')").await;
    drop(client);
    // A text of statements is one transaction, too.
    let told = other.query("INSERT INTO t VALUES (1004, 'e'); INSERT INTO t VALUES (nothing, 'f')").await;
    assert_eq!(told, ["C INSERT 0 1", "E 42703", "Z I"]);
    assert_eq!(other.query(count).await[1], "D 3");
    let told = other.query("INSERT INTO t VALUES (1004, 'e'); INSERT INTO t VALUES (1005, 'f')").await;
    assert_eq!(told, ["C INSERT 0 1", "C INSERT 0 1", "Z I"]);
    assert_eq!(other.query(count).await[1], "D 5");
    // What was written since a savepoint is not undone alone, nor forgotten.
    let told = other.query("BEGIN; SAVEPOINT a; INSERT INTO t VALUES (1006, 'g'); ROLLBACK TO a").await;
    assert_eq!(told[3..], ["E 0A000", "Z E"]);
    assert_eq!(other.query("ROLLBACK").await, ["C ROLLBACK", "Z I"]);
    other.parse("", "INSERT INTO t VALUES ($1, $2)", &[]).await;
    other.bind("", "", 0, &[Some(b"1007"), None]).await;
    other.send(b'D', &[b"P", &text("")[..]].concat()).await;
    other.execute("", 0).await;
    other.send(b'S', &[]).await;
    assert_eq!(other.shown().await, ["1", "2", "n", "C INSERT 0 1", "Z I"]);
    assert_eq!(other.query(count).await[1], "D 6");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_puts_a_table_in_the_place_of_another() {
    let server = filled(|_| {}).await;
    let (mut client, mut other) = (Client::connect(&server).await, Client::connect(&server).await);
    let listed = "SELECT count(*) FROM pg_catalog.pg_class WHERE relname = 'u'";
    client.query("CREATE TABLE u (a BIGINT); INSERT INTO u VALUES (1), (2)").await;
    // As pandas and SQLAlchemy do it.
    assert_eq!(client.query("BEGIN; DROP TABLE u").await, ["C BEGIN", "C DROP TABLE", "Z T"]);
    assert_eq!(client.query(listed).await[1], "D 0");
    assert_eq!(other.query(listed).await[1], "D 1");
    assert_eq!(client.query("CREATE TABLE u (a BIGINT, b TEXT)").await, ["C CREATE TABLE", "Z T"]);
    assert_eq!(client.query(listed).await[1], "D 1");
    for key in [b"7", b"8"] {
        client.parse("", "INSERT INTO u (a, b) VALUES ($1, $2)", &[]).await;
        client.bind("", "", 0, &[Some(key), Some(b"x")]).await;
        client.send(b'D', &[b"P", &text("")[..]].concat()).await;
        client.execute("", 0).await;
        client.send(b'S', &[]).await;
        assert_eq!(client.shown().await, ["1", "2", "n", "C INSERT 0 1", "Z T"]);
    }
    assert_eq!(other.query("SELECT sum(a) FROM u").await[1], "D 3");
    assert_eq!(client.query("COMMIT").await, ["C COMMIT", "Z I"]);
    assert_eq!(other.query("SELECT sum(a), max(b) FROM u").await[1], "D 15|x");
    // A text of statements is one transaction.
    let told = client.query("DROP TABLE u; CREATE TABLE u (c BIGINT); SELECT nothing FROM t").await;
    assert_eq!(told[2], "E 42703");
    assert_eq!(other.query("SELECT sum(a) FROM u").await[1], "D 15");
    // Who goes leaves the table as it was.
    client.query("BEGIN; DROP TABLE u; CREATE TABLE v AS SELECT 1 AS one").await;
    drop(client);
    assert_eq!(other.query("SELECT sum(a) FROM u").await[1], "D 15");
    assert_eq!(other.query("SELECT * FROM v").await, ["E 42P01", "Z I"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_in_both_formats() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    let sql = "SELECT key, text, key / 4 AS half FROM t WHERE key >= $1 AND key < $2 ORDER BY key";
    client.parse("s", sql, &[]).await;
    client.send(b'D', &[b"S", &text("s")[..]].concat()).await;
    client.send(b'S', &[]).await;
    let described = client.answer().await;
    assert_eq!(described.iter().map(shown).collect::<Vec<_>>(), ["1", "t [23, 23]", "T", "Z I"]);
    let expected = [("key", 23), ("text", 25), ("half", 701)].map(|(name, oid)| (name.to_owned(), oid));
    assert_eq!(columns(&described[2].1), expected);

    client.bind("", "s", 0, &[Some(b"10"), Some(b" 12")]).await;
    client.execute("", 0).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["2", "D 10|NULL|2.5", "D 11|text 11|2.75", "C SELECT 2", "Z I"]);

    let (from, to) = (10_i32.to_be_bytes(), 11_i32.to_be_bytes());
    client.bind("", "s", 1, &[Some(&from), Some(&to)]).await;
    client.execute("", 0).await;
    client.send(b'S', &[]).await;
    let answer = client.answer().await;
    assert_eq!(values(&answer[1].1), [Some(from.to_vec()), None, Some(2.5_f64.to_be_bytes().to_vec())]);

    // In pieces, with another statement between them.
    client.bind("p", "s", 0, &[Some(b"0"), Some(b"5")]).await;
    client.send(b'D', &[b"P", &text("p")[..]].concat()).await;
    client.execute("p", 2).await;
    client.parse("", "SELECT 'é', NULL", &[]).await;
    client.bind("", "", 0, &[]).await;
    client.execute("", 0).await;
    client.execute("p", 2).await;
    client.execute("p", 2).await;
    client.execute("p", 2).await;
    client.send(b'S', &[]).await;
    let told = client.shown().await;
    let pieces = [
        "2",
        "T",
        "D 0|NULL|0",
        "D 1|text 1|0.25",
        "s",
        "1",
        "2",
        "D é|NULL",
        "C SELECT 1",
        "D 2|text 2|0.5",
        "D 3|text 3|0.75",
        "s",
        "D 4|text 4|1",
        "C SELECT 1",
        "C SELECT 0",
        "Z I",
    ];
    assert_eq!(told, pieces);

    // An error: what comes until the next Sync is passed over. A portal ends with its transaction.
    client.bind("", "s", 0, &[Some(b"x"), Some(b"5")]).await;
    client.execute("", 0).await;
    client.parse("other", "SELECT 1", &[]).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["E 22P02", "Z I"]);
    for (statement, parameters, code) in [("s", 1, "08P01"), ("other", 0, "26000"), ("s", 3, "08P01")] {
        client.bind("", statement, 0, &vec![Some(&b"1"[..]); parameters]).await;
        client.send(b'S', &[]).await;
        assert_eq!(client.shown().await, [format!("E {code}"), "Z I".to_owned()]);
    }
    client.execute("p", 0).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["E 34000", "Z I"]);
    client.parse("s", sql, &[]).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["E 42P05", "Z I"]);
    client.send(b'C', &[b"S", &text("s")[..]].concat()).await;
    client.parse("s", "", &[]).await;
    client.bind("", "s", 0, &[]).await;
    client.execute("", 0).await;
    client.parse("", "SELECT 1; SELECT 2", &[]).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["3", "1", "2", "I", "E 42601", "Z I"]);

    // A client says which types its parameters have.
    client.parse("", "SELECT count(*) FROM t WHERE key < $1 AND text > $2", &[21, 0]).await;
    client.bind("", "", 0, &[Some(b"7"), Some(b"text 5")]).await;
    client.execute("", 0).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["1", "2", "D 1", "C SELECT 1", "Z I"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_many_digits_are_numbers() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    let mut ask = async |sql: &str, values: &[&str]| {
        client.parse("", sql, &vec![1700; values.len()]).await;
        let values: Vec<_> = values.iter().map(|value| Some(value.as_bytes())).collect();
        client.bind("", "", 0, &values).await;
        client.execute("", 0).await;
        client.send(b'S', &[]).await;
        client.shown().await.join(" ")
    };
    let (large, most, more) = ("100000000000000000000", "9".repeat(38), "9".repeat(39));
    for (sql, values, expected) in [
        ("SELECT $1 < $2", vec![large, "3"], "f"),
        ("SELECT $1 < $2", vec!["9223372036854775808", "10000000000"], "f"),
        ("SELECT greatest($1, $2), least($1, $2)", vec!["3", large], "100000000000000000000|3"),
        ("SELECT max(x) FROM (VALUES ($1), ($2)) AS v(x)", vec![large, "99"], large),
        ("SELECT $1", vec!["18446744073709551615"], "18446744073709551615"),
        ("SELECT $1", vec![most.as_str()], most.as_str()),
        ("SELECT $1", vec!["1234567890123456789012.50"], "1234567890123456789012.50"),
        ("SELECT $1 > 1234567890123456789012.4", vec!["1234567890123456789012.5"], "t"),
        ("SELECT count(*) FROM t WHERE key < $1", vec!["1E+30"], "1000"),
    ] {
        assert_eq!(ask(sql, &values).await, format!("1 2 D {expected} C SELECT 1 Z I"), "{sql} {values:?}");
    }
    assert_eq!(ask("SELECT $1", &[&more]).await, "1 E 22003 Z I");
    assert_eq!(ask("SELECT $1", &["1E-39"]).await, "1 E 22003 Z I");
}

/// A statement that takes long.
const LONG: &str = "SELECT count(*) FROM t a JOIN t b ON a.key % 2 = b.key % 2 JOIN t c ON b.key % 2 = c.key % 2 \
    JOIN t d ON c.key % 2 = d.key % 2 WHERE a.key + b.key + c.key + d.key > 7";

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_cancelled_by_their_key_and_by_time() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.send(b'Q', &text(LONG)).await;
    let mut other = client.key.clone();
    *other.last_mut().unwrap() ^= 1;
    client.cancel(&server, &other).await;
    let waited = timeout(Duration::from_millis(300), message(&mut client.stream)).await;
    assert!(waited.is_err(), "{waited:?}");
    client.cancel(&server, &client.key).await;
    assert_eq!(client.shown().await.last_chunk(), Some(&["E 57014".to_owned(), "Z I".to_owned()]));
    // It is over on the server, too, and what comes too late concerns no later statement.
    client.cancel(&server, &client.key).await;
    assert_eq!(client.query("SELECT 1").await, ["T", "D 1", "C SELECT 1", "Z I"]);

    let began = Instant::now();
    client.query("SET statement_timeout = '200ms'").await;
    assert_eq!(client.query(LONG).await.last_chunk(), Some(&["E 57014".to_owned(), "Z I".to_owned()]));
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(client.query("RESET statement_timeout; SELECT 1").await[2], "D 1");
}

/// What is no message ends the connection, and nobody else's.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_messages() {
    let server = filled(|_| {}).await;
    let mut random = StdRng::seed_from_u64(7);
    let mut good = Client::connect(&server).await;
    for round in 0..300 {
        let mut bytes: Vec<u8> = (0..random.random_range(1..300)).map(|_| random.random()).collect();
        if round % 3 == 0 {
            // Behind a good start.
            bytes = [startup(&[("user", "me")]), bytes].concat();
        } else if round % 3 == 1 {
            // In a good form.
            let tag = b"QPBDECHSXpdcf"[random.random_range(0..13)];
            bytes = [startup(&[("user", "me")]), framed(tag, &bytes), framed(b'S', &[])].concat();
        }
        let mut stream = TcpStream::connect(&server.address).await.unwrap();
        // An error says that it has closed already.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let closed = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
        assert!(closed.is_ok(), "still open: {bytes:?}");
    }
    assert_eq!(good.query("SELECT 1").await, ["T", "D 1", "C SELECT 1", "Z I"]);

    // Lengths that nobody means are refused before there is room for them.
    for (tag, length) in
        [(b'Q', u32::MAX), (b'Q', 1 << 30), (b'P', 1 << 20), (b'B', 1 << 25), (b'E', 1 << 16), (b'S', 3)]
    {
        let mut client = Client::connect(&server).await;
        client.stream.write_all(&[&[tag][..], &length.to_be_bytes()].concat()).await.unwrap();
        let (tag, body) = message(&mut client.stream).await.unwrap();
        assert_eq!((tag, fields(&body)[&'S'].as_str()), (b'E', "FATAL"));
        assert_eq!(client.stream.read(&mut [0; 1]).await.unwrap(), 0);
    }
    for bytes in [&[0, 0, 0, 7][..], &[0xff; 8], &[0, 1, 0, 0, 0, 3, 0, 0], &[0, 0, 0, 8, 0, 2, 0, 0]] {
        let mut stream = TcpStream::connect(&server.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let (tag, body) = message(&mut stream).await.unwrap();
        assert_eq!((tag, fields(&body)[&'S'].as_str()), (b'E', "FATAL"), "{bytes:?}");
    }
    // What is wrong in a message of the right length is an error as any other.
    assert_eq!(
        {
            good.send(b'Q', b"SELECT 1").await;
            good.shown().await
        },
        ["E 08P01", "Z I"]
    );
    assert_eq!(
        {
            good.send(b'Q', b"\xff\0").await;
            good.shown().await
        },
        ["E 22021", "Z I"]
    );
    good.send(b'B', b"\0\0\xff\xff").await;
    good.send(b'S', &[]).await;
    assert_eq!(good.shown().await, ["E 08P01", "Z I"]);
    assert_eq!(good.query("SELECT 1").await, ["T", "D 1", "C SELECT 1", "Z I"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_connection_keeps_is_bounded() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    let long = format!("SELECT '{}'", "x".repeat(200_000));
    let mut refused = None;
    for n in 0..40 {
        client.parse(&format!("s{n}"), &long, &[]).await;
        client.send(b'S', &[]).await;
        let told = client.shown().await;
        if told[0] != "1" {
            refused = Some((n, told));
            break;
        }
    }
    let (n, told) = refused.expect("there is no limit");
    assert!((10..30).contains(&n), "{n}");
    assert_eq!(told, ["E 53400", "Z I"]);
    assert_eq!(client.query("DEALLOCATE ALL; SELECT 1").await[2], "D 1");
    client.query("BEGIN").await;
    let mut count = 0;
    while client.query(&format!("DECLARE c{count} CURSOR FOR SELECT 1")).await[0] == "C DECLARE CURSOR" {
        count += 1;
        assert!(count <= 64);
    }
    assert_eq!(client.query("ROLLBACK").await, ["C ROLLBACK", "Z I"]);
    let text_of_many = "SELECT 1;".repeat(1001);
    assert_eq!(client.query(&text_of_many).await, ["E 54001", "Z I"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_so_many_connections() {
    let server = filled(|config| config.max_connections = 2).await;
    let mut first = Client::connect(&server).await;
    let second = Client::connect(&server).await;
    let refused = Client::try_connect(&server, &[("user", "me")]).await.err().unwrap();
    assert_eq!(refused[&'C'], "53300");
    // A statement can be cancelled all the same.
    first.send(b'Q', &text(LONG)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    first.cancel(&server, &first.key).await;
    assert_eq!(first.shown().await.last_chunk(), Some(&["E 57014".to_owned(), "Z I".to_owned()]));
    drop(second);
    for _ in 0..100 {
        if Client::try_connect(&server, &[("user", "me")]).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no place comes free");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_come_with_what_they_want() {
    let server = filled(|_| {}).await;
    let come = async |parameters: &[(&str, &str)]| Client::try_connect(&server, parameters).await;
    let options = "-c statement_timeout=5s -c search_path=public";
    let with = [
        ("user", "me"),
        ("database", "any"),
        ("options", options),
        ("TimeZone", "Europe/Berlin"),
        ("DateStyle", "ISO"),
    ];
    let mut client = come(&with).await.unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(client.settings["TimeZone"], "UTC");
    assert_eq!(client.query("SHOW statement_timeout").await[1], "D 5000");
    assert_eq!(
        client.query("SET statement_timeout = 1; RESET ALL; SHOW statement_timeout").await[3],
        "D 5000"
    );
    for (wrong, code) in [
        (&[("user", "")][..], "28000"),
        (&[("user", "me"), ("client_encoding", "LATIN1")], "22023"),
        (&[("user", "me"), ("replication", "true")], "0A000"),
        (&[("user", "me"), ("nothing", "1")], "42704"),
    ] {
        let error = come(wrong).await.err().unwrap();
        assert_eq!((error[&'C'].as_str(), error[&'S'].as_str()), (code, "FATAL"));
    }
    // No encryption, twice asked for, and then on in plain.
    let mut stream = TcpStream::connect(&server.address).await.unwrap();
    for code in [80_877_104_u32, 80_877_103] {
        stream.write_all(&[&8_u32.to_be_bytes()[..], &code.to_be_bytes()].concat()).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'N');
    }
    stream.write_all(&startup(&[("user", "me")])).await.unwrap();
    assert_eq!(message(&mut stream).await.unwrap(), (b'R', vec![0; 4]));
}

/// A client that reads nothing holds little memory, and is cut off.
#[tokio::test(flavor = "multi_thread")]
async fn who_reads_nothing_is_cut_off() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    let began = Instant::now();
    client.send(b'Q', &text("SELECT repeat(a.text, 10), b.text FROM t a, t b, t c")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let held = basalt_client::Client::connect(&server.grpc).await.unwrap().cluster().await.unwrap();
    assert!(held.nodes[0].memory_bytes < 64 << 20, "{}", held.nodes[0].memory_bytes);
    tokio::time::sleep(Duration::from_secs(61)).await;
    let mut read = 0;
    let mut bytes = vec![0; 1 << 16];
    while let Ok(some @ 1..) = client.stream.read(&mut bytes).await {
        read += some;
        assert!(read < 64 << 20 && began.elapsed() < Duration::from_secs(90), "it is not cut off");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_lets_statements_end() {
    let server = filled(|config| config.shutdown_grace = Duration::from_secs(20)).await;
    let (mut idle, mut busy) = (Client::connect(&server).await, Client::connect(&server).await);
    busy.send(b'Q', &text("SELECT count(*) FROM t a, t b WHERE a.key < b.key")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.stop.send(()).unwrap();
    assert_eq!(busy.answer().await.iter().filter(|(tag, _)| *tag == b'D').count(), 1);
    let (tag, body) = message(&mut idle.stream).await.unwrap();
    assert_eq!((tag, fields(&body)[&'C'].as_str()), (b'E', "57P01"));
    timeout(Duration::from_secs(20), server.running).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_tells_what_it_has() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    let mut rows = async |sql: &str| {
        let told = client.query(sql).await;
        assert!(told.iter().all(|message| !message.starts_with('E')), "{sql}: {told:?}");
        told.into_iter()
            .filter_map(|message| Some(message.strip_prefix("D ")?.to_owned()))
            .collect::<Vec<_>>()
    };
    let tables = "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema = 'public'";
    assert_eq!(rows(tables).await, ["public|t|BASE TABLE"]);
    let columns = "SELECT column_name, ordinal_position, data_type FROM information_schema.columns WHERE table_name = 't' ORDER BY 2";
    assert_eq!(rows(columns).await, ["key|1|integer", "text|2|text"]);
    assert_eq!(
        rows("SELECT schema_name FROM information_schema.schemata WHERE schema_name = 'public'").await,
        ["public"]
    );
    assert_eq!(rows("SELECT relname FROM pg_class WHERE oid = 't'::regclass").await, ["t"]);
    assert_eq!(
        rows("SELECT 't'::regclass::text, to_regclass('nothing'), current_schema(), current_database()")
            .await,
        ["t|NULL|public|basalt"]
    );
    let attributes = "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a \
        WHERE a.attrelid = 'public.t'::regclass AND a.attnum > 0 ORDER BY a.attnum";
    assert_eq!(rows(attributes).await, ["key|integer", "text|text"]);
    rows("CREATE VIEW v AS SELECT key + 1 AS more FROM t").await;
    // It reads what describes it.
    rows("CREATE VIEW w AS SELECT v.more, c.column_name FROM v JOIN information_schema.columns c ON true")
        .await;
    let views = "SELECT table_name, column_name, data_type FROM information_schema.columns c \
        WHERE table_name IN (SELECT viewname FROM pg_views) ORDER BY 1, ordinal_position";
    assert_eq!(rows(views).await, ["v|more|bigint", "w|more|bigint", "w|column_name|text"]);
    assert_eq!(rows("SELECT relkind FROM pg_class WHERE oid = 'v'::regclass").await, ["v"]);
    let text = rows("SELECT definition FROM pg_views WHERE viewname = 'v'").await;
    assert!(text[0].contains("key + 1"), "{text:?}");
    assert_eq!(rows("SELECT pg_get_viewdef('v'::regclass, true)").await, text);
    assert_eq!(rows("SELECT pg_get_viewdef('t'::regclass)").await, ["NULL"]);
    let shown = "SELECT relname, pg_catalog.array_remove(pg_catalog.array_remove(c.reloptions,'check_option=local'),\
        'check_option=cascaded') AS reloptions, CASE WHEN 'check_option=local' = ANY (c.reloptions) THEN 'LOCAL'::text \
        WHEN 'check_option=cascaded' = ANY (c.reloptions) THEN 'CASCADED'::text ELSE NULL END AS checkoption \
        FROM pg_catalog.pg_class c WHERE c.oid = 'v'::regclass";
    assert_eq!(rows(shown).await, ["v|NULL|NULL"]);
    assert_eq!(rows("SELECT count(*) FROM pg_index").await, ["0"]);
    assert_eq!(rows("SELECT max(key) FROM public.t").await, ["999"]);
    assert_eq!(rows("SELECT c.relname FROM pg_class c JOIN t ON c.relname = 't' AND t.key = 1").await, ["t"]);
}
