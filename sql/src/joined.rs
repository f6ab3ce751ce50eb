//! `string_agg` whose texts come in any order: it puts them in the one that it is asked for itself, so that two of a statement may be
//! asked for two, and those of groups need no order of all rows.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::{
    common::Result,
    functions_aggregate::string_agg::string_agg_udaf,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};

use crate::counted;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Joined(Arc<AggregateUDF>);

/// The function.
pub(crate) fn function() -> AggregateUDF {
    AggregateUDF::from(Joined(string_agg_udaf()))
}

impl AggregateUDFImpl for Joined {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    /// Its accumulator sorts whatever comes.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::SoftRequirement
    }

    fn with_beneficial_ordering(self: Arc<Self>, _: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        counted::accumulator(&self.0, args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.0.create_groups_accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }
}
