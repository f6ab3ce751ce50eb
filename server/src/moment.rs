//! Moments by a clock that goes on while the process or the machine stands still, so that a node notices that it was
//! away.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
    pub(crate) fn now() -> Self {
        Self { boot: since_boot(), wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() }
    }

    /// Whether `other` is not later.
    pub(crate) fn is_since(self, other: Self) -> bool {
        self.boot >= other.boot
    }

    pub(crate) fn later(self, other: Self) -> Self {
        if other.boot > self.boot { other } else { self }
    }

    /// The time that has passed, at least.
    pub(crate) fn passed(self) -> Duration {
        Self::now().boot.saturating_sub(self.boot)
    }

    /// Whether less than `time` has passed, whichever clock is asked: one that jumps ahead says that it has not.
    pub(crate) fn is_within(self, time: Duration) -> bool {
        let now = Self::now();
        now.boot.saturating_sub(self.boot).max(now.wall.saturating_sub(self.wall)) < time
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Elsewhere the wall clock tells of a suspension.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn since_boot() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_clock_that_jumps_ahead_ends_what_was_for_a_time() {
        let now = Moment::now();
        assert!(now.is_within(SECOND) && now.passed() < SECOND);
        let (boot, wall) = (now.boot, now.wall);
        assert!(!Moment { boot: boot - SECOND, wall }.is_within(SECOND));
        assert!(!Moment { boot, wall: wall - SECOND }.is_within(SECOND), "the wall clock was set");
        // One that is set back says nothing.
        assert!(Moment { boot, wall: wall + 10 * SECOND }.is_within(SECOND));
        assert!(now.is_since(Moment::default()) && !Moment::default().is_since(now));
        assert_eq!(Moment::default().later(now), now);
    }
}
