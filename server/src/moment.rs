//! Moments by a clock that goes on while the process or the machine stands still, so that a node notices that it was
//! away.

use std::time::{Duration, UNIX_EPOCH};

use crate::environment::Environment;

/// A moment on this machine. Both clocks go on while the process is stopped, the first also while the machine is
/// suspended; where a whole machine was stopped by its host, the wall clock is the one that is set right afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since the machine was started.
    boot: Duration,
    /// Since 1970.
    wall: Duration,
}

impl Moment {
    pub(crate) fn now(environment: &dyn Environment) -> Self {
        let wall = environment.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { boot: environment.since_boot(), wall }
    }

    /// Whether `other` is not later.
    pub(crate) fn is_since(self, other: Self) -> bool {
        self.boot >= other.boot
    }

    pub(crate) fn later(self, other: Self) -> Self {
        if other.boot > self.boot { other } else { self }
    }

    /// The time that has passed, at least.
    pub(crate) fn passed(self, environment: &dyn Environment) -> Duration {
        Self::now(environment).boot.saturating_sub(self.boot)
    }

    /// Whether less than `time` has passed, whichever clock is asked: one that jumps ahead says that it has not.
    pub(crate) fn is_within(self, time: Duration, environment: &dyn Environment) -> bool {
        let now = Self::now(environment);
        now.boot.saturating_sub(self.boot).max(now.wall.saturating_sub(self.wall)) < time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::process;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_clock_that_jumps_ahead_ends_what_was_for_a_time() {
        let environment = &*process();
        let now = Moment::now(environment);
        assert!(now.is_within(SECOND, environment) && now.passed(environment) < SECOND);
        let (boot, wall) = (now.boot, now.wall);
        assert!(!Moment { boot: boot - SECOND, wall }.is_within(SECOND, environment));
        assert!(
            !Moment { boot, wall: wall - SECOND }.is_within(SECOND, environment),
            "the wall clock was set"
        );
        // One that is set back says nothing.
        assert!(Moment { boot, wall: wall + 10 * SECOND }.is_within(SECOND, environment));
        assert!(now.is_since(Moment::default()) && !Moment::default().is_since(now));
        assert_eq!(Moment::default().later(now), now);
    }
}
