//! Rows of a load that are too old for their table: nobody reads them once they are there.

use arrow_array::{
    RecordBatch,
    cast::AsArray as _,
    types::{Date32Type, TimestampMicrosecondType},
};
use arrow_schema::{DataType as Arrow, TimeUnit};
use basalt_core::{schema::DataType, table::Table};

/// Counts them.
pub(super) struct Expired {
    /// The column that says how old a row is.
    column: String,
    is_date: bool,
    /// The first value that is not too old: microseconds, or days, since 1970.
    least: i64,
    pub(super) rows: u64,
}

impl Expired {
    /// Those of a table at a time, in microseconds since 1970; `None`: it keeps its rows for good.
    pub(super) fn of(table: &Table, now: i64) -> Option<Self> {
        let snapshot = table.snapshot();
        let retention = snapshot.retention()?;
        let cutoff = retention.cutoff(now);
        let field = table.schema().fields().get(cutoff.column)?;
        Some(Self {
            column: retention.column().to_owned(),
            is_date: field.data_type == DataType::Date32,
            least: cutoff.least,
            rows: 0,
        })
    }

    /// Takes in rows, whose columns are called so.
    pub(super) fn see(&mut self, columns: &[String], batch: &RecordBatch) {
        let at = columns.iter().position(|column| *column == self.column);
        let Some(values) = at.and_then(|at| batch.columns().get(at)) else { return };
        let of = match self.is_date {
            true => Arrow::Date32,
            false => Arrow::Timestamp(TimeUnit::Microsecond, None),
        };
        // What is no time is an error of the write.
        let Ok(values) = arrow_cast::cast(values, &of) else { return };
        let least = self.least;
        let old = match self.is_date {
            true => {
                let days = values.as_primitive::<Date32Type>().iter().flatten();
                days.filter(|day| i64::from(*day) < least).count()
            }
            false => {
                let times = values.as_primitive::<TimestampMicrosecondType>().iter().flatten();
                times.filter(|time| *time < least).count()
            }
        };
        self.rows += old as u64;
    }
}
