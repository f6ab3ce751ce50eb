//! Faster forms of columns that are held compactly: the same values for more bytes.
//!
//! Keys that are entropy coded, or differences, are packed or plain in their faster form, sorted keys differences that are
//! packed; codes stay codes of the same entries; texts that are compressed are raw. What is fast as it is has no faster
//! form: an array, few runs.
//!
//! What that gains for some columns of 2^20 rows (AVX-512, one thread, nothing decoded at hand): nanoseconds a row of a
//! filter by one value, of a sum under a mask of one row in a hundred, of all rows decoded, and of a row that is gathered
//! where one in a hundred is.
//!
//! | column | faster form | bits a row | filter | masked sum | decode | gather |
//! |---|---|--:|--:|--:|--:|--:|
//! | sparse, a flag of 1 in 20 | packed | 0.29, 1.01 | 0.05, 0.01 | 0.10, 0.02 | 0.16, 0.12 | 44, 1 |
//! | sparse(entropy), 4 values | packed | 0.95, 2.01 | 0.34, 0.01 | 0.42, 0.02 | 0.53, 0.12 | 134, 1 |
//! | entropy, 5 values | packed | 1.86, 3.01 | 0.27, 0.02 | 0.28, 0.03 | 0.37, 0.10 | 31, 3 |
//! | entropy, 200 values | plain | 6.04, 8.00 | 0.41, 0.04 | 0.54, 0.07 | 0.57, 0.15 | 55, 3 |
//! | dictionary(entropy), 200 values | dictionary(plain) | 6.05, 8.01 | 0.49, 0.04 | 0.96, 0.51 | 0.85, 0.47 | 49, 4 |
//! | delta(entropy), rising | delta(packed) | 5.43, 6.06 | 0.04, 0.004 | 0.92, 0.48 | 0.74, 0.42 | 117, 38 |
//! | dictionary(entropy), 200 texts | dictionary(plain) | 6.05, 8.02 | 0.34, 0.01 | | 3.8, 3.3 | |
//! | fsst, distinct texts | text | 63, 156 | 21, 13 | | 8.8, 2.7 | |
//! | fsst, hexadecimal texts | text | 73, 128 | 3.2, 12 | | 9.8, 2.6 | |
//!
//! Codes that are decoded for groups cost what a decode does. Of compressed texts a filter by one that few begin as is the
//! faster one: the first symbol turns the others away.

use std::sync::Arc;

use arrow_array::{StringArray, builder::StringBuilder};

use super::{
    Costs, Encodings, KeyColumn, KeyEncoding as _, KeyStats, TextColumn, alp, chooser, constant, delta,
    dictionary, packed, plain, text,
};
use crate::{error::Result, limits::BATCH_ROWS, schema::Optimize};

/// The encodings of faster forms, among which the fastest is taken.
static FASTER: Encodings = Encodings {
    keys: &[&constant::Constant, &plain::Plain, &packed::Packed, &dictionary::Dictionary, &alp::Alp],
    texts: &[&text::Dictionary, &text::Raw],
    made: false,
    optimize: Optimize::Speed,
};
/// The same for keys that are searched.
static FASTER_SORTED: Encodings =
    Encodings { keys: &[&constant::Constant, &plain::Plain, &packed::Packed, &delta::Delta], ..FASTER };

/// A faster form costs a third less, in what queries do, and no more by a filter.
pub(super) fn is_faster((new, bytes): (Costs, usize), (old, old_bytes): (Costs, usize), rows: usize) -> bool {
    new.filter <= old.filter && 3 * new.of_queries(bytes, rows) <= 2 * old.of_queries(old_bytes, rows)
}

/// The column in a form that is read faster; `None`: there is none. It decodes all keys at once.
///
/// # Errors
/// Those of the encodings.
pub fn faster_keys(column: &dyn KeyColumn) -> Result<Option<Arc<dyn KeyColumn>>> {
    let mut keys = vec![0; column.rows()];
    column.decode(0, &mut keys);
    let stats = KeyStats::new(&keys, column.key_type());
    // Whoever has read codes goes on reading them, and sorted keys are searched.
    let searched = column.name().starts_with(delta::Delta.name()) && keys.is_sorted();
    let (encodings, forced) = match column.codes() {
        Some(_) => (&FASTER, Some(dictionary::Dictionary.name())),
        None if searched => (&FASTER_SORTED, Some(delta::Delta.name())),
        None => (&FASTER, None),
    };
    let faster = chooser::choose(encodings, u8::MAX, &keys, &stats, forced)?.column;
    let has_codes = faster.codes().is_some() || column.codes().is_none();
    let of = |column: &dyn KeyColumn| (column.costs(), column.buffer().len());
    Ok(Some(faster).filter(|faster| has_codes && is_faster(of(&**faster), of(column), column.rows())))
}

/// The same for texts; the codes of a dictionary stay what they are. Of texts in no dictionary it decodes all at once.
///
/// # Errors
/// Those of the encodings.
pub fn faster_texts(column: &dyn TextColumn) -> Result<Option<Arc<dyn TextColumn>>> {
    let faster: Arc<dyn TextColumn> = match column.codes() {
        Some(codes) => {
            let (entries, keys) = (faster_texts(codes.entries)?, faster_keys(codes.codes)?);
            if entries.is_none() && keys.is_none() {
                return Ok(None);
            }
            let entries = entries.as_ref().map_or(codes.entries.buffer(), |entries| entries.buffer());
            let keys = keys.as_ref().map_or(codes.codes.buffer(), |keys| keys.buffer());
            text::Dictionary::of_parts(column.rows(), entries, keys, &super::ENCODINGS)?
        }
        None => match decoded(column) {
            Some(texts) => text::Raw::of_texts(&texts, &FASTER)?,
            None => return Ok(None),
        },
    };
    let of = |column: &dyn TextColumn| (column.costs(), column.buffer().len());
    Ok(Some(faster).filter(|faster| is_faster(of(&**faster), of(column), column.rows())))
}

/// All texts of a column; `None`: they are too long for one array.
fn decoded(column: &dyn TextColumn) -> Option<StringArray> {
    let (mut texts, mut bytes) = (StringBuilder::with_capacity(column.rows(), 0), 0);
    for start in (0..column.rows()).step_by(BATCH_ROWS) {
        let batch = column.decode(start, (column.rows() - start).min(BATCH_ROWS), None);
        for row in 0..batch.len() {
            let text = batch.get(row);
            bytes += text.len();
            if i32::try_from(bytes).is_err() {
                return None;
            }
            texts.append_value(text);
        }
    }
    Some(texts.finish())
}
