"""One upstream's way in: breaker, queue, session, retry.

Owns: the way of a single call, and the gateway's own session. Never imports the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from armory.domain.catalog import ServerLists
from armory.domain.groups import OwnGroup
from armory.domain.principal import INTERNAL, Principal
from armory.errors import UpstreamOverloaded, UpstreamTimeout, UpstreamUnavailable
from armory.logger import Logger
from armory.protocol.link import Call, Owner, Reply
from armory.protocol.methods import GROUPS_DECLARED, declares_groups
from armory.protocol.session_events import SessionObserver, SessionObservers
from armory.upstreams.breaker import Breaker, State
from armory.upstreams.clock import Clock
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.connecting.start_turns import StartTurns
from armory.upstreams.connecting.verdict import NoHandshake
from armory.upstreams.error_output import ErrorOutput
from armory.upstreams.link_pool import LinkPool
from armory.upstreams.link_slot import LinkSlot
from armory.upstreams.oauth.code_flow import BegunLogin
from armory.upstreams.oauth.grants import has_logins, is_personal
from armory.upstreams.oauth.people import PersonTokens, Vault
from armory.upstreams.oauth.subjects import CALLER
from armory.upstreams.own_accounts import is_login, logged_in
from armory.upstreams.own_groups import fetch_groups
from armory.upstreams.queue import CallQueue, QueueFull
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.context import Unintelligible
from armory.upstreams.session.inflow import Inflow
from armory.upstreams.session.lists import fetch_lists
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_failures import HttpFailure

log = Logger(__name__)

_BREAKERS = 10_000
_LISTING = "\0listing"
"""Key of sessions that are opened for lists alone, beside those of callers."""
_GROUPS_S = 30.0
OWNER = Owner(INTERNAL)
"""The gateway itself."""

OWN_CAPABILITIES: Mapping[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {},
    "roots": {},
}
"""What the gateway's own session declares: some servers list only the tools that such a client can
use. It calls none of them, and refuses whatever it is asked."""


def declared_by(owner: Owner) -> Mapping[str, Any]:
    """What is declared where no client says what it can do."""
    return OWN_CAPABILITIES if owner.principal is INTERNAL else owner.capabilities


class Upstream:
    """One upstream's way in. Made and kept by the pool.

    Args:
        spec: the upstream.
        clock: for breaker and idle times.
        client_info: the gateway's `clientInfo`.
        observer: who is told what happens on the sessions of any upstream.
        inflow: counts what upstreams have sent of messages that are not whole yet.
        turns: in which processes start.
        vault: where people's logins are.

    Attributes:
        observers: who is told what happens on this upstream's.
        errors: what its processes wrote to standard error.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        clock: Clock,
        client_info: Mapping[str, Any],
        observer: SessionObserver,
        inflow: Inflow,
        turns: StartTurns,
        vault: Vault | None = None,
    ) -> None:
        self.spec = spec
        self._personal = is_personal(spec.auth)
        self.breaker = Breaker(spec.breaker_failures, spec.breaker_open_s)
        self._breakers: dict[str, Breaker] = {}
        self.queue = CallQueue(spec.max_concurrency, spec.max_queue)
        self.errors = ErrorOutput()
        self.connector = Connector(spec, client_info, self.errors, inflow, vault)
        self.observers = SessionObservers()
        self.observers.add(observer)
        self.links = LinkPool(spec, self.connector, self.observers, clock, turns)
        self._clock = clock

    async def request(self, owner: Owner, call: Call) -> Reply:
        """As `Pool.request`."""
        call.caller = owner.principal.key
        if self._personal:
            self.serves(owner.principal)
            if is_login(call, self.spec.auth):
                return await self._log_in(owner)
        breaker = self._breaker_of(owner)
        now = self._clock.now()
        away = self.breaker.state(now) == "open"
        if away or not breaker.admits(now):
            wait_s = (self.breaker if away else breaker).retry_after_s(now)
            raise UpstreamUnavailable(
                f"upstream {self.spec.key!r} failed {self.spec.breaker_failures} times in a row; "
                f"it is tried again in {wait_s:.0f} s",
                upstream=self.spec.key,
                retry_after_s=wait_s,
            )
        used: list[BaseLink] = []
        try:
            if not self.queue.try_enter():
                await self._wait_turn(call)
            try:
                reply = await self._send(owner, call, used)
            finally:
                self.queue.leave()
        except UpstreamUnavailable as error:
            if _counts(error):
                dead = used[-1] if used and used[-1].closed else None
                breaker.failed(self._clock.now(), dead)
            else:
                breaker.abandoned()
            raise
        except BaseException:
            breaker.abandoned()
            raise
        breaker.succeeded()
        return reply

    def serves(self, principal: Principal) -> None:
        """What this task sends from now on goes with the token that this principal came with."""
        CALLER.set(principal)
        if self._personal:
            self.connector.came(principal)

    async def _log_in(self, owner: Owner) -> Reply:
        """The answer to whoever calls the tool that asks for a login.

        Raises:
            LoginNeeded: it has none.
        """
        client = self.connector.client
        assert client.people is not None
        tokens = client.people.person(owner.principal)
        if await tokens.current(client.url) is None:
            raise tokens.wanting("you have not logged in yet")
        return logged_in(self.spec.key)

    def login_of(self, principal: Principal) -> PersonTokens | None:
        """A principal's own login; None where nobody has one."""
        if not has_logins(self.spec.auth):
            return None
        people = self.connector.client.people
        return None if people is None else people.person(principal)

    async def begin_login(self, principal: Principal, redirect_uri: str) -> BegunLogin:
        """Begin to log a principal in; `finish` of `login_of` ends it.

        Raises:
            UpstreamUnavailable: it cannot be found out where.
        """
        tokens, client = self.login_of(principal), self.connector.client
        assert tokens is not None
        return await tokens.begin(client.url, await client.challenged(), redirect_uri)

    def logins_changed(self) -> None:
        """As `Pool.logins_changed`."""
        if self._personal and (people := self.connector.client.people) is not None:
            people.forget()

    def breaker_state(self, now: float) -> State:
        """The worst state of any breaker at `now` (seconds)."""
        states = {self.breaker.state(now), *(b.state(now) for b in self._breakers.values())}
        return "open" if "open" in states else "half_open" if "half_open" in states else "closed"

    def _breaker_of(self, owner: Owner) -> Breaker:
        """That of the session, or process, that serves `owner`: its failures are its own."""
        key = self.links.placing.key(owner)
        breaker = self._breakers.get(key)
        if breaker is None:
            if len(self._breakers) >= _BREAKERS:
                del self._breakers[next(iter(self._breakers))]
            breaker = Breaker(self.spec.breaker_failures, self.spec.breaker_open_s)
            self._breakers[key] = breaker
        return breaker

    async def _wait_turn(self, call: Call) -> None:
        timeout_s = self.spec.call_timeout_s if call.timeout_s is None else call.timeout_s
        try:
            await self.queue.enter(timeout_s)
        except QueueFull:
            raise UpstreamOverloaded(
                f"upstream {self.spec.key!r} has {self.queue.inside} calls in flight and "
                f"{self.queue.waiting} waiting; the limits are max_concurrency: "
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

    async def _send(self, owner: Owner, call: Call, used: list[BaseLink]) -> Reply:
        """Send it, once more where that is safe; the links on which it went are noted in `used`."""
        try:
            return await self._send_once(owner, call, used)
        except (UpstreamOverloaded, UpstreamTimeout, Unintelligible):
            raise
        except UpstreamUnavailable as error:
            if not call.safe_to_retry or not _counts(error):
                raise
            log.info("upstream_call_retried", upstream=self.spec.key, method=call.method)
        return await self._send_once(owner, call, used)

    async def _send_once(self, owner: Owner, call: Call, used: list[BaseLink]) -> Reply:
        client = call.client
        slot = self.links.slot(
            owner, client.capabilities if client is not None else declared_by(owner)
        )
        slot.in_flight += 1
        try:
            link = slot.link
            if link is None or link.closed:
                link = await self._opened(slot, call)
            used.append(link)
            return await link.request(call)
        except NoHandshake:  # nothing was sent; what serves the owner instead is known now
            return await self._send_once(owner, call, used)
        finally:
            slot.in_flight -= 1
            slot.last_used = self._clock.now()

    async def _opened(self, slot: LinkSlot, call: Call) -> BaseLink:
        """A link of the slot; a start goes on that a call has no more time to wait for."""
        timeout_s = self.spec.call_timeout_s if call.timeout_s is None else call.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await self.links.link(slot)
        except TimeoutError:
            starting = self.connector.starting
            awaited = starting.said if starting is not None else "it is still being connected to"
            raise UpstreamTimeout(
                f"upstream {self.spec.key!r}: {awaited}; try again in a while",
                upstream=self.spec.key,
            ) from None

    # --- the gateway's own session

    async def own_link(self) -> BaseLink:
        """The gateway's own session, opened if need be and never reaped; heeds no breaker.

        Raises:
            UpstreamUnavailable: it cannot be opened.
        """
        slot = self.links.slot(OWNER, OWN_CAPABILITIES)
        slot.pinned = True
        try:
            link = await self.links.link(slot)
        except UpstreamUnavailable:
            self.breaker.failed(self._clock.now())
            raise
        self.breaker.succeeded()
        return link

    @property
    def own_busy(self) -> bool:
        """Whether a call is under way on the gateway's own session."""
        return self.links.slot(OWNER, OWN_CAPABILITIES).in_flight > 0

    async def lists_over(self, link: BaseLink, before: ServerLists | None = None) -> ServerLists:
        """All lists over one link.

        Raises:
            LoginNeeded: whoever it belongs to must log in first.
            UpstreamUnavailable: they cannot be had.
        """
        limit = self.spec.list_entries
        lists = await fetch_lists(link, before=before, max_entries=limit)
        if not (self.spec.groups and declares_groups(link.capabilities)):
            return lists
        return replace(lists, groups=await self._groups(link, before))

    async def _groups(self, link: BaseLink, before: ServerLists | None) -> Sequence[OwnGroup]:
        """The upstream's own groups, or those of last time. Who shakes hands declares them for all
        of a session, so there they are asked for over another one, the gateway's.
        """
        beside = link.era == "legacy"
        if beside and not link.owned_by_gateway:
            return ()
        try:
            async with asyncio.timeout(_GROUPS_S):
                if not beside:
                    return await fetch_groups(link)
                declared = {**OWN_CAPABILITIES, **GROUPS_DECLARED}
                asked = await self.connector.connect(
                    OWNER, declared, SessionObservers(), key=_LISTING
                )
                try:
                    return await fetch_groups(asked)
                finally:
                    self.links.end(asked)
        except (UpstreamUnavailable, TimeoutError) as error:
            said = str(error) or f"not within {_GROUPS_S:g} s"
            log.warning("upstream_groups_not_fetched", upstream=self.spec.key, error=said)
            return before.groups if before is not None else ()

    async def lists_for(
        self, capabilities: Mapping[str, Any], *, handshake: bool = False
    ) -> ServerLists:
        """As `Pool.fetch_lists_for`."""
        connector = self.connector
        connect = connector.connect_legacy if handshake else connector.connect
        try:
            link = await connect(OWNER, capabilities, SessionObservers(), key=_LISTING)
        except NoHandshake:
            why = f"upstream {self.spec.key!r} takes no handshake"
            raise UpstreamUnavailable(why, upstream=self.spec.key) from None
        try:
            return await fetch_lists(link, max_entries=self.spec.list_entries, quiet=True)
        finally:
            self.links.end(link)

    async def retire(self, drain_s: float) -> None:
        """Let calls in flight end, then close everything."""
        if drain_s and not await self.queue.drained(drain_s):
            log.warning("upstream_calls_cut", upstream=self.spec.key, calls=self.queue.inside)
        await self.links.close()
        await self.connector.close()


def _counts(error: UpstreamUnavailable) -> bool:
    """Whether an error says that the upstream is ill, rather than that this call was wrong."""
    if isinstance(error, UpstreamOverloaded | Unintelligible):
        return False
    if isinstance(error, HttpFailure):
        return error.status >= 500 or error.status == 429
    return True
