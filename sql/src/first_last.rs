//! `first_value` and `last_value` that ignore NULLs, of a whole partition at once: DataFusion counts the NULLs of each row's
//! frame anew, and a frame that begins with the partition is as long as the rows before it.

use std::{ops::Range, sync::Arc};

use arrow_array::{Array as _, ArrayRef};
use arrow_schema::FieldRef;
use datafusion::{
    common::{Result, ScalarValue},
    functions_window::nth_value::{first_value_udwf, last_value_udwf},
    logical_expr::{
        PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
        function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs},
    },
    physical_plan::PhysicalExpr,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    First,
    Last,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FirstLast {
    end: End,
    of: Arc<WindowUDF>,
}

/// The functions.
pub(crate) fn all() -> impl Iterator<Item = WindowUDF> {
    [End::First, End::Last].into_iter().map(function)
}

/// The function that stands for `first_value` or `last_value`; `None`: it is neither.
pub(crate) fn valid(name: &str) -> Option<WindowUDF> {
    match name {
        "first_value" => Some(function(End::First)),
        "last_value" => Some(function(End::Last)),
        _ => None,
    }
}

fn function(end: End) -> WindowUDF {
    let of = match end {
        End::First => first_value_udwf(),
        End::Last => last_value_udwf(),
    };
    WindowUDF::from(FirstLast { end, of })
}

impl WindowUDFImpl for FirstLast {
    fn name(&self) -> &str {
        match self.end {
            End::First => "basalt_first_value",
            End::Last => "basalt_last_value",
        }
    }

    fn signature(&self) -> &Signature {
        self.of.signature()
    }

    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.of.expressions(args)
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        let cursor = match self.end {
            End::First => Cursor::First(First::default()),
            End::Last => Cursor::Last(Last::default()),
        };
        Ok(Box::new(cursor))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        self.of.field(args)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        let other = match self.end {
            End::First => End::Last,
            End::Last => End::First,
        };
        ReversedUDWF::Reversed(Arc::new(function(other)))
    }
}

#[derive(Debug)]
enum Cursor {
    First(First),
    Last(Last),
}

impl PartitionEvaluator for Cursor {
    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        let array = &values[0];
        let is_valid = |at| array.is_valid(at);
        let place = match self {
            Self::First(first) => first.place(range, is_valid),
            Self::Last(last) => last.place(range, is_valid),
        };
        match place {
            Some(at) => ScalarValue::try_from_array(array, at),
            None => ScalarValue::try_from(array.data_type()),
        }
    }

    fn uses_window_frame(&self) -> bool {
        true
    }
}

/// Where the first value of a frame may be.
#[derive(Debug, Default)]
struct First {
    /// Where the last frame began.
    start: usize,
    /// Whatever is between the two is NULL.
    next: usize,
}

impl First {
    fn place(&mut self, range: &Range<usize>, is_valid: impl Fn(usize) -> bool) -> Option<usize> {
        if range.start < self.start {
            self.next = range.start;
        }
        self.start = range.start;
        self.next = self.next.max(range.start);
        while self.next < range.end && !is_valid(self.next) {
            self.next += 1;
        }
        (self.next < range.end).then_some(self.next)
    }
}

/// Where the last value of a frame is.
#[derive(Debug, Default)]
struct Last {
    /// The last frame that had rows.
    start: usize,
    end: usize,
    /// The last value before its end that was seen: where it is before its start, the frame has none.
    at: Option<usize>,
}

impl Last {
    fn place(&mut self, range: &Range<usize>, is_valid: impl Fn(usize) -> bool) -> Option<usize> {
        if range.is_empty() {
            return None;
        }
        let mut from = range.start;
        if range.start >= self.start && range.end >= self.end {
            from = from.max(self.end);
        } else {
            self.at = None;
        }
        (self.start, self.end) = (range.start, range.end);
        self.at = (from..range.end).rev().find(|at| is_valid(*at)).or(self.at);
        self.at.filter(|at| *at >= range.start)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Looks at all frames in turn. Gives how many places were looked at.
    fn looked(valid: &[bool], frames: impl Iterator<Item = Range<usize>>) -> usize {
        let (mut first, mut last) = (First::default(), Last::default());
        let looks = Cell::new(0);
        let is_valid = |at: usize| {
            looks.set(looks.get() + 1);
            valid[at]
        };
        for range in frames {
            let (mut forth, mut back) = (range.clone(), range.clone().rev());
            assert_eq!(first.place(&range, is_valid), forth.find(|at| valid[*at]), "{range:?}");
            assert_eq!(last.place(&range, is_valid), back.find(|at| valid[*at]), "{range:?}");
        }
        looks.get()
    }

    #[test]
    fn frames_have_their_first_and_last_values() {
        const ROWS: usize = 12;
        for bits in 0..1_usize << ROWS {
            let valid: Vec<_> = (0..ROWS).map(|at| (bits >> at) & 1 == 1).collect();
            looked(&valid, (0..ROWS).map(|row| 0..row + 1));
            looked(&valid, (0..ROWS).map(|row| row..ROWS));
            looked(&valid, (0..ROWS).map(|_| 0..ROWS));
            looked(&valid, (0..ROWS).map(|row| row.saturating_sub(1)..(row + 2).min(ROWS)));
            looked(&valid, (0..ROWS).map(|row| row.saturating_sub(3)..(row + 1).saturating_sub(2)));
            looked(&valid, (0..ROWS).map(|row| (row + 2).min(ROWS)..(row + 4).min(ROWS)));
            // Back again.
            looked(&valid, (0..ROWS).rev().map(|row| row.saturating_sub(2)..row + 1));
        }
    }

    #[test]
    fn no_place_is_looked_at_for_each_row() {
        const ROWS: usize = 2000;
        for of in [0, 1, 7, ROWS - 1] {
            let valid: Vec<_> = (0..ROWS).map(|at| of != 0 && at.is_multiple_of(of)).collect();
            assert!(looked(&valid, (0..ROWS).map(|row| 0..row + 1)) <= 4 * ROWS);
            assert!(looked(&valid, (0..ROWS).map(|row| row..ROWS)) <= 4 * ROWS);
            assert!(looked(&valid, (0..ROWS).map(|_| 0..ROWS)) <= 4 * ROWS);
            let sliding = (0..ROWS).map(|row| row.saturating_sub(500)..(row + 500).min(ROWS));
            assert!(looked(&valid, sliding) <= 4 * ROWS);
        }
    }
}
