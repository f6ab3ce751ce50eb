"""How far a load is, for people who watch it."""

from __future__ import annotations

import sys
import time
from typing import Any

_PATIENCE = 1.0  # seconds; what takes no longer needs no bar
_INTERVAL = 0.2


class Progress:
    """A bar on standard error, by tqdm where that is installed, otherwise a line of text.

    `wanted` is `None` for one in terminals and notebooks alone.
    """

    def __init__(self, table: str, rows: int | None, wanted: bool | None) -> None:
        self._wanted = _is_watched() if wanted is None else wanted
        self._table = table
        self._total = rows
        self._bar: Any = None
        self._begun = self._shown = time.monotonic()
        self._line = ""

    def update(self, rows: int, sent_bytes: int) -> None:
        """So many rows are with the server, so many bytes were sent."""
        now = time.monotonic()
        if not self._wanted or now - self._begun < _PATIENCE:
            return
        if self._bar is None:
            self._bar = _tqdm(self._table, self._total)
        if self._bar:
            self._bar.update(rows - self._bar.n)
        elif now - self._shown > _INTERVAL:
            self._shown = now
            of = f" of {self._total:,}" if self._total else ""
            rate = sent_bytes / (now - self._begun) / 1e6
            self._write(f"{self._table}: {rows:,}{of} rows, {rate:.1f} MB/s")

    def close(self) -> None:
        """Takes the bar away."""
        if self._bar:
            self._bar.close()
        elif self._line:
            self._write("")
            self._write("")

    def _write(self, line: str) -> None:
        # What was there before is overwritten.
        print(f"\r{line:{len(self._line)}}", end="", file=sys.stderr, flush=True)
        self._line = line


def _is_watched() -> bool:
    return "ipykernel" in sys.modules or sys.stderr.isatty()


def _tqdm(table: str, rows: int | None) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return False
    return tqdm(total=rows, desc=table, unit=" rows", unit_scale=True, leave=False)
