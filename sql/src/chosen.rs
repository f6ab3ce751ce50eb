//! `coalesce`, `greatest` and `least` of literal texts among intervals and lists, with which the planner finds no type in common: the
//! texts become such values before they are chosen among.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::{
    common::Result,
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
};

use crate::{functions::INTERVAL, untyped};

/// The functions.
pub(crate) const NAMES: [&str; 3] = ["coalesce", "greatest", "least"];

/// One of them, as it is but for its types.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Chosen(Arc<ScalarUDF>);

pub(crate) fn function(of: Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::new_from_impl(Chosen(of))
}

impl ScalarUDFImpl for Chosen {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let others: Vec<_> = types.iter().filter(|of| !of.is_string()).cloned().collect();
        if others.len() == types.len() || !others.iter().any(untyped::has_parts) {
            return self.0.coerce_types(types);
        }
        // All of them are of one type. No text is cast to how long a time is.
        let common = self.0.coerce_types(&others)?.into_iter().take(1).map(|of| match of {
            DataType::Duration(_) => INTERVAL,
            other => other,
        });
        Ok(common.cycle().take(types.len()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.0.simplify(args, context)
    }

    fn short_circuits(&self) -> bool {
        self.0.short_circuits()
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.0.conditional_arguments(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.0.invoke_with_args(args)
    }
}
