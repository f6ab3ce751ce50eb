"""Times SQL of Basalt beside DuckDB and DataFusion, one thread each, on the same files.

    speed.py <the binary `basalt`> <an empty folder> <scale> [ssb|tpch ...]

Answers are compared with DuckDB's. A time is the client's: the best of five, with the whole answer fetched as Arrow.
DataFusion is asked twice, on tables in memory and on the Parquet files. Basalt is asked by Flight SQL.
"""

import datetime as dt
import statistics
import subprocess
import sys
import time
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import datafusion
import duckdb

from check_sql import HERE, difference, free_port, statements

TIMES = 5


def best(ask):
    taken = []
    for _ in range(TIMES):
        started = time.perf_counter()
        answer = ask()
        taken.append(time.perf_counter() - started)
        if sum(taken) > 20:
            break
    return min(taken) * 1000, answer


def as_text(value):
    return value.isoformat() if isinstance(value, dt.date) else value


def rows_of(table, shown):
    return [[shown(value) for value in row.values()] for row in table.to_pylist()]


def serve(binary, store):
    address = f"127.0.0.1:{free_port()}"
    server = subprocess.Popen(
        [binary, "serve", "--store", store, "--listen", address, "--log", "warn", "--threads", "1"]
    )
    for _ in range(300):
        if subprocess.run([binary, "--server", address, "health"], capture_output=True).returncode == 0:
            return address, server
        time.sleep(0.1)
    raise TimeoutError("the server does not start")


def in_memory(tables):
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    for table, path in tables.items():
        context.register_record_batches(table, [context.read_parquet(str(path)).collect()])
    return context


def on_parquet(tables):
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    for table, path in tables.items():
        context.register_parquet(table, str(path))
    return context


def main():
    binary, folder, scale = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    wrong = 0
    for data in sys.argv[4:] or ["ssb", "tpch"]:
        files = folder / data
        subprocess.run([binary, "generate", data, str(files), "--scale", scale], check=True, capture_output=True)
        tables = {path.stem: path for path in sorted(files.glob("*.parquet"))}
        reference = duckdb.connect(config={"threads": 1})
        for table, path in tables.items():
            reference.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet('{path}')")
        address, server = serve(binary, str(folder / f"{data}-store"))
        try:
            for table, path in tables.items():
                subprocess.run([binary, "--server", address, "load", table, str(path)], check=True, capture_output=True)
            cursor = flight_sql.connect(f"grpc://{address}").cursor()
            others = [in_memory(tables), on_parquet(tables)]
            rows = []
            print(f"\n| {data} {scale} | Basalt | DuckDB | DataFusion, memory | DataFusion, Parquet |\n|---|--:|--:|--:|--:|")
            for name, sql in statements(HERE / f"{data}.sql"):
                def ask():
                    cursor.execute(sql)
                    return cursor.fetch_arrow_table()

                theirs, expected = best(lambda: reference.execute(sql).to_arrow_table())
                try:
                    ours, answer = best(ask)
                    found = difference(rows_of(answer, as_text), rows_of(expected, lambda value: value))
                except Exception as error:
                    ours, found = float("nan"), str(error)[:200]
                if found:
                    wrong += 1
                    print(f"{name} differs: {found}")
                def of(context):
                    try:
                        return best(lambda: context.sql(sql).collect())[0]
                    except Exception:
                        return float("nan")

                row = [ours, theirs, *map(of, others)]
                rows.append(row)
                print(f"| {name} | " + " | ".join(f"{t:.1f}" for t in row) + " |", flush=True)
            sums = [sum(t for t in column if t == t) for column in zip(*rows)]
            print("| sum | " + " | ".join(f"{t:.0f}" for t in sums) + " |")
            means = [statistics.geometric_mean([a / b for a, b in zip((r[0] for r in rows), c) if a == a and b == b])
                     for c in list(zip(*rows))[1:]]
            print("| geometric mean of ratios |  | " + " | ".join(f"{t:.2f}" for t in means) + " |")
        finally:
            server.terminate()
            server.wait(timeout=60)
    sys.exit(f"{wrong} differ" if wrong else 0)


if __name__ == "__main__":
    main()
