"""Answers."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ._types import type_name
from .errors import InvalidData, OutOfRange

if TYPE_CHECKING:
    import pandas
    import polars

_SHOWN_ROWS = 20
# Of a value.
_SHOWN_CHARACTERS = 500


@dataclass(frozen=True)
class Statistics:
    """What a query did."""

    rows: int = 0
    """Rows of the table, or of all tables of a statement."""
    fragments: int = 0
    """Its fragments."""
    blocks: int = 0
    """Its blocks, of 65,536 rows."""
    blocks_pruned: int = 0
    """Blocks that were skipped by zone maps and value counts."""
    blocks_full: int = 0
    """Blocks whose every row a filter selected by zone maps alone."""
    rows_selected: int = 0
    """Rows that the filter selected."""
    elapsed_us: int = 0
    """The server's time from the request's arrival, in microseconds."""
    execute_us: int = 0
    """The share of it that was spent executing."""

    @classmethod
    def from_api(cls, message: Any) -> Statistics:
        return cls(**{each.name: getattr(message, each.name) for each in fields(cls)})


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A complete answer. It is iterated by its record batches; `len` counts its rows."""

    schema: pa.Schema
    """The columns."""
    batches: list[pa.RecordBatch]
    """The rows, as they came."""
    statistics: Statistics
    """What the query did."""
    version: int = 0
    """The table's version that was read; 0 of a SQL statement."""
    versions: dict[str, int] = field(default_factory=dict)
    """The versions that a SQL statement has read, by table."""

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.batches)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """What PyArrow, Polars, pandas and DuckDB take for a table, and `Client.load` for rows."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """As a PyArrow table."""
        return pa.Table.from_batches(self.batches, self.schema)

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """As a pandas data frame; `options` are those of `pyarrow.Table.to_pandas`.

        Without options integers with nulls are of pandas' nullable types: as floats, PyArrow's way, large ones would
        be other numbers.

        Raises:
            OutOfRange: As of `rows`.
        """
        table = self.to_arrow()
        try:
            frame = table.to_pandas(**options)
        except (ValueError, OverflowError):
            # Names the column, where it is a date that Python does not have.
            python_columns(table)
            raise
        if not options:
            import pandas

            for i, column in enumerate(table.columns):
                if pa.types.is_integer(column.type) and column.null_count:
                    nullable = str(column.type).replace("uint", "UInt").replace("int", "Int")
                    dtype = pandas.api.types.pandas_dtype(nullable)
                    frame.isetitem(i, column.to_pandas(types_mapper=lambda _, dtype=dtype: dtype))
        return frame

    def to_polars(self) -> polars.DataFrame:
        """As a Polars data frame."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def rows(self) -> list[tuple[Any, ...]]:
        """As tuples of Python's values: timestamps have the zone UTC, decimals are `decimal.Decimal`.

        Raises:
            OutOfRange: A date or time is beyond the years 1 to 9999, which are Python's; `to_arrow` has it.
        """
        return list(zip(*python_columns(self.to_arrow()), strict=True))

    def one(self) -> tuple[Any, ...]:
        """The only row.

        Raises:
            InvalidData: There is none, or more than one.
        """
        if len(self) != 1:
            raise InvalidData(f"one row is asked for, the answer has {len(self):,}")
        return self.rows()[0]

    def scalar(self) -> Any:
        """The only value of the only row.

        Raises:
            InvalidData: There are more rows or columns, or no row.
        """
        if len(self.schema) != 1:
            raise InvalidData(f"one value is asked for, the answer has {len(self.schema)} columns")
        return self.one()[0]

    def __repr__(self) -> str:
        columns = ", ".join(f"{each.name} {type_name(each.type)}" for each in self.schema)
        return f"Result({len(self):,} rows: {columns})"

    def _repr_html_(self) -> str:
        """The first rows as a table, for notebooks."""
        heads = "".join(f"<th>{_cell(each.name)}</th>" for each in self.schema)
        types = "".join(f"<td><i>{_cell(type_name(each.type))}</i></td>" for each in self.schema)
        shown = self.to_arrow().slice(0, _SHOWN_ROWS)
        columns = [_shown_values(column) for column in shown.columns]
        rows = "".join(f"<tr>{''.join(f'<td>{_cell(v)}</td>' for v in row)}</tr>" for row in zip(*columns, strict=True))
        more = len(self) - len(shown)
        foot = f"<p>{more:,} more rows</p>" if more else ""
        return f"<table><thead><tr>{heads}</tr><tr>{types}</tr></thead><tbody>{rows}</tbody></table>{foot}"


def python_columns(rows: pa.Table | pa.RecordBatch) -> list[list[Any]]:
    """Each column's values as Python's."""
    return [_python_values(field, column) for field, column in zip(rows.schema, rows.columns, strict=True)]


def _python_values(field: pa.Field, column: Any) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
        return values
    except (ValueError, OverflowError) as error:
        name = f"column {field.name!r} of type {type_name(field.type)}"
        hint = "Python's dates are of the years 1 to 9999; to_arrow() has the value, CAST(... AS TEXT) its text"
        raise OutOfRange(f"{name}: {error} ({hint})") from None


def _shown_values(column: Any) -> list[Any]:
    """Values for people: the texts of dates that Python does not have."""
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        values = column.cast(pa.string()).to_pylist()
    return values


def _cell(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    return html.escape(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")
