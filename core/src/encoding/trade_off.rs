//! What a column that is balanced could be made faster for, by statistics that are at hand when it is encoded: who knows all
//! columns of a fragment decides which are (`fragment/budget.rs`).
//!
//! A form is offered where it costs a third less to read than what was chosen, as for [`faster`](super::faster), in bytes and
//! cost that its encoding expects. Nothing is encoded to find out. Codes stay codes; of texts in a dictionary the codes alone have
//! other forms.

use std::sync::Arc;

use super::{
    Costs, ENCODINGS, Encodings, KeyColumn, KeyEncoding, KeyStats, TextColumn, TextStats, alp, chooser,
    constant, delta, dictionary, faster::is_faster, packed, plain, text,
};
use crate::{error::Result, invariant::Invariant, schema::Optimize};

/// Rows from which on a column has other forms. Fewer are merged with others soon, and their write waits for them.
const LEAST_ROWS: usize = 4096;

/// The encodings of what is read without decoding it first. Those that hold others come last, the size of which is a guess.
static SIMPLE: Encodings = Encodings {
    keys: &[
        &constant::Constant,
        &plain::Plain,
        &packed::Packed,
        &dictionary::Dictionary,
        &delta::Delta,
        &alp::Alp,
    ],
    texts: &[],
    optimize: Optimize::Balanced,
    made: false,
};

/// A form of a column that is read faster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) name: &'static str,
    /// Bytes that the column is expected to have in it.
    pub(crate) bytes: usize,
    /// What it is expected to cost: picoseconds a row, of scans, and of all that queries do.
    pub(crate) costs: [u64; 2],
}

/// Size against speed, for a column whose encoding was chosen for both.
#[derive(Clone, Debug)]
pub(crate) struct TradeOff {
    /// The fewest bytes that the column is likely to come to.
    pub(crate) least: usize,
    /// Bytes that it has.
    pub(crate) bytes: usize,
    /// What it costs to read: picoseconds a row, of scans, and of all that queries do.
    pub(crate) costs: [u64; 2],
    /// Other forms, each of which costs less in all.
    pub(crate) forms: Vec<Form>,
}

impl TradeOff {
    /// That of a column that was made of keys with such statistics, and could have come to so few bytes.
    pub(super) fn of_keys(column: &dyn KeyColumn, least: usize, stats: &KeyStats) -> Option<Self> {
        (stats.rows >= LEAST_ROWS).then(|| {
            let bytes = column.buffer().len();
            let costs = costs(column.costs(), bytes, stats.rows);
            Self { least, bytes, costs, forms: forms(column, stats, u8::MAX) }
        })
    }

    /// The same of texts.
    pub(super) fn of_texts(column: &dyn TextColumn, least: usize, stats: &TextStats<'_>) -> Option<Self> {
        (stats.rows() >= LEAST_ROWS).then(|| {
            let (rows, bytes) = (stats.rows(), column.buffer().len());
            let now = costs(column.costs(), bytes, rows);
            let mut forms = Vec::new();
            if let (Some(codes), Some(distinct)) = (column.codes(), &stats.distinct) {
                let codes = codes.codes;
                let beside = bytes - codes.buffer().len();
                let of_codes = costs(codes.costs(), codes.buffer().len(), rows);
                forms = self::forms(codes, &distinct.stats, text::dictionary::LEVEL);
                for form in &mut forms {
                    form.bytes += beside;
                    for ((cost, now), of_codes) in form.costs.iter_mut().zip(now).zip(of_codes) {
                        *cost += now.saturating_sub(of_codes);
                    }
                }
            }
            Self { least, bytes, costs: now, forms }
        })
    }
}

/// Of scans, and of all that queries do.
fn costs(costs: Costs, bytes: usize, rows: usize) -> [u64; 2] {
    [costs.of_scans(bytes, rows), costs.of_queries(bytes, rows)]
}

/// The forms of a column of keys that cost less, of a level below `level`.
fn forms(column: &dyn KeyColumn, stats: &KeyStats, level: u8) -> Vec<Form> {
    let now = (column.costs(), column.buffer().len());
    let name = column.name();
    let parts = || name.split(['(', ')']).filter(|part| !part.is_empty());
    let is_simple = parts().all(|part| SIMPLE.keys.iter().any(|encoding| encoding.name() == part));
    let fits = |encoding: &dyn KeyEncoding| {
        // What holds others is asked only where something is gained by the others.
        let asked = encoding.level() == 0 || !is_simple;
        let codes = column.codes().is_none() || encoding.code() == dictionary::Dictionary.code();
        encoding.level() < level && asked && codes
    };
    let form = |encoding: &dyn KeyEncoding| {
        let bytes = encoding.estimate(stats, &SIMPLE).filter(|estimate| estimate.least < usize::MAX)?.bytes;
        let expected = encoding.expected_costs(stats, &SIMPLE)?;
        let costs = costs(expected, bytes, stats.rows);
        is_faster((expected, bytes), now, stats.rows).then_some(Form { name: encoding.name(), bytes, costs })
    };
    SIMPLE.keys.iter().filter(|encoding| fits(**encoding)).filter_map(|encoding| form(*encoding)).collect()
}

/// The column in one of the forms that its statistics have offered. It decodes all keys at once.
///
/// # Errors
/// Those of the encodings.
pub(crate) fn keys_in_form(column: &dyn KeyColumn, form: &Form) -> Result<Arc<dyn KeyColumn>> {
    let mut keys = vec![0; column.rows()];
    column.decode(0, &mut keys);
    let encoding = SIMPLE.keys.iter().find(|encoding| encoding.name() == form.name);
    let encoding = encoding.invariant("a form is one of the encodings that offer forms");
    let counted = encoding.code() == dictionary::Dictionary.code();
    let stats = match counted {
        true => KeyStats::new(&keys, column.key_type()),
        false => KeyStats::uncounted(&keys, column.key_type()),
    };
    Ok(chooser::made(&SIMPLE, *encoding, &keys, &stats)?.column)
}

/// The same for texts in a dictionary.
///
/// # Errors
/// Those of the encodings.
pub(crate) fn texts_in_form(column: &dyn TextColumn, form: &Form) -> Result<Arc<dyn TextColumn>> {
    let codes = column.codes().invariant("texts with forms are in a dictionary");
    let keys = keys_in_form(codes.codes, form)?;
    text::Dictionary::of_parts(column.rows(), codes.entries.buffer(), keys.buffer(), &ENCODINGS.of_made())
}
