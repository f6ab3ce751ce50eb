"""COPY between a Basalt server and PostgreSQL's clients, and tables made in a transaction."""

import datetime as dt
import decimal
import os
import subprocess
import tempfile

import adbc_driver_postgresql.dbapi as adbc
import connectorx
import pandas
import psycopg
import pyarrow
import sqlalchemy

COLUMNS = "k BIGINT NOT NULL, s TEXT, x DOUBLE, d DECIMAL(12, 3), b BOOLEAN, day DATE, at TIMESTAMP, bytes BLOB"
NAMES = "k, s, x, d, b, day, at, bytes"
UTC = dt.timezone.utc
ROWS = [
    (1, "plain", 1.5, decimal.Decimal("-0.125"), True, dt.date(2013, 7, 4), dt.datetime(2013, 7, 4, 5, 6, 7, tzinfo=UTC), b"\x00\xff\\"),
    (2, "tab\tand\nline\r\\N \\. \"quoted\", 'é' ␀", float("inf"), decimal.Decimal("123456789.012"), False, dt.date(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), b""),
    (3, "", -0.0, decimal.Decimal(0), None, None, None, None),
    (4, None, None, None, None, None, None, None),
    (-(2**63), "\\N", 5e-324, None, True, dt.date(9999, 12, 31), dt.datetime(1, 1, 1, tzinfo=UTC), b"\\x41"),
    (2**63 - 1, "NULL", 1.7976931348623157e308, decimal.Decimal("-999999999.999"), False, None, None, b"plain"),
]
TYPES = ["int8", "text", "float8", "numeric", "bool", "date", "timestamptz", "bytea"]


def count(connection, table):
    return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def refused(connection, code, words, run):
    try:
        run()
    except psycopg.Error as error:
        assert error.sqlstate == code and words in str(error), f"{error.sqlstate}: {error}"
        return
    raise AssertionError(f"no error {code}")


def check_formats(connection):
    connection.execute(f"CREATE TABLE sent ({COLUMNS})")
    connection.execute(f"CREATE TABLE again ({COLUMNS})")
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY sent ({NAMES}) FROM STDIN") as copy:
            for row in ROWS:
                copy.write_row(row)
        assert cursor.rowcount == len(ROWS), cursor.rowcount
    expected = sorted(ROWS)
    assert connection.execute(f"SELECT {NAMES} FROM sent ORDER BY k").fetchall() == expected
    for form in ["", "(FORMAT csv)", "(FORMAT csv, HEADER, DELIMITER ';', NULL 'nothing', QUOTE '''')", "(FORMAT binary)",
                 "(FORMAT text, DELIMITER '|', NULL 'none', HEADER)", "WITH CSV HEADER", "BINARY"]:
        connection.execute("TRUNCATE again")
        with connection.cursor() as cursor:
            with cursor.copy(f"COPY (SELECT * FROM sent ORDER BY k) TO STDOUT {form}") as copy:
                data = b"".join(bytes(piece) for piece in copy)
            assert cursor.rowcount == len(ROWS), cursor.rowcount
            # Pieces end anywhere.
            for size in [1, 7, len(data)]:
                connection.execute("TRUNCATE again")
                with cursor.copy(f"COPY again FROM STDIN {form}") as copy:
                    for at in range(0, len(data), size):
                        copy.write(data[at : at + size])
                found = connection.execute(f"SELECT {NAMES} FROM again ORDER BY k").fetchall()
                assert found == expected, f"{form}: {found}"
    with connection.cursor() as cursor:
        connection.execute("TRUNCATE again")
        with cursor.copy("COPY again (s, k) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["text", "int8"])
            for row in ROWS:
                copy.write_row((row[1], row[0]))
        assert connection.execute("SELECT k, s FROM again ORDER BY k").fetchall() == [row[:2] for row in expected]
        with cursor.copy(f"COPY sent ({NAMES}) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(TYPES)
            assert sorted(copy.rows()) == expected
        with cursor.copy("COPY (SELECT 1 WHERE false) TO STDOUT (FORMAT binary)") as copy:
            assert list(copy.rows()) == []
    # A header names the columns, in any order.
    connection.execute("TRUNCATE again")
    with connection.cursor().copy("COPY again (k, s) FROM STDIN WITH CSV HEADER") as copy:
        copy.write("S,K\nfirst,1\n")
    assert connection.execute("SELECT k, s FROM again").fetchall() == [(1, "first")]


def check_errors(connection):
    connection.execute("TRUNCATE again")

    def send(sql, *pieces):
        with connection.cursor().copy(sql) as copy:
            for piece in pieces:
                copy.write(piece)

    for code, words, sql, piece in [
        ("22P02", "line 2", "COPY again (k) FROM STDIN", "1\nx\n"),
        ("22P04", "line 1", "COPY again (k, s) FROM STDIN", "1\n"),
        ("23502", "line 2", "COPY again (k, s) FROM STDIN", "1\ta\n\\N\tb\n"),
        ("42703", "nmae", "COPY again (k, s) FROM STDIN WITH CSV HEADER", "k,nmae\n1,a\n"),
        ("22P04", "line 2", "COPY again (k, s) FROM STDIN WITH CSV", '1,"a"\n2,a"b"\n'),
        ("22P04", "signature", "COPY again FROM STDIN (FORMAT binary)", b"1\ta\n2\tb\n3\tc\n4\td\n5\te\n"),
        ("22P04", "EOF", "COPY again (k) FROM STDIN (FORMAT binary)", b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\0\x01\0"),
    ]:
        refused(connection, code, words, lambda sql=sql, piece=piece: send(sql, piece))
        assert count(connection, "again") == 0, sql
    for code, words, sql in [
        ("42P01", "nothing", "COPY nothing FROM STDIN"),
        ("42703", "nothing", "COPY again (nothing) FROM STDIN"),
        ("42703", "nothing", "COPY again (nothing) TO STDOUT"),
        ("0A000", "xml", "COPY again FROM STDIN (FORMAT xml)"),
    ]:
        refused(connection, code, words, lambda sql=sql: send(sql))
    assert connection.execute("SELECT 1").fetchone() == (1,)
    # Rows are wide.
    for form in ["", "(FORMAT csv)", "(FORMAT binary)"]:
        connection.execute("TRUNCATE again")
        with connection.cursor().copy(f"COPY again (k, s) FROM STDIN {form}") as copy:
            if "binary" in form:
                copy.set_types(["int8", "text"])
            for k in range(300):
                row = (k, "x" * 300_000)
                copy.write(f"{row[0]},{row[1]}\n") if "csv" in form else copy.write_row(row)
        assert connection.execute("SELECT count(*), min(length(s)) FROM again").fetchone() == (300, 300_000)
    connection.execute("TRUNCATE again")
    # A client that gives up writes nothing.
    try:
        with connection.cursor().copy("COPY again (k) FROM STDIN") as copy:
            copy.write("1\n" * 100_000)
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert count(connection, "again") == 0
    with connection.cursor().copy("COPY again FROM STDIN"):
        pass
    assert count(connection, "again") == 0


def check_transactions(server, connection):
    connection.execute("TRUNCATE again")
    with psycopg.connect(server.url()) as other:
        with other.cursor().copy("COPY again (k) FROM STDIN") as copy:
            copy.write("1\n2\n")
        assert count(connection, "again") == 0
        other.rollback()
        assert count(connection, "again") == 0
        for rows in ["1\n2\n", "3\n"]:
            with other.cursor().copy("COPY again (k) FROM STDIN") as copy:
                copy.write(rows)
        other.commit()
        assert count(connection, "again") == 3
        # A table that is made in a transaction goes with it.
        other.execute("CREATE TABLE made (n BIGINT)")
        other.execute("INSERT INTO made VALUES (1)")
        other.rollback()
        refused(connection, "42P01", "made", lambda: count(connection, "made"))
        other.execute("CREATE TABLE made (n BIGINT)")
        other.execute("INSERT INTO made VALUES (1)")
        other.commit()
        assert count(other, "made") == 1
    # One whose client is gone in the middle has written nothing.
    gone = psycopg.connect(server.url(), autocommit=True)
    gone.pgconn.send_query(b"COPY again (k) FROM STDIN")
    gone.pgconn.flush()
    gone.pgconn.get_result()
    gone.pgconn.put_copy_data(b"7\n" * 1000)
    gone.pgconn.finish()
    assert connection.execute("SELECT count(*) FROM again WHERE k = 7").fetchone() == (0,)


def check_tools(server, connection):
    frame = pandas.DataFrame({"n": [1, 2, 3], "name": ["a", None, "c"], "x": [0.5, None, 2.0]})
    engine = sqlalchemy.create_engine(server.url("+psycopg"))
    frame.to_sql("frame", engine)
    back = pandas.read_sql("SELECT n, name, x FROM frame ORDER BY n", engine)
    pandas.testing.assert_frame_equal(back, frame, check_dtype=False)
    frame.to_sql("frame", engine, if_exists="append")
    assert count(connection, "frame") == 6
    # What a server-side cursor is asked with.
    with psycopg.connect(server.url()) as other, other.cursor("some") as cursor:
        cursor.execute("SELECT n FROM frame WHERE n > %s AND name <> %s ORDER BY n", (1, "a"))
        assert cursor.fetchall() == [(3,), (3,)]


def check_arrow(server, connection):
    """Drivers that read and write columns, by COPY in binary form."""
    with adbc.connect(server.url()) as other, other.cursor() as cursor:
        rows = pyarrow.table({"n": [1, None, 3], "name": ["a", "b", None], "x": [0.5, float("inf"), None]})
        cursor.adbc_ingest("ingested", rows, mode="create")
        cursor.adbc_ingest("ingested", rows.slice(0, 1), mode="append")
        other.commit()
        assert other.adbc_get_table_schema("ingested").names == ["n", "name", "x"]
        cursor.execute(f"SELECT {NAMES} FROM sent ORDER BY k")
        found = cursor.fetch_arrow_table().to_pylist()
        names = NAMES.split(", ")
        decimal_as_text = lambda name, value: decimal.Decimal(value) if name == "d" and value is not None else value
        found = [tuple(decimal_as_text(name, row[name]) for name in names) for row in found]
        assert found == sorted(ROWS), found
    assert connection.execute("SELECT count(*), sum(n), max(name) FROM ingested").fetchone() == (4, 5, "b")
    by = {"partition_on": "n", "partition_num": 2, "return_type": "arrow"}
    assert connectorx.read_sql(server.url(), "SELECT n, name FROM ingested WHERE n IS NOT NULL", **by).num_rows == 3


def check_psql(server, files):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "airlines.csv")
        for command in [
            rf"\copy airlines to '{path}' csv header",
            "CREATE TABLE copied (carrier TEXT, name TEXT)",
            rf"\copy copied from '{path}' with (format csv, header)",
        ]:
            done = subprocess.run(["psql", "-X", server.url(), "-c", command], capture_output=True, text=True)
            assert done.returncode == 0 and "ERROR" not in done.stderr, done.stderr
        original = os.path.join(files, "airlines.csv")
        assert sorted(open(path).read().split("\n")) == sorted(open(original).read().split("\n"))


async def of_asyncpg(connection):
    await connection.execute("TRUNCATE again")
    records = [(row[0], row[1], row[2]) for row in ROWS]
    await connection.copy_records_to_table("again", records=records, columns=["k", "s", "x"])
    found = await connection.fetch("SELECT k, s, x FROM again ORDER BY k")
    assert [tuple(row) for row in found] == sorted(records)
    with tempfile.NamedTemporaryFile() as file:
        await connection.copy_from_query("SELECT k, s FROM again WHERE k > $1", 2, output=file.name, format="csv")
        assert open(file.name).read().count("\n") == 3


def check(server, files, has_psql):
    with psycopg.connect(server.url(), autocommit=True) as connection:
        check_formats(connection)
        check_errors(connection)
        check_transactions(server, connection)
        check_tools(server, connection)
        check_arrow(server, connection)
        if has_psql:
            check_psql(server, files)
    print("COPY: all formats, errors, transactions")
