//! Portals and cursors whose clients do not come back for more rows.

use std::time::Duration;

use basalt_server::Memory;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{
    io::AsyncWriteExt as _,
    time::{sleep, timeout},
};

use super::client::*;

/// A statement that is no light one: it has a place among those that take long.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 1000) AS g(a)";

/// With as few places for answers as there may be.
async fn small() -> Server {
    filled(|config| config.memory = Memory::Bytes(256 << 20)).await
}

fn series(name: &str, from: u32, to: u32) -> String {
    format!(
        "DECLARE {name} CURSOR WITH HOLD FOR SELECT a FROM generate_series({from}, {to}) AS g(a) ORDER BY a;"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_cursors_of_few_rows_keep_nobody_out() {
    let server = small().await;
    let (mut client, mut other) = (Client::connect(&server).await, Client::connect(&server).await);
    for set in [&mut client, &mut other] {
        assert_eq!(set.query("SET statement_timeout = '20s'").await, ["C SET", "Z I"]);
    }
    // More than there are places and turns: some one by one, and some of one text.
    for n in 0..10 {
        assert_eq!(client.query(&series(&format!("a{n}"), n, n + 99)).await, ["C DECLARE CURSOR", "Z I"]);
    }
    let text: String = (0..20).map(|n| series(&format!("b{n}"), n, n + 99)).collect();
    let told = client.query(&text).await;
    assert_eq!((told.len(), told.last().unwrap().as_str()), (21, "Z I"), "{told:?}");
    sleep(Duration::from_millis(500)).await;
    for n in 0..10 {
        let light =
            format!("DECLARE c{n} CURSOR WITH HOLD FOR SELECT key FROM t WHERE key >= {n} ORDER BY key");
        assert_eq!(client.query(&light).await, ["C DECLARE CURSOR", "Z I"]);
    }
    assert_eq!(client.query("FETCH 2 FROM a3").await, ["T", "D 3", "D 4", "C FETCH 2", "Z I"]);
    assert_eq!(other.query(LONG).await, ["T", "D 1000", "C SELECT 1", "Z I"]);
    assert_eq!(other.query("SELECT count(*) FROM t").await, ["T", "D 1000", "C SELECT 1", "Z I"]);
    for (name, next, last) in [("a3", 5, 102), ("a9", 9, 108), ("b19", 19, 118), ("c7", 7, 999)] {
        let rows = client.query(&format!("FETCH ALL FROM {name}")).await;
        let mut expected: Vec<_> = (next..=last).map(|row| format!("D {row}")).collect();
        expected.insert(0, "T".to_owned());
        expected.extend([format!("C FETCH {}", last - next + 1), "Z I".to_owned()]);
        assert_eq!(rows, expected, "{name}");
        assert_eq!(client.query(&format!("FETCH {name}")).await, ["T", "C FETCH 0", "Z I"]);
    }
}

/// In pieces of any size, in both formats, with and without a while between them in which rows are taken ahead.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_there_once_and_in_order() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    let mut random = StdRng::seed_from_u64(7);
    for rows in [100_u32, 8192, 20_000, 200_000] {
        let sql = format!("SELECT CAST(a AS BIGINT) AS a FROM generate_series(1, {rows}) AS g(a) ORDER BY a");
        client.query(&format!("BEGIN; DECLARE c CURSOR FOR {sql}")).await;
        client.parse("", &sql, &[]).await;
        client.bind("p", "", 1, &[]).await;
        client.send(b'S', &[]).await;
        assert_eq!(client.shown().await, ["1", "2", "Z T"]);
        for name in ["c", "p"] {
            let mut before = 0;
            while before < rows {
                if random.random_range(0..3) == 0 {
                    sleep(Duration::from_millis(random.random_range(0..30))).await;
                }
                let most = random.random_range(1..=rows / 6);
                let (there, after) = (most.min(rows - before), rows.min(before + most));
                match (random.random_range(0..3), name) {
                    (0, _) => {
                        let told = client.query(&format!("MOVE {most} FROM {name}")).await;
                        assert_eq!(told, [format!("C MOVE {there}"), "Z T".to_owned()]);
                    }
                    (_, "c") => {
                        let told = client.query(&format!("FETCH {most} FROM c")).await;
                        assert_eq!(told[told.len() - 2..], [format!("C FETCH {there}"), "Z T".to_owned()]);
                        let expected: Vec<_> = (before + 1..=after).map(|row| format!("D {row}")).collect();
                        assert_eq!(told[1..told.len() - 2], expected);
                    }
                    _ => {
                        client.execute("p", most).await;
                        client.send(b'S', &[]).await;
                        let answer = client.answer().await;
                        let sent = answer.iter().filter(|(tag, _)| *tag == b'D');
                        let sent: Vec<_> = sent.map(|(_, body)| values(body)).collect();
                        let row = |row: u32| vec![Some(i64::from(row).to_be_bytes().to_vec())];
                        assert_eq!(sent, (before + 1..=after).map(row).collect::<Vec<_>>());
                    }
                }
                before = after;
            }
            assert_eq!(client.query(&format!("MOVE {name}")).await, ["C MOVE 0", "Z T"]);
        }
        assert_eq!(client.query("ROLLBACK").await, ["C ROLLBACK", "Z I"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn few_rows_outlive_their_deadline_and_later_writes() {
    let server = filled(|_| {}).await;
    let (mut client, mut other) = (Client::connect(&server).await, Client::connect(&server).await);
    client.query("SET statement_timeout = '500ms'; BEGIN").await;
    let declare = "DECLARE c CURSOR WITH HOLD FOR SELECT key FROM t ORDER BY key";
    assert_eq!(client.query(declare).await, ["C DECLARE CURSOR", "Z T"]);
    assert_eq!(client.query("FETCH 2 FROM c").await, ["T", "D 0", "D 1", "C FETCH 2", "Z T"]);
    assert_eq!(client.query("COMMIT").await, ["C COMMIT", "Z I"]);
    assert_eq!(other.query("DELETE FROM t WHERE key < 900").await, ["C DELETE 900", "Z I"]);
    assert_eq!(other.query("INSERT INTO t VALUES (1000, 'x')").await, ["C INSERT 0 1", "Z I"]);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(client.query("MOVE 3 FROM c").await, ["C MOVE 3", "Z I"]);
    let rows = client.query("FETCH ALL FROM c").await;
    let expected: Vec<_> = (5..1000).map(|row| format!("D {row}")).collect();
    assert_eq!(rows[1..rows.len() - 2], expected);
    assert_eq!(rows[rows.len() - 2..], ["C FETCH 995", "Z I"]);
}

/// What goes wrong behind rows that are there is told behind these.
#[tokio::test(flavor = "multi_thread")]
async fn errors_are_told_to_who_asks_for_more() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    let fails = "SELECT 1 / (20000 - a) FROM generate_series(1, 20000) AS g(a)";
    client.query(&format!("BEGIN; DECLARE c CURSOR FOR {fails}")).await;
    sleep(Duration::from_millis(300)).await;
    assert_eq!(client.query("FETCH ALL FROM c").await.last_chunk().unwrap(), &["E 22012", "Z E"]);
    assert_eq!(client.query("ROLLBACK; SELECT 1").await.last_chunk().unwrap(), &["C SELECT 1", "Z I"]);
}

/// Asks for what anybody may ask for, and takes no answer but in time.
async fn is_answered(server: &Server, name: &str) {
    let asked = async {
        let mut client = Client::connect(server).await;
        assert_eq!(client.query("SET statement_timeout = '30s'").await, ["C SET", "Z I"]);
        assert_eq!(client.query("SELECT 1").await, ["T", "D 1", "C SELECT 1", "Z I"]);
        assert_eq!(client.query(LONG).await, ["T", "D 1000", "C SELECT 1", "Z I"]);
        let made = client.query(&format!("CREATE TABLE {name} AS SELECT count(*) AS n FROM t")).await;
        assert_eq!(made, ["C SELECT 1", "Z I"]);
        assert_eq!(client.query(&format!("INSERT INTO {name} VALUES (1)")).await, ["C INSERT 0 1", "Z I"]);
    };
    timeout(Duration::from_secs(20), asked).await.unwrap_or_else(|_| panic!("{name}: not in time"));
}

/// The bytes of a message may come one by one, with a cursor or a portal open.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_have_begun_keep_nobody_out() {
    let server = filled(|config| (config.memory, config.threads) = (Memory::Bytes(256 << 20), 1)).await;
    let mut clients = Vec::new();
    for n in 0..12 {
        let mut client = Client::connect(&server).await;
        if n % 2 == 0 {
            let declare = "DECLARE c CURSOR WITH HOLD FOR SELECT key FROM t WHERE key = 7";
            client
                .stream
                .write_all(&[framed(b'Q', &text(declare)), vec![b'Q', 0, 0]].concat())
                .await
                .unwrap();
        } else {
            client.parse("", "SELECT key FROM t WHERE key = 7", &[]).await;
            client.bind("", "", 0, &[]).await;
            client.send(b'D', b"P\0").await;
            client.stream.write_all(b"H").await.unwrap();
        }
        clients.push(client);
    }
    sleep(Duration::from_millis(500)).await;
    is_answered(&server, "begun").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_without_rows_keep_nobody_out() {
    let server = small().await;
    let mut clients = Vec::new();
    for _ in 0..24 {
        let mut client = Client::connect(&server).await;
        client.send(b'Q', &text("COPY t FROM STDIN")).await;
        assert_eq!(message(&mut client.stream).await.unwrap().0, b'G');
        clients.push(client);
    }
    is_answered(&server, "copied").await;
    for client in &mut clients {
        client.send(b'd', b"5000\tlater\n").await;
        client.send(b'c', b"").await;
        assert_eq!(client.shown().await, ["C COPY 1", "Z I"]);
    }
    assert_eq!(
        clients[0].query("SELECT count(*) FROM t WHERE key = 5000").await,
        ["T", "D 24", "C SELECT 1", "Z I"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_keep_nobody_out() {
    let server = small().await;
    let mut clients = Vec::new();
    for n in 0..24 {
        let mut client = Client::connect(&server).await;
        let many = match n % 2 {
            0 => "SELECT a, repeat('x', 1000) FROM generate_series(1, 1000000) AS g(a)",
            _ => "SELECT a.*, b.* FROM t AS a, t AS b",
        };
        client.send(b'Q', &text(many)).await;
        clients.push(client);
    }
    sleep(Duration::from_secs(1)).await;
    is_answered(&server, "unread").await;
}

/// One of many rows has its place given to others.
#[tokio::test(flavor = "multi_thread")]
async fn cursors_of_many_rows_that_are_left_alone_make_room() {
    let server = small().await;
    let (mut client, mut other) = (Client::connect(&server).await, Client::connect(&server).await);
    for set in [&mut client, &mut other] {
        assert_eq!(set.query("SET statement_timeout = '40s'").await, ["C SET", "Z I"]);
    }
    let many = "SELECT a FROM generate_series(1, 10000000) AS g(a)";
    for n in 0..16 {
        let declare = format!("DECLARE c{n} CURSOR WITH HOLD FOR {many}");
        assert_eq!(client.query(&declare).await, ["C DECLARE CURSOR", "Z I"]);
        let told = client.query(&format!("FETCH c{n}")).await;
        assert_eq!(told.last_chunk().unwrap(), &["C FETCH 1", "Z I"]);
    }
    // Few rows need no place.
    assert_eq!(other.query(LONG).await, ["T", "D 1000", "C SELECT 1", "Z I"]);
    let more = other.query("SELECT a FROM generate_series(1, 200000) AS g(a)").await;
    assert_eq!(more.last_chunk().unwrap(), &["C SELECT 200000", "Z I"]);
    // Its connection sees to it within a second.
    sleep(Duration::from_secs(2)).await;
    assert_eq!(client.query("FETCH c0").await.last_chunk().unwrap(), &["E 57014", "Z I"]);
    assert_eq!(client.query("FETCH c15").await.last_chunk().unwrap(), &["C FETCH 1", "Z I"]);
}
