"""Random statements with their types: what scripts/differential.py asks. A statement is a tree of terms."""

import dataclasses

from differential_terms import AGGREGATES, ATOMS, CHOICES, COMPARED, FIELDS, KINDS, LIMIT, TEMPLATES, UNITS, WILD
from differential_terms import Term, leaf, listed, most, optional

# Pairs of rows that a join may look at.
PAIRS = 200_000
# Rows of an answer, about.
ANSWER = 1_500


@dataclasses.dataclass
class Relation:
    """What stands in FROM: its columns, those that tell its rows apart (if any do), about how many rows it has."""

    term: Term
    scope: list
    unique: list
    rows: int


class Statements:
    """Random statements over tables, which are Relations by name whose columns have no alias yet."""

    def __init__(self, chance, tables, literals):
        self.chance, self.tables, self.literals = chance, tables, literals
        self.named = 0

    def name(self, prefix):
        self.named += 1
        return f"{prefix}{self.named}"

    def maybe(self, share):
        return self.chance.random() < share

    # Expressions

    def literal(self, kind):
        text, bits = self.chance.choice(self.literals[kind])
        return leaf(kind, text, bits, constant=True)

    def column(self, kind, scope):
        there = [term for term in scope if term.kind == kind and not term.loose]
        return self.chance.choice(there) if there else None

    def kind(self, scope, kinds=KINDS):
        """A kind, mostly one of which there are columns."""
        there = [term.kind for term in scope if term.kind in kinds]
        return self.chance.choice(there) if there and self.maybe(0.8) else self.chance.choice(kinds)

    def simple(self, kind, scope):
        return (self.maybe(0.8) and self.column(kind, scope)) or self.literal(kind)

    def expression(self, kind, scope, depth, nested=None):
        """A term of this kind over these columns. nested is a Relation for whose rows subqueries are asked, if they may be."""
        templates = TEMPLATES[kind]
        if depth <= 0 or self.maybe(0.2) or not templates:
            if kind != "bool" or depth < 0 or self.maybe(0.1):
                return self.simple(kind, scope)
            depth, templates = 0, ATOMS
        if nested and self.maybe(0.12):
            found = self.subquery(kind, scope, nested)
            if found:
                return found
        for _ in range(4):
            text, rule = self.chance.choice(templates)
            term = self.filled(kind, text, scope, depth, nested)
            own = [piece.bits for piece in term.pieces if isinstance(piece, Term) and piece.kind == kind]
            term.bits = 1 if kind == "bool" else rule(*own)
            chosen = rule is most and text.startswith(CHOICES) or text.startswith("nullif")
            if kind == "bool" or chosen or term.bits <= LIMIT[kind]:
                return term
        return self.simple(kind, scope)

    def filled(self, kind, template, scope, depth, nested=None, limit=None):
        """A template with its holes filled."""
        pieces, constant = ["("], True
        same = self.kind(scope, COMPARED)
        for at, part in enumerate(template.replace("}", "{").split("{")):
            if at % 2 == 0:
                pieces.append(part)
                continue
            match part:
                case "n":
                    pieces.append(str(self.chance.randrange(6)))
                case "p":
                    pieces.append(str(self.chance.randint(1, 9)))
                case "l":
                    pieces.append(str(self.literal("text")))
                case "unit":
                    pieces.append(self.chance.choice(UNITS))
                case "field":
                    pieces.append(self.chance.choice(FIELDS))
                case "pattern":
                    pieces.append(self.pattern())
                case "again":
                    pieces.append(pieces[-2])
                case _:
                    inner = same if part == "a" else part
                    term = self.expression(inner, scope, depth - 1, nested)
                    # What is computed from a value must not be wild; what is compared may. Integers beside decimals are small: sums
                    # have 38 digits in DuckDB, which leave none behind the point.
                    allowed = LIMIT.get(inner, WILD) if limit is None else limit
                    if inner == "int" and "{dec}" in template:
                        allowed = 40
                    free = part == "a" or inner == kind and limit is None
                    if not free and term.bits > allowed:
                        term = leaf(inner, self.tame(inner), 8, True)
                    pieces.append(term)
                    constant = constant and term.constant
        return Term(kind, [*pieces, ")"], 8, constant)

    def tame(self, kind):
        return {"int": "7", "dec": "1.25", "float": "CAST(2.5 AS DOUBLE)", "text": "'ab'"}.get(kind) or next(
            text for text, bits in self.literals[kind] if bits < 22
        )

    def pattern(self):
        text = str(self.literal("text"))
        text = text.strip("'") if text.startswith("'") else "b"
        cut = self.chance.randrange(len(text) + 1)
        forms = [text[:cut] + "%", "%" + text[cut:], "%" + text[cut : cut + 1] + "%", text[:cut] + "_" + text[cut + 1 :], text]
        # A quote that is cut in two would end the literal.
        return "'" + self.chance.choice(forms).replace("'", "") + "'"

    def subquery(self, kind, scope, nested):
        """A scalar subquery, or for a bool also IN, EXISTS, ANY and ALL."""
        inner = self.source(0)
        if inner.rows * nested.rows > PAIRS:
            return None
        outer = scope if self.maybe(0.6) else []
        if outer and self.maybe(0.25):
            inner = self.joined_around(inner, outer, nested) or inner
        where = self.correlated(inner, outer)
        form = self.chance.choice(["scalar", "in", "exists", "any"]) if kind == "bool" else "scalar"
        if form == "exists":
            shown, having = self.maybe(0.3) and self.one_row(self.kind(inner.scope), inner.scope) or ("1", "")
            no = self.chance.choice(["", "NOT "])
            return Term(kind, [f"({no}EXISTS (SELECT ", shown, " FROM ", inner.term, where, having, "))"], 1, False)
        if form == "scalar":
            found = self.one_row(kind, inner.scope)
            if found is None:
                return None
            value, having = found
            return Term(kind, ["(SELECT ", value, " FROM ", inner.term, where, having, ")"], value.bits, False)
        of = self.kind(inner.scope, COMPARED)
        left = self.simple(of, scope)
        plain = self.expression(of, inner.scope, 1), ""
        right, having = self.maybe(0.3) and self.one_row(of, inner.scope) or plain
        word = self.chance.choice(["IN", "NOT IN"]) if form == "in" else self.chance.choice(["=", "<>", "<", ">="])
        if form == "any":
            word += self.chance.choice([" ANY", " ALL"])
        return Term(kind, ["(", left, f" {word} (SELECT ", right, " FROM ", inner.term, where, having, "))"], 1, False)

    def one_row(self, kind, scope):
        """A value of all rows together, which are one row where there are none, or no row by HAVING; None if there is no such value."""
        value = self.aggregate(kind, scope, 1)
        if value is None or value.loose:
            return None
        having = self.having(scope) if self.maybe(0.35) else ""
        if self.maybe(0.3):
            value = self.expression(kind, [value], self.chance.choice([1, 1, 2]))
            if not having and value.constant:
                # Nothing else would make one row of them.
                having = Term("", [" HAVING count(*) >= 0"])
        return value, having

    def having(self, scope):
        """HAVING of all rows together, which is often true of none."""
        count = f"count(*) {self.chance.choice(['= 0', '> 0', '< 3', '>= 0', '= 1', 'IS NOT NULL'])}"
        column = self.column(self.kind(scope, COMPARED), scope)
        if column and column.kind in ("int", "text", "date") and self.maybe(0.4):
            return Term("", [" HAVING max(", column, f") IS {self.chance.choice(['', 'NOT '])}NULL"])
        return Term("", [f" HAVING {count}"])

    def joined_around(self, left, outer, nested):
        """A join in a subquery that reads the query around it in its condition or in one of its sides."""
        right = self.table()
        if left.rows * right.rows * nested.rows > 20 * PAIRS:
            return None
        kind = self.kind(left.scope, COMPARED)
        own, other = self.column(kind, left.scope), self.column(kind, right.scope)
        around = [term for term in outer if not term.loose and self.column(term.kind, right.scope)]
        if not own or not other or not around:
            return None
        around = self.chance.choice(around)
        read = Term("bool", ["(", self.column(around.kind, right.scope), self.chance.choice([" = ", " = ", " > "]), around, ")"])
        condition = [Term("bool", ["(", own, " = ", other, ")"])]
        if self.maybe(0.5):
            condition.append(optional(" AND ", read))
        else:
            alias = self.name("q")
            right.term = Term("", ["(SELECT * FROM ", right.term, optional(" WHERE ", read), f") AS {alias}"])
            place = str(other).partition(".")[2]
            condition = [Term("bool", ["(", own, f" = {alias}.{place})"])]
            right.scope = [dataclasses.replace(term, pieces=[f"{alias}.{str(term).partition('.')[2]}"]) for term in right.scope]
        word = self.chance.choice(["LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "JOIN", "SEMI JOIN", "ANTI JOIN"])
        term = Term("", [left.term, f" {word} ", right.term, " ON ", *condition])
        scope = left.scope if word in ("SEMI JOIN", "ANTI JOIN") else [*left.scope, *right.scope]
        return Relation(term, scope, [], left.rows * right.rows)

    def correlated(self, inner, outer):
        """WHERE of a subquery, which mostly compares a column of its own with one around it."""
        pieces = []
        for column in self.chance.sample(outer, min(len(outer), 8)):
            other = self.column(column.kind, inner.scope)
            instant = self.column("ts", inner.scope) if column.kind == "date" else None
            if instant and self.maybe(0.5):
                # Many instants are one day.
                other = Term("date", ["CAST(", instant, " AS DATE)"])
            if other and not column.loose:
                operator = self.chance.choice(["=", "=", "=", "=", "<", "<>"])
                pieces = [" WHERE ", Term("bool", ["(", other, f" {operator} ", column, ")"])]
                break
        if not pieces:
            pieces = [" WHERE ", self.expression("bool", inner.scope, 1)]
        elif self.maybe(0.4):
            pieces.append(optional(" AND ", self.expression("bool", inner.scope, 1)))
        return optional(*pieces)

    def aggregate(self, kind, scope, depth):
        if not AGGREGATES.get(kind):
            return None
        template, limit, bits, loose = self.chance.choice(AGGREGATES[kind])
        term = self.filled(kind, template, scope, depth, None, limit)
        if "{again}" in template and term.constant:
            return None
        own = [piece.bits for piece in term.pieces if isinstance(piece, Term) and piece.kind == kind]
        # Without its parentheses, for FILTER and OVER come behind it.
        term.pieces = term.pieces[1:-1]
        if self.maybe(0.15):
            term.pieces.append(optional(" FILTER (WHERE ", self.expression("bool", scope, 1), ")"))
        term.bits, term.loose, term.constant = (bits if bits is not None else max(own)), loose, False
        return term

    def window(self, scope, unique):
        """A function over a window. Where the rows are in no total order, it is one to which that does not matter."""
        plain = [term for term in scope if not term.loose]
        if not plain:
            return None
        parts = self.chance.sample(plain, min(len(plain), self.chance.choice([1, 1, 2])))
        partition = optional("PARTITION BY ", listed(parts), " ") if self.maybe(0.7) else Term("", [""])
        order = self.chance.sample(plain, 1)
        plain_order = order[0]
        total_order = bool(unique) and self.maybe(0.7)
        if total_order:
            order += unique
        order = Term("", ["ORDER BY ", listed(Term("", [term, self.direction()]) for term in order)])
        kind = self.kind(scope)
        value = self.aggregate(kind, scope, 1)
        frame = ""
        choice = self.chance.randrange(4)
        if choice == 0 and total_order:
            call = self.chance.choice(["row_number()", "ntile(3)", "cume_dist()", "rank()"])
            kind, bits, loose = ("float", 2, True) if call == "cume_dist()" else ("int", 22, False)
            call = leaf("", call)
        elif choice == 1:
            call = leaf("", self.chance.choice(["rank()", "dense_rank()"]))
            kind, bits, loose = "int", 22, False
        elif choice == 2 and total_order:
            kind = self.chance.choice(COMPARED)
            column = self.expression(kind, scope, 1)
            bits, loose = column.bits, False
            after = self.chance.choice(["", ", 2"])
            name = self.chance.choice(["lag", "lead", "first_value", "last_value", "nth_value"])
            after = {"nth_value": ", 2", "first_value": "", "last_value": ""}.get(name, after)
            nulls = " IGNORE NULLS" if self.maybe(0.2) and name != "nth_value" else ""
            call = Term("", [f"{name}(", column, f"{after}{nulls})"])
        elif value is None or any(name in str(value) for name in ("DISTINCT", "string_agg")):
            return None
        else:
            call, bits, loose = Term("", [value]), value.bits, value.loose
            if total_order and self.maybe(0.6):
                edges = ["UNBOUNDED PRECEDING", "3 PRECEDING", "1 PRECEDING", "CURRENT ROW", "1 FOLLOWING", "2 FOLLOWING"]
                first, last = sorted(self.chance.sample(range(6), 2))
                last = self.chance.choice([edges[last], "UNBOUNDED FOLLOWING"])
                frame = optional(f" ROWS BETWEEN {edges[first]} AND {last}")
            elif self.maybe(0.3):
                order = Term("", [""])
            elif plain_order.kind == "int" and plain_order.bits < 40 and not total_order:
                frame = optional(" RANGE BETWEEN 3 PRECEDING AND " + self.chance.choice(["CURRENT ROW", "10 FOLLOWING"]))
        return Term(kind, [call, " OVER (", partition, order, frame, ")"], bits, False, loose)

    def direction(self):
        return self.chance.choice(["", "", " DESC", " ASC", " NULLS FIRST", " DESC NULLS LAST", " DESC NULLS FIRST", " NULLS LAST"])

    # What is read

    def table(self):
        name = self.chance.choice(list(self.tables))
        table, alias = self.tables[name], self.name("a")
        renamed = {id(term): dataclasses.replace(term, pieces=[f"{alias}.{term.pieces[0]}"]) for term in table.scope}
        return Relation(
            Term("", [f"{name} AS {alias}"]), list(renamed.values()), [renamed[id(term)] for term in table.unique], table.rows
        )

    def source(self, depth):
        """A table, a query in parentheses, values, what recursion makes, or a join of some."""
        if depth > 0 and self.maybe(0.15):
            query, alias = self.query(depth - 1), self.name("q")
            scope = [dataclasses.replace(term, pieces=[f"{alias}.{term.pieces[0]}"]) for term in query.columns]
            return Relation(Term("", ["(", query, f") AS {alias}"]), scope, [], ANSWER)
        left = self.table() if self.maybe(0.95) else self.made()
        while depth > 0 and self.maybe(0.4):
            right = self.source(0) if self.maybe(0.9) else self.source(depth - 1)
            left = self.joined(left, right) or left
            depth -= 1
        return left

    def made(self):
        """Rows of the statement's own."""
        alias = self.name("v")
        if self.maybe(0.5):
            more = f"SELECT n + {self.chance.randint(1, 3)} FROM r WHERE n < 20"
            number = leaf("int", f"{alias}.n", 5)
            text = f"(WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL {more}) SELECT n FROM r) AS {alias}"
            return Relation(Term("", [text]), [number], [number], 20)
        kinds = [self.chance.choice(KINDS) for _ in range(2)]
        rows = listed(Term("", ["(", listed(self.literal(kind) for kind in kinds), ")"]) for _ in range(4))
        scope = [leaf(kind, f"{alias}.v{at}", WILD) for at, kind in enumerate(kinds)]
        return Relation(Term("", ["(VALUES ", rows, f") AS {alias}(v0, v1)"]), scope, [], 4)

    def joined(self, left, right):
        pairs = left.rows * right.rows
        by = None
        for _ in range(6):
            kind = self.kind(left.scope, COMPARED)
            own, other = self.column(kind, left.scope), self.column(kind, right.scope)
            if own and other:
                by = own, other
                break
        if right.unique and self.maybe(0.4) or pairs > PAIRS:
            refers = [term for term in left.scope if str(term).endswith(".ref")]
            own = self.chance.choice(refers) if refers and self.maybe(0.7) else self.column("int", left.scope)
            by = (own, right.unique[0]) if own and len(right.unique) == 1 else None
        single = by and len(right.unique) == 1 and by[1] is right.unique[0]
        if not by and pairs > PAIRS // 10 or not single and pairs > PAIRS:
            return None
        both = [*left.scope, *right.scope]
        other = self.other_join(left, right, both) if self.maybe(0.15) and pairs <= PAIRS else None
        if other:
            return other
        if " JOIN " in str(right.term) and not str(right.term).startswith("("):
            right.term = Term("", ["(", right.term, ")"])
        words = ["JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"]
        word = self.chance.choice(words)
        if not by and self.maybe(0.3):
            return Relation(Term("", [left.term, optional(" CROSS JOIN ", right.term)]), both, self.unique(left, right), pairs)
        if by and self.maybe(0.85):
            on = [Term("bool", ["(", by[0], " = ", by[1], ")"])]
            if self.maybe(0.3):
                on.append(optional(" AND ", self.expression("bool", both, 1)))
        else:
            if pairs > PAIRS // 10:
                return None
            on = [self.expression("bool", both, 2)]
        term = Term("", [left.term, optional(f" {word} ", right.term, " ON ", *on)])
        if word in ("SEMI JOIN", "ANTI JOIN"):
            return Relation(term, left.scope, left.unique, left.rows)
        rows = max(left.rows, right.rows) if single else pairs
        return Relation(term, both, self.unique(left, right), rows)

    def other_join(self, left, right, both):
        """A join USING, or to the nearest row, or to a row that is made of each, if these are such tables."""
        tables = len(left.unique) == 1 and len(right.unique) == 1 and str(left.unique[0]).startswith("a")
        tables = tables and str(right.unique[0]).startswith("a") and " JOIN " not in f"{left.term}{right.term}"
        if not tables:
            return None
        form = self.chance.choice(["using", "asof", "lateral"])
        if form == "using":
            scope = [term for term in both if term is not right.unique[0]]
            word = self.chance.choice(["JOIN", "LEFT JOIN"])
            return Relation(Term("", [left.term, f" {word} ", right.term, " USING (id)"]), scope, left.unique, left.rows)
        if form == "asof":
            word = self.chance.choice(["ASOF JOIN", "ASOF LEFT JOIN"])
            own, other = self.column("int", left.scope), right.unique[0]
            on = [own, self.chance.choice([" >= ", " > ", " <= "]), other]
            kind = self.kind(left.scope, COMPARED)
            equal = self.column(kind, left.scope), self.column(kind, right.scope)
            if all(equal):
                on = [equal[0], " = ", equal[1], " AND ", *on]
            return Relation(Term("", [left.term, f" {word} ", right.term, " ON ", *on]), both, left.unique, left.rows)
        kind, alias = self.kind(right.scope), self.name("l")
        value = self.aggregate(kind, right.scope, 1)
        if value is None:
            return None
        having = self.having(right.scope) if self.maybe(0.3) else ""
        where = self.correlated(right, left.scope)
        inner = Term("", ["(SELECT ", value, " AS m FROM ", right.term, where, having, f") AS {alias}"])
        scope = [*left.scope, leaf(kind, f"{alias}.m", value.bits, False, value.loose)]
        return Relation(Term("", [left.term, " CROSS JOIN LATERAL ", inner]), scope, left.unique, left.rows)

    def unique(self, left, right):
        return [*left.unique, *right.unique] if left.unique and right.unique else []

    # Queries

    def select(self, depth, kinds=None, exact=False):
        """A SELECT: of these kinds if they are given, without loose columns if it is to be exact."""
        source = self.source(depth)
        scope, unique = source.scope, source.unique
        where = optional(" WHERE ", self.expression("bool", scope, 3, source if depth > 0 else None)) if self.maybe(0.65) else ""
        wanted = kinds or [self.kind(scope) for _ in range(self.chance.choice([1, 2, 2, 3, 4]))]
        group = having = distinct = qualify = ""
        windows = []
        grouped = self.maybe(0.35) or source.rows > ANSWER and self.maybe(0.5)
        if grouped:
            depths = self.chance.choices([0, 0, 0, 1, 2], k=self.chance.choice([0, 1, 1, 2, 3]))
            keys = [self.expression(self.kind(scope), scope, depth_of) for depth_of in depths]
            keys = [key for key in keys if not key.constant]
            scope, unique = list(keys), list(keys)
            for kind in dict.fromkeys([*wanted, self.kind(scope)]):
                for _ in range(1 + self.maybe(0.3)):
                    value = self.aggregate(kind, source.scope, 2)
                    scope += [value] if value and not (exact and value.loose) else []
            if keys:
                form = self.chance.choice(["", "", "", "", "ROLLUP", "CUBE", "GROUPING SETS"])
                inside_group = listed(keys)
                if form:
                    unique = []
                    sets = Term("", ["(", keys[0], "), (), (", listed(keys), ")"])
                    inside_group = Term("", [form, " (", sets if form == "GROUPING SETS" else listed(keys), ")"])
                group = Term("", [" GROUP BY ", inside_group])
                if self.maybe(0.3):
                    having = optional(" HAVING ", self.expression("bool", scope, 2))
            elif not scope:
                scope = [leaf("int", "count(*)", 22)]
        elif self.maybe(0.3):
            windows = [found for found in (self.window(scope, unique) for _ in range(2)) if found and not (exact and found.loose)]
            if windows and self.maybe(0.2) and windows[0].kind == "int":
                qualify = optional(" QUALIFY ", windows[0], f" <= {self.chance.randint(1, 5)}")
        items = []
        for kind in wanted:
            direct = [term for term in scope[len(unique) if grouped else 0 :] if term.kind == kind and term.loose]
            if direct and not exact and self.maybe(0.7):
                items.append(self.chance.choice(direct))
            else:
                deep = self.chance.choice([0, 1, 1, 2, 3])
                items.append(self.expression(kind, scope, deep, source if depth > 0 and not grouped and not exact else None))
        if not kinds:
            items += windows
            # Keys and all aggregates, now and then.
            if grouped and self.maybe(0.5):
                items += [term for term in scope if not (exact and term.loose)][:4]
        elif windows:
            items = [next((w for w in windows if w.kind == item.kind), item) for item in items]
        loose = any(item.loose for item in items)
        if not loose and self.maybe(0.15):
            distinct = optional("DISTINCT ")
        columns = [leaf(item.kind, f"c{at}", item.bits, False, item.loose) for at, item in enumerate(items)]
        shown = listed(Term("", [item, f" AS c{at}"]) for at, item in enumerate(items))
        parts = ["SELECT ", distinct, shown, " FROM ", source.term, where, group, having, qualify]
        query = Term("query", parts, columns=columns)
        query.rows = ANSWER if grouped else source.rows
        return query

    def first_rows(self, depth):
        """DISTINCT ON: the first row for each value in a total order."""
        source = self.source(depth)
        if not source.unique or source.rows > ANSWER:
            return self.select(depth)
        key = self.expression(self.kind(source.scope), source.scope, self.chance.choice([0, 0, 1]))
        items = [self.expression(self.kind(source.scope), source.scope, 1) for _ in range(2)]
        if key.constant:
            return self.select(depth)
        where = optional(" WHERE ", self.expression("bool", source.scope, 2)) if self.maybe(0.5) else ""
        order = listed(Term("", [term, self.direction()]) for term in [key, *source.unique])
        columns = [leaf(item.kind, f"c{at}", item.bits, False, item.loose) for at, item in enumerate(items)]
        parts = ["SELECT DISTINCT ON (", key, ") ", items[0], " AS c0, ", items[1], " AS c1 FROM ", source.term, where]
        return Term("query", [*parts, " ORDER BY ", order], columns=columns)

    def query(self, depth):
        """A SELECT, or several that are combined, often in an order and with a limit."""
        if self.maybe(0.03):
            return self.first_rows(depth)
        if self.maybe(0.12):
            first = self.select(depth, exact=True)
            query = first
            for _ in range(self.chance.choice([1, 1, 2])):
                other = self.select(max(depth - 1, 0), [column.kind for column in first.columns], exact=True)
                word = self.chance.choice(["UNION", "UNION ALL", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
                rows = query.rows + other.rows
                query = Term("query", ["(", query, f") {word} (", other, ")"], columns=first.columns)
                query.columns = [
                    dataclasses.replace(own, bits=max(own.bits, its.bits)) for own, its in zip(query.columns, other.columns)
                ]
                query.rows = rows
        else:
            query = self.select(depth)
        # Rows that a limit leaves are told only by an order of all columns, and not by sums of floats.
        exact = not any(column.loose for column in query.columns)
        if exact and (query.rows > ANSWER or self.maybe(0.4)):
            order = list(range(1, len(query.columns) + 1))
            self.chance.shuffle(order)
            form = self.chance.choice(["{}", "c{}"])
            keys = ", ".join(form.format(at if form == "{}" else at - 1) + self.direction() for at in order)
            pieces = [query, f" ORDER BY {keys}"]
            if query.rows > ANSWER or self.maybe(0.4):
                pieces.append(optional(f" LIMIT {self.chance.choice([0, 1, 5, 20, 100])}"))
                if self.maybe(0.3):
                    pieces.append(optional(f" OFFSET {self.chance.choice([0, 1, 7, 50])}"))
            query = Term("query", pieces, columns=query.columns, ordered=True)
        elif query.rows > ANSWER:
            return self.query(depth)
        query.rows = ANSWER
        return query

    def statement(self):
        """A query, now and then over one that has a name."""
        self.named = 0
        if not self.maybe(0.08):
            return self.query(2)
        name, first = self.name("w"), self.query(1)
        self.tables = {**self.tables, name: Relation(Term("", [name]), first.columns, [], ANSWER)}
        query = self.query(2)
        del self.tables[name]
        word = self.chance.choice(["", "", " MATERIALIZED", " NOT MATERIALIZED"])
        return Term("query", [f"WITH {name} AS{word} (", first, ") ", query], columns=query.columns, ordered=query.ordered)
