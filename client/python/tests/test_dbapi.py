"""The DB-API 2.0, and pandas through it."""

import datetime as dt
import warnings
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pandas
import pyarrow as pa
import pytest
from conftest import FLIGHTS

import basalt_client as basalt
from basalt_client import dbapi

pytestmark = pytest.mark.sql
ROWS = list(zip(*FLIGHTS.values(), strict=True))


@pytest.fixture
def connection(address: str) -> Iterator[dbapi.Connection]:
    with dbapi.connect(address) as connection:
        yield connection


def test_the_module() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    assert dbapi.TimestampFromTicks(0) == dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    assert (dbapi.DateFromTicks(86400), dbapi.TimeFromTicks(61)) == (dt.date(1970, 1, 2), dt.time(0, 1, 1))
    for name in ("Warning", "Error", "InterfaceError", "DatabaseError", "NotSupportedError"):
        assert getattr(dbapi.Connection, name) is getattr(dbapi, name)


def test_fetching(connection: dbapi.Connection, flights: str) -> None:
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount) == (None, -1)
    cursor.execute(f"SELECT * FROM {flights}")
    assert cursor.rowcount == 6
    assert cursor.fetchone() == ROWS[0]
    assert cursor.fetchmany() == ROWS[1:2]
    assert cursor.fetchmany(2) == ROWS[2:4]
    assert cursor.fetchall() == ROWS[4:]
    assert (cursor.fetchone(), cursor.fetchmany(5), cursor.fetchall()) == (None, [], [])
    assert list(cursor.execute(f"SELECT carrier FROM {flights} WHERE distance > ?", (1400,))) == [("AA",)]
    with pytest.raises(dbapi.InterfaceError):
        cursor.fetch_arrow_table()
    assert cursor.execute(f"SELECT carrier FROM {flights}").fetch_arrow_table().num_rows == 6
    assert cursor.fetchall() == []


@pytest.mark.parametrize(
    "before",
    ["", " \n(", "-- one line\n", "/* a */ -- b\n/**/", "/* a /* b */ SELECT */", "/* /*/ */ */", "/**//*/**/*/"],
)
def test_queries_behind_comments(connection: dbapi.Connection, before: str) -> None:
    """They are in one another, and a query has rows whatever stands before it."""
    cursor = connection.cursor().execute(f"{before}SELECT ? AS n{')' * before.count('(')}", np.array([5]))
    assert (cursor.rowcount, cursor.description[0][0], cursor.fetchall()) == (1, "n", [(5,)])


def test_descriptions(connection: dbapi.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 'a' AS t, 1 AS n, CAST(1.5 AS DECIMAL(9, 2)) AS d, now() AS at, DATE '2024-05-17' AS day"
        )
        names, codes, *_ = zip(*cursor.description, strict=True)
        assert names == ("t", "n", "d", "at", "day")
        assert [code == dbapi.NUMBER for code in codes] == [False, True, True, False, False]
        assert [code == dbapi.DATETIME for code in codes] == [False, False, False, True, True]
        assert (codes[0] == dbapi.STRING, codes[0] == dbapi.BINARY) == (True, False)
        assert cursor.description[2][4:6] == (9, 2)
    with pytest.raises(dbapi.InterfaceError):
        cursor.execute("SELECT 1")


def test_writing(connection: dbapi.Connection, table: str) -> None:
    cursor = connection.cursor()
    cursor.execute(f"CREATE TABLE {table} (n BIGINT, t TEXT)")
    cursor.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(1, "a"), (2, None), (3, "'")])
    assert (cursor.rowcount, cursor.description) == (3, None)
    with pytest.raises(dbapi.ProgrammingError, match="no rows"):
        cursor.fetchall()
    assert cursor.execute(f"DELETE FROM {table} WHERE n < ?", [3]).rowcount == 2
    assert cursor.execute(f"SELECT * FROM {table}").fetchall() == [(3, "'")]


def test_bytes_of_a_row(connection: dbapi.Connection, table: str) -> None:
    """One row or many: a row has them, though no statement has."""
    cursor = connection.cursor().execute(f"CREATE TABLE {table} (n INT, b BYTEA)")
    insert = f"INSERT INTO {table} (n, b) VALUES (?, ?)"
    assert cursor.execute(insert, (1, b"\x00'\\\xff")).rowcount == 1
    assert cursor.execute(insert, [2, bytearray(b"")]).rowcount == 1
    assert cursor.executemany(insert, [(3, b"x"), (4, None)]).rowcount == 2
    cursor.execute(f"SELECT * FROM {table} ORDER BY n")
    assert cursor.fetchall() == [(1, b"\x00'\\\xff"), (2, b""), (3, b"x"), (4, None)]
    with pytest.raises(dbapi.DataError, match="CAST"):
        cursor.execute(f"SELECT n FROM {table} WHERE b = ?", (b"x",))


def test_long_decimals_of_a_row(connection: dbapi.Connection, table: str) -> None:
    """As bytes: the column says what they are."""
    cursor = connection.cursor().execute(f"CREATE TABLE {table} (n INT, d DECIMAL(38, 2))")
    long = Decimal("123456789012345678901234567890.12")
    assert cursor.execute(f"INSERT INTO {table} (n, d) VALUES (?, ?)", (1, long)).rowcount == 1
    assert cursor.executemany(f"INSERT INTO {table} (n, d) VALUES (?, ?)", [(2, long), (3, None)]).rowcount == 2
    assert cursor.execute(f"SELECT * FROM {table} ORDER BY n").fetchall() == [(1, long), (2, long), (3, None)]
    with pytest.raises(dbapi.DataError, match="CAST"):
        cursor.execute(f"SELECT n FROM {table} WHERE d = ?", (long,))


COLUMNS = (
    "id BIGINT NOT NULL, price DECIMAL(12, 2), text TEXT, at TIMESTAMP, day DATE, "
    "ok BOOLEAN, x DOUBLE, n SMALLINT, b BYTEA"
)
UTC = dt.timezone.utc


def test_many_rows_are_one_commit(connection: dbapi.Connection, table: str) -> None:
    cursor = connection.cursor().execute(f'CREATE TABLE {table} ({COLUMNS}, "a b" TIME)')
    version = connection.client.describe(table).table.version
    noon = dt.datetime(2024, 5, 17, 12, tzinfo=UTC)
    values = [
        (1, Decimal("1.50"), "a", noon, noon.date(), True, 1.5, 7, b"x", dt.time(10)),
        # What SQL takes for the same.
        (2, 2, 7, noon.replace(tzinfo=None), noon.date(), None, 2, np.int64(8), None, None),
        (3, None, None, noon.astimezone(dt.timezone(dt.timedelta(hours=2))), None, False, None, None, b"", None),
    ]
    cursor.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * 10)})", iter(values))
    assert cursor.rowcount == 3
    assert connection.client.describe(table).table.version == version + 1
    names = 'at, "a b", price, ID'
    texts = ("2024-05-17 12:00", "10:00", "1.50", "4")
    cursor.executemany(f"insert into {table} ({names}) values (?, ?, ?, ?);", [texts, texts])
    found = connection.cursor().execute(f"SELECT * FROM {table} ORDER BY id").fetchall()
    assert found == [
        (1, Decimal("1.50"), "a", noon, noon.date(), True, 1.5, 7, b"x", dt.time(10)),
        (2, Decimal(2), "7", noon, noon.date(), None, 2.0, 8, None, None),
        (3, None, None, noon, None, False, None, None, b"", None),
        *[(4, Decimal("1.50"), None, noon, None, None, None, None, None, dt.time(10))] * 2,
    ]
    # Of a load all rows are there, or none.
    with pytest.raises(dbapi.ProgrammingError):
        cursor.executemany(f"INSERT INTO {table} (id) VALUES (?)", [(5,), (None,)])
    assert cursor.executemany(f"INSERT INTO {table} (id) VALUES (?)", []).rowcount == 0
    assert cursor.execute(f"SELECT count(*) FROM {table}").fetchone() == (5,)


class Moment(dt.datetime):
    """Such as those of libraries for times."""


def test_many_times(connection: dbapi.Connection, table: str) -> None:
    cursor = connection.cursor().execute(f"CREATE TABLE {table} (n INT, at TIMESTAMP, t TIME)")
    zone = dt.timezone(dt.timedelta(hours=2))
    values = [
        Moment(2024, 5, 17, 12, 0, 0, 5, zone),
        Moment(2024, 5, 17, 10),
        pandas.Timestamp("2024-05-17 10:00"),
        pandas.NaT,
    ]
    insert = f"INSERT INTO {table} (n, at) VALUES (?, ?)"
    assert cursor.executemany(insert, enumerate(values)).rowcount == 4
    noon = dt.datetime(2024, 5, 17, 10, tzinfo=UTC)
    expected = [(noon.replace(microsecond=5),), (noon,), (noon,), (None,)]
    assert cursor.execute(f"SELECT at FROM {table} ORDER BY n").fetchall() == expected
    cursor.execute(f"DELETE FROM {table}")
    version = connection.client.describe(table).table.version
    assert cursor.executemany(insert, [(1, noon.date()), (2, noon)]).rowcount == 2
    assert connection.client.describe(table).table.version == version + 1
    assert cursor.execute(f"SELECT at FROM {table} ORDER BY n").fetchall() == [(noon.replace(hour=0),), (noon,)]
    with pytest.raises(dbapi.DataError, match="a time of day has no zone"):
        cursor.executemany(f"INSERT INTO {table} (n, t) VALUES (?, ?)", [(5, dt.time(10, tzinfo=zone))])


def test_what_sql_alone_converts_is_sql(connection: dbapi.Connection, table: str) -> None:
    """As it would be for one row."""
    cursor = connection.cursor().execute(f"CREATE TABLE {table} (a TEXT, n BIGINT, b BYTEA)")
    for sql, rows in [
        (f"INSERT INTO {table} (a) VALUES (?)", [(1.5,), (True,), (dt.date(2024, 5, 17),)]),
        (f"INSERT INTO {table} (n) VALUES (?)", [(1.0,), (2.0,)]),
        (f"INSERT INTO {table} (b) VALUES (?)", [("00ff",)]),
        (f"INSERT INTO {table} (n) VALUES (? + 1)", [(1,), (2,)]),
    ]:
        cursor.execute(f"DELETE FROM {table}")
        for row in rows:
            cursor.execute(sql, row)
        expected = cursor.execute(f"SELECT * FROM {table}").fetchall()
        cursor.execute(f"DELETE FROM {table}")
        assert cursor.executemany(sql, rows).rowcount == len(rows)
        assert cursor.execute(f"SELECT * FROM {table}").fetchall() == expected
    with pytest.raises(dbapi.ProgrammingError):
        cursor.executemany("INSERT INTO there_is_none VALUES (?)", [(1,)])
    with pytest.raises(dbapi.ProgrammingError):
        cursor.executemany(f"INSERT INTO {table} (nope) VALUES (?)", [(1,)])


def test_transactions_are_not_pretended(connection: dbapi.Connection, flights: str) -> None:
    assert connection.autocommit is True
    connection.autocommit = True
    connection.commit()
    with pytest.raises(dbapi.NotSupportedError):
        connection.autocommit = False
    connection.cursor().execute(f"DELETE FROM {flights} WHERE carrier = 'UA'")
    with pytest.raises(dbapi.NotSupportedError, match="committed by itself"):
        connection.rollback()
    assert connection.cursor().execute(f"SELECT * FROM {flights}").rowcount == 4


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELEC", dbapi.ProgrammingError),
        ("SELECT * FROM there_is_none", dbapi.ProgrammingError),
        ("SELECT 1 / 0", dbapi.DataError),
        ("BEGIN", dbapi.DatabaseError),
    ],
)
def test_errors(connection: dbapi.Connection, sql: str, kind: type[Exception]) -> None:
    cursor = connection.cursor()
    with pytest.raises(kind) as caught:
        cursor.execute(sql)
    assert isinstance(caught.value.__cause__, basalt.BasaltError)
    with pytest.raises(dbapi.ProgrammingError):
        cursor.fetchone()


def test_closing(address: str) -> None:
    connection = dbapi.connect(address)
    assert connection.client.sql("SELECT 1").scalar() == 1
    cursor = connection.cursor()
    connection.close()
    connection.close()
    for use in (lambda: cursor.execute("SELECT 1"), lambda: cursor.executemany("SELECT ?", [(1,)])):
        with pytest.raises(dbapi.InterfaceError, match="the connection is closed"):
            use()
    for use in (connection.cursor, connection.commit, lambda: connection.client):
        with pytest.raises(dbapi.InterfaceError):
            use()
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect("127.0.0.1:1")


def test_pandas(connection: dbapi.Connection, flights: str) -> None:
    sql = f"SELECT carrier, distance FROM {flights} WHERE distance > ? ORDER BY distance"
    with warnings.catch_warnings():
        # pandas says that it tests SQLAlchemy's connections alone.
        warnings.simplefilter("ignore", UserWarning)
        frame = pandas.read_sql(sql, connection, params=(1000,))
        chunks = list(pandas.read_sql(sql, connection, params=[0], chunksize=4))
        with pytest.raises((pandas.errors.DatabaseError, dbapi.ProgrammingError)):
            pandas.read_sql("SELECT * FROM there_is_none", connection)
    assert frame["distance"].tolist() == [1065, 1089, 1400, 1416]
    assert [len(chunk) for chunk in chunks] == [4, 2]


def test_arrow_tables(connection: dbapi.Connection, flights: str) -> None:
    answer = connection.cursor().execute(f"SELECT * FROM {flights}").fetch_arrow_table()
    assert answer == pa.table(FLIGHTS)
