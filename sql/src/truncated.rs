//! `date_trunc` of timestamps in microseconds, by the engine's calendar: DataFusion goes by nanoseconds, which end in the year 2262,
//! where people have 9999-12-31 for what does not end.

use std::sync::Arc;

use arrow_array::{ArrayRef, cast::AsArray as _, types::TimestampMicrosecondType};
use arrow_schema::{DataType, TimeUnit};
use basalt_core::{
    error::ErrorKind,
    time_parts::{TimeFunction, Unit},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF},
};

use crate::{around::Call, error::Error};

/// The function that is called by [`Truncated`].
pub(crate) const NAME: &str = "date_trunc";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Truncated;

impl Call for Truncated {
    fn call(function: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(unit), of] = args.args.as_slice() else {
            return function.invoke_with_args(args);
        };
        let is_utc = |zone: &Option<Arc<str>>| zone.as_deref().is_none_or(|zone| zone == "UTC");
        let data_type = of.data_type();
        let unit = match (unit_of(unit), &data_type) {
            (Some(unit), DataType::Timestamp(TimeUnit::Microsecond, zone)) if is_utc(zone) => unit,
            _ => return function.invoke_with_args(args),
        };
        Ok(match of {
            ColumnarValue::Array(times) => ColumnarValue::Array(truncated(unit, times, &data_type)?),
            ColumnarValue::Scalar(time) => {
                let times = truncated(unit, &time.to_array()?, &data_type)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&times, 0)?)
            }
        })
    }
}

/// One that the engine has.
fn unit_of(unit: &ScalarValue) -> Option<Unit> {
    let name = unit.try_as_str()??.to_lowercase();
    Unit::ALL.into_iter().find(|unit| unit.name() == name)
}

fn truncated(unit: Unit, times: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let early = || Error::new(ErrorKind::Overflow, format!("a {} that begins before all times", unit.name()));
    let begun = times.try_unary::<_, TimestampMicrosecondType, Error>(|time| {
        TimeFunction::Truncate(unit).of_micros(time).ok_or_else(early)
    })?;
    Ok(Arc::new(begun.with_data_type(data_type.clone())))
}
