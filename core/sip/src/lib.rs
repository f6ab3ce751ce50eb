//! SIP/1: sets of 64-bit ids (row addresses, key values) in a small tagged wire format.
//!
//! A SIP (sideways information passing) is `tag | body`; `FORMAT.md` is the specification. Every set has one
//! canonical byte string per tag, and [`Sip::from_bytes`] accepts nothing else. Reading works on the wire
//! bytes: opening a SIP adds an index of its containers, never a decoded copy.
//!
//! ```
//! use basalt_sip::{Builder, Limits, Sip};
//!
//! let mut builder = Builder::new();
//! builder.push_words(0, &[0b1011]); // ids 0, 1 and 3
//! builder.push_range(1 << 32, (1 << 32) + 100_000);
//! let sip = builder.finish();
//!
//! let received = Sip::from_bytes(sip.as_bytes(), &Limits::default())?;
//! assert_eq!(received.cardinality(), 100_003);
//! assert!(received.contains(3) && !received.contains(2));
//! # Ok::<(), basalt_sip::SipError>(())
//! ```

mod builder;
mod error;
mod limits;
mod mask;
mod reader;
mod roaring;
mod sip;
mod tag;
mod varint;
mod varint_delta;

pub use builder::Builder;
pub use error::SipError;
pub use limits::Limits;
pub use sip::{BLOCK_IDS, BLOCK_WORDS, BlockMask, Ids, Sip};
pub use tag::Tag;
