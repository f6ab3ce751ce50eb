//! What is inserted between two Syncs.

use super::client::*;

impl Client {
    /// Inserts a row by a prepared statement, without a Sync.
    async fn insert(&mut self, statement: &str, key: &str) {
        self.bind("", statement, 0, &[Some(key.as_bytes())]).await;
        self.execute("", 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_one_commit_or_nothing() {
    let server = filled(|_| {}).await;
    let (mut client, mut other) = (Client::connect(&server).await, Client::connect(&server).await);
    let count = "SELECT count(*) FROM t WHERE key >= 1000";
    let version = "SELECT version FROM system.tables WHERE name = 't'";
    client.parse("into_t", "INSERT INTO t (key) VALUES ($1)", &[20]).await;
    let before: i64 = other.query(version).await[1][2..].parse().unwrap();
    for key in 1000..1100 {
        client.insert("into_t", &key.to_string()).await;
    }
    client.send(b'S', &[]).await;
    let told = client.shown().await;
    assert_eq!(told.iter().filter(|message| *message == "C INSERT 0 1").count(), 100);
    assert_eq!(told.last().unwrap(), "Z I");
    assert_eq!(other.query(count).await[1], "D 100");
    let after: i64 = other.query(version).await[1][2..].parse().unwrap();
    assert_eq!(after, before + 1);

    // One that fails takes the others with it; what comes behind it is passed over.
    for key in ["2000", "2001", "nothing", "2002"] {
        client.insert("into_t", key).await;
    }
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["2", "C INSERT 0 1", "2", "C INSERT 0 1", "E 22P02", "Z I"]);
    assert_eq!(other.query(count).await[1], "D 100");

    // Other statements see what came before them, and are each for themselves.
    client.parse("count", count, &[]).await;
    client.parse("away", "DELETE FROM t WHERE key = $1", &[20]).await;
    client.insert("into_t", "3000").await;
    client.bind("", "count", 0, &[]).await;
    client.execute("", 0).await;
    client.insert("into_t", "3001").await;
    client.insert("away", "3000").await;
    client.insert("into_t", "nothing").await;
    client.send(b'S', &[]).await;
    let told = client.shown().await;
    let expected = [
        "1",
        "1",
        "2",
        "C INSERT 0 1",
        "2",
        "D 101",
        "C SELECT 1",
        "2",
        "C INSERT 0 1",
        "2",
        "C DELETE 1",
        "E 22P02",
    ];
    assert_eq!(told[..12], expected);
    assert_eq!(other.query(count).await[1], "D 101");

    // Whoever asks for the answers without a Sync has them committed; whoever goes has inserted nothing.
    client.insert("into_t", "4000").await;
    client.send(b'H', &[]).await;
    let told = [message(&mut client.stream).await.unwrap(), message(&mut client.stream).await.unwrap()];
    assert_eq!(told.each_ref().map(shown), ["2", "C INSERT 0 1"]);
    assert_eq!(other.query(count).await[1], "D 102");
    client.insert("into_t", "4001").await;
    drop(client);
    assert_eq!(other.query(count).await[1], "D 102");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_cannot_be_committed_is_told_to_be_nothing() {
    let server = filled(|_| {}).await;
    let (mut client, mut other) = (Client::connect(&server).await, Client::connect(&server).await);
    other.query("CREATE TABLE u (a BIGINT)").await;
    client.parse("into_u", "INSERT INTO u VALUES ($1)", &[20]).await;
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["1", "Z I"]);
    client.insert("into_u", "1").await;
    client.insert("into_u", "2").await;
    // They have been inserted, and not been committed.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(other.query("DROP TABLE u").await, ["C DROP TABLE", "Z I"]);
    client.send(b'S', &[]).await;
    assert_eq!(client.shown().await, ["2", "E 42P01", "Z I"]);
    assert_eq!(client.query("SELECT 1").await[1], "D 1");
}
