//! `string_agg` over frames whose start moves: the texts that leave are those that came first.

use std::collections::VecDeque;

use arrow_array::{Array as _, ArrayRef, cast::AsArray as _};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::{
    arrow::compute::cast,
    common::{Result, ScalarValue},
    functions_aggregate::string_agg::string_agg_udaf,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature,
        function::{AccumulatorArgs, StateFieldsArgs},
    },
};

use super::constant;
use crate::error::Error;

/// The function that stands for it there.
const NAME: &str = "basalt_moving_string_agg";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Joined {
    signature: Signature,
}

/// See [`NAME`].
pub(super) fn function() -> AggregateUDF {
    AggregateUDF::from(Joined { signature: string_agg_udaf().signature().clone() })
}

impl AggregateUDFImpl for Joined {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::LargeUtf8)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return Err(Error::Internal(format!("{NAME} of distinct values")).into());
        }
        let Some(separator) = constant(&args, 1)? else {
            return Err(Error::unsupported("string_agg with a separator that is no constant").into());
        };
        // Default: none, which a NULL is.
        let separator = separator.try_as_str().flatten().unwrap_or_default().to_owned();
        Ok(Box::new(Frame { separator, texts: VecDeque::new(), bytes: 0 }))
    }

    fn state_fields(&self, _: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Field::new("value", DataType::LargeUtf8, true).into()])
    }
}

/// The texts of a frame, in turn.
#[derive(Debug)]
struct Frame {
    separator: String,
    texts: VecDeque<String>,
    /// What the texts hold.
    bytes: usize,
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let texts = cast(&values[0], &DataType::LargeUtf8)?;
        for text in texts.as_string::<i64>().iter().flatten() {
            self.bytes += text.len();
            self.texts.push_back(text.to_owned());
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let gone = values[0].len() - values[0].logical_null_count();
        for text in self.texts.drain(..gone.min(self.texts.len())) {
            self.bytes = self.bytes.saturating_sub(text.len());
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(Error::Internal("parts of a frame are not merged".to_owned()).into())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(Error::Internal("a frame has no parts".to_owned()).into())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let texts =
            (!self.texts.is_empty()).then(|| self.texts.make_contiguous().join(self.separator.as_str()));
        Ok(ScalarValue::LargeUtf8(texts))
    }

    fn size(&self) -> usize {
        let texts = self.texts.capacity() * size_of::<String>() + self.bytes;
        size_of_val(self) + self.separator.capacity() + texts
    }
}
