"""What rows can be loaded from, as Arrow batches."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset

from .errors import InvalidData

_ROWS = 1 << 16

# Those of `basalt load`. PyArrow keeps them as texts in columns of text.
_CSV_NULLS = ["", "NULL", r"\N", "NA"]
# How much of a CSV decides the types of its columns.
_CSV_BLOCK_BYTES = 16 << 20


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


def source_of(data: Any) -> Source:
    """The rows of a data frame, of PyArrow's objects, of dicts and lists, or of a file.

    Raises:
        InvalidData: The rows cannot be read as Arrow's.
        TypeError: The object has no rows.
    """
    try:
        return _source_of(data)
    except pa.ArrowException as error:
        raise InvalidData(f"the rows cannot be read: {'; '.join(map(str, error.args))}") from None


def _source_of(data: Any) -> Source:
    if isinstance(data, (str, os.PathLike)):
        return _file(pathlib.Path(data))
    library = type(data).__module__.partition(".")[0]
    if library == "pandas":
        return _table(_of_pandas(data))
    if library == "polars":
        return _table((data.collect() if hasattr(data, "collect") else data).to_arrow())
    if isinstance(data, pa.Table):
        return _table(data)
    if isinstance(data, pa.RecordBatch):
        return _table(pa.Table.from_batches([data]))
    if isinstance(data, pa.dataset.Dataset):
        return _dataset(data)
    if isinstance(data, Mapping):
        return _table(pa.table(dict(data)))
    if isinstance(data, Sequence) and not isinstance(data, bytes):
        return _table(_of_records(data))
    if isinstance(data, pa.dataset.Scanner):
        data = data.to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return Source(reader.schema, lambda: iter(reader), repeatable=False)
    raise TypeError(f"rows are not loaded from a {type(data).__module__}.{type(data).__qualname__}")


def _table(table: pa.Table) -> Source:
    return Source(table.schema, lambda: iter(table.to_batches(_ROWS)), table.num_rows)


def _dataset(dataset: pa.dataset.Dataset) -> Source:
    return Source(dataset.schema, lambda: dataset.to_batches(batch_size=_ROWS))


def _of_pandas(frame: Any) -> pa.Table:
    if not hasattr(frame, "columns"):
        raise TypeError("a series is not a table: use its frame, `series.to_frame()`")
    named = [level for level, name in enumerate(frame.index.names) if name is not None]
    if named:
        # A named index is data, such as the keys of groups; one without a name counts rows.
        frame = frame.reset_index(level=named)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    return pa.Table.from_pandas(frame, preserve_index=False)


def _of_records(rows: Sequence[Any]) -> pa.Table:
    names: dict[str, None] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise TypeError(f"row {number} is a {type(row).__qualname__}, not a dict of columns")
        names |= dict.fromkeys(row)
    if not names:
        raise InvalidData("there is no row, so the columns are not known")
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def _file(path: pathlib.Path) -> Source:
    """A file by the ending of its name, or a folder of Parquet files."""
    endings = [suffix.lower() for suffix in path.suffixes]
    if ".csv" in endings[-2:]:
        return _csv(path)
    formats = {".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
    kind = "parquet" if path.is_dir() else formats.get(endings[-1] if endings else "")
    if kind is None:
        raise InvalidData(f"{path}: files end with .parquet, .csv, .csv.gz, .csv.zst, .arrow, .feather or .ipc")
    try:
        if kind == "ipc" and not _has_index(path):
            return _stream(path)
        return _dataset(pa.dataset.dataset(path, format=kind))
    except pa.ArrowException as error:
        raise InvalidData(f"{path}: {error}") from None


def _has_index(path: pathlib.Path) -> bool:
    """Whether Arrow batches are a file, or a stream, which begins with its schema."""
    with path.open("rb") as file:
        return file.read(6) == b"ARROW1"


def _stream(path: pathlib.Path) -> Source:
    def read() -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
            yield from reader

    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        return Source(reader.schema, read)


def _csv(path: pathlib.Path) -> Source:
    def open_csv() -> Any:
        return pa.csv.open_csv(
            pa.input_stream(str(path), compression="detect"),
            read_options=pa.csv.ReadOptions(block_size=_CSV_BLOCK_BYTES),
            convert_options=pa.csv.ConvertOptions(null_values=_CSV_NULLS),
        )

    try:
        with open_csv() as reader:
            return Source(reader.schema, lambda: iter(open_csv()))
    except pa.ArrowException as error:
        raise InvalidData(f"{path}: {error}") from None
