"""Compares SQL over Basalt with DuckDB on the same files.

    check_sql.py <the binary `basalt`> <an empty folder> <scale>

The tables of the Star Schema Benchmark, of TPC-H and of ClickBench are generated, loaded into one server and into a cluster of three,
and read by DuckDB from the files. Every statement of ssb.sql, tpch.sql and hits.sql must give the same rows: integers, decimals,
dates and texts as they are, floats to 1e-9 of themselves.
"""

import datetime as dt
import decimal
import json
import math
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import duckdb

import hits

HERE = Path(__file__).resolve().parent

# Rows of ClickBench's table at scale 1.
HITS = 2_000_000


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Servers:
    """So many nodes over one store."""

    def __init__(self, binary, folder, nodes, distribute):
        self.binary = binary
        clients = [f"127.0.0.1:{free_port()}" for _ in range(nodes)]
        peers = [f"127.0.0.1:{free_port()}" for _ in range(nodes)]
        self.addresses, self.running = clients, []
        for client, peer in zip(clients, peers):
            args = [binary, "serve", "--store", folder, "--listen", client, "--log", "warn"]
            args += ["--distribute", distribute]
            if nodes > 1:
                args += ["--peer-listen", peer, "--peers", ",".join(peers), "--replication", "1"]
            self.running.append(subprocess.Popen(args))
        for address in clients:
            for _ in range(300):
                if self.run(address, "health").returncode == 0:
                    break
                time.sleep(0.1)

    def run(self, address, *args):
        return subprocess.run([self.binary, "--server", address, *args], capture_output=True, text=True)

    def load(self, table, path):
        done = self.run(self.addresses[0], "load", table, str(path))
        assert done.returncode == 0, f"{table}: {done.stderr}"

    def ask(self, address, sql):
        done = self.run(address, "query", sql, "--format", "json")
        if done.returncode != 0:
            raise ValueError(done.stderr.strip())
        return [list(row.values()) for row in json.loads(done.stdout)]

    def stop(self):
        for server in self.running:
            server.terminate()
        for server in self.running:
            server.wait(timeout=60)


def statements(path):
    for name, sql in re.findall(r"^-- (\w+)\n(.*?);$", path.read_text(), re.M | re.S):
        yield name, sql


def same(ours, theirs):
    if ours is None or theirs is None:
        return ours is None and theirs is None
    if isinstance(theirs, bool) or isinstance(theirs, str):
        return ours == theirs
    if isinstance(theirs, decimal.Decimal) and isinstance(ours, str):
        return decimal.Decimal(ours) == theirs
    if isinstance(theirs, int) and not isinstance(ours, float):
        return int(ours) == theirs
    if isinstance(theirs, (int, float, decimal.Decimal)):
        return math.isclose(float(ours), float(theirs), rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(theirs, dt.datetime):
        return ours.rstrip("Z") == theirs.isoformat()
    assert isinstance(theirs, dt.date), theirs
    return ours[:10] == theirs.isoformat()


def difference(ours, theirs):
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, DuckDB has {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if len(a) != len(b) or not all(map(same, a, b)):
            return f"row {i} is {a}, DuckDB has {list(b)}"
    return None


def main():
    binary, folder, scale = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    wrong = 0
    for data in "ssb", "tpch", "hits":
        files = folder / data
        if data == "hits":
            hits.generate(files, int(float(scale) * HITS))
        else:
            done = subprocess.run([binary, "generate", data, str(files), "--scale", scale], stdout=subprocess.DEVNULL)
            assert done.returncode == 0, data
        tables = {path.stem: path for path in sorted(files.glob("*.parquet"))}
        reference = duckdb.connect()
        for table, path in tables.items():
            reference.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet('{path}')")
        # As it is by itself, where so little runs at one node, and with all that can be as tasks on all.
        for nodes, distribute in (1, "large"), (3, "large"), (3, "always"):
            servers = Servers(binary, str(folder / f"{data}-{nodes}-{distribute}"), nodes, distribute)
            try:
                for table, path in tables.items():
                    servers.load(table, path)
                if data != "hits":
                    largest = {"ssb": "lineorder", "tpch": "lineitem"}[data]
                    assert "REFERENCES" in str(servers.ask(servers.addresses[0], f"SHOW CREATE TABLE {largest}"))
                asked = rows = tasks = 0
                for i, (name, sql) in enumerate(statements(HERE / f"{data}.sql")):
                    address = servers.addresses[i % nodes]
                    try:
                        expected = reference.execute(sql).fetchall()
                        rows += len(expected)
                        # From the third time on its plan is one that was kept.
                        answers = [servers.ask(address, sql) for _ in range(1 if distribute == "always" else 3)]
                        found = next(filter(None, (difference(answer, expected) for answer in answers)), None)
                        if distribute == "always":
                            plan = servers.ask(address, f"EXPLAIN {sql}")
                            tasks += any("DistributedExec" in str(row) for row in plan)
                    except ValueError as error:
                        found = str(error)
                    asked += 1
                    if found:
                        wrong += 1
                        print(f"{data} {name} on {nodes} nodes ({distribute}): {found}")
                told = f", {tasks} as tasks" if distribute == "always" else ""
                print(f"{data} on {nodes} node{'s' if nodes > 1 else ''}: {asked} statements, {rows} rows{told}")
            finally:
                servers.stop()
    sys.exit(f"{wrong} differ" if wrong else 0)


if __name__ == "__main__":
    main()
