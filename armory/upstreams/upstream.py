"""One upstream: circuit breaker, queue, session and retry around each call.

Owns: the way of a single call, and the gateway's own session. Never imports the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from armory.domain.catalog import ServerLists
from armory.domain.principal import Principal
from armory.errors import (
    UpstreamOverloaded,
    UpstreamPaused,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from armory.logger import Logger
from armory.protocol.link import Call, Owner, Params, Reply
from armory.protocol.session_events import SessionObserver, SessionObservers
from armory.upstreams.breaker import Breakers, State
from armory.upstreams.clock import Clock
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.connecting.start_turns import StartTurns
from armory.upstreams.connecting.verdict import NoHandshake
from armory.upstreams.error_output import ErrorOutput
from armory.upstreams.gateway_client import OWN_CAPABILITIES, OWNER, declared_by
from armory.upstreams.link_pool import LinkPool
from armory.upstreams.link_slot import LinkSlot
from armory.upstreams.oauth.code_flow import BegunLogin
from armory.upstreams.oauth.grants import has_logins, is_personal
from armory.upstreams.oauth.logins import Login
from armory.upstreams.oauth.people import PersonTokens, Vault
from armory.upstreams.oauth.subjects import CALLER
from armory.upstreams.offered.fetching import ListFetcher
from armory.upstreams.offered.login_tool import is_login, logged_in
from armory.upstreams.queue import CallQueue, QueueFull
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.context import Unintelligible
from armory.upstreams.session.inflow import Inflow
from armory.upstreams.session.replies import AnswerRefused, SessionOver
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_failures import HttpFailure

log = Logger(__name__)


class Upstream:
    """One upstream: its queue, breakers, sessions and lists. Created by the pool.

    Args:
        spec: the upstream.
        clock: for breaker and idle times.
        client_info: the gateway's `clientInfo`.
        observer: gets the events of the sessions of every upstream.
        inflow: counts the bytes of messages that are not complete yet.
        turns: in which processes start.
        vault: where people's logins are.

    Attributes:
        observers: get the events of this upstream's sessions.
        errors: what its processes wrote to standard error.
        lists: what it offers.
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
        self._breakers = Breakers(spec.breaker_failures, spec.breaker_open_s)
        self.queue = CallQueue(spec.max_concurrency, spec.max_queue)
        self.errors = ErrorOutput()
        self.connector = Connector(spec, client_info, self.errors, inflow, vault)
        self.observers = SessionObservers()
        self.observers.add(observer)
        self.links = LinkPool(
            spec, self.connector, self.observers, clock, turns, self._breakers.forget
        )
        self.lists = ListFetcher(spec, self.connector, self.links, clock)
        self._clock = clock
        self._cut_by = ""

    async def request(self, owner: Owner, call: Call) -> Reply:
        """As `Pool.request`."""
        call.caller = owner.principal.key
        if self._personal:
            self.set_caller(owner.principal)
            if is_login(call, self.spec.auth):
                return await self._log_in(owner)
        breaker = self._breakers.of(self.links.placing.key(owner))
        now = self._clock.now()
        own = self._breakers.own
        away = own.state(now) == "open"
        if away or not breaker.admits(now):
            wait_s = (own if away else breaker).retry_after_s(now)
            raise UpstreamPaused(
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
            if self._cut_by and type(error) is UpstreamUnavailable:
                why = f"upstream {self.spec.key!r}: the call was cut, since {self._cut_by}"
                raise UpstreamUnavailable(why, upstream=self.spec.key) from None
            raise
        except BaseException:
            breaker.abandoned()
            raise
        breaker.succeeded()
        return reply

    async def notify(self, owner: Owner, method: str, params: Params) -> None:
        """As `Pool.notify`. Not sent while a breaker is not closed: calls find out whether it is
        back.

        Raises:
            UpstreamUnavailable: it cannot be reached.
        """
        slot, link = await self._beside_calls(owner)
        slot.last_used = self._clock.now()
        if link.era == "legacy":
            await link.notify(method, params)

    async def listen(self, owner: Owner, call: Call) -> Reply:
        """As `Pool.listen`; not while a breaker is not closed.

        Raises:
            UpstreamUnavailable: as of `Pool.listen`.
        """
        slot, link = await self._beside_calls(owner)
        call.caller = owner.principal.key
        CALLER.set(None)  # it outlives the request that began it
        slot.in_flight += 1
        try:
            return await link.request(call)
        finally:
            slot.in_flight -= 1
            slot.last_used = self._clock.now()

    async def _beside_calls(self, owner: Owner) -> tuple[LinkSlot, BaseLink]:
        """The session that serves `owner`, for requests that are no calls.

        Raises:
            UpstreamUnavailable: there is none, or something has failed.
        """
        self.set_caller(owner.principal)
        breaker, now = self._breakers.of(self.links.placing.key(owner)), self._clock.now()
        if {breaker.state(now), self._breakers.own.state(now)} != {"closed"}:
            why = f"upstream {self.spec.key!r} has failed too often"
            raise UpstreamUnavailable(why, upstream=self.spec.key)
        try:
            return await self.links.opened(owner, declared_by(owner))
        except UpstreamUnavailable as error:
            if _counts(error):
                breaker.failed(self._clock.now())
            raise

    def set_caller(self, principal: Principal) -> None:
        """Set the principal whose token this task sends from now on."""
        CALLER.set(principal)
        if self._personal:
            self.connector.note_caller(principal)

    async def _log_in(self, owner: Owner) -> Reply:
        """The answer to a call of the tool that asks for a login.

        Raises:
            LoginNeeded: the caller has not logged in.
        """
        client = self.connector.client
        assert client.people is not None
        tokens = client.people.person(owner.principal)
        if await tokens.current(client.url) is None:
            raise tokens.login_needed("you have not logged in yet")
        return logged_in(self.spec.key)

    def login_of(self, principal: Principal) -> PersonTokens | None:
        """A principal's own login; None where callers have no logins."""
        if not has_logins(self.spec.auth):
            return None
        people = self.connector.client.people
        return None if people is None else people.person(principal)

    async def kept_login(self, principal: Principal) -> Login | None:
        """The stored login of a principal; None where it has not logged in."""
        tokens = self.login_of(principal)
        return None if tokens is None else await tokens.kept(self.connector.client.url)

    async def begin_login(self, principal: Principal, redirect_uri: str) -> BegunLogin:
        """Begin to log a principal in; `login_of(...).finish` completes it.

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
        return self._breakers.state(now)

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
        """Send a call, once more where that is safe; `used` collects the links that it
        went over.
        """
        try:
            return await self._send_once(owner, call, used)
        except (UpstreamOverloaded, UpstreamTimeout, Unintelligible):
            raise
        except SessionOver:
            pass  # it was not taken
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
        except NoHandshake:  # nothing was sent, and the pool knows by now what to use
            return await self._send_once(owner, call, used)
        finally:
            slot.in_flight -= 1
            slot.last_used = self._clock.now()

    async def _opened(self, slot: LinkSlot, call: Call) -> BaseLink:
        """The slot's link. If the call runs out of time, the start goes on without it."""
        timeout_s = self.spec.call_timeout_s if call.timeout_s is None else call.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await self.links.link(slot)
        except TimeoutError:
            starting = self.connector.starting_of(slot.owner)
            awaited = (
                starting.status_text if starting is not None else "it is still being connected to"
            )
            raise UpstreamTimeout(
                f"upstream {self.spec.key!r}: {awaited}; try again in a while",
                upstream=self.spec.key,
            ) from None

    async def fetch_lists(
        self, owner: Owner, capabilities: Mapping[str, Any] | None
    ) -> ServerLists:
        """As `Pool.fetch_lists`."""
        self.set_caller(owner.principal)
        declared = declared_by(owner) if capabilities is None else capabilities
        return await self.lists.seen_by(owner, declared)

    async def retire(self, drain_s: float, why: str) -> None:
        """Let calls in flight finish, then close everything; calls that are cut off get `why`."""
        if drain_s and not await self.queue.drained(drain_s):
            log.warning("upstream_calls_cut", upstream=self.spec.key, calls=self.queue.inside)
        self._cut_by = why
        await self.links.close()
        await self.connector.close()

    # --- the gateway's own session

    async def own_link(self) -> BaseLink:
        """The gateway's own session, opened if need be and never reaped; ignores the breakers.

        Raises:
            UpstreamUnavailable: it cannot be opened.
        """
        slot = self.links.slot(OWNER, OWN_CAPABILITIES)
        slot.pinned = True
        try:
            link = await self.links.link(slot)
        except UpstreamUnavailable:
            self._breakers.own.failed(self._clock.now())
            raise
        self._breakers.own.succeeded()
        return link

    @property
    def own_busy(self) -> bool:
        """Whether a call is in flight on the gateway's own session."""
        return self.links.slot(OWNER, OWN_CAPABILITIES).in_flight > 0


def _counts(error: UpstreamUnavailable) -> bool:
    """Whether an error counts against the breaker: the upstream is at fault, not the call."""
    if isinstance(error, UpstreamOverloaded | Unintelligible | AnswerRefused):
        return False
    if isinstance(error, HttpFailure):
        return error.status >= 500 or error.status == 429
    return True
