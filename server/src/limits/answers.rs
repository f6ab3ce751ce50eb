//! Limits of answers that wait for their readers.

use std::time::Duration;

use super::ANSWER_MESSAGE_BYTES;

/// Pieces of an answer, of about [`ANSWER_MESSAGE_BYTES`], that may wait for the client to read them.
pub const WAITING_PIECES: usize = 4;
/// What waits for a reader, at most: the pieces of the queue, the one that is on its way, and the one that is made.
pub const ANSWER_SLOT_BYTES: usize = (WAITING_PIECES + 2) * ANSWER_MESSAGE_BYTES;
/// How long a client may leave a full queue of pieces unread before its query is given up.
pub const SLOW_READER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection of PostgreSQL's clients or of HTTP may take nothing of what is sent: the system says that there is room
/// again when there is much, which takes a slow client a while.
pub const STALLED_TIMEOUT: Duration = Duration::from_secs(60);
/// The same of a connection with large rows on their way for which there is no memory: that comes free as they are taken.
pub const UNCOUNTED_STALLED_TIMEOUT: Duration = Duration::from_secs(5);
/// Answers that may wait for their readers, at least and at most: see [`ANSWERS_MEMORY_PART`].
pub const WAITING_ANSWERS: (usize, usize) = (16, 256);
/// Of short queries there may be this part of as many, beside those of long ones.
pub const SHORT_ANSWERS_PART: usize = 4;
/// They may hold this part of the memory limit, on top; each may hold two pieces more than may wait.
pub const ANSWERS_MEMORY_PART: u64 = 8;
/// Answers of one connection, of each class of queries, that may wait for their readers.
pub const CONNECTION_ANSWERS: usize = 32;
/// An answer of which nothing was read for this long is given up when other queries wait for its slot.
pub const UNREAD_TIMEOUT: Duration = Duration::from_secs(1);
/// The same of a portal whose client has asked for no more rows of it for this long.
pub const LEFT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a query that waits for a slot looks for such answers.
pub const UNREAD_INTERVAL: Duration = Duration::from_millis(100);
/// Answers of one connection that were given up and of which it has not taken the message that was on its way: with
/// more the connection is closed.
pub const CONNECTION_ABANDONED: usize = 8;
/// Such answers of all connections: with more the connection of the first is closed.
pub const ABANDONED: usize = 64;
/// How long the first rows of a statement's answer wait for others, so that it is known whether there are many, before they wait
/// for a place as well.
pub const FIRST_ROWS_TIME: Duration = Duration::from_millis(100);
