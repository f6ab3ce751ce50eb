//! Roaring bitmaps at their best: built from sorted ids, and with run containers.

use croaring::{Bitmap64, Portable, Treemap};
use roaring::RoaringTreemap;

use super::{
    encoding::{Bytes, Encoding, Operation},
    source::Roaring,
};

/// The `roaring` crate.
#[derive(Debug)]
pub struct RoaringRuns;

/// `croaring`, an adaptive radix tree of containers.
#[derive(Debug)]
pub struct CroaringBitmap64;

/// `croaring`, a B-tree of 32-bit bitmaps.
#[derive(Debug)]
pub struct CroaringTreemap;

impl Encoding for RoaringRuns {
    const NAME: &'static str = "roaring + runs";
    type Set = RoaringTreemap;
    type Answer = RoaringTreemap;

    fn encode(ids: &[u64]) -> Bytes {
        Self::write(from_sorted(ids))
    }

    fn decode(bytes: &[u8]) -> RoaringTreemap {
        Roaring::decode(bytes)
    }

    fn contains(set: &RoaringTreemap, id: u64) -> bool {
        Roaring::contains(set, id)
    }

    fn intersect_ids(set: &RoaringTreemap, ids: &[u64]) -> RoaringTreemap {
        set & &from_sorted(ids)
    }

    fn combine(operation: Operation, a: &RoaringTreemap, b: &RoaringTreemap) -> RoaringTreemap {
        Roaring::combine(operation, a, b)
    }

    fn write(mut answer: RoaringTreemap) -> Bytes {
        answer.optimize();
        Roaring::write(answer)
    }

    fn ids(set: &RoaringTreemap) -> Vec<u64> {
        Roaring::ids(set)
    }
}

fn from_sorted(ids: &[u64]) -> RoaringTreemap {
    RoaringTreemap::from_sorted_iter(ids.iter().copied()).unwrap()
}

/// Both types of `croaring` have the same calls.
macro_rules! croaring {
    ($encoding:ty, $name:literal, $set:ty) => {
        impl Encoding for $encoding {
            const NAME: &'static str = $name;
            type Set = $set;
            type Answer = $set;

            fn encode(ids: &[u64]) -> Bytes {
                Self::write(<$set>::of(ids))
            }

            fn decode(bytes: &[u8]) -> $set {
                <$set>::try_deserialize::<Portable>(bytes).unwrap()
            }

            fn contains(set: &$set, id: u64) -> bool {
                set.contains(id)
            }

            fn intersect_ids(set: &$set, ids: &[u64]) -> $set {
                set.and(&<$set>::of(ids))
            }

            fn combine(operation: Operation, a: &$set, b: &$set) -> $set {
                match operation {
                    Operation::Intersection => a.and(b),
                    Operation::Union => a.or(b),
                    Operation::Difference => a.andnot(b),
                }
            }

            fn write(mut answer: $set) -> Bytes {
                answer.run_optimize();
                Bytes::Vec(answer.serialize::<Portable>())
            }

            fn ids(set: &$set) -> Vec<u64> {
                set.to_vec()
            }
        }
    };
}

croaring!(CroaringBitmap64, "croaring Bitmap64", Bitmap64);
croaring!(CroaringTreemap, "croaring Treemap", Treemap);
