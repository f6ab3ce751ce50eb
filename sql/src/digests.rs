//! `md5`, `sha1` and `sha256` of texts and bytes: hexadecimal digits in lower case, as DuckDB and PostgreSQL's `md5` have
//! them.

use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, StringArray, cast::AsArray as _};
use arrow_schema::DataType;
use datafusion::{
    arrow::compute::cast,
    common::Result,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::{bounded, error::Error, functions::of_arrays};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Md5,
    Sha1,
    Sha256,
}

impl Kind {
    fn of(self, bytes: &[u8]) -> String {
        fn digits(bytes: &[u8]) -> String {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        }
        match self {
            Self::Md5 => digits(&Md5::digest(bytes)),
            Self::Sha1 => digits(&Sha1::digest(bytes)),
            Self::Sha256 => digits(&Sha256::digest(bytes)),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Digits {
    kind: Kind,
    signature: Signature,
}

/// The functions, for the planner.
pub(crate) fn all() -> impl Iterator<Item = ScalarUDF> {
    [Kind::Md5, Kind::Sha1, Kind::Sha256].into_iter().map(|kind| {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(Digits { kind, signature })
    })
}

impl ScalarUDFImpl for Digits {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Md5 => "md5",
            Kind::Sha1 => "sha1",
            Kind::Sha256 => "sha256",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [t] if t.is_string() || t.is_binary() || t.is_null() => Ok(vec![DataType::Binary]),
            _ => Err(Error::invalid(format!("{} takes a text or binary", self.name())).into()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_arrays(&args, |arrays, rows| {
            let bytes = cast(&arrays[0], &DataType::Binary)?;
            let bytes = bytes.as_binary::<i32>();
            let mut made = 0;
            let digits = (0..rows).map(|row| {
                if bytes.is_null(row) {
                    return Ok(None);
                }
                let digits = self.kind.of(bytes.value(row));
                bounded::add(&mut made, digits.len(), self.name())?;
                Ok(Some(digits))
            });
            Ok(Arc::new(digits.collect::<std::result::Result<StringArray, Error>>()?) as ArrayRef)
        })
    }
}
