"""The mix of scripts/check-memory, and what it is measured by."""

import argparse
import collections
import hashlib
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request

import grpc

from basalt.v1 import catalog_pb2, catalog_pb2_grpc, types_pb2

MIB = 1 << 20
UNITS = {"KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}
# Errors that a server whose memory is short may give.
ALLOWED = {"MEMORY_LIMIT", "OVERLOADED", "DEADLINE_EXCEEDED"}

# What is asked again and again, and by how many at once.
QUERIES = {
    "rows": (6, "SELECT * FROM people"),
    "slow": (2, "SELECT * FROM lineorder"),
    "distinct": (8, "SELECT count(DISTINCT name) AS n FROM people"),
    "groups": (2, "SELECT id, count(*) AS n FROM ids GROUP BY id ORDER BY id DESC LIMIT 3"),
}
PARTS = [*QUERIES, "loads", "ssb", "tables", "halves"]

SIZES = {
    # SSB's scale, rows with a text each, groups, wide tables, seconds for a limit.
    "small": dict(scale=0.3, people=1_000_000, ids=3_000_000, tables=512, seconds=10),
    "full": dict(scale=1, people=2_000_000, ids=10_000_000, tables=4096, seconds=60),
}
LIMITS = {"small": "64MiB,256MiB,1GiB", "full": "64MiB,256MiB,1GiB,4GiB"}


def bytes_of(text):
    number, unit = re.fullmatch(r"(\d+)([KMG]iB)", text).groups()
    return int(number) * UNITS[unit]


def bound_of(limit):
    return max(limit * 11 // 10, limit + 64 * MIB)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server of its own, whose memory a process of its own looks at every 10 ms."""

    def __init__(self, basalt, store, limit, log):
        self.basalt, self.port, self.metrics = basalt, free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        command = [basalt, "serve", "--store", str(store), "--listen", self.address, "--memory", str(limit)]
        command += ["--metrics-listen", f"127.0.0.1:{self.metrics}", "--log", "warn", "--kept-sets", "6%"]
        self.log = open(log, "w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        watcher = [sys.executable, __file__, "--watch", str(self.process.pid)]
        self.watcher = subprocess.Popen(watcher, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(600):
            if self.run("health").returncode == 0:
                return
            time.sleep(0.05)
        raise SystemExit(f"the server does not start: {pathlib.Path(log).read_text()}")

    def run(self, *arguments, timeout="60s", **kwargs):
        command = [self.basalt, "--server", self.address, "--timeout", timeout, *arguments]
        return subprocess.run(command, capture_output=True, text=True, **kwargs)

    def held(self):
        """What the pool counts, in all."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        return sum(int(n) for n in re.findall(r'^basalt_memory_bytes\{[^}]*\} (\d+)', text, re.M))

    def stop(self):
        """The peak of anonymous memory, in bytes."""
        died = self.process.poll()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        peak, _ = self.watcher.communicate("")
        self.log.close()
        return int(peak), died


def watch(pid):
    """Prints the peak of a process's anonymous memory when its input ends or the process does."""
    peak = 0
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    try:
        with open(f"/proc/{pid}/status") as status:
            while not ended.wait(0.01):
                status.seek(0)
                found = re.search(r"^RssAnon:\s+(\d+) kB", status.read(), re.M)
                if not found:
                    break
                peak = max(peak, int(found[1]) << 10)
    except OSError:
        pass
    print(peak)


def reason_of(text):
    found = re.search(r"\(([A-Z_]+)\)", text)
    if "the deadline passed" in text:
        return "DEADLINE_EXCEEDED"
    return found[1] if found else (text.strip().splitlines() or ["killed"])[0][:100]


def answer_of(server, sql, slow=False, seconds=120):
    """A digest of an answer's text, or the reason why there is none."""
    command = [server.basalt, "--server", server.address, "--timeout", f"{seconds}s", "query", sql, "-f", "csv"]
    digest = hashlib.blake2b()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while piece := process.stdout.read(MIB):
            digest.update(piece)
            if slow:
                time.sleep(0.05)
        errors = process.stderr.read().decode()
    return (None, reason_of(errors)) if process.returncode else (digest.hexdigest(), None)


class Mix:
    """What runs at a server at once, and what came of it."""

    def __init__(self, server, right, sizes, data, only, benchmark):
        self.server, self.right, self.sizes, self.data = server, right, sizes, data
        self.only, self.benchmark = only, benchmark
        self.until = time.monotonic() + sizes["seconds"]
        self.counts = collections.Counter()
        self.errors = collections.Counter()
        self.wrong = []
        self.peak_held = 0
        self.lock = threading.Lock()

    def is_over(self):
        return time.monotonic() >= self.until

    def done(self, what, error=None, wrong=False):
        with self.lock:
            if error:
                self.errors[(what, error)] += 1
            else:
                self.counts[what] += 1
            if wrong:
                self.wrong.append(what)
        if error:
            time.sleep(0.1)

    def query(self, what, sql):
        while not self.is_over():
            self.ask(what, sql)

    def ask(self, what, sql):
        left = max(2, int(self.until - time.monotonic()) + 5)
        digest, error = answer_of(self.server, sql, slow=what == "slow", seconds=left)
        self.done(what, error, wrong=digest is not None and digest != self.right[sql])

    def loads(self, number):
        table, rows = f"loaded_{number}", self.right["rows of lineorder"]
        while not self.is_over():
            loaded = self.server.run("load", table, str(self.data / "lineorder.parquet"), "--replace")
            self.done("loads", reason_of(loaded.stderr) if loaded.returncode else None)
            if loaded.returncode == 0:
                answer = self.server.run("query", f"SELECT count(*) AS n FROM {table}", "-f", "csv")
                if answer.returncode:
                    self.done("loads", reason_of(answer.stderr))
                elif answer.stdout.split()[-1] != rows:
                    self.done("loads", wrong=True)

    def ssb(self):
        """Each query at least once."""
        while not self.is_over():
            for name, sql in self.benchmark.items():
                if self.is_over():
                    return
                self.ask("ssb", sql)

    def tables(self):
        """Many wide tables without rows."""
        channel = grpc.insecure_channel(self.server.address, options=[("grpc.max_receive_message_length", 64 * MIB)])
        catalog = catalog_pb2_grpc.CatalogServiceStub(channel)
        kind = types_pb2.DataType(kind=types_pb2.TYPE_KIND_UTF8)
        fields = [types_pb2.Field(name=f"a_column_with_a_name_{i}", type=kind, nullable=True) for i in range(1000)]
        schema = types_pb2.Schema(fields=fields)
        for n in range(self.sizes["tables"]):
            if self.is_over():
                return
            try:
                catalog.CreateTable(catalog_pb2.CreateTableRequest(name=f"wide_{n}", schema=schema), timeout=20)
                self.done("tables")
            except grpc.RpcError as error:
                self.done("tables", grpc_reason(error))

    def halves(self):
        """Connections with streams that each have sent half of a message of the largest size."""
        sockets = []
        for _ in range(64):
            if self.is_over():
                break
            try:
                sockets.append(half_sent(self.server.port, streams=16))
                self.done("halves")
            except OSError:
                self.done("halves", "closed")
        while not self.is_over():
            time.sleep(0.1)
        for s in sockets:
            s.close()

    def look(self):
        while not self.is_over():
            try:
                self.peak_held = max(self.peak_held, self.server.held())
            except OSError:
                pass
            time.sleep(0.1)

    def run(self):
        work = [(self.look, ())]
        for what, (n, sql) in QUERIES.items():
            if what in self.only:
                work += [(self.query, (what, sql))] * n
        if "loads" in self.only:
            work += [(self.loads, (n,)) for n in range(3)]
        work += [(getattr(self, part), ()) for part in ("ssb", "tables", "halves") if part in self.only]
        threads = [threading.Thread(target=f, args=a) for f, a in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def grpc_reason(error):
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            found = re.search(rb"\n.?([A-Z_]{6,})\x12", value)
            if found:
                return found[1].decode()
    return error.code().name


def half_sent(port, streams):
    """A connection whose streams have sent half of a message: HTTP/2 by hand."""

    def frame(kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def header(name, value):
        return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value

    headers = header(b":method", b"POST") + header(b":scheme", b"http") + header(b":authority", b"localhost")
    headers += header(b":path", b"/basalt.v1.IngestService/Write")
    headers += header(b"content-type", b"application/grpc") + header(b"te", b"trailers")
    s = socket.create_connection(("127.0.0.1", port), timeout=5)
    s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
    half = b"\x00" + struct.pack(">I", 4 * MIB - 1) + bytes(60_000)
    s.settimeout(0.2)
    try:
        for stream in range(1, 2 * streams, 2):
            s.sendall(frame(1, 4, stream, headers))
            for start in range(0, len(half), 16384):
                s.sendall(frame(0, 0, stream, half[start : start + 16384]))
    except TimeoutError:
        pass
    return s


def make_data(basalt, work, sizes):
    """The files, and a store that holds them; what the answers are by a server that has memory for all."""
    data, store = work / "data", work / "store"
    if store.exists():
        return data, store, Server(basalt, store, 8 << 30, work / "reference.log")
    subprocess.run([basalt, "generate", "ssb", data, "--scale", str(sizes["scale"])], check=True, capture_output=True)
    chance = random.Random(7)
    with open(data / "people.csv", "w") as file:
        file.write("id,name,age,city,paid\n")
        for n in range(sizes["people"]):
            name = f"{chance.getrandbits(96):024x} of {n % 1000}"
            file.write(f"{n},{name},{n % 97},city {n * 7919 % 5003},{n * 31 % 100000 / 100}\n")
    with open(data / "ids.csv", "w") as file:
        file.write("id,v\n")
        rows = sizes["ids"]
        step = 7_368_787
        for n in range(rows):
            file.write(f"{n * step % rows},{n % 10}\n")
    server = Server(basalt, store, 8 << 30, work / "reference.log")
    for table in ["people", "ids"]:
        loaded = server.run("load", table, str(data / f"{table}.csv"))
        assert loaded.returncode == 0, loaded.stderr
    for table in ["customer", "supplier", "part", "date", "lineorder"]:
        loaded = server.run("load", table, str(data / f"{table}.parquet"))
        assert loaded.returncode == 0, loaded.stderr
    return data, store, server


def benchmark_of(text):
    """The queries of ssb.sql."""
    parts = [re.sub(r"^--.*$", "", part, flags=re.M).strip() for part in text.split(";")]
    return {f"q{i}": " ".join(part.split()) for i, part in enumerate(parts) if part}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("basalt")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("size", nargs="?", choices=SIZES, default="small")
    parser.add_argument("--limits")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--seconds", type=int)
    args = parser.parse_args()
    sizes = dict(SIZES[args.size])
    sizes["seconds"] = args.seconds or sizes["seconds"]
    only = args.only.split(",")
    limits = (args.limits or LIMITS[args.size]).split(",")

    benchmark = benchmark_of(pathlib.Path("server/src/demo/ssb.sql").read_text())
    data, store, server = make_data(args.basalt, args.work, sizes)
    right = {}
    for sql in [*(sql for _, sql in QUERIES.values()), *benchmark.values()]:
        right[sql], error = answer_of(server, sql)
        assert error is None, (sql, error)
    count = server.run("query", "SELECT count(*) AS n FROM lineorder", "-f", "csv")
    right["rows of lineorder"] = count.stdout.split()[-1]
    server.stop()

    print(f"{'limit':>8} {'bound':>9} {'peak':>9} {'pool':>9}  answers and errors")
    failed = []
    for limit in limits:
        copy = args.work / "copy"
        shutil.copytree(store, copy)
        server = Server(args.basalt, copy, bytes_of(limit), args.work / "server.log")
        mix = Mix(server, right, sizes, data, only, benchmark)
        mix.run()
        peak, died = server.stop()
        shutil.rmtree(copy)
        bound = bound_of(bytes_of(limit))
        counts = " ".join(f"{what}:{n}" for what, n in sorted(mix.counts.items()))
        errors = " ".join(f"{what}/{reason}:{n}" for (what, reason), n in sorted(mix.errors.items()))
        mib = lambda n: f"{n / MIB:.0f} MiB"
        print(f"{limit:>8} {mib(bound):>9} {mib(peak):>9} {mib(mix.peak_held):>9}  {counts}; {errors}", flush=True)
        if peak > bound:
            failed.append(f"{limit}: {mib(peak)} is more than {mib(bound)}")
        if mix.wrong:
            failed.append(f"{limit}: wrong answers: {collections.Counter(mix.wrong)}")
        others = sorted({reason for (what, reason) in mix.errors if reason not in ALLOWED and what != "halves"})
        if others:
            failed.append(f"{limit}: errors that are none of memory: {others}")
        if died is not None:
            failed.append(f"{limit}: the server ended by itself ({died}): {(args.work / 'server.log').read_text()[-500:]}")
    for line in failed:
        print(f"FAILED {line}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--watch"]:
        watch(int(sys.argv[2]))
    else:
        main()
