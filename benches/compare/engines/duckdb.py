"""DuckDB: its own file, compressed, in its buffers; or tables in memory."""

import duckdb

from . import Engine


class _DuckDB(Engine):
    def __init__(self, options):
        self.connection = duckdb.connect(self.database(options.folder))
        self.connection.execute("SET threads = 1")
        self.connection.execute(f"SET temp_directory = '{options.folder}/spill'")
        self.connection.execute("SET enable_progress_bar = false")
        self.sizes = {}

    def version(self):
        return duckdb.__version__

    def load(self, table):
        before = self.held()
        self.connection.execute(f"CREATE TABLE {table.name} AS FROM read_parquet('{table.path}')")
        self.sizes[table.name] = self.held() - before

    def table_bytes(self, table):
        return self.sizes[table.name]

    def query(self, prepared):
        return self.connection.sql(prepared).to_arrow_table()

    def close(self):
        self.connection.close()


class OnDisk(_DuckDB):
    title = "DuckDB, checkpointed file"

    def database(self, folder):
        return str(folder / "tables.duckdb")

    def held(self):
        self.connection.execute("CHECKPOINT")
        query = "SELECT used_blocks * block_size FROM pragma_database_size()"
        return self.connection.execute(query).fetchall()[0][0]


class InMemory(_DuckDB):
    title = "DuckDB, in memory"

    def database(self, folder):
        return ":memory:"

    def held(self):
        query = "SELECT memory_usage_bytes FROM duckdb_memory() WHERE tag = 'IN_MEMORY_TABLE'"
        return self.connection.execute(query).fetchall()[0][0]
