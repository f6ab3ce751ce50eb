#!/usr/bin/env python3
"""Floods: clients that take up room, and what others notice of them. scripts/flood runs it.

Of each flood it prints the latency of small queries that come at fixed times on connections which are there, the longest
time that a newcomer takes for one, and the most memory that the server's process held. Fails, at its end, where somebody
was not answered, or where the process held more than its limit and a margin.
"""

import argparse
import asyncio
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

MEMORY = 512 << 20
# What the process holds beside what the limit counts: its program, its threads' stacks, what the allocator keeps.
MARGIN = 128 << 20
# Small queries a second.
RATE = 300
TABLE = b"flood"
ROWS = 300_000
# Of flooding connections that are busy.
BUSY = 16

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
END_STREAM, END_HEADERS = 1, 4
INITIAL_WINDOW_SIZE = 4


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def hello(window=65_535):
    """What a client of HTTP/2 says first."""
    return PREFACE + frame(SETTINGS, 0, 0, INITIAL_WINDOW_SIZE.to_bytes(2, "big") + window.to_bytes(4, "big"))


def literal(name, value):
    """A header as HPACK writes it that is in no table."""
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value


def headers(path, stream):
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"basalt")]
    fields += [(b"content-type", b"application/grpc"), (b"te", b"trailers")]
    return frame(HEADERS, END_HEADERS, stream, b"".join(literal(*field) for field in fields))


def message(payload):
    """A message of gRPC."""
    return b"\0" + len(payload).to_bytes(4, "big") + payload


def field(number, payload):
    """A field of protobuf that holds bytes."""
    return bytes([number << 3 | 2, len(payload)]) + payload


QUERY = b"/basalt.v1.QueryService/Query"
WRITE = b"/basalt.v1.IngestService/Write"


class Flood:
    """Clients, each of which comes again five seconds after it was sent away."""

    def __init__(self, port, count):
        self.port, self.count = port, count
        self.came = self.left = 0

    @contextlib.asynccontextmanager
    async def going_on(self):
        tasks = [asyncio.create_task(self.client(i)) for i in range(self.count)]
        try:
            await asyncio.sleep(2)
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def client(self, number):
        # Not all in one instant: the queue of a listener is short.
        await asyncio.sleep(number / self.count)
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1024)
                self.came += 1
                try:
                    await self.go_on(reader, writer)
                finally:
                    self.left += 1
                    writer.transport.abort()
            await asyncio.sleep(5)

    async def go_on(self, reader, writer):
        raise NotImplementedError


class Idle(Flood):
    """Says hello, and no more."""

    async def go_on(self, reader, writer):
        writer.write(hello())
        while await reader.read(1024):
            pass


class Mute(Flood):
    """Says nothing at all."""

    async def go_on(self, reader, writer):
        await reader.read()


class Unread(Flood):
    """Asks for a table, and reads nothing of it."""

    async def go_on(self, reader, writer):
        ask = frame(DATA, END_STREAM, 1, message(field(1, TABLE)))
        writer.write(hello(window=2**31 - 1) + headers(QUERY, 1) + ask)
        await asyncio.sleep(3600)


class Slow(Flood):
    """Announces a megabyte to write, and sends a byte a second of it."""

    async def go_on(self, reader, writer):
        begun = message(field(1, field(1, TABLE))) + b"\0" + (1 << 20).to_bytes(4, "big")
        writer.write(hello() + headers(WRITE, 1) + frame(DATA, 0, 1, begun))
        while True:
            await asyncio.sleep(1)
            writer.write(frame(DATA, 0, 1, b"\x12"))
            await writer.drain()


class Resets(Flood):
    """Opens streams and resets them at once (CVE-2023-44487)."""

    async def go_on(self, reader, writer):
        writer.write(hello())
        stream = 1
        while True:
            batch = b""
            for _ in range(50):
                cancel = frame(RST_STREAM, 0, stream, (8).to_bytes(4, "big"))
                batch += headers(QUERY, stream) + frame(DATA, END_STREAM, stream, message(field(1, TABLE))) + cancel
                stream += 2
            writer.write(batch)
            await writer.drain()
            await asyncio.sleep(0.001)


class Pings(Flood):
    """Sends pings, and does not read what comes back."""

    async def go_on(self, reader, writer):
        writer.write(hello())
        while True:
            writer.write(frame(PING, 0, 0, b"basalt!!") * 200)
            await writer.drain()
            await asyncio.sleep(0.001)


class Heads(Flood):
    """Sends the head of a request of HTTP/1.1 a line at a time, without an end."""

    async def go_on(self, reader, writer):
        writer.write(b"GET /health/ready HTTP/1.1\r\n")
        while True:
            await asyncio.sleep(1)
            writer.write(b"x-more: 1\r\n")
            await writer.drain()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A server in memory, on the first processor."""

    def __init__(self, basalt, folder):
        self.basalt, self.port, self.http = basalt, free_port(), free_port()
        command = ["taskset", "-c", "0", basalt, "serve", "--store", "memory:", "--threads", "1", "--log", "error"]
        command += ["--memory", str(MEMORY), "--listen", f"127.0.0.1:{self.port}", "--metrics-listen", f"127.0.0.1:{self.http}"]
        self.process = subprocess.Popen(command)
        self.folder = pathlib.Path(folder)
        for _ in range(200):
            if subprocess.run(self.client("health"), capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        else:
            sys.exit("the server has not started")
        rows = self.folder / "rows.csv"
        with rows.open("w") as file:
            file.write("id,name\n")
            file.writelines(f"{i},{i * 7919 % 1_000_003} and some more of it\n" for i in range(ROWS))
        subprocess.run(self.client("load", TABLE.decode(), str(rows)), check=True, capture_output=True)

    def client(self, *words):
        return [self.basalt, "--server", f"127.0.0.1:{self.port}", "--timeout", "20s", *words]

    def resident(self):
        """Bytes that are the process's own and in memory."""
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))

    async def asked(self, seconds):
        """The latencies of those who ask at fixed times, and of newcomers."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        words = ["bench", "--allow-failures", "--mix", "point=1", "--rows", "200000", "--connections", "4", "--warm-up", "2s"]
        words += ["--rate", str(RATE), "--duration", f"{seconds}s", "--json", str(report)]
        bench = await quiet("taskset", "-c", "1", *self.client(*words))
        newest, refused, most = 0.0, 0, 0
        while bench.returncode is None:
            started = time.monotonic()
            newcomer = await quiet(*self.client("query", f"SELECT count(*) FROM {TABLE.decode()}"))
            refused += await newcomer.wait() != 0
            newest = max(newest, time.monotonic() - started)
            most = max(most, self.resident())
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(bench.wait(), 0.3)
        one = json.loads(report.read_text())["operations"][0] if report.exists() else None
        return one, newest, refused, most


async def quiet(*command):
    return await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )


async def run(server, seconds, part):
    busy = max(BUSY // part, 2)
    floods = [
        ("nobody", Idle(server.port, 0)),
        (f"{10_000 // part:,} idle connections", Idle(server.port, 10_000 // part)),
        (f"{10_000 // part:,} that say nothing", Mute(server.port, 10_000 // part)),
        (f"{1000 // part:,} that do not read", Unread(server.port, 1000 // part)),
        (f"{1000 // part:,} that write a byte a second", Slow(server.port, 1000 // part)),
        (f"{busy} that reset what they open", Resets(server.port, busy)),
        (f"{busy} that ping and do not read", Pings(server.port, busy)),
        (f"{1000 // part:,} slow heads over HTTP/1.1", Heads(server.http, 1000 // part)),
        ("nobody again", Idle(server.port, 0)),
    ]
    print("| flood | p50 ms | p99 ms | failed | newcomer, at most s | newcomers refused | sent away | process MB |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    fine = True
    for name, flood in floods:
        async with flood.going_on():
            one, newest, refused, most = await server.asked(seconds)
        asked = ["", "", "all"]
        if one is not None:
            asked = [f"{one['latency_us'][of] / 1000:.2f}" for of in ("p50", "p99")] + [str(one["failed"])]
        cells = [name, *asked, f"{newest:.2f}", str(refused), str(flood.left), f"{most / 1e6:.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
        fine &= one is not None and one["failed"] == 0 and refused == 0 and most <= MEMORY + MARGIN
    return fine


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("basalt")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--small", action="store_true", help="a tenth of the connections, for two seconds each")
    arguments = parser.parse_args()
    seconds, part = (2, 10) if arguments.small else (arguments.seconds, 1)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(arguments.basalt, folder)
        try:
            fine = asyncio.run(run(server, seconds, part))
        finally:
            server.process.terminate()
            server.process.wait()
    sys.exit(0 if fine else "somebody was not answered, or the process took more memory than it may")


main()
