"""Names of columns, as files have them and as tables have them: by the rules of `basalt load`.

A name stays as it is, spaces and points and all, but for those around it. One that is empty is that of its position,
`column3`; one that another column has already, whatever its case, gets a number: `a`, then `a_2`. Characters that
control a terminal become `_`. Where the columns are known, a header that is none of them and would be one with `_` for
what no identifier has is that one: `two words` goes to `two_words`. So is the only one that differs in the case of
letters, where one header does.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Collection, Sequence


def of_headers(headers: Sequence[str], known: Collection[str]) -> list[str]:
    """The names of the columns of a CSV, in the order of its headers."""
    headers = [header.strip() for header in headers]
    names: list[str] = []
    taken: set[str] = set()
    for position, header in enumerate(headers, 1):
        name = _without_controls(header) or f"column{position}"
        name = _known(name, headers, known, names) or name
        if name in names or (name not in known and name.lower() in taken):
            numbered = (f"{name}_{number}" for number in itertools.count(2))
            name = next(each for each in numbered if each.lower() not in taken)
        taken.add(name.lower())
        names.append(name)
    return names


def of_rows(names: Sequence[str], known: Collection[str]) -> list[str]:
    """The names of the columns of rows in memory: those of a table, where they are it but for case and the like."""
    found: list[str] = []
    for name in names:
        found.append(_known(name, names, known, found) or name)
    return found


def of_json_key(key: str) -> str:
    """The name of the column of a key, which has no position."""
    return _without_controls(key) or "_"


def _known(name: str, headers: Sequence[str], known: Collection[str], before: Collection[str]) -> str | None:
    """Which column of those that are known a name is; `before` are already."""
    free = [each for each in known if each not in before]
    if name in free:
        return name
    if _identifier(name) in free:
        return _identifier(name)
    lower = _lower(name)
    alike = [each for each in known if _lower(each) == lower]
    is_alone = sum(_lower(header) == lower for header in headers) == 1
    return alike[0] if len(alike) == 1 and is_alone and alike[0] in free else None


def _lower(name: str) -> str:
    return _identifier(name).lower()


def _identifier(name: str) -> str:
    plain = "".join(c if c.isalnum() else "_" for c in name)
    return f"_{plain}" if plain[:1].isnumeric() else plain


def _without_controls(name: str) -> str:
    return "".join("_" if unicodedata.category(c) == "Cc" else c for c in name)
