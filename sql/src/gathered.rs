//! Aggregates that look at all values of a group at once: `mode`, `median`, `quantile_cont`, `quantile_disc`, `product`, `mad`, `entropy`, `histogram`
//! and what is told of a distribution. What they hold is reserved like the memory of any aggregate.

mod binned;
mod continuous;
mod frame;
mod mode;
mod moments;
pub(crate) mod moving;
mod pairs;
mod quantile;
mod texts;

use std::{any::Any, cmp::Ordering, collections::HashMap, sync::Arc};

use arrow_array::{
    Array as _, ArrayRef, BooleanArray, MapArray, RecordBatch, StructArray, UInt64Array, cast::AsArray as _,
    types::Float64Type,
};
use arrow_schema::{DataType, Field, FieldRef};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::buffer::OffsetBuffer,
    common::{Result, ScalarValue, utils::SingleRowListArrayBuilder},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, GroupsAccumulator, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::format_state_name,
    },
};

use crate::{error::Error, interruptible::GivenUp, lists, nan};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// The value that is there most often; the least of those.
    Mode,
    /// The first value at or behind a share of them.
    Quantile,
    Product,
    /// The middle of how far values are from their middle.
    Mad,
    /// Of how many bits is the news which value it is.
    Entropy,
    /// A map of how often each value is there, or of how many are within bounds.
    Histogram,
    /// The same of values that are bounds.
    ExactHistogram,
    Skewness,
    Kurtosis,
    KurtosisOfAll,
    /// The standard error of the mean.
    ErrorOfMean,
    /// Sums and averages that keep what is too small for the sum so far.
    FloatSum,
    FloatAverage,
}

impl Kind {
    /// Whether it is of numbers, as floats.
    fn is_float(self) -> bool {
        let floats = [Self::Product, Self::Mad, Self::Skewness, Self::Kurtosis];
        floats.contains(&self)
            || matches!(self, Self::KurtosisOfAll | Self::ErrorOfMean | Self::FloatSum | Self::FloatAverage)
    }
}

const ALL: [(Kind, &str, &[&str]); 13] = [
    (Kind::FloatSum, "fsum", &["kahan_sum", "sumkahan"]),
    (Kind::FloatAverage, "favg", &[]),
    (Kind::Mode, "mode", &[]),
    (Kind::Quantile, "quantile_disc", &["percentile_disc", "quantile"]),
    (Kind::Product, "product", &[]),
    (Kind::Mad, "mad", &[]),
    (Kind::Entropy, "entropy", &[]),
    (Kind::Histogram, "histogram", &[]),
    (Kind::ExactHistogram, "histogram_exact", &[]),
    (Kind::Skewness, "skewness", &[]),
    (Kind::Kurtosis, "kurtosis", &[]),
    (Kind::KurtosisOfAll, "kurtosis_pop", &[]),
    (Kind::ErrorOfMean, "sem", &[]),
];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Gathered {
    kind: Kind,
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

/// The functions.
pub(crate) fn all() -> impl Iterator<Item = AggregateUDF> {
    let ours = ALL.into_iter().map(|(kind, name, aliases)| {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::from(Gathered { kind, name, aliases, signature })
    });
    ours.chain(continuous::all()).chain(pairs::all())
}

/// Whether it is one of those that keep the values of a group until they are asked for.
pub(crate) fn keeps_values(function: &AggregateUDF) -> bool {
    let function: &dyn Any = function.inner().as_ref();
    function.is::<Gathered>() || function.is::<continuous::Continuous>()
}

impl Gathered {
    fn has_bounds(&self, arguments: usize) -> bool {
        matches!(self.kind, Kind::Histogram | Kind::ExactHistogram) && arguments == 2
    }

    /// Whether it is a mode whose values are counted as they come. Of distinct values each counts once, whenever it comes.
    fn is_counted(&self, value: &DataType, is_distinct: bool) -> bool {
        self.kind == Kind::Mode && !is_distinct && mode::takes(value)
    }

    /// The shares of a quantile, and whether they are those of a list.
    fn shares(&self, args: &AccumulatorArgs<'_>) -> Result<(Vec<f64>, bool)> {
        match self.kind {
            Kind::Quantile => shares(self.name, args),
            _ => Ok((Vec::new(), false)),
        }
    }
}

/// The shares that a quantile is asked for, and whether they are those of a list.
fn shares(function: &str, args: &AccumulatorArgs<'_>) -> Result<(Vec<f64>, bool)> {
    if args.exprs.len() < 2 {
        return Ok((Vec::new(), false));
    }
    let (shares, is_list): (Vec<Option<f64>>, bool) = match constant(args, 1)? {
        Some(ScalarValue::Float64(share)) => (vec![share], false),
        Some(ScalarValue::List(shares)) => {
            (shares.values().as_primitive::<Float64Type>().iter().collect(), true)
        }
        _ => (Vec::new(), false),
    };
    let fits = |share: &Option<f64>| share.is_some_and(|share| (0.0..=1.0).contains(&share));
    if !shares.iter().all(fits) || (shares.is_empty() && !is_list) {
        return Err(Error::invalid(format!("{function} takes a share from 0 to 1")).into());
    }
    Ok((shares.into_iter().flatten().collect(), is_list))
}

/// The rows that a filter lets pass.
fn passing(rows: usize, filter: Option<&BooleanArray>) -> impl Iterator<Item = usize> {
    (0..rows).filter(move |row| filter.is_none_or(|filter| filter.is_valid(*row) && filter.value(*row)))
}

impl AggregateUDFImpl for Gathered {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match (self.kind, types) {
            (Kind::Mode | Kind::Entropy | Kind::Histogram, [value]) => Ok(vec![value.clone()]),
            (Kind::Histogram | Kind::ExactHistogram, [value, bounds])
                if lists::item(bounds).is_some() || bounds.is_null() =>
            {
                Ok(vec![value.clone(), lists::list_type(value.clone())])
            }
            (Kind::Quantile, [value, shares])
                if lists::item(shares).is_some_and(|item| item.is_numeric() || item.is_null()) =>
            {
                Ok(vec![value.clone(), lists::list_type(DataType::Float64)])
            }
            (Kind::Quantile, [value, _]) => Ok(vec![value.clone(), DataType::Float64]),
            (kind, [value]) if kind.is_float() && (value.is_numeric() || value.is_null()) => {
                Ok(vec![DataType::Float64])
            }
            _ => {
                let takes = match self.kind {
                    Kind::Quantile => "a column and a share, or a list of shares",
                    Kind::Histogram => "a column, and a list of bounds or none",
                    Kind::ExactHistogram => "a column and a list of bounds",
                    kind if kind.is_float() => "numbers",
                    _ => "a column",
                };
                let message = format!("{} takes {takes}", self.name());
                Err(Error::new(ErrorKind::TypeMismatch, message).into())
            }
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let types = self.coerce_types(types)?;
        Ok(match self.kind {
            Kind::Entropy => DataType::Float64,
            Kind::Histogram | Kind::ExactHistogram => map_of(&types[0]),
            Kind::Quantile if types[1] != DataType::Float64 => lists::list_type(types[0].clone()),
            _ => types[0].clone(),
        })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let data_type = args.expr_fields[0].data_type();
        let is_sorted = self.kind == Kind::Quantile && !args.is_distinct && args.order_bys.is_empty();
        if is_sorted && quantile::takes(data_type) {
            let (shares, is_list) = self.shares(&args)?;
            return Ok(Box::new(quantile::Quantile::new(shares, is_list, data_type.clone())));
        }
        if self.is_counted(data_type, args.is_distinct) && args.order_bys.is_empty() {
            return Ok(Box::new(mode::One(mode::Groups::new(data_type.clone())?)));
        }
        self.create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.is_counted(args.expr_fields[0].data_type(), args.is_distinct) && args.order_bys.is_empty()
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(mode::Groups::new(args.expr_fields[0].data_type().clone())?))
    }

    /// One that may be taken values away from again.
    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if !args.order_bys.is_empty() {
            return Err(Error::unsupported(format!("{} in an order", self.name())).into());
        }
        let data_type = args.expr_fields[0].data_type().clone();
        if self.has_bounds(args.exprs.len()) {
            if args.is_distinct {
                return Err(Error::unsupported("DISTINCT in a histogram with bounds").into());
            }
            let Some(bounds) = constant(&args, 1)? else {
                return Err(
                    Error::unsupported("bounds of a histogram that are not the same for all rows").into()
                );
            };
            let is_exact = self.kind == Kind::ExactHistogram;
            return Ok(Box::new(binned::Binned::new(&bounds, data_type, is_exact)?));
        }
        let (shares, is_list) = self.shares(&args)?;
        let (kind, is_distinct) = (self.kind, args.is_distinct);
        Ok(Box::new(Values { kind, shares, is_list, is_distinct, data_type, values: Vec::new(), bytes: 0 }))
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        match self.kind {
            Kind::Entropy => Ok(ScalarValue::Float64(Some(0.0))),
            _ => ScalarValue::try_from(data_type),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if self.has_bounds(args.input_fields.len()) {
            let item = Field::new_list_field(DataType::UInt64, true);
            return Ok(vec![Arc::new(Field::new_list(format_state_name(args.name, "counts"), item, true))]);
        }
        let value = args.input_fields[0].data_type();
        if self.is_counted(value, args.is_distinct) {
            return Ok(mode::state_fields(args.name, value));
        }
        let item = Field::new_list_field(value.clone(), true);
        Ok(vec![Arc::new(Field::new_list(format_state_name(args.name, "values"), item, true))])
    }
}

/// An argument that is the same for all rows; `None`: it is not.
fn constant(args: &AccumulatorArgs<'_>, argument: usize) -> Result<Option<ScalarValue>> {
    let empty = RecordBatch::new_empty(Arc::new(args.schema.clone()));
    Ok(match args.exprs[argument].evaluate(&empty)? {
        ColumnarValue::Scalar(value) => Some(value),
        ColumnarValue::Array(_) => None,
    })
}

#[derive(Debug)]
struct Values {
    kind: Kind,
    shares: Vec<f64>,
    /// Whether the shares are those of a list.
    is_list: bool,
    is_distinct: bool,
    data_type: DataType,
    values: Vec<ScalarValue>,
    /// What the values hold beside the vector.
    bytes: usize,
}

impl Values {
    /// What is at one share of them.
    fn of_share(share: f64, data_type: DataType, is_distinct: bool) -> Self {
        let (kind, shares, is_list) = (Kind::Quantile, vec![share], false);
        Self { kind, shares, is_list, is_distinct, data_type, values: Vec::new(), bytes: 0 }
    }

    /// The value as which it is counted: there is one zero, and one that is no number.
    fn counted(&self, value: ScalarValue) -> ScalarValue {
        match value {
            ScalarValue::Float64(Some(float))
                if self.is_distinct || matches!(self.kind, Kind::Mode | Kind::Entropy | Kind::Histogram) =>
            {
                ScalarValue::Float64(Some(nan::one(float + 0.0)))
            }
            value => value,
        }
    }

    fn take(&mut self, array: &ArrayRef) -> Result<()> {
        for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
            let value = self.counted(ScalarValue::try_from_array(array, row)?.compacted());
            self.bytes += value.size() - size_of::<ScalarValue>();
            self.values.push(value);
        }
        Ok(())
    }
}

fn entries_of(key: &DataType) -> Field {
    let fields = vec![Field::new("key", key.clone(), false), Field::new("value", DataType::UInt64, true)];
    Field::new("entries", DataType::Struct(fields.into()), false)
}

fn map_of(key: &DataType) -> DataType {
    DataType::Map(Arc::new(entries_of(key)), false)
}

/// How often each value is there.
fn map(key: &DataType, counts: &[(&ScalarValue, u64)]) -> Result<ScalarValue> {
    let keys = ScalarValue::iter_to_array(counts.iter().map(|(value, _)| (*value).clone()))?;
    let values: ArrayRef = Arc::new(UInt64Array::from_iter_values(counts.iter().map(|(_, count)| *count)));
    let entries = entries_of(key);
    let DataType::Struct(fields) = entries.data_type().clone() else {
        return Err(Error::Internal("the entries of a map".to_owned()).into());
    };
    let structs = StructArray::try_new(fields, vec![keys, values], None)?;
    let offsets = OffsetBuffer::from_lengths([counts.len()]);
    let map = MapArray::try_new(Arc::new(entries), offsets, structs, None, false)?;
    Ok(ScalarValue::Map(Arc::new(map)))
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
        // In a window there may be many of many values, between which nothing else looks.
        GivenUp::of_task().check()?;
        // In the order in which they came, since a window takes them away in it.
        let mut sorted: Vec<&ScalarValue> = self.values.iter().collect();
        if self.is_distinct {
            sorted.sort_by(|a, b| order(a, b));
            sorted.dedup_by(|a, b| order(a, b) == Ordering::Equal);
        }
        let none = match self.kind {
            Kind::Entropy => ScalarValue::Float64(Some(0.0)),
            Kind::Histogram | Kind::ExactHistogram => ScalarValue::try_from(&map_of(&self.data_type))?,
            Kind::Quantile if self.is_list => {
                ScalarValue::try_from(&lists::list_type(self.data_type.clone()))?
            }
            _ => ScalarValue::try_from(&self.data_type)?,
        };
        if sorted.is_empty() {
            return Ok(none);
        }
        let float = |value: &&ScalarValue| match value {
            ScalarValue::Float64(Some(value)) => *value,
            _ => f64::NAN,
        };
        Ok(nan::of_scalar(match self.kind {
            Kind::Mode => {
                let mut counts: HashMap<&ScalarValue, usize> = HashMap::new();
                sorted.into_iter().for_each(|value| *counts.entry(value).or_default() += 1);
                let most = counts.into_iter().max_by(|(a, m), (b, n)| m.cmp(n).then_with(|| order(b, a)));
                most.map_or(none, |(value, _)| value.clone())
            }
            Kind::Quantile => {
                sorted.sort_by(|a, b| order(a, b));
                let at = |share: &f64| sorted[moments::place(*share, sorted.len())].clone();
                let values: Vec<ScalarValue> = self.shares.iter().map(at).collect();
                match self.is_list {
                    true => ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.data_type)),
                    false => values.into_iter().next().unwrap_or(none),
                }
            }
            Kind::Product => ScalarValue::Float64(Some(sorted.iter().map(float).product())),
            Kind::Mad => {
                let mut values: Vec<f64> = sorted.iter().map(float).collect();
                let middle = moments::middle(&mut values);
                let mut distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
                ScalarValue::Float64(Some(moments::middle(&mut distances)))
            }
            Kind::Entropy | Kind::Histogram | Kind::ExactHistogram => {
                sorted.sort_by(|a, b| order(a, b));
                let mut counts: Vec<(&ScalarValue, u64)> = Vec::new();
                for value in sorted {
                    match counts.last_mut() {
                        Some((last, count)) if order(last, value) == Ordering::Equal => *count += 1,
                        _ => counts.push((value, 1)),
                    }
                }
                match self.kind {
                    Kind::Entropy => {
                        let counts: Vec<u64> = counts.into_iter().map(|(_, count)| count).collect();
                        ScalarValue::Float64(Some(moments::entropy(&counts)))
                    }
                    _ => map(&self.data_type, &counts)?,
                }
            }
            Kind::Skewness
            | Kind::Kurtosis
            | Kind::KurtosisOfAll
            | Kind::ErrorOfMean
            | Kind::FloatSum
            | Kind::FloatAverage => {
                let values: Vec<f64> = sorted.iter().map(float).collect();
                ScalarValue::Float64(match self.kind {
                    Kind::Skewness => moments::skewness(&values),
                    Kind::ErrorOfMean => moments::error_of_mean(&values),
                    Kind::FloatSum => Some(moments::sum(&values)),
                    Kind::FloatAverage => Some(moments::average(&values)),
                    kind => moments::kurtosis(&values, kind == Kind::KurtosisOfAll),
                })
            }
        }))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let gone = values[0].len() - values[0].logical_null_count();
        for value in self.values.drain(..gone.min(self.values.len())) {
            self.bytes = self.bytes.saturating_sub(value.size() - size_of::<ScalarValue>());
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<ScalarValue>() + self.bytes
    }
}
