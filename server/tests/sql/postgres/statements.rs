//! Statements of SQL that name prepared ones, parameters that are lists and bytes, and what a connection is told of itself.

use tokio::io::AsyncWriteExt as _;

use super::client::*;

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_prepared_by_sql() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    assert_eq!(
        client.query("PREPARE one (int) AS SELECT text FROM t WHERE key = $1").await,
        ["C PREPARE", "Z I"]
    );
    assert_eq!(client.query("EXECUTE one(11)").await, ["T", "D text 11", "C SELECT 1", "Z I"]);
    assert_eq!(client.query("EXECUTE one('12')").await, ["T", "D text 12", "C SELECT 1", "Z I"]);
    assert_eq!(client.query("EXECUTE one(NULL)").await, ["T", "C SELECT 0", "Z I"]);
    assert_eq!(client.query("PREPARE one AS SELECT 1").await, ["E 42P05", "Z I"]);
    client.query("PREPARE \"More\" AS INSERT INTO t VALUES ($1, $2)").await;
    let written = client.query("EXECUTE \"More\"(-5, 'it''s'); EXECUTE \"More\"(-6, NULL)").await;
    assert_eq!(written, ["C INSERT 0 1", "C INSERT 0 1", "Z I"]);
    let rows = client.query("SELECT key, text FROM t WHERE key < 0 ORDER BY key").await;
    assert_eq!(rows[1..3], ["D -6|NULL", "D -5|it's"]);
    // As drivers send what has no parameters of its own.
    client.parse("", "EXECUTE one(11)", &[]).await;
    client.bind("", "", 0, &[]).await;
    client.send(b'D', b"P\0").await;
    client.execute("", 0).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["1", "2", "T", "D text 11", "C SELECT 1", "Z I"]);
    for (sql, code) in [
        ("EXECUTE nothing", "26000"),
        ("EXECUTE one(1, 2)", "08P01"),
        ("EXECUTE one(1 + 1)", "0A000"),
        ("EXECUTE one('x')", "22P02"),
        ("PREPARE two (nothing) AS SELECT 1", "42704"),
        ("PREPARE two SELECT 1", "42601"),
    ] {
        assert_eq!(client.query(sql).await, [format!("E {code}"), "Z I".to_owned()], "{sql}");
    }
    assert_eq!(client.query("DEALLOCATE one; EXECUTE one(1)").await, ["C DEALLOCATE", "E 26000", "Z I"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_lists_and_bytes() {
    const INT8S: u32 = 1016;
    const TEXTS: u32 = 1009;
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.query("CREATE TABLE b (id BIGINT, raw BINARY, uuid TEXT)").await;
    let ask = async |client: &mut Client, sql: &str, oid: u32, format: u16, value: &[u8]| {
        client.parse("", sql, &[oid]).await;
        client.bind("", "", format, &[Some(value)]).await;
        client.execute("", 0).await;
        client.send(b'S', &[]).await;
        client.shown().await
    };
    let count = "SELECT count(*)::text FROM t WHERE key = ANY($1)";
    for (value, found) in [(&b"{10,11,NULL,5000}"[..], 2), (b"{}", 0), (b"{12}", 1)] {
        let told = ask(&mut client, count, INT8S, 0, value).await;
        assert_eq!(told[2], format!("D {found}"), "{}", String::from_utf8_lossy(value));
    }
    let told =
        ask(&mut client, "SELECT count(*)::text FROM t WHERE key <> ALL($1::bigint[])", INT8S, 0, b"{10,11}")
            .await;
    assert_eq!(told[2], "D 998");
    let texts = "SELECT key::text FROM t WHERE text = ANY($1)";
    // Of a list that the client does not name the type of, too.
    for oid in [TEXTS, 0] {
        assert_eq!(ask(&mut client, texts, oid, 0, b"{\"text 11\",\"a\\\"b\"}").await[2], "D 11");
    }
    // One dimension of two values, of which one is NULL.
    let mut binary: Vec<u8> = [1_i32, 1, 20, 2, 1, 8].iter().flat_map(|int| int.to_be_bytes()).collect();
    binary.extend(11_i64.to_be_bytes());
    binary.extend((-1_i32).to_be_bytes());
    let told = ask(&mut client, "SELECT count(*)::text FROM t WHERE key = ANY($1)", INT8S, 1, &binary).await;
    assert_eq!(told[2], "D 1");
    assert_eq!(ask(&mut client, count, INT8S, 1, &binary[..30]).await.last().unwrap(), "Z I");

    let insert = "INSERT INTO b (raw) VALUES ($1)";
    for (format, value) in [(1, &b"\x00\xff"[..]), (0, b"\\x00ff")] {
        assert_eq!(ask(&mut client, insert, 17, format, value).await[2], "C INSERT 0 1");
    }
    let rows = client.query("SELECT raw FROM b").await;
    assert_eq!(rows[1..3], ["D \\x00ff", "D \\x00ff"]);
    // They are compared as bytes.
    client.query("INSERT INTO b (id, raw) VALUES (7, CAST('x' AS BYTEA))").await;
    for (condition, found) in [("raw = $1", 2), ("raw <> $1", 1), ("raw IN ($1)", 2), ("raw > $1", 1)] {
        let sql = format!("SELECT count(*)::text FROM b WHERE {condition}");
        assert_eq!(ask(&mut client, &sql, 17, 1, b"\x00\xff").await[2], format!("D {found}"), "{condition}");
    }
    let deleted = ask(&mut client, "DELETE FROM b WHERE raw <> $1", 17, 1, b"\x00\xff").await;
    assert_eq!(deleted[2], "C DELETE 1");
    let uuid: Vec<u8> = (0..16).collect();
    ask(&mut client, "INSERT INTO b (uuid) VALUES ($1)", 2950, 1, &uuid).await;
    let rows = client.query("SELECT uuid FROM b WHERE uuid IS NOT NULL").await;
    assert_eq!(rows[1], "D 00010203-0405-0607-0809-0a0b0c0d0e0f");
    let equal = "SELECT count(*)::text FROM b WHERE uuid = ANY($1)";
    let list = b"{000102030405060708090A0B0C0D0E0F,NULL}";
    assert_eq!(ask(&mut client, equal, 2951, 0, list).await[2], "D 1");
    let interval = [&0_i64.to_be_bytes()[..], &1_i32.to_be_bytes(), &0_i32.to_be_bytes()].concat();
    let later = "SELECT (TIMESTAMP '2024-02-28 00:00:00' + CAST($1 AS INTERVAL))::date::text";
    assert_eq!(ask(&mut client, later, 1186, 1, &interval).await[2], "D 2024-02-29");
    // A number beyond bigint goes on being one that has a sign.
    client.query("INSERT INTO b (id) VALUES (-1)").await;
    let sum =
        ask(&mut client, "SELECT ($1 + id)::text FROM b WHERE id < 0", 1700, 0, b"18446744073709551615")
            .await;
    assert_eq!(sum[2], "D 18446744073709551614");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_knows_its_user() {
    let server = serve(|_| {}).await;
    let mut client = Client::try_connect(&server, &[("user", "Ada")]).await.unwrap();
    assert_eq!(client.query("SELECT current_user, session_user, user").await[1], "D Ada|Ada|Ada");
    let role = "SELECT count(*) FROM pg_roles WHERE rolname = current_user";
    assert_eq!(client.query(role).await[1], "D 1");
    let number = i32::from_be_bytes(client.key[..4].try_into().unwrap());
    assert_eq!(client.query("SELECT pg_backend_pid()").await[1], format!("D {number}"));
}

/// Rows one after the other are in the table as they came, whatever kinds of values they have.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_transaction_come_one_by_one() {
    let server = serve(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.query("CREATE TABLE u (a BIGINT, b TEXT, c DOUBLE)").await;
    client.query("BEGIN").await;
    client.parse("s", "INSERT INTO u (a, b, c) VALUES ($1, $2::VARCHAR, $3)", &[20, 0, 701]).await;
    for row in 0..6000_i64 {
        let (a, b) = (row.to_string(), format!("text {row}"));
        client.bind("", "s", 0, &[Some(a.as_bytes()), Some(b.as_bytes()), None]).await;
        client.execute("", 0).await;
    }
    client.send(b'S', &[]).await;
    let told = client.shown().await;
    assert_eq!(told.iter().filter(|told| *told == "C INSERT 0 1").count(), 6000);
    client.query("COMMIT").await;
    let rows = client.query("SELECT count(*), sum(a), count(DISTINCT b), count(c) FROM u").await;
    assert_eq!(rows[1], "D 6000|17997000|6000|0");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_set_for_a_transaction_holds_for_it_alone() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    let insert = "INSERT INTO t VALUES (1000, 'a')";
    // Without a block it holds for nothing.
    assert_eq!(client.query("SET TRANSACTION READ ONLY").await, ["N 25P01", "C SET", "Z I"]);
    assert_eq!(client.query("SET LOCAL statement_timeout = 77").await, ["N 25P01", "C SET", "Z I"]);
    assert_eq!(client.query("SET LOCAL nothing = 1").await, ["N 25P01", "E 42704", "Z I"]);
    assert_eq!(client.query("SHOW statement_timeout").await[1], "D 30000");
    // The default is such a value, and what the session has comes back.
    client.query("SET statement_timeout = 5000").await;
    assert_eq!(client.query("SET LOCAL statement_timeout TO DEFAULT").await, ["N 25P01", "C SET", "Z I"]);
    assert_eq!(client.query("SET LOCAL nothing TO DEFAULT").await, ["N 25P01", "E 42704", "Z I"]);
    for end in ["COMMIT", "ROLLBACK"] {
        client.query("BEGIN; SET LOCAL statement_timeout TO DEFAULT").await;
        assert_eq!(client.query("SHOW statement_timeout").await[1], "D 30000");
        client.query(end).await;
        assert_eq!(client.query("SHOW statement_timeout").await[1], "D 5000");
    }
    // What comes back is what the session has by then, not before the block.
    for (block, expected) in [
        (
            "SET statement_timeout = 2000; SET LOCAL statement_timeout = 3000; SET LOCAL statement_timeout = 4000",
            "D 2000",
        ),
        ("SET LOCAL statement_timeout = 3000; SET statement_timeout = 6000", "D 6000"),
        ("SET LOCAL statement_timeout = 3000; RESET statement_timeout", "D 30000"),
        ("SET statement_timeout = 7000; SET LOCAL statement_timeout = 3000; RESET ALL", "D 30000"),
        (
            "SET statement_timeout = 8000; SET LOCAL statement_timeout = 3000; SAVEPOINT s; SET statement_timeout = 9000; \
             ROLLBACK TO s",
            "D 8000",
        ),
    ] {
        client.query(&format!("BEGIN; {block}; COMMIT")).await;
        assert_eq!(client.query("SHOW statement_timeout").await[1], expected, "{block}");
    }
    client.query("BEGIN; SET statement_timeout = 2000; SET LOCAL statement_timeout = 3000; ROLLBACK").await;
    assert_eq!(client.query("SHOW statement_timeout").await[1], "D 8000");
    assert_eq!(client.query("SET statement_timeout TO DEFAULT").await, ["C SET", "Z I"]);
    assert_eq!(client.query("SHOW statement_timeout").await[1], "D 30000");
    assert_eq!(client.query(insert).await, ["C INSERT 0 1", "Z I"]);
    let told = client.query("BEGIN; SET TRANSACTION READ ONLY; INSERT INTO t VALUES (1001, 'b')").await;
    assert_eq!(told, ["C BEGIN", "C SET", "E 25006", "Z E"]);
    client.query("ROLLBACK").await;
    assert_eq!(client.query(insert).await, ["C INSERT 0 1", "Z I"]);

    // A block begins with the default, and may say otherwise.
    client.query("SET default_transaction_read_only = on").await;
    assert_eq!(client.query(insert).await, ["E 25006", "Z I"]);
    let told = client.query(&format!("BEGIN; SHOW transaction_read_only; {insert}")).await;
    assert_eq!(told[2..], ["D on", "C SHOW", "E 25006", "Z E"]);
    client.query("ROLLBACK").await;
    assert_eq!(client.query("BEGIN READ WRITE").await, ["C BEGIN", "Z T"]);
    assert_eq!(client.query(insert).await, ["C INSERT 0 1", "Z T"]);
    assert_eq!(client.query("COMMIT").await, ["C COMMIT", "Z I"]);
    assert_eq!(client.query(insert).await, ["E 25006", "Z I"]);
    // What is said in a block of those to come does not change it.
    let told = client.query(&format!("BEGIN; SET default_transaction_read_only = off; {insert}")).await;
    assert_eq!(told[told.len() - 2..], ["E 25006", "Z E"]);
    client.query("ROLLBACK").await;
    client.query("SET default_transaction_read_only = off").await;
    assert_eq!(client.query(&format!("BEGIN; {insert}; COMMIT")).await[1], "C INSERT 0 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_behind_a_commit_in_a_text_is_all_or_nothing_too() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.query("CREATE TABLE u (a BIGINT NOT NULL)").await;
    let rows = "SELECT count(*), max(a) FROM u";
    let two = "INSERT INTO u VALUES (1); INSERT INTO u VALUES (2)";
    let told =
        client.query(&format!("{two}; COMMIT; INSERT INTO u VALUES (3); INSERT INTO u VALUES (NULL)")).await;
    assert_eq!(told[..5], ["C INSERT 0 1", "C INSERT 0 1", "N 25P01", "C COMMIT", "C INSERT 0 1"]);
    assert!(told[told.len() - 2].starts_with("E "), "{told:?}");
    assert_eq!(client.query(rows).await[1], "D 2|2");
    client.query(&format!("{two}; ROLLBACK; INSERT INTO u VALUES (3); INSERT INTO u VALUES (4)")).await;
    assert_eq!(client.query(rows).await[1], "D 4|4");
    let told = client
        .query(&format!("BEGIN; {two}; COMMIT; INSERT INTO u VALUES (5); INSERT INTO u VALUES (NULL)"))
        .await;
    assert!(told[told.len() - 2].starts_with("E "), "{told:?}");
    assert_eq!(client.query(rows).await[1], "D 6|4");
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_bytes_and_of_times_are_told_as_such() {
    // Who names no types asks for them, and sends what he is told in binary form.
    async fn ask(client: &mut Client, sql: &str, format: u16, given: &[Option<&[u8]>]) -> Vec<String> {
        client.parse("", sql, &[]).await;
        client.send(b'D', b"S\0").await;
        client.bind("", "", format, given).await;
        client.execute("", 0).await;
        client.send(b'S', &[]).await;
        client.shown().await
    }
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.query("CREATE TABLE b (raw BINARY, clock TIME)").await;
    let noon = (12 * 3_600_000_000_i64).to_be_bytes();
    let insert = "INSERT INTO b VALUES ($1, $2)";
    let told = ask(&mut client, insert, 1, &[Some(b"\x00\xff"), Some(&noon)]).await;
    assert_eq!(told, ["1", "t [17, 1083]", "n", "2", "C INSERT 0 1", "Z I"]);
    let told = ask(&mut client, insert, 0, &[Some(b"\\x00ff"), Some(b"12:00:00")]).await;
    assert_eq!(told[4], "C INSERT 0 1");
    assert_eq!(ask(&mut client, insert, 0, &[Some(b"hello"), None]).await[4], "C INSERT 0 1");
    let count = "SELECT count(*)::text FROM b WHERE raw = $1";
    let told = ask(&mut client, count, 1, &[Some(b"\x00\xff")]).await;
    assert_eq!(told, ["1", "t [17]", "T", "2", "D 2", "C SELECT 1", "Z I"]);
    assert_eq!(ask(&mut client, count, 0, &[Some(b"hello")]).await[4], "D 1");
    let rows = client.query("SELECT raw, clock FROM b WHERE clock IS NOT NULL").await;
    assert_eq!(rows[1..3], ["D \\x00ff|12:00:00", "D \\x00ff|12:00:00"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_writes_behind_with_is_told_as_such() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    let insert = "WITH c AS (SELECT -1 AS key UNION SELECT -2) INSERT INTO t (key) SELECT key FROM c";
    assert_eq!(client.query(insert).await, ["C INSERT 0 2", "Z I"]);
    client.parse("", insert, &[]).await;
    client.send(b'D', b"S\0").await;
    client.bind("", "", 0, &[]).await;
    client.execute("", 0).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["1", "t []", "n", "2", "C INSERT 0 2", "Z I"]);
    let update = "WITH c (key) AS (VALUES (-1)) UPDATE t SET text = 'x' FROM c WHERE c.key = t.key";
    assert_eq!(client.query(update).await, ["C UPDATE 2", "Z I"]);
    let delete = "WITH c (key) AS (VALUES (-2)) DELETE FROM t WHERE key IN (SELECT key FROM c)";
    for (sql, tag) in
        [(format!("BEGIN READ ONLY; {delete}"), "E 25006"), ("ROLLBACK".to_owned(), "C ROLLBACK")]
    {
        let told = client.query(&sql).await;
        assert!(told.contains(&tag.to_owned()), "{told:?}");
    }
    assert_eq!(client.query(delete).await, ["C DELETE 2", "Z I"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_statement_that_writes_is_committed_before_what_stands_behind_it() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    let told = client.query("INSERT INTO t VALUES (-1, 'x'); SELECT text FROM t WHERE key < 0").await;
    assert_eq!(told, ["C INSERT 0 1", "T", "D x", "C SELECT 1", "Z I"]);
    let told = client.query("BEGIN; COMMIT; INSERT INTO t VALUES (-2, 'y'); SELECT nothing FROM t").await;
    assert_eq!(told[2..], ["C INSERT 0 1", "E 42703", "Z I"]);
    let several = "INSERT INTO t VALUES (-3, 'z'); INSERT INTO t VALUES (-4, 'z'); SELECT nothing FROM t";
    assert_eq!(client.query(several).await[2..], ["E 42703", "Z I"]);
    assert_eq!(client.query("SELECT count(*) FROM t WHERE key < 0").await[1], "D 2");
    let block = "BEGIN; INSERT INTO t VALUES (-5, 'z'); SELECT 1 / 0; COMMIT";
    assert_eq!(client.query(block).await.last().unwrap(), "Z E");
    client.query("ROLLBACK").await;
    assert_eq!(client.query("SELECT count(*) FROM t WHERE key < 0").await[1], "D 2");
}

/// As pg8000 has it, which waits for the answer to Parse, and stops at the first error of all that it sends then.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_statement_is_told_when_it_is_parsed() {
    async fn parse(client: &mut Client, sql: &str) -> Vec<String> {
        let messages = [framed(b'P', &[text("s"), text(sql), vec![0, 0]].concat()), framed(b'S', &[])];
        client.stream.write_all(&messages.concat()).await.unwrap();
        client.shown().await
    }
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.query("BEGIN").await;
    // What is wrong with it is not kept, either.
    let unknown = format!("SELECT nothing FROM t WHERE text = $1{}", " ".repeat(2000));
    assert_eq!(parse(&mut client, &unknown).await, ["E 42703", "Z E"]);
    assert_eq!(parse(&mut client, "ROLLBACK").await, ["1", "Z E"]);
    client.send(b'D', b"Ss\0").await;
    client.bind("", "s", 0, &[]).await;
    client.execute("", 0).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["t []", "n", "2", "C ROLLBACK", "Z I"]);

    client.query("DEALLOCATE s").await;
    assert_eq!(parse(&mut client, "SELECT 1 FROM nothing").await, ["E 42P01", "Z I"]);
    // Without a value it has no plan, which says nothing of it with one.
    assert_eq!(parse(&mut client, "SELECT date_part($1, now())").await, ["1", "Z I"]);
    client.query("DEALLOCATE s").await;
    assert_eq!(parse(&mut client, "SELECT text FROM t WHERE key = $1").await, ["1", "Z I"]);
    client.bind("", "s", 0, &[Some(b"11")]).await;
    client.execute("", 0).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["2", "D text 11", "C SELECT 1", "Z I"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_pass_over_rows() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.query("BEGIN; DECLARE c CURSOR FOR SELECT key FROM t ORDER BY key").await;
    for (sql, passed, next) in [
        ("MOVE 5 FROM c", 5, "D 5"),
        ("MOVE FORWARD 2 c", 2, "D 8"),
        // As psycopg has it.
        ("MOVE RELATIVE 2 FROM \"c\"", 2, "D 11"),
        ("MOVE c", 1, "D 13"),
        ("MOVE ALL FROM c", 986, "C FETCH 0"),
        ("MOVE c", 0, "C FETCH 0"),
    ] {
        assert_eq!(client.query(sql).await, [format!("C MOVE {passed}"), "Z T".to_owned()], "{sql}");
        assert_eq!(client.query("FETCH c").await[1], next, "{sql}");
    }
    // As asyncpg has it: a portal that is bound, and moved before it is run.
    client.parse("", "SELECT key FROM t ORDER BY key", &[]).await;
    client.bind("p", "", 1, &[]).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["1", "2", "Z T"]);
    assert_eq!(client.query("MOVE FORWARD 3 p").await, ["C MOVE 3", "Z T"]);
    client.execute("p", 1).await;
    client.send(b'S', &[]).await;
    let answer = client.answer().await;
    assert_eq!(values(&answer[0].1), [Some(3_i32.to_be_bytes().to_vec())]);
    assert_eq!(shown(&answer[1]), "s");
    assert_eq!(client.query("MOVE BACKWARD 1 FROM p").await, ["E 0A000", "Z E"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_with_hold_outlive_their_transaction() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    // As Django has it.
    let declare = |name: &str| {
        format!("DECLARE \"{name}\" NO SCROLL CURSOR WITH HOLD FOR SELECT key FROM t ORDER BY key")
    };
    assert_eq!(client.query(&declare("a")).await, ["C DECLARE CURSOR", "Z I"]);
    assert_eq!(client.query("FETCH 2 FROM a").await, ["T", "D 0", "D 1", "C FETCH 2", "Z I"]);
    client.query("BEGIN; DECLARE gone CURSOR FOR SELECT key FROM t").await;
    assert_eq!(client.query(&declare("b")).await, ["C DECLARE CURSOR", "Z T"]);
    assert_eq!(client.query("FETCH b").await, ["T", "D 0", "C FETCH 1", "Z T"]);
    assert_eq!(client.query("COMMIT").await, ["C COMMIT", "Z I"]);
    assert_eq!(client.query("FETCH gone").await, ["E 34000", "Z I"]);
    // Also behind a Sync, and behind another block.
    client.parse("", "SELECT 1", &[]).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["1", "Z I"]);
    client.query("BEGIN").await;
    client.query(&declare("c")).await;
    assert_eq!(client.query("ROLLBACK").await, ["C ROLLBACK", "Z I"]);
    assert_eq!(client.query("FETCH c").await, ["E 34000", "Z I"]);
    assert_eq!(client.query("FETCH b").await, ["T", "D 1", "C FETCH 1", "Z I"]);
    assert_eq!(
        client.query("MOVE 996 a; FETCH ALL FROM a").await[2..],
        ["D 998", "D 999", "C FETCH 2", "Z I"]
    );
    assert_eq!(client.query("CLOSE a; CLOSE b; FETCH b").await[1..], ["C CLOSE CURSOR", "E 34000", "Z I"]);
    assert_eq!(client.query("DECLARE d CURSOR FOR SELECT 1").await, ["E 25P01", "Z I"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn portals_of_what_writes_have_no_rows_to_fetch() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.query("CREATE TABLE written (a INT)").await;
    for fetch in ["FETCH 1 FROM p", "MOVE p"] {
        client.query("BEGIN").await;
        client.parse("", "INSERT INTO written VALUES (1), (2)", &[]).await;
        client.bind("p", "", 0, &[]).await;
        client.send(b'S', &[]).await;
        assert_eq!(client.shown().await, ["1", "2", "Z T"]);
        assert_eq!(client.query(fetch).await, ["E 0A000", "Z E"], "{fetch}");
        client.query("ROLLBACK").await;
    }
    // A limit of rows is none of what is written.
    client.parse("", "INSERT INTO written VALUES (1), (2)", &[]).await;
    client.bind("p", "", 0, &[]).await;
    client.execute("p", 1).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["1", "2", "C INSERT 0 2", "Z I"]);
    assert_eq!(client.query("SELECT count(*) FROM written").await[1], "D 2");
}
