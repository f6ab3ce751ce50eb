"""Answers of different engines, compared."""

import datetime
import decimal
import math

import pyarrow as pa
import pyarrow.compute as pc

# What sums of floats in another order may differ by.
RELATIVE_TOLERANCE = 1e-9

_EPOCH = datetime.datetime(1970, 1, 1)


# Of more rows, what they have in sum is compared.
ROWS = 200_000


def rows_of(table, ordered=True):
    """The rows of an Arrow table as plain values: times as microseconds, dates as days. Those that have no order get one."""
    if table.num_rows > ROWS:
        return [(table.num_rows,), *map(_in_sum, table.columns)]
    rows = [tuple(map(_plain, row.values())) for row in table.to_pylist()]
    return rows if ordered else sorted(rows)


def _in_sum(column):
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or column.type == pa.string_view():
        texts = column.cast(pa.large_string())
        return texts.null_count, pc.min(texts).as_py(), pc.max(texts).as_py(), pc.count_distinct(texts).as_py()
    if pa.types.is_integer(column.type):
        column = column.cast(pa.int64())
    least, greatest = pc.min_max(column).as_py().values()
    return column.null_count, _plain(least), _plain(greatest), _plain(pc.sum(column).as_py())


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
