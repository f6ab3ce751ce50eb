"""What calls have in common: who calls, answers that break off, errors, deadlines, and giving up."""

import asyncio
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from conftest import Broken, Proxy, free_port, started
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

import basalt_client as basalt
from basalt_client import _proto as pb
from basalt_client import aio, col, errors
from basalt_client.options import RetryPolicy

METHODS = {"Query", "Write", "GetServerInfo", "GetTable", "CreateTable", "DropTable", "Select", "Put"}


def use_everything(client: basalt.Client, table: str) -> None:
    client.load(table, {"n": [1, 2]})
    client.query(table).collect()
    client.query(table).select_rows().keep(60)
    client.drop(table)


def test_the_key_goes_with_every_call(proxy: Proxy, table: str) -> None:
    with basalt.connect(proxy.address, key=" basalt_secret\n") as client:
        use_everything(client, table)
        assert "secret" not in repr(client) + repr(client._connection) + repr(client._connection.transport.__dict__)
    assert {method for method, _ in proxy.calls} >= METHODS
    assert {metadata.get("authorization") for _, metadata in proxy.calls} == {"Bearer basalt_secret"}


def test_the_key_of_the_environment(proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    def sent(**options: str) -> str | None:
        proxy.calls.clear()
        basalt.connect(**options).close()
        return proxy.calls[0][1].get("authorization")

    monkeypatch.setenv("BASALT_SERVER", f"http://{proxy.address}")
    assert sent() is None
    monkeypatch.setenv("BASALT_KEY", "of_the_variable")
    assert sent() == "Bearer of_the_variable"
    (tmp_path / "key").write_text("of_the_file\n")
    monkeypatch.setenv("BASALT_KEY_FILE", str(tmp_path / "key"))
    assert sent() == "Bearer of_the_file"
    assert sent(key="of_the_argument") == "Bearer of_the_argument"
    assert sent(key="") is None
    monkeypatch.setenv("BASALT_KEY_FILE", str(tmp_path / "missing"))
    with pytest.raises(basalt.InvalidConnection, match="missing"):
        sent()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ftp://localhost:1", "scheme"),
        ("http://", "no host"),
        ("localhost:x", "not an address"),
        ("localhost:99999", "not an address"),
        ("http://localhost:1/path", "more to it"),
    ],
)
def test_what_is_no_address(address: str, message: str) -> None:
    with pytest.raises(basalt.InvalidConnection, match=message):
        basalt.connect(address)


def test_a_key_stays_on_the_machine_without_tls() -> None:
    with pytest.raises(basalt.InvalidConnection, match="TLS alone"):
        basalt.connect("http://192.0.2.1:7700", key="secret")
    with pytest.raises(basalt.InvalidConnection, match="characters") as caught:
        basalt.connect("127.0.0.1:7700", key="se\ncret")
    assert "cret" not in str(caught.value).replace("characters", "")
    with pytest.raises(basalt.InvalidConnection, match="go together"):
        basalt.connect("https://localhost:7700", cert="cert.pem")
    with pytest.raises(basalt.InvalidConnection, match=r"missing\.pem"):
        basalt.connect("https://localhost:7700", ca="missing.pem")


def test_nothing_answers() -> None:
    begun = time.monotonic()
    with pytest.raises(basalt.ConnectionFailed, match=r"no connection to http://127\.0\.0\.1") as caught:
        basalt.connect(f"127.0.0.1:{free_port()}")
    assert caught.value.retryable
    assert time.monotonic() - begun < 5


def test_what_the_wrong_port_or_scheme_says(binary: str, address: str) -> None:
    def hint(target: str) -> str:
        with pytest.raises(basalt.ConnectionFailed) as caught:
            basalt.connect(target)
        assert str(caught.value).endswith(f"hint: {caught.value.hint}")
        return caught.value.hint or ""

    assert "basalt serve" in hint(f"127.0.0.1:{free_port()}")
    assert "http://" in hint(f"https://{address}")
    listen, http = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    command = [binary, "serve", "--store", "memory:", "--listen", listen, "--metrics-listen", http, "--log", "error"]
    process = started(command, lambda: basalt.connect(listen))
    try:
        assert "the port of gRPC" in hint(http)
    finally:
        process.terminate()
        process.wait(10)


def test_grpc_is_silent_unless_it_is_asked(address: str) -> None:
    script = f"""if True:
        import basalt_client
        try:
            basalt_client.connect("https://{address}")
        except basalt_client.ConnectionFailed:
            print("failed")"""
    environment = {key: value for key, value in os.environ.items() if key != "GRPC_VERBOSITY"}
    for more, is_silent in (({}, True), ({"GRPC_VERBOSITY": "INFO"}, False)):
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment | more, capture_output=True, text=True, check=True
        )
        assert done.stdout == "failed\n"
        assert (done.stderr == "") == is_silent


def test_tls_and_keys(binary: str, tmp_path: pathlib.Path) -> None:
    secrets = tmp_path / "secrets"
    made = subprocess.run([binary, "secure", str(secrets)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip("the server has no TLS")
    keys = ["--file", str(secrets / "keys.toml"), "-o", str(tmp_path / "reader.secret")]
    subprocess.run([binary, "key", "new", "reader", "--role", "reader", *keys], check=True)
    key, ca = (secrets / "admin.secret").read_text(), secrets / "ca.pem"
    listen = f"127.0.0.1:{free_port()}"
    command = [binary, "serve", "--store", "memory:", "--listen", listen, "--secrets", str(secrets), "--log", "error"]
    process = started(command, lambda: basalt.connect(f"https://{listen}", key=key, ca=ca))
    try:
        with basalt.connect(f"https://{listen}", key=key, ca=ca) as client:
            use_everything(client, "t")
            client.load("t", {"n": [1]})
        with pytest.raises(basalt.Unauthenticated) as caught:
            basalt.connect(f"https://{listen}", ca=ca).tables()
        assert caught.value.reason == "UNAUTHENTICATED"
        assert "hint: a key goes with `key=`" in str(caught.value)
        with basalt.connect(f"https://{listen}", key=(tmp_path / "reader.secret").read_text(), ca=ca) as reader:
            assert reader.query("t").collect().rows() == [(1,)]
            with pytest.raises(basalt.PermissionDenied) as caught:
                reader.drop("t")
        assert (caught.value.reason, caught.value.retryable) == ("PERMISSION_DENIED", False)
        # The system's authorities have not signed it, and it speaks nothing else.
        for other, hint in ((f"https://{listen}", "ca="), (f"http://{listen}", "https://")):
            with pytest.raises(basalt.ConnectionFailed) as failed:
                basalt.connect(other)
            assert hint in (failed.value.hint or "")
    finally:
        process.terminate()
        process.wait(10)


def cut(kept: int, then: type[Exception] | None = None):
    """Answers to queries that break off behind so many messages."""

    def tamper(method: str, answers: Iterator[bytes]) -> Iterator[bytes]:
        for number, answer in enumerate(answers):
            if method == "Query" and number == kept:
                if then:
                    raise then
                return
            yield answer

    return tamper


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_an_answer_without_its_trailer_is_an_error(proxy: Proxy, flights: str, kept: int) -> None:
    proxy.tamper = cut(kept)
    quickly = RetryPolicy(tries=3, first_delay=0.001)
    with basalt.connect(proxy.address, retry=quickly) as client:
        with pytest.raises(basalt.IncompleteAnswer, match="without its trailer"):
            client.query(flights).collect()
        assert proxy.count("Query") == 3
        batches = []
        with pytest.raises(basalt.IncompleteAnswer):
            batches.extend(client.query(flights).stream())
        assert len(batches) <= 1


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_query_that_breaks_off_is_asked_again(proxy: Proxy, flights: str, kept: int) -> None:
    broken = cut(kept, Broken)
    proxy.tamper = lambda method, answers: (broken if proxy.count("Query") == 1 else cut(99))(method, answers)
    with basalt.connect(proxy.address) as client:
        assert len(client.query(flights).collect()) == 6
    assert proxy.count("Query") == 2


@pytest.mark.sql
def test_a_statement_that_writes_is_sent_once(client: basalt.Client, proxy: Proxy, flights: str) -> None:
    proxy.tamper = cut(0, Broken)
    with basalt.connect(proxy.address, retry=RetryPolicy(first_delay=0.001)) as broken:
        with pytest.raises(basalt.ConnectionFailed):
            broken.sql(f"INSERT INTO {flights} (carrier) VALUES ('XX')")
        assert proxy.count("Query") == 1
        with pytest.raises(basalt.ConnectionFailed):
            broken.sql(f"-- a comment\n(SELECT * FROM {flights})")
        assert proxy.count("Query") == 6
    assert client.sql(f"SELECT count(*) FROM {flights} WHERE carrier = 'XX'").scalar() == 1


def altered(change) -> object:
    def tamper(method: str, answers: Iterator[bytes]) -> Iterator[bytes]:
        for answer in answers:
            if method == "Query":
                message = pb.QueryResponse.FromString(answer)
                yield from (each.SerializeToString() for each in change(message))
            else:
                yield answer

    return tamper


def fewer(message):
    if message.WhichOneof("kind") == "trailer":
        message.trailer.rows += 1
    return [message]


def garbage(message):
    if message.WhichOneof("kind") == "arrow_ipc":
        message.arrow_ipc = message.arrow_ipc[:-40]
    return [message]


@pytest.mark.parametrize(
    "change",
    [
        fewer,
        garbage,
        lambda message: [message, message],
        lambda message: [] if message.HasField("header") else [message],
        lambda message: [pb.QueryResponse()],
    ],
    ids=["another count", "cut batches", "all twice", "no header", "empty messages"],
)
def test_answers_that_contradict_themselves(proxy: Proxy, flights: str, change) -> None:
    proxy.tamper = altered(change)
    wrong = (basalt.MalformedAnswer, basalt.IncompleteAnswer)
    with basalt.connect(proxy.address, retry=RetryPolicy(tries=1)) as client, pytest.raises(wrong):
        client.query(flights).collect()


class Failed(grpc.RpcError):
    """A call that failed, as gRPC reports it."""

    def __init__(self, code: grpc.StatusCode, *details: object) -> None:
        status = status_pb2.Status()
        for detail in details:
            packed = any_pb2.Any()
            packed.Pack(detail)
            status.details.append(packed)
        self._code = code
        self._trailing = (("grpc-status-details-bin", status.SerializeToString()),) if details else None

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return "no such luck"

    def trailing_metadata(self) -> object:
        return self._trailing


def info(reason: str, domain: str = "basalt", **metadata: str) -> object:
    return error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=metadata)


CODES = grpc.StatusCode


def starting(proxy: Proxy, calls: int) -> None:
    """Has a server be loading its tables until it was called so often."""

    error = Failed(CODES.UNAVAILABLE, info("STARTING"))
    proxy.calls.clear()
    proxy.refused = lambda: error if len(proxy.calls) <= calls else None


QUICKLY = RetryPolicy(tries=2, first_delay=0.001)


def test_a_server_that_starts_is_waited_for(proxy: Proxy, table: str, has_sql: bool) -> None:
    """By calls that have an effect, too: nothing of them is done then."""
    starting(proxy, 5)
    with basalt.connect(proxy.address, retry=QUICKLY) as client:
        assert proxy.count("GetServerInfo") == 6

        def wait(use: Callable[[], object]) -> object:
            starting(proxy, 5)
            answer = use()
            assert len(proxy.calls) > 5
            return answer

        wait(lambda: client.create(table, {"n": "int64"}))
        wait(lambda: client.load(table, iter([{"n": [1, 2]}])))
        assert wait(lambda: client.query(table).collect().rows()) == [(1,), (2,)]
        assert wait(lambda: [batch.num_rows for batch in client.query(table).stream()]) == [2]
        assert wait(lambda: client.delete(table, col("n") == 2).rows) == 1
        if has_sql:
            assert wait(lambda: client.sql(f"INSERT INTO {table} VALUES (3)").scalar()) == 1
        assert wait(lambda: len(client.query(table).collect())) == 1 + has_sql

    async def twin() -> int:
        starting(proxy, 5)
        async with aio.connect(proxy.address, retry=QUICKLY) as client:
            starting(proxy, 5)
            await client.load(table, {"n": [4]})
            starting(proxy, 5)
            return len(await client.query(table).collect())

    assert asyncio.run(twin()) == 2 + has_sql


def test_a_server_that_starts_is_waited_for_until_the_deadline(proxy: Proxy) -> None:
    async def twin() -> None:
        await aio.connect(proxy.address, deadline=0.5)

    for connect in (lambda: basalt.connect(proxy.address, deadline=0.5), lambda: asyncio.run(twin())):
        starting(proxy, 1000)
        begun = time.monotonic()
        with pytest.raises(basalt.Unavailable, match=r"no such luck; it was waited for 0\.\d seconds") as caught:
            connect()
        assert 0.1 < time.monotonic() - begun < 0.6
        assert "deadline=" in (caught.value.hint or "")
        assert 2 < len(proxy.calls) < 6
    # Where nothing is to be tried again this is not, either.
    starting(proxy, 1000)
    with pytest.raises(basalt.Unavailable, match="no such luck"):
        basalt.connect(proxy.address, retry=RetryPolicy(tries=1))
    assert len(proxy.calls) == 1


def test_a_client_that_is_closed(address: str, flights: str) -> None:
    client = basalt.connect(address)
    query = client.query(flights)
    client.close()

    async def twin(use: Callable[[aio.Client], Awaitable[object]]) -> None:
        async with aio.connect(address) as other:
            await other.close()
            await use(other)

    uses: list[Callable[[], object]] = [
        query.collect,
        query.stream,
        client.tables,
        lambda: client.load(flights, {"distance": [1]}),
        lambda: asyncio.run(twin(lambda other: other.tables())),
        lambda: asyncio.run(twin(lambda other: other.query(flights).collect())),
        lambda: asyncio.run(twin(lambda other: other.load(flights, {"distance": [1]}))),
    ]
    for use in uses:
        with pytest.raises(basalt.InvalidConnection, match="the client is closed"):
            use()
    with basalt.connect(address) as client:
        stream = client.query(flights).stream()
    with pytest.raises(basalt.Cancelled, match="the call was given up"):
        list(stream)


def test_deadlines_that_are_none(address: str, flights: str) -> None:
    for seconds in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="a deadline is more than"):
            basalt.connect(address, deadline=seconds)
    for seconds in (float("inf"), 1e12):
        with basalt.connect(address, deadline=seconds) as client:
            assert len(client.query(flights).collect()) == 6


def test_all_tries_are_within_the_deadline(proxy: Proxy, flights: str) -> None:
    def slow(method: str, answers: Iterator[bytes]) -> Iterator[bytes]:
        if method == "Query":
            time.sleep(0.4)
            raise Broken
        yield from answers

    proxy.tamper = slow
    with basalt.connect(proxy.address, deadline=1, retry=RetryPolicy(first_delay=0.01)) as client:
        begun = time.monotonic()
        with pytest.raises((basalt.ConnectionFailed, basalt.DeadlineExceeded)):
            client.query(flights).collect()
        assert time.monotonic() - begun < 1.5


@pytest.mark.parametrize(
    ("code", "reason", "kind", "is_retryable"),
    [
        (CODES.NOT_FOUND, "TABLE_NOT_FOUND", basalt.TableNotFound, False),
        (CODES.NOT_FOUND, "SIP_NOT_FOUND", basalt.SetNotFound, False),
        (CODES.NOT_FOUND, "QUERY_NOT_FOUND", basalt.QueryNotFound, False),
        (CODES.NOT_FOUND, "FROM_THE_FUTURE", basalt.BasaltError, False),
        (CODES.PERMISSION_DENIED, "PERMISSION_DENIED", basalt.PermissionDenied, False),
        (CODES.UNAUTHENTICATED, "UNAUTHENTICATED", basalt.Unauthenticated, False),
        (CODES.DATA_LOSS, "TABLE_DAMAGED", basalt.TableDamaged, False),
        (CODES.INVALID_ARGUMENT, "INVALID_QUERY", basalt.InvalidRequest, False),
        (CODES.OUT_OF_RANGE, "OVERFLOW", basalt.OutOfRange, False),
        (CODES.FAILED_PRECONDITION, "VERSION_GONE", basalt.VersionGone, False),
        (CODES.FAILED_PRECONDITION, "READ_ONLY", basalt.ReadOnly, False),
        (CODES.RESOURCE_EXHAUSTED, "OVERLOADED", basalt.Overloaded, False),
        (CODES.UNAVAILABLE, "STARTING", basalt.Unavailable, True),
        (CODES.UNAVAILABLE, "INCOMPLETE", basalt.Unavailable, True),
        (CODES.ABORTED, "WRITE_CONFLICT", basalt.WriteConflict, False),
        (CODES.ABORTED, "REQUEST_IN_PROGRESS", basalt.BasaltError, True),
        (CODES.UNKNOWN, "OUTCOME_UNKNOWN", basalt.OutcomeUnknown, True),
        (CODES.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", basalt.DeadlineExceeded, False),
        (CODES.CANCELLED, "CANCELLED", basalt.Cancelled, False),
        (CODES.INTERNAL, "INTERNAL", basalt.BasaltError, False),
    ],
)
def test_reasons(code: grpc.StatusCode, reason: str, kind: type[basalt.BasaltError], is_retryable: bool) -> None:
    error = errors.from_rpc(Failed(code, info(reason)), "http://db")
    assert type(error) is kind
    assert (error.reason, error.code, error.retryable) == (reason, code, is_retryable)
    assert str(error).splitlines()[0] == f"no such luck ({reason})"


def test_every_reason_of_the_api_is_known() -> None:
    """A reason that joins the API comes with a code, whose kind of error it has where it has none of its own."""
    names = {value.name.removeprefix("ERROR_REASON_") for value in pb.ErrorReason.values}
    assert set(errors._BY_REASON) <= names


def test_details() -> None:
    bad = error_details_pb2.BadRequest(
        field_violations=[error_details_pb2.BadRequest.FieldViolation(field="filter.like", description="not text")]
    )
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(250)
    failed = Failed(CODES.RESOURCE_EXHAUSTED, info("OVERLOADED", limit_bytes="7"), bad, retry)
    error = errors.from_rpc(failed, "http://db")
    assert (error.place, error.places[0].description) == ("filter.like", "not text")
    assert (error.metadata, error.retry_delay, error.retryable) == ({"limit_bytes": "7"}, 0.25, True)
    assert str(error) == "no such luck at filter.like (OVERLOADED)"
    # Somebody else's words are none of the server's, and without any it was the network.
    assert errors.from_rpc(Failed(CODES.NOT_FOUND, info("X", "other")), "").reason == ""
    assert type(errors.from_rpc(Failed(CODES.UNAVAILABLE), "http://db")) is basalt.ConnectionFailed
    assert type(errors.from_rpc(Failed(CODES.UNIMPLEMENTED), "http://db")) is basalt.NotSupported


def test_delays() -> None:
    policy = RetryPolicy(tries=4, first_delay=0.1, max_delay=0.25)
    down = basalt.ConnectionFailed("down")
    assert [policy.delay(down, tries) for tries in (1, 2, 3, 4)] == [0.1, 0.2, 0.25, None]

    def busy(delay: float | None) -> basalt.BasaltError:
        return basalt.Overloaded("busy", retry_delay=delay)

    assert [policy.delay(busy(0.22), 1), policy.delay(busy(0.01), 2)] == [0.22, 0.2]
    assert [policy.delay(busy(0.3), 1), policy.delay(busy(None), 1)] == [None, None]
    assert RetryPolicy(tries=1).delay(down, 1) is None


def test_a_deadline(proxy: Proxy, flights: str) -> None:
    def tamper(method: str, answers: Iterator[bytes]) -> Iterator[bytes]:
        if method in ("Query", "Write", "GetTable"):
            time.sleep(1)
        return answers

    with basalt.connect(proxy.address) as client:
        proxy.tamper = tamper
        hasty = client.with_deadline(0.2)
        for call in (
            lambda: hasty.query(flights).collect(),
            lambda: hasty.describe(flights),
            lambda: hasty.sql("SELECT 1"),
        ):
            begun = time.monotonic()
            with pytest.raises(basalt.DeadlineExceeded, match="deadline") as caught:
                call()
            assert not caught.value.retryable
            assert time.monotonic() - begun < 0.9
        proxy.tamper = lambda method, answers: tamper(method if method == "Write" else "", answers)
        with pytest.raises(basalt.DeadlineExceeded):
            hasty.load(flights, {"carrier": ["ZZ"]})
        assert len(client.query(flights).collect()) == 6


INTERRUPTED = """
import sys
import basalt_client as basalt
client = basalt.connect(sys.argv[1])
try:
    exec(sys.argv[2])
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("method", "code"),
    [
        ("Query", "client.query('t').collect()"),
        ("Query", "list(client.query('t').stream())"),
        ("Write", "client.load('INTERRUPTED', {'n': [1]})"),
        ("ListTables", "client.tables()"),
    ],
)
def test_an_interrupt_cancels(proxy: Proxy, table: str, method: str, code: str) -> None:
    """Ctrl-C ends the call here, and at the server, while the program goes on."""
    has_begun, is_over = threading.Event(), threading.Event()

    def tamper(called: str, answers: Iterator[bytes]) -> Iterator[bytes]:
        if called == method:
            has_begun.set()
            is_over.wait(60)
        return answers

    proxy.tamper = tamper
    command = [sys.executable, "-c", INTERRUPTED, proxy.address, code.replace("INTERRUPTED", table)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert has_begun.wait(60)
        # It has begun here before the program waits for it there, and what interrupts the beginning ends no call.
        time.sleep(2)
        program.send_signal(signal.SIGINT)
        assert program.stdout.readline() == b"interrupted\n"
        deadline = time.monotonic() + 30
        while method not in proxy.ended and time.monotonic() < deadline:
            time.sleep(0.01)
        has_ended = method in proxy.ended
        is_over.set()
        program.stdin.close()
    assert has_ended


def test_threads_share_a_client(client: basalt.Client, flights: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: len(client.query(flights).collect()), range(40)))
    assert counts == [6] * 40


def test_a_server_that_comes_back(address: str, flights: str) -> None:
    """A later try finds it, though those before found nobody."""
    first = Proxy(address)
    with basalt.connect(first.address) as client:
        assert len(client.query(flights).collect()) == 6
        first.stop()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(lambda: client.query(flights).collect())
            time.sleep(0.4)
            second = Proxy(address, int(first.address.rpartition(":")[2]))
            assert len(answer.result()) == 6
        second.stop()
        with pytest.raises(basalt.ConnectionFailed):
            client.query(flights).collect()


def test_a_closed_client_says_so(address: str) -> None:
    before = signal.getsignal(signal.SIGINT)
    client = basalt.connect(address)
    client.close()
    with pytest.raises((basalt.BasaltError, ValueError)):
        client.tables()
    assert signal.getsignal(signal.SIGINT) is before
