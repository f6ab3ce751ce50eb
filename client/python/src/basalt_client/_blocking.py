"""The transport of the blocking client."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import grpc

from . import _proto as pb
from ._credentials import Target
from ._rpc import channel_options
from .errors import Cancelled, DeadlineExceeded, InvalidConnection, from_rpc
from .options import Options

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine over a `BlockingTransport`, in which nothing waits for an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise AssertionError("a coroutine over a blocking transport waits")


class BlockingTransport:
    """See `_rpc.Transport`."""

    def __init__(self, target: Target, options: Options) -> None:
        settings = channel_options(options)
        if target.tls is None:
            self._channel = grpc.insecure_channel(target.authority, settings)
        else:
            self._channel = grpc.secure_channel(target.authority, target.tls, settings)
        self._target = target
        self._is_closed = False

    async def unary(self, method: pb.Method, request: Any, timeout: float) -> Any:
        call = self._open().unary_unary(method.path, method.serialize, method.parse)
        future = None
        try:
            # A future, because Ctrl-C would leave a plain call running at the server.
            future = call.future(request, timeout=timeout, metadata=self._target.metadata)
            return future.result()
        except grpc.RpcError as error:
            raise from_rpc(error, self._target.url) from None
        finally:
            if future is not None:
                future.cancel()

    def streaming(self, method: pb.Method, request: Any, timeout: float) -> _Answer:
        call = self._open().unary_stream(method.path, method.serialize, method.parse)
        return _Answer(call(request, timeout=timeout, metadata=self._target.metadata), self._target.url)

    def duplex(self, method: pb.Method) -> _Duplex:
        call = self._open().stream_stream(method.path, method.serialize, method.parse)
        # gRPC takes what is to be sent from an iterator, in a thread of its own; `None` ends it.
        requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        answers = call(iter(requests.get, None), metadata=self._target.metadata)
        return _Duplex(_Answer(answers, self._target.url), requests)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def work(self, function: Callable[[], T]) -> T:
        return function()

    async def close(self) -> None:
        self._is_closed = True
        self._channel.close()

    def _open(self) -> grpc.Channel:
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
            return next(self._call, None)
        except grpc.RpcError as error:
            raise from_rpc(error, self._url) from None

    def cancel(self) -> None:
        self._call.cancel()


class _Duplex:
    """A call with streams in both directions: see `_rpc.Duplex`."""

    def __init__(self, answer: _Answer, requests: queue.SimpleQueue[Any]) -> None:
        self._answer = answer
        self._requests = requests

    async def read(self, timeout: float | None = None) -> Any:
        if timeout is None:
            return await self._answer.read()
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self.cancel()

        timer = threading.Timer(timeout, give_up)
        timer.daemon = True
        timer.start()
        try:
            return await self._answer.read()
        except Cancelled:
            if not late.is_set():
                raise
            raise DeadlineExceeded("the deadline passed before the server answered") from None
        finally:
            timer.cancel()

    async def write(self, message: Any) -> None:
        self._requests.put(message)

    async def done_writing(self) -> None:
        self._requests.put(None)

    def cancel(self) -> None:
        self._answer.cancel()
        self._requests.put(None)
