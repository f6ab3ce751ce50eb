"""The asynchronous twin of the client: the same names, awaited.

```python
from basalt_client import aio

async with aio.connect("127.0.0.1:7700") as client:
    answer = await client.sql("SELECT count(*) FROM flights")
```
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import pyarrow as pa
from typing_extensions import Self

from . import _answers as answers
from . import _selections as selections
from . import _write as write
from . import catalog, sets
from ._asyncio import AsyncTransport
from ._credentials import Path, Target, target_of
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
) -> Connecting:
    """As `basalt_client.connect`, to be awaited or entered: `async with aio.connect(...) as client`."""
    options = Options(deadline=deadline, retry=retry or RetryPolicy())
    return Connecting(target_of(address, key, ca, cert, cert_key), options)


class Connecting:
    """A client that is about to be: `await` it, or enter it with `async with`."""

    def __init__(self, target: Target, options: Options) -> None:
        self._target = target
        self._options = options
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def _connect(self) -> Client:
        # Not before: a channel belongs to the event loop that runs when it is made.
        transport = AsyncTransport(self._target, self._options)
        connection = Connection(transport, self._target.url, self._options)
        try:
            await connection.check()
        except BaseException:
            await transport.close()
            raise
        return Client(connection)

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()


class Client:
    """A connection to a server; made by `connect`. Its methods are those of `basalt_client.Client`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"aio.Client({self.address})"

    @property
    def address(self) -> str:
        """The server's address."""
        return self._connection.address

    async def close(self) -> None:
        """Ends the connection, and the calls that are under way."""
        await self._connection.transport.close()

    def with_deadline(self, seconds: float) -> Client:
        """A client over the same connection with another deadline for each call."""
        options = replace(self._connection.options, deadline=seconds)
        return Client(self._connection.with_options(options))

    async def sql(self, statement: str, parameters: Sequence[Any] = ()) -> Result:
        """The whole answer to a SQL statement."""
        return await answers.collect_statement(self._connection, statement, parameters)

    async def stream(self, statement: str, parameters: Sequence[Any] = ()) -> Stream:
        """The answer to a SQL statement, with its batches as they arrive."""
        return Stream(await answers.open_statement(self._connection, statement, parameters))

    def query(self, table: str) -> Query:
        """A query of one table, to be built."""
        return Query(self._connection, request_of(table))

    async def load(
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
        """Writes rows to a table: all of them are visible at once, or none. Files are read in another thread."""
        return await write.load(
            self._connection,
            table,
            reader_of(data, schema, delimiter, nulls),
            if_exists=if_exists,
            key_columns=key_columns,
            request_id=request_id,
            progress=progress,
            schema=schema_of(schema),
        )

    async def tables(self) -> list[catalog.Table]:
        """Every table, by name."""
        return await catalog.tables(self._connection)

    async def describe(self, table: str, *, full: bool = False) -> catalog.TableDetails:
        """A table, and how its columns are held; `full` also their entropy, which reads all of them."""
        return await catalog.describe(self._connection, table, full)

    async def create(
        self,
        table: str,
        schema: Schema,
        *,
        if_not_exists: bool = False,
        retention: catalog.Retention | None = None,
    ) -> catalog.Table:
        """Creates a table."""
        return await catalog.create(self._connection, table, schema_of(schema), if_not_exists, retention)

    async def drop(self, table: str, *, if_exists: bool = False) -> None:
        """Drops a table."""
        await catalog.drop(self._connection, table, if_exists)

    async def delete(self, table: str, filter: Filter | str) -> catalog.Deleted:
        """Deletes the rows for which a filter, or a condition in SQL, is true, all at once."""
        return await catalog.delete(self._connection, table, filter)

    async def server_info(self) -> catalog.ServerInfo:
        """The server's version, instruction set and limits; asked once for a connection."""
        return await catalog.server_info(self._connection)

    async def cluster(self) -> catalog.Cluster:
        """The cluster that the server belongs to; one that is alone is its only node."""
        return await catalog.cluster(self._connection)

    async def running_queries(self) -> list[catalog.RunningQuery]:
        """The queries that run at all nodes, the oldest first: one's own, or all where the key may observe the server.

        A node that does not answer within half a second is warned of."""
        return await catalog.running_queries(self._connection)

    async def cancel_query(self, id: str) -> None:
        """Stops a query, at whichever node it runs; whoever waits for its answer gets `CANCELLED`.

        Raises `QueryNotFound` where none runs."""
        await catalog.cancel_query(self._connection, id)

    def key_set(self, values: Any) -> KeySet:
        """A set of values that come from elsewhere, for `Expr.in_keys`."""
        return selections.of_values(self._connection, KeySet, values)

    async def kept_set(self, handle: bytes) -> RowSet | KeySet:
        """The set that the server keeps under a handle."""
        return await selections.kept(self._connection, RowSet, KeySet, handle)


class Query(QueryBuilder):
    """A query of one table; its methods are those of `basalt_client.Query`."""

    def __init__(self, connection: Connection, request: Any) -> None:
        super().__init__(request)
        self._connection = connection

    async def collect(self) -> Result:
        """The whole answer; asked again where it breaks off."""
        return await answers.collect_query(self._connection, self._request)

    async def stream(self) -> Stream:
        """The answer's batches as they arrive; the deadline bounds the reading too."""
        return Stream(await answers.open_query(self._connection, self._request))

    async def explain(self, *, analyze: bool = False) -> catalog.Plan:
        """How the query runs; with `analyze` it is run."""
        return await catalog.explain(self._connection, self._request, analyze)

    async def select_rows(self, *, keep: float | None = None, ids: bool = True) -> RowSet:
        """The rows that the filter selects, for `rows` of another query of the same version."""
        return await selections.select(self._connection, RowSet, self._selection("", keep, not ids))

    async def select_keys(self, column: str, *, keep: float | None = None, ids: bool = True) -> KeySet:
        """The distinct values of a column in the rows that the filter selects, for `Expr.in_keys`."""
        return await selections.select(self._connection, KeySet, self._selection(column, keep, not ids))


class RowSet(sets.Rows):
    """A set of rows of one version of one table: the ids are their addresses."""

    async def keep(self, seconds: float) -> RowSet:
        """The same set, kept on the server for so long, at most 24 hours."""
        return await selections.keep(self, seconds)

    async def forget(self) -> bool:
        """Has the server forget the set; false where it had none."""
        return await selections.forget(self)


class KeySet(sets.Keys):
    """A set of values of a column."""

    async def keep(self, seconds: float) -> KeySet:
        """The same set, kept on the server for so long, at most 24 hours."""
        return await selections.keep(self, seconds)

    async def forget(self) -> bool:
        """Has the server forget the set; false where it had none."""
        return await selections.forget(self)


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

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        while (batch := await self._answer.next()) is not None:
            yield batch

    def close(self) -> None:
        """Has the server stop, where not all of it was read."""
        self._answer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
