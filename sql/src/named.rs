//! Casts that have a name of their own: DataFusion calls a cast as what is cast, so that `sum(x)` and `sum(CAST(x AS DOUBLE))`
//! are one column to it, and a statement with both is refused. Where it is, its casts are planned once more in a function
//! that tells its name, which is gone again before anything else looks at the plan.

use std::collections::HashMap;

use arrow_schema::{DataType, FieldRef};
use datafusion::{
    common::{DataFusionError, Result, SchemaError, tree_node::TreeNodeRecursion},
    logical_expr::{
        ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
        Signature, Volatility,
    },
};

use crate::error::Error;

/// The function's name.
pub(crate) const NAME: &str = "basalt_named";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Named {
    signature: Signature,
}

/// The function.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Named { signature: Signature::any(1, Volatility::Immutable) })
}

impl ScalarUDFImpl for Named {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(|| Error::Internal(format!("{NAME} of nothing")).into())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        args.arg_fields.first().cloned().ok_or_else(|| Error::Internal(format!("{NAME} of nothing")).into())
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [Expr::Cast(of)] => format!("CAST({} AS {})", of.expr.schema_name(), of.field.data_type()),
            [Expr::TryCast(of)] => format!("TRY_CAST({} AS {})", of.expr.schema_name(), of.field.data_type()),
            // A literal, of another type than the text of it tells.
            args => args.iter().map(|arg| format!("CAST({arg})")).collect(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args.into_iter().next().ok_or_else(|| Error::Internal(format!("{NAME} of nothing")).into())
    }
}

/// What has a name in it.
pub(crate) fn inner(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(function) if function.func.name() == NAME => function.args.first(),
        _ => None,
    }
}

/// Fails where columns of an aggregate have one name: the planner finds it only when it looks for one of them.
pub(crate) fn told_apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::Aggregate(aggregate) = plan {
            let mut known: HashMap<String, &Expr> = HashMap::new();
            for expr in aggregate.group_expr.iter().chain(&aggregate.aggr_expr) {
                let name = expr.schema_name().to_string();
                if known.insert(name.clone(), expr).is_some_and(|other| other != expr) {
                    let error = SchemaError::DuplicateUnqualifiedField { name };
                    return Err(DataFusionError::SchemaError(Box::new(error), Box::new(None)));
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(plan)
}
