//! SIP/1: sets of 64-bit ids (row addresses, key values) in a small tagged wire format.
//!
//! A SIP (sideways information passing) is `tag | body`; `FORMAT.md` is the specification. Every set has one
//! canonical byte string per tag, and [`View::open`] and [`Sip::from_bytes`] accept nothing else. Reading
//! works on the wire bytes: a [`View`] borrows them and allocates nothing, a [`Sip`] owns them and adds a
//! small index.
//!
//! ```
//! use basalt_sip::{Limits, Sip, View};
//!
//! let sip = Sip::from_sorted_ids(&[0, 1, 3, 1 << 32]);
//! let other = Sip::from_ranges([1..=1000, 1 << 32..=1 << 33]);
//!
//! let received = View::open(sip.as_bytes(), &Limits::default())?;
//! assert!(received.contains(3) && !received.contains(2));
//! assert_eq!(received.intersection(&other.view()).iter().collect::<Vec<_>>(), [1, 3, 1 << 32]);
//! # Ok::<(), basalt_sip::SipError>(())
//! ```

mod blocks;
mod builder;
mod choose;
mod contents;
pub mod deletion_vector;
mod encode;
mod error;
pub mod frame;
mod groups;
mod ids;
mod index;
mod limits;
mod list;
mod mask;
mod masks;
mod ops;
mod ranges;
mod reader;
mod rice;
mod roaring;
mod sip;
mod tag;
mod varint;
mod view;

pub use builder::Builder;
pub use error::SipError;
pub use ids::Ids;
pub use limits::Limits;
pub use sip::Sip;
pub use tag::Tag;
pub use view::{BlockMask, Masks, View};

/// Ids of a block: as many as a roaring container can hold.
pub const BLOCK_IDS: u64 = 1 << 16;
/// Mask words of a block.
pub const BLOCK_WORDS: usize = 1 << 10;
