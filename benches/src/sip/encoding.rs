//! What every way to write a set is measured by.

use std::ops::Deref;

use basalt_sip::Sip;

/// Bytes, whoever holds them.
#[derive(Debug)]
pub enum Bytes {
    /// Of a library that writes into a vector.
    Vec(Vec<u8>),
    /// Of ours.
    Sip(Sip),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Vec(bytes) => bytes,
            Self::Sip(sip) => sip.as_bytes(),
        }
    }
}

/// A way to write a set of ids, and to work with it.
pub trait Encoding: 'static {
    /// Its name in the tables.
    const NAME: &'static str;
    /// A set that was read.
    type Set;
    /// The answer of a set operation.
    type Answer;

    /// Writes increasing ids.
    fn encode(ids: &[u64]) -> Bytes;
    /// Reads a set, to be asked and combined often.
    fn decode(bytes: &[u8]) -> Self::Set;
    /// Whether the set has the id.
    fn contains(set: &Self::Set, id: u64) -> bool;
    /// The ids that the set shares with ids at hand, which increase.
    fn intersect_ids(set: &Self::Set, ids: &[u64]) -> Self::Answer;
    /// Of two sets that were read.
    fn combine(operation: Operation, a: &Self::Set, b: &Self::Set) -> Self::Answer;
    /// Of two sets that come as bytes.
    fn combine_bytes(operation: Operation, a: &[u8], b: &[u8]) -> Self::Answer {
        Self::combine(operation, &Self::decode(a), &Self::decode(b))
    }
    /// Writes an answer.
    fn write(answer: Self::Answer) -> Bytes;
    /// The ids of a set, increasing.
    fn ids(set: &Self::Set) -> Vec<u64>;

    /// What to call these bytes in a table.
    fn label(_bytes: &[u8]) -> String {
        Self::NAME.to_owned()
    }
}

/// An operation of two sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// What is in both.
    Intersection,
    /// What is in either.
    Union,
    /// What is in the first alone.
    Difference,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Intersection, Self::Union, Self::Difference];

    /// Its name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Intersection => "intersection",
            Self::Union => "union",
            Self::Difference => "difference",
        }
    }

    /// By merging increasing ids.
    pub fn merge(self, a: &[u64], b: &[u64]) -> Vec<u64> {
        let mut out = Vec::new();
        let (mut i, mut j) = (0, 0);
        while i < a.len() && j < b.len() {
            let (x, y) = (a[i], b[j]);
            let taken = match self {
                Self::Intersection => x == y,
                Self::Union => true,
                Self::Difference => x < y,
            };
            if taken {
                out.push(x.min(y));
            }
            i += usize::from(x <= y);
            j += usize::from(y <= x);
        }
        if self != Self::Intersection {
            out.extend(&a[i..]);
        }
        if self == Self::Union {
            out.extend(&b[j..]);
        }
        out
    }
}
