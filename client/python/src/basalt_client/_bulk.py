"""`INSERT INTO t (a, b) VALUES (?, ?)` for many rows, as one load: one commit, in place of one for each row."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ._cast import cast
from ._memory import check_times
from ._texts import parse
from .client import Client
from .errors import InvalidData, TableNotFound

_NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_][A-Za-z0-9_]*)'
_INSERT = re.compile(
    rf"\s*INSERT\s+INTO\s+(?P<table>{_NAME})\s*(?:\((?P<columns>\s*{_NAME}\s*(?:,\s*{_NAME}\s*)*)\)\s*)?"
    r"VALUES\s*\((?P<values>\s*\?\s*(?:,\s*\?\s*)*)\)\s*;?\s*",
    re.IGNORECASE,
)


def insert_many(client: Client, operation: str, rows: Sequence[Sequence[Any]]) -> int | None:
    """Inserts rows, and says how many; `None`: it is no such statement, or only SQL converts the values."""
    parts = _INSERT.fullmatch(operation)
    if parts is None:
        return None
    try:
        # A name without quotes that is no table's may be one's in another case.
        table = client.describe(_plain(parts["table"])).table
    except TableNotFound:
        return None
    columns = parts["columns"]
    found = [_named(name, table.schema.names) for name in re.findall(_NAME, columns or "")]
    names = table.schema.names if columns is None else found
    count = parts["values"].count("?")
    if len(names) != count or len(set(names)) < count or not set(names) <= set(table.schema.names):
        return None
    if any(not isinstance(row, (list, tuple)) or len(row) != count for row in rows):
        return None
    fields = [table.schema.field(name) for name in names]
    try:
        values = [_column([row[at] for row in rows], field.type) for at, field in enumerate(fields)]
    except (InvalidData, pa.ArrowException, ValueError, TypeError, OverflowError):
        return None
    return client.load(table.name, pa.table(values, names=names), progress=False).rows


def _named(name: str, known: Sequence[str]) -> str:
    """The column that a name is: without quotes also one that differs in case alone, where only one does."""
    plain = _plain(name)
    if plain in known or name != plain:
        return plain
    alike = [each for each in known if each.lower() == plain.lower()]
    return alike[0] if len(alike) == 1 else plain


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _column(values: list[Any], to: pa.DataType) -> pa.Array:
    """Values in a column's type, where SQL would make the same of them; else an error."""
    values = [_value(value) for value in values]
    kinds = {type(value) for value in values if value is not None}
    check_times(values, kinds)
    if pa.types.is_string(to):
        return pa.array([value if value is None or isinstance(value, str) else _text(value) for value in values], to)
    if kinds == {str}:
        if pa.types.is_binary(to):
            # SQL takes the bytes of the text, and a file its digits.
            raise TypeError("SQL knows the bytes of it")
        return parse(pa.array(values, pa.string()), to, inferred=False, has_na=False)
    if pa.types.is_decimal(to) and kinds <= {int, decimal.Decimal}:
        return pa.array([None if value is None else decimal.Decimal(value) for value in values], to)
    if dt.datetime in kinds and kinds <= {dt.date, dt.datetime}:
        # Dates among them are midnights; PyArrow would cut the times of day where a date is first.
        values = [dt.datetime.combine(each, dt.time()) if type(each) is dt.date else each for each in values]
        zoned = [value.astimezone(dt.timezone.utc) if value is not None and value.tzinfo else value for value in values]
        return cast(pa.array([None if each is None else each.replace(tzinfo=None) for each in zoned]), to)
    return cast(pa.array(values), to)


def _value(value: Any) -> Any:
    """The Python value of a numpy scalar, and of a subclass such as pandas' Timestamp."""
    if isinstance(value, dt.datetime) and type(value) is not dt.datetime:
        if value != value:
            return None
        if hasattr(value, "to_pydatetime"):
            return value.to_pydatetime(warn=False)
        parts = (value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
        return dt.datetime(*parts, value.tzinfo, fold=value.fold)
    return value.item() if type(value).__module__ == "numpy" else value


def _text(value: Any) -> str:
    if isinstance(value, (int, decimal.Decimal)) and not isinstance(value, bool):
        return str(value)
    raise TypeError("SQL knows the text of it")
