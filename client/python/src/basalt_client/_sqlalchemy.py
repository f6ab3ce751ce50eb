"""The dialect of SQLAlchemy: `create_engine("basalt://127.0.0.1:7700")`, and with it `DataFrame.to_sql`.

There are no transactions: each statement is committed by itself, so a rollback takes nothing back. Many rows of one
INSERT are one load. Names are always in quotes, so that their case counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pyarrow as pa
from sqlalchemy import exc, pool
from sqlalchemy import types as sql
from sqlalchemy.engine import URL, Connection, default
from sqlalchemy.sql import compiler

from . import _types as types
from . import dbapi
from .errors import ConnectionFailed, TableNotFound

_OPTIONS = {"key", "ca", "cert", "cert_key", "deadline", "tls"}
# The one that there is.
_SCHEMA = "public"
# Up to so many bits of its digits a float is a REAL, as in PostgreSQL.
_REAL_BITS = 24


class _Preparer(compiler.IdentifierPreparer):
    """Quotes each name: without quotes it would go by other cases too."""

    def _requires_quotes(self, value: str) -> bool:
        return True


class _Types(compiler.GenericTypeCompiler):
    def visit_FLOAT(self, type_: Any, **_: Any) -> str:
        return "REAL" if type_.precision is not None and type_.precision <= _REAL_BITS else "DOUBLE"

    def visit_NUMERIC(self, type_: Any, **_: Any) -> str:
        if type_.precision is None:
            raise exc.CompileError("a decimal has digits: Numeric(12, 2)")
        return f"DECIMAL({type_.precision}, {type_.scale or 0})"

    def _text(self, type_: Any, **_: Any) -> str:
        # A length would not be enforced.
        return "TEXT"

    visit_VARCHAR = visit_CHAR = visit_NVARCHAR = visit_NCHAR = visit_TEXT = visit_CLOB = visit_uuid = visit_JSON = (
        _text
    )

    def _timestamp(self, type_: Any, **_: Any) -> str:
        return "TIMESTAMP"

    visit_DATETIME = visit_TIMESTAMP = _timestamp

    def _binary(self, type_: Any, **_: Any) -> str:
        return "BYTEA"

    visit_BLOB = visit_BINARY = visit_VARBINARY = visit_large_binary = _binary


class _Ddl(compiler.DDLCompiler):
    def visit_create_index(self, create: Any, *_: Any, **__: Any) -> str:
        """Nothing is to be done for an index, which pandas makes of a frame's: what it is for, every column has."""
        if create.element.unique:
            raise exc.CompileError("a unique index would not be enforced")
        return "SELECT 1"

    def visit_drop_index(self, drop: Any, **_: Any) -> str:
        return "SELECT 1"


class BasaltDialect(default.DefaultDialect):
    """Basalt's SQL by `basalt_client.dbapi`."""

    name = "basalt"
    driver = "basalt_client"
    preparer = _Preparer
    type_compiler_cls = _Types
    ddl_compiler = _Ddl
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = False
    supports_multivalues_insert = True
    # Each set of many rows is one `executemany`.
    use_insertmanyvalues = False
    supports_default_values = False
    supports_sequences = False
    postfetch_lastrowid = False
    insert_returning = update_returning = delete_returning = False
    default_paramstyle = "qmark"

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        return dbapi

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        return pool.QueuePool

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """`basalt://[:KEY@]HOST[:PORT]`, with what `connect` takes behind `?`; `tls=1` is `https://`."""
        options: dict[str, Any] = dict(url.query)
        if unknown := options.keys() - _OPTIONS:
            raise exc.ArgumentError(f"{min(unknown)} is none of {', '.join(sorted(_OPTIONS))}")
        scheme = "https" if options.pop("tls", "0") in ("1", "true") else "http"
        if url.password is not None:
            options["key"] = str(url.password)
        if "deadline" in options:
            options["deadline"] = float(options["deadline"])
        host = url.host or "127.0.0.1"
        address = f"[{host}]" if ":" in host else host
        return [f"{scheme}://{address}:{url.port or 7700}"], options

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Nothing is pending: each statement was committed by itself."""

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return isinstance(e, dbapi.Error) and isinstance(e.__cause__, ConnectionFailed)

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        return "AUTOCOMMIT"

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        return "AUTOCOMMIT"

    def get_isolation_level_values(self, dbapi_conn: Any) -> Sequence[Any]:
        return ["AUTOCOMMIT"]

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """There is one."""

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **_: Any) -> bool:
        if not _has_tables(schema):
            return False
        try:
            _client(connection).describe(table_name)
        except TableNotFound:
            return False
        return True

    def get_table_names(self, connection: Connection, schema: str | None = None, **_: Any) -> list[str]:
        return [table.name for table in _client(connection).tables()] if _has_tables(schema) else []

    def get_schema_names(self, connection: Connection, **_: Any) -> list[str]:
        return [_SCHEMA]

    def get_columns(self, connection: Connection, table_name: str, schema: str | None = None, **_: Any) -> Any:
        if not _has_tables(schema):
            raise exc.NoSuchTableError(f"{schema}.{table_name}")
        try:
            columns = _client(connection).describe(table_name).table.schema
        except TableNotFound:
            raise exc.NoSuchTableError(table_name) from None
        return [
            {"name": each.name, "type": _sql_type(each.type), "nullable": each.nullable, "default": None}
            for each in columns
        ]

    def _none(self, connection: Connection, table_name: str, schema: str | None = None, **_: Any) -> Any:
        return []

    get_foreign_keys = get_indexes = get_unique_constraints = get_check_constraints = _none

    def get_pk_constraint(self, connection: Connection, table_name: str, schema: str | None = None, **_: Any) -> Any:
        return {"constrained_columns": [], "name": None}

    def get_view_names(self, connection: Connection, schema: str | None = None, **_: Any) -> list[str]:
        return []


def _has_tables(schema: str | None) -> bool:
    return schema in (None, _SCHEMA)


def _client(connection: Connection) -> Any:
    return connection.connection.dbapi_connection.client  # type: ignore[union-attr]


_SQL_TYPES: dict[pa.DataType, Any] = {
    pa.bool_(): sql.BOOLEAN(),
    pa.int8(): sql.SMALLINT(),
    pa.int16(): sql.SMALLINT(),
    pa.int32(): sql.INTEGER(),
    pa.int64(): sql.BIGINT(),
    pa.uint8(): sql.SMALLINT(),
    pa.uint16(): sql.INTEGER(),
    pa.uint32(): sql.BIGINT(),
    pa.uint64(): sql.NUMERIC(20, 0),
    pa.float32(): sql.REAL(),
    pa.float64(): sql.DOUBLE(),
    pa.date32(): sql.DATE(),
    types.TIMESTAMP: sql.TIMESTAMP(timezone=True),
    types.TIME: sql.TIME(),
    pa.string(): sql.TEXT(),
    pa.binary(): sql.BLOB(),
}


def _sql_type(data_type: pa.DataType) -> Any:
    if pa.types.is_decimal(data_type):
        return sql.NUMERIC(data_type.precision, data_type.scale)
    return _SQL_TYPES[data_type]
