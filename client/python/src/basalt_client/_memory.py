"""Rows in memory as PyArrow tables: of pandas, Polars, numpy and Python."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ._types import MAX_DECIMAL_DIGITS
from .errors import InvalidData

# Types of what pandas has in place of a value.
_MISSING = ("NAType", "NaTType")
_NAMED = "pandas.DataFrame(rows, columns=[...]) names columns"


def table_of(data: Any) -> pa.Table | None:
    """The rows of a frame, a table, a dict of columns, or a list of dicts; `None` of anything else.

    Raises:
        InvalidData: Values that are no column.
        TypeError: What has no columns, and how it may have some.
    """
    library = type(data).__module__.partition(".")[0]
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if library in ("pandas", "polars") and hasattr(data, "to_frame"):
        raise TypeError("a series is not a table: use its frame, `series.to_frame()`")
    if library == "pandas" and hasattr(data, "columns"):
        return _of_pandas(data)
    if library == "polars":
        return _of_polars(data)
    if isinstance(data, np.ndarray):
        if data.dtype.names is None:
            raise TypeError(f"an array has no names of columns; {_NAMED}")
        return _of_columns({name: data[name] for name in data.dtype.names})
    if isinstance(data, Mapping):
        return _of_columns(data)
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _of_records(data)
    return None


def is_column(value: Any) -> bool:
    """Whether something in a dict is a column, and not a value of a row."""
    return isinstance(value, (list, tuple, np.ndarray, pa.Array, pa.ChunkedArray)) or hasattr(value, "to_frame")


def _of_pandas(frame: Any) -> pa.Table:
    named = [level for level, name in enumerate(frame.index.names) if name is not None]
    if taken := {_name(frame.index.names[level]) for level in named} & {_name(name) for name in frame.columns}:
        raise InvalidData(f"the index and a column have one name: {min(taken)}; reset_index(drop=True) leaves it out")
    if named:
        # A named index is data, such as the keys of groups; one without a name counts rows.
        frame = frame.reset_index(level=named)
    names = [_name(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise InvalidData(f"two columns have one name: {', '.join(names)}")
    frame = frame.set_axis(names, axis=1)
    own: dict[str, pa.Array] = {}
    for name, dtype in frame.dtypes.items():
        if type(dtype).__name__ == "SparseDtype":
            frame = frame.assign(**{name: frame[name].sparse.to_dense()})
        elif isinstance(dtype, np.dtype) and dtype.kind == "O" and (values := exact(frame[name])) is not None:
            own[name] = values
    table = pa.Table.from_pandas(frame.drop(columns=list(own)), preserve_index=False) if len(own) < len(names) else None
    return pa.table({name: own[name] if table is None or name in own else table[name] for name in names})


def _name(name: Any) -> str:
    """A column's name; of several levels, as `agg` makes them, those that say something."""
    return "_".join(str(each) for each in name if each != "") if isinstance(name, tuple) else str(name)


def _of_polars(data: Any) -> pa.Table:
    frame = data.collect() if hasattr(data, "collect") else data
    if objects := [name for name, dtype in frame.schema.items() if str(dtype).startswith("Object")]:
        # As Arrow they are addresses in memory.
        raise InvalidData(f"column {objects[0]!r} has Python's objects, which no table holds; as texts they are")
    wide = [name for name, dtype in frame.schema.items() if str(dtype) in ("Int128", "UInt128")]
    if wide:
        import polars

        # PyArrow does not know them.
        frame = frame.with_columns(polars.col(wide).cast(polars.Decimal(MAX_DECIMAL_DIGITS, 0)))
    return frame.to_arrow()


def _of_columns(columns: Mapping[Any, Any]) -> pa.Table:
    for name, values in columns.items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise TypeError(f"column {name!r} is a {type(values).__qualname__}, not a list of values")
    table = {str(name): _array(str(name), values) for name, values in columns.items()}
    return pa.table(table)


def _of_records(rows: Sequence[Any]) -> pa.Table:
    if rows and all(isinstance(row, (pa.Table, pa.RecordBatch)) or hasattr(row, "columns") for row in rows):
        return pa.concat_tables([table_of(row) for row in rows], promote_options="permissive")
    names: dict[str, None] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise TypeError(f"row {number} is a {type(row).__qualname__}, not a dict of columns; {_NAMED}")
        names |= dict.fromkeys(row)
    if not names:
        raise InvalidData("there is no row, so the columns are not known")
    return pa.table({str(name): _array(str(name), [row.get(name) for row in rows]) for name in names})


def _array(name: str, values: Any) -> Any:
    """A column, or an error that names it."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if isinstance(values, (list, tuple)):
        if any(type(value).__name__ in _MISSING for value in values):
            # Those of pandas, such as `to_dict` of a frame has.
            values = [None if type(value).__name__ in _MISSING else value for value in values]
        found = exact(values)
        if found is not None:
            return found
    elif isinstance(dtype := getattr(values, "dtype", None), np.dtype) and dtype.kind == "O":
        check_times(values, {type(value) for value in values})
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise InvalidData(f"column {name!r} cannot be read: {error}") from None


def exact(values: Iterable[Any]) -> pa.Array | None:
    """A column of what PyArrow takes for something else or not at all; `None`: there is nothing such.

    Integers beyond 64 bits are decimals, what a UUID says is text, and dates among timestamps are midnights.
    """
    kinds = {type(value) for value in values} - {type(None)}
    check_times(values, kinds)
    if dt.date in kinds and any(issubclass(kind, dt.datetime) for kind in kinds):
        # PyArrow would cut the times of day where a date is first.
        return pa.array([_moment(value) for value in values])
    if str in kinds and not kinds.isdisjoint((bytes, bytearray)):
        raise InvalidData("texts and bytes in one column")
    if kinds == {uuid.UUID}:
        return pa.array((None if value is None else str(value) for value in values), pa.string())
    if kinds != {int}:
        return None
    numbers = [value for value in values if value is not None]
    if min(numbers) >= -(1 << 63) and max(numbers) < 1 << 63:
        return None
    if min(numbers) >= 0 and max(numbers) < 1 << 64:
        return pa.array(values, pa.uint64())
    digits = max(len(str(abs(number))) for number in (min(numbers), max(numbers)))
    if digits > MAX_DECIMAL_DIGITS:
        raise InvalidData(f"an integer of {digits} digits; a table's have at most {MAX_DECIMAL_DIGITS}, texts any")
    decimals = (None if value is None else decimal.Decimal(value) for value in values)
    return pa.array(decimals, pa.decimal128(MAX_DECIMAL_DIGITS, 0))


def check_times(values: Iterable[Any], kinds: Iterable[type]) -> None:
    """Raises an error where a time of day has a zone, which PyArrow leaves out; `kinds`: the types of the values."""
    if any(issubclass(kind, dt.time) for kind in kinds):
        for value in values:
            if isinstance(value, dt.time) and value.tzinfo is not None:
                raise InvalidData(f"{value}: a time of day has no zone")


def _moment(value: Any) -> Any:
    if type(value) is dt.date:
        return dt.datetime.combine(value, dt.time(tzinfo=dt.timezone.utc))
    # Neither NaT nor NaN is equal to itself.
    return value if value == value else None
