//! Times of nanoseconds as those of microseconds.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, PrimitiveArray,
    cast::AsArray as _,
    types::{Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampNanosecondType},
};
use arrow_schema::{DataType, TimeUnit};

/// Timestamps or times of day of nanoseconds as those of microseconds, cut towards the past, in the same zone; `None`: these are
/// others. A cast of Arrow cuts towards 1970, and so moves what is before it into the future.
pub fn nanos_to_micros(array: &ArrayRef) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            let nanos = array.as_primitive::<TimestampNanosecondType>();
            let micros: PrimitiveArray<TimestampMicrosecondType> = nanos.unary(|at| at.div_euclid(1000));
            Some(Arc::new(micros.with_timezone_opt(zone.clone())))
        }
        DataType::Time64(TimeUnit::Nanosecond) => {
            let nanos = array.as_primitive::<Time64NanosecondType>();
            let micros: PrimitiveArray<Time64MicrosecondType> = nanos.unary(|at| at.div_euclid(1000));
            Some(Arc::new(micros))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, Time64NanosecondArray, TimestampNanosecondArray};

    use super::*;

    #[test]
    fn nanoseconds_are_cut_towards_the_past() {
        let values = vec![Some(-1001), Some(-1000), Some(-1), None, Some(0), Some(999), Some(1000)];
        let times = TimestampNanosecondArray::from(values).with_timezone("+02:00");
        let micros = nanos_to_micros(&(Arc::new(times) as ArrayRef)).unwrap();
        let expected = vec![Some(-2_i64), Some(-1), Some(-1), None, Some(0), Some(0), Some(1)];
        assert!(micros.as_primitive::<TimestampMicrosecondType>().iter().eq(expected));
        assert_eq!(*micros.data_type(), DataType::Timestamp(TimeUnit::Microsecond, Some("+02:00".into())));
        let clocks: ArrayRef = Arc::new(Time64NanosecondArray::from(vec![1999]));
        let micros = nanos_to_micros(&clocks).unwrap();
        assert_eq!(micros.as_primitive::<Time64MicrosecondType>().value(0), 1);
        assert!(nanos_to_micros(&(Arc::new(Int64Array::from(vec![1])) as ArrayRef)).is_none());
    }
}
