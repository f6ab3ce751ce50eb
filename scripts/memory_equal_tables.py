"""Tables of random values of all types, which scripts/memory_equal.py writes and asks of."""

import array
import dataclasses
import datetime as dt
import random
import struct

from differential_sql import Relation
from differential_terms import WILD, Term, leaf

from basalt.v1 import ingest_pb2, types_pb2

# Rows of a commit, and of a message, whose payloads have to fit its 4 MiB.
COMMIT_ROWS, BATCH_ROWS = 1 << 15, 4096
WORDS = ["", "a", "ab", "abc", "Ab", "b", "ba", "12", "-7", "0", "%", "it's", "ä", "日本", "x" * 40]
KIND = types_pb2.DataType


def typed(kind, **more):
    return KIND(kind=getattr(types_pb2, f"TYPE_KIND_{kind}"), **more)


def wide(chance, code, rows):
    """Random values of an array's type, all bits of them."""
    out = array.array(code)
    out.frombytes(chance.randbytes(rows * out.itemsize))
    return out


def small(chance, rows, low, high):
    """Whole numbers of a range, skewed to its beginning."""
    return [low + x * y * (high - low) // 0xFFFFFFFF for x, y in zip(wide(chance, "H", rows), wide(chance, "H", rows))]


def floats(chance, rows):
    """Of many digits and sizes, the extremes among them."""
    out = array.array("d", (x / 7 for x in wide(chance, "q", rows)))
    for special in (float("nan"), float("inf"), -0.0, 5e-324, 1e300, -1e300, 0.1):
        out[chance.randrange(rows)] = special
    return out


def texts(values):
    return {"texts": types_pb2.Texts(data=b"".join(values), lengths=list(map(len, values)))}


def pieces(chance, rows, low, high, data):
    """Texts that are cut of random bytes."""
    lengths = [low + byte * (high - low) // 255 for byte in chance.randbytes(rows)]
    data, at, out = data(sum(lengths)), 0, []
    for length in lengths:
        out.append(data[at : at + length])
        at += length
    return out


def wide_decimals(chance, rows):
    return b"".join(
        x.to_bytes(16, "little", signed=True) for x in (a * b for a, b in zip(wide(chance, "q", rows), wide(chance, "i", rows)))
    )


LETTERS = bytes(b"0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i % 63] for i in range(256))
# Name, type, kind and bits as differential_terms.py has them, share of nulls in eighths, values; `id` comes before them.
COLUMNS = [
    ("b1", typed("BOOL"), "bool", 1, 1, lambda c, n: {"bools": types_pb2.Bools(values=[x & 1 for x in c.randbytes(n)])}),
    ("i1", typed("INT8"), "int", 7, 0, lambda c, n: {"int32s": types_pb2.Int32s(values=wide(c, "b", n))}),
    ("i2", typed("INT16"), "int", 10, 1, lambda c, n: {"int32s": types_pb2.Int32s(values=small(c, n, -900, 1000))}),
    ("i3", typed("INT32"), "int", 31, 0, lambda c, n: {"int32s": types_pb2.Int32s(values=wide(c, "i", n))}),
    ("i4", typed("INT64"), "int", 30, 2, lambda c, n: {"int64s": types_pb2.Int64s(values=small(c, n, -(1 << 29), 1 << 29))}),
    ("i5", typed("INT64"), "int", 64, 1, lambda c, n: {"int64s": types_pb2.Int64s(values=wide(c, "q", n))}),
    ("u1", typed("UINT8"), "int", 8, 0, lambda c, n: {"uint32s": types_pb2.Uint32s(values=wide(c, "B", n))}),
    ("u2", typed("UINT16"), "int", 16, 1, lambda c, n: {"uint32s": types_pb2.Uint32s(values=wide(c, "H", n))}),
    ("u3", typed("UINT32"), "int", 32, 0, lambda c, n: {"uint32s": types_pb2.Uint32s(values=wide(c, "I", n))}),
    ("u4", typed("UINT64"), "int", 64, 1, lambda c, n: {"uint64s": types_pb2.Uint64s(values=wide(c, "Q", n))}),
    (
        "d1",
        typed("DECIMAL", precision=9, scale=2),
        "dec",
        9,
        1,
        lambda c, n: {"int64s": types_pb2.Int64s(values=small(c, n, 0, 99999))},
    ),
    (
        "d2",
        typed("DECIMAL", precision=18, scale=6),
        "dec",
        18,
        0,
        lambda c, n: {"int64s": types_pb2.Int64s(values=(x >> 5 for x in wide(c, "q", n)))},
    ),
    (
        "d3",
        typed("DECIMAL", precision=38, scale=10),
        "dec",
        38,
        2,
        lambda c, n: {"int128s": types_pb2.Int128s(data=wide_decimals(c, n))},
    ),
    (
        "f1",
        typed("FLOAT32"),
        "float",
        WILD,
        1,
        lambda c, n: {"floats": types_pb2.Floats(values=(x / 7 for x in wide(c, "i", n)))},
    ),
    (
        "f2",
        typed("FLOAT64"),
        "float",
        12,
        0,
        lambda c, n: {"doubles": types_pb2.Doubles(values=(x / 7 for x in wide(c, "h", n)))},
    ),
    ("f3", typed("FLOAT64"), "float", WILD, 1, lambda c, n: {"doubles": types_pb2.Doubles(values=floats(c, n))}),
    ("t1", typed("UTF8"), "text", 40, 1, lambda c, n: texts([w.encode() for w in c.choices(WORDS, k=n)])),
    ("t2", typed("UTF8"), "text", 40, 0, lambda c, n: texts(pieces(c, n, 8, 32, lambda m: c.randbytes(m).translate(LETTERS)))),
    ("t3", typed("UTF8"), "text", 400, 1, lambda c, n: texts(pieces(c, n, 0, 150, lambda m: c.randbytes(m).translate(LETTERS)))),
    ("a1", typed("DATE32"), "date", 12, 1, lambda c, n: {"int32s": types_pb2.Int32s(values=small(c, n, 17_000, 20_000))}),
    (
        "s1",
        typed("TIMESTAMP"),
        "ts",
        20,
        0,
        lambda c, n: {"int64s": types_pb2.Int64s(values=(x + 1_500_000_000_000_000 for x in wide(c, "i", n)))},
    ),
    ("h1", typed("TIME"), None, 0, 1, lambda c, n: {"int64s": types_pb2.Int64s(values=small(c, n, 0, 86_399_999_999))}),
    ("x1", typed("BINARY"), "blob", WILD, 1, lambda c, n: texts(pieces(c, n, 0, 900, c.randbytes))),
]
# Which columns each table has, beside its id, and its part of the rows.
TABLES = {
    "t0": ([column[0] for column in COLUMNS], 1),
    "t1": (["i2", "i4", "u1", "d1", "f2", "f3", "t1", "t2", "a1", "s1", "x1"], 5),
    "t2": (["i1", "i2", "i4", "u4", "d2", "f2", "t1", "a1"], 200),
}


@dataclasses.dataclass
class Table:
    name: str
    rows: int
    columns: list

    def fields(self):
        yield types_pb2.Field(name="id", type=typed("INT64"))
        for name, kind, *_ in self.columns:
            yield types_pb2.Field(name=name, type=kind, nullable=True)
        if self.name == "t1":
            refers = types_pb2.Reference(table="t0", column="id")
            yield types_pb2.Field(name="ref", type=typed("INT64"), nullable=True, references=refers)

    def relation(self):
        """As statements of SQL have it."""
        terms = [leaf("int", "id", 20)] + [leaf(kind, name, bits) for name, _, kind, bits, *_ in self.columns if kind]
        if self.name == "t1":
            terms.append(leaf("int", "ref", 20))
        return Relation(Term("", [self.name]), terms, [terms[0]], self.rows)

    def batches(self, chance, first, rows, most):
        """Rows of the ids from `first` on, as messages; references lead to some of `most` rows."""
        for low in range(first, first + rows, BATCH_ROWS):
            n = min(BATCH_ROWS, first + rows - low)
            columns = [types_pb2.Column(int64s=types_pb2.Int64s(values=range(low, low + n)))]
            for _, _, _, _, nulls, values in self.columns:
                columns.append(types_pb2.Column(validity=validity(chance, n, nulls), **values(chance, n)))
            if self.name == "t1":
                refers = types_pb2.Int64s(values=(x % most for x in wide(chance, "I", n)))
                columns.append(types_pb2.Column(validity=validity(chance, n, 1), int64s=refers))
            yield types_pb2.RecordBatch(rows=n, columns=columns)

    def writes(self, chance, most):
        """The messages of its commits."""
        for first in range(0, self.rows, COMMIT_ROWS):
            rows = min(COMMIT_ROWS, self.rows - first)

            def messages(first=first, rows=rows):
                yield ingest_pb2.WriteRequest(open=ingest_pb2.Open(table=self.name))
                sequence = 0
                for sequence, batch in enumerate(self.batches(chance, first, rows, most), 1):
                    yield ingest_pb2.WriteRequest(batch=ingest_pb2.Batch(sequence=sequence, columns=batch))
                yield ingest_pb2.WriteRequest(commit=ingest_pb2.Commit(batches=sequence, rows=rows))

            yield messages()


def validity(chance, rows, nulls):
    """Bits, of which so many eighths are zeros; none where all are ones."""
    if nulls == 0:
        return b""
    size = (rows + 7) // 8
    one, two, three = (int.from_bytes(chance.randbytes(size)) for _ in range(3))
    bits = one | two | three if nulls == 1 else one | two
    return bits.to_bytes(size)


def tables_of(rows):
    return [Table(name, max(rows // part, 10), [c for c in COLUMNS if c[0] in names]) for name, (names, part) in TABLES.items()]


def literals_of(chance):
    """What statements compare with: text and bits, by kind."""
    day = dt.date(1970, 1, 1)
    days = [day + dt.timedelta(x) for x in small(chance, 4, 17_000, 20_000)]
    moments = [dt.datetime(2017, 7, 14, 2, 40) + dt.timedelta(0, 0, x) for x in wide(chance, "i", 4)]
    out = {
        "bool": [("true", 1), ("false", 1)],
        "int": [
            (str(x) if x >= 0 else f"({x})", x.bit_length()) for x in [0, 1, 3, 100, *wide(chance, "i", 3), *wide(chance, "b", 4)]
        ],
        "dec": [("1.5", 2), ("250.25", 5), ("(-0.01)", 3)],
        "float": [(f"CAST('{x!r}' AS DOUBLE)", 12) for x in (0.5, -100.25, 2000.0)] + [("CAST('NaN' AS DOUBLE)", WILD)],
        "text": [("'" + w.replace("'", "''") + "'", len(w)) for w in WORDS] + [("'5'", 1), ("'zz'", 2), ("'Q'", 1)],
        "date": [(f"DATE '{x}'", 12) for x in days],
        "ts": [(f"TIMESTAMP '{x.isoformat(' ')}'", 20) for x in moments],
        "blob": [("CAST('1' AS BYTEA)", 1), ("CAST('ab' AS BYTEA)", 2)],
    }
    return out


def bits_of(value):
    """A value such that equal ones are the same bits."""
    return ("f", struct.pack("<d", value)) if isinstance(value, float) else value


def column_of(column, kind):
    """A column of an answer as a list of values that compare bit by bit."""
    packed = getattr(column, column.WhichOneof("values"))
    if isinstance(packed, types_pb2.Texts):
        values, at = [], 0
        for length in packed.lengths:
            values.append(packed.data[at : at + length])
            at += length
    elif isinstance(packed, types_pb2.Int128s):
        values = [packed.data[at : at + 16] for at in range(0, len(packed.data), 16)]
    else:
        values = list(packed.values)
        if kind.kind in (types_pb2.TYPE_KIND_FLOAT32, types_pb2.TYPE_KIND_FLOAT64):
            values = list(map(bits_of, values))
    if column.validity:
        there = int.from_bytes(column.validity, "little")
        values = [value if there >> row & 1 else None for row, value in enumerate(values)]
    return values


def seeded(seed, *what):
    return random.Random(" ".join(map(str, (seed, *what))))
