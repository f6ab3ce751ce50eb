//! `generate_series` and `range` in FROM: of timestamps, for those of a statement count microseconds, and DataFusion's functions
//! know none but nanoseconds; of whole numbers of fewer bits, and of literal texts beside timestamps; and what is said of columns,
//! which they do not take.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::{
    catalog::{TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider},
    common::{Result, ScalarValue, tree_node::TreeNode as _},
    logical_expr::Expr,
};

use crate::{decimals, error::Error, interval, untyped};

#[derive(Debug)]
struct Series(Arc<TableFunction>);

/// The same function, of timestamps too.
pub(crate) fn of_timestamps(function: &Arc<TableFunction>) -> Arc<TableFunction> {
    Arc::new(TableFunction::new(function.name().to_owned(), Arc::new(Series(Arc::clone(function)))))
}

impl TableFunctionImpl for Series {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        for expr in args.exprs() {
            if expr.exists(|part| Ok(is_of_rows(part)))? {
                let name = self.0.name();
                let message = format!(
                    "{name} in FROM takes constants; of columns there is unnest({name}(...)): FROM t, unnest({name}(1, t.a))"
                );
                return Err(Error::invalid(message).into());
            }
        }
        let mut exprs = args.exprs().iter().map(whole).collect::<Result<Vec<_>>>()?;
        if let [start, stop, step] = exprs.as_mut_slice() {
            if let Some(of) = moment(start).or_else(|| moment(stop)) {
                for bound in [&mut *start, &mut *stop] {
                    if let Some(text) = untyped::text(bound) {
                        let known = ScalarValue::from(text).cast_to(&of)?;
                        *bound = Expr::Literal(known, None);
                    }
                }
                if let Some(text) = untyped::text(step) {
                    let wrong = || Error::invalid(format!("{text:?} is no interval"));
                    let by = interval::parse(text, None).ok_or_else(wrong)?;
                    *step = Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(by)), None);
                }
            }
            if is_timestamp(start) || is_timestamp(stop) {
                (*start, *stop) = (self.in_nanoseconds(start)?, self.in_nanoseconds(stop)?);
            }
        }
        self.0.create_table_provider_with_args(TableFunctionArgs::new(&exprs, args.session()))
    }
}

/// A whole number of any bits as one of 64.
fn whole(expr: &Expr) -> Result<Expr> {
    Ok(match expr {
        Expr::Literal(value, metadata) if is_whole(&value.data_type()) => {
            Expr::Literal(value.cast_to(&DataType::Int64)?, metadata.clone())
        }
        expr => expr.clone(),
    })
}

fn is_whole(data_type: &DataType) -> bool {
    // Drivers send whole numbers as decimals.
    data_type.is_integer() || decimals::is_integer(data_type)
}

/// The type of a literal date or timestamp.
fn moment(expr: &Expr) -> Option<DataType> {
    let Expr::Literal(value, _) = expr else { return None };
    Some(value.data_type()).filter(|of| matches!(of, DataType::Date32 | DataType::Timestamp(..)))
}

/// Whether a part of an expression has another value in each row, or is found by a query.
fn is_of_rows(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_))
}

fn is_timestamp(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Literal(
            ScalarValue::TimestampSecond(..)
                | ScalarValue::TimestampMillisecond(..)
                | ScalarValue::TimestampMicrosecond(..)
                | ScalarValue::TimestampNanosecond(..),
            _
        )
    )
}

impl Series {
    /// A literal date or timestamp as one of nanoseconds; what is another stays what it is.
    fn in_nanoseconds(&self, expr: &Expr) -> Result<Expr> {
        let Expr::Literal(value, metadata) = expr else { return Ok(expr.clone()) };
        let (count, nanoseconds, zone) = match value {
            ScalarValue::Date32(days) => (days.map(i64::from), 86_400_000_000_000, None),
            ScalarValue::TimestampSecond(count, zone) => (*count, 1_000_000_000, zone.clone()),
            ScalarValue::TimestampMillisecond(count, zone) => (*count, 1_000_000, zone.clone()),
            ScalarValue::TimestampMicrosecond(count, zone) => (*count, 1_000, zone.clone()),
            _ => return Ok(expr.clone()),
        };
        let too_far = || {
            let name = self.0.name();
            Error::invalid(format!("{name} in FROM gives timestamps between 1677-09-21 and 2262-04-11"))
        };
        let count = count.map(|count: i64| count.checked_mul(nanoseconds).ok_or_else(too_far)).transpose()?;
        Ok(Expr::Literal(ScalarValue::TimestampNanosecond(count, zone), metadata.clone()))
    }
}
