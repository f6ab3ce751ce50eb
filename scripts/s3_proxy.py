"""A proxy before an S3 store that makes faults by chance: what scripts/s3_faults.py puts between servers and SeaweedFS."""

import asyncio
import collections
import contextlib
import dataclasses
import random
import re
import socket
import struct
import threading
import time
import urllib.parse

# Seconds up to which a request is passed on behind its reset, and a slow one waits.
LATE_S, DELAY_S = 6, 1.5
# Of the versions of tables, and of the journal that names these.
FOLDERS = ["/_delta_log/", "/catalog/"]
REFUSALS = {
    "slow down": (b"503 Service Unavailable", b"SlowDown", b"Please reduce your request rate."),
    "failed": (b"500 Internal Server Error", b"InternalError", b"We encountered an internal error. Please try again."),
    "failed after": (b"500 Internal Server Error", b"InternalError", b"We encountered an internal error. Please try again."),
    "conflict": (b"409 Conflict", b"ConditionalRequestConflict", b"A conflicting operation occurred."),
}
KINDS = {
    "reset": "the connection is reset before the request is passed on",
    "lost": "the request is passed on, and the connection reset before an answer",
    "late": "the connection is reset, and the request passed on up to six seconds later",
    "half": "the answer ends in the middle, by a reset",
    "slow down": "503 SlowDown; the request is not passed on",
    "failed": "500; the request is not passed on",
    "failed after": "500; the request was passed on",
    "conflict": "409 of a PUT with If-None-Match, which is not passed on",
    "delay": "the request waits up to 1.5 seconds",
    "stall": "the request waits longer than the client does; it is passed on before or after the client has gone",
}


@dataclasses.dataclass
class Mood:
    """What goes wrong for a while: kinds with their shares of the requests, of all or of conditional PUTs below a folder."""

    name: str
    shares: dict
    folder: str = ""


CALM = Mood("calm", {})


def mood_of(chance):
    """A mood by chance."""
    form, kinds = chance.random(), list(KINDS)
    if form < 0.2:
        return CALM
    if form < 0.45:
        return Mood("light", dict.fromkeys(kinds, 0.004))
    if form < 0.6:
        return Mood("heavy", dict.fromkeys(kinds, 0.02))
    if form < 0.7:
        kind = chance.choice(kinds)
        return Mood(f"often {kind}", {kind: 0.4})
    if form < 0.92:
        kind, folder = (
            chance.choice(["lost", "late", "late", "failed after", "conflict", "stall", "reset"]),
            chance.choice(FOLDERS),
        )
        return Mood(f"{folder} {kind}", {kind: 0.7}, folder)
    kind = chance.choice(["reset", "slow down", "lost", "failed"])
    return Mood(f"outage {kind}", {kind: 1.0})


class Door:
    """An address of the proxy, for one server: its mood, and what it has done."""

    def __init__(self, proxy):
        self.proxy, self.mood = proxy, CALM
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def fault(self, what, path):
        if self.mood.folder and (what != "create" or self.mood.folder not in path):
            return None
        draw = self.proxy.random.random()
        for kind, share in self.mood.shares.items():
            draw -= share
            if draw < 0:
                # A conflict is said of conditional PUTs alone; what only reads is as good late as lost.
                if kind == "conflict" and what != "create":
                    return "slow down"
                return "reset" if kind == "late" and what not in ("create", "put", "delete") else kind
        return None


class Proxy:
    """Doors to one store, served by a thread."""

    def __init__(self, store, seed, timeout):
        parts = urllib.parse.urlsplit(store)
        self.store, self.timeout = (parts.hostname, parts.port), timeout
        self.random = random.Random(f"proxy {seed}")
        self.requests, self.faults, self.landed = collections.Counter(), collections.Counter(), collections.Counter()
        self.waiting, self.journal, self.running = set(), None, set()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def door(self):
        door = Door(self)
        begin = asyncio.start_server(lambda r, w: self.serve(door, r, w), sock=door.listener, limit=1 << 20)
        door.server = asyncio.run_coroutine_threadsafe(begin, self.loop).result()
        return door

    def close(self, door):
        self.loop.call_soon_threadsafe(door.server.close)

    def drained(self):
        """Waits until what was kept back has been passed on."""
        while self.waiting:
            time.sleep(0.1)

    def note(self, *what):
        if self.journal:
            print(f"{time.time():.3f}", "store", *what, file=self.journal)

    async def serve(self, door, reader, writer):
        task = asyncio.current_task()
        self.running.add(task)
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                await self.one(door, head, await body_of(reader, head), writer)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()
        finally:
            self.running.discard(task)

    async def one(self, door, head, body, writer):
        """One request: passed on, or what a fault makes of it."""
        what, path = kind_of(head)
        kind = door.fault(what, path)
        self.requests[what] += 1
        if kind:
            self.faults[kind, what] += 1
            self.note(door.mood.name, kind, what, path)
        match kind:
            case "reset":
                reset(writer)
            case "late":
                reset(writer)
                self.later(self.random.uniform(0, LATE_S), head, body, what, path)
            case "stall":
                passed = self.later(self.random.uniform(0, 2 * self.timeout), head, body, what, path)
                await asyncio.wait([passed], timeout=2 * self.timeout)
                await asyncio.sleep(self.timeout)
                reset(writer)
            case "slow down" | "failed" | "conflict":
                await send(writer, refusal(kind))
            case "failed after":
                await self.passed(head, body, what, path)
                await send(writer, refusal(kind))
            case "lost":
                await self.passed(head, body, what, path)
                reset(writer)
            case _:
                if kind == "delay":
                    await asyncio.sleep(self.random.uniform(0, DELAY_S))
                answer, ends = await self.passed(head, body, what, path)
                if answer is None:
                    reset(writer)
                elif kind == "half":
                    await send(writer, answer[: self.random.randrange(len(answer))])
                    await asyncio.sleep(0.02)
                    reset(writer)
                else:
                    await send(writer, answer)
                    if ends:
                        writer.close()

    def later(self, seconds, head, body, what, path):
        async def passed():
            await asyncio.sleep(seconds)
            await self.passed(head, body, what, path, late=True)

        task = asyncio.ensure_future(passed())
        self.waiting.add(task)
        task.add_done_callback(self.waiting.discard)
        return task

    async def passed(self, head, body, what, path, late=False):
        """The store's answer, and whether the connection ends with it; None where it gave none."""
        try:
            reader, writer = await asyncio.open_connection(*self.store, limit=1 << 20)
            writer.write(head + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            status = int(answer.split(b" ", 2)[1])
            ends = re.search(rb"\r\ncontent-length:|\r\ntransfer-encoding:", answer, re.I) is None
            if what == "head" or status in (204, 304):
                ends = False
            elif ends:
                answer += await reader.read()
            else:
                answer += await body_of(reader, answer)
            writer.close()
        except (asyncio.IncompleteReadError, OSError) as error:
            self.note("the store itself", repr(error), what, path)
            self.faults["of the store itself", what] += 1
            return None, True
        if late:
            self.landed[what, status] += 1
        if what in ("create", "delete") or late:
            self.note("late" if late else "passed", what, path, status)
        return answer, ends


async def body_of(reader, head):
    """The bytes behind a head, as they stand on the wire."""
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.I)
    if length:
        return await reader.readexactly(int(length[1]))
    if not re.search(rb"\r\ntransfer-encoding: *chunked", head, re.I):
        return b""
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        body += line + await reader.readexactly(size + 2)
        if size == 0:
            return body


def kind_of(head):
    """What a request does, and to which object."""
    method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
    path, _, query = target.partition("?")
    path = urllib.parse.unquote(path)
    if method == "PUT" and re.search(rb"\r\nif-none-match:", head, re.I):
        return "create", path
    if method == "GET" and "list-type" in query:
        prefix = urllib.parse.parse_qs(query).get("prefix", [""])
        return "list", prefix[0]
    if method == "POST" and "delete" in query:
        return "delete", path
    return method.lower(), path


def refusal(kind):
    status, code, message = REFUSALS[kind]
    body = b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>%s</Code><Message>%s</Message></Error>' % (code, message)
    return b"HTTP/1.1 %s\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


async def send(writer, data):
    writer.write(data)
    await writer.drain()


def reset(writer):
    """Ends a connection by a reset."""
    linger = struct.pack("ii", 1, 0)
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()
