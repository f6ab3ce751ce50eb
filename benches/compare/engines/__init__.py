"""The engines. Each is a class in a module of its own, so that one whose package is missing harms no other."""

import importlib
import os

import queries

# The name on the command line: the module and the class in it.
ENGINES = {
    "basalt": ("engines.basalt", "Basalt"),
    "basalt-sql": ("engines.basalt", "Sql"),
    "basalt-3": ("engines.basalt", "ThreeNodes"),
    "basalt-elastic": ("engines.basalt", "Elastic"),
    "basalt-plain": ("engines.basalt", "Plain"),
    "duckdb": ("engines.duckdb", "OnDisk"),
    "duckdb-memory": ("engines.duckdb", "InMemory"),
    "chdb": ("engines.chdb", "Default"),
    "chdb-best": ("engines.chdb", "BestCodecs"),
    "polars": ("engines.polars", "Polars"),
    "datafusion": ("engines.datafusion", "DataFusion"),
}


class Engine:
    """Holds tables and answers SQL, with one thread."""

    # What it is and how it holds the data, for the report.
    title = ""

    def __init__(self, options):
        """`options.folder` is an empty folder of its own."""

    def version(self):
        """Its version."""
        raise NotImplementedError

    def load(self, table):
        """Loads a `data.Table`."""
        raise NotImplementedError

    def column_bytes(self, table):
        """What each column of a loaded table takes where the engine holds it; None where it does not say."""
        return None

    def table_bytes(self, table):
        """What a loaded table takes where the engine holds it."""
        return sum(self.column_bytes(table).values())

    def column_encodings(self, table):
        """How each column is held; None where it does not say."""
        return None

    def warm_up(self, questions):
        """Does what it does when the questions were asked often."""

    def prepare(self, sql):
        """What `query` takes: a query's text, or what Python makes of it before the clock starts."""
        return queries.joined(sql)

    def query(self, prepared):
        """The answer as an Arrow table."""
        raise NotImplementedError

    def server_seconds(self):
        """What the last query took by the engine's own account; None where that is no other."""
        return None

    def process_ids(self):
        """The processes that hold the data."""
        return [os.getpid()]

    def close(self):
        """Ends it."""


def create(name, options):
    """The engine of that name."""
    module, kind = ENGINES[name]
    return getattr(importlib.import_module(module), kind)(options)
