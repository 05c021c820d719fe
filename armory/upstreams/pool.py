"""Which upstream session serves which caller, within which bounds.

Owns: the way of a call through breaker, concurrency, session and retry; configuration swapped
while calls run. Never imports `gateway` or above.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from armory.domain.catalog import ServerLists
from armory.domain.principal import INTERNAL
from armory.errors import UpstreamOverloaded, UpstreamTimeout, UpstreamUnavailable
from armory.upstreams.breaker import Breaker, State
from armory.upstreams.clock import Clock, SystemClock
from armory.upstreams.gate import Gate, QueueFull
from armory.upstreams.http import HttpLink
from armory.upstreams.http_client import HttpFailure
from armory.upstreams.link import Call, Era, Link, Listener, Owner, Params, Reply
from armory.upstreams.lists import fetch_lists
from armory.upstreams.negotiate import Connector
from armory.upstreams.session import Session, Unintelligible
from armory.upstreams.sessions import OWN, Sessions
from armory.upstreams.spec import UpstreamSpec

log = structlog.get_logger(__name__)

OWNER = Owner(INTERNAL)
"""The gateway itself."""

CLIENT_INFO: Mapping[str, Any] = {"name": "armory", "version": "0"}
_DRAIN_S = 30.0
_NO_CAPABILITIES: Mapping[str, Any] = {}

Watcher = Callable[[str], None]
"""Told what happened on an upstream: a `list_changed` method, "renewed", or "closed: why"."""


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """One upstream as the pool sees it.

    Attributes:
        sessions: sessions (processes, HTTP sessions) that are open or opening.
        in_flight: calls under way.
        queued: calls waiting for their turn.
        breaker: state of the breaker.
    """

    sessions: int
    in_flight: int
    queued: int
    breaker: State


class Upstream:
    """One upstream's way in. Made and kept by the pool.

    Args:
        spec: the upstream.
        clock: for breaker and idle times.
        client_info: the gateway's `clientInfo`.
        listener: who hears notifications that belong to no request.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        clock: Clock,
        client_info: Mapping[str, Any],
        listener: Listener | None,
    ) -> None:
        self.spec = spec
        self.breaker = Breaker(spec.breaker_failures, spec.breaker_open_s)
        self.gate = Gate(spec.max_concurrency, spec.max_queue)
        self.connector = Connector(spec, client_info)
        self.sessions = Sessions(spec, self.connector, self, clock)
        self.watcher: Watcher | None = None
        self._clock = clock
        self._listener = listener

    # --- Ears

    def notification(self, owner: str, method: str, params: Params) -> None:
        """A notification outside any request."""
        if self.watcher is not None and method.endswith("/list_changed"):
            self.watcher(method)
        if self._listener is not None:
            self._listener.on_notification(self.spec.key, owner, method, params)

    def renewed(self, owner: str) -> None:
        """A session began anew behind its link."""
        if owner == OWN and self.watcher is not None:
            self.watcher("renewed")

    def closed(self, owner: str, reason: str) -> None:
        """A session died."""
        if owner == OWN and self.watcher is not None:
            self.watcher(f"closed: {reason}")

    # --- calls

    async def request(self, owner: Owner, call: Call) -> Reply:
        """As `Pool.request`."""
        if not self.breaker.admits(now := self._clock.now()):
            wait_s = self.breaker.retry_after_s(now)
            raise UpstreamUnavailable(
                f"upstream {self.spec.key!r} failed {self.spec.breaker_failures} times in a row; "
                f"it is tried again in {wait_s:.0f} s",
                upstream=self.spec.key,
                retry_after_s=wait_s,
            )
        try:
            if not self.gate.try_enter():
                await self._queue(call)
            try:
                reply = await self._send(owner, call)
            finally:
                self.gate.leave()
        except UpstreamUnavailable as error:
            if _counts(error):
                self.breaker.failed(self._clock.now())
            else:
                self.breaker.abandoned()
            raise
        except BaseException:
            self.breaker.abandoned()
            raise
        self.breaker.succeeded()
        return reply

    async def _queue(self, call: Call) -> None:
        timeout_s = self.spec.call_timeout_s if call.timeout_s is None else call.timeout_s
        try:
            await self.gate.enter(timeout_s)
        except QueueFull:
            raise UpstreamOverloaded(
                f"upstream {self.spec.key!r} has {self.gate.inside} calls in flight and "
                f"{self.gate.waiting} waiting; the limits are max_concurrency: "
                f"{self.spec.max_concurrency} and max_queue: {self.spec.max_queue}",
                upstream=self.spec.key,
                retry_after_s=1.0,
            ) from None
        except TimeoutError:
            raise UpstreamOverloaded(
                f"upstream {self.spec.key!r} had no place for the call within {timeout_s:g} s",
                upstream=self.spec.key,
                retry_after_s=1.0,
            ) from None

    async def _send(self, owner: Owner, call: Call) -> Reply:
        try:
            return await self._send_once(owner, call)
        except (UpstreamOverloaded, UpstreamTimeout, Unintelligible):
            raise
        except UpstreamUnavailable as error:
            if not call.safe_to_retry or not _counts(error):
                raise
            log.info("upstream_call_retried", upstream=self.spec.key, method=call.method)
        return await self._send_once(owner, call)

    async def _send_once(self, owner: Owner, call: Call) -> Reply:
        client = call.client
        slot = self.sessions.slot(
            owner, client.capabilities if client is not None else _NO_CAPABILITIES
        )
        slot.in_flight += 1
        try:
            link = slot.link
            if link is None or link.closed:
                link = await self.sessions.link(slot)
            return await link.request(call)
        finally:
            slot.in_flight -= 1
            slot.last_used = self._clock.now()

    # --- the gateway's own session

    async def own_link(self) -> Session:
        """The gateway's own session, opened if need be and never reaped; heeds no breaker.

        Raises:
            UpstreamUnavailable: it cannot be opened.
        """
        slot = self.sessions.slot(OWNER, _NO_CAPABILITIES)
        slot.pinned = True
        try:
            link = await self.sessions.link(slot)
        except UpstreamUnavailable:
            self.breaker.failed(self._clock.now())
            raise
        self.breaker.succeeded()
        return link

    @property
    def own_busy(self) -> bool:
        """Whether a call is under way on the gateway's own session."""
        return self.sessions.slot(OWNER, _NO_CAPABILITIES).in_flight > 0

    async def lists_over(self, link: Session, before: ServerLists | None = None) -> ServerLists:
        """All lists over one link."""
        rules = isinstance(link, HttpLink)
        return await fetch_lists(link, link.request, header_rules=rules, before=before)

    async def retire(self, drain_s: float) -> None:
        """Let calls in flight end, then close everything."""
        if drain_s and not await self.gate.drained(drain_s):
            log.warning("upstream_calls_cut", upstream=self.spec.key, calls=self.gate.inside)
        await self.sessions.close()
        await self.connector.close()


class Pool:
    """All upstream sessions of one gateway.

    Args:
        specs: the upstreams.
        listener: who hears notifications that belong to no request.
        clock: for breakers and idle times.
        client_info: the gateway's `clientInfo` toward upstreams.
    """

    def __init__(
        self,
        specs: Iterable[UpstreamSpec] = (),
        *,
        listener: Listener | None = None,
        clock: Clock | None = None,
        client_info: Mapping[str, Any] = CLIENT_INFO,
    ) -> None:
        self._clock = clock or SystemClock()
        self._listener = listener
        self._client_info = dict(client_info)
        self._upstreams = {spec.key: self._make(spec) for spec in specs}
        self._retiring: set[asyncio.Task[None]] = set()
        self._reaper: asyncio.Task[None] | None = None
        self._closed = False

    async def request(self, server: str, owner: Owner, call: Call) -> Reply:
        """Send one call over the session that serves `owner`.

        Raises:
            UpstreamUnavailable: down, breaker open, died; `UpstreamOverloaded`: shed unsent.
            UpstreamTimeout: the deadline passed; the call was cancelled upstream.
        """
        if self._reaper is None:
            self._start_reaper()
        return await self.upstream(server).request(owner, call)

    def upstream(self, server: str) -> Upstream:
        """The upstream with that key.

        Raises:
            UpstreamUnavailable: there is none (any more).
        """
        found = self._upstreams.get(server)
        if found is None:
            raise UpstreamUnavailable(f"there is no upstream {server!r}", upstream=server)
        return found

    async def link(
        self, server: str, owner: Owner, capabilities: Mapping[str, Any] = _NO_CAPABILITIES
    ) -> Link:
        """The live link that serves `owner`, opened if need be.

        Raises:
            UpstreamUnavailable: it cannot be opened.
        """
        sessions = self.upstream(server).sessions
        return await sessions.link(sessions.slot(owner, capabilities))

    async def fetch_lists(self, server: str, owner: Owner) -> ServerLists:
        """All lists as `owner` sees them, where an upstream says that they are private.

        Raises:
            UpstreamUnavailable: they cannot be had.
        """
        upstream = self.upstream(server)
        slot = upstream.sessions.slot(owner, _NO_CAPABILITIES)
        slot.in_flight += 1
        try:
            return await upstream.lists_over(await upstream.sessions.link(slot))
        finally:
            slot.in_flight -= 1
            slot.last_used = self._clock.now()

    async def set_subscriptions(self, server: str, owner: Owner, uris: frozenset[str]) -> None:
        """Make the session of `owner` report updates of exactly these original URIs.

        Kept over reconnects; while there are any, the session is not closed for being idle.

        Raises:
            Refused: the upstream said no.
            UpstreamUnavailable: it cannot be asked.
        """
        await self.upstream(server).sessions.subscribe(owner, uris)

    async def broadcast(self, owner: Owner, method: str, params: Params) -> None:
        """Pass a client's notification on to the open legacy sessions that serve `owner`."""
        for upstream in tuple(self._upstreams.values()):
            for link in upstream.sessions.links_of(upstream.sessions.owner_key(owner)):
                if link.era == "legacy":
                    try:
                        await link.notify(method, params)
                    except UpstreamUnavailable as error:
                        log.debug("upstream_broadcast_failed", error=str(error))

    def key(self, server: str, owner: Owner) -> str:
        """Name of the session that serves `owner`: what `Listener.on_notification` calls owner."""
        return self.upstream(server).sessions.owner_key(owner)

    def servers(self) -> list[str]:
        """Keys of the upstreams, in the order of the configuration."""
        return list(self._upstreams)

    def era(self, server: str) -> Era | None:
        """Era of the upstream; None while it has never been reached."""
        found = self._upstreams.get(server)
        verdict = found.connector.verdict if found is not None else None
        return None if verdict is None else verdict.era

    def status(self) -> dict[str, PoolStatus]:
        """Every upstream as it stands."""
        now = self._clock.now()
        return {
            key: PoolStatus(len(u.sessions), u.gate.inside, u.gate.waiting, u.breaker.state(now))
            for key, u in self._upstreams.items()
        }

    async def release_session(self, session_id: str) -> None:
        """A client's legacy session ended: close what only it used."""
        for upstream in self._upstreams.values():
            upstream.sessions.release(session_id)

    async def update(self, specs: Iterable[UpstreamSpec]) -> None:
        """Swap the configuration: what did not change keeps its sessions, calls in flight end."""
        new = {spec.key: spec for spec in specs}
        for key, upstream in tuple(self._upstreams.items()):
            if new.get(key) != upstream.spec:
                del self._upstreams[key]
                self._retire(upstream)
        # In the order of the configuration.
        self._upstreams = {
            key: self._upstreams.get(key) or self._make(spec) for key, spec in new.items()
        }

    async def close(self) -> None:
        """Close everything; leaves no process, task or socket."""
        self._closed = True
        if self._reaper is not None:
            self._reaper.cancel()
            await asyncio.wait([self._reaper])
        upstreams = tuple(self._upstreams.values())
        self._upstreams = {}
        await asyncio.gather(*(upstream.retire(0) for upstream in upstreams))
        while self._retiring:
            await asyncio.wait(tuple(self._retiring))

    def _make(self, spec: UpstreamSpec) -> Upstream:
        return Upstream(spec, self._clock, self._client_info, self._listener)

    def _retire(self, upstream: Upstream) -> None:
        task = asyncio.get_running_loop().create_task(upstream.retire(_DRAIN_S))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    def _start_reaper(self) -> None:
        if not self._closed:
            self._reaper = asyncio.get_running_loop().create_task(self._reap())

    async def _reap(self) -> None:
        while True:
            times = [u.spec.idle_timeout_s for u in self._upstreams.values()]
            await self._clock.sleep(min(30.0, max(0.05, min(times, default=30.0) / 4)))
            now = self._clock.now()
            for upstream in self._upstreams.values():
                upstream.sessions.reap(now)


def _counts(error: UpstreamUnavailable) -> bool:
    """Whether an error says that the upstream is ill, rather than that this call was wrong."""
    if isinstance(error, UpstreamOverloaded | Unintelligible):
        return False
    if isinstance(error, HttpFailure):
        return error.status >= 500 or error.status == 429
    return True
