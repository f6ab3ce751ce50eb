"""Tables, their columns, the server and its cluster."""

from __future__ import annotations

import datetime as dt
import warnings
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

import pyarrow as pa

from . import _proto as pb
from . import _types as types
from ._answers import collect_statement
from ._conditions import deletion, of_condition
from ._rpc import Connection
from ._values import from_value
from .errors import BasaltError, MalformedAnswer, NotSupported, add_note
from .expressions import Filter

T = TypeVar("T")

_FILTERS = 'filters such as col("year") == 2014'
_CONDITIONS = f"{_FILTERS}, or by a text that is a condition in SQL"


@dataclass(frozen=True)
class Retention:
    """For how long rows are part of a table: older ones are not read any more. Rows without a time are kept."""

    column: str
    """A timestamp, or a date, whose days end at midnight UTC."""
    keep: dt.timedelta
    """In whole seconds."""


@dataclass(frozen=True)
class Table:
    """A table and its sizes."""

    name: str
    schema: pa.Schema
    version: int
    """The number of its newest commit."""
    rows: int
    fragments: int
    """Parts of at most 2^20 rows."""
    bytes: int
    """Held in memory, everything counted."""
    retention: Retention | None
    """`None`: rows are kept for good."""


@dataclass(frozen=True)
class EncodingUse:
    """Which encoding holds how much of a column."""

    encoding: str
    fragments: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class Column:
    """How one column is held."""

    field: pa.Field
    rows: int
    nulls: int
    bytes: int
    """Held, with validity, indexes, tables and headers."""
    plain_bytes: int
    """What plain Arrow arrays would take."""
    encodings: list[EncodingUse]
    entropy_bits: float | None
    """Order-0 entropy of the values in bits a row; `None` unless `describe` was asked for all."""
    min: Any
    max: Any


@dataclass(frozen=True)
class TableDetails:
    """A table with its columns, in the schema's order."""

    table: Table
    columns: list[Column]


@dataclass(frozen=True)
class Deleted:
    """What a deletion did."""

    version: int
    """The first version without the rows. Of a condition in SQL, whose answer does not tell it, the table's newest one
    right after: it is without the rows, and later commits of others may be in it."""
    rows: int
    """How many they were."""


@dataclass(frozen=True)
class Limits:
    """What a server takes at most; times are milliseconds."""

    message_bytes: int
    filter_depth: int
    filter_nodes: int
    in_list_values: int
    columns: int
    batch_rows: int
    memory_bytes: int
    concurrent_queries: int
    max_deadline_ms: int
    kept_sets_bytes: int
    max_keep_ms: int
    semi_joins: int


@dataclass(frozen=True)
class ServerInfo:
    """A server's version, the instruction set of its kernels, and its limits."""

    version: str
    simd: str
    limits: Limits


@dataclass(frozen=True)
class NodeTable:
    """What a node holds of a table."""

    name: str
    version: int
    """The newest version that it knows."""
    lag: int
    """Versions behind the newest that any node knows."""
    fragments: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class Node:
    """A node of a cluster; times are milliseconds."""

    name: str
    """As the others reach it; empty for a server without a cluster."""
    state: str
    """`alive`, `suspect`, `dead`, `incompatible` or `not_ready`."""
    own: bool
    """It is the one that answered."""
    version: str
    uptime_ms: int
    silent_ms: int
    """Since its last answer."""
    memory_bytes: int
    memory_limit_bytes: int
    tables: list[NodeTable]


@dataclass(frozen=True)
class ClusterTable:
    """The newest version of a table that any node knows."""

    name: str
    version: int
    fragments: int
    rows: int


@dataclass(frozen=True)
class Cluster:
    """The nodes of a cluster and its tables, as one node sees them."""

    nodes: list[Node]
    replication: int
    """How many nodes hold each fragment."""
    tables: list[ClusterTable]


@dataclass(frozen=True)
class RunningQuery:
    """A query that runs at a node of the cluster."""

    id: str
    """No other query of any server has it."""
    text: str
    """The statement, or the request as a statement; its beginning, where it is long. Empty until it is known."""
    method: str
    """The method that it came by, as the server's log and metrics have it."""
    caller: str
    """Its address, and the name of its key."""
    started: dt.datetime
    elapsed_ms: int
    state: str
    """`planning`, `running` or `cancelling`."""
    rows: int
    """Rows of its answer that have been made."""
    node: str = ""
    """The node that was asked for it; empty for a server without a cluster."""


@dataclass(frozen=True)
class Plan:
    """How a query runs. It is printed as the plan's tree."""

    text: str
    message: Any
    """The API's `ExplainResponse`, with each step as data."""

    def __str__(self) -> str:
        return self.text


async def tables(connection: Connection) -> list[Table]:
    found: list[Table] = []
    token = ""
    while True:
        page = await connection.ask("CatalogService.ListTables", pb.ListTablesRequest(page_token=token))
        found += map(_table, page.tables)
        if not page.next_page_token:
            return found
        if page.next_page_token == token:
            raise MalformedAnswer("the same page of tables twice")
        token = page.next_page_token


async def describe(connection: Connection, name: str, full: bool) -> TableDetails:
    view = pb.TABLE_VIEW_FULL if full else pb.TABLE_VIEW_BASIC
    answer = await connection.ask("CatalogService.GetTable", pb.GetTableRequest(name=name, view=view))
    return TableDetails(_table(answer.table), [_column(column) for column in answer.columns])


async def create(
    connection: Connection, name: str, schema: pa.Schema, if_not_exists: bool, retention: Retention | None
) -> Table:
    request = pb.CreateTableRequest(name=name, schema=types.schema_to_api(schema), if_not_exists=if_not_exists)
    if retention is not None:
        seconds = int(retention.keep.total_seconds())
        request.retention.CopyFrom(pb.Retention(column=retention.column, seconds=seconds))
    # A second try of a creation that was done would find the table there.
    call = connection.ask if if_not_exists else connection.once
    return _table((await call("CatalogService.CreateTable", request)).table)


async def drop(connection: Connection, name: str, if_exists: bool) -> None:
    call = connection.ask if if_exists else connection.once
    await call("CatalogService.DropTable", pb.DropTableRequest(name=name, if_exists=if_exists))


async def delete(connection: Connection, table: str, filter: Filter | str) -> Deleted:
    if isinstance(filter, str):
        return await _delete_where(connection, table, filter)
    if not isinstance(filter, Filter):
        raise TypeError(f"rows are deleted by {_CONDITIONS}, not by a {type(filter).__qualname__}")
    request = pb.DeleteRequest(table=table, filter=filter.message)
    answer = await connection.once("IngestService.Delete", request)
    return Deleted(answer.version, answer.rows)


async def _delete_where(connection: Connection, table: str, condition: str) -> Deleted:
    """Deletes by a condition in SQL."""
    if not condition.strip():
        raise TypeError(f"rows are deleted by {_CONDITIONS}; all of them by constant(True)")
    statement = deletion(table, condition)
    try:
        answer = await collect_statement(connection, statement, ())
    except NotSupported as error:
        if error.reason:
            raise of_condition(error, condition) from None
        raise TypeError(f"this server has no SQL: rows are deleted by {_FILTERS}, not by a text") from None
    except BasaltError as error:
        raise of_condition(error, condition) from None
    request = pb.GetTableRequest(name=table, view=pb.TABLE_VIEW_SUMMARY)
    try:
        version = (await connection.ask("CatalogService.GetTable", request)).table.version
    except BasaltError as error:
        add_note(error, f"{answer.scalar()} rows are deleted, and the version is not known")
        raise
    return Deleted(version, answer.scalar())


async def server_info(connection: Connection) -> ServerInfo:
    info = await connection.server_info()
    return _plain(ServerInfo, info, limits=_plain(Limits, info.limits))


async def cluster(connection: Connection) -> Cluster:
    answer = await connection.ask("ClusterService.GetCluster", pb.GetClusterRequest())
    tables = [_plain(ClusterTable, each) for each in answer.tables]
    return Cluster([_node(node) for node in answer.nodes], answer.replication, tables)


async def running_queries(connection: Connection) -> list[RunningQuery]:
    answer = await connection.ask("QueryService.ListQueries", pb.ListQueriesRequest())
    for silent in answer.unanswered:
        warnings.warn(f"of the queries of node {silent.node} nothing is known: {silent.problem}", stacklevel=3)
    return [_running(query) for query in answer.queries]


async def cancel_query(connection: Connection, query: str) -> None:
    await connection.ask("QueryService.CancelQuery", pb.CancelQueryRequest(id=query))


async def explain(connection: Connection, query: Any, analyze: bool) -> Plan:
    answer = await connection.ask("QueryService.Explain", pb.ExplainRequest(query=query, analyze=analyze))
    return Plan(answer.text, answer)


def _table(table: Any) -> Table:
    retention = None
    if table.HasField("retention"):
        retention = Retention(table.retention.column, dt.timedelta(seconds=table.retention.seconds))
    schema = types.schema_from_api(table.schema)
    return Table(table.name, schema, table.version, table.rows, table.fragments, table.bytes, retention)


def _column(column: Any) -> Column:
    return Column(
        field=types.field_from_api(column.field),
        rows=column.rows,
        nulls=column.nulls,
        bytes=column.bytes,
        plain_bytes=column.plain_bytes,
        encodings=[_plain(EncodingUse, each) for each in column.encodings],
        entropy_bits=column.entropy_bits if column.HasField("entropy_bits") else None,
        min=from_value(column.min),
        max=from_value(column.max),
    )


def _node(node: Any) -> Node:
    state = pb.NodeState.values_by_number[node.state].name.removeprefix("NODE_STATE_").lower()
    return _plain(Node, node, state=state, tables=[_plain(NodeTable, each) for each in node.tables])


def _running(query: Any) -> RunningQuery:
    state = pb.QueryState.values_by_number[query.state].name.removeprefix("QUERY_STATE_").lower()
    started = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=query.started_us)
    return _plain(RunningQuery, query, state=state, started=started)


def _plain(kind: type[T], message: Any, **others: Any) -> T:
    """A data class whose fields are a message's, by their names, but for the others."""
    assert is_dataclass(kind)
    same = {each.name: getattr(message, each.name) for each in fields(kind) if each.name not in others}
    return kind(**same, **others)
