//! Functions of lists that are told what to do with each value: `list_transform(l, lambda x: ...)`, `list_filter` and
//! `list_reduce`. A lambda is evaluated for the values of all lists of a batch at once.

mod flat;
mod reduce;

use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, BooleanArray, ListArray, cast::AsArray as _};
use arrow_schema::{DataType, Field, FieldRef};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::{
        buffer::OffsetBuffer,
        compute::{cast, filter},
    },
    common::Result,
    logical_expr::{
        ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature,
        HigherOrderUDF, HigherOrderUDFImpl, LambdaArgument, LambdaParametersProgress, ValueOrLambda,
        Volatility,
    },
};

use crate::{error::Error, lists};
use flat::Flat;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Transform,
    Filter,
    Reduce,
}

/// Name, other names, kind.
const ALL: [(&str, &[&str], Kind); 3] = [
    ("list_transform", &["array_transform", "list_apply", "array_apply", "apply"], Kind::Transform),
    ("list_filter", &["array_filter", "filter"], Kind::Filter),
    ("list_reduce", &["array_reduce", "reduce"], Kind::Reduce),
];

#[derive(Debug, PartialEq, Eq, Hash)]
struct Lambdas {
    kind: Kind,
    name: &'static str,
    aliases: Vec<String>,
    signature: HigherOrderSignature,
}

/// Whether a function takes lambdas.
pub(crate) fn has(name: &str) -> bool {
    ALL.iter().any(|(own, aliases, _)| *own == name || aliases.contains(&name))
}

/// What a session has of them.
pub(crate) fn all() -> impl Iterator<Item = HigherOrderUDF> {
    ALL.into_iter().map(|(name, aliases, kind)| {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        let signature = HigherOrderSignature::user_defined(Volatility::Immutable);
        HigherOrderUDF::new_from_impl(Lambdas { kind, name, aliases, signature })
    })
}

/// The type of the values of a list.
fn item_of(list: &FieldRef) -> Result<DataType> {
    let no_list = || Error::new(ErrorKind::TypeMismatch, format!("{} is no list", list.data_type()));
    Ok(lists::item(list.data_type()).ok_or_else(no_list)?)
}

fn parameter(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("", data_type, true))
}

impl Lambdas {
    fn wrong(&self) -> datafusion::common::DataFusionError {
        let takes = match self.kind {
            Kind::Reduce => "a list, a lambda, and a first value or none",
            _ => "a list and a lambda",
        };
        Error::new(ErrorKind::TypeMismatch, format!("{} takes {takes}", self.name)).into()
    }

    /// The list, what the lambda gives, and the first value.
    fn parts<'a, V, L>(&self, args: &'a [ValueOrLambda<V, L>]) -> Result<(&'a V, &'a L, Option<&'a V>)> {
        match args {
            [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda)] => Ok((list, lambda, None)),
            [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda), ValueOrLambda::Value(first)]
                if self.kind == Kind::Reduce =>
            {
                Ok((list, lambda, Some(first)))
            }
            _ => Err(self.wrong()),
        }
    }
}

impl HigherOrderUDFImpl for Lambdas {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [list, rest @ ..] = types else { return Err(self.wrong()) };
        let item = lists::item(list).ok_or_else(|| self.wrong())?;
        match rest {
            [] => Ok(vec![lists::list_type(item)]),
            [first] if self.kind == Kind::Reduce => {
                let common = reduce::common(&item, first)?;
                Ok(vec![lists::list_type(common.clone()), common])
            }
            _ => Err(self.wrong()),
        }
    }

    fn lambda_parameters(
        &self,
        step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let (list, given, _) = self.parts(fields)?;
        let item = item_of(list)?;
        let place = || parameter(DataType::Int64);
        if self.kind != Kind::Reduce {
            return Ok(LambdaParametersProgress::Complete(vec![vec![parameter(item), place()]]));
        }
        // What it has so far is of the type of what it gives, which is found from that of the values.
        let (so_far, is_known) = match given {
            Some(given) => (reduce::common(&item, given.data_type())?, true),
            None if step == 0 => (item.clone(), false),
            None => return Err(self.wrong()),
        };
        let parameters = vec![parameter(so_far), parameter(item), place()];
        Ok(match is_known {
            true => LambdaParametersProgress::Complete(vec![parameters]),
            false => LambdaParametersProgress::Partial(vec![Some(parameters)]),
        })
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs<'_>) -> Result<FieldRef> {
        let (list, given, _) = self.parts(args.arg_fields)?;
        let data_type = match self.kind {
            Kind::Transform => lists::list_type(given.data_type().clone()),
            Kind::Filter => lists::list_type(item_of(list)?),
            Kind::Reduce => reduce::common(&item_of(list)?, given.data_type())?,
        };
        Ok(parameter(data_type))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let (list, lambda, first) = self.parts(&args.args)?;
        let list = list.to_array(args.number_rows)?;
        let list = list.as_list_opt::<i32>().ok_or_else(|| self.wrong())?;
        Ok(ColumnarValue::Array(match self.kind {
            Kind::Transform => transformed(list, lambda, args.return_type())?,
            Kind::Filter => filtered(list, lambda, args.return_type())?,
            Kind::Reduce => {
                let first = first.map(|first| first.to_array(args.number_rows)).transpose()?;
                reduce::reduced(list, lambda, first.as_ref(), args.return_type())?
            }
        }))
    }
}

/// Lists of so many values each, of those in a row.
fn lists_of(
    values: ArrayRef,
    lengths: Vec<usize>,
    list: &ListArray,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let DataType::List(item) = data_type else {
        return Err(Error::Internal(format!("lists that are {data_type}")).into());
    };
    let values = cast(&values, item.data_type())?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, list.nulls().cloned())?))
}

fn transformed(list: &ListArray, lambda: &LambdaArgument, data_type: &DataType) -> Result<ArrayRef> {
    let flat = Flat::new(list)?;
    let values = flat.evaluate(lambda)?;
    lists_of(values, flat.lengths, list, data_type)
}

fn filtered(list: &ListArray, lambda: &LambdaArgument, data_type: &DataType) -> Result<ArrayRef> {
    let flat = Flat::new(list)?;
    let kept = cast(&flat.evaluate(lambda)?, &DataType::Boolean)?;
    // What is not known is left out.
    let kept: BooleanArray = kept.as_boolean().iter().map(|kept| Some(kept == Some(true))).collect();
    let mut at = 0;
    let lengths = flat.lengths.iter().map(|length| {
        let of_list = kept.slice(at, *length);
        at += length;
        of_list.true_count()
    });
    let lengths = lengths.collect();
    lists_of(filter(&flat.values, &kept)?, lengths, list, data_type)
}
