"""A server for all tests, and a proxy before it that loses and changes what a test wants."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

import basalt_client as basalt


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def binary() -> str:
    """The server's program, which the environment names."""
    path = os.environ.get("BASALT_BIN")
    if not path:
        pytest.fail("BASALT_BIN names no server binary; scripts/check-python builds one")
    return path


def started(command: list[str], connect: Callable[[], basalt.Client]) -> subprocess.Popen[bytes]:
    """A server that answers."""
    process = subprocess.Popen(command)
    for _ in range(200):
        try:
            connect().close()
            return process
        except basalt.ConnectionFailed:
            assert process.poll() is None, "the server has ended"
            time.sleep(0.1)
    process.kill()
    raise AssertionError("the server does not answer")


@pytest.fixture(scope="session")
def address(binary: str) -> Iterator[str]:
    """The address of the server of all tests, which keeps its tables in memory."""
    listen = f"127.0.0.1:{free_port()}"
    command = [binary, "serve", "--store", "memory:", "--listen", listen, "--log", "warn"]
    process = started(command, lambda: basalt.connect(listen))
    yield listen
    process.terminate()
    process.wait(10)


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[basalt.Client]:
    with basalt.connect(address) as client:
        yield client


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tester's own client uses counts for nothing here."""
    for name in [name for name in os.environ if name.startswith("BASALT_") and name != "BASALT_BIN"]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def has_sql(client: basalt.Client) -> bool:
    try:
        client.sql("SELECT 1")
    except basalt.NotSupported:
        return False
    return True


@pytest.fixture(autouse=True)
def needs_sql(request: pytest.FixtureRequest) -> None:
    """Skips what is marked `sql` where the server is built without."""
    if request.node.get_closest_marker("sql") and not request.getfixturevalue("has_sql"):
        pytest.skip("the server is built without SQL")


@pytest.fixture
def table(request: pytest.FixtureRequest, client: basalt.Client) -> Iterator[str]:
    """A name for a table of this test alone."""
    letters = "".join(c if c.isalnum() else "_" for c in request.node.name)
    name = f"t_{letters}"[:120]
    yield name
    client.drop(name, if_exists=True)


FLIGHTS = {
    "carrier": ["UA", "AA", "UA", "DL", None, "AA"],
    "dep_delay": [2, 75, 130, None, 61, -5],
    "distance": [1400, 1416, 1089, 762, 719, 1065],
}


@pytest.fixture
def flights(client: basalt.Client, table: str) -> str:
    """A small table of flights."""
    client.load(table, FLIGHTS)
    return table


Tamper = Callable[[str, Iterator[bytes]], Iterator[bytes]]


class Proxy(grpc.GenericRpcHandler):
    """Forwards every call that is not `refused` to a server, keeps what came with it, and lets `tamper` change the
    answers."""

    def __init__(self, target: str, port: int = 0) -> None:
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.tamper: Tamper = lambda _, answers: answers
        self.refused: Callable[[], grpc.RpcError | None] = lambda: None
        self.ended: list[str] = []
        self._channel = grpc.insecure_channel(target)
        self._server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[self])
        self.address = f"127.0.0.1:{self._server.add_insecure_port(f'127.0.0.1:{port}')}"
        self._server.start()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        path = details.method
        self.calls.append((path.rpartition("/")[2], dict(details.invocation_metadata)))

        def forward(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            context.add_callback(lambda: self.ended.append(path.rpartition("/")[2]))
            try:
                if error := self.refused():
                    raise error
                yield from self.tamper(path.rpartition("/")[2], self._channel.stream_stream(path)(requests))
            except Broken:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the network broke")
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata())
                context.abort(error.code(), error.details())

        return grpc.stream_stream_rpc_method_handler(forward)

    def count(self, method: str) -> int:
        """How often a method was called."""
        return sum(name == method for name, _ in self.calls)

    def stop(self) -> None:
        self._server.stop(0).wait()
        self._channel.close()


class Broken(Exception):
    """The connection of a call breaks."""


@pytest.fixture
def proxy(address: str) -> Iterator[Proxy]:
    proxy = Proxy(address)
    yield proxy
    proxy.stop()


@pytest.fixture(scope="session")
def repository() -> pathlib.Path:
    return pathlib.Path(__file__).resolve().parents[3]
