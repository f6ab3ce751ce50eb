#!/usr/bin/env python3
"""Random statements over random tables, answered by a server and by DuckDB. scripts/differential runs it.

Tables are written in several commits, changed and deleted from, the same way in both. A finding is an answer that is not DuckDB's,
INTERNAL, a statement that takes longer than its deadline, or a connection that closes. It is made smaller, statement and rows,
and printed. What only one side refuses is counted by kind. Everything but the time follows from the seed and the round.
"""

import argparse
import collections
import datetime as dt
import http.client
import math
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

import duckdb
import psycopg

from differential_tables import Apart, Ended, Round
from differential_terms import smaller

DEADLINE_S = 10
# Statements of a round, which has its own tables.
ROUND = 400
# What making a finding smaller may take.
SHRINK_S = 20
# As the server orders by default: the reference follows.
SETTINGS = ["SET threads = 1", "SET default_null_order = 'nulls_last_on_asc_first_on_desc'", "SET memory_limit = '2GB'"]
# How an answer may be wrong.
WRONG = ("differs", "in another order", "failed", "too slow")
# Faults that are known and not yet cured: a pattern of a statement, and how its answer is wrong.
EXCUSED = [
    # DuckDB is wrong: SELECT count(*) FROM t WHERE contains(CASE WHEN NULL THEN 'a' WHEN id IS NULL THEN 'a' END, 'a')
    (r"(contains|starts_with)\(\(CASE ", "differs"),
]


class Server:
    """A server over a folder, asked by PostgreSQL's protocol, which is the fastest door for small answers; or one of several
    nodes, all of which run a part of each statement that can be shared out."""

    def __init__(self, basalt, folder, nodes=1):
        self.log, self.others = folder / "log", []
        peers = [f"127.0.0.1:{free_port()}" for _ in range(nodes)]
        for peer in peers:
            ports = [free_port() for _ in range(3)]
            _, self.http, postgres = ports
            command = [basalt, "serve", "--store", str(folder / "store"), "--threads", "1", "--memory", "1GiB", "--log", "error"]
            for flag, port in zip(("--listen", "--metrics-listen", "--postgres"), ports):
                command += [flag, f"127.0.0.1:{port}"]
            command += ["--default-deadline", f"{DEADLINE_S}s", "--max-deadline", f"{DEADLINE_S}s"]
            if nodes > 1:
                command += ["--peer-listen", peer, "--peers", ",".join(peers), "--distribute", "always"]
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log.open("ab"))
            self.others.append(self.process)
            self.address = f"host=127.0.0.1 port={postgres} user=me dbname=basalt"
        self.others.pop()
        for _ in range(300):
            if self.connect() and self.sees(nodes):
                return
            time.sleep(0.1)
        sys.exit("the server has not started")

    def sees(self, nodes):
        """Whether it takes all nodes to be alive."""
        how, rows = self.ask("SELECT count(*) FROM system.nodes WHERE state = 'alive'") if nodes > 1 else ("rows", [(1,)])
        return how == "rows" and rows[0][0] == nodes

    def connect(self):
        try:
            self.connection = psycopg.connect(self.address, autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError:
            return False
        return True

    def ask(self, statement):
        """What became of a statement: "rows" and them, or "value", "refused" or "failed" and why."""
        if self.connection.closed:
            self.connect()
        try:
            cursor = self.connection.execute(statement, binary=True)
            return "rows", cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            state, message = error.sqlstate or "", str(error).split("\n")[0]
            if not state or state.startswith("XX") or state == "57014" or "panicked" in message:
                return "failed", f"{state} {message or error!r}"
            # Numbers that do not fit, divisions by zero, texts that are no numbers.
            return "value" if state.startswith("22") else "refused", f"{state} {message}"

    def load(self, table, lines):
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=60)
        connection.request("POST", f"/v1/tables/{table}", "\n".join(lines).encode(), {"Content-Type": "application/x-ndjson"})
        response = connection.getresponse()
        told = response.read()
        connection.close()
        if response.status != 200:
            sys.exit(f"rows of {table} are refused: {told.decode()}")

    def stop(self):
        for process in [*self.others, self.process]:
            process.kill()
            process.wait()


class Reference:
    """DuckDB, in this process."""

    def __init__(self, folder):
        self.file = folder / "rows.json"
        self.connection = duckdb.connect(":memory:")
        for setting in SETTINGS:
            self.connection.execute(setting)

    def ask(self, statement):
        try:
            return "rows", self.connection.execute(statement).fetchall()
        except (duckdb.Error, ValueError, OverflowError) as error:
            return "refused", str(error).split("\n")[0]

    def load(self, table, names, lines):
        self.file.write_text("\n".join(lines))
        columns = ", ".join(f"{name}: 'VARCHAR'" for name in names)
        self.connection.execute(f"INSERT INTO {table} SELECT * FROM read_json('{self.file}', columns = {{{columns}}})")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def plain(value):
    """A value as both have it: instants without a zone, days as midnight, true and false as no numbers, NaN equal to itself."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return bytes(value) if isinstance(value, memoryview) else value


def close(ours, theirs):
    if isinstance(ours, float) or isinstance(theirs, float):
        numbers = not isinstance(ours, (str, type(None))) and not isinstance(theirs, (str, type(None)))
        return numbers and math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)
    return ours == theirs and (ours is None) == (theirs is None)


def near(row):
    """An order that floats decide last, and not by their last digits."""
    exact = [repr(value) for value in row if not isinstance(value, float)]
    return exact, [float(f"{value:.7g}") for value in row if isinstance(value, float)]


def apart(ours, theirs, ordered):
    """The rows that are not the same, those of each side: floats are the same within 1e-9, all else exactly."""
    ours, theirs = ([tuple(map(plain, row)) for row in rows] for rows in (ours, theirs))
    if ours == theirs:
        return [], []
    if not ordered:
        counts = collections.Counter(ours)
        counts.subtract(theirs)
        ours = sorted((row for row, count in counts.items() for _ in range(count)), key=near)
        theirs = sorted((row for row, count in counts.items() for _ in range(-count)), key=near)
    if len(ours) != len(theirs):
        return ours, theirs
    pairs = [(a, b) for a, b in zip(ours, theirs) if len(a) != len(b) or not all(map(close, a, b))]
    return [a for a, _ in pairs], [b for _, b in pairs]


class Judge:
    """Asks both, counts, and makes findings small."""

    def __init__(self, server, reference):
        self.server, self.reference = server, reference
        self.counts, self.kinds, self.asked_at = collections.Counter(), collections.Counter(), None
        self.findings, self.excused = {}, 0
        self.ended = threading.Event()
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()

    def watch(self):
        """Ends what no deadline ends: the reference, then the server."""
        while not self.ended.wait(1):
            asked = self.asked_at
            if asked and time.monotonic() - asked > 2 * DEADLINE_S:
                self.reference.connection.interrupt()
            if asked and time.monotonic() - asked > 4 * DEADLINE_S:
                print("the server is killed, for it does not answer", flush=True)
                self.server.process.kill()

    def outcome(self, statement, ordered, times=1):
        """How the answers compare, and both; of several times the last one, whose plan was kept."""
        self.asked_at = time.monotonic()
        for _ in range(times):
            ours = self.server.ask(statement)
        theirs = self.reference.ask(statement)
        self.asked_at = None
        match ours[0], theirs[0]:
            case "failed", other:
                # What DuckDB does not answer in time either is too much work.
                slow = "too slow" if other == "rows" else "too much work"
                how = slow if ours[1].startswith("57014") else "failed"
                if how != "failed":
                    self.rest()
            case "rows", "rows":
                how = "differs" if any(apart(ours[1], theirs[1], ordered)) else "same"
                if how == "differs" and ordered and not any(apart(ours[1], theirs[1], False)):
                    how = "in another order"
            case _, "rows":
                how = f"only Basalt: {ours[0]}"
            case "rows", _:
                how = "only DuckDB"
            case _:
                how = "neither"
        return how, ours, theirs

    def rest(self):
        """Waits until the server answers: what passed its deadline may go on, and hold the only thread."""
        for _ in range(12):
            if self.server.ask("SELECT count(*) FROM t0")[0] == "rows":
                return
        raise Ended("the server is busy for two minutes after a deadline")

    def judge(self, query, where):
        """Counts how a query is answered, and reports what is wrong."""
        statement = str(query)
        how, ours, theirs = self.outcome(statement, query.ordered, 3 if self.counts.total() % 25 == 0 else 1)
        self.counts[how] += 1
        if how.startswith("only"):
            kind = refusal(how, ours, theirs)
            self.kinds[kind] += 1
            if self.kinds[kind] == 1 and self.verbose:
                query = self.smallest(query, lambda *told: refusal(*told) == kind)
                print(f"{kind}\n    {query}", flush=True)
        if how in WRONG:
            if any(re.search(pattern, statement) for pattern, excused in EXCUSED if excused == how):
                self.counts["excused"] += 1
                self.excused += how == "failed"
                return
            if how == "failed":
                print(f"failed, {where}\n  {statement}\n  {ours[1]}", flush=True)
                # A connection that closes may be the server's end, which takes a moment.
                time.sleep(1)
            if self.server.process.poll() is not None:
                self.report(statement, where, how, ours, theirs, "")
                raise Ended(f"the server ended: {self.server.process.returncode}")
            query = self.smallest(query, lambda again, *_: again == how)
            text, rows = str(query), self.rows(query, how)
            self.report(text, where, how, *self.outcome(text, query.ordered)[1:], rows)

    def smallest(self, query, still):
        """The query with as little as is still answered in the same way."""
        until = time.monotonic() + SHRINK_S
        going = True
        while going and time.monotonic() < until:
            going = False
            for other in smaller(query):
                if time.monotonic() > until:
                    break
                if len(str(other)) < len(str(query)) and still(*self.outcome(str(other), other.ordered)):
                    query, going = other, True
                    break
        return query

    def rows(self, query, how):
        """The tables with as few rows and columns as still show it, as statements."""
        text, out = str(query), []
        for table in sorted(set(re.findall(r"(?<![.\w])(t\d) AS a", text))):
            ids = [row[0] for row in self.reference.ask(f"SELECT id FROM {table} ORDER BY id")[1]]
            names = [row[0] for row in self.reference.ask(f"DESCRIBE {table}")[1]]
            names = [name for name in names if re.search(rf"\b{name}\b", text)] or names[:1]
            copied = re.sub(rf"(?<![.\w]){table} AS a", "small AS a", text)

            def shown(kept):
                listed = ", ".join(map(str, kept)) or "NULL"
                for asked in (self.server.ask, self.reference.ask):
                    asked("DROP TABLE IF EXISTS small")
                    asked(f"CREATE TABLE small AS SELECT {', '.join(names)} FROM {table} WHERE id IN ({listed})")
                return self.outcome(copied, query.ordered)[0] == how

            until, step = time.monotonic() + SHRINK_S / 2, len(ids)
            if len(ids) > 5_000 or not shown(ids):
                out.append(f"{table} is not made smaller")
                continue
            while step >= 1 and time.monotonic() < until:
                for at in range(0, len(ids), step):
                    kept = ids[:at] + ids[at + step :]
                    if len(kept) < len(ids) and shown(kept):
                        ids = kept
                        break
                else:
                    step //= 2
            shown(ids)
            types = ", ".join(f"{row[0]} {row[1]}" for row in self.server.ask("DESCRIBE small")[1] if isinstance(row, tuple))
            out.append(f"{table} ({types}): {self.server.ask('SELECT * FROM small')[1][:12]}")
        return "\n    ".join(out)

    def report(self, text, where, how, ours, theirs, rows):
        sign = how + re.sub(r"'[^']*'|\b[a-z]+\d+\b|\d+", "_", text)
        if sign in self.findings:
            return
        self.findings[sign] = text
        if how == "differs":
            lost, found = apart(ours[1], theirs[1], False)
            ours, theirs = (f"{len(rows)} rows, of which differ {of[:6]}" for (_, rows), of in ((ours, lost), (theirs, found)))
        print(f"{how}, {where}\n  {text}\n    {rows}\n  Basalt: {short(ours)}\n  DuckDB: {short(theirs)}", flush=True)


def refusal(how, ours, theirs):
    """What kind of refusal an answer is, without the names and numbers in it."""
    told = (theirs if how == "only DuckDB" else ours)[1]
    if not isinstance(told, str):
        return how
    return how + ": " + re.sub(r"'[^']*'|\"[^\"]*\"|\b[a-z]+\d+(\.\w+)?\b|-?\d+(\.\d+)?", "_", told)[:70]


def short(answer):
    if isinstance(answer, str):
        return answer
    return f"{len(answer[1])} rows {answer[1][:8]}" if answer[0] == "rows" else f"{answer[0]}: {answer[1][:300]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("basalt")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--statements", type=int, default=1 << 60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--round", type=int, default=0, help="the first of the rounds")
    parser.add_argument("--nodes", type=int, default=1, help="so many, by tasks at all of them")
    parser.add_argument("--verbose", action="store_true", help="a statement for each kind of refusal")
    arguments = parser.parse_args()
    started, told = time.monotonic(), time.monotonic()
    until = started + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        server, number = Server(arguments.basalt, folder, arguments.nodes), arguments.round
        judge = Judge(server, Reference(folder))
        judge.verbose = arguments.verbose
        asked = 0
        try:
            while time.monotonic() < until and asked < arguments.statements:
                where = f"seed {arguments.seed}, round {number}"
                try:
                    tables = Round(arguments.seed, number, judge.server, judge.reference)
                    for _ in range(ROUND // 4 if tables.large else ROUND):
                        judge.judge(tables.statements.statement(), where)
                        asked += 1
                        if time.monotonic() > until or asked >= arguments.statements:
                            break
                    tables.drop()
                except Apart as error:
                    judge.counts["rounds that ended early"] += 1
                    print(f"{where}: {error}", flush=True)
                except Ended as error:
                    judge.findings[where] = str(error)
                    print(f"failed, {where}: {error}\n{server.log.read_text(errors='replace')[-2000:]}", flush=True)
                    judge.server.stop()
                    judge.server = Server(arguments.basalt, folder, arguments.nodes)
                number += 1
                if time.monotonic() > told + 60:
                    told = time.monotonic()
                    both = sum(judge.counts[how] for how in ("same", *WRONG))
                    rate = asked / (told - started)
                    print(f"{asked:,} statements, {rate:.0f} a second, {both / asked:.1%} answered by both", flush=True)
        finally:
            judge.ended.set()
            judge.watcher.join()
            judge.server.stop()
            judge.reference.connection.close()
        panics = [line for line in server.log.read_text(errors="replace").splitlines() if "panicked at" in line]
    print(f"seed {arguments.seed}: {asked:,} statements in {number - arguments.round} rounds, {time.monotonic() - started:.0f} s")
    print(", ".join(f"{how} {count:,}" for how, count in judge.counts.most_common()))
    for kind, count in judge.kinds.most_common(20):
        print(f"  {count:6,} {kind}")
    print("\n".join(panics[:10]), end="\n" if panics else "")
    sys.exit(1 if judge.findings or len(panics) > judge.excused else 0)


main()
