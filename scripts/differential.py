#!/usr/bin/env python3
"""Random statements over random tables, answered by a server and by DuckDB. scripts/differential runs it.

Tables are written in several commits, changed and deleted from, the same way in both. A finding is an answer that is not DuckDB's,
INTERNAL, a statement that takes longer than its deadline, or a connection that closes. It is made smaller, statement and rows,
and printed. What only one side refuses is counted by kind. Everything but the time follows from the seed and the round.
"""

import argparse
import collections
import datetime as dt
import decimal
import http.client
import json
import math
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

import duckdb
import psycopg

from differential_sql import WILD, Relation, Statements, Term, leaf, smaller

DEADLINE_S = 10
# Statements of a round, which has its own tables.
ROUND = 400
# What making a finding smaller may take.
SHRINK_S = 20
WORDS = ["", "a", "ab", "abc", "Ab", "b", "ba", "aab", " a", "a b", "12", "-7", "0", "%", "_x", "it's", "ä", "Ñandú", "日本", "😀x", "x" * 40]
# As the server orders by default: the reference follows.
SETTINGS = ["SET threads = 1", "SET default_null_order = 'nulls_last_on_asc_first_on_desc'", "SET memory_limit = '2GB'"]
WRONG = ("differs", "in another order", "failed")
# Faults that are known and not yet cured: a pattern of a statement, and how its answer is wrong.
EXCUSED = [
    # SELECT k, u FROM (SELECT 1 AS k, u FROM t) AS q GROUP BY CUBE (k, u) ORDER BY k NULLS FIRST, u
    (r"(CUBE|ROLLUP|GROUPING SETS) \(.* ORDER BY", "in another order"),
    (r"(CUBE|ROLLUP|GROUPING SETS) \(.* (ORDER BY|OVER)", "differs"),
    # SELECT 7 AS c0, CAST(1 AS BIGINT) AS c2 UNION ALL SELECT id, extract(month FROM DATE '2020-02-29') FROM t ORDER BY 2, 1 LIMIT 2
    (r"UNION.* ORDER BY", "in another order"),
    (r"UNION.* ORDER BY .* LIMIT", "differs"),
    # SELECT 5 IN (NULL, CASE WHEN a IS NULL THEN NULL WHEN a > 1 THEN a END) FROM t
    (r" IN \(.{0,300}\(CASE ", "differs"),
    # SELECT NULLIF(CAST('-0.0' AS DOUBLE), 0)
    (r"(?i)nullif.*'-0\.0'|'-0\.0'.*nullif", "differs"),
    # SELECT count(*) FROM t WHERE false GROUP BY ROLLUP (d = CAST('1.5' AS DECIMAL(12, 4)))
    (r"(CUBE|ROLLUP|GROUPING SETS) \(.*(CAST\(|round\()", "differs"),
    # SELECT CASE WHEN i > 5 THEN i ELSE f END AS c FROM t UNION ALL SELECT i FROM t
    (r"(UNION|INTERSECT|EXCEPT).*CASE|CASE.*(UNION|INTERSECT|EXCEPT)", "differs"),
    # SELECT stddev(a) OVER (ORDER BY id DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t
    (r"(stddev|var_pop).* ROWS BETWEEN", "differs"),
    # SELECT sqrt(r) FROM t, where r is REAL
    (r"sqrt\(", "differs"),
]


class Server:
    """A server over a folder, asked by PostgreSQL's protocol, which is the fastest door for small answers."""

    def __init__(self, basalt, folder):
        self.log = folder / "log"
        ports = [free_port() for _ in range(3)]
        _, self.http, postgres = ports
        command = [basalt, "serve", "--store", str(folder / "store"), "--threads", "1", "--memory", "1GiB", "--log", "error"]
        for flag, port in zip(("--listen", "--metrics-listen", "--postgres"), ports):
            command += [flag, f"127.0.0.1:{port}"]
        command += ["--default-deadline", f"{DEADLINE_S}s", "--max-deadline", f"{DEADLINE_S}s"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log.open("ab"))
        for _ in range(300):
            try:
                self.connection = psycopg.connect(f"host=127.0.0.1 port={postgres} user=me dbname=basalt", autocommit=True)
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        else:
            sys.exit("the server has not started")
        self.connection.prepare_threshold = None

    def ask(self, statement):
        """What became of a statement: "rows" and them, or "value", "refused" or "failed" and why."""
        try:
            cursor = self.connection.execute(statement, binary=True)
            return "rows", cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            state, message = error.sqlstate or "", str(error).split("\n")[0]
            if not state or state.startswith("XX") or state == "57014" or "panicked" in message:
                return "failed", f"{state} {message or error!r}"
            # Numbers that do not fit, divisions by zero, texts that are no numbers.
            return "value" if state.startswith("22") else "refused", f"{state} {message}"

    def load(self, table, lines):
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=60)
        connection.request("POST", f"/v1/tables/{table}", "\n".join(lines).encode(), {"Content-Type": "application/x-ndjson"})
        response = connection.getresponse()
        told = response.read()
        connection.close()
        if response.status != 200:
            sys.exit(f"rows of {table} are refused: {told.decode()}")

    def stop(self):
        self.process.kill()
        self.process.wait()


class Reference:
    """DuckDB, in this process."""

    def __init__(self, folder):
        self.file = folder / "rows.json"
        self.connection = duckdb.connect(":memory:")
        for setting in SETTINGS:
            self.connection.execute(setting)

    def ask(self, statement):
        try:
            return "rows", self.connection.execute(statement).fetchall()
        except (duckdb.Error, ValueError, OverflowError) as error:
            return "refused", str(error).split("\n")[0]

    def load(self, table, names, lines):
        self.file.write_text("\n".join(lines))
        columns = ", ".join(f"{name}: 'VARCHAR'" for name in names)
        self.connection.execute(f"INSERT INTO {table} SELECT * FROM read_json('{self.file}', columns = {{{columns}}})")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Apart(Exception):
    """The tables are no longer the same in both."""


class Ended(Exception):
    """The server failed where nothing is made smaller."""


# Tables


class Column:
    """A column's types at both, and its values.

    DuckDB has 64 bits for all integers, and DOUBLE for all floats: Basalt computes in them whatever the column has.
    """

    def __init__(self, chance, name, declared, kind, theirs, bits):
        self.chance, self.name, self.declared, self.kind, self.theirs, self.bits = chance, name, declared, kind, theirs, bits
        self.nulls = chance.choice([0, 0, 0.1, 0.1, 0.5, 0.95])

    def value(self):
        chance, wild = self.chance, self.bits == WILD and self.declared != "REAL"
        match self.kind:
            case "bool":
                return chance.random() < 0.5
            case "int" if self.bits >= 64:
                signed = self.theirs == "BIGINT"
                return chance.choice([0, 1, 7, (1 << 63) - 1, *([-1, -(1 << 63)] if signed else [(1 << 64) - 1]), chance.randrange(1 << 40)])
            case "int":
                return chance.randrange(0 if "UNSIGNED" in self.declared else -(1 << self.bits) + 1, 1 << self.bits)
            case "dec":
                digits, scale = map(int, re.findall(r"\d+", self.declared))
                most = 10 ** chance.choice([1, 2, digits])
                return decimal.Decimal(chance.randrange(1 - most, most)).scaleb(-scale, decimal.Context(prec=40))
            case "float":
                if wild and chance.random() < 0.4:
                    return chance.choice([math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, 0.1, -0.0])
                return chance.randrange(-4000, 4000) / 4
            case "text":
                return chance.choice(WORDS) if chance.random() < 0.8 else "".join(chance.choices("ab cXé", k=chance.randrange(9)))
            case "date":
                if wild and chance.random() < 0.2:
                    return chance.choice([dt.date.min, dt.date.max])
                return dt.date(2020, 1, 1) + dt.timedelta(chance.randrange(-800, 800))
            case "ts":
                if wild and chance.random() < 0.2:
                    return chance.choice([dt.datetime.min, dt.datetime.max])
                start = dt.datetime(2020, 2, 28, 23)
                return start + dt.timedelta(chance.randrange(-60, 60), chance.choice([0, 3600, chance.randrange(86400)]), chance.choice([0, 500_000, 1]))

    def values(self, rows):
        """So many values, of a shape by chance: one, few, skewed, in order, or any."""
        chance = self.chance
        some = [self.value() for _ in range(min(rows, 2_000))] or [self.value()]
        match chance.randrange(6):
            case 0:
                out = some[:1] * rows
            case 1:
                out = chance.choices(some[:4], k=rows)
            case 2:
                out = [some[min(int(chance.expovariate(0.7)), len(some) - 1)] for _ in range(rows)]
            case 3:
                out = sorted(chance.choices(some, k=rows), key=lambda value: (value != value, value))
            case _:
                out = chance.choices(some, k=rows)
        return [None if chance.random() < self.nulls else value for value in out]

    def quoted(self, value):
        """A value as JSON text, or nothing of one."""
        match value:
            case None | str():
                return value
            case bool():
                return str(value).lower()
            case decimal.Decimal():
                return f"{value:f}"
        return value.isoformat() if hasattr(value, "isoformat") else str(value)

    def literal(self, value):
        match self.kind:
            case "bool":
                return str(value).lower(), 1
            case "int":
                return str(value) if value >= 0 else f"({value})", value.bit_length()
            case "dec":
                return f"{value:f}" if value >= 0 else f"({value:f})", int(re.search(r"\d+", self.declared)[0])
            case "float":
                return f"CAST('{value!r}' AS DOUBLE)", self.bits
            case "text":
                return "'" + value.replace("'", "''") + "'", len(value)
            case "date":
                return f"DATE '{value}'", self.bits
            case "ts":
                return f"TIMESTAMP '{value.isoformat(' ')}'", self.bits
            case "blob":
                return f"CAST('{value}' AS BYTEA)", 8


def columns_of(chance):
    """Columns of a table by chance, behind its id."""
    all_types = [("BOOLEAN", "bool", "BOOLEAN", 1), ("TINYINT", "int", "BIGINT", 6), ("SMALLINT", "int", "BIGINT", 10)]
    all_types += [("INTEGER", "int", "BIGINT", 16), ("BIGINT", "int", "BIGINT", 30), ("TINYINT UNSIGNED", "int", "BIGINT", 8)]
    all_types += [("INTEGER UNSIGNED", "int", "BIGINT", 5), ("BIGINT", "int", "BIGINT", 64), ("BIGINT UNSIGNED", "int", "UBIGINT", 64)]
    all_types += [(f"DECIMAL({p}, {s})", "dec", f"DECIMAL({p}, {s})", p) for p, s in ((5, 2), (9, 0), (12, 4), (18, 6), (30, 10))]
    all_types += [("REAL", "float", "DOUBLE", WILD), ("DOUBLE", "float", "DOUBLE", 12), ("DOUBLE", "float", "DOUBLE", WILD)]
    all_types += [("TEXT", "text", "TEXT", 40)] * 3 + [("DATE", "date", "DATE", 12), ("DATE", "date", "DATE", WILD)]
    all_types += [("TIMESTAMP", "ts", "TIMESTAMP", 20), ("TIMESTAMP", "ts", "TIMESTAMP", WILD)]
    chosen = chance.sample(all_types, chance.randint(3, 10))
    return [Column(chance, f"{kind[0]}{at}", declared, kind, theirs, bits) for at, (declared, kind, theirs, bits) in enumerate(chosen)]


class Round:
    """Tables by a seed, at both, and statements over them."""

    def __init__(self, seed, number, server, reference):
        self.chance = random.Random(f"{seed}-{number}")
        self.large = self.chance.random() < 0.12
        self.server, self.reference = server, reference
        self.tables, self.literals = {}, collections.defaultdict(list)
        for at in range(self.chance.randint(2, 4)):
            self.make(f"t{at}")
        self.statements = Statements(self.chance, self.tables, self.literals)
        for name in self.tables:
            for _ in range(self.chance.randrange(4)):
                self.change(name)

    def both(self, statement):
        """A statement that writes, at the reference as it went at the server."""
        state, told = self.server.ask(statement)
        if state == "failed":
            raise Ended(f"{statement}: {told}")
        if state == "rows" and self.reference.ask(statement)[0] != "rows":
            raise Apart(f"only Basalt takes it: {statement}")

    def make(self, name):
        chance = self.chance
        rows = chance.choice([0, 1, 7, 60, 400, 400, 3_000])
        if name == "t0":
            rows = 70_000 if self.large else chance.choice([60, 400])
        columns = columns_of(chance)
        ids = list(range(1, rows + 1))
        if chance.random() < 0.5:
            chance.shuffle(ids)
        data = [[None if value is None else column.quoted(value) for value in column.values(rows)] for column in columns]
        for column in columns:
            shown = [value for value in column.values(6) if value is not None and value == value]
            self.literals[column.kind] += map(column.literal, shown)
            # Of a NULL day DuckDB's extract is a float.
            if column.kind not in ("date", "ts"):
                self.literals[column.kind].append((f"CAST(NULL AS {column.theirs if column.kind == 'int' else column.declared})", 1))
        refers = name != "t0" and chance.random() < 0.5
        names = ["id", *(column.name for column in columns), *(["ref"] if refers else [])]
        if refers:
            data.append([None if chance.random() < 0.1 else str(chance.randint(1, 80)) for _ in ids])
        reference = ", ref BIGINT REFERENCES t0 (id)" if refers else ""
        ours = ", ".join(f"{column.name} {column.declared}" for column in columns)
        theirs = ", ".join(f"{column.name} {column.theirs}" for column in columns)
        self.server.ask(f"DROP TABLE IF EXISTS {name}")
        state, told = self.server.ask(f"CREATE TABLE {name} (id BIGINT NOT NULL, {ours}{reference})")
        assert state == "rows", told
        self.reference.connection.execute(f"CREATE OR REPLACE TABLE {name} (id BIGINT, {theirs}{', ref BIGINT' if refers else ''})")
        plain = {at + 1 for at, column in enumerate(columns) if column.kind in ("int", "dec", "bool")} | {0, len(columns) + 1}
        plain |= {at + 1 for at, column in enumerate(columns) if column.kind == "float"}
        lines, quoted = [], []
        for row in zip(map(str, ids), *data):
            quoted.append(json.dumps(dict(zip(names, row))))
            fields = (
                f'"{key}": {value if at in plain and value not in ("nan", "inf", "-inf") else json.dumps(value)}'
                for at, (key, value) in enumerate(zip(names, row))
                if value is not None
            )
            lines.append("{" + ", ".join(fields) + "}")
        cuts = sorted({0, rows, *(chance.randrange(rows + 1) for _ in range(chance.randrange(4)))})
        for first, last in zip(cuts, cuts[1:]):
            self.server.load(name, lines[first:last])
            self.reference.load(name, names, quoted[first:last])
        if chance.random() < 0.2 and any(column.kind == "text" for column in columns):
            # Bytes come from an UPDATE alone: JSON has none.
            for asked in (self.server.ask, self.reference.ask):
                asked(f"ALTER TABLE {name} ADD COLUMN x BYTEA")
            self.both(f"UPDATE {name} SET x = CAST(CAST(id % 5 AS TEXT) AS BYTEA) WHERE id % 3 > 0")
            columns.append(Column(chance, "x", "BYTEA", "blob", "BLOB", 8))
            self.literals["blob"].append(("CAST('2' AS BYTEA)", 8))
        scope = [leaf("int", "id", 17), *(leaf(column.kind, column.name, column.bits) for column in columns)]
        if refers:
            scope.append(leaf("int", "ref", 7))
        self.tables[name] = Relation(Term("", [name]), scope, [scope[0]], rows)
        self.literals["int"] += [("0", 1), ("1", 1), ("3", 2)]
        for kind, text in ("bool", "true"), ("dec", "1.5"), ("float", "CAST(0.5 AS DOUBLE)"), ("text", "'a'"), ("blob", "CAST('1' AS BYTEA)"):
            self.literals[kind].append((text, 2))
        self.literals["date"].append(("DATE '2020-02-29'", 12))
        self.literals["ts"].append(("TIMESTAMP '2020-02-29 12:00:00'", 12))

    def change(self, name):
        """Rows are deleted or updated, at both."""
        scope = self.tables[name].scope
        where = self.statements.expression("bool", scope, 2)
        if self.chance.random() < 0.5:
            self.both(f"DELETE FROM {name} WHERE {where} AND id % 3 <> 0")
            return
        # A float may be one of 32 bits there alone.
        column = self.chance.choice([term for term in scope[1:] if term.kind != "float"] or scope[:1])
        if column is not scope[0]:
            value = self.statements.expression(column.kind, scope, 2)
            self.both(f"UPDATE {name} SET {column} = {value if column.bits < 64 else column} WHERE {where}")

    def drop(self):
        for name in reversed(self.tables):
            self.server.ask(f"DROP TABLE {name}")


# Answers


def plain(value):
    """A value as both have it: instants without a zone, days as their midnight, true and false as no numbers, NaN equal to itself."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return bytes(value) if isinstance(value, memoryview) else value


def close(ours, theirs):
    if isinstance(ours, float) or isinstance(theirs, float):
        numbers = not isinstance(ours, (str, type(None))) and not isinstance(theirs, (str, type(None)))
        return numbers and math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)
    return ours == theirs and (ours is None) == (theirs is None)


def near(row):
    """An order that floats decide last, and not by their last digits."""
    exact = [repr(value) for value in row if not isinstance(value, float)]
    return exact, [float(f"{value:.7g}") for value in row if isinstance(value, float)]


def apart(ours, theirs, ordered):
    """The rows that are not the same, those of each side: floats are the same within 1e-9, all else exactly."""
    ours, theirs = ([tuple(map(plain, row)) for row in rows] for rows in (ours, theirs))
    if ours == theirs:
        return [], []
    if not ordered:
        counts = collections.Counter(ours)
        counts.subtract(theirs)
        ours = sorted((row for row, count in counts.items() for _ in range(count)), key=near)
        theirs = sorted((row for row, count in counts.items() for _ in range(-count)), key=near)
    if len(ours) != len(theirs):
        return ours, theirs
    pairs = [(a, b) for a, b in zip(ours, theirs) if len(a) != len(b) or not all(map(close, a, b))]
    return [a for a, _ in pairs], [b for _, b in pairs]


class Judge:
    """Asks both, counts, and makes findings small."""

    def __init__(self, server, reference):
        self.server, self.reference = server, reference
        self.counts, self.kinds, self.asked_at = collections.Counter(), collections.Counter(), None
        self.findings = {}
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        """Ends what no deadline ends: the reference, then the server."""
        while True:
            time.sleep(1)
            asked = self.asked_at
            if asked and time.monotonic() - asked > 2 * DEADLINE_S:
                self.reference.connection.interrupt()
            if asked and time.monotonic() - asked > 4 * DEADLINE_S:
                self.server.process.kill()

    def outcome(self, statement, ordered):
        """How the answers compare, and both."""
        self.asked_at = time.monotonic()
        ours = self.server.ask(statement)
        theirs = self.reference.ask(statement)
        self.asked_at = None
        match ours[0], theirs[0]:
            case "failed", _:
                # What DuckDB does not answer in time either is too much work.
                how = "too long" if "57014" in ours[1] and theirs[0] != "rows" else "failed"
            case "rows", "rows":
                how = "differs" if any(apart(ours[1], theirs[1], ordered)) else "same"
                if how == "differs" and ordered and not any(apart(ours[1], theirs[1], False)):
                    how = "in another order"
            case _, "rows":
                how = f"only Basalt: {ours[0]}"
            case "rows", _:
                how = "only DuckDB"
            case _:
                how = "neither"
        return how, ours, theirs

    def judge(self, query, where):
        statement = str(query)
        how, ours, theirs = self.outcome(statement, query.ordered)
        self.counts[how] += 1
        if how.startswith("only"):
            kind = refusal(how, ours, theirs)
            self.kinds[kind] += 1
            if self.kinds[kind] == 1 and self.verbose:
                query = self.smallest(query, lambda *told: refusal(*told) == kind)
                print(f"{kind}\n    {query}", flush=True)
        if how in WRONG:
            if any(re.search(pattern, statement) for pattern, excused in EXCUSED if excused == how):
                self.counts["excused"] += 1
                return
            if self.server.process.poll() is not None:
                self.report(statement, where, how, ours, theirs, "")
                raise Ended("the server ended")
            query = self.smallest(query, lambda again, *_: again == how)
            text, rows = str(query), self.rows(query, how)
            self.report(text, where, how, *self.outcome(text, query.ordered)[1:], rows)

    def smallest(self, query, still):
        """The query with as little as is still answered in the same way."""
        until = time.monotonic() + SHRINK_S
        going = True
        while going and time.monotonic() < until:
            going = False
            for other in smaller(query):
                if time.monotonic() > until:
                    break
                if len(str(other)) < len(str(query)) and still(*self.outcome(str(other), other.ordered)):
                    query, going = other, True
                    break
        return query

    def rows(self, query, how):
        """The tables with as few rows and columns as still show it, as statements."""
        text, out = str(query), []
        for table in sorted(set(re.findall(r"\b(t\d) AS", text))):
            ids = [row[0] for row in self.reference.ask(f"SELECT id FROM {table} ORDER BY id")[1]]
            names = [row[0] for row in self.reference.ask(f"DESCRIBE {table}")[1]]
            names = [name for name in names if re.search(rf"\b{name}\b", text)] or names[:1]
            copied = text.replace(f"{table} ", "small ")

            def shown(kept):
                listed = ", ".join(map(str, kept)) or "NULL"
                for asked in (self.server.ask, self.reference.ask):
                    asked("DROP TABLE IF EXISTS small")
                    asked(f"CREATE TABLE small AS SELECT {', '.join(names)} FROM {table} WHERE id IN ({listed})")
                return self.outcome(copied, query.ordered)[0] == how

            until, step = time.monotonic() + SHRINK_S / 2, len(ids)
            if len(ids) > 5_000 or not shown(ids):
                out.append(f"{table} is not made smaller")
                continue
            while step >= 1 and time.monotonic() < until:
                for at in range(0, len(ids), step):
                    kept = ids[:at] + ids[at + step :]
                    if len(kept) < len(ids) and shown(kept):
                        ids = kept
                        break
                else:
                    step //= 2
            shown(ids)
            types = ", ".join(f"{row[0]} {row[1]}" for row in self.server.ask("DESCRIBE small")[1] if isinstance(row, tuple))
            out.append(f"{table} ({types}): {self.server.ask('SELECT * FROM small')[1][:12]}")
        return "\n    ".join(out)

    def report(self, text, where, how, ours, theirs, rows):
        sign = how + re.sub(r"'[^']*'|\b[a-z]+\d+\b|\d+", "_", text)
        if sign in self.findings:
            return
        self.findings[sign] = text
        if how == "differs":
            lost, found = apart(ours[1], theirs[1], False)
            ours, theirs = (f"{len(rows)} rows, of which differ {of[:6]}" for (_, rows), of in ((ours, lost), (theirs, found)))
        print(f"{how}, {where}\n  {text}\n    {rows}\n  Basalt: {short(ours)}\n  DuckDB: {short(theirs)}", flush=True)


def refusal(how, ours, theirs):
    """What kind of refusal an answer is, without the names and numbers in it."""
    told = (theirs if how == "only DuckDB" else ours)[1]
    if not isinstance(told, str):
        return how
    return how + ": " + re.sub(r"'[^']*'|\"[^\"]*\"|\b[a-z]+\d+(\.\w+)?\b|-?\d+(\.\d+)?", "_", told)[:70]


def short(answer):
    if isinstance(answer, str):
        return answer
    return f"{len(answer[1])} rows {answer[1][:8]}" if answer[0] == "rows" else f"{answer[0]}: {answer[1][:300]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("basalt")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--statements", type=int, default=1 << 60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--round", type=int, default=0, help="the first of the rounds")
    parser.add_argument("--verbose", action="store_true", help="a statement for each kind of refusal")
    arguments = parser.parse_args()
    started, told = time.monotonic(), time.monotonic()
    until = started + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        server, number = Server(arguments.basalt, folder), arguments.round
        judge = Judge(server, Reference(folder))
        judge.verbose = arguments.verbose
        asked = 0
        try:
            while time.monotonic() < until and asked < arguments.statements:
                where = f"seed {arguments.seed}, round {number}"
                try:
                    tables = Round(arguments.seed, number, judge.server, judge.reference)
                    for _ in range(ROUND // 4 if tables.large else ROUND):
                        judge.judge(tables.statements.statement(), where)
                        asked += 1
                        if time.monotonic() > until or asked >= arguments.statements:
                            break
                    tables.drop()
                except Apart as error:
                    judge.counts["rounds that ended early"] += 1
                    print(f"{where}: {error}", flush=True)
                except Ended as error:
                    judge.findings[where] = str(error)
                    print(f"failed, {where}: {error}\n{server.log.read_text(errors='replace')[-2000:]}", flush=True)
                    judge.server.stop()
                    judge.server = Server(arguments.basalt, folder)
                number += 1
                if time.monotonic() > told + 60:
                    told = time.monotonic()
                    both = sum(judge.counts[how] for how in ("same", *WRONG))
                    print(f"{asked:,} statements, {asked / (told - started):.0f} a second, {both / asked:.1%} answered by both", flush=True)
        finally:
            judge.server.stop()
        panics = [line for line in server.log.read_text(errors="replace").splitlines() if "panicked" in line]
    print(f"seed {arguments.seed}: {asked:,} statements in {number - arguments.round} rounds, {time.monotonic() - started:.0f} s")
    print(", ".join(f"{how} {count:,}" for how, count in judge.counts.most_common()))
    for kind, count in judge.kinds.most_common(20):
        print(f"  {count:6,} {kind}")
    print("\n".join(panics[:10]))
    sys.exit(1 if judge.findings or panics else 0)


main()
