"""How calls are made: deadlines, and when to try again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from .errors import BasaltError

# A year, in seconds.
_LONGEST = 365 * 86_400.0


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long to try again what may succeed later (`BasaltError.retryable`). Times are seconds.

    No try begins that the call's deadline leaves no time for. A server that loads its tables is asked until the
    deadline, however many tries that takes, unless there is to be one alone.
    """

    tries: int = 5
    """Tries in all; 1 never tries again."""
    first_delay: float = 0.1
    """The wait before the second try; it doubles with every further one."""
    max_delay: float = 10.0
    """The longest wait. A server that wants more has its error raised instead."""

    def delay(self, error: BasaltError, tries: int) -> float | None:
        """The wait after failed try number `tries` (1, 2, ...), or `None` to give up."""
        if tries >= self.tries or not error.retryable:
            return None
        if error.retry_delay is None:
            return self.back_off(tries)
        return None if error.retry_delay > self.max_delay else max(error.retry_delay, self.back_off(tries))

    def back_off(self, tries: int) -> float:
        """The wait after so many failed tries where the server wishes for nothing."""
        # So many doublings are beyond every wait, and no float is.
        return min(self.first_delay * 2.0 ** min(tries - 1, 64), self.max_delay)


def jittered(delay: float) -> float:
    """Up to a quarter longer, so that clients that failed together do not return together."""
    return delay * (1 + random.random() / 4)


@dataclass(frozen=True)
class Options:
    """How a client makes its calls. Times are seconds."""

    deadline: float = 60.0
    """How long a call may take; the server stops its work then. Of a write it bounds the opening alone."""
    connect_timeout: float = 5.0
    """How long connecting may take."""
    max_message_bytes: int = 64 << 20
    """The largest message to accept."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """When to try again."""

    def __post_init__(self) -> None:
        if not self.deadline > 0:
            raise ValueError(f"a deadline is more than {self.deadline} seconds")
        # What is longer has no place in gRPC's times, and would have passed already.
        object.__setattr__(self, "deadline", min(self.deadline, _LONGEST))
