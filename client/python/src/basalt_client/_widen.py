"""One type for what several files have in a column, by the rules of `basalt load`.

Integers become wider ones, floats and decimals what holds both, dates timestamps. That the values fit is checked value
by value when they are read: an integer that a float cannot hold is an error, never another number.
"""

from __future__ import annotations

import sys

import pyarrow as pa

from ._types import MAX_DECIMAL_DIGITS, TIMESTAMP


def widened(before: pa.Field, field: pa.Field) -> pa.Field | None:
    """A column that holds the values of both; `None` where text alone does."""
    found = _common(before.type, field.type)
    metadata = {**(field.metadata or {}), **(before.metadata or {})} or None
    nullable = before.nullable or field.nullable
    return None if found is None else pa.field(before.name, found, nullable, metadata)


def _common(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    t = pa.types
    if a == b or t.is_null(b):
        return a
    if t.is_null(a):
        return b
    if _is_exact(a) and _is_exact(b):
        is_mixed = t.is_integer(a) and t.is_integer(b) and t.is_signed_integer(a) != t.is_signed_integer(b)
        if t.is_decimal(a) or t.is_decimal(b) or (is_mixed and pa.uint64() in (a, b)):
            return _decimal(a, b)
    elif _is_number(a) and _is_number(b):
        exact = [each for each in (a, b) if not t.is_floating(each)]
        if not exact:
            return pa.float64()
        (other,) = exact
        if t.is_decimal(other):
            # A float holds as many digits as they are written.
            return pa.float64() if other.precision <= sys.float_info.dig else None
        return pa.float32() if pa.float64() not in (a, b) and other.bit_width <= 16 else pa.float64()
    if {a, b} <= {pa.date32(), TIMESTAMP}:
        return TIMESTAMP
    try:
        return (
            pa.unify_schemas([pa.schema([("", each)]) for each in (a, b)], promote_options="permissive").field(0).type
        )
    except pa.ArrowException:
        return None


def _is_exact(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(data_type) or pa.types.is_decimal(data_type))


def _is_number(data_type: pa.DataType) -> bool:
    return _is_exact(data_type) or bool(pa.types.is_floating(data_type))


def _decimal(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The decimal that holds two types of integers or decimals, if it has not too many digits."""
    (a_whole, a_scale), (b_whole, b_scale) = _digits(a), _digits(b)
    scale = max(a_scale, b_scale)
    digits = max(a_whole, b_whole) + scale
    return pa.decimal128(digits, scale) if digits <= MAX_DECIMAL_DIGITS else None


def _digits(data_type: pa.DataType) -> tuple[int, int]:
    """How many a type has before the point, and behind it."""
    if pa.types.is_decimal(data_type):
        return data_type.precision - data_type.scale, data_type.scale
    largest = (1 << (data_type.bit_width - pa.types.is_signed_integer(data_type))) - 1
    return len(str(largest)), 0
