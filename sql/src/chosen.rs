//! `coalesce`, `greatest`, `least` and `nullif` of literal texts among intervals and lists, with which the planner finds no type in common: the
//! texts become such values before they are chosen among.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::{
    common::Result,
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        simplify::{ExprSimplifyResult, SimplifyContext},
        type_coercion::binary::comparison_coercion,
    },
};

use crate::{
    error::Error,
    functions::{INTERVAL, type_name},
    untyped,
};

/// The functions.
pub(crate) const NAMES: [&str; 4] = ["coalesce", "greatest", "least", NULLIF];

const NULLIF: &str = "nullif";

/// One of them, as it is but for its types.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Chosen {
    of: Arc<ScalarUDF>,
    signature: Signature,
}

pub(crate) fn function(of: Arc<ScalarUDF>) -> ScalarUDF {
    let signature = Signature::user_defined(of.signature().volatility);
    ScalarUDF::new_from_impl(Chosen { of, signature })
}

impl Chosen {
    /// The types that the planner takes such values in.
    fn plain(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if self.of.name() != NULLIF {
            return self.of.coerce_types(types);
        }
        // That function has its types by its signature alone.
        let common = types.iter().cloned().map(Some).reduce(|a, b| comparison_coercion(&a?, &b?)).flatten();
        let unlike = || {
            let types: Vec<_> = types.iter().map(type_name).collect();
            Error::invalid(format!("nullif compares its values, which {} cannot be", types.join(" and ")))
        };
        match common.ok_or_else(unlike)? {
            DataType::Null => Ok(vec![DataType::Utf8View; types.len()]),
            common => Ok(vec![common; types.len()]),
        }
    }
}

impl ScalarUDFImpl for Chosen {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn aliases(&self) -> &[String] {
        self.of.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let others: Vec<_> = types.iter().filter(|of| !of.is_string()).cloned().collect();
        if self.of.name() == NULLIF && types.len() != 2 {
            return Err(Error::invalid("nullif takes two values").into());
        }
        if others.len() == types.len() || !others.iter().any(untyped::has_parts) {
            return self.plain(types);
        }
        // All of them are of one type. No text is cast to how long a time is.
        let common = self.plain(&others)?.into_iter().take(1).map(|of| match of {
            DataType::Duration(_) => INTERVAL,
            other => other,
        });
        Ok(common.cycle().take(types.len()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.of.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.of.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.of.simplify(args, context)
    }

    fn short_circuits(&self) -> bool {
        self.of.short_circuits()
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.of.conditional_arguments(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.of.invoke_with_args(args)
    }
}
