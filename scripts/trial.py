#!/usr/bin/env python3
"""A cluster under attack: nodes over one store are killed, frozen and stopped at random while writers insert, replace
and delete rows at any of them and read at any of them. scripts/trial runs it.

What a writer knows of its own rows is compared with every answer:

* lost: a row of an acknowledged write is not there in the end, or one of a deletion is;
* twice: a row is there more than once, though its write was tried again under its request id;
* stale: a read that began after the acknowledgement, at any node, does not see the write;
* wrong: an older version, or all of a writer's rows, have another count or sum than they had.

Errors are allowed while nodes are down, answers that are wrong never are.
"""

import argparse
import collections
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "client" / "python"))

import grpc
from example import aggregate, batch, both, col, compare, create, field, int64s, item, lit, query
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from basalt.v1 import catalog_pb2_grpc, filter_pb2, ingest_pb2, ingest_pb2_grpc, query_pb2, query_pb2_grpc, types_pb2

TABLE = "trial"
KEYS = 1_000_000  # of each writer: its ids are its own, so it knows what they are at every moment
DEADLINE = 20
READ_BACK = 2


class Node:
    """A server as a process, and the channel to it."""

    def __init__(self, basalt, store, ports, index, flags):
        own, peers = ports[index], ",".join(f"127.0.0.1:{peer}" for _, peer in ports)
        self.address = f"127.0.0.1:{own[0]}"
        self.command = [basalt, "serve", "--store", store, "--listen", self.address, "--log", "warn", *flags]
        if len(ports) > 1:
            self.command += ["--peer-listen", f"127.0.0.1:{own[1]}", "--peers", peers]
        self.log = open(f"{store}.{index}.log", "ab")
        self.channel = grpc.insecure_channel(
            self.address, options=[("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 500)]
        )
        self.catalog = catalog_pb2_grpc.CatalogServiceStub(self.channel)
        self.ingest = ingest_pb2_grpc.IngestServiceStub(self.channel)
        self.queries = query_pb2_grpc.QueryServiceStub(self.channel)
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)

    def stop(self, how):
        self.process.send_signal(how)
        return self.process.wait()

    def ready(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                total(self, None, None, timeout=2)
                return
            except grpc.RpcError as error:
                if reason(error) == "TABLE_NOT_FOUND":
                    return
                time.sleep(0.1)
        raise SystemExit(f"{self.address} does not become ready")


def reason(error):
    """The reason of basalt.v1, or the code of gRPC where the server did not answer."""
    status = rpc_status.from_call(error)
    for detail in status.details if status else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return info.reason
    return error.code().name


class Deadline:
    """Stubs that give every call a deadline, for the functions of example.py."""

    def __init__(self, stub, seconds):
        self.stub, self.seconds = stub, seconds

    def __getattr__(self, method):
        return lambda request: getattr(self.stub, method)(request, timeout=self.seconds)


def ids(low, high):
    ge, lt = filter_pb2.COMPARE_OP_GE, filter_pb2.COMPARE_OP_LT
    return both(compare(ge, col("id"), lit(int=low)), compare(lt, col("id"), lit(int=high)))


def total(node, where, version, timeout=DEADLINE):
    """How many rows, and the sum of their values."""
    count, value = filter_pb2.AGGREGATE_FUNCTION_COUNT, filter_pb2.AGGREGATE_FUNCTION_SUM
    request = query_pb2.QueryRequest(
        table=TABLE,
        select=[item("n", aggregate(count)), item("s", aggregate(value, col("v")))],
        filter=where,
        version=version,
    )
    ((n, s),) = query(Deadline(node.queries, timeout), request)
    return n, s or 0


def insert(node, rows, replace, request_id):
    def requests():
        by = ["id"] if replace else []
        yield ingest_pb2.WriteRequest(open=ingest_pb2.Open(table=TABLE, request_id=request_id, replace_by=by))
        columns = batch(len(rows), int64s([i for i, _ in rows]), int64s([v for _, v in rows]))
        yield ingest_pb2.WriteRequest(batch=ingest_pb2.Batch(sequence=1, columns=columns))
        yield ingest_pb2.WriteRequest(commit=ingest_pb2.Commit(batches=1, rows=len(rows)))

    for response in node.ingest.Write(requests(), timeout=DEADLINE):
        if response.HasField("committed"):
            return response.committed.version
    raise RuntimeError("the stream ended without its Committed")


class Writer(threading.Thread):
    """Writes and reads rows of its own, and compares."""

    def __init__(self, number, trial):
        super().__init__(daemon=True)
        self.trial, self.random = trial, random.Random(f"{trial.seed} {number}")
        self.low, self.next = number * KEYS, number * KEYS
        self.rows = {}  # of acknowledged writes
        self.unknown = {}  # rows that an unacknowledged write may have changed: what they may be
        self.versions = collections.deque(maxlen=50)  # version, time, count and sum of the rows at it

    def known(self):
        return len(self.rows), sum(self.rows.values())

    def run(self):
        while not self.trial.over.is_set():
            try:
                self.step()
            except grpc.RpcError as error:
                self.trial.errors[reason(error)] += 1
                time.sleep(0.05)

    def step(self):
        draw = self.random.random()
        if draw < 0.45 or not self.rows:
            new = {self.next + i: self.random.randrange(1000) for i in range(self.random.randint(1, 5))}
            self.next += len(new)
            changed = self.write(new, replace=self.random.random() < 0.3)
        elif draw < 0.75:
            keys = self.random.sample(sorted(self.rows), min(3, len(self.rows)))
            changed = self.write({key: self.random.randrange(1000) for key in keys}, replace=True)
        else:
            changed = self.delete(self.random.choice(sorted(self.rows)))
        for key in changed[:READ_BACK]:
            self.read_back(key)
        if self.random.random() < 0.2 and not self.unknown:
            self.read_all()

    def write(self, new, replace):
        """Tries at one node after the other under one request id until it is known that the rows are there."""
        request_id = str(uuid.UUID(int=self.random.getrandbits(128)))
        while True:
            try:
                version = insert(self.trial.any(self.random), sorted(new.items()), replace, request_id)
                break
            except grpc.RpcError as error:
                self.trial.errors[reason(error)] += 1
                if self.trial.over.is_set():
                    for key, value in new.items():
                        self.unknown[key] = {self.rows.pop(key, None), value}
                    return []
                time.sleep(0.05)
        self.rows.update(new)
        self.trial.done["writes"] += 1
        self.acknowledged(version)
        return list(new)

    def delete(self, key):
        where = compare(filter_pb2.COMPARE_OP_EQ, col("id"), lit(int=key))
        request = ingest_pb2.DeleteRequest(table=TABLE, filter=where)
        tries = 0
        while True:
            tries += 1
            try:
                deleted = self.trial.any(self.random).ingest.Delete(request, timeout=DEADLINE)
                break
            except grpc.RpcError as error:
                # Deleting again is harmless.
                self.trial.errors[reason(error)] += 1
                if self.trial.over.is_set():
                    self.unknown[key] = {self.rows.pop(key), None}
                    return []
                time.sleep(0.05)
        value = self.rows.pop(key)
        if tries == 1 and deleted.rows != 1:
            self.trial.fail("lost", f"deleting {key}={value} found {deleted.rows} rows")
        self.trial.done["deletes"] += 1
        self.acknowledged(deleted.version)
        return [key]

    def acknowledged(self, version):
        if not self.unknown:
            self.versions.append((version, time.monotonic(), self.known()))

    def read_back(self, key):
        node = self.trial.any(self.random)
        want = (1, self.rows[key]) if key in self.rows else (0, 0)
        got = total(node, compare(filter_pb2.COMPARE_OP_EQ, col("id"), lit(int=key)), None)
        self.trial.done["reads"] += 1
        if got != want:
            kind = "twice" if got[0] > 1 else "stale"
            self.trial.fail(kind, f"id {key} at {node.address}: {got} instead of {want}")

    def read_all(self):
        node = self.trial.any(self.random)
        got, want = total(node, ids(self.low, self.low + KEYS), None), self.known()
        self.trial.done["reads"] += 1
        if got != want:
            self.trial.fail("wrong", f"rows from {self.low} at {node.address}: {got} instead of {want}")
        version, at, want = self.random.choice(self.versions)
        if time.monotonic() - at > 300:
            return
        got = total(self.trial.any(self.random), ids(self.low, self.low + KEYS), version)
        self.trial.done["old versions"] += 1
        if got != want:
            self.trial.fail("wrong", f"version {version} from {self.low}: {got} instead of {want}")

    def check(self, node):
        """Every row, in the end."""
        request = query_pb2.QueryRequest(
            table=TABLE,
            select=[item("id", col("id")), item("v", col("v"))],
            filter=ids(self.low, self.low + KEYS),
        )
        there = query(Deadline(node.queries, 60), request)
        rows = dict(there)
        if len(rows) != len(there):
            self.trial.fail("twice", f"{len(there) - len(rows)} rows from {self.low} at {node.address}")
        for key in range(self.low, self.next):
            allowed = self.unknown.get(key, {self.rows.get(key)})
            if rows.get(key) not in allowed:
                self.trial.fail("lost", f"id {key} at {node.address}: {rows.get(key)}, not of {allowed}")


class Trial:
    def __init__(self, options):
        self.seed, self.over = options.seed, threading.Event()
        self.errors, self.done, self.failures = collections.Counter(), collections.Counter(), collections.Counter()
        self.lock = threading.Lock()
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2 * options.nodes)]
        free = [s.getsockname()[1] for s in sockets]
        for s in sockets:
            s.close()
        ports = list(zip(free[::2], free[1::2]))
        self.nodes = [Node(options.basalt, options.store, ports, i, options.flags) for i in range(options.nodes)]

    def start(self):
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.ready(60)

    def kill(self):
        for node in self.nodes:
            if node.process:
                node.process.kill()

    def conclude(self):
        """Says what came of it, and ends the script."""
        print(self.status(0))
        for name, count in self.errors.most_common():
            print(f"  {count:6} {name}")
        sys.exit(bool(self.failures))

    def any(self, chance):
        return chance.choice(self.nodes)

    def fail(self, kind, what):
        with self.lock:
            self.failures[kind] += 1
            if self.failures[kind] <= 10:
                print(f"\n{kind.upper()}: {what}", flush=True)

    def fault(self, chance):
        """One node away for a while; sometimes a second one meanwhile."""
        hit = chance.sample(self.nodes, 2 if chance.random() < 0.2 and len(self.nodes) > 2 else 1)
        kind = chance.choice(["kill", "kill", "freeze", "freeze", "leave"])
        away = chance.choice([0.2, 1, 2, 3, 5, 8])
        for node in hit:
            match kind:
                case "kill":
                    node.stop(signal.SIGKILL)
                case "leave":
                    node.stop(signal.SIGTERM)
                case _:
                    node.process.send_signal(signal.SIGSTOP)
        time.sleep(away)
        for node in hit:
            if kind == "freeze":
                node.process.send_signal(signal.SIGCONT)
            else:
                node.start()
                node.ready(60)
        self.done[kind] += 1

    def status(self, left):
        figures = ", ".join(f"{count} {name}" for name, count in sorted(self.done.items()))
        wrong = ", ".join(f"{count} {kind.upper()}" for kind, count in self.failures.items()) or "none wrong"
        return f"{left:5.0f} s left: {figures}; {sum(self.errors.values())} errors; {wrong}"

    def run(self, options):
        chance = random.Random(options.seed)
        self.start()
        fields = [field("id", types_pb2.TYPE_KIND_INT64), field("v", types_pb2.TYPE_KIND_INT64)]
        create(self.nodes[0].catalog, TABLE, fields)
        writers = [Writer(number, self) for number in range(options.writers)]
        for writer in writers:
            writer.start()
        end = time.monotonic() + options.minutes * 60
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, chance.uniform(0.5, 4)))
            self.fault(chance)
            if sys.stderr.isatty():
                print(f"\r\x1b[K{self.status(left)}", end="", file=sys.stderr, flush=True)
        self.over.set()
        for writer in writers:
            writer.join()
        for round in ("after the faults", "after a restart of all"):
            for node in self.nodes:
                for writer in writers:
                    writer.check(node)
            print(f"{round}: {sum(len(writer.rows) for writer in writers)} rows compared at each node")
            for node in self.nodes:
                code = node.stop(signal.SIGTERM)
                if code != 0:
                    self.fail("died", f"{node.address} ended with {code}")
            if round == "after the faults":
                self.start()
        for index, node in enumerate(self.nodes):
            log = pathlib.Path(f"{options.store}.{index}.log").read_text(errors="replace")
            if "panicked" in log:
                self.fail("panic", f"{node.address}: see {options.store}.{index}.log")


def main():
    parse = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parse.add_argument("basalt", help="the program")
    parse.add_argument("--minutes", type=float, default=10)
    parse.add_argument("--nodes", type=int, default=3)
    parse.add_argument("--writers", type=int, default=3)
    parse.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parse.add_argument("flags", nargs="*", help="further flags of the servers, after --")
    options = parse.parse_args()
    folder = tempfile.mkdtemp(prefix="basalt-trial-")
    options.store = f"{folder}/store"
    print(f"seed {options.seed}, in {folder}", flush=True)
    trial = Trial(options)
    try:
        trial.run(options)
    finally:
        trial.kill()
    trial.conclude()


if __name__ == "__main__":
    main()
