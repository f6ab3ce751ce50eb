//! The keys of a build side, while they are gathered and when they are known.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arrow_array::{
    Array as _, ArrayRef, ArrowPrimitiveType,
    cast::AsArray as _,
    types::{
        Date32Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
        UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_schema::{DataType as ArrowType, TimeUnit};
use basalt_core::{
    encoding::TextMembers,
    query::{Filter, KeyFilter, KeySet, SipOrigin, TextFilter},
    schema::DataType,
};
use basalt_sip::Sip;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::limits;

/// What one side of a join has, for the scans of its other side.
#[derive(Debug)]
pub(crate) struct Keys {
    /// Of what, for people.
    name: String,
    data_type: DataType,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// So many parts of the side have not ended.
    Gathered { left: usize, found: Found, reservation: Option<MemoryReservation> },
    /// All of them have.
    Known { set: Set, _reservation: Option<MemoryReservation> },
    /// There are too many.
    Unknown,
}

#[derive(Debug)]
enum Set {
    Ids(Arc<Sip>),
    Texts(Arc<TextMembers>),
}

impl Keys {
    /// Those of a side that ends in so many parts; `None`: scans cannot be asked for values of this type.
    pub(super) fn new(name: String, data_type: &ArrowType, parts: usize) -> Option<Self> {
        let found = Found::of(data_type)?;
        let state = State::Gathered { left: parts, found, reservation: None };
        Some(Self { name, data_type: DataType::from_arrow(data_type)?, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The type of what is gathered, for one of its parts.
    pub(super) fn part(&self, data_type: &ArrowType) -> Option<Found> {
        match *self.state() {
            State::Gathered { .. } => Found::of(data_type),
            _ => None,
        }
    }

    /// Adds those of a part that has ended; `None`: they are too many.
    pub(super) fn add(&self, part: Option<(Found, MemoryReservation)>) {
        let state = &mut *self.state();
        let State::Gathered { left, found, reservation } = state else { return };
        let whole = part.and_then(|(part, of_part)| {
            let all = reservation.get_or_insert_with(|| of_part.new_empty());
            found.merge(part);
            found.compact();
            all.try_resize(found.bytes()).ok()
        });
        if whole.is_none() || found.len() > found.most() {
            *state = State::Unknown;
            return;
        }
        *left = left.saturating_sub(1);
        if *left == 0 {
            let set = std::mem::replace(found, Found::Ids(Vec::new())).known();
            let _reservation = reservation.take();
            if let (Some(reservation), Set::Ids(sip)) = (&_reservation, &set) {
                reservation.resize(sip.heap_bytes());
            }
            *state = State::Known { set, _reservation };
        }
    }

    /// Whether values of a column of a table may be compared with them.
    pub(crate) fn go_with(&self, column: DataType) -> bool {
        match (self.data_type, column) {
            (DataType::Decimal { scale, .. }, DataType::Decimal { scale: of_column, .. }) => {
                scale == of_column
            }
            (own, column) => own == column || own.is_integer() && column.is_integer(),
        }
    }

    /// Bytes that they take on the way to another node, about; 0: they are not known.
    pub(crate) fn bytes(&self) -> usize {
        match &*self.state() {
            State::Known { set: Set::Ids(sip), .. } => sip.as_bytes().len(),
            State::Known { set: Set::Texts(texts), .. } => texts.bytes(),
            State::Gathered { .. } | State::Unknown => 0,
        }
    }

    /// The condition that a column has one of them; `None`: they are not known, yet or at all.
    pub(crate) fn condition(&self, column: String) -> Option<Filter> {
        let State::Known { set, .. } = &*self.state() else { return None };
        let (has_null, origin) = (false, SipOrigin::Request);
        Some(match set {
            Set::Ids(sip) => {
                let set = KeySet { data_type: self.data_type, has_null, sip: Arc::clone(sip), origin };
                Filter::Keys(KeyFilter { column, set })
            }
            Set::Texts(texts) => {
                Filter::Texts(TextFilter { column, texts: Arc::clone(texts), has_null, origin })
            }
        })
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match &*self.state() {
            State::Gathered { .. } => Ok(()),
            State::Known { set: Set::Ids(sip), .. } => write!(f, ": {} keys", sip.cardinality()),
            State::Known { set: Set::Texts(texts), .. } => write!(f, ": {} keys", texts.texts().len()),
            State::Unknown => f.write_str(": too many keys"),
        }
    }
}

/// Keys as they are found, some perhaps more than once.
#[derive(Debug)]
pub(super) enum Found {
    Ids(Vec<u64>),
    Texts { texts: BTreeSet<Box<str>>, bytes: usize },
}

/// What a text takes in a set beside its bytes.
const TEXT_BYTES: usize = 32;

impl Found {
    fn of(data_type: &ArrowType) -> Option<Self> {
        match data_type {
            ArrowType::Utf8 => Some(Self::Texts { texts: BTreeSet::new(), bytes: 0 }),
            ArrowType::Boolean
            | ArrowType::Date32
            | ArrowType::Timestamp(TimeUnit::Microsecond, _)
            | ArrowType::Decimal128(..) => Some(Self::Ids(Vec::new())),
            data_type if data_type.is_integer() => Some(Self::Ids(Vec::new())),
            _ => None,
        }
    }

    /// Adds the values of an array; `None`: some are none that a table has.
    pub(super) fn extend(&mut self, array: &ArrayRef) -> Option<()> {
        let ids = match self {
            Self::Ids(ids) => ids,
            Self::Texts { texts, bytes } => {
                for text in array.as_string_opt::<i32>()?.iter().flatten() {
                    if !texts.contains(text) {
                        *bytes += text.len() + TEXT_BYTES;
                        texts.insert(text.into());
                    }
                }
                return Some(());
            }
        };
        let signed = |value: i64| value.cast_unsigned();
        match array.data_type() {
            ArrowType::Boolean => ids.extend(array.as_boolean().iter().flatten().map(u64::from)),
            ArrowType::Int8 => extend::<Int8Type>(ids, array, |value| signed(value.into())),
            ArrowType::Int16 => extend::<Int16Type>(ids, array, |value| signed(value.into())),
            ArrowType::Int32 => extend::<Int32Type>(ids, array, |value| signed(value.into())),
            ArrowType::Int64 => extend::<Int64Type>(ids, array, signed),
            ArrowType::UInt8 => extend::<UInt8Type>(ids, array, u64::from),
            ArrowType::UInt16 => extend::<UInt16Type>(ids, array, u64::from),
            ArrowType::UInt32 => extend::<UInt32Type>(ids, array, u64::from),
            ArrowType::UInt64 => extend::<UInt64Type>(ids, array, |value| value),
            ArrowType::Date32 => extend::<Date32Type>(ids, array, |value| signed(value.into())),
            ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
                extend::<TimestampMicrosecondType>(ids, array, signed);
            }
            ArrowType::Decimal128(..) => {
                for value in array.as_primitive::<Decimal128Type>().iter().flatten() {
                    // No column of the engine has a larger one.
                    ids.extend(i64::try_from(value).ok().map(signed));
                }
            }
            _ => return None,
        }
        Some(())
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.len(),
            Self::Texts { texts, .. } => texts.len(),
        }
    }

    /// How many are passed on at most.
    pub(super) fn most(&self) -> usize {
        match self {
            Self::Ids(_) => limits::PASSED_KEYS,
            Self::Texts { .. } => limits::PASSED_TEXTS,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.capacity() * size_of::<u64>(),
            Self::Texts { bytes, .. } => *bytes,
        }
    }

    /// Each is there once.
    pub(super) fn compact(&mut self) {
        if let Self::Ids(ids) = self
            && !ids.is_sorted_by(|a, b| a < b)
        {
            ids.sort_unstable();
            ids.dedup();
        }
    }

    fn merge(&mut self, part: Self) {
        match (self, part) {
            (Self::Ids(ids), Self::Ids(more)) if ids.is_empty() => *ids = more,
            (Self::Ids(ids), Self::Ids(more)) => ids.extend(more),
            (Self::Texts { texts, bytes }, Self::Texts { texts: more, bytes: more_bytes }) => {
                texts.extend(more);
                // Those that are in both count twice.
                *bytes += more_bytes;
            }
            // Both are of one type.
            (Self::Ids(_), Self::Texts { .. }) | (Self::Texts { .. }, Self::Ids(_)) => {}
        }
    }

    fn known(self) -> Set {
        match self {
            Self::Ids(ids) => Set::Ids(Arc::new(Sip::from_sorted_ids(&ids))),
            Self::Texts { texts, .. } => Set::Texts(Arc::new(texts.into_iter().collect())),
        }
    }
}

fn extend<T: ArrowPrimitiveType>(ids: &mut Vec<u64>, array: &ArrayRef, id: impl Fn(T::Native) -> u64) {
    let array = array.as_primitive::<T>();
    if array.null_count() == 0 {
        ids.extend(array.values().iter().copied().map(id));
    } else {
        ids.extend(array.iter().flatten().map(id));
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{BooleanArray, Decimal128Array, Int8Array, Int64Array, StringArray, UInt64Array};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    use super::*;

    fn part(array: &ArrayRef, pool: &Arc<dyn MemoryPool>) -> Option<(Found, MemoryReservation)> {
        let mut found = Found::of(array.data_type())?;
        found.extend(array)?;
        Some((found, MemoryConsumer::new("test").register(pool)))
    }

    fn pool(bytes: usize) -> Arc<dyn MemoryPool> {
        Arc::new(GreedyMemoryPool::new(bytes))
    }

    fn ids(keys: &Keys) -> Option<Vec<u64>> {
        match keys.condition("c".to_owned())? {
            Filter::Keys(filter) => Some(filter.set.sip.iter().collect()),
            _ => None,
        }
    }

    #[test]
    fn keys_are_known_when_all_parts_have_ended() {
        let (pool, one) = (pool(1 << 20), Arc::new(Int64Array::from(vec![Some(3), None, Some(-1), Some(3)])));
        let (one, two) = (one as ArrayRef, Arc::new(Int64Array::from(vec![2, 3])) as ArrayRef);
        let keys = Keys::new("k".to_owned(), one.data_type(), 2).unwrap();
        keys.add(part(&one, &pool));
        assert!(ids(&keys).is_none());
        keys.add(part(&two, &pool));
        assert_eq!(ids(&keys).unwrap(), [2, 3, u64::MAX]);
        assert_eq!(keys.to_string(), "k: 3 keys");
        assert!(pool.reserved() > 0);
        drop(keys);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn values_of_all_types_are_ids_and_those_that_no_table_has_are_none() {
        let decimals = Decimal128Array::from(vec![150, i128::from(i64::MAX) + 1, -2]);
        let arrays: [(ArrayRef, &[u64]); 4] = [
            (Arc::new(BooleanArray::from(vec![Some(true), None])), &[1]),
            (Arc::new(Int8Array::from(vec![-1, 5])), &[5, u64::MAX]),
            (Arc::new(UInt64Array::from(vec![u64::MAX, 0])), &[0, u64::MAX]),
            (Arc::new(decimals.with_precision_and_scale(18, 2).unwrap()), &[150, (-2_i64).cast_unsigned()]),
        ];
        for (array, expected) in arrays {
            let keys = Keys::new("k".to_owned(), array.data_type(), 1).unwrap();
            keys.add(part(&array, &pool(1 << 20)));
            assert_eq!(ids(&keys).unwrap(), expected, "{}", array.data_type());
        }
        assert!(Keys::new("k".to_owned(), &ArrowType::Float64, 1).is_none());
        let texts = Arc::new(StringArray::from(vec![Some("b"), None, Some("a"), Some("b")])) as ArrayRef;
        let keys = Keys::new("t".to_owned(), texts.data_type(), 1).unwrap();
        keys.add(part(&texts, &pool(1 << 20)));
        assert_eq!(keys.to_string(), "t: 2 keys");
    }

    #[test]
    fn keys_without_memory_or_too_many_are_not_known() {
        let array = Arc::new(Int64Array::from_iter_values(0..1000)) as ArrayRef;
        let keys = Keys::new("k".to_owned(), array.data_type(), 1).unwrap();
        keys.add(part(&array, &pool(100)));
        assert!(ids(&keys).is_none());
        let keys = Keys::new("k".to_owned(), array.data_type(), 2).unwrap();
        keys.add(None);
        keys.add(part(&array, &pool(1 << 20)));
        assert!(ids(&keys).is_none());
        assert_eq!(keys.to_string(), "k: too many keys");
        let texts: Vec<String> = (0..=limits::PASSED_TEXTS).map(|at| at.to_string()).collect();
        let texts = Arc::new(StringArray::from(texts)) as ArrayRef;
        let keys = Keys::new("t".to_owned(), texts.data_type(), 1).unwrap();
        keys.add(part(&texts, &pool(1 << 24)));
        assert!(keys.condition("t".to_owned()).is_none());
    }
}
