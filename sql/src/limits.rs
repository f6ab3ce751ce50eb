//! Every limit of statements, in one place.

use std::time::Duration;

/// Bytes of a statement's text.
pub const STATEMENT_BYTES: usize = 2 << 20;
/// Words and signs of it, about: each takes some hundred bytes while it is read. What stands in quotes counts too.
pub const STATEMENT_WORDS: usize = 1 << 19;
/// How deep parentheses, subqueries and operators of a statement's text may nest.
pub const NESTING: usize = 100;
/// Expressions that the parser begins for each token of a text, and beside those for the text.
pub const BEGUN: usize = 16;
/// See there.
pub const BEGUN_BESIDE: usize = 1 << 14;
/// Relations of a statement, with each WITH where it is named.
pub const RELATIONS: u64 = 1024;
/// Steps of a path into a JSON text.
pub const JSON_STEPS: usize = 64;
/// Operators of a statement's text, by chains of which a tree grows deep.
pub const OPERATORS: usize = 1024;
/// Tables that are asked for their columns at once.
pub const PINS: usize = 32;
/// Statements of a text that may have several.
pub const SCRIPT_STATEMENTS: usize = 1000;
/// Words of each of them that are told to a door.
pub const SCRIPT_WORDS: usize = 64;
/// Names of select lists that are looked up where no column has them; the statement is planned again for each.
pub const ALIASES: usize = 16;
/// Parameters of a statement, as many as a message of PostgreSQL's protocol can have.
pub const PARAMETERS: usize = 65_535;
/// Parameters that may be of any type, at most, of which each is tried as a number where a statement has no plan with texts; it is
/// planned again for each.
pub const PARAMETERS_TRIED: usize = 8;
/// Bytes of the header of a message with rows of another node's task.
pub const TASK_HEADER_BYTES: usize = 64 << 20;
/// Rows of such a message: a column may take no bytes however many they are.
pub const TASK_BATCH_ROWS: u64 = 1 << 24;
/// Batches of an answer that wait to be read.
pub const WAITING_BATCHES: usize = 2;
/// Bytes of the stack of a thread that plans and runs statements, as far as it needs them: a tree that is as deep as
/// [`OPERATORS`] allows is walked by recursion.
pub const STACK_BYTES: usize = 128 << 20;
/// Columns of an answer.
pub const ANSWER_COLUMNS: usize = basalt_core::limits::MAX_OUTPUTS;
/// Select lists of a statement in which something stands for several columns.
pub const STARS: usize = 64;
/// Scans of a statement: each has a thread while it runs.
pub const SCANS: usize = 64;
/// The same before it is planned: those of which no row is read are left out then.
pub const SCANS_PLANNED: usize = 256;
/// Queries in expressions of one another, of which the planner visits each twice as often as the one around it.
pub const QUERIES_DEEP: usize = 10;
/// Distinct keys of a join's build side, at most, that the scan of its other side is asked for.
pub const PASSED_KEYS: usize = 1 << 20;
/// Such texts.
pub const PASSED_TEXTS: usize = 20_000;
/// Bytes of all sets that one scan is asked for: they travel in the messages that ask nodes for its rows.
pub const PASSED_BYTES: usize = 2 << 20;
/// Rows, at most, whose keys are told whatever they are, and leave little of the other side.
pub const FEW_KEYS: u64 = 20_000;
/// Rows of a table, at most, that are looked up for a join to its key however few rows the other side has.
pub const LOOKED_UP_ROWS: u64 = 1 << 16;
/// First rows of an order that a scan gives, at most; of more the whole is sorted above it, where it may spill.
pub const TOP_ROWS: usize = 1 << 16;
/// More of them are kept in a heap where they are less than this part of all rows.
pub const TOP_ROWS_PART: usize = 32;
/// Bytes of the texts that one call of a function makes of a batch of rows.
pub const TEXTS_BYTES: u64 = 64 << 20;
/// Bytes of the constants in a batch of rows, each of which has all of them: of wide ones batches have fewer rows.
pub const CONSTANTS_BYTES: usize = 32 << 20;
/// Batches have fewer rows where these are less than this part of the usual number.
pub const NARROW_PART: usize = 4;
/// Levels of lists in one another that UNNEST takes at once.
pub const LEVELS: usize = 16;
/// Values of a list that `list_reduce` goes through, one after the other and without a pause.
pub const REDUCED_VALUES: usize = 1 << 18;
/// Bytes of the name that an expression gives a column, about.
pub const NAME_BYTES: usize = 256;
/// What a sorter keeps for merging, as DataFusion's `sort_spill_reservation_bytes`. With this in hand a merge begins to
/// read from disk, where one in memory begins with nothing: the odd byte tells the first from the second.
pub(crate) const MERGE_BYTES: usize = (1 << 20) + 1;
/// Rows of an INSERT that are made at once, where they are constants.
pub const INSERTED_ROWS: usize = 8192;
/// Bytes of JSON texts that are made at once of lists, structs and maps on their way into a table.
pub const JSON_TEXT_BYTES: usize = 16 << 20;
/// Bytes of those that are made at once where rows are not parted: of one row, or before they are compared.
pub const JSON_BATCH_BYTES: usize = 256 << 20;
/// Rows that COPY reads from a file at once.
pub const COPY_ROWS: usize = 8192;
/// Bytes of so many rows of a CSV file.
pub const COPY_BATCH_BYTES: usize = 64 << 20;
/// Bytes of texts after which COPY takes fewer rows at once.
pub const COPY_TEXT_BYTES: usize = 16 << 20;
/// Bytes of the footer of a Parquet file that COPY reads.
pub const COPY_FOOTER_BYTES: usize = 64 << 20;
/// Bytes of a page of such a file, when it is decompressed.
pub const COPY_PAGE_BYTES: usize = 256 << 20;
/// How often what COPY reads of a text is in memory: as it came, as columns of texts, and as the table's columns.
pub const COPY_TIMES: usize = 3;
/// Rows of a row group of a Parquet file that COPY writes.
pub const COPY_GROUP_ROWS: usize = 131_072;
/// Views that a statement reads.
pub const VIEWS: usize = 64;
/// Views that read one another, from the first to the last.
pub const VIEWS_DEEP: usize = 16;
/// Scans of a statement that takes little time.
pub const LIGHT_SCANS: usize = 16;
/// Bytes of what the scans of such a statement give, multiplied: joins make no more of them.
pub const LIGHT_PLAN_BYTES: u64 = 1 << 30;
/// Rows of a table whose attributes such a scan looks up.
pub const LIGHT_ATTRIBUTE_ROWS: u64 = 1 << 17;
/// Expressions and columns of the plans that are kept, all together; each takes some hundred bytes.
pub const PLANS_NODES: u64 = 1 << 18;
/// Expressions and columns of one such plan.
pub const PLAN_NODES: u32 = 1 << 13;
/// Bytes of the text of such a statement, with its parameters.
pub const PLAN_TEXT_BYTES: usize = 16 << 10;
/// How often a statement that writes is planned and run again because another change came first.
pub const WRITE_ATTEMPTS: usize = 16;

/// Rows that scans give to what is above them, from which on a statement runs as tasks on all nodes.
pub const DISTRIBUTED_ROWS: u64 = 1 << 20;
/// Rows of a table, from which on each node reads some of them for such a statement.
pub const SHARED_ROWS: u64 = 1 << 14;
/// Parts into which each node splits the rows of a task, at most.
pub const TASK_PARTITIONS: usize = 8;
/// Partitions of an operator of a stage, those of all its tasks together, at most.
pub const STAGE_PARTITIONS: usize = 1024;
/// Streams by which a task reads from another node's, at most, those of all stages of a statement together.
pub const TASK_STREAMS: usize = 512;
/// Operators of a task.
pub const TASK_OPERATORS: usize = 1024;
/// Bytes of its plan.
pub const TASK_BYTES: usize = 4 << 20;
/// Tasks that a node runs at once.
pub const TASKS: usize = 1024;
/// For how long a task is waited for by one that asks for its rows: both are begun at the same time. Where it does not come
/// the statement is run by one node. So long a reader may be left behind by a statement that is given up while its tasks are
/// being begun.
pub const TASK_WAIT: Duration = Duration::from_secs(3);
/// Bytes of the first rows of a statement that runs as tasks, which are held back: until they are handed out, it may be run
/// again.
pub const HELD_BYTES: usize = 4 << 20;

/// For how long a join of all rows with all, or a merge of sorted rows, keeps other statements from a thread.
pub const TURN: Duration = Duration::from_millis(5);

/// Rows of each part that a filter of their numbers leaves, at most, where others are left out before they are sorted.
pub const RANKED_ROWS: u64 = 64;
/// Rows after which it is looked whether that is worth it: in an order of time, each part may come once before any comes again.
pub const RANKED_TRIED: usize = 1 << 18;
/// It is where one row in so many is left out.
pub const RANKED_PART: usize = 16;
/// Bytes that are kept of the first rows of all parts.
pub const RANKED_BYTES: usize = 64 << 20;

/// What a table of hashes takes for an entry beside its key and its value.
pub const MODE_ENTRY_BYTES: usize = 8;
/// Sets of keys that GROUPING SETS, ROLLUP and CUBE of a query stand for, as in PostgreSQL: CUBE has 12 keys.
pub const SETS: usize = 4096;
/// Columns that SUMMARIZE asks about by one query: nine are answered for each of them, of at most 1,024.
pub const SUMMARIZED_AT_ONCE: usize = 100;
/// Nodes of what is made of a correlated subquery: one within another has what is around it in it more than once.
pub const CORRELATED_NODES: usize = 4096;
/// For how long EXPLAIN looks at rows to tell how many operators should give; of those that are left nothing is told.
pub const ESTIMATED_FOR: Duration = Duration::from_millis(100);
