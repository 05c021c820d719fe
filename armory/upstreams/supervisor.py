"""The supervisor: starts, restarts and replaces the owner task of each upstream.

Owns: which upstreams there are, their last good lists and states together. Never imports `gateway`
or above.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from armory.domain.catalog import ServerLists
from armory.errors import UpstreamUnavailable
from armory.logger import Logger
from armory.tasks import start, stop
from armory.upstreams.clock import Clock, SystemClock
from armory.upstreams.owner import OnLists, UpstreamOwner
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.state import UpstreamStatus

log = Logger(__name__)

TELL_S = 15.0
"""Seconds after which the log names the starts that are waited for; then after twice as long, and
so on."""
_LONGEST_SILENCE_S = 240.0


class Supervisor:
    """Keeps every upstream connected and its lists current.

    Args:
        pool: where sessions come from; its upstreams are the ones supervised.
        on_lists: called, on the event loop, with each list that differs from the last good one.
        clock: for back-off and health probes.
    """

    def __init__(self, pool: Pool, on_lists: OnLists, *, clock: Clock | None = None) -> None:
        self._pool = pool
        self._on_lists = on_lists
        self._clock = clock or SystemClock()
        self._supervised: dict[str, UpstreamOwner] = {}
        self._teller: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start connecting to all upstreams; returns immediately."""
        await self._align()
        self._teller = start(self._tell(), "say which upstreams are starting")

    async def wait_first(
        self, timeout_s: float | None, on_progress: Callable[[int, int], None] | None = None
    ) -> bool:
        """Wait until each upstream has listed or failed once; returns False when time ran out.

        Args:
            timeout_s: so long at most; None: as long as it takes, installing included.
            on_progress: called with (upstreams that have, upstreams) at first and with each.
        """
        settled_count = 0

        async def settled(owner: UpstreamOwner) -> None:
            nonlocal settled_count
            await owner.settled.wait()
            settled_count += 1
            if on_progress is not None:
                on_progress(settled_count, len(waits))

        waits = [settled(owner) for owner in self._supervised.values()]
        if on_progress is not None:
            on_progress(0, len(waits))
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*waits)
        except TimeoutError:
            return False
        return True

    async def refresh(self, server: str) -> None:
        """Fetch the lists of one upstream now.

        Raises:
            UpstreamUnavailable: it is unknown, or they cannot be fetched.
        """
        owner = self._supervised.get(server)
        if owner is None:
            raise UpstreamUnavailable(f"there is no upstream {server!r}", upstream=server)
        await owner.refresh()

    def lists(self) -> dict[str, ServerLists]:
        """The last good lists, in the order of the configuration."""
        return {key: o.lists for key, o in self._supervised.items() if o.lists is not None}

    def status(self) -> Mapping[str, UpstreamStatus]:
        """The state of every upstream, in the order of the configuration."""
        return {key: owner.shown() for key, owner in self._supervised.items()}

    async def update(self, specs: Iterable[UpstreamSpec]) -> None:
        """Replace the configuration in the pool and here; unchanged upstreams are not disturbed."""
        await self._pool.update(specs)
        await self._align()

    async def restart(self, server: str) -> None:
        """Reconnect one upstream now: its process or sessions are replaced and calls in flight end;
        its last good lists stay until it answers.

        Raises:
            UpstreamUnavailable: there is no such upstream.
        """
        self._pool.renew(server)
        await self._align()

    async def stop(self) -> None:
        """Cancel every owner task; the pool closes the sessions."""
        await stop(self._teller)
        owners, self._supervised = tuple(self._supervised.values()), {}
        await _end(owners)

    async def _tell(self) -> None:
        pause_s = TELL_S
        while True:
            await asyncio.sleep(pause_s)
            awaited = {key: found.awaited for key, found in self.status().items() if found.awaited}
            pause_s = min(2 * pause_s, _LONGEST_SILENCE_S) if awaited else TELL_S
            if awaited:
                key, said = next(iter(awaited.items()))
                first = f"{key!r} {said}"
                log.info("upstreams_starting", upstreams=[*awaited], first=first)

    def _run(self, owner: UpstreamOwner) -> None:
        task = start(owner.run(), f"upstream {owner.upstream.spec.key}")
        owner.task = task

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                asyncio.get_running_loop().call_later(owner.crashed(error), restart)

        def restart() -> None:
            if self._supervised.get(owner.upstream.spec.key) is owner:
                self._run(owner)

        task.add_done_callback(ended)

    async def _align(self) -> None:
        before, self._supervised = self._supervised, {}
        for key in self._pool.servers():
            upstream = self._pool.upstream(key)
            old = before.get(key)
            if old is not None and old.upstream is upstream:
                self._supervised[key] = before.pop(key)
                continue
            owner = UpstreamOwner(upstream, self._on_lists, self._clock)
            if old is not None:
                owner.lists = old.lists
            upstream.observers.add(owner)
            self._run(owner)
            self._supervised[key] = owner
        await _end(before.values())


async def _end(owners: Iterable[UpstreamOwner]) -> None:
    owners = tuple(owners)
    for owner in owners:
        owner.upstream.observers.remove(owner)
    await stop(*(owner.task for owner in owners))
