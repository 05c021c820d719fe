"""What every link has in common, whatever its transport and era.

Owns: stamping of outgoing parameters, log levels, resource subscriptions, health probes. Never
imports a transport.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Raw

from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.http1.reading import BodyTooLarge, give_up
from armory.logger import Logger
from armory.observability.redaction import redacted
from armory.protocol.hop_meta import MetaStamp, legacy_meta
from armory.protocol.link import (
    Call,
    ClientChannel,
    Hop,
    Params,
    Refused,
    Reply,
    Sent,
)
from armory.protocol.loglevels import LOG_LEVELS, loud_enough
from armory.protocol.methods import declares_groups
from armory.protocol.rawjson import encode
from armory.protocol.session_events import Lost, Notified, Renewed
from armory.protocol.versions import MODERN_VERSIONS, Era
from armory.tasks import Tasks
from armory.upstreams.session.budget import Budget
from armory.upstreams.session.context import UNKNOWN, Identity, LinkContext, Unintelligible
from armory.upstreams.session.inflow import GIVEN_UP, Meter
from armory.upstreams.session.listening import ListenStream

log = Logger(__name__)

_END_S = 5.0


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
        self._log_level: str | None = None
        self._wanted: frozenset[str] = frozenset()
        self._reported: set[str] = set()  # legacy: another object for each session
        self._subscribing = asyncio.Lock()
        self._levelling = asyncio.Lock()
        self._listening: ListenStream | None = None
        self._tasks = Tasks()

    @property
    def client(self) -> ClientChannel | None:
        """The one client whose session it is; None: several may share it."""
        return self._context.client

    @property
    def owned_by_gateway(self) -> bool:
        """Whether it is the gateway's own session, or everybody's."""
        return not self._context.owner

    @property
    def silent(self) -> set[tuple[str, bytes]]:
        """(method, name) of what never asked a client anything; shared by the upstream's links."""
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
    @abstractmethod
    def closed(self) -> bool:
        """Whether requests have no chance any more."""

    @abstractmethod
    async def request(self, call: Call) -> Reply:
        """Send one request and wait for its answer.

        Raises:
            UpstreamUnavailable: the session died, before or during the call.
            UpstreamTimeout: the deadline passed; the call was cancelled upstream.
        """

    @abstractmethod
    async def notify(self, method: str, params: Params) -> None:
        """Send a notification; legacy only, elsewhere it does nothing."""

    @abstractmethod
    async def roots_changed(self, client: ClientChannel) -> None:
        """Legacy: tell the upstream that this client's roots changed; elsewhere it does nothing.

        Raises:
            UpstreamUnavailable: it cannot be told.
        """

    @abstractmethod
    async def close(self) -> None:
        """End the session; safe to call twice. Leaves no process, task or socket behind."""

    def _give_up(self, source: Any) -> None:
        """Give up the message that comes from a response, as `Inflow` wants it."""
        give_up(source, BodyTooLarge(GIVEN_UP))

    async def rest(self) -> None:
        """Read nothing more for a moment, where the upstream has said too much unasked.

        Raises:
            UpstreamUnavailable: it does not stop.
        """
        if pause_s := self.budget.pause_s():
            if self.budget.worn_out:
                raise self.unavailable(TOO_NOISY)
            await asyncio.sleep(pause_s)

    def adopt(self, identity: Identity) -> None:
        """Take over what negotiation found."""
        self.identity = identity
        self._hop = None
        if identity.era == "modern":
            self._stamp = MetaStamp(identity.protocol_version, self.client_info)

    def notified(self, method: str, params: Params) -> None:
        """A notification came that belongs to no request."""
        context = self._context
        context.observer.on_session_event(Notified(self.server, context.owner, method, params))

    def renewed(self) -> None:
        """The session began anew behind this link."""
        self._context.observer.on_session_event(Renewed(self.server, self._context.owner))

    def lost(self, reason: str) -> None:
        """The session ended by itself."""
        self._context.observer.on_session_event(Lost(self.server, self._context.owner, reason))

    def unavailable(self, what: str) -> UpstreamUnavailable:
        """An error that names the upstream; what it said is shown without secrets."""
        text = f"upstream {self.server!r}: {redacted(what)}"
        return UpstreamUnavailable(text, upstream=self.server)

    def unintelligible(self, what: str) -> Unintelligible:
        """An error that names the upstream, for an answer that is none."""
        text = f"upstream {self.server!r}: {redacted(what)}"
        return Unintelligible(text, upstream=self.server)

    def hop(self) -> Hop:
        """What all its calls have in common."""
        if self._hop is None:
            self._hop = Hop(self.identity.protocol_version, *self.spec.address)
        return self._hop

    def stamped(self, call: Call, request_id: int) -> Params:
        """The call's parameters with the `_meta` that this hop owes the upstream's era."""
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
                self._stamp.meta(passed, None, None, None, call.traceparent)
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

    def spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Run something beside the requests; ended by `close` at the latest."""
        self._tasks.spawn(work, f"{what} of {self.server}")

    async def end_tasks(self) -> None:
        """Cancel everything that `spawn` started, and wait for it."""
        if self._listening is not None:
            await self._listening.close()
        await self._tasks.stop(timeout_s=_END_S)

    async def ensure_log_level(self, wanted: str | None) -> None:
        """Legacy: have an upstream that logs do so at the lowest level that any caller has wanted
        yet. One that does not answer is not asked again: each call would wait for it. Calls that
        come meanwhile wait, too, since they must not overtake the first one.
        """
        if self.identity.era == "modern" or wanted is None or wanted not in LOG_LEVELS:
            return
        if self._logs_from(wanted) and not self._levelling.locked():
            return
        async with self._levelling:
            if not self._logs_from(wanted):
                await self._set_log_level(wanted)

    def _logs_from(self, wanted: str) -> bool:
        return self._log_level is not None and loud_enough(wanted, self._log_level)

    async def _set_log_level(self, wanted: str) -> None:
        before, self._log_level = self._log_level, wanted
        level = {"level": Raw(encode(wanted))}
        wait_s = self.spec.connect_timeout_s
        try:
            reply = await self.request(Call("logging/setLevel", level, timeout_s=wait_s))
        except UpstreamTimeout as error:
            log.info("upstream_log_level_unanswered", upstream=self.server, error=str(error))
            return
        except BaseException:
            self._log_level = before
            raise
        if reply.error is not None:
            self._log_level = before
            log.info("upstream_log_level_refused", upstream=self.server, level=wanted)

    async def probe(self) -> None:
        """Ask for a sign of life.

        Raises:
            UpstreamUnavailable: there was none.
            UpstreamTimeout: there was none in time.
        """
        method = "server/discover" if self.era == "modern" else "ping"
        await self.request(Call(method, {}, timeout_s=self.spec.connect_timeout_s))

    async def watch_lists(self) -> bool:
        """Have the upstream announce changes of its lists; False when it cannot.

        Legacy upstreams announce by themselves what their capabilities promise.
        """
        kinds = ("tools", "prompts", "resources")
        able = any(_flag(self.capabilities, kind, "listChanged") for kind in kinds)
        if able and self.era == "modern":
            return await self._modern_listening().want(lists=True)
        return able

    async def set_subscriptions(self, uris: frozenset[str]) -> None:
        """Make the upstream report updates of exactly these resources (original URIs).

        Legacy: `resources/subscribe` and `unsubscribe` for the difference. Modern: a new
        `subscriptions/listen` with the union before the old one is let go.

        Raises:
            Refused: the upstream said no; what it accepted before stays.
            UpstreamUnavailable: as for `request`.
        """
        async with self._subscribing:
            if self.era == "modern":
                if uris != self._wanted:
                    if not await self._modern_listening().want(uris=uris) and uris:
                        raise self.unavailable("it does not serve subscriptions/listen")
                    self._wanted = uris
                return
            for uri in sorted(self._wanted - uris):
                self._wanted -= {uri}
                if uri in self._reported:
                    self._reported.discard(uri)
                    await self._subscription("resources/unsubscribe", uri)
            for uri in sorted(uris - self._reported):
                await self._subscribe(uri)
                self._wanted |= {uri}

    async def subscribe_again(self, uri: str) -> None:
        """Legacy: tell the upstream that one more client subscribed to a resource that is
        subscribed to; elsewhere it does nothing.

        Raises:
            Refused: the upstream said no; the subscription stays.
            UpstreamUnavailable: as for `request`.
        """
        if self.era == "legacy" and uri in self._wanted:
            await self._subscription("resources/subscribe", uri)

    async def renew_subscriptions(self) -> None:
        """Legacy: subscribe and set the log level again after the session began anew.

        It may begin anew once more meanwhile: whatever is wanted then is asked for again.
        """
        self._reported = set()
        async with self._subscribing:
            level, self._log_level = self._log_level, None
            await self.ensure_log_level(level)
            for uri in sorted(self._wanted - self._reported):
                try:
                    await self._subscribe(uri)
                except Refused as refused:
                    self._wanted -= {uri}
                    error = str(refused)
                    log.info("upstream_resubscribe_refused", upstream=self.server, error=error)

    async def _subscribe(self, uri: str) -> None:
        session = self._reported
        await self._subscription("resources/subscribe", uri)
        session.add(uri)

    async def _subscription(self, method: str, uri: str) -> None:
        reply = await self.request(Call(method, {"uri": Raw(encode(uri))}))
        if reply.error is not None:
            raise Refused(method, reply.error)

    def _modern_listening(self) -> ListenStream:
        if self._listening is None:
            groups = self.spec.groups and declares_groups(self.capabilities)
            self._listening = ListenStream(self.server, self.request, self.notified, groups=groups)
        return self._listening


def _flag(capabilities: Mapping[str, Any], kind: str, name: str) -> bool:
    entry = capabilities.get(kind)
    return isinstance(entry, dict) and bool(entry.get(name))  # pyright: ignore[reportUnknownMemberType]
