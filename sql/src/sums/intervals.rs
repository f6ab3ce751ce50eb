//! Sums and averages of intervals, as PostgreSQL has them: months, days and times are added up apart; what an average leaves of a
//! month is days, 30 to a month, and what it leaves of a day is time.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, IntervalMonthDayNanoArray,
    cast::AsArray as _,
    types::{Decimal128Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType},
};
use arrow_schema::{DataType, Field, FieldRef};
use basalt_core::error::ErrorKind;
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{Accumulator, utils::format_state_name},
};

use super::DIGITS;
use crate::error::Error;

const MONTH_DAYS: i128 = 30;
const DAY_NANOS: i128 = 86_400_000_000_000;
const MICROSECOND: i128 = 1000;

/// The whole number that is nearest to a quotient by one of 1 or more; halves go away from zero.
pub(super) fn nearest(sum: i128, count: i128) -> i128 {
    (sum + sum.signum() * (count / 2)) / count
}

/// `sum` or `avg`.
#[derive(Debug, Default)]
pub(super) struct Sum {
    is_average: bool,
    months: i128,
    days: i128,
    nanos: i128,
    count: i64,
}

impl Sum {
    pub(super) fn new(is_average: bool) -> Self {
        Self { is_average, ..Self::default() }
    }

    /// The sums so far, as they travel.
    pub(super) fn fields(name: &str) -> Vec<FieldRef> {
        let part = |part| {
            let name = format_state_name(name, part);
            Arc::new(Field::new(name, DataType::Decimal128(DIGITS, 0), true))
        };
        let count = Field::new(format_state_name(name, "count"), DataType::Int64, true);
        vec![part("months"), part("days"), part("nanos"), Arc::new(count)]
    }

    /// Adds intervals, or takes them away again.
    fn add(&mut self, intervals: &IntervalMonthDayNanoArray, sign: i8) {
        // Each has 64 bits at most, and the count 63.
        for interval in intervals.iter().flatten() {
            self.months += i128::from(sign) * i128::from(interval.months);
            self.days += i128::from(sign) * i128::from(interval.days);
            self.nanos += i128::from(sign) * i128::from(interval.nanoseconds);
            self.count += i64::from(sign);
        }
    }

    fn of_average(&self) -> (i128, i128, i128) {
        let count = i128::from(self.count);
        let of_months = self.months % count * MONTH_DAYS;
        let days = self.days / count + of_months / count;
        // Both are parts of a day, which may be a day and more together.
        let rest = self.days % count + of_months % count;
        let nanos = nearest(self.nanos + rest % count * DAY_NANOS, count * MICROSECOND) * MICROSECOND;
        (self.months / count, days + rest / count, nanos)
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values[0].as_primitive::<IntervalMonthDayNanoType>(), 1);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values[0].as_primitive::<IntervalMonthDayNanoType>(), -1);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let (months, days, nanos) = match self.is_average {
            true => self.of_average(),
            false => (self.months, self.days, self.nanos),
        };
        let long = |_| Error::new(ErrorKind::Overflow, "the sum does not fit an interval");
        let months = i32::try_from(months).map_err(long)?;
        let days = i32::try_from(days).map_err(long)?;
        let nanos = i64::try_from(nanos).map_err(long)?;
        Ok(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, nanos))))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let part = |sum| ScalarValue::Decimal128(Some(sum), DIGITS, 0);
        let count = ScalarValue::Int64(Some(self.count));
        Ok(vec![part(self.months), part(self.days), part(self.nanos), count])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let sums = |at: usize| states[at].as_primitive::<Decimal128Type>();
        let counts = states[3].as_primitive::<Int64Type>();
        for row in (0..counts.len()).filter(|row| counts.is_valid(*row)) {
            self.months += sums(0).value(row);
            self.days += sums(1).value(row);
            self.nanos += sums(2).value(row);
            self.count += counts.value(row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_average_leaves_of_months_is_days_and_of_days_time() {
        let average =
            |months, days, nanos, count| Sum { is_average: true, months, days, nanos, count }.of_average();
        assert_eq!(average(3, 0, 0, 2), (1, 15, 0));
        assert_eq!(average(1, 1, 0, 4), (0, 7, 18 * 3_600_000_000_000));
        assert_eq!(average(0, 3, 0, 2), (0, 1, DAY_NANOS / 2));
        assert_eq!(average(0, -3, 0, 2), (0, -1, -DAY_NANOS / 2));
        assert_eq!(average(0, 0, 5000, 2), (0, 0, 3000));
        assert_eq!((nearest(5, 2), nearest(-5, 2), nearest(4, 3), nearest(5, 3)), (3, -3, 1, 2));
    }
}
