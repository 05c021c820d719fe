"""The event streams of a legacy Streamable HTTP session, resumed where they break.

Owns: `ServerStream`, the GET stream: what the upstream says outside any answer; `AnswerStreams`,
those that answer its POSTs. Never imports a transport's link.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from armory.errors import UpstreamUnavailable
from armory.http1.eventstream import EventParser
from armory.http1.failing import broken
from armory.http1.reading import Answer, EventReader, release
from armory.http1.response import BadAnswer
from armory.logger import Logger
from armory.protocol.headers import LAST_EVENT_ID
from armory.protocol.link import FOREVER_S, Reply
from armory.protocol.upstream_messages import UpstreamMessage
from armory.tasks import spawn, stop
from armory.upstreams.oauth.subjects import CALLER
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.pending import Note, Pending
from armory.upstreams.session.stateful import StatefulLink
from armory.upstreams.transports.http_answers import messages_in, stream_errors
from armory.upstreams.transports.http_client import EVENTS, HttpClient
from armory.upstreams.transports.http_failures import HttpFailure, LoginRequired

log = Logger(__name__)

_RETRY_S = 1.0
_RETRY_LEAST_S = 0.1
_RETRY_MAX_S = 30.0
_LASTING_S = 10.0
"""A stream that was open this long did not fail, even if nothing came on it."""
_RESUMES = 5
"""Attempts at resuming one answer that bring nothing new, before it is given up."""
_NO_STREAM = frozenset((400, 404, 405, 406, 501))
_OVER = frozenset((400, 401, 403, 404, 410))
"""Statuses of a stream which had been open: the session may be unknown."""


class ServerStream:
    """The GET stream of one session.

    Args:
        link: whose stream it is.
        client: its connections.
        headers: makes those of the session as it is now.
        on_message: takes each message, and its size in bytes.
        on_gap: told when the stream is back and may have missed something.
    """

    def __init__(
        self,
        link: BaseLink,
        client: HttpClient,
        headers: Callable[[], Mapping[str, str]],
        *,
        on_message: Callable[[UpstreamMessage, int], Awaitable[None]],
        on_gap: Callable[[], None],
    ) -> None:
        self._link = link
        self._spec = link.spec
        self._client = client
        self._headers = headers
        self._on_message = on_message
        self._on_gap = on_gap
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._opened = False
        self._over = 0

    @property
    def heard(self) -> bool:
        """Whether it was opened in this session, and is reopened when it breaks."""
        return self._opened and self._task is not None and not self._task.done()

    def start(self) -> None:
        """Start listening, or restart."""
        self.cancel()
        self._task = spawn(self._listen(), f"GET stream of {self._spec.key}")

    def cancel(self) -> None:
        """Stop listening, without waiting for the end."""
        if self._task is not None:
            self._task.cancel()

    async def close(self, timeout_s: float) -> None:
        """End the stream, and open no other."""
        await stop(self._task, timeout_s=timeout_s)
        self._task = None  # its end holds, by its trace, this stream

    async def _listen(self) -> None:
        CALLER.set(None)  # it outlives the call that began it
        parser = EventParser(self._spec.message_bytes)
        self._failures, self._opened = 0, False
        began_session = asyncio.get_running_loop().time()
        while True:
            try:
                if not await self._attempt(parser, began_session):
                    return
            except stream_errors() as error:
                self._failures += 1
                log.debug("upstream_get_stream_lost", upstream=self._spec.key, error=str(error))
            await asyncio.sleep(pause_s(parser, self._failures))
            parser = parser.continued()

    async def _attempt(self, parser: EventParser, began_session: float) -> bool:
        """Open a stream and read it to its end; returns whether to try another one."""
        headers = resuming(self._headers(), parser)
        try:
            response = await self._client.send("GET", headers, None, FOREVER_S)
        except HttpFailure as failure:
            if failure.status != 404 or not self._opened:
                raise
            await self._ask_after(began_session)
            return False
        try:
            if response.status in _NO_STREAM and not self._opened:
                return False
            if response.status in _OVER and self._opened:
                response.close()
                await self._ask_after(began_session)
                if response.status == 404:
                    return False
            self._failures += 1  # until it says something
            if response.status == 200 and response.content_type == EVENTS:
                if self._opened and parser.last_id is None:
                    self._on_gap()
                self._opened = True
                began = asyncio.get_running_loop().time()
                await self._read(response, parser)
                if asyncio.get_running_loop().time() - began > _LASTING_S:
                    self._failures = 0
            return True
        finally:
            response.close()

    async def _ask_after(self, began: float) -> None:
        """Check that the session still exists: if not, the link starts a new one and this stream
        with it, though no call is made. The more often a session is lost early, the later it is
        checked.

        Args:
            began: when it began.

        Raises:
            UpstreamUnavailable: there is no telling.
        """
        if asyncio.get_running_loop().time() - began > _LASTING_S:
            self._over = 0
        if self._over:
            await asyncio.sleep(min(_RETRY_MAX_S, _RETRY_S * 2 ** min(self._over, 6)))
        self._over += 1
        await self._link.probe()

    async def _read(self, response: Answer, parser: EventParser) -> None:
        with EventReader(response, parser, self._link.meter) as events:
            async for event in events:
                messages = await messages_in(event, self._link.budget)
                for message in messages:
                    self._failures = 0
                    await self._on_message(message, len(event.data) // len(messages))
                await self._link.rest()


class AnswerStreams:
    """Reads the streams that answer one session's POSTs.

    Args:
        link: whose they are.
        client: its connections.
        headers: makes those of the session as it is now.
    """

    def __init__(
        self, link: StatefulLink, client: HttpClient, headers: Callable[[], Mapping[str, str]]
    ) -> None:
        self._link = link
        self._client = client
        self._headers = headers

    async def reply(self, response: Answer, pending: Pending, session: str | None) -> Reply:
        """The answer to a call from its stream, which is resumed if it breaks.

        Args:
            response: the stream.
            pending: the call.
            session: id of the session that it is of; another one knows nothing of it.

        Raises:
            UpstreamUnavailable: it ended, and cannot be resumed.
        """
        parser = EventParser(self._link.spec.message_bytes)
        resumes = 0
        try:
            while True:
                before = parser.last_id
                pending.source = response
                reply = await self._reply_in(response, parser, pending)
                if reply is not None:
                    return reply
                response.close()
                resumes = 0 if parser.last_id != before else resumes
                if parser.last_id is None or resumes >= _RESUMES:
                    raise self._link.unavailable(
                        f"its stream ended before the answer to {pending.call.method}"
                    )
                resumes += 1
                await asyncio.sleep(pause_s(parser, resumes - 1))
                if self._link.session_id != session:
                    raise self._link.unavailable(
                        f"its session ended before the answer to {pending.call.method}"
                    )
                response = await self._resumed(parser, pending)
                parser = parser.continued()
        except BaseException:
            response.close()
            raise

    async def take(self, message: UpstreamMessage, pending: Pending, size: int) -> Reply | None:
        """Route a message that came on a call's stream; returns the answer, if it is that."""
        target, item = self._link.requests.route(message, pending, size=size) or (None, None)
        if target is None:
            return None
        if type(item) is Note:
            await target.deliver(item)
            return None
        if target is not pending:
            return None
        if isinstance(item, UpstreamUnavailable):
            try:
                raise item
            finally:
                del item  # which holds this frame by its trace
        return item if isinstance(item, Reply) else None

    async def _reply_in(
        self, response: Answer, parser: EventParser, pending: Pending
    ) -> Reply | None:
        """The answer on a stream, which is released then; None: the stream ended or
        broke before.

        Raises:
            UpstreamUnavailable: it cannot be read from its first byte on.
        """
        try:
            with EventReader(response, parser, self._link.meter) as events:
                async for event in events:
                    messages = await messages_in(event, self._link.budget)
                    for message in messages:
                        reply = await self.take(message, pending, len(event.data) // len(messages))
                        if reply is not None:
                            release(response)
                            return reply
                    await self._link.rest()
        except broken() as error:
            log.debug("upstream_stream_broken", upstream=self._link.server, error=repr(error))
            if isinstance(error, BadAnswer) and parser.last_id is None:
                raise self._client.failed(error) from None
        return None

    async def _resumed(self, parser: EventParser, pending: Pending) -> Answer:
        """A stream that continues after the last event that `parser` saw.

        Raises:
            UpstreamUnavailable: there is none; never as if the call itself had been turned away,
                which would be sent again then.
        """
        headers = resuming(self._headers(), parser)
        try:
            response = await self._client.send("GET", headers, None, FOREVER_S)
            if response.status == 200 and response.content_type == EVENTS:
                return response
            failure = await self._client.failure(response)
        except HttpFailure as refused:
            failure = refused
        try:
            if isinstance(failure, LoginRequired):
                raise failure
            raise self._link.unavailable(
                f"its stream ended before the answer to {pending.call.method}, and was not "
                f"resumed: HTTP {failure.status}"
            )
        finally:
            del failure  # which holds this frame by its trace


def resuming(headers: Mapping[str, str], parser: EventParser) -> dict[str, str]:
    """The headers that resume a stream after the last event that `parser` saw."""
    asking = {**headers, "Accept": EVENTS}
    if parser.last_id is not None:
        asking[LAST_EVENT_ID] = parser.last_id
    return asking


def pause_s(parser: EventParser, failures: int) -> float:
    """Seconds until the next attempt: as the upstream asked for, at least a tenth of a second,
    doubled with each failure.
    """
    base = _RETRY_S if parser.retry_ms is None else parser.retry_ms / 1000
    base = max(base, _RETRY_LEAST_S)
    return min(_RETRY_MAX_S, base * 2 ** min(failures, 6))
