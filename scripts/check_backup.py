"""What scripts/check-backup does."""

import atexit
import csv
import http.client
import io
import json
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).parent.parent
BACKUP = [sys.executable, str(ROOT / "deploy/backup")]
COLUMNS = "id int64, batch int64, v int64"
# Rows that are there at first, and rows of each later write.
FIRST, LATER = 150_000, 40


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, basalt, store, log, *arguments):
        self.basalt, self.port, self.http, self.log = basalt, free_port(), free_port(), log
        command = [basalt, "serve", "--store", str(store), "--listen", f"127.0.0.1:{self.port}"]
        command += ["--metrics-listen", f"127.0.0.1:{self.http}", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(log, "w"))
        atexit.register(self.stop, signal.SIGKILL)
        for _ in range(600):
            if self.run("health", check=False).returncode == 0:
                return
            time.sleep(0.05)
        raise SystemExit(f"the server does not start: {pathlib.Path(log).read_text()}")

    def run(self, *arguments, check=True):
        command = [self.basalt, "--server", f"http://127.0.0.1:{self.port}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if check and done.returncode != 0:
            raise SystemExit(f"{arguments}: {done.stdout}{done.stderr}")
        return done

    def removals(self, table):
        """How often old files of a table were removed, as the log says."""
        return len(re.findall(rf'removed old files.*table="?{table}"?', pathlib.Path(self.log).read_text()))

    def metric(self, name):
        told = urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics").read().decode()
        return int(re.search(rf"^{name}{{[^}}]*}} (\d+)$", told, re.MULTILINE)[1])

    def stop(self, with_signal=signal.SIGTERM):
        self.process.send_signal(with_signal)
        self.process.wait()


class Table:
    """A table, and what was acknowledged of it."""

    def __init__(self, server, folder, name, first, *arguments):
        self.server, self.name = server, name
        # (version, rows) and (version, ids).
        self.loads, self.deletes = [], []
        self.lock, self.batches = threading.Lock(), 0
        rows = self.rows(first)
        file = folder / f"{name}.csv"
        file.write_text(csv_of(rows, header=True))
        server.run("load", name, str(file), "--schema", COLUMNS, *arguments)
        self.loads.append((1, rows))

    def rows(self, n):
        with self.lock:
            batch, self.batches = self.batches, self.batches + 1
        return [(batch * 1_000_000 + i, batch, (batch + i) * 7919 % 1000) for i in range(n)]

    def load(self, connection):
        rows = self.rows(LATER)
        connection.request("POST", f"/v1/tables/{self.name}", csv_of(rows, header=True), {"Content-Type": "text/csv"})
        answer = connection.getresponse()
        told = answer.read()
        if answer.status != 200:
            raise AssertionError(f"a write to {self.name}: {answer.status} {told}")
        with self.lock:
            self.loads.append((json.loads(told)["version"], rows))

    def delete(self, batch, low, high):
        """Deletes rows of a batch that was acknowledged, by their values."""
        with self.lock:
            (rows,) = [rows for _, rows in self.loads if rows[0][1] == batch]
            gone = {id for _, ids in self.deletes for id in ids}
        ids = [id for id, _, v in rows if low <= v < high and id not in gone]
        if not ids:
            return
        done = self.server.run("delete", self.name, "--where", f"batch = {batch} AND v >= {low} AND v < {high}")
        n, version = re.fullmatch(r"deleted (\d+) rows? of \w+; version (\d+)\s*", done.stdout + done.stderr).groups()
        assert int(n) == len(ids), f"{done.stdout}: {len(ids)} rows were to be deleted"
        with self.lock:
            self.deletes.append((int(version), ids))

    def newest(self):
        with self.lock:
            return max(version for version, _ in self.loads)

    def at(self, version):
        """Rows and sums at a version, as they were acknowledged."""
        gone = {id for at, ids in self.deletes if at <= version for id in ids}
        rows = [row for at, rows in self.loads if at <= version for row in rows if row[0] not in gone]
        return len(rows), sum(id for id, _, _ in rows), sum(v for _, _, v in rows)


def csv_of(rows, header):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow([column.split()[0] for column in COLUMNS.split(", ")])
    writer.writerows(rows)
    return out.getvalue()


class Writers:
    """Loads and deletes of some tables, until they are stopped."""

    def __init__(self, tables):
        self.tables, self.ended, self.error = tables, threading.Event(), None
        work = [(self.load, table) for table in tables for _ in range(2)] + [(self.delete, table) for table in tables]
        self.threads = [threading.Thread(target=self.until_the_end, args=each) for each in work]
        for thread in self.threads:
            thread.start()

    def until_the_end(self, work, table):
        try:
            work(table)
        except BaseException as error:
            self.error = self.error or error
            self.ended.set()

    def load(self, table):
        connection = http.client.HTTPConnection("127.0.0.1", table.server.http)
        while not self.ended.is_set():
            table.load(connection)

    def delete(self, table):
        chance = random.Random(table.name)
        for turn in range(1_000_000):
            if self.ended.wait(0.05):
                return
            # Some of the many first rows, which takes a file of deletion vectors, and most of a later batch.
            if turn < 90 and turn % 3 == 0:
                table.delete(0, turn * 10, turn * 10 + 10)
            else:
                with table.lock:
                    batch = chance.choice(table.loads)[1][0][1]
                if batch:
                    table.delete(batch, 0, 900)

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        if self.error:
            raise self.error


def backup(*arguments, fails=None):
    done = subprocess.run([*BACKUP, *map(str, arguments)], capture_output=True, text=True)
    told = done.stdout + done.stderr
    if fails is None and done.returncode != 0:
        raise SystemExit(f"{arguments}: {told}")
    if fails is not None:
        assert done.returncode != 0 and fails in told, f"{arguments} was to fail with {fails!r}: {told}"
    return told


def versions(told):
    return {name: int(version) for name, version in re.findall(r"^(\w+): version (\d+),", told, re.MULTILINE)}


def check_store(basalt, store, folder, expected):
    """A server of a store has these tables and no others, and answers from each, at its version, as expected."""
    server = Server(basalt, store, folder / "restored.log")
    try:
        answer = json.load(urllib.request.urlopen(f"http://127.0.0.1:{server.http}/v1/tables"))
        found = {table["name"]: table["version"] for table in answer["tables"]}
        # It begins to merge small files at once.
        assert set(found) == set(expected), f"{found}, not {expected}"
        assert all(found[name] >= version for name, (version, _) in expected.items()), f"{found}, not {expected}"
        for name, (version, acknowledged) in expected.items():
            for of in (f"{name} FOR VERSION AS OF {version}", name):
                statement = f"SELECT count(*) AS n, sum(id) AS ids, sum(v) AS vs FROM {of}"
                (row,) = csv.reader(server.run("query", statement, "--format", "csv").stdout.splitlines()[1:])
                assert tuple(map(int, row)) == acknowledged, f"{of}: {row}, not {acknowledged}"
        server.run("verify")
        # It can be written to.
        name = next(iter(expected))
        connection = http.client.HTTPConnection("127.0.0.1", server.http)
        row = csv_of([(-1, -1, -1)], header=True)
        connection.request("POST", f"/v1/tables/{name}", row, {"Content-Type": "text/csv"})
        answer = json.load(connection.getresponse())
        assert answer["rows"] == 1 and answer["version"] > expected[name][0], answer
    finally:
        server.stop()


def slow_backup(server, store, backups, *arguments):
    """A backup that stands still, once it has copied a file, until the server has removed files of a table."""
    copied, before = pathlib.Path(backups) / "files/tables", server.removals("events")
    command = [*BACKUP, "backup", store, backups, "--limit-rate", "200KiB", *arguments]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # A pin that nobody renews counts for three minutes.
    until = time.monotonic() + 150
    while not any(copied.rglob("*.parquet")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.send_signal(signal.SIGSTOP)
    try:
        while server.removals("events") == before:
            assert time.monotonic() < until, "no files were removed"
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGCONT)
        told = process.communicate()[0]
    if process.returncode:
        raise SystemExit(f"the backup has failed: {told}")
    return told


def transaction(port, statements):
    """Runs statements in a transaction, at the door of PostgreSQL."""

    def sent(connection, kind, content):
        connection.sendall(kind + struct.pack(">I", len(content) + 4) + content)
        while True:
            kind, length = struct.unpack(">cI", file.read(5))
            told = file.read(length - 4)
            assert kind != b"E", f"{content}: {told}"
            if kind == b"Z":
                return

    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as file:
        sent(connection, b"", struct.pack(">I", 3 << 16) + b"user\0check\0\0")
        for statement in ["BEGIN", *statements, "COMMIT"]:
            sent(connection, b"Q", statement.encode() + b"\0")


def check_steps():
    """The program knows every step that the catalog has."""
    (steps,) = re.findall(r"^enum Step \{\n(.*?)^\}", (ROOT / "storage/src/catalog.rs").read_text(), re.DOTALL | re.MULTILINE)
    program = (ROOT / "deploy/backup").read_text()
    for step in re.findall(r"^    (\w+)\(", steps, re.MULTILINE):
        assert f'kind == "{step[0].lower()}{step[1:]}"' in program, f"deploy/backup does not know the step {step}"


def check_replaced(basalt, store, backups, folder, other):
    """Tables that took the place of others, by themselves and in a transaction, are in the next backup, and no others."""
    postgres = free_port()
    server = Server(basalt, store, folder / "replaced.log", "--postgres", f"127.0.0.1:{postgres}")

    def rows(first, n):
        return f"SELECT value AS id, value % 3 AS batch, value * 7 AS v FROM generate_series({first}, {first + n - 1})"

    for name in ("a", "b", "c", "gone"):
        server.run("query", f"CREATE TABLE {name} AS {rows(1, 10)}")
    backup("backup", store, backups)
    for n in (20, 30):
        server.run("query", f"CREATE OR REPLACE TABLE a AS {rows(100, n)}")
    server.run("query", f"CREATE OR REPLACE TABLE gone AS {rows(100, 5)}")
    server.run("drop", "gone")
    made = [f"DROP TABLE {name}" for name in "bc"] + [f"CREATE TABLE {name} AS {rows(200, 40)}" for name in "bd"]
    transaction(postgres, made)
    server.run("query", f"CREATE TABLE c AS {rows(300, 50)}")
    of = versions(backup("backup", store, backups))
    server.stop()

    def answer(first, n):
        ids = range(first, first + n)
        return n, sum(ids), 7 * sum(ids)

    answers = {"a": answer(100, 30), "b": answer(200, 40), "c": answer(300, 50), "d": answer(200, 40)}
    assert set(of) == set(answers), of
    expected = {name: (of[name], told) for name, told in answers.items()}
    assert versions(backup("restore", backups, other("replaced-back"))) == of
    check_store(basalt, other("replaced-back"), folder, expected)
    for name in "ab":
        to = other(f"replaced-{name}")
        backup("restore", backups, to, "--table", name)
        check_store(basalt, to, folder, {name: expected[name]})
    backup("restore", backups, other("replaced-gone"), "--table", "gone")
    check_store(basalt, other("replaced-gone"), folder, {"gone": (1, answer(1, 10))})
    print("tables that took the place of others are back")

    # Backups of one table come between; two of all tables, and then one, are kept with what came since.
    def kept(n):
        backup("prune", backups, "--keep", n)
        return re.findall(r"^\S+Z\+*  (all|one)", backup("list", backups), re.MULTILINE)

    for name in "ab":
        backup("backup", store, backups, "--table", name)
    assert kept(3) == kept(2) == ["all", "all", "one", "one"]
    assert kept(1) == ["all", "one", "one"]
    backup("verify", backups)
    assert versions(backup("restore", backups, other("replaced-kept"))) == of
    ones = other("ones")
    for name in "aba":
        backup("backup", store, ones, "--table", name)
    assert "1 backups forgotten, 2 kept" in backup("prune", ones, "--keep", 2)


def check_no_backups(folder):
    """Where there are none, none is whole: another folder was meant. It stays as it is."""
    wrong, missing = folder / "wrong", folder / "missing"
    (wrong / "files" / "empty").mkdir(parents=True)
    (wrong / "files/mine").write_text("kept")
    for place in (wrong, missing):
        for words in (["list"], ["verify"], ["prune", "--keep", 1]):
            backup(words[0], place, *words[1:], fails=f"{place} has no backups")
    assert (wrong / "files/mine").exists() and (wrong / "files/empty").exists() and not missing.exists()


def main():
    basalt, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    extra = [argument for argument in sys.argv[3:] if argument.startswith("--")]
    local = len(sys.argv) - len(extra) < 5
    store, backups = (folder / "store", folder / "backups") if local else sys.argv[3:5]

    def other(name):
        return folder / name if local else f"{store}-{name}"

    began = time.monotonic()
    check_steps()
    check_no_backups(folder)
    check_replaced(basalt, other("replaced"), other("of-replaced"), folder, other)
    server = Server(basalt, store, folder / "server.log", "--keep-versions", "1s", "--memory", "2GiB")
    tables = {
        "events": Table(server, folder, "events", FIRST),
        "rewritten": Table(server, folder, "rewritten", 20_000, "--deletes", "rewrite"),
    }
    short = Table(server, folder, "short", 10)
    writers = Writers(list(tables.values()))
    done = []
    try:
        # Files are removed after 512 versions; on an S3 store that is not waited for.
        while tables["events"].newest() < (400 if local else 50) and not writers.ended.wait(0.1):
            assert time.monotonic() - began < 120, "writes are too slow"
        print(f"{tables['events'].newest()} versions after {time.monotonic() - began:.0f} s")
        tables["short"] = short
        if local:
            told = slow_backup(server, store, backups, "--keep-versions", "1s", *extra)
        else:
            told = backup("backup", store, backups, "--keep-versions", "1s")
        print(told, end="")
        done.append(versions(told))
        assert set(done[0]) == set(tables), told
        # A table goes, and another comes.
        server.run("drop", "short")
        del tables["short"]
        tables["later"] = Table(server, folder, "later", 100)
        time.sleep(1)
        told = backup("backup", store, backups, "--keep-versions", "1s")
        print(told, end="")
        done.append(versions(told))
        assert set(done[1]) == set(tables), told
    finally:
        writers.stop()
    assert server.metric("basalt_compactions_total") > 0, "nothing was merged"
    server.stop(signal.SIGKILL)
    new = [int(n) for n in re.findall(r"new: (\d+) files", told)]
    files = [int(n) for n in re.findall(r"version \d+, (\d+) files", told)]
    assert sum(new) < sum(files), "the second backup has copied everything"

    tables["short"] = short
    expected = [{name: (version, tables[name].at(version)) for name, version in of.items()} for of in done]
    backup("verify", backups)
    ids = re.findall(r"^(\S+Z)  ", backup("list", backups), re.MULTILINE)
    for id, of, answers in zip(ids, done, expected):
        to = other(f"restored-{id}")
        assert versions(backup("restore", backups, to, "--id", id)) == of
        check_store(basalt, to, folder, answers)
        print(f"backup {id} is back: {answers}")
    backup("restore", backups, to, fails="has tables already")

    # One table, at a version of the first backup.
    version = done[0]["events"]
    backup("restore", backups, other("one"), "--table", "events", "--version", version)
    check_store(basalt, other("one"), folder, {"events": expected[0]["events"]})
    backup("restore", backups, other("none"), "--table", "events", "--version", 1_000_000, fails="there are: ")

    # The store has gone on from that version by itself: the same versions are others there.
    backup("backup", other("one"), backups, fails="is another")
    for inside in (other("one"), f"{other('one')}/backups", str(other("one")).rsplit("/", 1)[0]):
        backup("backup", other("one"), inside, fails="is in the store, or holds it")

    if local:
        # As after an hour: the log begins with a checkpoint.
        for log in to.glob("tables/*/_delta_log"):
            checkpoint = max(log.glob("*.checkpoint.parquet"), default=None)
            for commit in log.glob("*.json"):
                if checkpoint and commit.name[:20] < checkpoint.name[:20]:
                    commit.unlink()
        of = versions(backup("backup", to, other("cut")))
        assert versions(backup("restore", other("cut"), other("restored-cut"))) == of
        # With the row that was written there.
        name, answers = next(iter(done[1])), dict(expected[1])
        answers[name] = (0, tuple(a + b for a, b in zip(answers[name][1], (1, -1, -1))))
        check_store(basalt, other("restored-cut"), folder, {name: (of[name], told) for name, (_, told) in answers.items()})
        print("a log that begins with a checkpoint is back")

    told = backup("prune", backups, "--keep", "1")
    assert "1 backups forgotten, 1 kept" in told, told
    backup("verify", backups)
    backup("restore", backups, other("pruned"))
    check_store(basalt, other("pruned"), folder, expected[1])

    if local:
        file = max((backups / "files").rglob("*.zstd.parquet"), key=lambda path: path.stat().st_size)
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        backup("verify", backups, fails=f"{file.name} is not what was written")
        backup("restore", backups, other("damaged"), fails="is not what was written")
        assert not (other("damaged") / "catalog").exists(), "a restore that failed is no store"
    print(f"backup and restore: as they should be, in {time.monotonic() - began:.0f} s")


main()
