//! Filters, in sets of truth values.

use std::cmp::Ordering;

use basalt_core::query::{CompareOp, Expr, Filter};

use super::{Evaluator, Scope};
use crate::value::{Value, digits, order};

/// Which of true, false and null a filter may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Truth(u8);

impl Truth {
    pub(super) const TRUE: Self = Self(1);
    pub(super) const FALSE: Self = Self(2);
    pub(super) const NULL: Self = Self(4);
    pub(super) const ANY: Self = Self(7);

    fn of(truth: bool) -> Self {
        if truth { Self::TRUE } else { Self::FALSE }
    }

    fn not(self) -> Self {
        Self(self.0 & 4 | (self.0 & 1) << 1 | (self.0 & 2) >> 1)
    }

    fn and(self, other: Self) -> Self {
        let mut all = Self(0);
        for a in self.each() {
            for b in other.each() {
                all.0 |= match (a, b) {
                    (Self::FALSE, _) | (_, Self::FALSE) => Self::FALSE,
                    (Self::NULL, _) | (_, Self::NULL) => Self::NULL,
                    _ => Self::TRUE,
                }
                .0;
            }
        }
        all
    }

    fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }

    fn each(self) -> impl Iterator<Item = Self> {
        [Self::TRUE, Self::FALSE, Self::NULL].into_iter().filter(move |truth| self.0 & truth.0 != 0)
    }

    /// Whether it is true; an error if that is not certain.
    pub(super) fn decide(self) -> std::result::Result<bool, ()> {
        if self.0 & 1 == 0 {
            Ok(false)
        } else if self == Self::TRUE {
            Ok(true)
        } else {
            Err(())
        }
    }
}

impl Evaluator<'_> {
    pub(super) fn filter(&self, filter: &Filter, scope: Scope<'_>) -> Truth {
        match filter {
            Filter::And(filters) => filters.iter().fold(Truth::TRUE, |all, f| all.and(self.filter(f, scope))),
            Filter::Or(filters) => filters.iter().fold(Truth::FALSE, |any, f| any.or(self.filter(f, scope))),
            Filter::Not(inner) => self.filter(inner, scope).not(),
            Filter::Compare(op, left, right) => self.compare(*op, left, right, scope),
            Filter::Between(expr, low, high) => self
                .compare(CompareOp::Ge, expr, low, scope)
                .and(self.compare(CompareOp::Le, expr, high, scope)),
            Filter::In(expr, values) => values.iter().fold(Truth::FALSE, |any, value| {
                any.or(self.compare(CompareOp::Eq, expr, &Expr::Literal(value.clone()), scope))
            }),
            Filter::IsNull(expr) => match self.expr(expr, scope) {
                Ok(value) => Truth::of(value == Value::Null),
                Err(_) => Truth(3),
            },
            Filter::Like(expr, pattern) => match self.expr(expr, scope) {
                Ok(Value::Text(text)) => {
                    let (text, pattern): (Vec<char>, Vec<char>) =
                        (text.chars().collect(), pattern.chars().collect());
                    Truth::of(like(&text, &pattern))
                }
                Ok(_) => Truth::NULL,
                Err(_) => Truth::ANY,
            },
            Filter::Rows(rows) => match scope {
                Scope::Row(row) => Truth::of(rows.sip.contains(self.table.addresses[row])),
                Scope::Group { .. } => panic!("row addresses select rows"),
            },
            Filter::Keys(keys) => self.keys(keys, scope),
            Filter::SemiJoin(join) => self.semi_join(join, scope),
            Filter::Texts(_) => panic!("texts are what a semi-join becomes"),
            Filter::Constant(constant) => Truth::of(*constant),
        }
    }

    fn compare(&self, op: CompareOp, left: &Expr, right: &Expr, scope: Scope<'_>) -> Truth {
        let (a, b) = match (self.expr(left, scope), self.expr(right, scope)) {
            (Ok(Value::Null), _) | (_, Ok(Value::Null)) => return Truth::NULL,
            (Ok(a), Ok(b)) => (a, b),
            _ => return Truth::ANY,
        };
        let (a, b) = (self.meant(left, &a, right, &b, scope), self.meant(right, &b, left, &a, scope));
        let order = order(&a, &b);
        Truth::of(match op {
            CompareOp::Eq => order == Ordering::Equal,
            CompareOp::Ne => order != Ordering::Equal,
            CompareOp::Lt => order == Ordering::Less,
            CompareOp::Le => order != Ordering::Greater,
            CompareOp::Gt => order == Ordering::Greater,
            CompareOp::Ge => order != Ordering::Less,
        })
    }

    /// What a literal means beside the other side's value: text may be a date, a time or a decimal; a decimal
    /// beside a column of floats is the nearest float of its width.
    fn meant(&self, expr: &Expr, value: &Value, other: &Expr, beside: &Value, scope: Scope<'_>) -> Value {
        match (expr, value, beside) {
            (Expr::Literal(_), Value::Text(text), Value::Date(_)) => Value::Date(date(text)),
            (Expr::Literal(_), Value::Text(text), Value::Timestamp(_)) => {
                Value::Timestamp(i64::from(date(text)) * 86_400_000_000)
            }
            (Expr::Literal(_), Value::Text(text), Value::Decimal(..)) => {
                let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
                Value::Decimal(
                    format!("{whole}{fraction}").parse().unwrap(),
                    fraction.len().try_into().unwrap(),
                )
            }
            (Expr::Literal(_), Value::Decimal(..), Value::Float(_)) => match (self.field(other), scope) {
                (Some(field), Scope::Row(_)) => {
                    let text = digits(value);
                    Value::Float(match field.data_type {
                        basalt_core::schema::DataType::Float32 => text.parse::<f32>().unwrap().into(),
                        _ => text.parse().unwrap(),
                    })
                }
                _ => value.clone(),
            },
            _ => value.clone(),
        }
    }
}

/// Dates as [`generate`](crate::generate) writes them.
pub(crate) const DATES: [(&str, i32); 6] = [
    ("1970-01-01", 0),
    ("1969-12-31", -1),
    ("2000-02-29", 11_016),
    ("2013-07-04", 15_890),
    ("1900-03-01", -25_508),
    ("2038-01-19", 24_855),
];

fn date(text: &str) -> i32 {
    DATES.iter().find(|(written, _)| *written == text).unwrap().1
}

fn like(text: &[char], pattern: &[char]) -> bool {
    match (pattern, text) {
        ([], text) => text.is_empty(),
        (['%', rest @ ..], text) => (0..=text.len()).any(|skip| like(&text[skip..], rest)),
        (['_', rest @ ..], [_, text @ ..]) => like(text, rest),
        (['\\', c, rest @ ..], [t, text @ ..]) => c == t && like(text, rest),
        ([c, rest @ ..], [t, text @ ..]) => c == t && *c != '\\' && like(text, rest),
        _ => false,
    }
}
