//! Trying again: exponential backoff with jitter, and the server's own wishes.

use std::time::Duration;

use crate::error::Error;

/// How often and how long to try again what may succeed later ([`Error::is_retryable`]).
///
/// Where the client has several addresses, each of them is asked once before the first wait; these are tries as well. No try
/// begins, and nothing is waited for, that the call's deadline leaves no time for. Where the last try is cut short by it,
/// having had less time than was waited before it, the error is that of the try before, which says why the call failed. A
/// server that says when to come again (`RetryInfo`) is given that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Tries in all; 1 never tries again.
    pub tries: u32,
    /// The wait before the second try; it doubles with every further one.
    pub first_delay: Duration,
    /// The longest wait. A server that wants more has the error returned instead.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    /// Five tries: after 0.1, 0.2, 0.4 and 0.8 seconds.
    fn default() -> Self {
        Self { tries: 5, first_delay: Duration::from_millis(100), max_delay: Duration::from_secs(10) }
    }
}

impl RetryPolicy {
    /// The default policy.
    pub fn new() -> Self {
        Self::default()
    }

    /// No second try.
    pub fn never() -> Self {
        Self { tries: 1, ..Self::default() }
    }

    /// With another number of [`tries`](Self::tries).
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries;
        self
    }

    /// With another [`first_delay`](Self::first_delay).
    #[must_use]
    pub fn first_delay(mut self, delay: Duration) -> Self {
        self.first_delay = delay;
        self
    }

    /// With another [`max_delay`](Self::max_delay).
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay;
        self
    }

    /// The wait after failed try number `tries` (1, 2, ...), or `None` to give up.
    pub fn delay(&self, error: &Error, tries: u32) -> Option<Duration> {
        if tries >= self.tries || !error.is_retryable() {
            return None;
        }
        match error.retry_delay() {
            Some(wanted) if wanted > self.max_delay => None,
            Some(wanted) => Some(wanted.max(self.back_off(tries))),
            None => Some(self.back_off(tries)),
        }
    }

    /// The wait after so many failed tries where the server wishes for nothing.
    pub(crate) fn back_off(&self, tries: u32) -> Duration {
        let doubled = 1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first_delay.saturating_mul(doubled).min(self.max_delay)
    }
}

/// Up to a quarter longer, so that clients that failed together do not return together.
pub(crate) fn jittered(delay: Duration) -> Duration {
    let random = uuid::Uuid::new_v4().as_bytes()[0];
    delay + delay.mul_f64(f64::from(random) / 255.0 / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Code, ErrorReason, ServerError};

    fn server(code: Code, retry_delay: Option<Duration>) -> Error {
        let (message, places) = (String::new(), Vec::new());
        Error::Server(Box::new(ServerError {
            code,
            reason: ErrorReason::Unspecified,
            message,
            places,
            retry_delay,
        }))
    }

    #[test]
    fn delays() {
        let ms = Duration::from_millis;
        let policy = RetryPolicy { tries: 4, first_delay: ms(100), max_delay: ms(250) };
        let unavailable = server(Code::Unavailable, None);
        let delays: Vec<_> = (1..=4).map(|tries| policy.delay(&unavailable, tries)).collect();
        assert_eq!(delays, [Some(ms(100)), Some(ms(200)), Some(ms(250)), None]);

        let busy = |delay| server(Code::ResourceExhausted, delay);
        assert_eq!(policy.delay(&busy(Some(ms(220))), 1), Some(ms(220)));
        assert_eq!(policy.delay(&busy(Some(ms(10))), 2), Some(ms(200)));
        assert_eq!(policy.delay(&busy(Some(ms(300))), 1), None);
        assert_eq!(policy.delay(&busy(None), 1), None);
        assert_eq!(policy.delay(&server(Code::NotFound, None), 1), None);
        assert_eq!(RetryPolicy::never().delay(&unavailable, 1), None);
    }
}
