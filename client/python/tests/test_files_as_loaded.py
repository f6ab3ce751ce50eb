"""CSV and JSON as `basalt load` takes them: files, names and types are the same here and there."""

import datetime as dt
import gzip
import json
import pathlib
import random
import struct
import subprocess
from decimal import Decimal

import pandas
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest
from test_files import NOON, UTC, loaded, written

import basalt_client as basalt
from basalt_client import _types as types

# Name and content of a file.
FILES = {
    "long decimals": ("t.csv", "a,b\n12345678901234567890.123,x\n1.5,y\n"),
    "a long fraction": ("t.csv", "a\n0.12345678901234567890\n.5\n5.\n"),
    "too many digits": ("t.csv", f"a\n{'1' * 30}.{'2' * 20}\n"),
    "a float in its fewest digits": ("t.csv", "a\n0.30000000000000004\n"),
    "a float in more digits": ("t.csv", "a\n0.10000000000000001\n"),
    "long beside an exponent": ("t.csv", "a\n12345678901234567890.123\n1e3\n"),
    "a name that is empty": ("t.csv", ",b,\n0,2,3\n"),
    "names that are twice there": ("t.csv", "a,a,A\n1,2,3\n"),
    "names with spaces": ("t.csv", " a , b b ,c\n1,2,3\n"),
    "names with signs of control": ("t.csv", '"a\nb",c\n1,2\n'),
    "tabs": ("t.tsv", "a\tb\n1\t2,5\n"),
    "one column of a tsv": ("t.tsv", "a\nhello, world\nx, y\n"),
    "tabs, packed": ("t.tsv.gz", gzip.compress(b"a\tb\n1\t2\n")),
    "t and f": ("t.csv", "a\nt\nf\n"),
    "a plus sign": ("t.csv", "a\n+5\n3\n"),
    "infinities": ("t.csv", "a\n+inf\n1.5\n"),
    "zones of UTC": ("t.csv", "a\n2024-05-17T12:00:00Z\n2024-05-17 12:00:00+00:00\n2024-05-17 12:00:00 UTC\n"),
    "zones": ("t.csv", "a\n2024-05-17t12:00:00z\n2024-05-17 12:00:00 +0200\n2024-05-17 12:00:00.5 Europe/Berlin\n"),
    "an hour that is there twice": ("t.csv", "a\n2024-10-27 02:30:00 Europe/Berlin\n"),
    "a timestamp without seconds": ("t.csv", "a\n2024-05-17T12:00Z\n"),
    "strings and numbers": ("t.jsonl", '{"a": 1}\n{"a": "x"}\n'),
    "a string that looks like a number": ("t.jsonl", '{"a": "1"}\n{"a": 2}\n'),
    "all kinds": ("t.jsonl", '{"a": 1}\n{"a": true}\n{"a": [1, 2]}\n{"a": {"x":  1.50, "y": "a b"}}\n{"a": null}\n'),
    "numbers and bools": ("t.jsonl", '{"a": 1, "b": 1.5}\n{"a": false, "b": 2}\n'),
    "nested values": ("t.jsonl", '{"a": {"b": 1.50, "c": "ü"}}\n{"a": {"d": []}}\n'),
    "long decimals of JSON": ("t.jsonl", '{"a": 12345678901234567890.123}\n{"a": 7}\n'),
    "numbers of no type": ("t.jsonl", '{"a": 9007199254740993}\n{"a": 1e3}\n'),
    "a key that is empty": ("t.jsonl", '{"": 1}\n'),
    "objects of several lines": ("t.json", '{\n "a": 1\n}\n{\n "a": 2\n}\n'),
    "objects in one line": ("t.json", '{"a": 1} {"a": 2}'),
}


@pytest.mark.parametrize("what", FILES)
def test_new_tables_are_those_of_the_command_line(
    client: basalt.Client, address: str, binary: str, table: str, tmp_path: pathlib.Path, what: str
) -> None:
    path = written(tmp_path, *FILES[what])
    found = loaded(client, table, path)
    names = client.query(table).collect().schema.names
    client.drop(table)
    command = [binary, "--server", address, "load", table, str(path)]
    subprocess.run(command, check=True, capture_output=True)
    answer = client.query(table).collect()
    # What fits in 32 bits is there, and is 64 bits wide here.
    kinds = [types.type_name(each).replace("int32", "int64") for each in answer.schema.types]
    assert (names, *found) == (answer.schema.names, kinds, answer.rows())


@pytest.mark.parametrize(
    ("name", "content", "column", "values"),
    [
        ("t.csv", "a\nt\nF\nTRUE\n0\n", pa.bool_(), [True, False, True, False]),
        ("t.csv", "a\n+5\n3\n", pa.int64(), [5, 3]),
        ("t.csv", "a\n+5\n3\n", pa.uint8(), [5, 3]),
        ("t.csv", "a\n+5.50\n-3\n", pa.decimal128(9, 2), [Decimal("5.50"), Decimal(-3)]),
        ("t.csv", "a\n+5.5\n+inf\n", pa.float64(), [5.5, float("inf")]),
        ("t.csv", "a\n\\x00ff\n00ff\n", pa.binary(), [b"\x00\xff"] * 2),
        ("t.csv", "a\n2024-05-17 12:00:00 UTC\n2024-05-17T12:00Z\n2024-05-17\n", types.TIMESTAMP, None),
        ("t.jsonl", '{"a": 5}\n{"a": [1, 2]}\n{"a": "x"}\n{"a": true}\n', pa.string(), ["5", "[1,2]", "x", "true"]),
        ("t.jsonl", '{"a": "5"}\n{"a": 5}\n{"a": 7.0}\n', pa.int64(), [5, 5, 7]),
        ("t.jsonl", '{"a": "true"}\n{"a": 1}\n{"a": false}\n', pa.bool_(), [True, True, False]),
        (
            "t.jsonl",
            '{"a": 5}\n{"a": "5.50"}\n{"a": 0.25}\n',
            pa.decimal128(9, 2),
            list(map(Decimal, (5, "5.5", "0.25"))),
        ),
    ],
)
def test_tables_that_are_there(
    client: basalt.Client,
    table: str,
    tmp_path: pathlib.Path,
    name: str,
    content: str,
    column: pa.DataType,
    values: list[object] | None,
) -> None:
    client.create(table, pa.schema([("a", column)]))
    client.load(table, written(tmp_path, name, content))
    found = [row[0] for row in client.query(table).collect().rows()]
    assert found == (values or [NOON, NOON, dt.datetime(2024, 5, 17, tzinfo=UTC)])


def test_decimals_behind_those_that_decide(
    client: basalt.Client, table: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number is rounded unasked, and where exponents make a column one of floats, all are."""
    for name in ("_csv", "_json_blocks"):
        monkeypatch.setattr(f"basalt_client.{name}.BLOCK_BYTES", 1024)
    late = "0.12345678901234567890"
    for name, row in (("t.csv", "{}\n"), ("t.jsonl", '{{"a": {}}}\n')):
        header = "a\n" if name == "t.csv" else ""
        lines = [row.format("0.5")] * 3000 + [row.format(late)]
        with pytest.raises(basalt.InvalidData, match=rf"{name}:300[12]: column 'a': '0\.1234.* as those before are"):
            loaded(client, table, written(tmp_path, name, header + "".join(lines)))
        lines[0] = row.format("1e3")
        assert loaded(client, table, written(tmp_path, name, header + "".join(lines)))[1][-1] == (float(late),)
        for first, then in (("1", "+5"), ("0.5", "+5.5"), ("true", "t")):
            if name == "t.csv":
                lines = [first + "\n"] * 3000 + [then + "\n"]
                with pytest.raises(basalt.InvalidData, match=r"t\.csv:3002: column 'a'"):
                    loaded(client, table, written(tmp_path, name, header + "".join(lines)))
    # Values of several kinds are text from the first on alone.
    lines = ['{"n": "x", "m": 1}\n'] * 3000
    path = written(tmp_path, "t.jsonl", "".join([*lines, '{"n": [1], "m": 2}\n']))
    assert loaded(client, table, path)[1][-1] == ("[1]", 2)
    path = written(tmp_path, "t.jsonl", "".join([*lines, '{"n": [1], "m": 2, "late": 1}\n']))
    with pytest.raises(basalt.InvalidData, match=r"t\.jsonl:3001: there is no column 'late'"):
        loaded(client, table, path)


def test_names_are_those_of_the_table(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    client.create(table, pa.schema([("id", pa.int64()), ("two_words", pa.string())]))
    columns = {"ID": [1], "Two Words": ["x"]}
    rows = [written(tmp_path, "t.csv", "ID, Two Words\n1,x\n"), columns, pa.table(columns)]
    for data in (*rows, pandas.DataFrame(columns), polars.DataFrame(columns)):
        client.load(table, data)
        client.load(table, data, key_columns="id")
    assert client.query(table).collect().rows() == [(1, "x")]
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    for data in (
        {"ID": [1], "id": [2]},
        {"nope": [1]},
        tmp_path / "t.parquet",
        written(tmp_path, "t.jsonl", json.dumps({"ID": 1})),
        written(tmp_path, "t.csv", "ID,Id\n1,2\n"),
    ):
        with pytest.raises(basalt.ColumnNotFound, match=r"and table '.*' has id, two_words") as caught:
            client.load(table, data)
        assert caught.value.reason == "COLUMN_NOT_FOUND"


def test_types_of_several_files(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    def found(*contents: str, kind: str = "csv") -> tuple[list[str], list[tuple]]:
        for path in tmp_path.iterdir():
            path.unlink()
        for number, content in enumerate(contents):
            written(tmp_path, f"{number}.{kind}", content)
        return loaded(client, table, tmp_path)

    assert found("a\n12345678901234567890.5\n", "a\n7\n")[0] == ["decimal(38,1)"]
    # A float would round the decimal.
    assert found("a\n12345678901234567890.5\n", "a\n0.25\n") == (["utf8"], [("12345678901234567890.5",), ("0.25",)])
    assert found("a\n2024-05-17\n", "a\n2024-05-17 12:00\n")[0] == ["timestamp"]
    assert found("a\n0.12345678901234567890\n1e3\n", "a\n0.5\n")[0] == ["float64"]
    assert found('{"a": 1}', '{"a": "x", "b": 2}', '{"b": 3}', kind="jsonl") == (
        ["utf8", "int64"],
        [("1", None), ("x", 2), (None, 3)],
    )
    values = {"1": pa.array([Decimal("1.50")], pa.decimal128(20, 2)), "2": pa.array([0.25])}
    for path in tmp_path.iterdir():
        path.unlink()
    for name, column in values.items():
        pyarrow.parquet.write_table(pa.table({"a": column}), tmp_path / f"{name}.parquet")
    with pytest.warns(UserWarning, match=r"column 'a' is text: in .*2\.parquet it is double, before it was decimal"):
        assert loaded(client, table, tmp_path / "*.parquet") == (["utf8"], [("1.50",), ("0.25",)])


def test_values_as_texts(client: basalt.Client, address: str, binary: str, table: str, tmp_path: pathlib.Path) -> None:
    """In a column of texts: those of the command line, digit by digit."""
    random.seed(7)
    doubles = [struct.unpack("d", struct.pack("Q", random.getrandbits(64)))[0] for _ in range(500)]
    singles = [struct.unpack("f", struct.pack("I", random.getrandbits(32)))[0] for _ in range(506)]
    doubles += [0.0, -0.0, 1.0, 1e15, 1e16, 1e-5, 1e-6, 123.25, float("nan"), float("-inf")]
    moments = [NOON, NOON.replace(microsecond=500_000), dt.datetime(1, 1, 1, microsecond=5, tzinfo=UTC), None]

    def column(values: list[object], kind: pa.DataType | None = None) -> pa.Array:
        return pa.array([*values, *[None] * (510 - len(values))], kind)

    rows = pa.table(
        {
            "doubles": column(doubles),
            "singles": column(singles, pa.float32()),
            "integers": column([1, -5]),
            "decimals": column([Decimal("1.50"), Decimal("-0.05")]),
            "bools": column([True, False]),
            "days": column([dt.date(2024, 5, 17), dt.date(1, 1, 1)]),
            "moments": column(moments),
            "nanoseconds": column([0, 1, 1500, -1], pa.timestamp("ns")),
            "times": column([dt.time(10, 30), dt.time(10, 30, 0, 5), dt.time(1, 2, 3, 500_000)]),
            "bytes": column([b"\x00\xff", b""]),
        }
    )
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(rows, path)
    client.create(table, {name: "utf8" for name in rows.column_names})
    subprocess.run([binary, "--server", address, "load", table, str(path)], check=True, capture_output=True)
    client.load(table, path)
    client.load(table, rows)
    found = client.query(table).collect().rows()
    assert found[:510] == found[510:1020] == found[1020:]


def test_times_of_96_bits(client: basalt.Client, address: str, binary: str, table: str, tmp_path: pathlib.Path) -> None:
    """Those of Spark and Impala: nanoseconds of 64 bits hold the years 1678 to 2262 alone."""
    moments = [dt.datetime(year, 12, 31, 23, 59, 59, 999_999) for year in (1, 1600, 1677, 1969, 2024, 2262, 9999)]
    rows = pa.table({"n": range(len(moments)), "at": pa.array(moments, pa.timestamp("us"))})
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(rows, path, use_deprecated_int96_timestamps=True)
    expected = [moment.replace(tzinfo=UTC) for moment in moments]
    assert [at for _, at in sorted(loaded(client, table, path)[1])] == expected
    # One of several files, too.
    pyarrow.parquet.write_table(rows, tmp_path / "u.parquet")
    assert [at for _, at in sorted(loaded(client, table, tmp_path)[1])] == sorted(expected * 2)
    client.drop(table)
    subprocess.run([binary, "--server", address, "load", table, str(path)], check=True, capture_output=True)
    assert [at for _, at in sorted(client.query(table).collect().rows())] == expected


def test_decimals_beside_floats(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    """In files of one column: each decimal is the nearest float, and not the next one."""
    random.seed(7)
    values = [Decimal(random.randrange(10**15)).scaleb(-scale) for scale in (1, 3, 9, 15) for _ in range(500)]
    columns: dict[str, list[pa.Array]] = {"1": [], "2": []}
    for scale in range(4):
        columns["1"].append(pa.array(values[scale * 500 :][:500], pa.decimal128(15, (1, 3, 9, 15)[scale])))
        columns["2"].append(pa.array([0.1 + 0.2], pa.float64()))
    for name, arrays in columns.items():
        pyarrow.parquet.write_table(pa.table(arrays, list("abcd")), tmp_path / f"{name}.parquet")
    kinds, rows = loaded(client, table, tmp_path)
    assert kinds == ["float64"] * 4
    assert [row[scale] for scale in range(4) for row in rows[:500]] == list(map(float, values))
    assert rows[500] == (0.1 + 0.2,) * 4
