"""The requests in flight on one connection.

Owns: how many there may be, cancelling them, and that each is answered once: with its result, or
with an error where the client reads too little or the gateway ends. Never imports a session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

from armory.errors import GatewayEnds
from armory.protocol import codes
from armory.protocol.errors import Malformed
from armory.protocol.link import CancelReason
from armory.steps import Account, InContext
from armory.tasks import Tasks
from armory.wire.messages import Data, refused
from armory.wire.sessions.running import ById
from armory.wire.sessions.session import cancel_soon
from armory.wire.streams import EventStream

Serve = Callable[[], Coroutine[Any, Any, Data]]
"""Serves a request; gives its answer."""
Deliver = Callable[[Data], Awaitable[None]]
"""Takes an answer."""
_AT_ONCE = 2_000
"""Requests of one connection that may be in flight; more are refused."""
_HELD_BYTES = 128 << 20
"""Answers that may wait for a client that does not read; further ones become an error."""


class RequestsInFlight:
    """The requests in flight on one connection, each served in a task of its own.

    Args:
        out: where the answers wait to be read.
        account: charged with the time of the event loop that they take; None: nobody is.

    Attributes:
        account: see above.
    """

    def __init__(self, out: EventStream, account: Account | None) -> None:
        self.account = account
        self._out = out
        self._tasks = Tasks()
        self._by_id: ById[asyncio.Task[None]] = ById()
        self._overdue = False

    def __iter__(self) -> Iterator[asyncio.Task[None]]:
        return iter(self._tasks)

    def start(self, id: bytes, serve: Serve, deliver: Deliver) -> asyncio.Task[None]:
        """Serve the request `id`; its answer goes to `deliver`.

        Raises:
            Malformed: too many are in flight.
        """
        if len(self._tasks) >= _AT_ONCE:
            why = f"more than {_AT_ONCE:,} requests at a time; wait for answers"
            raise Malformed(codes.LIMITED, why, id)
        work = self._answer(id, serve, deliver)
        if self.account is not None:
            work = self._charged(work)
        task = self._tasks.spawn(work, "request of a client")
        self._by_id.add(id, task)
        return task

    def cancel(self, id: bytes, reason: CancelReason | None) -> None:
        """Cancel the request `id`, if it is in flight; it is not answered."""
        for task in self._by_id.of(id):
            cancel_soon(task, reason)

    def run_out(self) -> None:
        """The gateway shuts down and the drain time is over: cancel each request, and answer it
        with that error.
        """
        self._overdue = True
        for task in self:
            cancel_soon(task)

    async def _charged(self, work: Coroutine[Any, Any, None]) -> None:
        await InContext(work, self)

    async def _answer(self, id: bytes, serve: Serve, deliver: Deliver) -> None:
        try:
            try:
                answer = await serve()
            except asyncio.CancelledError:
                if not self._overdue:
                    raise
                answer = refused(id, codes.BACKEND, GatewayEnds().message)
            if self._out.held_bytes + len(answer) > _HELD_BYTES:
                why = f"{self._out.held_bytes:,} bytes of answers wait to be read"
                answer = refused(id, codes.LIMITED, why)
            await deliver(answer)
        finally:
            self._by_id.drop(id, asyncio.current_task())
