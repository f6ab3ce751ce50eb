"""Values of JSON as the texts that they have in a file, digits and all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ._texts import field_of, parse, time_type

_SPACES = re.compile(r"[ \t\r\n]*")
_STRING_OR_SPACES = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')
# What pandas writes of integers in a column that has nulls.
_WHOLE_WITH_POINT = r"^(-?[0-9]+)\.0+$"


def _is_no_json(name: str) -> str:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_is_no_json)


@dataclass
class Cells:
    """The values of one key in some objects."""

    texts: list[str | None] = field(default_factory=list)
    """What strings say, other values as they are written, but for spaces; `None`: null, or not there."""
    strings: int = 0
    """How many are strings."""
    others: int = 0
    """How many are numbers, bools, arrays and objects."""

    def column(self, name: str) -> pa.Field:
        """The column that they are: strings are no numbers, whatever they say, and what is mixed is text."""
        texts = pa.array(self.texts, pa.string())
        if self.strings and self.others:
            return pa.field(name, pa.string())
        return pa.field(name, time_type(texts)) if self.strings else field_of(name, texts, has_na=False)

    def values(self, to: pa.DataType, *, inferred: bool, rounds: bool) -> pa.Array:
        """The values in a column's type, or a `ValueError`; `inferred` and `rounds` as for `parse`."""
        texts = pa.array(self.texts, pa.string())
        if pa.types.is_null(to):
            return texts
        is_number = pa.types.is_integer(to) or pa.types.is_floating(to) or pa.types.is_decimal(to)
        if inferred and self.strings and (is_number or pa.types.is_boolean(to)):
            raise ValueError("a string")
        if pa.types.is_integer(to):
            texts = pa.compute.replace_substring_regex(texts, _WHOLE_WITH_POINT, r"\1")
        return parse(texts, to, inferred=inferred, has_na=False, rounds=rounds)


def cells_of(lines: Sequence[bytes]) -> dict[str, Cells]:
    """The values of the keys of objects, a line each, in the order in which the keys come; or a `ValueError`."""
    found: dict[str, Cells] = {}
    for row, line in enumerate(lines):
        for key, text, is_string in cells(line.decode()):
            column = found.get(key)
            if column is None:
                column = found[key] = Cells([None] * row)
            if len(column.texts) > row:
                raise ValueError(f"key {key!r} stands twice")
            column.texts.extend([None] * (row - len(column.texts)))
            column.texts.append(text)
            column.strings += is_string
            column.others += text is not None and not is_string
    for column in found.values():
        column.texts.extend([None] * (len(lines) - len(column.texts)))
    return found


def cells(line: str) -> Iterator[tuple[str, str | None, bool]]:
    """The keys of an object and their values as texts, and whether these are strings; or a `ValueError`."""
    at = _skip(line, 0)
    if line[at : at + 1] != "{":
        raise ValueError("no object")
    at = _skip(line, at + 1)
    is_first = True
    while line[at : at + 1] != "}":
        if not is_first:
            at = _skip(line, _take(line, at, ","))
        is_first = False
        if line[at : at + 1] != '"':
            raise json.JSONDecodeError("a key is due", line, at)
        key, at = _DECODER.raw_decode(line, at)
        at = _skip(line, _take(line, _skip(line, at), ":"))
        value, end = _DECODER.raw_decode(line, at)
        raw = line[at:end]
        if raw[0] == '"':
            yield key, value, True
        elif raw[0] in "[{":
            yield key, _STRING_OR_SPACES.sub(lambda part: part[1] or "", raw), False
        else:
            yield key, None if value is None else raw, False
        at = _skip(line, end)
    if _skip(line, at + 1) < len(line):
        raise json.JSONDecodeError("something behind the object", line, at + 1)


def _skip(line: str, at: int) -> int:
    """Where the spaces end."""
    return _SPACES.match(line, at).end()  # type: ignore[union-attr]


def _take(line: str, at: int, sign: str) -> int:
    if line[at : at + 1] != sign:
        raise json.JSONDecodeError(f"a {sign!r} is due", line, at)
    return at + 1
