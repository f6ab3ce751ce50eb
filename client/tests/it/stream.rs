//! Answers as streams: whole, broken, and dropped half way.

use std::{pin::pin, time::Duration};

use basalt_client::Error;
use futures_util::{StreamExt as _, TryStreamExt as _, stream::FusedStream as _};

use super::{
    query::{batch, broken, header, trailer},
    server::{Script, Then},
};

#[tokio::test]
async fn batches_are_a_stream() {
    let queries = vec![vec![header(), batch(&[1, 2]), batch(&[]), batch(&[3]), trailer(3)]];
    let client = Script { queries, ..Default::default() }.start().await;
    let stream = client.query("t").stream().await.unwrap();
    let batches: Vec<_> = stream.try_collect().await.unwrap();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).collect::<Vec<_>>(), [2, 0, 1]);

    let mut stream = client.query("t").stream().await.unwrap();
    assert!(!stream.is_terminated() && stream.statistics().is_none());
    while stream.next().await.unwrap().is_some() {}
    assert!(stream.is_terminated() && stream.statistics().is_some());
    assert!(stream.next().await.unwrap().is_none());
}

#[tokio::test]
async fn a_broken_answer_never_looks_complete() {
    let queries = vec![vec![header(), batch(&[1]), broken()]];
    let client = Script { queries, ..Default::default() }.start().await;
    let stream = client.query("t").stream().await.unwrap();
    let items: Vec<_> = stream.map(|batch| batch.map(|batch| batch.num_rows())).collect().await;
    assert!(matches!(items.as_slice(), [Ok(1), Err(Error::Server(_))]), "{items:?}");

    let mut stream = client.query("t").stream().await.unwrap();
    assert!(stream.next().await.unwrap().is_some());
    assert!(matches!(stream.next().await, Err(Error::Server(_))));
    assert!(matches!(stream.next().await, Err(Error::Incomplete)));
    assert!(stream.statistics().is_none());
}

#[tokio::test]
async fn a_stream_that_is_dropped_stops_the_servers_work() {
    let queries = vec![vec![header(), batch(&[1])]];
    let script = Script { queries, then: Then::Stall, ..Default::default() };
    let client = script.clone().start().await;
    let mut stream = client.query("t").stream().await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().num_rows(), 1);
    {
        // One that waits is dropped as well.
        let next = pin!(stream.next());
        assert!(tokio::time::timeout(Duration::from_millis(20), next).await.is_err());
    }
    assert_eq!(script.calls_of("dropped"), 0);
    drop(stream);
    for _ in 0..200 {
        if script.calls_of("dropped") > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(script.calls_of("dropped"), 1);
    // The connection is as good as before.
    assert!(client.list_tables().await.is_ok());
}

#[tokio::test]
async fn the_deadline_passes_half_way() {
    let queries = vec![vec![header(), batch(&[1])]];
    let script = Script { queries, then: Then::Stall, ..Default::default() };
    let client = script.start().await.with_deadline(Duration::from_millis(50));
    let mut stream = client.query("t").stream().await.unwrap();
    assert!(stream.next().await.unwrap().is_some());
    assert!(matches!(stream.next().await, Err(Error::Deadline)));
}
