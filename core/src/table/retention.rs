//! Retention: for how long a row is part of its table, by a column of times.
//!
//! What is older is not read from then on, whether it is still there or not; who holds the table frees it later, a
//! fragment at a time.

use std::time::Duration;

use crate::{
    error::{Error, ErrorKind, Result},
    invariant::Invariant,
    query::{CompareOp, Expr, Filter, Literal},
    schema::{DataType, Schema},
};

const DAY_MICROS: i128 = 24 * 3600 * 1_000_000;

/// Rows are kept for a time, from the one that a column of theirs says on; those without a value are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    column: usize,
    name: String,
    data_type: DataType,
    keep: Duration,
}

impl Retention {
    /// By the name of a column of a schema. A date ends with its day, in UTC.
    ///
    /// # Errors
    /// [`ErrorKind::ColumnNotFound`]; [`ErrorKind::TypeMismatch`] for a column of another type than timestamp and
    /// date32; [`ErrorKind::InvalidSchema`] for less than a second.
    pub fn new(schema: &Schema, name: &str, keep: Duration) -> Result<Self> {
        let column = schema.index_of(name).ok_or_else(|| {
            let shown: String = name.chars().take(128).collect();
            Error::new(ErrorKind::ColumnNotFound, format!("the table has no column {shown:?}")).at("column")
        })?;
        let data_type = schema.fields()[column].data_type;
        if !matches!(data_type, DataType::Timestamp | DataType::Date32) {
            let message =
                format!("column {name:?} is {data_type}, not a timestamp or date32, by which rows are kept");
            return Err(Error::new(ErrorKind::TypeMismatch, message).at("column"));
        }
        if keep < Duration::from_secs(1) {
            let message = "rows are kept for a second at least";
            return Err(Error::new(ErrorKind::InvalidSchema, message).at("seconds"));
        }
        Ok(Self { column, name: name.to_owned(), data_type, keep })
    }

    /// The column's name.
    pub fn column(&self) -> &str {
        &self.name
    }

    /// For how long rows are kept.
    pub fn keep(&self) -> Duration {
        self.keep
    }

    /// Which rows are kept at a time, in microseconds since 1970.
    pub fn cutoff(&self, now: i64) -> Cutoff {
        let since = i128::from(now)
            - i128::try_from(self.keep.as_micros()).invariant("a duration has at most 2^84 microseconds");
        let since = match self.data_type {
            DataType::Date32 => since.div_euclid(DAY_MICROS),
            _ => since,
        };
        // Default: the least value there is, where rows are kept from before all of them.
        let least = i64::try_from(since).unwrap_or(i64::MIN);
        Cutoff { column: self.column, least }
    }
}

/// Hides the rows whose value in a column is less than `least`; not those without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutoff {
    /// The place of the column, of timestamps or dates.
    pub column: usize,
    /// The first value that is not hidden: microseconds, or days, since 1970.
    pub least: i64,
}

impl Cutoff {
    /// Selects the rows that it hides.
    pub fn hides(self, schema: &Schema) -> Filter {
        let field = &schema.fields()[self.column];
        match self.literal(field.data_type) {
            Some(literal) => {
                Filter::Compare(CompareOp::Lt, Expr::Column(field.name.clone()), Expr::Literal(literal))
            }
            None => Filter::Constant(false),
        }
    }

    /// What the column is compared with; `None` where a column of this type hides nothing by it.
    pub(crate) fn literal(self, data_type: DataType) -> Option<Literal> {
        match data_type {
            DataType::Timestamp => Some(Literal::Timestamp(self.least)),
            DataType::Date32 if self.least <= i64::from(i32::MIN) => None,
            // Default: the last day there is.
            DataType::Date32 => Some(Literal::Date(i32::try_from(self.least).unwrap_or(i32::MAX))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Field;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn schema() -> Schema {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let fields = [("n", DataType::Int64), ("at", DataType::Timestamp), ("day", DataType::Date32)];
        Schema::new(fields.map(|(name, data_type)| field(name, data_type)).to_vec()).unwrap()
    }

    #[test]
    fn a_timestamp_ends_to_the_microsecond_a_date_with_its_day() {
        let at = Retention::new(&schema(), "at", DAY).unwrap();
        assert_eq!(at.cutoff(86_400_000_001), Cutoff { column: 1, least: 1 });
        let day = Retention::new(&schema(), "day", DAY).unwrap();
        // Day 5 ends where day 6 begins; a day later it is gone.
        let noon_of = |day: i64| day * 86_400_000_000 + 43_200_000_000;
        assert_eq!(day.cutoff(noon_of(6)), Cutoff { column: 2, least: 5 });
        assert_eq!(day.cutoff(noon_of(7)), Cutoff { column: 2, least: 6 });
        assert_eq!(day.cutoff(noon_of(-1)), Cutoff { column: 2, least: -2 });
    }

    #[test]
    fn nothing_overflows() {
        let at = Retention::new(&schema(), "at", Duration::MAX).unwrap();
        assert_eq!(at.cutoff(i64::MAX).least, i64::MIN);
        let day = Retention::new(&schema(), "day", Duration::MAX).unwrap();
        assert_eq!(day.cutoff(i64::MIN).literal(DataType::Date32), None);
        assert_eq!(
            Cutoff { column: 2, least: i64::MAX }.literal(DataType::Date32),
            Some(Literal::Date(i32::MAX))
        );
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let kind = |name: &str, keep| Retention::new(&schema(), name, keep).unwrap_err().kind();
        assert_eq!(kind("n", DAY), ErrorKind::TypeMismatch);
        assert_eq!(kind("x", DAY), ErrorKind::ColumnNotFound);
        assert_eq!(kind("at", Duration::from_millis(999)), ErrorKind::InvalidSchema);
    }
}
