//! Commands of the binary that need no server: they make what one is secured with.

pub(crate) mod key;
pub(crate) mod secure;
