//! Plans of tasks as they travel: DataFusion's own encoding, with our leaves, and with functions by their names, where the
//! name alone says all of a function.

use std::sync::Arc;

use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use basalt_core::query::Query;
use datafusion::{
    common::{
        DataFusionError, Result, plan_err,
        tree_node::{TreeNode as _, TreeNodeRecursion},
    },
    execution::TaskContext,
    logical_expr::{AggregateUDF, ScalarUDF, WindowUDF},
    physical_expr::{Partitioning, ScalarFunctionExpr},
    physical_plan::{ExecutionPlan, ExecutionPlanProperties as _},
};
use datafusion_distributed::DistributedCodec;
use datafusion_proto::{
    bytes::physical_plan_to_bytes_with_proto_converter,
    physical_plan::{
        DefaultPhysicalProtoConverter, PhysicalExtensionCodec, PhysicalPlanDecodeContext,
        PhysicalPlanNodeExt as _, PhysicalProtoConverterExtension, from_proto::parse_protobuf_partitioning,
        to_proto::serialize_partitioning,
    },
    protobuf,
};
use prost::Message;

use super::{Leaves, listed};
use crate::{
    catalog::Table,
    constants::{Hidden, hidden},
    error::Error,
    limits,
    scan::Scan,
    source::Source,
};

/// The first byte of an operator that is not DataFusion's: one of `datafusion-distributed`, or ours.
const STAGES: u8 = 0;
const LEAF: u8 = 1;
const HIDDEN: u8 = 2;

/// A leaf as it travels.
#[derive(Clone, PartialEq, Message)]
struct Leaf {
    /// As [`Table::encode`] writes it.
    #[prost(bytes = "vec", tag = "1")]
    scan: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    schema: Option<protobuf::Schema>,
    #[prost(uint32, tag = "3")]
    partitions: u32,
}

/// The scan of an encoded operator; `None`: it is no leaf of ours.
///
/// # Errors
/// Where it is none that is known.
pub(super) fn leaf(operator: &[u8]) -> crate::Result<Option<Vec<u8>>> {
    match operator.split_first() {
        Some((&STAGES, _) | (&HIDDEN, [])) => Ok(None),
        Some((&LEAF, leaf)) => {
            let leaf = Leaf::decode(leaf).map_err(|error| listed::refused(format!("not a scan: {error}")))?;
            Ok(Some(leaf.scan))
        }
        _ => Err(listed::refused("an operator that is not known here")),
    }
}

/// The plan of a task, for another node.
///
/// # Errors
/// What in it does not travel.
pub(super) fn encode(plan: Arc<dyn ExecutionPlan>, functions: &Arc<TaskContext>) -> Result<Vec<u8>> {
    let (codec, converter) = (Codec::new(functions), DefaultPhysicalProtoConverter {});
    Ok(physical_plan_to_bytes_with_proto_converter(plan, &codec, &converter)?.to_vec())
}

/// The plan of a task of another node's statement.
///
/// # Errors
/// Why it is not run here.
pub(super) async fn decode(
    plan: &[u8],
    functions: &Arc<TaskContext>,
    leaves: &dyn Leaves,
) -> crate::Result<Arc<dyn ExecutionPlan>> {
    let (root, checked) = listed::read(plan)?;
    let mut codec = Codec::new(functions);
    for leaf in checked.leaves {
        let (table, query) = leaves.open(&leaf).await?;
        codec.open.push((leaf, table, query));
    }
    let converter = DefaultPhysicalProtoConverter {};
    let plan = root
        .try_into_physical_plan_with_converter(functions, &codec, &converter)
        .map_err(|error| listed::refused(Error::from(error)))?;
    check_partitions(&plan)?;
    Ok(plan)
}

/// No operator has more partitions than a plan of this build has, nor none.
fn check_partitions(plan: &Arc<dyn ExecutionPlan>) -> crate::Result<()> {
    let partitions = plan.output_partitioning().partition_count();
    if !(1..=limits::STAGE_PARTITIONS).contains(&partitions) {
        return Err(listed::refused(format!("an operator of {partitions} partitions")));
    }
    plan.children().into_iter().try_for_each(check_partitions)
}

/// What spreads the rows of a task.
pub(super) fn encode_partitioning(
    partitioning: &Partitioning,
    functions: &Arc<TaskContext>,
) -> Result<Vec<u8>> {
    let (codec, converter) = (Codec::new(functions), DefaultPhysicalProtoConverter {});
    Ok(serialize_partitioning(partitioning, &codec, &converter)?.encode_to_vec())
}

/// See [`encode_partitioning`].
pub(super) fn decode_partitioning(
    bytes: &[u8],
    schema: &SchemaRef,
    functions: &Arc<TaskContext>,
) -> crate::Result<Partitioning> {
    let (codec, converter) = (Codec::new(functions), DefaultPhysicalProtoConverter {});
    let context = PhysicalPlanDecodeContext::new(functions, &codec);
    let partitioning = protobuf::Partitioning::decode(bytes)
        .map_err(|error| DataFusionError::External(Box::new(error)))
        .and_then(|encoded| parse_protobuf_partitioning(Some(&encoded), &context, schema, &converter))
        .map_err(|error| listed::refused(Error::from(error)))?;
    match partitioning {
        Some(Partitioning::Hash(by, partitions)) if (1..=limits::STAGE_PARTITIONS).contains(&partitions) => {
            Ok(Partitioning::Hash(by, partitions))
        }
        _ => Err(listed::refused("rows that are not spread by a hash")),
    }
}

#[derive(Debug)]
struct Codec {
    /// All functions, by name.
    functions: Arc<TaskContext>,
    /// The leaves of the plan that is read.
    open: Vec<(Vec<u8>, Arc<dyn Table>, Query)>,
}

impl Codec {
    fn new(functions: &Arc<TaskContext>) -> Self {
        Self { functions: Arc::clone(functions), open: Vec::new() }
    }
}

/// Whether its name says all of a function.
fn is_known(function: &ScalarUDF, functions: &TaskContext) -> bool {
    functions.scalar_functions().get(function.name()).is_some_and(|known| **known == *function)
}

/// Whether all functions of a plan travel.
pub(super) fn travels(plan: &Arc<dyn ExecutionPlan>, functions: &TaskContext) -> bool {
    let mut all = true;
    let visited = plan.apply(|node| {
        node.apply_expressions(&mut |root| {
            root.apply(|expr| {
                let call = expr.downcast_ref::<ScalarFunctionExpr>();
                all &= call.is_none_or(|call| is_known(call.fun(), functions));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    all && visited.is_ok()
}

/// The error of a function that has more to it than its name.
fn is_not_known<T>(name: &str) -> Result<T> {
    plan_err!("function {name} does not travel")
}

impl PhysicalExtensionCodec for Codec {
    fn try_decode(
        &self,
        operator: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let leaf = match operator.split_first() {
            Some((&STAGES, rest)) => return DistributedCodec.try_decode(rest, inputs, context, converter),
            Some((&LEAF, leaf)) => Leaf::decode(leaf).ok(),
            Some((&HIDDEN, [])) if inputs.len() == 1 => return Ok(hidden(&inputs[0])),
            _ => None,
        };
        let Some(Leaf { scan, schema: Some(schema), partitions }) = leaf else {
            return plan_err!("an operator that is not known here");
        };
        let found = self.open.iter().find(|(leaf, ..)| *leaf == scan);
        let Some((_, table, query)) = found else { return plan_err!("a scan that was not opened") };
        let schema: SchemaRef = Arc::new(ArrowSchema::try_from(&schema)?);
        let types = table.types(query).unwrap_or_default();
        if types.len() != schema.fields().len() || !inputs.is_empty() {
            return plan_err!("a scan whose columns are others");
        }
        let scan = Scan::of_rows(Source::new(Arc::clone(table)), query.clone(), schema);
        Ok(Arc::new(scan.in_parts(partitions as usize)))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        operator: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if node.is::<Hidden>() {
            operator.push(HIDDEN);
            return Ok(());
        }
        let Some(scan) = node.downcast_ref::<Scan>() else {
            operator.push(STAGES);
            return DistributedCodec.try_encode(node, operator, converter);
        };
        operator.push(LEAF);
        let leaf = Leaf {
            scan: scan.encode()?,
            schema: Some(node.schema().as_ref().try_into()?),
            partitions: u32::try_from(scan.partitions()).unwrap_or(u32::MAX),
        };
        leaf.encode(operator).map_err(|error| DataFusionError::External(Box::new(error)))
    }

    fn try_encode_udf(&self, function: &ScalarUDF, _: &mut Vec<u8>) -> Result<()> {
        if is_known(function, &self.functions) { Ok(()) } else { is_not_known(function.name()) }
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, _: &mut Vec<u8>) -> Result<()> {
        match self.functions.aggregate_functions().get(function.name()) {
            Some(known) if **known == *function => Ok(()),
            _ => is_not_known(function.name()),
        }
    }

    fn try_encode_udwf(&self, function: &WindowUDF, _: &mut Vec<u8>) -> Result<()> {
        match self.functions.window_functions().get(function.name()) {
            Some(known) if **known == *function => Ok(()),
            _ => is_not_known(function.name()),
        }
    }
}
