"""Loading: from everything, all rows or none, and nothing twice."""

import asyncio
import contextlib
import datetime as dt
import gzip
import io
import pathlib
import sys
from collections.abc import Iterator

import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest
from conftest import Broken, Proxy

import basalt_client as basalt
from basalt_client import _proto as pb
from basalt_client import _types as types
from basalt_client import _write, aio, col, count

ROWS = [("a", 1), ("b", None), (None, 3)]
COLUMNS = {"text": ["a", "b", None], "number": [1, None, 3]}
ARROW = pa.table(COLUMNS)


def rows_of(client: basalt.Client, table: str) -> list[tuple]:
    return client.query(table).collect().rows()


@pytest.mark.parametrize(
    "data",
    [
        ARROW,
        ARROW.to_batches()[0],
        ARROW.to_reader(),
        pyarrow.dataset.dataset(ARROW),
        COLUMNS,
        [{"text": "a", "number": 1}, {"text": "b"}, {"number": 3}],
        polars.DataFrame(COLUMNS),
        polars.LazyFrame(COLUMNS),
        ARROW.to_pandas(types_mapper=pandas.ArrowDtype),
        pandas.DataFrame({"text": COLUMNS["text"], "number": pandas.array(COLUMNS["number"], "Int64")}),
    ],
    ids=lambda data: f"{type(data).__module__.partition('.')[0]}.{type(data).__name__}",
)
def test_sources(client: basalt.Client, table: str, data: object) -> None:
    committed = client.load(table, data)
    assert (committed.rows, committed.version, committed.replayed) == (3, client.describe(table).table.version, False)
    assert rows_of(client, table) == ROWS


def test_pandas_as_people_have_it(client: basalt.Client, table: str) -> None:
    frame = pandas.DataFrame(
        {
            "group": pandas.Categorical(["x", "y", "x"]),
            "value": [1.5, float("nan"), 2.5],
            "at": pandas.to_datetime(["2024-05-17 12:00", None, "2024-05-18 00:00"]),
        },
        index=[7, 8, 9],
    )
    client.load(table, frame)
    noon = dt.datetime(2024, 5, 17, 12, tzinfo=dt.timezone.utc)
    assert rows_of(client, table)[:2] == [("x", 1.5, noon), ("y", None, None)]

    # What groups are named by is data.
    sums = frame.groupby("group", observed=True)["value"].sum().to_frame()
    client.load(table, sums, if_exists="replace")
    assert rows_of(client, table) == [("x", 4.0), ("y", 0.0)]

    with pytest.raises(basalt.InvalidData, match="mixed"):
        client.load(table, pandas.DataFrame({"mixed": [1, "a", {}]}))
    with pytest.raises(TypeError, match="series"):
        client.load(table, frame["value"])


def written(folder: pathlib.Path, name: str) -> pathlib.Path:
    path = folder / name
    if name.endswith(".parquet"):
        pyarrow.parquet.write_table(ARROW, path)
    elif name == "table.feather":
        pyarrow.feather.write_feather(ARROW, path)
    elif name == "stream.arrow":
        with pa.ipc.new_stream(path, ARROW.schema) as stream:
            stream.write_table(ARROW)
    elif name == "folder":
        path.mkdir()
        pyarrow.parquet.write_table(ARROW, path / "part.parquet")
    else:
        text = b"text,number\na,1\nb,NA\n,3\n"
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


@pytest.mark.parametrize("name", ["t.parquet", "table.feather", "stream.arrow", "folder", "t.csv", "t.csv.gz"])
def test_files(client: basalt.Client, table: str, tmp_path: pathlib.Path, name: str) -> None:
    path = written(tmp_path, name)
    for data in (path, str(path)):
        client.load(table, data, if_exists="replace")
    assert rows_of(client, table) == ROWS


def test_files_that_are_none(
    client: basalt.Client, table: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError):
        client.load(table, tmp_path / "missing.parquet")
    for name in ("t.parquet", "t.arrow", "t.csv"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(basalt.InvalidData, match=name):
            client.load(table, tmp_path / name)
    (tmp_path / "t.xlsx").write_bytes(b"")
    with pytest.raises(basalt.InvalidData, match=r"files end with \.csv, \.tsv"):
        client.load(table, tmp_path / "t.xlsx")
    # Behind what the types come from.
    monkeypatch.setattr("basalt_client._csv.BLOCK_BYTES", 1024)
    (tmp_path / "late.csv").write_text("n\n" + "1\n" * 5000 + "x\n")
    with pytest.raises(basalt.InvalidData, match=r"late\.csv:5002: column 'n': 'x' is no int64, as those before are"):
        client.load(table, tmp_path / "late.csv")
    with pytest.raises(basalt.TableNotFound):
        client.describe(table)


def test_folders_and_patterns(client: basalt.Client, table: str, tmp_path: pathlib.Path) -> None:
    def loaded(data: object) -> list[tuple[object, ...]]:
        client.load(table, data, if_exists="replace")
        return rows_of(client, table)

    folder = tmp_path / "csv"
    (folder / "more").mkdir(parents=True)
    (folder / "1.csv").write_text("a,b\n1,NA\n2,x\n")
    (folder / "2.csv").write_text("b,a\nNA,1.5\n")
    (folder / "more/3.csv.gz").write_bytes(gzip.compress(b"a,b\n7,y\n"))
    (folder / "_SUCCESS").write_text("")
    (folder / ".hidden.csv").write_text("c\n1\n")
    (folder / "README.md").write_text("# What these are")
    all_rows = [(1.0, "NA"), (2.0, "x"), (1.5, "NA"), (7.0, "y")]
    for data in (f"{folder}/", folder):
        with pytest.warns(UserWarning, match=r"passed over: README\.md"):
            assert loaded(data) == all_rows
    (folder / "README.md").unlink()
    assert loaded(f"{folder}/**/*.csv*") == all_rows
    assert loaded(folder / "?.csv") == all_rows[:3]
    # As it stands in the file, though it was a number in the first of them.
    (folder / "4.csv").write_text("a,b\nx,1\n007,NA\n")
    assert loaded(folder)[3:] == [("x", "1"), ("007", "NA"), ("7", "y")]

    mixed = tmp_path / "mixed"
    mixed.mkdir()
    pyarrow.parquet.write_table(pa.table({"a": pa.array([1], pa.int32()), "b": ["p"]}), mixed / "1.parquet")
    pyarrow.parquet.write_table(pa.table({"b": ["q"], "a": [1 << 40]}), mixed / "2.parquet")
    (mixed / "3.jsonl").write_text('{"a": 5, "b": "j"}\n{"a": 6, "b": null}\n')
    (mixed / "4.json.gz").write_bytes(gzip.compress(b'{"a": 7, "b": "k"}\n'))
    pyarrow.feather.write_feather(pa.table({"a": [8], "b": ["f"]}), mixed / "5.feather")
    batch = pa.table({"a": pa.array([9], pa.int8()), "b": ["s"]})
    with pa.ipc.new_stream(mixed / "6.arrow", batch.schema) as stream:
        stream.write_table(batch)
    assert loaded(mixed) == [(1, "p"), (1 << 40, "q"), (5, "j"), (6, None), (7, "k"), (8, "f"), (9, "s")]
    assert client.describe(table).table.schema.field("a").type == pa.int64()
    assert loaded(mixed / "3.jsonl") == [(5, "j"), (6, None)]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no files"),
        ({"a.csv": "x,y\n1,2\n", "b.csv": "x,z\n1,2\n"}, r"b\.csv: its columns are not those of .*a\.csv, x, y"),
        ({"b.txt": ""}, "no files of rows"),
        ({"year=2024/a.csv": "x\n1\n"}, r"'year=2024' is the value of a column"),
        ({"a.csv": "x\n1\n", "b.csv": ""}, r"b\.csv"),
        ({"a.json": '[{"x": 1}, 5]'}, r"a\.json: row 2: '5' is no object"),
        ({"a.csv": "x\n1\n", "_delta_log/0.json": "{}"}, r"it is a Delta table, which is attached, or loaded"),
        ({"a.csv": "x\n1\n", "in/b.csv": "x\n1\n", "in/_delta_log/0.json": "{}"}, r"in: it is a Delta table"),
    ],
)
def test_folders_that_are_no_table(
    client: basalt.Client, table: str, tmp_path: pathlib.Path, files: dict[str, str], message: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    with pytest.raises(basalt.InvalidData, match=message):
        client.load(table, tmp_path)
    with pytest.raises(FileNotFoundError, match="no file has a name like"):
        client.load(table, tmp_path / "*.parquet")
    with pytest.raises(basalt.TableNotFound):
        client.describe(table)


@pytest.mark.parametrize("data", [5, b"bytes", [1, 2], [], {"a": [1, 2], "b": [1]}, object()], ids=repr)
def test_what_is_no_rows(client: basalt.Client, table: str, data: object) -> None:
    with pytest.raises((TypeError, basalt.BasaltError, pa.ArrowException)):
        client.load(table, data)


def test_append_replace_fail(client: basalt.Client, table: str) -> None:
    client.load(table, {"n": [1]}, if_exists="fail")
    client.load(table, {"n": [2]})
    assert rows_of(client, table) == [(1,), (2,)]
    with pytest.raises(basalt.TableExists) as caught:
        client.load(table, {"n": [3]}, if_exists="fail")
    assert caught.value.reason == "TABLE_EXISTS"
    client.load(table, {"m": ["x"]}, if_exists="replace")
    assert client.query(table).collect().schema.names == ["m"]
    with pytest.raises(basalt.ColumnNotFound):
        client.load(table, {"n": [3]})
    # What cannot be held is seen before the table is dropped.
    with pytest.raises(basalt.InvalidData):
        client.load(table, {"m": [dt.timedelta(1)]}, if_exists="replace")
    assert rows_of(client, table) == [("x",)]
    with pytest.raises(ValueError, match="if_exists"):
        client.load(table, {"m": ["x"]}, if_exists="upsert")


def test_replace_loses_nothing(
    client: basalt.Client, table: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = pa.schema([pa.field("n", pa.int64()), pa.field("text", pa.string())])
    client.create(table, old, retention=None)
    client.load(table, {"n": [1, 2], "text": ["a", "b"]})
    version = client.describe(table).table.version
    # A column that is not null is held by one that may be, and the order of columns counts for nothing.
    strict = pa.schema([pa.field("text", pa.string(), nullable=False), pa.field("n", pa.int64())])
    committed = client.load(table, pa.table({"text": ["c"], "n": [3]}, schema=strict), if_exists="replace")
    assert (committed.rows, committed.replaced, committed.version) == (1, 2, version + 1)
    assert client.describe(table).table.schema == old
    assert rows_of(client, table) == [(3, "c")]
    assert client.query(table).version(version).collect().rows() == [(1, "a"), (2, "b")]

    (tmp_path / "bad.csv").write_text("n,text\n1,a\n2,b,c\n")
    for data in (tmp_path / "bad.csv", {}, tmp_path / "missing.csv"):
        with pytest.raises((basalt.BasaltError, FileNotFoundError)):
            client.load(table, data, if_exists="replace")
    with pytest.raises(ValueError, match="key_columns"):
        client.load(table, {"n": [1], "text": ["a"]}, if_exists="replace", key_columns="n")
    with monkeypatch.context() as patched:
        patched.setattr(_write, "_ipc", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.load(table, {"n": [5], "text": ["x"]}, if_exists="replace")
    assert rows_of(client, table) == [(3, "c")]
    assert client.load(table, {"n": pa.array([], pa.int64()), "text": pa.array([], pa.string())}, if_exists="replace")
    assert rows_of(client, table) == []


def test_replace_by_other_columns(
    client: basalt.Client, table: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.load(table, {"n": [1]})
    # It is read to its end before the table is dropped.
    monkeypatch.setattr("basalt_client._csv.BLOCK_BYTES", 1024)
    (tmp_path / "late.csv").write_text("m\n" + "1\n" * 5000 + "x\n")
    with pytest.raises(basalt.InvalidData, match=r"late\.csv:5002: column 'm'"):
        client.load(table, tmp_path / "late.csv", if_exists="replace")
    assert rows_of(client, table) == [(1,)]

    # What is read once alone, and what is interrupted, is not known before: the error says what it has cost.
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"m": [2.5]})
        raise OSError("the source broke")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("m", pa.float64())]), batches())
    with pytest.raises(OSError, match="the source broke") as broke:
        client.load(table, reader, if_exists="replace")
    with pytest.raises(basalt.TableNotFound):
        client.describe(table)
    client.load(table, {"n": [1]})
    monkeypatch.setattr(_write, "_ipc", interrupted)
    with pytest.raises(KeyboardInterrupt) as stopped:
        client.load(table, {"m": [2.5]}, if_exists="replace")
    if sys.version_info >= (3, 11):
        for caught in (broke, stopped):
            assert "was dropped before" in caught.value.__notes__[0]
    monkeypatch.undo()
    client.load(table, {"n": [1]})
    with pytest.raises(basalt.BasaltError, match="was dropped before"):
        client.load(table, {"text": ["y" * (8 << 20)]}, if_exists="replace")


def test_columns_by_name(client: basalt.Client, table: str) -> None:
    client.create(table, pa.schema([("a", pa.int8()), ("b", pa.string()), ("c", pa.float64())]))
    client.load(table, {"c": [0.5], "a": [1]})
    assert rows_of(client, table) == [(1, None, 0.5)]


def test_key_columns_replace_rows(client: basalt.Client, table: str) -> None:
    client.load(table, {"id": [1, 2, 3], "v": ["a", "b", "c"]})
    committed = client.load(table, {"id": [2, 4], "v": ["B", "D"]}, key_columns="id")
    assert (committed.rows, committed.replaced) == (2, 1)
    assert sorted(rows_of(client, table)) == [(1, "a"), (2, "B"), (3, "c"), (4, "D")]
    with pytest.raises(basalt.InvalidRequest) as caught:
        client.load(table, {"id": [5, 5], "v": ["x", "y"]}, key_columns=["id"])
    assert caught.value.reason == "INVALID_BATCH"
    assert client.query(table).aggregate(count()).collect().scalar() == 4


def test_a_table_whose_first_rows_are_refused_goes(client: basalt.Client, table: str) -> None:
    with pytest.raises(basalt.InvalidRequest) as caught:
        client.load(table, {"id": [5, 5]}, key_columns=["id"])
    assert caught.value.reason == "INVALID_BATCH"
    with pytest.raises(basalt.TableNotFound):
        client.describe(table)


def test_a_table_whose_first_rows_fail_keeps_those_of_others(client: basalt.Client, address: str, table: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        with basalt.connect(address) as other:
            assert other.load(table, {"n": [7, 8, 9]}).rows == 3
        raise OSError("the source broke")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), batches())
    with pytest.raises(OSError, match="the source broke"):
        client.load(table, reader)
    assert rows_of(client, table) == [(7,), (8,), (9,)]


def test_no_rows_make_a_table(client: basalt.Client, table: str) -> None:
    assert client.load(table, ARROW.slice(0, 0)).rows == 0
    assert client.query(table).collect().to_arrow() == ARROW.slice(0, 0)


def test_many_messages(client: basalt.Client, table: str) -> None:
    """More than the window holds, and rows of very different sizes."""
    texts = ["x" * (n % 7) for n in range(200_000)] + ["y" * 400_000] * 20
    big = pa.table({"n": range(len(texts)), "text": texts, "more": [0.5] * len(texts)})
    assert client.load(table, big).rows == len(texts)
    assert client.query(table).collect().to_arrow() == big


def test_a_row_that_is_too_large(client: basalt.Client, table: str) -> None:
    with pytest.raises(basalt.BasaltError):
        client.load(table, {"text": ["x" * 10, "y" * (8 << 20)]})
    with pytest.raises(basalt.TableNotFound):
        client.describe(table)


def test_nothing_of_a_write_that_fails(client: basalt.Client, table: str) -> None:
    client.load(table, {"n": [1]})

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [2] * 100_000})
        raise OSError("the source broke")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), batches())
    with pytest.raises(OSError, match="the source broke"):
        client.load(table, reader)
    assert rows_of(client, table) == [(1,)]


def test_what_is_wrong_with_a_row_is_told_in_the_middle(client: basalt.Client, address: str, table: str) -> None:
    """While further rows are on their way."""
    client.create(table, pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    rows = pa.table({"n": pa.array([*range(600_000), None, *range(3_000_000)], pa.int64())})

    async def load() -> None:
        async with aio.connect(address) as awaited:
            await awaited.load(table, rows)

    for load_rows in (lambda: client.load(table, rows), lambda: asyncio.run(load())):
        for _ in range(3):
            with pytest.raises(basalt.InvalidRequest) as caught:
                load_rows()
            assert caught.value.reason == "INVALID_BATCH"
    assert len(client.query(table).collect()) == 0


def test_a_request_id_writes_once(client: basalt.Client, table: str) -> None:
    first = client.load(table, {"n": [1, 2]}, request_id="monday")
    again = client.load(table, {"n": [1, 2]}, request_id="monday")
    assert (first.replayed, again.replayed, again.version) == (False, True, first.version)
    assert rows_of(client, table) == [(1,), (2,)]
    with pytest.raises(basalt.BasaltError) as caught:
        client.load(table, {"n": [3]}, request_id="monday")
    assert caught.value.reason == "REQUEST_ID_REUSED"


@pytest.mark.parametrize("lost", ["Opened", "Ack", "Committed"])
def test_a_retry_doubles_nothing(client: basalt.Client, proxy: Proxy, table: str, lost: str) -> None:
    """The connection breaks before an answer of the write arrives: twice, then it holds."""
    place = ["Opened", "Ack", "Committed"].index(lost)

    def tamper(method: str, answers: Iterator[bytes]) -> Iterator[bytes]:
        for number, answer in enumerate(answers):
            if method == "Write" and number == place and proxy.count("Write") <= 2:
                raise Broken
            yield answer

    proxy.tamper = tamper
    with basalt.connect(proxy.address) as cut:
        committed = cut.load(table, {"n": [1, 2, 3]})
    assert proxy.count("Write") == 3
    # Where an acknowledgement was lost, the commit may have been on its way already.
    assert lost == "Ack" or committed.replayed == (lost == "Committed")
    assert rows_of(client, table) == [(1,), (2,), (3,)]


def test_rows_that_are_read_once_are_tried_once(client: basalt.Client, proxy: Proxy, table: str) -> None:
    client.load(table, {"n": [1]})

    def tamper(method: str, answers: Iterator[bytes]) -> Iterator[bytes]:
        if method == "Write":
            raise Broken
        return answers

    proxy.tamper = tamper
    with basalt.connect(proxy.address) as cut, pytest.raises(basalt.ConnectionFailed):
        cut.load(table, pa.table({"n": [2]}).to_reader())
    assert proxy.count("Write") == 1
    assert rows_of(client, table) == [(1,)]


def test_a_table_whose_first_rows_may_be_there_stays(client: basalt.Client, proxy: Proxy, table: str) -> None:
    def tamper(method: str, answers: Iterator[bytes]) -> Iterator[bytes]:
        for number, answer in enumerate(answers):
            if method == "Write" and number == 2:
                raise Broken
            yield answer

    proxy.tamper = tamper
    once = basalt.RetryPolicy(tries=1)
    with basalt.connect(proxy.address, retry=once) as cut, pytest.raises(basalt.ConnectionFailed):
        cut.load(table, {"n": [1, 2]})
    assert rows_of(client, table) == [(1,), (2,)]


def interrupted(_: pa.RecordBatch) -> bytes:
    raise KeyboardInterrupt


def test_an_interrupt_leaves_nothing(client: basalt.Client, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_write, "_ipc", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.load(table, {"n": [2]})
    with pytest.raises(basalt.TableNotFound):
        client.describe(table)


@pytest.mark.parametrize("has_tqdm", [True, False])
def test_progress(client: basalt.Client, table: str, monkeypatch: pytest.MonkeyPatch, has_tqdm: bool) -> None:
    shown = io.StringIO()
    monkeypatch.setattr("basalt_client._progress._PATIENCE", 0.0)
    monkeypatch.setattr("basalt_client._progress._INTERVAL", 0.0)
    if not has_tqdm:
        monkeypatch.setattr("basalt_client._progress._tqdm", lambda *_: False)
    with contextlib.redirect_stderr(shown):
        client.load(table, {"n": range(300_000)}, progress=True)
    assert table in shown.getvalue()
    assert "300" in shown.getvalue()
    with contextlib.redirect_stderr(io.StringIO()) as silent:
        client.load(table, {"n": range(300_000)})
    assert silent.getvalue() == ""


class Slow:
    """A write whose server acknowledges a batch when somebody waits for it."""

    def __init__(self, window_bytes: int) -> None:
        self.answers = [pb.WriteResponse(opened=pb.Opened(schema=types.schema_to_api(ARROW.schema)))]
        self.answers[0].opened.window_bytes = window_bytes
        self.sizes: list[int] = []
        self.rows = self.most = 0

    async def write(self, message: object) -> None:
        kind = message.WhichOneof("kind")
        if kind == "batch":
            self.sizes.append(len(message.SerializeToString()))
            self.rows += pa.ipc.open_stream(message.batch.arrow_ipc).read_all().num_rows
            self.answers.append(pb.WriteResponse(ack=pb.Ack(sequence=message.batch.sequence, rows=self.rows)))
            self.most = max(self.most, sum(self.sizes))
        elif kind == "commit":
            self.answers.append(pb.WriteResponse(committed=pb.Committed(rows=message.commit.rows)))

    async def done_writing(self) -> None:
        pass

    async def read(self, timeout: float | None = None) -> object:
        answer = self.answers.pop(0)
        if answer.HasField("ack"):
            self.sizes.pop(0)
        return answer


def test_no_more_is_under_way_than_the_window_holds() -> None:
    window, rows = 3 << 20, 1_000_000
    slow = Slow(window)

    async def write() -> _write.Committed:
        limits = pb.Limits(message_bytes=4 << 20, batch_rows=1 << 20)
        writer = await _write._Writer.open(slow, pb.Open(columns=["number"]), 1, limits)
        await writer.send(pa.record_batch({"number": pa.array(range(rows), pa.int64())}))
        return await writer.commit()

    assert asyncio.run(write()).rows == slow.rows == rows
    assert window / 2 < slow.most <= window


def test_messages_have_the_size_that_is_wanted(client: basalt.Client, table: str, proxy: Proxy) -> None:
    answers: list[bytes] = []

    def tamper(method: str, coming: Iterator[bytes]) -> Iterator[bytes]:
        for answer in coming:
            if method == "Write":
                answers.append(answer)
            yield answer

    proxy.tamper = tamper
    rows = 400_000
    with basalt.connect(proxy.address) as counted:
        counted.load(table, {"n": pa.array(range(rows), pa.int64())})
    messages = len(answers) - 2
    assert rows * 8 / _write._TARGET_MESSAGE_BYTES <= messages <= rows * 8 / (1 << 18)
    assert client.query(table).filter(col("n") >= 0).aggregate(count()).collect().scalar() == rows
