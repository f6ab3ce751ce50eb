"""The transport of the asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
import grpc.aio

from . import _proto as pb
from ._blocking import BlockingTransport, run
from ._credentials import Target
from ._rpc import Duplex, channel_options
from .errors import InvalidConnection, from_rpc
from .options import Options

T = TypeVar("T")


class AsyncTransport:
    """See `_rpc.Transport`."""

    def __init__(self, target: Target, options: Options) -> None:
        settings = channel_options(options)
        if target.tls is None:
            self._channel = grpc.aio.insecure_channel(target.authority, settings)
        else:
            self._channel = grpc.aio.secure_channel(target.authority, target.tls, settings)
        self._target = target
        self._is_closed = False
        self._options = options
        self._blocking: BlockingTransport | None = None

    async def unary(self, method: pb.Method, request: Any, timeout: float) -> Any:
        call = self._open().unary_unary(method.path, method.serialize, method.parse)
        try:
            return await call(request, timeout=timeout, metadata=self._target.metadata)
        except grpc.RpcError as error:
            raise from_rpc(error, self._target.url) from None

    def streaming(self, method: pb.Method, request: Any, timeout: float) -> _Answer:
        call = self._open().unary_stream(method.path, method.serialize, method.parse)
        return _Answer(call(request, timeout=timeout, metadata=self._target.metadata), self._target.url)

    def duplex(self, method: pb.Method) -> _InThreads:
        # Where a server ends a call while a message is on its way, grpc.aio reports an internal error in place of the
        # server's own: nobody would learn which row is wrong. The blocking channel reports the server's.
        self._open()
        if self._blocking is None:
            self._blocking = BlockingTransport(self._target, self._options)
        return _InThreads(self._blocking.duplex(method))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def work(self, function: Callable[[], T]) -> T:
        return await asyncio.to_thread(function)

    async def close(self) -> None:
        self._is_closed = True
        await self._channel.close()
        if self._blocking is not None:
            await self._blocking.close()

    def _open(self) -> grpc.aio.Channel:
        if self._is_closed:
            raise InvalidConnection("the client is closed")
        return self._channel


class _Answer:
    """A call that is answered by a stream: see `_rpc.Call`."""

    def __init__(self, call: Any, url: str) -> None:
        self._call = call
        self._url = url

    async def read(self) -> Any:
        try:
            message = await self._call.read()
        except grpc.RpcError as error:
            raise from_rpc(error, self._url) from None
        return None if message is grpc.aio.EOF else message

    def cancel(self) -> None:
        self._call.cancel()


class _InThreads:
    """A blocking call with streams in both directions, whose answers another thread waits for: see `_rpc.Duplex`."""

    def __init__(self, call: Duplex) -> None:
        self._call = call

    async def read(self, timeout: float | None = None) -> Any:
        # Whoever cancels the waiting task cancels the call too, so that the thread does not wait for longer.
        return await asyncio.to_thread(lambda: run(self._call.read(timeout)))

    async def write(self, message: Any) -> None:
        await self._call.write(message)

    async def done_writing(self) -> None:
        await self._call.done_writing()

    def cancel(self) -> None:
        self._call.cancel()
