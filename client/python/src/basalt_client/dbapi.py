"""The DB-API 2.0 (PEP 249), for programs that speak it: `pandas.read_sql(sql, basalt_client.dbapi.connect(...))`.

Each statement is committed by itself. So `commit` has nothing to do, and `rollback`, which could undo nothing, is an
error. An answer is here as a whole before its first row is fetched.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, NoReturn

import pyarrow as pa
from typing_extensions import Self

from . import client, errors
from ._answers import is_query
from ._bulk import insert_many
from ._types import type_name
from ._values import wide
from .result import Result, python_columns

apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"

Date = dt.date
Time = dt.time
Timestamp = dt.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> dt.date:
    """The date in UTC of so many seconds since 1970."""
    return TimestampFromTicks(ticks).date()


def TimeFromTicks(ticks: float) -> dt.time:
    """The time of day in UTC of so many seconds since 1970."""
    return TimestampFromTicks(ticks).time()


def TimestampFromTicks(ticks: float) -> dt.datetime:
    """The timestamp of so many seconds since 1970."""
    return dt.datetime.fromtimestamp(ticks, dt.timezone.utc)


class _TypeObject:
    """Equals the type codes of its columns, which are the names of their types."""

    def __init__(self, *prefixes: str) -> None:
        self._prefixes = prefixes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.startswith(self._prefixes)

    __hash__ = None  # type: ignore[assignment]


STRING = _TypeObject("utf8")
BINARY = _TypeObject("binary")
NUMBER = _TypeObject("int", "uint", "float", "decimal", "bool")
DATETIME = _TypeObject("date", "time")
ROWID = _TypeObject("rowid")


class Warning(Exception):
    """Never raised."""


class Error(Exception):
    """What went wrong; its cause is the `BasaltError`."""


class InterfaceError(Error):
    """The module was used wrongly."""


class DatabaseError(Error):
    """The server's, or of the way to it."""


class DataError(DatabaseError):
    """A value that its type does not hold."""


class OperationalError(DatabaseError):
    """The connection, a deadline, memory, keys: not the statement."""


class IntegrityError(DatabaseError):
    """A conflict with other rows."""


class InternalError(DatabaseError):
    """The server failed, or its answer cannot be read."""


class ProgrammingError(DatabaseError):
    """The statement is wrong."""


class NotSupportedError(DatabaseError):
    """There is no such thing here."""


_KINDS: list[tuple[tuple[type[errors.BasaltError], ...], type[DatabaseError]]] = [
    ((errors.OutOfRange, errors.InvalidData), DataError),
    ((errors.NotSupported, errors.ReadOnly), NotSupportedError),
    ((errors.WriteConflict,), IntegrityError),
    ((errors.MalformedAnswer,), InternalError),
    (
        (errors.InvalidRequest, errors.TableNotFound, errors.ColumnNotFound, errors.TableExists, errors.VersionGone),
        ProgrammingError,
    ),
]


def _raise(error: errors.BasaltError) -> NoReturn:
    kind = next((kind for causes, kind in _KINDS if isinstance(error, causes)), OperationalError)
    raise kind(str(error)) from error


def connect(address: str | None = None, **options: Any) -> Connection:
    """Connects; the arguments are those of `basalt_client.connect`."""
    try:
        return Connection(client.connect(address, **options))
    except errors.BasaltError as error:
        _raise(error)


class Connection:
    """A connection. As a context manager it closes itself."""

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, basalt: client.Client) -> None:
        self._client: client.Client | None = basalt

    @property
    def client(self) -> client.Client:
        """The client beneath, for what the DB-API has no words for."""
        if self._client is None:
            raise InterfaceError("the connection is closed")
        return self._client

    @property
    def autocommit(self) -> bool:
        """True, always: each statement is committed by itself."""
        return True

    @autocommit.setter
    def autocommit(self, wanted: bool) -> None:
        if not wanted:
            raise NotSupportedError("each statement is committed by itself: there are no transactions here")

    def cursor(self) -> Cursor:
        """A cursor of its own answer."""
        return Cursor(self.client, self)

    def commit(self) -> None:
        """Does nothing: each statement was committed by itself, so nothing is pending."""
        _ = self.client

    def rollback(self) -> None:
        """An error: what was written is committed."""
        raise NotSupportedError("each statement was committed by itself: there is nothing that could be undone")

    def close(self) -> None:
        """Ends the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Cursor:
    """Runs statements, and gives the rows of the last one's answer."""

    arraysize = 1

    def __init__(self, basalt: client.Client, connection: Connection) -> None:
        self.connection = connection
        """The cursor's connection."""
        self._client: client.Client | None = basalt
        self._result: Result | None = None
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        self._rowcount = -1
        self._fetched = False

    @property
    def description(self) -> list[tuple[str, str, None, None, int | None, int | None, bool]] | None:
        """Of each column the name, the type's name, digits and digits behind the point of decimals, and nullability.

        `None` where the statement was no query.
        """
        return None if self._result is None else [_described(each) for each in self._result.schema]

    @property
    def rowcount(self) -> int:
        """Rows of the answer, or rows that were written or deleted; -1 where no statement was run."""
        return self._rowcount

    def execute(self, operation: str, parameters: Sequence[Any] | None = ()) -> Self:
        """Runs a statement; the parameters are the values of each `?` in turn."""
        if self._client is None:
            raise InterfaceError("the cursor is closed")
        self._result, self._rowcount, self._fetched = None, -1, False
        values = () if parameters is None else parameters
        try:
            if isinstance(values, (list, tuple)) and any(map(_is_of_a_row, values)):
                inserted = insert_many(self.connection.client, operation, [values])
                if inserted is not None:
                    self._rowcount = inserted
                    return self
            result = self.connection.client.sql(operation, values)
        except errors.BasaltError as error:
            _raise(error)
        if is_query(operation):
            self._result, self._rows, self._rowcount = result, _rows(result), len(result)
        else:
            self._rowcount = result.scalar()
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Sequence[Any]]) -> Self:
        """Runs a statement for each of the parameters.

        `INSERT INTO t (a, b) VALUES (?, ?)` is one commit of all rows, or none of them, where their values are the
        columns'; any other statement is a commit for each.
        """
        if self._client is None:
            raise InterfaceError("the cursor is closed")
        rows = list(seq_of_parameters)
        try:
            inserted = insert_many(self.connection.client, operation, rows) if rows else 0
        except errors.BasaltError as error:
            _raise(error)
        if inserted is not None:
            self._result, self._rowcount, self._fetched = None, inserted, False
            return self
        total = 0
        for parameters in rows:
            self.execute(operation, parameters)
            total += max(self._rowcount, 0)
        self._rowcount = total
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; `None` behind the last."""
        self._begin()
        return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, `arraysize` of them where nothing else is said."""
        self._begin()
        wanted = range(self.arraysize if size is None else size)
        return [row for _, row in zip(wanted, self._rows, strict=False)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        self._begin()
        return list(self._rows)

    def fetch_arrow_table(self) -> pa.Table:
        """The whole answer as a PyArrow table, where no row was fetched before."""
        result = self._answer()
        if self._fetched:
            raise InterfaceError("rows were fetched already: the table would have them twice")
        self._rows, self._fetched = iter(()), True
        return result.to_arrow()

    def _begin(self) -> None:
        self._answer()
        self._fetched = True

    def _answer(self) -> Result:
        if self._result is None:
            raise ProgrammingError("there are no rows: no query was run, or it failed")
        return self._result

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing, as the standard allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, as the standard allows."""

    def close(self) -> None:
        """Gives the answer up."""
        self._client = self._result = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_of_a_row(value: Any) -> bool:
    """Whether a value is no parameter of a statement, and one of a row all the same."""
    return isinstance(value, (bytes, bytearray)) or wide(value) is not None


def _described(field: pa.Field) -> tuple[str, str, None, None, int | None, int | None, bool]:
    is_decimal = pa.types.is_decimal(field.type)
    digits = (field.type.precision, field.type.scale) if is_decimal else (None, None)
    return field.name, type_name(field.type), None, None, *digits, field.nullable


def _rows(result: Result) -> Iterator[tuple[Any, ...]]:
    """The rows, made from one batch at a time."""
    for batch in result:
        try:
            columns = python_columns(batch)
        except errors.BasaltError as error:
            _raise(error)
        yield from zip(*columns, strict=True)
