"""Sends the gateway's answers to questions of an upstream.

Owns: sending answers beside everything else, so many at a time. Never imports a transport.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable
from typing import cast

from armory.errors import ArmoryError, UpstreamUnavailable
from armory.logger import Logger
from armory.upstreams.session.base import BaseLink

log = Logger(__name__)
_AT_ONCE = 16
"""Answers of one session that its upstream may leave unread at once."""


class AnswerRefused(UpstreamUnavailable):
    """The upstream did not accept an answer, for example because it lost the session."""


class SessionOver(UpstreamUnavailable):
    """The upstream does not know the session any more, and did not take what was sent in it."""


class Replies:
    """Answers to the upstream of one session.

    Args:
        link: whose session it is.
        send: puts a response to the upstream on the wire.
    """

    def __init__(self, link: BaseLink, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._link = cast("BaseLink", weakref.proxy(link))  # it has this one: no cycle
        self._send = weakref.WeakMethod(send)
        self._under_way = 0

    async def send(self, data: bytes) -> AnswerRefused | None:
        """Send an answer, unless the session is gone; returns the upstream's refusal, after which
        the question is over.
        """
        send = self._send()
        try:
            if send is not None:
                await send(data)
        except ArmoryError as error:
            self._link.budget.say(log.info, "upstream_answer_unsent", error=str(error))
            return error if isinstance(error, AnswerRefused) else None
        return None

    def send_beside(self, data: bytes) -> None:
        """Send an answer in a task; dropped where the upstream asks but does not read."""
        if self._under_way >= _AT_ONCE:
            self._link.budget.say(log.info, "upstream_answer_dropped")
            return
        self._under_way += 1
        self._link.spawn(self._send_counted(data), "answer")

    async def _send_counted(self, data: bytes) -> None:
        try:
            await self.send(data)
        finally:
            self._under_way -= 1
