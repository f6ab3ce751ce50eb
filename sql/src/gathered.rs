//! Aggregates that look at all values of a group at once: `mode`, `quantile_disc` and `product`. What they hold is
//! reserved like the memory of any aggregate.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use arrow_array::{Array as _, ArrayRef, RecordBatch, cast::AsArray as _};
use arrow_schema::{DataType, Field, FieldRef};
use basalt_core::error::ErrorKind;
use datafusion::{
    common::{Result, ScalarValue, utils::SingleRowListArrayBuilder},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::format_state_name,
    },
};

use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// The value that is there most often; the least of those.
    Mode,
    /// The first value at or behind a share of them.
    Quantile,
    Product,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Gathered {
    kind: Kind,
    aliases: Vec<String>,
    signature: Signature,
}

/// The functions.
pub(crate) fn all() -> impl Iterator<Item = AggregateUDF> {
    let kinds = [(Kind::Mode, None), (Kind::Quantile, Some("percentile_disc")), (Kind::Product, None)];
    kinds.into_iter().map(|(kind, alias)| {
        let aliases = alias.into_iter().map(str::to_owned).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::from(Gathered { kind, aliases, signature })
    })
}

impl AggregateUDFImpl for Gathered {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Mode => "mode",
            Kind::Quantile => "quantile_disc",
            Kind::Product => "product",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match (self.kind, types) {
            (Kind::Mode, [value]) => Ok(vec![value.clone()]),
            (Kind::Quantile, [value, _]) => Ok(vec![value.clone(), DataType::Float64]),
            (Kind::Product, [value]) if value.is_numeric() || value.is_null() => Ok(vec![DataType::Float64]),
            _ => {
                let takes = match self.kind {
                    Kind::Mode => "a column",
                    Kind::Quantile => "a column and a share",
                    Kind::Product => "numbers",
                };
                let message = format!("{} takes {takes}", self.name());
                Err(Error::new(ErrorKind::TypeMismatch, message).into())
            }
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(self.coerce_types(types)?[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if !args.order_bys.is_empty() {
            return Err(Error::unsupported(format!("{} in an order", self.name())).into());
        }
        if args.is_distinct {
            return Err(Error::unsupported(format!("{} of DISTINCT values", self.name())).into());
        }
        let share = match args.exprs.get(1).filter(|_| self.kind == Kind::Quantile) {
            Some(share) => {
                let empty = RecordBatch::new_empty(Arc::new(args.schema.clone()));
                match share.evaluate(&empty)? {
                    ColumnarValue::Scalar(ScalarValue::Float64(Some(share)))
                        if (0.0..=1.0).contains(&share) =>
                    {
                        share
                    }
                    _ => return Err(Error::invalid("quantile_disc takes a share from 0 to 1").into()),
                }
            }
            None => 0.0,
        };
        let data_type = args.expr_fields[0].data_type().clone();
        Ok(Box::new(Values { kind: self.kind, share, data_type, values: Vec::new(), bytes: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let item = Field::new_list_field(args.input_fields[0].data_type().clone(), true);
        Ok(vec![Arc::new(Field::new_list(format_state_name(args.name, "values"), item, true))])
    }
}

#[derive(Debug)]
struct Values {
    kind: Kind,
    share: f64,
    data_type: DataType,
    values: Vec<ScalarValue>,
    /// What the values hold beside the vector.
    bytes: usize,
}

impl Values {
    fn take(&mut self, array: &ArrayRef) -> Result<()> {
        for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
            let value = ScalarValue::try_from_array(array, row)?.compacted();
            self.bytes += value.size() - size_of::<ScalarValue>();
            self.values.push(value);
        }
        Ok(())
    }
}

fn order(a: &ScalarValue, b: &ScalarValue) -> Ordering {
    // Default: equal; values of one type have an order.
    a.partial_cmp(b).unwrap_or(Ordering::Equal)
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.take(&values[0])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.take(&values))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let array = match self.values.is_empty() {
            true => arrow_array::new_empty_array(&self.data_type),
            false => ScalarValue::iter_to_array(self.values.iter().cloned())?,
        };
        let list = SingleRowListArrayBuilder::new(array).build_list_array();
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let none = ScalarValue::try_from(&self.data_type)?;
        if self.values.is_empty() {
            return Ok(none);
        }
        Ok(match self.kind {
            Kind::Mode => {
                let mut counts: HashMap<&ScalarValue, usize> = HashMap::new();
                self.values.iter().for_each(|value| *counts.entry(value).or_default() += 1);
                let most = counts.into_iter().max_by(|(a, m), (b, n)| m.cmp(n).then_with(|| order(b, a)));
                most.map_or(none, |(value, _)| value.clone())
            }
            Kind::Quantile => {
                self.values.sort_by(order);
                #[allow(
                    clippy::cast_precision_loss,
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is a place among so many"
                )]
                let place = (self.share * self.values.len() as f64).ceil() as usize;
                self.values[place.saturating_sub(1).min(self.values.len() - 1)].clone()
            }
            Kind::Product => {
                let factor = |value: &ScalarValue| match value {
                    ScalarValue::Float64(Some(value)) => *value,
                    _ => 1.0,
                };
                ScalarValue::Float64(Some(self.values.iter().map(factor).product()))
            }
        })
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<ScalarValue>() + self.bytes
    }
}
