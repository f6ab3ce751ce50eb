//! Every limit of the network side, in one place; those of the engine stand in `basalt_core::limits`.
//!
//! What an operator may want to change is a default of [`crate::Config`] and names its constant here.

mod answers;
mod decoded;
mod foreign;
mod secrets;
mod tables;
mod turns;

use std::time::Duration;

pub use answers::*;
pub use decoded::*;
pub use foreign::*;
pub use secrets::*;
pub use tables::*;
pub use turns::*;

/// Bytes of one message, either way. It bounds what a single request can make the server hold before any of
/// it is checked, together with [`DECODED_BYTES`].
pub const MESSAGE_BYTES: usize = 4 << 20;
/// Bytes that SQL statements write to disk for what memory has no room for, all together; in the folder of the disk
/// cache, where there is one.
pub const SPILL_BYTES: u64 = 16 << 30;
/// Addresses of rows that a statement takes away which are gathered before they are put into a set.
pub const ADDRESSES_AT_ONCE: usize = 1 << 18;
/// Bytes of one message of the health and reflection services, which ask by a name.
pub const SMALL_MESSAGE_BYTES: usize = 64 << 10;
/// Bytes that a message of an answer is cut to: large enough that messages cost little, small enough that
/// the first rows leave soon and no limit of a client is near.
pub const ANSWER_MESSAGE_BYTES: usize = 1 << 20;
/// Bytes of one row of an answer, and of one SIP: what a message holds beside its own fields.
pub const ROW_BYTES: usize = MESSAGE_BYTES - 1024;
/// See [`ROW_BYTES`].
pub const SIP_BYTES: usize = MESSAGE_BYTES - 1024;
/// Texts longer than this are left out of a column's range in a description: it must fit a message.
pub const RANGE_TEXT_BYTES: usize = 256;
/// Tables of a list when the request names no number, and at most.
pub const PAGE_TABLES: (usize, usize) = (100, 1000);

/// Streams that one connection may have open. tonic sets none, which takes away hyper's 200.
pub const STREAMS: u32 = 128;
/// Streams that a peer may make us reset by its errors before the connection is closed (CVE-2023-44487,
/// CVE-2025-8671). tonic sets none, which takes away h2's 1024.
pub const LOCAL_ERROR_RESETS: usize = 256;
/// Streams that a peer may reset before we have accepted them (CVE-2023-44487).
pub const PENDING_ACCEPT_RESETS: usize = 20;
/// Bytes of all headers of one request; a filter travels in the body.
pub const HEADER_LIST_BYTES: u32 = 16 << 10;
/// Bytes that whoever calls may send on one stream and that wait here unread: between these two, as memory allows. A
/// connection may send as much on all of its streams together, so that one which has to wait keeps no other waiting.
pub const STREAM_WINDOW_BYTES: (u32, u32) = (64 << 10, 256 << 10);
/// This part of the memory for requests is the window of one.
pub const STREAM_WINDOW_PART: u64 = 512;
/// Bytes of a frame of HTTP/2, the least that may be allowed. A message that is no larger is counted with its request.
pub const FRAME_BYTES: u32 = 16 << 10;
/// Bytes that a connection counts as: buffers to read and to write, and tables of headers.
pub const CONNECTION_BYTES: u64 = 32 << 10;
/// Bytes that a request whose body has not ended counts as, beside its window: its headers, the frame in hand, the
/// buffer that a message begins in.
pub const REQUEST_BYTES: u64 = HEADER_LIST_BYTES as u64 + FRAME_BYTES as u64 + (16 << 10);
/// How often a message is in memory while it is decoded: as bytes, and as what they say, unless that is more
/// ([`DECODED_BYTES`]).
pub const MESSAGE_COPIES: u64 = 2;
/// This part of the memory is for connections, for requests whose body has not ended, and for messages; of clients, and
/// as much of peers. Connections beyond it wait in the listener's queue, requests are refused, and messages wait.
pub const CONNECTIONS_PART: u64 = 16;
/// See [`CONNECTIONS_PART`].
pub const REQUESTS_PART: u64 = 8;
/// See [`CONNECTIONS_PART`].
pub const MESSAGES_PART: u64 = 8;
/// The least that there is for connections, and for requests whose body has not ended; for messages it is one of the
/// largest size. It is there, beside the limit, when tables have taken all memory. Of much memory it is this part.
pub const FLOOR_PART: u64 = 64;
/// See [`FLOOR_PART`].
pub const CONNECTIONS_FLOOR_BYTES: u64 = 8 << 20;
/// See [`FLOOR_PART`].
pub const REQUESTS_FLOOR_BYTES: u64 = 8 << 20;
/// One connection's part of the memory for messages, and the most that it is; one message of the largest size always
/// fits.
pub const CONNECTION_MESSAGES: (u64, u64) = (4, 64 << 20);
/// A request whose client is waited for makes room for others that need its memory, but not sooner than this.
pub const STALLED_LEAST: Duration = Duration::from_millis(250);
/// How long a message waits for memory before it is refused.
pub const MESSAGE_WAIT: Duration = Duration::from_secs(10);
/// A message that has begun arrives in this time, as do the first of a request and, where there is but one, the end of
/// the request after it. A stream may be silent between its messages.
pub const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// A silent connection is asked for a sign of life this often, and closed when none comes in time.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// See [`KEEPALIVE_INTERVAL`].
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// A new connection sends its preface within this time: before that, keepalive does not watch it.
pub const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection that is turned away, since it speaks TLS or does not, stays open for what its client still sends.
pub const TURNED_AWAY: Duration = Duration::from_secs(1);
/// Connections open at once. For a further one that leaves which has been idle the longest.
pub const CONNECTIONS: usize = 4096;
/// Idle is who has asked nothing for so long.
pub const IDLE_LEAST: Duration = Duration::from_millis(250);
/// Behind so many connections that have others leave for them the door waits so long.
pub const CROWD_PAUSE: (u64, Duration) = (2, Duration::from_millis(1));
/// Idle connections that are remembered each time that all are looked at.
pub const IDLE_KNOWN: usize = 64;
/// Bytes that are read of a connection count as one thing that its task does, of the hundred or so that the runtime has it do
/// before others run.
pub const READ_TURN_BYTES: usize = 1 << 10;
/// How long who is asked to leave may take to say goodbye.
pub const GOODBYE_TIMEOUT: Duration = Duration::from_millis(100);
/// After the last request, connections get this long to take their last bytes.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections open at once to the listener for metrics and probes: for a further one the oldest is closed whose
/// request is not being answered.
pub const METRICS_CONNECTIONS: usize = 128;
/// The longest that one of them stays open.
pub const METRICS_CONNECTION_AGE: Duration = Duration::from_secs(3600);
/// The head of a request arrives there within this time, counted from the last answer: an idle connection is closed.
pub const METRICS_HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a request's head there.
pub const METRICS_REQUEST_BYTES: usize = 16 << 10;

/// Requests of `/v1` that are answered at once over HTTP. Their connections do not count among those above meanwhile.
pub const HTTP_REQUESTS: usize = 64;
/// Bytes that one of them counts as, beside what it answers or writes: its head, its statement, its parameters.
pub const HTTP_REQUEST_BYTES: u64 = 512 << 10;
/// Bytes of bodies there whose requests have no place yet, all together: for more of them the one makes room that has begun first.
pub const HTTP_BODIES_BYTES: usize = 32 << 20;
/// Bytes of them that each counts as, at least, and that rows begin with when they take a place.
pub const HTTP_BODY_BYTES: usize = 256 << 10;
/// Bytes of the text that stands for null in an answer as CSV.
pub const HTTP_NULL_BYTES: usize = 64;
/// Bytes of the parameters of a statement there.
pub const HTTP_PARAMETERS_BYTES: usize = 12 << 10;
/// How long a body there may bring nothing.
pub const HTTP_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that a load has to send in [`IDLE_WRITE`], or it loses its place where others need it.
pub const HTTP_PROGRESS_BYTES: usize = 64 << 10;
/// Bytes of a body that are read before rows are made of them.
pub const HTTP_PIECE_BYTES: usize = 1 << 20;
/// Bytes of a body from which the columns of a new table are made out.
pub const HTTP_START_BYTES: usize = 8 << 20;
/// Bytes of a row of JSON or CSV.
pub const HTTP_ROW_BYTES: usize = 16 << 20;
/// Rows of a batch that is made of them, and their values.
pub const HTTP_BATCH_ROWS: usize = 8192;
/// See [`HTTP_BATCH_ROWS`].
pub const HTTP_BATCH_VALUES: usize = 1 << 18;
/// Bytes of the first line of CSV.
pub const CSV_HEADER_BYTES: usize = 256 << 10;
/// Bytes of a message of an Arrow stream, and as many of its header.
pub const HTTP_MESSAGE_BYTES: usize = 64 << 20;
/// How deep lines of JSON may nest.
pub const JSON_DEPTH: usize = 128;
/// Bytes of a Parquet file that comes over HTTP: it is read when all of it is there.
pub const HTTP_PARQUET_BYTES: usize = 256 << 20;
/// Bytes of a row group of such a file, as it says itself.
pub const PARQUET_READ_BYTES: i64 = 1 << 30;
/// Bytes of a page of such a file, when it is decompressed.
pub const PARQUET_PAGE_BYTES: usize = 256 << 20;
/// Bytes of a row group of a Parquet file that is answered, before it is written.
pub const PARQUET_GROUP_BYTES: usize = 8 << 20;

/// Bytes of a message of Arrow Flight that brings rows: the most that ADBC sends, unless it is told otherwise. It counts as
/// [`MESSAGE_COPIES`] times that, so that such a message needs a limit of 1 GiB; with less memory smaller ones are taken.
pub const FLIGHT_MESSAGE_BYTES: usize = 16 << 20;
/// Bytes of a ticket or of a command of Arrow Flight SQL, beside what a statement may have.
pub const FLIGHT_COMMAND_BYTES: usize = 512 << 10;
/// Statements that one connection may have prepared at once, and how long one is kept that is not used.
pub const PREPARED_STATEMENTS: usize = 256;
/// See [`PREPARED_STATEMENTS`].
pub const PREPARED_AGE: Duration = Duration::from_secs(60 * 60);
/// Values that a batch of parameters for a prepared statement may have.
pub const BOUND_VALUES: usize = 1 << 20;
/// Bytes that all parameters of a prepared statement count as, of all rows for which it runs.
pub const BOUND_BYTES: u64 = 64 << 20;
/// Bytes that a prepared statement counts as, beside its text and its parameters.
pub const PREPARED_BYTES: u64 = 1 << 10;
/// Bytes that a parameter counts as, beside those of a text.
pub const PARAMETER_BYTES: u64 = 32;
/// Bytes of a pattern by which a list of tables is searched.
pub const PATTERN_BYTES: usize = 1 << 10;
/// Numbers that one request for what the server can do may name.
pub const SQL_INFOS: usize = 1 << 10;

/// Connections of clients of PostgreSQL open at once; further ones are told that there are too many.
pub const POSTGRES_CONNECTIONS: usize = 256;
/// Connections that have not said yet what they want, are told that there are too many, or cancel a statement; further
/// ones wait in the listener's queue.
pub const POSTGRES_SPARE_CONNECTIONS: usize = 64;
/// A new connection says what it wants within this time.
pub const POSTGRES_STARTUP_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of its first message.
pub const POSTGRES_STARTUP_BYTES: usize = 10_000;
/// Bytes of a message that has neither a statement's text nor parameters; a larger one is counted as it comes. What
/// is read at once, and the room that is made for it, is no more.
pub const POSTGRES_SMALL_MESSAGE_BYTES: usize = 16 << 10;
/// Bytes of a message that brings rows of COPY, and of one of its rows in binary form; they are counted as they come.
pub const POSTGRES_COPY_BYTES: usize = 64 << 20;
/// Bytes of it that are given on at once, and how many such pieces may wait to be read.
pub const COPY_PIECE_BYTES: usize = 64 << 10;
/// See [`COPY_PIECE_BYTES`].
pub const COPY_PIECES: usize = 1;
/// Bytes of rows that are made before they are sent: what one row takes more is sent with it,
/// and counted where it is more than [`ANSWER_MESSAGE_BYTES`].
pub const POSTGRES_OUTPUT_BYTES: usize = 64 << 10;
/// Bytes of the name of a statement or a portal, and of a setting.
pub const POSTGRES_NAME_BYTES: usize = 256;
/// Statements that a connection has prepared.
pub const POSTGRES_STATEMENTS: usize = 1024;
/// Portals, or cursors, that it has open.
pub const POSTGRES_PORTALS: usize = 64;
/// Bytes of rows of each that are taken before they are asked for, about: of fewer nothing else is held. They count as small
/// answers: see [`LIGHT_ANSWER_BYTES`].
pub const POSTGRES_AHEAD_BYTES: u64 = 256 << 10;
/// Those of them that have more rows, beside the statement that runs: each holds a place of an answer.
pub const POSTGRES_OPEN: usize = CONNECTION_ANSWERS - 1;
/// Savepoints of a transaction.
pub const POSTGRES_SAVEPOINTS: usize = 64;
/// Bytes of all of its statements and portals, about.
pub const POSTGRES_KEPT_BYTES: u64 = 16 << 20;

/// Queries of each class that run at once, for each thread of its pool: a few, so that none of the threads is idle
/// while another waits for a query's last block.
pub const QUERIES_PER_THREAD: usize = 4;
/// A query that takes longer stands in the log.
pub const SLOW_QUERY: Duration = Duration::from_secs(5);
/// Bytes of a running query's text that are shown.
pub const QUERY_TEXT_BYTES: usize = 4096;
/// Tables that the log names of a slow query.
pub const SUMMARY_TABLES: usize = 8;
/// Bytes of a list of running queries; the oldest are in it.
pub const LISTED_BYTES: usize = 3 << 20;
/// How long a node is waited for that is asked to stop a query.
pub const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of the header `x-request-id`; a longer one is not taken.
pub const X_REQUEST_ID_BYTES: usize = 64;
/// Bytes of the header `tracestate`, as W3C wants them passed on.
pub const TRACE_STATE_BYTES: usize = 512;
/// How long the end of a server waits for the last spans to leave.
pub const SPANS_TIMEOUT: Duration = Duration::from_secs(2);
/// The deadline of a query that names none.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);
/// The longest deadline of a query; a longer one is shortened.
pub const MAX_DEADLINE: Duration = Duration::from_secs(600);
/// On shutdown, what runs gets this long to finish.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(30);

/// The share of the machine's memory for tables, writes under way, kept sets and requests, in percent.
pub const MEMORY_SHARE: u8 = 70;
/// The share of that for kept sets, in percent: about a sixteenth.
pub const KEPT_SETS_SHARE: u8 = 6;
/// Bytes that a kept set takes beside its own and its names.
pub const KEPT_SET_BYTES: usize = 512;
/// How long a set is kept when the client does not say, and at most; a longer time is shortened.
pub const DEFAULT_KEEP: Duration = Duration::from_secs(10 * 60);
/// See [`DEFAULT_KEEP`].
pub const MAX_KEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// Keys for whose owners one set is kept, at most.
pub const SET_KEEPERS: usize = 64;
/// Versions of a table that this node's kept sets of rows pin: as many as that can be read beside those that are retained.
pub const PINNED_VERSIONS: usize = 32;
/// How often a pin is renewed in the store, where its lease is a few times as long: a node that is gone pins nothing after
/// that.
pub const PIN_RENEWAL: Duration = Duration::from_secs(30);
/// How often kept sets are looked through for those whose time is over.
pub const PURGE_INTERVAL: Duration = Duration::from_secs(10);
/// A query that holds more than this part of the memory leaves as much of it to those that hold less.
pub const QUERY_MEMORY_PART: u64 = 8;
/// Memory of the process that nobody reserves: its threads and their stacks, decoded blocks that they have at hand, what
/// the runtime and the log take. What it has beyond this and all that is counted counts too.
pub const PROCESS_BYTES: u64 = 16 << 20;
/// How often the system is asked what the process has.
pub const PROCESS_INTERVAL: Duration = Duration::from_millis(10);
/// What a column of a table takes beside its values, with a name of 32 bytes, which is there eight times: in the table, in
/// its log's state, and in the schema as the log has it.
pub const COLUMN_BYTES: u64 = 640;
/// Threads for what waits: queries with long answers, coordinators, and work on files.
pub const WAITING_THREADS: usize = 4096;
/// Threads of long queries that wait for the next one, at most, and for how long.
pub const SPARE_LONG_THREADS: usize = 8;
/// See [`SPARE_LONG_THREADS`].
pub const SPARE_LONG_THREAD_AGE: Duration = Duration::from_secs(10);
/// `Write` streams that have sent rows and are not committed.
pub const WRITES: usize = 256;
/// `Write` streams open at once, with those that have sent no rows.
pub const OPEN_WRITES: usize = 4096;
/// The least memory that a configuration may give a server.
pub const LEAST_MEMORY: u64 = 16 << 20;
/// How long a `Write` stream may take to say which table it is for.
pub const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// A `Write` stream whose client was silent for this long is given up when another one needs its place.
pub const IDLE_WRITE: Duration = Duration::from_secs(1);
/// Bytes that a `Write` stream may have sent and not seen acknowledged: two messages, so that one travels
/// while the other is encoded.
pub const INGEST_WINDOW_BYTES: u64 = 2 * MESSAGE_BYTES as u64;
/// A `Write` stream that sends nothing for this long is given up.
pub const INGEST_IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Acknowledgements that may wait for the client to read them.
pub const WAITING_ACKS: usize = 16;

/// How many nodes hold each fragment.
pub const REPLICATION: usize = 2;
/// Nodes of a cluster.
pub const NODES: usize = 64;
/// Bytes of a node's name, `host:port`.
pub const NODE_NAME_BYTES: usize = 262;
/// Bytes of one message between nodes.
pub const PEER_MESSAGE_BYTES: usize = 16 << 20;
/// Bytes that sets and partial results are cut to between nodes.
pub const PEER_PIECE_BYTES: usize = 4 << 20;
/// Bytes of all sets and lookups that travel with one task.
pub const TASK_DATA_BYTES: u64 = 256 << 20;
/// Bytes of a kept set that another node is asked for, and how long that may take.
pub const FETCH_BYTES: usize = (64 << 20) + 1;
/// See [`FETCH_BYTES`].
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that a node may answer on one stream, or on one connection, and that wait here unread.
pub const PEER_STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// Bytes of a partition of a task's rows that may be on their way; what holds one up holds up no other.
#[cfg(feature = "sql")]
pub const TASK_STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// See [`PEER_STREAM_WINDOW_BYTES`].
pub const PEER_CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Streams between two nodes: more than queries of one node may run.
pub const PEER_STREAMS: u32 = 1024;
/// Connections of other nodes open at once.
pub const PEER_CONNECTIONS: usize = 4 * NODES;
/// How long connecting to a node may take.
pub const PEER_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Between nodes a silent connection is asked for a sign of life this often, so that one that is cut off ends.
pub const PEER_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// See [`PEER_KEEPALIVE_INTERVAL`].
pub const PEER_KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(4);
/// How often a node is asked for its status, and how long its answer may take.
pub const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// See [`STATUS_INTERVAL`].
pub const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the nodes are waited for when somebody asks what the cluster is, or what runs there.
pub const OVERVIEW_TIMEOUT: Duration = Duration::from_millis(500);
/// Names of nodes that have called which are looked up at once.
pub const CALLER_LOOKUPS: usize = 4;
/// For how long a node that was turned away may acknowledge commits: until then this node looks into the store. Whoever
/// is turned away asks again sooner.
pub const REFUSED_FOR: Duration = Duration::from_secs(30);
/// A dead node is asked less and less often, down to this.
pub const STATUS_BACKOFF: Duration = Duration::from_secs(8);
/// Answers that fail to come, one after the other, until a node counts as dead.
pub const STATUS_FAILURES: u32 = 3;
/// How often the addresses of a name are looked up.
pub const LOOKUP_INTERVAL: Duration = Duration::from_secs(5);
/// A node that no configuration names is forgotten when it has not answered for this long; until then the
/// fragments that it holds stay placed on it, so that a restart moves none.
pub const FORGET_NODE: Duration = Duration::from_secs(10 * 60);
/// How long one attempt to tell a node of a commit may take.
pub const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long after an attempt that failed the next one comes.
pub const ANNOUNCE_PAUSE: Duration = Duration::from_millis(50);
/// How long a node answers from what it knows after it has asked another one for its status: until then the other one
/// acknowledges no commit that it could not tell it of. More than [`STATUS_INTERVAL`], so that a lease follows the one
/// before without a gap.
pub const LEASE: Duration = Duration::from_millis(2500);
/// By how much clocks may differ over that time: whoever gives a lease counts it longer by this.
pub const LEASE_DRIFT: Duration = Duration::from_millis(250);
/// How long after its start a node behind a name gives no leases: in this time those that know it have asked it, and it can
/// tell whoever asks of them.
pub const INTRODUCTION: Duration = Duration::from_secs(STATUS_BACKOFF.as_secs() + 2);
/// A node that has not followed the store for this long, by clocks that count when it stands still, looks into it
/// before it answers, lease or not.
pub const FOLLOWED_FOR: Duration = Duration::from_secs(3);
/// How long who was told of has time for its first answer.
pub const UNHEARD: Duration = Duration::from_secs(30);
/// Fragments for each node of the first wave of rows that come in the order of their addresses (the first may be
/// enough), and those of later ones, at most: what they answer waits in memory.
pub const WAVE_FRAGMENTS: (usize, usize) = (1, 16);
/// A part of a query that takes four times as long as the slowest part that is ready, and no less than the first
/// of these, is also given to the next node; while no part is ready, one that takes the second. Half of the time
/// that is left is the most.
pub const HEDGE_DELAY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// Where tables are kept.
pub const STORE: &str = "basalt-data";
/// How long after the last commit of a table small writes share the next.
pub const COMMIT_DELAY: Duration = Duration::from_millis(5);
/// See [`COMMIT_DELAY`].
pub const LONGEST_COMMIT_DELAY: Duration = Duration::from_secs(10);
/// How long versions of a durable table can be read after the next one is there.
pub const KEEP_VERSIONS: Duration = Duration::from_secs(10 * 60);
/// States of a table that are kept for that, at most.
pub const KEPT_STATES: usize = 4096;
/// How long memory holds the fragments that only a superseded version has; later they are read again.
pub const SNAPSHOT_AGE: Duration = Duration::from_secs(10);
/// Rows of a write that are encoded and written alone: more would keep others of the same commit waiting.
pub const SMALL_WRITE_ROWS: usize = 1 << 16;
/// How often a commit is tried again behind the versions of other nodes.
pub const COMMIT_ATTEMPTS: usize = 32;
/// Data files that are written at once: each holds its rows as arrays, and compressed.
pub const FILE_WRITES: usize = 4;
/// Turns of the clock that an item of the cache gets at most when it is read.
pub const CACHE_TURNS: u8 = 4;
/// An item gets one more turn for so many nanoseconds that reading a byte of it takes.
pub const CACHE_TURN_NANOS: u64 = 20;
/// What faster forms of columns may take of the memory at most, in percent.
pub const ELASTIC_SHARE: u8 = 50;
/// None is made that would leave less than this part of the memory free, so that what comes meanwhile finds room.
pub const ELASTIC_FREE_PART: u64 = 8;
/// In what time half of a column's heat is gone, and the least heat of a column that gets a faster form: to make it takes
/// about as long as it saves a few tens of queries.
pub const HEAT_HALF_LIFE: Duration = Duration::from_secs(10 * 60);
/// See [`HEAT_HALF_LIFE`].
pub const ELASTIC_HEAT: f32 = 4.0;
/// A faster form makes room for that of a column which is this many times as hot: less would make the two in turns.
pub const ELASTIC_HOTTER: f32 = 2.0;
/// Rows of a fragment from which on its columns have faster forms: smaller ones are read in no time, and are soon merged.
pub const ELASTIC_LEAST_ROWS: u64 = 4096;
/// How often columns are looked for that could be faster, and how many are made between.
pub const ELASTIC_INTERVAL: Duration = Duration::from_secs(1);
/// See [`ELASTIC_INTERVAL`].
pub const ELASTIC_COLUMNS: usize = 64;
/// For how long none is made after the memory was full.
pub const ELASTIC_PAUSE: Duration = Duration::from_secs(10);
/// While queries run, as many times as long as a faster form took to make passes before the next is begun.
pub const ELASTIC_REST: u32 = 4;
/// Where memory is needed, faster forms give back this part of what they hold, or more.
pub const ELASTIC_GIVEN_BACK_PART: u64 = 16;
/// Bytes of the cache on disk, and the least that it may be given.
pub const CACHE_SIZE: (u64, u64) = (10 << 30, 1 << 20);
/// Rows of a fragment from which on its columns are kept on disk: of fewer they are soon encoded again, or merged.
pub const CACHE_LEAST_ROWS: u64 = 4096;
/// Fragments whose columns wait to be written there, by name; those of more are left out.
pub const CACHE_WRITES: usize = 1 << 14;
/// How long a file of the cache stays after it was used, whatever else there is no room for: what is read again and again
/// and is larger than the cache would be written as often, and never found. What an earlier process left counts as used
/// when this one began.
pub const CACHE_FILE_STAYS: Duration = Duration::from_secs(60);
/// How long the cache is left alone when its disk is full or fails.
pub const CACHE_PAUSE: Duration = Duration::from_secs(60);
/// Bytes of what names the rows of a file there, at most.
pub const CACHE_KEY_BYTES: usize = 4096;
/// This part of the memory is what fragments take, encoded, that are merged at once.
pub const COMPACTION_MEMORY_PART: u64 = 8;
/// This part of the memory is what a query reads of a table at once, at most; and at least one fragment of it.
pub const WAVE_MEMORY_PART: u64 = 4;
/// This part of the memory is what columns of a fragment take, decoded, that are read at once; one is always read.
pub const DECODE_MEMORY_PART: u64 = 16;
/// What a row of a column takes while it is read and encoded, at most: values as Parquet gives them, gathered, and what
/// encodings try. Of a text, what it takes beside its bytes.
pub const ENCODE_ROW_BYTES: u64 = 60;
/// How often the bytes of texts are there meanwhile, in halves.
pub const ENCODE_TEXT_HALVES: u64 = 5;
/// Bytes of texts for which there is room before they are read, because their file says that they are so many: a file may
/// lie. More of them grow as they come.
pub const BELIEVED_TEXT_BYTES: u64 = 256 << 20;
/// Texts take this many times as much decoded as encoded, for what is reserved to read them.
pub const TEXT_EXPANSION: u64 = 4;
/// Bytes of rows that are encoded beside the CPU pool: it takes less time than waiting for their turn there.
pub const SMALL_FRAGMENT_BYTES: usize = 1 << 16;
/// Bytes of a batch that is read where it arrives, for the same reason.
pub const SMALL_BATCH_BYTES: u64 = 1 << 14;
/// Full fragments of one write that are encoded and written while more of its rows come in: one is on its way to the disk
/// while the other is encoded.
pub const FRAGMENTS_OF_A_WRITE: usize = 2;
/// What a fragment that is encoded and written takes, in parts of its rows as they came in: these, and what is made of
/// them, for memory and for the file. The columns that are encoded at the moment take more: [`ENCODE_ROW_BYTES`].
pub const FRAGMENT_COPIES: u64 = 3;
/// Bytes of a row of a column before it is encoded, at least: of a text, its place.
pub const LEAST_COLUMN_ROW_BYTES: u64 = 4;
/// This part of the memory is what the rows of a fragment take, at most, before they are encoded: with less memory
/// fragments are smaller.
pub const FRAGMENT_MEMORY_PART: u64 = 16;
/// Fragments that are read from the store at once, at most.
pub const LOADS: usize = 8;
/// So many of them that this is there for each in a quarter of the memory: what a column of whole numbers takes while it
/// is read.
pub const LOAD_BYTES: u64 = 64 << 20;
/// A column whose reading takes more than this part of the memory is read when no other such column is, and counts as so
/// much.
pub const LARGEST_LOAD_PART: u64 = 2;
/// How often the store is asked for what other nodes have committed.
pub const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);
/// How often the log tells of an error that comes again as long as its cause lasts.
pub const RETELL_INTERVAL: Duration = Duration::from_secs(60);
/// Errors of which it is remembered that the log tells of them: of the store, and of each table.
pub const TOLD_ERRORS: usize = 64;
/// Characters of the name of somebody who is not let in, of a query or of a kept set, in the audit log.
pub const TOLD_NAME_CHARS: usize = 64;
/// Characters of a path or an address that is out of bounds, in the audit log.
pub const TOLD_PLACE_CHARS: usize = 1024;
/// Commits after which they are removed without waiting for that.
pub const VACUUM_COMMITS: u64 = 512;
/// Files in the folder of a table, beside those of large fragments. From half of them on, writes share versions for
/// longer; beyond, they wait.
pub const TABLE_FILES: u64 = 1 << 15;
/// Files that a commit of small writes leaves, at most: of rows, of deleted rows, and of the log.
pub const COMMIT_FILES: u64 = 3;
/// How long writes are gathered for a commit to keep the number of files.
pub const LONGEST_PACE: Duration = Duration::from_millis(250);
/// How long a write waits for files to be removed, and how often it looks.
pub const FILES_PATIENCE: Duration = Duration::from_secs(5);
/// See [`FILES_PATIENCE`].
pub const FILES_PAUSE: Duration = Duration::from_millis(50);
/// How soon a table that cannot be read is tried again, and how often at most, twice as late each time.
pub const DAMAGED_PAUSE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5 * 60));
/// How often an attached table that could not be loaded is tried again at least: its own writer may mend it soon.
pub const REOPEN_INTERVAL: Duration = Duration::from_secs(5);
/// The time in which the background reads all that tables have on storage once.
pub const VERIFY_PERIOD: Duration = Duration::from_secs(7 * 24 * 3600);
/// The shortest and the longest pause between two files there: the period is longer for very many files, and shorter
/// for few.
pub const VERIFY_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// Damages that one answer tells of; the others follow on the next page.
pub const DAMAGE_PAGE: usize = 256;
/// Fragments whose rows have as many bits, in steps of [`TIER_BITS`], are of one size; this many are merged.
pub const TIER_FRAGMENTS: usize = 8;
/// See [`TIER_FRAGMENTS`].
pub const TIER_BITS: u32 = 3;
/// A fragment is rewritten when more than this part of its rows is deleted.
pub const HOLLOW_PART: u64 = 4;
/// See [`HOLLOW_PART`]; of fewer it takes too little memory to be worth new row addresses.
pub const HOLLOW_ROWS: u64 = basalt_core::limits::BLOCK_ROWS as u64;

/// How often a coordinator that waits for other nodes looks whether its client is still there.
pub const CONTROL_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes of a request id.
pub const REQUEST_ID_BYTES: usize = 128;
/// Finished writes that the server remembers by their request id, and for how long.
pub const REQUEST_IDS: usize = 100_000;
/// See [`REQUEST_IDS`].
pub const REQUEST_ID_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long to wait before a refused request is sent again.
pub const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Bytes of an error's message and of its place: both travel in headers.
pub const ERROR_TEXT_BYTES: usize = 1024;

// A batch of an answer is cut in halves until it fits; what is one row must then still fit a message.
const _: () = assert!(ANSWER_MESSAGE_BYTES * 2 < MESSAGE_BYTES);
const _: () = assert!(basalt_core::limits::MAX_TEXT_BYTES < MESSAGE_BYTES);
const _: () = assert!(VACUUM_COMMITS * COMMIT_FILES < TABLE_FILES / 8);
const _: () = assert!(
    LEASE.as_millis() > 2 * STATUS_INTERVAL.as_millis() && LEASE.as_millis() < FOLLOWED_FOR.as_millis()
);
const _: () = assert!(REFUSED_FOR.as_millis() > 2 * STATUS_BACKOFF.as_millis());
const _: () = assert!(STREAM_WINDOW_BYTES.0 > FRAME_BYTES && STREAM_WINDOW_BYTES.0 <= STREAM_WINDOW_BYTES.1);
// The window of a connection, that of all its streams, is no more than HTTP/2 knows.
const _: () = assert!(STREAM_WINDOW_BYTES.1 as u64 * (STREAMS as u64 + PEER_STREAMS as u64) < 1 << 31);
const _: () = assert!(SMALL_MESSAGE_BYTES < MESSAGE_BYTES);
const _: () = assert!(LISTED_BYTES + (64 << 10) < MESSAGE_BYTES);
const _: () = assert!(PEER_PIECE_BYTES + MESSAGE_BYTES < PEER_MESSAGE_BYTES);
// The trailers of an error hold its message twice (grpc-message and details), percent- or base64-encoded.
const _: () = assert!(ERROR_TEXT_BYTES * 8 < HEADER_LIST_BYTES as usize);

/// A query is bound on the async thread it arrived on when its request and its table are no larger than this,
/// and run there when it then should take so many nanoseconds: less than the way to the CPU pool and back.
pub const LIGHT_REQUEST_BYTES: usize = 4096;
/// Rows; see [`LIGHT_REQUEST_BYTES`].
pub const LIGHT_ROWS: u64 = 1 << 24;
/// Bytes of the request times rows: each part of a filter is tried on each entry of a fragment's dictionary, before
/// anybody knows how little the rest is; see [`LIGHT_REQUEST_BYTES`].
pub const LIGHT_BINDING: u64 = 1 << 32;
/// Fragments, each of which is pruned and looked for by itself; see [`LIGHT_REQUEST_BYTES`].
pub const LIGHT_FRAGMENTS: usize = 64;
/// Nanoseconds; see [`LIGHT_REQUEST_BYTES`].
pub const LIGHT_EFFORT: u64 = 250_000;
/// The same whatever statistics tell: about what all rows of a block with a few columns take.
pub const LIGHT_EFFORT_AT_WORST: u64 = 20_000_000;
/// An answer that is no larger is kept whole until it is read, so that its query never waits for its reader. All of
/// them together may take as much as those that wait, by [`ANSWERS_MEMORY_PART`].
pub const LIGHT_ANSWER_BYTES: u64 = 256 << 10;
/// Of such an answer nobody counts these bytes: a stream takes as much by itself.
pub const UNCOUNTED_ANSWER_BYTES: u64 = 4 << 10;

/// Between two looks at files that are read again when they change.
pub const RELOAD_INTERVAL: Duration = Duration::from_secs(5);
/// Between two looks at one that has changed, which is read when it is the same at both, or behind so many.
pub const RELOAD_LOOK: Duration = Duration::from_millis(200);
/// See [`RELOAD_LOOK`].
pub const RELOAD_LOOKS: u32 = 10;
/// Between two looks at a connection whose first bytes have not all come.
pub const PEEK_PAUSE: Duration = Duration::from_millis(10);
