"""chDB, which is ClickHouse in the process: MergeTree with its own codecs, or with the best for each column."""

import chdb
import pyarrow as pa
import sqlglot
from chdb import session
from sqlglot import exp

import queries

from . import Engine

SETTINGS = {
    "max_threads": 1,
    "max_insert_threads": 1,
    "max_parsing_threads": 1,
    # Answers, and what filters select, are computed and not remembered.
    "use_query_cache": 0,
    "use_query_condition_cache": 0,
    # Types as in the file; times in UTC.
    "session_timezone": "'UTC'",
    "schema_inference_make_columns_nullable": "'auto'",
    "output_format_arrow_string_as_string": 1,
}
# One file a column whatever the size: only then are the bytes of each one known.
STORAGE = "min_bytes_for_wide_part = 0, min_rows_for_wide_part = 0, default_compression_codec = 'LZ4'"
CODECS = ["", "Delta", "DoubleDelta", "Gorilla", "FPC", "T64", "ALP"]
TRIAL_ROWS = 1 << 20
# Distinct texts that LowCardinality is made for.
LOW_CARDINALITY = 10_000


class Default(Engine):
    title = "chDB, MergeTree with LZ4"

    def __init__(self, options):
        self.session = session.Session(str(options.folder))
        self.session.query("SET enable_alp_codec = 1")
        self.settings = ", ".join(f"{name} = {value}" for name, value in SETTINGS.items())

    def version(self):
        return f"{chdb.__version__} (ClickHouse {self.rows('SELECT version()')[0][0]})"

    def create(self, name, columns, order):
        storage = f"ENGINE = MergeTree ORDER BY {order} SETTINGS {STORAGE}"
        self.session.query(f"CREATE TABLE {name} ({columns}) {storage}")

    def run(self, sql, form="Arrow"):
        return self.session.query(f"{sql} SETTINGS {self.settings}", form).bytes()

    def rows(self, sql):
        return [tuple(row.values()) for row in self.query(sql).to_pylist()]

    def load(self, table):
        file = f"file('{table.path}', Parquet)"
        columns = [row[:2] for row in self.rows(f"DESCRIBE TABLE {file}")]
        types = ", ".join(f"{name} {self.held_as(name, kind, file)}" for name, kind in columns)
        order = ", ".join(table.order)
        self.create(table.name, types, f"({order})")
        self.run(f"INSERT INTO {table.name} SELECT * FROM {file}")
        self.session.query(f"OPTIMIZE TABLE {table.name} FINAL")

    def held_as(self, name, kind, file):
        """A column's type and codec."""
        if kind == "String" and self.rows(f"SELECT uniq({name}) FROM {file}")[0][0] <= LOW_CARDINALITY:
            return "LowCardinality(String)"
        return kind

    def column_bytes(self, table):
        sql = f"SELECT name, data_compressed_bytes + marks_bytes FROM system.columns WHERE table = '{table.name}'"
        return dict(self.rows(sql))

    def prepare(self, sql):
        """Its TIMESTAMP ends at seconds."""
        tree = sqlglot.parse_one(queries.joined(sql))
        for cast in tree.find_all(exp.Cast):
            if cast.is_type("TIMESTAMP"):
                cast.replace(exp.func("toDateTime64", cast.this, exp.Literal.number(6)))
        return tree.sql(normalize_functions=False)

    def query(self, prepared):
        answer = self.run(prepared)
        return pa.ipc.open_file(answer).read_all()

    def close(self):
        self.session.close()


class BestCodecs(Default):
    title = "chDB, MergeTree with the best codecs, ZSTD(3)"

    def held_as(self, name, kind, file):
        """The codec that makes a sample of the column smallest."""
        kind = super().held_as(name, kind, file)
        sizes = {codec: self.trial(name, kind, codec, file) for codec in CODECS}
        best = min((size, codec) for codec, size in sizes.items() if size is not None)[1]
        return f"{kind} {self.codec(best)}"

    @staticmethod
    def codec(name):
        return f"CODEC({name}, ZSTD(3))" if name else "CODEC(ZSTD(3))"

    def trial(self, name, kind, codec, file):
        """The bytes of a sample; None where the codec is not for such values."""
        try:
            self.create("trial", f"{name} {kind} {self.codec(codec)}", "tuple()")
        except Exception as error:
            if "codec" in str(error).lower():
                return None
            raise
        try:
            self.run(f"INSERT INTO trial SELECT {name} FROM {file} LIMIT {TRIAL_ROWS}")
            return self.rows("SELECT data_compressed_bytes FROM system.columns WHERE table = 'trial'")[0][0]
        finally:
            self.session.query("DROP TABLE trial SYNC")
