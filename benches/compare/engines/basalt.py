"""Basalt: a server of its own process, loaded by its command line and asked over gRPC."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

import grpc
import queries

CLIENT = pathlib.Path(__file__).resolve().parents[3] / "client" / "python"
sys.path.append(str(CLIENT))
subprocess.run([sys.executable, CLIENT / "generate.py"], check=True)

from basalt.v1 import catalog_pb2, catalog_pb2_grpc, query_pb2, query_pb2_grpc, sql_pb2, sql_pb2_grpc, types_pb2  # noqa: E402

from . import Engine, basalt_sql  # noqa: E402

DEADLINE_S = 600
START_S = 10
# Times that a column is read before it may be made faster, and for how long nothing happens when all are.
HOT_AFTER = 5
SETTLED_S = 4


class Basalt(Engine):
    title = "Basalt, server over gRPC"
    # What it may hold beside the columns, to be faster: that is compared by itself.
    elastic = "0"

    def __init__(self, options):
        self.binary = options.basalt
        self.servers = []
        try:
            self.address = self.serve(options, "--store", "memory:")
        except Exception:
            self.close()
            raise
        channel = grpc.insecure_channel(self.address)
        self.catalog = catalog_pb2_grpc.CatalogServiceStub(channel)
        self.queries = query_pb2_grpc.QueryServiceStub(channel)
        self.statistics = None

    def serve(self, options, *arguments):
        """Starts a server, and waits until it answers; where it listens."""
        address = free_address()
        common = ["--listen", address, "--threads", "1", "--memory", options.memory, "--log", "warn"]
        environment = {**os.environ, "BASALT_ELASTIC": self.elastic}
        command = [self.binary, "serve", *common, *arguments]
        self.servers.append(subprocess.Popen(command, env=environment))
        catalog = catalog_pb2_grpc.CatalogServiceStub(grpc.insecure_channel(address))
        started = time.monotonic()
        while True:
            try:
                catalog.ListTables(catalog_pb2.ListTablesRequest(), timeout=START_S)
                return address
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > started + START_S:
                    raise
                time.sleep(0.01)

    def version(self):
        info = self.catalog.GetServerInfo(catalog_pb2.GetServerInfoRequest())
        return f"{info.version} ({info.simd})"

    def load(self, table):
        command = [self.binary, "--server", self.address, "load", table.name, str(table.path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def column_bytes(self, table):
        details = self.describe(table)
        return {column.field.name: column.bytes for column in details.columns}

    def column_encodings(self, table):
        """How each column is held."""
        return {
            column.field.name: ", ".join(use.encoding for use in column.encodings)
            for column in self.describe(table).columns
        }

    def table_bytes(self, table):
        return self.describe(table).table.bytes

    def describe(self, table):
        return self.catalog.GetTable(catalog_pb2.GetTableRequest(name=table.name), timeout=DEADLINE_S)

    def prepare(self, sql):
        return basalt_sql.request(sql)

    def query(self, prepared):
        responses = self.queries.Query(prepared, timeout=DEADLINE_S)
        answer, self.statistics = basalt_sql.answer(responses)
        return answer

    def server_seconds(self):
        return self.statistics.elapsed_us / 1e6

    def process_ids(self):
        return [server.pid for server in self.servers]

    def close(self):
        for server in self.servers:
            server.terminate()
        for server in self.servers:
            try:
                server.wait(START_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


class Sql(Basalt):
    """The same server, which is given the text: by its planner, with joins where others have them."""

    title = "Basalt, SQL with joins"

    def __init__(self, options):
        super().__init__(options)
        self.statements = sql_pb2_grpc.SqlServiceStub(grpc.insecure_channel(self.address))

    def prepare(self, sql):
        return sql_pb2.SqlRequest(sql=queries.joined(sql), format=query_pb2.FORMAT_ARROW_IPC)

    def query(self, prepared):
        answer, self.statistics = basalt_sql.answer(self.statements.Query(prepared, timeout=DEADLINE_S))
        return answer


class ThreeNodes(Basalt):
    """Each fragment is held by one node, and the first is asked."""

    title = "Basalt, three servers over one directory"

    def serve(self, options, *_):
        store = str(options.folder / "store")
        peers = [free_address() for _ in range(3)]
        addresses = []
        for peer in peers:
            cluster = ["--peer-listen", peer, "--peers", ",".join(peers), "--replication", "1"]
            addresses.append(super().serve(options, "--store", store, *cluster))
        return addresses[0]


class Elastic(Basalt):
    """Columns that were asked for often are also held in faster forms."""

    title = "Basalt, over a directory, with elastic columns"
    elastic = "100%"

    def serve(self, options, *_):
        self.metrics = free_address()
        where = ["--store", str(options.folder / "store"), "--metrics-listen", self.metrics]
        return super().serve(options, *where)

    def warm_up(self, questions):
        """Asks until the columns are hot, and waits until none has been made faster for a while."""
        for question in questions:
            # What is refused is reported where it is timed.
            with contextlib.suppress(Exception):
                for _ in range(HOT_AFTER):
                    self.query(self.prepare(question))
        made, since = None, time.monotonic()
        while time.monotonic() < since + SETTLED_S:
            time.sleep(0.1)
            if (now := self.metric("basalt_elastic_made_total")) != made:
                made, since = now, time.monotonic()

    def metric(self, name):
        with urllib.request.urlopen(f"http://{self.metrics}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return int(next(line for line in lines if line.startswith(name + "{")).rsplit(maxsplit=1)[1])


class Plain(Basalt):
    """The same engine over plain arrays: what faster forms may come near to."""

    title = "Basalt, every column plain"

    def load(self, table):
        # Loaded once to have its types.
        super().load(table)
        schema = self.describe(table).table.schema
        for field in schema.fields:
            field.encoding = "raw" if field.type.kind == types_pb2.TYPE_KIND_UTF8 else "plain"
        self.catalog.DropTable(catalog_pb2.DropTableRequest(name=table.name), timeout=DEADLINE_S)
        request = catalog_pb2.CreateTableRequest(name=table.name, schema=schema)
        self.catalog.CreateTable(request, timeout=DEADLINE_S)
        super().load(table)


def free_address():
    """An address that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"
