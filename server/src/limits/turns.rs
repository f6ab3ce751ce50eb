//! Limits of who runs now: what is short and what is long, how long one waits for a turn, and who is turned away.

use std::time::Duration;

/// How long what becomes of a commit is waited for when its statement is cancelled or its deadline has passed.
pub const OUTCOME_TIMEOUT: Duration = Duration::from_secs(10);

/// A query is short when it should take no more nanoseconds of one thread than this, as far as statistics tell, and
/// could take no more than the second whatever they tell.
pub const SHORT_EFFORT: u64 = 10_000_000;
/// See [`SHORT_EFFORT`].
pub const SHORT_EFFORT_AT_WORST: u64 = 1_000_000_000;
/// A write of no more rows is short as well, and so is taking in a message of no more bytes for it.
pub const SHORT_WRITE_ROWS: u64 = 4096;
/// See [`SHORT_WRITE_ROWS`].
pub const SHORT_BATCH_BYTES: usize = 64 << 10;
/// Rows of a statement, at most, that are taken in where the statement runs: the way to a pool takes longer.
pub const LITTLE_WRITE_ROWS: usize = 256;
/// Bytes of them.
pub const LITTLE_WRITE_BYTES: usize = 64 << 10;
/// By how much the priority of threads that work for long queries is lower than that of all others: where all want a
/// processor, such a thread gets about a third of what one of the others gets. Less would hardly let others wake up
/// sooner, and would leave long queries little beside other processes.
pub const LONG_NICE: i32 = 5;
/// Queries of a class that wait for their turn; more are refused at once.
pub const WAITING_QUERIES: usize = 1024;
/// Where hardly any query of a time as long as this found a permit the queue is a standing one, and not a burst that passes.
pub const QUEUE_WINDOW: Duration = Duration::from_millis(50);
/// Queries by which that is judged, at least, unless they come seldom.
pub const QUEUE_SAMPLE: u32 = 16;
/// How long a query waits in a standing queue, at most; who would wait longer is refused.
pub const QUEUE_TARGET: Duration = Duration::from_millis(100);
/// Where long queries hold a permit for longer than this they wait for each other whatever the queue.
pub const QUEUE_TURN: Duration = Duration::from_millis(250);
/// Where so many queries of a connection were turned away, none of them longer than this after the one before, the next ones
/// are turned away unread.
pub const ALIKE_QUERIES: u32 = 16;
/// See [`ALIKE_QUERIES`].
pub const ALIKE_FOR: Duration = Duration::from_millis(200);
/// Of those one in so many is read, to see whether they are still alike.
pub const ALIKE_UNREAD: u32 = 32;
/// How long a connection is not read behind one that was turned away unread, so that what comes meanwhile is read at once.
pub const READ_PAUSE: Duration = Duration::from_millis(8);
/// A short query that has waited this long is refused: the server is overloaded, not slow. A long one waits for its turn
/// until its deadline.
pub const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);
