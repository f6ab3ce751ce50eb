"""Casts to the types that tables have: nothing is lost, except for what is finer than a microsecond.

A double and a decimal are the same number where the double's shortest text is the decimal's: 12.34 is 12.34, although
no double is equal to it.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import json
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from . import _types as types
from ._texts import first_bad, shown
from ._to_text import to_texts
from .errors import InvalidData

_METADATA_KEYS = (types.ENCODING_KEY, types.OPTIMIZE_KEY, types.REFERENCES_KEY)

# To which kinds of types values of a kind are cast, if the result is exact.
_EXACT = {
    "integer": {"integer", "float", "decimal"},
    "float": {"float", "integer", "decimal"},
    "decimal": {"decimal", "integer", "float"},
    "bool": {"bool"},
    "date": {"date", "timestamp"},
    "timestamp": {"timestamp", "date"},
    "time": {"time"},
    "text": {"text"},
    "nested": {"text"},
    "binary": {"binary"},
}
# Each of them has a text.
_WITH_TEXT = {"integer", "float", "decimal", "bool", "date", "timestamp", "time", "binary"}


def table_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of a table for columns of any Arrow types.

    Lists, structs and maps become JSON text, nanoseconds become microseconds, times without a zone are UTC,
    dictionaries become their values, and a column of nulls alone becomes text.

    Raises:
        InvalidData: No table holds a column's type, such as durations.
    """
    return pa.schema([_table_field(field) for field in schema])


def _table_field(field: pa.Field) -> pa.Field:
    metadata = {key: value for key, value in (field.metadata or {}).items() if key.decode() in _METADATA_KEYS}
    nullable = field.nullable or pa.types.is_null(field.type)
    return pa.field(field.name, _table_type(field.name, field.type), nullable, metadata or None)


def _table_type(name: str, data_type: pa.DataType) -> pa.DataType:
    t = pa.types
    if t.is_dictionary(data_type) or t.is_run_end_encoded(data_type):
        return _table_type(name, data_type.value_type)
    if _extension(data_type):
        return _table_type(name, pa.bool_() if _extension(data_type) == "arrow.bool8" else data_type.storage_type)
    if types.to_api(data_type) is not None:
        return data_type
    kind = _kind(data_type)
    if kind == "decimal":
        # A scale below zero adds zeros. Whether values have too many digits is found when they are cast.
        digits, scale = data_type.precision - min(data_type.scale, 0), max(data_type.scale, 0)
        if scale <= types.MAX_DECIMAL_DIGITS:
            return pa.decimal128(min(digits, types.MAX_DECIMAL_DIGITS), scale)
    simple = {
        "text": pa.string(),
        "nested": pa.string(),
        "null": pa.string(),
        "binary": pa.binary(),
        "timestamp": types.TIMESTAMP,
        "date": pa.date32(),
        "time": types.TIME,
        "float": pa.float32(),
    }
    if kind == "nested" and not _is_json(data_type):
        raise InvalidData(f"column {name!r} has the Arrow type {data_type}, which has no text in JSON")
    if kind not in simple:
        how = "; as seconds they are numbers" if pa.types.is_duration(data_type) else ""
        how = "; as texts, by `.astype(str)`, they are" if "pandas" in str(data_type) else how
        raise InvalidData(f"column {name!r} has the Arrow type {data_type}, which no table holds{how}")
    return simple[kind]


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema, place: Callable[[int], str]) -> pa.RecordBatch:
    """The columns of a batch, in order, in the types of `schema` and by its names.

    Raises:
        InvalidData: With the column, and with the row by `place`, which tells where the batch's rows are.
    """
    columns = []
    for array, field in zip(batch.columns, schema, strict=True):
        try:
            columns.append(cast(array, field.type))
        except NoSuchCast as error:
            raise InvalidData(f"column {field.name!r}: {_of(array, field)}: {error}") from None
        except (pa.ArrowException, ValueError):
            row = first_bad(array, functools.partial(cast, to=field.type))
            where = f"{place(row)}: column {field.name!r}: {_of(array, field)}"
            try:
                cast(array.slice(row, 1), field.type)
            except (pa.ArrowException, ValueError) as error:
                raise InvalidData(f"{where}: {_value(array[row])}: {error}") from None
            raise
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _of(array: pa.Array, field: pa.Field) -> str:
    return f"{array.type} as {types.type_name(field.type)}"


def _value(value: pa.Scalar) -> str:
    try:
        found = value.as_py()
    except (ValueError, OverflowError):
        # Such as a day beyond Python's calendar, or nanoseconds without pandas.
        found = value
    return shown(str(found))[1:-1]


class NoSuchCast(ValueError):
    """No value of the one type is cast to the other."""


def cast(array: pa.Array, to: pa.DataType) -> pa.Array:
    """The values in another type, exactly, or a `ValueError`."""
    if array.type == to:
        return array
    if pa.types.is_dictionary(array.type):
        return cast(array.dictionary_decode(), to)
    if pa.types.is_run_end_encoded(array.type):
        return cast(pc.run_end_decode(array), to)
    if extension := _extension(array.type):
        if extension == "arrow.uuid" and pa.types.is_string(to):
            return pa.array((None if each is None else str(each) for each in array.to_pylist()), to)
        return cast(array.storage.cast(pa.bool_()) if extension == "arrow.bool8" else array.storage, to)
    kind, wanted = _kind(array.type), _kind(to)
    if kind == "null":
        return pa.nulls(len(array), to)
    if wanted == "text" and kind in _WITH_TEXT:
        own = _kind_type(kind, array.type)
        return to_texts(array if array.type == own else cast(array, own))
    if wanted not in _EXACT.get(kind, ()):
        hint = "; a file of texts is, or what pandas.to_datetime and the like make of them" if kind == "text" else ""
        raise NoSuchCast(f"values are not converted between these types{hint}")
    if kind == "nested":
        return _json_texts(array)
    if kind in ("timestamp", "time"):
        array = _to_microseconds(array, kind)
    if kind == "date" and wanted == "timestamp":
        array = array.cast(pa.timestamp("us"))
    if wanted == "timestamp":
        return array.view(types.TIMESTAMP)
    if kind == "integer" and wanted == "decimal":
        # Directly, Arrow wants a type that holds the largest integer too.
        array = array.cast(pa.decimal128(38, to.scale))
    if kind == "float" and wanted == "decimal":
        return _decimals(array, to)
    if kind == "decimal" and wanted == "float":
        return _floats(array, to)
    result = array.cast(to)
    if wanted == "float" and to.bit_width < array.type.bit_width:
        back = result.cast(array.type)
        _check_all(pc.or_(pc.equal(array, back), pc.and_(pc.is_nan(array), pc.is_nan(back))), array)
    if wanted == "date":
        _check_all(pc.equal(array, result.cast(array.type)), array)
    return result


def _extension(data_type: pa.DataType) -> str:
    """The name of a type that is another's but for its meaning, where its values have a place in tables; else none."""
    name = getattr(data_type, "extension_name", "")
    return name if name in ("arrow.uuid", "arrow.json", "arrow.bool8") else ""


def _kind_type(kind: str, data_type: pa.DataType) -> pa.DataType:
    """The type of a table in which values have their texts."""
    own = {"date": pa.date32(), "timestamp": types.TIMESTAMP, "time": types.TIME, "binary": pa.binary()}
    return own.get(kind, data_type)


def _decimals(array: pa.Array, to: pa.DataType) -> pa.Array:
    """The decimals that the shortest texts of floats are."""
    # What is not finite is no decimal, and is told so: as a text it would be a number that cannot be read.
    if pc.any(pc.invert(pc.is_finite(array))).as_py():
        raise ValueError("it is no decimal")
    try:
        return array.cast(pa.string()).cast(to)
    except pa.ArrowInvalid:
        raise ValueError(f"a {types.type_name(to)} does not hold all of its digits") from None


def _floats(array: pa.Array, to: pa.DataType) -> pa.Array:
    """The floats whose shortest texts are decimals."""
    # A cast would round in another way where a decimal has more digits than a float.
    result = array.cast(pa.string()).cast(to)
    texts = result.cast(pa.string())
    widest = pa.decimal256(76, max(array.type.scale, 0))
    try:
        is_same = pc.equal(texts.cast(widest), array.cast(widest))
    except pa.ArrowException:
        raise ValueError("it has more digits than a float of this size") from None
    if pc.all(is_same).as_py() is False:
        raise ValueError(f"it has more digits than a {types.type_name(to)}")
    return result


def _to_microseconds(array: pa.Array, kind: str) -> pa.Array:
    """Times of day, or instants without a zone, in microseconds; nanoseconds are cut towards the past."""
    if kind == "timestamp":
        # A view keeps the number, which counts from 1970 in UTC. A cast would look up the zone in a database.
        array = array.view(pa.timestamp(array.type.unit))
    target = pa.timestamp("us") if kind == "timestamp" else types.TIME
    if array.type.unit == "ns":
        numbers = array.view(pa.int64())
        rest = pc.subtract(numbers, pc.multiply(pc.divide(numbers, 1000), 1000))
        down = pc.if_else(pc.less(rest, 0), 1, 0)
        return pc.subtract(pc.divide(numbers, 1000), down).view(target)
    return array.cast(target)


def _check_all(is_same: pa.Array, array: pa.Array) -> None:
    """Raises an error that names the first value that is not the same in the other type."""
    if pc.min(is_same).as_py() is False:
        at = pc.index(is_same, False).as_py()
        raise ValueError(f"{array[at].as_py()} has no exact value there")


def _kind(data_type: pa.DataType) -> str:
    return next((name for name, is_such in _KINDS if any(each(data_type) for each in is_such)), "other")


_KINDS = [
    ("integer", [pa.types.is_integer]),
    ("float", [pa.types.is_floating]),
    ("decimal", [pa.types.is_decimal]),
    ("bool", [pa.types.is_boolean]),
    ("date", [pa.types.is_date]),
    ("timestamp", [pa.types.is_timestamp]),
    ("time", [pa.types.is_time]),
    ("text", [pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view]),
    ("binary", [pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view]),
    ("binary", [pa.types.is_fixed_size_binary]),
    ("nested", [pa.types.is_nested]),
    ("null", [pa.types.is_null]),
]


def _is_json(data_type: pa.DataType) -> bool:
    """Whether values of a type within lists, structs and maps have a text."""
    if pa.types.is_dictionary(data_type):
        return _is_json(data_type.value_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return False
    if not pa.types.is_nested(data_type):
        return not any(test(data_type) for test in (pa.types.is_duration, pa.types.is_interval))
    if pa.types.is_union(data_type):
        return False
    return all(_is_json(data_type.field(at).type) for at in range(data_type.num_fields))


def _json_texts(array: pa.Array) -> pa.Array:
    """Lists, structs and maps as JSON text, in the form that the server's own readers of nested columns give it."""
    texts = (None if value is None else _json(value, array.type) for value in array.to_pylist())
    return pa.array(texts, pa.string())


def _json(value: Any, data_type: pa.DataType) -> str:
    if value is None:
        return "null"
    if pa.types.is_map(data_type):
        keys = (_json(key, data_type.key_type) for key, _ in value)
        names = (key if key.startswith('"') else _scalar(key) for key in keys)
        items = (_json(item, data_type.item_type) for _, item in value)
        return "{" + ",".join(f"{name}:{item}" for name, item in zip(names, items, strict=True)) + "}"
    if pa.types.is_struct(data_type):
        fields = (f"{_scalar(field.name)}:{_json(value[field.name], field.type)}" for field in data_type)
        return "{" + ",".join(fields) + "}"
    if pa.types.is_nested(data_type):
        return "[" + ",".join(_json(each, data_type.value_type) for each in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if isinstance(value, decimal.Decimal):
        # Every digit: as a float it would lose some.
        return f"{value:f}"
    if isinstance(value, bytes):
        return _scalar(value.hex())
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return _scalar(value.astimezone(dt.timezone.utc).isoformat().replace("+00:00", "Z"))
    if isinstance(value, (dt.date, dt.time)):
        return _scalar(value.isoformat())
    return _scalar(value)


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
