#!/usr/bin/env python3
"""Statements that are given up. scripts/cancel runs it.

Heavy statements are cancelled at random moments, or have a deadline that passes then. 20 ms later the server should be at
rest: what its threads still take of the processors in the next 60 ms is work for nobody. Fails where more than one in a
thousand goes on.
"""

import argparse
import collections
import pathlib
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "client" / "python"))

import grpc

from basalt.v1 import sql_pb2, sql_pb2_grpc

GRACE_S, LOOK_S = 0.020, 0.060
# Of the processors while it is looked: what a server at rest may take.
REST_S = 0.003
# After which a statement is given up, at most.
LONGEST_S = 0.5
STATEMENTS = {
    "many groups": "SELECT k, count(*), sum(f) FROM t GROUP BY k ORDER BY 2 DESC LIMIT 5",
    "distinct": "SELECT count(DISTINCT id), count(DISTINCT k) FROM t",
    "join": "SELECT count(*), sum(a.f) FROM t a JOIN t b ON a.k = b.id WHERE b.f > 10",
    "outer join": "SELECT a.s, count(b.id) FROM t a LEFT JOIN t b ON a.id = b.k AND b.k % 3 = 0 GROUP BY a.s",
    "sort": "SELECT id, k FROM t ORDER BY k, f DESC, id OFFSET 5000000 LIMIT 3",
    "window": "SELECT max(n) FROM (SELECT row_number() OVER (PARTITION BY s ORDER BY k) AS n FROM t)",
    "text": "SELECT count(*) FROM t WHERE regexp_matches(s || k, '7+.*[24]$')",
    "all rows": "SELECT * FROM t",
    "median": "SELECT s, median(f), quantile_cont(f, 0.9) FROM t GROUP BY s",
    "subquery": "SELECT count(*) FROM t WHERE k IN (SELECT id FROM t WHERE f < 900000) AND s NOT IN (SELECT s FROM t WHERE id % 5000 = 3)",
}


class Server:
    def __init__(self, basalt):
        command = [basalt, "serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--log", "info"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "listening" in line:
                address = next(word for word in line.split() if word.startswith("address="))
                break
        else:
            sys.exit("the server has not started")
        # Whoever reads no log keeps the server waiting.
        threading.Thread(target=collections.deque, args=(self.process.stderr, 0), daemon=True).start()
        self.channel = grpc.insecure_channel(address.removeprefix("address="))
        self.sql = sql_pb2_grpc.SqlServiceStub(self.channel)

    def cpu(self):
        """Seconds that each of its threads has run, but for the one that gives free memory back to the system."""
        ran = {}
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                if not (task / "comm").read_text().startswith("jemalloc"):
                    ran[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e9
            except (FileNotFoundError, ProcessLookupError):
                pass
        return ran

    def run(self, statement, timeout=None):
        for _ in self.sql.Query(sql_pb2.SqlRequest(sql=statement), timeout=timeout):
            pass


def trial(server, statement, chance, longest):
    """Whether its work has ended in time, and what it took of the processors after that; `None`: it was over before."""
    after = chance.uniform(0.005, longest)
    has_deadline = chance.random() < 0.5
    request = sql_pb2.SqlRequest(sql=statement)
    started = time.monotonic()
    call = server.sql.Query(request, timeout=after if has_deadline else None)
    time.sleep(max(0, started + after - time.monotonic()))
    call.cancel()
    if call.code() == grpc.StatusCode.OK:
        return None
    time.sleep(GRACE_S)
    before = server.cpu()
    time.sleep(LOOK_S)
    return sum(ran - before.get(thread, 0) for thread, ran in server.cpu().items())


def main():
    parse = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parse.add_argument("basalt", help="the program")
    parse.add_argument("--trials", type=int, default=1000)
    parse.add_argument("--rows", type=int, default=10_000_000)
    parse.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options = parse.parse_args()
    print(f"seed {options.seed}", flush=True)
    chance, server = random.Random(options.seed), Server(options.basalt)
    late, tried, worst = collections.Counter(), collections.Counter(), collections.Counter()
    try:
        server.run(
            f"""CREATE TABLE t AS SELECT range AS id, range * 7919 % 1000003 AS k, 'v' || range % 1000 AS s, range / 3.0 AS f
            FROM range({options.rows})"""
        )
        taken = {}
        for name, statement in STATEMENTS.items():
            started = time.monotonic()
            try:
                server.run(statement, timeout=10)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise
            taken[name] = time.monotonic() - started
        while sum(tried.values()) < options.trials:
            name = chance.choice(list(STATEMENTS))
            more = trial(server, STATEMENTS[name], chance, min(0.9 * taken[name], LONGEST_S))
            if more is None:
                continue
            tried[name] += 1
            if more > REST_S:
                late[name] += 1
                worst[name] = max(worst[name], more)
                # The next begins when this one is over.
                time.sleep(0.5)
            if sys.stderr.isatty():
                print(f"\r\x1b[K{sum(tried.values()):,} tried, {sum(late.values())} late", end="", file=sys.stderr)
    finally:
        server.process.kill()
    print("| statement | takes s | given up | goes on after 20 ms | most, ms of processor in 60 |")
    print("|---|--:|--:|--:|--:|")
    for name in STATEMENTS:
        print(f"| {name} | {taken[name]:.2f} | {tried[name]} | {late[name]} | {worst[name] * 1000:.0f} |")
    share = sum(late.values()) / sum(tried.values())
    print(f"{sum(late.values())} of {sum(tried.values()):,} go on for more than 20 ms, {share:.2%}")
    sys.exit(share > 0.001)


if __name__ == "__main__":
    main()
