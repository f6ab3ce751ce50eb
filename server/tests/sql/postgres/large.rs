//! Large messages, large rows, and clients that leave them.

use std::time::Duration;

use basalt_server::Memory;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::{sleep, timeout},
};

use super::client::*;

/// Bytes that the server holds.
async fn held(server: &Server) -> u64 {
    let client = basalt_client::Client::connect(&server.grpc).await.unwrap();
    client.cluster().await.unwrap().nodes[0].memory_bytes
}

async fn copies(client: &mut Client) {
    client.send(b'Q', &text("COPY t FROM STDIN")).await;
    assert_eq!(message(&mut client.stream).await.unwrap().0, b'G');
}

/// A message counts as it comes, and not at all where nobody asks for it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_announced_takes_nothing() {
    let server = filled(|config| config.memory = Memory::Bytes(256 << 20)).await;
    let before = held(&server).await;
    let mut clients = Vec::new();
    for n in 0..8 {
        let mut client = Client::connect(&server).await;
        if n % 2 == 0 {
            copies(&mut client).await;
        }
        let length = (60_u32 << 20).to_be_bytes();
        client.stream.write_all(&[&b"d"[..], &length].concat()).await.unwrap();
        clients.push(client);
    }
    sleep(Duration::from_secs(1)).await;
    let now = held(&server).await;
    assert!(now < before + (64 << 20), "{before} {now}");
    drop(clients);

    let mut client = Client::connect(&server).await;
    client.send(b'd', &vec![b'x'; 40 << 20]).await;
    for (tag, body) in [(b'd', &b"x"[..]), (b'c', b""), (b'f', b"why\0")] {
        client.send(tag, body).await;
    }
    assert_eq!(client.query("SELECT 1").await, ["T", "D 1", "C SELECT 1", "Z I"]);
    // Rows of one message.
    copies(&mut client).await;
    client.send(b'd', "5000\tlater\n".repeat(100_000).as_bytes()).await;
    client.send(b'c', &[]).await;
    assert_eq!(client.shown().await, ["C COPY 100000", "Z I"]);
    // Those that come behind the end of a COPY that has failed.
    copies(&mut client).await;
    client.send(b'd', b"no number\tx\n").await;
    for _ in 0..3 {
        client.send(b'd', "5000\tlater\n".repeat(100_000).as_bytes()).await;
    }
    client.send(b'c', &[]).await;
    let told = client.shown().await;
    assert!(told[0].starts_with("E 22") && told[1] == "Z I", "{told:?}");
    assert_eq!(
        client.query("SELECT count(*) FROM t WHERE key = 5000").await,
        ["T", "D 100000", "C SELECT 1", "Z I"]
    );
}

const WIDE: &str = "SELECT repeat('x', 40000000)";

/// Reads the answer of [`WIDE`].
async fn read(client: &mut Client) {
    let answer = client.answer().await;
    assert_eq!(answer.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), b"TDCZ");
    assert_eq!(answer[1].1.len(), 2 + 4 + 40_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn wide_rows_that_nobody_reads_count() {
    let server = filled(|config| config.memory = Memory::Bytes(128 << 20)).await;
    let before = held(&server).await;
    let mut clients = Vec::new();
    for n in 1..=3 {
        let mut client = Client::connect(&server).await;
        assert_eq!(client.query("SET statement_timeout = '120s'").await, ["C SET", "Z I"]);
        client.send(b'Q', &text(WIDE)).await;
        clients.push(client);
        let mut begins = 0;
        while held(&server).await < before + n * (30 << 20) {
            begins += 1;
            assert!(begins < 1000, "{n}: {before} {}", held(&server).await);
            sleep(Duration::from_millis(10)).await;
        }
    }
    // Where there is no memory for them they are there for whoever takes them.
    let mut other = Client::connect(&server).await;
    other.send(b'Q', &text(WIDE)).await;
    read(&mut other).await;
    let mut silent = Client::connect(&server).await;
    silent.send(b'Q', &text(WIDE)).await;
    // It begins, and is cut off.
    let api = basalt_client::Client::connect(&server.grpc).await.unwrap();
    let running = async || api.running_queries().await.unwrap().queries.len();
    for wanted in [4, 3] {
        let mut waits = 0;
        while running().await != wanted {
            waits += 1;
            assert!(waits < 1000, "{wanted} do not run");
            sleep(Duration::from_millis(10)).await;
        }
    }
    let mut taken = Vec::new();
    let _ = silent.stream.read_to_end(&mut taken).await;
    assert!(taken.len() < 40_000_000, "{}", taken.len());
    for client in &mut clients {
        read(client).await;
    }
    for _ in 0..100 {
        if held(&server).await < before + (8 << 20) {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("what was read counts still");
}

/// What each of them holds comes free as it is sent.
#[tokio::test(flavor = "multi_thread")]
async fn who_reads_wide_rows_waits_for_nobody() {
    let server = filled(|config| config.memory = Memory::Bytes(128 << 20)).await;
    let rows = "SELECT repeat('x', 2000000), a FROM generate_series(1, 20) AS g(a)";
    let mut clients = Vec::new();
    for n in 0..4 {
        let mut client = Client::connect(&server).await;
        let (sql, begins) = match n {
            0 => (format!("COPY ({rows}) TO STDOUT"), b'H'),
            _ => (rows.to_owned(), b'T'),
        };
        clients.push(tokio::spawn(async move {
            client.send(b'Q', &text(&sql)).await;
            let answer = client.answer().await;
            assert_eq!(answer[0].0, begins);
            let rows = answer.iter().filter(|(_, body)| body.len() > 2_000_000);
            assert_eq!(rows.count(), 20);
            assert_eq!(shown(&answer[answer.len() - 1]), "Z I");
        }));
    }
    for client in clients {
        timeout(Duration::from_secs(25), client).await.unwrap().unwrap();
    }
}

/// It ends also where the next rows are always there.
#[tokio::test(flavor = "multi_thread")]
async fn rows_without_end_end_with_their_deadline() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    assert_eq!(client.query("SET statement_timeout = '500ms'").await, ["C SET", "Z I"]);
    let rows = "SELECT a FROM generate_series(1, 10000000000) AS g(a)";
    let told = timeout(Duration::from_secs(15), client.query(rows)).await.unwrap();
    assert_eq!(told.last_chunk().unwrap(), &["E 57014", "Z I"]);
}

/// Drivers say goodbye before they close a connection, also while a statement runs.
#[tokio::test(flavor = "multi_thread")]
async fn who_goes_with_a_goodbye_is_gone() {
    let server = filled(|_| {}).await;
    let asked = |sql: &str| framed(b'Q', &text(sql));
    let bound = |sql: &str| {
        let parse = framed(b'P', &[text(""), text(sql), vec![0; 2]].concat());
        let bind = framed(b'B', &[text(""), text(""), vec![0; 6]].concat());
        let execute = framed(b'E', &[text(""), vec![0; 4]].concat());
        [parse, bind, execute, framed(b'S', &[])].concat()
    };
    let goodbye = framed(b'X', &[]);
    let api = basalt_client::Client::connect(&server.grpc).await.unwrap();
    let running = async || !api.running_queries().await.unwrap().queries.is_empty();
    for asks in [asked(super::LONG), bound(super::LONG)] {
        let mut client = Client::connect(&server).await;
        client.stream.write_all(&[asks, goodbye.clone()].concat()).await.unwrap();
        let mut begins = 0;
        while !running().await {
            begins += 1;
            assert!(begins < 1000, "it does not run");
            sleep(Duration::from_millis(10)).await;
        }
        drop(client);
        let mut ends = 0;
        while running().await {
            ends += 1;
            assert!(ends < 1000, "it runs for nobody");
            sleep(Duration::from_millis(10)).await;
        }
    }
    // What writes is done all the same, also behind what reads, and before that where both are one commit.
    let insert = |key: u32| format!("INSERT INTO t VALUES ({key}, 'goodbye')");
    let reads = "SELECT count(*) FROM generate_series(1, 1000) AS g(a)";
    for asks in [
        asked(&insert(7000)),
        asked(&format!("{reads}; {}", insert(7001))),
        [asked(reads), asked(&insert(7002))].concat(),
        [bound(reads), bound(&insert(7003))].concat(),
        asked(&format!("{}; {}; {reads}", insert(7004), insert(7005))),
    ] {
        let mut client = Client::connect(&server).await;
        client.stream.write_all(&[asks, goodbye.clone()].concat()).await.unwrap();
    }
    let mut other = Client::connect(&server).await;
    let mut told = Vec::new();
    for _ in 0..200 {
        told = other.query("SELECT key FROM t WHERE text = 'goodbye' ORDER BY key").await;
        if told.len() == 1 + 6 + 2 {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("it is not there: {told:?}");
}
