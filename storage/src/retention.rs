//! A table's retention among its properties.

use std::{sync::Arc, time::Duration};

use basalt_core::{schema::Schema, table::Retention};

use crate::{
    error::{Result, StorageError},
    log::Metadata,
};

const COLUMN: &str = "basalt.retention.column";
const SECONDS: &str = "basalt.retention.seconds";

/// The properties that say for how long rows are part of a table; `None` takes them away.
pub fn retention_properties(retention: Option<&Retention>) -> [(String, Option<String>); 2] {
    let column = retention.map(|retention| retention.column().to_owned());
    let seconds = retention.map(|retention| retention.keep().as_secs().to_string());
    [(COLUMN.to_owned(), column), (SECONDS.to_owned(), seconds)]
}

/// What the properties of a table say.
pub(crate) fn of_properties(
    metadata: &Metadata,
    schema: &Schema,
    place: &str,
) -> Result<Option<Arc<Retention>>> {
    let (Some(column), seconds) = (metadata.property(COLUMN), metadata.property(SECONDS)) else {
        return Ok(None);
    };
    let corrupt = |why: String| StorageError::corrupt(place, format!("{COLUMN} and {SECONDS}: {why}"));
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    let seconds = seconds.ok_or_else(|| corrupt("not a number of seconds".to_owned()))?;
    let retention = Retention::new(schema, column, Duration::from_secs(seconds));
    retention.map(|retention| Some(Arc::new(retention))).map_err(|e| corrupt(e.to_string()))
}
