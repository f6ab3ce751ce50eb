"""Conditions in SQL within a statement: errors are of the condition, which alone a person wrote."""

from __future__ import annotations

import re

from .errors import BasaltError, InvalidRequest, Place

# Texts, names, comments and signs that count; what stands in the first ones does not.
_PARTS = re.compile(
    r"""(?<![\w$])[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$
    | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/
    | (?P<sign>[();])""",
    re.DOTALL | re.VERBOSE,
)
_END = "the end of the condition"
_PLACE = re.compile(r"line (\d+), column (\d+)")


def deletion(table: str, condition: str) -> str:
    """The statement that deletes rows: the condition has lines of its own, since it may end with a comment.

    Raises:
        InvalidRequest: It is more than a condition.
    """
    _check(condition)
    name = table.replace('"', '""')
    return f'DELETE FROM "{name}" WHERE (\n{condition}\n)'


def _check(condition: str) -> None:
    """Raises an error where parentheses would end before the condition does."""
    if where := re.match(r"\s*(?=where\b)", condition, re.IGNORECASE):
        raise _wrong("a condition begins behind WHERE, which is none of it", condition, where.end())
    depth = 0
    for part in _PARTS.finditer(condition):
        sign = part["sign"]
        depth += {"(": 1, ")": -1}.get(sign or "", 0)
        if depth < 0:
            raise _wrong("a ) has no (", condition, part.start())
        if sign == ";":
            raise _wrong("expected one condition, found ;", condition, part.start())


def _wrong(message: str, condition: str, at: int) -> InvalidRequest:
    before = condition[:at].split("\n")
    place = _place(condition, len(before), len(before[-1]) + 1)
    return InvalidRequest(message, reason="INVALID_QUERY", places=(Place(place, message),))


def of_condition(error: BasaltError, condition: str) -> BasaltError:
    """What the server says of the statement, as it is of the condition."""
    places = {place.field: _own_place(place.field, condition) for place in error.places}
    for field, own in places.items():
        error.message = error.message.replace(f" (at {field})", "")
        if own == _END:
            # It ends at a ) that nobody wrote.
            error.message = re.sub(r", found (?:\)|EOF)$", f", found {_END}", error.message)
        else:
            error.message = re.sub(r"^expected \), found", f"expected {_END}, found", error.message)
    error.places = tuple(Place(places[place.field], place.description) for place in error.places)
    return error


def _own_place(field: str, condition: str) -> str:
    """Where something is, by where it is in the statement, whose second line the condition begins."""
    parts = _PLACE.fullmatch(field)
    if parts is None:
        return field
    line = int(parts[1]) - 1
    if line == 0:
        return "table"
    return _END if line > condition.count("\n") + 1 else _place(condition, line, int(parts[2]))


def _place(condition: str, line: int, column: int) -> str:
    """Where something is: a condition mostly is one line, which nobody counts."""
    lines = f"line {line}, " if "\n" in condition else ""
    return f"{lines}column {column} of the condition"
