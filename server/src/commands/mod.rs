//! Commands of the binary that need no server: they make what one is secured with, copies of its tables, and what a
//! terminal knows of them.

pub(crate) mod backup;
pub(crate) mod complete;
pub(crate) mod key;
pub(crate) mod man;
pub(crate) mod secure;
