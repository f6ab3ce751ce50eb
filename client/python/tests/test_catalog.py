"""Tables, the server, the cluster."""

import asyncio
import datetime as dt
from collections.abc import Iterator

import grpc
import pyarrow as pa
import pytest
from conftest import Proxy

import basalt_client as basalt
from basalt_client import aio, col, constant


def test_a_tables_life(client: basalt.Client, table: str) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False, metadata={"basalt.encoding": "plain"}),
            pa.field("of", pa.int32(), metadata={"basalt.references": "others.id"}),
            pa.field("text", pa.string(), metadata={"basalt.optimize": "speed"}),
        ]
    )
    made = client.create(table, schema)
    assert made.schema.equals(schema, check_metadata=True)
    assert client.create(table, schema, if_not_exists=True) == made
    with pytest.raises(basalt.TableExists):
        client.create(table, schema)
    assert (made.name, made.rows, made.retention) == (table, 0, None)
    assert made in client.tables()

    client.load(table, {"id": [1, 2, 3], "of": [5, None, 7], "text": ["a", "b", "a"]})
    details = client.describe(table)
    assert (details.table.rows, details.table.name) == (3, table)
    id, of, text = details.columns
    assert (id.min, id.max, id.nulls, of.nulls, text.max) == (1, 3, 0, 1, "b")
    assert id.encodings[0].encoding == "plain"
    assert id.entropy_bits is None
    assert client.describe(table, full=True).columns[0].entropy_bits == pytest.approx(1.585, abs=0.01)

    with pytest.raises(basalt.InvalidRequest):
        client.load(table, {"id": [None]})
    deleted = client.delete(table, col("id") > 1)
    assert deleted.rows == 2
    assert client.query(table).select("id").collect().rows() == [(1,)]
    assert client.delete(table, constant(True)).rows == 1
    for what in (True, None, ""):
        with pytest.raises(TypeError, match=r'col\("year"\) == 2014'):
            client.delete(table, what)

    client.drop(table)
    client.drop(table, if_exists=True)
    with pytest.raises(basalt.TableNotFound):
        client.drop(table)
    with pytest.raises(basalt.TableNotFound):
        client.describe(table)
    assert table not in [each.name for each in client.tables()]


@pytest.mark.sql
def test_delete_by_a_condition_in_sql(client: basalt.Client, address: str, table: str) -> None:
    client.load(table, {"year": [2013, 2014, 2014, 2015, None]})
    before = client.describe(table).table.version
    deleted = client.delete(table, "year = 2014 -- as in SQL")
    assert (deleted.rows, deleted.version) == (2, before + 1)
    assert client.delete(table, "year = 1000") == basalt.Deleted(before + 1, 0)
    assert client.delete(table, "year = 2013 OR year IS NULL").rows == 2
    with pytest.raises(basalt.ColumnNotFound):
        client.delete(table, "yeer = 2015")
    with pytest.raises(basalt.InvalidRequest):
        client.delete(table, f"year = 1; DROP TABLE {table}")
    with pytest.raises(basalt.TableNotFound):
        client.delete('no"such', "year = 1")

    async def use() -> int:
        async with aio.connect(address) as awaited:
            return (await awaited.delete(table, "year = 2015")).rows

    assert asyncio.run(use()) == 1
    assert len(client.query(table).collect()) == 0


@pytest.mark.sql
@pytest.mark.parametrize(
    ("condition", "message", "place"),
    [
        ("nope = 2015", 'no column "nope"', "column 1 of the condition"),
        ("year = 2014\n AND nope = 1", 'no column "nope"', "line 2, column 6 of the condition"),
        ("year = 'x'", "cannot cast string 'x' to value of Int64 type", "column 8 of the condition"),
        ("year = ", "expected an expression, found the end of the condition", "the end of the condition"),
        ("(year = 1", "expected ), found the end of the condition", "the end of the condition"),
        ("year = 1 LIMIT 1", "expected the end of the condition, found limit", "column 10 of the condition"),
        ("year = 1)", "a ) has no (", "column 9 of the condition"),
        ("year = 1) OR (year = 2", "a ) has no (", "column 9 of the condition"),
        ("year = 1; DROP TABLE t", "expected one condition, found ;", "column 9 of the condition"),
        (" WHERE year = 1", "a condition begins behind WHERE, which is none of it", "column 2 of the condition"),
        ("year IN (SELECT year FROM there)", 'no table "there"', "column 27 of the condition"),
    ],
)
def test_what_is_wrong_with_a_condition(
    client: basalt.Client, table: str, condition: str, message: str, place: str
) -> None:
    client.load(table, {"year": [2013, 2014], "text": ["a)", "b;"]})
    with pytest.raises(basalt.BasaltError) as caught:
        client.delete(table, condition)
    assert (caught.value.message, caught.value.place) == (message, place)
    at = "" if place in message else f" at {place}"
    assert str(caught.value) == f"{message}{at} ({caught.value.reason})"
    with pytest.raises(basalt.TableNotFound) as caught:
        client.delete("there_is_none", "year = 1")
    assert "line" not in str(caught.value)


@pytest.mark.sql
def test_signs_in_texts_and_comments_are_none(client: basalt.Client, table: str) -> None:
    client.load(table, {"text": ["a)", "b;", "it's )", "c"]})
    assert client.delete(table, "text = 'a)' -- )\n OR (\"text\" = 'b;' /* ; ) */)").rows == 2
    assert client.delete(table, r"text = E'it\'s )'").rows == 1


class NoSql(grpc.RpcError):
    """What a server says that is built without SQL."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNIMPLEMENTED

    def details(self) -> str:
        return ""

    def trailing_metadata(self) -> tuple[()]:
        return ()


def test_a_condition_in_sql_where_there_is_none(proxy: Proxy, table: str) -> None:
    def tamper(method: str, answers: Iterator[bytes]) -> Iterator[bytes]:
        if method == "Query":
            raise NoSql
        return answers

    proxy.tamper = tamper
    with basalt.connect(proxy.address) as client, pytest.raises(TypeError, match=r'no SQL: .*col\("year"\) == 2014'):
        client.delete(table, "year = 2014")


def test_retention(client: basalt.Client, table: str) -> None:
    retention = basalt.Retention("at", dt.timedelta(days=30))
    made = client.create(table, pa.schema([("at", pa.timestamp("us", "UTC"))]), retention=retention)
    assert made.retention == retention
    now = dt.datetime.now(dt.timezone.utc)
    client.load(table, {"at": [now, now - dt.timedelta(days=31), None]})
    assert len(client.query(table).collect()) == 2


@pytest.mark.parametrize(
    ("name", "schema", "kind"),
    [
        ("no name", [("a", pa.int8())], basalt.InvalidRequest),
        ("t", [("a", pa.list_(pa.int8()))], basalt.InvalidData),
        ("t", [("a", pa.large_string())], basalt.InvalidData),
        ("t", [pa.field("a", pa.int8(), metadata={"basalt.optimize": "beauty"})], basalt.InvalidData),
        ("t", [("a", pa.int8()), ("a", pa.int8())], basalt.InvalidRequest),
    ],
)
def test_tables_that_cannot_be(client: basalt.Client, name: str, schema: list, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        client.create(name, pa.schema(schema))


def test_many_tables(client: basalt.Client) -> None:
    names = [f"many_{n:04}" for n in range(150)]
    for name in names:
        client.create(name, pa.schema([("a", pa.int8())]))
    listed = [each.name for each in client.tables()]
    assert listed == sorted(listed)
    assert set(names) <= set(listed)
    for name in names:
        client.drop(name)


def test_the_server(client: basalt.Client) -> None:
    info = client.server_info()
    assert info.version.count(".") == 2
    assert info.simd in ("scalar", "avx2", "avx512", "neon")
    assert info.limits.message_bytes >= 1 << 20
    cluster = client.cluster()
    assert cluster.replication == 1
    (node,) = cluster.nodes
    assert (node.own, node.state, node.version) == (True, "alive", info.version)


def test_queries_that_run_are_stopped(client: basalt.Client) -> None:
    with pytest.raises(basalt.QueryNotFound):
        client.cancel_query("1-1")
    client.create("many", pa.schema([("n", pa.int64())]))
    client.load("many", pa.table({"n": pa.array(range(4_000_000), pa.int64())}))
    unread = client.query("many").stream()
    found = [query for query in client.running_queries() if query.text == "SELECT * FROM many"]
    assert [(query.method, query.state) for query in found] == [("Query", "running")]
    assert abs((dt.datetime.now(dt.timezone.utc) - found[0].started).total_seconds()) < 60
    client.cancel_query(found[0].id)
    with pytest.raises(basalt.BasaltError, match="cancelled"):
        list(unread)
    client.drop("many")
