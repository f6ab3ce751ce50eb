"""SQL: parameters that stay values, and answers that are whole."""

import datetime as dt
import math
import re
from decimal import Decimal

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from conftest import FLIGHTS

import basalt_client as basalt
from basalt_client import _answers, dbapi

pytestmark = pytest.mark.sql
UTC = dt.timezone.utc


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        (None, None),
        (True, True),
        (-5, -5),
        ((1 << 64) - 1, (1 << 64) - 1),
        (0.1, 0.1),
        (math.inf, math.inf),
        ("", ""),
        ("Tromsø", "Tromsø"),
        (Decimal("-12.340"), Decimal("-12.340")),
        (Decimal("1E+3"), Decimal(1000)),
        (Decimal("-9223372036854775.808"), Decimal("-9223372036854775.808")),
        (Decimal("1E-38"), Decimal("1E-38")),
        (Decimal("0E-50"), Decimal(0)),
        # What has room without the zeros at its end.
        (Decimal("1.5" + "0" * 30), Decimal("1.5")),
        (dt.date(2024, 5, 17), dt.date(2024, 5, 17)),
        (dt.datetime(2024, 5, 17, 12, 0, 0, 1), dt.datetime(2024, 5, 17, 12, 0, 0, 1, UTC)),
        (
            dt.datetime(2024, 5, 17, 12, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            dt.datetime(2024, 5, 17, 10, tzinfo=UTC),
        ),
        (np.int16(7), 7),
        (np.float32(0.5), 0.5),
        (np.datetime64("2024-05-17"), dt.date(2024, 5, 17)),
        (np.datetime64("NaT", "us"), None),
        (pandas.Timestamp("2024-05-17T12:00:00Z"), dt.datetime(2024, 5, 17, 12, tzinfo=UTC)),
        (pandas.NA, None),
        (pandas.NaT, None),
        (pa.scalar(5), 5),
    ],
    ids=repr,
)
def test_parameters(client: basalt.Client, parameter: object, value: object) -> None:
    for sql in ("SELECT ? AS v", "SELECT $1 AS v"):
        assert client.sql(sql, [parameter]).scalar() == value


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("TIME", dt.time(10, 30, 0, 5)),
        ("DECIMAL(38, 2)", Decimal("12345678901234567.89")),
        ("BIGINT UNSIGNED", (1 << 64) - 1),
        ("TIMESTAMP", dt.datetime(2024, 5, 17, 12, tzinfo=UTC)),
        ("BOOLEAN", False),
        ("REAL", 0.5),
    ],
)
def test_parameters_meet_columns(client: basalt.Client, table: str, column: str, value: object) -> None:
    client.sql(f"CREATE TABLE {table} (v {column})")
    assert client.sql(f"INSERT INTO {table} VALUES (?), (NULL)", [value]).scalar() == 2
    assert client.sql(f"SELECT v FROM {table} WHERE v = ?", [value]).scalar() == value


@pytest.mark.parametrize(
    "parameter",
    [b"\x00", 1 << 64, Decimal("NaN"), object(), [1], pandas.Timestamp(1, unit="ns"), dt.time(1, tzinfo=UTC)],
    ids=repr,
)
def test_what_is_no_parameter(client: basalt.Client, parameter: object) -> None:
    with pytest.raises(basalt.InvalidData):
        client.sql("SELECT ?", [parameter])
    with pytest.raises(TypeError):
        client.sql("SELECT ?", "a")


def test_parameters_have_places_and_no_names(client: basalt.Client) -> None:
    for named in ({"id": 1}, {"id"}, 5):
        with pytest.raises(TypeError, match="parameters"):
            client.sql("SELECT :id", named)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"\$1, \$2"):
        client.sql("SELECT $1", {"1": 1})  # type: ignore[arg-type]
    values = [1, 2]
    for many in (values, (1, 2), {1, 2}, np.array(values)):
        with pytest.raises(basalt.InvalidData, match='IN each value is a parameter, as in f"x IN') as caught:
            client.sql("SELECT 1 WHERE 1 IN (?)", [many])
    # The way that the message shows.
    shown = re.search(r'f"x (IN .*)", values', str(caught.value))
    assert shown is not None
    places = eval(f'f"{shown[1]}"', {"values": values})
    assert client.sql(f"SELECT 1 WHERE 1 {places}", values).scalar() == 1


def test_long_decimals_by_a_cast(client: basalt.Client, table: str) -> None:
    """As texts "10..." would be less than "9..."."""
    values = [Decimal("100000000000000000000.5"), Decimal("99999999999999999999.5")]
    for value in (*values, pa.scalar(values[0])):
        with pytest.raises(basalt.InvalidData, match=r"parameter 2: .*; write CAST\(\? AS DECIMAL\(38, 1\)\) for its"):
            client.sql("SELECT ? > ?", [1, value])
    with pytest.raises(basalt.InvalidData, match="as a text it does"):
        client.sql("SELECT ?", [Decimal("1.1E-39")])
    how = "CAST(? AS DECIMAL(38, 1))"
    assert client.sql(f"SELECT {how} > {how}", list(map(str, values))).scalar() is True
    # A column says what they are, where the client asks for it.
    client.load(table, {"v": values})
    assert client.query(table).filter(basalt.col("v") == values[0]).collect().rows() == [(values[0],)]


def test_bytes_by_a_cast(client: basalt.Client, table: str) -> None:
    client.load(table, {"v": [b"\xaa\x01", b"\xaa"]})
    assert client.sql(f"SELECT count(*) FROM {table} WHERE v = CAST(? AS BYTEA)", [r"\xAA\x01"]).scalar() == 1


@pytest.mark.parametrize(
    "text",
    [
        "'; DROP TABLE {table}; --",
        "' OR '1' = '1",
        "$1",
        "?",
        "\\'",
        'a" OR ""="',
        "/* x */",
        "\0",
        "x' UNION SELECT * FROM {table} --",
    ],
)
def test_parameters_are_never_sql(client: basalt.Client, flights: str, text: str) -> None:
    text = text.format(table=flights)
    assert client.sql("SELECT ? AS v", [text]).scalar() == text
    sql = f"SELECT count(*) FROM {flights} WHERE carrier = ?"
    assert client.sql(sql, [text]).scalar() == 0
    client.sql(f"INSERT INTO {flights} (carrier) VALUES (?)", [text])
    assert client.sql(sql, [text]).scalar() == 1
    assert client.sql(f"SELECT count(*) FROM {flights}").scalar() == 7
    # Those in texts and comments are none.
    assert client.sql("SELECT '?' AS a, ? AS b -- ?", [text]).one() == ("?", text)


def test_forms_of_an_answer(client: basalt.Client, flights: str) -> None:
    answer = client.sql(f"SELECT carrier, count(*) AS n FROM {flights} GROUP BY carrier ORDER BY carrier")
    rows = [("AA", 2), ("DL", 1), ("UA", 2), (None, 1)]
    assert answer.rows() == rows
    assert len(answer) == 4
    assert answer.to_arrow() == pa.table({"carrier": [r[0] for r in rows], "n": [r[1] for r in rows]}, answer.schema)
    assert answer.to_polars().equals(polars.DataFrame(rows, ["carrier", "n"], orient="row"))
    assert answer.to_pandas()["n"].tolist() == [2, 1, 2, 1]
    assert sum(batch.num_rows for batch in answer) == 4
    assert answer.statistics.rows == 6
    assert answer.versions == {flights: client.describe(flights).table.version}
    with pytest.raises(basalt.InvalidData, match="the answer has 4"):
        answer.one()
    with pytest.raises(basalt.InvalidData, match="2 columns"):
        answer.scalar()


def test_large_integers_beside_nulls_stay_what_they_are(client: basalt.Client) -> None:
    answer = client.sql("SELECT CAST(v AS BIGINT) AS v FROM (VALUES (9007199254740993), (NULL)) AS t (v)")
    frame = answer.to_pandas()
    assert str(frame["v"].dtype) == "Int64"
    assert frame["v"][0] == 9007199254740993
    assert answer.to_pandas(integer_object_nulls=True)["v"][0] == 9007199254740993


@pytest.mark.parametrize("expression", ["DATE '9999-12-31' + 1", "TIMESTAMP '0001-01-01' - INTERVAL '1 hour'"])
def test_dates_that_the_server_does_not_have(client: basalt.Client, address: str, expression: str) -> None:
    with pytest.raises(basalt.OutOfRange, match="is not within 0001-01-01"):
        client.sql(f"SELECT {expression} AS day")
    refused = pytest.raises(dbapi.DataError, match="is not within 0001-01-01")
    with dbapi.connect(address) as connection, connection.cursor() as cursor, refused:
        cursor.execute(f"SELECT {expression} AS day")


def test_dates_that_python_does_not_have(client: basalt.Client) -> None:
    """An answer of Arrow's may have them, and is converted only when it is asked for."""
    statistics = client.sql("SELECT 1").statistics
    for data_type, days in ((pa.date32(), 2932897), (pa.date32(), -719163), (pa.timestamp("us", "UTC"), 1 << 62)):
        batch = pa.record_batch({"day": pa.array([days], data_type)})
        answer = basalt.Result(batch.schema, [batch], statistics)
        named, forms = "timestamp", [answer.rows, answer.one]
        if pa.types.is_date32(data_type):
            # The timestamps of pandas go further.
            named, forms = "date32", [*forms, answer.to_pandas]
        for form in forms:
            with pytest.raises(basalt.OutOfRange, match=f"column 'day' of type {named}"):
                form()
        assert answer.to_arrow().schema.field("day").type == data_type
        # What a notebook shows is no value.
        assert "<td><i>" in answer._repr_html_()


def test_no_rows(client: basalt.Client) -> None:
    answer = client.sql("SELECT 1 AS a, 'x' AS b WHERE false")
    assert (len(answer), answer.rows(), answer.schema.names) == (0, [], ["a", "b"])
    assert answer.to_pandas().shape == (0, 2)
    assert answer.to_polars().shape == (0, 2)


def test_notebooks(client: basalt.Client, table: str) -> None:
    client.load(table, {"n": range(1234), "text": ["<b>"] * 1234})
    answer = client.sql(f"SELECT * FROM {table} ORDER BY n")
    page = answer._repr_html_()
    assert page.count("<tr>") == 22
    assert "<p>1,214 more rows</p>" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert repr(answer) == "Result(1,234 rows: n int64, text utf8)"
    assert "more rows" not in client.sql("SELECT NULL AS a")._repr_html_()
    assert len(client.sql("SELECT repeat('x', 100000) AS a")._repr_html_()) < 1000


def test_batches_as_they_arrive(client: basalt.Client, table: str) -> None:
    client.load(table, {"n": range(300_000)})
    stream = client.stream(f"SELECT n FROM {table} WHERE n >= ?", [100_000])
    batches = iter(stream)
    assert 0 < next(batches).num_rows < 200_000
    assert stream.statistics is None
    assert sum(batch.num_rows for batch in batches) < 200_000
    assert stream.statistics is not None
    assert stream.versions == {table: client.describe(table).table.version}
    assert client.stream(f"SELECT n FROM {table}").to_reader().read_all().num_rows == 300_000
    with client.stream(f"SELECT n FROM {table}") as given_up:
        next(iter(given_up))
    with pytest.raises(basalt.Cancelled):
        list(given_up)


def test_statements_that_write(client: basalt.Client, flights: str) -> None:
    assert client.sql(f"INSERT INTO {flights} (carrier) VALUES ('XX')").one() == (1,)
    assert client.sql(f"DELETE FROM {flights} WHERE carrier = ?", ["XX"]).one() == (1,)
    assert client.sql(f"SELECT * FROM {flights}").rows() == list(zip(*FLIGHTS.values(), strict=True))


def test_what_is_wrong_has_its_place(client: basalt.Client, flights: str) -> None:
    with pytest.raises(basalt.ColumnNotFound) as caught:
        client.sql(f"SELECT carrier,\n  nope FROM {flights}")
    assert (caught.value.reason, caught.value.place) == ("COLUMN_NOT_FOUND", "line 2, column 3")
    with pytest.raises(basalt.TableNotFound):
        client.sql("SELECT * FROM there_is_none")
    with pytest.raises(basalt.InvalidRequest):
        client.sql("SELEC 1")
    with pytest.raises(basalt.InvalidRequest):
        client.sql("SELECT ?")
    with pytest.raises(basalt.OutOfRange) as caught:
        client.sql("SELECT 1 / ?", [0])
    assert caught.value.reason == "DIVISION_BY_ZERO"


@pytest.mark.parametrize(
    ("sql", "repeats"),
    [
        ("WITH c AS (SELECT deleted FROM t) SELECT * FROM c", True),
        ("-- one\n(WITH c AS (SELECT 1) SELECT * FROM c)", True),
        ("WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c", False),
        ("with c as (select 1)\ndelete from t", False),
        ("SELECT 'update'", True),
        ("INSERT INTO t VALUES (1)", False),
    ],
)
def test_what_writes_is_not_repeated(sql: str, repeats: bool) -> None:
    assert _answers.may_repeat(sql) is repeats
