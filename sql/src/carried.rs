//! `basalt_carried(value, there)`: the value of the last row up to this one that is there, though it be NULL. Rows come one
//! by one, and nothing is kept of those before them: `last_value` would keep all of a part.

use std::{ops::Range, sync::Arc};

use arrow_array::{Array as _, ArrayRef, cast::AsArray as _};
use arrow_schema::{Field, FieldRef};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
        function::{PartitionEvaluatorArgs, WindowUDFFieldArgs},
    },
};

/// The function.
pub(crate) fn function() -> WindowUDF {
    WindowUDF::from(Carried { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Carried {
    signature: Signature,
}

impl WindowUDFImpl for Carried {
    fn name(&self) -> &str {
        "basalt_carried"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        let value = match args.input_fields().first() {
            Some(field) => ScalarValue::try_from(field.data_type())?,
            None => ScalarValue::Null,
        };
        Ok(Box::new(Last { value }))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.get_input_field(0);
        let data_type = field.map_or(arrow_schema::DataType::Null, |field| field.data_type().clone());
        Ok(Arc::new(Field::new(args.name(), data_type, true)))
    }
}

/// The value of the last row of a part that was there.
#[derive(Debug)]
struct Last {
    value: ScalarValue,
}

impl PartitionEvaluator for Last {
    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        let there = values[1].as_boolean();
        if there.is_valid(range.start) && there.value(range.start) {
            self.value = ScalarValue::try_from_array(&values[0], range.start)?;
            // What is cut out of a list or a struct would hold all of it.
            self.value.compact();
        }
        Ok(self.value.clone())
    }

    fn is_causal(&self) -> bool {
        true
    }

    fn supports_bounded_execution(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{BooleanArray, Int64Array};
    use arrow_schema::DataType;

    use super::*;

    #[test]
    fn null_is_carried_where_it_is_of_a_row() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1), None, Some(3), None, None]));
        let there: ArrayRef = Arc::new(BooleanArray::from(vec![false, true, false, false, true, false]));
        let mut last = Last { value: ScalarValue::try_from(&DataType::Int64).unwrap() };
        let carried = last.evaluate_all(&[values, there], 6).unwrap();
        let carried: Vec<_> = carried.as_primitive::<arrow_array::types::Int64Type>().iter().collect();
        assert_eq!(carried, [None, Some(1), Some(1), Some(1), None, None]);
    }
}
