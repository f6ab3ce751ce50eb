"""What can go wrong, with everything that the server said about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import grpc
from google.rpc import error_details_pb2, status_pb2

_DOMAIN = "basalt"
_DETAILS_KEY = "grpc-status-details-bin"


class Place(NamedTuple):
    """One place in a request that the server objects to."""

    field: str
    """The path of the field, such as `filter.and[1].compare.left`; of a SQL statement its line and column."""
    description: str


class BasaltError(Exception):
    """Why something failed. What the server answered has a `reason` from the API's closed list.

    Attributes:
        message: The sentence for a person.
        reason: The server's reason, such as `"TABLE_NOT_FOUND"`; empty where the server gave none.
        code: The gRPC code; `None` where no call was made.
        places: Where in the request, for bad input.
        metadata: Numbers and names for programs, such as a limit that was exceeded; as text.
        retry_delay: After how many seconds to try again, where the server said so.
    """

    _always_retryable = False

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        code: grpc.StatusCode | None = None,
        places: tuple[Place, ...] = (),
        metadata: Mapping[str, str] | None = None,
        retry_delay: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.code = code
        self.places = places
        self.metadata = dict(metadata or {})
        self.retry_delay = retry_delay

    @property
    def place(self) -> str | None:
        """The first place in the request that the server objects to."""
        return self.places[0].field if self.places else None

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later.

        The connection broke, the server is not available, another call with the same request id still runs, or the
        server said when to try again. After a broken connection and after `OutcomeUnknown` a write may be there:
        send it again with the same request id alone, as `Client.load` does.
        """
        return (
            self._always_retryable
            or self.code is grpc.StatusCode.UNAVAILABLE
            or self.reason in ("REQUEST_IN_PROGRESS", "OUTCOME_UNKNOWN")
            or self.retry_delay is not None
        )

    def __str__(self) -> str:
        unnamed = [place.field for place in self.places if place.field not in self.message]
        text = " at ".join([self.message, *unnamed])
        name = self.reason or (self.code.name if self.code else "")
        text = f"{text} ({name})" if name else text
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    @property
    def hint(self) -> str | None:
        """What a person might do about it, where something is likely."""
        return None


def add_note(error: BaseException, note: str) -> None:
    """Says more of an error: as a note of Python, which tracebacks show, and in the message of a `BasaltError`."""
    if isinstance(error, BasaltError):
        error.message = f"{error.message}; {note}"
    elif hasattr(error, "add_note"):
        # Since Python 3.11.
        error.add_note(note)


class TableNotFound(BasaltError):
    """There is no such table."""


class ColumnNotFound(BasaltError):
    """The table has no such column."""


class QueryNotFound(BasaltError):
    """No such query runs at this server, or it is another's."""


class SetNotFound(BasaltError):
    """The server has no set of this handle, or no longer."""


class TableExists(BasaltError):
    """There is a table of this name already."""


class TableDamaged(BasaltError):
    """The table's files are not what was written."""


class PermissionDenied(BasaltError):
    """The key does not allow this; nothing of the request was done."""


class Unauthenticated(BasaltError):
    """The server asks for a key, and got none or one that it does not know."""

    @property
    def hint(self) -> str | None:
        return "a key goes with `key=`, or in BASALT_KEY or a file that BASALT_KEY_FILE names"


class InvalidRequest(BasaltError):
    """The request is wrong as it stands; `place` says where."""


class OutOfRange(BasaltError):
    """A division by zero, or a result that its type does not hold."""


class VersionGone(BasaltError):
    """The version of the table is not kept any more."""


class ScopeMismatch(BasaltError):
    """A set was used for something else than what it is of."""


class ReadOnly(BasaltError):
    """Another writer's table: it is read, and not written."""


class Overloaded(BasaltError):
    """The server has too much to do, or no memory for it; later it may have."""


class Unavailable(BasaltError):
    """The server starts or stops, or its store does not answer."""

    @property
    def hint(self) -> str | None:
        is_starting = self.reason == "STARTING"
        return "allow more time with `deadline=`; `basalt health` says when it has" if is_starting else None


class WriteConflict(BasaltError):
    """Another write has changed the same rows meanwhile."""


class OutcomeUnknown(BasaltError):
    """Whether a write took place is not known."""


class DeadlineExceeded(BasaltError):
    """The deadline passed before the answer was complete."""


class Cancelled(BasaltError):
    """The call was given up."""


class NotSupported(BasaltError):
    """The server does not do this; one that is built without the feature `sql` has no SQL."""


class ConnectionFailed(BasaltError):
    """No connection, or it broke during the call."""

    _always_retryable = True

    @property
    def hint(self) -> str | None:
        return next(hint for part, hint in _CONNECTION_HINTS if part in self.message)


class IncompleteAnswer(BasaltError):
    """A stream ended without its trailer: what came before it is not the answer."""

    _always_retryable = True


class MalformedAnswer(BasaltError):
    """An answer that contradicts itself or the API."""


class InvalidConnection(BasaltError):
    """An address, a key or a certificate that is not valid, or a client that is closed."""


class InvalidData(BasaltError):
    """Values that cannot be sent, or rows that do not fit their table."""


class InvalidSet(BasaltError):
    """Bytes or values that are no set, or two sets that cannot be combined."""


_PORTS = "is this the port of gRPC, 7700 by default? HTTP and PostgreSQL have others. Or did the server stop?"
# By what gRPC says, the first that is found. What is no TLS is a wrong version of it there, and names certificates.
_CONNECTION_HINTS = [
    ("TLS alone", "name it with https://"),
    ("PROTOCOL_VERSION", "does the server have TLS? without, name it with http://"),
    ("WRONG_VERSION_NUMBER", "does the server have TLS? without, name it with http://"),
    ("CERTIFICATE_VERIFY_FAILED", "name the authority that signed its certificate with `ca=`, or in BASALT_CA"),
    (
        "Hostname Verification",
        "is it the server that you mean? its certificate says otherwise; a server reached by another "
        "name needs a certificate for it: basalt secure FOLDER --renew --host NAME",
    ),
    ("Socket closed", _PORTS),
    ("Failed parsing HTTP/2", _PORTS),
    ("nothing answered", _PORTS),
    ("", "is the server running? start one with `basalt serve`"),
]

_BY_REASON: dict[str, type[BasaltError]] = {
    "TABLE_NOT_FOUND": TableNotFound,
    "COLUMN_NOT_FOUND": ColumnNotFound,
    "SIP_NOT_FOUND": SetNotFound,
    "QUERY_NOT_FOUND": QueryNotFound,
    "TABLE_EXISTS": TableExists,
    "TABLE_DAMAGED": TableDamaged,
    "DIVISION_BY_ZERO": OutOfRange,
    "OVERFLOW": OutOfRange,
    "VERSION_GONE": VersionGone,
    "SCOPE_MISMATCH": ScopeMismatch,
    "READ_ONLY": ReadOnly,
    "OVERLOADED": Overloaded,
    "MEMORY_LIMIT": Overloaded,
    "WRITE_CONFLICT": WriteConflict,
    "OUTCOME_UNKNOWN": OutcomeUnknown,
    "INCOMPLETE": Unavailable,
}

_BY_CODE: dict[grpc.StatusCode, type[BasaltError]] = {
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.UNIMPLEMENTED: NotSupported,
}


def from_rpc(error: Any, address: str) -> BasaltError:
    """The error of a call that gRPC reports, of either kind of channel."""
    code: grpc.StatusCode = error.code()
    message: str = error.details() or code.name
    info, places, retry_delay = _details(error)
    if not info.reason and code is grpc.StatusCode.UNAVAILABLE:
        # The server gives a reason, so this comes from the network.
        why = re.sub(r"^failed to connect to all addresses; last error: (\w+: )?", "", message)
        return ConnectionFailed(f"no connection to {address}: {why}", code=code)
    if not info.reason and code is grpc.StatusCode.DEADLINE_EXCEEDED:
        message = "the deadline passed before the answer was complete"
    if not info.reason and code is grpc.StatusCode.CANCELLED:
        # By this client, since a server says why.
        message = "the call was given up"
    kind = _BY_REASON.get(info.reason) or _BY_CODE.get(code, BasaltError)
    return kind(
        message,
        reason=info.reason,
        code=code,
        places=places,
        metadata=dict(info.metadata),
        retry_delay=retry_delay,
    )


def _details(error: Any) -> tuple[Any, tuple[Place, ...], float | None]:
    info, places, retry_delay = error_details_pb2.ErrorInfo(), [], None
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS_KEY:
            continue
        for detail in status_pb2.Status.FromString(value).details:
            found, bad, retry = (
                error_details_pb2.ErrorInfo(),
                error_details_pb2.BadRequest(),
                error_details_pb2.RetryInfo(),
            )
            if detail.Unpack(found) and found.domain == _DOMAIN:
                info = found
            elif detail.Unpack(bad):
                places += [Place(v.field, v.description) for v in bad.field_violations]
            elif detail.Unpack(retry):
                retry_delay = retry.retry_delay.ToTimedelta().total_seconds()
    return info, tuple(places), retry_delay
