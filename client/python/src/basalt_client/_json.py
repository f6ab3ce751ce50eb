"""JSON files: the columns that their objects have."""

from __future__ import annotations

import copy
import functools
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from . import _names as names
from ._csv import unreadable
from ._json_blocks import Block, Blocks
from ._json_cells import Cells, cells, cells_of
from ._texts import ROUNDED, parse, shown, time_type, what_is
from .errors import InvalidData

# What a thread reads of a block.
_PART_BYTES = 1 << 20
# Beyond these floats are not all integers.
_EXACT = float(1 << 53)
T = TypeVar("T")


class Json:
    """A file, whose columns have the types that are said, or those of its first block."""

    def __init__(self, path: pathlib.Path, said: Mapping[str, pa.DataType]) -> None:
        self._path = path
        self._said = said
        self._file = Blocks(path)
        # The keys of the columns, by their names.
        self._keys: dict[str, str] = {}
        # Columns that are read as texts, since their values are of several kinds, or of one that Arrow does not know.
        self._as_texts: set[str] = set()
        # None is known while they are looked for.
        self.schema = pa.schema([])
        try:
            self.schema = self._schema()
        except OSError as error:
            raise unreadable(path, error) from None

    def with_types(self, known: pa.Schema) -> Json:
        """The same file in the types that several files have together, where none is said."""
        other = copy.copy(self)
        other._as_texts = set(self._as_texts)
        other.schema = pa.schema(
            [pa.field(each.name, self._said.get(each.name, known.field(each.name).type)) for each in self.schema]
        )
        return other

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        try:
            for block in self._file:
                yield from self._parsed(block).to_batches()
        except OSError as error:
            raise unreadable(self._path, error) from None

    def place(self, row: int) -> str:
        """File and line of a row; where objects have no lines of their own, file and row."""
        before = 0
        for block in self._file:
            if not self._file.has_lines:
                break
            lines = block.numbers()
            if row - before < len(lines):
                return f"{self._path}:{lines[row - before]}"
            before += len(lines)
        return f"{self._path}: row {row + 1}"

    def _schema(self) -> pa.Schema:
        first = next(iter(self._file), None)
        if first is None:
            raise InvalidData(f"{self._path}: there is no row, so the columns are not known")
        try:
            found = self._found(first)
        except (pa.ArrowException, ValueError):
            found = self._explained(first, lambda part: self._found_in_texts(part.lines()))
        self._keys = {names.of_json_key(field.name): field.name for field in found}
        if len(self._keys) < len(found):
            raise InvalidData(f"{self._path}: two keys are one column's name: {', '.join(found.names)}")
        fields = []
        for name, field in zip(self._keys, found, strict=True):
            if pa.types.is_nested(field.type):
                self._as_texts.add(name)
                field = pa.field(name, pa.string())
            fields.append(pa.field(name, self._said.get(name, field.type)))
        return pa.schema(fields)

    def _found(self, first: Block) -> pa.Schema:
        """The columns of the first block, as PyArrow sees them, by their keys in the order of the first object."""
        # Numbers and texts alike become decimals.
        decimals = [pa.field(*each) for each in self._said.items() if pa.types.is_decimal(each[1])]
        explicit = pa.schema([each for each in decimals if json.dumps(each.name).encode() in first.data])
        table = _read(first, explicit)
        times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
        if times:
            # PyArrow knows those of whole seconds alone, and has dates as such.
            table = _read(first, pa.schema([*explicit, *((name, pa.string()) for name in times)]))
        rounded = [name for name in table.schema.names if _may_be_rounded(first, table[name])]
        texts = cells_of(first.lines()) if rounded else {}

        def column(name: str) -> pa.Field:
            if name in rounded:
                return texts[name].column(name)
            found = table[name]
            if pa.types.is_string(found.type) and name not in self._said:
                return pa.field(name, time_type(found.combine_chunks()))
            return pa.field(name, found.type)

        keys = dict.fromkeys([*(key for key, *_ in cells(first.lines()[0].decode())), *table.schema.names])
        return pa.schema([column(key) for key in keys])

    def _found_in_texts(self, lines: list[bytes]) -> pa.Schema:
        """The same where values of a key are of several kinds: PyArrow refuses these."""
        return pa.schema([column.column(key) for key, column in cells_of(lines).items()])

    @functools.cached_property
    def _rounded(self) -> set[str]:
        """Keys whose fractions are rounded to floats, since some in the first block have exponents."""
        found = self._found_in_texts(next(iter(self._file)).lines())
        return {field.name for field in found if ROUNDED.items() <= (field.metadata or {}).items()}

    def _parsed(self, block: Block) -> pa.Table:
        return self._explained(block, lambda part: self._columns(part, self.schema))

    def _columns(self, block: Block, schema: pa.Schema) -> pa.Table:
        """The rows of a block in the columns of a schema."""
        by_arrow = [field for field in schema if field.name not in self._as_texts]
        try:
            arrays = self._arrays(block, by_arrow)
        except pa.ArrowInvalid:
            unread = {field.name for field in by_arrow if not self._can_read(block, field)}
            if not unread:
                raise
            self._as_texts |= unread
            return self._columns(block, schema)
        rounded = {name for name, array in arrays.items() if name not in self._said and _may_be_rounded(block, array)}
        from_texts = (self._as_texts & set(schema.names)) | rounded
        texts = self._texts(block) if from_texts else {}
        columns = []
        for field in schema:
            inferred = field.name not in self._said
            if field.name in from_texts:
                rounds = inferred and pa.types.is_floating(field.type) and self._keys[field.name] in self._rounded
                columns.append(texts[field.name].values(field.type, inferred=inferred, rounds=rounds))
            elif pa.types.is_string(arrays[field.name].type):
                columns.append(parse(arrays[field.name], field.type, inferred=False, has_na=False))
            else:
                columns.append(arrays[field.name])
        return pa.table(columns, names=schema.names)

    def _arrays(self, block: Block, fields: Sequence[pa.Field]) -> dict[str, pa.Array]:
        """The columns that PyArrow reads, by name: dates and times as texts, because it does not know all forms."""
        if not fields:
            return {}
        kinds = (pa.types.is_temporal, pa.types.is_binary, pa.types.is_null)
        types = [pa.string() if any(kind(field.type) for kind in kinds) else field.type for field in fields]
        schema = pa.schema([(self._keys[field.name], read_as) for field, read_as in zip(fields, types, strict=True)])
        # Of other keys those that are no columns are found with their texts.
        table = _read(block, schema, "ignore" if self._as_texts else "error")
        arrays = map(_whole, table.columns)
        return dict(zip((field.name for field in fields), arrays, strict=True))

    def _can_read(self, block: Block, field: pa.Field) -> bool:
        as_texts, self._as_texts = self._as_texts, {""}
        try:
            self._arrays(block, [field])
        except pa.ArrowException:
            return False
        finally:
            self._as_texts = as_texts
        return True

    def _texts(self, block: Block) -> dict[str, Cells]:
        """The texts of all columns, by name."""
        lines = block.lines()
        found = cells_of(lines)
        keys = {key: name for name, key in self._keys.items()}
        if unknown := [key for key in found if key not in keys]:
            raise ValueError(f"there is no column {unknown[0]!r}")
        texts = {name: Cells([None] * len(lines)) for name in self._keys if self._keys[name] not in found}
        return texts | {keys[key]: column for key, column in found.items()}

    def _explained(self, block: Block, read: Callable[[Block], T]) -> T:
        """What is read of a block; an error has the line and the column, found by reading less and less of it."""
        try:
            return read(block)
        except (pa.ArrowException, ValueError) as error:
            wrong: Exception = error
        lines, numbers = block.lines(), block.numbers()
        # So many lines are read, and so many are not.
        good, bad = 0, len(lines)
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                read(Block(b"\n".join(lines[:middle]) + b"\n", 1))
                good = middle
            except (pa.ArrowException, ValueError) as error:
                bad, wrong = middle, error
        place = f"{self._path}:{numbers[good]}" if self._file.has_lines else f"{self._path}: row {numbers[good]}"
        raise InvalidData(f"{place}: {self._complaint(lines[good], wrong)}") from None

    def _complaint(self, line: bytes, error: Exception) -> str:
        """What is wrong with an object."""
        try:
            row = json.loads(line)
        except UnicodeDecodeError:
            return f"{shown(line.decode(errors='replace'))} is not UTF-8"
        except ValueError as wrong:
            return f"{shown(line.decode())} is no JSON: {wrong}"
        if not isinstance(row, dict):
            return f"{shown(line.decode())} is no object"
        if self._keys and (unknown := [key for key in row if key not in self._keys.values()]):
            return f"there is no column {unknown[0]!r} in the rows before"
        fields = {self._keys[field.name]: field for field in self.schema}
        for key, text, is_string in cells(line.decode()) if fields else ():
            value = json.dumps(text, ensure_ascii=False) if is_string else text or "null"
            field = fields[key]
            try:
                self._columns(Block(f"{{{json.dumps(key)}: {value}}}\n".encode(), 1), pa.schema([field]))
            except (pa.ArrowException, ValueError):
                what = f"column {field.name!r}: {shown(value)} is no {what_is(field.type)}"
                hint = f", as those before are; schema={{{field.name!r}: ...}} says another type"
                return what if field.name in self._said else what + hint
        return str(error)


def _read(block: Block, schema: pa.Schema, others: str = "infer") -> pa.Table:
    """Reads objects, in the types of a schema; `others` says what of columns that it has not."""
    if not block.data.isascii():
        # PyArrow takes what is not UTF-8.
        block.data.decode()
    options = pa.json.ParseOptions(schema, newlines_in_values=False, unexpected_field_behavior=others)

    def read(part_bytes: int) -> pa.Table:
        return pa.json.read_json(pa.BufferReader(block.data), pa.json.ReadOptions(block_size=part_bytes), options)

    try:
        return read(_PART_BYTES)
    except pa.ArrowInvalid as error:
        if "straddling" not in str(error):
            raise
        return read(len(block.data) + 1)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    # Of a table without rows it has no chunk.
    return pa.array([], array.type) if isinstance(array, pa.ChunkedArray) else array


def _may_be_rounded(block: Block, column: Any) -> bool:
    """Whether there are doubles that may have been numbers which no double is equal to."""
    if not pa.types.is_floating(column.type):
        return False
    is_wide = pc.any(pc.greater_equal(pc.abs(column), _EXACT)).as_py() is True
    return is_wide or block.has_beyond
