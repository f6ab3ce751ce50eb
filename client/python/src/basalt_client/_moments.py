"""Timestamps as texts: with zones and without, which are UTC then."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from . import _types as types

# Values that are tried before all.
_TRIED = 64

# The forms that make a column one of timestamps; what is read where it is one already may also lack the seconds.
FORMS = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9]{2}:[0-9]{2}"
    r"(?::[0-9]{2}(?:\.[0-9]+)?(?:[Zz]| ?[+-][0-9]{2}(?::?[0-9]{2})?| ?[A-Za-z]{3,}[0-9A-Za-z_+/-]*)?)?)?$"
)
# Behind a time of day: the end of 2013-07-04 is none.
_ZONE = r":[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"
_NAMED_ZONE = r"^(?P<at>.*:[0-9]{2}(?:\.[0-9]+)?) ?(?P<zone>[A-Za-z]{3,}[0-9A-Za-z_+/-]*)$"
_FINER = r"(:[0-9]{2}\.[0-9]{6})[0-9]+"
# How else what Arrow knows is written, and as what it knows it.
_SPELLINGS = [
    (r"^([0-9-]{10})t", r"\1T"),
    (r"(:[0-9]{2}(?:\.[0-9]+)?)(?:z| ?(?:UTC|GMT))$", r"\1Z"),
    (r"(:[0-9]{2}(?:\.[0-9]+)?) ([+-][0-9:]+)$", r"\1\2"),
]


def parse_moments(texts: pa.Array) -> pa.Array:
    """The timestamps that texts are, or a `ValueError`; what is finer than a microsecond is cut."""
    for form in (pa.timestamp("us"), types.TIMESTAMP):
        try:
            texts.slice(0, _TRIED).cast(form)
            return texts.cast(form).view(types.TIMESTAMP)
        except pa.ArrowException:
            pass
    texts = to_microseconds(texts)
    for pattern, as_known in _SPELLINGS:
        texts = pc.replace_substring_regex(texts, pattern, as_known)
    named = pc.match_substring_regex(texts, _NAMED_ZONE)
    has_zone = pc.match_substring_regex(texts, _ZONE)
    zoned = null_where(pc.invert(has_zone), texts).cast(types.TIMESTAMP)
    plain = null_where(pc.or_(has_zone, named), texts).cast(pa.timestamp("us")).view(types.TIMESTAMP)
    found = pc.coalesce(zoned, plain)
    return _with_named_zones(found, texts, named) if pc.any(named).as_py() else found


def _with_named_zones(found: pa.Array, texts: pa.Array, named: pa.Array) -> pa.Array:
    """Adds those in zones such as Europe/Berlin. What a clock there shows twice, or never, is an error."""
    parts = pc.extract_regex(null_where(pc.invert(named), texts), _NAMED_ZONE)
    moments, zones = (pc.struct_field(parts, name) for name in ("at", "zone"))
    moments = moments.cast(pa.timestamp("us"))
    for zone in pc.unique(zones).drop_null():
        here = pc.if_else(pc.equal(zones, zone), moments, pa.scalar(None, moments.type))
        found = pc.coalesce(found, pc.assume_timezone(here, zone.as_py()).cast(types.TIMESTAMP))
    return found


def to_microseconds(texts: pa.Array) -> pa.Array:
    """Times without the digits of a second behind the sixth."""
    return pc.replace_substring_regex(texts, _FINER, r"\1")


def null_where(mask: Any, texts: pa.Array) -> pa.Array:
    """Texts without those that a mask names."""
    if texts.offset > 0:
        # PyArrow 18 goes wrong here with a part of an array.
        texts = texts.take(pa.array(range(len(texts))))
    return pc.if_else(mask, pa.scalar(None, pa.string()), texts)
