"""JSON files some lines at a time: of one object each, or made of an array, or of objects one behind the other."""

from __future__ import annotations

import functools
import io
import json
import pathlib
import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ._csv import BLOCK_BYTES
from ._texts import has_beyond, shown
from .errors import InvalidData

_READ_BYTES = 1 << 20
_BUFFER_BYTES = 1 << 16
# Numbers behind a key with more digits than the 15 that every float has.
_LONG = re.compile(rb":\s*-?(?=[0-9.]{17})([0-9]*\.[0-9]+)[,}\s]")
# As of `basalt load`. Readers of JSON go down with each level, and PyArrow's ends the process where there is no room.
_MAX_DEPTH = 128
_STRINGS_AND_LEVELS = re.compile(rb'"(?:[^"\\]|\\.)*"|([\[{])|[\]}]')
_SPACES = re.compile(r"[ \t\r\n]*")


class Block:
    """Lines, each an object or empty, and the number of the first."""

    def __init__(self, data: bytes, first: int) -> None:
        self.data = data
        self.first = first

    @functools.cached_property
    def has_beyond(self) -> bool:
        """Whether there may be a fraction that no float is written as."""
        found = pa.array(_LONG.findall(self.data), pa.binary()).cast(pa.string())
        return has_beyond(found, found.cast(pa.float64()))

    def too_deep(self) -> int | None:
        """The number of the first line that nests too deep."""
        signs = np.frombuffer(self.data, np.uint8)
        levels = np.flatnonzero((signs == ord("[")) | (signs == ord("{")))
        ends = np.append(np.flatnonzero(signs == ord("\n")), len(signs))
        # No line is deeper than it has such signs.
        counts = np.bincount(np.searchsorted(ends, levels), minlength=1)
        for at in np.flatnonzero(counts > _MAX_DEPTH):
            line = self.data[int(ends[at - 1]) + 1 if at else 0 : int(ends[at])]
            if _depth(line) > _MAX_DEPTH:
                return self.first + int(at)
        return None

    def lines(self) -> list[bytes]:
        """Those that are not empty."""
        return [line for line in self.data.split(b"\n") if line.strip()]

    def numbers(self) -> list[int]:
        """Their numbers."""
        return [number for number, line in enumerate(self.data.split(b"\n"), self.first) if line.strip()]


def _depth(line: bytes) -> int:
    depth = deepest = 0
    for part in _STRINGS_AND_LEVELS.finditer(line):
        if part[1]:
            depth += 1
            deepest = max(deepest, depth)
        elif part[0][:1] != b'"':
            depth -= 1
    return deepest


class Blocks:
    """The blocks of a file."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self.has_lines = True
        """Whether each object has a line of its own, once a block was read; else the numbers are those of rows."""

    def __iter__(self) -> Iterator[Block]:
        with pa.input_stream(str(self._path), compression="detect") as stream:
            file = io.BufferedReader(stream, _BUFFER_BYTES)
            begin = file.peek(3)
            if begin.startswith(b"\xef\xbb\xbf"):
                file.read(3)
            begin = file.peek(1).lstrip()
            is_array = begin[:1] == b"["
            self.has_lines = _has_lines(begin) if is_array else not _goes_on(begin)
            read = _lines if self.has_lines else _objects
            for block in read(file, self._path, is_array):
                row = block.too_deep()
                if row is not None:
                    place = f"{self._path}:{row}" if self.has_lines else f"{self._path}: row {row}"
                    raise InvalidData(f"{place}: the row nests deeper than {_MAX_DEPTH} levels")
                yield block


def _lines(file: io.BufferedReader, path: pathlib.Path, is_array: bool) -> Iterator[Block]:
    """Lines, whose commas at the end are left out where they are an array's."""
    number = 1
    if is_array:
        while b"[" not in file.readline():
            number += 1
        number += 1
    while data := file.read(BLOCK_BYTES):
        data += file.readline()
        if is_array:
            data = data.replace(b"},\n", b"}\n").replace(b"},\r\n", b"}\n")
            if not file.peek(1):
                if not data.rstrip().endswith(b"]"):
                    raise InvalidData(f"{path}: the array has no end")
                data = data.rstrip()[:-1]
        if not data.isspace() and data:
            yield Block(data, number)
        number += data.count(b"\n")


def _has_lines(begin: bytes) -> bool:
    """Whether an array has a line for each of its objects, as `basalt query` writes it."""
    lines = begin.split(b"\n", 2)
    try:
        return lines[0].strip() == b"[" and isinstance(json.loads(lines[1].strip().removesuffix(b",")), dict)
    except (ValueError, IndexError, RecursionError):
        return False


def _goes_on(begin: bytes) -> bool:
    """Whether the first line ends in the middle of an object, or has more than one."""
    line, end, _ = begin.partition(b"\n")
    if not end and len(begin) >= _BUFFER_BYTES:
        return False
    try:
        text = line.decode().rstrip()
        _, at = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as error:
        return bool(end) and error.pos >= len(text)
    except (ValueError, RecursionError):
        return False
    return text[at:].lstrip().startswith("{")


def _objects(file: io.BufferedReader, path: pathlib.Path, is_array: bool) -> Iterator[Block]:
    """The objects of an array, or those that stand one behind the other, as lines."""
    decoder = json.JSONDecoder()
    text = io.TextIOWrapper(file, "utf-8")
    row = 1
    lines: list[str] = []
    size = 0

    def wrong(what: str) -> InvalidData:
        return InvalidData(f"{path}: row {row + len(lines)}: {what}")

    try:
        rest = text.read(_READ_BYTES)
        at = _SPACES.match(rest).end() + is_array  # type: ignore[union-attr]
        # Whether another object may begin here.
        separated = True
        while True:
            at = _SPACES.match(rest, at).end()  # type: ignore[union-attr]
            if is_array and rest[at : at + 1] == "]" and (not separated or row + len(lines) == 1):
                break
            if not separated and at < len(rest):
                if rest[at] != ",":
                    raise wrong(f"{shown(rest[at:])} where a comma or the end of the array is due")
                separated, at = True, at + 1
                continue
            try:
                if at == len(rest):
                    raise ValueError("the array has no end")
                _, end = decoder.raw_decode(rest, at)
            except RecursionError:
                raise wrong(f"the row nests deeper than {_MAX_DEPTH} levels") from None
            except ValueError as error:
                more = text.read(max(_READ_BYTES, len(rest) - at))
                if not more and at == len(rest) and not is_array:
                    break
                if not more:
                    raise wrong(str(error)) from None
                rest, at = rest[at:] + more, 0
                continue
            # A line break in an object stands between its values.
            line = rest[at:end].replace("\n", " ").replace("\r", " ")
            lines.append(line)
            size += len(line)
            at, separated = end, not is_array
            if size >= BLOCK_BYTES:
                yield Block(("\n".join(lines) + "\n").encode(), row)
                row += len(lines)
                lines, size = [], 0
        behind = rest[at + 1 :] + text.read()
        if behind.strip():
            raise wrong(f"{shown(behind.strip())} behind the array")
    except UnicodeDecodeError:
        raise wrong("it is not UTF-8, or the rows behind it are not") from None
    if lines:
        yield Block(("\n".join(lines) + "\n").encode(), row)
