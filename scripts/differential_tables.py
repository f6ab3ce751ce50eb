"""Random tables, the same at a server and at DuckDB: what scripts/differential.py asks of."""

import collections
import datetime as dt
import decimal
import json
import math
import random
import re

from differential_sql import Relation, Statements
from differential_terms import WILD, Term, leaf

WORDS = ["", "a", "ab", "abc", "Ab", "b", "ba", "aab", " a", "a b", "12", "-7", "0", "%", "_x", "it's", "ä", "Ñandú", "日本", "😀x"]
WORDS.append("x" * 40)
# Floats that JSON has no numbers for.
NOT_JSON = ("nan", "inf", "-inf")
# What every round may compare with: kind, text, bits.
LITERALS = [("int", "0", 1), ("int", "1", 1), ("int", "3", 2), ("bool", "true", 1), ("dec", "1.5", 2), ("text", "'a'", 1)]
LITERALS += [("float", "CAST(0.5 AS DOUBLE)", 2), ("blob", "CAST('1' AS BYTEA)", 1), ("blob", "CAST('2' AS BYTEA)", 1)]
LITERALS += [("date", "DATE '2020-02-29'", 12), ("ts", "TIMESTAMP '2020-02-29 12:00:00'", 12)]


class Apart(Exception):
    """The tables are no longer the same in both."""


class Ended(Exception):
    """The server failed where nothing is made smaller."""


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
                edges = [-1, -(1 << 63)] if self.theirs == "BIGINT" else [(1 << 64) - 1]
                return chance.choice([0, 1, 7, (1 << 63) - 1, *edges, chance.randrange(1 << 40)])
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
                seconds, micros = chance.choice([0, 3600, chance.randrange(86400)]), chance.choice([0, 500_000, 1])
                return dt.datetime(2020, 2, 28, 23) + dt.timedelta(chance.randrange(-60, 60), seconds, micros)

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


def columns_of(chance):
    """Columns of a table by chance, behind its id."""
    all_types = [("BOOLEAN", "bool", "BOOLEAN", 1), ("TINYINT", "int", "BIGINT", 6), ("SMALLINT", "int", "BIGINT", 10)]
    all_types += [("INTEGER", "int", "BIGINT", 16), ("BIGINT", "int", "BIGINT", 30), ("TINYINT UNSIGNED", "int", "BIGINT", 8)]
    all_types += [("INTEGER UNSIGNED", "int", "BIGINT", 5), ("BIGINT", "int", "BIGINT", 64)]
    all_types += [("BIGINT UNSIGNED", "int", "UBIGINT", 64)]
    all_types += [(f"DECIMAL({p}, {s})", "dec", f"DECIMAL({p}, {s})", p) for p, s in ((5, 2), (9, 0), (12, 4), (18, 6), (30, 10))]
    all_types += [("REAL", "float", "DOUBLE", WILD), ("DOUBLE", "float", "DOUBLE", 12), ("DOUBLE", "float", "DOUBLE", WILD)]
    all_types += [("TEXT", "text", "TEXT", 40)] * 3 + [("DATE", "date", "DATE", 12), ("DATE", "date", "DATE", WILD)]
    all_types += [("TIMESTAMP", "ts", "TIMESTAMP", 20), ("TIMESTAMP", "ts", "TIMESTAMP", WILD)]
    chosen = chance.sample(all_types, chance.randint(3, 10))
    return [Column(chance, f"{kind[0]}{at}", ours, kind, theirs, bits) for at, (ours, kind, theirs, bits) in enumerate(chosen)]


class Round:
    """Tables by a seed, at both, and statements over them."""

    def __init__(self, seed, number, server, reference):
        self.chance = random.Random(f"{seed}-{number}")
        self.large = self.chance.random() < 0.12
        self.server, self.reference = server, reference
        self.tables, self.literals = {}, collections.defaultdict(list)
        for kind, text, bits in LITERALS:
            self.literals[kind].append((text, bits))
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
        """A table with rows, at both."""
        chance = self.chance
        rows = chance.choice([0, 1, 7, 60, 400, 400, 3_000])
        if name == "t0":
            rows = 70_000 if self.large else chance.choice([60, 400])
        columns = columns_of(chance)
        ids = list(range(1, rows + 1))
        if chance.random() < 0.5:
            chance.shuffle(ids)
        data = {"id": list(map(str, ids))}
        for column in columns:
            data[column.name] = [column.quoted(value) for value in column.values(rows)]
            shown = [value for value in column.values(6) if value is not None and value == value]
            self.literals[column.kind] += map(column.literal, shown)
            # Of a NULL day DuckDB's extract is a float.
            if column.kind not in ("date", "ts"):
                of = column.theirs if column.kind == "int" else column.declared
                self.literals[column.kind].append((f"CAST(NULL AS {of})", column.bits if column.kind == "dec" else 1))
        ours = ["id BIGINT NOT NULL", *(f"{column.name} {column.declared}" for column in columns)]
        theirs = ["id BIGINT", *(f"{column.name} {column.theirs}" for column in columns)]
        scope = [leaf("int", "id", 17), *(leaf(column.kind, column.name, column.bits) for column in columns)]
        if name != "t0" and chance.random() < 0.5:
            data["ref"] = [None if chance.random() < 0.1 else str(chance.randint(1, 80)) for _ in ids]
            ours.append("ref BIGINT REFERENCES t0 (id)")
            theirs.append("ref BIGINT")
            scope.append(leaf("int", "ref", 7))
        self.server.ask(f"DROP TABLE IF EXISTS {name}")
        state, told = self.server.ask(f"CREATE TABLE {name} ({', '.join(ours)})")
        assert state == "rows", told
        self.reference.connection.execute(f"CREATE OR REPLACE TABLE {name} ({', '.join(theirs)})")
        self.load(name, data, {str(term) for term in scope if term.kind in ("bool", "int", "dec", "float")})
        self.tables[name] = Relation(Term("", [name]), scope, [scope[0]], rows)
        if chance.random() < 0.1:
            # Bytes come from an UPDATE alone: JSON has none.
            for asked in (self.server.ask, self.reference.ask):
                asked(f"ALTER TABLE {name} ADD COLUMN x BYTEA")
            self.both(f"UPDATE {name} SET x = CAST(CAST(id % 5 AS TEXT) AS BYTEA) WHERE id % 3 > 0")
            scope.append(leaf("blob", "x"))

    def load(self, name, data, bare):
        """Rows in a few commits; the columns that are bare stand without quotes."""
        lines, quoted = [], []
        for row in zip(*data.values()):
            quoted.append(json.dumps(dict(zip(data, row))))
            fields = ((key, value) for key, value in zip(data, row) if value is not None)
            shown = ((key, value if key in bare and value not in NOT_JSON else json.dumps(value)) for key, value in fields)
            lines.append("{" + ", ".join(f'"{key}": {value}' for key, value in shown) + "}")
        chance, rows = self.chance, len(lines)
        cuts = sorted({0, rows, *(chance.randrange(rows + 1) for _ in range(chance.randrange(4)))})
        for first, last in zip(cuts, cuts[1:]):
            self.server.load(name, lines[first:last])
            self.reference.load(name, list(data), quoted[first:last])

    def change(self, name):
        """Rows are deleted or updated, at both."""
        scope = self.tables[name].scope
        where = self.statements.expression("bool", scope, 2)
        form, other = self.chance.random(), self.chance.choice(list(self.tables))
        if form < 0.35:
            self.both(f"DELETE FROM {name} WHERE {where} AND id % 3 <> 0")
            return
        if form < 0.45 and other != name:
            self.both(f"DELETE FROM {name} USING {other} AS u WHERE {name}.id = u.id AND u.id % 7 = 2")
            return
        if form < 0.55:
            self.both(f"INSERT INTO {name} (id) SELECT id + 1000000 FROM {other} WHERE id % 11 = 3 AND id < 1000000")
            return
        # A float may be one of 32 bits there alone.
        column = self.chance.choice([term for term in scope[1:] if term.kind != "float"] or scope[:1])
        if column is not scope[0]:
            value = self.statements.expression(column.kind, scope, 2)
            self.both(f"UPDATE {name} SET {column} = {value if column.bits < 64 else column} WHERE {where}")

    def drop(self):
        for name in reversed(self.tables):
            self.server.ask(f"DROP TABLE {name}")
