"""The owner task of one upstream: connect, list, listen, come back.

Owns: back-off, last-good lists and health probes of one upstream. Never imports the supervisor,
`gateway` or above.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from armory.domain.catalog import ServerLists
from armory.errors import LoginNeeded, UpstreamUnavailable
from armory.logger import Logger
from armory.protocol.session_events import Ended, Lost, Notified, Replaced, SessionEvent
from armory.tasks import Pauses, start, stop
from armory.upstreams.clock import Clock
from armory.upstreams.connecting.placing import OWN
from armory.upstreams.offered.login_tool import lists_before_login
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.lists.pages import TOOLS
from armory.upstreams.session.lists.server_lists import compared, free_entries
from armory.upstreams.state import UpstreamState, UpstreamStatus
from armory.upstreams.upstream import Upstream

log = Logger(__name__)

OnLists = Callable[[str, ServerLists], None]

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
STABLE_S = 30.0
"""An upstream that worked for so long is stable: pauses begin anew with the shortest."""
_LOGIN = "login_required"
_SETTLE_S, _RESTLESS_S, _IDLE_S = 0.05, 1.0, 5.0
"""Announcements of changes tend to come together: so long after the first the lists are fetched.
Some servers announce one whenever they are listed, or all the time: then twice as long each time,
up to the second where their lists differ and to the third where they do not.
"""
_LISTED_SHARE = 10
"""How many times as long as fetching the lists took it is not done again, unasked."""
_WATCH_S = 1.0
"""How long listing waits until the upstream is set to announce changes."""
_MISSED_PROBES = 2
"""Probes in a row without an answer after which a session counts as lost."""


class UpstreamOwner:
    """One upstream, its state, and the task that keeps it connected; observes its sessions.

    Args:
        upstream: whose own session it keeps.
        on_lists: called, on the event loop, with each list that differs from the last good one.
        clock: for back-off and health probes.

    Attributes:
        settled: set once it has listed, or failed.
        lists: the last good ones; None before.
        state: its state; `shown` adds what is waited for.
        task: runs `run`, once somebody has begun it.
    """

    def __init__(self, upstream: Upstream, on_lists: OnLists, clock: Clock) -> None:
        self.upstream = upstream
        self.settled = asyncio.Event()
        self.lists: ServerLists | None = None
        self.state = UpstreamState(upstream.spec.key, upstream.errors, clock)
        self.task: asyncio.Task[None] | None = None
        self._on_lists = on_lists
        self._clock = clock
        self._dirty = asyncio.Event()
        self._settling = Pauses(_SETTLE_S, _IDLE_S, _RESTLESS_S)
        self._lost: str | None = None
        self._gone = asyncio.Event()
        self._crash = ""
        self._crashes = 0
        self._crashed_at = clock.now()
        self._listed = self._newest = 0
        self._list_after = 0.0

    def on_session_event(self, event: SessionEvent) -> None:
        """As `SessionObserver.on_session_event`: events that require new lists or a new session."""
        if isinstance(event, Notified):
            if event.list_changed:
                self._dirty.set()
        elif not isinstance(event, Ended | Replaced) and event.owner == OWN:
            if isinstance(event, Lost):
                self._lost = event.reason
                self._gone.set()
            self._dirty.set()

    async def run(self) -> None:
        """Until cancelled: connect, list, watch for changes; after a failure wait, longer each
        time.
        """
        failures = 0
        while True:
            worked_since: float | None = None  # a start that is long in failing is no work
            link: BaseLink | None = None
            try:
                link = await self.upstream.own_link()
                self._lost = None
                self._gone.clear()
                announced = await self._list_and_watch(link)
                worked_since = self._clock.now()
                await self._follow(link, announced)
            except LoginNeeded as error:
                self._for_people(error)
            except UpstreamUnavailable as error:
                self._down(str(error), "login_required" if error.code == _LOGIN else "down")
                if link is not None and link.stateless:
                    await link.close()  # another release may serve by now, of another era
            if worked_since is not None and self._clock.now() - worked_since >= STABLE_S:
                failures = 0
                self.state.stable()
            failures += 1
            self.state.attempted(failures, lost=worked_since is not None)
            await self._clock.sleep(pause_s(failures))

    def shown(self) -> UpstreamStatus:
        """The status, with what a process that is starting waits for."""
        starting = self.upstream.connector.starting
        status = self.state.status
        if starting is None or status.state == "ready":
            return status
        return replace(status, awaited=starting.status_text)

    def crashed(self, error: BaseException) -> float:
        """The owner task failed with an unexpected error; returns the seconds until it is to be
        restarted.

        The pause grows each time; the log gets each error once.
        """
        now = self._clock.now()
        if now - self._crashed_at >= STABLE_S + LONGEST_PAUSE_S:
            self._crashes = 0
        self._crashes += 1
        self._crashed_at = now
        said = repr(error)
        if said != self._crash:
            self._crash = said
            log.error("upstream_owner_crashed", upstream=self.upstream.spec.key, exc_info=error)
        self._down(f"upstream {self.upstream.spec.key!r}: internal error: {said[:300]}")
        self.state.attempted(self._crashes)
        return pause_s(self._crashes)

    async def refresh(self) -> None:
        """Fetch the lists now."""
        await self._refresh(await self.upstream.own_link())

    async def _list_and_watch(self, link: BaseLink) -> bool:
        """Subscribe to changes, then fetch the lists; where subscribing is slow, fetch before and
        after. Returns whether the upstream announces changes.

        Raises:
            UpstreamUnavailable: they cannot be fetched.
        """
        watching = start(link.subscriptions.watch_lists(), f"announcements of {link.server}")
        try:
            first, _ = await asyncio.wait((watching,), timeout=_WATCH_S)
            await self._refresh(link)
            announced = await watching
        finally:
            await stop(watching)
            del watching  # whose error holds this frame by its trace
        if announced and not first:
            self._dirty.set()
        return announced

    async def _follow(self, link: BaseLink, announced: bool) -> None:
        """Re-list on every change until the session is lost.

        Args:
            link: the session.
            announced: whether the upstream says when its lists change.

        Raises:
            UpstreamUnavailable: the session was lost.
        """
        missed = 0
        while True:
            changed = await self._changed(self._interval(link, announced))
            if self._lost is not None or link.closed:
                raise UpstreamUnavailable(
                    f"upstream {link.server!r}: {self._lost or 'the session was closed'}",
                    upstream=link.server,
                )
            if changed:
                await self._settle()
                if self._gone.is_set():
                    continue
                self._dirty.clear()
                self._settling.done(news=await self._refresh(link))
                continue
            heard = announced and link.hears_lists
            if self.upstream.own_busy:  # a server that is need not answer a probe
                if not heard:
                    await self._list_again(link)
                continue
            try:
                await self._probe(link, heard)
                missed = 0
            except UpstreamUnavailable as error:
                missed += 1
                log.info("upstream_probe_missed", upstream=link.server, error=str(error))
                if missed >= _MISSED_PROBES:
                    await link.close()
                    raise

    async def _settle(self) -> None:
        """Wait for what else is announced, unless the session is lost meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settling.next_s()):
                await self._gone.wait()

    async def _probe(self, link: BaseLink, heard: bool) -> None:
        """Check that the upstream is alive, and fetch its lists where it does not announce changes.

        Raises:
            UpstreamUnavailable: the upstream did not answer.
        """
        if heard or link.era == "legacy":
            await link.probe()
            if not heard:
                await self._list_again(link)
        else:
            await self._refresh(link)
        if self.state.status.state != "ready":
            self.state.ready(link, ServerLists() if self.lists is None else self.lists)

    async def _list_again(self, link: BaseLink) -> None:
        """Fetch the lists of a live upstream; if that fails, the old ones stay. Fetching long lists
        takes at most a tenth of the time.
        """
        began = self._clock.now()
        if began < self._list_after:
            return
        try:
            await self._refresh(link)
        except UpstreamUnavailable as error:
            log.info("upstream_not_listed_again", upstream=link.server, error=str(error))
        finally:
            now = self._clock.now()
            self._list_after = now + _LISTED_SHARE * (now - began)

    def _interval(self, link: BaseLink, announced: bool) -> float:
        interval_s = self.upstream.spec.health_interval_s
        heard = announced and link.hears_lists
        if heard or link.era == "legacy" or self.lists is None:
            return interval_s
        ttl_ms, _ = self.lists.cache.get(TOOLS, (0, ""))
        return max(interval_s, ttl_ms / 1000)

    async def _changed(self, within_s: float) -> bool:
        key = self.upstream.spec.key
        news = start(self._dirty.wait(), f"news of {key}")
        timer = start(self._clock.sleep(within_s), f"next probe of {key}")
        try:
            await asyncio.wait([news, timer], return_when=asyncio.FIRST_COMPLETED)
            return self._dirty.is_set()
        finally:
            await stop(news, timer)

    async def _refresh(self, link: BaseLink) -> bool:
        """Fetch the lists; returns whether they are others than before."""
        self._listed += 1
        mine = self._listed
        known = self.lists
        lists = await compared(await self.upstream.lists.over(link, known), known)
        if mine < self._newest:  # a refresh that began later has brought newer lists
            free_entries(lists)
            return self.lists is not known
        self._newest = mine
        before, self.lists = self.lists, lists
        if lists is not known or before is not known:
            try:
                self._on_lists(link.server, lists)
            except BaseException:
                self.lists = before  # nobody has them, so the next time they are news
                raise
        if before is not None and before is not lists:
            free_entries(before)  # no snapshot may have had them
        self.state.ready(link, lists)
        self.settled.set()
        return lists is not known

    def _for_people(self, error: LoginNeeded) -> None:
        """The gateway itself has no login there: each caller has its own, and lists of its own."""
        if self.lists is None:
            self.lists = lists_before_login(self.upstream.spec.key, self.upstream.spec.auth)
            self._on_lists(self.upstream.spec.key, self.lists)
        self._down(error.message, "login_required", personal=True)

    def _down(
        self,
        error: str,
        state: Literal["down", "login_required"] = "down",
        *,
        personal: bool = False,
    ) -> None:
        self.state.down(error, state, personal=personal)
        self.settled.set()


def pause_s(failures: int) -> float:
    """Seconds to wait before attempt number `failures` + 1: doubling, capped, with jitter."""
    longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures - 1, 16))
    return longest * random.uniform(0.5, 1.0)
