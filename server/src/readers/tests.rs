use std::time::Duration;

use basalt_core::error::ErrorKind;
use basalt_proto::v1 as pb;
use tokio::time::timeout;

use super::*;
use crate::{cpu::on_own_thread, environment::process};

fn piece() -> Piece {
    Piece::from([pb::QueryResponse::default()])
}

async fn next(reader: &Reader) -> Next {
    std::future::poll_fn(|context| reader.poll_next(context)).await
}

/// An answer that is as long as fits, and that nobody reads.
async fn unread(readers: &Arc<Readers>, connection: &Arc<Connection>) -> (Writer, Reader) {
    let slot = readers.admit(connection, Class::Long, Instant::now() + limits::QUEUE_TIMEOUT).await.unwrap();
    let (writer, reader) = readers.queue(slot, Stop::default());
    while !writer.is_full().unwrap() {
        writer.push(piece()).unwrap();
    }
    (writer, reader)
}

#[tokio::test]
async fn what_is_read_gets_on() {
    let readers = Readers::new(0, 1);
    let (writer, reader) = unread(&readers, &Connection::new()).await;
    let deadline = Instant::now() + limits::DEFAULT_DEADLINE;
    let written = on_own_thread(&process(), move |may_wait| {
        for _ in 0..100 {
            writer.wait(may_wait, deadline).unwrap();
            writer.push(piece()).unwrap();
        }
        writer.end(Ok((piece(), (7, 8))));
    });
    let mut messages = 0;
    let counts = loop {
        match next(&reader).await {
            Next::Message(_) => messages += 1,
            Next::End(counts) => break counts,
            Next::Failed(error) => panic!("{error:?}"),
        }
    };
    written.await.unwrap();
    assert_eq!((messages, counts), (limits::WAITING_PIECES + 101, (7, 8)));
}

#[tokio::test]
async fn a_query_whose_thread_is_gone_has_failed() {
    let readers = Readers::new(0, 1);
    let (writer, reader) = unread(&readers, &Connection::new()).await;
    drop(writer);
    for _ in 0..limits::WAITING_PIECES {
        assert!(matches!(next(&reader).await, Next::Message(_)));
    }
    assert!(matches!(next(&reader).await, Next::Failed(error) if error.reason() == "INTERNAL"));
}

#[tokio::test]
async fn the_unread_make_room_for_those_who_wait() {
    let readers = Readers::new(0, 1);
    let (hoarder, other) = (Connection::new(), Connection::new());
    let (slots, _) = limits::WAITING_ANSWERS;
    let mut held = Vec::new();
    held.push(unread(&readers, &other).await);
    for _ in 1..slots {
        held.push(unread(&readers, &hoarder).await);
    }
    let deadline = Instant::now() + limits::DEFAULT_DEADLINE;
    let slot =
        timeout(limits::UNREAD_TIMEOUT * 2, readers.admit(&Connection::new(), Class::Long, deadline)).await;
    slot.expect("no slot").unwrap();
    // The oldest is left alone: its connection has one only.
    assert!(held[0].0.is_full().unwrap());
    let (writer, reader) = &held[1];
    assert_eq!(writer.is_full().unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    assert!(writer.queue.is_empty(), "what is given up holds nothing");
    assert!(matches!(next(reader).await, Next::Failed(error) if error.reason() == "DEADLINE_EXCEEDED"));
    assert!(!hoarder.closed().is_cancelled());
}

#[tokio::test]
async fn a_connection_that_leaves_many_answers_is_closed() {
    let readers = Readers::new(0, 1);
    let (hoarder, reading) = (Connection::new(), Connection::new());
    let mut held = Vec::new();
    for connection in [&hoarder, &reading] {
        for _ in 0..=limits::CONNECTION_ABANDONED {
            let (writer, reader) = unread(&readers, connection).await;
            readers.give_up(&writer.queue);
            if connection.id() == hoarder.id() {
                held.push(reader);
            }
        }
    }
    assert!(hoarder.closed().is_cancelled() && !reading.closed().is_cancelled());
}

/// Of portals whose clients have not come back.
#[cfg(feature = "sql")]
#[tokio::test(start_paused = true)]
async fn what_was_left_alone_makes_room_in_a_while() {
    let readers = Readers::new(0, 1);
    let (hoarder, other) = (Connection::new(), Connection::new());
    let deadline = Instant::now() + limits::DEFAULT_DEADLINE;
    let (slots, _) = limits::WAITING_ANSWERS;
    let mut left = Vec::new();
    for n in 0..slots {
        let connection = if n == 0 { &other } else { &hoarder };
        left.push(readers.leave(readers.admit(connection, Class::Long, deadline).await.unwrap()));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    // It goes on.
    let slot = left[1].back().unwrap();
    let soon = Instant::now() + limits::LEFT_TIMEOUT / 2;
    readers.admit(&Connection::new(), Class::Long, soon).await.unwrap_err();
    tokio::time::advance(limits::LEFT_TIMEOUT).await;
    let _slot = readers.admit(&Connection::new(), Class::Long, deadline).await.unwrap();
    // The oldest is left alone: its connection has one only.
    let given_up: Vec<_> = (0..slots).filter(|n| left[*n].is_given_up()).collect();
    assert_eq!(given_up, [1, 2], "the first of these was not given up: it was taken back");
    assert!(left[2].back().is_none() && left[3].back().is_some());
    drop(slot);
}

#[test]
fn small_answers_are_counted_together() {
    let readers = Readers::new(limits::ANSWERS_MEMORY_PART * 3 * limits::LIGHT_ANSWER_BYTES, 1);
    let pool = Arc::new(MemoryPool::new(u64::MAX));
    let kept: Vec<_> = (0..3).map(|_| readers.keep(limits::LIGHT_ANSWER_BYTES, &pool).unwrap()).collect();
    assert!(readers.keep(limits::LIGHT_ANSWER_BYTES, &pool).is_none());
    assert!(readers.keep(limits::UNCOUNTED_ANSWER_BYTES, &pool).is_some());
    drop(kept);
    assert_eq!(readers.kept.load(Ordering::Relaxed), 0);
    assert!(readers.keep(limits::LIGHT_ANSWER_BYTES, &pool).is_some());
    assert_eq!(pool.held(), 0);
    #[cfg(feature = "sql")]
    {
        let mut kept = readers.keep(limits::LIGHT_ANSWER_BYTES, &pool).unwrap();
        let _other = readers.keep(limits::LIGHT_ANSWER_BYTES, &pool).unwrap();
        assert!(kept.set(limits::LIGHT_ANSWER_BYTES * 2) && !kept.set(limits::LIGHT_ANSWER_BYTES * 3));
        assert!(kept.set(0) && kept.set(limits::LIGHT_ANSWER_BYTES * 2));
    }
    assert_eq!((readers.kept.load(Ordering::Relaxed), pool.held()), (0, 0));
    // Where there is no memory none is kept.
    let pool = Arc::new(MemoryPool::new(limits::LIGHT_ANSWER_BYTES));
    let _kept = readers.keep(limits::LIGHT_ANSWER_BYTES, &pool).unwrap();
    assert!(readers.keep(limits::LIGHT_ANSWER_BYTES, &pool).is_none());
}

#[tokio::test]
async fn an_answer_that_waits_holds_its_memory() {
    let (readers, connection) = (Readers::new(0, 1), Connection::new());
    let pool = Arc::new(MemoryPool::new(limits::ANSWER_SLOT_BYTES as u64 * 3 / 2));
    let soon = || Instant::now() + Duration::from_millis(200);
    let slot = readers.admit(&connection, Class::Long, soon()).await.unwrap();
    let slot = slot.with_memory(&pool, soon()).await.unwrap();
    assert_eq!(pool.used(Consumer::Answers), limits::ANSWER_SLOT_BYTES as u64);
    let other = readers.admit(&connection, Class::Long, soon()).await.unwrap();
    let error = other.with_memory(&pool, soon()).await.unwrap_err();
    assert_eq!(error.reason(), "MEMORY_LIMIT");
    drop(slot);
    assert_eq!(pool.used(Consumer::Answers), 0);
}

#[tokio::test]
async fn a_connection_waits_for_itself_first() {
    let readers = Readers::new(u64::MAX, 1);
    let (hoarder, deadline) = (Connection::new(), Instant::now() + Duration::from_millis(300));
    let mut held = Vec::new();
    for _ in 0..limits::CONNECTION_ANSWERS {
        held.push(unread(&readers, &hoarder).await);
    }
    // A short query of the same connection does not wait for long answers.
    readers.admit(&hoarder, Class::Short, deadline).await.unwrap();
    let error = readers.admit(&hoarder, Class::Long, deadline).await.unwrap_err();
    assert_eq!(error.reason(), "DEADLINE_EXCEEDED");
    unread(&readers, &Connection::new()).await;
}
