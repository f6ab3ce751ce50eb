"""SQLAlchemy, and with it pandas' `to_sql` and Polars' `write_database`."""

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pandas
import polars
import pytest
import sqlalchemy

import basalt_client as basalt
from basalt_client import _types as types

pytestmark = pytest.mark.sql
UTC = dt.timezone.utc
NOON = dt.datetime(2024, 5, 17, 12, tzinfo=UTC)
FRAME = pandas.DataFrame(
    {
        "id": [1, 2, 3],
        "name": ["a", None, "it's"],
        "x": [1.5, float("nan"), 2.5],
        "at": [pandas.Timestamp("2024-05-17 12:00"), pandas.NaT, pandas.Timestamp("2024-05-17 12:00")],
        "ok": [True, False, None],
        "Two Words": ["x", "y", "z"],
        "day": [dt.date(2024, 5, 17), None, None],
        "zoned": pandas.Series([NOON] * 3).dt.tz_convert("Europe/Berlin"),
        "small": np.array([1, 2, 3], "i4"),
        "maybe": pandas.array([1, None, 3], "Int64"),
    }
)
ROWS = [
    (1, "a", 1.5, NOON, True, "x", dt.date(2024, 5, 17), NOON, 1, 1),
    (2, None, None, None, False, "y", None, NOON, 2, None),
    (3, "it's", 2.5, NOON, None, "z", None, NOON, 3, 3),
]


@pytest.fixture
def engine(address: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(f"basalt://{address}")
    yield engine
    engine.dispose()


def rows_of(client: basalt.Client, table: str) -> list[tuple]:
    return client.query(table).collect().rows()


def test_to_sql(client: basalt.Client, engine: sqlalchemy.Engine, table: str) -> None:
    assert FRAME.to_sql(table, engine, index=False) == 3
    schema = client.describe(table).table.schema
    assert schema.names == list(FRAME.columns)
    assert [types.type_name(each) for each in schema.types] == [
        *("int64", "utf8", "float64", "timestamp", "bool", "utf8", "date32", "timestamp", "int32", "int64")
    ]
    assert rows_of(client, table) == ROWS
    with pytest.raises(ValueError, match="already exists"):
        FRAME.to_sql(table, engine, index=False)
    FRAME.to_sql(table, engine, index=False, if_exists="append")
    assert rows_of(client, table) == ROWS * 2
    FRAME[["id"]].to_sql(table, engine, index=False, if_exists="replace")
    assert rows_of(client, table) == [(1,), (2,), (3,)]
    assert pandas.read_sql(f"SELECT * FROM {table} WHERE id > 1", engine)["id"].tolist() == [2, 3]


def test_to_sql_with_an_index(client: basalt.Client, engine: sqlalchemy.Engine, table: str) -> None:
    """pandas makes an index of it in the database, too."""
    FRAME[["name"]].to_sql(table, engine)
    FRAME[["name"]].to_sql(table, engine, if_exists="append", method="multi")
    assert rows_of(client, table) == [(0, "a"), (1, None), (2, "it's")] * 2
    frame = pandas.read_sql_table(table, engine, index_col="index")
    assert (frame.index.tolist(), list(frame.columns)) == ([0, 1, 2] * 2, ["name"])


def test_many_rows_are_one_commit(client: basalt.Client, engine: sqlalchemy.Engine, table: str) -> None:
    frame = pandas.DataFrame({"n": range(5000), "text": ["x"] * 5000})
    frame.to_sql(table, engine, index=False)
    version = client.describe(table).table.version
    frame.to_sql(table, engine, index=False, if_exists="append", chunksize=2500)
    assert client.describe(table).table.version == version + 2
    assert len(client.query(table).collect()) == 10_000


def test_types_that_are_said(client: basalt.Client, engine: sqlalchemy.Engine, table: str) -> None:
    frame = pandas.DataFrame({"price": [Decimal("1.50"), None], "raw": [b"\xff", None], "f": [0.5, 1.5]})
    dtype = {"price": sqlalchemy.Numeric(12, 2), "raw": sqlalchemy.LargeBinary, "f": sqlalchemy.Float(24)}
    frame.to_sql(table, engine, index=False, dtype=dtype)
    names = [types.type_name(each) for each in client.describe(table).table.schema.types]
    assert names == ["decimal(12,2)", "binary", "float32"]
    assert rows_of(client, table) == [(Decimal("1.50"), b"\xff", 0.5), (None, None, 1.5)]
    with pytest.raises(sqlalchemy.exc.CompileError, match="Numeric"):
        frame.to_sql(f"{table}_more", engine, index=False, dtype={"price": sqlalchemy.Numeric})


def test_polars(client: basalt.Client, engine: sqlalchemy.Engine, table: str) -> None:
    frame = polars.DataFrame({"n": [1, None], "t": ["x", None]})
    frame.write_database(table, engine)
    assert rows_of(client, table) == [(1, "x"), (None, None)]
    assert polars.read_database(f"SELECT * FROM {table} WHERE n = 1", engine).rows() == [(1, "x")]


def test_statements(client: basalt.Client, engine: sqlalchemy.Engine, table: str) -> None:
    FRAME.to_sql(table, engine, index=False)
    assert table in sqlalchemy.inspect(engine).get_table_names()
    found = sqlalchemy.Table(table, sqlalchemy.MetaData(), autoload_with=engine)
    assert [column.name for column in found.columns] == list(FRAME.columns)
    c = found.c
    with engine.begin() as connection:
        page = sqlalchemy.select(c["Two Words"]).where(c.ok.is_not(None)).order_by(c.id).limit(1).offset(1)
        assert connection.execute(page).all() == [("y",)]
        count = sqlalchemy.select(sqlalchemy.func.count()).where(c.name.in_(["a", "b"]), c.at == NOON)
        assert connection.scalar(count) == 1
        written = [
            found.insert().values(id=9, name="one"),
            found.update().where(c.id == 9).values(name="two"),
            found.delete().where(c.id == 9),
        ]
        assert [connection.execute(each).rowcount for each in written] == [1, 1, 1]
        with pytest.raises(sqlalchemy.exc.ProgrammingError, match='no column "nope"'):
            connection.exec_driver_sql(f"SELECT nope FROM {table}")
    with pytest.raises(sqlalchemy.exc.NoSuchTableError):
        sqlalchemy.Table("there_is_none", sqlalchemy.MetaData(), autoload_with=engine)
    unique = sqlalchemy.Index("u", c.id, unique=True)
    with pytest.raises(sqlalchemy.exc.CompileError, match="enforced"):
        unique.create(engine)


def test_addresses() -> None:
    def arguments(url: str) -> tuple[list[object], dict[str, object]]:
        made = sqlalchemy.make_url(url)
        return made.get_dialect()().create_connect_args(made)

    assert arguments("basalt://") == (["http://127.0.0.1:7700"], {})
    assert arguments("basalt://:secret@db.local:1/?tls=1&ca=ca.pem&deadline=5") == (
        ["https://db.local:1"],
        {"key": "secret", "ca": "ca.pem", "deadline": 5.0},
    )
    assert arguments("basalt://[::1]:1")[0] == ["http://[::1]:1"]
    with pytest.raises(sqlalchemy.exc.ArgumentError, match="nope"):
        arguments("basalt://h?nope=1")
    with pytest.raises(sqlalchemy.exc.OperationalError, match="no connection"):
        sqlalchemy.create_engine("basalt://127.0.0.1:1").connect()


def test_json_and_bytes(engine: sqlalchemy.Engine, table: str) -> None:
    columns = {"a": sqlalchemy.JSON, "b": sqlalchemy.LargeBinary, "c": sqlalchemy.Uuid}
    made = sqlalchemy.Table(table, sqlalchemy.MetaData(), *(sqlalchemy.Column(*each) for each in columns.items()))
    row = {"a": {"x": [1, None, "it's"]}, "b": b"\x00\xff", "c": uuid.UUID(int=3)}
    with engine.begin() as connection:
        made.create(connection)
        connection.execute(made.insert(), row)
        connection.execute(made.insert(), [row, row])
        assert connection.execute(sqlalchemy.select(made)).fetchall() == [tuple(row.values())] * 3


def test_there_is_one_schema(engine: sqlalchemy.Engine, flights: str) -> None:
    inspected = sqlalchemy.inspect(engine)
    for schema, is_there in ((None, True), ("public", True), ("elsewhere", False)):
        assert inspected.has_table(flights, schema) == is_there
        assert (flights in inspected.get_table_names(schema)) == is_there
    with pytest.raises(sqlalchemy.exc.NoSuchTableError, match="elsewhere"):
        inspected.get_columns(flights, "elsewhere")
