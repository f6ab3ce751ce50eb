"""Every type, with nulls and at its ends, there and back."""

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import basalt_client as basalt

UTC = dt.timezone.utc
INTEGERS = [
    (pa.int8(), [-128, None, 127]),
    (pa.int16(), [-(1 << 15), None, (1 << 15) - 1]),
    (pa.int32(), [-(1 << 31), None, (1 << 31) - 1]),
    (pa.int64(), [-(1 << 63), None, (1 << 63) - 1]),
    (pa.uint8(), [0, None, 255]),
    (pa.uint16(), [0, None, (1 << 16) - 1]),
    (pa.uint32(), [0, None, (1 << 32) - 1]),
    (pa.uint64(), [0, None, (1 << 64) - 1]),
]
OTHERS = [
    (pa.bool_(), [True, None, False]),
    (pa.string(), ["", None, "Tromsø\0 \U0001f6f6"]),
    (pa.binary(), [b"", None, bytes(range(256))]),
    (pa.date32(), [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    (pa.timestamp("us", "UTC"), [dt.datetime(1, 1, 1, tzinfo=UTC), None, dt.datetime.max.replace(tzinfo=UTC)]),
    (pa.time64("us"), [dt.time(0), None, dt.time(23, 59, 59, 999_999)]),
    (pa.decimal128(9, 2), [Decimal("-9999999.99"), None, Decimal("0.01")]),
    (pa.decimal128(18, 0), [Decimal(10**18 - 1), None, Decimal(-(10**18) + 1)]),
    (pa.decimal128(38, 10), [Decimal("9" * 28 + "." + "9" * 10), None, Decimal("-0.0000000001")]),
]


@pytest.mark.parametrize(("data_type", "values"), INTEGERS + OTHERS, ids=lambda each: str(each)[:20])
def test_values_come_back(client: basalt.Client, table: str, data_type: pa.DataType, values: list) -> None:
    sent = pa.table({"n": pa.array([1, 2, 3], pa.int8()), "v": pa.array(values, data_type)})
    assert client.load(table, sent).rows == 3
    answer = client.query(table).order_by("n").collect()
    assert answer.schema.field("v").type == data_type
    assert answer.to_arrow().column("v").to_pylist() == values
    assert [row[1] for row in answer.rows()] == values
    assert client.query(table).filter(basalt.col("v").is_null()).select("n").collect().rows() == [(2,)]


@pytest.mark.parametrize("data_type", [pa.float32(), pa.float64()], ids=str)
def test_floats_come_back(client: basalt.Client, table: str, data_type: pa.DataType) -> None:
    values = [math.nan, math.inf, -math.inf, -0.0, 0.1, None]
    client.load(table, pa.table({"n": range(6), "v": pa.array(values, data_type)}))
    nan, inf, minus_inf, zero, tenth, null = (v for _, v in client.query(table).order_by("n").collect().rows())
    assert math.isnan(nan)
    assert (inf, minus_inf, null) == (math.inf, -math.inf, None)
    assert tenth == pa.scalar(0.1, data_type).as_py()
    # -0.0 is held as what it equals.
    assert zero == 0.0
    equal = client.query(table).filter(basalt.col("v") == math.nan).select("n").collect()
    assert equal.rows() == [(0,)]


def test_times_without_a_zone_are_utc(client: basalt.Client, table: str) -> None:
    noon = dt.datetime(2024, 5, 17, 12)
    client.load(
        table,
        pa.table(
            {
                "naive": pa.array([noon], pa.timestamp("us")),
                "seconds": pa.array([noon], pa.timestamp("s")),
                "oslo": pa.array([noon.replace(tzinfo=UTC)], pa.timestamp("ms", "Europe/Oslo")),
            }
        ),
    )
    assert client.query(table).collect().one() == (noon.replace(tzinfo=UTC),) * 3


@pytest.mark.parametrize(
    ("array", "held", "value"),
    [
        (pa.array([-1, None], pa.timestamp("ns")), "timestamp", dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
        (pa.array([1001, None], pa.time64("ns")), "time", dt.time(0, 0, 0, 1)),
        (pa.array([90, None], pa.time32("s")), "time", dt.time(0, 1, 30)),
        (pa.array([dt.date(2024, 5, 17), None], pa.date64()), "date32", dt.date(2024, 5, 17)),
        (pa.array(["a", None], pa.large_string()), "utf8", "a"),
        (pa.array(["a", None], pa.string_view()), "utf8", "a"),
        (pa.array(["a", None]).dictionary_encode(), "utf8", "a"),
        (pa.array([b"ab", None], pa.binary(2)), "binary", b"ab"),
        (pa.array([np.float16(1.5), None], pa.float16()), "float32", 1.5),
        (pa.array([Decimal("1.25"), None], pa.decimal256(40, 2)), "decimal(38,2)", Decimal("1.25")),
        (pa.array([None, None]), "utf8", None),
        (pa.array([[1, None], None]), "utf8", "[1,null]"),
        (
            pa.array([{"a": 'x"', "b": Decimal("1.50"), "c": math.nan}, None]),
            "utf8",
            '{"a":"x\\"","b":1.50,"c":"NaN"}',
        ),
        (pa.array([[(1, b"\x0a")], None], pa.map_(pa.int8(), pa.binary())), "utf8", '{"1":"0a"}'),
    ],
    ids=lambda each: str(getattr(each, "type", ""))[:20],
)
def test_other_types_become_those_of_tables(
    client: basalt.Client, table: str, array: pa.Array, held: str, value: object
) -> None:
    client.load(table, pa.table({"n": [1, 2], "v": array}))
    answer = client.query(table).select("v").order_by("n").collect()
    assert repr(answer) == f"Result(2 rows: v {held})"
    assert answer.rows() == [(value,), (None,)]


def test_what_no_table_holds_is_refused(client: basalt.Client, table: str) -> None:
    with pytest.raises(basalt.InvalidData, match="column 'v' has the Arrow type duration"):
        client.load(table, pa.table({"v": [dt.timedelta(1)]}))
    with pytest.raises(basalt.TableNotFound):
        client.describe(table)


@pytest.mark.parametrize(
    ("held", "array", "is_taken"),
    [
        (pa.int16(), pa.array([300]), True),
        (pa.int8(), pa.array([300]), False),
        (pa.int8(), pa.array([7.0]), True),
        (pa.int8(), pa.array([7.5]), False),
        (pa.float32(), pa.array([0.5, math.nan]), True),
        (pa.float32(), pa.array([0.1]), False),
        (pa.float64(), pa.array([1 << 60 | 1]), False),
        (pa.decimal128(4, 2), pa.array([12]), True),
        (pa.decimal128(4, 2), pa.array([120]), False),
        (pa.decimal128(4, 1), pa.array([Decimal("1.25")]), False),
        (pa.date32(), pa.array([dt.datetime(2024, 5, 17)]), True),
        (pa.date32(), pa.array([dt.datetime(2024, 5, 17, 1)]), False),
        (pa.timestamp("us", "UTC"), pa.array([dt.date(2024, 5, 17)]), True),
        (pa.int64(), pa.array(["1"]), False),
        (pa.string(), pa.array([1]), True),
        (pa.bool_(), pa.array([1]), False),
        (pa.string(), pa.array([None]), True),
    ],
    ids=lambda each: str(each).replace("\n", ""),
)
def test_a_value_is_taken_where_it_is_there_exactly(
    client: basalt.Client, table: str, held: pa.DataType, array: pa.Array, is_taken: bool
) -> None:
    client.create(table, pa.schema([("v", held)]))
    if is_taken:
        client.load(table, pa.table({"v": array}))
    else:
        with pytest.raises(basalt.InvalidData, match="column 'v'"):
            client.load(table, pa.table({"v": array}))
    assert client.query(table).aggregate(basalt.count()).collect().scalar() == (len(array) if is_taken else 0)
