//! Columns of few values in every encoding: sizes against the entropy, and what is asked of them.

pub mod holdings;
pub mod questions;
pub mod sizes;
pub mod source;
