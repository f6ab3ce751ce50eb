//! Trying again: exponential backoff with jitter, and the server's own wishes.

use std::time::Duration;

use crate::error::{Error, Result};

/// How often and how long to try again what may succeed later ([`Error::is_retryable`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// No second try.
    pub fn never() -> Self {
        Self { tries: 1, ..Self::default() }
    }

    /// The wait after failed try number `tries` (1, 2, ...), or `None` to give up.
    pub fn delay(&self, error: &Error, tries: u32) -> Option<Duration> {
        if tries >= self.tries || !error.is_retryable() {
            return None;
        }
        let backoff = self.first_delay.saturating_mul(1_u32.checked_shl(tries - 1).unwrap_or(u32::MAX));
        match error.retry_delay() {
            Some(wanted) if wanted > self.max_delay => None,
            Some(wanted) => Some(wanted.max(backoff.min(self.max_delay))),
            None => Some(backoff.min(self.max_delay)),
        }
    }

    /// Runs `call` until it succeeds, fails for good, or the tries are spent.
    ///
    /// `call` is no `AsyncFnMut`: the compiler cannot show yet that what those return is `Send`.
    pub(crate) async fn run<T, F>(&self, mut call: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut tries = 0;
        loop {
            let error = match call().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            tries += 1;
            let Some(delay) = self.delay(&error, tries) else { return Err(error) };
            tokio::time::sleep(jittered(delay)).await;
        }
    }
}

/// Up to a quarter longer, so that clients that failed together do not return together.
fn jittered(delay: Duration) -> Duration {
    let random = uuid::Uuid::new_v4().as_bytes()[0];
    delay + delay.mul_f64(f64::from(random) / 255.0 / 4.0)
}

#[cfg(test)]
mod tests {
    use basalt_proto::v1::ErrorReason;
    use tonic::Code;

    use super::*;
    use crate::error::ServerError;

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

    #[tokio::test]
    async fn tries_are_bounded() {
        let policy = RetryPolicy { tries: 3, first_delay: Duration::ZERO, max_delay: Duration::ZERO };
        let mut calls = 0;
        let result: Result<()> = policy
            .run(|| {
                calls += 1;
                async { Err(server(Code::Unavailable, None)) }
            })
            .await;
        assert!(result.is_err());
        assert_eq!(calls, 3);
    }
}
