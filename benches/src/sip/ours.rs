//! SIP/1.

use basalt_sip::{Limits, Sip, Tag, View};

use super::encoding::{Bytes, Encoding, Operation};

/// SIP/1 under the tag of this number; what is no tag leaves the choice to the library.
#[derive(Debug)]
pub struct Tagged<const TAG: u8>;

/// SIP/1 under the tag that the library chooses.
pub type Chosen = Tagged<0xff>;

/// Limits that let everything here pass.
pub fn limits() -> Limits {
    Limits { body_bytes: 1 << 30, decoded_bytes: 1 << 32, buckets: 1 << 24, ..Limits::default() }
}

/// The number of a tag, as the format has it.
pub fn number(tag: Tag) -> String {
    format!("{:#04x}", tag as u8)
}

impl<const TAG: u8> Encoding for Tagged<TAG> {
    const NAME: &'static str = "basalt";
    type Set = Sip;
    type Answer = Sip;

    fn encode(ids: &[u64]) -> Bytes {
        Self::write(match Tag::try_from(TAG) {
            Ok(tag) => Sip::from_sorted_ids_as(tag, ids),
            Err(_) => Sip::from_sorted_ids(ids),
        })
    }

    fn decode(bytes: &[u8]) -> Sip {
        Sip::from_bytes(bytes, &limits()).unwrap()
    }

    fn contains(set: &Sip, id: u64) -> bool {
        set.contains(id)
    }

    fn intersect_ids(set: &Sip, ids: &[u64]) -> Sip {
        set.intersection(&Sip::from_sorted_ids(ids))
    }

    fn combine(operation: Operation, a: &Sip, b: &Sip) -> Sip {
        combine(operation, &a.view(), &b.view())
    }

    /// A view needs no index to be gone through once.
    fn combine_bytes(operation: Operation, a: &[u8], b: &[u8]) -> Sip {
        let open = |bytes| View::open(bytes, &limits()).unwrap();
        combine(operation, &open(a), &open(b))
    }

    fn write(answer: Sip) -> Bytes {
        Bytes::Sip(answer)
    }

    fn ids(set: &Sip) -> Vec<u64> {
        set.iter().collect()
    }

    fn label(bytes: &[u8]) -> String {
        format!("basalt {:#04x}", bytes[0])
    }
}

fn combine(operation: Operation, a: &View<'_>, b: &View<'_>) -> Sip {
    match operation {
        Operation::Intersection => a.intersection(b),
        Operation::Union => a.union(b),
        Operation::Difference => a.difference(b),
    }
}
