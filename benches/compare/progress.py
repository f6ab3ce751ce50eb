"""One line of progress on standard error."""

import contextlib
import sys
import time


@contextlib.contextmanager
def stage(what, total=0):
    """Shows that `what` is under way; the function it gives takes how much of `total` is done."""
    started = time.monotonic()
    shown = 0.0

    def line(text, end):
        sys.stderr.write(f"\r\x1b[K{text}{end}" if sys.stderr.isatty() else f"{text}\n")
        sys.stderr.flush()

    def done(amount):
        nonlocal shown
        now = time.monotonic()
        if sys.stderr.isatty() and now - shown > 0.1:
            shown = now
            left = (now - started) * (total - amount) / max(amount, 1)
            line(f"{what}: {amount / max(total, 1):4.0%}, {left:.0f} s left", "")

    if sys.stderr.isatty():
        line(f"{what} ...", "")
    try:
        yield done
    except BaseException:
        line(f"{what}: failed", "\n")
        raise
    line(f"{what}: {time.monotonic() - started:.1f} s", "\n")
