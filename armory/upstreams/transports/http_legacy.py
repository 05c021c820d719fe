"""The link to a legacy Streamable HTTP upstream: a session, POSTs, and its GET stream.

Owns: `LegacyHttpLink`: its session id, re-initialising after 404, answers that are no stream.
Never imports another link.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping
from typing import Any, cast

from armory.errors import ArmoryError
from armory.http1.deadlines import CallDeadline
from armory.http1.eventstream import EventTooLarge
from armory.http1.failing import broken
from armory.http1.pool import Fields
from armory.http1.reading import BodyTooLarge, arrived, read_body
from armory.logger import Logger
from armory.protocol import jsonrpc
from armory.protocol.headers import SESSION_HEADER, VERSION_HEADER
from armory.protocol.link import FOREVER_S, Call, Params, Reply
from armory.protocol.methods import CANCELLED, INITIALIZED
from armory.protocol.upstream_messages import UnreadableMessage, UpstreamMessage
from armory.protocol.versions import VERSION_HEADER_SINCE
from armory.tasks import being_cancelled, shielded
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.session.handshake import initialize
from armory.upstreams.session.multiplexer import call_cancelled
from armory.upstreams.session.pending import Note, Pending
from armory.upstreams.session.stateful import StatefulLink
from armory.upstreams.transports.http_answers import messages_of, session_over
from armory.upstreams.transports.http_client import (
    EVENTS,
    JSON_AND_EVENTS,
    Answer,
    HttpClient,
    reusable,
)
from armory.upstreams.transports.http_failures import (
    HttpFailure,
    answer_refused,
    http_failure,
    in_new_session,
    keep_retry_after,
)
from armory.upstreams.transports.legacy_streams import AnswerStreams, ServerStream

log = Logger(__name__)

_DELIVER_S = 10.0
_CLOSE_S = 2.0
_NOT_HERE = (404, 405)
"""What a server that speaks HTTP+SSE answers to a POST of `initialize`, whatever the body."""


class LegacyHttpLink(StatefulLink):
    """One legacy session over HTTP.

    Args:
        context: as every link's.
        client: connections, shared with the upstream's other links; not closed by this one.
        capabilities: the client capabilities to declare.
        version: revision to offer.
    """

    def __init__(
        self,
        context: LinkContext,
        client: HttpClient,
        capabilities: Mapping[str, Any],
        version: str,
    ) -> None:
        super().__init__(context, exact=True)
        self._client = client
        self._declared = capabilities
        self._offer = version
        self._session_id: str | None = None
        self._fields: tuple[tuple[str | None, Identity], Fields] | None = None
        self._generation = 0
        self._renewing: asyncio.Task[None] | None = None
        self._dead = False
        link = cast("LegacyHttpLink", weakref.proxy(self))  # no cycle with what it has

        def headers() -> Fields:
            return link._headers()

        self._stream = ServerStream(
            link,
            client,
            headers,
            on_message=lambda message, size: link._deliver(message, size),
            on_gap=lambda: link.renewed(),
        )
        self._answers = AnswerStreams(link, client, headers)
        self._closing = False

    @property
    def session_id(self) -> str | None:
        """As `BaseLink.session_id`."""
        return self._session_id

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or the session is gone and could not be replaced."""
        return self._closing or self._dead

    @property
    def hears_lists(self) -> bool:
        """As `BaseLink.hears_lists`: notifications outside of answers come on the GET stream."""
        return super().hears_lists and self._stream.heard

    async def open(self) -> None:
        """Initialise a session.

        Raises:
            UpstreamUnavailable: it could not be opened (`HttpFailure` with the status where the
                upstream answered one).
        """
        self._session_id = None
        self._generation += 1
        identity = await initialize(self, self._offer, self._declared)
        self.adopt(identity)
        await self.notify(INITIALIZED, {})
        self._stream.start()

    async def close(self) -> None:
        """End the session: DELETE it and close the GET stream."""
        if self._closing:
            return
        self._closing = True
        await self._stream.close(_CLOSE_S)
        self.fail_all(self.unavailable("the session is closed"))
        await self.end_tasks()
        if self._session_id is not None:
            try:
                async with asyncio.timeout(_CLOSE_S):
                    response = await self._client.send("DELETE", self._headers(), None, _CLOSE_S)
                    response.close()
            except (ArmoryError, TimeoutError) as error:
                log.debug("upstream_delete_failed", upstream=self.server, error=str(error))

    async def notify(self, method: str, params: Params) -> None:
        """POST a notification."""
        await self._post(jsonrpc.notification(method, params))

    async def _exchange(self, call: Call, scope: CallDeadline) -> Reply:
        try:
            if call.method == "initialize":
                return await self._attempt(call, scope)
            if self._renewing is not None:
                await self._until_renewed(self._renewing)  # without a session, nothing can be sent
            generation, session_id = self._generation, self._session_id
            try:
                return await self._attempt(call, scope)
            except HttpFailure as failure:
                if failure.status != 404 or session_id is None or self.closed:
                    raise
            await self._renew(generation)  # the upstream has forgotten the session
            with in_new_session():
                return await self._attempt(call, scope)
        except TimeoutError:
            raise
        except broken() as error:
            raise self._client.failed(error) from error
        except (BodyTooLarge, EventTooLarge, UnreadableMessage) as error:
            raise self.unreadable_answer(error) from None

    async def _attempt(self, call: Call, scope: CallDeadline) -> Reply:
        if self.closed:
            raise self.unavailable("the session is closed")
        pending = self.requests.open(call, scope)
        answered = False
        response: Answer | None = None
        try:
            made = jsonrpc.request_in_parts if call.large else jsonrpc.request
            body = made(pending.id, call.method, self.stamped(call, pending.id))
            headers = self._headers()
            response = await self._client.send("POST", headers, body, FOREVER_S, what=call.method)
            reply = await self._answer(response, pending, headers.get(SESSION_HEADER))
            answered = True
            response = None
            return reply
        except ArmoryError as error:  # it was turned away, a login that is missing included
            answered = True
            if response is not None:
                keep_retry_after(error, response)
            raise
        finally:
            self.requests.close(pending, answered=answered)
            if response is not None:
                response.close()
            if not answered and not self._closing and call.method != "initialize":
                params = call_cancelled(pending.id)
                self.spawn(
                    self._post_quietly(jsonrpc.notification(CANCELLED, params)),
                    "cancellation",
                )

    async def _answer(self, response: Answer, pending: Pending, session: str | None) -> Reply:
        had_session = session is not None
        if response.status >= 300 and response.content_type != "application/json":
            raise await self._turned_away(response, pending, had_session)
        if pending.call.method == "initialize":
            self._session_id = session = response.headers.get(SESSION_HEADER)
        kind = response.content_type
        if kind == EVENTS:
            return await self._answers.reply(response, pending, session)
        if kind != "application/json" or response.status == 202:
            response.close()
            raise self.unintelligible(
                f"it answered {pending.call.method} with HTTP {response.status} and content type "
                f"{kind!r}; expected JSON or an event stream"
            )
        body = arrived(response, self.spec.message_bytes)
        if body is None:
            body = await read_body(response, self.spec.message_bytes, self.meter)
        if response.status in _NOT_HERE and pending.call.method == "initialize":
            raise http_failure(self.server, response.status, body)
        if had_session and session_over(response.status, body, pending.id):
            raise HttpFailure(self.server, 404, body, None)
        messages = await messages_of(body, self.server, response.status)
        for message in messages:
            reply = await self._answers.take(message, pending, len(body) // len(messages))
            if reply is not None:
                return reply
        raise http_failure(self.server, response.status, body)

    async def _turned_away(
        self, response: Answer, pending: Pending, had_session: bool
    ) -> HttpFailure:
        """The outcome of a response that is no message: an error, or a new attempt."""
        failure = await self._client.failure(response)
        if had_session and session_over(failure.status, failure.body, pending.id):
            return HttpFailure(self.server, 404, failure.body, None)
        return failure

    # --- the session

    def _headers(self) -> Fields:
        """Made anew where session or revision have changed."""
        key = (self._session_id, self.identity)
        if self._fields is None or self._fields[0] != key:
            self._fields = (key, reusable(self._own_headers()))
        return self._fields[1]

    def _own_headers(self) -> dict[str, str]:
        headers = {
            **self.spec.headers,
            "Accept": JSON_AND_EVENTS,
            "Content-Type": "application/json",
        }
        if self._session_id is not None:
            headers[SESSION_HEADER] = self._session_id
        if self.identity.era == "legacy" and self.protocol_version >= VERSION_HEADER_SINCE:
            headers[VERSION_HEADER] = self.protocol_version
        return headers

    async def _renew(self, generation: int) -> None:
        """Replace the session of `generation`, which the upstream has forgotten.

        The handshake belongs to no call, and goes on when the call that began it ends.
        """
        if self._renewing is None and self._generation == generation:
            self._renewing = self._tasks.start(self._reopen(), f"renewal of {self.server}")
            self._renewing.add_done_callback(self._reopened)
        if self._renewing is not None:
            await self._until_renewed(self._renewing)

    async def _until_renewed(self, renewing: asyncio.Task[None]) -> None:
        try:
            await shielded(renewing)
        except asyncio.CancelledError:
            if renewing.cancelled() and not being_cancelled():
                raise self.unavailable("the session is closed") from None
            raise
        finally:
            del renewing  # whose error holds this frame by its trace

    async def _reopen(self) -> None:
        log.info("upstream_session_expired", upstream=self.server)
        self._stream.cancel()
        self.requests.questions.began_anew()
        await self.open()
        self.spawn(self._restore(), "subscriptions")
        self.renewed()

    def _reopened(self, renewing: asyncio.Task[None]) -> None:
        self._renewing = None
        if renewing.cancelled() or renewing.exception() is None or self._closing:
            return
        self._dead = True  # whoever needs a session opens another link
        self.lost("its session expired, and no other could be opened")

    async def _restore(self) -> None:
        try:
            await self.subscriptions.renew()
        except ArmoryError as error:
            log.info("upstream_restore_failed", upstream=self.server, error=str(error))

    async def _post(self, data: bytes) -> None:
        response = await self._client.send(
            "POST", self._headers(), data, self.spec.connect_timeout_s
        )
        if response.status >= 400:
            raise await self._client.failure(response)
        response.release()

    async def _send_answer(self, data: bytes) -> None:
        try:
            await self._post(data)
        except HttpFailure as failure:
            raise answer_refused(failure) from None

    async def _post_quietly(self, data: bytes) -> None:
        try:
            await self._post(data)
        except ArmoryError as error:
            log.debug("upstream_post_failed", upstream=self.server, error=str(error))

    async def _deliver(self, message: UpstreamMessage, size: int) -> None:
        """Route a message of `size` bytes that came on the GET stream."""
        hit = self.requests.route(message, size=size)
        if hit is None or type(hit[1]) is not Note:
            return
        try:
            async with asyncio.timeout(_DELIVER_S):
                await hit[0].deliver(hit[1])
        except TimeoutError:
            self.budget.say(log.info, "upstream_note_dropped", method=hit[1].method)
