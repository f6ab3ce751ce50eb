"""JSON files: lines of one object each, or an array of objects."""

from __future__ import annotations

import io
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from ._csv import BLOCK_BYTES, unreadable
from ._texts import number_type, parse, shown, time_type, what_is
from .errors import InvalidData

# What a thread reads of a block.
_PART_BYTES = 1 << 20
_ARRAY_BYTES = 1 << 20
_SPACES = re.compile(r"[ \t\r\n]*")
# Beyond these floats are not all integers.
_EXACT = float(1 << 53)
_CHANGED = re.compile(r"Column\(/(.*)\) changed from (\w+) to (\w+)")


class Json:
    """A file, whose columns have the types that are said, those that are known, or those of its first block."""

    def __init__(self, path: pathlib.Path, said: Mapping[str, pa.DataType], known: pa.Schema | None) -> None:
        self._path = path
        self._said = said
        self._is_array = False
        # Columns of integers that are written with a point.
        self._doubles: set[str] = set()
        # None is known while they are looked for.
        self.schema = pa.schema([])
        try:
            self.schema = self._schema(known)
        except OSError as error:
            raise unreadable(path, error) from None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        try:
            for block in self._blocks():
                yield from self._parsed(block).to_batches()
        except OSError as error:
            raise unreadable(self._path, error) from None

    def place(self, row: int) -> str:
        """File and line of a row; of an array, file and row."""
        if not self._is_array:
            before = 0
            for block in self._blocks():
                lines = block.numbers()
                if row - before < len(lines):
                    return f"{self._path}:{lines[row - before]}"
                before += len(lines)
        return f"{self._path}: row {row + 1}"

    def _schema(self, known: pa.Schema | None) -> pa.Schema:
        first = next(self._blocks(), None)
        if first is None:
            raise InvalidData(f"{self._path}: there is no row, so the columns are not known")
        # Numbers and texts alike become decimals; other types are looked for, since objects may become texts later.
        decimals = [pa.field(*each) for each in self._said.items() if pa.types.is_decimal(each[1])]
        explicit = pa.schema([each for each in decimals if json.dumps(each.name).encode() in first.data])
        found = self._explained(first, lambda part: _read(part, explicit))
        times = [name for name, each in zip(found.schema.names, found.schema.types, strict=True) if _is_time(each)]
        if times:
            # PyArrow knows those of whole seconds alone, and has dates as such.
            texts = pa.schema([*explicit, *((name, pa.string()) for name in times)])
            found = self._explained(first, lambda part: _read(part, texts))
        names = dict.fromkeys([*json.loads(first.lines()[0]), *found.schema.names])
        return pa.schema([(name, self._type(first, found.column(name), name, known)) for name in names])

    def _type(self, first: _Block, column: Any, name: str, known: pa.Schema | None) -> pa.DataType:
        if known is not None:
            # What several files have may be text, for objects too.
            is_nested = pa.types.is_nested(column.type)
            return column.type if is_nested and name in self._said else known.field(name).type
        if name in self._said:
            return column.type if pa.types.is_nested(column.type) else self._said[name]
        if pa.types.is_string(column.type):
            return time_type(column.combine_chunks())
        return self._number_type(first, name) if _has_wide(column) else column.type

    def _number_type(self, block: _Block, name: str) -> pa.DataType:
        """The type of numbers that are beyond those that a double has exactly, from their texts."""
        values = (json.loads(line, parse_int=str, parse_float=str).get(name) for line in block.lines())
        found = number_type(pa.array([value for value in values if value is not None], pa.string()))
        if pa.types.is_string(found):
            what = f"no type has all of its numbers exactly; schema={{{name!r}: 'float64'}} rounds them"
            raise InvalidData(f"{self._path}: column {name!r}: {what}")
        return found

    def _parsed(self, block: _Block) -> pa.Table:
        return self._explained(block, lambda part: self._columns(part, self.schema))

    def _columns(self, block: _Block, schema: pa.Schema) -> pa.Table:
        try:
            table = _read(block, self._read_as(schema), "error")
        except pa.ArrowInvalid:
            # PyArrow takes no 7.0 for an integer, which pandas writes in columns with nulls.
            integers = [each for each in schema if pa.types.is_integer(each.type) and each.name not in self._doubles]
            doubles = {each.name for each in integers if not _can_read(block, each)}
            if not doubles:
                raise
            self._doubles |= doubles
            table = _read(block, self._read_as(schema), "error")
        columns = []
        for field, column in zip(schema, table.columns, strict=True):
            array = column.combine_chunks()
            if isinstance(array, pa.ChunkedArray):
                # Of a table without rows.
                array = pa.array([], array.type)
            if field.name not in self._said or pa.types.is_integer(field.type):
                _check_wide(block, field.name, array)
            if pa.types.is_string(array.type):
                array = parse(array, field.type, inferred=False, has_na=False)
            elif pa.types.is_integer(field.type):
                array = array.cast(field.type)
            columns.append(array)
        return pa.table(columns, names=schema.names)

    def _read_as(self, schema: pa.Schema) -> pa.Schema:
        """What PyArrow reads columns as: dates and times as texts, because it does not know all of their forms."""
        kinds = (pa.types.is_temporal, pa.types.is_binary, pa.types.is_null)

        def read_as(data_type: pa.DataType, name: str) -> pa.DataType:
            if any(is_such(data_type) for is_such in kinds):
                return pa.string()
            return pa.float64() if name in self._doubles else data_type

        return pa.schema([(field.name, read_as(field.type, field.name)) for field in schema])

    def _explained(self, block: _Block, read: Callable[[_Block], pa.Table]) -> pa.Table:
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
                read(_Block(b"\n".join(lines[:middle]) + b"\n", 1))
                good = middle
            except (pa.ArrowException, ValueError) as error:
                bad, wrong = middle, error
        place = f"{self._path}: row {numbers[good]}" if self._is_array else f"{self._path}:{numbers[good]}"
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
        if len(self.schema) > 0 and (unknown := [name for name in row if name not in self.schema.names]):
            return f"there is no column {unknown[0]!r} in the rows before"
        for field in self.schema or [pa.field(*each) for each in self._said.items() if pa.types.is_decimal(each[1])]:
            if field.name not in row:
                continue
            value = json.dumps(row[field.name], ensure_ascii=False)
            try:
                self._columns(_Block(f"{{{json.dumps(field.name)}: {value}}}\n".encode(), 1), pa.schema([field]))
            except (pa.ArrowException, ValueError):
                what = f"column {field.name!r}: {shown(value)} is no {what_is(field.type)}"
                hint = f", as those before are; schema={{{field.name!r}: ...}} says another type"
                return what if field.name in self._said else what + hint
        if changed := _CHANGED.search(str(error)):
            name, before, now = changed.groups()
            return f"column {name!r}: a {now} where rows before have a {before}"
        return str(error)

    def _blocks(self) -> Iterator[_Block]:
        """The file, some lines at a time."""
        with pa.input_stream(str(self._path), compression="detect") as stream:
            file = io.BufferedReader(stream, 1 << 16)
            begin = file.peek(3)
            if begin.startswith(b"\xef\xbb\xbf"):
                file.read(3)
            begin = file.peek(1).lstrip()
            if begin[:1] == b"[" and not _has_lines(begin):
                self._is_array = True
                yield from _array(file, self._path)
            else:
                yield from _lines(file, self._path, begin[:1] == b"[")


def _lines(file: io.BufferedReader, path: pathlib.Path, is_array: bool) -> Iterator[_Block]:
    """Lines, whose commas at the end are left out where they are an array's."""
    number = 1
    if is_array:
        while b"[" not in file.readline():
            number += 1
        number += 1
    while data := file.read(BLOCK_BYTES):
        data += file.readline()
        if is_array:
            data = data.replace(b"},\n", b"}\n").replace(b"},\r\n", b"}\n")
            if not file.peek(1):
                if not data.rstrip().endswith(b"]"):
                    raise InvalidData(f"{path}: the array has no end")
                data = data.rstrip()[:-1]
        if not data.isspace() and data:
            yield _Block(data, number)
        number += data.count(b"\n")


def _has_lines(begin: bytes) -> bool:
    """Whether an array has a line for each of its objects, as `basalt query` writes it."""
    lines = begin.split(b"\n", 2)
    try:
        return lines[0].strip() == b"[" and isinstance(json.loads(lines[1].strip().removesuffix(b",")), dict)
    except (ValueError, IndexError):
        return False


class _Block:
    """Lines, each an object or empty, and the number of the first."""

    def __init__(self, data: bytes, first: int) -> None:
        self.data = data
        self.first = first

    def lines(self) -> list[bytes]:
        """Those that are not empty."""
        return [line for line in self.data.split(b"\n") if line.strip()]

    def numbers(self) -> list[int]:
        """Their numbers."""
        return [number for number, line in enumerate(self.data.split(b"\n"), self.first) if line.strip()]


def _array(file: io.BufferedReader, path: pathlib.Path) -> Iterator[_Block]:
    """The objects of an array as lines."""
    decoder = json.JSONDecoder()
    text = io.TextIOWrapper(file, "utf-8")
    row = 1
    lines: list[str] = []
    size = 0

    def wrong(what: str) -> InvalidData:
        return InvalidData(f"{path}: row {row + len(lines)}: {what}")

    try:
        rest = text.read(_ARRAY_BYTES)
        at = _SPACES.match(rest).end() + 1  # type: ignore[union-attr]
        separated = True
        while True:
            at = _SPACES.match(rest, at).end()  # type: ignore[union-attr]
            if at < len(rest) and rest[at] == "]" and (separated is False or row + len(lines) == 1):
                break
            if not separated and at < len(rest):
                if rest[at] != ",":
                    raise wrong(f"{shown(rest[at:])} where a comma or the end of the array is due")
                separated, at = True, at + 1
                continue
            try:
                if at == len(rest):
                    raise ValueError("the array has no end")
                _, end = decoder.raw_decode(rest, at)
            except ValueError as error:
                more = text.read(max(_ARRAY_BYTES, len(rest) - at))
                if not more:
                    raise wrong(str(error)) from None
                rest, at = rest[at:] + more, 0
                continue
            # A line break in an object stands between its values.
            line = rest[at:end].replace("\n", " ").replace("\r", " ")
            lines.append(line)
            size += len(line)
            at, separated = end, False
            if size >= BLOCK_BYTES:
                yield _Block(("\n".join(lines) + "\n").encode(), row)
                row += len(lines)
                lines, size = [], 0
        behind = rest[at + 1 :] + text.read()
        if behind.strip():
            raise wrong(f"{shown(behind.strip())} behind the array")
    except UnicodeDecodeError:
        raise wrong("it is not UTF-8, or the rows behind it are not") from None
    if lines:
        yield _Block(("\n".join(lines) + "\n").encode(), row)


def _read(block: _Block, schema: pa.Schema, others: str = "infer") -> pa.Table:
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


def _can_read(block: _Block, field: pa.Field) -> bool:
    try:
        _read(block, pa.schema([field]), "ignore")
    except pa.ArrowException:
        return False
    return True


def _is_time(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(data_type))


def _has_wide(column: Any) -> bool:
    """Whether there are doubles that may have been integers which no double is equal to."""
    if not pa.types.is_floating(column.type):
        return False
    return pc.any(pc.greater_equal(pc.abs(column), _EXACT)).as_py() is True


def _check_wide(block: _Block, name: str, array: pa.Array) -> None:
    """Raises an error where an integer was rounded to a double."""
    if not _has_wide(array):
        return
    for line in block.lines():
        value = json.loads(line).get(name)
        if isinstance(value, int) and int(float(value)) != value:
            raise ValueError("an integer that no float is equal to")
