"""A client from an upstream's point of view, which records what it receives.

Owns: `RecordingClient` (a `ClientChannel`) and `RecordingObserver`. Never does any I/O.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw

from armory.protocol.link import Answer, ClientGone, Params
from armory.protocol.session_events import Notified, SessionEvent


def plain(raw: Raw | None) -> Any:
    """A raw JSON value as Python objects; None stays None."""
    return None if raw is None else json.loads(bytes(raw))


class RecordingClient:
    """Records notifications and questions; answers questions from `answers`, by method.

    Args:
        capabilities: what it declares.
        log_level: the level it wants, None: no log messages.
        progress_token: its token, None: no progress.
        answers: method -> result; a method without one is refused with an error.

    Attributes:
        notes: (method, params) of each notification, in order.
        asked: (method, params) of each question, in order.
        hold: while cleared, questions wait.
        gone: whether questions raise `ClientGone`.
        was_asked: set at the first question.
    """

    def __init__(
        self,
        capabilities: Mapping[str, Any] | None = None,
        *,
        log_level: str | None = None,
        progress_token: Any = None,
        answers: Mapping[str, Any] | None = None,
    ) -> None:
        self.capabilities: Mapping[str, Any] = capabilities or {}
        self.log_level = log_level
        self.progress_token = (
            None if progress_token is None else Raw(json.dumps(progress_token).encode())
        )
        self.answers = dict(answers or {})
        self.notes: list[tuple[str, Any]] = []
        self.asked: list[tuple[str, Any]] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.gone = False
        self.was_asked = asyncio.Event()

    async def notify(self, method: str, params: Params) -> None:
        """Record it."""
        self.notes.append((method, {key: plain(value) for key, value in params.items()}))

    async def ask(self, method: str, params: Params) -> Answer:
        """Record it and answer."""
        self.asked.append((method, {key: plain(value) for key, value in params.items()}))
        self.was_asked.set()
        await self.hold.wait()
        if self.gone:
            raise ClientGone
        if method not in self.answers:
            return Answer(error=Raw(b'{"code":-1,"message":"declined"}'))
        return Answer(result=Raw(json.dumps(self.answers[method]).encode()))


class RecordingObserver:
    """Records events of sessions outside any request: a `SessionObserver`.

    Attributes:
        notified: (server, owner, method, params) of each notification.
        events: every other event, in order.
        news: set at each of them.
    """

    def __init__(self) -> None:
        self.notified: list[tuple[str, str, str, Any]] = []
        self.events: list[SessionEvent] = []
        self.news = asyncio.Event()

    def on_session_event(self, event: SessionEvent) -> None:
        """Record it."""
        if isinstance(event, Notified):
            params = {key: plain(value) for key, value in event.params.items()}
            self.notified.append((event.server, event.owner, event.method, params))
        else:
            self.events.append(event)
        self.news.set()

    @property
    def methods(self) -> list[str]:
        """Methods of the notifications."""
        return [method for _, _, method, _ in self.notified]

    async def until(self, found: Callable[[], bool], timeout_s: float = 10.0) -> None:
        """Wait until `found`; TimeoutError after `timeout_s`."""
        async with asyncio.timeout(timeout_s):
            while not found():
                self.news.clear()
                await self.news.wait()
