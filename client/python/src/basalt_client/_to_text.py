"""Values as the texts that they have in a column of texts, which are those of `basalt load`."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa

# Between which powers of ten a float is written without an exponent.
_PLAIN = {32: (-6, 13), 64: (-5, 16)}


def to_texts(array: pa.Array) -> pa.Array:
    """The texts of integers, floats, decimals, bools, dates, timestamps, times of day and bytes."""
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_date32(kind) or pa.types.is_boolean(kind):
        return array.cast(pa.string())
    if pa.types.is_floating(kind):
        return _each(array, lambda value: _float(value, kind))
    if pa.types.is_timestamp(kind):
        return _each(array, lambda moment: f"{moment.year:04}{moment:-%m-%dT%H:%M:%S}{_fraction(moment)}Z")
    if pa.types.is_time(kind):
        return _each(array, lambda time: f"{time:%H:%M:%S}{_fraction(time)}")
    return _each(array, bytes.hex)


def _each(array: pa.Array, text: Callable[[Any], str]) -> pa.Array:
    return pa.array((None if value is None else text(value) for value in array.to_pylist()), pa.string())


def _fraction(time: dt.datetime | dt.time) -> str:
    """What is behind the second, in milliseconds where that is enough."""
    if time.microsecond == 0:
        return ""
    return f".{time.microsecond // 1000:03}" if time.microsecond % 1000 == 0 else f".{time.microsecond:06}"


def _float(value: float, kind: pa.DataType) -> str:
    """A float in its fewest digits."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
    fewest = repr(value) if kind == pa.float64() else str(pa.scalar(value, kind).cast(pa.string()))
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    parts = decimal.Decimal(fewest).normalize().as_tuple()
    assert isinstance(parts.exponent, int)
    digits, exponent = "".join(map(str, parts.digits)), parts.exponent
    point = len(digits) + exponent
    smallest, largest = _PLAIN[64 if kind == pa.float64() else 32]
    if exponent >= 0 and point <= largest:
        return f"{sign}{digits}{'0' * exponent}.0"
    if 0 < point <= largest:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if smallest < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1}"
