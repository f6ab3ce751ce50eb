"""Queries of one table, as they are built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from typing_extensions import Self

from . import _proto as pb
from .expressions import Expr, Filter, OrderBy, all_of, named
from .sets import Rows


class QueryBuilder:
    """A query of a table: all of its rows and columns by default. Each step gives another query.

    Where an expression is expected, a string is the name of a column.
    """

    def __init__(self, request: Any) -> None:
        self._request = request
        # The keys of the groups with their names, which are not part of the request.
        self._keys: tuple[Expr, ...] = ()

    @property
    def request(self) -> Any:
        """The API's `QueryRequest`, as it will be sent."""
        copy = pb.QueryRequest()
        copy.CopyFrom(self._request)
        return copy

    def select(self, *columns: Expr | str | Sequence[Expr | str]) -> Self:
        """The columns of the answer; a list of them is all of its items, here and in the other steps.

        With an aggregate among them, or with `group_by`, there is one row a group, and every other expression must be
        one of the keys.
        """
        items = [_item(named(column)) for column in _flat(columns)]
        return self._with(lambda request: request.select.extend(items))

    def filter(self, *filters: Filter) -> Self:
        """Only rows for which all of the filters are true, and those of earlier calls."""
        return self._with(lambda request: _restrict(request, "filter", filters))

    def rows(self, rows: Rows) -> Self:
        """Only the rows of a set that `select_rows` made. The version that it is of is read, which must be there."""
        return self.filter(rows.filter())

    def group_by(self, *keys: Expr | str | Sequence[Expr | str]) -> Self:
        """The keys of the groups; `aggregate` has them as the first columns of the answer."""
        new = tuple(map(named, _flat(keys)))
        query = self._with(lambda request: request.group_by.extend(key.message for key in new))
        query._keys = self._keys + new
        return query

    def aggregate(self, *aggregates: Expr | Sequence[Expr]) -> Self:
        """The columns of the answer: the keys of `group_by`, then these, one row a group."""
        return self.select(*self._keys, *_flat(aggregates))

    def having(self, *filters: Filter) -> Self:
        """Only groups for which all of the filters are true; they may hold aggregates."""
        return self._with(lambda request: _restrict(request, "having", filters))

    def order_by(self, *keys: Expr | str | OrderBy | Sequence[Expr | str | OrderBy], descending: bool = False) -> Self:
        """The order, by columns of the answer or of the table; nulls are last.

        `Expr.asc` and `Expr.desc` say more for one key, and are not turned by `descending`. Without an order groups
        come in the order of their keys, rows in the order of their addresses.
        """
        orders = [_order(key, descending).message for key in _flat(keys)]
        return self._with(lambda request: request.order_by.extend(orders))

    def limit(self, rows: int) -> Self:
        """At most so many rows."""
        return self._with(lambda request: setattr(request, "limit", rows))

    def offset(self, rows: int) -> Self:
        """After leaving out so many."""
        return self._with(lambda request: setattr(request, "offset", rows))

    def version(self, version: int) -> Self:
        """The version to read instead of the newest; one that is gone is a `VersionGone`."""
        return self._with(lambda request: setattr(request, "version", version))

    def _with(self, change: Callable[[Any], Any]) -> Self:
        copy = self.__class__.__new__(self.__class__)
        copy.__dict__ |= self.__dict__
        copy._request = self.request
        change(copy._request)
        return copy

    def _selection(self, key: str, keep: float | None, omit: bool) -> Any:
        """The API's `SelectRequest`: only the table, the filter and the version count."""
        request = self._request
        selection = pb.SelectRequest(table=request.table, key=key, keep_ms=keep_ms(keep), omit_sip=omit)
        if request.HasField("filter"):
            selection.filter.CopyFrom(request.filter)
        if request.HasField("version"):
            selection.version = request.version
        return selection

    def __repr__(self) -> str:
        return f"{type(self).__name__}({' '.join(str(self._request).split())})"


def request_of(table: str) -> Any:
    """The request for all of a table."""
    return pb.QueryRequest(table=table, format=pb.FORMAT_ARROW_IPC)


def keep_ms(seconds: float | None) -> int:
    """A time for which a set is kept; 0 where it is not."""
    if seconds is None:
        return 0
    if seconds <= 0:
        raise ValueError(f"a set is kept for more than {seconds} seconds")
    return max(round(seconds * 1000), 1)


def _flat(items: Iterable[Any]) -> list[Any]:
    return [each for item in items for each in (item if isinstance(item, (list, tuple)) else [item])]


def _item(expr: Expr) -> Any:
    return pb.SelectItem(expr=expr.message, name=expr.name)


def _order(key: Expr | str | OrderBy, descending: bool) -> OrderBy:
    if isinstance(key, OrderBy):
        return key
    return named(key).desc() if descending else named(key).asc()


def _restrict(request: Any, field: str, filters: tuple[Filter, ...]) -> None:
    before = [Filter(getattr(request, field))] if request.HasField(field) else []
    getattr(request, field).CopyFrom(all_of(*before, *filters).message)
