"""Asks a Basalt server through PostgreSQL's protocol with real clients, and compares with DuckDB.

    check_postgres.py <the binary `basalt`> <the folder with the CSV files of nycflights13>
"""

import asyncio
import datetime as dt
import decimal
import math
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import asyncpg
import duckdb
import pandas
import psycopg
import psycopg2
import sqlalchemy

import check_copy
from secured import Secured

TABLES = ["airlines", "airports", "flights", "planes", "weather"]

BY_HOUR = """
SELECT a.name, extract(hour FROM f.time_hour) AS hour, count(*) AS n, sum(f.distance) AS far, avg(f.dep_delay) AS late
FROM flights f JOIN airlines a ON f.carrier = a.carrier GROUP BY 1, 2 ORDER BY 1, 2
"""
WITH_WEATHER = """
SELECT a.name, date_trunc('day', f.time_hour) AS day, count(*) AS n, max(w.wind_speed) AS wind
FROM flights f JOIN airlines a USING (carrier) JOIN weather w ON w.origin = f.origin AND w.time_hour = f.time_hour
WHERE w.wind_speed > 35 GROUP BY 1, 2 ORDER BY 1, 2
"""
# As Grafana's data source for PostgreSQL expands $__timeGroup and $__timeFilter.
GRAFANA = """
SELECT floor(extract(epoch from time_hour)/86400)*86400 AS "time", carrier AS metric, count(*) AS value FROM flights
WHERE time_hour BETWEEN '2013-03-01T00:00:00Z' AND '2013-03-31T23:59:59Z' GROUP BY 1, 2 ORDER BY 1, 2
"""
GRAFANA_TABLES = """
SELECT CASE WHEN quote_ident(table_schema) IN (
  SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
  FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1),
    array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
    string_to_array(current_setting('search_path'),',') s
) THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
FROM information_schema.tables
WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache')
ORDER BY CASE WHEN quote_ident(table_schema) = 'public' THEN 0 ELSE 1 END, 1
"""
GRAFANA_COLUMNS = """
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
WHERE CASE WHEN array_length(parse_ident('airlines'),1) = 2
  THEN quote_ident(table_schema) = (parse_ident('airlines'))[1] AND quote_ident(table_name) = (parse_ident('airlines'))[2]
  ELSE quote_ident(table_name) = 'airlines' AND quote_ident(table_schema) IN (
    SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
    FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1),
      array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
      string_to_array(current_setting('search_path'),',') s)
END
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, binary, files):
        self.grpc, self.port = f"127.0.0.1:{free_port()}", free_port()
        args = [binary, "serve", "--store", "memory:", "--listen", self.grpc, "--log", "warn"]
        self.process = subprocess.Popen([*args, "--postgres", f"127.0.0.1:{self.port}"])
        for _ in range(300):
            if subprocess.run([binary, "--server", self.grpc, "health"], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        for table in TABLES:
            path = os.path.join(files, f"{table}.csv")
            subprocess.run([binary, "--server", self.grpc, "load", table, path], check=True, capture_output=True)

    def url(self, driver=""):
        return f"postgresql{driver}://somebody@127.0.0.1:{self.port}/basalt"


def plain(value):
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return value


def same(ours, theirs):
    ours, theirs = plain(ours), plain(theirs)
    if isinstance(theirs, float) and ours is not None:
        return math.isclose(float(ours), theirs, rel_tol=1e-9)
    if isinstance(theirs, dt.date) and isinstance(ours, dt.datetime):
        return ours == dt.datetime(theirs.year, theirs.month, theirs.day)
    return ours == theirs


def compare(name, ours, theirs):
    ours, theirs = [list(row) for row in ours], [list(row) for row in theirs]
    assert len(ours) == len(theirs), f"{name}: {len(ours)} rows, DuckDB has {len(theirs)}"
    for a, b in zip(ours, theirs):
        assert len(a) == len(b) and all(map(same, a, b)), f"{name}: {a}, DuckDB has {b}"
    print(f"{name}: {len(ours)} rows")


def refused(code, run):
    try:
        run()
    except Exception as error:  # noqa: BLE001 - each driver has its own
        told = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        assert told == code, f"{told} instead of {code}: {error}"
        return error
    raise AssertionError(f"no error {code}")


def psql(server, *args):
    done = subprocess.run(["psql", "-X", server.url(), *args], capture_output=True, text=True)
    assert done.returncode == 0, f"psql {args}: {done.stderr}"
    assert "ERROR" not in done.stderr, f"psql {args}: {done.stderr}"
    return done.stdout


def check_psql(server, reference):
    out = psql(server, "-At", "-F", "\t", "-c", BY_HOUR)
    numbers = [int, int, int, float]
    rows = [line.split("\t") for line in out.splitlines()]
    rows = [[row[0], *(of(value) if value else None for of, value in zip(numbers, row[1:]))] for row in rows]
    compare("psql", rows, reference.execute(BY_HOUR).fetchall())
    assert "flights" in psql(server, "-c", r"\dt")
    table = psql(server, "-c", r"\d flights")
    assert "time_hour" in table and "timestamp with time zone" in table, table
    assert "flights" in psql(server, "-c", r"\d")
    assert "pg_class" in psql(server, "-c", r"\dS")
    assert "basalt" in psql(server, "-c", r"\l")
    for command in [r"\d+ flights", r"\dn", r"\du", r"\df", r"\di", r"\dv", r"\dT", r"\conninfo", r"\dt+", r"\d+"]:
        psql(server, "-c", command)
    several = psql(server, "-At", "-c", "BEGIN; SELECT 1; COMMIT; SELECT 2")
    assert several.split() == ["BEGIN", "1", "COMMIT", "2"], several
    wrong = subprocess.run(
        ["psql", "-X", server.url(), "-c", "SELECT nothing FROM flights"], capture_output=True, text=True
    )
    assert "ERROR:" in wrong.stderr and "LINE 1: SELECT nothing" in wrong.stderr, wrong.stderr


def check_psycopg(server, reference):
    with psycopg.connect(server.url()) as connection:
        for binary in False, True:
            cursor = connection.cursor(binary=binary)
            name = f"psycopg, {'binary' if binary else 'text'}"
            compare(name, cursor.execute(BY_HOUR).fetchall(), reference.execute(BY_HOUR).fetchall())
            compare(name, cursor.execute(WITH_WEATHER).fetchall(), reference.execute(WITH_WEATHER).fetchall())
            asked = """SELECT count(*) FROM flights WHERE carrier = %b AND month = %b AND distance < %b
                AND time_hour >= %b AND dep_delay IS NOT NULL""" if binary else """SELECT count(*) FROM flights
                WHERE carrier = %t AND month = %t AND distance < %t AND time_hour >= %t AND dep_delay IS NOT NULL"""
            values = ("UA", 3, decimal.Decimal("1000.5"), dt.datetime(2013, 3, 15, tzinfo=dt.timezone.utc))
            expected = "SELECT count(*) FROM flights WHERE carrier = ? AND month = ? AND distance < ? AND time_hour >= ? " \
                "AND dep_delay IS NOT NULL"
            theirs = reference.execute(expected, [*values[:2], 1000.5, values[3].replace(tzinfo=None)]).fetchall()
            compare(name, cursor.execute(asked, values).fetchall(), theirs)
        types = "SELECT true, 1.5, 2.5::double precision, 'é', date '2013-07-04', CAST(NULL AS BIGINT), 7"
        expected = (True, decimal.Decimal("1.5"), 2.5, "é", dt.date(2013, 7, 4), None, 7)
        assert connection.execute(types).fetchone() == expected
        wide = "SELECT CAST('ab' AS BYTEA), CAST('10:20:30' AS TIME), CAST('-1.5' AS DECIMAL(38, 10))"
        for binary in False, True:
            row = connection.cursor(binary=binary).execute(wide).fetchone()
            assert row == (b"ab", dt.time(10, 20, 30), decimal.Decimal("-1.5")), row
        lists = "SELECT ARRAY[1, NULL], ARRAY['a b', 'NULL', '', NULL], '{}'::int[], [DATE '2024-02-29'], INTERVAL '3 days 04:05:06'"
        span = dt.timedelta(days=3, hours=4, minutes=5, seconds=6)
        for binary in False, True:
            row = connection.cursor(binary=binary).execute(lists).fetchone()
            assert row == ([1, None], ["a b", "NULL", "", None], [], [dt.date(2024, 2, 29)], span), row
        # A text of no type that it names, beside numbers of one.
        assert connection.execute("SELECT %s, name FROM airlines ORDER BY name LIMIT %s", ["x", 1]).fetchone()[0] == "x"
        assert connection.execute("SELECT upper(%s), 2 - %s", ["x", 1]).fetchone() == ("X", 1)
        assert connection.execute("SELECT x FROM unnest(%s::int[]) AS u(x)", [[7]]).fetchone() == (7,)
        later = connection.execute("SELECT TIMESTAMP '2024-01-01 00:00:00' + %s", [dt.timedelta(days=1)]).fetchone()[0]
        assert plain(later) == dt.datetime(2024, 1, 2), later
        with connection.cursor("some") as cursor:
            cursor.itersize = 1000
            cursor.execute("SELECT flight FROM flights WHERE month = 1")
            assert sum(1 for _ in cursor) == 27004
        connection.rollback()
        for code, sql in [
            ("42P01", "SELECT * FROM nothing"),
            ("42703", "SELECT nothing FROM flights"),
            ("42601", "SELECT 1 +"),
            ("22012", "SELECT 1 % (month - month) FROM flights"),
            ("22003", "SELECT 9223372036854775807 + month FROM flights"),
            ("42883", "SELECT nothing(1)"),
        ]:
            refused(code, lambda sql=sql: connection.execute(sql).fetchall())
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
            refused("25P02", lambda: connection.execute("SELECT 1"))
            connection.rollback()
            assert connection.execute("SELECT 1").fetchone() == (1,)
            connection.rollback()
        connection.execute("SET statement_timeout = '1ms'")
        refused("57014", lambda: connection.execute("SELECT sum(a.distance + b.distance) FROM flights a JOIN flights b USING (month)"))
        connection.rollback()
        connection.autocommit = True
        with connection.cursor() as cursor:
            timer = __import__("threading").Timer(0.5, connection.cancel)
            timer.start()
            refused("57014", lambda: cursor.execute("SELECT sum(a.distance + b.distance) FROM flights a JOIN flights b USING (month)"))
            assert cursor.execute("SELECT 1").fetchone() == (1,)
        # What Grafana sends.
        compare("Grafana", connection.execute(GRAFANA).fetchall(), reference.execute(GRAFANA).fetchall())
        assert [name for (name,) in connection.execute(GRAFANA_TABLES)] == TABLES
        assert connection.execute(GRAFANA_COLUMNS).fetchall() == [("carrier", "text"), ("name", "text")]


def check_psycopg2(server, reference):
    connection = psycopg2.connect(server.url())
    with connection.cursor() as cursor:
        cursor.execute(BY_HOUR)
        compare("psycopg2", cursor.fetchall(), reference.execute(BY_HOUR).fetchall())
        cursor.execute("SELECT ARRAY[1, 2], ARRAY['a b'], INTERVAL '-1 day 2 hours'")
        assert cursor.fetchone() == ([1, 2], ["a b"], dt.timedelta(days=-1, hours=2))
    connection.close()


def check_sqlalchemy(server, reference):
    for driver in "+psycopg", "+psycopg2":
        engine = sqlalchemy.create_engine(server.url(driver))
        inspector = sqlalchemy.inspect(engine)
        assert sorted(inspector.get_table_names()) == TABLES
        assert inspector.has_table("flights") and not inspector.has_table("nothing")
        columns = {column["name"]: column for column in inspector.get_columns("flights")}
        assert len(columns) == 19 and isinstance(columns["time_hour"]["type"], sqlalchemy.TIMESTAMP), columns
        assert inspector.get_pk_constraint("flights")["constrained_columns"] == []
        assert inspector.get_indexes("flights") == [] and inspector.get_foreign_keys("flights") == []
        assert "public" in inspector.get_schema_names() and inspector.get_view_names() == []
        reflected = sqlalchemy.Table("airlines", sqlalchemy.MetaData(), autoload_with=engine)
        with engine.connect() as connection:
            rows = connection.execute(sqlalchemy.select(reflected).order_by(reflected.c.carrier)).fetchall()
            theirs = reference.execute("SELECT carrier, name FROM airlines ORDER BY carrier").fetchall()
            compare(f"SQLAlchemy{driver}", rows, theirs)
            asked = sqlalchemy.text("SELECT count(*) FROM flights WHERE carrier = :c AND month IN (:a, :b)")
            theirs = reference.execute("SELECT count(*) FROM flights WHERE carrier = 'UA' AND month IN (1, 2)").fetchall()
            compare(f"SQLAlchemy{driver}", connection.execute(asked, {"c": "UA", "a": 1, "b": 2}).fetchall(), theirs)
        frame = pandas.read_sql(BY_HOUR, engine)
        theirs = reference.execute(BY_HOUR).df()
        pandas.testing.assert_frame_equal(frame, theirs, check_dtype=False)
        print(f"pandas{driver}: {len(frame)} rows")
        pieces = list(pandas.read_sql("SELECT flight, carrier FROM flights", engine, chunksize=100_000))
        assert sum(map(len, pieces)) == 336776
        engine.dispose()


async def check_asyncpg(server, reference):
    connection = await asyncpg.connect(server.url())
    rows = await connection.fetch(BY_HOUR)
    compare("asyncpg", rows, reference.execute(BY_HOUR).fetchall())
    count = "SELECT count(*) FROM flights WHERE carrier = $1 AND month = $2"
    theirs = reference.execute("SELECT count(*) FROM flights WHERE carrier = 'UA' AND month = 3").fetchone()[0]
    assert await connection.fetchval(count, "UA", 3) == theirs
    async with connection.transaction():
        rows = [row async for row in connection.cursor("SELECT carrier, name FROM airlines ORDER BY 1", prefetch=5)]
        compare("asyncpg, in pieces", rows, reference.execute("SELECT carrier, name FROM airlines ORDER BY 1").fetchall())
    try:
        await connection.fetch("SELECT nothing FROM flights")
        raise AssertionError("no error")
    except asyncpg.UndefinedColumnError as error:
        assert error.position == "8", error.position
    assert await connection.fetchval("SELECT 7") == 7
    # Types are told as the statement needs them.
    assert await connection.fetchval("SELECT CAST(2 AS DOUBLE) * $1", 1.5) == 3.0
    assert await connection.fetchval("SELECT CAST(2 AS DECIMAL(9, 2)) * $1", decimal.Decimal("1.125")) == decimal.Decimal("2.25")
    assert await connection.fetchval("SELECT count(*) FROM airlines WHERE carrier = ANY($1)", ["UA", "AA"]) == 2
    assert await connection.fetchval("SELECT count(*) FROM airlines WHERE carrier <> ALL($1)", ["UA", "AA"]) == 14
    rows = await connection.fetch("SELECT x FROM unnest($1::int[]) AS u(x) ORDER BY x LIMIT $2", [3, 1, 2], 2)
    assert [row["x"] for row in rows] == [1, 2], rows
    of_year = await connection.fetchval("SELECT count(*) FROM flights WHERE year = ANY($1)", [2012, 2013])
    assert of_year == await connection.fetchval("SELECT count(*) FROM flights"), of_year
    days = [dt.date(2013, 1, 1), None]
    assert await connection.fetchval("SELECT DATE '2013-01-01' = ANY($1::date[])", days)
    later = "SELECT TIMESTAMP '2024-01-01 00:00:00' + $1"
    assert plain(await connection.fetchval(later, dt.timedelta(days=1, hours=2))) == dt.datetime(2024, 1, 2, 2)
    assert await connection.fetchval("SELECT CASE WHEN $1 THEN 1 ELSE $2 END", False, 7) == 7
    # What lists are of it asks for first.
    carriers = "SELECT array_agg(carrier ORDER BY carrier), array_agg(length(name) ORDER BY carrier) FROM airlines"
    assert list(await connection.fetchrow(carriers)) == list(reference.execute(carriers).fetchone())
    span = await connection.fetchval("SELECT TIMESTAMP '2024-01-03 12:00:00' - TIMESTAMP '2024-01-01'")
    assert span == dt.timedelta(days=2, hours=12), span
    # NULL leaves the types that were told.
    assert await connection.fetchval("SELECT max(coalesce($1, month)) FROM flights", None) == 12
    async with connection.transaction():
        cursor = await connection.cursor("SELECT carrier FROM airlines ORDER BY 1")
        assert await cursor.forward(3) == 3
        fourth = reference.execute("SELECT carrier FROM airlines ORDER BY 1 OFFSET 3 LIMIT 1").fetchone()[0]
        assert (await cursor.fetchrow())["carrier"] == fourth
    await connection.close()
    async with asyncpg.create_pool(server.url(), min_size=1, max_size=2) as pool:
        for _ in range(3):
            async with pool.acquire() as connection:
                assert await connection.fetchval("SELECT count(*) FROM airlines") == 16


async def copies_of_asyncpg(server):
    connection = await asyncpg.connect(server.url())
    await check_copy.of_asyncpg(connection)
    await connection.close()


def check_keys(binary):
    """TLS and SCRAM: the user is a key's name, the password the key."""
    with tempfile.TemporaryDirectory() as folder:
        server = Secured(binary, folder)
        try:
            known = {"host": "localhost", "port": server.postgres_port, "dbname": "basalt", "sslrootcert": server.ca}
            by = lambda user, key, mode="verify-full": known | {"user": user, "password": key, "sslmode": mode}
            for connect in (psycopg.connect, psycopg2.connect):
                with connect(**by("reader", server.reader)) as connection, connection.cursor() as cursor:
                    cursor.execute("SELECT sum(a) FROM t")
                    assert cursor.fetchone()[0] == 6
                    cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
                    assert cursor.fetchall() == [("t",)]
                for sql in ("SELECT * FROM secret", "INSERT INTO t VALUES (4)", "DELETE FROM t"):
                    with connect(**by("reader", server.reader)) as connection, connection.cursor() as cursor:
                        try:
                            cursor.execute(sql)
                            raise AssertionError(f"{sql}: done")
                        except (psycopg.Error, psycopg2.Error) as error:
                            # A table that nobody may see is not there.
                            wanted = "42P01" if "secret" in sql else "42501"
                            assert wanted in (getattr(error, "sqlstate", None), getattr(error, "pgcode", None)), error
                        connection.rollback()
                wrong = [by("reader", server.admin), by("nobody", server.reader), by("reader", ""), by("admin", "x")]
                for parameters in [*wrong, by("reader", server.reader, "disable")]:
                    try:
                        connect(**parameters)
                        raise AssertionError(f"{parameters}: let in")
                    except (psycopg.OperationalError, psycopg2.OperationalError) as error:
                        words = ["TLS alone"] if parameters["sslmode"] == "disable" else ["password", "no password supplied"]
                        assert any(word in str(error) for word in words), error
            with psycopg.connect(**by("reader", server.reader), autocommit=True) as connection:
                keys = server.secrets / "keys.toml"
                keys.write_text(keys.read_text().replace('"reader"', '"other"', 1))
                is_cancelled = False
                try:
                    for _ in range(100):
                        # One that is under way just then is cancelled, and its connection closed behind it.
                        try:
                            connection.execute("SELECT 1")
                        except psycopg.errors.QueryCanceled:
                            is_cancelled = True
                        time.sleep(0.2)
                    raise AssertionError("the key is gone, and its session goes on")
                except psycopg.OperationalError as error:
                    assert "no longer" in str(error) or is_cancelled and "closed" in str(error), error
            context = ssl.create_default_context(cafile=server.ca)
            asyncio.run(of_asyncpg(server, context))
        finally:
            server.close()
    print("TLS and keys: psycopg, psycopg2, asyncpg")


async def of_asyncpg(server, context):
    connection = await asyncpg.connect(host="localhost", port=server.postgres_port, user="admin", password=server.admin,
                                       database="basalt", ssl=context)
    assert await connection.fetchval("SELECT count(*) FROM secret") == 3
    await connection.close()


def main():
    binary, files = sys.argv[1:]
    reference = duckdb.connect()
    reference.execute("SET TimeZone = 'UTC'")
    for table in TABLES:
        path = os.path.join(files, f"{table}.csv")
        reference.execute(f"CREATE TABLE {table} AS SELECT * FROM read_csv('{path}', nullstr=['', 'NA'])")
    server = Server(binary, files)
    try:
        if shutil.which("psql"):
            check_psql(server, reference)
        else:
            print("left out: psql, which is not installed")
        check_psycopg(server, reference)
        check_psycopg2(server, reference)
        check_sqlalchemy(server, reference)
        asyncio.run(check_asyncpg(server, reference))
        check_copy.check(server, files, bool(shutil.which("psql")))
        asyncio.run(copies_of_asyncpg(server))
    finally:
        server.process.terminate()
        assert server.process.wait(timeout=60) == 0
    check_keys(binary)


if __name__ == "__main__":
    main()
