"""What stays of a table when its rows give way to others: the types of its columns, where the new values are of them.

So a file that is shorter or rounder today than it was yesterday, or a frame whose integers have become floats for one
null, does not change the table. By the rules of `basalt load --replace`, which keeps them of CSV and JSON files; what
Parquet and Arrow files say of their columns counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa

from ._cast import cast
from ._sources import Source
from .errors import InvalidData

Read = Callable[[Collection[str]], Source]


def kept(table: pa.Schema, wanted: pa.Schema, source: Source, read: Read) -> tuple[pa.Schema, Source]:
    """The columns in place of those of a table, and the rows to be read as these.

    `wanted` are the columns that the rows have by themselves; `read` reads texts, some columns as the table has them.
    """
    if source.origin == "typed":
        return wanted, source
    names = {field.name for field in wanted if field.name in table.names}
    others = {name for name in names if not _is_held(table.field(name), wanted.field(name))}
    nulls: set[str] = set()
    if others and not source.repeatable:
        # What is read once alone is not looked at before.
        names -= others
    elif others:
        found = _nulls(table, source, read, others)
        for name in others if found is None else ():
            alone = _nulls(table, source, read, {name})
            if alone is None:
                names.remove(name)
            nulls |= alone or set()
        nulls |= found or set()
    fields = [_own(table, field, nulls) if field.name in names else field for field in wanted]
    return pa.schema(fields), read(names) if source.origin == "texts" else source


def _is_held(own: pa.Field, field: pa.Field) -> bool:
    return bool(own.type == field.type and (own.nullable or not field.nullable))


def _own(table: pa.Schema, field: pa.Field, nulls: Collection[str]) -> pa.Field:
    own = table.field(field.name)
    return own.with_nullable(own.nullable or field.name in nulls)


def _nulls(table: pa.Schema, source: Source, read: Read, names: Collection[str]) -> set[str] | None:
    """Which of some columns have nulls, read as those of a table; `None` where a value is none of its column's type."""
    nulls: set[str] = set()
    try:
        for batch in (read(names) if source.origin == "texts" else source).batches():
            for name in names:
                if cast(batch.column(name), table.field(name).type).null_count:
                    nulls.add(name)
    except (InvalidData, pa.ArrowException, ValueError):
        return None
    return nulls
