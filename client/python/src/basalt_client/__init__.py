"""The Python client of Basalt: data frames and Arrow in and out, SQL, typed queries, and sets as filters.

```python
import basalt_client as basalt

client = basalt.connect("127.0.0.1:7700")
client.load("flights", frame)
client.sql("SELECT carrier, count(*) AS n FROM flights WHERE dep_delay > ? GROUP BY carrier", [60]).to_pandas()
```

- `connect` gives a `Client`, which loads, asks, describes and changes tables; `basalt_client.aio` has its asynchronous
  twin.
- `Query` is built from `Expr`s and `Filter`s over one table; a `Result` is Arrow, pandas, Polars or tuples.
- `RowSet` and `KeySet` are answers that are filters again; `keys_of` is a semi-join.
- `BasaltError` carries the server's reason and the place in the request.
- `basalt_client.dbapi` is the DB-API 2.0.
"""

from . import _quiet  # noqa: F401
from ._write import Committed
from .catalog import (
    Cluster,
    Column,
    Deleted,
    Limits,
    Node,
    Plan,
    Retention,
    RunningQuery,
    ServerInfo,
    Table,
    TableDetails,
)
from .client import Client, KeySet, Query, RowSet, Stream, connect
from .errors import (
    BasaltError,
    Cancelled,
    ColumnNotFound,
    ConnectionFailed,
    DeadlineExceeded,
    IncompleteAnswer,
    InvalidConnection,
    InvalidData,
    InvalidRequest,
    InvalidSet,
    MalformedAnswer,
    NotSupported,
    OutcomeUnknown,
    OutOfRange,
    Overloaded,
    PermissionDenied,
    Place,
    QueryNotFound,
    ReadOnly,
    ScopeMismatch,
    SetNotFound,
    TableDamaged,
    TableExists,
    TableNotFound,
    Unauthenticated,
    Unavailable,
    VersionGone,
    WriteConflict,
)
from .expressions import (
    Expr,
    Filter,
    OrderBy,
    all_of,
    any_of,
    attribute,
    avg,
    col,
    constant,
    count,
    lit,
    max,
    min,
    row_address,
    sum,
)
from .options import RetryPolicy
from .result import Result, Statistics
from .sets import Kept, SemiJoin, keys_of

__all__ = [
    "BasaltError",
    "Cancelled",
    "Client",
    "Cluster",
    "Column",
    "ColumnNotFound",
    "Committed",
    "ConnectionFailed",
    "DeadlineExceeded",
    "Deleted",
    "Expr",
    "Filter",
    "IncompleteAnswer",
    "InvalidConnection",
    "InvalidData",
    "InvalidRequest",
    "InvalidSet",
    "Kept",
    "KeySet",
    "Limits",
    "MalformedAnswer",
    "Node",
    "NotSupported",
    "OrderBy",
    "OutOfRange",
    "OutcomeUnknown",
    "Overloaded",
    "PermissionDenied",
    "Place",
    "Plan",
    "Query",
    "QueryNotFound",
    "ReadOnly",
    "Result",
    "Retention",
    "RetryPolicy",
    "RowSet",
    "RunningQuery",
    "ScopeMismatch",
    "SemiJoin",
    "ServerInfo",
    "SetNotFound",
    "Statistics",
    "Stream",
    "Table",
    "TableDamaged",
    "TableDetails",
    "TableExists",
    "TableNotFound",
    "Unauthenticated",
    "Unavailable",
    "VersionGone",
    "WriteConflict",
    "all_of",
    "any_of",
    "attribute",
    "avg",
    "col",
    "connect",
    "constant",
    "count",
    "keys_of",
    "lit",
    "max",
    "min",
    "row_address",
    "sum",
]
