"""The link to a modern Streamable HTTP upstream: one POST per request, stateless.

Owns: `HttpLink`, the hot path toward HTTP upstreams. Never imports a transport of the legacy era.
"""

from __future__ import annotations

from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.http1.eventstream import EventParser, EventTooLarge
from armory.http1.failing import broken
from armory.http1.pool import Fields
from armory.http1.reading import BodyTooLarge, EventReader, arrived, read_body, release
from armory.protocol import jsonrpc
from armory.protocol.headers import METHOD_HEADER, NAME_HEADER, VERSION_HEADER, header_value
from armory.protocol.link import Call, ClientChannel, Params, Reply
from armory.protocol.upstream_messages import UnreadableMessage, UpstreamMessage, own_id
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.session.multiplexer import RequestMultiplexer
from armory.upstreams.session.pending import Note, Pending
from armory.upstreams.transports.http_answers import answer_in, messages_in
from armory.upstreams.transports.http_client import (
    EVENTS,
    JSON_AND_EVENTS,
    Answer,
    HttpClient,
    reusable,
)
from armory.upstreams.transports.http_failures import keep_retry_after

_FIELDS_KEPT = 1_000
_KEPT_CHARS = 256
"""Longest name or URI whose header fields are cached: a client may use one of millions of
characters."""


class HttpLink(BaseLink):
    """A modern upstream over HTTP. There is no session: the link is never dead.

    Args:
        context: as every link's.
        client: connections, shared with the upstream's other links; not closed by this one.
    """

    stateless = True
    mirrors_params = True

    def __init__(self, context: LinkContext, client: HttpClient) -> None:
        super().__init__(context)
        self._client = client
        self._closing = False
        self._requests = RequestMultiplexer(self, self._no_answers)
        self._fields: dict[tuple[str, str | None], Fields] = {}

    def adopt(self, identity: Identity) -> None:
        """Set what negotiation found."""
        super().adopt(identity)
        self._fields.clear()

    def _headers(self, call: Call) -> Fields:
        known = self._fields.get((call.method, call.name_header))
        if known is not None and not call.param_headers:
            return known
        headers = {
            **self.spec.headers,
            "Accept": JSON_AND_EVENTS,
            "Content-Type": "application/json",
            VERSION_HEADER: self.identity.protocol_version,
            METHOD_HEADER: header_value(call.method),
            **call.param_headers,
        }
        if call.name_header is not None:
            headers[NAME_HEADER] = header_value(call.name_header)
        made = reusable(headers)
        if not call.param_headers and len(call.name_header or "") <= _KEPT_CHARS:
            if len(self._fields) >= _FIELDS_KEPT:
                self._fields.clear()
            self._fields[call.method, call.name_header] = made
        return made

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closing

    async def request(self, call: Call) -> Reply:
        """As `BaseLink.request`; cancelling it closes the response, which cancels the call
        upstream.
        """
        if self._closing:
            raise self.unavailable("the session is closed")
        pending = self._requests.open(call)
        headers = self._headers(call)
        made = jsonrpc.request_in_parts if call.large else jsonrpc.request
        body = made(pending.id, call.method, self.stamped(call, pending.id))
        timeout_s = self.spec.call_timeout_s if call.timeout_s is None else call.timeout_s
        response: Answer | None = None
        try:
            response = await self._client.send("POST", headers, body, timeout_s, what=call.method)
            reply = await self._answer(response, pending)
            response = None
            return reply
        except UpstreamUnavailable as error:
            if response is not None:
                keep_retry_after(error, response)
            raise
        except TimeoutError:
            raise UpstreamTimeout(
                f"upstream {self.server!r} did not answer {call.method} within {timeout_s:g} s",
                upstream=self.server,
            ) from None
        except broken() as error:
            raise self._client.failed(error) from error
        except (BodyTooLarge, EventTooLarge, UnreadableMessage) as error:
            raise self.unreadable_answer(error) from None
        finally:
            self._requests.close(pending, answered=True)
            if response is not None:
                response.close()

    async def notify(self, method: str, params: Params) -> None:
        """Does nothing: the era has no notifications from clients."""

    async def roots_changed(self, client: ClientChannel, params: Params) -> None:
        """Does nothing: modern upstreams ask for roots within each call."""

    async def close(self) -> None:
        """End the listening stream; the connections belong to the upstream's client."""
        if not self._closing:
            await self.end_tasks()
            self._closing = True

    async def _answer(self, response: Answer, pending: Pending) -> Reply:
        kind = response.content_type
        if kind == "application/json":
            body = arrived(response, self.spec.message_bytes)
            if body is None:
                body = await read_body(response, self.spec.message_bytes, self.meter)
            answer = await answer_in(body, pending.id, self.server, response.status)
            return self._reply(answer, pending)
        if kind == EVENTS and response.status < 300:
            return await self._streamed(response, pending)
        if response.status >= 300:
            raise await self._client.failure(response)
        raise self.unintelligible(
            f"it answered {pending.call.method} with HTTP {response.status} and content type "
            f"{kind!r}; expected JSON or an event stream"
        )

    async def _streamed(self, response: Answer, pending: Pending) -> Reply:
        parser = EventParser(self.spec.message_bytes)
        with EventReader(response, parser, self.meter) as events:
            async for event in events:
                messages = await messages_in(event, self.budget)
                for message in messages:
                    if message.method is None and own_id(message.id) == pending.id:
                        release(response)
                        return self._reply(message, pending)
                    size = len(event.data) // len(messages)
                    found = self._requests.route(message, pending, size=size)
                    target, item = found or (None, None)
                    found = None
                    if target is not pending:
                        continue
                    if type(item) is Note:
                        await pending.deliver(item)
                    elif isinstance(item, Reply):
                        release(response)
                        return item
                    elif isinstance(item, UpstreamUnavailable):
                        try:
                            raise item
                        finally:
                            del item  # which holds this frame by its trace
                await self.rest()
        raise self.unintelligible(f"its stream ended before the answer to {pending.call.method}")

    def _reply(self, message: UpstreamMessage, pending: Pending) -> Reply:
        item = self._requests.reply_of(message, pending.call.method)
        if isinstance(item, Reply):
            return item
        assert not isinstance(item, Note)
        try:
            raise item
        finally:
            del item  # which holds this frame by its trace

    async def _no_answers(self, data: bytes) -> None:
        """Drops answers: the era has no requests from the server."""
