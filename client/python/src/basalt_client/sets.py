"""Sets as filters: rows of one version of a table, or values of a column."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy.typing as npt
import pyarrow as pa
from typing_extensions import Self

from . import _ids as ids
from . import _proto as pb
from . import _sip as sip
from . import _types as types
from ._rpc import Connection
from .errors import InvalidSet, MalformedAnswer
from .expressions import Filter, all_of
from .result import Statistics


@dataclass(frozen=True)
class Kept:
    """A set that the server keeps."""

    handle: bytes
    """Its name in filters: 32 bytes, a hash of the set."""
    expires_in: dt.timedelta
    """The time that it had left when the server answered."""


@dataclass(frozen=True, eq=False, repr=False)
class Set:
    """A set of ids, with what they mean. `&`, `|` and `-` make others of two, on this side; `len` counts the ids."""

    connection: Connection = field(compare=False)
    scope: Any
    """The API's `Scope`: which table, version and column the ids are of."""
    data: bytes
    """The ids in the SIP format; empty where the server alone holds them."""
    cardinality: int
    """How many ids."""
    statistics: Statistics = field(default_factory=Statistics)
    """What selecting them took; zeros for a set that was made on this side."""
    kept: Kept | None = None
    """Where the server keeps the set: filters then name it instead of sending it."""

    @property
    def table(self) -> str:
        """The table that the set was made of."""
        return str(self.scope.table)

    @property
    def version(self) -> int:
        """The version of that table."""
        return int(self.scope.version)

    @cached_property
    def _intervals(self) -> sip.Intervals:
        if not self.data:
            raise InvalidSet("only the server holds the ids of this set: select it with ids=True")
        return sip.read(self.data)

    def __len__(self) -> int:
        return self.cardinality

    def __bool__(self) -> bool:
        return self.cardinality > 0

    def __eq__(self, other: object) -> bool:
        """The same ids of the same kind; rows also of the same version."""
        if type(other) is not type(self):
            return NotImplemented
        try:
            self._common(other)
        except InvalidSet:
            return False
        return not (self - other) and not (other - self)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Self) -> Self:
        return self._combined(other, sip.intersection, has_null=lambda a, b: a and b)

    def __or__(self, other: Self) -> Self:
        return self._combined(other, sip.union, has_null=lambda a, b: a or b)

    def __sub__(self, other: Self) -> Self:
        return self._combined(other, sip.difference, has_null=lambda a, b: a and not b)

    def _combined(
        self,
        other: Self,
        operation: Callable[[sip.Intervals, sip.Intervals], sip.Intervals],
        has_null: Callable[[bool, bool], bool],
    ) -> Self:
        if not isinstance(other, type(self)):
            raise TypeError(f"{type(self).__name__} and {type(other).__name__} have nothing in common")
        scope = self._common(other)
        if scope.HasField("key"):
            scope.key.has_null = has_null(self.scope.key.has_null, other.scope.key.has_null)
        result = operation(self._intervals, other._intervals)
        data, cardinality = sip.write(result), result.cardinality()
        return replace(self, scope=scope, data=data, cardinality=cardinality, statistics=Statistics(), kept=None)

    def _common(self, other: Self) -> Any:
        """A new scope for ids of both sets, or an error."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Array:
        """The ids or values in order, without null: an array of `cardinality`."""
        raise NotImplementedError

    def to_numpy(self) -> npt.NDArray[Any]:
        """As `to_arrow`: integers, bool, datetime64 in microseconds or days, or objects for decimals."""
        array: npt.NDArray[Any] = self.to_arrow().to_numpy(zero_copy_only=False)
        return array

    def to_list(self) -> list[Any]:
        """As `to_arrow`, of Python's values."""
        found: list[Any] = self.to_arrow().to_pylist()
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_list())

    def _held(self) -> dict[str, bytes]:
        """The set as a field of a filter."""
        return {"handle": self.kept.handle} if self.kept else {"sip": self.data}

    def __repr__(self) -> str:
        held = f"{len(self.data):,} bytes" if self.data else "kept by the server"
        return f"{type(self).__name__}({self._what()}: {self.cardinality:,} ids, {held})"

    def _what(self) -> str:
        return f"{self.table}, version {self.version}"


class Rows(Set):
    """A set of rows of one version of one table: the ids are their addresses."""

    def filter(self) -> Filter:
        """True for the rows of the set."""
        return Filter(pb.Filter(rows=pb.RowSet(scope=self.scope, **self._held())))

    def to_arrow(self) -> pa.Array:
        return pa.array(self._intervals.ids())

    def __contains__(self, address: object) -> bool:
        return isinstance(address, int) and address in self._intervals

    def _common(self, other: Self) -> Any:
        if other.scope != self.scope:
            raise InvalidSet(f"rows of {self._what()} and of {other._what()} have nothing in common")
        return pb.Scope.FromString(self.scope.SerializeToString())


class Keys(Set):
    """A set of values of a column."""

    @property
    def column(self) -> str:
        """The column that the values come from."""
        return str(self.scope.key.column)

    @property
    def type(self) -> pa.DataType:
        """Its type."""
        return types.from_api(self.scope.key.type)

    @property
    def has_null(self) -> bool:
        """Whether the column was null in a selected row: SQL's NOT IN is then never true. It is not counted."""
        return bool(self.scope.key.has_null)

    def of_column(self, column: str) -> Filter:
        """The filter `column IN set`; `Expr.in_keys` is the same."""
        return Filter(pb.Filter(keys=pb.KeySet(column=column, scope=self.scope, **self._held())))

    def to_arrow(self) -> pa.Array:
        return ids.from_ids(self._intervals.ids(), self.type)

    def __contains__(self, value: object) -> bool:
        id = ids.find_id(value, self.type)
        return id is not None and id in self._intervals

    def _what(self) -> str:
        return f"{self.table}.{self.column}" if self.table else types.type_name(self.type)

    def _common(self, other: Self) -> Any:
        """Integers of any types go together, but for uint64, whose ids are other numbers."""
        scope = pb.Scope.FromString(self.scope.SerializeToString())
        a, b = self.type, other.type
        if a != b:
            if not all(pa.types.is_integer(each) and not pa.types.is_uint64(each) for each in (a, b)):
                names = types.type_name(a), types.type_name(b)
                raise InvalidSet("values of the types {} and {} have nothing in common".format(*names))
            scope.key.type.CopyFrom(types.to_api(pa.int64()))
        return scope


class SemiJoin:
    """The values of a column in the rows of a table, for `Expr.in_keys`; made by `keys_of`."""

    def __init__(self, table: str, key: str, *filters: Filter, version: int | None = None) -> None:
        self._table = table
        self._key = key
        self._filters = filters
        self._version = version

    def filter(self, *filters: Filter) -> SemiJoin:
        """Only of rows for which all of the filters are true; they may hold semi-joins themselves."""
        return SemiJoin(self._table, self._key, *self._filters, *filters, version=self._version)

    def version(self, version: int) -> SemiJoin:
        """The version to read instead of the newest."""
        return SemiJoin(self._table, self._key, *self._filters, version=version)

    def of_column(self, column: str) -> Filter:
        """The filter `column IN (SELECT key FROM table WHERE filters)`."""
        join = pb.SemiJoin(column=column, table=self._table, key=self._key)
        if self._filters:
            join.filter.CopyFrom(all_of(*self._filters).message)
        if self._version is not None:
            join.version = self._version
        return Filter(pb.Filter(semi_join=join))


def keys_of(table: str, column: str) -> SemiJoin:
    """`SELECT column FROM table`, for `Expr.in_keys`: the server makes the set and filters by it in one request."""
    return SemiJoin(table, column)


def scope_of_values(array: pa.Array) -> tuple[Any, bytes, int]:
    """Scope, bytes and cardinality of the set of an array's values."""
    data_type = ids.id_type(array.type)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if data_type != array.type:
        try:
            array = array.cast(data_type)
        except pa.ArrowException as error:
            raise InvalidSet(f"values of type {array.type} are no ids as {data_type}: {error}") from None
    key = pb.KeyDomain(type=types.to_api(data_type), has_null=array.null_count > 0)
    intervals = sip.of_ids(ids.to_ids(array.drop_null()))
    return pb.Scope(key=key), sip.write(intervals), intervals.cardinality()


def kept_from_api(handle: bytes, expires_ms: int) -> Kept:
    """A kept set, as an answer says it."""
    if len(handle) != 32:
        raise MalformedAnswer("a handle that is not of 32 bytes")
    return Kept(handle, dt.timedelta(milliseconds=expires_ms))
