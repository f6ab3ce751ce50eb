//! Expressions over groups, for many of them at once: arithmetic of what has 64 bits and no decimals. What does not fit them, or is
//! an error, is left to the values of each group.

use super::{
    arithmetic::Side,
    compare::compare_rows,
    groups::Groups,
    vector::{Data, Vector, intersect},
};
use crate::{
    keys,
    mask::selects,
    plan::{
        Plan,
        expr::{BoundExpr, Slots},
        pred::Pred,
    },
    query::{ArithmeticOp, CompareOp},
    schema::DataType,
    value::{self, Value},
};

/// Some groups of a plan, and their keys.
pub(super) struct GroupVectors<'g, 'q> {
    slots: &'g Slots,
    groups: &'g Groups<'q>,
    shown: &'g [u32],
    /// The keys of each column, and which of them are not null.
    keys: &'g [(Vec<i64>, Vec<u64>)],
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
                let sides = (left.data, right.data);
                let data = match data_type {
                    DataType::Int64 => self.ints(*op, sides, valid.as_deref())?,
                    DataType::Float64 => self.floats(*op, sides, valid.as_deref())?,
                    _ => return None,
                };
                Some(Vector::new(data, valid))
            }
            BoundExpr::Literal(_) | BoundExpr::Attribute(_) | BoundExpr::Time(..) => None,
        }
    }

    /// Which of the groups a condition lets pass; `None`: it is asked of each group.
    pub(super) fn test(&self, pred: &Pred) -> Option<Vec<u64>> {
        let words = self.shown.len().div_ceil(64);
        Some(match pred {
            Pred::Constant(passes) => vec![if *passes { u64::MAX } else { 0 }; words],
            Pred::And(preds) => {
                let mut all = vec![u64::MAX; words];
                for pred in preds {
                    all.iter_mut().zip(self.test(pred)?).for_each(|(all, one)| *all &= one);
                }
                all
            }
            Pred::Or(preds) => {
                let mut any = vec![0; words];
                for pred in preds {
                    any.iter_mut().zip(self.test(pred)?).for_each(|(any, one)| *any |= one);
                }
                any
            }
            Pred::Set { test, .. } => self.test(test)?,
            Pred::Keys { slot, test, negated, .. } => {
                let vector = self.eval(&BoundExpr::Slot(*slot))?;
                let mut passes = vec![0; words];
                test.test(&keys_of(vector.data, self.slots.fields[*slot].1)?, &mut passes);
                for (i, word) in passes.iter_mut().enumerate() {
                    *word = if *negated { !*word } else { *word }
                        & vector.valid.as_ref().map_or(u64::MAX, |valid| valid[i]);
                }
                passes
            }
            Pred::IsNull { slot, negated } => {
                let valid =
                    self.eval(&BoundExpr::Slot(*slot))?.valid.unwrap_or_else(|| vec![u64::MAX; words]);
                valid.into_iter().map(|word| if *negated { word } else { !word }).collect()
            }
            Pred::Compare(op, left, right) => self.compared(*op, left, right)?,
            Pred::Text { .. } | Pred::Rows { .. } | Pred::Like { .. } | Pred::ExprIsNull { .. } => {
                return None;
            }
        })
    }

    /// The groups whose values are not null and compare so.
    fn compared(&self, op: CompareOp, left: &BoundExpr, right: &BoundExpr) -> Option<Vec<u64>> {
        let side = |expr: &BoundExpr| match expr {
            BoundExpr::Literal(value @ Value::Decimal { .. }) => Some(Vector::one(value.clone())),
            expr => self.eval(expr),
        };
        let types = (left.data_type(self.slots), right.data_type(self.slots));
        Some(compare_rows(op, &side(left)?, &side(right)?, types, self.shown.len()))
    }

    fn ints(
        &self,
        op: ArithmeticOp,
        sides: (Data<'static>, Data<'static>),
        valid: Option<&[u64]>,
    ) -> Option<Data<'static>> {
        let of: fn(i64, i64) -> Option<i64> = match op {
            ArithmeticOp::Add => i64::checked_add,
            ArithmeticOp::Subtract => i64::checked_sub,
            ArithmeticOp::Multiply => i64::checked_mul,
            ArithmeticOp::Divide => return None,
        };
        self.combined(ints_of(sides.0)?, ints_of(sides.1)?, valid, of).map(Data::Ints)
    }

    fn floats(
        &self,
        op: ArithmeticOp,
        sides: (Data<'static>, Data<'static>),
        valid: Option<&[u64]>,
    ) -> Option<Data<'static>> {
        let of = |a, b| value::float_arithmetic(op, a, b).ok();
        self.combined(floats_of(sides.0)?, floats_of(sides.1)?, valid, of).map(Data::Floats)
    }

    /// `of` each pair that is not null; `None`: it is of one of them.
    fn combined<T: Copy + Default>(
        &self,
        left: Side<T>,
        right: Side<T>,
        valid: Option<&[u64]>,
        of: impl Fn(T, T) -> Option<T>,
    ) -> Option<Vec<T>> {
        let row = |row: usize| match selects(valid, row) {
            true => of(left.get(row), right.get(row)),
            false => Some(T::default()),
        };
        (0..self.shown.len()).map(row).collect()
    }
}

/// Values of a type as its keys.
fn keys_of(data: Data<'static>, data_type: DataType) -> Option<Vec<i64>> {
    match (data, data_type) {
        (_, DataType::Float32) => None,
        (Data::UInts(uints), DataType::UInt64) => Some(uints.into_iter().map(keys::of_u64).collect()),
        (_, DataType::UInt64) => None,
        (Data::Floats(floats), DataType::Float64) => Some(floats.into_iter().map(keys::of_f64).collect()),
        (_, DataType::Float64) => None,
        (Data::Ints(ints), _) => Some(ints),
        _ => None,
    }
}

fn ints_of(data: Data<'static>) -> Option<Side<i64>> {
    match data {
        Data::Ints(ints) => Some(Side::Many(ints)),
        Data::One(Value::Int(value)) => i64::try_from(value).ok().map(Side::One),
        _ => None,
    }
}

/// Numbers as floats.
#[allow(clippy::cast_precision_loss, reason = "the nearest float is meant")]
fn floats_of(data: Data<'static>) -> Option<Side<f64>> {
    Some(match data {
        Data::Ints(ints) => Side::Many(ints.into_iter().map(|int| int as f64).collect()),
        Data::UInts(uints) => Side::Many(uints.into_iter().map(|uint| uint as f64).collect()),
        Data::Floats(floats) => Side::Many(floats),
        Data::One(value) => Side::One(value.to_f64()?),
        Data::Texts(_) => return None,
    })
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
