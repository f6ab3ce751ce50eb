//! `octet_length` of texts and of bytes. DataFusion's own is of texts alone.

use arrow_schema::DataType;
use datafusion::{
    arrow::compute::kernels::length::length,
    common::Result,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};

use crate::{error::Error, functions::of_arrays};

#[derive(Debug, PartialEq, Eq, Hash)]
struct Octets {
    signature: Signature,
}

/// The function, for the planner.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Octets { signature: Signature::user_defined(Volatility::Immutable) })
}

impl ScalarUDFImpl for Octets {
    fn name(&self) -> &str {
        "octet_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [of] = types else { return Err(Error::invalid("octet_length takes one argument").into()) };
        let of = if let DataType::Dictionary(_, values) = of { values.as_ref() } else { of };
        match of {
            of if of.is_string() || of.is_binary() => Ok(vec![of.clone()]),
            DataType::Null => Ok(vec![DataType::Utf8]),
            _ => Err(Error::invalid("octet_length takes a text or bytes").into()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match types {
            [DataType::LargeUtf8 | DataType::LargeBinary] => DataType::Int64,
            _ => DataType::Int32,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_arrays(&args, |arrays, _| Ok(length(arrays[0].as_ref())?))
    }
}
