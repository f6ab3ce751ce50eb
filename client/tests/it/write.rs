use std::sync::{Arc, Mutex};

use arrow_array::{Int64Array, RecordBatch, StringArray};
use basalt_client::{
    Error, Progress, WriteOptions,
    proto::{self as pb, WriteRequest, write_request, write_response},
};
use prost::Message as _;
use tokio::sync::mpsc::Sender;
use tonic::{Code, Status, Streaming};

use super::server::{Script, status};

const LIMIT: usize = 10_000;
const WINDOW: usize = 25_000;

/// What a server saw of one write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) request_id: String,
    columns: Vec<String>,
    batches: u64,
    rows: u64,
    largest_message: usize,
    largest_flight: usize,
}

/// How a scripted server takes a write.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Play {
    /// To its end.
    Commit,
    /// Fails at the third batch.
    FailAt3(Code, &'static str),
    /// Commits, and the answer gets lost.
    LoseAnswer,
    /// Acknowledges what was not sent.
    WrongAck,
}

async fn play(
    play: Play,
    mut requests: Streaming<WriteRequest>,
    responses: Sender<Result<pb::WriteResponse, Status>>,
    seen: Arc<Mutex<Vec<Seen>>>,
) {
    let answer = async |kind| {
        let _ = responses.send(Ok(pb::WriteResponse { kind: Some(kind) })).await;
    };
    let mut this = Seen::default();
    let mut unacknowledged: Vec<(u64, usize)> = Vec::new();
    while let Ok(Some(request)) = requests.message().await {
        let bytes = request.encoded_len();
        this.largest_message = this.largest_message.max(bytes);
        match request.kind.unwrap() {
            write_request::Kind::Open(open) => {
                (this.request_id, this.columns) = (open.request_id, open.columns);
                let schema = Some(pb::Schema::default());
                answer(write_response::Kind::Opened(pb::Opened { schema, window_bytes: WINDOW as u64 }))
                    .await;
            }
            write_request::Kind::Batch(batch) => {
                this.batches += 1;
                assert_eq!(batch.sequence, this.batches);
                let Some(pb::batch::Rows::Columns(rows)) = batch.rows else { panic!("no rows") };
                this.rows += u64::from(rows.rows);
                unacknowledged.push((batch.sequence, bytes));
                let flight: usize = unacknowledged.iter().map(|(_, bytes)| bytes).sum();
                this.largest_flight = this.largest_flight.max(flight);
                match play {
                    Play::FailAt3(code, reason) if this.batches == 3 => {
                        let _ = responses.send(Err(status(code, reason))).await;
                        break;
                    }
                    Play::WrongAck => {
                        answer(write_response::Kind::Ack(pb::Ack { sequence: 99, rows: 0 })).await;
                    }
                    // Late: when hardly anything fits the window any more.
                    _ if flight + LIMIT > WINDOW => {
                        for (sequence, _) in unacknowledged.drain(..) {
                            answer(write_response::Kind::Ack(pb::Ack { sequence, rows: this.rows })).await;
                        }
                    }
                    _ => {}
                }
            }
            write_request::Kind::Commit(commit) => {
                assert_eq!((commit.batches, commit.rows), (this.batches, this.rows));
                if play == Play::LoseAnswer {
                    let _ = responses.send(Err(Status::unavailable("gone"))).await;
                    break;
                }
                let replayed = !seen.lock().unwrap().is_empty();
                let committed = pb::Committed { version: 1, rows: this.rows, replayed, replaced: None };
                for (sequence, _) in unacknowledged.drain(..) {
                    answer(write_response::Kind::Ack(pb::Ack { sequence, rows: this.rows })).await;
                }
                answer(write_response::Kind::Committed(committed)).await;
            }
        }
    }
    seen.lock().unwrap().push(this);
}

/// A server that plays one write after the other, the last again and again.
pub(crate) fn script(plays: Vec<Play>) -> (Script, Arc<Mutex<Vec<Seen>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&seen);
    let write = move |call: usize, requests, responses| {
        let this = plays[call.min(plays.len() - 1)];
        tokio::spawn(play(this, requests, responses, Arc::clone(&shared)));
    };
    let limits = pb::Limits { message_bytes: LIMIT as u64, batch_rows: 700, ..Default::default() };
    (Script { limits, write: Arc::new(write), ..Default::default() }, seen)
}

/// Rows whose texts are short at first and long at the end.
pub(crate) fn rows() -> RecordBatch {
    let texts: Vec<_> = (0..2000).map(|i| "x".repeat(if i < 1900 { 3 } else { 900 })).collect();
    RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from_iter_values(0..2000)) as _),
        ("text", Arc::new(StringArray::from(texts)) as _),
    ])
    .unwrap()
}

#[tokio::test]
async fn messages_and_windows_keep_their_limits() {
    let (script, seen) = script(vec![Play::Commit]);
    let client = script.start().await;
    let mut writer = client.write("t", WriteOptions::default()).await.unwrap();
    let progress = Arc::new(Mutex::new(Vec::<Progress>::new()));
    let shared = Arc::clone(&progress);
    writer.on_progress(move |p| shared.lock().unwrap().push(p));
    for _ in 0..3 {
        writer.send(&rows()).await.unwrap();
    }
    let committed = writer.commit().await.unwrap();
    assert_eq!((committed.rows, committed.version, committed.replayed), (6000, 1, false));

    let progress = progress.lock().unwrap().clone();
    let last = progress.last().unwrap();
    assert_eq!((last.rows_sent, last.rows_acknowledged), (6000, 6000));
    assert!(progress.is_sorted_by_key(|p| (p.rows_sent, p.rows_acknowledged)));
    // The server notes a write when its stream has ended.
    drop(client);
    let seen = wait(&seen, 1).await;
    assert!(seen[0].largest_message <= LIMIT && seen[0].largest_flight <= WINDOW, "{seen:?}");
    assert!(seen[0].largest_flight > LIMIT, "the window is used: {seen:?}");
    assert!(seen[0].batches < 120, "messages are not small: {seen:?}");
}

async fn wait(seen: &Mutex<Vec<Seen>>, writes: usize) -> Vec<Seen> {
    loop {
        let now = seen.lock().unwrap().clone();
        if now.len() >= writes {
            return now;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_broken_write_is_repeated_under_its_id() {
    let unavailable = Play::FailAt3(Code::Unavailable, "SHUTTING_DOWN");
    let in_progress = Play::FailAt3(Code::Aborted, "REQUEST_IN_PROGRESS");
    for plays in [[unavailable, Play::LoseAnswer, Play::Commit], [in_progress, in_progress, Play::Commit]] {
        let (script, seen) = script(plays.to_vec());
        let committed = script.start().await.write_all("t", &[rows(), rows()]).await.unwrap();
        assert_eq!(committed.rows, 4000);
        let seen = wait(&seen, 3).await;
        assert_eq!(seen.len(), 3);
        assert!(!seen[0].request_id.is_empty());
        assert!(seen.iter().all(|s| s.request_id == seen[0].request_id && s.columns == ["n", "text"]));
    }
}

#[tokio::test]
async fn what_the_server_objects_to_ends_the_write() {
    let (script, seen) = script(vec![Play::FailAt3(Code::InvalidArgument, "INVALID_BATCH")]);
    let error = script.start().await.write_all("t", &[rows()]).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid_batch (INVALID_BATCH)");
    assert_eq!(wait(&seen, 1).await.len(), 1);
}

#[tokio::test]
async fn tries_end() {
    let (script, seen) = script(vec![Play::FailAt3(Code::Unavailable, "SHUTTING_DOWN")]);
    let error = script.start().await.write_all("t", &[rows()]).await.unwrap_err();
    assert_eq!(error.to_string(), "shutting_down (SHUTTING_DOWN)");
    assert_eq!(wait(&seen, 3).await.len(), 3);
}

#[tokio::test]
async fn nonsense_is_an_error() {
    let (script, _) = script(vec![Play::WrongAck]);
    let error = script.start().await.write_all("t", &[rows()]).await.unwrap_err();
    assert_eq!(error.to_string(), "the server's answer is malformed: batch 99 acknowledged, not 1");
}

#[tokio::test]
async fn rows_that_cannot_be_sent() {
    let (script, _) = script(vec![Play::Commit]);
    let client = script.start().await;
    let long = StringArray::from(vec!["short".to_owned(), "x".repeat(LIMIT)]);
    let batch = RecordBatch::try_from_iter([("text", Arc::new(long) as _)]).unwrap();
    let error = client.write_all("t", &[batch]).await.unwrap_err();
    assert!(matches!(&error, Error::InvalidBatch(m) if m.starts_with("one row takes 10")), "{error}");

    let other = RecordBatch::try_from_iter([("m", Arc::new(Int64Array::from(vec![1])) as _)]).unwrap();
    let error = client.write_all("t", &[rows(), other]).await.unwrap_err();
    assert_eq!(error.to_string(), "batches of different columns: [\"n\", \"text\"] and [\"m\"]");
}
