//! `cardinality` and `array_ndims` as int64, for which PostgreSQL's clients have a type: DataFusion counts without a sign, and a uint64
//! is a decimal to them.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::{
    common::Result,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF},
};

use crate::around::Call;

/// The functions that are called by [`Signed`].
pub(crate) const NAMES: [&str; 2] = ["cardinality", "array_ndims"];

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Signed;

impl Call for Signed {
    fn answered(own: &DataType) -> DataType {
        match own {
            DataType::UInt64 => DataType::Int64,
            other => other.clone(),
        }
    }

    fn call(function: &ScalarUDF, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // Its own type is asked of it again.
        let own = args.return_field.as_ref().clone().with_data_type(DataType::UInt64);
        args.return_field = Arc::new(own);
        function.invoke_with_args(args)?.cast_to(&DataType::Int64, None)
    }
}
