//! Values of a statement as columns of a table have them, before they are compared with what is there, or stand beside it in
//! one column: the rows of an INSERT that ON CONFLICT joins to the table's by their keys, and what it sets there.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use basalt_core::schema::Field;
use datafusion::{
    arrow::compute::cast,
    common::{DataFusionError, Result},
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};

use crate::{assign, error::Error, functions::of_rows, table::outer_type};

const NAME: &str = "basalt_stored";

/// The function: of a value, the name of a column and its Arrow type, as [`call`] writes it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Stored {
    signature: Signature,
}

/// What a session has.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Stored { signature: Signature::any(3, Volatility::Immutable) })
}

/// SQL for a value as the column has it.
pub(crate) fn call(value: &str, field: &Field) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let data_type = field.to_arrow_type().to_string();
    format!("{NAME}({value}, {}, {})", quoted(&field.name), quoted(&data_type))
}

/// The column that the arguments name.
fn column(name: Option<&str>, data_type: Option<&str>) -> Result<Field> {
    let data_type: Option<DataType> = data_type.and_then(|data_type| data_type.parse().ok());
    let field = name.zip(data_type).and_then(|(name, of)| Field::from_arrow(name, &of, true));
    field.ok_or_else(wrong)
}

fn wrong() -> DataFusionError {
    Error::invalid(format!("{NAME} takes a value, and the name and the type of a column")).into()
}

impl ScalarUDFImpl for Stored {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(wrong())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let text = |at: usize| args.scalar_arguments.get(at).copied().flatten()?.try_as_str().flatten();
        let field = column(text(1), text(2))?;
        let given = args.arg_fields.first().ok_or_else(wrong)?;
        assign::check(given.data_type(), &field)?;
        Ok(Arc::new(arrow_schema::Field::new(NAME, outer_type(&field), given.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let text = |at: usize| match args.args.get(at) {
            Some(ColumnarValue::Scalar(value)) => value.try_as_str().flatten(),
            _ => None,
        };
        let field = column(text(1), text(2))?;
        of_rows(&args, |rows| {
            let values = args.args.first().ok_or_else(wrong)?.to_array(rows)?;
            Ok(cast(&assign::typed(&values, &field)?, &outer_type(&field))?)
        })
    }
}
