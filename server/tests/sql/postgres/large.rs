//! Large messages, large rows, and clients that leave them.

use std::time::Duration;

use basalt_server::Memory;
use tokio::{io::AsyncWriteExt as _, time::sleep};

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
    for _ in 0..3 {
        let mut client = Client::connect(&server).await;
        assert_eq!(client.query("SET statement_timeout = '120s'").await, ["C SET", "Z I"]);
        client.send(b'Q', &text(WIDE)).await;
        clients.push(client);
    }
    let mut now = before;
    for _ in 0..300 {
        sleep(Duration::from_millis(100)).await;
        now = held(&server).await;
        if now > before + (100 << 20) {
            break;
        }
    }
    assert!(now > before + (100 << 20), "{before} {now}");
    let mut other = Client::connect(&server).await;
    assert_eq!(other.query("SET statement_timeout = '10s'").await, ["C SET", "Z I"]);
    // Nothing of the row is told.
    assert_eq!(other.query(WIDE).await, ["T", "E 53200", "Z I"]);
    assert_eq!(other.query("SELECT 1").await, ["T", "D 1", "C SELECT 1", "Z I"]);
    for client in &mut clients {
        read(client).await;
    }
    other.send(b'Q', &text(WIDE)).await;
    read(&mut other).await;
    for _ in 0..100 {
        if held(&server).await < before + (8 << 20) {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("what was read counts still");
}

/// Drivers say goodbye before they close a connection, also while a statement runs.
#[tokio::test(flavor = "multi_thread")]
async fn who_goes_with_a_goodbye_is_gone() {
    let server = filled(|_| {}).await;
    let goodbye = |sql: &str| [framed(b'Q', &text(sql)), framed(b'X', &[])].concat();
    let api = basalt_client::Client::connect(&server.grpc).await.unwrap();
    let running = async || !api.running_queries().await.unwrap().queries.is_empty();
    let mut client = Client::connect(&server).await;
    client.stream.write_all(&goodbye(super::LONG)).await.unwrap();
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
    // What writes is done all the same.
    let mut client = Client::connect(&server).await;
    client.stream.write_all(&goodbye("INSERT INTO t VALUES (7000, 'goodbye')")).await.unwrap();
    drop(client);
    let mut other = Client::connect(&server).await;
    for _ in 0..100 {
        if other.query("SELECT text FROM t WHERE key = 7000").await[1] == "D goodbye" {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("it is not there");
}
