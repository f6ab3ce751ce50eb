#!/usr/bin/env python3
"""Overload: a server on one processor, and a load that knows no mercy on another. scripts/overload runs it.

For each operation the peak is what a closed load gets answered. Then requests come at times that are fixed beforehand,
whether or not others were answered: at 0.7 of the peak, at 2, 5 and 10 times, and at 0.7 again at once. Goodput is what
is answered in time; latencies count from the fixed times. Every answer is checked by the load. Beside each of these
loads health, metrics and a delete by keys are asked for once a second: they must always be answered, or the script fails.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from probe import Beside, Delete, Health, KEYS, Metrics

CONNECTIONS = 16
FACTORS = [0.7, 2, 5, 10, 0.7]
WARM_UP = 2
DEADLINE = "10s"
# The table whose rows are deleted beside the load, and the seconds for which it has some.
PROBED, PROBED_SECONDS = "overload_probe", 10_000


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def pinned(processor, command):
    return ["taskset", "-c", str(processor), *command]


class Server:
    """A server in memory, on the first processor."""

    def __init__(self, basalt):
        self.basalt, self.port, self.http = basalt, free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        serve = [basalt, "serve", "--store", "memory:", "--listen", self.address, "--threads", "1", "--log", "warn"]
        serve += ["--metrics-listen", f"127.0.0.1:{self.http}"]
        self.process = subprocess.Popen(pinned(0, serve))
        for _ in range(100):
            if subprocess.run(self.client("health"), capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        else:
            sys.exit("the server has not started")
        with tempfile.TemporaryDirectory() as folder:
            rows = pathlib.Path(folder) / "rows.csv"
            rows.write_text("id\n" + "".join(f"{i}\n" for i in range(PROBED_SECONDS * KEYS)))
            subprocess.run(self.client("load", PROBED, str(rows)), check=True, capture_output=True)
        self.questions = [Health(self.port), Metrics(self.http), Delete(self.port, PROBED, "id")]

    def client(self, *words):
        return [self.basalt, "--server", self.address, "--timeout", DEADLINE, *words]

    def bench(self, operation, rows, seconds, rate=None):
        """What became of one load of one operation, and how many answers were wrong."""
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            words = ["bench", "--keep", "--allow-failures", "--mix", f"{operation}=1", "--rows", str(rows), "--connections", str(CONNECTIONS)]
            words += ["--warm-up", f"{WARM_UP}s", "--duration", f"{seconds}s", "--json", str(report)]
            words += ["--rate", f"{rate:.1f}"] if rate else []
            done = subprocess.run(pinned(1, self.client(*words)), capture_output=True, text=True)
            if not report.exists():
                sys.exit(f"bench failed: {done.stderr}")
            report = json.loads(report.read_text())
            (one,) = report["operations"]
            return one, report["wrong_answers"]["count"]


def milliseconds(latencies, name):
    return f"{latencies[name] / 1000:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("basalt")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--operations", default="filter,group,point")
    parser.add_argument("--rows", type=int, default=4_000_000)
    arguments = parser.parse_args()
    # With the load: the server has its processor alone.
    os.sched_setaffinity(0, {1})
    server = Server(arguments.basalt)
    wrong, unanswered = 0, []
    try:
        print(
            "| operation | load | a second | answered a second | of the peak | p50 ms | p99 ms | refused: p99 ms | errors "
            "| health: p99 ms | metrics: p99 ms | delete: p99 ms | of these failed |"
        )
        print("|---|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|")
        for operation in arguments.operations.split(","):
            # Columns that are read often get faster forms where a processor has time for it.
            server.bench(operation, arguments.rows, arguments.seconds, rate=20)
            at_peak, _ = server.bench(operation, arguments.rows, arguments.seconds)
            peak = at_peak["per_second"]
            print(f"| {operation} | peak | | {peak:.0f} | 100 % | | | | | | | | |", flush=True)
            for factor in FACTORS:
                with Beside(server.questions) as beside:
                    one, false = server.bench(operation, arguments.rows, arguments.seconds, peak * factor)
                wrong += false
                unanswered += beside.failures()
                errors = ", ".join(f"{reason} {count}" for reason, count in sorted(one["errors"].items()))
                refused = milliseconds(one["failed_us"], "p99") if one["failed"] else ""
                cells = [operation, f"{factor:g}x", f"{peak * factor:.0f}", f"{one['per_second']:.0f}"]
                cells += [f"{100 * one['per_second'] / peak:.0f} %", milliseconds(one["latency_us"], "p50")]
                cells += [milliseconds(one["latency_us"], "p99"), refused, errors]
                cells += [prober.p99() for prober in beside.probers] + [str(len(beside.failures()))]
                print("| " + " | ".join(cells) + " |", flush=True)
    finally:
        server.process.terminate()
        server.process.wait()
    for failure in unanswered[:20]:
        print(f"not answered: {failure}", file=sys.stderr)
    if wrong or unanswered:
        sys.exit(f"{wrong} wrong answers, and {len(unanswered)} probes without theirs")


main()
