"""Sets: algebra, filters, and the bytes of the format."""

import datetime as dt
import json
import pathlib
from decimal import Decimal

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import basalt_client as basalt
from basalt_client import _sip as sip
from basalt_client import col, count, keys_of


@pytest.fixture(scope="module")
def numbers(client: basalt.Client):
    """The numbers below 100,000 as rows."""
    client.load("s_numbers", {"n": range(100_000), "mod": [n % 7 for n in range(100_000)]})
    yield "s_numbers"
    client.drop("s_numbers")


def counted(query) -> int:
    return query.aggregate(count()).collect().scalar()


def test_rows(client: basalt.Client, numbers: str) -> None:
    query = client.query(numbers)
    low = query.filter(col("n") < 60_000).select_rows()
    sevenths = query.filter(col("mod") == 0).select_rows()
    assert (len(low), low.table, low.version) == (60_000, numbers, client.describe(numbers).table.version)
    assert low.statistics.rows_selected == 60_000
    for combined, expected in [
        (low & sevenths, lambda n: n < 60_000 and n % 7 == 0),
        (low | sevenths, lambda n: n < 60_000 or n % 7 == 0),
        (low - sevenths, lambda n: n < 60_000 and n % 7 != 0),
        (sevenths - low, lambda n: n >= 60_000 and n % 7 == 0),
    ]:
        wanted = [n for n in range(100_000) if expected(n)]
        assert len(combined) == len(wanted)
        assert [n for (n,) in query.rows(combined).select("n").collect().rows()] == wanted
    assert (low & sevenths) | (low - sevenths) == low
    assert low != sevenths
    assert not low - low
    assert len(query.rows(low - low).collect()) == 0
    with pytest.raises(TypeError):
        low & query.select_keys("mod")


def test_addresses(client: basalt.Client, numbers: str) -> None:
    rows = client.query(numbers).filter(col("n").between(5, 8)).select_rows()
    addresses = rows.to_numpy()
    assert (addresses.dtype, len(addresses)) == (np.uint64, 4)
    assert rows.to_list() == list(rows) == addresses.tolist()
    assert addresses[0] in rows.to_list()
    assert int(addresses[0]) in rows
    assert int(addresses[0]) - 1 not in rows
    assert "x" not in rows
    assert -1 not in rows


def test_rows_are_of_one_version(client: basalt.Client, flights: str) -> None:
    before = client.query(flights).select_rows()
    client.load(flights, {"carrier": ["ZZ"]})
    after = client.query(flights).select_rows()
    with pytest.raises(basalt.InvalidSet, match="have nothing in common"):
        before & after
    assert before != after
    assert counted(client.query(flights).rows(before)) == 6
    with pytest.raises(basalt.ScopeMismatch):
        client.query(flights).version(after.version).rows(before).collect()
    client.load(flights, {"carrier": ["ZZ"]}, if_exists="replace")
    with pytest.raises(basalt.BasaltError) as caught:
        client.query(flights).rows(before).collect()
    assert caught.value.reason in ("SCOPE_MISMATCH", "VERSION_GONE")


def test_keys(client: basalt.Client, numbers: str) -> None:
    query = client.query(numbers)
    small = query.filter(col("n") < 3).select_keys("mod")
    odd = query.filter(col("mod").is_in([1, 3, 5])).select_keys("mod")
    assert (small.to_list(), odd.to_list(), small.type, small.column) == ([0, 1, 2], [1, 3, 5], pa.int64(), "mod")
    assert (small | odd).to_list() == [0, 1, 2, 3, 5]
    assert (small & odd).to_list() == [1]
    assert (small - odd).to_list() == [0, 2]
    assert counted(query.filter(col("mod").in_keys(small & odd))) == 14286
    assert counted(query.filter(~col("n").in_keys(small))) == 100_000 - 3
    assert 2 in small
    assert 2.0 in small
    assert 2.5 not in small
    assert "x" not in small


def test_nulls_among_keys(client: basalt.Client, flights: str) -> None:
    query = client.query(flights)
    delays = query.select_keys("dep_delay")
    assert delays.has_null
    assert delays.to_list() == [-5, 2, 61, 75, 130]
    without = query.filter(col("dep_delay") > 0).select_keys("dep_delay")
    assert not without.has_null
    assert [(delays & without).has_null, (delays | without).has_null, (delays - without).has_null] == [
        False,
        True,
        True,
    ]
    assert not (delays - delays).has_null
    # As SQL's NOT IN has it: with a null among the keys no row passes.
    assert counted(query.filter(~col("distance").in_keys(delays))) == 0
    assert counted(query.filter(~col("distance").in_keys(without))) == 6


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (pa.int8(), [-128, -1, 0, 127]),
        (pa.int64(), [-(1 << 63), -1, 0, (1 << 63) - 1]),
        (pa.uint64(), [0, 1 << 63, (1 << 64) - 1]),
        (pa.uint16(), [0, 65535]),
        (pa.bool_(), [False, True]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
        (
            pa.timestamp("us", "UTC"),
            [dt.datetime(1960, 1, 1, tzinfo=dt.timezone.utc), dt.datetime(2024, 5, 17, tzinfo=dt.timezone.utc)],
        ),
        (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("99.99")]),
    ],
    ids=lambda each: str(each)[:20],
)
def test_keys_of_every_type(client: basalt.Client, table: str, data_type: pa.DataType, values: list) -> None:
    client.load(table, pa.table({"v": pa.array(values, data_type)}))
    keys = client.query(table).select_keys("v")
    assert (keys.type, keys.to_list()) == (data_type, values)
    assert keys.to_numpy().shape == (len(values),)
    assert all(value in keys for value in values)
    assert object() not in keys
    # The same set, from values.
    made = client.key_set(pa.array([*values, *values, None], data_type))
    assert made.has_null
    assert made == keys
    assert (
        counted(client.query(table).filter(col("v").in_keys(made - client.key_set(keys.to_arrow()[:1]))))
        == len(values) - 1
    )


def test_sets_of_values(client: basalt.Client, numbers: str) -> None:
    for values in ([3, 5, 5], np.array([5, 3]), pa.chunked_array([[3], [5]]), polars.Series([3, 5]), range(3, 7, 2)):
        keys = client.key_set(values)
        assert keys.to_list() == [3, 5]
        assert counted(client.query(numbers).filter(col("n").in_keys(keys))) == 2
    nullable = pandas.Series([5, 3, None], dtype="Int64")
    for values in (nullable, nullable.astype("category"), pa.array([3, 5, None]).dictionary_encode()):
        assert client.key_set(values).to_list() == [3, 5]
    noon = dt.datetime(2024, 5, 17, 12, tzinfo=dt.timezone.utc)
    moments = client.key_set([noon.date(), noon])
    assert moments.to_list() == [noon.replace(hour=0), noon]
    assert client.key_set([1 << 63]).to_list() == [1 << 63]
    assert client.key_set(pa.array([86_400_000], pa.date64())).to_list() == [dt.date(1970, 1, 2)]
    for values in ([], [None]):
        with pytest.raises(basalt.InvalidData, match=r"pyarrow\.array\(\[\], pyarrow\.int64\(\)\)"):
            client.key_set(values)
    assert client.key_set(pa.array([], pa.int64())).to_list() == []
    with pytest.raises(basalt.InvalidSet, match="would lose data"):
        client.key_set(pa.array([1], pa.timestamp("ns")))
    many = client.key_set(np.arange(0, 100_000, 3))
    assert counted(client.query(numbers).filter(col("n").in_keys(many))) == 33_334
    for values in (["a"], [0.5]):
        with pytest.raises(basalt.InvalidSet, match="are no ids"):
            client.key_set(values)
    with pytest.raises(basalt.InvalidData):
        client.key_set([1, "a"])
    with pytest.raises(basalt.InvalidSet, match="types int64 and date32"):
        client.key_set([1]) & client.key_set([dt.date(1970, 1, 2)])
    assert client.key_set(np.array([-1], np.int8)) & client.key_set([-1]) == client.key_set([-1])


def test_kept_sets(client: basalt.Client, numbers: str) -> None:
    query = client.query(numbers)
    rows = query.filter(col("n") < 10).select_rows()
    assert rows.kept is None
    kept = rows.keep(60)
    assert kept.kept is not None
    assert dt.timedelta(seconds=50) < kept.kept.expires_in <= dt.timedelta(seconds=60)
    assert counted(query.rows(kept)) == 10
    there = query.filter(col("n") < 20).select_rows(keep=60, ids=False)
    assert (len(there), there.data) == (20, b"")
    assert "kept by the server" in repr(there)
    assert counted(query.rows(there)) == 20
    with pytest.raises(basalt.InvalidSet, match="only the server holds"):
        there & rows
    fetched = client.kept_set(there.kept.handle)
    assert isinstance(fetched, basalt.RowSet)
    assert len(fetched & rows) == 10
    keys = query.select_keys("mod", keep=60)
    assert isinstance(client.kept_set(keys.kept.handle), basalt.KeySet)
    assert counted(query.filter(col("n").in_keys(keys))) == 7
    assert kept.forget()
    assert not kept.forget()
    assert not rows.forget()
    with pytest.raises(basalt.SetNotFound):
        query.rows(kept).collect()
    with pytest.raises(ValueError, match="seconds"):
        rows.keep(0)
    with pytest.raises(ValueError, match="keep"):
        query.select_rows(ids=False)


def test_texts_by_a_semi_join(client: basalt.Client, flights: str) -> None:
    late = keys_of(flights, "carrier").filter(col("dep_delay") > 60, col("dep_delay") < 100)
    assert counted(client.query(flights).filter(col("carrier").in_keys(late))) == 2
    version = client.describe(flights).table.version
    assert counted(client.query(flights).filter(col("carrier").in_keys(late.version(version)))) == 2
    with pytest.raises(basalt.BasaltError):
        client.query(flights).select_keys("carrier")


def random_sets() -> list[sip.Intervals]:
    random = np.random.default_rng(7)
    last = (1 << 64) - 1
    return [
        sip.EMPTY,
        sip.of_ids(np.array([0, last], np.uint64)),
        sip.complement(sip.EMPTY),
        sip.complement(sip.of_ids(np.array([0, last], np.uint64))),
        sip.of_ids(np.arange(70_000, dtype=np.uint64)),
        sip.of_ids(random.integers(0, 2000, 300, np.uint64)),
        sip.of_ids(random.integers(0, 2000, 1500, np.uint64)),
        sip.of_ids(random.integers(0, last, 500, np.uint64)),
        sip.of_ids(np.cumsum(random.integers(1, 5, 3000).astype(np.uint64))),
    ]


def test_algebra_beside_pythons() -> None:
    small = [each for each in random_sets() if each.cardinality() < 100_000]
    for a in small:
        for b in small:
            left, right = set(a.ids().tolist()), set(b.ids().tolist())
            assert sip.intersection(a, b).ids().tolist() == sorted(left & right)
            assert sip.union(a, b).ids().tolist() == sorted(left | right)
            assert sip.difference(a, b).ids().tolist() == sorted(left - right)


def test_laws_of_large_sets() -> None:
    for a in random_sets():
        assert same(sip.complement(sip.complement(a)), a)
        assert same(sip.read(sip.write(a)), a)
        assert a.cardinality() + sip.complement(a).cardinality() == 1 << 64
        for b in random_sets():
            assert same(sip.union(a, b), sip.union(b, a))
            assert sip.union(a, b).cardinality() + sip.intersection(a, b).cardinality() == (
                a.cardinality() + b.cardinality()
            )


def same(a: sip.Intervals, b: sip.Intervals) -> bool:
    return np.array_equal(a.first, b.first) and np.array_equal(a.last, b.last)


def test_the_formats_own_vectors(repository: pathlib.Path) -> None:
    """Every form of every set is read as the same set, and ranges are written byte for byte."""
    folder = repository / "core/sip/testdata"
    index = json.loads((folder / "index.json").read_text())
    shapes: dict[str, sip.Intervals] = {}
    for vector in index["valid"]:
        data = (folder / vector["file"]).read_bytes()
        found = sip.read(data)
        assert found.cardinality() == vector["cardinality"], vector["name"]
        for (first, last), begin, end in zip(vector.get("ranges", []), found.first, found.last, strict=False):
            assert (int(first), int(last)) == (begin, end), vector["name"]
        shape = vector["name"].partition(" ")[2]
        assert same(shapes.setdefault(shape, found), found), vector["name"]
        if data[0] in (0x00, 0x03):
            assert sip.write(found) == data, vector["name"]
    assert len(index["valid"]) > 100


def test_bytes_that_are_cut_are_errors() -> None:
    data = [sip.write(each) for each in random_sets()]
    data += [b"\x02\x04\x05\x01\xa6\x02\xd4\xfd\xff\xff\x0f"]
    for whole in data:
        for end in range(0, len(whole), max(len(whole) // 50, 1)):
            with pytest.raises(basalt.InvalidSet):
                sip.read(whole[:end])
        with pytest.raises(basalt.InvalidSet):
            sip.read(whole + b"\0")
    for wrong in (b"\x05", b"\x02\x00", b"\x03\x00", b"\x01" + bytes(8), b"\x01\x01" + bytes(20)):
        with pytest.raises(basalt.InvalidSet):
            sip.read(wrong)
