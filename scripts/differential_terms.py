"""Pieces of SQL with their types, and the expressions that scripts/differential_sql.py makes statements of.

Most templates are valid in Basalt and in DuckDB, and mean the same; what differs by a decision (docs/src/sql/semantics.md) is left
out, each with its reason.
"""

import dataclasses

# Bits of what is never added up: the extremes of a type, NaN, the year 1.
WILD = 9_999
LIMIT = {"int": 62, "dec": 38, "float": 60, "text": 400, "date": 30, "ts": 30}
KINDS = ["bool", "int", "int", "int", "dec", "float", "text", "text", "date", "ts"]
COMPARED = [*KINDS, "blob"]


@dataclasses.dataclass
class Term:
    """A piece of SQL. Its kind is that of its value, or "?" of what may be left out, "," of a list, "" of anything else.

    bits says how large a value may be: bits of an integer or float, digits of a decimal, characters of a text. A constant term has
    no column. A loose one is shown, and never compared, combined or ordered by: it depends on the order in which floats are added,
    or has all 38 digits of decimals, which have no common type with others.
    """

    kind: str
    pieces: list
    bits: int = 8
    constant: bool = True
    loose: bool = False
    columns: list = None
    ordered: bool = False
    rows: int = 0

    def __str__(self):
        if self.kind == ",":
            return ", ".join(map(str, self.pieces))
        return "".join(map(str, self.pieces))


def leaf(kind, text, bits=8, constant=False, loose=False):
    return Term(kind, [text], bits, constant, loose)


def optional(*pieces):
    return Term("?", list(pieces))


def listed(terms):
    return Term(",", list(terms))


def smaller(term):
    """Trees with one piece less, or a simpler one; large cuts first."""
    if term.kind == "?" and term.pieces:
        yield Term("?", [])
    elif term.kind == "," and len(term.pieces) > 1:
        for at in range(len(term.pieces)):
            yield dataclasses.replace(term, pieces=term.pieces[:at] + term.pieces[at + 1 :])
    elif term.kind not in ("?", ",", "", "leaf"):
        yield from (other for other in inside(term) if other.kind == term.kind)
        if term.kind != "query" and len(term.pieces) > 1:
            yield leaf(term.kind, "NULL")
    for at, piece in enumerate(term.pieces):
        if isinstance(piece, Term):
            for other in smaller(piece):
                yield dataclasses.replace(term, pieces=[*term.pieces[:at], other, *term.pieces[at + 1 :]])


def inside(term):
    for piece in term.pieces:
        if isinstance(piece, Term):
            yield piece
            yield from inside(piece)


def most(*bits):
    return max(bits)


def total(*bits):
    return sum(bits)


def carried(*bits):
    return max(bits) + 1


# By kind: templates, and the bits of their value by those of their holes of the same kind. {a} is of any kind, the same in all
# holes; {n} a small number, {p} one from 1, {l} a literal text, {pattern} one of LIKE.
# Not here, by decision: `^`, CAST of floats and decimals to integers without trunc (truncates or rounds), floats as texts (`1e20`),
# substring from 0 or from the end, dates and intervals as texts, medians of decimals, characters of several code points. Nor
# count_if, which is NULL of no rows in DuckDB, and comparisons of rows, which take columns and literals alone.
SAME = [
    ("CASE WHEN {bool} THEN {k} ELSE {k} END", most),
    ("CASE WHEN {bool} THEN {k} WHEN {bool} THEN {k} END", most),
    ("coalesce({k}, {k})", most),
    ("nullif({k}, {k})", lambda a, b: a),
    ("greatest({k}, {k})", most),
    ("least({k}, {k})", most),
]
CHOICES = ("CASE", "coalesce", "greatest", "least")
TEMPLATES = {
    "bool": [
        *((f"{{a}} {op} {{a}}", most) for op in ("=", "=", "<>", "<", "<=", ">", ">=")),
        *((f"{{a}} IS {op}", most) for op in ("NULL", "NOT NULL")),
        *((f"{{a}} IS {op} FROM {{a}}", most) for op in ("DISTINCT", "NOT DISTINCT")),
        *((f"{{a}} {no}BETWEEN {{a}} AND {{a}}", most) for no in ("", "NOT ")),
        *((f"{{a}} {no}IN ({{a}}, {{a}}, {{a}})", most) for no in ("", "", "NOT ")),
        *((f"{{bool}} {op} {{bool}}", most) for op in ("AND", "AND", "AND", "OR", "OR", "OR")),
        *((f"{{bool}} IS {op}", most) for op in ("TRUE", "NOT FALSE", "NOT TRUE")),
        ("NOT {bool}", most),
        ("NOT {bool}", most),
        *((f"{{text}} {op} {{pattern}}", most) for op in ("LIKE", "NOT LIKE", "ILIKE")),
        ("starts_with({text}, {l})", most),
        ("contains({text}, {l})", most),
        ("regexp_matches({text}, '[ab]+x?')", most),
        ("{int} % {p} = {n}", most),
        ("date_trunc({unit}, {ts}) = date_trunc({unit}, {ts})", most),
        ("extract({field} FROM {date}) = {n}", most),
        *((mixed, most) for mixed in ("{int} < {float}", "{dec} = {int}", "{float} >= {dec}", "{date} <= {ts}", "{ts} = {date}")),
        ("CASE WHEN {bool} THEN {bool} ELSE {bool} END", most),
        ("coalesce({bool}, {bool})", most),
    ],
    "int": [
        ("{int} + {int}", carried),
        ("{int} - {int}", carried),
        ("{int} * {int}", total),
        ("{int} % {p}", lambda a: 4),
        ("{int} // {p}", lambda a: a),
        ("0 - {int}", carried),
        ("abs({int})", carried),
        ("length({text})", lambda: 12),
        ("strpos({text}, {l})", lambda: 12),
        ("extract({field} FROM {date})", lambda: 14),
        ("extract({field} FROM {ts})", lambda: 14),
        ("date_diff('day', {date}, {date})", lambda: 22),
        ("{date} - {date}", lambda: 22),
        ("CAST({bool} AS BIGINT)", lambda: 1),
        ("TRY_CAST({text} AS BIGINT)", lambda: 64),
        ("{int} & {n}", lambda a: 3),
        ("ascii({text})", lambda: 21),
        ("xor({int}, {n})", carried),
        ("CAST(trunc({float}) AS BIGINT)", lambda: 60),
        ("date_diff('month', {date}, {date})", lambda: 20),
        ("epoch_ms({ts})", lambda: 50),
        ("extract(hour FROM {ts})", lambda: 5),
    ],
    "dec": [
        ("{dec} + {dec}", total),
        ("{dec} - {dec}", total),
        ("{dec} * {dec}", total),
        ("-{dec}", carried),
        ("abs({dec})", carried),
        ("CAST({int} AS DECIMAL(20, 2))", lambda: 20),
        ("CASE WHEN {bool} THEN {int} ELSE {dec} END", lambda a: a + 20 if a < 17 else WILD),
        ("coalesce({dec}, {int})", lambda a: a + 20 if a < 17 else WILD),
        ("CAST({dec} AS DECIMAL(20, 1))", lambda a: 20 if a < 19 else WILD),
        ("round({dec}, 1)", lambda a: a if a < 19 else WILD),
    ],
    "float": [
        ("{float} + {float}", carried),
        ("{float} - {float}", carried),
        ("{float} * {float}", total),
        ("{float} / NULLIF({float}, 0)", lambda a, b: a + 10),
        ("{int} / NULLIF({int}, 0)", lambda: 62),
        ("{dec} / NULLIF({dec}, 0)", lambda: 62),
        ("CAST({int} AS DOUBLE)", lambda: 62),
        ("CASE WHEN {bool} THEN {int} ELSE {float} END", lambda a: 62),
        ("coalesce({int}, {float})", lambda a: 62),
        ("{int} + {float}", lambda a: 62),
        ("CAST({dec} AS DOUBLE)", lambda: 62),
        ("sqrt(abs({float}))", most),
        ("floor({float})", most),
        ("ceil({float})", most),
        ("-{float}", most),
        ("abs({float})", most),
        ("ln(abs({float}) + 1)", lambda a: 10),
        ("power({float}, 2)", lambda a: 2 * a),
        ("extract(epoch FROM {ts})", lambda: 40),
    ],
    "text": [
        ("upper({text})", most),
        ("lower({text})", most),
        ("substring({text}, {p}, {n})", most),
        ("left({text}, {n})", most),
        ("right({text}, {n})", most),
        ("replace({text}, {l}, {l})", lambda a: a * 4),
        ("trim({text})", most),
        ("ltrim({text}, {l})", most),
        ("lpad({text}, {p}, '*')", carried),
        ("rpad({text}, {p}, 'ab')", carried),
        ("{text} || {text}", total),
        ("concat({text}, {text})", total),
        ("concat_ws('-', {text}, {text})", lambda a, b: a + b + 1),
        ("repeat({text}, {n})", lambda a: a * 5),
        ("reverse({text})", most),
        ("split_part({text}, 'a', {p})", most),
        ("CAST({int} AS TEXT)", lambda: 20),
        ("CAST({bool} AS TEXT)", lambda: 5),
        ("CAST({date} AS TEXT)", lambda: 10),
        ("CAST({ts} AS TEXT)", lambda: 26),
        ("strftime({ts}, '%Y-%m %H')", lambda: 13),
        ("dayname({date})", lambda: 9),
        ("monthname({ts})", lambda: 9),
        ("md5({text})", lambda a: 32),
        ("translate({text}, 'ab', 'xy')", most),
        ("regexp_replace({text}, 'a+', 'b')", most),
    ],
    "date": [
        ("{date} + {n}", most),
        ("{date} - {p}", most),
        ("CAST({ts} AS DATE)", lambda: 20),
        ("last_day({date})", most),
        ("make_date(2020, {p}, {p})", lambda: 20),
    ],
    "ts": [
        ("date_trunc({unit}, {ts})", most),
        ("date_trunc({unit}, {date})", lambda: 20),
        ("{ts} + INTERVAL '90 minutes'", most),
        ("{ts} - INTERVAL '1 month'", most),
        ("CAST({date} AS TIMESTAMP)", lambda: 20),
        ("time_bucket(INTERVAL '3 hours', {ts})", most),
        ("CASE WHEN {bool} THEN {date} ELSE {ts} END", lambda a: 20),
    ],
    "blob": [],
}
for kind, templates in TEMPLATES.items():
    if kind not in ("bool", "blob"):
        templates += [(text.replace("{k}", f"{{{kind}}}"), bits) for text, bits in SAME]

# Conditions without conditions in them.
ATOMS = [template for template in TEMPLATES["bool"] if "{bool}" not in template[0]]

# Aggregates by kind: the template, the most bits that a hole of its kind may have, bits of the answer, whether it is loose.
AGGREGATES = {
    "bool": [("bool_and({bool})", 99, 1, False), ("bool_or({bool})", 99, 1, False)],
    "int": [
        ("count(*)", 99, 22, False),
        ("count({a})", 99, 22, False),
        ("count(DISTINCT {a})", 99, 22, False),
        ("sum({int})", 40, 62, False),
        ("sum(DISTINCT {int})", 40, 62, False),
        ("bit_or({int})", 62, 62, False),
        ("bit_and({int})", 62, 62, False),
    ],
    "dec": [("sum({dec})", 30, 38, True)],
    "float": [
        ("avg({int})", 62, WILD, True),
        ("avg({dec})", 30, WILD, True),
        ("avg({float})", 40, WILD, True),
        ("sum({float})", 40, WILD, True),
        ("stddev({int})", 20, WILD, True),
        ("var_pop({int})", 20, WILD, True),
        ("stddev_pop({int})", 20, WILD, True),
        ("var_samp({int})", 20, WILD, True),
        ("median({int})", 50, WILD, True),
        ("quantile_cont({float}, 0.25)", 40, WILD, True),
        ("covar_pop({int}, {float})", 20, WILD, True),
    ],
    "text": [("string_agg({text}, ',' ORDER BY {again})", 40, WILD, False), ("median({text})", WILD, None, False)],
    "date": [],
    "ts": [("median({date})", 20, 20, False), ("median({ts})", 20, 20, False)],
}
for kind, templates in AGGREGATES.items():
    if kind != "bool":
        templates += [(f"{name}({{{kind}}})", WILD, None, False) for name in ("min", "max")]

UNITS = ["'day'", "'week'", "'month'", "'quarter'", "'year'"]
FIELDS = ["year", "month", "day", "dow", "doy", "quarter", "week"]
