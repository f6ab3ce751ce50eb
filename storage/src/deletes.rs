//! What deletions leave in a table's files, among its properties.

use crate::{
    error::{Result, StorageError},
    log::Metadata,
};

const DELETES: &str = "basalt.deletes";
const REWRITE: &str = "rewrite";
const VECTORS: &str = "vectors";

/// What a writer does with the files whose rows it deletes. A [`Change`](crate::Change) says it; this is what the
/// table asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deletes {
    /// Deletion vectors beside them.
    #[default]
    Vectors,
    /// They are written again without the rows, so that readers without deletion vectors can read the table.
    Rewrite,
}

impl Deletes {
    /// The property that says it; the default has none.
    pub fn property(self) -> (String, Option<String>) {
        let value = match self {
            Self::Vectors => None,
            Self::Rewrite => Some(REWRITE.to_owned()),
        };
        (DELETES.to_owned(), value)
    }
}

/// What the properties of a table say.
pub(crate) fn of_properties(metadata: &Metadata, place: &str) -> Result<Deletes> {
    match metadata.property(DELETES) {
        None | Some(VECTORS) => Ok(Deletes::Vectors),
        Some(REWRITE) => Ok(Deletes::Rewrite),
        Some(other) => {
            let why = format!("{DELETES}: {other:?} is neither {VECTORS} nor {REWRITE}");
            Err(StorageError::corrupt(place, why))
        }
    }
}
