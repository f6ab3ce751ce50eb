//! What a caller asks: expressions, filters, queries, with columns by name. `plan` binds them to a table.

use std::sync::Arc;

use basalt_sip::Sip;

/// One literal.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    /// `unscaled * 10^-scale`
    Decimal {
        unscaled: i64,
        scale: u8,
    },
    /// Also stands for a date, timestamp or decimal where one is compared.
    Text(String),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
}

/// The name of the pseudo-column that holds every row's address.
pub const ROW_ADDRESS: &str = "_row_address";

/// A value for every row (or, above aggregates, for every group).
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A column by name; [`ROW_ADDRESS`] is the row's address.
    Column(String),
    /// A literal.
    Literal(Literal),
    /// `left op right`.
    Arithmetic(ArithmeticOp, Box<Expr>, Box<Expr>),
    /// An aggregate over a group.
    Aggregate(Box<Aggregate>),
}

/// Integers stay int64 and decimals stay decimals; division is always float64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// An aggregate function over the rows of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The function.
    pub function: AggregateFunction,
    /// What it is taken of; `None` is `count(*)`.
    pub argument: Option<Expr>,
    /// `count(distinct ...)`.
    pub distinct: bool,
}

/// Aggregate functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum AggregateFunction {
    Count,
    Sum,
    Min,
    Max,
    Avg,
}

/// The six comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Which rows (or groups): SQL's three-valued logic, selected when true.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// All of them.
    And(Vec<Filter>),
    /// Any of them.
    Or(Vec<Filter>),
    /// True when the inner one is false (not when it is null).
    Not(Box<Filter>),
    /// `left op right`.
    Compare(CompareOp, Expr, Expr),
    /// `low <= expr <= high`.
    Between(Expr, Expr, Expr),
    /// `expr IN (values)`.
    In(Expr, Vec<Literal>),
    /// `expr IS NULL`.
    IsNull(Expr),
    /// SQL LIKE: `%`, `_`, and `\` before a character taken as it is.
    Like(Expr, String),
    /// Rows of one version of one table, by address.
    Rows(RowSet),
    /// Always or never.
    Constant(bool),
}

/// Row addresses with what they mean.
#[derive(Clone, Debug, PartialEq)]
pub struct RowSet {
    /// The table they belong to.
    pub table: String,
    /// The version they belong to.
    pub version: u64,
    /// The addresses.
    pub sip: Arc<Sip>,
}

/// One column of the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectItem {
    /// What it holds.
    pub expr: Expr,
    /// Its name; `None`: the expression's text.
    pub name: Option<String>,
}

/// One key of the order.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy {
    /// An expression, or a column that names one of the answer's.
    pub expr: Expr,
    /// Largest first.
    pub descending: bool,
    /// Nulls first; they come last otherwise, whichever the direction.
    pub nulls_first: bool,
}

/// A query over one table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// The columns of the answer; empty: all of the table.
    pub select: Vec<SelectItem>,
    /// Which rows.
    pub filter: Option<Filter>,
    /// The keys of the groups.
    pub group_by: Vec<Expr>,
    /// Which groups.
    pub having: Option<Filter>,
    /// In which order; without it by group key, or by row address.
    pub order_by: Vec<OrderBy>,
    /// At most so many rows.
    pub limit: Option<u64>,
    /// After leaving out so many.
    pub offset: u64,
}
