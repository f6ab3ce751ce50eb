//! The bytes that columns which are balanced may take beyond the fewest, where they buy the most time.
//!
//! Three percent of a fragment are to spend, not of each column: a column of two bits a row may take one more where the
//! others take fifty. Each column is encoded for itself first (`encoding/chooser.rs`), which spends a little; faster
//! forms of some are then bought with the rest, those first that save the most time for a byte. What it costs to scan a column
//! (`Costs::of_scans`: a filter, and bytes from memory) grows with the table, so it comes first; what is left then goes by all that
//! queries are taken to do (`Costs::of_queries`), few rows that are read by themselves included: a time in order, which is found
//! without a scan, is bought for these alone. Sizes are estimates until a form is made; it is kept where there is as much to spend.
//!
//! The budget is of the columns that are balanced. One that is optimized for size, or for speed, or whose encoding is forced,
//! is left as its field says (but for which of its rows are null, where an encoding is forced): its bytes neither give others room, or `size` would be spent elsewhere, nor take it from them, for
//! what `speed` costs was asked for. So a fragment in which nothing is held for speed has at most three percent more than if
//! all were held for size. Which rows are null is a part of its own.
//!
//! Columns of one fragment that are read from its file at different times are balanced among those that are read at once: each
//! time three percent of these. What a column of them is depends on its rows, and the others', alone.

use std::cmp::Ordering;

use rayon::prelude::*;

use super::Column;
use crate::{
    encoding::{Form, TradeOff},
    error::Result,
};

/// The share of the fewest bytes that may be spent, one part in so many. It is a little less than three percent: what the fewest
/// would be is an estimate, which takes rows to be independent, and rows of a pattern may come to fewer.
const SHARE: usize = 36;

/// What is saved, in an [`Offer`]: time of scans, or of all that queries do.
const SCANS: usize = 0;
/// See [`SCANS`].
const ALL: usize = 1;

/// A column as it is encoded for itself.
#[derive(Debug)]
pub(super) struct First {
    pub(super) column: Column,
    /// What its values could be made faster for; `None`: they stay what they are.
    pub(super) values: Option<TradeOff>,
    /// The same of which rows are null.
    pub(super) validity: Option<TradeOff>,
}

impl First {
    fn parts(&self) -> [Option<&TradeOff>; 2] {
        [self.values.as_ref(), self.validity.as_ref()]
    }
}

/// The forms that the parts of a column get, those that get one.
type Forms<'a> = [Option<&'a Form>; 2];

/// A form of a part of the column at a place.
struct Offer<'a> {
    place: usize,
    part: usize,
    form: &'a Form,
    /// Bytes more; at least one.
    bytes: usize,
    /// Picoseconds a row less: of scans, and of all that queries do.
    saves: [u64; 2],
}

impl<'a> Offer<'a> {
    fn all(columns: &'a [First]) -> impl Iterator<Item = Self> {
        let parts = columns.iter().enumerate().flat_map(|(place, first)| {
            let parts = first.parts().into_iter().enumerate();
            parts.filter_map(move |(part, now)| Some((place, part, now?)))
        });
        parts.flat_map(|(place, part, now)| {
            now.forms.iter().map(move |form| {
                let saves = [0, 1].map(|i| now.costs[i].saturating_sub(form.costs[i]));
                let bytes = form.bytes.saturating_sub(now.bytes).max(1);
                Offer { place, part, form, bytes, saves }
            })
        })
    }

    /// What a byte saves, the most first.
    fn by_gain(&self, other: &Self, what: usize) -> Ordering {
        let product = |saves: [u64; 2], bytes: usize| u128::from(saves[what]) * bytes as u128;
        product(other.saves, self.bytes).cmp(&product(self.saves, other.bytes))
    }
}

/// Bytes that are left to spend.
fn budget(columns: &[First]) -> usize {
    let (mut least, mut spent) = (0, 0);
    for now in columns.iter().flat_map(First::parts).flatten() {
        least += now.least;
        spent += now.bytes - now.least;
    }
    (least / SHARE).saturating_sub(spent)
}

/// The forms that so many bytes buy, by the places of their columns.
fn bought(columns: &[First], mut left: usize) -> Vec<(usize, Forms<'_>)> {
    let mut offers: Vec<_> = Offer::all(columns).filter(|offer| offer.bytes <= left).collect();
    let mut forms = vec![[None; 2]; columns.len()];
    for what in [SCANS, ALL] {
        // Equal ones stay in the order of the columns.
        offers.sort_by(|a, b| a.by_gain(b, what));
        for Offer { place, part, form, bytes, saves } in &offers {
            let has = &mut forms[*place][*part];
            if has.is_none() && saves[what] > 0 && *bytes <= left {
                left -= bytes;
                *has = Some(*form);
            }
        }
    }
    forms.into_iter().enumerate().filter(|(_, forms)| forms.iter().any(Option::is_some)).collect()
}

/// The columns of a fragment, some of them in faster forms, made in parallel. To make one takes less memory than to encode it
/// did, whose rows are gone by now.
///
/// # Errors
/// Those of the encodings.
pub(super) fn spend(columns: Vec<First>) -> Result<Vec<Column>> {
    let mut left = budget(&columns);
    let bought = bought(&columns, left);
    let mut made = Vec::new();
    // No other thread is asked for nothing.
    if !bought.is_empty() {
        let make = |(place, [values, validity]): (usize, Forms<'_>)| {
            Ok((place, columns[place].column.in_forms(values, validity)?))
        };
        made = bought.into_par_iter().map(make).collect::<Result<_>>()?;
    }
    let mut columns: Vec<Column> = columns.into_iter().map(|first| first.column).collect();
    for (place, faster) in made {
        let bytes = faster.bytes().saturating_sub(columns[place].bytes());
        // Some sizes were guesses.
        if bytes <= left {
            left -= bytes;
            columns[place] = faster;
        }
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{DataType, Field};

    fn form(bytes: usize, cost: u64) -> Form {
        Form { name: "packed", bytes, costs: [cost, cost + 500] }
    }

    /// A column whose parts have such forms, of 1,000 bytes that cost 1,000 each.
    fn first(parts: [&[Form]; 2]) -> First {
        let column = Column::from_keys(&Field::new("a", DataType::Int64, true), &[1, 2, 3], None).unwrap();
        let trade_off = |forms: &[Form]| {
            let forms = forms.to_vec();
            (!forms.is_empty()).then_some(TradeOff { least: 990, bytes: 1000, costs: [1000, 1500], forms })
        };
        First { column, values: trade_off(parts[0]), validity: trade_off(parts[1]) }
    }

    /// The places and parts that get a form, and its bytes.
    fn bought_with(columns: &[First], left: usize) -> Vec<(usize, usize, usize)> {
        let bought = bought(columns, left).into_iter();
        let parts = bought.flat_map(|(place, forms)| {
            forms.into_iter().enumerate().filter_map(move |(part, form)| Some((place, part, form?.bytes)))
        });
        parts.collect()
    }

    #[test]
    fn the_most_time_for_a_byte_is_bought_first() {
        let columns = [
            // Ten a byte.
            first([&[form(1050, 500)], &[]]),
            // Nine and a half, or eleven.
            first([&[form(1100, 50), form(1020, 780)], &[]]),
            // Twenty, and twice that.
            first([&[form(1010, 800)], &[form(1005, 800)]]),
        ];
        assert_eq!(bought_with(&columns, 0), []);
        assert_eq!(bought_with(&columns, 9), [(2, 1, 1005)]);
        assert_eq!(bought_with(&columns, 15), [(2, 0, 1010), (2, 1, 1005)]);
        assert_eq!(bought_with(&columns, 35), [(1, 0, 1020), (2, 0, 1010), (2, 1, 1005)]);
        // What is left is too little for the first column, and a part has one form.
        assert_eq!(bought_with(&columns, 84), [(1, 0, 1020), (2, 0, 1010), (2, 1, 1005)]);
        assert_eq!(bought_with(&columns, 85), [(0, 0, 1050), (1, 0, 1020), (2, 0, 1010), (2, 1, 1005)]);
    }

    /// Rows that are read by themselves are looked at when scans are as fast as the bytes make them.
    #[test]
    fn scans_come_first() {
        let rows_alone = |bytes: usize| Form { name: "delta", bytes, costs: [1000, 100] };
        let columns = [first([&[rows_alone(1010)], &[]]), first([&[form(1020, 900)], &[]])];
        assert_eq!(bought_with(&columns, 20), [(1, 0, 1020)]);
        assert_eq!(bought_with(&columns, 19), [(0, 0, 1010)]);
        assert_eq!(bought_with(&columns, 30), [(0, 0, 1010), (1, 0, 1020)]);
    }

    #[test]
    fn of_equal_ones_the_first_column_is_faster() {
        let columns = [(); 5].map(|()| first([&[form(1010, 900)], &[]]));
        assert_eq!(bought_with(&columns, 29), [(0, 0, 1010), (1, 0, 1010)]);
    }

    #[test]
    fn what_is_smaller_and_faster_is_bought_first() {
        let columns = [first([&[form(1001, 1)], &[]]), first([&[form(900, 0)], &[]])];
        assert_eq!(bought_with(&columns, 1), [(1, 0, 900)]);
    }

    #[test]
    fn what_columns_have_spent_counts() {
        let columns = [(); 20].map(|()| first([&[form(1010, 900)], &[]]));
        // Of 19,800 bytes a 36th, of which 200 are spent.
        assert_eq!(budget(&columns), 550 - 200);
        let left_out = [first([&[], &[]]), first([&[form(1010, 900)], &[]])];
        assert_eq!(budget(&left_out), 990 / 36 - 10);
        assert_eq!(budget(&[]), 0);
    }
}
