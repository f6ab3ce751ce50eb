"""Typed expressions and filters: `(col("dep_delay") > 60) & col("carrier").is_in(["AA", "UA"])`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _proto as pb
from ._values import to_literal

if TYPE_CHECKING:
    from .sets import Keys, SemiJoin

_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")


class Expr:
    """A value for every row or, with aggregates in it, for every group.

    Made by `col`, `lit` and the aggregates. `+ - * /` combine expressions, comparisons make a `Filter` of them; a
    Python value beside one is a literal. Division is always float64; integers and decimals otherwise stay what they
    are. A text also stands for a date ("2013-07-04"), a timestamp ("2013-07-04T10:00:00Z") or a decimal where one is
    compared.
    """

    __slots__ = ("message", "name")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, message: Any, name: str = "") -> None:
        self.message = message
        """The API's `Expr`."""
        self.name = name
        """Its name in the answer; empty: the expression's text."""

    def __repr__(self) -> str:
        return f"Expr({_text(self.message)})"

    def __bool__(self) -> bool:
        raise TypeError("an expression has a value for every row; compare it, and combine filters with & | ~")

    def alias(self, name: str) -> Expr:
        """The same expression under a name of its own in the answer."""
        return Expr(self.message, name)

    def __add__(self, other: Any) -> Expr:
        return _arithmetic(pb.ARITHMETIC_OP_ADD, self, other)

    def __radd__(self, other: Any) -> Expr:
        return _arithmetic(pb.ARITHMETIC_OP_ADD, other, self)

    def __sub__(self, other: Any) -> Expr:
        return _arithmetic(pb.ARITHMETIC_OP_SUBTRACT, self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _arithmetic(pb.ARITHMETIC_OP_SUBTRACT, other, self)

    def __mul__(self, other: Any) -> Expr:
        return _arithmetic(pb.ARITHMETIC_OP_MULTIPLY, self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _arithmetic(pb.ARITHMETIC_OP_MULTIPLY, other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _arithmetic(pb.ARITHMETIC_OP_DIVIDE, self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _arithmetic(pb.ARITHMETIC_OP_DIVIDE, other, self)

    def __eq__(self, other: Any) -> Filter:  # type: ignore[override]
        return _compare(pb.COMPARE_OP_EQ, self, other)

    def __ne__(self, other: Any) -> Filter:  # type: ignore[override]
        return _compare(pb.COMPARE_OP_NE, self, other)

    def __lt__(self, other: Any) -> Filter:
        return _compare(pb.COMPARE_OP_LT, self, other)

    def __le__(self, other: Any) -> Filter:
        return _compare(pb.COMPARE_OP_LE, self, other)

    def __gt__(self, other: Any) -> Filter:
        return _compare(pb.COMPARE_OP_GT, self, other)

    def __ge__(self, other: Any) -> Filter:
        return _compare(pb.COMPARE_OP_GE, self, other)

    def between(self, low: Any, high: Any) -> Filter:
        """`low <= self <= high`."""
        low, high = value(low).message, value(high).message
        return Filter(pb.Filter(between=pb.Between(expr=self.message, low=low, high=high)))

    def is_in(self, values: Iterable[Any]) -> Filter:
        """Whether it is one of the values; null among them is SQL's. For many values there is `Client.key_set`."""
        if isinstance(values, str):
            raise TypeError("is_in takes a list of values, not one string")
        literals = [to_literal(each) for each in values]
        return Filter(pb.Filter(**{"in": pb.In(expr=self.message, values=literals)}))

    def is_null(self) -> Filter:
        """`self IS NULL`."""
        return Filter(pb.Filter(is_null=self.message))

    def is_not_null(self) -> Filter:
        """`self IS NOT NULL`."""
        return ~self.is_null()

    def like(self, pattern: str) -> Filter:
        r"""SQL's LIKE: `%` is any run of characters, `_` any one, `\` takes the next one as it is."""
        return Filter(pb.Filter(like=pb.Like(expr=self.message, pattern=pattern)))

    def starts_with(self, prefix: str) -> Filter:
        """Whether a text begins so."""
        return self.like("".join("\\" + c if c in "%_\\" else c for c in prefix) + "%")

    def in_keys(self, keys: Keys | SemiJoin) -> Filter:
        """Whether the column's value is one of the keys, as SQL's IN has it; `~` makes it NOT IN.

        Null where the column is null, and where the keys hold a null and not the value. `self` must be a column.
        Text columns go with `keys_of`, not with sets.
        """
        if self.message.WhichOneof("kind") != "column":
            raise TypeError("in_keys is of a column alone")
        return keys.of_column(self.message.column)

    def attribute(self, name: str) -> Expr:
        """A value of the row that the column refers to: SQL's `lo_orderdate.d_year`. `self` must be a column."""
        return attribute(self.message.column, name)

    def truncate(self, unit: str) -> Expr:
        """The beginning, a timestamp in UTC, of the unit that a timestamp is in.

        Units are second, minute, hour, day, week (from Monday), month, quarter and year.
        """
        return _time(pb.TIME_FUNCTION_TRUNCATE, self, unit)

    def part(self, unit: str) -> Expr:
        """Which minute of its hour, day of its month, week of its year...: int32, in UTC. Units as in `truncate`."""
        return _time(pb.TIME_FUNCTION_PART, self, unit)

    def day_of_week(self) -> Expr:
        """Of a date or a timestamp in UTC: int32, Sunday is 0."""
        return _time(pb.TIME_FUNCTION_DAY_OF_WEEK, self)

    def day_of_year(self) -> Expr:
        """Of a date or a timestamp in UTC: int32, the first is 1."""
        return _time(pb.TIME_FUNCTION_DAY_OF_YEAR, self)

    def asc(self, *, nulls_first: bool = False) -> OrderBy:
        """In the order from the smallest; nulls are last, unless `nulls_first`."""
        return OrderBy(pb.OrderBy(expr=self.message, nulls_first=nulls_first))

    def desc(self, *, nulls_first: bool = False) -> OrderBy:
        """In the order from the largest; nulls are last, unless `nulls_first`."""
        return OrderBy(pb.OrderBy(expr=self.message, nulls_first=nulls_first, descending=True))


class OrderBy:
    """One key of an order; made by `Expr.asc` and `Expr.desc`."""

    __slots__ = ("message",)

    def __init__(self, message: Any) -> None:
        self.message = message
        """The API's `OrderBy`."""

    def __repr__(self) -> str:
        return f"OrderBy({_text(self.message)})"


class Filter:
    """Which rows: SQL's three-valued logic, selected where true, not where null. `& | ~` combine filters."""

    __slots__ = ("message",)

    def __init__(self, message: Any) -> None:
        self.message = message
        """The API's `Filter`."""

    def __repr__(self) -> str:
        return f"Filter({_text(self.message)})"

    def __bool__(self) -> bool:
        # Without this `a and b`, and `1 < column < 3`, would quietly be the last of their filters.
        raise TypeError("a filter is true or false for every row: combine filters with & | ~, not with and, or, not")

    def __and__(self, other: Filter) -> Filter:
        return all_of(self, other)

    def __or__(self, other: Filter) -> Filter:
        return any_of(self, other)

    def __invert__(self) -> Filter:
        if self.message.WhichOneof("kind") == "not":
            return Filter(getattr(self.message, "not"))
        return Filter(pb.Filter(**{"not": self.message}))


def col(name: str) -> Expr:
    """A column by its name."""
    return Expr(pb.Expr(column=name))


def lit(literal: Any) -> Expr:
    """A literal: `None`, bool, int, float, `Decimal`, str, bytes, date, time, datetime."""
    return Expr(pb.Expr(literal=to_literal(literal)))


def attribute(column: str, name: str) -> Expr:
    """A value of the row that a column refers to: SQL's `column.name`.

    Null where no row has the key. What a column refers to stands in the table's schema (`Client.create`).
    """
    return Expr(pb.Expr(attribute=pb.Attribute(column=column, attribute=name)))


def row_address() -> Expr:
    """The address of every row in the version that is read: uint64."""
    return col("_row_address")


def count(of: Expr | str | None = None, *, distinct: bool = False) -> Expr:
    """The rows; with an argument those where it is not null, or the number of its distinct values, exactly: int64."""
    return _aggregate(pb.AGGREGATE_FUNCTION_COUNT, of, distinct)


def sum(of: Expr | str) -> Expr:
    """The sum: exact for integers and decimals, and the same bits each time for floats."""
    return _aggregate(pb.AGGREGATE_FUNCTION_SUM, of)


def min(of: Expr | str) -> Expr:
    """The smallest value."""
    return _aggregate(pb.AGGREGATE_FUNCTION_MIN, of)


def max(of: Expr | str) -> Expr:
    """The largest value."""
    return _aggregate(pb.AGGREGATE_FUNCTION_MAX, of)


def avg(of: Expr | str) -> Expr:
    """The mean: float64."""
    return _aggregate(pb.AGGREGATE_FUNCTION_AVG, of)


def all_of(*filters: Filter) -> Filter:
    """All of the filters; of none: true. What is an `and` itself is merged, so that chains stay flat."""
    return _merged("and", pb.And, filters, empty=True)


def any_of(*filters: Filter) -> Filter:
    """Any of the filters; of none: false. What is an `or` itself is merged, so that chains stay flat."""
    return _merged("or", pb.Or, filters, empty=False)


def constant(value: bool) -> Filter:
    """A filter that is true for all rows, or for none."""
    return Filter(pb.Filter(constant=value))


def named(column: Expr | str) -> Expr:
    """A column where a name is given, in places that take no literals."""
    if isinstance(column, str):
        return col(column)
    if not isinstance(column, Expr):
        raise TypeError(f"{column!r} is neither an expression nor the name of a column")
    return column


def value(of: Any) -> Expr:
    """A literal where a value is given, in places where columns are expressions."""
    return of if isinstance(of, Expr) else lit(of)


def _text(message: Any) -> str:
    return " ".join(str(message).split())


def _arithmetic(op: int, left: Any, right: Any) -> Expr:
    return Expr(pb.Expr(arithmetic=pb.Arithmetic(op=op, left=value(left).message, right=value(right).message)))


def _compare(op: int, left: Any, right: Any) -> Filter:
    if right is None:
        # As in SQL, so that a filter may be built of a value that is not there; but nobody writes it for that.
        warnings.warn("a comparison with None is true for no row: use is_null() or is_not_null()", stacklevel=3)
    return Filter(pb.Filter(compare=pb.Compare(op=op, left=value(left).message, right=value(right).message)))


def _aggregate(function: int, of: Expr | str | None, distinct: bool = False) -> Expr:
    argument = None if of is None else named(of).message
    return Expr(pb.Expr(aggregate=pb.Aggregate(function=function, argument=argument, distinct=distinct)))


def _time(function: int, of: Expr, unit: str | None = None) -> Expr:
    if unit is not None and unit not in _UNITS:
        raise ValueError(f"{unit!r} is not a unit of time: {', '.join(_UNITS)}")
    number = getattr(pb, f"TIME_UNIT_{(unit or 'unspecified').upper()}")
    return Expr(pb.Expr(time=pb.Time(function=function, unit=number, of=of.message)))


def _merged(kind: str, message: Any, filters: Iterable[Filter], *, empty: bool) -> Filter:
    flat: list[Any] = []
    for each in filters:
        if isinstance(each, str):
            raise TypeError(f"{each!r} is a text: col('country') == 'DE' is a filter, and client.sql takes SQL")
        if not isinstance(each, Filter):
            raise TypeError(f"{each!r} is not a filter; comparisons need brackets beside & and |")
        inner = each.message
        flat += getattr(inner, kind).filters if inner.WhichOneof("kind") == kind else [inner]
    if len(flat) == 1:
        return Filter(flat[0])
    return Filter(pb.Filter(**{kind: message(filters=flat)})) if flat else constant(empty)
