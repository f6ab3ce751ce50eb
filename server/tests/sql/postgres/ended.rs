//! What a client is told of statements that were cancelled, or whose time was over.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::time::sleep;

use super::client::*;

/// More rows than are taken before they are asked for.
const MANY: &str = "SELECT a FROM generate_series(1, 10000000) AS g(a)";

/// Rows that were given up are not all that there were, whatever the client asks next.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_were_given_up_have_no_end() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.query("SET statement_timeout = '300ms'; BEGIN").await;
    client.parse("", MANY, &[]).await;
    client.bind("", "", 0, &[]).await;
    client.execute("", 2).await;
    client.send(b'H', &[]).await;
    sleep(Duration::from_millis(1500)).await;
    client.execute("", 2).await;
    client.send(b'S', &[]).await;
    let told = client.shown().await;
    assert_eq!(told.last_chunk().unwrap(), &["s", "E 57014", "Z E"], "{told:?}");

    client.query(&format!("ROLLBACK; BEGIN; DECLARE c CURSOR FOR {MANY}")).await;
    assert_eq!(client.query("FETCH 2 FROM c").await.last_chunk().unwrap(), &["C FETCH 2", "Z T"]);
    sleep(Duration::from_millis(1500)).await;
    let told = client.query("FETCH 2 FROM c").await;
    assert_eq!(told.last_chunk().unwrap(), &["E 57014", "Z E"], "{told:?}");
}

/// A request to cancel is one for what runs when it comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_is_cancelled_while_rows_of_it_are_fetched() {
    let server = filled(|_| {}).await;
    let mut client = Client::connect(&server).await;
    client.query("BEGIN; DECLARE c CURSOR FOR SELECT key FROM t").await;
    client.cancel(&server, &client.key).await;
    assert_eq!(client.query("FETCH 1 FROM c").await.last_chunk().unwrap(), &["C FETCH 1", "Z T"]);
    client.query("ROLLBACK; BEGIN").await;
    client.query(&format!("DECLARE d CURSOR FOR {}", super::LONG)).await;
    client.query("SELECT 1").await;
    client.send(b'Q', &text("FETCH 1 FROM d")).await;
    sleep(Duration::from_millis(300)).await;
    client.cancel(&server, &client.key).await;
    assert_eq!(client.shown().await.last_chunk().unwrap(), &["E 57014", "Z E"]);
}

/// Whoever is told that a statement was cancelled makes it again: nothing of it may be there.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_to_be_cancelled_is_not_there() {
    let server = filled(|_| {}).await;
    let (mut client, mut other) = (Client::connect(&server).await, Client::connect(&server).await);
    let mut random = StdRng::seed_from_u64(1);
    client.query("CREATE TABLE c (a BIGINT)").await;
    let (mut there, mut refused) = (Vec::new(), 0);
    for row in 0..120 {
        let by_time = row % 2 == 0;
        let after = random.random_range(0..20);
        if by_time {
            client.query(&format!("SET statement_timeout = {}", after + 1)).await;
        } else {
            client.query("RESET statement_timeout").await;
        }
        client.send(b'Q', &text(&format!("INSERT INTO c VALUES ({row})"))).await;
        if !by_time {
            sleep(Duration::from_millis(after)).await;
            client.cancel(&server, &client.key).await;
        }
        match client.shown().await[0].as_str() {
            "C INSERT 0 1" => there.push(format!("D {row}")),
            "E 57014" => refused += 1,
            told => panic!("{told}"),
        }
    }
    assert!(!there.is_empty(), "{refused} were refused");
    let mut rows = other.query("SELECT a FROM c ORDER BY a").await;
    rows.retain(|message| message.starts_with("D "));
    assert_eq!(rows, there, "{refused} were refused");
}
