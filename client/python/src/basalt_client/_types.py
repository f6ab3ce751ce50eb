"""The types of columns: as the API, Arrow and people have them."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pyarrow as pa

from . import _proto as pb
from .errors import InvalidData, MalformedAnswer

ENCODING_KEY = "basalt.encoding"
OPTIMIZE_KEY = "basalt.optimize"
REFERENCES_KEY = "basalt.references"

TIMESTAMP = pa.timestamp("us", "UTC")
TIME = pa.time64("us")
MAX_DECIMAL_DIGITS = 38

_SIMPLE: list[tuple[str, int, pa.DataType]] = [
    ("bool", pb.TYPE_KIND_BOOL, pa.bool_()),
    ("int8", pb.TYPE_KIND_INT8, pa.int8()),
    ("int16", pb.TYPE_KIND_INT16, pa.int16()),
    ("int32", pb.TYPE_KIND_INT32, pa.int32()),
    ("int64", pb.TYPE_KIND_INT64, pa.int64()),
    ("uint8", pb.TYPE_KIND_UINT8, pa.uint8()),
    ("uint16", pb.TYPE_KIND_UINT16, pa.uint16()),
    ("uint32", pb.TYPE_KIND_UINT32, pa.uint32()),
    ("uint64", pb.TYPE_KIND_UINT64, pa.uint64()),
    ("float32", pb.TYPE_KIND_FLOAT32, pa.float32()),
    ("float64", pb.TYPE_KIND_FLOAT64, pa.float64()),
    ("date32", pb.TYPE_KIND_DATE32, pa.date32()),
    ("timestamp", pb.TYPE_KIND_TIMESTAMP, TIMESTAMP),
    ("utf8", pb.TYPE_KIND_UTF8, pa.string()),
    ("binary", pb.TYPE_KIND_BINARY, pa.binary()),
    ("time", pb.TYPE_KIND_TIME, TIME),
]
# As PyArrow, pandas and Python have them, where that is one type alone: a float of Python is no float of PyArrow.
_OTHER_NAMES = {
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "date": pa.date32(),
    "datetime": TIMESTAMP,
    "string": pa.string(),
    "str": pa.string(),
    "text": pa.string(),
    "bytes": pa.binary(),
}
_OF_PYTHON: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    dt.datetime: TIMESTAMP,
    dt.date: pa.date32(),
    dt.time: TIME,
}
_BY_KIND = {kind: arrow for _, kind, arrow in _SIMPLE}
_BY_ARROW = {arrow: (name, kind) for name, kind, arrow in _SIMPLE}

# The default is not said: a schema is the same whether it says it or not.
_OPTIMIZE = {"size": pb.OPTIMIZE_SIZE, "speed": pb.OPTIMIZE_SPEED}


def to_api(data_type: pa.DataType) -> Any | None:
    """The API's `DataType` of an Arrow type; `None` where no column has it."""
    if pa.types.is_decimal128(data_type) and data_type.scale >= 0:
        digits = {"precision": data_type.precision, "scale": data_type.scale}
        return pb.DataType(kind=pb.TYPE_KIND_DECIMAL, **digits)
    found = _BY_ARROW.get(data_type)
    return pb.DataType(kind=found[1]) if found else None


def from_api(data_type: Any) -> pa.DataType:
    """The Arrow type of an API's `DataType`."""
    if data_type.kind == pb.TYPE_KIND_DECIMAL:
        precision, scale = data_type.precision, data_type.scale
        if 1 <= precision <= MAX_DECIMAL_DIGITS and scale <= precision:
            return pa.decimal128(precision, scale)
        raise MalformedAnswer(f"a column of type decimal({precision},{scale})")
    try:
        return _BY_KIND[data_type.kind]
    except KeyError:
        raise MalformedAnswer(f"a column of type {data_type.kind}, which this client does not know") from None


def type_name(data_type: pa.DataType) -> str:
    """The name of a type as people write it: `int32`, `decimal(12,2)`, `utf8`."""
    if pa.types.is_decimal128(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    found = _BY_ARROW.get(data_type)
    return found[0] if found else str(data_type)


def type_of(what: pa.DataType | str | type) -> pa.DataType:
    """The type that is meant: one of PyArrow's, of Python's, or a name."""
    if isinstance(what, pa.DataType):
        return what
    if isinstance(what, str):
        return type_of_name(what)
    if isinstance(what, type) and what in _OF_PYTHON:
        return _OF_PYTHON[what]
    raise TypeError(f"{what!r} is no type: one of PyArrow's, such as pyarrow.int32(), or its name")


def type_of_name(name: str) -> pa.DataType:
    """The type of a name, as `type_name` gives it."""
    plain = re.sub(r"\s", "", name.lower())
    found = next((arrow for known, _, arrow in _SIMPLE if known == plain), None)
    if found is not None:
        return found
    if plain in _OTHER_NAMES:
        return _OTHER_NAMES[plain]
    digits = re.fullmatch(r"decimal\((\d+),(\d+)\)", plain)
    if digits and 1 <= int(digits[1]) <= MAX_DECIMAL_DIGITS and int(digits[2]) <= int(digits[1]):
        return pa.decimal128(int(digits[1]), int(digits[2]))
    known = ", ".join(each for each, _, _ in _SIMPLE)
    raise ValueError(f"{name!r} is no type: {known}, decimal(p,s) with up to {MAX_DECIMAL_DIGITS} digits")


def schema_to_api(schema: pa.Schema) -> Any:
    """The API's schema of an Arrow schema, with what the metadata of its fields say of encodings and references."""
    return pb.Schema(fields=[_field_to_api(field) for field in schema])


def _field_to_api(field: pa.Field) -> Any:
    data_type = to_api(field.type)
    if data_type is None:
        raise InvalidData(f"column {field.name!r} has the Arrow type {field.type}, which is not one of a table's")
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    api = pb.Field(name=field.name, type=data_type, nullable=field.nullable, encoding=metadata.get(ENCODING_KEY, ""))
    optimize = metadata.get(OPTIMIZE_KEY, "balanced")
    if optimize != "balanced":
        if optimize not in _OPTIMIZE:
            raise InvalidData(f"column {field.name!r}: {OPTIMIZE_KEY} is {optimize!r}")
        api.optimize = _OPTIMIZE[optimize]
    if REFERENCES_KEY in metadata:
        table, _, column = metadata[REFERENCES_KEY].partition(".")
        api.references.CopyFrom(pb.Reference(table=table, column=column))
    return api


def schema_from_api(schema: Any) -> pa.Schema:
    """The Arrow schema of one of the API's."""
    return pa.schema([field_from_api(field) for field in schema.fields])


def field_from_api(field: Any) -> pa.Field:
    """The Arrow field of one of the API's."""
    metadata = {}
    if field.encoding:
        metadata[ENCODING_KEY] = field.encoding
    if field.HasField("references"):
        metadata[REFERENCES_KEY] = f"{field.references.table}.{field.references.column}"
    for name, number in _OPTIMIZE.items():
        if number == field.optimize:
            metadata[OPTIMIZE_KEY] = name
    return pa.field(field.name, from_api(field.type), field.nullable, metadata or None)
