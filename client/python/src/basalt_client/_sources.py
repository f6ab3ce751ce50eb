"""What rows can be loaded from, as Arrow batches."""

from __future__ import annotations

import bisect
import glob
import itertools
import os
import pathlib
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.dataset

from . import _memory as memory
from . import _names as names
from ._cast import cast, table_schema
from ._csv import Csv, Reading
from ._json import Json
from ._types import type_of
from ._widen import widened
from .errors import InvalidData

_ROWS = 1 << 16
# Files whose columns are looked for at the same time; each takes some times a block of memory.
_AT_ONCE = 4

_FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "ipc",
    ".arrows": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}
# Times of 96 bits, those of Spark and Impala: as nanoseconds many years would be others.
_PARQUET = pa.dataset.ParquetFileFormat(
    read_options=pa.dataset.ParquetReadOptions(coerce_int96_timestamp_unit="us"),
)
# Endings of text that is compressed.
_PACKED = (".gz", ".zst")


Schema: TypeAlias = "pa.Schema | Mapping[str, pa.DataType | str | type]"


def schema_of(schema: Schema | None) -> pa.Schema:
    """Columns whose types are said, as Arrow has them."""
    if schema is None or isinstance(schema, pa.Schema):
        return schema or pa.schema([])
    if not isinstance(schema, Mapping):
        raise TypeError(f"schema is a pyarrow.Schema or a dict of types by column, not a {type(schema).__qualname__}")
    return pa.schema([(name, type_of(each)) for name, each in schema.items()])


class ReadRows(Protocol):
    """Reads rows, whose columns go by the names of a table where they are its but for case."""

    def __call__(self, table: pa.Schema | None, typed: Collection[str] | None = None) -> Source:
        """Columns of texts have the types that the table has: those that are `typed`, or all."""


def reader_of(data: Any, schema: Schema | None, delimiter: str | None, nulls: Sequence[str] | None) -> ReadRows:
    """What reads rows, with columns of text as a table has them, but for those whose types are said.

    A text has no type of its own: 12.34 is a decimal where the column of the table is.
    """
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii()):
        raise ValueError(f"a delimiter is one character of ASCII, not {delimiter!r}")
    if isinstance(nulls, str):
        raise TypeError("nulls are a list of texts")
    said = table_schema(schema_of(schema))

    def read(table: pa.Schema | None, typed: Collection[str] | None = None) -> Source:
        own = [field for field in table or () if typed is None or field.name in typed]
        types = {field.name: field.type for field in [*own, *said]}
        known = dict.fromkeys([*(table.names if table else ()), *said.names])
        source = source_of(data, Reading(types, delimiter, nulls, tuple(known)))
        if not isinstance(data, (str, os.PathLike)):
            source = _named(source, names.of_rows(source.schema.names, known))
        if unknown := [name for name in said.names if name not in source.schema.names]:
            has = ", ".join(source.schema.names)
            raise InvalidData(f"schema names a column {unknown[0]!r}, and the rows have {has}")
        return source

    return read


@dataclass(frozen=True)
class Source:
    """Rows, whose columns are known before the first of them is read."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    """The rows, from the first on."""
    rows: int | None = None
    """How many, where that is known before."""
    repeatable: bool = True
    """Whether they can be read more than once."""
    place: Callable[[int], str] = lambda row: f"row {row + 1}"
    """Where a row is, by how many are before it; slow."""
    origin: Literal["memory", "texts", "typed"] = "memory"
    """Whether they are in files of texts, whose types are found, or in files that say their types."""
    with_types: Callable[[pa.Schema], Source] | None = None
    """Of a file of texts: the same rows in other types, where none is said."""


def _named(source: Source, names: Sequence[str]) -> Source:
    """Rows whose columns have other names."""
    if source.schema.names == names or len(set(source.schema.names)) < len(names):
        return source
    schema = pa.schema([field.with_name(name) for field, name in zip(source.schema, names, strict=True)])

    def read() -> Iterator[pa.RecordBatch]:
        for batch in source.batches():
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    return replace(source, schema=schema, batches=read)


def source_of(data: Any, reading: Reading | None = None) -> Source:
    """The rows of a data frame, of PyArrow's objects, of dicts and lists, or of a file.

    Raises:
        InvalidData: The rows cannot be read as Arrow's.
        TypeError: The object has no rows.
    """
    try:
        return _source_of(data, reading or Reading())
    except pa.ArrowException as error:
        raise InvalidData(f"the rows cannot be read: {'; '.join(map(str, error.args))}") from None


def _source_of(data: Any, reading: Reading) -> Source:
    if isinstance(data, (str, os.PathLike)):
        if "://" in str(data):
            how = "load pyarrow.dataset.dataset(address) or pandas.read_csv(address)"
            raise FileNotFoundError(f"{data} is no file of this machine: {how}")
        return _path(pathlib.Path(data).expanduser(), reading)
    if reading.delimiter is not None or reading.nulls is not None:
        raise TypeError(f"delimiter= and nulls= are of CSV files, not of a {type(data).__qualname__}")
    if isinstance(data, pa.dataset.Dataset):
        return _dataset(data)
    if isinstance(data, pa.dataset.Scanner):
        data = data.to_reader()
    table = memory.table_of(data)
    if table is not None:
        return Source(table.schema, lambda: iter(table.to_batches(_ROWS)), table.num_rows)
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return Source(reader.schema, lambda: iter(reader), repeatable=False)
    if hasattr(data, "readline"):
        raise TypeError("rows are loaded from a file by its path; of an open one load pandas.read_csv(file)")
    if isinstance(data, Iterator):
        return _pieces(data)
    raise TypeError(f"rows are not loaded from a {type(data).__module__}.{type(data).__qualname__}")


def _pieces(pieces: Iterator[Any]) -> Source:
    """Frames, tables, batches or dicts that come one after the other: what the first has is in all of them."""
    first = next(pieces, None)
    if first is None:
        raise InvalidData("there is no row, so the columns are not known")
    if isinstance(first, Mapping) and not any(memory.is_column(each) for each in first.values()):
        table = memory.table_of([first, *pieces])
        assert table is not None
        return Source(table.schema, lambda: iter(table.to_batches(_ROWS)), table.num_rows)
    schema = _piece(first).schema

    def read() -> Iterator[pa.RecordBatch]:
        for piece in itertools.chain([first], pieces):
            table = _piece(piece)
            if sorted(table.schema.names) != sorted(schema.names):
                names = ", ".join(table.schema.names)
                raise InvalidData(f"the columns of a part are {names}, and of the first {', '.join(schema.names)}")
            yield from table.select(schema.names).to_batches(_ROWS)

    return Source(schema, read, repeatable=False)


def _piece(piece: Any) -> pa.Table:
    table = memory.table_of(piece)
    if table is None:
        raise TypeError(f"rows are not loaded from parts of the type {type(piece).__qualname__}")
    return table


def _dataset(dataset: pa.dataset.Dataset, path: pathlib.Path | None = None) -> Source:
    def read() -> Iterator[pa.RecordBatch]:
        try:
            yield from dataset.to_batches(batch_size=_ROWS)
        except pa.ArrowException as error:
            raise InvalidData(f"{path or 'the rows cannot be read'}: {error}") from None

    return Source(dataset.schema, read, place=_row_of(path), origin="typed")


def _row_of(path: pathlib.Path | None) -> Callable[[int], str]:
    return lambda row: f"{path}: row {row + 1}" if path else f"row {row + 1}"


def _path(path: pathlib.Path, reading: Reading) -> Source:
    """A file, or all of those in a folder or of a pattern, as one."""
    if path.is_dir():
        # Names that begin so are those of logs and marks, such as Spark's _SUCCESS.
        inside = [each.relative_to(path) for each in path.rglob("*")]
        for log in sorted(each for each in inside if each.name == "_delta_log" and (path / each).is_dir()):
            if not _is_hidden(log.parent):
                # Its log says which files are part of it, and which of their rows.
                how = "it is a Delta table, which is attached, or loaded file by file"
                raise InvalidData(f"{(path / log).parent}: {how}")
        found = sorted(each for each in inside if not _is_hidden(each) and (path / each).is_file())
        for part in (part for each in found for part in each.parts[:-1]):
            if "=" in part:
                how = "load pyarrow.dataset.dataset(path, partitioning='hive'), or its files by a pattern"
                raise InvalidData(f"{path}: {part!r} is the value of a column that the files below do not have; {how}")
        files = [path / each for each in found if _format_of(each)]
        if not files:
            raise InvalidData(f"{path}: there are no files of rows in this folder")
        if len(files) < len(found):
            skipped = ", ".join(str(each) for each in found if not _format_of(each))
            warnings.warn(f"{path}: files whose endings name no format are passed over: {skipped}", stacklevel=2)
        return _files(files, reading)
    if not path.exists() and glob.has_magic(str(path)):
        files = sorted(pathlib.Path(each) for each in glob.glob(str(path), recursive=True))
        files = [each for each in files if each.is_file()]
        if not files:
            raise FileNotFoundError(f"no file has a name like {path}")
        return _files(files, reading)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}")
    return _file(path, reading)


def _is_hidden(path: pathlib.Path) -> bool:
    return any(part[0] in "._" for part in path.parts)


def _files(paths: Sequence[pathlib.Path], reading: Reading) -> Source:
    """Files with the same columns, whose types are widened from file to file."""
    # Each in a thread of its own, because to find types takes about as long as to read the rows.
    with futures.ThreadPoolExecutor(min(len(paths), os.cpu_count() or 1, _AT_ONCE)) as threads:
        parts = list(threads.map(lambda path: _file(path, reading), paths))
    names = parts[0].schema.names
    fields = {field.name: field for field in parts[0].schema}
    for path, part in zip(paths[1:], parts[1:], strict=True):
        # A key of JSON may be missing, or be the first of its name.
        if sorted(part.schema.names) != sorted(names) and _kind_of(path) != "json":
            raise InvalidData(f"{path}: its columns are not those of {paths[0]}, {', '.join(names)}")
        for field in part.schema:
            before = fields.setdefault(field.name, field)
            found = widened(before, field)
            if found is None and not all(_kind_of(each) in ("csv", "json") for each in paths):
                what = f"column {field.name!r} is text: in {path} it is {field.type}, before it was {before.type}"
                warnings.warn(what, stacklevel=2)
            fields[field.name] = found or before.with_type(pa.string())
    is_null = {name: pa.types.is_null(field.type) for name, field in fields.items()}
    schema = pa.schema([field.with_type(pa.string()) if is_null[name] else field for name, field in fields.items()])
    # Text is read again in the types of all files; "007" of a column of texts was a number in a file of its own.
    parts = [part if part.with_types is None else part.with_types(schema) for part in parts]
    # How many rows are before those of each file, as far as they were read.
    starts: list[int] = []

    def read() -> Iterator[pa.RecordBatch]:
        rows = 0
        starts.clear()
        for path, part in zip(paths, parts, strict=True):
            starts.append(rows)
            for batch in part.batches():
                try:
                    columns = [_column(batch, field) for field in schema]
                except (pa.ArrowException, ValueError) as error:
                    raise InvalidData(f"{path}: {error}") from None
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
                rows += batch.num_rows

    def place(row: int) -> str:
        part = bisect.bisect_right(starts, row) - 1
        return parts[part].place(row - starts[part])

    counts = [part.rows for part in parts]
    rows = None if None in counts else sum(count or 0 for count in counts)
    are_texts = all(part.origin == "texts" for part in parts)
    return Source(schema, read, rows, place=place, origin="texts" if are_texts else "typed")


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(field.name)
    # Of a decimal Arrow makes a float that may be the next to the nearest.
    is_float_of_decimal = pa.types.is_decimal(column.type) and pa.types.is_floating(field.type)
    is_exact = is_float_of_decimal or pa.types.is_string(field.type)
    return cast(column, field.type) if is_exact else column.cast(field.type)


def _kind_of(path: pathlib.Path) -> str:
    """The format of a file by the ending of its name."""
    kind = _format_of(path)
    if kind is None:
        known = ", ".join(_FORMATS)
        raise InvalidData(f"{path}: files end with {known}; those of text also with .gz or .zst")
    return kind


def _format_of(path: pathlib.Path) -> str | None:
    endings = [suffix.lower() for suffix in path.suffixes]
    packed = len(endings) > 1 and endings[-1] in _PACKED
    kind = _FORMATS.get(endings[-2 if packed else -1]) if endings else None
    return None if packed and kind not in ("csv", "json") else kind


def _file(path: pathlib.Path, reading: Reading) -> Source:
    """A file; one that is text, in the types that are said or found."""
    kind = _kind_of(path)
    try:
        if kind in ("csv", "json"):
            return _texts(Csv(path, reading) if kind == "csv" else Json(path, reading.types))
        if kind == "ipc" and not _has_index(path):
            return _stream(path)
        return _dataset(pa.dataset.dataset(path, format=_PARQUET if kind == "parquet" else kind), path)
    except pa.ArrowException as error:
        raise InvalidData(f"{path}: {error}") from None


def _texts(file: Csv | Json) -> Source:
    return Source(
        file.schema,
        file.batches,
        place=file.place,
        origin="texts",
        with_types=lambda schema: _texts(file.with_types(schema)),
    )


def _has_index(path: pathlib.Path) -> bool:
    """Whether Arrow batches are a file, or a stream, which begins with its schema."""
    with path.open("rb") as file:
        return file.read(6) == b"ARROW1"


def _stream(path: pathlib.Path) -> Source:
    def read() -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
            yield from reader

    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        return Source(reader.schema, read, place=_row_of(path), origin="typed")
