//! Expressions over groups, for many of them at once: arithmetic of what has 64 bits and no decimals. What does not fit them, or is
//! an error, is left to the values of each group.

use super::{
    groups::Groups,
    vector::{Data, Vector, intersect},
};
use crate::{
    keys,
    mask::selects,
    plan::{
        Plan,
        expr::{BoundExpr, Slots},
    },
    query::ArithmeticOp,
    schema::DataType,
    value::{self, Value},
};

/// Some groups of a plan, and their keys.
pub(super) struct GroupVectors<'g, 'q> {
    pub(super) slots: &'g Slots,
    pub(super) groups: &'g Groups<'q>,
    pub(super) shown: &'g [u32],
    /// The keys of each column, and which of them are not null.
    pub(super) keys: &'g [(Vec<i64>, Vec<u64>)],
}

impl<'g, 'q> GroupVectors<'g, 'q> {
    pub(super) fn new(
        plan: &'g Plan,
        groups: &'g Groups<'q>,
        shown: &'g [u32],
        keys: &'g [(Vec<i64>, Vec<u64>)],
    ) -> Self {
        Self { slots: &plan.slots, groups, shown, keys }
    }

    /// The values of an expression; `None`: they are those of each group.
    pub(super) fn eval(&self, expr: &BoundExpr) -> Option<Vector<'static>> {
        match expr {
            BoundExpr::Slot(slot) => match self.keys.get(*slot) {
                Some((keys, valid)) => values_of_keys(keys, valid, self.groups.key_types[*slot]),
                None => self.groups.vector(*slot, self.shown),
            },
            BoundExpr::Literal(value @ (Value::Int(_) | Value::Float(_))) => Some(Vector::one(value.clone())),
            BoundExpr::Arithmetic(op, left, right, data_type) => {
                let is_decimal =
                    |side: &BoundExpr| matches!(side.data_type(self.slots), Some(DataType::Decimal { .. }));
                if is_decimal(left) || is_decimal(right) {
                    return None;
                }
                let (left, right) = (self.eval(left)?, self.eval(right)?);
                let valid = intersect(left.valid, right.valid);
                let valid_words = valid.as_deref();
                let data = match data_type {
                    DataType::Int64 => self.ints(*op, &left.data, &right.data, valid_words)?,
                    DataType::Float64 => self.floats(*op, &left.data, &right.data, valid_words)?,
                    _ => return None,
                };
                Some(Vector::new(data, valid))
            }
            BoundExpr::Literal(_) | BoundExpr::Attribute(_) | BoundExpr::Time(..) => None,
        }
    }

    fn ints(
        &self,
        op: ArithmeticOp,
        left: &Data<'_>,
        right: &Data<'_>,
        valid: Option<&[u64]>,
    ) -> Option<Data<'static>> {
        let of: fn(i64, i64) -> Option<i64> = match op {
            ArithmeticOp::Add => i64::checked_add,
            ArithmeticOp::Subtract => i64::checked_sub,
            ArithmeticOp::Multiply => i64::checked_mul,
            ArithmeticOp::Divide => return None,
        };
        let (left, right) = (int_of(left)?, int_of(right)?);
        let row = |row: usize| match selects(valid, row) {
            true => of(left(row), right(row)),
            false => Some(0),
        };
        (0..self.shown.len()).map(row).collect::<Option<Vec<_>>>().map(Data::Ints)
    }

    fn floats(
        &self,
        op: ArithmeticOp,
        left: &Data<'_>,
        right: &Data<'_>,
        valid: Option<&[u64]>,
    ) -> Option<Data<'static>> {
        let (left, right) = (float_of(left)?, float_of(right)?);
        let row = |row: usize| match selects(valid, row) {
            true => value::float_arithmetic(op, left(row), right(row)).ok(),
            false => Some(0.0),
        };
        (0..self.shown.len()).map(row).collect::<Option<Vec<_>>>().map(Data::Floats)
    }
}

/// The integer of a row.
fn int_of<'d>(data: &'d Data<'_>) -> Option<Box<dyn Fn(usize) -> i64 + 'd>> {
    match data {
        Data::Ints(ints) => Some(Box::new(|row| ints[row])),
        Data::One(Value::Int(value)) => {
            let value = i64::try_from(*value).ok()?;
            Some(Box::new(move |_| value))
        }
        _ => None,
    }
}

/// The number of a row as a float.
#[allow(clippy::cast_precision_loss, reason = "the nearest float is meant")]
fn float_of<'d>(data: &'d Data<'_>) -> Option<Box<dyn Fn(usize) -> f64 + 'd>> {
    match data {
        Data::Ints(ints) => Some(Box::new(|row| ints[row] as f64)),
        Data::UInts(uints) => Some(Box::new(|row| uints[row] as f64)),
        Data::Floats(floats) => Some(Box::new(|row| floats[row])),
        Data::One(value) => {
            let value = value.to_f64()?;
            Some(Box::new(move |_| value))
        }
        Data::Texts(_) => None,
    }
}

/// Values of a type that is no text.
fn values_of_keys(found: &[i64], valid: &[u64], data_type: DataType) -> Option<Vector<'static>> {
    let data = match data_type {
        DataType::Utf8 => return None,
        DataType::UInt64 => Data::UInts(found.iter().map(|key| keys::to_u64(*key)).collect()),
        DataType::Float64 => Data::Floats(found.iter().map(|key| keys::to_f64(*key)).collect()),
        DataType::Float32 => Data::Floats(found.iter().map(|key| keys::to_f32(*key).into()).collect()),
        _ => Data::Ints(found.to_vec()),
    };
    Some(Vector::new(data, Some(valid.to_vec())))
}
