#!/usr/bin/env python3
"""Servers over an S3 store that fails, and what they may say then. scripts/s3-faults runs it, beside SeaweedFS.

A trial has a prefix of the bucket, one server or two that are peers, and for each a door of a proxy that makes faults
(s3_proxy.py). Writers insert, replace and delete batches of rows in two tables that stay and in tables of their own that
come and go, tens of small commits after each other, while servers are killed and started again. Each writer knows what
its batches may be: those of an acknowledged write are there, those of a refused one are not, and what is not known is
tried again under its request id, or may be either, whole, for good. Every read is compared with that; in the end, and
without faults, all is read at each server, and every file is verified.

* lost, refused, half, twice, stale, wrong: rows that are not as they may be;
* damaged: a server says that its store is damaged, which it is not;
* failed: INTERNAL, a panic, a server that ends by itself or does not start, a store that fails without faults.

The seed decides what is done and which faults are made; what happens when is up to the machine.
"""

import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

from s3_model import Batches, Held, value_of
from s3_proxy import CALM, KINDS, Proxy, mood_of
from trial import Deadline, reason

import grpc
from example import aggregate, batch, both, col, compare, field, int64s, item, lit, query

from basalt.v1 import catalog_pb2, catalog_pb2_grpc, filter_pb2, ingest_pb2, ingest_pb2_grpc, query_pb2, query_pb2_grpc, types_pb2

# How long the faults of a trial last, and how long no server is killed; in a long one old files are removed.
TRIALS = [(20, (3, 15))] * 3 + [(110, (5, 100))]
WRITERS = (1, 3, 6)
DEADLINE = 20
# How long the servers' client of S3 waits for an answer.
TIMEOUT_S = 3
SHARED = ("first", "second")
# Errors that say that nothing was written, and those that do not say.
REFUSED = {"STORE_UNAVAILABLE", "OVERLOADED", "WRITE_CONFLICT", "STARTING", "SHUTTING_DOWN", "MEMORY_LIMIT", "INCOMPLETE"}
UNKNOWN = {"OUTCOME_UNKNOWN", "DEADLINE_EXCEEDED", "CANCELLED", "UNAVAILABLE", "UNKNOWN", "REQUEST_IN_PROGRESS"}
COLUMNS = ("id", "batch", "rows", "v")
GE, LT, EQ = filter_pb2.COMPARE_OP_GE, filter_pb2.COMPARE_OP_LT, filter_pb2.COMPARE_OP_EQ


class Server:
    """A server as a process, its door to the store, and the channel to it."""

    def __init__(self, basalt, store, ports, index, proxy, log, flags):
        own, peers = ports[index], ",".join(f"127.0.0.1:{peer}" for _, peer in ports)
        self.address, self.door, self.log, self.process = f"127.0.0.1:{own[0]}", proxy.door(), open(log, "ab"), None
        self.command = [
            basalt,
            "serve",
            "--store",
            store,
            "--listen",
            self.address,
            "--log",
            "warn",
            "--memory",
            "256MiB",
            *flags,
        ]
        if len(ports) > 1:
            self.command += ["--peer-listen", f"127.0.0.1:{own[1]}", "--peers", peers]
        self.environment = {**os.environ, "AWS_ENDPOINT_URL": self.door.url, "AWS_TIMEOUT": f"{TIMEOUT_S}s"}
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 500)]
        self.channel = grpc.insecure_channel(self.address, options=options)
        self.catalog = Deadline(catalog_pb2_grpc.CatalogServiceStub(self.channel), DEADLINE)
        self.queries = Deadline(query_pb2_grpc.QueryServiceStub(self.channel), DEADLINE)
        self.ingest = Deadline(ingest_pb2_grpc.IngestServiceStub(self.channel), DEADLINE)

    def start(self):
        streams = {"stdout": self.log, "stderr": self.log, "stdin": subprocess.DEVNULL}
        self.process = subprocess.Popen(self.command, env=self.environment, **streams)

    def stop(self, how):
        self.process.send_signal(how)
        return self.process.wait()

    def ready(self, seconds):
        """Whether it answers within a time; a process that ends does not."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.process.poll() is None:
            try:
                self.catalog.ListTables(catalog_pb2.ListTablesRequest())
                return True
            except grpc.RpcError:
                time.sleep(0.1)
        return False

    def insert(self, table, rows, replace, request_id):
        def requests():
            by = ["id"] if replace else []
            yield ingest_pb2.WriteRequest(open=ingest_pb2.Open(table=table, request_id=request_id, replace_by=by))
            columns = [int64s(values) for values in zip(*rows, strict=True)]
            yield ingest_pb2.WriteRequest(batch=ingest_pb2.Batch(sequence=1, columns=batch(len(rows), *columns)))
            yield ingest_pb2.WriteRequest(commit=ingest_pb2.Commit(batches=1, rows=len(rows)))

        for response in self.ingest.Write(requests()):
            if response.HasField("committed"):
                return response.committed
        raise RuntimeError("the stream ended without its Committed")

    def rows(self, table, where, version=None):
        """All rows that a filter selects, their number and sum by another query of the same version, and the version."""
        select = [item(name, col(name)) for name in COLUMNS]
        seen = []

        def ask(request):
            for response in self.queries.Query(request):
                if response.WhichOneof("kind") == "header":
                    seen.append(response.header.table_version)
                yield response

        asked = type("Asked", (), {"Query": staticmethod(ask)})
        rows = query(asked, query_pb2.QueryRequest(table=table, select=select, filter=where, version=version))
        count, total = filter_pb2.AGGREGATE_FUNCTION_COUNT, filter_pb2.AGGREGATE_FUNCTION_SUM
        select = [item("n", aggregate(count)), item("s", aggregate(total, col("v")))]
        ((n, s),) = query(asked, query_pb2.QueryRequest(table=table, select=select, filter=where, version=seen[0]))
        return rows, (n, s or 0), seen[0]


class GaveUp(Exception):
    """A call that was not tried again: whether it may have been done nevertheless."""

    def __init__(self, doubt):
        super().__init__()
        self.doubt = doubt


class Told(Exception):
    """A call that was answered by an error that says what there is: why, whether a try before may have been done, and tries."""

    def __init__(self, why, doubt, tries):
        super().__init__(why)
        self.why, self.doubt, self.tries = why, doubt, tries


class Writer(threading.Thread):
    """Writes and reads batches of its own, and compares."""

    def __init__(self, number, trial):
        super().__init__(daemon=True)
        self.trial, self.random, self.number = trial, random.Random(f"{trial.name} {number}"), number
        self.low, self.high = number << 40, (number + 1) << 40
        self.made, self.slots = 0, 0
        self.held = {table: Held() for table in SHARED}
        # What a table of its own may be: [True] is there, [False] is not, both: not known.
        self.there = {}

    def own(self):
        return [name for name, there in self.there.items() if there == [True]]

    def run(self):
        while not self.trial.over.is_set():
            try:
                self.step()
            except grpc.RpcError as error:
                self.trial.error(error, "a read")
                time.sleep(0.05)
            except Exception as error:
                self.trial.fail("failed", f"writer {self.number}: {error!r}")
                raise

    def step(self):
        draw, table = self.random.random(), self.random.choice([*SHARED, *self.own()])
        held = self.held[table]
        if draw < self.trial.tables:
            self.tables()
        elif draw < 0.45 or not held.sure():
            self.slots += 1
            self.write(table, self.low + (self.slots << 16), None)
        elif draw < 0.65:
            self.write(table, self.random.choice(held.sure()), held)
        elif draw < 0.8 or len(held.sure()) > 60:
            self.delete(table, self.random.choice(held.sure()))
        else:
            self.read(table)

    def tried(self, what, call, told=()):
        """Tries at one server after the other until it is known, or as often as chance has it."""
        patience, doubt, tries = self.random.choice([0, 0, 2, 1 << 30]), False, 0
        while True:
            server = self.trial.any(self.random)
            try:
                done = call(server)
                self.trial.note(self.number, what, server.address, "done", done if isinstance(done, int) else "")
                return done, tries
            except grpc.RpcError as error:
                why = self.trial.error(error, what)
                self.trial.note(self.number, what, server.address, why, error.details())
                if why in told:
                    raise Told(why, doubt, tries) from error
                doubt = doubt or why not in REFUSED
            tries += 1
            if tries > patience or self.trial.over.is_set():
                self.trial.done["not known" if doubt else "refused"] += 1
                raise GaveUp(doubt)
            time.sleep(self.random.uniform(0.02, 0.3))

    def write(self, table, slot, held):
        """A batch, new or in the place of another, which has the same ids and perhaps fewer of them."""
        self.made += 1
        number = self.number << 32 | self.made
        old = self.held[table].batch(slot) if held else 0
        most = self.trial.batches.size(old) if old else None
        size = most or (self.random.randint(1, 6) if self.random.random() < 0.97 else 2000)
        self.trial.batches.add(number, size)
        rows = [(slot + i, number, size, value_of(number, i)) for i in range(size)]
        request_id = str(uuid.UUID(int=self.random.getrandbits(128)))
        replace = old != 0 or self.random.random() < 0.2
        what = f"{'replace' if replace else 'insert'} {table} {slot:x} {old:x}->{number:x}"
        try:
            done, tries = self.tried(what, lambda server: server.insert(table, rows, replace, request_id))
        except GaveUp as gave_up:
            if gave_up.doubt:
                self.held[table].doubt(slot, number)
            return
        if done.rows != size or (tries == 0 and done.HasField("replaced") and done.replaced != (size if old else 0)):
            self.trial.fail("wrong", f"{what} of {size} rows: {done}".replace("\n", " "))
        self.held[table].set(slot, number, done.version)
        self.trial.done["replaced" if old else "inserted"] += 1
        if self.random.random() < 0.5:
            self.read(table, slot)

    def delete(self, table, slot):
        number = self.held[table].batch(slot)
        where = compare(EQ, col("batch"), lit(int=number))
        request, what = ingest_pb2.DeleteRequest(table=table, filter=where), f"delete {table} {slot:x} {number:x}"
        try:
            done, tries = self.tried(what, lambda server: server.ingest.Delete(request))
        except GaveUp as gave_up:
            if gave_up.doubt:
                self.held[table].doubt(slot, 0)
            return
        size = self.trial.batches.size(number)
        if done.rows != size and (tries == 0 or done.rows != 0):
            self.trial.fail("wrong", f"{what} took {done.rows} rows of {size}")
        self.held[table].set(slot, 0, done.version)
        self.trial.done["deleted"] += 1
        if self.random.random() < 0.5:
            self.read(table, slot)

    def tables(self):
        """A table of its own comes or goes. A name is used again where nothing of it was ever in doubt."""
        own = self.own()
        if own and (len(own) > 2 or self.random.random() < 0.5):
            name = self.random.choice(own)
            request, then = catalog_pb2.DropTableRequest(name=name), False
            call = lambda server: server.catalog.DropTable(request)  # noqa: E731
        else:
            free = [name for name, there in self.there.items() if there == [False]]
            name = self.random.choice(free) if free and self.random.random() < 0.6 else f"own_{self.number}_{len(self.there)}"
            fields = [field(name, types_pb2.TYPE_KIND_INT64) for name in COLUMNS]
            request, then = catalog_pb2.CreateTableRequest(name=name, schema=types_pb2.Schema(fields=fields)), True
            call = lambda server: server.catalog.CreateTable(request)  # noqa: E731
            self.there.setdefault(name, [False])
        what = f"{'create' if then else 'drop'} {name}"
        before = self.there[name]
        try:
            _, tries = self.tried(what, call, ["TABLE_EXISTS" if then else "TABLE_NOT_FOUND"])
            # Where it was tried before, it may be done once more.
            self.there[name] = [then] if tries == 0 or then else [then, "done with"]
        except GaveUp as gave_up:
            if gave_up.doubt:
                self.there[name] = [*before, then]
        except Told as told:
            if not told.doubt:
                # It is as a try that was refused would have left it, or as it was before the last one that was acknowledged.
                self.trial.fail("refused" if told.tries else "stale", f"{what}: {told.why} after {told.tries} tries")
            self.there[name] = [then, "done with"]
        if then and self.there[name] != before:
            self.held[name] = Held()
        self.trial.done["made" if then else "dropped"] += self.there[name][0] == then
        if self.there[name] == [False] and self.random.random() < 0.5:
            self.gone(name)

    def gone(self, name):
        """A table that was dropped is there for nobody."""
        server = self.trial.any(self.random)
        try:
            server.rows(name, None)
        except grpc.RpcError as error:
            why = self.trial.error(error, "read")
            if why in REFUSED or why in UNKNOWN or why == "TABLE_NOT_FOUND":
                return
        self.trial.fail("stale", f"{name} was dropped and is read at {server.address}")

    def slice(self):
        return both(compare(GE, col("id"), lit(int=self.low)), compare(LT, col("id"), lit(int=self.high)))

    def read(self, table, slot=None):
        """All of its rows, or a slot's; now and then those of an older version."""
        server, held, version = self.trial.any(self.random), self.held[table], None
        where, known = self.slice(), held.may
        if slot is not None:
            where, known = compare(EQ, col("id"), lit(int=slot)), None
        elif held.versions and self.random.random() < 0.3:
            version, known = self.random.choice(held.versions)
        try:
            rows, sums, at = server.rows(table, where, version)
        except grpc.RpcError as error:
            why = reason(error)
            self.trial.note(self.number, "read", table, server.address, why, error.details())
            if why == "TABLE_NOT_FOUND":
                self.trial.fail("lost", f"{table} at {server.address}: {why}")
            raise
        self.trial.done["read"] += 1
        place = f"{table} at {server.address}, version {at}"
        if sums != (len(rows), sum(row[3] for row in rows)):
            self.trial.fail("wrong", f"{place}: {len(rows)} rows, their sum {sum(row[3] for row in rows)}, but {sums}")
        if slot is None:
            self.compare(place, rows, known, version is None)
        elif {row[1] for row in rows} != {held.batch(slot)} - {0} or len(rows) > 1:
            self.trial.fail("stale", f"{place}: {rows}, not batch {held.batch(slot):x} in {slot:x}")

    def compare(self, place, rows, known, newest):
        found, faults = self.trial.batches.found(rows)
        for kind, what in faults + known.compare(found, newest):
            self.trial.fail(kind, f"{place}: {what}")

    def conclude(self, server):
        """All of it, without faults."""
        for table, held in self.held.items():
            there = self.there.get(table, [True])
            try:
                rows, _, at = server.rows(table, self.slice())
            except grpc.RpcError as error:
                why = reason(error)
                if why != "TABLE_NOT_FOUND":
                    self.trial.fail("failed", f"{table} at {server.address} without faults: {why} {error.details()}")
                elif there == [True]:
                    self.trial.fail("lost", f"{table} at {server.address} in the end: {why}")
                continue
            if True not in there and "done with" not in there:
                self.trial.fail("refused", f"{table} at {server.address} is there in the end: {there}")
            elif there == [True]:
                self.compare(f"{table} at {server.address} in the end, version {at}", rows, held.may, True)


class Trial:
    def __init__(self, options, number, proxy, folder):
        self.name, self.proxy, self.folder = f"{options.seed} {number}", proxy, folder
        self.random, self.over, self.lock = random.Random(self.name), threading.Event(), threading.Lock()
        self.done, self.errors, self.failures = collections.Counter(), collections.Counter(), collections.Counter()
        self.batches, self.starts = Batches(), collections.Counter()
        self.journal = proxy.journal = open(folder / "journal", "w", buffering=1)
        count, self.tables = self.random.choice([1, 2]), self.random.choice([0.02, 0.1, 0.3])
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2 * count)]
        free = [s.getsockname()[1] for s in sockets]
        for s in sockets:
            s.close()
        ports, store = list(zip(free[::2], free[1::2])), f"s3://basalt/{uuid.uuid4()}"
        flags = ["--keep-versions", self.random.choice(["1s", "10s", "10m"])]
        self.servers = [Server(options.basalt, store, ports, i, proxy, folder / f"{i}.log", flags) for i in range(count)]
        self.writers = [Writer(number, self) for number in range(1, self.random.choice(WRITERS) + 1)]

    def any(self, chance):
        return chance.choice(self.servers)

    def note(self, *what):
        print(f"{time.time():.3f}", *what, file=self.journal)

    def fail(self, kind, what):
        with self.lock:
            self.failures[kind] += 1
            self.note(kind.upper(), what)
            if self.failures[kind] <= 5:
                print(f"trial {self.name}, {kind.upper()}: {what}\n  {self.folder}", flush=True)

    def error(self, error, what):
        """Counts an error of a call; what no fault of a store explains is a finding."""
        why = reason(error)
        self.errors[why] += 1
        if why in ("TABLE_DAMAGED", "INVALID_STORE"):
            self.fail("damaged", f"{what}: {why} {error.details()}")
        elif why not in REFUSED | UNKNOWN | {"TABLE_NOT_FOUND", "TABLE_EXISTS", "VERSION_GONE"}:
            self.fail("failed", f"{what}: {why} {error.details()}")
        elif why == "TABLE_NOT_FOUND" and not what.startswith(("drop", "read", "a read")):
            self.fail("lost", f"{what}: {why} {error.details()}")
        return why

    def bring_up(self, server, seconds):
        """Starts a server until it answers. One that cannot read its store may end, and is started again."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if server.process is None or server.process.poll() is not None:
                self.starts["started"] += 1
                server.start()
            if server.ready(min(5, until - time.monotonic())):
                return True
        return False

    def run(self):
        for server in self.servers:
            server.start()
        for server in self.servers:
            if not self.bring_up(server, 60):
                self.fail("failed", f"{server.address} does not start without faults")
                return
        fields = [field(name, types_pb2.TYPE_KIND_INT64) for name in COLUMNS]
        for name in SHARED:
            request = catalog_pb2.CreateTableRequest(name=name, schema=types_pb2.Schema(fields=fields))
            self.servers[0].catalog.CreateTable(request)
        for writer in self.writers:
            writer.start()
        self.attack()
        self.over.set()
        for server in self.servers:
            server.door.mood = CALM
        for writer in self.writers:
            writer.join(2 * DEADLINE + 60)
            if writer.is_alive():
                self.fail("failed", f"writer {writer.number} does not end")
        self.proxy.drained()
        self.conclude()

    def attack(self):
        """Moods of the doors, and servers that are killed."""
        seconds, between = self.random.choice(TRIALS)
        until, kill = time.monotonic() + seconds, time.monotonic() + self.random.uniform(*between)
        moods = [0.0 for _ in self.servers]
        while (now := time.monotonic()) < until:
            for at, server in enumerate(self.servers):
                if now > moods[at]:
                    server.door.mood, moods[at] = mood_of(self.random), now + self.random.uniform(0.5, 5)
                if server.process.poll() is not None:
                    self.fail("failed", f"{server.address} ended by itself: {server.process.returncode}")
                    server.start()
            if now > kill:
                hit = self.random.sample(self.servers, self.random.randint(1, len(self.servers)))
                for server in hit:
                    self.note("kill -9", server.address)
                    server.stop(signal.SIGKILL)
                    self.done["killed"] += 1
                time.sleep(self.random.uniform(0, 2))
                for server in hit:
                    server.door.mood = mood_of(self.random) if self.random.random() < 0.5 else CALM
                    if not self.bring_up(server, 10):
                        # What keeps it from starting is the mood alone.
                        server.door.mood = CALM
                        if not self.bring_up(server, 60):
                            self.fail("failed", f"{server.address} does not start again")
                    self.note("ready", server.address)
                kill = time.monotonic() + self.random.uniform(*between)
            time.sleep(0.05)

    def conclude(self):
        """Kills all, starts all, and compares everything; then a write more, and each file is read."""
        for server in self.servers:
            if server.process.poll() is not None:
                self.fail("failed", f"{server.address} ended by itself: {server.process.returncode}")
            else:
                server.stop(signal.SIGKILL)
        for server in self.servers:
            server.start()
        for server in self.servers:
            if not self.bring_up(server, 90):
                self.fail("failed", f"{server.address} does not start in the end, without faults")
                return
        names = set()
        for server in self.servers:
            listed = server.catalog.ListTables(catalog_pb2.ListTablesRequest(page_size=1000))
            for damaged in listed.damaged:
                self.fail("damaged", f"{damaged.name} in the end: {damaged.message}")
            names = {table.name for table in listed.tables}
            for writer in self.writers:
                writer.conclude(server)
        for name in sorted(names):
            verified = self.servers[0].catalog.VerifyTable(catalog_pb2.VerifyTableRequest(name=name))
            self.done["files verified"] += verified.files
            for damage in verified.damage:
                self.fail("damaged", f"{name}: {damage.file} {damage.column} {damage.message}")
        writer = self.writers[0]
        writer.slots += 1
        slot = writer.low + (writer.slots << 16)
        writer.write(SHARED[0], slot, None)
        if writer.held[SHARED[0]].batch(slot) == 0:
            self.fail("failed", "a write fails without faults")
        for server in self.servers:
            code = server.stop(signal.SIGTERM)
            if code != 0:
                self.fail("failed", f"{server.address} ended with {code}")

    def end(self):
        for server in self.servers:
            if server.process and server.process.poll() is None:
                server.stop(signal.SIGKILL)
            self.proxy.close(server.door)
            server.channel.close()
        for log in sorted(self.folder.glob("*.log")):
            if "panicked" in log.read_text(errors="replace"):
                self.fail("failed", f"a panic: see {log}")
        self.journal.close()


def main():
    parse = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parse.add_argument("basalt", help="the program")
    parse.add_argument("--minutes", type=float, default=10)
    parse.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parse.add_argument("--trial", type=int, default=0, help="the first of the trials")
    options = parse.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="basalt-s3-faults-"))
    print(f"seed {options.seed}, in {folder}", flush=True)
    proxy = Proxy(os.environ["AWS_ENDPOINT_URL"], options.seed, TIMEOUT_S)
    done, errors, failures = collections.Counter(), collections.Counter(), collections.Counter()
    until, number, bad = time.monotonic() + 60 * options.minutes, options.trial, 0
    while number == options.trial or time.monotonic() < until:
        own = folder / str(number)
        own.mkdir()
        trial = Trial(options, number, proxy, own)
        try:
            trial.run()
        finally:
            trial.end()
        done.update(trial.done)
        errors.update(trial.errors)
        failures.update(trial.failures)
        number += 1
        if trial.failures:
            bad += 1
        else:
            shutil.rmtree(own)
        wrong = ", ".join(f"{count} {kind.upper()}" for kind, count in trial.failures.items()) or "nothing wrong"
        figures = ", ".join(f"{count} {name}" for name, count in sorted(trial.done.items()))
        print(
            f"trial {number - 1}, {len(trial.servers)} servers: {figures}; {sum(trial.errors.values())} errors; {wrong}",
            flush=True,
        )
    print(f"\n{number - options.trial} trials: " + ", ".join(f"{count} {name}" for name, count in sorted(done.items())))
    print(f"requests of S3: {', '.join(f'{count} {what}' for what, count in sorted(proxy.requests.items()))}")
    for kind in [*KINDS, "of the store itself"]:
        of = {what: count for (fault, what), count in proxy.faults.items() if fault == kind}
        if of:
            of = f"{sum(of.values()):6} {kind}: {', '.join(f'{count} {what}' for what, count in sorted(of.items()))}"
            print(f"  {of}. {KINDS.get(kind, '')}")
    print(f"requests passed on late: {', '.join(f'{n} {what} {status}' for (what, status), n in sorted(proxy.landed.items()))}")
    print(f"errors told: {', '.join(f'{count} {name}' for name, count in errors.most_common())}")
    print(f"{sum(failures.values())} findings in {bad} trials: {dict(failures)}" if failures else "nothing wrong")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
