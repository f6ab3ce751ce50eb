#!/usr/bin/env python3
"""Copies the durable tables of a store, whole or what is new since the last copy, while servers read and write it, and
puts them back. It needs Python 3.9 and nothing else, and asks no server.

    deploy/backup backup STORE BACKUPS                       a backup of all tables; files that are there are not copied again
    deploy/backup backup STORE BACKUPS --table T [--version N]
    deploy/backup list BACKUPS
    deploy/backup verify BACKUPS [ID]                        reads every file of one backup, or of all, and compares
    deploy/backup restore BACKUPS STORE [--id ID] [--table T [--version N]]
    deploy/backup prune BACKUPS --keep N                     forgets what is older than the last N of all tables, and removes
                                                             what only that has

STORE and BACKUPS are folders, or s3://bucket/prefix with the server's variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_SESSION_TOKEN, AWS_REGION and AWS_ENDPOINT_URL.

How a backup is consistent: of each table one version is copied, the newest when the backup began. A file below
_basalt_pins/ of the table's folder pins it: no server removes what a pinned version needs while the pin is renewed. Only
then are the folder's files listed; those that the version has are copied first, its log after them. All tables are pinned
before the first is copied, so their versions are of the same moment, give or take what pinning takes. The list of a
backup's files, with sizes and checksums, is written last: a backup that was cut off is none.
"""

import argparse
import concurrent.futures
import contextlib
import datetime
import hashlib
import hmac
import http.client
import json
import os
import pathlib
import re
import secrets
import signal
import struct
import sys
import threading
import time
import urllib.parse
import xml.etree.ElementTree
import zlib

FORMAT = "basalt-backup/1"
PIECE = 1 << 20
# A pin counts for three minutes after it was written; see storage/src/limits.rs.
PIN_LEASE, PIN_RENEWAL = 180, 30
LOG = "_delta_log"
PINS = "_basalt_pins"
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
COMMIT = re.compile(r"(\d{20})\.json")
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")


class Failure(Exception):
    """What ends the program, with a sentence for a person."""


class Gone(Failure):
    """A file that a version needs is not there."""


# Where files are.


class Folder:
    """A local folder. Writes are atomic, and synced."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.url = str(self.root)

    def list(self, prefix):
        """Sizes of all files below a folder, by their paths from the root."""
        found = {}
        for folder, _, names in os.walk(self.root / prefix):
            for name in names:
                path = os.path.join(folder, name)
                with contextlib.suppress(FileNotFoundError):
                    found[os.path.relpath(path, self.root)] = os.stat(path).st_size
        return found

    @contextlib.contextmanager
    def open(self, path):
        with open(self.root / path, "rb") as file:
            yield file

    def modified(self, path):
        return os.stat(self.root / path).st_mtime

    def put(self, path, pieces, size=None, modified=None):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            with open(temporary, "xb") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            if modified is not None:
                os.utime(temporary, (modified, modified))
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def sync(self, paths):
        """The names of files that were written outlive a crash."""
        folders = {folder for path in paths for folder in (self.root / path).parents if folder >= self.root}
        for folder in folders | {self.root.parent}:
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def delete(self, path):
        (self.root / path).unlink(missing_ok=True)

    def clean(self):
        """Removes what a program that was killed has left, and folders without files."""
        for folder, _, names in os.walk(self.root, topdown=False):
            for name in names:
                if name.startswith(".") and name.endswith(".tmp"):
                    os.unlink(os.path.join(folder, name))
            if folder != str(self.root):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)

    @contextlib.contextmanager
    def lock(self):
        import fcntl

        self.root.mkdir(parents=True, exist_ok=True)
        with open(self.root / "lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Failure(f"another backup, restore or prune works in {self.url}") from None
            yield


class Bucket:
    """A prefix of a bucket of an S3-compatible store, asked with requests that are signed by version 4 of AWS."""

    def __init__(self, url):
        self.url = url.rstrip("/")
        bucket, _, self.prefix = self.url[len("s3://") :].partition("/")
        variable = os.environ.get
        self.region = variable("AWS_REGION") or variable("AWS_DEFAULT_REGION") or "us-east-1"
        self.key, self.secret = variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")
        self.token = variable("AWS_SESSION_TOKEN")
        if not (self.key and self.secret):
            raise Failure("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")
        endpoint = variable("AWS_ENDPOINT_URL") or variable("AWS_ENDPOINT")
        self.path = f"/{bucket}" if endpoint else ""
        endpoint = urllib.parse.urlsplit(endpoint or f"https://{bucket}.s3.{self.region}.amazonaws.com")
        self.host, self.secure = endpoint.netloc, endpoint.scheme == "https"
        self.local = threading.local()

    def _connection(self):
        if getattr(self.local, "connection", None) is None:
            kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
            self.local.connection = kind(self.host, timeout=60)
        return self.local.connection

    def _sign(self, method, path, query, headers):
        now = datetime.datetime.now(datetime.timezone.utc)
        stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        headers.update({"host": self.host, "x-amz-date": stamp, "x-amz-content-sha256": "UNSIGNED-PAYLOAD"})
        if self.token:
            headers["x-amz-security-token"] = self.token
        signed = ";".join(sorted(headers))
        lines = [f"{name}:{headers[name]}\n" for name in sorted(headers)]
        request = "\n".join([method, path, query, "".join(lines), signed, "UNSIGNED-PAYLOAD"])
        scope = f"{day}/{self.region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()])
        key = f"AWS4{self.secret}".encode()
        for part in (day, self.region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={signed}, Signature={signature}"
        )

    def _request(self, method, key="", query=None, body=None, size=None):
        """The answer to a request; one without a body that is read once is tried again."""
        path = urllib.parse.quote(f"{self.path}/{key}", safe="/-_.~")
        pairs = sorted((query or {}).items())
        text = "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}" for k, v in pairs)
        for last in (False, False, True):
            headers = {}
            self._sign(method, path, text, headers)
            if body is not None:
                headers["content-length"] = str(size)
            try:
                connection = self._connection()
                connection.request(method, path + (f"?{text}" if text else ""), body=body, headers=headers)
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                self.local.connection = None
                if last or (body is not None and not isinstance(body, bytes)):
                    raise Failure(f"{self.url}: {error}") from error
                continue
            if answer.status == 404 and method in ("GET", "HEAD"):
                answer.read()
                raise FileNotFoundError(key)
            if answer.status < 300:
                return answer
            told = answer.read(2000).decode(errors="replace")
            self.local.connection = None
            if last or answer.status < 500 or (body is not None and not isinstance(body, bytes)):
                raise Failure(f"{method} {self.url}/{key}: {answer.status} {told}")
            time.sleep(1)
        raise AssertionError

    def _key(self, path):
        return f"{self.prefix}/{path}" if self.prefix else path

    def list(self, prefix):
        found, query = {}, {"list-type": "2", "prefix": self._key(prefix).rstrip("/") + "/"}
        while True:
            tree = xml.etree.ElementTree.fromstring(self._request("GET", query=query).read())
            name = tree.tag[: tree.tag.index("}") + 1] if "}" in tree.tag else ""
            for item in tree.iter(f"{name}Contents"):
                key, size = item.findtext(f"{name}Key"), int(item.findtext(f"{name}Size"))
                if not key.endswith("/"):
                    found[key[len(self._key("")) :]] = size
            query["continuation-token"] = tree.findtext(f"{name}NextContinuationToken") or ""
            if tree.findtext(f"{name}IsTruncated") != "true":
                return found

    @contextlib.contextmanager
    def open(self, path):
        answer = self._request("GET", self._key(path))
        try:
            yield answer
        finally:
            if not answer.isclosed():
                self.local.connection = None

    def modified(self, path):
        return None

    def put(self, path, pieces, size=None, modified=None):
        if size is None:
            body = b"".join(pieces)
            size = len(body)
        else:
            body = iter(pieces)
        self._request("PUT", self._key(path), body=body, size=size).read()

    def sync(self, paths):
        pass

    def delete(self, path):
        self._request("DELETE", self._key(path)).read()

    def clean(self):
        pass

    @contextlib.contextmanager
    def lock(self):
        yield


def place(address):
    return Bucket(address) if address.startswith("s3://") else Folder(address)


def overlap(one, other):
    """Whether two places are one, or one lies in the other."""
    if isinstance(one, Bucket) != isinstance(other, Bucket):
        return False
    if isinstance(one, Bucket):
        parts = [[part for part in place.url[len("s3://") :].split("/") if part] for place in (one, other)]
    else:
        parts = [pathlib.Path(os.path.realpath(place.root)).parts for place in (one, other)]
    return all(a == b for a, b in zip(*parts))


def read(store, path):
    with store.open(path) as file:
        return file.read()


class Pace:
    """No more than so many bytes a second, of all threads together."""

    def __init__(self, rate):
        self.rate, self.due, self.lock = rate, time.monotonic(), threading.Lock()

    def took(self, size):
        if not self.rate:
            return
        with self.lock:
            self.due = max(self.due, time.monotonic()) + size / self.rate
            wait = self.due - time.monotonic()
        time.sleep(max(wait, 0))


# What a store's files say.


def sealed_lines(store, path, number):
    """An entry of the catalog: its first line, checked by its second."""
    content = read(store, path)
    line, _, seal = content.partition(b"\n")
    if seal.strip():
        seal = json.loads(seal)
        if seal["number"] != number or seal["crc32"] != zlib.crc32(line + b"\n"):
            raise Failure(f"{store.url}/{path} is not what was written")
    return content, json.loads(line)


class Catalog:
    """The tables and views of a store at one point of its journal."""

    def __init__(self, store):
        self.entries, self.tables, self.attached, self.views = {}, {}, {}, set()
        numbers = sorted(number for path in store.list("catalog") for number in [number_of(path)] if number is not None)
        if not numbers:
            raise Failure(f"{store.url} has no catalog/: it is no store of Basalt's, or has no tables yet")
        if numbers != list(range(len(numbers))):
            raise Failure(f"{store.url}/catalog has a hole: entries are missing")
        for number in numbers:
            path = f"catalog/{number:020}.json"
            content, entry = sealed_lines(store, path, number)
            self.entries[path] = content
            ((kind, what),) = entry["step"].items()
            if kind == "begin":
                pass
            elif kind == "create":
                self._create(what)
            elif kind == "drop":
                self._drop(what)
            elif kind == "change":
                # Tables go, and others come, perhaps in their place.
                for id in what["drop"]:
                    self._drop(id)
                for table in what["create"]:
                    self._create(table)
            elif kind == "createView":
                self.views.add(what["name"])
            elif kind == "dropView":
                self.views.discard(what)
            else:
                raise Failure(f"{store.url}/{path} has the step {kind!r}, which this program does not know")

    def _create(self, table):
        (self.attached if table.get("attached") else self.tables)[table["name"]] = table

    def _drop(self, id):
        for tables in (self.tables, self.attached):
            for name in [name for name, table in tables.items() if table["id"] == id]:
                del tables[name]


def number_of(path):
    found = re.fullmatch(r"catalog/(\d{20})\.json", path)
    return int(found[1]) if found else None


def z85_decode(text):
    words = []
    for at in range(0, len(text), 5):
        word = 0
        for character in text[at : at + 5]:
            word = word * 85 + Z85.index(character)
        words.append(struct.pack(">I", word))
    return b"".join(words)


def vector_file(descriptor):
    """The file of a deletion vector; none for one that stands in the log."""
    if not descriptor or descriptor["storageType"] == "i":
        return None
    if descriptor["storageType"] != "u":
        raise Failure(f"a deletion vector of the kind {descriptor['storageType']!r} is outside of the table")
    text = descriptor["pathOrInlineDv"]
    prefix, name = text[:-20], z85_decode(text[-20:]).hex()
    name = "-".join([name[:8], name[8:12], name[12:16], name[16:20], name[20:]])
    return f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"


def check_commit(path, version, content):
    """The actions of a commit, whose first line says what follows it."""
    lines = content.split(b"\n")
    actions = [json.loads(line) for line in lines if line.strip()]
    if not actions:
        raise Failure(f"{path} is empty")
    seal = actions[0].get("commitInfo", {}).get("basalt")
    if seal:
        rest = content[len(lines[0]) + 1 :]
        if (seal["version"], seal["bytes"], seal["crc32"]) != (version, len(rest), zlib.crc32(rest)):
            raise Failure(f"{path} is not what was written")
    return actions


class Log:
    """What is in the folder of a table's log."""

    def __init__(self, store, folder):
        self.commits, parts = set(), {}
        for path in store.list(f"{folder}/{LOG}"):
            name = path.rsplit("/", 1)[1]
            if found := COMMIT.fullmatch(name):
                self.commits.add(int(found[1]))
            elif found := CHECKPOINT.fullmatch(name):
                parts.setdefault((int(found[1]), int(found[3] or 1)), []).append(name)
        # Those of which every part is there.
        self.checkpoints = {version: names for (version, n), names in sorted(parts.items()) if len(names) == n}
        if not self.commits:
            raise Gone(f"{store.url}/{folder} has no log")
        self.newest = max(self.commits)

    def start(self, version):
        """The last checkpoint that a version is made of, and the commits from there on."""
        start = max((checkpoint for checkpoint in self.checkpoints if checkpoint <= version), default=None)
        first = 0 if start is None else start
        commits = [number for number in range(first, version + 1) if number in self.commits]
        needed = range(0 if start is None else start + 1, version + 1)
        missing = [number for number in needed if number not in self.commits]
        if missing:
            raise Gone(f"version {missing[0]} is missing from the log, which version {version} is made of")
        return start, commits


class Pins:
    """Keeps servers from removing what the versions need, until `close`."""

    def __init__(self, store, is_used):
        self.store, self.is_used, self.held = store, is_used, {}
        self.holder, self.lock, self.ended = secrets.randbits(64), threading.Lock(), threading.Event()
        self.error, self.lapsed = None, False
        self.thread = threading.Thread(target=self._renew, daemon=True)
        self.thread.start()

    def _path(self, folder, version):
        return f"{folder}/{PINS}/{version:020}.{self.holder:016x}.json"

    def add(self, folder, version):
        if self.is_used:
            path = self._path(folder, version)
            with self.lock:
                self.held[path] = time.monotonic()
            self._write(path)

    def _write(self, path):
        """Writes a pin that is held, again or for the first time."""
        at = time.monotonic()
        with self.lock:
            if path not in self.held:
                return
        try:
            self.store.put(path, [b"{}"])
        except PermissionError as error:
            raise Failure(
                f"{error}: a pin must be written beside the table; with --no-pin nothing is, and the copy has to end"
                " within the server's keep_versions"
            ) from None
        if isinstance(self.store, Folder) and os.geteuid() == 0:
            # Servers write pins there, too, and remove those that have ended.
            pin = self.store.root / path
            owner = pin.parent.parent.stat()
            for made in (pin.parent, pin):
                os.chown(made, owner.st_uid, owner.st_gid)
        with self.lock:
            is_held = path in self.held
            if is_held:
                self._check(path)
                self.held[path] = at
        if not is_held:
            self._delete(path)

    def _renew(self):
        def renew(path):
            try:
                self._write(path)
            except Exception as error:  # It may succeed the next time.
                self.error = error

        while not self.ended.wait(PIN_RENEWAL):
            for_all(16, renew, list(self.held))

    def _check(self, path):
        self.lapsed |= time.monotonic() - self.held[path] > PIN_LEASE - PIN_RENEWAL

    def check(self):
        """That no pin was older at any time than servers count it."""
        with self.lock:
            for path in self.held:
                self._check(path)
        if self.lapsed:
            raise Failure(f"the versions could not be kept pinned: {self.error or 'the machine was too slow'}")

    def remove(self, folder, version):
        path = self._path(folder, version)
        with self.lock:
            was_held = self.held.pop(path, None)
        if was_held is not None:
            self._delete(path)

    def _delete(self, path):
        with contextlib.suppress(OSError, Failure):
            self.store.delete(path)
            if isinstance(self.store, Folder):
                # As the server leaves it, if nobody else has pins there.
                (self.store.root / path).parent.rmdir()

    def close(self):
        self.ended.set()
        self.thread.join()
        for path in list(self.held):
            folder, name = path.rsplit(f"/{PINS}/", 1)
            self.remove(folder, int(name.split(".")[0]))


class Version:
    """One version of a table that is to be copied."""

    def __init__(self, store, name, table, pins, keep, version=None):
        self.store, self.name, self.folder = store, name, table["location"]
        for _ in range(20):
            log = Log(store, self.folder)
            self.number = log.newest if version is None else version
            if self.number > log.newest:
                raise Failure(f"table {name!r} has no version {self.number} yet; the newest is {log.newest}")
            pins.add(self.folder, self.number)
            if self._is_kept(keep):
                return
            pins.remove(self.folder, self.number)
            if version is not None:
                raise Failure(f"version {version} of table {name!r} is not kept any longer (--keep-versions)")
        raise Failure(f"versions of table {name!r} go before they can be pinned: the server's keep_versions is too short")

    def _is_kept(self, keep):
        """Whether servers still keep the version, now that it is pinned: it is the newest, or was until a short time ago."""
        log = Log(self.store, self.folder)
        if log.newest == self.number:
            return True
        try:
            content = read(self.store, f"{self.folder}/{LOG}/{self.number + 1:020}.json")
        except FileNotFoundError:
            return False
        info = [action["commitInfo"] for action in check_commit("the log", self.number + 1, content) if "commitInfo" in action]
        superseded = info[0].get("timestamp") if info else None
        return superseded is not None and time.time() * 1000 - superseded <= keep * 1000

    def plan(self):
        """Reads the log and then the folder, and says which files are to be copied: `data`, with their sizes; `optional`, those
        of them that the version may not need; `log`, with the contents of commits."""
        log = Log(self.store, self.folder)
        start, commits = log.start(self.number)
        if start is None:
            self.log = {}
        else:
            # Of a checkpoint without its columns (they are Parquet) nothing is read here: files that no commit behind
            # it has removed are copied.
            self.log = {f"{self.folder}/{LOG}/{name}": None for name in log.checkpoints[start]}
        files, vectors, dead = {}, {}, set()
        for number in commits:
            path = f"{self.folder}/{LOG}/{number:020}.json"
            content = read(self.store, path)
            self.log[path] = content
            actions = check_commit(f"{self.store.url}/{path}", number, content)
            if start == number:
                continue
            for action in sorted(actions, key=lambda action: "add" in action):
                if gone := action.get("remove"):
                    file = urllib.parse.unquote(gone["path"])
                    files.pop(file, None)
                    vectors.pop(file, None)
                    # Not its vector's file, which may have those of other data files, too.
                    dead.add(file)
                if added := action.get("add"):
                    file = urllib.parse.unquote(added["path"])
                    files[file] = added["size"]
                    vectors.pop(file, None)
                    if vector := vector_file(added.get("deletionVector")):
                        vectors[file] = vector
        needed = {**files, **{vector: None for vector in vectors.values()}}
        listed = self.store.list(self.folder)
        below = {path[len(self.folder) + 1 :] for path in listed}
        # Not what is just being written, either.
        data = {file for file in below if not file.startswith((f"{LOG}/", f"{PINS}/")) and not re.search(r"#\d+$", file)}
        if missing := sorted(set(needed) - data):
            raise Gone(f"{self.store.url}/{self.folder}/{missing[0]} is missing, which version {self.number} needs")
        chosen = set(needed) if start is None else data - (dead - set(needed))
        sizes = {file: needed.get(file) or listed[f"{self.folder}/{file}"] for file in chosen}
        self.data = {f"{self.folder}/{file}": sizes[file] for file in sorted(chosen)}
        self.optional = {f"{self.folder}/{file}" for file in chosen - set(needed)}


# Copying, and what is checked while it is done.


class Check:
    """The size and the checksum of what passes, and whether it is what its name says."""

    def __init__(self, path):
        self.path, self.size, self.crc = path, 0, 0
        self.first, self.last = b"", b""

    def take(self, piece):
        self.size += len(piece)
        self.crc = zlib.crc32(piece, self.crc)
        if len(self.first) < 4:
            self.first = (self.first + piece[:4])[:4]
        self.last = (self.last + piece[-4:])[-4:]

    def end(self, expected=None):
        if expected is not None and self.size != expected:
            raise Failure(f"{self.path} has {self.size} bytes, not {expected}")
        if self.path.endswith(".parquet") and (self.first, self.last) != (b"PAR1", b"PAR1"):
            raise Failure(f"{self.path} is no whole Parquet file")


def check_vectors(path, content):
    """A file of deletion vectors: a byte, and each with its length and its checksum."""
    at = 1
    if content[:1] != b"\x01":
        raise Failure(f"{path} is no file of deletion vectors")
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        data = content[at + 4 : at + 4 + length]
        if content[at + 4 + length : at + 8 + length] != struct.pack(">I", zlib.crc32(data)):
            raise Failure(f"{path} has a deletion vector that is not what was written")
        at += 8 + length


def copy(source, path, target, to, pace, size=None, expected=None):
    """Copies a file; says its size and checksum. `expected`: both, as they must be."""
    check = Check(f"{source.url}/{path}")

    with source.open(path) as file:

        def pieces():
            while piece := file.read(PIECE):
                check.take(piece)
                pace.took(len(piece))
                yield piece
            check.end(size)
            if expected is not None and [check.size, check.crc] != list(expected):
                raise Failure(f"{check.path} is not what was written: {check.size} bytes, CRC-32 {check.crc:08x}")

        known = size if size is not None else expected[0] if expected else None
        target.put(to, pieces(), known, source.modified(path) if f"/{LOG}/" in path else None)
    if "/deletion_vector_" in path and expected is None:
        check_vectors(check.path, read(target, to))
    return [check.size, check.crc]


def for_all(jobs, work, items):
    """Does the work on all items, some at once; the first failure ends it."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


# Backups.


class Backups:
    """A folder of backups: the files of all of them below files/, by their paths in the store, and for each backup a list."""

    def __init__(self, where):
        self.where = where
        self.ids = sorted(path[len("backups/") : -len(".json")] for path in where.list("backups") if path.endswith(".json"))

    def some(self):
        """The ids; a folder without backups is hardly the one that was meant."""
        if not self.ids:
            raise Failure(f"{self.where.url} has no backups")
        return self.ids

    def load(self, id):
        if id not in self.ids:
            raise Failure(f"{self.where.url} has no backup {id!r}; it has: {', '.join(self.ids) or 'none'}")
        line, _, seal = read(self.where, f"backups/{id}.json").partition(b"\n")
        if not seal or json.loads(seal) != {"crc32": zlib.crc32(line)}:
            raise Failure(f"{self.where.url}/backups/{id}.json is not what was written")
        backup = json.loads(line)
        if backup["format"] != FORMAT:
            raise Failure(f"backup {id} has the format {backup['format']!r}, which this program does not know")
        return backup

    def save(self, backup):
        line = json.dumps(backup, sort_keys=True).encode()
        path = f"backups/{backup['id']}.json"
        self.where.put(path, [line, b"\n", json.dumps({"crc32": zlib.crc32(line)}).encode(), b"\n"])
        self.where.sync([path])

    def known(self):
        """Size and checksum of every file that some backup has."""
        known = {}
        for id in self.ids:
            known.update(self.load(id)["files"])
        present = self.where.list("files")
        return {path: told for path, told in known.items() if present.get(f"files/{path}") == told[0]}


def utc(at=None):
    now = datetime.datetime.now(datetime.timezone.utc) if at is None else at
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def backup(options):
    store, where = place(options.store), place(options.backups)
    if overlap(store, where):
        raise Failure(f"{where.url} is in the store, or holds it: a backup belongs elsewhere, best on another disk")
    with where.lock():
        for last in (False, False, True):
            catalog = Catalog(store)
            try:
                return backup_of(options, store, where, catalog)
            except Gone as error:
                # A table that was dropped meanwhile goes after a while, whatever is pinned.
                now = {table["id"] for table in Catalog(store).tables.values()}
                dropped = [table for table in catalog.tables.values() if table["id"] not in now]
                if last or not dropped:
                    raise
                print(f"{error}: a table was dropped meanwhile; once more", file=sys.stderr)


def backup_of(options, store, where, catalog):
    began, moment = time.monotonic(), datetime.datetime.now(datetime.timezone.utc)
    backups = Backups(where)
    known, pace = backups.known(), Pace(options.limit_rate)
    names = list(catalog.tables)
    if options.table:
        if options.table not in catalog.tables:
            raise Failure(f"there is no table {options.table!r} of Basalt's own")
        names = [options.table]
    files, tables, copied = {}, {}, 0
    written = []
    pins = Pins(store, not options.no_pin)
    try:

        def pin(name):
            return Version(store, name, catalog.tables[name], pins, options.keep_versions, options.version)

        versions = for_all(options.jobs, pin, names)
        while versions:
            version = versions.pop(0)
            version.plan()

            def take(path):
                if path in known:
                    return path, known[path], False
                try:
                    return path, copy(store, path, where, f"files/{path}", pace, version.data.get(path)), True
                except FileNotFoundError:
                    if path in version.optional and not options.no_pin:
                        return path, None, False
                    raise Gone(f"{store.url}/{path} was removed, which version {version.number} needs") from None

            done = for_all(options.jobs, take, version.data)
            for path, content in version.log.items():
                if content is None:
                    done.append(take(path))
                    continue
                # A name in the log is that of one content, as long as the store's history is one.
                told = [len(content), zlib.crc32(content)]
                if path in known and known[path] != told:
                    raise Failure(
                        f"{store.url}/{path} is another one than in {where.url}: the store was put back to an older state,"
                        " or is another; take another folder for its backups"
                    )
                if path not in known:
                    where.put(f"files/{path}", [content], modified=store.modified(path))
                done.append((path, told, path not in known))
            pins.check()
            done = [item for item in done if item[1] is not None]
            files.update({path: told for path, told, _ in done})
            new = [told[0] for _, told, is_new in done if is_new]
            written += [f"files/{path}" for path, _, is_new in done if is_new]
            copied += sum(new)
            size = sum(told[0] for _, told, _ in done)
            tables[version.name] = {"folder": version.folder, "version": version.number, "bytes": size}
            print(f"{version.name}: version {version.number}, {len(done)} files, {size} bytes; new: {len(new)} files, {sum(new)} bytes")
            pins.remove(version.folder, version.number)
    finally:
        pins.close()
    for path, content in catalog.entries.items():
        told = [len(content), zlib.crc32(content)]
        if path in known and known[path] != told:
            raise Failure(f"{store.url}/{path} is another one than in {where.url}: take another folder for its backups")
        if path not in known:
            where.put(f"files/{path}", [content])
            written.append(f"files/{path}")
        files[path] = told
    where.sync(written)
    id = moment.strftime("%Y%m%dT%H%M%SZ")
    while id in backups.ids:
        id += "+"
    backups.save(
        {
            "format": FORMAT,
            "id": id,
            "began": utc(moment),
            "ended": utc(),
            "store": store.url,
            "whole": not options.table,
            "tables": tables,
            "attached": {name: table["location"] for name, table in catalog.attached.items()},
            "views": sorted(catalog.views),
            "files": files,
        }
    )
    print(f"backup {id}: {plural(len(tables), 'table')}, {counted(files)}; copied {copied} bytes in {time.monotonic() - began:.1f} s")
    for name in catalog.attached:
        print(f"{name} is attached: its files are another writer's, and not in the backup")


def plural(n, one):
    return f"{n} {one}" if n == 1 else f"{n} {one}s"


def counted(files):
    """How many files a backup has of its tables, and of the catalog, which is that of all tables."""
    of_tables = sum(not path.startswith("catalog/") for path in files)
    return f"{plural(of_tables, 'file')}, and {len(files) - of_tables} of the catalog"


def list_backups(options):
    backups = Backups(place(options.backups))
    for id in backups.some():
        found = backups.load(id)
        size = sum(told[0] for told in found["files"].values())
        what = "all tables" if found["whole"] else "one table"
        print(f"{id}  {what}, {counted(found['files'])}, {size} bytes, ended {found['ended']}")
        for name, table in sorted(found["tables"].items()):
            print(f"    {name}: version {table['version']}, {table['bytes']} bytes")


def verify(options):
    where = place(options.backups)
    backups = Backups(where)
    files = {}
    for id in [options.id] if options.id else backups.some():
        files.update(backups.load(id)["files"])

    def check(item):
        path, expected = item
        size, crc = 0, 0
        try:
            with where.open(f"files/{path}") as file:
                while piece := file.read(PIECE):
                    size, crc = size + len(piece), zlib.crc32(piece, crc)
        except FileNotFoundError:
            return f"{path} is missing"
        return None if [size, crc] == expected else f"{path} is not what was written: {size} bytes, CRC-32 {crc:08x}"

    damaged = [found for found in for_all(options.jobs, check, files.items()) if found]
    for found in damaged:
        print(found, file=sys.stderr)
    if damaged:
        raise Failure(f"{len(damaged)} of {len(files)} files are damaged")
    print(f"{len(files)} files are as they were written")


def restore(options):
    where, store = place(options.backups), place(options.store)
    backups = Backups(where)
    found = chosen(backups, options)
    if store.list("catalog") or store.list("tables"):
        raise Failure(f"{store.url} has tables already: a backup is put back into a new folder or prefix")
    tables = found["tables"]
    if options.table:
        tables = {options.table: tables[options.table]}
    of_tables = tuple(f"{table['folder']}/" for table in tables.values())
    files = {path: told for path, told in found["files"].items() if path.startswith(of_tables)}
    log = {path for path in files if f"/{LOG}/" in path}
    pace = Pace(options.limit_rate)

    def take(path):
        try:
            copy(where, f"files/{path}", store, path, pace, expected=files[path])
        except FileNotFoundError:
            raise Failure(f"{where.url}/files/{path} is missing") from None

    # What is named comes before what names it: a restore that was cut off is no store.
    for_all(options.jobs, take, sorted(set(files) - log))
    for_all(options.jobs, take, sorted(log))
    store.sync(files)
    catalog = [path for path in sorted(found["files"]) if path.startswith("catalog/")]
    entries = {}
    for path in catalog:
        entries[path] = read(where, f"files/{path}")
        if [len(entries[path]), zlib.crc32(entries[path])] != found["files"][path]:
            raise Failure(f"{where.url}/files/{path} is not what was written")
    if options.table or not found["whole"]:
        entries = journal_of(entries, set(tables))
    for path, content in entries.items():
        store.put(path, [content])
    store.sync(entries)
    for name, table in sorted(tables.items()):
        print(f"{name}: version {table['version']}, {table['bytes']} bytes")
    print(f"backup {found['id']} is in {store.url}: {plural(len(tables), 'table')}, {plural(len(files), 'file')}")


def chosen(backups, options):
    """The backup that is meant: by its id, by what it has of a table, or the last of all tables."""
    if options.id:
        candidates = [backups.load(options.id)]
    else:
        candidates = [backups.load(id) for id in reversed(backups.ids)]
    if not options.table:
        candidates = [found for found in candidates if found["whole"] or options.id]
        if not candidates:
            raise Failure(f"{backups.where.url} has no backup of all tables")
        return candidates[0]
    have = [found for found in candidates if options.table in found["tables"]]
    if not have:
        raise Failure(f"no backup has a table {options.table!r}")
    if options.version is None:
        return have[0]
    for found in have:
        if found["tables"][options.table]["version"] == options.version:
            return found
    versions = sorted({found["tables"][options.table]["version"] for found in have})
    raise Failure(f"no backup has version {options.version} of table {options.table!r}; there are: {versions}")


def journal_of(entries, names):
    """A journal that makes some tables only, of the entries of another."""
    kept, dropped = {}, set()
    for content in reversed(list(entries.values())):
        line = content.split(b"\n")[0] + b"\n"
        entry = json.loads(line)
        ((kind, what),) = entry["step"].items()
        # Of a change, what it makes comes behind what it drops.
        for table in [what] if kind == "create" else what["create"] if kind == "change" else []:
            if table["name"] in names and table["id"] not in dropped and table["name"] not in kept:
                kept[table["name"]] = json.dumps({**entry, "step": {"create": table}}).encode() + b"\n"
        if kind == "drop":
            dropped.add(what)
        elif kind == "change":
            dropped.update(what["drop"])
        elif kind == "begin":
            kept[""] = line
    lines = [kept[name] for name in sorted(kept)]
    seals = [json.dumps({"number": n, "crc32": zlib.crc32(line)}).encode() + b"\n" for n, line in enumerate(lines)]
    return {f"catalog/{n:020}.json": line + seal for n, (line, seal) in enumerate(zip(lines, seals))}


def prune(options):
    where = place(options.backups)
    if options.keep < 1:
        raise Failure("at least one backup is kept")
    # Before there is a lock, which makes a folder, and before anything else is taken for what no backup has.
    Backups(where).some()
    with where.lock():
        backups = Backups(where)
        loaded = {id: backups.load(id) for id in backups.ids}
        # One of a single table makes none of all tables superfluous; where there are none of these, it counts.
        counted = [id for id in backups.ids if loaded[id]["whole"]] or backups.ids
        oldest = counted[-options.keep] if len(counted) >= options.keep else backups.ids[0]
        kept = [id for id in backups.ids if id >= oldest]
        needed = {f"files/{path}" for id in kept for path in loaded[id]["files"]}
        gone = [id for id in backups.ids if id < oldest]
        for id in gone:
            where.delete(f"backups/{id}.json")
        listed = where.list("files")
        left = sorted(set(listed) - needed)
        for_all(options.jobs, where.delete, left)
        where.clean()
        print(f"{len(gone)} backups forgotten, {len(kept)} kept; removed {len(left)} files, {sum(listed[p] for p in left)} bytes")


# The command line.


def duration(text):
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration, such as 10m")
    return float(found[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]


def size(text):
    found = re.fullmatch(r"(\d+)(KiB|MiB|GiB|B)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, such as 50MiB")
    return int(found[1]) << {"KiB": 10, "MiB": 20, "GiB": 30}.get(found[2], 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, run, help, *arguments):
        added = commands.add_parser(name, help=help, description=help)
        for argument in arguments:
            added.add_argument(argument)
        added.add_argument("--jobs", type=int, default=4, help="files at once")
        added.set_defaults(run=run)
        return added

    rate = dict(type=size, metavar="SIZE", help="bytes a second, at most, such as 50MiB")
    added = command("backup", backup, "copy what a store has and the backups have not", "store", "backups")
    added.add_argument("--table", help="one table alone")
    added.add_argument("--version", type=int, help="of that table, one that is still kept; the newest without it")
    added.add_argument("--keep-versions", type=duration, default=600, help="as the servers have it (10m)")
    added.add_argument("--no-pin", action="store_true", help="write nothing into the store")
    added.add_argument("--limit-rate", **rate)
    command("list", list_backups, "say which backups there are", "backups")
    command("verify", verify, "read backups, and compare sizes and checksums", "backups").add_argument("id", nargs="?")
    added = command("restore", restore, "put a backup into a new folder or prefix", "backups", "store")
    added.add_argument("--id", help="the backup; the last without it")
    added.add_argument("--table", help="one table alone")
    added.add_argument("--version", type=int, help="a version of that table that some backup has")
    added.add_argument("--limit-rate", **rate)
    command("prune", prune, "forget what is older than the last backups of all tables", "backups").add_argument("--keep", type=int, required=True)

    # What is held is given back, as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: stopped"))
    options = parser.parse_args()
    if getattr(options, "version", None) is not None and not options.table:
        parser.error("--version needs --table")
    try:
        options.run(options)
    except (Failure, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
