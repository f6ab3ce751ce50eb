"""Answers of different engines, compared."""

import datetime
import decimal
import math

# What sums of floats in another order may differ by.
RELATIVE_TOLERANCE = 1e-9

_EPOCH = datetime.datetime(1970, 1, 1)


def rows_of(table):
    """The rows of an Arrow table as plain values: times as microseconds, dates as days."""
    return [tuple(map(_plain, row.values())) for row in table.to_pylist()]


def _plain(value):
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - _EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - _EPOCH.date()).days
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, bool):
        return int(value)
    return value


def same(a, b):
    """Whether two answers agree: integers, decimals and texts exactly, floats nearly.

    Some engines give the mean of decimals as a decimal: beside a float it may be off by one in its last digit.
    """
    return len(a) == len(b) and all(len(x) == len(y) and all(map(_equal, x, y)) for x, y in zip(a, b))


def _equal(a, b):
    if float not in (type(a), type(b)) or None in (a, b):
        return a == b
    digit = max((_last_digit(value) for value in (a, b)))
    return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE, abs_tol=digit)


def _last_digit(value):
    return 10.0 ** value.as_tuple().exponent if isinstance(value, decimal.Decimal) else 0.0
