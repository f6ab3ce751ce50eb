"""Where the server is, who the client is, and whom it believes."""

from __future__ import annotations

import ipaddress
import os
import pathlib
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import grpc

from .errors import InvalidConnection

DEFAULT_ADDRESS = "http://127.0.0.1:7700"
_DEFAULT_PORTS = {"http": 80, "https": 443}

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Target:
    """A server, and what goes to it with every call."""

    url: str
    """The address with its scheme, for messages."""
    authority: str
    """Host and port, as gRPC wants them."""
    tls: grpc.ChannelCredentials | None
    metadata: tuple[tuple[str, str], ...] = field(repr=False)


def target_of(
    address: str | None, key: str | None, ca: Path | None, cert: Path | None, cert_key: Path | None
) -> Target:
    """What the arguments of `connect` say, with the environment for those that are missing."""
    address = address or os.environ.get("BASALT_SERVER") or DEFAULT_ADDRESS
    scheme, _, rest = address.rpartition("://")
    scheme = scheme.lower() or "http"
    url = f"{scheme}://{rest}"
    host, authority = _parse(address, scheme, url)

    header = _header(key)
    if header and scheme == "http" and not _is_loopback(host):
        # On the way anybody could take it.
        raise InvalidConnection(f"{address!r}: a key goes to another machine with TLS alone: https://")
    metadata = (("authorization", header),) if header else ()

    if bool(cert or os.environ.get("BASALT_CERT")) != bool(cert_key or os.environ.get("BASALT_CERT_KEY")):
        raise InvalidConnection("a client's certificate and its key go together: cert, cert_key")
    tls = None
    if scheme == "https":
        chain = _file(cert or os.environ.get("BASALT_CERT"))
        private = _file(cert_key or os.environ.get("BASALT_CERT_KEY"))
        roots = _file(ca or os.environ.get("BASALT_CA")) or _system_roots()
        tls = grpc.ssl_channel_credentials(roots, private, chain)
    return Target(url, authority, tls, metadata)


def _parse(address: str, scheme: str, url: str) -> tuple[str, str]:
    def wrong(why: str) -> InvalidConnection:
        return InvalidConnection(f"{address!r} is not an address: {why} (an example: {DEFAULT_ADDRESS})")

    if scheme not in _DEFAULT_PORTS:
        raise wrong(f"{scheme!r} is not a scheme that is spoken here")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _DEFAULT_PORTS[scheme]
    except ValueError as error:
        raise wrong(str(error)) from None
    if not host:
        raise wrong("it names no host")
    if parts.path.strip("/") or parts.query or parts.username:
        raise wrong("there is more to it than a host and a port")
    return host, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _header(key: str | None) -> str | None:
    """The value of the header `authorization`. The argument comes first, then a file, then the variable."""
    path = os.environ.get("BASALT_KEY_FILE")
    if key is None and path:
        key = _read(path).decode(errors="replace")
    if key is None:
        key = os.environ.get("BASALT_KEY")
    key = (key or "").strip()
    if not key:
        return None
    if not (key.isascii() and key.isprintable()):
        # The message does not quote it: most of it may be a good key.
        raise InvalidConnection("the key has characters that no key has")
    return f"Bearer {key}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _file(path: Path | None) -> bytes | None:
    return _read(path) if path else None


def _read(path: Path) -> bytes:
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise InvalidConnection(f"credentials: {error}") from None


def _system_roots() -> bytes | None:
    """The authorities that the system believes, in PEM; `None` has gRPC take those that it brings along."""
    found = ssl.create_default_context().get_ca_certs(binary_form=True)
    return "".join(map(ssl.DER_cert_to_PEM_cert, found)).encode() or None
