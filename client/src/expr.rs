//! Typed expressions and filters: `col("dep_delay").gt(60).and(col("carrier").is_in(["AA", "UA"]))`.

use std::ops;

use basalt_proto::v1::{self, AggregateFunction, ArithmeticOp, CompareOp, expr, filter, value};

/// One literal value.
///
/// Rust's booleans, numbers and strings convert into it; a text also stands for a date
/// (`"2013-07-04"`), a timestamp (`"2013-07-04T10:00:00Z"`) or a decimal (`"0.05"`) where one is compared.
///
/// ```
/// use basalt_client::Literal;
///
/// assert_eq!(Literal::from(None::<i32>), Literal::null());
/// let twentieth = Literal::decimal(5, 2);
/// assert_ne!(twentieth, Literal::from(0.05));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Literal(v1::Value);

impl Literal {
    fn of(kind: value::Kind) -> Self {
        Self(v1::Value { kind: Some(kind) })
    }

    /// SQL's NULL.
    pub fn null() -> Self {
        Self::of(value::Kind::Null(true))
    }

    /// `unscaled * 10^-scale`, exactly: `decimal(5, 2)` is 0.05.
    pub fn decimal(unscaled: i64, scale: u32) -> Self {
        Self::of(value::Kind::Decimal(v1::Decimal { unscaled, scale }))
    }

    /// A date as days since 1970-01-01.
    pub fn date(days: i32) -> Self {
        Self::of(value::Kind::Date(days))
    }

    /// A timestamp as microseconds since 1970-01-01T00:00:00Z.
    pub fn timestamp(microseconds: i64) -> Self {
        Self::of(value::Kind::Timestamp(microseconds))
    }

    /// The API's message.
    pub(crate) fn message(&self) -> &v1::Value {
        &self.0
    }
}

impl From<v1::Value> for Literal {
    fn from(value: v1::Value) -> Self {
        Self(value)
    }
}

impl From<Literal> for v1::Value {
    fn from(literal: Literal) -> Self {
        literal.0
    }
}

macro_rules! literal_from {
    ($($kind:ident: $($type:ty),+;)+) => {$($(
        impl From<$type> for Literal {
            fn from(value: $type) -> Self {
                Self::of(value::Kind::$kind(value.into()))
            }
        }
    )+)+};
}

literal_from! {
    Bool: bool;
    Int: i8, i16, i32, i64;
    Uint: u8, u16, u32, u64;
    Double: f32, f64;
    Text: &str, String, &String;
}

impl<T: Into<Self>> From<Option<T>> for Literal {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(Self::null, Into::into)
    }
}

/// A value for every row or, with aggregates in it, for every group.
///
/// Made by [`col`], [`lit`] and the aggregates; `+ - * /` combine them, comparisons turn them into a
/// [`Filter`]. Division is always float64; integers and decimals otherwise stay what they are.
///
/// ```
/// use basalt_client::{Expr, avg, col, lit, sum};
///
/// let revenue: Expr = sum(col("price") * (lit(1) - col("discount"))).alias("revenue");
/// let speed: Expr = avg(col("distance") / col("air_time"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    kind: v1::Expr,
    name: Option<String>,
}

/// A column by its name.
pub fn col(name: impl Into<String>) -> Expr {
    Expr::of(expr::Kind::Column(name.into()))
}

/// Several columns: `cols(["carrier", "origin"])`.
pub fn cols<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Vec<Expr> {
    names.into_iter().map(col).collect()
}

/// A value of the row that a column refers to: `attribute("lo_orderdate", "d_year")` is SQL's
/// `lo_orderdate.d_year`. The table's schema says what the column refers to (see
/// [`REFERENCES_KEY`](crate::convert::REFERENCES_KEY)).
pub fn attribute(column: impl Into<String>, attribute: impl Into<String>) -> Expr {
    let (column, attribute) = (column.into(), attribute.into());
    Expr::of(expr::Kind::Attribute(v1::Attribute { column, attribute }))
}

/// The address of every row, as a column of uint64.
pub fn row_address() -> Expr {
    col("_row_address")
}

/// A literal.
pub fn lit(value: impl Into<Literal>) -> Expr {
    Expr::of(expr::Kind::Literal(value.into().0))
}

/// `count(*)`: the rows.
pub fn count() -> Expr {
    aggregate(AggregateFunction::Count, None, false)
}

/// `count(expr)`: the rows where `expr` is not null.
pub fn count_of(expr: Expr) -> Expr {
    aggregate(AggregateFunction::Count, Some(expr), false)
}

/// `count(distinct expr)`: the number of distinct values, exact; null is not one.
pub fn count_distinct(expr: Expr) -> Expr {
    aggregate(AggregateFunction::Count, Some(expr), true)
}

/// The sum; exact for integers and decimals.
pub fn sum(expr: Expr) -> Expr {
    aggregate(AggregateFunction::Sum, Some(expr), false)
}

/// The smallest value.
pub fn min(expr: Expr) -> Expr {
    aggregate(AggregateFunction::Min, Some(expr), false)
}

/// The largest value.
pub fn max(expr: Expr) -> Expr {
    aggregate(AggregateFunction::Max, Some(expr), false)
}

/// The mean, as float64.
pub fn avg(expr: Expr) -> Expr {
    aggregate(AggregateFunction::Avg, Some(expr), false)
}

fn aggregate(function: AggregateFunction, argument: Option<Expr>, distinct: bool) -> Expr {
    let argument = argument.map(|e| Box::new(e.kind));
    Expr::of(expr::Kind::Aggregate(Box::new(v1::Aggregate { function: function.into(), argument, distinct })))
}

impl Expr {
    fn of(kind: expr::Kind) -> Self {
        Self { kind: v1::Expr { kind: Some(kind) }, name: None }
    }

    /// The same expression under a name of its own in the answer.
    #[must_use]
    pub fn alias(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The column's name, if it is one.
    pub(crate) fn column(&self) -> Option<&str> {
        match &self.kind.kind {
            Some(expr::Kind::Column(name)) => Some(name),
            _ => None,
        }
    }

    fn compare(self, op: CompareOp, right: Self) -> Filter {
        let (left, right) = (Some(self.kind), Some(right.kind));
        Filter::of(filter::Kind::Compare(v1::Compare { op: op.into(), left, right }))
    }

    /// `self = other`; null where either is null.
    pub fn eq(self, other: impl Into<Self>) -> Filter {
        self.compare(CompareOp::Eq, other.into())
    }

    /// `self <> other`; null where either is null.
    pub fn ne(self, other: impl Into<Self>) -> Filter {
        self.compare(CompareOp::Ne, other.into())
    }

    /// `self < other`.
    pub fn lt(self, other: impl Into<Self>) -> Filter {
        self.compare(CompareOp::Lt, other.into())
    }

    /// `self <= other`.
    pub fn le(self, other: impl Into<Self>) -> Filter {
        self.compare(CompareOp::Le, other.into())
    }

    /// `self > other`.
    pub fn gt(self, other: impl Into<Self>) -> Filter {
        self.compare(CompareOp::Gt, other.into())
    }

    /// `self >= other`.
    pub fn ge(self, other: impl Into<Self>) -> Filter {
        self.compare(CompareOp::Ge, other.into())
    }

    /// `low <= self <= high`.
    pub fn between(self, low: impl Into<Self>, high: impl Into<Self>) -> Filter {
        let (low, high) = (Some(low.into().kind), Some(high.into().kind));
        Filter::of(filter::Kind::Between(v1::Between { expr: Some(self.kind), low, high }))
    }

    /// Whether it is one of the values.
    pub fn is_in<L: Into<Literal>>(self, values: impl IntoIterator<Item = L>) -> Filter {
        let values = values.into_iter().map(|v| v.into().0).collect();
        Filter::of(filter::Kind::In(v1::In { expr: Some(self.kind), values }))
    }

    /// `self IS NULL`.
    pub fn is_null(self) -> Filter {
        Filter::of(filter::Kind::IsNull(self.kind))
    }

    /// `self IS NOT NULL`.
    pub fn is_not_null(self) -> Filter {
        !self.is_null()
    }

    /// SQL's LIKE: `%` is any run of characters, `_` any one, `\` takes the next one as it is.
    pub fn like(self, pattern: impl Into<String>) -> Filter {
        Filter::of(filter::Kind::Like(v1::Like { expr: Some(self.kind), pattern: pattern.into() }))
    }

    /// In the order from the smallest, nulls last.
    pub fn asc(self) -> OrderBy {
        OrderBy(v1::OrderBy { expr: Some(self.kind), descending: false, nulls_first: false, of_table: false })
    }

    /// In the order from the largest, nulls last.
    pub fn desc(self) -> OrderBy {
        OrderBy(v1::OrderBy { expr: Some(self.kind), descending: true, nulls_first: false, of_table: false })
    }
}

impl<T: Into<Literal>> From<T> for Expr {
    fn from(value: T) -> Self {
        lit(value)
    }
}

impl From<Expr> for v1::Expr {
    fn from(expr: Expr) -> Self {
        expr.kind
    }
}

impl From<Expr> for v1::SelectItem {
    fn from(expr: Expr) -> Self {
        Self { expr: Some(expr.kind), name: expr.name.unwrap_or_default() }
    }
}

macro_rules! arithmetic {
    ($($op:ident $method:ident $arithmetic:ident;)+) => {$(
        impl<R: Into<Expr>> ops::$op<R> for Expr {
            type Output = Expr;

            fn $method(self, right: R) -> Expr {
                let (left, right) = (Some(Box::new(self.kind)), Some(Box::new(right.into().kind)));
                let op = ArithmeticOp::$arithmetic.into();
                Expr::of(expr::Kind::Arithmetic(Box::new(v1::Arithmetic { op, left, right })))
            }
        }
    )+};
}

arithmetic! {
    Add add Add;
    Sub sub Subtract;
    Mul mul Multiply;
    Div div Divide;
}

/// One key of an order; made by [`Expr::asc`], [`Expr::desc`], or an [`Expr`] alone (ascending).
#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy(v1::OrderBy);

impl OrderBy {
    /// Nulls first; they come last otherwise, whichever the direction.
    #[must_use]
    pub fn nulls_first(mut self) -> Self {
        self.0.nulls_first = true;
        self
    }

    /// A column is one of the table, also where an answer's column has its name, which would come first.
    #[must_use]
    pub fn of_table(mut self) -> Self {
        self.0.of_table = true;
        self
    }
}

impl From<Expr> for OrderBy {
    fn from(expr: Expr) -> Self {
        expr.asc()
    }
}

impl From<OrderBy> for v1::OrderBy {
    fn from(order: OrderBy) -> Self {
        order.0
    }
}

/// Which rows: SQL's three-valued logic, selected when true (not when null).
///
/// ```
/// use basalt_client::{Filter, col, not};
///
/// let late: Filter = col("dep_delay").gt(60).and(col("origin").is_in(["JFK", "LGA"]));
/// let known: Filter = not(col("tailnum").is_null().or(col("tailnum").like("N%X")));
/// let both = Filter::all([late, known]);
/// assert_eq!(both.clone().and(Filter::constant(true)), Filter::all([both, Filter::constant(true)]));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Filter(v1::Filter);

/// True where the filter is false; null stays null.
pub fn not(filter: Filter) -> Filter {
    !filter
}

impl Filter {
    fn of(kind: filter::Kind) -> Self {
        Self(v1::Filter { kind: Some(kind) })
    }

    /// Every row or none.
    pub fn constant(value: bool) -> Self {
        Self::of(filter::Kind::Constant(value))
    }

    /// Rows by their addresses in one version of the table.
    pub fn row_addresses(version: u64, addresses: impl Into<Vec<u64>>) -> Self {
        Self::of(filter::Kind::RowAddresses(v1::RowAddresses { version, addresses: addresses.into() }))
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::all([self, other])
    }

    /// Either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::any([self, other])
    }

    /// All of them; of none: true. An `and` inside an `and` is merged, so chains stay flat.
    pub fn all(filters: impl IntoIterator<Item = Self>) -> Self {
        let mut flat = Vec::new();
        for filter in filters {
            match filter.0.kind {
                Some(filter::Kind::And(and)) => flat.extend(and.filters),
                _ => flat.push(filter.0),
            }
        }
        match flat.len() {
            0 => Self::constant(true),
            1 => Self(flat.remove(0)),
            _ => Self::of(filter::Kind::And(v1::And { filters: flat })),
        }
    }

    /// Any of them; of none: false. An `or` inside an `or` is merged, so chains stay flat.
    pub fn any(filters: impl IntoIterator<Item = Self>) -> Self {
        let mut flat = Vec::new();
        for filter in filters {
            match filter.0.kind {
                Some(filter::Kind::Or(or)) => flat.extend(or.filters),
                _ => flat.push(filter.0),
            }
        }
        match flat.len() {
            0 => Self::constant(false),
            1 => Self(flat.remove(0)),
            _ => Self::of(filter::Kind::Or(v1::Or { filters: flat })),
        }
    }
}

impl ops::Not for Filter {
    type Output = Self;

    fn not(self) -> Self {
        match self.0.kind {
            Some(filter::Kind::Not(inner)) => Self(*inner),
            _ => Self::of(filter::Kind::Not(Box::new(self.0))),
        }
    }
}

impl From<v1::Filter> for Filter {
    fn from(filter: v1::Filter) -> Self {
        Self(filter)
    }
}

impl From<Filter> for v1::Filter {
    fn from(filter: Filter) -> Self {
        filter.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_stay_flat() {
        let f = |n: i32| col("a").gt(n);
        let v1::Filter { kind: Some(filter::Kind::And(and)) } = f(1).and(f(2)).and(f(3).and(f(4))).into()
        else {
            panic!("not an and");
        };
        assert_eq!(and.filters, [1, 2, 3, 4].map(|n| f(n).into()));
        let v1::Filter { kind: Some(filter::Kind::Or(or)) } = f(1).or(f(2)).or(f(3).and(f(4))).into() else {
            panic!("not an or");
        };
        assert_eq!(or.filters.len(), 3);
        assert_eq!(Filter::all([f(1)]), f(1));
        assert_eq!(Filter::all([]), Filter::constant(true));
        assert_eq!(Filter::any([]), Filter::constant(false));
        assert_eq!(not(not(f(1))), f(1));
    }

    #[test]
    fn expressions_and_literals() {
        let revenue = col("price") * (lit(1) - col("discount"));
        let v1::Expr { kind: Some(expr::Kind::Arithmetic(product)) } = revenue.into() else {
            panic!("not arithmetic");
        };
        assert_eq!(product.op(), ArithmeticOp::Multiply);
        assert_eq!(product.right.map(|e| *e), Some((lit(1) - col("discount")).into()));

        assert_eq!(lit("AA"), Expr::from("AA"));
        assert_eq!(Literal::from(None::<i32>), Literal::null());
        assert_eq!(Literal::null().kind(), None);
        assert_eq!(Literal::from(7_u8).kind(), Some(&value::Kind::Uint(7)));

        let item: v1::SelectItem = count().alias("n").into();
        assert_eq!(item.name, "n");
        let key: v1::OrderBy = col("n").desc().nulls_first().into();
        assert!(key.descending && key.nulls_first);
    }
}
