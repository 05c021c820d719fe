"""What every link has in common, whatever its transport and era.

Owns: who the upstream is, stamping of outgoing parameters, what is reported of the session, health
probes. Never imports a transport.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from armory.errors import UpstreamUnavailable
from armory.http1.eventstream import EventTooLarge
from armory.http1.reading import BodyTooLarge, give_up
from armory.observability.redaction import redacted
from armory.protocol.hop_meta import MetaStamp, legacy_meta
from armory.protocol.jsonrpc import error_of
from armory.protocol.link import (
    Call,
    ClientChannel,
    Hop,
    Params,
    Reply,
    Sent,
)
from armory.protocol.session_events import Lost, Notified, Renewed
from armory.protocol.versions import MODERN_VERSIONS, Era
from armory.tasks import Tasks
from armory.upstreams.session.budget import Budget
from armory.upstreams.session.context import UNKNOWN, Identity, LinkContext, Unintelligible
from armory.upstreams.session.inflow import GIVEN_UP, MESSAGE_LIMIT, GivenUp, Meter
from armory.upstreams.session.subscriptions import Subscriptions
from armory.upstreams.session.turns import Silent

_END_S = 5.0
_MESSAGE_CHARS = 5_000
"""Longest text about an upstream, part of which comes from the upstream itself."""
TOO_NOISY = "it was cut off: it does not stop sending what nobody asked for"


class BaseLink(ABC):
    """One live session with one upstream.

    A link is opened and closed by one task. `request` may be called by many tasks at once;
    cancelling it cancels the call upstream in the way of the transport and era.

    Attributes:
        stateless: whether the upstream keeps nothing between requests, so that links cost nothing,
            never die, and what one of them found out holds for all.
        mirrors_params: whether parameters of a call travel as HTTP headers, too, as `x-mcp-header`
            in the tools' schemas says.
        subscriptions: what the upstream is asked to report by itself.
        left_out: name and reason of each entry that the link itself could not make, by the method
            that lists the rest.
    """

    stateless = False
    mirrors_params = False
    left_out: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType({})

    def __init__(self, context: LinkContext) -> None:
        self.spec = context.spec
        self.client_info = context.client_info
        self.identity = UNKNOWN
        self._hop: Hop | None = None
        self.opened = time.monotonic()
        self._context = context
        self.budget = context.budget or Budget(context.spec.key)
        self.meter = Meter(context.inflow, context.spec.key, self._give_up)
        self._stamp = MetaStamp(MODERN_VERSIONS[-1], context.client_info)
        link = weakref.proxy(self)  # no cycle with what it has
        self.subscriptions = Subscriptions(
            context.spec,
            lambda call: link.request(call),
            lambda method, params: link.notified(method, params),
        )
        self._tasks = Tasks()

    @property
    def client(self) -> ClientChannel | None:
        """The client that has this session to itself; None: several may share it."""
        return self._context.client

    @property
    def owned_by_gateway(self) -> bool:
        """Whether it is the gateway's own session, or one that everybody shares."""
        return not self._context.owner

    @property
    def silent(self) -> Silent:
        """The tools and resources that never asked a client anything; shared by the upstream's
        links.
        """
        return self._context.silent

    @property
    def server(self) -> str:
        """Key of the upstream."""
        return self.spec.key

    @property
    def session_id(self) -> str | None:
        """Id of the session, where the upstream gave one."""
        return None

    @property
    def era(self) -> Era:
        """Era that was negotiated."""
        return self.identity.era

    @property
    def protocol_version(self) -> str:
        """Revision that was negotiated."""
        return self.identity.protocol_version

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The upstream's capabilities."""
        return self.identity.capabilities

    @property
    def server_info(self) -> Mapping[str, Any]:
        """The upstream's `serverInfo`."""
        return self.identity.server_info

    @property
    def instructions(self) -> str:
        """The upstream's `instructions`."""
        return self.identity.instructions

    @property
    def hears_lists(self) -> bool:
        """Whether the upstream reports changed lists by itself, and over a stream that is open."""
        return self.subscriptions.promised

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether no request can succeed any more."""

    @abstractmethod
    async def request(self, call: Call) -> Reply:
        """Send one request and wait for its answer.

        Raises:
            UpstreamUnavailable: the session died, before or during the call.
            UpstreamTimeout: the deadline passed; the call was cancelled upstream.
        """

    @abstractmethod
    async def notify(self, method: str, params: Params) -> None:
        """Send a notification. Does nothing in the modern era."""

    @abstractmethod
    async def roots_changed(self, client: ClientChannel, params: Params) -> None:
        """Tell the upstream that this client's roots changed, with the parameters `params`. Does
        nothing in the modern era.

        Raises:
            UpstreamUnavailable: it cannot be reached.
        """

    @abstractmethod
    async def close(self) -> None:
        """End the session; safe to call twice. Leaves no process, task or socket behind."""

    def _give_up(self, source: Any) -> None:
        """Drop the message that is being read from a response, for `Inflow`."""
        give_up(source, GivenUp(GIVEN_UP))

    async def rest(self) -> None:
        """Wait with reading until the upstream's budget allows it again.

        Raises:
            UpstreamUnavailable: it does not stop.
        """
        if self.budget.pause_s() and self.budget.worn_out:
            raise self.unavailable(TOO_NOISY)
        while pause_s := self.budget.pause_s():  # noqa: ASYNC110 # it waits for time
            await asyncio.sleep(pause_s)

    def adopt(self, identity: Identity) -> None:
        """Set what negotiation found."""
        self.identity = self.subscriptions.identity = identity
        self._hop = None
        if identity.era == "modern":
            self._stamp = MetaStamp(identity.protocol_version, self.client_info)

    def notified(self, method: str, params: Params) -> None:
        """A notification came that belongs to no request."""
        context = self._context
        context.observer.on_session_event(Notified(self.server, context.owner, method, params))

    def renewed(self) -> None:
        """The session was replaced by a new one behind this link."""
        self._context.observer.on_session_event(Renewed(self.server, self._context.owner))

    def lost(self, reason: str) -> None:
        """The session ended by itself."""
        self._context.observer.on_session_event(Lost(self.server, self._context.owner, reason))

    def unavailable(self, what: str) -> UpstreamUnavailable:
        """An error that names the upstream; secrets in what it said are redacted."""
        text = f"upstream {self.server!r}: {redacted(what[:_MESSAGE_CHARS])}"
        return UpstreamUnavailable(text, upstream=self.server)

    def unintelligible(self, what: str) -> Unintelligible:
        """An error that names the upstream, for an answer that is not the protocol."""
        text = f"upstream {self.server!r}: {redacted(what[:_MESSAGE_CHARS])}"
        return Unintelligible(text, upstream=self.server)

    def unreadable_answer(self, error: Exception) -> Unintelligible:
        """The error for an answer that could not be read, and what to do where it is too large."""
        return self.unintelligible(reading_failed(error))

    def hop(self) -> Hop:
        """What all calls of this link share, for stamping their parameters."""
        if self._hop is None:
            self._hop = Hop(self.identity.protocol_version, *self.spec.address)
        return self._hop

    def stamped(self, call: Call, request_id: int) -> Params:
        """The call's parameters with the `_meta` that the upstream's era requires of this hop."""
        if call.hop is not None:
            call.hop = self._hop or self.hop()
            if call.sent is not None:
                call.sent = Sent(request_id, self.session_id)
        client = call.client
        token = None
        if client is not None and client.progress_token is not None:
            token = request_id
        passed = call.params.get("_meta")
        if self.identity.era == "modern":
            meta = (
                self._stamp.meta(passed, call.declared, None, None, call.traceparent)
                if client is None
                else self._stamp.meta(
                    passed, client.capabilities, client.log_level, token, call.traceparent
                )
            )
            return {**call.params, "_meta": meta}
        if token is None and call.traceparent is None:
            return call.params
        meta = legacy_meta(passed, token, call.traceparent)
        return call.params if meta is None else {**call.params, "_meta": meta}

    def spawn(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        """Run a task beside the requests; `close` cancels it at the latest."""
        return self._tasks.spawn(work, f"{what} of {self.server}")

    async def end_tasks(self) -> None:
        """Cancel everything that `spawn` started, and wait for it."""
        await self.subscriptions.close()
        await self._tasks.stop(timeout_s=_END_S)

    async def probe(self) -> None:
        """Check that the upstream is alive.

        Raises:
            UpstreamUnavailable: there was none, or it does not speak the modern era any more.
            UpstreamTimeout: there was none in time.
        """
        modern = self.era == "modern"
        method = "server/discover" if modern else "ping"
        reply = await self.request(Call(method, {}, timeout_s=self.spec.connect_timeout_s))
        if modern and reply.error is not None:
            error = error_of(reply.error)
            raise self.unavailable(f"it refused the probe: {error.code} {error.message}")


def reading_failed(error: Exception) -> str:
    """The reason why something of an upstream could not be read; where it is too large, with the
    configuration key.
    """
    too_large = isinstance(error, BodyTooLarge | EventTooLarge) and not isinstance(error, GivenUp)
    return f"{error}; {MESSAGE_LIMIT}" if too_large else str(error)
