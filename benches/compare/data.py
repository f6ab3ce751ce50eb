"""The data sets, as Parquet files that every engine loads."""

import dataclasses
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import progress

SEED = 0xBA5A17
CHUNK_ROWS = 1 << 20
EVENTS_START = np.datetime64("2024-01-01T00:00:00", "us")
# Mean distance of two events.
EVENTS_GAP_US = 19.5

EVENTS = pa.schema(
    [
        pa.field("flag", pa.bool_(), nullable=False),
        pa.field("status", pa.uint8(), nullable=False),
        pa.field("key", pa.uint8(), nullable=False),
        pa.field("amount", pa.int32(), nullable=False),
        pa.field("ts", pa.timestamp("us"), nullable=False),
        pa.field("price", pa.float64(), nullable=False),
        pa.field("score", pa.float64()),
    ]
)
GROUPS = pa.schema(
    [pa.field(f"id{i}", pa.string(), nullable=False) for i in (1, 2, 3)]
    + [pa.field(name, pa.int32(), nullable=False) for name in ("id4", "id5", "id6", "v1", "v2")]
    + [pa.field("v3", pa.float64(), nullable=False)]
)
PARQUET = dict(compression="zstd", compression_level=3)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table in a file."""

    name: str
    path: pathlib.Path
    # The columns by which the rows are in order.
    order: tuple[str, ...] = ()

    @property
    def rows(self):
        return pq.ParquetFile(self.path).metadata.num_rows

    def column_bytes(self):
        """What each column takes in the file."""
        sizes = {}
        metadata = pq.ParquetFile(self.path).metadata
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                name = column.path_in_schema
                sizes[name] = sizes.get(name, 0) + column.total_compressed_size
        return sizes


def events_chunk(chunk, rows, start):
    """Rows of one chunk, which depend on its number alone, and the time at which the next one starts."""
    rng = np.random.default_rng((SEED, chunk))
    zipf = 1 / np.arange(1, 201)
    columns = [
        rng.random(CHUNK_ROWS) < 0.01,
        rng.choice(4, CHUNK_ROWS, p=[0.80, 0.15, 0.04, 0.01]).astype(np.uint8),
        rng.choice(200, CHUNK_ROWS, p=zipf / zipf.sum()).astype(np.uint8),
        rng.integers(0, 10_000, CHUNK_ROWS, dtype=np.int32),
        start + np.cumsum(rng.integers(0, 40, CHUNK_ROWS)).astype("timedelta64[us]"),
        rng.integers(0, 50_001, CHUNK_ROWS) / 100,
        rng.normal(50, 15, CHUNK_ROWS).round(1),
    ]
    is_null = rng.random(CHUNK_ROWS) < 0.1
    arrays = [pa.array(values[:rows]) for values in columns[:-1]]
    arrays.append(pa.array(columns[-1][:rows], mask=is_null[:rows]))
    return pa.record_batch(arrays, schema=EVENTS), columns[4][-1]


def events(folder, rows):
    """`rows` events; fewer are a prefix of more."""
    path = folder / f"events-{rows}.parquet"
    if not path.exists():
        part = path.with_suffix(".part")
        # Deltas suit sorted times; the other columns have few distinct values.
        others = [name for name in EVENTS.names if name not in ("flag", "ts")]
        writer = pq.ParquetWriter(
            part, EVENTS, use_dictionary=others, column_encoding={"ts": "DELTA_BINARY_PACKED"}, **PARQUET
        )
        start = EVENTS_START
        with writer, progress.stage(f"generating {rows:,} events", rows) as done:
            for chunk in range(-(-rows // CHUNK_ROWS)):
                left = rows - chunk * CHUNK_ROWS
                batch, start = events_chunk(chunk, min(CHUNK_ROWS, left), start)
                writer.write_batch(batch, row_group_size=CHUNK_ROWS)
                done(rows - left + batch.num_rows)
        part.rename(path)
    return [Table("events", path, ("ts",))]


def groups(folder, rows, cardinality):
    """The group-by data of H2O's db-benchmark, G1_ROWS_100_0_0: shuffled rows, no nulls. `cardinality` times as many values
    of the columns that have very many."""
    few, many = 100, max(int(rows / 100 * cardinality), 1)
    path = folder / f"groups-{rows}-{cardinality:g}.parquet"
    if not path.exists():
        part = path.with_suffix(".part")
        texts = [pa.array([f"id{i:0{width}}" for i in range(1, n + 1)]) for width, n in ((3, few), (10, many))]
        with progress.stage(f"generating {rows:,} rows of groups", rows) as done:
            with pq.ParquetWriter(part, GROUPS, **PARQUET) as writer:
                for chunk in range(-(-rows // CHUNK_ROWS)):
                    n = min(CHUNK_ROWS, rows - chunk * CHUNK_ROWS)
                    rng = np.random.default_rng((SEED, chunk, many))
                    of = lambda limit: rng.integers(0, limit, n, dtype=np.int32)  # noqa: E731
                    columns = [texts[0].take(pa.array(of(few))), texts[0].take(pa.array(of(few)))]
                    columns += [texts[1].take(pa.array(of(many)))]
                    columns += [pa.array(of(limit) + 1) for limit in (few, few, many, 5, 15)]
                    columns += [pa.array((rng.random(n) * 100).round(6))]
                    writer.write_batch(pa.record_batch(columns, schema=GROUPS), row_group_size=CHUNK_ROWS)
                    done(chunk * CHUNK_ROWS + n)
        part.rename(path)
    return [Table("groups", path)]


def tpch(folder, scale):
    """TPC-H's lineitem and orders."""
    lineitem, orders = generated(folder, scale, "lineitem", "orders")
    return [
        Table("lineitem", lineitem, ("l_orderkey", "l_linenumber")),
        Table("orders", orders, ("o_orderkey",)),
    ]


def ssb(folder, scale):
    """The Star Schema Benchmark's lineorder joined with its dimensions, made of TPC-H's tables."""
    path = folder / f"lineorder-{scale:g}.parquet"
    if not path.exists():
        import duckdb  # only here, so that the other data sets do without

        names = ("lineitem", "orders", "customer", "supplier", "part", "partsupp", "nation", "region")
        files = dict(zip(names, generated(folder, scale, *names)))
        part = path.with_suffix(".part")
        with progress.stage(f"joining lineorder at scale {scale:g}"), duckdb.connect() as connection:
            connection.execute(f"SET temp_directory = '{folder}/spill'")
            for name, file in files.items():
                connection.execute(f"CREATE VIEW {name} AS FROM read_parquet('{file}')")
            joined = connection.sql(LINEORDER).to_arrow_reader(CHUNK_ROWS)
            schema = pa.schema([field.with_nullable(False) for field in joined.schema])
            with pq.ParquetWriter(part, schema, **PARQUET) as writer:
                for batch in joined:
                    writer.write_batch(pa.record_batch(batch.columns, schema=schema))
        part.rename(path)
    return [Table("lineorder", path, ("lo_orderdate",))]


def star(folder, scale, basalt):
    """The Star Schema Benchmark's five tables, as Basalt generates them."""
    tables = folder / f"star-{scale:g}"
    if not tables.exists():
        part = tables.with_suffix(".part")
        with progress.stage(f"generating the Star Schema Benchmark at scale {scale:g}"):
            command = [basalt, "generate", "ssb", part, "--scale", f"{scale:g}"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        part.rename(tables)
    names = ("date", "supplier", "customer", "part", "lineorder")
    return [Table(name, tables / f"{name}.parquet") for name in names]


# Money in cents, shares in percent. A nation has ten cities, a category forty brands.
LINEORDER = """
    WITH places AS (SELECT n_nationkey, n_name, r_name FROM nation JOIN region ON r_regionkey = n_regionkey)
    SELECT o_orderdate AS lo_orderdate, year(o_orderdate)::SMALLINT AS d_year,
        (year(o_orderdate) * 100 + month(o_orderdate))::INTEGER AS d_yearmonthnum,
        week(o_orderdate)::TINYINT AS d_weeknuminyear,
        l_orderkey AS lo_orderkey, l_linenumber AS lo_linenumber, l_quantity::TINYINT AS lo_quantity,
        (l_extendedprice * 100)::INTEGER AS lo_extendedprice, (l_discount * 100)::TINYINT AS lo_discount,
        (l_extendedprice * (1 - l_discount) * 100)::INTEGER AS lo_revenue,
        (ps_supplycost * 100)::INTEGER AS lo_supplycost, l_shipmode AS lo_shipmode,
        c_custkey, c.n_name || ' ' || c_custkey % 10 AS c_city, c.n_name AS c_nation, c.r_name AS c_region,
        s_suppkey, s.n_name || ' ' || s_suppkey % 10 AS s_city, s.n_name AS s_nation, s.r_name AS s_region,
        p_partkey, 'MFGR#' || p_mfgr[-1] AS p_mfgr, 'MFGR#' || p_brand[-2:] AS p_category,
        p_category || lpad((p_partkey % 40 + 1)::VARCHAR, 2, '0') AS p_brand1
    FROM lineitem JOIN orders ON o_orderkey = l_orderkey
        JOIN customer ON c_custkey = o_custkey JOIN places c ON c.n_nationkey = c_nationkey
        JOIN supplier ON s_suppkey = l_suppkey JOIN places s ON s.n_nationkey = s_nationkey
        JOIN part ON p_partkey = l_partkey
        JOIN partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
    ORDER BY lo_orderdate, lo_orderkey, lo_linenumber
"""


def generated(folder, scale, *names):
    """The files of tables of TPC-H."""
    paths = {name: folder / f"{name}-{scale:g}.parquet" for name in names}
    missing = [name for name, path in paths.items() if not path.exists()]
    if missing:
        output = folder / "tpchgen"
        generator = shutil.which("tpchgen-cli", path=pathlib.Path(sys.executable).parent) or "tpchgen-cli"
        options = ["-s", f"{scale:g}", "-T", ",".join(missing), "-o", output, "--overwrite", "-q", "-c", "ZSTD(3)"]
        with progress.stage(f"generating TPC-H's {', '.join(missing)} at scale {scale:g}"):
            subprocess.run([generator, "parquet", *options], check=True)
        for name in missing:
            (output / f"{name}.parquet").rename(paths[name])
        shutil.rmtree(output)
    return paths.values()
