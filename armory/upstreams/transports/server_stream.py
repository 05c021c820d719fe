"""The GET stream of a legacy Streamable HTTP session: what the upstream says outside any answer.

Owns: opening it, resuming it after a break, giving up where there is none. Never imports a link.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from armory.http1.eventstream import EventParser
from armory.http1.reading import Answer, EventReader
from armory.logger import Logger
from armory.protocol.headers import LAST_EVENT_ID
from armory.protocol.upstream_messages import UpstreamMessage
from armory.tasks import spawn, stop
from armory.upstreams.oauth.subjects import CALLER
from armory.upstreams.session.base import BaseLink
from armory.upstreams.transports.http_answers import messages_in, stream_errors
from armory.upstreams.transports.http_client import HttpClient

log = Logger(__name__)

EVENTS = "text/event-stream"
_RETRY_S = 1.0
_RETRY_LEAST_S = 0.1
_RETRY_MAX_S = 30.0
_LASTING_S = 10.0
"""A stream that was open so long did not fail, whether it said anything or not."""
_FOREVER_S = 10 * 86_400.0
_NO_STREAM = frozenset((400, 404, 405, 406, 501))
_OVER = frozenset((400, 404))
"""What a stream that was there is answered where the session is unknown."""


class ServerStream:
    """One session's GET stream.

    Args:
        link: whose stream it is.
        client: its connections.
        headers: makes those of the session as it is now.
        on_message: takes each message.
        on_gap: told when the stream is back and may have missed something.
    """

    def __init__(
        self,
        link: BaseLink,
        client: HttpClient,
        headers: Callable[[], Mapping[str, str]],
        *,
        on_message: Callable[[UpstreamMessage], Awaitable[None]],
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
        self._over = 0

    def start(self) -> None:
        """Listen, anew where that goes on already."""
        self.cancel()
        self._task = spawn(self._listen(), f"GET stream of {self._spec.key}")

    def cancel(self) -> None:
        """Listen no more; does not wait for the end."""
        if self._task is not None:
            self._task.cancel()

    async def close(self, timeout_s: float) -> None:
        """End the stream, and open no other."""
        await stop(self._task, timeout_s=timeout_s)

    async def _listen(self) -> None:
        CALLER.set(None)  # it outlives the call that began it
        parser = EventParser(self._spec.message_bytes)
        self._failures = 0
        opened = False
        began_session = asyncio.get_running_loop().time()
        while True:
            headers = resuming(self._headers(), parser)
            try:
                response = await self._client.send("GET", headers, None, _FOREVER_S)
                try:
                    if response.status in _NO_STREAM and not opened:
                        return
                    if response.status in _OVER:
                        response.close()
                        await self._ask_after(began_session)
                        if response.status == 404:
                            return
                    if response.status == 200 and response.content_type == EVENTS:
                        if opened and parser.last_id is None:
                            self._on_gap()
                        opened = True
                        self._failures += 1  # until it says something
                        began = asyncio.get_running_loop().time()
                        await self._read(response, parser)
                        if asyncio.get_running_loop().time() - began > _LASTING_S:
                            self._failures = 0
                    else:
                        self._failures += 1
                finally:
                    response.close()
            except stream_errors() as error:
                self._failures += 1
                log.debug("upstream_get_stream_lost", upstream=self._spec.key, error=str(error))
            await asyncio.sleep(pause_s(parser, self._failures))
            parser = parser.continued()

    async def _ask_after(self, began: float) -> None:
        """See whether the session is still there: if not, the link begins it anew and this stream
        with it, though nobody calls anything. Sessions that are soon over are asked after later
        each time.

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
                for message in await messages_in(event, self._link.budget):
                    self._failures = 0
                    await self._on_message(message)
                await self._link.rest()


def resuming(headers: Mapping[str, str], parser: EventParser) -> dict[str, str]:
    """The headers of a request for the stream that goes on where `parser` is."""
    asking = {**headers, "Accept": EVENTS}
    if parser.last_id is not None:
        asking[LAST_EVENT_ID] = parser.last_id
    return asking


def pause_s(parser: EventParser, failures: int) -> float:
    """Seconds until the next attempt: what the upstream asked for, but a tenth of a second at
    least, doubling with each failure.
    """
    base = _RETRY_S if parser.retry_ms is None else parser.retry_ms / 1000
    base = max(base, _RETRY_LEAST_S)
    return min(_RETRY_MAX_S, base * 2 ** min(failures, 6))
