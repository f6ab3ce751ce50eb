//! What is told of the rows of a frame whose start moves. What leaves is not subtracted: of large numbers there would be rests
//! of what is gone, and of one that is not finite nothing else for ever. Rows stand in two stacks instead: the older ones know
//! what is told of them and of all that came after, so that taking one away leaves what is there.

use std::fmt::Debug;

use arrow_array::ArrayRef;
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::Accumulator,
};

use crate::error::Error;

/// What is told of some rows.
pub(super) trait Summary: Copy + Debug + Send + Sync + 'static {
    /// That of no rows.
    const NONE: Self;

    /// That of both, the other's rows behind these.
    fn with(self, later: Self) -> Self;
}

/// An aggregate that is made of what is told.
pub(super) trait Told: Copy + Debug + Send + Sync + 'static {
    type Summary: Summary;

    /// Takes what is told of each row that counts, which are those without a null.
    ///
    /// # Errors
    /// The arguments are of other types.
    fn each(arguments: &[ArrayRef], take: impl FnMut(Self::Summary)) -> Result<()>;

    fn given(self, all: Self::Summary) -> ScalarValue;
}

#[derive(Debug)]
pub(super) struct Frame<T: Told> {
    told: T,
    /// The newest first: of each what is told of it and of those that are newer in here.
    older: Vec<T::Summary>,
    newer: Vec<T::Summary>,
    of_newer: T::Summary,
}

impl<T: Told> Frame<T> {
    pub(super) fn new(told: T) -> Self {
        Self { told, older: Vec::new(), newer: Vec::new(), of_newer: T::Summary::NONE }
    }

    fn remove_oldest(&mut self) {
        if self.older.is_empty() {
            let mut all = T::Summary::NONE;
            for row in self.newer.drain(..).rev() {
                all = row.with(all);
                self.older.push(all);
            }
            self.of_newer = T::Summary::NONE;
        }
        self.older.pop();
    }
}

impl<T: Told> Accumulator for Frame<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Self { newer, of_newer, .. } = self;
        T::each(values, |row| {
            newer.push(row);
            *of_newer = of_newer.with(row);
        })
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        T::each(values, |_| self.remove_oldest())
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
        // Default: none are older.
        let older = self.older.last().copied().unwrap_or(T::Summary::NONE);
        Ok(self.told.given(older.with(self.of_newer)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + (self.older.capacity() + self.newer.capacity()) * size_of::<T::Summary>()
    }
}
