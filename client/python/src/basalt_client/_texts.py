"""Texts as values: which type the texts of a column have, and what they are in it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from . import _moments as moments
from . import _types as types

# In columns that are no text they stand for null, where nothing else is said: all but the first in quotes, without
# which they are null everywhere.
NULLS_BUT_TEXT = ("NA", "", "NULL", r"\N")

# Numbers as people write them: 007 is a code, whose zeros are part of it.
_NUMBER = r"^-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_NO_NUMBER = r"(?i)^[+-]?(?:nan|inf|infinity)$"
_WHOLE = r"^-?[0-9]+$"
_PLAIN = r"^-?[0-9]*\.?[0-9]*$"
_ZEROS = r"^-?0[0-9xX]"
_BOOL = r"(?i)^(?:true|false)$"
_TIME = r"^[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?$"
# Words for what is true, and for what is not, in a column that is known to be of such values.
_BOOLS = (["true", "t", "1"], ["false", "f", "0"])

# Beyond these floats are not all integers.
_EXACT = 1 << 53
_EXACT_DIGITS = len(str(_EXACT))
# So many digits are those of one float.
_FLOAT_DIGITS = sys.float_info.dig
# Values that are tried before all.
_TRIED = 64


# Of a field: a column of floats in which fractions are rounded, since others have exponents.
ROUNDED = {b"basalt.rounded": b"true"}


def field_of(name: str, texts: pa.Array, has_na: bool) -> pa.Field:
    """A column of the type that its texts have; `has_na` as for `parse`."""
    found = type_of(texts, has_na)
    is_rounded = pa.types.is_floating(found) and not are_plain(_values(texts, has_na))
    return pa.field(name, found, metadata=ROUNDED if is_rounded else None)


def _values(texts: pa.Array, has_na: bool) -> pa.Array:
    """The texts that are not null, without spaces around them."""
    values = texts.drop_null()
    if has_na:
        values = values.filter(pc.invert(_is_null_but_text(values)))
    return pc.ascii_trim_whitespace(values)


def type_of(texts: pa.Array, has_na: bool) -> pa.DataType:
    """The type that all of the texts have; that of nulls where there is no value. `has_na`: as for `parse`."""
    first = _values(texts.slice(0, _TRIED), has_na)
    # What is text for some of the values is text for all of them; but for infinity, which is a number beside numbers.
    if len(first) > 0 and pa.types.is_string(_type_of_values(first)) and not _any_match(first, _NO_NUMBER):
        return pa.string()
    # Most columns have values alone, without spaces around them.
    present = texts.drop_null()
    if len(present) > 0 and _are(present, pa.int64()):
        return _type_of_integers(present)
    return _type_of_values(_values(texts, has_na))


def _type_of_values(values: pa.Array) -> pa.DataType:
    if len(values) == 0:
        return pa.null()
    if _are(values, pa.int64()):
        return _type_of_integers(values)
    if _are(values, pa.float64()):
        return number_type(values)
    if _all_match(values, _BOOL):
        return pa.bool_()
    return time_type(values)


def _type_of_integers(values: pa.Array) -> pa.DataType:
    """Text, where a zero or a plus sign is part of one."""
    is_other = pc.any(pc.starts_with(values, "+")).as_py() or _have_zeros(values, _ZEROS)
    return pa.string() if is_other else pa.int64()


def time_type(texts: pa.Array) -> pa.DataType:
    """The type of texts that are all dates, or timestamps, or times of day; else text."""
    if texts.null_count == len(texts):
        return pa.string()
    found = next((each for each in (pa.date32(), types.TIMESTAMP, types.TIME) if _are(texts, each)), pa.string())
    is_other = found == types.TIMESTAMP and not _all_match(texts, moments.FORMS)
    return pa.string() if is_other else found


def number_type(numbers: pa.Array) -> pa.DataType:
    """The type that holds every digit of numbers that are not all an int64; text where there is none."""
    is_number = pc.match_substring_regex(numbers, _NUMBER)
    if (
        not pc.any(is_number).as_py()
        or not pc.all(pc.or_(is_number, pc.match_substring_regex(numbers, _NO_NUMBER))).as_py()
    ):
        return pa.string()
    is_whole = pc.match_substring_regex(numbers, _WHOLE)
    if pc.all(is_whole).as_py():
        return pa.uint64() if _are(numbers, pa.uint64()) else _decimal(numbers)
    if not are_plain(numbers):
        return pa.string() if _has_wide(numbers.filter(is_whole)) else pa.float64()
    # A number that no float holds, and a fraction that no integer does.
    is_beyond = _has_wide(numbers.filter(is_whole)) or has_beyond(numbers, numbers.cast(pa.float64()))
    return _decimal(numbers) if is_beyond else pa.float64()


def are_plain(numbers: pa.Array) -> bool:
    """Whether all have digits and points alone: where one has an exponent, others are rounded to floats as well."""
    return _all_match(numbers, _PLAIN)


def parse(texts: pa.Array, to: pa.DataType, *, inferred: bool, has_na: bool, rounds: bool = False) -> pa.Array:
    """The values of texts, with spaces around them or without, or a `ValueError`.

    Args:
        texts: What is null stays it.
        to: A type of a table. Of nulls: there was no value yet, so texts stay.
        inferred: The type comes from other texts. So a value that would not be the same text again is an error:
            leading zeros, a plus sign, and numbers that the float rounds.
        has_na: Whether `NA` is null, and in quotes what is null without them.
        rounds: Whether fractions are rounded to an inferred float, as where others have exponents.
    """
    if pa.types.is_string(to) or pa.types.is_null(to):
        return texts
    if has_na:
        empty = pc.equal(texts, "")
        is_null = _is_null_but_text(texts)
        # No bytes are bytes.
        texts = moments.null_where(pc.and_not(is_null, empty) if pa.types.is_binary(to) else is_null, texts)
    try:
        return _parse(texts, to, inferred, rounds)
    except (pa.ArrowException, ValueError):
        # Only now, because hardly any file has spaces there.
        return _parse(pc.ascii_trim_whitespace(texts), to, inferred, rounds)


def _is_null_but_text(texts: pa.Array) -> pa.Array:
    return pc.is_in(texts, pa.array(NULLS_BUT_TEXT))


def first_bad(array: pa.Array, convert: Callable[[pa.Array], Any]) -> int:
    """Where the first value is that is not converted, in an array that is not converted as a whole."""
    start, end = 0, len(array)
    while end - start > 1:
        middle = (start + end) // 2
        try:
            convert(array.slice(start, middle - start))
            start = middle
        except (pa.ArrowException, ValueError):
            end = middle
    return start


def shown(text: str) -> str:
    """The beginning of a text, in quotes."""
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def what_is(to: pa.DataType) -> str:
    """A type, with an example where its form is not known to everybody."""
    examples = {
        pa.date32(): " like 2013-07-04",
        types.TIMESTAMP: " like 2013-07-04T10:00:00Z",
        types.TIME: " like 10:30:00",
        pa.binary(): ", two hexadecimal digits for each byte",
    }
    return types.type_name(to) + examples.get(to, "")


def _parse(texts: pa.Array, to: pa.DataType, inferred: bool, rounds: bool) -> pa.Array:
    if pa.types.is_integer(to) or pa.types.is_decimal(to):
        texts = _without_plus(texts, inferred)
        _check_zeros(texts, inferred)
        return texts.cast(to)
    if pa.types.is_floating(to):
        return _floats(_without_plus(texts, inferred), to, inferred and not rounds, inferred)
    if pa.types.is_boolean(to):
        return _bools(texts, inferred)
    if pa.types.is_timestamp(to):
        return moments.parse_moments(texts)
    if pa.types.is_time(to):
        if not _all_match(texts, _TIME):
            raise ValueError("no time of day")
        times = pc.binary_join_element_wise("1970-01-01 ", moments.to_microseconds(texts), "")
        return times.cast(pa.timestamp("us")).cast(to)
    if pa.types.is_binary(to):
        digits = (None if text is None else text.removeprefix(r"\x") for text in texts.to_pylist())
        return pa.array([None if each is None else bytes.fromhex(each) for each in digits], to)
    return texts.cast(to)


def _without_plus(texts: pa.Array, inferred: bool) -> pa.Array:
    """Numbers without a plus sign, which Arrow takes before some of them alone."""
    if not pc.any(pc.starts_with(texts, "+")).as_py():
        return texts
    if inferred and not _all_match(texts.filter(pc.starts_with(texts, "+")), _NO_NUMBER):
        raise ValueError("a sign that is part of it")
    return pc.replace_substring_regex(texts, r"^\+([0-9.])", r"\1")


def _bools(texts: pa.Array, inferred: bool) -> pa.Array:
    words = pc.ascii_lower(texts)
    yes, no = (pc.is_in(words, pa.array(each[:1] if inferred else each)) for each in _BOOLS)
    if pc.all(pc.or_(pc.or_(yes, no), pc.is_null(texts))).as_py() is False:
        raise ValueError("no bool")
    return pc.if_else(pc.is_valid(texts), yes, pa.scalar(None, pa.bool_()))


def _check_zeros(texts: pa.Array, inferred: bool) -> None:
    """Arrow reads 0x1F as 31, and 007 as 7: the first is no number, the second one where the column is declared so."""
    if _have_zeros(texts, _ZEROS if inferred else "^-?0[xX]"):
        raise ValueError("zeros that are part of it")


def _have_zeros(texts: pa.Array, pattern: str) -> bool:
    """Whether one of the texts that begin with a zero matches."""
    # Most numbers begin with another digit, and a regular expression takes longer.
    begins = pc.or_(pc.starts_with(texts, "0"), pc.starts_with(texts, "-0"))
    if not pc.any(begins).as_py():
        return False
    zeros = texts.filter(begins)
    zeros = zeros.filter(pc.and_(pc.greater(pc.binary_length(zeros), 1), pc.invert(pc.starts_with(zeros, "0."))))
    return len(zeros) > 0 and _any_match(zeros, pattern)


def _floats(texts: pa.Array, to: pa.DataType, exact: bool, inferred: bool) -> pa.Array:
    _check_zeros(texts, inferred)
    values = texts.cast(to)
    size = pc.abs(values)
    infinite = pc.is_inf(values)
    if pc.any(infinite).as_py() and not _all_match(texts.filter(infinite), _NO_NUMBER):
        raise ValueError("a number that is too large")
    if inferred and pc.any(pc.greater_equal(size, float(_EXACT))).as_py():
        large = texts.filter(pc.greater_equal(size, float(_EXACT)))
        if _has_wide(large.filter(pc.match_substring_regex(large, _WHOLE))):
            raise ValueError("an integer that no float is equal to")
    if exact and has_beyond(texts, values):
        raise ValueError("a number with more digits than a float has")
    return values


def has_beyond(texts: pa.Array, values: pa.Array) -> bool:
    """Whether a fraction is none of those that floats are written as."""
    is_long = pc.greater(pc.binary_length(texts), _FLOAT_DIGITS + 1)
    if not pc.any(is_long).as_py():
        return False
    long = texts.filter(is_long)
    # Most are a float in its fewest digits.
    rest = long.filter(pc.not_equal(values.filter(is_long).cast(pa.string()), long))
    return any(map(_is_beyond, rest.to_pylist()))


def _is_beyond(text: str) -> bool:
    """Whether no float is written so: neither in its fewest digits, nor in as many as these."""
    before, point, behind = text.removeprefix("-").partition(".")
    # So few digits are those of one float, and what has other signs is no plain number.
    if not point or len(before) + len(behind) <= _FLOAT_DIGITS or not (before + behind).isdecimal():
        return False
    number, exact = float(text), Decimal(text)
    return Decimal(repr(number)) != exact and Decimal(f"{number:.{len(behind)}f}") != exact


def _decimal(numbers: pa.Array) -> pa.DataType:
    """The decimal that holds every number, if it has not too many digits; else text."""
    digits = pc.replace_substring_regex(numbers, "^-", "")
    behind = pc.binary_length(pc.replace_substring_regex(digits, r"^[0-9]*\.?", ""))
    before = pc.binary_length(pc.replace_substring_regex(digits, r"\..*$", ""))
    scale = pc.max(pc.if_else(pc.match_substring(digits, "."), behind, 0)).as_py()
    if pc.max(before).as_py() + scale > types.MAX_DECIMAL_DIGITS:
        return pa.string()
    return pa.decimal128(types.MAX_DECIMAL_DIGITS, scale)


def _has_wide(whole: pa.Array) -> bool:
    """Whether an integer is beyond those that are all floats."""
    long = whole.filter(pc.greater_equal(pc.binary_length(whole), _EXACT_DIGITS))
    return any(abs(int(text)) > _EXACT for text in long.to_pylist())


def _are(values: pa.Array, to: pa.DataType) -> bool:
    try:
        # Arrow goes on behind the first value that is none, which takes long where all are.
        _parse(values.slice(0, _TRIED), to, False, False)
        _parse(values, to, False, False)
    except (pa.ArrowException, ValueError):
        return False
    return True


def _any_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _all_match(texts: pa.Array, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False
