#!/usr/bin/env python3
"""Overload: a server on one processor, and a load that knows no mercy on another. scripts/overload runs it.

For each operation the peak is what a closed load gets answered. Then requests come at times that are fixed beforehand,
whether or not others were answered: at 0.7 of the peak, at 2, 5 and 10 times, and at 0.7 again at once. Goodput is what
is answered in time; latencies count from the fixed times. Every answer is checked by the load.
"""

import argparse
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

CONNECTIONS = 16
FACTORS = [0.7, 2, 5, 10, 0.7]
WARM_UP = 2
DEADLINE = "10s"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def pinned(processor, command):
    return ["taskset", "-c", str(processor), *command]


class Server:
    """A server in memory, on the first processor."""

    def __init__(self, basalt):
        self.basalt, self.address = basalt, f"127.0.0.1:{free_port()}"
        serve = [basalt, "serve", "--store", "memory:", "--listen", self.address, "--threads", "1", "--log", "warn"]
        self.process = subprocess.Popen(pinned(0, serve))
        for _ in range(100):
            if subprocess.run(self.client("health"), capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        sys.exit("the server has not started")

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
    server = Server(arguments.basalt)
    wrong = 0
    try:
        print("| operation | load | a second | answered a second | of the peak | p50 ms | p99 ms | refused: p99 ms | errors |")
        print("|---|--:|--:|--:|--:|--:|--:|--:|---|")
        for operation in arguments.operations.split(","):
            # Columns that are read often get faster forms where a processor has time for it.
            server.bench(operation, arguments.rows, arguments.seconds, rate=20)
            at_peak, _ = server.bench(operation, arguments.rows, arguments.seconds)
            peak = at_peak["per_second"]
            print(f"| {operation} | peak | | {peak:.0f} | 100 % | | | | |", flush=True)
            for factor in FACTORS:
                one, false = server.bench(operation, arguments.rows, arguments.seconds, peak * factor)
                wrong += false
                errors = ", ".join(f"{reason} {count}" for reason, count in sorted(one["errors"].items()))
                refused = milliseconds(one["failed_us"], "p99") if one["failed"] else ""
                cells = [operation, f"{factor:g}x", f"{peak * factor:.0f}", f"{one['per_second']:.0f}"]
                cells += [f"{100 * one['per_second'] / peak:.0f} %", milliseconds(one["latency_us"], "p50")]
                cells += [milliseconds(one["latency_us"], "p99"), refused, errors]
                print("| " + " | ".join(cells) + " |", flush=True)
    finally:
        server.process.terminate()
        server.process.wait()
    if wrong:
        sys.exit(f"{wrong} wrong answers")


main()
