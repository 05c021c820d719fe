"""Memory of messages that upstreams have sent in part, over all upstreams.

Owns: the sum, and whose message is given up where it is too much: of the upstream that holds most,
the one that has been under way longest. So one that sends much, slowly, costs no other its answers.
Never reads anything itself.
"""

from __future__ import annotations

import time
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from armory.http1.reading import COUNTED_BYTES, BodyTooLarge
from armory.logger import Logger
from armory.upstreams.spec import INFLOW_BYTES

log = Logger(__name__)

GIVEN_UP = (
    "its answer was given up: what upstreams have sent of answers that are not whole yet exceeds "
    "server.limits.inflow_bytes, and it holds most of that"
)
MESSAGE_LIMIT = "server.limits.stdio_line_bytes sets that limit, on every transport"
"""What to say of a single message that is too large."""
GiveUp = Callable[[Any], None]
_LOG_EVERY_S = 10.0
LEAST_BYTES = 32 << 20
"""Room that is left for unfinished messages, however much clients have not read."""


def _nothing() -> int:
    return 0


class GivenUp(BodyTooLarge):
    """A message was dropped because `Inflow` demanded it."""


class Inflow:
    """Counts the bytes of incomplete messages of all upstreams.

    Args:
        limit_bytes: of all together; messages below `COUNTED_BYTES` are not counted.
        unread: bytes of answers that wait for clients to read them, which take of that room: what
            arrives would only wait, too.

    Attributes:
        held: bytes that are counted now.
    """

    def __init__(
        self, limit_bytes: int = INFLOW_BYTES, unread: Callable[[], int] = _nothing
    ) -> None:
        self._limit = limit_bytes
        self._least = min(limit_bytes, LEAST_BYTES)
        self._unread = unread
        self._messages: dict[Any, tuple[str, int, GiveUp]] = {}
        self.held = 0
        self._told: dict[str, float] = {}

    def holds(self, server: str, source: Any, size: int, give_up: GiveUp) -> None:
        """The message from `source` has `size` bytes by now.

        Args:
            server: the upstream's key.
            source: the response or process that it comes from.
            size: in bytes.
            give_up: called with the source when there is too much.
        """
        _, before, _ = self._messages.get(source, (server, 0, give_up))
        self._messages[source] = server, size, give_up
        self.held += size - before
        if self.held > self._least:
            limit = max(self._least, self._limit - self._unread())
            while self.held > limit:
                self._give_one_up()

    def done(self, source: Any) -> None:
        """The message from `source` is complete, or was dropped."""
        if source in self._messages:
            self.held -= self._messages.pop(source)[1]

    def _give_one_up(self) -> None:
        held: Counter[str] = Counter()
        for server, size, _ in self._messages.values():
            held[server] += size
        most = held.most_common(1)[0][0]
        source, give_up = next(
            (source, give_up)
            for source, (server, _, give_up) in self._messages.items()
            if server == most
        )
        self.done(source)
        now = time.monotonic()
        if now - self._told.get(most, -_LOG_EVERY_S) >= _LOG_EVERY_S:  # it may be ten a second
            self._told[most] = now
            log.info("upstream_answer_given_up", upstream=most, bytes=held[most])
        give_up(source)


class Meter:
    """Counts the incomplete messages of one session.

    Satisfies `http1.reading.Meter`.

    Args:
        inflow: of all upstreams.
        server: the upstream's key.
        give_up: method of the session that ends the message that comes from a source.
    """

    __slots__ = ("_inflow", "_own", "_server")

    def __init__(self, inflow: Inflow, server: str, give_up: GiveUp) -> None:
        self._inflow = inflow
        self._server = server
        self._own = weakref.WeakMethod(give_up)  # of the session that has this one

    def holds(self, source: Any, size: int) -> None:
        """The message from `source` has `size` bytes by now."""
        if size >= COUNTED_BYTES:
            self._inflow.holds(self._server, source, size, self._give_up)

    def _give_up(self, source: Any) -> None:
        give_up = self._own()
        if give_up is not None:
            give_up(source)

    def done(self, source: Any) -> None:
        """The message from `source` is complete, or was dropped."""
        self._inflow.done(source)
