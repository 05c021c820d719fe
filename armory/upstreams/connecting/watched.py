"""The resources that an upstream's sessions report, subscribed to again after a lost session.

Owns: `Watched`. Never opens a link by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from armory.errors import ArmoryError
from armory.logger import Logger
from armory.protocol.link import Refused
from armory.tasks import Tasks
from armory.upstreams.clock import Clock
from armory.upstreams.oauth.subjects import CALLER
from armory.upstreams.session.base import BaseLink

log = Logger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 60.0

Linked = Callable[[str], Awaitable[BaseLink | None]]
"""A live link of an owner, opened if need be; None: it has no session any more."""


class Watched:
    """The resources that each owner's sessions report updates of.

    Args:
        server: key of the upstream.
        linked: opens links.
        live_links: the open ones of an owner.
        clock: for the pauses between attempts.
    """

    def __init__(
        self,
        server: str,
        linked: Linked,
        live_links: Callable[[str], list[BaseLink]],
        clock: Clock,
    ) -> None:
        self._server = server
        self._linked = linked
        self._live_links = live_links
        self._clock = clock
        self._wanted: dict[str, frozenset[str]] = {}
        self._restoring: set[str] = set()
        self._tasks = Tasks()

    def __contains__(self, owner: str) -> bool:
        """Whether an owner watches any resources."""
        return owner in self._wanted

    async def watch(
        self, owner: str, uris: frozenset[str], links: Sequence[BaseLink], again: str | None = None
    ) -> None:
        """Subscribe the sessions of an owner to exactly these resources, from now on.

        Args:
            owner: whose sessions report them.
            uris: the resources.
            links: its open sessions.
            again: the one that another client subscribed to; upstreams with a handshake are told.

        Raises:
            Refused: the upstream said no.
            UpstreamUnavailable: it cannot be asked.
        """
        if owner in self._wanted:  # even if unsubscribing is refused: nobody wants the others
            self._want(owner, self._wanted[owner] & uris)
        for link in links:
            await link.subscriptions.set_resources(uris)
            if again is not None:
                await link.subscriptions.subscribe_again(again)
        self._want(owner, uris)
        if any(link.closed for link in links):  # one ended with its answer
            self.lost(owner)
        for link in self._live_links(owner):
            if link not in links:  # it was opened meanwhile
                await self.tell(owner, link)

    def drop(self, owner: str) -> None:
        """Drop what an owner watches."""
        self._want(owner, frozenset())

    def _want(self, owner: str, uris: frozenset[str]) -> None:
        if uris:
            self._wanted[owner] = uris
        else:
            self._wanted.pop(owner, None)

    async def tell(self, owner: str, link: BaseLink) -> None:
        """Subscribe a session that was just opened to what its owner watches."""
        if uris := self._wanted.get(owner):
            try:
                await link.subscriptions.set_resources(uris)
            except (ArmoryError, Refused) as error:
                log.warning("upstream_resubscribe_failed", upstream=self._server, error=str(error))
                if not isinstance(error, Refused):
                    self.lost(owner)

    def lost(self, owner: str) -> None:
        """A session of an owner was lost: subscribe another one as soon as there is one."""
        if owner in self and owner not in self._restoring:
            self._restoring.add(owner)
            self._tasks.spawn(self._restore(owner), f"resubscribe {self._server}")

    def forget(self) -> None:
        """Drop everything that is watched."""
        self._wanted.clear()
        self._restoring.clear()  # a task that has not begun yet would not see to that
        self._tasks.cancel()

    async def close(self) -> None:
        """As `forget`; also ends the tasks."""
        self._wanted.clear()
        await self._tasks.stop()
        self._linked = _none  # whose are these, and they its

    async def _restore(self, owner: str) -> None:
        CALLER.set(None)  # it outlives the call in which the session was lost
        pause_s, say = _FIRST_PAUSE_S, log.warning
        try:
            while True:
                await self._clock.sleep(pause_s)
                try:
                    link = await self._linked(owner) if owner in self else None
                    if link is None:
                        return
                    await link.subscriptions.set_resources(self._wanted.get(owner, frozenset()))
                    if not link.closed:  # else it ended with its answer
                        return
                except Refused as error:
                    log.warning(
                        "upstream_resubscribe_refused", upstream=self._server, error=str(error)
                    )
                    return
                except ArmoryError as error:
                    say("upstream_resubscribe_failed", upstream=self._server, error=str(error))
                pause_s, say = min(2 * pause_s, _LONGEST_PAUSE_S), log.debug
        finally:
            self._restoring.discard(owner)


async def _none(_owner: str) -> None:
    """No session any more."""
