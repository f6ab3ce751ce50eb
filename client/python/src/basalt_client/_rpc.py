"""What every call has in common, for blocking and asynchronous clients alike.

Everything that the clients do is written once, as coroutines over a `Transport`. The blocking transport's coroutines
block the thread in place of waiting for an event loop, so `_blocking.run` finishes any of them in a single step.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from . import _proto as pb
from .errors import BasaltError, ConnectionFailed, DeadlineExceeded, add_note
from .options import Options, jittered

T = TypeVar("T")

# The longest wait, in seconds, between two questions whether a server has started.
_STARTING_DELAY = 1.0


class Call(Protocol):
    """A call that is answered by a stream."""

    async def read(self) -> Any:
        """The next message; `None` where the server has ended the stream well."""

    def cancel(self) -> None:
        """Gives the call up, unless it is over."""


class Duplex(Protocol):
    """A call with streams in both directions, which takes as long as it takes."""

    async def read(self, timeout: float | None = None) -> Any:
        """The next message, at most so many seconds later; `None` where the server has ended the stream well."""

    async def write(self, message: Any) -> None:
        """Sends a message, which may wait in memory. Where the server listens no longer, `read` says why."""

    async def done_writing(self) -> None:
        """Says that no further message comes."""

    def cancel(self) -> None:
        """Gives the call up, unless it is over."""


class Transport(Protocol):
    """A channel. Errors are `BasaltError`s."""

    async def unary(self, method: pb.Method, request: Any, timeout: float) -> Any:
        """The answer to one message."""

    def streaming(self, method: pb.Method, request: Any, timeout: float) -> Call:
        """A call that is answered by a stream."""

    def duplex(self, method: pb.Method) -> Duplex:
        """A call with streams in both directions."""

    async def sleep(self, seconds: float) -> None:
        """Waits."""

    async def work(self, function: Callable[[], T]) -> T:
        """Runs a function that may read files and take long."""

    async def close(self) -> None:
        """Ends the connection."""


@dataclass(frozen=True)
class Connection:
    """A transport, and how to make calls over it."""

    transport: Transport
    address: str
    options: Options
    # What the server said of itself, which is asked once; shared by all connections over the transport.
    known: dict[str, Any] = field(default_factory=dict)

    def with_options(self, options: Options) -> Connection:
        return replace(self, options=options)

    async def once(self, name: str, request: Any) -> Any:
        """Makes a call that may have an effect each time that it is made; not repeated once it was begun."""
        return await self.when_started(lambda call: call._unary(name, request))

    async def ask(self, name: str, request: Any) -> Any:
        """Makes a call that may be repeated, since it has no effect or the same effect twice."""
        return await self.retrying(lambda call: call._unary(name, request))

    async def _unary(self, name: str, request: Any) -> Any:
        return await self.transport.unary(pb.METHODS[name], request, self.options.deadline)

    async def when_started(self, attempt: Callable[[Connection], Awaitable[T]]) -> T:
        """Runs `attempt` once, and again where the server does nothing yet because it loads its tables."""
        return await self._repeat(attempt, only_starting=True, bounded=True)

    async def retrying(self, attempt: Callable[[Connection], Awaitable[T]], *, bounded: bool = True) -> T:
        """Runs `attempt` until it succeeds, fails with an error that is not retryable, or the tries are used up.

        All within the deadline: `attempt` is given a connection with what is left of it. Where it is not `bounded`
        every try has the deadline for itself. A server that starts is waited for as long as the deadline is.
        """
        return await self._repeat(attempt, only_starting=False, bounded=bounded)

    async def _repeat(self, attempt: Callable[[Connection], Awaitable[T]], *, only_starting: bool, bounded: bool) -> T:
        retry, begun = self.options.retry, time.monotonic()
        until = begun + self.options.deadline
        tries, waits, call = 0, 0, self
        while True:
            try:
                return await attempt(call)
            except BasaltError as error:
                is_starting = error.reason == "STARTING" and retry.tries > 1
                if is_starting:
                    waits += 1
                    delay: float | None = min(retry.back_off(waits), _STARTING_DELAY)
                else:
                    tries += 1
                    delay = None if only_starting else retry.delay(error, tries)
                if delay is None:
                    raise
                delay = jittered(delay)
                left = until - time.monotonic() - delay
                # What cannot be answered in time is not waited for.
                if left <= 0 and (bounded or is_starting):
                    if is_starting:
                        add_note(error, f"it was waited for {time.monotonic() - begun:.1f} seconds")
                    raise
            await self.transport.sleep(delay)
            call = self.with_options(replace(self.options, deadline=left)) if bounded else self

    async def server_info(self) -> Any:
        """The server's `GetServerInfoResponse`."""
        if "info" not in self.known:
            self.known["info"] = await self.ask("CatalogService.GetServerInfo", pb.GetServerInfoRequest())
        return self.known["info"]

    async def check(self) -> None:
        """Asks the server once, so that a wrong address or key is an error where the client is made."""
        name, timeout = "CatalogService.GetServerInfo", self.options.connect_timeout

        async def attempt(call: Connection) -> Any:
            return await call.transport.unary(pb.METHODS[name], pb.GetServerInfoRequest(), timeout)

        try:
            self.known["info"] = await self.when_started(attempt)
        except DeadlineExceeded:
            message = f"no connection to {self.address}: nothing answered within {timeout:g} seconds"
            raise ConnectionFailed(message) from None


def channel_options(options: Options) -> list[tuple[str, Any]]:
    """The settings of a channel, of either kind."""
    connect_ms = int(options.connect_timeout * 1000)
    return [
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.max_send_message_length", -1),
        # This client has its own rules. gRPC's would go on until the deadline where a port speaks another protocol.
        ("grpc.enable_retries", 0),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        # Shorter than this client's waits between tries, so that each try looks for the server again.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", connect_ms),
        ("grpc.max_reconnect_backoff_ms", 1_000),
        # Proxies that the environment names are for the web, and do not reach servers of the local network.
        ("grpc.enable_http_proxy", 0),
    ]
