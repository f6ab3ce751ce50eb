"""SQL as the requests of Basalt's API: what the queries here need of it."""

import datetime
import decimal

import pyarrow as pa
import sqlglot
from sqlglot import exp

from basalt.v1 import filter_pb2, query_pb2, types_pb2

AGGREGATES = {
    exp.Count: filter_pb2.AGGREGATE_FUNCTION_COUNT,
    exp.Sum: filter_pb2.AGGREGATE_FUNCTION_SUM,
    exp.Min: filter_pb2.AGGREGATE_FUNCTION_MIN,
    exp.Max: filter_pb2.AGGREGATE_FUNCTION_MAX,
    exp.Avg: filter_pb2.AGGREGATE_FUNCTION_AVG,
}
ARITHMETIC = {
    exp.Add: filter_pb2.ARITHMETIC_OP_ADD,
    exp.Sub: filter_pb2.ARITHMETIC_OP_SUBTRACT,
    exp.Mul: filter_pb2.ARITHMETIC_OP_MULTIPLY,
    exp.Div: filter_pb2.ARITHMETIC_OP_DIVIDE,
}
COMPARISONS = {
    exp.EQ: filter_pb2.COMPARE_OP_EQ,
    exp.NEQ: filter_pb2.COMPARE_OP_NE,
    exp.LT: filter_pb2.COMPARE_OP_LT,
    exp.LTE: filter_pb2.COMPARE_OP_LE,
    exp.GT: filter_pb2.COMPARE_OP_GT,
    exp.GTE: filter_pb2.COMPARE_OP_GE,
}
EPOCH = datetime.datetime(1970, 1, 1)


def request(sql):
    """The QueryRequest for a SELECT; its answer comes as Arrow IPC streams."""
    tree = sqlglot.parse_one(sql)
    message = query_pb2.QueryRequest(
        table=tree.args["from_"].this.name,
        select=[query_pb2.SelectItem(expr=_expr(item.unalias()), name=item.alias_or_name) for item in tree.selects],
        format=query_pb2.FORMAT_ARROW_IPC,
    )
    if where := tree.args.get("where"):
        message.filter.CopyFrom(_filter(where.this))
    if group := tree.args.get("group"):
        items = {item.alias: item.unalias() for item in tree.selects if item.alias}
        message.group_by.extend(_expr(items.get(key.name, key)) for key in group.expressions)
    if having := tree.args.get("having"):
        message.having.CopyFrom(_filter(having.this))
    if order := tree.args.get("order"):
        by = order.expressions
        message.order_by.extend(
            query_pb2.OrderBy(expr=_expr(item.this), descending=bool(item.args.get("desc"))) for item in by
        )
    if limit := tree.args.get("limit"):
        message.limit = int(limit.expression.name)
    return message


def _expr(node):
    node = node.unnest()
    if isinstance(node, exp.Column) and node.table:
        return filter_pb2.Expr(attribute=filter_pb2.Attribute(column=node.table, attribute=node.name))
    if isinstance(node, exp.Column):
        return filter_pb2.Expr(column=node.name)
    if type(node) in ARITHMETIC:
        operands = dict(left=_expr(node.this), right=_expr(node.expression))
        return filter_pb2.Expr(arithmetic=filter_pb2.Arithmetic(op=ARITHMETIC[type(node)], **operands))
    if type(node) in AGGREGATES:
        return filter_pb2.Expr(aggregate=_aggregate(node))
    return filter_pb2.Expr(literal=_value(node))


def _aggregate(node):
    argument, distinct = node.this, isinstance(node.this, exp.Distinct)
    if distinct:
        (argument,) = argument.expressions
    argument = None if isinstance(argument, exp.Star) else _expr(argument)
    return filter_pb2.Aggregate(function=AGGREGATES[type(node)], argument=argument, distinct=distinct)


def _value(node):
    if isinstance(node, exp.Literal):
        if node.is_string:
            return types_pb2.Value(text=node.name)
        if node.is_int:
            return types_pb2.Value(int=int(node.name))
        number = decimal.Decimal(node.name)
        scale = -number.as_tuple().exponent
        return types_pb2.Value(decimal=types_pb2.Decimal(unscaled=int(number.scaleb(scale)), scale=scale))
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        since = datetime.datetime.fromisoformat(node.this.name) - EPOCH
        if node.is_type("DATE"):
            return types_pb2.Value(date=since.days)
        if node.is_type("TIMESTAMP"):
            return types_pb2.Value(timestamp=since // datetime.timedelta(microseconds=1))
    raise ValueError(f"{node.sql()}: no expression that is known here")


def _filter(node):
    node = node.unnest()
    if isinstance(node, exp.And):
        return filter_pb2.Filter(**{"and": filter_pb2.And(filters=map(_filter, node.flatten()))})
    if isinstance(node, exp.Or):
        return filter_pb2.Filter(**{"or": filter_pb2.Or(filters=map(_filter, node.flatten()))})
    if isinstance(node, exp.Not):
        return filter_pb2.Filter(**{"not": _filter(node.this)})
    if type(node) in COMPARISONS:
        operands = dict(left=_expr(node.this), right=_expr(node.expression))
        return filter_pb2.Filter(compare=filter_pb2.Compare(op=COMPARISONS[type(node)], **operands))
    if isinstance(node, exp.Between):
        bounds = dict(low=_expr(node.args["low"]), high=_expr(node.args["high"]))
        return filter_pb2.Filter(between=filter_pb2.Between(expr=_expr(node.this), **bounds))
    if isinstance(node, exp.In):
        among = filter_pb2.In(expr=_expr(node.this), values=map(_value, node.expressions))
        return filter_pb2.Filter(**{"in": among})
    if isinstance(node, exp.Like):
        return filter_pb2.Filter(like=filter_pb2.Like(expr=_expr(node.this), pattern=node.expression.name))
    if isinstance(node, exp.Column):
        true = filter_pb2.Expr(literal=types_pb2.Value(bool=True))
        return filter_pb2.Filter(
            compare=filter_pb2.Compare(op=filter_pb2.COMPARE_OP_EQ, left=_expr(node), right=true)
        )
    raise ValueError(f"{node.sql()}: no condition that is known here")


def answer(responses):
    """The rows of an answer as an Arrow table, and the server's statistics."""
    tables, statistics = [], None
    for response in responses:
        match response.WhichOneof("kind"):
            case "arrow_ipc":
                tables.append(pa.ipc.open_stream(response.arrow_ipc).read_all())
            case "trailer":
                statistics = response.trailer.statistics
    if statistics is None:
        raise RuntimeError("the answer is incomplete")
    return pa.concat_tables(tables), statistics
