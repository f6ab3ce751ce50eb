"""What must always be answered, asked for once a second beside a load: health, metrics, and a delete by keys.

Each question comes on a connection of its own, at a time that is fixed beforehand, from which its latency counts; gRPC is
spoken by hand, so that no client of ours has a share in it.
"""

import http.client
import socket
import struct
import threading
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
END_STREAM, END_HEADERS, ACK = 1, 4, 1
TIMEOUT = 10.0
# Keys that one delete takes away.
KEYS = 10


class Failed(Exception):
    """No answer, or not the one that was due."""


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def header(name, value):
    """A header as HPACK writes it that is in no table."""
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, payload):
    """A field of protobuf that holds bytes."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def numbers_of(message):
    """The numbers among the fields of a message."""
    found, at = {}, 0

    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = read()
        if key & 7 != 0:
            raise Failed("an answer of other fields")
        found[key >> 3] = read()
    return found


def exactly(connection, length):
    out = b""
    while len(out) < length:
        more = connection.recv(length - len(out))
        if not more:
            raise Failed("the connection ended")
        out += more
    return out


def unary(port, path, message):
    """The message that answers a call of gRPC. An error has none."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"basalt")]
        fields += [(b"content-type", b"application/grpc"), (b"te", b"trailers")]
        head = frame(HEADERS, END_HEADERS, 1, b"".join(header(*pair) for pair in fields))
        body = frame(DATA, END_STREAM, 1, b"\0" + len(message).to_bytes(4, "big") + message)
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + head + body)
        answer, ends = b"", False
        while not ends:
            prefix = exactly(connection, 9)
            length, kind, flags = int.from_bytes(prefix[:3], "big"), prefix[3], prefix[4]
            (stream,) = struct.unpack(">I", prefix[5:])
            payload = exactly(connection, length)
            if kind == SETTINGS and not flags & ACK:
                connection.sendall(frame(SETTINGS, ACK, 0))
            elif kind in (RST_STREAM, GOAWAY):
                raise Failed("the call was reset")
            elif kind == DATA and stream == 1:
                answer += payload
            ends = stream == 1 and kind in (DATA, HEADERS) and bool(flags & END_STREAM)
    if len(answer) < 5:
        raise Failed("an error")
    return answer[5:]


class Health:
    """Whether the server serves, as a probe of Kubernetes asks."""

    name = "health"

    def __init__(self, port):
        self.port = port

    def ask(self):
        if numbers_of(unary(self.port, b"/grpc.health.v1.Health/Check", b"")).get(1) != 1:
            raise Failed("it does not serve")


class Metrics:
    """The metrics, as Prometheus asks for them."""

    name = "metrics"

    def __init__(self, port):
        self.port = port

    def ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            if answer.status != 200 or b"basalt_requests_total" not in answer.read():
                raise Failed(f"HTTP {answer.status}")
        except http.client.HTTPException as error:
            raise Failed(str(error)) from error
        finally:
            connection.close()


class Delete:
    """Rows of a table, by their keys: each delete finds all of its own."""

    name = "delete"

    def __init__(self, port, table, column):
        self.port, self.table, self.column, self.next = port, table.encode(), column.encode(), 0

    def ask(self):
        keys = range(self.next, self.next + KEYS)
        self.next += KEYS
        # Value.int is sint64: twice a number that is not negative.
        values = b"".join(field(2, varint(3 << 3) + varint(2 * key)) for key in keys)
        among = field(6, field(1, field(1, self.column)) + values)
        request = field(1, self.table) + field(2, among)
        deleted = numbers_of(unary(self.port, b"/basalt.v1.IngestService/Delete", request)).get(2, 0)
        if deleted != KEYS:
            raise Failed(f"{deleted} rows were deleted, not {KEYS}")


class Prober(threading.Thread):
    """Asks one question once a second until it is told to end."""

    def __init__(self, question):
        super().__init__(daemon=True)
        self.question, self.ended = question, threading.Event()
        self.latencies, self.failures = [], []

    def run(self):
        due = time.monotonic()
        while not self.ended.is_set():
            try:
                self.question.ask()
                self.latencies.append(time.monotonic() - due)
            except (Failed, OSError, IndexError) as error:
                self.failures.append(f"{type(error).__name__}: {error}")
            # What was due meanwhile is asked late, and has waited.
            due += 1.0
            self.ended.wait(max(0.0, due - time.monotonic()))

    def p99(self):
        """In milliseconds; of fewer than a hundred it is the longest."""
        ordered = sorted(self.latencies)
        return f"{1000 * ordered[int(0.99 * len(ordered))]:.1f}" if ordered else ""


class Beside:
    """Asks all questions beside what is done in it."""

    def __init__(self, questions):
        self.probers = [Prober(question) for question in questions]

    def __enter__(self):
        for prober in self.probers:
            prober.start()
        return self

    def __exit__(self, *_):
        for prober in self.probers:
            prober.ended.set()
        for prober in self.probers:
            prober.join(2 * TIMEOUT)

    def failures(self):
        return [f"{prober.question.name}: {failure}" for prober in self.probers for failure in prober.failures]
