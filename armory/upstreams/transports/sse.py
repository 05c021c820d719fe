"""The link to an HTTP+SSE upstream (2024-11-05): one event stream in, POSTs out.

Owns: `SseLink`. Never imports another transport.
"""

from __future__ import annotations

import asyncio

from yarl import URL

from armory.domain.uris import readable
from armory.errors import UpstreamTimeout
from armory.http1.deadlines import CallDeadline
from armory.http1.eventstream import Event, EventParser
from armory.http1.reading import Answer, EventReader
from armory.protocol.headers import VERSION_HEADER
from armory.protocol.link import FOREVER_S, Call, Reply
from armory.protocol.versions import VERSION_HEADER_SINCE
from armory.tasks import shielded, spawn, stop
from armory.upstreams.oauth.subjects import CALLER
from armory.upstreams.session.base import reading_failed
from armory.upstreams.session.context import LinkContext
from armory.upstreams.session.duplex import DuplexLink
from armory.upstreams.session.replies import SessionOver
from armory.upstreams.transports.http_answers import session_over, stream_errors
from armory.upstreams.transports.http_client import EVENTS, MAX_URL, HttpClient
from armory.upstreams.transports.http_failures import HttpFailure, answer_refused

_CLOSE_S = 2.0
_NO_REQUEST = 0  # ids begin with 1
_ENDED = "it ended its event stream"
_FORGOTTEN = "it knows the session no more"


class SseLink(DuplexLink):
    """One event stream, and the endpoint that it announced.

    Args:
        context: as every link's.
        client: connections, shared with the upstream's other links; not closed by this one.
    """

    def __init__(self, context: LinkContext, client: HttpClient) -> None:
        super().__init__(context)
        self._client = client
        # None: the stream ended before
        self._endpoint: asyncio.Future[URL | None] = asyncio.get_running_loop().create_future()
        self._reader: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open the stream and wait for the endpoint event.

        Raises:
            UpstreamUnavailable: there is no such stream, or it names no usable endpoint.
        """
        headers = {**self.spec.headers, "Accept": EVENTS, "Cache-Control": "no-store"}
        wait_s = self.spec.connect_timeout_s
        try:
            async with asyncio.timeout(wait_s):
                response = await self._client.send("GET", headers, None, FOREVER_S)
                if response.status != 200:
                    raise await self._client.failure(response)
                if response.content_type != EVENTS:
                    response.close()
                    raise self.unintelligible(
                        f"GET answered content type {response.content_type!r}, not an event stream"
                    )
                self._reader = spawn(self._read(response), f"event stream of {self.server}")
                if await shielded(self._endpoint) is None:
                    raise self.unavailable(self._death or _ENDED)
        except TimeoutError:
            await self.close()
            raise UpstreamTimeout(
                f"upstream {self.server!r} named no endpoint within {wait_s:g} s",
                upstream=self.server,
            ) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the stream."""
        if self._closing:
            return
        self._closing = True
        self.fail_all(self.unavailable(self.death or "the session is closed"))
        if not self._endpoint.done():
            self._endpoint.cancel()
        await self.end_tasks()
        await stop(self._reader, timeout_s=_CLOSE_S)
        self._reader = None  # its end holds, by its trace, this link

    async def _write(self, data: bytes) -> None:
        if self._death is not None:
            raise self.unavailable(self._death)
        endpoint = self._endpoint.result()
        assert endpoint is not None  # else it died
        headers = {**self.spec.headers, "Content-Type": "application/json"}
        if self.identity.era == "legacy" and self.protocol_version >= VERSION_HEADER_SINCE:
            headers[VERSION_HEADER] = self.protocol_version
        response = await self._client.send(
            "POST", headers, data, self.spec.connect_timeout_s, url=endpoint
        )
        if response.status >= 400:
            raise await self._client.failure(response)
        response.release()

    async def _exchange(self, call: Call, scope: CallDeadline) -> Reply:
        """Send one call. If the server has lost the session while its stream is open, the link dies
        once no other call is in flight.
        """
        try:
            return await super()._exchange(call, scope)
        except HttpFailure as failure:
            over = self.protocol_version and session_over(failure.status, failure.body, _NO_REQUEST)
            if not over or self.requests.pending:
                raise
        self.died(_FORGOTTEN)
        raise SessionOver(self.unavailable(_FORGOTTEN).message, upstream=self.server)

    async def _send_answer(self, data: bytes) -> None:
        try:
            await super()._send_answer(data)
        except HttpFailure as failure:
            raise answer_refused(failure) from None

    async def _read(self, response: Answer) -> None:
        CALLER.set(None)  # it outlives the call that began it
        reason = _ENDED
        try:
            parser = EventParser(self.spec.message_bytes)
            with EventReader(response, parser, self.meter) as events:
                async for event in events:
                    if event.name == "endpoint":
                        self._found(event)
                    elif self._death is not None:
                        return
                    elif event.name == "message":
                        pause_s = self.received(event.data, skipped_bytes=event.skipped_bytes)
                        while pause_s:
                            await asyncio.sleep(pause_s)
                            pause_s = self.wait_s()
        except stream_errors() as error:
            reason = f"its event stream broke: {reading_failed(error)}"
        finally:
            response.close()
            if not self._endpoint.done():
                self._endpoint.set_result(None)
            self.died(reason)

    def _found(self, event: Event) -> None:
        if len(event.data) > MAX_URL:
            raise self.unintelligible(f"its endpoint has {len(event.data):,} bytes")
        named = event.data.decode("utf-8", "replace").strip()
        try:
            url = self._client.url.join(URL(readable(named)))
            elsewhere = url.origin() != self._client.url.origin()
        except ValueError:
            raise self.unintelligible(f"its endpoint {named[:200]!r} is no URL") from None
        if elsewhere:
            raise self.unavailable(f"its endpoint {str(url)[:200]!r} is on another origin")
        if not self._endpoint.done():
            self._endpoint.set_result(url)
