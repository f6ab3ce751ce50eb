#!/usr/bin/env python3
"""The same random questions to servers with memory for all columns, and with memory for a quarter. scripts/memory-equal runs it.

Tables of all types, with nulls, are written in several commits; rows are deleted and changed; then each server gets a copy.
One with memory for all and one thread is the reference, whose answers those of the others must have bit by bit: rows of SQL
in the order that it asks for, those of the API always, sets as bytes. What the reference answers others may refuse for want
of memory or time, which is counted; any other error where there is an answer is a finding, as is INTERNAL.

Floats of statements that add them above a join or in a window, or take their deviation, depend on the order of rows (see
docs/src/sql/semantics.md): they are the same within 1e-9, and counted apart.
"""

import argparse
import collections
import concurrent.futures
import math
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

from trial import reason  # Before what needs the client's folder, which it knows.

import grpc
from differential_sql import Statements
from memory_equal_queries import Requests
from memory_equal_tables import column_of, literals_of, seeded, tables_of

from basalt.v1 import (
    catalog_pb2,
    catalog_pb2_grpc,
    ingest_pb2_grpc,
    query_pb2,
    query_pb2_grpc,
    sql_pb2,
    sql_pb2_grpc,
    types_pb2,
)

MIB = 1 << 20
AMPLE = 8 << 30
# With less a server refuses nearly everything: half of it is what the process takes beside its columns.
LEAST = 32 * MIB
DEADLINE_S, MAKING_S = 60, 900
# Errors for want of memory, or of the time that reading again takes.
REFUSED = {"MEMORY_LIMIT", "OVERLOADED", "DEADLINE_EXCEEDED"}
LOOSE = re.compile(r" JOIN |\bOVER \(|\(SELECT |stddev|var_|covar|quantile|median|string_agg")
# What is done to the tables behind their rows.
CHANGES = [
    "DELETE FROM t0 WHERE id % 13 = 5",
    "DELETE FROM t0 WHERE id BETWEEN {rows} / 3 AND {rows} / 3 + {rows} / 20",
    "DELETE FROM t1 WHERE id % 17 = 3 OR i2 IS NULL",
    "UPDATE t0 SET i4 = 7, t1 = 'changed' WHERE id % 997 = 1",
    "UPDATE t1 SET f2 = f2 * 3 WHERE u1 = 9",
]


class Server:
    """A server over a folder, and what it is asked by."""

    def __init__(self, basalt, name, store, memory, threads, flags=()):
        self.name, self.store, ports = name, store, []
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        for s in sockets:
            ports.append(s.getsockname()[1])
            s.close()
        self.log, self.http = store.parent / f"{store.name}.log", ports[1]
        command = [basalt, "serve", "--store", store, "--listen", f"127.0.0.1:{ports[0]}", "--memory", str(memory)]
        command += ["--metrics-listen", f"127.0.0.1:{ports[1]}", "--threads", str(threads), "--log", "error", *flags]
        command += ["--max-deadline", "10m"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log.open("ab"))
        channel = grpc.insecure_channel(f"127.0.0.1:{ports[0]}", options=[("grpc.max_receive_message_length", -1)])
        self.catalog, self.ingest = catalog_pb2_grpc.CatalogServiceStub(channel), ingest_pb2_grpc.IngestServiceStub(channel)
        self.queries, self.sql = query_pb2_grpc.QueryServiceStub(channel), sql_pb2_grpc.SqlServiceStub(channel)

    def ready(self):
        """Waits until it has read its tables."""
        until = time.monotonic() + MAKING_S
        while time.monotonic() < until and self.process.poll() is None:
            try:
                self.catalog.ListTables(catalog_pb2.ListTablesRequest(), timeout=5)
                return self
            except grpc.RpcError:
                time.sleep(0.1)
        raise SystemExit(f"{self.name} does not start: {self.log.read_text()[-500:]}")

    def tables(self):
        """Version, fragments and bytes of each table."""
        listed = self.catalog.ListTables(catalog_pb2.ListTablesRequest(), timeout=DEADLINE_S).tables
        return {table.name: (table.version, table.fragments, table.bytes) for table in listed}

    def figure(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=10) as answer:
            return sum(float(n) for n in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)", answer.read().decode(), re.M))

    def rows(self, responses):
        """The rows of an answer, and the columns that are floats."""
        kinds, rows, complete = [], [], False
        for response in responses:
            match response.WhichOneof("kind"):
                case "header":
                    kinds = [field.type for field in response.header.schema.fields]
                case "batch":
                    columns = [column_of(c, kind) for c, kind in zip(response.batch.columns, kinds, strict=True)]
                    rows += zip(*columns, strict=True)
                case "trailer":
                    complete = response.trailer.complete
        if not complete:
            raise RuntimeError("the answer is incomplete")
        floats = (types_pb2.TYPE_KIND_FLOAT32, types_pb2.TYPE_KIND_FLOAT64)
        return rows, [kind.kind in floats for kind in kinds]

    def ask(self, question, seconds=DEADLINE_S):
        """An answer as ("rows", rows, which columns are floats), ("set", bytes) or ("error", its reason, and why)."""
        try:
            if isinstance(question, str):
                return "rows", *self.rows(self.sql.Query(sql_pb2.SqlRequest(sql=question), timeout=seconds))
            if isinstance(question, query_pb2.QueryRequest):
                return "rows", *self.rows(self.queries.Query(question, timeout=seconds))
            answer = self.queries.Select(question, timeout=seconds)
            return "set", answer.sip, answer.cardinality
        except grpc.RpcError as error:
            return "error", reason(error), error.details()

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait()


def make(server, seed, rows):
    """The tables; what is known of them, and values of their columns."""
    tables, chance = tables_of(rows), seeded(seed, "rows")
    for table in tables:
        request = catalog_pb2.CreateTableRequest(name=table.name, schema=types_pb2.Schema(fields=table.fields()))
        server.catalog.CreateTable(request, timeout=DEADLINE_S)
        for messages in table.writes(chance, rows):
            list(server.ingest.Write(messages, timeout=MAKING_S))
    for change in CHANGES:
        kind, *why = server.ask(change.format(rows=rows), MAKING_S)
        if kind == "error":
            raise SystemExit(f"{change}: {why}")
    # Merges make versions, in which floats are added in another order.
    known, since = server.tables(), time.monotonic()
    while time.monotonic() - since < 5:
        time.sleep(0.5)
        if server.tables() != known:
            known, since = server.tables(), time.monotonic()
    return tables, known, samples(server, tables)


def samples(server, tables):
    """Values of each column as literals of the API."""
    out = {}
    for table in tables:
        fields = {field.name: field.type for field in table.fields()}
        request = query_pb2.QueryRequest(table=table.name, limit=40, offset=table.rows // 2)
        _, rows, _ = server.ask(request, MAKING_S)
        for at, (name, kind) in enumerate(fields.items()):
            found = [row[at] for row in rows if row[at] is not None] or [None]
            out[table.name, name] = [literal_of(value, kind) for value in found]
    return out


def literal_of(value, kind):
    of = types_pb2
    if value is None:
        return of.Value(null=True)
    match kind.kind:
        case of.TYPE_KIND_BOOL:
            return of.Value(bool=value)
        case of.TYPE_KIND_FLOAT32 | of.TYPE_KIND_FLOAT64:
            return of.Value(double=struct.unpack("<d", value[1])[0])
        case of.TYPE_KIND_DECIMAL if kind.precision <= 18:
            return of.Value(decimal=of.Decimal(unscaled=value, scale=kind.scale))
        case of.TYPE_KIND_DECIMAL:
            digits = int.from_bytes(value, "little", signed=True)
            sign, digits = "-" if digits < 0 else "", f"{abs(digits):0{kind.scale + 1}}"
            return of.Value(text=f"{sign}{digits[: -kind.scale]}.{digits[-kind.scale :]}")
        case of.TYPE_KIND_UTF8:
            return of.Value(text=value.decode())
        case of.TYPE_KIND_BINARY:
            return of.Value(text=value.hex())
        case of.TYPE_KIND_DATE32:
            return of.Value(date=value)
        case of.TYPE_KIND_TIMESTAMP:
            return of.Value(timestamp=value)
        case of.TYPE_KIND_UINT64:
            return of.Value(uint=value)
    return of.Value(int=value)


def is_near(ours, theirs, floats, ordered):
    """Whether rows are the same but for the last digits of floats."""
    if len(ours) != len(theirs):
        return False

    def parts(rows):
        # By all that is exact, then by the floats, roughly.
        number = lambda value: struct.unpack("<d", value[1])[0]  # noqa: E731
        split = [
            ([v for v, f in zip(row, floats) if not f], [None if v is None else number(v) for v, f in zip(row, floats) if f])
            for row in rows
        ]
        key = lambda part: (repr(part[0]), [f"{v:.6g}" if v is not None else "" for v in part[1]])  # noqa: E731
        return split if ordered else sorted(split, key=key)

    def close(a, b):
        return a == b or None not in (a, b) and (math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) or a != a and b != b)

    return all(a == c and all(map(close, b, d)) for (a, b), (c, d) in zip(parts(ours), parts(theirs)))


class Judge:
    def __init__(self):
        self.counts, self.errors, self.findings = collections.Counter(), collections.Counter(), 0

    def compare(self, question, ordered, right, server, answer):
        """Counts how an answer compares with the reference's."""
        what = "SQL" if isinstance(question, str) else "API"
        if answer[0] == "error" and right[0] != "error" and answer[1] in REFUSED:
            self.errors[server.name, answer[1]] += 1
            return self.count(server, what, "refused")
        if right[0] == "error" or answer[0] == "error":
            # Which of two errors is found first is not said.
            if right[0] == answer[0]:
                return self.count(server, what, "both errors")
            return self.finding(question, server, right, answer)
        if right[0] == "set":
            return self.count(server, what, "same") if answer == right else self.finding(question, server, right, answer)
        ours, theirs = answer[1], right[1]
        same = ours == theirs or not ordered and collections.Counter(ours) == collections.Counter(theirs)
        if same:
            self.count(server, what, "same")
        elif what == "SQL" and LOOSE.search(question) and is_near(ours, theirs, right[2], ordered):
            self.count(server, what, "same but for the last digits of floats whose order is not said")
        else:
            self.finding(question, server, right, answer)

    def count(self, server, what, how):
        self.counts[server.name, what, how] += 1

    def finding(self, question, server, right, answer):
        self.findings += 1
        self.count(server, "SQL" if isinstance(question, str) else "API", "DIFFERENT")
        print(f"\nDIFFERENT at {server.name}: {question}", flush=True)
        if right[0] == answer[0] == "rows":
            ours, theirs = collections.Counter(answer[1]), collections.Counter(right[1])
            print(f"  {len(answer[1])} rows, of which differ {list((ours - theirs).elements())[:4]}")
            print(f"  the reference has {len(right[1])} rows, {list((theirs - ours).elements())[:4]}", flush=True)
        else:
            print(f"  {str(answer)[:300]}\n  the reference: {str(right)[:300]}", flush=True)


def ask_all(options, servers, tables, values, judge):
    """Random questions until the time is over: each to the reference, to another with memory, and to two with a quarter."""
    reference, others = servers[0], servers[1:]
    ample, quarter = [s for s in others if "all" in s.name], [s for s in others if "quarter" in s.name]
    until, told, asked = time.monotonic() + 60 * options.minutes, time.monotonic(), collections.Counter()
    number = options.question
    while time.monotonic() < until and sum(asked.values()) < options.questions:
        chance = seeded(options.seed, "question", number)
        number += 1
        if chance.random() < 0.5:
            relations = {table.name: table.relation() for table in tables}
            query = Statements(chance, relations, literals_of(chance)).statement()
            question, ordered = str(query), query.ordered
        else:
            question, ordered = Requests(chance, tables, values).request(), True
        right = reference.ask(question)
        asked["SQL" if isinstance(question, str) else "API"] += 1
        judge.counts["asked", right[0], right[1] if right[0] == "error" else ""] += 1
        if right[0] == "error" and right[1] == "INTERNAL":
            judge.finding(question, reference, right, right)
        elif right[0] != "error" or right[1] not in REFUSED:
            hit = [chance.choice(ample), *chance.sample(quarter, 2)]
            if right[0] == "error":
                hit = hit[-1:]
            with concurrent.futures.ThreadPoolExecutor() as pool:
                answers = dict(zip(hit, pool.map(lambda server, of=question: server.ask(of), hit), strict=True))
            for server in hit:
                judge.compare(question, ordered, right, server, answers[server])
        for server in servers:
            if server.process.poll() is not None:
                raise SystemExit(f"{server.name} ended by itself at question {number - 1}: {server.log.read_text()[-1000:]}")
        if time.monotonic() > told + 30:
            told = time.monotonic()
            same = sum(count for key, count in judge.counts.items() if key[-1] == "same")
            print(f"{sum(asked.values())} questions, {same} answers the same, {judge.findings} different", flush=True)
    return asked


def main():
    parse = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parse.add_argument("basalt", help="the program")
    parse.add_argument("--minutes", type=float, default=10, help="of questions; the tables take their time before")
    parse.add_argument("--rows", type=int, default=400_000)
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument("--question", type=int, default=0, help="the first of the questions")
    parse.add_argument("--questions", type=int, default=1 << 60)
    options = parse.parse_args()
    folder, servers, judge = pathlib.Path(tempfile.mkdtemp(prefix="basalt-memory-equal-")), [], Judge()
    try:
        started = time.monotonic()
        # Fragments are a sixteenth of the memory, so that columns come and go in pieces.
        servers.append(Server(options.basalt, "the loader", folder / "store", 512 * MIB, 2, ["--cache", folder / "cache"]))
        tables, known, values = make(servers[0].ready(), options.seed, options.rows)
        if servers[0].stop() != 0:
            raise SystemExit("the loader did not end well")
        servers.clear()
        total = sum(size for _, _, size in known.values())
        memory = max(total // 4, LEAST)
        took, fragments = time.monotonic() - started, sum(f for _, f, _ in known.values())
        print(f"seed {options.seed}, {options.rows} rows in t0, {fragments} fragments, made in {took:.0f} s", flush=True)
        print(f"columns of {total / MIB:.0f} MiB, for which servers have {memory / MIB:.0f} MiB", flush=True)
        for name, limit, threads in [
            (f"memory for {part}, {n} threads", m, n) for part, m in (("all", AMPLE), ("a quarter", memory)) for n in (1, 2, 8)
        ]:
            store, flags = folder / f"store{len(servers)}", []
            shutil.copytree(folder / "store", store)
            # Those with memory for all start sooner from the loader's disk. Of the others one has a disk, for what it reads
            # again and what SQL spills; it counts what it reads. Two read the files of the store again.
            if limit == AMPLE or threads == 2:
                flags = ["--cache", folder / f"cache{len(servers)}"]
                shutil.copytree(folder / "cache", flags[1])
            servers.append(Server(options.basalt, name, store, limit, threads, flags))
        for server in servers:
            server.ready()
        asked = ask_all(options, servers, tables, values, judge)
        for server in servers:
            if {name: found[0] for name, found in server.tables().items()} != {name: found[0] for name, found in known.items()}:
                # Where the answers are the same all the same, nothing is in doubt.
                if judge.findings:
                    raise SystemExit(f"{server.name} has merged meanwhile: its floats may be added in another order")
                print(f"{server.name} has merged meanwhile", flush=True)
        cached = servers[4]
        read = cached.figure("basalt_disk_cache_hits_total") + cached.figure("basalt_disk_cache_misses_total")
        columns = sum(fragments * (len(table.columns) + 1) for table in tables for fragments in [known[table.name][1]])
        held = max(server.figure("basalt_memory_bytes") for server in servers[3:])
    finally:
        for server in servers:
            server.stop(signal.SIGKILL)
        logs = "".join(log.read_text(errors="replace") for log in folder.glob("*.log"))
        shutil.rmtree(folder)
    print(
        f"\n{asked['SQL']} statements of SQL, {asked['API']} requests of the API; {cached.name}: {read:.0f} columns of fragments"
    )
    print(f"were read, of {columns} that there are; those with a quarter hold {held / MIB:.0f} MiB at most in the end")
    for (name, *what), count in sorted(judge.counts.items()):
        print(f"  {count:6} {name}: {' '.join(what)}")
    for (name, why), count in sorted(judge.errors.items()):
        print(f"  {count:6} {name}: {why}")
    panics = [line for line in logs.splitlines() if "panicked at" in line]
    print("\n".join(panics[:10]) or ("nothing different" if not judge.findings else f"{judge.findings} DIFFERENT"))
    sys.exit(bool(judge.findings or panics))


if __name__ == "__main__":
    main()
