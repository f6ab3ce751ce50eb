"""How the types of texts are found: the short ways find what the long one does."""

from __future__ import annotations

import pathlib
import random

import pyarrow as pa
import pytest

import basalt_client as basalt
from basalt_client import _texts as texts

CELLS = [
    *("1", "0", "-5", "007", "+5", "-0", "-01", "0x1F", "9223372036854775808", "18446744073709551616", "9" * 39),
    *("0.5", ".5", "1e5", "0.1234567890123456789", "9007199254740993.5", "inf", "nan", "0.10"),
    *("true", "False", "t", "x", "", " 1", "1 ", "NA", "NULL", r"\N", None),
    *("2024-05-17", "2024-05-17T12:00:00Z", "2024-05-17 12:00", "2024-05-17 12:00:00 UTC", "2024-13-01", "10:30"),
]


def test_what_the_first_texts_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_TRIED", 2)
    chance = random.Random(5)
    for _ in range(3000):
        kinds = chance.sample(CELLS, chance.randint(1, 3))
        array = pa.array([chance.choice(kinds) for _ in range(chance.randint(0, 6))], pa.string())
        for has_na in (True, False):
            wanted = texts._type_of_values(texts._values(array, has_na))
            assert texts.type_of(array, has_na) == wanted, array.to_pylist()


HEADERS = ["n,m", '"n",m', "\ufeffn,m", "\nn,m", "n,m\r", ' n ,"m"', "N,M"]


@pytest.mark.parametrize("header", HEADERS)
def test_headers_of_columns_whose_types_are_known(
    client: basalt.Client, table: str, tmp_path: pathlib.Path, header: str
) -> None:
    """Whether the first block is read for the types or not, the names are the same."""
    client.create(table, {"n": "int64", "m": "utf8"})
    path = tmp_path / "t.csv"
    path.write_bytes(f"{header}\n1,01\n2,02\n".encode())
    client.load(table, path)
    assert client.query(table).collect().rows() == [(1, "01"), (2, "02")]


def test_a_header_alone(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    client.create(table, {"n": "int64", "m": "utf8"})
    path = tmp_path / "t.csv"
    for text in ("n,m", '"n",m', "n,m\n", "n,m\r\n"):
        path.write_text(text)
        assert client.load(table, path).rows == 0
        client.drop(table)
        assert client.load(table, path).rows == 0
        assert client.describe(table).table.schema == pa.schema([("n", pa.string()), ("m", pa.string())])
    for text in ("", "\n", " \n"):
        path.write_text(text)
        with pytest.raises(basalt.BasaltError):
            client.load(table, path)
