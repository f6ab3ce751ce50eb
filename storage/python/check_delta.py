"""Checks Basalt's tables with other programs for Delta Lake, and theirs with Basalt.

    check_delta.py <the example `delta`> <the binary `basalt`> <an empty folder>

What the example writes is read with deltalake (delta-rs, on DataFusion), with Polars, and with chDB (ClickHouse)
where that is installed. What deltalake writes is read with the example, and
followed by a server that has attached it.
"""

import datetime as dt
import decimal
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, QueryBuilder, write_deltalake

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def expected_row(i):
    if i % 7 == 3:
        return [i] + [None] * 14
    return [
        i,
        i % 2 == 0,
        i % 256 - 128,
        i % 65536 - 32768,
        -i * 1000,
        i % 256,
        65535 - i % 65536,
        2**32 - 1 - i,
        decimal.Decimal(2**64 - 1 - i),
        i % 1000 / 4,
        i / 8,
        (decimal.Decimal(i) * 101 - 50000) / 100,
        dt.date(1970, 1, 1) + dt.timedelta(days=i % 40000 - 10000),
        EPOCH + dt.timedelta(microseconds=i * 1_000_003 - 1_000_000_000),
        "long " * (i % 12) + f'"ü{i}',
    ]


SCHEMA = {
    "id": pl.Int64,
    "yes": pl.Boolean,
    "i8": pl.Int8,
    "i16": pl.Int16,
    "i32": pl.Int32,
    "u8": pl.Int16,
    "u16": pl.Int32,
    "u32": pl.Int64,
    "u64": pl.Decimal(20, 0),
    "f32": pl.Float32,
    "f64": pl.Float64,
    "price": pl.Decimal(18, 2),
    "day": pl.Date,
    "at": pl.Datetime("us", "UTC"),
    "text": pl.String,
}


def expected(deletions, versions):
    """The rows that the example writes (see `write` there)."""
    rows, first = [], 0
    for version in range(versions):
        n = 200_000 if version == 0 else 100
        for i in range(n):
            if not (deletions and (i % 11 == 5 or (version == 0 and i * i % 13 == 3))):
                rows.append(expected_row(first + i))
        first += n
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def same(what, found, wanted):
    found = found.select(wanted.columns).sort(wanted.columns[0])
    if not found.equals(wanted):
        different = [c for c in wanted.columns if not found[c].equals(wanted[c])] if found.height == wanted.height else ""
        sys.exit(f"{what}: {found.shape} instead of {wanted.shape}, columns {different}\n{found}\n{wanted}")
    print(f"{what}: {found.height} rows as expected")


def ask(table, query):
    batches = QueryBuilder().register("t", table).execute(query)
    return pl.DataFrame(pa.table(batches.read_all()))


def check_ours(example, folder):
    subprocess.run([example, "write", folder], check=True, stdout=subprocess.DEVNULL)
    try:
        import chdb
    except ImportError:
        chdb = None
        print("chDB: not installed, not checked")
    for name, deletions, versions in [
        ("plain", False, 3),
        ("checkpoint", False, 40),
        ("deletions", True, 3),
        ("both", True, 40),
    ]:
        path, wanted = f"{folder}/{name}", expected(deletions, versions)
        table = DeltaTable(path)
        assert table.transaction_version("basalt.nextFragment") == versions
        same(f"deltalake, {name}", ask(table, "select * from t").cast(SCHEMA), wanted)
        same(f"Polars, {name}", pl.scan_delta(path).collect().cast(SCHEMA), wanted)
        # What files are passed over by the log's statistics must not change an answer.
        for condition, keep in [
            ("id = 199999", pl.col("id") == 199_999),
            ("price >= 201600", pl.col("price") >= 201600),
            ("u64 > 18446744073709551000", pl.col("u64") > decimal.Decimal(18446744073709551000)),
            ("day = date '1950-01-01'", pl.col("day") == dt.date(1950, 1, 1)),
            ("f64 > 25000", pl.col("f64") > 25000),
            ("text = 'long \"ü200185'", pl.col("text") == 'long "ü200185'),
            ("at >= timestamp '1970-01-03T07:15:00Z'", pl.col("at") >= EPOCH + dt.timedelta(hours=55, minutes=15)),
            ("yes is null", pl.col("yes").is_null()),
        ]:
            rows = wanted.filter(keep)
            assert rows.height, condition
            same(f"deltalake, {name} where {condition}", ask(table, f"select * from t where {condition}").cast(SCHEMA), rows)
            same(f"Polars, {name} where {condition}", pl.scan_delta(path).filter(keep).collect().cast(SCHEMA), rows)
        if chdb:
            # It reads below its own folder alone. Its Parquet has times in its own zone's text; numbers and texts are enough.
            os.chdir(folder)
            query = f"select id, u64, price, f64, text from deltaLakeLocal('{path}')"
            found = pl.DataFrame(chdb.query(query, "ArrowTable")).with_columns(pl.col("text").cast(pl.String))
            columns = ["id", "u64", "price", "f64", "text"]
            same(f"chDB, {name}", found.cast({c: SCHEMA[c] for c in columns}), wanted.select(columns))


def check_rewritten(folder):
    """A table that asks for rewritten files is read by a reader that refuses deletion vectors, after a deletion."""
    path = f"{folder}/rewritten"
    wanted = pl.DataFrame([expected_row(i) for i in range(1000) if i % 3], schema=SCHEMA, orient="row")
    same("deltalake to_pyarrow_table, rewritten", pl.from_arrow(DeltaTable(path).to_pyarrow_table()).cast(SCHEMA), wanted)
    try:
        DeltaTable(f"{folder}/deletions").to_pyarrow_table()
    except Exception as refusal:
        print(f"deltalake to_pyarrow_table, deletions: refused as before ({type(refusal).__name__})")
    else:
        sys.exit("deltalake reads deletion vectors by now: README and storage/README.md say that it does not")


def check_altered(folder):
    """Tables whose columns have changed between two files. Whoever does not know a feature says so, and reads nothing."""
    ids = range(20)
    of = lambda name, i: f"{i} of {name}"
    base = {"id": list(ids), "n": list(ids), "text": [of("text", i) for i in ids]}
    mapped = {
        "id": list(ids),
        "n": list(ids),
        "label": [of("text" if i < 10 else "label", i) for i in ids],
        "gone_": [None if i < 10 else i for i in ids],
    }
    for name, columns in [
        ("nullable", {**base, "gone_": mapped["gone_"]}),
        ("widened", base),
        ("mapped", mapped),
    ]:
        path, wanted = f"{folder}/{name}", pl.DataFrame(columns).cast({"n": pl.Int64})
        for reader, read in [
            ("deltalake", lambda: ask(DeltaTable(path), "select * from t")),
            ("Polars", lambda: pl.scan_delta(path).collect()),
        ]:
            try:
                found = read()
            except Exception as refusal:
                if name == "nullable":
                    raise
                print(f"{reader}, {name}: refused ({str(refusal).splitlines()[0][:120]})")
                continue
            same(f"{reader}, {name}", found.cast({"n": pl.Int64}), wanted)


def check_page_checksums(folder):
    """The pages of data files and checkpoints have checksums, which other readers find right."""
    files = sorted(Path(folder).glob("*/*.parquet")) + sorted(Path(folder).glob("*/_delta_log/*.parquet"))
    for file in files:
        pq.read_table(file, page_checksum_verification=True)
    file = next(Path(folder).glob("rewritten/*.parquet"))
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    bad = bytearray(file.read_bytes())
    start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
    bad[start + column.total_compressed_size - 1] ^= 1
    damaged = Path(folder) / "damaged.parquet"
    damaged.write_bytes(bad)
    try:
        pq.read_table(damaged, page_checksum_verification=True)
    except OSError as refusal:
        print(f"pyarrow: the pages of {len(files)} files are as their checksums say; a damaged one: {refusal}")
    else:
        sys.exit("pyarrow reads a page whose checksum is wrong")


def check_times(folder):
    """The first and the last day that a table takes come back; times beyond them, which an older table may hold, have
    no bounds in the log, and keep nobody from the rest."""
    last = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.timezone.utc)
    rows = [
        (0, dt.date(1, 1, 1), dt.datetime(1, 1, 1, tzinfo=dt.timezone.utc), -math.inf),
        (1, dt.date(9999, 12, 31), last, math.inf),
        (2, None, None, None),
    ]
    schema = {"id": pl.Int64, "day": pl.Date, "at": pl.Datetime("us", "UTC"), "f64": pl.Float64}
    wanted = pl.DataFrame(rows, schema=schema, orient="row")
    path = f"{folder}/calendar"
    same("deltalake, the ends of the calendar", ask(DeltaTable(path), "select * from t").cast(schema), wanted)
    same("Polars, the ends of the calendar", pl.scan_delta(path).collect().cast(schema), wanted)
    for condition, keep in [
        ("day = date '9999-12-31'", pl.col("day") == dt.date(9999, 12, 31)),
        ("day < date '1900-01-01'", pl.col("day") < dt.date(1900, 1, 1)),
        ("at >= timestamp '9999-12-31T23:59:59Z'", pl.col("at") >= last.replace(microsecond=0)),
        ("f64 > 0", pl.col("f64") > 0),
    ]:
        # DataFusion counts timestamps in literals in nanoseconds, which end in 2262.
        if not condition.startswith("at"):
            found = ask(DeltaTable(path), f"select * from t where {condition}").cast(schema)
            same(f"deltalake, {condition}", found, wanted.filter(keep))
        same(f"Polars, {condition}", pl.scan_delta(path).filter(keep).collect().cast(schema), wanted.filter(keep))

    path = f"{folder}/beyond"
    # It makes dates of the log's bounds, and panics where its calendar has none.
    if DeltaTable(path).to_pyarrow_dataset().count_rows() != 3:
        sys.exit("deltalake, times beyond the calendar: not three rows")
    wanted = pl.DataFrame({"id": [0, 1]})
    found = ask(DeltaTable(path), "select id from t where day is not null and at is not null").cast(wanted.schema)
    same("deltalake, times beyond the calendar", found, wanted)
    known = pl.col("day").is_not_null() & pl.col("at").is_not_null()
    same("Polars, times beyond the calendar", pl.scan_delta(path).filter(known).select("id").collect(), wanted)


def read_with_basalt(example, path):
    done = subprocess.run([example, "read", path], capture_output=True, text=True)
    if done.returncode:
        return done.stderr
    lines = done.stdout.splitlines()
    return sorted(lines[1:])


def check_theirs(example, folder):
    def same_rows(what, path, rows):
        found = read_with_basalt(example, path)
        wanted = sorted("|".join("NULL" if v is None else str(v) for v in row) for row in rows)
        if found != wanted:
            sys.exit(f"Basalt, {what}:\n{found[:5]}\ninstead of\n{wanted[:5]}")
        print(f"Basalt, {what}: {len(wanted)} rows as expected")

    path = f"{folder}/theirs"
    rows = [(i, None if i % 5 == 0 else f"text {i}", i % 3 == 0) for i in range(1000)]
    frame = lambda rows: pl.DataFrame(rows, schema={"n": pl.Int64, "t": pl.String, "b": pl.Boolean}, orient="row")
    text = lambda rows: [(n, t, str(b).lower()) for n, t, b in rows]
    write_deltalake(path, frame(rows[:500]).to_arrow())
    write_deltalake(path, frame(rows[500:]).to_arrow(), mode="append")
    same_rows("two appends", path, text(rows))
    DeltaTable(path).delete("n % 10 = 7")
    rows = [row for row in rows if row[0] % 10 != 7]
    same_rows("a delete that rewrites files", path, text(rows))
    DeltaTable(path).create_checkpoint()
    same_rows("a checkpoint", path, text(rows))
    write_deltalake(path, frame([(5000, "new", False)]).to_arrow(), mode="append")
    rows.append((5000, "new", False))
    same_rows("an append behind the checkpoint", path, text(rows))
    table = DeltaTable(path)
    table.update(updates={"t": "'changed'"}, predicate="n < 3")
    rows = [(n, "changed" if n < 3 else t, b) for n, t, b in rows]
    same_rows("an update", path, text(rows))
    table.optimize.compact()
    same_rows("a compaction", path, text(rows))

    # Partitions, whose values stand in the log, with names that need escapes in a path.
    path = f"{folder}/partitioned"
    names = ["plain", "a b", "ü/%", "x=1:2", None]
    days = [dt.date(2024, 2, 29), dt.date(1969, 12, 31)]
    rows = [(i, names[i % 5], days[i % 2], decimal.Decimal(i % 3) / 4) for i in range(60)]
    schema = {"n": pl.Int32, "name": pl.String, "day": pl.Date, "d": pl.Decimal(5, 2)}
    write_deltalake(path, pl.DataFrame(rows, schema=schema, orient="row").to_arrow(), partition_by=["name", "day", "d"])
    same_rows("partitions", path, [(n, name, day, f"{d:.2f}") for n, name, day, d in rows])

    # A column that came later, and times without a zone.
    path = f"{folder}/evolved"
    at = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)
    write_deltalake(path, pl.DataFrame({"n": [1], "at": [at]}).to_arrow())
    write_deltalake(path, pl.DataFrame({"n": [2], "at": [at], "x": [2.5]}).to_arrow(), mode="append", schema_mode="merge")
    stamp = "2024-05-06T07:08:09.123456Z"
    same_rows("a column that came later", path, [(1, stamp, None), (2, stamp, "2.5")])

    # They write to a table of ours, too: their files become fragments.
    path = f"{folder}/plain"
    before = len(read_with_basalt(example, path))
    table = DeltaTable(path)
    one = ask(table, "select * from t where id = 5")
    write_deltalake(path, one.to_arrow(), mode="append", commit_properties=CommitProperties(custom_metadata={"x": "y"}))
    after = read_with_basalt(example, path)
    if len(after) != before + 1 or sum(row.startswith("5|") for row in after) != 2:
        sys.exit("Basalt does not see the row that deltalake added to its table")
    print(f"Basalt, its own table with a row from deltalake: {len(after)} rows as expected")

    # Nested columns are JSON text; bytes and wide decimals are shown in the form in which they are held.
    path = f"{folder}/nested"
    lists = pa.array([[1, None], None, []], pa.list_(pa.int64()))
    structs = pa.array([{"x": 1.5, "y z": "a\"b"}, {"x": None, "y z": None}, None], pa.struct([("x", pa.float64()), ("y z", pa.string())]))
    maps = pa.array([[("k", [True])], [], None], pa.map_(pa.string(), pa.list_(pa.bool_())))
    days = pa.array([[dt.date(2024, 2, 29)], None, None], pa.list_(pa.date32()))
    write_deltalake(path, pa.table({"n": [1, 2, 3], "l": lists, "s": structs, "m": maps, "d": days}))
    same_rows("nested columns", path, [
        (1, "[1,null]", '{"x":1.5,"y z":"a\\"b"}', '{"k":[true]}', '["2024-02-29"]'),
        (2, None, '{"x":null,"y z":null}', "{}", None),
        (3, "[]", None, None, None),
    ])
    path = f"{folder}/wide"
    wide = pa.array([decimal.Decimal("12345678901234567890.5"), decimal.Decimal("-0.5"), None], pa.decimal128(38, 1))
    write_deltalake(path, pa.table({"d": wide, "b": pa.array([b"\x00\xff", b"", None], pa.binary())}))
    same_rows("wide decimals and bytes", path, [
        ("1" + "123456789012345678905".zfill(38), "00ff"), ("0" + str(10**38 - 1 - 5), ""), (None, None)])


def check_attached(basalt, folder):
    """A server follows tables whose columns deltalake changes, and is not deceived by one that is written anew."""
    serve = [basalt, "serve", "--store", f"{folder}/store", "--attach-root", str(folder), "--listen", "127.0.0.1:0", "--log-format", "json"]
    server = subprocess.Popen(serve, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        lines = (json.loads(line) for line in server.stderr)
        address = next(line["address"] for line in lines if line["message"] == "listening")
        environment = {**os.environ, "BASALT_SERVER": f"http://{address}", "NO_COLOR": "1"}

        def command(*arguments):
            done = subprocess.run([basalt, *arguments], env=environment, capture_output=True, text=True)
            return done.stdout if done.returncode == 0 else done.stderr

        def eventually(what, query, wanted, timeout=30):
            until = time.time() + timeout
            while wanted not in (found := command("query", query, "--format", "csv")):
                if time.time() > until:
                    sys.exit(f"attached, {what}: {found!r} instead of {wanted!r}")
                time.sleep(0.2)
            print(f"attached, {what}: as expected")

        while "STARTING" in command("tables"):
            time.sleep(0.1)
        path = f"{folder}/attached"
        write_deltalake(path, pa.table({"p": ["x", "y"], "a": [1, 2], "b": [10, 20]}), partition_by=["p"])
        print(command("attach", "t", path).strip())
        every = "SELECT sum(a), sum(b) FROM t"
        eventually("as it was", every, "\n3,30\n")
        more = pa.table({"p": ["x"], "n": [100], "b": [30], "a": [3]})
        write_deltalake(path, more, mode="append", schema_mode="merge", partition_by=["p"])
        eventually("a merged schema", "SELECT sum(a), sum(b), sum(n), count(n) FROM t", "\n6,60,100,1\n")
        eventually("a filter by partition", "SELECT sum(a), sum(n) FROM t WHERE p = 'x'", "\n4,100\n")
        eventually("groups", "SELECT p, sum(b) FROM t GROUP BY p ORDER BY p", "\nx,40\ny,20\n")
        fewer = pa.table({"b": [5, 6], "p": ["x", "z"]})
        write_deltalake(path, fewer, mode="overwrite", schema_mode="overwrite", partition_by=["p"])
        eventually("fewer columns", "SELECT sum(b), count(p) FROM t", "\n11,2\n")
        eventually("a column that is gone", "SELECT sum(a) FROM t", "COLUMN_NOT_FOUND")
        nested = pa.table({"b": [5], "p": ["x"], "nested": [[1, 2]]})
        write_deltalake(path, nested, mode="append", schema_mode="merge", partition_by=["p"])
        eventually("a nested column", "SELECT sum(b), max(nested) FROM t", '\n16,"[1,2]"\n')
        fewer = pa.table({"b": [7], "p": ["x"]})
        write_deltalake(path, fewer, mode="overwrite", schema_mode="overwrite", partition_by=["p"])
        eventually("mended", "SELECT sum(b), count(*) FROM t", "\n7,1\n")

        # Types that are held in the form of others are what they are in the files.
        path = f"{folder}/types.parquet"
        types = pa.table({
            "a b": pa.array([1, 2, 3], pa.int32()),
            "d": pa.array([decimal.Decimal("12345678901234567890.5"), decimal.Decimal("-0.5"), None], pa.decimal128(38, 1)),
            "b": pa.array([b"\x00\xff", b"", None], pa.binary()),
            "t": pa.array([dt.time(23, 59, 59, 999999), dt.time(0), None], pa.time64("us")),
        })
        pq.write_table(types, path)
        command("load", "types", path)
        found = command("query", "SELECT * FROM types", "--format", "csv")
        wanted = 'a b,d,b,t\n1,12345678901234567890.5,00ff,23:59:59.999999\n2,-0.5,"",00:00:00\n3,,,\n'
        if found != wanted:
            sys.exit(f"types: {found!r} instead of {wanted!r}")
        ours = next(Path(f"{folder}/store/tables").glob("types-*"))
        wanted = pl.from_arrow(types).with_columns(pl.Series("t", [86_399_999_999, 0, None], pl.Int64))
        same("deltalake, types", ask(DeltaTable(ours), "select * from t").cast(wanted.schema), wanted)
        same("Polars, types", pl.scan_delta(str(ours)).collect().cast(wanted.schema), wanted)

        # Deleted, and written anew in its place.
        path = f"{folder}/anew"
        write_deltalake(path, pa.table({"a": [1, 2, 3, 4]}))
        print(command("attach", "u", path).strip())
        eventually("before it is gone", "SELECT count(*) FROM u", "\n4\n")
        shutil.rmtree(path)
        eventually("gone", "SELECT count(*) FROM u", "STORE_UNAVAILABLE")
        write_deltalake(path, pa.table({"a": [5]}))
        eventually("another one", "SELECT count(*) FROM u", "drop it and attach it again")
        command("drop", "u")
        print(command("attach", "u", path).strip())
        eventually("attached again", "SELECT count(*), sum(a) FROM u", "\n1,5\n")
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    check_ours(sys.argv[1], sys.argv[3])
    check_rewritten(sys.argv[3])
    check_altered(sys.argv[3])
    check_page_checksums(sys.argv[3])
    check_times(sys.argv[3])
    check_theirs(sys.argv[1], sys.argv[3])
    check_attached(sys.argv[2], sys.argv[3])
