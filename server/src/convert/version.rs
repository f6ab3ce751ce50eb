//! The version that a request reads which names none.

use basalt_proto::v1::{self as pb, filter, row_set};
use tokio::time::Instant;

use crate::sets::{Handle, Sets};

/// The version of the row addresses in a request's filters, which mean rows of no other. What is wrong with a set is told
/// when it is read.
pub(crate) fn version_of(table: &str, filters: &[&Option<pb::Filter>], sets: &Sets) -> Option<u64> {
    filters.iter().copied().flatten().find_map(|filter| of_rows(filter, table, sets))
}

/// That of the first row addresses in a filter; decoding the message has bounded how deep it is.
fn of_rows(filter: &pb::Filter, table: &str, sets: &Sets) -> Option<u64> {
    match filter.kind.as_ref()? {
        filter::Kind::And(pb::And { filters }) | filter::Kind::Or(pb::Or { filters }) => {
            filters.iter().find_map(|filter| of_rows(filter, table, sets))
        }
        filter::Kind::Not(filter) => of_rows(filter, table, sets),
        filter::Kind::Rows(rows) => match (&rows.scope, &rows.set) {
            (Some(scope), _) => (scope.table == table && scope.key.is_none()).then_some(scope.version),
            (None, Some(row_set::Set::Handle(handle))) => {
                let (kept, _) = sets.get(&Handle::try_from(&**handle).ok()?, Instant::now()).ok()?;
                (kept.scope.table == table && kept.scope.key.is_none()).then_some(kept.scope.version)
            }
            _ => None,
        },
        _ => None,
    }
}
