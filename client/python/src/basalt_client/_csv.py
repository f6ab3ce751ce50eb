"""CSV files: their delimiter, the types of their columns, their rows, and where in them something is wrong."""

from __future__ import annotations

import contextlib
import copy
import csv
import io
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.csv

from . import _names as names
from . import _quotes as quotes
from ._texts import ROUNDED, field_of, first_bad, parse, shown, what_is
from .errors import InvalidData

# Those of `basalt load`: in columns of text NA is a text.
_NULLS = ("", "NULL", r"\N")
# How much of a file of text decides the types of its columns.
BLOCK_BYTES = 16 << 20
# What is looked at for the delimiter and the header.
_SAMPLE_BYTES = 1 << 18
_SAMPLE_ROWS = 100
_DELIMITERS = ",;\t|"
# Rows that are checked at once where one of them is wrong.
_CHECKED_ROWS = 1 << 15


@dataclass(frozen=True)
class Reading:
    """How files of text are read, where that is said."""

    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Those of columns, by name; others are found."""
    delimiter: str | None = None
    """Of a CSV; `None`: the one that is found."""
    nulls: Sequence[str] | None = None
    """What is null in a CSV; `None`: the empty cell, `NULL`, `\\N`, and `NA` in columns that are no text. In quotes
    these are texts, where the column is text."""
    known: Sequence[str] = ()
    """Names of columns, which those of a CSV may be but for case."""


class Csv:
    """A file, whose columns have the types that are said, or those of its first block."""

    def __init__(self, path: pathlib.Path, reading: Reading) -> None:
        self._path = path
        self._known = reading.known
        self._nulls = _NULLS if reading.nulls is None else tuple(reading.nulls)
        self._has_na = reading.nulls is None
        try:
            with self._bytes() as stream:
                sample = stream.read(_SAMPLE_BYTES)
        except OSError as error:
            raise unreadable(path, error) from None
        ending = "\t" if any(each.lower() == ".tsv" for each in path.suffixes[-2:]) else ","
        self._delimiter = reading.delimiter or _delimiter(sample, ending)
        self._headers = _header(sample, self._delimiter)
        # PyArrow wants an end of the line behind a header, and what follows may be nothing.
        self._alone = sample + b"\n" if _is_header_alone(sample, self._delimiter) else None
        if any("\ufffd" in name for name in self._headers) and "\ufffd".encode() not in sample:
            raise InvalidData(f"{path}:1: the names of the columns are not UTF-8")
        self._names = names.of_headers(self._headers, self._known)
        # None is known while they are looked for.
        self.schema = pa.schema([])
        self.schema = self._schema(reading.types, sample)
        self._inferred = [name not in reading.types for name in self._names]

    def with_types(self, known: pa.Schema) -> Csv:
        """The same file in the types that several files have together, where none is said."""
        other = copy.copy(self)
        pairs = zip(self.schema, self._inferred, strict=True)
        other.schema = pa.schema([known.field(each.name) if is_inferred else each for each, is_inferred in pairs])
        return other

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        with self._explained(), self._open() as reader:
            for batch in reader:
                yield self._parsed(batch)
            self._check_quotes()

    def _check_quotes(self) -> None:
        """Raises an error where a quote neither begins nor ends a field, or is never closed."""
        with self._bytes() as stream:
            wrong = quotes.first_wrong(stream, self._delimiter)
        if wrong is not None:
            with self._bytes() as stream:
                line = quotes.line_of(stream, wrong[0])
            raise InvalidData(f"{self._path}:{line}: {wrong[1]}") from None

    def _bytes(self) -> Any:
        return pa.input_stream(str(self._path), compression="detect")

    def place(self, row: int) -> str:
        """File and line of a row."""
        with contextlib.suppress(OSError, ValueError, csv.Error):
            for number, (line, _) in enumerate(self._rows()):
                if number == row:
                    return f"{self._path}:{line}"
        return f"{self._path}: row {row + 1}"

    def _schema(self, said: Mapping[str, pa.DataType], sample: bytes) -> pa.Schema:
        if said.keys() >= set(self._names) and _has_plain_header(sample):
            # There is nothing to look for, and to read a block takes long where there are many files.
            return pa.schema([(name, said[name]) for name in self._names])
        with self._explained(), self._open(ahead=False) as reader:
            if reader.schema.names == self._headers:
                return self._typed(reader, said)
        # A header that is longer than what was looked at.
        self._headers = reader.schema.names
        self._names = names.of_headers(self._headers, self._known)
        with self._explained(), self._open(ahead=False) as reader:
            return self._typed(reader, said)

    def _typed(self, reader: Any, said: Mapping[str, pa.DataType]) -> pa.Schema:
        def field_in(column: int, name: str) -> pa.Field:
            if name in said:
                return pa.field(name, said[name])
            return pa.field(name, pa.null()) if first is None else field_of(name, first.column(column), self._has_na)

        first = None if said.keys() >= set(self._names) else next(iter(reader), None)
        return pa.schema([field_in(column, name) for column, name in enumerate(self._names)])

    def _open(self, *, ahead: bool = True) -> Any:
        """Reads texts: PyArrow's own types have 01234 as a number, and a double for what is longer than an int64.

        `ahead`: also those behind the block that is asked for, in other threads.
        """
        return pa.csv.open_csv(
            self._bytes() if self._alone is None else io.BytesIO(self._alone),
            # A line break in quotes is part of a value, also where a block ends.
            # Of one column an empty line is a row, whose value is null.
            parse_options=pa.csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, ignore_empty_lines=len(self._names) > 1
            ),
            read_options=pa.csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=ahead),
            convert_options=pa.csv.ConvertOptions(
                null_values=list(self._nulls),
                strings_can_be_null=True,
                # A text in quotes is one: an empty one, too. Where nulls are said, quotes make no difference.
                quoted_strings_can_be_null=not self._has_na,
                column_types=dict.fromkeys(self._headers, pa.string()),
            ),
        )

    def _parsed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [self._values(column, texts) for column, texts in enumerate(batch.columns)]
        return pa.RecordBatch.from_arrays(columns, self.schema.names)

    def _values(self, column: int, texts: pa.Array) -> pa.Array:
        """The values of a column's texts."""
        each = self.schema.field(column)
        rounds = ROUNDED.items() <= (each.metadata or {}).items()
        return parse(texts, each.type, inferred=self._inferred[column], has_na=self._has_na, rounds=rounds)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors with the line and the column: found by reading the file once more, slowly."""
        try:
            yield
        except (pa.ArrowException, ValueError) as error:
            complaint = None
            with contextlib.suppress(OSError, csv.Error):
                # What is behind such a quote is wrong because of it.
                self._check_quotes()
                complaint = self._complaint()
            if complaint is None and "straddling" in str(error):
                complaint = f"{self._path}: a quote is left open, or a row has more than {BLOCK_BYTES:,} bytes"
            raise InvalidData(complaint or f"{self._path}: {error}") from None
        except OSError as error:
            raise unreadable(self._path, error) from None

    def _complaint(self) -> str | None:
        """What is wrong with the first row that is."""
        lines: list[int] = []
        rows: list[list[str]] = []
        for line, row in self._rows():
            if len(row) != len(self._names):
                wrong = f"{self._path}:{line}: {len(row)} fields, not {len(self._names)}"
                return self._wrong_cell(lines, rows) or wrong
            lines.append(line)
            rows.append(row)
            if len(rows) == _CHECKED_ROWS:
                if found := self._wrong_cell(lines, rows):
                    return found
                lines, rows = [], []
        return self._wrong_cell(lines, rows)

    def _wrong_cell(self, lines: list[int], rows: list[list[str]]) -> str | None:
        """The first cell of some rows that is none of its column's type."""
        cells = ([row[column] for row in rows] for column in range(len(self._names)))
        wrong = [
            (at, column, what) for column, (at, what) in enumerate(map(self._wrong, range(len(self._names)), cells))
        ]
        found = min((each for each in wrong if each[2]), default=None)
        if found is None:
            return None
        at, column, what = found
        return f"{self._path}:{lines[at]}: column {self._names[column]!r}: {what}"

    def _wrong(self, column: int, cells: list[str]) -> tuple[int, str]:
        """Where the first cell is that is not of the column's type, and why; nothing where there is none."""
        at = next((at for at, cell in enumerate(cells) if not _is_utf8(cell)), None)
        if at is not None:
            cells, rest = cells[:at], cells[at].encode(errors="surrogateescape").decode(errors="replace")
        texts = pa.array([None if cell in self._nulls else cell for cell in cells], pa.string())
        # There are no types while they are looked for.
        is_known = len(self.schema) > 0
        to = self.schema.field(column).type if is_known else pa.string()
        inferred = is_known and self._inferred[column]

        def check(part: pa.Array) -> None:
            if is_known:
                self._values(column, part)

        try:
            check(texts)
        except (pa.ArrowException, ValueError):
            bad = first_bad(texts, check)
            what = f"{shown(cells[bad])} is no {what_is(to)}"
            name = self._names[column]
            return (
                bad,
                f"{what}, as those before are; schema={{{name!r}: 'utf8'}} says another type" if inferred else what,
            )
        return (0, "") if at is None else (at, f"{shown(rest)} is not UTF-8")

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows behind the header as texts, with the lines where they begin."""
        with self._bytes() as stream:
            text = io.TextIOWrapper(io.BufferedReader(stream), "utf-8-sig", "surrogateescape", newline="")
            reader = csv.reader(text, delimiter=self._delimiter)
            is_header, end = True, 0
            for row in reader:
                line, end = end + 1, reader.line_num
                if not is_header and (row or len(self._names) == 1):
                    yield line, row or [""]
                is_header = is_header and not row


def unreadable(path: pathlib.Path, error: OSError) -> Exception:
    """What PyArrow says of a file, such as one that is compressed and cut, with its name."""
    return error if error.errno is not None else InvalidData(f"{path}: {error}")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _header(sample: bytes, delimiter: str) -> list[str]:
    text = sample.decode("utf-8-sig", "replace")
    with contextlib.suppress(csv.Error):
        return next((row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row), [])
    return []


def _is_header_alone(sample: bytes, delimiter: str) -> bool:
    """Whether a file is one line without an end."""
    if len(sample) == _SAMPLE_BYTES or not sample or sample[-1:] in (b"\r", b"\n"):
        return False
    rows = csv.reader(io.StringIO(sample.decode("latin-1"), newline=""), delimiter=delimiter)
    with contextlib.suppress(csv.Error):
        return sum(1 for row in rows if row) == 1
    return False


def _has_plain_header(sample: bytes) -> bool:
    """Whether a file begins with a whole line without quotes, in which nobody sees other names than `_header` does."""
    header = re.match(rb'(?:\xef\xbb\xbf)?[^\r\n"\0]+[\r\n]', sample)
    return header is not None and not header[0].isspace()


def _delimiter(sample: bytes, ending: str) -> str:
    """The one by which most of the first rows have as many fields as the first, if those are more than one.

    Among equals it is the one that makes more fields, then the one of the file's ending, as in `basalt load`.
    """

    def score(delimiter: str) -> tuple[int, int, bool]:
        counts: list[int] = []
        with contextlib.suppress(csv.Error):
            for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
                if row:
                    counts.append(len(row))
                if len(counts) == _SAMPLE_ROWS:
                    break
        if len(sample) == _SAMPLE_BYTES and 1 < len(counts) < _SAMPLE_ROWS:
            # The last of them may be cut.
            counts.pop()
        if not counts or counts[0] == 1:
            return (0, 0, delimiter == ending)
        return (counts.count(counts[0]) * 1000 // len(counts), counts[0], delimiter == ending)

    # Each byte a character: what the bytes are counts for nothing here.
    text = sample.decode("latin-1")
    return max(_DELIMITERS, key=score)
