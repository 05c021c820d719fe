"""Forwards requests to the replica that owns their session.

Owns: the one hop between replicas. Whose session it is, the `Directory` knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import aiohttp
from aiohttp import web
from msgspec import Raw

from armory.errors import ArmoryError
from armory.logger import Logger
from armory.protocol import bodies, codes, jsonrpc
from armory.protocol.errors import Malformed
from armory.tasks import start, step_by_step, stop
from armory.wire.http.admitted import (
    OVERDUE,
    AdmittedRequest,
    answered_overdue,
    only_answer,
    refusal,
)
from armory.wire.http.host_checks import FORWARDED, PASSED, HostChecks
from armory.wire.messages import refused
from armory.wire.sessions.directory import ALIVE_S, Directory, Store

_log = Logger(__name__)
CONNECT_S = 5.0
_FORWARDED = frozenset(name.lower() for name in FORWARDED)
_HOP_BY_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "content-encoding",
        "accept-encoding",
    )
)


class Replicas(Directory):
    """The other replicas, and forwarding to them; arguments as of `Directory`."""

    def __init__(self, store: Store, own_url: str, *, alive_s: float = ALIVE_S) -> None:
        super().__init__(store, own_url, alive_s=alive_s)
        self._hosts: HostChecks | None = None
        self._http: aiohttp.ClientSession | None = None
        self._streams: set[asyncio.Task[web.StreamResponse]] = set()

    def seen_through(self, hosts: HostChecks) -> None:
        """Set the host checks, which mark forwarded requests and recognise them."""
        self._hosts = hosts
        hosts.hop = self.secret

    def end_streams(self) -> None:
        """End the event streams that are forwarded from other replicas: their sessions go on, and
        clients reopen them by another way.
        """
        for stream in self._streams:
            stream.cancel()

    async def close(self) -> None:
        """Withdraw this replica from the directory, and close its connections."""
        await super().close()
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def elsewhere(
        self, admitted: AdmittedRequest, session_id: str
    ) -> web.StreamResponse | None:
        """The answer of the replica that owns a session; None: no other replica does."""
        if was_passed(admitted):
            return None
        try:
            owner = await self.owner(session_id)
        except ArmoryError as error:
            id = await _id_in(admitted.body)
            return refusal(503, codes.BACKEND, error.told, id=id, headers=admitted.extra)
        if owner is not None:
            with suppress(OwnerGone):
                return await self.pass_on(admitted, owner)
        return None

    async def pass_on(self, admitted: AdmittedRequest, url: str) -> web.StreamResponse:
        """Have another replica answer a request, and stream its answer through.

        Raises:
            OwnerGone: it did not begin to answer. Dies it later, the connection is cut.
        """
        if self._http is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # streams of clients stay open
                cookie_jar=aiohttp.DummyCookieJar(),  # requests of all clients go through it
                timeout=timeout,
                auto_decompress=False,
            )
        passed = _PassedRequest(admitted.request)
        exchange = start(self._exchange(self._http, admitted, url, passed), "request passed on")
        if admitted.request.method == "GET":
            self._streams.add(exchange)
        try:
            # until there is an answer more often: the address of a pod that is gone takes no
            # connection and refuses none
            waited_s = self._beat_s
            while not (await asyncio.wait((exchange,), timeout=waited_s))[0]:
                waited_s = self._beat_s if passed.response is None else self._alive_s / 3
                if await self.is_lost(url):
                    return passed.broken_off(url, "no sign of life")
            return await passed.ended(admitted) if exchange.cancelled() else exchange.result()
        except OwnerGone:
            _log.info("replica_ends", replica=url)
            raise
        except (aiohttp.ClientError, TimeoutError) as error:
            return passed.broken_off(url, repr(error))
        except asyncio.CancelledError:
            return await passed.overdue(admitted, exchange)
        finally:
            self._streams.discard(exchange)
            if not exchange.done():
                exchange.cancel()
                await asyncio.wait((exchange,))
            if not exchange.cancelled():
                exchange.exception()  # a client that leaves meanwhile is told nothing of it
            del exchange  # whose error holds this frame by its trace

    async def _exchange(
        self,
        http: aiohttp.ClientSession,
        admitted: AdmittedRequest,
        url: str,
        passed: _PassedRequest,
    ) -> web.StreamResponse:
        request = admitted.request
        headers = _forwarded(request.headers) | {PASSED: self.secret_of(url) or "1"}
        if self._hosts is not None and self.secret_of(url):
            for name in [name for name in headers if name.lower() in _FORWARDED]:
                del headers[name]
            headers |= self._hosts.passed_on(request.remote, request.scheme, request.headers)
        target = url + request.rel_url.raw_path_qs
        async with http.request(
            request.method, target, headers=headers, data=admitted.body
        ) as answer:
            if answer.status == 503 and answer.content_length == 0:
                raise OwnerGone(url)  # it ends, and has read nothing: refusals carry a body
            response = web.StreamResponse(status=answer.status, headers=_forwarded(answer.headers))
            passed.response = response
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
        await response.write_eof()
        return response


class _PassedRequest:
    """A forwarded request, and how much of its answer was sent."""

    def __init__(self, request: web.Request) -> None:
        self.response: web.StreamResponse | None = None
        self._request = request

    async def ended(self, admitted: AdmittedRequest) -> web.StreamResponse:
        """End it properly: this replica shuts down, not the one that answers. Clients go on with an
        event stream by another way.
        """
        if self.response is not None:
            await self.response.write_eof()
            return self.response
        if self._request.method == "GET":
            return refusal(503, codes.BACKEND, "this replica ends; open the stream again")
        answer = await _given_up(admitted.body)
        if not answer:
            return refusal(503, codes.BACKEND, OVERDUE, headers=admitted.extra)
        return only_answer(admitted, answer, {})

    async def overdue(
        self, admitted: AdmittedRequest, exchange: asyncio.Task[web.StreamResponse]
    ) -> web.StreamResponse:
        """As `ended`, while the cancellation is handled, if this replica shuts down before the
        whole answer came.

        Raises:
            CancelledError: that, if it has another cause, or the client has a part of an answer
                that is no event stream.
        """
        begun = self.response
        if begun is not None and begun.content_type != "text/event-stream":
            raise
        if not answered_overdue(admitted):
            raise
        await stop(exchange)
        return await self.ended(admitted)

    def broken_off(self, url: str, why: str) -> web.StreamResponse:
        """End it: no answer will come any more.

        Raises:
            OwnerGone: nothing of the answer has been sent yet.
        """
        _log.info("replica_lost", replica=url, error=why)
        if self.response is None:
            raise OwnerGone(url)
        if self._request.transport is not None:
            self._request.transport.abort()
        return self.response


class OwnerGone(Exception):
    """The only replica that could answer does not."""


def was_passed(admitted: AdmittedRequest) -> bool:
    """Whether another replica forwarded the request: it is not forwarded twice."""
    return PASSED in admitted.request.headers


async def _id_in(body: bytes) -> bytes:
    """The id of the one request in a body; null where there is none, or a batch."""
    try:
        message = await step_by_step(jsonrpc.decoding(body))
    except Malformed:
        return jsonrpc.NULL
    return message.key if message.is_request else jsonrpc.NULL


async def _given_up(body: bytes) -> bytes:
    """The answer to each request in a body, that it comes too late; empty where there is none."""
    try:
        if not bodies.is_batch(body):
            return _overdue(body)
        items = await step_by_step(bodies.batch_items(body))
    except Malformed:
        return b""
    answers = [answer for item in items if (answer := _overdue(item))]
    return b"[" + b",".join(answers) + b"]" if answers else b""


def _overdue(body: bytes | Raw) -> bytes:
    try:
        message = jsonrpc.decode(body)
    except Malformed:
        return b""
    return refused(message.key, codes.BACKEND, OVERDUE) if message.is_request else b""


def _forwarded(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
