//! What a statement does, takes and gives, as the doors tell it.

use basalt_core::schema::{DataType, Schema};

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// SELECT, WITH, VALUES.
    Select,
    /// EXPLAIN, with ANALYZE or without.
    Explain,
    /// SHOW TABLES, DESCRIBE.
    Show,
}

/// A statement that is not run yet.
#[derive(Clone, Debug)]
pub struct Description {
    /// What it does.
    pub command: Command,
    /// The types in which its parameters are taken, those of `$1`, `$2`, ... in turn; of one that may have any type it is
    /// text.
    pub parameters: Vec<DataType>,
    /// The columns of its answer.
    pub schema: Schema,
}
