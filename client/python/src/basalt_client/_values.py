"""Between Python's values and the API's literals."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np

from . import _proto as pb
from .errors import InvalidData

_EPOCH_DAY = dt.date(1970, 1, 1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MICROSECOND = dt.timedelta(microseconds=1)
_INT64 = range(-(1 << 63), 1 << 63)
_UINT64 = range(1 << 64)
_INT64_DIGITS = 19
# Digits behind the point, of the API's decimals.
_MAX_SCALE = 38


def to_literal(value: Any) -> Any:
    """The API's `Value` of a literal in a query: bytes are the digits that binary columns are compared with."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return pb.Value(text=bytes(value).hex())
    return to_value(value)


def wide(value: Any) -> decimal.Decimal | None:
    """A value that is a decimal of more than 64 bits, for which there is only a text in the API; else nothing."""
    value = _plain(value)
    is_wide = isinstance(value, decimal.Decimal) and value.is_finite() and _digits(value) is None
    return value if is_wide else None


def to_value(value: Any) -> Any:
    """The API's `Value` of a Python value, exactly, or an error.

    `None`, bool, int (of 64 bits), float, `Decimal`, str, date, time, datetime (without a zone it is UTC), and the
    scalars of numpy, pandas and PyArrow that are these.
    """
    value = _plain(value)
    if value is None:
        return pb.Value(null=True)
    if isinstance(value, bool):
        return pb.Value(bool=value)
    if isinstance(value, int):
        if value in _INT64:
            return pb.Value(int=value)
        if value in _UINT64:
            return pb.Value(uint=value)
        raise InvalidData(f"{value} has more than 64 bits")
    if isinstance(value, float):
        return pb.Value(double=value)
    if isinstance(value, str):
        try:
            return pb.Value(text=value)
        except UnicodeEncodeError as error:
            raise InvalidData(f"a text that is no Unicode: {error}") from None
    if isinstance(value, decimal.Decimal):
        return _decimal(value)
    if isinstance(value, dt.datetime):
        return pb.Value(timestamp=microseconds(value))
    if isinstance(value, dt.date):
        return pb.Value(date=(value - _EPOCH_DAY).days)
    if isinstance(value, dt.time):
        if value.tzinfo is not None:
            raise InvalidData(f"{value}: a time of day has no zone")
        return pb.Value(text=value.isoformat())
    raise InvalidData(f"a value of type {type(value).__qualname__} is no literal")


def microseconds(time: dt.datetime) -> int:
    """Since 1970-01-01T00:00:00Z; a time without a zone is UTC."""
    if getattr(time, "nanosecond", 0):
        raise InvalidData(f"{time} is finer than a microsecond")
    return ((time if time.tzinfo else time.replace(tzinfo=dt.timezone.utc)) - _EPOCH) // _MICROSECOND


def from_value(value: Any) -> Any:
    """The Python value of an API's `Value`. Days and microseconds beyond Python's calendar are numbers."""
    kind = value.WhichOneof("kind")
    if kind in (None, "null"):
        return None
    found = getattr(value, kind)
    try:
        if kind == "decimal":
            return decimal.Decimal(found.unscaled).scaleb(-found.scale)
        if kind == "date":
            return _EPOCH_DAY + dt.timedelta(days=found)
        if kind == "timestamp":
            return _EPOCH + dt.timedelta(microseconds=found)
    except OverflowError:
        pass
    return found


def _plain(value: Any) -> Any:
    """The Python value of what other libraries have for one."""
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return None
        unit = "D" if np.datetime_data(value)[0] == "D" else "us"
        finer = value.astype(f"datetime64[{unit}]")
        if finer != value:
            raise InvalidData(f"{value} is finer than a microsecond")
        return finer.item()
    if isinstance(value, np.generic):
        return value.item()
    module = type(value).__module__.partition(".")[0]
    if module == "pyarrow" and hasattr(value, "as_py"):
        return value.as_py()
    if module == "pandas" and type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value


def _decimal(value: decimal.Decimal) -> Any:
    if not value.is_finite():
        raise InvalidData(f"{value} is no decimal of a column; floats have such values")
    found = _digits(value)
    # A literal has 64 bits, its text all digits.
    return pb.Value(text=f"{value:f}") if found is None else pb.Value(decimal=found)


def _digits(value: decimal.Decimal) -> Any:
    """The API's decimal of 64 bits; `None` where the value has more. Zeros at its end are kept where there is room."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if not value:
        return pb.Decimal(unscaled=0, scale=min(max(-exponent, 0), _MAX_SCALE))
    if value.adjusted() > _INT64_DIGITS or len(digits) > _INT64_DIGITS + _MAX_SCALE:
        return None
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0) * (-1 if sign else 1)
    scale = max(-exponent, 0)
    while scale > 0 and unscaled % 10 == 0 and (unscaled not in _INT64 or scale > _MAX_SCALE):
        unscaled, scale = unscaled // 10, scale - 1
    return pb.Decimal(unscaled=unscaled, scale=scale) if unscaled in _INT64 and scale <= _MAX_SCALE else None
