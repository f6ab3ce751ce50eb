//! Sums of products and differences of decimals, given to the engine. Its decimals have 18 digits in a row and those of SQL
//! 38, so it is asked only where the least and the greatest values of the columns show that no step leaves the 18.

use basalt_core::{
    query::{Expr, Literal},
    schema::DataType,
};
use datafusion::logical_expr as df;

use crate::{
    arithmetic::{Arithmetic, ArithmeticOpName},
    filter::{DEPTH, Translator, literal},
};

/// Digits of the engine's decimals in rows.
const DIGITS: u32 = 18;
/// The first whole number that has more.
const LIMIT: i128 = 10i128.pow(DIGITS);

/// Between which unscaled values an expression lies, in so many decimal places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    least: i128,
    greatest: i128,
    scale: u8,
}

impl Range {
    /// Where all of it has at most 18 digits.
    fn of(least: i128, greatest: i128, scale: u8) -> Option<Self> {
        let fits = -LIMIT < least && greatest < LIMIT && u32::from(scale) <= DIGITS;
        fits.then_some(Self { least, greatest, scale })
    }

    /// The same values in more decimal places.
    fn at(self, scale: u8) -> Option<Self> {
        let more = 10i128.pow(u32::from(scale.checked_sub(self.scale)?));
        Self::of(self.least.checked_mul(more)?, self.greatest.checked_mul(more)?, scale)
    }

    fn apply(self, op: ArithmeticOpName, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        match op {
            ArithmeticOpName::Add => {
                let (a, b) = (self.at(scale)?, other.at(scale)?);
                Self::of(a.least + b.least, a.greatest + b.greatest, scale)
            }
            ArithmeticOpName::Subtract => {
                let (a, b) = (self.at(scale)?, other.at(scale)?);
                Self::of(a.least - b.greatest, a.greatest - b.least, scale)
            }
            ArithmeticOpName::Multiply => {
                // Both have at most 18 digits, so that the products fit 128 bits.
                let products = [self.least, self.greatest]
                    .map(|a| [other.least, other.greatest].map(|b| a * b))
                    .concat();
                let (least, greatest) = (products.iter().min()?, products.iter().max()?);
                Self::of(*least, *greatest, self.scale.checked_add(other.scale)?)
            }
            // A quotient is a float.
            ArithmeticOpName::Divide => None,
        }
    }
}

impl Translator<'_> {
    /// What is added up of decimals, where every step of it has at most 18 digits.
    pub(crate) fn exact(&self, expr: &df::Expr) -> Option<Expr> {
        self.exact_at(expr, 0).map(|(expr, _)| expr)
    }

    fn exact_at(&self, expr: &df::Expr, depth: usize) -> Option<(Expr, Range)> {
        if depth > DEPTH {
            return None;
        }
        match expr {
            df::Expr::Alias(alias) => self.exact_at(&alias.expr, depth),
            df::Expr::Column(_) => {
                let scale = match self.type_of(expr)? {
                    DataType::Decimal { scale, .. } => scale,
                    data_type if data_type.is_integer() => 0,
                    _ => return None,
                };
                let column = self.column(expr)?;
                let Expr::Column(name) = &column else { return None };
                let (least, greatest) = self.table.range(name)?;
                Some((column, Range::of(least.into(), greatest.into(), scale)?))
            }
            df::Expr::Literal(value, _) => {
                let literal = literal(value)?;
                let (value, scale) = match literal {
                    Literal::Int(value) => (value.into(), 0),
                    Literal::UInt(value) => (value.into(), 0),
                    Literal::Decimal { unscaled, scale } => (unscaled, scale),
                    _ => return None,
                };
                Some((Expr::Literal(literal), Range::of(value, value, scale)?))
            }
            df::Expr::ScalarFunction(function) => {
                let op = Arithmetic::of(&function.func)?.op;
                let [left, right] = function.args.as_slice() else { return None };
                let (left, a) = self.exact_at(left, depth + 1)?;
                let (right, b) = self.exact_at(right, depth + 1)?;
                let range = a.apply(op, b)?;
                Some((Expr::Arithmetic(op.op(), Box::new(left), Box::new(right)), range))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(least: i128, greatest: i128, scale: u8) -> Range {
        Range { least, greatest, scale }
    }

    #[test]
    fn a_step_of_more_than_18_digits_is_none() {
        use ArithmeticOpName::{Add, Divide, Multiply, Subtract};
        let (price, rate) = (range(90_000, 10_494_950, 2), range(0, 10, 2));
        let one = range(1, 1, 0);
        let rest = one.apply(Subtract, rate).unwrap();
        assert_eq!(rest, range(90, 100, 2));
        assert_eq!(price.apply(Multiply, rest), Some(range(8_100_000, 1_049_495_000, 4)));
        assert_eq!(range(-3, 2, 0).apply(Multiply, range(-5, 4, 1)), Some(range(-12, 15, 1)));
        assert_eq!(range(-3, 2, 0).apply(Add, range(-5, 4, 1)), Some(range(-35, 24, 1)));
        assert_eq!(price.apply(Divide, rest), None);

        let most = range(0, LIMIT - 1, 0);
        assert_eq!(most.apply(Add, one), None);
        assert_eq!(most.apply(Subtract, one), Some(range(-1, LIMIT - 2, 0)));
        assert_eq!(most.apply(Multiply, range(-2, 1, 0)), None);
        assert_eq!(range(0, LIMIT / 10, 0).apply(Add, range(0, 0, 1)), None);
        assert_eq!(range(0, 1, 10).apply(Multiply, range(0, 1, 9)), None);
    }
}
