"""Polars: a data frame in memory, asked in SQL."""

import os

os.environ["POLARS_MAX_THREADS"] = "1"

import polars as pl  # noqa: E402
import sqlglot  # noqa: E402
from sqlglot import exp  # noqa: E402

import queries

from . import Engine  # noqa: E402


NARROW = (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32)


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
        self.narrow |= {name for name, kind in frame.schema.items() if kind in NARROW}

    def column_bytes(self, table):
        return {column.name: column.estimated_size() for column in self.frames[table.name]}

    def prepare(self, sql):
        """Integers of 32 bits are summed and multiplied in 32 bits, which wrap, so 64 are asked for."""
        tree = sqlglot.parse_one(queries.joined(sql))
        for aggregate in tree.find_all(exp.Sum):
            columns = list(aggregate.find_all(exp.Column))
            if self.narrow.issuperset(column.name for column in columns):
                for column in columns:
                    column.replace(exp.cast(column.copy(), "BIGINT"))
        return tree.sql()

    def query(self, prepared):
        return self.context.execute(prepared).collect().to_arrow()
