#!/usr/bin/env python3
"""A cluster under a steady load, for hours. scripts/soak runs it.

Rows come at a steady rate with the time of their writing, some are replaced, some deleted, and all go by retention, so
that after a while as many go as come. What has left a table is remembered for an hour, and the log that says so is kept
for another: that is the warm-up, or half of a shorter run. Fails where something that a node holds goes on growing after
that: resident memory, threads, descriptors, files and bytes of the tables; and where a count is wrong.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import random
import signal
import statistics
import sys
import tempfile
import threading
import time

from trial import Deadline, Trial, reason

import grpc
from example import aggregate, batch, both, col, compare, create, field, int64s, item, lit, query

from basalt.v1 import catalog_pb2, filter_pb2, ingest_pb2, query_pb2, types_pb2

TABLE = "soak"
RETENTION_S = 300
ROWS = 100
# Every so many steps.
REPLACE, DELETE, READ, SCRATCH = 3, 5, 2, 200
SAMPLE_S = 10
WARM_UP_S = 125 * 60
# What one may hold more at the end than after the warm-up: a part, and so much beside.
GROWTH = 0.10
SPARE = {"rss MB": 8, "anon MB": 8, "threads": 4, "fds": 8, "files": 60, "store MB": 2}
GE, LT, EQ = filter_pb2.COMPARE_OP_GE, filter_pb2.COMPARE_OP_LT, filter_pb2.COMPARE_OP_EQ
INT64, TIMESTAMP = types_pb2.TYPE_KIND_INT64, types_pb2.TYPE_KIND_TIMESTAMP


def write(node, rows, by=()):
    """Rows of (id, v, microseconds)."""

    def requests():
        yield ingest_pb2.WriteRequest(open=ingest_pb2.Open(table=TABLE, replace_by=by))
        columns = [int64s([row[column] for row in rows]) for column in range(3)]
        yield ingest_pb2.WriteRequest(batch=ingest_pb2.Batch(sequence=1, columns=batch(len(rows), *columns)))
        yield ingest_pb2.WriteRequest(commit=ingest_pb2.Commit(batches=1, rows=len(rows)))

    if not any(response.HasField("committed") for response in node.ingest.Write(requests(), timeout=60)):
        raise RuntimeError("the stream ended without its Committed")


def between(column, kind, low, high):
    """Rows whose values of a column are in a range."""
    bound = lambda op, value: compare(op, col(column), lit(**{kind: value}))  # noqa: E731
    return both(bound(GE, low), bound(LT, high))


class Load:
    def __init__(self, trial, rate):
        self.trial, self.rate, self.random = trial, rate, random.Random(trial.seed)
        self.rows = collections.OrderedDict()  # id: v and microseconds, of those that are there for sure
        self.next = self.steps = 0
        self.doubtful = None  # ids of a write of which it is not known whether it was made

    def step(self):
        """One write, and now and then something else."""
        trial, chance = self.trial, self.random
        self.steps += 1
        now = time.time_ns() // 1000
        new = [(self.next + i, chance.randrange(1000), now) for i in range(ROWS)]
        self.next += ROWS
        with self.doubting(new[0][0], self.next):
            write(trial.any(chance), new)
        self.rows.update((row[0], row[1:]) for row in new)
        trial.done["writes"] += 1
        while self.rows and next(iter(self.rows.values()))[1] < now - (RETENTION_S - 60) * 1_000_000:
            self.rows.popitem(last=False)
        recent = range(max(self.next - 20 * ROWS, 0), self.next)
        if self.steps % REPLACE == 0:
            ids = [id for id in chance.sample(recent, 10) if id in self.rows]
            rows = [(id, chance.randrange(1000), self.rows[id][1]) for id in ids]
            with self.doubting(recent.start, self.next):
                write(trial.any(chance), rows, ["id"])
            self.rows.update((row[0], row[1:]) for row in rows)
            trial.done["replacements"] += 1
        if self.steps % DELETE == 0:
            low = chance.choice(recent)
            delete = ingest_pb2.DeleteRequest(table=TABLE, filter=between("id", "int", low, low + 7))
            with self.doubting(low, low + 7):
                trial.any(chance).ingest.Delete(delete, timeout=60)
            for id in range(low, low + 7):
                self.rows.pop(id, None)
            trial.done["deletes"] += 1
        if self.steps % READ == 0:
            self.read(now)
        if self.steps % SCRATCH == 0:
            self.scratch()

    @contextlib.contextmanager
    def doubting(self, low, high):
        """Whoever has no answer looks at the rows before he goes on."""
        try:
            yield
        except grpc.RpcError:
            self.doubtful = low, high
            raise

    def settle(self):
        """What became of a write that was not answered."""
        select = [item(name, col(name)) for name in ("id", "v", "at")]
        where = between("id", "int", *self.doubtful)
        request = query_pb2.QueryRequest(table=TABLE, select=select, filter=where)
        there = {id: (v, at) for id, v, at in query(Deadline(self.trial.any(self.random).queries, 60), request)}
        for id in range(*self.doubtful):
            self.rows.pop(id, None)
        # In the order of their ids, which is that of their times.
        self.rows = collections.OrderedDict(sorted((self.rows | there).items()))
        self.doubtful = None

    def read(self, now):
        node = self.trial.any(self.random)
        low = now - self.random.choice([1, 10, 100, RETENTION_S - 70]) * 1_000_000
        want = [v for v, at in self.rows.values() if at >= low]
        count, total = filter_pb2.AGGREGATE_FUNCTION_COUNT, filter_pb2.AGGREGATE_FUNCTION_SUM
        request = query_pb2.QueryRequest(
            table=TABLE,
            select=[item("n", aggregate(count)), item("s", aggregate(total, col("v")))],
            filter=between("at", "timestamp", low, now + 1),
        )
        ((n, s),) = query(Deadline(node.queries, 60), request)
        self.trial.done["reads"] += 1
        if (n, s or 0) != (len(want), sum(want)):
            self.trial.fail("wrong", f"{n} rows, sum {s}, at {node.address} instead of {len(want)}, {sum(want)}")

    def scratch(self):
        """A table that comes and goes, and a set that is kept."""
        node = self.trial.any(self.random)
        create(Deadline(node.catalog, 60), "scratch", [field("id", INT64)])
        node.catalog.DropTable(catalog_pb2.DropTableRequest(name="scratch"), timeout=60)
        where = compare(EQ, col("v"), lit(int=self.random.randrange(1000)))
        node.queries.Select(query_pb2.SelectRequest(table=TABLE, filter=where, keep_ms=60_000), timeout=60)
        self.trial.done["tables and sets"] += 1

    def run(self, until):
        while (now := time.monotonic()) < until:
            try:
                if self.doubtful:
                    self.settle()
                self.step()
            except grpc.RpcError as error:
                self.trial.errors[reason(error)] += 1
            except Exception as error:
                # An answer that is not complete, among others.
                self.trial.fail("died", f"the load: {error!r}")
                raise
            time.sleep(max(0, now + 1 / self.rate - time.monotonic()))


def process(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    figure = {line.split(":")[0]: line.split(":")[1].split()[0] for line in status if ":\t" in line and len(line.split()) > 1}
    return {
        "rss MB": int(figure["VmRSS"]) / 1e3,
        "anon MB": int(figure["RssAnon"]) / 1e3,
        "threads": int(figure["Threads"]),
        "fds": len(os.listdir(f"/proc/{pid}/fd")),
    }


def store(folder):
    files = size = 0
    # The journal of the catalog has a file for each table that was made or dropped, for ever.
    for path, _, names in os.walk(f"{folder}/tables"):
        for name in names:
            try:
                size += os.stat(os.path.join(path, name)).st_size
                files += 1
            except FileNotFoundError:
                pass
    return {"files": files, "store MB": size / 1e6}


def samples(trial, folder, until, into):
    """What the nodes hold, the most of them, and the store."""
    while time.monotonic() < until:
        held = [process(node.process.pid) for node in trial.nodes]
        into.append({name: max(each[name] for each in held) for name in held[0]} | store(folder))
        left = until - time.monotonic()
        if sys.stderr.isatty():
            print(f"\r\x1b[K{trial.status(left)}", end="", file=sys.stderr, flush=True)
        time.sleep(max(0, min(SAMPLE_S, left)))


def report(trial, taken):
    """A table of medians over the time, and what has grown since the warm-up."""
    warm = min(WARM_UP_S // SAMPLE_S, len(taken) // 2)
    quarter = max((len(taken) - warm) // 4, 1)
    starts = [warm // 2, *range(warm, len(taken) - quarter + 1, quarter)]
    print("| from minute | " + " | ".join(f"{start * SAMPLE_S / 60:.0f}" for start in starts) + " |")
    print("|---|" + "--:|" * len(starts))
    grown = []
    for name in taken[0]:
        medians = [statistics.median(sample[name] for sample in taken[start : start + quarter]) for start in starts]
        print(f"| {name} | " + " | ".join(f"{median:.1f}" for median in medians) + " |")
        if medians[-1] > medians[1] * (1 + GROWTH) + SPARE[name]:
            grown.append(f"{name}: {medians[1]:.1f}, then {medians[-1]:.1f}")
    for what in grown:
        trial.fail("growing", what)


def main():
    parse = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parse.add_argument("basalt", help="the program")
    parse.add_argument("--minutes", type=float, default=120)
    parse.add_argument("--nodes", type=int, default=3)
    parse.add_argument("--rate", type=float, default=20, help="steps a second, of which each writes")
    parse.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = parse.parse_args()
    folder = tempfile.mkdtemp(prefix="basalt-soak-")
    options.store = f"{folder}/store"
    options.flags = ["--keep-versions", "1m", "--memory", "512MiB"]
    print(f"seed {options.seed}, in {folder}", flush=True)
    trial, taken = Trial(options), []
    try:
        trial.start()
        fields = [field("id", INT64), field("v", INT64), field("at", TIMESTAMP)]
        create(Deadline(trial.nodes[0].catalog, 60), TABLE, fields)
        retention = catalog_pb2.Retention(column="at", seconds=RETENTION_S)
        trial.nodes[0].catalog.SetRetention(catalog_pb2.SetRetentionRequest(table=TABLE, retention=retention), timeout=60)
        until = time.monotonic() + options.minutes * 60
        load = Load(trial, options.rate)
        worker = threading.Thread(target=load.run, args=(until,), daemon=True)
        worker.start()
        samples(trial, options.store, until, taken)
        worker.join(timeout=120)
        if worker.is_alive():
            trial.fail("stuck", "the load does not end")
        # Slow machines make fewer steps.
        if trial.done["writes"] < options.rate * options.minutes * 60 / 4:
            trial.fail("idle", f"{trial.done['writes']} writes in all")
        report(trial, taken)
        for node in trial.nodes:
            if node.stop(signal.SIGTERM) != 0:
                trial.fail("died", f"{node.address} did not end well")
    finally:
        trial.kill()
    trial.conclude()


if __name__ == "__main__":
    main()
