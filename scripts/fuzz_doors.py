#!/usr/bin/env python3
"""Spoilt requests at every door. scripts/fuzz-doors runs it.

What is right is spoilt by chance: bytes flipped, cut out, doubled, lengths made huge; of SQL, tokens as well. A finding is
an answer that says INTERNAL, a process that ends, a request that takes longer than its deadline and a margin, or memory
beyond the limit. What was sent before it is kept in a file.
"""

import argparse
import http.client
import json
import pathlib
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MEMORY = 512 << 20
MARGIN = 192 << 20
DEADLINE_S = 2
# A request is answered within its deadline and so much more.
LATE_S = 13
# Requests between two looks at what the server says of itself.
ROUND = 40
NUMBERS = ["0", "-1", "1e308", "-9223372036854775808", "9223372036854775807", "170141183460469231731687303715884105727"]
NUMBERS += ["0.000000000000000001", "99999999999999999999999999999999999999", "NULL", "''", "'\\u0000'", "1/0", "()"]


def spoil(data, others, chance):
    """Bytes with some faults in them."""
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4, 16])):
        at = chance.randrange(len(data) + 1)
        to = min(len(data), at + chance.choice([1, 1, 2, 4, 16, 256]))
        match chance.randrange(8):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 1 if at < len(data):
                data[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
            case 2:
                del data[at:to]
            case 3:
                data[at:at] = data[at:to] * chance.choice([1, 2, 100])
            case 4:
                data[at:to] = struct.pack(chance.choice("<>") + "q", chance.choice([-1, 1 << 31, 1 << 40, 1 << 62, 0]))[: to - at]
            case 5:
                data[at:at] = b"\xff" * chance.choice([1, 4, 9]) + b"\x01"
            case 6:
                del data[at:]
            case 7:
                other = chance.choice(others)
                data[at:to] = other[chance.randrange(len(other) + 1) :][: chance.choice([4, 64, 4096])]
    return bytes(data)


TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|[A-Za-z_][A-Za-z_0-9]*|\d+(?:\.\d+)?|\s+|.", re.DOTALL)


def spoil_sql(statement, others, chance):
    """A statement with some tokens that are not its own, or elsewhere."""
    tokens = TOKEN.findall(statement)
    for _ in range(chance.choice([1, 1, 2, 3, 6])):
        at = chance.randrange(len(tokens) + 1)
        to = min(len(tokens), at + chance.choice([1, 1, 2, 5, 20]))
        match chance.randrange(8):
            case 0:
                del tokens[at:to]
            case 1:
                tokens[at:at] = tokens[at:to]
            case 2 | 3:
                other = TOKEN.findall(chance.choice(others))
                start = chance.randrange(len(other))
                tokens[at:to] = other[start : start + chance.choice([1, 2, 5, 20, 100])]
            case 4:
                tokens[at:to] = [chance.choice(NUMBERS)]
            case 5:
                tokens[at:to] = ["(", *tokens[at:to], ")"] * chance.choice([1, 1, 50])
            case 6:
                tokens[at:to] = chance.sample(tokens[at:to], len(tokens[at:to]))
            case 7:
                other = chance.choice(others)
                tokens[at:to] = [chance.choice([" UNION ALL ", " WHERE EXISTS (", " IN (", " JOIN (", ", ("]), other, ")"]
    return "".join(tokens)[:200_000]


class Server:
    """A server in memory; what it logs are errors."""

    def __init__(self, basalt, folder):
        self.ports = [free_port() for _ in range(3)]
        self.grpc, self.http, self.postgres = self.ports
        self.log = folder / "log"
        command = [basalt, "serve", "--store", "memory:", "--threads", "2", "--memory", str(MEMORY), "--log", "error"]
        for flag, port in zip(("--listen", "--metrics-listen", "--postgres"), self.ports):
            command += [flag, f"127.0.0.1:{port}"]
        command += ["--default-deadline", f"{DEADLINE_S}s", "--max-deadline", f"{DEADLINE_S}s"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log.open("wb"))
        for _ in range(300):
            try:
                if self.get("/readyz")[0] == 200:
                    return
            except OSError:
                time.sleep(0.1)
        sys.exit("the server has not started")

    def request(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=DEADLINE_S + LATE_S)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def get(self, path):
        return self.request("GET", path)

    def sql(self, statement, accept="application/x-ndjson"):
        body = statement.encode("utf-8", "surrogatepass")
        return self.request("POST", "/v1/sql", body, Content_Type="application/sql", Accept=accept)

    def internal(self):
        """Errors that are the server's own."""
        text = self.get("/metrics")[1].decode()
        counts = re.findall(r'^basalt_errors_total\{[^}]*reason="INTERNAL"[^}]*\} (\d+)', text, re.MULTILINE)
        return sum(map(int, counts))

    def answered(self):
        """Requests that were answered well, by method: spoilt ones that get far."""
        text = self.get("/metrics")[1].decode()
        counts = re.findall(r'^basalt_requests_total\{[^}]*method="(\w+)",code="Ok"\} (\d+)', text, re.MULTILINE)
        return ", ".join(f"{method} {int(count):,}" for method, count in counts)

    def resident(self):
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def statements():
    """The statements of the SQL records, and those that make their tables."""
    makes, asks = [], []
    for path in sorted((ROOT / "sql/tests/logic").glob("*.slt")):
        for record in path.read_text().split("\n\n"):
            lines = [line for line in record.splitlines() if not line.startswith("#")]
            if not lines or not lines[0].startswith(("statement", "query")):
                continue
            sql = "\n".join(lines[1:]).split("\n----")[0].strip()
            if sql:
                (makes if lines[0].startswith("statement ok") else asks).append(sql)
    return makes, asks


class Door:
    """Requests at one door, by chance."""

    def __init__(self, server, seeds, seed):
        self.server, self.seeds, self.chance = server, seeds, random.Random(seed)
        self.sent = 0

    def make(self):
        return spoil(self.chance.choice(self.seeds), self.seeds, self.chance)

    def send(self, data):
        raise NotImplementedError


class Sql(Door):
    def make(self):
        statement = spoil_sql(self.chance.choice(self.seeds), self.seeds, self.chance)
        if self.chance.random() < 0.1:
            return spoil(statement.encode(), [seed.encode() for seed in self.seeds[:50]], self.chance)
        return statement.encode("utf-8", "surrogatepass")

    def send(self, data):
        self.server.request("POST", "/v1/sql", data, Content_Type="application/sql", Accept="text/csv")


class Rows(Door):
    """Rows for a table that has a column of most types."""

    def make(self):
        kind, seed = self.chance.choice(self.seeds)
        return kind.encode() + b"\n" + spoil(seed, [other for _, other in self.seeds], self.chance)

    def send(self, data):
        kind, rows = data.split(b"\n", 1)
        self.server.request("POST", "/v1/tables/fuzzed", rows, Content_Type=kind.decode())


class Raw(Door):
    """Bytes at a socket, which are answered or not."""

    def port(self):
        raise NotImplementedError

    def send(self, data):
        with socket.create_connection(("127.0.0.1", self.port()), timeout=1) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            until = time.monotonic() + DEADLINE_S + LATE_S
            try:
                while connection.recv(1 << 16) and time.monotonic() < until:
                    pass
            except TimeoutError:
                # What waits for more of a message than has come is not answered.
                pass


class Postgres(Raw):
    def port(self):
        return self.server.postgres


class Grpc(Raw):
    """A few requests on one connection; messages are spoilt, and now and then frames."""

    def port(self):
        return self.server.grpc

    def make(self):
        requests = [self.chance.choice(self.seeds) for _ in range(4)]
        messages = [message for _, messages in self.seeds for message in messages]
        out = hello()
        for stream, (path, own) in zip((1, 3, 5, 7), requests):
            out += headers(path, stream)
            body = b"".join(framed(spoil(message, messages, self.chance) if self.chance.random() < 0.8 else message) for message in own)
            out += b"".join(frame(0, 0, stream, body[at : at + 16_000]) for at in range(0, len(body), 16_000))
            out += frame(0, 1, stream)
        return spoil(out, messages, self.chance) if self.chance.random() < 0.2 else out


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def hello():
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0)


def headers(path, stream):
    literal = lambda name, value: bytes([0, len(name)]) + name + bytes([len(value)]) + value  # noqa: E731
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"basalt")]
    fields += [(b"content-type", b"application/grpc"), (b"te", b"trailers")]
    return frame(1, 4, stream, b"".join(literal(*field) for field in fields))


def framed(message):
    return b"\0" + len(message).to_bytes(4, "big") + message


def varint(number):
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """A field of protobuf: a number, or what has bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def grpc_seeds(asks, arrow):
    """Requests of most methods, as protobuf has them."""
    column = lambda name: field(1, name)  # noqa: E731
    number = lambda value: field(2, field(3, value << 1))  # noqa: E731
    compare = lambda op: field(4, field(1, op) + field(2, column("id")) + field(3, number(500)))  # noqa: E731
    both = field(1, field(1, compare(3)) + field(1, field(7, column("name"))))
    total = field(4, field(1, 2) + field(2, column("id")))
    query = field(1, "fuzzed") + field(2, field(1, total)) + field(3, both) + field(4, column("name")) + field(7, 10)
    # Type 7: four ids in an order, as core/sip/FORMAT.md has them, or nearly: they are spoilt anyway.
    sip = bytes([0x07, 4, 1, 2, 3, 4])
    schema = field(1, field(1, "a") + field(2, field(1, 4))) + field(1, field(1, "b") + field(2, field(1, 13)) + field(3, 1))
    ints = field(3, field(1, struct.pack("<4i", 1, 2, 3, 4)))
    batch = field(2, field(1, 1) + field(2, field(1, 4) + field(2, ints)))
    v1 = b"/basalt.v1."
    flight = b"/arrow.flight.protocol.FlightService/"
    command = lambda kind, value: field(1, f"type.googleapis.com/arrow.flight.protocol.sql.{kind}") + field(2, value)  # noqa: E731
    described = lambda kind, value: field(1, 2) + field(2, command(kind, value))  # noqa: E731
    prepare = command("ActionCreatePreparedStatementRequest", field(1, asks[0]))
    return [
        *((flight + b"GetFlightInfo", [described("CommandStatementQuery", field(1, ask))]) for ask in asks[:10]),
        (flight + b"GetSchema", [described("CommandStatementQuery", field(1, asks[0]))]),
        (flight + b"GetFlightInfo", [described("CommandGetTables", field(3, "f%") + field(5, 1))]),
        (flight + b"DoGet", [field(1, command("CommandGetTables", field(3, "f%") + field(5, 1)))]),
        (flight + b"DoAction", [field(1, "CreatePreparedStatement") + field(2, prepare)]),
        (flight + b"DoPut", [field(1, described("CommandStatementUpdate", field(1, "DELETE FROM made")))]),
        (v1 + b"QueryService/Query", [query]),
        (v1 + b"QueryService/Select", [field(1, "fuzzed") + field(2, compare(4))]),
        (v1 + b"QueryService/Explain", [field(1, query) + field(2, 1)]),
        *((v1 + b"SqlService/Query", [field(1, ask) + field(2, field(3, 4))]) for ask in asks[:20]),
        (v1 + b"SipService/Put", [field(1, field(1, "fuzzed")) + field(2, sip) + field(3, 1000)]),
        (v1 + b"CatalogService/CreateTable", [field(1, "made") + field(2, schema)]),
        (v1 + b"CatalogService/GetTable", [field(1, "fuzzed") + field(2, 2)]),
        (v1 + b"CatalogService/ListTables", [field(1, 10)]),
        (v1 + b"IngestService/Write", [field(1, field(1, "made")), batch, field(3, field(1, 1) + field(2, 4))]),
        (v1 + b"IngestService/Write", [field(1, field(1, "fuzzed")), field(2, field(1, 1) + field(3, arrow)), field(3, field(1, 1))]),
        (v1 + b"IngestService/Delete", [field(1, "made") + field(2, compare(1))]),
    ]


def postgres_seeds(asks):
    """Sessions: what a client says, from the beginning on."""
    message = lambda kind, body: kind + struct.pack(">i", len(body) + 4) + body  # noqa: E731
    start = struct.pack(">i", 196608) + b"user\0fuzz\0database\0fuzz\0\0"
    start = struct.pack(">i", len(start) + 4) + start
    out = []
    for ask in asks[:200]:
        text = ask.encode() + b"\0"
        simple = message(b"Q", text)
        extended = message(b"P", b"s\0" + text + struct.pack(">h", 0)) + message(b"D", b"Ss\0")
        extended += message(b"B", b"\0s\0" + struct.pack(">hhhh", 0, 0, 1, 1)) + message(b"E", b"\0" + struct.pack(">i", 5))
        extended += message(b"S", b"")
        out.append(start + simple + extended + message(b"X", b""))
    copy = message(b"Q", b"COPY fuzzed FROM STDIN\0") + message(b"d", b"1\tx\t2\t3\n" * 3) + message(b"c", b"")
    return [*out, start + copy]


def look(server, before):
    """What is wrong with a server, or nothing."""
    if server.process.poll() is not None:
        return f"the process ended: {server.process.returncode}"
    if server.resident() > MEMORY + MARGIN:
        return f"{server.resident() >> 20} MiB in memory"
    now = server.internal()
    return f"{now - before} answers are INTERNAL" if now > before else None


def try_door(name, door, until, findings):
    """Sends until the time is over, or something was found."""
    server, recent = door.server, []
    before = server.internal()
    while time.monotonic() < until and not findings:
        data = door.make()
        recent = [*recent[1 - ROUND :], data]
        started = time.monotonic()
        try:
            door.send(data)
        except TimeoutError:
            findings.append((name, "no answer in time", [data]))
        except (OSError, http.client.HTTPException):
            # The server may well close what it does not understand.
            pass
        door.sent += 1
        if time.monotonic() - started > DEADLINE_S + LATE_S:
            findings.append((name, "took too long", [data]))
        if door.sent % ROUND == 0 or time.monotonic() >= until:
            try:
                wrong = look(server, before)
            except (OSError, StopIteration, http.client.HTTPException) as error:
                wrong = f"the server does not say how it is: {error!r}"
            if wrong:
                findings.append((name, wrong, recent))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("basalt")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--doors", default="sql,rows,postgres,grpc")
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("/tmp/basalt-fuzz"))
    arguments = parser.parse_args()
    makes, asks = statements()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(arguments.basalt, pathlib.Path(folder))
        try:
            for make in makes:
                server.sql(make)
            server.sql(
                """CREATE TABLE fuzzed AS SELECT range AS id, 'n' || range % 7 AS name, range / 3.0 AS f, range % 2 = 0 AS b,
                DATE '2024-01-01' + range::INTEGER AS d, range::DECIMAL(12,2) AS p FROM range(1000)"""
            )
            kinds = ["text/csv", "application/x-ndjson", "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"]
            rows = [(kind, server.sql("SELECT * FROM fuzzed LIMIT 50", kind)[1]) for kind in kinds]
            doors = {
                "sql": lambda: Sql(server, makes + asks, arguments.seed),
                "rows": lambda: Rows(server, rows, arguments.seed + 1),
                "postgres": lambda: Postgres(server, postgres_seeds(asks), arguments.seed + 2),
                "grpc": lambda: Grpc(server, grpc_seeds(asks, rows[2][1]), arguments.seed + 3),
            }
            doors = {name: doors[name]() for name in arguments.doors.split(",")}
            findings, until = [], time.monotonic() + 60 * arguments.minutes
            threads = [
                threading.Thread(target=try_door, args=(name, door, until, findings), daemon=True)
                for name, door in doors.items()
            ]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                time.sleep(1)
                if sys.stderr.isatty():
                    print("\r" + ", ".join(f"{name} {door.sent:,}" for name, door in doors.items()), end="", file=sys.stderr)
            print(f"seed {arguments.seed}: " + ", ".join(f"{name} {door.sent:,}" for name, door in doors.items()))
            if server.process.poll() is None:
                print(f"answered well: {server.answered()}")
            for number, (name, what, inputs) in enumerate(findings):
                arguments.keep.mkdir(parents=True, exist_ok=True)
                for at, data in enumerate(inputs):
                    (arguments.keep / f"{arguments.seed}-{number}-{name}-{at}").write_bytes(data)
                print(f"{name}: {what}; what was sent is in {arguments.keep}/{arguments.seed}-{number}-{name}-*")
            log = server.log.read_text(errors="replace")
            panics = [line for line in log.splitlines() if "panicked" in line]
            print("\n".join(panics[:10]))
        finally:
            server.process.kill()
            server.process.wait()
    sys.exit(1 if findings or panics else 0)


main()
