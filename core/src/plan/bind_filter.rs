//! From a filter with names to a [`Pred`] with slots: names and types are checked, negation is pushed down,
//! comparisons of a column with a literal become tests on its keys or texts.

use std::{borrow::Cow, ops::Bound, sync::Arc};

use super::{
    Binder,
    expr::{BoundExpr, literal_value},
    literal::{Position, parse_decimal},
    pred::{Pred, symbol},
};
use crate::{
    encoding::{KeyTest, TextTest},
    error::{Error, ErrorKind, Result},
    like::Pattern,
    limits::MAX_IN_LIST,
    logical::{self, Place},
    query::{CompareOp, Expr, Filter, Literal, SipOrigin},
    schema::DataType,
    time,
    value::{self, Value},
};

impl Binder<'_> {
    /// Binds a filter; `negated` asks for the rows where it is false.
    pub(super) fn filter(&mut self, filter: &Filter, negated: bool, depth: usize) -> Result<Pred> {
        self.count_node(depth)?;
        match filter {
            Filter::And(filters) => self.list(filters, "and", negated, !negated, depth),
            Filter::Or(filters) => self.list(filters, "or", negated, negated, depth),
            Filter::Not(inner) => self.filter(inner, !negated, depth + 1).map_err(|e| e.at("not")),
            Filter::Compare(op, left, right) => {
                let op = if negated { complement(*op) } else { *op };
                self.compare(op, left, right, depth).map_err(|e| e.at("compare"))
            }
            Filter::Between(expr, low, high) => {
                self.between(expr, low, high, negated, depth).map_err(|e| e.at("between"))
            }
            Filter::In(expr, values) => self.in_list(expr, values, negated, depth).map_err(|e| e.at("in")),
            Filter::IsNull(expr) => {
                let expr = self.expr(expr, depth + 1).map_err(|e| e.at("is_null"))?;
                Ok(match expr {
                    BoundExpr::Slot(slot) if self.lowers(slot) => Pred::IsNull { slot, negated },
                    BoundExpr::Literal(value) => Pred::Constant(value.is_null() != negated),
                    expr => Pred::ExprIsNull { expr, negated },
                })
            }
            Filter::Like(expr, pattern) => self.like(expr, pattern, negated, depth).map_err(|e| e.at("like")),
            Filter::Rows(rows) => self.rows(rows, negated).map_err(|e| e.at("rows")),
            Filter::Keys(keys) => {
                self.keys(keys, negated, depth).map_err(|e| e.at(set_place("keys", &keys.set.origin)))
            }
            Filter::Texts(texts) => {
                self.texts(texts, negated, depth).map_err(|e| e.at(set_place("texts", &texts.origin)))
            }
            Filter::SemiJoin(_) => {
                let message = "a semi-join is resolved before its query is bound";
                Err(Error::new(ErrorKind::InvalidQuery, message).at("semi_join"))
            }
            Filter::Constant(constant) => Ok(Pred::Constant(*constant != negated)),
        }
    }

    fn list(
        &mut self,
        filters: &[Filter],
        name: &str,
        negated: bool,
        all: bool,
        depth: usize,
    ) -> Result<Pred> {
        let mut preds = Vec::with_capacity(filters.len());
        for (i, filter) in filters.iter().enumerate() {
            preds.push(self.filter(filter, negated, depth + 1).map_err(|e| e.at(format!("{name}[{i}]")))?);
        }
        Ok(if all { Pred::and(preds) } else { Pred::or(preds) })
    }

    fn compare(&mut self, op: CompareOp, left: &Expr, right: &Expr, depth: usize) -> Result<Pred> {
        let bound_left = self.expr(left, depth + 1).map_err(|e| e.at("left"))?;
        let bound_right = self.expr(right, depth + 1).map_err(|e| e.at("right"))?;
        match (&bound_left, right, &bound_right, left) {
            (BoundExpr::Slot(slot), Expr::Literal(literal), ..) => {
                self.test(*slot, op, literal).map_err(|e| e.at("right"))
            }
            (.., BoundExpr::Slot(slot), Expr::Literal(literal)) => {
                self.test(*slot, flip(op), literal).map_err(|e| e.at("left"))
            }
            _ => {
                let beside = |literal: &Expr, bound: BoundExpr, other: &BoundExpr| match literal {
                    Expr::Literal(literal) => self.literal_beside(literal, other),
                    _ => bound,
                };
                let left = beside(left, bound_left, &bound_right);
                let right = beside(right, bound_right, &left);
                self.general(op, left, right)
            }
        }
    }

    /// A literal that is compared with an expression.
    fn literal_beside(&self, literal: &Literal, other: &BoundExpr) -> BoundExpr {
        BoundExpr::Literal(match (other, other.data_type(&self.slots)) {
            (BoundExpr::Literal(_), _) | (_, None) => literal_value(literal),
            (_, Some(data_type)) => value_beside(literal, data_type),
        })
    }

    /// A comparison of two expressions.
    fn general(&self, op: CompareOp, left: BoundExpr, right: BoundExpr) -> Result<Pred> {
        let (Some(a), Some(b)) = (left.data_type(&self.slots), right.data_type(&self.slots)) else {
            return Ok(Pred::Constant(false));
        };
        if let (BoundExpr::Literal(left), BoundExpr::Literal(right)) = (&left, &right) {
            let order = value::compare(left, right);
            let error = || Error::new(ErrorKind::TypeMismatch, format!("{a} does not compare with {b}"));
            return Ok(Pred::Constant(value::holds(op, order.ok_or_else(error)?)));
        }
        let (form, other) = (left.logical(&self.slots), right.logical(&self.slots));
        if form != other {
            // The forms of two types say nothing about each other.
            let (a, b) = (logical::type_name(form, a), logical::type_name(other, b));
            let message = format!("{a} does not compare with {b}");
            return Err(Error::new(ErrorKind::TypeMismatch, message));
        }
        let time = |t| matches!(t, DataType::Date32 | DataType::Timestamp);
        if a == b || (a.is_numeric() && b.is_numeric()) || (time(a) && time(b)) {
            return Ok(Pred::Compare(op, left, right));
        }
        Err(Error::new(ErrorKind::TypeMismatch, format!("{a} does not compare with {b}")))
    }

    /// A slot against a literal.
    pub(super) fn test(&self, slot: usize, op: CompareOp, literal: &Literal) -> Result<Pred> {
        if *literal == Literal::Null {
            return Ok(Pred::Constant(false));
        }
        let Some(logical) = self.slots.logicals[slot] else { return self.test_form(slot, op, literal) };
        let is_before = matches!(op, CompareOp::Lt | CompareOp::Le);
        let all = |is: bool| match is {
            true => self.not_null(slot),
            false => Pred::Constant(false),
        };
        match logical.place(literal)? {
            Place::Equal(form) => self.test_form(slot, op, &form),
            Place::Between(_) | Place::Below | Place::Above
                if matches!(op, CompareOp::Eq | CompareOp::Ne) =>
            {
                Ok(all(op == CompareOp::Ne))
            }
            Place::Between(floor) => {
                let op = if is_before { CompareOp::Le } else { CompareOp::Gt };
                self.test_form(slot, op, &floor)
            }
            Place::Below => Ok(all(!is_before)),
            Place::Above => Ok(all(is_before)),
        }
    }

    fn not_null(&self, slot: usize) -> Pred {
        match self.lowers(slot) {
            true => Pred::IsNull { slot, negated: true },
            false => Pred::ExprIsNull { expr: BoundExpr::Slot(slot), negated: true },
        }
    }

    /// A slot against a literal in the form in which its values are held.
    fn test_form(&self, slot: usize, op: CompareOp, literal: &Literal) -> Result<Pred> {
        let data_type = self.slots.fields[slot].1;
        if data_type == DataType::Utf8 {
            let Literal::Text(text) = literal else {
                return self.general(op, BoundExpr::Slot(slot), BoundExpr::Literal(literal_value(literal)));
            };
            if self.lowers(slot) {
                let bounds = |lo, hi| TextTest::Range { lo, hi };
                let (test, negated) = match op {
                    CompareOp::Eq | CompareOp::Ne => (
                        bounds(Bound::Included(text.clone()), Bound::Included(text.clone())),
                        op == CompareOp::Ne,
                    ),
                    CompareOp::Lt => (bounds(Bound::Unbounded, Bound::Excluded(text.clone())), false),
                    CompareOp::Le => (bounds(Bound::Unbounded, Bound::Included(text.clone())), false),
                    CompareOp::Gt => (bounds(Bound::Excluded(text.clone()), Bound::Unbounded), false),
                    CompareOp::Ge => (bounds(Bound::Included(text.clone()), Bound::Unbounded), false),
                };
                return Ok(Pred::Text { slot, test, negated, text: self.text_of(slot, op, literal) });
            }
        } else {
            // Checked for its type even where it is compared value by value.
            let position = Position::of(literal, data_type)?;
            if self.lowers(slot) {
                let (test, negated) = position.test(op, data_type);
                let text = self.text_of(slot, op, literal);
                return Ok(Pred::Keys { slot, test, codes: None, negated, text });
            }
        }
        let value = value_beside(literal, data_type);
        Ok(Pred::Compare(op, BoundExpr::Slot(slot), BoundExpr::Literal(value)))
    }

    /// A literal that a column may have, in the form in which it is held; `None`: it has it nowhere.
    fn in_form<'a>(&self, slot: usize, literal: &'a Literal) -> Result<Option<Cow<'a, Literal>>> {
        let Some(logical) = self.slots.logicals[slot] else { return Ok(Some(Cow::Borrowed(literal))) };
        Ok(match logical.place(literal)? {
            Place::Equal(form) => Some(Cow::Owned(form)),
            Place::Between(_) | Place::Below | Place::Above => None,
        })
    }

    fn text_of(&self, slot: usize, op: CompareOp, literal: &Literal) -> Arc<str> {
        let literal = BoundExpr::Literal(literal_value(literal));
        let slot = BoundExpr::Slot(slot);
        format!("{} {} {}", slot.display(&self.slots), symbol(op), literal.display(&self.slots)).into()
    }

    fn between(&mut self, expr: &Expr, low: &Expr, high: &Expr, negated: bool, depth: usize) -> Result<Pred> {
        let (ge, le) = if negated { (CompareOp::Lt, CompareOp::Gt) } else { (CompareOp::Ge, CompareOp::Le) };
        let place = |e: Error, side: &str| {
            // The comparison's own places become those of the between.
            let inner = e.place().map(|p| {
                if p.starts_with("left") {
                    p.replacen("left", "expr", 1)
                } else {
                    p.replacen("right", side, 1)
                }
            });
            let error = Error::new(e.kind(), e.message());
            inner.map_or(error.clone(), |p| error.at(p))
        };
        let low = self.compare(ge, expr, low, depth).map_err(|e| place(e, "low"))?;
        let high = self.compare(le, expr, high, depth).map_err(|e| place(e, "high"))?;
        Ok(if negated { Pred::or(vec![low, high]) } else { Pred::and(vec![low, high]) })
    }

    fn in_list(&mut self, expr: &Expr, values: &[Literal], negated: bool, depth: usize) -> Result<Pred> {
        if values.len() > MAX_IN_LIST {
            let message = format!("{} values in a list; the limit is {MAX_IN_LIST}", values.len());
            return Err(Error::new(ErrorKind::FilterTooLarge, message).at("values"));
        }
        let bound = self.expr(expr, depth + 1).map_err(|e| e.at("expr"))?;
        if values.is_empty() {
            return Ok(Pred::Constant(negated));
        }
        // `x NOT IN (..., NULL)` is never true: x may be the unknown value.
        let has_null = values.contains(&Literal::Null);
        if negated && has_null {
            return Ok(Pred::Constant(false));
        }
        let given = values.iter().enumerate().filter(|(_, v)| **v != Literal::Null);
        let place = |i: usize| format!("values[{i}]");
        if !matches!(bound, BoundExpr::Slot(slot) if self.lowers(slot)) {
            // One comparison for each value, and each evaluates the expression.
            self.count_nodes(values.len().saturating_mul(bound.nodes()))?;
        }
        let BoundExpr::Slot(slot) = bound else {
            let op = if negated { CompareOp::Ne } else { CompareOp::Eq };
            let each = given.map(|(i, literal)| {
                self.general(op, bound.clone(), self.literal_beside(literal, &bound))
                    .map_err(|e| e.at(place(i)))
            });
            let each = each.collect::<Result<Vec<_>>>()?;
            return Ok(if negated { Pred::and(each) } else { Pred::or(each) });
        };
        if !self.lowers(slot) {
            let op = if negated { CompareOp::Ne } else { CompareOp::Eq };
            let each = given.map(|(i, literal)| self.test(slot, op, literal).map_err(|e| e.at(place(i))));
            let each = each.collect::<Result<Vec<_>>>()?;
            return Ok(if negated { Pred::and(each) } else { Pred::or(each) });
        }
        let (name, data_type) = &self.slots.fields[slot];
        let text: Arc<str> = in_text(name, values, negated).into();
        if *data_type == DataType::Utf8 {
            let mut texts = Vec::with_capacity(values.len());
            for (i, literal) in given {
                let Some(literal) = self.in_form(slot, literal).map_err(|e| e.at(place(i)))? else {
                    continue;
                };
                let Literal::Text(text) = &*literal else {
                    let message = format!("a column of type utf8 does not compare with {literal:?}");
                    return Err(Error::new(ErrorKind::TypeMismatch, message).at(place(i)));
                };
                texts.push(text.as_str().into());
            }
            let test = TextTest::In(Arc::new(texts.into_iter().collect()));
            return Ok(Pred::Text { slot, test, negated, text });
        }
        let mut keys = Vec::with_capacity(values.len());
        for (i, literal) in given {
            let Some(literal) = self.in_form(slot, literal).map_err(|e| e.at(place(i)))? else { continue };
            if let Some((lo, hi)) =
                Position::of(&literal, *data_type).map_err(|e| e.at(place(i)))?.key(*data_type)
            {
                // More than one key only for the two zeros of a float.
                keys.extend(lo..=hi);
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(Pred::Keys { slot, test: KeyTest::of(keys), codes: None, negated, text })
    }

    fn like(&mut self, expr: &Expr, pattern: &str, negated: bool, depth: usize) -> Result<Pred> {
        let parsed = Arc::new(Pattern::new(pattern).map_err(|e| e.at("pattern"))?);
        let bound = self.expr(expr, depth + 1).map_err(|e| e.at("expr"))?;
        self.not_held("LIKE takes text", &bound).map_err(|e| e.at("expr"))?;
        match bound.data_type(&self.slots) {
            None => return Ok(Pred::Constant(false)),
            Some(DataType::Utf8) => {}
            Some(other) => {
                return Err(
                    Error::new(ErrorKind::TypeMismatch, format!("LIKE takes text, not {other}")).at("expr")
                );
            }
        }
        match bound {
            BoundExpr::Slot(slot) if self.lowers(slot) => {
                let not = if negated { "NOT " } else { "" };
                let text =
                    format!("{} {not}LIKE '{}'", self.slots.fields[slot].0, pattern.replace('\'', "''"));
                Ok(Pred::Text { slot, test: TextTest::Like(parsed), negated, text: text.into() })
            }
            expr => Ok(Pred::Like { expr, pattern: parsed, negated }),
        }
    }
}

/// The value of a literal that is compared with values of a type: a text may say one of them.
fn value_beside(literal: &Literal, data_type: DataType) -> Value {
    let value = match (literal, data_type) {
        (Literal::Text(text), DataType::Date32) => time::parse_date(text).map(Value::Date),
        (Literal::Text(text), DataType::Timestamp) => time::parse_timestamp(text).map(Value::Timestamp),
        (Literal::Text(text), DataType::Decimal { .. }) => {
            parse_decimal(text).map(|(unscaled, scale)| Value::Decimal { unscaled, scale })
        }
        // What a person wrote as 0.1 is the float32 that reads as 0.1.
        #[allow(clippy::cast_possible_truncation, reason = "the nearest float32 is asked for")]
        (Literal::Decimal { unscaled, scale }, DataType::Float32) => {
            let nearest = value::to_f64(*unscaled, *scale) as f32;
            Some(Value::Float(f64::from(nearest)))
        }
        _ => None,
    };
    // Default: it is of a type of its own.
    value.unwrap_or_else(|| literal_value(literal))
}

/// Where in the request a set stands.
fn set_place(name: &'static str, origin: &SipOrigin) -> &'static str {
    if let SipOrigin::SemiJoin { .. } = origin { "semi_join" } else { name }
}

fn in_text(name: &str, values: &[Literal], negated: bool) -> String {
    use std::fmt::Write;
    let mut text = format!("{name} {}IN (", if negated { "NOT " } else { "" });
    for (i, literal) in values.iter().take(5).enumerate() {
        let separator = if i > 0 { ", " } else { "" };
        let value = BoundExpr::Literal(literal_value(literal));
        let _ = write!(text, "{separator}{}", value.display(&super::expr::Slots::default()));
    }
    if values.len() > 5 {
        let _ = write!(text, ", ... {} values", values.len());
    }
    text + ")"
}

/// The comparison that is true where `op` is false.
fn complement(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq => CompareOp::Ne,
        CompareOp::Ne => CompareOp::Eq,
        CompareOp::Lt => CompareOp::Ge,
        CompareOp::Le => CompareOp::Gt,
        CompareOp::Gt => CompareOp::Le,
        CompareOp::Ge => CompareOp::Lt,
    }
}

/// The comparison with its sides changed.
fn flip(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        same => same,
    }
}
