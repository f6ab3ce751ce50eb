//! Sets of ids as filters: rows of a table, or values of a column.

mod file;
mod kept;
mod keys;
mod select;

pub use kept::{Handle, Kept};
pub use keys::{KeySource, SemiJoin, keys_of};
pub use select::Select;

use arrow_schema::DataType;
use basalt_proto::v1::{self, filter, key_set, row_set};
use basalt_sip::{Limits, Sip};
use prost::bytes::Bytes;
use sealed::Domain as _;

use crate::{
    error::{Error, Result},
    expr::Filter,
    plan::Statistics,
    types,
};

/// A set of ids, with what they mean: of [`Rows`], of [`Keys`], or of [`Ids`] where that is only known when
/// the set is there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Set<D> {
    /// The table that the set was made of.
    pub table: String,
    /// Its version. Rows are valid for that version alone.
    pub version: u64,
    /// The table's id, as the server says with its answers; 0 is not checked.
    pub table_id: u64,
    /// What the ids are.
    pub of: D,
    /// The ids in the SIP format; empty where the server alone holds them ([`Select::only_kept`]).
    pub bytes: Bytes,
    /// How many ids.
    pub cardinality: u64,
    /// What selecting them took; zeros for a set that comes from elsewhere.
    pub statistics: Statistics,
    /// Where the server keeps the set: filters then name it instead of sending it.
    pub kept: Option<Kept>,
}

/// A set of rows of one version of one table.
pub type RowSet = Set<Rows>;

/// A set of values of a column.
pub type KeySet = Set<Keys>;

/// The ids are addresses of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows;

/// The ids are values of a column: integers as 64-bit two's complement, bool 0 or 1, dates as days, timestamps
/// as microseconds, decimals unscaled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The column that the values come from.
    pub column: String,
    /// Its type. Integers of any type go together; the others only with their own type, decimals with their
    /// own scale.
    pub data_type: DataType,
    /// Whether the column was null in a selected row: SQL's NOT IN is then never true.
    pub has_null: bool,
}

/// What the ids of a set are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Addresses of rows.
    Rows,
    /// Values of a column.
    Keys(Keys),
}

/// What the ids of a [`Set`] can be; closed.
pub trait Domain: sealed::Domain {}

impl<D: sealed::Domain> Domain for D {}

mod sealed {
    use super::v1;

    pub trait Domain: Clone + Send + Sized + 'static {
        /// Of the API's scope; none for rows.
        fn from_proto(key: Option<v1::KeyDomain>) -> Result<Self, String>;
        fn to_proto(&self) -> Option<v1::KeyDomain>;
    }
}

impl sealed::Domain for Rows {
    fn from_proto(key: Option<v1::KeyDomain>) -> Result<Self, String> {
        match key {
            None => Ok(Self),
            Some(key) => Err(format!("the set holds values of {:?}, not rows", key.column)),
        }
    }

    fn to_proto(&self) -> Option<v1::KeyDomain> {
        None
    }
}

impl sealed::Domain for Keys {
    fn from_proto(key: Option<v1::KeyDomain>) -> Result<Self, String> {
        let key = key.ok_or_else(|| "the set holds rows, not values of a column".to_owned())?;
        let data_type = types::to_arrow(&key.r#type.unwrap_or_default());
        let data_type = data_type.map_err(|name| format!("the set holds values of the unknown {name}"))?;
        Ok(Self { column: key.column, data_type, has_null: key.has_null })
    }

    fn to_proto(&self) -> Option<v1::KeyDomain> {
        let r#type = types::from_arrow(&self.data_type);
        Some(v1::KeyDomain { column: self.column.clone(), r#type, has_null: self.has_null })
    }
}

impl sealed::Domain for Ids {
    fn from_proto(key: Option<v1::KeyDomain>) -> Result<Self, String> {
        match key {
            None => Ok(Self::Rows),
            key => Keys::from_proto(key).map(Self::Keys),
        }
    }

    fn to_proto(&self) -> Option<v1::KeyDomain> {
        match self {
            Self::Rows => None,
            Self::Keys(keys) => keys.to_proto(),
        }
    }
}

impl<D: Domain> Set<D> {
    /// A set of ids that come from elsewhere; `of` says what they are.
    ///
    /// ```
    /// use basalt_client::{Rows, Set, sip::Sip};
    ///
    /// let rows = Set::new("flights", 3, Rows, &Sip::from_sorted_ids(&[5, 8, 13]));
    /// assert_eq!(rows.cardinality, 3);
    /// ```
    pub fn new(table: impl Into<String>, version: u64, of: D, sip: &Sip) -> Self {
        Self {
            table: table.into(),
            version,
            table_id: 0,
            of,
            bytes: Bytes::copy_from_slice(sip.as_bytes()),
            cardinality: sip.cardinality(),
            statistics: Statistics::default(),
            kept: None,
        }
    }

    /// The ids, checked: membership, iteration, set operations.
    ///
    /// # Errors
    /// [`Error::Sip`] for bytes that are no set within the default limits; [`Error::InvalidSet`] where the
    /// server alone holds them ([`Client::get_set`](crate::Client::get_set) fetches them).
    pub fn sip(&self) -> Result<Sip> {
        Ok(Sip::from_bytes(self.held()?.as_ref(), &Limits::default())?)
    }

    /// The bytes, which may be on the server alone.
    fn held(&self) -> Result<&Bytes> {
        match &self.bytes {
            bytes if bytes.is_empty() => {
                Err(Error::InvalidSet("only the server holds the set's ids".to_owned()))
            }
            bytes => Ok(bytes),
        }
    }

    /// What the ids mean, as the API says it.
    pub(crate) fn scope(&self) -> v1::Scope {
        let key = self.of.to_proto();
        v1::Scope { table: self.table.clone(), version: self.version, key, table_id: self.table_id }
    }

    /// The set of an answer.
    fn from_answer(scope: Option<v1::Scope>, bytes: Bytes, cardinality: u64) -> Result<Self> {
        let scope = scope.ok_or_else(|| malformed("a set without its scope"))?;
        let v1::Scope { table, version, key, table_id } = scope;
        let of = D::from_proto(key).map_err(malformed)?;
        let statistics = Statistics::default();
        Ok(Self { table, version, table_id, of, bytes, cardinality, statistics, kept: None })
    }
}

impl RowSet {
    /// A filter that is true for its rows.
    pub fn filter(&self) -> Filter {
        let set = match &self.kept {
            Some(kept) => row_set::Set::Handle(kept.handle.to_vec()),
            None => row_set::Set::Sip(self.bytes.clone()),
        };
        let rows = v1::RowSet { scope: Some(self.scope()), set: Some(set) };
        v1::Filter { kind: Some(filter::Kind::Rows(rows)) }.into()
    }
}

impl KeySet {
    /// The filter `column IN set`; [`Expr::in_keys`](crate::Expr::in_keys) is the same.
    pub fn filter(&self, column: impl Into<String>) -> Filter {
        let set = match &self.kept {
            Some(kept) => key_set::Set::Handle(kept.handle.to_vec()),
            None => key_set::Set::Sip(self.bytes.clone()),
        };
        let keys = v1::KeySet { column: column.into(), scope: Some(self.scope()), set: Some(set) };
        v1::Filter { kind: Some(filter::Kind::Keys(keys)) }.into()
    }
}

impl Set<Ids> {
    /// As a set of rows.
    ///
    /// # Errors
    /// [`Error::InvalidSet`] if it is one of values.
    pub fn into_rows(self) -> Result<RowSet> {
        self.into_domain()
    }

    /// As a set of values.
    ///
    /// # Errors
    /// [`Error::InvalidSet`] if it is one of rows.
    pub fn into_keys(self) -> Result<KeySet> {
        self.into_domain()
    }

    fn into_domain<D: Domain>(self) -> Result<Set<D>> {
        let of = D::from_proto(self.of.to_proto()).map_err(Error::InvalidSet)?;
        let Self { table, version, table_id, bytes, cardinality, statistics, kept, .. } = self;
        Ok(Set { table, version, table_id, of, bytes, cardinality, statistics, kept })
    }
}

fn malformed(message: impl Into<String>) -> Error {
    Error::Malformed(message.into())
}
