"""The handlers of changes, by topic.

Owns: `ChangeHandlers`: which committed changes they have handled, and how often one is tried that a
handler cannot take. Never imports the feed; never reads the database.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from armory.errors import BackendError
from armory.logger import Logger

_log = Logger(__name__)
Handler = Callable[[str], Awaitable[None]]
_HANDLED_KEPT = 50_000
_TRIES = 5  # of a change that a handler cannot take: a newer release may have written it

ChangeId = tuple[int, int]
"""A change's number and time: numbers come again in a database that was restored, or a standby that
took over."""


class ChangeHandlers:
    """The handlers of this process, and what they have handled."""

    def __init__(self) -> None:
        self._by_topic: dict[str, list[tuple[Handler, bool]]] = {}
        self._handled: OrderedDict[ChangeId, None] = OrderedDict()
        self._tries: dict[ChangeId, int] = {}

    def subscribe(self, topic: str, handler: Handler, *, replayed: bool) -> None:
        """Call `handler` with the value of every change of `topic`; of replayed ones only where
        `replayed`.
        """
        self._by_topic.setdefault(topic, []).append((handler, replayed))

    async def handle(self, topic: str, value: str, *, again: bool = False) -> Exception | None:
        """Have a change handled by all that can, at least once.

        Args:
            topic: what it is about.
            value: which one.
            again: whether it is replayed.

        Returns:
            What nobody expected of one of the handlers; None: they are done with it.
        """
        failed: Exception | None = None
        for handler, replayed in self._by_topic.get(topic, ()):
            if again and not replayed:
                continue
            try:
                await handler(value)
            except BackendError as error:
                _log.warning("change_handler_failed", topic=topic, error=error.message)
            except Exception as error:  # noqa: BLE001 - a defect of one keeps no other from it
                _log.warning("change_handler_failed", topic=topic, error=repr(error))
                failed = failed or error
        return failed

    def has_handled(self, change: ChangeId) -> bool:
        """Whether `handle_committed` is done with a change."""
        return change in self._handled

    async def handle_committed(self, change: ChangeId, topic: str, value: str) -> Exception | None:
        """As `handle`, of a change that was read from the database; after some failures it is given
        up, and counts as handled.
        """
        failed = await self.handle(topic, value)
        if failed is not None and not self._is_given_up(change, topic, failed):
            return failed
        self._tries.pop(change, None)
        self._handled[change] = None
        if len(self._handled) > _HANDLED_KEPT:
            self._handled.popitem(last=False)
        return None

    def _is_given_up(self, change: ChangeId, topic: str, failure: Exception) -> bool:
        """Count a failure; returns whether the limit is reached."""
        tries = self._tries[change] = self._tries.get(change, 0) + 1
        if tries < _TRIES:
            return False
        _log.error("change_given_up", topic=topic, tries=tries, exc_info=failure)
        return True
