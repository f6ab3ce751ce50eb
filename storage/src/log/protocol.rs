//! Which tables can be read and written: versions of the protocol, and table features.

use super::actions::{Metadata, Protocol};
use crate::{
    error::{Result, StorageError},
    schema::Mapping,
};

/// Features that a reader has to know, and this one does.
const READ: &[&str] = &[
    "deletionVectors",
    "timestampNtz",
    "columnMapping",
    "typeWidening",
    "typeWidening-preview",
    "vacuumProtocolCheck",
    features::V2_CHECKPOINT,
];
/// Features of tables that this crate writes: those of writer version 2, and deletion vectors. `v2Checkpoint` is none of
/// them: whoever writes such a table makes its checkpoints, and sees to the sidecars that none needs any longer.
const WRITTEN: &[&str] =
    &["appendOnly", "invariants", DELETION_VECTORS, features::COLUMN_MAPPING, features::TYPE_WIDENING];
/// Those of writer version 2, which an upgrade to features names.
const LEGACY: &[&str] = &["appendOnly", "invariants"];
const DELETION_VECTORS: &str = "deletionVectors";
const ENABLE_DELETION_VECTORS: &str = "delta.enableDeletionVectors";

fn unsupported(feature: impl Into<String>) -> StorageError {
    StorageError::Unsupported { feature: feature.into() }
}

/// The protocol of a new table: the oldest, so that every reader of Delta can read it.
pub(crate) fn first() -> Protocol {
    Protocol { min_reader_version: 1, min_writer_version: 2, reader_features: None, writer_features: None }
}

/// That this reader knows all that it must.
pub(crate) fn check_readable(protocol: &Protocol) -> Result<()> {
    match protocol.min_reader_version {
        ..=2 => Ok(()),
        3 => match protocol.reader_features.iter().flatten().find(|f| !READ.contains(&f.as_str())) {
            Some(feature) => Err(unsupported(format!("the feature {feature}"))),
            None => Ok(()),
        },
        version => Err(unsupported(format!("reader version {version}"))),
    }
}

/// How columns are found in the files.
pub(crate) fn check_metadata(metadata: &Metadata) -> Result<Mapping> {
    if metadata.format.provider != "parquet" {
        return Err(unsupported(format!("files of the format {:?}", metadata.format.provider)));
    }
    match metadata.property("delta.columnMapping.mode") {
        None | Some("none") => Ok(Mapping::Name),
        Some("name") => Ok(Mapping::PhysicalName),
        Some("id") => Ok(Mapping::Id),
        Some(mode) => Err(unsupported(format!("the feature columnMapping in mode {mode}"))),
    }
}

/// That this writer knows all that it must.
pub(crate) fn check_writable(protocol: &Protocol, metadata: &Metadata, has_invariants: bool) -> Result<()> {
    match protocol.min_writer_version {
        ..=2 => {}
        7 => {
            if let Some(feature) =
                protocol.writer_features.iter().flatten().find(|f| !WRITTEN.contains(&f.as_str()))
            {
                return Err(unsupported(format!("the feature {feature} of writers")));
            }
        }
        version => return Err(unsupported(format!("writer version {version}"))),
    }
    if !metadata.partition_columns.is_empty() {
        return Err(unsupported("writes to partitions"));
    }
    if metadata.property("delta.appendOnly") == Some("true") {
        return Err(unsupported("the property delta.appendOnly of writers"));
    }
    if has_invariants {
        return Err(unsupported("invariants of columns"));
    }
    Ok(())
}

/// What a table's first deletion vector changes in its protocol and its metadata; `None` when it may have one.
///
/// The features of writer version 2 are named, as an upgrade must.
pub(crate) fn with_deletion_vectors(
    protocol: &Protocol,
    metadata: &Metadata,
) -> Option<(Protocol, Metadata)> {
    let allowed = protocol.writer_features.iter().flatten().any(|f| f == DELETION_VECTORS);
    if allowed && metadata.property(ENABLE_DELETION_VECTORS) == Some("true") {
        return None;
    }
    // Default: it has the feature, and only does not use it yet.
    let protocol = features::with(protocol, &[DELETION_VECTORS]).unwrap_or_else(|| protocol.clone());
    let mut metadata = metadata.clone();
    metadata.configuration.insert(ENABLE_DELETION_VECTORS.into(), Some("true".into()));
    Some((protocol, metadata))
}

/// Features that tables come to need.
pub(crate) mod features {
    use super::{LEGACY, Protocol};

    pub(crate) const COLUMN_MAPPING: &str = "columnMapping";
    pub(crate) const TYPE_WIDENING: &str = "typeWidening";
    pub(crate) const V2_CHECKPOINT: &str = "v2Checkpoint";

    /// Whether a reader of the protocol needs a feature.
    pub(crate) fn is_read_with(protocol: &Protocol, feature: &str) -> bool {
        protocol.reader_features.iter().flatten().any(|named| named == feature)
    }

    /// A protocol that names some features more, of readers and of writers; `None`: it names them.
    pub(crate) fn with(protocol: &Protocol, needed: &[&str]) -> Option<Protocol> {
        let named = |features: &Option<Vec<String>>, feature: &str| {
            features.iter().flatten().any(|known| known == feature)
        };
        let is_named = |feature: &&str| {
            named(&protocol.reader_features, feature) && named(&protocol.writer_features, feature)
        };
        if needed.iter().all(is_named) {
            return None;
        }
        let more = |known: &Option<Vec<String>>, first: &[&str]| {
            // Default: it names none.
            let mut features = known.clone().unwrap_or_default();
            for feature in first.iter().chain(needed) {
                if !features.iter().any(|known| known == feature) {
                    features.push((*feature).to_owned());
                }
            }
            Some(features)
        };
        Some(Protocol {
            min_reader_version: 3,
            min_writer_version: 7,
            reader_features: more(&protocol.reader_features, &[]),
            writer_features: more(&protocol.writer_features, LEGACY),
        })
    }
}
