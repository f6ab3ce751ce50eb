//! Functions of DataFusion whose calls are made in another way; their names and types stay as they are.

use std::{fmt, hash::Hash, marker::PhantomData, sync::Arc};

use arrow_array::{Array, ArrayRef, LargeStringArray, cast::AsArray as _};
use arrow_schema::{DataType, FieldRef};
use datafusion::{
    arrow::compute::{cast, concat},
    common::{Result, ScalarValue},
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        sort_properties::{ExprProperties, SortProperties},
    },
};

use crate::bounded;

/// What a function answers for some rows.
pub(crate) fn some_rows(
    function: &ScalarUDF,
    args: &ScalarFunctionArgs,
    row: usize,
    rows: usize,
) -> Result<ArrayRef> {
    let some = |arg: &ColumnarValue| match arg {
        ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(row, rows)),
        scalar => scalar.clone(),
    };
    let args = ScalarFunctionArgs {
        args: args.args.iter().map(some).collect(),
        arg_fields: args.arg_fields.clone(),
        number_rows: rows,
        return_field: args.return_field.clone(),
        config_options: args.config_options.clone(),
    };
    function.invoke_with_args(args)?.to_array(rows)
}

/// One answer of those for some rows after the others, of an array or of values that are all constants.
pub(crate) fn of_parts(parts: &[ArrayRef], is_once: bool) -> Result<ColumnarValue> {
    let parts: Vec<&dyn Array> = parts.iter().map(|array| &**array).collect();
    let all = concat(&parts)?;
    Ok(match is_once {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&all, 0)?),
        false => ColumnarValue::Array(all),
    })
}

/// The texts of an argument: one for each row, or one for all.
#[derive(Debug)]
pub(crate) struct Texts {
    texts: LargeStringArray,
    pub(crate) is_one: bool,
}

impl Texts {
    pub(crate) fn new(value: &ColumnarValue) -> Result<Self> {
        let (array, is_one) = match value {
            ColumnarValue::Array(array) => (cast(array, &DataType::LargeUtf8)?, false),
            ColumnarValue::Scalar(scalar) => (cast(&scalar.to_array()?, &DataType::LargeUtf8)?, true),
        };
        Ok(Self { texts: array.as_string::<i64>().clone(), is_one })
    }

    /// That of a row; `None`: NULL.
    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        let row = if self.is_one { 0 } else { row };
        self.texts.is_valid(row).then(|| self.texts.value(row))
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.texts.iter().flatten().map(|text| text.len() as u64).fold(0, u64::saturating_add)
    }
}

/// How a function is called.
pub(crate) trait Call: fmt::Debug + Clone + Eq + Hash + Send + Sync + 'static {
    /// The type of its answers, where that of the function is this one.
    fn answered(own: &DataType) -> DataType {
        own.clone()
    }

    fn call(function: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue>;
}

/// A function that is called by `C`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Around<C>(Arc<ScalarUDF>, PhantomData<C>);

pub(crate) fn around<C: Call>(function: Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::new_from_impl(Around::<C>(function, PhantomData))
}

impl<C: Call> ScalarUDFImpl for Around<C> {
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
        self.0.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(C::answered(&self.0.return_type(types)?))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = self.0.return_field_from_args(args)?;
        let answered = C::answered(field.data_type());
        Ok(match answered == *field.data_type() {
            true => field,
            false => Arc::new(field.as_ref().clone().with_data_type(answered)),
        })
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.0.output_ordering(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        bounded::check()?;
        let made = C::call(&self.0, args)?;
        bounded::count(&made)?;
        Ok(made)
    }
}
