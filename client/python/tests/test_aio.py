"""The asynchronous twin: the same names, the same answers."""

import asyncio
import inspect
import pathlib
import time
from collections.abc import Awaitable, Callable, Iterator

import pyarrow as pa
import pyarrow.parquet
import pytest
from conftest import FLIGHTS, Broken, Proxy

import basalt_client as basalt
from basalt_client import aio, col, count

ROWS = list(zip(*FLIGHTS.values(), strict=True))


def run(address: str, use: Callable[[aio.Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with aio.connect(address) as client:
            await use(client)

    asyncio.run(main())


@pytest.mark.parametrize("name", ["Client", "Query", "RowSet", "KeySet", "Stream", "connect"])
def test_the_names_are_the_same(name: str) -> None:
    blocking, awaited = getattr(basalt, name), getattr(aio, name)
    if name == "connect":
        assert inspect.signature(blocking).parameters == inspect.signature(awaited).parameters
        return
    names = {each for each in dir(blocking) if not each.startswith("_")} - {"to_reader"}
    assert names <= set(dir(awaited))
    for each in names:
        if inspect.isfunction(function := getattr(blocking, each)):
            assert inspect.signature(function).parameters == inspect.signature(getattr(awaited, each)).parameters


def test_everything(address: str, table: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "flights.parquet"
    pyarrow.parquet.write_table(pa.table(FLIGHTS), path)

    async def use(client: aio.Client) -> None:
        assert (await client.load(table, path)).rows == 6
        query = client.query(table)
        assert (await query.collect()).rows() == ROWS
        async with await query.stream() as stream:
            assert sum([batch.num_rows async for batch in stream]) == 6
        assert stream.statistics is not None
        assert stream.version == (await client.describe(table)).table.version
        late = await query.filter(col("dep_delay") > 60).select_rows()
        assert len(await query.rows(await late.keep(60)).collect()) == 3
        assert await (await late.keep(60)).forget()
        keys = await query.select_keys("distance", keep=60)
        assert (await client.kept_set(keys.kept.handle)) == keys
        assert (keys & client.key_set([762, 719, 5])).to_list() == [719, 762]
        assert "scan" in str(await query.explain())
        await client.create(f"{table}_2", pa.schema([("a", pa.int8())]))
        assert {table, f"{table}_2"} <= {each.name for each in await client.tables()}
        await client.drop(f"{table}_2")
        assert (await client.delete(table, col("carrier") == "UA")).rows == 2
        assert (await client.server_info()).version == (await client.cluster()).nodes[0].version
        with pytest.raises(basalt.TableNotFound):
            await client.query("there_is_none").collect()

    run(address, use)


@pytest.mark.sql
def test_sql(address: str, flights: str) -> None:
    async def use(client: aio.Client) -> None:
        answer = await client.sql(f"SELECT count(*) FROM {flights} WHERE carrier = ?", ["AA"])
        assert answer.scalar() == 2
        stream = await client.stream(f"SELECT carrier FROM {flights}")
        assert [batch.num_rows async for batch in stream] == [6]
        assert list(stream.versions) == [flights]

    run(address, use)


def test_awaited_and_many_at_once(address: str, flights: str) -> None:
    async def main() -> None:
        client = await aio.connect(address)
        queries = [client.query(flights).aggregate(count()).collect() for _ in range(40)]
        assert [answer.scalar() for answer in await asyncio.gather(*queries)] == [6] * 40
        await client.close()
        with pytest.raises(basalt.ConnectionFailed):
            await aio.connect("127.0.0.1:1")

    asyncio.run(main())


def test_large_loads_and_retries(proxy: Proxy, client: basalt.Client, table: str) -> None:
    def tamper(method: str, answers: Iterator[bytes]) -> Iterator[bytes]:
        for number, answer in enumerate(answers):
            if method == "Write" and number == 3 and proxy.count("Write") == 1:
                raise Broken
            yield answer

    proxy.tamper = tamper
    rows = 1_000_000

    async def use(awaited: aio.Client) -> None:
        assert (await awaited.load(table, {"n": pa.array(range(rows), pa.int64())})).rows == rows

    run(proxy.address, use)
    assert proxy.count("Write") == 2
    assert client.query(table).aggregate(count()).collect().scalar() == rows


def test_answers_that_break_off(proxy: Proxy, flights: str) -> None:
    def tamper(method: str, answers: Iterator[bytes]) -> Iterator[bytes]:
        yield from (answer for number, answer in enumerate(answers) if method != "Query" or number < 2)

    proxy.tamper = tamper

    async def use(client: aio.Client) -> None:
        with pytest.raises(basalt.IncompleteAnswer):
            [batch async for batch in await client.query(flights).stream()]

    run(proxy.address, use)


def test_deadlines_and_cancelling(proxy: Proxy, client: basalt.Client, flights: str) -> None:
    def tamper(method: str, answers: Iterator[bytes]) -> Iterator[bytes]:
        if method in ("Query", "Write"):
            time.sleep(0.7)
        return answers

    proxy.tamper = tamper

    async def use(awaited: aio.Client) -> None:
        hasty = awaited.with_deadline(0.1)
        with pytest.raises(basalt.DeadlineExceeded):
            await hasty.query(flights).collect()
        with pytest.raises(basalt.DeadlineExceeded):
            await hasty.load(flights, FLIGHTS)
        begun = time.monotonic()
        for slow in (awaited.query(flights).collect(), awaited.load(flights, FLIGHTS)):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(slow, 0.1)
        assert time.monotonic() - begun < 0.5

    run(proxy.address, use)
    assert len(client.query(flights).collect()) == 6
