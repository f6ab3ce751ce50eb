#!/usr/bin/env python3
"""Answers the queries of the Star Schema Benchmark with DuckDB and writes golden.json.

    pip install duckdb    # golden.json: 2.0.0
    cargo build
    python3 server/tests/ssb/golden.py target/debug/basalt

The tables are those that `basalt generate` writes. In DuckDB a reference is a join with the table that it names, under
the column's own name: `lo_orderdate.d_year` is then a column there, and the queries stay as they are.
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile

import duckdb

HERE = pathlib.Path(__file__).resolve().parent
QUERIES = HERE.parents[1] / "src" / "demo" / "ssb.sql"
SCALE = "0.2"
REFERENCES = {
    "lo_custkey": ("customer", "c_custkey"),
    "lo_partkey": ("part", "p_partkey"),
    "lo_suppkey": ("supplier", "s_suppkey"),
    "lo_orderdate": ("date", "d_datekey"),
}


def queries():
    """(name, SQL) in the file's order."""
    for text in QUERIES.read_text().split("-- ")[1:]:
        title, sql = text.split("\n", 1)
        yield title.split(":")[0], sql.strip().removesuffix(";")


def joined(sql):
    """The query with a join for each reference that it uses."""
    used = [column for column in REFERENCES if f"{column}." in sql]
    joins = "".join(
        f' JOIN "{table}" AS {column} ON lineorder.{column} = {column}.{key}'
        for column, (table, key) in ((column, REFERENCES[column]) for column in used)
    )
    return re.sub(r"FROM lineorder\b", f"FROM lineorder{joins}", sql)


def tables(connection, folder):
    for file in sorted(pathlib.Path(folder).glob("*.parquet")):
        connection.execute(f"CREATE TABLE \"{file.stem}\" AS SELECT * FROM '{file}'")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("basalt", help="the binary")
    arguments = parser.parse_args()
    connection = duckdb.connect()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([arguments.basalt, "generate", "ssb", folder, "--scale", SCALE], check=True)
        tables(connection, folder)
    answers = {name: connection.sql(joined(sql)).fetchall() for name, sql in queries()}
    with open(HERE / "golden.json", "w") as out:
        out.write("{\n")
        for i, (name, rows) in enumerate(answers.items()):
            lines = ",\n    ".join(json.dumps(list(row)) for row in rows)
            lines = f"\n    {lines}\n  " if rows else ""
            comma = "," if i + 1 < len(answers) else ""
            out.write(f"  {json.dumps(name)}: [{lines}]{comma}\n")
        out.write("}\n")
    print(f"{len(answers)} queries, {sum(map(len, answers.values()))} rows")


if __name__ == "__main__":
    main()
