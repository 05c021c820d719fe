"""One record of the audit, and the hash chain that links it to the one before.

Owns: the record's form and its hash. Pure; never does I/O.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from armory.audit.settings import Arguments, Results

GENESIS = "0" * 64
"""`prev` of the first record."""
OPENED = "armory/audit.opened"
CLOSED = "armory/audit.closed"
DROPPED = "armory/audit.dropped"
PRUNED = "armory/audit.pruned"
"""Methods of the audit's own records: `code` of `DROPPED` is how many, of `PRUNED` the `seq` of the
oldest record that was kept."""
UNCLEAN = "after_kill"
"""Outcome of an `OPENED` that follows a process which ended without closing the audit."""


LARGE_BYTES = 256 * 1024
"""Arguments and results from this size on are hashed in a thread: 16 MiB take 30 ms."""


class Entry(msgspec.Struct, gc=False):
    """The facts of one request, before it is added to the chain.

    Attributes:
        at: seconds since 1970.
        who: user or name of the credential's owner.
        credential: how the caller proved that: the method and the credential's name.
        endpoint: path where it asked.
        method: what it asked.
        tool: exposed name of the tool or prompt, or the URI.
        upstream: key of the upstream that was asked; None: none was.
        outcome: `ok`, `tool_error`, `error`, `refused`, `denied` or `cancelled`.
        code: of the error.
        ms: how long it took.
        trace_id: of its trace, where there is one.
        arguments: as `observability.audit.arguments` says.
        result: as `observability.audit.results` says.
    """

    at: float
    who: str
    credential: str
    endpoint: str
    method: str
    outcome: str
    tool: str | None = None
    upstream: str | None = None
    code: str | None = None
    ms: float = 0.0
    trace_id: str | None = None
    arguments: str | None = None
    result: str | None = None


def arguments_of(data: bytes | None, how: Arguments) -> str | None:
    """The form in which a call's arguments are recorded, secrets included: `AuditLog` masks those.

    Args:
        data: their JSON, as it came; None: there are none.
        how: as `observability.audit.arguments` says.
    """
    if data is None or how == "off":
        return None
    return _digest(data) if how == "hash" else data.decode("utf-8", "replace")


def result_of(parts: Sequence[bytes | memoryview], how: Results) -> str | None:
    """The form in which a call's result is recorded.

    Args:
        parts: its JSON in pieces; none: there is no result.
        how: as `observability.audit.results` says.
    """
    return _digest(*parts) if parts and how == "hash" else None


def _digest(*parts: bytes | memoryview) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return f"sha256:{found.hexdigest()}"


class Record(msgspec.Struct, gc=False):
    """One record as written, without its `hash`; members in alphabetical order."""

    arguments: str | UnsetType
    at: str
    code: str | None
    credential: str
    endpoint: str
    method: str
    ms: float
    outcome: str
    prev: str
    result: str | UnsetType
    seq: int
    tool: str | None
    trace_id: str | None
    upstream: str | None
    who: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, object]).decode


class Chain:
    """The end of a chain, to which records are added.

    Args:
        seq: number of the last record; 0: there is none.
        hash: of the last record.
    """

    def __init__(self, seq: int = 0, hash: str = GENESIS) -> None:
        self.seq = seq
        self.hash = hash

    def add(self, entry: Entry) -> bytes:
        """The entry as the next record, one line of JSON without a line end."""
        self.seq += 1
        try:
            body = _encode(self._next(entry))
        except UnicodeEncodeError:  # a lone surrogate, e.g. in a header that a proxy passes on
            body = _encode(self._next(_whole(entry)))
        self.hash = hashlib.sha256(body).hexdigest()
        return b'%b,"hash":"%b"}' % (body[:-1], self.hash.encode())

    def _next(self, entry: Entry) -> Record:
        return Record(  # by place: names take half as long again
            UNSET if entry.arguments is None else entry.arguments,
            stamp(entry.at),
            entry.code,
            entry.credential,
            entry.endpoint,
            entry.method,
            int(entry.ms * 1_000 + 0.5) / 1_000,  # `round` takes five times as long
            entry.outcome,
            self.hash,
            UNSET if entry.result is None else entry.result,
            self.seq,
            entry.tool,
            entry.trace_id or None,
            entry.upstream,
            entry.who,
        )


def _whole(entry: Entry) -> Entry:
    """The entry with a `?` in place of each lone surrogate."""
    texts = {
        name: value.encode("utf-8", "replace").decode()
        for name, value in msgspec.structs.asdict(entry).items()
        if isinstance(value, str)
    }
    return msgspec.structs.replace(entry, **texts)


COLUMN_CHARS = 200


def column(text: str) -> str:
    """The form of a text for a searchable column. Postgres rejects NUL, and every database rejects
    lone surrogates; one rejected record would block all later ones.
    """
    text = text[:COLUMN_CHARS]
    if text.isprintable():
        return text
    return text.replace("\x00", "?").encode("utf-8", "replace").decode()


_second = (0, "")
_MS = [f".{number:03d}Z" for number in range(1_000)]  # a number takes its time to be written


def stamp(at: float) -> str:
    """A time in seconds since 1970 as text, UTC, with milliseconds."""
    global _second
    whole = int(at)
    second, text = _second
    if second != whole:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        _second = (whole, text)
    return text + _MS[int((at - whole) * 1_000)]


def parsed(line: bytes | str) -> dict[str, object] | None:
    """The members of a written record; None: the line is not a record."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
