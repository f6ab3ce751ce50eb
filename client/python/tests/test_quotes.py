"""The quotes of a CSV, which PyArrow does not check."""

import gzip
import io
import pathlib
import random
import subprocess

import pytest
from test_files import loaded, written

import basalt_client as basalt
from basalt_client import _quotes as quotes


def first_wrong(text: str) -> tuple[int, str] | None:
    """What is wrong, sign by sign."""
    at, opened = 0, -1
    begins = True
    while at < len(text):
        sign = text[at]
        if opened < 0:
            opened = at if sign == '"' and begins else -1
            begins = sign in ",\r\n"
        elif sign == '"':
            behind = text[at + 1 : at + 2]
            if behind == '"':
                at += 1
            elif behind and behind not in ",\r\n":
                return at, "stands behind"
            else:
                opened = -1
        at += 1
    return None if opened < 0 else (opened, "left open")


def test_they_are_those_of_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(7)
    for _ in range(20_000):
        text = "".join(random.choices('"",\nx', k=random.randrange(16)))
        # Blocks end anywhere.
        monkeypatch.setattr(quotes, "_BLOCK_BYTES", random.randrange(1, 8))
        expected, found = first_wrong(text), quotes.first_wrong(io.BytesIO(text.encode()), ",")
        assert (expected is None) == (found is None), text
        if expected and found:
            assert expected[0] == found[0], text
            assert expected[1] in found[1], text


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('a,b\n1,"x\n2,y\n3,"z"\n4,w\n', """t.csv:4: 'z"' stands behind the quote that closes the field"""),
        ('a,b\r\n1,ok\r\n2,"x"y\r\n3,z\r\n', "t.csv:3: 'y' stands behind the quote that closes the field"),
        ('a,b\n1,2\n"x"y,3\n', "t.csv:3: 'y' stands behind"),
        ('"a" ,b\n1,2\n', "t.csv:1: ' ' stands behind"),
        ('a,b\n1,"x\n2,"y\n3,"z\n', "t.csv:3: 'y' stands behind"),
        ('a,b\n1,"x\n2,y\n', "t.csv:2: a quote is left open"),
        ('a,b\n1,x\n2,"y""\n3,z\n', "t.csv:3: a quote is left open"),
    ],
)
def test_rows_are_not_swallowed(
    client: basalt.Client,
    address: str,
    binary: str,
    table: str,
    tmp_path: pathlib.Path,
    content: str,
    message: str,
    bom: str,
) -> None:
    path = written(tmp_path, "t.csv", bom + content)
    packed = written(tmp_path, "t.csv.gz", gzip.compress((bom + content).encode()))
    command = [binary, "--server", address, "load", table, str(path)]
    assert subprocess.run(command, capture_output=True).returncode != 0
    for data in (path, packed):
        with pytest.raises(basalt.InvalidData) as caught:
            client.load(table, data, schema={"a": "utf8", "b": "utf8"} if content.startswith("a") else None)
        assert message.replace("t.csv", data.name) in str(caught.value)
    with pytest.raises(basalt.TableNotFound):
        client.describe(table)


def test_quotes_that_are_none(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    """Within a field without them, they are signs as any other, and two within one with them are one."""
    path = written(tmp_path, "t.csv", 'a,b\n5" pipe,x"\n"6""",""""\n"two\nlines","a, ""b"""\n"", ""x"')
    assert loaded(client, table, path)[1] == [
        ('5" pipe', 'x"'),
        ('6"', '"'),
        ("two\nlines", 'a, "b"'),
        ("", ' ""x"'),
    ]
