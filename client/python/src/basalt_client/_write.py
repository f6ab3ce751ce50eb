"""Loading rows: all of them visible at once, or none."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from . import _proto as pb
from . import _types as types
from . import catalog
from ._cast import cast_batch, table_schema
from ._keep import kept
from ._progress import Progress
from ._rpc import Connection, Duplex
from ._sources import ReadRows, Source
from .errors import (
    BasaltError,
    Cancelled,
    ColumnNotFound,
    DeadlineExceeded,
    IncompleteAnswer,
    InvalidData,
    MalformedAnswer,
    TableExists,
    TableNotFound,
    add_note,
)

IfExists = Literal["append", "replace", "fail"]

# Bytes of a message: enough to outweigh its overhead, few enough that both ends work at the same time.
_TARGET_MESSAGE_BYTES = 1 << 20
# What a message takes beside its rows, at most.
_MESSAGE_OVERHEAD = 64


@dataclass(frozen=True)
class Committed:
    """A finished write."""

    version: int
    """The table's version that first shows the rows."""
    rows: int
    """How many rows."""
    replayed: bool
    """The rows were there already, from an earlier write with the same request id."""
    replaced: int | None
    """How many older rows they took the place of; `None` where that is not known, as of a write that is replayed."""


async def load(
    connection: Connection,
    table: str,
    read: ReadRows,
    *,
    if_exists: IfExists,
    key_columns: str | Sequence[str],
    request_id: str | None,
    progress: bool | None,
    schema: pa.Schema,
) -> Committed:
    """See `Client.load`.

    `read` reads the rows, texts as a table has them; `schema` has the columns whose types are said.
    """
    if if_exists not in ("append", "replace", "fail"):
        raise ValueError(f"if_exists is 'append', 'replace' or 'fail', not {if_exists!r}")
    replace_by = [key_columns] if isinstance(key_columns, str) else list(key_columns)
    if replace_by and if_exists == "replace":
        raise ValueError("key_columns say which rows are replaced, if_exists='replace' that all are: one of them")
    existing = await _table(connection, table)
    found = None if existing is None else types.schema_from_api(existing.schema)
    if found is not None and if_exists == "fail":
        raise TableExists(f"there is a table {table!r} already", reason="TABLE_EXISTS")
    replaces = found is not None and if_exists == "replace"
    # Types of rows that take the place of others are found first.
    source = await connection.transport.work(lambda: read(found, () if replaces else None))
    names = source.schema.names
    if len(set(names)) < len(names):
        raise InvalidData(f"two columns have one name: {', '.join(names)}")
    if found is not None and not replaces and (unknown := [name for name in names if name not in found.names]):
        has = ", ".join(found.names)
        what = f"the rows have a column {unknown[0]!r}, and table {table!r} has {has}"
        raise ColumnNotFound(what, reason="COLUMN_NOT_FOUND")
    if not names and (replaces or found is None):
        raise InvalidData("the rows have no columns, and a table has")
    # Before a table is dropped, because this fails for columns that no table holds.
    wanted = table_schema(pa.schema([_said(schema, field) for field in source.schema]))
    if replaces and found is not None:
        own = pa.schema([field for field in found if field.name not in schema.names])
        wanted, source = await connection.transport.work(
            lambda: kept(own, wanted, source, lambda typed: read(found, typed))
        )
    replaces_rows = replaces and found is not None and _holds(found, wanted)
    creates = found is None or (replaces and not replaces_rows)
    drops = creates and found is not None
    if drops and source.repeatable:
        # What cannot be read costs nothing then.
        await _read_through(connection, source, wanted)
    request_id = request_id or str(uuid.uuid4())
    opening = pb.Open(
        table=table, request_id=request_id, columns=names, replace_by=replace_by, replace_all=replaces_rows
    )
    bar = Progress(table, source.rows, progress)
    state = _State()

    async def attempt(call: Connection) -> Committed:
        return await _write(call, opening, source, bar, state)

    try:
        if drops:
            await catalog.drop(connection, table, if_exists=True)
            state.is_dropped = True
        if creates:
            columns = wanted
            if found is not None and sorted(found.names) == sorted(wanted.names):
                columns = pa.schema([wanted.field(name) for name in found.names])
            request = pb.CreateTableRequest(name=table, schema=types.schema_to_api(columns))
            if existing is not None:
                _keep_properties(request, existing, wanted)
            # A second try of a creation that was done would find the table there.
            await connection.once("CatalogService.CreateTable", request)
            state.is_created = True
        if source.repeatable:
            return await connection.retrying(attempt, bounded=False)
        # Nothing is read before the server has opened the write.
        return await connection.when_started(attempt)
    except BaseException as error:
        if state.is_created and not state.may_be_committed:
            # The table was created for rows that did not arrive. Others may have written to it meanwhile.
            with suppress(BasaltError):
                created = await _table(connection, table)
                if created is not None and created.rows == 0:
                    await catalog.drop(connection, table, if_exists=True)
        if state.is_dropped:
            add_note(
                error, f"the old table {table!r} was dropped before, because its columns are others: its rows are gone"
            )
        raise
    finally:
        bar.close()


def _said(schema: pa.Schema, field: pa.Field) -> pa.Field:
    """A column as a schema says, where it does."""
    return schema.field(field.name) if field.name in schema.names else field


def _holds(table: pa.Schema, wanted: pa.Schema) -> bool:
    """Whether a table has these columns, in any order, and what is said of how they are held."""

    def is_held(field: pa.Field) -> bool:
        own = table.field(field.name)
        said = (field.metadata or {}).items() <= (own.metadata or {}).items()
        return own.type == field.type and (own.nullable or not field.nullable) and said

    return sorted(table.names) == sorted(wanted.names) and all(map(is_held, wanted))


async def _table(connection: Connection, table: str) -> Any | None:
    """The API's `Table`; `None` where there is none."""
    request = pb.GetTableRequest(name=table, view=pb.TABLE_VIEW_SUMMARY)
    try:
        return (await connection.ask("CatalogService.GetTable", request)).table
    except TableNotFound:
        return None


def _keep_properties(request: Any, existing: Any, columns: pa.Schema) -> None:
    """Has a table that takes the place of another keep its rows for as long, and leave of deletions what that did."""
    request.deletes = existing.deletes
    if existing.HasField("retention") and existing.retention.column in columns.names:
        kind = columns.field(existing.retention.column).type
        if kind in (types.TIMESTAMP, pa.date32()):
            request.retention.CopyFrom(existing.retention)


async def _read_through(connection: Connection, source: Source, schema: pa.Schema) -> None:
    """Reads all rows as those of a table, and keeps none."""
    rows = _Rows(source, schema)
    while await connection.transport.work(rows.next_batch) is not None:
        pass


class _State:
    """What is known of the tries of one write."""

    def __init__(self) -> None:
        self.may_be_committed = False
        self.is_dropped = False
        self.is_created = False

    async def committing(self, writer: _Writer) -> Committed:
        """Commits, and remembers whether it may have happened."""
        before, self.may_be_committed = self.may_be_committed, True
        try:
            return await writer.commit()
        except BasaltError as error:
            if error.reason and not error.retryable and not isinstance(error, (DeadlineExceeded, Cancelled)):
                # The server refused.
                self.may_be_committed = before
            raise


async def _write(connection: Connection, opening: Any, source: Source, bar: Progress, state: _State) -> Committed:
    limits = (await connection.server_info()).limits
    call = connection.transport.duplex(pb.METHODS["IngestService.Write"])
    try:
        writer = await _Writer.open(call, opening, connection.options.deadline, limits)
        rows = _Rows(source, writer.schema)
        while (batch := await connection.transport.work(rows.next_batch)) is not None:
            await writer.send(batch)
            bar.update(writer.acknowledged_rows, writer.sent_bytes)
        return await state.committing(writer)
    except BaseException:
        call.cancel()
        raise


class _Rows:
    """The rows of a source in a table's types."""

    def __init__(self, source: Source, schema: pa.Schema) -> None:
        self._source = source
        self._schema = schema
        self._batches = source.batches()
        self._rows = 0

    def next_batch(self) -> pa.RecordBatch | None:
        """The next of them; `None` behind the last."""
        try:
            batch = next(self._batches, None)
        except pa.ArrowException as error:
            raise InvalidData(f"the rows cannot be read: {error}") from None
        if batch is None:
            return None
        before = self._rows
        self._rows += batch.num_rows
        return cast_batch(batch, self._schema, lambda row: self._source.place(before + row))


class _Writer:
    """An open write."""

    def __init__(self, call: Duplex, schema: pa.Schema, window_bytes: int, limits: Any) -> None:
        self._call = call
        self.schema = schema
        """Of the batches to send."""
        self._window_bytes = window_bytes
        self._max_message_bytes = min(limits.message_bytes, window_bytes)
        self._max_rows = limits.batch_rows
        self._sequence = 0
        # The bytes of the messages under way, oldest first.
        self._unacknowledged: deque[int] = deque()
        self._sent_rows = 0
        self.sent_bytes = 0
        self.acknowledged_rows = 0

    @classmethod
    async def open(cls, call: Duplex, opening: Any, deadline: float, limits: Any) -> _Writer:
        await call.write(pb.WriteRequest(open=opening))
        opened = await _response(call, "opened", deadline)
        table = types.schema_from_api(opened.schema)
        schema = pa.schema([table.field(name) for name in opening.columns])
        return cls(call, schema, opened.window_bytes, limits)

    async def send(self, batch: pa.RecordBatch) -> None:
        """Sends rows, in as many messages as the server's limits ask for, and waits where its window is full."""
        average = max(batch.nbytes // max(batch.num_rows, 1), 1)
        rows = min(max(min(_TARGET_MESSAGE_BYTES, self._max_message_bytes) // average, 1), self._max_rows)
        pieces = deque(batch.slice(at, rows) for at in range(0, batch.num_rows, rows))
        while pieces:
            piece = pieces.popleft()
            data = _ipc(piece)
            if len(data) + _MESSAGE_OVERHEAD <= self._max_message_bytes:
                await self._send(data, piece.num_rows)
            elif piece.num_rows > 1:
                # Rows of very different sizes: the estimate was too low here.
                half = piece.num_rows // 2
                pieces.extendleft([piece.slice(half), piece.slice(0, half)])
            else:
                limit = self._max_message_bytes
                raise InvalidData(f"one row takes {len(data):,} bytes; a message may have {limit:,}")

    async def _send(self, data: bytes, rows: int) -> None:
        while self._unacknowledged and sum(self._unacknowledged) + len(data) > self._window_bytes:
            self._acknowledge(await _response(self._call, "ack"))
        self._sequence += 1
        await self._call.write(pb.WriteRequest(batch=pb.Batch(sequence=self._sequence, arrow_ipc=data)))
        self._unacknowledged.append(len(data) + _MESSAGE_OVERHEAD)
        self._sent_rows += rows
        self.sent_bytes += len(data)

    def _acknowledge(self, ack: Any) -> None:
        expected = self._sequence + 1 - len(self._unacknowledged)
        if not self._unacknowledged or ack.sequence != expected:
            raise MalformedAnswer(f"batch {ack.sequence} is acknowledged, not {expected}")
        self._unacknowledged.popleft()
        self.acknowledged_rows = ack.rows

    async def commit(self) -> Committed:
        """Makes all rows visible at once."""
        await self._call.write(pb.WriteRequest(commit=pb.Commit(batches=self._sequence, rows=self._sent_rows)))
        await self._call.done_writing()
        while self._unacknowledged:
            self._acknowledge(await _response(self._call, "ack"))
        committed = await _response(self._call, "committed")
        if committed.rows != self._sent_rows:
            raise MalformedAnswer(f"{committed.rows} rows are committed, {self._sent_rows} were sent")
        replaced = committed.replaced if committed.HasField("replaced") else None
        return Committed(committed.version, committed.rows, committed.replayed, replaced)


async def _response(call: Duplex, kind: str, timeout: float | None = None) -> Any:
    message = await call.read(timeout)
    if message is None:
        raise IncompleteAnswer("the write is incomplete: the server ended the stream before it was committed")
    if message.WhichOneof("kind") != kind:
        raise MalformedAnswer(f"{message.WhichOneof('kind')} where {kind} is due")
    return getattr(message, kind)


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data
