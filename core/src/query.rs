//! What a caller asks: expressions, filters, queries, with columns by name. `plan` binds them to a table.

use std::{fmt, sync::Arc};

use arrow_array::{ArrayRef, RecordBatch, cast::AsArray, types::Int64Type};
use basalt_sip::Sip;

use crate::{
    encoding::TextMembers, limits::MAX_FILTER_DEPTH, lookup::Lookup, schema::DataType,
    time_parts::TimeFunction,
};

/// One literal.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    /// `unscaled * 10^-scale`; of more than 64 bits only as a parameter of SQL
    Decimal {
        unscaled: i128,
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
    /// A value of the row that a column refers to.
    Attribute(Attribute),
    /// A literal.
    Literal(Literal),
    /// `left op right`.
    Arithmetic(ArithmeticOp, Box<Expr>, Box<Expr>),
    /// A function of a date or a timestamp.
    Time(TimeFunction, Box<Expr>),
    /// An aggregate over a group.
    Aggregate(Box<Aggregate>),
}

/// `column.name`: the value in column `name` of the row that `column` refers to. Null where the column is null, or
/// where no row has its key.
#[derive(Clone, Debug)]
pub struct Attribute {
    /// A column that declares a [`Reference`](crate::schema::Reference).
    pub column: String,
    /// A column of the table that it refers to.
    pub name: String,
    /// The values by key; [`resolve`](crate::exec::resolve) finds it.
    pub lookup: Option<Arc<Lookup>>,
}

impl PartialEq for Attribute {
    /// In one query the same names are the same values.
    fn eq(&self, other: &Self) -> bool {
        (&self.column, &self.name) == (&other.column, &other.name)
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.column, self.name)
    }
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
    /// A column's value is in a set of keys.
    Keys(KeyFilter),
    /// A column's text is in a set of texts.
    Texts(TextFilter),
    /// `column IN (SELECT key FROM table WHERE filter)`; [`resolve`](crate::exec::resolve) makes it one of the two above.
    SemiJoin(Box<SemiJoin>),
    /// Always or never.
    Constant(bool),
}

impl Expr {
    /// Calls `each` with the attributes in it, as deep as an expression may be.
    ///
    /// # Errors
    /// The first of `each`.
    pub fn attributes<E>(&mut self, each: &mut dyn FnMut(&mut Attribute) -> Result<(), E>) -> Result<(), E> {
        self.attributes_from(0, each)
    }

    fn attributes_from<E>(
        &mut self,
        depth: usize,
        each: &mut dyn FnMut(&mut Attribute) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Attribute(attribute) => each(attribute),
            Self::Arithmetic(_, left, right) if depth < MAX_FILTER_DEPTH => {
                left.attributes_from(depth + 1, each)?;
                right.attributes_from(depth + 1, each)
            }
            Self::Time(_, of) if depth < MAX_FILTER_DEPTH => of.attributes_from(depth + 1, each),
            Self::Aggregate(aggregate) if depth < MAX_FILTER_DEPTH => {
                aggregate.argument.iter_mut().try_for_each(|a| a.attributes_from(depth + 1, each))
            }
            _ => Ok(()),
        }
    }
}

impl Filter {
    /// Calls `each` with the attributes in it, those of inner queries apart, as deep as a filter may be.
    ///
    /// # Errors
    /// The first of `each`.
    pub fn attributes<E>(&mut self, each: &mut dyn FnMut(&mut Attribute) -> Result<(), E>) -> Result<(), E> {
        self.attributes_from(0, each)
    }

    fn attributes_from<E>(
        &mut self,
        depth: usize,
        each: &mut dyn FnMut(&mut Attribute) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::And(filters) | Self::Or(filters) if depth < MAX_FILTER_DEPTH => {
                filters.iter_mut().try_for_each(|f| f.attributes_from(depth + 1, each))
            }
            Self::Not(inner) if depth < MAX_FILTER_DEPTH => inner.attributes_from(depth + 1, each),
            Self::Compare(_, left, right) => {
                left.attributes(each)?;
                right.attributes(each)
            }
            Self::Between(expr, low, high) => {
                [expr, low, high].into_iter().try_for_each(|expr| expr.attributes(each))
            }
            Self::In(expr, _) | Self::IsNull(expr) | Self::Like(expr, _) => expr.attributes(each),
            _ => Ok(()),
        }
    }

    /// Calls `each` with the parts that are neither lists nor negations, as deep as a filter may be.
    pub fn leaves(&self, each: &mut dyn FnMut(&Self)) {
        self.leaves_from(0, each);
    }

    fn leaves_from(&self, depth: usize, each: &mut dyn FnMut(&Self)) {
        match self {
            Self::And(_) | Self::Or(_) | Self::Not(_) if depth >= MAX_FILTER_DEPTH => {}
            Self::And(filters) | Self::Or(filters) => {
                filters.iter().for_each(|filter| filter.leaves_from(depth + 1, each));
            }
            Self::Not(inner) => inner.leaves_from(depth + 1, each),
            leaf => each(leaf),
        }
    }

    /// Whether a semi-join is among its parts, as deep as a filter may be.
    pub fn has_semi_joins(&self) -> bool {
        let mut found = false;
        self.leaves(&mut |leaf| found |= matches!(leaf, Self::SemiJoin(_)));
        found
    }
}

/// Row addresses with what they mean.
#[derive(Clone, Debug, PartialEq)]
pub struct RowSet {
    /// The table they belong to.
    pub table: String,
    /// The version they belong to.
    pub version: u64,
    /// The id of the table; `None` is not checked.
    pub table_id: Option<u64>,
    /// The addresses.
    pub sip: Arc<Sip>,
    /// Where they come from.
    pub origin: SipOrigin,
}

/// Where a set comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SipOrigin {
    /// The request has it.
    #[default]
    Request,
    /// It was kept on the server.
    Handle,
    /// Values of a column of another table.
    SemiJoin {
        /// The table.
        table: String,
        /// The column.
        key: String,
        /// Nanoseconds that it took to find them.
        build_ns: u64,
    },
}

impl fmt::Display for SipOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => f.write_str("request"),
            Self::Handle => f.write_str("handle"),
            Self::SemiJoin { table, key, .. } => write!(f, "semi-join {table}.{key}"),
        }
    }
}

/// `column IN set`.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyFilter {
    /// The column.
    pub column: String,
    /// The values.
    pub set: KeySet,
}

/// Values of columns of a fixed-width type, floats apart, as 64-bit ids.
///
/// The id of an integer is its 64-bit two's complement, that of a bool 0 or 1, of a date its days, of a
/// timestamp its microseconds, of a decimal its unscaled integer. With columns of another type of integer they
/// compare by value: what the other type cannot hold is not there.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySet {
    /// What the ids are values of.
    pub data_type: DataType,
    /// Null is among the values: `NOT IN` is then never true.
    pub has_null: bool,
    /// The ids.
    pub sip: Arc<Sip>,
    /// Where they come from.
    pub origin: SipOrigin,
}

/// `column IN texts`.
#[derive(Clone, Debug, PartialEq)]
pub struct TextFilter {
    /// The column.
    pub column: String,
    /// The texts.
    pub texts: Arc<TextMembers>,
    /// Null is among them: `NOT IN` is then never true.
    pub has_null: bool,
    /// Where they come from.
    pub origin: SipOrigin,
}

/// `column IN (SELECT key FROM table WHERE filter)`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SemiJoin {
    /// The column of the outer table.
    pub column: String,
    /// The inner table.
    pub table: String,
    /// Its column.
    pub key: String,
    /// Which of its rows.
    pub filter: Option<Filter>,
    /// Its version; `None`: the newest.
    pub version: Option<u64>,
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
    /// A column is one of the table, whatever the answer's names are.
    pub of_table: bool,
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

impl Query {
    /// Calls `each` with the attributes of its expressions and filters, and with the place of each.
    ///
    /// # Errors
    /// The first of `each`.
    pub fn attributes<E>(
        &mut self,
        each: &mut dyn FnMut(&mut Attribute, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        for (i, item) in self.select.iter_mut().enumerate() {
            item.expr.attributes(&mut |a| each(a, &format!("select[{i}].expr")))?;
        }
        self.filter.iter_mut().try_for_each(|f| f.attributes(&mut |a| each(a, "filter")))?;
        for (i, key) in self.group_by.iter_mut().enumerate() {
            key.attributes(&mut |a| each(a, &format!("group_by[{i}]")))?;
        }
        self.having.iter_mut().try_for_each(|f| f.attributes(&mut |a| each(a, "having")))?;
        for (i, key) in self.order_by.iter_mut().enumerate() {
            key.expr.attributes(&mut |a| each(a, &format!("order_by[{i}].expr")))?;
        }
        Ok(())
    }

    /// How many values a column has, and how many distinct ones: as many where no value stands twice.
    pub fn counts(column: &str) -> Self {
        let count = |distinct| {
            let argument = Some(Expr::Column(column.to_owned()));
            let count = Aggregate { function: AggregateFunction::Count, argument, distinct };
            SelectItem { expr: Expr::Aggregate(Box::new(count)), name: None }
        };
        Self { select: vec![count(false), count(true)], ..Self::default() }
    }

    /// Whether the answer of [`Query::counts`] says that no value stands twice.
    pub fn counts_are_equal(answer: &RecordBatch) -> bool {
        let count = |i| {
            let column =
                answer.columns().get(i).and_then(|column: &ArrayRef| column.as_primitive_opt::<Int64Type>());
            column.map(|column| column.values().to_vec())
        };
        answer.num_columns() == 2 && count(0).is_some() && count(0) == count(1)
    }

    /// Whether one of its filters has a semi-join.
    pub fn has_semi_joins(&self) -> bool {
        self.filter.iter().chain(&self.having).any(Filter::has_semi_joins)
    }
}
