"""The interface between a client's request and the link to an upstream.

Owns: the call, its reply, the owner on whose behalf it is sent, and the channel by which an
upstream may reach the client. The link itself is `upstreams.session.base.BaseLink`. Never imports a
transport.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from armory.domain.principal import Principal
from armory.protocol.meta import HOP_KEYS
from armory.protocol.outline import outlined
from armory.protocol.rawjson import members_or_none, pack, text_of
from armory.protocol.spelling import without
from armory.protocol.versions import Era

Params = dict[str, Raw]
"""Members of a JSON-RPC `params` object, each value verbatim."""
FOREVER_S = 10 * 365 * 86_400.0
"""Stands for no time-out, for streams that are listened to."""


class ClientGone(Exception):
    """The client that would have to answer has disconnected, or cannot be asked at all."""


class Refused(Exception):
    """The upstream answered a request that the gateway made for itself with an error.

    Attributes:
        error: the JSON-RPC error object, verbatim.
    """

    def __init__(self, method: str, error: Raw) -> None:
        super().__init__(f"{method} was refused: {bytes(error)[:300].decode('utf-8', 'replace')}")
        self.method = method
        self.error = error


@dataclass(frozen=True, slots=True)
class Answer:
    """A client's answer to a server-to-client request: exactly one of the two is set."""

    result: Raw | None = None
    error: Raw | None = None


class Reply(msgspec.Struct, gc=False):
    """An upstream's answer, verbatim: exactly one of `result` and `error` is set.

    Attributes:
        era: the era of the session that answered; None where no upstream did.
        short: `outline`, if it is known already.
        tail: replaces the result's last byte; empty: nothing does. So members are added at the end
            of a large result without copying it.
        well: whether the call succeeded; None: not determined yet.
    """

    result: Raw | None = None
    error: Raw | None = None
    era: Era | None = None
    short: bytes | None = None
    tail: bytes = b""
    well: bool | None = None

    @property
    def parts(self) -> tuple[bytes | memoryview, ...]:
        """The whole result, in parts; `{}` if there is none."""
        if self.result is None:
            return (b"{}",)
        view = memoryview(self.result)
        return (view[:-1], self.tail) if self.tail else (view,)

    @property
    def outline(self) -> bytes:
        """The result without its long strings, for inspection; it has all keys."""
        if self.short is None:
            self.short = b"" if self.result is None else outlined(self.result)
        return self.short


class ClientChannel(Protocol):
    """The channel to the client whose request is being served, for the upstream."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the client declared: with this request in the modern era, for the
        session in the legacy era.
        """
        ...

    @property
    def log_level(self) -> str | None:
        """The least severe level that the client wants logged; None: no log messages."""
        ...

    @property
    def progress_token(self) -> Raw | None:
        """The client's progress token, verbatim; None: it wants no progress."""
        ...

    async def notify(self, method: str, params: Params) -> None:
        """Deliver a notification that belongs to this request (progress, log message ...).

        Progress tokens are already the client's own again.
        """
        ...

    async def ask(self, method: str, params: Params) -> Answer:
        """Put a server-to-client request to the client and wait for its answer.

        Raises:
            ClientGone: the client has disconnected, or cannot be asked.
        """
        ...


_CANCELLED = ("requestId", "reason", "_meta")
"""Members of a cancellation that are not passed on as they are."""


class CancelReason(str):
    """The reason for cancelling a request, as the message of the cancellation.

    Attributes:
        more: the other members of the cancellation.
    """

    more: Mapping[str, Raw] = MappingProxyType({})

    @classmethod
    def of(cls, params: Params) -> CancelReason | None:
        """The reason in a `notifications/cancelled`, with what it says besides and the members of
        its `_meta` that pass on; None: none.
        """
        more = without(params, _CANCELLED)
        given = members_or_none(params.get("_meta")) or {}
        if passed := {key: raw for key, raw in given.items() if key not in HOP_KEYS}:
            more["_meta"] = pack(passed)
        text = text_of(params, "reason")
        if text is None and not more:
            return None
        reason = cls(text or "")
        reason.more = more
        return reason


def cancelled_params(id: Raw, otherwise: str) -> Params:
    """Parameters of `notifications/cancelled`. Call it while the exception that ends the request is
    being handled: it may carry the reason.

    Args:
        id: of the request.
        otherwise: the reason if none was given.
    """
    said = (getattr(sys.exception(), "args", None) or (None,))[0]
    reason = said if isinstance(said, CancelReason) else CancelReason()
    return {"requestId": id, "reason": pack(str(reason) or otherwise), **reason.more}


HEARS_PROGRESS: ContextVar[Callable[[Params], None] | None] = ContextVar("progress", default=None)
"""Set while a question is put to a client: called with the progress that the client reports on it.
The progress token in it is the client's, not that of the asking upstream.
"""


RESOURCE_META: ContextVar[tuple[str, Raw] | None] = ContextVar("resource", default=None)
"""Set while a client's `resources/subscribe` or `resources/unsubscribe` is served: the resource's
original URI, and the request's `_meta`, which goes to the upstream with the request about that
resource.
"""


class Hop(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """What all calls of a link have in common in measurements: one object for all of them.

    Attributes:
        version: the revision that is spoken; None: the call was not sent.
        host: the host of the upstream's URL; None for a process.
        port: its port; None for a process.
    """

    version: str | None = None
    host: str | None = None
    port: int | None = None


NOWHERE = Hop()


class Sent(msgspec.Struct, frozen=True, gc=False):
    """What the link reports about one call that it sent; of the last attempt, if there were two.

    Attributes:
        request_id: its JSON-RPC id; None: it was not sent.
        session_id: the upstream's `Mcp-Session-Id`, None where it has none.
    """

    request_id: int | None = None
    session_id: str | None = None


UNSENT = Sent()


@dataclass(slots=True)
class Call:
    """One request toward an upstream, in the upstream's own names.

    A `_meta` in `params` has only the keys that pass through: vendor and trace keys. The link adds
    those that belong to its own hop in its era (protocol version, client info and capabilities, log
    level, progress token).

    Attributes:
        method: MCP method, as in the upstream's era.
        params: top-level members of `params`.
        client: whose call this is; None for the gateway's own.
        declared: the capabilities that the gateway declares with a call of its own (2026-07-28);
            None: none.
        timeout_s: deadline for the whole call; None: the upstream's configured one; `FOREVER_S`:
            none.
        name_header: value for `Mcp-Name` on modern HTTP (tool, prompt, URI, task id), else None.
        param_headers: `Mcp-Param-*` header name -> value, from the tool's schema and arguments.
        safe_to_retry: whether sending it twice is harmless (lists, reads, read-only or idempotent
            tools).
        traceparent: the parent span, if `params` carries no `_meta`.
        hop: filled in by the link: where the call was sent; None: calls are not measured.
        sent: filled in by the link: the call's ids; None: the call has no span.
        caller: filled in by the pool: the key of the principal on whose behalf it is sent.
        large: filled in by the pool: whether the parameters are too large to be copied.
    """

    method: str
    params: Params
    client: ClientChannel | None = None
    declared: Mapping[str, Any] | None = None
    timeout_s: float | None = None
    name_header: str | None = None
    param_headers: Mapping[str, str] = field(default_factory=dict[str, str])
    safe_to_retry: bool = False
    traceparent: str | None = None
    hop: Hop | None = None
    sent: Sent | None = None
    caller: str = ""
    large: bool = False


class Owner(msgspec.Struct, frozen=True):
    """On whose behalf a call goes upstream; the pool's isolation decides which members count.

    Attributes:
        principal: the authenticated caller.
        session_id: its legacy session, None on modern.
        client: how to reach the client of that session outside its requests, None on modern.
        exposed: turns that channel into one for a server, which maps names to those that the client
            knows; None: the client knows the server's own names.
    """

    principal: Principal
    session_id: str | None = None
    client: ClientChannel | None = None
    exposed: Callable[[ClientChannel, str], ClientChannel] | None = None

    def client_of(self, server: str) -> ClientChannel | None:
        """The channel by which `server` may reach the session's client outside requests."""
        if self.client is None or self.exposed is None:
            return self.client
        return self.exposed(self.client, server)

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the session's client declared."""
        return {} if self.client is None else self.client.capabilities
