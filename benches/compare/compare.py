#!/usr/bin/env python3
"""Basalt beside DuckDB, chDB, Polars and DataFusion: the same data, the same questions, one thread each.

Prints bytes and times side by side as Markdown. Exit code 1: answers differ, or an engine failed.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
import time

import psutil

import answers
import data
import engines
import progress
import queries
import report

# The data sets: a title, the tables, the queries.
DATA = {
    "events": lambda args: (
        f"{args.rows:,} events",
        data.events(args.folder, args.rows),
        queries.events(args.rows),
    ),
    "groups": lambda args: (
        f"H2O's group-by, {args.rows // 10:,} rows"
        + (f", {args.cardinality:g} times as many groups" if args.cardinality != 1 else ""),
        data.groups(args.folder, max(args.rows // 10, 1), args.cardinality),
        queries.GROUPS,
    ),
    "tpch": lambda args: (
        f"TPC-H at scale {args.scale:g}, lineitem and orders",
        data.tpch(args.folder, args.scale),
        queries.TPCH,
    ),
    "ssb": lambda args: (
        f"Star Schema Benchmark at scale {args.scale:g}, joined",
        data.ssb(args.folder, args.scale),
        queries.SSB,
    ),
    "small": lambda args: (
        f"{args.rows:,} events, questions that take no time",
        data.events(args.folder, args.rows),
        queries.small(args.rows),
    ),
    "star": lambda args: (
        f"Star Schema Benchmark at scale {args.scale:g}, five tables",
        data.star(args.folder, args.scale, args.basalt),
        queries.star(),
    ),
}
# What Basalt has beside what others have: only where it is asked for.
OTHERS = ("basalt-sql", "basalt-3", "basalt-elastic", "basalt-plain")
ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass
class Options:
    """What an engine is given."""

    folder: pathlib.Path
    basalt: str
    memory: str
    runs: int


@dataclasses.dataclass
class Timing:
    """A query's best time."""

    seconds: float
    # The least by the server's own account, where there is a server.
    server_seconds: float | None
    # The least time that the engine's process kept processors busy. Other load on the machine hardly changes it.
    processor_seconds: float
    rows: list


@dataclasses.dataclass
class Held:
    """A table as an engine holds it."""

    rows: int
    bytes: int
    columns: dict | None
    load_seconds: float
    encodings: dict | None = None


@dataclasses.dataclass
class Result:
    """What one engine did."""

    name: str
    title: str
    version: str = ""
    tables: dict = dataclasses.field(default_factory=dict)
    queries: dict = dataclasses.field(default_factory=dict)
    # Queries that it could not answer, and why.
    refused: dict = dataclasses.field(default_factory=dict)
    resident_bytes: int = 0
    error: str | None = None


def measure(name, tables, questions, options):
    """Loads and asks one engine; runs in a process of its own."""
    result = Result(name, name)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=options.folder) as folder:
        try:
            engine = engines.create(name, dataclasses.replace(options, folder=pathlib.Path(folder)))
        except Exception as error:
            result.error = first_line(error)
            return result
        try:
            measure_engine(engine, tables, questions, options, result)
        except Exception as error:
            result.error = first_line(error)
        finally:
            engine.close()
    return result


def measure_engine(engine, tables, questions, options, result):
    result.title, result.version = engine.title, engine.version()
    for table in tables:
        rows = table.rows
        with progress.stage(f"{result.name}: loading {table.name}, {rows:,} rows"):
            started = time.perf_counter()
            engine.load(table)
            seconds = time.perf_counter() - started
        columns = engine.column_bytes(table)
        held = Held(rows, engine.table_bytes(table), columns, seconds, engine.column_encodings(table))
        result.tables[table.name] = held
    processes = engine.process_ids()
    engine.warm_up(questions.values())
    with progress.stage(f"{result.name}: {len(questions)} queries", len(questions)) as done:
        for at, (title, sql) in enumerate(questions.items()):
            done(at)
            try:
                result.queries[title] = timed(engine, sql, options.runs, processes)
            except Exception as error:
                result.refused[title] = first_line(error)
    result.resident_bytes = sum(psutil.Process(process).memory_info().rss for process in processes)


def timed(engine, sql, runs, processes):
    """The best times of one query, after a run to warm up, which gives the answer."""
    prepared = engine.prepare(sql)
    rows = answers.rows_of(engine.query(prepared), "ORDER BY" in sql)
    times = []
    for _ in range(runs):
        busy, started = processor_seconds(processes), time.perf_counter()
        engine.query(prepared)
        seconds = time.perf_counter() - started
        times.append((seconds, engine.server_seconds(), processor_seconds(processes) - busy))
    seconds, server, processor = (None if None in column else min(column) for column in zip(*times))
    return Timing(seconds, server, processor, rows)


def processor_seconds(processes):
    """What all threads of processes have kept processors busy: Linux's clocks of the processes."""
    return sum(time.clock_gettime(~process << 3 | 2) for process in processes)


def first_line(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def in_a_process(name, *arguments):
    """`measure`, where a crash harms nothing but its result."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        try:
            return pool.submit(measure, name, *arguments).result()
        except Exception as error:
            return Result(name, name, error=first_line(error))


def differing(results):
    """The answers that are not the first engine's: query, engine, its answer, the first one's."""
    found = []
    for title in dict.fromkeys(title for result in results for title in result.queries):
        first, *others = (result for result in results if title in result.queries)
        expected = first.queries[title].rows
        for other in others:
            if not answers.same(other.queries[title].rows, expected):
                found.append((title, other.name, other.queries[title].rows, first.name, expected))
    return found


def build():
    """Builds the server as it is shipped; where it then is."""
    subprocess.run(["cargo", "build", "--profile", "dist", "-p", "basalt-server"], cwd=ROOT, check=True)
    metadata = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    metadata = subprocess.run(metadata, cwd=ROOT, check=True, capture_output=True).stdout
    return str(pathlib.Path(json.loads(metadata)["target_directory"]) / "dist" / "basalt")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(name for name in DATA if name != "small"), help="data sets [default: %(default)s]")
    parser.add_argument("--rows", type=int, default=100_000_000, help="rows of events [default: 100000000]")
    parser.add_argument("--cardinality", type=float, default=1, help="of the groups, times what is usual [default: 1]")
    parser.add_argument("--scale", type=float, help="of tpch and ssb [default: ROWS / 10000000, at most 1]")
    parser.add_argument("--engines", default=",".join(name for name in engines.ENGINES if name not in OTHERS), help="engines [default: %(default)s]")
    parser.add_argument("--basalt", metavar="BINARY", help="the server [default: built with the profile dist]")
    parser.add_argument("--memory", default="8GiB", help="what Basalt may take [default: %(default)s]")
    parser.add_argument("--runs", type=int, default=5, help="the best of so many, after one [default: 5]")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything measured to this file")
    parser.add_argument(
        "--folder",
        type=pathlib.Path,
        default=pathlib.Path(tempfile.gettempdir()) / "basalt-compare",
        help="for the Parquet files, which are kept, and the engines' files [default: %(default)s]",
    )
    args = parser.parse_args()
    args.scale = args.scale or min(args.rows / 1e7, 1.0)
    args.engines = args.engines.split(",")
    args.data = args.data.split(",")
    for name in set(args.engines) - set(engines.ENGINES):
        parser.error(f"no engine {name}; there are {', '.join(engines.ENGINES)}")
    for name in set(args.data) - set(DATA):
        parser.error(f"no data set {name}; there are {', '.join(DATA)}")
    if args.rows < 1 or args.runs < 1 or args.scale < 0:
        parser.error("--rows, --runs and --scale are more than 0")
    return args


def main():
    args = arguments()
    args.folder.mkdir(parents=True, exist_ok=True)
    binary = args.basalt or ("basalt" in args.engines and build()) or ""
    args.basalt = binary or "basalt"
    options = Options(args.folder, binary and str(pathlib.Path(binary).resolve()), args.memory, args.runs)
    everything, healthy = {}, True
    print(report.head(report.machine(), args.runs))
    for name in args.data:
        title, tables, questions = DATA[name](args)
        results = [in_a_process(engine, tables, questions, options) for engine in args.engines]
        different = differing(results)
        print(report.section(title, tables, questions, results, different), flush=True)
        everything[name] = [dataclasses.asdict(result) for result in results]
        healthy = healthy and not different and not any(result.error or result.refused for result in results)
    if args.json:
        args.json.write_text(json.dumps({"machine": report.machine(), "data": everything}, indent=1, default=str))
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main())
