"""Basalt: a server of its own process, loaded by its command line and asked over gRPC."""

import pathlib
import socket
import subprocess
import sys
import time

import grpc

CLIENT = pathlib.Path(__file__).resolve().parents[3] / "client" / "python"
sys.path.append(str(CLIENT))
subprocess.run([sys.executable, CLIENT / "generate.py"], check=True)

from basalt.v1 import catalog_pb2, catalog_pb2_grpc, query_pb2_grpc  # noqa: E402

from . import Engine, basalt_sql  # noqa: E402

DEADLINE_S = 600
START_S = 10


class Basalt(Engine):
    title = "Basalt, server over gRPC"

    def __init__(self, options):
        self.binary = options.basalt
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        serve = ["serve", "--store", "memory:", "--listen", self.address, "--threads", "1", "--memory", options.memory, "--log", "warn"]
        self.server = subprocess.Popen([self.binary, *serve])
        channel = grpc.insecure_channel(self.address)
        try:
            grpc.channel_ready_future(channel).result(START_S)
        except grpc.FutureTimeoutError:
            self.close()
            raise RuntimeError(f"{self.binary}: no server within {START_S} s") from None
        self.catalog = catalog_pb2_grpc.CatalogServiceStub(channel)
        self.queries = query_pb2_grpc.QueryServiceStub(channel)
        self.statistics = None

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

    def process_id(self):
        return self.server.pid

    def close(self):
        self.server.terminate()
        try:
            self.server.wait(START_S)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
