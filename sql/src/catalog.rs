//! What SQL asks of whoever has the tables.

use std::{collections::BTreeMap, fmt, fs::File, io::Read, sync::Arc};

use arrow_array::{RecordBatch, UInt64Array};
use async_trait::async_trait;
use basalt_core::{
    exec::Expected,
    query::{Filter, Query},
    schema::{DataType, Field, Optimize, Schema},
    table::Retention,
};
use futures_util::stream::BoxStream;

use crate::{
    distributed::Nodes,
    error::{Error, Result},
    hops::Hops,
    system::{Client, ServerRow, ServerTable},
};

/// The bytes of rows, which are waited for. An end that comes too early is an error, not the end.
pub type Input = Box<dyn Read + Send>;

/// The tables of a server.
#[async_trait]
pub trait Catalog: fmt::Debug + Send + Sync {
    /// The names of all tables, ascending.
    ///
    /// # Errors
    /// What kept them from being listed.
    async fn tables(&self) -> Result<Vec<String>>;

    /// One version of a table: the newest that was acknowledged where none is named. A statement asks once for each
    /// table and version that it names, so it reads each of them at one version.
    ///
    /// # Errors
    /// What kept it from being read.
    async fn pin(&self, table: &str, version: Option<u64>) -> Result<Arc<dyn Table>>;

    /// Makes an empty table; `if_not_exists`: nothing happens where there is one of its name.
    ///
    /// # Errors
    /// What kept it from being made.
    async fn create_table(&self, _table: NewTable, _if_not_exists: bool) -> Result<()> {
        Err(read_only())
    }

    /// Makes a table for rows that are written to it at once. Nobody finds it before the commit.
    ///
    /// # Errors
    /// Those of [`Catalog::create_table`].
    async fn create_table_as(&self, _table: NewTable) -> Result<Box<dyn Writer>> {
        Err(read_only())
    }

    /// Drops a table; `if_exists`: nothing happens where there is none.
    ///
    /// # Errors
    /// What kept it from being dropped.
    async fn drop_table(&self, _table: &str, _if_exists: bool) -> Result<()> {
        Err(read_only())
    }

    /// Whether whoever asks may read a table of this name, if there is one.
    fn sees(&self, _table: &str) -> bool {
        true
    }

    /// A statement has named a table that is not among those that were listed; `writes`: to write to it. Whoever keeps
    /// account of what was refused looks whether it is one that is hidden.
    fn not_found(&self, _table: &str, _writes: bool) {}

    /// The texts of all views, by name, as they were when [`Catalog::tables`] was asked.
    ///
    /// # Errors
    /// What kept them from being listed.
    async fn views(&self) -> Result<BTreeMap<String, Arc<str>>> {
        Ok(BTreeMap::new())
    }

    /// Gives a query a name; `replace`: in the place of a view that has it.
    ///
    /// # Errors
    /// What kept it from being made.
    async fn create_view(&self, _name: &str, _sql: &str, _replace: bool) -> Result<()> {
        Err(read_only())
    }

    /// Opens a file that COPY reads.
    ///
    /// # Errors
    /// Why it is not read.
    async fn copy_source(&self, _path: &str) -> Result<File> {
        Err(read_only())
    }

    /// Begins a file that COPY writes.
    ///
    /// # Errors
    /// Why it is not written.
    async fn copy_sink(&self, _path: &str) -> Result<Box<dyn Sink>> {
        Err(read_only())
    }

    /// What the client sends for COPY FROM STDIN; read to its end, or an error, it is complete.
    ///
    /// # Errors
    /// The client can send nothing.
    async fn copy_input(&self) -> Result<Input> {
        Err(no_client())
    }

    /// Fails where the client cannot take what COPY TO STDOUT gives.
    ///
    /// # Errors
    /// It cannot.
    fn copies_out(&self) -> Result<()> {
        Err(no_client())
    }

    /// Waits for the turn of a statement that is planned, before it does anything; `is_light`: it takes little time. One that
    /// is planned again asks again.
    ///
    /// # Errors
    /// Why it is not run now.
    async fn admit(&self, _is_light: bool) -> Result<()> {
        Ok(())
    }

    /// Drops a view; `if_exists`: nothing happens where there is none.
    ///
    /// # Errors
    /// What kept it from being dropped.
    async fn drop_view(&self, _name: &str, _if_exists: bool) -> Result<()> {
        Err(read_only())
    }

    /// The rows of a table that shows the server.
    ///
    /// # Errors
    /// What kept them from being known.
    async fn server_rows(&self, _table: ServerTable) -> Result<Vec<ServerRow>> {
        Ok(Vec::new())
    }

    /// Stops a query that runs.
    ///
    /// # Errors
    /// There is none of this id, or it is not for this caller to stop.
    async fn cancel(&self, _id: &str) -> Result<()> {
        Err(Error::unsupported("CANCEL QUERY here"))
    }

    /// Who has connected, where the door knows.
    fn client(&self) -> Option<Client> {
        None
    }

    /// Whether whoever asks speaks PostgreSQL's protocol: intervals, and lists of values that are no lists, structs or maps, are texts
    /// to others, and columns without a name are called as there.
    fn speaks_postgres(&self) -> bool {
        false
    }

    /// The nodes that may run tasks of the statement; `None`: there is this one alone.
    fn nodes(&self) -> Option<Arc<dyn Nodes>> {
        None
    }

    /// These operators run above the scans of the statement; none: the engine answers by itself.
    fn runs_above(&self, _operators: &[&str]) {}

    /// They have written so many bytes to the disk, as memory had no room for them.
    fn spilled(&self, _bytes: u64) {}

    /// A statement that ran as tasks has failed, and is run again by this node.
    fn failed(&self, _error: &Error) {}
}

/// The error of a statement that writes where nothing is written.
fn read_only() -> Error {
    Error::unsupported("writing to these tables")
}

/// The error of COPY with a client that neither sends nor takes rows so.
pub fn no_client() -> Error {
    let what = "COPY FROM STDIN or TO STDOUT at this door (clients of PostgreSQL's have it; `basalt sql` has \\copy)";
    Error::unsupported(what)
}

/// A table that is to be made.
#[derive(Clone, Debug)]
pub struct NewTable {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub schema: Schema,
    /// For how long it keeps rows; `None`: for good.
    pub retention: Option<Retention>,
    /// Whether deletions write the files that lose rows again; `None`: as the catalog does by itself.
    pub rewrites: Option<bool>,
    /// It takes the place of a table that has its name, in the moment when it is complete.
    pub replaces: bool,
}

/// A change of a table's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alteration {
    /// A column more, behind the others.
    Add(Field),
    /// A column less.
    Drop(String),
    /// Another name for a column.
    Rename(String, String),
    /// Whether a column may be null. Where it may not, no row of the version that was read has a null.
    SetNullable(String, bool),
    /// A wider type for a column.
    Widen(String, DataType),
    /// What the encodings of a column (`None`: of all) are chosen for from now on.
    Optimize(Option<String>, Optimize),
}

/// A file that COPY writes. Dropped before it is kept, it leaves nothing.
pub trait Sink: Send {
    /// Where the bytes go.
    ///
    /// # Errors
    /// Why they do not.
    fn file(&self) -> Result<File>;

    /// All of them are there: the file gets its name.
    ///
    /// # Errors
    /// Why it does not.
    fn keep(self: Box<Self>) -> Result<()>;
}

/// What comes of the rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// New rows come.
    Insert,
    /// New rows come, in the place of those that have the same values in these columns. That one is null, or the values
    /// of two new rows are the same, is an error.
    Replace(Vec<String>),
    /// Rows of the version that was read go, each named once or more often.
    Delete,
    /// Rows of the version that was read go, each named once, and others come.
    Update {
        /// It is a conflict that there is a newer version, and not only that the same rows have changed.
        exactly: bool,
    },
}

/// A change of a table's rows on its way: nothing is seen of it before its commit, and then all of it. Dropping it leaves
/// nothing.
#[async_trait]
pub trait Writer: Send {
    /// New rows, in all columns of the table.
    ///
    /// # Errors
    /// Why they are not taken.
    async fn insert(&mut self, rows: RecordBatch) -> Result<()>;

    /// The addresses of rows that go.
    ///
    /// # Errors
    /// Why they are not taken.
    async fn delete(&mut self, addresses: UInt64Array) -> Result<()>;

    /// Makes one version of it all. It goes on when nobody waits for it any longer.
    ///
    /// # Errors
    /// What kept it from being made.
    async fn commit(self: Box<Self>) -> Result<Written>;
}

/// What a commit has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All of it is there.
    Done {
        /// Rows that came.
        inserted: u64,
        /// Rows that went.
        deleted: u64,
    },
    /// Another change came first, and nothing of this one is there: it is made again from the newest version.
    Conflict,
}

/// One version of a table.
#[async_trait]
pub trait Table: fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// The version.
    fn version(&self) -> u64;

    /// Its columns.
    fn schema(&self) -> &Schema;

    /// How many rows it has.
    fn rows(&self) -> Rows;

    /// What it is, for as long as the process lives: where two have the same, they have the same rows and columns, and what
    /// is said of one here goes for both. `None`: it may change, or is not known, so that no plan over it is kept.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// For how long it keeps rows; `None`: for good.
    fn retention(&self) -> Option<Retention> {
        None
    }

    /// Whether deletions write its files anew.
    fn rewrites(&self) -> bool {
        false
    }

    /// Whether no value of a column stands twice, so that rows of other tables may be looked up by it.
    ///
    /// # Errors
    /// What kept it from being found out.
    async fn is_key(&self, column: &str) -> Result<bool>;

    /// Between which values those of a column of signed integers or decimals lie, without their decimal point; `None`: that
    /// is not known.
    fn range(&self, _column: &str) -> Option<(i64, i64)> {
        None
    }

    /// The types of a query's columns; `None`: the engine does not take it as it is, so that it is evaluated above.
    fn types(&self, query: &Query) -> Option<Vec<DataType>>;

    /// Roughly the bytes of a query's answer, where that takes little time; `None`: it takes long, or that is not known.
    fn light_bytes(&self, _query: &Query) -> Option<u64> {
        None
    }

    /// How many rows a query should select and answer, for EXPLAIN: it may take a fraction of a millisecond to look at some
    /// rows. `None`: that is not known.
    fn expected(&self, _query: &Query) -> Option<Expected> {
        None
    }

    /// Runs a query. Its semi-joins and attributes are of the versions that were pinned by their tables' names alone. The
    /// work begins with the first poll and ends when the stream is dropped.
    fn run(&self, query: Query) -> Answers;

    /// The same, and tells what each node of a cluster does for it, by when its rows are complete.
    fn run_with(&self, query: Query, _hops: &Hops) -> Answers {
        self.run(query)
    }

    /// Some of the rows, for each of these nodes: those that it is asked for first. Together they are all rows, each once.
    ///
    /// # Errors
    /// Why they are not shared out.
    fn shares(&self, _nodes: &[Arc<str>]) -> Result<Vec<Arc<dyn Table>>> {
        Err(Error::unsupported("sharing out the rows of these tables"))
    }

    /// Which share it is, in words, where it is one.
    fn share(&self) -> Option<String> {
        None
    }

    /// One of so many parts of the rows, counted from 0. Together they are all rows, each once.
    ///
    /// # Errors
    /// Why there are no parts.
    fn part(&self, _part: usize, _of: usize) -> Result<Arc<dyn Table>> {
        Err(Error::unsupported("parts of the rows of these tables"))
    }

    /// Whether there are shares and parts of its rows.
    fn is_divisible(&self) -> bool {
        false
    }

    /// A query of the rows, for another node that reads them.
    ///
    /// # Errors
    /// Why it does not travel.
    fn encode(&self, _query: &Query) -> Result<Vec<u8>> {
        Err(Error::unsupported("reading these tables at other nodes"))
    }

    /// Begins a change of the newest version; of rows that go, the addresses are those of this one.
    ///
    /// # Errors
    /// Why the table is not written to.
    async fn write(&self, _change: Change) -> Result<Box<dyn Writer>> {
        Err(read_only())
    }

    /// Changes the columns, all at once; `exactly`: only where no newer version has come.
    ///
    /// # Errors
    /// Why they stay as they are.
    async fn alter(&self, _alterations: Vec<Alteration>, _exactly: bool) -> Result<Written> {
        Err(read_only())
    }

    /// Deletes the rows of the newest version that a condition of the engine selects (`None`: all), as a change of its
    /// own, and says how many they were; `None`: that is not possible here, and the addresses are to be given to
    /// [`Table::write`].
    ///
    /// # Errors
    /// Why nothing was deleted.
    async fn delete(&self, _filter: Option<Filter>) -> Result<Option<u64>> {
        Ok(None)
    }
}

/// See [`Table::identity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The table, whatever its name: another for one that is made in the place of one that was dropped.
    pub table: u64,
    /// Its version.
    pub version: u64,
}

/// The rows of a query of the engine, in its order.
pub type Answers = BoxStream<'static, Result<RecordBatch>>;

/// The rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// So many.
    Exactly(u64),
    /// Some of these are deleted or too old to be read.
    AtMost(u64),
}

impl Rows {
    /// No fewer than there are.
    pub fn most(self) -> u64 {
        match self {
            Self::Exactly(rows) | Self::AtMost(rows) => rows,
        }
    }
}
