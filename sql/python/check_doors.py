"""Tries Arrow Flight SQL and HTTP as their users do, and compares with DuckDB.

    check_doors.py <the binary `basalt`> <an empty folder> <the folder of nycflights13> [<the folder of Doors.java>]
"""

import base64
import datetime as dt
import decimal
import io
import json
import math
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight
import adbc_driver_manager
import duckdb
import pandas
import pyarrow
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from secured import Secured

TABLES = ["flights", "airlines", "planes", "weather"]
BY_HOUR = """
SELECT a.name, date_trunc('hour', f.time_hour) AS hour, count(*) AS n, avg(f.dep_delay) AS late
FROM flights f JOIN airlines a ON f.carrier = a.carrier
WHERE f.month = 2 AND f.day <= 3 GROUP BY a.name, date_trunc('hour', f.time_hour) ORDER BY a.name, hour
"""
SQL, LINES, CSV = "application/sql", "application/x-ndjson", "text/csv"
ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server with both doors."""

    def __init__(self, binary, folder):
        self.binary = binary
        self.clients, self.http = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        args = [binary, "serve", "--store", folder, "--listen", self.clients, "--metrics-listen", self.http]
        self.process = subprocess.Popen([*args, "--log", "warn"])
        for _ in range(600):
            try:
                if self.get("/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit("the server does not start")

    def get(self, path, method="GET", body=None, headers=None):
        request = urllib.request.Request(f"http://{self.http}{path}", body, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, error.read(), dict(error.headers)

    def curl(self, sql, accept=LINES, *more):
        """The answer to a statement, as curl has it."""
        command = ["curl", "--silent", "--show-error", "--fail-with-body", f"http://{self.http}/v1/sql", *more]
        command += ["-H", f"Content-Type: {SQL}", "-H", f"Accept: {accept}", "--data-binary", sql]
        done = subprocess.run(command, capture_output=True)
        assert done.returncode == 0, (sql, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def load(self, table, media_type, body):
        status, answer, _ = self.get(f"/v1/tables/{table}", "POST", body, {"Content-Type": media_type})
        return status, json.loads(answer)


def plain(value):
    """A value as both have it."""
    if isinstance(value, pandas.Timestamp):
        value = value.to_pydatetime()
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.timezone.utc).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, str) and len(value) == 20 and value.endswith("Z") and value[10] == "T":
        return dt.datetime.fromisoformat(value[:-1])
    return value


def same(what, ours, theirs):
    ours, theirs = [[tuple(map(plain, row)) for row in rows] for rows in (ours, theirs)]
    assert len(ours) == len(theirs), f"{what}: {len(ours)} rows, DuckDB has {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        for x, y in zip(a, b, strict=True):
            close = isinstance(x, float) and isinstance(y, float) and (math.isclose(x, y, rel_tol=1e-9) or x != x and y != y)
            assert x == y or close, f"{what}: row {i}: {a}, DuckDB has {b}"
    print(f"{what}: {len(ours)} rows as DuckDB")


def rows_of(table):
    return list(zip(*[column.to_pylist() for column in table.columns])) if table.num_columns else []


def raises(what, kind, words, work):
    try:
        work()
    except kind as error:
        assert words in str(error), f"{what}: {error}"
        return
    raise AssertionError(f"{what}: no error")


def adbc(server, duck):
    with flight.connect(f"grpc://{server.clients}", autocommit=True) as connection, connection.cursor() as cursor:
        # Tables come as they are in DuckDB: new ones, from Arrow.
        for table in TABLES:
            rows = duck.sql(f"FROM {table}").to_arrow_table().to_reader(max_chunksize=65536)
            count = cursor.adbc_ingest(table, rows, mode="create")
            assert count == duck.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0], (table, count)
        cursor.execute(BY_HOUR)
        same("ADBC, flights with airlines by hour", cursor.fetchall(), duck.sql(BY_HOUR).fetchall())
        for table in TABLES:
            cursor.execute(f"SELECT * FROM {table}")
            ours = sorted(rows_of(cursor.fetch_arrow_table()), key=repr)
            theirs = sorted(duck.sql(f"FROM {table}").fetchall(), key=repr)
            if table != "flights":
                same(f"ADBC, all of {table}", sorted(ours, key=repr), theirs)
            else:
                assert len(ours) == len(theirs)

        # Parameters, of a query and of many runs of one.
        by = "SELECT count(*), min(dep_delay) FROM flights WHERE carrier = $1 AND distance > $2"
        for parameters in [("UA", 1000), ("HA", 0), ("none", 5)]:
            cursor.execute(by, parameters)
            same(f"ADBC, parameters {parameters}", cursor.fetchall(), duck.execute(by, parameters).fetchall())
        # Columns are of the types that the parameters make them.
        for given in [(7,), (0.5,)]:
            cursor.execute("SELECT distance + $1 AS d FROM flights ORDER BY 1 LIMIT 3", given)
            expected = duck.execute("SELECT distance + ? AS d FROM flights ORDER BY 1 LIMIT 3", given).fetchall()
            same(f"ADBC, a column of {given}", cursor.fetchall(), expected)
        cursor.execute("SELECT CAST($1 AS timestamp) AS a, CAST($2 AS bigint) IS NULL AS b", (dt.datetime(2013, 1, 1), None))
        same("ADBC, a time and a null", cursor.fetchall(), [(dt.datetime(2013, 1, 1), True)])

        # What there is.
        objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        known = objects[0]["catalog_db_schemas"][0]["db_schema_tables"]
        assert [table["table_name"] for table in known] == sorted(TABLES), known
        columns = [column["column_name"] for column in known[0]["table_columns"]]
        assert columns == ["carrier", "name"], columns
        filtered = connection.adbc_get_objects(depth="tables", table_name_filter="f%").read_all().to_pylist()
        assert [t["table_name"] for t in filtered[0]["catalog_db_schemas"][0]["db_schema_tables"]] == ["flights"]
        schema = connection.adbc_get_table_schema("airlines")
        assert schema.names == ["carrier", "name"], schema
        info = connection.adbc_get_info()
        assert info["vendor_name"] == "Basalt", info
        assert connection.adbc_get_table_types() == ["TABLE"]

        # Modes of ingest.
        small = pyarrow.table({"i": [1, 2, 3], "t": ["a", None, "c"]})
        error = adbc_driver_manager.Error
        raises("append to none", error, "no table", lambda: cursor.adbc_ingest("made", small, mode="append"))
        assert cursor.adbc_ingest("made", small, mode="create") == 3
        raises("create twice", error, "exists", lambda: cursor.adbc_ingest("made", small, mode="create"))
        assert cursor.adbc_ingest("made", small, mode="append") == 3
        assert cursor.adbc_ingest("made", small, mode="create_append") == 3
        cursor.execute("SELECT count(*), sum(i) FROM made")
        assert cursor.fetchone() == (9, 18)
        wrong = pyarrow.table({"i": [1.5], "t": ["x"]})
        raises("a value that does not fit", error, "is no int64", lambda: cursor.adbc_ingest("made", wrong, mode="append"))
        dictionary = pyarrow.table({"t": pyarrow.array(["x", "x", None]).dictionary_encode(), "i": pyarrow.array([1, 2, 3], pyarrow.int8())})
        assert cursor.adbc_ingest("made", dictionary, mode="append") == 3
        assert cursor.adbc_ingest("made", small, mode="replace") == 3
        cursor.execute("SELECT i, t FROM made ORDER BY i")
        assert cursor.fetchall() == [(1, "a"), (2, None), (3, "c")]

        # Statements that write.
        cursor.execute("INSERT INTO made VALUES (4, 'd'), (5, 'e')")
        cursor.executemany("INSERT INTO made VALUES ($1, $2)", [(i, f"row {i}") for i in range(6, 26)])
        cursor.execute("DELETE FROM made WHERE i = $1", (5,))
        cursor.execute("UPDATE made SET t = 'z' WHERE i = 4")
        cursor.execute("SELECT count(*), sum(i), max(t) FROM made")
        assert cursor.fetchone() == (24, 320, "z")
        version = json.loads(server.get("/v1/tables/made")[1])["version"]
        raises("one of many rows is wrong", error, "", lambda: cursor.executemany("INSERT INTO made VALUES ($1, 1 / $2)", [("26", "1"), ("27", "0")]))
        assert json.loads(server.get("/v1/tables/made")[1])["version"] == version

        # Errors have their reasons, and the connection goes on.
        raises("no table", error, "nowhere", lambda: cursor.execute("SELECT * FROM nowhere"))
        raises("no SQL", error, "", lambda: cursor.execute("SELEC 1"))
        raises("division", error, "zero", lambda: (cursor.execute("SELECT i / (i - 1) FROM made"), cursor.fetchall()))
        cursor.execute("SELECT 1 AS one")
        assert cursor.fetchall() == [(1,)]
        frame = pandas.read_sql("SELECT name FROM airlines WHERE carrier = 'UA'", connection)
        assert frame["name"].tolist() == ["United Air Lines Inc."], frame
    print("ADBC: parameters, ingest, objects, schemas, info and errors")


def http(server, duck):
    theirs = duck.sql(BY_HOUR).fetchall()
    names = [column[0] for column in duck.sql(BY_HOUR).description]
    lines = [json.loads(line) for line in server.curl(BY_HOUR).splitlines()]
    assert list(lines[0]) == names, lines[0]
    same("curl, JSON lines", [tuple(line.values()) for line in lines], theirs)
    same("curl, JSON", [tuple(row.values()) for row in json.loads(server.curl(BY_HOUR, "application/json"))], theirs)
    frame = pandas.read_csv(io.BytesIO(server.curl(BY_HOUR, CSV)), parse_dates=["hour"])
    same("pandas, CSV", [tuple(None if v != v else v for v in row) for row in frame.itertuples(index=False)], theirs)
    frame = pandas.read_json(io.BytesIO(server.curl(BY_HOUR)), lines=True)
    assert len(frame) == len(theirs)
    same("pyarrow, Arrow stream", rows_of(pyarrow.ipc.open_stream(server.curl(BY_HOUR, ARROW)).read_all()), theirs)
    parquet = server.curl(BY_HOUR, PARQUET)
    same("pyarrow, Parquet", rows_of(pyarrow.parquet.read_table(io.BytesIO(parquet))), theirs)
    files = {"answer.parquet": parquet, "answer.csv": server.curl(BY_HOUR, CSV), "answer.ndjson": server.curl(BY_HOUR)}
    for name, content in files.items():
        path = Path(server.folder) / name
        path.write_bytes(content)
        ours = duck.sql(f"SELECT * FROM '{path}'").fetchall()
        same(f"DuckDB, {name}", ours, theirs)

    status, body, headers = server.get("/v1/sql?parameters=%5B%22UA%22%2C1000%5D", "POST",
        b"SELECT count(*) AS n FROM flights WHERE carrier = $1 AND distance > $2", {"Content-Type": SQL})
    expected = duck.execute("SELECT count(*) FROM flights WHERE carrier = 'UA' AND distance > 1000").fetchall()[0][0]
    assert (status, json.loads(body)) == (200, {"n": expected}), body
    assert {name.lower(): value for name, value in headers.items()}["content-type"] == LINES, headers
    by = "SELECT count(*) AS n FROM flights WHERE carrier = $1 AND distance > $2"
    assert json.loads(server.curl(by, LINES, "-H", 'Basalt-Parameters: ["UA", 1000]')) == {"n": expected}

    # Loads, in every format, all or nothing.
    rows = duck.sql("FROM airlines ORDER BY carrier").to_arrow_table()
    sink = io.BytesIO()
    with pyarrow.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    arrow = sink.getvalue()
    sink = io.BytesIO()
    pyarrow.parquet.write_table(rows, sink)
    sink_csv = io.BytesIO()
    pyarrow.csv.write_csv(rows, sink_csv)
    ndjson = "".join(json.dumps(row) + "\n" for row in rows.to_pylist()).encode()
    with flight.connect(f"grpc://{server.clients}", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE loaded (carrier TEXT, name TEXT)")
        assert cursor.fetchall() == [(0,)]
    total = 0
    for media_type, body in [(ARROW, arrow), (PARQUET, sink.getvalue()), (CSV, sink_csv.getvalue()), (LINES, ndjson)]:
        status, answer = server.load("loaded", media_type, body)
        assert (status, answer["rows"]) == (200, rows.num_rows) and answer["version"] > 0, (media_type, status, answer)
        total += rows.num_rows
        status, answer = server.load("loaded", media_type, body[: len(body) * 2 // 3])
        assert status == 400 and answer["error"]["reason"] == "INVALID_BATCH", (media_type, status, answer)
        assert json.loads(server.curl("SELECT count(*) AS n FROM loaded")) == {"n": total}, media_type
    groups = "SELECT carrier, name, count(*) AS n FROM loaded GROUP BY carrier, name ORDER BY carrier"
    answered = [tuple(json.loads(line).values()) for line in server.curl(groups).splitlines()]
    same("HTTP, rows loaded in four formats", answered, [(*row, 4) for row in rows_of(rows)])

    # What there is.
    listed = json.loads(server.get("/v1/tables")[1])
    assert [table["name"] for table in listed["tables"]] == sorted([*TABLES, "made", "loaded"]), listed
    page = json.loads(server.get("/v1/tables?limit=2&after=flights")[1])
    assert [table["name"] for table in page["tables"]] == ["loaded", "made"] and page["next"] == "made", page
    table = json.loads(server.get("/v1/tables/airlines")[1])
    assert table["rows"] == 16 and [c["name"] for c in table["columns"]] == ["carrier", "name"], table

    # Errors, and what a page in a browser may not.
    def refused(status, reason, path, method="POST", body=b"SELECT 1", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        got, answer, _ = server.get(path, method, body, headers)
        assert (got, json.loads(answer)["error"]["reason"]) == (status, reason), (path, got, answer)

    refused(404, "TABLE_NOT_FOUND", "/v1/sql", body=b"SELECT * FROM nowhere", Content_Type=SQL)
    refused(400, "INVALID_QUERY", "/v1/sql", body=b"SELEC 1", Content_Type=SQL)
    refused(422, "DIVISION_BY_ZERO", "/v1/sql", body=b"SELECT i / (i - 1) FROM made", Content_Type=SQL)
    refused(415, "PROTOCOL", "/v1/sql")
    refused(415, "PROTOCOL", "/v1/sql", Content_Type="text/plain")
    refused(415, "PROTOCOL", "/v1/tables/loaded", body=ndjson, Content_Type="text/plain")
    refused(403, "PERMISSION_DENIED", "/v1/sql", Content_Type=SQL, Origin="http://127.0.0.1")
    refused(406, "PROTOCOL", "/v1/sql", Content_Type=SQL, Accept="text/html")
    refused(404, "TABLE_NOT_FOUND", "/v1/tables/nowhere", body=ndjson, Content_Type=LINES)
    refused(400, "COLUMN_NOT_FOUND", "/v1/tables/loaded", body=b"no\n1\n", Content_Type=CSV)
    refused(504, "DEADLINE_EXCEEDED", "/v1/sql?deadline_ms=30", body=b"SELECT count(*) FROM flights a, flights b WHERE a.dep_delay < b.arr_delay", Content_Type=SQL)

    # An answer that fails on its way is cut off: curl says so.
    late = "SELECT carrier, 1 / (CASE WHEN rank = 300000 THEN 0 ELSE 1 END) AS x FROM (SELECT *, row_number() OVER (ORDER BY time_hour, carrier, flight) AS rank FROM flights) u"
    command = ["curl", "--silent", f"http://{server.http}/v1/sql", "-H", f"Content-Type: {SQL}", "--data-binary", late, "--max-time", "60"]
    done = subprocess.run(command, capture_output=True)
    if done.returncode == 0:
        assert b"DIVISION_BY_ZERO" in done.stdout, done.stdout[-200:]
    else:
        assert done.returncode == 18, done.returncode
    print(f"HTTP: an answer that is not complete: curl ends with {done.returncode}")
    print("HTTP: loads, lists, errors and refusals")


def jdbc(server, folder, source):
    """Through the JDBC driver, where there is Java."""
    if not (shutil.which("java") and shutil.which("mvn") and shutil.which("javac")):
        print("JDBC: not tried, for there is no Java or no Maven")
        return
    # A single source file is run by `java` itself.
    artifact = "org.apache.arrow:flight-sql-jdbc-driver:18.3.0"
    done = subprocess.run(["mvn", "--quiet", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"], capture_output=True, text=True)
    jars = list(Path(folder).glob("flight-sql-jdbc-driver-*.jar"))
    if done.returncode != 0 or not jars:
        print(f"JDBC: not tried, for the driver cannot be had: {done.stdout[-300:]}{done.stderr[-300:]}")
        return
    open_module = "--add-opens=java.base/java.nio=ALL-UNNAMED"
    url = f"jdbc:arrow-flight-sql://{server.clients}/?useEncryption=false"
    done = subprocess.run(["java", open_module, "-cp", str(jars[0]), str(Path(source) / "Doors.java"), url], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    print(f"JDBC: {done.stdout.strip().splitlines()[-1]}")


def keys(binary, folder):
    """TLS and keys at both doors."""
    server = Secured(binary, folder)
    try:
        assert server.post("SELECT sum(a) AS n FROM t", server.reader) == (200, '{"n":6}\n')
        basic = base64.b64encode(f"anybody:{server.reader}".encode()).decode()
        assert server.get("/v1/sql", basic, b"SELECT 1 AS n", "Basic")[0] == 200
        for sql, key, status in [
            ("SELECT 1", None, 401), ("SELECT 1", "basalt_no", 401), ("SELECT * FROM secret", server.reader, 404),
            ("INSERT INTO t VALUES (4)", server.reader, 403), ("DROP TABLE t", server.reader, 403),
        ]:
            assert server.post(sql, key)[0] == status, (sql, server.post(sql, key))
        lines = {(line["who"], line["action"], line["object"], line["allowed"]) for line in server.audit()}
        wanted = [("admin", "create", 'table "secret"', True), ("reader", "drop", 'table "t"', False), ("reader", "write to", 'table "t"', False)]
        assert lines.issuperset(wanted), lines
        text = (server.secrets / "audit.log").read_text()
        assert server.reader not in text and server.admin not in text and '"address":"127.0.0.1:' in text
        assert [table["name"] for table in json.loads(server.get("/v1/tables", server.reader)[1])["tables"]] == ["t"]
        trust = {"adbc.flight.sql.client_option.tls_root_certs": Path(server.ca).read_text()}
        bearer = {"adbc.flight.sql.authorization_header": f"Bearer {server.reader}"}
        for options in (bearer, {"username": "reader", "password": server.reader}):
            with flight.connect(f"grpc+tls://{server.clients}", trust | options, autocommit=True) as connection:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT sum(a) FROM t")
                    assert cursor.fetchone() == (6,)
                    for sql in ("SELECT * FROM secret", "INSERT INTO t VALUES (4)"):
                        try:
                            cursor.execute(sql)
                            raise SystemExit(f"{sql}: done")
                        except adbc_driver_manager.Error:
                            pass
        for options in ({}, bearer | {"adbc.flight.sql.authorization_header": "Bearer no"}):
            try:
                with flight.connect(f"grpc+tls://{server.clients}", trust | options) as connection:
                    connection.cursor().execute("SELECT 1")
                raise SystemExit("let in without a key")
            except adbc_driver_manager.Error as error:
                assert "UNAUTHENTICATED" in str(error).upper(), error
    finally:
        server.close()
    print("TLS and keys: HTTP, ADBC by token and by password")


def main(binary, folder, data, java=None):
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    for table in TABLES:
        duck.execute(f"CREATE TABLE {table} AS SELECT * FROM read_csv('{data}/{table}.csv', nullstr = 'NA', header = true, sample_size = -1)")
    store = Path(folder) / "store"
    store.mkdir()
    server = Server(binary, str(store))
    server.folder = folder
    try:
        adbc(server, duck)
        http(server, duck)
        if java:
            jdbc(server, folder, java)
        assert server.get("/healthz")[0] == 200
    finally:
        server.process.terminate()
        server.process.wait()
    keys(binary, folder)
    print("both doors answer as DuckDB does")


if __name__ == "__main__":
    main(*sys.argv[1:])
