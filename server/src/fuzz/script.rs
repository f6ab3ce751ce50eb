//! Queries as a few bytes: what bytes of protobuf hardly ever are when they are changed at random.

use basalt_proto::v1::{self as pb, expr, filter, value};

/// How deep expressions and filters nest.
const DEPTH: usize = 5;

/// Bytes that say what comes next; behind their end there are zeros.
pub(super) struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => 0,
        }
    }

    fn number(&mut self) -> i64 {
        let (kind, byte) = (self.byte(), self.byte());
        match kind % 8 {
            0 => i64::from(byte),
            1 => -i64::from(byte),
            2 => i64::MAX - i64::from(byte),
            3 => i64::MIN + i64::from(byte),
            4 => i64::from(byte) << (self.byte() % 56),
            5 => 1_700_000_000_000_000 + (i64::from(byte) << 40),
            6 => i64::from(i32::MAX) + i64::from(byte),
            _ => -(1_i64 << (byte % 63)),
        }
    }

    fn list<T>(&mut self, most: u8, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let n = self.byte() % (most + 1);
        (0..n).map(|_| make(self)).collect()
    }

    pub(super) fn query(&mut self) -> pb::QueryRequest {
        let flags = self.byte();
        let item = |script: &mut Self| pb::SelectItem { expr: Some(script.expr(0)), name: String::new() };
        let order = |script: &mut Self| {
            let flags = script.byte();
            let is = |bit: u8| flags & bit != 0;
            pb::OrderBy {
                expr: Some(script.expr(0)),
                descending: is(1),
                nulls_first: is(2),
                of_table: flags % 16 == 15,
            }
        };
        pb::QueryRequest {
            table: "t".to_owned(),
            select: self.list(4, item),
            filter: (flags & 1 != 0).then(|| self.filter(0)),
            group_by: self.list(3, |script| script.expr(0)),
            having: (flags & 6 == 6).then(|| self.filter(0)),
            order_by: self.list(3, order),
            limit: (flags & 8 != 0).then(|| u64::from(self.byte())),
            offset: if flags & 16 != 0 { u64::from(self.byte()) } else { 0 },
            version: None,
            format: 0,
        }
    }

    fn column(&mut self) -> String {
        let fields = super::TABLES.all.schema().fields();
        let place = usize::from(self.byte());
        // Some name nothing.
        fields.get(place % (fields.len() + 1)).map_or_else(|| "none".to_owned(), |field| field.name.clone())
    }

    fn value(&mut self) -> pb::Value {
        use value::Kind;
        let kind = match self.byte() % 10 {
            0 => Kind::Null(true),
            1 => Kind::Bool(self.byte() & 1 == 1),
            2 | 3 => Kind::Int(self.number()),
            4 => Kind::Uint(self.number().cast_unsigned()),
            5 => Kind::Double(f64::from_bits(self.number().cast_unsigned())),
            6 => Kind::Decimal(pb::Decimal { unscaled: self.number(), scale: u32::from(self.byte() % 20) }),
            7 => Kind::Text(format!("text {}", self.byte())),
            8 => Kind::Date(i32::try_from(self.number() >> 30).unwrap_or(0)),
            _ => Kind::Timestamp(self.number()),
        };
        pb::Value { kind: Some(kind) }
    }

    fn expr(&mut self, depth: usize) -> pb::Expr {
        use expr::Kind;
        let kind = self.byte();
        let boxed = |script: &mut Self| Some(Box::new(script.expr(depth + 1)));
        let kind = match kind % 8 {
            _ if depth > DEPTH => Kind::Column(self.column()),
            0..=2 => Kind::Column(self.column()),
            3 => Kind::Literal(self.value()),
            4 => {
                let op = i32::from(1 + self.byte() % 4);
                Kind::Arithmetic(Box::new(pb::Arithmetic { op, left: boxed(self), right: boxed(self) }))
            }
            5 => {
                let flags = self.byte();
                let argument = if flags & 0x80 == 0 { boxed(self) } else { None };
                let (function, distinct) = (i32::from(1 + flags % 5), flags & 0x40 != 0);
                Kind::Aggregate(Box::new(pb::Aggregate { function, argument, distinct }))
            }
            6 => {
                let attribute = if self.byte() & 1 == 0 { "name" } else { "k" };
                Kind::Attribute(pb::Attribute { column: "u".to_owned(), attribute: attribute.to_owned() })
            }
            _ => {
                let (function, unit) = (i32::from(1 + self.byte() % 4), i32::from(self.byte() % 9));
                Kind::Time(Box::new(pb::Time { function, unit, of: boxed(self) }))
            }
        };
        pb::Expr { kind: Some(kind) }
    }

    fn filter(&mut self, depth: usize) -> pb::Filter {
        use filter::Kind;
        let kind = self.byte();
        let expr = |script: &mut Self| Some(script.expr(depth + 1));
        let kind = match kind % 12 {
            0 if depth <= DEPTH => {
                Kind::And(pb::And { filters: self.list(3, |script| script.filter(depth + 1)) })
            }
            1 if depth <= DEPTH => {
                Kind::Or(pb::Or { filters: self.list(3, |script| script.filter(depth + 1)) })
            }
            2 if depth <= DEPTH => Kind::Not(Box::new(self.filter(depth + 1))),
            3 | 4 => {
                let op = i32::from(1 + self.byte() % 6);
                Kind::Compare(pb::Compare { op, left: expr(self), right: expr(self) })
            }
            5 => Kind::Between(pb::Between { expr: expr(self), low: expr(self), high: expr(self) }),
            6 => Kind::In(pb::In { expr: expr(self), values: self.list(5, Self::value) }),
            7 => Kind::IsNull(self.expr(depth + 1)),
            8 => {
                let pattern = self.list(4, |script| {
                    ["%", "_", "t", "ext", " ", "\\%", "1"][usize::from(script.byte() % 7)]
                });
                Kind::Like(pb::Like { expr: expr(self), pattern: pattern.concat() })
            }
            9 => {
                let (column, key) = (self.column(), if self.byte() & 1 == 0 { "k" } else { "name" });
                let filter = (self.byte() & 1 == 0).then(|| Box::new(self.of_keys()));
                let table = "u".to_owned();
                Kind::SemiJoin(Box::new(pb::SemiJoin {
                    column,
                    table,
                    key: key.to_owned(),
                    filter,
                    version: None,
                }))
            }
            10 => {
                let addresses = self.list(6, |script| u64::from(script.byte()));
                let version = super::TABLES.snapshot.version();
                Kind::RowAddresses(pb::RowAddresses { version, addresses })
            }
            _ => Kind::Constant(self.byte() & 1 == 0),
        };
        pb::Filter { kind: Some(kind) }
    }

    /// Of the table of keys.
    fn of_keys(&mut self) -> pb::Filter {
        let op = i32::from(1 + self.byte() % 6);
        let left = Some(pb::Expr { kind: Some(expr::Kind::Column("k".to_owned())) });
        let right = Some(pb::Expr { kind: Some(expr::Kind::Literal(self.value())) });
        pb::Filter { kind: Some(filter::Kind::Compare(pb::Compare { op, left, right })) }
    }
}
