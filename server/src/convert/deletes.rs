//! What deletions leave in a table's files.

use basalt_proto::v1 as pb;
use basalt_storage::Deletes;

use crate::status::RequestError;

/// What a message asks for; `None`: nothing.
pub(crate) fn from_deletes(deletes: i32) -> Result<Option<Deletes>, RequestError> {
    match pb::Deletes::try_from(deletes) {
        Ok(pb::Deletes::Unspecified) => Ok(None),
        Ok(pb::Deletes::Vectors) => Ok(Some(Deletes::Vectors)),
        Ok(pb::Deletes::Rewrite) => Ok(Some(Deletes::Rewrite)),
        Err(_) => {
            Err(RequestError::protocol(format!("{deletes} is no way to delete that is known here"))
                .at("deletes"))
        }
    }
}

pub(crate) fn to_deletes(deletes: Option<Deletes>) -> pb::Deletes {
    match deletes {
        None => pb::Deletes::Unspecified,
        Some(Deletes::Vectors) => pb::Deletes::Vectors,
        Some(Deletes::Rewrite) => pb::Deletes::Rewrite,
    }
}
