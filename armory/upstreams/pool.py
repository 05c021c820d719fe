"""The pool: routes each call to the upstream session that serves its caller.

Owns: the upstreams by key, subscriptions, idle sessions, configuration swapped while calls run.
Never imports `gateway` or above.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from armory.domain.catalog import ServerLists
from armory.errors import ArmoryError, UpstreamUnavailable
from armory.http1.reading import COUNTED_BYTES
from armory.logger import Logger
from armory.protocol.link import Call, ClientChannel, Owner, Params, Reply
from armory.protocol.session_events import Replaced, SessionObservers
from armory.protocol.versions import Era
from armory.tasks import Tasks, spawn, stop
from armory.upstreams.clock import Clock, SystemClock
from armory.upstreams.connecting.start_turns import StartTurns
from armory.upstreams.gateway_client import declared_by
from armory.upstreams.oauth.people import Vault
from armory.upstreams.outflow import Outflow, size_of
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.inflow import Inflow
from armory.upstreams.spec import CONCURRENT_STARTS, OUTFLOW_BYTES, UpstreamSpec
from armory.upstreams.state import PoolStatus
from armory.upstreams.upstream import Upstream

log = Logger(__name__)

CLIENT_INFO: Mapping[str, Any] = {"name": "armory", "version": "0"}
_DRAIN_S = 30.0


class Pool:
    """All upstream sessions of one gateway.

    Args:
        specs: the upstreams.
        clock: for breakers and idle times.
        client_info: the gateway's `clientInfo` toward upstreams.
        inflow: bounds answers that are not whole yet, in all.
        outflow_bytes: of large calls that are not answered yet, in all.
        concurrent_starts: processes that start at once.
        vault: where people's logins at upstreams are.

    Attributes:
        observers: get the events of every session.
    """

    def __init__(
        self,
        specs: Iterable[UpstreamSpec] = (),
        *,
        clock: Clock | None = None,
        client_info: Mapping[str, Any] = CLIENT_INFO,
        inflow: Inflow | None = None,
        outflow_bytes: int = OUTFLOW_BYTES,
        concurrent_starts: int = CONCURRENT_STARTS,
        vault: Vault | None = None,
    ) -> None:
        self._vault = vault
        self._clock = clock or SystemClock()
        self.observers = SessionObservers()
        self._client_info = dict(client_info)
        self._inflow = inflow or Inflow()
        self._outflow = Outflow(outflow_bytes)
        self._turns = StartTurns(concurrent_starts)
        self._upstreams = {spec.key: self._make(spec) for spec in specs}
        self._retiring = Tasks()
        self._reaper: asyncio.Task[None] | None = None
        self._closed = False

    def request(self, server: str, owner: Owner, call: Call) -> Coroutine[Any, Any, Reply]:
        """Send one call over the session that serves `owner`.

        Raises:
            UpstreamUnavailable: down, breaker open, died; `UpstreamOverloaded`: shed unsent, or
                too much is under way already.
            UpstreamTimeout: the deadline passed; the call was cancelled upstream.
        """
        if self._reaper is None:
            self._start_reaper()
        if (size := size_of(call)) >= COUNTED_BYTES:
            return self._large(server, owner, call, size)
        return self.upstream(server).request(owner, call)

    async def _large(self, server: str, owner: Owner, call: Call, size: int) -> Reply:
        call.large = True
        with self._outflow.holding(server, owner, size):
            return await self.upstream(server).request(owner, call)

    def upstream(self, server: str) -> Upstream:
        """The upstream with that key.

        Raises:
            UpstreamUnavailable: there is none (any more).
        """
        upstream = self._upstreams.get(server)
        if upstream is None:
            raise UpstreamUnavailable(f"there is no upstream {server!r}", upstream=server)
        return upstream

    def _opened(self, server: str) -> Upstream:
        """As `upstream`, where a session may be opened; starts the reaper of idle sessions."""
        if self._reaper is None:
            self._start_reaper()
        return self.upstream(server)

    async def fetch_lists(
        self, server: str, owner: Owner, capabilities: Mapping[str, Any] | None = None
    ) -> ServerLists:
        """Fetch all lists as `owner` sees them, where an upstream says that they are private.

        The client declares `capabilities`; None: those that its session declared. Changes are
        announced from then on, for as long as the session lives.

        Raises:
            UpstreamUnavailable: they cannot be fetched.
        """
        return await self._opened(server).fetch_lists(owner, capabilities)

    async def fetch_lists_for(
        self, server: str, capabilities: Mapping[str, Any], *, handshake: bool = False
    ) -> ServerLists:
        """Fetch all lists as a client with those capabilities would see them, over a temporary
        session of the gateway's own, so that no client's data is involved.

        Args:
            server: the upstream.
            capabilities: what the client declares.
            handshake: over a session with a handshake, also where the upstream is modern as well.

        Raises:
            UpstreamUnavailable: they cannot be fetched.
        """
        return await self.upstream(server).lists.seen_with(capabilities, handshake=handshake)

    async def set_subscriptions(
        self, server: str, owner: Owner, uris: frozenset[str], again: str | None = None
    ) -> None:
        """Subscribe the session of `owner` to exactly these original URIs.

        `again` is one of them that one more client subscribed to; upstreams with a handshake are
        told. Subscriptions survive reconnects; while there are any, the session is not closed for
        being idle.

        Raises:
            Refused: the upstream said no.
            UpstreamUnavailable: it cannot be asked.
        """
        upstream = self._opened(server)
        upstream.set_caller(owner.principal)
        await upstream.links.subscribe(owner, uris, again)

    async def settle(self, server: str, owner: Owner) -> None:
        """Find out for certain which session serves `owner`; until then `key` is a guess.

        Raises:
            UpstreamUnavailable: it cannot be found out.
        """
        upstream = self._opened(server)
        upstream.set_caller(owner.principal)
        links = upstream.links
        if not links.placing.is_certain(owner):
            await links.opened(owner, declared_by(owner))

    async def listen(self, server: str, owner: Owner, call: Call) -> Reply:
        """Send a `subscriptions/listen` over the session that serves `owner`. It takes no place in
        the queue of calls. Returns when the stream has ended.

        Raises:
            UpstreamUnavailable: no session can be opened, or the call ended otherwise.
        """
        return await self._opened(server).listen(owner, call)

    async def notify(self, server: str, owner: Owner, method: str, params: Params) -> None:
        """Send a notification over the session that serves `owner`; dropped in the modern era.

        Raises:
            UpstreamUnavailable: it cannot be reached.
        """
        await self._opened(server).notify(owner, method, params)

    async def roots_changed(self, owner: Owner, client: ClientChannel, params: Params) -> None:
        """A client's roots changed: notify the legacy sessions that declared roots for it, with the
        parameters `params`.

        Questions about roots that follow soon are put to `client`. Modern upstreams need no
        notification: they ask within each call.
        """
        for upstream in tuple(self._upstreams.values()):
            for link in upstream.links.legacy_links_with_roots(owner, client.capabilities):
                upstream.set_caller(owner.principal)
                try:
                    await link.roots_changed(client, params)
                except ArmoryError as error:
                    log.debug("upstream_roots_news_failed", error=str(error))

    def log_level_changed(self, owner: Owner, level: str) -> None:
        """A client set its log level: set it on the open sessions that serve it, in the background;
        later sessions get it with the client's next call.
        """
        for upstream in tuple(self._upstreams.values()):
            for link in upstream.links.own_legacy_links(owner):
                if "logging" in link.capabilities:
                    upstream.set_caller(owner.principal)
                    link.spawn(_logging_from(level, link), "log level")

    def key(self, server: str, owner: Owner) -> str:
        """Key of the session that serves `owner`: `SessionEvent.owner`."""
        return self.upstream(server).links.placing.key(owner)

    def announces(self, server: str, owner: Owner) -> bool:
        """Whether `owner` has an open session, other than the gateway's own, that announces changes
        of lists.
        """
        upstream = self._upstreams.get(server)
        return upstream is not None and upstream.links.announces(owner)

    def has(self, server: str) -> bool:
        """Whether there is an upstream with that key."""
        return server in self._upstreams

    def servers(self) -> list[str]:
        """Keys of the upstreams, in the order of the configuration."""
        return list(self._upstreams)

    def specs(self) -> list[UpstreamSpec]:
        """The current settings of all upstreams, in the order of the configuration."""
        return [upstream.spec for upstream in self._upstreams.values()]

    def era(self, server: str) -> Era | None:
        """Era of the upstream; None while it has never been reached."""
        upstream = self._upstreams.get(server)
        verdict = upstream.connector.verdict if upstream is not None else None
        return None if verdict is None else verdict.era

    def may_shake_hands(self, server: str) -> bool:
        """Whether a session with a handshake is possible, as far as is known."""
        upstream = self._upstreams.get(server)
        return upstream is not None and upstream.connector.may_shake_hands

    def status(self) -> dict[str, PoolStatus]:
        """The status of every upstream."""
        now = self._clock.now()
        return {
            key: PoolStatus(
                u.links.counts(),
                u.spec.max_sessions,
                u.spec.isolation,
                u.queue.inside,
                u.queue.waiting,
                u.breaker_state(now),
            )
            for key, u in self._upstreams.items()
        }

    async def release_session(self, session_id: str) -> None:
        """A client's legacy session ended: close the upstream sessions that only it used."""
        for upstream in self._upstreams.values():
            upstream.links.release(session_id)

    async def update(self, specs: Iterable[UpstreamSpec]) -> None:
        """Replace the configuration: unchanged upstreams keep their sessions, calls in flight
        finish.
        """
        new = {spec.key: spec for spec in specs}
        old = [u for key, u in self._upstreams.items() if new.get(key) != u.spec]
        for upstream in old:
            del self._upstreams[upstream.spec.key]
        # In the order of the configuration.
        self._upstreams = {
            key: self._upstreams.get(key) or self._make(spec) for key, spec in new.items()
        }
        for upstream in old:
            self._retire(upstream, "the configuration changed")

    def renew(self, server: str) -> None:
        """Replace the sessions of one upstream; calls in flight finish on the old ones.

        Raises:
            UpstreamUnavailable: there is no such upstream.
        """
        old = self.upstream(server)
        self._upstreams[server] = self._make(old.spec)
        self._retire(old, "the upstream was started anew")

    def logins_changed(self) -> None:
        """People logged in or out elsewhere: read the vault again."""
        for upstream in self._upstreams.values():
            upstream.logins_changed()

    async def close(self) -> None:
        """Close everything; leaves no process, task or socket."""
        self._closed = True
        await stop(self._reaper)
        upstreams = tuple(self._upstreams.values())
        self._upstreams = {}
        await asyncio.gather(*(upstream.retire(0, "the gateway ends") for upstream in upstreams))
        await self._retiring.ended()

    def _make(self, spec: UpstreamSpec) -> Upstream:
        return Upstream(
            spec,
            self._clock,
            self._client_info,
            self.observers,
            self._inflow,
            self._turns,
            self._vault,
        )

    def _retire(self, upstream: Upstream, why: str) -> None:
        """Drain an upstream that was replaced or removed."""
        upstream.links.stop_watching()
        self._retiring.spawn(upstream.retire(_DRAIN_S, why), f"retire {upstream.spec.key}")
        self.observers.on_session_event(Replaced(upstream.spec.key))

    def _start_reaper(self) -> None:
        if not self._closed:
            self._reaper = spawn(self._reap(), "close idle upstream sessions")

    async def _reap(self) -> None:
        while True:
            times = [u.spec.idle_timeout_s for u in self._upstreams.values()]
            await self._clock.sleep(min(30.0, max(0.05, min(times, default=30.0) / 4)))
            now = self._clock.now()
            for upstream in self._upstreams.values():
                upstream.links.reap(now)


async def _logging_from(level: str, link: BaseLink) -> None:
    try:
        await link.subscriptions.ensure_log_level(level)
    except ArmoryError as error:
        log.debug("upstream_log_level_unsent", error=str(error))
