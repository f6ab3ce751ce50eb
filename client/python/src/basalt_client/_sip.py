"""Sets of 64-bit ids: algebra on their intervals, and the bytes of the SIP format (core/sip/FORMAT.md).

A set is its maximal intervals in order: no two of them touch. All forms are read, one is written: ranges (0x03), which
is never much larger than the smallest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import InvalidSet

Numbers = npt.NDArray[np.uint64]

_GROUP = 128
_ESCAPE = 16
_LAST = (1 << 64) - 1
_ONE = np.uint64(1)


class Intervals(NamedTuple):
    """The first and the last id of each interval."""

    first: Numbers
    last: Numbers

    def cardinality(self) -> int:
        return int((self.last - self.first).sum(dtype=object)) + len(self.first)

    def __contains__(self, id: object) -> bool:
        assert isinstance(id, int)
        if not 0 <= id <= _LAST:
            return False
        at = int(np.searchsorted(self.first, np.uint64(id), "right")) - 1
        return at >= 0 and id <= int(self.last[at])

    def ids(self) -> Numbers:
        """Every id, in order."""
        lengths = (self.last - self.first + _ONE).astype(np.int64)
        before = np.cumsum(lengths) - lengths
        return np.repeat(self.first - before.astype(np.uint64), lengths) + np.arange(lengths.sum(), dtype=np.uint64)


EMPTY = Intervals(np.zeros(0, np.uint64), np.zeros(0, np.uint64))


def of_ids(ids: Numbers) -> Intervals:
    """The set of some ids, in any order."""
    return _joined(ids := np.unique(ids), ids)


def intersection(a: Intervals, b: Intervals) -> Intervals:
    # The intervals of b that overlap an interval of a are consecutive.
    begin = np.searchsorted(b.last, a.first, "left")
    met = np.searchsorted(b.first, a.last, "right") - begin
    at = np.repeat(np.arange(len(a.first)), met)
    other = np.arange(len(at)) - np.repeat(np.cumsum(met) - met, met) + np.repeat(begin, met)
    return Intervals(np.maximum(a.first[at], b.first[other]), np.minimum(a.last[at], b.last[other]))


def complement(a: Intervals) -> Intervals:
    if not len(a.first):
        return Intervals(np.array([0], np.uint64), np.array([_LAST], np.uint64))
    first = np.concatenate([np.zeros(1, np.uint64), a.last + _ONE])
    last = np.concatenate([a.first - _ONE, np.array([_LAST], np.uint64)])
    # Where a begins with id 0, or ends with the last id, the subtraction or addition has wrapped around.
    begin, end = int(a.first[0] == 0), len(first) - int(a.last[-1] == _LAST)
    return Intervals(first[begin:end], last[begin:end])


def difference(a: Intervals, b: Intervals) -> Intervals:
    return intersection(a, complement(b))


def union(a: Intervals, b: Intervals) -> Intervals:
    return complement(intersection(complement(a), complement(b)))


def _joined(first: Numbers, last: Numbers) -> Intervals:
    """Intervals in order, those that touch as one."""
    if not len(first):
        return EMPTY
    begins = np.concatenate([[True], first[1:] - last[:-1] > 1])
    ends = np.concatenate([begins[1:], [True]])
    return Intervals(first[begins], last[ends])


def write(intervals: Intervals) -> bytes:
    """A set as ranges (0x03), or as the empty set."""
    if not len(intervals.first):
        return b"\x00"
    behind = np.concatenate([np.zeros(1, np.uint64), intervals.last[:-1] + np.uint64(2)])
    gaps, lengths = intervals.first - behind, intervals.last - intervals.first
    parts = [b"\x03", _varint(len(gaps))]
    for at in range(0, len(gaps), _GROUP):
        parts += [_rice(gaps[at : at + _GROUP]), _rice(lengths[at : at + _GROUP])]
    return b"".join(parts)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _rice(numbers: Numbers) -> bytes:
    """A Rice group."""
    middle = (len(numbers) + 1) // 2 - 1
    median = int(np.partition(numbers, middle)[middle])
    k = next((k for k in range(63) if 2 * median < 3 << k), 63)
    low = numbers[:, None] >> np.arange(k, dtype=np.uint64) & _ONE
    high = numbers >> np.uint64(k)
    zeros = np.minimum(high, _ESCAPE).astype(np.int64)
    ends = np.cumsum(zeros + 1)
    unary = np.zeros(ends[-1], np.uint8)
    unary[ends - 1] = 1
    escaped = b"".join(_varint(int(each) - _ESCAPE) for each in high[zeros == _ESCAPE])
    packed = (np.packbits(bits.ravel(), bitorder="little").tobytes() for bits in (low.astype(np.uint8), unary))
    return bytes([k]) + b"".join(packed) + escaped


def read(data: bytes) -> Intervals:
    """The set of bytes in any form.

    Raises:
        InvalidSet: The bytes are no set. Whether they are in canonical form is not checked.
    """
    forms: list[Callable[[_Reader], Intervals]] = [lambda _: EMPTY, _roaring, _varint_delta, _ranges, _gaps]
    reader = _Reader(data)
    tag = reader.take(1)[0]
    if tag >= len(forms):
        raise InvalidSet(f"a set in the form {tag:#04x}, which this client does not know")
    found = forms[tag](reader)
    if reader.at != len(data):
        raise InvalidSet(f"bytes behind the set, at byte {reader.at}")
    if np.any(found.first > found.last) or np.any(found.first[1:] <= found.last[:-1]):
        raise InvalidSet("the ids of a set are not in order")
    return _joined(*found)


class _Reader:
    """Bytes, and the position of the next one."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        if len(taken) < count:
            raise InvalidSet(f"a set is cut at byte {len(self.data)}")
        self.at += count
        return taken

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def numbers(self, count: int, width: int) -> Numbers:
        return np.frombuffer(self.take(count * width), f"<u{width}").astype(np.uint64)

    def varint(self) -> int:
        found = shift = 0
        while True:
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7

    def count(self, width: int) -> int:
        """How many of something there are, `width` bytes or, for 0, as a varint; at least one."""
        found = self.number(width) if width else self.varint()
        if found == 0:
            raise InvalidSet("a count of zero in a set that is not empty")
        return found

    def varints(self, count: int) -> Numbers:
        """Many of them; of more than 64 bits the lowest."""
        rest = np.frombuffer(self.data, np.uint8, offset=self.at)
        ends = np.flatnonzero(rest < 0x80)[:count]
        if len(ends) < count:
            raise InvalidSet(f"a set is cut at byte {len(self.data)}")
        starts = np.concatenate([[0], ends[:-1] + 1])
        found = np.zeros(count, np.uint64)
        for place in range(int((ends - starts).max(initial=0)) + 1):
            has = starts + place <= ends
            found[has] |= (rest[starts[has] + place] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * place)
        self.at += int(ends[-1]) + 1
        return found

    def rice(self, count: int) -> Numbers:
        """A Rice group."""
        k = self.take(1)[0]
        if k > 63:
            raise InvalidSet(f"a set with the parameter {k}")
        low = np.unpackbits(np.frombuffer(self.take((count * k + 7) // 8), np.uint8), bitorder="little")
        shifted = low[: count * k].reshape(count, k).astype(np.uint64) << np.arange(k, dtype=np.uint64)
        rest = np.frombuffer(self.data[self.at : self.at + (count * (_ESCAPE + 1) + 7) // 8], np.uint8)
        ends = np.flatnonzero(np.unpackbits(rest, bitorder="little"))[:count]
        if len(ends) < count:
            raise InvalidSet(f"a set is cut at byte {len(self.data)}")
        self.take(int(ends[-1]) // 8 + 1)
        high = np.diff(ends, prepend=-1).astype(np.uint64) - _ONE
        for place in np.flatnonzero(high == _ESCAPE):
            high[place] = (_ESCAPE + self.varint()) & _LAST
        result: Numbers = (high << np.uint64(k)) | shifted.sum(axis=1, dtype=np.uint64)
        return result


def _varint_delta(reader: _Reader) -> Intervals:
    ids = np.cumsum(reader.varints(reader.count(0)), dtype=np.uint64)
    return Intervals(ids, ids)


def _ranges(reader: _Reader) -> Intervals:
    gaps, lengths = [], []
    count = reader.count(0)
    for at in range(0, count, _GROUP):
        gaps.append(reader.rice(min(_GROUP, count - at)))
        lengths.append(reader.rice(min(_GROUP, count - at)))
    gap, more = np.concatenate(gaps), np.concatenate(lengths)
    # Between two ranges at least one id is left out, and not counted.
    last = np.cumsum(gap + more + np.uint64(2), dtype=np.uint64) - np.uint64(2)
    return Intervals(last - more, last)


def _gaps(reader: _Reader) -> Intervals:
    count = reader.count(0)
    groups = [reader.rice(min(_GROUP, count - at)) for at in range(0, count, _GROUP)]
    ids = np.cumsum(np.concatenate(groups) + _ONE, dtype=np.uint64) - _ONE
    return Intervals(ids, ids)


def _roaring(reader: _Reader) -> Intervals:
    parts = []
    for _ in range(reader.count(8)):
        bucket = reader.number(4) << 32
        for key, count, has_runs in _containers(reader):
            offsets = _container(reader, count, has_runs)
            base = np.uint64(bucket | key << 16)
            parts.append(Intervals(offsets.first + base, offsets.last + base))
    return Intervals(np.concatenate([part.first for part in parts]), np.concatenate([part.last for part in parts]))


def _containers(reader: _Reader) -> list[tuple[int, int, bool]]:
    """Of each container of a 32-bit bitmap its key, its number of ids, and whether it holds runs."""
    cookie = reader.number(4)
    if cookie & 0xFFFF == 12347:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(reader.take((count + 7) // 8), np.uint8), bitorder="little")
        has_offsets = count >= 4
    elif cookie == 12346:
        count = reader.count(4)
        flags = np.zeros(count if count <= 1 << 16 else 0, np.uint8)
        has_offsets = True
    else:
        raise InvalidSet("a roaring bitmap with another cookie")
    described = reader.numbers(2 * count, 2).reshape(count, 2)
    if has_offsets:
        reader.take(4 * count)
    return [(int(key), int(less_one) + 1, bool(flags[i])) for i, (key, less_one) in enumerate(described)]


def _container(reader: _Reader, count: int, has_runs: bool) -> Intervals:
    """The offsets of a container."""
    if has_runs:
        runs = reader.number(2)
        described = reader.numbers(2 * runs, 2).reshape(runs, 2)
        return Intervals(described[:, 0], described[:, 0] + described[:, 1])
    if count <= 4096:
        offsets = reader.numbers(count, 2)
    else:
        bits = np.unpackbits(np.frombuffer(reader.take(8192), np.uint8), bitorder="little")
        offsets = np.flatnonzero(bits).astype(np.uint64)
    return _joined(offsets, offsets)
