"""Random requests of QueryService: what scripts/memory_equal.py asks beside SQL. Every answer has one order of its rows."""

from example import aggregate, col, compare, item

from basalt.v1 import filter_pb2, query_pb2, types_pb2

OPERATORS = [filter_pb2.COMPARE_OP_EQ, filter_pb2.COMPARE_OP_NE, filter_pb2.COMPARE_OP_LT, filter_pb2.COMPARE_OP_GE]
PATTERNS = ["a%", "%b%", "%5", "_b", "%Q_%", "ab", "%zz%0%", "x%x"]
# Rows of an answer without aggregates.
MOST = 2000


class Requests:
    """Requests about tables, which are Table's of memory_equal_tables.py, with literals from their own values."""

    def __init__(self, chance, tables, values):
        self.chance, self.tables, self.values = chance, tables, values

    def maybe(self, share):
        return self.chance.random() < share

    def names(self, table, kinds=None):
        return [name for name, _, kind, *_ in table.columns if kind and (kinds is None or kind in kinds)] + (
            ["id"] if kinds is None or "int" in kinds else []
        )

    def literal(self, table, name):
        """A value of a column as a literal."""
        return self.chance.choice(self.values[table.name, name])

    def filter(self, table, depth):
        chance = self.chance
        if depth > 0 and self.maybe(0.5):
            inner = [self.filter(table, depth - 1) for _ in range(chance.choice([2, 2, 3]))]
            form = chance.choice(["and", "or", "not"])
            if form == "not":
                return filter_pb2.Filter(**{"not": inner[0]})
            return filter_pb2.Filter(**{form: (filter_pb2.And if form == "and" else filter_pb2.Or)(filters=inner)})
        name = chance.choice(self.names(table))
        form = chance.choice(["compare", "compare", "between", "in", "null", "like", "join"])
        if form == "between":
            bounds = [filter_pb2.Expr(literal=self.literal(table, name)) for _ in range(2)]
            return filter_pb2.Filter(between=filter_pb2.Between(expr=col(name), low=bounds[0], high=bounds[1]))
        if form == "in":
            values = [self.literal(table, name) for _ in range(chance.choice([1, 3, 8]))]
            return filter_pb2.Filter(**{"in": filter_pb2.In(expr=col(name), values=values)})
        if form == "null":
            return filter_pb2.Filter(is_null=col(name))
        texts = self.names(table, ["text"])
        if form == "like" and texts:
            like = filter_pb2.Like(expr=col(chance.choice(texts)), pattern=chance.choice(PATTERNS))
            return filter_pb2.Filter(like=like)
        if form == "join":
            return self.semi_join(table)
        literal = filter_pb2.Expr(literal=self.literal(table, name))
        return compare(chance.choice(OPERATORS), col(name), literal)

    def semi_join(self, table):
        """Rows whose values are among those of another table, or that lead to some of its rows."""
        other = self.chance.choice(self.tables)
        shared = [name for name in self.names(table, ["int", "text", "date"]) if name in self.names(other)]
        column = key = self.chance.choice(shared)
        if table.name == "t1" and self.maybe(0.5):
            column, key, other = "ref", "id", self.tables[0]
        inner = self.filter(other, 0)
        join = filter_pb2.SemiJoin(column=column, table=other.name, key=key, filter=inner)
        return filter_pb2.Filter(semi_join=join)

    def request(self):
        """A query, or a set."""
        table = self.chance.choice([*self.tables[:1], *self.tables])
        where = self.filter(table, 2) if self.maybe(0.85) else None
        if self.maybe(0.15):
            key = self.chance.choice(["", "", *self.names(table, ["int", "date"])])
            tag = self.chance.choice([types_pb2.SIP_TAG_ROARING, types_pb2.SIP_TAG_UNSPECIFIED])
            return query_pb2.SelectRequest(table=table.name, filter=where, key=key, tag=tag, omit_sip=False)
        if self.maybe(0.3):
            return self.rows(table, where)
        return self.groups(table, where)

    def rows(self, table, where):
        names = self.chance.sample(self.names(table), 4)
        order = []
        if self.maybe(0.6):
            order = [query_pb2.OrderBy(expr=col(self.chance.choice(names)), descending=self.maybe(0.5))]
        limit, offset = self.chance.choice([1, 20, MOST]), self.chance.choice([0, 0, 7])
        select = [item(name, col(name)) for name in names]
        request = query_pb2.QueryRequest(table=table.name, select=select, filter=where, order_by=order, limit=limit)
        request.offset = offset
        return request

    def groups(self, table, where):
        few = [name for name in ("b1", "i1", "i2", "u1", "t1", "a1") if name in self.names(table)]
        keys = self.chance.sample(few, self.chance.choice([0, 1, 1, 2]))
        if self.maybe(0.1):
            keys = [self.chance.choice(self.names(table))]
        select = [item(key, col(key)) for key in keys]
        for at in range(self.chance.choice([1, 2, 3])):
            name = self.chance.choice(self.names(table))
            function = self.chance.choice(["COUNT", "COUNT", "MIN", "MAX"])
            numbers = self.names(table, ["int", "float", "dec"])
            if self.maybe(0.5):
                name, function = self.chance.choice(numbers), self.chance.choice(["SUM", "AVG"])
            expr = aggregate(getattr(filter_pb2, f"AGGREGATE_FUNCTION_{function}"), col(name))
            expr.aggregate.distinct = function == "COUNT" and self.maybe(0.5)
            select.append(item(f"a{at}", expr))
        request = query_pb2.QueryRequest(table=table.name, select=select, filter=where, group_by=map(col, keys))
        if self.maybe(0.4):
            request.order_by.add(expr=select[-1].expr, descending=self.maybe(0.5))
        request.limit = MOST
        return request
