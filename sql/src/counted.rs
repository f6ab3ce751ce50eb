//! `array_agg` and `string_agg` in an order count what they hold as it comes: DataFusion asks each group for its size with each
//! batch, and its accumulator walks all of the group's values to tell it.

use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, cast::AsArray as _};
use arrow_schema::{DataType, FieldRef};
use datafusion::{
    common::{Result, ScalarValue},
    functions_aggregate::array_agg::array_agg_udaf,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
        Signature,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};

/// What a value takes beside its bytes: it is a scalar of a row.
const CELL: usize = size_of::<ScalarValue>() + size_of::<Vec<ScalarValue>>();

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Listed(Arc<AggregateUDF>);

/// `array_agg`.
pub(crate) fn array_agg() -> AggregateUDF {
    AggregateUDF::from(Listed(array_agg_udaf()))
}

/// The accumulator of `of`, one that counts where it holds rows in an order.
pub(crate) fn accumulator(of: &AggregateUDF, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
    let is_ordered = !args.order_bys.is_empty() && !args.is_distinct;
    let inner = of.accumulator(args)?;
    if !is_ordered {
        return Ok(inner);
    }
    Ok(Box::new(Counted { inner, bytes: 0 }))
}

impl AggregateUDFImpl for Listed {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.0.order_sensitivity()
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        is_ordered: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = AggregateUDF::clone(&self.0).with_beneficial_ordering(is_ordered)?;
        Ok(inner.map(|inner| Arc::new(Self(Arc::new(inner))) as Arc<dyn AggregateUDFImpl>))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        accumulator(&self.0, args)
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

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Reversed(Arc::new(array_agg()))
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.0.supports_null_handling_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}

/// One that knows its size.
#[derive(Debug)]
struct Counted {
    inner: Box<dyn Accumulator>,
    /// What the rows take, or more: none is taken off.
    bytes: usize,
}

impl Accumulator for Counted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for array in values {
            self.bytes += taken(array)?;
        }
        self.inner.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for array in states {
            // A state is a list of a group's values, or of the rows that order them.
            self.bytes += match array.as_list_opt::<i32>() {
                Some(_) => taken(&elements(array))?,
                None => taken(array)?,
            };
        }
        self.inner.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// What scalars of an array's values take; those of a struct are arrays of their own.
fn taken(array: &ArrayRef) -> Result<usize> {
    let cells = array.len() * CELL;
    Ok(match array.as_struct_opt() {
        Some(rows) => rows.columns().iter().map(taken).sum::<Result<usize>>()? + cells,
        None => bytes(array)? + cells,
    })
}

/// The bytes of values. Those of a list are counted without the others of the array that it shares with other groups' lists,
/// and so are texts.
fn bytes(array: &ArrayRef) -> Result<usize> {
    if array.is_empty() {
        return Ok(0);
    }
    // Where values end, or what is there in their place.
    let ends = (array.len() + 1) * size_of::<i64>();
    Ok(match array.data_type() {
        DataType::List(_) | DataType::Map(..) => bytes(&elements(array))? + ends,
        DataType::Struct(_) => array.as_struct().columns().iter().map(bytes).sum::<Result<usize>>()? + ends,
        DataType::Utf8View => {
            let lengths = array.as_string_view().lengths();
            lengths.map(|length| length as usize).sum::<usize>() + 2 * ends
        }
        DataType::BinaryView => {
            let lengths = array.as_binary_view().lengths();
            lengths.map(|length| length as usize).sum::<usize>() + 2 * ends
        }
        DataType::Dictionary(..) => {
            let values = array.as_any_dictionary().values();
            // None of the other groups' values, but as many as there are rows of their middle size.
            array.len() * (bytes(values)? / values.len().max(1)) + ends
        }
        _ => array.to_data().get_slice_memory_size()?,
    })
}

/// The elements of lists or maps, and none before or behind them; of other arrays none.
fn elements(array: &ArrayRef) -> ArrayRef {
    if let Some(lists) = array.as_list_opt::<i32>() {
        let (from, to) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
        return lists.values().slice(from as usize, (to - from) as usize);
    }
    if let Some(maps) = array.as_map_opt() {
        let (from, to) = (maps.value_offsets()[0], maps.value_offsets()[maps.len()]);
        return Arc::new(maps.entries().slice(from as usize, (to - from) as usize));
    }
    array.slice(0, 0)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, ListArray, StringArray, types::Int64Type};
    use arrow_schema::{Field, Schema};
    use datafusion::{
        functions_aggregate::string_agg::string_agg_udaf,
        physical_expr::{
            PhysicalExpr, PhysicalSortExpr,
            expressions::{Column, lit},
        },
    };

    use super::*;

    /// One of texts, in the order of a number.
    fn of_texts(of: &AggregateUDF) -> Box<dyn Accumulator> {
        let fields = [("t", DataType::Utf8), ("n", DataType::Int64)];
        let schema = Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec());
        let column = |name: &str, at| Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>;
        let (mut exprs, mut expr_fields) = (vec![column("t", 0)], vec![Arc::new(schema.field(0).clone())]);
        if of.name() == "string_agg" {
            exprs.push(lit(","));
            expr_fields.push(Arc::new(Field::new("by", DataType::Utf8, true)));
        }
        let args = AccumulatorArgs {
            return_field: of.return_field(&expr_fields).unwrap(),
            schema: &schema,
            ignore_nulls: false,
            order_bys: &[PhysicalSortExpr::new_default(column("n", 1))],
            is_reversed: false,
            name: "it",
            is_distinct: false,
            exprs: &exprs,
            expr_fields: &expr_fields,
        };
        of.accumulator(args).unwrap()
    }

    fn batch(of: &AggregateUDF, texts: &[&str], numbers: &[i64]) -> Vec<ArrayRef> {
        let mut columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(texts.to_vec()))];
        if of.name() == "string_agg" {
            columns.push(Arc::new(StringArray::from(vec![","; texts.len()])));
        }
        columns.push(Arc::new(Int64Array::from(numbers.to_vec())));
        columns
    }

    #[test]
    fn a_size_is_what_came() {
        for (ours, theirs) in
            [(array_agg(), array_agg_udaf()), (crate::joined::function(), string_agg_udaf())]
        {
            let (mut counted, mut plain) = (of_texts(&ours), of_texts(&theirs));
            let mut sizes = vec![counted.size()];
            for (texts, numbers) in [(["e", "a"], [5, 1]), (["d", "b"], [4, 2])] {
                let columns = batch(&ours, &texts, &numbers);
                counted.update_batch(&columns).unwrap();
                plain.update_batch(&columns).unwrap();
                sizes.push(counted.size());
            }
            let mut other = of_texts(&theirs);
            other.update_batch(&batch(&ours, &["c"], &[3])).unwrap();
            let state: Vec<_> = other.state().unwrap().iter().map(|of| of.to_array().unwrap()).collect();
            counted.merge_batch(&state).unwrap();
            plain.merge_batch(&state).unwrap();
            sizes.push(counted.size());
            assert!(sizes.windows(2).all(|two| two[0] + CELL < two[1]), "{sizes:?}");
            let size = counted.size();
            assert_eq!(counted.evaluate().unwrap(), plain.evaluate().unwrap());
            assert_eq!(counted.size(), size);
            // As many cells came as there are values and numbers: the separators are few bytes.
            assert!(counted.size() < 64 * CELL, "{size}");
        }
    }

    #[test]
    fn a_part_of_lists_is_counted_alone() {
        let many = ListArray::from_iter_primitive::<Int64Type, _, _>(
            (0..1000).map(|at| Some(vec![Some(at), None, Some(at)])),
        );
        let many: ArrayRef = Arc::new(many);
        let one = many.slice(500, 1);
        assert_eq!(elements(&one).len(), 3);
        assert!(bytes(&one).unwrap() < 100);
        assert!(bytes(&many).unwrap() > 24_000);
        assert!(taken(&many).unwrap() < 1001 * (CELL + 64));
        assert_eq!(bytes(&many.slice(0, 0)).unwrap(), 0);
    }
}
