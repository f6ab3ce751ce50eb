//! A column in every encoding that can be forced, in the one that the chooser takes, and in rivals.

use std::sync::Arc;

use basalt_core::{
    encoding::{EncodedKeys, KEY_ENCODINGS, KeyColumn, encode_keys},
    keys::Native,
};
use roaring::RoaringBitmap;

/// What the first source calls an encoding of ours.
pub fn label(name: &str) -> &str {
    match name {
        "plain" => "byte",
        other => other,
    }
}

/// The seed's own method.
pub const SEED: &str = "bitcompress";

/// Encodes a fragment by the named encoding, where it can hold the keys, or by the chooser's.
#[allow(clippy::unwrap_used, reason = "a benchmark stops at what goes wrong")]
pub fn encode(keys: &[i64], native: Native, forced: Option<&str>) -> Option<EncodedKeys> {
    let encoded = encode_keys(keys, native, None, forced).unwrap();
    let held = outermost(encoded.column.as_ref());
    forced.is_none_or(|forced| forced == held).then_some(encoded)
}

/// The name of the outermost encoding of a column.
pub fn outermost(column: &dyn KeyColumn) -> String {
    let name = column.name();
    name.split('(').next().unwrap_or_default().to_owned()
}

/// Checks that a column decodes to the keys.
///
/// # Panics
/// Where it does not.
pub fn check(column: &dyn KeyColumn, keys: &[i64]) {
    let mut decoded = vec![0; keys.len()];
    column.decode(0, &mut decoded);
    assert!(decoded == keys, "{} decodes to other keys", column.name());
}

/// The names of all encodings of keys.
pub fn names() -> impl Iterator<Item = &'static str> {
    KEY_ENCODINGS.iter().map(|encoding| encoding.name())
}

/// A fragment in every way to hold it.
#[derive(Debug)]
pub struct Holdings {
    /// The keys.
    pub keys: Vec<i64>,
    /// By each encoding that holds them when it is forced.
    pub forced: Vec<(&'static str, Arc<dyn KeyColumn>)>,
    /// As the chooser has it.
    pub chosen: EncodedKeys,
    /// The rows of the rarest value, with run containers where they are smaller.
    pub roaring: RoaringBitmap,
}

impl Holdings {
    /// Encodes keys in every way, and checks that each gives them back.
    #[allow(clippy::unwrap_used, reason = "a benchmark stops at what goes wrong")]
    pub fn new(keys: Vec<i64>, native: Native, rarest: i64) -> Self {
        let chosen = encode(&keys, native, None).unwrap();
        let forced: Vec<_> =
            names().filter_map(|name| Some((name, encode(&keys, native, Some(name))?.column))).collect();
        for (_, column) in &forced {
            check(column.as_ref(), &keys);
        }
        check(chosen.column.as_ref(), &keys);
        let roaring = roaring(&keys, rarest);
        Self { keys, forced, chosen, roaring }
    }
}

/// The rows that have a value.
pub fn roaring(keys: &[i64], value: i64) -> RoaringBitmap {
    let rows = (0..).zip(keys).filter(|(_, key)| **key == value).map(|(row, _)| row);
    let mut bitmap: RoaringBitmap = rows.collect();
    bitmap.optimize();
    bitmap
}
