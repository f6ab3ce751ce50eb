//! Conditions and expressions of DataFusion as those of the engine, as far as both mean the same. What compares by
//! value compares exactly in the engine, so a cast that only makes the types of two sides meet is left out.

use arrow_schema::{DataType, TimeUnit};
use basalt_core::{
    like::Pattern,
    query::{Aggregate, AggregateFunction, CompareOp, Expr, Filter, Literal},
    schema::DataType as Logical,
    time_parts::{TimeFunction, Unit},
};
use datafusion::{
    common::ScalarValue,
    logical_expr::{
        self as df, BinaryExpr, Operator,
        expr::{InList, Like},
    },
};

use crate::{
    arithmetic::Arithmetic,
    catalog::Table,
    checked, sums,
    table::{Columns, all},
};

/// Depth of what is given to the engine, below its own limit, so that conditions may still be joined.
pub(crate) const DEPTH: usize = basalt_core::limits::MAX_FILTER_DEPTH - 4;

/// Translates over the columns of one relation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translator<'a> {
    pub(crate) columns: &'a Columns,
    /// Whose they are, but for what they refer to.
    pub(crate) table: &'a dyn Table,
}

impl Translator<'_> {
    /// A condition; `None`: the engine has none that means the same.
    pub(crate) fn filter(&self, expr: &df::Expr) -> Option<Filter> {
        self.filter_at(expr, 0, false)
    }

    /// In a condition that is negated NULL selects what true selects, which is nothing.
    fn filter_at(&self, expr: &df::Expr, depth: usize, negated: bool) -> Option<Filter> {
        if depth > DEPTH {
            return None;
        }
        match expr {
            df::Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::And | Operator::Or => {
                    let side = |side| self.filter_at(side, depth + 1, negated);
                    let both = vec![side(left)?, side(right)?];
                    if *op == Operator::And { all(both) } else { Some(Filter::Or(both)) }
                }
                op => {
                    let op = compare_op(*op)?;
                    Some(Filter::Compare(op, self.compared(left, depth)?, self.compared(right, depth)?))
                }
            },
            df::Expr::Not(inner) => {
                Some(Filter::Not(Box::new(self.filter_at(inner, depth + 1, !negated)?)))
            }
            df::Expr::IsNull(inner) => Some(Filter::IsNull(self.any_column(inner)?)),
            df::Expr::IsNotNull(inner) => {
                Some(Filter::Not(Box::new(Filter::IsNull(self.any_column(inner)?))))
            }
            df::Expr::Between(between) => {
                let filter = Filter::Between(
                    self.compared(&between.expr, depth)?,
                    self.compared(&between.low, depth)?,
                    self.compared(&between.high, depth)?,
                );
                Some(if between.negated { Filter::Not(Box::new(filter)) } else { filter })
            }
            df::Expr::InList(InList { expr, list, negated }) => {
                if list.len() > basalt_core::limits::MAX_IN_LIST {
                    return None;
                }
                let column = self.compared_column(expr)?;
                let literals = list.iter().map(|item| match item {
                    df::Expr::Literal(value, _) => literal(value),
                    _ => None,
                });
                let filter = Filter::In(column, literals.collect::<Option<Vec<_>>>()?);
                Some(if *negated { Filter::Not(Box::new(filter)) } else { filter })
            }
            df::Expr::Like(Like { negated, expr, pattern, escape_char, case_insensitive: false })
                if escape_char.is_none_or(|escape| escape == '\\') =>
            {
                let column = self.compared_column(expr)?;
                let df::Expr::Literal(pattern, _) = &**pattern else { return None };
                let Some(Literal::Text(pattern)) = literal(pattern) else { return None };
                // A pattern that the engine refuses may mean something elsewhere.
                Pattern::new(&pattern).ok()?;
                let filter = Filter::Like(column, pattern);
                Some(if *negated { Filter::Not(Box::new(filter)) } else { filter })
            }
            df::Expr::Column(_) => {
                let column = self.column(expr)?;
                let truth = Expr::Literal(Literal::Bool(true));
                (self.type_of(expr)? == Logical::Bool).then(|| Filter::Compare(CompareOp::Eq, column, truth))
            }
            df::Expr::Literal(ScalarValue::Boolean(constant), _) => {
                Some(Filter::Constant(constant.unwrap_or(negated)))
            }
            df::Expr::Alias(alias) => self.filter_at(&alias.expr, depth, negated),
            _ => None,
        }
    }

    /// One side of a comparison.
    fn compared(&self, expr: &df::Expr, depth: usize) -> Option<Expr> {
        match expr {
            df::Expr::Literal(value, _) => match literal(value)? {
                // A comparison with null selects nothing, and its negation neither.
                Literal::Null => None,
                literal => Some(Expr::Literal(literal)),
            },
            df::Expr::ScalarFunction(_) => self.function(expr, depth),
            _ => self.compared_column(expr),
        }
    }

    /// A column, or one that is cast so that it can be compared.
    pub(crate) fn compared_column(&self, expr: &df::Expr) -> Option<Expr> {
        match expr {
            df::Expr::Cast(cast) => {
                let from = self.type_of(&cast.expr)?;
                keeps_value(from, cast.field.data_type()).then(|| self.column(&cast.expr)).flatten()
            }
            df::Expr::ScalarFunction(function) => {
                let of = checked::as_float(function)?;
                keeps_value(self.type_of(of)?, &DataType::Float64).then(|| self.column(of)).flatten()
            }
            df::Expr::Alias(alias) => self.compared_column(&alias.expr),
            _ => self.column(expr),
        }
    }

    /// A column whose values the engine has as they are. What it holds in the form of another type is given to whoever is
    /// above it, who compares and adds it.
    pub(crate) fn column(&self, expr: &df::Expr) -> Option<Expr> {
        match expr {
            df::Expr::Column(column) if !self.columns.is_held(&column.name) => self.any_column(expr),
            df::Expr::Alias(alias) => self.column(&alias.expr),
            _ => None,
        }
    }

    fn any_column(&self, expr: &df::Expr) -> Option<Expr> {
        match expr {
            df::Expr::Column(column) => self.columns.get(&column.name).map(|(value, _)| value.clone()),
            df::Expr::Alias(alias) => self.any_column(&alias.expr),
            _ => None,
        }
    }

    pub(crate) fn type_of(&self, expr: &df::Expr) -> Option<Logical> {
        let df::Expr::Column(column) = expr else { return None };
        self.columns.get(&column.name).map(|(_, data_type)| *data_type)
    }

    /// A value of a row: a column, or what is made of one. In rows the engine's decimals have 18 digits and those of SQL
    /// 38, so that arithmetic of decimals is given to it only where it is added up.
    pub(crate) fn value(&self, expr: &df::Expr) -> Option<Expr> {
        match expr {
            df::Expr::Alias(alias) => self.value(&alias.expr),
            df::Expr::ScalarFunction(_) => self.function(expr, 0),
            _ => self.column(expr),
        }
    }

    fn function(&self, expr: &df::Expr, depth: usize) -> Option<Expr> {
        self.time(expr).or_else(|| self.arithmetic(expr, depth))
    }

    /// A function of a column of dates or timestamps.
    fn time(&self, expr: &df::Expr) -> Option<Expr> {
        let df::Expr::ScalarFunction(function) = expr else { return None };
        let [df::Expr::Literal(named, _), of] = function.args.as_slice() else { return None };
        let Literal::Text(named) = literal(named)? else { return None };
        let named = named.to_lowercase();
        let unit = Unit::ALL.into_iter().find(|unit| unit.name() == named);
        let function = match (function.func.name(), unit) {
            ("date_trunc", Some(unit)) => TimeFunction::Truncate(unit),
            ("date_part", Some(unit)) => TimeFunction::Part(unit),
            ("date_part", None) if named == "dow" => TimeFunction::DayOfWeek,
            ("date_part", None) if named == "doy" => TimeFunction::DayOfYear,
            _ => return None,
        };
        let known = match self.type_of(of)? {
            Logical::Timestamp => true,
            Logical::Date32 => function.is_of_dates(),
            _ => false,
        };
        known.then(|| self.column(of)).flatten().map(|of| Expr::Time(function, Box::new(of)))
    }

    fn arithmetic(&self, expr: &df::Expr, depth: usize) -> Option<Expr> {
        if depth > DEPTH {
            return None;
        }
        match expr {
            df::Expr::Column(_) => {
                let data_type = self.type_of(expr)?;
                let known = data_type.is_integer() || data_type.is_float();
                known.then(|| self.column(expr)).flatten()
            }
            df::Expr::Literal(value, _) => match literal(value)? {
                literal @ (Literal::Int(_) | Literal::UInt(_) | Literal::Float(_)) => {
                    Some(Expr::Literal(literal))
                }
                _ => None,
            },
            df::Expr::ScalarFunction(function) => {
                let arithmetic = Arithmetic::of(&function.func)?;
                let [left, right] = function.args.as_slice() else { return None };
                let left = self.arithmetic(left, depth + 1)?;
                let right = self.arithmetic(right, depth + 1)?;
                Some(Expr::Arithmetic(arithmetic.op.op(), Box::new(left), Box::new(right)))
            }
            df::Expr::Alias(alias) => self.arithmetic(&alias.expr, depth),
            _ => None,
        }
    }

    /// An aggregate.
    pub(crate) fn aggregate(&self, expr: &df::Expr) -> Option<Aggregate> {
        let function = match expr {
            df::Expr::Alias(alias) => return self.aggregate(&alias.expr),
            df::Expr::AggregateFunction(function) => function,
            _ => return None,
        };
        let params = &function.params;
        if params.filter.is_some() || !params.order_by.is_empty() || params.null_treatment.is_some() {
            return None;
        }
        let [argument] = params.args.as_slice() else { return None };
        let distinct = params.distinct;
        let (function, distinct) = match function.func.name() {
            "count" => (AggregateFunction::Count, distinct),
            // Twice the same value changes nothing.
            "min" => (AggregateFunction::Min, false),
            "max" => (AggregateFunction::Max, false),
            _ if distinct => return None,
            _ => match sums::is_average(&function.func)? {
                true => (AggregateFunction::Avg, false),
                false => (AggregateFunction::Sum, false),
            },
        };
        let argument = match argument {
            df::Expr::Literal(value, _) if function == AggregateFunction::Count && !distinct => {
                if value.is_null() {
                    return None;
                }
                None
            }
            // The engine widens by itself.
            df::Expr::Cast(cast) if matches!(function, AggregateFunction::Sum | AggregateFunction::Avg) => {
                let wide =
                    matches!(cast.field.data_type(), DataType::Int64 | DataType::UInt64 | DataType::Float64);
                let from = self.type_of(&cast.expr)?;
                let is_float = *cast.field.data_type() == DataType::Float64;
                (wide && is_float == from.is_float()).then_some(())?;
                Some(self.column(&cast.expr)?)
            }
            argument if matches!(function, AggregateFunction::Sum | AggregateFunction::Avg) => {
                Some(self.value(argument).or_else(|| self.exact(argument))?)
            }
            argument => Some(self.value(argument)?),
        };
        Some(Aggregate { function, argument, distinct })
    }
}

fn compare_op(op: Operator) -> Option<CompareOp> {
    Some(match op {
        Operator::Eq => CompareOp::Eq,
        Operator::NotEq => CompareOp::Ne,
        Operator::Lt => CompareOp::Lt,
        Operator::LtEq => CompareOp::Le,
        Operator::Gt => CompareOp::Gt,
        Operator::GtEq => CompareOp::Ge,
        _ => return None,
    })
}

/// Whether a cast leaves the values of a type as they are, apart from how a number that is compared is rounded: the
/// engine does not round it.
fn keeps_value(from: Logical, to: &DataType) -> bool {
    match from {
        Logical::Int8 | Logical::Int16 | Logical::Int32 | Logical::Int64 => {
            let bytes = from.plain_width();
            match to {
                DataType::Int8 => bytes <= 1,
                DataType::Int16 => bytes <= 2,
                DataType::Int32 => bytes <= 4,
                DataType::Int64 | DataType::Float64 => true,
                DataType::Decimal128(precision, scale) => {
                    digits(from) <= i16::from(*precision) - i16::from(*scale)
                }
                _ => false,
            }
        }
        Logical::UInt8 | Logical::UInt16 | Logical::UInt32 | Logical::UInt64 => {
            let bytes = from.plain_width();
            match to {
                DataType::UInt8 => bytes <= 1,
                DataType::UInt16 => bytes <= 2,
                DataType::UInt32 => bytes <= 4,
                DataType::Int16 => bytes <= 1,
                DataType::Int32 => bytes <= 2,
                DataType::Int64 => bytes <= 4,
                DataType::UInt64 | DataType::Float64 => true,
                DataType::Decimal128(precision, scale) => {
                    digits(from) <= i16::from(*precision) - i16::from(*scale)
                }
                _ => false,
            }
        }
        Logical::Float32 => matches!(to, DataType::Float32 | DataType::Float64),
        Logical::Float64 => matches!(to, DataType::Float64),
        Logical::Decimal { precision, scale } => match to {
            DataType::Decimal128(p, s) => {
                i16::from(*s) >= i16::from(scale)
                    && i16::from(*p) - i16::from(*s) >= i16::from(precision) - i16::from(scale)
            }
            DataType::Float64 => true,
            _ => false,
        },
        Logical::Date32 => matches!(to, DataType::Date32 | DataType::Timestamp(..)),
        Logical::Timestamp => {
            matches!(to, DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _))
        }
        Logical::Utf8 => matches!(to, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
        Logical::Bool => false,
    }
}

/// Decimal digits of an integer type.
fn digits(data_type: Logical) -> i16 {
    match data_type.plain_width() {
        1 => 3,
        2 => 5,
        4 => 10,
        _ => 20,
    }
}

/// A literal of the engine.
pub(crate) fn literal(value: &ScalarValue) -> Option<Literal> {
    if value.is_null() {
        return Some(Literal::Null);
    }
    Some(match value {
        ScalarValue::Boolean(Some(x)) => Literal::Bool(*x),
        ScalarValue::Int8(Some(x)) => Literal::Int((*x).into()),
        ScalarValue::Int16(Some(x)) => Literal::Int((*x).into()),
        ScalarValue::Int32(Some(x)) => Literal::Int((*x).into()),
        ScalarValue::Int64(Some(x)) => Literal::Int(*x),
        ScalarValue::UInt8(Some(x)) => Literal::UInt((*x).into()),
        ScalarValue::UInt16(Some(x)) => Literal::UInt((*x).into()),
        ScalarValue::UInt32(Some(x)) => Literal::UInt((*x).into()),
        ScalarValue::UInt64(Some(x)) => Literal::UInt(*x),
        ScalarValue::Float32(Some(x)) => Literal::Float((*x).into()),
        ScalarValue::Float64(Some(x)) => Literal::Float(*x),
        ScalarValue::Decimal128(Some(x), _, scale) => {
            // The engine's have 64 bits, as what nodes tell each other has.
            Literal::Decimal { unscaled: i64::try_from(*x).ok()?.into(), scale: u8::try_from(*scale).ok()? }
        }
        ScalarValue::Utf8(Some(x)) | ScalarValue::LargeUtf8(Some(x)) | ScalarValue::Utf8View(Some(x)) => {
            Literal::Text(x.clone())
        }
        ScalarValue::Date32(Some(x)) => Literal::Date(*x),
        ScalarValue::TimestampSecond(Some(x), _) => Literal::Timestamp(x.checked_mul(1_000_000)?),
        ScalarValue::TimestampMillisecond(Some(x), _) => Literal::Timestamp(x.checked_mul(1000)?),
        ScalarValue::TimestampMicrosecond(Some(x), _) => Literal::Timestamp(*x),
        ScalarValue::TimestampNanosecond(Some(x), _) if x % 1000 == 0 => Literal::Timestamp(x / 1000),
        _ => return None,
    })
}
