//! What the engine's own code guarantees.
//!
//! Where bytes from outside break a rule, that is an error: [`ErrorKind::Corrupt`](crate::error::ErrorKind::Corrupt)
//! when they are opened. What was opened, and what this code made itself, holds its rules; where one is found broken
//! nevertheless, the code is wrong, and so would be any value put in its place. So it panics, with a sentence, and the
//! request that met it reports an internal error.

use std::fmt::Debug;

const _: () = assert!(usize::BITS == u64::BITS, "sizes and row addresses are one another's");

/// A value that the code guarantees to be there.
pub trait Invariant {
    /// What it is.
    type Value;

    /// The value; `rule` says why there is one.
    ///
    /// # Panics
    /// Where the rule is broken.
    #[track_caller]
    fn invariant(self, rule: &str) -> Self::Value;
}

impl<T> Invariant for Option<T> {
    type Value = T;

    #[inline]
    #[track_caller]
    fn invariant(self, rule: &str) -> T {
        match self {
            Some(value) => value,
            None => broken(rule),
        }
    }
}

impl<T, E: Debug> Invariant for Result<T, E> {
    type Value = T;

    #[inline]
    #[track_caller]
    fn invariant(self, rule: &str) -> T {
        match self {
            Ok(value) => value,
            Err(error) => broken(&format!("{rule}: {error:?}")),
        }
    }
}

/// Reports a broken rule.
///
/// # Panics
/// Always.
#[cold]
#[inline(never)]
#[track_caller]
#[allow(clippy::panic, reason = "the one place: a wrong answer is worse than none")]
pub fn broken(rule: &str) -> ! {
    panic!("a rule of the engine is broken, please report it: {rule}")
}

/// A u64 as an index or a size: both have 64 bits.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "targets are 64-bit")]
pub const fn index(n: u64) -> usize {
    n as usize
}

/// A count that the limits keep far below 2^32.
///
/// # Panics
/// Where they do not.
#[inline]
#[track_caller]
pub fn count(n: usize) -> u32 {
    u32::try_from(n).invariant("the limits keep counts below 2^32")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_there_is_handed_on() {
        assert_eq!(Some(7).invariant("there is a seven"), 7);
        assert_eq!(u8::try_from(7).invariant("seven is small"), 7);
    }

    #[test]
    #[should_panic(expected = "please report it: there is a seven")]
    fn a_value_that_is_missing_is_reported() {
        None::<i32>.invariant("there is a seven");
    }

    #[test]
    #[should_panic(expected = "please report it: seven is small: TryFromIntError")]
    fn an_error_is_reported_with_its_rule() {
        u8::try_from(700).invariant("seven is small");
    }
}
