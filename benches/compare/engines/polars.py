"""Polars: a data frame in memory, asked in SQL."""

import os

os.environ["POLARS_MAX_THREADS"] = "1"

import polars as pl  # noqa: E402
import sqlglot  # noqa: E402
from sqlglot import exp  # noqa: E402

from . import Engine  # noqa: E402


class Polars(Engine):
    title = "Polars, data frame"

    def __init__(self, options):
        self.frames = {}
        self.context = pl.SQLContext()
        self.narrow = set()

    def version(self):
        return pl.__version__

    def load(self, table):
        frame = pl.read_parquet(table.path)
        self.frames[table.name] = frame
        self.context.register(table.name, frame.lazy())
        self.narrow |= {name for name, kind in frame.schema.items() if kind in (pl.Int32, pl.UInt32)}

    def column_bytes(self, table):
        return {column.name: column.estimated_size() for column in self.frames[table.name]}

    def prepare(self, sql):
        """Sums of 32-bit integers are 32 bits wide and wrap, so they are asked for in 64."""
        tree = sqlglot.parse_one(sql)
        for aggregate in tree.find_all(exp.Sum):
            if isinstance(aggregate.this, exp.Column) and aggregate.this.name in self.narrow:
                aggregate.set("this", exp.cast(aggregate.this, "BIGINT"))
        return tree.sql()

    def query(self, prepared):
        return self.context.execute(prepared).collect().to_arrow()
