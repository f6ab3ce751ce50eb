//! `to_local_time` of timestamps beyond the table of time zones, which ends with 2099 and has no summer time behind it: what clocks
//! show is what they show in a year of the table that has the same days of the week.

use std::sync::Arc;

use arrow_array::{ArrayRef, PrimitiveArray, cast::AsArray as _, types::TimestampMicrosecondType};
use arrow_schema::{DataType, TimeUnit};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF},
};

use crate::{
    around::Call,
    calendar::{Moment, days_of},
};

/// The function that is called by [`Local`].
pub(crate) const NAME: &str = "to_local_time";

const DAY: i64 = 86_400_000_000;

/// The first year that the table has not. Of the 28 before it each day of the week begins a year of either length.
const END: i64 = 2100;
const CYCLE: i64 = 28;

/// Zones whose summer time goes by the moon, so that no other year has it on the same days: they stay as the table ends.
const LUNAR: [&str; 4] = ["Africa/Casablanca", "Africa/El_Aaiun", "Asia/Gaza", "Asia/Hebron"];

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Local;

impl Call for Local {
    fn call(function: &ScalarUDF, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [of] = args.args.as_slice() else { return function.invoke_with_args(args) };
        let data_type = of.data_type();
        let is_known = match &data_type {
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => LUNAR.contains(&&**zone),
            _ => true,
        };
        if is_known {
            return function.invoke_with_args(args);
        }
        let is_one = matches!(of, ColumnarValue::Scalar(_));
        let rows = if is_one { 1 } else { args.number_rows };
        let array = of.to_array(rows)?;
        let times = array.as_primitive::<TimestampMicrosecondType>();
        let ahead: Vec<i64> = times.iter().map(|time| time.map_or(0, ahead)).collect();
        if ahead.iter().all(|ahead| *ahead == 0) {
            return function.invoke_with_args(args);
        }
        let known = times.iter().zip(&ahead).map(|(time, ahead)| time.map(|time| time - ahead));
        let known = known.collect::<PrimitiveArray<TimestampMicrosecondType>>().with_data_type(data_type);
        args.args = vec![ColumnarValue::Array(Arc::new(known))];
        args.number_rows = rows;
        let local = function.invoke_with_args(args)?.to_array(rows)?;
        let local = local.as_primitive::<TimestampMicrosecondType>().iter().zip(&ahead);
        let local = local.map(|(time, ahead)| time.map(|time| time.saturating_add(*ahead)));
        let local: ArrayRef = Arc::new(local.collect::<PrimitiveArray<TimestampMicrosecondType>>());
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&local, 0)?),
            false => ColumnarValue::Array(local),
        })
    }
}

/// How far a time is ahead of the one in such a year; 0: the table has its own.
fn ahead(time: i64) -> i64 {
    let year = Moment(time).month().div_euclid(12);
    if year < END {
        return 0;
    }
    let begins = |year: i64| days_of(year, 1, 1);
    let is_same = |known: i64| {
        let later = begins(year) - begins(known);
        later % 7 == 0 && later == begins(year + 1) - begins(known + 1)
    };
    // Default: one of them is.
    (END - CYCLE..END).find(|known| is_same(*known)).map_or(0, |known| (begins(year) - begins(known)) * DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_year_has_one_that_is_known() {
        for year in END..=9999 {
            let begin = days_of(year, 1, 1) * DAY;
            let (first, last) = (ahead(begin), ahead(days_of(year + 1, 1, 1) * DAY - 1));
            assert!(first > 0 && first == last && first % (7 * DAY) == 0, "{year}");
            assert!((END - CYCLE..END).contains(&Moment(begin - first).month().div_euclid(12)), "{year}");
        }
        assert_eq!(ahead(days_of(END, 1, 1) * DAY - 1), 0);
    }
}
