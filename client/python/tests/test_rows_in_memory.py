"""Rows as people have them in memory, and answers where libraries take Arrow."""

import datetime as dt
import io
import pathlib
import uuid
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest

import basalt_client as basalt
from basalt_client import _types as types
from basalt_client import col, count

FRAME = pandas.DataFrame({"k": ["x", "x", "y"], "n": [1, 2, 3]})
BATCH = pa.record_batch({"n": [1, 2]})
UNION = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
ID = uuid.UUID("137832b2-d87a-40c7-acdb-95fe5331186d")


def stored(client: basalt.Client, table: str, data: object) -> tuple[list[str], list[tuple]]:
    """The columns and the rows of a new table."""
    client.drop(table, if_exists=True)
    client.load(table, data)
    answer = client.query(table).collect()
    return [f"{each.name} {types.type_name(each.type)}" for each in answer.schema], answer.rows()


@pytest.mark.parametrize(
    ("data", "columns", "rows"),
    [
        (lambda: [BATCH, BATCH], ["n int64"], [(1,), (2,)] * 2),
        (lambda: iter([BATCH, BATCH]), ["n int64"], [(1,), (2,)] * 2),
        (lambda: [FRAME[["n"]], FRAME[["n"]]], ["n int64"], [(1,), (2,), (3,)] * 2),
        (lambda: ({"n": n} for n in range(3)), ["n int64"], [(0,), (1,), (2,)]),
        (lambda: np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]), ["a int32", "b float64"], [(1, 2.5)]),
        (lambda: pandas.read_csv(io.StringIO("n\n1\n2\n3\n"), chunksize=2), ["n int64"], [(1,), (2,), (3,)]),
        # Chunks whose integers have become floats for a null.
        (
            lambda: pandas.read_csv(io.StringIO("n,m\n1,1\n2,1\n,1\n"), chunksize=2),
            ["n int64", "m int64"],
            [(1, 1), (2, 1), (None, 1)],
        ),
        (
            lambda: FRAME.groupby("k").agg({"n": ["sum", "max"]}),
            ["k utf8", "n_sum int64", "n_max int64"],
            [("x", 3, 2), ("y", 3, 3)],
        ),
        (lambda: pandas.DataFrame({"a": pandas.arrays.SparseArray([0, 0, 1])}), ["a int64"], [(0,), (0,), (1,)]),
        (
            lambda: pandas.DataFrame({"a": [1 << 70, None], "b": [0, 1]}),
            ["a decimal(38,0)", "b int64"],
            [(Decimal(1 << 70), 0), (None, 1)],
        ),
        (
            lambda: {"a": [-1, (1 << 64) - 1], "b": [1, (1 << 64) - 1]},
            ["a decimal(38,0)", "b uint64"],
            [(Decimal(-1), 1), (Decimal((1 << 64) - 1), (1 << 64) - 1)],
        ),
        (lambda: pandas.DataFrame({"id": [ID, None]}), ["id utf8"], [(str(ID),), (None,)]),
    ],
)
def test_rows_as_people_have_them(
    client: basalt.Client, table: str, data: object, columns: list[str], rows: list[tuple]
) -> None:
    assert stored(client, table, data()) == (columns, rows)  # type: ignore[operator]


IS_NEW_POLARS = pytest.mark.skipif(not hasattr(polars, "Int128"), reason="this Polars has no such integers")


@IS_NEW_POLARS
def test_wide_integers_of_polars(client: basalt.Client, table: str) -> None:
    frame = polars.DataFrame({"a": polars.Series([1 << 70, None], dtype=polars.Int128)})
    assert stored(client, table, frame) == (["a decimal(38,0)"], [(Decimal(1 << 70),), (None,)])


@IS_NEW_POLARS
@pytest.mark.sql
def test_polars_takes_answers(client: basalt.Client) -> None:
    answer = client.sql("SELECT 1 AS a, 'x' AS b")
    assert polars.DataFrame(answer).equals(answer.to_polars())


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (polars.Series("a", [1]), TypeError, "series is not a table"),
        (np.array([[1, 2]]), TypeError, r"no names of columns; pandas\.DataFrame\(rows, columns="),
        ([(1, "a")], TypeError, r"row 1 is a tuple, .*columns="),
        ({"a": 1}, TypeError, "column 'a' is a int, not a list of values"),
        (io.StringIO("a\n1\n"), TypeError, "by its path"),
        ("https://example.com/x.csv", FileNotFoundError, "no file of this machine"),
        ([{"a": 1}, {"a": "x"}], basalt.InvalidData, "column 'a' cannot be read"),
        ({"a": [10**40]}, basalt.InvalidData, "41 digits"),
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), basalt.InvalidData, "two columns have one name: a, a"),
        (pandas.DataFrame({"a": pandas.to_timedelta([1], "s")}), basalt.InvalidData, "as seconds"),
        (pandas.DataFrame({"a": pandas.interval_range(0, 1)}), basalt.InvalidData, r"astype\(str\)"),
        (pandas.DataFrame({"a": [1]}, index=pandas.Index([2], name="a")), basalt.InvalidData, "index and a column"),
        (polars.DataFrame({"a": polars.Series([ID], dtype=polars.Object)}), basalt.InvalidData, "Python's objects"),
        (pa.table({"a": pa.array([{"x": dt.timedelta(1)}])}), basalt.InvalidData, "no text in JSON"),
        (pa.table({"a": UNION}), basalt.InvalidData, "no text in JSON"),
        ({"a": ["x", b"y"]}, basalt.InvalidData, "texts and bytes"),
        ({"a": ["\ud800"]}, basalt.InvalidData, "column 'a' cannot be read"),
        (iter([BATCH, pa.record_batch({"m": [1]})]), basalt.InvalidData, "columns of a part are m, and of the first n"),
        (iter([5]), TypeError, "parts of the type int"),
        (iter([]), basalt.InvalidData, "no row"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_rows_says_how_it_may(
    client: basalt.Client, table: str, data: object, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        client.load(table, data)
    with pytest.raises(basalt.TableNotFound):
        client.describe(table)


def test_dates_among_timestamps(client: basalt.Client, table: str) -> None:
    """PyArrow takes the type of the first, and would cut the time of day of the others."""
    utc, day, moment = dt.timezone.utc, dt.date(2024, 5, 17), dt.datetime(2024, 5, 17, 5)
    wanted = [(moment.replace(hour=0, tzinfo=utc),), (moment.replace(tzinfo=utc),), (None,)]
    for values in ([day, moment, None], [day, pandas.Timestamp(moment), pandas.NaT]):
        for data in ({"a": values}, [{"a": each} for each in values], pandas.DataFrame({"a": values}, dtype=object)):
            assert stored(client, table, data) == (["a timestamp"], wanted)


def test_what_pandas_has_for_nothing(client: basalt.Client, table: str) -> None:
    frame = pandas.DataFrame({"n": pandas.array([1, None], "Int64"), "at": [pandas.Timestamp("2024-05-17"), None]})
    rows = [(1, dt.datetime(2024, 5, 17, tzinfo=dt.timezone.utc)), (None, None)]
    assert stored(client, table, frame.to_dict("records")) == (["n int64", "at timestamp"], rows)


def test_types_that_are_others_but_for_their_meaning(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    """As DuckDB writes them to Parquet; `basalt load` has the bytes of a UUID too."""
    ids = pa.array([None, ID.bytes, None], pa.uuid())[1:]
    rows = pa.table({"id": ids, "flag": pa.array([1, None], pa.bool8())})
    assert stored(client, table, rows) == (["id binary", "flag bool"], [(ID.bytes, True), (None, None)])
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(rows.select(["id"]), path)
    assert stored(client, table, path) == (["id binary"], [(ID.bytes,), (None,)])
    client.drop(table)
    client.load(table, path, schema={"id": "utf8"})
    assert client.query(table).collect().rows() == [(str(ID),), (None,)]


def test_a_home_folder(
    client: basalt.Client, table: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "in").mkdir()
    (tmp_path / "in/t.csv").write_text("n\n1\n")
    for path in ("~/in/t.csv", "~/in", "~/in/*.csv"):
        assert stored(client, table, path) == (["n int64"], [(1,)])


@pytest.mark.sql
def test_answers_are_arrow(client: basalt.Client, flights: str, table: str) -> None:
    sql = f"SELECT carrier, distance FROM {flights}"
    answer = client.sql(sql)
    assert pa.table(answer) == answer.to_arrow()
    assert pa.RecordBatchReader.from_stream(client.stream(sql)).read_all() == answer.to_arrow()
    copy = f"{table}_copy"
    try:
        for rows in (client.sql(sql), client.stream(sql)):
            client.load(copy, rows)
        assert client.query(copy).collect().rows() == answer.rows() * 2
    finally:
        client.drop(copy)


def test_names_of_types(client: basalt.Client, table: str) -> None:
    columns = {"a": "string", "b": float, "c": "double", "d": int, "e": "datetime", "f": "decimal(9, 2)"}
    made = client.create(table, columns)
    names = [types.type_name(each) for each in made.schema.types]
    assert names == ["utf8", "float64", "float64", "int64", "timestamp", "decimal(9,2)"]
    with pytest.raises(TypeError, match="is no type"):
        client.create(table, {"a": list})  # type: ignore[dict-item]
    # It is one thing to Python, and another to PyArrow.
    with pytest.raises(ValueError, match="'float' is no type"):
        client.create(table, {"a": "float"})


def test_columns_in_a_list(client: basalt.Client, flights: str) -> None:
    query = client.query(flights)
    assert query.select(["carrier", "distance"]).request == query.select("carrier", "distance").request
    grouped = query.group_by(["carrier"]).aggregate([count()]).order_by(["carrier"])
    assert grouped.request == query.group_by("carrier").aggregate(count()).order_by("carrier").request


def test_none_is_no_value(client: basalt.Client, flights: str) -> None:
    with pytest.warns(UserWarning, match=r"is_null\(\)") as caught:
        found = client.query(flights).filter(col("carrier") == None)  # noqa: E711
    assert caught[0].filename == __file__
    assert len(found.collect()) == 0


def test_what_is_read_once_may_break(client: basalt.Client, table: str) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise OSError("the source broke")

    with pytest.raises(OSError, match="the source broke"):
        client.load(table, rows())
    with pytest.raises(basalt.TableNotFound):
        client.describe(table)


def test_times_of_day_have_no_zone(client: basalt.Client, table: str) -> None:
    """PyArrow would leave it out."""
    zoned = [dt.time(9), None, dt.time(10, tzinfo=dt.timezone(dt.timedelta(hours=5)))]
    objects = np.empty(3, object)
    objects[:] = zoned
    frame = pandas.DataFrame({"t": zoned})
    for data in ({"t": zoned}, [{"t": each} for each in zoned], {"t": objects}, {"t": frame["t"]}, frame):
        with pytest.raises(basalt.InvalidData, match=r"10:00:00\+05:00: a time of day has no zone"):
            client.load(table, data)
    assert stored(client, table, {"t": zoned[:2]}) == (["t time"], [(dt.time(9),), (None,)])
