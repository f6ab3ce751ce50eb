//! For how long rows are kept, and what is hidden by it.

use std::time::Duration;

use basalt_core::{
    error::Result,
    schema::{DataType, Schema},
    table::{Cutoff, Retention},
};
use basalt_proto::{cluster::v1 as peer, v1 as pb};

use crate::status::RequestError;

/// A retention of the rows of a schema.
pub(crate) fn from_retention(retention: &pb::Retention, schema: &Schema) -> Result<Retention> {
    Retention::new(schema, &retention.column, Duration::from_secs(retention.seconds))
}

pub(crate) fn to_retention(retention: &Retention) -> pb::Retention {
    pb::Retention { column: retention.column().to_owned(), seconds: retention.keep().as_secs() }
}

/// What a coordinator hides.
pub(crate) fn cutoff(cutoff: peer::Cutoff, schema: &Schema) -> std::result::Result<Cutoff, RequestError> {
    let column = usize::try_from(cutoff.column).unwrap_or(usize::MAX);
    match schema.fields().get(column).map(|field| field.data_type) {
        Some(DataType::Timestamp | DataType::Date32) => Ok(Cutoff { column, least: cutoff.least }),
        _ => Err(RequestError::protocol("a cut-off by a column that has no times")),
    }
}

pub(crate) fn to_cutoff(cutoff: Cutoff) -> peer::Cutoff {
    peer::Cutoff { column: u32::try_from(cutoff.column).unwrap_or(u32::MAX), least: cutoff.least }
}
