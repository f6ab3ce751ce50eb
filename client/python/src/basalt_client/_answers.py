"""Reading answers: a header, batches, and the trailer without which they are no answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import pyarrow as pa

from . import _proto as pb
from . import _types as types
from ._rpc import Call, Connection
from ._values import to_value, wide
from .errors import IncompleteAnswer, InvalidData, MalformedAnswer
from .result import Result, Statistics

_QUERIES = {"select", "from", "with", "values", "table", "explain", "show", "describe", "desc", "summarize"}

_WITH = re.compile(r"\bwith\b", re.IGNORECASE)
# Words that write, which may stand behind the queries of a WITH.
_WRITES = re.compile(r"\b(?:insert|update|delete|merge)\b", re.IGNORECASE)

# What may be before the first word of a statement, and where a comment ends or another begins in it.
_BEFORE = re.compile(r"[\s(]+|--[^\n]*(?:\n|$)|/\*|\*/")
_COMMENT_ENDS = re.compile(r"/\*|\*/")


class AnswerStream:
    """An answer as it comes. It is complete when `next` gave `None`, and only then."""

    def __init__(self, call: Call, header: Any) -> None:
        self._call = call
        self._rows = 0
        self.schema = types.schema_from_api(header.schema)
        self.version: int = header.table_version
        self.versions: dict[str, int] = {}
        self.statistics: Statistics | None = None

    @classmethod
    async def open(cls, connection: Connection, name: str, request: Any) -> AnswerStream:
        """Makes the call, and waits until the answer begins."""
        call = connection.transport.streaming(pb.METHODS[name], request, connection.options.deadline)
        try:
            first = await call.read()
            if first is None:
                raise _incomplete()
            if first.WhichOneof("kind") != "header":
                raise MalformedAnswer("the answer does not start with its header")
            return cls(call, first.header)
        except BaseException:
            call.cancel()
            raise

    async def next(self) -> pa.RecordBatch | None:
        """The next batch; `None` when the answer is complete."""
        if self.statistics is not None:
            return None
        try:
            return await self._next()
        except BaseException:
            self._call.cancel()
            raise

    async def _next(self) -> pa.RecordBatch | None:
        message = await self._call.read()
        kind = message and message.WhichOneof("kind")
        if kind is None:
            raise _incomplete()
        if kind == "arrow_ipc":
            batch = _batch(message.arrow_ipc, self.schema)
            self._rows += batch.num_rows
            return batch
        if kind != "trailer":
            raise MalformedAnswer(f"a {kind} in the middle of an answer")
        trailer = message.trailer
        if not trailer.complete or trailer.rows != self._rows:
            raise MalformedAnswer(f"{self._rows} rows came, the trailer counts {trailer.rows}")
        if await self._call.read() is not None:
            raise MalformedAnswer("something behind the trailer")
        self.versions = {each.table: each.version for each in trailer.versions}
        self.statistics = Statistics.from_api(trailer.statistics)
        return None

    async def gather(self) -> Result:
        """The whole answer."""
        batches = []
        while (batch := await self.next()) is not None:
            batches.append(batch)
        assert self.statistics is not None
        return Result(self.schema, batches, self.statistics, self.version, self.versions)

    def close(self) -> None:
        """Has the server stop, where the answer is not complete."""
        self._call.cancel()


async def open_query(connection: Connection, request: Any) -> AnswerStream:
    """The answer to a `QueryRequest` as it comes."""
    return await connection.retrying(lambda call: AnswerStream.open(call, "QueryService.Query", request))


async def collect_query(connection: Connection, request: Any) -> Result:
    """The answer to a `QueryRequest`; asked again from the start where it breaks off."""

    async def attempt(call: Connection) -> Result:
        return await (await AnswerStream.open(call, "QueryService.Query", request)).gather()

    return await connection.retrying(attempt)


async def open_statement(connection: Connection, sql: str, parameters: Sequence[Any]) -> AnswerStream:
    """The answer to a SQL statement as it comes."""
    request = _statement(sql, parameters)

    async def attempt(call: Connection) -> AnswerStream:
        return await AnswerStream.open(call, "SqlService.Query", request)

    return await (connection.retrying(attempt) if may_repeat(sql) else connection.when_started(attempt))


async def collect_statement(connection: Connection, sql: str, parameters: Sequence[Any]) -> Result:
    """The answer to a SQL statement. One that writes is sent once: if it breaks off, it may have been done."""
    request = _statement(sql, parameters)

    async def attempt(call: Connection) -> Result:
        return await (await AnswerStream.open(call, "SqlService.Query", request)).gather()

    return await (connection.retrying(attempt) if may_repeat(sql) else connection.when_started(attempt))


def may_repeat(sql: str) -> bool:
    """Whether a statement may be run twice: it only reads. One that has WITH and a word that writes may do that."""
    return is_query(sql) and not (_WITH.search(sql) and _WRITES.search(sql))


def is_query(sql: str) -> bool:
    """Whether a statement only reads, by its first word."""
    at, depth = 0, 0
    while token := _BEFORE.match(sql, at):
        # Comments may hold others.
        depth = depth + 1 if token[0] == "/*" else max(depth - 1, 0) if token[0] == "*/" else depth
        at = token.end()
        if depth:
            at = next((found.start() for found in [_COMMENT_ENDS.search(sql, at)] if found), len(sql))
    first = re.compile("[a-zA-Z]*").match(sql, at)
    return first is not None and first[0].lower() in _QUERIES


def _statement(sql: str, parameters: Sequence[Any]) -> Any:
    if isinstance(parameters, Mapping):
        # Its keys would go as the values.
        raise TypeError("parameters have no names here: a list has the values of $1, $2, ..., or of each ? in turn")
    if isinstance(parameters, (str, bytes, Set)) or not isinstance(parameters, Iterable):
        raise TypeError("parameters are a list of values, one for each ? or $1")
    values = []
    for number, parameter in enumerate(parameters, 1):
        if isinstance(parameter, (bytes, bytearray, memoryview)):
            # As text they would be compared as the text's own bytes, and quietly select nothing.
            how = r"write CAST(? AS BYTEA) for a text like '\xAA\x01'"
            raise InvalidData(f"parameter {number}: bytes do not travel as a parameter; {how}")
        if isinstance(parameter, (list, tuple, Set, np.ndarray)):
            # A condition has one value; there are no arrays as parameters.
            how = """f"x IN ({', '.join('?' * len(values))})", values"""
            what = type(parameter).__qualname__
            raise InvalidData(f"parameter {number} is a {what}: for IN each value is a parameter, as in {how}")
        if (long := wide(parameter)) is not None:
            # Where no column says that it is one, its text would be compared sign by sign.
            scale = max(-int(long.as_tuple().exponent), 0)
            how = f"write CAST(? AS DECIMAL(38, {scale})) for its text" if scale <= 38 else "as a text it does"
            raise InvalidData(f"parameter {number}: {long} has more than 64 bits, and does not travel; {how}")
        values.append(to_value(parameter))
    return pb.SqlRequest(sql=sql, parameters=values, format=pb.FORMAT_ARROW_IPC)


def _batch(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """The one batch of an Arrow IPC stream."""
    try:
        with pa.ipc.open_stream(data) as stream:
            batch = stream.read_next_batch()
            return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    except (pa.ArrowException, OSError, StopIteration, ValueError, TypeError) as error:
        raise MalformedAnswer(f"the answer's batches cannot be read: {error}") from None


def _incomplete() -> IncompleteAnswer:
    return IncompleteAnswer("the answer is incomplete: the stream ended without its trailer")
