//! Rows of a load that are too old for their table: nobody reads them once they are there.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow_array::{
    RecordBatch,
    cast::AsArray as _,
    types::{Date32Type, TimestampMicrosecondType},
};

use crate::{
    cli::{human, retention},
    table::Retention,
};

const DAY_MICROS: i128 = 24 * 3600 * 1_000_000;

/// Counts them.
pub(super) struct Expired<'a> {
    retention: Option<&'a Retention>,
    /// Since 1970.
    now: Duration,
    old: u64,
    rows: u64,
}

impl<'a> Expired<'a> {
    /// Of a table that keeps its rows for so long, as the server counts it.
    pub(super) fn new(retention: Option<&'a Retention>) -> Self {
        // Default: nothing is too old by a clock that stands before 1970.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { retention, now, old: 0, rows: 0 }
    }

    pub(super) fn see(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows() as u64;
        let Some(retention) = self.retention else { return };
        let Some(column) = batch.column_by_name(&retention.column) else { return };
        // Both are less than 2^84.
        let since = self.now.as_micros() as i128 - retention.keep.as_micros() as i128;
        let old = if let Some(times) = column.as_primitive_opt::<TimestampMicrosecondType>() {
            times.iter().flatten().filter(|time| i128::from(*time) < since).count()
        } else if let Some(days) = column.as_primitive_opt::<Date32Type>() {
            days.iter().flatten().filter(|day| i128::from(*day) < since.div_euclid(DAY_MICROS)).count()
        } else {
            0
        };
        self.old += old as u64;
    }

    /// What is to be said of them.
    pub(super) fn note(&self) -> Option<String> {
        let Retention { column, keep } = self.retention.filter(|_| self.old > 0)?;
        let (old, rows) = (human::count(self.old), human::plural(self.rows, "row"));
        let keep = retention::spelled(*keep);
        Some(format!(
            "{old} of {rows} are older than {keep} by {column:?}: they are not read, and are removed soon"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Date32Array, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn old_rows_are_counted_by_times_and_by_days() {
        let now = Duration::from_secs(10 * 24 * 3600 + 60);
        let (day, micros) = (24 * 3600 * 1_000_000_i64, 60_000_000);
        let times = [Some(9 * day + micros - 1), Some(9 * day + micros), None];
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(times.to_vec()).with_timezone("UTC"));
        let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(7), Some(8), Some(9)]));
        let batch = RecordBatch::try_from_iter_with_nullable([("at", times, true), ("d", days, true)]);
        let batch = batch.unwrap();
        for (column, expected) in [("at", 1), ("d", 2), ("other", 0)] {
            let kept = Retention::new(column, Duration::from_secs(24 * 3600));
            let mut expired = Expired { now, ..Expired::new(Some(&kept)) };
            expired.see(&batch);
            assert_eq!((expired.old, expired.rows), (expected, 3), "{column}");
            let note = format!("{expected} of 3 rows are older than 1 day by {column:?}: they are not read");
            assert_eq!(expired.note().is_some_and(|told| told.starts_with(&note)), expected > 0);
        }
        let mut expired = Expired::new(None);
        expired.see(&batch);
        assert_eq!(expired.note(), None);
    }
}
