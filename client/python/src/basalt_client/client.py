"""The blocking client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import pyarrow as pa
from typing_extensions import Self

from . import _answers as answers
from . import _selections as selections
from . import _write as write
from . import catalog, sets
from ._blocking import BlockingTransport, run
from ._credentials import Path, target_of
from ._rpc import Connection
from ._sources import Schema, reader_of, schema_of
from .expressions import Filter
from .options import Options, RetryPolicy
from .query import QueryBuilder, request_of
from .result import Result, Statistics


def connect(
    address: str | None = None,
    *,
    key: str | None = None,
    ca: Path | None = None,
    cert: Path | None = None,
    cert_key: Path | None = None,
    deadline: float = 60.0,
    retry: RetryPolicy | None = None,
) -> Client:
    """Connects to a server, and asks it once who it is.

    Args:
        address: `"127.0.0.1:7700"` (the same with `http://`), or `"https://..."` for TLS. Default: `BASALT_SERVER`,
            else `http://127.0.0.1:7700`.
        key: The client's key. Default: what is in the file that `BASALT_KEY_FILE` names, else `BASALT_KEY`. It goes to
            other machines with TLS alone.
        ca: A file in PEM with the authorities that may have signed the server's certificate. Default: `BASALT_CA`,
            else the system's.
        cert: A file in PEM with the client's own certificate, for servers that ask for one. Default: `BASALT_CERT`.
        cert_key: A file in PEM with its key. Default: `BASALT_CERT_KEY`.
        deadline: How many seconds a call may take; the server stops its work then. Of a load it bounds the opening
            alone.
        retry: When to try again; five tries by default.

    Raises:
        InvalidConnection: The address, the key or a file is not valid.
        ConnectionFailed: Nothing answers there, or its certificate is not trusted.
        Unavailable: The server loads its tables, and did not end with that within the deadline.
        Unauthenticated: The server does not know the key.
    """
    options = Options(deadline=deadline, retry=retry or RetryPolicy())
    target = target_of(address, key, ca, cert, cert_key)
    connection = Connection(BlockingTransport(target, options), target.url, options)
    client = Client(connection)
    try:
        run(connection.check())
    except BaseException:
        client.close()
        raise
    return client


class Client:
    """A connection to a server; made by `connect`. Threads may share it. As a context manager it closes itself."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.address})"

    @property
    def address(self) -> str:
        """The server's address."""
        return self._connection.address

    def close(self) -> None:
        """Ends the connection, and the calls that are under way."""
        run(self._connection.transport.close())

    def with_deadline(self, seconds: float) -> Client:
        """A client over the same connection with another deadline for each call."""
        options = replace(self._connection.options, deadline=seconds)
        return Client(self._connection.with_options(options))

    def sql(self, statement: str, parameters: Sequence[Any] = ()) -> Result:
        """The whole answer to a SQL statement; of one that writes, one row with the number of `rows`.

        A query that breaks off is asked again. A statement that writes is sent once, since it may have been done.

        Args:
            statement: One statement.
            parameters: The values of `$1`, `$2`, ..., or of each `?` in turn, in a list: they have no names, and for
                IN each value is one. They travel beside the text: nothing in them is read as SQL. `None`, bool, int,
                float, `Decimal`, str, date, time, datetime (UTC where it has no zone).

        Raises:
            InvalidRequest: What is wrong with the statement; `place` is its line and column.
            IncompleteAnswer: The stream broke off. There is never a short result.
            NotSupported: The server is built without SQL.
        """
        return run(answers.collect_statement(self._connection, statement, parameters))

    def stream(self, statement: str, parameters: Sequence[Any] = ()) -> Stream:
        """As `sql`, with its batches as they arrive; the deadline bounds the reading too."""
        return Stream(run(answers.open_statement(self._connection, statement, parameters)))

    def query(self, table: str) -> Query:
        """A query of one table, to be built: all of its rows and columns by default."""
        return Query(self._connection, request_of(table))

    def load(
        self,
        table: str,
        data: Any,
        *,
        if_exists: write.IfExists = "append",
        key_columns: str | Sequence[str] = (),
        request_id: str | None = None,
        progress: bool | None = None,
        schema: Schema | None = None,
        delimiter: str | None = None,
        nulls: Sequence[str] | None = None,
    ) -> write.Committed:
        """Writes rows to a table: all of them are visible at once, or none.

        A table that is missing is made with the columns of the rows (`create` makes one with others). Columns are
        found by their names, also where these differ in case alone, but for files of JSON, Parquet and Arrow; those
        that are left out are null. Texts of CSV and JSON files are read as what the
        table's columns are. Any other value is taken where the column holds it exactly: 7.0 in an integer column, but
        not 7.5. A double and a decimal are the same number where the double's shortest text is the decimal: 12.34
        goes both ways, and 12.345 into no decimal with two digits. Times without a zone are UTC, nanoseconds are cut
        to microseconds, lists, structs and maps become JSON text. What breaks is tried again with the same request
        id, so that no row is there twice; rows that can be read only once, as of a `RecordBatchReader`, are tried
        once.

        Args:
            table: Its name.
            data: A data frame of pandas (NaN in it is null, its index is left out unless it has a name) or Polars, a
                PyArrow table, record batch, reader or dataset, a dict of columns, a list of dicts, or a path: of a
                Parquet, CSV, JSON (objects one behind the other, or an array) or Arrow file, of a folder of such
                files, or a pattern (`"data/*.parquet"`). Several files have the same columns, whose types are widened
                from file to file.
            if_exists: `"append"` adds the rows. `"replace"` deletes all rows that the table has, in the same commit:
                whoever reads sees the old rows or the new ones, and where the load fails the old ones stay. Columns
                keep the types that the table has, where `schema` says no others and all of the new values are of
                them; what Parquet and Arrow files say of theirs counts. Where the columns are others then, the table
                is dropped and made again, once all rows were read (those that can be read only once are not read
                before): not in one step, and where the load then fails, the error says that the old rows are gone.
                `"fail"` is a `TableExists` where there is a table.
            key_columns: Rows of the table that have the same values in these columns as a new one are deleted in the
                same commit. Not with `if_exists="replace"`.
            request_id: Makes a later repetition harmless: rows with an id that was committed are not added again, and
                the answer says `replayed`. Default: a new one.
            progress: Whether to show how far it is on standard error. Default: in terminals and notebooks, after a
                second; a bar where tqdm is installed.
            schema: The types of all columns or of some: a `pyarrow.Schema`, or a dict of their names and types, which
                are PyArrow's or texts like `"decimal(12,2)"`. CSV and JSON are read as these types, and a table that
                is made has them. Default: those of the table; else what the rows say.
            delimiter: What separates the fields of a CSV. Default: the one of `,`, `;`, tab and `|` that fits.
            nulls: What is null in a CSV, quoted or not. Default: the empty cell, `NULL` and `\\N`, none of them in
                quotes where the column is text, so that `""` is an empty text; and `NA` in columns that are no text.

        Raises:
            InvalidData: The rows cannot be read, or do not fit the table: with the file, the line or row, and the
                column.
            InvalidRequest: What the server objects to, with the column and the row.
        """
        return run(
            write.load(
                self._connection,
                table,
                reader_of(data, schema, delimiter, nulls),
                if_exists=if_exists,
                key_columns=key_columns,
                request_id=request_id,
                progress=progress,
                schema=schema_of(schema),
            )
        )

    def tables(self) -> list[catalog.Table]:
        """Every table, by name."""
        return run(catalog.tables(self._connection))

    def describe(self, table: str, *, full: bool = False) -> catalog.TableDetails:
        """A table, and how its columns are held; `full` also their entropy, which reads all of them."""
        return run(catalog.describe(self._connection, table, full))

    def create(
        self,
        table: str,
        schema: Schema,
        *,
        if_not_exists: bool = False,
        retention: catalog.Retention | None = None,
    ) -> catalog.Table:
        """Creates a table.

        Args:
            table: A letter or `_`, then letters, digits and `_`.
            schema: A `pyarrow.Schema`, or a dict of the columns' names and types as for `load`; of the types that
                tables have (bool, integers, floats, decimal128, date32, timestamps of
                microseconds in UTC, time64 of microseconds, string, binary). The metadata of a field may have
                `basalt.references` (`"table.column"`: its values are keys there), `basalt.optimize` (`size`,
                `balanced`, `speed`) and `basalt.encoding`.
            if_not_exists: Success where there is one with the same schema.
            retention: For how long rows are part of it.
        """
        return run(catalog.create(self._connection, table, schema_of(schema), if_not_exists, retention))

    def drop(self, table: str, *, if_exists: bool = False) -> None:
        """Drops a table."""
        run(catalog.drop(self._connection, table, if_exists))

    def delete(self, table: str, filter: Filter | str) -> catalog.Deleted:
        """Deletes the rows for which a filter is true, all at once. Answers how many, and a version without them.

        Args:
            table: Its name.
            filter: `col("year") == 2014`; `constant(True)` is all rows. A text, `"year = 2014"`, is a condition in
                SQL, where the server has it.
        """
        return run(catalog.delete(self._connection, table, filter))

    def server_info(self) -> catalog.ServerInfo:
        """The server's version, instruction set and limits; asked once for a connection."""
        return run(catalog.server_info(self._connection))

    def cluster(self) -> catalog.Cluster:
        """The cluster that the server belongs to; one that is alone is its only node."""
        return run(catalog.cluster(self._connection))

    def running_queries(self) -> list[catalog.RunningQuery]:
        """The queries that run at all nodes, the oldest first: one's own, or all where the key may observe the server.

        A node that does not answer within half a second is warned of."""
        return run(catalog.running_queries(self._connection))

    def cancel_query(self, id: str) -> None:
        """Stops a query, at whichever node it runs; whoever waits for its answer gets `CANCELLED`.

        Raises `QueryNotFound` where none runs."""
        run(catalog.cancel_query(self._connection, id))

    def key_set(self, values: Any) -> KeySet:
        """A set of values that come from elsewhere, for `Expr.in_keys`.

        Args:
            values: An array of PyArrow, numpy, pandas or Polars, or a list: integers, bool, dates, timestamps or
                decimals of up to 18 digits.
        """
        return selections.of_values(self._connection, KeySet, values)

    def kept_set(self, handle: bytes) -> RowSet | KeySet:
        """The set that the server keeps under a handle."""
        return run(selections.kept(self._connection, RowSet, KeySet, handle))


class Query(QueryBuilder):
    """A query of one table; `collect` or `stream` runs it."""

    def __init__(self, connection: Connection, request: Any) -> None:
        super().__init__(request)
        self._connection = connection

    def collect(self) -> Result:
        """The whole answer; asked again where it breaks off."""
        return run(answers.collect_query(self._connection, self._request))

    def stream(self) -> Stream:
        """The answer's batches as they arrive; the deadline bounds the reading too."""
        return Stream(run(answers.open_query(self._connection, self._request)))

    def explain(self, *, analyze: bool = False) -> catalog.Plan:
        """How the query runs; with `analyze` it is run."""
        return run(catalog.explain(self._connection, self._request, analyze))

    def select_rows(self, *, keep: float | None = None, ids: bool = True) -> RowSet:
        """The rows that the filter selects, for `rows` of another query of the same version.

        Only the table, the filter and the version count.

        Args:
            keep: For how many seconds, at most 24 hours, the server keeps the set, so that filters only name it.
            ids: `False`, with `keep`: leave the ids there, where the set may be larger than a message.
        """
        return run(selections.select(self._connection, RowSet, self._selection("", keep, not ids)))

    def select_keys(self, column: str, *, keep: float | None = None, ids: bool = True) -> KeySet:
        """The distinct values of a column in the rows that the filter selects, for `Expr.in_keys`.

        Texts and floats have no ids: `keys_of` takes texts too. Otherwise as `select_rows`.
        """
        return run(selections.select(self._connection, KeySet, self._selection(column, keep, not ids)))


class RowSet(sets.Rows):
    """A set of rows of one version of one table: the ids are their addresses."""

    def keep(self, seconds: float) -> RowSet:
        """The same set, kept on the server for so long, at most 24 hours: filters then name it, and do not send it."""
        return run(selections.keep(self, seconds))

    def forget(self) -> bool:
        """Has the server forget the set; false where it had none."""
        return run(selections.forget(self))


class KeySet(sets.Keys):
    """A set of values of a column."""

    def keep(self, seconds: float) -> KeySet:
        """The same set, kept on the server for so long, at most 24 hours: filters then name it, and do not send it."""
        return run(selections.keep(self, seconds))

    def forget(self) -> bool:
        """Has the server forget the set; false where it had none."""
        return run(selections.forget(self))


class Stream:
    """An answer as it arrives, iterated by its record batches. It is complete when the iteration ends, and only then.

    As a context manager it has the server stop, where not all of it was read.
    """

    def __init__(self, answer: answers.AnswerStream) -> None:
        self._answer = answer

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._answer.schema

    @property
    def version(self) -> int:
        """The table's version that is read; 0 of a SQL statement."""
        return self._answer.version

    @property
    def versions(self) -> dict[str, int]:
        """The versions that a SQL statement has read, by table, once the answer is complete."""
        return self._answer.versions

    @property
    def statistics(self) -> Statistics | None:
        """What the query did, once the answer is complete."""
        return self._answer.statistics

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := run(self._answer.next())) is not None:
            yield batch

    def to_reader(self) -> pa.RecordBatchReader:
        """What comes, for libraries that read Arrow's streams."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """As `to_reader`, for libraries that ask for it so, and for `Client.load`."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Has the server stop, where not all of it was read."""
        self._answer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
