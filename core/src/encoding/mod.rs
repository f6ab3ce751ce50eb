//! How one column of one fragment is held in memory.
//!
//! Every fixed-width type maps to *keys*: i64 in the type's own order (`keys`), so that an encoding knows
//! integers alone and every comparison is a range of keys. Text is held by encodings of its own, of which
//! the dictionary has keys (codes in the order of the texts) again.
//!
//! Files import in one direction: predicates and statistics, the traits over them, the encodings, the registry that
//! lists these, and what encodes and opens columns by way of it. An encoding that holds columns of others gets the
//! list as an argument ([`Encodings`]).
//!
//! An encoding is one file and one line in [`KEY_ENCODINGS`] or [`TEXT_ENCODINGS`]. What it makes is one
//! buffer that begins with its code byte; [`open_keys`] and [`open_text`] validate such a buffer before they
//! believe a byte of it. The conformance suite runs on every line of the lists.
//!
//! An encoding of level n holds columns of lower levels, so that nesting ends:
//!
//! | level | encoding | what it holds | wins where |
//! |---|---|---|---|
//! | 0 | constant, plain, packed | one key; an array; differences to a block's least, bit-packed in the rows' order, with patched exceptions | there is no pattern, or no time |
//! | 1 | entropy, bitcompress | up to 256 keys: rANS over buckets of bytes, in runs, that decodes to packed codes; the first source's codec | frequencies differ |
//! | 2 | sparse, elias_fano | one common key, and where the others are: Rice-coded gaps; Elias-Fano where a row is to be found fast | one key rules |
//! | 3 | runs | Rice-coded run lengths, two parameters | equal keys stand together |
//! | 4 | dictionary | sorted distinct keys, and codes | few keys lie far apart |
//! | 5 | delta | the first key of every 512 rows, and differences | keys go up, or change little |
//! | 6 | alp | floats as decimals: integers, two powers of ten, exceptions bit for bit | prices, measurements |

mod alp;
pub mod bitcompress;
mod bitpack;
mod block_stats;
mod bytes;
mod cache;
mod chooser;
mod code_map;
#[cfg(test)]
mod conformance;
mod constant;
mod delta;
mod dictionary;
mod elias_fano;
mod encode;
mod entropy;
mod estimate;
mod fallback;
mod faster;
mod floats;
mod id_keys;
mod key_table;
mod mask;
mod member_form;
mod members;
mod open;
mod packed;
mod plain;
mod predicate;
mod registry;
mod rice;
mod rows;
mod runs;
mod sparse;
mod stats;
mod text;
mod text_members;
mod texts;
mod trade_off;
mod traits;

pub use self::{
    block_stats::{BlockStats, MAX_VALUE_COUNTS, ValueCounts},
    encode::{
        Choice, Encoded, EncodedKeys, EncodedTexts, check_forced, encode_keys, encode_texts, encode_validity,
        estimates_for_keys, estimates_for_texts,
    },
    estimate::SizeEstimate,
    faster::{faster_keys, faster_texts},
    id_keys::IdKeys,
    members::Members,
    predicate::{KeyTest, TextTest},
    registry::{ENCODINGS, KEY_ENCODINGS, TEXT_ENCODINGS, open_keys, open_text},
    stats::{KeyStats, SAMPLE_ROWS},
    text::TextStats,
    text_members::TextMembers,
    texts::Texts,
    traits::{
        Codes, Costs, Encodings, KeyColumn, KeyEncoding, LOOK_UP_COST, TextColumn, TextEncoding, UNIT_ROWS,
    },
};
pub(crate) use self::{
    code_map::CodeMap,
    texts::owned_bytes,
    trade_off::{Form, TradeOff, keys_in_form, texts_in_form},
};

/// The version of what encoded columns are as bytes, heads of [`ColumnParts`](crate::fragment::ColumnParts) included. It
/// goes up when bytes that were written before are to be read no longer: what keeps columns elsewhere drops them then.
pub const FORMAT_VERSION: u32 = 2;
