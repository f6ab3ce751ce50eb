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


def tpch(folder, scale):
    """TPC-H's lineitem and orders."""
    tables = [
        Table("lineitem", folder / f"lineitem-{scale:g}.parquet", ("l_orderkey", "l_linenumber")),
        Table("orders", folder / f"orders-{scale:g}.parquet", ("o_orderkey",)),
    ]
    missing = [table for table in tables if not table.path.exists()]
    if missing:
        generated = folder / "tpchgen"
        generator = shutil.which("tpchgen-cli", path=pathlib.Path(sys.executable).parent) or "tpchgen-cli"
        names = ",".join(table.name for table in missing)
        with progress.stage(f"generating TPC-H {names} at scale {scale:g}"):
            options = ["-s", f"{scale:g}", "-T", names, "-o", generated, "--overwrite", "-q", "-c", "ZSTD(3)"]
            subprocess.run([generator, "parquet", *options], check=True)
        for table in missing:
            (generated / f"{table.name}.parquet").rename(table.path)
        shutil.rmtree(generated)
    return tables
