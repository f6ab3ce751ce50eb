//! Filters bound to slots, in negation normal form.
//!
//! `NOT` is pushed down to the leaves by De Morgan's laws, which hold in three-valued logic. A leaf is true
//! only on values that are not null, so one mask (true, or not) is enough everywhere above.

use std::{fmt, sync::Arc};

use basalt_sip::Sip;

use super::{
    expr::{BoundExpr, Slots, fmt_value},
    sets::BoundSet,
};
use crate::{
    encoding::{KeyTest, TextTest},
    error::Result,
    keys::Native,
    like::Pattern,
    query::CompareOp,
    value::{self, Value},
};

/// A bound filter.
#[derive(Clone, Debug)]
pub enum Pred {
    /// Always or never.
    Constant(bool),
    /// All of them.
    And(Vec<Pred>),
    /// Any of them.
    Or(Vec<Pred>),
    /// A slot's keys: not null and (`test` or, when negated, not `test`).
    Keys {
        /// The slot.
        slot: usize,
        /// What the keys are asked.
        test: KeyTest,
        /// The same asked of codes, in a fragment whose keys have them.
        codes: Option<KeyTest>,
        /// The others pass.
        negated: bool,
        /// As a person would write it.
        text: Arc<str>,
    },
    /// A slot's texts: not null and (`test` or, when negated, not `test`).
    Text {
        /// The slot.
        slot: usize,
        /// What the texts are asked.
        test: TextTest,
        /// The others pass.
        negated: bool,
        /// As a person would write it.
        text: Arc<str>,
    },
    /// A slot is null, or (negated) is not.
    IsNull {
        /// The slot.
        slot: usize,
        /// True when it is not null.
        negated: bool,
    },
    /// The row's address is in the set, or (negated) is not.
    Rows {
        /// The addresses.
        sip: Arc<Sip>,
        /// The others pass.
        negated: bool,
    },
    /// What a set of the request says: a test of addresses, keys or texts, or a constant.
    Set {
        /// The set, with what is counted of it.
        set: Arc<BoundSet>,
        /// The test.
        test: Box<Pred>,
    },
    /// Two expressions, neither null, compare so.
    Compare(CompareOp, BoundExpr, BoundExpr),
    /// A text expression matches, or (negated) does not.
    Like {
        /// The expression.
        expr: BoundExpr,
        /// The pattern.
        pattern: Arc<Pattern>,
        /// The others pass.
        negated: bool,
    },
    /// An expression is null, or (negated) is not.
    ExprIsNull {
        /// The expression.
        expr: BoundExpr,
        /// True when it is not null.
        negated: bool,
    },
}

impl Pred {
    /// All of `preds`: nested conjunctions are flattened, and ranges of one slot become one range.
    pub fn and(preds: Vec<Self>) -> Self {
        let mut flat: Vec<Self> = Vec::new();
        for pred in preds {
            match pred {
                Self::And(inner) => flat.extend(inner),
                Self::Constant(true) => {}
                Self::Constant(false) => return Self::Constant(false),
                pred => flat.push(pred),
            }
        }
        let mut merged: Vec<Self> = Vec::new();
        for pred in flat {
            if !merged.iter_mut().any(|earlier| earlier.intersect(&pred)) {
                merged.push(pred);
            }
        }
        match merged.len() {
            0 => Self::Constant(true),
            1 => merged.remove(0),
            _ => Self::And(merged),
        }
    }

    /// Narrows a range test by another on the same slot; false when that cannot be.
    fn intersect(&mut self, narrower: &Self) -> bool {
        let (
            Self::Keys { slot, test: KeyTest::Range { lo, hi }, negated: false, text, .. },
            Self::Keys {
                slot: other, test: KeyTest::Range { lo: l, hi: h }, negated: false, text: t, ..
            },
        ) = (self, narrower)
        else {
            return false;
        };
        if slot != other {
            return false;
        }
        (*lo, *hi) = ((*lo).max(*l), (*hi).min(*h));
        *text = format!("{text} AND {t}").into();
        true
    }

    /// Any of `preds`, flattened.
    pub fn or(preds: Vec<Self>) -> Self {
        let mut flat: Vec<Self> = Vec::new();
        for pred in preds {
            match pred {
                Self::Or(inner) => flat.extend(inner),
                Self::Constant(false) => {}
                Self::Constant(true) => return Self::Constant(true),
                pred => flat.push(pred),
            }
        }
        match flat.len() {
            0 => Self::Constant(false),
            1 => flat.remove(0),
            _ => Self::Or(flat),
        }
    }

    /// The conjuncts, in order.
    pub fn conjuncts(&self) -> &[Self] {
        match self {
            Self::And(preds) => preds,
            pred => std::slice::from_ref(pred),
        }
    }

    /// The sets among its parts, each with its test, appended to `out`.
    pub fn sets<'a>(&'a self, out: &mut Vec<(&'a Arc<BoundSet>, &'a Self)>) {
        match self {
            Self::And(preds) | Self::Or(preds) => preds.iter().for_each(|pred| pred.sets(out)),
            Self::Set { set, test } => out.push((set, test)),
            _ => {}
        }
    }

    /// The cost of a row, roughly: enough to separate cheap predicates from expensive ones.
    pub fn cost(&self) -> u32 {
        match self {
            Self::Constant(_) => 0,
            Self::IsNull { .. } => 1,
            Self::Rows { .. } => 2,
            Self::Keys { test: KeyTest::Range { .. }, .. } => 4,
            Self::Keys { test: KeyTest::In(_), .. } => 8,
            Self::Text { test: TextTest::Like(_), .. } => 20,
            Self::Text { .. } => 10,
            Self::Set { test, .. } => test.cost(),
            Self::And(preds) | Self::Or(preds) => preds.iter().map(Self::cost).sum::<u32>() + 1,
            Self::Compare(..) | Self::Like { .. } | Self::ExprIsNull { .. } => 1000,
        }
    }

    /// Whether it is true, given the slots' values.
    ///
    /// # Errors
    /// Those of arithmetic.
    pub fn eval(&self, slots: &Slots, value_of: &dyn Fn(usize) -> Value) -> Result<bool> {
        Ok(match self {
            Self::Constant(constant) => *constant,
            Self::And(preds) => {
                for pred in preds {
                    if !pred.eval(slots, value_of)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Or(preds) => {
                for pred in preds {
                    if pred.eval(slots, value_of)? {
                        return Ok(true);
                    }
                }
                false
            }
            Self::Keys { slot, test, negated, .. } => {
                let key = Native::of(slots.fields[*slot].1).and_then(|native| value_of(*slot).to_key(native));
                key.is_some_and(|key| test.passes(key) != *negated)
            }
            Self::Text { slot, test, negated, .. } => match value_of(*slot) {
                Value::Text(text) => test.passes(&text) != *negated,
                _ => false,
            },
            Self::IsNull { slot, negated } => value_of(*slot).is_null() != *negated,
            Self::Rows { .. } => false,
            Self::Set { test, .. } => test.eval(slots, value_of)?,
            Self::Compare(op, left, right) => {
                let (left, right) = (left.eval(slots, value_of)?, right.eval(slots, value_of)?);
                value::compare(&left, &right).is_some_and(|order| value::holds(*op, order))
            }
            Self::Like { expr, pattern, negated } => match expr.eval(slots, value_of)? {
                Value::Text(text) => pattern.matches(&text) != *negated,
                _ => false,
            },
            Self::ExprIsNull { expr, negated } => expr.eval(slots, value_of)?.is_null() != *negated,
        })
    }

    /// The slots it reads, appended to `out`.
    pub fn slots(&self, out: &mut Vec<usize>) {
        match self {
            Self::Constant(_) | Self::Rows { .. } => {}
            Self::And(preds) | Self::Or(preds) => preds.iter().for_each(|pred| pred.slots(out)),
            Self::Keys { slot, .. } | Self::Text { slot, .. } | Self::IsNull { slot, .. } => out.push(*slot),
            Self::Set { test, .. } => test.slots(out),
            Self::Compare(_, left, right) => {
                left.slots(out);
                right.slots(out);
            }
            Self::Like { expr, .. } | Self::ExprIsNull { expr, .. } => expr.slots(out),
        }
    }

    /// As a person would write it.
    pub fn display<'a>(&'a self, slots: &'a Slots) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            let list = |f: &mut fmt::Formatter<'_>, preds: &[Self], word: &str| {
                for (i, pred) in preds.iter().enumerate() {
                    if i > 0 {
                        write!(f, " {word} ")?;
                    }
                    match pred {
                        Self::And(_) | Self::Or(_) => write!(f, "({})", pred.display(slots))?,
                        pred => write!(f, "{}", pred.display(slots))?,
                    }
                }
                Ok(())
            };
            let not = |negated: &bool| if *negated { "NOT " } else { "" };
            match self {
                Self::Constant(constant) => write!(f, "{constant}"),
                Self::And(preds) => list(f, preds, "AND"),
                Self::Or(preds) => list(f, preds, "OR"),
                Self::Keys { text, .. } | Self::Text { text, .. } => f.write_str(text),
                Self::Set { set, .. } => f.write_str(&set.text),
                Self::IsNull { slot, negated } => {
                    write!(f, "{} IS {}NULL", slots.fields[*slot].0, not(negated))
                }
                Self::Rows { sip, negated } => {
                    write!(f, "{}ROW ADDRESS IN SIP of {} rows", not(negated), sip.cardinality())
                }
                Self::Compare(op, left, right) => {
                    write!(f, "{} {} {}", left.display(slots), symbol(*op), right.display(slots))
                }
                Self::Like { expr, pattern, negated } => {
                    write!(f, "{} {}LIKE ", expr.display(slots), not(negated))?;
                    fmt_value(f, &Value::Text(pattern.as_str().into()))
                }
                Self::ExprIsNull { expr, negated } => {
                    write!(f, "{} IS {}NULL", expr.display(slots), not(negated))
                }
            }
        })
    }
}

/// The operator as SQL writes it.
pub fn symbol(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "=",
        CompareOp::Ne => "<>",
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
    }
}
