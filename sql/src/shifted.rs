//! `lag` and `lead` that ignore NULLs, of a whole partition at once: where its rows come one by one DataFusion loses count
//! of those that it has passed, when it looks for more than one value.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::FieldRef;
use datafusion::{
    common::Result,
    functions_window::lead_lag::{lag_udwf, lead_udwf},
    logical_expr::{
        LimitEffect, PartitionEvaluator, Signature, WindowUDF, WindowUDFImpl,
        function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs},
    },
    physical_plan::PhysicalExpr,
};

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shifted {
    name: &'static str,
    of: Arc<WindowUDF>,
}

/// The functions.
pub(crate) fn all() -> impl Iterator<Item = WindowUDF> {
    [("basalt_lag", lag_udwf()), ("basalt_lead", lead_udwf())]
        .into_iter()
        .map(|(name, of)| WindowUDF::from(Shifted { name, of }))
}

/// The function that stands for `lag` or `lead`; `None`: it is neither.
pub(crate) fn whole(name: &str) -> Option<WindowUDF> {
    ["lag", "lead"].into_iter().position(|known| known == name).and_then(|at| all().nth(at))
}

impl WindowUDFImpl for Shifted {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        self.of.signature()
    }

    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.of.expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Whole(self.of.partition_evaluator_factory(args)?)))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        self.of.field(args)
    }

    /// The rows up to a value are as many as there are NULLs.
    fn limit_effect(&self, _: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

/// One that takes no rows one by one.
#[derive(Debug)]
struct Whole(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for Whole {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.0.evaluate_all(values, rows)
    }
}
