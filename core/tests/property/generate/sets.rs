//! Leaves of filters that are sets: row addresses, keys, semi-joins.

use std::sync::Arc;

use basalt_core::{
    query::{Expr, Filter, KeyFilter, KeySet, ROW_ADDRESS, RowSet, SemiJoin, SipOrigin},
    schema::DataType,
};
use basalt_sip::{Sip, Tag};
use rand::{Rng, seq::IndexedRandom};

use super::{
    Contents, one_in,
    query::{Generator, columns_of},
    table::{integer, value},
    weighted,
};
use crate::{INNER, TABLE, value::Value};

impl Generator<'_> {
    /// Some rows of the table, and addresses that none has.
    pub(super) fn row_set(&mut self) -> RowSet {
        let share = weighted(self.rng, &[(1, 0), (2, 2), (4, 10), (2, 20)]);
        let addresses = if self.name == TABLE { &self.addresses.outer } else { &self.addresses.inner };
        let mut ids: Vec<u64> =
            addresses.iter().copied().filter(|_| self.rng.random_ratio(share, 20)).collect();
        ids.extend([u64::MAX, 1 << 40].into_iter().filter(|_| one_in(self.rng, 4)));
        RowSet {
            table: self.name.to_owned(),
            version: self.contents.version(),
            table_id: None,
            sip: self.sip(ids),
            origin: SipOrigin::Request,
        }
    }

    /// A set of ids under any tag.
    fn sip(&mut self, ids: Vec<u64>) -> Arc<Sip> {
        let sip = Sip::from_ids(ids);
        let tag = *Tag::ALL.choose(self.rng).unwrap();
        Arc::new(if tag == Tag::Empty { sip } else { sip.to_tag(tag) })
    }

    /// A column that may be asked a set, if there is one: a column of the table, or one of the group's keys.
    fn set_column(&mut self, accepts: impl Fn(DataType) -> bool) -> Option<(String, DataType)> {
        let columns = self.terms.iter().filter_map(|(term, data_type)| match term {
            Expr::Column(name) if name != ROW_ADDRESS && accepts(*data_type) => {
                Some((name.clone(), *data_type))
            }
            _ => None,
        });
        columns.collect::<Vec<_>>().choose(self.rng).cloned()
    }

    /// A column in a set of keys of its own type, or of another that goes with it.
    pub(super) fn key_set(&mut self) -> Filter {
        let Some((column, data_type)) = self.set_column(DataType::has_key_domain) else {
            return Filter::Constant(true);
        };
        let of = match data_type {
            data_type if data_type.is_integer() && one_in(self.rng, 2) => integer(self.rng),
            DataType::Decimal { scale, .. } if one_in(self.rng, 2) => {
                DataType::Decimal { precision: 18, scale }
            }
            data_type => data_type,
        };
        let place = self.contents.fields.iter().position(|field| field.name == column);
        let n = weighted(self.rng, &[(1, 0), (2, 1), (4, 5), (4, 30), (2, 3000)]);
        let is_tame = self.rng.random();
        let mut ids = Vec::new();
        for _ in 0..n {
            let own = place.and_then(|i| self.contents.rows.choose(self.rng).map(|row| row[i].clone()));
            let value = match own.filter(|value| value.fits(of)) {
                Some(own) if one_in(self.rng, 2) => own,
                _ => value(self.rng, of, is_tame),
            };
            let first = value.integer().unwrap();
            let run = if one_in(self.rng, 20) { self.rng.random_range(1..200) } else { 1 };
            ids.extend((first..first + run).filter(|id| fits(*id, &value, of)).map(|id| id_of(id, of)));
        }
        let set = KeySet {
            data_type: of,
            has_null: one_in(self.rng, 4),
            sip: self.sip(ids),
            origin: [SipOrigin::Request, SipOrigin::Handle].choose(self.rng).unwrap().clone(),
        };
        Filter::Keys(KeyFilter { column, set })
    }

    /// A column in the values of a column of the inner table, or of the outer one.
    pub(super) fn semi_join(&mut self, depth: u32) -> Filter {
        let is_inner = self.outer.inner.is_some() && !one_in(self.rng, 4);
        let outer = self.outer;
        let (table, contents): (_, &Contents) = match &outer.inner {
            Some(inner) if is_inner => (INNER, inner),
            _ => (TABLE, outer),
        };
        let pairs = |data_type: DataType| {
            let goes_with = move |other: DataType| match (data_type, other) {
                (DataType::Decimal { scale: a, .. }, DataType::Decimal { scale: b, .. }) => a == b,
                (a, b) => a == b || (a.is_integer() && b.is_integer()),
            };
            contents.fields.iter().filter(move |field| goes_with(field.data_type)).map(|field| &field.name)
        };
        let accepts = |data_type: DataType| !data_type.is_float() && pairs(data_type).next().is_some();
        let Some((column, data_type)) = self.set_column(accepts) else { return self.key_set() };
        if self.joins == 0 {
            return self.key_set();
        }
        self.joins -= 1;
        let key = (*pairs(data_type).collect::<Vec<_>>().choose(self.rng).unwrap()).clone();
        let mut inside = Generator {
            rng: self.rng,
            contents,
            name: table,
            outer,
            addresses: self.addresses,
            joins: self.joins,
            terms: columns_of(contents),
            of_rows: true,
        };
        let filter = (!one_in(inside.rng, 4)).then(|| inside.filter(depth.min(1)));
        self.joins = inside.joins;
        let version = one_in(self.rng, 4).then(|| contents.version());
        Filter::SemiJoin(Box::new(SemiJoin { column, table: table.to_owned(), key, filter, version }))
    }
}

/// Whether an integer is one of the type that a value is of.
fn fits(integer: i128, like: &Value, data_type: DataType) -> bool {
    match like {
        Value::Int(_) => Value::Int(integer).fits(data_type),
        Value::Decimal(_, scale) => Value::Decimal(integer, *scale).fits(data_type),
        Value::Bool(_) => (0..2).contains(&integer),
        Value::Date(_) => i32::try_from(integer).is_ok(),
        _ => i64::try_from(integer).is_ok(),
    }
}

/// The id of an integer: as a uint64, or in 64-bit two's complement.
pub(crate) fn id_of(integer: i128, data_type: DataType) -> u64 {
    if data_type.is_unsigned() {
        u64::try_from(integer).unwrap()
    } else {
        i64::try_from(integer).unwrap().cast_unsigned()
    }
}
