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

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_many_columns_mean_what_those_of_few_do() {
    let server = serve(|_| {}).await;
    let (mut client, mut other) = (Client::connect(&server).await, Client::connect(&server).await);
    for columns in [5, 40] {
        let table = format!("w{columns}");
        let count = format!("SELECT count(*) FROM {table}");
        let list = |of: fn(usize) -> String| (0..columns).map(of).collect::<Vec<_>>().join(", ");
        let names = list(|at| format!("c{at}"));
        let typed = list(|at| format!("c{at} BIGINT"));
        assert_eq!(other.query(&format!("CREATE TABLE {table} ({typed})")).await, ["C CREATE TABLE", "Z I"]);
        let insert = format!(
            "INSERT INTO {table} ({names}) VALUES ({})",
            list(|at| if at == 0 { "$1".to_owned() } else { at.to_string() })
        );
        let statement = format!("into_{table}");
        client.parse(&statement, &insert, &[20]).await;
        for key in ["1", "2", "nothing"] {
            client.insert(&statement, key).await;
        }
        client.send(b'S', &[]).await;
        assert_eq!(client.shown().await, ["1", "2", "C INSERT 0 1", "2", "C INSERT 0 1", "E 22P02", "Z I"]);
        assert_eq!(other.query(&count).await[1], "D 0", "{columns}");

        let statement = format!("once_{table}");
        client.parse(&statement, &format!("{insert} ON CONFLICT (c0) DO NOTHING"), &[20]).await;
        for _ in 0..2 {
            client.insert(&statement, "3").await;
        }
        client.send(b'S', &[]).await;
        assert_eq!(client.shown().await, ["1", "2", "C INSERT 0 1", "2", "C INSERT 0 0", "Z I"]);
        assert_eq!(other.query(&count).await[1], "D 1", "{columns}");

        client.send(b'Q', &text(&format!("COPY {table} ({names}) FROM STDIN"))).await;
        let row = (0..columns).map(|at| at.to_string()).collect::<Vec<_>>().join("\t");
        client.send(b'd', format!("{row}\n").as_bytes()).await;
        client.send(b'c', &[]).await;
        assert_eq!(client.shown().await, ["G", "C COPY 1", "Z I"], "{columns}");
        for of in [format!("{table} ({names})"), format!("(SELECT {names} FROM {table})")] {
            let told = client.query(&format!("COPY {of} TO STDOUT")).await;
            assert_eq!(told, ["H", "d", "d", "c", "C COPY 2", "Z I"], "{columns}");
        }
    }
}
