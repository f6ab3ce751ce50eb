//! `row_number`, `rank`, `dense_rank` and `ntile` as BIGINT, as in DuckDB and PostgreSQL: DataFusion's give integers without a
//! sign, which clients take for decimals.

use std::{ops::Range, sync::Arc};

use arrow_array::ArrayRef;
use arrow_schema::{DataType, FieldRef, SortOptions};
use datafusion::{
    arrow::compute::cast,
    common::{Result, ScalarValue},
    functions_window::row_number::row_number_udwf,
    logical_expr::{
        LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
        function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs},
    },
    physical_plan::PhysicalExpr,
};

/// The functions.
pub(crate) const NAMES: [&str; 4] = ["dense_rank", "ntile", "rank", "row_number"];

const NUMBER: DataType = DataType::Int64;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Numbered(Arc<WindowUDF>);

/// One of them, of DataFusion's.
pub(crate) fn function(of: Arc<WindowUDF>) -> WindowUDF {
    WindowUDF::from(Numbered(of))
}

pub(crate) fn row_number() -> Arc<WindowUDF> {
    Arc::new(function(row_number_udwf()))
}

impl WindowUDFImpl for Numbered {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.0.expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Numbers(self.0.partition_evaluator_factory(args)?)))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let field = self.0.field(args)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(NUMBER)))
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.0.sort_options()
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        self.0.reverse_expr()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.0.inner().limit_effect(args)
    }
}

/// Numbers that are of another type behind it.
#[derive(Debug)]
struct Numbers(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for Numbers {
    fn is_causal(&self) -> bool {
        self.0.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate_all(values, rows)?, &NUMBER)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.0.evaluate(values, range)?.cast_to(&NUMBER)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate_all_with_rank(rows, ranks)?, &NUMBER)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.0.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.0.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.0.include_rank()
    }
}
