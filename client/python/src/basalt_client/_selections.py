"""Making sets, and having the server keep them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from . import _memory as memory
from . import _proto as pb
from ._rpc import Connection
from .errors import InvalidData, InvalidSet, MalformedAnswer
from .query import keep_ms
from .result import Statistics
from .sets import Keys, Rows, Set, kept_from_api, scope_of_values

S = TypeVar("S", bound=Set)
R = TypeVar("R", bound=Rows)
K = TypeVar("K", bound=Keys)


async def select(connection: Connection, kind: type[S], request: Any) -> S:
    """The set of a `SelectRequest`."""
    if request.omit_sip and not request.keep_ms:
        raise ValueError("a set whose ids stay on the server must be kept there: keep=SECONDS")
    answer = await connection.ask("QueryService.Select", request)
    if bool(answer.sip) == request.omit_sip:
        raise MalformedAnswer("a set with other bytes than were asked for")
    return kind(
        connection,
        answer.scope,
        answer.sip,
        answer.cardinality,
        Statistics.from_api(answer.statistics),
        kept_from_api(answer.handle, answer.expires_ms) if request.keep_ms else None,
    )


async def keep(held: S, seconds: float) -> S:
    """The set, kept on the server. The same set has the same handle; its time never becomes shorter."""
    if not held.data:
        raise InvalidSet("only the server holds the ids of this set: kept_set gives them, if they fit a message")
    request = pb.PutSipRequest(scope=held.scope, sip=held.data, ttl_ms=keep_ms(seconds))
    answer = await held.connection.ask("SipService.Put", request)
    kept = kept_from_api(answer.handle, answer.expires_ms)
    return type(held)(held.connection, held.scope, held.data, answer.cardinality, held.statistics, kept)


async def forget(held: Set) -> bool:
    """Has the server forget a set; false where it had none."""
    if held.kept is None:
        return False
    answer = await held.connection.ask("SipService.Delete", pb.DeleteSipRequest(handle=held.kept.handle))
    return bool(answer.existed)


async def kept(connection: Connection, rows: type[R], keys: type[K], handle: bytes) -> R | K:
    """The set that the server keeps under a handle."""
    answer = await connection.ask("SipService.Get", pb.GetSipRequest(handle=handle))
    found = kept_from_api(handle, answer.expires_ms)
    kind: type[R | K] = keys if answer.scope.HasField("key") else rows
    return kind(connection, answer.scope, answer.sip, answer.cardinality, Statistics(), found)


def of_values(connection: Connection, kind: type[K], values: Any) -> K:
    """A set of values that come from elsewhere."""
    try:
        array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else _array(_sequence(values))
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise InvalidData(f"these are no values of one type: {error}") from None
    if pa.types.is_null(array.type):
        how = "pyarrow.array([], pyarrow.int64()) is an empty set of integers"
        raise InvalidData(f"a set has the type of its values, and there is none: {how}")
    return kind(connection, *scope_of_values(array))


def _array(values: Any) -> Any:
    exact = memory.exact(values) if isinstance(values, (list, tuple)) else None
    return pa.array(values) if exact is None else exact


def _sequence(values: Any) -> Any:
    # PyArrow knows what is null in those of pandas.
    is_known = hasattr(values, "__arrow_array__") or type(values).__module__.partition(".")[0] == "pandas"
    if is_known or isinstance(values, (np.ndarray, list, tuple)):
        return values
    return values.to_arrow() if hasattr(values, "to_arrow") else list(values)
