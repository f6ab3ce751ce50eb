"""CSV and JSON: no value is changed, and what is wrong has its file, its line and its column."""

import datetime as dt
import gzip
import json
import pathlib
from decimal import Decimal

import pandas
import pyarrow as pa
import pyarrow.parquet
import pytest

import basalt_client as basalt
from basalt_client import _types as types

UTC = dt.timezone.utc
NOON = dt.datetime(2024, 5, 17, 12, tzinfo=UTC)


def written(folder: pathlib.Path, name: str, content: str | bytes) -> pathlib.Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def loaded(client: basalt.Client, table: str, data: object, **options: object) -> tuple[list[str], list[tuple]]:
    """The types and the rows of a new table."""
    client.drop(table, if_exists=True)
    client.load(table, data, **options)
    answer = client.query(table).collect()
    return [types.type_name(each) for each in answer.schema.types], answer.rows()


@pytest.mark.parametrize(
    ("cells", "name", "values"),
    [
        # As `basalt load` has them, but for int64, which it makes int32 where all fit.
        (["1", "-2", "NA"], "int64", [1, -2, None]),
        (["1", "18446744073709551615"], "uint64", [1, (1 << 64) - 1]),
        (["-1", "18446744073709551615"], "decimal(38,0)", [Decimal(-1), Decimal((1 << 64) - 1)]),
        (["9" * 39, "1"], "utf8", ["9" * 39, "1"]),
        (["01234", "5"], "utf8", ["01234", "5"]),
        (["-07", "5"], "utf8", ["-07", "5"]),
        (["00.5", "5"], "utf8", ["00.5", "5"]),
        (["0x1F", "5"], "utf8", ["0x1F", "5"]),
        (["+5"], "utf8", ["+5"]),
        (["0", "0.5", "1e3", ".5", "NA"], "float64", [0, 0.5, 1000, 0.5, None]),
        (["9007199254740993", "0.25"], "decimal(38,2)", [Decimal(9007199254740993), Decimal("0.25")]),
        (["9007199254740993", "1e3"], "utf8", ["9007199254740993", "1e3"]),
        (["9007199254740992", "0.25"], "float64", [9007199254740992, 0.25]),
        (["1e999"], "utf8", ["1e999"]),
        (["NaN"], "utf8", ["NaN"]),
        ([" 7", "8 "], "int64", [7, 8]),
        (["true", "FALSE"], "bool", [True, False]),
        (["true", "1"], "utf8", ["true", "1"]),
        (["2013-07-04"], "date32", [dt.date(2013, 7, 4)]),
        (["2013-02-30"], "utf8", ["2013-02-30"]),
        (["2024-05-17T12:00:00Z", "2024-05-17 14:00:00.0000009+02:00", "2024-05-17 12:00"], "timestamp", [NOON] * 3),
        (["10:30", "23:59:59.5"], "time", [dt.time(10, 30), dt.time(23, 59, 59, 500_000)]),
        (["10:30", "24:00"], "utf8", ["10:30", "24:00"]),
        (["NA", "x"], "utf8", ["NA", "x"]),
        (["NA", "NULL"], "utf8", ["NA", None]),
    ],
)
def test_types_of_a_csv(
    client: basalt.Client, table: str, tmp_path: pathlib.Path, cells: list[str], name: str, values: list[object]
) -> None:
    path = written(tmp_path, "t.csv", "".join(f"{line}\n" for line in ["a,b", *(f"{cell},x" for cell in cells)]))
    found, rows = loaded(client, table, path)
    assert (found[0], [row[0] for row in rows]) == (name, values)


def test_values_behind_those_that_decide(
    client: basalt.Client, table: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are never changed into the type that the column has by then."""
    monkeypatch.setattr("basalt_client._csv.BLOCK_BYTES", 1024)
    monkeypatch.setattr("basalt_client._json_blocks.BLOCK_BYTES", 1024)
    for first, late in [("1", "01234"), ("1", "0.5"), ("0.5", "9007199254740993"), ("0.5", "007"), ("2024-05-17", "x")]:
        path = written(tmp_path, "late.csv", "n,m\n" + f"{first},x\n" * 3000 + f'1,"two\nlines"\n{late},x\n')
        if first == "2024-05-17":
            path.write_text(path.read_text().replace('\n1,"', f'\n{first},"'))
        with pytest.raises(basalt.InvalidData, match=rf"late\.csv:3004: column 'n': '{late}' is no .*schema="):
            loaded(client, table, path)
        assert loaded(client, table, path, schema={"n": "utf8"})[1][-1][0] == late
    for first, late in [("1", '"x"'), ("1", "0.5"), ("0.5", "9007199254740993"), ("1", "18446744073709551615")]:
        path = written(tmp_path, "late.jsonl", f'{{"n": {first}}}\n' * 3000 + f'\n{{"n": {late}}}\n')
        with pytest.raises(basalt.InvalidData, match=rf"late\.jsonl:3002: column 'n': '{late}' is no .*schema="):
            loaded(client, table, path)
    with pytest.raises(basalt.InvalidData, match=r"late\.jsonl:2001: there is no column 'm' in the rows before"):
        loaded(client, table, written(tmp_path, "late.jsonl", '{"n": 1}\n' * 2000 + '{"n": 1, "m": 2}\n'))


@pytest.mark.parametrize("levels", [127, 1000, 200_000])
def test_rows_nest_only_so_deep(client: basalt.Client, table: str, tmp_path: pathlib.Path, levels: int) -> None:
    """Whatever reads them goes down with each level."""
    # What stands in a text opens and closes nothing.
    deep = f'{{"text": "]]]]}}}}", "a": {"[" * levels}{"]" * levels}}}'
    flat = f'{{"text": "[[[[", "a": [{"[1]," * 200}1]}}'
    for text, place in [
        (f"{flat}\n{deep}\n", ":2"),
        (f"{deep}\n{flat}\n", ":1"),
        (f"[{flat}, {deep}]", ": row 2"),
        (f"[\n{flat},\n{deep}\n]", ":3"),
        (f'{{\n"text": "x", "a": 1}}\n{deep}', ": row 2"),
    ]:
        path = written(tmp_path, "t.json", text)
        if levels == 127:
            assert len(loaded(client, table, path)[1]) == 2
            continue
        with pytest.raises(basalt.InvalidData, match=rf"t\.json{place}: the row nests deeper than 128 levels"):
            loaded(client, table, path)


def test_an_empty_line_of_one_column_is_a_row(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    path = written(tmp_path, "one.csv", "x\n1\n\n3\n")
    assert loaded(client, table, path) == (["int64"], [(1,), (None,), (3,)])
    two = written(tmp_path, "two.csv", "x,y\n1,2\n\n3,4\n")
    assert loaded(client, table, two)[1] == [(1, 2), (3, 4)]


def test_delimiters_and_nulls(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    for text in ("a;b\n1,5;2\n", "a\tb\n1,5\t2\n", 'a|b\n"1,5"|2\n', 'a,b\n"1,5",2\n', "\ufeffa;b\n1,5;2\n"):
        assert loaded(client, table, written(tmp_path, "t.csv", text)) == (["utf8", "int64"], [("1,5", 2)])
    path = written(tmp_path, "t.csv", "a:b;c\n1:2;3\n")
    assert loaded(client, table, path, delimiter=":") == (["int64", "utf8"], [(1, "2;3")])
    path = written(tmp_path, "t.csv", "a,b\n-,NA\n2,\n")
    assert loaded(client, table, path, nulls=["-"]) == (["int64", "utf8"], [(None, "NA"), (2, "")])
    # In quotes what is null is a text, where the column is text.
    path = written(tmp_path, "t.csv", 'a,b,c\n"","",""\n,,\n"1","NULL",x\n')
    assert loaded(client, table, path) == (
        ["int64", "utf8", "utf8"],
        [(None, "", ""), (None, None, None), (1, "NULL", "x")],
    )
    assert loaded(client, table, path, nulls=[""])[1] == [(None, None, None), (None, None, None), (1, "NULL", "x")]
    path = written(tmp_path, "t.csv", 'a,b\n"",00\n,""\nff,\n')
    assert loaded(client, table, path, schema={"a": "binary", "b": "binary"})[1] == [
        (b"", b"\0"),
        (None, b""),
        (b"\xff", None),
    ]
    for options in ({"delimiter": "::"}, {"delimiter": "→"}):
        with pytest.raises(ValueError, match="one character"):
            client.load(table, path, **options)
    with pytest.raises(TypeError, match="list of texts"):
        client.load(table, path, nulls="-")
    with pytest.raises(TypeError, match="CSV files"):
        client.load(table, {"a": [1]}, delimiter=";")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "a,b\n1,ok\n2,caf\xe9\n".encode("latin-1"), r"t\.csv:3: column 'b': 'caf\ufffd' is not UTF-8"),
        ("t.csv", "a,\xe9\n1,ok\n".encode("latin-1"), r"t\.csv:1: .* not UTF-8"),
        ("t.csv", 'a,b\n1,"x\ny"\n\n2,x,y\n', r"t\.csv:5: 3 fields, not 2"),
        ("t.csv", 'a,b\n1,"x\n2,y\n', r"t\.csv:2: a quote is left open"),
        ("t.csv.gz", gzip.compress(b"a,b\n" + bytes(range(48, 58)) * 1000)[:-10], r"t\.csv\.gz: "),
        ("t.jsonl", '{"a": 1}\n\n{"a": 1, "a": 2}\n', r"t\.jsonl:3: .*'?a'? .*twice"),
        ("t.jsonl", '{"a": "x"} {"b": 1,}\n', r"t\.jsonl: row 2: "),
        ("t.jsonl", '{"": 1, "_": 2}\n', r"t\.jsonl: two keys are one column's name"),
        ("t.jsonl", '{"a": 1}\n{"a":\n', r"t\.jsonl:2: .* is no JSON"),
        ("t.jsonl", '{"a": 1}\n5\n', r"t\.jsonl:2: '5' is no object"),
        ("t.jsonl", '{"a": "caf\xe9"}\n'.encode("latin-1"), r"t\.jsonl:1: .* is not UTF-8"),
        ("t.jsonl", "\n", r"t\.jsonl: there is no row"),
        ("t.json", "[]", r"t\.json: there is no row"),
        ("t.json", '[{"a": 1}, {"a": }]', r"t\.json: row 2: "),
        ("t.json", '[{"a": 1}, {"a": 2}', r"t\.json: row 3: the array has no end"),
        ("t.json", '[\n{"a": 1},\n{"a": 2}\n', r"t\.json: the array has no end"),
        ("t.json", '[{"a": 1},]', r"t\.json: row 2: "),
        ("t.json", '[{"a": 1} {"a": 2}]', r"t\.json: row 2: .* where a comma"),
        ("t.json", '[{"a": 1}] x', r"t\.json: row 2: 'x' behind the array"),
    ],
)
def test_what_cannot_be_read_is_named(
    client: basalt.Client, table: str, tmp_path: pathlib.Path, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(basalt.InvalidData, match=message):
        client.load(table, written(tmp_path, name, content))
    with pytest.raises(basalt.TableNotFound):
        client.describe(table)


ALL = pa.schema(
    [
        ("price", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("at", types.TIMESTAMP),
        ("time", types.TIME),
        ("text", pa.string()),
        ("small", pa.int8()),
        ("large", pa.uint64()),
        ("half", pa.float32()),
        ("bytes", pa.binary()),
    ]
)
ROW = (
    Decimal("12.34"),
    dt.date(2024, 5, 17),
    NOON,
    dt.time(10, 30),
    "007",
    7,
    (1 << 64) - 1,
    0.5,
    b"\x00\xff",
)


def test_a_path_of_nothing(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    """It is not the ending that is wrong."""
    for name in ("missing", "missing.csv", "missing.parquet", "missing/t.csv"):
        with pytest.raises(FileNotFoundError, match=rf"no file or folder .*{name}"):
            client.load(table, tmp_path / name)


def test_texts_are_read_as_the_table_has_them(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    client.create(table, ALL)
    header = ",".join(ALL.names)
    cells = "12.34,2024-05-17,2024-05-17 12:00,10:30,007,007,18446744073709551615,0.5,00ff"
    client.load(table, written(tmp_path, "t.csv", f"{header}\n{cells}\n"))
    row = {
        "price": 12.34,
        "day": "2024-05-17",
        "at": "2024-05-17T12:00:00Z",
        "time": "10:30",
        "text": "007",
        "small": 7.0,
        "large": (1 << 64) - 1,
        "half": 0.5,
        "bytes": "00ff",
    }
    client.load(table, written(tmp_path, "t.jsonl", json.dumps(row) + "\n"))
    client.load(table, written(tmp_path, "t.json", json.dumps([row | {"price": "12.34"}], indent=2)))
    # What would have no type of its own.
    client.load(table, written(tmp_path, "t.jsonl", '{"price": 12.34}\n{"price": "0.10"}\n'))
    rows = client.query(table).collect().rows()
    assert rows[:3] == [ROW] * 3
    assert [row[0] for row in rows[3:]] == [Decimal("12.34"), Decimal("0.10")]
    wrong = {"price": "12.345", "day": "2024-13-01", "at": "noon", "time": "25:00", "small": "300", "bytes": "0"}
    for name, cell in wrong.items():
        column = rf"column {name!r}: ['\"]+{cell}['\"]+ is no "
        with pytest.raises(basalt.InvalidData, match=rf"t\.csv:3: {column}"):
            client.load(table, written(tmp_path, "t.csv", f"{name},text\n,a\n{cell},b\n"))
        with pytest.raises(basalt.InvalidData, match=rf"t\.jsonl:2: column {name!r}: "):
            client.load(table, written(tmp_path, "t.jsonl", f'{{"text": "a"}}\n{{"{name}": "{cell}", "text": "b"}}\n'))
    assert len(client.query(table).collect()) == 5


def test_long_headers_and_cells(
    client: basalt.Client, table: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is looked at before the rest decides nothing where it is too short."""
    monkeypatch.setattr("basalt_client._csv._SAMPLE_BYTES", 8)
    path = written(tmp_path, "t.csv", f"first,second,third\n1,{'x' * 200_000},01\n")
    assert loaded(client, table, path, delimiter=",") == (["int64", "utf8", "utf8"], [(1, "x" * 200_000, "01")])
    monkeypatch.setattr("basalt_client._csv.BLOCK_BYTES", 1024)
    path = written(tmp_path, "t.csv", 'a,b\n1,"x\n' + "2,y\n" * 50_000)
    with pytest.raises(basalt.InvalidData, match=r"t\.csv:2: a quote is left open"):
        client.load(table, path, if_exists="replace")
    rows = [{"n": n, "text": "x" * 1000} for n in range(3000)]
    for text in (json.dumps(rows), "\n".join(map(json.dumps, rows))):
        assert loaded(client, table, written(tmp_path, "t.json", text))[1] == [(n, "x" * 1000) for n in range(3000)]


def test_a_schema_that_is_said(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    path = written(tmp_path, "t.csv", "price,zip,n\n12.34,01234,1\n")
    expected = (["decimal(12,2)", "int32", "int64"], [(Decimal("12.34"), 1234, 1)])
    assert loaded(client, table, path, schema={"price": "decimal(12, 2)", "zip": pa.int32()}) == expected
    schema = pa.schema([pa.field("zip", pa.string(), nullable=False), ("price", pa.float64()), ("n", pa.int8())])
    assert loaded(client, table, path, schema=schema) == (["float64", "utf8", "int8"], [(12.34, "01234", 1)])
    assert not client.describe(table).table.schema.field("zip").nullable
    frame = pandas.DataFrame({"price": [12.34], "n": [1]})
    assert loaded(client, table, frame, schema={"price": "decimal(12,2)"})[1] == [(Decimal("12.34"), 1)]
    lines = written(tmp_path, "t.jsonl", '{"price": 12.34, "at": "2024-05-17T12:00:00.5Z"}\n')
    assert loaded(client, table, lines, schema={"price": "decimal(4,2)", "at": "utf8"})[0] == ["decimal(4,2)", "utf8"]
    with pytest.raises(basalt.InvalidData, match="schema names a column 'q'"):
        client.load(table, path, schema={"q": "utf8"})
    with pytest.raises(ValueError, match="'varchar' is no type"):
        client.load(table, path, schema={"n": "varchar"})
    with pytest.raises(TypeError, match="not a list"):
        client.load(table, path, schema=["n"])


def test_arrays_of_json(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    """With a line for each row, as `basalt query` writes them, and in any other form."""
    rows = [{"n": n, "at": "2024-05-17T12:00:00.000001Z", "text": 'a "},\n[', "more": {"x": [1, 2]}} for n in range(3)]
    lines = "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]\n"
    texts = [lines, lines.replace("\n", "\r\n"), json.dumps(rows), json.dumps(rows, indent=1), f" \n{json.dumps(rows)}"]
    moment = NOON.replace(microsecond=1)
    for text in texts:
        found = loaded(client, table, written(tmp_path, "t.json", text))
        assert found[0] == ["int64", "timestamp", "utf8", "utf8"]
        assert found[1] == [(n, moment, 'a "},\n[', '{"x":[1,2]}') for n in range(3)]


def test_decimals_and_doubles(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    """They are the same number where the double's shortest text is the decimal."""
    client.create(table, pa.schema([("price", pa.decimal128(12, 2)), ("double", pa.float64())]))
    client.load(table, pandas.DataFrame({"price": [12.34, None, 0.1, 1e9]}))
    client.load(table, pa.table({"double": [Decimal("12.34"), None, Decimal("-0.10")]}))
    client.load(table, pa.table({"price": pa.array([0.5], pa.float32())}))
    price = [row[0] for row in client.query(table).collect().rows()]
    assert price[:4] == [Decimal("12.34"), None, Decimal("0.1"), Decimal(1_000_000_000)]
    assert price[-1] == Decimal("0.5")
    assert [row[1] for row in client.query(table).collect().rows()][4:7] == [12.34, None, -0.1]
    path = tmp_path / "t.parquet"
    wrong = pa.table({"price": [0.1] * 70_000 + [0.1 + 0.2]})
    pyarrow.parquet.write_table(wrong, path)
    message = r"row 70001: column 'price': double as decimal\(12,2\): 0\.30000000000000004: .*digits"
    with pytest.raises(basalt.InvalidData, match=message):
        client.load(table, wrong)
    with pytest.raises(basalt.InvalidData, match=rf"t\.parquet: {message}"):
        client.load(table, path)
    for value in (float("nan"), float("inf"), 1e10):
        with pytest.raises(basalt.InvalidData, match="row 2: column 'price'"):
            client.load(table, pa.table({"price": [1.5, value]}))
    with pytest.raises(basalt.InvalidData, match=r"row 2: column 'double': .*0\.12345678901234567890: .*digits"):
        client.load(table, {"double": [Decimal("0.1"), Decimal("0.12345678901234567890")]})


def test_rows_of_several_files_are_named(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    client.create(table, pa.schema([("n", pa.int8())]))
    for name, values in (("1", [1, 2]), ("2", [3]), ("3", [4, 500])):
        pyarrow.parquet.write_table(pa.table({"n": values}), tmp_path / f"{name}.parquet")
    with pytest.raises(basalt.InvalidData, match=r"3\.parquet: row 2: column 'n': int64 as int8: 500: "):
        client.load(table, tmp_path)
    for name, cells in (("1", "1\n2\n"), ("2", "300\n")):
        written(tmp_path, f"{name}.csv", f"n\n{cells}")
    with pytest.raises(basalt.InvalidData, match=r"2\.csv:2: column 'n': '300' is no int8"):
        client.load(table, tmp_path / "*.csv")
    written(tmp_path, "a.csv", "u\n1\n")
    written(tmp_path, "b.csv", f"u\n{(1 << 64) - 1}\n")
    assert loaded(client, table, tmp_path / "[ab].csv") == (
        ["decimal(20,0)"],
        [(Decimal(1),), (Decimal((1 << 64) - 1),)],
    )
