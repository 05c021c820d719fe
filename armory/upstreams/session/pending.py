"""One call in flight: its inbox, and its deadline, which stops while the client is being asked.

Owns: `Pending`, `Note`. Never imports a transport; whose a message is, `multiplexer` decides.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from armory.errors import UpstreamUnavailable
from armory.http1.deadlines import CallDeadline
from armory.http1.reading import Answer, give_up
from armory.protocol.link import Call, ClientChannel, ClientGone, Params, Reply

_BACKLOG, _BACKLOG_BYTES = 1024, 4 << 20
"""Notifications that wait for one call's client: so many, and so large together."""


@dataclass(frozen=True, slots=True)
class Note:
    """A notification for one call's client."""

    method: str
    params: Params

    @property
    def size(self) -> int:
        """Of its parameters, in bytes."""
        return sum(len(memoryview(value)) for value in self.params.values())


Item = Reply | Note | UpstreamUnavailable


class Pending:
    """One call in flight: its inbox, and the questions that it caused.

    Attributes:
        source: what its answer is read from, where that is its own; None: what comes is `put`.
    """

    __slots__ = (
        "_held",
        "_inbox",
        "_pauses",
        "_scope",
        "_waiter",
        "call",
        "client",
        "id",
        "questions",
        "source",
    )

    def __init__(self, request_id: int, call: Call, scope: CallDeadline | None) -> None:
        self.id = request_id
        self.call = call
        self.client: ClientChannel | None = call.client
        self.questions: set[asyncio.Task[None]] = set()
        self.source: Answer | None = None
        self._inbox: deque[Item] = deque()
        self._held = 0
        self._waiter: asyncio.Future[None] | None = None
        self._scope = scope
        self._pauses = 0

    @property
    def answered(self) -> bool:
        """Whether its answer is there, which may not have been taken yet."""
        return bool(self._inbox) and type(self._inbox[-1]) is not Note

    def put(self, item: Item) -> None:
        """Add a message to the inbox. Beyond the backlog the oldest notifications are dropped; so
        are all behind the answer.
        """
        inbox = self._inbox
        if type(item) is Note:
            if inbox and type(inbox[-1]) is not Note:
                return
            self._held += item.size
            while inbox and (len(inbox) >= _BACKLOG or self._held > _BACKLOG_BYTES):
                self._let_go(inbox.popleft())
        inbox.append(item)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def fail(self, error: UpstreamUnavailable) -> None:
        """End it with an error, whatever it waits for."""
        if self.source is None:
            self.put(error)
        else:
            give_up(self.source, error)

    async def next(self) -> Item:
        """The next message, in the order of arrival."""
        while not self._inbox:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        item = self._inbox.popleft()
        self._let_go(item)
        return item

    def _let_go(self, item: Item) -> None:
        if type(item) is Note:
            self._held -= item.size

    async def deliver(self, note: Note) -> None:
        """Deliver a notification to the client while it is connected."""
        if self.client is not None:
            try:
                await self.client.notify(note.method, note.params)
            except ClientGone:
                self.client = None

    def end(self) -> None:
        """The call is over: detach its deadline and the stream that its answer was read from, which
        may serve another call.
        """
        self._scope = self.source = None

    def pause(self) -> None:
        """Stop the deadline while the client is being asked (nested calls count)."""
        self._pauses += 1
        if self._scope is not None:
            self._scope.pause()

    def resume(self) -> None:
        """Let the deadline run again once nothing is being asked."""
        self._pauses -= 1
        if not self._pauses and self._scope is not None:
            self._scope.resume()
