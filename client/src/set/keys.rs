//! Filters on the values of a column: `col("tailnum").in_keys(...)`.

use basalt_proto::v1::{self, filter, key_set};

use super::{Handle, KeySet};
use crate::expr::{Expr, Filter};

/// `SELECT column FROM table`, for [`Expr::in_keys`]: the server makes the set and filters by it in one
/// request, a semi-join.
///
/// ```
/// use basalt_client::{Filter, col, keys_of, not};
///
/// let old_planes = keys_of("planes", "tailnum").filter(col("year").lt(1990));
/// let on_old_planes: Filter = col("tailnum").in_keys(old_planes);
/// let of_unknown_planes = not(col("tailnum").in_keys(keys_of("planes", "tailnum")));
/// ```
pub fn keys_of(table: impl Into<String>, column: impl Into<String>) -> SemiJoin {
    SemiJoin { table: table.into(), key: column.into(), filter: None, version: None }
}

/// The values of a column in the rows of another table; made by [`keys_of`].
#[derive(Clone, Debug, PartialEq)]
pub struct SemiJoin {
    table: String,
    key: String,
    filter: Option<Filter>,
    version: Option<u64>,
}

impl SemiJoin {
    /// Only of rows for which it is true; may hold semi-joins itself. Several filters must all be true.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(match self.filter {
            Some(before) => before.and(filter),
            None => filter,
        });
        self
    }

    /// The version to read instead of the newest.
    #[must_use]
    pub fn version(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }
}

/// What [`Expr::in_keys`] takes: a set, the handle of one, or a [`SemiJoin`].
#[derive(Clone, Debug, PartialEq)]
pub struct KeySource(Source);

#[derive(Clone, Debug, PartialEq)]
enum Source {
    Set(KeySet),
    Kept(Handle),
    SemiJoin(SemiJoin),
}

impl From<&KeySet> for KeySource {
    fn from(set: &KeySet) -> Self {
        Self(Source::Set(set.clone()))
    }
}

impl From<Handle> for KeySource {
    fn from(handle: Handle) -> Self {
        Self(Source::Kept(handle))
    }
}

impl From<SemiJoin> for KeySource {
    fn from(join: SemiJoin) -> Self {
        Self(Source::SemiJoin(join))
    }
}

impl Expr {
    /// Whether the column's value is one of the keys, as SQL's IN has it: null where the column is null, and
    /// where the keys hold a null and not the value. [`not`](crate::not) makes it NOT IN.
    ///
    /// `self` must be a column; the server refuses any other expression. Text columns go with a [`keys_of`],
    /// not with sets.
    pub fn in_keys(self, keys: impl Into<KeySource>) -> Filter {
        let column = self.column().unwrap_or_default().to_owned();
        let kind = match keys.into().0 {
            Source::Set(set) => return set.filter(column),
            Source::Kept(handle) => {
                let set = Some(key_set::Set::Handle(handle.to_vec()));
                filter::Kind::Keys(v1::KeySet { column, scope: None, set })
            }
            Source::SemiJoin(SemiJoin { table, key, filter, version }) => {
                let filter = filter.map(|f| Box::new(f.into()));
                filter::Kind::SemiJoin(Box::new(v1::SemiJoin { column, table, key, filter, version }))
            }
        };
        v1::Filter { kind: Some(kind) }.into()
    }
}
