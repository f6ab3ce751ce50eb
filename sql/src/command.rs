//! What a statement does, takes and gives, as the doors tell it.

use arrow_schema::SchemaRef;
use basalt_core::schema::{DataType, Schema};

use crate::copy::CopyForm;

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// SELECT, WITH, VALUES.
    Select,
    /// EXPLAIN, with ANALYZE or without.
    Explain,
    /// SHOW, DESCRIBE, SUMMARIZE.
    Show,
    /// SET, RESET.
    Set,
    /// INSERT without ON CONFLICT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// INSERT ... ON CONFLICT.
    Merge,
    /// TRUNCATE.
    Truncate,
    /// COPY.
    Copy,
    /// CREATE TABLE.
    CreateTable,
    /// CREATE TABLE ... AS.
    CreateTableAs,
    /// DROP TABLE.
    DropTable,
    /// ALTER TABLE.
    AlterTable,
    /// CREATE VIEW.
    CreateView,
    /// DROP VIEW.
    DropView,
    /// CREATE INDEX, which makes none.
    CreateIndex,
    /// DROP INDEX, which drops none.
    DropIndex,
    /// CANCEL QUERY.
    CancelQuery,
}

impl Command {
    /// Whether the answer is rows that were asked for. That of any other statement is one row of one column, `rows`: how
    /// many rows were written, deleted or copied, 0 where none are.
    pub fn gives_rows(self) -> bool {
        matches!(self, Self::Select | Self::Explain | Self::Show)
    }
}

/// What a text says that is taken for a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextOf {
    /// Bytes.
    Bytes,
    /// A time of day.
    Time,
    /// An interval.
    Interval,
    /// A list of intervals, as PostgreSQL writes arrays.
    Intervals,
    /// A list, as PostgreSQL writes arrays, of values that are taken in this type.
    List(DataType),
}

/// A statement that is not run yet.
#[derive(Clone, Debug)]
pub struct Description {
    /// What it does.
    pub command: Command,
    /// The types in which its parameters are taken, those of `$1`, `$2`, ... in turn; of one that may have any type it is
    /// text.
    pub parameters: Vec<DataType>,
    /// Of each of them, what the text that is taken says, where that is something else.
    pub texts: Vec<Option<TextOf>>,
    /// The columns of its answer; of COPY FROM STDIN, those that the client sends.
    pub schema: Schema,
    /// The same as the rows have them: with lists and intervals, where the client takes such, which are texts in `schema`.
    pub arrow: SchemaRef,
    /// In which form the client sends the rows of COPY FROM STDIN.
    pub copied: Option<CopyForm>,
}
