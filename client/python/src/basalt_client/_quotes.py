"""Whether the quotes of a CSV are those of its fields.

PyArrow reads on where one is missing or one too many: the rows up to the next one are then one value, and what stands
behind one that closes a field is part of it. `basalt load` refuses both, and so does this, in a pass of its own over
the bytes.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ._texts import shown

_BLOCK_BYTES = 4 << 20
_BOM = b"\xef\xbb\xbf"
_QUOTE = ord('"')


def first_wrong(stream: Any, delimiter: str) -> tuple[int, str] | None:
    """Where a quote is that is never closed, or that closes a field with something behind it, and what is wrong."""
    quotes = _Quotes(delimiter)
    file = io.BufferedReader(stream)
    block = file.read(_BLOCK_BYTES)
    skipped = len(_BOM) if block.startswith(_BOM) else 0
    # A file begins and ends as a line does. What follows the last byte of a block is known with the next.
    text, at, block = b"\n", skipped - 1, block[skipped:]
    while block:
        text += block
        if wrong := quotes.take(text, at):
            return wrong
        at += len(text[:-2])
        text = text[-2:]
        block = file.read(_BLOCK_BYTES)
    return quotes.take(text + b"\n", at) or quotes.end()


def line_of(stream: Any, at: int) -> int:
    """The line that a byte is in, from 1."""
    file, line, last = io.BufferedReader(stream), 1, b""
    while at > 0 and (block := file.read(min(at, _BLOCK_BYTES))):
        at -= len(block)
        line += block.count(b"\n") + block.count(b"\r") - (last + block).count(b"\r\n")
        last = block[-1:]
    return line


class _Quotes:
    """What the quotes of a text are, block by block."""

    def __init__(self, delimiter: str) -> None:
        self._ends = frozenset((ord(delimiter), *b"\r\n"))
        # What may stand beside a quote that begins or ends a field, or is one of two that are one.
        self._beside = np.isin(np.arange(256), [*self._ends, _QUOTE])
        self._is_open = False
        # The last quote and the next are one within a field.
        self._is_pair = False
        self._opened = 0

    def take(self, text: bytes, at: int) -> tuple[int, str] | None:
        """Goes through the quotes of a text but for its first byte and its last; `at`: where it begins."""
        if b'"' not in text:
            return None
        quotes = np.flatnonzero(np.frombuffer(text, np.uint8)[1:-1] == _QUOTE) + 1
        if len(quotes) == 0 or self._take_all(text, at, quotes):
            return None
        for each in quotes.tolist():
            behind = text[each + 1]
            if not self._is_open:
                # Within a field without quotes it is a character as any other.
                if text[each - 1] in self._ends:
                    self._is_open, self._opened = True, at + each
            elif self._is_pair or behind == _QUOTE:
                self._is_pair = not self._is_pair
            elif behind in self._ends:
                self._is_open = False
            else:
                rest = text[each + 1 :]
                end = next((n for n, byte in enumerate(rest) if byte in self._ends), len(rest))
                what = f"{shown(rest[:end].decode(errors='replace'))} stands behind the quote that closes the field"
                return at + each, f"{what}; a quote inside quotes is written twice"
        return None

    def _take_all(self, text: bytes, at: int, quotes: Any) -> bool:
        """Takes quotes that begin and end fields in turn, as most do; `False`: one does not, and none is taken."""
        each = np.frombuffer(text, np.uint8)
        begins = not self._is_open or self._is_pair
        if begins and not self._is_pair and each[quotes[0] - 1] == _QUOTE:
            return False
        opening, closing = (quotes[::2], quotes[1::2]) if begins else (quotes[1::2], quotes[::2])
        if not (self._beside[each[opening - 1]].all() and self._beside[each[closing + 1]].all()):
            return False
        first = opening[each[opening - 1] != _QUOTE]
        self._opened = at + int(first[-1]) if len(first) else self._opened
        ends_field = (len(quotes) % 2 == 1) != begins
        self._is_pair = bool(ends_field and each[quotes[-1] + 1] == _QUOTE)
        self._is_open = self._is_pair or not ends_field
        return True

    def end(self) -> tuple[int, str] | None:
        """Nothing follows."""
        return (self._opened, "a quote is left open, and the rest of the file is in it") if self._is_open else None
