//! Queries over a table, with the types of their answers.

use basalt_core::{
    query::{
        Aggregate, AggregateFunction, ArithmeticOp, Attribute, CompareOp, Expr, Filter, Literal, OrderBy,
        Query, ROW_ADDRESS, SelectItem,
    },
    schema::DataType,
    time_parts::{TimeFunction, Unit},
};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};

use super::{Contents, one_in, table::value, weighted};
use crate::{Addresses, TABLE, naive::DATES, value::Value};

/// A query, and the types of its answer's columns.
#[derive(Clone, Debug)]
pub(crate) struct TypedQuery {
    pub(crate) query: Query,
    pub(crate) types: Vec<DataType>,
}

pub(super) type Typed = (Expr, DataType);

pub(super) struct Generator<'a> {
    pub(super) rng: &'a mut StdRng,
    /// The table that leaves of filters are about, and its name.
    pub(super) contents: &'a Contents,
    pub(super) name: &'static str,
    /// The outer table, which has the inner one.
    pub(super) outer: &'a Contents,
    pub(super) addresses: &'a Addresses,
    /// Semi-joins that may still come.
    pub(super) joins: u32,
    /// What leaves of filters are about: columns, or the keys and aggregates of groups.
    pub(super) terms: Vec<Typed>,
    pub(super) of_rows: bool,
}

/// A random query over a table whose rows have these addresses.
pub(crate) fn query(rng: &mut StdRng, contents: &Contents, addresses: &Addresses) -> TypedQuery {
    let mut generator = Generator {
        rng,
        contents,
        name: TABLE,
        outer: contents,
        addresses,
        joins: 5,
        terms: columns_of(contents),
        of_rows: true,
    };
    let depth = weighted(generator.rng, &[(4, 0), (4, 1), (2, 2), (1, 3)]);
    let filter = (!one_in(generator.rng, 3)).then(|| generator.filter(depth));
    let mut typed = if one_in(generator.rng, 3) { generator.rows() } else { generator.groups() };
    typed.query.filter = filter;
    let rows = contents.rows.len() as u64;
    if one_in(rng, 3) {
        typed.query.limit =
            Some(if one_in(rng, 2) { rng.random_range(0..9) } else { rng.random_range(0..=rows + 1) });
    }
    if one_in(rng, 5) {
        typed.query.offset =
            if one_in(rng, 2) { rng.random_range(0..4) } else { rng.random_range(0..=rows + 1) };
    }
    typed
}

/// The columns of a table, the address of a row among them, and the attributes of what they refer to.
pub(super) fn columns_of(contents: &Contents) -> Vec<Typed> {
    let columns = contents.fields.iter().map(|field| (Expr::Column(field.name.clone()), field.data_type));
    let referring = contents.fields.iter().filter(|field| field.references.is_some());
    let attributes = referring.flat_map(|referring| {
        contents.inner.iter().flat_map(|inner| &inner.fields).map(|field| {
            let (column, name) = (referring.name.clone(), field.name.clone());
            (Expr::Attribute(Attribute { column, name, lookup: None }), field.data_type)
        })
    });
    columns.chain([(Expr::Column(ROW_ADDRESS.to_owned()), DataType::UInt64)]).chain(attributes).collect()
}

impl Generator<'_> {
    fn rows(&mut self) -> TypedQuery {
        let mut query = Query::default();
        let types = if one_in(self.rng, 4) {
            self.contents.fields.iter().map(|field| field.data_type).collect()
        } else {
            let outputs: Vec<Typed> = (0..self.rng.random_range(1..5)).map(|_| self.expr()).collect();
            self.select(&mut query, outputs)
        };
        if one_in(self.rng, 2) {
            let keys = (0..self.rng.random_range(1..4)).map(|_| self.expr().0).collect();
            self.order_by(&mut query, keys);
        }
        TypedQuery { query, types }
    }

    fn groups(&mut self) -> TypedQuery {
        let mut keys: Vec<Typed> =
            (0..weighted(self.rng, &[(2, 0), (4, 1), (2, 2), (1, 3)])).map(|_| self.expr()).collect();
        // A key that holds NaN is not itself, so it cannot be found again.
        keys.retain(|(key, _)| *key == key.clone());
        let aggregates: Vec<Typed> =
            (0..self.rng.random_range(u32::from(keys.is_empty())..5)).map(|_| self.aggregate()).collect();
        // Sums of floats are nearly right, which is not enough to decide or to order by them.
        let is_exact = |(expr, data_type): &Typed| match expr {
            Expr::Aggregate(a) if a.function == AggregateFunction::Avg => false,
            Expr::Aggregate(a) if a.function == AggregateFunction::Sum => !data_type.is_float(),
            _ => true,
        };
        self.terms = keys.iter().chain(aggregates.iter().filter(|a| is_exact(a))).cloned().collect();
        self.of_rows = false;
        let mut query =
            Query { group_by: keys.iter().map(|(key, _)| key.clone()).collect(), ..Query::default() };
        let mut outputs = aggregates;
        outputs.extend(keys.iter().filter(|_| one_in(self.rng, 2)).cloned());
        if !self.terms.is_empty() {
            if one_in(self.rng, 4) {
                query.having = Some(self.filter(2));
            }
            if one_in(self.rng, 4) {
                let number = self.number(2);
                // By chance it is a key, and has the type that this has in rows.
                let key = keys.iter().find(|(key, _)| *key == number.0).cloned();
                outputs.push(key.unwrap_or(number));
            }
        }
        let types = if outputs.is_empty() && one_in(self.rng, 2) {
            keys.iter().map(|(_, data_type)| *data_type).collect()
        } else {
            if outputs.is_empty() {
                outputs = keys;
            }
            self.select(&mut query, outputs)
        };
        if !self.terms.is_empty() && one_in(self.rng, 3) {
            let keys = (0..self.rng.random_range(1..3))
                .map(|_| self.terms.choose(self.rng).unwrap().0.clone())
                .collect();
            self.order_by(&mut query, keys);
        }
        TypedQuery { query, types }
    }

    fn select(&mut self, query: &mut Query, outputs: Vec<Typed>) -> Vec<DataType> {
        let (exprs, types): (Vec<Expr>, Vec<DataType>) = outputs.into_iter().unzip();
        let item = |(i, expr)| SelectItem { expr, name: Some(format!("o{i}")) };
        query.select = exprs.into_iter().enumerate().map(item).collect();
        types
    }

    fn order_by(&mut self, query: &mut Query, keys: Vec<Expr>) {
        for expr in keys {
            // An output by its name is the same key.
            let name = query.select.iter().find(|item| item.expr == expr).and_then(|item| item.name.clone());
            let name = name.filter(|_| one_in(self.rng, 2));
            let of_table = name.is_none() && one_in(self.rng, 2);
            let expr = name.map_or(expr, Expr::Column);
            query.order_by.push(OrderBy {
                expr,
                descending: self.rng.random(),
                nulls_first: self.rng.random(),
                of_table,
            });
        }
    }

    fn aggregate(&mut self) -> Typed {
        use AggregateFunction::{Avg, Count, Max, Min, Sum};
        let function = *[Count, Count, Sum, Sum, Min, Max, Avg].choose(self.rng).unwrap();
        let (argument, data_type) = match function {
            Count if one_in(self.rng, 3) => (None, DataType::Int64),
            Sum | Avg => {
                let (argument, data_type) = self.number(2);
                (Some(argument), data_type)
            }
            _ => {
                let (argument, data_type) = self.expr();
                (Some(argument), data_type)
            }
        };
        let distinct = function == Count && argument.is_some() && one_in(self.rng, 2);
        let result = match (function, data_type) {
            (Count, _) => DataType::Int64,
            (Min | Max, data_type) => data_type,
            (Avg, _) | (Sum, DataType::Float32 | DataType::Float64) => DataType::Float64,
            (Sum, DataType::Decimal { scale, .. }) => DataType::Decimal { precision: 38, scale },
            (Sum, DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64) => {
                DataType::UInt64
            }
            (Sum, _) => DataType::Int64,
        };
        (Expr::Aggregate(Box::new(Aggregate { function, argument, distinct })), result)
    }

    /// A term of any type, or arithmetic.
    fn expr(&mut self) -> Typed {
        let time = if one_in(self.rng, 8) { self.time() } else { None };
        match time {
            Some(time) => time,
            None if one_in(self.rng, 4) => self.number(2),
            None => self.terms.choose(self.rng).unwrap().clone(),
        }
    }

    /// A function of a term that is a date or a timestamp.
    fn time(&mut self) -> Option<Typed> {
        let is_time = |data_type| matches!(data_type, DataType::Date32 | DataType::Timestamp);
        let times: Vec<&Typed> = self.terms.iter().filter(|(_, data_type)| is_time(*data_type)).collect();
        let (of, of_type) = (*times.choose(self.rng)?).clone();
        let unit = *Unit::ALL.choose(self.rng).unwrap();
        let functions = [
            TimeFunction::Truncate(unit),
            TimeFunction::Part(unit),
            TimeFunction::DayOfWeek,
            TimeFunction::DayOfYear,
        ];
        let function = *functions.choose(self.rng).unwrap();
        let data_type = match (function, of_type) {
            (TimeFunction::Truncate(_), DataType::Timestamp) => DataType::Timestamp,
            (function, DataType::Date32) if !function.is_of_dates() => return None,
            _ => DataType::Int32,
        };
        Some((Expr::Time(function, Box::new(of)), data_type))
    }

    /// A term that is a number, a literal, or arithmetic of them.
    fn number(&mut self, depth: u32) -> Typed {
        if one_in(self.rng, 16)
            && let Some(part) = self.time().filter(|(_, data_type)| data_type.is_numeric())
        {
            return part;
        }
        let numbers: Vec<&Typed> =
            self.terms.iter().filter(|(_, data_type)| data_type.is_numeric()).collect();
        let number = numbers.choose(self.rng).map(|number| (*number).clone());
        if depth == 0 || one_in(self.rng, 2) {
            return match number {
                Some(number) if !one_in(self.rng, 5) => number,
                _ => self.small_literal(),
            };
        }
        let op = *[ArithmeticOp::Add, ArithmeticOp::Subtract, ArithmeticOp::Multiply, ArithmeticOp::Divide]
            .choose(self.rng)
            .unwrap();
        let left = self.number(depth - 1);
        let right = if op == ArithmeticOp::Divide && !one_in(self.rng, 4) {
            (Expr::Literal(Literal::Int(self.rng.random_range(1..9))), DataType::Int64)
        } else {
            self.number(depth - 1)
        };
        let scale =
            |data_type| if let DataType::Decimal { scale, .. } = data_type { Some(scale) } else { None };
        let scales = (scale(left.1), scale(right.1));
        let data_type = match (op, scales) {
            (ArithmeticOp::Divide, _) => DataType::Float64,
            _ if left.1.is_float() || right.1.is_float() => DataType::Float64,
            (_, (None, None)) => DataType::Int64,
            (op, (a, b)) => {
                let (a, b) = (a.unwrap_or(0), b.unwrap_or(0));
                let scale = if op == ArithmeticOp::Multiply { a + b } else { a.max(b) };
                if scale > 18 {
                    return left;
                }
                DataType::Decimal { precision: if self.of_rows { 18 } else { 38 }, scale }
            }
        };
        (Expr::Arithmetic(op, Box::new(left.0), Box::new(right.0)), data_type)
    }

    fn small_literal(&mut self) -> Typed {
        let int = self.rng.random_range(-9..=9);
        let (literal, data_type) = match self.rng.random_range(0..32) {
            0 => (Literal::UInt(u64::MAX), DataType::UInt64),
            1 => (Literal::Int(i64::MIN), DataType::Int64),
            2 => (Literal::Int(i64::MAX), DataType::Int64),
            3..16 => (Literal::Int(int), DataType::Int64),
            16..20 => (Literal::UInt(int.unsigned_abs()), DataType::Int64),
            20..28 => (
                Literal::Decimal { unscaled: int.into(), scale: 1 },
                DataType::Decimal { precision: 18, scale: 1 },
            ),
            #[allow(clippy::cast_precision_loss, reason = "it is small")]
            _ => (Literal::Float(int as f64 / 4.0), DataType::Float64),
        };
        (Expr::Literal(literal), data_type)
    }

    pub(super) fn filter(&mut self, depth: u32) -> Filter {
        match self.rng.random_range(0..if depth == 0 { 12 } else { 19 }) {
            0..4 => {
                let (term, data_type) = self.terms.choose(self.rng).unwrap().clone();
                let literal = Expr::Literal(self.literal(&term, data_type));
                let op = self.compare_op();
                if one_in(self.rng, 4) {
                    Filter::Compare(op, literal, term)
                } else {
                    Filter::Compare(op, term, literal)
                }
            }
            4 => {
                let (left, right) = self.pair();
                Filter::Compare(self.compare_op(), left, right)
            }
            5 => {
                let (term, data_type) = self.terms.choose(self.rng).unwrap().clone();
                let mut bound = || Expr::Literal(self.literal(&term, data_type));
                let (low, high) = (bound(), bound());
                Filter::Between(term, low, high)
            }
            6 => {
                let (term, data_type) = self.expr();
                // Arithmetic with a literal beside it has no column whose type the literal would take.
                let n = weighted(self.rng, &[(1, 0), (3, 1), (8, 4), (4, 20)]);
                Filter::In(term.clone(), (0..n).map(|_| self.literal(&term, data_type)).collect())
            }
            7 if one_in(self.rng, 2) => Filter::IsNull(self.expr().0),
            7 => Filter::Not(Box::new(Filter::IsNull(self.expr().0))),
            8 => self.like_or_null(),
            9 if !self.of_rows || one_in(self.rng, 2) => Filter::Constant(!one_in(self.rng, 3)),
            9 => Filter::Rows(self.row_set()),
            10 => self.key_set(),
            11 => self.semi_join(depth),
            12..14 => Filter::Not(Box::new(self.filter(depth - 1))),
            n => {
                let children = weighted(self.rng, &[(1, 0), (1, 1), (10, 2), (4, 3)]);
                let children = (0..children).map(|_| self.filter(depth - 1)).collect();
                if n < 17 { Filter::Or(children) } else { Filter::And(children) }
            }
        }
    }

    fn compare_op(&mut self) -> CompareOp {
        use CompareOp::{Eq, Ge, Gt, Le, Lt, Ne};
        weighted(self.rng, &[(2, Eq), (2, Ne), (3, Lt), (3, Le), (3, Gt), (3, Ge)])
    }

    /// Two terms that compare.
    fn pair(&mut self) -> (Expr, Expr) {
        let is_time = |data_type| matches!(data_type, DataType::Date32 | DataType::Timestamp);
        let (left, left_type) = self.expr();
        let compares = |right: DataType| {
            right == left_type
                || (right.is_numeric() && left_type.is_numeric())
                || (is_time(right) && is_time(left_type))
        };
        let others: Vec<Typed> =
            self.terms.iter().filter(|(_, data_type)| compares(*data_type)).cloned().collect();
        match others.choose(self.rng) {
            _ if left_type.is_numeric() && one_in(self.rng, 2) => (left, self.number(2).0),
            Some((right, _)) => (left, right.clone()),
            None => (left.clone(), left),
        }
    }

    fn like_or_null(&mut self) -> Filter {
        let texts: Vec<&Typed> =
            self.terms.iter().filter(|(_, data_type)| *data_type == DataType::Utf8).collect();
        let Some((text, _)) = texts.choose(self.rng) else { return Filter::IsNull(self.expr().0) };
        let text = text.clone();
        let tokens = ["a", "b", "%", "_", "\\%", "\\_", "\\\\", "é", "aa", "%"];
        let pattern = (0..self.rng.random_range(0..5)).map(|_| *tokens.choose(self.rng).unwrap()).collect();
        Filter::Like(text, pattern)
    }

    /// A literal to compare a term with: often one of its values or near one, of its own or another type.
    fn literal(&mut self, term: &Expr, data_type: DataType) -> Literal {
        if one_in(self.rng, 30) {
            return Literal::Null;
        }
        let is_plain = matches!(term, Expr::Column(_) | Expr::Attribute(_));
        let column = match term {
            Expr::Column(name) => Some((self.contents, name)),
            Expr::Attribute(attribute) => {
                self.contents.inner.as_deref().map(|inner| (inner, &attribute.name))
            }
            _ => None,
        };
        let own = column.filter(|_| !one_in(self.rng, 6)).and_then(|(contents, name)| {
            let i = contents.fields.iter().position(|field| field.name == *name)?;
            contents.rows.choose(self.rng).map(|row| row[i].clone())
        });
        let own = own.filter(|value| *value != Value::Null);
        let is_tame = self.rng.random();
        let value = own.unwrap_or_else(|| value(self.rng, data_type, is_tame));
        match value {
            Value::Null | Value::About(..) => Literal::Null,
            Value::Bool(v) => Literal::Bool(v),
            Value::Text(v) => Literal::Text(v),
            Value::Date(days) => match self.rng.random_range(0..4) {
                0 if is_plain => Literal::Text(DATES.choose(self.rng).unwrap().0.to_owned()),
                1 => Literal::Timestamp(
                    (i64::from(days) % 100_000) * 86_400_000_000 + i64::from(one_in(self.rng, 2)),
                ),
                _ => Literal::Date(days),
            },
            Value::Timestamp(micros) => match self.rng.random_range(0..4) {
                0 if is_plain => Literal::Text(DATES.choose(self.rng).unwrap().0.to_owned()),
                1 => Literal::Date(i32::try_from(micros / 86_400_000_000).unwrap()),
                _ => Literal::Timestamp(micros),
            },
            Value::Float(v) => self.near_float(v, data_type),
            Value::Decimal(unscaled, scale) => self.near_decimal(unscaled, scale, is_plain),
            Value::Int(v) => self.near_int(v),
        }
    }

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "any number will do")]
    fn near_int(&mut self, v: i128) -> Literal {
        let near = v + self.rng.random_range(-1..=1);
        match (self.rng.random_range(0..8), i64::try_from(near), u64::try_from(near)) {
            (0, ..) => Literal::Float(near as f64),
            (1, ..) => Literal::Float(near as f64 + 0.5),
            (2, Ok(near), _) => {
                Literal::Decimal { unscaled: i128::from((near % 1_000_000) * 10 + 5), scale: 1 }
            }
            (3, ..) => {
                Literal::Float(*[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300].choose(self.rng).unwrap())
            }
            (4, _, Ok(near)) | (_, Err(_), Ok(near)) => Literal::UInt(near),
            (_, Ok(near), _) => Literal::Int(near),
            _ => Literal::Int(0),
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "any number will do")]
    fn near_float(&mut self, v: f64, data_type: DataType) -> Literal {
        match self.rng.random_range(0..8) {
            0 => Literal::Int(v as i64),
            1 => Literal::UInt(v as u64),
            2 => Literal::Float(v.next_up()),
            // Beside a group's float32 a decimal would not be rounded to 32 bits.
            3 if self.of_rows || data_type == DataType::Float64 => Literal::Decimal {
                unscaled: ((v * 100.0) as i64).clamp(-10_i64.pow(14), 10_i64.pow(14)).into(),
                scale: 2,
            },
            _ => Literal::Float(v),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "any number will do")]
    fn near_decimal(&mut self, unscaled: i128, scale: u8, is_plain: bool) -> Literal {
        let near = i64::try_from(unscaled + self.rng.random_range(-1..=1)).unwrap_or(0);
        match self.rng.random_range(0..8) {
            0 => Literal::Int(near),
            1 => Literal::Float(near as f64 / 10_f64.powi(scale.into())),
            2 if is_plain => Literal::Text(crate::value::digits(&Value::Decimal(near.into(), scale))),
            3 => Literal::Decimal {
                unscaled: (near % 1_000_000).into(),
                scale: scale.saturating_add(1).min(18),
            },
            4 => Literal::Decimal { unscaled: near.into(), scale: scale.saturating_sub(1) },
            _ => Literal::Decimal { unscaled: near.into(), scale },
        }
    }
}
