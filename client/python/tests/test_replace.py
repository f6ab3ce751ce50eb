"""Rows that take the place of all others: what a table keeps."""

import datetime as dt
import pathlib
from decimal import Decimal

import pandas
import pyarrow as pa
import pyarrow.parquet
import pytest

import basalt_client as basalt
from basalt_client import _types as types

OLD = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("price", pa.decimal128(12, 2)),
        pa.field("name", pa.string(), metadata={"basalt.optimize": "speed"}),
        ("day", types.TIMESTAMP),
    ]
)
DAY = dt.datetime(2024, 5, 17, tzinfo=dt.timezone.utc)
FRAME = pandas.DataFrame(
    {"day": pandas.to_datetime(["2024-05-17"]), "ID": [7.0], "price": [12.5], "name": [None]},
)


@pytest.fixture
def replaced(client: basalt.Client, table: str) -> str:
    """A table whose types nobody would find."""
    client.create(table, OLD)
    client.load(table, {"id": [1], "price": [1.25], "name": ["old"], "day": [DAY]})
    return table


def test_types_stay_where_the_values_fit(client: basalt.Client, replaced: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("ID,price,name,day\n7,12.5,007,2024-05-17\n")
    (tmp_path / "t.jsonl").write_text('{"price": 12.50, "id": 7, "day": "2024-05-17", "name": 7}\n')
    row = {"id": 7, "price": Decimal("12.50"), "name": "007", "day": DAY.date()}
    version = client.describe(replaced).table.version
    for number, (data, name) in enumerate(
        [(tmp_path / "t.csv", "007"), (tmp_path / "t.jsonl", "7"), (FRAME, None), ([row], "007")], 1
    ):
        committed = client.load(replaced, data, if_exists="replace")
        assert (committed.version, committed.replaced) == (version + number, 1)
        answer = client.query(replaced).collect()
        assert answer.rows() == [(7, Decimal("12.50"), name, DAY)]
        assert client.describe(replaced).table.schema.equals(OLD, check_metadata=True)


def test_what_does_not_fit_has_another_type(client: basalt.Client, replaced: str, tmp_path: pathlib.Path) -> None:
    def columns(data: object, **options: object) -> list[str]:
        client.drop(replaced)
        client.create(replaced, OLD)
        client.load(replaced, data, if_exists="replace", **options)
        return [f"{each.name} {types.type_name(each.type)}" for each in client.describe(replaced).table.schema]

    (tmp_path / "t.csv").write_text("id,price,name,day\n7,12.345,007,2024-05-17\n,1,x,\n")
    expected = ["id int32", "price float64", "name utf8", "day timestamp"]
    assert columns(tmp_path / "t.csv") == expected
    # Where a null has come, and in the metadata of what stays.
    assert client.describe(replaced).table.schema.field("id").nullable
    assert client.describe(replaced).table.schema.field("name").metadata == {b"basalt.optimize": b"speed"}
    assert columns(FRAME.assign(price=12.345)) == expected
    # Others come and go, and what is said counts.
    assert columns(FRAME[["ID"]].assign(more=1)) == ["id int32", "more int64"]
    assert columns(FRAME[["ID", "price"]], schema={"id": "int64"}) == ["id int64", "price decimal(12,2)"]
    # A file that says its types has these.
    pyarrow.parquet.write_table(pa.table({"id": [7], "price": [12.5]}), tmp_path / "t.parquet")
    assert columns(tmp_path / "t.parquet") == ["id int64", "price float64"]
    # What is read once is not looked at before.
    reader = pa.table({"id": [7], "price": pa.array([Decimal(1)], pa.decimal128(12, 2))}).to_reader()
    assert columns(reader) == ["id int64", "price decimal(12,2)"]


def test_rows_expire_in_the_new_table_as_in_the_old(client: basalt.Client, table: str) -> None:
    retention = basalt.Retention("day", dt.timedelta(days=30))
    client.create(table, pa.schema([("day", types.TIMESTAMP), ("n", pa.int64())]), retention=retention)
    now = dt.datetime.now(dt.timezone.utc)
    rows = {"day": [now, now - dt.timedelta(days=31)], "n": ["a", "b"]}
    client.load(table, rows, if_exists="replace")
    assert client.describe(table).table.retention == retention
    assert client.query(table).select("n").collect().rows() == [("a",)]
    client.load(table, {"n": ["c"]}, if_exists="replace")
    assert client.describe(table).table.retention is None
