//! Sums of expressions that are linear in columns of integers: the sum of `2 * a - b + 1` is that of `a` twice, less
//! that of `b`, plus the number of rows. So columns are summed on their encoded form, and nothing is evaluated.

use super::{
    Block,
    arithmetic::range_of,
    totals::{Argument, Totals},
};
use crate::{mask::Mask, plan::expr::BoundExpr, query::ArithmeticOp, schema::DataType, value::Value};

/// `constant + sum of factor * column`.
struct Linear {
    constant: i128,
    columns: Vec<(i128, usize)>,
    /// A range of its values in the block.
    range: (i64, i64),
}

impl Linear {
    /// An expression that is linear, and overflows nowhere in a block.
    fn of(expr: &BoundExpr, block: Block<'_>) -> Option<Self> {
        match expr {
            BoundExpr::Literal(Value::Int(value)) => {
                let v = i64::try_from(*value).ok()?;
                Some(Self { constant: *value, columns: Vec::new(), range: (v, v) })
            }
            BoundExpr::Slot(slot) => {
                let column = block.fragment.column_at(*slot)?;
                let range = column.zones()[block.block].range?;
                let plain = column.data_type().is_integer() && column.data_type() != DataType::UInt64;
                plain.then(|| Self { constant: 0, columns: vec![(1, *slot)], range })
            }
            BoundExpr::Arithmetic(op, left, right, DataType::Int64) => {
                let (left, right) = (Self::of(left, block)?, Self::of(right, block)?);
                let range = range_of(*op, left.range, right.range)?;
                let factors = match op {
                    ArithmeticOp::Add => (1, 1),
                    ArithmeticOp::Subtract => (1, -1),
                    ArithmeticOp::Multiply if right.columns.is_empty() => (right.constant, 0),
                    ArithmeticOp::Multiply if left.columns.is_empty() => (0, left.constant),
                    _ => return None,
                };
                // Where all of a block is one value, factors may be of any size.
                let columns = left.times(factors.0).chain(right.times(factors.1)).collect::<Option<_>>()?;
                let constant = left
                    .constant
                    .checked_mul(factors.0)?
                    .checked_add(right.constant.checked_mul(factors.1)?)?;
                Some(Self { constant, columns, range })
            }
            _ => None,
        }
    }

    /// Its columns with a factor more; `None` of one that is too large.
    fn times(&self, factor: i128) -> impl Iterator<Item = Option<(i128, usize)>> {
        self.columns.iter().map(move |(own, slot)| Some((own.checked_mul(factor)?, *slot)))
    }
}

/// What an argument that is only summed comes to in a block, where it is linear.
pub(super) fn linear_sum<'a>(argument: &Argument<'_>, block: Block<'_>, mask: &Mask) -> Option<Totals<'a>> {
    if !argument.sums_ints() || argument.extremes || argument.distinct {
        return None;
    }
    let linear = Linear::of(argument.expr, block)?;
    let columns = || linear.columns.iter().map(|(factor, slot)| (*factor, block.fragment.column(*slot)));
    // Null is what any column makes so.
    let nullable = columns().filter(|(_, column)| column.zones()[block.block].nulls > 0);
    let selected =
        nullable.fold(mask.clone(), |mask, (_, column)| mask.and(&column.validity_mask(block.block)));
    let rows = block.rows();
    let n = selected.count(rows);
    let words = match &selected {
        Mask::Words(words) => Some(&words[..rows.div_ceil(64)]),
        _ => None,
    };
    let mut sum = linear.constant.checked_mul(n as i128)?;
    for (factor, column) in columns().filter(|_| n > 0) {
        let own = column.keys()?.sum(block.start(), rows, words);
        sum = sum.checked_add(factor.checked_mul(own)?)?;
    }
    let mut totals = Totals::of_counts(vec![n as u64]);
    totals.ints.push(sum);
    Some(totals)
}
