"""Queries that are built, beside the same in SQL."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import basalt_client as basalt
from basalt_client import all_of, any_of, attribute, avg, col, constant, count, keys_of, lit, max, min, row_address, sum

ROWS = 2000


@pytest.fixture(scope="module")
def trips(client: basalt.Client):
    """A table of every kind of column, its key another table's."""
    start = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    client.load(
        "q_cities", {"id": range(7), "city": [f"city {n}" for n in range(7)], "size": [n * 100 for n in range(7)]}
    )
    schema = pa.schema(
        [
            ("id", pa.int32()),
            ("name", pa.string()),
            ("fare", pa.decimal128(9, 2)),
            ("rate", pa.float64()),
            ("at", pa.timestamp("us", "UTC")),
            ("day", pa.date32()),
            ("card", pa.bool_()),
            pa.field("city", pa.int64(), metadata={"basalt.references": "q_cities.id"}),
            ("code", pa.binary()),
        ]
    )
    client.create("q_trips", schema)
    rows = range(ROWS)
    columns = {
        "id": list(rows),
        "name": [None if n % 11 == 0 else f"{'ab%_'[n % 4]}{n % 50}" for n in rows],
        "fare": [Decimal(n * 7 % 3000) / 100 for n in rows],
        "rate": [n / 8 if n % 13 else None for n in rows],
        "at": [start + dt.timedelta(hours=n * 5) for n in rows],
        "day": [(start + dt.timedelta(hours=n * 5)).date() for n in rows],
        "card": [n % 3 == 0 for n in rows],
        "city": [n % 9 for n in rows],
        "code": [bytes([n % 5, 255]) for n in rows],
    }
    client.load("q_trips", pa.table(columns, schema=schema))
    yield "q_trips"
    client.drop("q_trips")
    client.drop("q_cities")


FILTERS = [
    (col("id") > 100, "id > 100"),
    (100 > col("id"), "100 > id"),  # noqa: SIM300 - the other side's operator,
    ((col("id") >= 5) & (col("id") <= 9), "id >= 5 AND id <= 9"),
    ((col("id") == 5) | (col("id") != 7), "id = 5 OR id <> 7"),
    (~(col("name") == "b1"), "NOT (name = 'b1')"),
    (col("name").is_null(), "name IS NULL"),
    (col("name").is_not_null(), "name IS NOT NULL"),
    (col("id").between(3, 99), "id BETWEEN 3 AND 99"),
    (col("name").is_in(["a0", "b1", "zz"]), "name IN ('a0', 'b1', 'zz')"),
    (~col("name").is_in(["a0", None]), "name NOT IN ('a0', NULL)"),
    (col("name").like("a%"), "name LIKE 'a%'"),
    (col("name").starts_with("%1"), r"name LIKE '\%1%'"),
    (col("name").starts_with("_"), r"name LIKE '\_%'"),
    (col("fare") == Decimal("0.07"), "fare = 0.07"),
    (col("fare") < "1.00", "fare < 1.00"),
    (col("rate") * 2 + 1 > col("id") / 3, "rate * 2 + 1 > id / 3"),
    (10 - col("id") < 2, "10 - id < 2"),
    (col("at") >= dt.datetime(2024, 7, 1), "at >= TIMESTAMP '2024-07-01 00:00:00'"),
    (col("at") >= "2024-07-01T00:00:00Z", "at >= TIMESTAMP '2024-07-01 00:00:00'"),
    (col("day") == dt.date(2024, 7, 1), "day = DATE '2024-07-01'"),
    (col("card") == True, "card"),  # noqa: E712 - it is no truth of Python's
    (col("at").part("hour") == 5, "extract(hour FROM at) = 5"),
    (col("day").day_of_week() == 0, "extract(dow FROM day) = 0"),
    (col("day").day_of_year() > 300, "extract(doy FROM day) > 300"),
    (col("at").truncate("month") == dt.datetime(2024, 3, 1), "date_trunc('month', at) = TIMESTAMP '2024-03-01'"),
    (all_of(col("id") > 1, col("id") < 5), "id > 1 AND id < 5"),
    (any_of(), "false"),
    (constant(True), "true"),
    (
        col("city").in_keys(keys_of("q_cities", "id").filter(col("size") > 300)),
        "city IN (SELECT id FROM q_cities WHERE size > 300)",
    ),
    (
        ~col("city").in_keys(keys_of("q_cities", "id").filter(col("size") > 300, col("id") < 6)),
        "city NOT IN (SELECT id FROM q_cities WHERE size > 300 AND id < 6)",
    ),
]


@pytest.mark.sql
@pytest.mark.parametrize(("filter", "sql"), FILTERS, ids=[sql for _, sql in FILTERS])
def test_filters_are_those_of_sql(client: basalt.Client, trips: str, filter: basalt.Filter, sql: str) -> None:
    asked = client.query(trips).select("id").filter(filter).collect().rows()
    assert sorted(asked) == client.sql(f"SELECT id FROM {trips} WHERE {sql} ORDER BY id").rows()


@pytest.mark.sql
def test_groups_are_those_of_sql(client: basalt.Client, trips: str) -> None:
    built = (
        client.query(trips)
        .filter(col("id") > 10)
        .group_by("city", col("at").truncate("quarter").alias("quarter"))
        .aggregate(
            count(),
            count("rate").alias("rated"),
            count("name", distinct=True).alias("names"),
            sum("fare").alias("fares"),
            min("id"),
            max("rate").alias("top"),
            avg(col("rate") * 2).alias("late"),
        )
        .having(count() > 20)
        .order_by("late", descending=True)
        .order_by("city", "quarter")
        .limit(12)
        .offset(1)
        .collect()
    )
    sql = client.sql(
        f"""SELECT city, date_trunc('quarter', at) AS quarter, count(*), count(rate) AS rated,
                   count(DISTINCT name) AS names, sum(fare) AS fares, min(id), max(rate) AS top, avg(rate * 2) AS late
            FROM {trips} WHERE id > 10 GROUP BY city, quarter HAVING count(*) > 20
            ORDER BY late DESC NULLS LAST, city, quarter LIMIT 12 OFFSET 1"""
    )
    assert built.rows() == sql.rows()
    assert built.schema.names[:5] == ["city", "quarter", "count(*)", "rated", "names"]
    assert len(built) == 12


@pytest.mark.sql
def test_attributes(client: basalt.Client, trips: str) -> None:
    built = client.query(trips).filter(attribute("city", "size") > 300).group_by(col("city").attribute("city"))
    join = f"{trips} t JOIN q_cities c ON t.city = c.id"
    sql = f"SELECT c.city, count(*) FROM {join} WHERE size > 300 GROUP BY 1 ORDER BY 1"
    assert built.aggregate(count()).collect().rows() == client.sql(sql).rows()


def test_each_step_is_a_query_of_its_own(client: basalt.Client, trips: str) -> None:
    every = client.query(trips)
    some = every.filter(col("id") < 10)
    few = some.filter(col("id") >= 8).select("id")
    assert [len(query.collect()) for query in (every, some, few)] == [ROWS, 10, 2]
    assert few.collect().rows() == [(8,), (9,)]
    assert "limit" in repr(few.limit(1))


def test_orders(client: basalt.Client, table: str) -> None:
    client.load(table, {"a": [1, 2, None, 2], "b": ["x", "y", "z", "w"]})
    query = client.query(table).select("b")

    def order(*keys: object, **options: bool) -> str:
        return "".join(row[0] for row in query.order_by(*keys, **options).collect().rows())

    assert order("a", "b") == "xwyz"
    assert order("a", descending=True) == "ywxz"
    assert order(col("a").desc(nulls_first=True), "b") == "zwyx"
    assert order(col("a").asc(nulls_first=True), col("b").desc()) == "zxyw"


def test_an_older_version(client: basalt.Client, flights: str) -> None:
    version = client.query(flights).collect().version
    client.load(flights, {"carrier": ["ZZ"]})
    assert len(client.query(flights).version(version).collect()) == 6
    with pytest.raises(basalt.VersionGone):
        client.query(flights).version(version + 5).collect()


def test_bytes_are_compared_by_their_digits(client: basalt.Client, trips: str) -> None:
    query = client.query(trips).filter(col("code") == bytes([3, 255])).aggregate(count())
    assert query.collect().scalar() == ROWS / 5


def test_rows_by_their_address(client: basalt.Client, trips: str) -> None:
    addresses = client.query(trips).select(row_address().alias("row"), "id").limit(3).collect()
    assert addresses.schema.field("row").type == pa.uint64()


def test_explain(client: basalt.Client, trips: str) -> None:
    plan = client.query(trips).filter(col("id") > 5).explain()
    assert "filter id > 5" in str(plan)
    assert plan.message.filters[0].text == "id > 5"
    assert client.query(trips).explain(analyze=True).message.operators


def test_a_stream(client: basalt.Client, trips: str) -> None:
    with client.query(trips).select("id").stream() as stream:
        assert sum_rows(stream) == ROWS
        assert stream.version == client.describe(trips).table.version


def sum_rows(batches) -> int:
    total = 0
    for batch in batches:
        total += batch.num_rows
    return total


def test_mistakes_of_python_are_told() -> None:
    with pytest.raises(TypeError, match=r"& \| ~"):
        1 < col("a") < 3  # noqa: B015
    with pytest.raises(TypeError, match=r"& \| ~"):
        _ = (col("a") > 1) and (col("b") > 1)
    with pytest.raises(TypeError, match="brackets"):
        _ = (col("a") > 1) & col("b")
    with pytest.raises(TypeError, match=r"client\.sql"):
        all_of("country = 'DE'")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        hash(col("a"))
    with pytest.raises(TypeError, match="not one string"):
        col("a").is_in("abc")
    with pytest.raises(TypeError, match="neither"):
        count(["a", "b"])
    with pytest.raises(TypeError, match="a column alone"):
        (col("a") + 1).in_keys(keys_of("t", "k"))
    with pytest.raises(ValueError, match="unit of time"):
        col("a").truncate("fortnight")


def test_chains_stay_flat() -> None:
    a = [col("a") > n for n in range(4)]
    assert len(getattr((a[0] & a[1] & (a[2] & a[3])).message, "and").filters) == 4
    assert len(getattr((a[0] | a[1] | (a[2] & a[3])).message, "or").filters) == 3
    assert (~~a[0]).message == a[0].message
    assert lit(None).message.literal.null


def test_what_is_wrong_has_its_place(client: basalt.Client, trips: str) -> None:
    with pytest.raises(basalt.ColumnNotFound) as caught:
        client.query(trips).filter((col("id") > 1) & (col("nope") == 1)).collect()
    assert caught.value.place == "filter.and[1].compare.left.column"
    with pytest.raises(basalt.InvalidRequest) as caught:
        client.query(trips).filter(col("name") > 1).collect()
    assert (caught.value.reason, caught.value.retryable) == ("TYPE_MISMATCH", False)
    with pytest.raises(basalt.OutOfRange):
        client.query(trips).aggregate(sum(col("id") / 0)).collect()
