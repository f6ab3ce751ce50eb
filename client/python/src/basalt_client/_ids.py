"""Values as ids of a set, and back.

Integers are 64-bit two's complement, bool 0 or 1, dates days, timestamps microseconds, decimals of up to 18 digits
unscaled.
"""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa

from . import _types as types
from ._sip import Numbers
from .errors import InvalidSet

_ID_DECIMAL_DIGITS = 18


def id_type(data_type: pa.DataType) -> pa.DataType:
    """The type of columns that holds such values and has ids."""
    if pa.types.is_integer(data_type) or data_type in (pa.bool_(), pa.date32()):
        return data_type
    if pa.types.is_timestamp(data_type):
        return types.TIMESTAMP
    if pa.types.is_date64(data_type):
        return pa.date32()
    if pa.types.is_decimal128(data_type) and data_type.precision <= _ID_DECIMAL_DIGITS:
        return data_type
    raise InvalidSet(f"values of type {types.type_name(data_type)} are no ids")


def to_ids(array: pa.Array) -> Numbers:
    """The ids of values, none of which is null."""
    ids: Numbers
    data_type = array.type
    if pa.types.is_uint64(data_type):
        ids = array.to_numpy()
        return ids
    if pa.types.is_timestamp(data_type):
        array = array.view(pa.int64())
    elif pa.types.is_date32(data_type):
        array = array.view(pa.int32())
    elif pa.types.is_decimal128(data_type):
        words = np.frombuffer(array.buffers()[1], "<u8")
        return words[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    ids = array.cast(pa.int64()).to_numpy().view(np.uint64)
    return ids


def from_ids(ids: Numbers, data_type: pa.DataType) -> pa.Array:
    """The values of ids, in their own order."""
    if pa.types.is_uint64(data_type):
        return pa.array(ids)
    values = np.sort(ids.view(np.int64))
    if pa.types.is_timestamp(data_type):
        return pa.array(values).view(data_type)
    if pa.types.is_date32(data_type):
        return pa.array(values.astype(np.int32)).view(data_type)
    if pa.types.is_decimal128(data_type):
        words = np.stack([values, values >> 63], axis=1)
        return pa.Array.from_buffers(data_type, len(values), [None, pa.py_buffer(words.tobytes())])
    return pa.array(values).cast(data_type)


def find_id(value: object, data_type: pa.DataType) -> int | None:
    """The id of a value; `None` where the type has no such value."""
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=dt.timezone.utc)
    try:
        array = pa.array([value], data_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    # Arrow cuts what does not fit, as 2.5 of an integer.
    return int(to_ids(array)[0]) if array[0].as_py() == value else None
